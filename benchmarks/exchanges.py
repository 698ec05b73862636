"""Sparse, wide rows on shards: the bundle method, and local dual epochs with steps of it between.

    python benchmarks/exchanges.py [rows] [features]

Rows are generated texts of 60 words and six topics, of which every other one is positive, with a
tenth of the labels wrong; in random order, and sorted by label. They lie on a cluster of two
processes. Shown is the first moment at which a gap was proven: how often members were called or
sent sums until then, what went over the connections, and the wall-clock time. (The first run of a
method also compiles.)
"""

from __future__ import annotations

import sys
import time
from itertools import product

import dask.array as da
import numpy as np
import scipy.sparse
from datasets import generated_texts
from distributed import Client, LocalCluster

import cutplane as cp

GAPS = (1e-1, 1e-2, 1e-3)
METHODS = {"bmrm": cp.bmrm(), "dual_ascent": cp.dual_ascent(planes=None)}


def as_dask(X: scipy.sparse.csr_array, y: np.ndarray, n_chunks: int = 4) -> tuple[da.Array, ...]:
    """Return CSR rows and targets as Dask arrays."""
    size = -(-X.shape[0] // n_chunks)
    blocks = [
        da.from_delayed(
            _delayed(X[k : k + size]), shape=(min(size, X.shape[0] - k), X.shape[1]), dtype=X.dtype,
            meta=scipy.sparse.csr_array((0, X.shape[1])),
        )
        for k in range(0, X.shape[0], size)
    ]  # fmt: skip
    return da.concatenate(blocks), da.from_array(y, chunks=size)


def _delayed(part: scipy.sparse.csr_array) -> object:
    from dask import delayed

    return delayed(part)


def run(X: da.Array, y: da.Array, lam: float, name: str) -> list[tuple[float, int, int, float]]:
    """Return gap, exchanges, bytes and seconds at each gap that was proven."""
    found: list[tuple[float, int, int, float]] = []
    with cp.sharded_sample(X, y) as sample:
        risk = cp.ShardedRisk(sample, cp.Hinge(), intercept=False)
        begin, before = time.perf_counter(), sample.traffic

        def look(state: object) -> None:
            gap = (state.objective - state.lower) / state.objective  # type: ignore[attr-defined]
            while len(found) < len(GAPS) and gap <= GAPS[len(found)]:
                now = sample.traffic
                seconds = time.perf_counter() - begin
                found.append((gap, now[0] - before[0], now[1] - before[1], seconds))

        cp.minimize(
            risk,
            cp.L2(lam),
            method=METHODS[name],
            stop=cp.Gap(relative=GAPS[-1]),
            max_iter=400,
            time_limit=40.0,
            callbacks=[look],
        )
        print(f"  {sample.n_shards} shards", end="")
    return found


def main() -> None:
    """Print a table."""
    n_rows, n_features = (*map(int, sys.argv[1:3]), 1 << 17, 50_000)[:2]
    rng = np.random.default_rng(0)
    X, topics = generated_texts(rng, n_rows, n_features, 60, 6)
    wrong = rng.random(n_rows) < 0.1
    y = np.where((topics % 2 == 0) != wrong, 1.0, -1.0)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster),
    ):
        for order, factor in product(("random", "sorted"), (10.0, 1.0)):
            rows = np.argsort(y, kind="stable") if order == "sorted" else np.arange(n_rows)
            arrays = as_dask(X[rows], y[rows])
            for name in METHODS:
                found = run(*arrays, factor / n_rows, name)
                told = "; ".join(
                    f"{gap:.0e}: {exchanges} exchanges, {n_bytes / 1e6:.1f} MB, {seconds:.1f} s"
                    for gap, exchanges, n_bytes, seconds in found
                )
                print(f"  {order:6} lam = {factor:g}/m  {name:11} {told or 'no gap proven'}")


if __name__ == "__main__":
    main()
