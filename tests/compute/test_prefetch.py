"""Rows asked for ahead of time: nothing changes, wherever they are asked for."""

import numpy as np
import pytest

from cutplane.compute.compiled import fetch, fetch_row, njit


@njit(nogil=True)
def total(values, indices, index, first, last):
    fetch(values, index)
    fetch_row(values, indices, np.uint64(first), np.uint64(last))
    return values.sum() + indices.sum()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [np.int32, np.int64])
@pytest.mark.parametrize("n", [0, 1, 1000])
@pytest.mark.parametrize(
    ("index", "first", "last"),
    [(0, 0, 0), (5, 3, 900), (-1, 990, 1010), (10**12, 10**12, 10**12 + 50)],
)
def test_asking_changes_nothing_and_needs_nothing_to_be_there(kind, columns, n, index, first, last):
    values, indices = np.arange(n, dtype=kind), np.arange(n, dtype=columns)
    assert total(values, indices, index, first, last) == n * (n - 1)
    np.testing.assert_array_equal(values, np.arange(n))


@njit(nogil=True, inlined=True)
def weighted_sum(values, factor):
    # Long enough to be left out of line if nobody asked for it.
    a = b = c = 0.0
    for k in range(len(values)):
        a += values[k] * factor
        b += np.sqrt(abs(values[k])) + a
        c = max(c, a - b)
    return a + b * c


@njit(nogil=True)
def twice(values):
    return weighted_sum(values, 1.0) + weighted_sum(values, 2.0)


def test_what_is_inlined_is_not_called():
    assert np.isfinite(twice(np.arange(9.0)))
    (code,) = twice.inspect_asm().values()
    body = code[code.index("twice") : code.index(".cfi_endproc")]
    assert "weighted_sum" not in body
