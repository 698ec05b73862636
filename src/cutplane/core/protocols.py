"""What the solver asks of the world: risks, points, segments, regularizers.

The objective is ``J(w) = r(w) + R(w)`` with a regularizer ``r = lam * Omega`` and a risk ``R``. The
loop calls nothing but the methods below, so anything that offers them can be minimized: a linear
model on one machine, a structured model, a sum over a cluster, a user's own function.

What something offers beyond that is a type. A user's own may have the methods of one of the
protocols that can be checked at run time. The library's own also derive from `LibraryRisk`,
`LibraryPoint` or `Confined`, which have a default for everything else that is asked of them, and
`cutplane.core.state.facts_of` and `facts_at` answer with these defaults for all others. Nothing is
asked by a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import isfunction
from typing import Annotated, Any, NamedTuple, Protocol, TypeGuard, TypeVar, runtime_checkable

import numpy as np

from cutplane.compute.arrays import MappedFile, Matrix, Vector
from cutplane.compute.products import dot


@dataclass(frozen=True, slots=True)
class Plane:
    """An affine function ``slope.w + offset`` that a convex risk never goes below.

    The planes of a group may also have a ``tilt``: the slope along a free parameter that all groups
    share, and that the risk minimizes out, such as an intercept. Those of all groups at a point
    balance: their tilts sum to zero.

    Planes of a risk that is not convex hold near the best point only, and keep a distance below the
    risk there: at least their ``locality``.
    """

    slope: Vector
    offset: Annotated[float, "float"]
    tilt: Annotated[float, "float"] = 0.0
    locality: Annotated[float, "float"] = 0.0


class NonFiniteRisk(ArithmeticError):
    """The risk or its subgradient was not finite at a point where a plane was to be taken."""


class Quadratic(NamedTuple):
    """A function of a step ``k`` along a line, up to a constant: ``slope*k + curvature*k**2/2``."""

    slope: float
    curvature: float


T = TypeVar("T")


_HAVE = dict[tuple[type, type], bool]()


def has_methods_of(thing: object, protocol: type[T]) -> TypeGuard[T]:
    """Say whether a thing has the methods that a protocol adds to another one.

    For what is asked in every iteration: ``isinstance`` looks at all attributes, each time again,
    and takes 20 microseconds. This looks at a type once.
    """
    asked = type(thing), protocol
    if asked not in _HAVE:
        added = (name for name, value in vars(protocol).items() if isfunction(value))
        public = (name for name in added if not name.startswith("_"))
        _HAVE[asked] = all(callable(getattr(type(thing), name, None)) for name in public)
    return _HAVE[asked]


class Segment(Protocol):
    """The risk on the ray ``w(k) = w0 + k*(w1 - w0)``, ``k >= 0``, through two points."""

    def minimize(self, regularizer: Quadratic) -> float:
        """Return the step ``k >= 0`` that minimizes the risk plus the regularizer on the ray."""

    def at(self, step: float) -> Point:
        """Return the point at ``step``."""


@runtime_checkable
class SlopedSegment(Segment, Protocol):
    """A segment that tells slopes without taking planes: for searches on sums of risks."""

    def along(self, step: float) -> tuple[float, float]:
        """Return the risk at ``step`` and its derivative by the step."""


@runtime_checkable
class GuidedSegment(Segment, Protocol):
    """A segment whose search costs work, and less if it is told how far to go."""

    def minimize_near(self, regularizer: Quadratic, expected: float | None) -> float:
        """Return a step that is nearly the best, looked for at the expected distance first."""


class Point(Protocol):
    """A place where the risk was evaluated."""

    @property
    def w(self) -> Vector:
        """The parameters."""

    @property
    def value(self) -> float:
        """The risk there."""

    def plane(self) -> Plane:
        """Return the plane that touches the risk here; computed on first use, then kept."""


class LibraryPoint:
    """What the library's own points may tell beyond that, and what others are taken to.

    Attributes
    ----------
    term_size : float
        The size of terms that cancel in the plane, as far as they move the value.
    intercept : float or ndarray
        The best intercepts for these parameters; zero if the model has none.
    has_segment : bool
        Whether `SearchablePoint.toward` knows the risk on a line, if there is that method.
    """

    __slots__ = ()

    @property
    def term_size(self) -> float:
        """See above."""
        return 0.0

    @property
    def intercept(self) -> Any:
        """See above."""
        return 0.0

    @property
    def has_segment(self) -> bool:
        """See above."""
        return True


_OTHER_POINT = LibraryPoint()


def facts_at(point: Point) -> LibraryPoint:
    """Return what a point tells beyond the contract: the defaults, if it is not the library's."""
    return point if isinstance(point, LibraryPoint) else _OTHER_POINT


def terms_at(point: Point) -> float:
    """Return the size of the terms that the risk is made of at a point, as far as they move it."""
    plane = point.plane()
    in_plane = abs(plane.offset) + dot(np.abs(plane.slope), np.abs(point.w))
    return max(in_plane, facts_at(point).term_size)


