"""Full disks, folders that cannot be written to, writers that meet: no model is ever lost."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from tests.processes import PATIENCE
from typer.testing import CliRunner

import cutplane as cp
from cutplane.cli.app import app
from cutplane.cli.process import ExitCode
from cutplane.io import OutputError, load_model, save_model

NOBODY = 65534


@pytest.fixture(scope="module")
def models():
    """Two models, whose files take several pages of a disk."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2000))
    return [cp.LinearRegressor(lam=lam).fit(X, X[:, 0]) for lam in (0.1, 10.0)]


@pytest.fixture
def data(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2000))
    dump_svmlight_file(X, X[:, 0], str(tmp_path / "data.svm"), zero_based=False)
    return tmp_path / "data.svm"


@pytest.fixture
def open_folder():
    """A folder that every user can go to."""
    folder = Path(tempfile.mkdtemp(prefix="cutplane-test-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@contextlib.contextmanager
def small_disk(folder):
    """Make a folder a small file system of its own; give what fills it for a while."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("this user may not mount a file system")

    @contextlib.contextmanager
    def full():
        with open(folder / "filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass
        yield
        (folder / "filler").unlink()

    try:
        yield full
    finally:
        subprocess.run(["umount", folder], check=True)


@contextlib.contextmanager
def files_of_1000_bytes():
    """Let no file grow beyond 1000 bytes: like a full disk, for a user who cannot mount one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(params=["small disk", "limit"])
def disk(request, tmp_path):
    """A folder, how to have no room there, and how the system calls that."""
    folder = tmp_path / "disk"
    if request.param == "limit":
        folder.mkdir()
        yield folder, files_of_1000_bytes, "file too large"
        return
    with small_disk(folder) as full:
        yield folder, full, "no space left on device"


@contextlib.contextmanager
def nobody():
    """Be a user who may write almost nowhere, if this is one who may write everywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def only(folder):
    return sorted(path.name for path in folder.iterdir())


def cutplane(*arguments):
    """Run the program in this process; what a user would see as a traceback is raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def complaint(*arguments):
    result = cutplane(*arguments)
    assert result.exit_code == ExitCode.BAD_INPUT
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


def test_save_model_without_room(disk, models):
    folder, full, said = disk
    path = folder / "model"
    save_model(models[0], path)
    before = path.read_bytes()
    with full(), pytest.raises(OutputError) as caught:
        save_model(models[1], path)
    assert str(caught.value) == f"{path}: cannot write: {said}"
    assert path.read_bytes() == before
    assert only(folder) == ["model"]
    save_model(models[1], path)
    assert load_model(path).lam == 10.0


def test_fit_without_room(disk, data):
    folder, full, said = disk
    path = folder / "model"
    fit = ["fit", data, "--task", "regression", "--out", path, "-q"]
    assert cutplane(*fit, "--lam", 0.1).exit_code == ExitCode.SUCCESS
    before = path.read_bytes()
    with full():
        line = complaint(*fit, "--lam", 10)
    assert line == f"cutplane: {path}: cannot write: {said}"
    assert path.read_bytes() == before
    assert only(folder) == ["model"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_trace_without_room_does_not_cost_the_model(tmp_path, data):
    path = tmp_path / "model"
    fit = ["fit", data, "--task", "regression", "--out", path, "-q"]
    line = complaint(*fit, "--trace", "/dev/full")
    assert line == "cutplane: /dev/full: cannot write: no space left on device"
    assert load_model(path).n_features_in_ == 2000


def test_predictions_without_room(tmp_path, models, data):
    with small_disk(tmp_path / "disk") as full:
        save_model(models[0], tmp_path / "model")
        path = tmp_path / "disk" / "said"
        path.write_text("old")
        with full():
            line = complaint("predict", tmp_path / "model", data, "--out", path)
        assert line == f"cutplane: {path}: cannot write: no space left on device"
        assert path.read_text() == "old"
        assert only(path.parent) == ["said"]


@pytest.mark.parametrize("mode", [0o555, 0o000], ids=oct)
def test_a_folder_that_is_read_only(open_folder, models, mode):
    path = open_folder / "model"
    save_model(models[0], path)
    before = path.read_bytes()
    open_folder.chmod(mode)
    with nobody(), pytest.raises(OutputError) as caught:
        save_model(models[1], path)
    assert str(caught.value) == f"{path}: cannot write: permission denied"
    open_folder.chmod(0o755)
    assert path.read_bytes() == before
    assert only(open_folder) == ["model"]


def test_fit_into_a_folder_that_is_read_only(open_folder, data):
    shutil.copy(data, open_folder / "data.svm")
    open_folder.chmod(0o555)
    with nobody():
        line = complaint("fit", open_folder / "data.svm", "--out", open_folder / "model")
    assert line == f"cutplane: {open_folder / 'model'}: cannot write: permission denied"
    assert only(open_folder) == ["data.svm"]


@pytest.mark.parametrize("place", ["/proc/model", "data.svm/model", "no/model", "."])
def test_places_that_are_none(tmp_path, data, models, place):
    path = tmp_path / place
    with pytest.raises(OutputError, match="cannot write") as caught:
        save_model(models[0], path)
    assert "\n" not in str(caught.value)
    line = complaint("fit", data, "--task", "regression", "--out", path)
    assert line == f"cutplane: {caught.value}"
    assert only(tmp_path) == ["data.svm"]


WRITER = """
import sys
from cutplane.io import load_model, save_model
model = load_model(sys.argv[1])
while True:
    save_model(model, sys.argv[2])
"""


def test_readers_see_whole_models_while_writers_write(start_process, tmp_path, models):
    path = tmp_path / "shared" / "model"
    path.parent.mkdir()
    save_model(models[0], path)
    sources = [tmp_path / "first", tmp_path / "second"]
    for model, source in zip(models, sources, strict=True):
        save_model(model, source)
    whole = {source.read_bytes() for source in sources}
    writers = [
        start_process([sys.executable, "-c", WRITER, source, path], stderr=subprocess.PIPE)
        for source in sources
    ]
    seen, loads, deadline = set(), 0, time.monotonic() + PATIENCE
    # Until both have been seen, and many times more.
    while len(seen) < 2 or loads < 200:
        assert all(writer.poll() is None for writer in writers)
        assert time.monotonic() < deadline
        content = path.read_bytes()
        assert content in whole
        seen.add(load_model(path).lam)
        loads += 1
    for writer in writers:
        writer.send_signal(signal.SIGKILL)  # in the middle of a file, maybe
        writer.communicate()
    assert seen == {0.1, 10.0}
    assert load_model(path).lam in seen
    # Whoever is killed like this cannot clean up; two at most were at it.
    assert len([name for name in only(path.parent) if name != "model"]) <= 2


def test_two_fits_into_one_file(start_process, tmp_path, data):
    path = tmp_path / "out" / "model"
    path.parent.mkdir()
    program = "from cutplane.cli import main; main()"
    fit = [sys.executable, "-c", program, "fit", data, "--task", "regression", "-q", "--out", path]
    runs = [
        start_process([*fit, "--lam", lam], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for lam in ("0.1", "10")
    ]
    for run in runs:
        assert run.communicate(timeout=PATIENCE) == (b"", b"")
        assert run.returncode == ExitCode.SUCCESS
    assert load_model(path).lam in (0.1, 10.0)
    assert only(path.parent) == ["model"]
