"""Stage 4, shading: the colours of fragments, and their softmax over depth.

All backends share this code; they differ in which (pixel, face) pairs they list. A backend may
also compute softmax colours by a fused kernel of its own (`Backend.softmax`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gendr._common.ranges import quotient, saturated
from gendr._common.tracing import is_traced
from gendr.primitives.scene import Scene as Triangles
from gendr.rendering.backends.choice import Backend
from gendr.rendering.coverage import Coverage
from gendr.rendering.fragments import PixelPairs, recomputed
from gendr.rendering.geometry import raster_positions
from gendr.rendering.scene import Scene
from gendr.tnorms.groups import Segments


@dataclass(frozen=True)
class Blending:
    """How the colours of a pixel are blended: softmax(depth / gamma) with a background at eps.

    Attributes:
        near: depth of the near plane, world units.
        far: depth of the far plane, world units.
        gamma: temperature of the softmax over normalised depth; > 0, may be a tensor.
        eps: normalised depth of the background, in [0, 1].
        background: [3] RGB.
    """

    near: float
    far: float
    gamma: float | Tensor
    eps: float
    background: Tensor

    def without_background(self) -> Blending:
        """The same with a black background whose weight is negligible beside any fragment.

        It is so far behind that its weight underflows in float64.
        """
        gamma = float(torch.as_tensor(self.gamma, device="cpu").detach())
        return replace(self, eps=-2000 * gamma, background=torch.zeros_like(self.background))


def softmax_rgb(
    backend: Backend, scene: Scene, coverage: Coverage, blending: Blending, limit: int
) -> Tensor:
    """Colours [B, H, W, 3]: (sum a e^(zeta/gamma) c + e^(eps/gamma) c_bg) / (same without c).

    zeta = (far - z) / (far - near) is 1 at the near plane and 0 at the far plane. Source:
    Liu et al., Soft Rasterizer (2019), the softmax over depth.
    """
    filtered = scene.mipmaps and scene.is_textured  # which fused kernels do not
    fused = (
        None
        if coverage.has_own_cdf or filtered
        else _fused_softmax(backend, scene, coverage, blending)
    )
    if fused is not None:
        return fused
    faces, size, blend = scene.faces, scene.size, blending
    scene.prepare()

    def run(listing: Callable[[], PixelPairs]) -> Tensor:
        pixels, face, first, last = listing()
        scale = scene.gather(coverage.scale, size.image_of(pixels))
        a, _ = coverage.of(backend.distance(faces, size, pixels, face), scale)
        kept = (a.detach() > 0).nonzero().squeeze(-1)
        if len(kept) < len(a):
            a, pixels, face = a[kept], pixels[kept], face[kept]
        weights, z = scene.interpolation(size.centres(pixels, a.dtype), face)
        colours = scene.colours_at(pixels, face, weights)
        zeta = (blend.far - z) / (blend.far - blend.near)
        group = Segments(pixels - first, last - first)
        top = group.max(zeta.detach()).clamp(min=blend.eps)
        top = torch.where(group.count(zeta) > 0, top, blend.eps)
        exponent, behind = (zeta - group.expand(top)) / blend.gamma, (blend.eps - top) / blend.gamma
        height, background = torch.exp(exponent), torch.exp(behind)
        lift = _lift(group.sum(a.detach() * height.detach()) + background)
        if bool(lift.any()):
            height = torch.exp(exponent + group.expand(lift))
            background = torch.exp(behind + lift)
        share, background = saturated(a) * height, background.unsqueeze(-1)
        weighted = group.sum(share.unsqueeze(-1) * colours) + background * blend.background
        return quotient(weighted, group.sum(share).unsqueeze(-1) + background)

    runs = backend.pairs(faces, size, coverage.radius(), limit)
    none = faces.corners.reshape(-1)[:0].reshape(0, 3)  # what a batch of 0 images is made of
    rgb = torch.cat([none, *recomputed(run, runs)])
    return rgb.reshape(faces.images, size.height, size.width, 3)


def _lift(total: Tensor) -> Tensor:
    """What to add to the exponents of a pixel so that their sum of weights is not tiny; 0 for most.

    Where faces cover a pixel hardly at all and the background is far behind, 1 / sum overflows.
    """
    power = 100 if total.dtype == torch.float32 else 900
    return torch.where(total < 2.0**-power, power * math.log(2), torch.zeros_like(total))


def _fused_softmax(
    backend: Backend, scene: Scene, coverage: Coverage, blending: Blending
) -> Tensor | None:
    """`softmax_rgb` by the backend's fused kernel; None if it has none for this scene."""
    blend, size, faces = blending, scene.size, scene.faces
    depth = blend.far - blend.near
    corners = faces.corners
    gamma = torch.as_tensor(blend.gamma, dtype=corners.dtype, device=corners.device)
    rate = 1 / (depth * gamma)
    found = backend.softmax(scene, coverage, rate, blend.far - blend.eps * depth)
    if found is None:
        return None
    rgb, share = found
    background = blend.background
    # On a GPU nobody waits to know whether it is black.
    unknown = background.is_cuda or background.requires_grad or is_traced()
    if unknown or bool(background.any()):
        rgb = rgb + share.unsqueeze(-1) * background
    return rgb.reshape(faces.images, size.height, size.width, 3)


