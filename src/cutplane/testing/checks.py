"""Checks of losses, regularizers and risks, and the tests that all checks share.

One inequality finds nearly all mistakes. For a convex function, a subgradient ``g`` at ``v`` and a
small step ``s``, the slope along the step lies between those on both sides:

    f(v) - f(v - s) <= g.s <= f(v + s) - f(v)

Where the function is smooth both sides are nearly equal, and this is a test by finite differences.
At a kink it still holds. It can be written so that the order of the sides does not matter,

    |g.s - (f(v + s) - f(v - s))/2| <= |f(v + s) + f(v - s) - 2 f(v)|/2,

which serves for smooth functions that are not convex, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.core.policies.bmrm import as_searchable
from cutplane.core.protocols import (
    GroupedPoint,
    Point,
    Quadratic,
    QuadraticRegularizer,
    Regularizer,
    Risk,
    SearchablePoint,
    is_risk,
)
from cutplane.losses import Loss
from cutplane.regularizers import L2
from cutplane.risks.composite import Function, FunctionRisk, SampleRisk, as_risk, name_of
from cutplane.solvers.bundle import bmrm
from cutplane.solvers.minimize import minimize

STEPS = (0.0, 0.3, 1.0, 1.7)
"""Where rays are looked at."""


@dataclass(frozen=True)
class Report:
    """What was checked, and what was found to be right about it.

    Attributes
    ----------
    subject : str
    passed : tuple of str
    """

    subject: str
    passed: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([self.subject, *(f"  ok: {check}" for check in self.passed)])


@dataclass(frozen=True)
class Tried:
    """A function to check: its name, how exact its values are, and where to try it."""

    name: str
    function: Function
    places: list[Vector]
    rounding: float
    rng: np.random.Generator
    subgradient: str = "subgradient"

    def noise(self, *terms: float) -> float:
        """Return the error that rounding may leave in a sum of these terms."""
        return self.rounding * sum(map(abs, terms))

    def require(self, condition: object, message: str) -> None:
        """Raise AssertionError unless the condition holds."""
        if not condition:
            raise AssertionError(f"{self.name}: {message}")


def check_slopes(tried: Tried) -> None:
    """Compare subgradients with finite differences, along a random direction at each place."""
    for v in tried.places:
        direction = tried.rng.normal(size=len(v))
        direction *= max(float(np.linalg.norm(v)), 1.0) / float(np.linalg.norm(direction))
        slopes = _Slopes.at(tried, v, direction)
        if slopes.agree:
            continue
        message = (
            f"the {tried.subgradient} is wrong: along a random direction the value changes at a "
            f"rate of {slopes.seen:.6g}, the {tried.subgradient} says {slopes.said:.6g}"
        )
        if abs(slopes.ratio + 1.0) < 1e-3:
            message += ". Is its sign wrong?"
        elif _has_ratio_everywhere(tried, slopes.ratio):
            message += f". Everywhere it is {slopes.ratio:.4g} times what it should be"
        else:
            message += _worst_coordinate(tried, v)
        tried.require(False, message)


class _Slopes(NamedTuple):
    """The slope along a direction: as the subgradient says, as seen, and how exactly."""

    said: float
    seen: float
    slack: float

    @classmethod
    def at(cls, tried: Tried, v: Vector, direction: Vector) -> _Slopes:
        size = float(np.sqrt(tried.rounding))
        value, subgradient = tried.function(v)
        after, before = (tried.function(v + sign * size * direction)[0] for sign in (1.0, -1.0))
        if not np.isfinite([value, after, before]).all():  # nothing can be seen there
            return cls(0.0, 0.0, np.inf)
        slack = abs(after + before - 2 * value) / 2 + tried.noise(value, after, before)
        return cls(float(subgradient @ direction), (after - before) / 2 / size, slack / size)

    @property
    def agree(self) -> bool:
        return abs(self.said - self.seen) <= self.slack

    @property
    def ratio(self) -> float:
        return self.said / self.seen if self.seen else np.nan


def _has_ratio_everywhere(tried: Tried, ratio: float) -> bool:
    if np.isnan(ratio):
        return False
    ratios = [_Slopes.at(tried, v, tried.rng.normal(size=len(v))).ratio for v in tried.places]
    return bool(np.allclose(ratios, ratio, rtol=0.1 * abs(1.0 - ratio)))


def _worst_coordinate(tried: Tried, v: Vector) -> str:
    if len(v) > 100:  # too many to look at each
        return ""
    found = [_Slopes.at(tried, v, row) for row in np.eye(len(v))]
    n_wrong = sum(not slopes.agree for slopes in found)
    j = int(np.argmax([abs(slopes.said - slopes.seen) - slopes.slack for slopes in found]))
    return (
        f". {n_wrong} of {len(v)} entries are wrong; entry {j} is {found[j].said:.6g}, not "
        f"{found[j].seen:.6g}"
    )


def check_convex(tried: Tried) -> None:
    """Compare values with chords and with tangents between random places."""
    for v, w in pairwise(tried.places):
        (here, slope), (there, _) = tried.function(v), tried.function(w)
        middle, _ = tried.function((v + w) / 2)
        if not np.isfinite([here, there]).all():
            continue
        tried.require(
            middle <= (here + there) / 2 + tried.noise(here, there, middle),
            f"not convex: between two points with values {here:.8g} and {there:.8g} it is "
            f"{middle:.8g}",
        )
        change = float(slope @ (w - v))
        tried.require(
            here + change <= there + tried.noise(here, there, change),
            f"a plane lies above the values: it says {here + change:.8g} at another point, where "
            f"the value is {there:.8g}. Not convex, or the {tried.subgradient} is wrong at kinks",
        )


def check_loss(loss: Loss, y: Vector | None = None, *, n_trials: int = 20, seed: int = 0) -> Report:
    """Check a loss of scores; return a report, or raise AssertionError if anything is wrong.

    Value and slopes must agree with each other and with finite differences, the loss must be convex
    and a sum over examples (unless it says that it is not ``additive``), not below its lower bound,
    and its conjugate, if it has one, the true one. The searches must find what is at least as low
    as what the check tries, but for the gain that the loss says it leaves (``search_slack``).

    Parameters
    ----------
    loss : Loss
        What to check.
    y : ndarray, optional
        Targets to try. By default -1 and 1, or numbers, or counts if the loss refuses numbers.
    n_trials : int
        Number of score vectors.
    seed : int
        Of the random scores.
    """
    if not isinstance(loss, Loss):
        raise TypeError(
            f"loss must be a Loss, got {loss!r}; losses of many classes are checked by "
            "check_risk(cp.ScoredRisk(...))"
        )
    rng = np.random.default_rng(seed)
    y = _targets(loss, rng) if y is None else np.asarray(y, dtype=np.float64)
    weights = _weights(loss, len(y), rng)
    places = [rng.normal(scale=2.0, size=len(y)) for _ in range(n_trials)]
    tried = Tried(repr(loss), lambda z: loss(y, z, weights), places, 1e-10, rng, "vector of slopes")
    check_slopes(tried)
    check_convex(tried)
    passed = ["slopes agree with finite differences", "convex: chords above, tangents below"]
    for z in places:
        _check_values(loss, tried, y, z, weights)
    passed += ["a weighted sum over examples"] * loss.additive
    passed.append(f"not below the lower bound {loss.lower_bound:g}")
    if _check_conjugate(loss, tried, y, weights):
        passed.append("the conjugate is that of the loss")
    _check_searches(loss, tried, y, weights)
    passed.append("searches find the minimum")
    return Report(tried.name, tuple(passed))


def _weights(loss: Loss, n_samples: int, rng: np.random.Generator) -> Vector:
    """Return weights that sum to one; equal ones if the loss refuses others."""
    weights = rng.uniform(0.1, 1.0, n_samples)
    try:
        loss.check_weights(weights)
    except ValueError:
        weights = np.ones(n_samples)
    weights /= weights.sum()
    return weights


def _targets(loss: Loss, rng: np.random.Generator) -> Vector:
    signs = np.where(np.arange(12) % 2 == 0, 1.0, -1.0)
    if loss.task == "classification":
        return signs
    numbers = rng.normal(size=12)
    try:
        loss.check_targets(numbers)
    except ValueError:
        return rng.poisson(2.0, 12) + 1.0 * (signs > 0)
    return numbers


def _check_values(loss: Loss, tried: Tried, y: Vector, z: Vector, weights: Vector) -> None:
    """Check a sample's loss at some scores against other ways to compute it, and the bound."""
    value, slopes = loss(y, z, weights)
    tried.require(
        abs(loss.value(y, z, weights) - value) <= tried.noise(value)
        and np.allclose(loss.slopes(y, z, weights), slopes, rtol=1e-9, atol=1e-12),
        "value() and slopes() differ from what the call returns",
    )
    bound = f"lower_bound is {loss.lower_bound:g}, but the loss of"
    tried.require(
        value >= loss.lower_bound - tried.noise(value), f"{bound} a sample is {value:.6g}"
    )
    if not loss.additive:
        return
    each = [loss(y[[i]], z[[i]], weights[[i]])[0] for i in range(len(y))]
    tried.require(
        abs(sum(each) - value) <= tried.noise(value, *each),
        f"the loss of a sample is {value:.8g}, the sum over its examples {sum(each):.8g}",
    )
    means = np.array(each) / weights
    i = int(np.argmin(means))
    tried.require(
        means[i] >= loss.lower_bound - tried.noise(means[i]),
        f"{bound} the score {z[i]:.6g} is {means[i]:.6g} where the target is {y[i]:.6g}",
    )