@dataclass(frozen=True, slots=True)
class KeptPoint(LibraryPoint):
    """What is needed of a point once its plane is taken.

    Scores and slopes of all examples are not. With many of them they take more memory than planes.
    Where a regularizer allows no steep planes, a ``flatter`` one, if it is known, may prove more
    than a mean of the touching one and the flat one at the risk's lower bound.
    """

    w: Vector
    value: Annotated[float, "float"]
    touching: Plane
    flatter: Plane | None = None

    def plane(self) -> Plane:
        """Return the plane that touches the risk here."""
        return self.touching


@runtime_checkable
class SearchablePoint(Point, Protocol):
    """A point that knows the risk along lines: what a search without new evaluations needs."""

    def toward(self, other: Any) -> Segment:
        """Return the risk on the ray from here through ``other``, a point of the same risk."""


def along(segment: Segment, step: float, direction: Vector) -> tuple[float, float]:
    """Return value and slope of the risk on a ray, from its plane if the segment does not tell."""
    if has_methods_of(segment, SlopedSegment):
        return segment.along(step)
    point = segment.at(step)
    return point.value, dot(point.plane().slope, direction)


class Risk(Protocol):
    """The part of the objective that looks at data.

    One that keeps more than its bounds depend on may offer ``identity()``, which returns what they
    do depend on, by name: see `cutplane.core.fingerprint`. What else the loop can use is in
    `LibraryRisk`, with defaults.

    Attributes
    ----------
    n_parameters : int
        Length of ``w``.
    convex : bool or None
        Whether planes of the risk stay below it everywhere. Only then is a gap a certificate. None
        if nobody has said: then methods for convex risks assume it, and say so.
    lower_bound : float
        A value that the risk never goes below (0 for the usual losses), ``-inf`` if unknown.
    evaluations : int
        How often the risk was evaluated so far. Counted here, because only the risk knows what
        was work and what was not.
    """

    n_parameters: int
    lower_bound: float
    evaluations: int

    @property
    def convex(self) -> bool | None:
        """See above."""

    def at(self, w: Vector) -> Point:
        """Evaluate the risk at ``w``."""


@runtime_checkable
class GroupedPoint(Point, Protocol):
    """A point of a grouped risk."""

    def planes(self, n_groups: int) -> Sequence[Plane]:
        """Return the plane of each group, touching its part of the risk here.

        Computed on first use, then kept. For the same number the groups are always the same.
        """


@runtime_checkable
class GroupedRisk(Protocol):
    """A risk that is a sum over groups of examples: what ``groups`` of a method needs."""

    def group_bounds(self, n_groups: int) -> Vector:
        """Return a value for each group that its part of the risk never goes below, or -inf."""


@runtime_checkable
class SizedGroups(Protocol):
    """A grouped risk of a user's that knows how many groups should make a run the fastest."""

    good_groups: int


@runtime_checkable
class Evaluated(Protocol):
    """What tells a risk from a mere function."""

    n_parameters: int

    def at(self, w: Vector) -> Point:
        """Evaluate the risk at ``w``."""


@runtime_checkable
class Identified(Protocol):
    """Something that tells what it consists of."""

    def identity(self) -> Any:
        """Return what bounds depend on, by name."""


class LibraryRisk:
    """What the library's own risks may tell beyond the contract, and what others are taken to.

    Attributes
    ----------
    convex : bool or None
        Whether planes of the risk stay below it everywhere; None if nobody has said.
    unproven : str
        Why a gap is no proof, where there is more to say than that the risk is not convex.
    sharded : bool
        Whether its examples lie elsewhere.
    """

    n_parameters: int
    lower_bound: float
    evaluations: int
    convex: bool | None = True
    unproven: str = ""
    sharded: bool = False

    def at(self, w: Vector) -> Point:
        """Evaluate the risk at ``w``."""
        raise NotImplementedError

    @property
    def files(self) -> tuple[MappedFile, ...]:
        """The files that the data are read from while a run goes on."""
        return ()

    @property
    def term_size(self) -> float:
        """The size of the terms that values are sums of, where they may cancel.

        Beside it rounding is judged where a value all but vanishes.
        """
        return 0.0

    @property
    def loss_size(self) -> float:
        """The value at zero, beside which terms that cancel may be large; zero if not told."""
        return 0.0

    @property
    def good_groups(self) -> int:
        """How many groups should make a run the fastest; 1 if the risk cannot be split."""
        return 1

    def evaluate_once(self, w: Vector) -> Point | None:
        """Evaluate the risk where no line search will begin; None if `Risk.at` takes no more."""
        return None

    def evaluate_again(self, point: Point) -> Point | None:
        """Evaluate the risk where a point is, with what else was found there; None if nothing."""
        return None


