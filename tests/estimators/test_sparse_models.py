"""Sparse and bounded coefficients: the optima of others, exact zeros, what is refused."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import Bounds, linprog
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression
from sklearn.preprocessing import scale

import cutplane as cp

NUMBERS = scale(load_diabetes().data), load_diabetes().target
LABELS = scale(load_breast_cancer().data), load_breast_cancer().target
CLASSES = scale(load_iris().data), load_iris().target


def objective(model, X, y):
    """Return the objective of a classifier with the logistic loss and an L1 penalty."""
    margins = np.where(y == 1, 1.0, -1.0) * (X @ model.coef_[0] + model.intercept_[0])
    return np.logaddexp(0.0, -margins).mean() + model.lam_ * np.abs(model.coef_).sum()


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.4])
def test_coefficients_are_those_of_scikit_learn(positive, l1_ratio):
    X, y = NUMBERS
    peer = Lasso(2.0, positive=positive, tol=1e-10)
    options = {"penalty": "l1"}
    if l1_ratio < 1.0:
        peer = ElasticNet(2.0, l1_ratio=l1_ratio, positive=positive, tol=1e-10)
        options = {"penalty": "elasticnet", "l1_ratio": l1_ratio}
    peer.fit(X, y)
    model = cp.LinearRegressor(lam=2.0, positive=positive, tol=1e-9, **options).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-5)
    assert model.intercept_ == pytest.approx(peer.intercept_)
    assert np.array_equal(model.coef_ == 0.0, peer.coef_ == 0.0)
    assert model.method_ == "coordinate-descent"


@pytest.mark.parametrize("sparse", [False, True])
def test_objective_is_that_of_liblinear(sparse):
    X, y = LABELS
    # Without an intercept, which liblinear regularizes.
    options = {"lam": 0.01, "tol": 1e-7, "fit_intercept": False}
    model = cp.LinearClassifier("logistic", penalty="l1", **options)
    model.fit(sp.csr_array(X) if sparse else X, y)
    peer = LogisticRegression(
        l1_ratio=1.0, solver="liblinear", C=1.0 / (0.01 * len(y)), tol=1e-8, fit_intercept=False
    ).fit(X, y)
    peer.lam_, peer.intercept_ = 0.01, np.zeros(1)
    assert objective(model, X, y) == pytest.approx(model.certificate_.objective)
    assert model.certificate_.lower_bound <= objective(peer, X, y)
    assert objective(model, X, y) == pytest.approx(objective(peer, X, y), rel=1e-6)


def lowest_margin_of_classes(X, y, lam, intercept):
    """Return the least ``lam |W|_1`` plus mean loss of Crammer and Singer, a linear program."""
    n, k = len(y), y.max() + 1
    columns = np.column_stack([X, np.ones(n)])
    wrong = [(i, j) for i in range(n) for j in range(k) if j != y[i]]
    scores = np.zeros((len(wrong), k, columns.shape[1]))  # of the wrong class less the right one
    slack = np.zeros((len(wrong), n))
    for row, (i, j) in enumerate(wrong):
        scores[row, j], scores[row, y[i]], slack[row, i] = columns[i], -columns[i], 1.0
    W = scores.reshape(len(wrong), -1)
    prices = np.tile(np.r_[np.full(X.shape[1], lam), 0.0], k)
    bounds = [(0, 0 if price == 0.0 and not intercept else None) for price in prices] * 2
    found = linprog(
        np.r_[prices, prices, np.full(n, 1.0 / n)],
        A_ub=np.hstack([W, -W, -slack]),
        b_ub=np.full(len(wrong), -1.0),
        bounds=bounds + [(0, None)] * n,
    )
    return found.fun


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("lam", [0.1, 0.01])
def test_the_margin_of_all_classes_is_that_of_a_linear_program(lam, intercept):
    X, y = CLASSES
    X, y = X[::3], y[::3]
    model = cp.LinearClassifier(
        "hinge", multi_class="crammer_singer", penalty="l1", lam=lam, fit_intercept=intercept,
        tol=1e-4,
    ).fit(X, y)  # fmt: skip
    certificate, lowest = model.certificate_, lowest_margin_of_classes(X, y, lam, intercept)
    assert certificate.lower_bound <= lowest * (1.0 + 1e-7)
    assert lowest <= certificate.objective * (1.0 + 1e-7)
    assert certificate.relative_gap <= 1e-4


@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer", "softmax"])
@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_several_classes(multi_class, penalty):
    X, y = CLASSES
    loss = "hinge" if multi_class == "crammer_singer" else "logistic"
    model = cp.LinearClassifier(loss, multi_class=multi_class, penalty=penalty, lam=0.03)
    model.fit(X, y)
    certificates = model.certificate_
    for certificate in certificates if multi_class == "ovr" else [certificates]:
        assert certificate.status is cp.Status.OPTIMAL
    assert model.coef_.shape == (3, 4)
    assert (model.coef_ == 0.0).any()
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_ranking(penalty):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = cp.LinearRanker(penalty=penalty, lam=0.05).fit(X, y, qid=np.arange(60) // 10)
    assert model.certificate_.status is cp.Status.OPTIMAL
    assert 0 < np.count_nonzero(model.coef_) < 8


def test_path_begins_where_all_coefficients_vanish():
    X, y = LABELS
    path = cp.path(X, y, "logistic", penalty="l1", n_lams=5)
    counts = np.count_nonzero(path.coefs, axis=1)
    assert counts[0] == 0
    assert counts[1] > 0
    assert all(certificate.status is cp.Status.OPTIMAL for certificate in path.certificates)
    alone = cp.LinearClassifier("logistic", penalty="l1", lam=float(path.lams[2])).fit(X, y)
    assert alone.certificate_.lower_bound <= path.certificates[2].objective
    elastic = cp.path(X, y, "logistic", penalty="elasticnet", l1_ratio=0.5, n_lams=2)
    assert elastic.lams[0] == pytest.approx(2.0 * path.lams[0])


def test_cross_validation():
    X, y = NUMBERS
    model = cp.LinearRegressorCV(penalty="l1", lams=4, cv=3).fit(X, y)
    assert model.certificate_.status is cp.Status.OPTIMAL
    other = cp.LinearRegressor(penalty="l1", lam=cp.CrossValidation(cv=3, lams=4)).fit(X, y)
    np.testing.assert_allclose(other.lams_, model.lams_)


def test_sparsify_and_back(tmp_path):
    X, y = LABELS
    model = cp.LinearClassifier("logistic", penalty="l1", lam=0.03).fit(X, y)
    coef, before = model.coef_.copy(), model.predict_proba(X)
    assert sp.issparse(model.sparsify().coef_)
    assert model.coef_.nnz == np.count_nonzero(coef)
    assert np.array_equal(model.predict_proba(X), before)
    cp.save_model(model, tmp_path / "model")
    loaded = cp.load_model(tmp_path / "model")
    assert np.array_equal(loaded.coef_, coef)
    assert loaded.penalty == "l1"
    assert np.array_equal(model.set_params(warm_start=True).fit(X, y).coef_ == 0.0, coef == 0.0)
    assert np.array_equal(model.sparsify().densify().coef_, model.coef_)
    regressor = cp.LinearRegressor(penalty="l1", lam=2.0).fit(*NUMBERS)
    before, shape = regressor.predict(NUMBERS[0]), regressor.coef_.shape
    assert np.array_equal(regressor.sparsify().predict(NUMBERS[0]), before)
    assert regressor.densify().coef_.shape == shape


@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet"])
@pytest.mark.parametrize("pos_label", [None, 0, 1])
def test_bounds_hold_for_coefficients_as_they_are_returned(penalty, pos_label):
    X, y = LABELS
    low, high = np.full(30, -0.2), np.full(30, 0.1)
    high[3] = -0.05
    given = {"f1": (low, high), "hinge": Bounds(low, high)}
    for loss, bounds in given.items():
        if (loss, penalty) == ("f1", "l1"):
            continue  # refused: see below
        model = cp.LinearClassifier(
            loss, penalty=penalty, bounds=bounds, pos_label=pos_label, lam=0.01, tol=1e-2
        ).fit(X, y)
        assert model.certificate_.status is cp.Status.OPTIMAL
        assert (model.coef_[0] >= low).all()
        assert (model.coef_[0] <= high).all()
    twice = cp.LinearRegressor(positive=True, bounds=(None, 10.0), penalty=penalty).fit(*NUMBERS)
    assert twice.coef_.min() == 0.0
    assert twice.coef_.max() == 10.0


def test_what_is_refused_and_what_has_no_effect():
    X, y = LABELS
    cases = [
        ({"penalty": "lasso"}, "unknown penalty 'lasso'"),
        ({"penalty": "elasticnet", "l1_ratio": 1.5}, "l1_ratio must be a number from 0 to 1"),
        ({"penalty": "l1", "loss": "ramp"}, "is not convex: it goes with penalty='l2' alone"),
        ({"bounds": 3}, "bounds must be a pair of lower and upper bounds"),
        ({"bounds": (1, 0)}, "no coefficient fits the bounds of feature 0: from 1 to 0"),
        ({"bounds": ([0, 1], 2)}, "there are 2 lower bounds for 30 features"),
        ({"bounds": (np.nan, 2)}, "the lower bounds must be a number, or one for each feature"),
        ({"bounds": ("a", 2)}, "the lower bounds must be numbers"),
        ({"bounds": (np.inf, None)}, "must leave room for finite coefficients"),
        ({"positive": 2}, "positive must be True or False"),
        ({"penalty": "l1", "positive": True, "loss": "f1"}, "needs a strongly convex regularizer"),
        ({"penalty": "l1", "method": "newton"}, r"needs the regularizer cp\.L2; got L1"),
    ]
    for options, said in cases:
        with pytest.raises(ValueError, match=said):
            cp.LinearClassifier(**options).fit(X, y)
    with pytest.warns(cp.UnusedParameterWarning, match="l1_ratio=0.9 has no effect with penalty"):
        cp.LinearClassifier(l1_ratio=0.9).fit(X, y)
    with pytest.raises(ValueError, match="certified needs penalty='l2'"):
        cp.LinearClassifierCV("logistic", penalty="l1", certified=0.01).fit(X, y)
    with pytest.raises(AttributeError, match="partial_fit") as refused:
        cp.LinearClassifier(penalty="l1").partial_fit(X, y, classes=[0, 1])
    assert "a stream has penalty='l2' alone" in str(refused.value.__cause__)


def test_awkward_input():
    X, y = LABELS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.ConstantModelWarning)
        model = cp.LinearClassifier("logistic", penalty="l1", lam=10.0).fit(X, y)
        assert not model.coef_.any()
        assert model.certificate_.status is cp.Status.OPTIMAL
    for scaled in (X * 1e-150, X * 1e12, np.hstack([X, np.zeros((len(y), 2)), X[:, :1]])):
        # In proportion, the lam of the same model.
        lam = 0.01 * np.abs(scaled).max() / np.abs(X).max()
        model = cp.LinearClassifier("logistic", penalty="l1", lam=lam).fit(scaled, y)
        assert model.certificate_.status is cp.Status.OPTIMAL
        assert model.score(scaled, y) > 0.95
    one = cp.LinearRegressor(penalty="l1", lam=0.1).fit([[1.0], [2.0]], [1.0, 3.0])
    assert one.coef_[0] == pytest.approx(1.6)  # 2 less lam over the variance
    assert clone(one).get_params()["penalty"] == "l1"


def test_reports_count_the_zeros():
    model = cp.LinearClassifier("logistic", penalty="l1", lam=0.03, tol=1e-6).fit(*LABELS)
    n_zero = model.coef_.size - np.count_nonzero(model.coef_)
    assert f"{n_zero} are exactly zero" in model.report().html


def test_weights_count_as_copies():
    X, y = LABELS
    weights = np.random.default_rng(0).integers(0, 3, len(y))
    options = {"loss": "logistic", "penalty": "l1", "lam": 0.02, "tol": 1e-8}
    model = cp.LinearClassifier(**options).fit(X, y, sample_weight=weights)
    repeated = cp.LinearClassifier(**options).fit(X.repeat(weights, 0), y.repeat(weights))
    np.testing.assert_allclose(model.coef_, repeated.coef_, atol=1e-4)
