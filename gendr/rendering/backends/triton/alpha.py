"""Silhouettes on the Triton backend: one fused operator and its gradient."""

from __future__ import annotations

from functools import cached_property
from typing import cast

import torch
from torch import Tensor

from gendr._common.tracing import is_plain
from gendr.kernels.operator import Operator
from gendr.kernels.triton.launch import Launcher, blocks_of
from gendr.rendering.aggregation import Aggregation
from gendr.rendering.backends.triton import tiles
from gendr.rendering.backends.triton.operators import GraphKernels
from gendr.rendering.backends.triton.recipes import (
    Recipe,
    described,
    image_table,
    numbered_table,
    table_of,
)
from gendr.rendering.backends.triton.tiles import TileLaunch, TilePlan, TileSpec, plan_of
from gendr.rendering.geometry import ImageSize, ScreenFaces

_BLOCK = 1024  # pixels of a program of `through_totals`


def alpha(faces: ScreenFaces, size: ImageSize, aggregation: Aggregation) -> Tensor:
    """Coverage of every pixel, [B, H, W], for a distribution that is not the user's own."""
    coverage, corners = aggregation.coverage, faces.corners.to(torch.float32)
    recipe, tensors = described(coverage, aggregation.tconorm)
    number = None if tensors or not is_plain(corners) else coverage.number
    table = table_of(coverage, tensors) if number is None else None
    spec = TileSpec(recipe, coverage.cutoff, faces.offsets, size, number)
    return _ALPHA(_KERNELS, spec, corners, table).to(faces.corners.dtype)


class AlphaPlan(TilePlan):
    """The launches of silhouettes of one recipe; see `TilePlan`."""

    def __init__(
        self, offsets: tuple[int, ...], size: ImageSize, sides: int, device: torch.device,
        settings: TileLaunch, recipe: Recipe,
    ) -> None:  # fmt: skip
        from gendr.rendering.backends.triton import kernels

        super().__init__(offsets, size, sides, device, settings)
        self.recipe, functions = recipe, recipe.forward()
        sizes = {**self.tile, "SEGMENT": tiles.SEGMENT}
        sizes |= tiles.options(self.launch.tile_warps, exact=recipe.is_exact)
        self.draw = Launcher(
            kernels.alpha_tiles, device, **functions, N=sides,
            BLOCK_FACES=self.launch.block_faces, **sizes,
        )  # fmt: skip
        self.join = Launcher(
            kernels.join_segments, device,
            INVERSE=functions["INVERSE"], KIND=functions["KIND"], **sizes,
        )  # fmt: skip
        self._gradients: dict[bool, Launcher] = {}

    def gradients(self, with_table: bool) -> Launcher:
        """The kernel of the backward pass."""
        from gendr.rendering.backends.triton import kernels

        if with_table not in self._gradients:
            compiled = tiles.options(self.launch.block_warps, exact=self.recipe.is_exact)
            self._gradients[with_table] = Launcher(
                kernels.alpha_gradients, self.device, **self.recipe.backward(with_table),
                N=self.sides, BLOCK=self.launch.block_pixels, **compiled,
            )  # fmt: skip
        return self._gradients[with_table]

    @cached_property
    def totals(self) -> Launcher:
        """The kernel for what the totals have to do with the gradient of p."""
        from gendr.rendering.backends.triton import kernels

        weight_p = self.recipe.backward(scalars=True)["WEIGHT_P"]
        compiled = tiles.options(self.launch.warps)
        return Launcher(
            kernels.through_totals, self.device, WEIGHT_P=weight_p, BLOCK=_BLOCK, **compiled
        )


def _planned(spec: TileSpec, corners: Tensor) -> AlphaPlan:
    return plan_of(
        AlphaPlan, spec.offsets, spec.size, corners.shape[1], corners.device, tiles.LAUNCH,
        spec.recipe.code,
    )  # fmt: skip


