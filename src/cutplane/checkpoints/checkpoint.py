"""Checkpoints of a run: when they are written, what is in one, and whether a run can go on from it.

A checkpoint is the state of the loop between two iterations, and nothing else: the loop keeps
nothing anywhere else, so a run that goes on from it takes the same steps, to the last bit, as one
that was never stopped. It is refused unless problem, method and version are the same.

Nearly all of a large state are the slopes of its planes. They never change, so they are stored by
number, each once; the rest is small and stored again each time. Matrices with room for more planes
than there are (slopes, Gram matrix) are stored without the room, and get some again.

What is restored is believed: bounds and planes cannot be checked. Of a state that was written by
somebody else only the place of its best point is taken, from which a new run starts.

The best point is stored as it is, with its scores. Evaluated afresh it would have others: those of
a point on a line are a mean of two, and differ in their last bits from a product with the data. A
point of a user's own risk that is no data is evaluated afresh all the same.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import cast

import numpy as np

from cutplane.checkpoints.codec import Codec, Encoded, Unknown, Unstorable
from cutplane.checkpoints.store import About, CheckpointError, Planes, Store, Stored, is_checkpoint
from cutplane.compute.arrays import Vector
from cutplane.core.fingerprint import Opaque, fingerprint, fingerprints_of_parts
from cutplane.core.protocols import Point
from cutplane.core.solver import AnySolver, Solver, options_of
from cutplane.core.state import Problem, Run


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the best point is, in place of a point that cannot be stored."""

    w: Vector


class Snapshots:
    """Takes and restores the states of runs on one problem, with one method.

    States refer to both, and checkpoints contain neither.
    """

    def __init__(self, problem: Problem, method: AnySolver) -> None:
        self._problem, self._method = problem, method
        self._before = self._count()
        parts = {"risk": problem.risk, "regularizer": problem.regularizer}
        chosen = (*parts.values(), method, *options_of(method).values())
        # The modules of what the user has chosen, whose classes a state may contain.
        modules = {
            kind.__module__
            for choice in chosen
            for kind in type(choice).__mro__
            if kind is not object
        }
        self._codec = Codec(parts | {"problem": problem, "method": method}, modules)

    @property
    def inferences(self) -> int:
        """How many inferences the run took, if the risk counts them; evaluations are in the state.

        To be read where a state is whole: the last check of a run is not counted twice.
        """
        return self._count() - self._before

    def _count(self) -> int:
        return int(getattr(self._problem.risk, "inferences", 0))

    def take(self, state: Run, inferences: int) -> tuple[Encoded, Planes]:
        """Return a state as text and arrays, and its planes; or raise Unstorable.

        All is copied but for the slopes, which are `held` where they are: the run may go on.
        """
        bundle = state.bundle
        slopes, gram = bundle.matrices
        storage = {"slopes": slopes, "gram": gram}
        root = {"state": state, "gram": bundle.gram, "inferences": inferences, "w": state.best.w}
        try:
            encoded = self._codec.encode(root, **storage)
        except Unstorable:
            root["state"] = replace(state, best=cast(Point, _Place(state.best.w)))
            encoded = self._codec.encode(root, **storage)
        copies = {name: array.copy() for name, array in encoded.arrays.items()}
        slots = bundle.held = bundle.slots
        return Encoded(encoded.tree, copies), Planes(bundle.numbers, lambda row: slopes[slots[row]])

    def release(self, state: Run) -> None:
        """Let the run use the places of planes again that were dropped."""
        state.bundle.held = np.empty(0, dtype=np.int64)

    def best_point(self, encoded: Encoded) -> Vector:
        """Return where a state that anybody may have written has its best point; or Unknown."""
        try:
            nodes = dict(encoded.tree["root"]["dict"])
            only = {"root": nodes["w"], "objects": [], "arrays": encoded.tree["arrays"]}
        except (LookupError, TypeError, ValueError) as error:
            raise Unknown(f"not a stored state: {error}") from error
        w = self._codec.decode(Encoded(only, encoded.arrays))
        if not (isinstance(w, np.ndarray) and w.dtype == np.float64):
            raise Unknown("not a stored state: its best point is no vector")
        problem = self._problem
        if w.shape != (problem.risk.n_parameters,):
            raise Unknown(f"its best point has shape {w.shape}")
        with np.errstate(all="ignore"):
            if not np.isfinite(problem.regularizer.value(w)):
                raise Unknown("the regularizer is not finite at its best point")
        return w.copy()

    def restore(self, stored: Stored) -> Run:
        """Return the state that was taken, or raise Unknown; the risk goes on counting."""
        # Layouts of states are for runs that go on, which few do.
        from cutplane.checkpoints.checking import require_fitting

        encoded, slopes = stored
        nothing = np.empty((0, 0))
        try:
            root = self._codec.decode(encoded, slopes=nothing, gram=nothing)
            state: Run = root["state"]
            inferences: int = root["inferences"]
            counts = hasattr(self._problem.risk, "inferences")
            if type(inferences) is not int or inferences < 0 or (inferences and not counts):
                raise Unknown("no number of inferences")
            require_fitting(state, self._problem, self._method, self._codec.given)
            rows = [slopes[number] for number in state.bundle.numbers.tolist()]
            state.bundle.refill(self._problem.risk.n_parameters, rows, root["gram"])
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise Unknown(f"not a stored state: {error}") from error
        if isinstance(state.best, _Place):
            state.best = self._problem.risk.at(state.best.w)
        if inferences:
            self._problem.risk.inferences += inferences  # type: ignore[attr-defined]
        state.stopped = state.interrupted = False
        return state


