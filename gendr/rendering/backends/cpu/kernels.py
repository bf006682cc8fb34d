"""The compiled kernels of the CPU backend.

Plain loops, compiled by Numba at first use and cached on disk. A kernel works on a range of units,
and no other thread writes to these, so that any number of threads gives the same bits:

- forward and listing: a unit is a run of pixel rows of the batch; faces are taken in order;
- backward: a unit is a run of faces; the rows of a face are taken in order.

All walk in the same way: `next_block` gathers the pixels near one face after the other into a block
of points and measures their distances; then a whole block goes through the distribution, the family
of T-conorms and the sums. How the points of a face are divided among blocks depends on that face
alone (in the backward pass, where its rows are not divided among threads): they may be summed in
vectors.

Distributions and families are compiled functions that are called by address, on blocks of pairs, so
that none of the kernels is compiled more than once. All arithmetic is float64.

Rows are numbered through all images: row = image * height + i. So are pixels.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math

import numpy as np

from gendr.kernels.numba.calls import (
    call_cdf,
    call_cdf_and_pdf,
    call_generator,
    call_pdf,
    call_weight,
    pointer,
    shifted,
)
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.mathematics import fma
from gendr.kernels.numba.vectors import LANES, lanewise, put_before, where, wide
from gendr.rendering.backends.cpu.records import AlphaRecords, FaceTables, Formulas

SHORTEST = 1e-300  # an edge with a smaller squared length counts as a point
# Pairs per call of a distribution: several arrays of this length fit in the L1 and L2 caches.
BLOCK = 512
# Points are written and measured in whole vectors of `LANES`, so that loops over the few pixels of
# a small face have no remainder, and blocks go through distributions in multiples of `WHOLE`. The
# arrays have room for the extra points, which are not used.
WHOLE = 16
STRIDE = BLOCK + WHOLE
# A block is one array of float64 and one of int64; these are the offsets of their columns. As they
# are constant offsets from one address, LLVM knows that the columns do not overlap; checking this
# at run time would take longer than many of the loops.
X, Y, DISTANCE, _GAP_X, _GAP_Y, _FOOT, _ENDS, _LOW, _HIGH = (k * STRIDE for k in range(9))
_POINTS = 9 * STRIDE
# The runs of pixels next to each other in a row: where one begins in the block, its first pixel.
# The parts of a block that belong to one face each: where one begins, and its face. One more
# beginning is the end of the last. How many there are is told by the cursor.
RUN, RUN_PIXEL, PART, PART_FACE = (k * STRIDE for k in range(4))
_INDICES = 4 * STRIDE
RUNS, PARTS = 3, 4
_ROWS = 64  # of a face whose spans are computed at once
# Columns of the float64 table with one row per image, see `Tables.images` in tables.py.
SCALE, SHIFT, RADIUS, FAMILY_P = 0, 1, 2, 3
IMAGE_COLUMNS = 4
# Columns of the per-face gradient table: the scalars of the face's image.
GRAD_SCALE, GRAD_SHIFT, GRAD_SHAPE, GRAD_P = 0, 1, 2, 3
GRAD_COLUMNS = 4
# `tables` is a `FaceTables`, `formulas` a `Formulas`, of records.py. Kernels are given them as
# plain tuples: Numba finds the types of these without Python.


# ---------------------------------------------------------------------------------------------
# Geometry
# ---------------------------------------------------------------------------------------------


@inner()
def face_orientation(corners, f):
    """+1 for a counterclockwise face, -1 for a clockwise one, 0 for one without area."""
    area = 0.0
    ox, oy = corners[f, 0, 0], corners[f, 0, 1]
    for k in range(1, corners.shape[1] - 1):
        area += (corners[f, k, 0] - ox) * (corners[f, k + 1, 1] - oy)
        area -= (corners[f, k, 1] - oy) * (corners[f, k + 1, 0] - ox)
    return 1.0 if area > 0.0 else (-1.0 if area < 0.0 else 0.0)


# An edge is a tuple of numbers, not a row of an array, so that it stays in registers. It holds
# the ends a and b; u = b - a; 1 / |u|^2 (0 for a point); the inward unit normal (0 for a point);
# and 4 i + j, where a and b are the corners i and j of the face.


@inner()
def _is_turned(corners, f, k, n):
    """Whether an edge goes from corner n to corner k."""
    ax, ay, bx, by = corners[f, k, 0], corners[f, k, 1], corners[f, n, 0], corners[f, n, 1]
    return (bx < ax) | ((bx == ax) & (by < ay))


@inner()
def _ends(corners, f, k):
    """The corners between which edge k goes, in its direction."""
    n = k + 1 if k + 1 < corners.shape[1] else 0
    return (n, k) if _is_turned(corners, f, k, n) else (k, n)


@inner()
def _edge(corners, f, k, orientation):
    """Edge k of a face, from its lexicographically smaller end to the other.

    Because of this order an edge that two faces share gives both exactly the same distance, so that
    their coverages tie.
    """
    n = k + 1 if k + 1 < corners.shape[1] else 0
    ax, ay, bx, by = corners[f, k, 0], corners[f, k, 1], corners[f, n, 0], corners[f, n, 1]
    flip = _is_turned(corners, f, k, n)
    ax, bx = (bx, ax) if flip else (ax, bx)
    ay, by = (by, ay) if flip else (ay, by)
    ux, uy = bx - ax, by - ay
    square = ux * ux + uy * uy
    inverse = 1.0 / square if square > SHORTEST else 0.0
    inward = math.sqrt(inverse) * (-orientation if flip else orientation)
    ends = 4.0 * n + k if flip else 4.0 * k + n
    return ax, ay, bx, by, ux, uy, inverse, -uy * inward, ux * inward, ends


@inner()
def face_edges(corners, f, orientation):
    """The four edges of a face; for a triangle the fourth repeats the third."""
    third = _edge(corners, f, 2, orientation)
    return (
        _edge(corners, f, 0, orientation),
        _edge(corners, f, 1, orientation),
        third,
        _edge(corners, f, 3, orientation) if corners.shape[1] == 4 else third,
    )


@inner()
def _bounds(edges, k, radius, width, side):
    """The columns (p, q, r, s) between which a row is at most the radius outside edge k.

    That is p + q y <= column <= r + s y, where one of p and r is infinite.
    """
    ax, ay, nx, ny = edges[k][0], edges[k][1], edges[k][7], edges[k][8]
    beyond = 0.0  # how far corners are outside: rounding of a cut face may turn it inside out
    for m in (0, 2):
        for n in (0, 2):
            beyond = max(beyond, nx * (ax - edges[m][n]) + ny * (ay - edges[m][n + 1]))
    # From nx (x - ax) + ny (y - ay) >= -radius, with slack for the rounding of these lines.
    slack = 1e-9 * (1.0 + abs(ax) + abs(ay)) + beyond
    inverse = 0.5 * side / nx
    column = (ny * ay - radius - slack) * inverse + 0.5 * (ax * side + width - 1.0)
    slope = -ny * inverse
    says = (radius < 1e18) & (abs(nx) > 1e-6)
    low, high = says & (nx > 0.0), says & (nx < 0.0)
    return (
        column if low else -np.inf,
        slope if low else 0.0,
        column if high else np.inf,
        slope if high else 0.0,
    )


@inner()
def face_bounds(edges, radius, width, side):
    """The `_bounds` of the four edges of a face."""
    return (
        _bounds(edges, 0, radius, width, side),
        _bounds(edges, 1, radius, width, side),
        _bounds(edges, 2, radius, width, side),
        _bounds(edges, 3, radius, width, side),
    )


@inner()
def _disc(corners, f, radius, width, side):
    """A disc that holds all within the radius of a face: column and y of its centre; its radius.

    That is squared, and there is how many columns a length of 1 has.
    """
    count = corners.shape[1]
    share = 0.25 if count == 4 else 1.0 / 3.0
    x, y, size, far = 0.0, 0.0, 0.0, 0.0
    for k in range(count):
        x, y = x + corners[f, k, 0] * share, y + corners[f, k, 1] * share
    for k in range(count):
        dx, dy = corners[f, k, 0] - x, corners[f, k, 1] - y
        size, far = max(size, dx * dx + dy * dy), max(far, abs(x) + abs(y))
    reach = (radius + math.sqrt(size)) * (1.0 + 1e-9) + 1e-9 * (1.0 + far)
    if not reach < 1e18:
        return 0.0, 0.0, np.inf, 1.0
    return 0.5 * (x * side + width - 1.0), y, reach * reach, 0.5 * side


@inner()
def _spans(points, ys, count, first, last, bounds, disc):
    """Fill in the first column of some rows, and one past the last, as floats; see `row_span`.

    Rows are also limited to a disc, which is much less for a small face and a large radius.
    """
    wide()
    column, middle, square, per_length = disc
    least, most = float(first), float(last) - 1.0
    for i in range(count):
        y = ys[i]
        low, high = least, most
        for p, q, r, s in bounds:
            enter, leave = p + q * y, r + s * y
            low = enter if enter > low else low
            high = leave if leave < high else high
        rest = square - (y - middle) * (y - middle)
        half = per_length * math.sqrt(rest if rest > 0.0 else 0.0)
        enter, leave = column - half, column + half
        low = enter if enter > low else low
        high = leave if leave < high else high
        low, high = np.ceil(low), np.floor(high)
        points[_LOW + i] = low if low < most + 1.0 else most + 1.0
        points[_HIGH + i] = (high if high > least - 1.0 else least - 1.0) + 1.0


@inner()
def row_span(first, last, bounds, y):
    """The first column, and one past the last, of a row that can be within the radius of a face.

    A pixel within the radius of the face is at most that far outside each edge; columns are also
    limited to the box of the face. The span is empty if its first column is not below its end.
    """
    low, high = float(first), float(last)
    for p, q, r, s in bounds:
        enter, leave = np.ceil(p + q * y), np.floor(r + s * y) + 1.0
        low = enter if enter > low else low
        high = leave if leave < high else high
    return int(low), int(high)


@inner()
def _nearer(x, y, edge, best):
    """Compare the nearest point so far with that of another edge, and return the nearer one.

    `best` holds, for the nearest point so far: the squared distance to it, the vector from it to
    (x, y), its parameter t on its edge, and the ends of that edge; and whether (x, y) is on the
    inner side of all edges so far.
    """
    ax, ay, bx, by, ux, uy, inverse, nx, ny, ends = edge
    square, gap_x, gap_y, foot, nearest, inside = best
    px, py = x - ax, y - ay
    t = fma(px, ux, py * uy) * inverse
    t = t if t > 0.0 else 0.0
    t = t if t < 1.0 else 1.0
    rx = fma(-t, ux, px) if t < 1.0 else x - bx
    ry = fma(-t, uy, py) if t < 1.0 else y - by
    here = fma(rx, rx, ry * ry)
    closer = here < square
    return (
        here if closer else square,
        rx if closer else gap_x,
        ry if closer else gap_y,
        t if closer else foot,
        ends if closer else nearest,
        inside & (fma(nx, px, ny * py) >= 0.0),
    )


@inner()
def _nearest(x, y, edges, quad, solid):
    """Signed distance (positive inside) to a convex face, gap, parameter, ends; see `_nearer`.

    A point is inside if it is on the outer side of no edge and its nearest point is no corner. For
    very thin faces rounding can make either test alone wrong. A face that is not `solid` has no
    inside.
    """
    best = _nearer(x, y, edges[0], (np.inf, 0.0, 0.0, 0.0, 0.0, solid))
    best = _nearer(x, y, edges[2], _nearer(x, y, edges[1], best))
    if quad:
        best = _nearer(x, y, edges[3], best)
    square, gap_x, gap_y, t, ends, inside = best
    distance = math.sqrt(square)
    inside = inside & (t > 0.0) & (t < 1.0)
    return distance if inside else -distance, gap_x, gap_y, t, ends


@inner()
def _measure(points, start, stop, edges, quad, solid):
    """Fill in the distances of the points start .. stop - 1 of a block, all near the same face."""
    wide()
    for i in range(start, stop):
        distance, gap_x, gap_y, t, ends = _nearest(points[X + i], points[Y + i], edges, quad, solid)
        points[DISTANCE + i] = distance
        points[_GAP_X + i], points[_GAP_Y + i] = gap_x, gap_y
        points[_FOOT + i], points[_ENDS + i] = t, ends


@inner()
def measure_distances(points, stop, edges, quad, solid):
    """Fill in the distances alone of the first points of a block, all near the same face."""
    wide()
    for i in range(stop):
        points[DISTANCE + i] = _nearest(points[X + i], points[Y + i], edges, quad, solid)[0]


# ---------------------------------------------------------------------------------------------
# The walk over faces and pixels
# ---------------------------------------------------------------------------------------------


@inner()
def extent(grid):
    """Height and width of an image; see `pixel_grid` in tables.py."""
    return len(grid[1]) - LANES, len(grid[0]) - LANES


@inner()
def begin_walk(block, face):
    """Make the next walk with this block begin at this face."""
    cursor = block[0]
    cursor[0], cursor[1], cursor[2] = face, 0, 0


@inner()
def new_block():
    """The memory of a walk.

    The face, row and column to continue at, and how many runs and parts there are; points; runs and
    parts.
    """
    return np.zeros(5, np.int64), np.zeros(_POINTS), np.zeros(_INDICES, np.int64)


@lanewise
def _store(points, n, xs, x, y):
    """Write points of a row, from column x on, to the n-th and next places."""
    points[n + X], points[n + Y] = xs[x], y


@inner()
def next_block(tables, face_last, rows, image, block, slopes):
    """Gather the next pixels within reach of faces and measure their distances.

    Returns the number of pixels; 0 at the end of the walk. Faces are visited in order, and so are
    the rows of a face. Some pixels are a little farther away than the radius. Unless there are
    `slopes`, a constant, only distances are measured.
    """
    corners, boxes, radius = tables.corners, tables.boxes, tables.images[image, RADIUS]
    cursor, points, indices = block[0], pointer(block[1]), pointer(block[2])
    xs, ys = pointer(tables.grid[0]), pointer(tables.grid[1])
    height, width = extent(tables.grid)
    side, quad = float(min(height, width)), corners.shape[1] == 4
    f, row, column = cursor[0], cursor[1], cursor[2]
    n, runs, parts = 0, 0, 0
    while f < face_last and n < BLOCK:
        x_first, x_last = boxes[f, 0], boxes[f, 1]
        row, row_last = max(row, boxes[f, 2], rows[0]), min(boxes[f, 3], rows[1])
        if row >= row_last or x_first >= x_last:
            f, row, column = f + 1, 0, 0
            continue
        # What may not fit begins the next block: the sums of a face do not depend on others.
        if n > 0 and (row_last - row) * (x_last - x_first) > BLOCK - n:
            break
        orientation = face_orientation(corners, f)
        edges = face_edges(corners, f, orientation)
        bounds = face_bounds(edges, radius, width, side)
        disc = _disc(corners, f, radius, width, side)
        start = n
        while row < row_last and n < BLOCK:
            count = min(row_last - row, _ROWS)
            whole = (count + LANES - 1) // LANES * LANES
            _spans(points, shifted(ys, row), whole, x_first, x_last, bounds, disc)
            for i in range(count):
                first, last = int(points[_LOW + i]), int(points[_HIGH + i])
                first = max(first, column)
                stop = min(last, first + BLOCK - n)
                if first < stop:
                    indices[RUN + runs] = n
                    indices[RUN_PIXEL + runs] = (image * height + row) * width + first
                    runs += 1
                    for x in range(first, stop, LANES):
                        _store(points, n + x - first, xs, x, ys[row])
                    n += stop - first
                if stop < last:
                    column = stop
                    break
                row, column = row + 1, 0
        whole = start + (n - start + LANES - 1) // LANES * LANES
        solid = orientation != 0.0
        # Constants in each branch: triangles have no fourth edge to measure.
        if slopes:
            if quad:
                _measure(points, start, whole, edges, True, solid)
            else:
                _measure(points, start, whole, edges, False, solid)
        elif quad:
            measure_distances(shifted(points, start), whole - start, edges, True, solid)
        else:
            measure_distances(shifted(points, start), whole - start, edges, False, solid)
        if n > start:
            indices[PART + parts], indices[PART_FACE + parts] = start, f
            parts += 1
        if row == row_last:
            f, row, column = f + 1, 0, 0
    indices[RUN + runs], indices[PART + parts] = n, n
    cursor[0], cursor[1], cursor[2], cursor[RUNS], cursor[PARTS] = f, row, column, runs, parts
    return n


@inner()
def padded(n):
    """The number of points up to the end of the last vector."""
    return (n + WHOLE - 1) // WHOLE * WHOLE


@lanewise
def _copy(out, i, sources, pixel):
    for k, values in enumerate(sources):
        out[i + k * STRIDE] = values[pixel]


@lanewise
def _add(out, i, values, j, count, end):
    value = values[j]
    put_before(end, i, count, (out, out[i] + where(value.before(count), value, 0.0)))


@inner()
def gather(block, sources, out):
    """Copy what the pixels of a block hold from each source into a column; the first is at `out`.

    Up to `LANES` - 1 values behind those of a run are read and written.
    """
    indices = block[2]
    for k in range(block[0][RUNS]):
        first, pixel = indices[RUN + k], indices[RUN_PIXEL + k]
        for i in range(0, indices[RUN + k + 1] - first, LANES):
            _copy(out, first + i, sources, pixel + i)


@inner()
def scatter(block, values, out, end):
    """Add the values of a block to those of their pixels; other threads write those from `end`."""
    indices = block[2]
    for k in range(block[0][RUNS]):
        first, pixel = indices[RUN + k], indices[RUN_PIXEL + k]
        count = indices[RUN + k + 1] - first
        for i in range(0, count, LANES):
            _add(out, pixel + i, values, first + i, count - i, end)


@inner()
def _inverse(scale):
    """One over a scale, and finite: that of a subnormal one would make NaN of a distance of 0."""
    return min(1.0 / scale, 1.7976931348623157e308)


@inner()
def argument(n, ds, image, formulas, us, zs):
    """Fill in the arguments of a distribution of n distances.

    `us` gets the argument before shift and reversal: d, |d| d or d / |d|^art, divided by the scale;
    `zs` gets the argument of the distribution.
    """
    wide()
    inverse, shift, art = _inverse(image[SCALE]), image[SHIFT], formulas.art
    if formulas.squared:
        for i in range(n):
            us[i] = abs(ds[i]) * ds[i] * inverse
    elif art > 0.0:
        for i in range(n):
            us[i] = ds[i] / abs(ds[i]) ** art * inverse if ds[i] != 0.0 else 0.0
    else:
        for i in range(n):
            us[i] = ds[i] * inverse
    if formulas.reversed:
        for i in range(n):
            zs[i] = shift - us[i]
    else:
        for i in range(n):
            zs[i] = us[i] + shift


@inner()
def coverage(n, ds, image, formulas, us, zs, cdf, sf):
    """Fill in cdf and sf of n distances, with all transforms, and the arguments."""
    argument(n, ds, image, formulas, us, zs)
    call_cdf(formulas.cdf, pointer(zs), n, formulas.shape, pointer(cdf), pointer(sf))


@inner()
def coverage_and_density(n, ds, image, formulas, us, zs, cdf, sf, pdf):
    """Fill in cdf, sf and pdf of n distances, and the arguments of the distribution."""
    argument(n, ds, image, formulas, us, zs)
    call_cdf_and_pdf(
        formulas.cdf_and_pdf,
        pointer(zs),
        n,
        formulas.shape,
        pointer(cdf),
        pointer(sf),
        pointer(pdf),
    )


# ---------------------------------------------------------------------------------------------
# Forward: totals per pixel
# ---------------------------------------------------------------------------------------------


@inner()
def _raise(block, a, cutoff, totals, ties):
    """Raise the maximum of the pixels of a block, and count how many faces reach it."""
    indices = block[2]
    for k in range(block[0][RUNS]):
        first = indices[RUN + k]
        for i in range(first, indices[RUN + k + 1]):
            pixel = indices[RUN_PIXEL + k] + i - first
            if a[i] > cutoff and a[i] > totals[pixel]:
                totals[pixel], ties[pixel] = a[i], 1
            elif a[i] > cutoff and a[i] == totals[pixel]:
                ties[pixel] += 1


@inner()
def _accumulate(n, block, image, formulas, buffers, totals, ties, end):
    """Add the generators of a block of pairs, of one image, to the totals of their pixels."""
    wide()
    us, zs, cdf, sf, g = buffers[0], buffers[1], buffers[2], buffers[3], buffers[4]
    coverage(n, block[1][DISTANCE:], image, formulas, us, zs, cdf, sf)
    a, s = (sf, cdf) if formulas.reversed else (cdf, sf)
    if formulas.idempotent:
        _raise(block, a, formulas.cutoff, totals, ties)
        return
    call_generator(formulas.generator, pointer(a), pointer(s), n, image[FAMILY_P], pointer(g))
    for i in range(n):
        g[i] = g[i] if a[i] > formulas.cutoff else 0.0
    scatter(block, g, totals, end)


@kernel()
def alpha_rows(arrays, formulas, totals, ties, start, stop):
    """Fill in `totals` (sum of generators, or maximum) for the pixels of rows start .. stop - 1.

    Candidates beyond the radius need no test, because their F is below the cutoff.
    """
    tables, formulas = FaceTables(*arrays), Formulas(*formulas)
    height, width = extent(tables.grid)
    images, offsets = tables.images, tables.offsets
    block, buffers = new_block(), np.zeros((5, STRIDE))
    for b in range(start // height, (stop - 1) // height + 1):
        rows = (max(start - b * height, 0), min(stop - b * height, height))
        begin_walk(block, offsets[b])
        while True:
            n = next_block(tables, offsets[b + 1], rows, b, block, False)
            if n == 0:
                break
            _accumulate(
                padded(n), block, images[b], formulas, buffers, totals, ties, stop * width
            )  # fmt: skip


# ---------------------------------------------------------------------------------------------
# Backward: gradients per face
# ---------------------------------------------------------------------------------------------


@inner()
def _edge_normal(corners, f, ends):
    """The inward normal of an edge of a face; `ends` encodes the edge."""
    for edge in face_edges(corners, f, face_orientation(corners, f)):
        if edge[9] == ends:
            return edge[7], edge[8]
    return 0.0, 0.0


@inner()
def _move_ends(f, ends, t, dx, dy, out):
    """Add the gradient of one distance to the ends a and b of the nearest edge.

    (dx, dy) is the gradient with respect to the point: the unit vector n times the gradient of the
    distance. As t is optimal, the envelope theorem gives a the part t - 1 of it, and b the part -t.
    """
    i, j = int(ends) >> 2, int(ends) & 3
    out[f, i, 0] -= (1.0 - t) * dx
    out[f, i, 1] -= (1.0 - t) * dy
    out[f, j, 0] -= t * dx
    out[f, j, 1] -= t * dy


def _sums_of_edges(count):
    """A step of the sums of the gradients of points, by the edges that they are nearest to."""

    def step(i, left, points, codes, sums):
        ends, t = points[i + _ENDS], points[i + _FOOT]
        dx, dy = points[i + _GAP_X], points[i + _GAP_Y]
        dx, dy = where(dx.before(left), dx, 0.0), where(dy.before(left), dy, 0.0)
        for k in range(count):
            here = ends.equals(codes[k])
            for j, value in enumerate((dx, dy, t * dx, t * dy)):
                place = (4 * k + j) * LANES
                sums[place] = sums[place] + where(here, value, 0.0)

    return lanewise(step)


_add_to_three, _add_to_four = _sums_of_edges(3), _sums_of_edges(4)


@lanewise
def _fold(sums, i, out, j):
    out.put(j, sums[i].sum())


@inner()
def move_face(f, start, stop, points, corners, sums, out):
    """Add the gradients of the points start .. stop - 1 to the corners of their face, at `out`.

    Of the gradient (dx, dy) of a point the ends of the nearest edge get 1 - t and t, see
    `_move_ends`. `sums` [16 LANES] is scratch.
    """
    count = corners.shape[1]
    a, b, c = _ends(corners, f, 0), _ends(corners, f, 1), _ends(corners, f, 2)
    d = _ends(corners, f, 3) if count == 4 else c
    codes = (
        float(4 * a[0] + a[1]), float(4 * b[0] + b[1]), float(4 * c[0] + c[1]),
        float(4 * d[0] + d[1]),
    )  # fmt: skip
    for i in range(4 * count * LANES):
        sums[i] = 0.0
    for i in range(start, stop, LANES):
        if count == 4:
            _add_to_four(i, stop - i, points, codes, sums)
        else:
            _add_to_three(i, stop - i, points, codes, sums)
    for i in range(4 * count):
        _fold(sums, i * LANES, sums, i)
    for k in range(count):
        i, j = _ends(corners, f, k)
        x, y, tx, ty = sums[4 * k], sums[4 * k + 1], sums[4 * k + 2], sums[4 * k + 3]
        out[2 * i] -= x - tx
        out[2 * i + 1] -= y - ty
        out[2 * j] -= tx
        out[2 * j + 1] -= ty


@inner()
def turn_gaps(n, points, grad_d):
    """Make of gaps the gradients of points; return how many points are on an edge.

    The gradient of the distance with respect to the point is gap / distance, or where both are 0
    what `turn_on_edges` makes of it.
    """
    wide()
    on_edges = 0
    for i in range(n):
        d = points[DISTANCE + i]
        factor = grad_d[i] / d
        on_edges += d == 0.0
        points[_GAP_X + i] *= factor
        points[_GAP_Y + i] *= factor
    return on_edges


@inner()
def turn_on_edges(f, start, stop, points, grad_d, corners):
    """The same for the points on an edge of their face: the inward normal takes the place."""
    for i in range(start, stop):
        if points[DISTANCE + i] == 0.0:
            nx, ny = _edge_normal(corners, f, points[_ENDS + i])
            points[_GAP_X + i], points[_GAP_Y + i] = nx * grad_d[i], ny * grad_d[i]


@inner()
def move_corners(n, block, corners, grad_d, sums, out):
    """Add the gradients of a block of distances to the corners of their faces; overwrites gaps."""
    points, indices, parts = pointer(block[1]), block[2], block[0][PARTS]
    on_edges = turn_gaps(padded(n), points, grad_d)
    for k in range(parts):
        f, start, stop = indices[PART_FACE + k], indices[PART + k], indices[PART + k + 1]
        if on_edges > 0:
            turn_on_edges(f, start, stop, points, grad_d, corners)
        place = shifted(pointer(out), f * corners.shape[1] * 2)
        move_face(f, start, stop, points, corners, sums, place)


@inner()
def through_argument(n, ds, scale, formulas, grad_u, grad_d):
    """Turn gradients of the argument u (see `coverage`) into gradients of the distance."""
    wide()
    art, inverse = formulas.art, _inverse(scale)
    if formulas.squared:
        for i in range(n):
            grad_d[i] = grad_u[i] * 2.0 * abs(ds[i]) * inverse
    elif art > 0.0:
        for i in range(n):
            slope = (1.0 - art) / abs(ds[i]) ** art * inverse if ds[i] != 0.0 else 0.0
            grad_d[i] = grad_u[i] * slope
    else:
        for i in range(n):
            grad_d[i] = grad_u[i] * inverse


@inner()
def add_distribution_scalars(n, block, image, formulas, us, zs, grad_a, grad_z, dshape, out):
    """Add the gradients of scale, shift and shape of a block of pairs to their faces.

    `grad_a` is the gradient of the coverage, `grad_z` that of the distribution's argument.
    Overwrites `dshape`.
    """
    sign, indices = -1.0 if formulas.reversed else 1.0, block[2]
    if formulas.dshape != 0:
        call_pdf(formulas.dshape, pointer(zs), n, formulas.shape, pointer(dshape))
    for k in range(block[0][PARTS]):
        f = indices[PART_FACE + k]
        for i in range(indices[PART + k], indices[PART + k + 1]):
            out[f, GRAD_SCALE] -= grad_z[i] * us[i] / image[SCALE]
            out[f, GRAD_SHIFT] += sign * grad_z[i]
            if formulas.dshape != 0:
                out[f, GRAD_SHAPE] += sign * grad_a[i] * dshape[i]


@inner()
def _add_scalars(n, block, image, formulas, buffers, out):
    """Add the gradients of the scalars of a block of pairs, from what `_backpropagate` left.

    Overwrites pdf and weight in `buffers`.
    """
    us, zs, cdf, sf, pdf = buffers[0], buffers[1], buffers[2], buffers[3], buffers[4]
    weight, total, rest = buffers[5], buffers[6], buffers[7]
    on_alpha, grad_z, grad_a, indices = buffers[8], buffers[9], buffers[11], block[2]
    add_distribution_scalars(n, block, image, formulas, us, zs, grad_a, grad_z, pdf, out)
    if formulas.weight_p != 0:
        a, s = (sf, cdf) if formulas.reversed else (cdf, sf)
        call_weight(
            formulas.weight_p, pointer(a), pointer(s), pointer(total), pointer(rest), n,
            image[FAMILY_P], pointer(weight),
        )  # fmt: skip
        for k in range(block[0][PARTS]):
            for i in range(indices[PART + k], indices[PART + k + 1]):
                out[indices[PART_FACE + k], GRAD_P] += on_alpha[i] * weight[i]


@inner()
def _share_ties(block, a, cutoff, total, ties, weight):
    """The weights of the maximum, which those share that reach it."""
    indices = block[2]
    for k in range(block[0][RUNS]):
        first = indices[RUN + k]
        for i in range(first, indices[RUN + k + 1]):
            count = ties[indices[RUN_PIXEL + k] + i - first]
            weight[i] = 1.0 / count if a[i] == total[i] and a[i] > cutoff else 0.0


@inner()
def _backpropagate(
    n, block, corners, image, formulas, rendered, buffers, grad_corners, grad_scalars
):
    """Add the gradients of a block of pairs of one image to their faces."""
    wide()
    cutoff, points = formulas.cutoff, block[1]
    ds, count = points[DISTANCE:], padded(n)
    us, zs, cdf, sf, pdf = buffers[0], buffers[1], buffers[2], buffers[3], buffers[4]
    weight, total, rest, on_alpha = buffers[5], buffers[6], buffers[7], buffers[8]
    grad_z, grad_d, grad_a = buffers[9], buffers[10], buffers[11]
    coverage_and_density(count, ds, image, formulas, us, zs, cdf, sf, pdf)
    a, s = (sf, cdf) if formulas.reversed else (cdf, sf)
    gather(
        block, (pointer(rendered.alpha), pointer(rendered.rest), pointer(rendered.grad)),
        pointer(total)
    )  # fmt: skip
    if formulas.idempotent:
        _share_ties(block, a, cutoff, total, rendered.ties, weight)
    else:
        call_weight(
            formulas.weight, pointer(a), pointer(s), pointer(total), pointer(rest), count,
            image[FAMILY_P], pointer(weight),
        )  # fmt: skip
    for i in range(count):
        on_alpha[i] = on_alpha[i] if a[i] > cutoff else 0.0
        grad_a[i] = on_alpha[i] * weight[i]
        grad_z[i] = grad_a[i] * pdf[i]
    through_argument(count, ds, image[SCALE], formulas, grad_z, grad_d)
    move_corners(n, block, corners, grad_d, buffers[12], grad_corners)
    if formulas.scalars:
        _add_scalars(n, block, image, formulas, buffers, grad_scalars)


@kernel()
def backward_faces(arrays, formulas, pixel_arrays, grad_corners, grad_scalars, start, stop):
    """Fill in `grad_corners` and `grad_scalars` for the faces start .. stop - 1.

    `pixel_arrays` is a `AlphaRecords` of records.py.
    """
    tables, formulas = FaceTables(*arrays), Formulas(*formulas)
    rendered = AlphaRecords(*pixel_arrays)
    offsets, image_of_face = tables.offsets, tables.image_of_face
    block, buffers = new_block(), np.zeros((13, STRIDE))
    rows = (0, extent(tables.grid)[0])
    for b in range(image_of_face[start], image_of_face[stop - 1] + 1):
        last = min(stop, offsets[b + 1])
        begin_walk(block, max(start, offsets[b]))
        while True:
            n = next_block(tables, last, rows, b, block, True)
            if n == 0:
                break
            _backpropagate(
                n, block, tables.corners, tables.images[b], formulas, rendered, buffers,
                grad_corners, grad_scalars,
            )  # fmt: skip


# ---------------------------------------------------------------------------------------------
# Lists of pairs
# ---------------------------------------------------------------------------------------------


@kernel()
def count_rows(arrays, counts, start, stop):
    """Fill in an upper bound of the number of pairs for every row start .. stop - 1."""
    tables = FaceTables(*arrays)
    corners, offsets, boxes, grid = tables.corners, tables.offsets, tables.boxes, tables.grid
    height, width = extent(grid)
    side = float(min(height, width))
    for b in range(start // height, (stop - 1) // height + 1):
        row_first, row_last = max(start - b * height, 0), min(stop - b * height, height)
        for f in range(offsets[b], offsets[b + 1]):
            first, last = max(boxes[f, 2], row_first), min(boxes[f, 3], row_last)
            if first >= last or boxes[f, 0] >= boxes[f, 1]:
                continue
            edges = face_edges(corners, f, face_orientation(corners, f))
            bounds = face_bounds(edges, tables.images[b, RADIUS], width, side)
            for i in range(first, last):
                x0, x1 = row_span(boxes[f, 0], boxes[f, 1], bounds, grid[1][i])
                counts[b * height + i] += max(x1 - x0, 0)


@kernel()
def list_rows(arrays, pixels, faces, used, slots, start, stop):
    """List the pairs within the radius for rows start .. stop - 1, each row in its own slot.

    Row r writes to `pixels` and `faces` from slots[r - start] on; used[r - start] is their number.
    """
    tables = FaceTables(*arrays)
    height, width = extent(tables.grid)
    offsets, block = tables.offsets, new_block()
    distances, cursor, indices = block[1][DISTANCE:], block[0], block[2]
    for b in range(start // height, (stop - 1) // height + 1):
        radius = tables.images[b, RADIUS]
        rows = (max(start - b * height, 0), min(stop - b * height, height))
        begin_walk(block, offsets[b])
        while True:
            n = next_block(tables, offsets[b + 1], rows, b, block, False)
            if n == 0:
                break
            part = 0
            for r in range(cursor[RUNS]):
                first = indices[RUN + r]
                while indices[PART + part + 1] <= first:
                    part += 1
                pixel = indices[RUN_PIXEL + r]
                line = pixel // width - start
                for k in range(first, indices[RUN + r + 1]):
                    if distances[k] >= -radius:
                        slot = slots[line] + used[line]
                        pixels[slot], faces[slot] = pixel + k - first, indices[PART_FACE + part]
                        used[line] += 1


@kernel()
def pair_distances(corners, pixels, faces, grid, distances, feet, start, stop):
    """Signed distances of the listed pairs start .. stop - 1, and what their gradients need.

    Columns of `feet`: n = d(distance)/d(point), the parameter t on the nearest edge, its ends.
    """
    height, width = extent(grid)
    quad = corners.shape[1] == 4
    f = faces[start]
    orientation = face_orientation(corners, f)
    edges = face_edges(corners, f, orientation)
    for k in range(start, stop):
        if faces[k] != f:
            f = faces[k]
            orientation = face_orientation(corners, f)
            edges = face_edges(corners, f, orientation)
        x, y = grid[0][pixels[k] % width], grid[1][(pixels[k] // width) % height]
        distance, gap_x, gap_y, t, ends = _nearest(x, y, edges, quad, orientation != 0.0)
        distances[k] = distance
        if distance != 0.0:
            feet[k, 0], feet[k, 1] = gap_x / distance, gap_y / distance
        else:
            feet[k, 0], feet[k, 1] = _edge_normal(corners, f, ends)
        feet[k, 2], feet[k, 3] = t, ends


@kernel()
def pair_gradients(faces, feet, grads, out):
    """Add the gradients of listed distances to the corners of their faces, in order."""
    for k in range(len(faces)):
        if grads[k] != 0.0:
            dx, dy = feet[k, 0] * grads[k], feet[k, 1] * grads[k]
            _move_ends(faces[k], feet[k, 3], feet[k, 2], dx, dy, out)


@kernel()
def scatter_rows(index, values, limit, out):
    """Add values[k], within the limit, to out[index[k]], in the order of k."""
    for k in range(len(index)):
        for c in range(values.shape[1]):
            value = np.float64(values[k, c])
            value = value if value < limit or value != value else limit
            out[index[k], c] += value if value > -limit or value != value else -limit
