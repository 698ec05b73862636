"""Cross-validation: one engine for lam, for gamma, and for what proofs need of each fold.

The data are cut into folds. For each fold and each setting of what else is to be chosen, such as a
kernel, models are fitted to the other folds for all lams, the largest first, and scored on the
fold. The engine, `cross_validate`, shares the time out and chooses. How the models of a fold are
fitted is said by the estimator: by a path whose planes are handed on from one lam to the next
(`LinearClassifierCV`, the kernel machines), by as many lams as a proof takes, or, for ``lam="cv"``,
which every estimator has, by fits of a copy that begin where the one before ended. Then comes the
fit to all data.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector, is_dask
from cutplane.compute.compiled import clock
from cutplane.core.certificate import Certificate
from cutplane.core.interrupts import interrupted_so_far
from cutplane.core.state import State
from cutplane.estimators.cautions import warn_unless_successful
from cutplane.estimators.classifier import LinearClassifier
from cutplane.estimators.description import Reads
from cutplane.estimators.estimator import estimator, of_problems
from cutplane.estimators.fit import Examples, Plan, fit_plan, share_of_time, with_convex_starts
from cutplane.estimators.lams import CrossValidation, chosen_lam, lams_to_try
from cutplane.estimators.linear import LinearModel
from cutplane.estimators.paths import all_along
from cutplane.estimators.regressor import LinearRegressor
from cutplane.report.words import mean_certificate

Split = tuple[NDArray[Any], NDArray[Any]]


class Fold(NamedTuple):
    """A fold: a copy of the estimator, what it is fitted to, and what it is scored on.

    Attributes
    ----------
    model : estimator
    plan : Plan
    X, y, weights
        The examples that are held out.
    score : callable
        From a fitted model to its score on them.
    """

    model: Any
    plan: Plan
    X: Any
    y: NDArray[Any]
    weights: Vector
    score: Callable[[Any], float]


class FoldFits(NamedTuple):
    """What the models of a fold have found, for each lam, the largest first.

    Attributes
    ----------
    scores : ndarray of shape (n_lams,)
    certificates : list of lists
        For each lam, of its problems.
    evaluations : int
    coefs : ndarray, or a sequence of those, of shape (n_problems, n_parameters)
        For each lam, if the fit to all data can begin from them.
    """

    scores: Vector
    certificates: list[list[Certificate]]
    evaluations: int
    coefs: NDArray[np.float64] | Sequence[NDArray[np.float64]] = ()


@dataclass(frozen=True)
class Search:
    """What was found of all lams.

    Attributes
    ----------
    lams : ndarray
        Decreasing.
    rule : str
        One of `RULES`.
    fits : list of lists of FoldFits
        A list for each setting, with a member for each fold.
    """

    lams: Vector
    rule: str
    fits: Sequence[Sequence[FoldFits]]

    @cached_property
    def all_scores(self) -> NDArray[np.float64]:
        """The scores: settings x folds x lams."""
        return np.array([[fold.scores for fold in of] for of in self.fits])

    @cached_property
    def setting(self) -> int:
        """The setting with the best mean score for any lam."""
        return int(self.all_scores.mean(axis=1).max(axis=1).argmax())

    @property
    def scores(self) -> NDArray[np.float64]:
        """The scores with the best setting: folds x lams."""
        found: NDArray[np.float64] = self.all_scores[self.setting]
        return found

    @cached_property
    def chosen(self) -> int:
        """Which lam to take."""
        return chosen_lam(self.scores, self.rule)

    @property
    def lam(self) -> float:
        """The lam to take."""
        return float(self.lams[self.chosen])

    @property
    def certificates(self) -> list[Certificate]:
        """What is proven of all fits."""
        return [each for fold in chain(*self.fits) for each in chain(*fold.certificates)]

    @property
    def evaluations(self) -> int:
        """Evaluations in all fits."""
        return sum(fold.evaluations for fold in chain(*self.fits))

    def mean_start(self, shape: tuple[int, int]) -> list[Vector] | None:
        """Return the mean of the folds' coefficients, but for folds that lack a class."""
        found = [fold.coefs[self.chosen] for fold in self.fits[self.setting]]
        complete = [coef for coef in found if coef.shape == shape]
        return [*np.mean(complete, axis=0)] if complete else None

    def leave(self, estimator: Any) -> None:
        """Set the fitted attributes that tell of the search."""
        estimator.lams_, estimator.scores_ = self.lams, self.scores
        by_lam = zip(*(fold.certificates for fold in self.fits[self.setting]), strict=True)
        estimator.path_certificates_ = [mean_certificate([*chain(*found)]) for found in by_lam]


