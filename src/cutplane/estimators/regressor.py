"""Linear regression with a certificate.

How good its numbers are is told by the measure that goes with what the loss makes them. The mean
minimizes squares, and R2 is the share of them that a model saves. A quantile minimizes the pinball
loss: of two models of the 90 % quantile, R2 prefers the one that is nearer to the mean.

Losses that give up on outliers have a width in units of the targets, which no number suits for all
of them. So it is a multiple of how large the errors of most examples are, and that is told by the
absolute loss, which outliers do little harm to:

    width = times * max(1.4826 * median |residual|, floor)

For normal noise the median is a standard deviation over 1.4826. With that, targets that are c times
as large have a width c times as large, and a model c times as large: for the same lam if the loss
is like squares near zero, for ``lam / c`` if it is like absolute values. The absolute loss is
fitted to targets of size one, with the lam that goes with them, so that it scales alike.

Where nearly all examples are fitted exactly, their errors say little. Then the floor counts: what
an error must be to cost as much as the regularizer. With less, the best model would be zero.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import field, replace
from math import sqrt
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.metaestimators import available_if

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import dot
from cutplane.data import Rows
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.cautions import warn
from cutplane.estimators.description import (
    STRENGTH,
    Description,
    Positive,
    Targets,
    lam_of,
    weights_of,
)
from cutplane.estimators.estimator import by_parts, estimator
from cutplane.estimators.fit import Examples, Plan, loose_solution, share_of_time
from cutplane.estimators.linear import Penalized, can_stream
from cutplane.losses import (
    NU_REGRESSION,
    REGRESSION,
    ROBUST_REGRESSION,
    Absolute,
    Loss,
    Poisson,
    Quantile,
)
from cutplane.metrics.measures import d2_of_counts, d2_of_quantiles
from cutplane.regularizers import L2
from cutplane.risks import ScoredRisk
from cutplane.risks.scored import ScoredPoint
from cutplane.solvers.registry import ROBUST_METHODS


class NumberMeasure(NamedTuple):
    """A measure of predictions, from targets, predictions and weights: 1 at best, 0 of a constant.

    It is the better, the nearer each prediction is to its target from the side where it is.
    """

    name: str
    share_saved: Callable[[Vector, Vector, Vector], float]


def measure_of(loss: Loss) -> NumberMeasure | None:
    """Return the measure that goes with a loss, in place of R2; None if that does."""
    if isinstance(loss, Quantile):
        level = np.array([loss.quantile])

        def share_saved(y: Vector, found: Vector, weights: Vector) -> float:
            return d2_of_quantiles(y, found[:, None], level, weights)

        return NumberMeasure("d2_pinball", share_saved)
    if isinstance(loss, Poisson):
        return NumberMeasure("d2_poisson", d2_of_counts)
    return None


class NumberScores(RegressorMixin):
    """A regressor that is scored by what its loss makes it predict."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return how much better the predictions are than the best constant: 1 at best.

        With the loss "quantile", it is the share by which their pinball loss is lower
        (scikit-learn's ``d2_pinball_score``); with "poisson", the share by which their deviance is
        (``d2_tweedie_score``, as scikit-learn's `PoissonRegressor` has it); with all other losses
        it is R2, the share by which their squared error is.
        """
        measure = measure_of(self.loss_function())
        if measure is None:
            of_squares: float = super().score(X, y, sample_weight)
            return of_squares
        return validated(measure.share_saved, y, self.predict(X), sample_weight)


def validated(
    measure: Callable[[Vector, Any, Vector], float], y: Any, predicted: Any, sample_weight: Any
) -> float:
    """Return a measure of predictions; that of a single one is not defined, as in scikit-learn."""
    y = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"))
    predicted = np.asarray(predicted)
    check_consistent_length(predicted, y, sample_weight)
    if len(y) < 2:
        warn("the score is not defined for less than two examples", UndefinedMetricWarning)
        return float("nan")
    return measure(y, predicted, weights_of(sample_weight, len(y)))


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
    lam = 1e-4  # where it is not known yet, and all of its path has one width
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
    point = result.point
    assert isinstance(point, ScoredPoint)
    errors = np.abs(point.scores + point.intercept - y / size)
    cost = 0.5 * lam * dot(result.w, result.w)
    floor = cost if unit.power == 1 else sqrt(2.0 * cost)
    # A standard deviation of normal noise is so many times the median of its size.
    scale = max(1.4826 * _median(errors, weights), floor)
    return size * (scale or 1.0), result.evaluations


def _median(values: Vector, weights: Vector) -> float:
    return float(np.quantile(values, 0.5, weights=weights, method="inverted_cdf"))


def _size(values: Vector, weights: Vector) -> float:
    """Return the size of most values; that of all, or 1, if most are zero."""
    sizes = np.abs(values)
    return _median(sizes, weights) or float(np.average(sizes, weights=weights)) or 1.0


@estimator
class LinearRegressor(NumberScores, Penalized):
    """Linear regression that minimizes ``lam/2 |w|^2 + mean loss`` and proves how close it came.

    Parameters
    ----------
    loss : str or Loss, default="squared"
        "squared", "absolute", "quantile", "epsilon_insensitive", "squared_epsilon_insensitive",
        "huber" or "poisson"; "nu_insensitive", whose width follows from a share ``nu`` of the
        examples; or one that gives up on outliers, which is not convex, so that
        nothing is proven: "clipped_absolute" or "tukey".
    fit_intercept : bool, default=True
        Whether to fit an intercept. It is not regularized.
    quantile : float, default=0.5
        Which quantile the loss "quantile" fits.
    epsilon : float, default=0.1
        Width of the zone without loss of "epsilon_insensitive" and "squared_epsilon_insensitive".
    nu : float, default=0.5
        With "nu_insensitive", the largest share of examples that are off by more than the width of
        the zone without loss.
    delta : float, default=1.35
        Residual from which on the loss "huber" is linear.
    clip : float, optional
        The most that an example can cost with "clipped_absolute", in units of the targets. By
        default it is found: three times the scale of the errors, which is 1.4826 times the median
        size of the residuals of the absolute loss.
    width : float, optional
        Residual from which on "tukey" is flat, in units of the targets. By default 4.685 times the
        scale of the errors, found in the same way.
    n_starts : int, default=1
        How many starts to try with a loss that is not convex: the solution of a convex one, then
        those of bootstrap samples. The best is kept.
    random_state : int or None, default=0
        Seed of the bootstrap samples.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    clip_, width_ : float
        Only if they were found: the ``clip`` or the ``width`` that was used.
    start_certificate_ : Certificate
        Only with a loss that is not convex: what is proven of the convex fit that was the start.
    start_objectives_ : ndarray of shape (n_starts,)
        Only with a loss that is not convex: the objective that was reached from each start.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import cutplane as cp
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = cp.LinearRegressor("quantile", quantile=0.9, lam=1e-5).fit(X, y)
    >>> round(float((y <= model.predict(X)).mean()), 2)
    0.9
    """

    description = Description(
        task="regression",
        targets=Targets.NUMBERS,
        losses=REGRESSION | NU_REGRESSION | ROBUST_REGRESSION,
        methods=ROBUST_METHODS,
        saved=STRENGTH | {unit.found: (Positive | None, None) for unit in UNITS.values()},
    )

    loss: str | Loss = field(default="squared", kw_only=False)
    fit_intercept: bool = True
    quantile: float = 0.5
    epsilon: float = 0.1
    nu: float = 0.5
    delta: float = 1.35
    clip: float | None = None
    width: float | None = None
    n_starts: int = 1
    random_state: int | None = 0  # type: ignore[assignment]

    @available_if(can_stream)
    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, window: int | None = None
    ) -> Self:
        """Learn from a batch of a stream, each example once; see docs/streams.md.

        Parameters
        ----------
        X, y, sample_weight : array-like
            As for `fit`.
        window : int, optional
            How many examples, the last ones, are kept for `certify`: see
            `LinearClassifier.partial_fit`.

        Returns
        -------
        LinearRegressor
            Itself, with ``n_seen_`` and ``seen_lower_bound_`` as a classifier has them.
        """
        from cutplane.estimators.streams import batch, learn

        with batch(self, X):
            examples = self._examples(X, y, sample_weight, reset=self._memory is None)
            target = np.asarray(examples.y, dtype=np.float64)
            self.loss_function().check_targets(target)
        return learn(self, examples.X, [target], examples.weights, window)

    def loss_function(self) -> Loss:
        """Return the loss that the parameters describe, with the width that was found for it."""
        if (unit := self._unit_to_find()) is None:
            return super().loss_function()
        given = {unit.parameter: vars(self)[unit.found]} if unit.found in vars(self) else {}
        return ROBUST_REGRESSION[str(self.loss)](**given)

    def _unit_to_find(self) -> Unit | None:
        """Return what is to be found of the loss; None if it needs nothing, or has it."""
        unit = UNITS.get(self.loss) if isinstance(self.loss, str) else None
        return unit if unit is not None and getattr(self, unit.parameter) is None else None

    @by_parts
    def predict(self, X: Any) -> Any:
        """Return the prediction for each example."""
        return self.loss_function().predict(self._scores(X)[:, 0])

    def _fit_collection(self, X: Any, y: Any, sample_weight: Any) -> None:
        from cutplane.cluster.collections import fit_collection
        from cutplane.cluster.risk import ShardedRisk

        def risks(sample: Any, masses: Any) -> list[ShardedRisk]:
            return [ShardedRisk(sample, self.loss_function(), intercept=self.fit_intercept)]

        fit_collection(self, X, y, sample_weight, risks)

    def _plan(self, examples: Examples) -> Plan:
        y = np.asarray(examples.y, dtype=np.float64)
        rows, evaluations = self._rows(examples.X), 0
        for unit in UNITS.values():  # of an earlier fit
            self.__dict__.pop(unit.found, None)
        if (unit_to_find := self._unit_to_find()) is not None:
            scale, evaluations = scale_of_errors(self, rows, y, examples, unit_to_find)
            setattr(self, unit_to_find.found, unit_to_find.times * scale)
        loss = self.loss_function()
        risk = ScoredRisk(rows, y, loss, weights=examples.weights, intercept=self.fit_intercept)
        plan = self._plan_of(examples, [risk], varied=bool(np.ptp(y) > 0.0))
        return replace(plan, evaluations=evaluations)

    def _model(self, coef: Matrix, intercept: Vector) -> Attributes:
        return {"coef_": coef[0], "intercept_": float(intercept[0])}
