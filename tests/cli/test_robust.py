"""Losses that are not convex on the command line."""

import json

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from typer.testing import CliRunner

from cutplane.cli.app import app


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    data = tmp_path / "data.svm"
    dump_svmlight_file(X, np.sign(X[:, 0]), str(data), zero_based=False)
    return str(data), str(tmp_path / "model")


@pytest.mark.parametrize(
    "options",
    [
        ["--loss", "ramp", "--clip", "1.5", "--n-starts", "2", "--random-state", "3"],
        ["--loss", "smooth_ramp", "--clip", "1.5", "--smoothing", "0.2"],
        ["--loss", "clipped_absolute", "--clip", "1.5"],
        ["--loss", "tukey", "--width", "2"],
    ],
)
def test_a_fit_claims_no_bounds(files, options):
    data, model = files
    command = ["fit", data, "--lam", "0.05", "--out", model, *options]
    run = CliRunner().invoke(app, command)
    assert run.exit_code == 0
    assert "Stationary" in run.stdout
    assert "optimum" not in run.stdout
    document = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert document["status"] == "stationary"
    assert document["valid"] is False
    assert CliRunner().invoke(app, ["evaluate", model, data]).exit_code == 0


@pytest.mark.parametrize("option", ["--clip", "--n-starts"])
def test_values_are_checked(files, option):
    data, model = files
    command = ["fit", data, "--loss", "ramp", "--out", model, option, "0"]
    run = CliRunner().invoke(app, command)
    assert run.exit_code != 0
    assert option in run.output
