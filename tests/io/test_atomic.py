"""Files are written whole or not at all."""

import contextlib
import errno
import os
import resource
import stat
from types import SimpleNamespace

import pytest

from cutplane.io import OutputError, check_writable, write_atomically
from cutplane.io import files as atomic


def only(folder):
    return sorted(path.name for path in folder.iterdir())


def test_writes_and_replaces(tmp_path):
    target = tmp_path / "file"
    write_atomically(target, b"old")
    write_atomically(target, b"new")
    assert target.read_bytes() == b"new"
    assert only(tmp_path) == ["file"]


def test_permissions_are_those_of_any_new_file_or_of_the_old_one(tmp_path):
    plain, target = tmp_path / "plain", tmp_path / "file"
    plain.touch()
    write_atomically(target, b"x")
    assert target.stat().st_mode == plain.stat().st_mode
    target.chmod(0o600)
    write_atomically(target, b"y")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "file", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_the_longest_name_works(tmp_path):
    target = tmp_path / ("x" * 255)
    write_atomically(target, b"x")
    assert target.read_bytes() == b"x"


@contextlib.contextmanager
def files_of_1000_bytes():
    """Let no file grow beyond 1000 bytes, as on a disk that is almost full.

    Only around a call, because pytest's own output may be a file, and longer.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_no_room_leaves_the_old_file_alone(tmp_path):
    target = tmp_path / "file"
    write_atomically(target, b"old")
    too_large = pytest.raises(OutputError, match=r"file: cannot write: file too large$")
    with too_large, files_of_1000_bytes():
        write_atomically(target, b"x" * 1001)
    assert target.read_bytes() == b"old"
    assert only(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(5, "Input/output error")])
def test_an_interruption_leaves_nothing_behind(tmp_path, monkeypatch, error):
    def fail(_):
        raise error

    monkeypatch.setattr(atomic.os, "fsync", fail)
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else OutputError):
        write_atomically(tmp_path / "file", b"x")
    assert only(tmp_path) == []


def test_the_content_and_then_the_name_reach_the_disk(tmp_path, monkeypatch):
    done = []

    def fsync(handle):
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        before.fsync(handle)

    def replace(source, target):
        done.append("name")
        before.replace(source, target)

    before = SimpleNamespace(fsync=os.fsync, replace=os.replace)
    monkeypatch.setattr(atomic.os, "fsync", fsync)
    monkeypatch.setattr(atomic.os, "replace", replace)
    write_atomically(tmp_path / "file", b"x")
    assert done == ["file", "name", "folder"]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EIO], ids=errno.errorcode.get)
def test_a_folder_that_cannot_be_synchronized(tmp_path, monkeypatch, number):
    def fsync(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(atomic.os, "fsync", fsync)
    failing = pytest.raises(OutputError, match="cannot write: input/output error")
    with failing if number == errno.EIO else contextlib.nullcontext():
        write_atomically(tmp_path / "file", b"x")
    assert (tmp_path / "file").read_bytes() == b"x"
    assert only(tmp_path) == ["file"]


@pytest.mark.parametrize("attempt", [check_writable, lambda path: write_atomically(path, b"x")])
def test_impossible_targets_are_named(tmp_path, attempt):
    missing = tmp_path / "no" / "file"
    with pytest.raises(OutputError) as caught:
        attempt(missing)
    assert str(caught.value) == f"{missing}: cannot write: no such file or directory"
    with pytest.raises(OutputError, match="cannot write: is a directory"):
        attempt(tmp_path)
    (tmp_path / "plain").touch()
    with pytest.raises(OutputError, match="cannot write: not a directory"):
        attempt(tmp_path / "plain" / "file")
    assert only(tmp_path) == ["plain"]


def skip_if_writable(path):
    if os.access(path, os.W_OK):
        pytest.skip("this user may write everywhere")


def test_read_only_folder(tmp_path):
    tmp_path.chmod(0o500)
    skip_if_writable(tmp_path)
    with pytest.raises(OutputError, match="permission denied"):
        check_writable(tmp_path / "file")


def test_read_only_file(tmp_path):
    target = tmp_path / "file"
    target.touch(mode=0o400)
    skip_if_writable(target)
    for attempt in (check_writable, lambda path: write_atomically(path, b"x")):
        with pytest.raises(OutputError, match="permission denied"):
            attempt(target)


def test_check_leaves_no_trace(tmp_path):
    check_writable(tmp_path / "file")
    assert only(tmp_path) == []
    (tmp_path / "file").write_bytes(b"old")
    check_writable(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    check_writable("/dev/null")
    write_atomically("/dev/null", b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    if os.path.exists("/dev/full"):
        with pytest.raises(
            OutputError, match=r"^/dev/full: cannot write: no space left on device$"
        ):
            write_atomically("/dev/full", b"x")
