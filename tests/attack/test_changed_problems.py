"""What one run found goes to another: to the same problem only, and then every bound is true.

Each test makes a problem, runs, changes something, and hands the first run to the second. Either
the library says no, in one line, or the bounds of the second run hold for the second problem.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import cvxpy
import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

import cutplane as cp

from .references import Extended, Penalty, Pointwise, Reference, extended

D = 3
TOL = 1e-4


@dataclass(frozen=True)
class Data:
    """A linear problem: all that its risk is made of."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    loss: str = "quantile"
    parameter: float = 0.3
    intercept: bool = True

    def risk(self):
        makers = {
            "quantile": cp.Quantile,
            "huber": cp.Huber,
            "epsilon_insensitive": cp.EpsilonInsensitive,
        }
        loss = makers[self.loss](self.parameter)
        return cp.ScoredRisk(self.X, self.y, loss, weights=self.weights, intercept=self.intercept)

    def reference(self, penalty):
        weights = np.ones(len(self.y)) if self.weights is None else self.weights
        p = extended(weights) / extended(weights).sum()
        term = Pointwise(self.loss, self.X, self.y, p, self.parameter, int(self.intercept))
        return Reference(term, penalty, D)


def data_of(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(25, D))
    y = X @ rng.normal(size=D) + rng.normal(size=25)
    return Data(X, y, rng.uniform(0.5, 2.0, 25))


def with_entry(array, value):
    changed = array.copy()
    changed[3] = value
    return changed


RISK_CHANGES = {
    "weights": lambda d: replace(d, weights=with_entry(d.weights, 5.0)),
    "no weights": lambda d: replace(d, weights=None),
    "a weight of zero": lambda d: replace(d, weights=with_entry(d.weights, 0.0)),
    "a target": lambda d: replace(d, y=with_entry(d.y, -7.0)),
    "all targets lower": lambda d: replace(d, y=0.5 * d.y),
    "smaller features": lambda d: replace(d, X=0.9 * d.X),
    "larger features": lambda d: replace(d, X=3.0 * d.X),
    "a feature": lambda d: replace(d, X=with_entry(d.X, 0.0)),
    "features in another order": lambda d: replace(d, X=np.ascontiguousarray(d.X[:, ::-1])),
    "rows dropped": lambda d: replace(d, X=d.X[:15], y=d.y[:15], weights=d.weights[:15]),
    "the loss's parameter": lambda d: replace(d, parameter=0.7),
    "another loss": lambda d: replace(d, loss="huber", parameter=0.3),
    "a lower loss": lambda d: replace(d, loss="epsilon_insensitive", parameter=0.4),
    "no intercept": lambda d: replace(d, intercept=False),
}

METHODS = {
    "bmrm": lambda: cp.bmrm(line_search=False),
    "search": lambda: cp.bmrm(),
    "planes": lambda: cp.bmrm(planes=4),
    "groups": lambda: cp.bmrm(groups=3),
    "level": cp.level,
    "newton": cp.newton,
    "dual_ascent": cp.dual_ascent,
}


def l2_penalty(lam, center=None, weights=None):
    c = np.zeros(D) if center is None else np.asarray(center)
    t = np.ones(D) if weights is None else np.asarray(weights)
    return Penalty(
        lambda w: Extended(lam) / 2 * np.sum((extended(t) * (w - extended(c))) ** 2),
        lambda w: lam / 2 * cvxpy.sum_squares(cvxpy.multiply(t, w - c)),
    )


def form_penalty(lam, Q):
    root = np.linalg.cholesky(Q).T
    return Penalty(
        lambda w: Extended(lam) / 2 * (w @ extended(Q) @ w),
        lambda w: lam / 2 * cvxpy.sum_squares(root @ w),
    )


def elastic_penalty(lam, ratio):
    return Penalty(
        lambda w: lam * (ratio * np.abs(w).sum() + (1 - ratio) / 2 * np.sum(w * w)),
        lambda w: lam * (ratio * cvxpy.norm1(w) + (1 - ratio) / 2 * cvxpy.sum_squares(w)),
    )


def lp_penalty(lam, p):
    return Penalty(
        lambda w: Extended(lam) / 2 * np.sum(np.abs(w) ** Extended(p)) ** (2 / Extended(p)),
        lambda w: lam / 2 * cvxpy.square(cvxpy.pnorm(w, p)),
    )


