"""The visual hull: balls and rings from their masks, thin parts, cut and contradictory masks."""

import math

import numpy as np
import pytest
import torch
import trimesh

from gendr import Camera, Mesh, Renderer
from gendr.mesh import cube, icosphere, look_at
from gendr.photos import visual_hull


def around(count=20, distance=4.0, fov=40.0, orthographic=False):
    """Cameras spread over a sphere."""
    i = torch.arange(count) + 0.5
    elevation = torch.rad2deg(torch.asin((1 - 2 * i / count).clamp(-0.98, 0.98)))
    azimuth = (i * 180 * (3 - math.sqrt(5))) % 360
    camera = look_at(distance, elevation, azimuth, fov=fov)
    if not orthographic:
        return camera
    focal = torch.full_like(camera.focal, 0.7)
    return Camera(camera.rotation, camera.translation, focal, camera.principal, orthographic=True)


def masks_of(mesh, camera, size=64, fine=1):
    """Hard masks, or means over `fine` x `fine` parts of a pixel."""
    renderer = Renderer(fine * size, "heaviside", "max")
    masks = torch.cat([renderer(mesh, camera[i]).alpha for i in range(len(camera))])
    return torch.nn.functional.avg_pool2d(masks[:, None], fine)[:, 0]


@pytest.fixture(scope="module")
def ball():
    """16 cameras, the masks of a ball of radius 1, and its hull with all triangles."""
    camera = around(16)
    masks = masks_of(icosphere(3), camera, 32)
    return camera, masks, visual_hull(camera, masks, edge=None)


@pytest.mark.rotating(2)
@pytest.mark.parametrize("orthographic", [False, True])
def test_hull_of_a_ball(orthographic):
    camera = around(24, orthographic=orthographic)
    found = visual_hull(camera, masks_of(icosphere(4), camera), edge=None).to_trimesh()
    assert found.is_watertight
    assert found.is_winding_consistent
    assert found.euler_number == 2
    assert found.volume == pytest.approx(4 / 3 * math.pi, rel=0.04)
    radii = np.linalg.norm(found.vertices, axis=1)
    pixel = 4 * math.tan(math.radians(20)) / 32 if not orthographic else 1 / (0.7 * 32)
    assert abs(radii - 1).max() < 2 * pixel


@pytest.mark.rotating(3)
@pytest.mark.parametrize(("shape", "euler"), [("torus", 0), ("mug", 0), ("double", -2)])
def test_genus_is_that_of_the_object(shape, euler):
    ring = trimesh.creation.torus(0.7, 0.25, 64, 32)
    parts = [ring]
    if shape == "double":
        parts = [ring.copy().apply_translation([x, 0, 0]) for x in (-0.8, 0.8)]
    elif shape == "mug":
        handle = trimesh.creation.torus(0.35, 0.09, 48, 24)
        handle.apply_transform(trimesh.transformations.rotation_matrix(np.pi / 2, [1, 0, 0]))
        handle.apply_translation([0.55, 0, 0])
        parts = [trimesh.creation.cylinder(0.5, 1.2, sections=48), handle]
    target = Mesh.from_trimesh(trimesh.util.concatenate(parts)).normalized()
    camera = around(40)
    found = visual_hull(camera, masks_of(target, camera, 96), edge=None).to_trimesh()
    assert found.is_watertight
    assert found.euler_number == euler


@pytest.mark.rotating(5, group="photos")
def test_handles_that_rounding_makes_are_not_there(monkeypatch):
    """Two plates a pixel apart, joined at one side: pixels see through in places only."""
    camera = around(30)
    pixel = 4 * math.tan(math.radians(20)) / 32
    thick, gap = 0.12, 1.2 * pixel
    parts = [
        trimesh.creation.box(size).apply_translation([x, y, 0])
        for size, x, y in (
            ((1.2, thick, 1.0), 0.0, (gap + thick) / 2),
            ((1.2, thick, 1.0), 0.0, -(gap + thick) / 2),
            ((thick, gap + 2 * thick, 1.0), -0.6 - thick / 2, 0.0),
        )
    ]
    masks = masks_of(Mesh.from_trimesh(trimesh.util.concatenate(parts)), camera)
    found = visual_hull(camera, masks, edge=None)
    monkeypatch.setattr("gendr.photos.meshing.hull._HANDLES", (0.0,))
    as_it_was = visual_hull(camera, masks, edge=None)
    eulers = [mesh.to_trimesh().euler_number for mesh in (found, as_it_was)]
    assert eulers == [2, 0]
    # The surface is hardly further out.
    volumes = [float(mesh.volumes) for mesh in (found, as_it_was)]
    assert volumes[1] < volumes[0] < 1.1 * volumes[1]


