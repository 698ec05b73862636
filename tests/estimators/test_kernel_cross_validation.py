"""Kernel machines that choose gamma and lam: the same scores as a grid of fits, from one matrix."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import make_moons
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit
from sklearn.utils.estimator_checks import check_estimator

import cutplane as cp
from cutplane.io import load_model, save_model
from cutplane.models.gram import functions as matrix
from cutplane.models.gram.functions import Kernel
from cutplane.models.gram.rows import KernelRows

X, Y = make_moons(120, noise=0.25, random_state=0)
NUMBERS = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
GAMMAS, LAMS = [0.1, 1.0, 10.0], [1e-1, 1e-2, 1e-3]


@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_scores_are_those_of_a_grid_of_fits(loss, kernel):
    options = {"kernel": kernel, "tol": 1e-8, "max_iter": 10_000}
    gammas = GAMMAS if kernel == "rbf" else GAMMAS[:2]  # a polynomial of 10 x.y takes long
    model = cp.KernelClassifierCV(loss, gammas=gammas, lams=LAMS, cv=4, **options).fit(X, Y)
    plain = cp.KernelClassifier(loss, **options)
    grid = GridSearchCV(plain, {"gamma": gammas, "lam": LAMS}, cv=4).fit(X, Y)
    theirs = np.array([grid.cv_results_[f"split{k}_test_score"] for k in range(4)])
    np.testing.assert_allclose(
        model.all_scores_, theirs.reshape(4, -1, 3).transpose(1, 0, 2), atol=1e-12
    )
    best = grid.cv_results_["mean_test_score"].max()
    assert model.all_scores_.mean(axis=1).max() == pytest.approx(best)
    assert np.array_equal(model.scores_, model.all_scores_[GAMMAS.index(model.gamma_)])
    same = plain.set_params(gamma=model.gamma_, lam=model.lam_).fit(X, Y)
    limit = np.sqrt(2 * (model.certificate_.gap + same.certificate_.gap) / model.lam_) * 100
    assert np.abs(model.decision_function(X) - same.decision_function(X)).max() <= limit + 1e-6
    rounding = 1e-12  # the two matrices differ by that
    assert model.certificate_.lower_bound <= same.certificate_.objective + rounding
    assert same.certificate_.lower_bound <= model.certificate_.objective + rounding
    assert all(certificate.relative_gap <= 1e-8 for certificate in model.path_certificates_)


@pytest.mark.parametrize("loss", ["squared", "quantile", "huber", "epsilon_insensitive"])
def test_regression(loss):
    scoring, cv = make_scorer(mean_absolute_error, greater_is_better=False), KFold(3)
    options = {"scoring": scoring, "cv": cv}
    model = cp.KernelRegressorCV(loss, gammas=GAMMAS, lams=LAMS, tol=1e-6, **options)
    model.fit(X, NUMBERS)
    plain = cp.KernelRegressor(loss, tol=1e-6, max_iter=10_000)
    grid = GridSearchCV(plain, {"gamma": GAMMAS, "lam": LAMS}, **options).fit(X, NUMBERS)
    ours = model.all_scores_.mean(axis=1).ravel()
    np.testing.assert_allclose(ours, grid.cv_results_["mean_test_score"], atol=2e-3)


def test_the_matrix_is_computed_once(monkeypatch):
    seen = []
    compute = matrix.compute
    monkeypatch.setattr(matrix, "compute", lambda *given: seen.append(given) or compute(*given))
    cp.KernelClassifierCV(gammas=3, lams=2, cv=3).fit(X, Y)
    assert len(seen) == 1


@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
def test_a_matrix_of_many_examples_is_the_same_by_its_base_and_semidefinite(kernel, monkeypatch):
    monkeypatch.setattr(matrix, "FULL_PRECISION", 50)  # float32 above
    made = Kernel(kernel, 0.7)
    base = matrix.kernel_matrix(made.base(), X)
    assert base.dtype == np.float32
    everyone = np.arange(len(X))
    found = matrix.transformed(made, base, everyone, everyone)
    exact = made.between(X, X)
    allowed = 2.0 * made.roundings_of_base * np.finfo(np.float32).eps * np.abs(exact).max()
    assert np.abs(found - exact).max() <= allowed
    rows = KernelRows.of_matrix(found, roundings=made.roundings_of_base)
    assert np.linalg.eigvalsh(rows.matrix.astype(np.float64))[0] >= 0.0
    assert np.array_equal(rows.matrix, rows.matrix.T)


def test_defaults_weights_and_classes():
    y = np.where(X[:, 0] > 1.0, 2, Y)
    weights = np.ones(len(X))
    weights[::7] = 0.0
    model = cp.KernelClassifierCV("logistic", cv=3, lams=3, class_weight="balanced")
    model.fit(X, y, sample_weight=weights)
    scale = 1.0 / (2 * X[weights > 0].var())
    np.testing.assert_allclose(model.gammas_, scale * 4.0 ** np.arange(-2, 3))
    assert model.all_scores_.shape == (5, 3, 3)
    assert model.dual_coef_.shape == (3, len(model.support_))
    assert not (model.support_ % 7 == 0).any()
    np.testing.assert_array_equal(X[model.support_], model.support_vectors_)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_kernels_without_a_gamma_and_sparse_examples():
    K = rbf_kernel(X, gamma=1.0)
    ours = cp.KernelClassifierCV(kernel="precomputed", lams=LAMS, cv=3, tol=1e-6).fit(K, Y)
    theirs = cp.KernelClassifierCV(gammas=[1.0], lams=LAMS, cv=3, tol=1e-6).fit(X, Y)
    np.testing.assert_allclose(ours.scores_, theirs.scores_)
    linear = cp.KernelClassifierCV(kernel="linear", lams=LAMS, cv=ShuffleSplit(2, random_state=0))
    assert linear.fit(scipy.sparse.csr_array(X), Y).all_scores_.shape == (1, 2, 3)
    function = cp.KernelRegressorCV(kernel=lambda A, B: A @ B.T, lams=LAMS, cv=2)
    assert function.fit(X, NUMBERS).predict(X).shape == (120,)


def test_it_is_saved_as_what_it_became(tmp_path):
    model = cp.KernelClassifierCV(gammas=GAMMAS, lams=LAMS, cv=3).fit(X, Y)
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert type(loaded) is cp.KernelClassifier
    assert (loaded.gamma, loaded.lam) == (model.gamma_, model.lam_)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gammas": 0}, "gammas must be numbers, or how many, got 0"),
        ({"gammas": [0.1, -1.0]}, "gammas must be positive numbers, or how many"),
        ({"lams": []}, "lams must be a list of numbers"),
        ({"rule": "first"}, "unknown rule 'first'"),
        ({"kernel": "sigmoid"}, "unknown kernel 'sigmoid'"),
    ],
)
def test_refusals(options, said):
    with pytest.raises(ValueError, match=said):
        cp.KernelClassifierCV(**options).fit(X, Y)


def test_a_time_limit_is_for_all_fits():
    model = cp.KernelClassifierCV(lams=3, cv=2, tol=1e-9, time_limit=1e-6)
    with pytest.warns(match="time"):
        model.fit(X, Y)
    assert model.certificate_.status == cp.Status.TIME_LIMIT


@pytest.mark.parametrize("of", [cp.KernelClassifierCV, cp.KernelRegressorCV])
def test_estimator_checks(of):
    quick = {"cv": 2, "lams": [1.0, 0.01], "gammas": 2, "tol": 1e-2}
    failed = [each for each in check_estimator(of(**quick), on_skip=None) if each["exception"]]
    assert [each["check_name"] for each in failed if each["status"] != "skipped"] == []
