"""Whose checkpoint it is: one's own is believed, and of others only the best point is taken."""

import json
import logging
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import cutplane as cp
from cutplane.checkpoints.store import VARIABLE, Key

from .runs import HINGE, L2, linear, outcome
from .signing import signed
from .test_resume import minimized
from .test_store import contents

SOMEBODY_ELSE = "not signed with the key in "


@pytest.fixture(autouse=True)
def heard(caplog, monkeypatch):
    """Hear what is logged, whatever programs that ran in this process have set."""
    monkeypatch.setattr(logging.getLogger("cutplane"), "propagate", True)
    caplog.set_level(logging.WARNING, logger="cutplane.checkpoints")


@pytest.fixture
def home(monkeypatch, tmp_path):
    """A home directory in which there is no key yet, and no other place for one."""
    for name in (VARIABLE, "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    return tmp_path / "home"


def with_another_key(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "another.key"))


def test_the_key_is_made_once_and_nobody_else_may_read_it(home):
    assert Key().has_signed(b"x", Key().signature(b"x"))
    (path,) = [path for path in home.rglob("*") if path.is_file()]
    assert path == home / ".config" / "cutplane" / "checkpoint.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_bytes().strip()) == 64
    assert not Key().has_signed(b"y", Key().signature(b"x"))
    assert not Key().has_signed(b"x", "")
    assert not Key().has_signed(b"x", "\ud800")


def test_the_key_is_where_programs_keep_their_settings(home, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    Key()
    assert (tmp_path / "settings" / "cutplane" / "checkpoint.key").is_file()
    assert not home.exists()


@pytest.mark.parametrize("links", [True, False])
def test_processes_that_begin_together_have_one_key(home, monkeypatch, links):
    def no_links(*_):
        raise OSError(95, "Operation not supported")

    if not links:
        monkeypatch.setattr(os, "link", no_links)
        Key()
    with ThreadPoolExecutor(8) as threads:
        keys = list(threads.map(lambda _: Key(), range(8)))
    assert len({key.signature(b"x") for key in keys}) == 1
    assert len(list((home / ".config" / "cutplane").iterdir())) == 1


def test_a_key_that_is_none_is_refused_in_one_line(home, monkeypatch, tmp_path):
    path = tmp_path / "my.key"
    path.write_text("short\n")
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(cp.CheckpointError, match=rf"^{path}: not a key .*, it has 5 bytes$"):
        minimized(tmp_path / "run")
    monkeypatch.setenv(VARIABLE, str(path / "below a file"))
    with pytest.raises(cp.CheckpointError, match=r"below a file: no key \(CUTPLANE_KEY_FILE\): "):
        minimized(tmp_path / "run")


def test_a_key_that_goes_along_is_as_good_elsewhere(monkeypatch, tmp_path):
    with_another_key(monkeypatch, tmp_path)
    minimized(tmp_path / "run", max_iter=3)
    (tmp_path / "another.key").rename(tmp_path / "moved.key")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "moved.key"))
    assert outcome(minimized(tmp_path / "run")) == outcome(minimized(None))


def test_of_somebody_elses_checkpoint_the_best_point_is_taken(monkeypatch, tmp_path, caplog):
    first = minimized(tmp_path / "run", max_iter=3)
    with_another_key(monkeypatch, tmp_path)
    found = minimized(tmp_path / "run", max_iter=4)
    (line,) = [record.getMessage() for record in caplog.records]
    assert SOMEBODY_ELSE in line
    assert str(tmp_path / "run") in line
    assert outcome(found) == outcome(minimized(None, start=first.w, max_iter=4))
    # From here on it is one's own.
    assert outcome(minimized(tmp_path / "run")) == outcome(minimized(None, start=first.w))


@pytest.mark.parametrize("unwritable", ["a file", "nobody"])
def test_without_a_place_for_a_key_runs_go_on_from_their_best_points(
    home, monkeypatch, tmp_path, caplog, unwritable
):
    def nobody():
        raise RuntimeError("Could not determine home directory.")

    if unwritable == "a file":
        home.touch()
    else:
        monkeypatch.setattr(Path, "home", nobody)
    first = minimized(tmp_path / "run", max_iter=3)
    assert "no key for checkpoints can be kept" in caplog.text
    assert VARIABLE in caplog.text
    assert outcome(minimized(tmp_path / "run")) == outcome(minimized(None, start=first.w))
    assert "going on from its best point" in caplog.text


