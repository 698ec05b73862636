"""The transductive support vector machine: its objective, its start, labels that are missing."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

import cutplane as cp


def two_blobs(n=100, distance=1.5, seed=0):
    """Two clusters, of which a few examples have labels."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 2
    X = rng.normal(size=(n, 3))
    X[:, 0] += np.where(truth, distance, -distance)
    y = np.where(np.arange(n) < 10, truth, -1)
    return X, y, truth


def objective(model, X, y, gamma, lam, classes=(0, 1)):
    """What the class says it minimizes, computed by hand."""
    z = X @ model.coef_[0] + model.intercept_[0]
    known = y != -1
    signs = np.where(y[known] == classes[1], 1.0, -1.0)
    labeled = np.maximum(0.0, 1.0 - signs * z[known]).mean()
    unlabeled = np.maximum(0.0, 1.0 - np.abs(z[~known])).mean()
    return 0.5 * lam * model.coef_[0] @ model.coef_[0] + labeled + gamma * unlabeled


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("gamma", [0.5, 5.0])
def test_objective_is_the_one_that_is_promised(fit_intercept, gamma):
    X, y, _ = two_blobs()
    model = cp.TransductiveClassifier(gamma, lam=0.05, fit_intercept=fit_intercept).fit(X, y)
    assert model.certificate_.status is cp.Status.STATIONARY
    assert not model.certificate_.valid
    assert model.certificate_.objective == pytest.approx(objective(model, X, y, gamma, 0.05))


def test_mean_score_of_the_unlabeled_is_held():
    X, y, _ = two_blobs()
    known = y != -1
    machine = cp.LinearClassifier(lam=0.05).fit(X[known], y[known])
    means = {
        "start": machine.decision_function(X[~known]).mean(),
        "labels": 2.0 * y[known].mean() - 1.0,
        0.3: 2.0 * 0.3 - 1.0,
    }
    for balance, mean in means.items():
        model = cp.TransductiveClassifier(lam=0.05, balance=balance).fit(X, y)
        assert model.decision_function(X[~known]).mean() == pytest.approx(mean, abs=1e-9)


def test_never_above_its_start():
    # The start has the balanced intercept too; what is compared is the objective of the fit.
    X, y, _ = two_blobs(distance=0.7)
    for gamma in (0.1, 1.0, 10.0):
        model = cp.TransductiveClassifier(gamma, lam=0.01, fit_intercept=False).fit(X, y)
        start = cp.LinearClassifier(lam=0.01, fit_intercept=False).fit(X[y != -1], y[y != -1])
        assert objective(model, X, y, gamma, 0.01) <= objective(start, X, y, gamma, 0.01)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_unlabeled_examples_or_weight_it_is_the_certified_machine(fit_intercept):
    X, y, truth = two_blobs()
    known = y != -1
    machine = cp.LinearClassifier(lam=0.05, fit_intercept=fit_intercept).fit(X[known], y[known])
    options = {"lam": 0.05, "fit_intercept": fit_intercept}
    for model in (
        cp.TransductiveClassifier(0.0, **options).fit(X, y),
        cp.TransductiveClassifier(**options).fit(X[known], truth[known]),
    ):
        assert model.certificate_.status is cp.Status.OPTIMAL
        assert model.certificate_.valid
        assert model.certificate_.objective == machine.certificate_.objective
        assert np.array_equal(model.coef_, machine.coef_)
        assert np.array_equal(model.intercept_, machine.intercept_)


def test_start_is_certified():
    X, y, _ = two_blobs()
    model = cp.TransductiveClassifier(lam=0.05).fit(X, y)
    known = y != -1
    machine = cp.LinearClassifier(lam=0.05).fit(X[known], y[known])
    assert model.start_certificate_.valid
    assert model.start_certificate_.objective == machine.certificate_.objective


def test_two_dimensions_beside_a_grid():
    axis = np.linspace(-3.0, 3.0, 241)
    w = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    n_global = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        truth = np.arange(60) % 2
        X = rng.normal(size=(60, 2)) + np.where(truth[:, None], [1.2, 0.0], [-1.2, 0.0])
        y = np.where(np.arange(60) < 8, truth, -1)
        model = cp.TransductiveClassifier(2.0, lam=0.1, fit_intercept=False, tol=1e-4).fit(X, y)
        z, known, signs = X @ w.T, y != -1, np.where(y == 1, 1.0, -1.0)[:, None]
        values = (
            0.05 * (w**2).sum(axis=1)
            + np.maximum(0.0, 1.0 - signs[known] * z[known]).mean(axis=0)
            + 2.0 * np.maximum(0.0, 1.0 - np.abs(z[~known])).mean(axis=0)
        )
        found = model.certificate_.objective
        near = np.linalg.norm(w - model.coef_[0], axis=1) < 0.1
        assert found <= values[near].min() + 1e-3
        n_global += found <= values.min() + 1e-3
    assert n_global >= 4  # the others end in another valley


