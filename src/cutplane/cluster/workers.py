"""The workers of a Dask cluster as places for shards."""

from __future__ import annotations

import logging
import secrets
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Client as connect
from typing import Any

from distributed import Client

from cutplane.cluster.seat import Kind, Seat, within
from cutplane.risks.shards.sample import Place

_log = logging.getLogger("cutplane")

# Seconds that a worker has to begin, whatever it may be silent for later: it imports cutplane.
_LEAST_PATIENCE = 30.0


class ClusterError(RuntimeError):
    """A cluster cannot do what is asked of it."""


class UnlikeWorkersWarning(UserWarning):
    """Workers differ in what the last bits of a result depend on."""


class DaskWorkers:
    """The workers that a client of Dask knows.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    workers : sequence of str, optional
        Addresses of those to use; all by default.
    patience : float
        Seconds that a worker has for an answer; 30 at least.
    """

    def __init__(
        self, client: Client, *, workers: Sequence[str] | None = None, patience: float = 30.0
    ) -> None:
        self._client, self._chosen = client, workers
        self._patience = max(patience, _LEAST_PATIENCE)
        self._seats: dict[str, Any] = {}
        self._kinds: dict[str, Kind] = {}
        self._lost: dict[str, str] = {}

    def open(self) -> Sequence[Place]:
        """Connect to all workers that are there now, but for those that were lost."""
        known = self._workers()
        names = [
            name
            for name in known
            if name not in self._lost and (self._chosen is None or name in self._chosen)
        ]
        with ThreadPoolExecutor(max(len(names), 1)) as pool:
            opened = pool.map(lambda name: self._open(name, known[name]["nthreads"]), names)
            places = [place for place in opened if place is not None]
        if not places:
            told = "; ".join(f"{name}: {why}" for name, why in self._lost.items())
            raise ClusterError(f"no worker is left ({told or 'there was none'})")
        self._compare([place.name for place in places])
        return places

    def lose(self, name: str, why: str) -> None:
        """Hear that a worker is lost."""
        self._lost[name] = why
        self._seats.pop(name, None)

    def _workers(self) -> dict[str, Any]:
        if self._client.status != "running":
            raise ClusterError(f"the scheduler is gone (client {self._client.status})")
        try:
            info = within(self._patience, lambda: self._client.scheduler_info(n_workers=-1))
        except (TimeoutError, OSError) as error:
            raise ClusterError(f"the scheduler does not answer: {error}") from error
        return dict(info["workers"])

    def _open(self, name: str, n_threads: int) -> Place | None:
        """Connect to a worker; None if it does not answer."""
        key = secrets.token_bytes(32)
        try:
            if name not in self._seats:
                future = self._client.submit(
                    Seat, n_threads, actor=True, workers=[name], pure=False, retries=0
                )
                self._seats[name] = (future, future.result(timeout=self._patience))
            seat = self._seats[name][1]
            self._kinds[name] = Kind(*seat.kind().result(self._patience))
            address = seat.listen(key, self._patience).result(timeout=self._patience)
            connection = within(self._patience, lambda: connect(tuple(address), authkey=key))
        except Exception as error:  # whatever Dask raises for a worker that is gone
            _log.warning("worker %s cannot be used: %s", name, error)
            self.lose(name, str(error) or type(error).__name__)
            return None
        return Place(name, connection)

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
