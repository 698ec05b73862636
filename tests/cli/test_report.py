"""``cutplane report``: from model files and traces to a page."""

import json
import re

import pytest

from cutplane.io import read_trace


@pytest.fixture
def fitted(run, two_classes, tmp_path):
    """A model file and a trace."""
    model, trace = tmp_path / "a.model", tmp_path / "run.jsonl"
    options = ["--loss", "logistic", "--lam", 0.01, "--out", model, "--trace", trace, "-q"]
    assert run("fit", two_classes, *options).exit_code == 0
    return model, trace


def data_of(path):
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])


def test_a_trace(run, fitted, tmp_path):
    page = tmp_path / "page.html"
    result = run("report", fitted[1], "-o", page)
    assert result.exit_code == 0
    assert re.fullmatch(rf"{re.escape(str(page))}: \d+ kB\n", result.stdout)
    (table,) = data_of(page)["tables"]
    records = read_trace(fitted[1])
    assert table["objective"] == [record.objective for record in records]
    assert table["seconds"] == [record.seconds for record in records]


def test_a_model_with_everything(run, fitted, two_classes, tmp_path):
    page = tmp_path / "page.html"
    files = ["report", *fitted, "--data", two_classes, "-o", page, "--bootstrap", 5]
    result = run(*files)
    assert result.exit_code == 0
    assert "100 %  resamples" in result.stderr
    text = page.read_text()
    for title in ("The certificate", "The run", "Predictions of two.svm", "Largest coefficients"):
        assert f"<h2>{title}</h2>" in text
    assert "feature 1" in text
    assert "feature 0" not in text
    again = run(*files, "-q")
    assert (again.stdout, again.stderr) == ("", "")
    assert page.read_text() == text


def test_a_model_alone(run, fitted, tmp_path):
    page = tmp_path / "page.html"
    assert run("report", fitted[0], "-o", page).exit_code == 0
    assert "<figure" not in page.read_text()


def test_a_model_of_a_table(run, tmp_path):
    table, model, page = (tmp_path / name for name in ("people.csv", "model", "page.html"))
    rows = [f"{i},{['a', '<b>'][i % 2]},{'yes' if i > 20 + i % 3 else 'no'}" for i in range(40)]
    table.write_text("\n".join(["age,kind,buys", *rows]) + "\n")
    assert run("fit", table, "--target", "buys", "--out", model, "-q").exit_code == 0
    assert run("report", model, "--data", table, "-o", page).exit_code == 0
    text = page.read_text()
    assert "<td>kind_&lt;b&gt;</td>" in text  # named as in the table
    assert "feature 1" not in text
    assert "Predictions of people.csv" in text


def test_several_traces(run, fitted, three_classes, tmp_path):
    page, other = tmp_path / "page.html", tmp_path / "three.jsonl"
    run("fit", three_classes, "--lam", 0.1, "--trace", other, "-q")
    assert run("report", fitted[1], other, "-o", page).exit_code == 0
    labels = [line["label"] for line in data_of(page)["charts"][1]["lines"]]
    assert labels == ["run.jsonl", "three.jsonl (mean over 3 problems)"]


def test_wrong_files(complaint, fitted, two_classes, tmp_path):
    model, trace = fitted
    page, empty = tmp_path / "page.html", tmp_path / "empty.jsonl"
    assert complaint("report", model, model, "-o", page).endswith("a page is about one model")
    assert "cannot predict" in complaint("report", trace, "--data", two_classes, "-o", page)
    assert "the same file" in complaint("report", trace, "-o", trace)
    assert "no such file" in complaint("report", tmp_path / "nowhere", "-o", page).lower()
    assert "not a usable cutplane model" in complaint("report", two_classes, "-o", page)
    empty.write_text('{"iteration": 1')
    assert complaint("report", empty, "-o", page).endswith("a trace without iterations")
    assert complaint("report", trace, "-o", page, "--bootstrap", -2).startswith("--bootstrap")
    assert not page.exists()
