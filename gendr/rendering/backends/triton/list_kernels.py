"""The Triton kernels that list the faces of tiles: in order, without a sort, without the host.

The faces of an image are cut into chunks, its tiles into groups of GROUP x GROUP. `count_faces`
counts the faces of each chunk on each tile of a group, [chunks, tiles]; `prefix_chunks` turns the
counts of a tile into those of the chunks before; `scan_tiles` gives every tile its place; and
`fill_lists` writes the faces there. A program knows its places from sums alone, so that entries
stand in the order of the faces whichever program runs first, and nothing is added by atomics.
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
        chunks: [C, 4], image, first face, last face + 1, and whether it is the image's first.
        counts: [C, tiles of an image], out.
        rows, columns: of tiles of an image.
        LOOK: faces that are compared with the group at once.
        BLOCK: those that are compared with its tiles at once.
    """
    chunk, group = tl.program_id(0), tl.program_id(1)
    k, last = tl.load(chunks + chunk * 4 + 1), tl.load(chunks + chunk * 4 + 2)
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


@triton.jit(do_not_specialize=["tiles", "every", "capacity", "extra"])
def scan_tiles(
    totals, offsets, starts, stops, segments, tile_of_segment, needed,
    tiles, every, capacity, extra, SEGMENT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Where the list of every tile starts and stops, and its segments. One program.

    A tile whose list ends beyond the capacity walks all faces of its image instead: its start is
    -1 - the first of them, its stop the last + 1. A list is worked on in segments of SEGMENT faces:
    the first by the tile's own program, each of the others by an extra one, if there are enough.

    What it is given:
        totals: [B, tiles], faces of each tile.
        offsets: [B + 1], first faces of images.
        starts, stops: [B, tiles], out.
        segments: [B, tiles], out: the first extra segment, -1 if the tile has none.
        tile_of_segment: [extra], out: -1, until `fill_lists` names the tiles.
        needed: [2] int64, out: the capacity and the extra segments that all lists need.
        tiles: of an image.
        every: B tiles.
        capacity: entries that there is room for.
        extra: segments that there are extra programs for.
    """
    k = 0
    while k < extra:
        e = k + tl.arange(0, BLOCK)
        tl.store(tile_of_segment + e, tl.zeros_like(e) - 1, e < extra)
        k += BLOCK
    end, last_segment = tl.zeros([], tl.int64), tl.zeros([], tl.int64)
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
        more = tl.where(n > SEGMENT, (n - 1) // SEGMENT, 0)
        past = last_segment + tl.cumsum(more, 0)
        cut = (more > 0) & fits & (past <= extra)
        tl.store(segments + tile, tl.where(cut, past - more, -1).to(tl.int32), on)
        end += tl.sum(n, 0)
        last_segment += tl.sum(more, 0)
        k += BLOCK
    tl.store(needed, end)
    tl.store(needed + 1, last_segment)


@triton.jit(do_not_specialize=["rows", "columns"])
def fill_lists(
    boxes, chunks, counts, starts, stops, segments, tile_of_segment, list_of_faces, rows, columns,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, LOOK: tl.constexpr, BLOCK: tl.constexpr,
    SEGMENT: tl.constexpr,
):  # fmt: skip
    """The faces of a chunk, in order, in the lists of the tiles of a group; as `count_faces`.

    What it is given:
        boxes, chunks: as there.
        counts: [C, tiles], as `prefix_chunks` leaves them.
        starts, stops, segments: [B, tiles], of `scan_tiles`.
        tile_of_segment: [extra], out where there are segments.
        list_of_faces: [capacity], out.
        rows, columns: of tiles of an image.
        LOOK, BLOCK: as there.
        SEGMENT: as for `scan_tiles`.
    """
    chunk, group = tl.program_id(0), tl.program_id(1)
    image = tl.load(chunks + chunk * 4).to(tl.int64)
    k, last = tl.load(chunks + chunk * 4 + 1), tl.load(chunks + chunk * 4 + 2)
    row, column, tile, on = _tiles_of(group, rows, columns)
    of_batch = image * rows * columns + tile
    start = tl.load(starts + of_batch, on, -1)
    if tl.load(chunks + chunk * 4 + 3) != 0:
        segment = tl.load(segments + of_batch, on, -1)
        more = tl.where(segment >= 0, (tl.load(stops + of_batch, on, 0) - start - 1) // SEGMENT, 0)
        most = tl.max(more, 0)
        j = 0
        while j < most:
            tl.store(tile_of_segment + segment + j, of_batch.to(tl.int32), j < more)
            j += 1
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
# Pieces of large faces
# -------------------------------------------------------------------------------------------------


@triton.jit
def _more_pieces(boxes, f, valid, size):
    """How many pieces of so many pixels the box of a face has after the first."""
    across = tl.load(boxes + f * 4 + 1, valid, 0) - tl.load(boxes + f * 4, valid, 0)
    down = tl.load(boxes + f * 4 + 3, valid, 0) - tl.load(boxes + f * 4 + 2, valid, 0)
    return tl.maximum(across * down - 1, 0) // size


@triton.jit(do_not_specialize=["faces"])
def count_pieces(boxes, sums, faces, PIECE: tl.constexpr, BLOCK: tl.constexpr):
    """The pieces that BLOCK faces have after their first, for pieces of four sizes.

    What it is given:
        boxes: [T, 4].
        sums: [blocks, 4], out: for pieces of PIECE, 4 PIECE, 16 PIECE and 64 PIECE pixels.
        faces: T.
    """
    f = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    where = sums + tl.program_id(0) * 4
    for level in tl.static_range(4):
        tl.store(where + level, tl.sum(_more_pieces(boxes, f, f < faces, PIECE * 4**level), 0))


@triton.jit(do_not_specialize=["faces", "blocks", "extra"])
def list_pieces(
    boxes, sums, pieces, faces, blocks, extra,
    PIECE: tl.constexpr, BLOCK: tl.constexpr, BLOCK_SUMS: tl.constexpr,
):  # fmt: skip
    """Cut the boxes of large faces into pieces, of the smallest size that there is room for.

    What it is given:
        boxes, sums: as `count_pieces`.
        pieces: [2 + T + extra], out: pixels of a piece, and how many extra pieces there are; the
            first extra piece of every face, -1 if it has none; the face of every extra piece.
        faces: T.
        blocks: of `count_pieces`.
        extra: pieces that there is room for. If not even the largest fit, there are none.
    """
    program = tl.program_id(0)
    size, total, before = 0, tl.zeros([], tl.int64), tl.zeros([], tl.int64)
    for turn in tl.static_range(4):  # from the largest; the smallest that fits stays
        every, own = tl.zeros([], tl.int64), tl.zeros([], tl.int64)
        k = 0
        while k < blocks:
            block = k + tl.arange(0, BLOCK_SUMS)
            n = tl.load(sums + block * 4 + (3 - turn), block < blocks, 0).to(tl.int64)
            every += tl.sum(n, 0)
            own += tl.sum(tl.where(block < program, n, 0), 0)
            k += BLOCK_SUMS
        fits = every <= extra
        size = tl.where(fits, PIECE * 4 ** (3 - turn), size)
        total, before = tl.where(fits, every, total), tl.where(fits, own, before)
    f = program * BLOCK + tl.arange(0, BLOCK)
    more = tl.where(size > 0, _more_pieces(boxes, f, f < faces, tl.maximum(size, 1)), 0)
    first = before.to(tl.int32) + tl.cumsum(more, 0) - more
    tl.store(pieces + 2 + f, tl.where(more > 0, first, -1), f < faces)
    most = tl.max(more, 0)
    j = 0
    while j < most:
        tl.store(pieces + 2 + faces + first + j, f, j < more)
        j += 1
    if program == 0:
        tl.store(pieces, size)
        tl.store(pieces + 1, total.to(tl.int32))


@triton.jit(do_not_specialize=["faces"])
def join_pieces(
    boxes, pieces, parts, faces,
    COLUMNS: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add the rows of its extra pieces to the row of a face; the program of its first one does.

    What it is given:
        boxes, pieces: of `list_pieces`.
        parts: [T + extra, COLUMNS], in place: those of faces, then those of extra pieces.
        faces: T.
        WIDE: COLUMNS or more, a power of two.
    """
    piece = tl.program_id(0)
    if piece < tl.load(pieces + 1):
        f = tl.load(pieces + 2 + faces + piece).to(tl.int64)
        if tl.load(pieces + 2 + f) == piece:
            last = piece + _more_pieces(boxes, f, True, tl.load(pieces))
            column = tl.arange(0, WIDE)
            on = column < COLUMNS
            total = tl.load(parts + f * COLUMNS + column, on, 0.0)
            k = piece
            while k < last:
                i = k + tl.arange(0, BLOCK)
                row = (faces + i).to(tl.int64)[:, None] * COLUMNS + column[None, :]
                total += tl.sum(tl.load(parts + row, (i < last)[:, None] & on[None, :], 0.0), 0)
                k += BLOCK
            tl.store(parts + f * COLUMNS + column, total, on)
