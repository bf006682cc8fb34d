"""What the kernels share: columns of tables, pixels, distance and coverage, sums.

Functions that kernels call; Triton compiles them into each. Arguments that stand for tables are
pointers to them, `image` one to the row of an image.
"""

# Triton compiles these functions; their arguments are blocks and pointers.
# pyright: reportMissingParameterType=false

from __future__ import annotations

import triton
import triton.language as tl

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

# Columns of the float32 table with one row per face: first four sides of SIDE_COLUMNS each, then
# what is said of the whole face. Side k runs from corner k to the next one; its direction is turned
# so that the face lies to its left.
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

# A face whose first corner lies beyond this is not there: the door moves those there that a camera
# does not see, because dropping them would need the host to wait for their number.
ABSENT = tl.constexpr(1e17)
_SHORTEST = tl.constexpr(1e-36)  # an edge whose squared length is below it is a point
_FAR = tl.constexpr(1e30)


# -------------------------------------------------------------------------------------------------
# Pixels
# -------------------------------------------------------------------------------------------------


@triton.jit
def centre(index, count, side, sign, dtype: tl.constexpr):
    """NDC of the centres of a column (sign 1) or row (sign -1)."""
    return (sign * (2 * index + 1 - count)).to(dtype) / side.to(dtype)


