"""Check a loss of scores: value, slopes, conjugate, searches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.core.protocols import Quadratic
from cutplane.losses import Loss
from cutplane.testing.slopes import Report, Tried, check_convex, check_slopes


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
    tried = Tried(
        repr(loss),
        lambda z: loss(y, z, weights),
        places,
        1e-10,
        rng,
        subgradient="vector of slopes",
    )
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
