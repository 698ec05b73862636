"""A problem: everything that a bound depends on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cutplane.core.fingerprint import fingerprint, fingerprints_of_parts
from cutplane.core.protocols import Regularizer, Risk


@dataclass(frozen=True)
class Problem:
    """A risk and a regularizer.

    Fingerprints are made only when a run takes over what another one found, and only once: a run
    by itself does not pay for them.
    """

    risk: Risk
    regularizer: Regularizer

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
                if hasattr(self.risk, "identity")
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
