"""Laws of losses that are not convex; searches and intercepts against brute force."""

import pickle

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import cutplane as cp
import cutplane.losses as losses_module
from cutplane.compute.threads import thread_limit
from cutplane.core.protocols import Quadratic
from cutplane.losses import ROBUST_CLASSIFICATION, ROBUST_REGRESSION
from cutplane.losses import bounded as bounded_search
from cutplane.losses.bounded_smooth import downhill
from cutplane.losses.loss import TiltedLoss

BROKEN = [
    cp.Ramp(),
    cp.Ramp(0.3),
    cp.Ramp(1.0),
    cp.ClippedAbsolute(),
    cp.ClippedAbsolute(0.7),
    cp.Hat(),
]
WITHOUT_OFFSETS = [cp.DoubleRamp(), cp.DoubleRamp(0.0), cp.DoubleRamp(0.8), cp.SmoothHat()]
ROUNDED = [cp.SmoothRamp(), cp.SmoothRamp(0.7, 1.5), cp.Tukey(), cp.Tukey(1.0)]
FORMULAS = {
    cp.Ramp: lambda loss, y, z: min(loss.clip, max(0.0, 1.0 - y * z)),
    cp.ClippedAbsolute: lambda loss, y, z: min(loss.clip, abs(z - y)),
    cp.Hat: lambda loss, y, z: max(0.0, 1.0 - abs(z)),
    cp.DoubleRamp: lambda loss, y, z: (
        # Two ramps of Collobert et al., one with each label, less a constant.
        sum(min(1.0 + loss.plateau, max(0.0, 1.0 - label * z)) for label in (-1.0, 1.0))
        - (1.0 + loss.plateau)
    ),
    cp.SmoothHat: lambda loss, y, z: np.exp(-3.0 * z * z),
    cp.SmoothRamp: lambda loss, y, z: _rounded(loss, y, z),
    cp.Tukey: lambda loss, y, z: (
        loss.width**2 / 6 * (1 - max(0.0, 1 - ((z - y) / loss.width) ** 2) ** 3)
    ),
}

every_loss = pytest.mark.parametrize("loss", [*BROKEN, *ROUNDED], ids=repr)
of_scores = pytest.mark.parametrize("loss", [*BROKEN, *ROUNDED, *WITHOUT_OFFSETS], ids=repr)
every_broken_line = pytest.mark.parametrize("loss", BROKEN, ids=repr)


def _rounded(loss, y, z):
    hinge = cp.SmoothHinge(loss.smoothing)
    at, one = np.array([y]), np.ones(1)
    near = hinge.value(at, np.array([z]), one)
    return near - hinge.value(at, np.array([z + y * loss.clip]), one)


def sample(loss, seed, size=12, digits=1):
    rng = np.random.default_rng(seed)
    if loss.task == "classification":
        y = rng.choice([-1.0, 1.0], size)
    else:
        y = rng.normal(size=size).round(digits)
    scores = rng.normal(scale=2.0, size=size).round(digits)
    weights = rng.uniform(0.1, 1.0, size)
    weights[rng.integers(size)] = 0.0
    return y, scores, weights / max(weights.sum(), 1e-9), rng


def corners_on(loss, y, scores, direction):
    """Return all steps at which an example is at a corner."""
    if isinstance(loss, cp.Ramp | cp.SmoothRamp):
        v, speed, corners = y * scores, y * direction, (1 - loss.clip, 1.0)
    elif isinstance(loss, cp.ClippedAbsolute):
        v, speed, corners = scores - y, direction, (-loss.clip, 0.0, loss.clip)
    else:
        v, speed, corners = scores, direction, (-1.0, 0.0, 1.0)
    moves = speed != 0.0
    return np.concatenate([(corner - v[moves]) / speed[moves] for corner in corners])


@of_scores
@pytest.mark.parametrize("seed", range(5))
def test_value_is_the_formula(loss, seed):
    y, scores, weights, _ = sample(loss, seed)
    formula = FORMULAS[type(loss)]
    expected = sum(w * formula(loss, t, z) for w, t, z in zip(weights, y, scores, strict=True))
    assert loss.value(y, scores, weights) == pytest.approx(expected, rel=1e-12, abs=1e-14)


