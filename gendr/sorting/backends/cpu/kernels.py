"""The compiled kernels of the relaxed sorting networks.

Plain loops, compiled by Numba at first use and cached on disk. A kernel works on a range of units
to which no other thread writes, and the order of sums does not depend on the range, so that any
number of threads gives the same bits.

- Gates: a unit is a group of `GROUP` rows of the batch. Their keys are stored wire by wire, so that
  a comparator works on a vector with one element per row. A run of comparators is one call of the
  distribution. Arithmetic is float64.
- Carry: a unit is a row of the batch and, of its payload, the columns of a block or of a run of
  blocks. A block of `LANES` columns stays in the nearest cache through all layers. Arithmetic is
  in the dtype of the payload, as there are no differences in which digits could be lost.

A comparator works on whole vectors, see `gendr.kernels.numba.vectors`. When the payload is the
identity, rows are zero in a block of columns until a comparator connects them to a nonzero row.
Comparators between two zero rows are left out, forward and backward. For a bitonic network of 128
wires these are more than half of all.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math
import sys

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, register_jitable

from gendr.kernels.numba.calls import call_cdf, call_pdf, pointer
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.mathematics import TWO_52, TWO_52_BITS, bits_of, exp, from_bits, log1p
from gendr.kernels.numba.vectors import lanewise, total, where

LANES = 32  # columns of a block: in float32 two of the widest registers
GROUP = 8  # rows of the batch that go through the gates together: one register in float64
STRIDE = 16  # comparators that are tested together first, then one by one
RUN = 32  # comparators per call of a distribution: ten arrays of RUN x GROUP fit in the L1 cache
_LN2 = math.log(2.0)
_TINY = 2.2250738585072014e-308  # smaller differences count as 0 before a power
_LARGEST = sys.float_info.max


# ---------------------------------------------------------------------------------------------
# Vectors
# ---------------------------------------------------------------------------------------------


def _all(rows, start):
    """The vectors of a block's row."""
    first = rows[start]
    count = first.value.type.count
    return [first, *(rows[start + k] for k in range(count, LANES, count))]


def _store(rows, start, vectors):
    for k, vector in enumerate(vectors):
        rows[start + k * vector.value.type.count] = vector


def _mixed(a, b, keep, swap):
    """The vectors keep a + swap b and swap a + keep b."""
    return keep * a + swap * b, swap * a + keep * b


def _mix_rows(rows, i, j, keep, swap):
    """`_mix`; gives the rows as they were."""
    first, second = _all(rows, i), _all(rows, j)
    mixed = [_mixed(a, b, keep, swap) for a, b in zip(first, second, strict=True)]
    _store(rows, i, [a for a, _ in mixed])
    _store(rows, j, [b for _, b in mixed])
    return first, second


@lanewise
def _mix(rows, i, j, keep, swap):
    """Set rows i, j of a block to keep i + swap j, swap i + keep j; i and j are offsets."""
    _mix_rows(rows, i, j, keep, swap)


@lanewise
def _mix_and_keep(rows, i, j, keep, swap, differences, k):
    """As `_mix`; also stores the difference i - j at offset k of `differences`."""
    first, second = _mix_rows(rows, i, j, keep, swap)
    _store(differences, k, [a - b for a, b in zip(first, second, strict=True)])


def _mix_rows_back(grads, i, j, keep, swap, differences, k):
    """The backward pass of `_mix`; returns the gradient of keep, sum (i - j)(difference)."""
    first, second = _mix_rows(grads, i, j, keep, swap)
    rows = zip(first, second, _all(differences, k), strict=True)
    return total([(a - b) * difference for a, b, difference in rows]).sum()


_mix_back = lanewise(_mix_rows_back, lambda grads, *others: grads.dtype(grads, *others))


@lanewise
def _copy(source, i, target, j):
    """Copy a row from offset i of one array to offset j of another."""
    _store(target, j, _all(source, i))


@lanewise
def _subtract(rows, i, j, out, k):
    """Set the vector at offset k of `out` to row j - row i of a group, all given by offsets."""
    out[k] = rows[j] - rows[i]


