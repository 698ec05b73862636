"""``cutplane fit --checkpoint``: the same command goes on after a kill, with the same bits."""

import json
import re
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from tests.processes import PATIENCE

from cutplane.cli.app import app
from cutplane.estimators import estimators_by_task
from cutplane.io import read_trace, split_runs

# A child that signals itself at its n-th write boundary; a state has about 70 of them.
PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
from cutplane.compute import durable
number, left = int(sys.argv.pop(1)), int(sys.argv.pop(1))
def observe(step):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), number)
durable.observer = observe
from cutplane.cli import main
main()
"""

# Options of each task.
TASKS = {
    "classification": ["--loss", "hinge", "--method", "bmrm"],
    "regression": ["--loss", "absolute", "--method", "bmrm"],
    "ordinal": [],
    "novelty": ["--method", "bmrm"],
    "ranking": [],
    "transductive": ["--unlabeled", 0],
    "quantiles": [],
    "multilabel": ["--method", "bmrm"],
    "sequences": ["--method", "bmrm"],
    # The last digits take long where the risk is not convex.
    "hmm-classification": ["--n-states", 2, "--tol", 1e-4],
    "hmm-tagging": ["--n-states", 2, "--tol", 1e-4],
    "kernel-classification": ["--method", "bmrm"],
    "kernel-regression": ["--method", "bmrm"],
}
SOLVER = ["--tol", 1e-6]


@pytest.fixture
def data(tmp_path):
    """Return a function that writes a training file for a task."""

    def write(task, seed=0):
        path, rng = tmp_path / f"{task}-{seed}", np.random.default_rng(seed)
        if task == "sequences":
            lines = [f"w{n} p{n % 4} L{(n + n // 9) % 3}\n" for n in rng.integers(0, 30, size=60)]
            path.write_text("\n".join("".join(lines[i : i + 6]) for i in range(0, 60, 6)))
            return path
        if task.startswith("hmm"):
            frames = rng.normal(size=(180, 2)) + np.repeat(np.arange(30) % 3, 6)[:, None]
            lines = [f"L{(i // 6) % 3} {x!r} {y!r}\n" for i, (x, y) in enumerate(frames.tolist())]
            path.write_text("\n".join("".join(lines[i : i + 6]) for i in range(0, 180, 6)))
            return path
        X = rng.normal(size=(90, 5))
        score = X @ [1.0, -2.0, 0.5, 0.0, 1.0] + rng.normal(size=90)
        numbers = task in ("regression", "quantiles", "kernel-regression")
        y = score if numbers else np.digitize(score, [-1.0, 1.0])
        if task == "classification":
            y = np.argmax(X[:, :3] + 0.3 * rng.normal(size=(90, 3)), axis=1)
        qid = np.repeat(np.arange(9), 10) if task == "ranking" else None
        if many := task == "multilabel":
            y = (X[:, :3] > -0.3).astype(int)
        dump_svmlight_file(X, y, str(path), zero_based=False, query_id=qid, multilabel=many)
        return path

    return write


def signalled(number, boundary, *arguments):
    """Run the program in a child that signals itself; return exit code and standard error."""
    command = [sys.executable, "-c", PROGRAM, str(int(number)), str(boundary)]
    child = subprocess.run([*command, *map(str, arguments)], capture_output=True, timeout=PATIENCE)
    return child.returncode, child.stderr.decode()


def contents(folder):
    """Return the files of a checkpoint, but for the lock, which names the last process."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {path: path.read_bytes() for path in files}


def test_every_task_is_tested():
    assert set(TASKS) == set(estimators_by_task())