def _check_conjugate(loss: Loss, tried: Tried, y: Vector, weights: Vector) -> bool:
    """Check Fenchel's inequality, and equality where slopes belong to scores."""
    for z, other in pairwise(tried.places):
        (value, slopes), (there, _) = loss(y, z, weights), loss(y, other, weights)
        conjugate = loss.conjugate(y, slopes, weights)
        if conjugate is None:
            return False
        product, far = float(slopes @ z), float(slopes @ other)
        tried.require(
            abs(conjugate + value - product) <= tried.noise(conjugate, value, product),
            f"the conjugate is wrong: at the slopes of some scores it is {conjugate:.8g}, "
            f"slopes.z - loss is {product - value:.8g}",
        )
        tried.require(
            far - there <= conjugate + tried.noise(far, there, conjugate),
            f"Fenchel's inequality fails: the conjugate is {conjugate:.8g}, but slopes.z - loss is "
            f"{far - there:.8g} at other scores",
        )
    return True


def _check_searches(loss: Loss, tried: Tried, y: Vector, weights: Vector) -> None:
    """Check that what searches find is no higher than what is around it, or on the way."""
    extra = Quadratic(0.1, 0.5)

    def require_lowest(what: str, best: float, values: list[float], left: float = 0.0) -> None:
        found, possible = values[0], min(values[1:])
        tried.require(
            found <= possible + left + 100 * tried.noise(found, possible),
            f"{what} finds {found:.8g} at {best:.6g}, but {possible:.8g} is possible",
        )

    for z, other in pairwise(tried.places):
        direction = other - z
        step = loss.minimize_along(y, z, direction, weights, extra)
        values = [
            loss.value(y, z + k * direction, weights) + extra.slope * k + extra.curvature * k**2 / 2
            for k in (step, *np.linspace(0.0, 2.0, 21), 0.99 * step, 1.01 * step)
        ]
        left = loss.search_slack * (values[1] - values[0])
        require_lowest("minimize_along()", step, values, left)
        offset = loss.minimize_offset(y, z, weights).offset
        around = offset + np.array([0.0, -1.0, -1e-3, 1e-3, 1.0])
        values = [loss.value(y, z + c, weights) for c in around]
        require_lowest("minimize_offset()", offset, values)


