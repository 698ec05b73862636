"""The quadratic model of a step, and its minimum by coordinate descent.

With few features the matrix of second derivatives is made first: then a pass over the coordinates
reads none of the data. With many, the columns of those that may not be zero are read instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csc_array, csr_array

from cutplane.compute.arrays import Vector
from cutplane.compute.pace import seconds_left
from cutplane.compute.products import sum_over
from cutplane.data import Rows
from cutplane.regularizers.coordinates import Coordinates
from cutplane.solvers.coordinates.loops import (
    Columns,
    Numbers,
    Penalty,
    gram_descent,
    sparse_descent,
    sparse_moments,
    sparse_scores,
)

# The matrix of second derivatives may have so many columns, and cost as much as so many passes over
# the data. (A multiplication counts as in `methods.automatic`: 1 for sparse rows, 0.1 for dense.)
_MOST_COLUMNS = 1000
_WORTH_PASSES = 30.0
_DENSE = 0.1
# Passes over the chosen columns: each reads data, or the matrix.
_MOST_PASSES = 100
_MOST_GRAM_PASSES = 2000
# About how long a pass takes for each entry that it reads.
_SECONDS = 3e-9


class Step(NamedTuple):
    """Where the minimum of a model is: the coordinates, the scores' change, the intercept's."""

    w: Vector
    speed: Vector
    intercept: float


class QuadraticModel(NamedTuple):
    """What the minimum of the model depends on: see `kernels`."""

    w: Vector
    slope: Vector
    slopes: Vector
    curvatures: Vector
    intercept: bool
    form: Coordinates

    @property
    def total_curvature(self) -> float:
        """The sum of curvatures, infinite where no intercept moves."""
        total = sum_over(self.curvatures) if self.intercept else 0.0
        return total if total > 0.0 else np.inf


def prefers_gram(rows: Rows) -> bool:
    """Say whether the matrix of second derivatives is worth its price."""
    m, d = rows.shape
    length = rows.n_entries / max(m, 1)
    price = (1.0 if rows.sparse else _DENSE) * 0.5 * length * length
    return d <= _MOST_COLUMNS and price <= _WORTH_PASSES * 2.0 * length


def minimum_by_gram(rows: Rows, model: QuadraticModel, enough: float) -> Step:
    """Minimize the model over all coordinates."""
    gram = rows.weighted_gram(model.curvatures)
    total, mixed = model.total_curvature, np.zeros(len(model.w))
    if total < np.inf:
        mixed = rows.pullback(model.curvatures)
        gram -= np.outer(mixed, mixed / total)
    w, slope, form = model.w.copy(), model.slope.copy(), model.form
    penalty = penalty_of(form)
    gram_descent(gram, slope, penalty, w, enough, _in_time(_MOST_GRAM_PASSES, gram.size))
    step = w - model.w
    return Step(w, rows.scores(step), -float(mixed @ step) / total)


def minimum_by_columns(
    columns: Columns, chosen: Numbers, places: Numbers, model: QuadraticModel, enough: float
) -> Step:
    """Minimize the model over the chosen coordinates, whose columns are at these places."""
    form, w = model.form, model.w[chosen]
    some = Coordinates(form.l1, *(each[chosen] for each in form[1:]))
    second, first = sparse_moments(columns, places, model.curvatures)
    total = model.total_curvature
    intercept = sparse_descent(
        columns, places, model.slopes.copy(), model.curvatures, second, first, total,
        penalty_of(some), w, enough, _in_time(_MOST_PASSES, columns[0].size),
    )  # fmt: skip
    speed = np.zeros(len(model.slopes))
    sparse_scores(columns, places, w - model.w[chosen], speed)
    moved = model.w.copy()
    moved[chosen] = w
    return Step(moved, speed, intercept)


def _in_time(most: int, n_entries: int) -> int:
    """Return how many passes over so many entries there is time for: one, whatever is left."""
    return int(max(1.0, min(most, seconds_left() / (_SECONDS * max(n_entries, 1)))))


def columns_of(rows: Any, chosen: Numbers) -> tuple[Columns, Numbers]:
    """Return columns of the data, and at which places among them the chosen ones are."""
    if rows.sparse:
        if "_columns" not in vars(rows):  # all of them, made once
            by_row = csr_array((rows.values, rows.indices, rows.starts), shape=rows.shape)
            rows._columns = _entries(by_row.tocsc())
        return rows._columns, chosen
    return _entries(csc_array(rows.X[:, chosen])), np.arange(len(chosen))


def _entries(matrix: Any) -> Columns:
    return matrix.data, matrix.indices, matrix.indptr


def penalty_of(form: Coordinates) -> Penalty:
    """Return a regularizer's numbers as kernels take them."""
    squares = np.column_stack([form.l2, form.l2 * form.center, form.lower, form.upper])
    return form.l1, squares
