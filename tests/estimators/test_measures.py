"""Estimators trained for measures: thresholds, weights, paths, cross-validation, files."""

import logging

import numpy as np
import pytest
import scipy.sparse

import cutplane as cp
from cutplane.io import load_model, save_model
from cutplane.losses import MEASURES

every_measure = pytest.mark.parametrize("loss", MEASURES)


def at_k(loss, k):
    return {"k": k} if loss.endswith("_at_k") else {}


def sample(n_classes=2, size=240):
    rng = np.random.default_rng(0)
    y = rng.choice(n_classes, size=size, p=None if n_classes > 2 else [0.8, 0.2])
    return rng.normal(size=(size, 4)) + 1.2 * np.eye(4)[y], y


@every_measure
def test_more_than_two_classes_are_told_apart(loss):
    X, y = sample(3)
    model = cp.LinearClassifier(loss, lam=0.01, **at_k(loss, 1 / 3)).fit(X, y)
    assert model.coef_.shape == (3, 4)
    assert all(certificate.relative_gap <= 1e-3 for certificate in model.certificate_)
    assert model.score(X, y) > 0.6


@every_measure
def test_sparse_rows_give_the_same_model(loss):
    X, y = sample()
    dense = cp.LinearClassifier(loss, lam=0.1, tol=1e-8).fit(X, y)
    sparse = cp.LinearClassifier(loss, lam=0.1, tol=1e-8).fit(scipy.sparse.csr_array(X), y)
    assert sparse.certificate_.objective == pytest.approx(dense.certificate_.objective, rel=1e-7)


@pytest.mark.parametrize(
    ("loss", "k", "expected"),
    [
        ("precision_at_k", 17, 17),
        ("recall_at_k", 100, 100),
        ("recall_at_k", 0.25, 60),
        ("recall_at_k", 240, 240),
        ("break_even", 0.1, None),
    ],
)
@pytest.mark.filterwarnings("ignore::cutplane.ConstantModelWarning")  # all of 240 are the top
def test_as_many_are_predicted_as_the_measure_looks_at(loss, k, expected):
    X, y = sample()
    model = cp.LinearClassifier(loss, lam=0.01, k=k).fit(X, y)
    assert model.predict(X).sum() == (y.sum() if expected is None else expected)
    without = cp.LinearClassifier(loss, lam=0.01, k=k, fit_intercept=False).fit(X, y)
    assert without.intercept_ == 0.0
    np.testing.assert_array_equal(without.coef_, model.coef_)


def test_roc_area_predicts_where_the_training_error_is_smallest():
    X, y = sample()
    model = cp.LinearClassifier("roc_area", lam=0.01).fit(X, y)
    scores = model.decision_function(X)
    errors = [np.mean((scores > threshold) != y) for threshold in [*scores, scores.min() - 1.0]]
    assert np.mean(model.predict(X) != y) == pytest.approx(min(errors))


@every_measure
@pytest.mark.filterwarnings("ignore::cutplane.ConstantModelWarning")  # half of few examples
def test_weights_of_zero_leave_examples_out(loss):
    X, y = sample()
    weights = np.random.default_rng(1).integers(0, 2, len(y)) * 3.0
    used = weights > 0
    weighted = cp.LinearClassifier(loss, lam=0.1, tol=1e-8).fit(X, y, sample_weight=weights)
    left = cp.LinearClassifier(loss, lam=0.1, tol=1e-8).fit(X[used], y[used])
    assert weighted.certificate_.objective == pytest.approx(left.certificate_.objective, rel=1e-7)


@pytest.mark.parametrize("loss", ["f1", "precision_at_k", "recall_at_k", "break_even"])
def test_unequal_weights_are_refused_by_measures_that_count(loss):
    X, y = sample()
    with pytest.raises(ValueError, match=r"counts .* leave out sample_weight and class_we"):
        cp.LinearClassifier(loss).fit(X, y, sample_weight=1.0 + y)
    with pytest.raises(ValueError, match="counts examples"):
        cp.LinearClassifier(loss, class_weight="balanced").fit(X, y)


def test_class_weights_change_nothing_for_the_roc_area():
    # A pair has one of each class: all pairs are weighted alike.
    X, y = sample()
    models = [
        cp.LinearClassifier("roc_area", lam=0.1, tol=1e-8, class_weight=weight).fit(X, y)
        for weight in (None, {0: 1.0, 1: 5.0})
    ]
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, atol=1e-3)
    assert models[0].certificate_.objective == pytest.approx(models[1].certificate_.objective)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "precision_at_k", "k": 0}, "k must be a count of at least 1"),
        ({"loss": "precision_at_k", "k": 241}, "k is 241, but there are only 240 examples"),
        ({"loss": "f_beta", "beta": -1.0}, "beta must be positive"),
        (
            {"loss": "f1", "method": "newton"},
            r"^NewtonSteps needs a loss with second derivatives; "
            r"got ScoredRisk\(240 x 4 dense, FBeta\(1\), intercept\)$",
        ),
        (
            {"loss": "roc_area", "method": cp.bmrm(groups=2)},
            r"^groups need a loss that is a sum over examples, with one score each, "
            r"ROCArea\(\) is not$",
        ),
        ({"loss": "f1", "multi_class": "softmax"}, "needs loss='logistic'"),
    ],
)
def test_what_does_not_go_together_is_said_in_one_line(parameters, message):
    X, y = sample()
    with pytest.raises(ValueError, match=message) as error:
        cp.LinearClassifier(**parameters).fit(X, y)
    assert "\n" not in str(error.value)


def test_dual_ascent_is_refused():
    X, y = sample()
    with pytest.raises(
        ValueError, match=r"DualEpochs needs a loss that is piecewise or logistic; got "
    ):
        cp.LinearClassifier("f1", method="dual-ascent").fit(scipy.sparse.csr_array(X), y)


def test_automatic_choice_says_why(caplog):
    X, y = sample()
    with caplog.at_level(logging.INFO, logger="cutplane"):
        cp.LinearClassifier("roc_area", lam=0.1).fit(X, y)
    assert caplog.messages == [
        "method: bmrm (no newton: it needs a loss with second derivatives; "
        "no dual ascent: it needs a loss that is piecewise or logistic)"
    ]


@every_measure
def test_paths_and_files(loss, tmp_path):
    X, y = sample()
    path = cp.path(X, y, loss, [1.0, 0.1])
    assert all(certificate.relative_gap <= 1e-3 for certificate in path.certificates)
    parameters = at_k(loss, 0.2) | ({"beta": 2.0} if loss == "f_beta" else {})
    model = cp.LinearClassifier(loss, lam=0.1, **parameters).fit(X, y)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert parameters.items() <= loaded.get_params().items()
    assert repr(loaded.loss_function()) == repr(model.loss_function())


def test_cross_validation_by_the_measure_that_is_trained_for():
    X, y = sample()
    model = cp.LinearClassifierCV("f1", lams=[1.0, 0.01], cv=3, scoring="f1").fit(X, y)
    assert model.scores_.shape == (3, 2)
    assert model.certificate_.relative_gap <= 1e-3
    other = cp.LinearClassifierCV("f_beta", beta=1.0, lams=[1.0, 0.01], cv=3, scoring="f1")
    np.testing.assert_allclose(other.fit(X, y).scores_, model.scores_)
