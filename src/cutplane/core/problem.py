"""A problem: everything that a bound depends on, and the bound itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.core.fingerprint import fingerprint, fingerprints_of_parts
from cutplane.core.needs import has_identity
from cutplane.core.protocols import Plane, Point, Regularizer, Risk

# Bounds are sums of a few terms that each carry rounding errors of a few units in the last place.
# The lower bound is lowered by this share of the terms' sizes, so that rounding cannot lift it
# above the optimum. (16 was too little for the Poisson loss, whose conjugate is a small difference
# of large terms.)
_ROUNDING = 64 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True)
class Candidate:
    """The minimizer of the reduced problem, with a bound, and the height of the model there."""

    w: Vector
    lower: float
    model: float


def candidate_below(plane: Plane, regularizer: Regularizer) -> Candidate:
    """Minimize ``regularizer + plane``: the certificate of every method.

    A plane lies below the risk, so this minimum lies below the minimum of the objective. For the
    aggregate ``(A'alpha, b.alpha)`` of a bundle it is ``D(alpha) = b.alpha - r*(-A'alpha)``, valid
    for any ``alpha`` on the simplex however it was found.
    """
    conjugate, w = regularizer.conjugate(-plane.slope)
    rounding = _ROUNDING * (abs(plane.offset) + abs(conjugate))
    lower = plane.offset - conjugate - rounding
    return Candidate(w, lower, lower - regularizer.value(w))


@dataclass(frozen=True)
class Problem:
    """A risk and a regularizer.

    Fingerprints are made only when a run takes over what another one found, and only once: a run
    by itself does not pay for them.
    """

    risk: Risk
    regularizer: Regularizer

    def objective(self, point: Point) -> float:
        """Return ``J(w)`` at a point of the risk."""
        return self.regularizer.value(point.w) + point.value

    def below(self, plane: Plane) -> Candidate:
        """Return the bound that any plane below the risk gives, and where it is attained."""
        return candidate_below(plane, self.regularizer)

    @cached_property
    def risk_parts(self) -> dict[str, str]:
        """The fingerprint of each part of the risk, by its name."""
        return fingerprints_of_parts(self.risk)

    def require_risk_of(self, earlier: Problem, what: str) -> None:
        """Raise ValueError unless an earlier problem, which ``what`` comes from, has this risk."""
        if earlier.risk is self.risk:
            return
        mine, other = self.risk_parts, earlier.risk_parts
        if mine != other:
            different = [name for name in mine | other if mine.get(name) != other.get(name)]
            hint = (
                ""
                if has_identity(self.risk)
                else "; if these have no influence on its values, give it a method identity()"
            )
            raise ValueError(
                f"{what} is of a run on another risk (not the same: {', '.join(different)}), for "
                f"which its bounds do not hold: give start=, with its w, in place of it{hint}"
            )

    def require_regularizer_of(self, earlier: Problem) -> None:
        """Raise ValueError unless an earlier problem has this regularizer, in every detail."""
        before, now = earlier.regularizer, self.regularizer
        if now is not before and fingerprint(now) != fingerprint(before):
            detail = " with other values" if repr(now) == repr(before) else ""
            raise ValueError(
                f"resume is of a run with {before!r}, for which its bounds hold, and not for "
                f"{now!r}{detail}; give planes_from= in place of it"
            )
