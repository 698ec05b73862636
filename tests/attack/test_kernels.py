"""Kernel machines claim an objective and a lower bound of the kernel that predicts.

Both are held against numbers that are computed here, in float64 or more: the objective from
`decision_function` or `predict` and the length of the function, the lower bound against the best
objective that anybody has found. Matrices of more than 2,048 examples are kept in float32, with
something on the diagonal, of which nothing may be left in a claim.
"""

from __future__ import annotations

import os
import warnings
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, SVR

import cutplane as cp
from cutplane.core.certificate import Status
from cutplane.core.protocols import Plane
from cutplane.models.gram.functions import Kernel
from cutplane.models.gram.risk import KernelRisk
from cutplane.models.gram.rows import KernelRows

# Just above what is kept in float64.
M = 2100
EXAMPLES = int(os.environ.get("CUTPLANE_EXAMPLES", "1"))
# What sums of many products may be off by, as a share of the objective, beside scores of size one.
ROUNDING = 1e-9

LOSSES = {
    "hinge": lambda y, z: np.maximum(0.0, 1.0 - y * z),
    "squared_hinge": lambda y, z: np.maximum(0.0, 1.0 - y * z) ** 2,
    "logistic": lambda y, z: np.logaddexp(0.0, -y * z),
    "absolute": lambda y, z: np.abs(z - y),
    "squared": lambda y, z: (z - y) ** 2 / 2.0,
    "epsilon_insensitive": lambda y, z: np.maximum(0.0, np.abs(z - y) - 0.1),
    "quantile": lambda y, z: np.where(z < y, 0.8, 0.2) * np.abs(z - y),
}
SLOW = pytest.mark.slow  # the machine to compare with takes long
CLASSIFICATION = ("hinge", "squared_hinge", "logistic")


def data(m, seed, n_features=5):
    random = np.random.default_rng(seed)
    X = random.normal(size=(m, n_features))
    z = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2]
    return X, z + 0.3 * random.standard_t(3, size=m)


def kernels(model, A, B):
    """Return the kernels of all rows of two matrices, in extended precision."""
    A, B = np.asarray(A, dtype=np.longdouble), np.asarray(B, dtype=np.longdouble)
    if model.kernel == "rbf":
        middle = B.mean(axis=0)
        A, B = A - middle, B - middle
        squares = (A * A).sum(axis=1)[:, None] + (B * B).sum(axis=1)
        return np.exp(-np.longdouble(model.gamma_) * (squares - 2.0 * A @ B.T))
    products = A @ B.T
    if model.kernel == "linear":
        return products
    return (np.longdouble(model.gamma_) * products + model.coef0) ** model.degree


def squared_length(model, X, k=0):
    """Return ``f'Kf`` of a fitted function."""
    support, coef = X[model.support_], model.dual_coef_[k].astype(np.longdouble)
    total = np.longdouble(0.0)
    for i in range(0, len(coef), 256):
        total += coef[i : i + 256] @ (kernels(model, support[i : i + 256], support) @ coef)
    return float(total)


def objective(model, X, y, weights=None, k=0):
    """Return ``J`` of a fitted model: what it predicts, and how long its function is."""
    if hasattr(model, "decision_function"):
        scores = np.atleast_2d(model.decision_function(X).T)[k]
    else:
        scores = model.predict(X)
    losses = LOSSES[model.loss](y, scores)
    return model.lam_ / 2.0 * squared_length(model, X, k) + np.average(losses, weights=weights)


