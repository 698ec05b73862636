"""Dual coordinate ascent: many cheap steps, each on one example, certified by a plane.

For any duals ``beta`` in the domain of the loss's conjugate, ``(X'(p*beta), -sum p*l*(beta))`` is a
plane below the risk. An epoch improves the duals one after the other, and so the bound that their
plane gives; ``w = -X'(p*beta) / lam`` is the point that belongs to it. On sparse text a few epochs
are all it takes, because examples share few features.

Between epochs everything is checked with exact scores: duals that sit at an end of their range are
left out for a while (shrinking), and the work on the others is worth a few passes before the next
check. Duals of the logistic loss are never at an end. There, every check is followed by an epoch on
all examples, and then by work on those that make up most of the gap, which is the sum of what each
example has to gain: ``l(z) + l*(beta) - beta*z``.

An intercept that is not regularized ties the duals together: their sum, weighted, must be zero.
That is reached by the method of multipliers: while the epochs run, the intercept is a weight with a
regularizer of its own, centered where the last check left it, and the center moves by what the sum
lacks. For the plane, the duals of the heavier sign are scaled down until the sum is zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.core.method import Found, Method, Query
from cutplane.core.needs import PLAIN_L2, Need, quadratic
from cutplane.core.policies.cuts import ConvexCuts
from cutplane.core.policies.memory import LimitedMemory
from cutplane.core.policies.queries import best_step
from cutplane.core.policies.stabilizers import NoStabilizer
from cutplane.core.problem import Candidate, Problem
from cutplane.core.protocols import Plane, SearchablePoint
from cutplane.core.state import State
from cutplane.losses.score_loss import LOGISTIC
from cutplane.methods import coordinate_kernels as kernels
from cutplane.risks import ScoredRisk

_SEED = 88172645463325252

# Examples with less than this share of the mean gain wait for the next epoch on all. Epochs and
# checks to a relative gap of 1e-4, with that and without: reuters_lasvm, lam 1e-6, 36 and more than
# 60; news20_ng, 1e-6, 25 and 57; ijcnn1, 1e-6, 41 and 54. With lam 1e-4 it makes no difference.
_WORTHWHILE = 0.03


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
        The examples whose duals still move, and those of an epoch on all, shuffled so far.
    reach : float
        How far duals moved at most in the last epoch.
    seed : ndarray
        Of the next shuffle.
    stiffness : ndarray
        How steeply the slope along each dual falls.
    pull : float
        The same for the intercept; zero if there is none.
    """

    beta: Vector
    w: Vector
    offset: float
    movable: kernels.IndexVector
    visited: kernels.IndexVector
    reach: float
    seed: NDArray[np.uint64]
    stiffness: Vector
    pull: float


class DualAscent:
    """Dual coordinate ascent for one problem; all that changes is in the `Duals`.

    Arrays of duals are changed in place: they are as long as the sample.
    """

    def __init__(self, problem: Problem) -> None:
        self._risk: ScoredRisk = problem.risk  # type: ignore[assignment]
        self._rows: Any = self._risk.rows
        self._loss: Any = self._risk.loss
        self._lam: float = problem.regularizer.lam  # type: ignore[attr-defined]
        form = self._risk.loss.dual_form
        assert form is not None
        self._kind, self._shape = form

    @property
    def never_settle(self) -> bool:
        """Whether no dual is ever at an end of its range."""
        return bool(self._kind == LOGISTIC)

    def begun(self) -> Duals:
        """Return duals of zero."""
        risk = self._risk
        norms = self._rows.squared_norms()
        # The intercept is as strong as the features together, on average. It must not vanish with
        # them: it is also what tells that the duals have to be balanced.
        pull = (float(risk.weights @ norms) or 1.0) / self._lam if risk.intercept else 0.0
        movable = np.flatnonzero(risk.weights)
        return Duals(
            beta=np.zeros(len(risk.y)),
            w=np.zeros(risk.n_parameters),
            offset=0.0,
            movable=movable,
            # Only the logistic loss goes on to visit all of them.
            visited=movable.copy() if self.never_settle else np.empty(0, dtype=np.intp),
            reach=math.inf,
            seed=np.array([_SEED], dtype=np.uint64),
            stiffness=risk.weights * (norms / self._lam + pull),
            pull=pull,
        )

    def improved(self, duals: Duals, *, passes: float, most: int) -> Duals:
        """Run epochs on the movable duals, worth so many passes over all of the data."""
        if self.never_settle:
            duals = self._epoch(duals, duals.visited)
            passes -= 1.0
        entries = np.diff(self._rows.starts)
        share = entries[duals.movable].sum() / max(int(self._rows.starts[-1]), 1)
        for _ in range(min(math.ceil(passes / max(share, 1e-9)), most)):
            duals = self._epoch(duals, duals.movable)
        return duals

    def _epoch(self, duals: Duals, examples: kernels.IndexVector) -> Duals:
        kernels.shuffle(examples, duals.seed)
        offset, reach = kernels.epoch(
            self._rows.values, self._rows.indices, self._rows.starts, self._kind, self._shape,
            self._risk.y, self._risk.weights, duals.stiffness, self._lam, duals.pull, duals.w,
            duals.offset, duals.beta, examples,
        )  # fmt: skip
        return replace(duals, offset=offset, reach=reach)

    def plane(self, duals: Duals) -> tuple[Plane, Duals]:
        """Return the plane of the duals, computed afresh.

        Without an intercept ``w`` becomes exactly its minimizer, free of the epochs' rounding.
        """
        risk = self._risk
        slopes = risk.weights * duals.beta
        if duals.pull:
            duals = replace(duals, offset=duals.offset - duals.pull * float(slopes.sum()))
            slopes = balanced(slopes)
        plane = Plane(
            self._rows.pullback(slopes), -self._loss.conjugate(risk.y, slopes, risk.weights)
        )
        return plane, duals if duals.pull else replace(duals, w=-plane.slope / self._lam)

    def shrunk(self, duals: Duals, scores: Vector) -> Duals:
        """Leave the duals alone that would not move, given exact scores at ``w``."""
        risk, scores = self._risk, scores + duals.offset
        if self.never_settle:
            values, _, _ = self._loss.derivatives(risk.y, scores)
            gains = values + self._loss.conjugates(risk.y, duals.beta) - duals.beta * scores
            gains *= risk.weights
            return replace(duals, movable=np.flatnonzero(gains > _WORTHWHILE * gains.mean()))
        movable = kernels.movable(
            self._kind, self._shape, risk.y, scores, risk.weights, duals.stiffness, duals.beta,
            duals.reach,
        )  # fmt: skip
        return replace(duals, movable=movable)


