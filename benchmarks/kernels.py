"""How much of the memory bandwidth the products ``X w`` and ``X' slopes`` use.

    python benchmarks/kernels.py [--threads 2] [--rounds 20]

The matrix has the shape of covtype, 581,012 x 54, or is covtype itself if ``CUTPLANE_DATA`` names
the folder that holds it. A product reads every byte of X once (for CSR: values, column indices and
row starts), so the yardstick is a threaded sum over a large array that reads four streams at once,
the fastest way to read we found. GB/s are bytes of X over the best time of all rounds; rounds go
through all measurements in turn, so that a busy neighbor disturbs all of them alike. Where 70 % of
the slopes are zero most rows are never read, but all bytes are counted.

The second table times whole iterations and fits on the same matrix, features scaled to [0, 1].

NumPy and SciPy get vectors of X's own type, which spares them a conversion of X.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import scipy.sparse
from datasets import covtype_features
from numba import njit

import cutplane as cp
from cutplane.compute.threads import run_blocks, thread_limit
from cutplane.data import as_rows

SHAPE = (581_012, 54)
STREAM_BLOCKS = 64


@dataclass
class Measurement:
    """The best time of one product, for each way of computing it."""

    name: str
    n_bytes: int
    ways: dict[str, Callable[[], object]]
    seconds: dict[str, float] = field(default_factory=dict)

    def run(self, way: str) -> None:
        """Time one way once."""
        if way not in self.ways:
            return
        start = time.perf_counter()
        self.ways[way]()
        elapsed = time.perf_counter() - start
        self.seconds[way] = min(elapsed, self.seconds.get(way, np.inf))

    def speed(self, way: str) -> float:
        """Return GB/s."""
        return self.n_bytes / self.seconds[way] / 1e9


def load_matrix() -> tuple[str, np.ndarray]:
    folder = os.environ.get("CUTPLANE_DATA")
    if folder and (covtype := Path(folder, "covtype")).exists():
        X = covtype_features(covtype)
        X -= X.min(axis=0)
        return "covtype", X / X.max(axis=0)
    # Ten dense columns and two ones among the other 44, as in covtype.
    rng = np.random.default_rng(0)
    X = np.zeros(SHAPE)
    X[:, :10] = rng.standard_normal((SHAPE[0], 10))
    every = np.arange(SHAPE[0])
    X[every, 10 + rng.integers(4, size=SHAPE[0])] = 1
    X[every, 14 + rng.integers(40, size=SHAPE[0])] = 1
    return "generated", X


@njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _read(x, sums, first, last):
    for block in range(first, last):
        part = x[block * x.size // STREAM_BLOCKS : (block + 1) * x.size // STREAM_BLOCKS]
        q = part.size // 4
        total = 0.0
        for i in range(q):
            total += (part[i] + part[i + q]) + (part[i + 2 * q] + part[i + 3 * q])
        sums[block] = total


def measure_stream(X: np.ndarray, threads: tuple[int, ...]) -> Measurement:
    x, sums = X.reshape(-1), np.empty(STREAM_BLOCKS)

    def read(n_threads: int) -> None:
        run_blocks(lambda a, b: _read(x, sums, a, b), STREAM_BLOCKS, n_threads=n_threads)

    ways = {str(n): lambda n=n: read(n) for n in threads}
    return Measurement("stream read", X.nbytes, ways)


def arrays_of(X: np.ndarray | scipy.sparse.csr_array) -> list[np.ndarray]:
    return [X.data, X.indices, X.indptr] if scipy.sparse.issparse(X) else [X]


def hinge_risk(X: np.ndarray | scipy.sparse.csr_array, n_threads: int) -> cp.ScoredRisk:
    # A noisy direction among the columns, so that about a quarter of the examples have a slope.
    scores = X @ np.random.default_rng(3).standard_normal(X.shape[1]) / X.max()
    noise = np.random.default_rng(4).standard_normal(X.shape[0])
    y = np.where(scores - np.median(scores) + 0.3 * noise > 0.0, 1.0, -1.0)
    return cp.ScoredRisk(as_rows(X, n_threads=n_threads), y, cp.Hinge(), intercept=False)


def seconds_per_iteration(X: np.ndarray | scipy.sparse.csr_array, n_threads: int) -> float:
    risk = hinge_risk(X, n_threads)
    with thread_limit(n_threads):
        history = cp.minimize(risk, cp.L2(1e-6), method=cp.bmrm(), max_iter=30, tol=1e-12).history
    return (history[-1].seconds - history[9].seconds) / (len(history) - 10)


def seconds_to_fit(X: np.ndarray | scipy.sparse.csr_array, n_threads: int) -> float:
    risk = hinge_risk(X, n_threads)
    with thread_limit(n_threads):
        return min(
            cp.minimize(risk, cp.L2(1e-6), method=cp.newton(), tol=1e-3).seconds for _ in range(2)
        )


def measure_products(
    name: str, X: np.ndarray | scipy.sparse.csr_array, threads: tuple[int, ...]
) -> Iterator[Measurement]:
    rng = np.random.default_rng(1)
    w = rng.standard_normal(X.shape[1])
    full = rng.standard_normal(X.shape[0])
    few = np.where(rng.random(X.shape[0]) < 0.3, full, 0.0)
    n_bytes = sum(array.nbytes for array in arrays_of(X))
    rows = {str(n): as_rows(X, n_threads=n) for n in threads}

    def own(vector: np.ndarray) -> np.ndarray:
        return vector.astype(X.dtype)

    scores = {n: lambda r=r: r.scores(w) for n, r in rows.items()}
    yield Measurement(f"{name}, scores", n_bytes, scores | {"peer": lambda: X @ own(w)})
    for label, slopes in (("pullback", full), ("pullback, 30 %", few)):
        ways = {n: lambda r=r, q=slopes: r.pullback(q) for n, r in rows.items()}
        peer = {"peer": lambda q=slopes: X.T @ own(q)}
        yield Measurement(f"{name}, {label}", n_bytes, ways | peer)


def measure_compilation() -> Iterator[tuple[str, float]]:
    """Compile every kernel again, without the cache on disk."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((8, 5))
    inputs = [X, np.asfortranarray(X), scipy.sparse.csr_array(X)]
    _read(np.zeros(STREAM_BLOCKS), np.zeros(STREAM_BLOCKS), 0, 1)  # the compiler itself loads once
    for matrix in inputs:
        rows = as_rows(matrix, n_threads=1)
        for name, n in (("scores", 5), ("pullback", 8)):
            cached = getattr(rows.kernels, name)
            options = {k: v for k, v in cached.targetoptions.items() if k != "nopython"}
            rows.kernels = rows.kernels._replace(**{name: njit(**options)(cached.py_func)})
            start = time.perf_counter()
            getattr(rows, name)(np.ones(n))
            yield f"{rows.layout}, {name}", time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="Bandwidth of the matrix-vector kernels.")
    parser.add_argument("--threads", type=int, default=2, help="compared with one (default 2)")
    parser.add_argument("--rounds", type=int, default=20, help="best of how many (default 20)")
    options = parser.parse_args()
    one, many = "1", str(options.threads)
    threads = (1, options.threads)

    source, X = load_matrix()
    X32 = X.astype(np.float32)
    matrices = {
        "C float64": X,
        "C float32": X32,
        "F float64": np.asfortranarray(X),
        "F float32": np.asfortranarray(X32),
        "CSR float64": scipy.sparse.csr_array(X),
        "CSR float32": scipy.sparse.csr_array(X32),
    }
    stream = measure_stream(X, threads)
    measurements = [stream]
    for name, matrix in matrices.items():
        measurements.extend(measure_products(name, matrix, threads))
    # Peers come last: the threads of OpenBLAS spin for a while after each of its products.
    for ways in ((one, many), ("peer",)):
        for _ in range(options.rounds + 1):  # the first one compiles
            for measurement in measurements:
                for way in ways:
                    measurement.run(way)

    print(f"{source} {X.shape[0]} x {X.shape[1]}, best of {options.rounds} rounds, GB/s\n")
    columns = ["1 thread", f"{many} threads", "speed-up", "of stream", "NumPy/SciPy"]
    print(f"{'':28}" + "".join(f"{column:>12}" for column in columns))
    for measurement in measurements:
        speed = measurement.speed(many)
        cells = [
            f"{measurement.speed(one):.1f}",
            f"{speed:.1f}",
            f"{speed / measurement.speed(one):.2f}",
            f"{speed / stream.speed(many):.0%}",
            f"{measurement.speed('peer'):.1f}" if "peer" in measurement.ways else "",
        ]
        print(f"{measurement.name:28}" + "".join(f"{cell:>12}" for cell in cells))
    print(
        "\nhinge loss, lam = 1e-6, no intercept: an iteration of bmrm() in times of reading X once,"
    )
    print("and a fit by newton() in seconds")
    columns = ["1 thread", f"{many} threads", "speed-up"]
    print(f"{'':28}" + "".join(f"{column:>12}" for column in columns))
    for name, matrix in matrices.items():
        n_bytes = sum(array.nbytes for array in arrays_of(matrix))
        once = n_bytes / stream.speed(many) / 1e9
        for label, measure, unit in (
            ("iteration", seconds_per_iteration, once),
            ("fit", seconds_to_fit, 1.0),
        ):
            slow, fast = (measure(matrix, n) / unit for n in threads)
            print(f"{name + ', ' + label:28}{slow:>12.2f}{fast:>12.2f}{slow / fast:>12.2f}")
    print("\nTo compile, in seconds")
    for name, seconds in measure_compilation():
        print(f"{name:44}{seconds:8.2f}")


if __name__ == "__main__":
    main()