@contextmanager
def quiet():
    """Ignore that a fit did not reach its tolerance, or that its best model is constant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", cp.ConstantModelWarning)
        yield


def require_true(certificate, reached, tol):
    """Compare a certificate with the objective of its model, computed elsewhere."""
    assert certificate.valid
    assert certificate.objective == pytest.approx(reached, rel=ROUNDING)
    assert certificate.lower_bound <= reached * (1.0 + ROUNDING)
    if certificate.status is Status.OPTIMAL:
        assert reached - certificate.lower_bound <= tol * reached * (1.0 + 1e-6)


@pytest.mark.parametrize(("intercept", "C"), [(True, 1.0), (True, 1000.0), (False, 100.0)])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_objective_is_that_of_the_model_that_predicts(loss, intercept, C):
    X, z = data(M, seed=0)
    if loss in CLASSIFICATION:
        kind, y = cp.KernelClassifier, np.where(z > 0.2, 1.0, -1.0)
    else:
        kind, y = cp.KernelRegressor, z
        C = min(C, 30.0)
    options = {"quantile": 0.8} if loss == "quantile" else {}
    model = kind(loss, C=C, fit_intercept=intercept, **options).fit(X, y)
    assert model.certificate_.status == "optimal"
    require_true(model.certificate_, objective(model, X, y), tol=1e-3)


@pytest.mark.parametrize("C", [1.0, 1000.0])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "squared"])
@pytest.mark.parametrize(
    "options",
    [{"landmarks": 200}, {"landmarks": 100, "kernel": "polynomial"}],
    ids=["rbf", "polynomial"],
)
def test_functions_of_fewer_features_are_those_that_predict(options, loss, C):
    X, z = data(M, seed=0)
    kind, y = cp.KernelRegressor, z
    if loss in CLASSIFICATION:
        kind, y = cp.KernelClassifier, np.where(z > 0.2, 1.0, -1.0)
    with quiet():
        model = kind(loss, C=C, max_iter=150, time_limit=5.0, **options).fit(X, y)
    require_true(model.certificate_, objective(model, X, y), tol=1e-3)


@pytest.mark.parametrize("C", [1.0, 10.0, 100.0, pytest.param(1000.0, marks=SLOW)])
def test_a_support_vector_machine_is_proven_to_1e_6(C):
    X, z = data(M, seed=1)
    y = np.where(z > 0.2, 1.0, -1.0)
    model = cp.KernelClassifier(C=C, tol=1e-6).fit(X, y)
    reached = objective(model, X, y)
    require_true(model.certificate_, reached, tol=1e-6)
    assert model.certificate_.status == "optimal"
    theirs = SVC(C=C, tol=1e-5 if C < 100.0 else 1e-3, gamma=model.gamma_).fit(X, y)
    scores = theirs.decision_function(X)
    norm = theirs.dual_coef_[0] @ (scores - theirs.intercept_)[theirs.support_]
    other = model.lam_ / 2.0 * norm + LOSSES["hinge"](y, scores).mean()
    assert model.certificate_.lower_bound <= other * (1.0 + ROUNDING)
    assert reached <= other * (1.0 + 1e-6)


@pytest.mark.parametrize("C", [1.0, pytest.param(100.0, marks=SLOW)])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "absolute"])
def test_a_regression_is_proven(loss, C):
    X, z = data(M, seed=2)
    tol = 1e-5 if C == 1.0 else 1e-3
    model = cp.KernelRegressor(loss, C=C, tol=tol).fit(X, z)
    reached = objective(model, X, z)
    require_true(model.certificate_, reached, tol)
    assert model.certificate_.status == "optimal"
    epsilon = 0.1 if loss == "epsilon_insensitive" else 0.0
    theirs = SVR(C=C, tol=1e-3, gamma=model.gamma_, epsilon=epsilon).fit(X, z)
    scores = theirs.predict(X)
    norm = theirs.dual_coef_[0] @ (scores - theirs.intercept_)[theirs.support_]
    other = model.lam_ / 2.0 * norm + LOSSES[loss](z, scores).mean()
    assert model.certificate_.lower_bound <= other * (1.0 + ROUNDING)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize(
    "options",
    [{"kernel": "polynomial", "gamma": 0.2}, {"kernel": "linear"}, {"gamma": 0.02}],
    ids=["polynomial", "linear", "wide"],
)
def test_other_kernels(loss, options):
    X, z = data(M, seed=3)
    y = np.where(z > 0.2, 1.0, -1.0)
    model = cp.KernelClassifier(loss, C=10.0, **options).fit(X, y)
    assert model.certificate_.status == "optimal"
    require_true(model.certificate_, objective(model, X, y), tol=1e-3)


@pytest.mark.parametrize("method", ["bmrm", "level"])
def test_other_methods_claim_no_more(method):
    X, z = data(M, seed=4)
    y = np.where(z > 0.2, 1.0, -1.0)
    with quiet():
        model = cp.KernelClassifier(C=30.0, method=method, tol=1e-2, max_iter=150).fit(X, y)
    require_true(model.certificate_, objective(model, X, y), tol=1e-2)
    best = cp.KernelClassifier(C=30.0, tol=1e-6).fit(X, y)
    assert model.certificate_.lower_bound <= best.certificate_.objective * (1.0 + ROUNDING)
    assert model.certificate_.lower_bound > 0.5 * best.certificate_.objective


def test_what_is_left_for_rounding_is_the_worst_case():
    """Sums of n terms may be off by n roundings of their sizes, however unlikely that is."""
    X, z = data(M, seed=4)
    rows = KernelRows(Kernel("rbf", 0.2), X)
    risk = KernelRisk(rows, np.where(z > 0.2, 1.0, -1.0), cp.Hinge())
    point, duals = risk.at(np.zeros(2 * M)), np.full(M, 1.0 / M)
    plane = Plane(risk.map.pullback(duals), 0.0)
    worst = M * np.finfo(np.float64).eps
    exact = risk.exact_at(point, plane, None)
    assert risk.length_error(plane.slope) >= worst
    assert exact.risk.length_error(exact.risk.map.pullback(duals[exact.counts])) >= (
        worst * np.count_nonzero(exact.counts) / M * duals[exact.counts].sum() ** 2
    )


def test_planes_of_groups_are_refused():
    X, z = data(50, seed=4)
    with pytest.raises(ValueError, match=r"^planes of groups are not possible with a kernel: use"):
        cp.KernelRegressor(method=cp.bmrm(groups=3)).fit(X, z)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("limit", [1, 2])
def test_a_run_that_is_cut_short_claims_no_more(loss, limit):
    X, z = data(M, seed=5)
    y = np.where(z > 0.2, 1.0, -1.0)
    with pytest.warns(ConvergenceWarning):
        model = cp.KernelClassifier(loss, C=100.0, tol=1e-9, max_iter=limit).fit(X, y)
    assert model.certificate_.status == "iteration_limit"
    require_true(model.certificate_, objective(model, X, y), tol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"method": "bmrm"},
        {"loss": "logistic"},
        {"loss": "squared_hinge", "kernel": "linear", "C": 1e4},
    ],
    ids=["hinge", "bmrm", "logistic", "float64"],
)
@pytest.mark.parametrize("several", [False, True])
def test_time_may_be_over_before_there_is_a_matrix(options, several, monkeypatch):
    X, z = data(4000, seed=5)
    y = np.digitize(z, [-0.5, 0.8]) if several else np.where(z > 0.2, 1.0, -1.0)
    made, between = [], Kernel.between

    def counted(*given):
        made.append(1)
        return between(*given)

    monkeypatch.setattr(Kernel, "between", counted)
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model = cp.KernelClassifier(time_limit=1e-3, **options).fit(X, y)
    assert len(made) < 18  # of 36 blocks
    certificates = model.certificate_ if several else [model.certificate_]
    for k, certificate in enumerate(certificates):
        assert certificate.status is Status.TIME_LIMIT
        own = np.where(y == k, 1.0, -1.0) if several else y
        require_true(certificate, objective(model, X, own, k=k), tol=1e-3)


def test_time_may_be_over_before_landmarks_are_chosen(monkeypatch):
    X, z = data(6000, seed=5)
    made, between = [], Kernel.between

    def counted(self, A, B, *others):
        made.append(A.shape[0] * B.shape[0])
        return between(self, A, B, *others)

    monkeypatch.setattr(Kernel, "between", counted)
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model = cp.KernelClassifier(landmarks=1000, time_limit=1e-3).fit(X, z > 0.2)
    in_pilot = sum(made) - 6000 * 1000  # the features come after it
    assert in_pilot < 2 * 1000 * 3000  # of 3,000 x 3,000
    assert len(model.support_) == 1000


def test_time_may_be_over_before_landmarks_have_features(monkeypatch):
    X, z = data(6000, seed=15)
    y = np.where(z > 0.2, 1.0, -1.0)
    made, between = [], Kernel.between

    def counted(self, A, B, *others):
        made.append(A.shape[0] * B.shape[0])
        return between(self, A, B, *others)

    monkeypatch.setattr(Kernel, "between", counted)
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model = cp.KernelClassifier("logistic", landmarks=1000, time_limit=1e-3).fit(X, y)
    assert sum(made) < 6000 * 500
    require_true(model.certificate_, objective(model, X, y), tol=1e-3)


@pytest.mark.parametrize("limits", [{"max_iter": 2}, {"time_limit": 1e-3}])
@pytest.mark.parametrize("loss", ["nu_insensitive", "poisson"])
def test_losses_of_all_examples_together_and_without_a_floor_are_cut_short_too(loss, limits):
    X, z = data(M, seed=6)
    with quiet():
        model = cp.KernelRegressor(loss, **limits).fit(X, np.exp(np.clip(z, -2.0, 2.0)))
    assert model.certificate_.valid
    assert model.certificate_.lower_bound <= model.certificate_.objective


def test_a_run_that_an_error_ends_proves_nothing():
    X, z = data(M, 0)

    def fail(state):
        raise RuntimeError("a callback of the user's")

    with pytest.raises(RuntimeError, match="of the user's") as caught:
        cp.KernelClassifier("hinge", callbacks=[fail]).fit(X, np.where(z > 0.0, 1.0, -1.0))
    assert caught.value.result.status is Status.FAILED
    assert not caught.value.result.certificate.valid  # it is that of a rounded matrix


def test_weights_and_zero_weights():
    X, z = data(M + 300, seed=6)
    y = np.where(z > 0.2, 1.0, -1.0)
    weights = np.random.default_rng(6).integers(0, 3, size=len(y)).astype(float)
    weights[:300] = 0.0
    while np.count_nonzero(weights) <= 2048:
        weights[np.flatnonzero(weights == 0.0)[-100:]] = 0.5
    model = cp.KernelClassifier(C=100.0, class_weight={-1.0: 3.0, 1.0: 1.0})
    model.fit(X, y, sample_weight=weights)
    together = weights * np.where(y < 0.0, 3.0, 1.0)
    require_true(model.certificate_, objective(model, X, y, together), tol=1e-3)


def test_several_classes():
    X, z = data(M, seed=7)
    y = np.digitize(z, [-0.5, 0.8])
    model = cp.KernelClassifier(C=100.0).fit(X, y)
    for k, certificate in enumerate(model.certificate_):
        assert certificate.status == "optimal"
        require_true(certificate, objective(model, X, np.where(y == k, 1.0, -1.0), k=k), tol=1e-3)


@pytest.mark.parametrize("form", ["precomputed", "float32", "CSR", "function"])
def test_other_forms_of_the_examples(form):
    X, z = data(M, seed=8)
    if form == "float32":
        X = X.astype(np.float32)
    y = np.where(z > 0.2, 1.0, -1.0)
    options = {"C": 300.0, "gamma": 0.3}

    def rbf(A, B):
        return np.exp(-0.3 * ((A[:, None] - B[None]) ** 2).sum(axis=2))

    if form == "precomputed":
        model = cp.KernelClassifier(**options | {"kernel": "precomputed", "gamma": "scale"})
        model.fit(rbf(X, X), y)
        scores = model.decision_function(rbf(X, X))
    elif form == "function":
        model = cp.KernelClassifier(**options | {"kernel": rbf, "gamma": "scale"}).fit(X, y)
        scores = model.decision_function(X)
    else:
        given = scipy.sparse.csr_array(X) if form == "CSR" else X
        model = cp.KernelClassifier(**options).fit(given, y)
        scores = model.decision_function(given)
    values = (scores - model.intercept_)[model.support_]
    reached = model.lam_ / 2.0 * model.dual_coef_[0] @ values + LOSSES["hinge"](y, scores).mean()
    require_true(model.certificate_, reached, tol=1e-3)
    assert model.certificate_.status == "optimal"


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_cross_validation_ends_with_a_fit_of_the_true_kernel(loss):
    X, z = data(2700, seed=9)  # two thirds of them are in float64
    y = np.where(z > 0.2, 1.0, -1.0)
    model = cp.KernelClassifierCV(loss, gammas=[0.3], lams=[1e-5], cv=3).fit(X, y)
    require_true(model.certificate_, objective(model, X, y), tol=1e-3)


def test_folds_of_cross_validation_prove_something_of_the_kernel():
    X, z = data(3200, seed=10)
    y = np.where(z > 0.2, 1.0, -1.0)
    fold = np.arange(3200) % 3 != 0  # 2,133 examples
    split = [(np.flatnonzero(fold), np.flatnonzero(~fold))]
    model = cp.KernelClassifierCV(gammas=[0.3], lams=[1e-6], cv=split).fit(X, y)
    alone = cp.KernelClassifier(gamma=0.3, lam=1e-6, tol=1e-6).fit(X[fold], y[fold])
    (certificate,) = model.path_certificates_
    assert certificate.relative_gap <= 1e-3
    assert certificate.lower_bound <= alone.certificate_.objective * (1.0 + ROUNDING)
    assert certificate.objective >= alone.certificate_.lower_bound * (1.0 - ROUNDING)


def test_a_warm_start_proves_it_anew():
    X, z = data(M, seed=11)
    y = np.where(z > 0.2, 1.0, -1.0)
    model = cp.KernelClassifier(C=1000.0, warm_start=True).fit(X, y)
    for _ in range(2):
        model.fit(X, y)
        require_true(model.certificate_, objective(model, X, y), tol=1e-3)


SCALES = [("linear", 1e4), ("linear", 1e6), ("linear", 1e-6), ("polynomial", 10.0)]


@pytest.mark.parametrize(("kernel", "scale"), SCALES)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "absolute", "squared"])
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_features_that_are_not_scaled(kernel, scale, loss, C):
    for seed in range(EXAMPLES):
        X, z = data(120, seed=20 + seed)
        X = X * scale
        kind = cp.KernelClassifier if loss in CLASSIFICATION else cp.KernelRegressor
        y = np.where(z > 0.2, 1.0, -1.0) if loss in CLASSIFICATION else z
        options = {"gamma": 1.0} if kernel == "polynomial" else {}
        with quiet():
            model = kind(loss, kernel=kernel, C=C, max_iter=100, **options).fit(X, y)
        certificate = model.certificate_
        assert certificate.valid, certificate
        assert certificate.status in ("optimal", "stalled", "iteration_limit")
        if scale < 1.0 or (kernel, scale, C) == ("linear", 1e4, 1.0):
            assert certificate.status == "optimal"
        # Coefficients of features of size one make the same functions, and a better objective can
        # be had with them.
        if kernel == "linear":
            linear = cp.LinearClassifier if loss in CLASSIFICATION else cp.LinearRegressor
            lam = model.lam_ / scale**2
            with quiet():
                better = linear(loss, lam=lam, tol=1e-6).fit(X / scale, y).certificate_
            assert certificate.lower_bound <= better.objective * (1.0 + ROUNDING)


@pytest.mark.parametrize("scale", [1e2, 1e4])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "absolute"])
def test_many_examples_with_features_that_are_not_scaled(scale, loss):
    """Rounded to float32, the matrix of such features is that of another problem."""
    X, z = data(M, seed=3)
    y = np.where(z > 0.2, 1.0, -1.0) if loss in CLASSIFICATION else z
    kinds = (cp.KernelClassifier, cp.LinearClassifier)
    if loss not in CLASSIFICATION:
        kinds = (cp.KernelRegressor, cp.LinearRegressor)
    model = kinds[0](loss, kernel="linear", C=1.0, max_iter=120).fit(scale * X, y)
    assert model.certificate_.status == "optimal"
    # Scores of size one are sums of terms of up to 1e9, and so are squared lengths.
    assert model.certificate_.objective == pytest.approx(objective(model, scale * X, y), rel=1e-5)
    better = kinds[1](loss, lam=model.lam_ / scale**2, tol=1e-6).fit(X, y).certificate_
    assert model.certificate_.lower_bound <= better.objective * (1.0 + ROUNDING)
    assert model.certificate_.objective >= better.lower_bound * (1.0 - ROUNDING)


@pytest.mark.parametrize("loss", ["hinge", "absolute", "logistic"])
@pytest.mark.parametrize("degree", [2, 3])
def test_polynomials_of_features_that_are_not_scaled(loss, degree):
    """On pairs of duals alone such a fit takes thousands of iterations."""
    X, z = data(640, seed=60, n_features=4)
    X, y = 10.0 * X, np.where(z > 0.2, 1.0, -1.0) if loss in CLASSIFICATION else z
    kind = cp.KernelClassifier if loss in CLASSIFICATION else cp.KernelRegressor
    options = {"kernel": "polynomial", "gamma": 1.0, "degree": degree}
    model = kind(loss, C=1.0, max_iter=40, **options).fit(X, y)
    assert model.certificate_.status == "optimal"
    reached = objective(model, X, y)
    assert model.certificate_.objective == pytest.approx(reached, rel=1e-5)
    assert model.certificate_.lower_bound <= reached * (1.0 + 1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("C", [1.0, 100.0, 1e4])
@pytest.mark.parametrize(("kernel", "scale"), [("linear", 1e4), ("polynomial", 10.0)])
def test_claims_of_small_matrices_of_features_that_are_not_scaled(kernel, scale, C, loss):
    """Scores are sums of terms up to 1e14 times as large, if duals are their coefficients."""
    for m in (60, 120, 300):
        for seed in range(EXAMPLES):
            X, z = data(m, seed=20 + seed)
            X, y = scale * X, np.where(z > 0.2, 1.0, -1.0) if loss in CLASSIFICATION else z
            kind = cp.KernelClassifier if loss in CLASSIFICATION else cp.KernelRegressor
            options = {"gamma": 1.0} if kernel == "polynomial" else {}
            options |= {"quantile": 0.8} if loss == "quantile" else {}
            with quiet():
                model = kind(loss, kernel=kernel, C=C, **options).fit(X, y)
            require_true(model.certificate_, objective(model, X, y), tol=1e-3)
            # Polynomials separate few examples, and objectives of 1e-7 are left.
            separates = loss == "hinge" and kernel == "polynomial" and m < 300
            assert model.certificate_.status == "optimal" or separates


@pytest.mark.parametrize(
    ("scale", "m", "loss"),
    [*((scale, 150, loss) for scale in (1e4, 1e7) for loss in LOSSES), (1e7, M, "hinge")],
)
def test_distances_of_features_that_are_not_scaled(scale, m, loss):
    """An example is at no distance from itself, however large the squares are that say so."""
    X, z = data(m, seed=23)
    X, y = scale * (X + 3.0), np.where(z > 0.2, 1.0, -1.0) if loss in CLASSIFICATION else z
    kind = cp.KernelClassifier if loss in CLASSIFICATION else cp.KernelRegressor
    options = {"quantile": 0.8} if loss == "quantile" else {}
    with quiet():
        model = kind(loss, gamma=1.0, C=100.0, **options).fit(X, y)
    assert model.certificate_.status == "optimal"
    require_true(model.certificate_, objective(model, X, y), tol=1e-3)


@pytest.mark.parametrize("form", ["dense", "float32", "CSR"])
def test_near_examples_far_from_zero(form):
    X = 1e6 * data(40, seed=24)[0].astype(np.float32)
    X = np.concatenate([X, X + np.float32(0.5)])
    given = scipy.sparse.csr_array(X) if form == "CSR" else X
    given = given if form == "float32" else given.astype(np.float64)
    exact = X.astype(np.longdouble)
    squares = ((exact[:, None] - exact) ** 2).sum(axis=2)
    assert np.abs(Kernel("rbf", 1.0).between(given, given) - np.exp(-squares)).max() < 1e-12
    base = Kernel("rbf").base().between(given, given)
    assert np.abs(base - squares).max() < 1e-12 * squares.max()
    assert (np.abs(base - squares) <= 1e-9 * squares).all()


@pytest.mark.parametrize("method", ["kernel-newton", "bmrm"])
def test_methods_on_a_coarse_matrix_claim_what_predicts(method):
    X, z = data(120, seed=21)
    y = np.where(z > 0.2, 1.0, -1.0)
    with quiet():
        model = cp.KernelClassifier(
            "logistic", kernel="linear", C=100.0, method=method, max_iter=60
        ).fit(1e4 * X, y)
    # Predictions are sums of large terms that cancel, and BLAS rounds them as it likes: differently
    # for other numbers of rows, on some processors. The loss changes no more than they do.
    terms = np.abs(kernels(model, 1e4 * X, 1e4 * X[model.support_])) @ np.abs(model.dual_coef_[0])
    rounding = float(np.finfo(np.float64).eps * terms.mean())
    certificate, reached = model.certificate_, objective(model, 1e4 * X, y)
    assert certificate.valid
    assert certificate.objective == pytest.approx(reached, abs=rounding)
    assert certificate.lower_bound <= reached + rounding
    assert certificate.status is not Status.OPTIMAL or certificate.relative_gap <= 1e-3


@pytest.mark.parametrize("form", ["CSR", "float32", "weights", "classes", "warm"])
def test_forms_of_features_that_are_not_scaled(form):
    X, z = data(150, seed=22)
    X = 1e4 * X.astype(np.float32 if form == "float32" else np.float64)
    y = np.digitize(z, [-0.5, 0.8]) if form == "classes" else np.where(z > 0.2, 1, 0)
    weights = np.random.default_rng(22).integers(0, 3, 150) if form == "weights" else None
    model = cp.KernelClassifier("logistic", kernel="linear", C=100.0, warm_start=form == "warm")
    for _ in range(2):
        model.fit(scipy.sparse.csr_array(X) if form == "CSR" else X, y, sample_weight=weights)
        listed = model.certificate_ if form == "classes" else [model.certificate_]
        for k, certificate in enumerate(listed):
            positive = k if form == "classes" else 1
            own = np.where(y == positive, 1.0, -1.0)
            assert certificate.status == "optimal"
            require_true(certificate, objective(model, X, own, weights, k=k), tol=1e-3)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "absolute", "squared"])
@pytest.mark.parametrize("degree", [2, 3, 4])
def test_what_rounding_hides_is_not_claimed_and_ends_soon(loss, degree):
    X, z = data(300, seed=61, n_features=4)
    X, y = 1e3 * X, np.where(z > 0.2, 1.0, -1.0) if loss in CLASSIFICATION else z
    kind = cp.KernelClassifier if loss in CLASSIFICATION else cp.KernelRegressor
    options = {"kernel": "polynomial", "gamma": 1.0, "degree": degree}
    model = kind(loss, C=10.0, max_iter=80, **options)
    if degree == 2:  # entries of the matrix are 1e13, but not those of the features
        assert model.fit(X, y).certificate_.status == "optimal"
    else:
        with pytest.warns(ConvergenceWarning, match="status stalled.*scale the features"):
            model.fit(X, y)
    require_true(model.certificate_, objective(model, X, y), tol=1e-3)
    # Features of size one, and a lam as much smaller, are the same functions but for low degrees.
    assert model.certificate_.lower_bound <= LOSSES[loss](y, np.zeros(len(y))).mean()


def fractions(matrix, duals):
    """Return ``q'Kq`` without rounding."""
    rows = [[Fraction(float(entry)) for entry in row] for row in matrix]
    q = [Fraction(float(dual)) for dual in duals]
    return sum(
        a * b * entry
        for a, row in zip(q, rows, strict=True)
        for b, entry in zip(q, row, strict=True)
    )


