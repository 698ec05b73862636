"""The installed program: what only shows in a process of its own."""

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from tests.processes import PATIENCE, wait_until

import cutplane
from cutplane.io import load_model

PROGRAM = [sys.executable, "-m", "cutplane"]


@pytest.fixture
def start(start_process):
    """Return a function that starts the program, which ends with the test."""

    def start(*arguments, **options):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return start_process([*PROGRAM, *arguments], **pipes, **options)

    return start


def test_version(run):
    assert run("--version").stdout == f"cutplane {cutplane.__version__}\n"


def test_no_command_shows_the_commands(run):
    for arguments in ([], ["--help"], ["-h"]):
        assert {"fit", "predict", "evaluate", "demo"} <= set(run(*arguments).output.split())


def test_unknown_command(run):
    assert run("fitt").exit_code == 2


def test_exit_codes_and_streams_of_a_process(start, two_classes, tmp_path):
    process = start("fit", two_classes, "--lam", 0.01, "--json", "-q")
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert errors == b""
    assert json.loads(output)["status"] == "optimal"
    process = start("fit", tmp_path / "gone")
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert output == b""
    assert (
        errors.decode()
        == f"cutplane: {tmp_path / 'gone'}: cannot read: no such file or directory\n"
    )


@pytest.fixture
def hard_problem(tmp_path):
    """A problem that takes much longer than a test may."""
    rng = np.random.default_rng(0)
    path = tmp_path / "hard.svm"
    y = rng.integers(0, 2, size=2000)
    dump_svmlight_file(rng.normal(size=(2000, 60)), y, str(path), zero_based=False)
    return path


