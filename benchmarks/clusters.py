"""Fits on a cluster of processes on this machine, beside fits in one process.

Used by `scale.py`. Times are those of `minimize`, with rows in memory and kernels compiled on both
sides: by the clock, and of processors, those of all workers together.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask.array as da
import datasets
import numpy as np
import scipy.sparse
from distributed import Client, LocalCluster
from simulation import Speeds, simulate
from timing import machine_load

import cutplane as cp
from cutplane.cluster import sharded_sample
from cutplane.cluster.risk import ShardedRisk
from cutplane.compute.threads import thread_limit

METHOD = cp.bmrm()
# Iterations beside a simulation: later ones, at gaps far below any tolerance, search for longer.
SIMULATED = 8


@contextmanager
def two_workers() -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def timed(client: Client, act: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return seconds, processor seconds here and on the workers, and what an act returns."""
    begin, here = time.perf_counter(), time.process_time()
    there = sum(client.run(time.process_time).values())
    found = act()
    spent = time.process_time() - here + sum(client.run(time.process_time).values()) - there
    return time.perf_counter() - begin, spent, found


def middle_and_spread(numbers: list[float]) -> str:
    """Return the median, and the least and the largest."""
    return f"{statistics.median(numbers):.2f} ({min(numbers):.2f} to {max(numbers):.2f})"


