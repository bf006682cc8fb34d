"""What the kernels share: columns of tables, pixels, distance and coverage, sums.

Functions that kernels call; Triton compiles them into each. Arguments that stand for tables are
pointers to them, `image` one to the row of an image.
"""

# Triton compiles these functions; their arguments are blocks and pointers.
# pyright: reportMissingParameterType=false

from __future__ import annotations

import triton
import triton.language as tl

from gendr.kernels.triton.mathematics import power
from gendr.rendering.geometry import BEYOND

# Columns of the float32 table with one row per image.
SCALE = tl.constexpr(0)
SHIFT = tl.constexpr(1)
RADIUS = tl.constexpr(2)
FAMILY_P = tl.constexpr(3)
SHAPE = tl.constexpr(4)
CONSTANT = tl.constexpr(5)
PSI = tl.constexpr(6)
REVERSED = tl.constexpr(7)
SQUARED = tl.constexpr(8)
ART = tl.constexpr(9)
CUTOFF = tl.constexpr(10)
RATE = tl.constexpr(11)
BACKDROP = tl.constexpr(12)
IMAGE_COLUMNS = tl.constexpr(13)

# Columns of the gradients of a face's image.
GRAD_SCALE = tl.constexpr(0)
GRAD_SHIFT = tl.constexpr(1)
GRAD_SHAPE = tl.constexpr(2)
GRAD_LAST = tl.constexpr(3)  # p for silhouettes, the rate for colours
GRAD_COLUMNS = tl.constexpr(4)

# Columns of the float32 table with one row per face: first four sides of SIDE_COLUMNS each. Side k
# runs from corner k to the next one; its direction is turned so that the face lies to its left.
CORNER = tl.constexpr(0)  # x, y of corner k
MIDDLE = tl.constexpr(2)  # x, y of the middle of the side, rounded
DIRECTION = tl.constexpr(4)  # x, y, of length 1; 0 for a side without length
HALF = tl.constexpr(6)  # half its length
OFFSET = tl.constexpr(7)  # height of the rounded middle over the side; `_FAR` without length
SIDE_COLUMNS = tl.constexpr(8)
SIDES = tl.constexpr(32)  # 3 or 4, or 0 for a face that is not there
CEILING = tl.constexpr(33)  # no height counts more: a number below 0 for a face without area
TURN = tl.constexpr(34)  # 1, or -1 where directions were turned
FACE_COLUMNS = tl.constexpr(36)  # the last is not used

# How faces are joined.
ARCHIMEDEAN = tl.constexpr(0)
MAXIMUM = tl.constexpr(1)
MEAN = tl.constexpr(2)
PRODUCT = tl.constexpr(3)
SCALED = tl.constexpr(4)  # as ARCHIMEDEAN, of powers; (total, other) are the largest and the sum

# A face whose first corner lies beyond this is not there; `geometry.can_leave_out` says why.
ABSENT = tl.constexpr(BEYOND)
SHORTEST = tl.constexpr(1e-36)  # an edge whose squared length is below it is a point
_FAR = tl.constexpr(1e30)
_CORNERS = tl.constexpr(4)  # the number of corner 0 among what may be nearest; sides come first


# -------------------------------------------------------------------------------------------------
# Pixels
# -------------------------------------------------------------------------------------------------


@triton.jit
def _quotient(a, b, inverse):
    """The quotient a / b, rounded correctly; `inverse` is 1 / b, rounded correctly.

    Source: Markstein, IA-64 and Elementary Functions (2000), theorem 8.1.
    """
    q = a * inverse
    return tl.fma(tl.fma(-q, b, a), inverse, q)


@triton.jit
def _centre(index, count, side, dtype: tl.constexpr):
    """NDC of the centre of a pixel by its number from the left, [...], of so many."""
    far = (2 * index + 1 - count).to(dtype)
    below = tl.zeros_like(far) + side.to(dtype)
    if dtype == tl.float64:
        out = far / below
    else:
        out = _quotient(far, below, tl.div_rn(1.0, below))
    return out


