"""Bundle methods on risks that are convex: figures of papers 000 and 002, and the rates of 001.

**Figures 2 and 3 of paper 000**: how BMRM converges. The paper's data sets, astro-ph and
reuters-ccat, are not public in its form. Two other sets of texts take their place: Reuters-21578,
one topic against the rest, and 20 Newsgroups, the first ten groups against the others; and a9a,
which is not text. As in the paper: hinge loss, no intercept, and a gap that is absolute.

Pegasos in the batch setting takes projected subgradient steps of size ``1/(lam*t)``,

    w <- (1 - 1/t) w - R'(w) / (lam t),   then scaled back to |w| <= 1/sqrt(lam)

It is Algorithm 1 of paper 002 for a linear support vector machine. The ball holds the minimizer
only if ``R(0) <= 1`` and ``R >= 0``, as for the mean hinge loss. There is no lower bound, so
nothing says when to stop.

**Rates of paper 001.** The lecture shows the gap on RCV1, News20 and Worm; the data sets above take
their place. With slopes of the risk that are never longer than G, and second derivatives of the
objective that are never larger than H, the gap e falls in every step by at least

    hinge       e/2 * min(1, lam e / (4 G^2))      (paper 000, equation (11))
    logistic    lam e / (4 H)                      (equation (12), its last case)

It is J(0) at first, so a gap of eps takes at most log2(lam J(0) / G^2) + 8 G^2 / (lam eps) - 1
steps, or 4 H / lam * log(J(0) / eps). The first is the lecture's. The second takes the place of its
formula for smooth risks (paper 000, equation (14)), whose middle term has the sign that does not
follow from the steps. G is the mean norm of an example here, and H is lam plus a quarter of the
mean squared norm.

**The instance of paper 001** on which BMRM needs at least 2/(3 eps) steps. With ``m`` examples,
``m + 1`` parameters and lam = 1,

    J(w) = |w|^2/2 + 1/m sum_i max(0, 1 - sqrt(m) w_0 - m w_i),      min J = 1/(4m).

From ``w = (1/sqrt(m), 0, ..., 0)`` on, all examples are at the kink of their hinge. If the oracle
answers with the subgradient of a single new one each time, the t-th candidate is
``(1/sqrt(m), 1/t, ..., 1/t, 0, ..., 0)`` with objective ``1/(2m) + 1/(2t)``, and the lower bound
is ``1/(2m) - 1/(2t)``.

For ``m = 1/eps`` the distance from the optimum, ``1/(4m) + 1/(2t)``, is above eps for all
``t < 2/(3 eps)``: the theorem. (The lecture writes ``m = 2/eps``, for which the same calculation
gives ``4/(7 eps)``.) The start itself is nearly optimal; the theorem is about the points that
follow.

**Figure 3 of paper 002**: the standard and the proximal method, on RNA and on web ranking.

    J(w) = lam/2 |w|^2 + R(w),   the best objective against iterations, for several lam

*RNA folding*, its left column. The sequences are those of the paper, 151 of 151 families. The
paper's features are not published in full ("approximately 350, based largely on existing
thermodynamic scoring schemes"); those of `cutplane.RNAFolding` are of that kind. The structures of
the data set that is used here are not those of the paper: see docs/rna.md. So objectives cannot be
compared with the paper's curves, the order of the methods can.

*Web ranking*, its right column. The paper's 1000 queries are not public. The training part of the
first fold of LETOR's MQ2008 takes their place: 471 queries, 9630 documents, 46 features. As in the
paper, the loss is the structured bound on NDCG of Chapelle, Le and Smola (2007); the length of its
list, 10, is our choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import cutplane as cp
from cutplane.compute.arrays import Vector
from cutplane.core.protocols import Plane, Quadratic, Risk, along
from cutplane.core.search import minimize_on_ray
from cutplane.models.rna.model import read_structures
from cutplane.papers.experiment import (
    Progress,
    Row,
    experiment,
    first,
    folder_of,
    load,
    load_letor,
    minimize,
    settings,
)
from cutplane.report.figures import Series, draw_curves, finish_axes, new_figure
from cutplane.solvers.stochastic import Pass, PegasosSteps, StochasticRun, sgd

# The name of each data set, and its lam for Figure 3, as in paper 000: 1e-4 for reuters-ccat and
# 2e-4 for astro-ph.
DATA = {
    "Reuters": ("reuters_lasvm", 1e-4),
    "20 Newsgroups": ("news20_ng", 2e-4),
    "a9a": ("a9a", 1e-4),
}

_GOAL = 1e-3  # the black line of Figure 3 of paper 000, and the last gap of the other figures

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


def _risk(data: str, loss: cp.Loss) -> cp.ScoredRisk:
    X, y = load(DATA[data][0])
    return cp.ScoredRisk(X, y, loss, intercept=False)


def _fit(risk: cp.ScoredRisk, lam: float, method: cp.Solver[Any], gap: float) -> cp.Result:
    stop = cp.Gap(absolute=gap)
    return minimize(risk, cp.L2(lam), method=method, stop=stop, max_iter=2000)


def _gaps(risk: cp.ScoredRisk, lam: float) -> Row:
    """Return the gaps of BMRM, and how many iterations it took to some of them."""
    result = _fit(risk, lam, _METHODS["BMRM"], _GOAL)
    gaps = [record.gap for record in result.history]
    levels = {f"to_{goal:g}": first(gap <= goal for gap in gaps) for goal in (0.1, 0.01, _GOAL)}
    return {"lam": lam, **levels, "status": str(result.status), "gaps": gaps}


def _gap_rows(progress: Progress) -> Iterator[Row]:
    for data, lam in settings(progress, data=DATA, lam=(1e-2, 1e-3, 1e-4, 1e-5)):
        yield {"data": data, **_gaps(_risk(data, cp.Hinge()), lam)}


def _gap_picture(rows: Sequence[Row]) -> Any:
    return draw_curves(rows, [Series("gaps", "gap")], panel="data", label="lam", scale="log")


def _objective_rows(progress: Progress) -> Iterator[Row]:
    optima: dict[str, float] = {}
    for data, method in settings(progress, data=DATA, method=[*_METHODS, "Pegasos"]):
        risk, lam = _risk(data, cp.Hinge()), DATA[data][1]
        if data not in optima:
            exact = _fit(risk, lam, cp.dual_ascent(), _GOAL / 1000)
            optima[data] = exact.certificate.lower_bound
        target = optima[data] + _GOAL
        history: Sequence[Pass | cp.Record]
        if method == "Pegasos":
            history = pegasos(risk, lam, steps=500).history
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


def _rate_rows(progress: Progress) -> Iterator[Row]:
    losses = {"hinge": cp.Hinge(), "logistic": cp.Logistic()}
    for data, loss, lam in settings(progress, data=DATA, loss=losses, lam=(1e-2, 1e-3, 1e-4)):
        risk = _risk(data, losses[loss])
        norms = risk.rows.squared_norms()
        steepest = float(np.sqrt(norms).mean())
        curved = lam + float(norms.mean()) / 4.0 if loss == "logistic" else None
        at_zero = risk.at(np.zeros(risk.n_parameters)).value
        highest = 0.99 * min(at_zero, 4.0 * steepest**2 / lam)
        levels = np.geomspace(highest, _GOAL, 50).tolist()
        steps = [proven_steps(level, at_zero, lam, steepest, curved) for level in levels]
        yield {
            "data": data,
            "loss": loss,
            "panel": f"{data}, {loss}",
            **_gaps(risk, lam),
            "proven": steps[-1],
            "levels": levels,
            "steps": steps,
        }


def _rate_picture(rows: Sequence[Row]) -> Any:
    line = Series("gaps", "gap", x_scale="log")
    figure = draw_curves(rows, [line], panel="panel", label="lam", scale="log", wrap=2)
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    for name, axes in zip(panels, figure.axes, strict=False):
        own = [row for row in rows if row["panel"] == name]
        for row, curve in zip(own, axes.get_lines(), strict=True):
            color = curve.get_color()
            axes.plot(row["steps"], row["levels"], color=color, ls="--", lw=1.0)
    return figure


class Variant(NamedTuple):
    """A method, and whether it is told that the risk is not negative."""

    name: str
    method: cp.Solver[Any]
    floor: bool = False


# A method that should be compared is one line here.
VARIANTS = (
    Variant("BMRM", cp.bmrm(line_search=False)),
    Variant("BMRM, 10 planes", cp.bmrm(line_search=False, planes=10)),
    Variant("BMRM without a QP", cp.bmrm_without_qp()),
    Variant("BMRM with line search", cp.bmrm()),
    Variant("proximal", cp.proximal(line_search=False)),
    Variant("trust region", cp.trust_region(line_search=False)),
    Variant("level", cp.level(line_search=False)),
    Variant("BMRM, 16 groups of examples", cp.bmrm(line_search=False, groups=16)),
    Variant("BMRM, told that R >= 0", cp.bmrm(line_search=False), floor=True),
)


def starting_point(m: int) -> Vector:
    """Return the point of the theorem, at which all examples are at the kink."""
    w = np.zeros(m + 1)
    w[0] = 1.0 / np.sqrt(m)
    return w


class HardRisk:
    """The mean hinge loss of ``m`` examples, with the least helpful subgradients.

    Where no hinge is above zero, the subgradient is that of the first example at its kink.
    ``candidates`` are the objectives of all points where a method evaluated the risk.
    """

    convex = True

    def __init__(self, m: int, *, floor: bool) -> None:
        self.n_parameters = m + 1
        self.lower_bound = 0.0 if floor else -np.inf
        self.evaluations = 0
        self.candidates: list[float] = []

    def at(self, w: Vector) -> HardPoint:
        """Evaluate the risk at ``w``."""
        m = self.n_parameters - 1
        self.evaluations += 1
        point = HardPoint(w, 1.0 - np.sqrt(m) * w[0] - m * w[1:])
        self.candidates.append(0.5 * float(w @ w) + point.value)
        return point

    def group_bounds(self, n_groups: int) -> Vector:
        """Return what each group's part of the risk never goes below."""
        return np.full(n_groups, self.lower_bound)