@of_scores
@pytest.mark.parametrize("seed", range(5))
def test_slopes_are_derivatives(loss, seed):
    y, scores, weights, rng = sample(loss, seed)
    scores = scores + rng.uniform(0.01, 0.04, len(scores))  # away from corners
    _, slopes = loss(y, scores, weights)
    h = 1e-6
    for i in range(len(y)):
        step = h * (np.arange(len(y)) == i)
        above, below = loss.value(y, scores + step, weights), loss.value(y, scores - step, weights)
        assert slopes[i] == pytest.approx((above - below) / (2 * h), abs=1e-7, rel=1e-5)


@of_scores
@given(seed=st.integers(0, 10**6))
def test_values_are_bounded(loss, seed):
    y, scores, weights, _ = sample(loss, seed)
    with np.errstate(over="ignore"):
        for scale in (1.0, 1e-300, 1e8, 1e150):
            value, slopes = loss(y, scale * scores, weights)
            top = getattr(loss, "clip", getattr(loss, "width", 2.5) ** 2 / 6 + 1.0)
            assert loss.lower_bound <= value <= top * weights.sum() * (1 + 1e-12)
            assert np.isfinite(slopes).all()


def test_the_hat_has_a_slope_at_its_top():
    slopes = cp.Hat().slopes(np.ones(3), np.array([-0.5, 0.0, 0.5]), np.ones(3))
    np.testing.assert_array_equal(np.abs(slopes), 1.0)


@every_broken_line
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 30),
    slope=st.floats(-3, 3),
    curvature=st.sampled_from([0.0, 1e-6, 0.1, 10.0]),
    digits=st.sampled_from([0, 1, 8]),
    bins=st.sampled_from([1, 4, 1024]),
)
@example(seed=0, size=1, slope=0.0, curvature=0.0, digits=0, bins=1)
def test_the_lowest_step_of_a_ray(loss, seed, size, slope, curvature, digits, bins):
    y, scores, weights, rng = sample(loss, seed, size, digits)
    direction = rng.normal(size=size).round(digits)
    direction[rng.random(size) < 0.2] = 0.0
    if curvature == 0.0:
        slope = abs(slope) if seed % 2 else 0.0

    def total(k):
        value = loss.value(y, scores + k * direction, weights)
        return value + slope * k + 0.5 * curvature * k * k

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded_search, "_N_BINS", bins)
        step = loss.minimize_along(y, scores, direction, weights, Quadratic(slope, curvature))
    assert step >= 0.0
    # The function is a parabola, or a line, between two corners.
    at = corners_on(loss, y, scores, direction)
    at = np.unique(np.concatenate([[0.0], at[at > 0.0]]))
    ends = np.append(at[1:], at[-1] + 1.0)
    tried = [*at, *(0.5 * (at + ends))]
    if curvature > 0.0:
        for begin, end in zip(at, ends, strict=True):
            third = (end - begin) / 3.0
            rise = (total(begin + 2 * third) - total(begin + third)) / third
            stop = begin + 1.5 * third - rise / curvature  # where the parabola is flat
            tried += [stop] if begin < stop and (stop < end or end == ends[-1]) else []
    lowest = min(map(total, tried))
    assert total(step) <= lowest + 1e-9 * (1.0 + abs(lowest))


@every_broken_line
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 30),
    digits=st.sampled_from([0, 1, 8]),
    bins=st.sampled_from([1, 4, 1024]),
)
def test_the_best_offset(loss, seed, size, digits, bins):
    y, scores, weights, _ = sample(loss, seed, size, digits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded_search, "_N_BINS", bins)
        best = loss.minimize_offset(y, scores, weights)
    at = corners_on(loss, y, scores, np.ones(size))
    tried = [loss.value(y, scores + c, weights) for c in (*at, at.min() - 1.0, at.max() + 1.0)]
    assert best.value <= min(tried) + 1e-12
    assert best.value == loss._value_at(y, scores, best.offset, weights)


