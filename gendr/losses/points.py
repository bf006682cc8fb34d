"""Distances between two shapes."""

from __future__ import annotations

import torch
from torch import Tensor

from gendr._common.checks import (
    check_count,
    check_finite,
    check_float,
    check_like,
    check_shape,
    dtype_name,
    shape_text,
)
from gendr._common.tracing import is_graph_whole, is_transformed
from gendr._common.vectors import gathered
from gendr.mesh import Mesh

__all__ = ["chamfer", "chamfer_distance"]


def chamfer_distance(first: Tensor, second: Tensor, *, squared: bool = False) -> Tensor:
    """Mean distance to the nearest point of the other set, averaged over both directions.

    Args:
        first: [N, 3] or [B, N, 3], world.
        second: [M, 3] or [B, M, 3]; one set broadcasts to B.
        squared: Squared distances instead (twice this is what PyTorch3D returns).

    Returns:
        Scalar >= 0, world units (squared): (mean_i min_j |a_i - b_j| + mean_j min_i |b_j - a_i|) /
        2, mean over the batch. Differentiable in both sets for the neighbours found; points that
        coincide have gradient 0. Memory O(N + M): k-d trees, on the CPU; O(N M) inside
        transforms of `torch.func`, `torch.export` and `torch.jit.trace`.

    Raises:
        TypeError: If dtypes are wrong or differ.
        ValueError: If a set is empty, not finite, or shapes or devices do not fit.
    """
    for name, points in (("first", first), ("second", second)):
        check_float(name, points)
        sizes = check_shape(name, points, "[N, 3] or [B, N, 3]")
        if sizes["N"] == 0:
            raise ValueError(f"{name} must hold at least one point, got {shape_text(points.shape)}")
        check_finite(name, points)
    check_like("second", second, "first", first)
    a, b = (x[None] if x.ndim == 2 else x for x in (first, second))
    batch = _common_batch(len(a), len(b), "point sets")
    total = a[:0].sum() + b[:0].sum()  # 0, which an empty batch has
    for one, other in zip(a.expand(batch, -1, -1), b.expand(batch, -1, -1), strict=True):
        to_other, to_one = nearest_indices(one, other)
        for x, y, index in ((one, other, to_other), (other, one, to_one)):
            gap = x - gathered(y, index)
            distance = gap.square().sum(-1) if squared else torch.linalg.vector_norm(gap, dim=-1)
            total = total + distance.mean() / 2
    return total / max(batch, 1)


def _common_batch(first: int, second: int, what: str) -> int:
    """The size that two batches broadcast to."""
    if 1 not in (first, second) and first != second:
        raise ValueError(f"batches must be equal or 1, got {first} and {second} {what}")
    return second if first == 1 else first


def nearest_indices(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Index of the nearest point of the other set for [N, 3] and [M, 3]: [N], [M].

    By k-d trees on the CPU, wherever the points are: a GPU takes longer to compare all pairs of a
    few thousand than the copies and the trees. Transforms of `torch.func` and exported graphs see
    no values: there all pairs are compared.
    """
    if is_transformed() or is_graph_whole():
        distances = torch.cdist(a.detach(), b.detach(), compute_mode="donot_use_mm_for_euclid_dist")
        return distances.argmin(-1), distances.argmin(-2)
    from scipy.spatial import KDTree  # slow to import, needed only here

    x, y = (points.detach().cpu().double().numpy() for points in (a, b))
    there, back = KDTree(y).query(x)[1], KDTree(x).query(y)[1]
    return torch.from_numpy(there).to(a.device), torch.from_numpy(back).to(a.device)


def chamfer(first: Mesh, second: Mesh, n: int = 10_000, seed: int = 0) -> Tensor:
    """`chamfer_distance` of points drawn evenly from the surfaces of two meshes.

    Meshes with an `origin` are compared where they are in the world.

    The points of the two meshes are drawn independently. So even for equal meshes the result is not
    0, but about half of the square root of area / n.

    Args:
        first: One mesh or a batch.
        second: One mesh or a batch; one broadcasts to the other.
        n: Points per mesh.
        seed: The seed of the draw; the same seed gives the same result.

    Returns:
        Scalar >= 0, world units, mean over the batch; differentiable in the vertices.

    Raises:
        TypeError: If an argument is no mesh, or dtypes differ.
        ValueError: If a mesh has no area, or batch sizes or devices do not fit.
    """
    check_count("n", n)
    for name, mesh in (("first", first), ("second", second)):
        if not isinstance(mesh, Mesh):
            raise TypeError(f"{name} must be a Mesh, got {type(mesh).__name__}")
    if second.dtype != first.dtype:
        raise TypeError(
            f"second must have the dtype of first, {dtype_name(first.dtype)}, "
            f"got {dtype_name(second.dtype)}; convert one with .to()"
        )
    _common_batch(len(first), len(second), "meshes")
    generator = torch.Generator(first.device).manual_seed(check_count("seed", seed, least=0))
    points, others = (mesh.sample_points(n, generator) for mesh in (first, second))
    shift = second.origin - first.origin  # on the CPU
    if shift.any():  # to the coordinates of the first, in float64
        others = (others.double() + shift[:, None].to(others.device)).to(others.dtype)
    return chamfer_distance(points, others)
