"""Laws of all regularizers: value and conjugate belong to each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp
from cutplane.core.bundle import local_gram

from .registry import CASES, D

CURVED = [name for name in CASES if name != "L1"]
every = pytest.mark.parametrize("name", CASES)
every_curved = pytest.mark.parametrize("name", CURVED)
vectors = st.tuples(st.integers(0, 10**6), st.sampled_from([1e-3, 0.1, 1.0])).map(
    lambda drawn: drawn[1] * np.random.default_rng(drawn[0]).normal(size=(3, D))
)


@every
@given(drawn=vectors)
def test_value_is_the_formula(name, drawn):
    case = CASES[name]
    w = case.into_domain(10.0 * drawn[0])
    assert case.regularizer.value(w) == pytest.approx(case.formula(w), rel=1e-12, abs=1e-15)


@every
@given(drawn=vectors)
def test_fenchel_young(name, drawn):
    case = CASES[name]
    u, w = drawn[0], case.into_domain(10.0 * drawn[1])
    conjugate, attained = case.regularizer.conjugate(u)
    assert case.regularizer.value(w) + conjugate >= float(u @ w) - 1e-12
    if np.isfinite(conjugate):
        total = case.regularizer.value(attained) + conjugate
        assert total == pytest.approx(float(u @ attained), rel=1e-10, abs=1e-12)


@every_curved
@given(drawn=vectors)
def test_minimiser_is_the_gradient_of_the_conjugate(name, drawn):
    conjugate = CASES[name].regularizer.conjugate
    u, v = drawn[0], 1e-5 * drawn[1]
    change = conjugate(u + v)[0] - conjugate(u - v)[0]
    # The conjugate's slope lies between those at both ends, as it is convex.
    ends = sorted(2.0 * float(conjugate(u + sign * v)[1] @ v) for sign in (-1, 1))
    noise = 1e-14 * (1.0 + abs(conjugate(u)[0]))
    assert ends[0] - noise <= change <= ends[1] + noise
    assert ends[0] - noise <= 2.0 * float(conjugate(u)[1] @ v) <= ends[1] + noise


@every_curved
@given(drawn=vectors)
def test_value_is_convex(name, drawn):
    case = CASES[name]
    a, b = case.into_domain(10.0 * drawn[0]), case.into_domain(10.0 * drawn[1])
    value = case.regularizer.value
    assert value(0.5 * (a + b)) <= 0.5 * (value(a) + value(b)) + 1e-12


class WithoutCurvature:
    """A regularizer stripped to what a user must write."""

    def __init__(self, regularizer):
        self.value, self.conjugate = regularizer.value, regularizer.conjugate


@pytest.mark.parametrize(
    "name", [name for name in CASES if hasattr(CASES[name].regularizer, "local_gram")]
)
@given(drawn=vectors)
def test_local_gram_is_the_curvature_of_the_conjugate(name, drawn):
    regularizer = CASES[name].regularizer
    u, slopes = 5.0 * drawn[0], drawn[1:]
    step = 1e-4
    ends = [local_gram(regularizer, u + s * step * slopes[0], slopes) for s in (-1, 1)]
    exact = local_gram(regularizer, u, slopes)
    if not np.allclose(ends[0], ends[1], rtol=1e-3, atol=1e-6):
        return  # near a corner, where the curvature jumps
    by_differences = local_gram(WithoutCurvature(regularizer), u, slopes)
    scale = np.abs(np.diagonal(by_differences)).max()
    np.testing.assert_allclose(exact, by_differences, rtol=1e-3, atol=1e-3 * scale + 1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cp.L1(0.0), "lam must be positive"),
        (lambda: cp.ElasticNet(-1.0), "lam must be positive"),
        (lambda: cp.ElasticNet(1.0, 1.0), "l1_ratio"),
        (lambda: cp.SquaredLp(1.0, 1.0), "p must be above 1"),
        (lambda: cp.SquaredLp(1.0, 2.5), "p must be above 1"),
        (lambda: cp.Entropy(np.nan), "lam must be positive"),
        (lambda: cp.Entropy(1.0, center=[1.0, 0.0]), "center must be positive"),
        (lambda: cp.Entropy(1.0, center=[1.0, np.inf]), "center must be finite"),
        (lambda: cp.BoundedL2(1.0, lower=1.0, upper=0.0), "lower bound"),
        (lambda: cp.BoundedL2(1.0, lower=np.nan), "lower bound"),
        (lambda: cp.BoundedL2(1.0, lower=np.inf), "leave room"),
        (lambda: cp.QuadraticForm(1.0), "either the matrix Q or a factor"),
        (lambda: cp.QuadraticForm(1.0, np.eye(2), factor=np.eye(2)), "either"),
        (lambda: cp.QuadraticForm(1.0, -np.eye(2)), "positive definite"),
        (lambda: cp.QuadraticForm(1.0, [1.0, 0.0]), "positive"),
        (lambda: cp.QuadraticForm(1.0, [[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (lambda: cp.QuadraticForm(1.0, np.ones((2, 3))), "square"),
        (lambda: cp.QuadraticForm(1.0, factor=np.ones((1, 2))), "at least as many rows"),
        (lambda: cp.QuadraticForm(1.0, factor=np.ones((2, 2))), "independent"),
        (lambda: cp.QuadraticForm(1.0, [[np.nan]]), "finite"),
    ],
)
def test_parameters_that_make_no_sense(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "regularizer",
    [
        cp.Entropy(1.0, center=np.ones(D + 1)),
        cp.BoundedL2(1.0, upper=np.ones(D + 1)),
        cp.BoundedL2(1.0, center=np.ones(D + 1)),
        cp.QuadraticForm(1.0, np.ones(D + 1)),
        cp.QuadraticForm(1.0, np.eye(D), center=np.ones(D + 1)),
    ],
    ids=repr,
)
def test_parameters_for_another_number_of_coordinates(regularizer):
    with pytest.raises(ValueError, match=type(regularizer).__name__):
        regularizer.value(np.ones(D))


def test_outside_the_domain_the_value_is_infinite():
    assert cp.Entropy(1.0).value(np.array([1.0, -1e-9])) == np.inf
    assert cp.BoundedL2(1.0).value(np.array([1.0, -1e-9])) == np.inf
    assert cp.BoundedL2(1.0, upper=2.0).value(np.array([1.0, 2.1])) == np.inf
