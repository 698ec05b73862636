"""A choice of lam with a proof: no other lam is better by more than so much.

The scores of the best model for a lam that was not fitted lie between bounds that two fits around
it give (`cutplane.lam_proof.bounds`), and so its score in cross-validation is at most so much. Lams
that cannot win are discarded, whole intervals at a time. An interval that might win is cut into
parts; where bounds would be too wide even for a single lam, the fits at its ends are made more
accurate, then one is added between them. So the steps of the path are chosen by the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from cutplane.compute.arrays import Matrix, Vector, require_same
from cutplane.compute.compiled import clock
from cutplane.core.certificate import Certificate, Result
from cutplane.core.protocols import Plane
from cutplane.core.state import Problem, State
from cutplane.estimators.cautions import warn
from cutplane.estimators.cross_validation import Fold, FoldFits, Search
from cutplane.estimators.fit import share_of_time, solve
from cutplane.estimators.linear import LinearModel
from cutplane.estimators.paths import fits_along
from cutplane.estimators.regressor import measure_of
from cutplane.lam_proof.bounds import Anchor, LamBounds, Stretch
from cutplane.lam_proof.path import ROUNDING
from cutplane.regularizers import L2
from cutplane.report.figures import draw_lam_proof
from cutplane.solvers.automatic import automatic

Numbers = NDArray[np.int64]

ERRORS = {
    "accuracy": (1.0, "share of wrong predictions"),
    "r2": (1.0, "share of the variance that is left"),
    "d2_pinball": (1.0, "share of the pinball loss that is left"),
    "d2_poisson": (1.0, "share of the deviance that is left"),
    "neg_mean_absolute_error": (0.0, "mean absolute error"),
    "neg_mean_squared_error": (0.0, "mean squared error"),
}
"""The error that goes with each score, by the name of the scorer or of an estimator's own measure:
a number less the score; and what it is called."""


@dataclass(frozen=True, eq=False, repr=False)
class LamProof:
    """A proof that no lam in a range has a much lower error in cross-validation.

    The error for a lam is the mean over the folds, each fitted exactly to the others. It was
    measured for some lams, and is bounded for all that lie between: see docs/proven-lam.md.

    Attributes
    ----------
    lam : float
        The lam that was chosen.
    error : float
        Its error.
    wanted : float
        How much lower the error of another lam was allowed to be.
    highs, lows, at_least : ndarray of shape (n_intervals,)
        Intervals that cover the range, the largest lams first, and what the error is at least in
        each of them.
    lams, errors : ndarray of shape (n_lams,)
        The lams that were fitted, decreasing, and their errors.
    measure : str
        What the error is.
    """

    lam: float
    error: float
    wanted: float
    highs: Vector
    lows: Vector
    at_least: Vector
    lams: Vector
    errors: Vector
    measure: str

    @property
    def proven(self) -> float:
        """How much lower the error of any other lam can be at most."""
        least = float(self.at_least.min())
        found = max(self.error - least, 0.0)
        # Shares of examples: a difference of 0.05 may come out as 0.05 and some last digits.
        rounding = ROUNDING * (abs(self.error) + abs(least) + self.wanted)
        return self.wanted if abs(found - self.wanted) <= rounding else found

    @property
    def success(self) -> bool:
        """Whether as much was proven as was wanted."""
        return self.proven <= self.wanted

    def error_at_least(self, lam: float) -> float:
        """Return what the error of a lam in the range is at least.

        Raises
        ------
        ValueError
            If nothing is proven of this lam.
        """
        inside = (self.lows <= lam) & (lam <= self.highs)
        if not inside.any():
            raise ValueError(
                f"lam={lam:g} is not between {self.lows[-1]:g} and {self.highs[0]:g}, the range "
                "of the proof"
            )
        return float(self.at_least[inside].max())

    def plot(self) -> Any:
        """Return a matplotlib figure of the errors, their lower bounds, and what was discarded.

        Raises
        ------
        PlottingUnavailable
            If matplotlib is not installed.
        """
        return draw_lam_proof(
            np.append(self.highs, self.lows[-1]),
            self.at_least,
            self.lams,
            self.errors,
            chosen=(self.lam, self.error),
            threshold=self.error - self.wanted,
            title=f"lam = {self.lam:.3g}: no error is lower by more than {self._amount}",
            y_title=self.measure,
        )

    @property
    def _amount(self) -> str:
        """What no other lam is better by; rounded up, as a proof must not be overstated."""
        return f"{self.wanted if self.success else 1.01 * self.proven:.3g}"

    def __str__(self) -> str:
        return (
            f"lam = {self.lam:.3g}, {self.measure} {self.error:.4g}; no lam in "
            f"[{self.lows[-1]:.3g}, {self.highs[0]:.3g}] has one lower by more than {self._amount}"
        )

    def __repr__(self) -> str:
        return f"LamProof({self}; {len(self.lams)} lams fitted, {len(self.highs)} intervals)"


def accuracy_at_most(y: Numbers, lower: Matrix, upper: Matrix, weights: Vector) -> float:
    """Return the largest share of right predictions.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        The number of each example's class; -1 for a class that is never predicted.
    lower, upper : ndarray of shape (n_scores, n_samples)
        Bounds on the scores: of the second class against the first, or of each class.
    weights : ndarray of shape (n_samples,)
    """
    if len(lower) == 1:
        wrong = np.where(y == 1, upper[0] < 0.0, lower[0] > 0.0)
    else:
        columns = np.arange(len(y))
        own = upper[y, columns]
        others = lower.copy()
        others[y, columns] = -np.inf
        wrong = own < others.max(axis=0)
    return 1.0 - float(np.average(wrong | (y < 0), weights=weights))


def minus_absolute_error(y: Vector, predicted: Vector, weights: Vector) -> float:
    """Return the mean absolute error, times -1."""
    return -float(np.average(np.abs(y - predicted), weights=weights))


def minus_squared_error(y: Vector, predicted: Vector, weights: Vector) -> float:
    """Return the mean squared error, times -1."""
    return -float(np.average((y - predicted) ** 2, weights=weights))


def r2(y: Vector, predicted: Vector, weights: Vector) -> float:
    """Return the coefficient of determination; 1 of equal targets, which is no less."""
    spread = float(np.average((y - np.average(y, weights=weights)) ** 2, weights=weights))
    return 1.0 if spread == 0.0 else 1.0 + minus_squared_error(y, predicted, weights) / spread


MEASURES_OF_NUMBERS: dict[str, Callable[[Vector, Vector, Vector], float]] = {
    "r2": r2,
    "neg_mean_absolute_error": minus_absolute_error,
    "neg_mean_squared_error": minus_squared_error,
}
"""Measures of predicted numbers, by scikit-learn's names of the scorers."""


