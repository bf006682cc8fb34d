"""Formulas of the primitives in the words of `gendr.kernels.vocabulary`: a text for both compilers.

So both see the same triangles, bit by bit. Corners are (x, y, z, w) in clip space; lines and
products of corners are (x, y, w). See `gendr.primitives.rasterize` for the mathematics.
"""

from __future__ import annotations

import math

from gendr.kernels.vocabulary import Block, fabs, sqrt, where

# A determinant so much smaller than its terms are together may be nothing but their rounding.
FLAT = 8 * 2.0**-52
# Derivatives of coordinates beyond count as this: levels end long before, and squares stay finite.
STEEPEST = 2.0**100
_TWO_OF_LOG2 = 2.0 / math.log(2.0)


# ---------------------------------------------------------------------------------------------
# Triangles
# ---------------------------------------------------------------------------------------------


def cross(a: Block, b: Block) -> tuple[Block, Block, Block]:
    """The cross product of the (x, y, w) of two corners."""
    return a[1] * b[3] - a[3] * b[1], a[3] * b[0] - a[0] * b[3], a[0] * b[1] - a[1] * b[0]


def determinant(a: Block, c: Block) -> Block:
    """The product of the (x, y, w) of the corner a and the cross product of the others."""
    return a[0] * c[0] + a[1] * c[1] + a[3] * c[2]


def is_solid(a: Block, b: Block, c: Block) -> Block:
    """Whether the determinant of a triangle is more than rounding, in whatever order."""
    terms = (
        fabs(a[0]) * (fabs(b[1] * c[3]) + fabs(b[3] * c[1]))
        + fabs(a[1]) * (fabs(b[3] * c[0]) + fabs(b[0] * c[3]))
        + fabs(a[3]) * (fabs(b[0] * c[1]) + fabs(b[1] * c[0]))
    )
    return fabs(determinant(a, cross(b, c))) > terms * FLAT


def planes_of(
    a: Block, b: Block, c: Block, wide: Block, high: Block
) -> tuple[Block, Block, Block, Block]:
    """For `interpolants`: planes of two edges, of their sum with the third, and of the depth.

    Args:
        a: a corner.
        b: the second.
        c: the third.
        wide: 1 / width.
        high: 1 / height.
    """
    e0, e1, e2 = cross(b, c), cross(c, a), cross(a, b)
    f = 1.0 / determinant(a, e0)
    p0, p1, p2 = e0[0] * wide, e1[0] * wide, e2[0] * wide
    q0, q1, q2 = e0[1] * high, e1[1] * high, e2[1] * high
    depth = (
        (a[2] * p0 + b[2] * p1 + c[2] * p2) * f,
        (a[2] * q0 + b[2] * q1 + c[2] * q2) * f,
        (a[2] * e0[2] + b[2] * e1[2] + c[2] * e2[2]) * f,
    )
    total = p0 + p1 + p2, q0 + q1 + q2, e0[2] + e1[2] + e2[2]
    return (p0, q0, e0[2]), (p1, q1, e1[2]), total, depth


def interpolants(planes: Block, x: Block, y: Block) -> tuple[Block, Block]:
    """(u, v, z / w) at (x, y) = (2 j + 1 - W, 2 i + 1 - H), and the slopes of u and v."""
    first, second, total, depth = planes
    g = 1.0 / (total[0] * x + (total[1] * y + total[2]))
    u = (first[0] * x + (first[1] * y + first[2])) * g
    v = (second[0] * x + (second[1] * y + second[2])) * g
    z = depth[0] * x + (depth[1] * y + depth[2])
    twice = g * 2.0
    return (u, v, z), (
        (first[0] - u * total[0]) * twice, (first[1] - u * total[1]) * twice,
        (second[0] - v * total[0]) * twice, (second[1] - v * total[1]) * twice,
    )  # fmt: skip


def products_of(a: Block, b: Block, c: Block) -> tuple[Block, Block, Block, Block]:
    """The three products of the corners of a triangle, and the inverse of its determinant."""
    e0 = cross(b, c)
    return e0, cross(c, a), cross(a, b), 1.0 / determinant(a, e0)


def of_positions(
    a: Block, b: Block, c: Block, products: Block, x: Block, y: Block,
    gu: Block, gv: Block, gz: Block, slopes: Block,
) -> tuple[Block, Block, Block]:  # fmt: skip
    """Gradients of corners: each gets one vector times its barycentric coordinate.

    Args:
        a: a corner.
        b: the second.
        c: the third.
        products: `products_of` these.
        x: of the sample, in NDC.
        y: of the sample.
        gu: the gradient of u.
        gv: that of v.
        gz: that of z / w.
        slopes: those of du/dx, du/dy, dv/dx and dv/dy in NDC.

    Returns:
        The vector, the three coordinates, and the gradients of the products by way of the slopes.
    """
    e0, e1, e2, f = products
    ux, uy, vx, vy = slopes
    ps, qs, rs = e0[0] + e1[0] + e2[0], e0[1] + e1[1] + e2[1], e0[2] + e1[2] + e2[2]
    total = ps * x + (qs * y + rs)  # the determinant over w
    g = 1.0 / total
    u = (e0[0] * x + (e0[1] * y + e0[2])) * g
    v = (e1[0] * x + (e1[1] * y + e1[2])) * g
    r = (e2[0] * x + (e2[1] * y + e2[2])) * g
    near = total * f  # 1 / w
    z = (a[2] * u + b[2] * v + c[2] * r) * near
    gz = gz * near
    ux, uy, vx, vy = ux * g, uy * g, vx * g, vy * g
    ga = gu + gz * (a[2] - z * a[3]) - (ux * ps + uy * qs)
    gb = gv + gz * (b[2] - z * b[3]) - (vx * ps + vy * qs)
    gc = gz * (c[2] - z * c[3])
    mean = ga * u + gb * v + gc * r
    ga, gb, gc = (ga - mean) * f, (gb - mean) * f, (gc - mean) * f
    vector = (
        -(e0[0] * ga + e1[0] * gb + e2[0] * gc),
        -(e0[1] * ga + e1[1] * gb + e2[1] * gc),
        gz,
        -(e0[2] * ga + e1[2] * gb + e2[2] * gc) - gz * z,
    )
    gs = -(ux * (e0[0] - u * ps) + uy * (e0[1] - u * qs)
           + vx * (e1[0] - v * ps) + vy * (e1[1] - v * qs)) * g  # fmt: skip
    mx, my = ux * u + vx * v, uy * u + vy * v
    return vector, (u, v, r), (
        (gs * x + (ux - mx), gs * y + (uy - my), gs),
        (gs * x + (vx - mx), gs * y + (vy - my), gs),
        (gs * x - mx, gs * y - my, gs),
    )  # fmt: skip


