"""The workers of a Dask cluster as places for shards.

An actor on each holds shards, and answers one leader. Dask starts it, frees it when its client is
gone, and computes the partitions that shards are cut from. What is said between leader and worker
goes over a connection of its own: a sum over two workers takes a fraction of a millisecond there, a
call of an actor several milliseconds. A connection needs a key that only the leader gets,
by way of Dask.

The command line has a client for a scheduler that runs, or for workers on this machine.
"""

from __future__ import annotations

import ctypes
import logging
import os
import secrets
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing.connection import Client as connect
from multiprocessing.connection import Connection, Listener
from typing import Any, NamedTuple, TypeVar

import cloudpickle
import llvmlite.binding
import numba
import numpy as np
import scipy.sparse
from dask import compute, delayed
from distributed import Client, LocalCluster, default_client, get_client, get_worker
from distributed.comm import get_address_host
from numpy.typing import NDArray

from cutplane import __version__
from cutplane.cluster.allreduce import serve
from cutplane.cluster.sample import Arrays, Holding, Place, stacked
from cutplane.core.interrupts import at_once

T = TypeVar("T")


class Waits(NamedTuple):
    """How long is waited for others, in seconds.

    Attributes
    ----------
    least_patience : float
        A worker may be silent for, at least, until there is a connection to it.
    longest_start : float
        Until then, at most, while its heart beats: it imports cutplane, where others work too.
    least_wait : float
        For a worker if there is none, at least: a new one must be started.
    lost_patience : float
        One which was lost may be silent for, when it is tried again.
    look : float
        Between two looks at which workers there are.
    partition : float
        Between two looks at whether a partition that is computed can still be had.
    scheduler : float
        A scheduler has to answer.
    """

    least_patience: float = 30.0
    longest_start: float = 300.0
    least_wait: float = 60.0
    lost_patience: float = 5.0
    look: float = 0.5
    partition: float = 5.0
    scheduler: float = 10.0


WAITS = Waits()


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
        # No leader may come: then the wait ends.
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
        except Exception:  # closed, or a connection without the key
            return
        serve(connection, self._holding.serve)


def _keep_freed_memory() -> None:
    """Let the allocator of C keep memory for arrays to come, as it does outside of workers.

    Dask tells it to give memory back at once (MALLOC_TRIM_THRESHOLD_). With that set, every array
    of 128 kB or more is requested from the system again, page by page, which cost workers as much
    time as all that they computed.
    """
    with suppress(OSError, AttributeError):  # another system, or another allocator
        mallopt = ctypes.CDLL(None).mallopt
        # From how many bytes on it asks the system for each array, and how many it keeps at the end
        # of its memory: the numbers are those that it comes to by itself.
        m_mmap_threshold, m_trim_threshold = -3, -1
        mallopt(m_mmap_threshold, 1 << 25)
        mallopt(m_trim_threshold, 1 << 26)


def _close(listener: Listener) -> None:
    with suppress(OSError):
        listener.close()


