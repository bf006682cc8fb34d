"""Silhouettes on the Triton backend: one fused operator and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from gendr._runtime.later import capturing
from gendr._runtime.tracing import is_plain
from gendr.rendering.aggregation import Aggregation
from gendr.rendering.backends.triton import tiles
from gendr.rendering.backends.triton.recipes import (
    Recipe,
    described,
    image_table,
    numbered_table,
)
from gendr.rendering.geometry import ImageSize, ScreenFaces


def alpha(faces: ScreenFaces, size: ImageSize, aggregation: Aggregation) -> Tensor:
    """Coverage of every pixel, [B, H, W], for a law that is not the user's own."""
    corners = faces.corners.to(torch.float32)
    text, table, images = _tables(aggregation, faces.images, corners.device)
    cutoff = aggregation.coverage.cutoff
    if is_plain(corners):
        shape = size.height, size.width
        flat = cast(
            Tensor, _Alpha.apply(corners, table, images, text, cutoff, faces.offsets, shape)
        )
    else:
        shape = [size.height, size.width]
        flat, *_ = _alpha(corners, table, images, text, cutoff, list(faces.offsets), shape)
    return flat.reshape(faces.images, size.height, size.width).to(faces.corners.dtype)


def _tables(
    aggregation: Aggregation, images: int, device: torch.device
) -> tuple[str, Tensor, Tensor | None]:
    """Text and table as `described` has them; and the image table if it holds numbers only."""
    coverage = aggregation.coverage
    if torch.compiler.is_compiling():
        return (*described(coverage, aggregation.tconorm), None)
    kept = aggregation.kept.get("triton alpha")
    if kept is None:
        text, table = described(coverage, aggregation.tconorm)
        if coverage.number is None or len(Recipe.of(text).columns) > 1:
            return text, table, None
        numbers = numbered_table(text, coverage.number, coverage.cutoff, images, device)
        kept = text, table, numbers
        if not capturing(device):
            aggregation.kept["triton alpha"] = kept
    return kept


class Drawn(NamedTuple):
    """What the backward pass reads, as `_alpha` was given it or returned it."""

    corners: Tensor  # [T, N, 2]
    alpha: Tensor  # [P]
    rest: Tensor  # [P], 1 - alpha
    ties: Tensor  # [P] int32, the faces that reach the maximum; [0] for other families
    edges: Tensor  # [T, FACE_COLUMNS]
    boxes: Tensor  # [T, 4] int32
    images: Tensor  # [B, IMAGE_COLUMNS]


