"""Silhouettes on the Triton backend: one fused operator and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from gendr._runtime.later import capturing
from gendr._runtime.tracing import is_plain, is_traced, lasting
from gendr._runtime.triton.launch import Launcher, blocks_of
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
    corners, offsets = faces.corners, faces.offsets
    is_single = corners.dtype == torch.float32
    if not is_single:
        corners = corners.to(torch.float32)
    text, table, images = _tables(aggregation, faces.images, corners.device)
    cutoff = aggregation.coverage.cutoff
    if is_plain(corners):
        plan = plan_of(text, offsets, size, corners.shape[1], corners.device, tiles.LAUNCH)
        out = cast(Tensor, _AlphaOperator.apply(corners, table, images, cutoff, plan))
    else:
        shape = [size.height, size.width]
        out, *_ = _alpha(corners, table, images, text, cutoff, list(offsets), shape)
    return out if is_single else out.to(faces.corners.dtype)


def _tables(
    aggregation: Aggregation, images: int, device: torch.device
) -> tuple[str, Tensor, Tensor | None]:
    """What `described` returns, and the image table if it holds numbers only, else None."""
    coverage = aggregation.coverage
    if is_traced():
        return (*described(coverage, aggregation.tconorm), None)
    kept = aggregation.kept.get("triton alpha")
    if kept is None:
        with lasting():
            text, table = described(coverage, aggregation.tconorm)
        if coverage.number is None or len(Recipe.of(text).columns) > 1:
            return text, table, None
        numbers = numbered_table(text, coverage.number, coverage.cutoff, images, device)
        kept = text, table, numbers
        if not capturing(device):
            aggregation.kept["triton alpha"] = kept
    return kept


_BLOCK = 1024  # pixels of a program of `through_totals`


class DrawnAlpha(NamedTuple):
    """What the backward pass reads, as `_alpha` was given it or returned it."""

    corners: Tensor  # [T, N, 2]
    alpha: Tensor  # [B, H, W]
    rest: Tensor  # [P], 1 - alpha
    ties: Tensor  # [P] int32, the faces that reach the maximum; [0] for other families
    edges: Tensor  # [T, FACE_COLUMNS]
    boxes: Tensor  # [T, 4] int32
    images: Tensor  # [B, IMAGE_COLUMNS]


class AlphaPlan:
    """What the host knows before it looks at corners: kept from step to step.

    Args:
        text: of the renderer.
        offsets: of the faces of images.
        size: of the image.
        sides: corners of a face.
        device: where all tensors are.
        settings: of launches.
    """

    def __init__(
        self, text: str, offsets: tuple[int, ...], size: ImageSize, sides: int,
        device: torch.device, settings: tiles.TileLaunch,
    ) -> None:  # fmt: skip
        from gendr.rendering.backends.triton import kernels

        images, faces = len(offsets) - 1, offsets[-1]
        self.text, self.offsets, self.size, self.device = text, offsets, size, device
        self.recipe, self.sides = Recipe.of(text), sides
        self.launch = settings.fitted(images, faces, size)
        self.tiling = tiles.Tiling.of(size, self.launch.tile)
        self.index = tiles.image_of_face(offsets, device)
        self.shape, self.pixels = (images, size.height, size.width), images * size.pixels
        self.columns, self.faces = tiles.face_columns(), faces
        self.tables = tiles.face_tables(sides, device, settings)
        self.table_programs = (blocks_of(faces, 128),)
        self.shares = tiles.shares_of(faces, size.pixels, self.launch)
        # Whether the backward pass has one program for each face, and nothing is left to add.
        self.is_whole = self.shares == 1 and not tiles.extra_pieces(faces, size.pixels)
        functions, exact = self.recipe.forward(), self.recipe.is_exact
        sizes = {
            "TILE_H": self.tiling.height, "TILE_W": self.tiling.width, "SEGMENT": tiles.SEGMENT,
            **tiles.options(self.launch.tile_warps, exact=exact),
        }  # fmt: skip
        self.draw = Launcher(
            kernels.alpha_tiles, device, **functions, N=sides,
            BLOCK_FACES=self.launch.block_faces, **sizes,
        )  # fmt: skip
        self.join = Launcher(
            kernels.join_segments, device,
            INVERSE=functions["INVERSE"], KIND=functions["KIND"], **sizes,
        )  # fmt: skip
        self._gradients: dict[tuple[bool, bool], Launcher] = {}
        self._totals: Launcher | None = None

    def gradients(self, with_table: bool, atomic: bool) -> Launcher:
        """The kernel of the backward pass."""
        found = self._gradients.get((with_table, atomic))
        if found is None:
            from gendr.rendering.backends.triton import kernels

            compiled = tiles.options(self.launch.block_warps, exact=self.recipe.is_exact)
            found = self._gradients[with_table, atomic] = Launcher(
                kernels.alpha_gradients, self.device, **self.recipe.backward(with_table),
                ATOMIC=atomic, N=self.sides, BLOCK=self.launch.block_pixels, **compiled,
            )  # fmt: skip
        return found

    @property
    def totals(self) -> Launcher:
        """The kernel for what the totals have to do with the gradient of an open p."""
        if self._totals is None:
            from gendr.rendering.backends.triton import kernels

            weight_p = self.recipe.backward(scalars=True)["WEIGHT_P"]
            compiled = tiles.options(self.launch.warps)
            self._totals = Launcher(
                kernels.through_totals, self.device, WEIGHT_P=weight_p, BLOCK=_BLOCK, **compiled
            )
        return self._totals


plan_of = lru_cache(maxsize=64)(AlphaPlan)


def _forward(
    plan: AlphaPlan, corners: Tensor, table: Tensor, images: Tensor | None, cutoff: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Launch the forward pass; all of `DrawnAlpha` but the corners is returned.

    In place of an image table that is given and not changed, None is returned.
    """
    recipe, size = plan.recipe, plan.size
    made = None
    if images is None or recipe.kind == "mean":
        images = made = image_table(plan.text, table, cutoff)
    if recipe.kind == "mean":
        from gendr.rendering.backends.triton import shared_kernels as shared

        there = tiles.per_image(corners[:, 0, 0] < shared.ABSENT.value, plan.offsets)
        images[:, shared.FAMILY_P.value] = there.clamp(min=1).to(images).reciprocal()
    corners, empty, index = corners.contiguous(), corners.new_empty, plan.index
    edges, boxes = empty(plan.faces, plan.columns), index.new_empty(plan.faces, 4)
    height, width = size.height, size.width
    plan.tables(
        plan.table_programs, corners, index, images, edges, boxes, plan.faces, height, width
    )
    out, rest = empty(plan.shape), empty(plan.pixels)
    ties = index.new_empty(plan.pixels if recipe.is_exact else 0)
    starts, stops, faces, segments, tile_of_segment = tiles.lists_of(
        boxes, plan.offsets, plan.tiling
    )
    extra, every = tile_of_segment.shape[0], starts.shape[0]
    totals = others = rest  # for nobody
    if extra:
        room = extra * plan.tiling.height * plan.tiling.width
        totals, others = empty(room), empty(room)
    plan.draw(
        (every + extra,), edges, boxes, images, starts, stops, faces, segments, tile_of_segment,
        out, rest, ties, totals, others, every, height, width,
    )  # fmt: skip
    if extra:
        plan.join(
            (extra,), images, starts, stops, segments, tile_of_segment,
            out, rest, ties, totals, others, height, width,
        )  # fmt: skip
    return out, rest, ties, edges, boxes, made


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
    """Launch `_forward` as an operator, which returns a tensor without rows instead of None."""
    plan = _plan_of_operator(corners, text, offsets, size)
    out, rest, ties, edges, boxes, made = _forward(plan, corners, table, images, cutoff)
    if made is None:
        made = table.new_empty(0, tiles.image_columns())
    return out, rest, ties, edges, boxes, made


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
        corners.new_empty(count, *size),
        corners.new_empty(pixels),
        corners.new_empty(pixels if Recipe.of(text).is_exact else 0, dtype=torch.int32),
        corners.new_empty(corners.shape[0], tiles.face_columns()),
        corners.new_empty(corners.shape[0], 4, dtype=torch.int32),
        corners.new_empty(made, tiles.image_columns()),
    )


