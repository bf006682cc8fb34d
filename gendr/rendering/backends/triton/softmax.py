"""Softmax shading on the Triton backend: one fused operator and its gradient.

For colours that are linear on a face (see `Appearance`) and faces that the near plane
does not cut. Everything else is shaded from lists of fragments, by the code all backends share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from gendr._runtime.triton.launch import run
from gendr.rendering.backends.triton import tiles
from gendr.rendering.backends.triton.recipes import Recipe, described, image_table
from gendr.rendering.coverage import Coverage
from gendr.rendering.geometry import ImageSize, ScreenFaces, Surfaces

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
        faces: triangles; a fourth corner repeats the third.
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
    text, table = described(coverage, rate=rate)
    fore, share, *_ = _softmax(
        # None is cut: a fourth corner repeats the third.
        faces.corners[:, :3].to(torch.float32), attributes.to(torch.float32), table, text,
        coverage.cutoff, backdrop, list(faces.offsets), [size.height, size.width],
    )  # fmt: skip
    return fore.to(faces.corners.dtype), share.to(faces.corners.dtype)


class DrawnSoftmax(NamedTuple):
    """What the backward pass reads, as `_softmax` was given it or returned it."""

    corners: Tensor  # [T, 3, 2]
    attributes: Tensor  # [T, 15]
    colours: Tensor  # [P, 3], less the background's part
    shares: Tensor  # [P], of the background
    totals: Tensor  # [P], sums of weights
    nearest: Tensor  # [P], least depths
    edges: Tensor  # [T, FACE_COLUMNS]
    boxes: Tensor  # [T, 4] int32
    images: Tensor  # [B, IMAGE_COLUMNS]


@torch.library.custom_op("gendr::softmax", mutates_args=(), tags=tiles.TAGS)
def _softmax(
    corners: Tensor,
    attributes: Tensor,
    table: Tensor,
    text: str,
    cutoff: float,
    backdrop: float,
    offsets: list[int],
    size: list[int],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """All of `DrawnSoftmax` but what is given; `text` and `table` as `described` has them."""
    from gendr.rendering.backends.triton import shared_kernels as shared
    from gendr.rendering.backends.triton import softmax_kernels as kernels

    recipe, image_size = Recipe.of(text), ImageSize(*size)
    images = image_table(text, table, cutoff)
    images[:, shared.BACKDROP.value] = backdrop
    tables = tiles.TileTables.of(corners, tuple(offsets), images, image_size)
    launch = tiles.LAUNCH.fitted(len(images), len(corners), image_size)
    tiling = tiles.Tiling.of(image_size, launch.tile)
    pixels = len(images) * image_size.pixels
    colours = corners.new_empty(pixels, 3)
    shares, totals, nearest = (corners.new_empty(pixels) for _ in range(3))
    attributes = attributes.contiguous()
    lists = tiles.tile_lists(tables, tiling)
    run(
        kernels.softmax_tiles, (len(lists.starts),), corners.device,
        tables.corners, tables.edges, attributes, images, lists.starts, lists.stops, lists.faces,
        colours, shares, totals, nearest, *size,
        **recipe.forward(), TILE_H=tiling.height, TILE_W=tiling.width,
        BLOCK_FACES=launch.block_faces, **tiles.options(launch.tile_warps),
    )  # fmt: skip
    return colours, shares, totals, nearest, tables.edges, tables.boxes, images


@_softmax.register_fake
def _(
    corners: Tensor,
    attributes: Tensor,
    table: Tensor,
    text: str,
    cutoff: float,
    backdrop: float,
    offsets: list[int],
    size: list[int],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    images = len(offsets) - 1
    pixels = images * ImageSize(*size).pixels
    return (
        corners.new_empty(pixels, 3),
        corners.new_empty(pixels),
        corners.new_empty(pixels),
        corners.new_empty(pixels),
        corners.new_empty(corners.shape[0], tiles.face_columns()),
        corners.new_empty(corners.shape[0], 4, dtype=torch.int32),
        corners.new_empty(images, tiles.image_columns()),
    )


@torch.library.custom_op("gendr::softmax_gradients", mutates_args=(), tags=tiles.TAGS)
def _softmax_gradients(
    grad: Tensor,
    grad_shares: Tensor,
    drawn: list[Tensor],
    text: str,
    offsets: list[int],
    size: list[int],
    with_table: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of corners [T, 3, 2], attributes [T, 15], and if wanted the table [B, columns]."""
    from gendr.rendering.backends.triton import shared_kernels as shared
    from gendr.rendering.backends.triton import softmax_kernels as kernels

    recipe, x = Recipe.of(text), DrawnSoftmax(*drawn)
    count = len(x.corners)
    columns = x.attributes.shape[1:]
    launch = tiles.LAUNCH.fitted(len(x.images), count, ImageSize(*size))
    sums = tiles.GradientSums.of(
        x.boxes, size, with_table, (3, 2), columns, like=grad, launch=launch
    )
    run(
        kernels.softmax_gradients, sums.programs, grad.device,
        x.corners.contiguous(), x.edges, x.attributes.contiguous(),
        tiles.image_of_face(tuple(offsets), grad.device), x.images, x.boxes,
        x.colours, x.shares, x.totals, x.nearest, grad.contiguous(), grad_shares.contiguous(),
        *sums.rows, *size, sums.shares, *sums.pieces.arguments,
        **recipe.backward(with_table), ATOMIC=sums.atomic,
        BLOCK=launch.block_pixels, **tiles.options(launch.block_warps),
    )  # fmt: skip
    grad_corners, grad_attributes, grad_scalars = sums.totals()
    if not with_table:
        nothing = tiles.empty_table_gradient(grad, text, offsets, with_table)
        return grad_corners, grad_attributes, nothing
    scalars = tiles.sum_per_image(grad_scalars, offsets)
    # The background weighs exp((z* - backdrop) rate): its own part of d(loss)/d(rate).
    on_background = grad_shares * (1 - x.shares) - (grad * x.colours).sum(-1)
    images = len(x.images), ImageSize(*size).pixels
    past = x.nearest.reshape(images) - x.images[:, shared.BACKDROP.value, None]
    own = (on_background * x.shares).reshape(images) * past
    scalars[:, shared.GRAD_LAST.value] += own.sum(1)
    return grad_corners, grad_attributes, recipe.in_columns(scalars)


