"""Cameras that are slightly off: put right by outlines and colours, in the world they were in."""

import math

import pytest
import torch
import torch.nn.functional as F

from gendr import Camera, look_at, refine_cameras
from gendr.mesh import axis_angle_to_matrix, cube, rotation_angle_between
from gendr.photos import visual
from gendr.photos.fitting.cameras import refine
from gendr.photos.fitting.cameras.refine import aligned
from gendr.photos.fitting.cameras.tangents import Outlines, applied, equations, solved, spread

F64 = torch.float64
AT = [3.0, 3.0, 3.0]


def perturbed(camera, degrees, part, seed=0):
    """Cameras each turned and moved by so much, in directions of their own."""
    options = {"generator": torch.Generator().manual_seed(seed), "dtype": camera.dtype}
    axis = F.normalize(torch.randn(len(camera), 3, **options), dim=1) * math.radians(degrees)
    step = F.normalize(torch.randn(len(camera), 3, **options), dim=1) * part
    # Turned about the middle of the object, as one who walks around it.
    distance = (camera.eye - torch.tensor(AT).to(camera.eye)).norm(dim=1, keepdim=True)
    middle = camera.world_to_camera(torch.tensor(AT).to(camera.eye)[None])[:, 0]
    rotation = axis_angle_to_matrix(axis) @ camera.rotation
    at = (rotation @ torch.tensor(AT).to(camera.eye)[:, None])[..., 0]
    return Camera(rotation, middle - at + step * distance, camera.focal, camera.principal)


def angles(found, camera):
    """Between rotations, after all cameras were turned together."""
    return rotation_angle_between(aligned(found, camera).rotation, camera.rotation)


def camera_of(outer):
    """Float64, about the middle of the object, as the steps see it."""
    turned = outer.to(F64)
    shift = turned.translation + (turned.rotation @ torch.tensor(AT, dtype=F64)[:, None])[..., 0]
    return Camera(turned.rotation, shift, turned.focal, turned.principal)


