"""How lam is chosen: which to try, and which of them to take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.protocols import Risk
from cutplane.regularizers import L2

RULES = ("best", "one_standard_error")
"""How one of many lams is taken, by their scores."""


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
    lams: Any = 10
    rule: str = "best"
    scoring: Any = None

    def __post_init__(self) -> None:
        """Refuse an unknown rule at once."""
        if self.rule not in RULES:
            raise ValueError(f"rule must be one of {', '.join(RULES)}, got {self.rule!r}")


def decreasing(lams: Any) -> Vector:
    """Return the different ones of the user's lams, the largest first."""
    given = np.asarray(lams)
    if given.ndim > 1 or given.size == 0 or given.dtype.kind not in "iuf":
        raise ValueError(f"lams must be a list of numbers, got {lams!r}")
    values = np.atleast_1d(given.astype(np.float64))
    wrong = values[~(np.isfinite(values) & (values > 0.0))]
    if wrong.size:
        raise ValueError(f"every lam must be positive and finite, got {wrong[0]:g}")
    return np.unique(values)[::-1]


def lams_to_try(lams: Any, risks: Iterable[Risk], default: int, *, like: Any = None) -> Vector:
    """Return the lams that a user gave, or as many as they asked for, for these risks.

    ``like`` is a regularizer whose kind, center and weights count.
    """
    if lams is None:
        return lam_grid(risks, default, like=like)
    if isinstance(lams, int | np.integer) and not isinstance(lams, bool):
        return lam_grid(risks, int(lams), name="lams", like=like)
    return decreasing(lams)


def lam_grid(
    risks: Iterable[Risk], n_lams: int, *, name: str = "n_lams", like: Any = None
) -> Vector:
    """Return ``n_lams`` values over four decades, the largest first, that suit all the risks.

    With the plane ``(a, R(0))`` at zero, ``J >= R(0) - |a|^2 / (2 lam)``: from ``|a|^2 / R(0)`` on,
    no model is better than ``w = 0`` by more than a half. There the grid begins. (A share of
    ``tol`` in place of the half would make it begin far too high: on a9a at 80, and the best lam
    is 1e-5 to 1e-4.) Where the regularizer has a center, that takes the place of zero. With
    absolute values in it, the grid begins with the smallest lam for which zero is the best.
    """
    if n_lams < 1:
        raise ValueError(f"{name} must be at least 1, got {n_lams}")
    largest = max((_lam_of_half(risk, like or L2(1.0)) for risk in risks), default=1.0)
    return np.geomspace(largest, 1e-4 * largest if n_lams > 1 else largest, n_lams)


def _lam_of_half(risk: Risk, like: Any) -> float:
    center = getattr(like, "center", None)
    point = risk.at(np.zeros(risk.n_parameters) if center is None else center)
    slope = point.plane().slope
    form = like.by_coordinate(risk.n_parameters) if hasattr(like, "by_coordinate") else None
    if form is not None and (share := form.l1 / like.lam) > 0.0:
        # From there on zero is the best, or the best within bounds that include it.
        pull = np.where(-slope > 0.0, form.upper > 0.0, form.lower < 0.0) * np.abs(slope)
        lam = float(pull.max(initial=0.0)) / share
    else:
        image = like.dual_metric(slope) if hasattr(like, "dual_metric") else slope
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            lam = float(np.divide(dot(slope, image), abs(point.value)))
    # Without any signal in the features, or any loss, all lams give the same model.
    return lam if np.isfinite(lam) and lam > 1e-290 else 1.0


def chosen_lam(scores: NDArray[np.float64], rule: str) -> int:
    """Return which of decreasing lams to take, from scores with a row for each fold.

    "best" takes the best mean score; of equally good ones the largest lam, the simplest model.
    "one_standard_error" takes the largest lam whose mean is no more than one standard error of the
    best mean below it.
    """
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, got {rule!r}")
    if not np.isfinite(scores).all():
        raise ValueError("a score is not finite: is a fold too small, or without weight?")
    means = scores.mean(axis=0)
    best = int(means.argmax())
    if rule == "best" or len(scores) < 2:
        return best
    return int(np.argmax(means >= means[best] - standard_errors(scores)[best]))


def standard_errors(scores: NDArray[np.float64]) -> Vector:
    """Return the standard error of each column's mean over the folds; zeros for one fold."""
    if len(scores) < 2:
        return np.zeros(scores.shape[1])
    errors: Vector = scores.std(axis=0, ddof=1) / np.sqrt(len(scores))
    return errors
