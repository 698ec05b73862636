"""Time to a given accuracy of logistic regression, beside scikit-learn's LogisticRegression.

    CUTPLANE_DATA=folder python benchmarks/logistic.py [--data a9a ...]

Both minimize J(w) = lam/2 |w|^2 + mean loss, without an intercept; C is 1/(lam m). Each solver of
scikit-learn is run with tolerances, or numbers of iterations, from loose to tight, and the fastest
setting counts whose w reaches (J - J*) / J* <= target, with J evaluated here. J* comes from a tight
run of ours; the last table has the error that its certificate allows. A solver is given up when
one fit takes three times as long as the best solver so far needed for the tightest target.

"proven" is the time after which our own bounds, without knowledge of J*, close the gap to the
target; scikit-learn has no such bounds. "fit" is the whole fit with that tolerance, which aims at a
quarter of it. The ratio is the time of the best solver of scikit-learn over "proven": above 1 we
are faster.

Times are wall clock of `fit` and all that it does, with compiled kernels, best of 3 below 2 s and
of 2 below 5 s.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from datasets import DataError, check_names, load
from linear import (
    LAMS,
    TARGETS,
    Optimum,
    Problem,
    Run,
    excess,
    fastest,
    find_optimum,
    print_optima,
    run_ours,
)
from sklearn.linear_model import LogisticRegression
from timing import best_of_few, describe_machine, machine_load

TOLS = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 1e-4, 1e-5, 1e-6)
ITERATIONS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300, 500, 800, 1200, 2000)
NEVER = 1e-12  # a tolerance that is not met, where the number of iterations is swept
FEW_FEATURES = 1000  # newton-cholesky builds a matrix of that size
# A solver is given up when one of its fits takes so many times as long as the best one needs.
HOPELESS = 3.0


@dataclass(frozen=True)
class Peer:
    """A solver of scikit-learn, and the settings it is run with."""

    name: str
    options: dict[str, object]
    tols: Sequence[float] = TOLS
    iterations: Sequence[int] = (1000,)

    def settings(self) -> Iterator[tuple[float, int]]:
        """Yield tolerance and limit of iterations, from loose to tight."""
        return ((tol, most) for most in self.iterations for tol in self.tols)


def swept_by_iterations(solver: str) -> Peer:
    return Peer(solver, {"solver": solver}, (NEVER,), ITERATIONS)


# Those that tend to be fast come first: they limit the time that the others are given.
PEERS = (
    swept_by_iterations("newton-cholesky"),
    Peer("liblinear", {"solver": "liblinear"}),
    Peer("liblinear dual", {"solver": "liblinear", "dual": True}),
    swept_by_iterations("newton-cg"),
    swept_by_iterations("lbfgs"),
    swept_by_iterations("sag"),
    swept_by_iterations("saga"),
)


def run_peer(peer: Peer, problem: Problem, tol: float, max_iter: int) -> tuple[Run, np.ndarray]:
    """Return a run without its excess, and the coefficients."""
    C = 1.0 / (problem.lam * problem.X.shape[0])

    def fit() -> LogisticRegression:
        model = LogisticRegression(
            C=C, tol=tol, max_iter=max_iter, fit_intercept=False, random_state=0, **peer.options
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it reached is measured
            return model.fit(problem.X, problem.y)

    seconds, model = best_of_few(fit)
    return Run(tol, seconds, np.inf, int(np.max(model.n_iter_))), model.coef_[0]


def sweep_peer(peer: Peer, problem: Problem, optimum: Optimum, limit: float) -> list[Run]:
    """Fit from loose to tight, until every target is reached or a fit takes too long."""
    runs: list[Run] = []
    for tol, max_iter in peer.settings():
        run, w = run_peer(peer, problem, tol, max_iter)
        runs.append(replace(run, excess=excess(problem, w, optimum)))
        if run.seconds > limit or all(fastest(runs, target) for target in TARGETS):
            break
    return runs


def sweep_peers(problem: Problem, optimum: Optimum) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    best = np.inf
    for peer in PEERS:
        if peer.name == "newton-cholesky" and problem.X.shape[1] > FEW_FEATURES:
            continue
        found[peer.name] = sweep_peer(peer, problem, optimum, HOPELESS * best)
        if run := fastest(found[peer.name], min(TARGETS)):
            best = min(best, run.seconds)
    return found


def our_runs(problem: Problem, optimum: Optimum) -> dict[float, Run]:
    """Return a run with each target as tolerance; one before them compiles."""
    run_ours(problem, problem.X, optimum, 1.0)
    return {target: run_ours(problem, problem.X, optimum, target) for target in TARGETS}


def print_row(
    problem: Problem, target: float, ours: dict[float, Run], peers: dict[str, list[Run]]
) -> None:
    proven = min(run.proven[target] for run in ours.values() if target in run.proven)
    reached = {name: fastest(runs, target) for name, runs in peers.items()}
    times = {name: run.seconds for name, run in reached.items() if run}
    best = min(times, key=lambda name: times[name])
    cells = [
        *(problem.data, f"{problem.lam:.0e}", f"{target:.0e}"),
        *(f"{proven:.3f}", f"{ours[target].seconds:.3f}"),
        *(f"{times[peer.name]:.3f}" if peer.name in times else "-" for peer in PEERS),
        *(f"{times[best] / proven:.2f}", best),
    ]
    print(TABLE.format(*cells), flush=True)


TABLE = "{:14}{:>7}{:>7}{:>9}{:>9}" + "{:>16}" * len(PEERS) + "{:>8}  {}"
HEADINGS = ("data", "lam", "target", "proven", "fit", *(p.name for p in PEERS), "ratio", "best")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Logistic regression beside scikit-learn.")
    parser.add_argument("--data", nargs="+", metavar="NAME", default=list(LAMS), help="default all")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    try:
        check_names(options.data)  # before the first measurement, not after the last
        for name, text in describe_machine().items():
            print(f"{name + ':':10}{text}")
        print("\nlogistic loss, no intercept; seconds to (J - J*) / J* <= target\n")
        print(TABLE.format(*HEADINGS), flush=True)
        optima: dict[tuple[str, float], Optimum] = {}
        for name in options.data:
            X, y = load(name)
            for lam in LAMS[name]:
                problem = Problem(name, X, y, lam, "logistic")
                optima[name, lam] = optimum = find_optimum(problem)
                ours, peers = our_runs(problem, optimum), sweep_peers(problem, optimum)
                for target in TARGETS:
                    print_row(problem, target, ours, peers)
        print_optima(optima)
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"\nload at the end: {machine_load()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
