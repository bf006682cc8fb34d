"""The smoothest surface with the outlines of photos, where stereo matches nothing.

A visual hull touches the cone of each mask somewhere, and is off elsewhere: it has ridges where
cones meet. What masks tell of the surface are its rims: for each photo it touches the line of sight
of an outline, at the point where its own outline is, with a normal across that line. Between rims
nothing is known, so normals are made smooth there, and the surface is bent to have them (Yu et al.,
Mesh Editing with Poisson-Based Gradient Field Manipulation, 2004; Nehab et al., Efficiently
Combining Positions and Normals, 2005). As the surface moves, other points are its rims: all is done
a few times, on finer and finer faces.

Masks that others contradict, as where a shadow is as dark as the backdrop, are outvoted: a rim
counts less the further it is off, and only beside what is bright. Depths that stereo is sure of
count where two photos or more have the same, unless the object is of one colour: then it may be
shading that agrees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from gendr._common.vectors import summed
from gendr.kernels.threads import mapped
from gendr.mesh import Camera, Mesh
from gendr.photos import remesh, visual
from gendr.photos.fitting.graph import factorised, laplacian
from gendr.photos.fitting.shape.schedule import edge_of
from gendr.photos.fitting.shape.stereo import SETTINGS, Depths
from gendr.photos.fitting.visibility import (
    cosine_to_eye,
    footprint,
    look,
    sampling_grid,
    visible_faces,
)
from gendr.photos.meshing.hull import to_outline

__all__ = ["faired"]

Array = npt.NDArray[Any]

# The lengths of edges, pixels, one for each turn, or longer where there would be more faces.
EDGES, MOST_FACES = (4.0, 4.0, 4.0, 3.0, 3.0, 2.0, 2.0), 60_000
# Points so near the outline of the mesh, pixels without and within, whose normals are so far across
# the line of sight, cosine, are rims. One that is off so many pixels counts a quarter.
_NEAR, _ACROSS, _OFF = (0.75, 1.0), 0.35, 1.5
# How bright a photo is within so many pixels of an outline, of its usual brightness, or the outline
# may be that of a shadow.
_BRIGHT, _WITHIN = 0.5, 4
# Weights of normals: as they are, and of each rim; and of their differences and curvatures along
# edges.
_KEPT, _RIM_NORMAL = 0.05, 1.0
_EVEN, _BENT = 0.1, 0.5
# Weights of places, beside that of edges: of each rim and each depth, of where a vertex was, and of
# how much what moves is bent.
_RIM, _DEPTH, _STAY, _STIFF = 0.2, 0.1, 1e-3, 0.3
# Depths count less the further they are from those of other photos, pixels, in so many rounds; so
# much of their weights must agree. Further away than so many edges they count as if they were not.
_APART, _ROUNDS, _AGREE, _FURTHEST = 1.5, 4, 0.8, 4.0


def faired(
    mesh: Mesh,
    images: Tensor,
    camera: Camera,
    masks: Tensor,
    depths: Depths | None = None,
    tell: Callable[[float], None] = lambda done: None,
) -> Mesh:
    """A smooth surface near that of a mesh, with the outlines of the masks.

    Args:
        mesh: one closed mesh, as `fit` makes it, in the world of the cameras.
        images: [B, 3, H, W] in [0, 1], the object over black.
        camera: B perspective cameras.
        masks: [B, H, W] in [0, 1].
        depths: what stereo found, or None.
        tell: called with the part of the work that is done.
    """
    outlines = _Outlines.of(images, masks)
    low, high = mesh.bounding_box()
    middle = ((low + high) / 2).reshape(1, 1, 3)
    depth = camera.world_to_camera(middle)[..., 2].flatten()
    pixels = [float(footprint(camera[i], outlines.size, z)) for i, z in enumerate(depth)]
    pixel = float(np.median(pixels))
    for i, edge in enumerate(EDGES):
        mesh = remesh(mesh, max(edge * pixel, edge_of(mesh, MOST_FACES)), iterations=2).mesh
        mesh = _turn(mesh, camera, outlines, depths)
        tell((i + 1) / len(EDGES))
    return mesh


@dataclass(frozen=True, eq=False)
class _Outlines:
    """What masks say of outlines.

    Attributes:
        distance: [B, H, W], from the outline, pixels, positive inside.
        bright: [B, H, W], how bright a photo is within the outline near a pixel, as a part of the
            usual brightness.
    """

    distance: Tensor
    bright: Tensor

    @property
    def size(self) -> tuple[int, int]:
        """(H, W)."""
        return self.distance.shape[1], self.distance.shape[2]

    @classmethod
    def of(cls, images: Tensor, masks: Tensor) -> _Outlines:
        """Those of photos [B, 3, H, W] and masks [B, H, W]."""
        from scipy.ndimage import distance_transform_edt, uniform_filter

        inside, grey = (masks > 0.5).numpy(), images.mean(1).numpy()
        usual = float(np.median(grey[inside]))

        def both(i: int) -> tuple[Array, Array]:
            deep: Any = distance_transform_edt(inside[i])
            rim = (inside[i] & (deep <= _WITHIN)).astype(np.float32)
            side = 2 * _WITHIN - 1
            near = uniform_filter(grey[i] * rim, side)
            near /= np.maximum(uniform_filter(rim, side), 1e-6)
            return to_outline(masks[i].double().numpy())[1:-1, 1:-1], near / max(usual, 1e-6)

        found = mapped(both, range(len(masks)))
        return cls(*(torch.from_numpy(np.stack(part)).float() for part in zip(*found, strict=True)))


def _turn(mesh: Mesh, camera: Camera, outlines: _Outlines, depths: Depths | None) -> Mesh:
    """The mesh once its rims were brought to the outlines, and its normals made smooth."""
    normals, count = mesh.vertex_normals, len(mesh.vertices)
    edges = mesh.edges
    edges = edges[edges[:, 0] != edges[:, 1]]
    graph = laplacian(edges.numpy(), count)
    bending = graph @ graph
    rim = _Rims.of(mesh, normals, camera, outlines)
    weight = _KEPT + _RIM_NORMAL * rim.weight
    sought = _KEPT * normals + _RIM_NORMAL * rim.normal
    wanted = F.normalize(_solved(_EVEN * graph + _BENT * bending, weight, sought), dim=1)
    # Edges turn as the normals at their ends do.
    turn = _turns(normals, wanted)
    first, second = edges.unbind(1)
    ways = mesh.vertices[first] - mesh.vertices[second]
    ways = ((turn[first] + turn[second]) / 2 @ ways[..., None])[..., 0]
    places = summed(torch.cat([ways, -ways]), torch.cat([first, second]), count)
    weight, shift = _RIM * rim.weight, _RIM * rim.shift
    if depths is not None:
        furthest = _FURTHEST * float(ways.norm(dim=1).mean())
        agree, deeper = _matched(mesh, normals, camera, depths, furthest)
        weight = weight + _DEPTH * agree
        shift = shift + (_DEPTH * agree * deeper)[:, None] * normals
    weight = weight + _STAY
    places = places + weight[:, None] * mesh.vertices + shift
    places += torch.from_numpy(_STIFF * (bending @ mesh.vertices.double().numpy())).to(places)
    return mesh.with_vertices(_solved(graph + _STIFF * bending, weight, places))


def _solved(matrix: Any, weight: Tensor, right: Tensor) -> Tensor:
    """The x [V, C] of (matrix + diag(weight)) x = right."""
    from scipy.sparse import diags

    factor = factorised(matrix + diags(weight.double().numpy()))
    return torch.from_numpy(factor.solve(right.double().numpy())).to(right)


def _turns(start: Tensor, end: Tensor) -> Tensor:
    """The least rotations [V, 3, 3] of unit vectors [V, 3] to others."""
    x, y, z = torch.linalg.cross(start, end).unbind(1)
    none = torch.zeros_like(x)
    cross = torch.stack([none, -z, y, z, none, -x, -y, x, none], 1).reshape(-1, 3, 3)
    whole = 1 + (start * end).sum(1).clamp(min=-0.8)  # none by nearly half a turn
    return torch.eye(3).to(start) + cross + cross @ cross / whole[:, None, None]


@dataclass(frozen=True, eq=False)
class _Rims:
    """What outlines say of each vertex, sums over the photos of which it is a rim.

    Attributes:
        weight: [V], how much.
        shift: [V, 3], where to, times the weight.
        normal: [V, 3], across the line of sight and the outline, times the weight.
    """

    weight: Tensor
    shift: Tensor
    normal: Tensor

    @classmethod
    def of(cls, mesh: Mesh, normals: Tensor, camera: Camera, outlines: _Outlines) -> _Rims:
        """Those of a mesh."""
        found = mapped(
            lambda i: _rim(mesh, normals, camera[i], outlines.distance[i], outlines.bright[i]),
            range(len(camera)),
        )
        rows, weight, shift, way = (torch.cat(part) for part in zip(*found, strict=True))
        count, each = len(mesh.vertices), weight[:, None]
        return cls(
            summed(weight, rows, count),
            summed(each * shift, rows, count),
            summed(each * way, rows, count),
        )


def _rim(
    mesh: Mesh, normals: Tensor, camera: Camera, distance: Tensor, bright: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The rim that one camera sees: rows [R], weights [R], shifts [R, 3] and ways out [R, 3].

    Args:
        mesh: one mesh.
        normals: [V, 3], its vertex normals.
        camera: one camera.
        distance: [H, W], from the outline of the mask, as in `_Outlines`.
        bright: [H, W], as there.
    """
    from scipy.ndimage import distance_transform_edt

    height, width = size = distance.shape[0], distance.shape[1]
    planes = visual.depths(mesh, camera)
    face, _, _ = visible_faces(mesh.vertices, camera, (2 * height, 2 * width), planes, mesh.faces)
    shown = (face >= 0).numpy()
    within, without = (np.asarray(distance_transform_edt(part)) for part in (shown, ~shown))
    own = (within - without - np.where(shown, 0.5, -0.5)) / 2
    down, right = np.gradient(own)
    images = torch.from_numpy(np.stack([own, -right, down])).to(distance)
    xy, depth = (part[0] for part in camera.project(mesh.vertices[None]))

    def at(images: Tensor, rows: Tensor | slice) -> Tensor:
        grid = sampling_grid(xy[rows], size)[None, None]
        return F.grid_sample(
            images[None], grid, align_corners=False, padding_mode="border"
        )[0, :, 0]  # fmt: skip

    deep, x, y = at(images, slice(None))
    near = (deep < _NEAR[0]) & (deep > -_NEAR[1])
    near &= cosine_to_eye(camera, mesh.vertices, normals).abs() < _ACROSS
    # No rim is in sight, and SciPy's distances from nothing are those of a pixel beyond the corner.
    near &= bool(shown.any() and not shown.all())
    rows = (near & (x.square() + y.square() > 1 / 16)).nonzero()[:, 0]
    way = F.normalize(torch.stack([x, y], 1)[rows], dim=1) @ camera.rotation[0, :2]
    off, light = at(torch.stack([distance, bright]), rows)
    off = off - deep[rows].clamp(min=0)
    weight = (light > _BRIGHT) / (1 + (off / _OFF).square()).square()
    shift = (off * footprint(camera, size, depth[rows]))[:, None] * way
    return rows, weight, shift, way


