"""Weights for all pairs of feature and class, or for those that occur: against NumPy."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from tests.random_arrays import random_array

from cutplane.data import AllPairs, ObservedPairs, as_rows

seeds = st.integers(0, 10_000)


def observed(X, y, n_classes):
    """Which pairs (class, feature) occur, by definition."""
    seen = np.zeros((n_classes, X.shape[1]), dtype=bool)
    for row, k in zip(X, y, strict=True):
        if k >= 0:
            seen[k] |= row != 0.0
    return seen


@given(
    seed=seeds,
    m=st.integers(1, 30),
    d=st.integers(1, 12),
    n_classes=st.integers(1, 12),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_observed_pairs_are_a_matrix_with_zeros_elsewhere(seed, m, d, n_classes, dtype):
    rng = np.random.default_rng(seed)
    values = np.ones((m, d)) if seed % 2 else rng.normal(size=(m, d))
    X = (values * (rng.random((m, d)) < 0.3)).astype(dtype)
    y = rng.integers(-1, n_classes, m).astype(np.int32)
    stored = scipy.sparse.csr_array(X)
    if stored.nnz:
        stored.data[0] = 0.0  # a zero that is stored is no feature
        X = stored.toarray()
    pairs = ObservedPairs(as_rows(stored), y, n_classes)
    seen = observed(X, y, n_classes)
    assert pairs.n_parameters == seen.sum()
    w = rng.normal(size=pairs.n_parameters)
    W = np.zeros(seen.shape)
    W.T[seen.T] = w  # feature after feature
    np.testing.assert_array_equal(pairs.as_matrix(w).toarray(), W)
    np.testing.assert_array_equal(pairs.weighted(), seen.T)
    np.testing.assert_array_equal(pairs.from_table(W.T), w)
    table = np.where(seen.T, 1.0, 0.0)
    pairs.add_to_table(w, table)
    np.testing.assert_array_equal(table, W.T + seen.T)
    X = X.astype(np.float64)
    np.testing.assert_allclose(pairs.scores(w), X @ W.T, rtol=1e-13, atol=1e-14)
    slopes = rng.normal(size=(m, n_classes)) * (rng.random((m, 1)) < 0.5)
    full = (slopes.T @ X).T[seen.T]
    np.testing.assert_allclose(pairs.pullback(slopes), full, rtol=1e-13, atol=1e-13)
    bounds = np.array([0, m // 3, m // 3, m])
    blocks = pairs.block_pullbacks(slopes, bounds)
    assert blocks.shape == (3, pairs.n_parameters)
    for i, block in enumerate(blocks):
        part = slice(bounds[i], bounds[i + 1])
        expected = (slopes[part].T @ X[part]).T[seen.T]
        np.testing.assert_allclose(block, expected, rtol=1e-13, atol=1e-13)


def test_threads_leave_no_trace():
    rng = np.random.default_rng(0)
    X = random_array((20_000, 50), density=0.2, rng=rng, format="csr")
    y = rng.integers(0, 4, 20_000).astype(np.int32)
    slopes = rng.normal(size=(20_000, 4))
    found = [ObservedPairs(as_rows(X, n_threads=n), y, 4) for n in (1, 2, 3)]
    w = rng.normal(size=found[0].n_parameters)
    assert found[0].n_sums > 1  # or there is nothing to be tested
    for pairs in found[1:]:
        np.testing.assert_array_equal(pairs.scores(w), found[0].scores(w))
        np.testing.assert_array_equal(pairs.pullback(slopes), found[0].pullback(slopes))


def test_all_pairs_are_a_matrix():
    rng = np.random.default_rng(1)
    X, w, slopes = rng.normal(size=(7, 3)), rng.normal(size=6), rng.normal(size=(7, 2))
    pairs = AllPairs(as_rows(X), 2)
    assert pairs.n_parameters == 6
    np.testing.assert_allclose(pairs.scores(w), X @ w.reshape(2, 3).T)
    np.testing.assert_allclose(pairs.pullback(slopes), (slopes.T @ X).ravel())
    np.testing.assert_array_equal(pairs.as_matrix(w), w.reshape(2, 3))
    assert pairs.weighted().shape == (3, 2)
    assert pairs.weighted().all()
    np.testing.assert_array_equal(pairs.from_table(pairs.as_matrix(w).T), w)
    table = np.ones((3, 2))
    pairs.add_to_table(w, table)
    np.testing.assert_array_equal(table, 1.0 + w.reshape(2, 3).T)


def test_dense_features_are_refused():
    with pytest.raises(ValueError, match="need a sparse matrix"):
        ObservedPairs(as_rows(np.ones((2, 2))), np.zeros(2, dtype=np.int32), 2)


@given(seed=seeds, m=st.integers(1, 30), n_classes=st.integers(1, 12), ones=st.booleans())
def test_parts_and_squares(seed, m, n_classes, ones):
    rng = np.random.default_rng(seed)
    values = np.ones((m, 6)) if ones else rng.normal(size=(m, 6))
    X = values * (rng.random((m, 6)) < 0.5)
    y = rng.integers(0, n_classes, m).astype(np.int32)
    pairs = ObservedPairs(as_rows(scipy.sparse.csr_array(X)), y, n_classes)
    w, slopes = rng.normal(size=pairs.n_parameters), rng.normal(size=(m, n_classes))
    seen = observed(X, y, n_classes).T
    squares = pairs.squared().pullback(slopes)
    np.testing.assert_allclose(squares, ((X**2).T @ slopes)[seen], rtol=1e-12, atol=1e-13)
    chosen = rng.permutation(m)[: m // 2]
    part = pairs.part(chosen)
    np.testing.assert_allclose(part.scores(w), pairs.scores(w)[chosen], rtol=1e-12, atol=1e-13)
    expected = (X[chosen].T @ slopes[chosen])[seen]
    np.testing.assert_allclose(part.pullback(slopes[chosen]), expected, rtol=1e-12, atol=1e-13)
