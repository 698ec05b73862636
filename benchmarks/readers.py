"""Megabytes a second of the svmlight reader, beside scikit-learn's ``load_svmlight_file``.

    CUTPLANE_DATA=/path/to/data python benchmarks/readers.py

Processor time (which other programs disturb little), medians of turns: ours on one thread, ours on
two, scikit-learn's. Before, the values of both are compared bit by bit. The files: a9a written
fifty times (if ``CUTPLANE_DATA`` is set), rows of ones, and rows like those of texts, with real
values of 6 and 17 significant digits, and 20 behind the point. Then a process each reads the file,
and tells by how much its peak memory grew (Linux only), beside what the arrays of the result take.
scikit-learn's indices are twice as wide as ours.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from datasets import load
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from cutplane.compute.threads import thread_limit
from cutplane.io import read_svmlight

MEGABYTE = 1_000_000
BLOCK = 1000  # rows that are generated and written many times


def by_us(path: str) -> tuple[Any, Any]:
    data = read_svmlight(path)
    return data.X, data.y


def by_scikit_learn(path: str) -> tuple[Any, Any]:
    X, y = load_svmlight_file(path, zero_based=False)
    return X, y


def rows(n_features: int, n_entries: int, form: Callable[[float], str]) -> bytes:
    """Return a block of rows with so many entries each."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(BLOCK):
        indices = np.sort(rng.choice(n_features, n_entries, replace=False)) + 1
        values = rng.exponential(0.05, n_entries)
        pairs = zip(indices.tolist(), values.tolist(), strict=True)
        label = rng.choice(["-1", "+1"])
        lines.append(f"{label} " + " ".join(f"{i}:{form(v)}" for i, v in pairs) + "\n")
    return "".join(lines).encode()


def files(folder: Path, megabytes: float) -> Iterator[tuple[str, Path]]:
    """Write the files one after the other."""
    path = folder / "data.svm"
    if "CUTPLANE_DATA" in os.environ:
        X, y = load("a9a")[:2]
        dump_svmlight_file(X, y, str(path), zero_based=False)
        path.write_bytes(path.read_bytes() * 50)
        yield "a9a x 50", path
    blocks = {
        "ones": lambda: rows(10_000, 40, lambda value: "1"),
        "6 digits": lambda: rows(60_000, 200, "{:.6g}".format),
        "17 digits": lambda: rows(60_000, 200, "{:.17g}".format),
        "20 after the point": lambda: rows(60_000, 200, "{:.20f}".format),
    }
    for name, make in blocks.items():
        block = make()
        path.write_bytes(block * max(1, round(megabytes * MEGABYTE / len(block))))
        yield name, path


def require_same_bits(path: Path) -> None:
    (X, y), (X_theirs, y_theirs) = by_us(str(path)), by_scikit_learn(str(path))
    assert X.shape == X_theirs.shape
    assert X.data.tobytes() == X_theirs.data.tobytes()
    assert y.tobytes() == y_theirs.tobytes()
    assert np.array_equal(X.indices, X_theirs.indices)
    assert np.array_equal(X.indptr, X_theirs.indptr)


def seconds(read: Callable[[str], Any], path: Path, n_threads: int) -> float:
    """Return the processor time of one call."""
    with thread_limit(n_threads):
        begin = time.process_time()
        read(str(path))
        return time.process_time() - begin


READERS = {"ours": (by_us, 1), "two threads": (by_us, 2), "scikit-learn": (by_scikit_learn, 1)}


def peak(name: str, path: Path) -> str:
    """Return the peak memory that reading adds in a process of its own, and that of the result."""
    command = [sys.executable, __file__, "--peak-of", name, str(path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def print_peak(name: str, path: str, warm: str) -> None:
    read, n_threads = READERS[name]
    Path(warm).write_text("1 1:1\n")
    read(warm)  # imports and compiles
    before = highest_memory()
    with thread_limit(n_threads):
        X, y = read(path)
    added = highest_memory() - before
    result = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes
    print(f"{added / MEGABYTE:.0f} / {result / MEGABYTE:.0f}")


def highest_memory() -> int:
    """Return the peak of resident memory in bytes; that of `resource` begins with the parent's."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def print_table(megabytes: float, turns: int) -> None:
    """Measure all readers on all files."""
    with tempfile.TemporaryDirectory() as folder:
        columns = "".join(f"{name:>14}" for name in READERS)
        print(
            f"{'MB/s of processor time':<24}{'MB':>6}{columns}{'ratio':>8}   MB at peak / of result"
        )
        for name, path in files(Path(folder), megabytes):
            require_same_bits(path)
            taken: dict[str, list[float]] = {reader: [] for reader in READERS}
            for _ in range(turns):
                for reader, (read, n_threads) in READERS.items():
                    taken[reader].append(seconds(read, path, n_threads))
            size = path.stat().st_size / MEGABYTE
            speeds = [size / statistics.median(taken[reader]) for reader in READERS]
            shown = "".join(f"{speed:>14.0f}" for speed in speeds)
            peaks = ", ".join(peak(reader, path) for reader in READERS)
            print(f"{name:<24}{size:>6.0f}{shown}{speeds[0] / speeds[-1]:>8.1f}   {peaks}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=50, help="size of generated files")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--peak-of", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak_of:
        with tempfile.TemporaryDirectory() as folder:
            print_peak(*options.peak_of, warm=f"{folder}/warm.svm")
        return
    print_table(options.megabytes, options.turns)


if __name__ == "__main__":
    main()