def lines_of(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_interruption_keeps_the_best_model(start, hard_problem, tmp_path):
    model, trace = tmp_path / "model", tmp_path / "run.jsonl"
    process = start("fit", hard_problem, "--lam", 1e-9, "--tol", 1e-14, "--max-iter", 10**8,
                    "--method", "bmrm",
                    "--out", model, "--trace", trace, "--json", "-q")  # fmt: skip
    wait_until(lambda: lines_of(trace) >= 5, process=process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, errors
    report = json.loads(output)
    assert report["status"] == "interrupted"
    assert report["iterations"] >= 5
    assert report["lower_bound"] < report["objective"]
    (line,) = errors.decode().splitlines()
    assert "interrupted" in line
    assert load_model(model).certificate_.objective == report["objective"]


def test_a_program_that_passes_ctrl_c_on_keeps_the_best_model_too(
    start_process, hard_problem, tmp_path
):
    # It signals the process, and then its group, which the process belongs to.
    if shutil.which("timeout") is None:
        pytest.skip("there is no timeout here")
    model, trace = tmp_path / "model", tmp_path / "run.jsonl"
    arguments = ["fit", hard_problem, "--lam", 1e-9, "--tol", 1e-14, "--max-iter", 10**8, "-q",
                 "--method", "bmrm", "--out", model, "--trace", trace]  # fmt: skip
    command = ["timeout", "--signal=INT", 2 * PATIENCE, *PROGRAM, *arguments]
    process = start_process(command, stderr=subprocess.PIPE)
    wait_until(lambda: lines_of(trace) >= 5, process=process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert b"Traceback" not in errors
    assert load_model(model).certificate_.status == "interrupted"


def test_interruption_while_packages_are_imported_is_one_line(start, tmp_path):
    # Its own package for NumPy's: one that answers to Ctrl-C with a page of its own.
    (tmp_path / "numpy.py").write_text(
        "import os, sys, time\n"
        "os.write(1, b'.')\n"
        "try:\n"
        f"    time.sleep({PATIENCE})\n"
        "except BaseException:\n"
        "    raise ImportError('numpy failed to import')\n"
    )
    source = Path(cutplane.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(source)])}
    process = start("fit", "data.svm", env=environment)
    assert process.stdout.read(1) == b"."
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert output == b""
    assert errors == b"cutplane: interrupted\n"


def test_the_program_begins_without_importing_anything_slow():
    code = "import sys; from cutplane.cli import main; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    loaded = set(ast.literal_eval(done.stdout))
    assert "cutplane.cli" in loaded
    assert not loaded & {"numpy", "numba", "scipy", "sklearn", "typer", "cutplane.core"}


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_help_and_version_import_nothing_slow(option):
    code = (
        "import sys; from cutplane.cli.app import app\n"
        "try: app([sys.argv[1]])\n"
        "finally: print(sorted(sys.modules))"
    )
    command = [sys.executable, "-c", code, option]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    loaded = set(ast.literal_eval(done.stdout.splitlines()[-1]))
    assert "cutplane.cli.app" in loaded
    assert not loaded & {
        "numpy",
        "numba",
        "scipy",
        "sklearn",
        "cutplane.io",
        "cutplane.cli.fit",
    }


@pytest.mark.parametrize(
    ("words", "found"), [("cutplane fi", "fit"), ("cutplane fit --la", "--lam")]
)
def test_shell_completion(words, found):
    environment = os.environ | {
        "_CUTPLANE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    code = "import sys; sys.argv = ['cutplane']; from cutplane.cli import main; main()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert found in done.stdout.split()


def test_interruption_before_the_fit_is_one_line(start, tmp_path):
    process = start("fit", "-", "--out", tmp_path / "model", stdin=subprocess.PIPE)
    process.stdin.write(b"1 1:1\n" * 200_000)  # more than a pipe holds: now it is reading
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert output == b""
    assert errors == b"cutplane: interrupted\n"
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_no_error(start, model, two_classes, tmp_path):
    many = tmp_path / "many.svm"
    many.write_bytes(two_classes.read_bytes() * 1000)
    process = start("predict", model, many, "--scores")
    assert process.stdout.readline()
    process.stdout.close()  # as `| head -1` does
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait(timeout=PATIENCE)


def test_labels_that_the_terminal_cannot_show(start, tmp_path):
    data, model = tmp_path / "data.svm", tmp_path / "model"
    data.write_text("grün 1:1\nrot 1:-1\n" * 5, encoding="utf-8")
    plain = os.environ | {"PYTHONIOENCODING": "ascii"}
    output, errors = start("fit", data, "--out", model, "--lam", 0.1, env=plain).communicate(
        timeout=PATIENCE
    )
    assert b"Traceback" not in errors
    assert b"(gr\\xfcn, rot)" in output
    output, errors = start("predict", model, data, env=plain).communicate(timeout=PATIENCE)
    assert errors == b""
    assert output.decode("utf-8") == "grün\nrot\n" * 5


def test_a_full_standard_output_is_no_traceback(model, two_classes):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with open("/dev/full", "w") as full:
        finished = subprocess.run(
            [*PROGRAM, "predict", str(model), str(two_classes)],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert finished.returncode == 2
    assert finished.stderr == b"cutplane: standard output: cannot write: no space left on device\n"


def test_importing_is_quick():
    # Processor time, and the fastest of three, because other work on the machine adds to seconds.
    code = "import time; start = time.process_time(); import cutplane;"
    code += "print(time.process_time() - start)"
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, capture_output=True, check=True).stdout for _ in range(3)]
    assert min(map(float, runs)) < 1.5


def test_importing_cutplane_leaves_scikit_learn_for_later():
    code = (
        "import sys, cutplane; assert 'sklearn' not in sys.modules;"
        "cutplane.LinearClassifier; assert 'sklearn' in sys.modules;"
        "assert 'sklearn.model_selection' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


SOURCES = Path(cutplane.__file__).parent


@pytest.mark.parametrize(
    "path",
    [path for folder in ("io", "report", "cli") for path in (SOURCES / folder).glob("*.py")],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_slow_packages_are_imported_where_they_are_used(path):
    slow = {"matplotlib", "rich", "safetensors", "pandas"}
    slow |= {"sklearn.datasets", "sklearn.metrics", "sklearn.model_selection"}
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            names = {alias.name for alias in statement.names}
            if isinstance(statement, ast.ImportFrom):
                names = {str(statement.module)}
            assert not any(name.split(".")[0] in slow or name in slow for name in names)
