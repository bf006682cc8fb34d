"""Ordered joining by compiled kernels; see `gendr.rendering.ordered`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gendr._common.checks import check_memory
from gendr._common.tracing import is_traced
from gendr.kernels.operator import Operator
from gendr.kernels.threads import run
from gendr.rendering.aggregation import PAIRS_AT_ONCE
from gendr.rendering.backends.cpu.records import FaceTables, Layers
from gendr.rendering.backends.cpu.tables import (
    KernelPair,
    Number,
    formulas_of,
    number_of,
    pixel_grid,
)
from gendr.rendering.coverage import Coverage
from gendr.rendering.geometry import ImageSize
from gendr.rendering.layers import ordered_densely

if TYPE_CHECKING:
    from gendr.rendering.layers import Layered

_Spec: TypeAlias = "tuple[Layered, ImageSize]"
# Into so many pieces the tiles are cut for each thread: some have far more faces than others.
_PIECES = 24


def ordered(layered: Layered, size: ImageSize) -> tuple[Tensor, Tensor]:
    """Colours [B H W, C] over black, and alpha [B H W]."""
    dist, kernels = layered.dist, KernelPair(_forward, _backward, wide=True)
    return _ORDERED(
        kernels, (layered, size), layered.faces.corners, layered.colours, layered.opacity,
        layered.scale, dist.total_shift(), dist.shape_parameter, layered.tconorm.given_p,
    )  # fmt: skip


def _definition(
    spec: _Spec, corners: Tensor, colours: Tensor, opacity: Tensor, scale: Tensor, shift: Number,
    shape: Number | None, p: Number | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The images in plain torch."""
    layered, size = spec
    layered = replace(
        layered, faces=replace(layered.faces, corners=corners), colours=colours, opacity=opacity,
        scale=scale, dist=layered.dist.with_numbers(shift, shape),
        tconorm=layered.tconorm if p is None else type(layered.tconorm)(p),  # pyright: ignore[reportCallIssue]  # it has a parameter
    )  # fmt: skip
    return ordered_densely(layered, size, None if is_traced() else PAIRS_AT_ONCE)


_ORDERED = Operator("rendering.ordered", reference=_definition)


class _Memory:
    """Arrays for what is kept of pairs, from a pass that is over, as fresh pages take long.

    They have room for the boxes of faces, which hold more pixels than are seen; a page that nobody
    writes takes no memory. Those of one pass are kept as long as the process lives.
    """

    _spare: ClassVar[list[tuple[np.ndarray, np.ndarray]]] = []

    def __init__(self, pairs: int) -> None:
        from gendr.rendering.backends.cpu import ordered_kernels as kernels

        try:
            found = self._spare.pop()
        except IndexError:
            found = np.empty((0, 0)), np.empty((0, 0))
        self.arrays = found  # whatever happens next
        if found[0].shape[-1] < pairs:
            room = pairs + pairs // 4
            found = (
                np.empty((kernels.KEPT, room)), np.empty((kernels.KEPT_MARKS, room), np.int32)
            )  # fmt: skip
        self.arrays = found

    def __del__(self) -> None:
        if not self._spare:
            self._spare.append(self.arrays)


def _column(value: Any) -> Any:
    """A number of all faces, or one of each."""
    if isinstance(value, Tensor) and value.ndim:
        return value.numpy()
    return number_of(value)


def _forward(
    spec: _Spec, corners: Tensor, colours: Tensor, opacity: Tensor, scale: Tensor, shift: Number,
    shape: Number | None, p: Number | None, *, save: bool,
) -> tuple[tuple[Tensor, Tensor], tuple[Any, ...]]:  # fmt: skip
    """The images. Saved: tables, tiles, and what was found of pairs."""
    from gendr.rendering.backends.cpu import kernels, ordered_kernels

    layered, size = spec
    faces, join = layered.faces, layered.tconorm
    count = len(corners)
    offsets = np.asarray(faces.offsets, np.int64)
    image_of_face = np.repeat(np.arange(faces.images), np.diff(offsets))
    table = np.zeros((count, ordered_kernels.FACE_COLUMNS))
    with torch.no_grad():
        table[:, kernels.RADIUS] = layered.dist.radius(scale, layered.cutoff, check=False)
    table[:, kernels.SCALE], table[:, ordered_kernels.OPACITY] = scale.numpy(), opacity.numpy()
    table[:, kernels.SHIFT], table[:, ordered_kernels.SHAPE] = _column(shift), _column(shape)
    if join.kind == "mean":
        present = np.maximum(np.asarray(faces.present_counts, np.float64), 1.0)
        table[:, kernels.FAMILY_P] = (1.0 / present)[image_of_face]
    else:
        table[:, kernels.FAMILY_P] = number_of(p)
    boxes = np.zeros((count, 4), np.int32)
    wide = corners.numpy()
    run(
        kernels.face_boxes, count, wide, np.arange(count), table, size.height, size.width, boxes,
        pieces=2,
    )  # fmt: skip
    present = faces.present
    if present is not None:
        boxes[~present.numpy()] = 0
    if join.kind != "mean":  # of others, only this has a gradient at an opacity of 0
        boxes[table[:, ordered_kernels.OPACITY] == 0] = 0
    tables = FaceTables(wide, offsets, image_of_face, boxes, table, pixel_grid(size))
    layers, slots = _layers(layered, boxes, image_of_face, size)
    pixels, channels = faces.images * size.pixels, colours.shape[1]
    out, alpha, left = np.zeros((pixels, channels)), np.zeros(pixels), np.ones(pixels)
    tiles, entries = len(layers.areas), len(layers.faces)
    pairs = int(layers.areas.sum()) + kernels.LANES * (tiles + 1)
    what = f"up to {pairs:,} pairs of a pixel and a face"
    size_of_row = 8 * (ordered_kernels.GRAD_COLOUR + channels)
    needed = 40 * pairs + size_of_row * entries
    check_memory(what, needed, "raise cutoff, or draw fewer or smaller faces")
    memory = _Memory(pairs)
    kept, marks = memory.arrays
    firsts, counts = np.empty(entries + 1, np.int64), np.zeros(tiles, np.int64)
    found = kept, marks, firsts, counts
    law = formulas_of(
        Coverage(layered.dist, scale, layered.cutoff), join, slopes=False,
        inverse=join.kind == "archimedean",
    )  # fmt: skip
    run(
        ordered_kernels.join_tiles, len(layers.areas), tuple(tables), tuple(law), tuple(layers),
        colours.numpy(), *found, out, alpha, left, save, pieces=_PIECES,
    )  # fmt: skip
    own = alpha if law.product else alpha.copy()  # what is returned may be changed in place
    saved = tables, layers, slots, (*found, own, left), memory
    return (torch.from_numpy(out), torch.from_numpy(alpha)), saved


