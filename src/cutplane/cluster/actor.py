"""What runs on a Dask worker: an actor that holds shards, and answers one leader.

Dask starts it, frees it when its client is gone, and computes the partitions that shards are cut
from. What is said between leader and worker goes over a connection of its own: a sum over two
workers takes a fraction of a millisecond there, a call of an actor several milliseconds. Whoever
connects must know a key that only the leader was told, by way of Dask.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, Listener
from typing import Any, NamedTuple, TypeVar

import cloudpickle
import llvmlite.binding
import numba
import numpy as np
import scipy.sparse
from dask import compute, delayed
from distributed import Client, get_client, get_worker
from distributed.comm import get_address_host
from numpy.typing import NDArray

from cutplane import __version__
from cutplane.cluster.allreduce import serve
from cutplane.cluster.holding import Arrays, Holding, stacked

T = TypeVar("T")

# Parameters of glibc's allocator: from how many bytes on it asks the system for each array, and how
# many it keeps at the end of its memory. The numbers are those that it comes to by itself.
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1

# Seconds between two looks at whether a partition that is computed can still be had.
_LOOK = 5.0


class Kind(NamedTuple):
    """What results depend on: who differs in it computes other bits, or cannot work together."""

    cutplane: str
    numpy: str
    numba: str
    processor: str

    @classmethod
    def here(cls) -> Kind:
        """Return that of this process."""
        chosen = os.environ.get("NUMBA_CPU_NAME") or llvmlite.binding.get_host_cpu_name()
        return cls(__version__, np.__version__, numba.__version__, chosen)


class _Place(NamedTuple):
    client: Client
    address: str


_place: ContextVar[_Place] = ContextVar("worker of a shard")


class ShardActor:
    """The actor.

    Parameters
    ----------
    n_threads : int
        How many threads its products may use; what the environment of a worker says is not asked.
    """

    def __init__(self, n_threads: int) -> None:
        _keep_freed_memory()
        self._holding = Holding(n_threads)
        self._place = _Place(get_client(), get_worker().address)
        self._listener: Listener | None = None

    def kind(self) -> Kind:
        """Return what is installed here, on which processor."""
        return Kind.here()

    def listen(self, key: bytes, patience: float) -> tuple[str, int]:
        """Wait for a leader who knows the key; return where."""
        self.leave()
        host = get_address_host(self._place.address)
        if self._place.address.startswith("inproc"):
            host = "127.0.0.1"
        listener = self._listener = Listener((host, 0), authkey=key)
        threading.Thread(
            target=self._answer, args=(listener,), daemon=True, name="cutplane worker"
        ).start()
        # Nobody may come: then nobody waits for ever.
        closing = threading.Timer(patience, _close, [listener])
        closing.daemon = True
        closing.start()
        where, port = listener.address
        return str(where), int(port)

    def leave(self) -> None:
        """Wait no longer."""
        if self._listener is not None:
            _close(self._listener)
            self._listener = None

    def _answer(self, listener: Listener) -> None:
        _place.set(self._place)
        try:
            connection: Connection = listener.accept()
        except Exception:  # closed, or somebody without the key
            return
        serve(connection, self._holding.serve)


def _keep_freed_memory() -> None:
    """Let the allocator of C keep memory for arrays to come, as it does outside of workers.

    Dask tells it to give memory back at once (MALLOC_TRIM_THRESHOLD_). With that set, every array
    of 128 kB or more is asked of the system anew, page by page, which cost workers as much time as
    all that they computed.
    """
    with suppress(OSError, AttributeError):  # another system, or another allocator
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, n_bytes in (_MMAP_THRESHOLD, 1 << 25), (_TRIM_THRESHOLD, 1 << 26):
            mallopt(parameter, n_bytes)


def _close(listener: Listener) -> None:
    with suppress(OSError):
        listener.close()


def in_background(act: Callable[[], T]) -> Future[T]:
    """Begin an act that may wait for ever, and return what it will find.

    Whoever will wait no longer leaves it alone. What waits for Dask must not be cut short: fetching
    results is shared by the threads of a client, and when one gives up, Dask cancels it for the
    others too, and sometimes for good.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(act())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="cutplane waiting").start()
    return future


@dataclass(frozen=True)
class PartitionRecipe:
    """Rows that are cut from partitions of Dask collections.

    Partitions are computed on the worker itself, from where their graph begins: files, as a rule.
    Those that are held in the memory of the cluster already are fetched from there.

    Attributes
    ----------
    pieces : bytes
        By name, the partitions and which of their rows: as cloudpickle writes them.
    held : bool
        Whether some of them are in the memory of the cluster.
    """

    pieces: bytes
    held: bool

    def read(self) -> Arrays:
        """Return the rows, as arrays by name."""
        place = _place.get()
        with place.client.as_current():
            pieces: dict[str, Sequence[tuple[Any, int, int]]] = cloudpickle.loads(self.pieces)
            found = {}
            for name, parts in pieces.items():
                cuts = [delayed(_cut)(name, *piece) for piece in parts]
                if self.held:
                    futures = place.client.compute(
                        cuts, workers=[place.address], allow_other_workers=False
                    )
                    found[name] = _results(place.client, futures)
                else:
                    found[name] = list(compute(*cuts, scheduler="threads", num_workers=1))
        return {name: stacked(parts) for name, parts in found.items()}


def _results(client: Client, futures: Sequence[Any]) -> list[Any]:
    """Return what a client computes, unless it has lost its scheduler."""
    found = in_background(lambda: client.gather(futures))
    while not wait([found], timeout=_LOOK).done:
        if client.status != "running":
            raise RuntimeError("the scheduler is gone")
    if any(future.cancelled() for future in futures):
        raise RuntimeError("the scheduler is gone")
    return list(found.result())


def _cut(name: str, partition: Any, begin: int, end: int) -> Any:
    """Return some rows of a partition, as the risks take them."""
    if not hasattr(partition, "shape"):  # that of a bag
        items = [*islice(partition, begin, end)]
        found = np.empty(len(items), dtype=object)
        for place, item in enumerate(items):
            found[place] = item
        return found if name != "weights" else found.astype(np.float64)
    rows = partition[begin:end] if not hasattr(partition, "iloc") else partition.iloc[begin:end]
    if scipy.sparse.issparse(rows):
        rows = rows.tocsr()
        _require_finite(name, rows.data)
        return rows
    array: NDArray[Any] = np.asarray(rows)
    if name == "X":
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
        array = np.ascontiguousarray(array)
    elif name == "weights":
        array = np.asarray(array, dtype=np.float64)
    if array.dtype.kind == "f":
        _require_finite(name, array)
    return array


def _require_finite(name: str, numbers: NDArray[Any]) -> None:
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} has a value that is missing or infinite")
