"""Examples whose scores move along a ray: what the exact searches of one dimension look at."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.threads import map_blocks

T = TypeVar("T")

Block: TypeAlias = tuple[Vector, Vector, Vector, Vector]
"""The fields of `MovingScores`, of a block: kernels take plain tuples sooner than named ones."""


class MovingScores(NamedTuple):
    """Targets, scores and weights of examples, and the direction in which scores move.

    That is a vector, or a number where it is the same for all.
    """

    y: Vector
    scores: Vector
    weights: Vector
    direction: Any

    def block(self, i: slice) -> Block:
        """Return a block of the examples, for kernels."""
        d = self.direction
        along = _constant(d, i.stop - i.start) if isinstance(d, float) else d[i]
        return self.y[i], self.scores[i], self.weights[i], along

    def map(self, kernel: Callable[[Block], T]) -> list[T]:
        """Return the results of a kernel, block by block."""
        return map_blocks(lambda i: kernel(self.block(i)), len(self.scores))


@lru_cache(maxsize=8)
def _constant(value: float, length: int) -> Vector:
    """Return a constant vector as long as a block; there are few lengths of blocks."""
    return np.full(length, value)
