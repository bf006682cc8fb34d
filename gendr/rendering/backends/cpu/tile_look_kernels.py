"""The looks of triangles in float32, by tiles: textures, smooth light and highlights.

What is seen of a face at a tile goes through columns of a small memory, as in `softmax_kernels`,
one vector of 16 pixels after the other. Texels are read and their gradients added for one pixel
after the other, all channels at once: a vector that gathers from memory takes three times as long.

Places in a texture count from the texel of the least corner, which is found in float64: the digits
that float32 has are those of the part of the texture that a face uses. Every place is clamped to
that part, so that nothing is read or written elsewhere, whatever coordinates are.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportArgumentType=false

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from gendr.kernels.numba.calls import pointer, shifted
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.singles import exp, floor, of_lanes, power, sqrt
from gendr.kernels.numba.vectors import SINGLES, Lanes, Place, lanewise, where
from gendr.rendering.backends import formulas as texts
from gendr.rendering.backends.cpu.softmax_kernels import (
    ACROSS,
    AMBIENT,
    DIFFUSE,
    DOWN,
    EYE,
    GLOSSY,
    LEFT,
    LIGHT,
    NORMAL,
    ORTHOGRAPHIC,
    POSITION,
    SHININESS,
    SMOOTH,
    SPECULAR,
    TEXTURED,
    TOP,
    UV,
)
from gendr.rendering.backends.cpu.tile_kernels import (
    GRAD,
    INWARD,
    SIDE,
    STRIDE,
    four_sums,
    loaded,
    rows_of,
    shuffled,
    store,
)

# Tiles of a part that are coloured together: their columns lie in the nearest cache.
LOOK_TILES = 8
_WIDE = LOOK_TILES * SINGLES
# Numbers of a face: 1 / w of its corners; one over its heights above the opposite edges; exponents;
# colours; and a third if it has no area.
INVERSE_W, HEIGHTS, EXPONENTS, COLOURS, THIRD = 0, 3, 6, 9, 18
# Then its corners in the texture from the first texel on that it uses; for both axes that texel,
# the last one from there on, the size of the texture, and its inverse.
_PLACES, _FIRST, _LAST, _SIZE, _INVERSE_SIZE = 19, 25, 27, 29, 31
# The light, as in `surface`; normals of the corners; the vectors from them to the eye.
_LIGHT, _AMBIENT, _DIFFUSE, _SPECULAR, _SHININESS, _NORMALS, _TO_EYE = 33, 36, 37, 38, 39, 40, 49
NUMBERS = 58
# Sums of gradients of a face: of colours, exponents, 1 / w, and of barycentric coordinates times
# each of these; of places in the texture, of normals, and of positions.
OF_COLOURS, OF_EXPONENTS, OF_W, OF_PLACES, OF_UVS, OF_NORMALS, OF_POSITIONS = (
    0, 9, 12, 15, 24, 32, 44,
)  # fmt: skip
SUMS, ALL_SUMS = 24, 56
# Of a pixel: red, green and blue, and the sum of weights, of which the backward pass gets the
# inverse, and the gradients of these colours and of all shares (see `softmax_kernels`).
CHANNELS, READ = 4, 5
# Columns: weights of the corners and their gradients; exp(e), 0 where nothing is covered; factor
# and highlight of the light, and their gradients; the unit normal and the inverse of its length
# before; the same of the vector to the eye; what the highlight has to be multiplied by; gradients
# of both vectors.
_W, _H, _HEIGHT, _FACTOR, _HIGHLIGHT, _G_FACTOR, _G_HIGHLIGHT, _N, _E, _GLANCE, _G_N, _G_E = (
    k * _WIDE for k in (0, 3, 6, 7, 8, 9, 10, 11, 15, 19, 20, 23)
)
# Of the texture: the four texels as int32, as is the place in the patch; where between them; their
# weights; then pixel by pixel, in fours, colours, their slopes to the right and down, and their
# gradients.
_TEXELS, _PATCH, _BETWEEN, _PARTS, _T, _RIGHT, _DOWN, _G_T = (
    k * _WIDE for k in (26, 30, 31, 33, 37, 41, 45, 49)
)
COLUMNS = 53 * _WIDE
# A record of the gradient of a pixel: that of the colour; three texels, as int32; where between
# them. And how many float64 take its place.
_RECORD, _ROOM = 8, 4

corner_weights = of_lanes(texts.corner_weights)
corner_weights_backward = of_lanes(texts.corner_weights_backward)
_FLOATS, _LONG, _INT = ir.VectorType(ir.FloatType(), SINGLES), ir.IntType(64), ir.IntType(32)
_FOUR, _DOUBLES = ir.VectorType(ir.FloatType(), 4), ir.VectorType(ir.DoubleType(), 4)
_INTS = ir.VectorType(_INT, SINGLES)


# ---------------------------------------------------------------------------------------------
# Words
# ---------------------------------------------------------------------------------------------


def places(i, block, numbers):
    """The barycentric coordinates of the pixels of a tile; corner k is opposite of edge k + 1."""
    third = numbers.all(THIRD)
    return [
        block[i + (INWARD + (k + 1) % 3 * STRIDE)] * numbers.all(HEIGHTS + k) + third
        for k in range(3)
    ]


def inverses(numbers):
    """1 / w of the corners."""
    return [numbers.all(INVERSE_W + k) for k in range(3)]


def mixed(weights, numbers, column, step=1):
    """The values of the corners in a column, interpolated."""
    return sum(
        (weights[k] * numbers.all(column + k * step) for k in (1, 2)),
        weights[0] * numbers.all(column),
    )


@contextmanager
def over(count):
    """A loop over the tiles, or pixels, 0 .. count - 1."""
    builder = count.builder
    with cgutils.for_range_slice(builder, _LONG(0), count.value, _LONG(1), inc=True) as (k, _):
        yield Place(builder, k)


def summed(count, terms, out, body):
    """Store the sums of so many terms that `body` gives for each of the tiles 0 .. count - 1."""
    builder = count.builder
    zero = ir.Constant(_FLOATS, [0.0] * SINGLES)
    kept = [cgutils.alloca_once_value(builder, zero) for _ in range(-(-terms // 4) * 4)]
    with over(count) as k:
        for term, place in zip(body(k), kept, strict=False):
            builder.store((Lanes(builder, builder.load(place)) + term).value, place)
    for n in range(0, len(kept), 4):
        store(out, n, four_sums([Lanes(builder, builder.load(x)) for x in kept[n : n + 4]]))


def add_rows(parts, pixel, width, plane, sums):
    """Add vectors to the planes of sums at the pixels of a tile."""
    builder = pixel.builder
    for part in parts:
        for k in range(SIDE):
            row = shuffled(builder, part.value, part.value, range(SIDE * k, SIDE * k + SIDE))
            place = pixel + width * k
            store(sums, place, builder.fadd(loaded(sums, place, SIDE), row))
        pixel = pixel + plane


def _three(parts, column):
    """Three columns."""
    return [parts[column + k * _WIDE] for k in range(3)]


def _put_three(parts, column, vectors):
    for k, vector in enumerate(vectors):
        parts[column + k * _WIDE] = vector


def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _apart(parts, place):
    """Red, green and blue of 16 pixels, which lie pixel by pixel, in fours."""
    builder = parts.builder
    fours = [parts[place + SINGLES * k].value for k in range(4)]
    channels = []
    for c in range(3):
        picked = [c + 4 * k for k in range(4)] + [16 + c + 4 * k for k in range(4)]
        halves = [shuffled(builder, *fours[k : k + 2], picked) for k in (0, 2)]
        channels.append(Lanes(builder, shuffled(builder, *halves, range(SINGLES))))
    return channels


def _put_together(parts, place, channels):
    """Store red, green and blue of 16 pixels pixel by pixel, in fours."""
    builder = parts.builder
    red, green, blue = (c.value for c in channels)
    for k in range(4):
        picked = [n for m in range(4 * k, 4 * k + 4) for n in (m, m + SINGLES)]
        both = shuffled(builder, red, green, picked)  # red and green in turns
        last = shuffled(builder, blue, blue, [m for m in range(4 * k, 4 * k + 4) for _ in (0, 1)])
        picked = [n for m in range(4) for n in (2 * m, 2 * m + 1, 8 + 2 * m, 8 + 2 * m + 1)]
        parts[place + SINGLES * k] = Lanes(builder, shuffled(builder, both, last, picked))


def _integers(parts, column):
    """The address of a column of int32."""
    start = parts.builder.gep(parts.base, [Place.of(column)])
    return parts.builder.bitcast(start, _INT.as_pointer())


def _integer(parts, place):
    return parts.builder.load(_integers(parts, place))


def _put_integers(parts, place, numbers):
    """Store whole numbers as int32."""
    store(parts, place, parts.builder.fptosi(numbers.value, _INTS))


def _four(parts, place):
    """One number of a column in four lanes."""
    builder = parts.builder
    number = builder.load(builder.gep(parts.base, [Place.of(place)]))
    one = builder.insert_element(ir.Constant(_FOUR, ir.Undefined), number, _INT(0))
    return Lanes(builder, shuffled(builder, one, one, [0] * 4))


def _texel(texels, place):
    """Red, green and blue of a texel; nothing behind them is read."""
    builder = texels.builder
    address = builder.gep(texels.base, [builder.sext(place, _LONG)])
    address = builder.bitcast(address, _FOUR.as_pointer())
    mask = ir.VectorType(ir.IntType(1), 4)
    kind = ir.FunctionType(_FOUR, [address.type, _INT, mask, _FOUR])
    load = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.load.v4f32.p0")
    three, none = ir.Constant(mask, [1, 1, 1, 0]), ir.Constant(_FOUR, [0.0] * 4)
    return Lanes(builder, builder.call(load, [address, _INT(4), three, none]))


# ---------------------------------------------------------------------------------------------
# The numbers of a face
# ---------------------------------------------------------------------------------------------


@inner()
def put_place(own, place, axis, out):
    """Fill in where a face is in its texture along one axis; returns how many texels it uses."""
    size = float(place[2 - axis])
    t0, t1, t2 = float(own[UV + axis]), float(own[UV + axis + 2]), float(own[UV + axis + 4])
    if axis == 1:
        t0, t1, t2 = 1.0 - t0, 1.0 - t1, 1.0 - t2
    t0, t1, t2 = t0 * size - 0.5, t1 * size - 0.5, t2 * size - 0.5
    low = np.floor(min(t0, t1, t2))
    first = low - np.floor(low / size) * size
    last = np.floor(max(t0, t1, t2) - low)
    out[_PLACES + 3 * axis] = np.float32(t0 - low)
    out[_PLACES + 3 * axis + 1] = np.float32(t1 - low)
    out[_PLACES + 3 * axis + 2] = np.float32(t2 - low)
    out[_FIRST + axis] = np.float32(first if 0.0 <= first < size else 0.0)
    out[_LAST + axis] = np.float32(last)
    out[_SIZE + axis], out[_INVERSE_SIZE + axis] = np.float32(size), np.float32(1.0 / size)
    return np.int64(last) + 2


@inner()
def put_look(own, surface, light, place, out):
    """Fill in the numbers of a face that its look needs; returns how many texels lie side by side.

    Args:
        own: its attributes, see `softmax_kernels`.
        surface: see there.
        light: of its image.
        place: of its texture.
        out: the numbers.
    """
    across = np.int64(0)
    if surface[TEXTURED] != 0.0:
        across = put_place(own, place, 0, out)
        put_place(own, place, 1, out)
    if surface[SMOOTH] != 0.0:
        for c in range(3):
            out[_LIGHT + c] = light[LIGHT + c]
        out[_AMBIENT], out[_DIFFUSE] = np.float32(surface[AMBIENT]), np.float32(surface[DIFFUSE])
        out[_SPECULAR] = np.float32(surface[SPECULAR])
        out[_SHININESS] = np.float32(surface[SHININESS])
        for k in range(9):
            out[_NORMALS + k] = own[NORMAL + k]
        if surface[GLOSSY] != 0.0:
            for k in range(9):
                eye = light[EYE + k % 3]
                if surface[ORTHOGRAPHIC] == 0.0:
                    eye = eye - own[POSITION + k]
                out[_TO_EYE + k] = eye
    return across


# ---------------------------------------------------------------------------------------------
# Colours
# ---------------------------------------------------------------------------------------------


@lanewise
def _weigh(count, a, cutoff, numbers, block, parts):
    """Weights of the corners, and the exponentials of the softmax."""
    with over(count) as k:
        i = k * SINGLES
        weights = corner_weights(*places(i, block, numbers), *inverses(numbers))[:3]
        _put_three(parts, i + _W, weights)
        parts[i + _HEIGHT] = where(a[i] > cutoff, exp(mixed(weights, numbers, EXPONENTS)), 0.0)


@lanewise
def _find(count, across, numbers, parts):
    """The four texels around the pixels of tiles; textures repeat beyond their borders."""
    with over(count) as k:
        i = k * SINGLES
        weights = _three(parts, i + _W)
        steps, columns, rows = [], [], []
        for axis, found in enumerate((columns, rows)):
            size = numbers.all(_SIZE + axis)
            at = mixed(weights, numbers, _PLACES + 3 * axis)
            whole, last = floor(at), numbers.all(_LAST + axis)
            whole = where(whole > 0.0, where(whole < last, whole, last), 0.0)
            parts[i + (_BETWEEN + axis * _WIDE)] = at - whole
            steps.append(whole)
            here = whole + numbers.all(_FIRST + axis)
            here = here - size * floor(here * numbers.all(_INVERSE_SIZE + axis))
            here = where(here < 0.0, here + size, here)  # rounding
            here = where(here >= size, here - size, here)
            beside = here + 1.0
            found += [here, where(beside >= size, 0.0, beside)]
        builder = parts.builder

        def integers(x):
            return builder.fptosi(x.value, _INTS)

        width = integers(numbers.all(_SIZE))
        three = ir.Constant(_INTS, [3] * SINGLES)
        rows = [builder.mul(integers(y), width) for y in rows]
        columns = [integers(x) for x in columns]
        for n in range(4):
            texel = builder.mul(builder.add(rows[n // 2], columns[n % 2]), three)
            store(parts, i + (_TEXELS + n * _WIDE), texel)
        step = Lanes(builder, builder.sitofp(_splat(across), _FLOATS))
        # Exact: a face uses fewer than 2^24 texels.
        _put_integers(parts, i + _PATCH, steps[1] * step + steps[0])


def _splat(place):
    """An integer as int32 in all lanes."""
    builder = place.builder
    one = builder.insert_element(
        ir.Constant(_INTS, ir.Undefined), builder.trunc(place.value, _INT), _INT(0)
    )
    return shuffled(builder, one, one, [0] * SINGLES)


def _sampling(slopes):
    """A step that reads the texture at so many pixels, and its slopes per texel."""

    def step(count, texels, parts):
        with over(count) as k:
            a, b, c, d = (
                _texel(texels, _integer(parts, k + (_TEXELS + n * _WIDE))) for n in range(4)
            )
            fx, fy = (_four(parts, k + (_BETWEEN + n * _WIDE)) for n in (0, 1))
            right, down = b - a, c - a
            twist = (d - c) - right
            down = down + fx * twist
            store(parts, k * 4 + _T, ((a + fx * right) + fy * down).value)
            if slopes:
                store(parts, k * 4 + _RIGHT, (right + fy * twist).value)
                store(parts, k * 4 + _DOWN, down.value)

    return lanewise(step)


_sample, _sample_slopes = _sampling(False), _sampling(True)


def _unit(vector):
    """A vector scaled to length 1, and the inverse of its length; both 0 for the vector 0."""
    square = _dot(vector, vector)
    there = square > 0.0
    inverse = where(there, 1.0 / sqrt(where(there, square, 1.0)), 0.0)
    return [x * inverse for x in vector], inverse


def _vectors(weights, numbers, column):
    return [mixed(weights, numbers, column + c, 3) for c in range(3)]


def _lighting(glossy):
    """A step that fills in factor and highlight of the light at tiles; see `Lighting`."""

    def step(count, numbers, parts):
        with over(count) as k:
            i = k * SINGLES
            weights = _three(parts, i + _W)
            normal, inverse = _unit(_vectors(weights, numbers, _NORMALS))
            _put_three(parts, i + _N, normal)
            parts[i + (_N + 3 * _WIDE)] = inverse
            light = [numbers.all(_LIGHT + c) for c in range(3)]
            facing = _dot(normal, light)
            lit = where(facing > 0.0, facing, 0.0)
            parts[i + _FACTOR] = numbers.all(_AMBIENT) + numbers.all(_DIFFUSE) * lit
            if glossy:
                to_eye, nearness = _unit(_vectors(weights, numbers, _TO_EYE))
                _put_three(parts, i + _E, to_eye)
                parts[i + (_E + 3 * _WIDE)] = nearness
                glance = 2.0 * facing * _dot(normal, to_eye) - _dot(light, to_eye)
                seen = (facing > 0.0) & (glance > 0.0)
                glance = where(seen, glance, 1.0)
                before = numbers.all(_SPECULAR) * power(glance, numbers.all(_SHININESS) - 1.0)
                parts[i + _GLANCE] = where(seen, before, 0.0)
                parts[i + _HIGHLIGHT] = where(seen, before * glance, 0.0)

    return lanewise(step)


_light, _light_glossy = _lighting(False), _lighting(True)


@inner()
def new_looks():
    """The memory of tiles, filled for no texture (white) and no light (factor 1)."""
    parts = np.zeros(COLUMNS, np.float32)
    parts[_T:_RIGHT] = np.float32(1.0)
    parts[_FACTOR:_HIGHLIGHT] = np.float32(1.0)
    return parts


@inner()
def dress(count, across, a, cutoff, surface, texels, numbers, block, parts, slopes):
    """Fill in the columns of what is seen at so many tiles; the backward pass wants `slopes`."""
    _weigh(count, a, cutoff, numbers, block, parts)
    if surface[TEXTURED] != 0.0:
        _find(count, across, numbers, parts)
        if slopes:
            _sample_slopes(count * SINGLES, texels, parts)
        else:
            _sample(count * SINGLES, texels, parts)
    if surface[GLOSSY] != 0.0:
        _light_glossy(count, numbers, parts)
    elif surface[SMOOTH] != 0.0:
        _light(count, numbers, parts)


@lanewise
def add_dressed(count, a, numbers, parts, tiles, before, width, plane, sums):
    """Add the fragments of tiles to the colours and weights of their pixels."""
    with over(count) as k:
        i = k * SINGLES
        pixel = Place(k.builder, k.builder.load(k.builder.gep(tiles.base, [k.value]))) + before
        weights, texture = _three(parts, i + _W), _apart(parts, k * (4 * SINGLES) + _T)
        share = a[i] * parts[i + _HEIGHT]
        lit, highlight = share * parts[i + _FACTOR], share * parts[i + _HIGHLIGHT]
        colours = [
            lit * (mixed(weights, numbers, COLOURS + c, 3) * texture[c]) + highlight
            for c in range(3)
        ]
        add_rows([*colours, share], pixel, width, plane, sums)


# ---------------------------------------------------------------------------------------------
# Their gradients
# ---------------------------------------------------------------------------------------------


@lanewise
def _colours_backward(count, a, numbers, block, parts, tiles, width, plane, pixels, out):
    """Gradients of coverages, of colours of all kinds, and of the exponents of the softmax."""

    def body(k):
        builder, i = k.builder, k * SINGLES
        pixel = Place(builder, builder.load(builder.gep(tiles.base, [k.value])))
        *of_pixel, taken, inverse = (rows_of(pixels, pixel + plane * c, width) for c in range(READ))
        weights, texture = _three(parts, i + _W), _apart(parts, k * (4 * SINGLES) + _T)
        colours = [mixed(weights, numbers, COLOURS + c, 3) for c in range(3)]
        factor, height = parts[i + _FACTOR], parts[i + _HEIGHT] * inverse
        bright = _dot(of_pixel, [x * y for x, y in zip(colours, texture, strict=True)])
        white = of_pixel[0] + of_pixel[1] + of_pixel[2]
        onward = taken + bright * factor + white * parts[i + _HIGHLIGHT]
        block[i + GRAD] = onward * height
        share = a[i] * height
        exponent = onward * share
        parts[i + _G_FACTOR], parts[i + _G_HIGHLIGHT] = share * bright, share * white
        passed = [share * factor * g for g in of_pixel]
        of_texture = [x * y for x, y in zip(passed, colours, strict=True)]
        _put_together(parts, k * (4 * SINGLES) + _G_T, of_texture)
        passed = [x * y for x, y in zip(passed, texture, strict=True)]
        for n in range(3):
            of_weight = exponent * numbers.all(EXPONENTS + n)
            for c in range(3):
                of_weight = of_weight + passed[c] * numbers.all(COLOURS + 3 * n + c)
            parts[i + (_H + n * _WIDE)] = of_weight
        return [passed[c] * weights[n] for n in range(3) for c in range(3)] + [
            exponent * weights[n] for n in range(3)
        ]

    summed(count, 12, out, body)


@lanewise
def _texture_backward(count, numbers, parts, out):
    """Gradients of the places in the texture; and the weights of the four texels."""

    def body(k):
        i, four = k * SINGLES, k * (4 * SINGLES)
        weights, g = _three(parts, i + _W), _apart(parts, four + _G_T)
        both = [_dot(g, _apart(parts, four + column)) for column in (_RIGHT, _DOWN)]
        for n in range(3):
            of_weight = parts[i + (_H + n * _WIDE)]
            for axis in (0, 1):
                of_weight = of_weight + both[axis] * numbers.all(_PLACES + 3 * axis + n)
            parts[i + (_H + n * _WIDE)] = of_weight
        fx, fy = parts[i + _BETWEEN], parts[i + (_BETWEEN + _WIDE)]
        right, down = fx * (1.0 - fy), fy * (1.0 - fx)
        for n, part in enumerate(((1.0 - fx) * (1.0 - fy), right, down, fx * fy)):
            parts[i + (_PARTS + n * _WIDE)] = part
        return [both[axis] * weights[n] for axis in (0, 1) for n in range(3)]

    summed(count, 6, out, body)


@lanewise
def _ask_patch(count, across, parts, memory):
    """Add the gradients of the texels at so many pixels to the patch of their face."""
    with over(count) as k:
        builder = k.builder
        first = Place(builder, builder.sext(_integer(parts, k + _PATCH), _LONG))
        g = Lanes(builder, loaded(parts, k * 4 + _G_T, 4))
        for n, texel in enumerate((first, first + 1, first + across, first + across + 1)):
            part = (g * _four(parts, k + (_PARTS + n * _WIDE))).value
            address = builder.gep(memory.base, [(texel * 4).value])
            address = builder.bitcast(address, _DOUBLES.as_pointer())
            sums = builder.fadd(builder.load(address, align=8), builder.fpext(part, _DOUBLES))
            builder.store(sums, address, align=8)


def _record(count, parts, memory):
    """Store what so many pixels ask of texels; returns how many records these are."""
    builder = count.builder
    used = cgutils.alloca_once_value(builder, _LONG(0))
    with over(count) as k:
        n = builder.load(used)
        at = Place(builder, n) * _RECORD
        store(memory, at, loaded(parts, k * 4 + _G_T, 4))
        for place in range(3):
            store(memory, at + (3 + place), _integer(parts, k + (_TEXELS + place * _WIDE)))
        for axis in (0, 1):
            column = k + (_BETWEEN + axis * _WIDE)
            store(memory, at + (6 + axis), builder.load(builder.gep(parts.base, [column.value])))
        height = builder.load(builder.gep(parts.base, [(k + _HEIGHT).value]))
        counts = builder.fcmp_ordered(">", height, ir.Constant(ir.FloatType(), 0.0))
        builder.store(builder.add(n, builder.zext(counts, _LONG)), used)
    return builder.load(used)


_record = lanewise(_record, types.int64)


def _lighting_backward(glossy):
    """A step that finds the gradients of normals, and of the vectors to the eye, at tiles."""

    def tangential(g, column, i, parts):
        """The gradient of a vector, if that of length 1 has the gradient g."""
        unit, inverse = _three(parts, i + column), parts[i + (column + 3 * _WIDE)]
        inward = _dot(g, unit)
        return [(x - y * inward) * inverse for x, y in zip(g, unit, strict=True)]

    def step(count, numbers, parts):
        with over(count) as k:
            i = k * SINGLES
            light, normal = [numbers.all(_LIGHT + c) for c in range(3)], _three(parts, i + _N)
            facing = _dot(normal, light)
            of_facing = where(facing >= 0.0, parts[i + _G_FACTOR] * numbers.all(_DIFFUSE), 0.0)
            of_normal = [of_facing * x for x in light]
            if glossy:
                to_eye = _three(parts, i + _E)
                g = parts[i + _G_HIGHLIGHT] * parts[i + _GLANCE] * numbers.all(_SHININESS)
                more, bend = 2.0 * g * _dot(normal, to_eye), 2.0 * facing * g
                of_normal = [
                    x + more * y + bend * z
                    for x, y, z in zip(of_normal, light, to_eye, strict=True)
                ]
                view = [bend * x - g * y for x, y in zip(normal, light, strict=True)]
                _put_three(parts, i + _G_E, tangential(view, _E, i, parts))
            _put_three(parts, i + _G_N, tangential(of_normal, _N, i, parts))

    return lanewise(step)


_light_backward, _light_glossy_backward = _lighting_backward(False), _lighting_backward(True)


def _vectors_backward(source, column):
    """A step that passes the gradients of mixed vectors on to the corners and the weights."""

    def step(count, numbers, parts, out):
        def body(k):
            i = k * SINGLES
            g, weights = _three(parts, i + source), _three(parts, i + _W)
            for n in range(3):
                of_weight = parts[i + (_H + n * _WIDE)]
                for c in range(3):
                    of_weight = of_weight + g[c] * numbers.all(column + 3 * n + c)
                parts[i + (_H + n * _WIDE)] = of_weight
            return [g[c] * weights[n] for n in range(3) for c in range(3)]

        summed(count, 9, out, body)

    return lanewise(step)


_normals_backward = _vectors_backward(_G_N, _NORMALS)
_eyes_backward = _vectors_backward(_G_E, _TO_EYE)


@lanewise
def _weights_backward(count, numbers, block, parts, out):
    """Sums of the gradients of 1 / w, and of barycentric coordinates."""

    def body(k):
        i = k * SINGLES
        v = places(i, block, numbers)
        *of_v, of_w0, of_w1, of_w2 = corner_weights_backward(
            *v, *inverses(numbers), *_three(parts, i + _H)
        )
        return [of_w0, of_w1, of_w2] + [g * v[n] for g in of_v for n in range(3)]

    summed(count, 12, out, body)


@inner()
def dressed_backward(
    count, across, a, surface, numbers, block, parts, tiles, width, plane, pixels, sums
):
    """Gradients of tiles, after `dress`: of their coverages, and the sums for their face."""
    _colours_backward(
        count, a, numbers, block, parts, tiles, width, plane, pixels, shifted(sums, OF_COLOURS)
    )
    if surface[TEXTURED] != 0.0:
        _texture_backward(count, numbers, parts, shifted(sums, OF_UVS))
    if surface[GLOSSY] != 0.0:
        _light_glossy_backward(count, numbers, parts)
        _eyes_backward(count, numbers, parts, shifted(sums, OF_POSITIONS))
        _normals_backward(count, numbers, parts, shifted(sums, OF_NORMALS))
    elif surface[SMOOTH] != 0.0:
        _light_backward(count, numbers, parts)
        _normals_backward(count, numbers, parts, shifted(sums, OF_NORMALS))
    _weights_backward(count, numbers, block, parts, shifted(sums, OF_W))


@inner()
def move_look(surface, place, sums, out):
    """Add the sums of tiles to the gradients of the attributes of their face."""
    if surface[TEXTURED] != 0.0:
        for k in range(3):
            out[UV + 2 * k] += np.float32(sums[OF_UVS + k] * place[2])
            out[UV + 2 * k + 1] -= np.float32(sums[OF_UVS + 3 + k] * place[1])
    if surface[SMOOTH] != 0.0:
        for k in range(9):
            out[NORMAL + k] += np.float32(sums[OF_NORMALS + k])
        if surface[GLOSSY] != 0.0 and surface[ORTHOGRAPHIC] == 0.0:
            for k in range(9):
                out[POSITION + k] -= np.float32(sums[OF_POSITIONS + k])


# ---------------------------------------------------------------------------------------------
# Gradients of texels
# ---------------------------------------------------------------------------------------------


@kernel()
def plan_looks(boxes, image_of_face, attributes, textures, needed, patches, start, stop):
    """Plan how faces start .. stop - 1 store gradients of texels, and the memory for them.

    A face only uses texels between its corners in the texture. Their gradients are kept as a patch,
    unless records of its fragments are fewer.
    """
    numbers = np.zeros(NUMBERS, np.float32)
    out = pointer(numbers)
    for f in range(start, stop):
        own = shifted(pointer(attributes), attributes.shape[1] * f)
        place = shifted(pointer(textures), 3 * image_of_face[f])
        across, down = put_place(own, place, 0, out), put_place(own, place, 1, out)
        wide, tall = max(boxes[f, 1] - boxes[f, 0], 0), max(boxes[f, 3] - boxes[f, 2], 0)
        if across * down <= wide * tall:
            patches[f, LEFT], patches[f, TOP] = np.int64(out[_FIRST]), np.int64(out[_FIRST + 1])
            patches[f, ACROSS], patches[f, DOWN] = across, down
            needed[f] = 4 * across * down
        else:
            # Whole tiles; a record that does not count is overwritten by the next one.
            wide, tall = (wide + SIDE - 1) // SIDE * SIDE, (tall + SIDE - 1) // SIDE * SIDE
            needed[f] = _ROOM * (np.int64(wide) * tall + 1)
    numbers[0] = 0.0  # see `softmax_rows`


@inner()
def begin_asking(asked, start, stop):
    """Clear the patches of the faces start .. stop - 1."""
    memory, _, slots, _, patches, first_face = asked
    for f in range(start, stop):
        slot, n = slots[f - first_face], 4 * patches[f, ACROSS] * patches[f, DOWN]
        memory[slot : slot + n] = 0.0


@inner()
def ask(count, f, parts, asked):
    """Store the gradients of the texels of tiles, in a patch or as records."""
    memory, records, slots, used, patches, first_face = asked
    slot, across = slots[f - first_face], patches[f, ACROSS]
    if across > 0:
        _ask_patch(count * SINGLES, across, parts, shifted(pointer(memory), slot))
    else:
        at = 2 * slot + _RECORD * used[f - first_face]
        room = shifted(pointer(records), at)
        used[f - first_face] += _record(count * SINGLES, parts, room)


@kernel()
def scatter_looks(asked, integers, last_face, image_of_face, textures, out, start, stop):
    """Add the patches and records of the faces up to `last_face` to texels [N, 3], in order.

    Only those of start .. stop - 1 are written. `integers` are the records as int32.
    """
    memory, records, slots, used, patches, first_face = asked
    for f in range(first_face, last_face):
        image, at = image_of_face[f], slots[f - first_face]
        first, height, width = textures[image, 0], textures[image, 1], textures[image, 2]
        if first >= stop or first + height * width <= start:
            continue
        across = patches[f, ACROSS]
        for i in range(patches[f, DOWN]):
            row, column = first + (patches[f, TOP] + i) % height * width, patches[f, LEFT]
            if row >= stop or row + width <= start:
                continue
            for j in range(across):
                if start <= row + column < stop:
                    for c in range(3):
                        out[row + column, c] += memory[at + 4 * (i * across + j) + c]
                column = column + 1 if column + 1 < width else 0
        for k in range(used[f - first_face]):
            n = 2 * at + _RECORD * k
            a, b, d = integers[n + 3] // 3, integers[n + 4] // 3, integers[n + 5] // 3
            fx, fy = np.float64(records[n + 6]), np.float64(records[n + 7])
            for texel, part in (
                (first + a, (1.0 - fx) * (1.0 - fy)), (first + b, fx * (1.0 - fy)),
                (first + d, (1.0 - fx) * fy), (first + b + d - a, fx * fy),
            ):  # fmt: skip
                if start <= texel < stop:
                    for c in range(3):
                        out[texel, c] += part * records[n + c]