@pytest.mark.parametrize("task", TASKS)
def test_a_killed_fit_goes_on_with_the_same_bits(run, data, tmp_path, task):
    fit = ["fit", data(task), "--task", task, *SOLVER, *TASKS[task]]
    assert run(*fit, "--out", tmp_path / "whole", "-q").exit_code == 0
    folder, model = tmp_path / "checkpoint", tmp_path / "model"
    kept = [*fit, "--out", model, "--checkpoint", folder, "--every", 0]
    code, errors = signalled(signal.SIGKILL, 300, *kept)
    assert (code, model.exists()) == (-signal.SIGKILL, False), errors
    again = run(*kept)
    assert again.exit_code == 0
    assert re.search(
        rf"^going on from iteration [1-9]\d* of {re.escape(str(folder))}", again.stderr, re.M
    )
    assert model.read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_fit_that_is_killed_again_and_again_ends_with_the_same_bits(run, data, tmp_path):
    fit = ["fit", data("classification"), *TASKS["classification"], *SOLVER]
    assert run(*fit, "--out", tmp_path / "whole", "-q").exit_code == 0
    folder, model = tmp_path / "checkpoint", tmp_path / "model"
    kept = [*fit, "--out", model, "--checkpoint", folder, "--every", 0, "--quiet"]
    for boundary in (30, 300, 500):
        assert signalled(signal.SIGKILL, boundary, *kept) == (-signal.SIGKILL, "")
    again = run(*kept)
    assert (again.exit_code, again.output) == (0, "")
    assert model.read_bytes() == (tmp_path / "whole").read_bytes()


def test_ctrl_c_keeps_a_model_and_the_checkpoint(run, data, tmp_path):
    fit = ["fit", data("classification"), *TASKS["classification"], *SOLVER]
    assert run(*fit, "--out", tmp_path / "whole", "-q").exit_code == 0
    folder, model = tmp_path / "checkpoint", tmp_path / "model"
    kept = [*fit, "--out", model, "--checkpoint", folder, "--every", 0, "--quiet"]
    code, errors = signalled(signal.SIGINT, 300, *kept)
    assert code == 130
    assert "status interrupted" in errors
    assert model.read_bytes() != (tmp_path / "whole").read_bytes()
    assert run(*kept).exit_code == 0
    assert model.read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_finished_fit_has_nothing_left_to_do(run, data, tmp_path):
    folder, model, trace = tmp_path / "checkpoint", tmp_path / "model", tmp_path / "trace"
    fit = ["fit", data("classification"), *SOLVER, "--checkpoint", folder]
    first = run(*fit, "--out", model, "--trace", trace, "--json")
    content, lines, files = model.read_bytes(), trace.read_text(), contents(folder)
    again = run(*fit, "--out", model, "--trace", trace, "--json")
    assert (first.exit_code, again.exit_code) == (0, 0)
    reports = [json.loads(each.stdout) | {"seconds": None} for each in (first, again)]
    assert reports[0] == reports[1]
    assert (model.read_bytes(), trace.read_text(), contents(folder)) == (content, lines, files)


def test_a_trace_has_what_was_done_before(run, data, tmp_path):
    folder, trace = tmp_path / "checkpoint", tmp_path / "trace"
    fit = ["fit", data("classification"), *SOLVER, "--trace", trace, "-q"]
    assert run(*fit).exit_code == 0
    whole = runs_in(trace)
    assert run(*fit, "--checkpoint", folder, "--max-iter", 3).exit_code == 1
    assert run(*fit, "--checkpoint", folder).exit_code == 0
    assert len(whole) == 3
    assert runs_in(trace) == whole


def runs_in(path):
    """Return the records of each run of a trace, apart from their seconds."""
    runs = split_runs(read_trace(path))
    return [[replace(record, seconds=0.0) for record in run] for run in runs]


def test_a_limit_can_be_raised(run, data, tmp_path):
    folder = tmp_path / "checkpoint"
    fit = ["fit", data("regression"), *TASKS["regression"], *SOLVER, "--checkpoint", folder]
    assert run(*fit, "--max-iter", 3).exit_code == 1
    again = run(*fit)
    assert again.exit_code == 0
    assert again.stderr.splitlines()[0] == f"going on from iteration 3 of {folder}"


@pytest.fixture
def checkpoint(run, data, tmp_path):
    """The folder of a fit of a regression that is not finished."""
    folder = tmp_path / "checkpoint"
    fit = ["fit", data("regression"), *TASKS["regression"], *SOLVER, "--max-iter", 3]
    assert run(*fit, "--checkpoint", folder, "-q").exit_code == 1
    return folder


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        (["--loss", "huber"], "problem (other: loss)"),
        (["--lam", 1e-3], "problem (other: regularizer)"),
        (["--no-intercept"], "problem (other: targets, intercept)"),
        (["--method", "level"], "method (other: stabilizer, query, name)"),
    ],
    ids=repr,
)
def test_a_checkpoint_of_another_fit_is_refused(complaint, data, checkpoint, changes, what):
    files = contents(checkpoint)
    fit = ["fit", data("regression"), *TASKS["regression"], *SOLVER, *changes]
    model = checkpoint.parent / "model"
    said = complaint(*fit, "--checkpoint", checkpoint, "--out", model)
    assert said == f"--checkpoint {checkpoint}: a checkpoint of another {what}"
    assert (contents(checkpoint), model.exists()) == (files, False)


