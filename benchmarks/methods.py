"""Newton, dual ascent and the bundle method: what the automatic choice of a method rests on.

Run as ``CUTPLANE_DATA=FOLDER python benchmarks/methods.py [--loss logistic] [--intercept]``. Prints
milliseconds to a certified relative gap of 1e-3 and of 1e-4, best of three, and what
``method="auto"`` chooses.
"""

import argparse
import sys
import time
from functools import partial

from datasets import DataError, check_names, load

import cutplane as cp
from cutplane.core.state import Problem
from cutplane.losses import CLASSIFICATION
from cutplane.solvers.automatic import automatic

ROWS = [
    ("reuters_lasvm", 1e-4),
    ("reuters_lasvm", 1e-6),
    ("news20_ng", 1e-4),
    ("news20_ng", 1e-5),
    ("a9a", 1e-3),
    ("a9a", 1e-4),
    ("a9a", 1e-5),
    ("a9a", 1e-6),
    ("ijcnn1", 1e-4),
    ("ijcnn1", 1e-6),
    ("covtype", 1e-6),
    ("mnist", 1e-5),
]
TARGETS = (1e-3, 1e-4)
TIME_LIMIT = 10.0
METHODS = {
    "newton": cp.newton,
    "dual-ascent": cp.dual_ascent,
    "grouped": partial(cp.bmrm, groups="auto"),
    "bmrm-line-search": cp.bmrm,
}


def milliseconds(make_risk, lam, method, gap):
    """Return the time of a fit to the gap, or None if the time limit was not enough."""
    regularizer, stop, best = cp.L2(lam), cp.Gap(relative=gap), None
    for _ in range(3):
        begin = time.perf_counter()
        result = cp.minimize(
            make_risk(), regularizer, method=method, stop=stop, max_iter=None, time_limit=TIME_LIMIT
        )
        if not result.status.success:
            return None
        elapsed = 1e3 * (time.perf_counter() - begin)
        best = elapsed if best is None else min(best, elapsed)
    return best


def obstacle(label, risk, lam):
    """Return why a method cannot or should not be tried, or None."""
    if label == "dual-ascent":
        return cp.dual_ascent().obstacle(Problem(risk, cp.L2(lam)))
    if label == "newton" and risk.n_parameters > 2000:
        return "second derivatives would fill the memory"
    return None


def parse_options():
    parser = argparse.ArgumentParser(description="Newton, dual ascent and the bundle method.")
    parser.add_argument("--loss", choices=("hinge", "logistic"), default="hinge")
    parser.add_argument("--data", nargs="+", help="only these data sets")
    parser.add_argument("--intercept", action="store_true", help="fit one, not regularized")
    return parser.parse_args()


def main():
    options = parse_options()
    check_names(name for name, _ in ROWS)
    print("milliseconds to a certified relative gap of 1e-3 / 1e-4; - is not applicable, or more")
    print(f"than {TIME_LIMIT:g} seconds\n")
    print("".join(f"{title:>20}" for title in ("data", "lam", *METHODS, "auto chooses")))
    for name, lam in ROWS:
        if options.data and name not in options.data:
            continue
        X, y = load(name)

        def make_risk(X=X, y=y):
            loss = CLASSIFICATION[options.loss]()
            return cp.ScoredRisk(X, y, loss, intercept=options.intercept)

        times = []
        for label, method in METHODS.items():
            found = [None, None]
            if obstacle(label, make_risk(), lam) is None:
                found = [milliseconds(make_risk, lam, method(), gap) for gap in TARGETS]
            times.append(" / ".join("-" if t is None else f"{t:.0f}" for t in found))
        chosen = automatic(Problem(make_risk(), cp.L2(lam)))
        names = {method(): label for label, method in METHODS.items()}
        cells = (name, f"{lam:g}", *times, names[chosen])
        print("".join(f"{cell:>20}" for cell in cells), flush=True)


if __name__ == "__main__":
    try:
        main()
    except DataError as error:
        sys.exit(f"methods.py: {error}")
