"""Sums over all examples of vectors and of their products, along the tree of blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import add_up, joined, total
from cutplane.compute.products import dot
from cutplane.compute.threads import map_arrays


def sum_over(values: NDArray[Any]) -> Any:
    """Return the sum over all examples: a number, or one for each column."""
    summed = total(map_arrays(lambda part: part.sum(axis=0), values))
    return float(summed) if values.ndim == 1 else summed


def product_over(a: Vector, b: Vector) -> float:
    """Return the sum over all examples of ``a * b``."""
    return float(total(map_arrays(dot, np.ascontiguousarray(a), np.ascontiguousarray(b))))


def sum_and_size_over(values: Vector) -> tuple[float, float]:
    """Return the sums over all examples of values, and of absolute values."""
    both = add_up(map_arrays(lambda part: (part.sum(), np.abs(part).sum()), values))
    return float(both[0]), float(both[1])


def largest_over(values: Vector) -> float:
    """Return the largest number of all examples; minus infinity if there are none."""
    tops = map_arrays(lambda part: (np.array([part.max(initial=-np.inf)]),), values)
    return float(joined(tops)[0].max())


def largest_size_over(values: Vector) -> float:
    """Return the largest absolute value of all examples; zero if there are none."""
    tops = map_arrays(lambda part: (np.array([np.abs(part).max(initial=0.0)]),), values)
    return float(joined(tops)[0].max())
