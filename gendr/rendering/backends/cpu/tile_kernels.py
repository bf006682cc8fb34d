"""Silhouettes in float32: the compiled kernels of the CPU backend that most renderers take.

A vector is a tile of `SIDE` x `SIDE` pixels. The tiles of a face begin at the corner of its box:
one is enough for a face of that size, wherever it lies. Images are kept as whole tiles, so that no
store ends within one. Tiles near a face are collected in a block, which then goes through the
distribution, the family and the sums as a whole.

Lengths are in pixels. An edge measures every tile by two numbers of its centre, in float64: how far
inward of the edge that is, and how far along. What a pixel adds to them is at most half a tile.
Next to an edge both are small, so that float32 has all digits that the coverage needs, however
large faces and images are. Sums over the faces of a pixel are float64.

A forward unit is a run of rows, `SIDE` or more, a backward unit a run of faces, as in `kernels`:
any number of threads gives the same bits. A tile that two forward units share is computed by both.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportArgumentType=false

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from gendr.kernels.numba.arrays import part
from gendr.kernels.numba.calls import (
    call_cdf,
    call_cdf_and_pdf,
    call_generator,
    call_inverse,
    call_weight,
    pointer,
    shifted,
)
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.singles import fabs, sqrt
from gendr.kernels.numba.vectors import SINGLES, Lanes, Place, lanewise, maximum, minimum, where
from gendr.rendering.backends.cpu.kernels import FAMILY_P, RADIUS, SCALE, SHIFT, SHORTEST
from gendr.rendering.backends.cpu.records import Formulas

SIDE = 4
TILES = 32  # of a block: its columns lie in the nearest cache
STRIDE = TILES * SINGLES
FARTHEST = math.sqrt(0.5) * (SIDE - 1) * (1 + 1e-6)  # of a pixel from the centre of its tile
_MOST = 1e9  # pixels: farther away is as far
_LIMIT = float(np.finfo(np.float32).max) / 4  # of gradients; a vertex sums those of a few faces
# Columns of a block.
DISTANCE, ARGUMENT, CDF, SF, GENERATOR = (k * STRIDE for k in range(5))
# In the backward pass, what comes after them: the nearest point as the gap to it along the normal
# and along the edge, of a length of 1; where on the edge it is, 0 to 1; and the number of the edge.
PDF, WEIGHT, ALPHA, REST, GRAD, HEIGHT, ALONG, FOOT, EDGE = (k * STRIDE for k in range(4, 13))
# For colours: how far inward of its three edges a pixel is.
INWARD = 13 * STRIDE
COLUMNS = 16 * STRIDE
# A face, as numbers of its four edges; the fourth of a triangle repeats the third. In float64: how
# far inward and how far along the centre of tile (0, 0) is; what both change by from a tile to the
# next one in a row, and in a column; zeros and lengths; what is too far outside. Then a disc that
# holds the centres of all tiles within reach, its radius squared; 1 if the face has an area, and
# twice that.
CENTRE, ACROSS, DOWN, LENGTH, LEAST, DISC = range(0, 48, 8)
FRAME = 48
# In float32, for a tile: how far inward and how far along its centre is, and how far beyond the end
# of the edge (the second half).
_BASE, _BEYOND = 0, 12
OF_TILE = 16
# For a face: both steps, one over the lengths, 1 if it has an area, and which edge the first is.
_ACROSS, _DOWN, _INVERSE, _SOLID, _FIRST = 0, 8, 16, 20, 21
OF_FACE = 24
# What a walk remembers: the face, and the tile to continue at; how many parts a block has.
FACE, ROW, COLUMN, PARTS = range(4)
# Where the parts of its memory begin, and where the last one ends, in numbers of 64 bits.
_BEGINS = tuple(accumulate((
    8, COLUMNS // 2, TILES + 8, TILES + 8, TILES, TILES * FRAME, TILES * OF_FACE // 2,
    (TILES + 1) * OF_TILE // 2, 3 * TILES, TILES + 8,
), initial=0))  # fmt: skip

_FLOATS, _INT, _LONG = ir.VectorType(ir.FloatType(), SINGLES), ir.IntType(32), ir.IntType(64)


# ---------------------------------------------------------------------------------------------
# Geometry
# ---------------------------------------------------------------------------------------------


def row_length(width):
    """How many pixels the rows of an image have in memory: whole tiles, and some more.

    Rows whose distance is a high power of two would share few places of the nearest cache.
    """
    whole = -(-width // SIDE) * SIDE
    return whole if whole % 256 else whole + SINGLES


def shuffled(builder, a, b, places):
    """The numbers of two vectors at these places."""
    kind = ir.VectorType(_INT, len(places))
    return builder.shuffle_vector(a, b, ir.Constant(kind, list(places)))


def loaded(values, place, count):
    """So many float32 at a place, as one vector."""
    address = values.builder.gep(values.base, [Place.of(place)])
    kind = ir.VectorType(ir.FloatType(), count)
    return values.builder.load(values.builder.bitcast(address, kind.as_pointer()), align=4)


def store(array, place, value):
    """Store a vector of any kind."""
    address = array.builder.gep(array.base, [Place.of(place)])
    array.builder.store(
        value, array.builder.bitcast(address, value.type.as_pointer()), align=4
    )  # fmt: skip


def _joined(low, high):
    return Lanes(low.builder, shuffled(low.builder, low.value, high.value, range(8)))


def _setting_up(count):
    """A step that fills in the numbers of a face of so many corners.

    Returns whether some edge, but not each, is a point.
    """
    last = count - 1
    begins, ends = [0, 1, 2, last], [1, 2, 3 if count == 4 else 0, 0]
    kind = ir.VectorType(ir.DoubleType(), 4)

    def step(place, corners, half, middle, centre, reach, frame, lines):
        builder = place.builder

        def quarter(number):
            return Lanes(builder, shuffled(builder, number.value, number.value, range(4)))

        half, middle, centre, reach = map(quarter, (half, middle, centre, reach))
        low, high = loaded(corners, place, 4), loaded(corners, place + 4, 2 * count - 4)
        if count == 3:
            high = shuffled(builder, high, high, [0, 1, 0, 1])

        def ones(corner, axis):
            found = shuffled(builder, low, high, [2 * k + axis for k in corner])
            return Lanes(builder, builder.fpext(found, kind))

        (ax, ay), (bx, by) = ((ones(at, 0), ones(at, 1)) for at in (begins, ends))
        share = Lanes(builder, ir.Constant(kind, [1.0 / count] * count + [0.0] * (4 - count)))
        x, y = (quarter(Lanes.splat(builder, (c * share).sum())) for c in (ax, ay))
        spread = (ax - x) * (ax - x) + (ay - y) * (ay - y)
        ox, oy = (Lanes(builder, shuffled(builder, c.value, c.value, [0] * 4)) for c in (ax, ay))
        area = Lanes.splat(builder, ((ax - ox) * (by - oy) - (ay - oy) * (bx - ox)).sum())
        area = quarter(area)
        dx, dy = (bx - ax) * half, (ay - by) * half
        square = dx * dx + dy * dy
        there = square > SHORTEST
        inverse = where(there, 1.0 / sqrt(square), 0.0)
        ux, uy = where(there, dx * inverse, 1.0), dy * inverse
        # Rows go down: what is counterclockwise becomes clockwise.
        nx, ny = where(area > 0.0, uy, -uy), where(area > 0.0, -ux, ux)
        sx, sy = 0.5 * (SIDE - 1) - middle - ax * half, 0.5 * (SIDE - 1) - centre + ay * half
        zero = Lanes(builder, area.of(0.0))
        least = zero
        # How far outside corners are: rounding of a cut face may turn it inside out.
        for turn in (1, 2, 3) if count == 4 else ():
            order = [(k + turn) % 4 for k in range(4)]
            tx, ty = (Lanes(builder, shuffled(builder, c.value, c.value, order)) for c in (ax, ay))
            least = minimum(least, (nx * (tx - ax) - ny * (ty - ay)) * half)
        least = where(area.compared("!=", 0.0), least - reach, -np.inf)
        across, down = _joined(nx, ux) * SIDE, _joined(ny, uy) * SIDE
        frame[CENTRE] = _joined(nx * sx + ny * sy, ux * sx + uy * sy)
        frame[ACROSS], frame[DOWN] = across, down
        frame[LENGTH] = _joined(zero, square * inverse)
        frame[LEAST] = _joined(least, zero - np.inf)
        for k in (2, 1):  # the largest of four
            other = shuffled(builder, spread.value, spread.value, [(n + k) % 4 for n in range(4)])
            spread = maximum(spread, Lanes(builder, other))
        far = reach + half * sqrt(spread) * (1.0 + 1e-9)
        solid = where(area.compared("!=", 0.0), zero + 1.0, zero)
        parts = x * half + middle, centre - y * half, far * far, solid, area * half * half
        parts = *parts[:4], where(area > 0.0, parts[4], -parts[4])
        for k, number in enumerate(parts):
            first = builder.extract_element(number.value, _INT(0))
            frame.put(Place(builder, _LONG(DISC + k)), first)
        single = ir.VectorType(ir.FloatType(), 8)
        store(lines, _ACROSS, builder.fptrunc(across.value, single))
        store(lines, _DOWN, builder.fptrunc(down.value, single))
        four = ir.VectorType(ir.FloatType(), 4)
        store(lines, _INVERSE, builder.fptrunc(inverse.value, four))
        alone = Lanes(builder, ir.Constant(kind, [1.0, 0.0, 0.0, 0.0]))
        store(lines, _SOLID, builder.fptrunc((solid * alone).value, four))
        bits = builder.bitcast(there.lanes, ir.IntType(4))
        none, all_ = ir.IntType(4)(0), ir.IntType(4)(-1)
        return builder.and_(
            builder.icmp_signed("!=", bits, none), builder.icmp_signed("!=", bits, all_)
        )

    return lanewise(step, types.boolean)


_set_up_three, _set_up_four = _setting_up(3), _setting_up(4)


@inner()
def set_up(corners, f, quad, half, middle, centre, reach, frame, lines):
    """Fill in the numbers of a face, in float64 and in float32."""
    if quad:
        points = _set_up_four(f * 8, corners, half, middle, centre, reach, frame, lines)
    else:
        points = _set_up_three(f * 6, corners, half, middle, centre, reach, frame, lines)
    if points:
        # The ends of an edge that is a point are those of its neighbours, too: it is one of them,
        # whose corners get the gradients.
        for k in range(4):
            m = k
            while frame[LENGTH + 4 + m] == 0.0:
                m = (m + 3) & 3
            for n in range(k, DISC, 4):
                frame[n] = frame[n - k + m]
            for n in range(k, 16, 4):
                lines[_ACROSS + n] = lines[_ACROSS + n - k + m]
            lines[_INVERSE + k] = lines[_INVERSE + m]
            if k == 0:
                lines[_FIRST] = m if quad else min(m, 2)


def place_tile(frame, column, row, tile):
    """Fill in the numbers of a tile; whether its centre is within reach of all edges."""
    builder = frame.builder
    here = frame[CENTRE] + column * frame[ACROSS] + row * frame[DOWN]
    near = here >= frame[LEAST]
    beyond = here - frame[LENGTH]
    for place, numbers in ((_BASE, here), (_BEYOND - 4, beyond)):
        numbers = maximum(minimum(numbers, _MOST), -_MOST)
        store(tile, place, builder.fptrunc(numbers.value, ir.VectorType(ir.FloatType(), 8)))
    bits = builder.bitcast(near.lanes, ir.IntType(8))
    return builder.icmp_signed("==", bits, ir.IntType(8)(-1))


place_tile = lanewise(place_tile, types.boolean)


def _pixels(builder, along_row, kind=_FLOATS):
    """How far the pixels of a tile are from its centre, as parts of a tile."""
    numbers = [(k % SIDE if along_row else k // SIDE) for k in range(SINGLES)]
    return Lanes(builder, ir.Constant(kind, [(n - (SIDE - 1) / 2) / SIDE for n in numbers]))


def _edge(tile, lines, k, x, y):
    """How far the pixels are inward of an edge, along it, and beyond its end."""
    inward = tile.all(_BASE + k) + lines.all(_ACROSS + k) * x + lines.all(_DOWN + k) * y
    more = lines.all(_ACROSS + 4 + k) * x + lines.all(_DOWN + 4 + k) * y
    return inward, tile.all(_BASE + 4 + k) + more, tile.all(_BEYOND + k) + more


def _nearest(edges):
    """The square of the least distance, the lowest height, and how far beyond its edge it is.

    Of edges as `_edge` gives them.
    """
    squares, gaps = [], []
    for inward, along, beyond in edges:
        gaps.append(maximum(maximum(-along, beyond), 0.0))
        squares.append(inward * inward + gaps[-1] * gaps[-1])
    best, lowest, gap = squares[0], edges[0][0], gaps[0]
    for here, (inward, _, _), outside in zip(squares[1:], edges[1:], gaps[1:], strict=True):
        gap = where(here < best, outside, gap)
        best, lowest = minimum(here, best), minimum(inward, lowest)
    return best, lowest, gap


def _signed(square, lowest, beyond, solid):
    """The distance, positive inside.

    A pixel is inside if it is on the outer side of no edge and its nearest point is no corner. For
    very thin faces rounding can make either test alone wrong.
    """
    distance = sqrt(square)
    inside = (lowest >= 0.0) & beyond.equals(0.0) & (solid > 0.0)
    return where(inside, distance, -distance)


def _measuring(count, places=False):
    """A step that measures the distances of a tile to a face of so many edges.

    With `places` it keeps how far inward of each edge pixels are.
    """

    def step(i, tile, lines, block):
        x, y = _pixels(i.builder, True), _pixels(i.builder, False)
        edges = [_edge(tile, lines, k, x, y) for k in range(count)]
        for k in range(count if places else 0):
            block[i + (INWARD + k * STRIDE)] = edges[k][0]
        block[i + DISTANCE] = _signed(*_nearest(edges), lines.all(_SOLID))

    return lanewise(step)


def _measuring_slopes(count, places=False):
    """A step that also finds the nearest point, for gradients; see the columns of a block."""

    def step(i, tile, lines, block):
        x, y = _pixels(i.builder, True), _pixels(i.builder, False)
        best = lowest = height = gap = foot = edge = None
        for k in range(count):
            inward, along, beyond = _edge(tile, lines, k, x, y)
            if places:
                block[i + (INWARD + k * STRIDE)] = inward
            outside = maximum(beyond, 0.0) + minimum(along, 0.0)
            here = inward * inward + outside * outside
            place = along * lines.all(_INVERSE + k)
            if best is None:
                best, lowest, height, gap, foot = here, inward, inward, outside, place
                edge = lines.all(_FIRST)
            else:
                closer = here < best
                height, gap = where(closer, inward, height), where(closer, outside, gap)
                foot, edge = where(closer, place, foot), where(closer, float(k), edge)
                best, lowest = minimum(here, best), minimum(inward, lowest)
        distance = _signed(best, lowest, gap, lines.all(_SOLID))
        inverse, on_edge = 1.0 / distance, distance.equals(0.0)
        block[i + DISTANCE], block[i + EDGE] = distance, edge
        block[i + HEIGHT] = where(on_edge, 1.0, height * inverse)
        block[i + ALONG] = where(on_edge, 0.0, gap * inverse)
        block[i + FOOT] = maximum(minimum(foot, 1.0), 0.0)

    return lanewise(step)


def _remeasuring(squared):
    """A step that fills in distances of float64 arithmetic, and arguments, after another one.

    Args:
        squared: whether the distribution is one of the square of the distance.
    """
    kind = ir.VectorType(ir.DoubleType(), SINGLES)

    def step(i, frame, column, row, factor, shift, block):
        builder = i.builder

        def sixteen(number):
            return Lanes(builder, shuffled(builder, number.value, number.value, [0] * SINGLES))

        def narrow(value):
            return Lanes(builder, builder.fptrunc(value.value, _FLOATS))

        x = sixteen(column) + _pixels(builder, True, kind)
        y = sixteen(row) + _pixels(builder, False, kind)
        edges = []
        for k in range(4):
            inward, along = (
                sixteen(frame.all(CENTRE + n))
                + x * sixteen(frame.all(ACROSS + n))
                + y * sixteen(frame.all(DOWN + n))
                for n in (k, k + 4)
            )
            edges.append((inward, along, along - sixteen(frame.all(LENGTH + 4 + k))))
        nearest = _nearest(edges)
        distance = _signed(*nearest, sixteen(frame.all(DISC + 3)))
        square = nearest[0]
        measure = where(distance < 0.0, -square, square) if squared else distance
        block[i + DISTANCE] = narrow(distance)
        block[i + ARGUMENT] = narrow(measure * sixteen(factor) + sixteen(shift))

    return lanewise(step)


measure_three, measure_four = _measuring(3), _measuring(4)
measure_again, measure_squared_again = _remeasuring(False), _remeasuring(True)
slopes_three, slopes_four = _measuring_slopes(3), _measuring_slopes(4)
_places_three, _slopes_and_places = _measuring(3, True), _measuring_slopes(3, True)


# ---------------------------------------------------------------------------------------------
# The walk over faces and tiles
# ---------------------------------------------------------------------------------------------


@inner()
def new_block():
    """The memory of a walk.

    Its cursor; columns; the tiles of a block; the parts that belong to one face each, where one
    begins, and its face; the numbers of the faces of parts in float64 and in float32, and those of
    tiles; the candidates for tiles: column, row, and part; and the parts of tiles. Last the array
    in which all of these are: who passes it on keeps it alive.
    """
    memory = np.zeros(_BEGINS[-1])
    return (
        part(memory, _BEGINS[0], np.int64), part(memory, _BEGINS[1], np.float32),
        part(memory, _BEGINS[2], np.int64), part(memory, _BEGINS[3], np.int64),
        part(memory, _BEGINS[4], np.int64), part(memory, _BEGINS[5], np.float64),
        part(memory, _BEGINS[6], np.float32), part(memory, _BEGINS[7], np.float32),
        part(memory, _BEGINS[8], np.int64), part(memory, _BEGINS[9], np.int64), memory,
    )  # fmt: skip


@inner()
def _candidates(boxes, last, rows, down, across, block):
    """Collect tiles in the boxes of faces before `last`; return how many, and of how many parts."""
    cursor, faces, found = block[0], block[4], block[8]
    low, high = rows
    boxes = pointer(boxes)
    f, row, column = cursor[FACE], cursor[ROW], cursor[COLUMN]
    n, parts = 0, 0
    while f < last and n < TILES:
        left, top = np.int64(boxes[4 * f]), np.int64(boxes[4 * f + 2])
        wide, tall = np.int64(boxes[4 * f + 1]) - left, np.int64(boxes[4 * f + 3]) - top
        if wide <= 0 or tall <= 0:
            f, row = f + 1, -1
            continue
        wide, tall = (wide + SIDE - 1) & -SIDE, (tall + SIDE - 1) & -SIDE
        left, top = min(left, across - wide), min(top, down - tall)
        right, first, end = left + wide, top, top + tall
        if low > first:
            first += (low - first) & -SIDE
        if end > high:
            end -= (end - high) & -SIDE
        if first >= end:
            f, row = f + 1, -1
            continue
        if row < 0:
            row, column = first, left
        # What may not fit begins the next block: the sums of a face do not depend on others.
        if n > 0 and (end - row) * wide > (TILES - n) * SINGLES:
            break
        while row < end and n < TILES:
            found[3 * n], found[3 * n + 1], found[3 * n + 2] = column, row, parts
            n, column = n + 1, column + SIDE
            if column == right:
                row, column = row + SIDE, left
        faces[parts] = f
        parts += 1
        if row >= end:
            f, row = f + 1, -1
    cursor[FACE], cursor[ROW], cursor[COLUMN], cursor[PARTS] = f, row, column, parts
    return n, parts


@inner()
def _near_tiles(corners, boxes, last, rows, image, radius, size, width, block):
    """The first part of `next_tiles`: which tiles they are, and where."""
    _, tiles, starts, faces, frames, lines, bases, found, owners = block[1:10]
    down, across = (size[0] + SIDE - 1) & -SIDE, (size[1] + SIDE - 1) & -SIDE
    count, parts = _candidates(boxes, last, rows, down, across, block)
    half, middle, centre = 0.5 * min(size[0], size[1]), 0.5 * (size[1] - 1), 0.5 * (size[0] - 1)
    reach, quad, points = radius * half + FARTHEST, corners.shape[1] == 4, pointer(corners)
    for p in range(parts):
        set_up(
            points, faces[p], quad, half, middle, centre, reach, shifted(frames, FRAME * p),
            shifted(lines, OF_FACE * p),
        )  # fmt: skip
    n, starts[0] = 0, 0
    for k in range(count):
        column, row, part = found[3 * k], found[3 * k + 1], found[3 * k + 2]
        frame = shifted(frames, FRAME * part)
        dx = column + 0.5 * (SIDE - 1) - frame[DISC]
        dy = row + 0.5 * (SIDE - 1) - frame[DISC + 1]
        near = place_tile(
            frame, column * (1.0 / SIDE), row * (1.0 / SIDE), shifted(bases, OF_TILE * n)
        )
        tiles[n], owners[n] = (image * down + row) * width + column, part
        n += np.int64(near & (dx * dx + dy * dy <= frame[DISC + 2]))
        starts[part + 1] = n
    return n


@inner()
def next_tiles(corners, boxes, last, rows, image, radius, size, width, block, slopes, places):
    """Collect the next tiles within reach of faces before `last` and measure their distances.

    The tile of a pixel has its number in images whose rows have so much `width`.

    Returns their number; at the end of the walk there are no parts. Faces are visited in order.
    Tiles lie side by side from the corner of the box of a face on, as far as images have whole
    tiles, so that a small face has few; those of `rows` (y0, y1) are wanted. Unless there are
    `slopes` or `places`, constants, only distances are measured: for each pair of these the rest of
    this function is compiled, but not `_near_tiles`.

    Nothing branches on what is within reach, which nobody foresees: a candidate that is not is
    overwritten by the next one.
    """
    n = _near_tiles(corners, boxes, last, rows, image, radius, size, width, block)
    columns, lines, bases, owners = block[1], block[6], block[7], block[9]
    quad = corners.shape[1] == 4
    for k in range(n):
        place, tile = SINGLES * k, shifted(bases, OF_TILE * k)
        of_face = shifted(lines, OF_FACE * owners[k])
        # Constants in each branch: triangles have no fourth edge to measure.
        if places:
            if slopes:
                _slopes_and_places(place, tile, of_face, columns)
            else:
                _places_three(place, tile, of_face, columns)
        elif slopes:
            if quad:
                slopes_four(place, tile, of_face, columns)
            else:
                slopes_three(place, tile, of_face, columns)
        elif quad:
            measure_four(place, tile, of_face, columns)
        else:
            measure_three(place, tile, of_face, columns)
    return n


@lanewise
def put_argument(i, factor, shift, block):
    """Fill in the arguments of a distribution for a tile."""
    block[i + ARGUMENT] = block[i + DISTANCE] * factor + shift


@lanewise
def put_squared_argument(i, factor, shift, block):
    """As `put_argument`, for a distribution of the square of the distance."""
    distance = block[i + DISTANCE]
    block[i + ARGUMENT] = distance * fabs(distance) * factor + shift


@inner()
def per_pixel(image, formulas, size):
    """How much the argument of a distribution changes by in a pixel, or its square."""
    pixel = 2.0 / min(size[0], size[1])
    return (pixel * pixel if formulas.squared else pixel) / image[SCALE]


@inner()
def arguments(count, image, formulas, size, block):
    """Fill in the arguments of a distribution."""
    factor, shift = per_pixel(image, formulas, size), np.float32(image[SHIFT])
    narrow = np.float32(-factor if formulas.reversed else factor)
    for i in range(0, count, SINGLES):
        if formulas.squared:
            put_squared_argument(i, narrow, shift, block)
        else:
            put_argument(i, narrow, shift, block)


# ---------------------------------------------------------------------------------------------
# Forward
# ---------------------------------------------------------------------------------------------


def rows_of(values, pixel, width):
    """What an array holds at the pixels of a tile."""
    rows = [loaded(values, pixel + width * k, SIDE) for k in range(SIDE)]
    while len(rows) > 1:
        both = range(2 * rows[0].type.count)
        pairs = zip(rows[::2], rows[1::2], strict=True)
        rows = [shuffled(values.builder, a, b, both) for a, b in pairs]
    return Lanes(values.builder, rows[0])


@lanewise
def _add(i, a, g, cutoff, pixel, width, totals):
    """Add what a face adds to the totals of a tile."""
    builder = i.builder
    kind = ir.VectorType(ir.DoubleType(), SIDE)
    value = where(a[i] > cutoff, g[i], 0.0).value
    for k in range(SIDE):
        row = shuffled(builder, value, value, range(SIDE * k, SIDE * k + SIDE))
        address = builder.gep(totals.base, [(pixel + width * k).value])
        address = builder.bitcast(address, kind.as_pointer())
        before = builder.load(address, align=8)
        builder.store(builder.fadd(before, builder.fpext(row, kind)), address, align=8)


@lanewise
def _narrow(pixel, totals, i, block):
    kind = ir.VectorType(ir.DoubleType(), SINGLES)
    address = pixel.builder.bitcast(
        pixel.builder.gep(totals.base, [pixel.value]), kind.as_pointer()
    )
    value = pixel.builder.fptrunc(pixel.builder.load(address, align=8), _FLOATS)
    block[i] = Lanes(pixel.builder, value)


@kernel()
def alpha_tiles(corners, offsets, boxes, images, size, formulas, alpha, rest, start, stop):
    """Fill in alpha for the runs of `SIDE` rows start .. stop - 1.

    Args:
        corners: float32 [T, N, 2].
        offsets: of the faces of images.
        boxes: of faces, see `project_kernels.face_boxes`.
        images: see `kernels.IMAGE_COLUMNS`.
        size: height and width.
        formulas: a tuple of `Formulas`.
        alpha: float32 [B, H, W] of whole tiles, and rows of `row_length`.
        rest: the same, 1 - alpha.
        start: a run of rows, of all images.
        stop: one past the last.
    """
    formulas = Formulas(*formulas)
    down = (size[0] + SIDE - 1) // SIDE
    block, width = new_block(), alpha.shape[2]
    # A tile may reach beyond the rows, by less than its side.
    sums = np.empty((min(stop - start, down) + 2) * SIDE * width)
    cursor, columns, tiles = block[:3]
    cutoff = np.float32(formulas.cutoff)
    cdf, sf, g = shifted(columns, CDF), shifted(columns, SF), shifted(columns, GENERATOR)
    a, s = (sf, cdf) if formulas.reversed else (cdf, sf)
    for b in range(start // down, (stop - 1) // down + 1):
        rows = (SIDE * max(start - b * down, 0), SIDE * min(stop - b * down, down))
        cursor[FACE], cursor[ROW], image = offsets[b], -1, images[b]
        above = b * down * SIDE
        first = (above + rows[0] - SIDE) * width
        sums[:] = 0.0
        while True:
            n = next_tiles(
                corners, boxes, offsets[b + 1], rows, b, image[RADIUS], size, width, block, False,
                False,
            )  # fmt: skip
            if cursor[PARTS] == 0:
                break
            arguments(n * SINGLES, image, formulas, size, columns)
            call_cdf(formulas.cdf, shifted(columns, ARGUMENT), n * SINGLES, formulas.shape, cdf, sf)
            call_generator(formulas.generator, a, s, n * SINGLES, image[FAMILY_P], g)
            for k in range(n):
                _add(k * SINGLES, a, g, cutoff, tiles[k] - first, width, sums)
        begin, end = (above + rows[0]) * width, (above + rows[1]) * width
        for i in range(begin, end, STRIDE):
            n = min(end - i, STRIDE)
            for k in range(0, n, SINGLES):
                _narrow(i - first + k, sums, k, g)
            call_inverse(
                formulas.inverse, g, n, image[FAMILY_P],
                shifted(pointer(alpha), i), shifted(pointer(rest), i),
            )  # fmt: skip


# ---------------------------------------------------------------------------------------------
# Backward
# ---------------------------------------------------------------------------------------------


@lanewise
def _copy(i, block, alpha, rest, grad, pixel, width):
    """Fill in what is known of the pixels of a tile; those that are saturated have no gradient."""
    found = [rows_of(values, pixel, width) for values in (alpha, rest, grad)]
    block[i + ALPHA], block[i + REST] = found[:2]
    block[i + GRAD] = where(found[1] > 0.0, found[2], 0.0)


@lanewise
def through(i, a, cutoff, slope, block):
    """Turn the gradients of alpha into those of distances."""
    through = where(a[i] > cutoff, block[i + GRAD], 0.0)
    block[i + GRAD] = through * block[i + WEIGHT] * (block[i + PDF] * slope)


@lanewise
def through_squared(i, a, cutoff, slope, block):
    """As `through`, for a distribution of the square of the distance."""
    through = where(a[i] > cutoff, block[i + GRAD], 0.0)
    slope = slope * 2.0 * fabs(block[i + DISTANCE])
    block[i + GRAD] = through * block[i + WEIGHT] * (block[i + PDF] * slope)


def four_sums(vectors):
    """The sums of four vectors as one vector of four numbers."""
    builder = vectors[0].builder

    def folded(a, b, width):
        """Sums of each two numbers, so many apart, of both vectors, in turns."""
        low = [n + m + other for n in range(0, SINGLES, 2 * width) for other in (0, SINGLES)
               for m in range(width)]  # fmt: skip
        parts = (shuffled(builder, a.value, b.value, [n + k for n in low]) for k in (0, width))
        return Lanes(builder, builder.fadd(*parts))

    v = folded(folded(vectors[0], vectors[1], 1), folded(vectors[2], vectors[3], 1), 2).value
    for size in (8, 4):
        v = builder.fadd(*(shuffled(builder, v, v, range(k, k + size)) for k in (0, size)))
    return builder.fpext(v, ir.VectorType(ir.DoubleType(), 4))


def _moving(count):
    """A step that adds the gradients of the points of a part to the corners of their face.

    For every edge it sums, over the pixels that are nearest to it, g h, t g h, g e and t g e, with
    the gradient g of the distance, the gap (h, e) along the normal and along the edge, and t for
    where on the edge the nearest point is. Of the gradient of a point the ends of the edge get
    1 - t and t, with a minus, because t is optimal (envelope theorem).
    """

    def step(start, stop, block, frame, half, out, corner):
        builder = start.builder
        zero = ir.Constant(_FLOATS, [0.0] * SINGLES)
        kept = [cgutils.alloca_once_value(builder, zero) for _ in range(4 * count)]
        with cgutils.for_range_slice(
            builder, start.value, stop.value, _LONG(SINGLES), inc=True
        ) as (index, _):
            i = Place(builder, index)
            g, t, edge = block[i + GRAD], block[i + FOOT], block[i + EDGE]
            inward, along = g * block[i + HEIGHT], g * block[i + ALONG]
            values = inward, t * inward, along, t * along
            for k in range(count):
                here = edge.equals(float(k))
                for value, place in zip(values, kept[4 * k : 4 * k + 4], strict=True):
                    total = Lanes(builder, builder.load(place)) + where(here, value, 0.0)
                    builder.store(total.value, place)
        across, down = frame[ACROSS].value, frame[DOWN].value
        half = Lanes(builder, shuffled(builder, half.value, half.value, range(4)))
        sides = ir.Constant(half.value.type, [1.0 / SIDE, -1.0 / SIDE] * 2)
        half = half * Lanes(builder, sides)
        moves = []

        def lanes(value, other, places):
            return Lanes(builder, shuffled(builder, value, other, places))

        for k in range(count):
            sums = four_sums([Lanes(builder, builder.load(x)) for x in kept[4 * k : 4 * k + 4]])
            normal, tangent = (
                lanes(across, down, [n + k, n + k + 8] * 2) * half for n in (0, 4)
            )  # fmt: skip
            ends = lanes(sums, sums, [1, 1, 3, 3])
            first = lanes(sums, sums, [0, 0, 2, 2]) - ends
            shares = [lanes(first.value, ends.value, [n, n, n + 4, n + 4]) for n in (0, 2)]
            moves.append((normal * shares[0] + tangent * shares[1]).value)
        for k in range(count):
            both = builder.fadd(
                shuffled(builder, moves[k], moves[k], [0, 1]),
                shuffled(builder, moves[k - 1], moves[k - 1], [2, 3]),
            )
            before = builder.fpext(loaded(out, corner + 2 * k, 2), both.type)
            after = Lanes(builder, builder.fsub(before, both))
            after = maximum(minimum(after, _LIMIT), -_LIMIT)  # vertices sum several
            narrow = builder.fptrunc(after.value, ir.VectorType(ir.FloatType(), 2))
            store(out, corner + 2 * k, narrow)

    return lanewise(step)


move_three, move_four = _moving(3), _moving(4)


@kernel()
def backward_tiles(
    corners, offsets, image_of_face, boxes, images, size, formulas, rendered, out, start, stop
):
    """Fill in `out`, the gradients of the corners of the faces start .. stop - 1.

    Args:
        corners: float32 [T, N, 2]; so `out`.
        offsets: of the faces of images.
        image_of_face: [T].
        boxes: of faces.
        images: as for `alpha_tiles`, and so are `size` and `formulas`.
        size: height and width.
        formulas: a tuple of `Formulas`.
        rendered: float32 [B, H, W] each, of whole tiles: alpha, 1 - alpha, and the gradient of
            alpha.
        out: is 0 before.
        start: a face.
        stop: one past the last.
    """
    formulas = Formulas(*formulas)
    rows, half = (0, (size[0] + SIDE - 1) & -SIDE), 0.5 * min(size[0], size[1])
    width = rendered[0].shape[2]
    block, grads = new_block(), pointer(out)
    cursor, columns, tiles, starts, faces, frames = block[:6]
    alpha, rest, grad = pointer(rendered[0]), pointer(rendered[1]), pointer(rendered[2])
    cutoff, count = np.float32(formulas.cutoff), corners.shape[1]
    cdf, sf, pdf = shifted(columns, CDF), shifted(columns, SF), shifted(columns, PDF)
    a, s = (sf, cdf) if formulas.reversed else (cdf, sf)
    for b in range(image_of_face[start], image_of_face[stop - 1] + 1):
        last, image = min(stop, offsets[b + 1]), images[b]
        cursor[FACE], cursor[ROW] = max(start, offsets[b]), -1
        slope = np.float32(per_pixel(image, formulas, size))
        while True:
            n = next_tiles(
                corners, boxes, last, rows, b, image[RADIUS], size, width, block, True, False
            )  # fmt: skip
            if cursor[PARTS] == 0:
                break
            arguments(n * SINGLES, image, formulas, size, columns)
            call_cdf_and_pdf(
                formulas.cdf_and_pdf,
                shifted(columns, ARGUMENT),
                n * SINGLES,
                formulas.shape,
                cdf,
                sf,
                pdf,
            )
            for k in range(n):
                _copy(k * SINGLES, columns, alpha, rest, grad, tiles[k], width)
            call_weight(
                formulas.weight, a, s, shifted(columns, ALPHA), shifted(columns, REST), n * SINGLES,
                image[FAMILY_P], shifted(columns, WEIGHT),
            )  # fmt: skip
            for i in range(0, n * SINGLES, SINGLES):
                if formulas.squared:
                    through_squared(i, a, cutoff, slope, columns)
                else:
                    through(i, a, cutoff, slope, columns)
            for p in range(cursor[PARTS]):
                first, end = starts[p] * SINGLES, starts[p + 1] * SINGLES
                if first == end:
                    continue
                frame, corner = shifted(frames, FRAME * p), faces[p] * count * 2
                if count == 4:
                    move_four(first, end, columns, frame, half, grads, corner)
                else:
                    move_three(first, end, columns, frame, half, grads, corner)
