"""A problem, and what a run knows of it: the best point, the planes, and the bound that they prove.

The bound of every solver is computed here, in three lines: see `candidate_below`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.bundle import Bundle
from cutplane.core.certificate import Certificate, Record, Stationarity, relative
from cutplane.core.fingerprint import fingerprint, fingerprints_of_parts
from cutplane.core.protocols import (
    FlatRegularizer,
    GroupedPoint,
    Identified,
    InexactRisk,
    LibraryRisk,
    NonFiniteRisk,
    Plane,
    Point,
    QuadraticRegularizer,
    Regularizer,
    Risk,
    SizedGroups,
    has_methods_of,
    terms_at,
)
from cutplane.core.solver import AnySolver, Step

# Bounds are sums of a few terms that each carry rounding errors of a few units in the last place.
# The lower bound is lowered by this share of the terms' sizes, so that rounding cannot lift it
# above the optimum. (16 was too little for the Poisson loss, whose conjugate is a small difference
# of large terms.)
_ROUNDING = 64 * float(np.finfo(np.float64).eps)

# Reduced problems are solved to this share of the current gap: tighter would not show in the next
# plane, and the bound holds for any accuracy.
SHARE_OF_GAP = 1e-3

# A lower bound above the objective by more than this share cannot be rounding: the risk is not
# convex, or its subgradient is wrong.
_CONTRADICTION = 1e-9

# A value that differs by more than this share when it is computed once more cannot be rounding: the
# risk is not the same function each time, or its segments do not fit its points.
DISAGREEMENT = 1e-6


def sum_of(planes: Sequence[Plane]) -> Plane:
    """Return the plane that the planes of all groups make together."""
    if len(planes) == 1:
        return planes[0]
    slopes = np.array([plane.slope for plane in planes])
    tilt = sum(plane.tilt for plane in planes)
    return Plane(slopes.sum(axis=0), sum(plane.offset for plane in planes), tilt)


@dataclass(frozen=True, slots=True)
class Candidate:
    """The minimizer of the reduced problem, with a bound, and the height of the model there."""

    w: Vector
    lower: float
    model: float


def candidate_below(plane: Plane, regularizer: Regularizer, error: float = 0.0) -> Candidate:
    """Minimize ``regularizer + plane``: the certificate of every method.

    A plane lies below the risk, so this minimum lies below the minimum of the objective. For the
    aggregate ``(A'alpha, b.alpha)`` of a bundle it is ``D(alpha) = b.alpha - r*(-A'alpha)``, valid
    for any ``alpha`` on the simplex however it was found. The conjugate may be higher by ``error``,
    or is lower if that is negative, where it is known.
    """
    conjugate, w = regularizer.conjugate(-plane.slope)
    conjugate += error
    rounding = _ROUNDING * (abs(plane.offset) + abs(conjugate))
    lower = plane.offset - conjugate - rounding
    return Candidate(w, lower, lower - regularizer.value(w))


class _OtherRisk(LibraryRisk):
    """A risk of a user's: its groups are the only thing that it tells."""

    def __init__(self, risk: Risk) -> None:
        self._good_groups = risk.good_groups if isinstance(risk, SizedGroups) else 1

    @property
    def good_groups(self) -> int:
        return int(self._good_groups)


def facts_of(risk: Risk) -> LibraryRisk:
    """Return what a risk tells beyond the contract: the defaults, if it is not the library's."""
    return risk if isinstance(risk, LibraryRisk) else _OtherRisk(risk)


