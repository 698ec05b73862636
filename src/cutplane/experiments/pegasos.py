"""Pegasos in the batch setting: projected subgradient steps of size ``1/(lam*t)``.

    w <- (1 - 1/t) w - R'(w) / (lam t),   then scaled back to |w| <= 1/sqrt(lam)

It is Algorithm 1 of paper 002 for a linear support vector machine, and what paper 000, Figure 3,
compares BMRM with. The ball holds the minimizer only if ``R(0) <= 1`` and ``R >= 0``, as for the
mean hinge loss. There is no lower bound, so nothing says when to stop.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np

from cutplane.compute.products import dot
from cutplane.core.protocols import Risk


class Step(NamedTuple):
    """A step of a subgradient method: the best objective so far, and what it cost."""

    iteration: int
    objective: float
    seconds: float


def pegasos(risk: Risk, lam: float, *, steps: int) -> list[Step]:
    """Minimize ``lam/2 |w|^2 + risk(w)`` from ``w = 0``, with so many subgradient steps."""
    start = time.perf_counter()
    radius = 1.0 / math.sqrt(lam)
    w, best = np.zeros(risk.n_parameters), np.inf
    history = []
    for t in range(1, steps + 1):
        point = risk.at(w)
        best = min(best, 0.5 * lam * dot(w, w) + point.value)
        history.append(Step(t, best, time.perf_counter() - start))
        w = (1.0 - 1.0 / t) * w - point.plane().slope / (lam * t)
        w *= radius / max(math.sqrt(dot(w, w)), radius)
    return history
