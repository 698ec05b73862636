"""Dual ascent on shares of classes: valid planes, certified optima, exact steps.

What holds for Newton's method too is tested for both; its own laws are in test_class_newton.py.
"""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax, xlogy

import cutplane as cp
from cutplane.core.policies.bmrm import OnSegment
from cutplane.core.state import Problem
from cutplane.models.multiclass import ascent as kernels
from cutplane.models.multiclass.ascent import ClassAscent, ClassEpochs
from cutplane.models.multiclass.newton import ClassNewtonSteps
from cutplane.solvers.automatic import automatic
from cutplane.solvers.quasi_newton import SparseQuasiNewton

from ..risks.test_multiclass import (
    Sample,
    costs_of,
    dtypes,
    every_kind,
    every_loss,
    layouts,
    losses_of,
    seeds,
)

lams = st.sampled_from([1e-4, 1e-2, 1.0])
every_method = pytest.mark.parametrize("make", [cp.class_ascent, cp.class_newton])


def values_below(plane, risk, rng):
    """Assert that a plane lies below the risk at a few points."""
    for scale in (0.1, 1.0, 10.0):
        w = scale * rng.normal(size=risk.n_parameters)
        height, value = plane.slope @ w + plane.offset, risk.at(w).value
        assert height <= value + 1e-11 * (abs(height) + abs(value) + abs(plane.offset))


@every_kind
@given(seed=seeds, lam=lams, layout=layouts, dtype=dtypes, intercept=st.booleans())
def test_planes_stay_below_the_risk_and_bounds_never_fall(
    loss, seed, lam, layout, dtype, intercept
):
    sample = Sample(loss, seed, layout=layout, dtype=dtype)
    risk, regularizer = sample.risk(intercept=intercept), cp.L2(lam)
    ascent = ClassAscent(Problem(risk, regularizer))
    own, bound = ascent.initial(), -np.inf
    for _ in range(4):
        own = ascent.improved(own, most=3)
        drifted = own.W.copy()
        plane, own = ascent.plane(own)
        np.testing.assert_allclose(own.W, drifted, atol=1e-9 * (1.0 + np.abs(drifted).max()))
        values_below(plane, risk, sample.rng)
        now = plane.offset - regularizer.conjugate(-plane.slope)[0]
        if not intercept:  # the balance between the classes may cost more than an epoch gains
            assert now >= bound - 1e-12 * (abs(now) + 1.0)
        bound = now
        offsets = own.offsets[: sample.k].copy()
        own = ascent.chosen(own, ascent.point(own, offsets).scores)


@every_kind
@given(seed=seeds, intercept=st.booleans(), sharp=st.booleans())
def test_any_shares_make_a_plane_below_the_risk(loss, seed, intercept, sharp):
    sample = Sample(loss, seed)
    risk = sample.risk(intercept=intercept)
    ascent = ClassAscent(Problem(risk, cp.L2(0.1)))
    shares = sample.rng.dirichlet(np.full(sample.k, 0.05 if sharp else 1.0), len(sample.y))
    plane, _ = ascent.plane(replace(ascent.initial(), shares=shares))
    values_below(plane, risk, sample.rng)


@every_method
@every_kind
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("lam", [1e-2, 1e-1])
@pytest.mark.parametrize("seed", [2, 5, 31])
def test_the_optimum_is_between_the_bounds_at_every_check(make, loss, intercept, lam, seed):
    sample = Sample(loss, seed)
    found = cp.minimize(
        sample.risk(intercept=intercept), cp.L2(lam), method=make(), tol=1e-5,
        max_iter=5000,
    )  # fmt: skip
    optimum = sample.optimum(lam, intercept=intercept)  # from above, by about 1e-9
    assert found.status == "optimal"
    assert found.objective <= optimum * (1 + 1e-5)
    for record in found.history:
        assert record.lower_bound <= optimum
        assert record.objective >= optimum * (1 - 1e-6)


def projected(point):
    """The projection to the simplex, by sorting."""
    falling = np.sort(point)[::-1]
    levels = (np.cumsum(falling) - 1.0) / np.arange(1, len(point) + 1)
    return np.maximum(point - levels[np.flatnonzero(falling > levels)[-1]], 0.0)


