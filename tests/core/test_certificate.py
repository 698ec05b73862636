"""What a certificate may say: infinite numbers prove nothing, and an optimum of zero is one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp
from cutplane.core.certificate import VANISHES, Certificate, Status
from cutplane.io.models.schema import CertificateEntry

NOT_FINITE = [math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("place", ["objective", "lower_bound"])
@pytest.mark.parametrize("number", NOT_FINITE)
def test_a_number_that_is_not_finite_proves_nothing(number, place, status):
    numbers = {"objective": 1.0, "lower_bound": 0.5} | {place: number}
    certificate = Certificate(**numbers, status=status, valid=True, reason="on all examples")
    assert not certificate.valid
    assert not certificate.status.success
    assert certificate.status is (Status.STOPPED if status.success else status)
    assert certificate.reason.endswith(", on all examples")
    assert "\n" not in str(certificate)
    assert "no model is better" not in str(certificate)


@given(
    objective=st.floats(), lower=st.floats(), valid=st.booleans(), status=st.sampled_from(Status)
)
def test_what_is_valid_is_finite(objective, lower, valid, status):
    certificate = Certificate(objective, lower, status, valid)
    finite = math.isfinite(objective) and math.isfinite(lower)
    assert certificate.valid == (valid and finite)
    assert finite or not certificate.status.success
    if finite:
        assert (certificate.status, certificate.reason) == (status, "")
    assert not math.isnan(certificate.relative_gap)


LOSSES = [
    cp.Absolute(),
    cp.Quantile(0.3),
    cp.EpsilonInsensitive(0.0),
    cp.EpsilonInsensitive(0.1),
    cp.Squared(),
    cp.Huber(),
]


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_an_optimum_of_zero_is_optimal(loss, scale):
    """The center fits all targets, but for rounding: what is left of the objective is rounding."""
    for seed, intercept in enumerate([True, False]):
        rng = np.random.default_rng(seed)
        X, center = rng.normal(size=(30, 4)), scale * rng.normal(size=4)
        y = X @ center + (scale if intercept else 0.0)
        risk = cp.ScoredRisk(X, y, loss, intercept=intercept)
        # Such that the same problem is solved in other units.
        lam = 1e-2 if isinstance(loss, cp.Squared | cp.Huber) else 1e-2 / scale
        for method in (cp.bmrm(), cp.bmrm(groups=3), cp.newton(), cp.level()):
            result = cp.minimize(risk, cp.L2(lam, center=center), method=method, max_iter=200)
            assert result.status == "optimal", (method.name, result)
            assert result.certificate.valid
            assert result.objective <= 1e-12 * max(scale, scale**2)
            assert CertificateEntry.of(result.certificate).certificate(1e-3) == result.certificate


def absolute_of(target):
    def function(w):
        return float(np.abs(w - target).sum()), np.where(w >= target, 1.0, -1.0)

    return function


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_an_optimum_of_zero_of_which_nothing_is_known_beforehand(scale):
    """A function with no lower bound of its own: the bound is below zero by its rounding."""
    target = scale * np.array([1.0, 0.3, -2.0])
    regularizer = cp.L2(0.5 / scale, center=target)
    result = cp.minimize(absolute_of(target), regularizer, start=np.zeros(3), max_iter=300)
    assert result.status == "optimal", result
    rounding = 1e-12 * scale
    assert -rounding <= result.certificate.lower_bound <= rounding
    assert 0.0 <= result.objective <= rounding


@pytest.mark.parametrize("off", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("loss", [cp.Absolute(), cp.Squared()], ids=repr)
def test_an_optimum_near_zero_hides_no_gap(loss, off):
    """Targets that the center misses by a little: that little is what the objective is about."""
    rng = np.random.default_rng(0)
    X, center = rng.normal(size=(30, 4)), rng.normal(size=4)
    y = X @ center + off * rng.normal(size=30)
    risk = cp.ScoredRisk(X, y, loss, intercept=False)
    regularizer = cp.L2(1e-2, center=center)
    best = cp.minimize(risk, regularizer, tol=1e-6, max_iter=2000).objective
    for n in (1, 2, 3):
        result = cp.minimize(risk, regularizer, tol=1e-3, max_iter=n)
        if result.status == "optimal":
            assert VANISHES not in result.certificate.reason
            assert result.objective - best <= 1e-3 * result.objective


def test_a_tolerance_below_rounding_is_not_called_reached():
    """Only an objective of zero is a matter of rounding: not a tolerance that is too small."""
    rng = np.random.default_rng(0)
    risk = cp.ScoredRisk(rng.normal(size=(40, 3)), rng.normal(size=40), cp.Absolute())
    result = cp.minimize(risk, cp.L2(1e-2), tol=1e-17, max_iter=200)
    assert result.certificate.relative_gap > 1e-17
    assert result.status in ("stalled", "iteration_limit")
