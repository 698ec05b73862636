"""A folder that holds the last two states of a run.

    checkpoint.json              the manifest: what was written, with the digest of every file
    checkpoint-previous.json     the manifest before it
    state-000007.safetensors     a state without its planes
    planes-000003.safetensors    planes that were new in the third write: slopes by plane number
    lock                         held by the run that writes here

A plane never changes once it is made, so each is written once. Planes that were dropped stay where
they are until they are more than half of all; then those that are left go to a file of their own.
A new manifest takes the place of the old one in one step, when all its files are on the disk. Files
that neither manifest names are removed afterwards.

Whether planes lie below a risk cannot be seen from them: to check them would take as long as to
compute them. So what a checkpoint says is believed if its manifest, which has the digests of all
files, is signed with the key of the user (HMAC with SHA-256). The key is made when the first
checkpoint is written, in a file that nobody else may read. `VARIABLE` names another file, for
machines without a common home directory.

Arrays are written in the safetensors format, piece by piece, and read with a check:

    8 bytes: length of the header | header, JSON: name -> dtype, shape, place | all arrays

The library of that name wants everything in memory at once, and a copy of it; planes of a large
model fill half of the memory. Files can be read by it all the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from cutplane.checkpoints.codec import Encoded
from cutplane.compute import durable
from cutplane.compute.arrays import Vector

_log = logging.getLogger("cutplane.checkpoints")

VARIABLE = "CUTPLANE_KEY_FILE"


class Key:
    """The key of the user, or of nobody, who signs nothing and has signed nothing."""

    def __init__(self) -> None:
        self._secret = b""
        given = os.environ.get(VARIABLE)
        try:
            path = Path(given) if given else _default_path()
            self.where = f"the key in {path}"
            self._secret = _read_or_make(path)
        except (OSError, RuntimeError) as error:  # no home directory is a RuntimeError
            why = error.strerror if isinstance(error, OSError) else error
            if given:
                raise CheckpointError(f"{given}: no key ({VARIABLE}): {why}") from error
            self.where = "a key, and none can be kept in the home directory"
            _log.warning(
                "no key for checkpoints can be kept (%s): a later run will go on from the best "
                "point only, unless %s names a file for one",
                why,
                VARIABLE,
            )

    def signature(self, content: bytes) -> str:
        """Return what nobody without the key can make of a content; nothing without a key."""
        if not self._secret:
            return ""
        return hmac.new(self._secret, b"cutplane checkpoint\0" + content, _sha256).hexdigest()

    def has_signed(self, content: bytes, signature: str) -> bool:
        """Say whether a content was signed with this key."""
        expected = self.signature(content)
        return bool(expected) and hmac.compare_digest(
            expected.encode(), signature.encode(errors="replace")
        )


def _sha256(data: bytes = b"") -> Any:
    """Return the digest that `hmac` is to use.

    With a name in its place OpenSSL does all of the work, in whose lock a child that was forked at
    the wrong moment was seen to wait for ever.
    """
    return hashlib.sha256(data)


def _default_path() -> Path:
    """Return where programs keep what belongs to the user."""
    folder = os.environ.get("APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "cutplane" / "checkpoint.key"


def _read_or_make(path: Path) -> bytes:
    """Return the key in a file, which is made if there is none."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make(path)
    secret = path.read_bytes().strip()
    if len(secret) < 16:  # it could be guessed
        raise CheckpointError(f"{path}: not a key for checkpoints, it has {len(secret)} bytes")
    return secret


def _make(path: Path) -> None:
    """Put a new key into a file, unless another process has just done so."""
    temporary = durable.temporary_name(path)
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_hex(32).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return
        except OSError:  # a file system without links
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


_NAMES = {
    "<f8": "F64", "<f4": "F32", "<f2": "F16", "<i8": "I64", "<i4": "I32", "<i2": "I16", "|i1": "I8",
    "<u8": "U64", "<u4": "U32", "<u2": "U16", "|u1": "U8", "|b1": "BOOL",
}  # fmt: skip


class CheckpointError(ValueError):
    """A checkpoint cannot be used, for the reason that the message gives; nothing was changed."""


