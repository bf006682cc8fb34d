"""Softmax shading on the CPU: colours and all their gradients, without a list of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from gendr._runtime.threads import run
from gendr.rendering.backends.cpu.tables import (
    CompiledFormulas,
    FaceTables,
    narrowed,
    number_of,
    once,
    sums_per_image,
    tables_of,
)
from gendr.rendering.coverage import Coverage
from gendr.rendering.geometry import ImageSize, ScreenFaces, Surfaces
from gendr.tnorms import Max

if TYPE_CHECKING:
    from gendr.mesh import Lighting
    from gendr.rendering.shading import Appearance

# In the backward pass, the most numbers (64 MB) that are kept at a time of gradients for textures.
ROOM = 8_000_000


def softmax(
    faces: ScreenFaces,
    surfaces: Surfaces,
    appearance: Appearance,
    size: ImageSize,
    coverage: Coverage,
    rate: Tensor,
    backdrop: float,
) -> tuple[Tensor, Tensor]:
    """Colours without the part of the background [P, 3], and the share of the background [P].

    Args:
        faces: triangles.
        surfaces: the same triangles in space; none of them may be clipped.
        appearance: their colours, textures and light.
        size: the size of the image.
        coverage: how faces cover pixels.
        rate: [], 1 / ((far - near) gamma).
        backdrop: the depth of the background.
    """
    texture, gloss = appearance.texture, appearance.gloss
    columns = [surfaces.clip[..., 2], surfaces.depth, appearance.colours.flatten(1)]
    nothing = coverage.scale.new_zeros(())
    texels = lights = nothing
    place = None
    if texture is not None:
        texels, place = texture.texels, texture.place.numpy()
    if texture is not None or gloss is not None:
        uvs = faces.corners.new_zeros(1, 6) if texture is None else texture.uvs.flatten(1)
        columns.append(uvs.expand(len(faces.corners), 6))
    if gloss is not None:
        columns += [gloss.normals.flatten(1), gloss.positions.flatten(1)]
        lights = torch.cat([gloss.directions, gloss.viewpoints], -1)
    look = _Look(
        place,
        None if gloss is None else gloss.lighting,
        gloss is not None and gloss.orthographic,
        backdrop,
    )
    shift, shape = (
        x if isinstance(x, Tensor) else nothing
        for x in (coverage.dist.total_shift(), coverage.dist.shape_parameter)
    )
    colours, shares = cast(
        "tuple[Tensor, Tensor]",
        _Softmax.apply(
            faces.corners, torch.cat(columns, -1), coverage.scale, shift, shape, rate, lights,
            texels, _Task(faces, size, coverage, look),
        ),
    )  # fmt: skip
    return colours, shares


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


class _Softmax(torch.autograd.Function):
    """The fused softmax: sums per pixel forward, gradients per face backward."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        corners: Tensor,
        attributes: Tensor,
        scale: Tensor,
        shift: Tensor,
        shape: Tensor,
        rate: Tensor,
        lights: Tensor,
        texels: Tensor,
        task: _Task,
    ) -> tuple[Tensor, Tensor]:
        from gendr.rendering.backends.cpu import softmax_kernels as kernels

        call = _Call.of(task, attributes, rate, lights, texels, shape=ctx.needs_input_grad[4])
        pixels = task.faces.images * task.size.pixels
        sums, tops = np.zeros((pixels, 4)), np.zeros(pixels)
        tables = call.tables
        run(
            kernels.softmax_rows, task.faces.images * task.size.height, tables.corners,
            tables.offsets, tables.boxes, tables.images, tables.grid, *call.law,
            task.coverage.cutoff, call.paint, sums, tops,
        )  # fmt: skip
        found, top = torch.from_numpy(sums), torch.from_numpy(tops)
        ctx.task = task
        ctx.save_for_backward(
            corners, attributes, scale, shift, shape, rate, lights, texels, found, top
        )
        share = torch.exp2(-top) / found[:, 3]
        return found[:, :3].to(corners.dtype), share.to(corners.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        saved = cast("tuple[Tensor, ...]", ctx.saved_tensors)
        sources, pixels = saved[:8], saved[8:]
        wanted = ctx.needs_input_grad
        _, attributes, _, _, _, rate, lights, texels = sources
        call = _Call.of(ctx.task, attributes, rate, lights, texels, shape=wanted[4])
        found, top = pixels
        grad, grad_share = (g.detach().to(torch.float64).contiguous() for g in grads)
        # Colour and background share are weighted means: increasing one weight lowers the parts of
        # all.
        share = torch.exp2(-top) / found[:, 3]
        taken = -(grad * found[:, :3]).sum(-1) - grad_share * share
        results = call.gradients(tuple(p.numpy() for p in (found, top, grad, taken)), wanted)
        # In the order of the inputs; gradients of scalars are numbers here.
        results = tuple(
            None if g is None else narrowed(g, x.dtype).reshape(x.shape)
            for g, x in zip(results, sources, strict=True)
        )
        return *once(results, (*grads, *sources)), None


@dataclass(frozen=True)
class _Call:
    """The arguments of the kernels.

    Attributes:
        task: what is rendered.
        tables: the tables of faces and images.
        law: flags, addresses and numbers of the distribution.
        paint: the tuple `paint` of `softmax_faces`.
    """

    task: _Task
    tables: FaceTables
    law: tuple[np.ndarray, np.ndarray, np.ndarray]
    paint: tuple[np.ndarray, ...]

    @staticmethod
    def of(
        task: _Task,
        attributes: Tensor,
        rate: Tensor,
        lights: Tensor,
        texels: Tensor,
        *,
        shape: bool,
    ) -> _Call:
        """Convert everything to what the kernels take: NumPy arrays of float64."""
        from gendr.rendering.backends.cpu import kernels

        faces, size, coverage, look = task
        compiled = CompiledFormulas.of(coverage.dist, Max(), scalars=False, shape=shape, p=False)
        columns = {
            kernels.SCALE: coverage.scale.detach().to(torch.float64).numpy(),
            kernels.SHIFT: number_of(coverage.dist.total_shift()),
        }
        tables = tables_of(faces, size, coverage.radius(), columns)
        place = look.place
        if place is None:
            place = np.zeros((faces.images, 3), np.int64)
        paint = (
            _wide(attributes),
            look.surface(),
            _wide(lights) if lights.ndim else np.zeros((faces.images, 0)),
            _wide(texels).reshape(-1) if texels.ndim else np.zeros(0),
            np.ascontiguousarray(place),
            np.array([number_of(rate), look.backdrop]),
        )
        return _Call(task, tables, (compiled.law, compiled.addresses, compiled.shape), paint)

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
        law = any(wanted[2:5])
        per_image = any(wanted[5:7])
        grads = (
            np.zeros_like(tables.corners),
            np.zeros_like(self.paint[0]),
            np.zeros((count if per_image else 0, kernels.GRAD_COLUMNS)),
        )
        scalars = np.zeros((count if law else 0, alpha_kernels.GRAD_COLUMNS))
        texels = np.zeros((3, len(self.paint[3]) // 3)) if wanted[7] else None
        for first, last, asked in self._rounds(texels is not None):

            def kernel(start: int, stop: int, first: int = first, asked: Any = asked) -> None:
                kernels.softmax_faces(
                    tables.corners, tables.offsets, tables.image_of_face, tables.boxes,
                    tables.images, tables.grid, *self.law, self.task.coverage.cutoff, self.paint,
                    pixels, grads, scalars, asked, first + start, first + stop,
                )  # fmt: skip

            run(kernel, last - first)
            if texels is not None:
                run(
                    kernels.scatter_texels, len(texels), asked, last, tables.image_of_face,
                    self.paint[4], texels,
                )  # fmt: skip
        sums = sums_per_image(scalars, tables.offsets) if law else None
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
        room = np.zeros(count, np.int64)
        run(
            kernels.plan_texels, count, tables.corners, tables.boxes, tables.images,
            tables.image_of_face, tables.grid, self.paint[0], self.paint[4], room, patches,
        )  # fmt: skip
        ends = np.cumsum(room)
        first = 0
        while first < count:
            before = ends[first] - room[first]
            last = max(int(np.searchsorted(ends, before + ROOM, "right")), first + 1)
            slots = ends[first:last] - room[first:last] - before
            memory = np.zeros(max(int(ends[last - 1] - before), 1))
            yield first, last, (memory, slots, np.zeros_like(slots), patches, first)
            first = last


def _wide(values: Tensor) -> np.ndarray:
    """A tensor as a contiguous array of float64."""
    return values.detach().to(torch.float64).contiguous().numpy()
