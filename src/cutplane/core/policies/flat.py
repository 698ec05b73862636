"""Where nothing curves: planes over a ball or a box, and regularizers such as ``lam * |w|_1``.

Kelley's cutting planes are the planes alone, minimized over a ball around zero (papers 001 and 003;
paper 004, Algorithm 1),

    min max_i a_i.w + b_i  over  |w| <= radius

Weights alpha give the bound ``D(alpha) = b.alpha - radius |A'alpha|``. Since

    radius |s| = min over mu of  |s|^2 / (2 mu) + mu radius^2 / 2,     best at  mu = |s| / radius,

the best weights are those of the ordinary reduced problem with ``mu`` in place of ``lam``, for the
``mu`` at which its minimizer ``-s/mu`` lies on the sphere. A search finds it. If the planes have a
minimum inside the ball, ``mu`` tends to zero. What a pair of weights and a point lacks is known, so
the search ends when that is small enough.

Over a box they are a linear program, by HiGHS:

    min max_i a_i.w + b_i   over  lower <= w <= upper
    w = lower + (upper - lower) * x,   0 <= x <= 1

Its multipliers are the weights alpha, and ``D(alpha) = b.alpha - r*(-A'alpha)`` with the conjugate
of the box is a bound for any weights: so it holds however exact the program was solved.

With a regularizer that has no curvature the reduced problem is a linear program, too:

    min_w  r(w) + max_i (a_i.w + b_i)             r*(u) = 0 if |u|_inf <= radius, else infinite

Its dual

    max  b.alpha     over the simplex, with  |A'alpha|_inf <= radius

gives the lower bound. Its solution is a bad place to look next: it jumps from corner to corner of
the model, far away from the best point. So the candidate is the point near the best one where
the model is about half way down to its minimum (a level method). It minimizes
``r(w) + strength/2 |w - best|^2`` plus the model, for a strength that is changed until the model's
height there is inside a wide band: mostly the last one will do. The weights of that problem give a
bound too, and the linear program is solved only in every other iteration, or when it seems too low.

A dual point that is not quite feasible is repaired by mixing it with the flat plane of the risk's
lower bound, which makes its slope smaller. So the bound holds whatever the accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isinf
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import EPS, Vector
from cutplane.compute.pace import hurried, seconds_left
from cutplane.compute.products import dot
from cutplane.core.bundle import Model, maximize_dual
from cutplane.core.protocols import BallSet, BoxSet, FlatRegularizer, Plane
from cutplane.core.solver import SET, Stabilizer
from cutplane.core.state import SHARE_OF_GAP, Candidate, Run, candidate_below


def lowest_in_ball(ball: BallSet, state: Run, multiplier: float | None) -> tuple[Candidate, float]:
    """Return where the planes are lowest in the ball, and the multiplier of that.

    ``multiplier`` is that of the last problem, None for the first.
    """
    bundle = state.bundle
    if multiplier is None:
        steepest = float(np.sqrt(np.diagonal(bundle.gram).max()))
        multiplier = steepest / ball.radius or 1.0
    mu = last = multiplier
    bracket = _Bracket(ball.radius)
    best = Candidate(state.best.w, -np.inf, np.inf)
    for _ in range(60):  # some five are usual; the limit is for gaps that rounding keeps open
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
        return self.high < np.inf and self.high - self.low <= 4 * EPS * self.high


def lowest_in_box(box: BoxSet, state: Run) -> Candidate:
    """Return where the planes are lowest in the box, and the bound of their multipliers."""
    bundle = state.bundle
    if bundle.tilts.any():
        # A linear program balances tilts to its tolerance only, which is not enough for a bound.
        raise ValueError("over a box, groups of planes and an intercept do not go together")
    w, alpha = _solved(state, box)
    totals = np.zeros(0) if alpha is None else np.bincount(bundle.groups, alpha, bundle.n_groups)
    if w is None or alpha is None or totals.min() <= EPS:  # HiGHS gave up
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
    least = EPS * float(np.abs(heights).max(initial=0.0))
    scale = max(float(np.abs(changes).max(initial=0.0)), least) or 1.0
    # One variable more for each group: how high its planes are.
    members = bundle.groups[:, None] == np.arange(bundle.n_groups)
    solution = linprog(
        np.append(np.zeros(d), np.ones(bundle.n_groups)),
        A_ub=np.hstack([changes / scale, -members.astype(np.float64)]),
        b_ub=-heights / scale,
        bounds=[(0.0, 1.0)] * d + [(None, None)] * bundle.n_groups,
        method="highs",
        # The smallest that HiGHS takes; absolute, where the largest change of a plane is 1.
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
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


class _Settings(NamedTuple):
    """How a candidate is looked for, and when its linear program is solved."""

    # The candidate's share of the way from the model's minimum (0) up to the best objective (1).
    band: tuple[float, float] = (0.2, 0.7)
    most_strengths: int = 12
    # In which iterations the linear program is solved, whatever its bound may be worth. (a9a, tol
    # 1e-4, logistic and hinge loss: 121 and 146 evaluations at lam = 1e-4, in 1.1 and 1.7 s.
    # Without this rule 134 and 170 in 1.0 and 1.4 s, with a program in every iteration 122 and 149
    # in 1.8 and 2.6.)
    solve_every: int = 2
    # Of the coordinates, those whose dual constraint is nearly active enter the program first.
    nearly_active: float = 0.7
    most_rounds: int = 20


_SETTINGS = _Settings()


def repaired(plane: Plane, floor: float, radius: float) -> Plane:
    """Return a mean of the plane and the flat one at ``floor`` that is not steeper than allowed."""
    steepest = float(np.abs(plane.slope).max(initial=0.0))
    if steepest <= radius:
        return plane
    share = radius / steepest * (1.0 - 4.0 * EPS)
    return Plane(share * plane.slope, share * plane.offset + (1.0 - share) * floor)


def best_plane(
    model: Model, floor: float, radius: float, guess: Vector, *, at_once: int | None = None
) -> Plane:
    """Return the mean of planes with the highest offset among those not steeper than ``radius``.

    A linear program over the planes' weights. Most of its constraints, two for each coordinate,
    are not active: those that are violated enter as it goes, at most so many ``at_once``.
    """
    from scipy.optimize import linprog  # slow to import, and only needed here

    slopes = model.slopes()
    slope = model.slope(guess)
    chosen = _steepest(slope, _SETTINGS.nearly_active * radius, at_once)
    # One column more: the weight of the flat plane at the floor, which all groups share.
    profit = np.append(model.offsets, floor)
    members = model.groups == np.arange(model.n_groups)[:, None]
    sums = np.column_stack([members, np.ones(model.n_groups)])
    best = Plane(np.zeros(slopes.shape[1]), floor)
    for _ in range(_SETTINGS.most_rounds):
        steepness = np.column_stack([slopes[:, chosen].T / radius, np.zeros(len(chosen))])
        solution = linprog(
            -profit,
            A_ub=np.vstack([steepness, -steepness]),
            b_ub=np.ones(2 * len(chosen)),
            A_eq=sums,
            b_eq=np.ones(model.n_groups),
            method="highs",
            options={} if isinf(left := seconds_left()) else {"time_limit": max(left, 0.0)},
        )
        if solution.x is None:
            break
        weights = np.maximum(solution.x[:-1], 0.0)
        totals = np.bincount(model.groups, weights=weights, minlength=model.n_groups)
        if totals.min() <= EPS:
            break
        share = min(1.0, float(totals.mean()))
        mean = weights / totals[model.groups]
        slope = share * model.slope(mean)
        offset = share * float(mean @ model.offsets) + (1.0 - share) * floor
        plane = repaired(Plane(slope, offset), floor, radius)
        if plane.offset > best.offset:
            best = plane
        violated = _steepest(slope, (1.0 + 1e-6) * radius, at_once)
        entering = np.setdiff1d(violated, chosen)
        if len(entering) == 0 or hurried():
            break
        chosen = np.union1d(chosen, entering)
    return best


def _steepest(slope: Vector, least: float, most: int | None) -> NDArray[np.int64]:
    """Return the coordinates steeper than ``least``, the ``most`` steepest if they are more."""
    found = np.flatnonzero(np.abs(slope) > least)
    if most is None or len(found) <= most:
        return found
    return np.sort(found[np.argsort(-np.abs(slope[found]), kind="stable")[:most]])


def propose_at_level(
    regularizer: FlatRegularizer, state: Run, strength: float | None
) -> tuple[Candidate, float | None]:
    """Return the candidate about half way down, with the bound of the linear program.

    ``strength`` is what the last candidate was held with, and the next one's is returned too; None
    where it is not known.
    """
    bundle, accuracy = state.bundle, state.accuracy
    if not np.isfinite(bundle.floor):
        raise ValueError(
            f"{type(regularizer).__name__} has no curvature, so it needs a risk with a known "
            "lower_bound, such as cp.FunctionRisk(function, d, lower_bound=0.0)"
        )
    model, radius = bundle.model(), regularizer.dual_radius
    alpha = bundle.feasible_weights(regularizer.with_square(1.0, state.best.w))
    # The linear program balances tilts to its tolerance only, which is not enough for a bound.
    may_solve, lower = not model.tilts.any(), state.lower
    search = _StrengthSearch(strength or _first_strength(model, state.objective - lower))
    while True:
        near = regularizer.with_square(search.strength, state.best.w)
        alpha = bundle.alpha = maximize_dual(near, model, alpha, accuracy=accuracy)
        own = repaired(bundle.aggregate(), bundle.floor, radius)
        lower = max(lower, candidate_below(own, regularizer).lower)
        w = near.conjugate(-model.slope(alpha))[1]
        height = model.lowest_height(model.heights(w))
        value = regularizer.value(w) + height
        too_high = value > lower + _SETTINGS.band[1] * (state.objective - lower)
        due = state.iteration % _SETTINGS.solve_every == 0
        if may_solve and (too_high or due or state.stalled_for > 0):
            # Or is the bound too low? It is that of earlier iterations, and of this alpha.
            plane = best_plane(model, bundle.floor, radius, alpha)
            lower = max(lower, candidate_below(plane, regularizer).lower)
            may_solve = False
        if search.is_over(value - lower, state.objective - lower):
            break
    bundle.set_weights(alpha)
    return Candidate(w, lower, height), search.found


def _first_strength(model: Model, band: float) -> float:
    """Return the strength for which a step down the last plane would close the gap."""
    slope = model.storage[model.slots[-1]]
    return float(slope @ slope) / band if band > 0.0 and slope.any() else 1.0


class _StrengthSearch:
    """Looks for a strength that puts the candidate inside the band."""

    def __init__(self, strength: float) -> None:
        self.strength = strength
        self._weak, self._strong = 0.0, np.inf
        self._trials = 0
        self.found: float | None = None  # begin anew next time

    def is_over(self, height: float, band: float) -> bool:
        """Say whether the height above the bound is as it should be; else move the strength."""
        self._trials += 1
        lowest, highest = _SETTINGS.band
        share = height / band if band > 0.0 else lowest
        if lowest <= share <= highest:
            self.found = self.strength
            return True
        if self._trials >= _SETTINGS.most_strengths:
            return True
        if share < lowest:
            self._weak = self.strength
        else:
            self._strong = self.strength
        if self._weak == 0.0:
            self.strength /= 4.0
        elif self._strong == np.inf:
            self.strength *= 4.0
        else:
            self.strength = float(np.sqrt(self._weak * self._strong))
        return False
