"""Compiled loops: how they are compiled, kept on disk and timed.

What compilation costs: told while it goes on, and not counted as the time of a fit.

A kernel that is not in the cache is compiled when it is first called, once for all processes; one
that is in the cache is read from there, once in each process. The clock stands still meanwhile,
whichever thread it is. Of kernels that others call, the outermost counts.

Numba's ``njit``, with a cache that a bad file cannot break.

Numba keeps compiled kernels in files, and fails with whatever error reading them gives: for a file
that is cut short, empty or not its own, for a folder that lost its permissions, for a full disk. A
cache is there to save time. So a file that cannot be used is thrown away and written again, and
where nothing can be written, kernels are compiled once in every process.

Rows asked for before their turn, for kernels that visit them in random order.

Memory takes its time, and a row that nobody expects is waited for. To ask for the rows that come
next costs a few instructions, changes no result, and cannot fail.
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import entrypoints, event
from numba.core.caching import FunctionCache
from numba.extending import intrinsic
from numpy.typing import NDArray

_compiling_log = logging.getLogger("cutplane.compiling")

# Processor seconds that a first fit of a classifier spends on it, rounded (docs/why-it-is-fast.md).
FIRST_FIT = 8


class _Watch(event.Listener):
    """Hears of each compilation when it begins, and when it ends.

    Attributes
    ----------
    seconds : float
        In which calls of our kernels have waited for them: to be compiled, read or written.
    since : float
        When those that wait now began to, if there are any.
    waiting : int
        How many these are.
    lock : Lock
        For these three.
    n_kernels : int
        How many were compiled, without those that only kernels call.
    """

    def __init__(self) -> None:
        self.n_kernels = 0
        self.seconds, self.since, self.waiting = 0.0, 0.0, 0
        self.lock = threading.Lock()
        self._depth = 0
        self._files: set[str] = set()
        self._collects: bool | None = None

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """Leave out the time of a block; of blocks of several threads, that of all together."""
        with self.lock:
            if self.waiting == 0:
                self.since = time.perf_counter()
            self.waiting += 1
        try:
            yield
        finally:
            with self.lock:
                self.waiting -= 1
                if self.waiting == 0:
                    self.seconds += time.perf_counter() - self.since

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
            _compiling_log.info("compiling %s", file)
        else:
            waits = sys.stderr is not None and sys.stderr.isatty()
            _compiling_log.log(
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
    with watch.lock:
        now = watch.since if watch.waiting else time.perf_counter()
        return now - watch.seconds


_log = logging.getLogger("cutplane")

F = TypeVar("F", bound=Callable[..., Any])

# Leave to reorder sums (that is what vectorizes them), but no assumption that numbers are finite.
REORDER = {"reassoc", "contract", "nsz"}


class _SturdyCache(FunctionCache):
    """The cache of a kernel, which is made again if it cannot be used."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was compiled for a signature, or None."""
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception as error:
            self._start_anew(error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled for a signature, if possible."""
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except Exception as error:
            self._start_anew(error)

    def _start_anew(self, error: Exception) -> None:
        _log.info("the cache of %s cannot be used: %r", self._name, error)
        with suppress(OSError):
            self.flush()  # type: ignore[no-untyped-call]


def njit(
    *,
    cache: bool = False,
    nogil: bool = False,
    error_model: Literal["python", "numpy"] = "python",
    fastmath: bool | set[str] = False,
    inner: bool = False,
    inlined: bool = False,
) -> Callable[[F], F]:
    """Return Numba's decorator with these options.

    An ``inner`` kernel is called by other kernels only, and compiled, and kept in the cache, as a
    part of these. One that is ``inlined`` is copied to wherever a kernel calls it: LLVM leaves
    larger ones out of line, where each array takes seven arguments on the stack, which is more
    than the work on a short row.
    """
    # Not among the options that njit's types know; nobody calls these kernels from C.
    wrappers: dict[str, Any] = {
        "no_cfunc_wrapper": True,
        "no_cpython_wrapper": inner,
        "forceinline": inlined,
    }
    compile_later = numba.njit(
        nogil=nogil,
        error_model=error_model,
        fastmath=fastmath,
        **wrappers,
    )

    def decorate(function: F) -> F:
        kernel: Any = compile_later(function)
        if kernel is function:  # NUMBA_DISABLE_JIT
            return kernel
        # What Numba calls where it has nothing yet for arguments of these types.
        kernel._compile_for_args = watch.left_out()(kernel._compile_for_args)
        if cache and not inner:
            with suppress(RuntimeError):  # there may be no folder to write to
                kernel._cache = _SturdyCache(function)  # type: ignore[no-untyped-call]
        return kernel  # type: ignore[no-any-return]

    return decorate


_FOR_READING, _IN_ALL_CACHES, _DATA = 0, 3, 1
_BYTE, _INT = ir.IntType(8), ir.IntType(32)


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Generate the instruction."""
    array_type, index_type = signature.args
    array = context.make_array(array_type)(context, builder, arguments[0])
    index = context.cast(builder, arguments[1], index_type, types.intp)
    pointer = _BYTE.as_pointer()
    function = ir.FunctionType(ir.VoidType(), [pointer, _INT, _INT, _INT])
    instruction = builder.module.declare_intrinsic("llvm.prefetch", (pointer,), function)
    place = builder.bitcast(builder.gep(array.data, [index]), pointer)
    builder.call(instruction, [place, _INT(_FOR_READING), _INT(_IN_ALL_CACHES), _INT(_DATA)])
    return context.get_dummy_value()


def _fetch(typing_context: Any, array: Any, index: Any) -> Any:
    return types.void(array, index), _generate


# Ask for the entry of an array at an index, counted along memory. It need not be there.
fetch: Any = intrinsic(_fetch)


@njit(cache=True, nogil=True, inlined=True)
def fetch_row(
    values: NDArray[Any], indices: NDArray[Any], first: np.uint64, last: np.uint64
) -> None:
    """Ask for the entries of a sparse row, of at most 8 bytes each, and their columns, of 4."""
    k = first
    while True:  # most rows are short: the first lines without a look at the length
        fetch(values, k)
        fetch(values, k + np.uint64(8))
        fetch(indices, k)
        k += np.uint64(16)
        if k >= last:
            break
