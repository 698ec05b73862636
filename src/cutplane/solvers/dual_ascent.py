"""Dual coordinate ascent: many cheap steps, each on one example, certified by a plane.

For any duals ``beta`` in the domain of the loss's conjugate, ``(X'(p*beta), -sum p*l*(beta))`` is a
plane below the risk. An epoch improves the duals one after the other, and so the bound that their
plane gives; ``w = -X'(p*beta) / lam`` is the point that belongs to it. On sparse text a few epochs
are all it takes, because examples share few features.

The duality gap is the sum of what each example has to gain, ``l(z) + l*(beta) - beta*z``. An epoch
adds up what it sees of that, so that it is known when a check may prove enough. A check looks at
everything with exact scores. Duals that sit at an end of their range are left out for a while, by
the epochs and after a check (shrinking). Duals of the logistic loss are never at an end. There,
every check is followed by an epoch on all examples, and then by work on those that make up most of
the gap.

An intercept that is not regularized ties the duals together: their sum, weighted, must be zero.
That is reached by the method of multipliers: while an epoch runs, the intercept is a weight with a
regularizer of its own, and after it the center of that moves by what the sum lacks. For the plane,
the duals of the heavier sign are scaled down until the sum is zero.

Where rows lie on several machines, and a plane has as many numbers as there are features, sending
one in each iteration is what takes the time. So each part of the rows improves its own duals for
some epochs, against parameters that only it changes, and then all changes are added up (V. Smith et
al.: CoCoA, a general framework for communication-efficient distributed optimization, JMLR 2018).
What a part does to the parameters counts ``sigma`` times for itself, as if all others did the same;
with ``sigma`` the number of parts the sum of all changes cannot make the bound worse. Parts of
sparse data hardly meet, and a smaller one is better: ``sigma`` follows how far along
the changes a round could go. With conjugates ``C`` before and after, and slopes
``a = X'(p*beta)``,

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

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import (
    add_up,
    bounds_here,
    least_blocks,
    placed,
    placing,
    row_numbers,
    rows_in_all,
)
from cutplane.compute.pace import hurried
from cutplane.compute.products import dot
from cutplane.compute.threads import map_parts
from cutplane.core.protocols import Plane
from cutplane.core.solver import Step
from cutplane.core.state import Problem, Run
from cutplane.losses.loss import LOGISTIC
from cutplane.risks.scored import ScoredPoint, ScoredRisk
from cutplane.solvers import row_steps as kernels
from cutplane.solvers.ascent import (
    SEED,
    DualSolver,
    balanced,
    balancing,
    best_toward,
    bundle_step,
    finite_norms,
    intercept_coupling,
    worth_a_visit,
)
from cutplane.solvers.bundle import checked_planes
from cutplane.solvers.needs import PLAIN_L2, sampled
from cutplane.solvers.row_steps import Examples, IndexVector, entries_of


class _Ascent:
    """What dual ascent knows of a risk, whether on all rows at once or on parts of them."""

    # The feature that stands for the intercept, beside the others of a mean example (squared
    # lengths), and at least so much over the number of examples. A small one hardly slows the
    # epochs down, and the sum of many duals follows it all the same. Passes to 1e-3 and 1e-4
    # (lam = 1/m) without an intercept, and with 0.3, 0.1 and 0.03: reuters_lasvm 6.3 and 10, with
    # 8.6 and 15, 7.6 and 14, 7.0 and 13; news20_ng 8.9 and 14, with 12 and 18, 9.5 and 16, 9.2 and
    # 15. With 1, and a center that moves at checks only, 12 and 23, 16 and 27.
    _intercept_share, _few_examples = 0.03, 3.0

    # A dual at an end of its range is left out if it would stay there when its score changed by
    # this share of the largest change in the last epoch: what would have moved after all, a check
    # finds. Passes to 1e-3 and 1e-4 with 1, 0.7 and 0.5: reuters_lasvm, lam = 1/m, 6.5 and 11, 5.5
    # and 9.4, 4.9 and 9.0; 1e-4, 7.4 and 11, 6.5 and 9.3, 6.1 and 14; 1e-6, 148 and 170, 130 and
    # 151, 109 and 130; news20_ng, 1/m, 9.2 and 14, 8.5 and 15, 8.1 and 12; 3e-5, 19 and 38, 17 and
    # 30, 15 and 31.
    _caution = 0.7

    def __init__(self, problem: Problem) -> None:
        risk: ScoredRisk = problem.risk  # type: ignore[assignment]
        self.risk, self._rows, self._lam = risk, risk.rows, problem.norm.lam
        self._loss: Any = risk.loss
        assert risk.loss.dual_form is not None
        self._kind, self._shape = risk.loss.dual_form
        # Whether no dual is ever at an end of its range.
        self.never_settle = self._kind == LOGISTIC

    def _coupling_of(self, mean_norm: float, n_rows: int) -> float:
        """Return how strongly an intercept couples the duals, from the mean squared length."""
        share = max(self._intercept_share, self._few_examples / n_rows)
        return intercept_coupling(self._lam, mean_norm, share)

    def _examples(self, coupling: float, sigma: float = 1.0) -> Examples:
        risk = self.risk
        curvatures = self._rows.squared_norms() / self._lam + coupling
        curvatures *= sigma * risk.weights
        return Examples(self._kind, self._shape, risk.y, risk.weights, curvatures)


@dataclass(frozen=True, slots=True)
class Duals:
    """The duals of a linear risk, and which of them still move.

    Attributes
    ----------
    beta : ndarray
        A dual for each example.
    w : ndarray
        The point that belongs to them.
    offset : float
        The intercept, or the center of its regularizer.
    movable, visited : ndarray
        The examples whose duals still move, and those of an epoch on all, in random order.
    slack : float
        How much a score may change without moving a settled dual: as much as duals and intercept
        changed one at most in the last epoch.
    seed : ndarray
        Of the next random order.
    """

    beta: Annotated[Vector, "f8[n]"]
    w: Vector
    offset: float
    movable: Annotated[IndexVector, "i8[*]<n"]
    visited: Annotated[IndexVector, "i8[*]<n"]
    slack: float
    seed: NDArray[np.uint64]


class DualAscent(_Ascent):
    """Dual coordinate ascent for one problem; all that changes is in the `Duals`.

    Arrays of duals are changed in place: they are as long as the sample.
    """

    # Examples with less than this share of the mean gain wait for the next epoch on all. Epochs and
    # checks to a relative gap of 1e-4, with that and without: reuters_lasvm, lam 1e-6, 36 and more
    # than 60; news20_ng, 1e-6, 25 and 57; ijcnn1, 1e-6, 41 and 54. With lam 1e-4 it makes no
    # difference.
    _worthwhile = 0.03

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        risk, norms = self.risk, finite_norms(self._rows)
        # Zero if there is no intercept.
        mean_norm = dot(risk.weights, norms)
        self._coupling = self._coupling_of(mean_norm, len(norms)) if risk.intercept else 0.0
        self._known = self._examples(self._coupling)

    def initial(self) -> Duals:
        """Return duals of zero."""
        risk = self.risk
        movable = np.flatnonzero(risk.weights)
        return Duals(
            beta=np.zeros(len(risk.y)),
            w=np.zeros(risk.n_parameters),
            offset=0.0,
            movable=movable,
            # Only the logistic loss goes on to visit all of them.
            visited=movable.copy() if self.never_settle else np.empty(0, dtype=np.intp),
            slack=math.inf,
            seed=np.array([SEED], dtype=np.uint64),
        )

    def improved(
        self, duals: Duals, *, passes: float, most: int, enough: float = 0.0, objective: float = 1.0
    ) -> Duals:
        """Run epochs on the movable duals, worth about so many passes over all of the data.

        They end before that when the gap seems to be ``enough``, where the objective is so large,
        or the same share of a smaller one.
        """
        budget, seen = passes * self._rows.n_entries, 0
        last, lowest = 0.0, objective
        for k in range(most):
            examples = duals.visited if k == 0 and self.never_settle else duals.movable
            duals, gap, n_entries = self._epoch(duals, examples)
            seen += n_entries
            left = gap
            if gap < last:
                # It is less than what the epoch saw of it: by the square root of the ratio to what
                # the one before it saw, but not by much more than this.
                left *= max(math.sqrt(gap / last), 0.3)
            last = gap
            if seen >= budget or hurried():
                break
            if left * objective <= enough * lowest:
                # What counts is the objective that the duals lead to. It falls from epoch to epoch.
                lowest = min(lowest, self._bound(duals) + left)
                if left * objective <= enough * lowest:
                    break
        return duals

    def _bound(self, duals: Duals) -> float:
        """Return the lower bound that the duals give, but for what an intercept asks of them."""
        slopes = self.risk.weights * duals.beta
        conjugate: float = self._loss.conjugate(self.risk.y, slopes, self.risk.weights)
        return -conjugate - 0.5 * self._lam * dot(duals.w, duals.w)

    def _epoch(self, duals: Duals, examples: IndexVector) -> tuple[Duals, float, int]:
        """Improve some duals; return them, about how large the gap was, and the entries read."""
        offset, slack, gap, n_entries, n_left = kernels.dual_epoch(
            *entries_of(self._rows), self._known, self._lam, self._coupling, duals.w, duals.offset,
            duals.beta, examples, duals.seed, duals.slack,
        )  # fmt: skip
        if self._coupling:
            lacking = dot(self.risk.weights, duals.beta)
            offset -= self._coupling * lacking
            gap += 0.5 * self._coupling * lacking * lacking
        movable = duals.movable if self.never_settle else examples[:n_left]
        after = replace(duals, offset=offset, slack=self._caution * slack, movable=movable)
        return after, gap, n_entries

    def plane(self, duals: Duals) -> tuple[Plane, Duals]:
        """Return the plane of the duals, computed afresh.

        Without an intercept ``w`` becomes exactly its minimizer, free of the epochs' rounding.
        """
        risk = self.risk
        slopes = risk.weights * duals.beta
        if self._coupling:
            slopes = balanced(slopes)
        plane = Plane(
            self._rows.pullback(slopes), -self._loss.conjugate(risk.y, slopes, risk.weights)
        )
        return plane, duals if self._coupling else replace(duals, w=-plane.slope / self._lam)

    def shrunk(self, duals: Duals, scores: Vector) -> Duals:
        """Leave the duals alone that would not move, given exact scores at ``w``."""
        risk, scores = self.risk, scores + duals.offset
        if self.never_settle:
            values, _, _ = self._loss.derivatives(risk.y, scores)
            gains = values + self._loss.conjugates(risk.y, duals.beta) - duals.beta * scores
            gains *= risk.weights
            return replace(duals, movable=worth_a_visit(gains, self._worthwhile))
        movable = kernels.find_movable(self._known, 0, len(risk.y), scores, duals.beta, duals.slack)
        return replace(duals, movable=movable)


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
    slack : ndarray
        How much scores may change without moving a settled dual, one a part.
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
    slack: Vector
    slope: Vector
    conjugate: float
    lacking: float
    offset: float
    sigma: float
    point: ScoredPoint


class LocalAscent(_Ascent):
    """Rounds of local epochs for one risk; all that changes is in the `LocalDuals`.

    Parameters
    ----------
    problem : Problem
        Its risk is on CSR rows: of the rows here, if other workers have the others.
    n_parts : int
        Into how many parts all rows are cut: a power of two.
    """

    # How sigma follows the length of steps: it falls where whole steps are taken, down to no more
    # than what a part does itself, and rises where much less is. Rounds of two passes to a gap of
    # 1e-3 with that, and with sigma left at the number of parts (8 parts in random order,
    # lam = 10/m): reuters_lasvm 12 and 24, news20_ng 15 and 25. Set on these.
    _whole, _much_less = 0.99, 0.8
    _down, _up = 0.7, 2.0

    def __init__(self, problem: Problem, n_parts: int) -> None:
        super().__init__(problem)
        self._n_parts, self._bounds = n_parts, bounds_here(len(self.risk.y), n_parts)
        self._parts = [slice(begin, end) for begin, end in pairwise(self._bounds.tolist())]

    def initial(self) -> LocalDuals:
        """Return duals of zero."""
        risk = self.risk
        weights = risk.weights
        # A part's random orders depend on where it begins in the whole sample.
        begins = row_numbers(len(risk.y))[self._bounds[:-1]].astype(np.uint64)
        odd = 0x9E3779B97F4A7C15
        seeds = (np.uint64(SEED) + begins * np.uint64(odd)) | np.uint64(1)
        zeros = np.zeros(len(risk.y))
        return LocalDuals(
            beta=zeros,
            orders=[rows.start + np.flatnonzero(weights[rows]) for rows in self._parts],
            seeds=seeds,
            slack=np.full(len(seeds), np.inf),
            slope=np.zeros(risk.n_parameters),
            conjugate=self._sums(zeros)[0],
            lacking=0.0,
            offset=0.0,
            sigma=float(self._n_parts),
            point=risk.with_scores(np.zeros(risk.n_parameters), np.zeros(len(risk.y))),
        )

    def _sums(self, slopes: Vector) -> tuple[float, ...]:
        """Return the sums of conjugates, and of slopes above and below zero."""
        risk, found = self.risk, []
        with placing(None):
            for rows in self._parts:
                own = slopes[rows]
                conjugate = self._loss.conjugate(risk.y[rows], own, risk.weights[rows])
                up, down = float(own.sum(where=own > 0.0)), -float(own.sum(where=own < 0.0))
                found.append((float(conjugate), up, down))
        return add_up(found)

    @property  # not a cached one: it has a lock, and workers that are threads must all add up here
    def coupling(self) -> float:
        """The square of the feature that stands for the intercept over ``lam``; zero without."""
        risk = self.risk
        if not risk.intercept:
            return 0.0
        norms, weights = self._rows.squared_norms(), risk.weights
        (mean,) = add_up([(dot(weights[rows], norms[rows]),) for rows in self._parts])
        return self._coupling_of(float(mean), rows_in_all(len(risk.y)))

    def improved(self, duals: LocalDuals, *, passes: float) -> tuple[LocalDuals, Plane]:
        """Run local epochs, worth about so many passes over the data; return their plane, too."""
        risk, coupling = self.risk, self.coupling
        moved, seeds = self._epochs(duals, coupling, passes)
        slopes = risk.weights * moved
        signs = [np.maximum(slopes, 0.0), np.minimum(slopes, 0.0)] if coupling else [slopes]
        parts = [self._rows.block_pullbacks(each, self._bounds) for each in signs]
        (sides,) = add_up([(each,) for each in np.stack(parts, axis=1)])
        conjugate, up, down = self._sums(slopes)
        plane = Plane(sides[0], -conjugate)
        if coupling:
            rising, falling = balancing(up, down)
            flat = np.where(slopes > 0.0, rising * slopes, falling * slopes)
            plane = Plane(rising * sides[0] + falling * sides[1], -self._sums(flat)[0])
        # How far to go along the changes of all parts.
        change, lack = sides.sum(axis=0) - duals.slope, up - down - duals.lacking
        gain = duals.conjugate - conjugate - dot(duals.slope, change) / self._lam
        gain += duals.offset * lack
        bend = dot(change, change) / self._lam + coupling * lack * lack
        gamma = 1.0 if bend == 0.0 else min(max(gain / bend, 0.0), 1.0)
        beta, sigma = moved, duals.sigma
        if gamma >= self._whole:
            sigma = max(self._down * sigma, 1.0)
        elif gamma < self._much_less:
            sigma = min(self._up * sigma, float(self._n_parts))
        if gamma < 1.0:
            beta = duals.beta + gamma * (moved - duals.beta)
            conjugate = self._sums(risk.weights * beta)[0]
        lacking = duals.lacking + gamma * lack
        slope = duals.slope + gamma * change
        after = replace(
            duals,
            beta=beta,
            seeds=seeds,
            slope=slope,
            conjugate=conjugate,
            lacking=lacking,
            offset=duals.offset - coupling * (2.0 * lacking - duals.lacking),
            sigma=sigma,
            point=risk.at(-slope / self._lam),
        )
        return self._shrunk(after, duals, coupling), plane

    def _epochs(
        self, duals: LocalDuals, coupling: float, passes: float
    ) -> tuple[Vector, NDArray[np.uint64]]:
        """Improve the duals of each part by itself."""
        sigma, entries = duals.sigma, entries_of(self._rows)
        beta, seeds = duals.beta.copy(), duals.seeds.copy()
        lam = self._lam / sigma
        examples = self._examples(coupling, sigma)
        starts, w = entries[2], -duals.slope / self._lam

        def improve(part: int) -> None:
            own, offset, order = w.copy(), duals.offset, duals.orders[part].copy()
            rows = self._parts[part]
            enough = passes * int(starts[rows.stop] - starts[rows.start])
            slack, seen = float(duals.slack[part]), 0
            while len(order) and seen < enough:
                offset, largest, _, n_entries, n_left = kernels.dual_epoch(
                    *entries, examples, lam, sigma * coupling, own, offset, beta, order,
                    seeds[part : part + 1], slack,
                )  # fmt: skip
                slack, order = min(slack, self._caution * largest), order[:n_left]
                seen += max(n_entries, 1)

        map_parts(improve, range(len(seeds)), int(starts[-1]))
        return beta, seeds

    def _shrunk(self, duals: LocalDuals, before: LocalDuals, coupling: float) -> LocalDuals:
        """Leave the duals alone that would not move, given exact scores."""
        scores = duals.point.scores
        moved = np.abs(scores - before.point.scores)
        slack = np.array([self._caution * moved[rows].max(initial=0.0) for rows in self._parts])
        if self.never_settle:
            return replace(duals, slack=slack)
        scores = scores + duals.offset
        examples = self._examples(coupling, duals.sigma)
        orders = [
            kernels.find_movable(examples, rows.start, rows.stop, scores, duals.beta, limit)
            for rows, limit in zip(self._parts, slack.tolist(), strict=True)
        ]
        return replace(duals, orders=orders, slack=slack)


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

    # A round that leaves more than this share of the gap is slow, and at most so many steps of the
    # bundle method come between two rounds. Iterations to gaps of 1e-1, 1e-2 and 1e-3: with that,
    # with the bundle method, with rounds alone (hinge, 8 shards, at most 200). Set on these. Texts
    # generated as in benchmarks/exchanges.py, lam = 10/m: 1 3 14, 10 15 22, 1 3 19; 1/m: 4 27 59,
    # 18 35 65, 4 45 -; sorted by label, 10/m: 15 21 29, 10 15 22, 145 193 -. reuters_lasvm, 10/m:
    # 2 4 11, 4 7 13, 2 4 10; 1/m: 10 30 86, 11 28 79, 8 39 99; sorted, 1/m, with an intercept:
    # 13 26 70, 8 21 64, 97 180 -.
    _slow: ClassVar[float] = 0.7
    _most_steps: ClassVar[int] = 16

    duals: LocalDuals
    gap: float = math.inf
    to_come: int = 0
    next_time: int = 1

    def after_gap(self, gap: float) -> Rounds:
        """Decide what comes next, given the gap after what came last."""
        if self.to_come or self.gap == math.inf:
            return self
        if gap <= self._slow * self.gap:
            return replace(self, next_time=1)
        longer = min(2 * self.next_time, self._most_steps)
        return replace(self, gap=math.inf, to_come=self.next_time, next_time=longer)


@dataclass(frozen=True, slots=True)
class DualEpochs(DualSolver[Duals]):
    """Epochs of dual coordinate ascent, and a line search toward where they lead.

    Parameters
    ----------
    passes : float, optional
        About how many passes over the data the epochs between two checks are worth at most. By
        default 10, and 6 for the logistic loss, which finds out in a check where to work.
    most : int
        The most epochs between two checks, however few duals still move.
    planes : int or None
        How many planes of duals are combined, besides the aggregated one; None for all.
    """

    needs = (
        sampled("a linear risk on rows in memory", lambda risk: risk.rows.dual_steps),
        sampled(
            "a linear risk with one score an example",
            lambda risk: not isinstance(risk, ScoredRisk) or risk.map.plain,
        ),
        sampled(
            "a loss that is piecewise or logistic", lambda risk: risk.loss.dual_form is not None
        ),
        PLAIN_L2,
    )
    passes: float | None = None
    most: int = 30
    planes: int | None = 4
    name: str = "dual-ascent"

    def start(self, problem: Problem) -> Any:
        """Return duals of zero."""
        if placed() is not None:
            return Rounds(LocalAscent(problem, least_blocks()).initial())
        return DualAscent(problem).initial()

    def step(self, run: Run, own: Any) -> Step[Any]:
        """Improve the duals; return their plane, and the best point on the way to theirs."""
        if placed() is not None:
            return self._round(run, own)
        epochs = DualAscent(run.problem)
        usual = 6.0 if epochs.never_settle else 10.0
        own = epochs.improved(
            own,
            passes=usual if self.passes is None else self.passes,
            most=self.most,
            enough=run.enough,
            objective=run.objective,
        )
        plane, own = epochs.plane(own)
        point = epochs.risk.at(own.w.copy())
        toward = best_toward(run, point)
        return Step([toward, point], epochs.shrunk(own, point.scores), [plane])

    def _round(self, run: Run, own: Rounds) -> Step[Any]:
        """Take a round on shards, or a step of the bundle method where rounds are slow."""
        own = own.after_gap(run.gap)
        if own.to_come:
            return bundle_step(run, replace(own, to_come=own.to_come - 1))
        # Two passes over a shard in a round. With six and more, rounds are as many: what is left
        # to do is with the others. (news20_ng, 2 and 8 shards, lam = 1/m.)
        ascent = LocalAscent(run.problem, least_blocks())
        duals, plane = ascent.improved(own.duals, passes=self.passes or 2.0)
        after = replace(own, duals=duals, gap=run.gap)
        return Step([best_toward(run, duals.point), duals.point], after, [plane])


def dual_ascent(*, passes: float | None = None, planes: int | None = 4) -> DualEpochs:
    """Dual coordinate ascent whose every check gives a plane to a small bundle.

    The method for data with many features, such as text, or the features of landmarks. It needs
    rows in memory and a loss made of pieces or the logistic loss (all but exponential and Poisson).
    Where CSR rows lie on several machines, each shard improves its own duals between two exchanges,
    and steps of the bundle method come between where that is slow: give it all planes then,
    ``planes=None``.

    Parameters
    ----------
    passes : float, optional
        About how many passes over the data the epochs between two checks are worth at most. By
        default 10, and 6 for the logistic loss; 2 on shards.
    planes : int or None
        Size of the bundle, besides the aggregated plane; None keeps all planes.
    """
    return DualEpochs(passes=passes, planes=checked_planes(planes))