def _finite(value):
    """Replace infinities by the largest finite numbers, so that 0 times them is 0; NaN stays."""
    value = where(value > _LARGEST, _LARGEST, value)
    return where(value < -_LARGEST, -_LARGEST, value)


@lanewise
def _mix_each(rows, i, j, keep, swap, k):
    """As `_mix` for a group, with one gate per lane: the vectors at offset k of `keep` and `swap`.

    Gates whose sum is slightly above 1 do not turn the largest number into inf.
    """
    first, second = _mixed(rows[i], rows[j], keep[k], swap[k])
    rows[i], rows[j] = _finite(first), _finite(second)


@lanewise
def _mix_each_back(grads, i, j, keep, swap, difference, slope, grad_keep, k):
    """The backward pass of `_mix_each`; adds to the vector at offset k of `grad_keep`.

    `difference` is that of the keys, j - i; `slope` is the derivative of keep with respect to it,
    through which the gradient of keep is passed on to i and j.
    """
    a, b = grads[i], grads[j]
    change = _finite(grad_keep[k] + (b - a) * difference[k])
    grad_keep[k] = change
    a, b = _mixed(a, b, keep[k], swap[k])
    moved = change * slope[k]
    grads[i], grads[j] = a - moved, b + moved


@intrinsic
def _transpose(typingctx, source, i, i_stride, target, j, j_stride):
    """Transpose: GROUP vectors of `source`, i_stride elements apart, become columns in `target`."""

    def codegen(context, builder, signature, args):
        def place(first, k):
            """The address of vector k of the array args[first], and its alignment."""
            kind = signature.args[first].dtype
            base, offset, stride = args[first : first + 3]
            start = builder.gep(base, [builder.add(offset, builder.mul(stride, stride.type(k)))])
            vector = ir.VectorType(context.get_value_type(kind), GROUP)
            return builder.bitcast(start, vector.as_pointer()), kind.bitwidth // 8

        places = [place(0, k) for k in range(GROUP)]
        rows = [builder.load(address, align=align) for address, align in places]
        # Interleaving the two halves of the rows moves the first bit of an element's index to the
        # end. After as many rounds as a row index has bits, rows and columns are exchanged.
        order = [k + second for k in range(GROUP) for second in (0, GROUP)]
        numbers = ir.VectorType(ir.IntType(32), GROUP)
        masks = [ir.Constant(numbers, half) for half in (order[:GROUP], order[GROUP:])]
        for _ in range(GROUP.bit_length() - 1):
            halves = zip(rows[: GROUP // 2], rows[GROUP // 2 :], strict=True)
            rows = [builder.shuffle_vector(a, b, mask) for a, b in halves for mask in masks]
        for k, row in enumerate(rows):
            address, align = place(3, k)
            kind = address.type.pointee
            if row.type != kind:
                is_single = isinstance(kind.element, ir.FloatType)
                row = (builder.fptrunc if is_single else builder.fpext)(row, kind)
            builder.store(row, address, align=align)
        return context.get_dummy_value()

    index = types.int64
    return types.void(source, index, index, target, index, index), codegen


# ---------------------------------------------------------------------------------------------
# Gates
# ---------------------------------------------------------------------------------------------


@register_jitable
def _log(x):
    """The logarithm of a positive normal number, branch-free, with an error of about 1e-16 |log x|.

    For x just below 1 the error is larger, since the mantissa's logarithm cancels against log(2).
    """
    bits = bits_of(x)
    k = from_bits((bits >> 52) | TWO_52_BITS) - (TWO_52 + 1023.0)
    mantissa = from_bits((bits & ((1 << 52) - 1)) | (1023 << 52))
    return log1p(mantissa - 1.0) + k * _LN2


@register_jitable
def _bounded(x, limit):
    """Clamp x to -limit .. limit; NaN stays NaN."""
    return limit if x > limit else (-limit if x < -limit else x)


@inner()
def _powers(count, ds, power, phi):
    """Fill in phi = sign(d) |d|^power, finite; 0 for |d| below the smallest normal number."""
    if power == 1.0:
        for k in range(count):
            phi[k] = ds[k]
    elif power == 2.0:
        for k in range(count):
            phi[k] = _bounded(ds[k] * abs(ds[k]), _LARGEST)
    else:
        for k in range(count):
            size = abs(ds[k])
            value = exp(power * _log(size if size > _TINY else 1.0))
            phi[k] = math.copysign(value, ds[k]) if size > _TINY else 0.0


@inner()
def _load_group(source, first, start, stop, group):
    """Load columns start .. stop - 1 of the rows from `first` on of source [B, m], one vector each.

    Rows beyond the last are zero; everything is zero if the source is empty.
    """
    rows, width = min(GROUP, len(source) - first), source.shape[1]
    if rows == GROUP and stop - start >= GROUP:
        for i in range(start, stop, GROUP):
            k = min(i, stop - GROUP)  # the last tile may overlap the one before
            _transpose(
                pointer(source), first * width + k, width, pointer(group), (k - start) * GROUP,
                GROUP,
            )  # fmt: skip
        return
    group[: (stop - start) * GROUP] = 0.0
    for r in range(rows):
        for i in range(start, stop):
            group[(i - start) * GROUP + r] = source[first + r, i]


@inner()
def _store_group(group, first, start, stop, target):
    """The inverse of `_load_group`."""
    rows, width = min(GROUP, len(target) - first), target.shape[1]
    if rows == GROUP and stop - start >= GROUP:
        for i in range(start, stop, GROUP):
            k = min(i, stop - GROUP)
            _transpose(
                pointer(group), (k - start) * GROUP, GROUP, pointer(target), first * width + k,
                width,
            )  # fmt: skip
        return
    for r in range(rows):
        for i in range(start, stop):
            target[first + r, i] = group[(i - start) * GROUP + r]


@kernel()
def gates(
    pairs, offsets, x, address, power, steepness, values, keep, swap, differences, swaps,
    start, stop,
):  # fmt: skip
    """Fill in values [B, n], keep and swap [B, C] for the groups start .. stop - 1 of x [B, n].

    `address` is the address of the cdf of the distribution. `differences` and `swaps` [groups, C *
    GROUP] get what the backward pass needs, unless they are empty; keep and swap may be so too.
    Differences of keys that overflow the dtype of x count as its largest number.
    """
    n, limit = x.shape[1], np.float64(np.finfo(x.dtype).max)
    xs, buffers = np.empty(n * GROUP), np.empty((4, RUN * GROUP))
    ds, zs, cdf, sf = buffers[0], buffers[1], buffers[2], buffers[3]
    rows, d, a, s = pointer(xs), pointer(ds), pointer(cdf), pointer(sf)
    for group in range(start, stop):
        _load_group(x, group * GROUP, 0, n, xs)
        for k in range(len(xs)):
            xs[k] -= xs[k] - xs[k]  # infinities become NaN, which spreads
        for layer in range(len(offsets) - 1):
            for first in range(offsets[layer], offsets[layer + 1], RUN):
                last = min(first + RUN, offsets[layer + 1])
                count = (last - first) * GROUP
                for c in range(first, last):
                    k = (c - first) * GROUP
                    _subtract(rows, pairs[c, 0] * GROUP, pairs[c, 1] * GROUP, d, k)
                for k in range(count):
                    ds[k] = _bounded(ds[k], limit)
                _powers(count, ds, power, zs)
                for k in range(count):
                    zs[k] *= steepness
                call_cdf(address, pointer(zs), count, 0.0, a, s)
                for c in range(first, last):
                    k = (c - first) * GROUP
                    _mix_each(rows, pairs[c, 0] * GROUP, pairs[c, 1] * GROUP, a, s, k)
                if len(keep) > 0:
                    _store_group(cdf, group * GROUP, first, last, keep)
                    _store_group(sf, group * GROUP, first, last, swap)
                if len(differences) > 0:
                    for k in range(count):
                        differences[group, first * GROUP + k] = ds[k]
                        swaps[group, first * GROUP + k] = sf[k]
        _store_group(xs, group * GROUP, 0, n, values)


@kernel()
def gates_back(
    pairs, differences, swaps, address, power, steepness, grad_values, grad_keep, grad_x,
    grad_steepness, start, stop,
):  # fmt: skip
    """Fill in grad_x [B, n] and grad_steepness [groups] for the groups start .. stop - 1.

    `differences` and `swaps` are as `gates` left them; `address` is the address of the pdf of the
    distribution; grad_values [B, n] and grad_keep [B, C] may be empty, which stands for zero.
    """
    n, size = grad_x.shape[1], len(pairs)
    gs, buffers = np.empty(n * GROUP), np.empty((8, RUN * GROUP))
    ds, phi, zs, pdf = buffers[0], buffers[1], buffers[2], buffers[3]
    keep, swap, slope, gk = buffers[4], buffers[5], buffers[6], buffers[7]
    g, d, a, s = pointer(gs), pointer(ds), pointer(keep), pointer(swap)
    f, h = pointer(slope), pointer(gk)
    for group in range(start, stop):
        _load_group(grad_values, group * GROUP, 0, n, gs)
        total = 0.0
        for last in range(size, 0, -RUN):
            first = max(last - RUN, 0)
            count = (last - first) * GROUP
            for k in range(count):
                ds[k] = differences[group, first * GROUP + k]
                swap[k] = swaps[group, first * GROUP + k]
                keep[k] = 1.0 - swap[k]
            _powers(count, ds, power, phi)
            for k in range(count):
                zs[k] = phi[k] * steepness
            call_pdf(address, pointer(zs), count, 0.0, pointer(pdf))
            if power == 1.0:
                for k in range(count):
                    slope[k] = pdf[k] * steepness
            else:
                for k in range(count):
                    bend = power * (phi[k] / (ds[k] if phi[k] != 0.0 else 1.0))
                    slope[k] = pdf[k] * bend * steepness
            _load_group(grad_keep, group * GROUP, first, last, gk)
            for c in range(last - 1, first - 1, -1):
                k = (c - first) * GROUP
                _mix_each_back(g, pairs[c, 0] * GROUP, pairs[c, 1] * GROUP, a, s, d, f, h, k)
            for k in range(count):
                total += _bounded(gk[k] * pdf[k] * phi[k], _LARGEST)
        grad_steepness[group] = total
        _store_group(gs, group * GROUP, 0, n, grad_x)


# ---------------------------------------------------------------------------------------------
# Carry
# ---------------------------------------------------------------------------------------------


@kernel()
def spans(pairs, n):
    """The columns of the identity in which `STRIDE` comparators each can find nonzero values.

    Returns int32 [C / STRIDE, 2], first and last; the columns of a wire are treated as an interval.
    """
    count = (len(pairs) + STRIDE - 1) // STRIDE
    out, wires = np.empty((count, 2), np.int32), np.empty((n, 2), np.int32)
    out[:, 0], out[:, 1] = n, -1
    for i in range(n):
        wires[i, 0] = wires[i, 1] = i
    for c in range(len(pairs)):
        i, j, s = pairs[c, 0], pairs[c, 1], c // STRIDE
        first, last = min(wires[i, 0], wires[j, 0]), max(wires[i, 1], wires[j, 1])
        wires[i, 0] = wires[j, 0] = first
        wires[i, 1] = wires[j, 1] = last
        out[s, 0], out[s, 1] = min(out[s, 0], first), max(out[s, 1], last)
    return out


@inner()
def _reached(pairs, spans, identity, start, stop, alive, steps):
    """List the comparators that can find nonzero values in the columns start .. stop - 1.

    Rows of `steps`: offsets of the two rows in a block, and the comparator. Returns their number.
    """
    alive[:] = not identity
    alive[start:stop] = True
    count = 0
    for s in range(len(spans)):
        if identity & ((spans[s, 0] >= stop) | (spans[s, 1] < start)):
            continue
        for c in range(s * STRIDE, min((s + 1) * STRIDE, len(pairs))):
            i, j = pairs[c, 0], pairs[c, 1]
            if alive[i] | alive[j]:
                alive[i] = alive[j] = True
                steps[count, 0], steps[count, 1], steps[count, 2] = i * LANES, j * LANES, c
                count += 1
    return count


@inner()
def _load_block(source, row, start, stop, block):
    """Load columns start .. stop - 1 of source[row] into a block; the rest of it is zero."""
    n, width = source.shape[1], source.shape[2]
    flat, rows = pointer(source), pointer(block)
    first = row * n * width + start
    if stop - start == LANES:
        for i in range(n):
            _copy(flat, first + i * width, rows, i * LANES)
    else:
        block[:] = 0
        for i in range(n):
            for k in range(stop - start):
                block[i * LANES + k] = flat[first + i * width + k]


@inner()
def _store_block(block, target, row, start, stop):
    """The inverse of `_load_block`."""
    n, width = target.shape[1], target.shape[2]
    flat, rows = pointer(target), pointer(block)
    first = row * n * width + start
    if stop - start == LANES:
        for i in range(n):
            _copy(rows, i * LANES, flat, first + i * width)
    else:
        for i in range(n):
            for k in range(stop - start):
                flat[first + i * width + k] = block[i * LANES + k]


@inner()
def _begin_block(payload, identity, row, start, stop, block):
    """Fill a block with the columns start .. stop - 1 as they are before the first layer."""
    if identity:
        block[:] = 0
        for k in range(stop - start):
            block[(start + k) * LANES + k] = 1
    else:
        _load_block(payload, row, start, stop, block)


@kernel()
def carry(pairs, spans, keep, swap, payload, identity, out, start, stop):
    """Fill in `out` for the units start .. stop - 1; unit = block * (rows of the batch) + row."""
    batch, n, width = out.shape
    alive, steps = np.empty(n, np.bool_), np.empty((len(pairs), 3), np.int32)
    block = np.empty(n * LANES, out.dtype)
    rows = pointer(block)
    for b in range(start // batch, (stop - 1) // batch + 1):
        first, last = b * LANES, min((b + 1) * LANES, width)
        count = _reached(pairs, spans, identity, first, last, alive, steps)
        for row in range(max(start - b * batch, 0), min(stop - b * batch, batch)):
            _begin_block(payload, identity, row, first, last, block)
            for k in range(count):
                i, j, c = np.int64(steps[k, 0]), np.int64(steps[k, 1]), steps[k, 2]
                _mix(rows, i, j, keep[row, c], swap[row, c])
            _store_block(block, out, row, first, last)


@kernel()
def carry_back(
    pairs, spans, keep, swap, payload, identity, grad, grad_keep, grad_payload, start, stop
):
    """Fill in gradients for the units start .. stop - 1; unit = run * (rows of the batch) + row.

    `grad` [B, n, c] is the gradient of the result of `carry`. `grad_keep` [R, B, C] gets a part for
    each of R runs of blocks; `grad_payload` [B, n, c] is not written for the identity.
    """
    batch, n, width = grad.shape
    runs, size = len(grad_keep), len(pairs)
    blocks = (width + LANES - 1) // LANES
    alive, steps = np.empty(n, np.bool_), np.empty((size, 3), np.int32)
    block, grads = np.empty(n * LANES, grad.dtype), np.empty(n * LANES, grad.dtype)
    differences = np.empty(size * LANES, grad.dtype)
    p, g, d = pointer(block), pointer(grads), pointer(differences)
    for r in range(start // batch, (stop - 1) // batch + 1):
        row_first, row_last = max(start - r * batch, 0), min(stop - r * batch, batch)
        grad_keep[r, row_first:row_last] = 0
        for b in range(r * blocks // runs, (r + 1) * blocks // runs):
            first, last = b * LANES, min((b + 1) * LANES, width)
            count = _reached(pairs, spans, identity, first, last, alive, steps)
            for row in range(row_first, row_last):
                _begin_block(payload, identity, row, first, last, block)
                for k in range(count):
                    i, j, c = np.int64(steps[k, 0]), np.int64(steps[k, 1]), steps[k, 2]
                    _mix_and_keep(p, i, j, keep[row, c], swap[row, c], d, k * LANES)
                _load_block(grad, row, first, last, grads)
                for k in range(count - 1, -1, -1):
                    i, j, c = np.int64(steps[k, 0]), np.int64(steps[k, 1]), steps[k, 2]
                    grad_keep[r, row, c] += _mix_back(
                        g, i, j, keep[row, c], swap[row, c], d, k * LANES
                    )
                if not identity:
                    _store_block(grads, grad_payload, row, first, last)
    differences[0:1] = 0  # keeps the array alive: `d` is a pointer into it