@dataclass(frozen=True)
class Problem:
    """A risk and a regularizer.

    Fingerprints are made only when a run takes over what another one found, and only once: a run
    by itself does not pay for them.
    """

    risk: Risk
    regularizer: Regularizer

    def objective(self, point: Point) -> float:
        """Return ``J(w)`` at a point of the risk."""
        return self.regularizer.value(point.w) + point.value

    def evaluated_once(self, w: Vector) -> Point:
        """Evaluate the risk where no line search will begin, with less memory if it knows how."""
        return self.facts.evaluate_once(w) or self.risk.at(w)

    def below(self, plane: Plane) -> Candidate:
        """Return the bound that any plane below the risk gives, and where it is attained."""
        error = 0.0
        if isinstance(self.risk, InexactRisk) and self.quadratic:
            error = self.risk.length_error(plane.slope) / (2.0 * self.quadratic.lam)
        return candidate_below(plane, self.regularizer, error)

    def rounding_at(self, point: Point) -> float:
        """Return by how much the objective at a point may be off: a share of its terms."""
        terms = abs(self.regularizer.value(point.w)) + terms_at(point)
        if self.quadratic:  # a center may be much larger than the distance from it
            terms += dot(np.abs(self.quadratic.gradient(point.w)), np.abs(point.w))
        return _ROUNDING * terms

    @cached_property
    def facts(self) -> LibraryRisk:
        """What the risk tells beyond the contract."""
        return facts_of(self.risk)

    @cached_property
    def quadratic(self) -> QuadraticRegularizer | None:
        """The regularizer, if the reduced problem with it is a quadratic program."""
        regularizer = self.regularizer
        return regularizer if isinstance(regularizer, QuadraticRegularizer) else None

    @property
    def norm(self) -> QuadraticRegularizer:
        """The regularizer, which was found to be quadratic before the run."""
        assert self.quadratic is not None
        return self.quadratic

    @cached_property
    def flat(self) -> FlatRegularizer | None:
        """The regularizer, if the reduced problem with it is a linear program."""
        return self.regularizer if isinstance(self.regularizer, FlatRegularizer) else None

    @cached_property
    def risk_parts(self) -> dict[str, str]:
        """The fingerprint of each part of the risk, by its name."""
        return fingerprints_of_parts(self.risk)

    def require_risk_of(self, earlier: Problem, what: str) -> None:
        """Raise ValueError unless an earlier problem, which ``what`` comes from, has this risk."""
        if earlier.risk is self.risk:
            return
        mine, other = self.risk_parts, earlier.risk_parts
        if mine != other:
            different = [name for name in mine | other if mine.get(name) != other.get(name)]
            hint = (
                ""
                if isinstance(self.risk, Identified)
                else "; if these have no influence on its values, give it a method identity()"
            )
            raise ValueError(
                f"{what} is of a run on another risk (not the same: {', '.join(different)}), for "
                f"which its bounds do not hold: give start=, with its w, in place of it{hint}"
            )

    def require_regularizer_of(self, earlier: Problem) -> None:
        """Raise ValueError unless an earlier problem has this regularizer, in every detail."""
        before, now = earlier.regularizer, self.regularizer
        if now is not before and fingerprint(now) != fingerprint(before):
            detail = " with other values" if repr(now) == repr(before) else ""
            raise ValueError(
                f"resume is of a run with {before!r}, for which its bounds hold, and not for "
                f"{now!r}{detail}; give planes_from= in place of it"
            )


