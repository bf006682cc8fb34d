"""The compiled kernels of the CPU backend.

Plain loops, compiled by Numba at first use and cached on disk. A kernel works on a range of units
that it alone writes, so any number of threads gives the same bits:

- forward and listing: a unit is a run of pixel rows of the batch; faces are taken in order;
- backward: a unit is a run of faces; the rows of a face are taken in order.

Laws and families are called through the addresses of their compiled twins, on blocks of pairs, so
that none of the kernels is compiled more than once. All arithmetic is float64.

Rows of all images are numbered through: row = image * height + i. So are pixels.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from gendr._compile import ensure_cache

ensure_cache()

BLOCK = 512  # pairs per call of a law: a few arrays of this length stay in the first-level cache
SHORTEST = 1e-300  # an edge whose squared length is below it is a point
CHUNK = 256  # candidates of one face whose distances are computed together

# Columns of the float64 table with one row per image, see `image_table` in cpu.py.
SCALE, SHIFT, RADIUS, FAMILY_P = 0, 1, 2, 3
IMAGE_COLUMNS = 4
# Columns of the per-face gradient table: the scalars of the face's image.
GRAD_SCALE, GRAD_SHIFT, GRAD_SHAPE, GRAD_P = 0, 1, 2, 3
GRAD_COLUMNS = 4
# Entries of the table of addresses, 0 where there is no such twin.
CDF, PDF, DSHAPE, GENERATOR, WEIGHT, WEIGHT_P = range(6)
# `law` is (reversed, squared, idempotent, scalar gradients wanted) as 0 or 1; `shape` is
# (shape parameter, exponent of the activation replacement trick).


def _call(builder: Any, context: Any, signature: Any, args: Any) -> Any:
    """Call the C function whose address is args[0] with the other arguments."""
    kinds = [context.get_value_type(t) for t in signature.args]
    function = ir.FunctionType(ir.VoidType(), kinds[1:])
    builder.call(builder.inttoptr(args[0], function.as_pointer()), args[1:])
    return context.get_dummy_value()


@intrinsic
def call_cdf(typingctx, address, z, n, shape, cdf, sf):
    def codegen(context, builder, signature, args):
        return _call(builder, context, signature, args)

    return types.void(address, z, n, shape, cdf, sf), codegen


@intrinsic
def call_pdf(typingctx, address, z, n, shape, pdf):
    def codegen(context, builder, signature, args):
        return _call(builder, context, signature, args)

    return types.void(address, z, n, shape, pdf), codegen


@intrinsic
def call_generator(typingctx, address, a, s, n, p, g):
    def codegen(context, builder, signature, args):
        return _call(builder, context, signature, args)

    return types.void(address, a, s, n, p, g), codegen


@intrinsic
def call_weight(typingctx, address, a, s, total, rest, n, p, w):
    def codegen(context, builder, signature, args):
        return _call(builder, context, signature, args)

    return types.void(address, a, s, total, rest, n, p, w), codegen


@intrinsic
def pointer(typingctx, array):
    """The address of the first element of a contiguous array."""

    def codegen(context, builder, signature, args):
        (array_type,) = signature.args
        return context.make_array(array_type)(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), codegen


# ---------------------------------------------------------------------------------------------
# Geometry
# ---------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def face_boxes(corners, image_of_face, images, height, width, boxes, start, stop):
    """Pixel boxes [x0, x1) x [y0, y1) that hold all pixel centres within the radius of a face."""
    side = float(min(height, width))
    for f in range(start, stop):
        radius = images[image_of_face[f], RADIUS]
        x_low, x_high, y_low, y_high = np.inf, -np.inf, np.inf, -np.inf
        for k in range(corners.shape[1]):
            x_low, x_high = min(x_low, corners[f, k, 0]), max(x_high, corners[f, k, 0])
            y_low, y_high = min(y_low, corners[f, k, 1]), max(y_high, corners[f, k, 1])
        # Pixel j has its centre at (2j + 1 - width) / side; one part in 1e9 covers the rounding.
        slack = radius + 1e-9 * (1.0 + abs(x_low) + abs(x_high) + abs(y_low) + abs(y_high))
        x_first = np.ceil(((x_low - slack) * side + width - 1.0) * 0.5) if slack < 1e18 else 0.0
        x_last = np.floor(((x_high + slack) * side + width - 1.0) * 0.5)
        y_first = np.ceil((height - 1.0 - (y_high + slack) * side) * 0.5) if slack < 1e18 else 0.0
        y_last = np.floor((height - 1.0 - (y_low - slack) * side) * 0.5)
        boxes[f, 0] = int(min(max(x_first, 0.0), float(width)))
        boxes[f, 1] = int(min(max(x_last + 1.0, 0.0), float(width)))
        boxes[f, 2] = int(min(max(y_first, 0.0), float(height)))
        boxes[f, 3] = int(min(max(y_last + 1.0, 0.0), float(height)))


@njit(cache=True, nogil=True)
def _edge_ends(corners, f, k):
    """The corners of edge k, the lexicographically smaller first.

    So an edge that two faces share gives both the very same distance, and their coverages tie.
    """
    n = k + 1 if k + 1 < corners.shape[1] else 0
    ax, ay, bx, by = corners[f, k, 0], corners[f, k, 1], corners[f, n, 0], corners[f, n, 1]
    if bx < ax or (bx == ax and by < ay):
        return n, k
    return k, n


@njit(cache=True, nogil=True)
def _orientation(corners, f):
    """+1 for a counterclockwise face, -1 for a clockwise one, 0 for one without area."""
    area = 0.0
    ox, oy = corners[f, 0, 0], corners[f, 0, 1]
    for k in range(1, corners.shape[1] - 1):
        area += (corners[f, k, 0] - ox) * (corners[f, k + 1, 1] - oy)
        area -= (corners[f, k, 1] - oy) * (corners[f, k + 1, 0] - ox)
    return 1.0 if area > 0.0 else (-1.0 if area < 0.0 else 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _edges(corners, f, edges):
    """Fill edges[k] with edge k from a to b, and return the orientation of the face.

    Columns: a, u = b - a, 1 / |u|^2 (0 for a point), b, inward unit normal (0 for a point), and
    the indices of a and b.
    """
    sign = _orientation(corners, f)
    for k in range(corners.shape[1]):
        i, j = _edge_ends(corners, f, k)
        ax, ay, bx, by = corners[f, i, 0], corners[f, i, 1], corners[f, j, 0], corners[f, j, 1]
        ux, uy = bx - ax, by - ay
        square = ux * ux + uy * uy
        inverse = 1.0 / square if square > SHORTEST else 0.0
        inward = math.sqrt(inverse) * (sign if i == k else -sign)
        edges[k, 0], edges[k, 1], edges[k, 2], edges[k, 3] = ax, ay, ux, uy
        edges[k, 4], edges[k, 5], edges[k, 6] = inverse, bx, by
        edges[k, 7], edges[k, 8] = -uy * inward, ux * inward
        edges[k, 9], edges[k, 10] = i, j
    return sign


@njit(cache=True, nogil=True, error_model="numpy")
def _bounds(edges, sign, radius, width, side, bounds):
    """Where a row enters and leaves the reach of each edge, in columns, as affine functions of y.

    bounds[k] = (p, q, kind): columns x >= p + q y (kind 1) or x <= p + q y (kind -1) are at most
    the radius outside edge k; kind 0 says nothing.
    """
    for k in range(edges.shape[0]):
        bounds[k, 2] = 0.0
        nx, ny = edges[k, 7], edges[k, 8]
        if sign == 0.0 or radius > 1e18 or abs(nx) < 1e-6:
            continue
        # nx (x - ax) + ny (y - ay) >= -radius, with slack for the rounding of these lines
        ax, ay = edges[k, 0], edges[k, 1]
        slack = 1e-9 * (1.0 + abs(ax) + abs(ay))
        inverse = 0.5 * side / nx
        bounds[k, 0] = (ny * ay - radius - slack) * inverse + 0.5 * (ax * side + width - 1.0)
        bounds[k, 1] = -ny * inverse
        bounds[k, 2] = 1.0 if nx > 0.0 else -1.0


@njit(cache=True, nogil=True)
def _candidates(box, bounds, row_last, first_pixel, grid, cursor, xs, ys, pixels):
    """The next pixels, at most CHUNK, that can lie within the radius of a face; 0 at the end.

    `cursor` holds the row and the column to go on from.
    """
    grid_x, grid_y = grid
    width = len(grid_x)
    m = 0
    i, column = cursor[0], cursor[1]
    while i < row_last and m < CHUNK:
        y = grid_y[i]
        x0, x1 = _row_span(box, bounds, y)
        x0 = max(x0, column)
        stop = min(x1, x0 + CHUNK - m)
        base = first_pixel + i * width
        for x in range(x0, stop):
            xs[m] = grid_x[x]
            ys[m] = y
            pixels[m] = base + x
            m += 1
        if stop < x1:
            column = stop
        else:
            i, column = i + 1, 0
    cursor[0], cursor[1] = i, column
    return m


@njit(cache=True, nogil=True)
def _row_span(box, bounds, y):
    """First and last + 1 column of a row that can lie within the radius of the face.

    Within the face's box, every pixel inside the radius is at most that far outside each edge.
    """
    low, high = float(box[0]), float(box[1]) - 1.0
    for k in range(bounds.shape[0]):
        column = bounds[k, 0] + bounds[k, 1] * y
        if bounds[k, 2] > 0.0:
            low = max(low, np.ceil(column))
        elif bounds[k, 2] < 0.0:
            high = min(high, np.floor(column))
    if not low <= high:
        return 0, 0
    return int(low), int(high) + 1


@njit(cache=True, nogil=True, error_model="numpy")
def _distances(edges, sign, m, xs, ys, best, foot, nearest, distance):
    """Signed distance (positive inside) of m points to the convex face, and the nearest edge.

    A point is inside if it is on no edge's outer side and its nearest point is no corner; either
    alone can be fooled by the rounding of a sliver.
    """
    for i in range(m):
        best[i] = np.inf
        foot[i] = 0.0
        nearest[i] = 0
        distance[i] = 1.0 if sign != 0.0 else -1.0
    for k in range(edges.shape[0]):
        ax, ay, ux, uy = edges[k, 0], edges[k, 1], edges[k, 2], edges[k, 3]
        inverse, bx, by = edges[k, 4], edges[k, 5], edges[k, 6]
        nx, ny = edges[k, 7], edges[k, 8]
        for i in range(m):
            px, py = xs[i] - ax, ys[i] - ay
            t = min(max((px * ux + py * uy) * inverse, 0.0), 1.0)
            rx = px - t * ux if t < 1.0 else xs[i] - bx
            ry = py - t * uy if t < 1.0 else ys[i] - by
            square = rx * rx + ry * ry
            closer = square < best[i]
            best[i] = square if closer else best[i]
            foot[i] = t if closer else foot[i]
            nearest[i] = k if closer else nearest[i]
            outside = nx * px + ny * py < 0.0
            distance[i] = -1.0 if outside else distance[i]
    for i in range(m):
        inside = distance[i] > 0.0 and 0.0 < foot[i] < 1.0
        distance[i] = math.sqrt(best[i]) if inside else -math.sqrt(best[i])


@njit(cache=True, nogil=True)
def _scratch(corners):
    """Working memory of a walk: its state, edges, bounds, rows of `work`, pixels of a chunk.

    The rows of `work` are x, y, squared distance, foot, nearest edge and signed distance.
    """
    count = corners.shape[1]
    state = np.empty(4, np.int64)  # face, row, column, orientation of the face
    edges, bounds = np.empty((count, 11)), np.empty((count, 3))
    return state, edges, bounds, np.empty((6, CHUNK)), np.empty(CHUNK, np.int64)


# Inlined, because a call would count references to a dozen arrays for every face.
@njit(cache=True, nogil=True, inline="always")
def _next_chunk(corners, boxes, face_last, rows, image, radius, grid, scratch):
    """Walk on to the next pixels within reach of a face: returns the face and their number m.

    Faces come in order, the rows of a face in order. The first m entries of the scratch arrays
    hold the pixels and their distances; m = 0 ends the walk. Start with state = (face, -1, ...).
    """
    state, edges, bounds, work, pixels = scratch
    height, width = len(grid[1]), len(grid[0])
    while state[0] < face_last:
        f = state[0]
        row_last = min(boxes[f, 3], rows[1])
        if state[1] < 0:  # a face that the walk comes to
            state[1], state[2] = max(boxes[f, 2], rows[0]), 0
            if state[1] < row_last and boxes[f, 0] < boxes[f, 1]:
                orientation = _edges(corners, f, edges)
                _bounds(edges, orientation, radius, width, float(min(height, width)), bounds)
                state[3] = int(orientation)
            else:
                state[1] = row_last
        first_pixel = image * height * width
        m = _candidates(
            boxes[f], bounds, row_last, first_pixel, grid, state[1:3], work[0], work[1], pixels
        )
        if m > 0:
            _distances(
                edges, float(state[3]), m, work[0], work[1], work[2], work[3], work[4], work[5]
            )
            return f, m
        state[0], state[1] = f + 1, -1
    return state[0], 0


@njit(cache=True, nogil=True, error_model="numpy")
def _coverage(n, ds, image, square, art, reverse, cdf_address, shape, us, zs, cdf, sf):
    """Fill cdf and sf of n distances: the law is shifted, then reversed, then squared.

    `us` is the argument before shift and reversal: d, |d| d or d / |d|^art, over the scale.
    """
    scale, shift = image[SCALE], image[SHIFT]
    if square:
        for i in range(n):
            us[i] = abs(ds[i]) * ds[i] / scale
    elif art > 0.0:
        for i in range(n):
            us[i] = ds[i] / abs(ds[i]) ** art / scale if ds[i] != 0.0 else 0.0
    else:
        for i in range(n):
            us[i] = ds[i] / scale
    if reverse:
        for i in range(n):
            zs[i] = shift - us[i]
    else:
        for i in range(n):
            zs[i] = us[i] + shift
    call_cdf(cdf_address, pointer(zs), n, shape, pointer(cdf), pointer(sf))


# ---------------------------------------------------------------------------------------------
# Forward: totals per pixel
# ---------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _accumulate(n, ds, pixels, image, law, addresses, shape, cutoff, buffers, totals, ties):
    """Add a block of pairs of one image to the totals of their pixels."""
    reverse, square, idempotent = law[0] != 0, law[1] != 0, law[2] != 0
    us, zs, cdf, sf, g = buffers[0], buffers[1], buffers[2], buffers[3], buffers[4]
    _coverage(n, ds, image, square, shape[1], reverse, addresses[CDF], shape[0], us, zs, cdf, sf)
    a, s = (sf, cdf) if reverse else (cdf, sf)
    if idempotent:
        for i in range(n):
            if a[i] > cutoff and a[i] > totals[pixels[i]]:
                totals[pixels[i]], ties[pixels[i]] = a[i], 1
            elif a[i] > cutoff and a[i] == totals[pixels[i]]:
                ties[pixels[i]] += 1
        return
    call_generator(addresses[GENERATOR], pointer(a), pointer(s), n, image[FAMILY_P], pointer(g))
    for i in range(n):
        if a[i] > cutoff:
            totals[pixels[i]] += g[i]


@njit(cache=True, nogil=True)
def alpha_rows(
    corners, offsets, boxes, images, grid, law, addresses, shape, cutoff, totals, ties, start, stop
):
    """Fill `totals` (sum of generators, or maximum) of the pixels of rows start .. stop - 1."""
    height = len(grid[1])
    scratch = _scratch(corners)
    state, distance, chunk_pixels = scratch[0], scratch[3][5], scratch[4]
    ds, pixels, buffers = np.empty(BLOCK), np.empty(BLOCK, np.int64), np.empty((5, BLOCK))
    for b in range(start // height, (stop - 1) // height + 1):
        image, radius = images[b], images[b, RADIUS]
        rows = (max(start - b * height, 0), min(stop - b * height, height))
        state[0], state[1] = offsets[b], -1
        n = 0
        while True:
            _, m = _next_chunk(corners, boxes, offsets[b + 1], rows, b, radius, grid, scratch)
            if n > 0 and (m == 0 or n + m > BLOCK):
                _accumulate(
                    n, ds, pixels, image, law, addresses, shape, cutoff, buffers, totals, ties
                )
                n = 0
            if m == 0:
                break
            for k in range(m):
                if distance[k] >= -radius:
                    ds[n], pixels[n] = distance[k], chunk_pixels[k]
                    n += 1


# ---------------------------------------------------------------------------------------------
# Backward: gradients per face
# ---------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _feet(edges, m, xs, ys, foot, nearest, distance, feet, first):
    """How the distances of m points of a face change with its corners; rows first .. of `feet`.

    Columns: n = d(distance)/d(point), the parameter t of the nearest point on its edge a -> b, and
    the indices of a and b. d(distance)/da = -(1 - t) n and d(distance)/db = -t n (envelope
    theorem: t is optimal). On the boundary n is the inward normal of the edge.
    """
    for i in range(m):
        k = int(nearest[i])
        t, d = foot[i], distance[i]
        if d != 0.0:
            rx = xs[i] - edges[k, 0] - t * edges[k, 2] if t < 1.0 else xs[i] - edges[k, 5]
            ry = ys[i] - edges[k, 1] - t * edges[k, 3] if t < 1.0 else ys[i] - edges[k, 6]
            feet[first + i, 0], feet[first + i, 1] = rx / d, ry / d
        else:
            feet[first + i, 0], feet[first + i, 1] = edges[k, 7], edges[k, 8]
        feet[first + i, 2], feet[first + i, 3], feet[first + i, 4] = t, edges[k, 9], edges[k, 10]


@njit(cache=True, nogil=True)
def _move_corners(f, foot, grad, out):
    """Add the gradient of one distance to the corners of its face."""
    t, i, j = foot[2], int(foot[3]), int(foot[4])
    nx, ny = foot[0] * grad, foot[1] * grad
    out[f, i, 0] -= (1.0 - t) * nx
    out[f, i, 1] -= (1.0 - t) * ny
    out[f, j, 0] -= t * nx
    out[f, j, 1] -= t * ny


@njit(cache=True, nogil=True, error_model="numpy")
def _backpropagate(
    n, ds, pixels, faces, feet, image, law, addresses, shape, cutoff,
    pixel_grads, alphas, rests, ties, buffers, grad_corners, grad_scalars,
):  # fmt: skip
    """Add the gradients of a block of pairs of one image to their faces."""
    reverse, square, idempotent, scalars = law[0] != 0, law[1] != 0, law[2] != 0, law[3] != 0
    scale, art = image[SCALE], shape[1]
    us, zs, cdf, sf, pdf = buffers[0], buffers[1], buffers[2], buffers[3], buffers[4]
    weight, total, rest = buffers[5], buffers[6], buffers[7]
    _coverage(n, ds, image, square, art, reverse, addresses[CDF], shape[0], us, zs, cdf, sf)
    call_pdf(addresses[PDF], pointer(zs), n, shape[0], pointer(pdf))
    a, s = (sf, cdf) if reverse else (cdf, sf)
    if idempotent:
        for i in range(n):
            pixel = pixels[i]
            tied = a[i] > cutoff and a[i] == alphas[pixel]
            weight[i] = 1.0 / ties[pixel] if tied else 0.0
    else:
        for i in range(n):
            total[i], rest[i] = alphas[pixels[i]], rests[pixels[i]]
        call_weight(
            addresses[WEIGHT], pointer(a), pointer(s), pointer(total), pointer(rest), n,
            image[FAMILY_P], pointer(weight),
        )  # fmt: skip
    for i in range(n):
        grad_a = pixel_grads[pixels[i]] * weight[i]
        grad_z = grad_a * pdf[i]
        if grad_z == 0.0 or not a[i] > cutoff:
            continue
        d, f = ds[i], faces[i]
        if scalars:
            grad_scalars[f, GRAD_SCALE] -= grad_z * us[i] / scale
            grad_scalars[f, GRAD_SHIFT] += -grad_z if reverse else grad_z
        slope = 1.0 / scale
        if square:
            slope *= 2.0 * abs(d)
        elif art > 0.0:
            slope = slope * (1.0 - art) / abs(d) ** art if d != 0.0 else 0.0
        _move_corners(f, feet[i], grad_z * slope, grad_corners)
    if not scalars:
        return
    if addresses[DSHAPE] != 0:
        call_pdf(addresses[DSHAPE], pointer(zs), n, shape[0], pointer(pdf))
        for i in range(n):
            if a[i] > cutoff:
                change = pixel_grads[pixels[i]] * weight[i] * pdf[i]
                grad_scalars[faces[i], GRAD_SHAPE] += -change if reverse else change
    if addresses[WEIGHT_P] != 0:
        call_weight(
            addresses[WEIGHT_P], pointer(a), pointer(s), pointer(total), pointer(rest), n,
            image[FAMILY_P], pointer(weight),
        )  # fmt: skip
        for i in range(n):
            if a[i] > cutoff:
                grad_scalars[faces[i], GRAD_P] += pixel_grads[pixels[i]] * weight[i]


@njit(cache=True, nogil=True)
def backward_faces(
    corners, offsets, image_of_face, boxes, images, grid, law, addresses, shape, cutoff,
    pixel_grads, alphas, rests, ties, grad_corners, grad_scalars, start, stop,
):  # fmt: skip
    """Fill `grad_corners` and `grad_scalars` of the faces start .. stop - 1.

    `pixel_grads` is d(loss)/d(alpha), 0 for pixels that pass no gradient on.
    """
    scratch = _scratch(corners)
    state, edges, chunk_pixels = scratch[0], scratch[1], scratch[4]
    work = scratch[3]
    xs, ys, foot, nearest, distance = work[0], work[1], work[3], work[4], work[5]
    ds, pixels, faces = np.empty(BLOCK), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    feet, buffers = np.empty((BLOCK, 5)), np.empty((8, BLOCK))
    rows = (0, len(grid[1]))
    for b in range(image_of_face[start], image_of_face[stop - 1] + 1):
        radius = images[b, RADIUS]
        state[0], state[1] = max(start, offsets[b]), -1
        last = min(stop, offsets[b + 1])
        n = 0
        while True:
            f, m = _next_chunk(corners, boxes, last, rows, b, radius, grid, scratch)
            if n > 0 and (m == 0 or n + m > BLOCK):
                _backpropagate(
                    n, ds, pixels, faces, feet, images[b], law, addresses, shape, cutoff,
                    pixel_grads, alphas, rests, ties, buffers, grad_corners, grad_scalars,
                )  # fmt: skip
                n = 0
            if m == 0:
                break
            # Close ranks first: what is dropped here needs no foot.
            kept = 0
            for k in range(m):
                if distance[k] >= -radius and pixel_grads[chunk_pixels[k]] != 0.0:
                    xs[kept], ys[kept], foot[kept] = xs[k], ys[k], foot[k]
                    nearest[kept], distance[kept] = nearest[k], distance[k]
                    ds[n + kept], pixels[n + kept], faces[n + kept] = (
                        distance[k],
                        chunk_pixels[k],
                        f,
                    )
                    kept += 1
            _feet(edges, kept, xs, ys, foot, nearest, distance, feet, n)
            n += kept


# ---------------------------------------------------------------------------------------------
# Lists of pairs, and the nearest face
# ---------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def count_rows(corners, offsets, boxes, images, grid, counts, start, stop):
    """Bound the number of pairs of every row start .. stop - 1 from above."""
    height, width = len(grid[1]), len(grid[0])
    side = float(min(height, width))
    edges, bounds = np.empty((corners.shape[1], 11)), np.empty((corners.shape[1], 3))
    for b in range(start // height, (stop - 1) // height + 1):
        row_first, row_last = max(start - b * height, 0), min(stop - b * height, height)
        for f in range(offsets[b], offsets[b + 1]):
            first, last = max(boxes[f, 2], row_first), min(boxes[f, 3], row_last)
            if first >= last or boxes[f, 0] >= boxes[f, 1]:
                continue
            sign = _edges(corners, f, edges)
            _bounds(edges, sign, images[b, RADIUS], width, side, bounds)
            for i in range(first, last):
                x0, x1 = _row_span(boxes[f], bounds, grid[1][i])
                counts[b * height + i] += x1 - x0


@njit(cache=True, nogil=True)
def list_rows(corners, offsets, boxes, images, grid, pixels, faces, used, slots, start, stop):
    """List the pairs within the radius for rows start .. stop - 1, each row in its own slot.

    Row r of the range fills pixels and faces from slots[r - start] on; used[r - start] counts them.
    """
    height, width = len(grid[1]), len(grid[0])
    scratch = _scratch(corners)
    state, distance, chunk_pixels = scratch[0], scratch[3][5], scratch[4]
    for b in range(start // height, (stop - 1) // height + 1):
        radius = images[b, RADIUS]
        rows = (max(start - b * height, 0), min(stop - b * height, height))
        state[0], state[1] = offsets[b], -1
        while True:
            f, m = _next_chunk(corners, boxes, offsets[b + 1], rows, b, radius, grid, scratch)
            if m == 0:
                break
            for k in range(m):
                if distance[k] >= -radius:
                    row = chunk_pixels[k] // width - start
                    slot = slots[row] + used[row]
                    pixels[slot], faces[slot] = chunk_pixels[k], f
                    used[row] += 1


@njit(cache=True, nogil=True)
def nearest_rows(corners, offsets, boxes, images, grid, planes, limits, keys, face, start, stop):
    """The nearest face that covers each pixel of rows start .. stop - 1, -1 where there is none.

    planes[f] = (p, q, r): the key p x + q y + r grows towards the camera; it is clamped to
    limits[f, :2] and must reach limits[f, 2], the far plane. Ties go to the lower face.
    """
    height = len(grid[1])
    scratch = _scratch(corners)
    state, work, chunk_pixels = scratch[0], scratch[3], scratch[4]
    xs, ys, distance = work[0], work[1], work[5]
    for b in range(start // height, (stop - 1) // height + 1):
        rows = (max(start - b * height, 0), min(stop - b * height, height))
        state[0], state[1] = offsets[b], -1
        while True:
            f, m = _next_chunk(
                corners, boxes, offsets[b + 1], rows, b, images[b, RADIUS], grid, scratch
            )
            if m == 0:
                break
            if state[3] == 0:  # a face without area covers nothing
                continue
            for k in range(m):
                if not distance[k] >= 0.0:
                    continue
                key = planes[f, 0] * xs[k] + planes[f, 1] * ys[k] + planes[f, 2]
                key = min(max(key, limits[f, 0]), limits[f, 1])
                pixel = chunk_pixels[k]
                if key >= limits[f, 2] and (face[pixel] < 0 or key > keys[pixel]):
                    keys[pixel], face[pixel] = key, f


@njit(cache=True, nogil=True)
def pair_distances(corners, pixels, faces, grid, distance, feet, start, stop):
    """Signed distance of the listed pairs start .. stop - 1, and how it changes; see `_feet`."""
    height, width = len(grid[1]), len(grid[0])
    edges = np.empty((corners.shape[1], 11))
    work = np.empty((5, 1))
    xs, ys, best, foot, nearest = work[0], work[1], work[2], work[3], work[4]
    f, sign = -1, 0.0
    for k in range(start, stop):
        if faces[k] != f:
            f = faces[k]
            sign = _edges(corners, f, edges)
        xs[0], ys[0] = grid[0][pixels[k] % width], grid[1][(pixels[k] // width) % height]
        here = distance[k : k + 1]
        _distances(edges, sign, 1, xs, ys, best, foot, nearest, here)
        _feet(edges, 1, xs, ys, foot, nearest, here, feet, k)


@njit(cache=True, nogil=True)
def pair_gradients(faces, feet, grads, out):
    """Add the gradients of listed distances to the corners of their faces, in order."""
    for k in range(len(faces)):
        if grads[k] != 0.0:
            _move_corners(faces[k], feet[k], grads[k], out)


@njit(cache=True, nogil=True)
def scatter_rows(index, values, out):
    """out[index[k]] += values[k], in order."""
    for k in range(len(index)):
        for c in range(values.shape[1]):
            out[index[k], c] += values[k, c]