@pytest.mark.parametrize("name", ["rbf", "linear", "polynomial"])
def test_squared_lengths_are_bounded_closely(name):
    """The bound is above the length of the exact kernel, and by little where terms cancel."""
    random = np.random.default_rng(62)
    X = random.normal(size=(40, 2)) * (1.0 if name == "rbf" else 100.0)
    kernel = Kernel(name, 1.0, 3, 1.0)
    rows = KernelRows(kernel, X)
    risk = KernelRisk(rows, np.sign(X[:, 0]), cp.Hinge(), intercept=False)
    if name == "rbf":
        exact_matrix = rows.matrix
    else:
        products = [[Fraction(float(a)) for a in x] for x in X]
        exact_matrix = None
    vectors = np.linalg.eigh(rows.matrix)[1]
    duals = vectors[:, :35] @ random.normal(size=35) + 1e-9 * vectors[:, -1]
    plane = risk.map.pullback(duals)
    if exact_matrix is None:
        power = 3 if name == "polynomial" else 1
        added = 1 if name == "polynomial" else 0
        q = [Fraction(float(dual)) for dual in duals]
        exact = sum(
            a * b * (sum(s * t for s, t in zip(x, y, strict=True)) + added) ** power
            for a, x in zip(q, products, strict=True)
            for b, y in zip(q, products, strict=True)
        )
    else:
        exact = fractions(exact_matrix, duals)
    seems = max(4.0 * plane[:40] @ plane[40:], 0.0)
    above = seems + risk.length_error(plane)
    terms = float(np.abs(duals) @ np.sqrt(rows.diagonal)) ** 2
    assert above * (1.0 + 1e-15) >= exact
    assert above - float(exact) <= 1e-9 * float(exact) + 1e-6 * np.finfo(float).eps * terms


