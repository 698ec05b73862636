"""Functions in the span of the examples, and their norm.

Scores of functions in the span of the examples: ``f = sum_i beta_i k(x_i, .)``.

A function is kept twice: by its coefficients, and by its values at the examples, ``K beta``. So the
parameters are ``w = (beta, K beta)``. A plane with slopes ``q`` by the scores is kept as ``(K q,
q) / 2``, whose product with ``w`` is ``q.K beta``. Then no inner product of functions or planes
needs the kernel matrix, and no inverse of it is ever taken: see
`cutplane.regularizers.KernelNorm`. The best function of all those of the kernel's space, of
whatever dimension, lies in this span, and bounds hold for that space.

The squared norm of a function in the span of examples, without its kernel matrix.

With ``w = (beta, z)``, ``z = K beta``, and planes kept as ``(K q, q) / 2`` (see
`cutplane.models.gram.norm`):

r(w)  = lam/2 * beta.z                                        = lam/2 |f|^2
r*(u) = (v, q)' (q, v) / lam    for u = (v, q), v = K q       attained at  w = 2 (q, v) / lam
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.protocols import Quadratic
from cutplane.data.rows import Examples, Rows, ScoreMap
from cutplane.regularizers.l2 import Centered


class KernelMap(ScoreMap):
    """From a function in the span of the examples to its values at some of them.

    Parameters
    ----------
    rows : Rows
        The rows of the kernel matrix that belong to these examples.
    places : ndarray, optional
        Their numbers among all examples; all of them by default.
    """

    def __init__(self, rows: Rows, places: Any = None) -> None:
        self.rows, self.places = rows, places
        self.n_functions = rows.shape[1]
        self.n_parameters = 2 * rows.shape[1]

    def values(self, beta: Vector) -> Vector:
        """Return ``K beta``: for all examples, coefficients of zero cost nothing."""
        return self.rows.pullback(beta) if self.places is None else self.rows.scores(beta)

    def scores(self, w: Vector) -> Vector:
        """Return the values at the examples, computed afresh from the coefficients."""
        return self.values(w[: self.n_functions])

    def pullback(self, slopes: Vector) -> Vector:
        """Return the plane of these slopes, without its offset."""
        images = self.rows.pullback(slopes)
        if self.places is not None:
            everywhere = np.zeros(self.n_functions)
            np.add.at(everywhere, self.places, slopes)
            slopes = everywhere
        return 0.5 * np.concatenate([images, slopes])

    def part(self, examples: Examples) -> KernelMap:
        """Return the map for some examples, of the same functions."""
        places = np.arange(self.n_functions) if self.places is None else self.places
        return KernelMap(self.rows.part(examples), places[examples])

    def __str__(self) -> str:
        return f"kernel of {self.n_functions} examples"


class KernelNorm(Centered):
    """Squared norm ``lam/2 |f|^2`` of a function, kept by coefficients and values.

    Parameters
    ----------
    lam : float
        Strength, positive.
    """

    def __init__(self, lam: float) -> None:
        super().__init__(lam)

    def value(self, w: Vector) -> float:
        """Return ``r(w)``."""
        beta, z = _halves(w)
        return max(0.5 * self.lam * dot(beta, z), 0.0)

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the ``w`` that attains it."""
        image = self.dual_metric(u)
        return max(dot(u, image) / (2.0 * self.lam), 0.0), image / self.lam

    def dual_metric(self, slope: Vector) -> Vector:
        """Return the function whose product with another slope is their inner product."""
        values, duals = _halves(slope)
        return 2.0 * np.concatenate([duals, values])

    def at_center(self, slope: Vector) -> float:
        """Return zero: the function that costs nothing."""
        return 0.0

    def along(self, start: Vector, end: Vector) -> Quadratic:
        """Return the regularizer on the ray from ``start`` through ``end``."""
        beta, z = _halves(start)
        toward, rise = _halves(end - start)
        return Quadratic(
            slope=0.5 * self.lam * (dot(beta, rise) + dot(toward, z)),
            curvature=max(self.lam * dot(toward, rise), 0.0),
        )

    def gradient(self, w: Vector) -> Vector:
        """Return the derivative at ``w``, as a slope."""
        beta, z = _halves(w)
        return 0.5 * self.lam * np.concatenate([z, beta])


def _halves(w: Vector) -> tuple[Vector, Vector]:
    m = len(w) // 2
    return w[:m], w[m:]
