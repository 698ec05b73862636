"""Seconds of prediction: sums in the order of the features, against NumPy and SciPy.

    python benchmarks/predictions.py

Processor time on one core, the least of several turns, with the first call (which may compile)
apart. NumPy gets blocks of rows, because it would copy float32 data as a whole.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

import cutplane as cp
from cutplane.data import ordered_scores

TURNS = 9
BLOCK = 1 << 18


def least_ms(*tasks: Callable[[], Any], repeat: int = 1) -> list[float]:
    """Return the least processor time of each task in milliseconds, taken in turns."""
    least = [np.inf] * len(tasks)
    for _ in range(TURNS):
        for k, task in enumerate(tasks):
            begin = time.process_time()
            for _ in range(repeat):
                task()
            least[k] = min(least[k], (time.process_time() - begin) / repeat)
    return [1e3 * seconds for seconds in least]


def by_numpy(X: Any, W: Any) -> Any:
    out = np.empty((X.shape[0], len(W)))
    n_rows = max(1000, BLOCK // X.shape[1])
    for begin in range(0, X.shape[0], n_rows):
        out[begin : begin + n_rows] = X[begin : begin + n_rows] @ W.T
    return out


def data(rng: np.random.Generator) -> dict[str, Any]:
    wide, tall = rng.normal(size=(10_000, 784)), rng.normal(size=(100_000, 50))
    sparse = sp.random_array((100_000, 123), density=0.11, format="csr", rng=rng)
    return {
        "100,000 x 50": tall,
        "100,000 x 50 F": np.asfortranarray(tall),
        "10,000 x 784": wide,
        "10,000 x 784 F": np.asfortranarray(wide),
        "10,000 x 784 float32": wide.astype(np.float32),
        "100,000 x 123 CSR": sparse,
    }


def main() -> None:
    rng = np.random.default_rng(0)
    print(f"{'data':<22}{'outputs':>8}{'NumPy ms':>10}{'ours ms':>10}{'ratio':>8}")
    for name, X in data(rng).items():
        for n_outputs in (1, 10):
            W = rng.normal(size=(n_outputs, X.shape[1]))
            ordered_scores(X, W, n_threads=1)  # compiles
            numpy_ms, our_ms = least_ms(
                lambda X=X, W=W: by_numpy(X, W),
                lambda X=X, W=W: ordered_scores(X, W, n_threads=1),
            )
            ratio = our_ms / numpy_ms
            print(f"{name:<22}{n_outputs:>8}{numpy_ms:>10.2f}{our_ms:>10.2f}{ratio:>8.2f}")

    X = rng.normal(size=(300, 50))
    model = cp.LinearClassifier(lam=1.0).fit(X, rng.integers(0, 10, 300))
    row = X[:1]
    numpy_ms, our_ms, all_ms = least_ms(
        lambda: row @ model.coef_.T,
        lambda: ordered_scores(row, model.coef_),
        lambda: model.predict(row),
        repeat=200,
    )
    print(f"one row, ten classes: NumPy {1e3 * numpy_ms:.1f} us, ours {1e3 * our_ms:.1f} us, ")
    print(f"predict, with scikit-learn's validation, {1e3 * all_ms:.1f} us")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
