"""Conditional random fields with few weights, beside CRFsuite: c1 and c2 on CoNLL-2000.

    CUTPLANE_DATA=folder python benchmarks/sparse_taggers.py [--sentences 500] [--turns 3]
        [--c1 0.1] [--c2 0.1] [--tol 1e-3] [--max-iter 600]

Needs ``pip install python-crfsuite``. Data, features and weights are those of ``conll.py``; the
objective is CRFsuite's, ``c1 |w|_1 + c2 |w|^2 - sum of log p(y | x)``. Each turn fits both, on one
thread, and tells CPU seconds and iterations until the objective was within 1 %, 0.1 % and 0.01 % of
the lowest, when cutplane had proven as much, and how many weights are not zero.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pycrfsuite
from conll import sentences
from sklearn.exceptions import ConvergenceWarning

import cutplane as cp

Curve = list[tuple[float, float, float]]  # CPU seconds, objective, lower bound


def fit_here(X: Any, y: Any, options: argparse.Namespace) -> tuple[Curve, float, int]:
    c1, c2, n = options.c1, options.c2, len(y)
    share = c1 / (c1 + 2 * c2)
    penalty = {"penalty": "l1"} if share == 1.0 else {"penalty": "elasticnet", "l1_ratio": share}
    marks: Curve = []

    def mark(state: Any) -> None:
        marks.append((time.process_time(), state.objective * n, state.lower * n))

    tagger = cp.SequenceTagger(
        lam=(c1 + 2 * c2) / n, fit_ends=False, tol=options.tol, n_jobs=1,
        max_iter=options.max_iter, **penalty,
        callbacks=[mark],
    )  # fmt: skip
    tagger.fit(X, y)
    begin, end = marks[0][0], time.process_time()
    n_weights = tagger.coef_.nnz + np.count_nonzero(tagger.transitions_)
    return [(at - begin, *rest) for at, *rest in marks], end - begin, n_weights


def fit_there(X: Any, y: Any, options: argparse.Namespace) -> tuple[Curve, float, int]:
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {
            "c1": options.c1,
            "c2": options.c2,
            "max_iterations": 5000,
            "feature.possible_states": False,
            "feature.possible_transitions": True,
        }
    )
    for sentence, labels in zip(X, y, strict=True):
        trainer.append(sentence, labels)
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(str(Path(folder) / "model"))
    spent, steps = time.process_time() - begin, trainer.logparser.iterations
    seconds = np.cumsum([step["time"] for step in steps])
    curve = [(at, step["loss"], -np.inf) for at, step in zip(seconds, steps, strict=True)]
    return curve, spent, steps[-1]["active_features"]


def first(curve: Curve, reached: Callable[[float, float], bool]) -> str:
    for number, (seconds, objective, lower) in enumerate(curve):
        if reached(objective, lower):
            return f"{seconds:7.2f} s {number:4d} iterations"
    return f"{'never':>9} {'':15}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--c1", type=float, default=0.1)
    parser.add_argument("--c2", type=float, default=0.1)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--max-iter", type=int, default=600)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, y = sentences("train", "chunks", options.sentences)
    cp.SequenceTagger(lam=0.01, penalty="l1", fit_ends=False).fit(X[:20], y[:20])
    for turn in range(options.turns):
        here, there = fit_here(X, y, options), fit_there(X, y, options)
        lowest = min(curve[-1][1] for curve, _, _ in (here, there))
        print(f"turn {turn}, c1 = {options.c1:g}, c2 = {options.c2:g}, {len(y)} sentences")
        for name, (curve, spent, n_weights) in (("cutplane", here), ("CRFsuite", there)):
            print(f"  {name}: {curve[-1][1]:.4f} after {spent:.2f} s, {n_weights} weights")
            for share in (0.01, 0.001, 0.0001):
                at = first(curve, lambda value, _, goal=lowest * (1 + share): value <= goal)
                proof = first(curve, lambda value, lower, s=share: value - lower <= s * value)
                print(f"    within {share:7.2%}: {at}    proven: {proof}")


if __name__ == "__main__":
    main()