@pytest.fixture(scope="module")
def scene():
    """A block with a pattern, of unequal sides, and 12 views of it from all around."""
    mesh = cube(8)
    mesh = mesh.with_vertices(mesh.vertices * torch.tensor([0.5, 0.33, 0.8]) + 3.0)
    turned = mesh.vertices @ torch.tensor([[1.0, 0.4, 0.2], [0.1, 1.0, 0.5], [0.6, 0.2, 1.0]])
    mesh = mesh.with_vertex_colors(0.5 + 0.4 * torch.sin(9 * turned))
    angle = torch.arange(12) * 67.5
    height = torch.tensor([10.0, 45.0, -25.0, 25.0]).repeat(3)
    camera = look_at(3.5, height, angle, 30.0, at=AT)
    rgb, alpha = visual.render_views(mesh, camera, 96, {"lighting": "none"})
    return camera, rgb, alpha


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Colours in four steps instead of nine, coarse hulls; benchmarks/cameras.py does it all."""
    monkeypatch.setattr("gendr.photos.fitting.cameras.refine._BLURS", (3.0, 2.0, 1.0, 0.7))
    monkeypatch.setattr("gendr.photos.fitting.cameras.refine._CELLS", 64)


def ball(count=5, size=(90, 120)):
    """Views of a ball about the origin, whose outlines are known: soft masks [B, H, W]."""
    camera = look_at(
        torch.linspace(3.0, 5.0, count, dtype=F64),
        torch.linspace(-40.0, 50.0, count, dtype=F64),
        torch.arange(count, dtype=F64) * 75,
        40.0,
        at=[0.1, 0.0, -0.2],
    )
    height, width = size
    y, x = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
    ndc = torch.stack([2 * x - width, height - 2 * y], -1).double() / height
    flat = (ndc - camera.principal[:, None, None]) / camera.focal[:, None, None]
    rays = F.normalize(torch.cat([flat, torch.ones_like(flat[..., :1])], -1), dim=-1)
    centre = camera.translation[:, None, None]
    miss = torch.linalg.cross(rays, centre.expand_as(rays)).norm(dim=-1)
    away = centre.norm(dim=-1)
    pixel = 2 / height / camera.focal[:, :1, None] * away  # of the world, at the ball
    return camera, (0.5 + (0.5 - miss) / pixel).clamp(0, 1)


def test_outlines_of_a_ball_agree():
    camera, masks = ball()
    lines = Outlines.of(masks)
    # Two eyes see a ball between the same two planes, which touch it.
    assert spread(lines, camera) < 0.05
    assert spread(lines, perturbed(camera, 3.0, 0.02)) > 0.5
    # Each point of an outline is as far from the centre as the radius says.
    flat = (lines.points - camera.principal[:, None]) / camera.focal[:, None]
    rays = F.normalize(torch.cat([flat, torch.ones_like(flat[..., :1])], -1), dim=-1)
    miss = torch.linalg.cross(rays, camera.translation[:, None].expand_as(rays)).norm(dim=-1)
    torch.testing.assert_close(miss, torch.full_like(miss, 0.5), atol=4e-3, rtol=0)
    assert not lines.cut.any()


def test_what_the_border_cuts_is_not_compared():
    camera, masks = ball()
    assert Outlines.of(masks[:, 45:]).cut.any(1).all()
    assert spread(Outlines.of(torch.ones(5, 9, 9)), camera) == math.inf


def test_equations_are_those_of_the_gaps():
    """Along the vector of the normal equations the sum of squares changes as it says."""
    camera, masks = ball(4)
    camera = perturbed(camera, 0.5, 0.005)
    lines = Outlines.of(masks)

    def gradient(at):
        return equations(lines, at).vector

    start = equations(lines, camera)
    assert torch.linalg.eigvalsh(start.matrix).min() > -1e-6 * start.matrix.norm()
    # The matrix is the slope of the vector, but for Cauchy's weights and second derivatives.
    step = start.step(1e-3, focal=False)
    changed = (gradient(applied(camera, 1e-2 * step)) - gradient(applied(camera, -1e-2 * step))) / 2
    wanted = 1e-2 * (start.matrix @ step)
    assert F.cosine_similarity(changed, wanted, dim=0) > 0.9
    assert torch.equal(step[-1], torch.zeros((), dtype=F64))
    assert start.step(1e-3, focal=True)[-1] != 0


@pytest.mark.rotating(5, group="photos")
def test_poses_are_put_right_with_and_without_colors(scene, monkeypatch):
    monkeypatch.setattr("gendr.photos.fitting.cameras.agreement._CELLS", 48)
    camera, _, alpha = scene
    bad = perturbed(camera, 1.5, 0.02)
    before = angles(bad, camera).mean()
    assert before > 1.2
    told = []
    result = refine_cameras(alpha, bad, callback=told.append)
    # A colour that is the same all over tells nothing, and does no harm: the outlines decide.
    plain = alpha[:, None].expand(-1, 3, -1, -1) * 0.6
    for found in (result, refine_cameras(alpha, bad, plain)):
        assert angles(found.camera, camera).mean() < 0.5 * before
        assert found.color_error is None
        # The world stays where it was: the cameras are near those given, right on average.
        assert ((found.camera.eye - camera.eye).norm(dim=1) / 3.5).mean() < 0.02
    assert result.refined
    assert result.gap[1] < 0.2 * result.gap[0]
    assert result.iou[1] > result.iou[0] + 0.02
    assert result.focal == 1.0
    assert told == sorted(told)
    assert told[-1] == 1.0
    turned = rotation_angle_between(result.camera.rotation, bad.rotation).double()
    torch.testing.assert_close(result.degrees, turned, atol=0.05, rtol=0)
    moved = (result.camera.eye - bad.eye).norm(dim=1).double() / 3.5
    torch.testing.assert_close(result.moved.mean(), moved.mean(), rtol=0.05, atol=0)


@pytest.mark.rotating(5, group="photos")
def test_colors_decide_where_the_hull_is_as_good(scene, monkeypatch, tmp_path):
    """Photos agree better then; how near the poses are to the truth, the benchmark says."""
    camera, rgb, alpha = scene
    bad = perturbed(camera, 1.5, 0.02)
    monkeypatch.setattr(refine, "_BLURS", (3.0, 1.5, 0.7))
    monkeypatch.setattr("gendr.photos.fitting.cameras.agreement._CELLS", 96)
    scores = iter(2 * [0.5, 0.9, 0.9])
    monkeypatch.setattr(refine, "hull_iou", lambda *_: next(scores))
    told = []
    result = refine_cameras(alpha, bad, rgb, callback=told.append)
    kept = [now.state for now in told if now.state is not None]
    assert result.refined
    assert result.iou == (0.5, 0.9)
    assert result.color_error[1] < 0.9 * result.color_error[0]
    assert angles(result.camera, camera).mean() < 0.7 * angles(bad, camera).mean()
    # From a file it goes on where it was, with the same result.
    assert [values["done"] for values in kept] == [1, 2, 3]
    torch.save(kept[1], tmp_path / "values.pt")
    more = []
    values = torch.load(tmp_path / "values.pt", weights_only=True)
    again = refine_cameras(alpha, bad, rgb, callback=more.append, resume=values)
    assert [now.state["done"] for now in more if now.state is not None] == [3]
    assert again.color_error == result.color_error
    assert torch.equal(again.camera.rotation, result.camera.rotation)
    assert torch.equal(again.camera.translation, result.camera.translation)


def test_what_makes_hulls_worse_or_is_beyond_slight_changes_is_not_kept(scene, monkeypatch):
    camera, _, alpha = scene
    bad, hull_iou = perturbed(camera, 1.5, 0.02), refine.hull_iou
    for other, better in ((perturbed(camera, 4.0, 0.05, seed=1), False),
                          (perturbed(camera, 12.0, 0.02), True)):  # fmt: skip
        monkeypatch.setattr(refine, "solved", lambda *_, to=other, **__: camera_of(to))
        scores = iter([0.5, 0.9])
        found = (lambda *_, scores=scores: next(scores)) if better else hull_iou
        monkeypatch.setattr(refine, "hull_iou", found)
        result = refine_cameras(alpha, bad)
        assert not result.refined
        assert torch.equal(result.camera.eye, bad.eye)
        assert result.degrees.max() < 1e-4


def test_good_cameras_are_kept(scene):
    camera, _, alpha = scene
    result = refine_cameras(alpha, camera)
    assert not result.refined
    assert torch.equal(result.camera.eye, camera.eye)
    assert torch.equal(result.camera.rotation, camera.rotation)
    assert result.degrees.max() < 1e-4
    assert result.gap[0] == result.gap[1] < 0.15
    assert result.iou[0] == result.iou[1] > 0.9


@pytest.mark.rotating(5, group="photos")
def test_a_wrong_focal_length_is_found(scene):
    camera, _, alpha = scene
    wrong = Camera(camera.rotation, camera.translation, camera.focal * 1.06, camera.principal)
    result = refine_cameras(alpha, wrong, focal=True)
    assert result.refined
    assert 0.92 < result.focal < 0.97
    assert refine_cameras(alpha, wrong).focal == 1.0


def test_alignment_undoes_a_similarity():
    camera = perturbed(look_at(3.0, 20.0, torch.arange(6, dtype=F64) * 60), 20.0, 0.1)
    turn = axis_angle_to_matrix(torch.tensor([0.3, -1.0, 0.7], dtype=F64))
    # The world is scaled by 2.5, turned and shifted: y = 2.5 Q x + b.
    shift = torch.tensor([4.0, 5.0, -6.0], dtype=F64)
    rotation = camera.rotation @ turn.T
    moved = Camera(
        rotation, 2.5 * camera.translation - rotation @ shift, camera.focal, camera.principal
    )
    assert rotation_angle_between(moved.rotation, camera.rotation).min() > 10
    back = aligned(moved, camera)
    torch.testing.assert_close(back.rotation, camera.rotation)
    torch.testing.assert_close(back.eye, camera.eye)


def test_steps_end_where_nothing_can_be_compared():
    camera, lines = ball()[0], Outlines.of(torch.ones(5, 9, 9))
    torch.testing.assert_close(solved(lines, camera).rotation, camera.rotation)
    assert not equations(lines, camera).step(1e-5, focal=True).any()


def test_bad_arguments(scene):
    camera, rgb, alpha = scene
    dot, full = alpha.clone(), alpha.clone()
    dot[4] = 0
    dot[4, 40, 40] = 0.4
    full[5] = 1
    flat = look_at(3.5, 10.0, torch.arange(12) * 20.0, orthographic=True)
    for arguments, error, text in (
        ((alpha, camera[:3]), ValueError, "12 masks need as many cameras, got 3"),
        ((alpha[:3], camera[:3]), ValueError, "from four views on, got 3"),
        ((alpha, camera, rgb[:, :, 3:]), ValueError, "images must have shape"),
        ((alpha, flat), ValueError, "orthographic"),
        ((alpha, None), TypeError, r"camera must be a gendr\.Camera"),
        ((dot, camera), ValueError, "mask 4 shows too little"),
        ((full, camera, rgb), ValueError, "mask 5 fills its image, so it has no outline"),
    ):
        with pytest.raises(error, match=text):
            refine_cameras(*arguments)
