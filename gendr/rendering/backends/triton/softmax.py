"""Softmax shading on the Triton backend: one fused operator and its gradient.

For colours that are linear on a face (see `Appearance`) and faces that the near plane
does not cut. Everything else is shaded from lists of fragments, by the code all backends share.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor

from gendr.rendering.backends.triton import tiles
from gendr.rendering.backends.triton.alpha import Arguments, Member, Scalars, total
from gendr.rendering.coverage import Coverage
from gendr.rendering.geometry import ImageSize, ScreenFaces, Surfaces
from gendr.tnorms import Max

if TYPE_CHECKING:
    from gendr.rendering.shading import Appearance


def softmax(
    faces: ScreenFaces,
    surfaces: Surfaces,
    appearance: Appearance,
    size: ImageSize,
    coverage: Coverage,
    rate: Tensor,
    backdrop: float,
) -> tuple[Tensor, Tensor]:
    """Colours without the background's part [P, 3], and the share of the background [P].

    Args:
        faces: triangles.
        surfaces: the same in space; none of them clipped.
        appearance: colours that are linear on every face.
        size: of the image.
        coverage: how faces cover pixels.
        rate: [], 1 / ((far - near) gamma).
        backdrop: depth of the background.
    """
    attributes = torch.cat(
        [surfaces.clip[..., 2], surfaces.depth, appearance.colours.flatten(1)], -1
    )
    tensors, numbers, names = Arguments.of(coverage.dist, Max())
    corners, scale, attributes, rate = (
        x.to(torch.float32) for x in (faces.corners, coverage.scale, attributes, rate)
    )
    fore, share, *_ = _softmax(
        corners, attributes, scale, tensors[0], tensors[1], rate, numbers[:2], backdrop,
        list(faces.offsets), size.height, size.width, *names[:4], coverage.cutoff,
        tiles.atomic_now(),
    )  # fmt: skip
    return fore.to(faces.corners.dtype), share.to(faces.corners.dtype)


class _Columns(NamedTuple):
    images: int
    rate: int
    backdrop: int
    gradients: int


@cache
def _columns() -> _Columns:
    """Columns of the tables, as plain numbers."""
    from gendr.rendering.backends.triton import kernels as _triton
    from gendr.rendering.backends.triton import softmax_kernels as _triton_softmax

    columns = (
        _triton.IMAGE_COLUMNS,
        _triton.RATE,
        _triton.BACKDROP,
        _triton_softmax.GRAD_COLUMNS,
    )
    return _Columns(*(c.value for c in columns))


@torch.library.custom_op("gendr::softmax", mutates_args=())
def _softmax(
    corners: Tensor,
    attributes: Tensor,
    scale: Tensor,
    shift: Tensor | None,
    shape: Tensor | None,
    rate: Tensor,
    numbers: list[float],
    backdrop: float,
    offsets: list[int],
    height: int,
    width: int,
    law: str,
    is_reversed: bool,
    is_squared: bool,
    art: float,
    cutoff: float,
    atomic: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Colours [P, 3], background shares, sums of weights, least depths [P]; boxes, image table."""
    from gendr.distributions import triton as laws
    from gendr.rendering.backends.triton import softmax_kernels as kernels

    given = zip(numbers, (shift, shape), strict=True)
    values = [number if tensor is None else float(tensor) for number, tensor in given]
    shift_number, shape_number = values
    member = Member(
        law, is_reversed, is_squared, art, "max", cutoff, shift_number, shape_number, p=0.0
    )
    size, counts = ImageSize(height, width), tuple(b - a for a, b in pairwise(offsets))
    images = member.images(scale, counts)
    images[:, _columns().rate] = rate
    images[:, _columns().backdrop] = backdrop
    tables = tiles.Tables.of(corners, tuple(offsets), images, size)
    tiling = tiles.Tiling.of(size, tiles.LAUNCH.tile)
    pixels = len(counts) * size.pixels
    colours = corners.new_empty(pixels, 3)
    shares, totals, nearest = (corners.new_empty(pixels) for _ in range(3))
    attributes = attributes.contiguous()
    for part in tiles.tile_lists(tables, tiling):
        tiles.run(
            kernels.softmax_tiles, (len(part.starts),), corners.device,
            tables.corners, attributes, images, part.starts, part.stops, part.faces,
            colours, shares, totals, nearest, part.first_tile, int(part.listed), height, width,
            CDF=laws.tails(law), TILE_H=tiling.height, TILE_W=tiling.width,
            BLOCK_FACES=tiles.LAUNCH.block_faces, **tiles.options(),
        )  # fmt: skip
    return colours, shares, totals, nearest, tables.boxes, images


