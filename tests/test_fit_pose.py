import math

import pytest
import torch

from gendr import Camera, Mesh, fit_pose, visual
from gendr.fitting import PoseSettings
from gendr.mesh import cube, example, rotation_angle_between
from gendr.testing.cameras import random_camera

FAST = {"finalists": 4}


def chair():
    mesh = example("chair").normalized()
    return Mesh(mesh.vertices, mesh.faces)


def camera_of(mesh, seed, apart=0.2, **options):
    generator = torch.Generator().manual_seed(seed)
    return random_camera(mesh, generator, apart=apart, **options)


def angle(found, camera):
    return float(rotation_angle_between(found.rotation, camera.rotation))


@pytest.mark.parametrize("seed", [1])
def test_camera_of_a_mask(seed):
    mesh = chair()
    camera = camera_of(mesh, seed)
    result = fit_pose(mesh, visual.silhouettes(mesh, camera, 96), **FAST)
    assert angle(result.camera, camera) < 3
    assert float(result.iou) > 0.97
    assert len(result.candidates) == 1
    first = result.candidates[0][0]
    assert first.angle == pytest.approx(0, abs=0.1)
    assert first.iou == pytest.approx(float(result.iou))
    assert len(result.trace[0]) > 3
    assert torch.equal(result.trace[0].rotation[-1], result.camera.rotation[0])


def test_size_and_place_of_the_world_do_not_matter():
    mesh = chair().scaled(250.0).translated(torch.tensor([3000.0, -800.0, 100.0]))
    camera = camera_of(mesh, 2)
    result = fit_pose(mesh, visual.silhouettes(mesh, camera, 96), **FAST)
    assert angle(result.camera, camera) < 3
    assert float((result.camera.eye - camera.eye).norm() / camera.translation.norm()) < 0.06


def test_intrinsics_and_sides_that_differ():
    mesh = chair()
    camera = camera_of(mesh, 3, fov=45.0, principal=[0.15, -0.1])
    mask = visual.silhouettes(mesh, camera, (80, 112))
    result = fit_pose(mesh, mask, intrinsics=camera, **FAST)
    assert angle(result.camera, camera) < 3
    assert torch.equal(result.camera.focal, camera.focal)
    assert torch.equal(result.camera.principal, camera.principal)


def test_unknown_field_of_view():
    mesh = chair()
    camera = camera_of(mesh, 4, fov=40.0, apart=0.0)
    result = fit_pose(mesh, visual.silhouettes(mesh, camera, 96), fov=None, **FAST)
    assert angle(result.camera, camera) < 5
    assert float(result.camera.focal[0, 0]) != pytest.approx(1 / math.tan(math.radians(15)))


def test_poses_that_look_alike_are_given():
    """A cube looks the same after a quarter turn about any of its axes."""
    mesh = cube(1)
    camera = camera_of(mesh, 5, apart=0.0)
    masks = visual.silhouettes(mesh, camera, 96)[0]
    (found,) = fit_pose(
        mesh, masks, **{**FAST, "finalists": 8, "starts": 36}, alike=0.05
    ).candidates
    assert len(found) >= 3
    ious = [each.iou for each in found]
    assert ious == sorted(ious, reverse=True)
    assert all(each.iou > ious[0] - 0.05 for each in found)
    angles = torch.tensor([each.angle for each in found[1:]])
    near = torch.tensor([90.0, 120.0, 180.0])
    assert bool(((angles[:, None] - near).abs().min(1).values < 4).all())


def test_several_masks_and_progress():
    mesh = chair()
    cameras = Camera.batch([camera_of(mesh, 6), camera_of(mesh, 7)])
    masks = torch.cat([visual.silhouettes(mesh, cameras[i], 96) for i in range(2)])
    told = []
    result = fit_pose(mesh, masks, callback=lambda *said: told.append(said), **FAST)
    assert len(result.camera) == 2
    one = fit_pose(mesh, masks[1], **FAST)
    torch.testing.assert_close(one.camera.rotation[0], result.camera.rotation[1])
    parts = [part for _, part in told]
    assert parts == sorted(parts)
    assert parts[-1] == pytest.approx(1.0)
    assert {stage for stage, _ in told} == {"search", "refine", "finish"}


def test_bad_input():
    mesh, mask = chair(), torch.zeros(2, 32, 32)
    mask[0, 8:20, 8:20] = 1
    with pytest.raises(ValueError, match="mask 1 is empty"):
        fit_pose(mesh, mask)
    with pytest.raises(ValueError, match="mask 0 fills its image"):
        fit_pose(mesh, torch.ones(1, 32, 32))
    with pytest.raises(ValueError, match="unknown setting of a pose 'stepz'"):
        fit_pose(mesh, mask[:1], stepz=3)
    with pytest.raises(ValueError, match="intrinsics must be 1 or 1 perspective"):
        fit_pose(mesh, mask[:1], intrinsics=Camera(fov=[30.0, 40.0]))
    with pytest.raises(ValueError, match="fov must be in"):
        fit_pose(mesh, mask[:1], fov=200.0)
    with pytest.raises(ValueError, match="steps must be >= 1"):
        PoseSettings(steps=0)
    with pytest.raises(ValueError, match="no extent"):
        fit_pose(Mesh(torch.zeros(3, 3), torch.tensor([[0, 1, 2]])), mask[:1])
