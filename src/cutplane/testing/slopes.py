"""The tests that all checks share: is a subgradient right, and a function convex.

One inequality finds nearly all mistakes. For a convex function, a subgradient ``g`` at ``v`` and a
small step ``s``, the slope along the step lies between those on both sides:

    f(v) - f(v - s) <= g.s <= f(v + s) - f(v)

Where the function is smooth both sides are nearly equal, and this is a test by finite differences.
At a kink it still holds. It can be written so that the order of the sides does not matter,

    |g.s - (f(v + s) - f(v - s))/2| <= |f(v + s) + f(v - s) - 2 f(v)|/2,

which serves for smooth functions that are not convex, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cutplane.core.oracle import Function
from cutplane.core.protocols import Vector

_MOST_COORDINATES = 100  # for which a wrong subgradient is looked into


@dataclass(frozen=True)
class Report:
    """What was found to be right.

    Attributes
    ----------
    subject : str
        What was checked.
    passed : tuple of str
        What is right about it.
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


def require(condition: bool, message: str) -> None:
    """Raise AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def check_slopes(tried: Tried) -> None:
    """Compare subgradients with finite differences, along a random direction at each place."""
    for v in tried.places:
        direction = tried.rng.normal(size=len(v))
        direction *= max(float(np.linalg.norm(v)), 1.0) / float(np.linalg.norm(direction))
        wrong = _slope_by_differences(tried, v, direction)
        if wrong is None:
            continue
        said, seen = wrong
        message = (
            f"{tried.name}: the {tried.subgradient} is wrong: along a random direction the value "
            f"changes at a rate of {seen:.6g}, the {tried.subgradient} says {said:.6g}"
        )
        ratio = said / seen if seen else np.nan
        if abs(ratio + 1.0) < 1e-3:
            message += ". Is its sign wrong?"
        elif all(abs(ratio - _ratio_elsewhere(tried, w)) < 1e-3 * abs(ratio) for w in tried.places):
            message += f". Everywhere it is {ratio:.4g} times what it should be"
        else:
            message += _worst_coordinate(tried, v)
        raise AssertionError(message)


def _slope_by_differences(tried: Tried, v: Vector, direction: Vector) -> tuple[float, float] | None:
    """Return the slope that the subgradient says and the one seen, if they do not agree."""
    size = np.sqrt(tried.rounding)
    value, subgradient = tried.function(v)
    after, before = (tried.function(v + sign * size * direction)[0] for sign in (1.0, -1.0))
    if not np.isfinite([value, after, before]).all():
        return None
    said, seen = size * float(subgradient @ direction), (after - before) / 2
    kink = abs(after + before - 2 * value) / 2
    noise = tried.noise(value, after, before)
    return None if abs(said - seen) <= kink + noise else (said / size, seen / size)


def _ratio_elsewhere(tried: Tried, v: Vector) -> float:
    direction = tried.rng.normal(size=len(v))
    wrong = _slope_by_differences(tried, v, direction)
    return wrong[0] / wrong[1] if wrong and wrong[1] else np.nan


def _worst_coordinate(tried: Tried, v: Vector) -> str:
    if len(v) > _MOST_COORDINATES:
        return ""
    found = {j: _slope_by_differences(tried, v, row) for j, row in enumerate(np.eye(len(v)))}
    wrong = {j: slopes for j, slopes in found.items() if slopes}
    if not wrong:
        return ""
    j = max(wrong, key=lambda j: abs(wrong[j][0] - wrong[j][1]))
    said, seen = wrong[j]
    return f". {len(wrong)} of {len(v)} entries are wrong; entry {j} is {said:.6g}, not {seen:.6g}"


def check_convex(tried: Tried) -> None:
    """Compare values with chords and with tangents between random places."""
    for v, w in pairwise(tried.places):
        (here, slope), (there, _) = tried.function(v), tried.function(w)
        middle, _ = tried.function((v + w) / 2)
        if np.isfinite([here, there]).all():
            require(
                middle <= (here + there) / 2 + tried.noise(here, there, middle),
                f"{tried.name}: not convex: between two points with values {here:.8g} and "
                f"{there:.8g} it is {middle:.8g}",
            )
            change = float(slope @ (w - v))
            require(
                here + change <= there + tried.noise(here, there, change),
                f"{tried.name}: a plane lies above the values: it says {here + change:.8g} at "
                f"another point, where the value is {there:.8g}. Not convex, or the "
                f"{tried.subgradient} is wrong at kinks",
            )
