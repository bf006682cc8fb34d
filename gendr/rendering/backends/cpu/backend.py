"""The CPU backend: sparse, parallel, compiled at run time by Numba; deterministic.

Silhouettes and softmax colours are one kernel each, forward and backward, and nothing of size
pixels x faces exists in memory. For CDFs of the user's own, and for colours of faces that the near
plane cuts, the pairs within the search radius are listed, a bounded run of rows at a time. This
backend is once differentiable; the reference backend gives second derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from gendr._runtime.numba.compilation import available as available
from gendr._runtime.numba.compilation import supports as supports
from gendr._runtime.threads import run
from gendr._runtime.threads import (
    set_num_threads as set_num_threads,  # exists here since the first release
)
from gendr.rendering.aggregation import Aggregation
from gendr.rendering.backends import reference
from gendr.rendering.backends.cpu.tables import (
    CompiledFormulas,
    in_shape_of,
    narrowed,
    number_of,
    once,
    pixel_grid,
    sums_per_image,
    tables_of,
)
from gendr.rendering.coverage import Coverage
from gendr.rendering.fragments import PixelPairs
from gendr.rendering.geometry import ImageSize, ScreenFaces, Surfaces

if TYPE_CHECKING:
    from gendr.rendering.shading import Appearance

TAKES_ANY_CDF = False
CAN_BE_CAPTURED = False
project, settings = reference.project, reference.settings


# ---------------------------------------------------------------------------------------------
# Silhouettes
# ---------------------------------------------------------------------------------------------


def alpha(faces: ScreenFaces, size: ImageSize, aggregation: Aggregation) -> Tensor:
    """Coverage of every pixel, [B, H, W]."""
    coverage = aggregation.coverage
    zero = coverage.scale.new_zeros(())
    shift, shape = coverage.dist.total_shift(), coverage.dist.shape_parameter
    p = aggregation.tconorm.given_p
    shift, shape, p = (
        x if isinstance(x, Tensor) else zero.detach() for x in (shift, shape, p)
    )  # plain numbers are read from `aggregation`
    flat = cast(
        Tensor,
        _Alpha.apply(faces.corners, coverage.scale, shift, shape, p, faces, size, aggregation),
    )
    return flat.reshape(faces.images, size.height, size.width)


class _Alpha(torch.autograd.Function):
    """The fused silhouette: totals per pixel forward, gradients per face backward."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        corners: Tensor,
        scale: Tensor,
        shift: Tensor,
        shape: Tensor,
        p: Tensor,
        faces: ScreenFaces,
        size: ImageSize,
        aggregation: Aggregation,
    ) -> Tensor:
        from gendr.rendering.backends.cpu import kernels

        wanted = ctx.needs_input_grad
        compiled = CompiledFormulas.of(
            aggregation.coverage.dist, aggregation.tconorm, scalars=any(wanted[1:]),
            shape=wanted[3], p=wanted[4],
        )  # fmt: skip
        counts = np.maximum(np.asarray(faces.present_counts, np.float64), 1.0)
        p_number = aggregation.tconorm.given_p
        columns = {
            kernels.SCALE: scale.detach().to(torch.float64).numpy(),
            kernels.SHIFT: number_of(aggregation.coverage.dist.total_shift()),
            kernels.FAMILY_P: 1.0 / counts if compiled.kind == "mean" else number_of(p_number),
        }
        tables = tables_of(faces, size, aggregation.coverage.radius(), columns)
        pixels = faces.images * size.pixels
        totals, ties = np.zeros(pixels), np.zeros(pixels, np.int32)
        run(
            kernels.alpha_rows, faces.images * size.height, tables.corners, tables.offsets,
            tables.boxes, tables.images, tables.grid, compiled.law, compiled.addresses,
            compiled.shape, aggregation.coverage.cutoff, totals, ties,
        )  # fmt: skip
        total = torch.from_numpy(totals)
        if compiled.kind == "max":
            a, s = total, 1.0 - total
        elif compiled.kind == "mean":
            per_pixel = torch.from_numpy(np.repeat(counts, size.pixels))
            a, s = total / per_pixel, torch.ones_like(total)
        else:
            a, s = aggregation.tconorm.inverse(total)
        ctx.aggregation, ctx.tables, ctx.compiled = aggregation, tables, compiled
        ctx.save_for_backward(corners, scale, shift, shape, p, a, s, torch.from_numpy(ties))
        return a.to(corners.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        from gendr.rendering.backends.cpu import kernels

        corners, scale, shift, shape, p, *pixels = ctx.saved_tensors
        a, s, ties = (t.detach() for t in pixels)  # for float64 the output itself was saved
        aggregation, tables, compiled = ctx.aggregation, ctx.tables, ctx.compiled
        # A saturated pixel has no gradient.
        pixel_grads = torch.where(s > 0, grad.detach().to(torch.float64), 0.0).contiguous()
        count = len(tables.corners)
        grad_corners = np.zeros_like(tables.corners)
        scalars = any(ctx.needs_input_grad[1:5])
        grad_scalars = np.zeros((count if scalars else 0, kernels.GRAD_COLUMNS))
        run(
            kernels.backward_faces, count, tables.corners, tables.offsets, tables.image_of_face,
            tables.boxes, tables.images, tables.grid, compiled.law, compiled.addresses,
            compiled.shape, aggregation.coverage.cutoff, pixel_grads.numpy(), a.numpy(), s.numpy(),
            ties.numpy(), grad_corners, grad_scalars,
        )  # fmt: skip
        grads: list[Tensor | None] = [narrowed(grad_corners, corners.dtype)] + [None] * 4
        if scalars:
            per_image = sums_per_image(grad_scalars, tables.offsets)
            grads[1] = narrowed(per_image[:, kernels.GRAD_SCALE], scale.dtype)
            grads[2] = in_shape_of(shift, per_image[:, kernels.GRAD_SHIFT].sum())
            grads[3] = in_shape_of(shape, per_image[:, kernels.GRAD_SHAPE].sum())
            if ctx.needs_input_grad[4]:
                through_total = (pixel_grads * aggregation.tconorm.weight_p(a, s, a, s)).sum()
                grads[4] = in_shape_of(p, per_image[:, kernels.GRAD_P].sum() - through_total)
        return *once(tuple(grads), (grad, corners, scale, shift, shape, p)), None, None, None


# ---------------------------------------------------------------------------------------------
# Lists of pairs, and the nearest face
# ---------------------------------------------------------------------------------------------


def pairs(
    faces: ScreenFaces, size: ImageSize, radius: Tensor, limit: int
) -> list[Callable[[], PixelPairs]]:
    """The (pixel, face) pairs within the radius, in runs of rows with about `limit` pairs each.

    Pairs are ordered by row, and within a row by face. A run is a function that lists its pairs
    when it is called, so that only one list needs to be in memory.
    """
    from gendr.rendering.backends.cpu import kernels

    tables = tables_of(faces, size, radius)
    rows = faces.images * size.height
    counts = np.zeros(rows, np.int64)
    common = (tables.corners, tables.offsets, tables.boxes, tables.images, tables.grid)
    run(kernels.count_rows, rows, *common, counts)

    def listing(first: int, last: int) -> PixelPairs:
        slots = np.cumsum(counts[first:last]) - counts[first:last]
        room = int(counts[first:last].sum())
        pixels, face = np.empty(room, np.int64), np.empty(room, np.int64)
        used = np.zeros(last - first, np.int64)

        def kernel(start: int, stop: int) -> None:
            here = slice(start, stop)
            kernels.list_rows(
                *common, pixels, face, used[here], slots[here], first + start, first + stop
            )

        run(kernel, last - first)
        filled = np.repeat(slots, used) + _ranges(used)
        return PixelPairs(
            torch.from_numpy(pixels[filled]),
            torch.from_numpy(face[filled]),
            first * size.width,
            last * size.width,
        )

    runs = []
    running = np.concatenate([[0], np.cumsum(counts)])
    first = 0
    while first < rows:
        last = int(np.searchsorted(running, running[first] + limit, "right")) - 1
        last = min(max(last, first + 1), rows)
        runs.append(partial(listing, first, last))
        first = last
    return runs


def _ranges(counts: np.ndarray) -> np.ndarray:
    """The ranges 0 .. c - 1 for every c of counts, concatenated."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def distance(faces: ScreenFaces, size: ImageSize, pixels: Tensor, face: Tensor) -> Tensor:
    """Signed distance [K] of listed pairs, differentiable in the corners."""
    return cast(Tensor, _PairDistance.apply(faces.corners, pixels, face, size))


class _PairDistance(torch.autograd.Function):
    """`fragments.signed_distance` of listed pairs, in one pass and without temporaries."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, corners: Tensor, pixels: Tensor, face: Tensor, size: ImageSize
    ) -> Tensor:
        from gendr.rendering.backends.cpu import kernels

        wide = corners.detach().to(torch.float64).contiguous()
        count = len(pixels)
        out = torch.empty(count, dtype=torch.float64)
        feet = torch.empty(count, 4, dtype=torch.float64)
        run(
            kernels.pair_distances, count, wide.numpy(), pixels.numpy(), face.numpy(),
            pixel_grid(size), out.numpy(), feet.numpy(),
        )  # fmt: skip
        ctx.save_for_backward(corners, face, feet)
        return out.to(corners.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        from gendr.rendering.backends.cpu import kernels

        corners, face, feet = ctx.saved_tensors
        out = torch.zeros(corners.shape, dtype=torch.float64)
        flat = grad.detach().to(torch.float64).contiguous()
        kernels.pair_gradients(face.numpy(), feet.numpy(), flat.numpy(), out.numpy())
        return *once((narrowed(out, corners.dtype),), (grad, corners)), None, None, None


def gather(values: Tensor, index: Tensor) -> Tensor:
    """values[index] for values [T, ...]; the backward pass sums in a fixed order."""
    return cast(Tensor, _Gather.apply(values, index))


class _Gather(torch.autograd.Function):
    """Rows by index, with a backward pass that gives the same bits every time."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(index)
        ctx.shape = values.shape
        return values.detach().index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        from gendr.rendering.backends.cpu import kernels

        (index,) = ctx.saved_tensors
        width = prod(ctx.shape[1:])
        out = torch.zeros(ctx.shape, dtype=torch.float64).reshape(-1, width)
        flat = grad.detach().to(torch.float64).reshape(-1, width).contiguous()
        kernels.scatter_rows(index.numpy(), flat.numpy(), out.numpy())
        (result,) = once((narrowed(out.reshape(ctx.shape), grad.dtype),), (grad,))
        assert result is not None
        return result, None


def softmax(
    faces: ScreenFaces, surfaces: Surfaces, appearance: Appearance, size: ImageSize,
    coverage: Coverage, rate: Tensor, backdrop: float,
) -> tuple[Tensor, Tensor] | None:  # fmt: skip
    """Colours without the part of the background, and its share; see `softmax` in softmax.py.

    Returns None if the near plane cuts faces: they are shaded from lists of pairs.
    """
    from gendr.rendering.backends.cpu import softmax as fused

    if surfaces.was_clipped is not None:
        return None
    return fused.softmax(faces, surfaces, appearance, size, coverage, rate, backdrop)


def nearest(faces: ScreenFaces, size: ImageSize, planes: Tensor, limits: Tensor) -> Tensor:
    """The nearest face that covers each pixel; arguments and result as in the reference."""
    from gendr.rendering.backends.cpu import kernels

    tables = tables_of(faces, size, torch.zeros(faces.images))
    pixels = faces.images * size.pixels
    keys, face = np.zeros(pixels), np.full(pixels, -1, np.int64)
    run(
        kernels.nearest_rows, faces.images * size.height, tables.corners, tables.offsets,
        tables.boxes, tables.images, tables.grid, planes.contiguous().numpy(),
        limits.contiguous().numpy(), keys, face,
    )  # fmt: skip
    return torch.from_numpy(face).reshape(faces.images, size.height, size.width)
