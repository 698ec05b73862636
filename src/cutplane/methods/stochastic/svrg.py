"""Stochastic variance-reduced gradients, certified: a comparator for smooth losses.

R. Johnson, T. Zhang: Accelerating stochastic gradient descent using predictive variance reduction,
2013. Each pass begins with an evaluation of the whole risk, whose plane is also one of the bundle,
and then takes a step on each example, along its slope less the one it had at that point plus the
slope of the risk there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.core.method import Found, Method, Query
from cutplane.core.needs import PLAIN_L2, Need
from cutplane.core.state import Candidate, Problem, State
from cutplane.losses.score_loss import EXPONENTIAL, LOGISTIC, POISSON
from cutplane.methods.ascent.coordinate_kernels import IndexVector, shuffle
from cutplane.methods.bundle import with_query
from cutplane.methods.needs import ROWS_IN_MEMORY
from cutplane.methods.row_products import entries_of
from cutplane.methods.stochastic.pieces import until_hurried
from cutplane.methods.stochastic.settings import seeded
from cutplane.methods.stochastic.svrg_kernels import multiply_out, svrg_epoch

# Steps are this share of one over the steepest curvature of an example's objective.
_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Reference:
    """Where the next pass begins, and the seed of its order."""

    w: Vector
    seed: Any
    objective: float = math.nan


@dataclass(frozen=True, slots=True)
class VarianceReducedPasses(Query[Reference]):
    """Query by an evaluation and a pass of steps with reduced variance.

    Parameters
    ----------
    step : float or None
        The size of steps; None for a quarter of one over the steepest curvature.
    seed : int
        Of the random order.
    """

    needs = (
        Need("risk", "map.plain", "a linear risk"),
        ROWS_IN_MEMORY,
        Need("risk", "loss.slope_form", "a loss that compiled steps know"),
        Need("risk", "loss.smooth", "a smooth loss"),
        PLAIN_L2,
    )
    restless: ClassVar[bool] = True
    step: float | None = None
    seed: int = 0

    def init(self, problem: Problem) -> Reference:
        """Return where to begin: at zero."""
        return Reference(np.zeros(problem.risk.n_parameters), seeded(self.seed))

    def __call__(
        self, state: State, candidate: Candidate, own: Reference
    ) -> tuple[Found, Reference]:
        """Evaluate the risk where the last pass ended, and take one from there."""
        risk: Any = state.problem.risk
        lam: float = state.problem.regularizer.lam  # type: ignore[attr-defined]
        point = risk.at(own.w)
        used: IndexVector = np.flatnonzero(risk.weights)
        importance, norms = len(used) * risk.weights, risk.rows.squared_norms()
        eta = self.step or _SHARE / (lam + _curvature(risk) * float((importance * norms).max()))
        slopes = np.divide(
            point.slopes, risk.weights, out=np.zeros(len(risk.y)), where=risk.weights > 0.0
        )
        kind, shape = risk.loss.slope_form
        facts = np.column_stack([risk.y, importance, norms, slopes])
        there = point.plane().slope
        w = own.w.copy()
        shuffle(used, own.seed)
        entries, products = entries_of(risk.rows), risk.rows.scores(there)
        factors = np.array([1.0, 0.0])
        for piece in until_hurried(used, risk.rows.n_entries):
            svrg_epoch(
                *entries, facts, kind, shape, piece, products, there, lam, eta,
                float(point.offset), w, factors,
            )  # fmt: skip
        multiply_out(w, there, *factors)
        objective = state.problem.objective(point)
        return Found([point], [point]), replace(own, w=w, objective=objective)


def _curvature(risk: Any) -> float:
    """Return the steepest second derivative of the loss by a score."""
    kind, shape = risk.loss.slope_form
    if kind in (EXPONENTIAL, POISSON):
        raise ValueError(f"the curvature of {risk.loss!r} is not bounded: give svrg a step")
    return 0.25 if kind == LOGISTIC else float(shape[:, 1].max())


def svrg(*, step: float | None = None, seed: int = 0, planes: int = 50) -> Method:
    """Gradient steps on single examples whose variance is reduced, for smooth losses.

    A method to compare with; each pass gives a plane, and so a certificate.

    Parameters
    ----------
    step : float, optional
        The size of steps. By default it follows from the steepest curvature of the loss.
    seed : int
        Of the random order.
    planes : int
        Size of the bundle, besides the aggregated plane.
    """
    if step is not None and not 0.0 < step < math.inf:
        raise ValueError(f"step must be positive and finite, got {step!r}")
    query = VarianceReducedPasses(step, seed)
    return with_query(query, planes=planes, name="svrg")
