"""Rows of a kernel matrix that are computed when they are needed."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import make_moons
from sklearn.svm import SVC, SVR

import cutplane as cp
from cutplane.compute.threads import one_blas_thread
from cutplane.models.gram import rows as kernel_rows
from cutplane.models.gram.functions import Kernel
from cutplane.models.gram.rows import KernelRows

M = 2100  # just above what is kept in float64
X, Y = make_moons(M, noise=0.15, random_state=0)


@pytest.fixture
def seen(monkeypatch):
    """Return the matrices of all examples that fits have computed, or some rows of."""
    made, take = [], KernelRows._take

    def seen(self, stored, *how):
        if len(stored) == M:
            made.append(self)
        take(self, stored, *how)

    monkeypatch.setattr(KernelRows, "_take", seen)
    return made


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "kernel", [Kernel("rbf", 2.0), Kernel("polynomial", 0.5), Kernel("linear")]
)
def test_what_is_known_stays_and_the_matrix_is_symmetric(kernel, sparse):
    data = scipy.sparse.csr_array(X) if sparse else X
    whole = KernelRows(kernel, data).matrix
    rows = KernelRows(kernel, data, on_demand=True)
    assert not rows.ready.any()
    first, second = np.arange(0, M, 17), np.arange(5, M, 23)
    for wanted in (first, second, first):
        rows.require(wanted)
    known = np.flatnonzero(rows.ready)
    assert np.array_equal(known, np.union1d(first, second))
    before = rows.stored[known].copy()
    atol = 2e-6 * np.abs(whole).max()
    np.testing.assert_allclose(before, whole[known], rtol=0.0, atol=atol)
    slopes = np.zeros(M)
    slopes[first] = 1.0
    np.testing.assert_allclose(rows.pullback(slopes), whole @ slopes, atol=atol * len(first))
    assert not rows.ready.all()
    matrix = rows.matrix
    assert rows.ready.all()
    assert np.array_equal(matrix[known], before)
    assert np.array_equal(matrix, matrix.T)
    assert np.array_equal(matrix.diagonal().astype(np.float64), rows.diagonal)
    np.testing.assert_allclose(matrix, whole, rtol=0.0, atol=atol)
    with one_blas_thread():
        assert np.linalg.eigvalsh(matrix.astype(np.float64))[0] >= 0.0


def test_many_rows_are_computed_as_one_matrix():
    rows = KernelRows(Kernel("rbf", 2.0), X, on_demand=True)
    rows.require(np.arange(int(kernel_rows._MOST_ON_DEMAND * M) + 1))
    assert rows.ready.all()


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
def test_a_fit_with_few_support_vectors_computes_few_rows(seen, order):
    places = np.argsort(Y, kind="stable") if order == "sorted" else np.arange(M)
    ours = cp.KernelClassifier(C=1.0, gamma=2.0, tol=1e-6).fit(X[places], Y[places])
    (rows,) = seen
    assert len(ours.support_) <= rows.ready.sum() < 0.3 * M
    assert ours.certificate_.relative_gap <= 1e-6
    theirs = SVC(C=1.0, gamma=2.0, tol=1e-6).fit(X[places], Y[places])
    scores, signs = theirs.decision_function(X[places]), 2 * Y[places] - 1
    norm = theirs.dual_coef_[0] @ (scores - theirs.intercept_)[theirs.support_]
    reached = norm / (2 * M) + np.maximum(0, 1 - signs * scores).mean()
    assert ours.certificate_.lower_bound <= reached * (1 + 1e-12)
    assert ours.certificate_.objective == pytest.approx(reached, rel=1e-4)
    assert np.abs(ours.decision_function(X[places]) - scores).max() < 0.02


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("C", [0.01, 100.0])
def test_bounds_hold_and_meet_however_many_rows_are_needed(seen, intercept, C):
    options = {"C": C, "gamma": 0.5, "fit_intercept": intercept}
    model = cp.KernelClassifier(**options).fit(X, Y)
    assert model.certificate_.status == "optimal"
    by_planes = cp.KernelClassifier(**options, method="level", tol=1e-2, max_iter=2000)
    other = by_planes.fit(X, Y).certificate_
    assert seen[1].ready.all()  # a bundle needs them all
    assert model.certificate_.lower_bound <= other.objective * (1 + 1e-6)
    assert other.lower_bound <= model.certificate_.objective * (1 + 1e-6)


def test_regression_and_threads(seen):
    z = np.sin(3 * X[:, 0]) + 0.05 * X[:, 1]
    options = {"epsilon": 0.1, "C": 10.0, "gamma": 1.0}
    fits = [
        cp.KernelRegressor("epsilon_insensitive", n_jobs=n_jobs, **options).fit(X, z)
        for n_jobs in (1, 2)
    ]
    assert not seen[0].ready.all()
    assert np.array_equal(fits[0].dual_coef_, fits[1].dual_coef_)
    theirs = SVR(C=10.0, gamma=1.0, epsilon=0.1).fit(X, z)
    assert np.abs(fits[0].predict(X) - theirs.predict(X)).max() < 0.1


def test_classes_share_one_matrix(seen):
    y = np.where(X[:, 0] > 1.0, 2, Y)
    cp.KernelClassifier(C=1.0, gamma=2.0).fit(X, y)
    assert [rows.ready.all() for rows in seen] == [True]