@every_loss
def test_no_event_at_all(loss):
    y, scores, weights, _ = sample(loss, 1)
    still = np.zeros_like(scores)
    assert loss.minimize_along(y, scores, still, weights, Quadratic(0.0, 0.0)) == 0.0
    assert loss.minimize_along(y, scores, still, weights, Quadratic(1.0, 0.0)) == 0.0
    step = loss.minimize_along(y, scores, still, weights, Quadratic(-1.0, 2.0))
    assert step == pytest.approx(0.5, rel=1e-3)
    nothing = np.zeros_like(scores)
    assert np.isfinite(loss.minimize_offset(y, scores, nothing).offset)


@every_broken_line
def test_many_examples_and_any_number_of_threads(loss):
    y, scores, weights, rng = sample(loss, 5, 150_000, digits=8)
    direction = rng.normal(size=len(y))
    extra = Quadratic(-0.01, 1e-3)
    results = []
    for n_threads in (1, 2):
        with thread_limit(n_threads):
            results.append(
                (
                    loss.minimize_along(y, scores, direction, weights, extra),
                    loss.minimize_offset(y, scores, weights),
                )
            )
    assert results[0] == results[1]
    step, best = results[0]

    def total(k):
        value = loss.value(y, scores + k * direction, weights)
        return value + extra.slope * k + 0.5 * extra.curvature * k * k

    assert total(step) <= min(map(total, np.linspace(0.0, 2.0 * step + 1.0, 200))) + 1e-12
    offsets = np.linspace(-10.0, 10.0, 200)
    assert best.value <= min(loss.value(y, scores + c, weights) for c in offsets) + 1e-12


@every_loss
@given(seed=st.integers(0, 10**6))
def test_slopes_at_the_best_offset_are_those_of_the_minimum(loss, seed):
    y, scores, weights, rng = sample(loss, seed, 15, digits=8)
    best = loss.at_best_offset(y, scores, weights, None)
    slopes = loss.slopes_at(y, scores, weights, best)
    assert abs(slopes.sum()) <= 1e-9 * max(1.0, np.abs(slopes).sum())
    direction, h = rng.normal(size=15), 1e-7
    right = loss.minimize_offset(y, scores + h * direction, weights)
    left = loss.minimize_offset(y, scores - h * direction, weights)
    # Where the best offset jumps, or a corner is inside the step, the difference says nothing.
    if max(abs(right.offset - best.offset), abs(left.offset - best.offset)) < 100 * h and (
        abs((right.value - best.value) - (best.value - left.value)) < 1e-3 * h
    ):
        derivative = (right.value - left.value) / (2 * h)
        assert slopes @ direction == pytest.approx(derivative, abs=2e-3)


@pytest.mark.parametrize("loss", ROUNDED, ids=repr)
@given(seed=st.integers(0, 10**6), slope=st.floats(-1, 1))
def test_rounded_losses_are_searched_downhill(loss, seed, slope):
    y, scores, weights, rng = sample(loss, seed)
    direction = rng.normal(size=len(y))
    extra = Quadratic(slope, 0.1)

    def total(k):
        value, along = loss(y, scores + k * direction, weights)
        return value + slope * k + 0.05 * k * k, along @ direction + slope + 0.1 * k

    step = loss.minimize_along(y, scores, direction, weights, extra)
    (begin, falling), (value, rest) = total(0.0), total(step)
    assert value <= begin
    if step > 0.0:
        assert abs(rest) <= 2e-3 * abs(falling) + 1e-6


@pytest.mark.parametrize("loss", ROUNDED, ids=repr)
@given(seed=st.integers(0, 10**6))
def test_rounded_losses_have_an_offset_that_is_locally_best(loss, seed):
    y, scores, weights, _ = sample(loss, seed)
    best = loss.minimize_offset(y, scores, weights)
    near = best.offset + np.linspace(-1e-3, 1e-3, 21)
    assert best.value <= min(loss.value(y, scores + c, weights) for c in near) + 1e-12
    assert loss.at_best_offset(y, scores, weights, 0.7) == best  # whatever the guess


def test_downhill_stays_where_nothing_falls():
    assert downhill(lambda k: (k, 1.0), 1.0, enough=0.1) == 0.0


