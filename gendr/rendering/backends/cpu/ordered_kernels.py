"""The compiled kernels of ordered joining: the faces of a pixel from front to back.

A unit is a tile of the image: one thread owns its pixels, and the entries of its faces in the table
of gradients, so that any number of threads gives the same bits. Both passes list the (pixel, face)
pairs of a tile face by face, in vectors, and put the few pairs of each pixel into the order of
depth; they come nearly sorted, as faces are taken in the order of their nearest points.

A pixel is closed once the faces listed so far leave less than the bound to see: what lies behind
the farthest of these is left out. `closed` holds its key, so that the backward pass lists the same.

Keys grow towards the camera; see `depth_planes` in shading.py.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import numpy as np
from numba import njit

from gendr._runtime.numba.calls import (
    call_cdf,
    call_generator,
    call_inverse,
    call_pdf,
    call_weight,
    pointer,
    shifted,
)
from gendr._runtime.numba.compilation import announce_compilation, ensure_cache
from gendr.rendering.backends.cpu.kernels import (
    _ENDS,
    _FOOT,
    _GAP_X,
    _GAP_Y,
    _POINTS,
    DISTANCE,
    FAMILY_P,
    LANES,
    RADIUS,
    X,
    Y,
    _edge_normal,
    _measure,
    argument,
    extent,
    face_bounds,
    face_edges,
    face_orientation,
    row_span,
    through_argument,
)
from gendr.rendering.backends.cpu.records import FaceTables, Formulas, Layers

ensure_cache()
announce_compilation(__name__)

TILE = 16
PIXELS = TILE * TILE
_RUN = PIXELS + LANES  # the most pairs of a face in a tile, and room for the last vector
# Further columns of the table of faces (`FaceTables.images`, here with one row per face).
OPACITY, SHAPE = 4, 5
FACE_COLUMNS = 6
# Columns of the table of gradients, with one row per face and tile: 8 numbers of corners first.
GRAD_OPACITY, GRAD_SCALE, GRAD_SHIFT, GRAD_SHAPE, GRAD_P, GRAD_COLOUR = 8, 9, 10, 11, 12, 13
# Columns of the scratch of a tile, one row each: pairs in the order of faces, ...
A, S, G, KEY, F, GRAD_A = range(6)
# ... and in the order of depth.
NEAR_A, NEAR_S, TOTAL, REST, OWN, NEXT, FACTOR = range(6, 13)
ROWS = 13


# ---------------------------------------------------------------------------------------------
# Faces of tiles
# ---------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def count_tiles(boxes, image_of_face, across, down, starts, slots, areas):
    """Count the faces of every tile into starts[1 + tile], the tiles of every face into slots[1 +].

    `areas` gets the pixels of the boxes of faces within each tile. Both counts become sums.
    """
    for f in range(len(boxes)):
        x0, x1, y0, y1 = boxes[f, 0], boxes[f, 1], boxes[f, 2], boxes[f, 3]
        if x0 >= x1 or y0 >= y1:
            continue
        first = image_of_face[f] * across * down
        for ty in range(y0 // TILE, (y1 - 1) // TILE + 1):
            rows = min(y1, (ty + 1) * TILE) - max(y0, ty * TILE)
            for tx in range(x0 // TILE, (x1 - 1) // TILE + 1):
                tile = first + ty * across + tx
                starts[tile + 1] += 1
                slots[f + 1] += 1
                areas[tile] += rows * (min(x1, (tx + 1) * TILE) - max(x0, tx * TILE))
    for tile in range(len(areas)):
        starts[tile + 1] += starts[tile]
    for f in range(len(boxes)):
        slots[f + 1] += slots[f]


@njit(cache=True, nogil=True)
def list_tiles(boxes, image_of_face, order, across, down, starts, slots, faces, places):
    """List the faces of every tile in the given order, and the row of gradients of each entry."""
    filled = starts[:-1].copy()
    for i in range(len(order)):
        f = order[i]
        x0, x1, y0, y1 = boxes[f, 0], boxes[f, 1], boxes[f, 2], boxes[f, 3]
        if x0 >= x1 or y0 >= y1:
            continue
        first, slot = image_of_face[f] * across * down, slots[f]
        for ty in range(y0 // TILE, (y1 - 1) // TILE + 1):
            for tx in range(x0 // TILE, (x1 - 1) // TILE + 1):
                tile = first + ty * across + tx
                faces[filled[tile]], places[filled[tile]] = f, slot
                filled[tile] += 1
                slot += 1


# ---------------------------------------------------------------------------------------------
# The pairs of a tile
# ---------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _put_points(tables, f, x_first, y_first, edges, points, local):
    """Write the pixels of a tile within reach of a face; return their number."""
    height, width = extent(tables.grid)
    xs, ys = pointer(tables.grid[0]), pointer(tables.grid[1])
    bounds = face_bounds(edges, tables.images[f, RADIUS], width, float(min(height, width)))
    low, high = max(tables.boxes[f, 0], x_first), min(tables.boxes[f, 1], x_first + TILE)
    n = 0
    for row in range(max(tables.boxes[f, 2], y_first), min(tables.boxes[f, 3], y_first + TILE)):
        y = ys[row]
        start, stop = row_span(low, high, bounds, y)
        base = (row - y_first) * TILE - x_first
        for x in range(start, stop, LANES):
            m = n + x - start
            for k in range(LANES):
                points[X + m + k], points[Y + m + k] = xs[x + k], y
                local[m + k] = base + x + k
        n += max(stop - start, 0)
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def _list_pairs(tile, tables, law, layers, scratch, marks, block, closed):
    """List the pairs of a tile that are seen; return their number and that of the faces looked at.

    `marks` gets the pixel and the entry of every pair, and `first` the first pair of every entry.
    `closed` [PIXELS] is -inf for pixels that are not closed yet.
    """
    pixels, entries, first = marks[0], marks[1], marks[2]
    points, local, us, zs, cdf, sf, total, farthest = block
    x_first, y_first = _corner(tile, layers)
    quad = tables.corners.shape[1] == 4
    left = 0
    for i in range(PIXELS):
        total[i], farthest[i] = 0.0, np.inf
        left += closed[i] == -np.inf
    seen = np.inf if left else -np.inf  # the least key that a closed pixel still shows
    n, begin, end = 0, layers.starts[tile], layers.starts[tile + 1]
    for e in range(begin, end):
        first[e - begin] = n
        f = layers.faces[e]
        if left == 0:
            if seen == -np.inf:
                seen = closed[0]
                for i in range(1, PIXELS):
                    seen = min(seen, closed[i])
            if layers.limits[f, 1] < seen:
                return n, e - begin
        orientation = face_orientation(tables.corners, f)
        edges = face_edges(tables.corners, f, orientation)
        count = _put_points(tables, f, x_first, y_first, edges, points, local)
        if count == 0:
            continue
        whole = (count + LANES - 1) // LANES * LANES
        if quad:  # a constant in each branch
            _measure(points, 0, whole, edges, True, orientation != 0.0)
        else:
            _measure(points, 0, whole, edges, False, orientation != 0.0)
        argument(whole, points[DISTANCE:], tables.images[f], law, us, zs)
        call_cdf(law.cdf, pointer(zs), whole, tables.images[f, SHAPE], pointer(cdf), pointer(sf))
        covered, rest = (sf, cdf) if law.reversed else (cdf, sf)
        opacity = tables.images[f, OPACITY]
        p, q, r = layers.planes[f, 0], layers.planes[f, 1], layers.planes[f, 2]
        least, most = layers.limits[f, 0], layers.limits[f, 1]
        start = n
        for i in range(count):
            key = min(max(p * points[X + i] + q * points[Y + i] + r, least), most)
            pixel = local[i]
            if covered[i] > law.cutoff and key >= closed[pixel]:
                scratch[F, n], scratch[KEY, n] = covered[i], key
                scratch[A, n] = opacity * covered[i]
                scratch[S, n] = (1.0 - opacity) + opacity * rest[i]
                pixels[n], entries[n] = pixel, e - begin
                n += 1
        _generators(law, scratch, start, n, tables.images[f, FAMILY_P])
        if left:
            for i in range(start, n):
                pixel = pixels[i]
                if closed[pixel] > -np.inf:
                    continue
                g = scratch[G, i]
                total[pixel] = max(total[pixel], g) if law.idempotent else total[pixel] + g
                farthest[pixel] = min(farthest[pixel], scratch[KEY, i])
                if total[pixel] > layers.enough:
                    closed[pixel] = farthest[pixel]
                    left -= 1
            if left == 0:
                seen = -np.inf
    first[end - begin] = n
    return n, end - begin


@njit(cache=True, nogil=True)
def _generators(law, scratch, start, stop, p):
    """Fill in the generators of the pairs start .. stop - 1; of the maximum, a itself."""
    if law.idempotent:
        for i in range(start, stop):
            scratch[G, i] = scratch[A, i]
    else:
        call_generator(
            law.generator, pointer(scratch[A, start:]), pointer(scratch[S, start:]), stop - start,
            p, pointer(scratch[G, start:]),
        )  # fmt: skip


@njit(cache=True, nogil=True)
def _corner(tile, layers):
    """The first column and row of a tile."""
    here = tile % (layers.across * layers.down)
    return here % layers.across * TILE, here // layers.across * TILE


@njit(cache=True, nogil=True)
def _sort_pairs(n, layers, begin, scratch, marks, spans):
    """Put the pairs of every pixel into order: marks[3], pixel i from spans[i] to spans[i + 1].

    Of equal keys the face with the lower number comes first.
    """
    pixels, entries, order = marks[0], marks[1], marks[3]
    for i in range(PIXELS + 1):
        spans[i] = 0
    for i in range(n):
        spans[pixels[i] + 1] += 1
    for i in range(PIXELS):
        spans[i + 1] += spans[i]
    filled = marks[4]
    for i in range(PIXELS):
        filled[i] = spans[i]
    for i in range(n):
        key, low = scratch[KEY, i], spans[pixels[i]]
        j = filled[pixels[i]]
        filled[pixels[i]] = j + 1
        face = layers.faces[begin + entries[i]]
        while j > low:
            other = order[j - 1]
            nearer = scratch[KEY, other]
            if nearer > key or (nearer == key and layers.faces[begin + entries[other]] < face):
                break
            order[j] = other
            j -= 1
        order[j] = i


@njit(cache=True, nogil=True, error_model="numpy")
def _join(n, law, p, scratch, marks, spans):
    """Fill in A_i and 1 - A_i of the pairs in order; of the mean, p is 1 / count."""
    order = marks[3]
    total, rest = scratch[TOTAL], scratch[REST]
    for i in range(PIXELS):
        t = 0.0
        for j in range(spans[i], spans[i + 1]):
            g = scratch[G, order[j]]
            t = max(t, g) if law.idempotent else t + g
            total[j] = t
    if law.idempotent or law.inverse == 0:
        factor = 1.0 if law.idempotent else p
        for j in range(n):
            total[j] = total[j] * factor
            rest[j] = 1.0 - total[j]
    else:
        call_inverse(law.inverse, pointer(total), n, p, pointer(total), pointer(rest))


@njit(cache=True, nogil=True)
def _weight(total, rest, before, rest_before):
    """A_i - A_(i - 1), from whichever of A and 1 - A has more digits."""
    return rest_before - rest if total > 0.5 else total - before


@njit(cache=True, nogil=True)
def _new_block():
    """Points of a face and their pixels; arguments and tails; totals and keys of pixels."""
    return (
        np.zeros(_POINTS), np.zeros(_RUN, np.int64), np.zeros(_RUN), np.zeros(_RUN),
        np.zeros(_RUN), np.zeros(_RUN), np.zeros(PIXELS), np.zeros(PIXELS),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _new_marks(capacity, longest):
    """Pixels, entries, first pair of entries, order, and a place for every pixel."""
    return (
        np.empty(capacity, np.int32), np.empty(capacity, np.int32),
        np.empty(longest + 1, np.int64), np.empty(capacity, np.int32), np.empty(PIXELS, np.int64),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _room(layers, start, stop):
    """The most pairs, and the most faces, of the tiles start .. stop - 1."""
    pairs, faces = 0, 0
    for tile in range(start, stop):
        pairs = max(pairs, layers.areas[tile])
        faces = max(faces, layers.starts[tile + 1] - layers.starts[tile])
    return pairs + LANES, faces


# ---------------------------------------------------------------------------------------------
# Forward and backward
# ---------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def join_tiles(arrays, formulas, layer_arrays, colours, out, alpha, closed, start, stop):
    """Fill in colours [P, C], alpha [P] and `closed` [P] for the tiles start .. stop - 1."""
    tables, law, layers = FaceTables(*arrays), Formulas(*formulas), Layers(*layer_arrays)
    height, width = extent(tables.grid)
    channels = colours.shape[1]
    capacity, longest = _room(layers, start, stop)
    scratch, marks, block = np.empty((ROWS, capacity)), _new_marks(capacity, longest), _new_block()
    spans, here = np.empty(PIXELS + 1, np.int64), np.empty(PIXELS)
    order, entries = marks[3], marks[1]
    for tile in range(start, stop):
        begin = layers.starts[tile]
        if begin == layers.starts[tile + 1]:
            continue
        x_first, y_first = _corner(tile, layers)
        _outside(x_first, y_first, width, height, here)
        n, _ = _list_pairs(tile, tables, law, layers, scratch, marks, block, here)
        if n == 0:
            continue
        _sort_pairs(n, layers, begin, scratch, marks, spans)
        _join(n, law, tables.images[layers.faces[begin], FAMILY_P], scratch, marks, spans)
        image = tile // (layers.across * layers.down)
        for i in range(PIXELS):
            x, y = x_first + i % TILE, y_first + i // TILE
            if x >= width or y >= height or spans[i] == spans[i + 1]:
                continue
            pixel = (image * height + y) * width + x
            closed[pixel] = here[i]
            before, rest_before = 0.0, 1.0
            for j in range(spans[i], spans[i + 1]):
                total, rest = scratch[TOTAL, j], scratch[REST, j]
                w = _weight(total, rest, before, rest_before)
                f = layers.faces[begin + entries[order[j]]]
                for c in range(channels):
                    out[pixel, c] += w * colours[f, c]
                before, rest_before = total, rest
            alpha[pixel] = before


@njit(cache=True, nogil=True)
def _outside(x_first, y_first, width, height, closed):
    """Begin with open pixels; those of a tile that lie outside the image are closed."""
    for i in range(PIXELS):
        there = x_first + i % TILE < width and y_first + i // TILE < height
        closed[i] = -np.inf if there else np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def backward_tiles(
    arrays, formulas, layer_arrays, colours, closed, grad_out, grad_alpha, table, start, stop
):  # fmt: skip
    """Fill in the rows of `table` of the entries of the tiles start .. stop - 1.

    With v_i the derivative of the loss by the weight of face i, less that of what is behind all,
    dL/dA_i = v_i - v_(i + 1), and dL/da_j = g'(a_j) / g'(A_j) P_j, where
    P_j = dL/dA_j + g'(A_j) / g'(A_(j + 1)) P_(j + 1): all ratios are finite, and none cancels.
    """
    tables, law, layers = FaceTables(*arrays), Formulas(*formulas), Layers(*layer_arrays)
    height, width = extent(tables.grid)
    channels = colours.shape[1]
    capacity, longest = _room(layers, start, stop)
    scratch, marks, block = np.empty((ROWS, capacity)), _new_marks(capacity, longest), _new_block()
    spans, here = np.empty(PIXELS + 1, np.int64), np.empty(PIXELS)
    order, entries = marks[3], marks[1]
    for tile in range(start, stop):
        begin = layers.starts[tile]
        if begin == layers.starts[tile + 1]:
            continue
        x_first, y_first = _corner(tile, layers)
        image = tile // (layers.across * layers.down)
        _outside(x_first, y_first, width, height, here)
        for i in range(PIXELS):
            if here[i] == -np.inf:
                pixel = (image * height + y_first + i // TILE) * width + x_first + i % TILE
                here[i] = closed[pixel]
        n, looked = _list_pairs(tile, tables, law, layers, scratch, marks, block, here)
        if n == 0:
            continue
        p = tables.images[layers.faces[begin], FAMILY_P]
        _sort_pairs(n, layers, begin, scratch, marks, spans)
        _join(n, law, p, scratch, marks, spans)
        _weights(n, law, p, scratch, order)
        for i in range(PIXELS):
            x, y = x_first + i % TILE, y_first + i // TILE
            if x >= width or y >= height or spans[i] == spans[i + 1]:
                continue
            pixel = (image * height + y) * width + x
            behind, chain = -grad_alpha[pixel], 0.0
            for j in range(spans[i + 1] - 1, spans[i] - 1, -1):
                total, rest = scratch[TOTAL, j], scratch[REST, j]
                is_first = j == spans[i]
                before = 0.0 if is_first else scratch[TOTAL, j - 1]
                rest_before = 1.0 if is_first else scratch[REST, j - 1]
                w = _weight(total, rest, before, rest_before)
                entry = entries[order[j]]
                f, place = layers.faces[begin + entry], layers.places[begin + entry]
                v = 0.0
                for c in range(channels):
                    v += grad_out[pixel, c] * colours[f, c]
                    table[place, GRAD_COLOUR + c] += w * grad_out[pixel, c]
                if law.idempotent:
                    # The first of those that reach the maximum so far decides.
                    chain = chain + v - behind
                    own = chain if total > before else 0.0
                    chain = 0.0 if total > before else chain
                else:
                    slope = v - behind if rest > 0.0 or law.inverse == 0 else 0.0
                    chain = slope + (scratch[NEXT, j] * chain if j + 1 < spans[i + 1] else 0.0)
                    own = scratch[OWN, j] * chain
                    if law.weight_p != 0:
                        table[place, GRAD_P] += chain * scratch[FACTOR, j]
                        table[place, GRAD_P] -= slope * scratch[GRAD_A, j]
                scratch[G, order[j]] = own
                behind = v
        for i in range(n):
            scratch[GRAD_A, i] = scratch[G, i]
        for entry in range(looked):
            first, last = marks[2][entry], n if entry + 1 == looked else marks[2][entry + 1]
            if first < last:
                _backpropagate(
                    layers.faces[begin + entry], layers.places[begin + entry], first, last,
                    x_first, y_first, tables, law, scratch, marks[0], block, table,
                )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def _weights(n, law, p, scratch, order):
    """g'(a_j) / g'(A_j) and g'(A_j) / g'(A_(j + 1)) of pairs in order, and those of p if wanted."""
    if law.idempotent:
        return
    a, s, total, rest = scratch[NEAR_A], scratch[NEAR_S], scratch[TOTAL], scratch[REST]
    for j in range(n):
        a[j], s[j] = scratch[A, order[j]], scratch[S, order[j]]
    total_at, rest_at = pointer(total), pointer(rest)
    call_weight(
        law.weight, pointer(a), pointer(s), total_at, rest_at, n, p, pointer(scratch[OWN])
    )
    if law.inverse == 0:  # the mean: A_i is linear in all a
        for j in range(n):
            scratch[NEXT, j] = 1.0
    else:
        call_weight(
            law.weight, total_at, rest_at, shifted(total_at, 1), shifted(rest_at, 1), n - 1, p,
            pointer(scratch[NEXT]),
        )  # fmt: skip
    if law.weight_p != 0:
        call_weight(
            law.weight_p, pointer(a), pointer(s), total_at, rest_at, n, p, pointer(scratch[FACTOR])
        )
        call_weight(
            law.weight_p, total_at, rest_at, total_at, rest_at, n, p, pointer(scratch[GRAD_A])
        )


@njit(cache=True, nogil=True, error_model="numpy")
def _backpropagate(
    f, place, first, last, x_first, y_first, tables, law, scratch, pixels, block, table
):  # fmt: skip
    """Fill in the row of one entry from the gradients of the coverages of its pairs."""
    points, _, us, zs, grad_z, pdf = block[:6]
    xs, ys = pointer(tables.grid[0]), pointer(tables.grid[1])
    n = last - first
    whole = (n + LANES - 1) // LANES * LANES
    for i in range(whole):
        pixel = pixels[first + min(i, n - 1)]
        points[X + i] = xs[x_first + pixel % TILE]
        points[Y + i] = ys[y_first + pixel // TILE]
    orientation = face_orientation(tables.corners, f)
    edges = face_edges(tables.corners, f, orientation)
    if tables.corners.shape[1] == 4:
        _measure(points, 0, whole, edges, True, orientation != 0.0)
    else:
        _measure(points, 0, whole, edges, False, orientation != 0.0)
    face = tables.images[f]
    argument(whole, points[DISTANCE:], face, law, us, zs)
    call_pdf(law.pdf, pointer(zs), whole, face[SHAPE], pointer(pdf))
    opacity, on_opacity, on_scale, on_shift = face[OPACITY], 0.0, 0.0, 0.0
    for i in range(n):
        grad_a = scratch[GRAD_A, first + i]
        on_opacity += grad_a * scratch[F, first + i]
        grad_z[i] = grad_a * opacity * pdf[i]
        on_scale += grad_z[i] * us[i]
        on_shift += grad_z[i]
    sign = -1.0 if law.reversed else 1.0
    table[place, GRAD_OPACITY] = on_opacity
    table[place, GRAD_SCALE] = -on_scale / face[0]
    table[place, GRAD_SHIFT] = sign * on_shift
    through_argument(n, points[DISTANCE:], face[0], law, grad_z, us)
    if law.dshape != 0:
        call_pdf(law.dshape, pointer(zs), n, face[SHAPE], pointer(pdf))
        on_shape = 0.0
        for i in range(n):
            on_shape += scratch[GRAD_A, first + i] * pdf[i]
        table[place, GRAD_SHAPE] = sign * opacity * on_shape
    _move_corners(n, points, us, tables.corners, f, table[place])


@njit(cache=True, nogil=True, error_model="numpy")
def _move_corners(n, points, grad_d, corners, f, out):
    """Add the gradients of distances to one face to its corners, the first 8 numbers of `out`.

    As `move_corners` in kernels.py, for the many points of one face.
    """
    for i in range(n):
        if grad_d[i] == 0.0:
            continue
        ends, t, d = points[_ENDS + i], points[_FOOT + i], points[DISTANCE + i]
        if d == 0.0:
            nx, ny = _edge_normal(corners, f, ends)
            dx, dy = nx * grad_d[i], ny * grad_d[i]
        else:
            factor = grad_d[i] / d
            dx, dy = points[_GAP_X + i] * factor, points[_GAP_Y + i] * factor
        a, b = 2 * (int(ends) >> 2), 2 * (int(ends) & 3)
        out[a] -= (1.0 - t) * dx
        out[a + 1] -= (1.0 - t) * dy
        out[b] -= t * dx
        out[b + 1] -= t * dy


@njit(cache=True, nogil=True)
def sum_entries(table, slots, out, start, stop):
    """Sum the rows of the table of every face start .. stop - 1, in order."""
    for f in range(start, stop):
        for i in range(slots[f], slots[f + 1]):
            for c in range(table.shape[1]):
                out[f, c] += table[i, c]
