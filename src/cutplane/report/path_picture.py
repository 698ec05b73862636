"""A picture of a regularization path: bounds, gaps and scores against lam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutplane.core.state import Certificate
from cutplane.report.curves import Curve, curves_of
from cutplane.report.figures import (
    BLACK,
    new_figure,
    plot_bounds,
    plot_gap,
    set_titles,
    tidy,
)


def draw_path(
    lams: Curve,
    certificates: Sequence[Certificate],
    *,
    title: str,
    subtitle: str = "",
    tol: float | None = None,
    scores: Curve | None = None,
) -> Any:
    """Return a matplotlib figure of the bounds, the relative gap, and the scores if there are any.

    Parameters
    ----------
    lams : ndarray
        Decreasing; drawn from left to right.
    certificates : sequence of Certificate
        One for each lam.
    title, subtitle : str
        What was fitted, and the work it took.
    tol : float, optional
        A relative gap to mark.
    scores : ndarray, optional
        A score for each lam, the more the better; the best one is marked.

    Raises
    ------
    PlottingUnavailable
        If matplotlib is not installed.
    """
    n_panels = 2 if scores is None else 3
    figure = new_figure((8.0, 3.2 * n_panels))
    bounds, gaps, *rest = figure.subplots(n_panels, 1, sharex=True)
    set_titles(bounds, title, subtitle)
    curves = curves_of(certificates)
    plot_bounds(bounds, lams, curves, steps=None)
    plot_gap(gaps, lams, curves.gaps, tol, steps=None)
    if scores is not None:
        _plot_scores(rest[0], lams, scores)
    lowest = (gaps, *rest)[-1]
    lowest.set_xlabel("lam")
    lowest.set_xscale("log")
    lowest.invert_xaxis()  # in the order of the fits, towards larger models
    return figure


def _plot_scores(axes: Any, lams: Curve, scores: Curve) -> None:
    best = int(scores.argmax())
    left = 2 * best < len(scores)  # the text goes to where there is room for it
    axes.plot(lams, scores, color=BLACK, lw=1.5, marker="o", ms=3)
    axes.axvline(lams[best], color="0.4", lw=1.2, ls=":")
    axes.annotate(
        f"best: {scores[best]:.4g} at lam = {lams[best]:.3g}",
        (lams[best], scores.min()),
        xytext=(6 if left else -6, 0),
        ha="left" if left else "right",
        textcoords="offset points",
        color="0.3",
        fontsize=9,
    )
    axes.set_ylabel("score")
    tidy(axes)
