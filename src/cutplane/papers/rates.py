"""The gap of BMRM against iterations, beside the rates that are proven (paper 001, its last plots).

Lecture 001 shows the gap on RCV1, News20 and Worm. The data sets of `bmrm_figures` take their
place. With slopes of the risk that are never longer than G, and second derivatives of the objective
that are never larger than H, the gap e falls in every step by at least

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
from cutplane.papers.bmrm_figures import DATA
from cutplane.papers.data import load
from cutplane.papers.experiment import Experiment, Progress, Row, first, minimize, settings
from cutplane.report.figures import Series, draw_curves

_LOSSES = {"hinge": cp.Hinge(), "logistic": cp.Logistic()}
_LAMS = (1e-2, 1e-3, 1e-4)
_GAPS = (1e-1, 1e-2, 1e-3)
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
    for data, loss, lam in settings(progress, data=DATA, loss=_LOSSES, lam=_LAMS):
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


EXPERIMENTS = [
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
