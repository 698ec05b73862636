"""Losses for measures of a whole sample: definitions by brute force, and the laws of planes."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.compute.threads import thread_limit
from cutplane.core.protocols import Quadratic
from cutplane.core.search import minimize_on_ray
from cutplane.losses import (
    MEASURES,
    BreakEven,
    ErrorRate,
    FBeta,
    Hinge,
    PrecisionAtK,
    RecallAtK,
    ROCArea,
)
from cutplane.losses.loss import AtBestOffset

from . import brute_force

LOSSES = [
    ErrorRate(),
    FBeta(1.0),
    FBeta(0.3),
    FBeta(3.0),
    PrecisionAtK(1),
    PrecisionAtK(0.3),
    PrecisionAtK(0.8),
    RecallAtK(1),
    RecallAtK(0.3),
    RecallAtK(0.8),
    BreakEven(),
    ROCArea(),
]
TAKES_OFFSET = [loss for loss in LOSSES if not loss.of_differences]
OF_DIFFERENCES = [loss for loss in LOSSES if loss.of_differences]

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


@st.composite
def samples(draw, most=9):
    """Labels and scores of few examples: of one class or two, with and without ties."""
    size = draw(st.integers(1, most))
    y = draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=size, max_size=size))
    digits, spread = draw(st.sampled_from([(0, 1.0), (1, 1.0), (9, 0.3), (9, 5.0)]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    scores = rng.normal(scale=spread, size=size).round(digits) + draw(st.sampled_from([0, 0, 7.5]))
    return np.array(y), scores, np.full(size, 1.0 / size), rng


def big_sample(seed=0, size=70_000, positives=0.1):
    """Return a sample that is long enough for threads."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(size) < positives, 1.0, -1.0)
    return y, rng.normal(size=size) + 0.7 * y, np.full(size, 1.0 / size)


def rounding(*numbers):
    return 1e-12 * (1.0 + max(np.abs(number).max() for number in numbers))


@every_loss
@given(sample=samples(most=12))
def test_value_is_the_worst_of_all_labelings(loss, sample):
    y, scores, weights, _ = sample
    expected = brute_force.value(loss, y, scores, weights)
    value, slopes = loss(y, scores, weights)
    assert value == pytest.approx(expected, rel=1e-12, abs=rounding(scores))
    assert loss.value(y, scores, weights) == pytest.approx(value, rel=1e-14)
    np.testing.assert_array_equal(loss.slopes(y, scores, weights), slopes)
    assert value >= loss.lower_bound


@every_loss
@given(sample=samples())
def test_it_bounds_the_measure_of_the_predictions(loss, sample):
    y, scores, weights, _ = sample
    value = loss.value(y, scores, weights)
    assert value >= brute_force.delta(loss, y, scores) - rounding(scores)


@every_loss
@given(sample=samples())
def test_tangents_touch_and_stay_below(loss, sample):
    y, scores, weights, rng = sample
    value = loss.value(y, scores, weights)
    slopes, offset = loss.tangent(y, scores, weights, AtBestOffset(None, value))
    np.testing.assert_allclose(slopes, loss(y, scores, weights)[1], rtol=1e-14)
    assert offset + slopes @ scores == pytest.approx(value, rel=1e-12, abs=rounding(scores))
    for spread in (0.5, 5.0):
        other = rng.normal(scale=spread, size=len(y)).round(1)
        below = brute_force.value(loss, y, other, weights)
        assert offset + slopes @ other <= below + rounding(other, scores)


@given(sample=samples(), beta=st.floats(0.05, 20.0))
def test_f_measure_for_any_beta(sample, beta):
    y, scores, weights, _ = sample
    loss = FBeta(beta)
    expected = brute_force.value(loss, y, scores, weights)
    assert loss.value(y, scores, weights) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@given(sample=samples())
def test_error_rate_is_the_hinge(sample):
    y, scores, weights, _ = sample
    hinge = float(np.mean(np.maximum(0.0, 1.0 - y * scores)))
    assert ErrorRate().value(y, scores, weights) == pytest.approx(hinge, rel=1e-12, abs=1e-12)
    assert brute_force.value(ErrorRate(), y, scores, weights) == pytest.approx(
        hinge, rel=1e-12, abs=1e-12
    )
    assert isinstance(ErrorRate(), Hinge)


@given(sample=samples())
def test_at_k_positives_precision_recall_and_break_even_are_the_same(sample):
    y, scores, weights, _ = sample
    n_positive = int((y > 0).sum())
    expected = BreakEven()(y, scores, weights)
    if n_positive:
        for loss in (PrecisionAtK(n_positive), RecallAtK(n_positive)):
            value, slopes = loss(y, scores, weights)
            assert value == expected[0]
            np.testing.assert_array_equal(slopes, expected[1])


