"""What carries the colours of a mesh: the texels of a texture, or its vertices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, final

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr.mesh import Camera, Mesh
from gendr.photos.fitting.visibility import VisibilityBuffer, visible_faces

__all__ = ["Texels", "TextureTarget", "Vertices"]


@final
@dataclass(frozen=True, eq=False)
class Vertices:
    """The vertices of a mesh.

    Attributes:
        MIXED: M, how many points `mixing` mixes.
        points: [K, 3], world.
        normals: [K, 3], unit vectors.
        edges: int64, or int32 of texels, [E, 2], neighbours.
    """

    MIXED: ClassVar[int] = 3
    mesh: Mesh
    points: Tensor
    normals: Tensor
    edges: Tensor

    @staticmethod
    def of(mesh: Mesh) -> Vertices:
        """The vertices of one mesh."""
        return Vertices(mesh, mesh.vertices, mesh.vertex_normals, mesh.edges)

    def mixing(self, visibility: VisibilityBuffer) -> tuple[Tensor, Tensor]:
        """Which points the renderer mixes for each subpixel of a view, and with which weights.

        Here the corners of the face.

        Returns:
            int64, or int32 of texels, [N, M]; and [N, M], whose rows sum to 1.
        """
        return self.mesh.faces[visibility.face], visibility.weights

    def painted(self, colors: Tensor) -> Mesh:
        """The mesh with vertex colours, without what was there before."""
        plain = self.mesh.with_uvs(None).with_face_colors(None)
        return plain.with_vertex_colors(colors.to(self.mesh.vertices))


@final
@dataclass(frozen=True, eq=False)
class Texels:
    """The texels of a square texture whose centres lie in a face.

    Attributes:
        MIXED, points, normals, edges: as of `Vertices`.
        size: Side of the texture.
        place: int64 [K], their places in it, row by row from the top.
        nearest: int32 [size * size], for every texel the number of the nearest of these.
    """

    MIXED: ClassVar[int] = 4
    mesh: Mesh
    points: Tensor
    normals: Tensor
    edges: Tensor
    size: int
    place: Tensor
    nearest: Tensor

    @staticmethod
    def of(mesh: Mesh, size: int) -> Texels:
        """The texels of a mesh with UVs in [0, 1], found by rendering its faces into the texture.

        Raises:
            ValueError: If no centre of a texel lies in a face.
        """
        from scipy.ndimage import distance_transform_edt

        uvs = mesh.corner_uvs
        assert uvs is not None  # callers check it
        sheet = torch.cat([2 * uvs - 1, -torch.ones_like(uvs[..., :1])], -1)
        camera = Camera(focal=1.0, orthographic=True).to(mesh.device, mesh.dtype)
        face, weights, _ = visible_faces(sheet, camera, size, (0.5, 2.0))
        face, weights = face.flatten(), weights.flatten(1).T
        place = (face >= 0).nonzero()[:, 0]
        if len(place) == 0:
            raise ValueError(f"no texel of {size} x {size} lies in a face; take a larger texture")
        corners, weights = mesh.faces[face[place]], weights[place]
        number = torch.full((size * size,), -1, dtype=torch.int32, device=mesh.device)
        number[place] = torch.arange(len(place), dtype=torch.int32, device=mesh.device)
        grid = number.reshape(size, size)
        pairs = [
            torch.stack([one.flatten(), other.flatten()], 1)
            for one, other in ((grid[:, :-1], grid[:, 1:]), (grid[:-1], grid[1:]))
        ]
        edges = torch.cat(pairs)
        where: Any = distance_transform_edt(
            (grid < 0).cpu().numpy(), return_distances=False, return_indices=True
        )
        near = grid[tuple(torch.from_numpy(axis).long().to(mesh.device) for axis in where)]
        return Texels(
            mesh,
            (mesh.vertices[corners] * weights[..., None]).sum(1),
            F.normalize((mesh.vertex_normals[corners] * weights[..., None]).sum(1), dim=-1),
            edges[(edges >= 0).all(1)],
            size,
            place,
            near.flatten(),
        )

    def mixing(self, visibility: VisibilityBuffer) -> tuple[Tensor, Tensor]:
        """The four texels around a place in the texture, as the renderer looks them up.

        A texel in no face counts as the nearest that is in one, of which it will be a copy.
        """
        uvs = self.mesh.corner_uvs
        assert uvs is not None  # as in `of`
        uv = (uvs[visibility.face] * visibility.weights[..., None]).sum(1)
        x, y = uv[:, 0] * self.size - 0.5, (1 - uv[:, 1]) * self.size - 0.5
        left, top = x.floor(), y.floor()
        right, down = x - left, y - top
        columns, weights = [], []
        for dy, along in ((0, 1 - down), (1, down)):
            for dx, across in ((0, 1 - right), (1, right)):
                row, column = (top.long() + dy) % self.size, (left.long() + dx) % self.size
                columns.append(self.nearest[row * self.size + column])
                weights.append(along * across)
        return torch.stack(columns, 1), torch.stack(weights, 1)

    def painted(self, colors: Tensor) -> Mesh:
        """The mesh with a texture, all of whose texels are filled, without other colours."""
        texture = colors[self.nearest].reshape(self.size, self.size, 3)
        plain = self.mesh.with_vertex_colors(None).with_face_colors(None)
        return plain.with_texture(texture.to(self.mesh.vertices))


# Points of a surface that have colours of their own.
TextureTarget: TypeAlias = "Vertices | Texels"
