"""Planes for groups of examples: evaluations and seconds for 1, 4, 16, 64 and "auto" groups.

Run as ``CUTPLANE_DATA=FOLDER python benchmarks/groups.py [NAME ...]``. Hinge loss without an
intercept, line search, to a certified relative gap of 1e-3. Seconds are those of the best run, in
brackets the share that the reduced problem takes. Runs are repeated for 15 seconds, three times at
least, and take turns, so that other work on the machine slows all of them down alike. The last
column also has the number that "auto" takes.
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
GROUPS = (1, 4, 16, 64, "auto")
GAP = 1e-3
REPEATS = 3
SECONDS = 15


def run(X, y, lam, groups):
    """Return seconds, the seconds in the reduced problem, and evaluations (None: no success)."""
    risk = cp.ScoredRisk(X, y, cp.Hinge(), intercept=False)
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
    return elapsed, sum(solving), result.evaluations if result.status.success else None


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
    titles = ("data", "lam", *(f"groups {groups}" for groups in GROUPS))
    print("evaluations, seconds (share of the reduced problem); - is more than 60 seconds\n")
    print("".join(f"{title:>20}" for title in titles))
    for name, lam in chosen:
        X, y = load(name)
        begin, turns = time.perf_counter(), []
        while len(turns) < REPEATS or time.perf_counter() < begin + SECONDS:
            turns.append([run(X, y, lam, groups) for groups in GROUPS])
        cells = [name, f"{lam:g}"]
        for runs in zip(*turns, strict=True):
            seconds, reduced, evaluations = min(runs)
            share = f"{reduced / seconds:.0%}"
            cells.append(f"{evaluations}, {seconds:.2f} ({share})" if evaluations else "-")
        cells[-1] += f" [{cp.ScoredRisk(X, y, cp.Hinge(), intercept=False).good_groups}]"
        print("".join(f"{cell:>20}" for cell in cells), flush=True)


if __name__ == "__main__":
    try:
        main()
    except DataError as error:
        sys.exit(f"groups.py: {error}")