@triton.jit
def tile_pixels(
    tile, height, width, dtype: tl.constexpr,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, BLOCK_FACES: tl.constexpr,
):  # fmt: skip
    """The pixels of a tile, by rows and columns: what is the same for all of either is found once.

    Returns:
        Its image; its pixels [TILE_H, TILE_W], and which of them are on the image; the x of the
        centres of columns [1, TILE_W], and the y of rows [TILE_H, 1]. If faces are taken in blocks,
        x and y have a dimension for them in front.
    """
    columns = (width + TILE_W - 1) // TILE_W
    tiles = (height + TILE_H - 1) // TILE_H * columns
    image = tile // tiles
    local = tile % tiles
    row = (local // columns) * TILE_H + tl.arange(0, TILE_H)
    column = (local % columns) * TILE_W + tl.arange(0, TILE_W)
    on = (row < height)[:, None] & (column < width)[None, :]
    pixels = image.to(tl.int64) * height * width + (row * width)[:, None] + column[None, :]
    side = tl.minimum(height, width)
    x = _centre(column, width, side, dtype)
    y = _centre(height - 1 - row, height, side, dtype)
    if BLOCK_FACES > 1:
        x, y = x[None, None, :], y[None, :, None]
    else:
        x, y = x[None, :], y[:, None]
    return image, pixels, on, x, y


@triton.jit
def per_pixel(
    dtype: tl.constexpr, TILE_H: tl.constexpr, TILE_W: tl.constexpr, BLOCK_FACES: tl.constexpr
):
    """Zeros for every pixel of a tile, and for every face of a block of faces."""
    if BLOCK_FACES > 1:
        zeros = tl.zeros([BLOCK_FACES, TILE_H, TILE_W], dtype)
    else:
        zeros = tl.zeros([TILE_H, TILE_W], dtype)
    return zeros


@triton.jit
def list_of_tile(starts, stops, tile):
    """First and last entry + 1 of a tile, and whether it has a list; see `listed_faces`."""
    start = tl.load(starts + tile)
    return tl.where(start < 0, -1 - start, start), tl.load(stops + tile), start >= 0


@triton.jit
def meets_tile(boxes, f, tile, height, width, TILE_H: tl.constexpr, TILE_W: tl.constexpr):
    """Whether the boxes of faces meet a tile: those that its list would name."""
    columns = (width + TILE_W - 1) // TILE_W
    local = tile % ((height + TILE_H - 1) // TILE_H * columns)
    top, left = local // columns * TILE_H, local % columns * TILE_W
    box = boxes + f * 4
    aside = (tl.load(box) < left + TILE_W) & (tl.load(box + 1) > left)
    return aside & (tl.load(box + 2) < top + TILE_H) & (tl.load(box + 3) > top)


@triton.jit
def listed_faces(k, stop, list_of_faces, listed, BLOCK_FACES: tl.constexpr):
    """The faces of a tile from entry k < stop on, and which entries there are.

    The faces of a tile are list_of_faces[k : stop], or if it has no list the numbers themselves.
    One face is a scalar, a block has shape [BLOCK_FACES, 1, 1]. A block that reaches beyond `stop`
    repeats the last face: all can be loaded.
    """
    if BLOCK_FACES > 1:
        entry = (k + tl.arange(0, BLOCK_FACES))[:, None, None]
        valid = entry < stop
        entry = tl.minimum(entry, stop - 1)
    else:
        entry, valid = k, k < stop
    f = tl.load(list_of_faces + tl.where(listed, entry, 0))
    return tl.where(listed, f, entry).to(tl.int64), valid


@triton.jit
def face_box(boxes, f):
    """First column and row, columns and pixels of the box of a face."""
    x0, x1 = tl.load(boxes + f * 4), tl.load(boxes + f * 4 + 1)
    y0, y1 = tl.load(boxes + f * 4 + 2), tl.load(boxes + f * 4 + 3)
    return x0, y0, tl.maximum(x1 - x0, 1), (x1 - x0) * (y1 - y0)


@triton.jit
def piece_of(program, pieces, faces):
    """Face of a program, the first entry of its box that the program takes, and the last + 1.

    Programs 0 .. faces - 1 take a face, or its first piece; further ones take the pieces that
    `list_pieces` has listed, or if there are fewer, nothing. If there are none the table is not
    read.
    """
    piece, extra = program - faces, tl.num_programs(0) > faces
    size, count = tl.load(pieces, extra, 0), tl.load(pieces + 1, extra, 0)
    f = tl.load(pieces + 2 + faces + piece, (piece >= 0) & (piece < count), 0)
    f = tl.where(piece < 0, program, f)
    first_piece = tl.load(pieces + 2 + f, extra, -1)
    first = tl.where(piece < 0, 0, (piece - first_piece + 1) * size)
    last = tl.where(first_piece < 0, 2147483647, first + size)
    return f.to(tl.int64), first, tl.where(piece < count, last, 0)


@triton.jit
def advanced(row, column, entries, across, inverse):
    """Row and column of the entry of a box so many after one; as exact as `box_pixels`."""
    entry = column + entries
    down = tl.floor((entry.to(tl.float32) + 0.5) * inverse).to(tl.int32)
    return row + down, entry - down * across


@triton.jit
def box_pixels(row, column, lanes, b, x0, y0, across, inverse, height, width):
    """Some pixels of a box in image b, and x and y of their centres.

    The entries of a box are counted row by row; these are lanes[i] entries after the one in some
    row and column. `inverse` is 1 / across. Arithmetic is that of float32 numbers that are
    integers, which is exact: rows and columns are few, and (column + lanes) * inverse is never
    nearer to an integer than its error, unless across * (column + lanes) > 2^22.
    """
    entry = lanes.to(tl.float32) + column.to(tl.float32)
    down = tl.floor((entry + 0.5) * inverse)
    aside = entry - down * across.to(tl.float32)
    first = b.to(tl.int64) * height * width + (y0 + row) * width + x0
    pixels = first + down.to(tl.int32) * (width - across) + column + lanes
    side = tl.zeros_like(entry) + tl.minimum(height, width).to(tl.float32)
    one = tl.div_rn(1.0, side)
    x = 2.0 * aside + (2 * x0 + 1 - width).to(tl.float32)
    y = (height - 1 - 2 * (y0 + row)).to(tl.float32) - 2.0 * down
    return pixels, _quotient(x, side, one), _quotient(y, side, one)


# -------------------------------------------------------------------------------------------------
# Tables of faces
# -------------------------------------------------------------------------------------------------


@triton.jit
def side_of(ax, ay, bx, by, turn):
    """What is known of a side from (ax, ay) to (bx, by): what `to_side` takes.

    Swapped ends give the same middle, and the negative direction and offset, in every bit: both
    faces that share a side find the same distance.
    """
    ux, uy = bx - ax, by - ay
    square = ux * ux + uy * uy
    long = square > SHORTEST
    root = tl.where(long, square, 1.0)
    if square.dtype == tl.float64:
        inverse = turn / tl.sqrt(root)
    else:
        inverse = tl.div_rn(turn, tl.sqrt_rn(root))
    inverse = tl.where(long, inverse, 0.0)
    ex, ey = ux * inverse, uy * inverse
    mx, my = 0.5 * (ax + bx), 0.5 * (ay + by)
    lost_x, lost_y = 0.5 * ((ax - mx) + (bx - mx)), 0.5 * ((ay - my) + (by - my))
    offset = tl.where(long, ey * lost_x - ex * lost_y, _FAR)
    return ax, ay, mx, my, ex, ey, 0.5 * tl.abs(square * inverse), offset


@triton.jit
def _store_side(row, valid, ax, ay, bx, by, turn):
    """One side of a face's row; see `side_of`."""
    side = side_of(ax, ay, bx, by, turn)
    for k in tl.static_range(8):
        tl.store(row + k, side[k], valid)


@triton.jit
def edges_of(edges, f, valid, sides, x_0, y_0, x_1, y_1, x_2, y_2, x_3, y_3):
    """Write the rows of some faces, given their corners on the screen.

    For kernels that are compiled without fusing products into sums: else the area of a face whose
    corners coincide is not 0, and faces that share a side do not agree.

    Args:
        edges: the table, [faces, FACE_COLUMNS].
        f: the faces, a block of int64.
        valid: which of them to write.
        sides: float32: 3 or 4, or 0 for faces that are not there, whose corners may be anything.
        x_0: x of corner 0, float32, in NDC.
        y_0: y of corner 0.
        x_1: x of corner 1.
        y_1: y of corner 1.
        x_2: x of corner 2.
        y_2: y of corner 2.
        x_3: x of corner 3; only faces with four sides have one.
        y_3: y of corner 3.
    """
    row = edges + f * FACE_COLUMNS
    there, four = sides > 0.0, sides > 3.0
    x_0, y_0 = tl.where(there, x_0, 0.0), tl.where(there, y_0, 0.0)
    x_1, y_1 = tl.where(there, x_1, 0.0), tl.where(there, y_1, 0.0)
    x_2, y_2 = tl.where(there, x_2, 0.0), tl.where(there, y_2, 0.0)
    x_3, y_3 = tl.where(four, x_3, x_2), tl.where(four, y_3, y_2)
    area = (x_1 - x_0) * (y_2 - y_0) - (y_1 - y_0) * (x_2 - x_0)
    area += (x_2 - x_0) * (y_3 - y_0) - (y_2 - y_0) * (x_3 - x_0)
    turn = tl.where(area < 0.0, -1.0, 1.0)
    _store_side(row, valid, x_0, y_0, x_1, y_1, turn)
    _store_side(row + SIDE_COLUMNS, valid, x_1, y_1, x_2, y_2, turn)
    after_x, after_y = tl.where(four, x_3, x_0), tl.where(four, y_3, y_0)
    _store_side(row + 2 * SIDE_COLUMNS, valid, x_2, y_2, after_x, after_y, turn)
    _store_side(row + 3 * SIDE_COLUMNS, valid, x_3, y_3, x_0, y_0, turn)
    tl.store(row + SIDES, sides, valid)
    tl.store(row + CEILING, tl.where(area != 0.0, _FAR, -1e-37), valid)
    tl.store(row + TURN, turn, valid)


@triton.jit
def put_box(boxes, f, valid, there, radius, x_low, x_high, y_low, y_high, height, width):
    """Write pixel boxes [x0, x1) x [y0, y1) with all pixel centres within the radius of faces.

    Args:
        boxes: [faces, 4] int32. That of a face that is not `there` is empty.
        f: the faces, a block of int64.
        valid: which of them to write.
        there: which of them are there.
        radius: how far a face of the image reaches.
        x_low: the least x of a face's corners.
        x_high: the greatest.
        y_low: the least y.
        y_high: the greatest.
        height: of the image, int32.
        width: of the image.
    """
    # Pixel j has its centre at (2j + 1 - width) / side; rounding is covered by the slack.
    side = tl.minimum(height, width).to(tl.float32)
    slack = radius + 2e-6 * (1.0 + tl.abs(x_low) + tl.abs(x_high) + tl.abs(y_low) + tl.abs(y_high))
    columns, rows = width.to(tl.float32), height.to(tl.float32)
    x_first = tl.ceil(((x_low - slack) * side + columns - 1.0) * 0.5)
    x_last = tl.floor(((x_high + slack) * side + columns - 1.0) * 0.5)
    y_first = tl.ceil((rows - 1.0 - (y_high + slack) * side) * 0.5)
    y_last = tl.floor((rows - 1.0 - (y_low - slack) * side) * 0.5)
    x0 = tl.minimum(tl.maximum(x_first, 0.0), columns).to(tl.int32)
    x1 = tl.minimum(tl.maximum(x_last + 1.0, 0.0), columns).to(tl.int32)
    y0 = tl.minimum(tl.maximum(y_first, 0.0), rows).to(tl.int32)
    y1 = tl.minimum(tl.maximum(y_last + 1.0, 0.0), rows).to(tl.int32)
    there = there & (x0 < x1) & (y0 < y1)
    tl.store(boxes + f * 4, tl.where(there, x0, 0), valid)
    tl.store(boxes + f * 4 + 1, tl.where(there, x1, 0), valid)
    tl.store(boxes + f * 4 + 2, tl.where(there, y0, 0), valid)
    tl.store(boxes + f * 4 + 3, tl.where(there, y1, 0), valid)


# -------------------------------------------------------------------------------------------------
# Distance and coverage
# -------------------------------------------------------------------------------------------------


@triton.jit
def load_side(edges, f, k):
    """What a row of the table of edges says of side k: corner, middle, direction, half, offset."""
    side = edges + f * FACE_COLUMNS + k * SIDE_COLUMNS
    return (
        tl.load(side), tl.load(side + 1), tl.load(side + 2), tl.load(side + 3),
        tl.load(side + 4), tl.load(side + 5), tl.load(side + 6), tl.load(side + 7),
    )  # fmt: skip


@triton.jit
def to_side(x, y, side):
    """How points lie to a side and its corner.

    Returns:
        The height over its line, positive inside; the position along it from the middle on; a
        number that is at most 0 outside where the side is nearest; the square of the distance to
        the corner.
    """
    cx, cy, mx, my, ex, ey, half, offset = side
    # What depends on x alone stands by itself: x is the same for a column of pixels.
    px, py, qx, qy = x - mx, y - my, x - cx, y - cy
    height = (offset - ey * px) + ex * py
    along = ex * px + ey * py
    return height, along, tl.maximum(height, tl.abs(along) - half), qx * qx + qy * qy


@triton.jit
def signed_distance(low, strip, square):
    """The signed distance to a convex face, of its least numbers from `to_side`; negative outside.

    As `gendr.rendering.fragments.signed_distance`: inside, and outside where a foot lies within its
    side, it is the least height (no other side is passed by more), elsewhere that to a corner.
    Faces that share a side or a corner find the very same distance to it.
    """
    return tl.where((low >= 0.0) | (strip <= 0.0), low, -tl.sqrt(square))


@triton.jit
def distance(x, y, edges, f, N: tl.constexpr, BLOCK_FACES: tl.constexpr):
    """Signed distance of points to faces, as listed by `listed_faces`."""
    row = edges + f * FACE_COLUMNS
    ceiling = tl.load(row + CEILING)
    height, _, strip, square = to_side(x, y, load_side(edges, f, 0))
    low = tl.minimum(height, ceiling)
    for k in tl.static_range(1, 3):
        height, _, beside, apart = to_side(x, y, load_side(edges, f, k))
        low, strip, square = (
            tl.minimum(low, height),
            tl.minimum(strip, beside),
            tl.minimum(square, apart),
        )
    if N == 4:
        four = tl.load(row + SIDES) > 3.0
        if BLOCK_FACES > 1:
            height, _, beside, apart = to_side(x, y, load_side(edges, f, 3))
            low = tl.where(four, tl.minimum(low, height), low)
            strip = tl.where(four, tl.minimum(strip, beside), strip)
            square = tl.where(four, tl.minimum(square, apart), square)
        elif four:  # a branch: few faces are cut by the near plane
            height, _, beside, apart = to_side(x, y, load_side(edges, f, 3))
            low = tl.minimum(low, height)
            strip = tl.minimum(strip, beside)
            square = tl.minimum(square, apart)
    return signed_distance(low, strip, square)


@triton.jit
def load_image(image):
    """What stages 1 and 2 need of an image, read once: see `argument` and `coverage`."""
    mirrored = tl.load(image + REVERSED) != 0.0
    return (
        tl.div_rn(tl.where(mirrored, -1.0, 1.0), tl.load(image + SCALE)),
        tl.load(image + SQUARED) != 0.0,
        tl.load(image + ART),
        tl.load(image + SHIFT),
        mirrored,
        tl.load(image + SHAPE),
        tl.load(image + CONSTANT),
    )


@triton.jit
def argument(d, rate, squared, art):
    """(u, du/dd) times the sign of `rate`, the inverse of the scale: before shift and reversal."""
    u, slope = d * rate, d * 0.0 + rate
    if squared:
        slope = 2.0 * tl.abs(d) * rate
        u = u * tl.abs(d)
    if art > 0.0:
        apart = d != 0.0
        shrink = tl.where(apart, tl.exp2(-art * tl.log2(tl.where(apart, tl.abs(d), 1.0))), 0.0)
        u, slope = u * shrink, (1.0 - art) * shrink * rate
    return u, slope


@triton.jit
def coverage(z, mirrored, shape, constant, CDF: tl.constexpr):
    """A = F(u) and 1 - a, at z = shift + u, or shift - u for a reversed distribution.

    A distribution is first shifted, then reversed: it is the mirror image of a shifted one.
    """
    cdf, sf = CDF(z, shape, constant)
    return tl.where(mirrored, sf, cdf), tl.where(mirrored, cdf, sf)


@triton.jit
def covered(x, y, edges, f, image, CDF: tl.constexpr, N: tl.constexpr, BLOCK_FACES: tl.constexpr):
    """A and 1 - a of points by faces: stages 1 and 2, without cutoff and gradients.

    Args:
        x: of the points, which broadcasts against y.
        y: of the points.
        edges: the table of edges.
        f: one face, or a block; see `listed_faces`.
        image: from `load_image`.
        CDF: of the distribution.
        N: sides that a face may have.
        BLOCK_FACES: how many faces `f` names.
    """
    rate, squared, art, shift, mirrored, shape, constant = image
    u, _ = argument(distance(x, y, edges, f, N, BLOCK_FACES), rate, squared, art)
    return coverage(u + shift, mirrored, shape, constant, CDF)


@triton.jit
def least(edges, f, valid, cutoff):
    """What coverage must exceed to count: nothing does where there is no face."""
    there = valid & (tl.load(edges + f * FACE_COLUMNS + SIDES) > 0.0)
    return tl.where(there, cutoff, float("inf"))


# -------------------------------------------------------------------------------------------------
# Gradients of distance
# -------------------------------------------------------------------------------------------------


@triton.jit
def load_face(edges, f, N: tl.constexpr):
    """The row of one face: its sides, its ceiling, whether it has four sides, its turn."""
    row = edges + f * FACE_COLUMNS
    first, second, third = load_side(edges, f, 0), load_side(edges, f, 1), load_side(edges, f, 2)
    fourth, four = third, False
    if N == 4:
        fourth, four = load_side(edges, f, 3), tl.load(row + SIDES) > 3.0
    return first, second, third, fourth, tl.load(row + CEILING), four, tl.load(row + TURN)


@triton.jit
def nearest_feature(x, y, face, N: tl.constexpr):
    """The signed distance of points to one face, and what is nearest to them, for `add_moves`.

    The distance is that of `distance`, in every bit. What is nearest: the number of a side, or
    _CORNERS more than that of a corner; the position along the side; the square to the corner.
    """
    first, second, third, fourth, ceiling, four, _ = face
    h0, t0, v0, q0 = to_side(x, y, first)
    h1, t1, v1, q1 = to_side(x, y, second)
    h2, t2, v2, q2 = to_side(x, y, third)
    low = tl.minimum(tl.minimum(tl.minimum(h0, ceiling), h1), h2)
    strip = tl.minimum(tl.minimum(v0, v1), v2)
    square = tl.minimum(tl.minimum(q0, q1), q2)
    # Of several that are equally near the first counts.
    side, along = tl.where(h1 == low, 1, 2), tl.where(h1 == low, t1, t2)
    corner = tl.where(q1 == square, 1, 2)
    if N == 4:
        if four:
            h3, t3, v3, q3 = to_side(x, y, fourth)
            low, strip, square = (
                tl.minimum(low, h3),
                tl.minimum(strip, v3),
                tl.minimum(square, q3),
            )
            side, along = tl.where(h2 == low, 2, 3), tl.where(h2 == low, t2, t3)
            side, along = tl.where(h1 == low, 1, side), tl.where(h1 == low, t1, along)
            corner = tl.where(q1 == square, 1, tl.where(q2 == square, 2, 3))
    side, along = tl.where(h0 == low, 0, side), tl.where(h0 == low, t0, along)
    corner = _CORNERS + tl.where(q0 == square, 0, corner)
    # The direction of what is very near is lost.
    which = tl.where((low >= 0.0) | (strip <= 0.0), side, tl.where(square > SHORTEST, corner, -1))
    return signed_distance(low, strip, square), (which, along, square)


@triton.jit
def no_moves(zeros):
    """The sums of `add_moves` before the first: for each side two, and two for its corner."""
    none = (zeros, zeros, zeros, zeros)
    return none, none, none, none


@triton.jit
def _add_to(sums, k, which, move, along, away, x, y, side):
    to_side, turned, corner_x, corner_y = sums
    of_side = tl.where(which == k, move, 0.0)
    of_corner = tl.where(which == _CORNERS + k, away, 0.0)
    return (
        to_side + of_side,
        turned + of_side * along,
        corner_x + of_corner * (x - side[0]),
        corner_y + of_corner * (y - side[1]),
    )


@triton.jit
def add_moves(sums, move, x, y, face, feature, N: tl.constexpr):
    """Add d(loss)/d(distance) of some pixels to the sums of the side or corner that is nearest.

    The distance to a side changes along its normal, wherever its ends move, and by the parameter t
    of the nearest point, which is due to the end (envelope theorem: t is optimal); so that of
    moves m of pixels the sums of m and m t suffice. Of a corner, that of m times the direction.

    Args:
        sums: from `no_moves`.
        move: of every pixel; 0 if it does not count.
        x: of the pixels.
        y: of the pixels.
        face: from `load_face`.
        feature: from `nearest_feature`.
        N: sides that a face may have.

    Returns:
        The new sums; `moved_corners` makes gradients of them.
    """
    s0, s1, s2, s3 = sums
    first, second, third, fourth, _, four, _ = face
    which, along, square = feature
    away = move * tl.rsqrt(tl.where(which >= _CORNERS, square, 1.0))
    s0 = _add_to(s0, 0, which, move, along, away, x, y, first)
    s1 = _add_to(s1, 1, which, move, along, away, x, y, second)
    s2 = _add_to(s2, 2, which, move, along, away, x, y, third)
    if N == 4:
        if four:
            s3 = _add_to(s3, 3, which, move, along, away, x, y, fourth)
    return s0, s1, s2, s3


@triton.jit
def _ends(sums, side, turn, factor):
    """What a side's sums say of its first corner and of the next one: gradients of x and y."""
    moves, turned, corner_x, corner_y = sums
    _, _, _, _, ex, ey, half, _ = side
    per_length = tl.where(half > 0.0, tl.div_rn(0.5 * turn, tl.where(half > 0.0, half, 1.0)), 0.0)
    to_end = 0.5 * moves + turned * per_length
    to_start = moves - to_end
    return (
        factor * (corner_x + to_start * ey),
        factor * (corner_y - to_start * ex),
        factor * to_end * ey,
        -factor * to_end * ex,
    )


@triton.jit
def moved_corners(sums, face, factor, N: tl.constexpr):
    """The gradients of a face's four corners, times a factor, of what `add_moves` added up."""
    s0, s1, s2, s3 = sums
    first, second, third, fourth, _, four, turn = face
    x_0, y_0, from_x_0, from_y_0 = _ends(s0, first, turn, factor)
    x_1, y_1, from_x_1, from_y_1 = _ends(s1, second, turn, factor)
    x_2, y_2, from_x_2, from_y_2 = _ends(s2, third, turn, factor)
    x_1, y_1, x_2, y_2 = x_1 + from_x_0, y_1 + from_y_0, x_2 + from_x_1, y_2 + from_y_1
    if N == 4:
        x_3, y_3, from_x_3, from_y_3 = _ends(s3, fourth, turn, factor)
        x_3, y_3 = x_3 + tl.where(four, from_x_2, 0.0), y_3 + tl.where(four, from_y_2, 0.0)
        x_0 += tl.where(four, from_x_3, from_x_2)
        y_0 += tl.where(four, from_y_3, from_y_2)
        return x_0, y_0, x_1, y_1, x_2, y_2, x_3, y_3
    return x_0 + from_x_2, y_0 + from_y_2, x_1, y_1, x_2, y_2, x_2, y_2


# -------------------------------------------------------------------------------------------------
# Sums
# -------------------------------------------------------------------------------------------------


@triton.jit
def sum_scaled(u, k, v, more, p):
    """(u, k) of k u^q + more v^q, which itself may leave float32: u is the greater, q = |p|."""
    low, high = tl.minimum(u, v), tl.maximum(u, v)
    # 0 and infinity beside themselves are equal, too.
    share = power(tl.where(low == high, 1.0, low / high), tl.abs(p))
    return high, tl.where(v > u, k * share + more, k + more * share)


@triton.jit
def row_of(table, program, share, columns: tl.constexpr):
    """Where a program writes: [shares, programs, columns]."""
    return table + (program.to(tl.int64) + share * tl.num_programs(0).to(tl.int64)) * columns


@triton.jit
def put(where, values, COUNT: tl.constexpr):
    """Store the sums of the first so many of some blocks, one after the other."""
    for k in tl.static_range(COUNT):
        tl.store(where + k, tl.sum(values[k], 0))
