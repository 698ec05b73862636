"""Linear regression with a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from cutplane.compute.arrays import Matrix, Vector
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.collections import by_parts
from cutplane.estimators.description import STRENGTH, Description, Positive, Targets
from cutplane.estimators.estimator import estimator
from cutplane.estimators.fit import Examples, Plan
from cutplane.estimators.linear.numbers import NumberScores
from cutplane.estimators.linear.penalties import Constrained
from cutplane.estimators.linear.scales import UNITS, Unit, scale_of_errors
from cutplane.estimators.linear.streams import Streams, can_stream
from cutplane.losses import NU_REGRESSION, REGRESSION, ROBUST_REGRESSION, Loss
from cutplane.risks import ScoredRisk
from cutplane.solvers.registry import ROBUST_METHODS

if TYPE_CHECKING:
    from cutplane.cluster.risk import ShardedRisk


@estimator
class LinearRegressor(NumberScores, Constrained, Streams):
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

    loss: Any = field(default="squared", kw_only=False)
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
        with self._batch(X):
            examples = self._examples(X, y, sample_weight, reset=self._memory is None)
            target = np.asarray(examples.y, dtype=np.float64)
            self.loss_function().check_targets(target)
        return self._learn(examples.X, [target], examples.weights, window)

    def loss_function(self) -> Loss:
        """Return the loss that the parameters describe, with the width that was found for it."""
        if (unit := self._unit_to_find()) is None:
            return super().loss_function()
        given = {unit.parameter: vars(self)[unit.found]} if unit.found in vars(self) else {}
        return ROBUST_REGRESSION[self.loss](**given)

    def _unit_to_find(self) -> Unit | None:
        """Return what is to be found of the loss; None if it needs nothing, or has it."""
        unit = UNITS.get(self.loss) if isinstance(self.loss, str) else None
        return unit if unit is not None and getattr(self, unit.parameter) is None else None

    @by_parts
    def predict(self, X: Any) -> Any:
        """Return the prediction for each example."""
        return self.loss_function().predict(self._scores(X)[:, 0])

    def _fit_collection(self, X: Any, y: Any, sample_weight: Any) -> None:
        from cutplane.cluster.calls import Target
        from cutplane.cluster.estimators import fit_collection, target_risks

        def risks(sample: Any, masses: Any) -> Sequence[ShardedRisk]:
            return target_risks(
                sample, self.loss_function(), [Target()], intercept=self.fit_intercept
            )

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
