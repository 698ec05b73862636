"""A fit takes memory for a few vectors as long as the sample and for the planes, never for X."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

import cutplane as cp

CASES = {
    "quantile": (cp.LinearRegressor("quantile", quantile=0.9, lam=1e-3), "C", np.float32),
    "columns": (cp.LinearRegressor("quantile", quantile=0.9, lam=1e-3), "F", np.float32),
    "float64": (cp.LinearRegressor("quantile", quantile=0.9, lam=1e-3), "C", np.float64),
    "squared": (cp.LinearRegressor(lam=1e-3), "C", np.float32),
    "hinge": (cp.LinearClassifier(lam=1e-3), "C", np.float32),
    "no intercept": (cp.LinearClassifier(lam=1e-3, fit_intercept=False), "C", np.float32),
    "sparse": (cp.LinearClassifier(lam=1e-3, method="bmrm-line-search"), "CSR", np.float32),
    "dual ascent": (cp.LinearClassifier(lam=1e-3, method="dual-ascent"), "CSR", np.float32),
}
LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "CSR": scipy.sparse.csr_array,
}
# Vectors of float64 as long as the sample: targets, weights, the scores of a few points (best,
# candidate, on the segment), and what a search along a ray or for the intercept needs meanwhile.
MOST_VECTORS = 12  # measured: 8.1 to 11.9


def peak_bytes(work):
    """Return what is allocated at most at a time; NumPy tells tracemalloc of its arrays."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def extra_bytes(model, X, y):
    """Return what a fit allocates beyond its data; compiled code and imports are not counted."""
    model.fit(X, y)
    return peak_bytes(lambda: model.fit(X, y))


def sample(m, d, dtype, layout):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, d), dtype=np.float32).astype(dtype)
    y = X[:, 0] + 0.5 * X[:, 1] + rng.standard_normal(m)
    if layout == "CSR":
        X[rng.random((m, d)) < 0.5] = 0.0
    return LAYOUTS[layout](X), y


def planes_bytes(model, d):
    # The bundle grows by doubling; while it does, the old and the new one are there.
    return 3 * 8 * d * 2 * (model.n_iter_ + 2)


@pytest.mark.parametrize("case", CASES)
def test_a_few_vectors(case):
    m, d = 60_000, 10
    model, layout, dtype = CASES[case]
    X, y = sample(m, d, dtype, layout)
    if isinstance(model, cp.LinearClassifier):
        y = np.sign(y)
    assert extra_bytes(model, X, y) <= MOST_VECTORS * 8 * m + planes_bytes(model, d) + 100_000


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wide_data_is_not_copied(dtype, layout):
    m, d = 4_000, 300
    X, y = sample(m, d, dtype, layout)
    model = cp.LinearClassifier(lam=1.0)
    nbytes = X.data.nbytes + X.indices.nbytes if layout == "CSR" else X.nbytes
    assert extra_bytes(model, X, np.sign(y)) < 0.5 * nbytes


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_prediction_does_not_copy_the_data(dtype, layout):
    X, y = sample(4_000, 300, dtype, layout)
    model = cp.LinearClassifier(lam=1.0).fit(X, np.sign(y))
    expected = X.astype(np.float64) @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-12, atol=1e-12)
    assert peak_bytes(lambda: model.decision_function(X)) < 0.25 * X.size * X.dtype.itemsize


def test_prediction_does_not_copy_the_whole_of_a_strided_view(monkeypatch):
    monkeypatch.setattr("cutplane.data.ordered_products._COPIED", 1 << 15)
    X, y = sample(8_000, 300, np.float64, "C")
    model = cp.LinearClassifier(lam=1.0).fit(X, np.sign(y))
    assert peak_bytes(lambda: model.decision_function(X[::2])) < 0.25 * X[::2].nbytes