_log = logging.getLogger("cutplane.checkpoints")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where, and how often, the state of a run is kept in files.

    Parameters
    ----------
    path : str or path
        A folder, which is created; or the checkpoint of the same problem and method, to go on from.
    every : float, optional
        Seconds between two writes; 0 writes after every iteration. By default 60, and more where
        writing takes long: see docs/checkpoints.md for what it costs. The end of a run, also by
        Ctrl-C, is written in any case.
    """

    path: str | os.PathLike[str]
    every: float | None = None

    def __post_init__(self) -> None:
        if self.every is not None and not self.every >= 0.0:
            raise ValueError(f"every must be a number of seconds, not negative, got {self.every!r}")


def part_of(checkpoint: Checkpoint | str | os.PathLike[str], name: str) -> Checkpoint:
    """Return the checkpoint of a part of the work, in a folder inside; all of it without a name."""
    given = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
    if not name:
        return given
    if is_checkpoint(Path(given.path)):
        raise CheckpointError(f"{given.path}: a checkpoint of one problem, and not of several")
    return replace(given, path=Path(given.path) / name)


class NoKeeper:
    """What a run without a checkpoint has in place of a `Keeper`.

    Attributes
    ----------
    keeps : bool
        Whether states are written.
    folder : path
        Where they are written.
    state : Run or None
        The state to go on from, if there is one.
    start : ndarray or None
        Where to begin, if there is a state that is not believed.
    due : bool
        Whether it is time to write a state.
    whole : bool
        Whether the run is between two iterations, where it can go on as if never stopped.
    """

    keeps = False
    folder = Path()
    state: Run | None = None
    start: Vector | None = None
    due = False
    whole = True

    # Only called where states are kept: a run without a checkpoint passes none of them.

    def after_iteration(self) -> None:
        """Record what belongs to the state."""

    def write_if_due(self, state: Run) -> None:
        """Begin to write the state if it is time."""

    def write(self, state: Run) -> None:
        """Write the state, and wait until it is on the disk."""


class Keeper(NoKeeper):
    """Writes the states of one run, after having read the one that is there."""

    keeps = True

    # Seconds between two writes, unless they are given; and how many times as long as a write the
    # run goes on before the next one. So at most 3 % of the time a thread of its own writes what a
    # later write would have written in any case.
    EVERY, RARELY = 60.0, 33.0

    def __init__(
        self,
        store: Store,
        writer: ThreadPoolExecutor,
        every: float | None,
        problem: Problem,
        method: AnySolver,
    ) -> None:
        self._store, self._writer, self._every = store, writer, every
        self.folder = store.folder
        self._writing: Future[float] | None = None
        self._written, self._tried = -1, False
        self._inferences = 0
        self._wait = self.EVERY if every is None else every
        self._about = _about(store.folder, problem, method)
        self._snapshots = Snapshots(problem, method)
        if store.manifest is not None:
            _require_same(store.folder, store.manifest.about, self._about)
            try:
                self._read()
            except Unknown as error:
                raise CheckpointError(f"{store.folder}: {_in_a_line(str(error))}") from error
        self._last = time.monotonic()

    def _read(self) -> None:
        """Take what is there: all of it, or of somebody else's checkpoint only the best point."""
        store = self._store
        if not store.own:
            self.start = self._snapshots.best_point(store.read_without_planes())
            _log.warning(
                "%s: not signed with %s: it may be somebody else's, so its bounds are not "
                "believed; going on from its best point, without its planes",
                store.folder,
                store.key.where,
            )
            return
        self.state = self._snapshots.restore(store.read())
        self._written = self.state.iteration
        _log.info("going on from iteration %d of %s", self._written, store.folder)

    def after_iteration(self) -> None:
        """Note how many inferences belong to the state: a check of the end does not."""
        self._inferences = self._snapshots.inferences

    @property
    def due(self) -> bool:  # type: ignore[override]
        """Whether it is time to write a state."""
        return not self._tried or time.monotonic() - self._last >= self._wait

    def write_if_due(self, state: Run) -> None:
        """Begin to write the state if it is time, and go on meanwhile."""
        if not self._tried:  # what cannot be stored should be known at once
            self._take(state)
            self._snapshots.release(state)
            self._tried = True
        if self._writing is not None and self._writing.done():
            self._finish(state)
        if time.monotonic() - self._last >= self._wait:
            self._begin(state)

    def write(self, state: Run) -> None:
        """Write the state, unless that was done, and wait until it is on the disk."""
        self._begin(state)
        self._finish(state)

    def _begin(self, state: Run) -> None:
        self._finish(state)
        if state.iteration == self._written:
            return
        snapshot = self._take(state)
        self._writing = self._writer.submit(
            self._store.write, self._about, state.iteration, *snapshot
        )
        self._written, self._last = state.iteration, time.monotonic()

    def _take(self, state: Run) -> tuple[Encoded, Planes]:
        try:
            return self._snapshots.take(state, self._inferences)
        except Unstorable as error:
            raise CheckpointError(f"{self._store.folder}: cannot be written: {error}") from error

    def _finish(self, state: Run) -> None:
        """Wait until a write is done; if it has failed, say so, and the run goes on."""
        if self._writing is None:
            return
        try:
            seconds = self._writing.result()
        except OSError as error:
            seconds, self._written = 0.0, -1
            _log.warning(
                "%s: cannot write the checkpoint, the run goes on without: %s",
                self._store.folder,
                error.strerror,
            )
        self._writing = None
        self._snapshots.release(state)
        if self._every is None:
            self._wait = max(self.EVERY, self.RARELY * seconds)


