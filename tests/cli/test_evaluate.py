"""``cutplane evaluate``: the numbers are scikit-learn's."""

import json

import pytest
from sklearn import metrics

from cutplane.io import load_model, read_svmlight


def report_of(run, *arguments):
    result = run("evaluate", *arguments, "--json")
    assert result.exit_code == 0
    (line,) = result.stdout.splitlines()
    return json.loads(line, parse_constant=pytest.fail)


def test_two_classes(run, model, two_classes):
    X, y, _ = read_svmlight(two_classes)
    loaded = load_model(model)
    predicted = loaded.predict(X)
    report = report_of(run, model, two_classes)
    assert report["accuracy"] == metrics.accuracy_score(y, predicted)
    assert report["balanced_accuracy"] == metrics.balanced_accuracy_score(y, predicted)
    assert report["f1"] == pytest.approx(metrics.f1_score(y, predicted))
    area = metrics.roc_auc_score(y, loaded.decision_function(X))
    assert report["roc_area"] == pytest.approx(area, rel=1e-12)
    assert report["confusion"] == metrics.confusion_matrix(y, predicted).tolist()
    assert json.dumps(report["classes"]) == "[-1, 1]"
    assert report["positive_class"] == 1


def test_words(run, model, two_classes):
    text = run("evaluate", model, two_classes).stdout
    assert "balanced accuracy" in text
    *_, header, negative, positive = text.splitlines()
    assert header.split() == ["actual", "\\", "predicted", "-1", "1"]
    assert sum(map(int, negative.split()[1:] + positive.split()[1:])) == 60


def test_three_classes_with_words(run, tmp_path):
    data, path = tmp_path / "data.svm", tmp_path / "model"
    names = ["a", "b", "c"]
    data.write_text("".join(f"{names[i % 3]} {i % 3 + 1}:1\n" for i in range(30)))
    run("fit", data, "--lam", 0.01, "--out", path, "-q")
    report = report_of(run, path, data)
    assert report["accuracy"] == 1.0
    assert report["confusion"] == [[10, 0, 0], [0, 10, 0], [0, 0, 10]]
    assert "f1" not in report


@pytest.mark.parametrize(
    ("arguments", "loss"),
    [
        (["--loss", "quantile", "--quantile", 0.8],
         lambda y, p: metrics.mean_pinball_loss(y, p, alpha=0.8)),
        (["--loss", "absolute"], metrics.mean_absolute_error),
        (["--loss", "squared"], lambda y, p: metrics.mean_squared_error(y, p) / 2),
    ],
)  # fmt: skip
def test_regression(run, numbers, tmp_path, arguments, loss):
    path = tmp_path / "model"
    run("fit", numbers, *arguments, "--lam", 0.01, "--out", path, "-q")
    X, y, _ = read_svmlight(numbers)
    predicted = load_model(path).predict(X)
    report = report_of(run, path, numbers)
    assert report["mae"] == pytest.approx(metrics.mean_absolute_error(y, predicted))
    assert report["rmse"] == pytest.approx(metrics.root_mean_squared_error(y, predicted))
    assert report["r2"] == pytest.approx(metrics.r2_score(y, predicted))
    assert report["mean_loss"] == pytest.approx(loss(y, predicted))
    assert f"mean {report['loss']} loss" in run("evaluate", path, numbers).stdout


def test_poisson_loss_is_of_the_scores_not_of_the_predictions(run, tmp_path):
    data, path = tmp_path / "data.svm", tmp_path / "model"
    data.write_text("".join(f"{i % 4} 1:{i % 4} 2:{i % 3}\n" for i in range(40)))
    run("fit", data, "--loss", "poisson", "--lam", 0.01, "--no-intercept", "--out", path, "-q")
    loaded = load_model(path)
    penalty = 0.01 / 2 * float(loaded.coef_ @ loaded.coef_)
    mean_loss = report_of(run, path, data)["mean_loss"]
    assert mean_loss == pytest.approx(loaded.certificate_.objective - penalty)


def test_one_class_only_leaves_the_roc_area_undefined(run, model, tmp_path):
    data = tmp_path / "one.svm"
    data.write_text("-1 1:-9\n-1 1:-8\n")
    report = report_of(run, model, data)
    assert report["roc_area"] is None
    assert report["balanced_accuracy"] == 1.0
    assert "not defined here" in run("evaluate", model, data).stdout


def test_labels_the_model_never_saw_are_mistakes(run, model, tmp_path):
    data = tmp_path / "new.svm"
    data.write_text("-1 1:-9\n7 1:9\n")
    report = report_of(run, model, data)
    assert report["accuracy"] == 0.5
    assert report["classes"] == [-1, 1, 7]


@pytest.mark.parametrize("label", ["spam", "5"])
def test_labels_of_another_kind(complaint, model, tmp_path, label):
    data = tmp_path / "other.svm"
    data.write_text(f"{label} 1:1\n")
    assert complaint("evaluate", model, data) == (
        f"{data}: the model knows none of the labels: it knows -1, 1, the first one here is {label}"
    )


def test_words_cannot_be_compared_with_numbers_to_predict(run, complaint, numbers, tmp_path):
    path, data = tmp_path / "model", tmp_path / "words.svm"
    run("fit", numbers, "--task", "regression", "--out", path, "-q")
    data.write_text("spam 1:1\n")
    assert complaint("evaluate", path, data) == (
        f"{data}: regression needs numbers as labels, not 'spam'"
    )


def test_bootstrap(run, model, two_classes):
    result = run("evaluate", model, two_classes, "--bootstrap", 20, "--seed", 5)
    shown = [line for line in result.stdout.splitlines() if line.startswith("accuracy")]
    assert "[" in shown[0]
    assert "95 % of 20 resamples of the samples" in result.stdout
    assert result.stderr.splitlines()[-1] == "100 %  resamples"
    assert 2 <= len(result.stderr.splitlines()) <= 11
    again = run("evaluate", model, two_classes, "--bootstrap", 20, "--seed", 5, "-q")
    assert again.stdout == result.stdout
    assert again.stderr == ""
    report = report_of(run, model, two_classes, "--bootstrap", 20, "--level", 0.5)
    assert report["intervals"]["level"] == 0.5
    low, high = report["intervals"]["accuracy"]
    assert low <= high


def test_wrong_options(complaint, model, two_classes):
    assert complaint("evaluate", model, two_classes, "--bootstrap", -1) == (
        "--bootstrap must not be negative, not -1"
    )
    assert complaint("evaluate", model, two_classes, "--level", 2).startswith("--level must be")
    for wrong in ("0", "1,x", ""):
        said = complaint("evaluate", model, two_classes, "--at", wrong)
        assert said == f"--at must be numbers of documents: 1,3,5,10; not {wrong!r}"
