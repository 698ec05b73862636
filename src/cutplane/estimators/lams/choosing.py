"""lam chosen by cross-validation, for every estimator: ``lam="cv"``.

The data are cut into folds. For each fold, the estimator is fitted to the others once for each lam,
the largest first, each fit starting where the one before ended, and scored on the fold; then comes
the fit to all data. Which lams to try is seen from the risks of a fit that is stopped at once.
`LinearClassifierCV` and `LinearRegressorCV` do the same with planes that are handed on from one lam
to the next, which takes less time.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.collections import is_dask
from cutplane.core.certificate import Certificate
from cutplane.core.interrupts import interrupted_so_far
from cutplane.core.state import State
from cutplane.estimators.cautions import warn_unless_successful
from cutplane.estimators.description import Reads
from cutplane.estimators.lams.grid import RULES, chosen_lam, lams_to_try
from cutplane.report.words import mean_certificate

_N_LAMS = 10
# Left by a search, and gone after a fit without one.
_LEFT = ("lams_", "scores_", "path_certificates_")


@dataclass(frozen=True)
class CrossValidation:
    """How lam is chosen, given in place of a number: ``lam=cp.CrossValidation(cv=10)``.

    ``lam="cv"`` is ``lam=cp.CrossValidation()``.

    Parameters
    ----------
    cv : int, splitter or iterable of splits, default=5
        As in scikit-learn. Folds are stratified for classes; the documents of a query stay
        together; of few labels among many examples, some are hidden.
    lams : int or array-like, default=10
        The lams to try, in any order; or how many, over four decades.
    rule : {"best", "one_standard_error"}, default="best"
        Take the lam of the best mean score, or the largest that is within one standard error of it.
    scoring : str or callable, optional
        As in scikit-learn; by default the estimator's own score.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> grades = np.digitize(x[:, 0], [-0.5, 0.5])
    >>> model = cp.OrdinalClassifier(lam=cp.CrossValidation(cv=3, lams=[1.0, 0.01])).fit(x, grades)
    >>> model.lam_, model.scores_.shape
    (0.01, (3, 2))
    """

    cv: Any = 5
    lams: Any = _N_LAMS
    rule: str = "best"
    scoring: Any = None

    def __post_init__(self) -> None:
        """Refuse an unknown rule at once."""
        if self.rule not in RULES:
            raise ValueError(f"rule must be one of {', '.join(RULES)}, got {self.rule!r}")


class _Search(NamedTuple):
    """What a search has found: the lams, a row of scores for each fold, and what it took."""

    lam: float
    lams: Vector
    scores: NDArray[np.float64]
    certificates: list[Certificate]
    evaluations: int


def choosing_lam(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Let a fit find its lam first, if it is to be chosen."""
    signature = inspect.signature(fit)

    @wraps(fit)
    def whole_fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name in _LEFT:
            self.__dict__.pop(name, None)
        asked = self.lam
        settings = CrossValidation() if isinstance(asked, str) and asked == "cv" else asked
        if not isinstance(settings, CrossValidation):
            return fit(self, *args, **kwargs)
        begin = perf_counter()
        given = dict(signature.bind(self, *args, **kwargs).arguments)
        data = given.pop("X"), given.pop("y", None)
        options = {name: v for name, v in given.items() if name != "self" and v is not None}
        search = _search(self, settings, *data, options)
        self.lam = search.lam
        try:
            fit(self, *args, **kwargs)
        finally:  # a parameter stays what the user made it
            self.lam = asked
        self.lams_, self.scores_ = search.lams, search.scores
        self.path_certificates_ = search.certificates
        self.evaluations_ += search.evaluations
        self.fit_seconds_ = perf_counter() - begin
        return self

    return whole_fit


def _search(
    estimator: Any, settings: CrossValidation, X: Any, y: Any, options: dict[str, Any]
) -> _Search:
    """Score each lam on each fold."""
    from sklearn.base import clone  # here and below: few programs search
    from sklearn.metrics import check_scoring

    if "lengths" in options:
        raise ValueError("lam='cv' takes a list of sequences, not a matrix with lengths")
    for name, given in {"X": X, "y": y, **options}.items():
        _require_rows(name, given)
    plain = clone(estimator).set_params(callbacks=(), verbose=0, checkpoint=None, warm_start=False)
    lams = _lams(plain, settings.lams, X, y, options)
    folds = list(_folds(estimator, X, y, options, settings.cv))
    if estimator.time_limit is not None:
        # The last fit, to all data, counts as one more fold.
        share = estimator.time_limit / (len(lams) * (len(folds) + 1))
        plain.set_params(time_limit=share)
    scores, evaluations = np.zeros((len(folds), len(lams))), 0
    by_lam: list[list[Certificate]] = [[] for _ in lams]
    for i, (train, test) in enumerate(folds):
        model = clone(plain)
        rest = {name: value for name, value in test.items() if name not in ("X", "y")}
        for k, lam in enumerate(lams.tolist()):
            _quietly(model.set_params(lam=lam), **train)
            if interrupted_so_far():
                raise KeyboardInterrupt  # there is no model yet
            model.set_params(warm_start=True)
            scorer = type(model).score
            if settings.scoring is not None:
                scorer = check_scoring(model, scoring=settings.scoring)
            scores[i, k] = scorer(model, test["X"], test["y"], **rest)
            by_lam[k] += _listed(model.certificate_)
            evaluations += model.evaluations_
    warn_unless_successful(
        type(estimator).__name__,
        estimator.tol,
        [each for found in by_lam for each in found],
        train["X"],
    )
    chosen = chosen_lam(scores, settings.rule)
    means = [mean_certificate(found) for found in by_lam]
    return _Search(float(lams[chosen]), lams, scores, means, evaluations)


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


def _listed(certificates: Any) -> list[Certificate]:
    return certificates if isinstance(certificates, list) else [certificates]


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
    return lams_to_try(lams, [problem.risk for problem in problems], _N_LAMS, like=like)


def _folds(
    estimator: Any, X: Any, y: Any, options: dict[str, Any], cv: Any
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield for each fold what to fit to, and what to score on."""
    from sklearn.model_selection import GroupKFold, check_cv
    from sklearn.utils import _safe_indexing

    def part(rows: Any, **data: Any) -> dict[str, Any]:
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
