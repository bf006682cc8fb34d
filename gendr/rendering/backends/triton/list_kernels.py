"""The Triton kernels that list the faces of tiles: in order, without a sort, without the host.

The faces of an image are cut into chunks, its tiles into groups of GROUP x GROUP. `count_faces`
counts the faces of each chunk on each tile of a group, [chunks, tiles]; `prefix_chunks` turns the
counts of a tile into those of the chunks before; `scan_tiles` gives every tile its place; and
`fill_lists` writes the faces there. A program knows its places from sums alone, so that entries
stand in the order of the faces whichever program runs first, and nothing is added by atomics.

`count_tiles` and `list_tiles` are for tiles of one pixel: fragments, whose number the host must
know. They list face by face, to be sorted by tile.
"""

from __future__ import annotations

import triton
import triton.language as tl

GROUP = tl.constexpr(8)  # tiles of a group, high and wide

# -------------------------------------------------------------------------------------------------
# Tiles
# -------------------------------------------------------------------------------------------------


@triton.jit
def _tiles_of(group, rows, columns):
    """Row, column and number in the image of the tiles [GROUP * GROUP] of a group; which exist."""
    across = (columns + GROUP - 1) // GROUP
    k = tl.arange(0, GROUP * GROUP)
    row = (group // across) * GROUP + k // GROUP
    column = (group % across) * GROUP + k % GROUP
    return row, column, row * columns + column, (row < rows) & (column < columns)


@triton.jit
def _meets_group(
    boxes, first, last, group, columns,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, LOOK: tl.constexpr,
):  # fmt: skip
    """Whether any of the faces first .. first + LOOK - 1 before last touches a group of tiles."""
    across = (columns + GROUP - 1) // GROUP
    top, left = (group // across) * (GROUP * TILE_H), (group % across) * (GROUP * TILE_W)
    f = first + tl.arange(0, LOOK)
    valid = f < last
    x0, x1 = tl.load(boxes + f * 4, valid, 0), tl.load(boxes + f * 4 + 1, valid, 0)
    y0, y1 = tl.load(boxes + f * 4 + 2, valid, 0), tl.load(boxes + f * 4 + 3, valid, 0)
    meets = (x0 < left + GROUP * TILE_W) & (x1 > left) & (y0 < top + GROUP * TILE_H) & (y1 > top)
    return tl.max(meets.to(tl.int32), 0) > 0


@triton.jit
def _touches(
    boxes, first, last, row, column, on,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Which faces from `first` on touch which tiles, [BLOCK, tiles] int32; and the faces [BLOCK].

    The box of an absent face is empty, [0, 0) x [0, 0), and touches nothing.
    """
    f = first + tl.arange(0, BLOCK)
    valid = f < last
    x0, x1 = tl.load(boxes + f * 4, valid, 0), tl.load(boxes + f * 4 + 1, valid, 0)
    y0, y1 = tl.load(boxes + f * 4 + 2, valid, 0), tl.load(boxes + f * 4 + 3, valid, 0)
    left, top = (column * TILE_W)[None, :], (row * TILE_H)[None, :]
    beside = (x0[:, None] < left + TILE_W) & (x1[:, None] > left)
    above = (y0[:, None] < top + TILE_H) & (y1[:, None] > top)
    return (beside & above & on[None, :]).to(tl.int32), f


# -------------------------------------------------------------------------------------------------
# Lists in order
# -------------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["rows", "columns"])
def count_faces(
    boxes, chunks, counts, rows, columns,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, LOOK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """How many faces of a chunk touch each tile of a group; program (chunk, group).

    What it is given:
        boxes: [T, 4], x0, x1, y0, y1.
        chunks: [C, 3], image, first face and last face + 1.
        counts: [C, tiles of an image], out.
        rows, columns: of tiles of an image.
        LOOK: faces that are compared with the group at once.
        BLOCK: those that are compared with its tiles at once.
    """
    chunk, group = tl.program_id(0), tl.program_id(1)
    k, last = tl.load(chunks + chunk * 3 + 1), tl.load(chunks + chunk * 3 + 2)
    row, column, tile, on = _tiles_of(group, rows, columns)
    found = tl.zeros([GROUP * GROUP], tl.int32)
    while k < last:
        if _meets_group(boxes, k, last, group, columns, TILE_H, TILE_W, LOOK):
            first, end = k, tl.minimum(k + LOOK, last)
            while first < end:
                hits, _ = _touches(boxes, first, end, row, column, on, TILE_H, TILE_W, BLOCK)
                found += tl.sum(hits, 0)
                first += BLOCK
        k += LOOK
    tl.store(counts + chunk.to(tl.int64) * rows * columns + tile, found, on)


@triton.jit(do_not_specialize=["tiles"])
def prefix_chunks(
    counts, first_chunks, totals, tiles, BLOCK_CHUNKS: tl.constexpr, BLOCK_TILES: tl.constexpr
):
    """Counts become sums over the chunks of the same image before; program (tiles, image).

    What it is given:
        counts: [C, tiles], in place.
        first_chunks: [B + 1], of the images.
        totals: [B, tiles], out: faces of each tile.
        tiles: of an image.
    """
    image = tl.program_id(1)
    tile = tl.program_id(0) * BLOCK_TILES + tl.arange(0, BLOCK_TILES)
    on = tile < tiles
    k, last = tl.load(first_chunks + image), tl.load(first_chunks + image + 1)
    total = tl.zeros([BLOCK_TILES], tl.int32)
    while k < last:
        chunk = k + tl.arange(0, BLOCK_CHUNKS)
        there = (chunk < last)[:, None] & on[None, :]
        where = counts + chunk.to(tl.int64)[:, None] * tiles + tile[None, :]
        n = tl.load(where, there, 0)
        tl.store(where, total[None, :] + tl.cumsum(n, 0) - n, there)
        total += tl.sum(n, 0)
        k += BLOCK_CHUNKS
    tl.store(totals + image.to(tl.int64) * tiles + tile, total, on)


@triton.jit(do_not_specialize=["tiles", "every", "capacity"])
def scan_tiles(totals, offsets, starts, stops, needed, tiles, every, capacity, BLOCK: tl.constexpr):
    """Where the list of every tile starts and stops. One program.

    A tile whose list ends beyond the capacity walks all faces of its image instead: its start is
    -1 - the first of them, its stop the last + 1.

    What it is given:
        totals: [B, tiles], faces of each tile.
        offsets: [B + 1], first faces of images.
        starts, stops: [B, tiles], out.
        needed: [1] int64, out: the capacity that all lists need.
        tiles: of an image.
        every: B tiles.
        capacity: entries that there is room for.
    """
    end = tl.zeros([], tl.int64)
    k = 0
    while k < every:
        tile = k + tl.arange(0, BLOCK)
        on = tile < every
        n = tl.load(totals + tile, on, 0).to(tl.int64)
        stop = end + tl.cumsum(n, 0)
        fits, image = stop <= capacity, tile // tiles
        first, last = tl.load(offsets + image, on, 0), tl.load(offsets + image + 1, on, 0)
        start = tl.where(fits, stop - n, -1 - first)
        tl.store(starts + tile, tl.where(n > 0, start, 0).to(tl.int32), on)
        tl.store(stops + tile, tl.where(n > 0, tl.where(fits, stop, last), 0).to(tl.int32), on)
        end += tl.sum(n, 0)
        k += BLOCK
    tl.store(needed, end)


@triton.jit(do_not_specialize=["rows", "columns"])
def fill_lists(
    boxes, chunks, counts, starts, list_of_faces, rows, columns,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, LOOK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The faces of a chunk, in order, in the lists of the tiles of a group; as `count_faces`.

    What it is given:
        boxes, chunks: as there.
        counts: [C, tiles], as `prefix_chunks` leaves them.
        starts: [B, tiles]; negative for tiles that have no list.
        list_of_faces: [capacity], out.
        rows, columns: of tiles of an image.
        LOOK, BLOCK: as there.
    """
    chunk, group = tl.program_id(0), tl.program_id(1)
    image = tl.load(chunks + chunk * 3).to(tl.int64)
    k, last = tl.load(chunks + chunk * 3 + 1), tl.load(chunks + chunk * 3 + 2)
    row, column, tile, on = _tiles_of(group, rows, columns)
    start = tl.load(starts + image * rows * columns + tile, on, -1)
    on = on & (start >= 0)
    place = start + tl.load(counts + chunk.to(tl.int64) * rows * columns + tile, on, 0)
    while k < last:
        if _meets_group(boxes, k, last, group, columns, TILE_H, TILE_W, LOOK):
            first, end = k, tl.minimum(k + LOOK, last)
            while first < end:
                hits, f = _touches(boxes, first, end, row, column, on, TILE_H, TILE_W, BLOCK)
                slot = place[None, :] + tl.cumsum(hits, 0) - hits
                tl.store(list_of_faces + slot, f[:, None] + tl.zeros_like(hits), hits > 0)
                place += tl.sum(hits, 0)
                first += BLOCK
        k += LOOK


# -------------------------------------------------------------------------------------------------
# Lists face by face
# -------------------------------------------------------------------------------------------------


@triton.jit
def _tile_box(boxes, f, valid, row_first, row_last, TILE_H: tl.constexpr, TILE_W: tl.constexpr):
    """First column and row of tiles, columns and number of the tiles that a face's box touches."""
    x0, x1 = tl.load(boxes + f * 4, valid, 0), tl.load(boxes + f * 4 + 1, valid, 0)
    y0, y1 = tl.load(boxes + f * 4 + 2, valid, 0), tl.load(boxes + f * 4 + 3, valid, 0)
    column, row = x0 // TILE_W, tl.maximum(y0 // TILE_H, row_first)
    columns = (x1 + TILE_W - 1) // TILE_W - column
    rows = tl.minimum((y1 + TILE_H - 1) // TILE_H, row_last) - row
    return column, row, columns, tl.where(x1 > x0, columns * tl.maximum(rows, 0), 0)


@triton.jit(do_not_specialize=["faces", "row_first", "row_last"])
def count_tiles(
    boxes, counts, faces, row_first, row_last,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """First pass: how many tiles of the rows of tiles row_first .. row_last - 1 a face touches."""
    f = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = f < faces
    _, _, _, count = _tile_box(boxes, f, valid, row_first, row_last, TILE_H, TILE_W)
    tl.store(counts + f, count, valid)


@triton.jit(do_not_specialize=["first_face", "rows", "columns", "row_first", "row_last"])
def list_tiles(
    boxes, image_of_face, ends, tile_of_entry, face_of_entry,
    first_face, rows, columns, row_first, row_last,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Second pass: the tiles of face first_face + i, in its own slot, which ends at ends[i]."""
    f = first_face + tl.program_id(0)
    column, row, across, count = _tile_box(boxes, f, True, row_first, row_last, TILE_H, TILE_W)
    image = tl.load(image_of_face + f)
    slot = tl.load(ends + tl.program_id(0)) - count
    first = 0
    while first < count:
        k = first + tl.arange(0, BLOCK)
        across_or_one = tl.maximum(across, 1)
        tile = (row + k // across_or_one) * columns + column + k % across_or_one
        tl.store(tile_of_entry + slot + k, image * rows * columns + tile, k < count)
        tl.store(face_of_entry + slot + k, tl.zeros_like(k) + f, k < count)
        first += BLOCK