class StoredFile(NamedTuple):
    """A file of a checkpoint, as the manifest knows it."""

    name: str
    bytes: int
    sha256: str


def write_arrays(
    path: Path,
    arrays: Mapping[str, NDArray[Any] | Sequence[NDArray[Any]]],
    words: Mapping[str, str] | None = None,
) -> StoredFile:
    """Write arrays in C order, or the rows of matrices, and some words, to a new file."""
    header: dict[str, Any] = {"__metadata__": dict(words or {})}
    contents: list[memoryview] = []
    end = 0
    for name, array in arrays.items():
        rows = [array] if isinstance(array, np.ndarray) else array
        content = [row.reshape(-1).view(np.uint8).data for row in rows]
        begin, end = end, end + sum(map(len, content))
        dtype = _NAMES.get(rows[0].dtype.str)
        if dtype is None:  # what the format has no name for is kept as bytes: the words tell more
            dtype, shape = "U8", (end - begin,)
        else:
            shape = (*(() if rows[0] is array else (len(rows),)), *rows[0].shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        contents += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that arrays begin where the format recommends it
    digest = durable.create(path, [len(text).to_bytes(8, "little") + text, *contents])
    return StoredFile(path.name, 8 + len(text) + end, digest)


def read_file(
    folder: Path, file: StoredFile
) -> tuple[dict[str, str], dict[str, NDArray[np.uint8]]]:
    """Return the words of a file, and the bytes of its arrays by name.

    Raises
    ------
    CheckpointError
        If it is not the one that was written.
    """
    path = folder / file.name
    try:
        found = path.stat()
        # Before it is opened: what is no plain file may have no end.
        if found.st_size != file.bytes or not stat.S_ISREG(found.st_mode):
            raise CheckpointError(f"{path}: truncated: {found.st_size} bytes of {file.bytes}")
        content = np.fromfile(path, dtype=np.uint8, count=file.bytes)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: missing, it is a part of the checkpoint") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot read: {error.strerror}") from error
    if hashlib.sha256(content.data).hexdigest() != file.sha256:
        raise CheckpointError(f"{path}: damaged: it is not what was written")
    try:
        begin = 8 + int(content[:8].view("<u8")[0])
        header = json.loads(content[8:begin].tobytes())
        words = header.pop("__metadata__", {})
        places = {name: entry["data_offsets"] for name, entry in header.items()}
        arrays = {name: content[begin + a : begin + b] for name, (a, b) in places.items()}
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path}: damaged: not a file of arrays") from error
    return words, arrays


FORMAT = "cutplane checkpoint"
VERSION = 2

_MANIFEST, _PREVIOUS, _LOCK = "checkpoint.json", "checkpoint-previous.json", durable.LOCK
_FILE = re.compile(r"(state|planes)-(\d{6,18})\.safetensors")
_NONE = np.empty(0, dtype=np.int64)


# What reading a damaged manifest raises.
_NO_MANIFEST = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_Count = Annotated[int, msgspec.Meta(ge=0, lt=10**15)]


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a checkpoint is of: all that must be the same to go on, and where the same bits are.

    ``problem`` and ``method`` are fingerprints, by the names of their parts; ``choices`` is the
    method itself, as text.
    """

    library: str
    processor: str
    problem: dict[str, str]
    method: dict[str, str]
    choices: str = "null"


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The list of what was written."""

    format: str
    version: int
    about: About
    write: _Count
    iteration: _Count
    state: StoredFile
    planes: list[StoredFile]
    signature: str = ""

    @property
    def files(self) -> set[str]:
        """The names of all files that belong to it."""
        return {file.name for file in (self.state, *self.planes)}

    @property
    def signed_content(self) -> bytes:
        """All of it but the signature."""
        return msgspec.json.encode(msgspec.structs.replace(self, signature=""))


class _Kind(msgspec.Struct):
    """The part of a manifest that is the same in all versions."""

    format: str = ""
    version: int = 0


class Planes(NamedTuple):
    """The slopes of a bundle: numbers that increase, and the slope of each."""

    numbers: NDArray[np.int64]
    slope: Callable[[int], Vector]


