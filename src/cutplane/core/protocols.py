"""What the solver asks of the world: risks, points, segments, regularizers.

The objective is ``J(w) = r(w) + R(w)`` with a regularizer ``r = lam * Omega`` and a risk ``R``. The
loop calls nothing but the methods below, so anything that offers them can be minimized: a linear
model on one machine, a structured model, a sum over a cluster, a user's own function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from cutplane.compute.arrays import Matrix, Vector


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
    offset: float
    tilt: float = 0.0
    locality: float = 0.0


class NonFiniteRisk(ArithmeticError):
    """The risk or its subgradient was not finite at a point where a plane was to be taken."""


class Quadratic(NamedTuple):
    """A function of a step ``k`` along a line, up to a constant: ``slope*k + curvature*k**2/2``."""

    slope: float
    curvature: float


class Segment(Protocol):
    """The risk on the ray ``w(k) = w0 + k*(w1 - w0)``, ``k >= 0``, through two points."""

    def minimize(self, regularizer: Quadratic) -> float:
        """Return the step ``k >= 0`` that minimizes the risk plus the regularizer on the ray."""

    def at(self, step: float) -> Point:
        """Return the point at ``step``."""


class SlopedSegment(Segment, Protocol):
    """A segment that tells slopes without taking planes: for searches on sums of risks."""

    def along(self, step: float) -> tuple[float, float]:
        """Return the risk at ``step`` and its derivative by the step."""


class GuidedSegment(Segment, Protocol):
    """A segment whose search costs work, and less if it is told how far to go.

    Attributes
    ----------
    uses_distance : bool
        True.
    """

    uses_distance: bool

    def minimize(self, regularizer: Quadratic, expected: float | None = None) -> float:
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


@dataclass(frozen=True, slots=True)
class KeptPoint:
    """What is needed of a point once its plane is taken.

    Scores and slopes of all examples are not. With many of them they take more memory than planes.
    Where a regularizer allows no steep planes, a ``flatter`` one, if it is known, may prove more
    than a mean of the touching one and the flat one at the risk's lower bound.
    """

    w: Vector
    value: float
    touching: Plane
    flatter: Plane | None = None

    def plane(self) -> Plane:
        """Return the plane that touches the risk here."""
        return self.touching


class SearchablePoint(Point, Protocol):
    """A point that knows the risk along lines: what a search without new evaluations needs."""

    def toward(self, other: Any) -> Segment:
        """Return the risk on the ray from here through ``other``, a point of the same risk."""


class Risk(Protocol):
    """The part of the objective that looks at data.

    One that is not convex may say why its gap is no proof, in a text ``unproven``. One whose points
    take much memory may offer ``evaluate_once(w)``, which returns a `KeptPoint`. One that looks for
    more than the parameters, such as intercepts, may offer ``evaluate_again(point)``: the value
    afresh with what was found there.
    One whose values are sums of terms that may cancel may tell their size, ``term_size``: beside it
    rounding is judged where a value all but vanishes. One that keeps more than its bounds depend on
    may offer ``identity()``, which returns what they do depend on, by name: see
    `cutplane.core.fingerprint`.

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


class GroupedPoint(Point, Protocol):
    """A point of a grouped risk."""

    def planes(self, n_groups: int) -> Sequence[Plane]:
        """Return the plane of each group, touching its part of the risk here.

        Computed on first use, then kept. For the same number the groups are always the same.
        """


class GroupedRisk(Risk, Protocol):
    """A risk that is a sum over groups of examples: what ``groups`` of a method needs.

    Attributes
    ----------
    good_groups : int
        How many groups should make a run the fastest; 1 if the risk cannot be split.
    """

    good_groups: int

    def group_bounds(self, n_groups: int) -> Vector:
        """Return a value for each group that its part of the risk never goes below, or -inf."""


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

    def back(self, point: Any) -> Point:
        """Return a point of this risk as one of that for which it stands, with the same value."""

    def misses(self, point: Any) -> bool:
        """Say whether the other risk may be higher at a point of it, as `back` returns it.

        Then a run has to go on, on another exact risk. Elsewhere it may be higher, never lower.
        """


class RoundedRisk(Risk, Protocol):
    """A risk that computes with less precision than models are used with.

    Attributes
    ----------
    rounded : bool
        Whether this one does.
    """

    @property
    def rounded(self) -> bool:
        """See above."""

    def exact_at(self, point: Any, plane: Plane, before: Any) -> Exact:
        """Return an exact risk for a run that has come to a point, and has a plane.

        ``before`` is the exact risk that the run was on last, if that was not the end; else None.
        """


class Regularizer(Protocol):
    """A strictly convex function of ``w`` known through its value and its conjugate."""

    def value(self, w: Vector) -> float:
        """Return ``r(w)``; infinite where ``w`` is not allowed."""

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u) = max_w u.w - r(w)`` and the ``w`` that attains it."""


class CurvedRegularizer(Regularizer, Protocol):
    """A regularizer that knows the second derivatives of its conjugate.

    Without them the reduced problem takes differences of the conjugate's minimizer.
    """

    def local_gram(self, u: Vector, slopes: Matrix) -> Matrix:
        """Return ``slopes r*''(u) slopes'``."""


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
