"""The compiled logistic loss beside NumPy's and SciPy's functions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, xlogy

import cutplane as cp
from cutplane.losses import smooth as kernels

EPS = np.finfo(np.float64).eps


def relative_error(found, exact):
    return np.abs(found - exact) / np.abs(exact)


def test_exponential_and_logarithms_are_right_to_the_last_places():
    rng = np.random.default_rng(0)
    x = np.concatenate([[0.0, 1e-300, 707.9], rng.uniform(0, 1, 2000), rng.uniform(0, 700, 2000)])
    found = np.array([kernels.exp_minus(value) for value in x])
    assert relative_error(found, np.exp(-x)).max() <= 2 * EPS
    assert [kernels.exp_minus(value) for value in (708.0, 1e5, np.inf)] == [0.0, 0.0, 0.0]

    e = np.concatenate([[1e-300, 0.41421356237309503, 1.0], rng.uniform(0, 1, 4000)])
    found = np.array([kernels.log_one_plus(value) for value in e])
    assert relative_error(found, np.log1p(e)).max() <= 2 * EPS
    assert kernels.log_one_plus(0.0) == 0.0

    p = np.concatenate(
        [[1e-300, 1 - EPS], rng.uniform(0, 1, 4000), 10.0 ** rng.uniform(-300, -1, 500)]
    )
    found = np.array([kernels.log(value) for value in p])
    assert relative_error(found, np.log(p)).max() <= 2 * EPS
    assert kernels.log(1.0) == 0.0


@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.0, 1e-3, 1.0, 30.0, 1e3, 1e12]))
def test_kernels_equal_their_plain_twins(seed, scale):
    rng = np.random.default_rng(seed)
    m = 37
    y, scores = rng.choice([-1.0, 1.0], m), scale * rng.normal(size=m)
    direction, weights = rng.normal(size=m), rng.uniform(0.0, 1.0, m)
    weights[0] = 0.0
    loss = cp.Logistic()
    margins = y * scores
    values = np.logaddexp(0.0, -margins)
    wrong, right = expit(-margins), expit(margins)

    def same(found, exact):
        np.testing.assert_allclose(found, exact, rtol=1e-14, atol=1e-300)

    same(loss.value(y, scores, weights), weights @ values)
    same(loss.slopes(y, scores, weights), -y * wrong * weights)
    for found, exact in zip(
        loss.derivatives(y, scores), (values, -y * wrong, wrong * right), strict=True
    ):
        same(found, exact)
    step = 0.7
    there = -y * expit(-y * (scores + step * direction))
    bend = np.abs(there) * expit(y * (scores + step * direction))
    first, second, found_size = kernels.along(step, (y, scores, weights, direction))
    size = weights @ np.abs(there * direction)
    same(found_size, size)
    assert first == pytest.approx(weights @ (there * direction), rel=1e-14, abs=1e-14 * size)
    assert second == pytest.approx(weights @ (bend * direction**2), rel=1e-13, abs=1e-300)
    p = rng.uniform(0.0, 1.0, m)
    p[:2] = 0.0, 1.0
    entropy = xlogy(p, p) + xlogy(1.0 - p, 1.0 - p)
    np.testing.assert_allclose(loss.conjugates(y, -y * p), entropy, rtol=1e-13, atol=1e-15)


def test_slopes_outside_their_range_have_no_conjugate():
    y = np.array([1.0, 1.0, -1.0])
    slopes = np.array([1e-3, -1.001, -1e-3])
    np.testing.assert_array_equal(cp.Logistic().conjugates(y, slopes), np.inf)


def test_a_weight_of_zero_silences_an_infinite_loss():
    y, scores = np.array([1.0, 1.0]), np.array([-np.inf, 0.0])
    assert cp.Logistic().value(y, scores, np.array([0.0, 1.0])) == pytest.approx(np.log(2.0))


def test_an_example_gets_the_same_bits_wherever_it_stands():
    rng = np.random.default_rng(1)
    m = 100
    y, scores, weights = rng.choice([-1.0, 1.0], m), 5 * rng.normal(size=m), rng.uniform(0, 1, m)
    loss = cp.Logistic()
    for part in (slice(1, None), slice(3, 60), slice(97, 98)):
        here = y[part], scores[part]
        slopes = loss.slopes(y, scores, weights)
        np.testing.assert_array_equal(loss.slopes(*here, weights[part]), slopes[part])
        derivatives = loss.derivatives(y, scores)
        for found, whole in zip(loss.derivatives(*here), derivatives, strict=True):
            np.testing.assert_array_equal(found, whole[part])
        conjugates = loss.conjugates(y, derivatives[1])
        found = loss.conjugates(y[part], derivatives[1][part])
        np.testing.assert_array_equal(found, conjugates[part])


def test_conjugates_of_small_slopes_keep_their_digits():
    # Where all examples are far on the right side, offsets of planes are nothing but these.
    p = np.concatenate([10.0 ** -np.arange(1.0, 30.0, 0.37), [0.0, 0.5, 1.0]])
    y = np.where(np.arange(len(p)) % 2, 1.0, -1.0)
    exact = p.astype(np.longdouble)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = exact * np.log(exact) + (1 - exact) * np.log1p(-exact)
    entropy[(p == 0.0) | (p == 1.0)] = 0.0
    found = cp.Logistic().conjugates(y, -y * p)
    np.testing.assert_allclose(found, entropy.astype(np.float64), rtol=1e-14, atol=0.0)


@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([3, 400, 70_000]))
@settings(max_examples=20)
def test_where_nothing_but_rounding_is_left_no_search_goes_on(seed, size):
    """Begun at the best offset, a search ends after a look or two, not after fifty."""
    rng = np.random.default_rng(seed)
    y, scores = np.where(rng.random(size) < 0.3, 1.0, -1.0), rng.normal(size=size)
    y[:2] = -1.0, 1.0
    weights = np.full(size, 1.0 / size)

    class Counting(cp.Logistic):
        looks = 0

        def _along_all(self, *arguments):
            self.looks += 1
            return super()._along_all(*arguments)

    loss = Counting()
    best = loss.at_best_offset(y, scores, weights, None)
    loss.looks = 0
    again = loss.at_best_offset(y, scores, weights, best.offset)
    assert loss.looks <= 3
    assert again.offset == pytest.approx(best.offset, rel=1e-12, abs=1e-13)
    slopes = loss.zero_sum_slopes(y, scores, again.offset, weights)
    assert abs(slopes.sum()) <= 1e-14
