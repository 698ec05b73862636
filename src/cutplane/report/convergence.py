"""A picture of a run, drawn with matplotlib: the bounds closing in, and below them the gap."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from cutplane.core.state import Record
from cutplane.report.curves import Curves, curves_of, shown_gap_range

# Okabe and Ito's colours, which colour-blind readers can tell apart; the lines differ in style too.
_VERMILLION, _BLUE, _BLACK = "#D55E00", "#0072B2", "#000000"


class PlottingUnavailable(ImportError):
    """Matplotlib is not installed."""


def require_plotting() -> None:
    """Find out before a long computation whether its plot can be drawn.

    Raises
    ------
    PlottingUnavailable
        If matplotlib is not installed.
    """
    _figure_class()


def draw_png(
    records: Sequence[Record], *, title: str, subtitle: str = "", tol: float | None = None
) -> bytes:
    """Return a PNG picture of the bounds and of the relative gap.

    Parameters
    ----------
    records : sequence of Record
        The history of one run.
    title, subtitle : str
        What was fitted, and how it ended.
    tol : float, optional
        A relative gap to mark.

    Raises
    ------
    PlottingUnavailable
        If matplotlib is not installed.
    """
    # A figure of its own, without pyplot: nothing global is touched and no display is needed.
    figure = _figure_class()(figsize=(8.0, 6.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    above.set_title(title, fontsize=14, fontweight="bold", loc="left", pad=24)
    above.text(0.0, 1.03, subtitle, transform=above.transAxes, fontsize=10, color="0.3")
    if records:
        curves = curves_of(records)
        _plot_bounds(above, curves)
        _plot_gap(below, curves, tol)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=150)
    return content.getvalue()


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlottingUnavailable('plots need matplotlib: pip install "cutplane[plot]"') from error
    return Figure


def _plot_bounds(axes: Any, curves: Curves) -> None:
    x, upper = curves.iterations, curves.upper
    below = curves.bottom / 10 if curves.logarithmic else 2 * curves.bottom - curves.top
    # What lies below the picture must not be infinite, or zero on a logarithmic scale.
    lower = np.maximum(curves.lower, below)
    axes.fill_between(
        x, lower, upper, step="post", color="0.9", linewidth=0, label="the optimum is in between"
    )
    axes.step(x, upper, where="post", color=_VERMILLION, lw=2, label="objective of the best model")
    axes.step(x, lower, where="post", color=_BLUE, lw=2, ls=(0, (4, 1)), label="lower bound")
    if curves.logarithmic:
        _make_logarithmic(axes)
        margin = (curves.top / curves.bottom) ** 0.05
        axes.set_ylim(curves.bottom / margin, curves.top * margin)
    else:
        margin = 0.05 * (curves.top - curves.bottom)
        axes.set_ylim(curves.bottom - margin, curves.top + margin)
    axes.margins(x=0.01)
    axes.set_ylabel("objective")
    handles, labels = axes.get_legend_handles_labels()
    from_top_to_bottom = [1, 0, 2]
    axes.legend(
        [handles[i] for i in from_top_to_bottom],
        [labels[i] for i in from_top_to_bottom],
        frameon=False,
        loc="upper right",
    )
    _tidy(axes)


def _plot_gap(axes: Any, curves: Curves, tol: float | None) -> None:
    gaps = np.where(np.isfinite(curves.gaps), np.maximum(curves.gaps, 1e-300), np.nan)
    axes.step(curves.iterations, gaps, where="post", color=_BLACK, lw=1.5)
    smallest, largest = shown_gap_range(curves.gaps, tol)
    axes.set_yscale("log")
    axes.set_ylim(smallest / 1.6, largest * 1.6)
    if tol is not None:
        axes.axhline(tol, color="0.4", lw=1.2, ls=":")
        axes.annotate(
            f"tolerance {tol:g}",
            (0.005, tol),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            color="0.3",
            fontsize=9,
        )
    axes.margins(x=0.01)
    axes.set_ylabel("relative gap")
    axes.set_xlabel("iteration")
    axes.xaxis.get_major_locator().set_params(integer=True)
    _tidy(axes)


def _make_logarithmic(axes: Any) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _tidy(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="0.93", lw=0.8)
    axes.set_axisbelow(True)
