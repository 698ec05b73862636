"""Models that the command line reads and does not fit: made in Python."""

import json

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import cutplane as cp
from cutplane.io import read_svmlight


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_structured_predictors_are_for_python(tmp_path, complaint, command):
    predictor = cp.StructuredPredictor(cp.MulticlassModel(), tol=0.1).fit(np.eye(2), [0, 1])
    cp.save_model(predictor, tmp_path / "model")
    (tmp_path / "data").write_text("1 1:1\n")
    said = complaint(command, tmp_path / "model", tmp_path / "data")
    assert said == (
        f"{tmp_path / 'model'}: a StructuredPredictor predicts in Python only, its inputs are no "
        "lines of a file"
    )


@pytest.fixture
def labels_file(tmp_path):
    """A file of 30 lines, and the features in it."""
    X = np.random.default_rng(0).normal(size=(30, 3))
    dump_svmlight_file(X, X[:, 0], str(tmp_path / "data"), zero_based=False)
    return tmp_path / "data", read_svmlight(tmp_path / "data").X


def test_quantiles(tmp_path, labels_file, run, complaint):
    data, X = labels_file
    fitted = cp.LinearQuantiles([0.25, 0.75], lam=0.01).fit(X, np.arange(30) % 7)
    cp.save_model(fitted, tmp_path / "model")
    result = run("predict", tmp_path / "model", data)
    assert result.stderr == "columns: 0.25 0.75\n"
    np.testing.assert_array_equal(np.loadtxt(result.stdout.splitlines()), fitted.predict(X))
    said = complaint("predict", tmp_path / "model", data, "--scores")
    assert said == "--scores: a LinearQuantiles has none"
    report = json.loads(run("evaluate", tmp_path / "model", data, "--json").stdout)
    below = read_svmlight(data).y[:, None] <= fitted.predict(X)
    assert [row["coverage"] for row in report["per_quantile"]] == pytest.approx(below.mean(axis=0))


def test_many_labels(tmp_path, labels_file, run, complaint):
    data, X = labels_file
    fitted = cp.MultilabelClassifier(lam=0.01).fit(X, (X.toarray() > 0.5).astype(int))
    cp.save_model(fitted, tmp_path / "model")
    lines = run("predict", tmp_path / "model", data).stdout.splitlines()
    assert lines == [",".join(map(str, np.flatnonzero(row))) for row in fitted.predict(X)]
    assert "" in lines
    assert any("," in line for line in lines)
    scores = run("predict", tmp_path / "model", data, "--scores")
    assert scores.stderr == "columns: 0 1 2\n"
    np.testing.assert_array_equal(
        np.loadtxt(scores.stdout.splitlines()), fitted.decision_function(X)
    )
    said = complaint("evaluate", tmp_path / "model", data)
    assert said.endswith("a MultilabelClassifier is evaluated in Python only, by cutplane.evaluate")


def test_classes_of_a_model_of_many_labels(tmp_path, labels_file, run):
    data, X = labels_file
    fitted = cp.MultilabelClassifier(lam=0.01).fit(X, np.where(X.toarray()[:, 0] > 0, "up", "down"))
    cp.save_model(fitted, tmp_path / "model")
    lines = run("predict", tmp_path / "model", data).stdout.splitlines()
    assert lines == fitted.predict(X).tolist()
