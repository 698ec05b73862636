"""The curvature of a conditional random field, roughly: what a quasi-Newton method starts from.

A token with features ``x`` whose label is ``l`` with probability ``p`` bends the loss along the
coefficients of ``l`` by ``p (1 - p) x x'``. Neglected is that labels depend on each other, within a
token and between tokens. What is left falls into one matrix a label, and one number a transition,
and needs no inference: the probabilities are those of the last evaluation. What it saves:
docs/decisions/2026-11-18-structured-measured.md.

Where a network computes the scores, its layers have a curvature each, which takes an evaluation.
For a linear layer with inputs ``a`` and outputs ``z``, a token bends the loss along the weights by

    E[g g'] (x) a a',       g = dloss/dz for a label drawn from the probabilities of the field

which is the Gauss-Newton matrix, without what couples layers and tokens. Its sum over tokens is
nearly diagonal in the basis ``U (x) V``, where U are the eigenvectors of the sum of ``g g'``, and
V those of ``a a'`` (J. Martens, R. Grosse 2015); there the diagonal is computed as it is (T.
George, C. Laurent, X. Bouthillier, N. Ballas, P. Vincent 2018). Transitions have one number each.

Where layers are hardly bent, the loss is far from that parabola, and steps must be kept short: the
mean of the layer that is bent most is added to all of them.

A part of the sequences is enough: curvature says where to look, and nothing else hangs on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.data import TorchScores
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

    factors: Annotated[NDArray[np.float64], "f8[l, d, d]"]
    inverses: Annotated[Vector, "f8[*]"]

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
    return np.asarray(np.maximum(np.concatenate(parts), 0.0))


def with_curvature(risk: object) -> ChainRisk | None:
    """Return a risk whose curvature is known, and small enough to be kept; else None."""
    if not isinstance(risk, ChainRisk) or not risk.loss.probabilities:
        return None
    if not risk.map.linear or risk.map.observed or not risk.rows.second_derivatives:
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


class CurvatureSettings(NamedTuple):
    """What was chosen on data (docs/decisions/2026-11-18-structured-measured.md), or by size.

    Attributes
    ----------
    tokens : int
        About so many are looked at.
    damping : float
        How much of the mean second derivative of the layer that is bent most is added to all.
    widest : int
        Layers with more inputs or outputs have no curvature: eigenvectors would take longer than a
        pass.
    """

    tokens: int = 8192
    damping: float = 1.0
    widest: int = 2048


SETTINGS = CurvatureSettings()


class LayerCurvature(NamedTuple):
    """The inverse of the rough second derivatives by the weights and biases of a layer.

    Attributes
    ----------
    output_axes, input_axes : ndarray
        Eigenvectors, as columns.
    inverses : ndarray of shape (n_outputs, n_inputs)
        In the basis that these make; if the layer has a bias, it belongs to the last input.
    bias : bool
    """

    output_axes: Matrix
    input_axes: Matrix
    inverses: Matrix
    bias: bool

    def solve(self, slope: Vector) -> Vector:
        """Return the inverse times a vector."""
        n_outputs, n_inputs = self.inverses.shape
        n_weights = n_outputs * (n_inputs - self.bias)
        matrix = slope[:n_weights].reshape(n_outputs, -1)
        if self.bias:
            matrix = np.concatenate([matrix, slope[n_weights:, None]], axis=1)
        turned = self.output_axes.T @ matrix @ self.input_axes
        turned *= self.inverses
        matrix = self.output_axes @ turned @ self.input_axes.T
        if not self.bias:
            return matrix.ravel()
        return np.concatenate([matrix[:, :-1].ravel(), matrix[:, -1]])


@dataclass
class NetworkCurvature:
    """The inverse of rough second derivatives at a point, regularizer included.

    Attributes
    ----------
    layers : list of LayerCurvature
    inverses : ndarray
        The inverses of the numbers that belong to transitions and ends.
    """

    layers: list[LayerCurvature]
    inverses: Vector

    @classmethod
    def at(
        cls, risk: ChainRisk, w: Vector, lam: float, *, damping: float = SETTINGS.damping
    ) -> NetworkCurvature:
        """Return the curvature at ``w``. It counts as an evaluation, and takes as long as one.

        ``lam`` is the second derivative of the regularizer.
        """
        from threadpoolctl import threadpool_limits

        sample = risk.part(slice(None, None, -(-risk.data.chains.n_tokens // SETTINGS.tokens)))
        slopes = sample.evaluate(sample.scores(w)).slopes().emissions
        risk.evaluations += 1
        risk.inferences += sample.inferences
        p, shares = probabilities_of(sample.data, slopes)
        # For a label drawn at random the outer product of the slopes has the right mean.
        drawn = (np.cumsum(p, axis=1) < np.random.default_rng(0).random((len(p), 1))).sum(axis=1)
        p_minus_drawn = p.copy()
        p_minus_drawn[np.arange(len(p)), np.minimum(drawn, risk.n_labels - 1)] -= 1.0
        network: Any = sample.map
        # One thread, so that the number of threads leaves no trace in the result.
        with threadpool_limits(1, "blas"):
            traces = network.layer_traces(
                w[: network.n_parameters], np.sqrt(shares)[:, None] * p_minus_drawn
            )
            bases = [(_axes(trace.slopes), _axes(trace.inputs)) for trace in traces]
            bends = [
                ((trace.slopes @ rows) ** 2).T @ (trace.inputs @ columns) ** 2
                for trace, (rows, columns) in zip(traces, bases, strict=True)
            ]
        more = lam + damping * max(float(each.mean()) for each in bends)
        layers = [
            LayerCurvature(*basis, 1.0 / (each + more), trace.bias)
            for trace, basis, each in zip(traces, bases, bends, strict=True)
        ]
        return cls(layers, 1.0 / (bends_beside_emissions(sample, p, shares) + lam))

    def solve(self, slope: Vector) -> Vector:
        """Return the inverse times a vector."""
        from threadpoolctl import threadpool_limits

        sizes = [layer.inverses.size for layer in self.layers]
        *parts, rest = np.split(slope, np.cumsum(sizes))
        with threadpool_limits(1, "blas"):
            solved = [layer.solve(part) for layer, part in zip(self.layers, parts, strict=True)]
        return np.concatenate([*solved, self.inverses * rest])


def _axes(rows: Matrix) -> Matrix:
    """Return the eigenvectors of the second moments of rows."""
    moments = (rows.T @ rows).astype(np.float64)
    return np.asarray(np.linalg.eigh(moments).eigenvectors)


def with_network_curvature(risk: object) -> ChainRisk | None:
    """Return a risk that is a random field on linear layers, none of them too wide; or None."""
    if not isinstance(risk, ChainRisk) or not risk.loss.probabilities:
        return None
    widest = risk.map.widest_layer if isinstance(risk.map, TorchScores) else None
    return risk if widest is not None and widest <= SETTINGS.widest else None
