"""Calls of the compiled functions of distributions and T-conorms by address, for Numba kernels."""

# Numba runs these functions while it compiles; their arguments are objects of its own.
# pyright: basic, reportMissingParameterType=false

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _caller(parameters: str) -> Any:
    """What calls the C function at an address with these arguments."""

    def define(typingctx, *kinds):
        def codegen(context, builder, signature, args):
            values = [context.get_value_type(t) for t in signature.args]
            function = ir.FunctionType(ir.VoidType(), values[1:])
            builder.call(builder.inttoptr(args[0], function.as_pointer()), args[1:])
            return context.get_dummy_value()

        return types.void(*kinds), codegen

    names = ["typingctx", "address", *parameters.split()]
    define.__signature__ = Signature([Parameter(x, Parameter.POSITIONAL_OR_KEYWORD) for x in names])  # pyright: ignore
    return intrinsic(define)


# For n points or pairs; see `gendr.distributions.numba` and `gendr.tnorms.numba`.
call_cdf = _caller("z n shape cdf sf")
call_pdf = _caller("z n shape pdf")
call_cdf_and_pdf = _caller("z n shape cdf sf pdf")
call_generator = _caller("a s n p g")
call_inverse = _caller("t n p total rest")
call_weight = _caller("a s total rest n p w")


@intrinsic
def pointer(typingctx, array):
    """The address of the first element of a contiguous array, which it keeps no longer alive.

    Numba frees an array of a function's own after its last use, which an address is not: see
    `keep_alive`. Arguments live as long as the call.
    """

    def codegen(context, builder, signature, args):
        (array_type,) = signature.args
        return context.make_array(array_type)(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), codegen


@intrinsic
def at(typingctx, address, dtype):
    """The address that a number says, of elements of a dtype: `tensor.data_ptr()` of an argument.

    Numba takes a number over in a fraction of the time of an array, which counts in small calls.
    """

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.CPointer(dtype.dtype)(types.intp, dtype), codegen


@intrinsic
def row(typingctx, array, index):
    """The address of array[index] of a contiguous array, for an index >= 0; see `pointer`.

    Unlike the view array[index] it counts no references, which takes longer than a short loop, and
    loops over it are vectorised more readily, since no place counts from the end.
    """

    def codegen(context, builder, signature, args):
        kind = signature.args[0]
        found = context.make_array(kind)(context, builder, args[0])
        shape = cgutils.unpack_tuple(builder, found.shape, kind.ndim)
        place = args[1]
        for size in shape[1:]:
            place = builder.mul(place, size)
        return builder.gep(found.data, [place])

    return types.CPointer(array.dtype)(array, types.int64), codegen


@intrinsic
def keep_alive(typingctx, arrays):
    """A last use of a tuple of arrays, behind all uses of addresses in them."""

    def codegen(context, builder, signature, args):
        return context.get_dummy_value()

    return types.none(arrays), codegen


@intrinsic
def shifted(typingctx, address, places):
    """The address so many elements farther."""

    def codegen(context, builder, signature, args):
        return builder.gep(args[0], [args[1]])

    return address(address, types.int64), codegen
