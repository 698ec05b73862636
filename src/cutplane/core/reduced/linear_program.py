"""The reduced problem with a regularizer that has no curvature, such as ``lam * |w|_1``.

    min_w  r(w) + max_i (a_i.w + b_i)             r*(u) = 0 if |u|_inf <= radius, else infinite

is a linear program. Its dual

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

from math import isinf

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.pace import hurried, seconds_left
from cutplane.core.protocols import FlatRegularizer, Plane
from cutplane.core.reduced.newton import Model, maximize_dual
from cutplane.core.reduced.simplex_qp import EPS
from cutplane.core.state import Candidate, Run, candidate_below

# The candidate's share of the way from the model's minimum (0) up to the best objective (1).
_BAND = (0.2, 0.7)
_MOST_STRENGTHS = 12

# In which iterations the linear program is solved, whatever its bound may be worth. (a9a, tol 1e-4,
# logistic and hinge loss: 121 and 146 evaluations at lam = 1e-4, in 1.1 and 1.7 s. Without this
# rule 134 and 170 in 1.0 and 1.4 s, with a program in every iteration 122 and 149 in 1.8 and 2.6.)
_SOLVE_EVERY = 2

# Of the coordinates, those whose dual constraint is nearly active enter the linear program first.
_NEARLY_ACTIVE = 0.7
_MOST_ROUNDS = 20


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
    chosen = _steepest(slope, _NEARLY_ACTIVE * radius, at_once)
    # One column more: the weight of the flat plane at the floor, which all groups share.
    profit = np.append(model.offsets, floor)
    members = model.groups == np.arange(model.n_groups)[:, None]
    sums = np.column_stack([members, np.ones(model.n_groups)])
    best = Plane(np.zeros(slopes.shape[1]), floor)
    for _ in range(_MOST_ROUNDS):
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
        too_high = value > lower + _BAND[1] * (state.objective - lower)
        due = state.iteration % _SOLVE_EVERY == 0
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
        share = height / band if band > 0.0 else _BAND[0]
        if _BAND[0] <= share <= _BAND[1]:
            self.found = self.strength
            return True
        if self._trials >= _MOST_STRENGTHS:
            return True
        if share < _BAND[0]:
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
