"""Regression of vectors: planes and medians by brute force, fits by CVXPY and Ridge."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

import cutplane as cp
from cutplane.testing import check_risk

LOSSES = [cp.Euclidean(), cp.SquaredEuclidean()]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def data(m=60, outliers=0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3)) + 0.5
    Y = X @ rng.normal(size=(3, 2)) + [4.0, -7.0] + 0.3 * rng.normal(size=(m, 2))
    Y[:outliers] += [30.0, 50.0]
    return X, Y


def by_hand(loss, residuals, weights):
    squares = (residuals**2).sum(axis=1)
    return weights @ (np.sqrt(squares) if isinstance(loss, cp.Euclidean) else squares / 2)


def sample(seed, m=9):
    rng = np.random.default_rng(seed)
    y, scores = rng.normal(size=(2, m, 3)).round(seed % 3)
    weights = rng.uniform(0.1, 1.0, m)
    weights[0] = 0.0
    return y, scores, weights / weights.sum(), rng


@every_loss
@given(seed=st.integers(0, 10**6))
def test_planes_stay_below_for_all_scores_and_offsets(loss, seed):
    y, scores, weights, rng = sample(seed)
    value = loss.value(y, scores, weights)
    assert value == pytest.approx(by_hand(loss, scores - y, weights), rel=1e-12)
    for at in (
        cp.ScoredRisk(np.eye(len(y)), y, loss, weights=weights, intercept=False)
        .at(scores.T.ravel())
        ._at,
        loss.at_best_offset(y, scores, weights, None),
    ):
        assert at.value <= value + 1e-12
        slopes, height = loss.tangent(y, scores, weights, at)
        touching = (slopes * scores).sum() + height
        assert touching == pytest.approx(at.value, rel=1e-8, abs=1e-9)
        assert touching <= at.value + 1e-12
        if at.offset is not None:
            assert np.abs(slopes.sum(axis=0)).max() <= 1e-12
        for _ in range(5):
            other = y + rng.normal(scale=3.0, size=y.shape)
            shift = 0.0 if at.offset is None else rng.normal(scale=3.0, size=3)
            reached = by_hand(loss, other + shift - y, weights)
            assert (slopes * other).sum() + height <= reached + 1e-12


@given(seed=st.integers(0, 10**6))
def test_offsets_are_geometric_medians(seed):
    y, scores, weights, _ = sample(seed)
    best = cp.Euclidean().at_best_offset(y, scores, weights, None)
    residuals = scores - y
    starts = [best.offset, *-residuals, -residuals.mean(axis=0)]  # a median may be an example
    lowest = min(
        minimize(lambda c: by_hand(cp.Euclidean(), residuals + c, weights), start, tol=1e-12).fun
        for start in starts
    )
    assert best.value <= lowest + 1e-9


def test_a_median_at_an_example():
    y = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    loss, weights = cp.Euclidean(), np.full(5, 0.2)
    best = loss.at_best_offset(y, np.zeros((5, 2)), weights, np.array([0.3, 0.2]))
    np.testing.assert_allclose(best.offset, 0.0, atol=1e-9)
    slopes, height = loss.tangent(y, np.zeros((5, 2)), weights, best)
    assert height == pytest.approx(best.value, rel=1e-9)
    assert np.abs(slopes.sum(axis=0)).max() <= 1e-15


@every_loss
@pytest.mark.parametrize("intercept", [True, False])
def test_laws_of_risks(loss, intercept):
    check_risk(cp.ScoredRisk(*data(), loss, intercept=intercept))


@pytest.mark.parametrize("loss", ["euclidean", "squared"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_agrees_with_an_interior_point_solver(loss, intercept, weighted):
    cvxpy = pytest.importorskip("cvxpy")
    X, Y = data(outliers=5)
    weights = np.random.default_rng(1).integers(0, 4, len(X)) if weighted else np.ones(len(X))
    W, c = cvxpy.Variable((3, 2)), cvxpy.Variable((1, 2))
    rows = X @ W - Y + (np.ones((len(X), 1)) @ c if intercept else 0.0)
    lengths = cvxpy.norm(rows, 2, axis=1)
    losses = lengths if loss == "euclidean" else cvxpy.square(lengths) / 2
    objective = 0.005 * cvxpy.sum_squares(W) + weights @ losses / weights.sum()
    problem = cvxpy.Problem(cvxpy.Minimize(objective))
    problem.solve(solver="CLARABEL")
    model = cp.VectorRegressor(loss, lam=0.01, tol=1e-8, fit_intercept=intercept)
    certificate = model.fit(X, Y, sample_weight=weights).certificate_
    assert certificate.status == "optimal"
    assert certificate.lower_bound <= problem.value * (1 + 1e-7)
    assert certificate.objective == pytest.approx(problem.value, rel=1e-6)
    np.testing.assert_allclose(model.coef_, W.value.T, atol=2e-3)


def test_squared_is_ridge():
    X, Y = data()
    ours = cp.VectorRegressor("squared", lam=0.05, tol=1e-12).fit(X, Y)
    theirs = Ridge(alpha=0.05 * len(X)).fit(X, Y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    assert ours.score(X, Y) == pytest.approx(theirs.score(X, Y), abs=1e-6)


def test_turning_the_axes_turns_the_model():
    X, Y = data(outliers=5)
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(2, 2)))[0]
    model = cp.VectorRegressor(lam=1e-2, tol=1e-10).fit(X, Y)
    turned = cp.VectorRegressor(lam=1e-2, tol=1e-10).fit(X, Y @ turn)
    np.testing.assert_allclose(turned.predict(X), model.predict(X) @ turn, atol=1e-3)


def test_one_output_is_absolute_loss():
    X, Y = data(outliers=5)
    y = Y[:, 0]
    model = cp.VectorRegressor(lam=1e-2, tol=1e-8).fit(X, y)
    absolute = cp.LinearRegressor("absolute", lam=1e-2, tol=1e-8).fit(X, y)
    assert model.predict(X).shape == y.shape
    certificate, other = model.certificate_, absolute.certificate_
    assert certificate.objective == pytest.approx(other.objective, rel=1e-7)


def test_outliers_do_little_harm():
    X, Y = data(200)
    clean = cp.VectorRegressor("squared", lam=1e-6).fit(X, Y).predict(X)
    _, dirty = data(200, outliers=20)
    errors = {
        loss: np.abs(cp.VectorRegressor(loss, lam=1e-6).fit(X, dirty).predict(X) - clean).max()
        for loss in ("euclidean", "squared")
    }
    assert errors["euclidean"] < 0.2 < 2.0 < errors["squared"]


def test_large_targets_and_exact_fits():
    X, _ = data()
    Y = X @ np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 0.0]]) + 1e9
    model = cp.VectorRegressor(lam=1e-6).fit(X, Y)
    assert model.certificate_.status == "optimal"
    np.testing.assert_allclose(model.predict(X), Y, rtol=1e-14)


@pytest.mark.parametrize("vector", [True, False])
def test_a_model_file_keeps_it(tmp_path, vector):
    X, Y = data()
    model = cp.VectorRegressor(lam=1e-3).fit(X, Y if vector else Y[:, 0])
    cp.save_model(model, tmp_path / "model")
    read = cp.load_model(tmp_path / "model")
    np.testing.assert_array_equal(read.predict(X), model.predict(X))
    assert (read.n_outputs_, read.vector_) == (model.n_outputs_, vector)
    read.set_params(warm_start=True).fit(X, Y if vector else Y[:, 0])
    assert read.certificate_.objective <= model.certificate_.objective * (1 + 1e-9)


def test_bad_input():
    X, Y = data()
    with pytest.raises(ValueError, match="unknown loss 'hinge'"):
        cp.VectorRegressor("hinge").fit(X, Y)
    with pytest.raises(ValueError, match="y has 2 rows, X has 60"):
        cp.ScoredRisk(X, Y[:2], cp.Euclidean())
    with pytest.raises(ValueError, match="targets must be a matrix"):
        cp.ScoredRisk(X, Y[:, 0], cp.Euclidean())
    with pytest.raises(ValueError, match="a target is not finite"):
        cp.ScoredRisk(X, np.full_like(Y, np.nan), cp.Euclidean())


@pytest.mark.filterwarnings("ignore::cutplane.ConstantModelWarning")
@parametrize_with_checks(
    [cp.VectorRegressor(lam=0.1, tol=1e-9), cp.VectorRegressor("squared", lam=0.1, tol=1e-9)]
)
def test_estimator_checks(estimator, check):
    check(estimator)
