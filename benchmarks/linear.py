"""Time to a given accuracy of linear classifiers, beside scikit-learn's LinearSVC.

    CUTPLANE_DATA=folder python benchmarks/linear.py [--data a9a ...] [--loss hinge] [--json FILE]

Both minimize J(w) = lam/2 |w|^2 + mean loss, without an intercept; LinearSVC's C is 1/(lam m). A
tolerance means something else to each, so it is swept from loose to tight, and the fastest setting
counts whose w reaches (J - J*) / J* <= target, with J evaluated here for both. J* comes from a
tight run of ours; its certificate bounds the error of J*. "proven" is the time after which our own
bounds, without knowledge of J*, close the gap to the target: LinearSVC has no such bounds. "own
gap" is the relative gap that the fastest of our runs to the target ended with.

Times are wall clock of `fit` and all that it does (validation included, loading not), with compiled
kernels, best of 3 below 2 s and of 2 below 5 s. The ratio is LinearSVC's time over ours: above 1 we
are faster. What it costs to compile is measured apart, in fresh processes.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import scipy.sparse
from datasets import DataError, Features, check_names, load
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from timing import (
    best_of_few,
    describe_machine,
    machine_load,
    measure_cold_start,
    stopwatch,
)

from cutplane import LinearClassifier
from cutplane.losses import CLASSIFICATION
from cutplane.maps import as_rows
from cutplane.regularizers import L2
from cutplane.risks import ScoredRisk

LAMS = {
    "a9a": (1e-4, 1e-6),
    "ijcnn1": (1e-6,),
    "covtype": (1e-6,),
    "reuters_lasvm": (1e-4,),
    "news20_ng": (1e-4,),
    "mnist": (1e-5,),
}
LOSSES = ("hinge", "squared_hinge")  # those that LinearSVC's dual solver knows, too
TARGETS = (1e-3, 1e-4)
OUR_TOLS = (4e-2, 1e-2, 4e-3, 1e-3, 4e-4, 1e-4, 4e-5, 1e-5)
PEER_TOLS = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 1e-4, 1e-5)
PEER_MAX_ITER = 100_000  # epochs; far more than any tolerance above needs within the time
OPTIMUM_TOL = 1e-6
OPTIMUM_SECONDS = 60.0


@dataclass(frozen=True)
class Problem:
    """A data set with a regularization: what is minimized."""

    data: str
    X: Features
    y: np.ndarray
    lam: float
    loss: str

    def objective(self, w: np.ndarray) -> float:
        """Return J(w), evaluated from the data as they were loaded."""
        loss = CLASSIFICATION[self.loss]()
        risk = ScoredRisk(as_rows(self.X), self.y, loss, intercept=False)
        return risk.at(w).value + L2(self.lam).value(w)


@dataclass(frozen=True)
class Optimum:
    """J* up to a relative error that the certificate bounds."""

    objective: float
    relative_gap: float
    seconds: float
    iterations: int


@dataclass(frozen=True)
class Run:
    """One fit with one tolerance."""

    tol: float
    seconds: float
    excess: float  # (J - J*) / J*
    iterations: int
    certified_gap: float | None = None
    proven: dict[float, float] = field(default_factory=dict)  # target: seconds


@dataclass(frozen=True)
class Comparison:
    """All runs on one problem, ours with one layout of X."""

    data: str
    lam: float
    loss: str
    layout: str
    peer_layout: str
    optimum: Optimum
    ours: list[Run]
    peer: list[Run]

    def ratio(self, target: float) -> float | None:
        """Return LinearSVC's time over ours; None if one of them did not reach the target."""
        ours, peer = fastest(self.ours, target), fastest(self.peer, target)
        return peer.seconds / ours.seconds if ours and peer else None

    def proven(self, target: float) -> float | None:
        """Return the least time after which our bounds alone proved the target."""
        return min((run.proven[target] for run in self.ours if target in run.proven), default=None)


def fastest(runs: Sequence[Run], target: float) -> Run | None:
    reached = (run for run in runs if run.excess <= target)
    return min(reached, key=lambda run: run.seconds, default=None)


