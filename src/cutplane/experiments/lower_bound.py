"""The instance of paper 001 on which BMRM needs at least 2/(3 eps) steps.

With ``m`` examples, ``m + 1`` parameters and lam = 1,

    J(w) = |w|^2/2 + 1/m sum_i max(0, 1 - sqrt(m) w_0 - m w_i),      min J = 1/(4m).

From ``w = (1/sqrt(m), 0, ..., 0)`` on, all examples are at the kink of their hinge. If the oracle
answers with the subgradient of a single new one each time, the t-th candidate is
``(1/sqrt(m), 1/t, ..., 1/t, 0, ..., 0)`` with objective ``1/(2m) + 1/(2t)``, and the lower bound
is ``1/(2m) - 1/(2t)``.

For ``m = 1/eps`` the distance from the optimum, ``1/(4m) + 1/(2t)``, is above eps for all
``t < 2/(3 eps)``: the theorem. (The lecture writes ``m = 2/eps``, for which the same calculation
gives ``4/(7 eps)``.) The start itself is nearly optimal; the theorem is about the points that
follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import cutplane as cp
from cutplane.core.protocols import Risk, Vector
from cutplane.experiments.experiment import Experiment, Progress, Row, first, uninterrupted
from cutplane.report.figures import new_figure, tidy

_EPSILONS = (0.1, 0.03, 0.01, 0.003)

# Hinges this close to their kink are at it, but for rounding.
_KINK = 1e-9


class _Variant(NamedTuple):
    """A method, and what it is told about the problem."""

    name: str
    method: cp.Method
    adversary: bool = True
    floor: bool = False


# A method that should be compared is one line here.
_VARIANTS = (
    _Variant("BMRM", cp.bmrm(line_search=False)),
    _Variant("BMRM, 10 planes", cp.bmrm(line_search=False, planes=10)),
    _Variant("BMRM, told that R >= 0", cp.bmrm(line_search=False), floor=True),
    _Variant("BMRM, a usual subgradient", cp.bmrm(line_search=False), adversary=False),
    _Variant("with line search, a usual subgradient", cp.bmrm(), adversary=False),
    _Variant(
        "with groups, a usual subgradient",
        cp.bmrm(line_search=False, groups=16),
        adversary=False,
    ),
)


def starting_point(m: int) -> Vector:
    """Return the point of the theorem, at which all examples are at the kink."""
    w = np.zeros(m + 1)
    w[0] = 1.0 / np.sqrt(m)
    return w


def adversary(m: int, *, floor: bool) -> cp.FunctionRisk:
    """Return the risk with the least helpful subgradients: at kinks, that of one example."""

    def mean_hinge(w: Vector) -> tuple[float, Vector]:
        hinges = 1.0 - np.sqrt(m) * w[0] - m * w[1:]
        active = np.flatnonzero(hinges > _KINK)
        value = float(hinges[active].sum()) / m
        if not len(active):
            active = np.flatnonzero(hinges >= -_KINK)[:1]
        slope = np.zeros(m + 1)
        slope[0] = -len(active) / np.sqrt(m)
        slope[1 + active] = -1.0
        return value, slope

    return cp.FunctionRisk(mean_hinge, m + 1, lower_bound=0.0 if floor else -np.inf)


def linear_risk(m: int) -> cp.LinearRisk:
    """Return the same risk made of data, with the subgradients of the library's hinge loss."""
    signs = np.where(np.arange(m) % 2 == 0, 1.0, -1.0)
    first = scipy.sparse.csr_array(np.sqrt(m) * signs[:, None])
    X = scipy.sparse.hstack([first, scipy.sparse.diags_array(m * signs)], format="csr")
    return cp.LinearRisk(X, signs, cp.Hinge(), intercept=False)


class _Watched:
    """A risk that keeps the objectives of all candidates, where a method evaluates it."""

    def __init__(self, risk: Any) -> None:
        self._risk = risk
        self.objectives: list[float] = []

    def at(self, w: Vector) -> Any:
        point = self._risk.at(w)
        self.objectives.append(0.5 * float(w @ w) + point.value)
        return point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._risk, name)


def run_variant(variant: _Variant, eps: float) -> Row:
    """Return how many steps a method takes on the instance for ``eps``."""
    m = round(1.0 / eps)
    inner: Risk = adversary(m, floor=variant.floor) if variant.adversary else linear_risk(m)
    risk = _Watched(inner)
    enough = 1.0 / (4.0 * m) + eps
    result = uninterrupted(
        cp.minimize(
            risk,
            cp.L2(1.0),
            method=variant.method,
            stop=cp.Gap(absolute=1e-3 * eps),
            start=starting_point(m),
            max_iter=2 * m,
            callbacks=[lambda state: state.gap <= eps and min(risk.objectives[1:]) <= enough],
        )
    )
    candidates = risk.objectives[1 : 1 + result.iterations]  # not the start, nor the final check
    return {
        "eps": eps,
        "method": variant.name,
        "theorem": 2.0 / (3.0 * eps),
        "steps": first(objective <= enough for objective in candidates),
        "iterations": first(record.gap <= eps for record in result.history),
        "status": str(result.status),
    }


def _run(progress: Progress) -> Iterator[Row]:
    total, done = len(_EPSILONS) * len(_VARIANTS), 0
    for eps in _EPSILONS:
        for variant in _VARIANTS:
            progress(done / total, f"eps = {eps:g}, {variant.name}")
            yield run_variant(variant, eps)
            done += 1


def _picture(rows: Sequence[Row]) -> Any:
    figure = new_figure((8.0, 5.0))
    axes = figure.subplots()
    for name in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == name and row["iterations"]]
        axes.loglog(
            [1 / row["eps"] for row in own],
            [row["iterations"] for row in own],
            marker="o",
            label=name,
        )
    inverse = sorted({1 / row["eps"] for row in rows})
    axes.loglog(inverse, [x / 2 for x in inverse], color="0.6", ls=":", label="1/(2 eps)")
    axes.set_xlabel("1/eps")
    axes.set_ylabel("iterations to a gap of eps")
    axes.legend(frameon=False, fontsize=8)
    tidy(axes)
    return figure


EXPERIMENTS = (
    Experiment(
        name="lower-bound",
        title="Paper 001: an instance on which BMRM needs 2/(3 eps) steps",
        paper=(
            "The paper proves that no step before 2/(3 eps) brings BMRM within eps of the "
            "optimum. It is about the plain method, and a subgradient of the adversary's choice."
        ),
        run=_run,
        columns={
            "eps": "eps",
            "method": "method",
            "theorem": "paper: steps >=",
            "steps": "steps to J - J* <= eps",
            "iterations": "iterations to gap <= eps",
        },
        picture=_picture,
    ),
)