def cross_validate(
    fit_fold: Callable[[int, int, float | None], FoldFits],
    lams: Vector,
    rule: str,
    n_folds: int,
    *,
    time_limit: float | None,
    begin: float,
    n_settings: int = 1,
) -> Search:
    """Fit the models of all folds, and score them.

    Parameters
    ----------
    fit_fold : callable
        From the number of a setting, the number of a fold and a limit of time to what its models
        have found.
    lams : ndarray
        Decreasing.
    rule : str
        How one of them is taken.
    n_folds, n_settings : int
    time_limit : float, optional
        Seconds for the whole fit, which began at ``begin``. The fit to all data, which comes last,
        counts as one more fold.
    """
    fits: list[list[FoldFits]] = []
    n_left = n_settings * n_folds + 1
    for g in range(n_settings):
        fits.append([])
        for f in range(n_folds):
            fits[g].append(fit_fold(g, f, share_of_time(time_limit, begin, n_left)))
            n_left -= 1
    return Search(lams, rule, fits)


def scorer_and_splits(
    estimator: Any, examples: Examples
) -> tuple[Callable[..., float], list[Split]]:
    """Return how an estimator's parameters ask for models to be scored, and on which folds."""
    # Imported here: few programs cross-validate, and these take a third of a second.
    from sklearn.metrics import check_scoring
    from sklearn.model_selection import check_cv

    classifier = estimator.description.loss_task == "classification"
    splits = check_cv(estimator.cv, examples.y, classifier=classifier)
    scorer = check_scoring(estimator, scoring=estimator.scoring)
    return scorer, [*splits.split(examples.X, examples.y)]


def score_on(
    X: Any, y: NDArray[Any], weights: Vector, scorer: Callable[..., float], *, weighted: bool
) -> Callable[[Any], float]:
    """Return the function that scores a model on the test part of a fold."""
    # Without weights the scorer need not know of them.
    given = {"sample_weight": weights} if weighted else {}
    return lambda model: float(scorer(model, X, y, **given))


def fits_of(fold: Fold, lams: Vector, *, time_limit: float | None, part: str) -> FoldFits:
    """Fit the models of a fold along a path of lams, and score them."""
    model, plan = fold.model, fold.plan
    found = all_along(model, plan.risks, lams, time_limit=time_limit, part=part)
    scores = np.zeros(len(lams))
    for i, each in enumerate(zip(found.parameters, found.intercepts, strict=True)):
        fitted = copy(model)
        fitted.__dict__.update(plan.model(*each))
        scores[i] = fold.score(fitted)
    evaluations = plan.evaluations + found.evaluations
    return FoldFits(scores, found.certificates, evaluations, found.parameters)


