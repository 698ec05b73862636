"""Stochastic steps with reduced variance, with their compiled loop.

Compiled passes of steps whose variance is reduced, at the cost of the entries of a row.

    w <- w - eta * (lam w + importance_i (q_i - q_i') x_i + a)

with ``q_i'`` the slope of example ``i`` at a reference point and ``a`` the slope of the risk there.
The iterate is kept as ``scale * v + shift * a``, so that ``a``, which has no zeros, costs nothing:
its products with the rows, ``X a``, are known beforehand.

Stochastic variance-reduced gradients, certified: a comparator for smooth losses.

R. Johnson, T. Zhang: Accelerating stochastic gradient descent using predictive variance reduction,
2013. Each pass begins with an evaluation of the whole risk, whose plane is also one of the bundle,
and then takes a step on each example, along its slope less the one it had at that point plus the
slope of the risk there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import fetch, njit
from cutplane.core.needs import PLAIN_L2, Need
from cutplane.core.solver import Solver, Step
from cutplane.core.state import Problem, Run
from cutplane.losses.score_loss import EXPONENTIAL, LOGISTIC, POISSON
from cutplane.solvers.bundle import checked_planes
from cutplane.solvers.dual_ascent import shuffle
from cutplane.solvers.needs import ROWS_IN_MEMORY
from cutplane.solvers.row_products import add_row, entries_of, row_product
from cutplane.solvers.stochastic.loops import (
    IMPORTANCE,
    LENGTH,
    SLOPE,
    TARGET,
    IndexVector,
    slope_of,
)
from cutplane.solvers.stochastic.settings import seeded, until_hurried

_LEAST_SCALE = 1e-6


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def multiply_out(v: Vector, slope_there: Vector, scale: float, shift: float) -> None:
    """Replace ``v`` by the iterate."""
    for j in range(len(v)):
        v[j] = scale * v[j] + shift * slope_there[j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def svrg_epoch(
    values: NDArray[Any], indices: NDArray[Any], starts: NDArray[Any],
    facts: Matrix, form: int, shape: Matrix, order: IndexVector,
    products: Vector, slope_there: Vector, lam: float, eta: float, offset: float, v: Vector,
    factors: Vector,
) -> None:  # fmt: skip
    """Take a step on each example in ``order``.

    Before and afterwards the iterate is ``factors[0] * v + factors[1] * slope_there``.

    ``facts`` are as for `loops.epoch`, with the slopes at the reference point. ``products`` are
    those of the rows with ``slope_there``, the slope of the risk at that point.
    """
    width = np.uint64(len(v))
    dense = len(indices) == 0
    scale, shift = factors
    for k in range(len(order)):
        i = order[k]
        if k + 1 < len(order):
            # The next row is on its way while this one is worked on. (Time of an epoch beside that
            # without: news20_ng 0.75, reuters_lasvm 0.75, a9a 0.6.)
            coming = order[k + 1]
            begin = np.uint64(coming) * width if dense else np.uint64(starts[coming])
            if not dense:
                fetch(indices, begin)
            fetch(values, begin)
            fetch(values, begin + np.uint64(8))
            fetch(facts, coming * facts.shape[1])
            fetch(products, coming)
        first = np.uint64(i) * width if dense else np.uint64(starts[i])
        last = first + width if dense else np.uint64(starts[i + 1])
        score = scale * row_product(values, indices, first, last, v) + shift * products[i]
        slope = slope_of(form, shape, facts[i, TARGET], score + offset)
        scale *= 1.0 - eta * lam
        shift = (1.0 - eta * lam) * shift - eta
        change = -eta * facts[i, IMPORTANCE] * (slope - facts[i, SLOPE])
        if change != 0.0 and facts[i, LENGTH] > 0.0:
            add_row(values, indices, first, last, change / scale, v)
        if scale < _LEAST_SCALE:
            multiply_out(v, slope_there, scale, shift)
            scale, shift = 1.0, 0.0
    factors[0], factors[1] = scale, shift


# Steps are this share of one over the steepest curvature of an example's objective.
_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Reference:
    """Where the next pass begins, and the seed of its order."""

    w: Vector
    seed: Any
    objective: float = math.nan


@dataclass(frozen=True, slots=True)
class VarianceReducedPasses(Solver[Reference]):
    """An evaluation and a pass of steps with reduced variance.

    Parameters
    ----------
    size : float or None
        The size of steps; None for a quarter of one over the steepest curvature.
    seed : int
        Of the random order.
    planes : int or None
        How many planes are combined, besides the aggregated one; None for all.
    """

    needs = (
        Need("risk", "map.plain", "a linear risk"),
        ROWS_IN_MEMORY,
        Need("risk", "loss.slope_form", "a loss that compiled steps know"),
        Need("risk", "loss.smooth", "a smooth loss"),
        PLAIN_L2,
    )
    size: float | None = None
    seed: int = 0
    planes: int | None = 50
    name: str = "svrg"

    def start(self, problem: Problem) -> Reference:
        """Return where to begin: at zero."""
        return Reference(np.zeros(problem.risk.n_parameters), seeded(self.seed))

    def step(self, run: Run, own: Reference) -> Step[Reference]:
        """Evaluate the risk where the last pass ended, and take one from there."""
        risk: Any = run.problem.risk
        lam: float = run.problem.regularizer.lam  # type: ignore[attr-defined]
        point = risk.at(own.w)
        used: IndexVector = np.flatnonzero(risk.weights)
        importance, norms = len(used) * risk.weights, risk.rows.squared_norms()
        eta = self.size or _SHARE / (lam + _curvature(risk) * float((importance * norms).max()))
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
        after = replace(own, w=w, objective=run.problem.objective(point))
        return Step([point], after, cut_at=[point], moved=True)


def _curvature(risk: Any) -> float:
    """Return the steepest second derivative of the loss by a score."""
    kind, shape = risk.loss.slope_form
    if kind in (EXPONENTIAL, POISSON):
        raise ValueError(f"the curvature of {risk.loss!r} is not bounded: give svrg a step")
    return 0.25 if kind == LOGISTIC else float(shape[:, 1].max())


def svrg(*, step: float | None = None, seed: int = 0, planes: int = 50) -> VarianceReducedPasses:
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
    return VarianceReducedPasses(step, seed, checked_planes(planes))
