"""The loss with a share nu: against linear programs, libsvm, and the laws of all losses."""

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.svm import NuSVR

import cutplane as cp
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
