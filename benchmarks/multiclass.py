"""Time to a given accuracy of classifiers of all classes at once, beside scikit-learn.

    CUTPLANE_DATA=folder python benchmarks/multiclass.py [--data digits ...] [--intercept]

Softmax beside the solvers of LogisticRegression, Crammer and Singer's loss beside LinearSVC. All
minimize J(W) = lam/2 |W|^2 + mean loss, without intercepts (LinearSVC would regularize them), at
lam = 1/m and 0.01/m. The tolerances of the others are swept from loose to tight, and the fastest
setting counts whose W reaches (J - J*) / J* <= 1e-3 or 1e-4, with J evaluated here for all, and J*
the lowest that was seen. Then all are run in turns, and medians are shown, in processor seconds
with one thread. "proven" is the time after which our bounds close the gap, "to J" after which our J
is as low. The ratio is the other's time over ours to J: above 1 we are faster. With --intercept
our fits have intercepts, which are not regularized, and there is nobody to compare with.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
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
from timing import describe_machine, machine_load

from cutplane import L2, CrammerSinger, Gap, ScoredRisk, Softmax, as_rows, minimize
from cutplane.core.state import Problem
from cutplane.losses import MulticlassLoss
from cutplane.solvers.automatic import automatic

TARGETS = (1e-3, 1e-4)
SHARES = (1.0, 0.01)  # lam times the number of examples
SOLVER_TOLS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
SVC_TOLS = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3)
FEW_PARAMETERS = 3000  # beyond that newton-cholesky takes minutes

Fit = Callable[[], Any]


@dataclass(frozen=True)
class Contest:
    """A loss, and who else minimizes it."""

    name: str
    loss: MulticlassLoss
    peers: Callable[[float, int], dict[str, Callable[[float], Any]]]
    tols: Sequence[float]


def solvers(C: float, n_parameters: int) -> dict[str, Callable[[float], Any]]:
    """Return what makes an estimator of a tolerance, for each solver of LogisticRegression."""
    names = ["lbfgs", "newton-cg", "sag", "saga"]
    names += ["newton-cholesky"] if n_parameters <= FEW_PARAMETERS else []

    def maker(name: str) -> Callable[[float], Any]:
        return lambda tol: LogisticRegression(
            C=C, tol=tol, solver=name, fit_intercept=False, max_iter=10_000, random_state=0
        )

    return {name: maker(name) for name in names}


def machines(C: float, n_parameters: int) -> dict[str, Callable[[float], Any]]:
    """Return what makes a LinearSVC of a tolerance."""
    return {
        "LinearSVC": lambda tol: LinearSVC(
            multi_class="crammer_singer", C=C, tol=tol, fit_intercept=False, max_iter=20_000,
            random_state=0,
        )
    }  # fmt: skip


CONTESTS = (
    Contest("softmax", Softmax(), solvers, SOLVER_TOLS),
    Contest("crammer_singer", CrammerSinger(), machines, SVC_TOLS),
)


@dataclass(frozen=True)
class Ours:
    """One run of ours: when the gap was proven, and J after each iteration."""

    method: str
    proven: list[float | None]
    trace: list[tuple[float, float]]

    def to(self, objective: float) -> float | None:
        """Return when J was as low."""
        return next((seconds for seconds, J in self.trace if objective >= J), None)


def seconds_of(work: Fit) -> tuple[float, Any]:
    begin = time.process_time()
    result = work()
    return time.process_time() - begin, result


def run_ours(X: Features, y: np.ndarray, loss: Any, lam: float, intercept: bool, limit: float):
    begin = time.process_time()
    risk = ScoredRisk(as_rows(X, n_threads=1), y, loss, intercept=intercept)
    method = automatic(Problem(risk, L2(lam)))
    times: list[float] = []

    def clock(state: Any) -> bool:
        times.append(time.process_time() - begin)
        return times[-1] > limit

    stop = Gap(relative=TARGETS[-1])
    result = minimize(risk, L2(lam), method=method, stop=stop, max_iter=None, callbacks=[clock])
    records = result.history
    return Ours(
        method.name,
        [
            next((t for t, r in zip(times, records, strict=True) if r.relative_gap <= gap), None)
            for gap in TARGETS
        ],
        [(t, r.objective) for t, r in zip(times, records, strict=True)],
    )


def objective(risk: ScoredRisk, lam: float, model: Any) -> float:
    """Return J of a fitted model; of two classes scikit-learn keeps the difference only."""
    w = np.ravel(model.coef_).astype(np.float64)
    return risk.at(w).value + L2(lam).value(w)


def compare(
    name: str, X: Features, y: np.ndarray, contest: Contest, share: float, options: Any
) -> None:
    lam, loss = share / X.shape[0], contest.loss
    risk = ScoredRisk(as_rows(X, n_threads=1), y, loss, intercept=options.intercept)
    ours = [run_ours(X, y, loss, lam, options.intercept, options.seconds)]
    best = min(J for _, J in ours[0].trace)
    tried: list[tuple[float, float, str, Fit]] = []
    peers = {} if options.intercept else contest.peers(1.0 / share, risk.n_parameters)
    for peer, make in peers.items():
        for tol in contest.tols:

            def fit(make: Any = make, tol: float = tol) -> Any:
                return make(tol).fit(X, y)

            seconds, model = seconds_of(fit)
            tried.append((seconds, objective(risk, lam, model), f"{peer} {tol:g}", fit))
            if seconds > options.seconds or tried[-1][1] <= best * (1.0 + 0.1 * TARGETS[-1]):
                break
    best = min([best, *(J for _, J, _, _ in tried)])
    fastest = [
        min(
            (run for run in tried if run[1] <= best * (1.0 + gap)), default=None, key=lambda r: r[0]
        )
        for gap in TARGETS
    ]
    theirs: list[list[float]] = [[run[0]] if run else [] for run in fastest]
    for _ in range(options.repeats - 1):
        ours.append(run_ours(X, y, loss, lam, options.intercept, options.seconds))
        for k, run in enumerate(fastest):
            if run:
                theirs[k].append(seconds_of(run[3])[0])
    names = [run[2] if run else "-" for run in fastest]
    for k, gap in enumerate(TARGETS):
        proven = median([run.proven[k] for run in ours])
        reached = median([run.to(best * (1.0 + gap)) for run in ours])
        peer = median(theirs[k])
        ratio = peer / reached if peer and reached else None
        print(
            f"{name:<10} {contest.name:<15} {share:<6g} {gap:<7g} {shown(reached)} {shown(proven)} "
            f"{shown(peer)} {shown(ratio)}  {ours[0].method}, {names[k]}",
            flush=True,
        )


def median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None


def shown(value: float | None) -> str:
    return f"{'-':>9}" if value is None else f"{value:9.3g}"


def main() -> int:
    parser = argparse.ArgumentParser(description="All classes at once, beside scikit-learn.")
    parser.add_argument("--data", nargs="+", metavar="NAME", default=list(CLASS_LOADERS))
    parser.add_argument("--losses", nargs="+", default=[contest.name for contest in CONTESTS])
    parser.add_argument("--shares", nargs="+", type=float, default=SHARES, help="lam times m")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--intercept", action="store_true")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit for one fit")
    options = parser.parse_args()
    for key, value in describe_machine().items():
        print(f"{key}: {value}")
    print("\nprocessor seconds, medians")
    print(
        f"{'data':<10} {'loss':<15} {'lam*m':<6} {'target':<7} {'to J':>9} {'proven':>9} "
        f"{'peer':>9} {'ratio':>9}"
    )
    warnings.simplefilter("ignore", ConvergenceWarning)  # what was reached is measured
    warnings.simplefilter("ignore", FutureWarning)
    try:
        with threadpool_limits(1):
            for name in options.data:
                X, y = load_classes(name)
                few = np.concatenate([np.flatnonzero(y == k)[:40] for k in range(3)])
                for contest in CONTESTS:
                    if contest.name in options.losses:
                        # Compiled before the clock runs.
                        run_ours(X[few], y[few], contest.loss, 0.1, options.intercept, 5.0)
                        for share in options.shares:
                            compare(name, X, y, contest, share, options)
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"\nload at the end: {machine_load()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
