"""The box: Fenchel's inequality, the corner that attains the conjugate, Kelley's method in it."""

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import cutplane as cp

seeds = st.integers(0, 10**6)


def random_box(rng, d):
    center, widths = rng.normal(size=d), rng.uniform(0.0, 2.0, d)
    widths[rng.random(d) < 0.2] = 0.0  # some coordinates are fixed
    return cp.Box(center - widths, center + widths)


@given(seed=seeds, d=st.sampled_from([1, 2, 100]), log_size=st.floats(-20, 20))
def test_conjugate(seed, d, log_size):
    rng = np.random.default_rng(seed)
    box, u = random_box(rng, d), 10.0**log_size * rng.normal(size=d)
    u[rng.random(d) < 0.2] = 0.0
    value, attained = box.conjugate(u)
    terms = np.maximum(box.lower * u, box.upper * u)
    assert abs(value - terms.sum()) <= 1e-13 * np.abs(terms).sum()  # they may cancel
    assert box.value(attained) == 0.0
    inside = rng.uniform(box.lower, box.upper)
    assert box.value(inside) == 0.0
    assert u @ inside <= value + 1e-12 * float(np.abs(u) @ np.abs(inside))


def test_zero_and_outside():
    box = cp.Box([-1.0, 1.0], [2.0, 3.0])
    value, attained = box.conjugate(np.zeros(2))
    assert value == 0.0
    np.testing.assert_array_equal(attained, [0.0, 1.0])
    assert box.value(np.array([0.0, 0.5])) == np.inf
    assert repr(box) == "Box(..., ...)"
    assert repr(cp.Box(-1, 2.5)) == "Box(-1, 2.5)"


@pytest.mark.parametrize(
    ("bounds", "message"),
    [((1.0, 0.0), "at most the upper one"), ((0.0, np.inf), "must be finite; cp.BoundedL2")],
)
def test_bad_bounds(bounds, message):
    with pytest.raises(ValueError, match=message):
        cp.Box(*bounds)


def test_bounds_for_other_parameters():
    risk = cp.ScoredRisk(np.eye(3), [1.0, -1.0, 1.0], cp.Hinge())
    with pytest.raises(ValueError, match="lower"):
        cp.minimize(risk, cp.Box([0.0, 0.0], 1.0), method=cp.kelley())


@settings(max_examples=20)
@given(seed=seeds, log_scale=st.sampled_from([-6.0, 0.0, 6.0]))
def test_absolute_errors_in_a_box_are_a_linear_program(seed, log_scale):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(25, 3)), rng.normal(size=25)
    scale = 10.0**log_scale
    box = random_box(rng, 3)
    box = cp.Box(scale * box.lower, scale * box.upper)
    risk = cp.ScoredRisk(X / scale, y, cp.Absolute(), intercept=False)
    found = cp.minimize(risk, box, method=cp.kelley(), tol=1e-6, max_iter=2000)
    # min mean(t)  with  -t <= X w / scale - y <= t
    A = np.block([[X, -np.eye(25)], [-X, -np.eye(25)]])
    bounds = [*zip(box.lower / scale, box.upper / scale, strict=True), *[(0.0, None)] * 25]
    exact = linprog(
        np.append(np.zeros(3), np.full(25, 1 / 25)), A_ub=A, b_ub=np.append(y, -y), bounds=bounds
    )
    assert found.status is cp.Status.OPTIMAL
    assert found.certificate.valid
    assert found.certificate.lower_bound <= exact.fun * (1 + 1e-9)
    assert found.objective >= exact.fun * (1 - 1e-9)
    assert found.objective <= exact.fun * (1 + 2e-6)
    assert box.value(found.w) == 0.0


@pytest.mark.parametrize("loss", [cp.Hinge(), cp.Logistic()], ids=repr)
@pytest.mark.parametrize("intercept", [False, True])
def test_bounds_hold_at_every_iteration(loss, intercept):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4))
    y = np.where(X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=60) > 0, 1.0, -1.0)
    w, c = cvxpy.Variable(4), cvxpy.Variable()
    margins = cvxpy.multiply(y, X @ w + (c if intercept else 0.0))
    losses = cvxpy.pos(1 - margins) if isinstance(loss, cp.Hinge) else cvxpy.logistic(-margins)
    exact = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(losses) / 60), [w >= 0.1, w <= 0.7])
    optimum = exact.solve(solver=cvxpy.CLARABEL)
    risk = cp.ScoredRisk(X, y, loss, intercept=intercept)
    found = cp.minimize(risk, cp.Box(0.1, 0.7), method=cp.kelley(), tol=1e-6, max_iter=1000)
    assert found.status is cp.Status.OPTIMAL
    for record in found.history:
        assert record.lower_bound <= optimum + 1e-7
        assert record.objective >= optimum - 1e-7


def test_groups_of_planes():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(60, 4)), np.where(rng.normal(size=60) > 0, 1.0, -1.0)
    kelley, box = cp.kelley(), cp.Box(-1.0, 1.0)
    groups = cp.Method(
        kelley.stabilizer, kelley.memory, kelley.query, kelley.cuts, groups=4, name="groups"
    )
    plain = cp.ScoredRisk(X, y, cp.Hinge(), intercept=False)
    one, four = (cp.minimize(plain, box, method=method, tol=1e-6) for method in (kelley, groups))
    assert one.objective == pytest.approx(four.objective, rel=2e-6)
    assert four.iterations < one.iterations
    with pytest.raises(ValueError, match="over a box, groups of planes and an intercept"):
        cp.minimize(cp.ScoredRisk(X, y, cp.Hinge()), box, method=groups)
