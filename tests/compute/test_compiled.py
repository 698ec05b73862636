"""Compiled loops that only others call: the same results, and no files of their own."""

import subprocess
import sys

import numpy as np
import pytest

from cutplane.compute.compiled import REORDER, njit

OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": REORDER}


def largest(values, first):
    found = -np.inf
    for i in range(first, len(values)):
        found = max(found, values[i])
    return found


inner_largest = njit(inner=True, **OPTIONS)(largest)


def test_an_inner_loop_is_part_of_the_one_that_calls_it():
    def sums(matrix, shift, out):
        for i in range(matrix.shape[0]):
            total = 0.0
            for j in range(matrix.shape[1]):
                total += matrix[i, j] * matrix[i, j] / (shift + abs(matrix[i, -1]))
            out[i] = min(total, 1e3) - inner_largest(matrix[i], 1)
        return inner_largest(out, 0)

    matrix = np.random.default_rng(0).standard_normal((17, 23))
    out = np.empty(17)
    value = njit(**OPTIONS)(sums)(matrix, 0.5, out)
    squares = (matrix**2).sum(axis=1) / (0.5 + np.abs(matrix[:, -1]))
    np.testing.assert_allclose(out, squares - matrix[:, 1:].max(axis=1), rtol=1e-12)
    assert value == pytest.approx(out.max(), rel=1e-13)


def test_kernels_from_the_cache_need_no_inner_ones(tmp_path):
    (tmp_path / "kernels.py").write_text(
        "from cutplane.compute.compiled import njit\n"
        "@njit(cache=True, inner=True)\n"
        "def twice(x):\n    return 2.0 * x\n"
        "@njit(cache=True)\n"
        "def four_times(x):\n    return twice(twice(x))\n"
        "print(four_times(3.0), sum(four_times.stats.cache_hits.values()))\n"
    )
    command = [sys.executable, "kernels.py"]
    runs = [
        subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert runs == ["12.0 0\n", "12.0 1\n"]
    assert not list(tmp_path.rglob("*twice-*"))
