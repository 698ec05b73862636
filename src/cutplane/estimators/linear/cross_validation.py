"""Linear models that choose lam by cross-validation, with one path of fits for each fold."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cutplane.estimators.estimator import estimator
from cutplane.estimators.fit import Examples, Plan, fit_plan
from cutplane.estimators.lams.cross_validation import (
    Fold,
    FoldFits,
    cross_validate,
    score_on,
    scorer_and_splits,
)
from cutplane.estimators.lams.grid import lams_to_try
from cutplane.estimators.lams.path import all_along
from cutplane.estimators.linear.classifier import LinearClassifier
from cutplane.estimators.linear.model import LinearModel
from cutplane.estimators.linear.regressor import LinearRegressor
from cutplane.estimators.linear.starts import with_convex_starts

if TYPE_CHECKING:
    pass

_N_LAMS = 20

# Bytes of data of which the training part of a fold is copied. Weights of zero for the other rows
# need no copy, but each pass reads those too: with five folds a fit takes 20 % longer.
COPIED_BYTES = 1 << 27


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
    no_stream = "chooses lam, and needs all examples for that"
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
        scorer, splits = scorer_and_splits(self, examples)
        self.__dict__.pop("lam_proof_", None)
        weighted = not (examples.weights == 1.0).all()

        def fold_of(f: int) -> Fold:
            train, test = splits[f]
            model: Self = copy(self)
            model.__dict__.pop("feature_names_in_", None)  # validated data has none
            held_out = examples.X[test], examples.y[test], examples.weights[test]
            score = score_on(*held_out, scorer, weighted=weighted)
            return Fold(model, model._plan(_training_part(examples, train)), *held_out, score)

        def fit_fold(_: int, f: int, limit: float | None) -> FoldFits:
            fold = fold_of(f)
            own, score = fold.plan, fold.score
            found = all_along(fold.model, own.risks, lams, time_limit=limit, part=f"fold-{f}")
            fitted = zip(found.parameters, found.intercepts, strict=True)
            scores = np.array([score(fold.model._fitted_with(*each)) for each in fitted])
            evaluations = own.evaluations + found.evaluations
            return FoldFits(scores, found.certificates, evaluations, found.parameters)

        if self.certified is None:
            search = cross_validate(
                *(fit_fold, lams, self.rule, len(splits)),
                time_limit=self.time_limit,
                begin=examples.begin,
            )
        else:
            from cutplane.lam_proof.certified import certified_search  # few want a proof

            folds = map(fold_of, range(len(splits)))
            search, self.lam_proof_ = certified_search(
                self, folds, len(splits), lams, examples.begin
            )
        search.leave(self)
        shape = len(risks), risks[0].n_parameters
        return replace(
            plan,
            regularizer=self._regularizer(search.lam, risks[0].n_parameters),
            # The mean of stationary points need not be near one.
            starts=search.mean_start(shape) if risks[0].convex else None,
            evaluations=plan.evaluations + search.evaluations,
            certificates=search.certificates,
            part="final",
        )


def _training_part(examples: Examples, train: NDArray[Any]) -> Examples:
    """Return the examples of a fold: a copy, or all of them with no weight on the others."""
    X, y, weights = examples.X, examples.y, examples.weights
    n_bytes = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes
    if n_bytes <= COPIED_BYTES:
        return replace(examples, X=X[train], y=y[train], weights=weights[train])
    rows = np.arange(len(y))[train]  # also if the split is given by a mask
    return replace(examples, weights=weights * np.bincount(rows, minlength=len(y)))


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
