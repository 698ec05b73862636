"""Estimators that choose lam by cross-validation, with one warm path for each fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.core.state import Certificate
from cutplane.estimators.classifier import LinearClassifier
from cutplane.estimators.lams import decreasing, fits_along, lam_grid
from cutplane.estimators.linear import (
    Examples,
    LinearModel,
    Preparation,
    Problems,
    share_of_time,
    zeros_like_models,
)
from cutplane.estimators.regressor import LinearRegressor
from cutplane.regularizers import L2
from cutplane.risks import ModelRisk

_N_LAMS = 20

# Bytes of data of which the training part of a fold is copied. Weights of zero for the other rows
# need no copy, but each pass reads those too: with five folds a fit takes 20 % longer.
_COPIED = 1 << 27


class _Fold(NamedTuple):
    """What the path of a fold leaves: scores and coefficients for each lam, and what it took."""

    scores: Vector
    coefs: NDArray[np.float64]
    evaluations: int
    certificates: list[Certificate]


class ChoosesLam(LinearModel):
    """A linear model that finds its lam by cross-validation before it is fitted."""

    def _prepare(
        self, examples: Examples, problems: Problems, risks: Sequence[ModelRisk], begin: float
    ) -> Preparation:
        """Choose lam, and start each problem at the mean of what the folds found for it."""
        lams = self._lams_to_try(risks)
        # Imported here: few programs cross-validate, and these take a third of a second.
        from sklearn.metrics import check_scoring
        from sklearn.model_selection import check_cv

        scorer = check_scoring(self, scoring=self.scoring)
        cv = check_cv(self.cv, examples.y, classifier=self._task == "classification")
        splits = list(cv.split(examples.X, examples.y))
        folds = []
        for done, (train, test) in enumerate(splits):
            # The last fit, with all data, counts as one more fold.
            time_limit = share_of_time(self.time_limit, begin, len(splits) - done + 1)
            folds.append(self._fold(examples, train, test, lams, scorer, time_limit))
        self.lams_ = lams
        self.scores_ = np.array([fold.scores for fold in folds])
        if not np.isfinite(self.scores_).all():
            raise ValueError("a score is not finite: is a fold too small, or without weight?")
        # Of equally good lams the largest: the simplest model.
        best = int(self.scores_.mean(axis=0).argmax())
        return Preparation(
            L2(lams[best]),
            _mean_start([fold.coefs[best] for fold in folds], (len(risks), risks[0].n_parameters)),
            sum(fold.evaluations for fold in folds),
            tuple(certificate for fold in folds for certificate in fold.certificates),
        )

    def _lams_to_try(self, risks: Sequence[ModelRisk]) -> Vector:
        if self.lams is None:
            return lam_grid(risks, _N_LAMS)
        if isinstance(self.lams, int | np.integer) and not isinstance(self.lams, bool):
            return lam_grid(risks, int(self.lams), name="lams")
        return decreasing(self.lams)

    def _fold(
        self,
        examples: Examples,
        train: NDArray[Any],
        test: NDArray[Any],
        lams: Vector,
        scorer: Callable[..., float],
        time_limit: float | None,
    ) -> _Fold:
        """Fit a path to the training part, and score it on the test part."""
        X, y, weights = examples
        model = copy(self)
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_  # validated data has none
        part = _training_part(examples, train)
        risks = model._risks(part.X, model._problems(part.y, part.weights))
        coefs, intercepts = (np.array([zeros] * len(lams)) for zeros in zeros_like_models(risks))
        evaluations, certificates = 0, []
        for k, risk in enumerate(risks):
            share = None if time_limit is None else time_limit / len(risks)
            for i, run in enumerate(fits_along(model, risk, lams, time_limit=share)):
                if run.state.stopped:
                    raise KeyboardInterrupt  # there is no model yet
                coefs[i, k] = run.w
                intercepts[i, k] = run.point.intercept  # type: ignore[attr-defined]
                evaluations += run.evaluations
                certificates.append(run.certificate)
        # Without weights the scorer need not know of them.
        weighted = {} if (weights == 1.0).all() else {"sample_weight": weights[test]}
        scores = [
            scorer(model._fitted_with(coef, intercept), X[test], y[test], **weighted)
            for coef, intercept in zip(coefs, intercepts, strict=True)
        ]
        return _Fold(np.array(scores, dtype=np.float64), coefs, evaluations, certificates)


def _training_part(examples: Examples, train: NDArray[Any]) -> Examples:
    """Return the examples of a fold: a copy, or all of them with no weight on the others."""
    X, y, weights = examples
    n_bytes = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes
    if n_bytes <= _COPIED:
        return Examples(X[train], y[train], weights[train])
    rows = np.arange(len(y))[train]  # also if the split is given by a mask
    return Examples(X, y, weights * np.bincount(rows, minlength=len(y)))


def _mean_start(coefs: list[Matrix], shape: tuple[int, int]) -> Any:
    """Return the mean of the folds' coefficients, but for folds that lack a class."""
    complete = [coef for coef in coefs if coef.shape == shape]
    return np.mean(complete, axis=0) if complete else [None] * shape[0]


