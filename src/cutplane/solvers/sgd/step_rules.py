"""How long the steps of stochastic gradient descent are."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector

# Calibration begins here, and multiplies or divides by two.
_FIRST_TRIAL = 0.125
_FACTOR = 2.0
_MOST_TRIALS = 40

Indices = NDArray[np.int64]


def require_positive(name: str, value: float) -> None:
    """Raise ValueError unless a number is positive and finite."""
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")


def require_count(name: str, value: int) -> None:
    """Raise ValueError unless a number is whole and positive."""
    if value < 1 or value != int(value):
        raise ValueError(f"{name} must be a whole number of at least 1, got {value}")


class StepRule(ABC):
    """How long the steps are."""

    def calibrated(self, try_out: Callable[[float, int], float]) -> StepRule:
        """Return the rule ready for use.

        ``try_out`` takes constant steps of a size on a sample of so many examples, and returns the
        objective on the sample after them; with size zero, that at the start.
        """
        return self

    @abstractmethod
    def sizes(self, steps: Indices, lam: float) -> Vector:
        """Return the sizes of steps, by their numbers from 1 on."""


@dataclass(frozen=True, slots=True)
class BottouSteps(StepRule):
    """``eta_0 / (1 + lam eta_0 (t - 1))``, as in L. Bottou's crfsgd (2008).

    Parameters
    ----------
    eta0 : float, optional
        The first step. By default it is calibrated: of the sizes ``2^k``, the one with the lowest
        objective after a pass of constant steps over a sample is found, and half of it is taken.
    sample : int
        Size of the sample; the whole if there are fewer examples.
    """

    eta0: float | None = None
    sample: int = 1000

    def __post_init__(self) -> None:
        if self.eta0 is not None:
            require_positive("eta0", self.eta0)
        require_count("sample", self.sample)

    def calibrated(self, try_out: Callable[[float, int], float]) -> BottouSteps:
        """Walk up the powers of two while the objective falls below that at the start, then down.

        At least ten sizes are tried that lower the objective.
        """
        if self.eta0 is not None:
            return self
        at_start = try_out(0.0, self.sample)
        size, rising, good = _FIRST_TRIAL, True, 0
        best, lowest = _FIRST_TRIAL, at_start
        for _ in range(_MOST_TRIALS):
            objective = try_out(size, self.sample)
            if objective < at_start:
                good += 1
                if objective < lowest:
                    best, lowest = size, objective
            elif rising:
                rising, size = False, _FIRST_TRIAL
            size = size * _FACTOR if rising else size / _FACTOR
            if good >= 10 and not rising:
                break
        return BottouSteps(best / _FACTOR, self.sample)

    def sizes(self, steps: Indices, lam: float) -> Vector:
        """Return the sizes of steps."""
        assert self.eta0 is not None
        return np.asarray(self.eta0 / (1.0 + lam * self.eta0 * (steps - 1.0)))


@dataclass(frozen=True, slots=True)
class PegasosSteps(StepRule):
    """``1 / (lam t)``: the first step forgets the start (Shalev-Shwartz et al. 2007)."""

    def sizes(self, steps: Indices, lam: float) -> Vector:
        """Return the sizes of steps."""
        return np.asarray(1.0 / (lam * steps))


@dataclass(frozen=True, slots=True)
class ConstantSteps(StepRule):
    """Steps of one size."""

    eta: float

    def __post_init__(self) -> None:
        require_positive("eta", self.eta)

    def sizes(self, steps: Indices, lam: float) -> Vector:
        """Return the sizes of steps."""
        return np.full(len(steps), self.eta)
