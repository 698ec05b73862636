"""How far off an outlier is: the unit of losses that give up on them, where none is given.

These losses have a width in units of the targets, which no number suits for all of them. So it is a
multiple of how large the errors of most examples are, and that is told by the absolute loss, which
outliers do little harm to:

    width = times * max(1.4826 * median |residual|, floor)

For normal noise the median is a standard deviation over 1.4826. With that, targets that are c times
as large have a width c times as large, and a model c times as large: for the same lam if the loss
is like squares near zero, for ``lam / c`` if it is like absolute values. The absolute loss is
fitted to targets of size one, with the lam that goes with them, so that it scales alike.

Where nearly all examples are fitted exactly, their errors say little. Then the floor counts: what
an error must be to cost as much as the regularizer. With less, the best model would be zero.
"""

from __future__ import annotations

from copy import copy
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.data import Rows
from cutplane.estimators.fit import Examples, share_of_time
from cutplane.estimators.linear.starts import loose_solution
from cutplane.estimators.parameters import lam_of
from cutplane.losses import Absolute
from cutplane.regularizers import L2
from cutplane.risks import ScoredRisk

_NORMAL = 1.4826  # a standard deviation of normal noise over the median of its size
# For targets of size one, where lam is not known yet, and all of its path has one width.
_LAM = 1e-4


class Unit(NamedTuple):
    """What is a multiple of the errors' scale, and how the loss grows near zero."""

    parameter: str
    times: float
    power: int

    @property
    def found(self) -> str:
        """The fitted attribute that has what was used."""
        return f"{self.parameter}_"


UNITS = {"clipped_absolute": Unit("clip", 3.0, 1), "tukey": Unit("width", 4.685, 2)}
"""Losses whose width is found, by name. With 4.685, Tukey's has 95 % of the efficiency of squares
for normal noise."""


def scale_of_errors(
    model: Any, rows: Rows, y: Vector, examples: Examples, unit: Unit
) -> tuple[float, int]:
    """Return how large the errors of most examples are, and what it took to evaluate them."""
    weights, intercept = examples.weights, model.fit_intercept
    if not weights.any():
        return 1.0, 0  # which will be refused
    size = _size(y - _median(y, weights) if intercept else y, weights)
    lam = _LAM
    if model.lam is not None or model.C is not None:
        lam = lam_of(model.lam, model.C, float(weights.sum())) * size ** (2 - unit.power)
    alone = copy(model)
    alone.checkpoint = None  # a fit that goes on finds the same again, each fold its own
    result = loose_solution(
        alone,
        ScoredRisk(rows, y / size, Absolute(), weights=weights, intercept=intercept),
        L2(lam),
        time_limit=share_of_time(model.time_limit, examples.begin, 3),
        part="",
    )
    point: Any = result.point
    errors = np.abs(point.scores + point.intercept - y / size)
    cost = 0.5 * lam * dot(result.w, result.w)
    floor = cost if unit.power == 1 else sqrt(2.0 * cost)
    scale = max(_NORMAL * _median(errors, weights), floor)
    return size * (scale or 1.0), result.evaluations


def _median(values: Vector, weights: Vector) -> float:
    return float(np.quantile(values, 0.5, weights=weights, method="inverted_cdf"))


def _size(values: Vector, weights: Vector) -> float:
    """Return the size of most values; that of all, or 1, if most are zero."""
    sizes = np.abs(values)
    return _median(sizes, weights) or float(np.average(sizes, weights=weights)) or 1.0