def of_product(a: Block, b: Block, d: Block) -> tuple[Block, Block]:
    """The gradients (x, y, w) of the corners a and b of their cross product, whose own is d."""
    return (
        (b[1] * d[2] - b[3] * d[1], b[3] * d[0] - b[0] * d[2], b[0] * d[1] - b[1] * d[0]),
        (d[1] * a[3] - d[2] * a[1], d[2] * a[0] - d[0] * a[3], d[0] * a[1] - d[1] * a[0]),
    )


def _joined(vector: Block, share: Block, p: Block, q: Block) -> tuple[Block, Block, Block, Block]:
    return (
        share * vector[0] + (p[0] + q[0]), share * vector[1] + (p[1] + q[1]), share * vector[2],
        share * vector[3] + (p[2] + q[2]),
    )  # fmt: skip


def of_corners(
    a: Block, b: Block, c: Block, vector: Block, shares: Block, of_products: Block
) -> tuple[Block, Block, Block]:
    """The gradients of the three corners from what `of_positions` returns."""
    b0, c0 = of_product(b, c, of_products[0])
    c1, a1 = of_product(c, a, of_products[1])
    a2, b2 = of_product(a, b, of_products[2])
    return (
        _joined(vector, shares[0], a1, a2), _joined(vector, shares[1], b0, b2),
        _joined(vector, shares[2], c0, c1),
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------
# The footprint of a pixel in a texture
# ---------------------------------------------------------------------------------------------


def _tame(x: Block) -> Block:
    """A slope that may be squared: NaN counts as 0."""
    x = where(x == x, x, 0.0)
    return where(x > STEEPEST, STEEPEST, where(x < -STEEPEST, -STEEPEST, x))


def log2_of(exponent: Block, m: Block) -> Block:
    """The logarithm to base 2 of m 2^exponent, of m in [sqrt(1/2), sqrt(2))."""
    z = (m - 1.0) / (m + 1.0)
    y = z * z  # < 0.0295: the last term that is left out is below 1e-16
    series = 1 / 17 + y * (1 / 19)
    series = 1 / 15 + y * series
    series = 1 / 13 + y * series
    series = 1 / 11 + y * series
    series = 1 / 9 + y * series
    series = 1 / 7 + y * series
    series = 1 / 5 + y * series
    series = 1 / 3 + y * series
    return exponent + _TWO_OF_LOG2 * (z + z * y * series)


def ellipse(slopes: Block, height: Block, width: Block) -> tuple[Block, Block, Block, Block]:
    """Squares A and C, and product B, of the columns of the Jacobian in texels; and a root.

    It is root((A - C)^2 / 4 + B^2); the major axis of the footprint squared is (A + C) / 2 + root.
    """
    ux, uy = _tame(slopes[0] * width), _tame(slopes[1] * width)
    vx, vy = _tame(slopes[2] * height), _tame(slopes[3] * height)
    a, b, c = ux * ux + vx * vx, ux * uy + vx * vy, uy * uy + vy * vy
    d = 0.5 * (a - c)
    return a, b, c, sqrt(d * d + b * b)


def of_slopes(
    slopes: Block, height: Block, width: Block, of_log: Block
) -> tuple[Block, Block, Block, Block]:
    """The gradients of the slopes from that of the logarithm of the major axis squared."""
    a, b, c, root = ellipse(slopes, height, width)
    axis = 0.5 * (a + c) + root
    of_square = of_log / where(axis > 0.0, axis, 1.0)
    divisor = where(root > 0.0, root, 1.0)
    lean = where(root > 0.0, 0.25 * (a - c) / divisor, 0.0)
    of_a, of_c = of_square * (0.5 + lean), of_square * (0.5 - lean)
    of_b = where(root > 0.0, of_square * b / divisor, 0.0)
    ux, uy, vx, vy = slopes[0] * width, slopes[1] * width, slopes[2] * height, slopes[3] * height
    return (
        (2.0 * of_a * ux + of_b * uy) * width,
        (2.0 * of_c * uy + of_b * ux) * width,
        (2.0 * of_a * vx + of_b * vy) * height,
        (2.0 * of_c * vy + of_b * vx) * height,
    )
