"""What the pictures drawn with matplotlib have in common: bounds, gaps, scales and colors."""

from __future__ import annotations

import io
from typing import Any, Literal

import numpy as np

from cutplane.report.curves import Curve, Curves, shown_gap_range

# Okabe and Ito's colors, which color-blind readers can tell apart; the lines differ in style too.
_VERMILLION, _BLUE, BLACK = "#D55E00", "#0072B2", "#000000"

Steps = Literal["post"] | None
"""Whether curves hold each value until the next ("post"), or connect them."""


class PlottingUnavailable(ImportError):
    """Matplotlib is not installed."""


def require_plotting() -> None:
    """Find out before a long computation whether its plot can be drawn.

    Raises
    ------
    PlottingUnavailable
        If matplotlib is not installed.
    """
    new_figure((1.0, 1.0))


def new_figure(size: tuple[float, float]) -> Any:
    """Return a figure of its own, without pyplot: nothing global is touched, no display needed.

    Raises
    ------
    PlottingUnavailable
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlottingUnavailable('plots need matplotlib: pip install "cutplane[plot]"') from error
    return Figure(figsize=size, layout="constrained")


def png_of(figure: Any) -> bytes:
    """Return the figure as a PNG picture."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=150)
    return content.getvalue()


def set_titles(axes: Any, title: str, subtitle: str) -> None:
    """Write what was fitted, and how it ended, above the axes."""
    axes.set_title(title, fontsize=14, fontweight="bold", loc="left", pad=24)
    axes.text(0.0, 1.03, subtitle, transform=axes.transAxes, fontsize=10, color="0.3")


def plot_bounds(axes: Any, x: Curve, curves: Curves, *, steps: Steps) -> None:
    """Draw objective and lower bound against ``x``, and fill what is in between."""
    upper = curves.upper
    below = curves.bottom / 10 if curves.logarithmic else 2 * curves.bottom - curves.top
    # What lies below the picture must not be infinite, or zero on a logarithmic scale.
    lower = np.maximum(curves.lower, below)
    axes.fill_between(
        x, lower, upper, step=steps, color="0.9", linewidth=0, label="the optimum is in between"
    )
    style = {"drawstyle": "steps-post" if steps else "default", "lw": 2}
    axes.plot(x, upper, color=_VERMILLION, label="objective of the best model", **style)
    axes.plot(x, lower, color=_BLUE, ls=(0, (4, 1)), label="lower bound", **style)
    if curves.logarithmic:
        make_logarithmic(axes)
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
    tidy(axes)


def plot_gap(axes: Any, x: Curve, gaps: Curve, tol: float | None, *, steps: Steps) -> None:
    """Draw relative gaps against ``x``, and the tolerance."""
    shown = np.where(np.isfinite(gaps), np.maximum(gaps, 1e-300), np.nan)
    axes.plot(x, shown, drawstyle="steps-post" if steps else "default", color=BLACK, lw=1.5)
    smallest, largest = shown_gap_range(gaps, tol)
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
    tidy(axes)


def make_logarithmic(axes: Any) -> None:
    """Give the axes a vertical scale that is logarithmic, with plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def tidy(axes: Any) -> None:
    """Leave only what helps to read the picture."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="0.93", lw=0.8)
    axes.set_axisbelow(True)
