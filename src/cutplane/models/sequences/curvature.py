"""The curvature of a conditional random field, roughly: what a quasi-Newton method starts from.

A token with features ``x`` whose label is ``l`` with probability ``p`` bends the loss along the
coefficients of ``l`` by ``p (1 - p) x x'``. Neglected is that labels depend on each other, within a
token and between tokens. What is left falls into one matrix a label, and one number a transition,
and needs no inference: the probabilities are those of the last evaluation. What it saves:
docs/decisions/2026-11-18-structured-measured.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.models.sequences.losses import LabeledChains
from cutplane.models.sequences.risk import ChainPoint, ChainRisk

# The matrices of all labels have at most this many entries.
_MOST_ENTRIES = 1 << 23


@dataclass
class ChainCurvature:
    """The inverse of rough second derivatives at a point, regularizer included.

    Attributes
    ----------
    factors : ndarray of shape (n_labels, n_features, n_features)
        The inverse of Cholesky's factor of each label's matrix.
    inverses : ndarray
        The inverses of the numbers that belong to transitions and ends.
    """

    factors: NDArray[np.float64]
    inverses: Vector

    @classmethod
    def at(cls, risk: ChainRisk, point: ChainPoint, lam: float) -> ChainCurvature:
        """Return the curvature at a point of a conditional random field.

        ``lam`` is the second derivative of the regularizer.
        """
        p, shares = probabilities_of(risk.data, point.outcome.slopes().emissions)
        bends = shares[:, None] * np.clip(p * (1.0 - p), 0.0, None)
        factors = np.empty((risk.n_labels, risk.n_features, risk.n_features))
        for label in range(risk.n_labels):
            matrix = risk.rows.weighted_gram(np.ascontiguousarray(bends[:, label]))
            matrix[np.diag_indices_from(matrix)] += lam
            factors[label] = inverse_factor(matrix)
        return cls(factors, 1.0 / (bends_beside_emissions(risk, p, shares) + lam))

    def solve(self, slope: Vector) -> Vector:
        """Return the inverse times a vector."""
        n_labels, n_features, _ = self.factors.shape
        split = n_labels * n_features
        once = np.matmul(self.factors, slope[:split].reshape(n_labels, -1, 1))
        twice = np.matmul(np.swapaxes(self.factors, 1, 2), once)
        return np.concatenate([twice.ravel(), self.inverses * slope[split:]])


def probabilities_of(data: LabeledChains, slopes: Matrix) -> tuple[Matrix, Vector]:
    """Return the probabilities of tokens' labels, from derivatives by scores, and their weights."""
    shares = np.repeat(data.weights, data.chains.lengths)
    weighted = slopes.copy()
    weighted[np.arange(len(shares)), data.y] += shares
    return np.divide(weighted, shares[:, None], out=weighted, where=shares[:, None] > 0.0), shares


def bends_beside_emissions(risk: ChainRisk, p: Matrix, shares: Vector) -> Vector:
    """Return rough second derivatives by transitions and, if there are any, by ends."""
    chains = risk.data.chains
    here = chains.seconds
    before, after = p[here - 1], p[here]
    both = np.einsum("t,ta,tb->ab", shares[here], before, after, optimize=True)
    both -= np.einsum("t,ta,tb->ab", shares[here], before**2, after**2, optimize=True)
    parts = [both.ravel()]
    if risk.ends:
        bends = shares[:, None] * (p * (1.0 - p))
        parts += [bends[chains.firsts].sum(axis=0), bends[chains.lasts].sum(axis=0)]
    bends_of_all: Vector = np.concatenate(parts)
    return np.maximum(bends_of_all, 0.0)


def with_curvature(risk: object) -> ChainRisk | None:
    """Return a risk whose curvature is known, and small enough to be kept; else None."""
    if not isinstance(risk, ChainRisk) or not risk.label_probabilities:
        return None
    return risk if risk.n_labels * risk.n_features**2 <= _MOST_ENTRIES else None


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def inverse_factor(matrix: Matrix) -> Matrix:
    """Return the inverse of Cholesky's factor of a positive definite matrix.

    The lower triangle is read, and overwritten. By hand for the reason that is given in
    `cutplane.compute.products`.
    """
    n = len(matrix)
    inverse = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = np.sqrt(total) if i == j else total / matrix[j, j]
        inverse[i, i] = 1.0 / matrix[i, i]
        for k in range(i):
            factor = -matrix[i, k] * inverse[i, i]
            for j in range(k + 1):
                inverse[i, j] += factor * inverse[k, j]
    return inverse
