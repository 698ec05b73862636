"""A pass in pieces, between which it may end: the time is over, or Ctrl-C waits.

All that a pass has changed is whole between two pieces, to the last bit: in how many it is taken
does not show. Examples that it does not come to keep the slopes that they have.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.pace import hurried

# Numbers that a piece reads: some milliseconds, beside which a call costs nothing.
_IN_A_PIECE = 1 << 20


def until_hurried(
    order: NDArray[np.int64], n_entries: int, *, batch: int = 1
) -> Iterator[NDArray[np.int64]]:
    """Yield the order of a pass piece by piece, in whole batches, until the step should end.

    Parameters
    ----------
    order : ndarray
        The examples that a pass visits.
    n_entries : int
        How many numbers it reads in all.
    batch : int
        Examples a step.
    """
    steps = _IN_A_PIECE * len(order) // (batch * max(n_entries, 1))
    size = batch * max(steps, 1)
    for begin in range(0, len(order), size):
        if begin and hurried():
            return
        yield order[begin : begin + size]