class LinearClassifierCV(ChoosesLam, LinearClassifier):
    """Linear classifier that chooses lam by cross-validation.

    One path of fits for each fold, largest lam first, each fit starting with the planes of the one
    before; then a fit to all data with the lam of the best mean score. With more than two classes
    all have the same lam.

    Parameters
    ----------
    loss : str or Loss, default="hinge"
        As in `LinearClassifier`.
    multi_class : {"ovr", "crammer_singer", "softmax"}, default="ovr"
        As in `LinearClassifier`.
    lams : int or array-like, default=20
        The lams to try, in any order; or how many, over four decades, from one for which the
        coefficients are nearly zero.
    cv : int, splitter or iterable of splits, optional
        As in scikit-learn; 5 stratified folds by default.
    scoring : str or callable, optional
        As in scikit-learn; the accuracy by default. If there are sample weights it is given those
        of the test part.
    fit_intercept, class_weight, pos_label, tol, method, n_jobs, smoothing, beta, k : optional
        As in `LinearClassifier`.
    max_iter : int or None, default=1000
        Limit on iterations, for each lam.
    time_limit : float, optional
        Limit on seconds for the whole fit, cross-validation included.
    verbose, callbacks : optional
        As in `LinearClassifier`; they concern the last fit, to all data.

    Attributes
    ----------
    lam_ : float
        The lam of the best mean score; of several the largest.
    lams_ : ndarray of shape (n_lams,)
        The lams that were tried, decreasing.
    scores_ : ndarray of shape (n_folds, n_lams)
    classes_, coef_, intercept_, certificate_, history_, n_iter_ : see `LinearClassifier`
        Of the last fit, to all data.
    evaluations_, fit_seconds_ : int, float
        The work, cross-validation included.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> import cutplane as cp
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = cp.LinearClassifierCV(lams=[1e-3, 1e-2, 1e-1]).fit(scale(X), y)
    >>> model.lam_, model.scores_.shape
    (0.01, (5, 3))
    """

    description = replace(LinearClassifier.description, task=None, becomes="LinearClassifier")

    def __init__(
        self,
        loss: Any = "hinge",
        *,
        multi_class: str = "ovr",
        lams: Any = None,
        cv: Any = None,
        scoring: Any = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        pos_label: Any = None,
        tol: float = 1e-3,
        max_iter: int | None = 1000,
        time_limit: float | None = None,
        method: Any = "auto",
        verbose: int = 0,
        n_jobs: int | None = None,
        smoothing: float = 0.5,
        beta: float = 1.0,
        k: float = 0.1,
        callbacks: Any = (),
    ) -> None:
        self.lams = lams
        self.cv = cv
        self.scoring = scoring
        super().__init__(
            loss,
            multi_class=multi_class,
            fit_intercept=fit_intercept,
            class_weight=class_weight,
            pos_label=pos_label,
            tol=tol,
            max_iter=max_iter,
            time_limit=time_limit,
            method=method,
            verbose=verbose,
            n_jobs=n_jobs,
            smoothing=smoothing,
            beta=beta,
            k=k,
            callbacks=callbacks,
        )


class LinearRegressorCV(ChoosesLam, LinearRegressor):
    """Linear regression that chooses lam by cross-validation.

    One path of fits for each fold, largest lam first, each fit starting with the planes of the one
    before; then a fit to all data with the lam of the best mean score.

    Parameters
    ----------
    loss : str or Loss, default="squared"
        As in `LinearRegressor`.
    lams, cv, scoring : optional
        As in `LinearClassifierCV`; by default 5 folds without shuffling, and R^2.
    fit_intercept, tol, method, n_jobs, quantile, epsilon, delta : optional
        As in `LinearRegressor`.
    max_iter, time_limit, verbose, callbacks : optional
        As in `LinearClassifierCV`.

    Attributes
    ----------
    lam_, lams_, scores_, evaluations_, fit_seconds_ : see `LinearClassifierCV`
    coef_, intercept_, certificate_, history_, n_iter_ : see `LinearRegressor`
        Of the last fit, to all data.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import cutplane as cp
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = cp.LinearRegressorCV("absolute", scoring="neg_mean_absolute_error").fit(X, y)
    >>> model.certificate_.relative_gap <= 1e-3
    True
    """

    description = replace(LinearRegressor.description, task=None, becomes="LinearRegressor")

    def __init__(
        self,
        loss: Any = "squared",
        *,
        lams: Any = None,
        cv: Any = None,
        scoring: Any = None,
        fit_intercept: bool = True,
        tol: float = 1e-3,
        max_iter: int | None = 1000,
        time_limit: float | None = None,
        method: Any = "auto",
        verbose: int = 0,
        n_jobs: int | None = None,
        quantile: float = 0.5,
        epsilon: float = 0.1,
        delta: float = 1.35,
        callbacks: Any = (),
    ) -> None:
        self.lams = lams
        self.cv = cv
        self.scoring = scoring
        super().__init__(
            loss,
            fit_intercept=fit_intercept,
            tol=tol,
            max_iter=max_iter,
            time_limit=time_limit,
            method=method,
            verbose=verbose,
            n_jobs=n_jobs,
            quantile=quantile,
            epsilon=epsilon,
            delta=delta,
            callbacks=callbacks,
        )
