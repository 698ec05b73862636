"""Cutting planes over a ball or a box.

Kelley's cutting planes: the planes alone, minimized over a ball around zero.

    min max_i a_i.w + b_i  over  |w| <= radius      (papers 001 and 003; paper 004, Algorithm 1)

Weights alpha give the bound ``D(alpha) = b.alpha - radius |A'alpha|``. Since

    radius |s| = min over mu of  |s|^2 / (2 mu) + mu radius^2 / 2,     best at  mu = |s| / radius,

the best weights are those of the ordinary reduced problem with ``mu`` in place of ``lam``, for the
``mu`` at which its minimizer ``-s/mu`` lies on the sphere. A search finds it. If the planes have a
minimum inside the ball, ``mu`` tends to zero. What a pair of weights and a point lacks is known, so
the search ends when that is small enough.

Kelley's cutting planes over a box: a linear program, by HiGHS.

    min max_i a_i.w + b_i   over  lower <= w <= upper
    w = lower + (upper - lower) * x,   0 <= x <= 1

Its multipliers are the weights alpha, and ``D(alpha) = b.alpha - r*(-A'alpha)`` with the conjugate
of the box is a bound for any weights: so it holds however exact the program was solved.

Kelley's cutting planes: the planes alone, minimized over a ball or a box (papers 001, 003).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.method import Stabilizer
from cutplane.core.protocols import BallSet, BoxSet
from cutplane.core.solver import SET
from cutplane.core.state import SHARE_OF_GAP, Candidate, Run

# Some five are usual; the limit is for gaps that rounding does not let close.
_MOST_SOLVES = 60

_EPS = float(np.finfo(np.float64).eps)


def lowest_in_ball(ball: BallSet, state: Run, multiplier: float | None) -> tuple[Candidate, float]:
    """Return where the planes are lowest in the ball, and the multiplier of that.

    ``multiplier`` is that of the last problem, None for the first.
    """
    bundle = state.bundle
    mu = last = _first_multiplier(ball, state) if multiplier is None else multiplier
    bracket = _Bracket(ball.radius)
    best = Candidate(state.best.w, -np.inf, np.inf)
    for _ in range(_MOST_SOLVES):
        gap = state.objective - max(state.lower, best.lower)
        accuracy = SHARE_OF_GAP * gap if 0.0 < gap < np.inf else 0.0
        bundle.weigh(mu, accuracy=0.5 * accuracy)
        plane = bundle.aggregate()
        on_sphere = state.problem.below(plane)
        size = float(np.sqrt(dot(plane.slope, plane.slope)))
        w = on_sphere.w if size >= mu * ball.radius else -plane.slope / mu
        model, lower = bundle.height_at(w), max(best.lower, on_sphere.lower)
        best = replace(best, lower=lower)
        if model < best.model:
            best = Candidate(w, lower, model)
        last = mu
        mu = bracket.next_multiplier(mu, size)
        if best.model - best.lower <= accuracy or bracket.closed:
            break
    return best, last


def _first_multiplier(ball: BallSet, state: Run) -> float:
    steepest = float(np.sqrt(np.diagonal(state.bundle.gram).max()))
    return steepest / ball.radius or 1.0


@dataclass(slots=True)
class _Bracket:
    """Closes in on the root of ``excess(mu) = |s(mu)| - radius mu``.

    The excess is positive below the root and negative above it. ``|s|`` grows with ``mu``, so
    ``|s|/radius`` is between ``mu`` and the root: a step that never leaps over it.
    """

    radius: float
    low: float = 0.0
    high: float = np.inf
    low_excess: float = 0.0
    high_excess: float = 0.0
    moved_low: bool = False

    def next_multiplier(self, mu: float, size: float) -> float:
        """Take in the size of the slope at ``mu``, and return the next one to try."""
        excess = size - self.radius * mu
        # The Illinois rule: an end that stays twice in a row counts half, so that it moves too.
        if excess >= 0.0:
            self.high_excess *= 0.5 if self.moved_low else 1.0
            self.low, self.low_excess, self.moved_low = mu, excess, True
        else:
            self.low_excess *= 1.0 if self.moved_low else 0.5
            self.high, self.high_excess, self.moved_low = mu, excess, False
        if self.high == np.inf:
            return max(size / self.radius, 4.0 * self.low)
        if self.low == 0.0:
            return min(size / self.radius, 0.25 * self.high)
        share = self.low_excess / (self.low_excess - self.high_excess)
        return self.low + share * (self.high - self.low)

    @property
    def closed(self) -> bool:
        """Whether there is nothing left to search."""
        return self.high < np.inf and self.high - self.low <= 4 * _EPS * self.high


# The smallest that HiGHS takes; absolute, where the largest change of a plane in the box is 1.
_TOLERANCE = 1e-10


def lowest_in_box(box: BoxSet, state: Run) -> Candidate:
    """Return where the planes are lowest in the box, and the bound of their multipliers."""
    bundle = state.bundle
    if bundle.tilts.any():
        # A linear program balances tilts to its tolerance only, which is not enough for a bound.
        raise ValueError("over a box, groups of planes and an intercept do not go together")
    w, alpha = _solved(state, box)
    totals = np.zeros(0) if alpha is None else np.bincount(bundle.groups, alpha, bundle.n_groups)
    if w is None or alpha is None or totals.min() <= _EPS:  # HiGHS gave up
        bundle.set_weights(bundle.feasible_weights(state.problem.regularizer))
        w = state.problem.below(bundle.aggregate()).w
    else:
        bundle.set_weights(alpha / totals[bundle.groups])
    lower = state.problem.below(bundle.aggregate()).lower
    return Candidate(w, lower, bundle.height_at(w))


def _solved(state: Run, box: BoxSet) -> tuple[Vector | None, Vector | None]:
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


@dataclass(frozen=True, slots=True)
class OverSet(Stabilizer[float | None]):
    """No term is added; the regularizer is a ball or a box that ``w`` must not leave.

    Remembered is the multiplier of the last problem over a ball.
    """

    needs = (SET,)
    confined: ClassVar[bool] = True

    def propose(self, state: Run, own: float | None) -> tuple[Candidate, float | None]:
        """Minimize the planes over the set."""
        confined = SET.of(state.problem)
        if isinstance(confined, BoxSet):
            return lowest_in_box(confined, state), own
        return lowest_in_ball(confined, state, own)
