"""Stabilizers that search for their ``mu``: trust region and level (paper 001).

    trust region:  min r(w) + planes   over  |w - c| <= radius
    level:         min |w - c|         over  r(w) + planes <= level

Both have the minimizer of ``r(w) + planes + mu/2 |w - c|^2`` as their solution, for some ``mu``.
The center is the best point so far. Radius and level follow from the gap, so there is nothing to
adapt, and a search for ``mu`` need not be accurate.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cutplane.core.protocols import QuadraticRegularizer
from cutplane.core.reduced.proximal import (
    Near,
    Neighborhood,
    PlainBound,
    accuracy_for,
    reach,
    stabilized,
)
from cutplane.core.state import Candidate, State

# Solutions are accepted that use so much of the radius, or of the way from the lower bound up to
# the level.
_NEARLY = 0.8

_LEAST, _MOST = 1e-3, 1e6  # bounds on mu / lam: beyond them the region, or the level, is not felt


@dataclass(frozen=True, slots=True)
class _Last:
    """The ``mu`` of the last problem, where the next search begins, and the plain problem."""

    mu: float
    plain: PlainBound = field(default_factory=PlainBound)


def _last(state: State, lam: float) -> _Last:
    memo = state.stabilizer_memo
    return memo if isinstance(memo, _Last) else _Last(lam)


@dataclass(frozen=True, slots=True)
class TrustRegion:
    """Do not go far from the best point.

    Parameters
    ----------
    share : float
        The radius, as a share of the distance within which the optimum must be: ``J`` is strongly
        convex, so that is ``sqrt(2 gap / lam)``.
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"the share must be above 0 and at most 1, got {self.share}")

    def propose(self, regularizer: QuadraticRegularizer, state: State) -> Candidate:
        """Minimize the model in the region."""
        bundle, lam, accuracy = state.bundle, regularizer.lam, accuracy_for(state)
        last = _last(state, lam)
        plain, bound = last.plain.solved(bundle, regularizer, accuracy)
        gap = state.objective - max(plain.lower, state.lower)
        radius = self.share * reach(regularizer, gap)

        def verdict(near: Near) -> int:
            if near.distance > radius:
                return 1
            return -1 if near.distance < _NEARLY * radius and near.mu > _LEAST * lam else 0

        near = Neighborhood(bundle, regularizer, state.best.w, accuracy).search(verdict, last.mu)
        state.stabilizer_memo = _Last(near.mu, bound)
        return stabilized(near, plain, state)


@dataclass(frozen=True, slots=True)
class Level:
    """Go to the nearest point where the model is as low as a level.

    Parameters
    ----------
    share : float
        Where the level is, from the lower bound (0) to the best objective (1).
    """

    share: float = 0.3

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"the share must be between 0 and 1, got {self.share}")

    def propose(self, regularizer: QuadraticRegularizer, state: State) -> Candidate:
        """Project the best point on the level set of the model."""
        bundle, lam, accuracy = state.bundle, regularizer.lam, accuracy_for(state)
        last = _last(state, lam)
        plain, bound = last.plain.solved(bundle, regularizer, accuracy)
        here = Neighborhood(bundle, regularizer, state.best.w, accuracy)
        lower = max(plain.lower, state.lower)
        # After a line search there may be no plane that touches the risk at the best point. The
        # model is lower there than the risk, and must be taken as it is, or the best point may be
        # in the level set.
        height = self.share * (here.model_at_center + regularizer.value(state.best.w) - lower)

        def verdict(near: Near) -> int:
            if near.value > lower + height:
                return -1
            return 1 if near.value < lower + _NEARLY * height and near.mu < _MOST * lam else 0

        near = here.search(verdict, last.mu)
        state.stabilizer_memo = _Last(near.mu, bound)
        return stabilized(near, plain, state)
