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
    is_single,
    number_of,
    pixel_grid,
    power_of,
)
from gendr.rendering.coverage import Coverage
from gendr.rendering.geometry import ImageSize
from gendr.rendering.layers import depth_keys as plain_keys
from gendr.rendering.layers import ordered_densely

if TYPE_CHECKING:
    from gendr.rendering.layers import Layered

_Spec: TypeAlias = "tuple[Layered, ImageSize]"
# Into so many pieces the tiles are cut for each thread: some have far more faces than others.
_PIECES = 24
_COLUMNS = (8, 9, 10, 11, 12)  # GRAD_OPACITY to GRAD_P of ordered_kernels.py


def depth_keys(corners: Tensor, depth: Tensor, sort: str) -> tuple[Tensor, Tensor]:
    """Keys of depth; see `gendr.rendering.layers.depth_keys`."""
    from gendr.rendering.backends.cpu import ordered_kernels

    if is_traced():
        return plain_keys(corners, depth, sort)
    planes, limits = np.empty((len(depth), 3)), np.empty((len(depth), 2))
    run(
        ordered_kernels.depth_planes, len(depth), corners.contiguous().numpy(),
        depth.contiguous().numpy(), sort == "centroid", planes, limits, pieces=2,
    )  # fmt: skip
    return torch.from_numpy(planes), torch.from_numpy(limits)