def check_regularizer(
    regularizer: Regularizer,
    n_parameters: int,
    *,
    scale: float = 1.0,
    n_trials: int = 20,
    seed: int = 0,
) -> Report:
    """Check a regularizer; return a report, or raise AssertionError if anything is wrong.

    Its value and its conjugate must belong together.

    Parameters
    ----------
    regularizer : Regularizer
        What to check.
    n_parameters : int
        Length of the parameter vectors to try.
    scale : float
        Size of the dual vectors ``u`` to try, in each coordinate.
    n_trials : int
        Number of vectors.
    seed : int
        Of the random vectors.
    """
    rng = np.random.default_rng(seed)
    us = [scale * rng.normal(size=n_parameters) for _ in range(n_trials)]
    us = [u for u in us if np.isfinite(regularizer.conjugate(u)[0])]
    tried = Tried(repr(regularizer), regularizer.conjugate, us, 1e-10, rng)
    tried.require(len(us) > 1, "the conjugate is infinite at all u tried: choose another scale")
    conjugates, attained = zip(*map(regularizer.conjugate, us), strict=True)
    for u, w, conjugate in zip(us, attained, conjugates, strict=True):
        value, product = regularizer.value(w), float(u @ w)
        tried.require(
            np.isfinite(value), f"the value is {value} at the w that comes with the conjugate"
        )
        tried.require(
            abs(product - value - conjugate) <= tried.noise(product, value, conjugate),
            f"the conjugate is {conjugate:.8g}, but at the w that comes with it u.w - r(w) is "
            f"{product - value:.8g}",
        )
    for u, conjugate in zip(us, conjugates, strict=True):
        for w in [*attained, *(w + 0.1 * scale * rng.normal(size=n_parameters) for w in attained)]:
            value, product = regularizer.value(w), float(u @ w)
            tried.require(
                product - value <= conjugate + tried.noise(product, value, conjugate),
                f"Fenchel's inequality fails: r*(u) is {conjugate:.8g}, but there is a w with "
                f"u.w - r(w) = {product - value:.8g}",
            )
    as_function = replace(tried, name=f"{tried.name}: conjugate", subgradient="attaining w")
    check_slopes(as_function)
    check_convex(as_function)
    for w, v in pairwise(attained):
        middle, ends = regularizer.value((w + v) / 2), (regularizer.value(w), regularizer.value(v))
        tried.require(
            middle <= sum(ends) / 2 + tried.noise(*ends),
            f"not convex: {middle:.8g} in the middle between {ends[0]:.8g}, {ends[1]:.8g}",
        )
    passed = [
        "the conjugate is attained at the w that comes with it",
        "Fenchel's inequality",
        "that w is the derivative of the conjugate",
        "convex",
    ]
    if isinstance(regularizer, QuadraticRegularizer):
        for start, end in pairwise(attained):
            _check_ray(tried, regularizer, start, end)
        passed.append("along() is the value on a ray")
    return Report(tried.name, tuple(passed))


