"""The Triton kernels of the projection onto the permutahedron, and of isotonic regression.

The problem is that of `gendr.sorting.backends.cpu.isotonic_kernels`: neighbours are pooled into
blocks until the levels of the blocks rise. One program works on a row. It pools stretches of 1, 2,
4, .. positions from the blocks of their halves, all stretches of a length at once: of two halves
whose levels rise, at most one new block comes about where they meet. It takes a number of the last
blocks of the left half and of the first ones of the right half, which two binary searches find,
one within the other: O(log^2 n) steps for a stretch, O(log^3 n) for a row however the values lie.
Pooling from one end to the other would take n steps, each of which waits for the one before.

A level is found from sums over all positions before, which are kept: of values in two float64 whose
sum has twice the digits; of exponentials relative to the last one, so that none overflows. Sums
have a fixed order, so that the same input gives the same bits.

Of the two vectors s and w whose levels differ, one is that of the input, z, and the other one has
sums in closed form: 1, 2, .. for ranks, multiples of the steepness for values, 0 for isotonic
regression. All arithmetic is float64.

Source: Best and Chakravarti, Active Set Algorithms for Isotonic Regression, 1990; that blocks of
halves are blocks of the whole, or parts of one, is why their order does not matter.
"""

# Triton compiles these functions; their arguments are blocks and pointers.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

import triton
import triton.language as tl

RANKS: tl.constexpr = tl.constexpr(0)
VALUES: tl.constexpr = tl.constexpr(1)
PLAIN: tl.constexpr = tl.constexpr(2)
# Sums of values, whatever they are, stay finite.
_SHRINK: tl.constexpr = tl.constexpr(2.0**-40)
_FAR: tl.constexpr = tl.constexpr(1e300)


@triton.jit
def add_pairs(a, low_a, b, low_b):
    """The sum of two numbers, each of which is the sum of two float64."""
    high = a + b
    v = high - a
    low = (a - (high - v)) + (b - v) + (low_a + low_b)
    total = high + low
    return total, low - (total - high)


@triton.jit
def add_decayed(decay_a, a, decay_b, b):
    """A sum of exponentials relative to the last, over both parts, and how it decays over them."""
    return decay_a * decay_b, a * decay_b + b


@triton.jit
def add_within(starts_a, t, u, starts_b, v, w):
    """Sums over the block that a part ends in."""
    anew = starts_b > 0
    return tl.maximum(starts_a, starts_b), tl.where(anew, v, t + v), tl.where(anew, w, u + w)


@triton.jit
def last_of(x, lane, LANES: tl.constexpr):
    """The last number of a block."""
    return tl.sum(tl.where(lane == LANES - 1, x, 0.0), 0)


@triton.jit
def expm1_below(x):
    """exp(x) - 1 for x <= 0, of any size, by Kahan's formula."""
    e = tl.exp(x)
    near = (x > -0.5) & (e < 1.0)
    kept = tl.where(near, e, 0.5)
    return tl.where(e == 1.0, x, tl.where(near, (kept - 1.0) * (x / tl.log(kept)), e - 1.0))


@triton.jit
def mean_of_input(z, sums, rests, a, b, valid, ENTROPIC: tl.constexpr):
    """The mean of z over a .. b - 1, or the logarithm of the sum of its exponentials less z[b - 1].

    See `project` for the tables.
    """
    if ENTROPIC:
        last = tl.load(z + b - 1, valid, 0.0)
        before = valid & (a > 0)
        # z ascends; of a block that begins at 0 nothing comes before, and -last may be any size.
        decay = tl.exp(tl.where(before, tl.load(z + a - 1, before, 0.0) - last, 0.0))
        total = tl.load(sums + b, valid, 1.0) - tl.load(sums + a, before, 0.0) * decay
        return tl.log(tl.maximum(total, 1.0))
    total = tl.load(sums + b, valid, 0.0) - tl.load(sums + a, valid, 0.0)
    total += tl.load(rests + b, valid, 0.0) - tl.load(rests + a, valid, 0.0)
    return total / tl.maximum(b - a, 1).to(tl.float64)


@triton.jit
def mean_of_other(a, b, steep, KIND: tl.constexpr, ENTROPIC: tl.constexpr):
    """The same of the vector that is not the input, over a .. b - 1."""
    first, end = a.to(tl.float64), b.to(tl.float64)
    if KIND == PLAIN:
        return first * 0.0
    if ENTROPIC:
        if KIND == RANKS:
            total = 0.5 * (end * (end + 1.0) - first * (first + 1.0))
            return tl.log(tl.maximum(total, 1.0))
        ratio = expm1_below(-steep * (end - first)) / expm1_below(-steep + first * 0.0)
        return tl.log(tl.maximum(ratio, 1.0))
    if KIND == RANKS:
        return 0.5 * (first + end + 1.0)
    return 0.5 * steep * (first + end - 1.0)


