"""Sums over lists of entries: those of vertices over pixels, those of texels over lookups.

Entries, a pixel or a lookup each, are sorted by their segment, a triangle or a cell of a texture,
stably: in the order of the pixels. An entry has a value and, for each corner of its segment, a
weight. Blocks of K entries of one segment are summed up first, and K such blocks, so that a long
segment costs its row little. The sums of a row, a vertex or a texel, go through the segments of
which it is a corner. Nothing is added by two programs, and all orders are fixed: the same input
gives the same bits. Sums are float64.
"""

# Triton compiles these functions; their arguments are pointers, numbers and blocks.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

import triton
import triton.language as tl

# How entries are weighed: corners have values of their own; u, v and 1 - u - v; a table of four.
OWN, TRIANGLE, TABLE = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)


@triton.jit(do_not_specialize=["pixels", "size", "triangles", "none"])
def pixel_keys(
    ids, keys, pixels, size, triangles, none,
    STRIDE: tl.constexpr, COLUMN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The segments of pixels: triangles, through those of all images; `none` where nothing is seen.

    `ids` are integers, -1 for none, or as in `rast[..., 3]`; `size` is that of an image in pixels.
    """
    p = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    on = p < pixels
    t = tl.load(ids + p * STRIDE + COLUMN, on, 0)
    if COLUMN > 0:
        t = (t + 0.5).to(tl.int32) - 1
    key = tl.where(t >= 0, p // size * triangles + t, none)
    tl.store(keys + p, key.to(keys.dtype.element_ty), on)


@triton.jit(do_not_specialize=["entries", "segments"])
def segment_ends(keys, starts, stops, entries, segments, BLOCK: tl.constexpr):
    """Where the entries of each segment begin and end, for sorted keys; those without stay."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    on = i < entries
    key = tl.load(keys + i, on, 0).to(tl.int64)
    before = tl.load(keys + i - 1, on & (i > 0), 0).to(tl.int64)
    after = tl.load(keys + i + 1, on & (i + 1 < entries), 0).to(tl.int64)
    on = on & (key < segments)
    tl.store(starts + key, i.to(tl.int32), on & ((i == 0) | (before != key)))
    tl.store(stops + key, (i + 1).to(tl.int32), on & ((i + 1 == entries) | (after != key)))


@triton.jit
def _weight(weights, entry, corner, on, STRIDE: tl.constexpr, RULE: tl.constexpr):
    """The weight of entries for a corner."""
    if RULE == TRIANGLE:
        at = weights + entry * STRIDE
        u, v = tl.load(at, on, 0.0).to(tl.float64), tl.load(at + 1, on, 0.0).to(tl.float64)
        return tl.where(corner == 0, u, tl.where(corner == 1, v, 1.0 - u - v))
    else:
        return tl.load(weights + entry * STRIDE + corner, on, 0.0).to(tl.float64)


@triton.jit
def _weighed(
    values, weights, entry, corner, c, on, channels,
    CORNERS: tl.constexpr, STRIDE: tl.constexpr, RULE: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """Values of entries, times their weight for a corner; `c` and `on` have one dimension more."""
    there = on[:, :, None] & (c < channels)[None, None, :]
    if RULE == OWN:
        column = (corner * channels + tl.zeros_like(entry))[:, :, None] + c[None, None, :]
        at = (entry // SLOTS)[:, :, None] * (CORNERS * channels) + column
        return tl.load(values + at, there, 0.0).to(tl.float64)
    else:
        at = (entry // SLOTS)[:, :, None] * channels + c[None, None, :]
        weight = _weight(weights, entry, corner, on, STRIDE, RULE)
        return tl.load(values + at, there, 0.0).to(tl.float64) * weight[:, :, None]


@triton.jit(do_not_specialize=["entries", "segments", "channels"])
def block_sums(
    order, keys, values, weights, sums, entries, segments, channels,
    CORNERS: tl.constexpr, STRIDE: tl.constexpr, RULE: tl.constexpr, SLOTS: tl.constexpr,
    K: tl.constexpr, BLOCKS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The sums [entries / K, CORNERS, channels] of blocks of K entries that have one segment."""
    block = tl.program_id(0).to(tl.int64) * BLOCKS + tl.arange(0, BLOCKS)
    first = block * K
    whole = first + K <= entries
    key = tl.load(keys + first, whole, 0).to(tl.int64)
    whole = whole & (key < segments) & (tl.load(keys + first + K - 1, whole, 0).to(tl.int64) == key)
    if tl.max(whole.to(tl.int32)) > 0:
        on = whole[:, None] & (tl.arange(0, K) >= 0)[None, :]
        entry = tl.load(order + first[:, None] + tl.arange(0, K)[None, :], on, 0)
        start = 0
        while start < channels:
            c = start + tl.arange(0, WIDE)
            there = whole[:, None] & (c < channels)[None, :]
            for corner in tl.static_range(CORNERS):
                x = _weighed(
                    values, weights, entry, corner, c, on, channels, CORNERS, STRIDE, RULE, SLOTS
                )
                at = (block * CORNERS + corner)[:, None] * channels + c[None, :]
                tl.store(sums + at, tl.sum(x, 1), there)
            start += WIDE


@triton.jit(do_not_specialize=["entries", "segments", "columns"])
def upper_sums(
    keys, lower, sums, entries, segments, columns,
    K: tl.constexpr, BLOCKS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The sums [entries / K^2, columns] of K blocks of `block_sums` that have one segment."""
    block = tl.program_id(0).to(tl.int64) * BLOCKS + tl.arange(0, BLOCKS)
    first = block * (K * K)
    whole = first + K * K <= entries
    key = tl.load(keys + first, whole, 0).to(tl.int64)
    last = tl.load(keys + first + K * K - 1, whole, 0).to(tl.int64)
    whole = whole & (key < segments) & (last == key)
    if tl.max(whole.to(tl.int32)) > 0:
        row = (block * K)[:, None] + tl.arange(0, K)[None, :]
        start = 0
        while start < columns:
            c = start + tl.arange(0, WIDE)
            there = whole[:, None] & (c < columns)[None, :]
            full = there[:, None, :] & (row >= 0)[:, :, None]
            x = tl.load(lower + row[:, :, None] * columns + c[None, None, :], full, 0.0)
            tl.store(sums + block[:, None] * columns + c[None, :], tl.sum(x, 1), there)
            start += WIDE


@triton.jit
def _around(start, stop, K: tl.constexpr):
    """What of a range is outside of its whole blocks of K: how many before, and all; the blocks."""
    first, last = (start + K - 1) // K, stop // K
    some = first < last
    left = tl.where(some, first * K - start, stop - start)
    count = left + tl.where(some, stop - last * K, 0)
    return left, count, tl.where(some, first, 0), tl.where(some, last, 0)


@triton.jit
def _added(
    total, start, stop, corner, c, order, values, weights, sums, upper, channels,
    CORNERS: tl.constexpr, STRIDE: tl.constexpr, RULE: tl.constexpr, SLOTS: tl.constexpr,
    K: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """`total` [ROWS, LANES, WIDE] and what one corner of one segment per row has."""
    lane = tl.arange(0, LANES)[None, :]
    left, count, first, last = _around(start, stop, K)
    k, most = 0, tl.max(count)
    while k < most:
        i = k + lane
        on = i < count[:, None]
        i = tl.where(i < left[:, None], start[:, None] + i, (last * K - left)[:, None] + i)
        entry = tl.load(order + i, on, 0)
        total += _weighed(
            values, weights, entry, corner[:, None], c, on, channels, CORNERS, STRIDE, RULE, SLOTS
        )
        k += LANES
    below, count, high, end = _around(first, last, K)
    k, most = 0, tl.max(count)
    while k < most:
        i = k + lane
        on = (i < count[:, None])[:, :, None] & (c < channels)[None, None, :]
        i = tl.where(i < below[:, None], first[:, None] + i, (end * K - below)[:, None] + i)
        at = (i.to(tl.int64) * CORNERS + corner[:, None])[:, :, None] * channels + c[None, None, :]
        total += tl.load(sums + at, on, 0.0)
        k += LANES
    k, most = 0, tl.max(end - high)
    while k < most:
        i = high[:, None] + k + lane
        on = (i < end[:, None])[:, :, None] & (c < channels)[None, None, :]
        at = (i.to(tl.int64) * CORNERS + corner[:, None])[:, :, None] * channels + c[None, None, :]
        total += tl.load(upper + at, on, 0.0)
        k += LANES
    return total


@triton.jit(do_not_specialize=["vertices", "triangles", "images", "channels"])
def vertex_sums(
    offsets, corners, starts, stops, order, values, weights, sums, upper, out,
    vertices, triangles, images, channels,
    SHARED: tl.constexpr, STRIDE: tl.constexpr, RULE: tl.constexpr, K: tl.constexpr,
    ROWS: tl.constexpr, LANES: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The sums of vertices over the pixels of their triangles; program (vertices, image, channels).

    What it is given:
        offsets: [V + 1], where in
        corners: [3 T], 3 t + k in order of the vertex at the corner k of t, those of each begin.
        starts, stops: [N T], of segments.
        order: [pixels], sorted by them.
        values: [pixels, channels], or [pixels, 3, channels] if corners have their OWN.
        weights: [pixels, STRIDE], u and v first; not used by OWN values.
        sums, upper: of `block_sums` and `upper_sums`.
        out: [N, V, channels], or [V, channels] if all images have SHARED vertices.
    """
    v = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    image, c = tl.program_id(1), tl.program_id(2) * WIDE + tl.arange(0, WIDE)
    real = v < vertices
    entry = tl.load(offsets + v, real, 0)
    count = tl.load(offsets + v + 1, real, 0) - entry
    most = tl.max(count)
    total = tl.zeros([ROWS, LANES, WIDE], tl.float64)
    n, last = image, images if SHARED else image + 1  # the only program of SHARED vertices is 0
    while n < last:
        j = 0
        while j < most:
            there = j < count
            half = tl.load(corners + entry + j, there, 0)
            segment = n.to(tl.int64) * triangles + half // 3
            start = tl.load(starts + segment, there, 0)
            stop = tl.load(stops + segment, there, 0)
            total = _added(
                total, start, stop, half % 3, c, order, values, weights, sums, upper, channels,
                3, STRIDE, RULE, 1, K, LANES,
            )  # fmt: skip
            j += 1
        n += 1
    at = (image.to(tl.int64) * vertices + v)[:, None] * channels + c[None, :]
    on = real[:, None] & (c < channels)[None, :]
    tl.store(out + at, tl.sum(total, 1).to(out.dtype.element_ty), on)


@triton.jit(do_not_specialize=["texels", "of_all", "of_tex", "cells", "levels", "channels"])
def texel_sums(
    sizes, seams, starts, stops, order, values, weights, sums, upper, to_tex, to_mips,
    texels, of_all, of_tex, cells, levels, channels,
    WRAPS: tl.constexpr, CUBE: tl.constexpr, CORNERS: tl.constexpr, SLOTS: tl.constexpr,
    K: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The sums of texels over the lookups around them; program (texels, channels).

    A lookup lies in a cell, whose corners are the four texels around it. The cell of the texel in
    column i and row j of a face is (j + 1) (width + 1) + i + 1, so that those at the border have
    one. At a seam of a cube a texel is a corner of cells of the other face too.

    What it is given:
        sizes: [L, 4], of levels: the first texel of an image, height, width, the first cell.
        seams: as `cubes.SEAMS`.
        starts, stops: [B cells], of segments.
        order, values, weights, sums, upper: as `vertex_sums`, with four weights for each lookup.
        to_tex, to_mips: out, of the first level, and of the others.
        texels: of all images.
        of_all, of_tex: texels of an image, of all its levels and of the first.
        cells: of an image.
    """
    texel = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    real = texel < texels
    image, own = texel // of_all, texel % of_all
    level, k = tl.zeros([ROWS], tl.int32), 1
    while k < levels:
        level += (own >= tl.load(sizes + 4 * k)).to(tl.int32)
        k += 1
    at = sizes + 4 * level
    height, width = tl.load(at + 1, real, 1).to(tl.int32), tl.load(at + 2, real, 1).to(tl.int32)
    place = (own - tl.load(at, real, 0)).to(tl.int32)
    face, column = place // (height * width), place % width
    row = place // width % height
    base = image * cells + tl.load(at + 3, real, 0)
    total = tl.zeros([ROWS, LANES, WIDE], tl.float64)
    view = 0  # of the texel itself, and from over its four sides
    while view < (5 if CUBE else 1):
        there, f, i, j = real, face, column, row
        if CUBE:
            side = tl.maximum(view - 1, 0)
            along = tl.where(side < 2, row, column)
            edge = tl.where(side % 2 == 0, 0, width - 1)
            there = real & ((view == 0) | (tl.where(side < 2, column, row) == edge))
            seam = seams + (face * 4 + side) * 4
            beyond = there & (view > 0)
            f = tl.where(beyond, tl.load(seam, beyond, 0), face)
            across = tl.where(tl.load(seam + 2, beyond, 0) > 0, width, -1)
            along = tl.where(tl.load(seam + 3, beyond, 0) > 0, width - 1 - along, along)
            upright = tl.load(seam + 1, beyond, 0) == 0
            i = tl.where(beyond, tl.where(upright, across, along), column)
            j = tl.where(beyond, tl.where(upright, along, across), row)
        if tl.max(there.to(tl.int32)) > 0:
            for corner in tl.static_range(CORNERS):
                x, y = i - corner % 2, j - corner // 2
                if WRAPS:
                    x, y = tl.where(x < 0, width - 1, x), tl.where(y < 0, height - 1, y)
                on = there & (x >= -1) & (x < width) & (y >= -1) & (y < height)
                cell = base + (f * (height + 1) + y + 1).to(tl.int64) * (width + 1) + x + 1
                start, stop = tl.load(starts + cell, on, 0), tl.load(stops + cell, on, 0)
                total = _added(
                    total, start, stop, tl.full([ROWS], corner, tl.int32), c, order, values,
                    weights, sums, upper, channels, CORNERS, 4, TABLE, SLOTS, K, LANES,
                )  # fmt: skip
        view += 1
    found, on = tl.sum(total, 1), real[:, None] & (c < channels)[None, :]
    first = (own < of_tex)[:, None]
    kind = to_tex.dtype.element_ty
    at = (image * of_tex + own)[:, None] * channels + c[None, :]
    tl.store(to_tex + at, found.to(kind), on & first)
    at = (image * (of_all - of_tex) + own - of_tex)[:, None] * channels + c[None, :]
    tl.store(to_mips + at, found.to(kind), on & ~first)
