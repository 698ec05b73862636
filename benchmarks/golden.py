"""Many small fits, recorded: what a change of the source must not change.

    python benchmarks/golden.py record FILE.json
    python benchmarks/golden.py compare OLD.json NEW.json

A recording has a line for each case of golden_cases.py: how it ended, objective and lower bound,
iterations and evaluations, processor seconds. What is refused, or fails, has its error for status.

A comparison lists what contradicts: other names, endings and errors, bounds of the one recording
that the other violates, evaluations that differ by more than a tenth. If there is any, it ends with
status 1. Times are only told. They are of one thread; what takes longer than some milliseconds is
done twice, and the faster run counts, so that compilation does not.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

SHORT = 0.01  # seconds: what is faster is not measured again, nor told of in comparisons
TENTH, ROUNDING = 0.1, 1e-9


def total(count: Any) -> int:
    return int(sum(count)) if hasattr(count, "__len__") else int(count)


def numbers(found: Any, tol: float) -> dict[str, Any]:
    """Return what a run has found; of several problems the sums, for they are one objective."""
    certificates = next(
        getattr(found, name)
        for name in ("certificate", "certificates", "certificate_")
        if hasattr(found, name)
    )
    several = certificates if isinstance(certificates, list | tuple) else [certificates]
    objective = math.fsum(each.objective for each in several)
    lower = math.fsum(each.lower_bound for each in several)
    work = {
        name: total(getattr(found, name, getattr(found, other, 0)))
        for name, other in (("iterations", "n_iter_"), ("evaluations", "evaluations_"))
    }
    return {
        "status": "+".join(sorted({str(each.status) for each in several})),
        "valid": all(each.valid for each in several),
        "objective": objective,
        "lower_bound": lower,
        "relative_gap": max(objective - lower, 0.0) / max(abs(objective), 1e-300),
        "tol": getattr(found, "tol", tol),
        **work,
    }


def recorded(run: Callable[[], Any], tol: float) -> dict[str, Any]:
    """Return the line of a case."""
    lines, seconds = list[dict[str, Any]](), list[float]()
    while not lines or (len(lines) < 2 and seconds[0] > SHORT):
        begin = time.process_time()
        try:
            line = numbers(run(), tol)
        except Exception as error:
            line = {"status": f"{type(error).__name__}: {error}".split("\n")[0]}
        seconds.append(time.process_time() - begin)
        lines.append(line)
    if lines[0] != lines[-1]:
        lines[0]["status"] += ", differs when repeated"
    return lines[0] | {"seconds": min(seconds)}


def record(path: str) -> None:
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    from golden_cases import TOL, cases  # NumPy reads these when it is imported

    warnings.simplefilter("ignore")
    begin, lines = time.process_time(), dict[str, dict[str, Any]]()
    for name, run in cases():
        if name in lines:
            raise ValueError(f"two cases are called {name}")
        lines[name] = recorded(run, TOL)
        if sys.stderr.isatty():
            print(f"\r{len(lines)} {name:.70}\x1b[K", end="", file=sys.stderr)
    with open(path, "w") as file:
        json.dump(lines, file, indent=1)
    kinds = Counter(
        line["status"] if "objective" in line else line["status"].partition(":")[0]
        for line in lines.values()
    )
    took = math.fsum(line["seconds"] for line in lines.values())
    spent = time.process_time() - begin
    print(f"{len(lines)} cases, {took:.1f} processor seconds, {spent:.1f} in all")
    print(", ".join(f"{kind} {n}" for kind, n in kinds.most_common()))


def contradictions(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """Yield what two lines of a case cannot both be right about."""
    if old["status"] != new["status"]:
        yield f"status {old['status']} -> {new['status']}"
    if "objective" not in old or "objective" not in new:
        return
    both = (old, new)
    largest = max(abs(line["objective"]) for line in both)
    slack = ROUNDING * largest
    if old["valid"] != new["valid"]:
        yield f"valid {old['valid']} -> {new['valid']}"
    if all(line["valid"] for line in both):  # what objectives differ by, then follows from bounds
        if new["objective"] < old["lower_bound"] - slack:
            yield f"objective {new['objective']:.9g} below the old bound {old['lower_bound']:.9g}"
        if new["lower_bound"] > old["objective"] + slack:
            yield f"bound {new['lower_bound']:.9g} above the old {old['objective']:.9g}"
    else:
        share = max(max(line["tol"], line["relative_gap"]) for line in both)
        if not abs(new["objective"] - old["objective"]) <= min(share, TENTH) * largest:
            yield f"objective {old['objective']:.9g} -> {new['objective']:.9g}"
    if abs(new["evaluations"] - old["evaluations"]) > TENTH * old["evaluations"]:
        yield f"evaluations {old['evaluations']} -> {new['evaluations']}"


def compare(old_path: str, new_path: str) -> int:
    """Print what differs; return how many cases do."""
    with open(old_path) as first, open(new_path) as second:
        old, new = json.load(first), json.load(second)
    common = [name for name in old if name in new]
    found = [(name, "missing") for name in old if name not in new]
    found += [(name, "new") for name in new if name not in old]
    found += [(name, what) for name in common for what in contradictions(old[name], new[name])]
    for name, what in found:
        print(f"{name}: {what}")
    same = sum({**old[name], "seconds": 0} == {**new[name], "seconds": 0} for name in common)
    print(f"{len(common)} cases in both, {same} the same to the last bit, {len(found)} findings")
    ratios = sorted(
        (new[name]["seconds"] / old[name]["seconds"], name)
        for name in common
        if min(old[name]["seconds"], new[name]["seconds"]) > SHORT
    )
    if ratios:
        median = statistics.median(ratio for ratio, _ in ratios)
        worst, name = ratios[-1]
        print(f"processor time, new to old: median {median:.2f}, worst {worst:.2f} ({name})")
    return len(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("record", help="run all cases").add_argument("path")
    both = commands.add_parser("compare", help="list what contradicts")
    both.add_argument("old")
    both.add_argument("new")
    given = parser.parse_args()
    if given.command == "compare":
        sys.exit(compare(given.old, given.new) > 0)
    record(given.path)


if __name__ == "__main__":
    main()
