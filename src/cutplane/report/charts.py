"""Charts of a page: as SVG for readers without scripts, as numbers for those with them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cutplane.core.certificate import Record
from cutplane.markup.html import Html, element, shortened
from cutplane.markup.svg import COLORS, Line, line_chart
from cutplane.report.curves import curves_of

Numbers = Sequence[float | None]


@dataclass(frozen=True)
class Table:
    """Columns of numbers, None where there is none."""

    label: str
    columns: Mapping[str, Numbers]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def thinned(self, most: int) -> Table:
        """Return at most so many of the rows, evenly spread, the first and the last among them."""
        n = len(self)
        if n <= most:
            return self
        chosen = [round(place * (n - 1) / (most - 1)) for place in range(most)]
        return replace(
            self,
            columns={name: [column[i] for i in chosen] for name, column in self.columns.items()},
        )


@dataclass(frozen=True)
class Curve:
    """A column of a table, drawn as a line."""

    table: int
    y: str
    label: str
    color: int = 0
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    """Curves over one of several columns.

    Attributes
    ----------
    id : str
        Of the figure.
    title : str
        What the vertical axis shows.
    xs : sequence of pairs
        Columns to draw against, and their titles; the first one is shown at first.
    curves : sequence of Curve
    log : bool
        Whether the scale is logarithmic at first.
    loggable : bool
        Whether the reader may choose.
    steps : bool
        Whether curves hold each value until the next.
    shown : tuple, optional
        What to show of the vertical axis.
    """

    id: str
    title: str
    xs: Sequence[tuple[str, str]]
    curves: Sequence[Curve]
    log: bool = False
    loggable: bool = False
    steps: bool = False
    shown: tuple[float, float] | None = None

    def figure(self, tables: Sequence[Table]) -> Html:
        """Return the figure with a static picture."""
        x, x_title = self.xs[0]
        lines = [
            Line(
                shortened(curve.label, 60),
                _floats(tables[curve.table].columns[x]),
                _floats(tables[curve.table].columns[curve.y]),
                curve.color,
                curve.dashed,
                self.steps,
            )
            for curve in self.curves
        ]
        picture = line_chart(
            lines, x_title=x_title, y_title=self.title, log_y=self.log, y_range=self.shown
        )
        return element("figure", picture, id=self.id)

    def spec(self) -> dict[str, Any]:
        """Return what the script needs to draw the chart."""
        return {
            "id": self.id,
            "title": self.title,
            "xs": [list(pair) for pair in self.xs],
            "log": self.log,
            "loggable": self.loggable,
            "steps": self.steps,
            "range": None if self.shown is None else list(self.shown),
            "lines": [
                {
                    "table": curve.table,
                    "y": curve.y,
                    "label": shortened(curve.label, 60),
                    "color": curve.color % len(COLORS),
                    "dashed": curve.dashed,
                }
                for curve in self.curves
            ],
        }


def table_of_run(label: str, records: Sequence[Record]) -> Table:
    """Return the columns of a run's history."""
    names = (
        "iteration",
        "seconds",
        "objective",
        "lower_bound",
        "relative_gap",
        "evaluations",
        "planes",
    )
    return Table(
        label, {name: [finite(getattr(record, name)) for record in records] for name in names}
    )


def charts_of_runs(runs: Sequence[tuple[str, Sequence[Record]]], *, proven: bool) -> list[Chart]:
    """Return the charts of one run, or of several side by side: bounds, gap, evaluations.

    The tables of the runs must be the first ones of the page, in this order.
    """
    several = len(runs) > 1
    xs = [("iteration", "iterations")]
    if all(_rises([record.seconds for record in records]) for _, records in runs):
        xs.append(("seconds", "seconds"))

    def name(what: str, label: str) -> str:
        return f"{label}: {what}" if several else what

    below = "lower bound" if proven else "lowest point of the model: no bound"
    bounds, gaps, work = list[Curve](), list[Curve](), list[Curve]()
    for place, (label, _) in enumerate(runs):
        color = place if several else 1
        bounds += [
            Curve(place, "objective", name("objective", label), place),
            Curve(place, "lower_bound", name(below, label), color, dashed=True),
        ]
        gaps.append(Curve(place, "relative_gap", label if several else "relative gap", color))
        work.append(Curve(place, "evaluations", label if several else "evaluations", color))
    curves = [curves_of(records) for _, records in runs]
    bottom, top = min(each.bottom for each in curves), max(each.top for each in curves)
    logarithmic = all(each.logarithmic for each in curves)
    if logarithmic:
        margin = (top / bottom) ** 0.04
        shown = (bottom / margin, top * margin)
    else:
        margin = 0.04 * (top - bottom)
        shown = (bottom - margin, top + margin)
    return [
        Chart(
            "chart-bounds",
            "objective",
            xs,
            bounds,
            log=logarithmic,
            loggable=bottom > 0,
            steps=True,
            shown=shown,
        ),
        Chart("chart-gap", "relative gap", xs, gaps, log=True, loggable=True, steps=True),
        Chart("chart-work", "evaluations", xs, work, loggable=True, steps=True),
    ]


def _rises(values: Sequence[float]) -> bool:
    """Say whether numbers are known, and never fall: whether they can be a horizontal axis."""
    return all(map(math.isfinite, values)) and all(a <= b for a, b in itertools.pairwise(values))


def finite(value: float) -> float | None:
    """Return a number that JSON can hold, or None."""
    return value if math.isfinite(value) else None


def _floats(column: Numbers) -> list[float]:
    return [math.nan if value is None else float(value) for value in column]
