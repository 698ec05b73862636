"""A cache of compiled kernels that cannot be read or written costs time, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import cutplane

MODULE = """
from cutplane.compute.compiled import njit

@njit(cache=True, nogil=True)
def double(x):
    return 2.0 * x
"""
PROGRAM = (
    "import kernels; print(kernels.double(21.0), sum(kernels.double.stats.cache_hits.values()))"
)
GARBAGE = bytes(range(256)) * 8


@pytest.fixture
def call(tmp_path):
    """Return a function that calls the kernel in a process, and says whether it was cached."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "kernels.py").write_text(MODULE)
    source = Path(cutplane.__file__).parents[1]
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "code"), str(source)]),
    }

    def run(**variables):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        value, hits = done.stdout.split()
        assert float(value) == 42.0
        return int(hits) == 1

    return run


def files(tmp_path, suffix):
    return list((tmp_path / "cache").rglob(f"*{suffix}"))


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", ["half", "nothing", "garbage", "foreign"])
def test_a_bad_file_is_made_anew(call, tmp_path, suffix, damage):
    assert not call()
    (path,) = files(tmp_path, suffix)
    whole = path.read_bytes()
    path.write_bytes(
        {
            "half": whole[: len(whole) // 2],
            "nothing": b"",
            "garbage": GARBAGE,
            "foreign": whole.replace(numba.__version__.encode(), b"0" * len(numba.__version__))
            if suffix == ".nbi"
            else b"\x80\x04N.",  # a pickle of None
        }[damage]
    )
    assert not call()
    assert call()  # and kept again


def test_no_folder_to_write_to(call, tmp_path):
    # Neither the one that is asked for nor any of those that Numba tries by itself.
    (tmp_path / "file").write_text("not a folder")
    nowhere = str(tmp_path / "file" / "cache")
    locators = "UserProvidedCacheLocator"
    for _ in range(2):
        assert not call(NUMBA_CACHE_DIR=nowhere, NUMBA_CACHE_LOCATOR_CLASSES=locators)


def test_a_disk_that_takes_nothing(monkeypatch):
    from cutplane.compute.compiled import njit

    @njit(cache=True)
    def kernel(x):
        return x + 1

    tried = []

    def full(*_args, **_options):
        tried.append(True)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", full)
    assert kernel(1) == 2
    assert tried


def test_every_kernel_has_such_a_cache():
    for path in Path(cutplane.__file__).parent.rglob("*.py"):
        if path.name != "compiled.py":
            assert "from numba import njit" not in path.read_text(), path


def test_what_others_compile_without_a_module_is_no_matter():
    # As classes of Numba's, which skglm has.
    from types import SimpleNamespace

    from cutplane.compute.compiled import watch

    nameless = SimpleNamespace(py_func=SimpleNamespace(__module__=None))
    event = SimpleNamespace(data={"dispatcher": nameless})
    before = watch.n_kernels
    watch.on_start(event)
    watch.on_end(event)
    assert watch.n_kernels == before
