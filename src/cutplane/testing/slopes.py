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
from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.risks.function import Function

STEPS = (0.0, 0.3, 1.0, 1.7)
"""Where rays are looked at."""

_MOST_COORDINATES = 100  # for which a wrong subgradient is looked into


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
    if len(v) > _MOST_COORDINATES:
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
