"""Which of two classes is looked for: training, scores, ties, warm starts, paths, files."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import f1_score

import cutplane as cp
from cutplane.io import load_model, save_model
from cutplane.losses import CLASSIFICATION, MEASURES

COUNTING = ["f1", "f_beta", "precision_at_k", "recall_at_k", "break_even"]


@pytest.fixture(scope="module")
def customers():
    """Every fifth customer leaves, for reasons that the features do not tell clearly."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    leaves = rng.random(900) < 1.0 / (1.0 + np.exp(3.0 - 2.5 * X[:, 0] - 2.0 * X[:, 1]))
    return X, np.where(leaves, "churn", "stay")


def test_f1_is_trained_for_the_class_that_is_looked_for(customers):
    X, y = customers
    with pytest.warns(cp.LabelOrderWarning, match=r"f1 is trained to find 'stay', the larger clas"):
        guessed = cp.LinearClassifier("f1", lam=1e-3).fit(X, y)
    churn = cp.LinearClassifier("f1", lam=1e-3, pos_label="churn").fit(X, y)
    assert guessed.positive_class_ == "stay"
    assert churn.positive_class_ == "churn"

    def f1(model):
        return f1_score(y, model.predict(X), pos_label="churn")

    assert f1(churn) > f1(guessed) + 0.03


@pytest.mark.parametrize("loss", MEASURES)
def test_it_is_the_model_of_numbers_turned_around(customers, loss):
    X, y = customers
    words = cp.LinearClassifier(loss, lam=0.1, pos_label="churn")
    numbers = cp.LinearClassifier(loss, lam=0.1)
    with warnings.catch_warnings():
        # Precision and recall of the first ones are out of reach for so much noise.
        warnings.simplefilter("ignore", cp.ConstantModelWarning)
        words.fit(X, y)
        numbers.fit(X, (y == "churn").astype(int))
    assert words.classes_.tolist() == ["churn", "stay"]
    objectives = [model.certificate_.objective for model in (words, numbers)]
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-3)
    np.testing.assert_allclose(words.coef_, -numbers.coef_, atol=2e-2)
    np.testing.assert_allclose(words.intercept_, -numbers.intercept_, atol=2e-2)
    # Scores above zero mean the second class, as everywhere in scikit-learn.
    scores = words.decision_function(X)
    assert (words.predict(X)[scores > 0.0] == "stay").all()
    assert (words.predict(X)[scores < 0.0] == "churn").all()
    assert abs((words.predict(X) == "churn").sum() - numbers.predict(X).sum()) <= 9


@pytest.mark.parametrize("loss", ["precision_at_k", "recall_at_k", "f1"])
def test_a_score_of_zero_is_never_the_class_that_is_looked_for(loss):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.repeat(["a", "b", "b"], 20)
    for label in ("a", "b"):
        model = cp.LinearClassifier(loss, lam=1e6, pos_label=label)
        model.classes_, model.n_features_in_ = np.array(["a", "b"]), 2
        model.coef_, model.intercept_ = np.zeros((1, 2)), np.zeros(1)
        assert (model.predict(X) != label).all()
    assert set(y) == {"a", "b"}


@pytest.mark.parametrize("loss", [*CLASSIFICATION, "error_rate"])
def test_losses_that_treat_both_alike_do_not_change(customers, loss):
    X, y = customers
    plain = cp.LinearClassifier(loss, lam=0.01).fit(X, y)
    for label in ("churn", "stay"):
        model = cp.LinearClassifier(loss, lam=0.01, pos_label=label).fit(X, y)
        np.testing.assert_array_equal(model.coef_, plain.coef_)
        np.testing.assert_array_equal(model.predict(X), plain.predict(X))
        assert model.positive_class_ == label


@pytest.mark.parametrize("loss", COUNTING)
def test_nothing_is_doubted_where_it_is_clear(customers, loss):
    # Warnings are errors: words of which the smaller class is taken, numbers, and a given label.
    X, y = customers
    model = cp.LinearClassifier(loss, lam=1.0, max_iter=1, tol=0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.ConstantModelWarning)
        warnings.filterwarnings("ignore", message="LinearClassifier ended with status")
        model.fit(X, np.where(y == "churn", "yes", "no"))
        model.fit(X, (y == "stay").astype(int))
        model.fit(X, y == "stay")
        clone(model).set_params(pos_label="stay").fit(X, y)
        clone(model).set_params(loss="roc_area").fit(X, y)
        with pytest.warns(cp.LabelOrderWarning, match="say pos_label='churn' .*--positive churn"):
            model.fit(X, y)


def test_what_is_no_class_is_refused(customers):
    X, y = customers
    with pytest.raises(ValueError, match="pos_label='chrun' is not one of the classes 'churn' and"):
        cp.LinearClassifier("f1", pos_label="chrun").fit(X, y)
    with pytest.raises(ValueError, match="pos_label='1' is not one of the classes 0 and 1"):
        cp.LinearClassifier("f1", pos_label="1").fit(X, (y == "stay").astype(int))
    with pytest.raises(ValueError, match="pos_label is for two classes, y has 3"):
        cp.LinearClassifier("f1", pos_label=1).fit(X, np.arange(900) % 3)


def test_there_is_no_positive_class_of_three(iris):
    model = cp.LinearClassifier(lam=0.1).fit(*iris)
    assert not hasattr(model, "positive_class_")


def test_a_warm_start_goes_on_from_there(customers):
    X, y = customers
    model = cp.LinearClassifier("f1", lam=1e-3, pos_label="churn", warm_start=True, tol=1e-4)
    first = model.fit(X, y).evaluations_
    assert model.fit(X, y).evaluations_ < first


def test_paths_and_cross_validation(customers):
    X, y = customers
    path = cp.path(X, y, "f1", [0.1, 1e-3], pos_label="churn")
    with pytest.warns(cp.LabelOrderWarning, match="trained to find 'stay'"):
        cp.path(X, y, "f1", [0.1])
    single = cp.LinearClassifier("f1", lam=1e-3, pos_label="churn").fit(X, y)
    np.testing.assert_allclose(path.model(1).coef_, single.coef_, atol=2e-2)
    assert path.model(1).positive_class_ == "churn"
    model = cp.LinearClassifierCV("f1", lams=[0.1, 1e-3], cv=2, pos_label="churn").fit(X, y)
    assert f1_score(y, model.predict(X), pos_label="churn") > 0.4


def test_files_keep_it(customers, tmp_path):
    X, y = customers
    model = cp.LinearClassifier("f1", lam=1e-3, pos_label=y[:0].dtype.type("churn")).fit(X, y)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.pos_label == loaded.positive_class_ == "churn"
    assert (loaded.predict(X) == model.predict(X)).all()


def test_files_with_another_class_are_refused(customers, tmp_path):
    X, y = customers
    model = cp.LinearClassifier("f1", lam=1e-3, pos_label="churn").fit(X, y)
    with pytest.raises(ValueError, match="pos_label='churm' is not one of the classes"):
        save_model(model.set_params(pos_label="churm"), tmp_path / "model")
