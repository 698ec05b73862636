"""Fits to memory-mapped data that a memory limit keeps the process from loading. Linux only.

Run as ``python benchmarks/large_data.py``; ``--help`` shows the sizes. The data are generated in
blocks, and written to a temporary folder: a dense float32 array, and the three arrays of a CSR
matrix. Each is then fitted in a process of its own, which sets a limit on its memory when Python
and the libraries are loaded and a small fit has been made: from then on it may allocate so many
megabytes more, less than the data have. The limit is RLIMIT_DATA, which counts memory of the
process's own and not files that are mapped for reading. (RLIMIT_AS would count those too, and a
limit on resident memory is ignored by Linux.) The system keeps as much of the files in its cache as
it has memory for, and reads the rest anew in each pass.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse
from numpy.lib.format import open_memmap

import cutplane as cp

MEGABYTE = 1_000_000
BLOCK = 100_000  # examples that are generated at a time
PER_ROW = 60  # entries in each row of the sparse matrix
SPARSER = 10  # it has so many times the features of the dense one


def write_dense(folder, rows, features):
    """Write ``X.npy`` and ``y.npy``."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(features, dtype=np.float32) / np.sqrt(features)
    X = open_memmap(folder / "X.npy", mode="w+", dtype=np.float32, shape=(rows, features))
    y = np.empty(rows, dtype=np.float32)
    for begin in range(0, rows, BLOCK):
        block = X[begin : begin + BLOCK]
        block[:] = rng.standard_normal(block.shape, dtype=np.float32)
        y[begin : begin + BLOCK] = np.sign(block @ w + 0.3 * rng.standard_normal(len(block)))
    np.save(folder / "y.npy", y)


def write_sparse(folder, rows, features):
    """Write ``data.npy``, ``indices.npy``, ``indptr.npy`` and ``y.npy``."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(features, dtype=np.float32) / np.sqrt(PER_ROW)
    shape = (rows, PER_ROW)
    data = open_memmap(folder / "data.npy", mode="w+", dtype=np.float32, shape=(rows * PER_ROW,))
    indices = open_memmap(folder / "indices.npy", mode="w+", dtype=np.int32, shape=data.shape)
    y = np.empty(rows, dtype=np.float32)
    for begin in range(0, rows, BLOCK):
        values, columns = (a.reshape(shape)[begin : begin + BLOCK] for a in (data, indices))
        values[:] = rng.standard_normal(values.shape, dtype=np.float32)
        # Each feature of a row is from a range of its own, so that none comes twice.
        width = features // PER_ROW
        columns[:] = rng.integers(width, size=values.shape, dtype=np.int32)
        columns += (width * np.arange(PER_ROW)).astype(np.int32)
        scores = (values * w[columns]).sum(axis=1)
        y[begin : begin + BLOCK] = np.sign(scores + 0.3 * rng.standard_normal(len(values)))
    np.save(folder / "indptr.npy", (PER_ROW * np.arange(rows + 1)).astype(np.int32))
    np.save(folder / "y.npy", y)


def open_dense(folder, mmap_mode):
    """Return the dense matrix, mapped or loaded."""
    return np.load(folder / "X.npy", mmap_mode=mmap_mode)


def open_sparse(folder, mmap_mode):
    """Return the CSR matrix, its arrays mapped or loaded."""
    arrays = [
        np.load(folder / f"{name}.npy", mmap_mode=mmap_mode)
        for name in ("data", "indices", "indptr")
    ]
    return scipy.sparse.csr_array(tuple(arrays), copy=False)


KINDS = {"dense": (write_dense, open_dense), "sparse": (write_sparse, open_sparse)}


def fit_within_limit(kind, folder, megabytes):
    """Fit under a memory limit, and return what it took; this runs in a process of its own."""
    _, open_data = KINDS[kind]
    # Not dual ascent, which visits the rows of sparse data in random order: a mapped file would be
    # read page by page.
    model = cp.LinearClassifier(lam=1e-4, method="bmrm-line-search")
    X, y = open_data(folder, "r"), np.load(folder / "y.npy")
    model.fit(X[:2000], y[:2000]).score(X[:2000], y[:2000])
    limit = own_memory() + megabytes * MEGABYTE
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        open_data(folder, None)
        loads = True
    except MemoryError:
        loads = False
    begin = time.perf_counter()
    model.fit(X, y)
    certificate = model.certificate_
    return {
        "loads": loads,
        "seconds": time.perf_counter() - begin,
        # A pass for the scores of each point that was evaluated, one for each plane (but the flat
        # one, which is known), one that looks for infinities before, and one that checks the end.
        "passes": model.evaluations_ + model.history_[-1].planes - 1 + 2,
        "iterations": model.n_iter_,
        "gap": certificate.relative_gap,
        "status": certificate.status,
        "accuracy": float(model.score(X, y)),
    }


def own_memory():
    """Return the bytes that RLIMIT_DATA would count now."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmData:"))
    return 1024 * int(line.split()[1])


def measure(kind, rows, features, megabytes):
    """Write the data, fit them in a process with a limit, and return the row of the table."""
    write, _ = KINDS[kind]
    features *= SPARSER if kind == "sparse" else 1
    with tempfile.TemporaryDirectory(prefix="cutplane-large-") as folder:
        write(Path(folder), rows, features)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        command = [sys.executable, __file__, "--fit", kind, folder, "--memory", str(megabytes)]
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return {"data": kind, "rows": rows, "features": features, "bytes": size} | json.loads(
        run.stdout
    )


def main():
    parser = argparse.ArgumentParser(description="Fits to memory-mapped data under a memory limit.")
    parser.add_argument("--data", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--features", type=int, default=120)
    parser.add_argument("--memory", type=int, default=500, help="MB that the fit may allocate")
    parser.add_argument("--json", action="store_true", help="one JSON object for each row instead")
    parser.add_argument("--fit", nargs=2, metavar=("KIND", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        kind, folder = options.fit
        print(json.dumps(fit_within_limit(kind, Path(folder), options.memory)))
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