class HardPoint:
    """The risk at ``w``, with the hinges ``1 - y_i x_i.w`` there."""

    def __init__(self, w: Vector, hinges: Vector) -> None:
        self.w = w
        self.hinges = hinges
        self.value = float(np.maximum(hinges, 0.0).mean())

    def plane(self) -> Plane:
        """Return the plane that touches the risk here."""
        return self.planes(1)[0]

    def planes(self, n_groups: int) -> list[Plane]:
        """Return the plane of each group; every n-th example belongs to the same."""
        everyone = np.arange(len(self.hinges))
        return [self._plane_of(everyone[k::n_groups]) for k in range(n_groups)]

    def _plane_of(self, group: NDArray[np.int64]) -> Plane:
        m, kink = len(self.hinges), 1e-9  # this close to it, hinges are there but for rounding
        active = group[self.hinges[group] > kink]
        if not len(active):
            active = group[self.hinges[group] >= -kink][:1]
        slope = np.zeros(m + 1)
        slope[0] = -len(active) / np.sqrt(m)
        slope[1 + active] = -1.0
        return Plane(slope, len(active) / m)

    def toward(self, other: HardPoint) -> HardSegment:
        """Return the risk on the ray from here through ``other``."""
        return HardSegment(self, other)


class HardSegment(NamedTuple):
    """The risk on a ray: the hinges are linear there."""

    start: HardPoint
    end: HardPoint

    def at(self, step: float) -> HardPoint:
        """Return the point at ``step``."""
        start, end = self
        hinges = start.hinges + step * (end.hinges - start.hinges)
        return HardPoint(start.w + step * (end.w - start.w), hinges)

    def minimize(self, regularizer: Quadratic) -> float:
        """Return the step that minimizes the risk plus the regularizer on the ray."""
        direction = self.end.w - self.start.w
        return minimize_on_ray(lambda step: along(self, step, direction), regularizer)