def best_between(
    measure: Callable[[Vector, Vector, Vector], float],
    y: Vector,
    lower: Vector,
    upper: Vector,
    weights: Vector,
) -> float:
    """Return the largest value of a measure of predictions between bounds.

    The measure must be the better, the nearer a prediction is to its target from one side.
    """
    return measure(y, np.clip(y, lower, upper), weights)


class _Kept(NamedTuple):
    """What is kept of each fit: a vector and a plane, and what was proven."""

    w: Vector
    intercept: Any
    plane: Plane
    certificate: Certificate


class CertifiedFold:
    """A fold: its fits, and bounds on its score for all other lams.

    Parameters
    ----------
    fold : Fold
        With one risk, or one for each class against the rest.
    part : str
        The folder of the fold inside that of the checkpoint.
    """

    def __init__(self, fold: Fold, part: str) -> None:
        self.model, plan, X, y, self.weights, self.score = fold
        self.risks, self.part = plan.risks, part
        rows = self.model._rows(X)
        two_classes = self.model.description.loss_task == "classification" and len(self.risks) == 1
        self.bounds = [LamBounds(risk, rows, signs_only=two_classes) for risk in self.risks]
        self.scores: dict[float, float] = {}
        self.kept: dict[float, list[_Kept]] = {}
        self.tols: dict[float, float] = {}
        self.evaluations = 0
        self._states: dict[float, list[State]] = {}
        self._anchors: dict[float, list[Anchor]] = {}
        self._at_most = _bound_of(self.model, y)

    def fit_path(self, lams: Vector, time_limit: float | None) -> None:
        """Fit all lams, the largest first, with the tolerance of the estimator."""
        share = None if time_limit is None else time_limit / len(self.risks)
        found: dict[float, list[_Kept]] = {float(lam): [] for lam in lams}
        for k, risk in enumerate(self.risks):
            part = f"{self.part}/problem-{k}"
            runs = fits_along(self.model, risk, lams, time_limit=share, part=part)
            for lam, run in zip(found, runs, strict=True):
                found[lam].append(self._finished(run))
        for lam, kept in found.items():
            self.tols[lam] = self.model.tol
            self._keep(lam, kept)

    def refit(self, lam: float, tol: float) -> None:
        """Fit one lam, again or for the first time, with the planes of the nearest one."""
        model = copy(self.model)
        model.tol = tol
        kept, states = list[_Kept](), list[State]()
        near = min(self._states, key=lambda other: abs(log(other / lam)), default=None)
        for k, risk in enumerate(self.risks):
            problem = Problem(risk, L2(lam))
            automatically = model.method in (None, "auto")
            run = solve(
                model,
                problem,
                automatic(problem, on_a_path=True) if automatically else None,
                max_iter=model.max_iter,
                time_limit=None,
                start=self.kept[lam][k].w if near is None and lam in self.kept else None,
                planes_from=None if near is None else self._states[near][k],
                part=f"{self.part}/problem-{k}/lam-{lam:.17g}-{tol:.3g}",
            )
            kept.append(self._finished(run))
            states.append(run.state)
        self._states[lam], self.tols[lam] = states, tol
        self._anchors.pop(lam, None)
        self._keep(lam, kept)

    def _finished(self, run: Result) -> _Kept:
        if run.state.stopped:
            raise KeyboardInterrupt  # there is no model yet
        require_same(run.state.problem.facts.files)  # or nothing is proven of any lam
        self.evaluations += run.evaluations
        state, point = run.state, run.point
        state.bundle.minimize(state.problem, accuracy=state.accuracy)
        return _Kept(run.w, point.intercept, state.bundle.aggregate(), run.certificate)  # type: ignore[attr-defined]

    def _keep(self, lam: float, kept: list[_Kept]) -> None:
        self.kept[lam] = kept
        coef = np.array([each.w for each in kept])
        intercept = np.array([each.intercept for each in kept])
        self.scores[lam] = self.score(self.model._fitted_with(coef, intercept))

    def stretches(self, high: float, low: float) -> list[Stretch]:
        """Return the lams between two that were fitted, for each problem."""
        ends = zip(self.bounds, self._anchored(high), self._anchored(low), strict=True)
        return [Stretch(*each) for each in ends]

    def _anchored(self, lam: float) -> list[Anchor]:
        if lam not in self._anchors:
            parts = zip(self.bounds, self.risks, self.kept[lam], strict=True)
            self._anchors[lam] = [
                bounds.anchor(lam, Problem(risk, L2(lam)), risk.at(kept.w), kept.plane)
                for bounds, risk, kept in parts
            ]
        return self._anchors[lam]

    def at_most(self, stretches: list[Stretch], high: float, low: float) -> float:
        """Return what the score is at most for all lams from ``high`` to ``low``."""
        bounds = [stretch.scores(high, low) for stretch in stretches]
        lower, upper = (np.array(side) for side in zip(*bounds, strict=True))
        return self._at_most(lower, upper, self.weights)

    def forget_above(self, lam: float) -> None:
        """Drop what is as long as the sample of all larger lams."""
        for known in (self._states, self._anchors):
            for other in [other for other in known if other > lam]:
                del known[other]
        for bounds in self.bounds:
            bounds.forget_above(lam)