def bounded_penalty(lam, upper):
    return Penalty(
        lambda w: Extended(lam) / 2 * np.sum(w * w),
        lambda w: lam / 2 * cvxpy.sum_squares(w),
        lambda w: [w >= 0, w <= upper],
        lambda w: np.clip(w, 0.0, upper),
    )


ONE, OTHER = np.array([0.5, -1.0, 2.0]), np.array([2.0, 0.5, 1.0])
FORM = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 3.0]])
L2 = (cp.L2(0.1), l2_penalty(0.1))

# Before and after: each a regularizer and its formula.
REGULARIZER_CHANGES = {
    "lam": (L2, (cp.L2(0.02), l2_penalty(0.02))),
    "a center": (L2, (cp.L2(0.1, center=ONE), l2_penalty(0.1, ONE))),
    "another center": (
        (cp.L2(0.1, center=ONE), l2_penalty(0.1, ONE)),
        (cp.L2(0.1, center=-ONE), l2_penalty(0.1, -ONE)),
    ),
    "weights": (
        (cp.L2(0.1, weights=OTHER), l2_penalty(0.1, None, OTHER)),
        (cp.L2(0.1, weights=OTHER / 4), l2_penalty(0.1, None, OTHER / 4)),
    ),
    "the matrix": (
        (cp.QuadraticForm(0.1, FORM), form_penalty(0.1, FORM)),
        (cp.QuadraticForm(0.1, FORM / 9), form_penalty(0.1, FORM / 9)),
    ),
    "another kind": (L2, (cp.QuadraticForm(0.1, FORM / 9), form_penalty(0.1, FORM / 9))),
    "the ratio": (
        (cp.ElasticNet(0.1, 0.8), elastic_penalty(0.1, 0.8)),
        (cp.ElasticNet(0.1, 0.2), elastic_penalty(0.1, 0.2)),
    ),
    "p": (
        (cp.SquaredLp(0.1, 1.2), lp_penalty(0.1, 1.2)),
        (cp.SquaredLp(0.1, 1.9), lp_penalty(0.1, 1.9)),
    ),
    "the bounds": (
        (cp.BoundedL2(0.1, lower=0.0, upper=0.2), bounded_penalty(0.1, 0.2)),
        (cp.BoundedL2(0.1, lower=0.0, upper=1.0), bounded_penalty(0.1, 1.0)),
    ),
}

HANDED_OVER = ("resume", "planes_from")


def run(data, regularizer, method, *, tol=TOL, **known):
    return cp.minimize(data.risk(), regularizer, method=method, tol=tol, max_iter=400, **known)


def require_true(certificate, w, intercept, reference, tol):
    """Assert that what a certificate says holds for the problem of the reference."""
    reference.solve()
    true = reference.objective(w, intercept)
    rounding = 8 * reference.rounding(w, intercept)
    if not certificate.valid:  # it says itself that it proves nothing
        assert certificate.status == "inconsistent"
        return
    assert abs(certificate.objective - true) <= 1e-9 * abs(true) + rounding
    assert certificate.lower_bound <= reference.best + 1e-12 * abs(reference.best) + rounding
    if certificate.status == "optimal":
        assert true - reference.best <= tol * abs(true) + rounding


def result_or_refusal(call):
    """Return the result and nothing, or nothing and what the library said."""
    try:
        return call(), ""
    except ValueError as error:
        return None, str(error)


def refused_or_true(data, regularizer, penalty, method, known):
    """Run on a changed problem; return whether it was refused."""
    result, refusal = result_or_refusal(lambda: run(data, regularizer, method, **known))
    if result is None:
        assert refusal
        assert "\n" not in refusal
        return True
    intercept = [result.point.intercept] if data.intercept else ()
    require_true(result.certificate, result.w, intercept, data.reference(penalty), TOL)
    return False


@pytest.mark.parametrize("how", HANDED_OVER)
@pytest.mark.parametrize("change", RISK_CHANGES)
@pytest.mark.parametrize("method", ["search", "groups", "newton"])
def test_a_changed_risk_is_refused_or_its_bounds_are_true(method, change, how):
    for seed in range(2):
        data = data_of(seed)
        earlier = run(data, cp.L2(0.1), METHODS[method](), tol=1e-2)
        changed = RISK_CHANGES[change](data)
        refused_or_true(changed, *L2, METHODS[method](), {how: earlier.state})


