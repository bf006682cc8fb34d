"""Arrays in kernels, without what Numba takes long to compile.

Of `np.zeros` it compiles three functions for each dtype and number of axes. `a[:] = b` of two
arrays takes two seconds to compile where it is the first: Numba compiles a text too, for an error
that names their shapes.
"""

# Numba runs or compiles these functions; their arguments are objects of its own.
# pyright: basic, reportMissingParameterType=false

from __future__ import annotations

from numba import types
from numba.extending import intrinsic, register_jitable


@register_jitable
def copy(source, target):
    """Fill in the first numbers of `target` [>= n] from `source` [n]."""
    for i in range(len(source)):
        target[i] = source[i]


@intrinsic
def part(typingctx, memory, first, dtype):
    """The address of memory[first], as one of elements of a dtype: one array for many purposes.

    It keeps the array no longer alive; see `gendr.kernels.numba.calls.pointer`.
    """

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        kind = context.get_value_type(signature.return_type)
        return builder.bitcast(builder.gep(data, [args[1]]), kind)

    return types.CPointer(dtype.dtype)(memory, types.int64, dtype), codegen
