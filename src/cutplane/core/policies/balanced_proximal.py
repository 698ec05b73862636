"""Proximal terms at all iterates, with weights that balance a bound (paper 002, Algorithm 4).

After ``t`` iterates ``w_1 .. w_t`` the method minimizes

    t * (r(w) + max_i a_i.w + b_i) + sum_i tau_i/2 |w - w_i|^2

The sum is ``tau_{1:t}/2 |w - mean|^2`` and a constant, with the mean weighted by tau. So this is a
proximal term with a running center and ``mu = tau_{1:t} / t``.

If no ``w_t``, nor the optimum, is farther than R from where the regularizer is zero, and
``|a_t| <= A_t``, the best of T iterates is within

    1/T sum_t [ 2 tau_t R^2 + (lam R + A_t)^2 / (2 (lam t + tau_{1:t})) ]        (Proposition 3)

of the optimum. Each ``tau_t`` makes its two terms equal, ``4 R^2 tau (L + tau) = (lam R + A_t)^2``
with ``L = lam t + tau_{1:t-1}``, so that

    tau_t = ( sqrt(L^2 + (lam R + A_t)^2 / R^2) - L ) / 2
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.core.method import Stabilizer
from cutplane.core.needs import QUADRATIC, quadratic
from cutplane.core.reduced.proximal import PlainBound, ProximalProblem, stabilized
from cutplane.core.state import Candidate, State

# By how much the optimistic radius grows when an iterate reaches it (paper 002, Algorithm 3).
_GROWTH = float(np.sqrt(2.0))


@dataclass(frozen=True, slots=True)
class Balance:
    """What the terms of a phase add up to."""

    radius: float  # R
    t: int  # number of terms
    total: float  # tau_{1:t}
    center: Vector  # the mean of the iterates, weighted by tau
    iterate: Vector  # where the next term belongs
    plain: PlainBound = field(default_factory=PlainBound)

    def with_term(self, lam: float, steepness: float) -> Balance:
        """Return the balance with a term at the iterate, where the slope is so steep."""
        t = self.t + 1
        before = lam * t + self.total
        steep = (lam * self.radius + steepness) / self.radius
        # (root - before) / 2, without its cancellation
        tau = 0.5 * steep**2 / (float(np.hypot(before, steep)) + before)
        total = self.total + tau
        share = tau / total if total > 0.0 else 1.0
        center = self.center + share * (self.iterate - self.center)
        return replace(self, t=t, total=total, center=center)

    def grown(self) -> Balance:
        """Return the first balance of a new phase, with a larger radius."""
        return Balance(_GROWTH * self.radius, 0, 0.0, self.iterate, self.iterate, self.plain)


@dataclass(frozen=True, slots=True)
class BalancedProximal(Stabilizer[Balance | None]):
    """Proximal terms at all iterates, without a parameter to tune.

    Parameters
    ----------
    radius : float, optional
        How far from the regularizer's center the optimum is at most, in its metric. By default
        the optimistic strategy of the paper's section 3.4: start at ``min(1, 1/sqrt(lam))``, and
        whenever an iterate is as far as the radius, multiply it by the root of 2 and begin a new
        phase. The planes stay.
    """

    needs = (*Stabilizer.needs, QUADRATIC)
    radius: float | None = None

    def __post_init__(self) -> None:
        if self.radius is not None and not (np.isfinite(self.radius) and self.radius > 0.0):
            raise ValueError(f"the radius must be positive and finite, got {self.radius}")

    def propose(self, state: State, own: Balance | None) -> tuple[Candidate, Balance]:
        """Solve the reduced problem with the terms of all iterates."""
        regularizer = quadratic(state.problem.regularizer)
        bundle, lam, accuracy = state.bundle, regularizer.lam, state.accuracy
        balance = self._so_far(state, own)
        newest = bundle.gram[-bundle.n_groups :, -bundle.n_groups :]
        balance = balance.with_term(lam, float(np.sqrt(max(newest.sum(), 0.0))))
        here = ProximalProblem(bundle, regularizer, balance.center, accuracy)
        solution = here.minimize(balance.total / balance.t)
        plain, bound = balance.plain.solved(bundle, regularizer, accuracy)
        candidate = stabilized(solution, plain, state)
        return candidate, replace(balance, iterate=candidate.w, plain=bound)

    def _so_far(self, state: State, own: Balance | None) -> Balance:
        if own is None:
            lam = quadratic(state.problem.regularizer).lam
            radius = min(1.0, 1.0 / math.sqrt(lam)) if self.radius is None else self.radius
            return Balance(radius, 0, 0.0, state.best.w, state.best.w)
        regularizer = quadratic(state.problem.regularizer)
        norm = np.sqrt(2.0 * regularizer.value(own.iterate) / regularizer.lam)
        return own.grown() if self.radius is None and norm >= own.radius else own
