"""How smooth a mesh is and how even its edges are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from gendr._common.checks import (
    check_count,
    check_device,
    check_float,
    check_index,
    check_integer,
    check_number,
    check_shape,
)
from gendr._common.tracing import cached, lasting
from gendr._common.vectors import gathered, summed, unit
from gendr.kernels.backends import Choice
from gendr.kernels.operator import Operator
from gendr.losses.means import mean
from gendr.mesh import Mesh

__all__ = [
    "FlattenLoss",
    "LaplacianLoss",
    "edge_length_loss",
    "flatten_loss",
    "laplacian_loss",
    "normal_consistency_loss",
]


class LaplacianLoss(nn.Module):
    """Squared length of the uniform Laplacian, L x = x - mean of the neighbours of x.

    Built once per topology. Vertices without neighbours have L x = 0. The sum over a mesh makes
    the weight depend on the number of vertices, as in the source.

    Args:
        faces: [F, 3] integers.
        num_vertices: V; by default the largest index + 1.

    Raises:
        TypeError: If `faces` is no integer tensor.
        ValueError: If a shape or an index is wrong.

    Source: Liu et al., Soft Rasterizer, 2019, and its code; Nealen et al., 2006 for L.
    """

    edges: Tensor
    degree: Tensor

    def __init__(self, faces: Tensor, num_vertices: int | None = None) -> None:
        super().__init__()
        faces, count = _topology(faces, num_vertices)
        ends = torch.stack((faces, faces.roll(-1, dims=1)), -1).reshape(-1, 2)
        ends = ends[ends[:, 0] != ends[:, 1]]
        edges = torch.unique(ends.sort(-1).values, dim=0).T.contiguous()
        self.num_vertices = count
        self.register_buffer("edges", edges, persistent=False)  # [2, E]
        degree = torch.bincount(edges.reshape(-1), minlength=count).clamp(min=1)
        self.register_buffer("degree", degree[:, None], persistent=False)  # [V, 1]

    def laplacian(self, vertices: Tensor) -> Tensor:
        """L x, of the shape of `vertices`: [V, 3] or [B, V, 3]."""
        check_float("vertices", vertices)
        check_shape("vertices", vertices, "[V, 3] or [B, V, 3]", V=self.num_vertices)
        check_device("vertices", vertices, "faces", self.edges)
        first, second = self.edges
        # Subtract before summing, so that a mesh far from the origin loses no digits.
        step = gathered(vertices, first, -2) - gathered(vertices, second, -2)
        rows = torch.cat([step, -step], -2).movedim(-2, 0)
        total = summed(rows, self.edges.reshape(-1), self.num_vertices)
        return total.movedim(0, -2) / self.degree

    def forward(self, vertices: Tensor) -> Tensor:
        """The loss: a sum over vertices and axes, and a mean over the batch.

        Args:
            vertices: [V, 3] or [B, V, 3].

        Returns:
            Scalar >= 0, world units squared.
        """
        return _sum_mean(self.laplacian(vertices).square(), 2)


def _cosines(spec: tuple[Tensor, Tensor, Tensor], vertices: Tensor) -> Tensor:
    """See `FlattenLoss.cosines`; the spec is its faces, pairs and signs."""
    faces, pairs, sign = spec
    corners = gathered(vertices, faces.T.reshape(-1), -2)
    a, b, c = corners.unflatten(-2, (3, -1)).unbind(-3)
    normal = unit(torch.linalg.cross(b - a, c - a))
    first, second = gathered(normal, pairs.reshape(-1), -2).unflatten(-2, (2, -1)).unbind(-3)
    return (first * second).sum(-1) * sign


_COSINES = Operator("losses.cosines", reference=_cosines)
_kernels_for = Choice("losses", {"cpu": "gendr.losses.kernels"}).kernels


class FlattenLoss(nn.Module):
    """The sum over inner edges of (1 + cos)^2 of the angle between the two faces; 0 if flat.

    The angle is measured inside: pi for a flat surface, pi/2 at the edges of a cube, 0 for a fold.
    Built once per topology. Faces may be oriented either way; edges of more than two faces count
    once per pair of faces, edges of one face not at all. A face without area has no normal: its
    pairs give the constant 1.

    Args:
        faces: [F, 3] integers.
        num_vertices: V; by default the largest index + 1.

    Raises:
        TypeError: If `faces` is no integer tensor.
        ValueError: If a shape or an index is wrong.

    Source: Liu et al., Soft Rasterizer, 2019, and its code.
    """

    faces: Tensor
    pairs: Tensor
    sign: Tensor

    def __init__(self, faces: Tensor, num_vertices: int | None = None) -> None:
        super().__init__()
        faces, self.num_vertices = _topology(faces, num_vertices)
        pairs, sign = _face_pairs(faces, self.num_vertices)
        self.register_buffer("faces", faces, persistent=False)
        self.register_buffer("pairs", pairs, persistent=False)  # [2, P]
        self.register_buffer("sign", sign, persistent=False)  # [P], +-1 for equal sides

    def cosines(self, vertices: Tensor) -> Tensor:
        """Cosine between the normals of the faces of each pair, 1 if flat: [P] or [B, P]."""
        check_float("vertices", vertices)
        check_shape("vertices", vertices, "[V, 3] or [B, V, 3]", V=self.num_vertices)
        check_device("vertices", vertices, "faces", self.faces)
        spec = self.faces, self.pairs, self.sign
        return _COSINES(_kernels_for(_COSINES.name, vertices), spec, vertices)

    def forward(self, vertices: Tensor) -> Tensor:
        """The loss: a sum over pairs of faces, and a mean over the batch.

        Args:
            vertices: [V, 3] or [B, V, 3].

        Returns:
            Scalar >= 0; at most 4 per inner edge.
        """
        return _sum_mean((1 - self.cosines(vertices)).square(), 1)


def _topology(faces: Tensor, num_vertices: int | None) -> tuple[Tensor, int]:
    """Checked faces and the number of vertices."""
    faces = check_integer("faces", faces)
    check_shape("faces", faces, "[F, 3]")
    if num_vertices is None:
        num_vertices = int(faces.max()) + 1 if faces.numel() else 0
    check_count("num_vertices", num_vertices, least=0)
    return check_index("faces", faces, num_vertices, "vertices"), num_vertices


def _face_pairs(faces: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Pairs of faces that share an edge, [2, P], and [P] 1 if their orientations agree, else -1."""
    tail, head = faces.reshape(-1), faces.roll(-1, dims=1).reshape(-1)
    face = torch.arange(len(faces), device=faces.device).repeat_interleave(3)
    real = tail != head
    tail, head, face = tail[real], head[real], face[real]
    key = torch.minimum(tail, head) * max(count, 1) + torch.maximum(tail, head)
    key, order = torch.sort(key, stable=True)
    ahead, face = (tail < head)[order], face[order]
    pairs, signs = [], []
    # After sorting, the half-edges of an edge are neighbours in the list. Find pairs of them at
    # distance 1, then 2, and so on.
    for gap in range(1, len(key)):
        same = key[gap:] == key[:-gap]
        if not bool(same.any()):
            break
        same &= face[gap:] != face[:-gap]
        pairs.append(torch.stack((face[:-gap][same], face[gap:][same])))
        # Two faces of equal orientation traverse their common edge in opposite directions.
        signs.append(2 * (ahead[:-gap][same] != ahead[gap:][same]).long() - 1)
    if not pairs:
        return faces.new_zeros(2, 0), faces.new_zeros(0)
    return torch.cat(pairs, 1), torch.cat(signs)


