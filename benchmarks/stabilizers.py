"""Stabilized methods side by side with `bmrm`: evaluations and seconds.

Run as ``CUTPLANE_DATA=FOLDER python benchmarks/stabilizers.py [NAME ...]``. Hinge loss without an
intercept, with and without the line search, to a certified relative gap. Seconds are those of the
best of three runs, which take turns, so that other work on the machine slows all of them down
alike. A dash is more than 2,000 iterations or 60 seconds.
"""

import sys
import time

from datasets import DataError, check_names, load

import cutplane as cp

ROWS = [
    ("a9a", 1e-4, 1e-5),
    ("a9a", 1e-6, 1e-3),
    ("ijcnn1", 1e-4, 1e-5),
    ("ijcnn1", 1e-6, 1e-3),
    ("covtype", 1e-6, 1e-3),
]
METHODS = {
    "bmrm": cp.bmrm,
    "proximal": cp.proximal,
    "adaptive": lambda line_search: cp.proximal(weight=None, line_search=line_search),
    "trust_region": cp.trust_region,
    "level": cp.level,
    "balanced": cp.balanced_proximal,
}
REPEATS = 3


def run(X, y, lam, gap, method):
    """Return evaluations (None: no success) and seconds."""
    risk = cp.ScoredRisk(X, y, cp.Hinge(), intercept=False)
    begin = time.perf_counter()
    result = cp.minimize(
        risk,
        cp.L2(lam),
        method=method,
        stop=cp.Gap(relative=gap),
        max_iter=2000,
        time_limit=60,
    )
    elapsed = time.perf_counter() - begin
    return result.evaluations if result.status.success else None, elapsed


def main():
    chosen = [row for row in ROWS if not sys.argv[1:] or row[0] in sys.argv[1:]]
    check_names(name for name, *_ in chosen)
    print("evaluations, seconds\n")
    titles = ("data", "lam", "gap", "search", *METHODS)
    print("| " + " | ".join(titles) + " |")
    for name, lam, gap in chosen:
        X, y = load(name)
        for line_search in (True, False):
            methods = [make(line_search=line_search) for make in METHODS.values()]
            turns = [[run(X, y, lam, gap, method) for method in methods]]
            # What failed once fails again, and takes long.
            turns += [
                [
                    run(X, y, lam, gap, method) if first[0] else first
                    for method, first in zip(methods, turns[0], strict=True)
                ]
                for _ in range(REPEATS - 1)
            ]
            cells = [name, f"{lam:g}", f"{gap:g}", "line" if line_search else "none"]
            for runs in zip(*turns, strict=True):
                evaluations, seconds = min(runs, key=lambda r: r[1])
                cells.append(f"{evaluations}, {seconds:.2f}" if evaluations else "-")
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except DataError as error:
        sys.exit(f"stabilizers.py: {error}")
