"""The ball: Fenchel's inequality, and a point that attains the conjugate and lies inside."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp


@given(
    seed=st.integers(0, 10**6),
    d=st.sampled_from([1, 2, 100, 10_000]),
    log_radius=st.floats(-20, 20),
    log_size=st.floats(-20, 20),
)
def test_conjugate(seed, d, log_radius, log_size):
    rng = np.random.default_rng(seed)
    ball, u = cp.Ball(10.0**log_radius), 10.0**log_size * rng.normal(size=d)
    value, attained = ball.conjugate(u)
    assert value == pytest.approx(ball.radius * np.linalg.norm(u), rel=1e-12)
    assert ball.value(attained) == 0.0
    assert u @ attained == pytest.approx(value, rel=1e-12)
    inside = rng.normal(size=d)
    inside *= rng.random() * ball.radius / np.linalg.norm(inside)
    assert ball.value(inside) == 0.0
    assert u @ inside <= value * (1 + 1e-12)


def test_zero_and_outside():
    ball = cp.Ball(2.0)
    value, attained = ball.conjugate(np.zeros(3))
    assert value == 0.0
    assert not attained.any()
    assert ball.value(np.array([2.0, 0.1])) == np.inf
    assert ball.value(np.array([0.0, -2.0])) == 0.0


@pytest.mark.parametrize("radius", [0.0, -1.0, np.inf, np.nan])
def test_bad_radius(radius):
    with pytest.raises(ValueError, match="radius must be positive"):
        cp.Ball(radius)


def test_repr():
    assert repr(cp.Ball(2.5)) == "Ball(2.5)"
