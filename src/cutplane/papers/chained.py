"""Tables 2 and 3 and Figure 8 of paper 004: two chained functions with kinks, not convex.

J(w) = lam/2 |w - start|^2 + f(w),   D = 1e2 to 1e5 parameters,   relative gap 1e-3
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

import numpy as np

import cutplane as cp
from cutplane.compute.arrays import Vector
from cutplane.papers.experiment import Experiment, Progress, Row, minimize, settings
from cutplane.report.figures import Series, draw_curves
from cutplane.risks.composite import Function


def mifflin_2(w: Vector) -> tuple[float, Vector]:
    """Return Chained Mifflin 2 and a subgradient.

    ``sum_i -w_i + 2 t_i + 1.75 |t_i|`` with ``t_i = w_i^2 + w_{i+1}^2 - 1``.
    """
    left, right = w[:-1], w[1:]
    t = left**2 + right**2 - 1.0
    value = float(np.sum(-left + 2.0 * t + 1.75 * np.abs(t)))
    speed = 2.0 * (2.0 + 1.75 * np.sign(t))
    slope = np.zeros_like(w)
    slope[:-1] = speed * left - 1.0
    slope[1:] += speed * right
    return value, slope


def crescent_2(w: Vector) -> tuple[float, Vector]:
    """Return Chained Crescent 2 and a subgradient.

    ``sum_i max(c_i + w_{i+1} - 1, -c_i + w_{i+1} + 1)`` with ``c_i = w_i^2 + (w_{i+1} - 1)^2``.
    """
    left, right = w[:-1], w[1:]
    c = left**2 + (right - 1.0) ** 2
    sign = np.where(c >= 1.0, 1.0, -1.0)
    value = float(np.sum(sign * (c - 1.0) + right))
    slope = np.zeros_like(w)
    slope[:-1] = 2.0 * sign * left
    slope[1:] += 2.0 * sign * (right - 1.0) + 1.0
    return value, slope


GAP = 1e-3
LAMS = (0.1, 0.2, 0.5, 1.0)
SIZES = (100, 1_000, 10_000, 100_000)

# Objective and evaluations as printed, for D by D and lam by lam.
Published = dict[str, dict[int, tuple[tuple[float, int], ...]]]

TABLE_2: Published = {
    "NBM": {
        100: ((-55.68, 254), (-41.32, 29), (-8.167, 12), (24.92, 10)),
        1_000: ((-560.9, 157), (-416.3, 48), (-83.17, 30), (249.9, 23)),
        10_000: ((-5613, 431), (-4166, 123), (-833.2, 91), (2500, 73)),
        100_000: ((-56138, 407), (-41666, 363), (-8333, 284), (25000, 214)),
    },
    "NRBM": {
        100: ((-54.19, 501), (-41.31, 280), (-8.163, 20), (24.93, 8)),
        1_000: ((-556.2, 501), (-416.3, 163), (-83.16, 19), (250.0, 7)),
        10_000: ((-5609, 501), (-4166, 67), (-832.8, 34), (2500, 6)),
        100_000: ((-56119, 172), (-41661, 33), (-8332, 32), (25000, 6)),
    },
    "NRBMLS": {
        100: ((-55.66, 45), (-41.32, 18), (-8.165, 7), (24.93, 5)),
        1_000: ((-560.7, 43), (-416.3, 19), (-83.16, 7), (250.0, 4)),
        10_000: ((-5611, 24), (-4166, 13), (-833.2, 7), (2500, 3)),
        100_000: ((-56097, 30), (-41664, 17), (-8333, 7), (25000, 3)),
    },
}

TABLE_3: Published = {
    "NBM": {
        100: ((15.75, 58), (31.23, 105), (77.84, 124), (152.2, 145)),
        1_000: ((156.3, 180), (312.5, 194), (780.9, 146), (1531, 163)),
        10_000: ((1563, 276), (3125, 311), (7812, 194), (15316, 289)),
        100_000: ((15625, 628), (31251, 660), (78126, 636), (1.562e5, 628)),
    },
    "NRBM": {
        100: ((15.64, 334), (31.23, 132), (77.93, 66), (152.3, 21)),
        1_000: ((157.1, 501), (312.8, 104), (781.6, 41), (1532, 15)),
        10_000: ((1564, 218), (3128, 72), (7818, 29), (15319, 14)),
        100_000: ((15635, 106), (31272, 48), (78146, 21), (1.532e5, 14)),
    },
    "NRBMLS": {
        100: ((15.63, 111), (31.21, 103), (79.15, 49), (152.2, 29)),
        1_000: ((156.3, 105), (313.0, 82), (781.5, 36), (1531, 17)),
        10_000: ((1564, 75), (3127, 42), (7829, 22), (15327, 16)),
        100_000: ((15638, 62), (31269, 48), (78247, 21), (1.532e5, 16)),
    },
}


@dataclass(frozen=True, slots=True)
class ChainedTable:
    """One of the two tables: the function, where it starts, and what was published."""

    function: Function
    start: tuple[float, float]  # coordinates that are repeated
    published: Published

    def fit(self, method: cp.Solver[Any], n_parameters: int, lam: float) -> cp.Result:
        """Minimize to the relative gap of the paper, or its 500 iterations."""
        start = np.resize(self.start, n_parameters)
        return minimize(
            cp.FunctionRisk(self.function, n_parameters, convex=False),
            cp.L2(lam, center=start),
            method=method,
            stop=cp.Gap(relative=GAP),
            start=start,
            max_iter=500,
        )


MIFFLIN = ChainedTable(mifflin_2, (-1.0, -1.0), TABLE_2)
CRESCENT = ChainedTable(crescent_2, (-1.5, 2.0), TABLE_3)

# The algorithms under their names in the paper, and the one that we recommend: it takes a plane at
# every point of the line search, where NRBMLS takes one at the lowest.
METHODS: dict[str, cp.Solver[Any]] = {
    "NRBM": cp.nrbm(line_search="none"),
    "NRBMLS": cp.nrbm(line_search="greedy"),
    "NBM": cp.nbm(),
    "nrbm()": cp.nrbm(),
}


def compare(
    table: ChainedTable,
    progress: Progress,
    *,
    sizes: tuple[int, ...] = SIZES,
    methods: dict[str, cp.Solver[Any]] = METHODS,
) -> Iterator[Row]:
    """Yield a row for each setting: objective and evaluations, ours and as published.

    Settings are in the order of the paper. "Tested" are those at the end of our runs, where no
    small step that was tried descends (`cutplane.core.stationarity`).
    """
    for size, lam in settings(progress, D=sizes, lam=LAMS):
        row: Row = {"D": size, "lam": lam}
        for name, published in table.published.items():
            objective, evaluations = published[size][LAMS.index(lam)]
            row[f"{name} objective (paper)"] = objective
            row[f"{name} evaluations (paper)"] = evaluations
        for name, method in methods.items():
            result = table.fit(method, size, lam)
            # The paper stops here. Our runs go on until the point has passed its test.
            stop = next((at for at in result.history if at.relative_gap <= GAP), result.history[-1])
            row[f"{name} objective"] = stop.objective
            row[f"{name} evaluations"] = stop.evaluations
            row[f"{name} objective, tested"] = result.objective
            row[f"{name} evaluations, tested"] = result.evaluations
            row[f"{name} status"] = str(result.status)
            row[f"{name} seconds"] = result.seconds
        yield row
    progress(1.0, "done")


def converge(
    progress: Progress, *, size: int = 10_000, methods: Mapping[str, cp.Solver[Any]] | None = None
) -> Iterator[Row]:
    """Yield a row for each function, lam and method: the best objective against evaluations.

    Runs end where the paper's do, at the gap or at 500 iterations; the test of the last point is
    not in the curves.
    """
    methods = {name: METHODS[name] for name in MIFFLIN.published} if methods is None else methods
    tables = {"Chained Mifflin 2": MIFFLIN, "Chained Crescent 2": CRESCENT}
    for function, lam, name in settings(progress, function=tables, lam=LAMS, method=methods):
        result = tables[function].fit(methods[name], size, lam)
        before = list(takewhile(lambda at: at.relative_gap > GAP, result.history))
        shown = result.history[: len(before) + 1]
        at_start = tables[function].function(np.resize(tables[function].start, size))[0]
        yield {
            "function": function,
            "lam": lam,
            "method": name,
            "evaluations": shown[-1].evaluations,
            "objective": shown[-1].objective,
            "to 1 %": _first_within(0.01, shown),
            "setting": f"{function}, lam = {lam:g}",
            "objectives": [at_start, *(at.objective for at in shown)],
            "at evaluations": [1, *(at.evaluations for at in shown)],
        }
    progress(1.0, "done")


def _first_within(share: float, records: Sequence[cp.Record]) -> int:
    """Return the evaluations until the objective was this close to where the run ended."""
    end = records[-1].objective
    return next(at.evaluations for at in records if at.objective <= end + share * abs(end))


def _convergence_picture(rows: Sequence[Row]) -> Any:
    figure = draw_curves(
        rows,
        [Series("objectives", "objective", "at evaluations", "evaluations", "log")],
        panel="setting",
        label="method",
        wrap=len(LAMS),
    )
    for axes in figure.axes:
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
    return figure


def _columns(table: ChainedTable) -> list[str]:
    return ["D", "lam"] + [
        f"{name} {what}{source}"
        for name in METHODS
        for what in ("objective", "evaluations")
        for source in (
            ["", ", tested", " (paper)"] if name in table.published else ["", ", tested"]
        )
    ]


EXPERIMENTS = [
    Experiment(
        name=name,
        title=f"{function}, objective and evaluations at a relative gap of 1e-3 (paper 004, "
        f"Table {name[-1]})",
        run=partial(compare, table),
        columns=_columns(table),
    )
    for name, function, table in (
        ("table2", "Chained Mifflin 2", MIFFLIN),
        ("table3", "Chained Crescent 2", CRESCENT),
    )
]
EXPERIMENTS.append(
    Experiment(
        name="fig8-004",
        title="Paper 004, Figure 8: the objective against evaluations, D = 10,000",
        run=converge,
        columns=["function", "lam", "method", "evaluations", "objective", "to 1 %"],
        paper="In the paper NRBM and NRBMLS are faster than NBM to reach a reasonable solution. "
        "The last column has the evaluations until the objective was within 1 % of the run's end.",
        picture=_convergence_picture,
    )
)
