"""The automatic choice of a method on data that its thresholds were not set on.

    CUTPLANE_DATA=folder python benchmarks/choice.py [--rows text table ...] [--repeats 3]

Each row is a problem with lam = 1/m and an intercept. All methods that can take it are run in turns
to a proven relative gap of 1e-3, each with a limit of time; shown are medians of processor seconds
with one thread, what ``method="auto"`` chooses, and its time over that of the fastest. Generated
data come from seeded generators; ``letters`` are the images of ``ocr_letters`` one by one, and
need CUTPLANE_DATA.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from datasets import DataError, data_folder, generated_texts, load_classes
from threadpoolctl import threadpool_limits
from timing import describe_machine, machine_load

import cutplane as cp
from cutplane.core.state import Problem
from cutplane.solvers.automatic import automatic

GAP = 1e-3
Row = tuple[Any, np.ndarray, Any]


def text() -> Row:
    """Two kinds of 8,000 texts with 3,000 words, of which some are frequent."""
    X, topic = generated_texts(np.random.default_rng(1), 8000, 3000, 40, 2)
    return X, np.where(topic == 1, 1, -1), cp.Hinge()


def table() -> Row:
    """20,000 x 60 dense numbers of different sizes, and a noisy sign."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20_000, 60)) * np.geomspace(0.1, 3.0, 60)
    return X, np.sign(X @ rng.normal(size=60) + 2.0 * rng.normal(size=20_000)), cp.Hinge()


def answers() -> Row:
    """40,000 x 150 ones and zeros, twelve ones in a row, and a probability."""
    rng = np.random.default_rng(3)
    X = (rng.random((40_000, 150)) < 0.08).astype(np.float64)
    p = 1.0 / (1.0 + np.exp(1.0 - X @ rng.normal(size=150)))
    return sp.csr_array(X), np.where(rng.random(40_000) < p, 1, -1), cp.Logistic()


def costs() -> Row:
    """30,000 x 25 dense numbers, and a target with heavy tails: its median."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30_000, 25))
    return X, X @ rng.normal(size=25) + rng.standard_t(2, size=30_000), cp.Quantile(0.5)


def kinds() -> Row:
    """Twelve kinds of 9,000 examples with 90 features: softmax."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 12, 9000)
    return 0.35 * rng.normal(size=(12, 90))[y] + rng.normal(size=(9000, 90)), y, cp.Softmax()


def topics() -> Row:
    """52 topics of 6,532 texts with 12,163 words: Crammer and Singer's loss."""
    return *load_classes("topics"), cp.CrammerSinger()


def letters() -> Row:
    """26 letters of 128 pixels, every fourth of those in words: Crammer and Singer's loss."""
    with np.load(data_folder() / "ocr_letters" / "ocr_letters.npz") as file:
        X, y = np.unpackbits(file["X"][::4], axis=1), file["y"][::4]
    return X.astype(np.float64), np.unique(y, return_inverse=True)[1], cp.CrammerSinger()


ROWS: dict[str, Callable[[], Row]] = {
    row.__name__: row for row in (text, table, answers, costs, kinds, topics, letters)
}


def methods_for(problem: Problem) -> dict[str, cp.Method]:
    """Return all methods that can take the problem, and could be chosen."""
    risk: Any = problem.risk
    of_classes = hasattr(risk.loss, "of_shares")
    tried = {
        "newton": cp.class_newton() if of_classes else cp.newton(),
        "dual-ascent": cp.class_ascent() if of_classes else cp.dual_ascent(),
        "grouped": cp.bmrm(groups="auto"),
    }
    # With thousands of features the matrices of Newton's method fill the memory.
    few = risk.rows.shape[1] <= 2000
    return {
        name: method
        for name, method in tried.items()
        if method.obstacle(problem) is None and (few or name != "newton")
    }


def seconds_of(make_risk: Callable[[], Any], lam: float, method: cp.Method, limit: float) -> float:
    """Return processor seconds to the gap; infinite if the limit came first."""
    begin = time.process_time()
    result = cp.minimize(
        make_risk(), cp.L2(lam), method=method, stop=cp.Gap(relative=GAP), max_iter=None,
        callbacks=[lambda state: time.process_time() - begin > limit],
    )  # fmt: skip
    return time.process_time() - begin if result.status.success else np.inf


def main() -> int:
    parser = argparse.ArgumentParser(description="The automatic choice on other data.")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0, help="limit for one fit")
    options = parser.parse_args()
    for key, value in describe_machine().items():
        print(f"{key}: {value}")
    print(f"\nprocessor seconds to a proven gap of {GAP:g}, medians of {options.repeats}\n")
    names = ("newton", "dual-ascent", "grouped")
    print(f"{'data':<10}" + "".join(f"{name:>13}" for name in (*names, "auto", "auto/best")))
    try:
        with threadpool_limits(1):
            for name in options.rows:
                X, y, loss = ROWS[name]()
                lam = 1.0 / X.shape[0]

                def make_risk(X: Any = X, y: np.ndarray = y, loss: Any = loss) -> Any:
                    return cp.ScoredRisk(cp.as_rows(X, n_threads=1), y, loss)

                problem = Problem(make_risk(), cp.L2(lam))
                methods = methods_for(problem)
                times: dict[str, list[float]] = {method: [] for method in methods}
                # The first round compiles, and does not count.
                for _ in range(options.repeats + 1):
                    for method, seconds in times.items():
                        seconds.append(seconds_of(make_risk, lam, methods[method], options.seconds))
                medians = {method: statistics.median(t[1:]) for method, t in times.items()}
                chosen = automatic(problem)
                auto = next(key for key, method in methods.items() if method == chosen)
                cells = [f"{medians[n]:.3g}" if n in medians else "-" for n in names]
                ratio = medians[auto] / min(medians.values())
                print(
                    f"{name:<10}" + "".join(f"{c:>13}" for c in (*cells, auto, f"{ratio:.2f}")),
                    flush=True,
                )
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"\nload at the end: {machine_load()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
