"""Pictures drawn with matplotlib: a run, a regularization path, curves side by side.

The first two show bounds and gaps: the objective above the lower bound, with the optimum in
between, and below them the relative gap on a logarithmic scale. Without matplotlib, all of them
raise `PlottingUnavailable`.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.core.certificate import Certificate, Record
from cutplane.report.charts import curves_of, shown_gap_range

# Okabe and Ito's colors, which color-blind readers can tell apart; the lines differ in style too.
_VERMILLION, _BLUE, _BLACK = "#D55E00", "#0072B2", "#000000"

_NOTE = {"textcoords": "offset points", "color": "0.3", "fontsize": 9}

Steps = Literal["post"] | None
"""Whether curves hold each value until the next ("post"), or connect them."""


class PlottingUnavailable(ImportError):
    """Matplotlib is not installed."""


def require_plotting() -> None:
    """Find out before a long computation whether its plot can be drawn."""
    new_figure((1.0, 1.0))


def new_figure(size: tuple[float, float]) -> Any:
    """Return a figure of its own, without pyplot: nothing global is touched, no display needed."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlottingUnavailable('plots need matplotlib: pip install "cutplane[plot]"') from error
    return Figure(figsize=size, layout="constrained")


FORMATS = ("png", "svg", "pdf")
"""Kinds of pictures, as names of files end."""


