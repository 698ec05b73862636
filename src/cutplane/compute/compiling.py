"""What compilation costs: told while it goes on, and not counted as the time of a fit.

A kernel that is not in the cache is compiled when it is first called, once for all processes; one
that is in the cache is read from there, once in each process. The clock stands still meanwhile,
whichever thread it is. Of kernels that others call, the outermost counts.
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import entrypoints, event

_log = logging.getLogger("cutplane.compiling")

# Processor seconds that a first fit of a classifier spends on it, rounded (docs/why-it-is-fast.md).
FIRST_FIT = 6


class _Watch(event.Listener):
    """Hears of each compilation when it begins, and when it ends.

    Attributes
    ----------
    seconds : float
        In which calls of our kernels waited for them: to be compiled, read or written.
    n_kernels : int
        How many were compiled, without those that only kernels call.
    """

    def __init__(self) -> None:
        self.n_kernels = 0
        self._seconds = 0.0
        self._lock = threading.Lock()
        self._waiting = 0  # calls that wait for their kernel
        self._since = 0.0
        self._depth = 0
        self._files: set[str] = set()
        self._collects: bool | None = None

    @property
    def seconds(self) -> float:
        """What it took so far."""
        with self._lock:
            running = time.perf_counter() - self._since if self._waiting else 0.0
            return self._seconds + running

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """Leave out the time of a block; of blocks of several threads, that of all together."""
        with self._lock:
            if self._waiting == 0:
                self._since = time.perf_counter()
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
                if self._waiting == 0:
                    self._seconds += time.perf_counter() - self._since

    def on_start(self, event: Any) -> None:
        """Say what is compiled."""
        self._depth += 1
        # Classes that other libraries compile have no module.
        file = event.data["dispatcher"].py_func.__module__ or ""
        if self._depth > 1 or not file.startswith("cutplane."):
            return
        self._tell(file.removeprefix("cutplane."))
        # Compilers make so many objects that looking for cycles takes a tenth of their time.
        self._collects = gc.isenabled()
        gc.disable()

    def on_end(self, event: Any) -> None:
        """Count the kernel."""
        self._depth -= 1
        if self._depth == 0 and self._collects is not None:
            self.n_kernels += 1
            if self._collects:
                gc.enable()
            self._collects = None

    def _tell(self, file: str) -> None:
        """Log the first kernel of each file; a person who waits is told of the first of all."""
        if file in self._files:
            return
        if self._files:
            _log.info("compiling %s", file)
        else:
            waits = sys.stderr is not None and sys.stderr.isatty()
            _log.log(
                logging.WARNING if waits or "ipykernel" in sys.modules else logging.INFO,
                "compiling, once, about %d s for a first fit: %s",
                FIRST_FIT,
                file,
            )
        self._files.add(file)


# Else the first call of a kernel looks for Numba's extensions, within the time of a fit.
entrypoints.init_all()  # type: ignore[no-untyped-call]
watch = _Watch()
event.register("numba:compile", watch)  # type: ignore[no-untyped-call]


def clock() -> float:
    """Return seconds since some moment, without those in which kernels were made ready."""
    seconds = watch.seconds  # first, so that the clock never goes back
    return time.perf_counter() - seconds
