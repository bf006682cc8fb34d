"""Softmax shading on the Triton backend: one fused operator and its gradient.

For colours that are linear on a face (see `Scene.is_linear`) and faces that the near plane
does not cut. Everything else is shaded from lists of fragments, by the code all backends share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gendr.kernels.operator import Operator
from gendr.kernels.triton.launch import Launcher, run
from gendr.rendering.backends.triton import tiles
from gendr.rendering.backends.triton.operators import GraphKernels
from gendr.rendering.backends.triton.recipes import Recipe, described, image_table, table_of
from gendr.rendering.backends.triton.tiles import TileLaunch, TilePlan, TileSpec, plan_of
from gendr.rendering.coverage import Coverage
from gendr.rendering.geometry import ImageSize

if TYPE_CHECKING:
    from gendr.rendering.scene import Scene


def softmax(
    scene: Scene, coverage: Coverage, rate: Tensor, backdrop: float
) -> tuple[Tensor, Tensor]:
    """Colours without the background's part [P, 3], and the share of the background [P].

    Args:
        scene: of triangles, none of which may be clipped, with colours that are linear on a face;
            a fourth corner repeats the third.
        coverage: how faces cover pixels.
        rate: [], 1 / ((far - near) gamma).
        backdrop: depth of the background.
    """
    faces, surfaces = scene.faces, scene.surfaces
    rows = [
        faces.corners[:, :3].flatten(1), surfaces.clip[..., 2], surfaces.depth,
        scene.colours.flatten(1),
    ]  # fmt: skip
    recipe, tensors = described(coverage, rate=rate)
    spec = TileSpec(recipe, coverage.cutoff, faces.offsets, scene.size, None, backdrop)
    rows = torch.cat(rows, -1).to(torch.float32)
    rendered = _SOFTMAX(_KERNELS, spec, rows, table_of(coverage, tensors)).to(faces.corners.dtype)
    return rendered[:, :3], rendered[:, 3]


class SoftmaxPlan(TilePlan):
    """The launches of softmax shading by one recipe; see `TilePlan`."""

    def __init__(
        self, offsets: tuple[int, ...], size: ImageSize, device: torch.device,
        settings: TileLaunch, recipe: Recipe,
    ) -> None:  # fmt: skip
        from gendr.rendering.backends.triton import softmax_kernels as kernels

        super().__init__(offsets, size, 3, device, settings)
        self.draw = Launcher(
            kernels.softmax_tiles, device, **recipe.forward(), **self.tile,
            BLOCK_FACES=self.launch.block_faces, **tiles.options(self.launch.tile_warps),
        )  # fmt: skip


def _planned(spec: TileSpec, rows: Tensor) -> SoftmaxPlan:
    return plan_of(
        SoftmaxPlan, spec.offsets, spec.size, rows.device, tiles.LAUNCH, spec.recipe.code
    )


def _forward(
    spec: TileSpec, rows: Tensor, table: Tensor, *, save: bool
) -> tuple[tuple[Tensor], tuple[Tensor, ...]]:
    """Colours without the background's part and the share of the background, [P, 4].

    Saved: sums of weights and least depths [P, 2], edges, boxes, and the image table.

    Args:
        spec: what is rendered.
        rows: [T, 21], of every face its corners [3, 2], and their w [3], depth [3], colour [3, 3].
        table: of `table_of`.
        save: whether anything need be saved.
    """
    from gendr.rendering.backends.triton import shared_kernels as shared

    plan = _planned(spec, rows)
    images = image_table(spec.recipe, table, spec.cutoff)
    images[:, shared.BACKDROP.value] = spec.backdrop
    edges, boxes = plan.tables(rows[:, :6].contiguous(), images)
    rendered, sums = rows.new_empty(plan.pixels, 4), rows.new_empty(plan.pixels, 2)
    lists = plan.lists(boxes)
    plan.draw(
        (len(lists.starts),), rows, edges, images, lists.starts, lists.stops, lists.faces,
        rendered, sums, spec.size.height, spec.size.width,
    )  # fmt: skip
    return (rendered,), (sums, edges, boxes, images)


def _backward(
    spec: TileSpec, inputs: tuple[Tensor, ...], saved: tuple[Tensor, ...],
    grads: tuple[Tensor], wanted: tuple[bool, ...],
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Gradients of the rows [T, 21] and, if wanted, of the table [B, columns]."""
    from gendr.rendering.backends.triton import shared_kernels as shared
    from gendr.rendering.backends.triton import softmax_kernels as kernels

    (rows, _), (rendered, totals, edges, boxes, images) = inputs, saved
    (grad,), with_table, plan = grads, wanted[1], _planned(spec, rows)
    sums = tiles.GradientSums(plan, boxes, rows.shape[1], with_table)
    run(
        kernels.softmax_gradients, sums.programs, plan.device,
        rows, edges, plan.image_of_face, images, boxes, rendered, totals, grad, *sums.rows,
        spec.size.height, spec.size.width, sums.pieces.table, plan.faces,
        **spec.recipe.backward(with_table), BLOCK=plan.launch.block_pixels,
        **tiles.options(plan.launch.block_warps),
    )  # fmt: skip
    grad_rows, grad_scalars = sums.totals()
    if not with_table:
        return grad_rows, None
    scalars = tiles.sum_per_image(grad_scalars, spec.offsets)
    # The background weighs exp((z* - backdrop) rate): its own part of d(loss)/d(rate).
    share = rendered[:, 3]
    on_background = grad[:, 3] * (1 - share) - (grad[:, :3] * rendered[:, :3]).sum(-1)
    of_images = plan.images, spec.size.pixels
    past = totals[:, 1].reshape(of_images) - images[:, shared.BACKDROP.value, None]
    scalars[:, shared.GRAD_LAST.value] += ((on_background * share).reshape(of_images) * past).sum(1)
    return grad_rows, spec.recipe.in_columns(scalars)


def _fake(spec: TileSpec, rows: Tensor, table: Tensor) -> list[Tensor]:
    """The result and what is saved, for graphs."""
    images, faces = len(spec.offsets) - 1, rows.shape[0]
    pixels = images * spec.size.pixels
    return [
        rows.new_empty(pixels, 4),
        rows.new_empty(pixels, 2),
        rows.new_empty(faces, tiles.face_columns()),
        rows.new_empty(faces, 4, dtype=torch.int32),
        rows.new_empty(images, tiles.image_columns()),
    ]


_SOFTMAX = Operator("softmax of the triton backend", reference=None)
_KERNELS = GraphKernels("softmax", _forward, _backward, _fake, TileSpec.read)