@dataclass(slots=True)
class Run:
    """Everything that changes while the loop runs: a run can go on from it as if never stopped.

    All of it is data, and nothing else remembers anything. What the ``method``, a solver, remembers
    is its ``own``; all bounds belong to the ``problem``. The planes that the solver has handed over
    are in the ``bundle``: they prove the bound, another run can begin with them, and for a bundle
    method they are the model. ``last_step`` is how far from the best point the last search went.
    ``seconds_left`` is for a solver whose step may take longer than the time limit of the run
    allows, ``enough`` the gap that is small enough, for one that solves problems of its own;
    ``convex_step`` is what is proven of the last one.
    """

    problem: Annotated[Problem, "=problem"]
    method: Annotated[AnySolver, "=method"]
    bundle: Bundle
    best: Annotated[Point, "point"]
    objective: Annotated[float, "float"]
    own: Any = None
    lower: float = -np.inf
    convex: bool = True
    iteration: int = 0
    evaluations: int = 0
    seconds: Annotated[float, "float"] = 0.0
    seconds_left: float = np.inf
    enough: float = 0.0
    last_step: float | None = None
    stopped: bool = False
    interrupted: bool = False
    stalled_for: int = 0
    stationarity: Stationarity | None = None
    convex_step: Certificate | None = None
    refuted: bool = False
    history: list[Record] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """Objective minus lower bound; infinite before the first bound."""
        return self.objective - self.lower

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the objective."""
        return relative(self.gap, self.objective)

    @property
    def accuracy(self) -> float:
        """How accurately reduced problems should be solved."""
        # Before the first bound the gap is infinite; any accuracy will do, so ask for an exact one.
        return max(SHARE_OF_GAP * self.gap, 0.0) if self.gap < np.inf else 0.0

    @property
    def contradictory(self) -> bool:
        """Whether a bound or a plane is clearly above the risk: no convex one allows that."""
        scale = abs(self.objective) + abs(self.lower) + self.offset_scale
        return self.refuted or self._beyond_rounding(-self.gap, scale)

    @property
    def offset_scale(self) -> float:
        """Size of the terms that the offset of the planes' mean is made of."""
        return float(self.bundle.alpha @ np.abs(self.bundle.offsets))

    @property
    def hidden(self) -> float:
        """What rounding may hide of the gap, where that is more than it always is."""
        risk = self.problem.risk
        error = risk.value_error(self.best) if isinstance(risk, InexactRisk) else 0.0
        return error if error > DISAGREEMENT * abs(self.objective) else 0.0

    @property
    def hides_tolerance(self) -> bool:
        """Whether rounding hides a gap that would be small enough, or is too coarse for steps."""
        risk = self.problem.risk
        coarse = isinstance(risk, InexactRisk) and risk.is_coarse_at(self.best)
        return coarse or self.hidden > self.enough

    @property
    def vanishes(self) -> bool:
        """Whether objective and gap are no more than rounding of the terms that they are made of.

        These are the regularizer and the terms of the risk at the best point, and those of the
        plane that the bound comes from.
        """
        problem, bundle = self.problem, self.bundle
        rounding = problem.rounding_at(self.best)
        if bundle.alpha.any():
            plane = bundle.aggregate()
            conjugate = abs(problem.regularizer.conjugate(-plane.slope)[0])
            below = _ROUNDING * (self.offset_scale + conjugate)
            if problem.below(plane).lower + 2.0 * below >= self.lower:
                rounding += below
        # An objective of the size of the losses has not vanished, whatever hides it.
        own = min(rounding, DISAGREEMENT * size) if (size := problem.facts.loss_size) else rounding
        return max(self.gap, abs(self.objective)) <= own < np.inf

    def _beyond_rounding(self, excess: float, scale: float) -> bool:
        """Say whether something is too high by more than rounding explains.

        Where a model fits its targets exactly the numbers that are compared vanish, and what is
        left of them is rounding of the terms that values of the risk are made of.
        """
        too_high = excess > _CONTRADICTION * scale
        return too_high and excess > _ROUNDING * self.problem.facts.term_size

    def test(self, plane: Plane, points: Sequence[Point]) -> None:
        """Compare a plane with the risk where it is known: above it, the plane is wrong."""
        for point in (self.best, *points):
            height = dot(plane.slope, point.w)
            # Where the risk vanishes these are all rounding, and small beside the objective.
            scale = abs(height) + abs(plane.offset) + abs(point.value) + abs(self.objective)
            if self._beyond_rounding(height + plane.offset - point.value, scale):
                self.refuted = True

    def test_model(self, bundle: Bundle) -> None:
        """Compare the planes of an earlier run with the risk at the best point."""
        height = bundle.height_at(self.best.w)
        scale = abs(height) + float(np.abs(bundle.offsets).max()) + abs(self.best.value)
        if self._beyond_rounding(height - self.best.value, scale):
            self.refuted = True

    def planes_at(self, point: Point) -> Sequence[Plane]:
        """Return the plane of a point, or those of the bundle's groups."""
        n_groups = self.bundle.n_groups
        if n_groups == 1:
            return [point.plane()]
        if has_methods_of(point, GroupedPoint):
            return point.planes(n_groups)
        raise TypeError(
            f"{type(point).__name__} has no method planes(), which groups need; use groups=1"
        )

    def is_usable(self, point: Point) -> bool:
        """Say whether the planes at a point have numbers that can be computed with."""
        return bool(
            np.isfinite(point.value)
            and all(np.isfinite(dot(plane.slope, plane.slope)) for plane in self.planes_at(point))
        )

    def require_finite(self, point: Point, planes: Sequence[Plane] | None = None) -> None:
        """Raise NonFiniteRisk unless a point and its planes, or others, can be computed with."""
        part = ""
        if not np.isfinite(point.value):
            part = f"the risk is {point.value}"
        else:
            for plane in self.planes_at(point) if planes is None else planes:
                if not np.isfinite(dot(plane.slope, plane.slope)):
                    part = "the subgradient is not finite, or too steep to be squared"
                elif not np.isfinite(plane.offset):
                    part = f"the offset of the plane is {plane.offset}"
        if part:
            raise NonFiniteRisk(
                f"{part} in iteration {self.iteration} at a point of norm "
                f"{np.linalg.norm(point.w):.3g}"
            )

    def raise_lower_bound(self, candidate: Candidate) -> bool:
        """Keep the better bound; return whether it moved."""
        moved = candidate.lower > self.lower
        if moved:
            self.lower = candidate.lower
        return moved

    def keep_best(self, points: Sequence[Point]) -> bool:
        """Keep the point with the lowest objective; return whether it changed."""
        before = self.best
        for point in points:
            objective = self.problem.objective(point)
            if objective < self.objective:
                self.best, self.objective = point, objective
        return self.best is not before

    @property
    def candidate(self) -> Candidate:
        """The minimizer of the model that the planes make together."""
        if not self.bundle.alpha.any():
            return self.bundle.minimize(self.problem, accuracy=self.accuracy)
        return self.problem.below(self.bundle.aggregate())

    def add(self, planes: Sequence[Plane], points: Sequence[Point]) -> bool:
        """Keep planes below the risk, and raise the bound by them; return whether it moved.

        They are compared with the risk at the ``points``, where it is known.
        """
        if limit := self.method.planes:
            self.bundle.make_room(limit, len(planes))
        for plane in planes:
            self.test(plane, points)
            self.bundle.add(plane)
        bounds = [self.problem.below(plane) for plane in planes]
        if (together := self.method.combined(self)) is not None:
            bounds.append(together)
        return any([self.raise_lower_bound(bound) for bound in bounds])  # noqa: C419

    def take(self, step: Step[Any]) -> None:
        """Take what a step hands over: keep the best point, and raise the bound by the planes."""
        for point in step.cut_at:
            self.require_finite(point)
        before = self.best
        self.require_finite(before, step.planes)
        progress = self.keep_best(step.points) or step.moved
        self.own = step.state
        progress |= self.method.cut(self, step, before)
        self.stalled_for = 0 if progress else self.stalled_for + 1
        self.stationarity = None
        self.iteration += 1

    def record(self) -> Record:
        """Return the current line of the history."""
        return Record(
            iteration=self.iteration,
            objective=self.objective,
            lower_bound=min(self.lower, self.objective),
            evaluations=self.evaluations,
            planes=self.bundle.n_planes,
            seconds=self.seconds,
        )

    def __repr__(self) -> str:
        return (
            f"Run(iteration {self.iteration}, objective {self.objective:.8g}, lower bound "
            f"{self.lower:.8g}, {self.bundle.n_planes} planes)"
        )


# What a run was called before, and still is in files.
State = Run


def iterate(run: Run) -> None:
    """Take one step of the solver."""
    run.take(run.method.step(run, run.own))
