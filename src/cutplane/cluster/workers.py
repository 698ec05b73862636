"""The workers of a Dask cluster as places for shards."""

from __future__ import annotations

import logging
import secrets
import time
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from multiprocessing.connection import Client as connect
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from distributed import Client, default_client

from cutplane.cluster.actor import Kind, ShardActor, in_background
from cutplane.cluster.sample import Place
from cutplane.core.interrupts import at_once

_log = logging.getLogger("cutplane")

# Seconds that a worker may be silent for, at least, until there is a connection to it.
_LEAST_PATIENCE = 30.0
# Seconds until then, at most, while its heart beats: it imports cutplane, where others work too.
_LONGEST_START = 300.0
# Seconds that are waited for a worker if there is none, at least: a new one must be started.
_LEAST_WAIT = 60.0
# Seconds between two looks at which workers there are.
_LOOK = 0.5
# Seconds that one which was lost may be silent for, when it is tried again.
_SHORT = 5.0


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
        if known_workers(client, _LEAST_PATIENCE):
            seen = time.monotonic()
        if time.monotonic() - seen > _LEAST_WAIT:
            raise ClusterError(f"no worker is there, and none came within {_LEAST_WAIT:g} s")
    if any(future.cancelled() for future in futures):
        raise ClusterError("the scheduler is gone (what it computed is cancelled)")
    return list(found.result())


def _done(begun: Iterable[Future[Any]]) -> set[Future[Any]]:
    """Wait until something that was begun is done, but not for long; return what is."""
    with at_once():
        return wait(begun, timeout=_LOOK, return_when=FIRST_COMPLETED).done


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
        self._patience = max(patience, _LEAST_PATIENCE)
        self._wait = max(patience, _LEAST_WAIT)
        self._actors: dict[_Known, Any] = {}
        self._kinds: dict[str, Kind] = {}
        self._open_now: dict[str, _Known] = {}
        self._lost: dict[_Known, str] = {}
        self.alike = True

    def open(self) -> Sequence[Place]:
        """Connect to all workers that are there now, but for those that were lost.

        If there is none, wait for one that is started, or that was lost and answers again.
        """
        places = self._new_places(time.monotonic() + max(self._patience, _LONGEST_START))
        deadline = time.monotonic() + self._wait
        if not places:
            _log.warning("no worker is there: waiting %g s for one", self._wait)
        while not places and time.monotonic() < deadline:
            with at_once():
                time.sleep(_LOOK)
            places = self._new_places(deadline)
            if not places:
                places = self._connected(self._workers(), patience=_SHORT, deadline=deadline)
        if not places:
            told = "; ".join(f"{each.name}: {why}" for each, why in self._lost.items())
            raise ClusterError(
                f"no worker is left, and none came within {self._wait:g} s "
                f"({told or 'there was none'})"
            )
        self._compare([place.name for place in places])
        return places

    def _new_places(self, deadline: float) -> list[Place]:
        """Connect to all workers but those that were lost."""
        new = [each for each in self._workers() if each not in self._lost]
        return self._connected(new, patience=self._patience, deadline=deadline)

    def lose(self, name: str, why: str) -> None:
        """Take notice that a worker is lost."""
        self._lose(self._open_now[name], why)

    def _lose(self, worker: _Known, why: str) -> None:
        self._lost[worker] = why
        self._actors.pop(worker, None)

    def _workers(self) -> dict[_Known, float]:
        """Return the workers that may be used, in the order of their addresses.

        Each with when the scheduler has heard of it last, by the scheduler's clock.
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
        One of which Dask hears nothing for as long as the patience is lost.
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