@pytest.mark.parametrize("how", HANDED_OVER)
@pytest.mark.parametrize("change", REGULARIZER_CHANGES)
def test_a_changed_regularizer_is_refused_or_its_bounds_are_true(change, how):
    (before, _), (after, penalty) = REGULARIZER_CHANGES[change]
    for seed in range(2):
        data = data_of(seed)
        earlier = run(data, before, cp.bmrm(), tol=1e-2)
        refused = refused_or_true(data, after, penalty, cp.bmrm(), {how: earlier.state})
        # Planes lie below the risk, whatever the regularizer.
        assert not (refused and how == "planes_from")


@pytest.mark.parametrize("first", METHODS)
@pytest.mark.parametrize("second", METHODS)
def test_planes_of_any_method_serve_any_other(first, second):
    data = data_of(1)
    data = replace(data, X=scipy.sparse.csr_array(data.X))
    earlier = run(data, cp.L2(0.5), METHODS[first](), tol=1e-2)
    result = run(data, cp.L2(0.1), METHODS[second](), planes_from=earlier.state)
    assert result.status == "optimal"
    reference = replace(data, X=data.X.toarray()).reference(L2[1])
    require_true(result.certificate, result.w, [result.point.intercept], reference, TOL)


@pytest.mark.parametrize("how", HANDED_OVER)
@pytest.mark.parametrize("change", RISK_CHANGES)
@pytest.mark.parametrize("method", ["bmrm", "search", "groups"])
def test_every_change_of_the_risk_is_refused(method, change, how):
    data = data_of(0)
    earlier = run(data, cp.L2(0.1), METHODS[method](), tol=1e-2)
    with pytest.raises(ValueError, match=r"another risk|its data have changed"):
        run(RISK_CHANGES[change](data), cp.L2(0.1), METHODS[method](), **{how: earlier.state})


@pytest.mark.parametrize("change", REGULARIZER_CHANGES)
def test_every_change_of_the_regularizer_is_refused_by_resume(change):
    (before, _), (after, _) = REGULARIZER_CHANGES[change]
    data = data_of(0)
    earlier = run(data, before, cp.bmrm(), tol=1e-2)
    with pytest.raises(ValueError, match="resume"):
        run(data, after, cp.bmrm(), resume=earlier.state)


REBUILT = {
    "equal arrays": lambda d: replace(d, X=d.X.copy(), y=d.y.copy(), weights=d.weights.copy()),
    "Fortran order": lambda d: replace(d, X=np.asfortranarray(d.X)),
    "weights to another scale": lambda d: replace(d, weights=4.0 * d.weights),
    "read-only": lambda d: replace(d, X=read_only(d.X)),
    "targets as a list": lambda d: replace(d, y=list(d.y)),
}


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


@pytest.mark.parametrize("how", HANDED_OVER)
@pytest.mark.parametrize("same", REBUILT)
@pytest.mark.parametrize("method", ["search", "groups", "newton"])
def test_the_same_problem_built_again_is_accepted(method, same, how):
    data = data_of(2)
    earlier = run(data, cp.L2(0.1), METHODS[method](), tol=1e-2)
    rebuilt = REBUILT[same](data)
    result = run(rebuilt, cp.L2(0.1), METHODS[method](), **{how: earlier.state})
    assert result.status == "optimal"
    reference = data.reference(L2[1])
    require_true(result.certificate, result.w, [result.point.intercept], reference, TOL)


@pytest.mark.parametrize("how", HANDED_OVER)
@pytest.mark.parametrize("regularizer", [pair[0] for pair in REGULARIZER_CHANGES.values()])
def test_the_same_regularizer_built_again_is_accepted(regularizer, how):
    made, penalty = regularizer
    again = {
        cp.L2: lambda r: cp.L2(r.lam, center=r.center, weights=r.weights),
        cp.QuadraticForm: lambda r: cp.QuadraticForm(r.lam, FORM.copy()),
        cp.ElasticNet: lambda r: cp.ElasticNet(0.1, 0.8),
        cp.SquaredLp: lambda r: cp.SquaredLp(0.1, 1.2),
        cp.BoundedL2: lambda r: cp.BoundedL2(0.1, lower=0.0, upper=0.2),
    }[type(made)](made)
    data = data_of(2)
    earlier = run(data, made, cp.bmrm(), tol=1e-2)
    assert not refused_or_true(data, again, penalty, cp.bmrm(), {how: earlier.state})


