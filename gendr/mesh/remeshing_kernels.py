"""The compiled kernels of remeshing: splits, collapses, flips and moves on one triangle mesh.

A mesh is a table of half-edges. Half-edge h = 3 f + c goes from corner c of face f to the next one;
`faces` [3 F] holds the vertex that it starts from, `twins` [3 F] the half-edge that goes back, or
`BORDER` where there is none, or `TANGLED` where there are several. `first` [V] is a half-edge that
starts from a vertex, `degree` [V] the number of its edges. A vertex is `fixed` [V] if its faces are
not one closed fan; nothing walks around such a vertex, and it stays. Faces and vertices that are
gone have -1 in `faces` and in `first`.

All loops run in a fixed order: the same input gives the same bits.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from gendr._runtime.numba.compilation import announce_compilation, ensure_cache

ensure_cache()
announce_compilation(__name__)

# No fast-math: the bits shall not depend on the compiler.
_OPTIONS: Any = {"cache": True, "nogil": True, "error_model": "numpy"}
BORDER, TANGLED = -1, -2
# A face whose shape (1 for equilateral, 0 for a needle) is below this has no reliable normal.
_NEEDLE = 0.05
# How far the normal of a face may turn, as a cosine; and from the mean normal around a vertex, for
# faces that were needles.
_TURN, _TURN_NEEDLE = 0.5, 0.1
# A collapse may not leave a face of worse shape than this, unless one as bad was there.
_SHAPE = 0.3
# How flat the faces of a vertex are together, as the length of their mean normal: at this or below,
# as at the corner of a cube, the vertex does not slide.
_CORNER = 0.6
# Flips keep the dihedral angle within this cosine, or as it was.
_BEND = 0.95


@njit(**_OPTIONS)
def _next(h):
    return h - 2 if h % 3 == 2 else h + 1


@njit(**_OPTIONS)
def _previous(h):
    return h + 2 if h % 3 == 0 else h - 1


@njit(**_OPTIONS)
def _length(x, a, b):
    u, v, w = x[a, 0] - x[b, 0], x[a, 1] - x[b, 1], x[a, 2] - x[b, 2]
    return math.sqrt(u * u + v * v + w * w)


@njit(**_OPTIONS)
def _normal(ax, ay, az, bx, by, bz, cx, cy, cz):
    """Twice the area times the normal, and the shape in [0, 1]."""
    ux, uy, uz = bx - ax, by - ay, bz - az
    vx, vy, vz = cx - ax, cy - ay, cz - az
    wx, wy, wz = cx - bx, cy - by, cz - bz
    nx, ny, nz = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    squares = (
        ux * ux + uy * uy + uz * uz + vx * vx + vy * vy + vz * vz + wx * wx + wy * wy + wz * wz
    )
    area = math.sqrt(nx * nx + ny * ny + nz * nz)
    shape = 2 * math.sqrt(3.0) * area / squares if squares > 0 else 0.0
    return nx, ny, nz, area, shape


@njit(**_OPTIONS)
def _face_normal(x, a, b, c):
    return _normal(
        x[a, 0], x[a, 1], x[a, 2], x[b, 0], x[b, 1], x[b, 2], x[c, 0], x[c, 1], x[c, 2]
    )  # fmt: skip


@njit(**_OPTIONS)
def link(faces, twins, first, degree, fixed, count):
    """Fill in the tables of `count` vertices from `faces` [3 F]."""
    halves = len(faces)
    key = np.empty(halves, np.int64)
    for h in range(halves):
        a, b = faces[h], faces[_next(h)]
        key[h] = min(a, b) * count + max(a, b)
    order = np.argsort(key, kind="mergesort")
    first[:count] = -1
    degree[:count] = 0
    fixed[:count] = 0
    i = 0
    while i < halves:
        j = i + 1
        while j < halves and key[order[j]] == key[order[i]]:
            j += 1
        a, b = order[i], order[i + 1] if j > i + 1 else -1
        degree[faces[a]] += 1
        degree[faces[_next(a)]] += 1
        if j == i + 2 and faces[a] != faces[b] and a // 3 != b // 3:
            twins[a], twins[b] = b, a
        else:
            for k in range(i, j):
                h = order[k]
                twins[h] = BORDER if j == i + 1 else TANGLED
                fixed[faces[h]] = 1
                fixed[faces[_next(h)]] = 1
        i = j
    corners = np.zeros(count, np.int64)
    for h in range(halves):
        first[faces[h]] = h
        corners[faces[h]] += 1
    for v in range(count):
        if first[v] < 0:
            fixed[v] = 1
        elif fixed[v] == 0:
            # One fan has as many faces as the vertex.
            h, size = first[v], 0
            while True:
                size += 1
                h = twins[_previous(h)]
                if h == first[v] or size > corners[v]:
                    break
            if size != corners[v]:
                fixed[v] = 1


@njit(**_OPTIONS)
def _by_length(x, faces, twins, limit, longer):
    """Half-edges, one per edge, that are longer (shorter) than a limit, the extreme ones first."""
    found = np.empty(len(faces), np.int64)
    size = np.empty(len(faces), np.float64)
    count = 0
    for h in range(len(faces)):
        if faces[h] < 0 or twins[h] == TANGLED or twins[h] > h:
            continue
        length = _length(x, faces[h], faces[_next(h)])
        if (length > limit) if longer else (length < limit):
            found[count] = h
            size[count] = -length if longer else length
            count += 1
    return found[np.argsort(size[:count], kind="mergesort")]


@njit(**_OPTIONS)
def split(x, faces, twins, first, degree, fixed, limit, counts):
    """Split edges longer than a limit at their middle, the longest first.

    The tables have room for more vertices and faces; `counts` [2] says how many there are, and is
    updated.

    Returns:
        Whether there was room for all; if not, as many were split as there was room for.
    """
    for _ in range(32):
        order = _by_length(x, faces[: 3 * counts[1]], twins, limit, True)
        if len(order) == 0:
            return True
        room = min(len(x) - counts[0], (len(faces) // 3 - counts[1]) // 2)
        for h in order[:room]:
            _split(x, faces, twins, first, degree, fixed, counts, h)
        if len(order) > room:
            return False
    return True


@njit(**_OPTIONS)
def _split(x, faces, twins, first, degree, fixed, counts, h):
    t, ahead, back = twins[h], _next(h), _previous(h)
    a, b, c = faces[h], faces[ahead], faces[back]
    m = counts[0]
    counts[0] += 1
    for k in range(3):
        x[m, k] = 0.5 * (x[a, k] + x[b, k])
    # Face (a, b, c) becomes (a, m, c) and (m, b, c).
    g = 3 * counts[1]
    counts[1] += 1
    faces[g], faces[g + 1], faces[g + 2] = m, b, c
    faces[ahead] = m
    _join(twins, g + 1, twins[ahead])
    _join(twins, ahead, g + 2)
    first[m], first[a] = ahead, h
    degree[c] += 1
    if t < 0:
        twins[g] = BORDER
        first[b] = g + 1
        degree[m], fixed[m] = 3, 1
        return
    # Face (b, a, d) becomes (b, m, d) and (m, a, d).
    forth, d = _next(t), faces[_previous(t)]
    k = 3 * counts[1]
    counts[1] += 1
    faces[k], faces[k + 1], faces[k + 2] = m, a, d
    faces[forth] = m
    _join(twins, k + 1, twins[forth])
    _join(twins, forth, k + 2)
    _join(twins, h, k)
    _join(twins, t, g)
    first[b] = t
    degree[d] += 1
    degree[m], fixed[m] = 4, 0


@njit(**_OPTIONS)
def _join(twins, h, other):
    """Make two half-edges twins; `other` may be BORDER or TANGLED."""
    twins[h] = other
    if other >= 0:
        twins[other] = h


@njit(**_OPTIONS)
def collapse(x, faces, twins, first, degree, fixed, limit, longest):
    """Collapse edges shorter than a limit to their middle, the shortest first.

    An edge stays if its ends have other common neighbours than the two of its faces, if a face
    would turn over or become a needle, or an edge longer than `longest`. So the surface stays a
    manifold of the same genus.

    Returns:
        How many were collapsed.

    Source: Dey, Edelsbrunner, Guha, Nekhayev, Topology preserving edge contraction, 1999, for the
    condition.
    """
    order = _by_length(x, faces, twins, limit, False)
    seen = np.full(len(first), -1, np.int64)
    done = 0
    for h in order:
        if faces[h] < 0 or twins[h] < 0:
            continue
        a, b = faces[h], faces[_next(h)]
        if fixed[a] or fixed[b] or not _length(x, a, b) < limit:
            continue
        if not is_link(faces, twins, first, degree, seen, h):
            continue
        px, py, pz = (
            0.5 * (x[a, 0] + x[b, 0]), 0.5 * (x[a, 1] + x[b, 1]), 0.5 * (x[a, 2] + x[b, 2])
        )  # fmt: skip
        gone, other = h // 3, twins[h] // 3
        sx, sy, sz, worst = 0.0, 0.0, 0.0, 1.0
        for v in (a, b):
            ux, uy, uz, shape = _around(x, faces, twins, first, v)
            sx, sy, sz, worst = sx + ux, sy + uy, sz + uz, min(worst, shape)
        fits = True
        for v in (a, b):
            fits = fits and _fits(
                x, faces, twins, first, v, px, py, pz, sx, sy, sz, min(worst, _SHAPE), longest,
                gone, other,
            )  # fmt: skip
        if fits:
            x[a, 0], x[a, 1], x[a, 2] = px, py, pz
            _collapse(faces, twins, first, degree, h)
            done += 1
    return done


@njit(**_OPTIONS)
def is_link(faces, twins, first, degree, seen, h):
    """Whether the ends of an edge have no other common neighbours than those of its two faces."""
    a, b = faces[h], faces[_next(h)]
    c, d = faces[_previous(h)], faces[_previous(twins[h])]
    if c == d or degree[c] <= 3 or degree[d] <= 3 or degree[a] + degree[b] < 7:
        return False
    g = first[a]
    while True:
        seen[faces[_next(g)]] = h
        g = twins[_previous(g)]
        if g == first[a]:
            break
    common = 0
    g = first[b]
    while True:
        if seen[faces[_next(g)]] == h:
            common += 1
        g = twins[_previous(g)]
        if g == first[b]:
            break
    return common == 2


@njit(**_OPTIONS)
def _around(x, faces, twins, first, v):
    """The sum of the normals of the faces of a vertex, weighted by area, and the worst shape."""
    sx, sy, sz, worst = 0.0, 0.0, 0.0, 1.0
    h = first[v]
    while True:
        nx, ny, nz, _, shape = _face_normal(x, v, faces[_next(h)], faces[_previous(h)])
        sx, sy, sz, worst = sx + nx, sy + ny, sz + nz, min(worst, shape)
        h = twins[_previous(h)]
        if h == first[v]:
            return sx, sy, sz, worst


@njit(**_OPTIONS)
def _fits(
    x, faces, twins, first, v, px, py, pz, sx, sy, sz, least, longest, gone, other
):  # fmt: skip
    """Whether the faces of vertex v, but two, stay well if it moves to p; s is a mean normal."""
    whole = math.sqrt(sx * sx + sy * sy + sz * sz)
    h = first[v]
    while True:
        if h // 3 not in (gone, other):
            b, c = faces[_next(h)], faces[_previous(h)]
            ox, oy, oz, before, old_shape = _face_normal(x, v, b, c)
            nx, ny, nz, after, shape = _normal(
                px, py, pz, x[b, 0], x[b, 1], x[b, 2], x[c, 0], x[c, 1], x[c, 2]
            )
            if old_shape > _NEEDLE:
                turned = ox * nx + oy * ny + oz * nz < _TURN * before * after
            else:
                turned = sx * nx + sy * ny + sz * nz < _TURN_NEEDLE * whole * after
            if turned or not shape >= least:
                return False
            for e in (b, c):
                u, w, z = px - x[e, 0], py - x[e, 1], pz - x[e, 2]
                if u * u + w * w + z * z > longest * longest:
                    return False
        h = twins[_previous(h)]
        if h == first[v]:
            return True


@njit(**_OPTIONS)
def _collapse(faces, twins, first, degree, h):
    """Join the end of half-edge h to its start."""
    t = twins[h]
    a, b = faces[h], faces[_next(h)]
    g = first[b]
    while True:
        faces[g] = a
        g = twins[_previous(g)]
        if g == first[b]:
            break
    for e in (h, t):
        c = faces[_previous(e)]
        outside, inside = twins[_next(e)], twins[_previous(e)]
        # In the first face these go from c to b and from a to c; in the other one to and from a.
        twins[outside], twins[inside] = inside, outside
        first[c] = outside
        degree[c] -= 1
        if e == h:
            first[a] = inside
    degree[a] += degree[b] - 4
    first[b], degree[b] = -1, 0
    for e in (h, t):
        f = 3 * (e // 3)
        faces[f] = faces[f + 1] = faces[f + 2] = -1


@njit(**_OPTIONS)
def flip(x, faces, twins, first, degree, fixed, by_shape):
    """Flip edges: towards six edges at each vertex, or where the worse of two faces gets better.

    An edge stays if its flip would bend the surface more, or its ends-to-be are joined already.

    Returns:
        How many were flipped.
    """
    done = 0
    for h in range(len(faces)):
        t = twins[h]
        if faces[h] < 0 or t < 0 or t < h:
            continue
        a, b, c, d = faces[h], faces[t], faces[_previous(h)], faces[_previous(t)]
        if degree[a] <= 3 or degree[b] <= 3 or c == d:
            continue
        if not by_shape:
            now = _off(degree, fixed, a, 0) + _off(degree, fixed, b, 0)
            now += _off(degree, fixed, c, 0) + _off(degree, fixed, d, 0)
            then = _off(degree, fixed, a, -1) + _off(degree, fixed, b, -1)
            then += _off(degree, fixed, c, 1) + _off(degree, fixed, d, 1)
            if then >= now:
                continue
        if _joined(faces, twins, first, fixed, c, d):
            continue
        ax, ay, az, area_a, shape_a = _face_normal(x, a, b, c)
        bx, by, bz, area_b, shape_b = _face_normal(x, b, a, d)
        cx, cy, cz, area_c, shape_c = _face_normal(x, a, d, c)
        dx, dy, dz, area_d, shape_d = _face_normal(x, d, b, c)
        before, after = min(shape_a, shape_b), min(shape_c, shape_d)
        if not after > (1.02 * before if by_shape else min(before, 0.5)):
            continue
        sx, sy, sz = ax + bx, ay + by, az + bz
        whole = math.sqrt(sx * sx + sy * sy + sz * sz)
        if cx * sx + cy * sy + cz * sz < _TURN * area_c * whole:
            continue
        if dx * sx + dy * sy + dz * sz < _TURN * area_d * whole:
            continue
        bend = (cx * dx + cy * dy + cz * dz) / (area_c * area_d)
        was = (ax * bx + ay * by + az * bz) / (area_a * area_b)
        if before > _NEEDLE and not bend >= min(was, _BEND):
            continue
        _flip(faces, twins, first, degree, h)
        done += 1
    return done


@njit(**_OPTIONS)
def _off(degree, fixed, v, change):
    """The square of how far a vertex is from its best number of edges."""
    n = degree[v] + change - (4 if fixed[v] else 6)
    return n * n


@njit(**_OPTIONS)
def _joined(faces, twins, first, fixed, a, b):
    """Whether two vertices have an edge; True as well if that cannot be told."""
    if fixed[a]:
        a, b = b, a
    if fixed[a]:
        return True
    h = first[a]
    while True:
        if faces[_next(h)] == b:
            return True
        h = twins[_previous(h)]
        if h == first[a]:
            return False


@njit(**_OPTIONS)
def _flip(faces, twins, first, degree, h):
    """Faces (a, b, c) and (b, a, d) become (d, c, a) and (c, d, b)."""
    t = twins[h]
    ahead, back, forth, past = _next(h), _previous(h), _next(t), _previous(t)
    a, b, c, d = faces[h], faces[t], faces[back], faces[past]
    of_bc, of_ca, of_ad, of_db = twins[ahead], twins[back], twins[forth], twins[past]
    faces[h], faces[ahead], faces[back] = d, c, a
    faces[t], faces[forth], faces[past] = c, d, b
    _join(twins, ahead, of_ca)
    _join(twins, back, of_ad)
    _join(twins, forth, of_db)
    _join(twins, past, of_bc)
    first[a], first[b], first[c], first[d] = back, past, ahead, forth
    degree[a] -= 1
    degree[b] -= 1
    degree[c] += 1
    degree[d] += 1


@njit(**_OPTIONS)
def relax(x, faces, twins, first, fixed, weight):
    """Move vertices, one after the other, within the surface towards the middle of their faces.

    Where the surface is flat they go the part `weight` of the way, in (0, 1]; less where it is
    bent, since the way within it is not known there.

    Source: Botsch, Kobbelt, A Remeshing Approach to Multiresolution Modeling, 2004, section 4.
    """
    for v in range(len(first)):
        if first[v] < 0 or fixed[v]:
            continue
        qx, qy, qz, total = 0.0, 0.0, 0.0, 0.0
        sx, sy, sz, worst = 0.0, 0.0, 0.0, 1.0
        h = first[v]
        while True:
            b, c = faces[_next(h)], faces[_previous(h)]
            nx, ny, nz, area, shape = _face_normal(x, v, b, c)
            sx, sy, sz, worst = sx + nx, sy + ny, sz + nz, min(worst, shape)
            qx += area * (x[v, 0] + x[b, 0] + x[c, 0]) / 3
            qy += area * (x[v, 1] + x[b, 1] + x[c, 1]) / 3
            qz += area * (x[v, 2] + x[b, 2] + x[c, 2]) / 3
            total += area
            h = twins[_previous(h)]
            if h == first[v]:
                break
        square = sx * sx + sy * sy + sz * sz
        if not (total > 0 and square > 0):
            continue
        part = weight * (math.sqrt(square) / total - _CORNER) / (1 - _CORNER)
        if not part > 0:
            continue
        ux, uy, uz = qx / total - x[v, 0], qy / total - x[v, 1], qz / total - x[v, 2]
        along = (ux * sx + uy * sy + uz * sz) / square
        px = x[v, 0] + part * (ux - along * sx)
        py = x[v, 1] + part * (uy - along * sy)
        pz = x[v, 2] + part * (uz - along * sz)
        if _fits(
            x, faces, twins, first, v, px, py, pz, sx, sy, sz, min(worst, _SHAPE), np.inf, -1, -1
        ):
            x[v, 0], x[v, 1], x[v, 2] = px, py, pz


@njit(**_OPTIONS)
def move(x, faces, twins, first, fixed, places):
    """Move vertices to `places` [V, 3], one after the other, if their faces stay well.

    Returns:
        How many were moved.
    """
    done = 0
    for v in range(len(first)):
        if first[v] < 0 or fixed[v]:
            continue
        sx, sy, sz, worst = _around(x, faces, twins, first, v)
        if _fits(
            x, faces, twins, first, v, places[v, 0], places[v, 1], places[v, 2], sx, sy, sz,
            min(worst, _SHAPE), np.inf, -1, -1,
        ):  # fmt: skip
            x[v, 0], x[v, 1], x[v, 2] = places[v, 0], places[v, 1], places[v, 2]
            done += 1
    return done