class Stored(NamedTuple):
    """A state as it was stored: its tree, and the slopes by plane number."""

    encoded: Encoded
    slopes: dict[int, Vector]


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder has a state in it."""
    return (folder / _MANIFEST).is_file()


class Store:
    """The folder of a checkpoint, locked against other runs while it is open.

    It is created if it does not exist. One that cannot be used, or is neither empty nor a
    checkpoint, is refused by a CheckpointError, and nothing in it is changed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = Key()
        self._lock: int | None = None
        self._segments: list[tuple[StoredFile, NDArray[np.int64]]] = []
        try:
            self._require_own()
            folder.mkdir(parents=True, exist_ok=True)
            self._take_lock()
            parts = map(_FILE.fullmatch, os.listdir(folder))
        except OSError as error:
            raise CheckpointError(f"{folder}: cannot write: {error.strerror}") from error
        try:
            self.manifest = self._read_manifest()
        except BaseException:
            self.close()
            raise
        # No file has a larger number than the manifest, unless another program wrote it.
        numbers = [int(part[2]) for part in parts if part]
        self._number = max([self.manifest.write if self.manifest else 0, *numbers])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others write here."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def own(self) -> bool:
        """Whether the last state was written by somebody with the key of the user."""
        found = self.manifest
        return found is not None and self.key.has_signed(found.signed_content, found.signature)

    def read(self) -> Stored:
        """Read the last state; raise CheckpointError if a file is not what was written."""
        assert self.manifest is not None
        encoded = self.read_without_planes()
        slopes: dict[int, Vector] = {}
        self._segments = []
        for file in self.manifest.planes:
            with self._reading(file, "no planes"):
                parts = read_file(self.folder, file)[1]
                numbers = parts["numbers"].copy().view(np.int64)
                rows = parts["slopes"].view(np.float64).reshape(len(numbers), -1)
            self._segments.append((file, numbers))
            slopes.update(zip(numbers.tolist(), rows, strict=True))
        return Stored(encoded, slopes)

    def read_without_planes(self) -> Encoded:
        """Read the last state, but for its slopes."""
        assert self.manifest is not None
        with self._reading(self.manifest.state, "no state"):
            words, arrays = read_file(self.folder, self.manifest.state)
            # Copies, because places in a file are not aligned as new arrays are.
            copies = {name: array.copy() for name, array in arrays.items()}
            return Encoded(json.loads(words["tree"]), copies)

    @contextlib.contextmanager
    def _reading(self, file: StoredFile, what: str) -> Iterator[None]:
        """Say what is wrong with a file, and how to go on, if there is a way."""
        try:
            yield
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            is_said = isinstance(error, CheckpointError)
            message = str(error) if is_said else f"{self.folder / file.name}: damaged: {what}"
            if _manifest_in(self.folder / _PREVIOUS) is not None:
                message += f" (rename {_PREVIOUS} to {_MANIFEST} to go on from the write before)"
            raise CheckpointError(message) from error

    def write(self, about: About, iteration: int, encoded: Encoded, planes: Planes) -> float:
        """Write a state; the last one stays, also after an OSError, and the one before it goes.

        Returns the seconds that a later write would have saved: planes that stay must be written
        once, sooner or later; the rest of the state, and planes that were dropped since, need not.
        """
        begin = time.monotonic()
        # A number is never used again, also if its write has failed, maybe at its very last step.
        self._number += 1
        number = self._number
        self._remove_others()
        last = self._segments[-1][1] if self._segments else _NONE
        gone = 1.0 - float(np.isin(last, planes.numbers).mean()) if len(last) else 0.0
        segments = self._with_new_planes(number, planes)
        new = segments[-1][0].bytes if segments is not self._segments else 0
        words = {"tree": json.dumps(encoded.tree)}  # with infinities, which msgspec has no word for
        state = write_arrays(self._path("state", number), encoded.arrays, words)
        durable.sync_folder(self.folder)
        manifest = Manifest(
            FORMAT, VERSION, about, number, iteration, state, [file for file, _ in segments]
        )
        manifest = msgspec.structs.replace(
            manifest, signature=self.key.signature(manifest.signed_content)
        )
        with contextlib.suppress(FileNotFoundError):
            durable.replace(self.folder / _PREVIOUS, (self.folder / _MANIFEST).read_bytes())
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
        durable.replace(self.folder / _MANIFEST, text)
        self.manifest, self._segments = manifest, segments
        self._remove_others()
        avoidable = (state.bytes + gone * new) / (state.bytes + new)
        return avoidable * (time.monotonic() - begin)

    def _with_new_planes(
        self, number: int, planes: Planes
    ) -> list[tuple[StoredFile, NDArray[np.int64]]]:
        """Write the planes that are not stored yet; return all files with planes."""
        stored = np.concatenate([_NONE, *(numbers for _, numbers in self._segments)])
        rows = np.flatnonzero(~np.isin(planes.numbers, stored))
        kept = self._segments
        if len(stored) > 2 * np.count_nonzero(np.isin(stored, planes.numbers)):
            rows, kept = np.arange(len(planes.numbers)), []
        if not len(rows):
            return kept
        slopes = [planes.slope(row) for row in rows.tolist()]
        numbers = planes.numbers[rows]
        file = write_arrays(self._path("planes", number), {"numbers": numbers, "slopes": slopes})
        return [*kept, (file, numbers)]

    def _path(self, kind: str, number: int) -> Path:
        return self.folder / f"{kind}-{number:06d}.safetensors"

    def _require_own(self) -> None:
        """Refuse a folder that others keep their files in."""
        folder = self.folder
        if not folder.exists() or (folder / _MANIFEST).exists():
            return
        if not folder.is_dir():
            raise CheckpointError(f"{folder}: not a folder, so it is no checkpoint")
        # The lock is the first file that is made, so files without it are not ours.
        locked = (folder / _LOCK).exists()
        for path in folder.iterdir():
            if not (locked and (path.name in (_PREVIOUS, _LOCK) or _is_part(path))):
                raise CheckpointError(
                    f"{folder}: not a checkpoint, but a folder with {path.name} in it"
                )

    def _take_lock(self) -> None:
        """Take the lock, which the system gives back when the process ends, however it ends."""
        self._lock = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        if not durable.lock(self._lock):
            owner = os.read(self._lock, 20).decode(errors="replace").strip() or "unknown"
            self.close()
            raise CheckpointError(f"{self.folder}: another run writes there now (process {owner})")
        os.ftruncate(self._lock, 0)
        os.write(self._lock, f"{os.getpid()}\n".encode())

    def _read_manifest(self) -> Manifest | None:
        path = self.folder / _MANIFEST
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CheckpointError(f"{path}: cannot read: {error.strerror}") from error
        try:
            kind = msgspec.json.decode(text, type=_Kind)
            if kind.format != FORMAT:
                raise CheckpointError(f"{path}: not the manifest of a checkpoint")
            if kind.version != VERSION:
                age = "newer" if kind.version > VERSION else "older"
                raise CheckpointError(
                    f"{path}: of the {age} format {kind.version}, this version reads {VERSION}"
                )
            manifest = msgspec.json.decode(text, type=Manifest)
        except _NO_MANIFEST as error:
            raise CheckpointError(f"{path}: damaged: not the manifest of a checkpoint") from error
        if not all(map(_FILE.fullmatch, manifest.files)):
            raise CheckpointError(f"{path}: damaged: it names files that are not of a checkpoint")
        return manifest

    def _remove_others(self) -> None:
        """Remove files of ours that neither of the last two manifests names."""
        named: set[str] = set()
        for name in (_MANIFEST, _PREVIOUS):
            manifest = _manifest_in(self.folder / name)
            named |= manifest.files if manifest else set()
        for path in sorted(self.folder.iterdir()):
            if _is_part(path) and path.name not in named:
                durable.remove(path)


def _manifest_in(path: Path) -> Manifest | None:
    """Return a manifest if there is one, and it is not damaged."""
    with contextlib.suppress(FileNotFoundError, *_NO_MANIFEST):
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    return None


def _is_part(path: Path) -> bool:
    """Say whether a file has the name of a part of a checkpoint, or of one that is being made."""
    return bool(_FILE.fullmatch(path.name)) or durable.is_temporary(path)
