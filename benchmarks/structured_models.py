"""Models whose inference is no compiled chain: groups of planes beside block ascent.

    python benchmarks/structured_models.py [--models digits trees graphs chains] [--most-seconds 60]

Each line is a model, its number of examples, lam and tolerance; then, for ``bmrm(groups="auto")``
and ``block_ascent()``, inferences an example and seconds of processor time with one process. Runs
aim at a quarter of the tolerance, as `minimize` does. What is cut off is marked by a ``>``.

digits: `MulticlassModel` on scikit-learn's digits. trees: `TreeModel` on random trees of 20 nodes
whose labels depend on their parents'. chains: a chain with the number of mistakes for a loss, in
NumPy, as in docs/structured-model.md. rna (needs CUTPLANE_DATA): `RNAFolding`, sequences below 90
bases.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from datasets import data_folder
from sklearn.datasets import load_digits
from timing import describe_machine, machine_load

import cutplane as cp
from cutplane.models.rna.model import read_structures

Problem = tuple[Any, Any, Any]
METHODS: dict[str, Callable[[], cp.Method]] = {
    "bmrm": lambda: cp.bmrm(groups="auto"),
    "block_ascent": cp.block_ascent,
}


class NumPyChain:
    """A first-order chain of labels, with inference in NumPy."""

    def __init__(self, n_labels: int, n_features: int) -> None:
        self.n_labels = n_labels
        self.n_parameters = n_labels * (n_features + n_labels)

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Return sums of features by label, then of pairs of labels."""
        by_label, pairs = np.zeros((self.n_labels, x.shape[1])), np.zeros((self.n_labels,) * 2)
        np.add.at(by_label, y, x)
        np.add.at(pairs, (y[:-1], y[1:]), 1.0)
        return np.concatenate([by_label.ravel(), pairs.ravel()])

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return the number of wrong labels."""
        return float(np.sum(y != y_hat))

    def inference(self, x: Any, w: Any) -> np.ndarray:
        """Return the best labels."""
        return self._best(x, w, np.zeros((len(x), self.n_labels)))

    def loss_augmented_inference(self, x: Any, y: Any, w: Any) -> np.ndarray:
        """Return the labels with the highest sum of score and loss."""
        return self._best(x, w, (np.arange(self.n_labels) != y[:, None]).astype(float))

    def _best(self, x: Any, w: Any, bonus: np.ndarray) -> np.ndarray:
        split = self.n_labels * x.shape[1]
        scores = x @ w[:split].reshape(self.n_labels, -1).T + bonus
        transitions = w[split:].reshape(self.n_labels, self.n_labels)
        came_from = np.zeros(scores.shape, dtype=np.int64)
        best = scores[0]
        for t in range(1, len(x)):
            ways = best[:, None] + transitions
            came_from[t] = np.argmax(ways, axis=0)
            best = scores[t] + np.max(ways, axis=0)
        y = np.zeros(len(x), dtype=np.int64)
        y[-1] = np.argmax(best)
        for t in range(len(x) - 1, 0, -1):
            y[t - 1] = came_from[t, y[t]]
        return y


def digits(n: int) -> Problem:
    X, y = load_digits(return_X_y=True)
    return cp.MulticlassModel(), X[:n] / 16, y[:n]


def trees(n: int) -> Problem:
    rng = np.random.default_rng(0)
    centers, change = rng.normal(size=(5, 8)), rng.dirichlet(np.full(5, 0.5), size=5)
    X, Y = [], []
    for _ in range(n):
        parents = np.array([-1, *(rng.integers(0, v) for v in range(1, 20))])
        y = np.zeros(20, dtype=np.int64)
        for v, parent in enumerate(parents):
            y[v] = rng.integers(5) if parent < 0 else rng.choice(5, p=change[y[parent]])
        X.append(cp.Tree(centers[y] + 1.5 * rng.normal(size=(20, 8)), parents))
        Y.append(y)
    return cp.TreeModel(5), X, Y


def chains(n: int) -> Problem:
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(6, 12))
    Y = [np.cumsum(rng.integers(0, 3, rng.integers(3, 13))) % 6 for _ in range(n)]
    X = [centers[y] + 1.5 * rng.normal(size=(len(y), 12)) for y in Y]
    return NumPyChain(6, 12), X, Y


def rna(n: int) -> Problem:
    items = read_structures(data_folder() / "rna_rfam151" / "rfam151.dbn")
    short = [item for item in items if len(item.sequence) < 90][:n]
    return cp.RNAFolding(), [item.sequence for item in short], [item.structure for item in short]


PROBLEMS: dict[str, tuple[Callable[[int], Problem], tuple[int, ...], tuple[float, ...]]] = {
    "digits": (digits, (300, 1797), (1e-2, 1e-3)),
    "trees": (trees, (100, 500), (1e-1, 1e-2, 1e-3)),
    "chains": (chains, (200, 1000), (1e-1, 1e-2, 1e-3)),
    "rna": (rna, (61,), (1e-1, 1e-2)),
}


def settings(names: list[str]) -> Iterator[tuple[str, int, Problem, float, float]]:
    for name in names:
        problem, sizes, lams = PROBLEMS[name]
        for n in sizes:
            data = problem(n)
            for lam in lams:
                for tol in (1e-2,) if name == "rna" else (1e-2, 1e-3):
                    yield name, n, data, lam, tol


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--models", nargs="+", choices=PROBLEMS, default=["digits", "trees", "chains"]
    )
    parser.add_argument("--most-seconds", type=float, default=60.0)
    options = parser.parse_args()
    for name, value in describe_machine().items():
        print(f"{name}: {value}")
    print(f"\n{'model':8}{'examples':>9}{'lam':>7}{'tol':>7}", end="")
    print("".join(f"{name:>26}" for name in METHODS))
    for name, n, (model, X, Y), lam, tol in settings(options.models):
        cells = []
        for method in METHODS.values():
            risk = cp.StructuredRisk(model, X, Y, n_jobs=1)
            # Kernels are compiled, or read from where they are kept, before the clock runs.
            cp.minimize(risk, cp.L2(1.0), method=method(), max_iter=2)
            risk.inferences, start = 0, time.process_time()
            result = cp.minimize(
                risk, cp.L2(lam), method=method(), tol=tol, time_limit=options.most_seconds,
                max_iter=None,
            )  # fmt: skip
            seconds, mark = time.process_time() - start, "" if result.status == "optimal" else ">"
            cells.append(f"{mark}{risk.inferences / n:.0f}, {mark}{seconds:.2f} s")
        print(f"{name:8}{n:9}{lam:7g}{tol:7g}" + "".join(f"{cell:>26}" for cell in cells))
    print(f"\nload at the end: {machine_load()}")


if __name__ == "__main__":
    main()
