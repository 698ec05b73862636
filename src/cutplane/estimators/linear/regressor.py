"""Linear regression with a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if

from cutplane.compute.arrays import Matrix, Vector
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.description import Description, Targets
from cutplane.estimators.estimator import estimator
from cutplane.estimators.fit import Examples, Plan
from cutplane.estimators.linear.penalties import Constrained
from cutplane.estimators.linear.sharded import by_parts, fit_collection, target_risks
from cutplane.estimators.linear.streams import Streams, can_stream
from cutplane.losses import NU_REGRESSION, REGRESSION, ROBUST_REGRESSION
from cutplane.methods.registry import ROBUST_METHODS
from cutplane.risks import ScoredRisk
from cutplane.risks.shards.calls import Target
from cutplane.risks.shards.risk import ShardedRisk


@estimator
class LinearRegressor(RegressorMixin, Constrained, Streams):
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
    clip : float, default=3.0
        The most that an example can cost with "clipped_absolute".
    width : float, default=4.685
        Residual from which on "tukey" is flat.
    n_starts : int, default=1
        How many starts to try with a loss that is not convex: the solution of a convex one, then
        those of bootstrap samples. The best is kept.
    random_state : int or None, default=0
        Seed of the bootstrap samples.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
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
    )

    loss: Any = field(default="squared", kw_only=False)
    fit_intercept: bool = True
    quantile: float = 0.5
    epsilon: float = 0.1
    nu: float = 0.5
    delta: float = 1.35
    clip: float = 3.0
    width: float = 4.685
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
        with self._unchanged_if_refused():
            examples = self._examples(X, y, sample_weight, reset=self._memory is None)
            target = np.asarray(examples.y, dtype=np.float64)
            self.loss_function().check_targets(target)
        return self._learn(examples.X, [target], examples.weights, window)

    @by_parts
    def predict(self, X: Any) -> Any:
        """Return the prediction for each example."""
        return self.loss_function().predict(self._scores(X)[:, 0])

    def _fit_collection(self, X: Any, y: Any, sample_weight: Any) -> None:
        def risks(sample: Any, masses: Any) -> Sequence[ShardedRisk]:
            return target_risks(
                sample, self.loss_function(), [Target()], intercept=self.fit_intercept
            )

        fit_collection(self, X, y, sample_weight, risks)

    def _plan(self, examples: Examples) -> Plan:
        y = np.asarray(examples.y, dtype=np.float64)
        loss, rows = self.loss_function(), self._rows(examples.X)
        risk = ScoredRisk(rows, y, loss, weights=examples.weights, intercept=self.fit_intercept)
        return self._plan_of(examples, [risk], varied=bool(np.ptp(y) > 0.0))

    def _model(self, coef: Matrix, intercept: Vector) -> Attributes:
        return {"coef_": coef[0], "intercept_": float(intercept[0])}
