"""Several quantiles at once, in order."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Self

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.collections import by_parts
from cutplane.estimators.description import (
    STRENGTH,
    Description,
    Layout,
    Measures,
    NotNegative,
    Targets,
)
from cutplane.estimators.estimator import estimator
from cutplane.estimators.fit import Examples, Plan
from cutplane.estimators.linear.model import LinearModel, split_off_shifts
from cutplane.estimators.linear.numbers import validated
from cutplane.losses import NonCrossing, Quantile, SharedScore
from cutplane.metrics.numbers import d2_of_quantiles
from cutplane.risks import ScoredRisk


@estimator
class LinearQuantiles(LinearModel):
    """Linear models of several quantiles, fitted together so that they do not cross.

    It minimizes ``lam/2 |W|^2`` plus the mean of the quantiles' pinball losses, added up, and a
    penalty on each training example at which a lower quantile is above a higher one. Predictions
    are sorted, so that no prediction ever crosses, wherever it is made.

    Parameters
    ----------
    quantiles : sequence of floats, default=(0.1, 0.5, 0.9)
        Strictly between 0 and 1, in ascending order.
    parallel : bool, default=False
        Give all quantiles the same slopes and each an intercept of its own (composite quantile
        regression). Such quantiles cannot cross, and the penalty has no part.
    crossing_penalty : float, default=1.0
        Price of a unit of crossing at an example, for each two neighboring quantiles.
    lam : float, optional
        Strength of the regularizer; 1e-4 unless ``C`` is given. Unless they are parallel, a 900th
        of it holds the intercepts near the quantiles of the targets, as seen from the mean of the
        features.

    Attributes
    ----------
    coef_ : ndarray of shape (n_quantiles, n_features)
    intercept_ : ndarray of shape (n_quantiles,)
    largest_crossing_ : float
        By how much a lower quantile is above the next one at a training example at most, before
        sorting; 0.0 if nowhere.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import cutplane as cp
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = cp.LinearQuantiles([0.1, 0.5, 0.9], lam=1e-5).fit(X, y)
    >>> model.predict(X).shape
    (442, 3)
    """

    description = Description(
        task="quantiles",
        only_loss="quantiles",
        targets=Targets.NUMBERS,
        measures=Measures.QUANTILES,
        saved=STRENGTH | {"largest_crossing_": (NotNegative | None, None)},
    )

    quantiles: Any = field(default=(0.1, 0.5, 0.9), kw_only=False)
    parallel: bool = False
    crossing_penalty: float = 1.0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: D102
        super().fit(X, y, sample_weight)
        falls = -np.diff(self._scores(X), axis=1)
        self.largest_crossing_ = max(float(falls.max(initial=0.0)), 0.0)
        return self

    fit.__doc__ = LinearModel.fit.__doc__

    @by_parts
    def predict(self, X: Any) -> Any:
        """Return the quantiles of each example, sorted.

        Sorting never raises the pinball losses of all quantiles together (Chernozhukov et al.
        2010).

        Returns
        -------
        ndarray of shape (n_samples, n_quantiles)
        """
        return np.sort(self._scores(X), axis=1)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return by which share the pinball losses are below those of constant quantiles."""
        quantiles = np.asarray(self.quantiles, dtype=np.float64)
        return validated(
            lambda y, predicted, weights: d2_of_quantiles(y, predicted, quantiles, weights),
            y,
            self.predict(X),
            sample_weight,
        )

    def layout(self) -> Layout:  # noqa: D102
        n_quantiles = len(NonCrossing(self.quantiles, self.crossing_penalty).quantiles)
        return Layout(n_quantiles, n_quantiles, shifts=0 if self.parallel else n_quantiles)

    def _complete(self, shifts: Vector | None) -> None:
        super()._complete(shifts)
        if self.parallel:
            if (self.coef_ != self.coef_[0]).any():
                raise ValueError("parallel quantiles with different slopes")
            self._parameters = self.coef_[:1]

    def _unused(self) -> dict[str, str]:
        return {"crossing_penalty": "with parallel=True"} if self.parallel else {}

    def _plan(self, examples: Examples) -> Plan:
        y, weights = np.asarray(examples.y, dtype=np.float64), examples.weights
        # Targets around zero, so that large ones leave no rounding.
        self._shift = float(np.average(y, weights=weights)) if weights.any() else 0.0
        centered, rows = y - self._shift, self._rows(examples.X)
        loss = NonCrossing(self.quantiles, self.crossing_penalty)
        shared = SharedScore([Quantile(quantile) for quantile in loss.quantiles.tolist()])
        risk = ScoredRisk(rows, centered, shared if self.parallel else loss, weights=weights)
        return self._plan_of(examples, [risk], varied=bool(np.ptp(y) > 0.0))

    def _model(self, coef: Matrix, intercept: Matrix) -> Attributes:
        n_quantiles = intercept.shape[1]
        if self.parallel:
            rows = np.repeat(coef, n_quantiles, axis=0)
        else:
            rows = split_off_shifts(coef, n_quantiles)
        return {"coef_": rows, "intercept_": intercept[0] + self._shift, "_parameters": coef}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