@pytest.mark.rotating(5, group="photos")
def test_thin_parts_are_there():
    """A rod two pixels wide beside a large ball."""
    rod = trimesh.creation.box([2.2, 0.09, 0.09])
    ball = trimesh.creation.icosphere(3, 0.4).apply_translation([-1.0, 0, 0])
    target = Mesh.from_trimesh(trimesh.util.concatenate([rod, ball]))
    camera = around(24)
    found = visual_hull(camera, masks_of(target, camera, 96), edge=None)
    low, high = found.bounding_box()
    assert float(low[0, 0]) == pytest.approx(-1.4, abs=0.07)
    assert float(high[0, 0]) == pytest.approx(1.1, abs=0.07)
    assert len(found.to_trimesh().split(only_watertight=False)) == 1


@pytest.mark.rotating(5, group="photos")
def test_place_and_size_of_the_world():
    camera = around(12)
    by = torch.tensor([30.0, -20.0, 10.0])
    eye = (camera.eye + by)[..., None]
    moved = Camera(camera.rotation, -(camera.rotation @ eye)[..., 0], camera.focal)
    masks = masks_of(cube(2), camera)
    here, there = visual_hull(camera, masks), visual_hull(moved.to(torch.float64), masks.double())
    shift = there.bounding_box()[0] - here.bounding_box()[0]
    torch.testing.assert_close(shift[0].float(), by, atol=0.02, rtol=0)
    assert (here.dtype, there.dtype) == (torch.float32, torch.float64)


@pytest.mark.rotating(5, group="photos")
def test_soft_masks_place_the_outline_between_pixels():
    camera = around(24)
    errors = []
    for fine in (1, 6):
        found = visual_hull(camera, masks_of(icosphere(4), camera, 32, fine), edge=None)
        errors.append(float((found.vertices.norm(dim=1) - 1).abs().mean()))
    assert errors[1] < 0.95 * errors[0]


def test_length_of_the_edges(ball):
    camera, masks, whole = ball
    pixel = 2 / 32 * 4 * math.tan(math.radians(20))
    for edge in (2.0, 4.0):
        mesh = visual_hull(camera, masks, edge=edge)
        a, b = mesh.vertices[mesh.edges].unbind(1)
        assert float((a - b).norm(dim=1).mean()) / pixel == pytest.approx(edge, rel=0.25)
        assert mesh.is_watertight
        assert len(whole.faces) > 2 * len(mesh.faces)


def test_what_the_border_cuts_is_not_carved(ball):
    """Half of the object is outside of one image; the others still say where it ends."""
    camera, masks, whole = ball
    near = look_at(4.0, 0.0, 0.0, fov=10.0)
    cut = masks_of(icosphere(3), near, 32)
    found = visual_hull(Camera.batch([camera, near]), torch.cat([masks, cut]), edge=None)
    assert float(found.volumes) == pytest.approx(float(whole.volumes), rel=0.03)


def test_masks_that_contradict_each_other(ball, monkeypatch):
    monkeypatch.setattr("gendr.photos.meshing.hull._COARSE", 20)
    camera, masks, _ = ball
    wrong = masks.clone()
    wrong[7] = 0
    wrong[7, :8, :8] = 1
    said = r"masks contradict each other.*mend or leave out number 7 \(the first is 0\), or start"
    two = wrong.clone()
    two[3] = wrong[7]  # two at once: nobody knows which
    for cameras, images, options, message in (
        (camera, wrong, {}, said),
        (camera, two, {}, "an inverted mask; start from a sphere"),
        (camera[:3], masks, {}, "16 masks need as many cameras, got 3"),
        (camera, masks, {"resolution": 4}, "resolution must be >= 16"),
        (camera, masks, {"edge": 0.0}, "edge must be > 0"),
        (camera[:3], 1 - masks[:3], {}, "no hull: .* are they inverted"),
        (camera, torch.zeros_like(masks), {}, "masks are empty"),
    ):
        with pytest.raises(ValueError, match=message):
            visual_hull(cameras, images, **options)
