"""Measures of predictions in which each example counts so often: what a bootstrap draws again.

A `Quality` holds predictions beside the truth, prepared once. Its measures are functions of how
often each unit (example, query or sequence) counts: once each for the measures of the data, as
often as it was drawn for those of a resample. One that is not defined is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from cutplane.compute.arrays import Vector

Columns = dict[str, Vector]
Measures = dict[str, float | Columns]
"""Numbers by name, and tables by name, whose columns are vectors."""


class Quality(Protocol):
    """Predictions beside the truth.

    Attributes
    ----------
    unit : str
        What the units are called, in the plural.
    n_units : int
    """

    unit: str
    n_units: int

    def facts(self) -> dict[str, Any]:
        """Return what stands beside the measures: counts, and for each table its first columns."""

    def at(self, counts: Vector) -> Measures:
        """Return the measures if unit ``i`` is there ``counts[i]`` times."""


def share(part: Any, whole: Any) -> Any:
    """Return a quotient, elementwise; NaN where the denominator is zero."""
    part, whole = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(whole > 0.0, part / whole, np.nan)
    return float(found) if found.ndim == 0 else found


def retrieved(right: Vector, predicted: Vector, there: Vector) -> Columns:
    """Return precision, recall and F1 of things that are looked for, from their counts."""
    return {
        "precision": share(right, predicted),
        "recall": share(right, there),
        "f1": share(2.0 * right, predicted + there),
    }


def measured(
    quality: Quality,
    *,
    resamples: int = 0,
    level: float = 0.95,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Return facts and measures as plain values, None where not defined.

    Parameters
    ----------
    quality : Quality
    resamples : int
        How many times to draw as many units as there are, with replacement. If positive, an entry
        ``intervals`` holds percentile intervals, in the shape of the measures.
    level : float
        The share of resamples whose measures lie in an interval.
    seed : int
    progress : callable
        Called with the share of the resamples that is done.
    """
    own, report = quality.at(np.ones(quality.n_units)), quality.facts()
    for name, value in own.items():
        plain = _plain(value, _number)
        if isinstance(value, Mapping):
            rows = report.get(name, [{} for _ in plain])
            plain = [first | rest for first, rest in zip(rows, plain, strict=True)]
        report[name] = plain
    if resamples > 0:
        ends = _percentiles(quality, own, resamples, level, seed, progress)
        report["intervals"] = {
            "level": level,
            "resamples": resamples,
            "seed": seed,
            "unit": quality.unit,
            **{name: _plain(value, _interval) for name, value in ends.items()},
        }
    return report


def _percentiles(
    quality: Quality,
    own: Measures,
    resamples: int,
    level: float,
    seed: int,
    progress: Callable[[float], None],
) -> dict[str, Any]:
    """Return both ends of each interval in the last axis, NaN where no resample is defined."""
    numbers = np.array([value for _, value in _flat(own)])
    drawn = np.empty((resamples, numbers.size))
    rng = np.random.default_rng(seed)
    for done in range(resamples):
        chosen = rng.integers(0, quality.n_units, size=quality.n_units)
        counts = np.bincount(chosen, minlength=quality.n_units).astype(np.float64)
        drawn[done] = [value for _, value in _flat(quality.at(counts))]
        progress((done + 1) / resamples)
    ends = np.full((numbers.size, 2), np.nan)
    known = ~np.isnan(drawn).all(axis=0) & ~np.isnan(numbers)
    tail = (1.0 - level) / 2.0
    if known.any():
        ends[known] = np.nanquantile(drawn[:, known], [tail, 1.0 - tail], axis=0).T
    each = iter(ends)
    return {
        name: (
            {key: np.array([next(each) for _ in column]) for key, column in value.items()}
            if isinstance(value, dict)
            else next(each)
        )
        for name, value in own.items()
    }


def _flat(measures: Measures) -> Iterator[tuple[str, float]]:
    """Yield all numbers, those of tables column by column."""
    for name, value in measures.items():
        if isinstance(value, dict):
            yield from ((name, number) for column in value.values() for number in column)
        else:
            yield name, value


def _plain(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Return a measure in plain values: ``leaf`` of it, or a table as a list of rows."""
    if isinstance(value, dict):
        columns = [[leaf(each) for each in column] for column in value.values()]
        return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]
    return leaf(value)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _interval(ends: Vector) -> list[float] | None:
    return None if np.isnan(ends).any() else ends.tolist()