@pytest.mark.parametrize("loss", TAKES_OFFSET, ids=repr)
@given(sample=samples())
def test_minimum_over_the_intercept(loss, sample):
    y, scores, weights, rng = sample
    best = loss.minimize_offset(y, scores, weights)
    small = rounding(scores, best.offset)
    assert best.value == pytest.approx(
        brute_force.value(loss, y, scores + best.offset, weights), abs=small
    )
    for shift in (*np.linspace(-9.0, 9.0, 37), -1e-3, 1e-3, -1e-7, 1e-7):
        there = brute_force.value(loss, y, scores + best.offset + shift, weights)
        assert best.value <= there + small
    # One tangent for all intercepts: its slopes sum to zero, it touches, and stays below.
    slopes, offset = loss.tangent(y, scores, weights, best)
    assert abs(slopes.sum()) <= 1e-14 * max(1.0, np.abs(slopes).sum())
    assert offset + slopes @ scores == pytest.approx(best.value, abs=10 * small)
    other = rng.normal(scale=3.0, size=len(y)).round(1)
    assert offset + slopes @ other <= brute_force.value(loss, y, other, weights) + small
    balanced = loss.zero_sum_slopes(y, scores, best.offset, weights)
    assert abs(balanced.sum()) <= 1e-14 * max(1.0, np.abs(balanced).sum())


@pytest.mark.parametrize("loss", TAKES_OFFSET, ids=repr)
@given(sample=samples(), shift=st.floats(-20.0, 20.0))
def test_best_intercept_does_not_depend_on_where_the_search_begins(loss, sample, shift):
    y, scores, weights, _ = sample
    if abs(y.sum()) == len(y):
        return  # of one class any large enough intercept is best
    here = loss.minimize_offset(y, scores, weights)
    there = loss.minimize_offset(y, scores + shift, weights)
    assert there.value == pytest.approx(here.value, abs=1e-11)
    assert there.offset + shift == pytest.approx(here.offset, abs=1e-9)


@pytest.mark.parametrize("loss", OF_DIFFERENCES, ids=repr)
@given(sample=samples(), shift=st.integers(-64, 64))
def test_a_constant_changes_nothing(loss, sample, shift):
    y, scores, weights, _ = sample
    value, slopes = loss(y, scores, weights)
    assert loss.value(y, scores + shift, weights) == pytest.approx(value, abs=1e-11)
    assert abs(slopes.sum()) <= 1e-13


@every_loss
@given(sample=samples(), curvature=st.sampled_from([1e-3, 0.1, 10.0]))
def test_search_gains_nearly_as_much_as_the_best_step(loss, sample, curvature):
    y, scores, weights, rng = sample
    direction = rng.normal(size=len(y)).round(1)
    extra = Quadratic(0.0, curvature)

    def total(k):
        return loss.value(y, scores + k * direction, weights) + 0.5 * curvature * k * k

    step = loss.minimize_along(y, scores, direction, weights, extra)
    exact = minimize_on_ray(
        lambda k: (
            (here := loss(y, scores + k * direction, weights))[0],
            float(here[1] @ direction),
        ),
        extra,
    )
    gained, possible = total(0.0) - total(step), total(0.0) - total(exact)
    assert step >= 0.0
    assert gained >= possible / (1.0 + loss.search_slack) - 1e-12


@every_loss
@given(sample=samples(), copies=st.integers(1, 4))
def test_examples_without_weight_are_none(loss, sample, copies):
    y, scores, weights, rng = sample
    at = rng.integers(0, len(y), copies)
    with_others = [np.insert(values, at, extra) for values, extra in ((y, 1.0), (scores, -9.0))]
    weighted = np.insert(weights, at, 0.0)
    value, slopes = loss(y, scores, weights)
    got, got_slopes = loss(*with_others, weighted)
    assert got == pytest.approx(value, rel=1e-13, abs=1e-15)
    np.testing.assert_allclose(got_slopes[weighted > 0.0], slopes, rtol=1e-13)
    assert np.all(got_slopes[weighted == 0.0] == 0.0)


@given(sample=samples(), seed=st.integers(0, 1000))
def test_weights_of_pairs_are_products(sample, seed):
    y, scores, _, rng = sample
    copies = np.random.default_rng(seed).integers(0, 4, len(y))
    copies[rng.integers(len(y))] += 1
    weights = copies / copies.sum()
    value, slopes = ROCArea()(y, scores, weights)
    used = copies > 0
    assert value == pytest.approx(
        brute_force.value(ROCArea(), y[used], scores[used], weights[used]), rel=1e-12, abs=1e-13
    )
    repeated = [np.repeat(values, copies) for values in (y, scores)]
    equal = np.full(copies.sum(), 1.0 / copies.sum())
    copied, copied_slopes = ROCArea()(*repeated, equal)
    assert value == pytest.approx(copied, rel=1e-12, abs=1e-13)
    summed = np.zeros(len(y))
    np.add.at(summed, np.repeat(np.arange(len(y)), copies), copied_slopes)
    np.testing.assert_allclose(slopes, summed, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e12])