def balanced(slopes: Vector) -> Vector:
    """Return slopes that sum to zero, by scaling down those of the heavier sign, in place."""
    rising, falling = slopes > 0.0, slopes < 0.0
    up, down = float(slopes.sum(where=rising)), -float(slopes.sum(where=falling))
    if up == 0.0 or down == 0.0:
        slopes.fill(0.0)
        return slopes
    np.multiply(slopes, min(down / up, 1.0), out=slopes, where=rising)
    np.multiply(slopes, min(up / down, 1.0), out=slopes, where=falling)
    return slopes


@dataclass(frozen=True, slots=True)
class DualEpochs(Query):
    """Query by epochs of dual coordinate ascent, and a line search toward where they lead.

    Parameters
    ----------
    passes : float, optional
        How many passes over the data the epochs between two checks are worth. By default 3, and
        for the logistic loss 2 after the first check: it costs little beside an epoch.
    most : int
        The most epochs between two checks, however few duals still move.
    """

    needs = (
        Need("risk", "rows.sparse", "a linear risk on sparse rows (CSR)"),
        Need("risk", "loss.dual_form", "a loss that is piecewise or logistic"),
        PLAIN_L2,
    )
    makes_planes: ClassVar[bool] = True
    passes: float | None = None
    most: int = 10

    def init(self, problem: Problem) -> Duals:
        """Return duals of zero."""
        return DualAscent(problem).begun()

    def __call__(self, state: State, candidate: Candidate, own: Duals) -> tuple[Found, Duals]:
        """Improve the duals; return their plane, and the best point on the way to theirs."""
        risk: Any = state.problem.risk
        epochs = DualAscent(state.problem)
        usual = 2.0 if epochs.never_settle and state.iteration > 0 else 3.0
        own = epochs.improved(
            own, passes=usual if self.passes is None else self.passes, most=self.most
        )
        plane, own = epochs.plane(own)
        point = risk.at(own.w.copy())
        own = epochs.shrunk(own, point.scores)
        segment = cast(SearchablePoint, state.best).toward(point)
        along = quadratic(state.problem.regularizer).along(state.best.w, point.w)
        lowest = segment.at(best_step(segment, along))
        return Found([lowest, point], [], [plane]), own


def dual_ascent(*, passes: float | None = None, planes: int = 4) -> Method:
    """Dual coordinate ascent whose every check gives a plane to a small bundle.

    The method for sparse data with many features, such as text. It needs CSR rows and a loss made
    of pieces or the logistic loss (all but exponential and Poisson).

    Parameters
    ----------
    passes : float, optional
        How many passes over the data the epochs between two checks are worth. By default 3, and
        for the logistic loss 2 after the first check.
    planes : int
        Size of the bundle, besides the aggregated plane.
    """
    return Method(
        stabilizer=NoStabilizer(),
        memory=LimitedMemory(planes),
        query=DualEpochs(passes=passes),
        cuts=ConvexCuts(),
        name="dual-ascent",
    )
