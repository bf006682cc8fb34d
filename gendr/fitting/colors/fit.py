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
   the photos.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from gendr._runtime.checks import check_choice, check_count, check_like
from gendr.fitting.checks import check_beside, check_views
from gendr.fitting.colors.canvases import Canvas, Texels, Vertices
from gendr.fitting.colors.mixtures import Mixtures, gains_of, trusted
from gendr.fitting.graph import laplacian
from gendr.fitting.parametrization import check_single
from gendr.fitting.visibility import Sight, cosine_to_eye, look
from gendr.losses import psnr
from gendr.mesh import Camera, Mesh
from gendr.mesh.unwrapping import unwrapped

__all__ = ["ColorResult", "fit_colors"]

Array = NDArray[Any]

KINDS = ("texture", "vertex")
# Photos with more pixels than this, in all, are compared without subpixels.
_MANY_PIXELS = 6_000_000
# Rounds in which photos that disagree lose weight.
_ROUNDS = 3
# Solutions of the linear system, between which pixels that disagree lose weight.
_TURNS = 2
# Exposures are found first from this many points, in so many rounds.
_POINTS, _EXPOSURE_ROUNDS = 20_000, 30


@dataclass(frozen=True, eq=False)
class ColorResult:
    """A mesh with the colours of photographs.

    Attributes:
        mesh: With UVs and a texture, or with vertex colours; `unlit`, as they hold the light.
        exposure: [B, 3], the factor of each channel of every photo over the colours of the mesh,
            with a mean of 1; all 1 unless it was asked for.
        psnr: [B], of renderings and photos over the pixels of the object (in the mask or in the
            rendering), in decibels.
        seen: Part of the points of the surface that some photo shows, in [0, 1].
    """

    mesh: Mesh
    exposure: Tensor
    psnr: Tensor
    seen: float