def _check_ray(tried: Tried, regularizer: QuadraticRegularizer, start: Vector, end: Vector) -> None:
    ray = regularizer.along(start, end)
    first, last = regularizer.value(start), regularizer.value(end)
    for k in STEPS:
        change = regularizer.value(start + k * (end - start)) - first
        described = ray.slope * k + ray.curvature * k**2 / 2
        # What is on the ray beyond where the value is finite does not matter.
        tried.require(
            not np.isfinite(change)
            or abs(change - described) <= tried.noise(first, last, described),
            f"along() says that the value changes by {described:.8g} from one point to another, "
            f"it changes by {change:.8g}",
        )


def check_risk(
    risk: Risk | Function,
    n_parameters: int | None = None,
    *,
    around: Vector | None = None,
    scale: float = 1.0,
    n_points: int = 20,
    rounding: float = 1e-10,
    seed: int = 0,
) -> Report:
    """Check a risk; return a report, or raise AssertionError if anything is wrong.

    It may also be a function ``w -> (value, subgradient)``. Values must be repeatable and not below
    the lower bound; planes must touch the risk, and have the slopes that finite differences show; a
    convex risk must lie above its planes and below its chords; segments and planes of groups must
    agree with the risk.

    Parameters
    ----------
    risk : Risk or callable
        What to check. A function is taken for convex: see `cutplane.FunctionRisk`.
    n_parameters : int, optional
        Number of parameters; needed for a function, unless ``around`` is given.
    around : ndarray, optional
        The middle of the places to try; zero by default.
    scale : float
        How far from it they are, in each coordinate.
    n_points : int
        Number of places. Each takes some ten evaluations.
    rounding : float
        Relative error that values may have; 1e-5 for a function that computes in float32.
    seed : int
        Of the random places.

    Examples
    --------
    >>> print(check_risk(lambda w: (abs(w).sum(), np.sign(w)), 5))
    the function
      ok: values are finite and repeatable
      ok: planes touch the risk
      ok: subgradients agree with finite differences
      ok: convex: chords above, planes below
      ok: no value seen below the lower bound -inf
    """
    name = _name_of(risk)
    risk = as_risk(risk, around if n_parameters is None else np.zeros(n_parameters))
    rng = np.random.default_rng(seed)
    center = np.zeros(risk.n_parameters) if around is None else np.asarray(around, dtype=np.float64)
    places = [center + scale * rng.normal(size=risk.n_parameters) for _ in range(n_points)]
    tried = Tried(name, lambda w: _value_and_slope(risk.at(w)), places, rounding, rng)

    points = [risk.at(w) for w in places]
    _check_repeatable(tried, risk, points)
    for point in points:
        _check_touch(tried, point)
    check_slopes(tried)
    passed = [
        "values are finite and repeatable",
        "planes touch the risk",
        "subgradients agree with finite differences",
    ]
    if risk.convex is not False:  # a function that says nothing is taken for convex
        check_convex(tried)
        passed.append("convex: chords above, planes below")
    _check_lower_bound(tried, risk, points, center, scale)
    passed.append(f"no value seen below the lower bound {risk.lower_bound:g}")
    searchable = [found for found in map(as_searchable, points) if found is not None]
    if len(searchable) == len(points):
        for start, end in pairwise(searchable):
            _check_segment(tried, risk, start, end)
        passed.append("segments agree with the risk")
    whole = isinstance(risk, SampleRisk) and not (risk.loss.additive and risk.convex)
    grouped = [point for point in points if isinstance(point, GroupedPoint)]
    if grouped and not whole:
        for point in grouped:
            _check_groups(tried, point)
        passed.append("planes of groups add up")
    return Report(name, tuple(passed))


