"""Examples whose rows lie on workers, in shards.

A worker holds shards, and runs functions of cutplane on them. The client names functions and their
arguments. All workers call them at the same time, each on its own rows, with sums over the rows of
all (`cutplane.cluster.allreduce`).

When a worker is lost, its shards are read again by the others. Whatever was asked for meanwhile is
asked once more; a run goes on from its best point and its planes (`cutplane.cluster.minimize`). So
what travels of a run is its best point without scores, its planes, its bounds, its history.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol, Self
from uuid import uuid4

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cutplane.cluster.allreduce import Leader, Link, LostWorker, Shards, Worker
from cutplane.compute.arrays import BufferPool, Vector, reusing
from cutplane.compute.blocks import placing
from cutplane.compute.threads import thread_limit
from cutplane.core.fingerprint import fingerprint
from cutplane.core.protocols import LibraryPoint, Plane, Point, Risk, facts_at
from cutplane.core.solver import AnySolver
from cutplane.core.state import Problem, Run

Arrays = dict[str, Any]


class Recipe(Protocol):
    """How to read the rows of a shard, where they are to lie: as often as they are lost."""

    def read(self) -> Arrays:
        """Return features ``X``, targets ``y`` and what else there is of the rows, by name."""


class Source(Protocol):
    """Where rows come from."""

    @property
    def n_rows(self) -> int:
        """How many there are."""

    def recipe(self, begin: int, end: int) -> Recipe:
        """Return how to read some of them."""


class Holding:
    """The shards that a worker holds, and what was made of them.

    Parameters
    ----------
    n_threads : int
        How many threads it may use.

    Attributes
    ----------
    data : dict
        Its rows: features, targets and what else there is, by name.
    made : dict
        What functions make of them once, by name.
    worker : Worker
        How sums and reports reach the others, as soon as shards are here.
    held : tuple of ints
        The numbers of its shards.
    left : pair
        The name of the last run here, and its state, which outlives the loss of other workers.
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._one_at_a_time = threading.Lock()
        self._pool = BufferPool()
        self._pieces: dict[int, Arrays] = {}
        self._sample = ""
        self.worker: Worker  # from when shards are here
        self.held: tuple[int, ...] = ()
        self.data: Arrays = {}
        self.made: dict[str, Any] = {}
        self.left: tuple[str, Run | None] = ("", None)

    def serve(self, link: Link, verb: str, *given: Any) -> Any:
        """Do what the leader asks for, after what one before it asked for, if that goes on."""
        with self._one_at_a_time:
            if verb == "count":
                return self._count(*given)
            if verb == "load":
                return self._load(link, *given)
            if verb == "left":
                return self._left(*given)
            return self._run(*given)

    def _count(self, sample: str) -> tuple[int, ...]:
        """Return which shards of a sample are here."""
        return tuple(self._pieces) if sample == self._sample else ()

    def _left(self, name: str, whole: bool | None = None) -> Any:
        """Return the iteration of a run that was ended here, or all of it; None without one."""
        known, state = self.left
        if known != name or state is None:
            return None
        if whole is None:
            return state.iteration
        return without_rows(state) if whole else None

    def _load(
        self, link: Link, sample: str, alike: bool, given: tuple[Shards, dict[int, Recipe]]
    ) -> None:
        """Read the shards that are not here yet; forget all others."""
        shards, recipes = given
        if sample != self._sample:
            self._pieces, self._sample, self.left = {}, sample, ("", None)
        self._pool = BufferPool()
        self.data.clear()
        self.made.clear()
        self._pieces = {k: self._pieces[k] for k in shards.held if k in self._pieces}
        for shard in shards.held:
            if shard not in self._pieces:
                rows = shards.rows_of(shard)
                try:
                    self._pieces[shard] = recipes[shard].read()
                except Exception as error:
                    what = f"shard {shard} (rows {rows.start} to {rows.stop - 1}): {error}"
                    raise RuntimeError(what) from error
        names = list(self._pieces[shards.held[0]])
        for name in names:
            pieces = [self._pieces[shard][name] for shard in shards.held]
            self.data[name] = stacked(pieces)
            ends = np.cumsum([piece.shape[0] for piece in pieces])
            # Pieces are views of the whole from now on, so that nothing is here twice.
            for shard, end, piece in zip(shards.held, ends, pieces, strict=True):
                self._pieces[shard][name] = self.data[name][end - piece.shape[0] : end]
        self.worker = Worker(shards, link, alike=alike)
        self.held, self._shards = shards.held, shards
        n_here = self.data["X"].shape[0]
        if n_here != self.worker.n_here:
            raise ValueError(f"{n_here} rows were read in place of {self.worker.n_here}")

    def shards(self) -> list[Arrays]:
        """Return the rows of each shard here."""
        return [self._pieces[shard] for shard in self.held]

    def of_shards(self, function: Callable[[Arrays], NDArray[Any]]) -> NDArray[Any]:
        """Return the arrays that a function makes of each shard, one after the other."""
        return self.worker.joined([(function(self._pieces[shard]),) for shard in self.held])[0]

    def chosen(self, examples: NDArray[np.int64]) -> Arrays:
        """Return some examples of the whole sample, by their numbers in ascending order."""
        found: Arrays = {}
        for name, like in self.data.items():
            own = [
                _as_arrays(self._pieces[shard][name][self._own(examples, shard)])
                for shard in self.held
            ]
            found[name] = _from_arrays(self.worker.joined(own), like)
        return found

    def numbers_of(self, vector: NDArray[Any], examples: NDArray[np.int64]) -> NDArray[Any]:
        """Return those of some examples of the whole sample, of a vector with one for each here."""
        pieces = np.split(vector, self.worker.bounds(self._shards.n_shards)[1:-1])
        own = zip(pieces, self.held, strict=True)
        return self.worker.joined([(piece[self._own(examples, shard)],) for piece, shard in own])[0]

    def _own(self, examples: NDArray[np.int64], shard: int) -> NDArray[np.int64]:
        """Return those examples that are in a shard, by their numbers there."""
        rows = self._shards.rows_of(shard)
        first, last = np.searchsorted(examples, [rows.start, rows.stop])
        own: NDArray[np.int64] = examples[first:last] - rows.start
        return own

    def _run(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Call a function; return what it finds where the first shard is: one worker tells."""
        with placing(self.worker), thread_limit(self.n_threads), reusing(self._pool):
            found = function(self, *arguments)
        return self.worker.of_first(found)


def stacked(pieces: list[Any]) -> Any:
    """Return the rows of several pieces as one array or matrix."""
    if len(pieces) == 1:
        return pieces[0]
    if scipy.sparse.issparse(pieces[0]):
        return scipy.sparse.vstack(pieces, format="csr")
    return np.concatenate(pieces)


def _as_arrays(rows: NDArray[Any] | scipy.sparse.csr_array) -> tuple[NDArray[Any], ...]:
    """Return rows as arrays that can be joined with those of other shards."""
    if isinstance(rows, np.ndarray):
        return (rows,)
    return rows.data, rows.indices, np.diff(rows.indptr)


def _from_arrays(arrays: list[NDArray[Any]], like: Any) -> Any:
    if len(arrays) == 1:
        return arrays[0]
    data, indices, lengths = arrays
    starts = np.concatenate([[0], np.cumsum(lengths)])
    shape = (len(lengths), like.shape[1])
    return scipy.sparse.csr_array((data, indices, starts.astype(indices.dtype)), shape=shape)


def digests(holding: Holding) -> NDArray[np.uint8]:
    """Return digests of all shards, one row each, in their order."""
    return holding.of_shards(_digest)


def _digest(arrays: Arrays) -> NDArray[np.uint8]:
    parts = [name + fingerprint(arrays[name]) for name in sorted(arrays)]
    return np.frombuffer(sha256("".join(parts).encode()).digest(), dtype=np.uint8)[None]


@dataclass(eq=False)
class FarPoint(LibraryPoint):
    """The risk at ``w``, evaluated where the rows are.

    Attributes
    ----------
    w : ndarray
        The parameters.
    value : float
        The risk.
    offset : float or ndarray
        What is added to the scores, for targets shifted as on the workers.
    intercept : float or ndarray
        The best intercepts for these parameters; zero if the model has none.
    risk : risk, optional
        On the client, the one that it is a point of.
    touching : Plane, optional
        The plane, if it was asked for.
    """

    w: Vector
    value: float
    offset: Any = 0.0
    intercept: Any = 0.0
    risk: Risk | None = field(default=None, repr=False)
    touching: Plane | None = field(default=None, repr=False)

    def plane(self) -> Plane:
        """Return the plane that touches the risk here: the first time by another evaluation."""
        if self.touching is None:
            assert self.risk is not None
            self.touching = self.risk.at(self.w).plane()
        return self.touching


def far(point: Point, risk: Risk | None = None) -> FarPoint:
    """Return a point without what lies with the rows."""
    offset, intercept = getattr(point, "offset", 0.0), facts_at(point).intercept
    return FarPoint(point.w, float(point.value), offset, intercept, risk)


def without_rows(run: Run) -> Run:
    """Return a run without what lies with the rows: what it needs to go on from its best point."""
    nothing: Any = None
    point = run.best
    # The intercept may take a sum over all rows: who asks for it asks everywhere.
    best = FarPoint(point.w, float(point.value), getattr(point, "offset", 0.0))
    return replace(run, problem=nothing, method=nothing, own=None, best=best)


def with_problem(run: Run, problem: Problem, method: AnySolver) -> Run:
    """Return a run that has travelled, with its problem and its method."""
    best = far(run.best, problem.risk)
    run.bundle.metric = problem.quadratic  # a part of the problem, not a copy of it
    return replace(run, problem=problem, method=method, best=best)


_log = logging.getLogger("cutplane")

# More shards than this need more bookkeeping, and help no balance.
MOST_SHARDS = 64
# How often workers may be lost before a sample is given up.
_MOST_LOSSES = 100


class Place(NamedTuple):
    """A worker: what it is called in messages, and the connection to it."""

    name: str
    connection: Connection


class Places(Protocol):
    """Who can hold shards.

    Attributes
    ----------
    alike : bool
        Whether all that were opened last round alike.
    """

    alike: bool

    def open(self) -> Sequence[Place]:
        """Connect to all that are there now; those that were lost are not."""

    def lose(self, name: str, why: str) -> None:
        """Mark a worker as lost."""


class ShardedSample:
    """Examples whose rows lie on workers.

    Parameters
    ----------
    source : Source
        Where rows are read from.
    places : Places
        Who can hold them.
    n_shards : int
        A power of two: how many blocks the rows are cut into.
    patience : float
        Seconds without a sign of life after which a worker is lost.

    Attributes
    ----------
    losses : list of str
        Which workers were lost, with which shards, and why.
    """

    def __init__(
        self, source: Source, places: Places, *, n_shards: int, patience: float = 30.0
    ) -> None:
        self.source, self.n_shards = source, n_shards
        self._places, self._patience = places, patience
        self._name = uuid4().hex
        self._leader: Leader | None = None
        self._holders: dict[str, list[int]] = {}
        self.losses: list[str] = []

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function finds, called on all workers at once; again if one is lost."""
        while True:
            try:
                return self.ask_once(function, *arguments)
            except LostWorker:
                continue

    def ask_once(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        on_report: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Return what a function finds, called on all workers at once; LostWorker if one is lost.

        ``on_report`` answers what the function reports meanwhile (`Worker.reported`).
        """
        found = self._call("run", function, arguments, on_report=on_report)
        return next((each for each in found if each is not None), None)

    def left(self, name: str) -> Run | None:
        """Return what is left of a run that was ended by a loss; None if no worker has it."""
        while True:
            try:
                iterations = self._call("left", name)
                known = [-1 if each is None else each for each in iterations]
                if max(known) < 0:
                    return None
                latest = known.index(max(known))
                runs = self._call("left", name, each=[k == latest for k in range(len(known))])
                run: Run | None = runs[latest]
                return run
            except LostWorker:
                continue

    def _call(self, verb: str, *arguments: Any, **more: Any) -> list[Any]:
        """Call a verb on all workers."""
        try:
            leader = self._connected()
            try:
                return leader.call(verb, *arguments, **more)
            finally:
                if leader.closed:
                    self._leader = None
        except LostWorker as error:
            self._lose(error)
            raise

    @property
    def traffic(self) -> tuple[int, int]:
        """How often the present workers were called or sent sums, and how many bytes that took."""
        leader = self._leader
        return (0, 0) if leader is None else (leader.n_calls + leader.n_rounds, leader.n_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the workers go."""
        if self._leader is not None:
            self._leader.close()
            self._leader = None

    def _lose(self, error: LostWorker) -> None:
        name = list(self._holders)[error.number]
        held = self._holders.pop(name)
        self.losses.append(f"{name}, shards {held}: {error}")
        # As text: an error leads to all that it came through, and a log may be kept.
        _log.warning("lost worker %s with shards %s: %s", name, held, str(error))
        self._places.lose(name, f"{error}, with shards {held}")
        if len(self.losses) > _MOST_LOSSES:
            raise RuntimeError(f"workers were lost {len(self.losses)} times") from error

    def _connected(self) -> Leader:
        """Return the leader of workers that have all shards."""
        if self._leader is not None:
            return self._leader
        places = {place.name: place for place in self._places.open()}
        self._deal(list(places))
        leader = Leader(
            [places[name].connection for name in self._holders], patience=self._patience
        )
        try:
            there = leader.call("count", self._name)
            given = [self._given(*each) for each in zip(self._holders.values(), there, strict=True)]
            leader.call("load", self._name, self._places.alike, each=given)
        except BaseException:
            leader.close()
            raise
        self._leader = leader
        return leader

    def _given(
        self, held: Sequence[int], there: Container[int]
    ) -> tuple[Shards, dict[int, Recipe]]:
        """Return which shards a worker is to have, and how to read those that it has not."""
        shards = Shards(self.source.n_rows, self.n_shards, tuple(held))
        rows = {shard: shards.rows_of(shard) for shard in held if shard not in there}
        return shards, {
            shard: self.source.recipe(own.start, own.stop) for shard, own in rows.items()
        }

    def _deal(self, names: Sequence[str]) -> None:
        """Give the shards without a worker to the workers that have the fewest."""
        self._holders = {name: self._holders.get(name, []) for name in names}
        taken = {shard for held in self._holders.values() for shard in held}
        free = [shard for shard in range(self.n_shards) if shard not in taken]
        if len(free) == self.n_shards:  # neighbors together: fewer subtrees
            names = names[: self.n_shards]
            self._holders = {
                name: [
                    *range(k * self.n_shards // len(names), (k + 1) * self.n_shards // len(names))
                ]
                for k, name in enumerate(names)
            }
            return
        for shard in free:
            fewest = min(self._holders, key=lambda name: len(self._holders[name]))
            self._holders[fewest].append(shard)
        self._holders = {name: sorted(held) for name, held in self._holders.items() if held}
