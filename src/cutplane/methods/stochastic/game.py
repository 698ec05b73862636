"""A problem as a repeated game: the constants that the sizes of stochastic steps come from.

The minimizer is in a ball: from ``R(0) >= R(w*) + a.(0 - w*)`` and ``a = -lam w*`` it follows that
``lam |w*|^2 <= R(0) - R(w*)``. For the mean hinge loss that is the paper's ``1/sqrt(lam)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.losses.score_loss import LOGISTIC, MARGIN_PIECES, RESIDUAL_PIECES
from cutplane.methods.stochastic.settings import Settings


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
