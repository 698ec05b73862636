"""Dual coordinate ascent: valid planes, certified optima, every loss that it knows."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from tests.random_arrays import random_array

import cutplane as cp
from cutplane.compute.arrays import copied
from cutplane.core.state import Problem
from cutplane.losses import CLASSIFICATION, REGRESSION, PiecewiseLoss
from cutplane.models.gram.functions import Kernel
from cutplane.models.gram.risk import KernelRisk
from cutplane.models.gram.rows import KernelRows
from cutplane.regularizers import KernelNorm
from cutplane.solvers.dual_ascent import DualAscent, dual_ascent
from cutplane.solvers.row_steps import logistic_dual

PIECEWISE = [
    factory()
    for factory in (*CLASSIFICATION.values(), *REGRESSION.values())
    if issubclass(factory, PiecewiseLoss)
]
every_piecewise_loss = pytest.mark.parametrize("loss", PIECEWISE, ids=repr)
every_loss = pytest.mark.parametrize("loss", [*PIECEWISE, cp.Logistic()], ids=repr)


def sample(loss, seed, m=40, d=15, dtype=np.float64, intercept=False):
    rng = np.random.default_rng(seed)
    X = random_array((m, d), density=0.3, rng=rng, dtype=np.float64).tocsr().astype(dtype)
    X.data[:] = rng.normal(size=len(X.data))
    X.data[: X.indptr[1]] = 0.0  # a row of stored zeros
    y = rng.normal(size=m) if loss.task == "regression" else rng.choice([-1.0, 1.0], m)
    weights = rng.uniform(0.5, 2.0, m)
    weights[m // 2] = 0.0
    return cp.ScoredRisk(X, y, loss, weights=weights, intercept=intercept), rng


@every_loss
@given(seed=st.integers(0, 10**6), lam=st.sampled_from([1e-4, 1e-2, 1.0]), intercept=st.booleans())
def test_planes_stay_below_the_risk_and_bounds_never_fall(loss, seed, lam, intercept):
    risk, rng = sample(loss, seed, intercept=intercept)
    regularizer = cp.L2(lam)
    ascent = DualAscent(Problem(risk, cp.L2(lam)))
    duals = ascent.initial()
    bound = -np.inf
    for _ in range(5):
        duals = ascent.improved(duals, passes=1.0, most=3)
        drifted = duals.w.copy()
        plane, duals = ascent.plane(duals)
        np.testing.assert_allclose(duals.w, drifted, atol=1e-9 * (1.0 + np.abs(drifted).max()))
        for _ in range(5):
            w = rng.normal(size=risk.n_parameters) * rng.choice([0.1, 1.0, 10.0])
            height = plane.slope @ w + plane.offset
            value = risk.at(w).value
            assert height <= value + 1e-11 * (abs(height) + abs(value) + abs(plane.offset))
        now = plane.offset - regularizer.conjugate(-plane.slope)[0]
        if not intercept:  # the balance between the signs may cost more than an epoch gains
            assert now >= bound - 1e-12 * (abs(now) + 1.0)
        bound = now
        duals = ascent.shrunk(duals, risk.at(duals.w).scores)


@every_loss
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("intercept", [False, True])
@given(seed=st.integers(0, 10**6), epochs=st.integers(1, 4))
def test_dense_rows_take_the_steps_of_sparse_ones(loss, order, intercept, seed, epochs):
    risk, _ = sample(loss, seed, intercept=intercept)
    X = sp.csr_array((risk.rows.values, risk.rows.indices, risk.rows.starts), risk.rows.shape)
    full = np.asarray(X.toarray(), order=order)
    dense = cp.ScoredRisk(full, risk.y, loss, weights=risk.weights, intercept=intercept)
    found = []
    for each in (risk, dense):
        ascent = DualAscent(Problem(each, cp.L2(1e-2)))
        duals = ascent.initial()
        for _ in range(epochs):
            duals = ascent._epoch(duals, np.flatnonzero(risk.weights))[0]
        found.append(duals)
    sparse_duals, dense_duals = found
    np.testing.assert_allclose(dense_duals.w, sparse_duals.w, rtol=1e-6, atol=1e-9)
    assert dense_duals.offset == pytest.approx(sparse_duals.offset, rel=1e-6, abs=1e-9)


@every_loss
@pytest.mark.parametrize("lam", [1e-2, 1e-1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [False, True])
def test_agrees_with_the_bundle_method(loss, lam, dtype, intercept):
    risk, _ = sample(loss, 7, dtype=dtype, intercept=intercept)
    ours = cp.minimize(risk, cp.L2(lam), method=dual_ascent(), tol=1e-6, max_iter=20_000)
    exact = cp.minimize(risk, cp.L2(lam), tol=1e-9)
    assert ours.status == "optimal"
    assert exact.status == "optimal"
    assert ours.certificate.lower_bound <= exact.objective
    assert exact.certificate.lower_bound <= ours.objective <= exact.objective * (1 + 1e-6)
    for record in ours.history:
        assert record.lower_bound <= exact.objective
        assert record.objective >= exact.certificate.lower_bound


@given(
    margin=st.floats(-1e6, 1e6),
    q=st.sampled_from([0.0, 1e-300]) | st.floats(-12, 12).map(lambda power: 10.0**power),
    p=st.floats(0.0, 1.0) | st.floats(-30, 0).map(lambda power: 10.0**power),
)
def test_a_logistic_dual_goes_to_its_proximal_point(margin, q, p):
    low, high = 0.0, 1.0
    for _ in range(1100):  # down to the smallest numbers
        middle = 0.5 * (low + high)
        if middle < expit(-(margin + q * (middle - p))):
            low = middle
        else:
            high = middle
    found = logistic_dual(margin, q, p)
    assert 0.0 <= found <= 1.0
    assert abs(found - low) <= 0.03 * abs(low - p) + 4e-16


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e5])
def test_logistic_bounds_hold_however_stiff_the_duals_are(scale, intercept):
    risk, _ = sample(cp.Logistic(), 5, intercept=intercept)
    rows = risk.rows
    X = sp.csr_array((rows.values * scale, rows.indices, rows.starts), shape=rows.shape)
    risk = cp.ScoredRisk(X, risk.y, cp.Logistic(), weights=risk.weights, intercept=intercept)
    regularizer = cp.L2(1e-3)
    exact = cp.minimize(risk, regularizer, tol=1e-6, max_iter=5000)
    assert exact.status == "optimal"
    with np.errstate(all="raise", under="ignore"):
        found = cp.minimize(risk, regularizer, method=dual_ascent(), max_iter=30)
    assert found.certificate.valid
    for record in found.history:
        assert record.lower_bound <= exact.objective
        assert record.objective >= exact.certificate.lower_bound


@every_loss
@given(seed=st.integers(0, 10**6), lam=st.sampled_from([1e-3, 1e-1]))
def test_an_epoch_knows_the_gap_it_began_with(loss, seed, lam):
    # Examples that share no feature do not move each other's scores, so that what the epoch adds up
    # is the gap before it.
    rng = np.random.default_rng(seed)
    m = 30
    y = rng.normal(size=m) if loss.task == "regression" else rng.choice([-1.0, 1.0], m)
    X = sp.csr_array(np.diag(rng.uniform(0.5, 2.0, m)))
    risk = cp.ScoredRisk(X, y, loss, weights=rng.uniform(0.5, 2.0, m), intercept=False)
    ascent = DualAscent(Problem(risk, cp.L2(lam)))
    duals = ascent.initial()
    duals.beta[:] = risk.loss.slopes(risk.y, rng.normal(size=m), np.ones(m))
    plane, duals = ascent.plane(duals)
    point, regularizer = risk.at(duals.w), cp.L2(lam)
    gap = point.value + regularizer.value(duals.w) - problem_bound(plane, regularizer)
    after, seen, n_entries = ascent._epoch(duals, duals.movable)
    assert n_entries == m
    if isinstance(loss, cp.Logistic):  # to second order
        assert 0.2 * gap - 1e-12 <= seen <= 20.0 * gap + 1e-12
    else:
        assert seen == pytest.approx(gap, rel=1e-9, abs=1e-12)
    plane, after = ascent.plane(after)
    left = risk.at(after.w).value + regularizer.value(after.w) - problem_bound(plane, regularizer)
    assert left <= (0.05 * gap if isinstance(loss, cp.Logistic) else 0.0) + 1e-9 * (1.0 + gap)


def problem_bound(plane, regularizer):
    return plane.offset - regularizer.conjugate(-plane.slope)[0]


@every_loss
@given(seed=st.integers(0, 10**6))
def test_an_epoch_visits_each_example_once(loss, seed):
    risk, _ = sample(loss, seed)
    ascent = DualAscent(Problem(risk, cp.L2(1e-2)))
    duals = ascent.initial()
    examples = order = duals.visited if ascent.never_settle else duals.movable
    everyone, lengths = np.sort(examples), np.diff(risk.rows.starts)
    for _ in range(6):
        before = len(examples)
        expected = lengths[examples].sum()
        duals, gap, n_entries = ascent._epoch(duals, examples)
        assert n_entries == expected
        assert gap >= 0.0
        if not ascent.never_settle:
            assert len(duals.movable) <= before
            examples = duals.movable
    np.testing.assert_array_equal(np.sort(order), everyone)  # those left out are at its end


@pytest.mark.parametrize("loss", [cp.Hinge(), cp.Logistic()], ids=repr)
@pytest.mark.parametrize("what", ["one class", "duplicates", "weights"])
def test_bounds_hold_with_an_intercept_for_odd_data(loss, what):
    risk, rng = sample(loss, 13, intercept=True)
    rows, y, weights = risk.rows, risk.y, risk.weights
    X = sp.csr_array((rows.values, rows.indices, rows.starts), shape=rows.shape)
    if what == "one class":
        y = np.ones_like(y)
    elif what == "duplicates":
        X, y, weights = sp.vstack([X, X, X]).tocsr(), np.tile(y, 3), np.tile(weights, 3)
    else:
        weights = weights * 10.0 ** rng.uniform(-6.0, 6.0, len(y))
    risk = cp.ScoredRisk(X, y, loss, weights=weights, intercept=True)
    found = cp.minimize(risk, cp.L2(1e-2), method=dual_ascent(), tol=1e-4, max_iter=5000)
    exact = cp.minimize(risk, cp.L2(1e-2), tol=1e-7, max_iter=5000)
    for record in found.history:
        assert record.lower_bound <= exact.objective + 1e-12
        assert record.objective >= exact.certificate.lower_bound - 1e-12
    # Where only one class has a weight, no slopes but zero are balanced: the floor is the bound.
    assert found.status == "optimal" or what == "one class"


@pytest.mark.parametrize("intercept", [False, True])
def test_the_number_of_threads_leaves_no_trace(intercept):
    rng = np.random.default_rng(2)
    X = random_array((3000, 1500), density=0.1, rng=rng).tocsr()  # several blocks
    y = np.where(X @ rng.normal(size=1500) > 0.1, 1.0, -1.0)
    found = [
        cp.LinearClassifier(lam=1e-3, fit_intercept=intercept, method="dual-ascent", n_jobs=n).fit(
            X, y
        )
        for n in (1, 2, 5)
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other.coef_, found[0].coef_)
        np.testing.assert_array_equal(other.intercept_, found[0].intercept_)
        assert other.certificate_ == found[0].certificate_


def test_logistic_epochs_rest_the_examples_with_nothing_to_gain():
    risk, _ = sample(cp.Logistic(), 3, m=400)
    ascent = DualAscent(Problem(risk, cp.L2(1e-4)))
    duals = ascent.initial()
    for _ in range(3):
        _, duals = ascent.plane(ascent.improved(duals, passes=2.0, most=10))
        point = risk.at(duals.w)
        duals = ascent.shrunk(duals, point.scores)
    values, _, _ = risk.loss.derivatives(risk.y, point.scores)
    gains = values + risk.loss.conjugates(risk.y, duals.beta) - duals.beta * point.scores
    gains *= risk.weights
    moved = np.zeros(len(gains), dtype=bool)
    moved[duals.movable] = True
    assert 0 < moved.sum() < len(gains)
    assert gains[~moved].max() < gains[moved].min()
    assert gains[~moved].sum() <= 0.03 * gains.sum()
    # Nobody rests for ever.
    before = duals.beta.copy()
    duals = ascent.improved(duals, passes=1.0, most=1)
    changed = duals.beta != before
    assert changed[risk.weights > 0].mean() > 0.9


@every_piecewise_loss
def test_shrinking_leaves_only_settled_duals_out(loss):
    risk, _ = sample(loss, 3)
    ascent = DualAscent(Problem(risk, cp.L2(1e-2)))
    duals = ascent.initial()
    left_out = 0
    for _ in range(10):
        _, duals = ascent.plane(ascent.improved(duals, passes=1.0, most=3))
        duals = ascent.shrunk(duals, risk.at(duals.w).scores)
        for i in set(np.flatnonzero(risk.weights)) - set(duals.movable):
            alone = replace(copied(duals), movable=np.array([i]))
            alone = ascent.improved(alone, passes=1e-9, most=1)
            assert alone.beta[i] == duals.beta[i]
            left_out += 1
    if isinstance(loss, cp.Squared):  # its slopes have no ends to sit at
        assert left_out == 0
    elif not isinstance(loss, cp.SquaredEpsilonInsensitive):  # its flat part is too narrow here
        assert left_out > 0


@pytest.mark.parametrize("loss", [cp.Hinge(), cp.Logistic()], ids=repr)
@pytest.mark.parametrize("intercept", [False, True])
def test_the_same_run_gives_the_same_bits_also_when_resumed(loss, intercept):
    risk, _ = sample(loss, 11, m=200, d=50, intercept=intercept)
    regularizer, method = cp.L2(1e-3), dual_ascent()
    whole = cp.minimize(risk, regularizer, method=method, tol=1e-12, max_iter=8)
    again = cp.minimize(risk, regularizer, method=method, tol=1e-12, max_iter=8)
    np.testing.assert_array_equal(whole.w, again.w)
    half = cp.minimize(risk, regularizer, method=method, tol=1e-12, max_iter=3)
    kept = half.state.own.beta.copy()
    resumed = cp.minimize(
        risk, regularizer, method=method, tol=1e-12, max_iter=8, resume=half.state
    )
    np.testing.assert_array_equal(resumed.w, whole.w)
    np.testing.assert_array_equal(half.state.own.beta, kept)
    bounds = [(r.objective, r.lower_bound) for r in whole.history]
    assert [(r.objective, r.lower_bound) for r in resumed.history] == bounds


def test_says_why_it_cannot_be_used():
    X = sp.csr_array(np.eye(3))
    y = np.array([1.0, -1.0, 1.0])
    plain = cp.L2(0.1)
    for risk, regularizer, why in [
        (cp.ScoredRisk(X, y, cp.Exponential(), intercept=False), plain, "piecewise or logistic"),
        (
            cp.ScoredRisk(X, y, cp.Hinge(), intercept=False),
            cp.L2(1, center=y),
            "with neither center nor weights",
        ),
        (object(), plain, "linear risk"),
    ]:
        assert why in dual_ascent().obstacle(Problem(risk, regularizer))
    kernel = KernelRisk(KernelRows(Kernel("linear"), np.eye(3)), y, cp.Hinge(), intercept=False)
    with pytest.raises(ValueError, match=r"^DualEpochs needs a linear risk on rows in memory"):
        cp.minimize(kernel, KernelNorm(0.1), method=dual_ascent())
    risk = cp.ScoredRisk(X, y, cp.Hinge(), intercept=False)
    assert dual_ascent().obstacle(Problem(risk, plain)) is None


@pytest.mark.parametrize("size", [0.0, 1e-200])
def test_features_without_effect_leave_the_intercept(size):
    # Their squared norms are zero, but the duals must still be balanced for the intercept.
    y = np.where(np.arange(40) < 10, 1.0, -1.0)
    risk = cp.ScoredRisk(sp.csr_array(np.full((40, 3), size)), y, cp.Hinge())
    result = cp.minimize(risk, cp.L2(1e-2), method=dual_ascent())
    assert result.status == "optimal"
    assert result.objective == pytest.approx(0.5)  # always -1: a loss of 2 for a quarter
    assert result.certificate.lower_bound <= 0.5


@pytest.mark.parametrize("size", [1e200, np.nan])
@pytest.mark.parametrize(
    ("method", "loss"), [(dual_ascent(), cp.Hinge()), (cp.class_ascent(), cp.Softmax())]
)
def test_features_whose_squares_are_no_numbers_are_refused(size, method, loss):
    rng = np.random.default_rng(0)
    y = rng.permutation([0, 1] * 10)
    targets = y if loss.score_shape(y) else 2.0 * y - 1.0
    X = sp.csr_array(rng.uniform(0.5, 1.0, (20, 2)))
    X.data[7] *= size
    risk = cp.ScoredRisk(X, targets, loss, intercept=False)
    with pytest.raises(cp.NonFiniteRisk, match="scale the features"):
        cp.minimize(risk, cp.L2(0.1), method=method)


def test_the_plane_of_the_first_point_is_not_taken(monkeypatch):
    """Its pass over the data would tell nothing that the first epochs do not."""
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.normal(size=(60, 5)))
    risk = cp.ScoredRisk(X, np.sign(rng.normal(size=60)), cp.Hinge(), intercept=False)
    passes = []
    for name in ("scores", "pullback"):
        original = getattr(type(risk.rows), name)

        def counted(rows, numbers, original=original, name=name):
            passes.append(name)
            return original(rows, numbers)

        monkeypatch.setattr(type(risk.rows), name, counted)
    result = cp.minimize(risk, cp.L2(0.1), method=dual_ascent(), max_iter=1)
    # The plane of the duals, the scores where they lead, and the objective once more at the end.
    assert passes == ["pullback", "scores", "scores"]
    assert 0.0 < result.certificate.lower_bound <= result.objective
