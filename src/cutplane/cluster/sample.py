"""Examples whose rows lie elsewhere: in shards, on the members of a team.

What members make of them, such as the scores at a point, stays with them. Here is only how it was
made: a `Step`, a function and its arguments, of which some are steps themselves. When a member is
lost, its shards are read again by others, and what is still needed is made anew, step by step, with
the same bits.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol, Self
from uuid import uuid4

from cutplane.cluster.leader import Leader, LostMember
from cutplane.cluster.member import Recipe, Source, name_of
from cutplane.cluster.team import Shards

_log = logging.getLogger("cutplane")

# More shards than this need more bookkeeping, and help no balance.
MOST_SHARDS = 64
# How often members may be lost before a sample is given up.
_MOST_LOSSES = 100


class Place(NamedTuple):
    """A member: what it is called in messages, and the connection to it."""

    name: str
    connection: Connection


class Places(Protocol):
    """Who can hold shards."""

    def open(self) -> Sequence[Place]:
        """Connect to all that are there now; those that were lost are not."""

    def lose(self, name: str, why: str) -> None:
        """Hear that one is lost."""


@dataclass(eq=False)
class Step:
    """How something that members keep was made: by a function, of others, with arguments."""

    function: str
    inputs: tuple[Step, ...] = ()
    arguments: tuple[Any, ...] = ()


class ShardedSample:
    """Examples whose rows lie on the members of a team.

    Parameters
    ----------
    source : Source
        Where rows are read from.
    places : Places
        Who can hold them.
    n_shards : int
        A power of two: how many blocks the rows are cut into.
    patience : float
        Seconds without a sign of life after which a member is lost.
    """

    def __init__(
        self, source: Source, places: Places, *, n_shards: int, patience: float = 30.0
    ) -> None:
        self.source, self.n_shards = source, n_shards
        self._places, self._patience = places, patience
        self._name = uuid4().hex
        self._numbers = count()
        self._alive: dict[int, Step] = {}
        self._number_of: weakref.WeakKeyDictionary[Step, int] = weakref.WeakKeyDictionary()
        self._gone: list[int] = []
        self._dropped: list[int] = []
        self._leader: Leader | None = None
        self._holders: dict[str, list[int]] = {}
        self.losses: list[str] = []

    def keep(self, owner: object, step: Step) -> Any:
        """Make something that members keep as long as its owner lives; return what they tell."""
        told = self._survive(lambda: self._make([step]))
        number = self._number_of[step]
        self._alive[number] = step
        # Owners may go at any moment, in any thread: only a note is taken there.
        weakref.finalize(owner, self._gone.append, number)
        return told

    def kept(self, owner: object, step: Step) -> Step:
        """Return a step after it was made, if it was not: its owner may be from a checkpoint."""
        if not any(each is step for each in self._alive.values()):
            self.keep(owner, step)
        return step

    def ask(
        self, function: Callable[..., Any], inputs: Sequence[Step] = (), *arguments: Any
    ) -> Any:
        """Return what a function finds, called on all members at once."""
        step = Step(name_of(function), tuple(inputs), arguments)
        return self._survive(lambda: self._call(step, None))

    @property
    def traffic(self) -> tuple[int, int]:
        """How often the present members were called or sent sums, and how many bytes that took."""
        leader = self._leader
        return (0, 0) if leader is None else (leader.n_calls + leader.n_rounds, leader.n_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the members go."""
        if self._leader is not None:
            self._leader.close()
            self._leader = None

    def _let_go(self) -> None:
        """Forget what lost its owner; members are told with the next call."""
        while self._gone:
            number = self._gone.pop()
            self._number_of.pop(self._alive.pop(number), None)
            self._dropped.append(number)

    def _make(self, steps: Iterable[Step]) -> Any:
        """Make what members have to keep, and before it what it is made of, if that is gone.

        Return what was told of the last.
        """
        wanted, told = dict.fromkeys(steps), None
        owned = {step: number for number, step in self._alive.items()}
        order = _in_order(wanted, self._number_of)
        last_use = {part: step for step in order for part in step.inputs}
        for step in order:
            number = owned.get(step)
            number = next(self._numbers) if number is None else number
            told = self._call(step, number)
            self._number_of[step] = number
            for part in set(step.inputs) - owned.keys() - wanted.keys():
                if last_use[part] is step:  # needed for a moment only
                    self._dropped.append(self._number_of.pop(part))
        return told

    def _call(self, step: Step, keep: int | None) -> Any:
        assert self._leader is not None
        inputs = [self._number_of[each] for each in step.inputs]
        dropped, self._dropped = self._dropped, []
        try:
            told = self._leader.call("run", dropped, step.function, inputs, step.arguments, keep)
            return next((each for each in told if each is not None), None)
        except BaseException:
            if self._leader.closed:
                self._leader = None
            raise

    def _survive(self, act: Callable[[], Any]) -> Any:
        """Return what an act returns; when a member is lost, begin anew with the others."""
        while True:
            try:
                self._team()
                self._let_go()
                return act()
            except LostMember as error:
                self._lose(error)

    def _lose(self, error: LostMember) -> None:
        name = list(self._holders)[error.member]
        held = self._holders.pop(name)
        self.losses.append(f"{name}, shards {held}: {error}")
        # As text: an error leads to the points that it came through, and a log may be kept.
        _log.warning("lost worker %s with shards %s: %s", name, held, str(error))
        self._places.lose(name, f"{error}, with shards {held}")
        if len(self.losses) > _MOST_LOSSES:
            raise error

    def _team(self) -> None:
        """See to it that there is a team, with all shards loaded and what is alive made anew."""
        if self._leader is not None:
            return
        places = {place.name: place for place in self._places.open()}
        self._deal(list(places))
        leader = self._leader = Leader(
            [places[name].connection for name in self._holders], patience=self._patience
        )
        try:
            there = leader.call("count", self._name)
            given = [self._given(*each) for each in zip(self._holders.values(), there, strict=True)]
            leader.call("load", self._name, each=given)
            self._dropped = []
            self._number_of.clear()
            self._let_go()
            self._make([self._alive[number] for number in sorted(self._alive)])
        except BaseException:
            leader.close()
            self._leader = None
            raise

    def _given(
        self, held: Sequence[int], there: Container[int]
    ) -> tuple[Shards, dict[int, Recipe]]:
        """Return which shards a member is to have, and how to read those that it has not."""
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


def _in_order(steps: Iterable[Step], known: Container[Step]) -> list[Step]:
    """Return steps that are not known, and all that they depend on, each after its inputs."""
    found: dict[Step, None] = {}
    for step in steps:
        waiting = [(step, False)]
        while waiting:
            each, ready = waiting.pop()
            if each in known or each in found:
                continue
            if ready:
                found[each] = None
                continue
            waiting.append((each, True))
            # The first input before the second: of a long line of points, few are there at a time.
            waiting += [(part, False) for part in reversed(each.inputs)]
    return list(found)
