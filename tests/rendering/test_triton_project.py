"""The kernels that project, against the code that all other backends share."""

from itertools import product

import pytest
import torch

from gendr import Mesh, Renderer, look_at
from gendr._common import readback
from gendr.mesh import cube, icosphere
from gendr.rendering.geometry import by_index, camera_space, depth_limits, polygons_of
from support import relative_l2
from support.cases import for_each

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

from gendr.rendering.backends.triton import project
from support.triton import DEVICE, needs_a_place, small_projections

pytestmark = needs_a_place
BALL, BOX = icosphere(0).scaled(0.5), cube().scaled(0.3)
TURNS = (10.0, 80.0, 200.0)


def one_mesh(vertices):
    return BALL.to(vertices.device, vertices.dtype).with_vertices(vertices)


def three_meshes(vertices):
    ball = one_mesh(vertices)
    box = BOX.to(vertices.device, vertices.dtype)
    return Mesh.batch([ball, box, ball.with_vertices(0.8 * vertices)])


def copies(vertices):
    return one_mesh(vertices).with_vertices(torch.stack([vertices, -vertices, 0.5 * vertices]))


SCENES = {
    "three cameras": (one_mesh, TURNS, 2.7, 1.0, 100.0, None),
    "clipped": (one_mesh, TURNS, 2.7, 2.5, 100.0, False),
    "orthographic": (one_mesh, TURNS, 2.7, 2.6, None, True),
    "many meshes": (three_meshes, TURNS, 2.7, 2.4, 3.0, False),
    "many meshes, one camera": (three_meshes, TURNS[:1], 2.7, 1.0, 100.0, None),
    "copies of a mesh": (copies, TURNS, 2.7, None, 2.8, False),
    "the eye is inside": (one_mesh, TURNS, 0.3, None, None, False),
    "the scene is near": (one_mesh, TURNS, 0.9, None, None, False),
    "the scene is far": (one_mesh, TURNS, 300.0, None, None, False),
}


def projected(scene, dtype):
    """Corners, present, and the gradients of vertices and camera, by the kernels or in float64."""
    make, turns, distance, near, far, orthographic = SCENES[scene]
    vertices = BALL.vertices.to(DEVICE, dtype).clone().requires_grad_()
    turn = torch.tensor(turns, dtype=dtype, device=DEVICE, requires_grad=True)
    mesh, camera = make(vertices), look_at(distance, 30.0, turn, orthographic=orthographic)
    if dtype == torch.float32:
        faces = project.project(mesh, camera, near, far, owner=None)
    else:
        space = camera_space(mesh, camera)
        planes = depth_limits(near, far, *space.depths())
        faces = polygons_of(space, *planes, False, by_index).on_screen()
    corners, present = faces.corners, faces.present
    if corners.shape[1] == 3:
        corners = torch.cat([corners, corners[:, 2:]], 1)
    weights = torch.linspace(-1, 1, corners.numel(), dtype=torch.float64).reshape(corners.shape)
    grads = torch.autograd.grad((corners * weights.to(corners))[present].sum(), (vertices, turn))
    return corners[present].detach(), present, *grads, faces.offsets


def launches(seed, every):
    """Each scene with small launches or the usual ones in turn, or with both."""
    both = True, False
    if every:
        return [*product(SCENES, both)]
    return [(scene, both[(k + seed) % 2]) for k, scene in enumerate(SCENES)]


@for_each("scene, small", launches, rotating=5)
def test_polygons_and_gradients_are_those_of_the_shared_code(scene, small, monkeypatch):
    if small:
        small_projections(monkeypatch)
    corners, present, *grads, offsets = projected(scene, torch.float32)
    want, want_present, *want_grads, want_offsets = projected(scene, torch.float64)
    assert offsets == want_offsets
    assert torch.equal(present, want_present)
    assert present.any()
    torch.testing.assert_close(corners.double(), want, rtol=2e-5, atol=2e-5)
    for got, expected in zip(grads, want_grads, strict=True):
        assert relative_l2(got, expected) < 2e-4
    if scene == "clipped":
        again = projected(scene, torch.float32)  # the same bits
        assert all(map(torch.equal, (corners, present, *grads), again[:4]))


def test_projected_faces_and_their_gradients():
    """Shared corners, what is wanted, float64, and after a call in inference mode."""
    camera, mesh = look_at(2.7, 30.0, torch.tensor(TURNS, device=DEVICE)), BALL.to(DEVICE)
    with torch.inference_mode():
        faces = project.project(mesh, camera, 1.0, 100.0, owner=None)
    index = mesh.faces.reshape(-1)
    for corners in faces.corners[:, :3].reshape(3, -1, 2):  # a vertex has one corner, in every bit
        of_vertex = torch.empty(len(mesh.vertices), 2, device=DEVICE)
        of_vertex[index] = corners
        assert torch.equal(of_vertex[index], corners)
    for of_vertices, of_camera in ((True, False), (False, True)):
        vertices = BALL.vertices.to(DEVICE).clone().requires_grad_(of_vertices)
        turn = torch.tensor(TURNS, device=DEVICE, requires_grad=of_camera)
        faces = project.project(one_mesh(vertices), look_at(2.7, 30.0, turn), 1.0, 100.0, None)
        (grad,) = torch.autograd.grad(
            faces.corners.square().sum(), vertices if of_vertices else turn, create_graph=True
        )
        assert grad.abs().sum() > 0
        with pytest.raises(RuntimeError, match="no second derivatives"):
            grad.sum().backward()
    wide = BALL.to(DEVICE, torch.float64), camera.to(torch.float64)
    assert project.project(*wide, 1.0, 100.0, owner=None) is None  # left to the shared code


