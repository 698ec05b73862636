"""Check a regularizer: value and conjugate must belong together."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from cutplane.testing.slopes import Report, Tried, check_convex, check_slopes, require

_STEPS = (0.0, 0.3, 1.0, 1.7)  # where rays are looked at


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
    name = repr(regularizer)
    us = [scale * rng.normal(size=n_parameters) for _ in range(n_trials)]
    us = [u for u in us if np.isfinite(regularizer.conjugate(u)[0])]
    require(len(us) > 1, f"{name}: the conjugate is infinite at all u tried: choose another scale")
    tried = Tried(name, regularizer.conjugate, us, 1e-10, rng)
    attained = []
    for u in us:
        conjugate, w = regularizer.conjugate(u)
        value, product = regularizer.value(w), float(u @ w)
        require(
            bool(np.isfinite(value)),
            f"{name}: the value is {value} at the w that comes with the conjugate",
        )
        require(
            abs(product - value - conjugate) <= tried.noise(product, value, conjugate),
            f"{name}: the conjugate is {conjugate:.8g}, but at the w that comes with it u.w - r(w) "
            f"is {product - value:.8g}",
        )
        attained.append(w)
    for u in us:
        conjugate, _ = regularizer.conjugate(u)
        for w in [*attained, *(w + 0.1 * scale * rng.normal(size=n_parameters) for w in attained)]:
            value, product = regularizer.value(w), float(u @ w)
            require(
                product - value <= conjugate + tried.noise(product, value, conjugate),
                f"{name}: Fenchel's inequality fails: r*(u) is {conjugate:.8g}, but there is a w "
                f"with u.w - r(w) = {product - value:.8g}",
            )
    conjugates = replace(tried, name=f"{name}: conjugate", subgradient="attaining w")
    check_slopes(conjugates)
    check_convex(conjugates)
    for w, v in pairwise(attained):
        middle, ends = regularizer.value((w + v) / 2), (regularizer.value(w), regularizer.value(v))
        require(
            middle <= sum(ends) / 2 + tried.noise(*ends),
            f"{name}: not convex: {middle:.8g} in the middle between {ends[0]:.8g}, {ends[1]:.8g}",
        )
    passed = [
        "the conjugate is attained at the w that comes with it",
        "Fenchel's inequality",
        "that w is the derivative of the conjugate",
        "convex",
    ]
    if hasattr(regularizer, "along"):
        for start, end in pairwise(attained):
            ray = regularizer.along(start, end)
            for k in _STEPS:
                reached = regularizer.value(start + k * (end - start))
                if not np.isfinite(reached):
                    continue  # what is on the ray beyond where the value is finite does not matter
                change = reached - regularizer.value(start)
                described = ray.slope * k + ray.curvature * k**2 / 2
                require(
                    abs(change - described)
                    <= tried.noise(regularizer.value(start), regularizer.value(end), described),
                    f"{name}: along() says that the value changes by {described:.8g} from one "
                    f"point to another, it changes by {change:.8g}",
                )
        passed.append("along() is the value on a ray")
    return Report(name, tuple(passed))
