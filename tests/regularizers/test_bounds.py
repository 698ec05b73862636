"""Bounds on coefficients are satisfied exactly, whatever the method, by the model that predicts."""

import warnings
from contextlib import suppress

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import cutplane as cp
from cutplane.solvers.registry import METHODS

N_FEATURES = 6
VALUES = {
    "hinge": lambda y, z: np.maximum(1.0 - y * z, 0.0),
    "logistic": lambda y, z: np.logaddexp(0.0, -y * z),
    "absolute": lambda y, z: np.abs(z - y),
    "squared": lambda y, z: 0.5 * (z - y) ** 2,
}


def problem(seed, *, classify):
    """Return rows and targets whose best coefficients lie on many of the bounds, and these."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, N_FEATURES)) + 2.0 * rng.normal(size=(60, 1))
    y = 3.0 * X @ rng.normal(size=N_FEATURES) + rng.normal(size=60)
    # Close on one side and far on the other: steps lead from far away to a bound, and meet it up to
    # the rounding of much larger numbers.
    lower, upper = np.full(N_FEATURES, -1000.3), np.full(N_FEATURES, 0.3)
    if seed % 3 == 1:
        lower, upper = -rng.uniform(0.0, 30.0, N_FEATURES), rng.uniform(0.0, 0.5, N_FEATURES)
    elif seed % 3 == 2:
        lower, upper = -rng.uniform(0.0, 3.0, N_FEATURES), np.full(N_FEATURES, np.inf)
    return X, np.where(y > 0.0, 1.0, -1.0) if classify else y, lower, upper


def assert_inside(w, lower, upper):
    assert (w >= lower).all(), (w - lower).min()
    assert (w <= upper).all(), (upper - w).min()


@pytest.mark.parametrize("loss", ["hinge", "logistic", "absolute", "squared"])
@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_coefficients_satisfy_bounds_exactly(method, loss):
    classify = loss in ("hinge", "logistic")
    make = cp.LinearClassifier if classify else cp.LinearRegressor
    n_fits = 0
    for seed in range(6):
        X, y, lower, upper = problem(seed, classify=classify)
        penalty = ["l2", "elasticnet"][seed % 2]
        model = make(
            loss, lam=1e-5, method=method, penalty=penalty, bounds=(lower, upper), max_iter=60
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", cp.ConstantModelWarning)
            with suppress(ValueError):  # some methods do not suit some penalties
                model.fit(X, y)
                n_fits += 1
        if not hasattr(model, "coef_"):
            continue
        w = np.ravel(model.coef_)
        assert_inside(w, lower, upper)
        # The objective is that of the coefficients that predict.
        values = VALUES[loss](y, X @ w + np.ravel(model.intercept_))
        norm = 0.5 * w @ w if penalty == "l2" else 0.25 * w @ w + 0.5 * np.abs(w).sum()
        expected = model.lam_ * norm + values.mean()
        np.testing.assert_allclose(model.certificate_.objective, expected, rtol=1e-9, atol=1e-12)
    assert n_fits or method not in ("auto", "bmrm", "bmrm-line-search", "grouped")


METHODS_OF_MINIMIZE = {
    "bmrm": cp.bmrm,
    "no search": lambda: cp.bmrm(line_search=False),
    "groups": lambda: cp.bmrm(groups=3),
    "few planes": lambda: cp.bmrm(planes=5),
    "coordinates": cp.solvers.coordinate_descent,
}


@pytest.mark.parametrize("method", METHODS_OF_MINIMIZE)
def test_parameters_satisfy_bounds_exactly(method):
    for seed in range(12):
        X, y, lower, upper = problem(seed, classify=bool(seed % 2))
        loss = cp.Logistic() if seed % 2 else cp.Squared()
        risk = cp.ScoredRisk(X, y, loss)
        for regularizer in (
            cp.BoundedL2(1e-5, lower=lower, upper=upper),
            cp.BoundedElasticNet(1e-5, 0.5, lower=lower, upper=upper),
        ):
            result = cp.minimize(
                risk, regularizer, method=METHODS_OF_MINIMIZE[method](), max_iter=40
            )
            assert_inside(result.w, lower, upper)
            assert result.point.w is result.w
            objective = regularizer.value(result.w) + risk.at(result.w).value
            np.testing.assert_allclose(result.objective, objective, rtol=1e-9)


def test_boxes_are_satisfied_exactly():
    for seed in range(8):
        X, y, lower, upper = problem(seed, classify=True)
        upper = np.minimum(upper, 100.0)
        risk = cp.ScoredRisk(X, y, cp.Hinge())
        result = cp.minimize(risk, cp.Box(lower, upper), method=cp.kelley(), max_iter=40)
        assert_inside(result.w, lower, upper)


def test_what_is_inside_stays_the_same_object():
    w = np.array([0.1, 0.2])
    regularizer = cp.BoundedL2(1.0, lower=0.0, upper=0.3)
    assert regularizer.inside(w) is w
    np.testing.assert_array_equal(regularizer.inside(w + 0.2), [min(0.1 + 0.2, 0.3), 0.3])
