"""Softmax shading on the CPU: colours and all their gradients, without a list of pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gendr._common import memory
from gendr.kernels.operator import Operator
from gendr.kernels.threads import run
from gendr.rendering.backends.cpu.tables import (
    FaceTables,
    KernelPair,
    Number,
    formulas_of,
    image_table,
    is_single,
    narrowed,
    number_of,
    sums_per_image,
    tables_of,
)
from gendr.rendering.coverage import Coverage
from gendr.rendering.geometry import ImageSize, ScreenFaces
from gendr.tnorms import Max

if TYPE_CHECKING:
    from gendr.mesh import Lighting
    from gendr.rendering.scene import Scene

# In the backward pass, the most numbers (64 MB) that are kept at a time of gradients for textures.
CAPACITY = 8_000_000
# No inverse of a sum of weights is larger: gradients of coverages are multiplied by it, and a sum
# of coverages that are almost 0 has none.
HIGHEST = 2.0**1000


def softmax(
    scene: Scene, coverage: Coverage, rate: Tensor, backdrop: float
) -> tuple[Tensor, Tensor]:
    """Colours without the part of the background [P, 3], and the share of the background [P].

    Args:
        scene: of triangles, none of which may be clipped.
        coverage: how faces cover pixels.
        rate: [], 1 / ((far - near) gamma).
        backdrop: the depth of the background.
    """
    faces, texture, gloss = scene.faces, scene.texture, scene.gloss
    columns = [*scene.geometry.corner_depths, scene.colours.flatten(1)]
    if texture is not None or gloss is not None:
        uvs = faces.corners.new_zeros(1, 6) if texture is None else texture.uvs.flatten(1)
        columns.append(uvs.expand(len(faces.corners), 6))
    lights = None
    if gloss is not None:
        columns += [gloss.normals.flatten(1), gloss.positions.flatten(1)]
        lights = torch.cat([gloss.directions, gloss.viewpoints], -1)
    look = _Look(
        None if texture is None else texture.place.numpy(),
        None if gloss is None else gloss.lighting,
        gloss is not None and gloss.orthographic,
        backdrop,
    )
    task, attributes = _Task(faces, scene.size, coverage, look), torch.cat(columns, -1)
    scalars = coverage.scale, coverage.dist.total_shift(), coverage.dist.shape_parameter, rate
    if texture is None and gloss is None and _is_single(task, attributes, scalars):
        kernels = KernelPair(_single_forward, _single_backward)
        return _SOFTMAX(kernels, task, faces.corners, attributes, *scalars)
    kernels, texels = KernelPair(_forward, _backward, wide=True), texture and texture.texels
    return _SOFTMAX(kernels, task, faces.corners, attributes, *scalars, lights, texels)


@dataclass(frozen=True)
class _Look:
    """The parts of an appearance that are not tensors with a gradient.

    Attributes:
        place: [B, 3], first texel, height and width of the texture of every image, or None.
        lighting: the light, if it changes over a face, or None.
        orthographic: whether viewpoints are directions.
        backdrop: the depth of the background.
    """

    place: np.ndarray | None
    lighting: Lighting | None
    orthographic: bool
    backdrop: float

    def surface(self) -> np.ndarray:
        """The array `surface` of the kernels."""
        light = self.lighting
        numbers = [float(self.place is not None), 0.0, 0.0, float(self.orthographic), 0, 0, 0, 1]
        if light is not None:
            numbers[1], numbers[2] = 1.0, float(light.specular > 0)
            numbers[4:] = [light.ambient, light.diffuse, light.specular, light.shininess]
        return np.array(numbers)


class _Task(NamedTuple):
    """The arguments of a rendering other than the tensors that get gradients."""

    faces: ScreenFaces
    size: ImageSize
    coverage: Coverage
    look: _Look


_SOFTMAX = Operator("softmax of the cpu backend", reference=None)


def _forward(
    task: _Task, *inputs: Any, save: bool
) -> tuple[tuple[Tensor, Tensor], tuple[Any, ...]]:
    """Colours and shares of the background. Saved: sums per pixel, their powers, and tables."""
    from gendr.rendering.backends.cpu import softmax_kernels as kernels

    call = _Call.of(task, inputs)
    pixels = task.faces.images * task.size.pixels
    sums, tops = np.zeros((4, pixels + kernels.LANES)), np.zeros(pixels + kernels.LANES)
    run(
        kernels.softmax_rows, task.faces.images * task.size.height, tuple(call.tables),
        tuple(formulas_of(task.coverage, Max(), slopes=False)), call.paint, sums, tops,
    )  # fmt: skip
    found, top = torch.from_numpy(sums), torch.from_numpy(tops)
    colours = found[:3, :pixels].T.contiguous()
    return (colours, torch.exp2(-top[:pixels]) / found[3, :pixels]), (found, top, call)


def _backward(
    task: _Task, inputs: tuple[Any, ...], saved: tuple[Any, ...],
    grads: tuple[Tensor | None, ...], wanted: tuple[bool, ...],
) -> list[Tensor | None]:  # fmt: skip
    """Gradients per face, of images, and of texels."""
    found, top, call = saved
    pixels = task.faces.images * task.size.pixels
    read = torch.zeros(6, len(top), dtype=torch.float64, device="cpu")
    grad, grad_share = grads
    if grad is not None:
        read[:3, :pixels] = grad.T
    # Colour and background share are weighted means: increasing one weight lowers the parts of
    # all.
    read[3] = -(read[:3] * found[:3]).sum(0)
    if grad_share is not None:
        share = torch.exp2(-top[:pixels]) / found[3, :pixels]
        read[3, :pixels] -= grad_share * share
    read[4] = (1.0 / found[3]).clamp_(max=HIGHEST)
    read[5] = top
    results = call.gradients(tuple(read.numpy()), wanted)
    dtype = task.faces.corners.dtype
    return [None if g is None else narrowed(g, dtype) for g in results]


# What float32 holds of weights: the exponent of the least one, counted from the nearest face.
_FAINTEST = -80.0


def _is_single(task: _Task, attributes: Tensor, scalars: tuple[Any, ...]) -> bool:
    """As `is_single`; and the weight of the farthest face is no less than float32 holds."""
    cutoff = task.coverage.cutoff
    if not is_single(task.faces, task.size, task.coverage, None, scalars) or cutoff <= 0:
        return False
    depth = attributes.detach()[:, 3:6]
    if not len(depth):
        return False
    spread = float(depth.max() - depth.min()) * number_of(scalars[-1])
    return math.log(cutoff) - spread >= _FAINTEST


def _single_forward(
    task: _Task, corners: Tensor, attributes: Tensor, scale: Tensor, shift: Number, shape: Any,
    rate: Tensor, *, save: bool,
) -> tuple[tuple[Tensor, Tensor], tuple[Any, ...]]:  # fmt: skip
    """As `_forward`, by tiles."""
    from gendr.rendering.backends.cpu import kernels, tile_kernels
    from gendr.rendering.backends.cpu import tile_softmax_kernels as colours

    faces, size, coverage, look = task
    columns = {kernels.SCALE: scale.numpy(), kernels.SHIFT: number_of(shift)}
    tables = tables_of(faces, corners, size, image_table(coverage.radius(), columns))
    down = -(-size.height // tile_kernels.SIDE)
    rows, pixels = faces.images * down, faces.images * size.pixels
    # A row more, so that channels do not share places of the caches either.
    whole = rows * tile_kernels.SIDE + 1, tile_kernels.row_length(size.width)
    kept = memory.empty((colours.CHANNELS, *whole), torch.float32)
    depths = np.array(
        [number_of(rate), float(attributes[:, colours.DEPTH : colours.COLOUR].min()), look.backdrop]
    )
    out = kept.new_empty(pixels, 3), kept.new_empty(pixels)
    run(
        colours.softmax_tiles, rows, tables.corners, tables.offsets, tables.boxes, tables.images,
        (size.height, size.width), tuple(formulas_of(coverage, Max(), slopes=False, single=True)),
        attributes.numpy(), depths, kept.numpy(), out[0].view(-1).numpy(), out[1].numpy(),
    )  # fmt: skip
    return out, (kept, out[1], tables, depths)


def _single_backward(
    task: _Task, inputs: tuple[Any, ...], saved: tuple[Any, ...],
    grads: tuple[Tensor | None, ...], wanted: tuple[bool, ...],
) -> list[Tensor | None]:  # fmt: skip
    """Gradients of corners and attributes."""
    from gendr.rendering.backends.cpu import tile_softmax_kernels as colours

    (faces, size, coverage, _), (kept, shares, tables, depths) = task, saved
    attributes, extent = inputs[1], (size.height, size.width)
    grad, of_shares = grads
    grad = shares.new_zeros(len(shares), 3) if grad is None else grad
    of_shares = torch.zeros_like(shares) if of_shares is None else of_shares
    read = memory.empty((colours.READ, *kept.shape[1:]), torch.float32).zero_()
    down = -(-size.height // colours.SIDE)
    run(
        colours.take_softmax_gradients, faces.images * down, grad.view(-1).numpy(),
        of_shares.numpy(), kept.numpy(), shares.detach().numpy(), extent, read.numpy(),
    )  # fmt: skip
    out = [memory.empty(x.shape, torch.float32).zero_() for x in (inputs[0], attributes)]
    run(
        colours.softmax_faces, len(attributes), tables.corners, tables.offsets,
        tables.image_of_face, tables.boxes, tables.images, extent,
        tuple(formulas_of(coverage, Max(), single=True)), attributes.numpy(), depths, read.numpy(),
        out[0].numpy(), out[1].numpy(),
    )  # fmt: skip
    return [*(narrowed(x, x.dtype) for x in out), None, None, None, None]


@dataclass(frozen=True)
class _Call:
    """The arguments of the kernels.

    Attributes:
        task: what is rendered.
        tables: the tables of faces and images.
        paint: the tuple `paint` of `softmax_faces`.
    """

    task: _Task
    tables: FaceTables
    paint: tuple[np.ndarray, ...]

    @staticmethod
    def of(task: _Task, inputs: tuple[Any, ...]) -> _Call:
        """Convert the inputs of the operator to what the kernels take: NumPy arrays of float64."""
        from gendr.rendering.backends.cpu import kernels

        faces, size, coverage, look = task
        corners, attributes, scale, shift, _, rate, lights, texels = inputs
        columns = {kernels.SCALE: scale.numpy(), kernels.SHIFT: number_of(shift)}
        tables = tables_of(faces, corners, size, image_table(coverage.radius(), columns))
        place = look.place
        if place is None:
            place = np.zeros((faces.images, 3), np.int64)
        paint = (
            attributes.numpy(),
            look.surface(),
            np.zeros((faces.images, 0)) if lights is None else lights.numpy(),
            np.zeros(0) if texels is None else texels.numpy().reshape(-1),
            np.ascontiguousarray(place),
            np.array([number_of(rate), look.backdrop]),
        )
        return _Call(task, tables, paint)

    def gradients(
        self, pixels: tuple[np.ndarray, ...], wanted: tuple[bool, ...]
    ) -> list[Tensor | None]:
        """Gradients of corners, attributes, scale, shift, shape, rate, lights and texels.

        Args:
            pixels: see `softmax_faces`.
            wanted: which of these gradients to compute; the others are None.
        """
        from gendr.rendering.backends.cpu import kernels as alpha_kernels
        from gendr.rendering.backends.cpu import softmax_kernels as kernels

        tables, count = self.tables, len(self.tables.corners)
        with_scalars = any(wanted[2:5])
        arrays = tuple(tables)
        formulas = tuple(formulas_of(self.task.coverage, Max(), shape=wanted[4]))
        per_image = any(wanted[5:7])
        grads = (
            np.zeros_like(tables.corners),
            np.zeros_like(self.paint[0]),
            np.zeros((count if per_image else 0, kernels.GRAD_COLUMNS)),
        )
        scalars = np.zeros((count if with_scalars else 0, alpha_kernels.GRAD_COLUMNS))
        texels = np.zeros((3, len(self.paint[3]) // 3)) if wanted[7] else None
        for first, last, asked in self._rounds(texels is not None):

            def kernel(start: int, stop: int, first: int = first, asked: Any = asked) -> None:
                kernels.softmax_faces(
                    arrays, formulas, self.paint, pixels, grads, scalars, asked,
                    first + start, first + stop,
                )  # fmt: skip

            run(kernel, last - first)
            if texels is not None:
                run(
                    kernels.scatter_texels, len(texels), asked, last, tables.image_of_face,
                    self.paint[4], texels,
                )  # fmt: skip
        sums = sums_per_image(scalars, tables.offsets) if with_scalars else None
        seen = sums_per_image(grads[2], tables.offsets) if per_image else None
        return [
            torch.from_numpy(grads[0]),
            torch.from_numpy(grads[1]),
            None if sums is None else sums[:, alpha_kernels.GRAD_SCALE],
            sums[:, alpha_kernels.GRAD_SHIFT].sum() if sums is not None and wanted[3] else None,
            sums[:, alpha_kernels.GRAD_SHAPE].sum() if sums is not None and wanted[4] else None,
            seen[:, kernels.GRAD_RATE].sum() if seen is not None and wanted[5] else None,
            seen[:, : kernels.LIGHT_COLUMNS] if seen is not None and wanted[6] else None,
            None if texels is None else torch.from_numpy(np.ascontiguousarray(texels.T)),
        ]

    def _rounds(self, with_texels: bool) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        """Runs of faces and, if textures get gradients, memory for these gradients."""
        from gendr.rendering.backends.cpu import softmax_kernels as kernels

        tables, count = self.tables, len(self.tables.corners)
        patches = np.zeros((count if with_texels else 0, kernels.PATCH_COLUMNS), np.int64)
        if not with_texels:
            none = np.zeros(0, np.int64)
            if count:
                yield 0, count, (np.zeros(0), none, none, patches, 0)
            return
        needed = np.zeros(count, np.int64)
        run(
            kernels.plan_texels, count, tuple(tables), self.paint[0], self.paint[4], needed,
            patches,
        )  # fmt: skip
        ends = np.cumsum(needed)
        first = 0
        while first < count:
            before = ends[first] - needed[first]
            last = max(int(np.searchsorted(ends, before + CAPACITY, "right")), first + 1)
            slots = ends[first:last] - needed[first:last] - before
            memory = np.zeros(max(int(ends[last - 1] - before), 1))
            yield first, last, (memory, slots, np.zeros_like(slots), patches, first)
            first = last
