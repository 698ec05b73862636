"""``cutplane convert``, and the other commands on the folders that it writes."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from tests.processes import PATIENCE, wait_until

import cutplane as cp


@pytest.fixture
def table(tmp_path):
    """A CSV file with two features, words to predict, numbers, weights, queries and names."""
    pytest.importorskip("pyarrow", reason="tables are read by pyarrow")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    path = tmp_path / "table.csv"
    lines = [
        f"{a:.4f},{b:.4f},{'yes' if a + b > 0 else 'no'},{3 * a + b:.3f},{1 + k % 2},{k // 6},n{k}"
        for k, (a, b) in enumerate(X)
    ]
    path.write_text("\n".join(["a,b,kind,number,weight,query,name", *lines]) + "\n")
    return path


def test_a_folder_is_fitted_as_the_file_is(run, two_classes, tmp_path):
    result = run("convert", two_classes, tmp_path / "d")
    assert result.exit_code == 0
    size = cp.open_folder(tmp_path / "d").n_bytes
    said = f"{tmp_path / 'd'}: 60 samples, 4 features, sparse, {size / 1e6:.1f} MB\n"
    assert result.stdout == said
    bytes_there = two_classes.stat().st_size / 1e6
    assert result.stderr.splitlines()[-1] == f"100 %  {bytes_there:.1f} of {bytes_there:.1f} MB"
    found = {}
    for name, data in {"file": two_classes, "folder": tmp_path / "d"}.items():
        model, predictions = tmp_path / f"{name}.model", tmp_path / f"{name}.txt"
        fitted = run("fit", data, "--lam", 0.01, "--out", model, "--json", "-q")
        assert fitted.exit_code == 0
        assert run("predict", model, data, "--out", predictions).exit_code == 0
        evaluated = run("evaluate", model, data, "--json")
        objective = json.loads(fitted.stdout)["objective"]
        found[name] = objective, predictions.read_text(), evaluated.stdout, model.read_bytes()
    assert found["file"] == found["folder"]


def test_quiet(run, two_classes, tmp_path):
    result = run("convert", two_classes, tmp_path / "d", "--float32", "--quiet")
    assert (result.stdout, result.stderr) == ("", "")
    assert cp.open_folder(tmp_path / "d").X.dtype == np.float32


def test_standard_input(run, two_classes, tmp_path):
    result = run("convert", "-", tmp_path / "d", stdin=two_classes.read_bytes())
    assert result.exit_code == 0
    assert result.stderr == "0.0 MB\n"


def test_twice(run, complaint, two_classes, tmp_path):
    assert run("convert", two_classes, tmp_path / "d", "-q").exit_code == 0
    said = f"{tmp_path / 'd'}: already there; --force (force=True in Python) replaces it"
    assert complaint("convert", two_classes, tmp_path / "d") == said
    assert run("convert", two_classes, tmp_path / "d", "-q", "--force").exit_code == 0


ROLES = ["--weights", "weight", "--drop", "name"]


def test_weights_and_words_of_a_table(run, table, tmp_path):
    command = ["--target", "kind", *dropping("number", "query"), *ROLES]
    assert run("convert", table, tmp_path / "d", *command).exit_code == 0
    fitted = run("fit", tmp_path / "d", "--lam", 0.01, "--out", tmp_path / "m", "--json")
    folder = cp.open_folder(tmp_path / "d")
    assert folder.feature_names == ["a", "b"]
    model = cp.LinearClassifier(lam=0.01).fit(folder.X, folder.y, folder.weights)
    unweighted = cp.LinearClassifier(lam=0.01).fit(folder.X, folder.y)
    objective = json.loads(fitted.stdout)["objective"]
    assert objective == model.certificate_.objective != unweighted.certificate_.objective
    predicted = run("predict", tmp_path / "m", tmp_path / "d").stdout.split()
    assert predicted == model.predict(folder.X).tolist()
    assert set(predicted) == {"yes", "no"}


def dropping(*names):
    return [part for name in names for part in ("--drop", name)]


def test_regression_of_a_table(run, table, tmp_path):
    drop = dropping("kind", "weight", "query", "name")
    assert run("convert", table, tmp_path / "d", "--target", "number", *drop).exit_code == 0
    fit = ["fit", tmp_path / "d", "--task", "regression", "--lam", 1e-4, "--out", tmp_path / "m"]
    assert run(*fit).exit_code == 0
    report = json.loads(run("evaluate", tmp_path / "m", tmp_path / "d", "--json").stdout)
    assert report["r2"] > 0.99


def test_ranking_of_a_table(run, table, tmp_path):
    drop = dropping("kind", "number", "name")
    roles = ["--target", "weight", "--query", "query"]
    assert run("convert", table, tmp_path / "d", *roles, *drop).exit_code == 0
    fit = ["fit", tmp_path / "d", "--task", "ranking", "--lam", 0.01, "--out", tmp_path / "m"]
    assert run(*fit).exit_code == 0
    report = json.loads(run("evaluate", tmp_path / "m", tmp_path / "d", "--json").stdout)
    assert report["n_queries"] == 10


def test_a_folder_without_labels(run, complaint, table, tmp_path):
    drop = dropping("kind", "number", "query")
    assert run("convert", table, tmp_path / "d", *drop, *ROLES).exit_code == 0
    said = f"{tmp_path / 'd'}: it has no labels; convert with --target COLUMN"
    assert complaint("fit", tmp_path / "d") == said
    novelty = ["--task", "novelty", "--out", tmp_path / "m", "-q"]
    assert run("fit", tmp_path / "d", *novelty).exit_code == 0
    assert len(run("predict", tmp_path / "m", tmp_path / "d").stdout.split()) == 60


def test_folders_that_do_not_fit_the_model(run, complaint, two_classes, table, model, tmp_path):
    wide = tmp_path / "wide.svm"
    wide.write_text("1 5:1\n-1 2:1\n")
    assert run("convert", wide, tmp_path / "wide").exit_code == 0
    said = f"{tmp_path / 'wide'}: 5 features, 4 are expected"
    assert complaint("predict", model, tmp_path / "wide") == said
    narrow = tmp_path / "narrow.svm"
    narrow.write_text("1 2:1\n-1 2:1\n")
    assert run("convert", narrow, tmp_path / "narrow").exit_code == 0
    assert run("predict", model, tmp_path / "narrow").exit_code == 0
    drop = [*dropping("kind", "query"), *ROLES]
    assert run("convert", table, tmp_path / "d", "--target", "number", *drop).exit_code == 0
    assert complaint("predict", model, tmp_path / "d").endswith("2 features, 4 are expected")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "cvs"], "--format: unknown name 'cvs'; did you mean 'csv'?"),
        (["--features", "0"], "--features must be at least 1, not 0"),
        (["--target", "y"], "svmlight files have no column 'y'"),
        (["--query", "q"], "queries of svmlight files are 'qid', not 'q'"),
    ],
)
def test_options_that_are_wrong(complaint, two_classes, tmp_path, options, message):
    assert message in complaint("convert", two_classes, tmp_path / "d", *options, "-q")
    assert not (tmp_path / "d").exists()


def test_a_damaged_folder(run, complaint, two_classes, model, tmp_path):
    run("convert", two_classes, tmp_path / "d", "-q")
    (tmp_path / "d" / "values.npy").unlink()
    said = f"{tmp_path / 'd' / 'values.npy'}: cannot read: no such file or directory"
    assert complaint("fit", tmp_path / "d") == said
    assert complaint("predict", model, tmp_path / "d") == said
    queries = ["fit", tmp_path / "whole", "--task", "ranking"]
    run("convert", two_classes, tmp_path / "whole", "-q")
    assert complaint(*queries).endswith("it has no queries; convert with --query COLUMN")
    (tmp_path / "empty").mkdir()
    assert "empty: not a data folder, it has no manifest" in complaint("fit", tmp_path / "empty")


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is a signal")
def test_ctrl_c_leaves_nothing(start_process, tmp_path):
    process = start_process(
        [sys.executable, "-m", "cutplane", "convert", "-", tmp_path / "d"],
        stdin=subprocess.PIPE,  # from which nothing comes
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_until(lambda: any(tmp_path.iterdir()), process=process)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE) == (b"", b"cutplane: interrupted\n")
    assert process.returncode == 130
    assert [*tmp_path.iterdir()] == []
