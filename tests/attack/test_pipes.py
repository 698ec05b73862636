"""Pipes where files should be: one line, and no waiting for somebody who writes."""

import contextlib
import os
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import cutplane as cp
from cutplane.cli.app import app
from cutplane.cli.process import ExitCode
from cutplane.io import InputError, load_model, save_model

PROGRAM = "from cutplane.cli import main; main()"


def said_of(action, *pipes):
    """Return what an action says, which must not wait for somebody at the other end of a pipe."""
    said = []

    def act():
        try:
            said.append(action())
        except InputError as error:
            said.append(str(error))

    worker = threading.Thread(target=act, daemon=True)
    worker.start()
    worker.join(60)
    waits = worker.is_alive()
    while worker.is_alive():  # let it go
        for pipe in pipes:
            with contextlib.suppress(OSError):
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        worker.join(0.1)
    assert not waits
    return said[0]


def complaint(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == ExitCode.BAD_INPUT
    return result.stderr.removeprefix("cutplane: ").removesuffix("\n")


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "weight": 1.0, "y": np.sign(X[:, 0])})
    frame.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


@pytest.fixture
def folder(table, tmp_path):
    cp.convert(table, tmp_path / "folder", target="y", weights="weight")
    return tmp_path / "folder"


@pytest.mark.parametrize("name", ["X.npy", "y.npy", "weights.npy", "manifest.json"])
def test_a_pipe_in_a_data_folder(folder, name):
    path = folder / name
    path.unlink()
    os.mkfifo(path)
    said = f"{path}: cannot read: not a regular file"
    assert said_of(lambda: cp.open_folder(folder), path) == said
    fit = ("fit", folder, "--out", folder.parent / "model")
    assert said_of(lambda: complaint(*fit), path) == said


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_pipe_for_a_table_that_is_read_twice(tmp_path, ending):
    path = tmp_path / f"table.{ending}"
    os.mkfifo(path)
    said = said_of(lambda: cp.convert(path, tmp_path / "folder"), path)
    assert said == f"{path}: cannot read: not a regular file"


def test_a_pipe_for_a_model(tmp_path, table):
    path = tmp_path / "model"
    os.mkfifo(path)
    said = f"{path}: cannot read: not a regular file"
    assert said_of(lambda: load_model(path), path) == said
    page = ("--out", tmp_path / "page.html")
    for command in (["predict", path, table], ["info", path], ["report", path, *page]):
        assert said_of(lambda: complaint(*command), path) == said  # noqa: B023


def test_a_device_for_a_model():
    said = said_of(lambda: load_model("/dev/zero"))
    assert said == "/dev/zero: cannot read: not a regular file"


def test_data_still_come_through_pipes(tmp_path, table):
    """As the pages promise: standard input by its name, and `-`."""
    frame = pd.read_csv(table)
    model = cp.LinearClassifier().fit(frame[["a", "b"]].to_numpy(), frame["y"])
    save_model(model, tmp_path / "model")
    lines = "".join(f"1:{a!r} 2:{b!r}\n" for a, b in frame[["a", "b"]].itertuples(index=False))
    (tmp_path / "data.svm").write_text(lines)
    predict = ("predict", str(tmp_path / "model"))
    expected = CliRunner().invoke(app, [*predict, str(tmp_path / "data.svm")]).stdout
    assert len(expected.splitlines()) == len(frame)
    assert CliRunner().invoke(app, [*predict, "-"], input=lines).stdout == expected
    program = [sys.executable, "-c", PROGRAM, *predict, "/dev/stdin"]
    done = subprocess.run(program, input=lines, capture_output=True, text=True, timeout=600)
    assert done.stdout == expected
    convert = ["convert", "-", str(tmp_path / "other"), "-q"]
    labeled = "".join(f"1 {line}\n" for line in lines.splitlines())
    done = CliRunner().invoke(app, convert, input=labeled)
    assert done.exit_code == ExitCode.SUCCESS
    assert cp.open_folder(tmp_path / "other").shape == (40, 2)
