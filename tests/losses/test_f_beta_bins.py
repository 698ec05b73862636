"""The worst labeling for the F-measure from bins, beside that from all margins sorted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.losses import FBeta
from cutplane.losses.loss import Ray
from cutplane.models.measures.f_beta import MarginSearch
from cutplane.models.measures.measures import Sides


@st.composite
def samples(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    size = draw(st.integers(2, 120))
    y = np.where(rng.random(size) < draw(st.sampled_from([0.03, 0.3, 0.5, 0.9])), 1.0, -1.0)
    scores = rng.normal(size=size) + draw(st.sampled_from([0.0, 1.0, 3.0])) * y
    scores = scores * draw(st.sampled_from([1e-3, 0.3, 1.0, 30.0])) + draw(st.floats(-5.0, 5.0))
    if draw(st.booleans()):
        scores = scores.round(1)  # ties
    if draw(st.booleans()):
        scores[rng.integers(size)] *= 1e4  # nearly all in one bin
    return y, scores, np.full(size, 1.0 / size)


@pytest.fixture(params=[2, 7, 64], autouse=True)
def _few_bins(request, monkeypatch):
    monkeypatch.setattr(MarginSearch, "n_bins", request.param)


def both(sample):
    """Return the search with bins, and that without."""
    plain = MarginSearch(Sides.of(*sample))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MarginSearch, "few", 1)
        return MarginSearch(Sides.of(*sample)), plain


@given(sample=samples(), beta2=st.sampled_from([0.01, 0.5, 1.0, 9.0]))
def test_the_worst_labeling_is_the_same(sample, beta2):
    binned, plain = both(sample)
    small = 1e-12 * (1.0 + np.abs(sample[1]).sum())
    assert binned.worst(beta2)[0] == pytest.approx(plain.worst(beta2)[0], abs=small)


@given(sample=samples(), beta2=st.sampled_from([0.01, 0.5, 1.0, 9.0]))
def test_the_minimum_over_the_intercept_is_the_same(sample, beta2):
    binned, plain = both(sample)
    here, there = binned.minimize(beta2), plain.minimize(beta2)
    small = 1e-12 * (1.0 + np.abs(sample[1]).sum())
    assert here.value == pytest.approx(there.value, abs=small)
    assert here.left[0] >= here.left[1]
    assert here.right[0] <= here.right[1]
    if 0.0 < np.mean(sample[0] > 0.0) < 1.0:
        assert here.offset == pytest.approx(there.offset, abs=1e6 * small)


@given(sample=samples())
def test_planes_touch_the_loss_and_lie_below_it(sample):
    y, scores, weights = sample
    loss = FBeta()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MarginSearch, "few", 1)
        value, slopes = loss(y, scores, weights)
        best = loss.minimize_offset(y, scores, weights)
        tangent = loss.tangent(y, scores, weights, best)
    small = 1e-12 * (1.0 + np.abs(scores).sum())
    other = np.random.default_rng(0).normal(size=len(y))
    below = value + float(slopes @ (other - scores))
    assert below <= loss.value(y, other, weights) + small
    assert abs(tangent.slopes.sum()) <= 1e-14 * len(y)
    assert tangent.offset + tangent.slopes @ scores == pytest.approx(best.value, abs=10 * small)
    below = tangent.offset + float(tangent.slopes @ other)
    assert below <= loss.minimize_offset(y, other, weights).value + small


@given(sample=samples(), step=st.sampled_from([0.0, 0.1, 1.0]))
def test_slopes_along_a_ray_are_those_of_a_plane(sample, step):
    y, scores, weights = sample
    loss = FBeta()
    direction = np.random.default_rng(1).normal(size=len(y)).round(1)
    value, slope = loss.on_ray(y, Ray(scores, 0.0, direction, 0.0), weights, step)
    small = 1e-11 * (1.0 + np.abs(scores).sum())
    assert value == pytest.approx(loss.value(y, scores + step * direction, weights), abs=small)
    for other in (step - 0.5, step - 1e-3, step + 1e-3, step + 2.0):
        there = loss.value(y, scores + other * direction, weights)
        assert value + (other - step) * slope <= there + small


def test_many_examples_need_few_sorted():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(20_000) < 0.3, 1.0, -1.0)
    scores = rng.normal(size=len(y)) + y
    weights = np.full(len(y), 1.0 / len(y))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MarginSearch, "n_bins", 2048)
        search = MarginSearch(Sides.of(y, scores, weights))
        least = search.minimize(1.0)
    assert sum(len(margins) for _, _, margins in search._inside) < 2000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MarginSearch, "few", 10**6)
        expected = MarginSearch(Sides.of(y, scores, weights)).minimize(1.0)
    assert least.value == pytest.approx(expected.value, abs=1e-12)
