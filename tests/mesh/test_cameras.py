"""Cameras against formulas written out by hand for every convention, in NumPy and SciPy."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from torch.autograd import gradcheck, gradgradcheck

from gendr.mesh import (
    Camera,
    axis_angle_to_matrix,
    icosphere,
    look_at,
    look_from,
    rotation_6d_to_matrix,
    rotation_angle_between,
)
from support.cases import for_each
from support.graphs import assert_graph

F64 = torch.float64
SIZES = [(48, 48), (40, 64), (64, 40)]


def double(value, grad=False):
    return torch.tensor(value, dtype=F64, requires_grad=grad)


def poses(count, seed=0):
    """Proper rotations, translations that put the points ahead, and points, as NumPy arrays."""
    rng = np.random.default_rng(seed)
    rotations = Rotation.random(count, random_state=seed).as_matrix()
    translations = rng.normal(size=(count, 3)) * 0.3 + [0, 0, 6]
    return rotations, translations, rng.normal(size=(count, 20, 3))


def ndc_of_pixels(u, v, size):
    """NDC of pixel coordinates whose image is [0, W] x [0, H], v downwards."""
    height, width = size
    return (2 * np.stack([u, -v], -1) - [width, -height]) / min(size)


def close(actual, desired, atol=1e-12):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(desired), rtol=0, atol=atol)


# -- look_at -----------------------------------------------------------------------------------


@for_each(azimuth=[-180.0, 0.0, 37.0, 90.0], elevation=[-90.0, -30.0, 0.0, 30.0, 90.0, 120.0])
def test_look_at_follows_the_written_frame(elevation, azimuth):
    at = np.array([0.3, -2.0, 5.0])
    camera = look_at(2.5, elevation, azimuth, at=at, dtype=F64)
    e, a = math.radians(elevation), math.radians(azimuth)
    offset = [math.cos(e) * math.sin(a), math.sin(e), -math.cos(e) * math.cos(a)]
    close(camera.eye[0], at + 2.5 * np.array(offset))
    close(camera.ahead[0], -np.array(offset))
    # x = ahead x up, y = x x ahead, orthonormal, and up leans to the side of growing elevation.
    close(camera.right[0], np.cross(camera.ahead[0], camera.up[0]))
    close(camera.up[0], np.cross(camera.right[0], camera.ahead[0]))
    close(camera.rotation[0] @ camera.rotation[0].T, np.eye(3))
    if abs(elevation) < 90:
        assert camera.up[0, 1] > 0
        close(camera.rotation, look_from(at + 2.5 * np.array(offset), at, dtype=F64).rotation)


def test_a_camera_from_its_fov_or_its_tensors_is_the_same():
    camera = look_at(3.0, 20.0, [10.0, 50.0], fov=[30.0, 60.0], dtype=F64)
    fov, principal = double([30.0, 60.0]), double([[0.1, 0.2]])
    again = Camera.from_fov(
        fov, rotation=camera.rotation, translation=camera.translation, principal=principal
    )
    expected = camera.rotation, camera.translation, camera.focal, principal.expand(2, 2)
    for got, want in zip(again.tensors(), expected, strict=True):
        torch.testing.assert_close(got, want)
    copied = camera.with_tensors(*again.tensors())
    assert all(map(torch.equal, copied.tensors(), again.tensors()))


def test_fov_spans_the_shorter_side():
    camera = look_at(2.0, 10.0, 20.0, fov=[30.0, 60.0], dtype=F64)
    edge = (
        camera.eye + camera.ahead + torch.tan(torch.deg2rad(double([[15.0], [30.0]]))) * camera.up
    )
    xy, _ = camera.project(edge[:, None])
    close(xy[:, 0], [[0, 1], [0, 1]])


def test_orthographic_shows_the_target_as_large():
    both = [
        look_at(4.0, 20.0, 50.0, at=(1, 2, 3), orthographic=o, dtype=F64) for o in (False, True)
    ]
    point = double([[1.0, 2, 3]]) + 0.3 * both[0].up + 0.2 * both[0].right
    (flat, _), (parallel, depth) = (camera.project(point) for camera in both)
    close(flat, parallel)
    further, _ = both[1].project(point + 7 * both[1].ahead)
    close(further, parallel)
    close(depth, [[4.0]])


def test_arguments_broadcast_and_batches_index():
    camera = look_at(2.0, 30.0, torch.arange(0, 360, 15), fov=double(40.0))
    assert len(camera) == 24
    assert camera.dtype == F64
    assert len(camera[3]) == 1
    close(camera[-1].rotation, camera.rotation[-1:])
    close(camera[torch.tensor([3, 5])].translation, camera.translation[[3, 5]])
    close(camera[camera.eye[:, 0] > 0].eye, camera.eye[camera.eye[:, 0] > 0])
    joined = Camera.batch([camera[:5], camera[5], camera[6:]])
    for name in ("rotation", "translation", "focal", "principal"):
        assert torch.equal(getattr(joined, name), getattr(camera, name))
    assert camera.to(torch.float32).dtype == torch.float32
    assert len(camera[0].expand(7)) == 7
    with pytest.raises(dataclasses.FrozenInstanceError):
        camera.focal = camera.focal  # type: ignore[misc]
    with pytest.raises(IndexError, match="camera 24 of 24"):
        camera[24]


def test_points_broadcast_and_packed_points_agree():
    camera = look_at(3.0, [10.0, 50.0, -70.0], [0.0, 100.0, 200.0], [20.0, 30.0, 40.0], dtype=F64)
    sets = torch.randn(3, 7, 3, dtype=F64) * 0.3
    xy, depth = camera.project(sets)
    assert camera.project(sets[0])[0].shape == (3, 7, 2)
    assert camera[1].project(sets)[0].shape == (3, 7, 2)
    index = torch.arange(3).repeat_interleave(7)
    for cameras, packed in ((camera, index), (camera[1], torch.zeros_like(index))):
        got_xy, got_depth = cameras.project(sets.reshape(-1, 3), packed)
        want_xy, want_depth = cameras.project(sets)
        close(got_xy, want_xy.reshape(-1, 2))
        close(got_depth, want_depth.reshape(-1))
    close(camera[2].project(sets[2])[0][0], xy[2])
    close(camera[2].project(sets[2])[1][0], depth[2])


def test_a_cropped_camera_shows_the_photo_alone():
    """Its image has the middle of the photo in its own, and the shorter side from -1 to 1."""
    camera = look_at(3.0, 20.0, [10.0, 50.0], dtype=F64)
    camera = camera.with_window(double([[-0.3, -0.9, 0.8, 0.5], [-0.8, 0.1, 0.8, 0.9]]))
    points = torch.rand(5, 3, dtype=F64)
    xy, depth = camera.project(points)
    seen, still = camera.cropped().project(points)
    middle, zoom = double([[0.25, -0.2], [0.0, 0.5]]), double([2 / 1.1, 2 / 0.8])
    close(seen, (xy - middle[:, None]) * zoom[:, None, None])
    close(still, depth)
    assert camera.cropped().window is None


@for_each(orthographic=[False, True])
def test_clip_coordinates_are_linear_and_divide_to_ndc(orthographic):
    camera = Camera(focal=[[1.3, 0.7]], principal=[[0.2, -0.4]], orthographic=orthographic).to(F64)
    a, b = torch.randn(2, 5, 3, dtype=F64)  # on both sides of the camera plane
    (wa, da), (wb, db) = camera.clip_coordinates(a), camera.clip_coordinates(b)
    wm, dm = camera.clip_coordinates(0.25 * a + 0.75 * b)
    close(wm, 0.25 * wa + 0.75 * wb)
    close(dm, 0.25 * da + 0.75 * db)
    close(da[0], -a[:, 2])
    close(wa[..., 2], np.ones((1, 5)) if orthographic else da)
    close(camera.project(a)[0], wa[..., :2] / wa[..., 2:])


# -- rotations ---------------------------------------------------------------------------------


@for_each(angle=[0.0, 1e-9, 1e-4, 0.49, 0.51, 1.0, math.pi, 4.0, 50.0])
def test_axis_angle_against_scipy(angle):
    vectors = torch.nn.functional.normalize(torch.randn(10, 3, dtype=F64), dim=-1) * angle
    close(axis_angle_to_matrix(vectors), Rotation.from_rotvec(vectors.numpy()).as_matrix(), 2e-14)


def test_axis_angle_is_smooth():
    vectors = (double([[0.6, 0.0, -0.8]]) * double([[0.0], [1e-8], [0.3], [0.6], [3.0]])).detach()
    assert gradcheck(axis_angle_to_matrix, vectors.requires_grad_())
    assert gradgradcheck(axis_angle_to_matrix, vectors)
    vector = torch.tensor([1e6, 0.0, 0.0], requires_grad=True)
    axis_angle_to_matrix(vector).sum().backward()
    assert torch.isfinite(vector.grad).all()  # type: ignore[union-attr]


def test_rotation_6d():
    six = torch.randn(8, 6, dtype=F64)
    matrix = rotation_6d_to_matrix(six)
    close(matrix @ matrix.mT, np.broadcast_to(np.eye(3), (8, 3, 3)), 1e-14)
    close(torch.linalg.det(matrix), np.ones(8))
    close(rotation_6d_to_matrix(matrix[:, :2].flatten(1)), matrix)
    close(torch.linalg.cross(matrix[:, 0], six[:, :3]), np.zeros((8, 3)))
    assert gradcheck(rotation_6d_to_matrix, six[:2].requires_grad_())
    close(torch.func.vmap(rotation_6d_to_matrix)(six), rotation_6d_to_matrix(six))
    close(
        torch.func.vmap(rotation_angle_between)(matrix, matrix.mT),
        rotation_angle_between(matrix, matrix.mT),
    )
    assert rotation_angle_between(matrix[:0], matrix[:0]).shape == (0,)
    for bad in ([0.0] * 6, [1.0, 0, 0, -2, 0, 0], [1.0, 0, 0, 0, 0, 0]):
        with pytest.raises(ValueError, match=r"parallel|direction"):
            rotation_6d_to_matrix(double(bad))


@for_each(degrees=[0.0, 1e-6, 3.0, 90.0, 179.9999, 180.0])
def test_angle_between(degrees):
    start = torch.from_numpy(Rotation.random(random_state=3).as_matrix())
    turn = axis_angle_to_matrix(double([0.6, 0.0, 0.8]) * math.radians(degrees))
    mirror = torch.diag(double([1.0, 1, -1]))
    assert float(rotation_angle_between(start, start @ turn)) == pytest.approx(degrees, abs=1e-10)
    assert float(rotation_angle_between(mirror @ start, mirror @ start @ turn)) == pytest.approx(
        degrees, abs=1e-10
    )


def test_rotated_orbits_and_moved_moves():
    camera = look_at(2.0, [20.0, -30.0], [30.0, 200.0], dtype=F64)
    close(camera.rotated([0.0, 0.0, 0.0]).translation, camera.translation)
    # The azimuth turns from -z to +x, against the right hand about y.
    turned = camera.rotated([0.0, -math.radians(25), 0.0])
    want = look_at(2.0, [20.0, -30.0], [55.0, 225.0], dtype=F64)
    close(turned.rotation, want.rotation)
    close(turned.translation, want.translation)
    in_place = camera.rotated(torch.randn(2, 3, dtype=F64), camera.eye)
    close(in_place.eye, camera.eye)
    close(rotation_angle_between(camera.rotation, camera.rotated([0.3, 0, 0.4]).rotation).deg2rad(),
          [0.5, 0.5])  # fmt: skip
    close(camera.moved([1.0, -2.0, 3.0]).eye, camera.eye + double([1.0, -2.0, 3.0]))
    close(camera.moved([1.0, -2.0, 3.0]).rotation, camera.rotation)


# -- gradients ---------------------------------------------------------------------------------


@for_each(orthographic=[False, True], elevation=[20.0, 90.0])
def test_look_at_gradients(orthographic, elevation):
    points = torch.randn(3, 3, dtype=F64) * 0.3

    def image(d, e, a, fov, at):
        xy, depth = look_at(d, e, a, fov, at=at, orthographic=orthographic).project(points)
        return xy, depth

    inputs = [double(x, grad=True) for x in (2.5, elevation, [10.0, 70.0], 35.0, [0.1, 0.2, -0.3])]
    assert gradcheck(image, inputs)
    far = inputs[0].expand(2), *inputs[1:3], inputs[3].expand(2), inputs[4]
    each = torch.func.vmap(image, (0, None, 0, 0, None))(*far)[0]
    torch.testing.assert_close(each[:, 0], image(*inputs)[0])


def test_pose_and_intrinsics_gradients():
    points = torch.randn(3, 3, dtype=F64, requires_grad=True)
    eye, up = double([0.5, 1.0, -6.0], grad=True), double([0.1, 1.0, 0.2], grad=True)

    def image(eye, up, turn, step, focal, principal, points):
        pose = look_from(eye, up=up).rotated(turn, [0.1, 0.0, 0.2]).moved(step)
        camera = Camera(pose.rotation, pose.translation, focal, principal)
        return (*camera.project(points), camera.eye)

    turn = double([0.0, 0.0, 0.0], grad=True)
    step = double([0.2, 0.1, 0.0], grad=True)
    focal, principal = double([[2.0, 3.0]], grad=True), double([[0.1, 0.2]], grad=True)
    assert gradcheck(image, (eye, up, turn, step, focal, principal, points))


# -- other conventions -------------------------------------------------------------------------


@for_each(pixel_centre=[0.5, 0.0], size=SIZES)
def test_opencv(size, pixel_centre):
    r, t, points = poses(4)
    k = np.zeros((4, 3, 3))
    k[:, 0, 0], k[:, 1, 1], k[:, 2, 2] = (60, 61, 70, 80), (63, 60, 65, 90), 1
    k[:, :2, 2] = np.array([size[1], size[0]]) / 2 + [[0.5, -3], [2, 7], [0, 0], [-5, 4]]
    camera = Camera.from_opencv(
        *(torch.from_numpy(x) for x in (r, t, k)), size, pixel_centre=pixel_centre
    )
    in_cv = points @ r.transpose(0, 2, 1) + t[:, None]
    uvw = in_cv @ k.transpose(0, 2, 1)
    u, v = uvw[..., 0] / uvw[..., 2], uvw[..., 1] / uvw[..., 2]
    shift = 0.5 - pixel_centre  # now the first pixel's centre is at 0.5 in both cases
    xy, depth = camera.project(torch.from_numpy(points))
    close(xy, ndc_of_pixels(u + shift, v + shift, size))
    close(depth, in_cv[..., 2])
    for got, want in zip(camera.to_opencv(size, pixel_centre=pixel_centre), (r, t, k), strict=True):
        close(got, want, 1e-11)


def test_pixel_centres_follow_the_image_frame():
    # The principal ray through the centre of pixel (row 2, column 5) hits NDC (2j + 1 - n) / n.
    height, width = 10, 16
    for pixel_centre in (0.5, 0.0):
        pixels = {"fx": 20.0, "cx": 5 + pixel_centre, "cy": 2 + pixel_centre}
        camera = Camera.from_intrinsics(
            image_size=(height, width), pixel_centre=pixel_centre, **pixels
        ).to(F64)
        xy, _ = camera.project(double([[0.0, 0.0, -3.0]]))
        close(xy[0, 0], [(2 * 5 + 1 - 16) / 10, -(2 * 2 + 1 - 10) / 10], 1e-6)
    middle = Camera.from_intrinsics(image_size=(height, width), fx=20.0, pixel_centre=0)
    close(middle.principal, [[0.0, 0.0]])
    close(middle.focal, [[4.0, 4.0]], 1e-6)


@for_each(size=SIZES)
def test_opengl_perspective(size):
    r, t, points = poses(4, seed=1)
    view = np.tile(np.eye(4), (4, 1, 1))
    view[:, :3, :3], view[:, :3, 3] = r, -t  # ahead is -z
    left, right, bottom, top, near, far = -0.3, 0.5, -0.25, 0.2, 1.5, 20.0
    p = np.array(
        [
            [2 * near / (right - left), 0, (right + left) / (right - left), 0],
            [0, 2 * near / (top - bottom), (top + bottom) / (top - bottom), 0],
            [0, 0, -(far + near) / (far - near), -2 * far * near / (far - near)],
            [0, 0, -1, 0],
        ]
    )
    camera = Camera.from_opengl(
        torch.from_numpy(view), projection=torch.from_numpy(p), image_size=size
    )
    clip = np.concatenate([points, np.ones((4, 20, 1))], -1) @ (p @ view).transpose(0, 2, 1)
    device = clip[..., :3] / clip[..., 3:]
    side = np.array([size[1], size[0]]) / min(size)
    xy, depth = camera.project(torch.from_numpy(points))
    close(xy, device[..., :2] * side)
    close(depth, clip[..., 3])
    got_view, got_p = camera.to_opengl(size, near=near, far=far)
    close(got_view, view)
    close(got_p, np.tile(p, (4, 1, 1)))
    # The pose as NeRF tools write it is the inverse of the view matrix.
    close(camera.camera_to_world, np.linalg.inv(view))
    again = Camera.from_opengl(camera_to_world=camera.camera_to_world, fov=double(50.0))
    close(again.rotation, camera.rotation)
    close(again.translation, camera.translation)
    close(again.focal, np.full((4, 2), 1 / math.tan(math.radians(25))))


def test_opengl_orthographic():
    camera = look_at(4.0, 20.0, 50.0, orthographic=True, dtype=F64)
    view, p = camera.to_opengl((40, 64), near=-1.0, far=9.0)
    points = torch.randn(5, 3, dtype=F64)
    clip = torch.cat([points, torch.ones(5, 1, dtype=F64)], -1) @ (p @ view)[0].T
    close(clip[:, 3], np.ones(5))
    xy, depth = camera.project(points)
    close(clip[:, :2] * double([1.6, 1.0]), xy[0])
    close(clip[:, 2], (depth[0] + 1) / 5 - 1)
    again = Camera.from_opengl(view, projection=p, image_size=(40, 64))
    assert again.orthographic
    close(again.project(points)[0], xy)


@for_each(orthographic=[False, True])
def test_pytorch3d(orthographic):
    r, t, points = poses(4, seed=2)
    f = np.array([[2.0, 2.5], [3, 3], [1, 4], [2, 2]])
    c = np.array([[0.1, 0.2], [-0.3, 0], [0, 0.5], [0, 0]])
    arguments = [torch.from_numpy(x) for x in (r, t, f, c)]
    camera = Camera.from_pytorch3d(*arguments, orthographic=orthographic)
    view = points @ r + t[:, None]  # row vectors; x points left
    plane = view[..., :2] if orthographic else view[..., :2] / view[..., 2:]
    ndc = f[:, None] * plane + c[:, None]
    xy, depth = camera.project(torch.from_numpy(points))
    close(xy, ndc * [-1, 1])
    close(depth, view[..., 2])
    for got, want in zip(camera.to_pytorch3d(), arguments, strict=True):
        close(got, want)


@for_each(size=SIZES)
def test_pytorch3d_in_pixels(size):
    r, t, points = poses(2, seed=4)
    f, c = np.array([[60.0, 70], [80, 80]]), np.array([[20.0, 15], [31, 22]])
    camera = Camera.from_pytorch3d(*(torch.from_numpy(x) for x in (r, t, f, c)), image_size=size)
    view = points @ r + t[:, None]
    # To the left in view is to the left on the screen, whose x grows to the right and y down.
    u = c[:, None, 0] - f[:, None, 0] * view[..., 0] / view[..., 2]
    v = c[:, None, 1] - f[:, None, 1] * view[..., 1] / view[..., 2]
    close(camera.project(torch.from_numpy(points))[0], ndc_of_pixels(u, v, size))


# -- what is refused ---------------------------------------------------------------------------

NAN = float("nan")
GOOD = look_at(2.0, 0.0, 0.0)

NONE = torch.zeros(0)
BAD = {
    "distance must be > 0, got 0": lambda: look_at(0.0, 0, 0),
    "elevation must be finite": lambda: look_at(1.0, NAN, 0),
    r"fov must be in \(0, 180\)": lambda: look_at(1.0, 0, 0, fov=180),
    r"fov must be in \(0, 180\).*-3": lambda: Camera(fov=-3),
    "azimuth needs 1 or 3": lambda: look_at(1.0, [0, 1, 2], [0, 1]),
    "azimuth must be of at least one": lambda: look_at(1.0, 0, NONE),
    "fov must be of at least one camera": lambda: Camera(fov=NONE),
    "focal must be of at least one camera": lambda: Camera(focal=NONE),
    r"at must be of at least one camera, got shape \[0, 3\]": lambda: look_at(
        1.0, 0, 0, at=torch.zeros(0, 3)
    ),
    r"rotation must be of at least one camera, got shape \[0, 3, 3\]": lambda: Camera(
        torch.zeros(0, 3, 3)
    ),
    "axis_angle must be of at least one camera": lambda: GOOD.expand(2).rotated(torch.zeros(0, 3)),
    "determinant 1, want -1.*from_opencv": lambda: Camera(torch.eye(3)),
    "not orthonormal": lambda: Camera(GOOD.rotation * 2),
    r"rotation must have shape \[3, 3\] or \[B, 3, 3\], got \[4, 4\]": lambda: Camera(torch.eye(4)),
    "give one of them": lambda: Camera(focal=1.0, fov=30),
    "focal must be > 0, got 0": lambda: Camera(focal=0.0),
    "give focal": lambda: Camera(orthographic=True),
    "up is parallel": lambda: look_from((0, 1, 0)),
    "from eye to at has length 0": lambda: look_from((1, 2, 3), (1, 2, 3)),
    "points must have shape": lambda: GOOD.project(torch.zeros(5, 2)),
    "2 point sets and 3 cameras": lambda: GOOD.expand(3).project(torch.zeros(2, 5, 3)),
    "transposed": lambda: Camera.from_intrinsics([[9, 0, 0], [0, 9, 0], [4, 4, 1]], 8),
    "skew 1 .K.0, 1.., which cameras here do not have; shear the images first": lambda: (
        Camera.from_intrinsics([[9, 1, 4], [0, 9, 4], [0, 0, 1]], 8)
    ),
    "K must have focal lengths > 0, got -9; .* negate that column of K and that row of R": lambda: (
        Camera.from_opencv(torch.eye(3), [0, 0, 1], [[-9, 0, 4], [0, 9, 4], [0, 0, 1]], 8)
    ),
    "image_size": lambda: Camera.from_intrinsics(fx=9.0, image_size=(8, 0)),
    "pixel intrinsics need image_size": lambda: Camera.from_intrinsics(fx=9.0),
    "R.0. has determinant -1, want 1": lambda: Camera.from_opencv(
        GOOD.rotation, [0, 0, 1], torch.eye(3), 8
    ),
    "last row of view must be 0 0 0 1": lambda: Camera.from_opengl(torch.ones(4, 4)),
    "all perspective or all orthographic": lambda: Camera.batch(
        [GOOD, look_at(2.0, 0, 0, orthographic=True)]
    ),
    "at least one": lambda: Camera.batch([]),
}
BAD_TYPES = {
    "distance must be a number or a tensor": lambda: look_at("far", 0, 0),
    "distance must be float32 or float64, got float16": lambda: look_at(
        torch.ones(2, dtype=torch.float16), 0, 0
    ),
    "azimuth must have the dtype of distance": lambda: look_at(torch.ones(1), 0, double([1.0])),
    "dtype of the camera": lambda: GOOD.project(double([[0.0, 0, 0]])),
}


def test_bad_input_is_named_in_one_line():
    for kind, calls in ((ValueError, BAD), (TypeError, BAD_TYPES)):
        for words, call in calls.items():
            with pytest.raises(kind, match=words) as caught:
                call()
            assert "\n" not in str(caught.value)


@for_each(orthographic=[False, True])
def test_projection_is_kept_until_the_camera_changes(orthographic):
    ball, turns = icosphere(0).scaled(0.5), (10.0, 80.0, 200.0)
    camera = look_at(2.7, 30.0, torch.tensor(turns), orthographic=orthographic)
    clip, depth = camera.clip_coordinates(ball.vertices)
    got = torch.cat([ball.vertices, torch.ones(len(ball.vertices), 1)], 1) @ camera.projection.mT
    torch.testing.assert_close(got[..., :3], clip)
    torch.testing.assert_close(got[..., 3], depth)
    before = camera.projection.clone()
    camera.translation.add_(1.0)
    assert not torch.equal(camera.projection, before)
    assert look_at(2.7, 30.0, torch.tensor(turns, requires_grad=True)).projection.requires_grad


@pytest.mark.rotating(7, group="graphs")
@pytest.mark.graphs
def test_look_at_is_one_graph():
    def image(distance):
        return look_at(distance, 20.0, distance, 10 * distance).project(torch.eye(3))[0]

    cases = (torch.arange(count) + 2.0 for count in (2, 3))
    assert_graph(image, *cases, backend="eager", fullgraph=True)
