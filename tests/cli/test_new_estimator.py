"""An estimator that is registered is on the command line, and no command knows it by name."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import cutplane as cp
import cutplane.cli
from cutplane.cli.app import make_app
from cutplane.estimators import ESTIMATORS
from cutplane.io import read_svmlight


class ShiftedRegressor(cp.LinearRegressor):
    """A regression of numbers that are shifted before.

    Parameters
    ----------
    loss : str
        How errors count.
    shift : float, default=1.0
        What is added to all numbers. More does not help.
    lam : float, optional
        Strength of the regularizer.
    tol : float
        The relative gap.
    n_jobs : int, optional
        Number of threads.
    callbacks : sequence of callables
        Called after every iteration.
    """

    description = replace(
        cp.LinearRegressor.description,
        task="shifting",
        losses={"shifted_absolute": cp.Absolute, "squared": cp.Squared},
        defaults={"shift": 2.0},
    )

    def __init__(
        self,
        loss: str = "shifted_absolute",
        *,
        shift: float = 1.0,
        lam: float | None = None,
        tol: float = 1e-3,
        n_jobs: int | None = None,
        callbacks: tuple = (),
    ):
        super().__init__(loss, lam=lam, tol=tol, n_jobs=n_jobs, callbacks=callbacks)
        self.shift = shift

    def fit(self, X, y):
        return super().fit(X, y + self.shift)


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setitem(ESTIMATORS, "ShiftedRegressor", ShiftedRegressor)
    app = make_app()

    def run(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


def test_fit(run, numbers):
    for choice in (["--task", "shifting"], ["--loss", "shifted_absolute"]):
        result = run("fit", numbers, *choice, "--shift", 3, "--lam", 0.1, "--json", "-q")
        assert result.exit_code == 0, result.stderr
        report = json.loads(result.stdout)
        assert (report["estimator"], report["loss"]) == ("ShiftedRegressor", "shifted_absolute")
        X, y, _ = read_svmlight(numbers)
        fitted = ShiftedRegressor(shift=3.0, lam=0.1).fit(X, y)
        assert report["objective"] == fitted.certificate_.objective
    two = ShiftedRegressor(shift=2.0, lam=0.1).fit(X, y)
    default = json.loads(run("fit", numbers, *choice, "--lam", 0.1, "--json", "-q").stdout)
    assert default["objective"] == two.certificate_.objective


def test_help(run):
    result = run("fit", "--help")
    words = " ".join(result.stdout.replace("│", " ").split())
    assert "What is added to all numbers. For shifting. [default: (2)]" in words
    assert "For shifting: shifted_absolute, squared." in words


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--shift", 3], "--shift is for --task shifting"),
        (["--task", "shifting", "--max-iter", 3], "--max-iter is not for --task shifting"),
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
    sources = set(Path(cutplane.cli.__file__).parent.glob("*.py"))
    for source in sources - {source for source in sources if source.name == "demo.py"}:
        tree = ast.parse(source.read_text())
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert not ESTIMATORS.keys() & (names | words), source.name
