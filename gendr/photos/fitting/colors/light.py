"""Light from all directions: nine spherical harmonics of the normal, times albedo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast, final

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr._common.checks import check_choice, check_float, check_shape
from gendr.mesh import Camera, Mesh
from gendr.photos import visual
from gendr.photos.fitting.visibility import visible_faces

__all__ = ["HarmonicLight", "harmonics"]

FRAMES = ("world", "camera")
# What is lit less than this would get any albedo.
LEAST = 0.1


def harmonics(normals: Tensor) -> Tensor:
    """The nine real spherical harmonics of degrees 0, 1 and 2 of unit vectors [..., 3]: [..., 9].

    Source: Ramamoorthi, Hanrahan, An Efficient Representation for Irradiance Environment Maps
    (2001), equation 3.
    """
    x, y, z = normals.unbind(-1)
    return torch.stack(
        [
            torch.full_like(x, 0.282095),
            0.488603 * y, 0.488603 * z, 0.488603 * x,
            1.092548 * x * y, 1.092548 * y * z, 0.315392 * (3 * z * z - 1),
            1.092548 * x * z, 0.546274 * (x * x - y * y),
        ],
        -1,
    )  # fmt: skip


@final
@dataclass(frozen=True, eq=False)
class HarmonicLight:
    """How bright a surface is by its normal: what its albedo is to be multiplied by.

    Attributes:
        coefficients: [9, 3], of `harmonics`, for each channel.
        frame: of the normals: "world", or "camera" (right, up, ahead) for light that moves with the
            camera, as where an object turns in front of it.

    Raises:
        ValueError: for another shape or frame.
    """

    coefficients: Tensor
    frame: str = "camera"

    def __post_init__(self) -> None:
        check_shape("coefficients", check_float("coefficients", self.coefficients), "[9, 3]")
        check_choice("frame", self.frame, FRAMES)

    def factors(self, normals: Tensor, camera: Camera) -> Tensor:
        """[N, 3], the factors of albedo of unit normals [N, 3], world, as one camera sees them."""
        own = normals @ camera.rotation[0].T if self.frame == "camera" else normals
        return (harmonics(own) @ self.coefficients).clamp(min=LEAST)

    def vertex_colors(self, mesh: Mesh, camera: Camera) -> Tensor:
        """[B, V, 3] in [0, 1], the albedo of a mesh in this light, as B cameras see it."""
        seen = [self.factors(mesh.vertex_normals, camera[i]) for i in range(len(camera))]
        return (cast("Tensor", mesh.vertex_colors) * torch.stack(seen)).clamp(max=1)

    def views(
        self, mesh: Mesh, camera: Camera, size: int | tuple[int, int]
    ) -> tuple[Tensor, Tensor]:
        """Views of a mesh in this light, over black: rgb [B, 3, H, W] and alpha [B, H, W].

        Args:
            mesh: one mesh, whose colours are albedo.
            camera: B cameras.
            size: pixels of a side, or (H, W).
        """
        rgb, alpha = visual.render_views(mesh, camera, size, {"lighting": "none"})
        height, width = rgb.shape[2:]
        fine = visual.OVERSAMPLING
        normals = mesh.vertex_normals[mesh.faces]
        for i in range(len(camera)):
            planes = visual.depths(mesh, camera[i])
            face, weights, _ = visible_faces(
                mesh.vertices, camera[i], (height * fine, width * fine), planes, mesh.faces
            )
            shown = face >= 0
            factor = rgb.new_zeros(*face.shape, 3)
            own = (normals[face[shown]] * weights[:, shown].T[..., None]).sum(1)
            factor[shown] = self.factors(F.normalize(own, dim=-1), camera[i])
            mean = F.avg_pool2d(factor.permute(2, 0, 1)[None], fine)[0]
            rgb[i] *= mean / alpha[i].clamp(min=1e-6)
        return rgb.clamp(0, 1), alpha