def ordered(layered: Layered, size: ImageSize) -> tuple[Tensor, Tensor]:
    """Colours [B H W, C] over black, channel by channel in memory, and alpha [B H W]."""
    dist, join = layered.dist, layered.tconorm
    scalars = dist.total_shift(), dist.shape_parameter, join.given_p
    tensors = layered.faces.corners, layered.colours, layered.opacity, layered.scale
    coverage = Coverage(dist, layered.scale, layered.cutoff, double=layered.double)
    single = all(x.dtype == torch.float32 for x in tensors) and is_single(
        layered.faces, size, coverage, join, scalars, measured=False
    )
    if single:
        kernels = KernelPair(_single_forward, _single_backward, strided=True)
    else:
        kernels = KernelPair(_forward, _backward, wide=True, strided=True)
    return _ORDERED(kernels, (layered, size), *tensors, *scalars)


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
    writes takes no memory. That of one pass is kept as long as the process lives.
    """

    _spare: ClassVar[list[np.ndarray]] = []

    def __init__(self, room: int, rows: int, marks: int, dtype: Any, lanes: int = 1) -> None:
        """For `rows` of so many vectors, and `marks` of int32."""
        each = np.dtype(dtype).itemsize * lanes
        wanted = room * (each * rows + 4 * marks)
        try:
            self._bytes = self._spare.pop()
        except IndexError:
            self._bytes = np.empty(0, np.uint8)
        if self._bytes.nbytes < wanted:
            self._bytes = np.empty(wanted + wanted // 4, np.uint8)
        middle = room * each * rows
        self.kept = self._bytes[:middle].view(dtype).reshape(rows, -1)
        self.marks = self._bytes[middle:wanted].view(np.int32).reshape(marks, room)

    def __del__(self) -> None:
        if not self._spare:
            self._spare.append(self._bytes)


def _column(value: Any) -> Any:
    """A number of all faces, or one of each."""
    if isinstance(value, Tensor) and value.ndim:
        return value.numpy()
    return number_of(value)


def _tables(
    spec: _Spec, corners: Tensor, opacity: Tensor, scale: Tensor, shift: Number,
    shape: Number | None, p: Number | None,
) -> FaceTables:  # fmt: skip
    """What the kernels read of faces; `images` has a row for each."""
    from gendr.rendering.backends.cpu import kernels, ordered_kernels, project_kernels

    layered, size = spec
    faces, join, count = layered.faces, layered.tconorm, len(corners)
    offsets = np.asarray(faces.offsets, np.int64)
    image_of_face = np.repeat(np.arange(faces.images), np.diff(offsets))
    table = np.zeros((count, ordered_kernels.FACE_COLUMNS))
    with torch.no_grad():
        table[:, kernels.RADIUS] = layered.dist.radius(scale.double(), layered.cutoff, check=False)
    table[:, kernels.SCALE], table[:, ordered_kernels.OPACITY] = scale.numpy(), opacity.numpy()
    table[:, kernels.SHIFT], table[:, ordered_kernels.SHAPE] = _column(shift), _column(shape)
    if join.kind == "mean":
        counts = np.maximum(np.asarray(faces.present_counts, np.float64), 1.0)
        table[:, kernels.FAMILY_P] = (1.0 / counts)[image_of_face]
    else:
        table[:, kernels.FAMILY_P] = power_of(join, p)
    boxes, given = np.zeros((count, 4), np.int32), corners.numpy()
    run(
        project_kernels.face_boxes, count, given, np.arange(count), table, size.height, size.width,
        boxes, pieces=2,
    )  # fmt: skip
    present = faces.present
    if present is not None:
        boxes[~present.numpy()] = 0
    if join.kind != "mean":  # of others, only this has a gradient at an opacity of 0
        boxes[table[:, ordered_kernels.OPACITY] == 0] = 0
    return FaceTables(given, offsets, image_of_face, boxes, table, pixel_grid(size))


def _check_memory(pairs: int, per_pair: int, layers: Layers, channels: int) -> None:
    """Refuse what would not fit."""
    from gendr.rendering.backends.cpu import ordered_kernels

    what = f"up to {pairs:,} pairs of a pixel and a face"
    size_of_row = 8 * (ordered_kernels.GRAD_COLOUR + channels)
    needed = per_pair * pairs + size_of_row * len(layers.faces)
    check_memory(what, needed, "raise cutoff, or draw fewer or smaller faces")


def _forward(
    spec: _Spec, corners: Tensor, colours: Tensor, opacity: Tensor, scale: Tensor, shift: Number,
    shape: Number | None, p: Number | None, *, save: bool,
) -> tuple[tuple[Tensor, Tensor], tuple[Any, ...]]:  # fmt: skip
    """The images. Saved: tables, tiles, and what was found of pairs."""
    from gendr.rendering.backends.cpu import kernels, ordered_kernels

    layered, size = spec
    tables = _tables(spec, corners, opacity, scale, shift, shape, p)
    layers, slots = _layers(layered, tables, size, 1, kernels.LANES)
    pixels, channels = layered.faces.images * size.pixels, colours.shape[1]
    out, alpha, left = np.zeros((channels, pixels)), np.zeros(pixels), np.ones(pixels)
    tiles, entries = len(layers.areas), len(layers.faces)
    pairs = int(layers.areas.sum()) + kernels.LANES * (tiles + 1)
    _check_memory(pairs, 40, layers, channels)
    memory = _Memory(pairs, ordered_kernels.KEPT, ordered_kernels.KEPT_MARKS, np.float64)
    firsts, counts = np.empty(entries + 1, np.int64), np.zeros(tiles, np.int64)
    found = memory.kept, memory.marks, firsts, counts
    join = layered.tconorm
    formulas = formulas_of(
        Coverage(layered.dist, scale, layered.cutoff), join, slopes=False,
        inverse=join.kind == "archimedean",
    )  # fmt: skip
    run(
        ordered_kernels.join_tiles, len(layers.areas), tuple(tables), tuple(formulas),
        tuple(layers), colours.numpy(), *found, out, alpha, left, save, pieces=_PIECES,
    )  # fmt: skip
    own = alpha if formulas.product else alpha.copy()  # what is returned may be changed in place
    saved = tables, layers, slots, (*found, own, left), memory
    return (torch.from_numpy(out.T), torch.from_numpy(alpha)), saved


def _single_forward(
    spec: _Spec, corners: Tensor, colours: Tensor, opacity: Tensor, scale: Tensor, shift: Number,
    shape: Number | None, p: Number | None, *, save: bool,
) -> tuple[tuple[Tensor, Tensor], tuple[Any, ...]]:  # fmt: skip
    """As `_forward`, in float32."""
    from gendr.rendering.backends.cpu import ordered_tile_kernels as kernels

    layered, size = spec
    tables = _tables(spec, corners, opacity, scale, shift, shape, p)
    layers, slots = _layers(layered, tables, size, kernels.SIDE, kernels.BLOCKS)
    pixels, channels = layered.faces.images * size.pixels, colours.shape[1]
    out = np.zeros((channels, pixels), np.float32)
    alpha, tiles = np.zeros(pixels, np.float32), len(layers.areas)
    room = int(layers.areas.sum()) + kernels.BLOCKS * tiles + 1
    formulas = formulas_of(
        Coverage(layered.dist, scale, layered.cutoff), layered.tconorm, slopes=False, single=True,
        inverse=True,
    )  # fmt: skip
    rows = kernels.KEPT_OF_PRODUCTS if formulas.product else kernels.KEPT
    _check_memory(kernels.SINGLES * room, 4 * rows + 5, layers, channels)
    memory = _Memory(room, rows, kernels.KEPT_MARKS, np.float32, kernels.SINGLES)
    spans = np.zeros((tiles, 2 * kernels.BLOCKS), np.int64)
    found = memory.kept, memory.marks, spans, np.zeros(tiles, np.int64)
    run(
        kernels.join_tiles, tiles, tuple(tables), tuple(formulas), tuple(layers), colours.numpy(),
        *found, out, alpha, pieces=_PIECES,
    )  # fmt: skip
    saved = tables, layers, slots, found, memory
    return (torch.from_numpy(out.T), torch.from_numpy(alpha)), saved


def _layers(
    layered: Layered, tables: FaceTables, size: ImageSize, side: int, room: int
) -> tuple[Layers, np.ndarray]:
    """The faces of every tile, and the first row of gradients of every face [T + 1].

    Args:
        layered: the faces.
        tables: theirs.
        size: of the images.
        side: of the squares of pixels that a tile has its areas in.
        room: that it has beside these.
    """
    from gendr.rendering.backends.cpu import ordered_kernels as kernels

    boxes, image_of_face = tables.boxes, tables.image_of_face
    across, down = -(-size.width // kernels.WIDE), -(-size.height // kernels.TALL)
    tiles = layered.faces.images * across * down
    starts, areas = np.zeros(tiles + 1, np.int64), np.zeros(tiles, np.int64)
    slots = np.zeros(len(boxes) + 1, np.int64)
    kernels.count_tiles(boxes, image_of_face, across, down, side, starts, slots, areas)
    planes, limits = layered.planes.contiguous().numpy(), layered.limits.contiguous().numpy()
    order = np.empty(len(limits), np.int64)
    kernels.order_faces((limits[:, 1] + 0.0).view(np.uint64), order)  # -0 becomes 0
    entries, most = int(starts[-1]), int(np.diff(starts).max(initial=0))
    if most > kernels.MOST_ENTRIES:
        raise ValueError(
            f"{most:,} faces touch one tile of {kernels.WIDE} x {kernels.TALL} pixels, more than "
            f"{kernels.MOST_ENTRIES:,}; draw a larger image, or fewer faces"
        )
    faces, places = np.empty(entries, np.int32), np.empty(entries, np.int64)
    kernels.list_tiles(boxes, image_of_face, order, across, down, starts, slots, faces, places)
    firsts = np.cumsum(areas + room) - areas - room
    enough, sorts = layered.enough, bool((limits[:, 0] < limits[:, 1]).any())
    return (
        Layers(across, down, starts, areas, firsts, faces, places, planes, limits, enough, sorts),
        slots,
    )


def _backward(
    spec: _Spec, inputs: tuple[Any, ...], saved: tuple[Any, ...], grads: tuple[Tensor | None, ...],
    wanted: tuple[bool, ...], single: bool = False,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Gradients of faces, and of the scalars in parts."""
    from gendr.rendering.backends.cpu import ordered_kernels, ordered_tile_kernels

    kernels = ordered_tile_kernels if single else ordered_kernels
    (layered, size), (tables, layers, slots, found, _) = spec, saved
    corners, colours, scale = inputs[0], inputs[1], inputs[3]
    formulas = formulas_of(
        Coverage(layered.dist, scale, layered.cutoff), layered.tconorm, shape=wanted[5],
        p=wanted[6], inverse=layered.tconorm.kind == "archimedean", single=single,
    )  # fmt: skip
    pixels = layered.faces.images * size.pixels
    channels = colours.shape[1]
    image = colours.new_zeros(channels, pixels) if grads[0] is None else grads[0].t().contiguous()
    alpha = colours.new_zeros(pixels) if grads[1] is None else grads[1].contiguous()
    columns = ordered_kernels.GRAD_COLOUR + channels
    rows = np.zeros((int(slots[-1]), columns), np.float32 if single else np.float64)
    run(
        kernels.backward_tiles, len(layers.areas), tuple(tables), tuple(formulas), tuple(layers),
        colours.numpy(), *found, image.numpy(), alpha.numpy(), rows, pieces=_PIECES,
    )  # fmt: skip
    gradients = corners.new_empty(len(corners), columns)
    limit = torch.finfo(corners.dtype).max / 4
    run(ordered_kernels.sum_entries, len(corners), rows, slots, limit, gradients.numpy())
    return (
        gradients[:, : 2 * corners.shape[1]].reshape(corners.shape),
        gradients[:, ordered_kernels.GRAD_COLOUR :],
        *(gradients[:, column] for column in _COLUMNS),
    )


def _single_backward(
    spec: _Spec, inputs: tuple[Any, ...], saved: tuple[Any, ...], grads: tuple[Tensor | None, ...],
    wanted: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """As `_backward`, of what `_single_forward` saved."""
    return (*_backward(spec, inputs, saved, grads, wanted, single=True)[:4], None, None, None)