def in_background(act: Callable[[], T]) -> Future[T]:
    """Begin an act that may wait for ever, and return what it will find.

    A caller that gives up leaves it alone. What waits for Dask must not be cut short: fetching
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
    while not wait([found], timeout=WAITS.partition).done:
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


_log = logging.getLogger("cutplane")


class ClusterError(RuntimeError):
    """A cluster cannot do what is asked of it."""


class UnlikeWorkersWarning(UserWarning):
    """Workers differ in what the last bits of a result depend on."""


def client_in_use() -> Client:
    """Return the client that was made last, or say that there is none."""
    try:
        found: Client = default_client()
        return found
    except ValueError:
        raise ClusterError(
            "Dask collections are fitted on a cluster: make a distributed.Client first"
        ) from None


def computed(tasks: Sequence[Any]) -> list[Any]:
    """Return what Dask computes, unless there is no worker to do it."""
    client = client_in_use()
    futures = client.compute(list(tasks))
    found = in_background(lambda: client.gather(futures))
    seen = time.monotonic()
    while not _done([found]):
        if known_workers(client, WAITS.least_patience):
            seen = time.monotonic()
        if time.monotonic() - seen > WAITS.least_wait:
            raise ClusterError(f"no worker is there, and none came within {WAITS.least_wait:g} s")
    if any(future.cancelled() for future in futures):
        raise ClusterError("the scheduler is gone (what it computed is cancelled)")
    return list(found.result())


def _done(begun: Iterable[Future[Any]]) -> set[Future[Any]]:
    """Wait until one of the futures is done, but not for long; return those that are."""
    with at_once():
        return wait(begun, timeout=WAITS.look, return_when=FIRST_COMPLETED).done


def known_workers(client: Client, patience: float) -> dict[str, Any]:
    """Return what the scheduler says of its workers, by their addresses."""
    # Not `scheduler_info`: what that returns is reset, without workers, from time to time.
    try:
        if client.status != "running":
            raise OSError(f"client {client.status}")
        info = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=patience)
    except (TimeoutError, OSError) as error:
        raise ClusterError(f"the scheduler is gone ({str(error) or 'no answer'})") from error
    return dict(info["workers"])


class _Known(NamedTuple):
    """A worker that the scheduler knows; one that is started again has another directory."""

    name: str
    directory: str
    n_threads: int


class DaskWorkers:
    """The workers that a client of Dask knows.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    workers : sequence of str, optional
        Addresses of those to use; all by default.
    patience : float
        Seconds that a worker may be silent for, 30 at least; and that are waited for one if there
        is none, 60 at least.

    Attributes
    ----------
    alike : bool
        Whether all that were opened last round alike.
    """

    def __init__(
        self, client: Client, *, workers: Sequence[str] | None = None, patience: float = 30.0
    ) -> None:
        self._client, self._chosen = client, workers
        self._patience = max(patience, WAITS.least_patience)
        self._wait = max(patience, WAITS.least_wait)
        self._actors: dict[_Known, Any] = {}
        self._kinds: dict[str, Kind] = {}
        self._open_now: dict[str, _Known] = {}
        self._lost: dict[_Known, str] = {}
        self.alike = True

    def open(self) -> Sequence[Place]:
        """Connect to all workers that are there now, but for those that were lost.

        If there is none, wait for one that is started, or that was lost and answers again.
        """
        places = self._new_places(time.monotonic() + max(self._patience, WAITS.longest_start))
        deadline = time.monotonic() + self._wait
        if not places:
            _log.warning("no worker is there: waiting %g s for one", self._wait)
        while not places and time.monotonic() < deadline:
            with at_once():
                time.sleep(WAITS.look)
            places = self._new_places(deadline)
            if not places:
                places = self._connected(
                    self._workers(), patience=WAITS.lost_patience, deadline=deadline
                )
        if not places:
            reasons = "; ".join(f"{each.name}: {why}" for each, why in self._lost.items())
            raise ClusterError(
                f"no worker is left, and none came within {self._wait:g} s "
                f"({reasons or 'there was none'})"
            )
        self._compare([place.name for place in places])
        return places

    def _new_places(self, deadline: float) -> list[Place]:
        """Connect to all workers but those that were lost."""
        new = [each for each in self._workers() if each not in self._lost]
        return self._connected(new, patience=self._patience, deadline=deadline)

    def lose(self, name: str, why: str) -> None:
        """Mark a worker as lost."""
        self._lose(self._open_now[name], why)

    def _lose(self, worker: _Known, why: str) -> None:
        self._lost[worker] = why
        self._actors.pop(worker, None)

    def _workers(self) -> dict[_Known, float]:
        """Return the workers that may be used, in the order of their addresses.

        Each with the time of its last heartbeat, by the scheduler's clock.
        """
        known = known_workers(self._client, self._patience)
        return {
            _Known(name, each["local_directory"], each["nthreads"]): each["last_seen"]
            for name, each in sorted(known.items())
            if self._chosen is None or name in self._chosen
        }

    def _connected(
        self, workers: Iterable[_Known], *, patience: float, deadline: float
    ) -> list[Place]:
        """Connect to those of some workers that answer.

        One that is slow is waited for while its heart beats: the first time it imports cutplane.
        A worker silent for longer than the patience is considered lost.
        """
        begun = {in_background(partial(self._connect, worker)): worker for worker in workers}
        beats = {worker: (0.0, time.monotonic()) for worker in begun.values()}
        places = {}
        while begun:
            for attempt in _done(begun):
                worker = begun.pop(attempt)
                if place := self._arrived(worker, attempt):
                    places[worker] = place
            known, now = self._workers() if begun else {}, time.monotonic()
            for attempt, worker in list(begun.items()):
                if known.get(worker, 0.0) != beats[worker][0]:
                    beats[worker] = known.get(worker, 0.0), now
                if worker not in known:
                    why = "Dask has given it up"
                elif now - beats[worker][1] > patience:
                    why = f"nothing heard for {patience:g} s"
                elif now > deadline:
                    why = "no answer"
                else:
                    continue
                del begun[attempt]
                self._refuse(worker, why)
        return [places[worker] for worker in beats if worker in places]

    def _connect(self, worker: _Known) -> tuple[Any, Kind, Connection]:
        """Return the actor on a worker, its kind, and a connection to it."""
        key = secrets.token_bytes(32)
        held = self._actors.get(worker)
        if held is None:
            future = self._client.submit(
                ShardActor,
                worker.n_threads,
                actor=True,
                workers=[worker.name],
                pure=False,
                retries=0,
            )
            held = future, future.result()
        kind = Kind(*held[1].kind().result())
        address = held[1].listen(key, self._patience).result()
        return held, kind, connect(tuple(address), authkey=key)

    def _arrived(self, worker: _Known, attempt: Future[Any]) -> Place | None:
        """Return the place that an attempt to connect has led to; None if it failed."""
        try:
            self._actors[worker], self._kinds[worker.name], connection = attempt.result()
        except Exception as error:  # whatever Dask raises for a worker that is gone
            self._refuse(worker, str(error) or type(error).__name__)
            return None
        self._lost.pop(worker, None)
        self._open_now[worker.name] = worker
        return Place(worker.name, connection)

    def _refuse(self, worker: _Known, why: str) -> None:
        if worker not in self._lost:
            _log.warning("worker %s cannot be used: %s", worker.name, why)
        self._lose(worker, why)

    def _compare(self, names: Sequence[str]) -> None:
        """Refuse workers with another cutplane, and warn of others that differ."""
        own = Kind.here()
        kinds = {name: self._kinds[name] for name in names}
        for name, kind in kinds.items():
            if kind.cutplane != own.cutplane:
                raise ClusterError(
                    f"worker {name} has cutplane {kind.cutplane}, the client {own.cutplane}"
                )
        several = [
            f"{what} {', '.join(sorted(found))}"
            for what in Kind._fields
            if len(found := {getattr(kind, what) for kind in kinds.values()}) > 1
        ]
        self.alike = not several
        if several:
            warnings.warn(
                f"workers are not alike ({'; '.join(several)}): the last bits of a result depend "
                "on which of them has which rows",
                UnlikeWorkersWarning,
                stacklevel=2,
            )


@contextmanager
def client_at(address: str) -> Iterator[Client]:
    """Connect to a scheduler, and leave it at the end.

    Parameters
    ----------
    address : str
        Such as ``tcp://10.0.0.1:8786``.
    """
    log = logging.getLogger("distributed")
    before = log.level
    log.setLevel(logging.CRITICAL)  # what goes wrong is said by errors
    try:
        try:
            client = Client(address, timeout=WAITS.scheduler)
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterError(f"no scheduler answers at {address}") from error
        with client:
            yield client
    finally:
        log.setLevel(before)


@contextmanager
def local_client(n_workers: int) -> Iterator[Client]:
    """Start workers on this machine, which share its processors, and end them at the end.

    Parameters
    ----------
    n_workers : int
        How many processes.
    """
    n_threads = max((os.cpu_count() or 1) // n_workers, 1)
    with (
        _started(n_workers, n_threads) as cluster,
        client_at(cluster.scheduler_address) as client,
    ):
        yield client


def _started(n_workers: int, n_threads: int) -> LocalCluster:
    """Start workers that Ctrl-C does not end: it is for the leader, who needs them once more."""
    in_main = threading.current_thread() is threading.main_thread()
    # What is ignored here, processes that are started here ignore too.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main else None
    try:
        return LocalCluster(
            n_workers=n_workers,
            threads_per_worker=n_threads,
            processes=True,
            dashboard_address=":0",  # another cluster may run on this machine
            silence_logs=logging.CRITICAL,
        )
    finally:
        if in_main:
            signal.signal(signal.SIGINT, before)