def _sum_mean(values: Tensor, item_dims: int) -> Tensor:
    """Sum over the last `item_dims` dimensions, mean over the batch if there is one."""
    return mean(values.sum(tuple(range(-item_dims, 0))))


_Operator = TypeVar("_Operator", LaplacianLoss, FlattenLoss)


def _operator(kind: Callable[[Tensor, int], _Operator], mesh: Mesh) -> _Operator:
    """The packed operator of a mesh, built at first use and kept as long as its faces live."""
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh must be a Mesh, got {type(mesh).__name__}")

    def made(faces: Tensor) -> _Operator:
        with lasting():
            return kind(faces.clone(), sum(mesh.vertex_counts))

    return cached(mesh.faces, kind, made)


def laplacian_loss(mesh: Mesh) -> Tensor:
    """`LaplacianLoss` of a mesh or a packed batch: sum over each mesh, mean over the batch.

    Args:
        mesh: one mesh, or a batch of different ones.

    Returns:
        Scalar >= 0, world units squared, differentiable in the vertices.

    Raises:
        TypeError: if it is no mesh.
    """
    return _operator(LaplacianLoss, mesh)(mesh.vertices) / len(mesh)


def flatten_loss(mesh: Mesh) -> Tensor:
    """`FlattenLoss` of a mesh or a packed batch: sum over each mesh, mean over the batch.

    Args:
        mesh: one mesh, or a batch of different ones.

    Returns:
        Scalar >= 0, at most 4 per inner edge, differentiable in the vertices.

    Raises:
        TypeError: if it is no mesh.
    """
    return _operator(FlattenLoss, mesh)(mesh.vertices) / len(mesh)