def _forward(
    corners: Tensor,
    table: Tensor,
    images: Tensor | None,
    text: str,
    cutoff: float,
    offsets: tuple[int, ...],
    size: Sequence[int],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """All of `Drawn` but the corners; `text` and `table` as `described` has them.

    The image table is not returned, but a tensor without rows, if it is given.
    """
    from gendr.rendering.backends.triton import kernels
    from gendr.rendering.backends.triton import shared_kernels as shared

    recipe, image_size = Recipe.of(text), ImageSize(*size)
    made = table.new_empty(0, tiles.image_columns())
    if images is None or recipe.kind == "mean":
        images = made = image_table(text, table, cutoff)
    if recipe.kind == "mean":
        there = tiles.per_image(corners[:, 0, 0] < shared.ABSENT.value, offsets)
        images[:, shared.FAMILY_P.value] = there.clamp(min=1).to(images).reciprocal()
    tables = tiles.Tables.of(corners, offsets, images, image_size)
    launch = tiles.LAUNCH.fitted(len(images), len(corners), image_size)
    tiling = tiles.Tiling.of(image_size, launch.tile)
    pixels = len(images) * image_size.pixels
    out, rest = corners.new_empty(pixels), corners.new_empty(pixels)
    ties = corners.new_empty(pixels if recipe.is_exact else 0, dtype=torch.int32)
    lists = tiles.tile_lists(tables, tiling)
    extra, every = len(lists.tile_of_segment), len(lists.starts)
    totals, others = (out.new_empty(extra * tiling.height * tiling.width) for _ in range(2))
    functions, options = recipe.forward(), tiles.options(launch.tile_warps, exact=recipe.is_exact)
    sizes = {
        "TILE_H": tiling.height, "TILE_W": tiling.width, "SEGMENT": tiles.SEGMENT, **options,
    }  # fmt: skip
    tiles.run(
        kernels.alpha_tiles, (every + extra,), corners.device,
        tables.edges, tables.boxes, images, *lists.tensors, out, rest, ties, totals, others,
        every, *size, **functions, N=corners.shape[1], BLOCK_FACES=launch.block_faces, **sizes,
    )  # fmt: skip
    if extra:
        tiles.run(
            kernels.join_segments, (extra,), corners.device,
            images, lists.starts, lists.stops, lists.segments, lists.tile_of_segment,
            out, rest, ties, totals, others, *size,
            INVERSE=functions["INVERSE"], KIND=functions["KIND"], **sizes,
        )  # fmt: skip
    return out, rest, ties, tables.edges, tables.boxes, made


@torch.library.custom_op("gendr::alpha", mutates_args=(), tags=tiles.TAGS)
def _alpha(
    corners: Tensor,
    table: Tensor,
    images: Tensor | None,
    text: str,
    cutoff: float,
    offsets: list[int],
    size: list[int],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """As `_forward`."""
    return _forward(corners, table, images, text, cutoff, tuple(offsets), size)


@_alpha.register_fake
def _(
    corners: Tensor,
    table: Tensor,
    images: Tensor | None,
    text: str,
    cutoff: float,
    offsets: list[int],
    size: list[int],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    count = len(offsets) - 1
    pixels = count * ImageSize(*size).pixels
    # The mean counts the faces of each image.
    made = count if images is None or Recipe.of(text).kind == "mean" else 0
    return (
        corners.new_empty(pixels),
        corners.new_empty(pixels),
        corners.new_empty(pixels if Recipe.of(text).is_exact else 0, dtype=torch.int32),
        corners.new_empty(corners.shape[0], tiles.face_columns()),
        corners.new_empty(corners.shape[0], 4, dtype=torch.int32),
        corners.new_empty(made, tiles.image_columns()),
    )


def _gradients(
    grad: Tensor,
    drawn: Sequence[Tensor],
    text: str,
    offsets: tuple[int, ...],
    size: Sequence[int],
    with_table: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of the corners [T, N, 2] and, if wanted, of the table [B, columns]."""
    from gendr.rendering.backends.triton import kernels
    from gendr.rendering.backends.triton import shared_kernels as shared

    recipe, x = Recipe.of(text), Drawn(*drawn)
    count, sides = x.corners.shape[:2]
    launch = tiles.LAUNCH.fitted(len(x.images), count, ImageSize(*size))
    sums = tiles.Sums.of(x.boxes, list(size), with_table, (sides, 2), like=grad, launch=launch)
    tiles.run(
        kernels.alpha_gradients, sums.programs, grad.device,
        x.edges, tiles.image_of_face(offsets, grad.device), x.images, x.boxes,
        x.alpha, x.rest, x.ties, grad.contiguous(), *sums.rows, *size, sums.shares,
        *sums.pieces.arguments,
        **recipe.backward(with_table), ATOMIC=sums.atomic, N=sides,
        BLOCK=launch.block_pixels, **tiles.options(launch.block_warps, exact=recipe.is_exact),
    )  # fmt: skip
    grad_corners, grad_scalars = sums.totals()
    if not with_table:
        return grad_corners, tiles.empty_table_gradient(grad, text, list(offsets), with_table)
    scalars = tiles.sum_per_image(grad_scalars, list(offsets))
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
    # Numbers of the device may not be looked at.
    family = tconorm(recipe.family, p=images[0, shared.FAMILY_P.value])
    own = torch.where(s > 0, grad, 0.0) * family.weight_p(a, s, a, s)
    return own.reshape(len(images), -1).sum(1)


@torch.library.custom_op("gendr::alpha_gradients", mutates_args=(), tags=tiles.TAGS)
def _alpha_gradients(
    grad: Tensor,
    drawn: list[Tensor],
    text: str,
    offsets: list[int],
    size: list[int],
    with_table: bool,
) -> tuple[Tensor, Tensor]:
    """As `_gradients`."""
    return _gradients(grad, drawn, text, tuple(offsets), size, with_table)


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
    corners, _table, images, text, _cutoff, offsets, size = inputs
    *rest, made = output
    used = images if images is not None and not len(made) else made
    ctx.save_for_backward(corners, *rest, used)  # `Drawn`
    ctx.given = text, offsets, size
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    """The gradients of `_alpha`'s inputs."""
    of_corners, of_table = ctx.needs_input_grad[:2]
    if grad is None:
        return (None,) * 7
    text, offsets, size = ctx.given
    if is_plain(grad) and not torch.is_grad_enabled():
        corners, table = _gradients(grad, ctx.saved_tensors, text, tuple(offsets), size, of_table)
    else:
        corners, table = _alpha_gradients(
            grad, list(ctx.saved_tensors), text, list(offsets), list(size), of_table
        )
    return corners if of_corners else None, table if of_table else None, *(None,) * 5


_alpha.register_autograd(_backward, setup_context=_keep)
_alpha_gradients.register_autograd(tiles.no_second_derivative)


class _Alpha(torch.autograd.Function):
    """The operator without PyTorch's dispatcher, which takes the host as long again."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        output = _forward(*given)
        _keep(ctx, given, output)
        return output[0]

    backward = staticmethod(_backward)
