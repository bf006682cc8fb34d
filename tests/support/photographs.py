"""Photographs of meshes, for samples and benchmarks."""

from __future__ import annotations

import torch
from torch import Tensor

from gendr.mesh import Camera, Lighting, Mesh
from gendr.rendering import Renderer

# A soft lamp above, which stays where it is as the camera goes around.
LAMP = Lighting(ambient=0.65, diffuse=0.35, direction=(0.4, 1.0, 0.5), smooth=True)


@torch.no_grad()
def photographs(
    mesh: Mesh, camera: Camera, size: int, *, finer: int = 4, lighting: Lighting | None = LAMP
) -> tuple[Tensor, Tensor]:
    """Views of a mesh over black, rgb [B, 3, size, size], and alpha [B, size, size], in [0, 1].

    Args:
        mesh: one mesh.
        camera: B cameras.
        size: of the images, in pixels.
        finer: each pixel is the mean of so many times so many of a hard image.
        lighting: None for colours as they are.
    """
    light = "none" if lighting is None else lighting
    renderer = Renderer(size * finer, "heaviside", "max", shading="hard", lighting=light)
    images = []
    for one in camera:
        out = renderer(mesh, one)
        alpha = (out.face_id >= 0).to(out.rgb)[:, None]
        images.append(torch.nn.functional.avg_pool2d(torch.cat([out.rgb, alpha], 1), finer))
    found = torch.cat(images).clamp(0, 1)
    return found[:, :3], found[:, 3]
