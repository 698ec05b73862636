"""What pages, notebooks and pictures draw: charts of curves, and the range worth showing.

A chart is described once. Here it becomes SVG, which a notebook and a page without scripts show,
and the numbers that the script of a page draws; `cutplane.report.figures` draws with matplotlib.

Colors of SVG are attributes, so that a chart can stand alone; a page may give others to the classes
``line-0``, ``line-1`` and so on, ``axis`` and ``grid``, for its dark theme.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.core.certificate import Certificate, Record, Result
from cutplane.report.words import Html, element, shortened, table


class Curves(NamedTuple):
    """Objectives, lower bounds and relative gaps as curves, and the range of the bounds to show.

    Early lower bounds may lie below that range.
    """

    upper: Vector
    lower: Vector
    gaps: Vector
    bottom: float
    top: float
    logarithmic: bool

    def widened(self, share: float) -> tuple[float, float]:
        """Return the range with a margin, a share of it, at both ends."""
        if self.logarithmic:
            margin = (self.top / self.bottom) ** share
            return self.bottom / margin, self.top * margin
        margin = share * (self.top - self.bottom)
        return self.bottom - margin, self.top + margin


def curves_of(records: Sequence[Record] | Sequence[Certificate]) -> Curves:
    """Return the curves of at least one record or certificate."""
    upper = np.array([record.objective for record in records])
    lower = np.array([record.lower_bound for record in records])
    gaps = np.array([record.relative_gap for record in records])
    return Curves(upper, lower, gaps, *_shown_range(upper, lower))


def shown_gap_range(gaps: Vector, tol: float | None) -> tuple[float, float]:
    """Return the smallest and the largest gap worth showing.

    A last iteration may close the gap completely; that is shown as well below the tolerance.
    """
    marks = gaps[np.isfinite(gaps) & (gaps > 0)].tolist() + ([tol] if tol else [])
    smallest, largest = min(marks, default=0.1), max(marks, default=1.0)
    if tol:
        smallest = max(smallest, tol / 100)
    return smallest, largest


def mean_run(runs: Sequence[Sequence[Record]]) -> list[Record]:
    """Return the records of several runs side by side as those of one, bounds averaged.

    A run that ended earlier keeps its last bounds. The means bound the mean of the optima.
    """
    runs = [run for run in runs if run]
    records = []
    for position in range(max(map(len, runs), default=0)):
        now = [run[min(position, len(run) - 1)] for run in runs]
        records.append(
            Record(
                iteration=position + 1,
                objective=sum(record.objective for record in now) / len(now),
                lower_bound=sum(record.lower_bound for record in now) / len(now),
                evaluations=sum(record.evaluations for record in now),
                planes=sum(record.planes for record in now),
                seconds=sum(record.seconds for record in now),
            )
        )
    return records


def _shown_range(upper: Vector, lower: Vector) -> tuple[float, float, bool]:
    """Return bottom, top, and whether the scale is logarithmic.

    The first lower bounds can be far below everything else. The range is limited so that the place
    where the bounds meet is always easy to see.
    """
    top = float(upper.max())
    end = float(lower[-1]) if math.isfinite(lower[-1]) else float(upper.min()) - 1.0
    lowest = float(lower.min())
    if top - end <= 1e-12 * max(abs(top), abs(end)) + 1e-200:  # nothing moves
        return end - 0.5, top + 0.5, False
    if 1e-12 * top < 4.0 * end < top:  # the way up takes as much room as the way down
        return max(lowest, end * (end / top)), top, True
    return max(lowest, end - 4.0 * (top - end)), top, False


# Okabe and Ito's colors, which color-blind readers can tell apart.
COLORS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A6A00", "#555555")

# The size that text has its size in; a chart takes the width that there is.
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 680, 74, 12, 10, 40


@dataclass(frozen=True)
class _Axis:
    """From values to places along an axis."""

    low: float
    high: float
    logarithmic: bool
    begin: float
    end: float

    @classmethod
    def of(
        cls, values: Sequence[float], begin: float, end: float, *, log: bool, margin: float = 0.0
    ) -> _Axis:
        low, high = min(values, default=0.0), max(values, default=1.0)
        if log:
            low, high = math.log10(max(low, 1e-300)), math.log10(max(high, 1e-300))
        if high - low <= 1e-12 * max(abs(low), abs(high)):
            pad = max(abs(low), 1.0) / 2.0
            low, high = low - pad, high + pad
        spare = margin * (high - low)
        return cls(low - spare, high + spare, log, begin, end)

    def at(self, value: float) -> float:
        scaled = math.log10(value) if self.logarithmic else value
        return self.begin + (scaled - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self) -> list[float]:
        """Return about six values: multiples of 1, 2 or 5, or powers of ten."""
        span = self.high - self.low
        if self.logarithmic and span >= 2.0:
            every = math.ceil(span / 6.0)
            powers = range(math.ceil(self.low), math.floor(self.high) + 1)
            return [10.0**power for power in powers if power % every == 0]
        low, high = (10.0**self.low, 10.0**self.high) if self.logarithmic else (self.low, self.high)
        rough = (high - low) / 6.0
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= 0.999 * rough)
        first = math.ceil(low / step - 1e-9)
        found = [first * step + place * step for place in range(12)]
        return [0.0 if abs(v) < 1e-9 * step else v for v in found if v <= high + 1e-9 * step]


def _points(
    curve: Curve, x: str, tables: Sequence[Table], *, log_x: bool, log_y: bool
) -> list[tuple[float, float]]:
    """Return the points of a curve that can be shown, not too many of them, the last one too."""
    columns = tables[curve.table]
    pairs = zip(columns[x], columns[curve.y], strict=True)
    known = [(float(x), float(y)) for x, y in pairs if x is not None and y is not None]
    points = [
        (x, y)
        for x, y in known
        if math.isfinite(x) and math.isfinite(y) and (x > 0 or not log_x) and (y > 0 or not log_y)
    ]
    most = 240  # more cannot be told apart
    if len(points) <= most:
        return points
    every = (len(points) - 1) / (most - 1)
    return [points[round(place * every)] for place in range(most)]


def _path(curve: Curve, places: Sequence[tuple[float, float]], *, steps: bool) -> Html:
    drawn = [f"M{places[0][0]:.1f} {places[0][1]:.1f}"]
    for x, y in places[1:]:
        drawn.append(f"H{x:.1f}V{y:.1f}" if steps else f"L{x:.1f} {y:.1f}")
    style = {"fill": "none", "stroke_width": 2, **_stroke(curve)}
    if len(places) == 1:  # a line of one point would not be seen
        (x, y) = places[0]
        return element("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=3, **style)
    return element("path", d="".join(drawn), **style)


def _stroke(curve: Curve) -> dict[str, str | None]:
    color = curve.color % len(COLORS)
    dashes = "6 3" if curve.dashed else None
    return {"class_": f"line-{color}", "stroke": COLORS[color], "stroke_dasharray": dashes}


def _tick(axis: _Axis, value: float, height: int, *, vertical: bool) -> Html:
    """Return a grid line and its number."""
    place = f"{axis.at(value):.1f}"
    if vertical:
        ends = {"x1": _LEFT, "x2": _WIDTH - _RIGHT, "y1": place, "y2": place}
        number = _text(f"{value:g}", _LEFT - 6, axis.at(value) + 4, anchor="end")
    else:
        ends = {"x1": place, "x2": place, "y1": _TOP, "y2": height - _BOTTOM}
        number = _text(f"{value:g}", axis.at(value), height - _BOTTOM + 16, anchor="middle")
    return Html(element("line", class_="grid", stroke="#8885", **ends) + number)


def _text(text: str, x: float, y: float, *, anchor: str, turned: bool = False) -> Html:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text_anchor": anchor}
    if turned:
        place["transform"] = f"rotate(-90 {x:.1f} {y:.1f})"
    font = {"fill": "#777", "font_size": 13, "font_family": "system-ui, sans-serif"}
    return element("text", text, **place, class_="axis", **font)


Numbers = Sequence[float | None]


Table: TypeAlias = Mapping[str, Numbers]
"""Columns of numbers, None where there is none."""


def thinned(table: Table, most: int) -> Table:
    """Return at most so many of the rows, evenly spread, the first and the last among them."""
    n = len(next(iter(table.values())))
    if n <= most:
        return table
    chosen = [round(place * (n - 1) / (most - 1)) for place in range(most)]
    return {name: [column[i] for i in chosen] for name, column in table.items()}


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

    def picture(self, tables: Sequence[Table], *, log_x: bool = False, height: int = 300) -> Html:
        """Return a static picture, with a legend below; what is not finite is left out.

        On a logarithmic scale so is what is not positive.
        """
        x, x_title = self.xs[0]
        points = [_points(each, x, tables, log_x=log_x, log_y=self.log) for each in self.curves]
        xs, ys = ([point[axis] for own in points for point in own] for axis in (0, 1))
        across = _Axis.of(xs, _LEFT, _WIDTH - _RIGHT, log=log_x)
        low, high = self.shown or (min(ys, default=0.0), max(ys, default=1.0))
        up = _Axis.of([low, high], height - _BOTTOM, _TOP, log=self.log, margin=0.04)
        inner = [
            _path(
                curve, [(across.at(x) - _LEFT, up.at(y) - _TOP) for x, y in own], steps=self.steps
            )
            for curve, own in zip(self.curves, points, strict=True)
            if own
        ]
        # A picture inside the picture cuts off what leaves the axes.
        across_by, up_by = _WIDTH - _LEFT - _RIGHT, height - _TOP - _BOTTOM
        plot = element("svg", *inner, x=_LEFT, y=_TOP, width=across_by, height=up_by)
        drawn = element(
            "svg",
            element("title", f"{self.title} against {x_title}"),
            *(_tick(across, value, height, vertical=False) for value in across.ticks()),
            *(_tick(up, value, height, vertical=True) for value in up.ticks()),
            plot,
            _text(x_title, (_LEFT + _WIDTH - _RIGHT) / 2, height - 4, anchor="middle"),
            _text(self.title, 14, (height - _BOTTOM + _TOP) / 2, anchor="middle", turned=True),
            viewBox=f"0 0 {_WIDTH} {height}",
            role="img",
            xmlns="http://www.w3.org/2000/svg",
            style=f"width:100%;max-width:{_WIDTH + 120}px;height:auto",
        )
        legend = []
        for curve in self.curves:
            piece = element("line", x1=0, x2=26, y1=5, y2=5, stroke_width=3, **_stroke(curve))
            sample, label = element("svg", piece, width=26, height=10), shortened(curve.label, 60)
            legend.append(element("span", sample, " ", label, style="margin-right:1.2em"))
        below = element("div", *legend, class_="legend-static", style="font-size:85%")
        return element("div", drawn, below, class_="chart-static")

    def spec(self) -> dict[str, Any]:
        """Return what the script needs to draw the chart."""
        found = asdict(self)
        lines = [
            line | {"label": shortened(line["label"], 60), "color": line["color"] % len(COLORS)}
            for line in found.pop("curves")
        ]
        return found | {"lines": lines, "range": found.pop("shown")}


def table_of_run(records: Sequence[Record]) -> Table:
    """Return the columns of a run's history."""
    names = ("iteration", "seconds", "objective", "lower_bound", "relative_gap")
    return {
        name: [finite(getattr(record, name)) for record in records]
        for name in (*names, "evaluations", "planes")
    }