def sweep(fit: Callable[[float], Run], tols: Sequence[float], *, needs_proof: bool) -> list[Run]:
    """Fit with tighter and tighter tolerances until every target is reached."""
    runs: list[Run] = []
    for tol in tols:
        runs.append(fit(tol))
        reached = all(fastest(runs, target) for target in TARGETS)
        if reached and (not needs_proof or len(runs[-1].proven) == len(TARGETS)):
            break
    return runs


def our_model(problem: Problem, tol: float, **limits: float) -> LinearClassifier:
    return LinearClassifier(
        problem.loss, lam=problem.lam, fit_intercept=False, tol=tol, max_iter=None, **limits
    )


def find_optimum(problem: Problem) -> Optimum:
    tight = our_model(problem, OPTIMUM_TOL, time_limit=OPTIMUM_SECONDS)
    with warnings.catch_warnings():
        # A run that the time limit ends is good enough: its gap is reported.
        warnings.simplefilter("ignore", ConvergenceWarning)
        seconds, model = stopwatch(lambda: tight.fit(problem.X, problem.y))
    certificate = model.certificate_
    return Optimum(certificate.objective, certificate.relative_gap, seconds, model.n_iter_)


def run_ours(problem: Problem, X: Features, optimum: Optimum, tol: float) -> Run:
    seconds, model = best_of_few(lambda: our_model(problem, tol).fit(X, problem.y))
    # The history's clock starts after validation and stops before the final evaluation.
    outside = seconds - model.history_[-1].seconds
    proven = {}
    for target in TARGETS:
        records = (r for r in model.history_ if r.relative_gap <= target)
        if first := next(records, None):
            proven[target] = outside + first.seconds
    return Run(
        tol=tol,
        seconds=seconds,
        excess=excess(problem, model.coef_[0], optimum),
        iterations=model.n_iter_,
        certified_gap=model.certificate_.relative_gap,
        proven=proven,
    )


def run_peer(problem: Problem, X: Features, optimum: Optimum, tol: float) -> Run:
    seconds, model = best_of_few(lambda: fit_peer(problem, X, tol))
    w = model.coef_[0]
    return Run(tol, seconds, excess(problem, w, optimum), int(model.n_iter_))