def test_no_cameras_and_no_faces():
    camera = look_at(2.7, 30.0, torch.tensor(TURNS, device=DEVICE))
    vertices = BALL.vertices.to(DEVICE).clone().requires_grad_()
    faces = project.project(one_mesh(vertices), camera[:0], None, None, owner=None)
    assert faces.corners.shape == (0, 4, 2)
    faces.corners.sum().backward()
    assert torch.equal(vertices.grad, torch.zeros_like(vertices))
    nothing = Mesh(torch.rand(3, 3, device=DEVICE), torch.empty(0, 3, dtype=torch.int64).to(DEVICE))
    faces = project.project(nothing, camera, None, None, owner=None)
    assert faces.offsets == (0, 0, 0, 0)


def test_nan_is_reported_by_a_later_call():
    vertices = BALL.vertices.to(DEVICE).clone()
    camera = look_at(2.7, 30.0, 0.0, device=DEVICE)
    mesh = one_mesh(vertices)
    broken = mesh.with_vertices(vertices.index_fill(0, torch.tensor([3], device=DEVICE), torch.nan))
    project.project(broken, camera, 1.0, 100.0, owner=None)
    project.project(mesh, camera, 1.0, 100.0, owner=0)  # the one before was not asked for
    faces = project.project(broken, camera, 1.0, 100.0, owner=0)
    seen = (mesh.faces != 3).all(1)
    assert torch.equal(faces.present, seen)  # faces with NaN are not seen
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    project.project(mesh, camera, 1.0, 100.0, owner=1)  # who had no NaN is not blamed
    with pytest.raises(ValueError, match="vertices of a mesh must be finite"):
        project.project(mesh, camera, 1.0, 100.0, owner=0)
    camera.translation[0, 0] = torch.inf
    project.project(mesh, camera, 1.0, 100.0, owner=0)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    with pytest.raises(ValueError, match="matrices of a camera must be finite"):
        project.project(mesh, camera, 1.0, 100.0, owner=0)


@for_each(orthographic=[False, True])
def test_projection_is_kept_until_the_camera_changes(orthographic):
    camera = look_at(2.7, 30.0, torch.tensor(TURNS), orthographic=orthographic)
    clip, depth = camera.clip_coordinates(BALL.vertices)
    got = torch.cat([BALL.vertices, torch.ones(len(BALL.vertices), 1)], 1) @ camera.projection.mT
    torch.testing.assert_close(got[..., :3], clip)
    torch.testing.assert_close(got[..., 3], depth)
    before = camera.projection.clone()
    camera.translation.add_(1.0)
    assert not torch.equal(camera.projection, before)
    assert look_at(2.7, 30.0, torch.tensor(TURNS, requires_grad=True)).projection.requires_grad


@pytest.mark.rotating(4, group="rendering")
def test_operators_say_what_they_are():
    camera = look_at(2.7, 30.0, torch.tensor(TURNS, device=DEVICE))
    mesh = BOX.to(DEVICE)
    offsets = 0, 12, 24, 36
    inputs = [
        mesh.vertices.clone().requires_grad_(), camera.projection, mesh.faces, *mesh.vertex_corners
    ]  # fmt: skip
    for near in (1.0, None):
        spec = project.ProjectSpec((0, len(mesh.vertices)), offsets, near, 100.0)
        assert project.ProjectSpec.read(*spec.carried()) == spec
        torch.library.opcheck(
            torch.ops.gendr.project, (inputs, *spec.carried()),
            test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
        )  # fmt: skip


def test_triton_tells_graphs_what_its_kernels_read():
    mesh, camera = icosphere(1).scaled(0.5), look_at(2.7, 20.0, 0.0)
    renderer = Renderer(8, "logistic", scale=2e-2, backend="triton", learnable=("scale",))
    vertices = mesh.vertices.clone().requires_grad_()
    with torch.set_grad_enabled(False):
        assert renderer(mesh, camera).alpha.numel()
        kept = []
        with readback.holding(kept):
            assert renderer(mesh.with_vertices(vertices), camera).alpha.numel()
    addresses = {
        x.data_ptr()
        for args in kept
        for x in (args if isinstance(args, tuple) else (args,))
        if isinstance(x, torch.Tensor)
    }
    assert {vertices.data_ptr(), mesh.faces.data_ptr()} <= addresses