@pytest.mark.parametrize("how", HANDED_OVER)
@pytest.mark.parametrize("what", ["features", "targets"])
def test_data_changed_in_place(what, how):
    for seed in range(5):
        for factor in (0.3, 0.9, 3.0):
            data = data_of(seed)
            risk = data.risk()
            earlier = cp.minimize(risk, cp.L2(0.1), tol=1e-2)
            array = data.X if what == "features" else risk.y
            array *= factor
            now = data if what == "features" else replace(data, y=factor * data.y)
            result, refusal = result_or_refusal(
                lambda: cp.minimize(risk, cp.L2(0.1), tol=TOL, **{how: earlier.state})  # noqa: B023
            )
            if result is None:
                assert "\n" not in refusal
                continue
            # An intercept of targets that the risk has shifted would need the old shift.
            if what == "targets":
                now = replace(now, y=risk.y)
            reference = now.reference(L2[1])
            require_true(result.certificate, result.w, [result.point.offset], reference, TOL)


def classification(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, D))
    y = np.where(X @ rng.normal(size=D) + rng.normal(size=30) > 0, 1.0, -1.0)
    return X, y


def hinge_reference(X, y, lam, weights=None, *, intercept=True):
    p = np.ones(len(y)) if weights is None else weights
    term = Pointwise("hinge", X, y, extended(p) / extended(p).sum(), 0.0, int(intercept))
    return Reference(term, l2_penalty(lam), D)


ESTIMATOR_CHANGES = {
    "labels": lambda X, y: ((X, with_entry(y, -y[3])), {}),
    "all labels": lambda X, y: ((X, -y), {}),
    "features": lambda X, y: ((0.1 * X, y), {}),
    "larger features": lambda X, y: ((10.0 * X, y), {}),
    "rows": lambda X, y: ((X[5:], y[5:]), {}),
    "weights": lambda X, y: ((X, y), {"weights": np.linspace(0.1, 3.0, len(y))}),
    "lam": lambda X, y: ((X, y), {"lam": 1e-3}),
    "no intercept": lambda X, y: ((X, y), {"intercept": False}),
}


# Random data may have nothing to tell.
@pytest.mark.filterwarnings("ignore::cutplane.ConstantModelWarning")
@pytest.mark.parametrize("method", ["auto", "bmrm-line-search", "level", "dual-ascent"])
@pytest.mark.parametrize("change", ESTIMATOR_CHANGES)
def test_warm_start_with_another_problem(change, method):
    for seed in range(2):
        X, y = classification(seed)
        layout = scipy.sparse.csr_array if method == "dual-ascent" else np.asarray
        model = cp.LinearClassifier(lam=0.1, tol=TOL, warm_start=True, method=method)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(layout(X), y)
            (X, y), options = ESTIMATOR_CHANGES[change](X, y)
            lam, weights = options.get("lam", 0.1), options.get("weights")
            intercept = options.get("intercept", True)
            model.set_params(lam=lam, fit_intercept=intercept)
            model.fit(layout(X), y, sample_weight=weights)
        reference = hinge_reference(X, y, lam, weights, intercept=intercept)
        offset = np.atleast_1d(model.intercept_) if intercept else ()
        require_true(model.certificate_, np.ravel(model.coef_), offset, reference, TOL)


@pytest.mark.parametrize("method", ["auto", "bmrm-line-search", "limited-memory", "grouped"])
@pytest.mark.parametrize("seed", range(2))
def test_every_certificate_of_a_path_is_true(method, seed):
    X, y = classification(seed)
    path = cp.path(X, y, "hinge", [1.0, 0.1, 0.01, 1e-3], tol=TOL, method=method)
    for lam, coef, intercept, certificate in zip(
        path.lams, path.coefs, path.intercepts, path.certificates, strict=True
    ):
        offset = np.atleast_1d(intercept)
        reference = hinge_reference(X, y, float(lam))
        require_true(certificate, np.ravel(coef), offset, reference, TOL)


# Random data may have nothing to tell.
@pytest.mark.filterwarnings("ignore::cutplane.ConstantModelWarning")
@pytest.mark.parametrize("seed", range(2))
def test_the_certificate_after_cross_validation_is_true(seed):
    X, y = classification(seed)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, len(y))
    model = cp.LinearClassifierCV(lams=[1.0, 0.1, 0.01], cv=3, tol=TOL)
    model.fit(X, y, sample_weight=weights)
    reference = hinge_reference(X, y, float(model.lam_), weights)
    offset = np.atleast_1d(model.intercept_)
    require_true(model.certificate_, np.ravel(model.coef_), offset, reference, TOL)
