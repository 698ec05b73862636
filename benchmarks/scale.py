"""Data that outgrow memory: how fast they are read, what a fit from the disk or a cluster costs.

    CUTPLANE_DATA=/path/to/data python benchmarks/scale.py            # all parts
    CUTPLANE_DATA=/path/to/data python benchmarks/scale.py readers convert memory

readers   megabytes a second of the svmlight reader beside scikit-learn's (`readers.py`); the target
          is 5 times as many on one core.
convert   megabytes a second of processor time, on one thread, from a file to a data folder.
memory    a fit to 4 GB that may allocate 1 GB, beside the same fit to data that were loaded
          (`large_data.py`), page cache warm; the target is 1.5 times the time. In turns, medians,
          by the clock and in processor time.
cluster   two workers with a thread each beside one process with two threads, covtype ten times
          over; the target is 1.3 times the time, and the same bits.
rounds    what an iteration costs on two workers with 10,000 features and next to no rows, and how
          often members wait for a sum in it; the target is 20 ms.
simulate  what `simulation.py` says of fits on one and two workers, beside what they take.
dask_ml   the same objective by dask-ml on the same cluster; the target is 5 times as fast. Left out
          where dask-ml is not installed.

Medians, with the least and the largest of the turns in brackets.
"""

import argparse
import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import clusters
import large_data
import numpy as np
import readers

import cutplane as cp
from cutplane.compute.threads import thread_limit


def run_readers(options: argparse.Namespace) -> None:
    readers.print_table(options.megabytes, options.turns)


def run_convert(options: argparse.Namespace) -> None:
    import pyarrow as pa
    from pyarrow import csv, parquet

    print(f"{'MB/s of processor time':<24}{'MB':>6}{'folder':>8}{'MB/s':>8}")
    numbers = np.random.default_rng(0).standard_normal((int(options.megabytes * 6000), 20))
    table = pa.table({f"x{j}": column for j, column in enumerate(numbers.astype(np.float32).T)})
    with tempfile.TemporaryDirectory() as place:
        csv.write_csv(table, f"{place}/table.csv")
        parquet.write_table(table, f"{place}/table.parquet")
        block = readers.rows(60_000, 200, "{:.6g}".format)
        text = block * max(1, round(options.megabytes * 1e6 / len(block)))
        Path(place, "data.svm").write_bytes(text)
        for name in ("data.svm", "table.csv", "table.parquet"):
            path = Path(place, name)
            taken = []
            for _ in range(options.turns + 1):  # the first one compiles and imports
                begin = time.process_time()
                with thread_limit(1):
                    folder = cp.convert(path, f"{place}/d", dtype="float32", force=True)
                taken.append(time.process_time() - begin)
            size = path.stat().st_size / 1e6
            speed = size / statistics.median(taken[1:])
            print(f"{path.suffix:<24}{size:>6.0f}{folder.n_bytes / 1e6:>8.0f}{speed:>8.0f}")


def run_memory(options: argparse.Namespace) -> None:
    print(
        f"{'data':>8}{'MB':>7}{'limit':>7}{'loaded':>10}{'limited':>10}{'ratio':>7}"
        f"{'loaded':>12}{'limited':>10}{'ratio':>7}  status"
    )
    print(f"{'':>22}{'seconds by the clock':>27}{'processor seconds':>29}")
    for kind in large_data.KINDS:
        with tempfile.TemporaryDirectory(prefix="cutplane-scale-") as place:
            rows = round(1e6 * options.data / (4.08 * 120))  # 4 bytes a number, 8 a target
            if kind == "sparse":
                rows = round(1e6 * options.data / (8.2 * large_data.PER_ROW))
            data = large_data.write(kind, Path(place, "data"), rows, 120)
            # What was just written is in the system's cache.
            turns = [
                (large_data.fit_elsewhere(data.path, 0), _limited(data.path, options.limit))
                for _ in range(options.turns)
            ]
            cells = ""
            for clock in ("seconds", "processor"):
                loaded, limited = (
                    statistics.median(turn[which][clock] for turn in turns) for which in (0, 1)
                )
                cells += f"{loaded:>12.1f}{limited:>10.1f}{limited / loaded:>7.2f}"
            status = {run["status"] for turn in turns for run in turn}
            print(
                f"{kind:>8}{data.n_bytes / 1e6:>7.0f}{options.limit:>7}{cells[2:]}"
                f"  {', '.join(sorted(status))}",
                flush=True,
            )


def _limited(folder: Path, megabytes: int) -> dict[str, object]:
    run = large_data.fit_elsewhere(folder, megabytes)
    assert not run["loads"], "the limit is none"
    return run


def run_cluster(options: argparse.Namespace) -> None:
    clusters.print_same_work(options.copies, options.turns)


def run_rounds(options: argparse.Namespace) -> None:
    clusters.print_rounds(10_000)


def run_simulate(options: argparse.Namespace) -> None:
    clusters.print_simulated(options.turns)


def run_dask_ml(options: argparse.Namespace) -> None:
    if importlib.util.find_spec("dask_ml") is None:
        print("dask-ml is not installed")
        return
    clusters.print_dask_ml(max(options.copies // 10, 1))


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "readers": run_readers,
    "convert": run_convert,
    "memory": run_memory,
    "cluster": run_cluster,
    "rounds": run_rounds,
    "simulate": run_simulate,
    "dask_ml": run_dask_ml,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="by default all")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--megabytes", type=float, default=50, help="readers: size of the files")
    parser.add_argument("--data", type=float, default=4000, help="memory: MB of the data")
    parser.add_argument("--limit", type=int, default=1000, help="memory: MB a fit may allocate")
    parser.add_argument("--copies", type=int, default=10, help="cluster: times covtype")
    options = parser.parse_args()
    for name in options.parts or PARTS:
        print(f"== {name}")
        PARTS[name](options)


if __name__ == "__main__":
    main()
