"""A cluster that is gone: said in one sentence, and no wait without an end."""

import time

import numpy as np
import pytest

import cutplane as cp

da = pytest.importorskip("dask.array", reason="needs the extra cutplane[dask]")
distributed = pytest.importorskip("distributed", reason="needs the extra cutplane[dask]")

from cutplane.cluster.fitting import sharded_sample  # noqa: E402
from cutplane.cluster.workers import ClusterError  # noqa: E402
from cutplane.risks.shards.risk import ShardedRisk  # noqa: E402

pytestmark = pytest.mark.slow

M, D = 262_144, 3


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(M, D))
    y = np.where(X @ np.array([2.0, -1.0, 0.5]) + rng.normal(size=M) > 0.0, 1.0, -1.0)
    return X, y


def test_a_cluster_that_is_gone_is_named():
    X, y = data()
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster),
    ):
        sample = sharded_sample(da.from_array(X, 70_000), da.from_array(y, 70_000), patience=3.0)
        risk = ShardedRisk(sample, cp.Hinge())
        cluster.scale(0)
        with pytest.raises(ClusterError, match="no worker is left"):
            _evaluate_for(60.0, risk)


def _evaluate_for(seconds, risk):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        risk.at(np.zeros(D))
