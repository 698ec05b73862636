"""Time to a given accuracy of linear classifiers, beside scikit-learn's LinearSVC.

    CUTPLANE_DATA=folder python benchmarks/linear.py [--data a9a ...] [--loss hinge] [--json FILE]

Both minimize J(w) = lam/2 |w|^2 + mean loss, without an intercept; LinearSVC's C is 1/(lam m), so
that lam = 1/m is C = 1. A tolerance means something else to each, so it is swept from loose to
tight, and the loosest counts whose w reaches (J - J*) / J* <= target, with J evaluated here for
both. J* comes from a tight run of ours; its certificate bounds the error of J*. "proven" is a fit
whose own bounds, without knowledge of J*, close the gap to the target: LinearSVC has no such
bounds.

Times are those of `fit` and all that it does (validation included, loading not), with compiled
kernels. All three are timed in turns, five rounds or more; medians by the clock are printed, and
how far the middle half of the times reaches, as a share of the median. The ratios are LinearSVC's
time over ours, by the clock and in processor time (all threads together): above 1 we are faster. On
a busy machine only processor time says something. What it costs to compile is measured apart, in
fresh processes.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import scipy.sparse
from datasets import DataError, Features, check_names, load
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from timing import (
    Times,
    describe_machine,
    in_turns,
    machine_load,
    measure_cold_start,
    stopwatch,
)

from cutplane import LinearClassifier
from cutplane.data import as_rows
from cutplane.losses import CLASSIFICATION
from cutplane.regularizers import L2
from cutplane.risks import ScoredRisk

ONE_BY_M = None  # C = 1
LAMS: dict[str, tuple[float | None, ...]] = {
    "a9a": (ONE_BY_M, 1e-4, 1e-6),
    "ijcnn1": (ONE_BY_M, 1e-6),
    "covtype": (ONE_BY_M, 1e-6),
    "reuters_lasvm": (ONE_BY_M, 1e-4),
    "news20_ng": (ONE_BY_M, 1e-4),
    "mnist": (ONE_BY_M, 1e-5),
}
LOSSES = ("hinge", "squared_hinge")  # those that LinearSVC's dual solver knows, too
TARGETS = (1e-3, 1e-4)
AIM = 0.25  # a fit of ours ends when its gap is this share of its tolerance
OUR_TOLS = (0.4, 0.2, 0.1, 4e-2, 2e-2, 1e-2, 4e-3, 2e-3, 1e-3, 4e-4, 2e-4, 1e-4, 4e-5, 1e-5)
PEER_TOLS = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)
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
class Row:
    """What a target took, ours with one layout of X; without a time where it was not reached."""

    target: float
    our_tol: float | None
    peer_tol: float | None
    iterations: int
    times: dict[str, Times]

    def ratio(self, name: str) -> tuple[float, float] | None:
        """Return LinearSVC's time over one of ours: by the clock, and in processor time."""
        if "peer" not in self.times or name not in self.times:
            return None
        return self.times["peer"].ratio(self.times[name])


@dataclass(frozen=True)
class Comparison:
    """All rows of one problem, ours with one layout of X."""

    data: str
    lam: float
    loss: str
    layout: str
    peer_layout: str
    optimum: Optimum
    rows: list[Row]


def loosest(excess_of: Callable[[float], float], tols: Sequence[float]) -> dict[float, float]:
    """Return for each target the loosest tolerance that reaches it."""
    found: dict[float, float] = {}
    for tol in tols:
        reached = excess_of(tol)
        found |= {t: tol for t in TARGETS if t not in found and reached <= t}
        if len(found) == len(TARGETS):
            break
    return found


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


