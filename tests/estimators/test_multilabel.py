"""Many labels: ranking and independence, what a vector of classes is, awkward labels."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import label_ranking_loss
from sklearn.preprocessing import scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from cutplane import LinearClassifier, MultilabelClassifier, Status
from cutplane.losses import CLASSIFICATION

TIGHT = {"lam": 0.1, "tol": 1e-9}
EVERY_WAY = pytest.mark.parametrize("multi_label", ["independent", "ranking", "worst_pair"])


# Some checks have labels at random.
@pytest.mark.filterwarnings("ignore::cutplane.ConstantModelWarning")
@parametrize_with_checks(
    [
        MultilabelClassifier(),
        MultilabelClassifier(loss="logistic", **TIGHT),
        MultilabelClassifier("ranking", **TIGHT),
        MultilabelClassifier("worst_pair", **TIGHT),
    ]
)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def labels():
    X, Y = make_multilabel_classification(400, 20, n_classes=6, n_labels=2, random_state=0)
    return scale(X), Y


def test_labels_are_ranked(labels):
    X, Y = labels
    model = MultilabelClassifier("ranking", lam=1e-2).fit(X[:300], Y[:300])
    assert model.certificate_.status is Status.OPTIMAL
    assert model.coef_.shape == (6, 20)
    assert model.intercept_.shape == (6,)
    scores = model.decision_function(X[300:])
    np.testing.assert_allclose(scores, X[300:] @ model.coef_.T + model.intercept_)
    assert (model.predict(X[300:]) == (scores > 0.0)).all()


def test_ranking_ranks_better_than_independent_labels(labels):
    X, Y = labels
    ranking, worst_pair, independent = (
        label_ranking_loss(
            Y[300:],
            MultilabelClassifier(how, lam=1e-2).fit(X[:300], Y[:300]).decision_function(X[300:]),
        )
        for how in ("ranking", "worst_pair", "independent")
    )
    chance = np.random.default_rng(0).normal(size=(100, 6))
    assert ranking < independent < label_ranking_loss(Y[300:], chance)
    assert worst_pair < label_ranking_loss(Y[300:], chance)


def test_independent_labels_are_binary_problems(labels):
    X, Y = labels
    model = MultilabelClassifier(lam=1e-2, tol=1e-8).fit(X, Y)
    assert len(model.certificate_) == 6
    for k in range(6):
        alone = LinearClassifier(lam=1e-2, tol=1e-8).fit(X, Y[:, k])
        np.testing.assert_allclose(model.coef_[k], alone.coef_[0])
        assert model.intercept_[k] == alone.intercept_[0]


@EVERY_WAY
def test_sparse_labels_are_labels(labels, multi_label):
    X, Y = labels
    dense = MultilabelClassifier(multi_label, lam=1e-2).fit(X, Y)
    sparse = MultilabelClassifier(multi_label, lam=1e-2).fit(X, scipy.sparse.csr_matrix(Y))
    assert (dense.coef_ == sparse.coef_).all()


@EVERY_WAY
def test_a_vector_is_one_label_each(iris, multi_label):
    X, y = iris
    names = np.array(["a", "b", "c"])[y]
    model = MultilabelClassifier(multi_label, lam=1e-2).fit(X, names)
    assert not model.multilabel_
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert (model.predict(X) == names).mean() > 0.8


@EVERY_WAY
def test_a_warm_start_goes_on_from_there(labels, multi_label):
    X, Y = labels
    model = MultilabelClassifier(multi_label, warm_start=True, lam=1e-2).fit(X, Y)
    first = np.sum(model.n_iter_)
    assert np.sum(model.fit(X, Y).n_iter_) < first


@pytest.mark.parametrize(
    "parameters",
    [
        *({"loss": loss} for loss in CLASSIFICATION),
        {"multi_label": "ranking"},
        {"multi_label": "worst_pair"},
    ],
)
def test_labels_that_all_or_none_have(labels, parameters):
    X, Y = labels
    Y = np.hstack([Y, np.zeros((len(Y), 1), int), np.ones((len(Y), 1), int)])
    model = MultilabelClassifier(lam=1e-2, **parameters).fit(X, Y)
    assert np.isfinite(model.intercept_).all()
    predicted = model.predict(X)
    assert not predicted[:, -2].any()
    assert predicted[:, -1].all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"multi_label": "ranking", "loss": "logistic"},
            "multi_label='ranking' needs loss='hinge', got 'logistic'",
        ),
        ({"multi_label": "rank"}, "unknown multi_label 'rank': did you mean 'ranking'"),
    ],
)
def test_parameters_are_checked(labels, parameters, message):
    with pytest.raises(ValueError, match=message):
        MultilabelClassifier(**parameters).fit(*labels)


def test_other_matrices_are_refused():
    with pytest.raises(ValueError, match="matrix of 0 and 1, or a vector of classes"):
        MultilabelClassifier().fit(np.ones((3, 2)), [[0, 1], [2, 0], [1, 1]])
