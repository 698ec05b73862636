"""Pictures and tables for a terminal, drawn with characters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.core.certificate import Record
from cutplane.report.charts import Curves, curves_of, shown_gap_range


def table(lines: Iterable[Iterable[str]], *, words: Iterable[int] = (0,)) -> list[str]:
    """Return lines of cells below each other, the columns ``words`` to the left."""
    cells = [list(line) for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    left = set(words)
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]


_MARGIN = 12  # characters left of the picture, for the numbers


class _Ink(NamedTuple):
    """The characters to draw with."""

    upper: str
    lower: str
    both: str
    band: str
    bars: str  # from an empty cell to a full one
    dots: str
    tick: str
    side: str
    corner: str
    base: str


_BLOCKS = _Ink("▀", "▄", "█", "░", " ▁▂▃▄▅▆▇█", "┈", "┤", "│", "└", "─")
_ASCII = _Ink("^", "_", "=", ":", "  #", "-", "+", "|", "+", "-")


def draw_text(
    records: Sequence[Record],
    *,
    tol: float | None = None,
    width: int = 72,
    ascii_only: bool = False,
) -> str:
    """Draw the bounds of one run, and below them the relative gap on a logarithmic scale.

    A dotted line marks the gap ``tol``. Lines have ``width`` characters, at least 40;
    ``ascii_only`` is for a terminal that shows no other characters than those of ASCII.
    """
    if not records:
        return "(no iterations to draw)"
    ink = _ASCII if ascii_only else _BLOCKS
    n, columns = len(records), width - _MARGIN - 1
    # A record for each column; the last column shows the last.
    chosen = [records[column * n // columns] for column in range(columns - 1)] + [records[-1]]
    curves = curves_of(chosen)
    scale = "  (logarithmic)" if curves.logarithmic else ""
    lines = [
        f"{ink.upper} objective  {ink.lower} lower bound{scale}",
        *_draw_bounds(curves, ink, height=10),
        *_iteration_axis(chosen, ink),
        "relative gap  (logarithmic)",
        *_draw_gaps(curves.gaps, ink, tol, height=7),
        *_iteration_axis(chosen, ink),
    ]
    return "\n".join(line.rstrip() for line in lines)


def _draw_bounds(curves: Curves, ink: _Ink, *, height: int) -> list[str]:
    scaled = np.log if curves.logarithmic else np.asarray
    top, bottom = scaled(curves.top), scaled(curves.bottom)
    rows_per_unit = (height - 1) / (top - bottom)
    upper_rows = np.rint((top - scaled(curves.upper)) * rows_per_unit).astype(int)
    visible = curves.lower >= curves.bottom
    lower_rows = np.full(len(visible), height)  # below the picture
    lower_rows[visible] = np.rint((top - scaled(curves.lower[visible])) * rows_per_unit)
    labels = {0: curves.top, height - 1: curves.bottom}
    labels[int(upper_rows[-1])] = float(curves.upper[-1])
    return [
        _label(labels.get(row), ink)
        + "".join(
            _bounds_cell(row, above, below, ink)
            for above, below in zip(upper_rows, lower_rows, strict=True)
        )
        for row in range(height)
    ]


def _bounds_cell(row: int, above: int, below: int, ink: _Ink) -> str:
    if above == row == below:
        return ink.both
    if row == above:
        return ink.upper
    if row == below:
        return ink.lower
    return ink.band if above < row < below else " "


def _draw_gaps(gaps: Vector, ink: _Ink, tol: float | None, *, height: int) -> list[str]:
    smallest, largest = shown_gap_range(gaps, tol)
    top = math.ceil(math.log10(largest))
    bottom = min(math.floor(math.log10(smallest)), top - 1)
    rows_per_decade = height / (top - bottom)
    with np.errstate(divide="ignore"):  # a gap of zero has a bar of no height
        bars = np.clip((np.log10(gaps) - bottom) * rows_per_decade, 0.0, height)
    labels = {height - 1: 10.0**bottom, 0: 10.0**top}
    tol_row = -1
    if tol:
        tol_row = min(math.floor((top - math.log10(tol)) * rows_per_decade), height - 1)
        labels[tol_row] = tol
    return [
        _label(labels.get(row), ink)
        + "".join(_bar_cell(bar - (height - 1 - row), row == tol_row, ink) for bar in bars)
        for row in range(height)
    ]


def _bar_cell(filled: float, on_tolerance: bool, ink: _Ink) -> str:
    """Return the cell of a bar of which the share ``filled`` (below 0, above 1: all) is full."""
    steps = len(ink.bars) - 1
    cell = ink.bars[round(steps * min(max(filled, 0.0), 1.0))]
    return ink.dots if on_tolerance and cell == " " else cell


def _label(number: float | None, ink: _Ink) -> str:
    if number is None:
        return " " * (_MARGIN - 1) + ink.side
    return f"{number:.3g}".rjust(_MARGIN - 2) + " " + ink.tick


def _iteration_axis(records: Sequence[Record], ink: _Ink) -> list[str]:
    first, last = f"{records[0].iteration}", f"{records[-1].iteration}"
    title = "iterations".center(len(records) - len(first) - len(last))
    return [
        " " * (_MARGIN - 1) + ink.corner + ink.base * len(records),
        " " * _MARGIN + first + title + last,
    ]