def fit_peer(problem: Problem, X: Features, tol: float) -> LinearSVC:
    C = 1.0 / (problem.lam * X.shape[0])
    model = LinearSVC(
        loss=problem.loss,
        C=C,
        tol=tol,
        fit_intercept=False,
        dual=True,
        max_iter=PEER_MAX_ITER,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # what it reached is measured
        return model.fit(X, problem.y)


def excess(problem: Problem, w: np.ndarray, optimum: Optimum) -> float:
    return problem.objective(w) / optimum.objective - 1.0


def our_layouts(X: Features) -> list[Features]:
    """Return the matrices that we are timed on: as loaded, and dense data in float32 as well."""
    return [X] if scipy.sparse.issparse(X) else [X, X.astype(np.float32)]


def peer_layout(problem: Problem) -> Features:
    """Return X in the layout that LinearSVC is faster with."""
    if scipy.sparse.issparse(problem.X):
        return problem.X
    layouts = [problem.X, scipy.sparse.csr_array(problem.X)]
    return min(layouts, key=lambda X: stopwatch(lambda: fit_peer(problem, X, PEER_TOLS[0]))[0])


def layout_name(X: Features) -> str:
    return f"{'CSR' if scipy.sparse.issparse(X) else 'dense'} {X.dtype}"


def compare(problem: Problem) -> Iterator[Comparison]:
    """Yield a comparison for each of our layouts."""
    optimum = find_optimum(problem)
    peer_X = peer_layout(problem)
    peer_runs = sweep(
        lambda tol: run_peer(problem, peer_X, optimum, tol), PEER_TOLS, needs_proof=False
    )
    for X in our_layouts(problem.X):
        our_model(problem, tol=1.0).fit(X, problem.y)  # compiles the kernels for this layout
        yield Comparison(
            data=problem.data,
            lam=problem.lam,
            loss=problem.loss,
            layout=layout_name(X),
            peer_layout=layout_name(peer_X),
            optimum=optimum,
            ours=sweep(
                lambda tol, X=X: run_ours(problem, X, optimum, tol), OUR_TOLS, needs_proof=True
            ),
            peer=peer_runs,
        )


TABLE = "{:14}{:>7}  {:14}{:>7}{:>11}{:>8}{:>11}{:>8}{:>6}{:>10}{:>8}{:>10}"
HEADINGS = (
    *("data", "lam", "X (ours)", "target", "LinearSVC", "tol"),
    *("cutplane", "tol", "iter", "own gap", "ratio", "proven"),
)
OPTIMA = "{:14}{:>7}{:>16}{:>12}{:>10}{:>10}"


def print_header(loss: str, machine: dict[str, str]) -> None:
    for name, text in machine.items():
        print(f"{name + ':':10}{text}")
    print(f"\n{loss} loss, no intercept; seconds to (J - J*) / J* <= target\n")
    print(TABLE.format(*HEADINGS), flush=True)


def print_comparison(comparison: Comparison) -> None:
    for target in TARGETS:
        ours, peer = fastest(comparison.ours, target), fastest(comparison.peer, target)
        print(
            TABLE.format(
                comparison.data,
                f"{comparison.lam:.0e}",
                comparison.layout,
                f"{target:.0e}",
                *_time_and_tol(peer),
                *_time_and_tol(ours),
                ours.iterations if ours else "-",
                _number(ours and ours.certified_gap, ".1e"),
                _number(comparison.ratio(target), ".2f"),
                _number(comparison.proven(target), ".3f"),
            ),
            flush=True,
        )


def _time_and_tol(run: Run | None) -> tuple[str, str]:
    return (f"{run.seconds:.3f}", f"{run.tol:.0e}") if run else ("-", "-")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def print_optima(optima: Mapping[tuple[str, float], Optimum]) -> None:
    print("\nJ* and the relative error that its certificate allows\n")
    print(OPTIMA.format("data", "lam", "J*", "error", "seconds", "iter"))
    for (data, lam), optimum in optima.items():
        error, seconds = f"{optimum.relative_gap:.1e}", f"{optimum.seconds:.2f}"
        objective = f"{optimum.objective:.9f}"
        print(OPTIMA.format(data, f"{lam:.0e}", objective, error, seconds, optimum.iterations))


def print_cold_start(cold_start: dict[str, dict[str, float]]) -> None:
    print("\nFresh processes, 20,000 x 100 CSR, default tolerance, with Numba's cache on disk\n")
    for cache, times in cold_start.items():
        cells = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in times.items())
        print(f"{cache + ':':14}{cells}")


def as_json(
    machine: dict[str, str],
    comparisons: list[Comparison],
    cold_start: dict[str, dict[str, float]],
) -> str:
    def entry(comparison: Comparison) -> dict[str, object]:
        ratios = {f"{target:.0e}": comparison.ratio(target) for target in TARGETS}
        return asdict(comparison) | {"ratio": ratios}

    report = {
        "machine": machine,
        "targets": TARGETS,
        "comparisons": [entry(comparison) for comparison in comparisons],
        "cold_start": cold_start,
    }
    return json.dumps(report, indent=1)


def benchmark(names: Sequence[str], loss: str) -> Iterator[Comparison]:
    for name in names:
        X, y = load(name)
        for lam in LAMS[name]:
            yield from compare(Problem(name, X, y, lam, loss))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Linear classifiers beside LinearSVC.")
    parser.add_argument("--data", nargs="+", metavar="NAME", default=list(LAMS), help="default all")
    parser.add_argument("--loss", choices=LOSSES, default="hinge")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all runs to FILE")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    try:
        # Complain before the first measurement, not after the last.
        check_names(options.data)
        machine = describe_machine()
        print_header(options.loss, machine)
        comparisons = []
        for comparison in benchmark(options.data, options.loss):
            comparisons.append(comparison)
            print_comparison(comparison)
        print_optima({(c.data, c.lam): c.optimum for c in comparisons})
        cold_start = measure_cold_start()
        print_cold_start(cold_start)
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    machine["load at the end"] = machine_load()
    print(f"\nload at the end: {machine['load at the end']}")
    if options.json:
        options.json.write_text(as_json(machine, comparisons, cold_start))
    return 0


if __name__ == "__main__":
    sys.exit(main())
