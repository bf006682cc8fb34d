"""Cameras found by masks of a known mesh: of images, of videos and of rigs."""

import copy
import math

import pytest
import torch

from gendr import Camera, Mesh, fit_pose, look_at
from gendr.mesh import axis_angle_to_matrix, cube, example, rotation_angle_between
from gendr.photos import visual
from gendr.photos.fitting import PoseSettings
from gendr.photos.fitting.pose.search import Alike, Poses, Search, View
from gendr.photos.fitting.pose.track import Motion, chosen_together, look_back
from support.cameras import random_camera
from support.cases import for_each

# A search of a third of a second; one test has the default settings.
FAST = {"directions": 160, "turns": 20, "starts": 8, "finalists": 3, "steps": 30}


def chair():
    mesh = example("chair").normalized()
    return Mesh(mesh.vertices, mesh.faces)


def camera_of(mesh, seed, apart=0.2, **options):
    generator = torch.Generator().manual_seed(seed)
    return random_camera(mesh, generator, apart=apart, **options)


def angle(found, camera):
    return float(rotation_angle_between(found.rotation, camera.rotation))


def test_camera_of_a_mask():
    mesh = chair()
    camera = camera_of(mesh, 1)
    result = fit_pose(mesh, visual.silhouettes(mesh, camera, 96))
    assert angle(result.camera, camera) < 0.7
    assert float(result.iou) > 0.985
    assert len(result.candidates) == 1
    first = result.candidates[0][0]
    assert first.angle == pytest.approx(0, abs=0.1)
    assert first.iou == pytest.approx(float(result.iou))


@pytest.mark.rotating(5, group="photos")
def test_size_and_place_of_the_world_do_not_matter():
    mesh = chair().scaled(250.0).translated(torch.tensor([3000.0, -800.0, 100.0]))
    camera = camera_of(mesh, 3)  # rounding decides between the two best poses of seed 2
    result = fit_pose(mesh, visual.silhouettes(mesh, camera, 96), **FAST)
    assert angle(result.camera, camera) < 3
    assert float((result.camera.eye - camera.eye).norm() / camera.translation.norm()) < 0.06


@pytest.mark.rotating(5, group="photos")
def test_intrinsics_and_sides_that_differ():
    mesh = chair()
    camera = camera_of(mesh, 3, fov=45.0, principal=[0.15, -0.1])
    mask = visual.silhouettes(mesh, camera, (80, 112))
    result = fit_pose(mesh, mask, intrinsics=camera, **FAST)
    assert angle(result.camera, camera) < 3
    assert torch.equal(result.camera.focal, camera.focal)
    assert torch.equal(result.camera.principal, camera.principal)


@pytest.mark.rotating(5, group="photos")
def test_unknown_field_of_view():
    mesh = chair()
    camera = camera_of(mesh, 4, fov=40.0, apart=0.0)
    result = fit_pose(mesh, visual.silhouettes(mesh, camera, 96), fov=None, **FAST)
    assert angle(result.camera, camera) < 5
    assert float(result.camera.focal[0, 0]) != pytest.approx(1 / math.tan(math.radians(15)))


@pytest.mark.rotating(5, group="photos")
def test_poses_that_look_alike_are_given():
    """A cube looks the same after a quarter turn about any of its axes."""
    mesh = cube(1)
    camera = camera_of(mesh, 5, apart=0.0)
    masks = visual.silhouettes(mesh, camera, 96)[0]
    (found,) = fit_pose(
        mesh, masks, **{**FAST, "finalists": 8, "starts": 24}, alike=0.05
    ).candidates
    assert len(found) >= 3
    ious = [each.iou for each in found]
    assert ious == sorted(ious, reverse=True)
    assert all(each.iou > ious[0] - 0.05 for each in found)
    angles = torch.tensor([each.angle for each in found[1:]])
    near = torch.tensor([90.0, 120.0, 180.0])
    assert bool(((angles[:, None] - near).abs().min(1).values < 4).all())


def check_told(told, stages):
    """What a callback was told: a part that grows to 1, of these stages."""
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1.0)
    assert {now.stage for now in told} == set(stages.split())