def test_slopes_are_those_of_the_objective():
    X, y, _ = two_blobs()
    rows = cp.as_rows(X)
    scores = cp.data.CenteredScore(rows, X[y == -1].mean(axis=0), 0.2)
    known, free = np.flatnonzero(y != -1), np.flatnonzero(y == -1)
    risk = cp.ScoredRisk(scores.part(known), np.where(y[known] == 1, 1.0, -1.0), cp.Hinge())
    risk = risk + 3.0 * cp.ScoredRisk(scores.part(free), np.ones(len(free)), cp.Hat())
    w = np.random.default_rng(1).normal(size=3)
    point = risk.at(w)
    for way in np.eye(3):
        ahead, back = (risk.at(w + step * way).value for step in (1e-6, -1e-6))
        assert point.plane().slope @ way == pytest.approx((ahead - back) / 2e-6, abs=1e-6)


def test_marks_of_missing_labels():
    X, y, truth = two_blobs()
    words = np.array(["no", "yes"])[truth]
    known = y != -1
    marked = {
        "none": np.where(known, words.astype(object), None),
        "nan": np.where(known, words.astype(object), np.nan),
        "word": np.where(known, words, "?"),
    }
    expected = cp.TransductiveClassifier(lam=0.05).fit(X, y)
    for kind, labels in marked.items():
        mark = "?" if kind == "word" else -1
        model = cp.TransductiveClassifier(lam=0.05, unlabeled=mark).fit(X, labels)
        assert model.classes_.tolist() == ["no", "yes"]
        assert np.array_equal(model.coef_, expected.coef_)
        assert model.transduction_[known].tolist() == words[known].tolist()
    floats = cp.TransductiveClassifier(lam=0.05).fit(X, np.where(known, truth, np.nan))
    assert np.array_equal(floats.coef_, expected.coef_)


def test_transduction_keeps_labels_that_were_given():
    X, y, _ = two_blobs(distance=2.5)
    y[0] = 1 - y[0]  # a wrong one
    model = cp.TransductiveClassifier(lam=0.05).fit(X, y)
    assert model.transduction_[0] == y[0]
    assert np.array_equal(model.transduction_[y == -1], model.predict(X[y == -1]))


def test_three_classes_sparse_and_weights():
    rng = np.random.default_rng(0)
    truth = np.arange(150) % 3
    X = rng.normal(size=(150, 4))
    X[np.arange(150), truth] += 4.0
    y = np.where(np.arange(150) < 15, truth, -1)
    dense = cp.TransductiveClassifier(lam=0.01).fit(X, y)
    sparse = cp.TransductiveClassifier(lam=0.01).fit(scipy.sparse.csr_array(X), y)
    assert dense.coef_.shape == (3, 4)
    assert (dense.predict(X) == truth).mean() > 0.95
    # Rounding may lead to another valley; the start is the same.
    for one, other in zip(sparse.start_certificate_, dense.start_certificate_, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-3)
    assert (sparse.predict(X) == truth).mean() > 0.95
    # Examples of weight zero are not there.
    weights = np.where(np.arange(150) < 120, 1.0, 0.0)
    some = cp.TransductiveClassifier(0.1, lam=0.01).fit(X, y, sample_weight=weights)
    alone = cp.TransductiveClassifier(0.1, lam=0.01).fit(X[:120], y[:120])
    assert [end.objective for end in some.certificate_] == pytest.approx(
        [end.objective for end in alone.certificate_], rel=2e-2
    )


def test_same_bits_again_and_from_a_checkpoint(tmp_path):
    X, y, _ = two_blobs()
    first = cp.TransductiveClassifier(lam=0.01, checkpoint=tmp_path / "c").fit(X, y)
    again = cp.TransductiveClassifier(lam=0.01, checkpoint=tmp_path / "c").fit(X, y)
    plain = cp.TransductiveClassifier(lam=0.01).fit(X, y)
    assert np.array_equal(first.coef_, again.coef_)
    assert np.array_equal(first.coef_, plain.coef_)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([-1, 1, 1, -1], {}, "all labels are 1, and -1 marks examples without one"),
        ([-1, -1, -1, -1], {}, "no example has a label"),
        ([0, 0, -1, -1], {}, "a classifier needs two classes, got one class only: 0"),
        ([0, 1, -1, -1], {"gamma": -1.0}, "gamma must be finite and not negative"),
        (
            [0, 1, -1, -1],
            {"balance": 1.5},
            "balance must be 'start', 'labels' or lie between 0 and 1",
        ),
        ([0, 1, -1, -1], {"balance": "lables"}, "between 0 and 1, got 'lables'"),
        ([0, 1, 2, -1], {"balance": 0.5}, "a share as balance is for two classes"),
    ],
)
def test_bad_input(labels, options, message):
    X = np.arange(8.0).reshape(4, 2)
    with pytest.raises(ValueError, match=message):
        cp.TransductiveClassifier(**options).fit(X, labels)


def test_unlabeled_examples_that_are_all_alike():
    X, y, _ = two_blobs()
    X[y == -1] = [0.5, 0.0, 0.0]
    model = cp.TransductiveClassifier(lam=0.05).fit(X, y)
    assert model.certificate_.status is cp.Status.STATIONARY
    assert len(np.unique(model.predict(X[y == -1]))) == 1


@pytest.mark.filterwarnings("ignore::cutplane.ConstantModelWarning")
@parametrize_with_checks([cp.TransductiveClassifier(lam=1e-3, unlabeled="nothing")])
def test_estimator_checks(estimator, check):
    check(estimator)
