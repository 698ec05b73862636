"""Line charts as SVG: what a page shows where scripts do not run, and a notebook at once.

Colors are attributes, so that a chart can stand alone; a page may give others to the classes
``line-0``, ``line-1`` and so on, ``axis`` and ``grid``, for its dark theme.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cutplane.markup.html import Html, element

# Okabe and Ito's colors, which color-blind readers can tell apart.
COLORS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A6A00", "#555555")

_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 12, 10, 40
_MOST_POINTS = 240  # of a line: more cannot be told apart


@dataclass(frozen=True)
class Line:
    """A line of a chart; with ``steps`` it holds each value until the next."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    color: int = 0
    dashed: bool = False
    steps: bool = False


def line_chart(
    lines: Sequence[Line],
    *,
    x_title: str,
    y_title: str,
    log_y: bool = False,
    log_x: bool = False,
    y_range: tuple[float, float] | None = None,
    width: int = 680,
    height: int = 300,
) -> Html:
    """Return a chart of lines, with a legend below; what is not finite is left out.

    Parameters
    ----------
    lines : sequence of Line
    x_title, y_title : str
    log_x, log_y : bool
        Whether a scale is logarithmic. What is not positive is then left out.
    y_range : tuple, optional
        What to show of the vertical axis; everything by default.
    width, height : int
        The size that text has its size in; the chart takes the width that there is.
    """
    points = [_shown(line, log_x=log_x, log_y=log_y) for line in lines]
    xs, ys = ([point[axis] for line in points for point in line] for axis in (0, 1))
    across = _Axis.of(xs, logarithmic=log_x, begin=_LEFT, end=width - _RIGHT)
    low, high = y_range or (min(ys, default=0.0), max(ys, default=1.0))
    up = _Axis.of([low, high], logarithmic=log_y, begin=height - _BOTTOM, end=_TOP, margin=0.04)
    inner = [
        _path(line, own, lambda x: across.at(x) - _LEFT, lambda y: up.at(y) - _TOP)
        for line, own in zip(lines, points, strict=True)
        if own
    ]
    # A picture inside the picture cuts off what leaves the axes.
    plot = element(
        "svg",
        *inner,
        x=_LEFT,
        y=_TOP,
        width=width - _LEFT - _RIGHT,
        height=height - _TOP - _BOTTOM,
    )
    chart = element(
        "svg",
        element("title", f"{y_title} against {x_title}"),
        *(_tick(across, value, height, width, vertical=False) for value in across.ticks()),
        *(_tick(up, value, height, width, vertical=True) for value in up.ticks()),
        plot,
        _text(x_title, (_LEFT + width - _RIGHT) / 2, height - 4, anchor="middle"),
        _text(y_title, 14, (height - _BOTTOM + _TOP) / 2, anchor="middle", turned=True),
        viewBox=f"0 0 {width} {height}",
        role="img",
        xmlns="http://www.w3.org/2000/svg",
        style=f"width:100%;max-width:{width + 120}px;height:auto",
    )
    return element("div", chart, _legend(lines), class_="chart-static")


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
        cls,
        values: Sequence[float],
        *,
        logarithmic: bool,
        begin: float,
        end: float,
        margin: float = 0.0,
    ) -> _Axis:
        low, high = min(values, default=0.0), max(values, default=1.0)
        if logarithmic:
            low, high = math.log10(max(low, 1e-300)), math.log10(max(high, 1e-300))
        if high - low <= 1e-12 * max(abs(low), abs(high)):
            pad = max(abs(low), 1.0) / 2.0
            low, high = low - pad, high + pad
        spare = margin * (high - low)
        return cls(low - spare, high + spare, logarithmic, begin, end)

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


def _shown(line: Line, *, log_x: bool, log_y: bool) -> list[tuple[float, float]]:
    """Return the points of a line that can be shown, not too many of them, the last one too."""
    points = [
        (float(x), float(y))
        for x, y in zip(line.x, line.y, strict=True)
        if math.isfinite(x) and math.isfinite(y) and (x > 0 or not log_x) and (y > 0 or not log_y)
    ]
    if len(points) <= _MOST_POINTS:
        return points
    every = (len(points) - 1) / (_MOST_POINTS - 1)
    return [points[round(place * every)] for place in range(_MOST_POINTS)]


def _path(
    line: Line,
    points: Sequence[tuple[float, float]],
    across: Callable[[float], float],
    up: Callable[[float], float],
) -> Html:
    places = [(across(x), up(y)) for x, y in points]
    drawn = [f"M{places[0][0]:.1f} {places[0][1]:.1f}"]
    for x, y in places[1:]:
        drawn.append(f"H{x:.1f}V{y:.1f}" if line.steps else f"L{x:.1f} {y:.1f}")
    color = line.color % len(COLORS)
    style = {
        "class_": f"line-{color}",
        "stroke": COLORS[color],
        "fill": "none",
        "stroke_width": 2,
        "stroke_dasharray": "6 3" if line.dashed else None,
    }
    if len(places) == 1:  # a line of one point would not be seen
        (x, y) = places[0]
        return element("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=3, **style)
    return element("path", d="".join(drawn), **style)


def _tick(axis: _Axis, value: float, height: int, width: int, *, vertical: bool) -> Html:
    """Return a grid line and its number."""
    place = f"{axis.at(value):.1f}"
    if vertical:
        ends = {"x1": _LEFT, "x2": width - _RIGHT, "y1": place, "y2": place}
        number = _text(f"{value:g}", _LEFT - 6, axis.at(value) + 4, anchor="end")
    else:
        ends = {"x1": place, "x2": place, "y1": _TOP, "y2": height - _BOTTOM}
        number = _text(f"{value:g}", axis.at(value), height - _BOTTOM + 16, anchor="middle")
    return Html(element("line", class_="grid", stroke="#8885", **ends) + number)


def _text(text: str, x: float, y: float, *, anchor: str, turned: bool = False) -> Html:
    return element(
        "text",
        text,
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        text_anchor=anchor,
        transform=f"rotate(-90 {x:.1f} {y:.1f})" if turned else None,
        class_="axis",
        fill="#777",
        font_size=13,
        font_family="system-ui, sans-serif",
    )


def _legend(lines: Sequence[Line]) -> Html:
    """Return what the lines are, each with a piece of it."""
    entries = []
    for line in lines:
        color = line.color % len(COLORS)
        sample = element(
            "svg",
            element(
                "line",
                x1=0,
                x2=26,
                y1=5,
                y2=5,
                class_=f"line-{color}",
                stroke=COLORS[color],
                stroke_width=3,
                stroke_dasharray="6 3" if line.dashed else None,
            ),
            width=26,
            height=10,
        )
        entries.append(element("span", sample, " ", line.label, style="margin-right:1.2em"))
    return element("div", *entries, class_="legend-static", style="font-size:85%")