@pytest.mark.parametrize("shift", [0.0, 5.0])
@pytest.mark.parametrize("ordered", [False, True])
def test_lower_bounds_of_large_kernels_hold(shift, ordered):
    """Long sums of large terms that cancel, in any order, must not lift a bound."""
    for seed in range(3 * EXAMPLES):
        X, z = data(400, seed=40 + seed)
        X = 1e4 * (X + shift)
        y = np.where(z > 0.2, 1.0, -1.0)
        if ordered:
            order = np.argsort(y, kind="stable")
            X, y = X[order], y[order]
        with quiet():
            model = cp.KernelClassifier("logistic", kernel="linear", C=1.0, tol=1e-9).fit(X, y)
            exact = cp.LinearClassifier("logistic", lam=model.lam_ / 1e8, tol=1e-12)
            exact.fit(X / 1e4 - shift, y)
        assert model.certificate_.valid
        assert model.certificate_.lower_bound <= exact.certificate_.objective * (1.0 + 1e-12)


def test_kernels_of_zero():
    X, z = data(60, seed=12)
    y = np.where(z > 0.2, 1.0, -1.0)
    zero = np.zeros_like(X)
    with quiet():  # the model is constant, as it should be
        for loss in ("hinge", "logistic"):
            for options in ({"landmarks": 5}, {}):
                model = cp.KernelClassifier(loss, kernel="linear", **options).fit(zero, y)
                assert model.certificate_.status == "optimal"
                assert np.ptp(model.decision_function(zero)) == 0.0
        model = cp.KernelRegressor(kernel=lambda A, B: np.zeros((len(A), len(B))), landmarks=5).fit(
            X, z
        )
        assert model.landmark_loss_ == 0.0
    np.testing.assert_allclose(model.predict(X), z.mean())


@pytest.mark.parametrize("lam", [1e-12, 1e-14, 1e-16, 1e-20])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_matrices_that_rounding_leaves_indefinite(kernel, loss, lam):
    X, z = data(60, seed=13)
    X, y = np.vstack([X, X]), np.where(np.concatenate([z, -z]) > 0.0, 1.0, -1.0)
    options = {"gamma": 0.1} if kernel == "rbf" else {}
    with quiet():
        posterior = {"posterior": True} if loss == "logistic" else {}
        model = cp.KernelClassifier(
            loss, kernel=kernel, lam=lam, max_iter=100, **options, **posterior
        ).fit(1e3 * X if kernel == "linear" else X, y)
    assert model.certificate_.valid, model.certificate_
    if posterior:
        assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.slow  # 7,000 examples, in extended precision
@pytest.mark.parametrize("C", [1.0, 1000.0])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_many_examples(loss, C):
    X, z = data(7000, seed=14, n_features=50)
    y = np.where(z > 0.2, 1.0, -1.0)
    model = cp.KernelClassifier(loss, C=C, tol=1e-6).fit(X, y)
    assert model.certificate_.status == "optimal"
    require_true(model.certificate_, objective(model, X, y), tol=1e-6)
