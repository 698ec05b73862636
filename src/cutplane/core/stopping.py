"""When to stop: the gap, the number of iterations, the time. Rules combine with ``|``."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

from cutplane.core.certificate import Status, relative
from cutplane.core.state import Run

# Bounds that have not moved for this many iterations will not move any more: what is left is
# rounding in the planes.
_PATIENCE = 30
# Where rounding hides the tolerance, this many iterations have to halve the gap.
_HALVED_WITHIN = 10


def _require_positive(name: str, value: Any, kind: type = Real) -> None:
    if not (isinstance(value, kind) and value > 0):  # type: ignore[operator]
        what = "a whole number above 0" if kind is Integral else "positive"
        raise ValueError(f"{name} must be {what}, got {value!r}")


class Allowed(NamedTuple):
    """How many seconds a run may still take, and the gap that is small enough, as far as known."""

    seconds: float = math.inf
    gap: float = 0.0


class StoppingRule(ABC):
    """Says whether a run should end, and why."""

    __slots__ = ()

    @abstractmethod
    def __call__(self, state: Run) -> Status:
        """Return the reason to stop, or `Status.RUNNING`."""

    def allows(self, state: Run) -> Allowed:
        """Return what the rule still allows; any time and no gap for one that looks at neither."""
        return Allowed()

    def met(self, state: Run) -> bool:
        """Say whether a run that can do no more has got what the rule asks for."""
        return self(state) is Status.OPTIMAL

    def __or__(self, other: StoppingRule) -> StoppingRule:
        """Stop when either rule says so; the first one names the reason."""
        return FirstOf((self, other))


@dataclass(frozen=True, slots=True, repr=False)
class FirstOf(StoppingRule):
    """Stop when any of some rules says so; the first one that does names the reason."""

    rules: Sequence[StoppingRule]

    def __call__(self, state: Run) -> Status:
        """Return the reason to stop, or `Status.RUNNING`."""
        for rule in self.rules:
            if (status := rule(state)) is not Status.RUNNING:
                return status
        return Status.RUNNING

    def allows(self, state: Run) -> Allowed:
        """Return what all rules still allow."""
        seconds, gaps = zip(*[rule.allows(state) for rule in self.rules], strict=True)
        return Allowed(min(seconds), max(gaps))

    def met(self, state: Run) -> bool:
        """Say whether a run that can do no more has got what one of the rules asks for."""
        return any([rule.met(state) for rule in self.rules])  # noqa: C419

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.rules))


@dataclass(frozen=True, slots=True)
class Gap(StoppingRule):
    """Stop as optimal when the gap is small enough, by whichever measure is given.

    Parameters
    ----------
    relative : float, optional
        Bound on ``(J - D) / |J|``.
    absolute : float, optional
        Bound on ``J - D``.
    """

    relative: float | None = None
    absolute: float | None = None

    def __post_init__(self) -> None:
        if self.relative is None and self.absolute is None:
            raise ValueError("Gap needs a relative or an absolute tolerance")
        for name, value in (("relative", self.relative), ("absolute", self.absolute)):
            if value is not None:
                _require_positive(f"the {name} tolerance", value)

    def __call__(self, state: Run) -> Status:
        """Return the reason to stop, or `Status.RUNNING`."""
        gap = state.gap + state.hidden
        small_enough = (self.absolute is not None and gap <= self.absolute) or (
            self.relative is not None and relative(gap, state.objective) <= self.relative
        )
        return Status.OPTIMAL if small_enough else Status.RUNNING

    def allows(self, state: Run) -> Allowed:
        """Return the gap that is small enough."""
        of_objective = (self.relative or 0.0) * abs(state.objective)
        return Allowed(gap=max(self.absolute or 0.0, of_objective))

    def met(self, state: Run) -> bool:
        """Say whether a run that can do no more has got what the rule asks for.

        A share of an objective that vanishes, up to rounding, cannot be asked for.
        """
        return self(state) is Status.OPTIMAL or (self.relative is not None and state.vanishes)


@dataclass(frozen=True, slots=True)
class Iterations(StoppingRule):
    """Stop after ``limit`` iterations, those before a resumption included."""

    limit: int

    def __post_init__(self) -> None:
        _require_positive("the iteration limit", self.limit, Integral)

    def __call__(self, state: Run) -> Status:
        """Return the reason to stop, or `Status.RUNNING`."""
        return Status.ITERATION_LIMIT if state.iteration >= self.limit else Status.RUNNING


@dataclass(frozen=True, slots=True)
class Seconds(StoppingRule):
    """Stop when ``limit`` seconds have passed; iterations that take long are cut short."""

    limit: float

    def __post_init__(self) -> None:
        _require_positive("the time limit", self.limit)

    def __call__(self, state: Run) -> Status:
        """Return the reason to stop, or `Status.RUNNING`."""
        return Status.TIME_LIMIT if state.seconds >= self.limit else Status.RUNNING

    def allows(self, state: Run) -> Allowed:
        """Return how long the run may still take."""
        return Allowed(seconds=self.limit - state.seconds)


@dataclass(frozen=True, slots=True)
class Trouble(StoppingRule):
    """Stop when going on makes no sense. Part of every run."""

    def __call__(self, state: Run) -> Status:
        """Return the reason to stop, or `Status.RUNNING`."""
        if state.contradictory:
            return Status.INCONSISTENT
        if state.stopped:
            return Status.STOPPED
        if state.stalled_for >= _PATIENCE:
            return Status.STALLED
        if min(state.iteration, len(state.history)) >= _HALVED_WITHIN:
            before = state.history[-_HALVED_WITHIN]
            halved = state.gap <= 0.5 * (before.objective - before.lower_bound)
            if not halved and state.hides_tolerance:
                return Status.STALLED
        return Status.RUNNING
