"""A hint to the processor that memory will be read soon.

Rows that are read in a random order come from a far cache, one after the other: the processor sees
too late where the next one is. A kernel that knows can say it.
"""

# Numba compiles these functions.
# pyright: basic, reportCallIssue=false

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, register_jitable

from gendr.kernels.numba.calls import pointer, shifted

_LINE = 64  # bytes of a line of the cache
_LINES = 16  # of a row: the processor foresees the rest, and a long row would drive out others


@intrinsic
def prefetch(typingctx: Any, address: Any) -> Any:
    """Fetch the line of an address, to read it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number, nothing = ir.IntType(32), ir.VoidType()
        kind = ir.FunctionType(nothing, [args[0].type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [args[0].type], kind)
        # 0: it will be read; 3: keep it in the nearest cache; 1: it is data, not instructions.
        builder.call(function, [args[0], *(ir.Constant(number, k) for k in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(address), codegen


@register_jitable
def prefetch_row(array, row):
    """Fetch a row of a contiguous array of two dimensions, without waiting for it.

    The array stays as it is. A row that is not there is no error.
    """
    columns = array.shape[1]
    step = _LINE // array.itemsize
    for i in range(0, min(columns, _LINES * step), step):
        prefetch(shifted(pointer(array), row * columns + i))
