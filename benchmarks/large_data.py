"""Fits to data folders that a memory limit keeps the process from loading. Linux only.

Run as ``python benchmarks/large_data.py``; ``--help`` shows the sizes. The data are generated in
blocks, and written to a temporary folder: dense float32 rows, or CSR. Each is then fitted in a
process of its own, which sets a limit on its memory when Python and the libraries are loaded and a
small fit has been made: from then on it may allocate so many megabytes more, less than the data
have. The limit is RLIMIT_DATA, which counts memory of the process's own and not files that are
mapped for reading. (RLIMIT_AS would count those too, and a limit on resident memory is ignored by
Linux.) The system keeps as much of the files in its cache as it has memory for, and reads the rest
again in each pass.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

import cutplane as cp
from cutplane.io.folders import Batch, Columns, FolderWriter, Source, new_folder, write_manifest

MEGABYTE = 1_000_000
BLOCK = 100_000  # examples that are generated at a time
PER_ROW = 60  # entries in each row of the sparse matrix
SPARSER = 10  # it has so many times the features of the dense one


def dense_batches(rows: int, features: int) -> Iterator[Batch]:
    """Yield rows of normal numbers."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(features, dtype=np.float32) / np.sqrt(features)
    for begin in range(0, rows, BLOCK):
        X = rng.standard_normal((min(BLOCK, rows - begin), features), dtype=np.float32)
        yield Batch(X, np.sign(X @ w + 0.3 * rng.standard_normal(len(X))))


def sparse_batches(rows: int, features: int) -> Iterator[Batch]:
    """Yield rows in CSR; each entry is from a range of features of its own, so that none is twice.

    There are `SPARSER` times as many features as asked for.
    """
    features *= SPARSER
    rng = np.random.default_rng(0)
    w = rng.standard_normal(features, dtype=np.float32) / np.sqrt(PER_ROW)
    width = features // PER_ROW
    for begin in range(0, rows, BLOCK):
        shape = (min(BLOCK, rows - begin), PER_ROW)
        values = rng.standard_normal(shape, dtype=np.float32)
        columns = rng.integers(width, size=shape, dtype=np.int32)
        columns += (width * np.arange(PER_ROW)).astype(np.int32)
        scores = (values * w[columns]).sum(axis=1)
        y = np.sign(scores + 0.3 * rng.standard_normal(len(values)))
        starts = PER_ROW * np.arange(len(values) + 1)
        yield Batch((values.reshape(-1), columns.reshape(-1), starts), y)


KINDS = {"dense": dense_batches, "sparse": sparse_batches}


def write(kind: str, folder: Path, rows: int, features: int) -> cp.DataFolder:
    """Write a data folder."""
    with new_folder(folder, replace=False) as place:
        with closing(FolderWriter(place, np.float32, "generated rows")) as writer:
            for batch in KINDS[kind](rows, features):
                writer.append(batch)
            manifest = writer.complete(Source("generated"), Columns(target="y"))
        write_manifest(place, manifest)
    return cp.open_folder(folder)


def fit(folder: Path, megabytes: int) -> dict[str, object]:
    """Fit a folder, and return what it took; this runs in a process of its own.

    With a limit of 0 the data are loaded, and memory is not limited.
    """
    # The same method in memory and on the disk, where dual ascent would not be chosen.
    model = cp.LinearClassifier(lam=1e-4, method="bmrm-line-search")
    data = cp.open_folder(folder)
    X, y = data.X, data.y
    model.fit(X[:2000], y[:2000]).score(X[:2000], y[:2000])
    if megabytes:
        limit = own_memory() + megabytes * MEGABYTE
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        loaded = X.copy()
    except MemoryError:
        loaded = None
    X = X if megabytes else loaded
    begin, worked = time.perf_counter(), time.process_time()
    model.fit(X, y)
    certificate = model.certificate_
    return {
        "loads": loaded is not None,
        "seconds": time.perf_counter() - begin,
        "processor": time.process_time() - worked,
        # A pass for the scores of each point that was evaluated, one for each plane (but the flat
        # one, which is known), one that looks for infinities before, and one that checks the end.
        "passes": model.evaluations_ + model.history_[-1].planes - 1 + 2,
        "iterations": model.n_iter_,
        "gap": certificate.relative_gap,
        "status": certificate.status,
        "accuracy": float(model.score(X, y)),
    }


def own_memory() -> int:
    """Return the bytes that RLIMIT_DATA would count now."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmData:"))
    return 1024 * int(line.split()[1])


def fit_elsewhere(folder: Path, megabytes: int) -> dict[str, object]:
    """Fit a folder in a new process."""
    command = [sys.executable, __file__, "--fit", str(folder), "--memory", str(megabytes)]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, object] = json.loads(run.stdout)
    return found


def measure(kind: str, rows: int, features: int, megabytes: int) -> dict[str, object]:
    """Write the data, fit them in a process with a limit, and return the row of the table."""
    with tempfile.TemporaryDirectory(prefix="cutplane-large-") as place:
        data = write(kind, Path(place, "data"), rows, features)
        about = {"data": kind, "rows": rows, "features": data.shape[1], "bytes": data.n_bytes}
        return about | fit_elsewhere(data.path, megabytes)


def main() -> None:
    parser = argparse.ArgumentParser(description="Fits to data folders under a memory limit.")
    parser.add_argument("--data", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--features", type=int, default=120)
    parser.add_argument("--memory", type=int, default=500, help="MB that the fit may allocate")
    parser.add_argument("--json", action="store_true", help="one JSON object for each row instead")
    parser.add_argument("--fit", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        print(json.dumps(fit(Path(options.fit), options.memory)))
        return
    if not options.json:
        print(
            f"{'data':>8}{'rows':>12}{'features':>10}{'MB':>7}{'limit':>7}{'can load':>10}"
            f"{'seconds':>9}{'passes':>8}{'iter':>6}{'gap':>9}  status"
        )
    for kind in options.data:
        run = measure(kind, options.rows, options.features, options.memory)
        print(
            json.dumps(run)
            if options.json
            else f"{kind:>8}{run['rows']:>12,}{run['features']:>10}{run['bytes'] / MEGABYTE:>7.0f}"
            f"{options.memory:>7}{'yes' if run['loads'] else 'no':>10}{run['seconds']:>9.1f}"
            f"{run['passes']:>8}{run['iterations']:>6}{run['gap']:>9.1e}  {run['status']}",
            flush=True,
        )


if __name__ == "__main__":
    main()