def compare(problem: Problem, rounds: int) -> Iterator[Comparison]:
    """Yield a comparison for each of our layouts."""
    optimum = find_optimum(problem)
    peer_X = peer_layout(problem)
    peer_tols = loosest(
        lambda tol: excess(problem, fit_peer(problem, peer_X, tol).coef_[0], optimum), PEER_TOLS
    )
    for X in our_layouts(problem.X):
        our_model(problem, tol=1.0).fit(X, problem.y)  # compiles the kernels for this layout

        def fit(tol: float, X: Features = X) -> LinearClassifier:
            return our_model(problem, tol).fit(X, problem.y)

        our_tols = loosest(lambda tol: excess(problem, fit(tol).coef_[0], optimum), OUR_TOLS)
        rows = []
        for target in TARGETS:
            works: dict[str, Callable[[], object]] = {"proven": lambda: fit(target / AIM)}  # noqa: B023
            if target in our_tols:
                works["ours"] = lambda: fit(our_tols[target])  # noqa: B023
            if target in peer_tols:
                works["peer"] = lambda: fit_peer(problem, peer_X, peer_tols[target])  # noqa: B023
            proven = fit(target / AIM)
            assert proven.certificate_.relative_gap <= target
            rows.append(
                Row(
                    target,
                    our_tols.get(target),
                    peer_tols.get(target),
                    proven.n_iter_,
                    in_turns(works, rounds=rounds),
                )
            )
        yield Comparison(
            data=problem.data,
            lam=problem.lam,
            loss=problem.loss,
            layout=layout_name(X),
            peer_layout=layout_name(peer_X),
            optimum=optimum,
            rows=rows,
        )


TABLE = "{:14}{:>8}  {:14}{:>7}" + "{:>16}" * 3 + "{:>6}" + "{:>15}" * 2
HEADINGS = (
    *("data", "lam", "X (ours)", "target", "LinearSVC", "cutplane", "proven", "iter"),
    *("ratio", "ratio, proven"),
)
OPTIMA = "{:14}{:>8}{:>16}{:>12}{:>10}{:>10}"


def print_header(loss: str, machine: dict[str, str]) -> None:
    for name, text in machine.items():
        print(f"{name + ':':10}{text}")
    print(f"\n{loss} loss, no intercept; seconds to (J - J*) / J* <= target: median and spread;")
    print("ratios by the clock / in processor time\n")
    print(TABLE.format(*HEADINGS), flush=True)


def print_comparison(comparison: Comparison) -> None:
    for row in comparison.rows:
        print(
            TABLE.format(
                comparison.data,
                f"{comparison.lam:.1e}",
                comparison.layout,
                f"{row.target:.0e}",
                *(shown(row.times.get(name)) for name in ("peer", "ours", "proven")),
                row.iterations,
                *(shown_ratio(row.ratio(name)) for name in ("ours", "proven")),
            ),
            flush=True,
        )


def shown(times: Times | None) -> str:
    return "-" if times is None else f"{times.median:.4f} {100 * times.spread:.0f}%"


def shown_ratio(ratio: tuple[float, float] | None) -> str:
    return "-" if ratio is None else f"{ratio[0]:.2f} / {ratio[1]:.2f}"


def print_optima(optima: Mapping[tuple[str, float], Optimum]) -> None:
    print("\nJ* and the relative error that its certificate allows\n")
    print(OPTIMA.format("data", "lam", "J*", "error", "seconds", "iter"))
    for (data, lam), optimum in optima.items():
        error, seconds = f"{optimum.relative_gap:.1e}", f"{optimum.seconds:.2f}"
        objective = f"{optimum.objective:.9f}"
        print(OPTIMA.format(data, f"{lam:.1e}", objective, error, seconds, optimum.iterations))


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
    report = {
        "machine": machine,
        "targets": TARGETS,
        "comparisons": [asdict(comparison) for comparison in comparisons],
        "cold_start": cold_start,
    }
    return json.dumps(report, indent=1)


def problems(names: Sequence[str], loss: str) -> Iterator[Problem]:
    for name in names:
        X, y = load(name)
        for lam in LAMS[name]:
            yield Problem(name, X, y, 1.0 / X.shape[0] if lam is ONE_BY_M else lam, loss)


def at_least_five(text: str) -> int:
    if (rounds := int(text)) < 5:
        raise argparse.ArgumentTypeError("a median of fewer than 5 rounds says little")
    return rounds


def add_common_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", nargs="+", metavar="NAME", default=list(LAMS), help="default all")
    parser.add_argument("--rounds", type=at_least_five, default=5, help="default 5")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Linear classifiers beside LinearSVC.")
    add_common_options(parser)
    parser.add_argument("--loss", choices=LOSSES, default="hinge")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all times to FILE")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    try:
        # Complain before the first measurement, not after the last.
        check_names(options.data)
        machine = describe_machine()
        print_header(options.loss, machine)
        comparisons = []
        for problem in problems(options.data, options.loss):
            for comparison in compare(problem, options.rounds):
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
