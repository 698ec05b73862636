"""A part of the examples is looked at first: that saves time, and leaves no trace."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.compute.threads import thread_limit
from cutplane.core.protocols import Quadratic
from cutplane.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Quantile,
    SmoothHinge,
    Squared,
    SquaredHinge,
    piecewise,
)

LOSSES = [
    Hinge(),
    SquaredHinge(),
    SmoothHinge(0.5),
    Squared(),
    Absolute(),
    Quantile(0.01),
    Quantile(0.9),
    EpsilonInsensitive(0.3),
    Huber(0.7),
]
every_piecewise_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def misleading_sample(loss, seed):
    """Return examples of which those looked at first may be nothing like the others."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(512, 3000))
    first = np.arange(m) % piecewise.STRIDE < piecewise.CHUNK
    y = rng.standard_normal(m)
    scores = y + rng.choice([0.3, 3.0]) * rng.standard_normal(m)
    scores[first] += rng.choice([0.0, 0.1, 1e3, -1e6])
    direction = rng.standard_normal(m) - 0.5 * (scores - y)
    direction[first] *= rng.choice([0.0, 1.0, -1.0, 100.0])
    weights = rng.uniform(0.1, 1.0, m)
    weights[first] *= rng.choice([0.0, 1.0, 10.0])
    if rng.random() < 0.5:  # ties
        scores, y = scores.round(1), y.round(1)
    if loss.task == "classification":
        y = np.where(y > 0.0, 1.0, -1.0)
        if rng.random() < 0.3:
            y[first] = 1.0  # one class only
    return y, scores, direction, weights / weights.sum()


@every_piecewise_loss
@given(seed=st.integers(0, 10**6))
def test_a_part_first_gives_the_same(loss, seed):
    y, scores, direction, weights = misleading_sample(loss, seed)
    extra = Quadratic(-0.01, 0.1)

    def results():
        return (
            loss.minimize_along(y, scores, direction, weights, extra),
            loss.minimize_offset(y, scores, weights).offset,
        )

    expected = results()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(piecewise, "LEAST", 512)
        found = results()
    # The offset comes from differences of scores, and is as exact as they are.
    rounding = 4.0 * np.finfo(np.float64).eps * np.abs(scores).max()
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12 + rounding)


@every_piecewise_loss
def test_few_passes_over_many_examples(loss, monkeypatch):
    # Each derivative is a pass over vectors as long as the sample; part of it counts as such.
    m = piecewise.LEAST
    rng = np.random.default_rng(0)
    y, scores = rng.standard_normal((2, m))
    scores += 0.5 * y + 2.0
    direction = y - scores + rng.standard_normal(m)
    if loss.task == "classification":
        y = np.sign(y)
    weights = np.full(m, 1.0 / m)
    read = []
    derivative = piecewise.Profile.derivative

    def counted(profile, step):
        read.append(len(profile.moving.scores) / m)
        return derivative(profile, step)

    monkeypatch.setattr(piecewise.Profile, "derivative", counted)
    loss.minimize_offset(y, scores, weights)
    assert sum(read) <= 4.5
    read.clear()
    loss.minimize_along(y, scores, direction, weights, Quadratic(-0.01, 0.1))
    assert sum(read) <= 5.5


def test_a_step_that_hits_a_flat_stretch_leaves_few_examples_to_search():
    # Residuals -499.5 .. 499.5: between the middle two, every constant is a median.
    scores = np.arange(1000.0) - 499.5
    y, weights = np.zeros(1000), np.full(1000, 1e-3)
    ray = piecewise.Profile(Absolute().kind, piecewise.MovingScores(y, scores, weights, 1.0))
    slope, size, _ = ray.derivative(-10.0)
    bracket = piecewise.Bracket(ray, 1e-14, -10.0, slope)
    assert abs(bracket.narrow(0.2)) <= 1e-14
    bracket.close_around(0.2, size)
    assert bracket.lo < -0.5
    assert bracket.hi > 0.5
    (events,) = ray.moving.map(piecewise.events_between, ray.kind, bracket.lo, bracket.hi)
    assert len(events[0]) <= 40
    assert Absolute().minimize_offset(y, scores, weights).offset == pytest.approx(0.0, abs=1e-12)


def test_threads_leave_no_trace():
    m = 2 * piecewise.LEAST
    y, scores, direction = np.random.default_rng(0).standard_normal((3, m))
    weights = np.full(m, 1.0 / m)
    loss = Quantile(0.3)
    results = set()
    for n_threads in (1, 3):
        with thread_limit(n_threads):
            best = loss.minimize_offset(y, scores, weights)
            slopes = loss.zero_sum_slopes(y, scores, best.offset, weights)
            step = loss.minimize_along(y, scores, direction, weights, Quadratic(-0.01, 0.1))
            results.add((best, step, slopes.tobytes()))
    assert len(results) == 1
