"""One-class support vector machines: share of outliers, exact optima, scikit-learn's models."""

import warnings

import cvxpy
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.svm import OneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

from cutplane import ConstantModelWarning, NoveltyDetector, Status


@parametrize_with_checks(
    [NoveltyDetector(), NoveltyDetector(0.3, method="bmrm-line-search", tol=1e-9)]
)
@pytest.mark.filterwarnings(
    "ignore::cutplane.ConstantModelWarning"
)  # one check has examples around the origin
def test_estimator_checks(estimator, check):
    check(estimator)


def objective(X, weights, nu, w):
    """The objective of the one-class support vector machine by its formula, at the best offset."""
    p, scores = weights / weights.sum(), X @ w
    # Linear between the scores, so one of them is a best offset.
    offsets = scores[:, None]
    return 0.5 * w @ w + ((np.maximum(offsets - scores, 0.0) @ p) / nu - scores).min()


def certified(model, X, weights):
    """The bounds of a fit in terms of that objective."""
    mean = weights @ X / weights.sum()
    return [
        bound / model.nu - 0.5 * mean @ mean
        for bound in (model.certificate_.lower_bound, model.certificate_.objective)
    ]


@st.composite
def samples(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    m, d = draw(st.integers(3, 40)), draw(st.integers(1, 4))
    X = rng.normal(size=(m, d)).round(1) + draw(st.sampled_from([1.0, 5.0]))
    weights = rng.integers(0, 4, m).astype(float) if draw(st.booleans()) else np.ones(m)
    weights[0] = 1.0
    return X, weights, draw(st.sampled_from([0.01, 0.1, 0.35, 0.5, 0.9]))


def fitted(X, weights, nu, **options):
    with warnings.catch_warnings():
        # Of small samples around the origin nothing can be said.
        warnings.simplefilter("ignore", ConstantModelWarning)
        return NoveltyDetector(nu, **options).fit(X, sample_weight=weights)


@given(samples())
def test_bounds_enclose_the_exact_optimum(sample):
    X, weights, nu = sample
    p = weights / weights.sum()
    w, offset = cvxpy.Variable(X.shape[1]), cvxpy.Variable()
    goal = 0.5 * cvxpy.sum_squares(w) + p @ cvxpy.pos(offset - X @ w) / nu - offset
    cvxpy.Problem(cvxpy.Minimize(goal)).solve(solver=cvxpy.CLARABEL)
    exact = objective(X, weights, nu, w.value)
    model = fitted(X, weights, nu, tol=1e-7)
    lower, upper = certified(model, X, weights)
    size = 1e-12 * (1.0 + (weights @ X / weights.sum() @ X.T).max() / nu)
    assert model.certificate_.status is Status.OPTIMAL
    assert lower <= exact + size
    assert upper == pytest.approx(objective(X, weights, nu, model.coef_), abs=1e-9 + size)
    assert upper <= exact + model.certificate_.gap / nu + size


@given(samples())
def test_nu_bounds_the_share_of_outliers(sample):
    # At any accuracy: the offset is a quantile of the scores whatever the coefficients are.
    X, weights, nu = sample
    model = fitted(X, weights, nu, tol=0.1)
    p, decision = weights / weights.sum(), model.decision_function(X)
    close = 1e-9 * (1.0 + np.abs(model.score_samples(X)).max())
    assert p @ (model.predict(X) == -1) <= nu + 1e-12
    assert p @ (decision <= close) >= nu - 1e-12


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.7])
@pytest.mark.parametrize("layout", [np.asarray, scipy.sparse.csr_array])
def test_it_is_the_one_class_svm_of_scikit_learn(nu, layout):
    X = np.random.default_rng(0).normal(2.0, 1.0, size=(300, 5))
    ours = NoveltyDetector(nu, tol=1e-9).fit(layout(X))
    # libsvm scales its duals to sum to nu * m.
    theirs = OneClassSVM(kernel="linear", nu=nu, tol=1e-10).fit(X)
    scale = nu * len(X)
    np.testing.assert_allclose(ours.coef_, theirs.coef_[0] / scale, rtol=1e-3)
    assert ours.offset_ == pytest.approx(theirs.offset_[0] / scale, rel=1e-3)
    lower, upper = certified(ours, X, np.ones(300))
    their_objective = objective(X, np.ones(300), nu, theirs.coef_[0] / scale)
    assert lower <= their_objective
    assert upper <= their_objective + 1e-7


def test_outliers_are_found_in_a_pipeline():
    rng = np.random.default_rng(1)
    ring = rng.normal(size=(400, 2))
    ring *= rng.uniform(0.9, 1.1, (400, 1)) / np.linalg.norm(ring, axis=1, keepdims=True)
    model = make_pipeline(RBFSampler(gamma=3.0, random_state=0), NoveltyDetector(0.05)).fit(ring)
    assert (model.predict(ring) == -1).mean() <= 0.05
    assert (model.predict([[0.0, 0.0], [2.0, 0.0], [-1.7, 1.7]]) == -1).all()


def test_centered_examples_are_refused():
    X = np.random.default_rng(0).normal(size=(100, 3))
    with pytest.raises(ValueError, match="leave out centering"):
        NoveltyDetector().fit(X - X.mean(axis=0))


def test_examples_around_the_origin_are_warned_of():
    X = np.random.default_rng(0).normal(0.1, 1.0, size=(100, 3))
    with pytest.warns(ConstantModelWarning, match="no halfspace without the origin"):
        NoveltyDetector(0.01).fit(X)


@pytest.mark.parametrize("nu", [0.0, 1.0, -1.0, np.nan])
def test_nu_is_a_share(nu):
    with pytest.raises(ValueError, match="nu lies strictly between 0 and 1"):
        NoveltyDetector(nu).fit([[1.0], [2.0]])


def test_a_warm_start_goes_on_from_there():
    X = np.random.default_rng(0).normal(1.0, 1.0, size=(500, 10))
    model = NoveltyDetector(0.2, warm_start=True, method="bmrm-line-search").fit(X)
    first = model.n_iter_
    assert model.fit(X).n_iter_ <= first
