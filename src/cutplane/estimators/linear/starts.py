"""Where fits with a loss that is not convex begin: at the solution of a convex one.

Which stationary point is found depends on the start. A loss that is not convex names a convex one
that is much like it (the hinge for the ramp), whose certified solution is a sensible start. Further
starts are its solutions for bootstrap samples: the same examples with random weights, whose fits
differ as much as the data leave open.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.mapped import ChangedData
from cutplane.core.certificate import Certificate, Result
from cutplane.core.interrupts import interrupted_so_far
from cutplane.core.protocols import Regularizer
from cutplane.core.state import Problem
from cutplane.estimators.fit import Plan, certificate_of_zero, share_of_time, solve
from cutplane.risks import ScoredRisk
from cutplane.solvers.automatic import automatic

# The relative gap of a start. On a9a and covtype with a fifth of the labels wrong and lam 1e-4 and
# 1e-5, starts with gaps from 0.1 to 1e-3 led to test accuracies within 0.15 points of each other.
_LOOSE = 1e-2


def with_convex_starts(model: Any, plan: Plan) -> Plan:
    """Return the plan with a convex solution to start each problem at, and others if wanted.

    A plan of convex problems, of losses that name no convex one, or with starts from an earlier
    fit, is returned as it is.
    """
    risks = plan.risks
    known = plan.starts is not None and any(start is not None for start in plan.starts)
    if known or not _has_twins(risks):
        return plan
    random = np.random.default_rng(model.random_state)
    starts, certificates, evaluations = list[list[Vector]](), list[Certificate](), 0
    for k, risk in enumerate(risks):
        starts.append([])
        for s in range(model.n_starts):
            drawn = None if s == 0 else _bootstrap(risk.weights, random)
            # As many runs are left to come from these starts.
            n_left = 2 * len(risks) * model.n_starts - k * model.n_starts - s
            try:
                result = _convex_solution(
                    model,
                    risk,
                    plan.regularizer,
                    drawn,
                    time_limit=share_of_time(model.time_limit, plan.examples.begin, n_left),
                    part=os.path.join(plan.part, f"problem-{k}", f"convex-{s}"),
                )
            except ChangedData as error:
                if not certificates:
                    raise
                starts[k].append(np.zeros(risk.n_parameters))
                if s == 0:
                    certificates.append(certificate_of_zero(risk, error))
                continue
            starts[k].append(result.w)
            evaluations += result.evaluations
            if s == 0:
                certificates.append(result.certificate)
    return replace(
        plan,
        starts=[first for first, *_ in starts],
        more_starts=[others for _, *others in starts],
        start_certificates=certificates,
        evaluations=plan.evaluations + evaluations,
        part=os.path.join(plan.part, "robust"),
    )


def convex_start(
    model: Any, risk: ScoredRisk, regularizer: Regularizer, *, time_limit: float | None, part: str
) -> Vector | None:
    """Return where to begin with a risk that is not convex; None if nothing is known."""
    if not _has_twins([risk]):
        return None
    return _convex_solution(
        model, risk, regularizer, None, time_limit=time_limit, part=os.path.join(part, "convex")
    ).w


def _has_twins(risks: Sequence[ScoredRisk]) -> bool:
    return all(risk.convex is False and risk.loss.convex_twin is not None for risk in risks)


def _convex_solution(
    model: Any,
    risk: ScoredRisk,
    regularizer: Regularizer,
    weights: Vector | None,
    *,
    time_limit: float | None,
    part: str,
) -> Result:
    """Minimize the convex risk that is like this one, with other weights if they are given."""
    convex = ScoredRisk(
        risk.map,
        risk.y + risk.shift,
        risk.loss.convex_twin,
        weights=risk.weights if weights is None else weights,
        intercept=risk.intercept,
    )
    return loose_solution(model, convex, regularizer, time_limit=time_limit, part=part)


def loose_solution(
    model: Any, risk: ScoredRisk, regularizer: Regularizer, *, time_limit: float | None, part: str
) -> Result:
    """Minimize a convex risk as well as a start needs it."""
    problem = Problem(risk, regularizer)
    loose = copy(model)
    loose.tol = max(model.tol, _LOOSE)
    return solve(
        loose,
        problem,
        automatic(problem),
        max_iter=1 if interrupted_so_far() else model.max_iter,
        time_limit=time_limit,
        part=part,
    )


def _bootstrap(weights: Vector, random: np.random.Generator) -> Vector:
    """Return the weights of a bootstrap sample: how often each example was drawn."""
    drawn = weights * random.poisson(1.0, len(weights))
    return drawn if drawn.any() else weights
