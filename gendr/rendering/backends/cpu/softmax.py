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
# In float32: the most texels that a face may stretch over, as places in a texture have some digits
# of that; the highest power of a highlight; and lengths whose squares are far from its range.
_STRETCHED, _SHARPEST, _FARTHEST = 1024, 256.0, 1e12
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
    texels = None if texture is None else texture.texels
    kernels = KernelPair(_forward, _backward, wide=True)
    if _is_single(task, attributes, scalars) and look.is_single(attributes, lights, texels):
        kernels = KernelPair(_single_forward, _single_backward)
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

    def is_single(self, attributes: Tensor, lights: Tensor | None, texels: Tensor | None) -> bool:
        """Whether float32 has the digits for it, and its kernels the gradients that are wanted."""
        from gendr.rendering.backends.cpu import softmax_kernels as kernels

        given = attributes.detach()
        if self.place is not None:
            assert texels is not None
            uvs = given[:, kernels.UV : kernels.NORMAL].reshape(-1, 3, 2)
            span = float((uvs.amax(1) - uvs.amin(1)).amax())
            if not span * float(self.place[:, 1:].max()) <= _STRETCHED or len(texels) > 2**29:
                return False
        if self.lighting is None:
            return True
        assert lights is not None
        if lights.requires_grad or self.lighting.shininess > _SHARPEST:
            return False
        if self.lighting.specular == 0:
            return True
        return (
            max(float(x.abs().amax()) for x in (given[:, kernels.POSITION :], lights)) < _FARTHEST
        )

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


def _paint_of(
    task: _Task, lights: Tensor | None, texels: Tensor | None, dtype: Any
) -> tuple[np.ndarray, ...]:
    """What kernels take of the looks of faces: surface, lights, texels and textures."""
    images, place = task.faces.images, task.look.place
    return (
        task.look.surface(),
        np.zeros((images, 6), dtype) if lights is None else lights.numpy(),
        np.zeros(0, dtype) if texels is None else texels.numpy().reshape(-1),
        np.zeros((images, 3), np.int64) if place is None else np.ascontiguousarray(place),
    )


def _single_forward(
    task: _Task, corners: Tensor, attributes: Tensor, scale: Tensor, shift: Number, shape: Any,
    rate: Tensor, lights: Tensor | None, texels: Tensor | None, *, save: bool,
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
    paint = _paint_of(task, lights, texels, np.float32)
    out = kept.new_empty(pixels, 3), kept.new_empty(pixels)
    run(
        colours.softmax_tiles, rows, tables.corners, tables.offsets, tables.boxes, tables.images,
        (size.height, size.width), tuple(formulas_of(coverage, Max(), slopes=False, single=True)),
        attributes.numpy(), depths, paint, kept.numpy(), out[0].view(-1).numpy(), out[1].numpy(),
    )  # fmt: skip
    return out, (kept, out[1], tables, depths, paint)


def _single_backward(
    task: _Task, inputs: tuple[Any, ...], saved: tuple[Any, ...],
    grads: tuple[Tensor | None, ...], wanted: tuple[bool, ...],
) -> list[Tensor | None]:  # fmt: skip
    """Gradients of corners, attributes and texels."""
    from gendr.rendering.backends.cpu import tile_look_kernels as looks
    from gendr.rendering.backends.cpu import tile_softmax_kernels as colours

    (faces, size, coverage, _), (kept, shares, tables, depths, paint) = task, saved
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
    formulas, count = tuple(formulas_of(coverage, Max(), single=True)), len(attributes)
    texels, textures, plan = None, paint[3], None
    if wanted[7]:
        plan = np.zeros(count, np.int64), np.zeros((count, 4), np.int64)
        run(
            looks.plan_looks, count, tables.boxes, tables.image_of_face, attributes.numpy(),
            textures, *plan,
        )  # fmt: skip
        texels = memory.empty(inputs[7].shape, torch.float64).zero_()
    for first, last, (room, *where) in _rounds(count, plan):
        asked = room, room.view(np.float32), *where

        def kernel(start: int, stop: int, first: int = first, asked: Any = asked) -> None:
            colours.softmax_faces(
                tables.corners, tables.offsets, tables.image_of_face, tables.boxes, tables.images,
                extent, formulas, attributes.numpy(), depths, paint, read.numpy(), out[0].numpy(),
                out[1].numpy(), asked, first + start, first + stop,
            )  # fmt: skip

        run(kernel, last - first)
        if texels is not None:
            run(
                looks.scatter_looks, len(texels), asked, room.view(np.int32), last,
                tables.image_of_face, textures, texels.numpy(), pieces=1,
            )  # fmt: skip
    found = [narrowed(x, torch.float32) for x in out]
    return [*found, *[None] * 5, None if texels is None else narrowed(texels, torch.float32)]


def _rounds(
    count: int, plan: tuple[np.ndarray, np.ndarray] | None
) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
    """Runs of faces and, if textures get gradients, memory for these gradients.

    Args:
        count: how many faces there are.
        plan: how many numbers each of them needs, and the patches; None without gradients.
    """
    if plan is None:
        none = np.zeros(0, np.int64)
        if count:
            yield 0, count, (np.zeros(0), none, none, np.zeros((0, 4), np.int64), 0)
        return
    needed, patches = plan
    ends = np.cumsum(needed)
    first, room = 0, None
    while first < count:
        before = ends[first] - needed[first]
        last = max(int(np.searchsorted(ends, before + CAPACITY, "right")), first + 1)
        slots = ends[first:last] - needed[first:last] - before
        most = max(int(ends[last - 1] - before), 1)
        if room is None or len(room) < most:
            room = memory.empty((max(most, min(int(ends[-1]), CAPACITY)),), torch.float64).numpy()
        yield first, last, (room, slots, np.zeros_like(slots), patches, first)
        first = last


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
        paint = (
            attributes.numpy(),
            *_paint_of(task, lights, texels, np.float64),
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
        texels, plan = None, None
        if wanted[7]:
            texels = np.zeros((3, len(self.paint[3]) // 3))
            plan = np.zeros(count, np.int64), np.zeros((count, kernels.PATCH_COLUMNS), np.int64)
            run(kernels.plan_texels, count, arrays, self.paint[0], self.paint[4], *plan)
        for first, last, asked in _rounds(count, plan):
            asked[0].fill(0)  # patches

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
