"""`fit_colors`: the colours of a mesh whose shape is known, from photographs of it.

The shape does not move, so every pixel of a rendering is a fixed mixture of a few colours: those of
the texels around the places that its subpixels show, or of the corners of faces. `gendr.Renderer`
says once which these are, with all that is hidden in a view. The best colours are then those of a
linear system, which is solved instead of descending along gradients:

1. Every point of the surface takes the mean of the photos that show it, weighted by how many pixels
   show it and how steeply, away from outlines and from what hides it. Photos that disagree with the
   mean (reflections, errors of the shape) count less.
2. Points that no photo shows take the colours of the nearest that one does.
3. Conjugate gradients find the correction, small and smooth, with which renderings agree best with
   the photos: it takes away the blur of the means. Where means miss the photos by much more than
   that, by errors of shape, poses or light, it would do harm and is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from gendr._common.checks import check_choice, check_count, check_like, check_number
from gendr._common.memory import give_back
from gendr._common.vectors import summed
from gendr.jobs.devices import learns
from gendr.jobs.loop import between
from gendr.kernels.threads import mapped, num_threads, run, torch_on_one_thread
from gendr.losses import psnr
from gendr.mesh import Camera, Mesh
from gendr.photos.fitting.checks import check_further_images, check_views
from gendr.photos.fitting.colors.light import HarmonicLight
from gendr.photos.fitting.colors.samples import Samples
from gendr.photos.fitting.colors.sparse_system import OFF, SparseSystem, mixed
from gendr.photos.fitting.colors.targets import Texels, TextureTarget, Vertices
from gendr.photos.fitting.graph import laplacian
from gendr.photos.fitting.parametrization import check_single
from gendr.photos.fitting.visibility import LEAST_COSINE, VisibilityBuffer, cosine_to_eye, look
from gendr.photos.meshing.unwrapping import unwrapped

__all__ = ["ColorResult", "fit_colors"]

Array = NDArray[Any]

KINDS = ("texture", "vertex")
LIGHTS = ("auto", "camera", "none")
# The least and the largest side of a texture whose size is chosen, and how full an atlas is.
SIZES, _FILL = (256, 2048), 0.6
# Photos with more pixels than this, in all, are compared without subpixels, and one by one; which
# face each pixel shows, 28 bytes, is not kept, but found again where it is asked for.
_MANY_PIXELS = 6_000_000
# And are judged by so many of so many rows, as otherwise one photo would take half a gigabyte.
_JUDGED, _OF = 48, 192
# And are corrected by so many pixels at most, of 70 bytes and a few times that on the way.
_CORRECTED = 8_000_000
# Rounds in which photos that disagree lose weight.
_ROUNDS = 3
# What photos show of points, seven numbers for each, is at most so many at a time and thread.
_NUMBERS, _KEPT = 7, 12_000_000
# Solutions of the linear system, between which pixels that disagree lose weight.
_TURNS = 2
# If means miss half of the pixels by more than this squared difference, it is not for their blur.
# Clean renderings are missed by less than 1e-6; the bulldozer and the toy of docs/results/photos.md
# by 8e-4 and 2e-3, where the correction takes half of the time and photos left out lose by it.
_APART = 3e-4
# Light and exposures are found from this many points.
_POINTS = 20_000
# Points that no photo shows take the colours of so many of the nearest; those that are further than
# some cells away of means of cells, of which there are so many along a side at first.
_NEAREST, _FINE, _CELLS, _SIDE = 8, 16, 1024, 2048
# Less detail than this is noise.
_PLAIN = 0.01
# If a photo is to count less than this because it is blurred, means are taken anew.
_SHARP = 0.6
# Photos that count less than this are named as blurred.
_BLURRED = 0.15
# Steps in rows and columns to neighbours in eight directions.
_DIRECTIONS = ((0, 1), (1, 2), (1, 1), (2, 1), (1, 0), (2, -1), (1, -1), (1, -2))


@dataclass(frozen=True, eq=False)
class ColorResult:
    """A mesh with the colours of photographs.

    Attributes:
        mesh: With UVs and a texture, or with vertex colours; `unlit` if they hold the light.
        exposure: [B, 3], the factor of each channel of every photo over the colours of the mesh,
            with a mean of 1; all 1 if none are used.
        psnr: [B], of renderings and photos over the pixels of the object (in the mask or in the
            rendering), in decibels.
        seen: Part of the points of the surface that some photo shows, in [0, 1].
        weights: [B], how much the photos count, in (0, 1]: less those that are blurred, as they
            have less detail than a rendering of what all show of the same surface.
        light: What the colours are to be multiplied by; None if they hold it.
    """

    mesh: Mesh
    exposure: Tensor
    psnr: Tensor
    seen: float
    weights: Tensor
    light: HarmonicLight | None = None

    @property
    def blurred(self) -> list[int]:
        """The rows of the photos that are so blurred that they hardly count."""
        return (self.weights < _BLURRED).nonzero()[:, 0].tolist()

    def to(self, device: torch.device) -> ColorResult:
        """The same on a device."""
        light = self.light
        return ColorResult(
            self.mesh.to(device), self.exposure.to(device), self.psnr.to(device), self.seen,
            self.weights.to(device),
            light and HarmonicLight(light.coefficients.to(device), light.frame),
        )  # fmt: skip


@learns
def fit_colors(
    mesh: Mesh,
    images: Tensor,
    camera: Camera,
    masks: Tensor | None = None,
    trust: Tensor | None = None,
    *,
    kind: str = "texture",
    texture_size: int | None = None,
    exposure: bool | None = None,
    light: str = "auto",
    least_cosine: float = LEAST_COSINE,
    callback: Callable[[float], None] | None = None,
) -> ColorResult:
    """Find the colours of a mesh that make it look as in photographs.

    Args:
        mesh: One mesh, in the world of the cameras; its own colours are replaced. UVs in [0, 1]
            that it has are used; otherwise it gets an atlas (`gendr.photos.unwrapped`).
        images: [B, 3, H, W] in [0, 1], the object over black, as `load_views` reads them; or uint8,
            of which a hundred of a megapixel take a quarter of the memory.
        camera: B cameras.
        masks: [B, H, W] in [0, 1]; by default what the mesh covers is used, also where the photo
            shows something else.
        trust: uint8 [B, H, W], how much each pixel counts beside others that show the same point:
            not at all where it is 0, and little, say, where something that is no part of the mesh
            may hide the point. By default all count alike.
        kind: "texture", or "vertex" for vertex colours.
        texture_size: Side of the texture in texels, >= 16; by default a power of two, 256 to 2048,
            that has a texel for each pixel that the best photos show of each place.
        exposure: Whether photos may be brighter or darker than each other, or of another tint: each
            gets a factor per channel, whose mean over the photos is 1. By default, from eight
            photos on, if that predicts photos that were left out better.
        light: "camera" if light moves with the camera, as where an object turns in front of it:
            nine spherical harmonics for each channel are divided out, and the colours are albedo.
            "none": the colours hold the light, as they must where it stands still beside the
            object, for then no photo can tell it from paint. "auto": the former if it predicts
            photos that were left out better.
        least_cosine: Photos show points that face them at this cosine or a larger one, in (0, 1).
            They count by its square; what none shows takes the colours beside it. At 0.02, about a
            degree, a ground that reaches far has colours.
        callback: Called with the part of the work that is done, in [0, 1].

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If shapes or values are wrong, UVs leave [0, 1], or no photo shows the mesh.
    """
    check_single("mesh", mesh)
    like = images  # whose dtype all else has
    if isinstance(images, Tensor) and images.dtype == torch.uint8:
        like = mesh.vertices.new_zeros(()).to(images.device).expand(images.shape)
    check_views("images", like, "[B, 3, H, W]", camera)
    check_like("the mesh", mesh.vertices, "images", like)
    if masks is not None:
        check_further_images("masks", masks, "[B, H, W]", "images", like)
        masks = masks.detach()
    if trust is not None:
        wanted = (len(images), *images.shape[2:])
        if trust.dtype != torch.uint8 or trust.shape != wanted:
            given = f"{trust.dtype} of shape {tuple(trust.shape)}"
            raise ValueError(f"trust must be uint8 of shape {wanted}, as images, got {given}")
        trust = trust.cpu()
    check_choice("kind", kind, KINDS)
    check_choice("light", light, LIGHTS)
    check_number("least_cosine", least_cosine, above=0, below=1)
    if texture_size is not None:
        check_count("texture_size", texture_size, least=16)
    mesh = mesh.detach()
    device = mesh.device
    mesh, masks = mesh.to("cpu"), None if masks is None else masks.cpu()
    with torch.no_grad(), torch_on_one_thread():
        given = images.detach().cpu(), camera.toward(mesh).detach().to("cpu"), masks
        photos = _Photos(mesh, *given, least_cosine, callback, trust)
        if kind == "vertex":
            found = photos.painted(Vertices.of(mesh), exposure, light)
        else:
            size = texture_size or photos.texture_size()
            found = photos.painted(Texels.of(_with_uvs(mesh, size), size), exposure, light)
        return found.to(device)


def _with_uvs(mesh: Mesh, size: int) -> Mesh:
    if mesh.uvs is None:
        return unwrapped(mesh, size)
    low, high = (float(x) for x in torch.aminmax(mesh.uvs))
    if low < 0 or high > 1:
        raise ValueError(
            f"the uvs of the mesh must lie in [0, 1] to fit a texture, got {low:g} .. {high:g}; "
            "remove them for new ones: mesh.with_uvs(None)"
        )
    return mesh


class _Photos:
    """Photos of a mesh, and what each of them sees of it."""

    def __init__(
        self, mesh: Mesh, images: Tensor, camera: Camera, masks: Tensor | None,
        least_cosine: float, callback: Callable[[float], None] | None, trust: Tensor | None = None,
    ) -> None:  # fmt: skip
        self.mesh, self.images, self.camera, self.masks = mesh, images, camera, masks
        self.size = images.shape[2], images.shape[3]
        self.tell = callback or (lambda done: None)
        pixels = len(images) * self.size[0] * self.size[1]
        self.many = pixels > _MANY_PIXELS
        self.gains = mesh.vertices.new_ones(len(images), 3)
        self.buffers: dict[int, VisibilityBuffer] = {}
        # Of each face the pixels, in the photo that shows most of it.
        self.pixels, lock = torch.zeros(len(mesh.faces)), Lock()

        def seen(i: int) -> tuple[Tensor, _View]:
            visibility = self._visibility(i)
            pixels = (
                torch.bincount(visibility.face, minlength=len(mesh.faces)).float()
                * visibility.share
            )
            with lock:
                torch.maximum(self.pixels, pixels, out=self.pixels)
            use = visibility.whole if masks is None else visibility.whole & (masks[i] > 0.99)
            inside = -F.max_pool2d(-use[None].to(self.gains), 3, 1, 1)[0] > 0.5
            if trust is not None:
                inside = inside.where(trust[i] > 0, False)
            counts = inside.byte() if trust is None else trust[i] * inside
            return inside, _View(visibility, counts, images[i], least_cosine)

        found = mapped(seen, range(len(images)), between(self.tell, 0.0, 0.4))
        self.inside, self.views = [inside for inside, _ in found], [view for _, view in found]
        if not any(bool(inside.any()) for inside in self.inside):
            raise ValueError(
                "no photo shows the mesh away from its outlines; are mesh and cameras of one world?"
            )
        self.compared = self.inside
        if self.many:
            some = torch.arange(self.size[0])[:, None] % _OF < _JUDGED
            self.compared = [inside & some for inside in self.inside]
        self.light: HarmonicLight | None = None
        self.normals = mesh.vertex_normals[mesh.faces]
        self.quality = [1.0] * len(images)

    def _visibility(self, i: int) -> VisibilityBuffer:
        """What photo i shows of the mesh; of many photos it is not kept."""
        if self.many:
            return look(self.mesh, self.camera[i], self.size, 1)
        if i not in self.buffers:
            self.buffers[i] = look(self.mesh, self.camera[i], self.size, 2)
        return self.buffers[i]

    def _image(self, i: int) -> Tensor:
        """Photo i, [3, H, W] in [0, 1]."""
        image = self.images[i]
        return image if image.dtype != torch.uint8 else image.to(self.gains) / 255

    def texture_size(self) -> int:
        """A power of two that the photos carry."""
        wanted = float(self.pixels.sum() / _FILL) ** 0.5
        return int(min(max(2 ** math.ceil(math.log2(max(wanted, 1.0))), SIZES[0]), SIZES[1]))

    def painted(
        self, texture_target: TextureTarget, exposure: bool | None, light: str
    ) -> ColorResult:
        """The mesh of a canvas with the best colours."""
        exposure = self._explained(self._samples(texture_target), exposure, light)
        colors, seen = self._means(texture_target)
        self.tell(0.5)
        rows = range(len(self.images))
        # All photos at once, or one after the other, of which only a median is kept.
        system = None if self.many else self._system(texture_target, rows)
        found = mapped(partial(self._judged, texture_target, colors, system), rows)
        self.quality = self._sharpness([strengths for strengths, _ in found])
        if min(self.quality) < _SHARP:
            colors, seen = self._means(texture_target)
        colors = _filled(texture_target, colors, seen)
        self.tell(0.6)
        off = np.concatenate([off for _, off in found]) if system is None else (
            _misses(system, colors)
        )  # fmt: skip
        found.clear()
        apart = float(np.median(off))
        del off
        if apart < _APART:
            self.compared = self._corrected_by()
            system = system or self._system(texture_target, rows)
            if min(self.quality) < _SHARP:
                system.weight[:] *= np.array(self.quality, np.float32)[system.view]
            for once in (self.views, self.inside, self.compared):
                once.clear()  # needed no more, where most memory is
            colors = self._corrected(system, texture_target, colors, exposure)
        del system
        colors = colors.clamp(0, 1)  # in a light that is dim there, means of albedo may be above
        mesh = texture_target.painted(colors).with_unlit(self.light is None)
        self.tell(0.95)
        most = 1 if self.many else None  # each takes 0.3 GiB for 2 megapixels
        psnr = torch.stack(mapped(lambda i: self._psnr(texture_target, colors, i), rows, most=most))
        self.tell(1.0)
        weights = self.gains.new_tensor(self.quality)
        share = float(seen.double().mean())
        return ColorResult(mesh, self.gains, psnr, share, weights, self.light)

    def _explained(self, samples: Samples, exposure: bool | None, light: str) -> bool:
        """Find light and exposures, each by the other, as far as they are wanted; which says this.

        Light comes first: exposures would take for their own how bright a side is.
        """

        def find_light(even: Samples) -> None:
            if light != "none":
                self.light = even.chosen_light() if light == "auto" else even.light("camera")

        find_light(samples)
        shade = samples.shade(self.light)
        if exposure is None:
            gains = samples.chosen_exposures(shade)
        else:
            gains = samples.exposures(shade) if exposure else None
        if gains is None:
            return False
        find_light(samples.exposed(gains))
        self.gains = samples.exposures(samples.shade(self.light)).to(self.gains)
        return True

    def _shade(self, normals: Tensor, i: int) -> Tensor:
        """The factors [N, 3] or [1, 3] of photo i over the colours of points."""
        if self.light is None:
            return self.gains[i][None]
        return self.gains[i] * self.light.factors(normals, self.camera[i])

    # -- the start ----------------------------------------------------------------------------

    def _samples(self, texture_target: TextureTarget) -> Samples:
        """What the photos show of some of the points."""
        step = max(1, len(texture_target.points) // _POINTS)
        points, normals = (
            texture_target.points[::step].contiguous(),
            texture_target.normals[::step].contiguous(),
        )
        rows: list[tuple[Tensor, ...]] = []
        for i, view in enumerate(self.views):
            color, weight = view.seen(points, normals)
            where = (weight > 0).nonzero()[:, 0]
            number = torch.full_like(where, i)
            rows.append((number, where, color[where], weight[where], normals[where]))
        view, point, color, weight, own = (torch.cat(part) for part in zip(*rows, strict=True))
        weight = weight / weight.max().clamp(min=1e-30)
        return Samples(self.camera, len(points), view, point, color, weight, own)

    def _means(self, texture_target: TextureTarget) -> tuple[Tensor, Tensor]:
        """Robust means [K, 3] of what the photos show of points, and which are shown [K]."""
        from gendr.photos.fitting.colors import kernels

        count = len(texture_target.points)
        mean, total = torch.zeros(count, 3), torch.zeros(count, 3)

        def shown(i: int, some: slice) -> tuple[Array, Array, Array]:
            normals = texture_target.normals[some]
            color, weight = self.views[i].seen(texture_target.points[some], normals)
            weight = weight * self.quality[i]
            shade = self.gains[i][None].float()
            if self.light is not None:
                rows = (weight > 0).nonzero()[:, 0]
                own, shade = self._shade(normals[rows], i).float(), torch.zeros_like(color)
                shade[rows] = own
            return color.numpy(), weight.numpy(), shade.numpy()

        def fill(start: int) -> None:
            some = slice(start, start + size)
            known = [shown(i, some) for i in range(len(self.views))]
            for turn in range(_ROUNDS):
                sums = torch.zeros(2, len(mean[some]), 3)
                off = np.float32(OFF if turn > 0 else 0)
                for each in known:
                    ends = sums[0].numpy(), sums[1].numpy(), 0, sums.shape[1]
                    kernels.gather(*each, mean[some].numpy(), off, *ends)
                total[some] = sums[1]
                mean[some] = sums[0] / torch.where(sums[1] > 0, sums[1], 1.0)

        # What all photos show of some points at a time, lest it fill the memory.
        size = max(1, _KEPT // (_NUMBERS * len(self.views)))
        mapped(fill, range(0, count, size))
        return mean.to(texture_target.points), total[:, 0] > 0

    # -- the correction -----------------------------------------------------------------------

    def _corrected_by(self) -> list[Tensor]:
        """Which pixels [H, W] of each photo the correction compares: of many, some of the rows."""
        step = max(1, math.ceil(sum(int(inside.sum()) for inside in self.inside) / _CORRECTED))
        row = torch.arange(self.size[0])[:, None]
        # Other rows of other photos: together they show all of the surface.
        return [inside & (row % step == i % step) for i, inside in enumerate(self.inside)]

    def _mixture(self, texture_target: TextureTarget, surface: Array, i: int) -> tuple[Array, ...]:
        """The pixels of photo i that are compared: columns, values, colours, weights, shade.

        Args:
            texture_target: whose points are mixed.
            surface: float32 [K, 6], these points and their normals.
            i: the number of the photo.
        """
        use = self.compared[i].flatten()
        pixels = use.nonzero()[:, 0]
        visibility = self._visibility(i).of_pixels(use)
        columns, values = texture_target.mixing(visibility)
        if visibility.share < 1:
            order = torch.argsort(visibility.pixel, stable=True)
            columns, values = columns[order], values[order]
        shape = len(pixels), texture_target.MIXED * round(1 / visibility.share)
        columns = columns.reshape(shape).to(torch.int32).numpy()
        values = (values * visibility.share).reshape(shape).float().numpy()
        points, normals = (
            torch.from_numpy(mixed(columns, values, surface)).to(texture_target.points).split(3, 1)
        )
        normals = F.normalize(normals, dim=-1)
        cosine = cosine_to_eye(visibility.camera, points, normals).clamp(0, 1)
        shade = self._shade(normals, i).expand(len(pixels), 3)
        photo = self._image(i).flatten(1).T[pixels]
        return columns, values, *(x.float().numpy() for x in (photo, cosine, shade))

    def _system(self, texture_target: TextureTarget, chosen: Sequence[int]) -> SparseSystem:
        """The pixels of some photos that are compared as mixtures of the colours of points."""
        surface = torch.cat([texture_target.points, texture_target.normals], 1).float().numpy()
        counts = [int(self.compared[i].sum()) for i in chosen]
        view, ends = np.repeat(np.array(chosen), counts), np.cumsum(counts)
        # All subpixels of these pixels show a face.
        most = texture_target.MIXED * (1 if self.many else 4)
        columns = np.empty((len(view), most), np.int32)
        values, photo, weight, shade = (
            np.empty((len(view), *shape), np.float32) for shape in ((most,), (3,), (), (3,))
        )

        def fill(k: int) -> None:
            rows = slice(ends[k] - counts[k], ends[k])
            found = self._mixture(texture_target, surface, chosen[k])
            columns[rows], values[rows], photo[rows], weight[rows], shade[rows] = found

        mapped(fill, range(len(counts)))
        give_back()
        return SparseSystem(columns, values, photo, weight, shade, view)

    def _judged(
        self, texture_target: TextureTarget, colors: Tensor, system: SparseSystem | None, i: int
    ) -> tuple[list[float], Array]:
        """The `_strengths` of photo i, and its `_misses` if its pixels are not in a system."""
        if system is not None:
            return self._strengths(system, colors, i), np.zeros(0)
        own = self._system(texture_target, [i])
        return self._strengths(own, colors, i), _misses(own, colors)

    def _strengths(self, system: SparseSystem, colors: Tensor, i: int) -> list[float]:
        """How strong detail is in photo i, over that in a rendering, in each direction.

        Differences of neighbours are as strong in a sharp photo as in a rendering of the mean
        colours, times a number that is alike for all such photos, wherever in the photo they are: a
        pose that is slightly off, or a side that few see, is no blur. One of motion takes those
        along the motion only, so that the direction counts in which a photo has least.
        """
        from gendr.photos.fitting.colors import kernels

        first, last = np.searchsorted(system.view, [i, i + 1])
        parts = system.columns[first:last], system.values[first:last]
        shown = mixed(*parts, colors.float().numpy()) * system.shade[first:last]
        reach = max(abs(step) for step in sum(_DIRECTIONS, ()))
        # Nothing is beside the border of a photo.
        whole = F.pad(-self.compared[i].to(self.gains)[None], (reach + 1,) * 4)
        for side in ((2 * reach + 3, 1), (1, 2 * reach + 3)):
            whole = F.max_pool2d(whole, side, 1)
        inner = (whole[0] < -0.5).byte().numpy()
        found = np.empty((len(_DIRECTIONS), 2))
        kernels.details(  # blurred, so without most of the noise
            self.compared[i].flatten().nonzero()[:, 0].numpy(), shown.astype(np.float32),
            self._image(i).float().numpy(), inner, np.array(_DIRECTIONS),
            np.zeros((*inner.shape, 6), np.float32), found,
        )  # fmt: skip
        found += _PLAIN**2 * 3 * int(inner.sum()) + 1e-12  # what has no detail is not blurred
        return [float(x) for x in np.sqrt(found[:, 1] / found[:, 0])]

    def _sharpness(self, strengths: list[list[float]]) -> list[float]:
        """The weights of the photos, in (0, 1]: less for those that are blurred."""
        found = np.array(strengths)
        least = (found / np.maximum(np.median(found, 0), 1e-6)).min(1)
        return [float(x) for x in least.clip(0.3, 1.0) ** 3]

    def _corrected(
        self, system: SparseSystem, texture_target: TextureTarget, colors: Tensor, exposure: bool
    ) -> Tensor:
        """Colours with which renderings agree best with the photos."""
        smooth = laplacian(texture_target.edges.numpy(), len(texture_target.points), np.float32)
        start = found = colors.float().numpy()
        for turn in range(_TURNS):
            if exposure:
                further = system.exposures(found)
                system.shade[:] *= further[system.view]
                gains = self.gains * torch.from_numpy(further).to(self.gains)
                self.gains = gains / gains.mean(0)
            found = system.corrected(smooth, start, found)
            self.tell(0.6 + 0.35 * (turn + 1) / _TURNS)
        return torch.from_numpy(found.clip(0, 1)).to(colors)

    def _psnr(self, texture_target: TextureTarget, colors: Tensor, i: int) -> Tensor:
        """The PSNR of photo i rendered with these colours, over the pixels of the object."""
        visibility, target = self._visibility(i), self._image(i)
        columns, values = texture_target.mixing(visibility)
        shown = torch.from_numpy(
            mixed(columns.to(torch.int32).numpy(), values.float().numpy(), colors.float().numpy())
        )
        if self.light is not None:
            normals = (self.normals[visibility.face] * visibility.weights[..., None]).sum(1)
            shown = shown * self._shade(F.normalize(normals, dim=-1), i)
        else:
            shown = shown * self.gains[i]
        shown = (shown * visibility.share).to(target)
        pixels = target[0].numel()
        image = summed(shown, visibility.pixel, pixels).T.reshape(target.shape)
        cover = summed(torch.full_like(shown[:, 0], visibility.share), visibility.pixel, pixels)
        where = cover.reshape(self.size) > 0.5
        where = where | (self.masks[i] > 0.5) if self.masks is not None else where
        return psnr(image, target, where)


class _View:
    """One photo as the kernels take it."""

    def __init__(
        self, visibility: VisibilityBuffer, counts: Tensor, image: Tensor, least_cosine: float
    ) -> None:
        self.least_cosine = least_cosine
        camera = visibility.camera
        self.matrix = camera.projection[0].float().numpy()
        self.eye = camera.eye[0].float().numpy()
        self.ahead = camera.ahead[0].float().numpy() * np.float32(camera.orthographic)
        self.unit = np.float32(2 / (min(visibility.size) * float(camera.focal.mean())))
        self.nearest = visibility.nearest.float().numpy()
        self.counts = counts.numpy()
        whole = image.dtype == torch.uint8
        self.image, self.white = (image if whole else image.float()).numpy(), 255 if whole else 1

    def seen(self, points: Tensor, normals: Tensor) -> tuple[Tensor, Tensor]:
        """The colours [K, 3] of points that the photo shows, and their weights [K]; 0 for none."""
        from gendr.photos.fitting.colors import kernels

        colors, weights = np.zeros((len(points), 3), np.float32), np.zeros(len(points), np.float32)
        run(
            kernels.see, len(points), points.float().numpy(), normals.float().numpy(), self.matrix,
            self.eye, self.ahead, self.unit, np.float32(self.least_cosine), self.nearest,
            self.counts, self.image, np.float32(self.white), colors, weights, alone=True,
        )  # fmt: skip
        return torch.from_numpy(colors), torch.from_numpy(weights)


def _misses(system: SparseSystem, colors: Tensor) -> Array:
    """By which squared differences [P] colours miss the pixels."""
    off = system.photo - system.mixed(colors.float().numpy()) * system.shade
    return np.square(off).mean(1)


def _filled(texture_target: TextureTarget, colors: Tensor, seen: Tensor) -> Tensor:
    """Colours of unobserved points from the nearest observed ones, by distance in space.

    Far from all that is seen the nearest are as many as are seen, nearly, and to tell which they
    are would take minutes. There the means of cells count, which grow with the distance.
    """
    from scipy.spatial import KDTree

    if bool(seen.all()) or not bool(seen.any()):
        return colors
    points, known = texture_target.points.double().cpu().numpy(), seen.cpu().numpy()
    near, values = points[known], colors.double().cpu().numpy()[known]
    rest = np.flatnonzero(~known)
    # At most twice as far as the nearest is, which is found at once.
    away = KDTree(near).query(points[rest], eps=1, workers=num_threads())[0]
    origin, extent = points.min(0), float(np.ptp(points, axis=0).max()) or 1.0
    cell = extent / _CELLS
    filled = colors.clone()
    while len(rest):
        now = away < _FINE * cell if len(near) > _NEAREST else np.ones(len(rest), bool)
        if now.any():
            count = min(_NEAREST, len(near))
            distance, index = KDTree(near).query(points[rest[now]], count, workers=num_threads())
            distance, index = distance.reshape(-1, count), index.reshape(-1, count)
            weight = 1 / (distance + 1e-3 * distance.mean() + 1e-30)
            weight /= weight.sum(1, keepdims=True)
            mean = (values[index] * weight[..., None]).sum(1)
            filled[torch.from_numpy(rest[now])] = torch.from_numpy(mean).to(colors)
            rest, away = rest[~now], away[~now]
        cells = ((near - origin) / cell).astype(np.int64)
        _, of = np.unique(cells @ (_SIDE**2, _SIDE, 1), return_inverse=True)
        number, cell = np.bincount(of)[:, None], 2 * cell
        near, values = (
            np.stack([np.bincount(of, column) for column in each.T], 1) / number
            for each in (near, values)
        )
    return filled
