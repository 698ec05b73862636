"""Fits of the real data sets, against the numbers that others obtain."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from typer.testing import CliRunner

import cutplane as cp
from cutplane.cli.app import app

pytestmark = pytest.mark.slow


def load(folder, name):
    X = sp.load_npz(f"{folder}/{name}/train_X.npz").tocsr()
    return X, np.load(f"{folder}/{name}/train_y.npy").astype(float)


def test_a9a_from_a_file(data_folder, tmp_path):
    file = tmp_path / "a9a.svmlight"
    dump_svmlight_file(*load(data_folder, "a9a"), str(file), zero_based=False)
    options = ["--lam", "1e-4", "--no-intercept", "--tol", "1e-5", "--json", "--quiet"]
    ran = CliRunner().invoke(app, ["fit", str(file), *options])
    fit = json.loads(ran.stdout)
    assert ran.exit_code == 0
    assert fit["status"] == "optimal"
    assert fit["objective"] == pytest.approx(0.351762, rel=1e-5)  # as near as it promises
    assert fit["lower_bound"] <= 0.3517620
    assert fit["relative_gap"] <= 1e-5


@pytest.mark.parametrize(
    ("name", "lam"), [("a9a", 1e-4), ("a9a", 1e-6), ("ijcnn1", 1e-6), ("reuters_lasvm", 1e-4)]
)
def test_liblinear_lies_between_the_bounds(data_folder, name, lam):
    X, y = load(data_folder, name)
    ours = cp.LinearClassifier(lam=lam, fit_intercept=False, tol=1e-4).fit(X, y)
    C = 1 / (lam * len(y))
    theirs = LinearSVC(
        loss="hinge", C=C, fit_intercept=False, tol=0.1, max_iter=50_000, random_state=0
    )
    w = theirs.fit(X, y).coef_[0]
    objective = 0.5 * lam * w @ w + np.maximum(0.0, 1.0 - y * (X @ w)).mean()
    assert ours.certificate_.status == "optimal"
    assert ours.certificate_.lower_bound <= objective
    assert ours.certificate_.objective <= objective * (1 + 1e-4)


def test_sparse_logistic_regression_agrees_with_liblinear(data_folder):
    X, y = load(data_folder, "a9a")
    lam = 1e-3
    ours = cp.minimize(cp.ScoredRisk(X, y, cp.Logistic(), intercept=False), cp.L1(lam), tol=1e-4)
    theirs = LogisticRegression(
        l1_ratio=1.0, C=1 / (lam * len(y)), solver="liblinear", fit_intercept=False, tol=1e-6
    )
    w = theirs.fit(X, y).coef_[0]
    objective = lam * np.abs(w).sum() + np.logaddexp(0.0, -y * (X @ w)).mean()
    assert ours.status == "optimal"
    assert ours.evaluations < 150
    assert ours.certificate.lower_bound <= objective
    assert ours.objective <= objective * (1 + 1e-5)
    assert np.count_nonzero(ours.w) == np.count_nonzero(w)


@pytest.mark.parametrize("loss", [cp.Logistic(), cp.Hinge()], ids=repr)
@pytest.mark.parametrize("lam", [1e-3, 1e-4])
def test_l1_needs_less_than_150_evaluations(data_folder, loss, lam):
    X, y = load(data_folder, "a9a")
    result = cp.minimize(cp.ScoredRisk(X, y, loss, intercept=False), cp.L1(lam), tol=1e-4)
    assert result.status == "optimal"
    assert result.evaluations < 150


def test_sparse_support_vectors_agree_with_a_linear_program(data_folder):
    X, y = load(data_folder, "a9a")
    X, y, lam = X[:2000], y[:2000], 1e-3
    risk = cp.ScoredRisk(X, y, cp.Hinge(), intercept=False)
    ours = cp.minimize(risk, cp.L1(lam), tol=1e-4)
    # min lam |w|_1 + mean(slack), slack >= 1 - y x.w, with w = plus - minus.
    margins = sp.diags(y) @ X
    rows = sp.hstack([-margins, margins, -sp.identity(len(y))])
    cost = np.append(np.full(2 * X.shape[1], lam), np.full(len(y), 1 / len(y)))
    optimum = linprog(cost, A_ub=rows, b_ub=-np.ones(len(y))).fun
    assert ours.status == "optimal"
    assert ours.certificate.lower_bound <= optimum * (1 + 1e-9)
    assert optimum <= ours.objective * (1 + 1e-9)
    assert ours.objective <= optimum * (1 + 1e-4)


def test_sparse_support_vectors_take_few_evaluations(data_folder):
    risk = cp.ScoredRisk(*load(data_folder, "a9a"), cp.Hinge(), intercept=False)
    ours = cp.minimize(risk, cp.L1(1e-3), tol=1e-4)
    exact = cp.minimize(risk, cp.L1(1e-3), tol=1e-6)
    assert exact.status == ours.status == "optimal"
    assert ours.evaluations < 150
    assert ours.objective <= exact.certificate.lower_bound * (1 + 1e-4)
    assert ours.certificate.lower_bound <= exact.objective
