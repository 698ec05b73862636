"""Numba's ``njit``, with a cache that a bad file cannot break.

Numba keeps compiled kernels in files, and fails with whatever error reading them gives: for a file
that is cut short, empty or not its own, for a folder that lost its permissions, for a full disk. A
cache is there to save time. So a file that cannot be used is thrown away and written anew, and
where nothing can be written, kernels are compiled once in every process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, TypeVar

import numba
from numba.core.caching import FunctionCache

from cutplane.compute import compiling as compiling  # listens from the first compilation on

_log = logging.getLogger("cutplane")

F = TypeVar("F", bound=Callable[..., Any])

# Leave to reorder sums (that is what vectorizes them), but no assumption that numbers are finite.
REORDER = {"reassoc", "contract", "nsz"}

# Our own passes of the compiler stand on parts of Numba that it may change: these versions were
# tried. With others kernels are compiled by Numba's passes, which takes longer.
VERSIONS_OF_OUR_PASSES = ("0.68.",)


class _SturdyCache(FunctionCache):
    """The cache of a kernel, which is made anew if it cannot be used."""

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


def _our_passes() -> dict[str, Any]:
    """Return the option that names our compiler, if this version of Numba is one that it knows."""
    if not numba.__version__.startswith(VERSIONS_OF_OUR_PASSES):
        return {}
    from cutplane.compute.pipeline import Pipeline  # imports what other versions may not have

    return {"pipeline_class": Pipeline}


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
        **_our_passes(),
    )

    def decorate(function: F) -> F:
        kernel: Any = compile_later(function)
        if kernel is function:  # NUMBA_DISABLE_JIT
            return kernel
        # What Numba calls where it has nothing yet for arguments of these types.
        kernel._compile_for_args = compiling.watch.left_out()(kernel._compile_for_args)
        if cache and not inner:
            with suppress(RuntimeError):  # there may be no folder to write to
                kernel._cache = _SturdyCache(function)  # type: ignore[no-untyped-call]
        return kernel  # type: ignore[no-any-return]

    return decorate
