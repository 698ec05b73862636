"""Fits for one lam after another, each with the planes of the one before, and which lams to try.

A plane below the risk says nothing of the regularizer. So the planes found for one lam bound the
objective of the next one, at once and tightly: only what is new near the new optimum is missing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.problem import Problem
from cutplane.core.result import Result
from cutplane.estimators.fit import method_of, share_of_time, solve
from cutplane.estimators.linear.model import LinearModel
from cutplane.estimators.linear.starts import convex_start
from cutplane.methods import automatic
from cutplane.regularizers import L2
from cutplane.risks import ScoredRisk

_DECADES = 4.0


def fits_along(
    model: LinearModel, risk: ScoredRisk, lams: Vector, *, time_limit: float | None, part: str = ""
) -> Iterator[Result]:
    """Minimize the risk plus ``L2(lam)`` for each lam in turn; Ctrl-C ends with the current one.

    Options are those of the model, but for the ``time_limit``, which is for all lams together. In
    its checkpoint these runs are the ``part`` of that name.
    """
    begin = time.perf_counter()
    known, method = None, None
    if model.method in (None, "auto"):
        method = automatic(Problem(risk, L2(lams[0])), on_a_path=True)
    for done, lam in enumerate(lams):
        problem = Problem(risk, L2(lam))
        folder, start = os.path.join(part, f"lam-{done}"), None
        if not risk.convex:  # planes hold near one point only, and each lam begins anew
            limit = share_of_time(time_limit, begin, 2 * (len(lams) - done))
            start = convex_start(model, risk, L2(lam), time_limit=limit, part=folder)
            folder = os.path.join(folder, "robust")
        result = solve(
            model,
            problem,
            method or method_of(model, problem),
            max_iter=model.max_iter,
            time_limit=share_of_time(time_limit, begin, len(lams) - done),
            start=start,
            planes_from=known if risk.convex else None,
            part=folder,
        )
        yield result
        if result.state.stopped:
            return
        known = result.state


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


def lam_grid(risks: Iterable[ScoredRisk], n_lams: int, *, name: str = "n_lams") -> Vector:
    """Return ``n_lams`` values over four decades, the largest first, that suit all the risks.

    With the plane ``(a, R(0))`` at zero, ``J >= R(0) - |a|^2 / (2 lam)``: from ``|a|^2 / R(0)`` on,
    no model is better than ``w = 0`` by more than a half. There the grid begins. (A share of
    ``tol`` in place of the half would make it begin far too high: on a9a at 80, and the best lam
    is 1e-5 to 1e-4.)
    """
    if n_lams < 1:
        raise ValueError(f"{name} must be at least 1, got {n_lams}")
    largest = max(_lam_of_half(risk) for risk in risks)
    return np.geomspace(largest, largest * 10.0**-_DECADES if n_lams > 1 else largest, n_lams)


def _lam_of_half(risk: ScoredRisk) -> float:
    zero = risk.at(np.zeros(risk.n_parameters))
    slope = zero.plane().slope
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        lam = float(np.divide(dot(slope, slope), abs(zero.value)))
    # Without any signal in the features, or any loss, all lams give the same model.
    return lam if np.isfinite(lam) and lam > 1e-290 else 1.0
