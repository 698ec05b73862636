"""Kernel machines beside scikit-learn's SVC (libsvm), in processor seconds.

    CUTPLANE_DATA=folder python benchmarks/kernel_machines.py [--data a9a ...] [--C 1]

Each fit is to a relative gap of 1e-3, which is proven; SVC has its default tolerance and cache. The
objective of both is computed from the coefficients and the kernel in float64, in blocks, and is
compared with the lower bound of the fit. Both are run in turns, each once to warm up.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np
import scipy.sparse
from datasets import load, load_classes
from sklearn.svm import SVC

import cutplane as cp

ROWS = 10_000
TURNS = 3


def sample(name: str) -> tuple[Any, np.ndarray]:
    """Return 10,000 examples, or the digits 3 and 8."""
    if name == "mnist":
        X, digits = load_classes("mnist")
        chosen = np.flatnonzero((digits == 3) | (digits == 8))
        return X[chosen].toarray(), np.where(digits[chosen] == 8, 1, -1)
    X, y = load(name)
    chosen = np.random.default_rng(0).permutation(X.shape[0])[:ROWS]
    return X[chosen], y[chosen]


def timed(fit: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return what a fit returns, processor seconds and seconds."""
    cpu, wall = process_time(), perf_counter()
    model = fit()
    return model, process_time() - cpu, perf_counter() - wall


def objective(model: Any, X: Any, y: np.ndarray, C: float) -> float:
    """Return ``lam/2 |f|^2 + mean hinge loss`` of a model, from its coefficients."""
    scores = model.decision_function(X)
    coef = model.dual_coef_
    coef = (coef.toarray() if scipy.sparse.issparse(coef) else coef)[0]
    norm = float(coef @ (scores[model.support_] - float(model.intercept_[0])))
    return norm / (2.0 * C * len(y)) + float(np.maximum(0.0, 1.0 - y * scores).mean())


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="*", default=["a9a", "ijcnn1", "mnist"])
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--turns", type=int, default=TURNS)
    given = parser.parse_args()
    for name in given.data:
        X, y = sample(name)
        ours = cp.KernelClassifier(C=given.C)
        ours.fit(X[:3000], y[:3000])  # compiles
        theirs = SVC(C=given.C)
        seconds: dict[str, list[tuple[float, float]]] = {"cutplane": [], "SVC": []}
        for _ in range(given.turns):
            for title, model in (("cutplane", ours), ("SVC", theirs)):
                _, cpu, wall = timed(partial(model.fit, X, y))
                seconds[title].append((cpu, wall))
        bound = ours.certificate_.lower_bound
        print(f"{name}: {X.shape[0]} x {X.shape[1]}, C = {given.C:g}, {len(ours.support_)} support")
        print(f"  proven {ours.certificate_}")
        for title, model in (("cutplane", ours), ("SVC", theirs)):
            cpu, wall = np.median(seconds[title], axis=0)
            above = objective(model, X, y, given.C) / bound - 1.0
            times = f"{cpu:7.2f} s of processors, {wall:7.2f} s"
            print(f"  {title:9s} {times}, {above:9.1e} above the bound")


if __name__ == "__main__":
    main()