class InexactRisk(LibraryRisk):
    """A risk of the library that tells by how much rounding may have changed what it says.

    Attributes
    ----------
    rounded : bool
        Whether it computes with less precision than models are used with.
    """

    @property
    def rounded(self) -> bool:
        """See above."""
        return False

    def value_error(self, point: Point) -> float:
        """Return by how much rounding may have changed the value at a point, as far as told."""
        return 0.0

    def is_coarse_at(self, point: Point) -> bool:
        """Say whether steps from a point are taken with data that are rounded too much for it."""
        return False

    def length_error(self, slope: Vector) -> float:
        """Return by how much the squared length of a plane's slope may be larger than it seems.

        It is negative where the length is known to be smaller. The length that counts is that of a
        quadratic regularizer.
        """
        return 0.0

    def exact_at(self, point: Point, plane: Plane, before: Any) -> Exact:
        """Return an exact risk for a run that has come to a point, and has a plane, if `rounded`.

        ``before`` is the exact risk that the run was on last, if that was not the end; else None.
        """
        raise NotImplementedError


def is_risk(thing: object) -> TypeGuard[Risk]:
    """Say whether something is a risk, and not a mere function."""
    return isinstance(thing, Evaluated)


class Exact(Protocol):
    """A risk that stands for one that rounds.

    Attributes
    ----------
    risk : Risk
    start : ndarray
        Where a run on it begins.
    plane : Plane
        What gives a lower bound for the risk that it stands for, with any regularizer.
    has_plane : bool
        Whether that is a plane of this risk, too.
    """

    @property
    def risk(self) -> Risk:
        """See above."""

    @property
    def start(self) -> Vector:
        """See above."""

    @property
    def plane(self) -> Plane:
        """See above."""

    @property
    def has_plane(self) -> bool:
        """See above."""

    def back(self, point: Point) -> Point:
        """Return a point of this risk as one of that for which it stands, with the same value."""

    def misses(self, point: Point) -> bool:
        """Say whether the other risk may be higher at a point of it, as `back` returns it.

        Then a run has to go on, on another exact risk. Elsewhere it may be higher, never lower.
        """


@runtime_checkable
class FarRisk(Risk, Protocol):
    """A risk whose rows lie on workers, which run `cutplane.minimize` themselves."""

    def minimized(self, problem: Any, method: Any, options: Any, **more: Any) -> Any:
        """Return the result of a run on the workers."""


class Regularizer(Protocol):
    """A strictly convex function of ``w`` known through its value and its conjugate."""

    def value(self, w: Vector) -> float:
        """Return ``r(w)``; infinite where ``w`` is not allowed."""

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u) = max_w u.w - r(w)`` and the ``w`` that attains it."""


class Confined:
    """A regularizer of the library that is infinite outside of a set.

    Attributes
    ----------
    strongly_convex : bool
        Whether it has curvature inside.
    """

    @property
    def strongly_convex(self) -> bool:
        """See above."""
        return True

    def inside(self, w: Vector) -> Vector:
        """Return ``w``, or the point next to it that is in the set, exactly."""
        return w


class BallSet(Confined):
    """A regularizer that is zero within ``radius`` from zero, and infinite elsewhere."""

    strongly_convex = False
    radius: float


class BoxSet(Confined):
    """A regularizer that is zero from ``lower`` to ``upper``, and infinite elsewhere."""

    strongly_convex = False
    lower: Vector
    upper: Vector


@runtime_checkable
class CurvedRegularizer(Regularizer, Protocol):
    """A regularizer that knows the second derivatives of its conjugate.

    Without them the reduced problem takes differences of the conjugate's minimizer.
    """

    def local_gram(self, u: Vector, slopes: Matrix) -> Matrix:
        """Return ``slopes r*''(u) slopes'``."""


@runtime_checkable
class QuadraticRegularizer(Regularizer, Protocol):
    """A regularizer ``lam/2 * |w - center|^2`` in some metric: the reduced problem is a QP.

    In dual terms: ``r*(u) = u.center + u.dual_metric(u) / (2*lam)``.
    """

    lam: float

    def at_center(self, slope: Vector) -> float:
        """Return ``slope.center``, by which the offset of a plane shifts."""

    def dual_metric(self, slope: Vector) -> Vector:
        """Return the vector whose dot product with another slope is their inner product."""

    def along(self, start: Vector, end: Vector) -> Quadratic:
        """Return the regularizer on the ray from ``start`` through ``end``."""

    def gradient(self, w: Vector) -> Vector:
        """Return the derivative at ``w``."""


@runtime_checkable
class FlatRegularizer(Regularizer, Protocol):
    """A regularizer without curvature: its conjugate is zero on a box, and infinite outside.

    Attributes
    ----------
    dual_radius : float
        ``r*(u) = 0`` if no coordinate of ``u`` is larger.
    """

    @property
    def dual_radius(self) -> float:
        """Half the width of the box."""

    def with_square(self, strength: float, center: Vector) -> Regularizer:
        """Return ``r(w) + strength/2 * |w - center|^2``."""
