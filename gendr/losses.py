"""Objectives: how well images and shapes agree, and how smooth a mesh is.

Image losses take [B, H, W] (or [B, C, H, W]), mesh losses a packed `Mesh`; every loss returns a
scalar that is a mean over images or meshes, so weights need not know the batch size. Regularisers
come twice: as a function of a mesh, and as a module built once per topology for vertex tensors. The
operators are lists of edges: time and memory are O(V + F).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from gendr._runtime.checks import (
    check_count,
    check_device,
    check_finite,
    check_float,
    check_index,
    check_integer,
    check_like,
    check_number,
    check_shape,
    check_tensor,
    dtype_name,
    shape_text,
)
from gendr._runtime.vectors import unit
from gendr.mesh import Mesh

__all__ = [
    "FlattenLoss",
    "LaplacianLoss",
    "chamfer",
    "chamfer_distance",
    "edge_length_loss",
    "flatten_loss",
    "iou",
    "iou_loss",
    "laplacian_loss",
    "mse_loss",
    "normal_consistency_loss",
]

# Distances per chunk of the search for nearest neighbours on a GPU: 2^25 float64 are 256 MB.
_CHUNK = 1 << 25

# How far soft values may leave [0, 1] by rounding; 8-bit images are off by far more.
_ROUNDING = 1e-3


# ---------------------------------------------------------------------------------------------
# images


def _image_pair(name: str, image: Tensor, target: Tensor) -> Tensor:
    """`target` in the dtype of `image`, after checking that the two fit."""
    check_float(name, image)
    check_tensor("target", target)
    check_device("target", target, name, image)
    if target.dtype is torch.bool:
        target = target.to(image.dtype)
    check_float("target", target)
    fits = image.ndim == target.ndim and image.ndim >= 2
    pairs = zip(image.shape, target.shape, strict=False)
    if not fits or not all(a == b or (i == 0 and image.ndim > 2 and 1 in (a, b))
                           for i, (a, b) in enumerate(pairs)):  # fmt: skip
        raise ValueError(
            f"{name} and target must have equal shapes [H, W] or [B, ..., H, W] (1 broadcasts to "
            f"B), got {shape_text(image.shape)} and {shape_text(target.shape)}"
        )
    return check_finite("target", target.to(image.dtype))


def _masks(alpha: Tensor, target: Tensor) -> Tensor:
    """As `_image_pair`, for masks in [0, 1]."""
    target = _image_pair("alpha", alpha, target)
    if target.numel() and not torch.compiler.is_compiling():
        low, high = (float(x) for x in torch.aminmax(target.detach()))
        if low < -_ROUNDING or high > 1 + _ROUNDING:
            raise ValueError(
                f"target must be in [0, 1], got {low:g} .. {high:g}; divide 8-bit masks by 255"
            )
    return target


def _mean(values: Tensor) -> Tensor:
    """The mean, and 0 of nothing, where that of torch is NaN."""
    return values.mean() if values.numel() else values.sum()


def _ratio(intersection: Tensor, union: Tensor) -> Tensor:
    """Intersection over union, 1 with gradient 0 where both masks are empty."""
    empty = union <= 0
    return torch.where(empty, 1.0, intersection / torch.where(empty, 1.0, union))


def iou_loss(alpha: Tensor, target: Tensor) -> Tensor:
    """1 - soft intersection over union, per image, then the mean.

    Args:
        alpha: [B, H, W] or [H, W], in [0, 1].
        target: The same shape, or batch size 1 against B; in [0, 1] (soft edges count as they
            are) or bool.

    Returns:
        Scalar in [0, 1]: 1 - sum(a t) / sum(a + t - a t). Two empty images agree: 0; no images at
        all: 0 too, as for all losses here.

    Raises:
        TypeError: If a dtype is wrong.
        ValueError: If shapes, devices or the range of the target are wrong.

    Source: Kato et al., Neural 3D Mesh Renderer, 2018; Liu et al., Soft Rasterizer, 2019.
    """
    target = _masks(alpha, target)
    both = alpha * target
    union = (alpha + target - both).sum((-2, -1))
    return _mean(1 - _ratio(both.sum((-2, -1)), union))


def iou(alpha: Tensor, target: Tensor, threshold: float = 0.5) -> Tensor:
    """Intersection over union of the masks alpha > threshold and target > threshold.

    Args:
        alpha: [B, H, W] or [H, W], in [0, 1].
        target: As for `iou_loss`.
        threshold: In (0, 1).

    Returns:
        [B] (a scalar for [H, W]), one value per image in [0, 1], no gradient; 1 where both masks
        are empty.

    Raises:
        As `iou_loss`, and if the threshold is out of range.
    """
    check_number("threshold", threshold, above=0, below=1)
    target = _masks(alpha, target)
    a, b = alpha.detach() > threshold, target > threshold
    return _ratio((a & b).sum((-2, -1)).to(alpha.dtype), (a | b).sum((-2, -1)).to(alpha.dtype))


def mse_loss(image: Tensor, target: Tensor) -> Tensor:
    """Mean squared difference over all pixels, channels and images.

    Args:
        image: [H, W] or [B, ..., H, W], such as alpha or RGB.
        target: The same shape, or batch size 1 against B.

    Returns:
        Scalar >= 0.

    Raises:
        TypeError: If a dtype is wrong.
        ValueError: If shapes or devices differ.
    """
    return _mean((image - _image_pair("image", image, target)).square())


# ---------------------------------------------------------------------------------------------
# smoothness


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
        # Differences before sums: a mesh far from the origin loses no digits.
        step = vertices.index_select(-2, first) - vertices.index_select(-2, second)
        total = torch.zeros_like(vertices).index_add(-2, first, step)
        return total.index_add(-2, second, -step) / self.degree

    def forward(self, vertices: Tensor) -> Tensor:
        """Sum over vertices and axes, mean over the batch.

        Args:
            vertices: [V, 3] or [B, V, 3].

        Returns:
            Scalar >= 0, world units squared.
        """
        return _sum_mean(self.laplacian(vertices).square(), 2)


class FlattenLoss(nn.Module):
    """(1 + cos)^2 of the angle between the two faces at every inner edge; 0 where they are flat.

    The angle is measured inside: pi for a flat surface, pi/2 at the edges of a cube, 0 for a fold.
    Built once per topology. Faces may be oriented either way; edges of more than two faces count
    once per pair, edges of one face not at all. A face of no area has no direction: its pairs give
    the constant 1.

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
        self.register_buffer("sign", sign, persistent=False)  # [P], +-1: both normals one side

    def cosines(self, vertices: Tensor) -> Tensor:
        """Cosine between the normals of the faces of each pair, 1 if flat: [P] or [B, P]."""
        check_float("vertices", vertices)
        check_shape("vertices", vertices, "[V, 3] or [B, V, 3]", V=self.num_vertices)
        check_device("vertices", vertices, "faces", self.faces)
        a, b, c = (vertices.index_select(-2, corner) for corner in self.faces.unbind(1))
        normal = unit(torch.linalg.cross(b - a, c - a))
        first, second = (normal.index_select(-2, face) for face in self.pairs)
        return (first * second).sum(-1) * self.sign

    def forward(self, vertices: Tensor) -> Tensor:
        """Sum over pairs, mean over the batch.

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
    """Pairs of faces that share an edge, [2, P], and 1 where their orientations agree, else -1."""
    tail, head = faces.reshape(-1), faces.roll(-1, dims=1).reshape(-1)
    face = torch.arange(len(faces), device=faces.device).repeat_interleave(3)
    real = tail != head
    tail, head, face = tail[real], head[real], face[real]
    key = torch.minimum(tail, head) * max(count, 1) + torch.maximum(tail, head)
    key, order = torch.sort(key, stable=True)
    ahead, face = (tail < head)[order], face[order]
    pairs, signs = [], []
    # Half-edges of one edge are neighbours now: all pairs at distance 1, then 2, ... in the list.
    for gap in range(1, len(key)):
        same = key[gap:] == key[:-gap]
        if not bool(same.any()):
            break
        same &= face[gap:] != face[:-gap]
        pairs.append(torch.stack((face[:-gap][same], face[gap:][same])))
        # Neighbours of one orientation run through their edge in opposite directions.
        signs.append(2 * (ahead[:-gap][same] != ahead[gap:][same]).long() - 1)
    if not pairs:
        return faces.new_zeros(2, 0), faces.new_zeros(0)
    return torch.cat(pairs, 1), torch.cat(signs)


def _sum_mean(values: Tensor, item_dims: int) -> Tensor:
    """Sum over the last `item_dims` dimensions, mean over the batch if there is one."""
    return _mean(values.sum(tuple(range(-item_dims, 0))))


_Operator = TypeVar("_Operator", LaplacianLoss, FlattenLoss)
# Operators of meshes in use, by the identity of their face tensor, which is never changed.
_operators: dict[type, WeakIdKeyDictionary] = {}


def _operator(kind: Callable[[Tensor, int], _Operator], mesh: Mesh) -> _Operator:
    """The packed operator of a mesh, built on first use and kept as long as its faces live."""
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh must be a Mesh, got {type(mesh).__name__}")
    known = _operators.setdefault(kind, WeakIdKeyDictionary())  # pyright: ignore
    if mesh.faces not in known:
        known[mesh.faces] = kind(mesh.faces.clone(), sum(mesh.vertex_counts))
    return known[mesh.faces]


def laplacian_loss(mesh: Mesh) -> Tensor:
    """`LaplacianLoss` of a mesh or a packed batch: sum over each mesh, mean over the batch."""
    return _operator(LaplacianLoss, mesh)(mesh.vertices) / len(mesh)


def flatten_loss(mesh: Mesh) -> Tensor:
    """`FlattenLoss` of a mesh or a packed batch: sum over each mesh, mean over the batch."""
    return _operator(FlattenLoss, mesh)(mesh.vertices) / len(mesh)


def normal_consistency_loss(mesh: Mesh) -> Tensor:
    """1 - cos between the normals of neighbouring faces, mean over the inner edges.

    Unlike `flatten_loss` it does not vanish to fourth order where the surface is nearly flat, and
    does not depend on the number of faces.

    Args:
        mesh: One mesh, or a packed batch whose meshes count alike.

    Returns:
        Scalar in [0, 2]; 0 without inner edges.

    Source: PyTorch3D, `mesh_normal_consistency`.
    """
    operator = _operator(FlattenLoss, mesh)
    return _mean_per_mesh(1 - operator.cosines(mesh.vertices), operator.pairs[0], mesh.face_offsets)


def edge_length_loss(mesh: Mesh, target: float | None = None) -> Tensor:
    """(length - target)^2, mean over the edges.

    Args:
        mesh: One mesh, or a packed batch whose meshes count alike.
        target: World units, >= 0; 0 shrinks all edges (Pixel2Mesh, Wang et al., 2018). By default
            the mean edge length of each mesh: the loss is then the variance of the lengths, which
            evens them out and does not shrink the mesh.

    Returns:
        Scalar >= 0, world units squared; 0 without edges. Edges of length 0 have gradient 0.

    Raises:
        ValueError: If the target is negative or not finite.
    """
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh must be a Mesh, got {type(mesh).__name__}")
    first, second = mesh.edges.unbind(1)
    ends = mesh.vertices.index_select(0, first) - mesh.vertices.index_select(0, second)
    length = torch.linalg.vector_norm(ends, dim=-1)
    if target is not None:
        if check_number("target", target) < 0:
            raise ValueError(f"target must be >= 0, got {target!r}")
        wanted: float | Tensor = target
    else:
        which, count = _members(first, mesh.vertex_offsets, length)
        total = length.new_zeros(len(mesh)).index_add(0, which, length)
        wanted = (total / count).index_select(0, which)
    return _mean_per_mesh((length - wanted).square(), first, mesh.vertex_offsets)


def _members(item: Tensor, offsets: tuple[int, ...], like: Tensor) -> tuple[Tensor, Tensor]:
    """The mesh of every packed item, and the number of items per mesh, at least 1."""
    start = torch.tensor(offsets, device=item.device)
    which = torch.bucketize(item.contiguous(), start, right=True) - 1
    return which, torch.bincount(which, minlength=len(offsets)).clamp(min=1).to(like.dtype)


def _mean_per_mesh(values: Tensor, item: Tensor, offsets: tuple[int, ...]) -> Tensor:
    """Mean over each mesh, then over the meshes, of values that belong to packed items."""
    which, count = _members(item, offsets, values)
    return (values.new_zeros(len(offsets)).index_add(0, which, values) / count).mean()


# ---------------------------------------------------------------------------------------------
# shapes


def chamfer_distance(first: Tensor, second: Tensor, *, squared: bool = False) -> Tensor:
    """Mean distance to the nearest point of the other set, averaged over both directions.

    Args:
        first: [N, 3] or [B, N, 3], world.
        second: [M, 3] or [B, M, 3]; one set broadcasts to B.
        squared: Squared distances instead (twice this is what PyTorch3D returns).

    Returns:
        Scalar >= 0, world units (squared): (mean_i min_j |a_i - b_j| + mean_j min_i |b_j - a_i|) /
        2, mean over the batch. Differentiable in both sets for the neighbours found; points that
        coincide have gradient 0. Memory O(N + M): a k-d tree on the CPU, chunks on a GPU.

    Raises:
        TypeError: If dtypes are wrong or differ.
        ValueError: If a set is empty, not finite, or shapes or devices do not fit.
    """
    for name, points in (("first", first), ("second", second)):
        check_float(name, points)
        sizes = check_shape(name, points, "[N, 3] or [B, N, 3]")
        if sizes["N"] == 0 or sizes.get("B") == 0:
            raise ValueError(f"{name} must hold at least one point, got {shape_text(points.shape)}")
        check_finite(name, points)
    check_like("second", second, "first", first)
    a, b = (x[None] if x.ndim == 2 else x for x in (first, second))
    batch = _common_batch(len(a), len(b), "point sets")
    total = a.new_zeros(())
    for one, other in zip(a.expand(batch, -1, -1), b.expand(batch, -1, -1), strict=True):
        to_other, to_one = _nearest(one, other)
        for x, y, index in ((one, other, to_other), (other, one, to_one)):
            gap = x - y.index_select(0, index)
            distance = gap.square().sum(-1) if squared else torch.linalg.vector_norm(gap, dim=-1)
            total = total + distance.mean() / 2
    return total / batch


def _common_batch(first: int, second: int, what: str) -> int:
    """The size that two batches broadcast to."""
    if 1 not in (first, second) and first != second:
        raise ValueError(f"batches must be equal or 1, got {first} and {second} {what}")
    return max(first, second)


def _nearest(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Index of the nearest point of the other set for [N, 3] and [M, 3]: [N], [M]."""
    a, b = a.detach(), b.detach()
    if a.device.type != "cpu":
        return _nearest_in_chunks(a, b)
    from scipy.spatial import KDTree  # slow to import, needed only here

    x, y = a.double().numpy(), b.double().numpy()
    there, back = KDTree(y).query(x)[1], KDTree(x).query(y)[1]
    return torch.as_tensor(there), torch.as_tensor(back)