def run_variant(variant: Variant, eps: float) -> Row:
    """Return how many steps a method takes on the instance for ``eps``."""
    m = round(1.0 / eps)
    risk = HardRisk(m, floor=variant.floor)
    enough = 1.0 / (4.0 * m) + eps
    result = minimize(
        risk,
        cp.L2(1.0),
        method=variant.method,
        stop=cp.Gap(absolute=1e-3 * eps),
        start=starting_point(m),
        max_iter=2 * m,
        callbacks=[lambda state: state.gap <= eps and min(risk.candidates[1:]) <= enough],
    )
    candidates = risk.candidates[1 : 1 + result.iterations]  # not the start, nor the final check
    return {
        "eps": eps,
        "method": variant.name,
        "theorem": 2.0 / (3.0 * eps),
        "steps": first(objective <= enough for objective in candidates),
        "iterations": first(record.gap <= eps for record in result.history),
        "status": str(result.status),
    }


def _variant_rows(progress: Progress) -> Iterator[Row]:
    variants = {variant.name: variant for variant in VARIANTS}
    for eps, name in settings(progress, eps=(0.1, 0.03, 0.01, 0.003), method=variants):
        yield run_variant(variants[name], eps)


def _variant_picture(rows: Sequence[Row]) -> Any:
    figure = new_figure((8.0, 5.0))
    axes = figure.subplots()
    # Most methods need the same number of iterations: wide lines below, thin ones on top, and marks
    # of their own keep all of them in sight.
    names, markers = list(dict.fromkeys(row["method"] for row in rows)), "osD^vPX*ph"
    for number, name in enumerate(names):
        own = [row for row in rows if row["method"] == name and row["iterations"]]
        axes.loglog(
            [1 / row["eps"] for row in own],
            [row["iterations"] for row in own],
            marker=markers[number % len(markers)],
            markersize=4 + 2.5 * (len(names) - number),
            markerfacecolor="none",
            linewidth=1 + 1.6 * (len(names) - 1 - number),
            alpha=0.8,
            zorder=2 + number,
            label=name,
        )
    inverse = sorted({1 / row["eps"] for row in rows})
    axes.loglog(inverse, [x / 2 for x in inverse], color="0.6", ls=":", label="1/(2 eps)")
    axes.set_xlabel("1/eps")
    finish_axes(axes, "iterations to a gap of eps")
    return figure


