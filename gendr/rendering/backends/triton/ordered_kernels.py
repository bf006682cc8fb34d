"""The Triton kernels of ordered joining: the faces of a pixel from front to back.

- `join_layers`: one program per screen tile walks the faces of its list, which has them by their
  nearest points. Where all pixels have one order, that of the list, a face is joined at once.
  Else the program looks for the next `_AHEAD` pairs of every pixel, joins these, and looks for the
  next ones behind them: it need not look farther than faces reach that may be among them, and
  begins behind those that every pixel is done with. So the order is exact, whatever the depths,
  and nothing is stored that would have to be sorted. A tile is done once no pixel shows anything.
- `part_layers`: one program per tile goes back through what was joined, from back to front.
- `layer_gradients`: one program per face, or per face and share of its pixels, adds up.

What is kept of a pair of a pixel and a face stands where the pixel stands in the box of the face:
the boxes of all faces follow one another, from `places` on. A pair names the face before it in its
pixel, so that the way back needs no list. Sums over pixels have a fixed order, and no atomics.

Rows of `faces` are those of the image table, see `shared_kernels`, with one for every face.
Arithmetic is float32, but for keys of depth, which are float64.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gendr.kernels.triton.mathematics import any_of
from gendr.rendering.backends.triton.shared_kernels import (
    CUTOFF,
    FAMILY_P,
    IMAGE_COLUMNS,
    MAXIMUM,
    MEAN,
    PRODUCT,
    PSI,
    RATE,
    SCALED,
    add_moves,
    advanced,
    argument,
    box_pixels,
    coverage,
    covered,
    face_box,
    least,
    list_of_tile,
    listed_faces,
    load_face,
    load_image,
    meets_tile,
    moved_corners,
    nearest_feature,
    no_moves,
    piece_of,
    put,
    row_of,
    sum_scaled,
    tile_pixels,
)

OPACITY = RATE  # of a face, in whose row nobody needs the other
# What is kept of pairs, [KEPT, pairs] float32: the coverage a, 1 - a, and of what is in front of
# them 1 - A and A; products need no A.
COVER = tl.constexpr(0)
CLEAR = tl.constexpr(1)
REST = tl.constexpr(2)
BEFORE = tl.constexpr(3)
KEPT = tl.constexpr(4)
# Gradients of a face, behind those of its corners: of opacity, scale, shift and shape; from this
# column on those of its colours.
GRAD_COLOUR = tl.constexpr(4)
_FACES = tl.constexpr(8)  # between two looks whether there is more to do
_NEVER = tl.constexpr(float("-inf"))  # the key of no face
_TINY = tl.constexpr(2.2250738585072014e-308)  # the least normal float64


@triton.jit(do_not_specialize=["count"])
def depth_planes(
    corners, depth, planes, limits, count, CENTROID: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """What `gendr.rendering.layers.depth_keys` finds, of BLOCK faces; all in float64."""
    f = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    valid = f < count
    z0 = tl.load(depth + f * 3, valid, 1.0).to(tl.float64)
    z1 = tl.load(depth + f * 3 + 1, valid, 1.0).to(tl.float64)
    z2 = tl.load(depth + f * 3 + 2, valid, 1.0).to(tl.float64)
    none = z0 * 0.0
    if CENTROID:
        r = 1.0 / ((z0 + z1 + z2) / 3.0)
        p, q, low, high = none, none, r, r
    else:
        at = corners + f * 6
        ax, ay = tl.load(at, valid, 0.0).to(tl.float64), tl.load(at + 1, valid, 0.0).to(tl.float64)
        ux = tl.load(at + 2, valid, 0.0).to(tl.float64) - ax
        uy = tl.load(at + 3, valid, 0.0).to(tl.float64) - ay
        vx = tl.load(at + 4, valid, 0.0).to(tl.float64) - ax
        vy = tl.load(at + 5, valid, 0.0).to(tl.float64) - ay
        k0, k1, k2 = 1.0 / z0, 1.0 / z1, 1.0 / z2
        du, dv, area = k1 - k0, k2 - k0, ux * vy - uy * vx
        flat = tl.abs(area) < _TINY
        area = tl.where(flat, 1.0, area)
        p, q = (du * vy - dv * uy) / area, (dv * ux - du * vx) / area
        r = k0 - p * ax - q * ay
        whole = p + q + r
        wrong = flat | (whole != whole) | (tl.abs(whole) == float("inf"))
        p, q = tl.where(wrong, 0.0, p), tl.where(wrong, 0.0, q)
        r = tl.where(wrong, (k0 + k1 + k2) / 3.0, r)
        low = tl.minimum(k0, tl.minimum(k1, k2))
        high = tl.maximum(k0, tl.maximum(k1, k2))
    tl.store(planes + f * 3, p, valid)
    tl.store(planes + f * 3 + 1, q, valid)
    tl.store(planes + f * 3 + 2, r, valid)
    tl.store(limits + f * 2, low, valid)
    tl.store(limits + f * 2 + 1, high, valid)


@triton.jit
def _place(places, boxes, f, row, column, there):
    """Where what is kept of pixels and faces stands; `f` is one face or one for each pixel."""
    left, right = tl.load(boxes + f * 4, there, 0), tl.load(boxes + f * 4 + 1, there, 0)
    down = row - tl.load(boxes + f * 4 + 2, there, 0)
    return tl.load(places + f, there, 0) + down.to(tl.int64) * (right - left) + (column - left)


@triton.jit
def _covers(
    x, y, row, column, edges, faces, boxes, f, valid, CDF: tl.constexpr, N: tl.constexpr
):  # fmt: skip
    """What a face covers of the pixels of a tile, what it leaves, and where it counts."""
    at = faces + f * IMAGE_COLUMNS
    a, s = covered(x, y, edges, f, load_image(at), CDF, N, 1)
    x0, x1 = tl.load(boxes + f * 4), tl.load(boxes + f * 4 + 1)
    y0, y1 = tl.load(boxes + f * 4 + 2), tl.load(boxes + f * 4 + 3)
    inside = (column >= x0) & (column < x1) & (row >= y0) & (row < y1)
    seen = inside & (a > least(edges, f, valid, tl.load(at + CUTOFF)))
    opacity = tl.load(at + OPACITY)
    return opacity * a, (1.0 - opacity) + opacity * s, seen


@triton.jit
def _joined(
    sums, A, S, a, s, there, p, limit,
    GENERATOR: tl.constexpr, INVERSE: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """Join one face to what is in front of it.

    Args:
        sums: of generators, with a unit for SCALED: see `sum_scaled`.
        A: of what is in front, as everything here of pixels.
        S: 1 - A.
        a: what the face covers.
        s: 1 - a.
        there: the pixels that it is joined to.
        p: of the family.
        limit: if ARCHIMEDEAN, the sum, or else the least 1 - A, beyond which a pixel is closed.
        GENERATOR: of the family, if it is ARCHIMEDEAN or SCALED.
        INVERSE: the same.
        KIND: how faces are joined.

    Returns:
        The new sums, A and S; the weight of the face; whether the pixel shows more.
    """
    if KIND == PRODUCT:
        weight = S * a
        after = S * s
        whole = tl.where(after < 0.5, 1.0 - after, A + weight)
        more = (after >= limit) & (after > 0.0)
    elif KIND == MAXIMUM:
        whole, after = tl.maximum(A, a), tl.where(a > A, s, S)
        weight = whole - A
        more = (after >= limit) & (after > 0.0)
    elif KIND == MEAN:
        weight = a * p
        whole, after = A + weight, S
        more = there | True
    else:
        unit, total = sums
        if KIND == SCALED:
            first = unit == 0.0
            u, k = GENERATOR(a, s, p)
            most, joined = sum_scaled(unit, total, u, k, p)
            whole, after = INVERSE(most, joined, p)
        else:
            first, most = total == 0.0, unit
            joined = total + GENERATOR(a, s, p)
            whole, after = INVERSE(joined, p)
        # What joins nothing stays what it is, to the last bit.
        whole, after = tl.where(first, a, whole), tl.where(first, s, after)
        weight = tl.where(whole > 0.5, S - after, whole - A)
        more = (after > 0.0) & (after >= limit if KIND == SCALED else joined <= limit)
        sums = tl.where(there, most, unit), tl.where(there, joined, total)
    weight = tl.where(there, weight, 0.0)
    return sums, tl.where(there, whole, A), tl.where(there, after, S), weight, more | ~there


@triton.jit
def _keep(
    pairs, links, capacity, place, there, a, s, A, S, before, KIND: tl.constexpr
):  # fmt: skip
    """Keep what the way back needs of a pair, if there is room; `before` is the face before it."""
    there = there & (place < capacity)
    tl.store(pairs + COVER * capacity + place, a, there)
    tl.store(pairs + CLEAR * capacity + place, s, there)
    tl.store(pairs + REST * capacity + place, S, there)
    if KIND != PRODUCT:
        tl.store(pairs + BEFORE * capacity + place, A, there)
    tl.store(links + place, before, there)


@triton.jit
def _insert(slot, key, face, a, s):
    """What is nearer of a pair in a slot and another one, and what is farther."""
    own_key, own_face, own_a, own_s = slot
    nearer = (key > own_key) | ((key == own_key) & (face < own_face))
    first = (
        tl.where(nearer, key, own_key), tl.where(nearer, face, own_face),
        tl.where(nearer, a, own_a), tl.where(nearer, s, own_s),
    )  # fmt: skip
    return (
        first,
        tl.where(nearer, own_key, key), tl.where(nearer, own_face, face),
        tl.where(nearer, own_a, a), tl.where(nearer, own_s, s),
    )  # fmt: skip


@triton.jit
def _tint(colours, f, first, c: tl.constexpr, there, CHANNELS: tl.constexpr):
    """The number of channel `first + c` of faces, 0 where there is no such channel."""
    return tl.load(colours + f * CHANNELS + first + c, there & (first + c < CHANNELS), 0.0)


@triton.jit(do_not_specialize=["capacity", "height", "width", "limit"])
def join_layers(
    edges, faces, boxes, sorted_boxes, order, planes, limits, starts, stops, list_of_faces, places,
    colours, image, alpha, rest, last, pairs, links, capacity, limit, height, width,
    CDF: tl.constexpr, GENERATOR: tl.constexpr, INVERSE: tl.constexpr, KIND: tl.constexpr,
    SORTS: tl.constexpr, KEEPS: tl.constexpr, CHANNELS: tl.constexpr,
    N: tl.constexpr, TILE_H: tl.constexpr, TILE_W: tl.constexpr,
):  # fmt: skip
    """Three channels of the image over black, alpha and 1 - alpha.

    Program (tile, k) takes the channels from 3 k on. The faces of a tile are entries of `order`,
    [T], in which they stand by their greatest keys, image by image; `sorted_boxes` are their boxes
    in this order. The first programs also keep what `part_layers` needs: `last` [P], the last face
    of every pixel or -1, and of pairs what `_keep` says, if there is room for `capacity` pairs.

    Args:
        edges: the table of edges.
        faces: a row for each, see above.
        boxes: of the faces.
        sorted_boxes: see above.
        order: see above.
        planes: [T, 3] float64, keys p x + q y + r that grow towards the camera.
        limits: [T, 2] float64, the least and the greatest key of a face.
        starts: of lists, see `alpha_tiles`.
        stops: of lists.
        list_of_faces: entries of `order`.
        places: [T] int64, see above.
        colours: [T, CHANNELS].
        image: [P, CHANNELS].
        alpha: [P].
        rest: [P].
        last: [P] int32.
        pairs: [KEPT, capacity].
        links: [capacity] int32.
        capacity: pairs that can be kept.
        limit: see `_joined`.
        height: of the image.
        width: of the image.
        CDF: of the distribution.
        GENERATOR: of the family, if it is ARCHIMEDEAN or SCALED.
        INVERSE: the same.
        KIND: how faces are joined.
        SORTS: whether pixels have orders of their own.
        KEEPS: whether anything is kept.
        CHANNELS: of colours.
        N: sides that a face may have.
        TILE_H: pixels of a tile.
        TILE_W: pixels of a tile.
    """
    tile, chunk = tl.program_id(0), tl.program_id(1)
    channel = 3 * chunk
    _b, pixels, on, x, y = tile_pixels(tile, height, width, tl.float32, TILE_H, TILE_W, 1)
    _b, _p, _o, wide_x, wide_y = tile_pixels(tile, height, width, tl.float64, TILE_H, TILE_W, 1)
    column, row = (pixels % width).to(tl.int32), (pixels // width % height).to(tl.int32)
    k, stop, listed = list_of_tile(starts, stops, tile)
    A = tl.zeros([TILE_H, TILE_W], tl.float32)
    sums, S, red, green, blue = (A, A), A + 1.0, A, A, A
    before = tl.zeros([TILE_H, TILE_W], tl.int32) - 1
    shows, going = on, k < stop
    if SORTS:
        done_key = tl.zeros([TILE_H, TILE_W], tl.float64) + float("inf")
        # All faces of an image have the same; with one for each pixel Triton 3.7 fails here.
        p = tl.full([], 1.0, tl.float32)
        if going:
            entry, _v = listed_faces(k, stop, list_of_faces, listed, 1)
            p = tl.load(faces + tl.load(order + entry) * IMAGE_COLUMNS + FAMILY_P)
        while going:
            empty = tl.zeros([TILE_H, TILE_W], tl.float64) + _NEVER
            nobody = tl.zeros([TILE_H, TILE_W], tl.int32) + 2147483647
            slot = empty, nobody, A * 0.0, A * 0.0
            first, second, third, fourth = slot, slot, slot, slot
            i, looks = k, k < stop
            while looks:
                n = 0
                while (n < _FACES) & (i < stop):
                    entry, valid = listed_faces(i, stop, list_of_faces, listed, 1)
                    if not listed:
                        valid = valid & meets_tile(
                            sorted_boxes, entry, tile, height, width, TILE_H, TILE_W
                        )
                    f = tl.load(order + entry)
                    a, s, seen = _covers(
                        x, y, row, column, edges, faces, boxes, f, valid, CDF, N
                    )  # fmt: skip
                    key = tl.load(planes + f * 3) * wide_x + tl.load(planes + f * 3 + 1) * wide_y
                    key = key + tl.load(planes + f * 3 + 2)
                    key = tl.maximum(key, tl.load(limits + f * 2))
                    key = tl.minimum(key, tl.load(limits + f * 2 + 1))
                    face = nobody * 0 + f.to(tl.int32)
                    behind = (key < done_key) | ((key == done_key) & (face > before))
                    key = tl.where(seen & shows & behind, key, _NEVER)
                    face = tl.where(key > _NEVER, face, nobody)
                    first, key, face, a, s = _insert(first, key, face, a, s)
                    second, key, face, a, s = _insert(second, key, face, a, s)
                    third, key, face, a, s = _insert(third, key, face, a, s)
                    fourth, key, face, a, s = _insert(fourth, key, face, a, s)
                    n += 1
                    i += 1
                looks = i < stop
                if looks:
                    entry, _v = listed_faces(i, stop, list_of_faces, listed, 1)
                    farthest = tl.min(tl.where(shows, fourth[0], float("inf")))
                    looks = tl.load(limits + tl.load(order + entry) * 2 + 1) >= farthest
            full = fourth[0] > _NEVER
            for ahead in tl.static_range(4):
                if ahead == 0:
                    key, face, a, s = first
                elif ahead == 1:
                    key, face, a, s = second
                elif ahead == 2:
                    key, face, a, s = third
                else:
                    key, face, a, s = fourth
                there = shows & (key > _NEVER)
                f = face.to(tl.int64)
                if KEEPS:
                    place = _place(places, boxes, f, row, column, there)
                    _keep(pairs, links, capacity, place, there & (chunk == 0), a, s, A, S, before,
                          KIND)  # fmt: skip
                sums, A, S, weight, more = _joined(
                    sums, A, S, a, s, there, p, limit, GENERATOR, INVERSE, KIND
                )
                red += weight * _tint(colours, f, channel, 0, there, CHANNELS)
                green += weight * _tint(colours, f, channel, 1, there, CHANNELS)
                blue += weight * _tint(colours, f, channel, 2, there, CHANNELS)
                before = tl.where(there, face, before)
                done_key = tl.where(there, key, done_key)
                shows = shows & more
            shows = shows & full
            going = any_of(shows)
            if going:
                most, passed = tl.max(tl.where(shows, done_key, _NEVER)), k < stop
                while passed:
                    entry, _v = listed_faces(k, stop, list_of_faces, listed, 1)
                    passed = tl.load(limits + tl.load(order + entry) * 2) > most
                    k += passed.to(tl.int32)
                    passed = passed & (k < stop)
                going = k < stop
    else:
        while going:
            n = 0
            while (n < _FACES) & (k < stop):
                entry, valid = listed_faces(k, stop, list_of_faces, listed, 1)
                if not listed:
                    valid = valid & meets_tile(
                        sorted_boxes, entry, tile, height, width, TILE_H, TILE_W
                    )
                f = tl.load(order + entry)
                a, s, seen = _covers(x, y, row, column, edges, faces, boxes, f, valid, CDF, N)
                there = seen & shows
                if KEEPS:
                    place = _place(places, boxes, f, row, column, valid)
                    _keep(pairs, links, capacity, place, there & (chunk == 0), a, s, A, S, before,
                          KIND)  # fmt: skip
                p = tl.load(faces + f * IMAGE_COLUMNS + FAMILY_P)
                sums, A, S, weight, more = _joined(
                    sums, A, S, a, s, there, p, limit, GENERATOR, INVERSE, KIND
                )
                red += weight * _tint(colours, f, channel, 0, valid, CHANNELS)
                green += weight * _tint(colours, f, channel, 1, valid, CHANNELS)
                blue += weight * _tint(colours, f, channel, 2, valid, CHANNELS)
                before = tl.where(there, f.to(tl.int32), before)
                shows = shows & more
                n += 1
                k += 1
            going = any_of(shows) & (k < stop)
    here = image + pixels * CHANNELS + channel
    tl.store(here, red, on & (channel < CHANNELS))
    tl.store(here + 1, green, on & (channel + 1 < CHANNELS))
    tl.store(here + 2, blue, on & (channel + 2 < CHANNELS))
    on = on & (chunk == 0)
    tl.store(alpha + pixels, A, on)
    tl.store(rest + pixels, S, on)
    tl.store(last + pixels, before, on)


@triton.jit(do_not_specialize=["capacity", "height", "width"])
def part_layers(
    faces, boxes, places, colours, alpha, rest, last, pairs, links, grads, alpha_grads,
    on_cover, weights, on_p, capacity, height, width,
    WEIGHT: tl.constexpr, WEIGHT_P: tl.constexpr, KIND: tl.constexpr, CHANNELS: tl.constexpr,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr,
):  # fmt: skip
    """Of every pair the gradient of its coverage a, and its weight: `on_cover` and `weights`.

    Of every pixel also what it adds to the gradient of p. From back to front, as in
    `gendr.rendering.ordered`: of what is behind a face, `farther` is v, and `carried` what its P
    adds to that of the face. All ratios are finite, and none cancels.
    """
    tile = tl.program_id(0)
    _b, pixels, on, _x, _y = tile_pixels(tile, height, width, tl.float32, TILE_H, TILE_W, 1)
    column, row = (pixels % width).to(tl.int32), (pixels // width % height).to(tl.int32)
    total, left = tl.load(alpha + pixels, on, 0.0), tl.load(rest + pixels, on, 1.0)
    here = grads + pixels * CHANNELS
    red = tl.load(here, on & (CHANNELS > 0), 0.0)
    green, blue = tl.load(here + 1, on & (CHANNELS > 1), 0.0), red * 0.0
    if CHANNELS > 2:
        blue = tl.load(here + 2, on, 0.0)
    face = tl.load(last + pixels, on, -1)
    farther = -tl.load(alpha_grads + pixels, on, 0.0)
    carried, of_p = farther * 0.0, farther * 0.0
    going = any_of(face >= 0)
    while going:
        there, f = face >= 0, tl.maximum(face, 0).to(tl.int64)
        place = _place(places, boxes, f, row, column, there)
        a = tl.load(pairs + COVER * capacity + place, there, 0.0)
        s = tl.load(pairs + CLEAR * capacity + place, there, 1.0)
        front = tl.load(pairs + REST * capacity + place, there, 1.0)
        v = red * _tint(colours, f, 0, 0, there, CHANNELS)
        v += green * _tint(colours, f, 0, 1, there, CHANNELS)
        v += blue * _tint(colours, f, 0, 2, there, CHANNELS)
        for c in tl.static_range(3, CHANNELS):
            v += tl.load(here + c, there, 0.0) * _tint(colours, f, 0, c, there, CHANNELS)
        if KIND == PRODUCT:
            through = tl.where(front * s > 0.0, v - farther, 0.0) + carried
            on_a, weight, passes = front * through, front * a, s * through
        else:
            before = tl.load(pairs + BEFORE * capacity + place, there, 0.0)
            if KIND == MAXIMUM:
                # The first of those that reach the maximum so far decides.
                through, decides = v - farther + carried, total > before
                weight = total - before
                on_a, passes = tl.where(decides, through, 0.0), tl.where(decides, 0.0, through)
            elif KIND == MEAN:
                p = tl.load(faces + f * IMAGE_COLUMNS + FAMILY_P, there, 0.0)
                through = v - farther + carried
                on_a, weight, passes = p * through, p * a, through
            else:
                p = tl.load(faces + f * IMAGE_COLUMNS + FAMILY_P, there, 1.0)
                through = tl.where(left > 0.0, v - farther, 0.0) + carried
                weight = tl.where(total > 0.5, front - left, total - before)
                on_a = WEIGHT(a, s, total, left, p) * through
                passes = WEIGHT(before, front, total, left, p) * through
                if WEIGHT_P is not None:
                    # Of a face alone the first two are the same, and their difference is 0.
                    slope_p = WEIGHT_P(a, s, total, left, p) - WEIGHT_P(total, left, total, left, p)
                    slope_p += WEIGHT_P(before, front, total, left, p)
                    of_p += tl.where(there, through * slope_p, 0.0)
            total = tl.where(there, before, total)
        tl.store(on_cover + place, on_a, there)
        tl.store(weights + place, weight, there)
        farther, carried = tl.where(there, v, farther), tl.where(there, passes, carried)
        left = tl.where(there, front, left)
        face = tl.load(links + place, there, -1)
        going = any_of(face >= 0)
    if WEIGHT_P is not None:
        tl.store(on_p + pixels, of_p, on)


@triton.jit(do_not_specialize=["height", "width", "count"])
def layer_gradients(
    edges, faces, image_of_face, boxes, places, on_cover, weights, grads, rows,
    height, width, pieces, count,
    CDF: tl.constexpr, PDF: tl.constexpr, DSHAPE: tl.constexpr, CHANNELS: tl.constexpr,
    N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of the corners, the numbers and the colours of a face.

    Programs and rows as in `alpha_gradients`, of which `count` is the number of faces.
    """
    program, share, shares = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    f, begin, end = piece_of(program, pieces, count)
    b, at = tl.load(image_of_face + f), faces + f * IMAGE_COLUMNS
    x0, y0, across, entries = face_box(boxes, f)
    inverse = tl.div_rn(1.0, across.to(tl.float32))
    rate, squared, art, shift, mirrored, shape, constant = load_image(at)
    opacity, psi, place = tl.load(at + OPACITY), tl.load(at + PSI), tl.load(places + f)
    face, zeros, lanes = load_face(edges, f, N), tl.zeros([BLOCK], tl.float32), tl.arange(0, BLOCK)
    moves = no_moves(zeros)
    of_opacity, of_scale, of_shift, of_shape = zeros, zeros, zeros, zeros
    k, end = begin + share * BLOCK, tl.minimum(end, entries)
    row, column = k // across, k % across
    while k < end:
        valid = lanes < end - k
        _p, x, y = box_pixels(row, column, lanes, b, x0, y0, across, inverse, height, width)
        on_a = tl.load(on_cover + place + k + lanes, valid, 0.0)
        d, feature = nearest_feature(x, y, face, N)
        u, slope = argument(d, rate, squared, art)
        z = u + shift
        a, _ = coverage(z, mirrored, shape, constant, CDF)
        there = on_a != 0.0
        on_distribution = tl.where(there, on_a * opacity * PDF(z, shape, constant), 0.0)
        moves = add_moves(moves, on_distribution * slope, x, y, face, feature, N)
        of_opacity += tl.where(there, on_a * a, 0.0)
        of_scale += tl.where(there, on_distribution * u, 0.0)
        of_shift += on_distribution
        if DSHAPE is not None:
            on_shape = on_a * opacity * DSHAPE(z, shape, constant, psi)
            of_shape += tl.where(there, on_shape, 0.0)
        k += shares * BLOCK
        row, column = advanced(row, column, shares * BLOCK, across, inverse)
    mirror = tl.where(mirrored, -1.0, 1.0)
    out = row_of(rows, program, share, 2 * N + GRAD_COLOUR + CHANNELS)
    put(out, moved_corners(moves, face, mirror, N), 2 * N)
    out += 2 * N  # the rate has the sign of the mirror
    put(out, (of_opacity, of_scale * -rate, of_shift * mirror, of_shape * mirror), GRAD_COLOUR)
    out += GRAD_COLOUR
    for c in tl.static_range(0, CHANNELS, 3):
        red, green, blue = zeros, zeros, zeros
        k = begin + share * BLOCK
        row, column = k // across, k % across
        while k < end:
            valid = lanes < end - k
            pixels, _x, _y = box_pixels(
                row, column, lanes, b, x0, y0, across, inverse, height, width
            )  # fmt: skip
            weight, here = tl.load(weights + place + k + lanes, valid, 0.0), grads + c
            here += pixels * CHANNELS
            red += weight * tl.load(here, valid, 0.0)
            if c + 1 < CHANNELS:
                green += weight * tl.load(here + 1, valid, 0.0)
            if c + 2 < CHANNELS:
                blue += weight * tl.load(here + 2, valid, 0.0)
            k += shares * BLOCK
            row, column = advanced(row, column, shares * BLOCK, across, inverse)
        put(out + c, (red, green, blue), 3 if c + 3 <= CHANNELS else CHANNELS - c)