def _nearest_in_chunks(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """As `_nearest`, by brute force on any device, `_CHUNK` distances at a time."""
    found = []
    for x, y in ((a, b), (b, a)):
        rows = max(1, _CHUNK // len(y))
        # The matrix-product form of cdist cancels, and would pick wrong neighbours.
        exact = "donot_use_mm_for_euclid_dist"
        parts = [torch.cdist(part, y, compute_mode=exact).argmin(1) for part in x.split(rows)]
        found.append(torch.cat(parts))
    return found[0], found[1]


def chamfer(first: Mesh, second: Mesh, n: int = 10_000, seed: int = 0) -> Tensor:
    """`chamfer_distance` of points drawn evenly from the surfaces of two meshes.

    Meshes with an `origin` are compared where they are in the world.

    The draws are independent, so the result has a floor, about half of the square root of area / n,
    also for two equal meshes.

    Args:
        first: One mesh or a batch.
        second: One mesh or a batch; one broadcasts to the other.
        n: Points per mesh.
        seed: Of the draw; the same seed gives the same result.

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
    shift = second.origin - first.origin
    if shift.any():  # in the coordinates of the first, without a loss of digits
        others = (others.double() + shift[:, None].to(others.device)).to(others.dtype)
    return chamfer_distance(points, others)
