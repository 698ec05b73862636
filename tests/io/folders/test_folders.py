"""Folders that are whole or not there: kills, damage, what may be replaced."""

import json
import subprocess
import sys

import numpy as np
import pytest

import cutplane as cp
from cutplane.compute import durable
from cutplane.io import InputError, OutputError
from cutplane.io.conversion import convert as convert_function
from cutplane.io.folders import MANIFEST

TEXT = b"spam qid:3 1:0.5 4:-2\nham qid:3 2:1e-3\nspam qid:7 1:1\nham qid:8 4:7\n"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "data.svm"
    path.write_bytes(TEXT)
    return path


@pytest.fixture
def folder(source, tmp_path):
    return cp.convert(source, tmp_path / "d", query="qid")


def contents(place):
    return sorted(path.name for path in place.iterdir())


# -- whole or not there ----------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_nothing_is_left_of_an_interrupted_conversion(source, tmp_path, error):
    def fail(done, total):
        assert contents(tmp_path)[0].startswith(".cutplane-")
        raise error

    with pytest.raises(error):
        cp.convert(source, tmp_path / "d", on_progress=fail)
    assert contents(tmp_path) == ["data.svm"]


KILLED = """
import os, signal, sys, warnings
from pathlib import Path
from cutplane.compute import durable
from cutplane.io import conversion
from cutplane.io.conversion import convert

source, place = sys.argv[1:]

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def before_the_manifest():
    conversion.write_manifest = die

def before_the_name():
    durable._take_name = die

def at_bytes():
    pass

warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # Python 3.12: there are threads
convert(source, f"{place}/warm")  # kernels are loaded once, not in each child
for prepare in (at_bytes, before_the_manifest, before_the_name):
    child = os.fork()
    if not child:
        prepare()
        convert(source, f"{place}/d", on_progress=die if prepare is at_bytes else None)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
    assert not Path(place, "d").exists()
    hidden = [path for path in Path(place).iterdir() if durable.is_temporary(path)]
    assert len(hidden) == 1, hidden  # the next conversion has removed the one before
    print(prepare.__name__)
convert(source, f"{place}/d")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kills by signals")
def test_nothing_looks_finished_after_a_kill(source, tmp_path):
    command = [sys.executable, "-c", KILLED, str(source), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stderr == ""
    assert run.stdout.split() == ["at_bytes", "before_the_manifest", "before_the_name"]
    assert contents(tmp_path) == ["d", "data.svm", "warm"]
    assert cp.open_folder(tmp_path / "d", check=True).shape == (4, 4)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no lock")
def test_a_conversion_that_goes_on_is_left_alone(source, tmp_path):
    def meanwhile(done, total):
        assert cp.convert(source, tmp_path / "other").shape == (4, 4)

    assert cp.convert(source, tmp_path / "d", on_progress=meanwhile).shape == (4, 4)
    assert contents(tmp_path) == ["d", "data.svm", "other"]


def test_two_at_once_do_not_mix(source, tmp_path):
    def faster(done, total):
        cp.convert(source, tmp_path / "d")

    with pytest.raises(OutputError, match="already there"):
        cp.convert(source, tmp_path / "d", on_progress=faster)
    assert contents(tmp_path) == ["d", "data.svm"]
    cp.open_folder(tmp_path / "d", check=True)


# -- what may be replaced --------------------------------------------------------------------------


def test_a_folder_is_replaced_only_by_force(source, folder, tmp_path):
    with pytest.raises(OutputError, match=r"d: already there; --force \(force=True in Python\)"):
        cp.convert(source, tmp_path / "d")
    assert cp.open_folder(tmp_path / "d").queries is not None
    assert cp.convert(source, tmp_path / "d", force=True).queries is None
    assert contents(tmp_path) == ["d", "data.svm"]


def test_the_old_one_stays_until_the_new_one_is_complete(source, folder, tmp_path):
    source.write_bytes(TEXT + b"spam 1:x\n")
    with pytest.raises(InputError, match=r"data.svm:5: value 'x'"):
        cp.convert(source, tmp_path / "d", force=True)
    assert cp.open_folder(tmp_path / "d", check=True).queries is not None
    assert contents(tmp_path) == ["d", "data.svm"]


def test_what_is_no_data_folder_is_never_replaced(source, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    for target in (tmp_path / "mine", source):
        with pytest.raises(OutputError, match="it is not replaced"):
            cp.convert(source, target, force=True)
    assert contents(tmp_path / "mine") == ["thesis.tex"]
    with pytest.raises(OutputError, match="nowhere is no folder"):
        cp.convert(source, tmp_path / "nowhere" / "d")


def test_what_somebody_put_into_a_folder_is_not_lost(source, folder, tmp_path):
    (folder.path / "notes.txt").touch()
    with pytest.raises(OutputError, match=r"holds 'notes\.txt', which is not ours; it is not repl"):
        cp.convert(source, folder.path, force=True)
    assert (folder.path / "notes.txt").exists()
    inside = folder.path / "data.svm"
    source.rename(inside)
    (folder.path / "notes.txt").unlink()
    with pytest.raises(OutputError, match=r"holds 'data\.svm'"):
        cp.convert(inside, folder.path, force=True)
    assert inside.exists()


def test_rows_without_entries(tmp_path):
    (tmp_path / "data").write_text("1\n2\n")
    folder = cp.convert(tmp_path / "data", tmp_path / "d", n_features=3)
    assert folder.X.toarray().tolist() == [[0.0] * 3] * 2
    assert cp.open_folder(tmp_path / "d", check=True).y.tolist() == [1.0, 2.0]


def test_a_full_disk(source, tmp_path, monkeypatch):
    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable, "sync_folder", full)
    with pytest.raises(OutputError, match="d: cannot write: no space left on device"):
        cp.convert(source, tmp_path / "d")
    assert contents(tmp_path) == ["data.svm"]


# -- damage ----------------------------------------------------------------------------------------


def refusal(place, **options):
    with pytest.raises(InputError) as caught:
        cp.open_folder(place, **options)
    message = str(caught.value)
    assert message.startswith(str(place))
    assert "\n" not in message
    return message


def test_what_is_no_data_folder(tmp_path, source):
    assert refusal(tmp_path / "nowhere").endswith("no such folder")
    assert refusal(source).endswith("not a folder")
    assert "it has no manifest.json (cutplane convert makes them)" in refusal(tmp_path)
    manifest = tmp_path / MANIFEST
    for text in ("", "{", "[]", '{"version": 1}', "\xff"):
        manifest.write_bytes(text.encode("latin-1"))
        assert "not a manifest of cutplane data" in refusal(tmp_path)
    manifest.write_text('{"format": "zarr", "version": 1}')
    assert refusal(tmp_path).endswith("the format is 'zarr', not 'cutplane data'")
    manifest.write_text('{"format": "cutplane data", "version": 2}')
    assert refusal(tmp_path).endswith("version 2, this cutplane reads version 1; convert again")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (["n_rows"], 5),
        (["n_rows"], 0),
        (["n_rows"], "4"),
        (["n_features"], 0),
        (["arrays"], {}),
        (["arrays", "y"], {"dtype": "<i4", "shape": [3], "sha256": ""}),
        (["arrays", "values", "shape"], [7]),
        (["arrays", "values", "dtype"], "|O"),
        (["arrays", "indptr", "dtype"], "<i8"),
        (["labels"], None),
        (["feature_names"], ["a"]),
        (["block_bounds"], [0, 3]),
        (["block_bounds"], []),
        (["block_bounds"], [0, 3, 2, 4]),
        (["target"], None),
        (["more"], 1),
    ],
)
def test_manifests_that_contradict_themselves(folder, place, value):
    manifest = json.loads((folder.path / MANIFEST).read_text())
    known = manifest
    for key in place[:-1]:
        known = known[key]
    known[place[-1]] = value
    (folder.path / MANIFEST).write_text(json.dumps(manifest))
    assert f"{MANIFEST}: damaged: " in refusal(folder.path)


@pytest.mark.parametrize("name", ["values", "indices", "indptr", "y", "queries"])
def test_damaged_arrays(folder, name):
    path = folder.path / f"{name}.npy"
    content = path.read_bytes()
    for damaged in (content[:-1], content[:100], content[:5], b"", content + b"\0"):
        path.write_bytes(damaged)
        assert f"{name}.npy: damaged: " in refusal(folder.path)
    np.save(path, np.zeros(17))
    assert refusal(folder.path).endswith("not the array that manifest.json lists")
    path.unlink()
    assert refusal(folder.path).endswith("cannot read: no such file or directory")
    flipped = bytearray(content)
    flipped[-2] ^= 1
    path.write_bytes(flipped)
    cp.open_folder(folder.path)  # what a look at the sizes cannot find
    assert "its numbers have changed" in refusal(folder.path, check=True)


def test_codes_beyond_the_labels(folder):
    path = folder.path / "y.npy"
    path.write_bytes(path.read_bytes()[:-4] + b"\x07\0\0\0")
    with pytest.raises(InputError, match=r"y.npy: damaged: codes beyond the labels"):
        _ = cp.open_folder(folder.path).y


def test_columns_beyond_the_features_never_reach_compiled_code(folder):
    path = folder.path / "indices.npy"
    path.write_bytes(path.read_bytes()[:-4] + b"\x07\0\0\0")
    with pytest.raises(ValueError, match=r"(?i)indices"):
        cp.LinearClassifier(lam=0.1).fit(cp.open_folder(folder.path).X, folder.y)


def test_how_a_folder_shows_itself(folder, source):
    assert repr(folder) == f"DataFolder({str(folder.path)!r}: 4 rows, 4 features, sparse)"
    assert convert_function is cp.convert
    assert folder.widened(9).shape == (4, 9)
    assert np.shares_memory(folder.widened(9).data, folder.X.data)
    assert folder.widened(4) is folder.X
    with pytest.raises(InputError, match="4 features, 3 are expected"):
        folder.widened(3)
