"""Scores of functions in the span of the examples: ``f = sum_i beta_i k(x_i, .)``.

A function is kept twice: by its coefficients, and by its values at the examples, ``K beta``. So the
parameters are ``w = (beta, K beta)``. A plane with slopes ``q`` by the scores is kept as ``(K q,
q) / 2``, whose product with ``w`` is ``q.K beta``. Then no inner product of functions or planes
needs the kernel matrix, and no inverse of it is ever taken: see
`cutplane.regularizers.KernelNorm`. The best function of all those of the kernel's space, of
whatever dimension, lies in this span, and bounds hold for that space.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.maps.rows import Examples, Rows, ScoreMap


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