def _matched(
    mesh: Mesh, normals: Tensor, camera: Camera, depths: Depths, furthest: float
) -> tuple[Tensor, Tensor]:
    """How many depths agree about the vertices of a mesh [V], and where to along normals [V].

    Args:
        mesh: one mesh.
        normals: [V, 3], its vertex normals.
        camera: B cameras.
        depths: of their photos.
        furthest: they are that far at most, world units.
    """
    size = (depths.weights.shape[1], depths.weights.shape[2])

    def one(i: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        sure = torch.from_numpy(depths.weights[i])
        known = sure > SETTINGS.prior_weight
        rows, xy, _ = look(mesh, camera[i], size, 1).visible_points(mesh.vertices, normals, known)
        side, (height, width) = min(size), size
        column = ((xy[:, 0] * side + width) / 2).long().clamp(0, width - 1)
        row = ((height - xy[:, 1] * side) / 2).long().clamp(0, height - 1)
        points = mesh.vertices[rows]
        depth = camera[i].world_to_camera(points[None])[0, :, 2]
        there = torch.from_numpy(depths.planes[i, ..., 0])[row, column].clamp(min=1e-12)
        step = (points - camera.eye[i]) * (1 / (there * depth) - 1)[:, None]
        off = (step * normals[rows]).sum(1)
        return rows, off, sure[row, column], footprint(camera[i], size, depth)

    found = mapped(one, range(len(camera)))
    rows, off, sure, pixel = (torch.cat(part) for part in zip(*found, strict=True))
    count, weight = len(mesh.vertices), sure * (off.abs() < furthest)
    total = mean = sure.new_zeros(count)
    for i in range(_ROUNDS):
        total = summed(weight, rows, count)
        mean = summed(weight * off, rows, count) / total.clamp(min=1e-6)
        scale = _APART * 2 ** max(0, 2 - i) * pixel
        weight = sure * (off.abs() < furthest) / (1 + ((off - mean[rows]) / scale).square()) ** 2
    return torch.where(total > _AGREE, total, 0), mean
