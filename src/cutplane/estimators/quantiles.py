"""Several quantiles at once, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.metrics import mean_pinball_loss
from sklearn.utils.validation import check_is_fitted

from cutplane.compute.arrays import Matrix, Vector
from cutplane.estimators.description import Description, NotNegative, Targets
from cutplane.estimators.linear import STRENGTH, LinearModel, Problems
from cutplane.estimators.sklearn_callbacks import Attributes, with_callbacks
from cutplane.losses import NonCrossing, Quantile
from cutplane.maps import as_rows
from cutplane.risks import ColumnsRisk, ModelRisk, SharedScoresRisk


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
    C : float, optional
        The same in scikit-learn's terms: ``lam = 1 / (C * n_samples)``, or the sum of weights in
        place of ``n_samples``.
    tol : float, default=1e-3
        The relative gap between objective and lower bound that is promised.
    max_iter : int or None, default=1000
        Limit on iterations.
    time_limit : float, optional
        Limit on seconds for the whole fit.
    method : str or Method, default="auto"
        How to minimize. "auto" takes the level method, or a bundle method with a line search if
        the quantiles are parallel; others choose by name.
    warm_start : bool, default=False
        Start from the coefficients of the previous fit.
    verbose : int, default=0
        Print the progress if positive.
    n_jobs : int, optional
        Number of threads; all cores by default (results do not depend on it).
    callbacks : sequence of callables, default=()
        Each is called with the solver's `State` after every iteration; one that returns true ends
        the fit with the best model so far.

    Attributes
    ----------
    coef_ : ndarray of shape (n_quantiles, n_features)
    intercept_ : ndarray of shape (n_quantiles,)
    largest_crossing_ : float
        By how much a lower quantile is above the next one at a training example at most, before
        sorting; 0.0 if nowhere.
    certificate_ : Certificate
        Objective, lower bound, gap and status.
    history_ : list of Record
        The bounds after every iteration.
    n_iter_ : int
    evaluations_ : int
        Evaluations of the risk.
    fit_seconds_ : float
    lam_ : float
        The strength that was used.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Only if the training data had feature names.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import cutplane as cp
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = cp.LinearQuantiles([0.1, 0.5, 0.9], lam=1e-5).fit(X, y)
    >>> model.predict(X).shape
    (442, 3)
    """

    _task = "regression"
    description = Description(
        targets=Targets.NUMBERS,
        saved=STRENGTH | {"largest_crossing_": (NotNegative | None, None)},
    )
    _parameters: Matrix  # as the risk has them, for a warm start

    def __init__(
        self,
        quantiles: Any = (0.1, 0.5, 0.9),
        *,
        parallel: bool = False,
        crossing_penalty: float = 1.0,
        lam: float | None = None,
        C: float | None = None,
        tol: float = 1e-3,
        max_iter: int | None = 1000,
        time_limit: float | None = None,
        method: Any = "auto",
        warm_start: bool = False,
        verbose: int = 0,
        n_jobs: int | None = None,
        callbacks: Any = (),
    ) -> None:
        self.quantiles = quantiles
        self.parallel = parallel
        self.crossing_penalty = crossing_penalty
        self.lam = lam
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.method = method
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.callbacks = callbacks

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Dense data in C or F order and CSR matrices, in float32 or float64, are used as they
            are.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of k counts as k copies, a weight of 0 as none.

        Returns
        -------
        LinearQuantiles
            The fitted estimator.
        """
        self._solve(X, y, sample_weight)
        falls = -np.diff(self._scores(X), axis=1)
        self.largest_crossing_ = max(float(falls.max(initial=0.0)), 0.0)
        return self

    def predict(self, X: Any) -> Any:
        """Return the quantiles of each example, sorted.

        Sorting never raises the pinball losses of all quantiles together (Chernozhukov et al.
        2010).

        Returns
        -------
        ndarray of shape (n_samples, n_quantiles)
        """
        check_is_fitted(self)
        return np.sort(self._scores(X), axis=1)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return by which share the pinball losses are below those of constant quantiles."""
        predicted = self.predict(X)
        weights = np.ones(len(predicted)) if sample_weight is None else np.asarray(sample_weight)
        constants = np.quantile(
            y, self.quantiles, weights=weights, method="inverted_cdf"
        ) + np.zeros_like(predicted)

        def losses(of: Matrix) -> float:
            return sum(
                float(mean_pinball_loss(y, column, sample_weight=weights, alpha=quantile))
                for quantile, column in zip(self.quantiles, of.T, strict=True)
            )

        baseline = losses(constants)
        return 1.0 - losses(predicted) / baseline if baseline > 0.0 else 0.0

    def _unused(self) -> dict[str, str]:
        return {"crossing_penalty": "with parallel=True"} if self.parallel else {}

    def _problems(self, y: Any, weights: Vector) -> Problems:
        """Return the one problem, with targets around zero: so large ones leave no rounding."""
        y = np.asarray(y, dtype=np.float64)
        self._shift = float(np.average(y, weights=weights)) if weights.any() else 0.0
        return Problems(weights, (y - self._shift)[None, :])

    def _risks(self, X: Any, problems: Problems) -> Sequence[ModelRisk]:
        loss = NonCrossing(self.quantiles, self.crossing_penalty)
        rows, y = as_rows(X, n_threads=self._n_threads()), problems.targets[0]
        if self.parallel:
            terms = [(y, Quantile(quantile)) for quantile in loss.quantiles.tolist()]
            return [SharedScoresRisk(rows, terms, weights=problems.weights)]
        return [ColumnsRisk(rows, y, loss, weights=problems.weights)]

    def _model(self, coef: Matrix, intercept: Matrix) -> Attributes:
        n_quantiles = intercept.shape[1]
        rows = (
            np.repeat(coef, n_quantiles, axis=0)
            if self.parallel
            else coef[0, :-n_quantiles].reshape(n_quantiles, -1)
        )
        return {"coef_": rows, "intercept_": intercept[0] + self._shift, "_parameters": coef}

    def _previous_coef(self) -> Matrix:
        return self._parameters

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
