"""Kernel machines: exact references, bounds of the whole space, awkward input."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, SVR
from sklearn.utils.estimator_checks import check_estimator

import cutplane as cp
from cutplane.compute.threads import one_blas_thread
from cutplane.models.gram import reduced as landmarks
from cutplane.models.gram.functions import IndefiniteKernel, Kernel
from cutplane.models.gram.risk import KernelRisk
from cutplane.models.gram.rows import KernelRows
from cutplane.regularizers import KernelNorm

LOSSES = [
    cp.Hinge(),
    cp.SquaredHinge(),
    cp.SmoothHinge(),
    cp.Logistic(),
    cp.Exponential(),
    cp.Squared(),
    cp.Absolute(),
    cp.Quantile(0.8),
    cp.EpsilonInsensitive(0.2),
    cp.SquaredEpsilonInsensitive(0.2),
    cp.Huber(),
    cp.Poisson(),
]


def data(m=80, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(m, 3))
    z = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    return X, z + 0.3 * random.normal(size=m)


def targets(loss, z):
    if loss.task == "classification":
        return np.where(z > 0.2, 1.0, -1.0)
    return np.round(np.exp(z)) if isinstance(loss, cp.Poisson) else z


def objective(model, X, y, weights, loss, lam):
    """Return the objective of a fitted model, from its coefficients alone."""
    K = model._kernel().between(model.support_vectors_, model.support_vectors_)
    beta = model.dual_coef_[0]
    scores = model._scores(X)[:, 0]
    return lam / 2 * beta @ K @ beta + loss.value(y, scores, weights / weights.sum())


def svc_objective(model, scores, y, C):
    """Return ``lam/2 |f|^2 + mean hinge loss`` of an SVC from its coefficients and scores."""
    norm = model.dual_coef_[0] @ (scores - model.intercept_)[model.support_]
    return norm / (2 * C * len(y)) + np.maximum(0, 1 - y * scores).mean()


@pytest.mark.parametrize("C", [0.1, 1.0])
@pytest.mark.parametrize("m", [80, 400])
def test_rbf_and_hinge_are_svc_to_1e_6(m, C):
    X, z = data(m)
    y = np.where(z > 0.2, 1, -1)
    ours = cp.KernelClassifier(C=C, tol=1e-12, max_iter=5000).fit(X, y)
    theirs = SVC(C=C, tol=1e-12).fit(X, y)
    new = data(200, seed=1)[0]
    for each in (X, new):
        differences = ours.decision_function(each) - theirs.decision_function(each)
        assert np.abs(differences).max() <= 1e-6
    reached = svc_objective(theirs, theirs.decision_function(X), y, C)
    assert ours.certificate_.objective == pytest.approx(reached, rel=1e-6)


@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "polynomial"])
def test_hinge_is_svc_to_1e_6_on_the_same_matrix(kernel, C):
    """Libsvm rounds kernels to float32: of numbers that are float32 both see the same problem."""
    X, z = data()
    y = np.where(z > 0.2, 1, -1)
    exact = Kernel(kernel, 0.5).between(X, X) + 1e-3 * np.eye(len(X))  # rounding leaves it definite
    K = exact.astype(np.float32).astype(np.float64)
    ours = cp.KernelClassifier(kernel="precomputed", C=C, tol=1e-12, max_iter=5000).fit(K, y)
    theirs = SVC(kernel="precomputed", C=C, tol=1e-12).fit(K, y)
    scores = theirs.decision_function(K)
    assert np.abs(ours.decision_function(K) - scores).max() <= 1e-6
    assert ours.certificate_.objective == pytest.approx(svc_objective(theirs, scores, y, C), 1e-6)


@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "polynomial"])
def test_hinge_is_svc(kernel, C):
    X, z = data()
    y = np.where(z > 0.2, 1, -1)
    ours = cp.KernelClassifier(kernel=kernel, C=C, tol=1e-9, max_iter=5000).fit(X, y)
    name = "poly" if kernel == "polynomial" else kernel
    theirs = SVC(kernel=name, C=C, coef0=1.0, tol=1e-10).fit(X, y)
    # Libsvm's tolerance is one of slopes, and its kernels are float32.
    scores = theirs.decision_function(X)
    reached = svc_objective(theirs, scores, y, C)
    assert ours.certificate_.objective <= reached * (1 + 1e-6)
    assert ours.certificate_.lower_bound <= reached
    assert ours.certificate_.relative_gap <= 1e-8
    near = np.sqrt(2 * ours.certificate_.gap * C * len(y)) * 10 + 1e-4
    np.testing.assert_allclose(ours.decision_function(X), scores, atol=near)


def test_epsilon_insensitive_is_svr():
    X, z = data()
    ours = cp.KernelRegressor("epsilon_insensitive", C=2.0, tol=1e-9, max_iter=5000).fit(X, z)
    theirs = SVR(C=2.0, epsilon=0.1, tol=1e-10).fit(X, z)
    predicted = theirs.predict(X)
    norm = theirs.dual_coef_[0] @ (predicted - theirs.intercept_)[theirs.support_]
    loss = np.maximum(0, np.abs(z - predicted) - 0.1).mean()
    assert ours.certificate_.objective == pytest.approx(norm / (4 * len(z)) + loss, rel=1e-6)
    np.testing.assert_allclose(ours.predict(X), predicted, atol=1e-3)


def test_squared_is_kernel_ridge():
    X, z = data()
    ours = cp.KernelRegressor(lam=1e-2, gamma=0.5, fit_intercept=False, tol=1e-10).fit(X, z)
    theirs = KernelRidge(alpha=1e-2 * len(z), kernel="rbf", gamma=0.5).fit(X, z)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("intercept", [True, False])
def test_agrees_with_an_interior_point_solver(loss, intercept):
    cvxpy = pytest.importorskip("cvxpy")
    X, z = data(40)
    y, lam = targets(loss, z), 0.02
    K = rbf_kernel(X, gamma=0.3)
    beta, c = cvxpy.Variable(40), cvxpy.Variable()
    root = np.linalg.cholesky(K + 1e-12 * np.eye(40))
    scores = K @ beta + (c if intercept else 0.0)
    margins = cvxpy.multiply(y, scores)
    hinge, u = cvxpy.pos(1 - margins), scores - y
    terms = {
        "Hinge": hinge,
        "SquaredHinge": cvxpy.square(hinge),
        "SmoothHinge": cvxpy.huber(hinge, 0.5),
        "Logistic": cvxpy.logistic(-margins),
        "Exponential": cvxpy.exp(-margins),
        "Squared": 0.5 * cvxpy.square(u),
        "Absolute": cvxpy.abs(u),
        "Quantile": cvxpy.maximum(-0.8 * u, 0.2 * u),
        "EpsilonInsensitive": cvxpy.pos(cvxpy.abs(u) - 0.2),
        "SquaredEpsilonInsensitive": cvxpy.square(cvxpy.pos(cvxpy.abs(u) - 0.2)),
        "Huber": 0.5 * cvxpy.huber(u, 1.35),
        "Poisson": cvxpy.exp(scores) - cvxpy.multiply(y, scores),
    }
    risk = cvxpy.sum(terms[type(loss).__name__]) / 40
    constant = 0.0
    if isinstance(loss, cp.Poisson):
        counts = y[y > 0]
        constant = (counts @ np.log(counts) - y.sum()) / 40
    problem = cvxpy.Problem(cvxpy.Minimize(lam / 2 * cvxpy.sum_squares(root.T @ beta) + risk))
    expected = problem.solve(solver=cvxpy.CLARABEL) + constant
    rows = KernelRows(Kernel("rbf", 0.3), X)
    result = cp.minimize(
        KernelRisk(rows, y, loss, intercept=intercept), KernelNorm(lam), tol=1e-8, max_iter=3000
    )
    assert result.status.success
    assert result.objective == pytest.approx(expected, rel=1e-6)
    assert result.certificate.lower_bound <= expected + 1e-6 * abs(expected)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    m=st.integers(2, 30),
    loss=st.sampled_from(LOSSES),
    log_lam=st.floats(-5, 1),
    intercept=st.booleans(),
    copies=st.booleans(),
)
def test_bounds_hold_for_all_functions_at_every_step(seed, m, loss, log_lam, intercept, copies):
    random = np.random.default_rng(seed)
    X = random.normal(size=(m, 2)).round(1 if copies else 12)
    z = random.normal(size=m)
    y, lam = targets(loss, z), 10.0**log_lam
    if isinstance(loss, cp.Poisson) or (loss.task == "classification" and len(set(y)) < 2):
        y[:2] = 1.0, (2.0 if isinstance(loss, cp.Poisson) else -1.0)
    rows = KernelRows(Kernel("rbf", 0.7), X)
    risk = KernelRisk(rows, y, loss, weights=random.uniform(0.1, 1, m), intercept=intercept)
    norm, seen = KernelNorm(lam), []
    result = cp.minimize(
        risk, norm, tol=1e-7, max_iter=60, callbacks=[lambda state: seen.append(state.lower)]
    )
    # Functions of the kernel's space that the solver never saw, some close to its best one.
    others = [result.objective]
    for scale in (0.0, 1e-3, 0.1, 1.0):
        beta = result.w[:m] * (1 + scale) + scale * random.normal(size=m)
        point = risk.at(np.concatenate([beta, np.zeros(m)]))
        others.append(norm.value(point.w) + point.value)
    lowest = min(others)
    assert max(seen, default=0.0) <= lowest + 1e-9 * (1 + abs(lowest))
    assert seen == sorted(seen)
    assert result.certificate.lower_bound <= lowest + 1e-9 * (1 + abs(lowest))


@pytest.mark.parametrize("estimator", [cp.KernelClassifier(), cp.KernelRegressor()], ids=repr)
def test_scikit_learn_accepts_it(estimator):
    failed = [each for each in check_estimator(estimator, on_skip=None) if each["exception"]]
    assert [each["check_name"] for each in failed if each["status"] != "skipped"] == []


def test_float32_matrix_is_semidefinite_and_agrees():
    X, z = data(2100, seed=3)
    rows = KernelRows(Kernel("rbf", 0.02), X)
    assert rows.matrix.dtype == np.float32
    assert (rows.matrix == rows.matrix.T).all()
    np.testing.assert_allclose(rows.matrix, rbf_kernel(X, gamma=0.02), atol=2e-5)
    with one_blas_thread():
        assert np.linalg.eigvalsh(rows.matrix.astype(np.float64))[0] >= 0.0
    y = np.where(z > 0.2, 1, -1)
    ours = cp.KernelClassifier(C=1.0, tol=1e-5).fit(X, y)
    theirs = SVC(C=1.0, tol=1e-6).fit(X, y)
    scores = theirs.decision_function(X)
    norm = theirs.dual_coef_[0] @ (scores - theirs.intercept_)[theirs.support_]
    reference = norm / (2 * len(y)) + np.maximum(0, 1 - y * scores).mean()
    assert ours.certificate_.objective == pytest.approx(reference, rel=3e-5)
    assert ours.certificate_.lower_bound <= reference * (1 + 1e-12)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_conjugate_gradients_reach_the_gap(loss):
    X, z = data(2300, seed=4)
    model = cp.KernelClassifier(loss, lam=1e-4, tol=1e-5).fit(X, z > 0.2)
    assert model.method_ == "kernel-newton"
    assert model.certificate_.relative_gap <= 1e-5


def test_kernels_agree_whatever_they_are_given_as():
    X, z = data()
    y = z > 0.2
    kernel = {"gamma": 0.4, "degree": 2, "coef0": 0.5}
    named = cp.KernelClassifier(kernel="polynomial", **kernel, tol=1e-6).fit(X, y)
    function = cp.KernelClassifier(
        kernel=lambda A, B: polynomial_kernel(A, B, **kernel), tol=1e-6
    ).fit(X, y)
    K = polynomial_kernel(X, **kernel)
    matrix = cp.KernelClassifier(kernel="precomputed", tol=1e-6).fit(K, y)
    sparse = cp.KernelClassifier(kernel="polynomial", **kernel, tol=1e-6)
    sparse.fit(scipy.sparse.csr_array(X), y)
    scores = named.decision_function(X)
    for other, given_X in ((function, X), (matrix, K), (sparse, X)):
        np.testing.assert_allclose(other.decision_function(given_X), scores, atol=2e-2)
        assert other.certificate_.objective == pytest.approx(named.certificate_.objective, rel=1e-5)


def test_sparse_and_dense_rows_far_from_zero():
    X, z = data()
    model = cp.KernelRegressor(lam=1e-2, gamma=0.5).fit(X, z)
    far = cp.KernelRegressor(lam=1e-2, gamma=0.5).fit(X + 1e6, z)
    np.testing.assert_allclose(far.predict(X + 1e6), model.predict(X), atol=1e-6)
    sparse = cp.KernelRegressor(lam=1e-2, gamma=0.5).fit(scipy.sparse.csr_array(X), z)
    np.testing.assert_allclose(sparse.predict(X), model.predict(X), atol=1e-8)


def test_weights_count_as_copies():
    X, z = data(30)
    weights = np.arange(30) % 3
    copies = np.repeat(np.arange(30), weights)
    weighted = cp.KernelClassifier(lam=0.01, tol=1e-8, class_weight="balanced")
    weighted.fit(X, z > 0, sample_weight=weights)
    repeated = cp.KernelClassifier(lam=0.01, tol=1e-8, class_weight="balanced")
    repeated.fit(X[copies], z[copies] > 0)
    np.testing.assert_allclose(
        weighted.certificate_.objective, repeated.certificate_.objective, rtol=1e-6
    )
    assert set(weighted.support_) <= set(np.flatnonzero(weights))


def test_several_classes_and_support():
    X, z = data(120)
    y = np.digitize(z, [-0.5, 0.5])
    model = cp.KernelClassifier(C=1.0).fit(X, y)
    assert model.dual_coef_.shape == (3, len(model.support_))
    assert (model.dual_coef_ != 0).any(axis=0).all()
    assert len(model.support_) < 120 or model.score(X, y) < 1
    alone = cp.KernelClassifier(C=1.0).fit(X, y == 2)
    np.testing.assert_allclose(
        model.decision_function(X)[:, 2], alone.decision_function(X), atol=1e-9
    )
    smooth = cp.KernelClassifier("logistic", lam=1e-3).fit(X, y)
    np.testing.assert_allclose(smooth.predict_proba(X).sum(axis=1), 1.0)


def test_grid_search_with_precomputed():
    X, z = data(60)
    K = rbf_kernel(X, gamma=0.5)
    search = GridSearchCV(
        cp.KernelClassifier(kernel="precomputed"), {"lam": [1e-3, 1e-1]}, cv=3, error_score="raise"
    )
    assert search.fit(K, z > 0.2).best_score_ > 0.6


def test_warm_start_takes_fewer_steps():
    X, z = data(200)
    model = cp.KernelRegressor("huber", lam=1e-4, tol=1e-6, warm_start=True).fit(X, z)
    first = model.n_iter_
    assert model.fit(X, z).n_iter_ < first


def test_awkward_input():
    X, z = data(20)
    y = z > 0.2
    with pytest.raises(ValueError, match="one class"):
        cp.KernelClassifier().fit(X, np.ones(20))
    with pytest.raises(ValueError, match="NaN"):
        cp.KernelClassifier().fit(np.where(X > 1, np.nan, X), y)
    with pytest.raises(ValueError, match="gamma"):
        cp.KernelClassifier(gamma=-1.0).fit(X, y)
    with pytest.raises(ValueError, match="coef0"):
        cp.KernelClassifier(kernel="polynomial", coef0=-1.0).fit(X, y)
    with pytest.raises(ValueError, match="did you mean 'rbf'"):
        cp.KernelClassifier(kernel="rbff").fit(X, y)
    with pytest.raises(ValueError, match="square matrix"):
        cp.KernelClassifier(kernel="precomputed").fit(X, y)
    with pytest.raises(ValueError, match="not symmetric"):
        cp.KernelClassifier(kernel="precomputed").fit(np.triu(np.ones((20, 20))), y)
    with pytest.raises(IndefiniteKernel, match="eigenvalue -1"):
        cp.KernelClassifier(kernel="precomputed").fit(np.ones((20, 20)) - np.eye(20), y)
    with pytest.raises(ValueError, match="shape"):
        cp.KernelClassifier(kernel=lambda A, B: np.ones((2, 2))).fit(X, y)
    model = cp.KernelClassifier().fit(X, y)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :2])


def test_duplicates_and_constant_columns():
    X, z = data(10)
    X = np.repeat(X, 5, axis=0)
    X[:, 2] = 1.0
    y = np.tile([0, 1], 25)
    model = cp.KernelClassifier(C=10.0, tol=1e-6).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-6
    one = cp.KernelRegressor("absolute").fit(X[:1], z[:1])
    assert one.predict(X[:1]) == pytest.approx(z[0], abs=1e-6)


def test_files_keep_it(tmp_path):
    X, z = data(50)
    for model, given_X in (
        (cp.KernelClassifier("logistic"), X),
        (cp.KernelClassifier(), scipy.sparse.csr_array(X)),
        (cp.KernelClassifier(kernel="precomputed"), rbf_kernel(X)),
    ):
        model.fit(given_X, np.digitize(z, [-0.5, 0.5]))
        cp.save_model(model, tmp_path / "model")
        loaded = cp.load_model(tmp_path / "model")
        np.testing.assert_array_equal(
            loaded.decision_function(given_X), model.decision_function(given_X)
        )
    own = cp.KernelRegressor(kernel=rbf_kernel).fit(X, z)
    with pytest.raises(ValueError, match="kernel is a function"):
        cp.save_model(own, tmp_path / "own")


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "huber"])
def test_all_landmarks_are_the_exact_model(loss):
    X, z = data(60)
    exact = cp.KernelRegressor(loss, lam=1e-2, gamma=0.5, tol=1e-8, max_iter=3000).fit(X, z)
    all_of_them = cp.KernelRegressor(
        loss, lam=1e-2, gamma=0.5, tol=1e-8, max_iter=3000, landmarks=60
    ).fit(X, z)
    assert all_of_them.landmark_loss_ < 1e-8
    assert all_of_them.certificate_.objective == pytest.approx(
        exact.certificate_.objective, rel=1e-6
    )
    np.testing.assert_allclose(all_of_them.predict(X), exact.predict(X), atol=1e-3)


def test_fewer_landmarks_cost_something_and_keep_the_proof(tmp_path):
    X, z = data(300)
    y = np.digitize(z, [-0.5, 0.5])
    exact = cp.KernelClassifier(lam=1e-3, tol=1e-5).fit(X, y)
    few = cp.KernelClassifier(lam=1e-3, tol=1e-5, landmarks=30).fit(X, y)
    more = cp.KernelClassifier(lam=1e-3, tol=1e-5, landmarks=120).fit(X, y)
    assert few.dual_coef_.shape == (3, 30)
    assert 0.0 < more.landmark_loss_ < few.landmark_loss_ < 1.0
    for reduced in (few, more):
        for mine, all_functions in zip(reduced.certificate_, exact.certificate_, strict=True):
            assert mine.relative_gap <= 1e-5
            assert mine.objective >= all_functions.lower_bound
    # The objective of the certificate is that of the function, in the norm of the kernel's space.
    K = few._kernel().between(few.support_vectors_, few.support_vectors_)
    beta, scores = few.dual_coef_[0], few._scores(X)[:, 0]
    hinge = np.maximum(0, 1 - np.where(y == 0, 1, -1) * scores).mean()
    assert few.certificate_[0].objective == pytest.approx(5e-4 * beta @ K @ beta + hinge, rel=1e-6)
    again = cp.KernelClassifier(lam=1e-3, tol=1e-5, landmarks=30).fit(X, y)
    np.testing.assert_array_equal(again.support_, few.support_)
    other = cp.KernelClassifier(lam=1e-3, landmarks=30, random_state=1).fit(X, y)
    assert set(other.support_) != set(few.support_)
    cp.save_model(few, tmp_path / "m")
    np.testing.assert_array_equal(cp.load_model(tmp_path / "m").predict(X), few.predict(X))
    with pytest.raises(ValueError, match="landmarks need examples"):
        cp.KernelClassifier(kernel="precomputed", landmarks=3).fit(np.eye(300), y)
    with pytest.raises(ValueError, match="takes no landmarks"):
        cp.KernelClassifier("logistic", posterior=True, landmarks=3).fit(X, y)


def test_landmarks_are_those_that_a_pilot_leans_on():
    rng = np.random.default_rng(0)
    X = rng.uniform(-4, 4, size=(1000, 2))
    y, weights = X[:, 0] > 0.0, np.ones(1000)
    weights[::7] = 0.0
    options = {"C": 1.0, "gamma": 0.02, "landmarks": 20}
    model = cp.KernelClassifier(**options).fit(X, y, sample_weight=weights)
    assert len(set(model.support_)) == 20
    assert np.abs(X[model.support_, 0]).mean() < 1.3  # near the boundary
    assert not (model.support_ % 7 == 0).any()
    sparse = cp.KernelClassifier(**options).fit(scipy.sparse.csr_array(X), y, weights)
    np.testing.assert_array_equal(sparse.support_, model.support_)
    for anywhere in (
        cp.KernelClassifier("logistic", **options).fit(X, y),
        cp.KernelRegressor("absolute", **options).fit(X, X[:, 0]),
    ):
        assert np.abs(X[anywhere.support_, 0]).mean() > 1.5


def test_a_pilot_may_lack_a_rare_class():
    X, z = data(600)
    y = (z > 0.0).astype(int)
    y[0] = 2
    model = cp.KernelClassifier(C=1.0, landmarks=20).fit(X, y)
    assert model.dual_coef_.shape == (3, 20)
    assert all(certificate.relative_gap <= 1e-3 for certificate in model.certificate_)


@pytest.mark.parametrize("gamma", [10.0, 0.01, 20.0])
def test_landmarks_reproduce_the_kernel(gamma):
    X, kernel = np.random.default_rng(0).uniform(size=(2100, 8)), Kernel("rbf", gamma)
    chosen = np.sort(np.random.default_rng(0).choice(2100, 40, replace=False))
    made = landmarks.landmark_features(kernel, X, chosen)
    K = kernel.between(X, X[chosen])
    inner = np.linalg.pinv(kernel.between(X[chosen], X[chosen]), rcond=1e-11)
    squares = (made.features**2).sum(axis=1)
    np.testing.assert_allclose(squares, (K @ inner * K).sum(axis=1), atol=1e-6)
    np.testing.assert_allclose(K @ made.back, made.features, atol=1e-8)


def test_landmarks_that_are_copies_get_no_coefficient():
    X, _ = data(3)
    copies = np.repeat(X, 4, axis=0)
    same = landmarks.landmark_features(Kernel("rbf", 2.0), copies, np.arange(12))
    assert same.features.shape == (12, 3)
    assert np.count_nonzero(same.back.any(axis=1)) == 3
    assert same.lost < 1e-9


@pytest.mark.parametrize("gamma", [0.08, 1.3])
def test_pairs_do_not_creep_where_most_duals_are_free(gamma):
    """Targets without noise: steps on pairs alone end at their limit, at a gap of some percent."""
    x = np.linspace(0.0, 6.0, 100)[:, None]
    model = cp.KernelRegressor("absolute", gamma=gamma, lam=1e-4).fit(x, np.sin(x[:, 0]))
    assert model.method_ == "pair-ascent"
    assert model.certificate_.status == "optimal"
