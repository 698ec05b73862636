"""Compilation: told, not counted, and done beforehand by ``cutplane warm-up``."""

import gc
import logging
import os
import subprocess
import sys
import time

import numba
import numpy as np
import pytest
from numba.core.caching import FunctionCache

from cutplane.compute.compiled import clock, njit, watch
from cutplane.estimators import estimators_by_task


def kernels(name):
    """Return a kernel that calls an inner one, both as if they stood in a module of cutplane."""

    def twice(x):
        return 2.0 * x

    twice.__module__ = f"cutplane.{name}"
    inner = njit(inner=True)(twice)

    def four_times(x):
        return inner(inner(x))

    four_times.__module__ = f"cutplane.{name}"
    return njit()(four_times)


def test_compilation_is_told_and_not_counted(caplog):
    kernel, before, collects = kernels("tests.told"), watch.n_kernels, gc.isenabled()
    with caplog.at_level(logging.INFO, logger="cutplane.compiling"):
        began, counted = time.perf_counter(), clock()
        assert kernel(1.5) == 6.0
        took, counted = time.perf_counter() - began, clock() - counted
    assert watch.n_kernels == before + 1  # the inner one is part of it
    assert counted < took
    assert [record.getMessage().split(": ")[-1].split()[-1] for record in caplog.records] == [
        "tests.told"
    ]
    assert gc.isenabled() is collects


def test_files_of_kernels_are_not_counted(tmp_path, monkeypatch):
    """A process that compiles, and one that reads what was compiled; both with slow files."""
    waited, pause = [], 0.05
    for name in ("load_overload", "save_overload"):
        really = getattr(FunctionCache, name)

        def slowly(*arguments, name=name, really=really):
            time.sleep(pause)
            waited.append(name)
            return really(*arguments)

        monkeypatch.setattr(FunctionCache, name, slowly)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    file = tmp_path / "kept.py"
    file.write_text(
        "from cutplane.compute.compiled import njit\n"
        "@njit(cache=True)\n"
        "def twice(x):\n"
        "    return 2.0 * x\n"
        "@njit(cache=True)\n"
        "def four_times(x):\n"
        "    return twice(twice(x))\n"
    )
    for expected in (["load_overload"] * 2 + ["save_overload"] * 2, ["load_overload"]):
        names = {"__name__": "cutplane.tests.kept", "__file__": str(file)}
        exec(compile(file.read_text(), str(file), "exec"), names)
        waited.clear()
        began, counted = time.perf_counter(), clock()
        assert names["four_times"](1.5) == 6.0
        took, counted = time.perf_counter() - began, clock() - counted
        assert sorted(waited) == expected
        assert took - counted >= pause * len(expected)
        assert counted >= 0.0  # nothing was left out twice


def test_other_peoples_kernels_are_counted(caplog):
    seconds = watch.seconds
    with caplog.at_level(logging.INFO, logger="cutplane.compiling"):
        assert numba.njit(lambda x: x + 1.0)(1.0) == 2.0
    assert watch.seconds == seconds
    assert not caplog.records


def test_unknown_task(run):
    result = run("warm-up", "clasification")
    assert result.exit_code == 2
    assert "did you mean 'classification'?" in result.stderr


@pytest.mark.parametrize("task", ["classification", "ordinal"])
def test_warm_up(run, task):
    result = run("warm-up", task)
    assert result.exit_code == 0, result.stderr
    assert "kernels compiled in" in result.stdout
    again = run("warm-up", task)
    assert again.stdout == "0 kernels compiled in 0.0 s\n"
    assert run("warm-up", task, "-q").output == ""


@pytest.mark.slow
@pytest.mark.parametrize("task", list(estimators_by_task()))
def test_every_task_can_be_warmed_up(run, task):
    result = run("warm-up", task)
    assert result.exit_code == 0, result.stderr


@pytest.mark.slow
def test_the_first_fit_ever_says_that_it_compiles(tmp_path):
    rows = np.random.default_rng(0).normal(size=(40, 3)).round(2)
    lines = [f"{1 + (a > 0)} 1:{a} 2:{b} 3:{c}\n" for a, b, c in rows]
    (tmp_path / "data.svm").write_text("".join(lines))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "cutplane", "fit", "data.svm", "--lam", "0.1"]
    runs = [
        subprocess.run(
            [*command, *options],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        for options in ([], [], ["--quiet", "--loss", "logistic"])
    ]
    assert runs[0].stderr.startswith("compiling, once, about ")
    assert "compiling core.simplex_qp\n" in runs[0].stderr
    assert "compiling" not in runs[1].stderr
    assert runs[2].stderr == ""
