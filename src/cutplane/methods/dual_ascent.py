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
from copy import copy
from dataclasses import dataclass
from typing import cast

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.core.method import Method
from cutplane.core.policies.cuts import ConvexCuts
from cutplane.core.policies.memory import LimitedMemory
from cutplane.core.policies.no_stabilizer import NoStabilizer
from cutplane.core.policies.queries import Found, best_step
from cutplane.core.protocols import Plane, QuadraticRegularizer, SearchablePoint
from cutplane.core.state import Candidate, State
from cutplane.losses import Logistic, PiecewiseLoss
from cutplane.maps.csr import CompressedRows
from cutplane.methods import coordinate_kernels as kernels
from cutplane.regularizers import L2
from cutplane.risks import LinearRisk

_SEED = 88172645463325252

# Examples with less than this share of the mean gain wait for the next epoch on all. Epochs and
# checks to a relative gap of 1e-4, with that and without: reuters_lasvm, lam 1e-6, 36 and more than
# 60; news20_ng, 1e-6, 25 and 57; ijcnn1, 1e-6, 41 and 54. With lam 1e-4 it makes no difference.
_WORTHWHILE = 0.03


class DualAscent:
    """The duals of a linear risk, and the epochs that improve them.

    Parameters
    ----------
    risk : LinearRisk
        On CSR rows, with a loss made of pieces or the logistic loss.
    lam : float
        Strength of the regularizer ``lam/2 |w|^2``.
    """

    def __init__(self, risk: LinearRisk, lam: float) -> None:
        assert isinstance(risk.rows, CompressedRows)
        assert isinstance(risk.loss, PiecewiseLoss | Logistic)
        self._form = _form(risk.loss)
        self._y, self._weights = risk.y, risk.weights
        self._rows, self._loss, self._lam = risk.rows, risk.loss, lam
        norms = risk.rows.squared_norms()
        # The intercept is as strong as the features together, on average. It must not vanish with
        # them: it is also what tells that the duals have to be balanced.
        self._pull = (float(risk.weights @ norms) or 1.0) / lam if risk.intercept else 0.0
        self._stiffness = risk.weights * (norms / lam + self._pull)
        self.offset = 0.0
        self._seed = np.array([_SEED], dtype=np.uint64)
        self._movable = np.flatnonzero(risk.weights)
        # Only the logistic loss goes on to visit all of them.
        smooth = isinstance(risk.loss, Logistic)
        self._all = self._movable.copy() if smooth else np.empty(0, dtype=np.intp)
        self._reach = math.inf
        self.beta: Vector = np.zeros(len(risk.y))
        self.w: Vector = np.zeros(risk.n_parameters)

    def __deepcopy__(self, memo: object) -> DualAscent:
        """Copy what changes, and share the data."""
        twin = copy(self)
        twin.beta, twin.w = self.beta.copy(), self.w.copy()
        twin._all, twin._movable = self._all.copy(), self._movable.copy()
        twin._seed = self._seed.copy()
        return twin

    def improve(self, *, passes: float, most: int) -> None:
        """Run epochs on the movable duals, worth so many passes over all of the data."""
        if isinstance(self._loss, Logistic):
            self._epoch(self._all)
            passes -= 1.0
        entries = np.diff(self._rows.starts)
        share = entries[self._movable].sum() / max(int(self._rows.starts[-1]), 1)
        for _ in range(min(math.ceil(passes / max(share, 1e-9)), most)):
            self._epoch(self._movable)

    def _epoch(self, examples: kernels.IndexVector) -> None:
        kernels.shuffle(examples, self._seed)
        self.offset, self._reach = kernels.epoch(
            self._rows.values,
            self._rows.indices,
            self._rows.starts,
            *self._form,
            self._y,
            self._weights,
            self._stiffness,
            self._lam,
            self._pull,
            self.w,
            self.offset,
            self.beta,
            examples,
        )

    def plane(self) -> Plane:
        """Return the plane of the duals, computed afresh.

        Without an intercept ``w`` becomes exactly its minimizer, free of the epochs' rounding.
        """
        slopes = self._weights * self.beta
        if self._pull:
            self.offset -= self._pull * float(slopes.sum())
            slopes = _balanced(slopes)
        offset = -self._loss.conjugate(self._y, slopes, self._weights)
        plane = Plane(self._rows.pullback(slopes), offset)
        if not self._pull:
            self.w = -plane.slope / self._lam
        return plane

    def shrink(self, scores: Vector) -> None:
        """Leave the duals alone that would not move, given exact scores at ``w``."""
        scores = scores + self.offset
        if isinstance(self._loss, Logistic):
            values, _, _ = self._loss.derivatives(self._y, scores)
            gains = values + self._loss.conjugates(self._y, self.beta) - self.beta * scores
            gains *= self._weights
            self._movable = np.flatnonzero(gains > _WORTHWHILE * gains.mean())
            return
        self._movable = kernels.movable(
            *self._form,
            self._y,
            scores,
            self._weights,
            self._stiffness,
            self.beta,
            self._reach,
        )


def _form(loss: PiecewiseLoss | Logistic) -> tuple[int, Matrix]:
    """Return what the kernels want to know of a loss: its kind, and the shape of its pieces."""
    if isinstance(loss, Logistic):
        return kernels.LOGISTIC, np.zeros((2, 5))
    of_margin, shape = loss.kind
    return kernels.MARGIN_PIECES if of_margin else kernels.RESIDUAL_PIECES, shape


def _balanced(slopes: Vector) -> Vector:
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
class DualEpochs:
    """Query by epochs of dual coordinate ascent, and a line search toward where they lead.

    Parameters
    ----------
    passes : float, optional
        How many passes over the data the epochs between two checks are worth. By default 3, and
        for the logistic loss 2 after the first check: it costs little beside an epoch.
    most : int
        The most epochs between two checks, however few duals still move.
    """

    passes: float | None = None
    most: int = 10

    def __call__(
        self,
        risk: LinearRisk,
        regularizer: QuadraticRegularizer,
        state: State,
        candidate: Candidate,
    ) -> Found:
        """Improve the duals; return their plane, and the best point on the way to theirs."""
        if state.memo is None:
            if (obstacle := obstacle_to_dual_ascent(risk, regularizer)) is not None:
                raise ValueError(f"dual ascent does not work here: {obstacle}")
            state.memo = DualAscent(risk, regularizer.lam)
        duals: DualAscent = state.memo
        usual = 3.0 if state.iteration == 0 or isinstance(risk.loss, PiecewiseLoss) else 2.0
        duals.improve(passes=usual if self.passes is None else self.passes, most=self.most)
        plane = duals.plane()
        point = risk.at(duals.w.copy())
        duals.shrink(point.scores)
        segment = cast(SearchablePoint, state.best).toward(point)
        lowest = segment.at(best_step(segment, regularizer.along(state.best.w, point.w)))
        return Found([lowest, point], [], [plane])


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
    )


def obstacle_to_dual_ascent(risk: object, regularizer: object) -> str | None:
    """Return why dual coordinate ascent cannot be used, or None if it can."""
    if not isinstance(risk, LinearRisk):
        return "it needs a linear risk"
    if not isinstance(risk.rows, CompressedRows):
        return "it needs sparse rows (CSR)"
    if not isinstance(risk.loss, PiecewiseLoss | Logistic):
        return f"the loss {risk.loss!r} is neither made of pieces nor logistic"
    if not isinstance(regularizer, L2) or not regularizer.plain:
        return "it needs the regularizer lam/2 |w|^2, without center and weights"
    return None
