"""The plain parts of one mesh, from which a `Mesh` is made and into which it is taken apart."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class MeshParts:
    """The arguments of `Mesh` for one mesh, and its origin; readers and writers of files use these.

    They are not checked here, since `Mesh` does that. Parts that come from a `Mesh` are valid.
    """

    vertices: Tensor  # [V, 3]
    faces: Tensor  # [F, 3]
    uvs: Tensor | None = None  # [T, 2]
    face_uvs: Tensor | None = None  # [F, 3]
    texture: Tensor | None = None  # [Ht, Wt, 3]
    vertex_colors: Tensor | None = None  # [V, 3]
    face_colors: Tensor | None = None  # [F, 3]
    face_opacity: Tensor | None = None  # [F], and the next two
    face_scale: Tensor | None = None
    face_shape: Tensor | None = None
    origin: Tensor | None = None  # float64 [3]; None is 0
    unlit: bool = False

    @property
    def has_origin(self) -> bool:
        """Whether the coordinates are relative to an origin other than 0."""
        return self.origin is not None and bool(self.origin.any())

    def world_vertices(self) -> Tensor:
        """Positions in the world of all vertices: float64 [V, 3], always a new tensor."""
        return self.vertices.double() + (0.0 if self.origin is None else self.origin)

    def with_corner_colors(self) -> MeshParts:
        """The same surface with vertex colours in place of face colours.

        No two faces share a vertex then; `merge` joins those of equal position and colour again.
        """
        if self.face_colors is None:
            return self
        corners = self.faces.reshape(-1)
        colors = self.face_colors[:, None].expand(-1, 3, -1).reshape(-1, 3)
        if self.vertex_colors is not None:
            colors = self.vertex_colors[corners] * colors
        return replace(
            self,
            vertices=self.vertices[corners],
            faces=torch.arange(len(corners), device=corners.device).reshape(-1, 3),
            vertex_colors=colors,
            face_colors=None,
        )

    def with_vertex_uvs(self) -> MeshParts:
        """The same surface with one UV for each vertex: `face_uvs` are the faces.

        Vertices are repeated along the seams, in order, so that `merge` can undo it.
        """
        if self.uvs is None or self.face_uvs is None:
            return self
        count = len(self.uvs)
        faces, index = self.faces.numpy(), self.face_uvs.numpy()
        lonely = np.setdiff1d(np.arange(len(self.vertices)), faces) * count
        pairs = np.concatenate(((faces * count + index).reshape(-1), lonely))
        unique, inverse = np.unique(pairs, return_inverse=True)
        vertex, uv = (torch.from_numpy(part) for part in np.divmod(unique, count))
        corners = torch.from_numpy(inverse[: faces.size].reshape(-1, 3))
        return replace(
            self,
            vertices=self.vertices[vertex],
            faces=corners,
            uvs=self.uvs[uv],
            face_uvs=corners,
            vertex_colors=None if self.vertex_colors is None else self.vertex_colors[vertex],
        )