def states_of(told):
    """The distinct states that a callback was told, in their order."""
    states = [now.state for now in told if now.state is not None]
    return [now for now, before in zip(states, [None, *states], strict=False) if now is not before]


@pytest.mark.rotating(5, group="photos")
def test_several_masks_go_on_where_they_were():
    mesh = chair()
    cameras = Camera.batch([camera_of(mesh, 6), camera_of(mesh, 7)])
    masks = visual.silhouettes(mesh, cameras, 48)
    told = []
    options = {"fov": None, **FAST}
    whole = fit_pose(mesh, masks, callback=told.append, **options)
    check_told(told, "search refine finish")
    one, _ = states_of(told)
    assert len(one["images"]) == 1
    found = fit_pose(mesh, masks, resume=one, **options)
    assert torch.equal(found.camera.rotation, whole.camera.rotation)
    assert torch.equal(found.camera.focal, whole.camera.focal)
    assert torch.equal(found.iou, whole.iou)


# -- the last steps --------------------------------------------------------------------------------


def searching(mesh, **changes):
    return Search(mesh, PoseSettings(**{**FAST, **changes}), Camera(fov=30.0), is_free=False)


def poses_of(search, camera, *turns):
    """A camera turned by degrees about axes of the camera, as poses."""
    turn = axis_angle_to_matrix(torch.tensor(turns) * (math.pi / 180))
    depth = camera.world_to_camera(search.centre[None])[:, 0]
    count = len(turns)
    return Poses(
        turn @ camera.rotation,
        (depth[:, :2] / depth[:, 2:] * camera.focal).expand(count, 2),
        (camera.focal.mean(1) * search.radius / depth[:, 2]).log().expand(count),
        camera.focal.expand(count, 2),
    )


def test_least_squares_make_a_pose_exact():
    """A pose two degrees off becomes as good as the pixels tell; one that is much worse stays."""
    mesh = chair()
    camera = camera_of(mesh, 8)
    search = searching(mesh)
    mask = visual.silhouettes(mesh, camera, 96)[0]
    view = View(search, mask, 0)

    def score(poses):
        return float(view.scores(poses, mask[None], mesh))

    def far(poses):
        return rotation_angle_between(poses.rotation, camera.rotation.expand(len(poses), 3, 3))

    for turn in ([1.4, 1.4, 0.0], [0.0, -1.0, 1.5]):
        poses = poses_of(search, camera, turn)
        assert score(poses) < 0.97
        found = view.polished(poses)
        assert score(found) > 0.98
        assert float(far(found)) < 0.5
    poses = poses_of(search, camera, [1.4, 1.4, 0.0], [0.0, 180.0, 0.0])
    found = view.polished(poses)
    assert float(far(found)[0]) < 0.3
    assert torch.equal(found.rotation[1], poses.rotation[1])
    still = View(searching(mesh, polish_steps=0), mask, 0).polished(poses)
    assert torch.equal(still.rotation, poses.rotation)


# -- videos ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def video():
    """A chair that turns by six degrees an image, drifts, and is cut after the third image."""
    mesh, count = chair(), torch.arange(5.0)
    azimuth = 30 + 6 * count + 130 * (count > 2)
    camera = look_at(4.0, 20 + 2 * count + 30 * (count > 2), azimuth)
    camera = camera.moved(0.03 * count[:, None] * camera.right)
    masks = visual.silhouettes(mesh, camera, 64)
    told = []
    found = fit_pose(mesh, masks, track=True, callback=told.append, **FAST)
    return mesh, camera, masks, found, told


@pytest.mark.rotating(5, group="photos")
def test_video_is_tracked_and_a_cut_is_searched_anew(video):
    _, camera, masks, found, told = video
    assert found.searched == (0, 3)
    angles = rotation_angle_between(found.camera.rotation, camera.rotation)
    assert float(angles.max()) < 3
    assert float(angles.median()) < 1.2
    assert float(found.iou.min()) > 0.96
    far = (found.camera.eye - camera.eye).norm(dim=1) / camera.eye.norm(dim=1)
    assert float(far.max()) < 0.06
    assert len(found.candidates) == len(masks)
    for i, candidates in enumerate(found.candidates):
        assert torch.equal(candidates[0].camera.rotation, found.camera[i].rotation)
        assert candidates[0].iou == pytest.approx(float(found.iou[i]))
        assert candidates[0].angle == pytest.approx(0, abs=0.1)
    check_told(told, "search refine finish track")