@given(seed=seeds, q=st.floats(-6, 6).map(lambda power: 10.0**power), ties=st.booleans())
def test_a_step_of_crammer_and_singer_is_a_projection(seed, q, ties):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    v, share = rng.normal(size=n) * rng.choice([0.1, 1.0, 10.0]), rng.dirichlet(np.full(n, 0.3))
    v = v.round() if ties else v
    classes, new = np.empty(n, dtype=np.int64), np.empty(n)
    count = kernels.project(v, share, q, classes, new)
    found = np.zeros(n)
    found[classes[:count]] = new[:count]
    np.testing.assert_allclose(found, projected(share + v / q), atol=1e-9)
    assert set(np.flatnonzero(share)) <= set(classes[:count])


def test_without_curvature_all_goes_to_the_largest():
    classes, new = np.empty(3, dtype=np.int64), np.empty(3)
    count = kernels.project(np.array([0.0, 2.0, 1.0]), np.array([1.0, 0.0, 0.0]), 0.0, classes, new)
    assert dict(zip(classes[:count], new[:count], strict=True)) == {0: 0.0, 1: 1.0}


@given(seed=seeds, q=st.sampled_from([0.0]) | st.floats(-6, 6).map(lambda power: 10.0**power))
def test_a_step_of_softmax_goes_to_its_proximal_point(seed, q):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    z, share = rng.normal(size=n) * rng.choice([0.1, 1.0, 30.0]), rng.dirichlet(np.full(n, 0.3))
    new, room, more = np.empty(n), np.empty(n), np.empty(n)
    gain = kernels.soften(z, share, q, new, room, more)
    assert gain >= 0.0
    assert new.min() >= 0.0
    assert new.sum() == pytest.approx(1.0)

    # The step must leave next to nothing of what there was to gain: the dual is concave.
    def dual(shares):
        return shares @ z - xlogy(shares, shares).sum() - 0.5 * q * ((shares - share) ** 2).sum()

    there = softmax(z - q * (new - share))
    left = dual(there) - dual(new)
    assert left <= 0.1 * abs(dual(new) - dual(share)) + 1e-9 * (1.0 + q)


@every_kind
def test_gains_add_up_to_the_gap(loss):
    sample = Sample(loss, 8)
    risk, lam = sample.risk(intercept=False), 0.05
    ascent = ClassAscent(Problem(risk, cp.L2(lam)))
    own = ascent.improved(ascent.initial(), most=2)
    plane, own = ascent.plane(own)
    point = ascent.point(own, own.offsets)
    own = ascent.chosen(own, point.scores)
    w = point.w
    lower = plane.offset - plane.slope @ plane.slope / (2 * lam)
    assert own.gain == pytest.approx(point.value + 0.5 * lam * w @ w - lower)
    values = losses_of(sample.loss, sample.y, point.scores)
    conjugates = -(own.shares * costs_of(sample.loss, sample.y, sample.k)).sum(axis=1)
    if loss.smooth:
        conjugates += xlogy(own.shares, own.shares).sum(axis=1)
    slopes = own.shares - np.eye(sample.k)[sample.y]
    gains = sample.p * (values + conjugates - (slopes * point.scores).sum(axis=1))
    assert own.gain == pytest.approx(gains.sum())
    assert set(np.flatnonzero(gains > gains.mean())) <= set(own.examples)


@every_method
@every_kind
@pytest.mark.parametrize("intercept", [False, True])
def test_threads_do_not_change_a_bit(make, loss, intercept):
    sample = Sample(loss, 4, size=(3000, 6, 4))
    one, many = (
        cp.minimize(
            cp.ScoredRisk(
                cp.as_rows(sample.X, n_threads=n), sample.y, sample.loss, weights=sample.weights,
                intercept=intercept,
            ),
            cp.L2(1e-2), method=make(),
        )
        for n in (1, 4)
    )  # fmt: skip
    np.testing.assert_array_equal(one.w, many.w)
    assert one.certificate == many.certificate


