"""The compiled kernels of remeshing: splits, collapses, flips and moves on one triangle mesh.

`simplify` collapses edges too, by quadrics.

A mesh `m` is a table of half-edges: half-edge h = 3 f + c goes from corner c of face f to the next
one. A vertex whose faces are not one closed fan is fixed; nothing walks around such a vertex, and
it stays. Points and vectors are tuples of three numbers.

All loops run in a fixed order: the same input gives the same bits.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gendr.kernels.numba.compilation import inner, kernel

# No kernel here has fast-math: the bits shall not depend on the compiler.
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
# Quadrics: where the planes of a vertex leave its place open, as on flat ground, it stays near the
# middle of its edge, by this part of their weight.
_UNSURE = 1e-3
# The part of the edges that collapse in a round of a simplification, and the number of rounds.
_PART, _TURNS = 0.25, 100


class HalfEdges(NamedTuple):
    """The tables of a mesh of V vertices and F faces, some of which may be gone.

    Attributes:
        x: float64 [V, 3], the places of the vertices.
        faces: int64 [3 F], the vertex that a half-edge starts from; -1 for faces that are gone.
        twins: int64 [3 F], the half-edge that goes back, or `BORDER` where there is none, or
            `TANGLED` where there are several.
        first: int64 [V], a half-edge that starts from a vertex; -1 for vertices that are gone.
        degree: int64 [V], the number of edges of a vertex.
        fixed: uint8 [V], whether a vertex stays.
    """

    x: Any
    faces: Any
    twins: Any
    first: Any
    degree: Any
    fixed: Any


@inner()
def _next(h):
    return h - 2 if h % 3 == 2 else h + 1


@inner()
def _previous(h):
    return h + 2 if h % 3 == 0 else h - 1


@inner()
def _place(m, v):
    return m.x[v, 0], m.x[v, 1], m.x[v, 2]


@inner()
def _store(m, v, p):
    m.x[v, 0], m.x[v, 1], m.x[v, 2] = p


@inner()
def _plus(p, q):
    return p[0] + q[0], p[1] + q[1], p[2] + q[2]


@inner()
def _minus(p, q):
    return p[0] - q[0], p[1] - q[1], p[2] - q[2]


@inner()
def _times(a, p):
    return a * p[0], a * p[1], a * p[2]


@inner()
def _dot(p, q):
    return p[0] * q[0] + p[1] * q[1] + p[2] * q[2]


@inner()
def _middle(m, a, b):
    return _times(0.5, _plus(_place(m, a), _place(m, b)))


@inner()
def _length(m, a, b):
    way = _minus(_place(m, a), _place(m, b))
    return math.sqrt(_dot(way, way))


@inner()
def _normal(a, b, c):
    """Twice the area of a triangle times its normal, twice its area, and its shape in [0, 1]."""
    u, v, w = _minus(b, a), _minus(c, a), _minus(c, b)
    normal = u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]
    squares = 0.0
    for side in (u, v, w):
        for each in side:
            squares += each * each
    area = math.sqrt(_dot(normal, normal))
    shape = 2 * math.sqrt(3.0) * area / squares if squares > 0 else 0.0
    return normal, area, shape


@inner()
def _face_normal(m, a, b, c):
    return _normal(_place(m, a), _place(m, b), _place(m, c))


@inner()
def _order(key):
    """The stable argsort of numbers; Numba takes seconds to compile that of NumPy."""
    n = len(key)
    order, merged = np.arange(n), np.empty(n, np.int64)
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            i, j = low, min(low + width, n)
            middle, high = j, min(low + 2 * width, n)
            for k in range(low, high):
                if i < middle and (j == high or key[order[i]] <= key[order[j]]):
                    merged[k] = order[i]
                    i += 1
                else:
                    merged[k] = order[j]
                    j += 1
        order, merged = merged, order
        width *= 2
    return order


@kernel()
def link(m):
    """Fill in the tables of a mesh from its faces."""
    halves, count = len(m.faces), len(m.first)
    key = np.empty(halves, np.float64)  # exact for 90 million vertices
    for h in range(halves):
        a, b = m.faces[h], m.faces[_next(h)]
        key[h] = min(a, b) * count + max(a, b)
    order = _order(key)
    m.first[:] = -1
    m.degree[:] = 0
    m.fixed[:] = 0
    i = 0
    while i < halves:
        j = i + 1
        while j < halves and key[order[j]] == key[order[i]]:
            j += 1
        a, b = order[i], order[i + 1] if j > i + 1 else -1
        m.degree[m.faces[a]] += 1
        m.degree[m.faces[_next(a)]] += 1
        if j == i + 2 and m.faces[a] != m.faces[b] and a // 3 != b // 3:
            m.twins[a], m.twins[b] = b, a
        else:
            for k in range(i, j):
                h = order[k]
                m.twins[h] = BORDER if j == i + 1 else TANGLED
                m.fixed[m.faces[h]] = 1
                m.fixed[m.faces[_next(h)]] = 1
        i = j
    corners = np.zeros(count, np.int64)
    for h in range(halves):
        m.first[m.faces[h]] = h
        corners[m.faces[h]] += 1
    for v in range(count):
        if m.first[v] < 0:
            m.fixed[v] = 1
        elif m.fixed[v] == 0:
            # One fan has as many faces as the vertex.
            h, size = m.first[v], 0
            while True:
                size += 1
                h = m.twins[_previous(h)]
                if h == m.first[v] or size > corners[v]:
                    break
            if size != corners[v]:
                m.fixed[v] = 1


@inner()
def _by_length(m, halves, limit, longer):
    """Half-edges, one per edge, that are longer (shorter) than a limit, the extreme ones first."""
    chosen = np.empty(halves, np.int64)
    size = np.empty(halves, np.float64)
    count = 0
    for h in range(halves):
        if m.faces[h] < 0 or m.twins[h] == TANGLED or m.twins[h] > h:
            continue
        length = _length(m, m.faces[h], m.faces[_next(h)])
        if (length > limit) if longer else (length < limit):
            chosen[count] = h
            size[count] = -length if longer else length
            count += 1
    return chosen[_order(size[:count])]


@kernel()
def split(m, counts, limit):
    """Split edges longer than a limit at their middle, the longest first.

    The tables have a capacity for more vertices and faces; `counts` [2] says how many there are,
    and is updated.

    Returns:
        Whether all could be split; if not, the capacity is used up.
    """
    for _ in range(32):
        order = _by_length(m, 3 * counts[1], limit, True)
        if len(order) == 0:
            return True
        most = min(len(m.x) - counts[0], (len(m.faces) // 3 - counts[1]) // 2)
        for h in order[:most]:
            _split(m, counts, h)
        if len(order) > most:
            return False
    return True


@inner()
def _split(m, counts, h):
    t, ahead, back = m.twins[h], _next(h), _previous(h)
    a, b, c = m.faces[h], m.faces[ahead], m.faces[back]
    v = counts[0]
    counts[0] += 1
    _store(m, v, _middle(m, a, b))
    # Face (a, b, c) becomes (a, v, c) and (v, b, c).
    g = _new_face(m, counts, v, b, c)
    m.faces[ahead] = v
    _join(m, g + 1, m.twins[ahead])
    _join(m, ahead, g + 2)
    m.first[v], m.first[a] = ahead, h
    m.degree[c] += 1
    if t < 0:
        m.twins[g] = BORDER
        m.first[b] = g + 1
        m.degree[v], m.fixed[v] = 3, 1
        return
    # Face (b, a, d) becomes (b, v, d) and (v, a, d).
    forth, d = _next(t), m.faces[_previous(t)]
    k = _new_face(m, counts, v, a, d)
    m.faces[forth] = v
    _join(m, k + 1, m.twins[forth])
    _join(m, forth, k + 2)
    _join(m, h, k)
    _join(m, t, g)
    m.first[b] = t
    m.degree[d] += 1
    m.degree[v], m.fixed[v] = 4, 0


@inner()
def _new_face(m, counts, a, b, c):
    """The first half-edge of a face that is added."""
    h = 3 * counts[1]
    counts[1] += 1
    m.faces[h], m.faces[h + 1], m.faces[h + 2] = a, b, c
    return h


@inner()
def _join(m, h, other):
    """Make two half-edges twins; `other` may be BORDER or TANGLED."""
    m.twins[h] = other
    if other >= 0:
        m.twins[other] = h


@kernel()
def collapse(m, limit, longest):
    """Collapse edges shorter than a limit to their middle, the shortest first.

    An edge stays if its ends have other common neighbours than the two of its faces, if a face
    would turn over or become a needle, or an edge longer than `longest`. So the surface stays a
    manifold of the same genus.

    Returns:
        How many were collapsed.

    Source: Dey, Edelsbrunner, Guha, Nekhayev, Topology preserving edge contraction, 1999, for the
    condition.
    """
    seen = np.full(len(m.first), -1, np.int64)
    done = 0
    for h in _by_length(m, len(m.faces), limit, False):
        if m.faces[h] < 0 or m.twins[h] < 0:
            continue
        a, b = m.faces[h], m.faces[_next(h)]
        if m.fixed[a] or m.fixed[b] or not _length(m, a, b) < limit:
            continue
        if is_link(m, seen, h) and _collapsed(m, h, _middle(m, a, b), longest):
            done += 1
    return done


@inner()
def _collapsed(m, h, p, longest):
    """Whether the ends of an edge fit at p, where they are one then."""
    a, b = m.faces[h], m.faces[_next(h)]
    gone, other = h // 3, m.twins[h] // 3
    of_a, worst_a = _around(m, a)
    of_b, worst_b = _around(m, b)
    mean, least = _plus(of_a, of_b), min(worst_a, worst_b, _SHAPE)
    if not _fits(m, a, p, mean, least, longest, gone, other):
        return False
    if not _fits(m, b, p, mean, least, longest, gone, other):
        return False
    _store(m, a, p)
    _collapse(m, h)
    return True


@kernel()
def simplify(m, wanted):
    """Collapse edges of a closed manifold to where quadrics are least, until few faces are left.

    In a round the cheapest edges collapse, but for those of vertices to which others were joined in
    it. An edge stays where it would in `collapse`.

    Returns:
        How many faces are left: more than `wanted` only where no edge may collapse.

    Source: Garland and Heckbert, Surface Simplification Using Quadric Error Metrics, 1997, whose
    heap the rounds stand for; Trettner and Kobbelt, Fast and Robust QEF Minimization using
    Probabilistic Quadrics, 2020, for `_UNSURE`.
    """
    q, left = _quadrics(m)
    seen, joined = np.full(len(q), -1, np.int64), np.zeros(len(q), np.int64)
    edges, cost = np.empty(len(m.faces) // 2, np.int64), np.empty(len(m.faces) // 2)
    for turn in range(1, _TURNS + 1):
        count, before = 0, left
        for h in range(len(m.faces)):
            if m.faces[h] >= 0 and m.twins[h] > h:
                edges[count] = h
                cost[count] = _least(m, q, m.faces[h], m.faces[_next(h)])[1]
                count += 1
        order = _order(cost[:count])
        for k in range(count):
            if left <= wanted or (k > _PART * count and left < before):
                break
            h = edges[order[k]]
            if m.faces[h] < 0:
                continue
            a, b = m.faces[h], m.faces[_next(h)]
            if joined[a] == turn or joined[b] == turn or not is_link(m, seen, h):
                continue
            if _collapsed(m, h, _least(m, q, a, b)[0], np.inf):
                q[a] += q[b]
                joined[a] = turn
                left -= 2
        if left <= wanted or left == before:
            break
    return left


@inner()
def _quadrics(m):
    """The quadrics of vertices [V, 10], and the number of faces.

    Of planes n.x + d = 0 with weights w, the areas of the faces, a row has the sums of w n n^T (6
    numbers), of w d n (3) and of w d^2.
    """
    q, count = np.zeros((len(m.first), 10)), 0
    for h in range(0, len(m.faces), 3):
        a, b, c = m.faces[h], m.faces[h + 1], m.faces[h + 2]
        count += 1
        normal, area, _ = _face_normal(m, a, b, c)
        if not area > 0:
            continue
        n = _times(1 / area, normal)
        d = -_dot(n, _place(m, a))
        for v in (a, b, c):
            place = 0
            for i in range(3):
                for j in range(i, 3):
                    q[v, place] += area * n[i] * n[j]
                    place += 1
                q[v, 6 + i] += area * d * n[i]
            q[v, 9] += area * d * d
    return q, count


@inner()
def _least(m, q, a, b):
    """Where the quadrics of two vertices have their least sum, and that sum."""
    xx, xy, xz = q[a, 0] + q[b, 0], q[a, 1] + q[b, 1], q[a, 2] + q[b, 2]
    yy, yz, zz = q[a, 3] + q[b, 3], q[a, 4] + q[b, 4], q[a, 5] + q[b, 5]
    linear = q[a, 6] + q[b, 6], q[a, 7] + q[b, 7], q[a, 8] + q[b, 8]
    p = _middle(m, a, b)
    # Half the slope there, and by it the step to the least.
    slope = _plus(linear, (_dot((xx, xy, xz), p), _dot((xy, yy, yz), p), _dot((xz, yz, zz), p)))
    least = _dot(p, _plus(slope, linear)) + q[a, 9] + q[b, 9]
    more = _UNSURE * (xx + yy + zz)
    xx, yy, zz = xx + more, yy + more, zz + more
    one = yy * zz - yz * yz, yz * xz - xy * zz, xy * yz - yy * xz
    two = one[1], xx * zz - xz * xz, xy * xz - xx * yz
    three = one[2], two[2], xx * yy - xy * xy
    determinant = _dot((xx, xy, xz), one)
    if not determinant > 0:
        return p, least
    step = _dot(one, slope), _dot(two, slope), _dot(three, slope)
    step = _times(-1 / determinant, step)
    return _plus(p, step), least + _dot(step, slope)


@kernel()
def is_link(m, seen, h):
    """Whether the ends of an edge have no other common neighbours than those of its two faces."""
    a, b = m.faces[h], m.faces[_next(h)]
    c, d = m.faces[_previous(h)], m.faces[_previous(m.twins[h])]
    degree = m.degree
    if c == d or degree[c] <= 3 or degree[d] <= 3 or degree[a] + degree[b] < 7:
        return False
    g = m.first[a]
    while True:
        seen[m.faces[_next(g)]] = h
        g = m.twins[_previous(g)]
        if g == m.first[a]:
            break
    common = 0
    g = m.first[b]
    while True:
        if seen[m.faces[_next(g)]] == h:
            common += 1
        g = m.twins[_previous(g)]
        if g == m.first[b]:
            break
    return common == 2


@inner()
def _around(m, v):
    """The sum of the normals of the faces of a vertex, weighted by area, and the worst shape."""
    total, worst = (0.0, 0.0, 0.0), 1.0
    h = m.first[v]
    while True:
        normal, _, shape = _face_normal(m, v, m.faces[_next(h)], m.faces[_previous(h)])
        total, worst = _plus(total, normal), min(worst, shape)
        h = m.twins[_previous(h)]
        if h == m.first[v]:
            return total, worst


@inner()
def _fits(m, v, p, mean, least, longest, gone, other):
    """Whether the faces of vertex v, but two, stay well if it moves to p; they have this normal."""
    whole = math.sqrt(_dot(mean, mean))
    h = m.first[v]
    while True:
        if h // 3 not in (gone, other):
            b, c = m.faces[_next(h)], m.faces[_previous(h)]
            old, before, old_shape = _face_normal(m, v, b, c)
            new, after, shape = _normal(p, _place(m, b), _place(m, c))
            if old_shape > _NEEDLE:
                turned = _dot(old, new) < _TURN * before * after
            else:
                turned = _dot(mean, new) < _TURN_NEEDLE * whole * after
            if turned or not shape >= least:
                return False
            for e in (b, c):
                way = _minus(p, _place(m, e))
                if _dot(way, way) > longest * longest:
                    return False
        h = m.twins[_previous(h)]
        if h == m.first[v]:
            return True


@inner()
def _collapse(m, h):
    """Join the end of half-edge h to its start."""
    t = m.twins[h]
    a, b = m.faces[h], m.faces[_next(h)]
    g = m.first[b]
    while True:
        m.faces[g] = a
        g = m.twins[_previous(g)]
        if g == m.first[b]:
            break
    for e in (h, t):
        c = m.faces[_previous(e)]
        outside, inside = m.twins[_next(e)], m.twins[_previous(e)]
        # In the first face these go from c to b and from a to c; in the other one to and from a.
        m.twins[outside], m.twins[inside] = inside, outside
        m.first[c] = outside
        m.degree[c] -= 1
        if e == h:
            m.first[a] = inside
    m.degree[a] += m.degree[b] - 4
    m.first[b], m.degree[b] = -1, 0
    for e in (h, t):
        f = 3 * (e // 3)
        m.faces[f] = m.faces[f + 1] = m.faces[f + 2] = -1


@kernel()
def flip(m, by_shape):
    """Flip edges: towards six edges at each vertex, or where the worse of two faces gets better.

    An edge stays if its flip would bend the surface more, or its ends-to-be are joined already.

    Returns:
        How many were flipped.
    """
    done = 0
    for h in range(len(m.faces)):
        t = m.twins[h]
        if m.faces[h] < 0 or t < 0 or t < h:
            continue
        a, b, c, d = m.faces[h], m.faces[t], m.faces[_previous(h)], m.faces[_previous(t)]
        if m.degree[a] <= 3 or m.degree[b] <= 3 or c == d:
            continue
        if not by_shape:
            now = _off(m, a, 0) + _off(m, b, 0) + _off(m, c, 0) + _off(m, d, 0)
            then = _off(m, a, -1) + _off(m, b, -1) + _off(m, c, 1) + _off(m, d, 1)
            if then >= now:
                continue
        if _joined(m, c, d):
            continue
        one, area_one, shape_one = _face_normal(m, a, b, c)
        two, area_two, shape_two = _face_normal(m, b, a, d)
        new, area_new, shape_new = _face_normal(m, a, d, c)
        last, area_last, shape_last = _face_normal(m, d, b, c)
        before, after = min(shape_one, shape_two), min(shape_new, shape_last)
        if not after > (1.02 * before if by_shape else min(before, 0.5)):
            continue
        mean = _plus(one, two)
        whole = math.sqrt(_dot(mean, mean))
        if _dot(new, mean) < _TURN * area_new * whole:
            continue
        if _dot(last, mean) < _TURN * area_last * whole:
            continue
        bend = _dot(new, last) / (area_new * area_last)
        was = _dot(one, two) / (area_one * area_two)
        if before > _NEEDLE and not bend >= min(was, _BEND):
            continue
        _flip(m, h)
        done += 1
    return done


@inner()
def _off(m, v, change):
    """The square of how far a vertex is from its best number of edges."""
    n = m.degree[v] + change - (4 if m.fixed[v] else 6)
    return n * n


@inner()
def _joined(m, a, b):
    """Whether two vertices have an edge; True as well if that cannot be told."""
    if m.fixed[a]:
        a, b = b, a
    if m.fixed[a]:
        return True
    h = m.first[a]
    while True:
        if m.faces[_next(h)] == b:
            return True
        h = m.twins[_previous(h)]
        if h == m.first[a]:
            return False


@inner()
def _flip(m, h):
    """Faces (a, b, c) and (b, a, d) become (d, c, a) and (c, d, b)."""
    t = m.twins[h]
    ahead, back, forth, past = _next(h), _previous(h), _next(t), _previous(t)
    a, b, c, d = m.faces[h], m.faces[t], m.faces[back], m.faces[past]
    of_bc, of_ca, of_ad, of_db = m.twins[ahead], m.twins[back], m.twins[forth], m.twins[past]
    m.faces[h], m.faces[ahead], m.faces[back] = d, c, a
    m.faces[t], m.faces[forth], m.faces[past] = c, d, b
    _join(m, ahead, of_ca)
    _join(m, back, of_ad)
    _join(m, forth, of_db)
    _join(m, past, of_bc)
    m.first[a], m.first[b], m.first[c], m.first[d] = back, past, ahead, forth
    m.degree[a] -= 1
    m.degree[b] -= 1
    m.degree[c] += 1
    m.degree[d] += 1


@kernel()
def relax(m, weight):
    """Move vertices, one after the other, within the surface towards the middle of their faces.

    Where the surface is flat they go the part `weight` of the way, in (0, 1]; less where it is
    bent, since the way within it is not known there.

    Source: Botsch, Kobbelt, A Remeshing Approach to Multiresolution Modeling, 2004, section 4.
    """
    for v in range(len(m.first)):
        if m.first[v] < 0 or m.fixed[v]:
            continue
        place, middle, total = _place(m, v), (0.0, 0.0, 0.0), 0.0
        h = m.first[v]
        while True:
            b, c = m.faces[_next(h)], m.faces[_previous(h)]
            _, area, _ = _face_normal(m, v, b, c)
            corners = _times(area, _plus(_plus(place, _place(m, b)), _place(m, c)))
            middle = _plus(middle, (corners[0] / 3, corners[1] / 3, corners[2] / 3))
            total += area
            h = m.twins[_previous(h)]
            if h == m.first[v]:
                break
        normal, worst = _around(m, v)
        square = _dot(normal, normal)
        if not (total > 0 and square > 0):
            continue
        part = weight * (math.sqrt(square) / total - _CORNER) / (1 - _CORNER)
        if not part > 0:
            continue
        way = _minus((middle[0] / total, middle[1] / total, middle[2] / total), place)
        along = _dot(way, normal) / square
        p = _plus(place, _times(part, _minus(way, _times(along, normal))))
        if _fits(m, v, p, normal, min(worst, _SHAPE), np.inf, -1, -1):
            _store(m, v, p)


@kernel()
def move(m, places):
    """Move vertices to `places` [V, 3], one after the other, if their faces stay well."""
    for v in range(len(m.first)):
        if m.first[v] < 0 or m.fixed[v]:
            continue
        mean, worst = _around(m, v)
        p = places[v, 0], places[v, 1], places[v, 2]
        if _fits(m, v, p, mean, min(worst, _SHAPE), np.inf, -1, -1):
            _store(m, v, p)