@triton.jit
def tile_pixels(
    tile, height, width, dtype: tl.constexpr, TILE_H: tl.constexpr, TILE_W: tl.constexpr
):
    """Image, pixels [TILE_H * TILE_W], which lie on it, and x and y of their centres [1, ...]."""
    columns = (width + TILE_W - 1) // TILE_W
    tiles = (height + TILE_H - 1) // TILE_H * columns
    image = tile // tiles
    local = tile % tiles
    k = tl.arange(0, TILE_H * TILE_W)
    row = (local // columns) * TILE_H + k // TILE_W
    column = (local % columns) * TILE_W + k % TILE_W
    on = (row < height) & (column < width)
    pixels = image.to(tl.int64) * height * width + row * width + column
    side = tl.minimum(height, width)
    x = centre(column, width, side, 1, dtype)[None, :]
    y = centre(row, height, side, -1, dtype)[None, :]
    return image, pixels, on, x, y


@triton.jit
def list_of_tile(starts, stops, tile):
    """First and last entry + 1 of a tile, and whether it has a list; see `listed_faces`."""
    start = tl.load(starts + tile)
    return tl.where(start < 0, -1 - start, start), tl.load(stops + tile), start >= 0


@triton.jit
def listed_faces(
    k, stop, list_of_faces, listed, corners, N: tl.constexpr, BLOCK_FACES: tl.constexpr
):
    """The faces [BLOCK_FACES, 1] of a tile from entry k on, and which of them are there.

    The faces of a tile are list_of_faces[k : stop], or if it has no list the numbers themselves.
    """
    entry = (k + tl.arange(0, BLOCK_FACES))[:, None]
    valid = entry < stop
    f = tl.load(list_of_faces + tl.where(listed, entry, 0), valid, 0)
    f = tl.where(listed, f, entry).to(tl.int64)
    return f, valid & (tl.load(corners + f * (2 * N), valid, 0.0) < ABSENT)


@triton.jit
def face_box(boxes, f):
    """First column and row, columns and pixels of the box of a face."""
    x0, x1 = tl.load(boxes + f * 4), tl.load(boxes + f * 4 + 1)
    y0, y1 = tl.load(boxes + f * 4 + 2), tl.load(boxes + f * 4 + 3)
    return x0, y0, tl.maximum(x1 - x0, 1), (x1 - x0) * (y1 - y0)


@triton.jit
def box_pixels(entry, b, x0, y0, across, height, width):
    """The pixels of some entries of a box in image b, and x and y of their centres."""
    row, column = y0 + entry // across, x0 + entry % across
    pixels = b.to(tl.int64) * height * width + row * width + column
    side = tl.minimum(height, width)
    x = centre(column, width, side, 1, tl.float32)
    return pixels, x, centre(row, height, side, -1, tl.float32)


# -------------------------------------------------------------------------------------------------
# Tables of faces
# -------------------------------------------------------------------------------------------------


@triton.jit
def _put_side(row, valid, ax, ay, bx, by, turn):
    """One side of a face's row, from (ax, ay) to (bx, by).

    Swapped ends give the same middle, and the negative direction and offset, in every bit: both
    faces that share a side find the same distance.
    """
    ux, uy = bx - ax, by - ay
    square = ux * ux + uy * uy
    long = square > _SHORTEST
    inverse = tl.where(long, tl.div_rn(turn, tl.sqrt_rn(tl.where(long, square, 1.0))), 0.0)
    ex, ey = ux * inverse, uy * inverse
    mx, my = 0.5 * (ax + bx), 0.5 * (ay + by)
    lost_x, lost_y = 0.5 * ((ax - mx) + (bx - mx)), 0.5 * ((ay - my) + (by - my))
    tl.store(row + CORNER, ax, valid)
    tl.store(row + CORNER + 1, ay, valid)
    tl.store(row + MIDDLE, mx, valid)
    tl.store(row + MIDDLE + 1, my, valid)
    tl.store(row + DIRECTION, ex, valid)
    tl.store(row + DIRECTION + 1, ey, valid)
    tl.store(row + HALF, 0.5 * tl.abs(square * inverse), valid)
    tl.store(row + OFFSET, tl.where(long, ey * lost_x - ex * lost_y, _FAR), valid)


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
        x_0: of corner 0, float32, in NDC; and so on. Triangles repeat corner 2 as corner 3.
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
    _put_side(row, valid, x_0, y_0, x_1, y_1, turn)
    _put_side(row + SIDE_COLUMNS, valid, x_1, y_1, x_2, y_2, turn)
    after_x, after_y = tl.where(four, x_3, x_0), tl.where(four, y_3, y_0)
    _put_side(row + 2 * SIDE_COLUMNS, valid, x_2, y_2, after_x, after_y, turn)
    _put_side(row + 3 * SIDE_COLUMNS, valid, x_3, y_3, x_0, y_0, turn)
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
        x_low: the least x of a face's corners; and so on.
        height: of the image; and width.
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
def signed_distance(x, y, corners, f, valid, N: tl.constexpr):
    """Signed distance of points to convex faces, and how it changes.

    As `gendr.rendering.fragments.signed_distance`: the nearest edge decides; within it the distance
    is the height over its line, beyond it that to its end. An edge runs from its lexicographically
    smaller corner, so that both faces that share it find the very same distance.

    Returns:
        d; n = d(distance)/d(point), in two parts; the parameter t of the nearest point on its edge
        from a to b, and the indices of the corners a and b. d(distance)/da = -(1 - t) n and
        d(distance)/db = -t n (envelope theorem: t is optimal).
    """
    base = corners + f * (2 * N)
    ox, oy = tl.load(base, valid, 0.0), tl.load(base + 1, valid, 0.0)
    area = ox * 0.0
    for k in tl.static_range(1, N - 1):
        px = tl.load(base + 2 * k, valid, 0.0) - ox
        py = tl.load(base + 2 * k + 1, valid, 0.0) - oy
        qx = tl.load(base + 2 * k + 2, valid, 0.0) - ox
        qy = tl.load(base + 2 * k + 3, valid, 0.0) - oy
        area += px * qy - py * qx
    orientation = tl.where(area < 0.0, -1.0, 1.0).to(area.dtype)

    best = x * 0.0 + ox * 0.0 + float("inf")
    inside = x * 0.0 + area != 0.0
    height, foot, rx, ry, nx, ny = best, best * 0.0, best, best, best, best
    start, end = inside.to(tl.int32), inside.to(tl.int32)
    for k in tl.static_range(N):
        n = (k + 1) % N
        ax, ay = tl.load(base + 2 * k, valid, 0.0), tl.load(base + 2 * k + 1, valid, 0.0)
        bx, by = tl.load(base + 2 * n, valid, 0.0), tl.load(base + 2 * n + 1, valid, 0.0)
        flip = (bx < ax) | ((bx == ax) & (by < ay))
        ax, bx = tl.where(flip, bx, ax), tl.where(flip, ax, bx)
        ay, by = tl.where(flip, by, ay), tl.where(flip, ay, by)
        ux, uy = bx - ax, by - ay
        square = ux * ux + uy * uy
        long = square > _SHORTEST
        inverse = tl.where(long, 1.0 / tl.where(long, square, 1.0), 0.0)
        inward = tl.sqrt(inverse) * tl.where(flip, -orientation, orientation)
        mx, my = -uy * inward, ux * inward
        px, py = x - ax, y - ay
        t = tl.minimum(tl.maximum((px * ux + py * uy) * inverse, 0.0), 1.0)
        gx = tl.where(t < 1.0, px - t * ux, x - bx)
        gy = tl.where(t < 1.0, py - t * uy, y - by)
        gap = gx * gx + gy * gy
        over = mx * px + my * py
        inside = inside & (over >= 0.0)
        closer = gap < best
        best = tl.where(closer, gap, best)
        height, foot = tl.where(closer, over, height), tl.where(closer, t, foot)
        rx, ry = tl.where(closer, gx, rx), tl.where(closer, gy, ry)
        nx, ny = tl.where(closer, mx, nx), tl.where(closer, my, ny)
        start = tl.where(closer, tl.where(flip, n, k), start)
        end = tl.where(closer, tl.where(flip, k, n), end)
    # A point whose nearest feature is a corner is outside: the polygon is convex.
    corner = ((foot <= 0.0) | (foot >= 1.0)) & (best > 0.0)
    to_corner = tl.sqrt(best)
    turn = tl.where((height >= 0.0) == inside, 1.0, -1.0).to(height.dtype)
    d = tl.where(corner, -to_corner, turn * height)
    away = -1.0 / tl.where(corner, to_corner, 1.0)
    return (
        d,
        tl.where(corner, rx * away, turn * nx),
        tl.where(corner, ry * away, turn * ny),
        foot,
        start,
        end,
    )


@triton.jit
def argument(d, image):
    """(u, du/dd): the distance over the scale, before shift and reversal."""
    inverse = 1.0 / tl.load(image + SCALE)
    art = tl.load(image + ART)
    u, slope = d * inverse, d * 0.0 + inverse
    if tl.load(image + SQUARED) != 0.0:
        slope = 2.0 * tl.abs(d) * inverse
        u = u * tl.abs(d)
    if art > 0.0:
        apart = d != 0.0
        shrink = tl.where(apart, tl.exp2(-art * tl.log2(tl.where(apart, tl.abs(d), 1.0))), 0.0)
        u, slope = u * shrink, (1.0 - art) * shrink * inverse
    return u, slope


@triton.jit
def shifted(u, image):
    """z: first shifted, then reversed, so that a reversed law is the mirror image of a shifted."""
    shift = tl.load(image + SHIFT)
    return tl.where(tl.load(image + REVERSED) != 0.0, shift - u, u + shift)


@triton.jit
def coverage(z, image, CDF: tl.constexpr):
    """A = F(u) and 1 - a."""
    cdf, sf = CDF(z, tl.load(image + SHAPE), tl.load(image + CONSTANT))
    mirrored = tl.load(image + REVERSED) != 0.0
    return tl.where(mirrored, sf, cdf), tl.where(mirrored, cdf, sf)


@triton.jit
def covered(x, y, corners, f, valid, image, CDF: tl.constexpr, N: tl.constexpr):
    """A and 1 - a of points by faces: stages 1 and 2, without cutoff and gradients."""
    d, _, _, _, _, _ = signed_distance(x, y, corners, f, valid, N)
    u, _ = argument(d, image)
    return coverage(shifted(u, image), image, CDF)


@triton.jit
def to_corner(k: tl.constexpr, move, foot, start, end):
    """Of a move of the nearest point on an edge, what is due to corner k; see `signed_distance`."""
    to_start, to_end = -(1.0 - foot) * move, -foot * move
    return tl.where(start == k, to_start, 0.0) + tl.where(end == k, to_end, 0.0)


# -------------------------------------------------------------------------------------------------
# Sums
# -------------------------------------------------------------------------------------------------


@triton.jit
def row_of(table, f, share, columns: tl.constexpr, ATOMIC: tl.constexpr):
    """Where program (f, share) writes: [shares, faces, columns], or [faces, columns] if ATOMIC."""
    row = f
    if not ATOMIC:
        row += share * tl.num_programs(0).to(tl.int64)
    return table + row * columns


@triton.jit
def put(where, values, ATOMIC: tl.constexpr):
    """Add up, or store the sum of, a block of values."""
    if ATOMIC:
        tl.atomic_add(where, tl.sum(values, 0), sem="relaxed")
    else:
        tl.store(where, tl.sum(values, 0))


@triton.jit
def put_three(where, first, second, third, ATOMIC: tl.constexpr):
    """The same for three blocks, one after the other."""
    put(where, first, ATOMIC)
    put(where + 1, second, ATOMIC)
    put(where + 2, third, ATOMIC)


@triton.jit
def put_scalars(where, of_scale, of_shift, of_shape, last, ATOMIC: tl.constexpr):
    """The gradients of a face's image."""
    put(where + GRAD_SCALE, of_scale, ATOMIC)
    put(where + GRAD_SHIFT, of_shift, ATOMIC)
    put(where + GRAD_SHAPE, of_shape, ATOMIC)
    put(where + GRAD_LAST, last, ATOMIC)
