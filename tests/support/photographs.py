"""Photographs of meshes, for samples and benchmarks."""

from __future__ import annotations

import io

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from gendr.mesh import Camera, Lighting, Mesh, look_at
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


def plaster(
    mesh: Mesh,
    camera: Camera,
    size: int,
    *,
    turns: bool = False,
    folds: float = 0.15,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Photos of a white figure without a pattern, with soft shadows, before black cloth.

    They have grain, and are JPEGs; the cloth and its folds stand still in all of them, as they do
    where the camera swings around a stage, or the stage turns.

    Args:
        mesh: of unit size about the origin, y up, finely divided: light is that of its vertices.
        camera: B cameras, of which one elevation sees it at all times.
        size: of the images, pixels.
        turns: whether the stage turns, so that the lamps move with the camera.
        folds: the light of the cloth; from 0.15 on it is not plain.
        seed: of grain and cloth.

    Returns:
        rgb [B, 3, size, size] and what the figure covers, [B, size, size].
    """
    source = torch.Generator().manual_seed(seed)
    # A wide lamp above at one side, and what walls give back: (azimuth, elevation, strength).
    lamps = [(a, e, 0.11) for a in (20.0, 35.0, 50.0) for e in (40.0, 55.0, 70.0)]
    lamps += [(a, 15.0, 0.08) for a in range(0, 360, 45)]
    still = torch.stack([_lit(mesh, a, e, s) for a, e, s in lamps]).sum(0)
    cloth = torch.nn.functional.interpolate(
        0.01 + folds * torch.rand(1, 1, 6, 6, generator=source), (size, size), mode="bilinear"
    )[0]
    images, masks = [], []
    for one in camera:
        light = still
        if turns:
            away = one.eye[0]
            turned = float(torch.rad2deg(torch.atan2(away[0], -away[2])))
            light = torch.stack([_lit(mesh, a + turned, e, s) for a, e, s in lamps[::3]]).sum(0)
            light = light * (still.mean() / light.mean())
        white = 0.02 + light[:, None] * torch.tensor([0.86, 0.84, 0.8])
        rgb, alpha = photographs(mesh.with_vertex_colors(white.clamp(0, 1)), one, size,
                                 finer=3, lighting=None)  # fmt: skip
        image = rgb[0] + (1 - alpha[0]) * cloth
        image = image + 0.008 * torch.randn(3, size, size, generator=source)
        images.append(_jpeg(image))
        masks.append(alpha[0])
    return torch.stack(images), torch.stack(masks)


@torch.no_grad()
def _lit(mesh: Mesh, azimuth: float, elevation: float, strength: float) -> Tensor:
    """Lambert's law at vertices [V] that a far lamp sees, by a map of depths."""
    sun = look_at(4.0, elevation, azimuth, 40.0, orthographic=True)
    renderer = Renderer(160, "heaviside", "max", near=0.5, far=9.0, check=False)
    depth = renderer(Mesh(mesh.vertices, mesh.faces), sun).depth
    seen, away = (x[0] for x in sun.project(mesh.vertices))
    grid = seen * torch.tensor([1.0, -1.0])
    near = torch.nn.functional.grid_sample(
        depth[:, None], grid[None, None], mode="nearest", align_corners=False
    )[0, 0, 0]
    towards = sun.eye[0] / sun.eye[0].norm()
    facing = (mesh.vertex_normals @ towards).clamp(min=0)
    return strength * facing * (away <= near + 0.05)


def _jpeg(image: Tensor) -> Tensor:
    """What is left of an image [3, H, W] after JPEG."""
    pixels = (255 * image.clamp(0, 1)).round().byte().permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=92)
    return torch.from_numpy(np.array(Image.open(file))).permute(2, 0, 1) / 255
