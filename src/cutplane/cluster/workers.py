"""The workers of a Dask cluster as places for shards."""

from __future__ import annotations

import logging
import secrets
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Client as connect
from typing import Any, NamedTuple

from distributed import Client, default_client, wait

from cutplane.cluster.seat import Kind, Seat, within
from cutplane.core.interrupts import at_once
from cutplane.risks.shards.sample import Place

_log = logging.getLogger("cutplane")

# Seconds that a worker has to begin, whatever it may be silent for later: it imports cutplane.
_LEAST_PATIENCE = 30.0
# Seconds that are waited for a worker if there is none, at least: a new one must be started.
_LEAST_WAIT = 60.0
# Seconds between two looks at which workers there are.
_LOOK = 0.5
# Seconds that one which was lost has to answer again, while no other is there.
_SHORT = 2.0


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
    alone = 0.0
    while not all(future.done() for future in futures):
        with at_once(), suppress(TimeoutError):
            wait(futures, timeout=_LOOK)
        alone = 0.0 if known_workers(client, _LEAST_PATIENCE) else alone + _LOOK
        if alone > _LEAST_WAIT:
            raise ClusterError(f"no worker is there, and none came within {_LEAST_WAIT:g} s")
    return [future.result() for future in futures]


def known_workers(client: Client, patience: float) -> dict[str, Any]:
    """Return what the scheduler says of its workers, by their addresses."""
    # Not `scheduler_info`: what that returns is set anew, without workers, from time to time.
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
        Seconds that a worker has for an answer, 30 at least; and that are waited for one if there
        is none, 60 at least.
    """

    def __init__(
        self, client: Client, *, workers: Sequence[str] | None = None, patience: float = 30.0
    ) -> None:
        self._client, self._chosen = client, workers
        self._patience = max(patience, _LEAST_PATIENCE)
        self._wait = max(patience, _LEAST_WAIT)
        self._seats: dict[_Known, Any] = {}
        self._kinds: dict[str, Kind] = {}
        self._open_now: dict[str, _Known] = {}
        self._lost: dict[_Known, str] = {}

    def open(self) -> Sequence[Place]:
        """Connect to all workers that are there now, but for those that were lost.

        If there is none, wait for one that is started, or that was lost and answers again.
        """
        deadline = time.monotonic() + self._wait
        places = self._connected([each for each in self._workers() if each not in self._lost])
        if not places:
            _log.warning("no worker is there: waiting %g s for one", self._wait)
        while not places and time.monotonic() < deadline:
            with at_once():
                time.sleep(_LOOK)
            known = self._workers()
            places = self._connected([each for each in known if each not in self._lost])
            places = places or self._connected(known, patience=_SHORT)
        if not places:
            told = "; ".join(f"{each.name}: {why}" for each, why in self._lost.items())
            raise ClusterError(
                f"no worker is left, and none came within {self._wait:g} s "
                f"({told or 'there was none'})"
            )
        self._compare([place.name for place in places])
        return places

    def lose(self, name: str, why: str) -> None:
        """Hear that a worker is lost."""
        self._lose(self._open_now[name], why)

    def _lose(self, worker: _Known, why: str) -> None:
        self._lost[worker] = why
        self._seats.pop(worker, None)

    def _workers(self) -> list[_Known]:
        """Return the workers that may be used, in the order of their addresses."""
        known = known_workers(self._client, self._patience)
        return [
            _Known(name, each["local_directory"], each["nthreads"])
            for name, each in sorted(known.items())
            if self._chosen is None or name in self._chosen
        ]

    def _connected(self, workers: Sequence[_Known], patience: float | None = None) -> list[Place]:
        """Connect to those of some workers that answer."""
        if not workers:
            return []
        patience = self._patience if patience is None else patience
        with ThreadPoolExecutor(len(workers)) as pool:
            opened = list(pool.map(lambda worker: self._open(worker, patience), workers))
        return [place for place in opened if place is not None]

    def _open(self, worker: _Known, patience: float) -> Place | None:
        """Connect to a worker; None if it does not answer."""
        key = secrets.token_bytes(32)
        deadline = time.monotonic() + patience
        try:
            if worker not in self._seats:
                future = self._client.submit(
                    Seat, worker.n_threads, actor=True, workers=[worker.name], pure=False, retries=0
                )
                self._seats[worker] = (future, self._heard(future, worker, deadline))
            seat = self._seats[worker][1]
            self._kinds[worker.name] = Kind(*self._heard(seat.kind(), worker, deadline))
            address = self._heard(seat.listen(key, self._patience), worker, deadline)
            connection = within(self._patience, lambda: connect(tuple(address), authkey=key))
        except Exception as error:  # whatever Dask raises for a worker that is gone
            if worker not in self._lost:
                _log.warning("worker %s cannot be used: %s", worker.name, str(error))
            self._lose(worker, str(error) or type(error).__name__)
            return None
        self._lost.pop(worker, None)
        self._open_now[worker.name] = worker
        return Place(worker.name, connection)

    def _heard(self, future: Any, worker: _Known, deadline: float) -> Any:
        """Return what a worker answers, unless Dask gives it up first, or there is no answer."""
        while True:
            try:
                return future.result(timeout=min(_LOOK, max(deadline - time.monotonic(), 0.01)))
            except TimeoutError:
                if time.monotonic() >= deadline:
                    raise TimeoutError("no answer") from None
                if worker not in self._workers():
                    raise ConnectionError("Dask has given it up") from None

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
        if several:
            warnings.warn(
                f"workers are not alike ({'; '.join(several)}): the last bits of a result depend "
                "on which of them has which rows",
                UnlikeWorkersWarning,
                stacklevel=2,
            )