def _name_of(risk: Risk | Function) -> str:
    if not is_risk(risk):
        return name_of(risk)
    words = repr(risk)
    return type(risk).__name__ if " object at 0x" in words else words


def _value_and_slope(point: Point) -> tuple[float, Vector]:
    return point.value, point.plane().slope


def _check_repeatable(tried: Tried, risk: Risk, points: list[Point]) -> None:
    before = risk.evaluations
    for point in points:
        tried.require(
            np.isfinite(point.value),
            f"the risk is {point.value} at a place that was tried; other places can be chosen by "
            "around and scale",
        )
        again = risk.at(point.w).value
        tried.require(
            abs(again - point.value) <= tried.noise(point.value),
            f"evaluated twice at the same point, it is first {point.value:.12g} and then "
            f"{again:.12g}",
        )
    tried.require(risk.evaluations > before, "evaluations does not count calls of at()")


def _check_touch(tried: Tried, point: Point) -> None:
    plane = point.plane()
    height, offset = float(plane.slope @ point.w), plane.offset
    tried.require(
        abs(height + offset - point.value) <= tried.noise(height, offset, point.value),
        f"a plane does not touch the risk: at its own point it is {height + offset:.8g} high, the "
        f"risk {point.value:.8g}. The offset is value - slope @ w",
    )


def _check_lower_bound(
    tried: Tried, risk: Risk, points: list[Point], center: Vector, scale: float
) -> None:
    """Look for values below the lower bound, also where a short run finds small ones."""
    lowest = min(point.value for point in points)
    if risk.convex is not False and risk.lower_bound > -np.inf:
        # Without the lower bound: a wrong one would mislead the run.
        free = FunctionRisk(tried.function, risk.n_parameters)
        steepest = max(float(np.linalg.norm(point.plane().slope)) for point in points)
        lam = max(steepest, 1e-6) / (10.0 * scale * np.sqrt(risk.n_parameters))
        run = minimize(
            free, L2(lam, center=center), method=bmrm(line_search=False), max_iter=2 * len(points)
        )
        if run.state.stopped:  # Ctrl-C, which ends the check as a whole
            raise KeyboardInterrupt
        lowest = min(lowest, run.point.value)
    tried.require(
        lowest >= risk.lower_bound - tried.noise(lowest, risk.lower_bound),
        f"lower_bound is {risk.lower_bound:g}, but a value of {lowest:.8g} was found",
    )


def _check_segment(tried: Tried, risk: Risk, start: SearchablePoint, end: SearchablePoint) -> None:
    segment = start.toward(end)
    for k in STEPS:
        w, point = start.w + k * (end.w - start.w), segment.at(k)
        tried.require(
            np.allclose(point.w, w, rtol=1e-9, atol=1e-12),
            f"a segment at step {k} is not at w0 + {k}*(w1 - w0)",
        )
        value = risk.at(w).value
        tried.require(
            abs(point.value - value) <= 10 * tried.noise(point.value, value),
            f"a segment is {point.value:.8g} at step {k}, the risk there {value:.8g}",
        )
    for extra in (Quadratic(0.0, 1.0), Quadratic(-1.0, 0.1)):
        step = segment.minimize(extra)
        tried.require(
            np.isfinite(step) and step >= 0.0,
            f"the best step of a segment is {step}, it must be finite and >= 0",
        )
        reached = segment.at(step).value + extra.slope * step + extra.curvature * step**2 / 2
        tried.require(
            # A poor step costs iterations, but no certificate is wrong because of it.
            reached <= start.value + 1e-3 * abs(start.value),
            f"a segment's best step leads up, from {start.value:.8g} to {reached:.8g}",
        )


def _check_groups(tried: Tried, point: GroupedPoint) -> None:
    plane, planes = point.plane(), point.planes(2)
    slope, offset = sum(part.slope for part in planes), sum(part.offset for part in planes)
    size = float(np.linalg.norm(plane.slope))
    tried.require(
        float(np.linalg.norm(slope - plane.slope)) <= 10 * tried.noise(size, 1.0)
        and abs(offset - plane.offset) <= 10 * tried.noise(offset, plane.offset, 1.0),
        "the planes of two groups do not add up to plane()",
    )
