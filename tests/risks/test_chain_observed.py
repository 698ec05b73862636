"""The risk of a chain with weights for observed pairs only: that of all pairs, with zeros held."""

import cvxpy
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.random_arrays import random_array

import cutplane as cp
from cutplane.core.protocols import NonFiniteRisk

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
@pytest.mark.parametrize("observed_only", [False, True])
@given(seed=seeds, ends=st.booleans())
def test_a_touched_point_has_the_value_and_the_plane(loss, observed_only, seed, ends):
    sample = Sample(seed, layout="CSR", ends=ends, weighted=seed % 2 == 0)
    risk = both(sample, loss)[observed_only]
    w = sample.rng.normal(size=risk.n_parameters)
    whole = risk.at(w)
    plane, value = whole.plane(), whole.value
    inferences, evaluations = risk.inferences, risk.evaluations
    kept = risk.evaluate_once(w)
    assert risk.inferences - inferences == risk.n_examples
    assert risk.evaluations - evaluations == 1
    assert kept.value == pytest.approx(value, rel=1e-12, abs=1e-13)
    np.testing.assert_allclose(kept.plane().slope, plane.slope, rtol=1e-12, atol=1e-13)
    assert kept.plane().offset == pytest.approx(plane.offset, rel=1e-12, abs=1e-13)


@every_loss
def test_pieces_are_the_same_for_any_number_of_threads(loss):
    rng = np.random.default_rng(5)
    n, n_labels = 20_000, 12
    X = random_array((n, 300), density=0.03, rng=rng, format="csr")
    X.data[:] = np.round(X.data, 1)
    y = rng.integers(0, n_labels, n)
    offsets = np.concatenate([[0], np.sort(rng.integers(0, n, 900)), [n, n, n]])
    kept = []
    for n_threads in (1, 2, 3):
        risk = cp.ChainRisk(X, y, offsets, loss, observed_only=True, ends=True, n_threads=n_threads)
        w = np.random.default_rng(6).normal(size=risk.n_parameters)
        kept.append(risk.evaluate_once(w))
    assert risk.pairs.n_sums > 1  # or there is nothing to be tested
    for other in kept[1:]:
        assert other.value == kept[0].value
        assert other.plane().offset == kept[0].plane().offset
        np.testing.assert_array_equal(other.plane().slope, kept[0].plane().slope)
    whole = risk.at(w)
    assert other.value == pytest.approx(whole.value, rel=1e-12)
    np.testing.assert_allclose(other.plane().slope, whole.plane().slope, atol=1e-12)


@pytest.mark.parametrize("observed_only", [False, True])
def test_scores_that_overflow_are_told(observed_only):
    X = scipy.sparse.csr_array(np.array([[1e200, 1e200], [1e200, 0.0]]))
    risk = cp.ChainRisk(X, [0, 1], [0, 2], cp.ChainCRF(), observed_only=observed_only)
    with pytest.raises(NonFiniteRisk, match="scores overflow at coefficients of norm"):
        risk.evaluate_once(np.full(risk.n_parameters, 1e120))


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


@given(seed=seeds, ends=st.booleans())
def test_rough_bends_are_sums_over_tokens(seed, ends):
    sample = Sample(seed, layout="CSR", ends=ends, weighted=seed % 2 == 0)
    risk = both(sample, cp.ChainCRF())[True]
    w = sample.rng.normal(size=risk.n_parameters)
    chains, slopes = risk.data.chains, risk.at(w).outcome.slopes()
    weights = np.repeat(risk.data.weights, chains.lengths)[:, None]
    p = np.divide(
        slopes.emissions, weights, where=weights > 0.0, out=np.zeros_like(slopes.emissions)
    )
    p[np.arange(len(p)), risk.data.y] += weights.ravel() > 0.0
    bends = weights * p * (1.0 - p)
    X = sample.dense
    by_pair = (X.T**2 @ bends)[risk.weighted]
    pairs = (slopes.transitions + risk.data.observed_pairs).sum(axis=0).ravel()
    parts = [by_pair, pairs]
    if ends:
        parts += [bends[chains.firsts].sum(axis=0), bends[chains.lasts].sum(axis=0)]
    found = risk.bends_at(w)
    np.testing.assert_allclose(found, np.concatenate(parts), rtol=1e-9, atol=1e-12)
    assert (found >= -1e-12).all()