def require_boundable(model: Any, risks: Sequence[Any]) -> None:
    """Raise ValueError, in one sentence, unless the scores of all lams can be bounded."""
    loss = risks[0].loss
    if not (loss.convex and loss.additive):
        raise ValueError(
            f"certified needs a convex loss that is a sum over examples of one score each, "
            f"{loss!r} is not"
        )
    if not model._is_plain():
        raise ValueError("certified needs penalty='l2', without bounds and constraints")
    if model.rule != "best":
        raise ValueError(f"certified is about the best lam, not rule={model.rule!r}")
    known = (
        ("accuracy",)
        if model.description.loss_task == "classification"
        else (*MEASURES_OF_NUMBERS,)
    )
    if model.scoring is not None and model.scoring not in known:
        raise ValueError(
            f"certified can bound scoring by {', '.join(known)}, not by {model.scoring!r}"
        )


def _bound_of(model: LinearModel, y: Any) -> Callable[..., float]:
    """Return a function of bounds on scores, and weights, that bounds the estimator's measure."""
    if model.description.loss_task == "classification":
        classes = model.classes_
        codes = np.searchsorted(classes, y) % len(classes)
        codes[classes[codes] != y] = -1

        def accuracy(lower: Any, upper: Any, weights: Vector) -> float:
            if model._is_turned():
                lower, upper = -upper, -lower
            return accuracy_at_most(codes, lower, upper, weights)

        return accuracy
    loss = model.loss_function()
    own = measure_of(loss) if model.scoring is None else None
    measure = own.share_saved if own else MEASURES_OF_NUMBERS[model.scoring or "r2"]

    def of_numbers(lower: Any, upper: Any, weights: Vector) -> float:
        return best_between(measure, y, loss.predict(lower[0]), loss.predict(upper[0]), weights)

    return of_numbers


