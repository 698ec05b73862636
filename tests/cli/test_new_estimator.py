"""An estimator that is registered is on the command line, and no command knows it by name."""

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from sklearn.metrics import r2_score
from typer.testing import CliRunner

import cutplane as cp
import cutplane.cli
from cutplane.cli.app import make_app
from cutplane.estimators import ESTIMATORS
from cutplane.estimators.description import Description
from cutplane.estimators.estimator import estimator
from cutplane.io import read_svmlight


@estimator
class ShiftedRegressor(cp.LinearRegressor):
    """A regression of numbers that are shifted before.

    Parameters
    ----------
    shift : float, default=1.0
        What is added to all numbers. More does not help.
    """

    description: ClassVar[Description] = replace(
        cp.LinearRegressor.description,
        task="shifting",
        losses={"shifted_absolute": cp.Absolute, "squared": cp.Squared},
        defaults={"shift": 2.0, "loss": "shifted_absolute"},
    )

    shift: float = 1.0

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y + self.shift, sample_weight)

    def predict(self, X):
        return super().predict(X) - self.shift


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setitem(ESTIMATORS, "ShiftedRegressor", ShiftedRegressor)
    app = make_app()

    def run(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


def test_fit(run, numbers):
    X, y, _ = read_svmlight(numbers)
    for choice in (["--task", "shifting"], ["--loss", "shifted_absolute"]):
        for options, shift in ((["--shift", 3], 3.0), ([], 2.0)):
            result = run("fit", numbers, *choice, *options, "--lam", 0.1, "--json", "-q")
            assert result.exit_code == 0, result.stderr
            report = json.loads(result.stdout)
            assert (report["estimator"], report["loss"]) == ("ShiftedRegressor", "shifted_absolute")
            fitted = ShiftedRegressor("shifted_absolute", shift=shift, lam=0.1).fit(X, y)
            assert report["objective"] == fitted.certificate_.objective


def test_model_file(run, numbers, tmp_path):
    path = tmp_path / "model"
    assert run("fit", numbers, "--task", "shifting", "--out", path, "-q").exit_code == 0
    loaded = cp.load_model(path)
    assert (type(loaded), loaded.shift) == (ShiftedRegressor, 2.0)
    X, y, _ = read_svmlight(numbers)
    assert [*map(float, run("predict", path, numbers).stdout.split())] == [*loaded.predict(X)]
    report = json.loads(run("evaluate", path, numbers, "--json").stdout)
    assert report["r2"] == pytest.approx(r2_score(y, loaded.predict(X)))


def test_help(run):
    result = run("fit", "--help")
    words = " ".join(result.stdout.replace("│", " ").split())
    assert "What is added to all numbers. For shifting. [default: (2)]" in words
    assert "For shifting: shifted_absolute, squared." in words


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--shift", 3], "--shift is for --task shifting"),
        (["--task", "shifting", "--templates", "words"], "--templates is for --task sequences"),
        (["--task", "shifting", "--quantile", 0.5],
         "--quantile has no effect with --loss shifted_absolute, only with quantile"),
        (["--task", "shifting", "--loss", "hinge"],
         "--loss hinge is for classification; losses for shifting are shifted_absolute, squared"),
        (["--task", "shift"], "--task: unknown name 'shift'; did you mean 'shifting'?"),
    ],
)  # fmt: skip
def test_refused(run, numbers, options, said):
    result = run("fit", numbers, *options)
    assert result.exit_code == 2
    assert result.stderr == f"cutplane: {said}\n"


def test_commands_know_no_estimator_by_name():
    # The demonstration is a program that a user might write.
    sources = set(Path(cutplane.cli.__file__).parent.rglob("*.py"))
    for source in sources - {source for source in sources if source.name == "demo.py"}:
        tree = ast.parse(source.read_text())
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert not ESTIMATORS.keys() & (names | words), source.name
