"""How large meshes are: their bounding boxes and volumes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gendr.mesh.topology import owners


def boxes(vertices: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Lowest and highest coordinates of the vertices of each mesh: [B, 3] and [B, 3].

    Raises:
        ValueError: for a mesh without vertices.
    """
    if 0 in counts:
        empty = counts.index(0)
        raise ValueError(f"mesh {empty} has no vertices, so it has no bounding box")
    parts = vertices.split(list(counts))
    return torch.stack([p.amin(0) for p in parts]), torch.stack([p.amax(0) for p in parts])


def volumes(face_vertices: Tensor, counts: Sequence[int]) -> Tensor:
    """Signed volume enclosed by each mesh: [B], > 0 if its faces [ΣF, 3, 3] look outwards.

    Args:
        face_vertices: Of all faces, packed.
        counts: Faces per mesh.
    """
    a, b, c = face_vertices.unbind(1)
    each = (a * torch.linalg.cross(b, c)).sum(-1) / 6
    return each.new_zeros(len(counts)).index_add(0, owners(counts, each.device), each)