def test_a_checkpoint_of_other_data_is_refused(complaint, data, checkpoint):
    files = contents(checkpoint)
    fit = ["fit", data("regression", seed=1), *TASKS["regression"], *SOLVER]
    said = complaint(*fit, "--checkpoint", checkpoint)
    assert said.startswith(f"--checkpoint {checkpoint}: a checkpoint of another problem (other: ")
    assert contents(checkpoint) == files


def test_a_checkpoint_of_another_version_is_refused(complaint, data, checkpoint):
    manifest = checkpoint / "checkpoint.json"
    document = json.loads(manifest.read_text())
    document["about"]["library"] = "0.0.7"
    manifest.write_text(json.dumps(document))
    files = contents(checkpoint)
    fit = ["fit", data("regression"), *TASKS["regression"], *SOLVER]
    said = complaint(*fit, "--checkpoint", checkpoint)
    assert said.startswith(f"--checkpoint {checkpoint}: a checkpoint of cutplane 0.0.7, and this")
    assert contents(checkpoint) == files


def test_one_problem_and_several_do_not_share_a_folder(run, complaint, data, checkpoint):
    said = complaint("fit", data("classification"), "--checkpoint", checkpoint)
    assert said == f"--checkpoint {checkpoint}: a checkpoint of one problem, and not of several"
    several = checkpoint.parent / "several"
    assert run("fit", data("classification"), "--checkpoint", several, "-q").exit_code == 0
    fit = ["fit", data("regression"), "--task", "regression", "--checkpoint", several]
    assert complaint(*fit).startswith(f"--checkpoint {several}: not a checkpoint, but a folder")


def test_a_damaged_checkpoint_is_refused(complaint, data, checkpoint):
    (state,) = checkpoint.glob("state-*")
    state.write_bytes(state.read_bytes()[:-1])
    fit = ["fit", data("regression"), *TASKS["regression"], *SOLVER]
    assert complaint(*fit, "--checkpoint", checkpoint).startswith(f"--checkpoint {state}: ")


def test_a_folder_with_other_files_is_refused(complaint, data, tmp_path):
    train = data("regression")
    said = complaint("fit", train, "--task", "regression", "--checkpoint", tmp_path, "-q")
    assert said.startswith(f"--checkpoint {tmp_path}: not a checkpoint, but a folder with ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--every", 5], "--every is for --checkpoint: name a folder with it"),
        (
            ["--checkpoint", "new", "--every", -1],
            "--every must be a number of seconds, not negative, not -1",
        ),
        (
            ["--checkpoint", "new", "--every", "nan"],
            "--every must be a number of seconds, not negative, not nan",
        ),
        (["--checkpoint", "file"], "--checkpoint file: not a folder"),
        (["--checkpoint", "new", "--out", "new"], "--out new: the same file as new"),
    ],
    ids=repr,
)
def test_senseless_options(complaint, tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine\n")
    # Refused before any file is read.
    assert complaint("fit", "missing.svm", *options) == said
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--checkpiont", "x"], "No such option: --checkpiont"),
        (["--checkpoint", "x", "--every", "soon"], "Invalid value for '--every': "),
        (["--checkpoint"], "Option '--checkpoint' requires an argument"),
    ],
)
def test_typos(complaint, two_classes, options, said):
    assert complaint("fit", two_classes, *options).startswith(said)


def test_the_disk_may_be_full(run, data, tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    folder = tmp_path / "checkpoint"
    result = run("fit", data("regression"), "--task", "regression", "--checkpoint", folder, "-q")
    assert result.exit_code == 0
    assert result.stderr == (
        f"cutplane: {folder}: cannot write the checkpoint, the run goes on without: "
        "No space left on device\n"
    )


def test_both_options_are_in_the_panel_of_the_solver():
    from typer.main import get_command

    options = {each.name: each for each in get_command(app).commands["fit"].load().params}
    panels = {name: options[name].rich_help_panel for name in ("checkpoint", "every", "tol")}
    assert panels == dict.fromkeys(panels, "Solver")
