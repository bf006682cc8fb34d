"""Ordered joining in float32: the kernels of the CPU backend that most scenes take.

As `ordered_kernels`, a thread owns a tile of the image and the entries of its faces in the table of
gradients. Here a tile is made of blocks of 4 x 4 pixels, each a vector, whose distances are those
of `tile_kernels`. A record is a face at a block. Each block has a list of its records, of which
every pixel has its own order: a record that comes last rises, in the pixels where it is nearer,
past those before it. Keys of depth are float64, as are sums of generators.

A pixel that a record does not cover, or that is closed, stays where it is: it takes the key of what
comes before it in the list.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportArgumentType=false

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from gendr.kernels.numba.calls import (
    call_cdf,
    call_cdf_and_pdf,
    call_generator,
    call_inverse,
    call_weight,
    keep_alive,
    pointer,
    row,
    shifted,
)
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.prefetch import prefetch
from gendr.kernels.numba.singles import fabs
from gendr.kernels.numba.vectors import (
    SINGLES,
    Condition,
    Lanes,
    Place,
    gathered,
    lanewise,
    maximum,
    minimum,
    scattered,
    where,
)
from gendr.rendering.backends.cpu.kernels import FAMILY_P, RADIUS, SHIFT, extent
from gendr.rendering.backends.cpu.ordered_kernels import (
    FACE_COLUMNS,
    GRAD_COLOUR,
    GRAD_OPACITY,
    GRAD_SCALE,
    OPACITY,
    SCALE,
    TALL,
    WIDE,
    first_pixel,
)
from gendr.rendering.backends.cpu.records import FaceTables, Formulas, Layers
from gendr.rendering.backends.cpu.tile_kernels import (
    ARGUMENT,
    CDF,
    COLUMNS,
    DISC,
    DISTANCE,
    FARTHEST,
    FRAME,
    GRAD,
    OF_FACE,
    OF_TILE,
    PDF,
    SF,
    SIDE,
    TILES,
    WEIGHT,
    measure_again,
    measure_four,
    measure_squared_again,
    measure_three,
    move_four,
    move_three,
    per_pixel,
    place_tile,
    put_argument,
    put_squared_argument,
    set_up,
    shuffled,
    slopes_four,
    slopes_three,
    store,
)

ACROSS = WIDE // SIDE
BLOCKS = ACROSS * (TALL // SIDE)  # of a tile
_SUB, _BITS = BLOCKS - 1, 5  # of a mark: BLOCKS is 2^5
# What is kept of records for the backward pass. By their lists: 1 - a and, of products, 1 - A of
# what is in front; of others A and 1 - A with the record, and a. In front of each list is a vector
# of what is before all. The order of a list: places of pixels among the records of the tile. By
# records: a mark is the number of the block, and a bit for each pixel that is covered; and the
# number of the entry.
S, REST, AFTER, COVER = range(4)
KEPT, KEPT_OF_PRODUCTS = 4, 2
ORDER, MARK, ENTRY = 0, SINGLES, SINGLES + 1  # columns
KEPT_MARKS = SINGLES + 2
# A distribution narrower than this, in pixels, takes distances of float64 so near to an edge.
NARROW, NEAR = 0.01, 0.01
# Rows of the scratch of records.
_A, _S, _G, _SHARE = range(4)
_AHEAD = 6  # so many entries before it is read, what is known of a face is fetched
_VALUE, _GRAD_A, _BEFORE, _OWN, _RATIO = range(5)

_INT, _LONG, _BIT = ir.IntType(32), ir.IntType(64), ir.IntType(SINGLES)
_FLOATS, _INTS = (ir.VectorType(kind, SINGLES) for kind in (ir.FloatType(), _INT))
_DOUBLES = ir.VectorType(ir.DoubleType(), SINGLES)
_NUMBERS = ir.Constant(_INTS, list(range(SINGLES)))


# ---------------------------------------------------------------------------------------------
# Vectors of 16 of any kind
# ---------------------------------------------------------------------------------------------


def _load(array, place, kind):
    address = array.builder.gep(array.base, [Place.of(place)])
    return array.builder.load(array.builder.bitcast(address, kind.as_pointer()), align=4)


def _doubles(array, place):
    return Lanes(array.builder, _load(array, place, _DOUBLES))


def _sixteen(number):
    """The first of fewer lanes in 16."""
    builder = number.builder
    return Lanes(builder, shuffled(builder, number.value, number.value, [0] * SINGLES))


def _wide(x):
    return Lanes(x.builder, x.builder.fpext(x.value, _DOUBLES))


def _narrow(x):
    return Lanes(x.builder, x.builder.fptrunc(x.value, _FLOATS))


def _covered(like, bits):
    """The pixels whose bits are set."""
    builder = like.builder
    narrow = builder.trunc(bits.value, _BIT)
    return Condition(like, builder.bitcast(narrow, ir.VectorType(ir.IntType(1), SINGLES)))


def _bits(condition):
    builder = condition.like.builder
    return builder.zext(builder.bitcast(condition.lanes, _BIT), _LONG)


def _any(builder, lanes):
    return builder.icmp_signed("!=", builder.bitcast(lanes, _BIT), _BIT(0))


def _gather(array, places):
    return Lanes(
        array.builder, gathered(array.builder, array.base, places, array.base.type.pointee)
    )


# ---------------------------------------------------------------------------------------------
# The records of a tile
# ---------------------------------------------------------------------------------------------


@inner()
def _reach(box, x_first, y_first):
    """The columns and rows of the blocks of a tile that the box of a face touches."""
    left, right = np.int64(box[0]) - x_first, np.int64(box[1]) - x_first
    top, bottom = np.int64(box[2]) - y_first, np.int64(box[3]) - y_first
    return (
        max(left, 0) // SIDE,
        (min(right, WIDE) + SIDE - 1) // SIDE,
        max(top, 0) // SIDE,
        (min(bottom, TALL) + SIDE - 1) // SIDE,
    )


@inner()
def _begin_lists(tile, tables, layers, spans):
    """Fill in where the list of each block begins, with room for all that may come; and no ends."""
    x_first, y_first = first_pixel(tile, layers)
    boxes, faces = pointer(tables.boxes), pointer(layers.faces)
    begin, end = layers.starts[tile], layers.starts[tile + 1]
    for k in range(2 * BLOCKS):
        spans[k] = 0
    for e in range(begin, end):
        # What is known of faces lies in no order.
        prefetch(shifted(boxes, 4 * np.int64(faces[min(e + _AHEAD, end - 1)])))
        left, right, top, bottom = _reach(shifted(boxes, 4 * np.int64(faces[e])), x_first, y_first)
        for y in range(top, bottom):
            for x in range(left, right):
                spans[y * ACROSS + x] += 1
    place = 0
    for k in range(BLOCKS):
        room = spans[k] + 1
        spans[k] = spans[BLOCKS + k] = place + 1
        place += room


def _cover(i, a, s, opacity, cutoff, xs, ys, plane, limit, closed, keys, out_a, out_s):
    """Fill in a, 1 - a and the keys of a record; return the pixels that are covered and open."""
    builder = i.builder

    def four(array, places):
        found = array.builder.load(
            builder.bitcast(array.base, ir.VectorType(ir.DoubleType(), 4).as_pointer()), align=8
        )
        return Lanes(builder, shuffled(builder, found, found, places))

    x = four(xs, [k % SIDE for k in range(SINGLES)])
    y = four(ys, [k // SIDE for k in range(SINGLES)])
    p, q, r, least, most = (
        _sixteen(Lanes.splat(builder, builder.load(builder.gep(array.base, [_LONG(k)]))))
        for array, k in ((plane, 0), (plane, 1), (plane, 2), (limit, 0), (limit, 1))
    )
    key = minimum(maximum(p * x + q * y + r, least), most)
    cover, rest = a[i], s[i]
    seen = (cover > cutoff) & (key >= _doubles(closed, 0))
    out_a[0] = where(seen, opacity * cover, 0.0)
    out_s[0] = where(seen, (1.0 - opacity) + opacity * rest, 1.0)
    store(keys, 0, key.value)
    return _bits(seen)


_cover = lanewise(_cover, types.int64)


def _places_of(record):
    builder = record.builder
    first = Lanes.splat(builder, builder.trunc((record * SINGLES).value, _INT))
    return builder.add(_sixteen(first).value, _NUMBERS)


@lanewise
def _append(place, record, order):
    """Put a record at the end of a list."""
    store(order, place * SINGLES, _places_of(record))


@lanewise
def _insert(first, place, record, bits, key, keys, order, faces):
    """Put a record into a list from `first` to `place`: in every pixel before those farther away.

    Of equal keys the face with the lower number comes first. What rises stays in registers.
    """
    builder = place.builder
    key = _doubles(key, 0)
    active = _covered(key, bits)
    key = where(active, key, _doubles(keys, (place + -1) * SINGLES))
    here, rising = (cgutils.alloca_once_value(builder, x) for x in (place.value, active.lanes))
    carried = cgutils.alloca_once_value(builder, key.value)
    carried_places = cgutils.alloca_once_value(builder, _places_of(record))
    look, rise, done = (builder.append_basic_block(name) for name in ("look", "rise", "done"))
    compare = builder.append_basic_block("compare")
    builder.branch(look)
    builder.position_at_end(look)
    more = builder.icmp_signed(">", builder.load(here), first.value)
    builder.cbranch(more, compare, done)
    builder.position_at_end(compare)
    before = (Place(builder, builder.load(here)) + -1) * SINGLES
    near, key = _doubles(keys, before), Lanes(builder, builder.load(carried))
    other, own = _load(order, before, _INTS), builder.load(carried_places)
    lanes = builder.load(rising)
    up = cgutils.alloca_once_value(builder, lanes)
    builder.store(builder.and_(lanes, (key > near).lanes), up)
    ties = builder.and_(lanes, key.equals(near).lanes)
    with builder.if_then(_any(builder, ties), likely=False):
        shift = ir.Constant(_INTS, [4] * SINGLES)
        of_other, of_own = (
            gathered(builder, faces.base, builder.ashr(x, shift)) for x in (other, own)
        )
        lower = builder.and_(ties, builder.icmp_signed("<", of_own, of_other))
        builder.store(builder.or_(builder.load(up), lower), up)
    lanes = builder.load(up)
    builder.cbranch(_any(builder, lanes), rise, done)
    builder.position_at_end(rise)
    risen, at = Condition(key, lanes), before + SINGLES
    store(keys, at, where(risen, near, key).value)
    store(order, at, builder.select(lanes, other, own))
    builder.store(where(risen, key, near).value, carried)
    builder.store(builder.select(lanes, own, other), carried_places)
    builder.store(lanes, rising)
    builder.store(builder.sub(builder.load(here), _LONG(1)), here)
    builder.branch(look)
    builder.position_at_end(done)
    at = Place(builder, builder.load(here)) * SINGLES
    store(keys, at, builder.load(carried))
    store(order, at, builder.load(carried_places))


def _closing(product):
    """A step that adds a record to what closes pixels; returns those that are open."""

    def step(g, bits, key, enough, closed, totals, farthest):
        key, total = _doubles(key, 0), _doubles(totals, 0)
        value = _wide(g[0])
        total = total + (1.0 - total) * value if product else total + value
        far = _doubles(farthest, 0)
        far = where(_covered(key, bits), minimum(far, key), far)
        shut = _doubles(closed, 0)
        full = shut.equals(-np.inf) & (total > _sixteen(enough))
        shut = where(full, far, shut)
        for array, value in ((totals, total), (farthest, far), (closed, shut)):
            store(array, 0, value.value)
        return _bits(shut.equals(-np.inf))

    return lanewise(step, types.int64)


_close_product, _close = _closing(True), _closing(False)


def _is_near(i, block):
    """Whether a pixel of a block is near to an edge."""
    builder = i.builder
    near = fabs(block[i + DISTANCE]) < NEAR
    return builder.icmp_signed("!=", _bits(near), _LONG(0))


_is_near = lanewise(_is_near, types.boolean)


@inner()
def _remeasure(i, frame, column, line, slope, shift, formulas, columns):
    """Measure a block in float64."""
    x, y = np.float64(column), np.float64(line)
    if formulas.squared:
        measure_squared_again(i, frame, x, y, slope, shift, columns)
    else:
        measure_again(i, frame, x, y, slope, shift, columns)


@inner()
def _flush(m, n, tile, tables, formulas, layers, block, scratch, state, keys, found, spans):
    """Put m measured blocks of faces behind the n records of a tile; return the number of all."""
    columns, subs, entries, pixel_keys = pointer(block[0]), block[1], block[2], pointer(block[3])
    closed, totals, farthest, shut = row(state, 0), row(state, 1), row(state, 2), row(state, 3)
    a, s, g, faces = row(scratch, _A), row(scratch, _S), row(scratch, _G), pointer(block[8])
    order, marks, numbers = found
    cdf, sf = shifted(columns, CDF), shifted(columns, SF)
    covers, rests = (sf, cdf) if formulas.reversed else (cdf, sf)
    cutoff, begin = np.float32(formulas.cutoff), layers.starts[tile]
    xs, ys, images = pointer(tables.grid[0]), pointer(tables.grid[1]), pointer(tables.images)
    planes, limits, listed = pointer(layers.planes), pointer(layers.limits), pointer(layers.faces)
    x_first, y_first = first_pixel(tile, layers)
    call_cdf(formulas.cdf, shifted(columns, ARGUMENT), m * SINGLES, formulas.shape, cdf, sf)
    first = n
    for k in range(m):
        sub, f = subs[k], np.int64(listed[begin + entries[k]])
        x, y = x_first + sub % ACROSS * SIDE, y_first + sub // ACROSS * SIDE
        bits = _cover(
            k * SINGLES, covers, rests, np.float32(images[f * FACE_COLUMNS + OPACITY]), cutoff,
            shifted(xs, x), shifted(ys, y), shifted(planes, 3 * f), shifted(limits, 2 * f),
            shifted(closed, sub * SINGLES),
            shifted(pixel_keys, (n - first) * SINGLES), shifted(a, n * SINGLES),
            shifted(s, n * SINGLES),
        )  # fmt: skip
        if bits:
            marks[n], numbers[n], faces[n] = sub | bits << _BITS, entries[k], f
            n += 1
    if not formulas.product and n > first:
        at = first * SINGLES
        call_generator(
            formulas.generator, shifted(a, at), shifted(s, at), (n - first) * SINGLES,
            tables.images[layers.faces[begin], FAMILY_P], shifted(g, at),
        )  # fmt: skip
    for r in range(first, n):
        sub, bits = np.int64(marks[r]) & _SUB, np.int64(marks[r]) >> _BITS
        key, place, at = shifted(pixel_keys, (r - first) * SINGLES), spans[BLOCKS + sub], sub * 16
        spans[BLOCKS + sub] = place + 1
        if layers.sorts:
            _insert(spans[sub], place, r, bits, key, keys, order, faces)
        else:
            _append(place, r, order)
        prefetch(shifted(order, (place + 1) * SINGLES))
        if layers.enough < np.inf and shut[sub] == -np.inf:
            here = shifted(closed, at), shifted(totals, at), shifted(farthest, at)
            if formulas.product:
                left = _close_product(shifted(a, r * SINGLES), bits, key, layers.enough, *here)
            else:
                left = _close(shifted(g, r * SINGLES), bits, key, layers.enough, *here)
            if left == 0:
                shut[sub] = np.inf
                for i in range(at, at + SINGLES):
                    shut[sub] = min(shut[sub], closed[i])
    return n


@inner()
def _list_records(
    tile, tables, formulas, layers, colours, block, scratch, state, keys, found, spans, size
):
    """List the records of a tile that are seen; return their number."""
    closed, totals, farthest, shut = row(state, 0), row(state, 1), row(state, 2), row(state, 3)
    columns, subs, entries = pointer(block[0]), block[1], block[2]
    frame, base = row(block[4], 0), pointer(block[5])
    lines = shifted(base, OF_TILE)
    x_first, y_first = first_pixel(tile, layers)
    height, width = size
    for k in range(BLOCKS):
        shut[k] = -np.inf
        for lane in range(SINGLES):
            x = x_first + k % ACROSS * SIDE + lane % SIDE
            y = y_first + k // ACROSS * SIDE + lane // SIDE
            closed[k * SINGLES + lane] = -np.inf if x < width and y < height else np.inf
            totals[k * SINGLES + lane], farthest[k * SINGLES + lane] = 0.0, np.inf
        if layers.sorts:
            for i in range((spans[k] - 1) * SINGLES, spans[k] * SINGLES):
                keys[i] = np.inf
    half, middle, centre = 0.5 * min(height, width), 0.5 * (width - 1), 0.5 * (height - 1)
    quad = tables.corners.shape[1] == 4
    m, n, begin, end = 0, 0, layers.starts[tile], layers.starts[tile + 1]
    boxes, images, corners = pointer(tables.boxes), pointer(tables.images), pointer(tables.corners)
    faces, limits, palette = pointer(layers.faces), pointer(layers.limits), pointer(colours)
    planes, numbers = pointer(layers.planes), tables.corners.shape[1] * 2
    for e in range(begin, end):
        f, ahead = np.int64(faces[e]), np.int64(faces[min(e + _AHEAD, end - 1)])
        prefetch(shifted(limits, 2 * ahead))
        prefetch(shifted(planes, 3 * ahead))
        prefetch(shifted(images, FACE_COLUMNS * ahead))
        prefetch(shifted(corners, numbers * ahead))
        prefetch(shifted(palette, colours.shape[1] * ahead))
        nearest, image, ready = limits[2 * f + 1], shifted(images, FACE_COLUMNS * f), False
        slope = per_pixel(image, formulas, size)
        wide = (1.0 / np.sqrt(slope) if formulas.squared else 1.0 / slope) >= NARROW
        slope = -slope if formulas.reversed else slope
        factor, shift = np.float32(slope), np.float32(image[SHIFT])
        left, right, top, bottom = _reach(shifted(boxes, 4 * f), x_first, y_first)
        for sub in range(top * ACROSS, bottom * ACROSS):
            x = sub % ACROSS
            if x < left or x >= right or nearest < shut[sub]:
                continue
            if not ready:
                reach, ready = image[RADIUS] * half + FARTHEST, True
                set_up(corners, f, quad, half, middle, centre, reach, frame, lines)
            column, line = x_first // SIDE + x, y_first // SIDE + sub // ACROSS
            dx = SIDE * column + 0.5 * (SIDE - 1) - frame[DISC]
            dy = SIDE * line + 0.5 * (SIDE - 1) - frame[DISC + 1]
            if dx * dx + dy * dy > frame[DISC + 2] or not place_tile(
                frame, np.float64(column), np.float64(line), base
            ):
                continue
            i = SINGLES * m
            if quad:  # a constant in each branch
                measure_four(i, base, lines, columns)
            else:
                measure_three(i, base, lines, columns)
            if formulas.squared:
                put_squared_argument(i, factor, shift, columns)
            else:
                put_argument(i, factor, shift, columns)
            if not wide and _is_near(i, columns):
                _remeasure(i, frame, column, line, slope, image[SHIFT], formulas, columns)
            subs[m], entries[m] = sub, e - begin
            m += 1
            if m == TILES:
                n = _flush(
                    m, n, tile, tables, formulas, layers, block, scratch, state, keys, found, spans
                )  # fmt: skip
                m = 0
    if m > 0:
        n = _flush(m, n, tile, tables, formulas, layers, block, scratch, state, keys, found, spans)
    return n


# ---------------------------------------------------------------------------------------------
# Forward
# ---------------------------------------------------------------------------------------------


@lanewise
def _join_product(i, order, opaque, kept_s, kept_rest, rests, shares):
    """Join the next record of a list: keep 1 - a and what is left before it."""
    places = _load(order, i, _INTS)
    s, rest = _gather(opaque, places), rests[0]
    kept_s[i], kept_rest[i] = s, rest
    scattered(shares.builder, shares.base, places, rest.value)
    rests[0] = rest * s


@lanewise
def _sum(i, order, covers, opaque, generators, kept_a, kept_s, sums, totals):
    """Add the next record of a list to the sums of its pixels."""
    places = _load(order, i, _INTS)
    kept_a[i], kept_s[i] = _gather(covers, places), _gather(opaque, places)
    total = _doubles(totals, 0) + _wide(_gather(generators, places))
    store(totals, 0, total.value)
    sums[i] = _narrow(total)


def _weight(i, after, rest):
    """A_i - A_(i - 1), from whichever of A and 1 - A has more digits."""
    before = i + -SINGLES
    return where(after[i] > 0.5, rest[before] - rest[i], after[i] - after[before])


@lanewise
def _share(i, order, after, rest, shares):
    """Tell a record of a list its weights."""
    weight = _weight(i, after, rest)
    scattered(shares.builder, shares.base, _load(order, i, _INTS), weight.value)


@lanewise
def _times(i, shares, covers):
    shares[i] = shares[i] * covers[i]


@lanewise
def _add(i, values, pixel, totals):
    totals[pixel] = totals[pixel] + values[i]


@lanewise
def _paint(i, shares, colour, pixel, rendered):
    """Add a record to a channel of its pixels."""
    rendered[pixel] = rendered[pixel] + shares[i] * colour


@inner()
def _join(tile, n, p, formulas, layers, kept, order, scratch, sums, lefts, spans):
    """Join the records of a tile: fill in the weights of all, and what is left of pixels."""
    place = layers.firsts[tile] * SINGLES
    a, s, g, shares = row(scratch, _A), row(scratch, _S), row(scratch, _G), row(scratch, _SHARE)
    kept_s, rest = shifted(row(kept, S), place), shifted(row(kept, REST), place)
    for k in range(BLOCKS):
        left, total = shifted(lefts, k * SINGLES), shifted(sums, k * SINGLES)
        for i in range(SINGLES):
            left[i], total[i] = np.float32(1.0), 0.0
        begin, end = spans[k] * SINGLES, spans[BLOCKS + k] * SINGLES
        if formulas.product:
            for i in range(begin, end, SINGLES):
                _join_product(i, order, s, kept_s, rest, left, shares)
        elif begin < end:
            kept_a, after = shifted(row(kept, COVER), place), shifted(row(kept, AFTER), place)
            for i in range(begin - SINGLES, begin):
                after[i], rest[i] = np.float32(0.0), np.float32(1.0)
            for i in range(begin, end, SINGLES):
                _sum(i, order, a, s, g, kept_a, kept_s, after, total)
            call_inverse(
                formulas.inverse, shifted(after, begin), end - begin, p, shifted(after, begin),
                shifted(rest, begin),
            )  # fmt: skip
            for i in range(begin, end, SINGLES):
                _share(i, order, after, rest, shares)
            for i in range(SINGLES):
                left[i] = rest[end - SINGLES + i]
    if formulas.product:
        for i in range(0, n * SINGLES, SINGLES):
            _times(i, shares, a)


@inner()
def _room(layers, start, stop):
    """The most records of the tiles start .. stop - 1, with what is in front of lists."""
    most = 0
    for tile in range(start, stop):
        most = max(most, layers.areas[tile])
    return most + BLOCKS + 1


@inner()
def _new_block(room):
    """What is measured at once: columns, blocks, entries and keys; and one frame of a face or more.

    Then the beginnings and entries of parts that belong to one face each, and the faces of records.
    """
    return (
        np.zeros(COLUMNS, np.float32), np.zeros(TILES, np.int64), np.zeros(TILES, np.int64),
        np.zeros(TILES * SINGLES), np.zeros((TILES, FRAME)),
        np.zeros(OF_TILE + OF_FACE, np.float32),
        np.zeros(TILES + 1, np.int64), np.zeros(TILES, np.int64), np.empty(room, np.int32),
    )  # fmt: skip


@kernel()
def join_tiles(
    arrays, formulas, layer_arrays, colours, kept, marks, all_spans, counts, out, alpha, start, stop
):
    """Fill in colours [C, P] and alpha [P], float32, for the tiles start .. stop - 1.

    And what is kept: `kept` and `marks`, where the list of each block begins and ends, and `counts`
    of the records of tiles.
    """
    tables, formulas, layers = FaceTables(*arrays), Formulas(*formulas), Layers(*layer_arrays)
    size, channels = extent(tables.grid), colours.shape[1]
    height, width = size
    room = _room(layers, start, stop)
    scratch, block = np.empty((4, room * SINGLES), np.float32), _new_block(room)
    keys = np.empty(room * SINGLES if layers.sorts else 0)
    state, rendered = (
        np.empty((4, BLOCKS * SINGLES)),
        np.empty(BLOCKS * SINGLES * channels, np.float32),
    )
    pixels, image_of, alphas = np.empty((2, BLOCKS * SINGLES), np.float32), pointer(out), alpha
    lefts, totals, shares = row(pixels, 0), row(pixels, 1), row(scratch, _SHARE)
    owners, palette, canvas = block[8], pointer(colours), pointer(rendered)
    for tile in range(start, stop):
        spans, place, begin = row(all_spans, tile), layers.firsts[tile], layers.starts[tile]
        if begin == layers.starts[tile + 1]:
            continue
        found = (
            shifted(pointer(marks), place * SINGLES), shifted(row(marks, MARK), place),
            shifted(row(marks, ENTRY), place),
        )  # fmt: skip
        _begin_lists(tile, tables, layers, spans)
        counts[tile] = n = _list_records(
            tile, tables, formulas, layers, colours, block, scratch, state, pointer(keys), found,
            spans, size,
        )  # fmt: skip
        if n == 0:
            continue
        p = tables.images[layers.faces[begin], FAMILY_P]
        _join(tile, n, p, formulas, layers, kept, found[0], scratch, row(state, 1), lefts, spans)
        for i in range(BLOCKS * SINGLES):
            totals[i] = np.float32(0.0)
        for i in range(BLOCKS * SINGLES * channels):
            canvas[i] = np.float32(0.0)
        for r in range(n):
            sub, first = np.int64(found[1][r]) & _SUB, np.int64(owners[r]) * channels
            _add(r * SINGLES, shares, sub * SINGLES, totals)
            for c in range(channels):
                at = (sub * channels + c) * SINGLES
                _paint(r * SINGLES, shares, palette[first + c], at, canvas)
        x_first, y_first = first_pixel(tile, layers)
        image = tile // (layers.across * layers.down)
        for y in range(min(TALL, height - y_first)):
            first = (image * height + y_first + y) * width + x_first
            for x in range(min(WIDE, width - x_first)):
                sub, lane = y // SIDE * ACROSS + x // SIDE, y % SIDE * SIDE + x % SIDE
                i, half = sub * SINGLES + lane, np.float32(0.5)
                alphas[first + x] = np.float32(1.0) - lefts[i] if lefts[i] < half else totals[i]
                for c in range(channels):
                    at = (sub * channels + c) * SINGLES + lane
                    image_of[c * len(alphas) + first + x] = canvas[at]
    keep_alive((rendered, pixels))


# ---------------------------------------------------------------------------------------------
# Backward
# ---------------------------------------------------------------------------------------------


@lanewise
def _add_value(i, colour, pixel, grads, values):
    """Add what a channel of its colour makes of a record."""
    values[i] = values[i] + grads[pixel] * colour


@lanewise
def _unjoin_product(i, order, opaque, rests, values, farther, chain, grad_a, shares):
    """The gradients of a, and the weights over a, of a record of a list; see `backward_tiles`."""
    places = _load(order, i, _INTS)
    value, s, rest = _gather(values, places), opaque[i], rests[i]
    through = where(rest * s > 0.0, value - farther[0], 0.0) + chain[0]
    scattered(grad_a.builder, grad_a.base, places, (rest * through).value)
    scattered(shares.builder, shares.base, places, rest.value)
    farther[0], chain[0] = value, s * through


@lanewise
def _unjoin(i, order, after, rests, own, ratio, values, farther, chain, grad_a, shares):
    """As `_unjoin_product`, of any family; and the weights themselves."""
    places = _load(order, i, _INTS)
    value = _gather(values, places)
    through = where(rests[i] > 0.0, value - farther[0], 0.0) + chain[0]
    scattered(grad_a.builder, grad_a.base, places, (own[i] * through).value)
    scattered(shares.builder, shares.base, places, _weight(i, after, rests).value)
    farther[0], chain[0] = value, ratio[i] * through


@inner()
def _unjoin_lists(place, p, formulas, kept, order, scratch, farther, chain, spans):
    """Fill in the gradients of a and the weights (of products: over a) of the records of a tile."""
    kept_s, rest = shifted(row(kept, S), place), shifted(row(kept, REST), place)
    values, grad_a, shares = row(scratch, _VALUE), row(scratch, _GRAD_A), row(scratch, _BEFORE)
    for k in range(BLOCKS):
        begin, end = spans[k] * SINGLES, spans[BLOCKS + k] * SINGLES
        behind, carried = shifted(farther, k * SINGLES), shifted(chain, k * SINGLES)
        if begin == end:
            continue
        if formulas.product:
            for i in range(end - SINGLES, begin - 1, -SINGLES):
                _unjoin_product(
                    i, order, kept_s, rest, values, behind, carried, grad_a, shares
                )  # fmt: skip
            continue
        cover, after = shifted(row(kept, COVER), place), shifted(row(kept, AFTER), place)
        own, ratio = row(scratch, _OWN), row(scratch, _RATIO)
        now = shifted(after, begin), shifted(rest, begin), end - begin, p
        call_weight(
            formulas.weight,
            shifted(cover, begin),
            shifted(kept_s, begin),
            *now,
            shifted(own, begin),
        )
        call_weight(
            formulas.weight, shifted(after, begin - SINGLES), shifted(rest, begin - SINGLES), *now,
            shifted(ratio, begin),
        )  # fmt: skip
        for i in range(end - SINGLES, begin - 1, -SINGLES):
            _unjoin(
                i, order, after, rest, own, ratio, values, behind, carried, grad_a, shares
            )  # fmt: skip


def _records_backward_step(squared):
    """A step for the records of one face that are measured at the places from `start` on.

    It fills in the gradients of distances and the weights, and the gradients of opacity and scale.
    """

    def step(
        start, stop, records, marks, a, opacity, slope, scale, product, grad_a, shares, block, out
    ):
        builder = start.builder
        zero = ir.Constant(_FLOATS, [0.0] * SINGLES)
        kept = [cgutils.alloca_once_value(builder, zero) for _ in range(2)]
        with cgutils.for_range_slice(builder, start.value, stop.value, _LONG(1), inc=True) as (
            k,
            _,
        ):
            record = Place(builder, builder.add(records.value, k))
            i, at = Place(builder, k) * SINGLES, record * SINGLES
            bits = builder.load(builder.gep(marks.base, [record.value]))
            bits = Place(builder, builder.ashr(bits, _INT(_BITS)))
            cover, distance = a[i], block[i + DISTANCE]
            seen = _covered(cover, bits)
            on_a, share = where(seen, grad_a[at], 0.0), where(seen, shares[at], 0.0)
            share = share * (product * (opacity * cover) + (1.0 - product))
            grad, factor = on_a * opacity * block[i + PDF], slope
            argument = distance * slope
            if squared:
                factor, argument = 2.0 * fabs(distance) * slope, fabs(distance) * argument
            block[i + WEIGHT], block[i + GRAD] = share, grad * factor
            terms = on_a * cover, where(seen, grad * argument, 0.0)
            for term, total in zip(terms, kept, strict=True):
                builder.store((Lanes(builder, builder.load(total)) + term).value, total)
        on_opacity, on_scale = (Lanes(builder, builder.load(total)) for total in kept)
        for column, total in ((GRAD_OPACITY, on_opacity), (GRAD_SCALE, -on_scale / scale)):
            address = builder.gep(out.base, [_LONG(column)])
            builder.store(builder.fadd(builder.load(address), total.sum()), address)

    return lanewise(step)


_pull, _pull_squared = _records_backward_step(False), _records_backward_step(True)


@lanewise
def _add_colour(start, stop, block, subs, channels, c, grads, out):
    """Add the gradient of a channel of a face to a place of `out`."""
    builder = start.builder
    zero = ir.Constant(_FLOATS, [0.0] * SINGLES)
    kept = cgutils.alloca_once_value(builder, zero)
    with cgutils.for_range_slice(builder, start.value, stop.value, _LONG(1), inc=True) as (k, _):
        sub = Place(builder, builder.load(builder.gep(subs.base, [k])))
        pixel = (sub * channels + c) * SINGLES
        share = block[Place(builder, k) * SINGLES + WEIGHT]
        total = Lanes(builder, builder.load(kept)) + share * grads[pixel]
        builder.store(total.value, kept)
    address = builder.gep(out.base, [Place.of(c + GRAD_COLOUR)])
    total = Lanes(builder, builder.load(kept)).sum()
    builder.store(builder.fadd(builder.load(address), total), address)


@inner()
def _records_backward(
    tile, n, tables, formulas, layers, block, scratch, marks, numbers, grads, channels, table, size
):
    """Fill in the rows of the entries of a tile, from the gradients of their records."""
    columns, subs = pointer(block[0]), block[1]
    frames, base, starts, parts = block[4], pointer(block[5]), block[6], block[7]
    lines = shifted(base, OF_TILE)
    cdf, sf, pdf = shifted(columns, CDF), shifted(columns, SF), shifted(columns, PDF)
    a = sf if formulas.reversed else cdf
    grad_a, shares = row(scratch, _GRAD_A), row(scratch, _BEFORE)
    x_first, y_first = first_pixel(tile, layers)
    height, width = size
    half, middle, centre = 0.5 * min(height, width), 0.5 * (width - 1), 0.5 * (height - 1)
    quad, begin, rows = tables.corners.shape[1] == 4, layers.starts[tile], pointer(table)
    product = np.float32(1.0 if formulas.product else 0.0)
    images, corners, listed = pointer(tables.images), pointer(tables.corners), pointer(layers.faces)
    places, end, each = pointer(layers.places), layers.starts[tile + 1], tables.corners.shape[1] * 2
    width_of_row, first = table.shape[1], 0
    while first < n:
        m, count, last = min(n - first, TILES), 0, -1
        for k in range(m):
            e = np.int64(numbers[first + k])
            f = np.int64(listed[begin + e])
            if e != last:
                ahead = min(begin + e + _AHEAD, end - 1)
                prefetch(shifted(images, FACE_COLUMNS * np.int64(listed[ahead])))
                prefetch(shifted(corners, each * np.int64(listed[ahead])))
                prefetch(shifted(rows, width_of_row * places[ahead]))
                prefetch(shifted(rows, width_of_row * places[ahead] + SINGLES - 1))
                frame, image = row(frames, count), shifted(images, FACE_COLUMNS * f)
                reach = image[RADIUS] * half + FARTHEST
                set_up(corners, f, quad, half, middle, centre, reach, frame, lines)
                slope = per_pixel(image, formulas, size)
                wide = (1.0 / np.sqrt(slope) if formulas.squared else 1.0 / slope) >= NARROW
                slope = -slope if formulas.reversed else slope
                factor, shift = np.float32(slope), np.float32(image[SHIFT])
                starts[count], parts[count], last, count = k, e, e, count + 1
            frame = row(frames, count - 1)
            sub = np.int64(marks[first + k]) & _SUB
            subs[k] = sub
            column, line = x_first // SIDE + sub % ACROSS, y_first // SIDE + sub // ACROSS
            place_tile(frame, np.float64(column), np.float64(line), base)
            i = k * SINGLES
            if quad:  # a constant in each branch
                slopes_four(i, base, lines, columns)
            else:
                slopes_three(i, base, lines, columns)
            if formulas.squared:
                put_squared_argument(i, factor, shift, columns)
            else:
                put_argument(i, factor, shift, columns)
            if not wide and _is_near(i, columns):
                _remeasure(i, frame, column, line, slope, np.float64(shift), formulas, columns)
        starts[count] = m
        call_cdf_and_pdf(
            formulas.cdf_and_pdf,
            shifted(columns, ARGUMENT),
            m * SINGLES,
            formulas.shape,
            cdf,
            sf,
            pdf,
        )
        for k in range(count):
            place, f = places[begin + parts[k]], np.int64(listed[begin + parts[k]])
            out, image = shifted(rows, width_of_row * place), shifted(images, FACE_COLUMNS * f)
            start, stop = starts[k], starts[k + 1]
            opacity, scale = np.float32(image[OPACITY]), np.float32(image[SCALE])
            slope = np.float32(per_pixel(image, formulas, size))
            if formulas.squared:
                _pull_squared(
                    start, stop, first, marks, a, opacity, slope, scale, product, grad_a, shares,
                    columns, out,
                )  # fmt: skip
            else:
                _pull(
                    start, stop, first, marks, a, opacity, slope, scale, product, grad_a, shares,
                    columns, out,
                )  # fmt: skip
            for c in range(channels):
                _add_colour(start, stop, columns, pointer(subs), channels, c, grads, out)
            start, stop, corner = start * SINGLES, stop * SINGLES, place * width_of_row
            if quad:
                move_four(start, stop, columns, row(frames, k), half, rows, corner)
            else:
                move_three(start, stop, columns, row(frames, k), half, rows, corner)
        first += m


@kernel()
def backward_tiles(
    arrays, formulas, layer_arrays, colours, kept, marks, all_spans, counts, grad_out, grad_alpha,
    table, start, stop,
):  # fmt: skip
    """Fill in the rows of `table` of the entries of the tiles start .. stop - 1.

    See `ordered_kernels.backward_tiles`.
    """
    tables, formulas, layers = FaceTables(*arrays), Formulas(*formulas), Layers(*layer_arrays)
    size, channels = extent(tables.grid), colours.shape[1]
    height, width = size
    room = _room(layers, start, stop)
    scratch, block = np.empty((5, room * SINGLES), np.float32), _new_block(0)
    grads = np.empty(BLOCKS * SINGLES * channels, np.float32)
    pixels, image_of = np.empty((2, BLOCKS * SINGLES), np.float32), pointer(grad_out)
    farther, chain, values = row(pixels, 0), row(pixels, 1), row(scratch, _VALUE)
    palette, canvas, listed = pointer(colours), pointer(grads), pointer(layers.faces)
    for tile in range(start, stop):
        n, place, begin = counts[tile], layers.firsts[tile], layers.starts[tile]
        if n == 0:
            continue
        order, found = shifted(pointer(marks), place * SINGLES), shifted(row(marks, MARK), place)
        numbers, spans = shifted(row(marks, ENTRY), place), row(all_spans, tile)
        for i in range(BLOCKS * SINGLES):
            farther[i], chain[i] = np.float32(0.0), np.float32(0.0)
        for i in range(BLOCKS * SINGLES * channels):
            canvas[i] = np.float32(0.0)
        x_first, y_first = first_pixel(tile, layers)
        image = tile // (layers.across * layers.down)
        for y in range(min(TALL, height - y_first)):
            first = (image * height + y_first + y) * width + x_first
            for x in range(min(WIDE, width - x_first)):
                sub, lane = y // SIDE * ACROSS + x // SIDE, y % SIDE * SIDE + x % SIDE
                farther[sub * SINGLES + lane] = -grad_alpha[first + x]
                for c in range(channels):
                    at = (sub * channels + c) * SINGLES + lane
                    canvas[at] = image_of[c * len(grad_alpha) + first + x]
        end = layers.starts[tile + 1]
        for e in range(begin, min(begin + _AHEAD, end)):
            prefetch(shifted(palette, channels * np.int64(listed[e])))
        for r in range(n):
            sub, e = np.int64(found[r]) & _SUB, begin + np.int64(numbers[r])
            first, i = np.int64(listed[e]) * channels, r * SINGLES
            prefetch(shifted(palette, channels * np.int64(listed[min(e + _AHEAD, end - 1)])))
            for lane in range(i, i + SINGLES):
                values[lane] = np.float32(0.0)
            for c in range(channels):
                at = (sub * channels + c) * SINGLES
                _add_value(i, palette[first + c], at, canvas, values)
        p = tables.images[layers.faces[begin], FAMILY_P]
        _unjoin_lists(place * SINGLES, p, formulas, kept, order, scratch, farther, chain, spans)
        _records_backward(
            tile, n, tables, formulas, layers, block, scratch, found, numbers, canvas, channels,
            table, size,
        )  # fmt: skip
    keep_alive((grads, pixels))
