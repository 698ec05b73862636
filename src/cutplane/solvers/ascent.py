"""Ascent in dual variables: what its solvers have in common, whatever the duals are.

Duals are slopes of examples (`dual_ascent`), shares of classes (`class_ascent`), weights of outputs
(`block_ascent`) or slopes of a kernel machine (`pair_ascent`). Any of them give a plane below the
risk, and plane and regularizer a point. So a step of each solver is the same:

1. sweeps over the duals, in compiled loops of the solver's own, until little seems to be left to
   gain, or the step should end;
2. the plane of the duals, computed afresh;
3. the point that belongs to it, and the best one on the way there from the best one so far;
4. with the exact scores there, which duals are left alone in the next sweeps (shrinking).

Where that creeps, steps of the bundle method come between, with the planes that there are.
"""

from __future__ import annotations

from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import placed
from cutplane.core.policies.bmrm import OnSegment, best_step
from cutplane.core.protocols import NonFiniteRisk, Point, SearchablePoint
from cutplane.core.solver import Own, Solver, Step
from cutplane.core.state import Problem, Run
from cutplane.data.rows import Rows
from cutplane.risks.scored import ScoredRisk

SEED = 88172645463325252
"""Of the first random order of duals."""


class DualSolver(Solver[Own]):
    """A solver for risks of scores whose duals say all that the plane of the first point does."""

    __slots__ = ()
    takes_first_plane: ClassVar[bool] = False

    def first(self, problem: Problem, w: Vector) -> Point:
        """Evaluate the risk where the run starts: at zero, mostly, where scores are known."""
        risk = problem.risk
        if w.any() or placed() is not None or not isinstance(risk, ScoredRisk):
            return risk.at(w)
        risk.evaluations += 1
        at = risk.loss.at_scores_of_zero(risk.y, risk.weights) if risk.minimizes_intercept else None
        return risk.with_scores(w, np.zeros((len(risk.y), *risk.map.score_shape)), at=at)


def best_toward(run: Run, point: Point) -> Point:
    """Return the best point on the ray from the best one so far through another."""
    best = cast(SearchablePoint, run.best)
    segment = best.toward(point)
    return segment.at(best_step(segment, run.problem.norm.along(best.w, point.w)))


def bundle_step(run: Run, own: Own) -> Step[Own]:
    """Return a step of the bundle method, whatever the planes of the run come from."""
    found, _ = OnSegment()(run, run.candidate, None)
    return Step(found.points, own, cut_at=found.cut_at)


def worth_a_visit(gains: Vector, share: float) -> NDArray[np.intp]:
    """Return the examples that have more to gain than a share of the mean; the others wait."""
    return np.flatnonzero(gains > share * gains.mean())


def finite_norms(rows: Rows) -> Vector:
    """Return the squared lengths of rows; NonFiniteRisk if one is no number, or infinite."""
    norms = rows.squared_norms()
    if not np.isfinite(norms).all():
        raise NonFiniteRisk("the square of a feature is not finite: scale the features")
    return norms


def intercept_coupling(lam: float, mean_norm: float, share: float = 1.0) -> float:
    """Return how an intercept couples the duals: the square over ``lam`` of its feature.

    The square is a share of that of the mean example's length. It does not vanish with the
    features, because it also tells that duals have to be balanced.
    """
    return share * (mean_norm or 1.0) / lam


def balancing(up: float, down: float) -> tuple[float, float]:
    """Return how to scale numbers of both signs, whose sums are ``up`` and ``-down``, to sum zero.

    Those of the heavier sign are scaled down, to nothing if there are no others.
    """
    return min(down / up, 1.0) if up else 1.0, min(up / down, 1.0) if down else 1.0


def balanced(slopes: Vector) -> Vector:
    """Return slopes that sum to zero, by scaling down those of the heavier sign, in place."""
    rising, falling = slopes > 0.0, slopes < 0.0
    up, down = float(slopes.sum(where=rising)), -float(slopes.sum(where=falling))
    for share, which in zip(balancing(up, down), (rising, falling), strict=True):
        np.multiply(slopes, share, out=slopes, where=which)
    return slopes
