"""The network, the losses and the renderer together learn eight shapes by heart."""

import numpy as np
import pytest
import torch

from gendr.mesh import cube, icosphere
from lab.reconstruction import ShapeNetRenderings, Training, TrainingSettings, evaluate, making
from lab.reconstruction.renderings import published_images, published_voxels

STEPS, WANTED = 200, 0.75


def solids():
    """Boxes, ellipsoids, a drop and a polyhedron."""
    ball, box = icosphere(3), cube()

    def stretched(mesh, *axes):
        return mesh.with_vertices(mesh.vertices * torch.tensor(axes))

    width = (1 - ball.vertices[:, 1:2]) / 2 + 0.05
    drop = ball.with_vertices(ball.vertices * torch.cat([width, torch.ones_like(width), width], 1))
    return [
        ball, box, stretched(ball, 1.0, 0.4, 0.4), stretched(ball, 0.5, 0.25, 1.0),
        stretched(box, 0.4, 1.0, 0.4), stretched(box, 1.0, 0.3, 0.6), drop, icosphere(0),
    ]  # fmt: skip


def fitted(mesh):
    """The mesh in the middle, with a box of diagonal 1, as `gendr dataset` places it."""
    low, high = (end[0] for end in mesh.bounding_box())
    return mesh.with_vertices((mesh.vertices - (low + high) / 2) / (high - low).norm())


@pytest.mark.every
@pytest.mark.slow
def test_eight_shapes_are_learnt_by_heart(tmp_path, monkeypatch):
    monkeypatch.setattr(making, "SAMPLES", 1)
    images, voxels = zip(*(making.rendered(fitted(solid)) for solid in solids()), strict=True)
    np.savez(tmp_path / "solid_train_images.npz", published_images(torch.cat(images)).numpy())
    cells = published_voxels(torch.stack(voxels)).numpy().astype(np.uint8)
    np.savez(tmp_path / "solid_train_voxels.npz", cells)
    data = ShapeNetRenderings(tmp_path)
    settings = TrainingSettings(steps=STEPS, batch=8, learning_rate=3e-4, scale="1px")
    training = Training(data, settings)
    views = (0, 9, 17)
    (before,) = evaluate(training.model, data, views=views, progress=False)
    while training.step < STEPS:
        training.advance()
    (after,) = evaluate(training.model, data, views=views, progress=False)
    assert before.shapes == after.shapes == 8
    assert after.iou >= WANTED
    assert before.iou < WANTED  # what it begins with is not good enough
