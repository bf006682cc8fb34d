"""The compiled kernels of ordered joining: the faces of a pixel from front to back.

A unit is a tile of the image: one thread owns its pixels, and the entries of its faces in the table
of gradients, so that any number of threads gives the same bits. The (pixel, face) pairs of a tile
are listed face by face, in vectors, and the pairs of each pixel put into the order of depth.

Faces are taken in the order of their nearest points. A pixel is closed once those listed so far
leave less than the bound to see: what lies behind the farthest of these is left out.

What the forward pass finds of pairs is kept for the backward pass.

Keys grow towards the camera; see `depth_planes` in shading.py.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import numpy as np

from gendr.kernels.numba.arrays import copy
from gendr.kernels.numba.calls import (
    call_cdf,
    call_cdf_and_pdf,
    call_generator,
    call_inverse,
    call_pdf,
    call_weight,
    pointer,
    row,
    shifted,
)
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.vectors import LANES
from gendr.rendering.backends.cpu.kernels import (
    _POINTS,
    DISTANCE,
    FAMILY_P,
    RADIUS,
    SCALE,
    X,
    Y,
    _measure,
    argument,
    extent,
    face_bounds,
    face_edges,
    face_orientation,
    measure_distances,
    move_face,
    row_span,
    through_argument,
    turn_gaps,
    turn_on_edges,
)
from gendr.rendering.backends.cpu.records import FaceTables, Formulas, Layers

WIDE, TALL = 32, 16  # a tile
PIXELS = WIDE * TALL  # at most BLOCK
_LOW, _BITS = PIXELS - 1, 9  # of a mark: PIXELS is 2^9
_TINY, _RISING = float(np.finfo(np.float64).tiny), np.uint64(2**63 - 1)
_MANY = 48  # pairs of a pixel, above which a heap sorts them
_RUN = PIXELS + LANES  # the most pairs of a face in a tile, and room for the last vector
# Further columns of the table of faces (`FaceTables.images`, here with one row per face).
OPACITY, SHAPE = 4, 5
FACE_COLUMNS = 6
# Columns of the table of gradients, with one row per face and tile: 8 numbers of corners first.
GRAD_OPACITY, GRAD_SCALE, GRAD_SHIFT, GRAD_SHAPE, GRAD_P, GRAD_COLOUR = 8, 9, 10, 11, 12, 13
# What is kept of pairs for the backward pass, in the order of faces, so that those of an entry
# follow each other: F, 1 - a, and A (but of products) and 1 - A of what is in front. The pairs of a
# tile begin at `Layers.firsts`; `ORDER` is theirs by depth, if it is not that of faces.
F, S, BEFORE, REST = range(4)
KEPT = 4
MARK, ORDER = range(2)  # a mark is PIXELS times the number of the entry, plus that of the pixel
MOST_ENTRIES = 2**31 // PIXELS  # of a tile, as marks are int32
KEPT_MARKS = 2
# Rows of the scratch of a tile. Forward: A_i and 1 - A_i take the places of a_i and its generator.
A, G, KEY, NEAR = range(4)
FORWARD_ROWS = 4
TOTAL, SHARE, OWN, NEXT, SLOPE_P, PART_P, GRAD_A, WEIGHT, LEFT = range(9)
BACKWARD_ROWS = 9


# ---------------------------------------------------------------------------------------------
# Keys of depth
# ---------------------------------------------------------------------------------------------


@kernel()
def depth_planes(corners, depths, centroid, planes, limits, start, stop):
    """Fill in what `gendr.rendering.layers.depth_keys` finds of the faces start .. stop - 1."""
    for f in range(start, stop):
        at, z, plane, limit = row(corners, f), row(depths, f), row(planes, f), row(limits, f)
        a, b, c = np.float64(z[0]), np.float64(z[1]), np.float64(z[2])
        if centroid:
            key = 1.0 / ((a + b + c) / 3.0)
            plane[0], plane[1], plane[2], limit[0], limit[1] = 0.0, 0.0, key, key, key
            continue
        a, b, c = 1.0 / a, 1.0 / b, 1.0 / c
        x, y = np.float64(at[0]), np.float64(at[1])
        ux, uy, vx, vy = at[2] - x, at[3] - y, at[4] - x, at[5] - y
        area, du, dv = ux * vy - uy * vx, b - a, c - a
        p, q = (du * vy - dv * uy) / area, (dv * ux - du * vx) / area
        r = a - p * x - q * y
        if abs(area) < _TINY or not np.isfinite(p + q + r):  # seen from its edge
            p, q, r = 0.0, 0.0, (a + b + c) / 3.0
        plane[0], plane[1], plane[2] = p, q, r
        limit[0], limit[1] = min(a, b, c), max(a, b, c)


@kernel()
def order_faces(keys, order):
    """Fill in the order of float64 keys by their bits: the largest first, equal ones as they are.

    By digits of 11 bits, the last first; a digit that all share is passed by.
    """
    n, some, counts = len(keys), np.empty((2, len(keys)), np.uint64), np.zeros((6, 2048), np.int64)
    others = np.empty(n, np.int64)
    for i in range(n):
        bits, order[i] = keys[i], i
        bits = bits ^ (np.uint64(0) if bits >> np.uint64(63) else _RISING)  # falls with the key
        some[0, i] = bits
        for digit in range(6):
            counts[digit, (bits >> np.uint64(11 * digit)) & np.uint64(2047)] += 1
    here, there, now, then = some[0], some[1], order, others
    for digit in range(6):
        count, shift, total = counts[digit], np.uint64(11 * digit), 0
        if n == 0 or count[(here[0] >> shift) & np.uint64(2047)] == n:
            continue
        for k in range(len(count)):
            count[k], total = total, total + count[k]
        for i in range(n):
            k = (here[i] >> shift) & np.uint64(2047)
            there[count[k]], then[count[k]] = here[i], now[i]
            count[k] += 1
        here, there, now, then = there, here, then, now
    copy(now, order)


# ---------------------------------------------------------------------------------------------
# Faces of tiles
# ---------------------------------------------------------------------------------------------


@inner()
def _touched(first, stop, start, extent, side):
    """The pieces of `side` pixels, from `start` on, in which first .. stop - 1 are."""
    return (min(stop - start, extent) + side - 1) // side - max(first - start, 0) // side


@kernel()
def count_tiles(boxes, image_of_face, across, down, side, starts, slots, areas):
    """Count the faces of every tile into starts[1 + tile], the tiles of every face into slots[1 +].

    `areas` gets the pixels of the boxes of faces within each tile, or the squares with `side`
    pixels that they touch. Both counts become sums.
    """
    for f in range(len(boxes)):
        x0, x1, y0, y1 = boxes[f, 0], boxes[f, 1], boxes[f, 2], boxes[f, 3]
        if x0 >= x1 or y0 >= y1:
            continue
        first = image_of_face[f] * across * down
        for ty in range(y0 // TALL, (y1 - 1) // TALL + 1):
            rows = _touched(y0, y1, ty * TALL, TALL, side)
            for tx in range(x0 // WIDE, (x1 - 1) // WIDE + 1):
                tile = first + ty * across + tx
                starts[tile + 1] += 1
                slots[f + 1] += 1
                areas[tile] += rows * _touched(x0, x1, tx * WIDE, WIDE, side)
    for tile in range(len(areas)):
        starts[tile + 1] += starts[tile]
    for f in range(len(boxes)):
        slots[f + 1] += slots[f]


@kernel()
def list_tiles(boxes, image_of_face, order, across, down, starts, slots, faces, places):
    """List the faces of every tile in the given order, and the row of gradients of each entry."""
    filled = starts[:-1].copy()
    for i in range(len(order)):
        f = order[i]
        x0, x1, y0, y1 = boxes[f, 0], boxes[f, 1], boxes[f, 2], boxes[f, 3]
        if x0 >= x1 or y0 >= y1:
            continue
        first, slot = image_of_face[f] * across * down, slots[f]
        for ty in range(y0 // TALL, (y1 - 1) // TALL + 1):
            for tx in range(x0 // WIDE, (x1 - 1) // WIDE + 1):
                tile = first + ty * across + tx
                faces[filled[tile]], places[filled[tile]] = f, slot
                filled[tile] += 1
                slot += 1


# ---------------------------------------------------------------------------------------------
# The pairs of a tile
# ---------------------------------------------------------------------------------------------


@inner()
def _store_points(f, x_first, y_first, edges, solid, tables, points, local, quad):
    """Write the pixels of a tile within reach of a face, and distances; return their number."""
    height, width = extent(tables.grid)
    xs, ys, box = pointer(tables.grid[0]), pointer(tables.grid[1]), row(tables.boxes, f)
    radius = row(tables.images, f)[RADIUS]
    all_bounds = face_bounds(edges, radius, width, float(min(height, width)))
    bounds = all_bounds if quad else (all_bounds[0], all_bounds[1], all_bounds[2], all_bounds[2])
    low, high = max(box[0], x_first), min(box[1], x_first + WIDE)
    n = 0
    for i in range(max(box[2], y_first), min(box[3], y_first + TALL)):
        y = ys[i]
        start, stop = row_span(low, high, bounds, y)
        base = (i - y_first) * WIDE - x_first
        for x in range(start, stop, LANES):
            m = n + x - start
            for k in range(LANES):
                points[X + m + k], points[Y + m + k] = xs[x + k], y
                local[m + k] = base + x + k
        n += max(stop - start, 0)
    measure_distances(points, (n + LANES - 1) // LANES * LANES, edges, quad, solid)
    return n


@inner()
def _list_pairs(tile, tables, formulas, layers, kept, marks, firsts, scratch, block, closed):
    """List the pairs of a tile that are seen, from the first place on; return their number.

    `firsts` gets the first pair of every entry. `closed` [PIXELS] is -inf for open pixels.
    """
    place = layers.firsts[tile]
    covers, rests = shifted(row(kept, F), place), shifted(row(kept, S), place)
    found = shifted(row(marks, MARK), place)
    a, g, keys = row(scratch, A), row(scratch, G), row(scratch, KEY)
    points, local, us, zs = pointer(block[0]), pointer(block[1]), block[2], block[3]
    cdf, sf, total, farthest = block[4], block[5], block[6], block[7]
    covered, rest, near = pointer(cdf), pointer(sf), pointer(us)
    if formulas.reversed:
        covered, rest = rest, covered
    x_first, y_first = first_pixel(tile, layers)
    quad, closes = tables.corners.shape[1] == 4, layers.enough < np.inf
    left = 0
    for i in range(PIXELS):
        total[i], farthest[i] = 0.0, np.inf
        left += closed[i] == -np.inf
    seen = -np.inf  # the least key that a pixel still shows, once all are closed
    n, begin, end = 0, layers.starts[tile], layers.starts[tile + 1]
    for e in range(begin, end):
        firsts[e] = place + n
        f = layers.faces[e]
        if left == 0:
            if seen == -np.inf:
                seen = closed[0]
                for i in range(1, PIXELS):
                    seen = min(seen, closed[i])
            if layers.limits[f, 1] < seen:
                for k in range(e, end):
                    firsts[k] = place + n
                return n
        orientation = face_orientation(tables.corners, f)
        edges = face_edges(tables.corners, f, orientation)
        solid = orientation != 0.0
        if quad:  # a constant in each branch
            count = _store_points(f, x_first, y_first, edges, solid, tables, points, local, True)
        else:
            count = _store_points(f, x_first, y_first, edges, solid, tables, points, local, False)
        if count == 0:
            continue
        whole = (count + LANES - 1) // LANES * LANES
        face = row(tables.images, f)
        argument(whole, shifted(points, DISTANCE), face, formulas, us, zs)
        call_cdf(formulas.cdf, pointer(zs), whole, face[SHAPE], pointer(cdf), pointer(sf))
        opacity, cutoff = face[OPACITY], formulas.cutoff
        plane, limit = row(layers.planes, f), row(layers.limits, f)
        p, q, r, least, most = plane[0], plane[1], plane[2], limit[0], limit[1]
        for i in range(whole):
            key = p * points[X + i] + q * points[Y + i] + r
            key = key if key > least else least
            near[i] = key if key < most else most
            rest[i] = (1.0 - opacity) + opacity * rest[i]
        start, mark = n, (e - begin) * PIXELS
        for i in range(count):
            # Written in any case, and overwritten if it is not seen: no branch.
            pixel = local[i]
            covers[n], rests[n], keys[n] = covered[i], rest[i], near[i]
            found[n] = mark + pixel
            n += (covered[i] > cutoff) & (near[i] >= closed[pixel])
        if not formulas.product:  # which needs no generators: 1 - a does
            for i in range(start, n):
                a[i] = opacity * covers[i]
        if formulas.idempotent:
            for i in range(start, n):
                g[i] = a[i]
        elif start < n and not formulas.product:
            call_generator(
                formulas.generator, shifted(a, start), shifted(rests, start), n - start,
                face[FAMILY_P], shifted(g, start),
            )  # fmt: skip
        if left and closes:
            for i in range(start, n):
                pixel = found[i] - mark
                if closed[pixel] > -np.inf:
                    continue
                if formulas.product:
                    total[pixel] = 1.0 - (1.0 - total[pixel]) * rests[i]
                elif formulas.idempotent:
                    total[pixel] = max(total[pixel], g[i])
                else:
                    total[pixel] += g[i]
                farthest[pixel] = min(farthest[pixel], keys[i])
                if total[pixel] > layers.enough:
                    closed[pixel] = farthest[pixel]
                    left -= 1
    return n


@inner()
def first_pixel(tile, layers):
    """The first column and row of a tile."""
    here = tile % (layers.across * layers.down)
    return here % layers.across * WIDE, here // layers.across * TALL


@inner()
def _sort_pairs(n, tile, layers, marks, scratch, span, filled, ranks):
    """Put the pairs of a tile into order, pixel by pixel, the nearest first.

    Of equal keys the face with the lower number comes first. The last three are scratch.
    """
    place, faces = layers.firsts[tile], shifted(pointer(layers.faces), layers.starts[tile])
    found, order = shifted(row(marks, MARK), place), shifted(row(marks, ORDER), place)
    keys, near = row(scratch, KEY), row(scratch, NEAR)
    for i in range(PIXELS + 1):
        span[i] = 0
    for i in range(n):
        span[(found[i] & _LOW) + 1] += 1
    for i in range(PIXELS):
        span[i + 1] += span[i]
        filled[i] = span[i]
    for i in range(n):
        pixel = found[i] & _LOW
        j = filled[pixel]
        order[j], near[j], filled[pixel] = i, keys[i], j + 1
    for i in range(LANES):
        near[n + i] = -np.inf
    for i in range(PIXELS):
        count, own = span[i + 1] - span[i], shifted(order, span[i])
        if count > _MANY or not _sort_by_ranks(own, shifted(near, span[i]), count, ranks):
            _heap_sort(own, count, keys, found, faces)


@inner()
def _sort_by_ranks(order, near, count, ranks):
    """Sort a few pairs by their keys `near`; return False, and do nothing, if two are equal.

    Every key is compared with all, in vectors: so few comparisons cost less than a branch that the
    processor cannot foresee.
    """
    whole = (count + LANES - 1) // LANES * LANES
    keys, old = shifted(ranks, _MANY + LANES), shifted(ranks, 2 * (_MANY + LANES))
    for i in range(whole):
        keys[i], ranks[i] = near[i], 0.0
    total = 0.0
    for j in range(count):
        key = keys[j]
        for i in range(whole):
            ranks[i] += 1.0 if key > keys[i] else 0.0
    for i in range(count):
        total += ranks[i]
        old[i] = order[i]
    if 2 * total != count * (count - 1):
        return False
    for i in range(count):
        order[int(ranks[i])] = int(old[i])
    return True


@inner()
def _is_before(i, j, keys, found, faces):
    """Whether pair i is nearer than pair j of the same pixel."""
    if keys[i] != keys[j]:
        return keys[i] > keys[j]
    return faces[found[i] >> _BITS] < faces[found[j] >> _BITS]


@inner()
def _heap_sort(order, count, keys, found, faces):
    """For ties, and for pixels of so many faces that ranks, which are quadratic, take long."""
    for step in range(count // 2 + count):
        if step < count // 2:  # make a heap whose root is the farthest, ...
            root, size = count // 2 - 1 - step, count
        else:  # ... then take the root away, again and again
            root, size = 0, count - 1 - (step - count // 2)
            order[0], order[size] = order[size], order[0]
        while True:
            child = 2 * root + 1
            if child >= size:
                break
            if child + 1 < size:
                child += _is_before(order[child], order[child + 1], keys, found, faces)
            if not _is_before(order[root], order[child], keys, found, faces):
                break
            order[root], order[child] = order[child], order[root]
            root = child


@inner()
def _join(n, formulas, p, layers, found, order, scratch, sums):
    """Fill in A_i and 1 - A_i of n pairs, in the places of a and g; of the mean, p is 1 / count."""
    totals, rests, g = row(scratch, A), row(scratch, G), row(scratch, G)
    for i in range(PIXELS):
        sums[i] = 0.0
    for j in range(n):
        k = order[j] if layers.sorts else j
        pixel = found[k] & _LOW
        t = max(sums[pixel], g[k]) if formulas.idempotent else sums[pixel] + g[k]
        sums[pixel], totals[k] = t, t
    if formulas.idempotent or formulas.inverse == 0:
        factor = 1.0 if formulas.idempotent else p
        for k in range(n):
            totals[k] = totals[k] * factor
            rests[k] = 1.0 - totals[k]
    else:
        call_inverse(formulas.inverse, totals, n, p, totals, rests)


@inner()
def _blend(
    n, tile, formulas, layers, kept, marks, scratch, tints, channels, totals, lefts, rendered
):
    """Join the pairs of a tile: A, 1 - A and colours of its pixels. Keep what is before each."""
    place = layers.firsts[tile]
    found, order = shifted(row(marks, MARK), place), shifted(row(marks, ORDER), place)
    opaque = shifted(row(kept, S), place)
    befores, rests = shifted(row(kept, BEFORE), place), shifted(row(kept, REST), place)
    after, rest_after = row(scratch, A), row(scratch, G)
    for i in range(PIXELS):
        totals[i], lefts[i] = 0.0, 1.0
    for i in range(PIXELS * channels):
        rendered[i] = 0.0
    for j in range(n):
        k = order[j] if layers.sorts else j
        pixel, entry = found[k] & _LOW, found[k] >> _BITS
        before, rest = totals[pixel], lefts[pixel]
        if formulas.product:
            weight = rest * (1.0 - opaque[k])
            total, left = before + weight, rest * opaque[k]
        else:
            total, left = after[k], rest_after[k]
            weight, befores[k] = _weight(total, left, before, rest), before
        rests[k], totals[pixel], lefts[pixel] = rest, total, left
        for c in range(channels):
            rendered[pixel * channels + c] += weight * tints[entry * channels + c]


@inner()
def _weight(total, rest, before, rest_before):
    """A_i - A_(i - 1), from whichever of A and 1 - A has more digits."""
    return rest_before - rest if total > 0.5 else total - before


@inner()
def _new_block():
    """Points of a face and their pixels; arguments and tails; of pixels; tails; sums of edges."""
    return (
        np.zeros(_POINTS), np.zeros(_RUN, np.int64), np.zeros(_RUN), np.zeros(_RUN),
        np.zeros(_RUN), np.zeros(_RUN), np.zeros(PIXELS), np.zeros(PIXELS), np.zeros(_RUN),
        np.zeros(_RUN), np.zeros(16 * LANES),
    )  # fmt: skip


@inner()
def _room(layers, start, stop):
    """The most pairs of the tiles start .. stop - 1."""
    pairs = 0
    for tile in range(start, stop):
        pairs = max(pairs, layers.areas[tile])
    return pairs + LANES


# ---------------------------------------------------------------------------------------------
# Forward and backward
# ---------------------------------------------------------------------------------------------


@inner()
def _tints(tile, layers, colours, channels, tints):
    """Copy the colours of the entries of a tile, so that they are next to each other."""
    begin = layers.starts[tile]
    for e in range(layers.starts[tile + 1] - begin):
        f = layers.faces[begin + e]
        for c in range(channels):
            tints[e * channels + c] = colours[f * channels + c]


@inner()
def _most_entries(layers, start, stop):
    """The most entries of the tiles start .. stop - 1."""
    most = 0
    for tile in range(start, stop):
        most = max(most, layers.starts[tile + 1] - layers.starts[tile])
    return most


@kernel()
def join_tiles(
    arrays, formulas, layer_arrays, colours, kept, marks, firsts, counts, out, alpha, left, keeps,
    start, stop,
):  # fmt: skip
    """Fill in colours [C, P], alpha and 1 - alpha [P] for the tiles start .. stop - 1.

    And what is kept: `kept` and `marks` of the pairs, the first pair of every entry, and `counts`
    of the pairs of tiles, whose places, `Layers.firsts`, close ranks. Without `keeps` all tiles
    take the place of the first.
    """
    tables, formulas, layers = FaceTables(*arrays), Formulas(*formulas), Layers(*layer_arrays)
    height, width = extent(tables.grid)
    channels, image_of = colours.shape[1], pointer(out)
    scratch, block = np.empty((FORWARD_ROWS, _room(layers, start, stop))), _new_block()
    filled, span = np.empty(PIXELS, np.int64), np.empty(PIXELS + 1, np.int64)
    ranks = np.empty(3 * (_MANY + LANES))
    state = np.empty((3, PIXELS))
    tints = np.empty(_most_entries(layers, start, stop) * channels)
    here = np.empty(PIXELS * channels)
    place = layers.firsts[start]
    for tile in range(start, stop):
        begin, layers.firsts[tile] = layers.starts[tile], place
        # Here, not before the loop: an address keeps no array alive.
        closed, totals, lefts = row(state, 0), row(state, 1), row(state, 2)
        x_first, y_first = first_pixel(tile, layers)
        for i in range(PIXELS):  # what lies outside the image is closed
            there = x_first + i % WIDE < width and y_first + i // WIDE < height
            closed[i] = -np.inf if there else np.inf
        n = _list_pairs(tile, tables, formulas, layers, kept, marks, firsts, scratch, block, closed)
        counts[tile] = n
        if n == 0:
            continue
        if layers.sorts:
            _sort_pairs(
                n, tile, layers, marks, scratch, pointer(span), pointer(filled), pointer(ranks)
            )  # fmt: skip
        if not formulas.product:
            p = tables.images[layers.faces[begin], FAMILY_P]
            found, order = shifted(row(marks, MARK), place), shifted(row(marks, ORDER), place)
            _join(n, formulas, p, layers, found, order, scratch, totals)
        _tints(tile, layers, pointer(colours), channels, pointer(tints))
        _blend(
            n, tile, formulas, layers, kept, marks, scratch, pointer(tints), channels, totals,
            lefts, pointer(here),
        )  # fmt: skip
        image = tile // (layers.across * layers.down)
        for y in range(min(TALL, height - y_first)):
            first = (image * height + y_first + y) * width + x_first
            for x in range(min(WIDE, width - x_first)):
                i = y * WIDE + x
                alpha[first + x], left[first + x] = totals[i], lefts[i]
                for c in range(channels):
                    image_of[c * len(alpha) + first + x] = here[i * channels + c]
        place += n + LANES if keeps else 0


@kernel()
def backward_tiles(
    arrays, formulas, layer_arrays, colours, kept, marks, firsts, counts, alpha, left, grad_out,
    grad_alpha, table, start, stop,
):  # fmt: skip
    """Fill in the rows of `table` of the entries of the tiles start .. stop - 1.

    With v_i the derivative of the loss by the weight of face i, less that of what is behind all,
    dL/dA_i = v_i - v_(i + 1), and dL/da_j = g'(a_j) / g'(A_j) P_j, where
    P_j = dL/dA_j + g'(A_j) / g'(A_(j + 1)) P_(j + 1): all ratios are finite, and none cancels.
    """
    tables, formulas, layers = FaceTables(*arrays), Formulas(*formulas), Layers(*layer_arrays)
    height, width = extent(tables.grid)
    channels, grads = colours.shape[1], pointer(grad_out)
    scratch, block = np.empty((BACKWARD_ROWS, _room(layers, start, stop))), _new_block()
    state = np.empty((4, PIXELS))
    tints = np.empty(_most_entries(layers, start, stop) * channels)
    here = np.zeros(PIXELS * channels)
    for tile in range(start, stop):
        n, begin, place = counts[tile], layers.starts[tile], layers.firsts[tile]
        if n == 0:
            continue
        grad_a, weights = row(scratch, GRAD_A), row(scratch, WEIGHT)
        totals, lefts, behind, chain = row(state, 0), row(state, 1), row(state, 2), row(state, 3)
        x_first, y_first = first_pixel(tile, layers)
        image = tile // (layers.across * layers.down)
        for y in range(min(TALL, height - y_first)):
            first = (image * height + y_first + y) * width + x_first
            for x in range(min(WIDE, width - x_first)):
                i = y * WIDE + x
                totals[i], lefts[i] = alpha[first + x], left[first + x]
                behind[i], chain[i] = -grad_alpha[first + x], 0.0
                for c in range(channels):
                    here[i * channels + c] = grads[c * len(alpha) + first + x]
        _tints(tile, layers, pointer(colours), channels, pointer(tints))
        if not formulas.product:
            p = tables.images[layers.faces[begin], FAMILY_P]
            _ratios(n, tile, formulas, p, tables, layers, kept, marks, scratch, totals, lefts)
        _unblend(
            n, tile, formulas, layers, kept, marks, scratch, pointer(tints), channels,
            pointer(here), behind, chain, table,
        )  # fmt: skip
        for e in range(begin, layers.starts[tile + 1]):
            first = firsts[e]
            last = firsts[e + 1] if e + 1 < layers.starts[tile + 1] else place + n
            if first < last:
                _backpropagate(
                    layers.faces[e], row(table, layers.places[e]), first, last - first,
                    shifted(grad_a, first - place), shifted(weights, first - place), x_first,
                    y_first, tables, formulas, kept, marks, block, pointer(here), channels,
                )  # fmt: skip


@inner()
def _ratios(n, tile, formulas, p, tables, layers, kept, marks, scratch, totals, lefts):
    """Fill in A_j and 1 - A_j of pairs, g'(a_j) / g'(A_j), g'(A_(j - 1)) / g'(A_j), dA_j/dp."""
    place, begin = layers.firsts[tile], layers.starts[tile]
    found, order = shifted(row(marks, MARK), place), shifted(row(marks, ORDER), place)
    opaque = shifted(row(kept, S), place)
    befores, rests = shifted(row(kept, BEFORE), place), shifted(row(kept, REST), place)
    covers, a, ratio = shifted(row(kept, F), place), row(scratch, SHARE), row(scratch, NEXT)
    total, left = row(scratch, TOTAL), row(scratch, LEFT)
    for j in range(n - 1, -1, -1):
        k = order[j] if layers.sorts else j
        pixel = found[k] & _LOW
        total[k], left[k] = totals[pixel], lefts[pixel]
        totals[pixel], lefts[pixel] = befores[k], rests[k]
    if formulas.idempotent:
        return
    for k in range(n):
        a[k] = covers[k] * tables.images[layers.faces[begin + (found[k] >> _BITS)], OPACITY]
    if formulas.inverse == 0:  # the mean: A_i is linear in all a
        own = row(scratch, OWN)
        for k in range(n):
            own[k], ratio[k] = p, 1.0
    else:
        call_weight(formulas.weight, a, opaque, total, left, n, p, row(scratch, OWN))
        call_weight(formulas.weight, befores, rests, total, left, n, p, ratio)
    if formulas.weight_p != 0:
        slope, part = row(scratch, SLOPE_P), row(scratch, PART_P)
        call_weight(formulas.weight_p, a, opaque, total, left, n, p, slope)
        call_weight(formulas.weight_p, total, left, total, left, n, p, part)
        for k in range(n):  # of a face alone both are the same, and their difference is 0
            slope[k] -= part[k]
        call_weight(formulas.weight_p, befores, rests, total, left, n, p, part)
        for k in range(n):
            slope[k] += part[k]


@inner()
def _unblend(
    n, tile, formulas, layers, kept, marks, scratch, tints, channels, grads, behind, chain, table
):
    """Fill in the gradients of a_j, from the farthest pair to the nearest, and the weights.

    Of pixels, `behind` holds v_(j + 1), and `chain` what P_(j + 1) adds to P_j.
    """
    place, begin = layers.firsts[tile], layers.starts[tile]
    found, order = shifted(row(marks, MARK), place), shifted(row(marks, ORDER), place)
    opaque = shifted(row(kept, S), place)
    befores, rests = shifted(row(kept, BEFORE), place), shifted(row(kept, REST), place)
    total, left = row(scratch, TOTAL), row(scratch, LEFT)
    own, ratio = row(scratch, OWN), row(scratch, NEXT)
    grad_a, weights = row(scratch, GRAD_A), row(scratch, WEIGHT)
    slope_p = row(scratch, SLOPE_P)
    # First, as a walk through memory in order: what it finds is in the cache for the next loop.
    for k in range(n):
        if formulas.product:
            weights[k] = rests[k] * (1.0 - opaque[k])
        else:
            weights[k] = _weight(total[k], left[k], befores[k], rests[k])
    for j in range(n - 1, -1, -1):
        k = order[j] if layers.sorts else j
        pixel, entry = found[k] & _LOW, found[k] >> _BITS
        v, farther, carried = 0.0, behind[pixel], chain[pixel]
        for c in range(channels):
            v += grads[pixel * channels + c] * tints[entry * channels + c]
        if formulas.product:
            s, rest = opaque[k], rests[k]
            through = (v - farther if rest * s > 0.0 else 0.0) + carried
            grad_a[k], carried = rest * through, s * through
        elif formulas.idempotent:
            # The first of those that reach the maximum so far decides.
            through, decides = v - farther + carried, total[k] > befores[k]
            grad_a[k], carried = (through, 0.0) if decides else (0.0, through)
        else:
            through = (v - farther if left[k] > 0.0 or formulas.inverse == 0 else 0.0) + carried
            grad_a[k], carried = own[k] * through, ratio[k] * through
            if formulas.weight_p != 0:
                table[layers.places[begin + entry], GRAD_P] += through * slope_p[k]
        behind[pixel], chain[pixel] = v, carried


@inner()
def _backpropagate(
    f, out, first, n, grad_a, weights, x_first, y_first, tables, formulas, kept, marks, block,
    local, channels,
):  # fmt: skip
    """Fill in the row `out` of one entry from the gradients of its n pairs."""
    points, us, zs, grad_z, pdf = pointer(block[0]), block[2], block[3], block[4], block[5]
    on_a, share = pointer(block[6]), pointer(block[7])
    xs, ys = shifted(pointer(tables.grid[0]), x_first), shifted(pointer(tables.grid[1]), y_first)
    found, covers = shifted(row(marks, MARK), first), shifted(row(kept, F), first)
    pixels, mark = pointer(block[1]), found[0] - (found[0] & _LOW)
    whole = (n + LANES - 1) // LANES * LANES
    for i in range(n):
        pixels[i], on_a[i], share[i] = found[i] - mark, grad_a[i], weights[i]
        grad_z[i] = covers[i]
    for i in range(n, whole):  # what fills the last vector counts nothing
        pixels[i], on_a[i], share[i], grad_z[i] = pixels[0], 0.0, 0.0, 0.0
    for i in range(whole):
        points[X + i], points[Y + i] = xs[pixels[i] % WIDE], ys[pixels[i] // WIDE]
    _add_colours(whole, share, pixels, local, channels, shifted(out, GRAD_COLOUR))
    orientation = face_orientation(tables.corners, f)
    edges = face_edges(tables.corners, f, orientation)
    if tables.corners.shape[1] == 4:
        _measure(points, 0, whole, edges, True, orientation != 0.0)
    else:
        _measure(points, 0, whole, edges, False, orientation != 0.0)
    face = row(tables.images, f)
    argument(whole, shifted(points, DISTANCE), face, formulas, us, zs)
    call_cdf_and_pdf(
        formulas.cdf_and_pdf, pointer(zs), whole, face[SHAPE], pointer(block[8]), pointer(block[9]),
        pointer(pdf),
    )  # fmt: skip
    _add_scalars(whole, on_a, pointer(grad_z), pointer(pdf), pointer(us), face, formulas, out)
    through_argument(whole, shifted(points, DISTANCE), face[SCALE], formulas, grad_z, us)
    if formulas.dshape != 0:
        call_pdf(formulas.dshape, pointer(zs), whole, face[SHAPE], pointer(pdf))
        on_shape = 0.0
        for i in range(n):
            on_shape += on_a[i] * pdf[i]
        out[GRAD_SHAPE] = (-face[OPACITY] if formulas.reversed else face[OPACITY]) * on_shape
    if turn_gaps(whole, points, us):
        turn_on_edges(f, 0, n, points, us, tables.corners)
    move_face(f, 0, n, points, tables.corners, pointer(block[10]), out)


# Sums may be taken in any order here, so in vectors; on one machine it is always the same.
@inner(fastmath={"reassoc", "contract", "nsz"})
def _add_colours(n, share, pixels, grads, channels, out):
    """Add the gradients of the colour of an entry."""
    for c in range(channels):
        total = 0.0
        for i in range(n):
            total += share[i] * grads[pixels[i] * channels + c]
        out[c] += total


@inner(fastmath={"reassoc", "contract", "nsz"})
def _add_scalars(n, on_a, covers, pdf, us, face, formulas, out):
    """Fill in the gradients of opacity, scale and shift; those of arguments replace the covers."""
    opacity, on_opacity, on_scale, on_shift = face[OPACITY], 0.0, 0.0, 0.0
    for i in range(n):
        grad = on_a[i] * opacity * pdf[i]
        on_opacity += on_a[i] * covers[i]
        covers[i] = grad
        on_scale += grad * us[i]
        on_shift += grad
    out[GRAD_OPACITY], out[GRAD_SCALE] = on_opacity, -on_scale / face[SCALE]
    out[GRAD_SHIFT] = -on_shift if formulas.reversed else on_shift


@kernel()
def sum_entries(table, slots, limit, out, start, stop):
    """Sum the rows of the table of every face start .. stop - 1, in order, within the limit."""
    sums = np.empty(table.shape[1])
    for f in range(start, stop):
        sums[:] = 0.0
        for i in range(slots[f], slots[f + 1]):
            for c in range(len(sums)):
                sums[c] += table[i, c]
        for c in range(len(sums)):  # NaN stays
            out[f, c] = -limit if sums[c] < -limit else limit if sums[c] > limit else sums[c]
