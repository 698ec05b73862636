"""Planes for groups of examples: evaluations and seconds for 1, 4, 16 and 64 groups.

Run as ``CUTPLANE_DATA=FOLDER python benchmarks/groups.py [NAME ...]``. Hinge loss without an
intercept, line search, to a certified relative gap of 1e-3. Seconds are the best of three, in
brackets the share of them that the reduced problem takes. The last column is the number of groups
that ``groups="auto"`` takes.
"""

import sys
import time

from datasets import DataError, check_names, load

import cutplane as cp
from cutplane.core.bundle import Bundle

ROWS = [
    ("a9a", 1e-4),
    ("a9a", 1e-6),
    ("ijcnn1", 1e-4),
    ("ijcnn1", 1e-6),
    ("covtype", 1e-4),
    ("covtype", 1e-6),
    ("mnist", 1e-4),
    ("mnist", 1e-6),
    ("reuters_lasvm", 1e-4),
]
GROUPS = (1, 4, 16, 64)
GAP = 1e-3
REPEATS = 3


def run(X, y, lam, groups):
    """Return evaluations, seconds and the seconds in the reduced problem, of the fastest run."""
    best = None
    for _ in range(REPEATS):
        risk = cp.LinearRisk(X, y, cp.Hinge(), intercept=False)
        solving.clear()
        begin = time.perf_counter()
        result = cp.minimize(
            risk,
            cp.L2(lam),
            method=cp.bmrm(groups=groups),
            stop=cp.Gap(relative=GAP),
            max_iter=None,
            time_limit=60,
        )
        elapsed = time.perf_counter() - begin
        if not result.status.success:
            return None
        if best is None or elapsed < best[1]:
            best = result.evaluations, elapsed, sum(solving)
    return best


solving = []


def timed(weigh):
    """Return `Bundle.weigh` with its time added to `solving`."""

    def weigh_and_time(bundle, lam, *, accuracy):
        begin = time.perf_counter()
        weigh(bundle, lam, accuracy=accuracy)
        solving.append(time.perf_counter() - begin)

    return weigh_and_time


def main():
    chosen = [row for row in ROWS if not sys.argv[1:] or row[0] in sys.argv[1:]]
    check_names(name for name, _ in chosen)
    Bundle.weigh = timed(Bundle.weigh)
    titles = ("data", "lam", *(f"{g} groups" if g > 1 else "1 group" for g in GROUPS), "auto")
    print("evaluations, seconds (share of the reduced problem); - is more than 60 seconds\n")
    print("".join(f"{title:>20}" for title in titles))
    for name, lam in chosen:
        X, y = load(name)
        cells = [name, f"{lam:g}"]
        for groups in GROUPS:
            found = run(X, y, lam, groups)
            cells.append(
                f"{found[0]}, {found[1]:.2f} ({found[2] / found[1]:.0%})" if found else "-"
            )
        cells.append(str(cp.LinearRisk(X, y, cp.Hinge(), intercept=False).good_groups))
        print("".join(f"{cell:>20}" for cell in cells), flush=True)


if __name__ == "__main__":
    try:
        main()
    except DataError as error:
        sys.exit(f"groups.py: {error}")
