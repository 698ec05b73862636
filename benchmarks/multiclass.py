"""Time to a given accuracy of classifiers of all classes at once, beside scikit-learn.

    CUTPLANE_DATA=folder python benchmarks/multiclass.py [--data digits ...] [--seconds 120]

Softmax, with intercepts, beside LogisticRegression (lbfgs); Crammer and Singer, without, beside
LinearSVC(multi_class="crammer_singer"), which would regularize them. All minimize
J(W) = lam/2 |W|^2 + mean loss. Tolerances are swept from loose to tight (for the others with all
threads of the BLAS and with one), and the fastest setting counts whose W reaches
(J - J*) / J* <= 1e-3, with J evaluated here for all, and J* the lowest that was seen. "proven" is
the time after which our own bounds close the gap to 1e-3. The ratio is the other's time over ours:
above 1 we are faster.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import CLASS_LOADERS, DataError, Features, load_classes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits
from timing import best_of_few, describe_machine, machine_load

from cutplane import L2, CrammerSinger, LinearClassifier, ScoredRisk, Softmax
from cutplane.losses import MulticlassLoss

TARGET = 1e-3
LAM = 1e-3
TIGHT = 1e-4
OUR_TOLS = (4e-2, 1e-2, 4e-3, 1e-3)
LBFGS_TOLS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
SVC_TOLS = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3)


@dataclass(frozen=True)
class Contest:
    """A loss, and who else minimizes it."""

    name: str
    loss: MulticlassLoss
    binary_loss: str
    intercept: bool
    peer: Callable[[float, float], Any]
    peer_tols: Sequence[float]


CONTESTS = (
    Contest(
        "softmax",
        Softmax(),
        "logistic",
        True,
        lambda C, tol: LogisticRegression(C=C, tol=tol, max_iter=10_000),
        LBFGS_TOLS,
    ),
    Contest(
        "crammer_singer",
        CrammerSinger(),
        "hinge",
        False,
        lambda C, tol: LinearSVC(
            multi_class="crammer_singer",
            C=C,
            tol=tol,
            fit_intercept=False,
            max_iter=10_000,
            random_state=0,
        ),
        SVC_TOLS,
    ),
)


@dataclass(frozen=True)
class Run:
    """One fit with one tolerance."""

    tol: float
    seconds: float
    objective: float
    proven: float | None = None


def objective(X: Features, y: np.ndarray, contest: Contest, model: Any) -> float:
    """Return J of a fitted model, evaluated from the data: the best intercepts for its W."""
    w = np.ravel(model.coef_)
    risk = ScoredRisk(X, y, contest.loss, intercept=contest.intercept)
    return risk.at(w).value + L2(LAM).value(w)


def run_ours(X: Features, y: np.ndarray, contest: Contest, tol: float, limit: float) -> Run:
    def fit() -> LinearClassifier:
        return LinearClassifier(
            contest.binary_loss,
            multi_class=contest.name,
            lam=LAM,
            fit_intercept=contest.intercept,
            tol=tol,
            max_iter=None,
            time_limit=limit,
        ).fit(X, y)

    seconds, fitted = best_of_few(fit)
    outside = seconds - fitted.history_[-1].seconds
    closed = (record.seconds for record in fitted.history_ if record.relative_gap <= TARGET)
    first = next(closed, None)
    return Run(
        tol,
        seconds,
        objective(X, y, contest, fitted),
        None if first is None else outside + first,
    )


def run_peer(X: Features, y: np.ndarray, contest: Contest, tol: float) -> Run:
    C = 1.0 / (LAM * X.shape[0])
    seconds, fitted = best_of_few(lambda: contest.peer(C, tol).fit(X, y))
    with threadpool_limits(1):  # on a busy machine one thread of BLAS is faster than several
        alone = best_of_few(lambda: contest.peer(C, tol).fit(X, y))
    seconds, fitted = min((seconds, fitted), alone, key=lambda timed: timed[0])
    return Run(tol, seconds, objective(X, y, contest, fitted))


def compare(name: str, X: Features, y: np.ndarray, contest: Contest, limit: float) -> None:
    tight = run_ours(X, y, contest, TIGHT, limit)
    ours = [run_ours(X, y, contest, tol, limit) for tol in OUR_TOLS]
    peers: list[Run] = []
    best = min(run.objective for run in (tight, *ours))
    for tol in contest.peer_tols:
        peers.append(run_peer(X, y, contest, tol))
        best = min(best, peers[-1].objective)
        if peers[-1].objective <= best * (1.0 + TARGET) or peers[-1].seconds > limit:
            break
    our_best, peer_best = (
        min(
            (run for run in runs if run.objective <= best * (1.0 + TARGET)),
            key=lambda run: run.seconds,
            default=None,
        )
        for runs in ([tight, *ours], peers)
    )
    proven = min((run.proven for run in (tight, *ours) if run.proven is not None), default=None)
    ratio = peer_best.seconds / our_best.seconds if our_best and peer_best else None
    print(
        f"{name:<10} {contest.name:<15} {_shown(our_best and our_best.seconds)} {_shown(proven)} "
        f"{_shown(peer_best and peer_best.seconds)} {_shown(ratio)}",
        flush=True,
    )


def _shown(value: float | None) -> str:
    return f"{'-':>9}" if value is None else f"{value:9.3g}"


def main() -> int:
    parser = argparse.ArgumentParser(description="All classes at once, beside scikit-learn.")
    parser.add_argument("--data", nargs="+", metavar="NAME", default=list(CLASS_LOADERS))
    parser.add_argument("--seconds", type=float, default=120.0, help="limit for one fit")
    options = parser.parse_args()
    for key, value in describe_machine().items():
        print(f"{key}: {value}")
    print(f"\nlam = {LAM:g}, relative accuracy {TARGET:g}, seconds")
    print(f"{'data':<10} {'loss':<15} {'ours':>9} {'proven':>9} {'peer':>9} {'ratio':>9}")
    warnings.simplefilter("ignore", ConvergenceWarning)  # what was reached is measured
    warnings.simplefilter("ignore", FutureWarning)
    try:
        for name in options.data:
            X, y = load_classes(name)
            for contest in CONTESTS:
                compare(name, X, y, contest, options.seconds)
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"\nload at the end: {machine_load()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
