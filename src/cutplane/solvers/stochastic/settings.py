"""Stochastic steps: what can be chosen, what is known of a run, constants, pieces of a pass.

What can be chosen about stochastic steps, and what is known of a run of them.

A problem as a repeated game: the constants that the sizes of stochastic steps come from.

The minimizer is in a ball: from ``R(0) >= R(w*) + a.(0 - w*)`` and ``a = -lam w*`` it follows that
``lam |w*|^2 <= R(0) - R(w*)``. For the mean hinge loss that is the paper's ``1/sqrt(lam)``.

A pass in pieces, between which it may end: the time is over, or Ctrl-C waits.

All that a pass has changed is whole between two pieces, to the last bit: in how many it is taken
does not show. Examples that it does not come to keep the slopes that they have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.pace import hurried
from cutplane.compute.products import dot
from cutplane.losses.score_loss import LOGISTIC, MARGIN_PIECES, RESIDUAL_PIECES
from cutplane.solvers.stochastic import loops


class Rule(IntEnum):
    """How ``tau_t`` is chosen, and with it the size of steps."""

    PEGASOS = loops.PEGASOS
    ADAPTIVE = loops.ADAPTIVE
    BALANCED = loops.BALANCED
    OPTIMISTIC = loops.OPTIMISTIC


class Sampling(Enum):
    """Which examples a pass visits.

    ``SHUFFLED``: each once, in a random order. ``DRAWN``: as many as there are, each drawn by
    itself, as the theorems of paper 002 assume; those that were not drawn keep their slopes.
    """

    SHUFFLED = "shuffled"
    DRAWN = "drawn"


class Iterate(Enum):
    """What the objective is evaluated at after each pass.

    ``LAST``: the last iterate. ``AVERAGE``: the mean of the iterates of the pass. ``BEST``: both,
    of which the better counts. The result of a run is the best of all points that were evaluated.
    """

    LAST = "last"
    AVERAGE = "average"
    BEST = "best"


class Begin(Enum):
    """Where a pass begins.

    ``LAST``: where the last one ended. ``BETTER``: there, or at the lowest point of the ray from
    the best point through the candidate of the bundle, if that is lower. It costs an evaluation
    and a plane a pass.
    """

    LAST = "last"
    BETTER = "better"


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of `cutplane.pegasos` and its relatives."""

    rule: Rule
    batch: int | None = 1
    seed: int = 0
    projected: bool = True
    radius: float | None = None
    iterate: Iterate = Iterate.LAST
    sampling: Sampling = Sampling.SHUFFLED
    epsilon: float = 0.0
    delta: float = 1.0
    longest: float = 0.0625
    begin: Begin = Begin.LAST

    def __post_init__(self) -> None:
        if self.batch is not None and (self.batch < 1 or self.batch != int(self.batch)):
            raise ValueError(f"batch must be None or a whole number above 0, got {self.batch!r}")
        if self.seed < 0 or self.seed != int(self.seed):
            raise ValueError(f"seed must be a whole number, not negative, got {self.seed!r}")
        if self.radius is not None and not 0.0 < self.radius < math.inf:
            raise ValueError(f"radius must be positive and finite, got {self.radius!r}")
        if not 0.0 <= self.epsilon < math.inf:
            raise ValueError(f"epsilon must be finite and not negative, got {self.epsilon!r}")
        if not 0.0 < self.delta <= 1.0:
            raise ValueError(f"delta must be above 0 and at most 1, got {self.delta!r}")
        if not self.longest > 0.0:
            raise ValueError(f"longest must be positive, got {self.longest!r}")
        for name, value, kind in (
            ("iterate", self.iterate, Iterate),
            ("sampling", self.sampling, Sampling),
            ("begin", self.begin, Begin),
        ):
            if not isinstance(value, kind):
                known = ", ".join(str(each) for each in kind)
                raise TypeError(f"{name} must be one of {known}, got {value!r}")

    @property
    def averages(self) -> bool:
        """Whether the mean of the iterates is wanted."""
        return self.iterate is not Iterate.LAST