@every_loss
def test_zero_weight_is_no_example(loss):
    y, scores, weights, rng = sample(loss, 3)
    used = weights > 0.0
    scores[~used] = 1e100
    direction = rng.normal(size=len(y))
    value, slopes = loss(y, scores, weights)
    assert value == pytest.approx(loss.value(y[used], scores[used], weights[used]), rel=1e-14)
    assert np.all(slopes[~used] == 0.0)
    extra = Quadratic(-0.1, 0.3)
    assert loss.minimize_along(y, scores, direction, weights, extra) == pytest.approx(
        loss.minimize_along(y[used], scores[used], direction[used], weights[used], extra), rel=1e-9
    )


def test_a_flat_stretch_of_offsets_gives_its_middle():
    loss = cp.ClippedAbsolute(5.0)
    for copies in (1, 2, 7):
        y = np.tile([0.0, 2.0], copies)
        best = loss.minimize_offset(y, np.zeros(2 * copies), np.full(2 * copies, 0.5 / copies))
        assert best.offset == pytest.approx(1.0, abs=1e-12)


@of_scores
def test_pickles(loss):
    copy = pickle.loads(pickle.dumps(loss))
    y, scores, weights, _ = sample(loss, 2)
    assert copy.value(y, scores, weights) == loss.value(y, scores, weights)
    assert repr(copy) == repr(loss)


@pytest.mark.parametrize("make", [cp.Ramp, cp.SmoothRamp, cp.ClippedAbsolute, cp.Tukey])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_bad_parameters(make, value):
    with pytest.raises(ValueError, match="must be positive and finite"):
        make(value)


@of_scores
@given(seed=st.integers(0, 10**6))
@example(seed=0)
def test_what_lies_above_a_loss(loss, seed):
    y, scores, weights, rng = sample(loss, seed, digits=1)  # often at corners
    y = loss.targets(y, len(y), weights)
    above = TiltedLoss.above(loss, y, scores, 0.0, weights)
    assert above.convex
    assert above.lower_bound == loss.lower_bound
    at = above.value(y, scores, weights)
    assert at == pytest.approx(loss.value(y, scores, weights), abs=1e-12)
    middle, slopes = scores + 0.3, above.slopes(y, scores + 0.3, weights)
    value = above.value(y, middle, weights)
    tangent = above.tangent_offset(y, middle, slopes, weights)
    for _ in range(10):
        other = scores + rng.normal(scale=rng.choice([0.1, 1.0, 5.0]), size=len(y))
        height = above.value(y, other, weights)
        assert height >= loss.value(y, other, weights) - 1e-12
        # It is convex: above its tangents, also through the conjugate.
        assert height >= value + slopes @ (other - middle) - 1e-12
        assert height >= slopes @ other + tangent - 1e-10
        step = above.minimize_along(y, scores, other - scores, weights, Quadratic(0.1, 0.3))

        def total(k, way=other - scores):
            return above.value(y, scores + k * way, weights) + 0.1 * k + 0.15 * k * k

        assert total(step) <= min(map(total, np.linspace(0.0, 2.0 * step + 1.0, 30))) + 1e-6


def test_what_lies_above_knows_all_examples_together():
    above = TiltedLoss.above(cp.Ramp(), np.ones(3), np.arange(-3.0, 0.0), 0.0, np.full(3, 1 / 3))
    with pytest.raises(ValueError, match="all examples together"):
        above.part(np.arange(2))


def test_registries():
    classify, regress = ROBUST_CLASSIFICATION.values(), ROBUST_REGRESSION.values()
    assert all(make().task == "classification" for make in classify)
    assert all(make().task == "regression" for make in regress)
    for make in (*classify, *regress):
        loss = make()
        assert make.__name__ in losses_module.__all__
        assert not loss.convex
        assert loss.convex_twin.convex
        assert loss.convex_twin.task == loss.task
        assert "not convex" in loss.unproven


@pytest.mark.parametrize("loss", [*BROKEN, *ROUNDED], ids=repr)
@pytest.mark.parametrize("method", [cp.newton, cp.dual_ascent, lambda: cp.bmrm(groups=2)])
def test_methods_for_convex_risks_refuse(loss, method):
    X = np.random.default_rng(0).normal(size=(20, 3))
    risk = cp.ScoredRisk(X, np.sign(X[:, 0]), loss)
    with pytest.raises(ValueError, match="need") as refused:
        cp.minimize(risk, cp.L2(0.1), method=method())
    assert "\n" not in str(refused.value)
