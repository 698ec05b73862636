"""What all pictures draw: bounds and gaps as curves, and the range worth showing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.core.certificate import Certificate, Record

Curve = NDArray[np.float64]

# Bounds that are all positive and span more than this factor are drawn on a logarithmic scale,
# where the lower bound's way up takes as much room as the objective's way down.
_WIDE = 4.0

# On a linear scale, this many times as much is shown below the last lower bound as above it.
_SHARE_BELOW = 4.0


class Curves(NamedTuple):
    """Objectives, lower bounds and relative gaps as curves, and the range of the bounds to show.

    Early lower bounds may lie below that range.
    """

    upper: Curve
    lower: Curve
    gaps: Curve
    bottom: float
    top: float
    logarithmic: bool


def curves_of(records: Sequence[Record] | Sequence[Certificate]) -> Curves:
    """Return the curves of at least one record or certificate."""
    upper = np.array([record.objective for record in records])
    lower = np.array([record.lower_bound for record in records])
    gaps = np.array([record.relative_gap for record in records])
    return Curves(upper, lower, gaps, *_shown_range(upper, lower))


def shown_gap_range(gaps: Curve, tol: float | None) -> tuple[float, float]:
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


def _shown_range(upper: Curve, lower: Curve) -> tuple[float, float, bool]:
    """Return bottom, top, and whether the scale is logarithmic.

    The first lower bounds can be far below everything else. The range is limited so that the place
    where the bounds meet is always easy to see.
    """
    top = float(upper.max())
    end = float(lower[-1]) if math.isfinite(lower[-1]) else float(upper.min()) - 1.0
    lowest = float(lower.min())
    if top - end <= 1e-12 * max(abs(top), abs(end)) + 1e-200:  # nothing moves
        return end - 0.5, top + 0.5, False
    if 1e-12 * top < _WIDE * end < top:
        return max(lowest, end * (end / top)), top, True
    return max(lowest, end - _SHARE_BELOW * (top - end)), top, False
