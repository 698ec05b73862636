"""A picture of a run, drawn with matplotlib: the bounds closing in, and below them the gap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cutplane.core.state import Record
from cutplane.report.curves import curves_of
from cutplane.report.figures import (
    PlottingUnavailable,
    new_figure,
    plot_bounds,
    plot_gap,
    png_of,
    require_plotting,
    set_titles,
)

__all__ = ["PlottingUnavailable", "draw_png", "require_plotting"]


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
    figure = new_figure((8.0, 6.4))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    set_titles(above, title, subtitle)
    if records:
        curves = curves_of(records)
        x = np.array([record.iteration for record in records], dtype=float)
        plot_bounds(above, x, curves, steps="post")
        plot_gap(below, x, curves.gaps, tol, steps="post")
        below.set_xlabel("iteration")
        below.xaxis.get_major_locator().set_params(integer=True)
    return png_of(figure)
