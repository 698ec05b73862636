"""The reduced problem ``min_w r(w) + max_i a_i.w + b_i``, with a strictly convex regularizer."""

from __future__ import annotations

from cutplane.core.bundle import Bundle
from cutplane.core.needs import as_quadratic
from cutplane.core.problem import Candidate, Problem
from cutplane.core.reduced.newton import maximize_dual


def minimize_model(problem: Problem, bundle: Bundle, *, accuracy: float) -> Candidate:
    """Minimize regularizer and planes; the solution's weights become those of the bundle."""
    regularizer = problem.regularizer
    if quadratic := as_quadratic(regularizer):
        bundle.weigh(quadratic.lam, accuracy=accuracy)
    else:
        start = bundle.feasible_weights(regularizer)
        bundle.set_weights(maximize_dual(regularizer, bundle.model(), start, accuracy=accuracy))
    return problem.below(bundle.aggregate())
