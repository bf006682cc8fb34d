"""Remeshing: even, well-shaped triangles of a wanted size on the same surface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gendr._common.checks import check_count, check_number
from gendr.mesh.mesh import Mesh
from gendr.mesh.quality import crumbs, cut_faces
from gendr.photos.meshing.libigl import libigl

__all__ = ["Remeshed", "Tables", "remesh", "without_cuts"]

# Edges longer or shorter than these multiples of the target are split and collapsed: either way
# they come nearer to it.
_LONG, _SHORT = 4 / 3, 4 / 5
# Which part of its way a vertex goes in a relaxation.
_PART = 0.5
# At most so many times are faces of bad shape, or that are cut, looked for at the end.
_ROUNDS = 5


@dataclass(frozen=True, eq=False)
class Remeshed:
    """A mesh and where its vertices are on the mesh that it was made from.

    Attributes:
        mesh: the new mesh.
        corners: int64 [V, 3], the vertices of the old face that each new vertex is nearest to.
        weights: [V, 3], its barycentric coordinates there, in [0, 1], with sum 1.
    """

    mesh: Mesh
    corners: Tensor
    weights: Tensor

    def interpolated(self, values: Tensor) -> Tensor:
        """Values [V, C] of the old vertices, interpolated at the new ones."""
        taken = values.index_select(0, self.corners.reshape(-1)).reshape(-1, 3, values.shape[-1])
        return (self.weights.to(values)[..., None] * taken).sum(1)


def remesh(
    mesh: Mesh,
    target_length: float,
    *,
    iterations: int = 5,
    callback: Callable[[float], None] | None = None,
) -> Remeshed:
    """The same surface with edges of about one length and about six at each vertex.

    Each iteration splits long edges, collapses short ones, flips edges towards six at each vertex,
    moves vertices within the surface towards the middle of their faces, and back onto the old
    surface. At the end faces of bad shape are flipped and relaxed once more.

    A manifold stays one, closed if it was, with the same genus; no face turns over. Vertices at the
    border of an open mesh, and where more than two faces share an edge, stay where they are.
    Colours and UVs are not kept. The same input gives the same bits.

    Args:
        mesh: one mesh.
        target_length: > 0, world units.
        iterations: >= 1.
        callback: called with the part of the work that is done, in [0, 1].

    Raises:
        ValueError: for a batch of several meshes, a mesh without faces, or a bad number.

    Source: Botsch, Kobbelt, A Remeshing Approach to Multiresolution Modeling, 2004, section 4.
    """
    if len(mesh) != 1:
        raise ValueError(f"one mesh is needed, got a batch of {len(mesh)}")
    if mesh.face_counts[0] == 0:
        raise ValueError("mesh has no faces, so there is nothing to remesh")
    check_number("target_length", target_length, above=0)
    check_count("iterations", iterations, least=1)
    vertices = mesh.vertices.detach().double().cpu().numpy()
    faces = mesh.faces.cpu().numpy()
    tables, old = Tables(vertices, faces), _Surface(vertices, faces)
    tell = callback or (lambda done: None)
    for i in range(iterations):
        tables.split(_LONG * target_length)
        tables.collapse(_SHORT * target_length, _LONG * target_length)
        tables.flip(by_shape=False)
        tables.relax(old)
        tell((i + 1) / (iterations + 1))
    for _ in range(_ROUNDS):
        if not tables.flip(by_shape=True):
            break
        tables.relax(old)
    x, triangles = tables.result()
    corners, weights = old.places(x)
    new = Mesh(torch.from_numpy(x).to(mesh.vertices), torch.from_numpy(triangles).to(mesh.faces))
    tell(1.0)
    return Remeshed(
        new.with_origin(mesh.origin[0]),
        torch.from_numpy(corners).to(mesh.faces),
        torch.from_numpy(weights).to(mesh.vertices),
    )


def without_cuts(mesh: Mesh) -> Mesh:
    """A mesh with fewer faces that others cut, by smoothing where they are; the faces stay.

    The vertices of such faces and their neighbours move half way to the mean of their neighbours,
    until no face is cut or that does not help. Most meshes are returned unchanged.

    Args:
        mesh: one mesh without colours.
    """
    faces = mesh.faces.cpu().numpy()
    x = mesh.vertices.detach().double().cpu().numpy()
    a, b = mesh.edges.cpu().numpy().T
    degree = np.bincount(np.concatenate([a, b]), minlength=len(x)).clip(1)[:, None]
    best, cut = x, cut_faces(x, faces)
    least = int(cut.sum())
    for _ in range(_ROUNDS if least else 0):
        near = np.zeros(len(x), bool)
        near[faces[cut]] = True
        near[faces[near[faces].any(1)]] = True
        total = np.zeros_like(x)
        np.add.at(total, a, x[b])
        np.add.at(total, b, x[a])
        x = np.where(near[:, None], (x + total / degree) / 2, x)
        cut = cut_faces(x, faces)
        if int(cut.sum()) < least:
            best, least = x, int(cut.sum())
        if not least:
            break
    return mesh.with_vertices(torch.from_numpy(best).to(mesh.vertices))


class _Surface:
    """A mesh to find the nearest points of, by a tree of boxes that is made once."""

    def __init__(self, vertices: NDArray[np.float64], faces: NDArray[np.int64]) -> None:
        self.vertices, self.faces = vertices, faces
        self.tree = libigl().AABB()
        self.tree.init(vertices, faces)

    def nearest(self, points: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The faces [P] that are nearest to points [P, 3], and the nearest points of them."""
        _, face, place = self.tree.squared_distance(self.vertices, self.faces, points)
        return face, np.ascontiguousarray(place)

    def places(self, points: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The corners [P, 3] of the nearest faces, and their weights at the nearest points."""
        face, place = self.nearest(points)
        corners = self.faces[face]
        a, b, c = (np.ascontiguousarray(self.vertices[corners[:, i]]) for i in range(3))
        weights = libigl().barycentric_coordinates(place, a, b, c)
        # A face without area has none.
        weights = np.where(np.isfinite(weights).all(1, keepdims=True), weights, 1 / 3).clip(0, 1)
        return corners, weights / weights.sum(1, keepdims=True)


class Tables:
    """The tables of `remeshing_kernels`, with a capacity for vertices and faces to come."""

    def __init__(self, vertices: NDArray[np.float64], faces: NDArray[np.int64]) -> None:
        from gendr.photos.meshing import remeshing_kernels

        self.kernels: Any = remeshing_kernels
        self._fill(vertices, faces)

    def _fill(self, vertices: NDArray[np.float64], faces: NDArray[np.int64]) -> None:
        self.counts = np.array([len(vertices), len(faces)])
        capacity, halves = 2 * len(vertices) + 1000, 3 * (2 * len(faces) + 2000)
        self._tables = self.kernels.HalfEdges(
            x=np.zeros((capacity, 3)),
            faces=np.full(halves, -1, np.int64),
            twins=np.full(halves, -1, np.int64),
            first=np.full(capacity, -1, np.int64),
            degree=np.zeros(capacity, np.int64),
            fixed=np.zeros(capacity, np.uint8),
        )
        live = self.live
        live.x[:] = vertices
        live.faces[:] = faces.reshape(-1)
        self.kernels.link(live)

    @property
    def live(self) -> Any:
        """The part of the tables that is in use."""
        v, h = int(self.counts[0]), 3 * int(self.counts[1])
        x, faces, twins, first, degree, fixed = self._tables
        return self.kernels.HalfEdges(x[:v], faces[:h], twins[:h], first[:v], degree[:v], fixed[:v])

    def split(self, limit: float) -> None:
        """Split all edges longer than a limit."""
        while not self.kernels.split(self._tables, self.counts, limit):
            self._fill(*self.result())

    def collapse(self, limit: float, longest: float) -> None:
        """Collapse edges shorter than a limit, where none gets longer than `longest`."""
        for _ in range(_ROUNDS):
            if not self.kernels.collapse(self.live, limit, longest):
                break

    def simplify(self, faces: int) -> bool:
        """Whether at most so many faces are left, see the kernel; never if it is not closed."""
        live = self.live
        return not live.fixed.any() and self.kernels.simplify(live, faces) <= faces

    def flip(self, *, by_shape: bool) -> int:
        """Flip edges, and say how many."""
        return self.kernels.flip(self.live, by_shape)

    def relax(self, old: _Surface) -> None:
        """Move vertices within the surface, and then back onto that of an old mesh."""
        live = self.live
        self.kernels.relax(live, _PART)
        self.kernels.move(live, old.nearest(live.x)[1])

    def result(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Vertices [V, 3] and faces [F, 3] without those that are gone."""
        live = self.live
        faces = live.faces.reshape(-1, 3)
        faces = faces[faces[:, 0] >= 0]
        used, inverse = np.unique(faces, return_inverse=True)
        return live.x[used], inverse.reshape(-1, 3).astype(np.int64)


def without_small_parts(mesh: Mesh) -> tuple[Mesh, int, float]:
    """A mesh without the parts that have less than a hundredth of its area each.

    Args:
        mesh: one mesh without colours of vertices or faces; other attributes are dropped.

    Returns:
        It, or the same if there are none; how many there were, and their share of the area.
    """
    faces = mesh.faces.cpu().numpy()
    small, owner, share = crumbs(mesh.vertices.detach().double().cpu().numpy(), faces)
    if not small.any():
        return mesh, 0, 0.0
    used, kept = np.unique(faces[~small[owner]], return_inverse=True)
    rows = torch.from_numpy(used).to(mesh.device)
    left = torch.from_numpy(kept.reshape(-1, 3)).to(mesh.device)
    found = Mesh(mesh.vertices[rows], left).with_origin(mesh.origin[0])
    return found, int(small.sum()), float(share[small].sum())
