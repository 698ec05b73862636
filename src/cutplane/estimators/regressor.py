"""Linear regression with a certificate."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from cutplane.compute.arrays import Matrix, Vector
from cutplane.estimators.description import Description, Measures, Targets
from cutplane.estimators.linear import STRENGTH, LinearModel, Problems
from cutplane.estimators.sklearn_callbacks import Attributes, with_callbacks
from cutplane.losses import REGRESSION


class LinearRegressor(RegressorMixin, LinearModel):
    """Linear regression that minimizes ``lam/2 |w|^2 + mean loss`` and proves how close it came.

    Parameters
    ----------
    loss : str or Loss, default="squared"
        "squared", "absolute", "quantile", "epsilon_insensitive", "squared_epsilon_insensitive",
        "huber" or "poisson".
    lam : float, optional
        Strength of the regularizer; 1e-4 unless ``C`` is given.
    C : float, optional
        The same in scikit-learn's terms: ``lam = 1 / (C * n_samples)``, or the sum of weights in
        place of ``n_samples``.
    fit_intercept : bool, default=True
        Whether to fit an intercept. It is not regularized.
    tol : float, default=1e-3
        The relative gap between objective and lower bound that is promised.
    max_iter : int or None, default=1000
        Limit on iterations.
    time_limit : float, optional
        Limit on seconds for the whole fit.
    method : str or Method, default="auto"
        How to minimize. "auto" takes Newton's method for few features, dual ascent for many sparse
        ones, else a bundle method, and logs its choice; "newton", "dual-ascent", "grouped",
        "bmrm", "bmrm-line-search" and "limited-memory" choose by name.
    warm_start : bool, default=False
        Start from the coefficients of the previous fit.
    verbose : int, default=0
        Print the progress if positive.
    n_jobs : int, optional
        Number of threads; all cores by default (results do not depend on it).
    quantile : float, default=0.5
        Which quantile the loss "quantile" fits.
    epsilon : float, default=0.1
        Width of the zone without loss of "epsilon_insensitive" and "squared_epsilon_insensitive".
    delta : float, default=1.35
        Residual from which on the loss "huber" is linear.
    callbacks : sequence of callables, default=()
        Each is called with the solver's `State` after every iteration; one that returns true ends
        the fit with the best model so far.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
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
    >>> model = cp.LinearRegressor("quantile", quantile=0.9, lam=1e-5).fit(X, y)
    >>> round(float((y <= model.predict(X)).mean()), 2)
    0.9
    """

    _task = "regression"
    description = Description(
        task="regression",
        targets=Targets.NUMBERS,
        losses=REGRESSION,
        measures=Measures.REGRESSION,
        saved=STRENGTH,
    )

    def __init__(
        self,
        loss: Any = "squared",
        *,
        lam: float | None = None,
        C: float | None = None,
        fit_intercept: bool = True,
        tol: float = 1e-3,
        max_iter: int | None = 1000,
        time_limit: float | None = None,
        method: Any = "auto",
        warm_start: bool = False,
        verbose: int = 0,
        n_jobs: int | None = None,
        quantile: float = 0.5,
        epsilon: float = 0.1,
        delta: float = 1.35,
        callbacks: Any = (),
    ) -> None:
        self.loss = loss
        self.lam = lam
        self.C = C
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.method = method
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.quantile = quantile
        self.epsilon = epsilon
        self.delta = delta
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
        LinearRegressor
            The fitted estimator.
        """
        return self._solve(X, y, sample_weight)

    def predict(self, X: Any) -> Any:
        """Return the prediction for each example."""
        check_is_fitted(self)
        return self.loss_function().predict(self._scores(X)[:, 0])

    def _problems(self, y: Any, weights: Vector) -> Problems:
        """Return the one problem of a regression."""
        return Problems(weights, np.asarray(y, dtype=np.float64)[None, :])

    def _model(self, coef: Matrix, intercept: Vector) -> Attributes:
        return {"coef_": coef[0], "intercept_": float(intercept[0])}
