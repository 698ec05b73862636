"""``cutplane predict``: labels as they were written, scores, probabilities."""

import numpy as np
import pytest

import cutplane as cp
from cutplane.io import load_model, read_svmlight


def fitted(run, data, folder, *arguments):
    path = folder / "fitted"
    assert run("fit", data, "--lam", 0.01, "--out", path, "-q", *arguments).exit_code == 0
    return path


def test_labels_are_printed_as_written(run, model, two_classes):
    result = run("predict", model, two_classes)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 60
    assert set(lines) == {"-1", "1"}
    X, *_ = read_svmlight(two_classes)
    assert list(map(int, lines)) == load_model(model).predict(X).tolist()


@pytest.mark.parametrize("labels", [["spam", "ham"], ["0.5", "2"], ["-1", "+1"], ["10", "9"]])
def test_any_labels(run, tmp_path, labels):
    data = tmp_path / "data.svm"
    data.write_text("".join(f"{labels[i % 2]} 1:{2 * (i % 2) - 1} 2:{i % 3}\n" for i in range(20)))
    lines = run("predict", fitted(run, data, tmp_path), data).stdout.splitlines()
    assert lines == labels * 10


def test_out_is_what_would_be_printed(run, model, two_classes, tmp_path):
    out = tmp_path / "predictions"
    result = run("predict", model, two_classes, "--out", out)
    assert result.output == ""
    assert out.read_text() == run("predict", model, two_classes).stdout


def test_scores_are_exact(run, model, two_classes):
    X, *_ = read_svmlight(two_classes)
    printed = run("predict", model, two_classes, "--scores").stdout.split()
    assert list(map(float, printed)) == load_model(model).decision_function(X).tolist()


def test_a_line_alone_has_the_same_scores(run, three_classes, tmp_path):
    path = fitted(run, three_classes, tmp_path)
    whole = run("predict", path, three_classes, "--scores", "-q").stdout.splitlines()
    alone = tmp_path / "alone.svm"
    for line, scores in list(zip(three_classes.read_text().splitlines(), whole, strict=True))[:7]:
        alone.write_text(f"{line}\n")
        assert run("predict", path, alone, "--scores", "-q").stdout == f"{scores}\n"


def test_scores_of_three_classes(run, three_classes, tmp_path):
    path = fitted(run, three_classes, tmp_path)
    result = run("predict", path, three_classes, "--scores")
    assert result.stderr == "columns: 0 1 2\n"
    assert np.loadtxt(result.stdout.splitlines()).shape == (60, 3)
    assert run("predict", path, three_classes, "--scores", "-q").stderr == ""


def test_probabilities(run, two_classes, tmp_path):
    path = fitted(run, two_classes, tmp_path, "--loss", "logistic")
    result = run("predict", path, two_classes, "--probabilities")
    assert result.stderr == "columns: -1 1\n"
    np.testing.assert_allclose(np.loadtxt(result.stdout.splitlines()).sum(axis=1), 1.0)


def test_regression(run, numbers, tmp_path):
    path = fitted(run, numbers, tmp_path, "--loss", "absolute")
    X, *_ = read_svmlight(numbers)
    printed = run("predict", path, numbers).stdout.split()
    assert list(map(float, printed)) == load_model(path).predict(X).tolist()


def test_fewer_features_and_unknown_labels_are_fine(run, model, tmp_path):
    data = tmp_path / "few.svm"
    data.write_text("? 1:1\n? 2:-5\n")
    assert len(run("predict", model, data).stdout.splitlines()) == 2


def test_more_features_are_named(complaint, model, tmp_path):
    data = tmp_path / "more.svm"
    data.write_text("1 1:1\n1 1:1 5:1\n")
    said = complaint("predict", model, data)
    assert said == f"{data}:2: feature index 5 is beyond the 4 features expected"


def test_what_a_model_does_not_have(run, complaint, model, two_classes, numbers, tmp_path):
    said = complaint("predict", model, two_classes, "--probabilities")
    assert said == (
        "--probabilities: a LinearClassifier with the hinge loss has none; fit with --loss logistic"
    )
    path = fitted(run, numbers, tmp_path, "--loss", "squared")
    said = complaint("predict", path, numbers, "--scores")
    assert said == "--scores: a LinearRegressor with the squared loss has none"
    said = complaint("predict", model, two_classes, "--n-best", 3)
    assert said == "--n-best: a LinearClassifier has none; it is for sequences"


def test_bad_input(complaint, model, two_classes, tmp_path):
    assert "give --scores or --probabilities" in complaint(
        "predict", model, two_classes, "--scores", "--probabilities"
    )
    assert complaint("predict", two_classes, model).startswith(
        f"{two_classes}: not a usable cutplane model: "
    )
    gone = tmp_path / "gone"
    for arguments in ([gone, two_classes], [model, gone]):
        said = complaint("predict", *arguments)
        assert said == f"{gone}: cannot read: no such file or directory"
    said = complaint("predict", model, two_classes, "--out", model)
    assert said == f"--out {model}: the same file as {model}"


def test_grades_and_outliers(run, three_classes, tmp_path):
    X, labels, _ = read_svmlight(three_classes)
    path = tmp_path / "model"
    grades = cp.OrdinalClassifier(lam=0.01).fit(X, labels)
    cp.save_model(grades, path)
    printed = run("predict", path, three_classes).stdout.split()
    assert list(map(float, printed)) == grades.predict(X).astype(float).tolist()
    assert (
        f"{(grades.predict(X) == labels).mean():.6g}" in run("evaluate", path, three_classes).stdout
    )

    detector = cp.NoveltyDetector(0.3).fit(X.toarray() + 3.0)  # away from the origin
    cp.save_model(detector, path)
    printed = run("predict", path, three_classes).stdout.split()
    assert list(map(int, printed)) == detector.predict(X).tolist()
    result = run("predict", path, three_classes, "--probabilities")
    assert result.exit_code == 2
    assert "--probabilities: a NoveltyDetector has none" in result.stderr
    result = run("evaluate", path, three_classes)
    assert result.exit_code == 2
    assert "a NoveltyDetector has no labels to compare with" in result.stderr