@triton.jit
def level_of(z, sums, rests, a, b, steep, valid, KIND: tl.constexpr, ENTROPIC: tl.constexpr):
    """The level of the block a .. b - 1."""
    own = mean_of_input(z, sums, rests, a, b, valid, ENTROPIC)
    other = mean_of_other(a, b, steep, KIND, ENTROPIC)
    if ENTROPIC:
        last = tl.load(z + b - 1, valid, 0.0)
        if KIND == RANKS:
            return last + (own - other)
        return (steep * (b - 1).to(tl.float64) - last) + (other - own)
    return other - own if KIND == VALUES else own - other


@triton.jit
def block_at(starts, j, count, end, valid):
    """Where the j-th block of a stretch begins; the end of the stretch for j = count."""
    inside = valid & (j < count)
    return tl.where(inside, tl.load(starts + j, inside, 0), end)


@triton.jit
def right_end(
    starts, count, end, a, z, sums, rests, steep, level, valid,
    KIND: tl.constexpr, ENTROPIC: tl.constexpr,
):  # fmt: skip
    """How many of the first blocks of the right half a block that begins at a takes.

    All up to the first one above the level that it has then.
    """
    first, after, step = tl.zeros_like(count), count, 0
    while step <= level:
        j = (first + after) // 2
        open_ = valid & (first < after)
        start = block_at(starts, j, count, end, open_)
        stop = block_at(starts, j + 1, count, end, open_)
        own = level_of(z, sums, rests, a, start, steep, open_ & (start > a), KIND, ENTROPIC)
        above = level_of(z, sums, rests, start, stop, steep, open_, KIND, ENTROPIC) > own
        after = tl.where(open_ & above, j, after)
        first = tl.where(open_ & (above == 0), j + 1, first)
        step += 1
    return first


