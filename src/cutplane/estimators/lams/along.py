"""Fits along lams: each begins with the planes of the one before."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import clock
from cutplane.core.certificate import Certificate, Result
from cutplane.core.state import Problem
from cutplane.estimators.fit import method_of, share_of_time, solve
from cutplane.estimators.linear.model import LinearModel
from cutplane.estimators.linear.starts import convex_start
from cutplane.risks import ScoredRisk
from cutplane.solvers.automatic import automatic


class Along(NamedTuple):
    """What the fits of all problems along some lams have found.

    Attributes
    ----------
    parameters : ndarray of shape (n_lams, n_problems, n_parameters)
    intercepts : ndarray
        The same for intercepts.
    certificates : list of lists
        For each lam, of its problems.
    evaluations : int
    """

    parameters: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    certificates: list[list[Certificate]]
    evaluations: int


def all_along(
    model: LinearModel,
    risks: Sequence[ScoredRisk],
    lams: Vector,
    *,
    time_limit: float | None,
    part: str,
) -> Along:
    """Fit each of several problems along the lams; Ctrl-C is passed on, for there is no model."""
    shape = len(lams), len(risks)
    parameters = np.zeros((*shape, risks[0].n_parameters))
    intercepts = np.zeros((*shape, *risks[0].intercept_shape))
    certificates: list[list[Certificate]] = [[] for _ in lams]
    evaluations = 0
    for k, risk in enumerate(risks):
        share = None if time_limit is None else time_limit / len(risks)
        runs = fits_along(model, risk, lams, time_limit=share, part=f"{part}/problem-{k}")
        for i, run in enumerate(runs):
            if run.state.stopped:
                raise KeyboardInterrupt
            parameters[i, k] = run.w
            intercepts[i, k] = run.point.intercept  # type: ignore[attr-defined]
            evaluations += run.evaluations
            certificates[i].append(run.certificate)
    return Along(parameters, intercepts, certificates, evaluations)


def fits_along(
    model: LinearModel, risk: ScoredRisk, lams: Vector, *, time_limit: float | None, part: str = ""
) -> Iterator[Result]:
    """Minimize risk plus regularizer for each lam in turn; Ctrl-C ends with the current one.

    Options are those of the model, but for the ``time_limit``, which is for all lams together. In
    its checkpoint these runs are the ``part`` of that name.
    """
    begin = clock()
    known, method = None, None
    if model.method in (None, "auto"):
        first = model._regularizer(float(lams[0]), risk.n_parameters)
        method = automatic(Problem(risk, first), on_a_path=True)
    for done, lam in enumerate(lams):
        regularizer = model._regularizer(float(lam), risk.n_parameters)
        problem = Problem(risk, regularizer)
        folder, start = os.path.join(part, f"lam-{done}"), None
        if not risk.convex:  # planes hold near one point only, and each lam begins anew
            limit = share_of_time(time_limit, begin, 2 * (len(lams) - done))
            start = convex_start(model, risk, regularizer, time_limit=limit, part=folder)
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