def picture_of(figure: Any, kind: str = "png") -> bytes:
    """Return the figure as a picture of one of the `FORMATS`, the same bytes each time."""
    # SVG has random names inside unless told otherwise, and both would have the time.
    from matplotlib import rc_context

    content, when = io.BytesIO(), {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with rc_context({"svg.hashsalt": "cutplane"}):
        figure.savefig(content, format=kind, dpi=150, metadata=when.get(kind))
    return content.getvalue()


def draw_run(
    records: Sequence[Record],
    *,
    title: str,
    subtitle: str = "",
    tol: float | None = None,
    proven: bool = True,
) -> Any:
    """Return a figure of a run's bounds and relative gap against iterations, ``tol`` marked.

    Title and subtitle say what was fitted, and how it ended; ``proven``, whether the bounds hold.
    """
    figure = new_figure((8.0, 6.4))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    _set_titles(above, title, subtitle)
    if records:
        x = np.array([record.iteration for record in records], dtype=float)
        _plot_both(above, below, x, records, tol, steps="post", proven=proven)
        below.set_xlabel("iteration")
        below.xaxis.get_major_locator().set_params(integer=True)
    return figure


def draw_path(
    lams: Vector,
    certificates: Sequence[Certificate],
    *,
    title: str,
    subtitle: str = "",
    tol: float | None = None,
    scores: Vector | None = None,
    errors: Vector | None = None,
    chosen: float | None = None,
) -> Any:
    """Return a figure of the bounds, the relative gap, and the scores if any, against lam.

    There is a certificate for each lam; they decrease, and are drawn from left to right. Of the
    scores, the more the better, the best one is marked, or the ``chosen`` lam; ``errors`` are
    drawn around them. The rest is as for `draw_run`.
    """
    n_panels = 2 if scores is None else 3
    figure = new_figure((8.0, 3.2 * n_panels))
    bounds, gaps, *rest = figure.subplots(n_panels, 1, sharex=True)
    _set_titles(bounds, title, subtitle)
    proven = all(certificate.valid for certificate in certificates)
    _plot_both(bounds, gaps, lams, certificates, tol, steps=None, proven=proven)
    if scores is not None:
        axes = rest[0]
        best = int(scores.argmax()) if chosen is None else int(np.argmin(np.abs(lams - chosen)))
        left = 2 * best < len(scores)  # the text goes to where there is room for it
        axes.plot(lams, scores, color=_BLACK, lw=1.5, marker="o", ms=3)
        axes.axvline(lams[best], color="0.4", lw=1.2, ls=":")
        place = {"xytext": (6 if left else -6, 0), "ha": "left" if left else "right"}
        if errors is not None:
            axes.fill_between(lams, scores - errors, scores + errors, color="0.85", lw=0, zorder=1)
        what = "best" if chosen is None else "chosen"
        text = f"{what}: {scores[best]:.4g} at lam = {lams[best]:.3g}"
        axes.annotate(text, (lams[best], scores.min()), **place, **_NOTE)
        _tidy(axes, "score")
    lowest = (gaps, *rest)[-1]
    lowest.set_xlabel("lam")
    lowest.set_xscale("log")
    lowest.invert_xaxis()  # in the order of the fits, towards larger models
    return figure


def draw_lam_proof(
    edges: Vector,
    at_least: Vector,
    lams: Vector,
    errors: Vector,
    *,
    chosen: tuple[float, float],
    threshold: float,
    title: str,
    y_title: str,
) -> Any:
    """Return a figure of errors against lam, and what they are at least between the edges.

    Where the bound is above the threshold, no lam can have an error below it: this is shaded.
    """
    figure = new_figure((8.0, 4.2))
    axes = figure.subplots()
    _set_titles(axes, title, f"{len(lams)} lams fitted in each fold, {len(at_least)} intervals")
    # Far below the threshold nothing is to be seen but that it failed.
    room = max(max(errors) - min(errors), 2.0 * (min(errors) - threshold))
    axes.set_ylim(min(errors) - 0.6 * room, max(errors) + 0.1 * room)
    axes.stairs(at_least, edges, baseline=None, color="C1", label="lower bound")
    for high, low, bound in zip(edges, edges[1:], at_least, strict=False):
        if bound >= threshold:
            axes.axvspan(low, high, color="C2", alpha=0.12, lw=0)
    axes.axvspan(edges[0], edges[0], color="C2", alpha=0.3, lw=0, label="discarded: cannot win")
    axes.plot(lams, errors, marker=".", color="C0", label="error in cross-validation")
    axes.plot(*chosen, marker="o", mfc="none", ms=10, color="C3", ls="", label="chosen")
    axes.axhline(threshold, color="C3", lw=0.8, ls="--", label="what no lam goes below")
    axes.set(xlabel="lam", ylabel=y_title, xscale="log")
    axes.invert_xaxis()
    axes.legend(frameon=False, fontsize="small", loc="lower left", ncols=2)
    return figure


class Series(NamedTuple):
    """The curves of a line of panels: keys of a row, and titles; by default against iterations.

    ``spread`` names the lowest and the highest values that a curve is the middle of, to be shaded.
    """

    y: str
    y_title: str
    x: str | None = None
    x_title: str = "iterations"
    x_scale: str = "linear"
    spread: tuple[str, str] | None = None


def draw_curves(
    rows: Sequence[Mapping[str, Any]],
    lines: Sequence[Series],
    *,
    panel: str,
    label: str,
    scale: str = "linear",
    wrap: int | None = None,
) -> Any:
    """Return a figure of the curves in rows of results, a line of panels for each of ``lines``.

    The values of the keys ``panel`` and ``label`` tell the panels of a line apart, and the curves
    of a panel; ``scale`` is that of the vertical axes. With ``wrap``, a line of more panels than
    that goes on below.
    """
    values = list(dict.fromkeys(row[panel] for row in rows))
    width = min(wrap or len(values), len(values))
    height = len(lines) * -(-len(values) // width)
    figure = new_figure((4.5 * width, 3.5 * height))
    grid = figure.subplots(height, width, squeeze=False)
    for (line, value), axes in zip(product(lines, values), grid.flat, strict=False):
        for row in rows:
            if row[panel] == value:
                x = row[line.x] if line.x else range(1, len(row[line.y]) + 1)
                (curve,) = axes.plot(x, row[line.y], label=in_words(label, row[label]))
                if line.spread:
                    lowest, highest = (row[key] for key in line.spread)
                    axes.fill_between(x, lowest, highest, color=curve.get_color(), alpha=0.2, lw=0)
        axes.set(title=in_words(panel, value), xlabel=line.x_title)
        axes.set(xscale=line.x_scale, yscale=scale)
        finish_axes(axes, line.y_title)
    return figure


def in_words(name: str, value: Any) -> str:
    """Return a choice as it is called in titles: a number with its name, a word alone."""
    return value if isinstance(value, str) else f"{name} = {value:g}"


def finish_axes(axes: Any, title: str) -> None:
    """Add a small legend and the title of the vertical axis."""
    axes.legend(frameon=False, fontsize=8)
    _tidy(axes, title)


def _set_titles(axes: Any, title: str, subtitle: str) -> None:
    """Write what was fitted, and how it ended, above the axes."""
    axes.set_title(title, fontsize=14, fontweight="bold", loc="left", pad=24)
    axes.text(0.0, 1.03, subtitle, transform=axes.transAxes, fontsize=10, color="0.3")


def _plot_both(
    above: Any,
    below: Any,
    x: Vector,
    records: Sequence[Record] | Sequence[Certificate],
    tol: float | None,
    *,
    steps: Steps,
    proven: bool,
) -> None:
    """Draw bounds, with what is in between filled, and below them the relative gap.

    Of a risk that is not convex, where nothing is ``proven``, they are not called bounds.
    """
    curves = curves_of(records)
    style = {"drawstyle": "steps-post" if steps else "default"}
    # What lies below the picture must not be infinite, or zero on a logarithmic scale.
    least = curves.bottom / 10 if curves.logarithmic else 2 * curves.bottom - curves.top
    upper, lower = curves.upper, np.maximum(curves.lower, least)
    # Labeled in the order of the legend, from top to bottom.
    above.plot(x, upper, color=_VERMILLION, lw=2, label="objective of the best model", **style)
    between = "the optimum is in between" if proven else "what the model could still gain"
    below_it = "lower bound" if proven else "lowest point of the model: no bound"
    above.fill_between(x, lower, upper, step=steps, color="0.9", lw=0, label=between, zorder=1)
    above.plot(x, lower, color=_BLUE, lw=2, ls=(0, (4, 1)), label=below_it, **style)
    if curves.logarithmic:
        from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

        above.set_yscale("log")
        above.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        above.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))  # plain numbers
        above.yaxis.set_minor_formatter(NullFormatter())
    above.set_ylim(*curves.widened(0.05))
    above.legend(frameon=False, loc="upper right")
    _tidy(above, "objective")

    gaps = np.where(np.isfinite(curves.gaps), np.maximum(curves.gaps, 1e-300), np.nan)
    below.plot(x, gaps, color=_BLACK, lw=1.5, **style)
    smallest, largest = shown_gap_range(curves.gaps, tol)
    below.set(yscale="log", ylim=(smallest / 1.6, largest * 1.6))
    if tol is not None:
        below.axhline(tol, color="0.4", lw=1.2, ls=":")
        place = {"xycoords": ("axes fraction", "data"), "xytext": (0, 3)}
        below.annotate(f"tolerance {tol:g}", (0.005, tol), **place, **_NOTE)
    _tidy(below, "relative gap")


def _tidy(axes: Any, title: str) -> None:
    """Name the vertical axis, and leave only what helps to read the picture."""
    axes.set_ylabel(title)
    axes.margins(x=0.01)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="0.93", lw=0.8)
    axes.set_axisbelow(True)