def _gradients(
    plan: AlphaPlan, grad: Tensor, drawn: Sequence[Tensor], with_table: bool
) -> tuple[Tensor, Tensor | None]:
    """Gradients of the corners [T, N, 2] and, if wanted, of the table [B, columns]."""
    corners, alpha, rest, ties, edges, boxes, images = drawn
    grad, height, width = grad.contiguous(), plan.size.height, plan.size.width
    given = edges, plan.index, images, boxes, alpha, rest, ties, grad
    if plan.is_whole and not with_table:
        grad_corners = grad.new_empty(corners.shape)
        plan.gradients(with_table, False)(
            (plan.faces, 1), *given, grad_corners, grad,  # the second is for nobody
            height, width, 1, boxes, boxes, boxes, plan.faces, 0,
        )  # fmt: skip
        return grad_corners, None
    sums = tiles.GradientSums.of(
        boxes, [height, width], with_table, (plan.sides, 2), like=grad, launch=plan.launch
    )
    plan.gradients(with_table, sums.atomic)(
        sums.programs, *given, *sums.rows, height, width, sums.shares, *sums.pieces.arguments
    )
    grad_corners, grad_scalars = sums.totals()
    if not with_table:
        return grad_corners, None
    scalars = tiles.sum_per_image(grad_scalars, list(plan.offsets))
    if "p" in plan.recipe.columns:
        from gendr.rendering.backends.triton import shared_kernels as shared

        scalars[:, shared.GRAD_LAST.value].sub_(_through_totals(plan, grad, DrawnAlpha(*drawn)))
    return grad_corners, plan.recipe.in_columns(scalars)


