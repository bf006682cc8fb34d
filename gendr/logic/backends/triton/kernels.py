"""The Triton kernels of layers of gates: outputs, gradients of features, gradients of tables.

Features, outputs and their gradients have the batch as their last dimension: a program takes some
gates or features, and BLOCK neighbours of the batch. They may be float32, float16 or bfloat16; all
arithmetic is float32.

Nothing is added by two programs: the gradient of a feature is a sum over the gates that read it, in
their order, and that of a table a sum over the batch, both by the program that stores it. So the
same input gives the same bits.
"""

# Triton compiles these functions; their arguments are pointers, numbers and blocks.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def folded(table, real, values, strides, step, K: tl.constexpr, SLOPE: tl.constexpr):
    """What a table of K inputs gives at their values: each input halves it.

    Args:
        table: pointers to the entries at the corner 0.
        real: the mask of these pointers.
        values: of the inputs, K blocks.
        strides: of the inputs in the table, K.
        step: of one more input in the table.
        K: how many.
        SLOPE: whether it is the slope along that input, instead of the value where it is 0.
    """
    entries = ()
    for corner in tl.static_range(1 << K):  # the first input is the first digit
        at = table
        for slot in tl.static_range(K):
            if (corner >> (K - 1 - slot)) & 1:
                at += strides[slot]
        entry = tl.load(at, real, 0.0).to(tl.float32)
        if SLOPE:
            entry = tl.load(at + step, real, 0.0).to(tl.float32) - entry
        entries += (entry,)
    for slot in tl.static_range(K):  # from the last input to the first
        halves = ()
        for pair in tl.static_range(1 << (K - 1 - slot)):
            low, high = entries[2 * pair], entries[2 * pair + 1]
            halves += (low + (high - low) * values[K - 1 - slot],)
        entries = halves
    return entries[0]


@triton.jit
def rows(x, row, i, batch, valid):
    """Rows of x [.., batch] as float32, at the places i."""
    return tl.load(x + row.to(tl.int64) * batch + i, valid, 0.0).to(tl.float32)


@triton.jit(do_not_specialize=["count", "blocks"])
def gates(
    x, wires, tables, y, count, batch, blocks,
    K: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Outputs y [count, batch] of gates, for x [F, batch], wires [K, count], tables [count, 2^K].

    A program has ROWS gates; there are `blocks` such for all gates.
    """
    gate = tl.program_id(0) % blocks * ROWS + tl.arange(0, ROWS)[:, None]
    i = tl.program_id(0) // blocks * BLOCK + tl.arange(0, BLOCK)[None, :]
    real = gate < count
    valid = real & (i < batch)
    values, strides = (), ()
    for slot in tl.static_range(K):
        feature = tl.load(wires + slot * count + gate, real, 0)
        values += (rows(x, feature, i, batch, valid),)
        strides += (1 << (K - 1 - slot),)  # the first input is the first digit
    out = folded(tables + gate.to(tl.int64) * (1 << K), real, values, strides, 0, K, False)
    at = y + gate.to(tl.int64) * batch + i
    tl.store(at, out.to(y.dtype.element_ty), valid)


@triton.jit(do_not_specialize=["count", "features", "blocks"])
def features_gradients(
    x, wires, tables, offsets, readers, slots, grads, grad_x, count, features, batch, blocks,
    K: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """grad_x [features, batch] for grads [count, batch]; readers as in `Wires.readers`.

    A program has ROWS features; there are `blocks` such for all features.
    """
    feature = tl.program_id(0) % blocks * ROWS + tl.arange(0, ROWS)[:, None]
    i = tl.program_id(0) // blocks * BLOCK + tl.arange(0, BLOCK)[None, :]
    real, there = feature < features, i < batch
    entry = tl.load(offsets + feature, real, 0)
    end = tl.load(offsets + feature + 1, real, 0)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    left = tl.max(end - entry)
    while left > 0:
        read = entry < end
        gate = tl.load(readers + entry, read, 0)
        own = tl.load(slots + entry, read, 0)
        valid = read & there
        values, strides = (), ()
        for other in tl.static_range(K - 1):
            slot = other + (own <= other).to(tl.int32)
            of_slot = tl.load(wires + slot * count + gate, read, 0)
            values += (rows(x, of_slot, i, batch, valid),)
            strides += ((1 << (K - 1)) >> slot,)
        table = tables + gate.to(tl.int64) * (1 << K)
        slope = folded(table, read, values, strides, (1 << (K - 1)) >> own, K - 1, True)
        total += rows(grads, gate, i, batch, valid) * slope
        entry += 1
        left -= 1
    at = grad_x + feature.to(tl.int64) * batch + i
    tl.store(at, total.to(grad_x.dtype.element_ty), real & there)


@triton.jit(do_not_specialize=["count"])
def tables_gradients(
    x, wires, grads, grad_tables, count, batch,
    K: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """grad_tables [count, 2^K] for grads [count, batch]. A program has ROWS gates.

    The slope of an output along an entry is the chance of its corner.
    """
    gate = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None, None]
    corner = tl.arange(0, 1 << K)[None, :, None]
    real = gate < count
    total = tl.zeros((ROWS, 1 << K, BLOCK), tl.float32)
    start = 0
    while start < batch:
        i = start + tl.arange(0, BLOCK)[None, None, :]
        valid = real & (i < batch)
        chance = rows(grads, gate, i, batch, valid)
        for slot in tl.static_range(K):
            feature = tl.load(wires + slot * count + gate, real, 0)
            value = rows(x, feature, i, batch, valid)
            is_one = (corner >> (K - 1 - slot) & 1) == 1
            chance = chance * tl.where(is_one, value, 1.0 - value)
        total += chance
        start += BLOCK
    gate = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    at = grad_tables + gate.to(tl.int64) * (1 << K) + tl.arange(0, 1 << K)[None, :]
    tl.store(at, tl.sum(total, 2).to(grad_tables.dtype.element_ty), gate < count)
