"""``--positive`` and ``--categories``: which class is looked for, and the order of grades."""

import json

import numpy as np
import pytest
from sklearn import metrics

import cutplane as cp
from cutplane.io import read_svmlight


def write(path, X, labels):
    lines = [" ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row)) for row in X.tolist()]
    path.write_text("".join(f"{label} {line}\n" for label, line in zip(labels, lines, strict=True)))
    return path


@pytest.fixture
def customers(tmp_path):
    """Every fifth customer leaves, for reasons that the features do not tell clearly."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    leaves = 2.0 * X[:, 0] + X[:, 1] + rng.normal(size=300) > 2.0
    y = np.where(leaves, "churn", "stay")
    return X, y, write(tmp_path / "customers.svm", X, y)


@pytest.fixture
def grades(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.searchsorted([-1.0, 1.0], X[:, 0] + 0.3 * rng.normal(size=300))
    return X, y, write(tmp_path / "grades.svm", X, np.array(["low", "mid", "high"])[y])


def test_the_positive_class_is_trained_for_and_evaluated(run, customers, tmp_path):
    X, y, data = customers
    path = tmp_path / "model"
    result = run("fit", data, "--loss", "f1", "--lam", 1e-3, "--positive", "churn", "--out", path)
    assert "f1 loss, positive class churn, lam = 0.001" in result.stdout
    assert "pos_label" not in result.stderr
    model = cp.load_model(path)
    assert model.positive_class_ == "churn"
    assert model.classes_.tolist() == ["churn", "stay"]
    report = json.loads(run("evaluate", path, data, "--json").stdout)
    assert report["positive_class"] == "churn"
    f1 = metrics.f1_score(y, model.predict(X), pos_label="churn")
    assert report["f1"] == pytest.approx(f1)
    assert report["roc_area"] == pytest.approx(
        metrics.roc_auc_score(y == "churn", -model.decision_function(X))
    )
    assert report["roc_area"] > 0.9
    words = run("evaluate", path, data).stdout
    assert "positive class          churn\nprecision   " in words


def test_the_larger_class_is_not_taken_in_silence(run, customers):
    _, _, data = customers
    result = run("fit", data, "--loss", "f1", "--lam", 1e-3)
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("cutplane: ")]
    assert "trained to find 'stay', the larger class" in line
    assert "--positive churn" in line
    assert "positive class stay" in result.stdout
    hinge = run("fit", data, "--lam", 1e-3)
    assert "positive" not in hinge.stdout + hinge.stderr
    report = json.loads(run("fit", data, "--json", "-q", "--positive", "churn").stdout)
    assert report["positive_class"] == "churn"


def test_labels_that_are_numbers(run, tmp_path):
    X = np.random.default_rng(0).normal(size=(90, 2))
    data = write(tmp_path / "data.svm", X, np.where(X[:, 0] > 0.7, -1, 1))
    result = run("fit", data, "--loss", "break_even", "--positive", -1, "--json", "-q")
    assert json.loads(result.stdout)["positive_class"] == -1


def test_grades_that_are_words(run, grades, tmp_path):
    _, y, data = grades
    X = read_svmlight(data)[0]
    path = tmp_path / "model"
    options = ["--task", "ordinal", "--lam", 1e-3, "--categories", "low,mid,high"]
    result = run("fit", data, *options, "--out", path)
    assert result.exit_code == 0
    assert "3 grades (low < mid < high)" in result.stdout
    model = cp.load_model(path)
    assert model.classes_.tolist() == model.categories == ["low", "mid", "high"]
    numbers = cp.OrdinalClassifier(lam=1e-3).fit(X, y)
    assert np.array_equal(model.thresholds_, numbers.thresholds_)
    report = json.loads(run("evaluate", path, data, "--json").stdout)
    assert report["accuracy"] == numbers.score(X, y)
    assert report["classes"] == ["low", "mid", "high"]
    assert report["confusion"] == metrics.confusion_matrix(y, numbers.predict(X)).tolist()
    assert {*run("predict", path, data).stdout.split()} == {"low", "mid", "high"}


def test_grades_that_are_numbers_in_another_order(run, grades, tmp_path):
    X, y, _ = grades
    data, path = write(tmp_path / "numbers.svm", X, np.array([3, 1, 2])[y]), tmp_path / "model"
    options = ["--task", "ordinal", "--lam", 1e-3, "--categories", "3, 1, 2, 4"]
    assert run("fit", data, *options, "--out", path).exit_code == 0
    assert cp.load_model(path).classes_.tolist() == [3, 1, 2]


def test_a_constant_model_is_one_line(run, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    data = write(tmp_path / "noise.svm", X, np.where(rng.random(200) > 0.9, 1, -1))
    result = run("fit", data, "--lam", 0.01, "-q")
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("cutplane: LinearClassifier: the best coefficients are zero, and all")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--positive", "chrun"], "--positive chrun: {} has no such label, only churn and stay"),
        (["--positive", "a", "--task", "ordinal"], "--positive is for --task classification"),
        (["--categories", "churn,stay"], "--categories is for --task ordinal"),
        (["--task", "ordinal"], "{}: ordinal needs numbers as labels, not 'stay', or the order"),
        (["--task", "ordinal", "--categories", "stay,leave"],
         "{}: label 'churn' is not in --categories stay,leave"),
        (["--task", "ordinal", "--categories", "stay"], "grades from low to high: low,high"),
        (["--task", "ordinal", "--categories", "stay,,churn"], "grades from low to high"),
        (["--task", "ordinal", "--categories", "stay,churn,stay"], "a grade is there twice"),
    ],
)  # fmt: skip
def test_labels_that_are_not_there(complaint, customers, options, said):
    assert said.format(customers[2]) in complaint("fit", customers[2], *options)


def test_names_for_numbers(complaint, three_classes, two_classes):
    said = complaint("fit", two_classes, "--positive", "yes")
    assert said == f"--positive: labels of {two_classes} are numbers, not 'yes'"
    said = complaint("fit", three_classes, "--positive", "1")
    assert said == f"--positive is for two classes, {three_classes} has 3"
    said = complaint("fit", three_classes, "--task", "ordinal", "--categories", "0,one,2")
    assert said == f"--categories: labels of {three_classes} are numbers, not 'one'"
