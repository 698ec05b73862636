"""What a worker does: hold shards of a sample, and run functions of cutplane on them.

The client names functions and their arguments. All workers call them at the same time, each on its
own rows, with sums over the rows of all (`cutplane.cluster.allreduce`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from typing import Any, Protocol

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cutplane.cluster.allreduce import Link, Shards, Worker
from cutplane.cluster.runs import without_rows
from cutplane.compute.arrays import BufferPool, reusing
from cutplane.compute.blocks import placing
from cutplane.compute.threads import thread_limit
from cutplane.core.fingerprint import fingerprint
from cutplane.core.state import Run

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


@dataclass(frozen=True)
class ArrayRecipe:
    """Rows that travel with their recipe."""

    arrays: Arrays

    def read(self) -> Arrays:
        """Return the rows."""
        return dict(self.arrays)


@dataclass(frozen=True)
class ArraySource:
    """Rows of arrays: for small data, and for workers in one process."""

    arrays: Arrays

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.arrays["X"].shape[0])

    def recipe(self, begin: int, end: int) -> Recipe:
        """Return some of the rows."""
        return ArrayRecipe({name: array[begin:end] for name, array in self.arrays.items()})


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
        self._worker: Worker | None = None
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
    ) -> int:
        """Read the shards that are not here yet; forget all others. Return the bytes of all."""
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
        self._worker = Worker(shards, link, alike=alike)
        self.held, self._shards = shards.held, shards
        n_here = self.data["X"].shape[0]
        if n_here != self._worker.n_here:
            raise ValueError(f"{n_here} rows were read in place of {self._worker.n_here}")
        return sum(_bytes(array) for array in self.data.values())

    def joined(self, parts: Sequence[tuple[Any, ...]]) -> list[NDArray[Any]]:
        """Return the arrays of all shards of all workers, place by place, in their order."""
        assert self._worker is not None
        return self._worker.joined(parts)

    def shards(self) -> list[Arrays]:
        """Return the rows of each shard here."""
        return [self._pieces[shard] for shard in self.held]

    def total(self, sums: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return the sums over all shards of all workers, place by place; one tuple a shard."""
        assert self._worker is not None
        return self._worker.total(sums)

    def of_shards(self, function: Callable[[Arrays], NDArray[Any]]) -> NDArray[Any]:
        """Return the arrays that a function makes of each shard, one after the other."""
        return self.joined([(function(self._pieces[shard]),) for shard in self.held])[0]

    def chosen(self, examples: NDArray[np.int64]) -> Arrays:
        """Return some examples of the whole sample, by their numbers in ascending order."""
        parts: dict[str, list[tuple[Any, ...]]] = {name: [] for name in self.data}
        for shard in self.held:
            rows = self._shards.rows_of(shard)
            first, last = np.searchsorted(examples, [rows.start, rows.stop])
            own = examples[first:last] - rows.start
            for name, array in self._pieces[shard].items():
                parts[name].append(_as_arrays(array[own]))
        found = {name: self.joined(part) for name, part in parts.items()}
        return {name: _from_arrays(found[name], self.data[name]) for name in found}

    def numbers_of(self, vector: NDArray[Any], examples: NDArray[np.int64]) -> NDArray[Any]:
        """Return those of some examples of the whole sample, of a vector with one for each here."""
        parts, begin = [], 0
        for shard in self.held:
            rows = self._shards.rows_of(shard)
            first, last = np.searchsorted(examples, [rows.start, rows.stop])
            parts.append((vector[begin + examples[first:last] - rows.start],))
            begin += rows.stop - rows.start
        return self.joined(parts)[0]

    def report(self, content: Any) -> Any:
        """Send a report to the client; return its answer."""
        assert self._worker is not None
        return self._worker.reported(content)

    @property
    def is_first(self) -> bool:
        """Whether this worker has the first shard, and so speaks for all of them."""
        return 0 in self.held

    def _run(self, function: str, arguments: Sequence[Any]) -> Any:
        """Call a function of cutplane; return what it finds, or None: one worker tells."""
        with placing(self._worker), thread_limit(self.n_threads), reusing(self._pool):
            found = function_named(function)(self, *arguments)
        return found if self.is_first else None


def function_named(name: str) -> Callable[..., Any]:
    """Return a function of cutplane by the names of its module and its own."""
    module, _, own = name.partition(":")
    if not module.startswith("cutplane."):
        raise ValueError(f"{name} is not a function of cutplane")
    found: Callable[..., Any] = getattr(import_module(module), own)
    return found


def name_of(function: Callable[..., Any]) -> str:
    """Return the name by which workers find a function."""
    return f"{function.__module__}:{function.__qualname__}"


def stacked(pieces: list[Any]) -> Any:
    """Return the rows of several pieces as one array or matrix."""
    if len(pieces) == 1:
        return pieces[0]
    if scipy.sparse.issparse(pieces[0]):
        return scipy.sparse.vstack(pieces, format="csr")
    return np.concatenate(pieces)


def _as_arrays(rows: Any) -> tuple[NDArray[Any], ...]:
    """Return rows as arrays that can be joined with those of other shards."""
    if scipy.sparse.issparse(rows):
        return rows.data, rows.indices, np.diff(rows.indptr)
    return (rows,)


def _from_arrays(arrays: list[NDArray[Any]], like: Any) -> Any:
    if len(arrays) == 1:
        return arrays[0]
    data, indices, lengths = arrays
    starts = np.concatenate([[0], np.cumsum(lengths)])
    shape = (len(lengths), like.shape[1])
    return scipy.sparse.csr_array((data, indices, starts.astype(indices.dtype)), shape=shape)


def _bytes(array: Any) -> int:
    if scipy.sparse.issparse(array):
        return int(array.data.nbytes + array.indices.nbytes + array.indptr.nbytes)
    return int(array.nbytes)


def digests(holding: Holding) -> NDArray[np.uint8]:
    """Return digests of all shards, one row each, in their order."""
    return holding.of_shards(_digest)


def _digest(arrays: Arrays) -> NDArray[np.uint8]:
    parts = [name + fingerprint(arrays[name]) for name in sorted(arrays)]
    return np.frombuffer(sha256("".join(parts).encode()).digest(), dtype=np.uint8)[None]