def test_scores_that_differ_in_their_last_bits(offset):
    # Far from zero nearly all scores share the bits that are sorted first.
    y, scores, _ = big_sample(size=3000, positives=0.4)
    scores = scores.round(2)
    y[scores > 0.0] *= -1.0
    weights = np.full(len(y), 1.0 / len(y))
    scores += offset
    value, slopes = ROCArea()(y, scores, weights)
    bars, others = scores[y > 0] - 1.0, scores[y < 0]
    pairs = np.maximum(0.0, others[None, :] - bars[:, None])
    assert value == pytest.approx(pairs.mean(), rel=1e-9)
    counts = (others[None, :] > bars[:, None]).sum(axis=1)
    np.testing.assert_allclose(slopes[y > 0], -counts / pairs.size, rtol=1e-12)
    assert slopes.sum() == pytest.approx(0.0, abs=1e-13)


@every_loss
def test_threads_leave_no_trace(loss):
    y, scores, weights = big_sample()
    with thread_limit(1):
        value, slopes = loss(y, scores, weights)
    with thread_limit(2):
        again, again_slopes = loss(y, scores, weights)
    assert value == again
    np.testing.assert_array_equal(slopes, again_slopes)


@every_loss
def test_many_examples_by_plain_numpy(loss):
    y, scores, weights = big_sample(size=400, positives=0.3)
    scores = scores.round(1)
    positive, negative = np.sort(scores[y > 0]), np.sort(-scores[y < 0])
    n_positive = len(positive)
    below = np.concatenate([[0.0], np.cumsum(positive)])
    above = np.concatenate([[0.0], np.cumsum(negative)])
    u, b = np.ogrid[: len(below), : len(above)]
    if isinstance(loss, FBeta):
        size = n_positive - u + b + loss.beta**2 * n_positive
        deltas = (b + loss.beta**2 * u) / size
        expected = (deltas - (below[u] + above[b]) / n_positive).max()
    elif isinstance(loss, ROCArea | ErrorRate):
        pairs = 1.0 - positive[:, None] - negative[None, :]
        each = pairs if isinstance(loss, ROCArea) else 1.0 - y * scores
        expected = np.maximum(each, 0.0).mean()
    else:
        k = n_positive if isinstance(loss, BreakEven) else loss.count(len(y))
        scale = k if isinstance(loss, PrecisionAtK) else n_positive
        t = np.arange(1, min(k, n_positive) + 1)
        missed, flagged = t + max(n_positive - k, 0), t + max(k - n_positive, 0)
        t, missed, flagged = (part[flagged <= len(negative)] for part in (t, missed, flagged))
        gains = t * (1.0 - below[missed] / missed - above[flagged] / flagged) / scale
        expected = 1.0 - min(k, n_positive) / scale + max(0.0, gains.max())
    assert loss.value(y, scores, weights) == pytest.approx(expected, rel=1e-11)


@every_loss
def test_extreme_scores_give_no_nan(loss):
    y = np.array([1.0, -1.0, 1.0, -1.0, -1.0])
    for scale in (1e-300, 1e8, 1e150):
        scores = scale * np.array([-1.0, 1.0, 1.0, -1.0, 0.0])
        value, slopes = loss(y, scores, np.full(5, 0.2))
        assert np.isfinite(value)
        assert np.isfinite(slopes).all()


@pytest.mark.parametrize("loss", OF_DIFFERENCES, ids=repr)
@given(sample=samples())
def test_thresholds(loss, sample):
    y, scores, weights, _ = sample
    threshold = loss.threshold(y, scores, weights)
    predicted = scores > threshold
    if isinstance(loss, ROCArea):
        wrong = np.mean(predicted != (y > 0))
        others = [scores.min() - 1.0, *scores]
        assert wrong <= min(np.mean((scores > t) != (y > 0)) for t in others) + 1e-12
    else:
        k = int((y > 0).sum()) if isinstance(loss, BreakEven) else loss.count(len(y))
        assert predicted.sum() <= k
        ties = np.count_nonzero(scores == np.sort(scores)[len(y) - k]) - 1 if k else 0
        assert predicted.sum() == k or ties > 0


@every_loss
def test_pickles(loss):
    copy = pickle.loads(pickle.dumps(loss))
    y, scores, weights = big_sample(size=50)
    assert copy.value(y, scores, weights) == loss.value(y, scores, weights)
    assert repr(copy) == repr(loss)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FBeta(0.0), "beta must be positive and finite, got 0"),
        (lambda: FBeta(np.inf), "beta must be positive"),
        (lambda: PrecisionAtK(0), "k must be a count of at least 1, or a share between 0 and 1"),
        (lambda: PrecisionAtK(2.5), "got 2.5"),
        (lambda: RecallAtK(-1), "got -1"),
        (lambda: RecallAtK(np.inf), "got inf"),
        (lambda: RecallAtK(np.nan), "got nan"),
        (lambda: PrecisionAtK(9).check_targets(np.ones(4)), "k is 9, but .* only 4 examples"),
        (lambda: FBeta().check_weights(np.array([0.3, 0.7])), "leave out sample_weight"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_registry_is_complete():
    made = {type(factory()) for factory in MEASURES.values()}
    assert made == {type(loss) for loss in LOSSES}
    assert all(factory().task == "classification" for factory in MEASURES.values())
