"""Examples whose rows lie on workers, in shards.

When a worker is lost, its shards are read again by the others. Whatever was asked for meanwhile is
asked once more; a run goes on from its best point and its planes (`cutplane.cluster.minimize`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol, Self
from uuid import uuid4

from cutplane.cluster.allreduce import Leader, LostWorker, Shards
from cutplane.cluster.holding import Recipe, Source, name_of
from cutplane.core.state import Run

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
        """Take notice that one is lost."""


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
        hear: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Return what a function finds, called on all workers at once; LostWorker if one is lost.

        ``hear`` answers what the function reports meanwhile (`Holding.report`).
        """
        found = self._call("run", name_of(function), arguments, hear=hear)
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
        """Give the shards that nobody has to those who have the fewest."""
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