def _ranking_risk() -> cp.ScoredRisk:
    X, y, qid = load_letor("letor_mq2008", ("S1", "S2", "S3"))  # training parts of the first fold
    return cp.ScoredRisk(X, y, cp.NDCGListHinge(10).for_queries(qid), intercept=False)


def _rna_risk() -> cp.StructuredRisk:
    items = read_structures(folder_of("rna_rfam151") / "rfam151.dbn")
    X, Y = [item.sequence for item in items], [item.structure for item in items]
    return cp.StructuredRisk(cp.RNAFolding(), X, Y)


class _Column(NamedTuple):
    """One of the two columns of Figure 3 of paper 002: problem, and methods that it compares."""

    risk: Callable[[], Risk]
    lams: tuple[float, ...]
    methods: dict[str, cp.Solver[Any]]  # a method that should be compared is one line here
    stages: tuple[int, ...]  # the iterations whose objectives the table shows
    tol: float


def _column_rows(column: _Column, progress: Progress) -> Iterator[Row]:
    risk, most = column.risk(), column.stages[-1]
    start = risk.at(np.zeros(risk.n_parameters)).value
    for lam, name in settings(progress, lam=column.lams, method=column.methods):
        method = column.methods[name]
        result = minimize(risk, cp.L2(lam), method=method, tol=column.tol, max_iter=most)
        objectives = [record.objective for record in result.history]
        yield {
            "lam": lam,
            "method": name,
            "improves": first(objective < start for objective in objectives),
            # A run that is over earlier stays where it is.
            **{f"after_{n}": objectives[min(n, len(objectives)) - 1] for n in column.stages},
            "lower_bound": result.certificate.lower_bound,
            "evaluations": result.evaluations,
            "objectives": objectives,
        }


def _column_picture(rows: Sequence[Row]) -> Any:
    return draw_curves(rows, [Series("objectives", "best objective")], panel="lam", label="method")


_RANKING = _Column(
    risk=_ranking_risk,
    lams=(1e-2, 1e-3, 1e-4, 1e-5),
    methods={
        "standard": cp.bmrm(line_search=False),
        "proximal": cp.balanced_proximal(),
        "standard, line search": cp.bmrm(),
    },
    stages=(20, 50, 100, 200),
    tol=1e-6,
)

_RNA = _Column(
    risk=_rna_risk,
    lams=(1.0, 0.1, 0.01),
    methods={
        "standard bundle method": cp.bmrm(line_search=False),
        "proximal (paper 002)": cp.balanced_proximal(),
        "BMRM, groups, line search": cp.bmrm(groups="auto"),
    },
    stages=(10, 25, 50),
    tol=1e-3,
)

EXPERIMENTS = [
    experiment("fig2-000", _gap_rows, _gap_picture),
    experiment("fig3-000", _objective_rows, _objective_picture),
    experiment("rates-001", _rate_rows, _rate_picture),
    experiment("lower-bound", _variant_rows, _variant_picture),
    experiment("fig3-ranking", partial(_column_rows, _RANKING), _column_picture),
    experiment("fig3-rna", partial(_column_rows, _RNA), _column_picture),
]