@pytest.mark.rotating(5, group="photos")
def test_an_image_without_a_jump_is_found_from_the_last(video, monkeypatch):
    """The search must not be called: its results would hide that tracking does not work."""
    mesh, camera, masks, *_ = video
    calls, found = [], View.found
    monkeypatch.setattr(View, "found", lambda *args: calls.append(args) or found(*args))
    poses = fit_pose(mesh, masks[3:], track=True, **FAST).camera
    assert len(calls) == 1
    assert float(rotation_angle_between(poses.rotation, camera.rotation[3:]).max()) < 3


@pytest.mark.rotating(5, group="photos")
def test_video_of_a_symmetric_object_does_not_jump():
    """A slab looks the same after half a turn, and each image has poses that look alike."""
    mesh = cube(1)
    mesh = mesh.with_vertices(mesh.vertices * torch.tensor([1.0, 0.6, 0.3]))
    camera = look_at(6.0, 25.0, 20 + 7 * torch.arange(3.0))
    masks = visual.silhouettes(mesh, camera, 64)
    found = fit_pose(mesh, masks, track=True, alike=0.03, **FAST)
    assert found.searched == (0,)
    turned = rotation_angle_between(found.camera.rotation[1:], found.camera.rotation[:-1])
    true = rotation_angle_between(camera.rotation[1:], camera.rotation[:-1])
    assert float((turned - true).abs().max()) < 3
    assert min(len(each) for each in found.candidates) > 1


@pytest.mark.rotating(5, group="photos")
def test_video_goes_on_where_it_was_stopped(video):
    mesh, _, masks, whole, before = video
    told, kept = [], states_of(before)
    for stop in (2, 4):
        told.clear()
        found = fit_pose(
            mesh, masks, track=True, resume=copy.deepcopy(kept[stop - 1]), callback=told.append,
            **FAST,
        )  # fmt: skip
        assert told[0] >= stop / len(masks)
        assert found.searched == whole.searched
        assert torch.equal(found.camera.rotation, whole.camera.rotation)
        assert torch.equal(found.camera.translation, whole.camera.translation)


@pytest.mark.rotating(5, group="photos")
def test_unknown_field_of_view_is_kept_in_a_video(video):
    mesh, _, masks, *_ = video
    told = []
    options = {"track": True, "fov": None, **FAST}
    found = fit_pose(mesh, masks[:2], callback=told.append, **options)
    assert torch.equal(found.camera.focal[0], found.camera.focal[1])
    again = fit_pose(mesh, masks[:2], resume=states_of(told)[0], **options)
    assert torch.equal(again.camera.focal, found.camera.focal)
    assert torch.equal(again.camera.rotation, found.camera.rotation)
    assert float(found.camera.focal[0, 0]) != pytest.approx(1 / math.tan(math.radians(15)))


def test_poses_of_a_video_are_chosen_together():
    """What the first images cannot tell, the last one does; a small gain is not worth a jump."""
    half = axis_angle_to_matrix(torch.tensor([0.0, 0.0, math.pi]))
    turn = torch.stack([torch.eye(3), half]) @ torch.diag(torch.tensor([1.0, 1.0, -1.0]))
    poses = Poses(turn, torch.zeros(2, 2), torch.zeros(2), torch.ones(2, 2))
    still = Motion.between(poses, poses)

    def path(*scores):
        found = [Alike(poses, torch.tensor(each)) for each in scores]
        return chosen_together(found, [still] * len(found), 0.02)

    assert path([0.95, 0.94]) == [0]
    assert path([0.95, 0.945], [0.95, 0.945], [0.90, 0.96]) == [1, 1, 1]
    assert path([0.95, 0.94], [0.94, 0.95], [0.95, 0.94]) == [0, 0, 0]
    assert path([0.95, 0.80], [0.80, 0.95]) == [0, 1]


