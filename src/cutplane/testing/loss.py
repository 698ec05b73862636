"""Check a loss of scores: value, slopes, conjugate, searches."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.core.protocols import Quadratic
from cutplane.losses import Loss
from cutplane.testing.slopes import Report, Tried, check_convex, check_slopes, require


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
    name = repr(loss)
    places = [rng.normal(scale=2.0, size=len(y)) for _ in range(n_trials)]
    tried = Tried(name, lambda z: loss(y, z, weights), places, 1e-10, rng, subgradient="slopes")

    check_slopes(tried)
    check_convex(tried)
    passed = ["slopes agree with finite differences", "convex: chords above, tangents below"]
    for z in places:
        value, slopes = loss(y, z, weights)
        require(
            abs(loss.value(y, z, weights) - value) <= tried.noise(value)
            and np.allclose(loss.slopes(y, z, weights), slopes, rtol=1e-9, atol=1e-12),
            f"{name}: value() and slopes() differ from what the call returns",
        )
        require(
            value >= loss.lower_bound - tried.noise(value),
            f"{name}: lower_bound is {loss.lower_bound:g}, but the loss of a sample is {value:.6g}",
        )
        if not loss.additive:
            continue
        each = [loss(y[[i]], z[[i]], weights[[i]])[0] for i in range(len(y))]
        require(
            abs(sum(each) - value) <= tried.noise(value, *each),
            f"{name}: the loss of a sample is {value:.8g}, the sum over its examples "
            f"{sum(each):.8g}",
        )
        means = np.array(each) / weights
        i = int(np.argmin(means))
        require(
            means[i] >= loss.lower_bound - tried.noise(means[i]),
            f"{name}: lower_bound is {loss.lower_bound:g}, but the loss of the score {z[i]:.6g} is "
            f"{means[i]:.6g} where the target is {y[i]:.6g}",
        )
    passed += ["a weighted sum over examples"] * loss.additive
    passed.append(f"not below the lower bound {loss.lower_bound:g}")
    if _check_conjugate_of(loss, tried, y, weights):
        passed.append("the conjugate is that of the loss")
    _check_searches(loss, tried, y, weights)
    passed.append("searches find the minimum")
    return Report(name, tuple(passed))


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


def _check_conjugate_of(loss: Loss, tried: Tried, y: Vector, weights: Vector) -> bool:
    """Check Fenchel's inequality, and equality where slopes belong to scores."""
    for z, other in pairwise(tried.places):
        (value, slopes), (there, _) = loss(y, z, weights), loss(y, other, weights)
        conjugate = loss.conjugate(y, slopes, weights)
        if conjugate is None:
            return False
        product, far = float(slopes @ z), float(slopes @ other)
        require(
            abs(conjugate + value - product) <= tried.noise(conjugate, value, product),
            f"{tried.name}: the conjugate is wrong: at the slopes of some scores it is "
            f"{conjugate:.8g}, slopes.z - loss is {product - value:.8g}",
        )
        require(
            far - there <= conjugate + tried.noise(far, there, conjugate),
            f"{tried.name}: Fenchel's inequality fails: the conjugate is {conjugate:.8g}, but "
            f"slopes.z - loss is {far - there:.8g} at other scores",
        )
    return True


def _check_searches(loss: Loss, tried: Tried, y: Vector, weights: Vector) -> None:
    extra = Quadratic(0.1, 0.5)

    def reached(
        value_at: Callable[[float], float],
        best: float,
        others: Vector,
        what: str,
        *,
        search_slack: float = 0.0,
    ) -> None:
        lowest, seen = value_at(best), min(map(value_at, others))
        left = search_slack * (value_at(0.0) - lowest) if search_slack else 0.0
        require(
            lowest <= seen + left + 100 * tried.noise(lowest, seen),
            f"{tried.name}: {what} finds {lowest:.8g} at {best:.6g}, but {seen:.8g} is possible",
        )

    for z, other in pairwise(tried.places):
        direction = other - z
        step = loss.minimize_along(y, z, direction, weights, extra)
        reached(
            lambda k, z=z, direction=direction: (  # type: ignore[misc]
                loss.value(y, z + k * direction, weights)
                + extra.slope * k
                + extra.curvature * k**2 / 2
            ),
            step,
            np.append(np.linspace(0.0, 2.0, 21), step * np.array([0.99, 1.01])),
            "minimize_along()",
            search_slack=loss.search_slack,
        )
        offset = loss.minimize_offset(y, z, weights).offset
        reached(
            lambda c, z=z: loss.value(y, z + c, weights),  # type: ignore[misc]
            offset,
            offset + np.array([-1.0, -1e-3, 1e-3, 1.0]),
            "minimize_offset()",
        )
