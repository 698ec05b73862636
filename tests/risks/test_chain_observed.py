"""The risk of a chain with weights for observed pairs only: that of all pairs, with zeros held."""

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cutplane as cp

from ..structured.sequences import Sample
from .exact import clarabel

LOSSES = (cp.ChainMargin(), cp.ChainCRF())
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
seeds = st.integers(0, 10_000)


def places(sample, risk):
    """Where the risk's parameters lie among those of all pairs."""
    seen = np.zeros((sample.n_labels, sample.dense.shape[1]), dtype=bool)
    counted = np.repeat(sample.weights > 0.0, np.diff(sample.offsets))
    for x, label, counts in zip(sample.dense, sample.y, counted, strict=True):
        if counts:
            seen[label] |= x != 0.0
    by_feature = np.flatnonzero(seen.T)
    feature, label = np.divmod(by_feature, sample.n_labels)
    pairs = label * seen.shape[1] + feature
    found = np.concatenate([pairs, np.arange(seen.size, sample.n_parameters)])
    assert len(found) == risk.n_parameters
    return found


def both(sample, loss):
    data, options = sample.arguments()
    return cp.ChainRisk(*data, loss, **options), cp.ChainRisk(
        *data, loss, observed_only=True, **options
    )


@every_loss
@given(seed=seeds, ends=st.booleans(), n_groups=st.integers(2, 5))
def test_values_and_planes_are_those_of_all_pairs(loss, seed, ends, n_groups):
    sample = Sample(seed, layout="CSR", ends=ends, weighted=seed % 2 == 0)
    full, risk = both(sample, loss)
    kept = places(sample, risk)
    w = sample.rng.normal(size=risk.n_parameters)
    v = np.zeros(full.n_parameters)
    v[kept] = w
    point, other = risk.at(w), full.at(v)
    assert point.value == pytest.approx(other.value, rel=1e-12, abs=1e-13)
    np.testing.assert_allclose(point.plane().slope, other.plane().slope[kept], atol=1e-13)
    assert point.plane().offset == pytest.approx(other.plane().offset, abs=1e-13)
    for mine, theirs in zip(point.planes(n_groups), other.planes(n_groups), strict=True):
        np.testing.assert_allclose(mine.slope, theirs.slope[kept], atol=1e-13)
        assert mine.offset == pytest.approx(theirs.offset, abs=1e-13)
    for mine, theirs in zip(risk.split(w), full.split(v), strict=True):
        dense = mine.toarray() if hasattr(mine, "toarray") else mine
        np.testing.assert_array_equal(dense, theirs)


@every_loss
@given(seed=seeds, ends=st.booleans(), exponent=st.integers(-4, 0))
@settings(max_examples=8)
def test_bounds_enclose_the_exact_optimum(loss, seed, ends, exponent):
    lam = 10.0**exponent
    sample = Sample(seed, layout="CSR", ends=ends, most=3)
    full, risk = both(sample, loss)
    kept = places(sample, risk)
    w = cvxpy.Variable(risk.n_parameters)
    terms = []
    for x, y in sample.sequences():
        mistakes, differences = sample.lines(x, y)
        heights = differences[:, kept] @ w
        crf = isinstance(loss, cp.ChainCRF)
        terms.append(cvxpy.log_sum_exp(heights) if crf else cvxpy.max(mistakes + heights))
    objective = 0.5 * lam * cvxpy.sum_squares(w) + sample.p @ cvxpy.hstack(terms)
    clarabel(cvxpy.Minimize(objective), 1e-9)
    v = np.zeros(full.n_parameters)
    v[kept] = w.value
    # The value at some point is no less than the optimum, whatever the solver's error.
    exact = 0.5 * lam * w.value @ w.value + full.at(v).value
    result = cp.minimize(risk, cp.L2(lam), tol=1e-5)
    assert result.certificate.lower_bound <= exact + 1e-12
    assert result.objective <= exact * (1 + 1e-5) + 1e-9
    assert result.objective >= result.certificate.lower_bound


def test_dense_features_are_refused():
    with pytest.raises(ValueError, match="need a sparse matrix"):
        cp.ChainRisk(np.eye(2), [0, 1], [0, 2], cp.ChainCRF(), observed_only=True)


def test_says_what_it_is():
    _, risk = both(Sample(3, layout="CSR"), cp.ChainCRF())
    assert "observed pairs" in repr(risk)
