"""Pictures that a viewer asks for: from a camera of its own, or of one of the photos."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gendr.jobs.defaults import SHAPE
from gendr.mesh import Camera, Mesh
from gendr.photos import visual
from gendr.photos.splatting import Cloud, Splats
from gendr.photos.splatting.gaussians.conversion import covariances
from gendr.photos.splatting.harmonics import flat_color
from gendr.photos.splatting.pictures import pixels, rendered
from gendr.photos.views import Views
from gendr.photos.visual import Pixels
from gendr.rendering import Renderer

CUTOFF = 1e-3
COMPARISONS = ("photo", "mask", "fit", "difference")


@dataclass(frozen=True)
class Soft:
    """A renderer: its distribution, its T-conorm, and its scale in pixels."""

    dist: str = SHAPE[0]
    tconorm: str = SHAPE[1]
    pixels: float = 1.0

    def options(self) -> dict[str, object]:
        """Arguments of `Renderer`."""
        text = f"{self.pixels:g}px"
        return {"dist": self.dist, "tconorm": self.tconorm, "scale": text, "cutoff": CUTOFF}


def eye(
    wxyz: NDArray[np.float64], position: NDArray[np.float64], fov: float, size: tuple[int, int]
) -> Camera:
    """The camera of a viewer.

    Args:
        wxyz: [4], the unit quaternion that turns axes of the camera (x right, y down, z ahead) to
            those of the world.
        position: [3], the eye.
        fov: the angle from top to bottom, in radians.
        size: (H, W) of the picture.
    """
    from scipy.spatial.transform import Rotation

    turn = Rotation.from_quat(np.roll(wxyz, -1)).as_matrix().T
    focal = size[0] / 2 / np.tan(fov / 2)
    k = np.array([[focal, 0, size[1] / 2], [0, focal, size[0] / 2], [0, 0, 1]])
    return Camera.from_opencv(turn, -turn @ np.asarray(position, dtype=float), k, size).to(
        torch.float32
    )


def soft(mesh: Mesh, camera: Camera, size: tuple[int, int], how: Soft) -> Pixels:
    """A mesh by a soft renderer on white, [H, W, 3]."""
    return visual.composited(*visual.render_views(mesh, camera, size, how.options()))[0]


def splatted(splats: Splats, camera: Camera, size: tuple[int, int]) -> Pixels:
    """Splats over their background, [H, W, 3]."""
    return pixels(rendered(splats, camera, size)[0])


def drawable(cloud: Cloud) -> tuple[NDArray[np.float32], ...]:
    """Gaussians as viser takes them: means, covariances, mean colours and opacities [N, 1]."""
    assert cloud.parts is not None
    harmonics, opacity, sizes, turns = cloud.parts
    colors = flat_color(torch.from_numpy(harmonics[:, :1])).numpy()
    points = cloud.points.astype(np.float32)
    return points, covariances(sizes, turns), colors, opacity[:, None]


def silhouette_gradient(mesh: Mesh, camera: Camera, size: tuple[int, int], how: Soft) -> Tensor:
    """Colours [V, 3] of vertices by how much alpha, summed over a picture, changes as they move.

    White does not change it; the most orange one in a hundred changes it most.
    """
    vertices = mesh.vertices.detach().clone().requires_grad_()
    near, far = visual.depths(mesh, camera)
    renderer = Renderer(size, near=near, far=far, **how.options())  # pyright: ignore[reportArgumentType]
    (slope,) = torch.autograd.grad(
        renderer(Mesh(vertices, mesh.faces), camera).alpha.sum(), vertices
    )
    length = slope.norm(dim=-1)
    part = (length / length.quantile(0.99).clamp(min=1e-12)).clamp(max=1).sqrt()[:, None]
    low, high = (torch.tensor(c, dtype=part.dtype) / 255 for c in (visual.PAPER, visual.FIT))
    return low + part * (high - low)


def compared(views: Views, index: int, mesh: Mesh | None, kind: str) -> Pixels:
    """One of the photos, its mask, the mesh from there, or how far their outlines differ.

    Args:
        views: photos and their cameras.
        index: of one of them.
        mesh: for the latter two.
        kind: of `COMPARISONS`.
    """
    mask, camera, size = views.masks[index], views.camera[index], views.image_size
    place = camera.region(size)[0]
    if kind == "photo" and views.rgb is not None:
        return pixels(views.rgb[index] + 1 - mask)[place]
    if kind in ("photo", "mask") or mesh is None:
        return pixels((1 - mask).expand(3, *size))[place]
    if kind == "fit":
        return visual.composited(*visual.render_views(mesh, camera, size))[0][place]
    found = visual.silhouettes(mesh, camera, size)[0]
    return visual.difference(mask.double().numpy(), found.double().numpy())[place]


def letterboxed(picture: Pixels, aspect: float) -> Pixels:
    """A picture with white at its sides, so that it is as wide as `aspect` times its height."""
    height, width = picture.shape[:2]
    wide, tall = max(width, round(height * aspect)), max(height, round(width / aspect))
    if wide > width:
        tall = height
    page = np.full((tall, wide, 3), 255, np.uint8)
    top, left = (tall - height) // 2, (wide - width) // 2
    page[top : top + height, left : left + width] = picture
    return page
