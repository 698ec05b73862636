"""Our passes of the compiler change how long it takes, not what a kernel does."""

import itertools
import subprocess
import sys

import numba
import numpy as np
import pytest

from cutplane.compute import compiled
from cutplane.compute.compiled import njit

if not numba.__version__.startswith(compiled.VERSIONS_OF_OUR_PASSES):
    pytest.skip(f"not tried with Numba {numba.__version__}", allow_module_level=True)

OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}


def _largest(values, first):
    largest = -np.inf
    for i in range(first, len(values)):
        largest = max(largest, values[i])
    return largest


inner_largest = njit(inner=True, **OPTIONS)(_largest)
plain_largest = numba.njit(**OPTIONS)(_largest)


def _with(largest):
    def sums(matrix, shift, out):
        """Use operators, rows, pairs of indices, memory and a kernel of its own."""
        memory = np.zeros(matrix.shape[0])
        for i in range(matrix.shape[0]):
            row = matrix[i]
            for j in range(row.size):
                memory[i] += row[j] * row[j] / (shift + abs(matrix[i, -1]))
            out[i] = min(memory[i], 1e3) - largest(row, 1)
        return memory[0] + largest(memory, 0)

    return sums


def test_same_results_as_the_ordinary_compiler():
    matrix = np.random.default_rng(0).standard_normal((17, 23))
    ours, plain = np.empty(17), np.empty(17)
    value = njit(**OPTIONS)(_with(inner_largest))(matrix, 0.5, ours)
    assert value == pytest.approx(
        numba.njit(**OPTIONS)(_with(plain_largest))(matrix, 0.5, plain), rel=1e-13
    )
    np.testing.assert_allclose(ours, plain, rtol=1e-12)


@pytest.mark.parametrize("fastmath", [False, OPTIONS["fastmath"]])
def test_max_and_min_choose_as_those_of_numba(fastmath):
    def choose(a, b):
        return max(a, b), min(a, b), max(2, b), min(a, 3)

    ours, plain = njit(fastmath=fastmath)(choose), numba.njit(fastmath=fastmath)(choose)
    numbers = [0.0, -0.0, 1.5, np.inf, -np.inf, np.nan]
    for a, b in itertools.product([*numbers, 2, np.float32(2.5)], [*numbers, 3, np.float32(1.5)]):
        assert repr(ours(a, b)) == repr(plain(a, b))
    assert njit()(lambda a, b, c: max(a, b, c))(1, 2.5, np.float32(2.0)) == 2.5
    assert njit()(lambda pair: max(pair))((1.0, 2.0)) == 2.0
    assert njit()(lambda a, b: max(a, b))(True, False) is True


def test_what_was_found_is_not_taken_for_other_types():
    kernel = njit(**OPTIONS)(lambda a, b: a[0] / b)
    for values in (np.array([3, 4]), np.array([3.0, 4.0]), np.array([3.0, 4.0], dtype=np.float32)):
        assert kernel(values, 2) == 1.5
        assert kernel(values, 2.0) == 1.5


def test_what_was_found_is_not_taken_for_other_options():
    from cutplane.compute import pipeline

    kernel = lambda a: a[0] * 2.0 + np.empty(3).size  # noqa: E731
    assert njit(error_model="numpy")(kernel)(np.ones(1)) == 5.0
    known = set(pipeline._found)
    assert njit(fastmath=OPTIONS["fastmath"])(kernel)(np.ones(1)) == 5.0
    new = {function.typing_key for _, function, _ in set(pipeline._found) - known}
    assert new == {np.empty}  # in Python: compiled with the options of its caller


def test_extensions_are_found_after_a_kernel_was_compiled():
    assert njit()(lambda a: a + 1)(1) == 2
    target = njit()(lambda a: a).targetdescr
    for context in (target.typing_context, target.target_context):
        assert "load_additional_registries" not in vars(context)


def test_signatures_are_remembered():
    from cutplane.compute import pipeline

    njit()(lambda a: a[0] * a[1] + a[2])(np.ones(3))
    known = len(pipeline._found)
    assert njit()(lambda a: a[2] * a[1] + a[0] * a[0])(np.ones(3)) == 2.0
    assert len(pipeline._found) == known


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


def test_other_versions_of_numba_compile_with_their_own_passes(monkeypatch):
    monkeypatch.setattr(compiled, "VERSIONS_OF_OUR_PASSES", ("none",))
    assert compiled._our_passes() == {}
    matrix, out = np.ones((3, 4)), np.empty(3)
    njit(**OPTIONS)(_with(njit(inner=True, **OPTIONS)(_largest)))(matrix, 1.0, out)
    np.testing.assert_allclose(out, 1.0)