def test_what_a_later_image_tells_is_brought_back():
    """The first image has lost the right pose, and has two wrong ones of which none stands out."""
    mesh = chair()
    camera = look_at(4.0, 20.0, 30 + 4 * torch.arange(2.0))
    masks = visual.silhouettes(mesh, camera, 64)
    search = searching(mesh)
    wrong = poses_of(search, camera[0], [0.0, 25.0, 0.0], [0.0, -25.0, 0.0])
    right = poses_of(search, camera[1], [0.0, 0.0, 0.0])
    found = [Alike(wrong, torch.tensor([0.9, 0.899])), Alike(right, torch.tensor([1.0]))]
    motions = [Motion.between(each.poses, each.poses) for each in found]
    look_back(search, masks, found, motions, [0])
    assert float(rotation_angle_between(found[0].poses.rotation[:1], camera[0].rotation)) < 2
    assert float(found[0].scores[0]) > 0.97
    # It moves on as it was found to: into the pose that it came from.
    on = motions[0].applied(found[0].poses)
    assert float(rotation_angle_between(on.rotation[:1], camera[1].rotation)) < 0.1
    # An image whose pose stands out is left as it is, and so is one before a cut.
    for scores, searched in (([0.9, 0.8], [0]), ([0.9, 0.899], [0, 1])):
        found[0] = Alike(wrong, torch.tensor(scores))
        look_back(search, masks, found, motions, searched)
        assert torch.equal(found[0].scores, torch.tensor(scores))


def test_a_motion_is_followed():
    """A turn at constant speed is not a jump, however fast; standing still after it is none."""
    spin = axis_angle_to_matrix(torch.tensor([0.0, 0.5, 0.0]))
    first = torch.diag(torch.tensor([1.0, 1.0, -1.0]))[None]

    def at(rotation):
        count = len(rotation)
        return Poses(rotation, torch.zeros(count, 2), torch.zeros(count), torch.ones(count, 2))

    motion = Motion.between(at(first), at(spin @ first))
    torch.testing.assert_close(motion.applied(at(spin @ first)).rotation, spin @ spin @ first)
    other = axis_angle_to_matrix(torch.tensor([0.9, 0.0, 0.0])) @ spin @ first
    # The pose that goes on is a little worse than one that turns aside.
    found = [
        Alike(at(spin @ first), torch.tensor([0.95])),
        Alike(at(torch.cat([other, spin @ spin @ first])), torch.tensor([0.95, 0.94])),
    ]
    assert chosen_together(found, [motion, motion], 0.02) == [0, 1]


# -- several cameras of one moment -----------------------------------------------------------------


def rigged(camera, scale):
    """Cameras in a world where the mesh is turned, shifted and scaled, and that motion."""
    turn, shift = axis_angle_to_matrix(torch.tensor([0.5, 1.1, -0.7])), torch.tensor([3.0, -1, 2])
    rotation = camera.rotation @ turn.mT
    placement = torch.eye(4)
    placement[:3, :3], placement[:3, 3] = scale * turn, shift
    rig = Camera(
        rotation, scale * camera.translation - rotation @ shift, camera.focal, camera.principal
    )
    return rig, placement


@pytest.fixture(scope="module")
def pair():
    """Two views from afar: each is also seen in a mirror pose, as the chair has a mirror plane."""
    mesh = chair()
    camera = look_at(40.0, torch.tensor([25.0, 20.0]), torch.tensor([40.0, 130.0]), fov=3.0)
    return mesh, camera, visual.silhouettes(mesh, camera, 64)


