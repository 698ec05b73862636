"""Linear regression of vectors: several outputs at once, with one loss of all of them."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from sklearn.base import RegressorMixin

from cutplane.compute.arrays import Matrix, dense
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.collections import by_parts
from cutplane.estimators.description import STRENGTH, Description, Layout, Targets
from cutplane.estimators.estimator import estimator
from cutplane.estimators.fit import Examples, Plan
from cutplane.estimators.linear.model import LinearModel
from cutplane.estimators.parameters import look_up
from cutplane.losses import VECTORS
from cutplane.risks import ScoredRisk

_Count = Annotated[int, Meta(ge=1, le=2**63 - 1)]


@estimator
class VectorRegressor(RegressorMixin, LinearModel):
    """Linear regression of vectors that minimizes ``lam/2 |W|^2 + mean loss``, with a certificate.

    Targets are a matrix of shape (n_samples, n_outputs). The loss looks at the whole row of
    residuals, so that all outputs are fitted in one problem, and what is proven holds for all.

    Parameters
    ----------
    loss : str, default="euclidean"
        "euclidean", the length of the residual, which outliers do little harm to and which does
        not depend on the axes; or "squared", half of its square.
    fit_intercept : bool, default=True
        Whether to fit intercepts. They are not regularized.

    Attributes
    ----------
    coef_ : ndarray of shape (n_outputs, n_features)
    intercept_ : ndarray of shape (n_outputs,)
    n_outputs_ : int
    vector_ : bool
        Whether ``y`` was a matrix. Predictions of a model that was fitted to a vector are one.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> Y = X @ [[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]] + [5.0, 6.0]
    >>> Y[:20] += 100.0  # outliers
    >>> model = cp.VectorRegressor(lam=1e-6).fit(X, Y)
    >>> model.intercept_.round(2), model.certificate_.relative_gap <= 1e-3
    (array([5., 6.]), True)
    """

    description = Description(
        targets=Targets.VECTORS,
        losses=VECTORS,
        saved=STRENGTH | {"n_outputs_": (_Count, 1), "vector_": (bool, True)},
    )

    loss: Any = field(default="euclidean", kw_only=False)
    fit_intercept: bool = True

    def loss_function(self) -> Any:
        """Return the loss that the parameters describe."""
        return look_up("loss", self.loss, self.description.losses)()

    @by_parts
    def predict(self, X: Any) -> Any:
        """Return the prediction for each example, a row of outputs."""
        scores = self._scores(X)
        return scores if self.vector_ else scores[:, 0]

    def layout(self) -> Layout:  # noqa: D102
        self.loss_function()
        if not self.vector_ and self.n_outputs_ > 1:
            raise ValueError(f"{self.n_outputs_} outputs of a model of one")
        return Layout(self.n_outputs_, self.n_outputs_)

    def _examples(self, X: Any, y: Any, sample_weight: Any, **how: Any) -> Examples:
        return super()._examples(X, y, sample_weight, multi_output=True)

    def _plan(self, examples: Examples) -> Plan:
        y, weights = np.asarray(examples.y, dtype=np.float64), examples.weights
        self.vector_ = y.ndim == 2
        columns = y.reshape(len(y), -1)
        self.n_outputs_ = columns.shape[1]
        # Targets around zero, so that large ones leave no rounding.
        self._shift = np.zeros(self.n_outputs_)
        if self.fit_intercept and weights.any():
            self._shift = np.average(columns, axis=0, weights=weights)
        risk = ScoredRisk(
            self._rows(examples.X),
            columns - self._shift,
            self.loss_function(),
            weights=weights,
            intercept=self.fit_intercept,
        )
        return self._plan_of(examples, [risk], varied=bool(np.ptp(columns, axis=0).any()))

    def _model(self, coef: Matrix, intercept: Matrix) -> Attributes:
        rows = np.ascontiguousarray(coef.reshape(self.n_outputs_, -1))
        return {"coef_": rows, "intercept_": intercept[0] + self._shift}

    def _previous(self) -> Matrix:
        return np.reshape(dense(self.coef_), (1, -1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