def forge(folder, change):
    """Change the state of a checkpoint, with the right digests."""
    # Not at the top: these tests belong to the attacks, which use those here.
    from tests.attack.checkpoint_mutations import Contents

    found = Contents.of(folder)
    change(found)
    forged = folder.with_name("forged")
    found.write(forged, lambda manifest: json.dumps(manifest).encode())
    return forged


def test_a_bound_that_was_lifted_is_not_believed(tmp_path):
    first = minimized(tmp_path / "run", max_iter=3)

    def lift(found):
        (state,) = [entry for entry in found.tree["objects"] if "lower" in entry["fields"]]
        state["fields"]["lower"] = state["fields"]["objective"]

    found = minimized(forge(tmp_path / "run", lift), max_iter=3)
    optimum = minimized(None, max_iter=1000)
    assert found.status is cp.Status.ITERATION_LIMIT
    assert found.certificate.lower_bound <= optimum.objective < first.objective


def test_a_best_point_that_is_none_is_refused_in_one_line(monkeypatch, tmp_path):
    minimized(tmp_path / "run", max_iter=3)

    def best(value):
        def change(found):
            array = np.asarray(value)
            layouts = found.tree["arrays"]
            node = dict(found.tree["root"]["dict"])["w"]["array"]
            layouts[node] = [array.dtype.str, list(array.shape), "C", True]
            found.files[found.state].arrays[str(node)] = array.tobytes()

        return change

    cases = {
        "its best point has shape (3,)": np.zeros(3),
        "its best point has shape ()": np.float64(0.0),
        "its best point is no vector": np.zeros(8, dtype=np.float32),
        "the regularizer is not finite at its best point": np.full(8, np.nan),
        "the regularizer is not finite": np.full(8, 1e200),
    }
    for number, (message, value) in enumerate(cases.items()):
        forged = forge(tmp_path / "run", best(value)).rename(tmp_path / f"forged {number}")
        before = contents(forged)
        with pytest.raises(cp.CheckpointError) as caught:
            minimized(forged)
        assert str(caught.value).startswith(f"{forged}: ")
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
        assert contents(forged) == before


def test_a_best_point_where_the_risk_is_not_finite_is_refused(tmp_path):
    risk = linear(cp.Exponential())()
    cp.minimize(risk, L2, max_iter=1, checkpoint=tmp_path / "run")

    def far(found):
        node = dict(found.tree["root"]["dict"])["w"]["array"]
        arrays = found.files[found.state].arrays
        arrays[str(node)] = np.full(8, 1e5).tobytes()

    with pytest.raises(cp.CheckpointError, match="its best point is none: "):
        cp.minimize(risk, L2, checkpoint=forge(tmp_path / "run", far))


def test_the_method_of_somebody_elses_checkpoint_is_not_believed(monkeypatch, tmp_path):
    first = minimized(tmp_path / "run", max_iter=3)
    with_another_key(monkeypatch, tmp_path)
    with pytest.raises(cp.CheckpointError, match=rf"{SOMEBODY_ELSE}.*, give method=$"):
        cp.resume(tmp_path / "run", HINGE(), L2)
    found = cp.resume(tmp_path / "run", HINGE(), L2, method=cp.bmrm(), tol=1e-9, max_iter=6)
    assert outcome(found) == outcome(minimized(None, start=first.w))


@pytest.mark.parametrize(
    "choices", ["null", "{}", "[[", '{"root": 1, "objects": [], "arrays": []}', "[" * 10**5]
)
def test_a_method_that_is_none_is_refused_in_one_line(tmp_path, choices):
    minimized(tmp_path, max_iter=3)
    path = tmp_path / "checkpoint.json"
    manifest = json.loads(path.read_text())
    manifest["about"]["choices"] = choices
    path.write_bytes(signed(manifest))
    with pytest.raises(cp.CheckpointError, match="its method is unknown, give method=") as caught:
        cp.resume(tmp_path, HINGE(), L2)
    assert "\n" not in str(caught.value)


def test_words_of_a_file_are_printed_in_one_line(tmp_path):
    minimized(tmp_path, max_iter=3)
    path = tmp_path / "checkpoint.json"
    manifest = json.loads(path.read_text())
    manifest["about"]["problem"] = {"a\nb\x1b[2J" + 10**5 * "x": ""}
    path.write_text(json.dumps(manifest))
    with pytest.raises(cp.CheckpointError) as caught:
        minimized(tmp_path)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600