@pytest.mark.rotating(5, group="photos")
def test_two_views_tell_what_one_cannot(pair):
    mesh, camera, masks = pair
    alone = fit_pose(mesh, masks[1], fov=3.0, **FAST).candidates[0]
    assert any(each.angle > 60 for each in alone)
    rig, placement = rigged(camera, 1.0)
    # Both far from 0, as in UTM metres: float32 would round these to half a metre.
    there, at = torch.tensor([[4.5e5, 5.4e6, 300.0], [5e5, -4.6e6, 12.0]], dtype=torch.float64)
    found = fit_pose(mesh.with_origin(there), masks, rig=rig.with_origin(at), **FAST)
    assert torch.equal(found.camera.origin, there)
    assert float(rotation_angle_between(found.camera.rotation, camera.rotation).max()) < 2
    assert float((found.camera.eye - camera.eye).norm(dim=1).max()) < 0.8
    ((best, *others),) = found.candidates
    assert not others
    assert best.iou == pytest.approx(float(found.iou.mean()))
    assert torch.equal(best.camera.rotation, found.camera.rotation)
    linear, shift = found.placement[:3, :3], found.placement[:3, 3]
    torch.testing.assert_close(linear, placement[:3, :3].double(), rtol=0, atol=0.05)
    near = linear @ there + shift - at
    torch.testing.assert_close(near, placement[:3, 3].double(), rtol=0, atol=0.05)


@pytest.mark.rotating(5, group="photos")
def test_unit_of_a_rig_is_found():
    mesh = chair()
    camera = look_at(4.0, torch.tensor([20.0, 35.0]), torch.tensor([30.0, 110.0]))
    masks = visual.silhouettes(mesh, camera, 64)
    rig, placement = rigged(camera, 2.5)
    found = fit_pose(mesh, masks, rig=rig, find_scale=True, **FAST)
    assert float(rotation_angle_between(found.camera.rotation, camera.rotation).max()) < 2
    torch.testing.assert_close(found.placement, placement.double(), rtol=0, atol=0.12)
    # The mesh, put into the world of the rig, is seen there as before.
    placed = found.placement.float()
    moved = mesh.with_vertices(mesh.vertices @ placed[:3, :3].mT + placed[:3, 3])
    seen = visual.silhouettes(moved, rig, 64)
    assert float((seen - visual.silhouettes(mesh, found.camera, 64)).abs().mean()) < 1e-3


def bad_calls():
    """Arguments, or a mesh in the place of the chair, the error and its text."""
    masks = torch.zeros(2, 32, 32)
    masks[:, 8:20, 8:20] = 1
    few, empty = masks.clone(), masks * torch.tensor([1.0, 0.0])[:, None, None]
    few[1], few[1, 0, :9] = 0, 1
    rig = look_at(40.0, 20.0, torch.tensor([40.0, 130.0]))
    one = {"masks": masks[:1]}
    line = torch.tensor([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]])
    face = torch.tensor([[0, 1, 2]])
    cases = [
        ({"rig": rig, "track": True}, "track cannot be given with rig"),
        ({"rig": rig, "intrinsics": rig}, "intrinsics cannot be given with rig"),
        ({"rig": rig, "resume": {}}, "resume cannot be given with rig"),
        ({"rig": rig[0]}, "rig must be 2 perspective cameras"),
        ({"rig": 3}, "rig must be a camera, got int"),
        ({"find_scale": True}, "find_scale is for a rig"),
        ({"rig": rig[[0, 0]], "find_scale": True}, "find_scale needs cameras at different places"),
        ({"lost": 1.5}, "lost must be"),
        ({"steps": 0}, "steps must be >= 1"),
        ({"stepz": 3}, "unknown setting of a pose 'stepz'"),
        ({"masks": empty, "track": True}, "mask 1 is empty"),
        ({"masks": masks[:0]}, r"must have one view or more, got \[0, 32, 32\]"),
        ({"masks": few}, "mask 1 has 9 pixels, too few to tell a pose"),
        ({"masks": torch.ones(1, 32, 32)}, "mask 0 fills its image"),
        ({**one, "intrinsics": Camera(fov=[30.0, 40.0])}, "intrinsics must be 1 or 1 perspective"),
        ({**one, "fov": 200.0}, "fov must be in"),
        ({**one, "mesh": Mesh(line, face)}, "no area"),
        ({**one, "mesh": Mesh(torch.zeros(3, 3), face)}, "no extent"),
    ]  # fmt: skip
    return [({"mesh": chair(), "masks": masks, **arguments}, text) for arguments, text in cases]


@for_each("arguments, text", lambda *_: bad_calls())
def test_bad_input_is_refused(arguments, text):
    with pytest.raises((TypeError, ValueError), match=text):
        fit_pose(**arguments)
