"""Estimators that choose lam by cross-validation, with one warm path for each fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.core.certificate import Certificate
from cutplane.estimators.estimator import estimator
from cutplane.estimators.fit import Examples, Plan, fit_plan, share_of_time
from cutplane.estimators.lams.along import all_along
from cutplane.estimators.lams.grid import chosen_lam, lams_to_try
from cutplane.estimators.linear.classifier import LinearClassifier
from cutplane.estimators.linear.model import LinearModel
from cutplane.estimators.linear.regressor import LinearRegressor
from cutplane.estimators.linear.starts import with_convex_starts
from cutplane.lam_proof.certified import CertifiedFold, LamSearch, require_boundable
from cutplane.lam_proof.proof import LamProof
from cutplane.report.words import mean_certificate

_N_LAMS = 20

# Bytes of data of which the training part of a fold is copied. Weights of zero for the other rows
# need no copy, but each pass reads those too: with five folds a fit takes 20 % longer.
COPIED_BYTES = 1 << 27


class _Fold(NamedTuple):
    """What the path of a fold leaves: scores and coefficients for each lam, and what it took."""

    scores: Vector
    coefs: NDArray[np.float64]
    evaluations: int
    certificates: list[list[Certificate]]  # for each lam, of its problems


@estimator
class ChoosesLam(LinearModel):
    """A linear model that finds its lam by cross-validation before it is fitted.

    Parameters
    ----------
    lams : int or array-like, default=20
        The lams to try, in any order; or how many, over four decades, from one for which the
        coefficients are nearly zero.
    cv : int, splitter or iterable of splits, optional
        As in scikit-learn; by default 5 folds, stratified for classes.
    scoring : str or callable, optional
        As in scikit-learn; by default the estimator's own score. If there are sample weights it is
        given those of the test part.
    rule : {"best", "one_standard_error"}, default="best"
        Take the lam of the best mean score, or the largest that is within one standard error of it.
    certified : float, optional
        Go on until it is proven that no lam from the smallest to the largest of ``lams`` has a mean
        score that is better by more than this; see docs/proven-lam.md. For losses that are convex
        and sums over examples, and for ``scoring`` by the estimator's own score, accuracy, "r2",
        "neg_mean_absolute_error" or "neg_mean_squared_error".
    max_iter : int or None, default=1000
        Limit on iterations, for each lam.
    verbose : int, default=0
        Print the progress of the last fit, to all data, if positive.
    callbacks : sequence of callables, default=()
        As in the estimator without cross-validation; they concern the last fit, to all data.

    Attributes
    ----------
    lam_ : float
        The lam that the rule takes; of equally good ones the largest.
    lams_ : ndarray of shape (n_lams,)
        The lams that were tried, decreasing.
    scores_ : ndarray of shape (n_folds, n_lams)
    path_certificates_ : list of Certificate
        What is proven of the folds' fits for each lam, in the mean.
    lam_proof_ : LamProof
        Only with ``certified``: what is proven of all lams.
    """

    lams: Any = None
    cv: Any = None
    scoring: Any = None
    rule: str = "best"
    certified: float | None = None
    streams = False
    # What is found by cross-validation is no parameter.
    lam: ClassVar[None] = None  # type: ignore[misc]
    C: ClassVar[None] = None  # type: ignore[misc]
    warm_start: ClassVar[bool] = False  # type: ignore[misc]
    # Paths of folds are fitted to rows in memory; without them there would be no choice at all.
    _fit_collection = LinearModel._fit_collection

    def _fit(self, examples: Examples) -> Self:
        plan = self._with_best_lam(self._plan(examples), examples)
        fit_plan(self, with_convex_starts(self, plan))
        return self

    def _with_best_lam(self, plan: Plan, examples: Examples) -> Plan:
        """Choose lam, and start each problem at the mean of what the folds found for it."""
        risks = plan.risks
        lams = lams_to_try(self.lams, risks, _N_LAMS, like=plan.regularizer)
        # Imported here: few programs cross-validate, and these take a third of a second.
        from sklearn.metrics import check_scoring
        from sklearn.model_selection import check_cv

        scorer = check_scoring(self, scoring=self.scoring)
        cv = check_cv(
            self.cv, examples.y, classifier=self.description.loss_task == "classification"
        )
        splits = list(cv.split(examples.X, examples.y))
        self.__dict__.pop("lam_proof_", None)
        if self.certified is not None:
            lams, folds = self._certified_folds(examples, splits, lams, scorer)
        else:
            folds = []
            for done, (train, test) in enumerate(splits):
                # The last fit, with all data, counts as one more fold.
                time_limit = share_of_time(self.time_limit, examples.begin, len(splits) - done + 1)
                part = f"fold-{done}"
                folds.append(self._fold(examples, train, test, lams, scorer, time_limit, part))
        self.lams_ = lams
        self.scores_ = np.array([fold.scores for fold in folds])
        best = chosen_lam(self.scores_, self.rule)
        by_lam = [[*chain(*of)] for of in zip(*(fold.certificates for fold in folds), strict=True)]
        self.path_certificates_ = [mean_certificate(found) for found in by_lam]
        shape = len(risks), risks[0].n_parameters
        return replace(
            plan,
            regularizer=self._regularizer(float(lams[best]), risks[0].n_parameters),
            # The mean of stationary points need not be near one.
            starts=_mean_start([fold.coefs[best] for fold in folds], shape)
            if risks[0].convex
            else None,
            evaluations=plan.evaluations + sum(fold.evaluations for fold in folds),
            certificates=[*chain(*by_lam)],
            part="final",
        )

    def _fold(
        self,
        examples: Examples,
        train: NDArray[Any],
        test: NDArray[Any],
        lams: Vector,
        scorer: Callable[..., float],
        time_limit: float | None,
        part: str,
    ) -> _Fold:
        """Fit a path to the training part, and score it on the test part."""
        model, plan = self._fold_plan(examples, train)
        found = all_along(model, plan.risks, lams, time_limit=time_limit, part=part)
        score = _score_on(examples, test, scorer)
        scores = [
            score(model._fitted_with(coef, intercept))
            for coef, intercept in zip(found.parameters, found.intercepts, strict=True)
        ]
        return _Fold(
            np.array(scores, dtype=np.float64),
            found.parameters,
            plan.evaluations + found.evaluations,
            found.certificates,
        )

    def _fold_plan(self, examples: Examples, train: NDArray[Any]) -> tuple[Self, Plan]:
        """Return a copy to fit to the training part of a fold, and what to fit."""
        model = copy(self)
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_  # validated data has none
        return model, model._plan(_training_part(examples, train))

    def _certified_folds(
        self,
        examples: Examples,
        splits: Sequence[tuple[NDArray[Any], NDArray[Any]]],
        lams: Vector,
        scorer: Callable[..., float],
    ) -> tuple[Vector, list[_Fold]]:
        """Fit as many lams as a proof needs; return them, and what each fold found."""
        folds = list[CertifiedFold]()
        for done, (train, test) in enumerate(splits):
            time_limit = share_of_time(self.time_limit, examples.begin, len(splits) - done + 1)
            model, plan = self._fold_plan(examples, train)
            risks = plan.risks
            require_boundable(self, risks)
            held_out = examples.X[test], examples.y[test], examples.weights[test]
            score = _score_on(examples, test, scorer)
            folds.append(CertifiedFold(model, risks, *held_out, score, part=f"fold-{done}"))
            folds[-1].fit_path(lams, time_limit)
        left = share_of_time(self.time_limit, examples.begin, 2)
        search = LamSearch(folds, float(self.certified), left)  # type: ignore[arg-type]
        search.run()
        self.lam_proof_: LamProof = search.proof(self)
        found = [
            _Fold(
                np.array([fold.scores[lam] for lam in search.lams]),
                np.array([[each.w for each in fold.kept[lam]] for lam in search.lams]),
                fold.evaluations,
                [[each.certificate for each in fold.kept[lam]] for lam in search.lams],
            )
            for fold in folds
        ]
        return search.lams, found


def _score_on(
    examples: Examples, test: NDArray[Any], scorer: Callable[..., float]
) -> Callable[[Any], float]:
    """Return the function that scores a model on the test part."""
    X, y, weights = examples.X[test], examples.y[test], examples.weights
    # Without weights the scorer need not know of them.
    weighted = {} if (weights == 1.0).all() else {"sample_weight": weights[test]}
    return lambda model: float(scorer(model, X, y, **weighted))


def _training_part(examples: Examples, train: NDArray[Any]) -> Examples:
    """Return the examples of a fold: a copy, or all of them with no weight on the others."""
    X, y, weights = examples.X, examples.y, examples.weights
    n_bytes = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes
    if n_bytes <= COPIED_BYTES:
        return replace(examples, X=X[train], y=y[train], weights=weights[train])
    rows = np.arange(len(y))[train]  # also if the split is given by a mask
    return replace(examples, weights=weights * np.bincount(rows, minlength=len(y)))


def _mean_start(coefs: list[Matrix], shape: tuple[int, int]) -> Any:
    """Return the mean of the folds' coefficients, but for folds that lack a class."""
    complete = [coef for coef in coefs if coef.shape == shape]
    return np.mean(complete, axis=0) if complete else [None] * shape[0]


@estimator
class LinearClassifierCV(ChoosesLam, LinearClassifier):
    """Linear classifier that chooses lam by cross-validation.

    One path of fits for each fold, largest lam first, each fit starting with the planes of the one
    before; then a fit to all data with the lam of the best mean score. With more than two classes
    all have the same lam.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import cutplane as cp
    >>> X, y = load_iris(return_X_y=True)
    >>> model = cp.LinearClassifierCV(lams=[1e-3, 1e-2, 1e-1]).fit(X, y)
    >>> model.lam_ in model.lams_, model.scores_.shape
    (True, (5, 3))
    """

    description = replace(LinearClassifier.description, task=None, becomes="LinearClassifier")


@estimator
class LinearRegressorCV(ChoosesLam, LinearRegressor):
    """Linear regression that chooses lam by cross-validation.

    One path of fits for each fold, largest lam first, each fit starting with the planes of the one
    before; then a fit to all data with the lam of the best mean score.

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
