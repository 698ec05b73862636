"""The folder of a checkpoint: what is written, what is kept, and what is refused."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from cutplane.checkpoints import store as store_module
from cutplane.checkpoints.codec import Codec
from cutplane.checkpoints.store import About, CheckpointError, Planes, Store
from cutplane.compute import durable

ABOUT = About("0", "here", {"loss": "1"}, {"query": "2"})
CODEC = Codec({})


def slope(number):
    return np.random.default_rng(number).normal(size=50)


def planes(numbers):
    numbers = np.array(sorted(numbers), dtype=np.int64)
    return Planes(numbers, lambda row: slope(numbers[row]))


def write(store, value, numbers=(0,)):
    return store.write(ABOUT, 1, CODEC.encode(value), planes(numbers))


def read(folder):
    with Store(folder) as store:
        stored = store.read()
    for number, row in stored.slopes.items():
        assert row.tobytes() == slope(number).tobytes()
    return CODEC.decode(stored.encoded), set(stored.slopes)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def contents(folder):
    """Return everything in a folder, but for the lock, which tells who has looked last."""
    return {
        path.relative_to(folder): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if path.name != "lock"
    }


def test_what_was_written_is_read(tmp_path):
    value = [1.5, -np.inf, np.arange(3), np.float32(2.0), np.array(["ab", "c"]), np.zeros((0, 3))]
    with Store(tmp_path / "new" / "folder") as store:
        write(store, value, [0, 3])
    found, numbers = read(tmp_path / "new" / "folder")
    assert repr(found) == repr(value)
    assert numbers == {0, 3}


def test_other_programs_can_read_the_files(tmp_path):
    with Store(tmp_path) as store:
        write(store, [np.arange(4.0), np.array([True])], [2, 5])
    assert load_file(tmp_path / "state-000001.safetensors")["0"].tolist() == [0, 1, 2, 3]
    found = load_file(tmp_path / "planes-000001.safetensors")
    assert found["numbers"].tolist() == [2, 5]
    assert found["slopes"].tobytes() == np.array([slope(2), slope(5)]).tobytes()


def test_each_plane_is_written_once_and_the_last_two_states_are_kept(tmp_path):
    with Store(tmp_path) as store:
        for n in range(1, 6):
            write(store, n, range(n))
            assert load_file(tmp_path / f"planes-00000{n}.safetensors")["numbers"].tolist() == [
                n - 1
            ]
        write(store, 6, range(5))
    assert names(tmp_path) == [
        "checkpoint-previous.json",
        "checkpoint.json",
        "lock",
        *(f"planes-00000{n}.safetensors" for n in range(1, 6)),
        "state-000005.safetensors",
        "state-000006.safetensors",
    ]
    assert read(tmp_path) == (6, set(range(5)))
    (tmp_path / "checkpoint-previous.json").rename(tmp_path / "checkpoint.json")
    assert read(tmp_path) == (5, set(range(5)))


def test_dropped_planes_go_when_they_are_more_than_half(tmp_path):
    with Store(tmp_path) as store:
        write(store, 1, range(4))
        write(store, 2, [2, 3])
        assert "planes-000002.safetensors" not in names(tmp_path)
        write(store, 3, [3, 4])
        # The last state but one needs the first file still.
        assert {"planes-000001.safetensors", "planes-000003.safetensors"} <= set(names(tmp_path))
        write(store, 4, [3, 4])
        assert "planes-000001.safetensors" not in names(tmp_path)
    assert read(tmp_path) == (4, {3, 4})


def test_a_store_goes_on_where_another_one_ended(tmp_path):
    with Store(tmp_path) as store:
        write(store, 1, range(3))
    with Store(tmp_path) as store:
        store.read()
        write(store, 2, range(4))
    assert load_file(tmp_path / "planes-000002.safetensors")["numbers"].tolist() == [3]
    assert read(tmp_path) == (2, set(range(4)))


def test_how_much_of_a_write_was_for_nothing(tmp_path, monkeypatch):
    seconds = iter(range(0, 1000, 100))
    monkeypatch.setattr(store_module.time, "monotonic", lambda: next(seconds))
    with Store(tmp_path) as store:
        # Nearly all bytes are planes that stay.
        assert write(store, 1, range(100)) < 10.0
        assert write(store, 2, range(200)) < 10.0
        assert write(store, 3, range(200)) == 100.0  # all of it is written again each time
        # Planes that do not stay, in a bundle that forgets.
        assert write(store, 4, range(300, 400)) == 100.0
        assert 50.0 < write(store, 5, range(350, 450)) < 60.0


def test_remains_of_a_write_that_was_killed_are_removed(tmp_path):
    with Store(tmp_path) as store:
        write(store, 1)
    (tmp_path / "state-000002.safetensors").write_bytes(b"torn")
    (tmp_path / ".cutplane-0123.tmp").write_bytes(b"torn")
    with Store(tmp_path) as store:
        store.read()
        write(store, 2)
    assert ".cutplane-0123.tmp" not in names(tmp_path)
    assert read(tmp_path)[0] == 2


def require_whole(folder):
    """Check what a process would find that begins now."""
    manifest = json.loads((folder / "checkpoint.json").read_text())
    for name, size, digest in (manifest["state"], *manifest["planes"]):
        content = (folder / name).read_bytes()
        assert len(content) == size
        assert hashlib.sha256(content).hexdigest() == digest


@pytest.mark.parametrize("nth", range(40))
def test_a_failure_at_any_step_leaves_a_state(tmp_path, monkeypatch, nth):
    steps = []

    def fail(step):
        steps.append(step)
        if len(steps) == nth + 1:
            raise OSError(28, "No space left on device")

    with Store(tmp_path) as store:
        write(store, 1, [0])
        monkeypatch.setattr(durable, "observer", fail)
        try:
            write(store, 2, [0, 1])
        except OSError:
            assert len(steps) == nth + 1
        else:
            assert len(steps) <= nth
        require_whole(tmp_path)
        monkeypatch.setattr(durable, "observer", lambda _: require_whole(tmp_path))
        write(store, 3, [0, 1])  # the same store can write again
    assert read(tmp_path) == (3, {0, 1})


def test_there_are_more_steps_than_one_might_think(tmp_path, monkeypatch):
    steps = []
    with Store(tmp_path) as store:
        write(store, 1, [0])
        write(store, 2, [0, 1])
        monkeypatch.setattr(durable, "observer", steps.append)
        write(store, 3, [0, 1, 2])
    assert len(steps) > 30
    for step in ("write", "sync", "rename", "remove", "sync of the folder"):
        assert steps.count(f"before {step}") == steps.count(f"after {step}") > 0


def damage(name, change):
    def do(folder):
        path = next(folder.glob(name))
        path.write_bytes(change(path.read_bytes()))

    return do


def edit(**changes):
    def do(folder):
        path = folder / "checkpoint.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return do


def flip(content):
    return content[:-1] + bytes([content[-1] ^ 1])


REFUSED = {
    "truncated state": (damage("state-*2.*", lambda b: b[:-5]), "state-000002.*: truncated: "),
    "truncated planes": (damage("planes-*1.*", lambda b: b[:-5]), "planes-000001.*: truncated: "),
    "empty state": (damage("state-*2.*", lambda b: b""), "truncated: 0 bytes"),
    "torn state": (damage("state-*2.*", flip), "state-000002.*: damaged: it is not what was"),
    "torn planes": (damage("planes-*1.*", flip), "planes-000001.*: damaged"),
    "missing state": (
        lambda folder: next(folder.glob("state-*2.*")).unlink(),
        "state-000002.*: missing",
    ),
    "torn manifest": (damage("checkpoint.json", lambda b: b[:50]), "checkpoint.json: damaged"),
    "empty manifest": (damage("checkpoint.json", lambda b: b""), "checkpoint.json: damaged"),
    "no text": (damage("checkpoint.json", lambda b: b"\xff\xfe"), "checkpoint.json: damaged"),
    "foreign manifest": (
        damage("checkpoint.json", lambda b: b'{"format": "x"}'),
        "not the manifest of a checkpoint$",
    ),
    "a list": (damage("checkpoint.json", lambda b: b"[]"), "checkpoint.json: damaged"),
    "newer": (edit(version=3), "of the newer format 3, this version reads 2$"),
    "older": (edit(version=1), "of the older format 1, this version reads 2$"),
    "more": (edit(more=1), "checkpoint.json: damaged"),
    "other names": (
        edit(state=["../x", 1, "0"]),
        "checkpoint.json: damaged: it names files that are not of a checkpoint$",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_damaged_is_refused_in_one_line_and_nothing_changes(tmp_path, name):
    with Store(tmp_path) as store:
        write(store, 1)
        write(store, 2)
    break_it, message = REFUSED[name]
    break_it(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(CheckpointError, match=message) as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert contents(tmp_path) == before


def test_a_damaged_state_says_how_to_go_on_from_the_one_before(tmp_path):
    with Store(tmp_path) as store:
        write(store, 1)
        write(store, 2)
    damage("state-*2.*", flip)(tmp_path)
    with pytest.raises(CheckpointError, match=r"\(rename checkpoint-previous.json to"):
        read(tmp_path)
    (tmp_path / "checkpoint-previous.json").rename(tmp_path / "checkpoint.json")
    assert read(tmp_path)[0] == 1


def test_a_damaged_manifest_of_the_write_before_ends_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    with Store(tmp_path) as store:
        write(store, 1)
        write(store, 2)
    previous = (tmp_path / "checkpoint-previous.json").read_bytes()
    last = 2
    for place in range(0, len(previous), 5):
        for bit in (0x01, 0x80):
            damaged = bytearray(previous)
            damaged[place] ^= bit
            (tmp_path / "checkpoint-previous.json").write_bytes(damaged)
            assert read(tmp_path)[0] == last
            with Store(tmp_path) as store:
                store.read()
                last += 1
                write(store, last)
    (tmp_path / "checkpoint-previous.json").write_bytes(b"[" * 10**5)
    assert read(tmp_path)[0] == last


def test_a_damaged_state_names_no_write_before_that_is_damaged_too(tmp_path):
    with Store(tmp_path) as store:
        write(store, 1)
        write(store, 2)
    damage("state-*2.*", flip)(tmp_path)
    damage("checkpoint-previous.json", lambda b: b"\xff" + b)(tmp_path)
    with pytest.raises(CheckpointError, match=r"it is not what was written$"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["data.csv", "state-000001.safetensors", "checkpoints.json"])
def test_a_foreign_folder_is_left_alone(tmp_path, name):
    (tmp_path / name).write_bytes(b"precious")
    with pytest.raises(CheckpointError, match=rf"not a checkpoint, but a folder with {name} in it"):
        Store(tmp_path)
    assert names(tmp_path) == [name]
    with pytest.raises(CheckpointError, match="not a folder"):
        Store(tmp_path / name)


def test_other_files_in_a_checkpoint_stay(tmp_path):
    with Store(tmp_path) as store:
        write(store, 1)
        (tmp_path / "notes.txt").write_text("mine")
        (tmp_path / "state-1.safetensors").write_text("mine")
        for n in range(4):
            write(store, n)
    assert {"notes.txt", "state-1.safetensors"} <= set(names(tmp_path))


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"file/folder: cannot write: Not a directory$"):
        Store(tmp_path / "file" / "folder")


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    with Store(tmp_path):
        with pytest.raises(CheckpointError, match=rf"another run .*\(process {os.getpid()}\)$"):
            Store(tmp_path)
        code = (
            "import sys; from pathlib import Path; from cutplane.checkpoints.store import Store\n"
        )
        code += "Store(Path(sys.argv[1]))"
        other = subprocess.run(
            [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False
        )
        assert f"process {os.getpid()}" in other.stderr
    Store(tmp_path).close()


def test_the_lock_of_a_dead_process_does_not_count(tmp_path):
    code = "import os, signal, sys; from pathlib import Path\n"
    code += "from cutplane.checkpoints.store import Store\n"
    code += "store = Store(Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
    dead = subprocess.run([sys.executable, "-c", code, tmp_path], check=False)
    assert dead.returncode == -9
    assert (Path(tmp_path) / "lock").read_text().strip() != str(os.getpid())
    Store(tmp_path).close()
