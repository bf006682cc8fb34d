"""The compiled kernels that run packed circuits, and pack and unpack bits.

Compiled by Numba at first use and cached on disk. A unit is a block of 512 rows, eight words, and
belongs to one thread. An operation works on a vector of eight words; Numba has no vectors, so the
intrinsics below generate them in LLVM.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, register_jitable

from gendr.kernels.numba.calls import pointer
from gendr.kernels.numba.compilation import inner, kernel
from gendr.logic.circuit import packed

WIDE = 8  # words that an operation works on at a time: one of the widest registers
ROWS = 64 * WIDE
_OPTIONS = {"error_model": "numpy"}
_VECTOR = ir.VectorType(ir.IntType(64), WIDE)
_ONES = ir.Constant(_VECTOR, [-1] * WIDE)
_BYTES = 8  # of alignment that is promised


def _address(builder: Any, base: Any, slot: Any) -> Any:
    """The address of the words of a slot."""
    start = builder.gep(base, [builder.mul(slot, ir.Constant(slot.type, WIDE))])
    return builder.bitcast(start, _VECTOR.as_pointer())


def _operation(reads: int, writes: int, combine: Any) -> Any:
    """The intrinsic that sets the first ones of three slots to functions of the last ones.

    Args:
        reads: how many of them it reads, up to the last.
        writes: how many it writes, from the first on.
        combine: from the LLVM builder and the values that are read to those that are written.
    """

    @intrinsic
    def apply(typingctx, base, a, b, c):
        def codegen(context, builder, signature, args):
            places = [_address(builder, args[0], slot) for slot in args[1:]]
            values = [builder.load(place, align=_BYTES) for place in places[3 - reads :]]
            results = combine(builder, *values)
            for result, place in zip(results, places[:writes], strict=True):
                builder.store(result, place, align=_BYTES)
            return context.get_dummy_value()

        return types.void(base, a, b, c), codegen

    return apply


def _gates(combine: Any) -> Any:
    """The loop over a run of gates of one operation."""
    apply = _operation(2, 1, lambda builder, x, y: [combine(builder, x, y)])

    @register_jitable
    def walk(base, gates, start, stop):
        for k in range(start, stop):
            apply(base, np.int64(gates[k, 0]), np.int64(gates[k, 1]), np.int64(gates[k, 2]))

    return walk


_copy = _gates(lambda builder, x, y: x)
_not = _gates(lambda builder, x, y: builder.xor(x, _ONES))
_and = _gates(lambda builder, x, y: builder.and_(x, y))
_and_not = _gates(lambda builder, x, y: builder.and_(x, builder.xor(y, _ONES)))
_or = _gates(lambda builder, x, y: builder.or_(x, y))
_or_not = _gates(lambda builder, x, y: builder.or_(x, builder.xor(y, _ONES)))
_xor = _gates(lambda builder, x, y: builder.xor(x, y))
_nand = _gates(lambda builder, x, y: builder.xor(builder.and_(x, y), _ONES))
_nor = _gates(lambda builder, x, y: builder.xor(builder.or_(x, y), _ONES))
_xnor = _gates(lambda builder, x, y: builder.xor(builder.xor(x, y), _ONES))
_zero = _gates(lambda builder, x, y: builder.xor(x, x))
_one = _gates(lambda builder, x, y: builder.or_(x, builder.xor(x, _ONES)))


def _sum_and_carry(builder: Any, x: Any, y: Any, z: Any) -> list[Any]:
    either = builder.xor(x, y)
    carry = builder.or_(builder.and_(x, y), builder.and_(either, z))
    return [builder.xor(either, z), carry]


# Adders work in place: a and b become the sum and the carry of a, b and, in a full one, c.
_full_adder = _operation(3, 2, _sum_and_carry)
_half_adder = _operation(3, 2, lambda builder, x, y, _: [builder.xor(x, y), builder.and_(x, y)])


@inner(**_OPTIONS)
def _walk(base, runs, gates, adders):
    """All gates and adders, on the slots at `base`."""
    for r in range(len(runs)):
        operation, start, stop = runs[r, 0], np.int64(runs[r, 1]), np.int64(runs[r, 2])
        if operation == packed.AND:
            _and(base, gates, start, stop)
        elif operation == packed.AND_NOT:
            _and_not(base, gates, start, stop)
        elif operation == packed.OR:
            _or(base, gates, start, stop)
        elif operation == packed.OR_NOT:
            _or_not(base, gates, start, stop)
        elif operation == packed.XOR:
            _xor(base, gates, start, stop)
        elif operation == packed.NAND:
            _nand(base, gates, start, stop)
        elif operation == packed.NOR:
            _nor(base, gates, start, stop)
        elif operation == packed.XNOR:
            _xnor(base, gates, start, stop)
        elif operation == packed.NOT:
            _not(base, gates, start, stop)
        elif operation == packed.COPY:
            _copy(base, gates, start, stop)
        elif operation == packed.ZERO:
            _zero(base, gates, start, stop)
        elif operation == packed.ONE:
            _one(base, gates, start, stop)
    for k in range(len(adders)):
        a, b, c = np.int64(adders[k, 0]), np.int64(adders[k, 1]), np.int64(adders[k, 2])
        if c >= 0:
            _full_adder(base, a, b, c)
        else:
            _half_adder(base, a, b, a)


@inner(**_OPTIONS)
def _load(words, loads, memory, first):
    """Copy eight words of every input to its slot, zeros behind the last."""
    count = min(WIDE, words.shape[1] - first)
    for k in range(len(loads)):
        slot = loads[k]
        if slot >= 0:
            for i in range(count):
                memory[slot, i] = words[k, first + i]
            for i in range(count, WIDE):
                memory[slot, i] = 0


@inner(**_OPTIONS)
def _scratch(slots):
    """Memory for all slots, which starts where a line of the cache does."""
    raw = np.empty(slots * WIDE + 8, np.uint64)
    skipped = (-np.int64(raw.ctypes.data) % 64) // 8
    return raw[skipped : skipped + slots * WIDE].reshape(slots, WIDE)


@kernel(**_OPTIONS)
def outputs(words, slots, loads, runs, gates, stores, out, start, stop):
    """Outputs [M, W] of blocks of eight words."""
    memory = _scratch(slots)
    base = pointer(memory)
    none = np.empty((0, 3), np.int32)
    for block in range(start, stop):
        first = block * WIDE
        _load(words, loads, memory, first)
        _walk(base, runs, gates, none)
        count = min(WIDE, words.shape[1] - first)
        for m in range(len(stores)):
            for i in range(count):
                out[m, first + i] = memory[stores[m], i]


@kernel(**_OPTIONS)
def counts(words, slots, loads, runs, gates, adders, digits, ones, out, start, stop):
    """Sums of groups, out [k, rows], of blocks of eight words."""
    memory = _scratch(slots)
    base = pointer(memory)
    count = np.empty(64, np.uint64)
    rows = out.shape[1]
    for block in range(start, stop):
        first = block * WIDE
        _load(words, loads, memory, first)
        _walk(base, runs, gates, adders)
        for g in range(len(digits)):
            for i in range(min(WIDE, words.shape[1] - first)):
                row = 64 * (first + i)
                for j in range(64):
                    count[j] = 0
                for p in range(digits.shape[1]):
                    if digits[g, p] < 0:
                        break
                    word = memory[digits[g, p], i]
                    for j in range(64):
                        count[j] += ((word >> np.uint64(j)) & np.uint64(1)) << np.uint64(p)
                for j in range(min(64, rows - row)):
                    out[g, row + j] = np.int32(count[j]) + ones[g]


@kernel(**_OPTIONS)
def pack(x, thresholds, same, out, start, stop):
    """Bits of features above thresholds: out [F T, W] words, for words of 64 rows.

    `same` says that all features have the thresholds of the first row. Eight rows make a byte for
    each feature in the narrowest lanes; a word is stored once, as words of a feature are far apart.
    """
    features, each = x.shape[1], thresholds.shape[1]
    byte, word = np.empty(features, np.uint8), np.empty(features, np.uint64)
    for k in range(start, stop):
        for t in range(each):
            for f in range(features):
                word[f] = 0
            for eight in range(8):
                first = 64 * k + 8 * eight
                for f in range(features):
                    byte[f] = 0
                for i in range(min(8, len(x) - first)):
                    row, bit = x[first + i], np.uint8(1 << i)
                    if same:
                        limit = thresholds[0, t]
                        for f in range(features):
                            byte[f] |= bit if row[f] > limit else np.uint8(0)
                    else:
                        for f in range(features):
                            byte[f] |= bit if row[f] > thresholds[f, t] else np.uint8(0)
                shift = np.uint64(8 * eight)
                for f in range(features):
                    word[f] |= np.uint64(byte[f]) << shift
            for f in range(features):
                out[f * each + t, k] = word[f]
