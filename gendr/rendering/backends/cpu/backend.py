"""The CPU backend: sparse, parallel, compiled at run time by Numba; deterministic.

Silhouettes and softmax colours are one kernel each, forward and backward, and nothing of size
pixels x faces exists in memory. CDFs of the user's own, and colours of faces that the near plane
cuts, list the pairs within the search radius, a bounded run of rows at a time. Once differentiable;
the reference backend gives second derivatives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from gendr._runtime.numba.compilation import available as available
from gendr._runtime.numba.compilation import supports as supports
from gendr._runtime.threads import run
from gendr._runtime.threads import set_num_threads as set_num_threads  # known here from the first release
from gendr.rendering.backends.choice import Backend
from gendr.rendering.geometry import ImageSize, Pairs, ScreenFaces, Surfaces
from gendr.rendering.model import Model
from gendr.rendering.shading import Appearance, alpha_from_pairs

TAKES_ABSENT = False
PAIRS_AT_ONCE = 4_000_000  # about 1 GB of torch temporaries where pairs are listed


# ---------------------------------------------------------------------------------------------
# What the kernels are given
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tables:
    """The arrays that describe faces, images and the model to the kernels."""

    corners: np.ndarray  # [T, N, 2] float64
    offsets: np.ndarray  # [B + 1] int64
    image_of_face: np.ndarray  # [T] int64
    boxes: np.ndarray  # [T, 4] int32
    images: np.ndarray  # [B, 4] float64
    grid: tuple[np.ndarray, np.ndarray]  # x of the columns, y of the rows


def tables_of(
    faces: ScreenFaces, size: ImageSize, radius: Tensor, columns: dict[int, Any] | None = None
) -> Tables:
    """The tables of a batch of images; `columns` are more of the numbers of an image."""
    from gendr.rendering.backends.cpu import kernels

    corners = faces.corners.detach().to(torch.float64).contiguous().numpy()
    offsets = np.asarray(faces.offsets, np.int64)
    image_of_face = np.repeat(np.arange(faces.images), np.diff(offsets))
    images = np.zeros((faces.images, kernels.IMAGE_COLUMNS))
    images[:, kernels.RADIUS] = radius.detach().to(torch.float64).numpy()
    for column, values in (columns or {}).items():
        images[:, column] = values
    boxes = np.zeros((len(corners), 4), np.int32)
    run(
        kernels.face_boxes, len(corners), corners, image_of_face, images,
        size.height, size.width, boxes, pieces=2,
    )  # fmt: skip
    return Tables(corners, offsets, image_of_face, boxes, images, _grid(size))


def _grid(size: ImageSize) -> tuple[np.ndarray, np.ndarray]:
    """NDC of the columns and rows of pixel centres; kernels read on after the last column."""
    from gendr.rendering.backends.cpu import kernels

    x = (2 * np.arange(size.width + kernels.LANES) + 1 - size.width) / size.side
    y = (size.height - 1 - 2 * np.arange(size.height)) / size.side
    return x, y


def number_of(value: Any) -> float:
    """A parameter as a plain number, 0 if there is none."""
    return float(value.detach()) if isinstance(value, Tensor) else float(value or 0.0)


@dataclass(frozen=True)
class Compiled:
    """A model as the kernels see it: flags, addresses of twins, shape parameters."""

    law: np.ndarray
    addresses: np.ndarray
    shape: np.ndarray
    kind: str

    @classmethod
    def of(cls, model: Model, *, scalars: bool, shape: bool, p: bool) -> Compiled:
        """The twins of a model, with those for gradients of scalars, shape and p if wanted."""
        from gendr.distributions import _numba as laws
        from gendr.distributions.law import Law
        from gendr.tnorms import _numba as families

        dist, tconorm = model.dist, model.tconorm
        idempotent = tconorm.kind == "max"
        assert isinstance(dist.law, Law)  # `alpha` takes the others elsewhere
        name = dist.law.name
        addresses = [
            laws.cdf_address(name),
            laws.pdf_address(name),
            laws.dshape_address(name) if shape else 0,
            0 if idempotent else families.generator_address(tconorm.name),
            0 if idempotent else families.weight_address(tconorm.name),
            families.weight_p_address(tconorm.name) if p else 0,
        ]
        flags = [dist.is_reversed, dist.is_squared, idempotent, scalars]
        shapes = [number_of(dist.shape_parameter), number_of(dist.art_exponent)]
        return cls(
            np.array(flags, np.int64), np.array(addresses, np.int64), np.array(shapes), tconorm.kind
        )


# ---------------------------------------------------------------------------------------------
# Once differentiable, and no silence about it
# ---------------------------------------------------------------------------------------------


class _Once(torch.autograd.Function):
    """Passes gradients on; asked for their own gradient, says where to get it."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *sources: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError(
            "the cpu backend has no second derivatives; use backend='reference' for them"
        )


