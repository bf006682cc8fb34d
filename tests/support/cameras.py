"""Cameras for tests and benchmarks of poses."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from gendr.mesh import Camera, Mesh


def random_camera(
    mesh: Mesh,
    generator: torch.Generator,
    *,
    fov: float = 30.0,
    apart: float = 0.2,
    principal: float | Sequence[float] = 0.0,
) -> Camera:
    """A camera turned anyhow, all rotations alike, that sees a mesh.

    Args:
        mesh: fills 45 to 85 % of the shorter side, by the sphere around the centre of its box.
        generator: of the draws.
        fov: of the camera, in degrees.
        apart: the object lies up to half of that, in NDC, beside the middle of the image.
        principal: of the camera.
    """
    q = torch.linalg.qr(torch.randn(3, 3, generator=generator))[0]
    rotation = torch.diag(torch.tensor([1.0, 1.0, -1.0])) @ (q * torch.linalg.det(q).sign())
    low, high = mesh.bounding_box()
    centre = (low + high)[0] / 2
    radius = float((mesh.vertices - centre).norm(dim=1).max())
    focal = 1 / math.tan(math.radians(fov / 2))
    depth = focal * radius / (0.45 + 0.4 * float(torch.rand(1, generator=generator)))
    aside = (torch.rand(2, generator=generator) - 0.5) * apart * depth / focal
    at = torch.cat([aside, torch.tensor([depth])])
    return Camera(rotation, at - rotation @ centre, fov=fov, principal=principal)
