"""Kelley's cutting planes over a box: a linear program, by HiGHS.

    min max_i a_i.w + b_i   over  lower <= w <= upper
    w = lower + (upper - lower) * x,   0 <= x <= 1

Its multipliers are the weights alpha, and ``D(alpha) = b.alpha - r*(-A'alpha)`` with the conjugate
of the box is a bound for any weights: so it holds however exact the program was solved.
"""

from __future__ import annotations

from typing import Protocol, cast

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.core.protocols import Regularizer
from cutplane.core.state import Candidate, State

# The smallest that HiGHS takes; absolute, where the largest change of a plane in the box is 1.
_TOLERANCE = 1e-10
_EPS = float(np.finfo(np.float64).eps)


class _Box(Regularizer, Protocol):
    lower: Vector
    upper: Vector


def lowest_in_box(state: State) -> Candidate:
    """Return where the planes are lowest in the box, and the bound of their multipliers."""
    box, bundle = cast(_Box, state.problem.regularizer), state.bundle
    if bundle.tilts.any():
        # A linear program balances tilts to its tolerance only, which is not enough for a bound.
        raise ValueError("over a box, groups of planes and an intercept do not go together")
    w, alpha = _solved(state, box)
    totals = np.zeros(0) if alpha is None else np.bincount(bundle.groups, alpha, bundle.n_groups)
    if w is None or alpha is None or totals.min() <= _EPS:  # HiGHS gave up
        bundle.set_weights(bundle.feasible_weights(box))
        w = state.problem.below(bundle.aggregate()).w
    else:
        bundle.set_weights(alpha / totals[bundle.groups])
    lower = state.problem.below(bundle.aggregate()).lower
    return Candidate(w, lower, bundle.height_at(w))


def _solved(state: State, box: _Box) -> tuple[Vector | None, Vector | None]:
    """Return the solution of the linear program, and its multipliers."""
    from scipy.optimize import linprog  # slow to import, and only needed here

    bundle, d = state.bundle, state.bundle.n_parameters
    low, high = (np.broadcast_to(bound, d) for bound in (box.lower, box.upper))
    widths, slopes = high - low, bundle.slopes
    with np.errstate(over="ignore", invalid="ignore"):
        heights = slopes @ low + bundle.offsets
        heights -= heights.mean()
    if not np.isfinite(heights).all():
        return None, None
    changes = slopes * widths
    # Changes that are nothing beside the heights must not make these overflow.
    least = _EPS * float(np.abs(heights).max(initial=0.0))
    scale = max(float(np.abs(changes).max(initial=0.0)), least) or 1.0
    # One variable more for each group: how high its planes are.
    members = bundle.groups[:, None] == np.arange(bundle.n_groups)
    solution = linprog(
        np.append(np.zeros(d), np.ones(bundle.n_groups)),
        A_ub=np.hstack([changes / scale, -members.astype(np.float64)]),
        b_ub=-heights / scale,
        bounds=[(0.0, 1.0)] * d + [(None, None)] * bundle.n_groups,
        method="highs",
        options={
            "primal_feasibility_tolerance": _TOLERANCE,
            "dual_feasibility_tolerance": _TOLERANCE,
        },
    )
    if solution.x is None:
        return None, None
    w = np.clip(low + widths * solution.x[:d], low, high)
    return w, np.maximum(-solution.ineqlin.marginals, 0.0)
