"""What the benchmarks share about time: repeats, cold starts, and the machine."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from threadpoolctl import threadpool_info

from cutplane.compute.threads import default_threads

T = TypeVar("T")

PACKAGES = ("cutplane", "numpy", "scipy", "numba", "scikit-learn")


def best_of_few(work: Callable[[], T]) -> tuple[float, T]:
    """Return seconds and result of the fastest of a few calls: the longer, the fewer."""
    seconds, result = stopwatch(work)
    repeats = 2 if seconds < 2.0 else 1 if seconds < 5.0 else 0
    for _ in range(repeats):
        again = stopwatch(work)
        if again[0] < seconds:
            seconds, result = again
    return seconds, result


@dataclass(frozen=True)
class Times:
    """Seconds of several calls: by the clock, and of all processors together."""

    clock: list[float]
    processor: list[float]

    @property
    def median(self) -> float:
        """The middle one by the clock."""
        return statistics.median(self.clock)

    @property
    def spread(self) -> float:
        """How far the middle half reaches, as a share of the median."""
        first, _, third = statistics.quantiles(self.clock, n=4)
        return (third - first) / self.median

    def ratio(self, to: Times) -> tuple[float, float]:
        """Return by how much the other one is faster: by the clock, and in processor time."""
        processor = statistics.median(self.processor) / statistics.median(to.processor)
        return self.median / to.median, processor


def in_turns(works: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, Times]:
    """Time each of several works once in every round, so that a busy machine is busy for all."""
    times = {name: Times([], []) for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            clock, processor = time.perf_counter(), time.process_time()
            work()
            times[name].clock.append(time.perf_counter() - clock)
            times[name].processor.append(time.process_time() - processor)
    return times


def stopwatch(work: Callable[[], T]) -> tuple[float, T]:
    """Return seconds and result of one call."""
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def describe_machine() -> dict[str, str]:
    """Return what a reader needs to judge the timings."""
    versions = [f"{package} {version(package)}" for package in PACKAGES]
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": f"{_cpu_model()}, {len(os.sched_getaffinity(0))} cores",
        "system": f"{platform.system()} {platform.machine()}",
        "threads": _describe_threads(),
        "versions": ", ".join([f"Python {platform.python_version()}", *versions]),
        "load": machine_load(),
    }


def machine_load() -> str:
    """Return how many processes wanted a core, in the mean of the last 1, 5 and 15 minutes."""
    return " ".join(f"{mean:.2f}" for mean in os.getloadavg())


def _describe_threads() -> str:
    # Libraries bring their own copies of OpenBLAS and OpenMP; one line each says who uses what.
    pools = [
        f"{pool['internal_api']} {pool['num_threads']} ({Path(pool['filepath']).parent.name})"
        for pool in threadpool_info()
    ]
    return ", ".join([f"cutplane {default_threads()}", *pools])


def _cpu_model() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


FIRST_FITS = """
import json, time
start = time.perf_counter()
from cutplane import LinearClassifier
imported = time.perf_counter()

import numpy as np
from scipy.sparse import csr_array
rng = np.random.default_rng(0)
X = csr_array(rng.random((20_000, 100)) < 0.1).astype(np.float64)
y = np.sign(X @ rng.standard_normal(100) + rng.standard_normal(20_000))

def fit():
    begin = time.perf_counter()
    LinearClassifier(lam=1e-4, fit_intercept=False).fit(X, y)
    return time.perf_counter() - begin

print(json.dumps({"import": imported - start, "first fit": fit(), "second fit": fit()}))
"""


def measure_cold_start() -> dict[str, dict[str, float]]:
    """Time the first fits of fresh processes: with an empty Numba cache, then with a filled one."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        return {name: _first_fits(environment) for name in ("empty cache", "filled cache")}


def _first_fits(environment: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, "-c", FIRST_FITS]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)