def normal_consistency_loss(mesh: Mesh) -> Tensor:
    """1 - cos between the normals of neighbouring faces, mean over the inner edges.

    Unlike `flatten_loss` it does not become negligible (fourth order) where the surface is nearly
    flat, and it does not depend on the number of faces.

    Args:
        mesh: One mesh, or a packed batch, each mesh of which has the same weight.

    Returns:
        Scalar in [0, 2]; 0 without inner edges.

    Raises:
        TypeError: if it is no mesh.

    Source: PyTorch3D, `mesh_normal_consistency`.
    """
    operator = _operator(FlattenLoss, mesh)
    return _mean_per_mesh(1 - operator.cosines(mesh.vertices), operator.pairs[0], mesh.face_offsets)


def edge_length_loss(mesh: Mesh, target: float | None = None) -> Tensor:
    """(length - target)^2, mean over the edges.

    Args:
        mesh: One mesh, or a packed batch, each mesh of which has the same weight.
        target: World units, >= 0; 0 shrinks all edges (Pixel2Mesh, Wang et al., 2018). By default
            the mean edge length of each mesh: the loss is then the variance of the lengths, which
            evens them out and does not shrink the mesh.

    Returns:
        Scalar >= 0, world units squared; 0 without edges. Edges of length 0 have gradient 0.

    Raises:
        TypeError: If the mesh is none.
        ValueError: If the target is negative or not finite.
    """
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh must be a Mesh, got {type(mesh).__name__}")
    first, second = mesh.edges.unbind(1)
    ends = gathered(mesh.vertices, first) - gathered(mesh.vertices, second)
    length = torch.linalg.vector_norm(ends, dim=-1)
    if target is not None:
        if check_number("target", target) < 0:
            raise ValueError(f"target must be >= 0, got {target!r}")
        wanted: float | Tensor = target
    else:
        which, count = _members(first, mesh.vertex_offsets, length)
        wanted = gathered(summed(length, which, len(mesh)) / count, which)
    return _mean_per_mesh((length - wanted).square(), first, mesh.vertex_offsets)


def _members(item: Tensor, offsets: tuple[int, ...], like: Tensor) -> tuple[Tensor, Tensor]:
    """The mesh of every packed item, and the number of items per mesh, at least 1."""
    start = torch.tensor(offsets, device=item.device)
    which = torch.bucketize(item.contiguous(), start, right=True) - 1
    return which, torch.bincount(which, minlength=len(offsets)).clamp(min=1).to(like.dtype)


def _mean_per_mesh(values: Tensor, item: Tensor, offsets: tuple[int, ...]) -> Tensor:
    """Mean over each mesh, then over the meshes, of values that belong to packed items."""
    which, count = _members(item, offsets, values)
    return (summed(values, which, len(offsets)) / count).mean()
