"""Certificates of ranking risks, against an exact solver that lists all pairs and all rankings."""

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cutplane as cp

from ..losses.ranking_twins import ndcg, ndcg_queries, pairwise, shares_of_pairs
from .exact import clarabel

METHODS = [cp.bmrm(), cp.bmrm(line_search=False), cp.level()]
LOSSES = [
    cp.PairwiseHinge(),
    cp.PairwiseHinge("pair", "grades"),
    cp.PairwiseHinge("query", "gains"),
    cp.NDCGHinge(2),
    cp.NDCGHinge(10),
    cp.NDCGListHinge(2),
    cp.NDCGListHinge(10),
]


def sample(seed):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(4), rng.integers(2, 6, 4))
    X = rng.normal(size=(len(qid), 3)).round(1)
    y = rng.integers(0, 3, len(qid)).astype(float)
    y[:2] = [0.0, 2.0]
    weights = np.array([0.5, 1.0, 1.0, 2.0])[qid]
    mixed = rng.permutation(len(qid))
    return X[mixed], y[mixed], qid[mixed], weights[mixed]


def risk_by_definition(loss, y, z, qid, weights):
    if isinstance(loss, cp.PairwiseHinge):
        return pairwise(y, z, qid, weights, loss.per, loss.pair_weights)
    return ndcg(loss, y, z, qid, weights)


def exact_minimizer(loss, X, y, qid, weights, lam):
    w = cvxpy.Variable(X.shape[1])
    if isinstance(loss, cp.PairwiseHinge):
        pairs = shares_of_pairs(y, qid, weights, loss.per, loss.pair_weights)
        better, worse, shares = (np.array(column) for column in zip(*pairs, strict=True))
        risk = shares @ cvxpy.pos(1 - (X[better] - X[worse]) @ w)
    else:
        queries = ndcg_queries(loss, y, qid)
        total = sum(weights[documents[0]] for documents, _ in queries)
        risk = 0
        for documents, lists in queries:
            for tangents in lists:
                slopes, offsets = map(np.array, zip(*tangents, strict=True))
                worst = cvxpy.max(slopes @ X[documents] @ w + offsets)
                risk += weights[documents[0]] / total * worst
    clarabel(cvxpy.Minimize(lam / 2 * cvxpy.sum_squares(w) + risk))
    return w.value


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), lam=st.sampled_from([1.0, 0.1, 0.01]))
def test_bounds_hold(loss, seed, lam):
    X, y, qid, weights = sample(seed)
    best = exact_minimizer(loss, X, y, qid, weights, lam)
    optimum = lam / 2 * best @ best + risk_by_definition(loss, y, X @ best, qid, weights)
    risk = cp.ScoredRisk(X, y, loss.for_queries(qid), weights=weights, intercept=False)
    for method in METHODS:
        result = cp.minimize(risk, cp.L2(lam), method=method, tol=1e-6, max_iter=500)
        # The solver's point is not better than the optimum, so its objective bounds ours.
        assert result.certificate.lower_bound <= optimum + 1e-12
        assert optimum <= result.objective * (1.0 + 1e-7)
        assert result.status is cp.Status.OPTIMAL
        w = result.w
        afresh = lam / 2 * w @ w + risk_by_definition(loss, y, X @ w, qid, weights)
        assert result.objective == pytest.approx(afresh, rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_bounds_hold_before_the_end(loss):
    X, y, qid, weights = sample(7)
    best = exact_minimizer(loss, X, y, qid, weights, 0.1)
    optimum = 0.05 * best @ best + risk_by_definition(loss, y, X @ best, qid, weights)
    risk = cp.ScoredRisk(X, y, loss.for_queries(qid), weights=weights, intercept=False)
    for method in [*METHODS, cp.balanced_proximal(), cp.bmrm(planes=2)]:
        history = cp.minimize(risk, cp.L2(0.1), method=method, tol=1e-6, max_iter=30).history
        assert max(record.lower_bound for record in history) <= optimum + 1e-12
        assert min(record.objective for record in history) >= optimum * (1.0 - 1e-7)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_an_intercept_has_no_effect(loss):
    X, y, qid, weights = sample(0)
    lows = [
        cp.minimize(
            cp.ScoredRisk(X, y, loss.for_queries(qid), weights=weights, intercept=intercept),
            cp.L2(0.1),
            tol=1e-6,
        ).certificate
        for intercept in (True, False)
    ]
    assert lows[0] == lows[1]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_rows_of_every_kind(loss):
    from scipy.sparse import csr_array

    X, y, qid, _ = sample(1)
    bound = loss.for_queries(qid)
    bounds = [
        cp.minimize(cp.ScoredRisk(rows, y, bound), cp.L2(0.1), tol=1e-6).certificate.lower_bound
        for rows in (X, np.asfortranarray(X), csr_array(X))
    ]
    assert bounds == pytest.approx([bounds[0]] * 3, rel=1e-6)


def test_small_lam_keeps_the_bounds_in_order():
    # The first candidates have scores of 1e6, whose rounding must not reach the offsets.
    X, y, qid, weights = sample(2)
    for loss in LOSSES:
        risk = cp.ScoredRisk(X, y, loss.for_queries(qid), weights=weights, intercept=False)
        result = cp.minimize(risk, cp.L2(1e-7), tol=1e-4, max_iter=2000)
        assert result.status is cp.Status.OPTIMAL
        best = exact_minimizer(loss, X, y, qid, weights, 1e-7)
        optimum = 0.5e-7 * best @ best + risk_by_definition(loss, y, X @ best, qid, weights)
        assert result.certificate.lower_bound <= optimum * (1.0 + 1e-12) + 1e-15


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_groups_are_refused(loss):
    X, y, qid, _ = sample(0)
    risk = cp.ScoredRisk(X, y, loss.for_queries(qid), intercept=False)
    assert risk.good_groups == 1
    with pytest.raises(ValueError, match="groups need a loss that is a sum over examples"):
        cp.minimize(risk, cp.L2(0.1), method=cp.bmrm(groups=4))
