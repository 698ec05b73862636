"""What checkpoints cost: the same runs with and without, on a problem with a million features.

Run as ``python benchmarks/checkpoints.py``; ``--help`` shows the sizes. Each run makes the same
iterations with and without a checkpoint at the default interval, in turns. Processor seconds (of
all threads) tell the cost on a machine that does other things too.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse

import cutplane as cp

PER_ROW = 60  # features of an example; few of them are frequent, as in text
LAM = 1e-6

# Name: the method, and iterations that take about a minute on two cores.
RUNS = {
    "dual ascent": (cp.dual_ascent, 60),
    "bmrm, 20 planes": (lambda: cp.bmrm(planes=20), 400),
    "bmrm, all planes": (cp.bmrm, 150),
}


def problem(rows, features):
    rng = np.random.default_rng(0)
    ranks = (features * rng.random((rows, PER_ROW)) ** 3).astype(np.int32)
    starts = np.arange(0, rows * PER_ROW + 1, PER_ROW)
    values = np.full(rows * PER_ROW, PER_ROW**-0.5)
    X = scipy.sparse.csr_matrix((values, ranks.ravel(), starts), shape=(rows, features))
    X.sum_duplicates()
    y = np.where(X @ rng.normal(size=features) + 0.1 * rng.normal(size=rows) > 0.0, 1.0, -1.0)
    return cp.ScoredRisk(X, y, cp.Hinge())


def timed(risk, method, iterations, checkpoint):
    wall, processor = time.perf_counter(), time.process_time()
    result = cp.minimize(
        risk,
        cp.L2(LAM),
        method=method,
        stop=cp.Gap(relative=1e-12),
        max_iter=iterations,
        checkpoint=checkpoint,
    )
    return time.perf_counter() - wall, time.process_time() - processor, result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=1_000_000)
    parser.add_argument("--share", type=float, default=1.0, help="of the usual iterations")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--every", type=float, help="seconds between two writes")
    parser.add_argument("--only", choices=RUNS)
    arguments = parser.parse_args()
    risk = problem(arguments.rows, arguments.features)
    print("seconds: wall clock, processor")
    for name, (make, iterations) in RUNS.items():
        if arguments.only not in (None, name):
            continue
        iterations = max(int(arguments.share * iterations), 1)
        timed(risk, make(), 2, None)  # compiles
        seconds = {"without": [], "with": []}
        for _ in range(arguments.rounds):
            *spent, result = timed(risk, make(), iterations, None)
            seconds["without"].append(spent)
            with tempfile.TemporaryDirectory(dir=".") as folder:
                checkpoint = cp.Checkpoint(folder, arguments.every)
                *spent, kept = timed(risk, make(), iterations, checkpoint)
                size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6
            seconds["with"].append(spent)
            assert kept.w.tobytes() == result.w.tobytes()
        best = {which: np.min(spent, axis=0) for which, spent in seconds.items()}
        wall, processor = best["with"] / best["without"] - 1.0
        print(
            f"{name}: {result.iterations} iterations, {result.state.bundle.n_planes} planes, "
            f"{size:.0f} MB; without {best['without'].round(1)}, with {best['with'].round(1)}: "
            f"{wall:+.1%} wall clock, {processor:+.1%} processor",
            flush=True,
        )


if __name__ == "__main__":
    main()
