"""What the tests of reconstruction share."""

import numpy as np
import pytest
import torch

from gendr import Renderer
from gendr.mesh import icosphere
from lab.reconstruction import camera_of_view
from lab.reconstruction.renderings import VIEWS, published_images, published_voxels

SIDE = 16
AXIS = torch.linspace(-0.5, 0.5, 32)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Ellipsoids of two classes, as the files of the benchmark hold them."""
    out = tmp_path_factory.mktemp("ellipsoids")
    cameras = camera_of_view(torch.arange(VIEWS))
    renderer = Renderer(SIDE, "heaviside", "max")
    grid = torch.stack(torch.meshgrid(AXIS, AXIS, AXIS, indexing="ij"), -1)
    for name, shapes in {
        "flat": [(0.45, 0.15, 0.3), (0.4, 0.1, 0.4), (0.3, 0.12, 0.45)],
        "tall": [(0.15, 0.45, 0.15), (0.1, 0.4, 0.2)],
    }.items():
        images, voxels = [], []
        for half in map(torch.tensor, shapes):
            ball = icosphere(3)
            alpha = renderer(ball.with_vertices(ball.vertices * half), cameras).alpha
            images.append(alpha[:, None].expand(-1, 4, -1, -1))
            voxels.append((grid / half).norm(dim=-1) < 1)
        pixels = published_images(torch.cat(images) * 255).to(torch.uint8).numpy()
        np.savez(out / f"{name}_train_images.npz", pixels)
        cells = published_voxels(torch.stack(voxels)).numpy()
        np.savez(out / f"{name}_train_voxels.npz", cells.astype(np.uint8))
    return out