def closest_faces(
    backend: Backend, scene: Scene, coverage: Coverage, wanted: Tensor, limit: int
) -> tuple[Tensor, Tensor]:
    """For pixels that no face covers, find the face that is nearest to them in the image.

    If several faces are equally near, as at a common edge, faces towards the camera come first, and
    then the order of the faces decides.

    Args:
        backend: lists pairs.
        scene: the scene.
        coverage: how far faces reach.
        wanted: [P] bool, the pixels for which to look.
        limit: how many pairs are listed at a time.

    Returns:
        Those of the pixels [K] that a face reaches, and the packed indices of these faces [K].
    """
    faces, size = scene.faces, scene.size
    count = len(faces.corners)
    found: list[tuple[Tensor, Tensor]] = []
    with torch.no_grad():
        a, b, c = faces.corners[:, :3].unbind(1)
        ahead = b - a, c - a
        turned = ahead[0][:, 0] * ahead[1][:, 1] < ahead[0][:, 1] * ahead[1][:, 0]
        rank = torch.arange(count, device=turned.device) + turned * count
        for listing in backend.pairs(faces, size, coverage.radius(), limit):
            pixels, face, first, last = listing()
            kept = wanted[pixels].nonzero().squeeze(-1)
            pixels, face = pixels[kept], face[kept]
            d = backend.distance(faces, size, pixels, face)
            group = Segments(pixels - first, last - first)
            nearest = d.new_full((last - first,), -torch.inf)
            nearest = nearest.scatter_reduce(0, group.index, d, "amax")
            tied = (d == group.expand(nearest)).nonzero().squeeze(-1)
            best = rank.new_full((last - first,), 2 * count)
            best = best.scatter_reduce(0, group.index[tied], rank[face[tied]], "amin")
            some = (best < 2 * count).nonzero().squeeze(-1)
            found.append((some + first, best[some] % count))
    if not found:
        none = torch.zeros(0, dtype=torch.int64, device=faces.corners.device)
        return none, none
    return torch.cat([p for p, _ in found]), torch.cat([f for _, f in found])


def nearest_faces(backend: Backend, scene: Scene, near: float, far: float) -> Tensor:
    """The nearest face that covers each pixel, int64 [B, H, W]; -1 if there is none.

    It is what `gendr.primitives.rasterize` sees: pixels on an edge that two faces share belong to
    one of them, and of equal depths the first face is seen.
    """
    geometry, planes = scene.geometry, (near, far)
    with torch.no_grad():
        whole = geometry.is_whole
        points = geometry.space if whole else geometry.surfaces
        clip = raster_positions(
            points.clip, points.depth, scene.camera.orthographic, planes, scene.size
        )
        if whole:
            tri = geometry.space.faces
        else:
            present = scene.faces.present
            if present is not None:  # a triangle without area is not seen
                clip = torch.where(present[:, None, None], clip, 0.0)
            tri = torch.arange(3 * len(clip), device=clip.device).reshape(-1, 3)
        starts = torch.tensor(scene.faces.offsets, dtype=torch.int32, device="cpu")
        triangles = Triangles(
            tri.int().contiguous(), scene.faces.images, scene.size.height, scene.size.width,
            clip[..., 0].numel(), torch.stack([starts[:-1], starts.diff()], 1), shared=True,
        )  # fmt: skip
        return backend.nearest(triangles, clip.reshape(-1, 4)).flip(1).long()


def depth_planes(scene: Scene, near: float, far: float) -> tuple[Tensor, Tensor]:
    """The depth keys p x + q y + r of faces, as (p, q, r) [T, 3]; keys grow towards the camera.

    For perspective cameras the key is 1/z, which is affine on the screen, for orthographic ones -z.
    All is float64. The second result [T, 2] holds the least and the greatest key of each face.
    """
    faces = scene.surfaces
    with torch.no_grad():
        clip, z = faces.clip.double(), faces.depth.double().clamp(near, far)
        if scene.camera.orthographic:
            xyz = torch.stack([clip[..., 0], clip[..., 1], faces.depth.double()], -1)
            n, c = _plane(xyz)
            steep = n[:, 2:] == 0
            plane = torch.cat([n[:, :2], -c], -1) / torch.where(steep, 1.0, n[:, 2:])
            keys = -z
        else:
            n, c = _plane(clip)
            plane = n / torch.where(c == 0, 1.0, c)
            keys = 1 / z
    return plane, torch.stack([keys.amin(-1), keys.amax(-1)], -1)


def _plane(corners: Tensor) -> tuple[Tensor, Tensor]:
    """Normal [T, 3] and offset [T, 1] of the planes through the corners [T, 3, 3]."""
    a, b, c = corners.unbind(1)
    normal = torch.linalg.cross(b - a, c - a)
    return normal, (normal * a).sum(-1, keepdim=True)
