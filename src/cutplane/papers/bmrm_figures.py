"""Figures 2 and 3 of paper 000: how BMRM converges on text, and beside Pegasos.

The paper's data sets, astro-ph and reuters-ccat, are not public in its form. Two other sets of
texts take their place: Reuters-21578, one topic against the rest, and 20 Newsgroups, the first ten
groups against the others; and a9a, which is not text. As in the paper: hinge loss, no intercept,
and a gap that is absolute.

Pegasos in the batch setting takes projected subgradient steps of size ``1/(lam*t)``,

    w <- (1 - 1/t) w - R'(w) / (lam t),   then scaled back to |w| <= 1/sqrt(lam)

It is Algorithm 1 of paper 002 for a linear support vector machine. The ball holds the minimizer
only if ``R(0) <= 1`` and ``R >= 0``, as for the mean hinge loss. There is no lower bound, so
nothing says when to stop.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import cutplane as cp
from cutplane.core.protocols import Risk
from cutplane.papers.data import load
from cutplane.papers.experiment import Experiment, Progress, Row, first, minimize, settings
from cutplane.report.figures import Series, draw_curves
from cutplane.solvers.sgd import Pass, PegasosSteps, StochasticRun, sgd

# The name of each data set, and its lam for Figure 3, as in paper 000: 1e-4 for reuters-ccat and
# 2e-4 for astro-ph.
DATA = {
    "Reuters": ("reuters_lasvm", 1e-4),
    "20 Newsgroups": ("news20_ng", 2e-4),
    "a9a": ("a9a", 1e-4),
}

_LAMS = (1e-2, 1e-3, 1e-4, 1e-5)
_GAPS = (1e-1, 1e-2, 1e-3)

_GOAL = 1e-3  # the black line of Figure 3
_PEGASOS_STEPS = 500

# A method that should be compared is one line here.
_METHODS = {
    "BMRM": cp.bmrm(line_search=False),
    "BMRM without a QP": cp.bmrm_without_qp(),
    "BMRM with line search": cp.bmrm(),
}


def pegasos(risk: Risk, lam: float, *, steps: int) -> StochasticRun:
    """Minimize ``lam/2 |w|^2 + risk(w)`` from ``w = 0``, with so many subgradient steps."""
    return sgd(
        risk,
        cp.L2(lam),
        passes=steps,
        batch_size=None,
        rule=PegasosSteps(),
        radius=1.0 / math.sqrt(lam),
    )


def _risk(data: str) -> cp.ScoredRisk:
    X, y = load(DATA[data][0])
    return cp.ScoredRisk(X, y, cp.Hinge(), intercept=False)


def _fit(risk: cp.ScoredRisk, lam: float, method: cp.Solver[Any], gap: float) -> cp.Result:
    stop = cp.Gap(absolute=gap)
    return minimize(risk, cp.L2(lam), method=method, stop=stop, max_iter=2000)


def _gap_rows(progress: Progress) -> Iterator[Row]:
    for data, lam in settings(progress, data=DATA, lam=_LAMS):
        result = _fit(_risk(data), lam, _METHODS["BMRM"], min(_GAPS))
        gaps = [record.gap for record in result.history]
        yield {
            "data": data,
            "lam": lam,
            **{f"to_{level:g}": first(gap <= level for gap in gaps) for level in _GAPS},
            "status": str(result.status),
            "gaps": gaps,
        }


def _gap_picture(rows: Sequence[Row]) -> Any:
    return draw_curves(rows, [Series("gaps", "gap")], panel="data", label="lam", scale="log")


def _objective_rows(progress: Progress) -> Iterator[Row]:
    optima: dict[str, float] = {}
    for data, method in settings(progress, data=DATA, method=[*_METHODS, "Pegasos"]):
        risk, lam = _risk(data), DATA[data][1]
        if data not in optima:
            exact = _fit(risk, lam, cp.dual_ascent(), _GOAL / 1000)
            optima[data] = exact.certificate.lower_bound
        target = optima[data] + _GOAL
        history: Sequence[Pass | cp.Record]
        if method == "Pegasos":
            history = pegasos(risk, lam, steps=_PEGASOS_STEPS).history
            objectives = [step.lowest for step in history]
        else:
            history = _fit(risk, lam, _METHODS[method], _GOAL / 10).history
            objectives = [step.objective for step in history]
        reached = first(objective <= target for objective in objectives)
        yield {
            "data": data,
            "lam": lam,
            "method": method,
            "iterations": reached,
            "seconds": history[reached - 1].seconds if reached else None,
            "objective": objectives[-1],
            "optimum": optima[data],
            "objectives": objectives,
            "times": [step.seconds for step in history],
        }


def _objective_picture(rows: Sequence[Row]) -> Any:
    lines = [
        Series("objectives", "objective", x="times", x_title="seconds", x_scale="log"),
        Series("objectives", "objective", x_scale="log"),
    ]
    figure = draw_curves(rows, lines, panel="data", label="method", scale="log")
    levels = {row["data"]: row["optimum"] + _GOAL for row in rows}
    for axes, level in zip(figure.axes, [*levels.values()] * len(lines), strict=True):
        axes.axhline(level, color="black", lw=0.8)
    return figure


EXPERIMENTS = [
    Experiment(
        name="fig2-000",
        title="Paper 000, Figure 2: the gap of BMRM against iterations, for several lam",
        paper=(
            "The paper's curves are straight on a logarithmic scale: the rate is linear, better "
            "than the proven 1/eps. The smaller lam, the more iterations."
        ),
        run=_gap_rows,
        columns={
            "data": "data",
            "lam": "lam",
            **{f"to_{level:g}": f"iterations to gap {level:g}" for level in _GAPS},
        },
        picture=_gap_picture,
    ),
    Experiment(
        name="fig3-000",
        title="Paper 000, Figure 3: the objective of BMRM and of Pegasos against time",
        paper=(
            "In the paper BMRM is within 0.001 of the optimum before Pegasos (batch setting), "
            "on both of its data sets."
        ),
        run=_objective_rows,
        columns={
            "data": "data",
            "lam": "lam",
            "method": "method",
            "iterations": "iterations to J* + 0.001",
            "seconds": "seconds",
            "objective": "last J",
            "optimum": "J*",
        },
        picture=_objective_picture,
    ),
]
