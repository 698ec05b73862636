"""The losses with a share nu: against linear programs, libsvm, and the laws of all losses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.svm import SVC, NuSVC, NuSVR

import cutplane as cp
from cutplane.losses.nu import lowest_tail
from cutplane.testing import check_loss

N = 60


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)) + 0.5
    return X, X @ [1.0, -1.0, 0.5] + rng.normal(size=N) + 4.0


def by_linear_program(nu, y, scores, weights, *, intercept):
    """Minimize over epsilon, c and slacks: slack_i >= +-(z_i + c - y_i) - epsilon."""
    n = len(y)
    one, eye, r = np.ones((n, 1)), np.eye(n), scores - y
    found = linprog(
        np.concatenate([[nu, 0.0], weights]),
        A_ub=np.vstack([np.hstack([-one, one, -eye]), np.hstack([-one, -one, -eye])]),
        b_ub=np.concatenate([-r, r]),
        bounds=[(0.0, None), (None, None) if intercept else (0.0, 0.0), *[(0.0, None)] * n],
    )
    assert found.success
    return found.fun


@pytest.mark.parametrize("nu", [0.4, 1.0])
@pytest.mark.parametrize("equal", [True, False])
def test_values_are_minima(nu, equal):
    _, y = data()
    loss, rng = cp.NuInsensitive(nu), np.random.default_rng(1)
    weights = np.ones(N) if equal else rng.uniform(0.2, 2.0, size=N)
    weights /= weights.sum()
    for scores in (rng.normal(size=N), np.zeros(N), np.round(rng.normal(size=N))):
        expected = by_linear_program(nu, y, scores, weights, intercept=False)
        np.testing.assert_allclose(loss.value(y, scores, weights), expected, atol=1e-9)
        best = loss.minimize_offset(y, scores, weights)
        lowest = by_linear_program(nu, y, scores, weights, intercept=True)
        np.testing.assert_allclose(best.value, lowest, atol=1e-9)
        at_best = loss.value(y, scores + best.offset, weights)
        np.testing.assert_allclose(at_best, lowest, atol=1e-9)
        slopes = loss.zero_sum_slopes(y, scores, best.offset, weights)
        assert abs(slopes.sum()) <= 1e-12
        # The tangent is below the minimum over all intercepts, everywhere.
        offset = loss.tangent_offset(y, scores, slopes, weights)
        for _ in range(20):
            other = rng.normal(size=N)
            height = slopes @ other + offset
            assert height <= loss.minimize_offset(y, other, weights).value + 1e-12


def test_laws_of_losses():
    check_loss(cp.NuInsensitive(0.4))


@pytest.mark.parametrize("nu", [0.3, 0.7])
@pytest.mark.parametrize("C", [0.1, 1.0])
def test_regressor_is_that_of_libsvm(nu, C):
    X, y = data()
    lam = 1.0 / (C * N)
    model = cp.LinearRegressor("nu_insensitive", nu=nu, lam=lam, tol=1e-7).fit(X, y)
    peer = NuSVR(nu=nu, C=C, kernel="linear", tol=1e-9).fit(X, y)
    w = peer.coef_[0]
    objective = lam / 2 * w @ w + cp.ScoredRisk(X, y, cp.NuInsensitive(nu)).at(w).value
    certificate = model.certificate_
    assert certificate.lower_bound <= objective + 1e-9
    np.testing.assert_allclose(certificate.objective, objective, rtol=1e-4)
    outside = np.abs(y - model.predict(X))
    width = np.sort(outside)[-int(np.ceil(nu * N))]
    assert np.mean(outside > width * (1.0 + 1e-9)) <= nu


def test_nu_that_cannot_be():
    X, y = data()
    for nu in (0.0, 1.5):
        with pytest.raises(ValueError, match="nu must be above 0"):
            cp.LinearRegressor("nu_insensitive", nu=nu).fit(X, y)


def test_a_model_file_keeps_nu(tmp_path):
    X, y = data()
    model = cp.LinearRegressor("nu_insensitive", nu=0.3).fit(X, y)
    cp.save_model(model, tmp_path / "model")
    read = cp.load_model(tmp_path / "model")
    assert read.nu == 0.3
    np.testing.assert_array_equal(read.predict(X), model.predict(X))


def test_kernel_regressor_is_that_of_libsvm():
    X, y = data()
    ours = cp.KernelRegressor("nu_insensitive", nu=0.4, C=2.0, gamma=0.3, tol=1e-10).fit(X, y)
    theirs = NuSVR(nu=0.4, C=2.0, gamma=0.3, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-4)


def labels(bent=False):
    X, z = data()
    if bent:
        z = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2]
    return X, np.where(z > np.median(z), 1.0, -1.0)


def margin_program(nu, y, scores, weights, *, intercept):
    """Minimize over rho, c and slacks: slack_i >= rho - y_i (z_i + c)."""
    n = len(y)
    found = linprog(
        np.concatenate([[-nu, 0.0], weights]),
        A_ub=np.hstack([np.ones((n, 1)), -y[:, None], -np.eye(n)]),
        b_ub=y * scores,
        bounds=[(None, None), (None, None) if intercept else (0.0, 0.0), *[(0.0, None)] * n],
    )
    assert found.success
    return max(nu + found.fun, 0.0)


@pytest.mark.parametrize("nu", [0.3, 0.6])
@pytest.mark.parametrize("equal", [True, False])
def test_values_of_the_hinge_are_minima(nu, equal):
    _, y = labels()
    loss, rng = cp.NuHinge(nu), np.random.default_rng(1)
    weights = np.ones(N) if equal else rng.uniform(0.2, 2.0, size=N)
    weights /= weights.sum()
    apart = rng.normal(size=N) + 3.0 * y
    for scores in (rng.normal(size=N), np.zeros(N), np.round(rng.normal(size=N)), apart):
        expected = margin_program(nu, y, scores, weights, intercept=False)
        np.testing.assert_allclose(loss.value(y, scores, weights), expected, atol=1e-9)
        best = loss.minimize_offset(y, scores, weights)
        lowest = margin_program(nu, y, scores, weights, intercept=True)
        np.testing.assert_allclose(best.value, lowest, atol=1e-9)
        np.testing.assert_allclose(loss.value(y, scores + best.offset, weights), lowest, atol=1e-9)
        margin = loss.margin(y, scores, weights)
        inside = np.maximum(0.0, margin - y * (scores + best.offset))
        reached = nu * (1.0 - margin) + weights @ inside
        np.testing.assert_allclose(max(reached, 0.0), lowest, atol=1e-9)


@given(seed=st.integers(0, 10**6), nu=st.floats(0.01, 1.0))
def test_tangents_of_the_hinge_stay_below(seed, nu):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(12) % 2 == 0, 1.0, -1.0)
    weights = rng.uniform(0.1, 1.0, 12)
    weights[y > 0.0] /= 2.0 * weights[y > 0.0].sum()
    weights[y < 0.0] /= 2.0 * weights[y < 0.0].sum()
    loss, scores, other = cp.NuHinge(nu), rng.normal(size=12).round(1), 3.0 * rng.normal(size=12)
    if seed % 2:
        scores += y  # such that the loss is cut off, with small nu
    value, slopes = loss(y, scores, weights)
    assert loss.value(y, other, weights) >= value + slopes @ (other - scores) - 1e-12
    assert value <= weights @ np.maximum(0.0, 1.0 - y * scores) + 1e-12
    best = loss.minimize_offset(y, scores, weights)
    slopes = loss.zero_sum_slopes(y, scores, best.offset, weights)
    assert abs(slopes.sum()) <= 1e-12
    height = slopes @ other + loss.tangent_offset(y, scores, slopes, weights)
    assert loss.minimize_offset(y, other, weights).value >= height - 1e-12


def test_a_tail_that_ends_between_two_values_ends_in_the_middle():
    values, weights = np.array([3.0, 1.0, 2.0, 5.0]), np.array([0.25, 0.25, 0.0, 0.5])
    shares, end = lowest_tail(values, weights, 0.25)
    np.testing.assert_array_equal(shares, [0.0, 0.25, 0.0, 0.0])
    assert end == 2.0
    assert lowest_tail(values, weights, 0.4)[1] == 3.0
    assert lowest_tail(values, weights, 1.0)[1] == 5.0


def test_laws_of_the_hinge():
    check_loss(cp.NuHinge(0.4))
    X, y = labels()
    cp.testing.check_risk(cp.ScoredRisk(X, y, cp.NuHinge(0.4)))


# Half of nu is no whole number of examples: else there is a range of margins to choose from.
@pytest.mark.parametrize("nu", [0.55, 0.72])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("lam", [1e-4, 1e-2])
def test_classifier_is_that_of_libsvm_but_for_the_margin(nu, kernel, lam):
    X, y = labels(bent=kernel == "rbf")
    theirs = NuSVC(nu=nu, kernel=kernel, tol=1e-10).fit(X, y)
    share = {"nu": nu, "lam": lam, "tol": 1e-10}
    models = [cp.KernelClassifier("nu_hinge", kernel=kernel, **share)]
    if kernel == "linear":
        models.append(cp.LinearClassifier("nu_hinge", **share))
    for model in models:
        scores = model.fit(X, y).decision_function(X)
        margin = cp.NuHinge(nu).margin(y, scores, np.full(N, 1.0 / N))
        np.testing.assert_allclose(scores / margin, theirs.decision_function(X), atol=2e-5)
        inside = y * scores < margin * (1.0 - 1e-6)
        assert inside.mean() <= nu <= (y * scores <= margin * (1.0 + 1e-6)).mean()


def test_classifier_is_the_machine_with_the_margin_that_was_found():
    """With C = 1 / (rho n) and lam = 1, libsvm's machine with a margin of one is the same."""
    X, y = labels()
    model = cp.LinearClassifier("nu_hinge", nu=0.6, lam=1.0, tol=1e-12).fit(X, y)
    scores = model.decision_function(X)
    margin = cp.NuHinge(0.6).margin(y, scores, np.full(N, 1.0 / N))
    peer = SVC(C=1.0 / (margin * N), kernel="linear", tol=1e-10).fit(X, y)
    np.testing.assert_allclose(scores / margin, peer.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("lam", [1e-3, 0.1])  # the loss is cut off at the one, not at the other
@pytest.mark.parametrize("intercept", [True, False])
def test_classifier_agrees_with_an_interior_point_solver(intercept, lam):
    cvxpy = pytest.importorskip("cvxpy")
    X, y = labels()
    weights = np.random.default_rng(2).uniform(0.2, 2.0, size=N)
    w, rho, c = cvxpy.Variable(3), cvxpy.Variable(), cvxpy.Variable()
    inside = cvxpy.pos(rho - cvxpy.multiply(y, X @ w + (c if intercept else 0.0)))
    objective = 0.6 * (1.0 - rho)
    objective = cvxpy.pos(objective + weights @ inside / weights.sum())
    problem = cvxpy.Problem(cvxpy.Minimize(lam / 2 * cvxpy.sum_squares(w) + objective))
    problem.solve(solver="CLARABEL")
    model = cp.LinearClassifier("nu_hinge", nu=0.6, lam=lam, tol=1e-8, fit_intercept=intercept)
    certificate = model.fit(X, y, sample_weight=weights).certificate_
    assert certificate.lower_bound <= problem.value + 1e-7
    assert certificate.objective == pytest.approx(problem.value, rel=1e-6)
    np.testing.assert_allclose(model.coef_[0], w.value, atol=1e-3)


def test_a_share_too_large_for_the_smaller_class():
    X, _ = data()
    y = np.where(np.arange(N) < 12, 1, -1)  # a fifth
    X[:, 0] += 2.0 * y
    for model in (cp.LinearClassifier, cp.KernelClassifier):
        with pytest.raises(ValueError, match=r"nu=0.5 is infeasible: it can be at most 0.4"):
            model("nu_hinge", nu=0.5).fit(X, y)
    cp.LinearClassifier("nu_hinge", nu=0.4).fit(X, y)
    cp.LinearClassifier("nu_hinge", nu=0.5, class_weight="balanced").fit(X, y)
    with pytest.raises(ValueError, match="specified nu is infeasible"):
        NuSVC(nu=0.5).fit(X, y)
    with pytest.raises(ValueError, match="nu must be above 0"):
        cp.NuHinge(1.5)


def test_a_share_too_small_for_overlapping_classes():
    """Where the best model is zero the gap is still a share of something: of nu."""
    X, _ = data()
    y = np.random.default_rng(3).choice([-1, 1], N)
    for model in (cp.LinearClassifier, cp.KernelClassifier):
        tried = model("nu_hinge", nu=0.05)
        if model is cp.KernelClassifier:
            tried.set_params(kernel="linear")
        with pytest.warns(cp.ConstantModelWarning, match="try a larger nu"):
            tried.fit(X, y)
        assert tried.certificate_.status == "optimal"
        assert tried.certificate_.objective == pytest.approx(0.05, rel=1e-3)


def test_a_model_file_keeps_nu_of_classifiers(tmp_path):
    X, y = labels()
    for model in (cp.LinearClassifier("nu_hinge", nu=0.6), cp.KernelClassifier("nu_hinge", nu=0.6)):
        cp.save_model(model.fit(X, y), tmp_path / "model")
        read = cp.load_model(tmp_path / "model")
        assert read.nu == 0.6
        np.testing.assert_array_equal(read.decision_function(X), model.decision_function(X))
