"""The compiled kernels of surfaces: lines of sight through tetrahedra.

Weights are integers, sums of `ONE` at most for each line, so that any number of threads adds up the
same. Points are near the origin: the caller subtracts one.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false, reportIndexIssue=false, reportCallIssue=false

from __future__ import annotations

import math

import numpy as np

from gendr.kernels.numba.compilation import inner, kernel

ONE = 64  # the weight of a line of sight that crosses a face far from its point
_BEHIND = 2.0  # deviations behind a point at which matter is expected
_STEPS = 1 << 14  # tetrahedra that a line may cross: rounding lets some go in a circle


@kernel()
def find_twins(beside, twin, start, stop):
    """Fill in the edges back of tetrahedra: 4 × neighbour + its place there, -1 at the hull."""
    for c in range(start, stop):
        for f in range(4):
            o = beside[c, f]
            twin[c, f] = -1
            if o >= 0:
                for g in range(4):
                    if beside[o, g] == c:
                        twin[c, f] = 4 * o + g


@inner()
def _turn(dx, dy, dz, ax, ay, az, bx, by, bz):
    """On which side of the line along d through the origin the directed edge a -> b passes."""
    return (
        dx * (ay * bz - az * by) + dy * (az * bx - ax * bz) + dz * (ax * by - ay * bx)
    )  # fmt: skip


@inner()
def _away(points, v, x, y, z):
    return points[v, 0] - x, points[v, 1] - y, points[v, 2] - z


@inner()
def _first_cell(points, cells, incident, begin, end, p, dx, dy, dz):
    """The tetrahedron at vertex p into which a direction leads, or -1; and the place of p in it."""
    x, y, z = points[p, 0], points[p, 1], points[p, 2]
    for k in range(begin, end):
        cell = incident[k]
        at = 0
        for f in range(4):
            if cells[cell, f] == p:
                at = f
        i, j, m = (at + 1) & 3, (at + 2) & 3, (at + 3) & 3
        ax, ay, az = _away(points, cells[cell, i], x, y, z)
        bx, by, bz = _away(points, cells[cell, j], x, y, z)
        cx, cy, cz = _away(points, cells[cell, m], x, y, z)
        volume = _turn(ax, ay, az, bx, by, bz, cx, cy, cz)
        s = _turn(dx, dy, dz, ax, ay, az, bx, by, bz)
        t = _turn(dx, dy, dz, bx, by, bz, cx, cy, cz)
        u = _turn(dx, dy, dz, cx, cy, cz, ax, ay, az)
        if volume > 0.0 and s >= 0.0 and t >= 0.0 and u >= 0.0:
            return cell, at
        if volume < 0.0 and s <= 0.0 and t <= 0.0 and u <= 0.0:
            return cell, at
    return -1, 0


@inner()
def _walk(points, cells, twin, cell, at, p, goal, dx, dy, dz, reach, inverse, weights):
    """Cross tetrahedra from vertex p of `cell` along a direction; returns the last one.

    Until one has the vertex `goal` (-1 for none) as a corner, the line leaves the hull, or it is
    farther than `reach` away. With weights [N, 4], what is crossed is weighed there: the edge from
    the tetrahedron that is nearer to the goal to the one before, by 1 - exp(-d²), d the distance
    from p times `inverse`.
    """
    x, y, z = points[p, 0], points[p, 1], points[p, 2]
    # The corners of the face by which the line leaves, turned so that it passes on their left.
    i, j, k = (at + 1) & 3, (at + 2) & 3, (at + 3) & 3
    a, b, c = cells[cell, i], cells[cell, j], cells[cell, k]
    ax, ay, az = _away(points, a, x, y, z)
    bx, by, bz = _away(points, b, x, y, z)
    cx, cy, cz = _away(points, c, x, y, z)
    if _turn(ax, ay, az, bx, by, bz, cx, cy, cz) < 0.0:
        b, c = c, b
        bx, by, bz, cx, cy, cz = cx, cy, cz, bx, by, bz
    ab = _turn(dx, dy, dz, ax, ay, az, bx, by, bz)
    bc = _turn(dx, dy, dz, bx, by, bz, cx, cy, cz)
    ca = _turn(dx, dy, dz, cx, cy, cz, ax, ay, az)
    length = math.sqrt(dx * dx + dy * dy + dz * dz)
    face = at
    for _ in range(_STEPS):
        if a == goal or b == goal or c == goal:
            return cell
        total = ab + bc + ca
        total = total if total > 0.0 else 1.0
        # How far along the line the face is: the crossing has the coordinates bc, ca, ab.
        along = (
            bc * (ax * dx + ay * dy + az * dz)
            + ca * (bx * dx + by * dy + bz * dz)
            + ab * (cx * dx + cy * dy + cz * dz)
        ) / (total * length)
        if along > reach:
            return cell
        back = twin[cell, face]
        if back < 0:
            return cell
        new, entry = back >> 2, back & 3
        if len(weights) > 0:
            d = along * inverse
            weights[new, entry] += int(ONE * (1.0 - math.exp(-d * d)) + 0.5)
        cell = new
        v = cells[cell, entry]
        if v == goal:
            return cell
        vx, vy, vz = _away(points, v, x, y, z)
        av = _turn(dx, dy, dz, ax, ay, az, vx, vy, vz)
        bv = _turn(dx, dy, dz, bx, by, bz, vx, vy, vz)
        cv = _turn(dx, dy, dz, cx, cy, cz, vx, vy, vz)
        # The new face has v and the edge beyond which v does not lie; the corner left out is gone.
        if bv >= 0.0 and av <= 0.0:
            gone = c
            c, cx, cy, cz, bc, ca = v, vx, vy, vz, bv, -av
        elif cv >= 0.0 and bv <= 0.0:
            gone = a
            a, ax, ay, az, ab, ca = v, vx, vy, vz, -bv, cv
        else:
            gone = b
            b, bx, by, bz, ab, bc = v, vx, vy, vz, av, -cv
        for f in range(4):
            if cells[cell, f] == gone:
                face = f
    return cell


@kernel()
def weigh_lines(
    points, cells, twin, first, incident, views, starts, vertex_of_view, deviation, weights, ends,
    start, stop,
):  # fmt: skip
    """Weigh what the lines of sight of the points start .. stop - 1 cross.

    Args:
        points: [V, 3] float64, points and then the centres of cameras.
        cells: [N, 4] int32, corners of tetrahedra.
        twin: [N, 4] int32, see `find_twins`.
        first: [V + 1], where the tetrahedra of a vertex begin in `incident`.
        incident: [4 N] int32.
        views: int32, the photos that see each point, one point after the other.
        starts: [P + 1], where those of a point begin.
        vertex_of_view: [photos] int32, the vertex that is the centre of a camera.
        deviation: [P], how exactly a point is known.
        weights: [N, 4] int32, added to: of the edge from a tetrahedron, entered on the way to the
            camera, back to the one before.
        ends: [N] int64, added to: `ONE` where a line ends at a camera, less it behind a point.
        start: the first point; stop: the one after the last.
        stop: see start.
    """
    none = weights[:0]
    for p in range(start, stop):
        for k in range(starts[p], starts[p + 1]):
            goal = vertex_of_view[views[k]]
            dx, dy, dz = _away(points, goal, points[p, 0], points[p, 1], points[p, 2])
            inverse = 1.0 / (math.sqrt(2.0) * deviation[p])
            cell, at = _first_cell(points, cells, incident, first[p], first[p + 1], p, dx, dy, dz)
            if cell < 0:
                continue
            last = _walk(
                points, cells, twin, cell, at, p, goal, dx, dy, dz, np.inf, inverse, weights
            )
            ends[last] += ONE
            cell, at = _first_cell(
                points, cells, incident, first[p], first[p + 1], p, -dx, -dy, -dz
            )
            if cell >= 0:
                last = _walk(
                    points, cells, twin, cell, at, p, -1, -dx, -dy, -dz, _BEHIND * deviation[p],
                    inverse, none,
                )  # fmt: skip
                ends[last] -= ONE


@kernel()
def circumspheres(points, cells, centres, start, stop):
    """Fill in the centre and the squared radius [N, 4] of the spheres around tetrahedra."""
    for c in range(start, stop):
        o = cells[c, 0]
        x, y, z = points[o, 0], points[o, 1], points[o, 2]
        ax, ay, az = _away(points, cells[c, 1], x, y, z)
        bx, by, bz = _away(points, cells[c, 2], x, y, z)
        cx, cy, cz = _away(points, cells[c, 3], x, y, z)
        det = 2.0 * _turn(ax, ay, az, bx, by, bz, cx, cy, cz)
        inverse = 1.0 / det if det != 0.0 else 0.0
        a2, b2 = (ax * ax + ay * ay + az * az) * inverse, (bx * bx + by * by + bz * bz) * inverse
        c2 = (cx * cx + cy * cy + cz * cz) * inverse
        ux = a2 * (by * cz - bz * cy) + b2 * (cy * az - cz * ay) + c2 * (ay * bz - az * by)
        uy = a2 * (bz * cx - bx * cz) + b2 * (cz * ax - cx * az) + c2 * (az * bx - ax * bz)
        uz = a2 * (bx * cy - by * cx) + b2 * (cx * ay - cy * ax) + c2 * (ax * by - ay * bx)
        centres[c, 0], centres[c, 1], centres[c, 2] = x + ux, y + uy, z + uz
        centres[c, 3] = ux * ux + uy * uy + uz * uz


@kernel()
def weigh_shapes(points, cells, twin, centres, weight, capacity, start, stop):
    """Add to the capacities of faces what speaks against them as a surface: long, thin ones.

    1 - the smaller cosine of the angles at which the spheres around both tetrahedra meet the face;
    0 for a face in the middle of two flat ones, as those of a dense surface are.

    Source: Labatut, Pons & Keriven, Robust and Efficient Surface Reconstruction from Range Data,
    Computer Graphics Forum 28 (2009), (7).
    """
    for c in range(start, stop):
        for f in range(4):
            back = twin[c, f]
            if back < 0:
                continue
            least = 1.0
            for side in range(2):
                t, g = (c, f) if side == 0 else (back >> 2, back & 3)
                o = cells[t, (g + 1) & 3]
                x, y, z = points[o, 0], points[o, 1], points[o, 2]
                ax, ay, az = _away(points, cells[t, (g + 2) & 3], x, y, z)
                bx, by, bz = _away(points, cells[t, (g + 3) & 3], x, y, z)
                nx, ny, nz = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
                size = math.sqrt((nx * nx + ny * ny + nz * nz) * centres[t, 3])
                vx, vy, vz = _away(points, cells[t, g], x, y, z)
                sign = 1.0 if nx * vx + ny * vy + nz * vz > 0.0 else -1.0
                mx, my, mz = x - centres[t, 0], y - centres[t, 1], z - centres[t, 2]
                cosine = -sign * (nx * mx + ny * my + nz * mz) / size if size > 0.0 else -1.0
                least = min(least, cosine if cosine == cosine else -1.0)
            capacity[c, f] += int(ONE * weight * (1.0 - least))
