"""The two products for many classes at once, for every format, against NumPy."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from cutplane.data import as_rows

EPS = np.finfo(np.float64).eps

FORMATS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "csr": scipy.sparse.csr_array,
}
in_every_format = pytest.mark.parametrize("store", FORMATS.values(), ids=FORMATS)
in_both_precisions = pytest.mark.parametrize("dtype", [np.float32, np.float64])


class OnlyVectors:
    """Rows as a user would write them: products with vectors, and nothing else."""

    def __init__(self, X):
        self.X, self.shape = X, X.shape

    def scores(self, w):
        return self.X @ w

    def pullback(self, slopes):
        return self.X.T @ slopes


def random(m, d, k, dtype, rng):
    X = np.where(rng.random((m, d)) < 0.5, rng.standard_normal((m, d)), 0.0).astype(dtype)
    slopes = rng.standard_normal((m, k)) * (rng.random((m, k)) < 0.5)
    slopes[rng.random(m) < 0.5] = 0.0
    return X, rng.standard_normal((k, d)), slopes


def assert_products(rows, X, W, slopes):
    X = np.asarray(X, dtype=np.float64)
    for got, a, b in (
        (rows.class_scores(W), X, W.T),
        (rows.class_pullback(slopes), slopes.T, X),
    ):
        assert got.dtype == np.float64
        assert got.flags.c_contiguous
        rounding = 2 * (a.shape[1] + 2) * EPS * (np.abs(a) @ np.abs(b))
        np.testing.assert_array_less(np.abs(got - a @ b), rounding + 1e-300)


@in_every_format
@in_both_precisions
@given(m=st.integers(1, 40), d=st.integers(1, 12), k=st.integers(1, 7), seed=st.integers(0, 10**6))
def test_agrees_with_numpy(store, dtype, m, d, k, seed):
    X, W, slopes = random(m, d, k, dtype, np.random.default_rng(seed))
    assert_products(as_rows(store(X)), X, W, slopes)


@in_every_format
@in_both_precisions
def test_agrees_over_many_blocks_and_leaves_no_trace_of_threads(store, dtype):
    X, W, slopes = random(20_011, 21, 5, dtype, np.random.default_rng(0))
    X[1000:9000] = 0
    stored = store(X)
    assert_products(as_rows(stored, n_threads=2), X, W, slopes)
    bits = {
        rows.class_scores(W).tobytes() + rows.class_pullback(slopes).tobytes()
        for rows in (as_rows(stored, n_threads=n) for n in (1, 2, 3))
    }
    assert len(bits) == 1


def test_rows_of_a_user_need_products_with_vectors_only():
    X, W, slopes = random(30, 4, 3, np.float64, np.random.default_rng(1))
    assert_products(as_rows(OnlyVectors(X)), X, W, slopes)


@pytest.mark.parametrize("store", [*FORMATS.values(), OnlyVectors], ids=[*FORMATS, "only vectors"])
def test_blocks_of_rows(store):
    X, _, slopes = random(50, 4, 3, np.float64, np.random.default_rng(2))
    bounds = np.array([0, 7, 7, 30, 50])
    blocks = as_rows(store(X)).class_block_pullbacks(slopes, bounds)
    expected = [slopes[i:j].T @ X[i:j] for i, j in pairwise(bounds)]
    np.testing.assert_allclose(blocks, expected, atol=1e-14)


@pytest.mark.parametrize("store", [FORMATS["C"], FORMATS["csr"]], ids=["C", "csr"])
def test_rows_without_slopes_are_not_read(store):
    X = np.array([[np.inf, np.nan], [1.0, 2.0]])
    slopes = np.array([[0.0, 0.0], [3.0, 0.5]])
    np.testing.assert_array_equal(
        as_rows(store(X)).class_pullback(slopes), [[3.0, 6.0], [0.5, 1.0]]
    )


@in_every_format
def test_wrong_shapes(store):
    rows = as_rows(store(np.ones((4, 3))))
    with pytest.raises(ValueError, match=r"W must have shape \(2, 3\) to match X, got \(2, 4\)"):
        rows.class_scores(np.ones((2, 4)))
    with pytest.raises(ValueError, match=r"slopes must have shape \(4, 2\) .* got \(3, 2\)"):
        rows.class_pullback(np.ones((3, 2)))
