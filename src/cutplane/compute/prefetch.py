"""Rows asked for before their turn, for kernels that visit them in random order.

Memory takes its time, and a row that nobody expects is waited for. To ask for the rows that come
next costs a few instructions, changes no result, and cannot fail.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from cutplane.compute.compiled import njit

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
