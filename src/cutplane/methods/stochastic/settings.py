"""What can be chosen about stochastic steps, and what is known of a run of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, IntEnum

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import dot
from cutplane.methods.stochastic import kernels


class Rule(IntEnum):
    """How ``tau_t`` is chosen, and with it the size of steps."""

    PEGASOS = kernels.PEGASOS
    ADAPTIVE = kernels.ADAPTIVE
    BALANCED = kernels.BALANCED
    OPTIMISTIC = kernels.OPTIMISTIC


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
        All else, by the places that `kernels` names.
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
        return np.asarray(self.numbers[kernels.SCALE] * self.v)

    @property
    def mean(self) -> Vector:
        """The mean of the iterates since it was last forgotten."""
        numbers = self.numbers
        total = self.summed + numbers[kernels.MASS] * self.v
        return np.asarray(total / max(numbers[kernels.SUMMANDS], 1.0))

    @property
    def confident(self) -> bool:
        """Whether a phase of Algorithm 3 has ended as hoped."""
        return bool(self.numbers[kernels.SURE])

    def forget_mean(self) -> None:
        """Begin a new mean."""
        self.summed[:] = 0.0
        self.numbers[kernels.MASS] = self.numbers[kernels.SUMMANDS] = 0.0

    def move_to(self, w: Vector) -> None:
        """Go on from another point."""
        self.v[:] = w
        self.numbers[kernels.SCALE] = 1.0
        self.numbers[kernels.SQUARE] = dot(w, w)


def seeded(seed: int) -> NDArray[np.uint64]:
    """Return the first state of random numbers; those of neighboring seeds are unrelated."""
    state = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    return np.maximum(state, np.uint64(1))


def first_walk(settings: Settings, n_parameters: int, facts: Matrix, radius: float) -> Walk:
    """Return the walk before the first step, at zero."""
    numbers = np.zeros(kernels.N_NUMBERS)
    numbers[kernels.SCALE] = 1.0
    optimistic = settings.rule is Rule.OPTIMISTIC
    numbers[kernels.RADIUS] = min(1.0, radius) if optimistic else radius
    return Walk(
        v=np.zeros(n_parameters),
        summed=np.zeros(n_parameters if settings.averages else 0),
        chosen=np.zeros(n_parameters if optimistic else 0),
        facts=facts,
        numbers=numbers,
        seed=seeded(settings.seed),
    )