@_softmax.register_fake
def _(
    corners: Tensor, attributes: Tensor, scale: Tensor, shift: Tensor | None, shape: Tensor | None,
    rate: Tensor, numbers: list[float], backdrop: float, offsets: list[int], height: int,
    width: int, law: str, is_reversed: bool, is_squared: bool, art: float, cutoff: float,
    atomic: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    images = len(offsets) - 1
    pixels = images * height * width
    return (
        corners.new_empty(pixels, 3),
        corners.new_empty(pixels),
        corners.new_empty(pixels),
        corners.new_empty(pixels),
        corners.new_empty(corners.shape[0], 4, dtype=torch.int32),
        corners.new_empty(images, _columns().images),
    )


@torch.library.custom_op("gendr::softmax_gradients", mutates_args=())
def _softmax_gradients(
    grad_colours: Tensor,
    grad_shares: Tensor,
    colours: Tensor,
    shares: Tensor,
    totals: Tensor,
    nearest: Tensor,
    boxes: Tensor,
    images: Tensor,
    corners: Tensor,
    attributes: Tensor,
    offsets: list[int],
    height: int,
    width: int,
    law: str,
    scalars: bool,
    with_shape: bool,
    atomic: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of corners [T, 3, 2], attributes [T, 15], scalars of images [B, GRAD_COLUMNS].

    That of the rate is what the faces add; the background adds its own, see `_backward`.
    """
    from gendr.distributions import triton as laws
    from gendr.rendering.backends.triton import softmax_kernels as kernels

    count = len(corners)
    programs = tiles.shares_of(count, height * width)
    rows = (count,) if atomic else (programs, count)
    grad_corners = corners.new_zeros(*rows, 3, 2)
    grad_attributes = corners.new_zeros(*rows, attributes.shape[1])
    grad_scalars = corners.new_zeros(*rows, _columns().gradients if scalars else 0)
    tiles.run(
        kernels.softmax_gradients, (count, programs), corners.device,
        corners.contiguous(), attributes.contiguous(),
        tiles.image_of_face(tuple(offsets), corners.device), images, boxes,
        colours, shares, totals, nearest, grad_colours.contiguous(), grad_shares.contiguous(),
        grad_corners, grad_attributes, grad_scalars, height, width, programs,
        CDF=laws.tails(law), PDF=laws.density(law),
        DSHAPE=laws.shape_slope(law) if with_shape else None,
        SCALARS=scalars, ATOMIC=atomic, BLOCK=tiles.LAUNCH.block_pixels, **tiles.options(),
    )  # fmt: skip
    if not atomic:
        grad_corners, grad_attributes = grad_corners.sum(0), grad_attributes.sum(0)
        grad_scalars = grad_scalars.sum(0)
    return grad_corners, grad_attributes, tiles.sum_per_image(grad_scalars, offsets)


@_softmax_gradients.register_fake
def _(
    grad_colours: Tensor, grad_shares: Tensor, colours: Tensor, shares: Tensor, totals: Tensor,
    nearest: Tensor, boxes: Tensor, images: Tensor, corners: Tensor, attributes: Tensor,
    offsets: list[int], height: int, width: int, law: str, scalars: bool, with_shape: bool,
    atomic: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    columns = _columns().gradients if scalars else 0
    per_image = corners.new_empty(len(offsets) - 1, columns)
    return torch.empty_like(corners), torch.empty_like(attributes), per_image


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """What the backward pass of `_softmax` needs."""
    (
        corners, attributes, _scale, shift, shape, rate, _numbers, backdrop, offsets, height,
        width, law, _reversed, _squared, _art, _cutoff, atomic,
    ) = inputs  # fmt: skip
    ctx.save_for_backward(corners, attributes, shift, shape, rate, *output)
    ctx.size, ctx.offsets, ctx.law, ctx.backdrop = (height, width), offsets, law, backdrop
    ctx.atomic = atomic


def _backward(ctx: Any, grad: Tensor, grad_shares: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    """The gradients of `_softmax`'s inputs."""
    saved = cast("tuple[Tensor, ...]", ctx.saved_tensors)
    corners, attributes, shift, shape, rate, colours, shares, totals, nearest, boxes, images = saved
    of_corners, of_attributes, of_scale, of_shift, of_shape, of_rate = ctx.needs_input_grad[:6]
    grad_corners, grad_attributes, per_image = _softmax_gradients(
        grad, grad_shares, colours, shares, totals, nearest, boxes, images, corners, attributes,
        ctx.offsets, *ctx.size, ctx.law, of_scale or of_shift or of_shape or of_rate, of_shape,
        ctx.atomic,
    )  # fmt: skip
    grads: list[Tensor | None] = [None] * 6
    grads[0] = grad_corners if of_corners else None
    grads[1] = grad_attributes if of_attributes else None
    if of_scale or of_shift or of_shape or of_rate:
        sums = Scalars(*per_image.unbind(-1))
        grads[2] = sums.scale if of_scale else None
        grads[3] = total(sums.shift, shift) if of_shift else None
        grads[4] = total(sums.shape, shape) if of_shape else None
        if of_rate:
            # The background weighs exp((z* - backdrop) rate): its own part of d(loss)/d(rate).
            on_background = grad_shares * (1 - shares) - (grad * colours).sum(-1)
            own = (on_background * shares * (nearest - ctx.backdrop)).sum()
            grads[5] = (sums.last.sum() + own).to(rate).reshape(rate.shape)
    return *grads, *(None,) * 11


_softmax.register_autograd(_backward, setup_context=_keep)
_softmax_gradients.register_autograd(tiles.no_second_derivative)
