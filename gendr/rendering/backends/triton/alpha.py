"""Silhouettes on the Triton backend: one fused operator and its gradient."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from gendr.rendering.aggregation import Aggregation
from gendr.rendering.backends.triton import tiles
from gendr.rendering.backends.triton.recipes import Recipe, described, image_table
from gendr.rendering.geometry import ImageSize, ScreenFaces


def alpha(faces: ScreenFaces, size: ImageSize, aggregation: Aggregation) -> Tensor:
    """Coverage of every pixel, [B, H, W], for a law that is not the user's own."""
    coverage = aggregation.coverage
    text, table = described(coverage, aggregation.tconorm)
    flat, *_ = _alpha(
        faces.corners.to(torch.float32), table, text, coverage.cutoff, list(faces.offsets),
        [size.height, size.width],
    )  # fmt: skip
    return flat.reshape(faces.images, size.height, size.width).to(faces.corners.dtype)


class Drawn(NamedTuple):
    """What the backward pass reads, as `_alpha` was given it or returned it."""

    corners: Tensor  # [T, N, 2]
    alpha: Tensor  # [P]
    rest: Tensor  # [P], 1 - alpha
    ties: Tensor  # [P] int32, the faces that reach the maximum; [0] for other families
    edges: Tensor  # [T, FACE_COLUMNS]
    boxes: Tensor  # [T, 4] int32
    images: Tensor  # [B, IMAGE_COLUMNS]


@torch.library.custom_op("gendr::alpha", mutates_args=())
def _alpha(
    corners: Tensor, table: Tensor, text: str, cutoff: float, offsets: list[int], size: list[int]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """All of `Drawn` but the corners; `text` and `table` as `described` has them."""
    from gendr.rendering.backends.triton import kernels
    from gendr.rendering.backends.triton import shared_kernels as shared

    recipe, image_size = Recipe.of(text), ImageSize(*size)
    images = image_table(text, table, cutoff)
    if recipe.kind == "mean":
        there = tiles.per_image(corners[:, 0, 0] < shared.ABSENT.value, tuple(offsets))
        images[:, shared.FAMILY_P.value] = there.clamp(min=1).to(images).reciprocal()
    tables = tiles.Tables.of(corners, tuple(offsets), images, image_size)
    launch = tiles.LAUNCH.fitted(len(images), len(corners), image_size)
    tiling = tiles.Tiling.of(image_size, launch.tile)
    pixels = len(images) * image_size.pixels
    out, rest = corners.new_empty(pixels), corners.new_empty(pixels)
    ties = corners.new_empty(pixels if recipe.is_exact else 0, dtype=torch.int32)
    lists = tiles.tile_lists(tables, tiling)
    tiles.run(
        kernels.alpha_tiles, (len(lists.starts),), corners.device,
        tables.edges, images, lists.starts, lists.stops, lists.faces, out, rest, ties,
        *size, **recipe.forward(),
        N=corners.shape[1], TILE_H=tiling.height, TILE_W=tiling.width,
        BLOCK_FACES=launch.block_faces,
        **tiles.options(launch.tile_warps, exact=recipe.is_exact),
    )  # fmt: skip
    return out, rest, ties, tables.edges, tables.boxes, images


@_alpha.register_fake
def _(
    corners: Tensor, table: Tensor, text: str, cutoff: float, offsets: list[int], size: list[int]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    images = len(offsets) - 1
    pixels = images * ImageSize(*size).pixels
    return (
        corners.new_empty(pixels),
        corners.new_empty(pixels),
        corners.new_empty(pixels if Recipe.of(text).is_exact else 0, dtype=torch.int32),
        corners.new_empty(corners.shape[0], tiles.face_columns()),
        corners.new_empty(corners.shape[0], 4, dtype=torch.int32),
        corners.new_empty(images, tiles.image_columns()),
    )


@torch.library.custom_op("gendr::alpha_gradients", mutates_args=())
def _alpha_gradients(
    grad: Tensor,
    drawn: list[Tensor],
    text: str,
    offsets: list[int],
    size: list[int],
    with_table: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of the corners [T, N, 2] and, if wanted, of the table [B, columns]."""
    from gendr.rendering.backends.triton import kernels
    from gendr.rendering.backends.triton import shared_kernels as shared

    recipe, x = Recipe.of(text), Drawn(*drawn)
    count, sides = x.corners.shape[:2]
    launch = tiles.LAUNCH.fitted(len(x.images), count, ImageSize(*size))
    sums = tiles.Sums.of(count, size, with_table, (sides, 2), like=grad, launch=launch)
    tiles.run(
        kernels.alpha_gradients, (count, sums.shares), grad.device,
        x.edges, tiles.image_of_face(tuple(offsets), grad.device), x.images, x.boxes,
        x.alpha, x.rest, x.ties, grad.contiguous(), *sums.rows, *size, sums.shares,
        **recipe.backward(with_table), ATOMIC=sums.atomic, N=sides,
        BLOCK=launch.block_pixels, **tiles.options(launch.block_warps, exact=recipe.is_exact),
    )  # fmt: skip
    grad_corners, grad_scalars = sums.totals()
    if not with_table:
        return grad_corners, tiles.empty_table_gradient(grad, text, offsets, with_table)
    scalars = tiles.sum_per_image(grad_scalars, offsets)
    if "p" in recipe.columns:
        scalars[:, shared.GRAD_LAST.value] -= _through_totals(grad, x, recipe)
    return grad_corners, recipe.in_columns(scalars)


def _through_totals(grad: Tensor, drawn: Drawn, recipe: Recipe) -> Tensor:
    """What the pixels of every image take away from the gradient of p, [B]; see `weight_p`."""
    from gendr.rendering.backends.triton import shared_kernels as shared
    from gendr.tnorms import tconorm

    images, a, s = drawn.images, drawn.alpha, drawn.rest
    if not len(images):
        return images.new_empty(0)
    family = tconorm(recipe.family, p=images[0, shared.FAMILY_P.value])
    own = torch.where(s > 0, grad, 0.0) * family.weight_p(a, s, a, s)
    return own.reshape(len(images), -1).sum(1)


@_alpha_gradients.register_fake
def _(
    grad: Tensor,
    drawn: list[Tensor],
    text: str,
    offsets: list[int],
    size: list[int],
    with_table: bool,
) -> tuple[Tensor, Tensor]:
    corners = Drawn(*drawn).corners
    return corners.new_empty(corners.shape), tiles.empty_table_gradient(
        corners, text, offsets, with_table
    )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """What the backward pass of `_alpha` needs."""
    corners, _table, text, _cutoff, offsets, size = inputs
    ctx.save_for_backward(*Drawn(corners, *output))
    ctx.text, ctx.offsets, ctx.size = text, offsets, size


def _backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    """The gradients of `_alpha`'s inputs."""
    of_corners, of_table = ctx.needs_input_grad[:2]
    corners, table = _alpha_gradients(
        grad, list(ctx.saved_tensors), ctx.text, ctx.offsets, ctx.size, of_table
    )
    return corners if of_corners else None, table if of_table else None, *(None,) * 4


_alpha.register_autograd(_backward, setup_context=_keep)
_alpha_gradients.register_autograd(tiles.no_second_derivative)
