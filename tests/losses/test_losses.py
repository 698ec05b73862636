"""Laws that every loss obeys. A new loss needs one line in `LOSSES`."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import cutplane.losses as losses_module
from cutplane.core.protocols import Quadratic
from cutplane.losses import (
    CLASSIFICATION,
    REGRESSION,
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Poisson,
    Quantile,
    SmoothHinge,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)

LOSSES = [
    Hinge(),
    SquaredHinge(),
    SmoothHinge(0.5),
    SmoothHinge(2.0),
    Logistic(),
    Exponential(),
    Squared(),
    Absolute(),
    Quantile(0.1),
    Quantile(0.9),
    EpsilonInsensitive(0.3),
    EpsilonInsensitive(0.0),
    SquaredEpsilonInsensitive(0.3),
    Huber(0.7),
    Poisson(),
]

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


class OnlyValues(Loss):
    """A loss as a user would write it: no conjugate, no search of its own."""

    task = "classification"

    def __call__(self, y, scores, weights):
        margins = y * scores
        return float(weights @ np.maximum(0.0, 1.0 - margins)), -weights * y * (margins < 1.0)


def sample(loss, seed, size=12):
    rng = np.random.default_rng(seed)
    if loss.task == "classification":
        y = np.where(np.arange(size) % 2 == 0, 1.0, -1.0)
    elif isinstance(loss, Poisson):
        y = rng.poisson(2.0, size).astype(float)
        y[0] = 1.0
    else:
        y = rng.normal(size=size).round(1)  # rounded: ties between residuals
    scores = rng.normal(scale=2.0, size=size).round(1)
    weights = rng.uniform(0.1, 1.0, size)
    weights[size // 2] = 0.0
    return y, scores, weights / weights.sum(), rng


@every_loss
@pytest.mark.parametrize("seed", range(5))
def test_slopes_are_derivatives(loss, seed):
    y, scores, weights, rng = sample(loss, seed)
    scores = scores + rng.uniform(0.01, 0.04, len(scores))  # away from kinks
    _, slopes = loss(y, scores, weights)
    h = 1e-6
    for i in range(len(y)):
        step = np.zeros(len(y))
        step[i] = h
        above, below = loss(y, scores + step, weights)[0], loss(y, scores - step, weights)[0]
        assert slopes[i] == pytest.approx((above - below) / (2 * h), abs=1e-7, rel=1e-6)


@every_loss
@given(seed=st.integers(0, 10**6))
def test_tangents_stay_below(loss, seed):
    y, scores, weights, rng = sample(loss, seed)
    value, slopes = loss(y, scores, weights)
    other = rng.normal(scale=3.0, size=len(y)).round(1)
    rounding = 1e-12 * (1.0 + abs(value))
    assert loss(y, other, weights)[0] >= value + slopes @ (other - scores) - rounding
    assert value >= loss.lower_bound


@every_loss
@given(seed=st.integers(0, 10**6))
def test_fenchel_young(loss, seed):
    y, scores, weights, rng = sample(loss, seed)
    value, slopes = loss(y, scores, weights)
    assert -loss.conjugate(y, slopes, weights) == pytest.approx(
        value - slopes @ scores, rel=1e-10, abs=1e-12
    )
    # Inequality for slopes that belong to other scores.
    _, others = loss(y, rng.normal(scale=2.0, size=len(y)), weights)
    assert value + loss.conjugate(y, others, weights) >= others @ scores - 1e-12 * (1 + abs(value))


@every_loss
def test_conjugate_is_infinite_outside_its_domain(loss):
    y, _, weights, _ = sample(loss, 0)
    bounded = not isinstance(loss, Squared | SquaredEpsilonInsensitive)
    too_steep = -1e3 * weights * (y if loss.task == "classification" else np.ones(len(y)))
    flipped = -too_steep
    steepest = max(loss.conjugate(y, too_steep, weights), loss.conjugate(y, flipped, weights))
    assert np.isinf(steepest) == bounded


@pytest.mark.parametrize("loss", [*LOSSES, OnlyValues()], ids=repr)
@given(
    seed=st.integers(0, 10**6),
    slope=st.floats(-3, 3),
    curvature=st.sampled_from([0.0, 1e-6, 0.1, 10.0]),
)
def test_minimum_along_a_ray(loss, seed, slope, curvature):
    y, scores, weights, rng = sample(loss, seed)
    direction = rng.normal(size=len(y)).round(1)
    if curvature == 0.0:
        slope = 0.0
    extra = Quadratic(slope, curvature)

    def total(k):
        value = loss(y, scores + k * direction, weights)[0]
        return value + slope * k + 0.5 * curvature * k * k

    step = loss.minimize_along(y, scores, direction, weights, extra)
    assert step >= 0.0
    here = total(step)
    if not np.isfinite(here):
        raise AssertionError(f"the loss is {here} at step {step}")
    reference = minimize_scalar(total, bounds=(0.0, 2.0 * step + 10.0), method="bounded")
    grid = min(total(k) for k in np.linspace(0.0, 2.0 * step + 1.0, 200))
    scale = abs(total(0.0)) + abs(slope * step) + 0.5 * curvature * step**2
    assert here <= min(reference.fun, grid, total(0.0)) + 1e-12 * (1.0 + scale)


@pytest.mark.parametrize("loss", [*LOSSES, OnlyValues()], ids=repr)
@given(seed=st.integers(0, 10**6))
def test_best_offset(loss, seed):
    y, scores, weights, rng = sample(loss, seed)
    best = loss.minimize_offset(y, scores, weights)
    grid = best.offset + np.concatenate([np.linspace(-20, 20, 101), np.linspace(-0.1, 0.1, 21)])
    rounding = 1e-12 * (1.0 + abs(best.value))
    assert best.value <= min(loss(y, scores + c, weights)[0] for c in grid) + rounding
    assert best.value == pytest.approx(loss(y, scores + best.offset, weights)[0], rel=1e-14)
    # The slopes sum to zero and belong to a tangent that stays below for all scores and offsets.
    slopes = loss.zero_sum_slopes(y, scores, best.offset, weights)
    assert abs(slopes.sum()) <= 1e-14 * max(1.0, np.abs(slopes).sum())
    tangent = loss.tangent_offset(y, scores + best.offset, slopes, weights)
    assert tangent == pytest.approx(
        loss.tangent_offset(y, scores, slopes, weights, value=best.value), rel=1e-11, abs=1e-12
    )
    assert tangent + slopes @ scores == pytest.approx(best.value, rel=1e-11, abs=1e-12)
    other = rng.normal(scale=2.0, size=len(y))
    assert loss(y, other, weights)[0] >= tangent + slopes @ other - rounding


@pytest.mark.parametrize("shift", [0.0, 433.6])
def test_slopes_too_small_to_be_multiplied_sum_to_zero(shift):
    y, weights = np.array([-1.0, 1.0]), np.array([0.485, 0.515])
    loss = Exponential()
    for margin in np.linspace(360.0, 745.0, 400):
        scores = margin * y + shift
        best = loss.minimize_offset(y, scores, weights)
        slopes = loss.zero_sum_slopes(y, scores, best.offset, weights)
        least = np.finfo(np.float64).smallest_subnormal
        assert abs(slopes.sum()) <= 1e-12 * np.abs(slopes).sum() + 100.0 * least


@every_loss
def test_zero_weight_is_no_example(loss):
    y, scores, weights, rng = sample(loss, 3)
    used = weights > 0.0
    direction = rng.normal(size=len(y))
    scores[~used] = 1e300  # even if its loss is infinite
    value, slopes = loss(y, scores, weights)
    assert value == pytest.approx(loss(y[used], scores[used], weights[used])[0], rel=1e-14)
    assert np.all(slopes[~used] == 0.0)
    extra = Quadratic(-0.1, 0.3)
    assert loss.minimize_along(y, scores, direction, weights, extra) == pytest.approx(
        loss.minimize_along(y[used], scores[used], direction[used], weights[used], extra), rel=1e-9
    )


@pytest.mark.parametrize("loss", [Hinge(), Absolute(), Quantile(0.25)], ids=repr)
def test_flat_stretch_of_offsets_gives_its_middle(loss):
    # Two examples with residuals -1 and 1: for the hinge and the median all offsets between are
    # optimal, and the middle one does not depend on the order or on repeated examples.
    y = np.array([1.0, -1.0]) if loss.task == "classification" else np.array([0.0, 2.0])
    for copies in (1, 2, 7):
        weights = np.full(2 * copies, 0.5 / copies)
        best = loss.minimize_offset(np.tile(y, copies), np.zeros(2 * copies), weights)
        expected = 0.0 if loss.task == "classification" else 1.0
        if isinstance(loss, Quantile):
            expected = 0.0
        assert best.offset == pytest.approx(expected, abs=1e-12)


@every_loss
def test_extreme_scores_give_no_nan(loss):
    y, _, weights, _ = sample(loss, 1)
    for scale in (1e-300, 1e8, 1e150):
        scores = scale * np.where(np.arange(len(y)) % 3 == 0, -1.0, 1.0)
        value, slopes = loss(y, scores, weights)
        assert not np.isnan(value)
        assert not np.isnan(slopes).any()


@every_loss
def test_pickles(loss):
    copy = pickle.loads(pickle.dumps(loss))
    y, scores, weights, _ = sample(loss, 2)
    assert copy(y, scores, weights)[0] == loss(y, scores, weights)[0]
    assert repr(copy) == repr(loss)


def test_probabilities():
    scores = np.array([-800.0, -1.0, 0.0, 1.0, 800.0])
    for loss in (Logistic(), Exponential()):
        p = loss.probability(scores)
        np.testing.assert_allclose(p + loss.probability(-scores), 1.0)
        assert p[2] == 0.5
        assert (np.diff(p) > 0).all()
    assert Hinge().probability(scores) is None


def test_targets_are_checked():
    with pytest.raises(ValueError, match="zero or positive"):
        Poisson().check_targets(np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match="above zero"):
        Poisson().check_targets(np.zeros(3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Quantile(0.0), "strictly between 0 and 1"),
        (lambda: Quantile(1.0), "strictly between 0 and 1"),
        (lambda: Huber(0.0), "delta must be positive"),
        (lambda: SmoothHinge(-1.0), "smoothing must be positive"),
        (lambda: EpsilonInsensitive(-0.1), "epsilon must be finite and not negative"),
        (lambda: SquaredEpsilonInsensitive(np.nan), "epsilon must be finite and not negative"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_registry_is_complete():
    tested = {type(loss) for loss in LOSSES}
    named = {*CLASSIFICATION.values(), *REGRESSION.values()}
    assert named == tested
    assert all(factory().task == "classification" for factory in CLASSIFICATION.values())
    assert all(factory().task == "regression" for factory in REGRESSION.values())
    assert {cls.__name__ for cls in named} <= set(losses_module.__all__)


@every_loss
@given(seed=st.integers(0, 10**6))
def test_curvatures_are_the_slopes_of_the_slopes(loss, seed):
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], 9) if loss.task == "classification" else rng.poisson(2.0, 9) + 0.5
    scores, weights = rng.normal(size=9), rng.random(9)
    step = 1e-6
    left, right = (loss.slopes(y, scores + move, weights) for move in (-step, step))
    got = loss.curvatures(y, scores, weights)
    # Where a part of a piece begins or ends inside the step, the difference says nothing.
    same = loss.curvatures(y, scores - step, weights) == pytest.approx(
        loss.curvatures(y, scores + step, weights), rel=1e-4
    )
    if same:
        smooth = np.abs(right - left) < 1e-3
        np.testing.assert_allclose(
            got[smooth], ((right - left) / (2 * step))[smooth], rtol=1e-4, atol=1e-8
        )


@every_loss
@pytest.mark.parametrize("width", [0.1, 2.0])
@pytest.mark.parametrize("score", [-2.3, -0.4, 0.2, 0.95, 1.7])
def test_smoothing_is_the_least_of_loss_and_distance(loss, width, score):
    y, weight = np.ones(1), np.ones(1)
    smooth = loss.smoothed(width)
    if smooth is loss:
        assert np.all(loss.curvatures(y, np.array([score]), weight) >= 0.0)
        return

    def there(u):
        return loss.value(y, np.array([u]), weight) + (score - u) ** 2 / (2.0 * width)

    between = minimize_scalar(there, bounds=(score - 5, score + 5), options={"xatol": 1e-10})
    kinks = [1.0, 0.7, 1.3]  # of all losses here, for a target of 1
    least = min(between.fun, *map(there, kinks))
    assert smooth.value(y, np.array([score]), weight) == pytest.approx(least, abs=1e-9)
    assert np.all(np.isfinite(smooth.curvatures(y, np.array([score]), weight)))


@pytest.mark.parametrize("count", [0.5, 2.0, 1e3])
@pytest.mark.parametrize("t", [-1e-4, 1e-4, 0.3, -0.6, 2.0])
def test_poisson_keeps_its_digits_near_its_minimum(count, t):
    y, scores = np.array([count]), np.log([count]) + t
    value, slopes, _ = Poisson().derivatives(y, scores)
    exact = np.longdouble(y), np.longdouble(scores), np.longdouble(slopes)
    count, z, q = (number[0] for number in exact)
    assert float(value[0]) == pytest.approx(
        float(np.exp(z) - count * z + count * np.log(count) - count), rel=1e-10
    )
    mean = q + count
    expected = mean * np.log(mean) - mean - count * np.log(count) + count
    assert Poisson().conjugates(y, slopes)[0] == pytest.approx(float(expected), rel=1e-10)
