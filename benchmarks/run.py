"""Measure beside other libraries, keep the figures as JSON, and write docs/benchmarks.md of them.

    CUTPLANE_DATA=FOLDER python benchmarks/run.py            # all parts, then the page
    CUTPLANE_DATA=FOLDER python benchmarks/run.py hinge
    python benchmarks/run.py --page                          # only the page, from results/*.json

Each part has its own file in ``results``, which says when and on what machine it was measured. A
part that did not run keeps the file of the last time; one that never ran is not on the page.

Both sides minimize the same objective. Ours ends at a proven relative gap of 1e-3; the other
library gets the loosest tolerance of a sweep whose result is within 1e-3 of the optimum. Works are
done in turns; times are medians of processor seconds, and a ratio above 1 is in our favor.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "benchmarks.md"
ROUNDS = 3
NEAR = 1e-3  # of the optimum
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)

Row = dict[str, Any]
Objective = Callable[[Any], float]


def compare(
    data: str, ours: Callable[[], Any], peer_name: str, peer: Callable[[float], Any],
    objective: Objective, least: float,
) -> Row:  # fmt: skip
    """Return a row: our fit beside the loosest fit of a peer that comes near the optimum."""
    from timing import in_turns

    ours()  # compiles
    near = (tol for tol in TOLERANCES if objective(peer(tol)) <= least * (1.0 + NEAR))
    tol = next(near, None)
    if tol is None:
        return {"data": data, "peer name": peer_name, "note": "never came within 1e-3"}
    times = in_turns({"ours": ours, "peer": lambda: peer(tol)}, rounds=ROUNDS)
    seconds = [statistics.median(times[name].processor) for name in ("ours", "peer")]
    return {
        "data": data, "peer name": f"{peer_name}, tol={tol:g}", "ours": seconds[0],
        "peer": seconds[1], "unit": "s", "ratio": seconds[1] / seconds[0],
    }  # fmt: skip


def of_two_classes(loss: Any, make_peer: Callable[[float, float], Any], name: str) -> Iterator[Row]:
    """Compare fits of two classes without an intercept, at C = 1."""
    from datasets import load

    import cutplane as cp

    for data in ("a9a", "ijcnn1", "reuters_lasvm"):
        X, y = load(data)
        lam = 1.0 / len(y)
        risk = cp.ScoredRisk(X, y, loss, intercept=False)
        least = cp.minimize(risk, cp.L2(lam), method=cp.level(), tol=1e-4).objective

        def objective(model: Any, risk: Any = risk, lam: float = lam) -> float:
            w = np.ravel(model.coef_)
            return float(risk.at(w).value + lam / 2 * w @ w)

        def ours(X: Any = X, y: Any = y, lam: float = lam) -> Any:
            return cp.LinearClassifier(loss, lam=lam, fit_intercept=False, tol=1e-3).fit(X, y)

        def peer(tol: float, X: Any = X, y: Any = y) -> Any:
            return make_peer(tol, 1.0).fit(X, y)

        yield compare(f"{data}, C = 1", ours, name, peer, objective, least)


def hinge() -> Iterator[Row]:
    """Linear support vector machines."""
    from sklearn.svm import LinearSVC

    import cutplane as cp

    def make(tol: float, C: float) -> Any:
        return LinearSVC(loss="hinge", C=C, tol=tol, fit_intercept=False, max_iter=20_000)

    yield from of_two_classes(cp.Hinge(), make, "LinearSVC")


def logistic() -> Iterator[Row]:
    """Logistic regression."""
    from sklearn.linear_model import LogisticRegression

    import cutplane as cp

    def make(tol: float, C: float) -> Any:
        return LogisticRegression(C=C, tol=tol, fit_intercept=False, max_iter=5000)

    yield from of_two_classes(cp.Logistic(), make, "LogisticRegression")


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    function.__name__: function for function in (hinge, logistic)
}


def measure(part: str) -> None:
    """Run a part, and keep its rows with machine and date."""
    from timing import describe_machine

    rows = []
    for row in PARTS[part]():
        rows.append(row)
        print(part, row, flush=True)
    title = (PARTS[part].__doc__ or part).splitlines()[0].rstrip(".")
    content = {
        "title": title, "command": f"python benchmarks/run.py {part}",
        "machine": describe_machine(), "rows": rows,
    }  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{part}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def page(folder: Path) -> str:
    """Return the page of all results in a folder; no figure is from anywhere else."""
    text = [
        "# Benchmarks",
        "This page is written by `python benchmarks/run.py --page` from `benchmarks/results`; do "
        "not edit it. Works are done in turns, and seconds are medians of processor time. A ratio "
        "above 1 is in favor of cutplane. Other benchmarks, which print tables of their own, are "
        "listed in [benchmarks/README.md](../benchmarks/README.md); why what is there is there, "
        "in [the decisions](index.md#decisions).",
    ]
    for file in sorted(folder.glob("*.json")):
        found = json.loads(file.read_text(encoding="utf-8"))
        machine = found["machine"]
        text.append(f"## {found['title']}")
        text.append(
            f"`{found['command']}`, {machine['date']}, {machine['cpu']}, load {machine['load']} "
            f"(1, 5 and 15 minutes); {machine['versions']}."
        )
        lines = ["| what | cutplane | other | ratio | other is |", "|---|---|---|---|---|"]
        lines += [_line(row) for row in found["rows"]]
        text.append("\n".join(lines))
    return "\n\n".join(text) + "\n"


def _line(row: Row) -> str:
    what = ", ".join(filter(None, [row.get("part"), row["data"]]))
    if "note" in row:
        return f"| {what} | | | | {row['peer name']}: {row['note']} |"
    unit = row["unit"]
    numbers = [f"{row[side]:.3g} {unit}" for side in ("ours", "peer")]
    return f"| {what} | {numbers[0]} | {numbers[1]} | {row['ratio']:.2f} | {row['peer name']} |"


def main() -> None:
    """Measure what is asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--page", action="store_true", help="measure nothing")
    options = parser.parse_args()
    unknown = set(options.parts) - PARTS.keys()
    if unknown:
        sys.exit(f"run.py: unknown parts {', '.join(sorted(unknown))}")
    warnings.simplefilter("ignore")  # peers that end at a loose tolerance say so
    for part in [] if options.page else options.parts or PARTS:
        measure(part)
    PAGE.write_text(page(RESULTS), encoding="utf-8")


if __name__ == "__main__":
    main()