def fit_colors(
    mesh: Mesh,
    images: Tensor,
    camera: Camera,
    masks: Tensor | None = None,
    *,
    kind: str = "texture",
    texture_size: int = 1024,
    exposure: bool = False,
    callback: Callable[[float], None] | None = None,
) -> ColorResult:
    """Find the colours of a mesh that make it look as in photographs, without any light.

    Args:
        mesh: One mesh, in the world of the cameras; its own colours are replaced. UVs in [0, 1]
            that it has are used; otherwise it gets an atlas (`gendr.mesh.unwrapped`).
        images: [B, 3, H, W] in [0, 1], the object over black, as `load_views` reads them.
        camera: B cameras.
        masks: [B, H, W] in [0, 1]; by default what the mesh covers is used, also where the photo
            shows something else.
        kind: "texture", or "vertex" for vertex colours.
        texture_size: Side of the texture in texels, >= 16.
        exposure: Whether photos may be brighter or darker than each other: each gets a factor per
            channel, whose mean over the photos is 1.
        callback: Called with the part of the work that is done, in [0, 1].

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If shapes or values are wrong, UVs leave [0, 1], or no photo shows the mesh.
        RuntimeError: For a texture without UVs, if xatlas is not installed.
    """
    check_single("mesh", mesh)
    check_views("images", images, "[B, 3, H, W]", camera)
    check_like("the mesh", mesh.vertices, "images", images)
    if masks is not None:
        check_beside("masks", masks, "[B, H, W]", "images", images)
        masks = masks.detach()
    check_choice("kind", kind, KINDS)
    check_count("texture_size", texture_size, least=16)
    mesh = mesh.detach()
    if kind == "vertex":
        canvas: Canvas = Vertices.of(mesh)
    else:
        canvas = Texels.of(_with_uvs(mesh, texture_size), texture_size)
    with torch.no_grad():
        photos = _Photos(mesh, images.detach(), camera.detach(), masks, callback)
        return photos.painted(canvas, exposure)


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
        callback: Callable[[float], None] | None,
    ) -> None:  # fmt: skip
        self.images, self.camera, self.masks = images, camera, masks
        self.size = images.shape[2], images.shape[3]
        self.tell = callback or (lambda done: None)
        pixels = len(images) * self.size[0] * self.size[1]
        oversampling = 2 if pixels <= _MANY_PIXELS else 1
        self.sights: list[Sight] = []
        self.inside: list[Tensor] = []
        for i in range(len(images)):
            sight = look(mesh, camera[i], self.size, oversampling)
            use = sight.whole if masks is None else sight.whole & (masks[i] > 0.99)
            self.sights.append(sight)
            self.inside.append(-F.max_pool2d(-use[None].to(images), 3, 1, 1)[0] > 0.5)
            self.tell(0.4 * (i + 1) / len(images))
        if not any(bool(inside.any()) for inside in self.inside):
            raise ValueError(
                "no photo shows the mesh away from its outlines; are mesh and cameras of one world?"
            )

    def painted(self, canvas: Canvas, exposure: bool) -> ColorResult:
        """The mesh of a canvas with the best colours."""
        gains = self.images.new_ones(len(self.images), 3)
        if exposure:
            gains = self._exposures(canvas)
        colors, seen = self._means(canvas, gains)
        colors = _filled(canvas, colors, seen)
        self.tell(0.6)
        colors, gains = self._corrected(canvas, colors, gains, exposure)
        mesh = canvas.painted(colors).with_unlit()
        self.tell(0.95)
        psnr = torch.stack(
            [self._psnr(canvas, colors * gains[i], i) for i in range(len(self.images))]
        )
        self.tell(1.0)
        return ColorResult(mesh, gains, psnr, float(seen.double().mean()))

    # -- the start ----------------------------------------------------------------------------

    def _sampled(self, points: Tensor, normals: Tensor, i: int) -> tuple[Tensor, Tensor, Tensor]:
        """The rows [N] of points that photo i shows, their colours [N, 3] and weights [N, 1]."""
        sight = self.sights[i]
        rows, xy, weight = sight.seen(points, normals, self.inside[i])
        return rows, sight.at(self.images[i], xy).T, weight[:, None]

    def _means(self, canvas: Canvas, gains: Tensor) -> tuple[Tensor, Tensor]:
        """Robust means [K, 3] of what the photos show of points, and which are shown [K]."""
        mean = torch.zeros_like(canvas.points)
        total = mean[:, :1]
        for turn in range(_ROUNDS):
            summed, total = torch.zeros_like(mean), torch.zeros_like(mean[:, :1])
            for i in range(len(self.images)):
                rows, color, weight = self._sampled(canvas.points, canvas.normals, i)
                color = color / gains[i]
                if turn > 0:
                    weight = weight * trusted((color - mean[rows]).square().mean(1, keepdim=True))
                summed.index_add_(0, rows, weight * color)
                total.index_add_(0, rows, weight)
            mean = summed / torch.where(total > 0, total, 1.0)
        return mean, total[:, 0] > 0

    def _exposures(self, canvas: Canvas) -> Tensor:
        """Factors [B, 3] of the photos by alternating least squares, from some of the points."""
        step = max(1, len(canvas.points) // _POINTS)
        points, normals = canvas.points[::step], canvas.normals[::step]
        color = points.new_zeros(len(self.images), len(points), 3)
        weight = color[..., :1].clone()
        for i in range(len(self.images)):
            rows, *found = self._sampled(points, normals, i)
            color[i, rows], weight[i, rows] = found
        weight = weight / weight.max().clamp(min=1e-30)
        gains = torch.ones_like(color[:, 0])
        for _ in range(_EXPOSURE_ROUNDS):
            g = gains[:, None]
            mean = (weight * g * color).sum(0) / (weight * g * g).sum(0).clamp(min=1e-12)
            trust = weight * trusted((color - g * mean).square().mean(-1, keepdim=True))
            gains = gains_of((trust * color * mean).sum(1), (trust * mean * mean).sum(1))
        return gains

    # -- the correction -----------------------------------------------------------------------

    def _mixture(self, canvas: Canvas, i: int) -> tuple[Any, Array, Array]:
        """The pixels of photo i that are compared: their mixing, colours and weights."""
        from scipy import sparse

        sight, use = self.sights[i], self.inside[i].flatten()
        pixels = use.nonzero()[:, 0]
        number = torch.zeros_like(use, dtype=torch.int64)
        number[pixels] = torch.arange(len(pixels), device=use.device)
        sight = sight.of_pixels(use)
        columns, values = canvas.mixing(sight)
        rows = number[sight.pixel][:, None].expand_as(columns)
        entries = (values * sight.share).flatten().cpu().numpy()
        index = rows.flatten().cpu().numpy(), columns.flatten().cpu().numpy()
        mixing = sparse.csr_matrix((entries, index), shape=(len(pixels), len(canvas.points)))
        points, normals = (
            torch.from_numpy(mixing @ part.cpu().numpy()).to(part)
            for part in (canvas.points, canvas.normals)
        )
        cosine = cosine_to_eye(sight.camera, points, F.normalize(normals, dim=-1)).clamp(0, 1)
        return mixing, self.images[i].flatten(1).T[pixels].cpu().numpy(), cosine.cpu().numpy()

    def _corrected(
        self, canvas: Canvas, colors: Tensor, gains: Tensor, exposure: bool
    ) -> tuple[Tensor, Tensor]:
        """Colours with which renderings agree best with the photos, and the exposures."""
        start = colors.cpu().numpy()
        smooth = laplacian(canvas.edges.cpu().numpy(), len(start), np.float32)
        blocks = [self._mixture(canvas, i) for i in range(len(self.images))]
        system = Mixtures.of(blocks, smooth)
        found, g = start, gains.cpu().numpy()
        for turn in range(_TURNS):
            if exposure:
                g = system.gains(found, len(g))
            found = system.corrected(start, found, g)
            self.tell(0.6 + 0.35 * (turn + 1) / _TURNS)
        return torch.from_numpy(found.clip(0, 1)).to(colors), torch.from_numpy(g).to(gains)

    def _psnr(self, canvas: Canvas, colors: Tensor, i: int) -> Tensor:
        """The PSNR of photo i rendered with these colours, over the pixels of the object."""
        sight = self.sights[i]
        columns, values = canvas.mixing(sight)
        shown = (colors[columns] * values[..., None]).sum(1) * sight.share
        image = torch.zeros_like(self.images[i]).flatten(1).T.contiguous()
        image = image.index_add(0, sight.pixel, shown).T.reshape(self.images[i].shape)
        cover = torch.zeros_like(image[0]).flatten()
        cover = cover.index_add(0, sight.pixel, torch.full_like(shown[:, 0], sight.share))
        where = cover.reshape(self.size) > 0.5
        target = self.images[i]
        where = where | (self.masks[i] > 0.5) if self.masks is not None else where
        return psnr(image, target, where)


def _filled(canvas: Canvas, colors: Tensor, seen: Tensor) -> Tensor:
    """Colours of unseen points from the eight nearest seen ones, by distance in space."""
    from scipy.spatial import KDTree

    if bool(seen.all()) or not bool(seen.any()):
        return colors
    points = canvas.points.double().cpu().numpy()
    known = seen.cpu().numpy()
    values = colors.cpu().numpy()
    near = min(8, int(known.sum()))
    distance, index = KDTree(points[known]).query(points[~known], near)
    distance, index = distance.reshape(-1, near), index.reshape(-1, near)
    weight = 1 / (distance + 1e-3 * distance.mean() + 1e-30)
    weight /= weight.sum(1, keepdims=True)
    filled = (values[known][index] * weight[..., None]).sum(1)
    out = colors.clone()
    out[~seen] = torch.from_numpy(filled).to(colors)
    return out