@dataclass(frozen=True)
class Part:
    """An interval of lam, and what the mean score over the folds is at most there."""

    high: float
    low: float
    at_most: float


class LamSearch:
    """The search for a lam that no other one beats by more than ``wanted``.

    Parameters
    ----------
    folds : sequence of CertifiedFold
        All of them fitted to the same lams.
    wanted : float
        How much better another lam may be.
    time_limit : float, optional
        Seconds, after which nothing more is fitted.
    """

    # Between two fits an interval is halved so often at most: bounds on all 64 parts cost about as
    # much as one more fit.
    _most_halvings = 6
    # The share of what a bound may lack that the fits themselves may take; the rest is for what is
    # between them.
    _share_of_fit = 0.5
    _least_tol = 1e-11
    _narrowest = 1e-3  # ratio of two lams, less one, that are not told apart any more

    def __init__(
        self, folds: Sequence[CertifiedFold], wanted: float, time_limit: float | None
    ) -> None:
        self.folds, self.wanted = folds, wanted
        self.parts: list[Part] = []
        self._end = None if time_limit is None else clock() + time_limit
        for fold in folds:
            for bounds in fold.bounds:
                bounds.stop_at(self._end)

    @property
    def lams(self) -> Vector:
        """The lams that were fitted, decreasing."""
        return np.array(sorted(self.folds[0].kept, reverse=True))

    def score(self, lam: float) -> float:
        """Return the mean score of the folds."""
        return float(np.mean([fold.scores[lam] for fold in self.folds]))

    def run(self) -> None:
        """Discard all lams that cannot win."""
        lams = self.lams.tolist()
        # The best score should be exact; paths tell it anyway.
        while not all(bounds.is_followed for fold in self.folds for bounds in fold.bounds):
            if not self._tighten(max(lams, key=self.score)):
                break
        for high, low in pairwise(lams):
            self._settle(high, low, [(high, low)])
            for fold in self.folds:
                fold.forget_above(low)

    def proof(self, estimator: Any) -> LamProof:
        """Return what is proven, and warn if it is less than what was wanted."""
        scoring = estimator.scoring
        if scoring is None and estimator.description.loss_task == "classification":
            scoring = "accuracy"
        elif scoring is None:
            own = measure_of(estimator.loss_function())
            scoring = "r2" if own is None else own.name
        zero, measure = ERRORS[scoring]
        parts = sorted(self.parts, key=lambda part: -part.high)
        lam = max(self.lams.tolist(), key=self.score)
        proof = LamProof(
            lam=lam,
            error=zero - self.score(lam),
            wanted=self.wanted,
            highs=np.array([part.high for part in parts]),
            lows=np.array([part.low for part in parts]),
            at_least=np.array([zero - part.at_most for part in parts]),
            lams=self.lams,
            errors=np.array([zero - self.score(each) for each in self.lams.tolist()]),
            measure=measure,
        )
        if not proof.success:
            advice = "raise the smallest of lams, or allow a larger number"
            if self._is_over:
                advice = "allow a longer time_limit, or a larger number"
            warn(
                f"{type(estimator).__name__}: lam was to be certified to {self.wanted:g}, proven "
                f"is {proof.proven:.3g}; {advice}",
                ConvergenceWarning,
            )
        return proof

    @property
    def _target(self) -> float:
        return max(map(self.score, self.folds[0].kept)) + self.wanted

    @property
    def _is_over(self) -> bool:
        return self._end is not None and clock() > self._end

    def _settle(self, high: float, low: float, open_: list[tuple[float, float]]) -> None:
        """Discard parts of the lams between two that were fitted, with more fits if needed."""
        left = self._discard(high, low, open_)
        if left and self._tighten(high) | self._tighten(low):
            left = self._discard(high, low, [(part.high, part.low) for part in left])
        if not left:
            return
        if self._is_over or log(high / low) < self._narrowest:
            self.parts += left
            return
        middle = sqrt(high * low)
        for fold in self.folds:
            fold.refit(middle, min(fold.tols[high], fold.tols[low]))
        self._tighten(middle)
        above = [(part.high, max(part.low, middle)) for part in left if part.high > middle]
        below = [(min(part.high, middle), part.low) for part in left if part.low < middle]
        self._settle(high, middle, above)
        self._settle(middle, low, below)

    def _discard(self, high: float, low: float, open_: list[tuple[float, float]]) -> list[Part]:
        """Discard what can be by the fits at both ends; return the rest."""
        if not open_:
            return []
        stretches = [fold.stretches(high, low) for fold in self.folds]

        def at_most(begin: float, end: float) -> float:
            pairs = zip(self.folds, stretches, strict=True)
            return float(np.mean([fold.at_most(own, begin, end) for fold, own in pairs]))

        target, left = self._target, list[Part]()
        todo = [(*part, 0) for part in reversed(open_)]
        while todo:
            begin, end, halvings = todo.pop()
            part = Part(begin, end, at_most(begin, end))
            middle = sqrt(begin * end)
            if part.at_most <= target:
                self.parts.append(part)
            elif halvings == self._most_halvings or at_most(middle, middle) > target:
                left.append(part)
            else:
                todo += [(middle, end, halvings + 1), (begin, middle, halvings + 1)]
        return left

    def _tighten(self, lam: float) -> bool:
        """Fit a lam more accurately where its own bound is too wide; return whether it was."""
        changed, allowed = False, self._share_of_fit * (self._target - self.score(lam))
        for fold in self.folds:
            for _ in range(3):
                own = fold.at_most(fold.stretches(lam, lam), lam, lam) - fold.scores[lam]
                if own <= allowed or fold.tols[lam] <= self._least_tol or self._is_over:
                    break
                gap = max(each.certificate.relative_gap for each in fold.kept[lam])
                tol = gap * min(0.5 * (allowed / own) ** 2, 0.25)
                fold.refit(lam, max(tol, self._least_tol))
                changed = True
        return changed


def certified_search(
    estimator: Any, folds: Iterable[Fold], n_folds: int, lams: Vector, begin: float
) -> tuple[Search, LamProof]:
    """Fit as many lams as a proof needs, and return what was found and what is proven."""
    certified = list[CertifiedFold]()
    limit = estimator.time_limit
    for done, fold in enumerate(folds):
        require_boundable(estimator, fold.plan.risks)
        certified.append(CertifiedFold(fold, part=f"fold-{done}"))
        # The last fit, with all data, counts as one more fold.
        certified[-1].fit_path(lams, share_of_time(limit, begin, n_folds - done + 1))
    search = LamSearch(certified, float(estimator.certified), share_of_time(limit, begin, 2))
    search.run()
    proof = search.proof(estimator)
    fits = [
        FoldFits(
            np.array([own.scores[lam] for lam in search.lams]),
            [[each.certificate for each in own.kept[lam]] for lam in search.lams],
            own.evaluations,
            [np.array([each.w for each in own.kept[lam]]) for lam in search.lams],
        )
        for own in certified
    ]
    return Search(search.lams, estimator.rule, [fits]), proof
