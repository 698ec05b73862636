"""Every loss that is a sum has the same bits on one, two and five workers, and on none."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse

import cutplane as cp
from cutplane.compute import blocks
from cutplane.losses import CLASSIFICATION, REGRESSION

da = pytest.importorskip("dask.array", reason="needs the extra cutplane[dask]")

from cutplane.cluster import sharded_sample  # noqa: E402
from cutplane.cluster.risk import ShardedRisk  # noqa: E402

M, D = 411, 6
LOSSES = {
    task: [make() for make in known.values() if make().in_blocks]
    for task, known in {"classification": CLASSIFICATION, "regression": REGRESSION}.items()
}


def set_blocks(least_numbers, least_entries):
    before = blocks.LEAST_NUMBERS, blocks.LEAST_ENTRIES
    blocks.LEAST_NUMBERS, blocks.LEAST_ENTRIES = least_numbers, least_entries
    return before


@pytest.fixture
def short_blocks(client):
    """Let few rows have as many blocks as many have, here and on the workers."""
    before = set_blocks(16, 64)
    client.run(set_blocks, 16, 64)
    yield
    set_blocks(*before)
    client.run(set_blocks, *before)


def data(task, sparse):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(M, D))
    X[rng.random(X.shape) < 0.5] = 0.0
    score = X @ rng.normal(size=D) + rng.normal(size=M)
    y = np.where(score > 0.2, 1.0, -1.0) if task == "classification" else np.abs(score)
    weights = rng.integers(0, 3, M).astype(float)
    return scipy.sparse.csr_array(X) if sparse else X, y, weights


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("task", LOSSES)
def test_every_loss_has_the_same_bits(client, short_blocks, task, sparse):
    assert len(LOSSES[task]) >= 5
    X, y, weights = data(task, sparse)
    run = partial(cp.minimize, regularizer=cp.L2(1e-2), method=cp.bmrm(), max_iter=3)
    plain = [run(cp.ScoredRisk(X, y, loss, weights=weights)) for loss in LOSSES[task]]
    dense = X.toarray() if sparse else X
    arrays = [da.from_array(a, chunks=(100, *a.shape[1:])) for a in (dense, y, weights)]
    if sparse:
        arrays[0] = arrays[0].map_blocks(
            scipy.sparse.csr_array, meta=scipy.sparse.csr_array((0, D))
        )
    workers = sorted(client.run(int))
    for n_workers in (1, 2, 5):
        sample = sharded_sample(*arrays, workers=workers[:n_workers])
        assert sample.n_shards >= 8
        for loss, here in zip(LOSSES[task], plain, strict=True):
            there = run(ShardedRisk(sample, loss))
            assert np.array_equal(there.w, here.w), (loss, n_workers)
            assert there.certificate.lower_bound == here.certificate.lower_bound
            assert np.array_equal(there.point.intercept, here.point.intercept)
        assert not sample.losses
        assert len(sample._holders) == n_workers
        sample.close()
