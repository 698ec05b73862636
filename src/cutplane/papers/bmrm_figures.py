"""Figures 2 and 3 of paper 000, how BMRM converges, and the rates that are proven (paper 001).

The paper's data sets, astro-ph and reuters-ccat, are not public in its form. Two other sets of
texts take their place: Reuters-21578, one topic against the rest, and 20 Newsgroups, the first ten
groups against the others; and a9a, which is not text. As in the paper: hinge loss, no intercept,
and a gap that is absolute.

Pegasos in the batch setting takes projected subgradient steps of size ``1/(lam*t)``,

    w <- (1 - 1/t) w - R'(w) / (lam t),   then scaled back to |w| <= 1/sqrt(lam)

It is Algorithm 1 of paper 002 for a linear support vector machine. The ball holds the minimizer
only if ``R(0) <= 1`` and ``R >= 0``, as for the mean hinge loss. There is no lower bound, so
nothing says when to stop.

Lecture 001 shows the gap on RCV1, News20 and Worm; the data sets above take their place. With
slopes of the risk that are never longer than G, and second derivatives of the objective that are
never larger than H, the gap e falls in every step by at least

    hinge       e/2 * min(1, lam e / (4 G^2))      (paper 000, equation (11))
    logistic    lam e / (4 H)                      (equation (12), its last case)

It is J(0) at first, so a gap of eps takes at most log2(lam J(0) / G^2) + 8 G^2 / (lam eps) - 1
steps, or 4 H / lam * log(J(0) / eps). The first is the lecture's. The second takes the place of its
formula for smooth risks (paper 000, equation (14)), whose middle term has the sign that does not
follow from the steps. G is the mean norm of an example here, and H is lam plus a quarter of the
mean squared norm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import cutplane as cp
from cutplane.core.protocols import Risk
from cutplane.papers.experiment import Experiment, Progress, Row, first, load, minimize, settings
from cutplane.report.figures import Series, draw_curves
from cutplane.solvers.stochastic import Pass, PegasosSteps, StochasticRun, sgd

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


_FIGURES = [
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


_LOSSES = {"hinge": cp.Hinge(), "logistic": cp.Logistic()}
_RATE_LAMS = (1e-2, 1e-3, 1e-4)
_N_LEVELS = 50  # of the curves of proven steps


def proven_steps(
    gap: float, at_zero: float, lam: float, steepest: float, curved: float | None
) -> int:
    """Return after how many steps the gap is proven to be at most ``gap``.

    Parameters
    ----------
    gap : float
        Below ``4 steepest^2 / lam``.
    at_zero : float
        The objective at the start, which is no less than the first gap: risks are not negative.
    lam : float
    steepest : float
        The largest norm of a slope of the risk.
    curved : float or None
        The largest second derivative of the objective; None if it has kinks.
    """
    if curved is not None:
        return math.ceil(4.0 * curved / lam * max(math.log(at_zero / gap), 0.0))
    squared = steepest**2
    halvings = max(math.log2(lam * at_zero / squared), 0.0)
    return math.ceil(halvings + 8.0 * squared / (lam * gap) - 1.0)


def _rows(progress: Progress) -> Iterator[Row]:
    for data, loss, lam in settings(progress, data=DATA, loss=_LOSSES, lam=_RATE_LAMS):
        X, y = load(DATA[data][0])
        risk = cp.ScoredRisk(X, y, _LOSSES[loss], intercept=False)
        norms = risk.rows.squared_norms()
        steepest = float(np.sqrt(norms).mean())
        curved = lam + float(norms.mean()) / 4.0 if loss == "logistic" else None
        at_zero = risk.at(np.zeros(risk.n_parameters)).value
        stop = cp.Gap(absolute=min(_GAPS))
        method = cp.bmrm(line_search=False)
        result = minimize(risk, cp.L2(lam), method=method, stop=stop, max_iter=2000)
        gaps = [record.gap for record in result.history]
        highest = 0.99 * min(at_zero, 4.0 * steepest**2 / lam)
        levels = np.geomspace(highest, min(_GAPS), _N_LEVELS).tolist()
        steps = [proven_steps(level, at_zero, lam, steepest, curved) for level in levels]
        yield {
            "data": data,
            "loss": loss,
            "panel": f"{data}, {loss}",
            "lam": lam,
            **{f"to_{level:g}": first(gap <= level for gap in gaps) for level in _GAPS},
            "proven": steps[-1],
            "status": str(result.status),
            "gaps": gaps,
            "levels": levels,
            "steps": steps,
        }


def _picture(rows: Sequence[Row]) -> Any:
    line = Series("gaps", "gap", x_scale="log")
    figure = draw_curves(rows, [line], panel="panel", label="lam", scale="log", wrap=2)
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    for name, axes in zip(panels, figure.axes, strict=False):
        own = [row for row in rows if row["panel"] == name]
        for row, curve in zip(own, axes.get_lines(), strict=True):
            color = curve.get_color()
            axes.plot(row["steps"], row["levels"], color=color, ls="--", lw=1.0)
    return figure


_RATES = [
    Experiment(
        name="rates-001",
        title="Paper 001: the gap of BMRM against iterations, beside the proven rates",
        paper=(
            "The lecture proves 1/eps steps for losses with kinks and log(1/eps) for smooth ones. "
            "Its plots are of RCV1, News20 and Worm."
        ),
        run=_rows,
        columns={
            "data": "data",
            "loss": "loss",
            "lam": "lam",
            **{f"to_{level:g}": f"iterations to gap {level:g}" for level in _GAPS},
            "proven": f"proven for {min(_GAPS):g}",
        },
        picture=_picture,
    ),
]

EXPERIMENTS = [*_FIGURES, *_RATES]
