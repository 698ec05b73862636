"""Fits on a cluster of processes: the bits of a fit on one machine."""

import logging
import os
import signal
import threading

import numpy as np
import pytest
import scipy.sparse

import cutplane as cp

da = pytest.importorskip("dask.array", reason="needs the extra cutplane[dask]")

from tests.cluster.processes import pids_of  # noqa: E402

from cutplane.cluster import sharded_sample  # noqa: E402
from cutplane.cluster.risk import ShardedRisk  # noqa: E402
from cutplane.cluster.workers import ClusterError  # noqa: E402

M, D = 350_077, 3  # eight shards, so that each of five workers has some
METHOD = cp.bmrm()


def made(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(M, D)).astype(np.float32)
    score = X @ np.array([2.0, -1.0, 0.5]) + rng.normal(size=M)
    return X, score, rng.integers(0, 3, M).astype(float)


def lazily(*arrays):
    """Return Dask arrays, cut where no block begins."""
    sizes = (90_001, 120_000, 70_003)
    return [
        da.from_array(array, chunks=(size, *array.shape[1:]))
        for array, size in zip(arrays, sizes, strict=False)
    ]


def test_a_classifier_has_the_same_bits_and_lazy_predictions(client):
    X, score, weights = made()
    y = np.where(score > 0.2, "yes", "no")
    plain = cp.LinearClassifier(lam=1e-3, method=METHOD, class_weight={"no": 2.0})
    plain.fit(X, y, sample_weight=weights)
    dX, dy, dw = lazily(X, y, weights)
    model = cp.LinearClassifier(lam=1e-3, method=METHOD, class_weight={"no": 2.0})
    model.fit(dX, dy, sample_weight=dw)
    assert np.array_equal(model.coef_, plain.coef_)
    assert np.array_equal(model.intercept_, plain.intercept_)
    assert model.certificate_.lower_bound == plain.certificate_.lower_bound
    assert list(model.classes_) == ["no", "yes"]
    predicted = model.predict(dX)
    assert isinstance(predicted, da.Array)
    assert np.array_equal(predicted.compute(), plain.predict(X))
    scores = model.decision_function(dX)
    assert np.array_equal(scores.compute(), plain.decision_function(X))


def test_a_regressor_has_the_same_bits_on_sparse_chunks(client):
    X, score, _ = made(1)
    X[np.abs(X) < 0.5] = 0.0
    sparse = scipy.sparse.csr_array(X)
    plain = cp.LinearRegressor("quantile", quantile=0.8, lam=1e-3, method=METHOD).fit(sparse, score)
    dX, dy = lazily(X, score)
    dX = dX.map_blocks(scipy.sparse.csr_array, meta=scipy.sparse.csr_array((0, D), dtype=X.dtype))
    model = cp.LinearRegressor("quantile", quantile=0.8, lam=1e-3, method=METHOD).fit(dX, dy)
    assert np.array_equal(model.coef_, plain.coef_)
    assert model.intercept_ == plain.intercept_
    assert np.array_equal(model.predict(dX).compute(), plain.predict(sparse))


def test_rows_that_workers_hold_already_are_taken_from_them(client):
    X, score, _ = made(5)
    plain = cp.LinearRegressor("absolute", lam=1e-3, method=METHOD).fit(X, score)
    held = [array.persist() for array in lazily(X, score)]
    model = cp.LinearRegressor("absolute", lam=1e-3, method=METHOD).fit(*held)
    assert np.array_equal(model.coef_, plain.coef_)