def _layers(
    layered: Layered, boxes: np.ndarray, image_of_face: np.ndarray, size: ImageSize
) -> tuple[Layers, np.ndarray]:
    """The faces of every tile, and the first row of gradients of every face [T + 1]."""
    from gendr.rendering.backends.cpu import ordered_kernels as kernels

    across, down = -(-size.width // kernels.WIDE), -(-size.height // kernels.TALL)
    tiles = layered.faces.images * across * down
    starts, areas = np.zeros(tiles + 1, np.int64), np.zeros(tiles, np.int64)
    slots = np.zeros(len(boxes) + 1, np.int64)
    kernels.count_tiles(boxes, image_of_face, across, down, starts, slots, areas)
    planes, limits = layered.planes.contiguous().numpy(), layered.limits.contiguous().numpy()
    order = torch.argsort(torch.from_numpy(limits[:, 1]), descending=True, stable=True).numpy()
    entries, most = int(starts[-1]), int(np.diff(starts).max(initial=0))
    if most > kernels.MOST_ENTRIES:
        raise ValueError(
            f"{most:,} faces touch one tile of {kernels.WIDE} x {kernels.TALL} pixels, more than "
            f"{kernels.MOST_ENTRIES:,}; draw a larger image, or fewer faces"
        )
    faces, places = np.empty(entries, np.int32), np.empty(entries, np.int64)
    kernels.list_tiles(boxes, image_of_face, order, across, down, starts, slots, faces, places)
    # Each tile may write a vector beyond its pairs.
    firsts = np.cumsum(areas + kernels.LANES) - areas - kernels.LANES
    enough, sorts = layered.enough, bool((limits[:, 0] < limits[:, 1]).any())
    return (
        Layers(across, down, starts, areas, firsts, faces, places, planes, limits, enough, sorts),
        slots,
    )


def _backward(
    spec: _Spec, inputs: tuple[Any, ...], saved: tuple[Any, ...], grads: tuple[Tensor | None, ...],
    wanted: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Gradients of faces, and of the scalars in parts."""
    from gendr.rendering.backends.cpu import ordered_kernels as kernels

    (layered, size), (tables, layers, slots, found, _) = spec, saved
    corners, colours, scale = inputs[0], inputs[1], inputs[3]
    law = formulas_of(
        Coverage(layered.dist, scale, layered.cutoff), layered.tconorm, shape=wanted[5],
        p=wanted[6], inverse=layered.tconorm.kind == "archimedean",
    )  # fmt: skip
    pixels = layered.faces.images * size.pixels
    image = grads[0] if grads[0] is not None else colours.new_zeros(pixels, colours.shape[1])
    alpha = grads[1] if grads[1] is not None else colours.new_zeros(pixels)
    rows = np.zeros((int(slots[-1]), kernels.GRAD_COLOUR + colours.shape[1]))
    run(
        kernels.backward_tiles, len(layers.areas), tuple(tables), tuple(law), tuple(layers),
        colours.numpy(), *found, image.numpy(), alpha.numpy(), rows, pieces=_PIECES,
    )  # fmt: skip
    sums = np.zeros((len(corners), rows.shape[1]))
    run(kernels.sum_entries, len(corners), rows, slots, sums)
    gradients = torch.from_numpy(sums)
    columns = (kernels.GRAD_OPACITY, kernels.GRAD_SCALE, kernels.GRAD_SHIFT, kernels.GRAD_SHAPE)
    return (
        gradients[:, : 2 * corners.shape[1]].reshape(corners.shape),
        gradients[:, kernels.GRAD_COLOUR :],
        *(gradients[:, column] for column in columns),
        gradients[:, kernels.GRAD_P],
    )
