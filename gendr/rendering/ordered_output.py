"""What `Renderer(composite="ordered")` draws: scenes, with faces joined as in `ordered.py`.

Colours that are constant on each face go to the kernel of the backend. Those that vary over a face
are found for lists of pairs, as in `shading.py`, and these are joined by the definition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gendr.rendering.aggregation import Aggregation
from gendr.rendering.backends.choice import Backend
from gendr.rendering.fragments import PixelPairs, recomputed
from gendr.rendering.layers import Layered, joined
from gendr.rendering.output import PAIRS_AT_ONCE, Output, image
from gendr.rendering.scene import Scene
from gendr.rendering.shading import Blending, depth_planes
from gendr.tnorms.groups import Segments

if TYPE_CHECKING:
    from gendr.tnorms import TConorm

__all__ = ["OrderedOutput", "Ordering"]


@dataclass(frozen=True)
class Ordering:
    """How a renderer joins faces in order.

    Attributes:
        opacity: of faces whose mesh has none: in [0, 1], a number or a tensor [].
        sort: "pixel" or "centroid"; see `gendr.rendering.ordered.ordered`.
        bound: faces behind others that leave less than this of a pixel may be left out.
    """

    opacity: float | Tensor
    sort: str
    bound: float


class OrderedOutput(Output):
    """`Output`, whose faces are joined from front to back; alpha is the sum of their weights."""

    def __init__(
        self,
        backend: Backend,
        scene: Scene,
        aggregation: Aggregation,
        blended: Callable[[float, float], Blending],
        ordering: Ordering,
    ) -> None:
        super().__init__(backend, scene, aggregation, blended, "softmax", "ordered")
        self._ordering = ordering

    @image
    def alpha(self) -> Tensor:
        """The sum of weights [B, H, W]."""
        return self._joined[1]

    @image
    def rgb(self) -> Tensor:
        """Colours [B, 3, H, W]."""
        colours, alpha = self._joined
        rest = (1 - alpha).unsqueeze(-1)
        return (colours + rest * self._blending.background).permute(0, 3, 1, 2)

    @image
    def _joined(self) -> tuple[Tensor, Tensor]:
        """Colours [B, H, W, 3] over black, and alpha [B, H, W]."""
        scene, blend = self._scene, self._blending
        layered = _layered(scene, self._aggregation, self._ordering, blend.near, blend.far)
        varying = scene.mesh.vertex_colors is not None or not scene.is_linear
        if varying or self._aggregation.coverage.has_own_cdf:
            colours, alpha = _joined_pairs(self._backend, scene, layered, PAIRS_AT_ONCE)
        else:
            colours, alpha = self._backend.ordered(layered, scene.size)
        shape = scene.faces.images, scene.size.height, scene.size.width
        colours, alpha = colours.reshape(*shape, 3), alpha.reshape(shape)
        photo = None if scene.camera.window is None else self._photo
        if photo is None:
            return colours, alpha
        return torch.where(photo[..., None], colours, 0), torch.where(photo, alpha, 0)


def _layered(
    scene: Scene, aggregation: Aggregation, ordering: Ordering, near: float, far: float
) -> Layered:
    """The faces of a scene, with the values that their meshes have or else those of the renderer.

    The colours are those of the first corners.
    """
    mesh, source, coverage = scene.mesh, scene.surfaces.source, aggregation.coverage
    dist, corners = coverage.dist, scene.faces.corners
    scale, opacity = mesh.face_scale, mesh.face_opacity
    if mesh.face_shape is not None:
        dist = dist.with_shape(scene.gather(mesh.face_shape, source))
    if scale is None:
        scale = scene.gather(coverage.scale, scene.image)
    else:
        scale = scene.gather(scale, source)
    if opacity is None:
        number = torch.as_tensor(ordering.opacity, dtype=corners.dtype, device=corners.device)
        opacity = number.expand(len(source))
    else:
        opacity = scene.gather(opacity, source)
    planes, limits = depth_planes(scene, near, far)
    if ordering.sort == "centroid":
        with torch.no_grad():
            depth = scene.surfaces.depth.double().clamp(near, far).mean(-1, keepdim=True)
            key = -depth if scene.camera.orthographic else 1 / depth
            limits, planes = key.expand(-1, 2), torch.cat([0 * key, 0 * key, key], -1)
    return Layered(
        scene.faces, dist, aggregation.tconorm, coverage.cutoff, ordering.bound,
        scene.colours[:, 0], opacity, scale, planes, limits, ordering.sort == "pixel",
        coverage.double,
    )  # fmt: skip


def _joined_pairs(
    backend: Backend, scene: Scene, layered: Layered, limit: int
) -> tuple[Tensor, Tensor]:
    """Colours [B H W, 3] over black, and alpha [B H W], by lists of about `limit` pairs."""
    faces, size, family = scene.faces, scene.size, layered.tconorm
    scene.prepare()
    with torch.no_grad():
        reach = layered.dist.radius(layered.scale, layered.cutoff, check=False)
        radius = reach.new_zeros(faces.images).scatter_reduce(0, scene.image, reach, "amax")
    counts = torch.tensor(faces.present_counts, dtype=torch.float64, device=reach.device)
    shares = 1 / counts.clamp(min=1)

    def run(listing: Callable[[], PixelPairs]) -> tuple[Tensor, Tensor]:
        pixels, face, first, last = listing()
        d = backend.distance(faces, size, pixels, face)
        a, s = layered.covered(d, face, scene.gather)
        kept = (a.detach() > 0).nonzero().squeeze(-1)
        key = layered.keys(size.centres(pixels[kept], torch.float64), face[kept])
        order = kept[_order(face[kept], -key, pixels[kept])]
        a, s, pixels, face = a[order], s[order], pixels[order], face[order]
        weights, _ = scene.interpolation(size.centres(pixels, a.dtype), face)
        colours = scene.colours_at(pixels, face, weights)
        group = Segments(pixels - first, last - first)
        if family.kind == "mean":
            share = a * shares.to(a.dtype)[size.image_of(pixels)]
            alpha = group.sum(share)
        else:
            share, alpha = _joined_groups(family, a, s, group)
        return group.sum(share.unsqueeze(-1) * colours), alpha

    found = recomputed(run, backend.pairs(faces, size, radius, limit))
    none = faces.corners.reshape(-1)[:0]  # what a batch of 0 images is made of
    colours = torch.cat([none.reshape(0, 3), *(c for c, _ in found)])
    return colours, torch.cat([none, *(alpha for _, alpha in found)])


def _order(*keys: Tensor) -> Tensor:
    """The order of entries by keys [K], of which the last counts most."""
    order = torch.arange(len(keys[0]), device=keys[0].device)
    for key in keys:
        order = order[torch.argsort(key[order], stable=True)]
    return order


def _joined_groups(family: TConorm, a: Tensor, s: Tensor, group: Segments) -> tuple[Tensor, Tensor]:
    """Weights [K] of members in order, which stand group by group, and the whole [P] of groups.

    Groups of 2^k + 1 to 2^(k + 1) members are joined together: less than half of it is padding.
    """
    counts = torch.bincount(group.index, minlength=group.size)
    starts = counts.cumsum(0) - counts
    padded = torch.cat([a, a.new_zeros(1)]), torch.cat([s, s.new_ones(1)])
    weights, alpha = torch.zeros_like(a), a.new_zeros(group.size)
    least, most = 0, 1
    while group.size and least < int(counts.max()):
        some = ((counts > least) & (counts <= most)).nonzero().squeeze(-1)
        step = torch.arange(most, device=a.device)
        there = step < counts[some, None]
        index = torch.where(there, starts[some, None] + step, len(a))
        each, whole = joined(family, padded[0][index], padded[1][index])
        weights = weights.index_copy(0, index[there], each[there])
        alpha = alpha.index_copy(0, some, whole)
        least, most = most, 2 * most
    return weights, alpha
