"""Ordered joining on the Triton backend; see `gendr.rendering.ordered` and `ordered_kernels`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from gendr._common.readback import Readback
from gendr._common.tracing import capturing
from gendr.kernels.operator import Operator
from gendr.kernels.triton.launch import Launcher, blocks_of, interpreted, run
from gendr.rendering.backends.triton import tiles
from gendr.rendering.backends.triton.recipes import Recipe, described, rows_of_faces
from gendr.rendering.backends.triton.tiles import GradientSums, TileLaunch, TilePlan, plan_of
from gendr.rendering.coverage import Coverage
from gendr.rendering.geometry import ImageSize

if TYPE_CHECKING:
    from collections.abc import Callable

    from gendr.rendering.layers import Layered

_Spec: TypeAlias = "tuple[Layered, ImageSize]"

# A pixel for every thread: the faces that wait for their turn fill the registers.
LAUNCH = TileLaunch((32, 32), 1, 1024, 1) if interpreted() else TileLaunch((8, 16), tile_warps=4)


def ordered(layered: Layered, size: ImageSize) -> tuple[Tensor, Tensor]:
    """Colours [B H W, C] over black, and alpha [B H W]."""
    corners, dist = layered.faces.corners, layered.dist
    values = corners, layered.colours, layered.opacity, layered.scale
    image, alpha = _ORDERED(
        _Kernels(_forward, _backward), (layered, size), *(x.to(torch.float32) for x in values),
        dist.total_shift(), dist.shape_parameter, layered.tconorm.given_p,
    )  # fmt: skip
    return image.to(corners.dtype), alpha.to(corners.dtype)


def keys(corners: Tensor, depth: Tensor, sort: str) -> tuple[Tensor, Tensor]:
    """`gendr.rendering.layers.depth_keys`, by one kernel."""
    from gendr.rendering.backends.triton.ordered_kernels import depth_planes

    count = len(depth)
    planes, limits = (depth.new_empty(count, n, dtype=torch.float64) for n in (3, 2))
    run(
        depth_planes, (blocks_of(count, 128),), depth.device, corners.contiguous(),
        depth.contiguous(), planes, limits, count, CENTROID=sort == "centroid", BLOCK=128,
        **tiles.options(4, exact=True),
    )  # fmt: skip
    return planes, limits


class _Kernels(NamedTuple):
    forward: Callable[..., Any]
    backward: Callable[..., Any]
    backend: str = "triton"


_ORDERED = Operator("ordered joining of the triton backend", reference=None)


class OrderedPlan(TilePlan):
    """The launches of ordered joining of one recipe; see `TilePlan`.

    Attributes:
        image: of each face, [T] int32.
        room: pairs that are kept, None before the first pass that keeps any.
    """

    def __init__(
        self, offsets: tuple[int, ...], size: ImageSize, sides: int, device: torch.device,
        settings: TileLaunch, recipe: Recipe, sorts: bool, channels: int,
    ) -> None:  # fmt: skip
        many = offsets[-1] * tiles.PIXELS_OF_SMALL_FACES >= (len(offsets) - 1) * size.pixels
        settings = settings.with_small(tiles=False, blocks=many and not interpreted())
        super().__init__(offsets, size, sides, device, settings)
        self.image, self.room = self.image_of_face, None
        self.image_of_face = torch.arange(self.faces, dtype=torch.int32, device=device)  # rows
        self.recipe, self._sorts, self._channels = recipe, sorts, channels
        self._launchers: dict[tuple[str, bool], Launcher] = {}

    def run(self, kernel: str, option: bool, grid: tuple[int, ...], *args: Any) -> None:
        """Launch a kernel of this name.

        Args:
            kernel: its name.
            option: of `join_layers`, whether anything is kept; of the others, whether the gradients
                of shape and p are wanted.
            grid: of programs.
            *args: of the kernel.
        """
        from gendr.rendering.backends.triton import ordered_kernels

        if (kernel, option) not in self._launchers:
            launch = self.launch
            sizes: dict[str, Any] = {**self.tile, **tiles.options(launch.tile_warps)}
            if kernel == "join_layers":
                functions = self.recipe.forward()
                functions |= {"SORTS": self._sorts, "KEEPS": option, "N": self.sides}
            else:
                every, names = self.recipe.backward(option), ("WEIGHT", "WEIGHT_P", "KIND")
                if kernel == "layer_gradients":
                    names = "CDF", "PDF", "DSHAPE"
                    sizes = {"N": self.sides, "BLOCK": launch.block_pixels}
                    sizes |= tiles.options(launch.block_warps)
                functions = {name: every[name] for name in names}
            self._launchers[kernel, option] = Launcher(
                getattr(ordered_kernels, kernel), self.device, **functions,
                CHANNELS=self._channels, **sizes,
            )  # fmt: skip
        self._launchers[kernel, option](grid, *args)

    @property
    def grid(self) -> tuple[int]:
        """A program for every tile."""
        return (self.images * self.tiling.tiles,)

    def fit(self, pairs: int) -> int:
        """The pairs that the next pass has room for, if so many were needed last."""
        if self.room is None or not self.room / 8 <= pairs <= 0.9 * self.room:
            self.room = int(tiles.SLACK * pairs)
        return self.room


def _planned(spec: _Spec, colours: Tensor, scale: Tensor) -> tuple[OrderedPlan, Recipe, Coverage]:
    """The plan, the recipe with its numbers, and the coverage."""
    layered, size = spec
    faces, coverage = layered.faces, Coverage(layered.dist, scale, layered.cutoff)
    recipe, _ = described(coverage, layered.tconorm)
    plan = plan_of(
        OrderedPlan, faces.offsets, size, faces.corners.shape[1], colours.device, LAUNCH,
        recipe.code, layered.sorts, colours.shape[1],
    )  # fmt: skip
    return plan, recipe, coverage


def _forward(
    spec: _Spec, corners: Tensor, colours: Tensor, opacity: Tensor, scale: Tensor, shift: Any,
    shape: Any, p: Any, *, save: bool,
) -> tuple[tuple[Tensor, Tensor], tuple[Any, ...]]:  # fmt: skip
    """The images. Saved: tables and lists, what was found of pixels and pairs, the pairs needed.

    Pairs get the memory that earlier passes have needed, and a little more: the host waits in the
    first one only. The backward pass, before which their number has arrived, joins again if it was
    too little.
    """
    from gendr.rendering.backends.triton import ordered_kernels as kernels
    from gendr.rendering.backends.triton import shared_kernels as shared

    layered = spec[0]
    plan, recipe, coverage = _planned(spec, colours, scale)
    rows = rows_of_faces(recipe, coverage, shift, shape, p)
    rows[:, kernels.OPACITY.value] = opacity
    if recipe.kind == "mean":
        there = (corners[:, 0, 0] < shared.ABSENT.value).to(torch.int64)
        counts = there.new_zeros(plan.images).index_add_(0, plan.image, there).clamp(min=1)
        rows[:, shared.FAMILY_P.value] = counts.to(rows).reciprocal()[plan.image]
    edges, boxes = plan.tables(corners, rows)
    if recipe.kind != "mean":  # of others, only this has a gradient at an opacity of 0
        boxes *= (opacity != 0).unsqueeze(-1)
    planes, limits = layered.planes.contiguous(), layered.limits.contiguous()
    order = torch.argsort(limits[:, 1], descending=True, stable=True)
    if plan.images > 1:
        order = order[torch.argsort(plan.image[order], stable=True)]
    boxes_in_order = boxes[order]
    lists = plan.lists(boxes_in_order)
    areas = (boxes[:, 1] - boxes[:, 0]).to(torch.int64) * (boxes[:, 3] - boxes[:, 2])
    ends = areas.cumsum(0)
    head = (
        edges, rows, boxes, boxes_in_order, order, planes, limits, lists.starts, lists.stops,
        lists.faces, ends - areas,
    )  # fmt: skip
    if not save:
        return _joined(plan, spec, head, colours, None)[:2], ()
    if capturing(plan.device):
        raise RuntimeError(
            "ordered joining with gradients cannot be captured in a CUDA graph: the memory that it "
            "takes depends on what is seen; take the step without a graph"
        )
    needed = Readback(plan.device, 1)
    needed.send(ends[-1:] if plan.faces else needed.numbers)
    room = plan.room if plan.room is not None else plan.fit(needed.wait()[0])
    image, alpha, rest, *found = _joined(plan, spec, head, colours, room)
    own = alpha if recipe.is_product else alpha.clone()  # the caller may change it in place
    return (image, alpha), (*head, own, rest, *found, needed)


def _joined(
    plan: OrderedPlan, spec: _Spec, head: tuple[Tensor, ...], colours: Tensor, room: int | None
) -> Any:
    """Image, alpha, 1 - alpha; the last face of pixels, pairs and links; see `join_layers`.

    Args:
        plan: of the batch.
        spec: what is joined.
        head: the first arguments of the kernel.
        colours: [T, C].
        room: for so many pairs, None to keep nothing.
    """
    from gendr.rendering.backends.triton.ordered_kernels import KEPT

    (layered, size), join, channels = spec, spec[0].tconorm, colours.shape[1]
    new, marks, kept = colours.new_empty, plan.image.new_empty, room or 0
    found = (
        new(plan.pixels, channels), new(plan.pixels), new(plan.pixels), marks(plan.pixels),
        new(KEPT.value, kept), marks(kept),
    )  # fmt: skip
    by_sum = join.kind == "archimedean" and not (join.is_product or plan.recipe.is_scaled)
    limit = layered.enough if by_sum else max(layered.bound, 0.0)
    grid = *plan.grid, max(1, blocks_of(channels, 3))
    plan.run(
        "join_layers", room is not None, grid, *head, colours, *found, kept, limit, size.height,
        size.width,
    )  # fmt: skip
    return found


def _backward(
    spec: _Spec, inputs: tuple[Any, ...], saved: tuple[Any, ...], grads: tuple[Tensor | None, ...],
    wanted: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Gradients of faces, and of the scalars in parts."""
    from gendr.rendering.backends.triton.ordered_kernels import GRAD_COLOUR

    size, colours, scalars = spec[1], inputs[1], wanted[5] or wanted[6]
    plan, recipe, _ = _planned(spec, colours, inputs[3])
    *head, alpha, rest, last, pairs, links, sent = saved
    edges, rows, boxes, places = head[0], head[1], head[2], head[-1]
    (needed,) = sent.wait()
    plan.fit(needed)
    if needed > len(links):
        *_, last, pairs, links = _joined(plan, spec, tuple(head), colours, needed)
    image, of_alpha = grads
    if image is None:
        image = rest.new_zeros(plan.pixels, colours.shape[1])
    if of_alpha is None:
        of_alpha = torch.zeros_like(rest)
    on_cover, weights = rest.new_zeros(2, needed)  # also of pairs that were left out
    on_p = rest.new_empty(plan.pixels if "p" in recipe.columns else 0)
    plan.run(
        "part_layers", scalars, plan.grid, rows, boxes, places, colours, alpha, rest, last, pairs,
        links, image, of_alpha, on_cover, weights, on_p, len(links), size.height, size.width,
    )  # fmt: skip
    corners = 2 * plan.sides
    numbers = corners + GRAD_COLOUR.value
    sums = GradientSums(plan, boxes, numbers + colours.shape[1], False)
    plan.run(
        "layer_gradients", scalars, sums.programs, edges, rows, plan.image, boxes, places,
        on_cover, weights, image, sums.rows[0], size.height, size.width, sums.pieces.table,
        plan.faces,
    )  # fmt: skip
    of_faces, _ = sums.totals()
    return (
        of_faces[:, :corners].reshape(inputs[0].shape), of_faces[:, numbers:],
        *of_faces[:, corners:numbers].unbind(1), on_p,
    )  # fmt: skip
