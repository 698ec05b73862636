"""Classifiers that fit all classes at once."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import cutplane as cp
from cutplane import LinearClassifier, LinearClassifierCV

JOINT = {
    "crammer_singer": {"loss": "hinge", "multi_class": "crammer_singer"},
    "softmax": {"loss": "logistic", "multi_class": "softmax"},
}
both = pytest.mark.parametrize("options", JOINT.values(), ids=JOINT)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def test_softmax_agrees_with_logistic_regression_on_iris(iris):
    X, y = iris
    weights = np.random.default_rng(0).uniform(0, 3, len(y))
    ours = LinearClassifier(**JOINT["softmax"], C=0.5, tol=1e-10).fit(X, y, sample_weight=weights)
    theirs = LogisticRegression(C=0.5, tol=1e-10, max_iter=10**4).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(
        ours.intercept_ - ours.intercept_.mean(), theirs.intercept_, atol=1e-5
    )
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


def test_softmax_agrees_with_logistic_regression_on_digits(digits):
    X, y = digits
    X, y = X[::3], y[::3]
    ours = LinearClassifier(**JOINT["softmax"], lam=1e-2, tol=1e-6).fit(X, y)
    theirs = LogisticRegression(C=1 / (1e-2 * len(y)), tol=1e-5, max_iter=10**4).fit(X, y)
    likelihood = theirs.predict_log_proba(X)[np.arange(len(y)), y].mean()
    objective = 0.5e-2 * (theirs.coef_**2).sum() - likelihood
    assert ours.certificate_.lower_bound <= objective * (1.0 + 1e-12)
    assert ours.certificate_.objective == pytest.approx(objective, rel=1e-6)


def test_crammer_singer_agrees_with_linear_svc_on_digits(digits):
    X, y = digits
    lam = 1e-2
    ours = LinearClassifier(**JOINT["crammer_singer"], lam=lam, fit_intercept=False, tol=1e-5).fit(
        X, y
    )
    theirs = LinearSVC(
        multi_class="crammer_singer",
        C=1 / (lam * len(y)),
        fit_intercept=False,
        tol=1e-8,
        max_iter=10**6,
        random_state=0,
    ).fit(X, y)
    scores = X @ theirs.coef_.T
    own = scores[np.arange(len(y)), y]
    losses = (scores + 1.0 - np.eye(10)[y]).max(axis=1) - own
    objective = 0.5 * lam * (theirs.coef_**2).sum() + losses.mean()
    certificate = ours.certificate_
    assert certificate.lower_bound <= objective * (1.0 + 1e-12)
    assert certificate.objective == pytest.approx(objective, rel=1e-5)


@both
def test_one_certificate_for_all_classes(options, iris):
    X, y = iris
    model = LinearClassifier(**options, lam=0.01, tol=1e-6).fit(X, y)
    assert model.certificate_.status is cp.Status.OPTIMAL
    assert model.coef_.shape == (3, 4)
    assert model.intercept_.shape == (3,)
    assert isinstance(model.n_iter_, int)
    assert len(model.history_) == model.n_iter_
    assert model.score(X, y) > 0.9
    assert model.decision_function(X).shape == (150, 3)


@both
def test_two_classes_have_one_row(options, cancer):
    X, y = cancer
    joint = LinearClassifier(**options, lam=2e-2, tol=1e-9).fit(X, y)
    # Rows -w/2 and w/2 have half the squared norm of w.
    binary = LinearClassifier(options["loss"], lam=1e-2, tol=1e-9).fit(X, y)
    assert joint.coef_.shape == (1, 30)
    assert joint.intercept_.shape == (1,)
    np.testing.assert_allclose(joint.coef_, binary.coef_, atol=1e-3)
    assert joint.certificate_.objective == pytest.approx(binary.certificate_.objective, rel=1e-8)
    np.testing.assert_array_equal(joint.predict(X), binary.predict(X))


@both
def test_warm_starts_need_fewer_iterations(options, iris, cancer):
    for X, y in (iris, cancer):
        model = LinearClassifier(**options, lam=0.01, tol=1e-5, warm_start=True).fit(X, y)
        cold = model.n_iter_
        model.fit(X, y)
        assert model.n_iter_ < cold


@both
def test_sparse_data_float32_and_balanced_classes(options, iris):
    X, y = iris
    X = X.round(1)
    fits = [
        LinearClassifier(**options, lam=0.1, tol=1e-8, class_weight="balanced").fit(data, y[:130])
        for data in (X[:130], sp.csr_array(X[:130]), X[:130].astype(np.float32))
    ]
    for other in fits[1:]:
        assert other.certificate_.objective == pytest.approx(
            fits[0].certificate_.objective, rel=1e-6
        )


@both
def test_cross_validation(options, iris):
    X, y = iris
    model = LinearClassifierCV(**options, lams=[1.0, 1e-2], cv=3).fit(X, y)
    assert model.lam_ == 1e-2
    assert model.scores_.shape == (3, 2)
    assert model.coef_.shape == (3, 4)
    fitted = LinearClassifier(**options, lam=1e-2).fit(X, y)
    assert model.certificate_.lower_bound <= fitted.certificate_.objective
    assert fitted.certificate_.lower_bound <= model.certificate_.objective


def test_probabilities_are_for_softmax_only(iris):
    X, y = iris
    softmax = LinearClassifier(**JOINT["softmax"], lam=0.01).fit(X, y)
    np.testing.assert_allclose(softmax.predict_proba(X).sum(axis=1), 1.0)
    np.testing.assert_array_equal(
        softmax.classes_[softmax.predict_proba(X).argmax(axis=1)], softmax.predict(X)
    )
    assert not hasattr(LinearClassifier(**JOINT["crammer_singer"]).fit(X, y), "predict_proba")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"multi_class": "softmax"},
            r"^multi_class='softmax' needs loss='logistic', got 'hinge'$",
        ),
        (
            {"loss": "squared_hinge", "multi_class": "crammer_singer"},
            r"^multi_class='crammer_singer' needs loss='hinge', got 'squared_hinge'$",
        ),
        ({"multi_class": "crammer-singer"}, "did you mean 'crammer_singer'"),
        (
            {**JOINT["softmax"], "method": "pegasos"},
            "batches need a risk that is a sum over examples",
        ),
    ],
)
def test_what_does_not_go_together(options, said, iris):
    with pytest.raises(ValueError, match=said):
        LinearClassifier(**options).fit(*iris)


def test_a_loss_may_be_an_object(iris):
    X, y = iris
    named = LinearClassifier(**JOINT["softmax"]).fit(X, y)
    given = LinearClassifier(cp.Logistic(), multi_class="softmax").fit(X, y)
    np.testing.assert_array_equal(named.coef_, given.coef_)


@both
def test_paths_of_all_classes_at_once(options, iris):
    X, y = iris
    path = cp.path(X, y, options["loss"], [1.0, 0.1], multi_class=options["multi_class"])
    assert path.coefs.shape == (2, 3, 4)
    assert path.intercepts.shape == (2, 3)
    for index, lam in enumerate(path.lams):
        model = path.model(index)
        alone = LinearClassifier(**options, lam=lam).fit(X, y)
        assert model.certificate_.lower_bound <= alone.certificate_.objective
        assert alone.certificate_.lower_bound <= model.certificate_.objective
        np.testing.assert_array_equal(model.coef_, path.coefs[index])
        assert model.score(X, y) == path.score(X, y)[index]


def test_a_regression_has_no_classes(diabetes):
    with pytest.raises(ValueError, match="multi_class"):
        cp.path(*diabetes, "squared", [1.0], multi_class="softmax")