@every_method
@every_kind
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layouts_agree(make, loss, index, dtype):
    sample = Sample(loss, 12, dtype=dtype, size=(60, 5, 3))
    X = sp.csr_array(sample.X)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    found = [
        cp.minimize(
            cp.ScoredRisk(data, sample.y, sample.loss, weights=sample.weights, intercept=False),
            cp.L2(0.01), method=make(), tol=1e-6, max_iter=2000,
        )
        for data in (X, sample.X, np.asfortranarray(sample.X))
    ]  # fmt: skip
    for one in found:
        assert one.status == "optimal"
        assert one.objective == pytest.approx(found[0].objective, rel=2e-6)


@every_method
@every_loss
@pytest.mark.parametrize("data", [np.zeros((6, 3)), sp.csr_array((6, 3)), np.ones((6, 1)) * 1e-200])
@pytest.mark.parametrize("intercept", [False, True])
def test_features_that_say_nothing(make, loss, data, intercept):
    y = np.array([0, 1, 1, 2, 2, 2])
    found = cp.minimize(
        cp.ScoredRisk(data, y, loss, intercept=intercept), cp.L2(0.1), method=make()
    )
    usual = cp.minimize(cp.ScoredRisk(data, y, loss, intercept=intercept), cp.L2(0.1))
    assert found.status == "optimal"
    assert found.objective == pytest.approx(usual.objective, rel=1e-3)


@every_method
@every_loss
def test_a_class_without_examples(make, loss):
    sample = Sample(loss, 3, size=(30, 4, 4))
    y = np.where(sample.y == 2, 0, sample.y)
    risk = cp.ScoredRisk(sample.X, y, loss, intercept=False)
    found = cp.minimize(risk, cp.L2(0.05), method=make(), tol=1e-5, max_iter=1000)
    exact = cp.minimize(risk, cp.L2(0.05), tol=1e-7)
    assert found.status == "optimal"
    assert found.certificate.lower_bound <= exact.objective
    assert exact.certificate.lower_bound <= found.objective <= exact.objective * (1 + 1e-5)


@every_method
@every_kind
@pytest.mark.parametrize("intercept", [False, True])
def test_shares_serve_another_lam(make, loss, intercept):
    sample = Sample(loss, 6, size=(200, 5, 4))
    risk, method = sample.risk(intercept=intercept), make()
    before = cp.minimize(risk, cp.L2(0.02), method=method, tol=1e-4, max_iter=1000)
    after = cp.minimize(
        risk, cp.L2(0.01), method=method, tol=1e-4, max_iter=1000, planes_from=before.state
    )
    alone = cp.minimize(risk, cp.L2(0.01), tol=1e-6)
    assert after.status == "optimal"
    assert after.certificate.lower_bound <= alone.objective
    assert after.objective >= alone.certificate.lower_bound
    # What the first run knows is not changed by the second.
    again = cp.minimize(risk, cp.L2(0.02), method=method, tol=1e-4, resume=before.state)
    np.testing.assert_array_equal(again.w, before.w)


@every_loss
def test_the_automatic_choice_follows_counts(loss):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 1000)

    def chosen(n_features, lam, regularizer=cp.L2):
        X = rng.choice([-1.0, 1.0], size=(1000, n_features))
        risk = cp.ScoredRisk(X, y, loss, intercept=False)
        method = automatic(Problem(risk, regularizer(lam)))
        return method.query if isinstance(method, cp.Method) else method

    assert isinstance(chosen(20, 1e-3), ClassNewtonSteps)
    assert isinstance(chosen(5, 1e-3), OnSegment)  # little data
    assert isinstance(chosen(20, 1e-6), ClassNewtonSteps)
    large_lam = ClassNewtonSteps if loss.smooth else ClassEpochs
    assert isinstance(chosen(20, 0.02), large_lam)  # a mean |x|^2 / (m lam) of one
    assert isinstance(chosen(501, 1e-3), ClassEpochs)  # many features
    sparse = SparseQuasiNewton if loss.smooth else OnSegment
    assert isinstance(chosen(20, 1e-3, cp.L1), sparse)