def fit_with_best_lam(fit: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> None:
    """Find the lam of an estimator, as its parameter ``lam`` says, and fit it with that."""
    asked, limit, begin = self.lam, self.time_limit, clock()
    if isinstance(asked, str) and asked != "cv":
        fit(self, *args, **kwargs)  # which refuses it
    settings = asked if isinstance(asked, CrossValidation) else CrossValidation()
    given = dict(inspect.signature(fit).bind(self, *args, **kwargs).arguments)
    data = given.pop("X"), given.pop("y", None)
    options = {name: v for name, v in given.items() if name != "self" and v is not None}
    search = _searched(self, settings, *data, options, begin)
    self.lam, self.time_limit = search.lam, share_of_time(limit, begin, 1)
    try:
        fit(self, *args, **kwargs)
    finally:  # parameters stay what the user made them
        self.lam, self.time_limit = asked, limit
    search.leave(self)
    self.evaluations_ += search.evaluations
    self.fit_seconds_ = clock() - begin


def _searched(
    estimator: Any,
    settings: CrossValidation,
    X: Any,
    y: Any,
    options: dict[str, Any],
    begin: float,
) -> Search:
    """Fit copies of an estimator to the folds, for each lam one after another."""
    from sklearn.base import clone  # here and below: few programs search
    from sklearn.metrics import check_scoring

    if "lengths" in options:
        raise ValueError("lam='cv' takes a list of sequences, not a matrix with lengths")
    for name, given in {"X": X, "y": y, **options}.items():
        _require_rows(name, given)
    plain = clone(estimator).set_params(callbacks=(), verbose=0, checkpoint=None, warm_start=False)
    lams = _lams(plain, settings.lams, X, y, options)
    folds = list(_folds(estimator, X, y, options, settings.cv))

    def fit_fold(_: int, f: int, limit: float | None) -> FoldFits:
        train, test = folds[f]
        rest = {name: value for name, value in test.items() if name not in ("X", "y")}
        model, fold_begin = clone(plain), clock()
        found = FoldFits(np.zeros(len(lams)), [], 0)
        for k, lam in enumerate(lams.tolist()):
            share = share_of_time(limit, fold_begin, len(lams) - k)
            _quietly(model.set_params(lam=lam, time_limit=share), **train)
            if interrupted_so_far():
                raise KeyboardInterrupt  # there is no model yet
            model.set_params(warm_start=True)
            scorer = type(model).score
            if settings.scoring is not None:
                scorer = check_scoring(model, scoring=settings.scoring)
            found.scores[k] = scorer(model, test["X"], test["y"], **rest)
            found.certificates.append(of_problems(model, "certificate_"))
            found = found._replace(evaluations=found.evaluations + model.evaluations_)
        return found

    search = cross_validate(
        fit_fold, lams, settings.rule, len(folds), time_limit=estimator.time_limit, begin=begin
    )
    name, data = type(estimator).__name__, folds[-1][0]["X"]
    warn_unless_successful(name, estimator.tol, search.certificates, data)
    return search


def _require_rows(name: str, given: Any) -> None:
    """Raise TypeError, in one sentence, for a Dask collection that cannot be cut into folds."""
    if not is_dask(given):
        return
    if not hasattr(given, "chunks"):
        advice = "give a Dask array"
        if hasattr(given, "to_dask_array"):
            advice = f"give {name}.to_dask_array(lengths=True)"
        elif hasattr(given, "foldby"):
            advice = "give a list of sequences"
        raise TypeError(
            f"lam='cv' cannot cut {name}, a {type(given).__name__}, into folds; {advice}"
        )
    if np.isnan(given.shape[0]):
        raise TypeError(f"lam='cv' needs the lengths of the chunks: {name}.compute_chunk_sizes()")


def _quietly(model: Any, **data: Any) -> None:
    """Fit one of many models: what there is to warn of, the last fit says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(**data)


def _lams(plain: Any, lams: Any, X: Any, y: Any, options: dict[str, Any]) -> Vector:
    """Return the lams to try; how large they are, the risks of a fit tell."""
    problems: list[Any] = []

    def see(state: State) -> bool:
        problems.append(state.problem)
        return True

    if isinstance(lams, int | np.integer):
        from sklearn.base import clone

        seen = clone(plain).set_params(lam=1.0, callbacks=[see], max_iter=1, time_limit=None)
        _quietly(seen, X=X, y=y, **options)
    like = problems[0].regularizer if problems else None
    return lams_to_try(lams, [problem.risk for problem in problems], 10, like=like)


def _folds(
    estimator: Any, X: Any, y: Any, options: dict[str, Any], cv: Any
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield for each fold what to fit to, and what to score on."""
    from sklearn.model_selection import GroupKFold, check_cv
    from sklearn.utils import _safe_indexing

    def part(rows: NDArray[np.intp], **data: Any) -> dict[str, Any]:
        return {name: _safe_indexing(value, rows) for name, value in data.items()}

    description = estimator.description
    if "unlabeled" in estimator.get_params(deep=False):
        yield from _hidden_labels(estimator, X, y, options, cv)
        return
    if "group" in options:
        sizes = np.asarray(options.pop("group"))
        options["qid"] = np.repeat(np.arange(len(sizes)), sizes)
    data = {"X": X, "y": y, **options}
    if description.reads is Reads.QUERIES and isinstance(cv, int):
        if "qid" not in options:
            raise ValueError("lam='cv' needs qid or group: folds are made of queries")
        queries = np.unique(np.asarray(options["qid"]), return_inverse=True)[1]
        splits = GroupKFold(cv).split(queries, groups=queries)
    else:
        labels = y if description.least_classes and np.ndim(y[0]) == 0 else None
        numbers = np.arange(X.shape[0] if hasattr(X, "shape") else len(X))
        splits = check_cv(cv, labels, classifier=labels is not None).split(numbers, labels)
    for train, test in splits:
        yield part(train, **data), part(test, **data)


def _hidden_labels(
    estimator: Any, X: Any, y: Any, options: dict[str, Any], cv: Any
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield folds of the labeled examples: all are fitted to, those of the fold without a label."""
    from sklearn.model_selection import check_cv
    from sklearn.utils import _safe_indexing

    from cutplane.models.few_labels.transductive import is_unlabeled

    labels = np.asarray(y)
    rows = np.flatnonzero(~is_unlabeled(labels, estimator.unlabeled))
    known = np.array(labels[rows].tolist())
    for _, test in check_cv(cv, known, classifier=True).split(rows, known):
        hidden = labels.astype(object)
        hidden[rows[test]] = None
        weights = {name: np.asarray(value)[rows[test]] for name, value in options.items()}
        scored = {"X": _safe_indexing(X, rows[test]), "y": known[test], **weights}
        yield {"X": X, "y": hidden, **options}, scored


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
        lams = lams_to_try(self.lams, risks, 20, like=plan.regularizer)
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
            return fits_of(fold_of(f), lams, time_limit=limit, part=f"fold-{f}")

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
