"""The compiled kernels of ordered joining: the faces of a pixel from front to back.

A unit is a tile of the image: one thread owns its pixels, and the entries of its faces in the table
of gradients, so that any number of threads gives the same bits. The (pixel, face) pairs of a tile
are listed face by face, in vectors, and the pairs of each pixel put into the order of depth; they
come nearly sorted, as faces are taken in the order of their nearest points.

A pixel is closed once the faces listed so far leave less than the bound to see: what lies behind
the farthest of these is left out. What the forward pass finds of pairs is kept for the backward
pass.

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
    row,
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
    SCALE,
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
_MANY = 48  # pairs of a pixel, above which a heap sorts them
_RUN = PIXELS + LANES  # the most pairs of a face in a tile, and room for the last vector
# Further columns of the table of faces (`FaceTables.images`, here with one row per face).
OPACITY, SHAPE = 4, 5
FACE_COLUMNS = 6
# Columns of the table of gradients, with one row per face and tile: 8 numbers of corners first.
GRAD_OPACITY, GRAD_SCALE, GRAD_SHIFT, GRAD_SHAPE, GRAD_P, GRAD_COLOUR = 8, 9, 10, 11, 12, 13
# What is kept of pairs for the backward pass: in the order of faces, and of depth. The pairs of a
# tile begin at `Layers.firsts`.
F, S, TOTAL, REST = range(4)
KEPT = 4
PIXEL, ENTRY, ORDER = range(3)
KEPT_MARKS = 3
# Columns of the scratch of a tile, one row each. Forward: pairs in the order of faces.
A, G, KEY = range(3)
FORWARD_ROWS = 3
# Backward: in the order of depth, and of faces.
NEAR_A, NEAR_S, OWN, NEXT, FACTOR, OFFSET, GRAD_A, WEIGHT = range(8)
BACKWARD_ROWS = 8


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
def _put_points(f, x_first, y_first, edges, tables, points, local):
    """Write the pixels of a tile within reach of a face; return their number."""
    height, width = extent(tables.grid)
    xs, ys, box = pointer(tables.grid[0]), pointer(tables.grid[1]), row(tables.boxes, f)
    radius = row(tables.images, f)[RADIUS]
    bounds = face_bounds(edges, radius, width, float(min(height, width)))
    low, high = max(box[0], x_first), min(box[1], x_first + TILE)
    n = 0
    for i in range(max(box[2], y_first), min(box[3], y_first + TILE)):
        y = ys[i]
        start, stop = row_span(low, high, bounds, y)
        base = (i - y_first) * TILE - x_first
        for x in range(start, stop, LANES):
            m = n + x - start
            for k in range(LANES):
                points[X + m + k], points[Y + m + k] = xs[x + k], y
                local[m + k] = base + x + k
        n += max(stop - start, 0)
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def _list_pairs(tile, tables, law, layers, kept, marks, firsts, scratch, block, closed):
    """List the pairs of a tile that are seen, from the first place on; return their number.

    `firsts` gets the first pair of every entry. `closed` [PIXELS] is -inf for open pixels.
    """
    place = layers.firsts[tile]
    covers, rests = shifted(row(kept, F), place), shifted(row(kept, S), place)
    pixels, entries = shifted(row(marks, PIXEL), place), shifted(row(marks, ENTRY), place)
    a, g, keys = row(scratch, A), row(scratch, G), row(scratch, KEY)
    points, local, us, zs = pointer(block[0]), pointer(block[1]), block[2], block[3]
    cdf, sf, total, farthest = block[4], block[5], block[6], block[7]
    covered, rest = pointer(cdf), pointer(sf)
    if law.reversed:
        covered, rest = rest, covered
    x_first, y_first = _corner(tile, layers)
    quad = tables.corners.shape[1] == 4
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
        count = _put_points(f, x_first, y_first, edges, tables, points, local)
        if count == 0:
            continue
        whole = (count + LANES - 1) // LANES * LANES
        if quad:  # a constant in each branch
            _measure(points, 0, whole, edges, True, orientation != 0.0)
        else:
            _measure(points, 0, whole, edges, False, orientation != 0.0)
        face = row(tables.images, f)
        argument(whole, shifted(points, DISTANCE), face, law, us, zs)
        call_cdf(law.cdf, pointer(zs), whole, face[SHAPE], pointer(cdf), pointer(sf))
        opacity, cutoff = face[OPACITY], law.cutoff
        plane, limit = row(layers.planes, f), row(layers.limits, f)
        p, q, r, least, most = plane[0], plane[1], plane[2], limit[0], limit[1]
        start = n
        for i in range(count):
            key = min(max(p * points[X + i] + q * points[Y + i] + r, least), most)
            pixel = local[i]
            # Written in any case, and overwritten if it is not seen: no branch.
            covers[n], keys[n], a[n] = covered[i], key, opacity * covered[i]
            rests[n] = (1.0 - opacity) + opacity * rest[i]
            pixels[n], entries[n] = pixel, e - begin
            n += (covered[i] > cutoff) & (key >= closed[pixel])
        if law.idempotent or law.product:
            for i in range(start, n):
                g[i] = a[i] if law.idempotent else rests[i]
        elif start < n:
            call_generator(
                law.generator, shifted(a, start), shifted(rests, start), n - start,
                face[FAMILY_P], shifted(g, start),
            )  # fmt: skip
        if left:
            for i in range(start, n):
                pixel = pixels[i]
                if closed[pixel] > -np.inf:
                    continue
                if law.product:
                    total[pixel] = 1.0 - (1.0 - total[pixel]) * g[i]
                elif law.idempotent:
                    total[pixel] = max(total[pixel], g[i])
                else:
                    total[pixel] += g[i]
                farthest[pixel] = min(farthest[pixel], keys[i])
                if total[pixel] > layers.enough:
                    closed[pixel] = farthest[pixel]
                    left -= 1
    return n


@njit(cache=True, nogil=True)
def _corner(tile, layers):
    """The first column and row of a tile."""
    here = tile % (layers.across * layers.down)
    return here % layers.across * TILE, here // layers.across * TILE


@njit(cache=True, nogil=True)
def _sort_pairs(n, tile, layers, marks, keys, spans, filled):
    """Put the pairs of every pixel into order, pixel i from spans[tile, i] to spans[tile, i + 1].

    Of equal keys the face with the lower number comes first.
    """
    place, begin = layers.firsts[tile], layers.starts[tile]
    pixels, entries = shifted(row(marks, PIXEL), place), shifted(row(marks, ENTRY), place)
    order, span = shifted(row(marks, ORDER), place), row(spans, tile)
    for i in range(PIXELS + 1):
        span[i] = 0
    for i in range(n):
        span[pixels[i] + 1] += 1
    for i in range(PIXELS):
        span[i + 1] += span[i]
        filled[i] = span[i]
    for i in range(n):
        order[filled[pixels[i]]] = i
        filled[pixels[i]] += 1
    for i in range(PIXELS):
        count = span[i + 1] - span[i]
        if count > _MANY:
            _heap_sort(shifted(order, span[i]), count, keys, entries, layers, begin)
        elif count > 1:
            _insertion_sort(shifted(order, span[i]), count, keys, entries, layers, begin)


@njit(cache=True, nogil=True)
def _is_before(i, j, keys, entries, layers, begin):
    """Whether pair i is nearer than pair j of the same pixel."""
    if keys[i] != keys[j]:
        return keys[i] > keys[j]
    return layers.faces[begin + entries[i]] < layers.faces[begin + entries[j]]


@njit(cache=True, nogil=True)
def _insertion_sort(order, count, keys, entries, layers, begin):
    for i in range(1, count):
        pair, j = order[i], i
        while j > 0 and _is_before(pair, order[j - 1], keys, entries, layers, begin):
            order[j] = order[j - 1]
            j -= 1
        order[j] = pair


@njit(cache=True, nogil=True)
def _heap_sort(order, count, keys, entries, layers, begin):
    """For pixels of so many faces that insertion, which is quadratic, would take long."""
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
                nearer = _is_before(order[child], order[child + 1], keys, entries, layers, begin)
                child += nearer
            if not _is_before(order[root], order[child], keys, entries, layers, begin):
                break
            order[root], order[child] = order[child], order[root]
            root = child


@njit(cache=True, nogil=True, error_model="numpy")
def _join(n, law, p, g, order, span, total, rest):
    """Fill in A_i and 1 - A_i of the pairs in order; of the mean, p is 1 / count."""
    for i in range(PIXELS):
        t = 0.0
        for j in range(span[i], span[i + 1]):
            t = max(t, g[order[j]]) if law.idempotent else t + g[order[j]]
            total[j] = t
    if law.idempotent or law.inverse == 0:
        factor = 1.0 if law.idempotent else p
        for j in range(n):
            total[j] = total[j] * factor
            rest[j] = 1.0 - total[j]
    else:
        call_inverse(law.inverse, total, n, p, total, rest)


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
def _room(layers, start, stop):
    """The most pairs of the tiles start .. stop - 1."""
    pairs = 0
    for tile in range(start, stop):
        pairs = max(pairs, layers.areas[tile])
    return pairs + LANES


# ---------------------------------------------------------------------------------------------
# Forward and backward
# ---------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def join_tiles(
    arrays, formulas, layer_arrays, colours, kept, marks, firsts, spans, counts, out, alpha, start,
    stop,
):  # fmt: skip
    """Fill in colours [P, C] and alpha [P] for the tiles start .. stop - 1, and what is kept.

    That is `kept` and `marks` of the pairs, the first pair of every entry, `spans` of the pixels
    in the order of depth, and `counts` of the pairs of tiles.
    """
    tables, law, layers = FaceTables(*arrays), Formulas(*formulas), Layers(*layer_arrays)
    height, width = extent(tables.grid)
    channels, tint, drawn = colours.shape[1], pointer(colours), pointer(out)
    scratch, block = np.empty((FORWARD_ROWS, _room(layers, start, stop))), _new_block()
    filled, closed = np.empty(PIXELS, np.int64), np.empty(PIXELS)
    for tile in range(start, stop):
        begin, place = layers.starts[tile], layers.firsts[tile]
        x_first, y_first = _corner(tile, layers)
        for i in range(PIXELS):  # what lies outside the image is closed
            there = x_first + i % TILE < width and y_first + i // TILE < height
            closed[i] = -np.inf if there else np.inf
        n = _list_pairs(tile, tables, law, layers, kept, marks, firsts, scratch, block, closed)
        counts[tile] = n
        if n == 0:
            continue
        _sort_pairs(n, tile, layers, marks, row(scratch, KEY), spans, filled)
        order, entries = shifted(row(marks, ORDER), place), shifted(row(marks, ENTRY), place)
        total, rest = shifted(row(kept, TOTAL), place), shifted(row(kept, REST), place)
        span = row(spans, tile)
        p = tables.images[layers.faces[begin], FAMILY_P]
        g = row(scratch, G)
        if not law.product:  # which needs no generators: g holds s, and weights are made below
            _join(n, law, p, g, order, span, total, rest)
        image = tile // (layers.across * layers.down)
        for i in range(PIXELS):
            if span[i] == span[i + 1]:
                continue
            pixel = (image * height + y_first + i // TILE) * width + x_first + i % TILE
            before, rest_before = 0.0, 1.0
            red, green, blue = 0.0, 0.0, 0.0
            for j in range(span[i], span[i + 1]):
                k = order[j]
                if law.product:
                    w = rest_before * (1.0 - g[k])
                    total[j], rest[j] = before + w, rest_before * g[k]
                else:
                    w = _weight(total[j], rest[j], before, rest_before)
                f = layers.faces[begin + entries[k]]
                if channels == 3:  # in registers
                    red, green = red + w * tint[3 * f], green + w * tint[3 * f + 1]
                    blue += w * tint[3 * f + 2]
                else:
                    for c in range(channels):
                        drawn[pixel * channels + c] += w * tint[f * channels + c]
                before, rest_before = total[j], rest[j]
            if channels == 3:
                drawn[3 * pixel], drawn[3 * pixel + 1], drawn[3 * pixel + 2] = red, green, blue
            alpha[pixel] = before


@njit(cache=True, nogil=True, error_model="numpy")
def backward_tiles(
    arrays, formulas, layer_arrays, colours, kept, marks, firsts, spans, counts, grad_out,
    grad_alpha, table, start, stop,
):  # fmt: skip
    """Fill in the rows of `table` of the entries of the tiles start .. stop - 1.

    With v_i the derivative of the loss by the weight of face i, less that of what is behind all,
    dL/dA_i = v_i - v_(i + 1), and dL/da_j = g'(a_j) / g'(A_j) P_j, where
    P_j = dL/dA_j + g'(A_j) / g'(A_(j + 1)) P_(j + 1): all ratios are finite, and none cancels.
    """
    tables, law, layers = FaceTables(*arrays), Formulas(*formulas), Layers(*layer_arrays)
    height, width = extent(tables.grid)
    channels, tint, grads = colours.shape[1], pointer(colours), pointer(grad_out)
    scratch, block = np.empty((BACKWARD_ROWS, _room(layers, start, stop))), _new_block()
    own, next_one, grad_a = row(scratch, OWN), row(scratch, NEXT), row(scratch, GRAD_A)
    factor, offset, weights = row(scratch, FACTOR), row(scratch, OFFSET), row(scratch, WEIGHT)
    here = np.zeros((PIXELS, channels))
    local = pointer(here)
    for tile in range(start, stop):
        n, begin, place = counts[tile], layers.starts[tile], layers.firsts[tile]
        if n == 0:
            continue
        x_first, y_first = _corner(tile, layers)
        image = tile // (layers.across * layers.down)
        order, entries = shifted(row(marks, ORDER), place), shifted(row(marks, ENTRY), place)
        totals, rests = shifted(row(kept, TOTAL), place), shifted(row(kept, REST), place)
        opaque, span = shifted(row(kept, S), place), row(spans, tile)
        p = tables.images[layers.faces[begin], FAMILY_P]
        _ratios(n, place, begin, law, p, tables, layers, kept, marks, scratch)
        for i in range(PIXELS):
            if span[i] == span[i + 1]:
                continue
            pixel = (image * height + y_first + i // TILE) * width + x_first + i % TILE
            for c in range(channels):
                local[i * channels + c] = grads[pixel * channels + c]
            behind, chain, behind_rest = -grad_alpha[pixel], 0.0, 0.0
            for j in range(span[i + 1] - 1, span[i] - 1, -1):
                total, rest, is_first = totals[j], rests[j], j == span[i]
                before = 0.0 if is_first else totals[j - 1]
                k = order[j]
                f = layers.faces[begin + entries[k]]
                v = 0.0
                for c in range(channels):
                    v += local[i * channels + c] * tint[f * channels + c]
                weights[k] = _weight(total, rest, before, 1.0 if is_first else rests[j - 1])
                if law.idempotent:
                    # The first of those that reach the maximum so far decides.
                    chain = chain + v - behind
                    grad_a[k] = chain if total > before else 0.0
                    chain = 0.0 if total > before else chain
                elif law.product:
                    slope = v - behind if rest > 0.0 else 0.0
                    # g'(A_j) / g'(A_(j + 1)) = s_(j + 1), and g'(a_j) / g'(A_j) = S_(j - 1).
                    chain = slope + behind_rest * chain
                    behind_rest = opaque[k]
                    grad_a[k] = chain * (1.0 if is_first else rests[j - 1])
                else:
                    slope = v - behind if rest > 0.0 or law.inverse == 0 else 0.0
                    chain = slope + (next_one[j] * chain if j + 1 < span[i + 1] else 0.0)
                    grad_a[k] = own[j] * chain
                    if law.weight_p != 0:
                        on_p = chain * factor[j] - slope * offset[j]
                        table[layers.places[begin + entries[k]], GRAD_P] += on_p
                behind = v
        for e in range(begin, layers.starts[tile + 1]):
            first = firsts[e]
            last = firsts[e + 1] if e + 1 < layers.starts[tile + 1] else place + n
            if first < last:
                _backpropagate(
                    layers.faces[e], row(table, layers.places[e]), first, last - first,
                    shifted(grad_a, first - place), shifted(weights, first - place), x_first,
                    y_first, tables, law, kept, marks, block, local, channels,
                )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def _ratios(n, place, begin, law, p, tables, layers, kept, marks, scratch):
    """g'(a_j) / g'(A_j) and g'(A_j) / g'(A_(j + 1)) of pairs in order, and those of p if wanted."""
    if law.idempotent or law.product:
        return
    order, entries = shifted(row(marks, ORDER), place), shifted(row(marks, ENTRY), place)
    covers, rests = shifted(row(kept, F), place), shifted(row(kept, S), place)
    total, rest = shifted(row(kept, TOTAL), place), shifted(row(kept, REST), place)
    a, s, ratio = row(scratch, NEAR_A), row(scratch, NEAR_S), row(scratch, NEXT)
    for j in range(n):
        k = order[j]
        a[j] = covers[k] * tables.images[layers.faces[begin + entries[k]], OPACITY]
        s[j] = rests[k]
    call_weight(law.weight, a, s, total, rest, n, p, row(scratch, OWN))
    if law.inverse == 0:  # the mean: A_i is linear in all a
        for j in range(n):
            ratio[j] = 1.0
    else:
        call_weight(law.weight, total, rest, shifted(total, 1), shifted(rest, 1), n - 1, p, ratio)
    if law.weight_p != 0:
        call_weight(law.weight_p, a, s, total, rest, n, p, row(scratch, FACTOR))
        call_weight(law.weight_p, total, rest, total, rest, n, p, row(scratch, OFFSET))


@njit(cache=True, nogil=True, error_model="numpy")
def _backpropagate(
    f, out, first, n, grad_a, weights, x_first, y_first, tables, law, kept, marks, block, local,
    channels,
):  # fmt: skip
    """Fill in the row `out` of one entry from the gradients of its n pairs."""
    points, us, zs, grad_z, pdf = pointer(block[0]), block[2], block[3], block[4], block[5]
    xs, ys = pointer(tables.grid[0]), pointer(tables.grid[1])
    pixels, covers = shifted(row(marks, PIXEL), first), shifted(row(kept, F), first)
    whole = (n + LANES - 1) // LANES * LANES
    for i in range(whole):
        pixel = pixels[min(i, n - 1)]
        points[X + i] = xs[x_first + pixel % TILE]
        points[Y + i] = ys[y_first + pixel // TILE]
    if channels == 3:
        red, green, blue = 0.0, 0.0, 0.0
        for i in range(n):
            w, at = weights[i], 3 * pixels[i]
            red, green = red + w * local[at], green + w * local[at + 1]
            blue += w * local[at + 2]
        out[GRAD_COLOUR], out[GRAD_COLOUR + 1], out[GRAD_COLOUR + 2] = red, green, blue
    else:
        for i in range(n):
            for c in range(channels):
                out[GRAD_COLOUR + c] += weights[i] * local[pixels[i] * channels + c]
    orientation = face_orientation(tables.corners, f)
    edges = face_edges(tables.corners, f, orientation)
    if tables.corners.shape[1] == 4:
        _measure(points, 0, whole, edges, True, orientation != 0.0)
    else:
        _measure(points, 0, whole, edges, False, orientation != 0.0)
    face = row(tables.images, f)
    argument(whole, shifted(points, DISTANCE), face, law, us, zs)
    call_pdf(law.pdf, pointer(zs), whole, face[SHAPE], pointer(pdf))
    opacity, on_opacity, on_scale, on_shift = face[OPACITY], 0.0, 0.0, 0.0
    for i in range(n):
        on_opacity += grad_a[i] * covers[i]
        grad_z[i] = grad_a[i] * opacity * pdf[i]
        on_scale += grad_z[i] * us[i]
        on_shift += grad_z[i]
    sign = -1.0 if law.reversed else 1.0
    out[GRAD_OPACITY], out[GRAD_SCALE] = on_opacity, -on_scale / face[SCALE]
    out[GRAD_SHIFT] = sign * on_shift
    through_argument(n, shifted(points, DISTANCE), face[SCALE], law, grad_z, us)
    if law.dshape != 0:
        call_pdf(law.dshape, pointer(zs), n, face[SHAPE], pointer(pdf))
        on_shape = 0.0
        for i in range(n):
            on_shape += grad_a[i] * pdf[i]
        out[GRAD_SHAPE] = sign * opacity * on_shape
    _move_corners(n, points, us, tables.corners, f, edges, out)


@njit(cache=True, nogil=True, error_model="numpy")
def _move_corners(n, points, grad_d, corners, f, edges, out):
    """Add the gradients of distances to one face to its corners, the first 8 numbers of `out`.

    As `move_corners` in kernels.py, for the many points of one face.
    """
    for i in range(n):
        d = points[DISTANCE + i]
        factor = grad_d[i] / d
        dx, dy = points[_GAP_X + i] * factor, points[_GAP_Y + i] * factor
        if d == 0.0:
            nx, ny = _edge_normal(corners, f, points[_ENDS + i])
            dx, dy = nx * grad_d[i], ny * grad_d[i]
        points[_GAP_X + i], points[_GAP_Y + i] = dx, dy
    for k in range(corners.shape[1]):
        code = edges[0][9] if k == 0 else (edges[1][9] if k == 1 else edges[2][9])
        code = edges[3][9] if k == 3 else code
        x, y, tx, ty = _edge_sums(n, points, code)
        a, b = 2 * (int(code) >> 2), 2 * (int(code) & 3)
        out[a], out[a + 1] = out[a] - (x - tx), out[a + 1] - (y - ty)
        out[b], out[b + 1] = out[b] - tx, out[b + 1] - ty


# Sums may be taken in any order here, so in vectors; on one machine it is always the same.
@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _edge_sums(n, points, code):
    """Sums of the gradients (dx, dy) of points nearest to an edge, and of t times these."""
    x, y, tx, ty = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        near = 1.0 if points[_ENDS + i] == code else 0.0
        dx, dy, t = near * points[_GAP_X + i], near * points[_GAP_Y + i], points[_FOOT + i]
        x, y, tx, ty = x + dx, y + dy, tx + t * dx, ty + t * dy
    return x, y, tx, ty


@njit(cache=True, nogil=True)
def sum_entries(table, slots, out, start, stop):
    """Sum the rows of the table of every face start .. stop - 1, in order."""
    for f in range(start, stop):
        for i in range(slots[f], slots[f + 1]):
            for c in range(table.shape[1]):
                out[f, c] += table[i, c]
