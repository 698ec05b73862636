"""Fits to data folders whose files change meanwhile, as a program: a wrong index may end it.

Called with lists of methods, losses, changes, files and seeds, it writes one line for each
combination: what the certificate claims, and what is true.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import scipy.sparse

import cutplane as cp

ROWS, COLUMNS, LAM = 120, 12, 0.01
TOL = 1e-4


@dataclass(frozen=True)
class Arrays:
    """The arrays of a problem, by the names of their files."""

    files: dict[str, np.ndarray]

    def write(self, folder: Path) -> None:
        for name, array in self.files.items():
            np.save(folder / f"{name}.npy", array)

    def mapped(self, folder: Path) -> Arrays:
        names = self.files
        return Arrays({k: np.load(folder / f"{k}.npy", mmap_mode="r") for k in names})

    def risk(self, loss: str) -> cp.ScoredRisk:
        files = self.files
        if "X" in files:
            X = files["X"]
        else:
            entries = files["values"], files["indices"], files["indptr"]
            X = scipy.sparse.csr_array(entries, shape=(ROWS, COLUMNS), copy=False)
        loss = {"hinge": cp.Hinge, "logistic": cp.Logistic}[loss]()
        return cp.ScoredRisk(X, files["y"], loss, weights=files["weights"])


def arrays_of(seed: int, sparse: bool) -> Arrays:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < 0.5)
    y = np.where(X @ rng.normal(size=COLUMNS) + rng.normal(size=ROWS) > 0, 1.0, -1.0)
    rows = scipy.sparse.csr_array(X)
    features = {"values": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    targets = {"y": y, "weights": rng.uniform(0.5, 2.0, ROWS)}
    return Arrays((features if sparse else {"X": X}) | targets)


def in_place(path: Path, change) -> None:
    array = np.load(path, mmap_mode="r+")
    change(array)
    array.flush()


def scaled(factor):
    def change(path: Path) -> None:
        def scale(array: np.ndarray) -> None:
            # Columns of integers stay columns, but others.
            if array.dtype.kind == "i" and path.stem == "indices":
                array[:] = (array * int(factor + 2)) % COLUMNS
            else:
                array[:] = (array * factor).astype(array.dtype)

        in_place(path, scale)

    return change


def swapped(path: Path) -> None:
    """Exchange two numbers that differ, by writing to the file."""
    array = np.load(path)
    flat = array.reshape(-1)
    other = int(np.flatnonzero(flat != flat[1])[-1])
    flat[[1, other]] = flat[[other, 1]]
    content = np.lib.format.magic(1, 0)
    assert path.read_bytes().startswith(content)
    with open(path, "r+b") as file:
        file.seek(-array.nbytes, os.SEEK_END)
        file.write(array.tobytes())


def out_of_range(path: Path) -> None:
    def spoil(array: np.ndarray) -> None:
        flat = array.reshape(-1)
        flat[::2] = 2**30 if array.dtype.kind == "i" else np.nan
        flat[1::2] = -(2**30) if array.dtype.kind == "i" else np.inf

    in_place(path, spoil)


def truncated(path: Path) -> None:
    os.truncate(path, 64)


def replaced(path: Path) -> None:
    new = path.with_name("new.npy")
    np.save(new, np.load(path)[::-1].copy())
    os.replace(new, path)


def removed(path: Path) -> None:
    path.unlink()


def with_old_times(change):
    def hidden(path: Path) -> None:
        found = path.stat()
        change(path)
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))

    return hidden


class Back:
    """Scale, and scale back two iterations later: at the end everything is as it was."""

    def __init__(self) -> None:
        self.content = None

    def __call__(self, path: Path) -> None:
        if self.content is None:
            self.content = path.read_bytes()
            scaled(0.2)(path)
        else:
            with open(path, "r+b") as file:
                file.write(self.content)


CHANGES = {
    "scaled by 0.3": lambda: scaled(0.3),
    "scaled by 0.9": lambda: scaled(0.9),
    "scaled by 3": lambda: scaled(3.0),
    "swapped": lambda: swapped,
    "out of range": lambda: out_of_range,
    "truncated": lambda: truncated,
    "replaced": lambda: replaced,
    "removed": lambda: removed,
    "scaled, old times": lambda: with_old_times(scaled(0.3)),
    "swapped, old times": lambda: with_old_times(swapped),
    "and back": Back,
}


@cache
def best_of(seed: int, loss: str) -> float:
    """Return the least objective, from above."""
    return cp.minimize(arrays_of(seed, sparse=False).risk(loss), cp.L2(LAM), tol=1e-8).objective


def claims(method: str, loss: str, change: str, seed: int, name: str, at: int) -> dict:
    """Fit while a file changes in some iteration, and compare the claims with the truth."""
    before = arrays_of(seed, sparse=name != "X")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.npy"
        before.write(Path(folder))
        changes, done = CHANGES[change](), []

        def at_an_iteration(state: cp.State) -> None:
            if state.iteration in (at, at + 2) and (not done or isinstance(changes, Back)):
                changes(path)
                done.append(state.iteration)

        risk = before.mapped(Path(folder)).risk(loss)
        result = cp.minimize(
            risk, cp.L2(LAM), method=method, tol=TOL, max_iter=300, callbacks=[at_an_iteration]
        )
    known, best = before.risk(loss), best_of(seed, loss)
    true = known.at(result.w).value + cp.L2(LAM).value(result.w)
    return {
        "case": [method, loss, change, seed, name, at],
        "changed": bool(done),
        "valid": result.certificate.valid,
        "status": str(result.status),
        "reason": result.certificate.reason,
        "lower": result.certificate.lower_bound,
        "objective": result.certificate.objective,
        "true": true,
        "best": best,
    }


def main(*lists: str) -> None:
    for method, loss, change, name, seed in itertools.product(*(each.split(";") for each in lists)):
        line = claims(method, loss, change, int(seed), name, 1 + int(seed) % 6)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
