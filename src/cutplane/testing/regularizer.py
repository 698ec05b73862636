"""Check a regularizer: value and conjugate must belong together."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.core.needs import offers
from cutplane.testing.slopes import STEPS, Report, Tried, check_convex, check_slopes


def check_regularizer(
    regularizer: Any, n_parameters: int, *, scale: float = 1.0, n_trials: int = 20, seed: int = 0
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
    if offers(regularizer, "along"):
        for start, end in pairwise(attained):
            _check_ray(tried, regularizer, start, end)
        passed.append("along() is the value on a ray")
    return Report(tried.name, tuple(passed))


def _check_ray(tried: Tried, regularizer: Any, start: Vector, end: Vector) -> None:
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
