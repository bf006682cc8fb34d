"""Where photos agree: a sweep of a surface along its normals, and the displacement that follows.

Silhouettes do not show a hollow, but colours do: a place of the true surface has one colour in all
photos that see it, another place has several. So every vertex is tried at many depths below the
surface (a plane sweep, Collins 1996, on a mesh), and of these depths a smooth displacement is
chosen by an exhaustive search and a smoothing that take turns and are coupled ever more closely
(Steinbruecker, Pock, Cremers, Large Displacement Optical Flow Computation without Warping, 2009).
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

from gendr import visual
from gendr.fitting.graph import adjacency, factorised, laplacian
from gendr.fitting.visibility import cosine_to_eye, footprint, sampling_grid
from gendr.mesh import Camera, Mesh
from gendr.rendering import Renderer

__all__ = ["LEAST_VIEWS", "Photos", "disagreement", "displacement"]

# Colours that differ by this count half.
_OFF = 0.12
# Photos that see a place at a smaller cosine than this do not count.
LEAST_COSINE = 0.25
# How like the normals of a vertex and of what hides a place below it must be: then both move.
_ALIKE = 0.3
# How much further below what hides it a place may be than its offset says, on curved surfaces.
_SLACK = 1.3
# Rounds in which photos that disagree with the mean lose weight.
_ROUNDS = 2
# Colours that are looked up at once, which bounds the memory.
_SAMPLES = 4_000_000
# Photos that must see a place.
LEAST_VIEWS = 3
# A vertex moves if photos agree better by this than where it is, in [0, 1].
_MARGIN = 0.03
# How much a vertex that too few photos see holds its place.
_HOLD = 0.05
# Turns of search and smoothing; the coupling at the first and at the last of them.
_TURNS, _COUPLING = 8, (0.03, 10.0)


@dataclass(frozen=True, eq=False)
class Photos:
    """Photos at one size: images [B, 3, H, W], B cameras, and masks [B, H, W]."""

    images: Tensor
    camera: Camera
    masks: Tensor

    @property
    def size(self) -> tuple[int, int]:
        """(H, W)."""
        return self.images.shape[2], self.images.shape[3]

    def smaller(self, factor: int) -> Photos:
        """Means over areas of factor^2 pixels."""
        if factor == 1:
            return self
        shape = [max(round(n / factor), 8) for n in self.size]
        images = F.interpolate(self.images, shape, mode="area")
        masks = F.interpolate(self.masks[:, None], shape, mode="area")[:, 0]
        return Photos(images, self.camera, masks)


def disagreement(
    mesh: Mesh, photos: Photos, offsets: Tensor, tell: Callable[[float], None] | None = None
) -> Tensor:
    """How much photos disagree about the places below the vertices, [V, J] in [0, 1].

    That is the mean over photos, weighted by the cosine at which they see the vertex, of
    x / (1 + x), with x the squared difference to a robust mean in units of 0.12^2. A photo counts
    where it shows the place or what hides it moves along: a surface above it that faces the same
    way.

    Args:
        mesh: One mesh.
        photos: Of it.
        offsets: [J], depths below the surface, along the normals.
        tell: Called with the part of the work that is done, in [0, 1].

    Returns:
        nan for places that fewer than three photos see.
    """
    step = max(1, _SAMPLES // (len(photos.images) * len(offsets)))
    count, sights, found = len(photos.images), list[Tensor](), list[Tensor]()
    for i in range(count):
        sights.append(_maps(mesh, photos, i))
        if tell is not None:
            tell(0.2 * (i + 1) / count)
    parts = zip(mesh.vertices.split(step), mesh.vertex_normals.split(step), strict=True)
    for points, normals in parts:
        found.append(_agreed(photos, sights, points, normals, offsets))
        if tell is not None:
            tell(0.2 + 0.8 * step * len(found) / max(len(mesh.vertices), step * len(found)))
    return torch.cat(found)


def _maps(mesh: Mesh, photos: Photos, i: int) -> Tensor:
    """What photo i shows of the mesh, [5, H, W]: its normals, its depth, and where it is inside."""
    coloured = Mesh(mesh.vertices, mesh.faces).with_face_colors((mesh.face_normals + 1) / 2)
    near, far = visual.depths(mesh, photos.camera[i])
    renderer = Renderer(
        photos.size, "heaviside", "max", shading="hard", lighting="none",
        background=(0.5, 0.5, 0.5), near=near, far=far,
    )  # fmt: skip
    with torch.no_grad():
        out = renderer(coloured, photos.camera[i])
        depth = torch.where(out.face_id >= 0, out.depth, far)
        inside = -F.max_pool2d(-(photos.masks[i] > 0.5).to(depth)[None], 3, 1, 1)
        return torch.cat([2 * out.rgb[0] - 1, depth, inside])


def _agreed(
    photos: Photos, maps: list[Tensor], points: Tensor, normals: Tensor, offsets: Tensor
) -> Tensor:
    """`disagreement` about the places below some points [N, 3] with normals [N, 3]: [N, J]."""
    flat = (points[:, None] - offsets[:, None] * normals[:, None]).reshape(-1, 3)
    shape = len(points), len(offsets)
    options: dict[str, Any] = {"align_corners": False}
    colors, weights = [], []
    for i, known in enumerate(maps):
        camera = photos.camera[i]
        cosine = cosine_to_eye(camera, points, normals)
        xy, ahead = (part[0] for part in camera.project(flat))
        grid = sampling_grid(xy, photos.size)[None, None]
        image = photos.images[i : i + 1]
        color = F.grid_sample(image, grid, padding_mode="border", **options)[0, :, 0].T
        there = F.grid_sample(known[None], grid, mode="nearest", **options)[0, :, 0].T
        there = there.reshape(*shape, 5)
        pixel = footprint(camera, photos.size, ahead.reshape(shape))
        hidden = ahead.reshape(shape) - there[..., 3]
        most = (2 * pixel + _SLACK * offsets.clamp(min=0)) / cosine.clamp(min=LEAST_COSINE)[:, None]
        alike = (there[..., :3] * normals[:, None]).sum(-1) > _ALIKE
        seen = alike & (hidden < most) & (there[..., 4] > 0.5) & (cosine > LEAST_COSINE)[:, None]
        colors.append(color.reshape(*shape, 3))
        weights.append(cosine.clamp(min=0)[:, None] * seen)
    color, weight = torch.stack(colors), torch.stack(weights)[..., None]
    total = weight.sum(0).clamp(min=1e-6)
    mean = (weight * color).sum(0) / total
    for _ in range(_ROUNDS):
        off = (color - mean).square().mean(-1, keepdim=True) / _OFF**2
        trust = weight / (1 + off) ** 2
        mean = (trust * color).sum(0) / trust.sum(0).clamp(min=1e-6)
    off = (color - mean).square().mean(-1, keepdim=True) / _OFF**2
    cost = ((weight * off / (1 + off)).sum(0) / total)[..., 0]
    return torch.where((weight > 0).sum(0)[..., 0] >= LEAST_VIEWS, cost, torch.nan)


def displacement(
    mesh: Mesh, cost: Tensor, offsets: Tensor, *, window: int, stiffness: float
) -> Tensor:
    """A smooth depth below each vertex at which photos agree, [V].

    Args:
        mesh: One mesh.
        cost: [V, J] in [0, 1], nan where too few photos see the place.
        offsets: [J], one of which is 0.
        window: Costs are averaged over so many rings of neighbours.
        stiffness: > 0, how much neighbours hold each other.
    """
    from scipy import sparse

    count, edges = len(mesh.vertices), mesh.edges.cpu().numpy()
    values: NDArray[Any] = cost.double().cpu().numpy()
    known = np.isfinite(values)
    total, number = np.where(known, values, 0.0), known.astype(float)
    mixing = adjacency(edges, count) + sparse.identity(count)
    for _ in range(window):
        total, number = mixing @ total, mixing @ number
        most = number.max(1, keepdims=True).clip(1e-12)
        total, number = total / most, number / most
    values = np.where((number > 0.3) & known, total / number.clip(1e-12), np.nan)
    t = offsets.double().cpu().numpy()
    here = int(np.abs(t).argmin())
    own = values[:, here]
    tried = np.where(np.isfinite(values), values, np.inf)
    usable = np.isfinite(own) & np.isfinite(tried).any(1)
    tried[~usable] = 0.0
    own = np.where(usable, own, 0.0)
    # What moves has to be better by a margin; all else holds its place.
    gain = own - tried.min(1)
    stays = gain <= _MARGIN
    spread = (np.minimum(np.median(tried, 1), 2.0) - tried.min(1)).clip(0)
    trust = np.where(stays, np.where(usable, 1.0, _HOLD), spread / (spread + 0.05) + 1e-3)
    tried = np.minimum(tried, 2.0)
    unit = float(np.abs(t).max())
    factor = factorised(sparse.diags(trust) + stiffness * laplacian(edges, count))
    d = np.zeros(count)
    first, last = _COUPLING
    for turn in range(_TURNS):
        coupling = 0.0 if turn == 0 else first * (last / first) ** ((turn - 1) / (_TURNS - 2))
        penal = coupling * ((t - d[:, None]) / unit) ** 2
        best = t[(tried + penal).argmin(1)]
        best = np.where(stays, 0.0, best)
        d = factor.solve(trust * best)
    return torch.from_numpy(d).to(mesh.vertices)
