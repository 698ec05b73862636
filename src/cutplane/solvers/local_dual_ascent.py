"""Dual ascent on shards: epochs on local rows, combined.

Dual coordinate ascent on parts of the rows, each by itself between two exchanges.

Where a plane has as many numbers as there are features, sending one in each iteration is what takes
the time. So each part of the rows improves its own duals for some epochs, against parameters that
only it changes, and then all changes are added up (V. Smith et al.: CoCoA, a general framework for
communication-efficient distributed optimization, JMLR 2018). What a part does to the parameters
counts ``sigma`` times for itself, as if all others did the same; with ``sigma`` the number of parts
the sum of all changes cannot make the bound worse. Parts of sparse data hardly meet, and a smaller
one is better: ``sigma`` follows how far along the changes a round could go. With conjugates ``C``
before and after, and slopes ``a = X'(p*beta)``,

    bound(gamma) >= -(1 - gamma) C - gamma C' - |a + gamma (a' - a)|^2 / (2 lam)

because conjugates are convex; the best ``gamma`` of that is taken, so that no round makes the bound
worse, whatever ``sigma`` is. Any duals give a plane: the certificate does not depend on all this.

Parts are blocks of rows, and sums are taken along their tree (`cutplane.compute.blocks`). So the
bits are those of the parts, wherever they lie: on threads, or on workers.

On workers the parts are shards. A round sends a plane up and its sum down, two numbers a feature,
and four with an intercept; the bundle method sends two, in each of its iterations.

Rounds are fast at first. Later, or where shards differ from each other, they creep: then steps of
the bundle method come between them, twice as many each time. So a run never takes many more
exchanges than the bundle method, and often far fewer (docs/cluster.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import (
    add_up,
    bounds_here,
    least_blocks,
    placing,
    row_numbers,
    rows_in_all,
)
from cutplane.compute.products import dot
from cutplane.compute.threads import map_parts
from cutplane.core.policies.bmrm import OnSegment
from cutplane.core.protocols import Plane
from cutplane.core.solver import Step
from cutplane.core.state import Problem, Run
from cutplane.losses.loss import LOGISTIC
from cutplane.risks.scored import ScoredPoint, ScoredRisk
from cutplane.solvers import dual_ascent as kernels
from cutplane.solvers.dual_ascent import points_toward

_SEED = 88172645463325252
_ODD = 0x9E3779B97F4A7C15

# As for dual ascent on all rows at once (`solvers/dual_ascent.py`).
_OF_INTERCEPT = 0.03
_FEW_EXAMPLES = 3.0
_CAUTION = 0.7

# How sigma follows the length of steps: it falls where whole steps are taken, down to no more than
# what a part does itself, and rises where much less is. Rounds of two passes to a gap of 1e-3 with
# that, and with sigma left at the number of parts (8 parts in random order, lam = 10/m):
# reuters_lasvm 12 and 24, news20_ng 15 and 25. Set on these.
_WHOLE, _MUCH_LESS = 0.99, 0.8
_DOWN, _UP = 0.7, 2.0


@dataclass(frozen=True, slots=True)
class LocalDuals:
    """The duals of all rows here, and what all parts share.

    Attributes
    ----------
    beta : ndarray
        A dual for each example here.
    orders : list of ndarrays
        The examples of each part here whose duals may move.
    seeds : ndarray
        Of the random orders, one a part.
    reach : ndarray
        How far scores moved at most in the last round, one a part.
    slope : ndarray
        ``X'(p*beta)``, of all parts everywhere.
    conjugate, lacking : float
        Sums over all examples of ``p * l*(beta)`` and of ``p * beta``.
    offset : float
        The intercept, or the center of its regularizer.
    sigma : float
        How often a part counts its own changes.
    point : ScoredPoint
        The risk at the parameters that belong to the duals.
    """

    beta: Vector
    orders: list[NDArray[np.int64]]
    seeds: NDArray[np.uint64]
    reach: Vector
    slope: Vector
    conjugate: float
    lacking: float
    offset: float
    sigma: float
    point: ScoredPoint


class Round(NamedTuple):
    """What a round has found: the plane of its duals, and how many entries were read."""

    plane: Plane
    n_entries: int


class LocalAscent:
    """Rounds of local epochs for one risk; all that changes is in the `LocalDuals`.

    Parameters
    ----------
    risk : ScoredRisk
        On CSR rows; of the rows here, if other workers have the others.
    lam : float
    n_parts : int
        Into how many parts all rows are cut: a power of two.
    """

    def __init__(self, risk: ScoredRisk, lam: float, n_parts: int) -> None:
        self._risk, self._lam, self._n_parts = risk, lam, n_parts
        self._rows: Any = risk.rows
        self._loss: Any = risk.loss
        form = risk.loss.dual_form
        assert form is not None
        self._kind, self._shape = form
        self._bounds = bounds_here(len(risk.y), n_parts)

    @property
    def _parts(self) -> list[slice]:
        return [slice(begin, end) for begin, end in pairwise(self._bounds.tolist())]

    def begun(self) -> LocalDuals:
        """Return duals of zero."""
        risk = self._risk
        weights = risk.weights
        # A part's random orders depend on where it begins in the whole sample.
        begins = row_numbers(len(risk.y))[self._bounds[:-1]].astype(np.uint64)
        seeds = (np.uint64(_SEED) + begins * np.uint64(_ODD)) | np.uint64(1)
        zeros = np.zeros(len(risk.y))
        return LocalDuals(
            beta=zeros,
            orders=[rows.start + np.flatnonzero(weights[rows]) for rows in self._parts],
            seeds=seeds,
            reach=np.full(len(seeds), np.inf),
            slope=np.zeros(risk.n_parameters),
            conjugate=self._sums(zeros)[0],
            lacking=0.0,
            offset=0.0,
            sigma=float(self._n_parts),
            point=risk.with_scores(np.zeros(risk.n_parameters), np.zeros(len(risk.y))),
        )

    def _sums(self, slopes: Vector) -> tuple[float, ...]:
        """Return the sums of conjugates, and of slopes above and below zero."""
        risk, found = self._risk, []
        with placing(None):
            for rows in self._parts:
                own = slopes[rows]
                conjugate = self._loss.conjugate(risk.y[rows], own, risk.weights[rows])
                up, down = float(own.sum(where=own > 0.0)), -float(own.sum(where=own < 0.0))
                found.append((float(conjugate), up, down))
        return add_up(found)

    @property
    def pull(self) -> float:
        """The square of the feature that stands for the intercept over ``lam``; zero without."""
        risk = self._risk
        if not risk.intercept:
            return 0.0
        norms, weights = self._rows.squared_norms(), risk.weights
        (mean,) = add_up([(dot(weights[rows], norms[rows]),) for rows in self._parts])
        share = max(_OF_INTERCEPT, _FEW_EXAMPLES / rows_in_all(len(risk.y)))
        return float(share * (mean or 1.0) / self._lam)

    def improved(self, duals: LocalDuals, *, passes: float) -> tuple[LocalDuals, Round]:
        """Run local epochs, worth about so many passes over the data, and add up what they do."""
        risk, pull = self._risk, self.pull
        moved, seeds, n_entries = self._epochs(duals, pull, passes)
        slopes = risk.weights * moved
        signs = [slopes]
        if pull:
            signs = [np.maximum(slopes, 0.0), np.minimum(slopes, 0.0)]
        parts = [self._rows.block_pullbacks(each, self._bounds) for each in signs]
        stacked = np.stack(parts, axis=1)
        (sides,) = add_up([(each,) for each in stacked])
        conjugate, up, down = self._sums(slopes)
        plane = Plane(sides[0], -conjugate)
        if pull:
            plane = self._balanced(sides, slopes, up, down)
        gamma, change = self._step(duals, sides.sum(axis=0), conjugate, up - down, pull)
        beta = moved
        if gamma < 1.0:
            beta = duals.beta + gamma * (moved - duals.beta)
            conjugate = self._sums(risk.weights * beta)[0]
        lacking = duals.lacking + gamma * (up - down - duals.lacking)
        slope = duals.slope + gamma * change
        after = replace(
            duals,
            beta=beta,
            seeds=seeds,
            slope=slope,
            conjugate=conjugate,
            lacking=lacking,
            offset=duals.offset - pull * (2.0 * lacking - duals.lacking),
            sigma=self._next_sigma(duals.sigma, gamma),
            point=risk.at(-slope / self._lam),
        )
        (entries,) = add_up([(number,) for number in n_entries])
        return self._shrunk(after, duals, pull), Round(plane, int(entries))

    def _epochs(
        self, duals: LocalDuals, pull: float, passes: float
    ) -> tuple[Vector, NDArray[np.uint64], list[int]]:
        """Improve the duals of each part by itself."""
        risk, sigma = self._risk, duals.sigma
        beta, seeds = duals.beta.copy(), duals.seeds.copy()
        lam = self._lam / sigma
        stiffness = self._stiffness(sigma, pull)
        w = -duals.slope / self._lam

        def improve(part: int) -> int:
            own, offset, order = w.copy(), duals.offset, duals.orders[part].copy()
            rows = self._parts[part]
            entries = int(self._rows.starts[rows.stop] - self._rows.starts[rows.start])
            reach, seen = float(duals.reach[part]), 0
            while len(order) and seen < passes * entries:
                offset, largest, _, n_entries, n_left = kernels.epoch(
                    self._rows.values, self._rows.indices, self._rows.starts, self._kind,
                    self._shape, risk.y, risk.weights, stiffness, lam, sigma * pull, own, offset,
                    beta, order, seeds[part : part + 1], reach,
                )  # fmt: skip
                reach, order = min(reach, _CAUTION * largest), order[:n_left]
                seen += max(n_entries, 1)
            return seen

        n_entries = map_parts(improve, range(len(seeds)), int(self._rows.starts[-1]))
        return beta, seeds, n_entries

    def _stiffness(self, sigma: float, pull: float) -> Vector:
        stiffness: Vector = self._rows.squared_norms() / self._lam + pull
        stiffness *= sigma * self._risk.weights
        return stiffness

    def _balanced(self, sides: Any, slopes: Vector, up: float, down: float) -> Plane:
        """Return the plane of slopes that sum to zero: those of the heavier sign scaled down."""
        if up == 0.0 or down == 0.0:
            flat = self._sums(np.zeros_like(slopes))[0]
            return Plane(np.zeros(sides.shape[1]), -flat)
        rising, falling = min(down / up, 1.0), min(up / down, 1.0)
        scaled = np.where(slopes > 0.0, rising * slopes, falling * slopes)
        return Plane(rising * sides[0] + falling * sides[1], -self._sums(scaled)[0])

    def _step(
        self, duals: LocalDuals, slope: Vector, conjugate: float, lacking: float, pull: float
    ) -> tuple[float, Vector]:
        """Return how far to go along the changes of all parts, and the change of the slope."""
        change, lack = slope - duals.slope, lacking - duals.lacking
        gain = duals.conjugate - conjugate - dot(duals.slope, change) / self._lam
        gain += duals.offset * lack
        bend = dot(change, change) / self._lam + pull * lack * lack
        return (1.0 if bend == 0.0 else min(max(gain / bend, 0.0), 1.0)), change

    def _next_sigma(self, sigma: float, gamma: float) -> float:
        if gamma >= _WHOLE:
            return max(_DOWN * sigma, 1.0)
        return min(_UP * sigma, float(self._n_parts)) if gamma < _MUCH_LESS else sigma

    def _shrunk(self, duals: LocalDuals, before: LocalDuals, pull: float) -> LocalDuals:
        """Leave the duals alone that would not move, given exact scores."""
        risk, scores = self._risk, duals.point.scores
        moved = np.abs(scores - before.point.scores)
        reach = np.array([_CAUTION * moved[rows].max(initial=0.0) for rows in self._parts])
        if self._kind == LOGISTIC:
            return replace(duals, reach=reach)
        stiffness, scores = self._stiffness(duals.sigma, pull), scores + duals.offset
        orders = [
            rows.start
            + kernels.find_movable(
                self._kind, self._shape, risk.y[rows], scores[rows], risk.weights[rows],
                stiffness[rows], duals.beta[rows], limit,
            )
            for rows, limit in zip(self._parts, reach.tolist(), strict=True)
        ]  # fmt: skip
        return replace(duals, orders=orders, reach=reach)


# Passes over a shard in a round. With two, six and more, rounds are as many: what is left to do is
# with the others. (news20_ng, 2 and 8 shards, lam = 1/m.)
PASSES = 2.0

# A round that leaves more than this share of the gap is slow, and at most so many steps of the
# bundle method come between two rounds. Iterations to gaps of 1e-1, 1e-2 and 1e-3: with that, with
# the bundle method, with rounds alone (hinge, 8 shards, at most 200). Set on these. Texts generated
# as in benchmarks/exchanges.py, lam = 10/m: 1 3 14, 10 15 22, 1 3 19; 1/m: 4 27 59, 18 35 65, 4 45
# -; sorted by label, 10/m: 15 21 29, 10 15 22, 145 193 -. reuters_lasvm, 10/m: 2 4 11, 4 7 13, 2 4
# 10; 1/m: 10 30 86, 11 28 79, 8 39 99; sorted, 1/m, with an intercept: 13 26 70, 8 21 64, 97 180 -.
_SLOW = 0.7
_MOST_STEPS = 16


@dataclass(frozen=True, slots=True)
class Rounds:
    """Where rounds of local epochs have come to.

    Attributes
    ----------
    duals : LocalDuals
        Those of the rows here.
    gap : float
        Before the last round; infinite if a step of the bundle method has come since.
    to_come : int
        How many steps of the bundle method come before the next round.
    next_time : int
        How many come after the next round that is slow.
    """

    duals: LocalDuals
    gap: float = inf
    to_come: int = 0
    next_time: int = 1

    def after_gap(self, gap: float) -> Rounds:
        """Decide what comes next, given the gap after what came last."""
        if self.to_come or self.gap == inf:
            return self
        if gap <= _SLOW * self.gap:
            return replace(self, next_time=1)
        return replace(
            self,
            gap=inf,
            to_come=self.next_time,
            next_time=min(2 * self.next_time, _MOST_STEPS),
        )


class LocalEpochs:
    """Rounds of local epochs for one problem on the shards of all workers."""

    def __init__(self, problem: Problem) -> None:
        risk: ScoredRisk = problem.risk  # type: ignore[assignment]
        lam: float = problem.regularizer.lam  # type: ignore[attr-defined]
        self._ascent = LocalAscent(risk, lam, least_blocks())

    def begun(self) -> Rounds:
        """Return duals of zero."""
        return Rounds(self._ascent.begun())

    def step(self, run: Run, own: Rounds, passes: float | None) -> Step[Rounds]:
        """Take a round, or a step of the bundle method where rounds are slow."""
        own = own.after_gap(run.gap)
        if own.to_come:
            found, _ = OnSegment()(run, run.candidate, None)
            after = replace(own, to_come=own.to_come - 1)
            return Step(found.points, after, cut_at=found.cut_at)
        duals, found_here = self._ascent.improved(own.duals, passes=passes or PASSES)
        after = replace(own, duals=duals, gap=run.gap)
        return Step(points_toward(run, duals.point), after, [found_here.plane])