def agree(one, other, tol=1e-3):
    """Say whether two certificates of one problem are within a tolerance, and may both be true."""
    certificates = one.certificate, other.certificate
    return all(a.valid and a.relative_gap <= tol for a in certificates) and all(
        a.lower_bound <= b.objective for a in certificates for b in certificates
    )


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_fit_goes_on_when_a_worker_is_lost(client, n_workers):
    X, score, _ = made(2)
    y = np.where(score > 0.0, 1.0, -1.0)
    plain = cp.minimize(cp.ScoredRisk(X, y, cp.Logistic()), cp.L2(1e-4), method=METHOD)
    pids = pids_of(client)
    workers = sorted(pids)[: n_workers + 1]
    sample = sharded_sample(*lazily(X, y), workers=workers, patience=20.0)

    def kill_one(state):
        if state.iteration == 2:
            os.kill(pids[workers[0]], signal.SIGKILL)

    result = cp.minimize(
        ShardedRisk(sample, cp.Logistic()), cp.L2(1e-4), method=METHOD, callbacks=[kill_one]
    )
    assert len(sample.losses) == 1
    assert workers[0] in sample.losses[0]
    assert agree(result, plain)
    sample.close()


def test_workers_that_are_slow_to_answer_are_waited_for(client):
    X, score, _ = made(6)
    plain = cp.minimize(cp.ScoredRisk(X, score, cp.Absolute()), cp.L2(1e-3), method=METHOD)
    pids = pids_of(client).values()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)

    def go_on():
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    threading.Timer(1.5, go_on).start()  # all are asked meanwhile, several times
    sample = sharded_sample(*lazily(X, score))
    result = cp.minimize(ShardedRisk(sample, cp.Absolute()), cp.L2(1e-3), method=METHOD)
    assert not sample.losses
    assert len(sample._holders) == len(pids)
    assert np.array_equal(result.w, plain.w)
    sample.close()


def test_where_no_other_worker_is_one_that_answers_again_is_waited_for(client, caplog):
    X, score, _ = made(4)
    plain = cp.minimize(cp.ScoredRisk(X, score, cp.Absolute()), cp.L2(1e-3), method=METHOD)
    pids = pids_of(client)
    worker = min(pids)
    sample = sharded_sample(*lazily(X, score), workers=[worker], patience=2.0)
    caplog.set_level(logging.WARNING)  # which the cluster has silenced

    def stop_for_a_while(state):
        if state.iteration == 2:
            os.kill(pids[worker], signal.SIGSTOP)
            threading.Timer(3.0, os.kill, [pids[worker], signal.SIGCONT]).start()

    result = cp.minimize(
        ShardedRisk(sample, cp.Absolute()), cp.L2(1e-3), method=METHOD, callbacks=[stop_for_a_while]
    )
    assert "nothing heard for 2 s" in sample.losses[0]
    assert "no worker is there: waiting 60 s for one" in caplog.text
    assert agree(result, plain)
    sample.close()


def test_what_cannot_be_fitted_is_said_in_one_sentence(client):
    X, score, _ = made(3)
    dX, dy = lazily(X, np.where(score > 0.0, 1, -1))
    with pytest.raises(ValueError, match="needs all of them on one machine"):
        cp.LinearClassifier("roc_area").fit(dX, dy)
    with pytest.raises(ValueError, match="not convex"):
        cp.LinearClassifier("ramp").fit(dX, dy)
    with pytest.raises(TypeError, match="takes no Dask collections"):
        cp.OrdinalClassifier().fit(dX, dy)
    with pytest.raises(ValueError, match=f"y has 10 rows, X has {M}"):
        cp.LinearRegressor().fit(dX, dy[:10])
    with pytest.raises(TypeError, match="y must be a Dask collection"):
        cp.LinearRegressor().fit(dX, score)
    broken = dX.map_blocks(lambda part: part / 0.0 * 0.0, dtype=dX.dtype)
    with (
        np.errstate(all="ignore"),
        pytest.raises(RuntimeError, match=r"shard 0 .*X has a value that is missing or infinite"),
    ):
        cp.LinearRegressor().fit(broken, dy)


def test_without_a_client_there_is_no_cluster():
    with pytest.raises(ClusterError, match=r"make a distributed\.Client first"):
        cp.LinearRegressor().fit(da.ones((10, 2)), da.ones(10))
