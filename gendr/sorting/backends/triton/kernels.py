"""The Triton kernels of the relaxed sorting networks: gates, carry, and their gradients.

Layers follow each other within one program, so that nothing of size layers x n x n is ever in use
and one launch does it all. There are two ways to exchange values between wires:

- `gates`, `carry` and their gradients keep the wires in memory, where the caches hold them: a
  program loads the two ends of up to PAIRS comparators, mixes, and writes them back in place, with
  a barrier behind every layer. Any number of wires.
- `carry_lanes` and its gradient keep the wires in the registers of a single warp, whose lanes
  exchange them by shuffles, without barriers or memory traffic. For few wires: there are WIRES of
  them, a power of two; those that are not there, or idle in a layer, keep what they have.

Columns of a payload are independent of each other: a program takes COLUMNS of them at once.

Backward, a carry recomputes its forward pass and keeps the differences x_low - x_high that every
comparator saw, in scratch of its own: the gradient of a gate is the sum over columns of
(g_low - g_high) (x_low - x_high). A program has `grad_keep[item]` for itself, adds its columns in
order, and works through the items program, program + programs, ...: no atomics, and as much
scratch as there are programs. With wires in memory the layers may be cut into segments: then the
wires are kept where segments begin, and the differences of one segment at a time, for which its
layers are passed once more. Deep networks so need 10 times less scratch.

Distributions come in as compile-time functions, see `gendr/distributions/triton.py`. All is
float32.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gendr.kernels.triton.mathematics import bounded
from gendr.kernels.triton.mathematics import power as raised

# What overflows counts as the largest number, so that 0 times it is 0, and in a sum as this, so
# that no inf - inf is in it.
_LARGEST: tl.constexpr = tl.constexpr(3.4028234663852886e38)
_LARGEST_PART: tl.constexpr = tl.constexpr(1e30)

# -------------------------------------------------------------------------------------------------
# Gates
# -------------------------------------------------------------------------------------------------


@triton.jit
def argument(d, power, PLAIN: tl.constexpr):
    """sign(d) |d|^power, finite, and its slope, which counts as 0 at 0; d and 1 if PLAIN."""
    if PLAIN:
        return d, tl.zeros_like(d) + 1.0
    apart = d != 0.0
    size = tl.where(apart, tl.abs(d), 1.0)
    shrunk = bounded(raised(size, power), _LARGEST)
    value = tl.where(apart, tl.where(d < 0.0, -shrunk, shrunk), 0.0)
    return value, tl.where(apart, power * (shrunk / size), 0.0)


@triton.jit(do_not_specialize=["rows", "size", "depth"])
def gates(
    x, lows, highs, offsets, steepness, values, keep, swap, differences,
    rows, n, size, depth, power,
    CDF: tl.constexpr, PLAIN: tl.constexpr, SAVE: tl.constexpr, ROWS: tl.constexpr,
    PAIRS: tl.constexpr,
):  # fmt: skip
    """Values [rows, n], keep and swap [rows, size] of keys x; if SAVE x_high - x_low as well.

    A program takes ROWS rows through all layers. Layer l is the comparators (lows[p], highs[p]) for
    p in offsets[l] .. offsets[l + 1] - 1.
    """
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    lane = tl.arange(0, PAIRS)[None, :]
    wires = values + row * n
    w = 0
    while w < n:
        wire = w + lane
        valid = (row < rows) & (wire < n)
        key = tl.load(x + row * n + wire, valid, 0.0)
        tl.store(wires + wire, key - (key - key), valid)  # of infinities NaN, which spreads
        w += PAIRS
    tl.debug_barrier()
    steep = tl.load(steepness)
    p, layer = 0, 0
    while layer < depth:
        stop = tl.load(offsets + layer + 1)
        while p < stop:
            pair = p + lane
            valid = (row < rows) & (pair < stop)
            low = wires + tl.load(lows + pair, pair < stop, 0)
            high = wires + tl.load(highs + pair, pair < stop, 0)
            a, b = tl.load(low, valid, 0.0), tl.load(high, valid, 0.0)
            d = bounded(b - a, _LARGEST)
            moved, _ = argument(d, power, PLAIN)
            k, s = CDF(moved * steep, 0.0, 0.0)
            tl.store(low, bounded(k * a + s * b, _LARGEST), valid)
            tl.store(high, bounded(s * a + k * b, _LARGEST), valid)
            gate = row * size + pair
            tl.store(keep + gate, k, valid)
            tl.store(swap + gate, s, valid)
            if SAVE:
                tl.store(differences + gate, d, valid)
            p += PAIRS
        p = stop
        layer += 1
        tl.debug_barrier()


@triton.jit(do_not_specialize=["rows", "size", "depth"])
def gates_gradients(
    grads, lows, highs, offsets, steepness, keep, swap, differences, grad_keep, grad_steepness,
    rows, n, size, depth, power,
    PDF: tl.constexpr, PLAIN: tl.constexpr, WITH_KEEP: tl.constexpr, ROWS: tl.constexpr,
    PAIRS: tl.constexpr,
):  # fmt: skip
    """Turns the gradient of the values in `grads` [rows, n] into that of the keys, in place.

    Also what the rows of a program add to the gradient of the steepness, grad_steepness[program].
    Without WITH_KEEP the gradient of the gates is 0.
    """
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    lane = tl.arange(0, PAIRS)[None, :]
    wires = grads + row * n
    steep = tl.load(steepness)
    of_steepness = tl.zeros([ROWS, PAIRS], tl.float32)
    stop, layer = size, depth
    while layer > 0:
        layer -= 1
        start = tl.load(offsets + layer)
        p = start
        while p < stop:
            pair = p + lane
            valid = (row < rows) & (pair < stop)
            low = wires + tl.load(lows + pair, pair < stop, 0)
            high = wires + tl.load(highs + pair, pair < stop, 0)
            gate = row * size + pair
            k, s = tl.load(keep + gate, valid, 0.0), tl.load(swap + gate, valid, 0.0)
            d = tl.load(differences + gate, valid, 0.0)
            g, h = tl.load(low, valid, 0.0), tl.load(high, valid, 0.0)
            of_gate = (h - g) * d
            if WITH_KEEP:
                of_gate += tl.load(grad_keep + gate, valid, 0.0)
            of_gate = bounded(of_gate, _LARGEST)
            moved, slope = argument(d, power, PLAIN)
            of_z = of_gate * PDF(moved * steep, 0.0, 0.0)
            of_steepness += tl.where(valid, bounded(of_z * moved, _LARGEST_PART), 0.0)
            of_d = of_z * slope * steep
            tl.store(low, k * g + s * h - of_d, valid)
            tl.store(high, s * g + k * h + of_d, valid)
            p += PAIRS
        stop = start
        tl.debug_barrier()
    tl.store(grad_steepness + tl.program_id(0), tl.sum(tl.sum(of_steepness, 1), 0))


# -------------------------------------------------------------------------------------------------
# Carry, wires in memory
# -------------------------------------------------------------------------------------------------


@triton.jit
def entered(payload, wire, column, valid, c, IDENTITY: tl.constexpr):
    """What enters on the wires: columns of a payload [n, c], or of the identity."""
    if IDENTITY:
        return tl.where(wire == column, 1.0, 0.0)
    return tl.load(payload + wire * c + column, valid, 0.0)


@triton.jit
def enter(
    at, stride, inside, payload, column, n, c, IDENTITY: tl.constexpr, PAIRS: tl.constexpr
):  # fmt: skip
    """Put what enters on every wire where it is kept: wire w at `at` + w stride, [1, COLUMNS]."""
    lane = tl.arange(0, PAIRS)[:, None]
    w = 0
    while w < n:
        wire = (w + lane).to(tl.int64)
        x = entered(payload, wire, column, (wire < n) & (column < c), c, IDENTITY)
        tl.store(at + wire * stride, x, (wire < n) & inside)
        w += PAIRS
    tl.debug_barrier()


@triton.jit
def ends(at, stride, lows, highs, pair, real):
    """Where the two wires of comparators are kept."""
    low = tl.load(lows + pair, real, 0).to(tl.int64)
    high = tl.load(highs + pair, real, 0).to(tl.int64)
    return at + low * stride, at + high * stride


@triton.jit
def swap_all(
    at, stride, inside, keep, swap, lows, highs, offsets, first, last, differences,
    SAVE: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """Take the wires through the layers from `first` to before `last`, in place.

    If SAVE keep x_low - x_high of their comparators.
    """
    lane = tl.arange(0, PAIRS)[:, None]
    start = tl.load(offsets + first)
    p, layer = start, first
    while layer < last:
        stop = tl.load(offsets + layer + 1)
        while p < stop:
            pair = p + lane
            real = pair < stop
            valid = real & inside
            low, high = ends(at, stride, lows, highs, pair, real)
            k, s = tl.load(keep + pair, real, 0.0), tl.load(swap + pair, real, 0.0)
            a, b = tl.load(low, valid, 0.0), tl.load(high, valid, 0.0)
            if SAVE:
                tl.store(differences + (pair - start).to(tl.int64) * stride, a - b, valid)
            tl.store(low, k * a + s * b, valid)
            tl.store(high, s * a + k * b, valid)
            p += PAIRS
        p = stop
        layer += 1
        tl.debug_barrier()


@triton.jit(do_not_specialize=["size", "depth", "blocks"])
def carry(
    keep, swap, lows, highs, offsets, payload, out, n, c, size, depth, blocks,
    IDENTITY: tl.constexpr, PAIRS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The payload [B, n, c] after the swaps, COLUMNS columns of a row per program, in `out`."""
    row = (tl.program_id(0) // blocks).to(tl.int64)
    column = tl.program_id(0) % blocks * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside, at = column < c, out + row * n * c + column
    keep += row * size
    swap += row * size
    enter(at, c, inside, payload + row * n * c, column, n, c, IDENTITY, PAIRS)
    swap_all(at, c, inside, keep, swap, lows, highs, offsets, 0, depth, out, False, PAIRS)


@triton.jit
def copied(to, at, n, COLUMNS: tl.constexpr, PAIRS: tl.constexpr):
    """Copy all wires, [n, COLUMNS]."""
    lane = tl.arange(0, PAIRS)[:, None]
    w = 0
    while w < n:
        wire = (w + lane).to(tl.int64)
        tl.store(to + wire * COLUMNS, tl.load(at + wire * COLUMNS, wire < n, 0.0), wire < n)
        w += PAIRS
    tl.debug_barrier()


@triton.jit(
    do_not_specialize=["size", "depth", "blocks", "shares", "items", "span", "segments", "longest"]
)
def carry_gradients(
    keep, swap, lows, highs, offsets, payload, grads, wires, differences, grad_keep, grad_payload,
    n, c, size, depth, blocks, shares, items, span, segments, longest,
    IDENTITY: tl.constexpr, PAIRS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """grad_keep [items, size] and, unless IDENTITY, grad_payload [B, n, c] for grads [B, n, c].

    What grad_keep held before is added to. Item (row, share) takes every `shares`-th block of
    columns of a row. Layers are passed in segments of `span`, the last may be shorter; `longest` is
    the most comparators of one. Scratch of a program: wires [segments + 1, n, COLUMNS], which are
    values, gradients, and the values where segments but the first begin, and differences
    [longest, COLUMNS].
    """
    program = tl.program_id(0).to(tl.int64)
    local = tl.arange(0, COLUMNS)[None, :]
    lane = tl.arange(0, PAIRS)[:, None]
    each = tl.cast(n, tl.int64) * COLUMNS
    values = wires + program * (segments + 1) * each + local
    at = values + each
    kept = differences + program * longest * COLUMNS + local
    item = program
    while item < items:
        row = item // shares
        share = (item % shares).to(tl.int32)
        keep_of, swap_of = keep + row * size, swap + row * size
        grad_of, whole = grad_keep + item * size, row * n * c
        block = share
        while block < blocks:
            column = block * COLUMNS + local
            enter(values, COLUMNS, True, payload + whole, column, n, c, IDENTITY, PAIRS)
            segment = 1
            while segment < segments:
                swap_all(
                    values, COLUMNS, True, keep_of, swap_of, lows, highs, offsets,
                    (segment - 1) * span, segment * span, kept, False, PAIRS,
                )  # fmt: skip
                copied(at + segment * each, values, n, COLUMNS, PAIRS)
                segment += 1
            enter(at, COLUMNS, True, grads + whole, column, n, c, False, PAIRS)
            last = depth
            while segment > 0:
                segment -= 1
                first = segment * span
                if segments > 1:
                    if segment > 0:
                        copied(values, at + segment * each, n, COLUMNS, PAIRS)
                    else:
                        enter(values, COLUMNS, True, payload + whole, column, n, c, IDENTITY, PAIRS)
                swap_all(
                    values, COLUMNS, True, keep_of, swap_of, lows, highs, offsets,
                    first, last, kept, True, PAIRS,
                )  # fmt: skip
                begin, stop, layer = tl.load(offsets + first), tl.load(offsets + last), last
                while layer > first:
                    layer -= 1
                    start = tl.load(offsets + layer)
                    p = start
                    while p < stop:
                        pair = p + lane
                        real = pair < stop
                        low, high = ends(at, COLUMNS, lows, highs, pair, real)
                        k = tl.load(keep_of + pair, real, 0.0)
                        s = tl.load(swap_of + pair, real, 0.0)
                        d = tl.load(kept + (pair - begin).to(tl.int64) * COLUMNS, real, 0.0)
                        g, h = tl.load(low, real, 0.0), tl.load(high, real, 0.0)
                        of_gate = tl.sum((g - h) * d, 1, keep_dims=True)
                        of_gate += tl.load(grad_of + pair, real, 0.0)
                        tl.store(grad_of + pair, of_gate, real)
                        tl.store(low, k * g + s * h, real)
                        tl.store(high, s * g + k * h, real)
                        p += PAIRS
                    stop = start
                    tl.debug_barrier()
                last = first
            if not IDENTITY:
                w = 0
                while w < n:
                    wire = (w + lane).to(tl.int64)
                    valid = (wire < n) & (column < c)
                    g = tl.load(at + wire * COLUMNS, wire < n, 0.0)
                    tl.store(grad_payload + whole + wire * c + column, g, valid)
                    w += PAIRS
                tl.debug_barrier()
            block += shares
        item += tl.num_programs(0)


# -------------------------------------------------------------------------------------------------
# Carry, wires in lanes
# -------------------------------------------------------------------------------------------------


@triton.jit
def from_partners(x, partner, WIRES: tl.constexpr, COLUMNS: tl.constexpr):
    """What the partner of every wire has, [WIRES, COLUMNS]."""
    return tl.gather(x, tl.broadcast_to(partner, (WIRES, COLUMNS)), 0)


@triton.jit
def met(keep, swap, partners, places, layer, wire, WIRES: tl.constexpr):
    """Whom every wire meets in a layer, the number of their comparator, and its gates."""
    partner = tl.load(partners + layer * WIRES + wire)
    place = tl.load(places + layer * WIRES + wire)
    k, s = tl.load(keep + place, place >= 0, 1.0), tl.load(swap + place, place >= 0, 0.0)
    return partner, place, k, s


@triton.jit
def swap_lanes(
    x, keep, swap, partners, places, depth, wire, differences,
    SAVE: tl.constexpr, WIRES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The wires x after all layers; if SAVE keep what each differs from its partner in a layer."""
    local = tl.arange(0, COLUMNS)[None, :]
    layer = 0
    while layer < depth:
        partner, _, k, s = met(keep, swap, partners, places, layer, wire, WIRES)
        other = from_partners(x, partner, WIRES, COLUMNS)
        if SAVE:
            tl.store(differences + local * WIRES + wire, x - other)
            differences += COLUMNS * WIRES
        x = k * x + s * other
        layer += 1
    return x


@triton.jit(do_not_specialize=["size", "depth", "blocks"])
def carry_lanes(
    keep, swap, partners, places, payload, out, n, c, size, depth, blocks,
    IDENTITY: tl.constexpr, WIRES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """As `carry`.

    partners, places [depth, WIRES]: whom a wire meets and the number of their comparator; itself
    and -1 where it is idle.
    """
    row = (tl.program_id(0) // blocks).to(tl.int64)
    column = tl.program_id(0) % blocks * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    wire = tl.arange(0, WIRES)[:, None]
    valid = (wire < n) & (column < c)
    keep += row * size
    swap += row * size
    x = entered(payload + row * n * c, wire, column, valid, c, IDENTITY)
    x = swap_lanes(x, keep, swap, partners, places, depth, wire, out, False, WIRES, COLUMNS)
    tl.store(out + row * n * c + wire * c + column, x, valid)


# Vectors of differences would span wires that lie in different lanes.
@triton.jit(
    do_not_specialize=["size", "depth", "blocks", "shares", "items"],
    do_not_specialize_on_alignment=["differences"],
)
def carry_lanes_gradients(
    keep, swap, partners, places, payload, grads, differences, grad_keep, grad_payload,
    n, c, size, depth, blocks, shares, items,
    IDENTITY: tl.constexpr, WIRES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """As `carry_gradients`. Scratch of a program: differences [depth, COLUMNS, WIRES]."""
    program = tl.program_id(0).to(tl.int64)
    local = tl.arange(0, COLUMNS)[None, :]
    wire = tl.arange(0, WIRES)[:, None]
    differences += program * depth * (COLUMNS * WIRES)
    item = program
    while item < items:
        row = item // shares
        share = (item % shares).to(tl.int32)
        keep_of, swap_of = keep + row * size, swap + row * size
        grad_of, whole = grad_keep + item * size, row * n * c
        block = share
        while block < blocks:
            column = block * COLUMNS + local
            valid = (wire < n) & (column < c)
            x = entered(payload + whole, wire, column, valid, c, IDENTITY)
            swap_lanes(
                x, keep_of, swap_of, partners, places, depth, wire, differences,
                True, WIRES, COLUMNS,
            )  # fmt: skip
            tl.debug_barrier()
            g = entered(grads + whole, wire, column, valid, c, False)
            kept, layer = differences + depth * (COLUMNS * WIRES), depth
            while layer > 0:
                kept -= COLUMNS * WIRES
                layer -= 1
                partner, place, k, s = met(keep_of, swap_of, partners, places, layer, wire, WIRES)
                d = tl.load(kept + local * WIRES + wire)
                other = from_partners(g, partner, WIRES, COLUMNS)
                of_gate = tl.sum((g - other) * d, 1, keep_dims=True)
                first = wire < partner  # both ends find the same sum
                of_gate += tl.load(grad_of + place, first, 0.0)
                tl.store(grad_of + place, of_gate, first)
                g = k * g + s * other
            if not IDENTITY:
                tl.store(grad_payload + whole + wire * c + column, g, valid)
            tl.debug_barrier()
            block += shares
        item += tl.num_programs(0)