@triton.jit(do_not_specialize=["n", "levels"])
def project(
    x, order, steepness, result, starts, ends, numbers, places, n, levels,
    KIND: tl.constexpr, ENTROPIC: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Project rows of x [rows, n], which `order` [rows, n] sorts, or which are taken as they are.

    Fills result [rows, n], in the order of x for ranks; and starts and ends [rows, n], the block of
    every sorted position. n is at most 2^levels. Scratch: numbers [rows, 3, n + 1] float64, which
    are z, the sums of it over all before (of exponentials, over all up to one, relative to it), and
    what these lack; places [rows, 5, n] int32, which are the starts of the blocks of stretches
    twice, and of every stretch how many they are, how many of the left half stay, and how many of
    the right one go.
    """
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    x += row * n
    order += row * n
    result += row * n
    starts += row * n
    ends += row * n
    z = numbers + row * 3 * (n + 1)
    sums, rests = z + (n + 1), z + 2 * (n + 1)
    lists = places + row * 5 * n
    others, counts = lists + n, lists + 2 * n
    stays, goes = lists + 3 * n, lists + 4 * n
    steep = tl.load(steepness)
    size = tl.cast(n, tl.float64)
    if KIND == VALUES:
        far = tl.full([], _FAR, tl.float64)
        steep = tl.minimum(steep, far / size) if ENTROPIC else steep * _SHRINK
    # Neighbours in s that are further apart are never in one block, as w spans less than that.
    widest = tl.log(size) + 1.0 if ENTROPIC else size
    zero = tl.zeros([LANES], tl.float64)
    at, sum_, rest, bad = tl.sum(zero, 0), tl.sum(zero, 0), tl.sum(zero, 0), 0
    i = 0
    while i < n:
        place = i + lane
        valid = place < n
        if KIND == PLAIN:
            key = tl.load(x + place, valid, 0.0).to(tl.float64)
        else:
            key = tl.load(x + tl.load(order + place, valid, 0), valid, 0.0).to(tl.float64)
        bad += tl.sum((key - key != 0.0).to(tl.int32), 0)
        if KIND == RANKS:
            follows = valid & (place > 0)
            before = tl.load(x + tl.load(order + place - 1, follows, 0), follows, 0.0)
            gap = tl.minimum(steep * (key - before.to(tl.float64)), widest)
            mine = at + tl.cumsum(tl.where(follows, gap, 0.0), 0)
        elif ENTROPIC:
            mine = key
        else:
            mine = key * _SHRINK
        tl.store(z + place, mine, valid)
        if KIND == RANKS:
            at = last_of(mine, lane, LANES)
        if not ENTROPIC:
            high, low = tl.associative_scan((tl.where(valid, mine, 0.0), zero), 0, add_pairs)
            high, low = add_pairs(sum_ + zero, rest + zero, high, low)
            tl.store(sums + place + 1, high, valid)
            tl.store(rests + place + 1, low, valid)
            sum_, rest = last_of(high, lane, LANES), last_of(low, lane, LANES)
        tl.store(lists + place, place, valid)
        tl.store(counts + place, tl.zeros([LANES], tl.int32) + 1, valid)
        i += LANES
    tl.store(sums + lane, zero, lane == 0)
    tl.store(rests + lane, zero, lane == 0)
    tl.debug_barrier()
    if ENTROPIC:
        i = 0
        while i < n:
            place = i + lane
            valid = place < n
            mine = tl.load(z + place, valid, 0.0)
            decay = tl.exp(tl.load(z + place - 1, valid & (place > 0), 0.0) - mine)
            decay = tl.where(valid & (place > 0), decay, tl.where(valid, 0.0, 1.0))
            decay, total = tl.associative_scan(
                (decay, tl.where(valid, 1.0, 0.0).to(tl.float64)), 0, add_decayed
            )
            total += sum_ * decay
            tl.store(sums + place + 1, total, valid)
            sum_ = last_of(total, lane, LANES)
            i += LANES
        tl.debug_barrier()
    level, half = 0, 1
    while level < levels:
        base = 0
        while base < n:
            low = base + lane * (2 * half)
            middle = low + half
            valid = middle < n
            end = tl.minimum(middle + half, n)
            left = tl.load(counts + low, valid, 0)
            right = tl.load(counts + middle, valid, 0)
            begins = tl.load(lists + low + left - 1, valid, 0)
            stops = block_at(lists + middle, left * 0 + 1, right, end, valid)
            meet = level_of(z, sums, rests, begins, middle, steep, valid, KIND, ENTROPIC)
            pooled = valid & (
                meet >= level_of(z, sums, rests, middle, stops, steep, valid, KIND, ENTROPIC)
            )
            # The first block of the left half that the new one need not go beyond.
            first, after, step = tl.zeros_like(left) + 1, left, 0
            while step < level:
                i_ = (first + after) // 2
                open_ = pooled & (first < after)
                a = tl.load(lists + low + i_, open_, 0)
                before = tl.load(lists + low + i_ - 1, open_, 0)
                taken = right_end(
                    lists + middle, right, end, a, z, sums, rests, steep, level, open_, KIND,
                    ENTROPIC,
                )  # fmt: skip
                b = block_at(lists + middle, taken, right, end, open_)
                beyond = level_of(
                    z, sums, rests, before, a, steep, open_, KIND, ENTROPIC
                ) >= level_of(z, sums, rests, a, b, steep, open_, KIND, ENTROPIC)
                after = tl.where(open_ & beyond, i_, after)
                first = tl.where(open_ & (beyond == 0), i_ + 1, first)
                step += 1
            a = tl.load(lists + low + first - 1, pooled, 0)
            taken = right_end(
                lists + middle, right, end, a, z, sums, rests, steep, level, pooled, KIND, ENTROPIC
            )
            stay = tl.where(pooled, first, left)
            tl.store(stays + low, stay, valid)
            tl.store(goes + low, taken, valid)
            tl.store(counts + low, stay + right - taken, valid)
            base += LANES * 2 * half
        tl.debug_barrier()
        i = 0
        while i < n:
            place = i + lane
            low = place // (2 * half) * (2 * half)
            middle = low + half
            merged = middle < n
            valid = (place < n) & (place - low < tl.load(counts + low, place < n, 0))
            stay = tl.load(stays + low, valid & merged, 0)
            moved = merged & (place - low >= stay)
            source = middle + (place - low - stay) + tl.load(goes + low, valid & moved, 0)
            source = tl.where(moved, source, place)
            tl.store(others + place, tl.load(lists + source, valid, 0), valid)
            i += LANES
        tl.debug_barrier()
        lists, others = others, lists
        half *= 2
        level += 1
    count = tl.load(counts)
    i = 0
    while i < n:
        place = i + lane
        valid = place < n
        first, after, step = tl.zeros_like(place), tl.zeros_like(place) + count, 0
        while step <= levels:  # the first block that begins after a place
            middle = (first + after) // 2
            open_ = valid & (first < after)
            is_after = tl.load(lists + middle, open_, 0) > place
            after = tl.where(open_ & is_after, middle, after)
            first = tl.where(open_ & (is_after == 0), middle + 1, first)
            step += 1
        a = tl.load(lists + first - 1, valid, 0)
        b = block_at(lists, first, count, n, valid)
        tl.store(starts + place, a, valid)
        tl.store(ends + place, b, valid)
        own = mean_of_input(z, sums, rests, a, b, valid, ENTROPIC)
        other = mean_of_other(a, b, steep, KIND, ENTROPIC)
        alone = b - a == 1
        if KIND == PLAIN:
            key = tl.load(x + place, valid, 0.0).to(tl.float64)
            out = tl.where(alone, key, own / _SHRINK)
            at_ = place.to(tl.int64)
        else:
            sorted_ = tl.load(order + place, valid, 0)
            last = tl.load(z + b - 1, valid, 0.0)
            mine = tl.load(z + place, valid, 0.0)
            if KIND == RANKS:
                rank = (place + 1).to(tl.float64)
                if ENTROPIC:
                    out = tl.exp((mine - last) + (other - own))
                else:
                    out = other + (mine - own)
                out = tl.where(alone, rank, out)
                at_ = sorted_
            else:
                if ENTROPIC:
                    out = last + ((place - (b - 1)).to(tl.float64) * steep + (own - other))
                else:
                    out = (own + (steep * place.to(tl.float64) - other)) / _SHRINK
                key = tl.load(x + sorted_, valid, 0.0).to(tl.float64)
                out = tl.where(alone, key, out)
                at_ = place.to(tl.int64)
        out = tl.where(bad > 0, float("nan"), out)
        tl.store(result + at_, out.to(result.dtype.element_ty), valid)
        i += LANES


@triton.jit(do_not_specialize=["n"])
def project_gradients(
    grads, x, order, starts, ends, steepness, found, scratch, n,
    KIND: tl.constexpr, ENTROPIC: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The gradient of x, `found` [rows, n], from that of the result.

    x [rows, n] are the ranks themselves for entropic ranks, in their order; else the input. Scratch
    [rows, 2, n] float64: sums over blocks, of gradients times their shares, and of shares.
    """
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    grads += row * n
    x += row * n
    order += row * n
    starts += row * n
    ends += row * n
    found += row * n
    totals = scratch + row * 2 * n
    weights = totals + n
    steep = tl.load(steepness)
    zero = tl.sum(tl.zeros([LANES], tl.float64), 0)
    total, weight, i = zero, zero, 0
    while i < n:
        place = i + lane
        valid = place < n
        at = place.to(tl.int64) if KIND == PLAIN else tl.load(order + place, valid, 0)
        g = tl.load(grads + (at if KIND == RANKS else place), valid, 0.0).to(tl.float64)
        share = tl.where(valid, 1.0, 0.0).to(tl.float64)
        if ENTROPIC:
            share = tl.load(x + at, valid, 0.0).to(tl.float64)
            if KIND == VALUES:
                last = tl.load(order + tl.load(ends + place, valid, 1) - 1, valid, 0)
                share = tl.exp(share - tl.load(x + last, valid, 0.0).to(tl.float64))
                share = tl.where(valid, share, 0.0)
        begins = (tl.load(starts + place, valid, 0) == place).to(tl.int32)
        product = g * share if KIND == RANKS else g
        begun, totals_, weights_ = tl.associative_scan((begins, product, share), 0, add_within)
        totals_ = tl.where(begun > 0, totals_, total + totals_)
        weights_ = tl.where(begun > 0, weights_, weight + weights_)
        tl.store(totals + place, totals_, valid)
        tl.store(weights + place, weights_, valid)
        total, weight = last_of(totals_, lane, LANES), last_of(weights_, lane, LANES)
        i += LANES
    tl.debug_barrier()
    i = 0
    while i < n:
        place = i + lane
        valid = place < n
        at = place.to(tl.int64) if KIND == PLAIN else tl.load(order + place, valid, 0)
        a, b = tl.load(starts + place, valid, 0), tl.load(ends + place, valid, 1)
        sum_ = tl.load(totals + b - 1, valid, 0.0)
        weight_ = tl.load(weights + b - 1, valid, 1.0)
        share = tl.zeros([LANES], tl.float64) + 1.0
        if ENTROPIC:
            share = tl.load(x + at, valid, 0.0).to(tl.float64)
            if KIND == VALUES:
                last = tl.load(x + tl.load(order + b - 1, valid, 0), valid, 0.0)
                share = tl.exp(share - last.to(tl.float64))
        if KIND == RANKS:
            g = tl.load(grads + at, valid, 0.0).to(tl.float64)
            out = tl.where(b - a == 1, 0.0, steep * share * (g - sum_ / weight_))
        else:
            out = sum_ * (share / weight_)
        tl.store(found + at, out.to(found.dtype.element_ty), valid)
        i += LANES
