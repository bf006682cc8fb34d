"""Meshes scaled, moved, turned and normalised: packed vertices before and after."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gendr._runtime.checks import (
    check_finite,
    check_float,
    check_like,
    check_number,
    check_shape,
)
from gendr._runtime.tracing import matmul
from gendr._runtime.vectors import length
from gendr.mesh.measures import boxes
from gendr.mesh.topology import per_vertex


def checked(name: str, values: Tensor, shape: str, vertices: Tensor, batch: int) -> Tensor:
    """A finite tensor that moves vertices.

    Raises:
        TypeError: for what is no float tensor, or has another dtype than the vertices.
        ValueError: for another shape or device, NaN or inf.
    """
    check_like(name, check_float(name, values), "vertices", vertices)
    check_shape(name, values, shape, B=batch)
    return check_finite(name, values)


def checked_origin(origin: Tensor, batch: int) -> Tensor:
    """Where the coordinates of `batch` meshes count from: float64 [B, 3] on the CPU.

    Raises:
        TypeError: for what is no float tensor.
        ValueError: for another shape than [3] or [B, 3], NaN or inf.
    """
    check_shape("origin", check_float("origin", origin), "[3] or [B, 3]", B=batch)
    check_finite("origin", origin)
    return origin.detach().to("cpu", torch.float64).expand(batch, 3)


def scaled(vertices: Tensor, factor: float | Tensor, counts: Sequence[int]) -> Tensor:
    """Every vertex times a factor > 0, a number or one per mesh [B].

    Raises:
        TypeError: for a factor that is neither.
        ValueError: for a factor that is not positive, or another shape.
    """
    if not isinstance(factor, Tensor):
        return vertices * check_number("factor", factor, above=0)
    checked("factor", factor, "[] or [B]", vertices, len(counts))
    if not bool((factor > 0).all()):
        raise ValueError(f"factor must be > 0, got {factor.min().item()}")
    return vertices * per_vertex(factor.expand(len(counts))[:, None], counts)


def translated(vertices: Tensor, offset: Tensor, counts: Sequence[int]) -> Tensor:
    """Every vertex moved by [3], or by the offset of its mesh, [B, 3].

    Raises:
        TypeError: for what is no float tensor.
        ValueError: for another shape, NaN or inf.
    """
    checked("offset", offset, "[3] or [B, 3]", vertices, len(counts))
    return vertices + per_vertex(offset.expand(len(counts), 3), counts)


def transformed(vertices: Tensor, matrix: Tensor, counts: Sequence[int]) -> Tensor:
    """Every vertex as a column p turned into M·p.

    Args:
        vertices: [ΣV, 3].
        matrix: [3, 3], [4, 4] (affine: last row 0 0 0 1) or one per mesh, [B, 3, 3], [B, 4, 4].
        counts: Vertices per mesh.

    Raises:
        TypeError: for what is no float tensor.
        ValueError: for another shape, NaN, inf, or a last row that is not 0 0 0 1.
    """
    batch = len(counts)
    shapes = "[3, 3] or [4, 4] or [B, 3, 3] or [B, 4, 4]"
    checked("matrix", matrix, shapes, vertices, batch)
    size = matrix.shape[-1]
    if size == 4:
        last = matrix.new_tensor([0.0, 0.0, 0.0, 1.0])
        if not bool((matrix[..., 3, :] == last).all()):
            raise ValueError("matrix must be affine, its last row 0 0 0 1; divide by w yourself")
    matrix = per_vertex(matrix.expand(batch, size, size), counts)
    moved = matmul(matrix[:, :3, :3], vertices[:, :, None]).squeeze(-1)
    return moved + matrix[:, :3, 3] if size == 4 else moved


def normalized(vertices: Tensor, counts: Sequence[int], fit: str) -> Tensor:
    """Every mesh with the centre of its bounding box at 0, and of unit size.

    Args:
        vertices: [ΣV, 3].
        counts: Vertices per mesh.
        fit: "sphere" or "cube", see `gendr.Mesh.normalized`.

    Raises:
        ValueError: for a mesh of no extent.
    """
    low, high = boxes(vertices, counts)
    centred = vertices - per_vertex((low + high) / 2, counts)
    if fit == "cube":
        size = (high - low).amax(-1)
    else:
        size = torch.stack([length(p).amax() for p in centred.split(list(counts))])
    if not bool((size > 0).all()):
        point = int((size <= 0).nonzero()[0])
        raise ValueError(f"mesh {point} has no extent, all its vertices coincide")
    return centred / per_vertex(size[:, None], counts)
