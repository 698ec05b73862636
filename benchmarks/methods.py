"""Dual ascent beside the bundle method: what the automatic choice of a method rests on.

Run as ``CUTPLANE_DATA=FOLDER python benchmarks/methods.py``. Prints milliseconds to a certified
relative gap of 1e-3 and of 1e-4, hinge loss, best of three, and what ``method="auto"`` chooses.
"""

import sys
import time

from datasets import DataError, check_names, load

import cutplane as cp
from cutplane.online import automatic

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
]
TARGETS = (1e-3, 1e-4)
METHODS = {"dual-ascent": cp.dual_ascent, "bmrm-line-search": cp.bmrm}


def milliseconds(X, y, lam, method, gap):
    """Return the time of a fit to the gap, or None if 3 seconds were not enough."""
    best = None
    for _ in range(3):
        begin = time.perf_counter()
        risk = cp.LinearRisk(X, y, cp.Hinge(), intercept=False)
        stop = cp.Gap(relative=gap)
        result = cp.minimize(
            risk, cp.L2(lam), method=method, stop=stop, max_iter=None, time_limit=3
        )
        if not result.status.success:
            return None
        elapsed = 1e3 * (time.perf_counter() - begin)
        best = elapsed if best is None else min(best, elapsed)
    return best


def main():
    check_names(name for name, _ in ROWS)
    print("milliseconds to a certified relative gap of 1e-3 / 1e-4; - is more than 3 seconds\n")
    print("".join(f"{title:>20}" for title in ("data", "lam", *METHODS, "auto chooses")))
    for name, lam in ROWS:
        X, y = load(name)
        times = []
        for method in METHODS.values():
            found = [milliseconds(X, y, lam, method(), gap) for gap in TARGETS]
            times.append(" / ".join("-" if t is None else f"{t:.0f}" for t in found))
        risk = cp.LinearRisk(X, y, cp.Hinge(), intercept=False)
        chosen = automatic(risk, cp.L2(lam)).query
        names = {type(method().query): label for label, method in METHODS.items()}
        cells = (name, f"{lam:g}", *times, names[type(chosen)])
        print("".join(f"{cell:>20}" for cell in cells), flush=True)


if __name__ == "__main__":
    try:
        main()
    except DataError as error:
        sys.exit(f"methods.py: {error}")
