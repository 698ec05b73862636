"""Find what is unlike the rest: the linear one-class support vector machine.

Its objective is that of paper 000's novelty detection with the nu-trick,

    |w|^2 / 2 + min_rho mean(max(0, rho - x.w)) / nu - rho

The term in ``rho`` is a quantile loss in disguise: ``max(0, u) = (1 - nu) * max(0, u) + nu *
max(0, -u) + nu * u``. Times ``nu``, and with ``|w|^2 / 2 - w.mean(x)`` made a square, it is

    nu/2 |w - mean(x)|^2 + min_rho mean pinball(x.w - rho) - nu/2 |mean(x)|^2

with the pinball loss of the quantile ``nu`` of the scores. So it is a quantile regression of zero,
regularized towards the mean, with everything that is known about those: the exact best ``rho``,
planes, line searches, Newton steps, bounds that start at zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import dot
from cutplane.core.state import Result
from cutplane.estimators.description import Description, Targets
from cutplane.estimators.linear import (
    STRENGTH,
    Examples,
    LinearModel,
    Preparation,
    Problems,
    weights_of,
)
from cutplane.estimators.sklearn_callbacks import Attributes, with_callbacks
from cutplane.losses import Quantile
from cutplane.maps import as_rows
from cutplane.regularizers import L2
from cutplane.risks import LinearRisk, ModelRisk

# Scores of examples on the margin are equal to the offset but for rounding. They are no outliers.
_ROUNDING = 1e-12
# A mean this much smaller than the examples is what centering leaves of it.
_CENTERED = 1e-9


class NoveltyDetector(OutlierMixin, LinearModel):
    """Linear one-class support vector machine that proves how close to optimal it came.

    It finds the halfspace ``x.w >= offset`` that is farthest from the origin while at most a share
    ``nu`` of the examples is outside. What is minimized is ``nu/2 |w - mean(x)|^2`` plus the mean
    quantile loss of ``x.w - offset``. That is ``nu`` times the usual objective of the one-class
    support vector machine, plus ``nu/2 |mean(x)|^2``. There is no ``lam``: it would only scale
    ``w``.

    Parameters
    ----------
    nu : float, default=0.5
        Largest share of outliers among the training examples, between 0 and 1.
    tol : float, default=1e-3
        The relative gap between objective and lower bound that is promised.
    max_iter : int or None, default=1000
        Limit on iterations.
    time_limit : float, optional
        Limit on seconds for the whole fit.
    method : str or Method, default="auto"
        How to minimize. "auto" takes Newton's method for few features, else a bundle method, and
        logs its choice; "newton", "grouped", "bmrm", "bmrm-line-search" and "limited-memory"
        choose by name.
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
    coef_ : ndarray of shape (n_features,)
    offset_ : float
        Scores below it are outliers.
    certificate_ : Certificate
        Objective, lower bound, gap and status.
    history_ : list of Record
        The bounds after every iteration.
    n_iter_ : int
    evaluations_ : int
        Evaluations of the risk.
    fit_seconds_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray
        Only if the training data had feature names.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> X = np.random.default_rng(0).normal(5.0, 1.0, size=(1000, 2))
    >>> model = cp.NoveltyDetector(nu=0.1).fit(X)
    >>> bool((model.predict(X) == -1).mean() <= 0.1)
    True
    >>> model.predict([[5.0, 5.0], [0.0, 1.0]])
    array([ 1, -1])
    """

    description = Description(
        task="novelty", targets=Targets.NOTHING, only_loss="one_class", saved=STRENGTH
    )

    def __init__(
        self,
        nu: float = 0.5,
        *,
        tol: float = 1e-3,
        max_iter: int | None = 1000,
        time_limit: float | None = None,
        method: Any = "auto",
        warm_start: bool = False,
        verbose: int = 0,
        n_jobs: int | None = None,
        callbacks: Any = (),
    ) -> None:
        self.nu = nu
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.method = method
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.callbacks = callbacks

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Dense data in C or F order and CSR matrices, in float32 or float64, are used as they
            are. They should not be centered: the origin is what they are separated from.
        y : ignored
            For pipelines.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of k counts as k copies, a weight of 0 as none.

        Returns
        -------
        NoveltyDetector
            The fitted estimator.
        """
        return self._solve(X, None, sample_weight)

    def score_samples(self, X: Any) -> Any:
        """Return the score of each example: the lower, the more unlike the rest."""
        check_is_fitted(self)
        return self._products(X)[:, 0]

    def decision_function(self, X: Any) -> Any:
        """Return how far each score is above the offset; outliers are below zero."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> Any:
        """Return 1 for examples like the rest, -1 for outliers."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    def _unused(self) -> dict[str, str]:
        return {}

    def _symptom(self, flat: Sequence[bool], result: Result) -> str | None:
        objective = result.certificate.objective
        if objective < (1.0 - self.tol) * self._objective_at_zero:
            return None
        return (
            "no halfspace without the origin holds all but a share nu of the examples, and the "
            "best coefficients are zero"
        )

    def _advice(self) -> str:
        return "raise nu, or map the features by RBFSampler or Nystroem of scikit-learn"

    def _examples(self, X: Any, y: Any, sample_weight: Any) -> Examples:
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32))
        return Examples(X, y, weights_of(X, sample_weight))

    def _problems(self, y: Any, weights: Vector) -> Problems:
        """Return the one problem, a regression of zero."""
        return Problems(weights, np.zeros((1, len(weights))))

    def _risks(self, X: Any, problems: Problems) -> Sequence[ModelRisk]:
        if not 0.0 < self.nu < 1.0:
            raise ValueError(f"nu lies strictly between 0 and 1, got {self.nu}")
        rows = as_rows(X, n_threads=self._n_threads())
        # The target is zero and the score x.w - offset: the signs turn the quantile around.
        loss = Quantile(1.0 - self.nu)
        return [LinearRisk(rows, problems.targets[0], loss, weights=problems.weights)]

    def _prepare(
        self, examples: Examples, problems: Problems, risks: Sequence[ModelRisk], begin: float
    ) -> Preparation:
        """Return the regularizer, whose center is the mean of the examples."""
        (risk,) = risks
        mean = risk.rows.pullback(risk.weights)
        if dot(mean, mean) <= _CENTERED * float(np.abs(risk.rows.scores(mean)).max()):
            raise ValueError(
                "the mean of the examples is zero, and no halfspace without the origin holds them: "
                "leave out centering, or map the features by RBFSampler or Nystroem of scikit-learn"
            )
        self._objective_at_zero = 0.5 * self.nu * dot(mean, mean)
        starts = self._starts((1, risk.n_parameters))
        return Preparation(
            L2(self.nu, center=mean), [mean if start is None else start for start in starts]
        )

    def _model(self, coef: Matrix, intercept: Vector) -> Attributes:
        offset = -float(intercept[0])
        return {"coef_": coef[0], "offset_": offset - _ROUNDING * abs(offset)}
