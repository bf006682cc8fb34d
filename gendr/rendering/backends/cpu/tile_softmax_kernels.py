"""Softmax colours in float32, by tiles.

The walk, the coverage and the gradients of distances are those of silhouettes (`tile_kernels`).
Faces whose looks are the colours of their corners are done in registers; textures and light that
changes over a face are those of `tile_look_kernels`. The exponents of the softmax count from the
nearest depth of the scene, so that they have all digits of the differences of depths, and nothing
overflows.

Source: Liu et al., Soft Rasterizer (2019), the softmax over depth.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportArgumentType=false

from __future__ import annotations

import math

import numpy as np

from gendr.kernels.numba.calls import call_cdf, call_cdf_and_pdf, pointer, row, shifted
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.singles import exp
from gendr.kernels.numba.vectors import SINGLES, Place, lanewise, where
from gendr.rendering.backends.cpu.kernels import RADIUS
from gendr.rendering.backends.cpu.records import Formulas
from gendr.rendering.backends.cpu.softmax_kernels import (
    COLOUR,
    DEPTH,
    SMOOTH,
    TEXTURED,
    W,
    has_area,
)
from gendr.rendering.backends.cpu.tile_kernels import (
    ACROSS,
    ARGUMENT,
    CDF,
    DISC,
    DOWN,
    FACE,
    FRAME,
    GRAD,
    LENGTH,
    PARTS,
    PDF,
    ROW,
    SF,
    SIDE,
    STRIDE,
    TILES,
    WEIGHT,
    arguments,
    move_three,
    new_block,
    next_tiles,
    per_pixel,
    rows_of,
    through,
    through_squared,
)
from gendr.rendering.backends.cpu.tile_look_kernels import (
    ALL_SUMS,
    CHANNELS,
    COLOURS,
    EXPONENTS,
    HEIGHTS,
    INVERSE_W,
    LOOK_TILES,
    NUMBERS,
    OF_COLOURS,
    OF_EXPONENTS,
    OF_PLACES,
    OF_W,
    READ,
    SUMS,
    THIRD,
    add_dressed,
    add_rows,
    ask,
    begin_asking,
    corner_weights,
    corner_weights_backward,
    dress,
    dressed_backward,
    inverses,
    mixed,
    move_look,
    new_looks,
    places,
    put_look,
    summed,
)


@inner()
def _numbers(corners, own, f, frame, half, rate, nearest, out):
    """Fill in the numbers of a face, from its frame and attributes."""
    area, at = frame[DISC + 4], shifted(corners, 6 * f)
    solid = has_area(area / (half * half), at[0], at[1], at[2], at[3], at[4], at[5])
    for k in range(3):
        w, edge = own[W + k], frame[LENGTH + 4 + (k + 1) % 3]
        out[INVERSE_W + k] = np.float32(1.0) / w if w > 0.0 else np.float32(1.0)
        out[HEIGHTS + k] = np.float32(edge / area) if solid else np.float32(0.0)
        exponent = (nearest - own[DEPTH + k]) * rate
        out[EXPONENTS + k] = np.float32(exponent)
        for c in range(3):
            out[COLOURS + 3 * k + c] = own[COLOUR + 3 * k + c]
    out[THIRD] = np.float32(0.0) if solid else np.float32(1.0 / 3.0)


@lanewise
def _add(i, a, cutoff, numbers, block, pixel, width, plane, sums):
    """Add a fragment to the colours and weights of the pixels of a tile."""
    weights = corner_weights(*places(i, block, numbers), *inverses(numbers))[:3]
    share = where(a[i] > cutoff, a[i] * exp(mixed(weights, numbers, EXPONENTS)), 0.0)
    parts = [share * mixed(weights, numbers, COLOURS + c, 3) for c in range(3)]
    add_rows((*parts, share), pixel, width, plane, sums)


@inner()
def _is_dressed(surface):
    return (surface[TEXTURED] != 0.0) | (surface[SMOOTH] != 0.0)


@kernel()
def softmax_tiles(
    corners, offsets, boxes, images, size, formulas, attributes, depths, paint, sums, colours,
    shares, start, stop,
):  # fmt: skip
    """Colours of the rows of tiles start .. stop - 1.

    Args:
        corners: float32 [T, 3, 2].
        offsets: of the faces of images; and so on, see `alpha_tiles`.
        boxes: see there.
        images: see there.
        size: see there.
        formulas: see there.
        attributes: float32 [T, <= 39], see `softmax_kernels`.
        depths: float64, the rate of the softmax, the nearest depth, and that of the background.
        paint: surface, lights, texels and textures, see `softmax_kernels.softmax_faces`.
        sums: float32 [4, B H + 1, W] of whole tiles: colours, and one over the sum of weights.
        colours: float32 [B, H, W, 3], without the part of the background.
        shares: float32 [B, H, W], that of the background.
        start: a row of tiles, of all images.
        stop: one past the last.
    """
    formulas = Formulas(*formulas)
    height, width = size
    down = (height + SIDE - 1) // SIDE
    half, cutoff = 0.5 * min(height, width), np.float32(formulas.cutoff)
    block, memory = new_block(), np.zeros(NUMBERS, np.float32)
    surface, lights, texels, textures = paint
    dressed, looks, numbers = _is_dressed(surface), new_looks(), pointer(memory)
    parts = pointer(looks)
    cursor, columns, tiles, starts, faces, frames = block[:6]
    cdf, sf = shifted(columns, CDF), shifted(columns, SF)
    a = sf if formulas.reversed else cdf
    # A tile may reach beyond the rows, by less than its side.
    wide = sums.shape[2]
    own = np.empty((CHANNELS, (min(stop - start, down) + 2) * SIDE, wide), np.float32)
    behind = np.float32(math.exp(max((depths[1] - depths[2]) * depths[0], -700.0)))
    for b in range(start // down, (stop - 1) // down + 1):
        rows = (SIDE * max(start - b * down, 0), SIDE * min(stop - b * down, down))
        cursor[FACE], cursor[ROW], image = offsets[b], -1, images[b]
        before = b * down * SIDE + rows[0] - SIDE
        own[:] = np.float32(0.0)
        while True:
            n = next_tiles(
                corners, boxes, offsets[b + 1], rows, b, image[RADIUS], size, wide, block, False,
                True,
            )  # fmt: skip
            if cursor[PARTS] == 0:
                break
            arguments(n * SINGLES, image, formulas, size, columns)
            call_cdf(formulas.cdf, shifted(columns, ARGUMENT), n * SINGLES, formulas.shape, cdf, sf)
            for p in range(cursor[PARTS]):
                if starts[p] == starts[p + 1]:
                    continue
                attribute = row(attributes, faces[p])
                _numbers(
                    pointer(corners), attribute, faces[p], shifted(frames, FRAME * p), half,
                    depths[0], depths[1], numbers,
                )  # fmt: skip
                if dressed:
                    place = row(textures, b)
                    across = put_look(attribute, surface, row(lights, b), place, numbers)
                    for k in range(starts[p], starts[p + 1], LOOK_TILES):
                        count, first = min(starts[p + 1] - k, LOOK_TILES), k * SINGLES
                        dress(
                            count, across, shifted(a, first), cutoff, surface,
                            shifted(pointer(texels), 3 * place[0]), numbers,
                            shifted(columns, first), parts, False,
                        )  # fmt: skip
                        add_dressed(
                            count, shifted(a, first), numbers, parts, shifted(tiles, k),
                            -before * wide, wide, own.shape[1] * wide, pointer(own),
                        )  # fmt: skip
                    continue
                for k in range(starts[p], starts[p + 1]):
                    _add(
                        k * SINGLES, a, cutoff, numbers, columns, tiles[k] - before * wide, wide,
                        own.shape[1] * wide, pointer(own),
                    )  # fmt: skip
        for y in range(rows[0], min(rows[1], height)):
            i = b * down * SIDE + y
            k = i - before
            for x in range(width):
                pixel = (b * height + y) * width + x
                # What is seen weighs e^-80 and more; the background alone may be subnormal.
                seen = own[3, k, x]
                inverse = np.float32(1.0) / (seen + behind) if seen > 0.0 else np.float32(0.0)
                for c in range(3):
                    sums[c, i, x] = own[c, k, x] * inverse
                    colours[3 * pixel + c] = sums[c, i, x]
                sums[3, i, x] = inverse
                shares[pixel] = behind * inverse if inverse > 0.0 else np.float32(1.0)
    memory[0], looks[0] = np.float32(0.0), np.float32(0.0)  # see `softmax_kernels.softmax_rows`


@kernel()
def take_softmax_gradients(grads, share_grads, sums, shares, size, read, start, stop):
    """Fill in what the backward pass reads of the pixels of rows of tiles.

    Args:
        grads: float32 [B, H, W, 3], of colours.
        share_grads: float32 [B, H, W], of the share of the background.
        sums: as `softmax_tiles` leaves them.
        shares: of the background.
        size: height and width.
        read: float32 [5, B H + 1, W] of whole tiles: the gradients of red, green and blue; what a
            fragment takes from the others of its pixel; one over the sum of weights. 0 before.
        start: a row of tiles, of all images.
        stop: one past the last.
    """
    height, width = size
    down = (height + SIDE - 1) // SIDE
    for t in range(start, stop):
        first, count = t // down * height + t % down * SIDE, min(SIDE, height - t % down * SIDE)
        for y in range(count):
            i = t * SIDE + y
            for x in range(width):
                pixel = (first + y) * width + x
                taken = -share_grads[pixel] * shares[pixel]
                for c in range(3):
                    read[c, i, x] = grads[3 * pixel + c]
                    taken -= grads[3 * pixel + c] * sums[c, i, x]
                read[3, i, x], read[4, i, x] = taken, sums[3, i, x]


@lanewise
def _backward(count, a, cutoff, numbers, block, tiles, width, plane, pixels, out):
    """Gradients of tiles: of their coverages, and the sums for their face."""

    def body(k):
        builder, i = k.builder, k * SINGLES
        pixel = Place(builder, builder.load(builder.gep(tiles.base, [k.value])))
        v, inverse_w = places(i, block, numbers), inverses(numbers)
        weights = corner_weights(*v, *inverse_w)[:3]
        *of_pixel, taken, inverse = (rows_of(pixels, pixel + plane * c, width) for c in range(READ))
        height = exp(mixed(weights, numbers, EXPONENTS)) * inverse
        height = where(a[i] > cutoff, height, 0.0)
        onward = taken
        for c in range(3):
            onward = onward + of_pixel[c] * mixed(weights, numbers, COLOURS + c, 3)
        block[i + GRAD] = onward * height
        share = a[i] * height
        exponent = onward * share
        passed = [share * g for g in of_pixel]
        of_weights = []
        for n in range(3):
            of_weight = exponent * numbers.all(EXPONENTS + n)
            for c in range(3):
                of_weight = of_weight + passed[c] * numbers.all(COLOURS + 3 * n + c)
            of_weights.append(of_weight)
        *of_v, of_w0, of_w1, of_w2 = corner_weights_backward(*v, *inverse_w, *of_weights)
        terms = [passed[c] * weights[n] for n in range(3) for c in range(3)]
        terms += [exponent * weights[n] for n in range(3)]
        terms += [of_w0, of_w1, of_w2]
        return terms + [g * v[n] for g in of_v for n in range(3)]

    summed(count, SUMS, out, body)


@inner()
def _move(at, frame, half, rate, numbers, sums, own, out, corners):
    """Add the sums of tiles to the gradients of their face, and to its corners from `at` on."""
    for k in range(3):
        for c in range(3):
            out[COLOUR + 3 * k + c] += np.float32(sums[OF_COLOURS + 3 * k + c])
        out[DEPTH + k] -= np.float32(sums[OF_EXPONENTS + k] * rate)
        inverse = numbers[INVERSE_W + k]
        if own[W + k] > 0.0:
            out[W + k] -= np.float32(sums[OF_W + k] * inverse * inverse)
        # Corner j moves coordinate k by - v_j times the slope of coordinate k.
        edge = (k + 1) % 3
        height = numbers[HEIGHTS + k] * half / SIDE
        dx, dy = frame[ACROSS + edge] * height, -frame[DOWN + edge] * height
        for j in range(3):
            corners[at + 2 * j] -= np.float32(sums[OF_PLACES + 3 * k + j] * dx)
            corners[at + 2 * j + 1] -= np.float32(sums[OF_PLACES + 3 * k + j] * dy)


@kernel()
def softmax_faces(
    corners, offsets, image_of_face, boxes, images, size, formulas, attributes, depths, paint,
    read, grad_corners, grad_attributes, asked, start, stop,
):  # fmt: skip
    """Gradients of the faces start .. stop - 1.

    Args:
        corners: and all others as for `softmax_tiles` and `take_softmax_gradients`.
        offsets: see there.
        image_of_face: [T].
        boxes: see there.
        images: see there.
        size: see there.
        formulas: see there.
        attributes: see there.
        depths: see there.
        paint: see there.
        read: see there.
        grad_corners: float32 [T, 3, 2], 0 before.
        grad_attributes: as attributes, 0 before.
        asked: memory for gradients of texels [R] of float64 (or empty), the same as float32, and
            slots, used, patches and a first face, see `softmax_kernels.softmax_faces`.
        start: a face.
        stop: one past the last.
    """
    formulas = Formulas(*formulas)
    rows, half = (0, (size[0] + SIDE - 1) & -SIDE), 0.5 * min(size[0], size[1])
    width = read.shape[2]
    block, memory, totals = new_block(), np.zeros(NUMBERS, np.float32), np.zeros(ALL_SUMS)
    surface, lights, texels, textures = paint
    dressed, asks, looks, across = _is_dressed(surface), len(asked[0]) > 0, new_looks(), 0
    numbers, sums, parts = pointer(memory), pointer(totals), pointer(looks)
    cursor, columns, tiles, starts, faces, frames = block[:6]
    cdf, sf, pdf = shifted(columns, CDF), shifted(columns, SF), shifted(columns, PDF)
    a, cutoff = sf if formulas.reversed else cdf, np.float32(formulas.cutoff)
    for i in range(STRIDE):
        columns[WEIGHT + i] = np.float32(1.0)
    if asks:
        begin_asking(asked, start, stop)
    for b in range(image_of_face[start], image_of_face[stop - 1] + 1):
        last, image = min(stop, offsets[b + 1]), images[b]
        cursor[FACE], cursor[ROW] = max(start, offsets[b]), -1
        slope = np.float32(per_pixel(image, formulas, size))
        while True:
            n = next_tiles(
                corners, boxes, last, rows, b, image[RADIUS], size, width, block, True, True
            )  # fmt: skip
            if cursor[PARTS] == 0:
                break
            arguments(n * SINGLES, image, formulas, size, columns)
            call_cdf_and_pdf(
                formulas.cdf_and_pdf,
                shifted(columns, ARGUMENT),
                n * SINGLES,
                formulas.shape,
                cdf,
                sf,
                pdf,
            )
            for p in range(cursor[PARTS]):
                if starts[p] == starts[p + 1]:
                    continue
                f, frame = faces[p], shifted(frames, FRAME * p)
                attribute, out = row(attributes, f), row(grad_attributes, f)
                _numbers(pointer(corners), attribute, f, frame, half, depths[0], depths[1], numbers)
                if dressed:
                    across = put_look(attribute, surface, row(lights, b), row(textures, b), numbers)
                step = LOOK_TILES if dressed else TILES
                for k in range(starts[p], starts[p + 1], step):
                    count, first = min(starts[p + 1] - k, step), k * SINGLES
                    own_a, own, pixels = (
                        shifted(a, first), shifted(columns, first), shifted(tiles, k),
                    )  # fmt: skip
                    if dressed:
                        dress(
                            count, across, own_a, cutoff, surface,
                            shifted(pointer(texels), 3 * textures[b, 0]), numbers, own, parts,
                            True,
                        )  # fmt: skip
                        dressed_backward(
                            count, across, own_a, surface, numbers, own, parts, pixels, width,
                            read.shape[1] * width, pointer(read), sums,
                        )  # fmt: skip
                        move_look(surface, row(textures, b), sums, out)
                        if asks:
                            ask(count, f, parts, asked)
                    else:
                        _backward(
                            count, own_a, cutoff, numbers, own, pixels, width,
                            read.shape[1] * width, pointer(read), sums,
                        )  # fmt: skip
                    _move(
                        6 * f, frame, half, depths[0], numbers, sums, attribute, out,
                        pointer(grad_corners),
                    )  # fmt: skip
            for i in range(0, n * SINGLES, SINGLES):
                if formulas.squared:
                    through_squared(i, a, cutoff, slope, columns)
                else:
                    through(i, a, cutoff, slope, columns)
            for p in range(cursor[PARTS]):
                if starts[p] == starts[p + 1]:
                    continue
                move_three(
                    starts[p] * SINGLES, starts[p + 1] * SINGLES, columns,
                    shifted(frames, FRAME * p), half, pointer(grad_corners), faces[p] * 6,
                )  # fmt: skip
    memory[0], totals[0], looks[0] = np.float32(0.0), 0.0, np.float32(0.0)
