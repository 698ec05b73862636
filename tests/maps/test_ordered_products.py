"""Scores whose bits depend on nothing but the row and the weights."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from cutplane.data import ordered_scores

STORED = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=0)[::2],
    "csr": scipy.sparse.csr_array,
    "csr, long indices": lambda X: with_long_indices(scipy.sparse.csr_array(X)),
    "csr, unsorted": lambda X: backwards(scipy.sparse.csr_array(X)),
    "csc": scipy.sparse.csc_array,
}
in_every_format = pytest.mark.parametrize("store", STORED.values(), ids=STORED)


def with_long_indices(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def backwards(X):
    """Return the same matrix with the entries of each row in the opposite order."""
    entries = np.concatenate(
        [np.arange(b - 1, a - 1, -1) for a, b in zip(X.indptr, X.indptr[1:], strict=False)]
    ).astype(np.int64)
    return scipy.sparse.csr_array((X.data[entries], X.indices[entries], X.indptr), shape=X.shape)


def one_after_the_other(X, W):
    """The definition: start at zero, take up one rounded product after the other."""
    total = np.zeros((len(X), len(W)))
    for x, w in zip(np.asarray(X, dtype=np.float64).T, W.T, strict=True):
        total = total + x[:, None] * w
    return total


def random(m, d, k, dtype, seed):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((m, d)) < 0.6, rng.standard_normal((m, d)), 0.0).astype(dtype)
    return X, rng.standard_normal((k, d)) * 10.0 ** rng.integers(-3, 4, (k, d))


@in_every_format
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(m=st.integers(1, 70), d=st.integers(1, 30), k=st.integers(1, 9), seed=st.integers(0, 10**6))
def test_bits_are_those_of_the_definition(store, dtype, m, d, k, seed):
    X, W = random(m, d, k, dtype, seed)
    assert ordered_scores(store(X), W).tobytes() == one_after_the_other(X, W).tobytes()


@in_every_format
@pytest.mark.parametrize("k", [1, 7, 40])
def test_bits_are_those_of_the_definition_where_work_is_cut_into_blocks(store, k):
    X, W = random(1_500, 300, k, np.float64, 0)
    expected = one_after_the_other(X, W).tobytes()
    for n_threads in (1, 2, 3):
        assert ordered_scores(store(X), W, n_threads=n_threads).tobytes() == expected


@in_every_format
@given(seed=st.integers(0, 10**6), k=st.integers(1, 6))
def test_any_rows_in_any_order(store, seed, k):
    X, W = random(50, 20, k, np.float64, seed)
    rows = np.random.default_rng(seed).integers(0, 50, 13)
    whole = ordered_scores(store(X), W)
    np.testing.assert_array_equal(ordered_scores(store(X[rows]), W), whole[rows])


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0)])
@pytest.mark.parametrize("k", [1, 5])
def test_nothing_to_add(shape, k):
    for X in (np.empty(shape), scipy.sparse.csr_array(shape)):
        scores = ordered_scores(X, np.empty((k, shape[1])))
        np.testing.assert_array_equal(scores, np.zeros((shape[0], k)))


def test_other_numbers_are_converted():
    X, W = np.array([[1, 2], [3, 4]]), np.array([[0.5, 0.25]])
    for integers in (X, scipy.sparse.csr_array(X)):
        np.testing.assert_array_equal(ordered_scores(integers, W), [[1.0], [2.5]])


def test_shapes_must_match():
    with pytest.raises(ValueError, match="W must have 3 columns to match X, got 2"):
        ordered_scores(np.ones((2, 3)), np.ones((1, 2)))