def _forward(
    spec: TileSpec, corners: Tensor, table: Tensor | None, *, save: bool
) -> tuple[tuple[Tensor], tuple[Tensor, ...]]:
    """Alpha [B, H, W].

    Saved: 1 - alpha [P], the faces that reach the maximum [P] int32 ([0] for other families),
    edges, boxes, and the image table.

    Args:
        spec: what is rendered.
        corners: [T, N, 2].
        table: of `table_of`, None if the spec has a number for the scale.
        save: whether anything need be saved.
    """
    plan, recipe = _planned(spec, corners), spec.recipe
    if table is not None:
        images = image_table(recipe, table, spec.cutoff)
    else:
        number = cast("float", spec.number)
        images = numbered_table(recipe, number, spec.cutoff, plan.images, plan.device)
    if recipe.kind == "mean":
        from gendr.rendering.backends.triton import shared_kernels as shared

        there = tiles.per_image(corners[:, 0, 0] < shared.ABSENT.value, plan)
        images = images.clone()
        images[:, shared.FAMILY_P.value] = there.clamp(min=1).to(images).reciprocal()
    height, width = spec.size.height, spec.size.width
    edges, boxes = plan.tables(corners, images)
    out, rest = corners.new_empty(plan.images, height, width), corners.new_empty(plan.pixels)
    ties = boxes.new_empty(plan.pixels if recipe.is_exact else 0)
    starts, stops, faces, segments, tile_of_segment = plan.lists(boxes)
    extra, every = tile_of_segment.shape[0], starts.shape[0]
    entries = extra * plan.tiling.height * plan.tiling.width
    totals, others = corners.new_empty(entries), corners.new_empty(entries)
    plan.draw(
        (every + extra,), edges, boxes, images, starts, stops, faces, segments, tile_of_segment,
        out, rest, ties, totals, others, every, height, width,
    )  # fmt: skip
    if extra:
        plan.join(
            (extra,), images, starts, stops, segments, tile_of_segment,
            out, rest, ties, totals, others, height, width,
        )  # fmt: skip
    return (out,), (rest, ties, edges, boxes, images)


def _backward(
    spec: TileSpec, inputs: tuple[Tensor, ...], saved: tuple[Tensor, ...],
    grads: tuple[Tensor], wanted: tuple[bool, ...],
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Gradients of the corners [T, N, 2] and, if wanted, of the table [B, columns]."""
    (corners, _), (alpha, rest, ties, edges, boxes, images) = inputs, saved
    (grad,), with_table, plan = grads, wanted[1], _planned(spec, corners)
    sums = tiles.GradientSums(plan, boxes, 2 * plan.sides, with_table)
    plan.gradients(with_table)(
        sums.programs, edges, plan.image_of_face, images, boxes, alpha, rest, ties, grad,
        *sums.rows, spec.size.height, spec.size.width, sums.pieces.table, plan.faces,
    )  # fmt: skip
    grad_corners, grad_scalars = sums.totals()
    grad_corners = grad_corners.reshape(corners.shape)
    if not with_table:
        return grad_corners, None
    scalars = tiles.sum_per_image(grad_scalars, spec.offsets)
    if "p" in spec.recipe.columns:
        from gendr.rendering.backends.triton import shared_kernels as shared

        scalars[:, shared.GRAD_LAST.value] -= through_totals(plan, images, alpha, rest, grad)
    return grad_corners, spec.recipe.in_columns(scalars)


def through_totals(
    plan: AlphaPlan, images: Tensor, alpha: Tensor, rest: Tensor, grad: Tensor
) -> Tensor:
    """What the pixels of every image take away from the gradient of p, [B]; see the kernel.

    The formulas of families in torch may look at p, for which the host would wait.
    """
    pixels = plan.size.pixels
    blocks = blocks_of(pixels, _BLOCK)
    parts = grad.new_empty(plan.images, blocks)
    plan.totals((plan.images * blocks,), images, alpha, rest, grad, parts, pixels, blocks)
    return parts.sum(1)


def _fake(spec: TileSpec, corners: Tensor, table: Tensor) -> list[Tensor]:
    """The result and what is saved, for graphs."""
    images, faces, size = len(spec.offsets) - 1, corners.shape[0], spec.size
    pixels = images * size.pixels
    return [
        corners.new_empty(images, size.height, size.width),
        corners.new_empty(pixels),
        corners.new_empty(pixels if spec.recipe.is_exact else 0, dtype=torch.int32),
        corners.new_empty(faces, tiles.face_columns()),
        corners.new_empty(faces, 4, dtype=torch.int32),
        corners.new_empty(images, tiles.image_columns()),
    ]


_ALPHA = Operator("alpha of the triton backend", reference=None)
_KERNELS = GraphKernels("alpha", _forward, _backward, _fake, TileSpec.read)