@_softmax_gradients.register_fake
def _(
    grad: Tensor,
    grad_shares: Tensor,
    drawn: list[Tensor],
    text: str,
    offsets: list[int],
    size: list[int],
    with_table: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    x = DrawnSoftmax(*drawn)
    return (
        x.corners.new_empty(x.corners.shape),
        x.attributes.new_empty(x.attributes.shape),
        tiles.empty_table_gradient(x.corners, text, offsets, with_table),
    )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Keep what the backward pass of `_softmax` needs."""
    corners, attributes, _table, text, _cutoff, _backdrop, offsets, size = inputs
    ctx.save_for_backward(*DrawnSoftmax(corners, attributes, *output))
    ctx.text, ctx.offsets, ctx.size = text, offsets, size


def _backward(ctx: Any, grad: Tensor, grad_shares: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    """The gradients of `_softmax`'s inputs."""
    wanted = ctx.needs_input_grad[:3]
    grads = _softmax_gradients(
        grad, grad_shares, list(ctx.saved_tensors), ctx.text, ctx.offsets, ctx.size, wanted[2]
    )
    kept = (x if want else None for x, want in zip(grads, wanted, strict=True))
    return *kept, *(None,) * 5


_softmax.register_autograd(_backward, setup_context=_keep)
_softmax_gradients.register_autograd(tiles.no_second_derivative)