def charts_of_runs(runs: Sequence[tuple[str, Sequence[Record]]], *, proven: bool) -> list[Chart]:
    """Return the charts of one run, or of several side by side: bounds, gap, evaluations.

    The tables of the runs must be the first ones of the page, in this order.
    """
    several = len(runs) > 1
    xs = [("iteration", "iterations")]
    seconds = [[record.seconds for record in records] for _, records in runs]
    # Numbers that are known, and never fall, can be a horizontal axis.
    if all(all(map(math.isfinite, own)) and own == sorted(own) for own in seconds):
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
    whole = curves[0]._replace(
        bottom=min(each.bottom for each in curves),
        top=max(each.top for each in curves),
        logarithmic=all(each.logarithmic for each in curves),
    )
    log, loggable, shown = whole.logarithmic, whole.bottom > 0, whole.widened(0.04)
    return [
        Chart("chart-bounds", "objective", xs, bounds, log, loggable, steps=True, shown=shown),
        Chart("chart-gap", "relative gap", xs, gaps, log=True, loggable=True, steps=True),
        Chart("chart-work", "evaluations", xs, work, loggable=True, steps=True),
    ]


def finite(value: float) -> float | None:
    """Return a number that JSON can hold, or None."""
    return value if math.isfinite(value) else None


def certificate_to_html(known: Certificate) -> Html:
    """Return both bounds and the gap as a table, and what is proven."""
    rows = [
        ["objective", f"{known.objective:.8g}"],
        ["lower bound", f"{known.lower_bound:.8g}"],
        ["relative gap", f"{known.relative_gap:.2e}"],
    ]
    words = str(known).partition("(")[2].removesuffix(")")
    return element("div", table([], rows), element("p", words))


def result_to_html(result: Result) -> Html:
    """Return the certificate, the work and a chart of the gap."""
    work = f"{result.iterations:,} iterations, {result.evaluations:,} evaluations, "
    parts = [certificate_to_html(result.certificate), element("p", f"{work}{result.seconds:.3g} s")]
    if len(result.history) > 1:
        _, gaps, _ = charts_of_runs([("", result.history)], proven=result.certificate.valid)
        parts.append(gaps.picture([table_of_run(result.history)], height=220))
    return element("div", *parts)