def once(
    grads: tuple[Tensor | None, ...], sources: tuple[Tensor, ...]
) -> tuple[Tensor | None, ...]:
    """Let gradients depend on their sources, so that a second derivative ends in an error."""
    if not torch.is_grad_enabled():  # no graph of the backward pass is wanted
        return grads
    return tuple(g if g is None else cast(Tensor, _Once.apply(g, *sources)) for g in grads)


# ---------------------------------------------------------------------------------------------
# Silhouettes
# ---------------------------------------------------------------------------------------------


def alpha(faces: ScreenFaces, size: ImageSize, model: Model) -> Tensor:
    """Coverage of every pixel, [B, H, W]."""
    from gendr.distributions import CallableDistribution

    if isinstance(model.dist.law, CallableDistribution):
        backend = cast("Backend", sys.modules[__name__])
        return alpha_from_pairs(backend, faces, size, model, PAIRS_AT_ONCE)
    zero = model.scale.new_zeros(())
    shift, shape = model.dist.total_shift(), model.dist.shape_parameter
    p = getattr(model.tconorm, "p", None)
    shift, shape, p = (
        x if isinstance(x, Tensor) else zero.detach() for x in (shift, shape, p)
    )  # plain numbers are read from the model
    flat = cast(
        Tensor, _Alpha.apply(faces.corners, model.scale, shift, shape, p, faces, size, model)
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
        model: Model,
    ) -> Tensor:
        from gendr.rendering.backends.cpu import kernels

        wanted = ctx.needs_input_grad
        compiled = Compiled.of(model, scalars=any(wanted[1:]), shape=wanted[3], p=wanted[4])
        counts = np.maximum(np.asarray(faces.counts, np.float64), 1.0)
        p_number = getattr(model.tconorm, "p", None)
        columns = {
            kernels.SCALE: scale.detach().to(torch.float64).numpy(),
            kernels.SHIFT: number_of(model.dist.total_shift()),
            kernels.FAMILY_P: 1.0 / counts if compiled.kind == "mean" else number_of(p_number),
        }
        tables = tables_of(faces, size, model.radius(), columns)
        pixels = faces.images * size.pixels
        totals, ties = np.zeros(pixels), np.zeros(pixels, np.int32)
        run(
            kernels.alpha_rows, faces.images * size.height, tables.corners, tables.offsets,
            tables.boxes, tables.images, tables.grid, compiled.law, compiled.addresses,
            compiled.shape, model.cutoff, totals, ties,
        )  # fmt: skip
        total = torch.from_numpy(totals)
        if compiled.kind == "max":
            a, s = total, 1.0 - total
        elif compiled.kind == "mean":
            per_pixel = torch.from_numpy(np.repeat(counts, size.pixels))
            a, s = total / per_pixel, torch.ones_like(total)
        else:
            a, s = model.tconorm.inverse(total)
        ctx.model, ctx.tables, ctx.compiled = model, tables, compiled
        ctx.save_for_backward(corners, scale, shift, shape, p, a, s, torch.from_numpy(ties))
        return a.to(corners.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        from gendr.rendering.backends.cpu import kernels

        corners, scale, shift, shape, p, *pixels = ctx.saved_tensors
        a, s, ties = (t.detach() for t in pixels)  # in float64 the output itself was saved
        model, tables, compiled = ctx.model, ctx.tables, ctx.compiled
        # A saturated pixel passes nothing on.
        pixel_grads = torch.where(s > 0, grad.detach().to(torch.float64), 0.0).contiguous()
        count = len(tables.corners)
        grad_corners = np.zeros_like(tables.corners)
        scalars = any(ctx.needs_input_grad[1:5])
        grad_scalars = np.zeros((count if scalars else 0, kernels.GRAD_COLUMNS))
        run(
            kernels.backward_faces, count, tables.corners, tables.offsets, tables.image_of_face,
            tables.boxes, tables.images, tables.grid, compiled.law, compiled.addresses,
            compiled.shape, model.cutoff, pixel_grads.numpy(), a.numpy(), s.numpy(), ties.numpy(),
            grad_corners, grad_scalars,
        )  # fmt: skip
        grads: list[Tensor | None] = [torch.from_numpy(grad_corners).to(corners.dtype)] + [None] * 4
        if scalars:
            per_image = sums_per_image(grad_scalars, tables.offsets)
            grads[1] = per_image[:, kernels.GRAD_SCALE].to(scale.dtype)
            grads[2] = in_shape_of(shift, per_image[:, kernels.GRAD_SHIFT].sum())
            grads[3] = in_shape_of(shape, per_image[:, kernels.GRAD_SHAPE].sum())
            if ctx.needs_input_grad[4]:
                through_total = (pixel_grads * model.tconorm.weight_p(a, s, a, s)).sum()
                grads[4] = in_shape_of(p, per_image[:, kernels.GRAD_P].sum() - through_total)
        return *once(tuple(grads), (grad, corners, scale, shift, shape, p)), None, None, None


def sums_per_image(values: np.ndarray, offsets: np.ndarray) -> Tensor:
    """[T, K] per face -> [B, K]."""
    return torch.from_numpy(np.stack([values[a:b].sum(0) for a, b in pairwise(offsets)]))


def in_shape_of(parameter: Tensor, number: Tensor) -> Tensor:
    """A number in the shape and dtype of a parameter."""
    return number.to(parameter.dtype).reshape(parameter.shape)


# ---------------------------------------------------------------------------------------------
# Lists of pairs, and the nearest face
# ---------------------------------------------------------------------------------------------


def pairs(
    faces: ScreenFaces, size: ImageSize, radius: Tensor, limit: int
) -> list[Callable[[], Pairs]]:
    """The (pixel, face) pairs within the radius in runs of rows, about `limit` in each.

    Pairs come row by row, within a row face by face. A run is listed when it is called, so that
    only one needs to be in memory.
    """
    from gendr.rendering.backends.cpu import kernels

    tables = tables_of(faces, size, radius)
    rows = faces.images * size.height
    counts = np.zeros(rows, np.int64)
    common = (tables.corners, tables.offsets, tables.boxes, tables.images, tables.grid)
    run(kernels.count_rows, rows, *common, counts)

    def listing(first: int, last: int) -> Pairs:
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
        return Pairs(
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
    """0 .. c - 1 for every c of counts, one after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def distance(faces: ScreenFaces, size: ImageSize, pixels: Tensor, face: Tensor) -> Tensor:
    """Signed distance [K] of listed pairs, differentiable in the corners."""
    return cast(Tensor, _Distance.apply(faces.corners, pixels, face, size))


class _Distance(torch.autograd.Function):
    """`geometry.signed_distance` of listed pairs, in one pass and without temporaries."""

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
            kernels.pair_distances, count, wide.numpy(), pixels.numpy(), face.numpy(), _grid(size),
            out.numpy(), feet.numpy(),
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
        return *once((out.to(corners.dtype),), (grad, corners)), None, None, None


def gather(values: Tensor, index: Tensor) -> Tensor:
    """values[index] for values [T, ...]; the backward pass sums in order."""
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
        (result,) = once((out.reshape(ctx.shape).to(grad.dtype),), (grad,))
        assert result is not None
        return result, None


def softmax(
    faces: ScreenFaces, surfaces: Surfaces, appearance: Appearance, size: ImageSize,
    model: Model, rate: Tensor, backdrop: float,
) -> tuple[Tensor, Tensor] | None:  # fmt: skip
    """Colours without the background's part, and its share; see `cpu_softmax.softmax`.

    None where that cannot be fused: for a CDF of the user's own, and for faces that the near plane
    cuts.
    """
    from gendr.distributions import CallableDistribution
    from gendr.rendering.backends.cpu import softmax as cpu_softmax

    if isinstance(model.dist.law, CallableDistribution) or surfaces.was_clipped is not None:
        return None
    return cpu_softmax.softmax(faces, surfaces, appearance, size, model, rate, backdrop)


def nearest(faces: ScreenFaces, size: ImageSize, planes: Tensor, limits: Tensor) -> Tensor:
    """The nearest covering face of every pixel; arguments and result as in the reference."""
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
