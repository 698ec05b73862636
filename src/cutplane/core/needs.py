"""What risks and regularizers offer, and what policies need of them: asked here, and nowhere else.

They may be a user's own, and offer no more than `protocols` asks for. What they offer beyond that
is a matter of attributes, read by the functions of this module. (Whether points know the risk along
lines is asked where they come in, in `policies.bmrm`.) A policy declares what it cannot do without
as a tuple of `Need`, and `unmet` says before the run, in one sentence, what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, cast

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.mapped import MappedFile
from cutplane.compute.products import dot
from cutplane.core.protocols import (
    CurvedRegularizer,
    FlatRegularizer,
    GroupedPoint,
    GroupedRisk,
    Point,
    QuadraticRegularizer,
    Regularizer,
    Risk,
    RoundedRisk,
    Segment,
    SlopedSegment,
)


class Need(NamedTuple):
    """Something that a policy asks of the risk or of the regularizer.

    Attributes
    ----------
    of : {"risk", "regularizer"}
        Who should have it.
    attribute : str
        Its name, with dots for an attribute of an attribute. It is offered if it is there, and
        neither false nor None.
    what : str
        What that means, in words that go on after "needs".
    default : bool
        Whether something without the attribute is taken to offer it.
    """

    of: Literal["risk", "regularizer"]
    attribute: str
    what: str
    default: bool = False


QUADRATIC = Need("regularizer", "dual_metric", "a quadratic regularizer such as cp.L2")
PLAIN_L2 = Need(
    "regularizer", "plain", "the regularizer cp.L2(lam), with neither center nor weights"
)
SET = Need("regularizer", "confines", "a set to stay in, cp.Ball or cp.Box")
CURVED = Need(
    "regularizer",
    "strongly_convex",
    "a strongly convex regularizer such as cp.L2 (a ball or a box goes with cp.kelley())",
    default=True,
)


def unmet(needs: Iterable[Need], risk: object, regularizer: object) -> Need | None:
    """Return the first need that is not met, or None."""
    things = {"risk": risk, "regularizer": regularizer}
    for need in needs:
        if not offers(things[need.of], need.attribute, default=need.default):
            return need
    return None


def offers(thing: object, attribute: str, *, default: bool = False) -> bool:
    """Say whether a thing has an attribute (of an attribute), neither false nor None."""
    for name in attribute.split("."):
        if not hasattr(thing, name):
            return default
        thing = getattr(thing, name)
    return thing is not None and thing is not False


def as_quadratic(regularizer: Regularizer) -> QuadraticRegularizer | None:
    """Return the regularizer if the reduced problem with it is a quadratic program."""
    return cast(QuadraticRegularizer, regularizer) if hasattr(regularizer, "dual_metric") else None


def quadratic(regularizer: Regularizer) -> QuadraticRegularizer:
    """Return the regularizer, which was found to be quadratic before the run."""
    found = as_quadratic(regularizer)
    assert found is not None
    return found


def as_flat(regularizer: Regularizer) -> FlatRegularizer | None:
    """Return the regularizer if the reduced problem with it is a linear program."""
    return cast(FlatRegularizer, regularizer) if hasattr(regularizer, "dual_radius") else None


def as_curved(regularizer: Regularizer) -> CurvedRegularizer | None:
    """Return the regularizer if it knows the second derivatives of its conjugate."""
    return cast(CurvedRegularizer, regularizer) if hasattr(regularizer, "local_gram") else None


def size_known_to(regularizer: Regularizer) -> Vector | None:
    """Return a vector as long as the parameters, if the regularizer has one."""
    center = getattr(regularizer, "center", None)
    return getattr(regularizer, "weights", None) if center is None else center


def is_risk(thing: object) -> bool:
    """Say whether something is a risk, and not a mere function."""
    return hasattr(thing, "at") and hasattr(thing, "n_parameters")


def has_identity(risk: Risk) -> bool:
    """Say whether a risk tells what its bounds depend on."""
    return hasattr(risk, "identity")


def term_size(risk: Risk) -> float:
    """Return the size of the terms that values are made of; zero if the risk does not tell."""
    return float(getattr(risk, "term_size", 0.0))


def length_error_of(risk: Risk) -> Callable[[Vector], float] | None:
    """Return what tells how much larger the squared length of a plane's slope may be, if anything.

    It is negative where the length is known to be smaller. The length that counts is that of a
    quadratic regularizer.
    """
    error: Callable[[Vector], float] | None = getattr(risk, "length_error", None)
    return error


def loss_size(risk: Risk) -> float:
    """Return the value at zero, beside which terms that cancel may be large; zero if not told."""
    return float(getattr(risk, "loss_size", 0.0))


def value_error(risk: Risk, point: Point) -> float:
    """Return by how much rounding may have changed the value at a point; zero if nobody tells."""
    error: Callable[[Point], float] | None = getattr(risk, "value_error", None)
    return 0.0 if error is None else error(point)


def is_coarse_at(risk: Risk, point: Point) -> bool:
    """Say whether steps from a point are taken with data that are rounded too much for it."""
    coarse: Callable[[Point], bool] | None = getattr(risk, "is_coarse_at", None)
    return coarse is not None and coarse(point)


def gradient_of(regularizer: Regularizer, w: Vector) -> Vector | None:
    """Return the gradient of a regularizer, or None if it tells none."""
    gradient = getattr(regularizer, "gradient", None)
    return None if gradient is None else np.asarray(gradient(w))


def why_unproven(risk: Risk) -> str:
    """Return why a gap is no proof, as far as the risk has more to say than that."""
    return str(getattr(risk, "unproven", ""))


def files_of(risk: Risk) -> tuple[MappedFile, ...]:
    """Return the files that a risk reads its data from while it is evaluated."""
    return tuple(getattr(risk, "files", ()))


def change_of_data(risk: Risk, *, thorough: bool = False) -> str:
    """Return in one line which of its files has changed since the risk was made, or nothing."""
    changes = (file.change(thorough=thorough) for file in files_of(risk))
    return next(filter(None, changes), "")


def good_groups(risk: Risk) -> int:
    """Return how many groups should make a run the fastest; 1 if the risk cannot be split."""
    return int(getattr(risk, "good_groups", 1))


def as_rounded(risk: Risk) -> RoundedRisk | None:
    """Return a risk that computes with less precision than models are used with, or None."""
    return cast(RoundedRisk, risk) if getattr(risk, "rounded", False) else None


def as_grouped(risk: Risk) -> GroupedRisk:
    """Return a risk that is a sum over groups, or raise TypeError."""
    if not hasattr(risk, "group_bounds"):
        raise TypeError(
            f"{type(risk).__name__} has no method group_bounds(), which groups need; use groups=1"
        )
    return cast(GroupedRisk, risk)


def as_grouped_point(point: Point) -> GroupedPoint:
    """Return a point that knows the planes of its groups, or raise TypeError."""
    if not hasattr(point, "planes"):
        raise TypeError(
            f"{type(point).__name__} has no method planes(), which groups need; use groups=1"
        )
    return cast(GroupedPoint, point)


def along(segment: Segment, step: float, direction: Vector) -> tuple[float, float]:
    """Return value and slope of the risk on a ray, from its plane if the segment does not tell."""
    if hasattr(segment, "along"):
        return cast(SlopedSegment, segment).along(step)
    point = segment.at(step)
    return point.value, dot(point.plane().slope, direction)


def evaluated_once(risk: Risk, w: Vector) -> Point:
    """Evaluate a risk where no line search will begin, with less memory if it knows how."""
    once = getattr(risk, "evaluate_once", risk.at)
    point: Point = once(w)
    return point


def evaluated_again(risk: Risk, point: Point, regularizer: Regularizer) -> Point:
    """Evaluate a risk afresh where a point of it is; if it left bounds by rounding, inside them."""
    inside = getattr(regularizer, "inside", None)
    if inside is not None and (w := inside(point.w)) is not point.w:
        return evaluated_once(risk, w)
    again = getattr(risk, "evaluate_again", None)
    afresh: Point = again(point) if again else evaluated_once(risk, point.w)
    return afresh


def terms_at(point: Point) -> float:
    """Return the size of the terms that the risk is made of at a point, as far as they move it.

    A point may tell, by ``term_size``, of terms that cancel in its plane.
    """
    plane = point.plane()
    in_plane = abs(plane.offset) + dot(np.abs(plane.slope), np.abs(point.w))
    return max(in_plane, float(getattr(point, "term_size", 0.0)))
