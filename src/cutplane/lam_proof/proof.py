"""What is proven about a choice of lam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.compute.arrays import EPS, Vector
from cutplane.report.figures import draw_lam_proof

_ROUNDING = 64 * EPS

ERRORS = {
    "accuracy": (1.0, "share of wrong predictions"),
    "r2": (1.0, "share of the variance that is left"),
    "d2_pinball": (1.0, "share of the pinball loss that is left"),
    "d2_poisson": (1.0, "share of the deviance that is left"),
    "neg_mean_absolute_error": (0.0, "mean absolute error"),
    "neg_mean_squared_error": (0.0, "mean squared error"),
}
"""The error that goes with each score, by the name of the scorer or of an estimator's own measure:
a number less the score; and what it is called."""


@dataclass(frozen=True, eq=False, repr=False)
class LamProof:
    """A proof that no lam in a range has a much lower error in cross-validation.

    The error for a lam is the mean over the folds, each fitted exactly to the others. It was
    measured for some lams, and is bounded for all that lie between: see docs/proven-lam.md.

    Attributes
    ----------
    lam : float
        The lam that was chosen.
    error : float
        Its error.
    wanted : float
        How much lower the error of another lam was allowed to be.
    highs, lows, at_least : ndarray of shape (n_intervals,)
        Intervals that cover the range, the largest lams first, and what the error is at least in
        each of them.
    lams, errors : ndarray of shape (n_lams,)
        The lams that were fitted, decreasing, and their errors.
    measure : str
        What the error is.
    """

    lam: float
    error: float
    wanted: float
    highs: Vector
    lows: Vector
    at_least: Vector
    lams: Vector
    errors: Vector
    measure: str

    @property
    def proven(self) -> float:
        """How much lower the error of any other lam can be at most."""
        least = float(self.at_least.min())
        found = max(self.error - least, 0.0)
        # Shares of examples: a difference of 0.05 may come out as 0.05 and some last digits.
        rounding = _ROUNDING * (abs(self.error) + abs(least) + self.wanted)
        return self.wanted if abs(found - self.wanted) <= rounding else found

    @property
    def success(self) -> bool:
        """Whether as much was proven as was wanted."""
        return self.proven <= self.wanted

    def error_at_least(self, lam: float) -> float:
        """Return what the error of a lam in the range is at least.

        Raises
        ------
        ValueError
            If nothing is proven of this lam.
        """
        inside = (self.lows <= lam) & (lam <= self.highs)
        if not inside.any():
            raise ValueError(
                f"lam={lam:g} is not between {self.lows[-1]:g} and {self.highs[0]:g}, the range "
                "of the proof"
            )
        return float(self.at_least[inside].max())

    def plot(self) -> Any:
        """Return a matplotlib figure of the errors, their lower bounds, and what was discarded.

        Raises
        ------
        PlottingUnavailable
            If matplotlib is not installed.
        """
        return draw_lam_proof(
            np.append(self.highs, self.lows[-1]),
            self.at_least,
            self.lams,
            self.errors,
            chosen=(self.lam, self.error),
            threshold=self.error - self.wanted,
            title=f"lam = {self.lam:.3g}: no error is lower by more than {self._amount}",
            y_title=self.measure,
        )

    @property
    def _amount(self) -> str:
        """What no other lam is better by; rounded up, as a proof must not be overstated."""
        return f"{self.wanted if self.success else 1.01 * self.proven:.3g}"

    def __str__(self) -> str:
        return (
            f"lam = {self.lam:.3g}, {self.measure} {self.error:.4g}; no lam in "
            f"[{self.lows[-1]:.3g}, {self.highs[0]:.3g}] has one lower by more than {self._amount}"
        )

    def __repr__(self) -> str:
        return f"LamProof({self}; {len(self.lams)} lams fitted, {len(self.highs)} intervals)"