@dataclass(frozen=True, slots=True)
class Walk:
    """Where stochastic steps have led; arrays are changed in place.

    Attributes
    ----------
    v : ndarray
        The iterate is ``numbers[SCALE]`` times this.
    summed : ndarray
        With it, the sum of iterates is known; empty if their mean is not wanted.
    chosen : ndarray
        The iterate that Algorithm 3 returns; empty for other rules.
    facts : ndarray
        A line for each example: what does not change, and the last slope of its loss.
    numbers : ndarray
        All else, by the places that `loops` names.
    seed : ndarray
        Of the next random number.
    objective : float
        That of the last iterate that was evaluated, however good it was.
    """

    v: Vector
    summed: Vector
    chosen: Vector
    facts: Matrix
    numbers: Vector
    seed: NDArray[np.uint64]
    objective: float = math.nan

    @property
    def w(self) -> Vector:
        """The iterate."""
        return np.asarray(self.numbers[loops.SCALE] * self.v)

    @property
    def mean(self) -> Vector:
        """The mean of the iterates since it was last forgotten."""
        numbers = self.numbers
        total = self.summed + numbers[loops.MASS] * self.v
        return np.asarray(total / max(numbers[loops.SUMMANDS], 1.0))

    @property
    def confident(self) -> bool:
        """Whether a phase of Algorithm 3 has ended as hoped."""
        return bool(self.numbers[loops.SURE])

    def forget_mean(self) -> None:
        """Begin a new mean."""
        self.summed[:] = 0.0
        self.numbers[loops.MASS] = self.numbers[loops.SUMMANDS] = 0.0

    def move_to(self, w: Vector) -> None:
        """Go on from another point."""
        self.v[:] = w
        self.numbers[loops.SCALE] = 1.0
        self.numbers[loops.SQUARE] = dot(w, w)


def seeded(seed: int) -> NDArray[np.uint64]:
    """Return the first state of random numbers; those of neighboring seeds are unrelated."""
    state = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    return np.maximum(state, np.uint64(1))


def first_walk(settings: Settings, n_parameters: int, facts: Matrix, radius: float) -> Walk:
    """Return the walk before the first step, at zero."""
    numbers = np.zeros(loops.N_NUMBERS)
    numbers[loops.SCALE] = 1.0
    optimistic = settings.rule is Rule.OPTIMISTIC
    numbers[loops.RADIUS] = min(1.0, radius) if optimistic else radius
    return Walk(
        v=np.zeros(n_parameters),
        summed=np.zeros(n_parameters if settings.averages else 0),
        chosen=np.zeros(n_parameters if optimistic else 0),
        facts=facts,
        numbers=numbers,
        seed=seeded(settings.seed),
    )


@dataclass(frozen=True, slots=True)
class Game:
    """The constants of the repeated game that a problem is.

    Attributes
    ----------
    lam : float
        Curvature of each round.
    radius : float
        Of a ball around zero that holds the minimizer, and of the ball of iterates unless they are
        not projected.
    ball : float
        The latter; infinite if they are not.
    steepness : float
        No subgradient is longer; NaN if that is not known beforehand.
    epsilon, delta : float
        Of Algorithm 3; ``delta`` for each phase.
    """

    lam: float
    radius: float
    ball: float
    steepness: float
    epsilon: float
    delta: float


def game_of(settings: Settings, lam: float, drop: float, steepest: float) -> Game:
    """Return the constants, from ``R(0)`` less a lower bound, and the steepest slope in a round."""
    # Where zero costs nothing it is the minimizer, which lies in a ball of any radius; steps divide
    # by it.
    known = math.sqrt(max(drop, 0.0) / lam) or 1.0
    radius = known if settings.radius is None else settings.radius
    steepness = lam * radius + steepest if math.isfinite(steepest) else math.nan
    if settings.epsilon > 0.0 and not math.isfinite(steepness):
        raise ValueError(
            "epsilon must be 0 here: how many steps it takes is known only for losses whose "
            "slopes are bounded, such as cp.Hinge() and cp.Logistic(), on a linear model"
        )
    # So many phases there are at most: the radius doubles in square, from 1 or less up to twice
    # that of the ball and a little more. With the hinge loss and lam <= 1 it is 3 - log2(lam).
    phases = 3.0 + max(2.0 * math.log2(radius), 0.0)
    return Game(
        lam=lam,
        radius=radius,
        ball=radius if settings.projected else math.inf,
        steepness=steepness,
        epsilon=settings.epsilon,
        delta=settings.delta / phases,
    )


def steepest_slope(form: tuple[int, Any]) -> float:
    """Return the largest slope that a loss has anywhere, perhaps infinite."""
    kind, shape = form
    if kind == LOGISTIC:
        return 1.0
    if kind not in (MARGIN_PIECES, RESIDUAL_PIECES):
        return math.inf
    ends = np.where(np.isfinite(shape[:, 4]), shape[:, 3], np.inf)
    return float(ends.max())


# Numbers that a piece reads: some milliseconds, beside which a call costs nothing.
_IN_A_PIECE = 1 << 20


def until_hurried(
    order: NDArray[np.int64], n_entries: int, *, batch: int = 1
) -> Iterator[NDArray[np.int64]]:
    """Yield the order of a pass piece by piece, in whole batches, until the step should end.

    Parameters
    ----------
    order : ndarray
        The examples that a pass visits.
    n_entries : int
        How many numbers it reads in all.
    batch : int
        Examples a step.
    """
    steps = _IN_A_PIECE * len(order) // (batch * max(n_entries, 1))
    size = batch * max(steps, 1)
    for begin in range(0, len(order), size):
        if begin and hurried():
            return
        yield order[begin : begin + size]