def _through_totals(plan: AlphaPlan, grad: Tensor, drawn: DrawnAlpha) -> Tensor:
    """What the pixels of every image take away from the gradient of p, [B]; see the kernel."""
    images, pixels = len(drawn.images), plan.size.pixels
    blocks = blocks_of(pixels, _BLOCK)
    parts = grad.new_empty(images, blocks)
    plan.totals(
        (images * blocks,), drawn.images, drawn.alpha, drawn.rest, grad, parts, pixels, blocks
    )
    return parts.sum(1)


@torch.library.custom_op("gendr::alpha_gradients", mutates_args=(), tags=tiles.TAGS)
def _alpha_gradients(
    grad: Tensor,
    drawn: list[Tensor],
    text: str,
    offsets: list[int],
    size: list[int],
    with_table: bool,
) -> tuple[Tensor, Tensor]:
    """Launch `_gradients` as an operator: the table's has no columns if it is not wanted."""
    plan = _plan_of_operator(drawn[0], text, offsets, size)
    corners, table = _gradients(plan, grad, drawn, with_table)
    if table is None:
        table = tiles.empty_table_gradient(grad, text, offsets, with_table)
    return corners, table


@_alpha_gradients.register_fake
def _(
    grad: Tensor,
    drawn: list[Tensor],
    text: str,
    offsets: list[int],
    size: list[int],
    with_table: bool,
) -> tuple[Tensor, Tensor]:
    corners = DrawnAlpha(*drawn).corners
    return corners.new_empty(corners.shape), tiles.empty_table_gradient(
        corners, text, offsets, with_table
    )


def _plan_of_operator(corners: Tensor, text: str, offsets: list[int], size: list[int]) -> AlphaPlan:
    on, sides = corners.device, corners.shape[1]
    return plan_of(text, tuple(offsets), ImageSize(*size), sides, on, tiles.LAUNCH)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Keep what the backward pass of `_alpha` needs."""
    corners, _table, images, text, _cutoff, offsets, size = inputs
    *rest, made = output
    used = images if images is not None and not len(made) else made
    ctx.save_for_backward(corners, *rest, used)  # `DrawnAlpha`
    ctx.given = text, offsets, size
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    """The gradients of `_alpha`'s inputs."""
    of_corners, of_table = ctx.needs_input_grad[:2]
    if grad is None:
        return (None,) * 7
    corners, table = _alpha_gradients(grad, list(ctx.saved_tensors), *ctx.given, of_table)
    return corners if of_corners else None, table if of_table else None, *(None,) * 5


_alpha.register_autograd(_backward, setup_context=_keep)
_alpha_gradients.register_autograd(tiles.no_second_derivative)


class _AlphaOperator(torch.autograd.Function):
    """The operator without PyTorch's dispatcher, which takes the host as long again."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        corners: Tensor,
        table: Tensor,
        images: Tensor | None,
        cutoff: float,
        plan: AlphaPlan,
    ) -> Tensor:
        *drawn, made = _forward(plan, corners, table, images, cutoff)
        used = images if made is None else made
        assert used is not None  # one of both is there
        ctx.save_for_backward(corners, *drawn, used)  # `DrawnAlpha`
        ctx.plan = plan
        ctx.set_materialize_grads(False)
        return drawn[0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        of_corners, of_table, *_ = ctx.needs_input_grad
        if grad is None:
            return (None,) * 5
        if is_plain(grad) and not torch.is_grad_enabled():
            corners, table = _gradients(ctx.plan, grad, ctx.saved_tensors, of_table)
        else:
            plan: AlphaPlan = ctx.plan
            corners, table = _alpha_gradients(
                grad, list(ctx.saved_tensors), plan.text, list(plan.offsets),
                [plan.size.height, plan.size.width], of_table,
            )  # fmt: skip
        return corners if of_corners else None, table if of_table else None, None, None, None