def print_same_work(copies: int, turns: int) -> None:
    """Print times of two workers with a thread each, and of one process with two threads."""
    X, y = datasets.load("covtype")
    X, y = np.tile(X.astype(np.float32), (copies, 1)), np.tile(y, copies)
    print(f"covtype x {copies}: {len(y):,} rows, logistic loss, lam = 1e-6; load {machine_load()}")
    print(f"{'':<24}{'seconds':>24}{'processor':>24}{'iterations':>12}")
    with two_workers() as client:
        sample = sharded_sample(
            *(da.from_array(a, chunks=(len(y) // 64 + 1, *a.shape[1:])) for a in (X, y))
        )
        risks = {
            "1 process, 2 threads": cp.ScoredRisk(X, y, cp.Logistic()),
            "2 workers, 1 thread": ShardedRisk(sample, cp.Logistic()),
        }
        runs: dict[str, list[tuple[float, float, Any]]] = {name: [] for name in risks}
        for turn in range(turns + 1):
            for name, risk in risks.items():
                with thread_limit(2):
                    run = timed(
                        client,
                        lambda risk=risk: cp.minimize(risk, cp.L2(1e-6), method=METHOD, tol=1e-3),
                    )
                if turn:  # the first one compiles
                    runs[name].append(run)
        for name, own in runs.items():
            clock, processor = (middle_and_spread([run[k] for run in own]) for k in (0, 1))
            print(f"{name:<24}{clock:>24}{processor:>24}{own[0][2].iterations:>12}")
        one, two = runs.values()
        clock, processor = (
            middle_and_spread([b[k] / a[k] for a, b in zip(one, two, strict=True)]) for k in (0, 1)
        )
        bits = {run[2].w.tobytes() for own in runs.values() for run in own}
        print(f"{'ratio, turn by turn':<24}{clock:>24}{processor:>24}   same bits {len(bits) == 1}")
        leader = sample._leader
        print(f"of {leader.seconds:.1f} s of calls, {leader.n_rounds} sums were waited for")
        sample.close()


def print_rounds(n_features: int) -> None:
    """Print what an iteration costs on data with next to no work, so that the rest is seen."""
    rng = np.random.default_rng(0)
    n_rows, per_row = 65_536, 8
    X = scipy.sparse.csr_array(
        (
            rng.normal(size=n_rows * per_row),
            rng.integers(0, n_features, n_rows * per_row),
            np.arange(0, n_rows * per_row + 1, per_row),
        ),
        shape=(n_rows, n_features),
    )
    X.sum_duplicates()
    y = np.where(rng.random(n_rows) < 0.5, 1.0, -1.0)
    with two_workers():
        dX = da.map_blocks(
            lambda rows: X[rows[0] : rows[-1] + 1],
            da.arange(n_rows, chunks=n_rows // 2),
            new_axis=1,
            chunks=((n_rows // 2,) * 2, (n_features,)),
            meta=X[:0],
        )
        sample = sharded_sample(dX, da.from_array(y, chunks=n_rows // 2))
        risks = [cp.ScoredRisk(X, y, cp.Logistic()), ShardedRisk(sample, cp.Logistic())]
        each: list[list[float]] = []
        for risk in risks:
            for _ in range(2):  # the first one compiles
                leader = sample._leader
                before = (leader.n_calls, leader.n_rounds)
                result = cp.minimize(risk, cp.L2(1e-5), method=METHOD, tol=1e-6, max_iter=60)
            each.append(np.diff([record.seconds for record in result.history]).tolist())
        calls, rounds = leader.n_calls - before[0], leader.n_rounds - before[1]
        here, there = (1e3 * statistics.median(own) for own in each)
        n = result.iterations
        print(
            f"{n_features:,} features, {sample.n_shards} shards, load {machine_load()}: "
            f"{there:.1f} ms an iteration on 2 workers, {here:.1f} ms in one process; "
            f"{calls / n:.1f} calls and {rounds / n:.1f} sums an iteration"
        )
        sample.close()


def print_dask_ml(copies: int) -> None:
    """Print what dask-ml takes for the same objective on the same cluster."""
    from dask_ml.linear_model import LogisticRegression

    X, y = datasets.load("covtype")
    X, y = np.tile(X.astype(np.float32), (copies, 1)), np.tile(y, copies)
    lam = 1e-4
    risk = cp.ScoredRisk(X, y, cp.Logistic(), intercept=False)
    with two_workers() as client:
        dX, dy = (da.from_array(a, chunks=(len(y) // 8 + 1, *a.shape[1:])) for a in (X, y))
        dX, dy = client.persist([dX, dy])
        model = cp.LinearClassifier("logistic", lam=lam, fit_intercept=False)
        model.fit(dX, dy)  # compiles
        runs = [timed(client, lambda: model.fit(dX, dy)) for _ in range(3)]
        seconds, spent = (statistics.median(run[k] for run in runs) for k in (0, 1))
        best = model.certificate_.lower_bound
        print(f"covtype x {copies}: {len(y):,} rows, lam = {lam:g}; load {machine_load()}")
        print(f"{'':<28}{'seconds':>9}{'processor':>11}{'above the bound':>17}")
        gap = model.certificate_.relative_gap
        print(f"{'cutplane':<28}{seconds:>9.2f}{spent:>11.2f}{gap:>17.1e}", flush=True)
        for solver in ("lbfgs", "admm"):
            for n in (10, 30, 100):
                other = LogisticRegression(
                    solver=solver, C=1.0 / (lam * len(y)), fit_intercept=False, max_iter=n, tol=1e-9
                )
                seconds, spent, _ = timed(
                    client, lambda other=other: other.fit(dX, (dy > 0.0).astype(np.float64))
                )
                w = np.ravel(other.coef_)
                above = (risk.at(w).value + lam / 2 * w @ w) / best - 1.0
                name = f"dask-ml {solver}, {n} iterations"
                print(f"{name:<28}{seconds:>9.2f}{spent:>11.2f}{above:>17.1e}", flush=True)
                if seconds > 120.0:
                    break


def print_simulated(turns: int) -> None:
    """Print what `simulation.py` says of fits on one worker and on two, and what they take."""
    speeds = Speeds.here()
    print(f"{speeds}; load {machine_load()}")
    print(f"{'rows':>10}{'features':>10}{'workers':>9}{'ms an iteration: simulated':>28}"
          f"{'measured':>27}{'work, processor ms: simulated':>32}{'measured':>27}")  # fmt: skip
    with two_workers() as client:
        addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
        for n_rows, n_features in ((1 << 18, 8), (1 << 18, 64), (1 << 20, 16)):
            rng = np.random.default_rng(0)
            X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
            y = np.where(X[:, 0] + rng.normal(size=n_rows) > 0.0, 1.0, -1.0)
            arrays = [da.from_array(a, chunks=(n_rows // 4, *a.shape[1:])) for a in (X, y)]
            for n_workers in (1, 2):
                chosen = addresses[:n_workers]
                with sharded_sample(*arrays, workers=chosen) as sample:
                    _print_simulated(client, sample, speeds, turns, n_features, chosen)


def _print_simulated(
    client: Client, sample: Any, speeds: Speeds, turns: int, n_features: int, workers: list[str]
) -> None:
    risk = ShardedRisk(sample, cp.Logistic())
    leader = sample._leader
    trips = []
    for _ in range(200):
        begin = time.perf_counter()
        leader.call("count", sample._name)
        trips.append(time.perf_counter() - begin)
    clock, processor = [], []
    for turn in range(turns + 1):
        before = sum(client.run(time.process_time, workers=workers).values())
        result = cp.minimize(risk, cp.L2(1e-7), method=METHOD, stop=cp.Iterations(SIMULATED))
        after = sum(client.run(time.process_time, workers=workers).values())
        if turn:  # the first one compiles
            seconds = np.diff([record.seconds for record in result.history])
            clock.append(1e3 * statistics.median(seconds.tolist()))
            processor.append(1e3 * (after - before) / len(workers) / result.iterations)
    n_rows = sample.source.n_rows
    told = simulate(
        n_rows, n_features, len(workers), iterations=SIMULATED, speeds=speeds,
        round_trip=statistics.median(trips), bandwidth=1e10,
    )  # fmt: skip
    print(
        f"{n_rows:>10,}{n_features:>10}{len(workers):>9}{1e3 * told.iteration:>28.1f}"
        f"{middle_and_spread(clock):>27}{1e3 * told.work:>32.1f}{middle_and_spread(processor):>27}"
    )
