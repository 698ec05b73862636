"""L1 logistic regression: time to a relative 1e-4, beside liblinear, saga, celer and skglm.

    CUTPLANE_DATA=folder python benchmarks/sparse_models.py [--data a9a ...] [--peers saga ...]

All minimize J(w) = lam |w|_1 + mean logistic loss, without an intercept, on one thread. For each
data set, lams are chosen (on a coarse path) that leave about a given share of the
coefficients not zero; where the largest share that L1 reaches is smaller, that is shown. Peers are
run with tolerances from loose to tight, and the fastest setting counts whose J, evaluated here, is
within 1e-4 of J*, which is that of a tight run of ours. Then all are timed in turns, in processor
time, the median of five rounds.

"proven" is a fit whose own bounds close the gap to 1e-4, without knowledge of J*; "reached" is the
loosest of our own tolerances whose objective is within 1e-4 all the same, as for the peers.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import numpy as np
from datasets import DataError, check_names, load
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import cutplane as cp
from cutplane.compute.threads import thread_limit

TARGET = 1e-4
TOLS = (0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
SLOW = 5.0  # seconds after which a peer is given up
COARSE, N_LAMS = 0.75, 30  # the path on which lams are chosen; the last is 0.00024 of the first
AIM = 4.0  # a run aims at a quarter of its tolerance

Fit = Callable[[float], np.ndarray]


def peers(X, y, lam) -> dict[str, Fit]:
    """Return what fits a model to a tolerance, by name, of those that are installed."""
    C, columns = 1.0 / (lam * len(y)), X.tocsc().astype(np.float64)

    def scikit(solver: str) -> Fit:
        def fit(tol: float) -> np.ndarray:
            model = LogisticRegression(
                l1_ratio=1.0, solver=solver, C=C, tol=tol, fit_intercept=False, max_iter=1000
            )
            return model.fit(X, y).coef_[0]

        return fit

    found = {"liblinear": scikit("liblinear"), "saga": scikit("saga")}
    try:
        from celer import LogisticRegression as Celer

        found["celer"] = lambda tol: (
            Celer(C=C, tol=tol, fit_intercept=False).fit(columns, y).coef_[0]
        )
    except ImportError:
        pass
    try:
        from skglm.datafits import Logistic
        from skglm.penalties import L1
        from skglm.solvers import ProxNewton

        def skglm(tol: float) -> np.ndarray:
            solver = ProxNewton(tol=tol, fit_intercept=False)
            return solver.solve(columns, y, Logistic(), L1(lam))[0]

        found["skglm"] = skglm
    except ImportError:
        pass
    return found


def ours(X, y, lam) -> Fit:
    def fit(tol: float) -> np.ndarray:
        risk = cp.ScoredRisk(X, y, cp.Logistic(), intercept=False)
        return cp.minimize(
            risk, cp.L1(lam), method=cp.coordinate_descent(), tol=AIM * tol, max_iter=None
        ).w

    return fit


def lam_with_share(X, y, share: float) -> float:
    """Return the largest lam, on a coarse path, that leaves at least this share; or the last."""
    risk = cp.ScoredRisk(X, y, cp.Logistic(), intercept=False)
    w = np.zeros(X.shape[1])
    first = float(np.abs(risk.at(w).plane().slope).max())
    for lam in first * COARSE ** np.arange(1, N_LAMS):
        w = cp.minimize(
            risk, cp.L1(float(lam)), method=cp.coordinate_descent(), start=w, tol=0.1, max_iter=30
        ).w
        if np.count_nonzero(w) >= share * len(w):
            break
    return float(lam)


def timed(fit: Fit, tol: float) -> tuple[float, np.ndarray]:
    begin = time.process_time()
    w = fit(tol)
    return time.process_time() - begin, w


def loosest(fit: Fit, objective: Callable[[np.ndarray], float], optimum: float) -> float | None:
    """Return the loosest tolerance that reaches the target."""
    for tol in TOLS:
        seconds, w = timed(fit, tol)
        if objective(w) <= (1.0 + TARGET) * optimum:
            return tol
        if seconds > SLOW:
            break
    return None


def compare(name: str, shares: list[float], chosen: list[str]) -> None:
    X, y = load(name)
    y = y.astype(np.float64)
    risk = cp.ScoredRisk(X, y, cp.Logistic(), intercept=False)
    for lam in dict.fromkeys(lam_with_share(X, y, share) for share in shares):
        best = cp.minimize(risk, cp.L1(lam), method=cp.coordinate_descent(), tol=1e-7)

        def objective(w, lam=lam):
            return risk.at(w).value + lam * float(np.abs(w).sum())

        known = peers(X, y, lam)
        fits = {"reached": ours(X, y, lam)} | {of: known[of] for of in chosen if of in known}
        tols = {of: loosest(fit, objective, best.objective) for of, fit in fits.items()}
        works = {of: (fits[of], tol) for of, tol in tols.items() if tol is not None}
        works["proven"] = (fits["reached"], TARGET)
        times: dict[str, list[float]] = {of: [] for of in works}
        for _ in range(5):
            for of, (fit, tol) in works.items():
                times[of].append(timed(fit, tol)[0])
        share = np.count_nonzero(best.w) / len(best.w)
        shown = ", ".join(
            f"{of} {statistics.median(each):.3f}" for of, each in sorted(times.items())
        )
        missed = [of for of in tols if tols[of] is None]
        print(f"{name}, lam {lam:.2g}, {share:.1%} not zero: {shown}", flush=True)
        if missed:
            print(f"    not reached: {', '.join(missed)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", default=["a9a", "reuters_lasvm", "news20_ng"])
    parser.add_argument("--share", nargs="+", type=float, default=[0.01, 0.05, 0.2])
    parser.add_argument("--peers", nargs="*", default=["liblinear", "saga", "celer", "skglm"])
    options = parser.parse_args()
    try:
        check_names(options.data)
        with warnings.catch_warnings(), thread_limit(1), threadpool_limits(1):
            warnings.simplefilter("ignore")  # what a peer reached is measured
            for name in options.data:
                compare(name, options.share, options.peers)
    except DataError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
