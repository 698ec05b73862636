"""Losses that are not convex on the command line."""

import json

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from typer.testing import CliRunner

import cutplane as cp
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


def test_unlabeled_examples_with_another_loss_and_convex_steps(tmp_path):
    def run(*command):
        return CliRunner().invoke(app, [*map(str, command)])

    rng = np.random.default_rng(0)
    lines = []
    for i in range(60):
        x = rng.normal([1.5 if i % 2 else -1.5, 0.0])
        lines.append(f"{i % 2 if i < 10 else -1} 1:{x[0]:.4f} 2:{x[1]:.4f}\n")
    (tmp_path / "few.svm").write_text("".join(lines))
    options = ["--task", "transductive", "--lam", 0.05]
    fit = run(
        "fit", tmp_path / "few.svm", *options, "--loss", "double_ramp", "--plateau", 0.2,
        "--method", "cccp", "--gamma-steps", 2, "--out", tmp_path / "model",
        "--plot", tmp_path / "run.png", "--json",
    )  # fmt: skip
    assert fit.exit_code == 0, fit.output
    document = json.loads(fit.stdout)
    assert (document["loss"], document["status"]) == ("double_ramp", "stationary")
    loaded = cp.load_model(tmp_path / "model")
    assert (loaded.plateau, loaded.gamma_steps, loaded.method) == (0.2, 2, "cccp")
    refused = run("fit", tmp_path / "few.svm", *options, "--plateau", 0.2)
    assert refused.exit_code == 2
    assert "--plateau has no effect with --loss hat, only with double_ramp" in refused.stderr
    refused = run("fit", tmp_path / "few.svm", *options, "--method", "bmrm")
    assert refused.exit_code == 2
    assert "use nrbm" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
