"""Compiled passes of steps whose variance is reduced, at the cost of the entries of a row.

    w <- w - eta * (lam w + importance_i (q_i - q_i') x_i + a)

with ``q_i'`` the slope of example ``i`` at a reference point and ``a`` the slope of the risk there.
The iterate is kept as ``scale * v + shift * a``, so that ``a``, which has no zeros, costs nothing:
its products with the rows, ``X a``, are known beforehand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.prefetch import fetch
from cutplane.methods.row_products import add_row, row_product
from cutplane.methods.stochastic.kernels import (
    IMPORTANCE,
    LENGTH,
    SLOPE,
    TARGET,
    IndexVector,
)
from cutplane.methods.stochastic.slopes import slope_of

_LEAST_SCALE = 1e-6


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def multiply_out(v: Vector, slope_there: Vector, scale: float, shift: float) -> None:
    """Replace ``v`` by the iterate."""
    for j in range(len(v)):
        v[j] = scale * v[j] + shift * slope_there[j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def svrg_epoch(
    values: NDArray[Any], indices: NDArray[Any], starts: NDArray[Any],
    facts: Matrix, form: int, shape: Matrix, order: IndexVector,
    products: Vector, slope_there: Vector, lam: float, eta: float, offset: float, v: Vector,
    factors: Vector,
) -> None:  # fmt: skip
    """Take a step on each example in ``order``.

    Before and afterwards the iterate is ``factors[0] * v + factors[1] * slope_there``.

    ``facts`` are as for `kernels.epoch`, with the slopes at the reference point. ``products`` are
    those of the rows with ``slope_there``, the slope of the risk at that point.
    """
    width = np.uint64(len(v))
    dense = len(indices) == 0
    scale, shift = factors
    for k in range(len(order)):
        i = order[k]
        if k + 1 < len(order):
            # The next row is on its way while this one is worked on. (Time of an epoch beside that
            # without: news20_ng 0.75, reuters_lasvm 0.75, a9a 0.6.)
            coming = order[k + 1]
            begin = np.uint64(coming) * width if dense else np.uint64(starts[coming])
            if not dense:
                fetch(indices, begin)
            fetch(values, begin)
            fetch(values, begin + np.uint64(8))
            fetch(facts, coming * facts.shape[1])
            fetch(products, coming)
        first = np.uint64(i) * width if dense else np.uint64(starts[i])
        last = first + width if dense else np.uint64(starts[i + 1])
        score = scale * row_product(values, indices, first, last, v) + shift * products[i]
        slope = slope_of(form, shape, facts[i, TARGET], score + offset)
        scale *= 1.0 - eta * lam
        shift = (1.0 - eta * lam) * shift - eta
        change = -eta * facts[i, IMPORTANCE] * (slope - facts[i, SLOPE])
        if change != 0.0 and facts[i, LENGTH] > 0.0:
            add_row(values, indices, first, last, change / scale, v)
        if scale < _LEAST_SCALE:
            multiply_out(v, slope_there, scale, shift)
            scale, shift = 1.0, 0.0
    factors[0], factors[1] = scale, shift