@contextmanager
def keeper(
    checkpoint: Checkpoint | str | os.PathLike[str] | None, problem: Problem, method: AnySolver
) -> Iterator[NoKeeper]:
    """Yield what writes the checkpoints of a run; one that cannot be used is a CheckpointError."""
    if checkpoint is None:
        yield NoKeeper()
        return
    given = part_of(checkpoint, "")
    # In this order: others may write there when the last write is done.
    with (
        Store(Path(given.path)) as store,
        ThreadPoolExecutor(1, thread_name_prefix="cutplane-checkpoint") as writer,
    ):
        yield Keeper(store, writer, given.every, problem, method)


def stored_method(path: str | os.PathLike[str]) -> AnySolver:
    """Return the method of the run that a checkpoint is of, or raise CheckpointError."""
    folder = Path(path)
    if not is_checkpoint(folder):
        raise CheckpointError(f"{folder}: there is no checkpoint")
    with Store(folder) as store:
        assert store.manifest is not None
        text = store.manifest.about.choices
        if not store.own:
            raise CheckpointError(f"{folder}: not signed with {store.key.where}, give method=")
    try:
        method = Codec({}).decode(Encoded(json.loads(text), {}))
        # Made as by hand: with the checks of its own.
        options = {
            name: replace(option) if is_dataclass(type(option)) else option
            for name, option in options_of(method).items()
        }
        made: AnySolver = replace(method, **options)
    except (Unknown, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise CheckpointError(
            f"{folder}: its method is unknown, give method= ({_in_a_line(str(error))})"
        ) from error
    if not isinstance(made, Solver):
        raise CheckpointError(f"{folder}: it has no method")
    return made


def _about(folder: Path, problem: Problem, method: AnySolver) -> About:
    """Return what must be the same to go on."""
    try:
        parts = fingerprints_of_parts(problem.risk, portable=True)
        parts["regularizer"] = fingerprint(problem.regularizer, portable=True)
        options = {
            name: fingerprint(option, portable=True) for name, option in options_of(method).items()
        }
        options["solver"] = type(method).__qualname__
    except Opaque as error:
        raise CheckpointError(
            f"{folder}: no checkpoint of this problem: {error}; give what contains it a method "
            "identity()"
        ) from error
    try:
        choices = json.dumps(Codec({}).encode(method).tree)
    except Unstorable:  # a user's own policies, which only the user knows
        choices = "null"
    # Not by name: a type checker would see every room above this one.
    library = import_module("cutplane").__version__
    return About(library, _processor(), parts, options, choices)


@cache
def _processor() -> str:
    """Return what the last bits of results depend on: the processor and the numerical libraries."""
    from llvmlite import binding

    name = os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name()
    libraries = [f"{library} {version(library)}" for library in ("numpy", "scipy", "numba")]
    return ", ".join([platform.machine(), name, f"Python {platform.python_version()}", *libraries])


def _require_same(folder: Path, before: About, now: About) -> None:
    """Refuse a checkpoint of another problem, method or version."""
    if before.library != now.library:
        raise CheckpointError(
            f"{folder}: a checkpoint of cutplane {_in_a_line(before.library)}, and this is "
            f"{now.library}"
        )
    for what in ("problem", "method"):
        old, new = getattr(before, what), getattr(now, what)
        different = [name for name in old | new if old.get(name) != new.get(name)]
        if different:
            names = _in_a_line(", ".join(different))
            raise CheckpointError(f"{folder}: a checkpoint of another {what} (other: {names})")
    if before.processor != now.processor:
        _log.warning(
            "%s: written elsewhere (%s; here: %s): what follows may differ in its last digits "
            "from a run that was not stopped",
            folder,
            _in_a_line(before.processor),
            now.processor,
        )


def _in_a_line(text: str) -> str:
    """Return words of a file, which may be anybody's, as they can be printed."""
    short = text if len(text) <= 200 else f"{text[:200]}..."
    return short if short.isprintable() else repr(short)
