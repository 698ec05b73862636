"""Quasi-Newton steps: certified optima, rough curvature, few evaluations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp
from cutplane.core.policies.cuts import NonConvexCuts
from cutplane.models.sequences.curvature import ChainCurvature, inverse_factor, with_curvature
from cutplane.solvers.quasi_newton import PastSteps, quasi_newton

from ..risks.test_chain import optimum, risk_of
from ..structured.sequences import LAYOUTS, Sample
from .test_block_ascent import words

seeds = st.integers(0, 10**6)


def crf(seed, n=60):
    margin = words(seed, n)
    return cp.ChainRisk(margin.rows, margin.data.y, margin.data.chains.offsets, cp.ChainCRF())


@given(
    seed=seeds,
    lam=st.sampled_from([1e-3, 1e-1, 1.0]),
    layout=st.sampled_from([*LAYOUTS]),
    ends=st.booleans(),
)
def test_bounds_enclose_the_optimum(seed, lam, layout, ends):
    sample = Sample(seed, layout=layout, ends=ends)
    best = optimum(sample, cp.ChainCRF(), lam)
    risk = risk_of(sample, cp.ChainCRF())
    result = cp.minimize(risk, cp.L2(lam), method=quasi_newton(), tol=1e-5)
    assert result.status == "optimal"
    for record in result.history:
        assert record.lower_bound <= best + 1e-8 * (1.0 + best)
        assert record.objective >= best - 1e-8 * (1.0 + best)


@pytest.mark.parametrize("planes", [None, 5])
@pytest.mark.parametrize("loss", [cp.Logistic(), cp.Squared(), cp.Hinge()], ids=repr)
def test_agrees_with_the_bundle_method_on_other_risks(loss, planes):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 6)), rng.choice([-1.0, 1.0], 80)
    risk = cp.ScoredRisk(X, y, loss)
    exact = cp.minimize(risk, cp.L2(1e-2), tol=1e-8).objective
    found = cp.minimize(risk, cp.L2(1e-2), method=quasi_newton(planes=planes), tol=1e-3)
    assert found.certificate.valid
    assert found.certificate.lower_bound <= exact <= found.objective * (1.0 + 1e-8)
    assert found.status == "optimal"  # also with kinks, by the steps of bmrm


@given(seed=seeds, n_steps=st.integers(0, 9), most=st.integers(1, 5))
def test_direction_is_that_of_the_matrix(seed, n_steps, most):
    # The inverse of the approximation, updated as a matrix with the last steps (BFGS).
    rng = np.random.default_rng(seed)
    d = 6
    root = rng.normal(size=(d, d))
    bend = root @ root.T + 0.1 * np.eye(d)
    past, steps = PastSteps.none_yet(most, d), []
    for _ in range(n_steps):
        step = rng.normal(size=d).astype(np.float32).astype(np.float64)
        change = (bend @ step).astype(np.float32).astype(np.float64)
        past.remember(step, change)
        past.remember(step, -change)  # not that of a convex function: forgotten at once
        steps = [*steps, (step, change)][-most:]
    gradient = rng.normal(size=d)
    scale = 1.0 / max(np.linalg.norm(gradient), 1.0)
    if steps:
        step, change = steps[-1]
        scale = step @ change / (change @ change)
    inverse = scale * np.eye(d)
    for step, change in steps:
        left = np.eye(d) - np.outer(step, change) / (step @ change)
        inverse = left @ inverse @ left.T + np.outer(step, step) / (step @ change)
    # The scale without steps is that of the vector after the first half, which is the gradient.
    expected = -inverse @ gradient
    np.testing.assert_allclose(
        past.direction(gradient), expected, rtol=1e-7, atol=1e-7 * np.linalg.norm(expected)
    )
    past.forget()
    np.testing.assert_allclose(
        past.direction(gradient), -gradient / max(np.linalg.norm(gradient), 1.0), rtol=1e-12
    )


def test_a_step_too_small_for_single_precision_takes_no_place():
    past = PastSteps.none_yet(2, 3)
    unit = np.eye(3)
    for k in range(3):
        past.remember(unit[k], (k + 1.0) * unit[k])
    past.remember(1e-60 * unit[0], 1e-60 * unit[0])
    past.remember(unit[0], 5.0 * unit[0])
    # The last two steps, along the third axis and the first, are known.
    np.testing.assert_allclose(past.direction(unit[2]), -unit[2] / 3.0)
    np.testing.assert_allclose(past.direction(unit[0]), -unit[0] / 5.0)


@given(seed=seeds, n=st.integers(1, 6))
def test_inverse_factor(seed, n):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    matrix = root @ root.T + np.eye(n)
    factor = inverse_factor(matrix.copy())
    np.testing.assert_array_equal(factor, np.tril(factor))
    np.testing.assert_allclose(factor @ matrix @ factor.T, np.eye(n), atol=1e-9)


@pytest.mark.parametrize("ends", [False, True])
def test_curvature_is_exact_where_tokens_stand_alone_and_have_two_labels(ends):
    # One token a sequence. With the other label's coefficients held, nothing is neglected.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), rng.integers(0, 2, 30)
    risk = cp.ChainRisk(X, y, np.arange(31), cp.ChainCRF(), ends=ends)
    w, lam, step = 0.3 * rng.normal(size=risk.n_parameters), 0.1, 1e-5
    curvature = ChainCurvature.at(risk, risk.at(w), lam)
    direction = np.zeros_like(w)
    direction[:3] = rng.normal(size=3)
    change = (
        risk.at(w + step * direction).plane().slope - risk.at(w - step * direction).plane().slope
    )
    image = change / (2.0 * step) + lam * direction
    image[3:] = 0.0
    np.testing.assert_allclose(curvature.solve(image), direction, atol=1e-6)


def test_curvature_is_for_random_fields_with_few_features():
    assert with_curvature(crf(0))
    assert not with_curvature(words(0))
    assert not with_curvature(cp.ScoredRisk(np.eye(2), np.array([1.0, -1.0]), cp.Logistic()))
    wide = cp.ChainRisk(np.ones((2, 2000)), [0, 3], [0, 2], cp.ChainCRF())
    assert not with_curvature(wide)
    assert cp.minimize(wide, cp.L2(1e-2), method=quasi_newton()).status == "optimal"


@pytest.mark.parametrize("lam", [1e-2, 1e-4])
def test_takes_fewer_inferences_than_a_line_search(lam):
    counts = []
    for method in (quasi_newton(), cp.bmrm()):
        risk = crf(2, 200)
        assert cp.minimize(risk, cp.L2(lam), method=method, tol=1e-2).status == "optimal"
        counts.append(risk.inferences)
    assert 2 * counts[0] < counts[1]


def test_the_same_run_gives_the_same_bits_also_when_resumed():
    risk, options = crf(3), {"method": quasi_newton(steps=3), "tol": 1e-12}
    whole = cp.minimize(risk, cp.L2(1e-3), max_iter=12, **options)
    half = cp.minimize(risk, cp.L2(1e-3), max_iter=7, **options)
    resumed = cp.minimize(risk, cp.L2(1e-3), max_iter=12, resume=half.state, **options)
    np.testing.assert_array_equal(resumed.w, whole.w)
    bounds = [(r.objective, r.lower_bound) for r in whole.history]
    assert [(r.objective, r.lower_bound) for r in resumed.history] == bounds


def test_says_which_regularizers_it_needs():
    with pytest.raises(ValueError, match="quadratic regularizer"):
        cp.minimize(crf(0), cp.ElasticNet(0.1, 0.1), method=quasi_newton())


def test_a_smooth_risk_that_is_not_convex():
    # A double well in each coordinate, tilted: the lower one is at -1.
    def wells(w):
        value = float(np.sum((w**2 - 1.0) ** 2 + 0.1 * w))
        return value, 4.0 * w * (w**2 - 1.0) + 0.1

    risk = cp.FunctionRisk(wells, 30, convex=False)
    regularizer, start = cp.L2(0.1), np.linspace(-2.0, -0.1, 30)
    with pytest.raises(ValueError, match="the method quasi-newton needs a convex risk"):
        cp.minimize(risk, regularizer, method=cp.quasi_newton(), start=start)
    method = cp.quasi_newton(cuts=NonConvexCuts())
    result = cp.minimize(risk, regularizer, method=method, start=start, tol=1e-6)
    assert result.status is cp.Status.STATIONARY
    assert not result.certificate.valid
    assert result.stationarity is not None
    slope = wells(result.w)[1] + regularizer.gradient(result.w)
    assert np.abs(slope).max() < 1e-2
    assert (result.w < -0.9).all()


@pytest.mark.parametrize("loss", [cp.Logistic(), cp.Hinge()], ids=repr)
def test_any_risk_may_ask_for_it_by_name(loss):
    X = np.random.default_rng(3).normal(size=(60, 3))
    risk = cp.ScoredRisk(X, np.sign(X[:, 0]), loss)
    assert cp.minimize(risk, cp.L2(0.1), method="quasi-newton").status == "optimal"
