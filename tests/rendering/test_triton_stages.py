"""Stages of the Triton renderer: projection, lists and pieces of faces, the order of layers."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

import gendr
from gendr import Mesh, Renderer, look_at
from gendr._common import readback
from gendr.mesh import cube, icosphere
from gendr.rendering import shading
from gendr.rendering.backends.triton import ordered as joining
from gendr.rendering.backends.triton import project, tiles
from gendr.rendering.geometry import ImageSize, by_index, camera_space, depth_limits, polygons_of
from support import TOLERANCES, relative_l2, soup
from support.cases import for_each
from support.layers import Scene
from support.races import checked_launches, random_grid_order
from support.triton import (
    DEVICE,
    INTERPRETED,
    needs_a_place,
    needs_the_interpreter,
    small_projections,
)  # fmt: skip

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
        assert project.ProjectSpec.read(*spec.serialized()) == spec
        torch.library.opcheck(
            torch.ops.gendr.project, (inputs, *spec.serialized()),
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


# -------------------------------------------------------------------------------------------------
# Lists and pieces of faces


@pytest.fixture
def small_lists(monkeypatch):
    """Few faces are listed too, in several chunks and segments."""
    monkeypatch.setattr(tiles, "LAUNCH", replace(tiles.LAUNCH, walked=0))
    monkeypatch.setattr(tiles, "LEAST_CHUNK", 32)
    monkeypatch.setattr(tiles, "SEGMENT", 16)


def boxes_of(faces, size, seed=3):
    """Random boxes [T, 4]; some are empty, as those of absent faces, and one reaches all over."""
    rng = np.random.default_rng(seed)
    out = np.zeros((faces, 4), np.int32)
    for k, n in ((0, size.width), (2, size.height)):
        first = rng.integers(0, n, faces)
        out[:, k] = first
        out[:, k + 1] = np.minimum(n, first + rng.integers(1, max(2, int(0.3 * n)), faces))
    out[rng.random(faces) < 0.2] = 0
    if faces > 4:
        out[faces // 2] = 0, size.width, 0, size.height
    return out


def searched(boxes, offsets, tiling):
    """The faces of each tile, one after the other."""
    out = []
    for first, last in pairwise(offsets):
        own = boxes[first:last]
        for tile in range(tiling.tiles):
            y, x = (tile // tiling.columns) * tiling.height, (tile % tiling.columns) * tiling.width
            hit = (own[:, 0] < x + tiling.width) & (own[:, 1] > x)
            hit &= (own[:, 2] < y + tiling.height) & (own[:, 3] > y)
            out.append((first + np.flatnonzero(hit)).tolist())
    return out


# Faces of images, size of images, tiles.
CASES = {
    "one image": ((0, 150), (70, 90), (8, 8)),
    "several groups of tiles": ((0, 40), (40, 150), (4, 8)),
    "ragged, one image empty": ((0, 90, 90, 93, 300), (20, 33), (16, 16)),
    "more tiles than are scanned at once": ((0, 9, 20), (130, 170), (4, 4)),
    "one tile": ((0, 70, 140), (7, 9), (16, 16)),
    "one face": ((0, 1), (30, 30), (8, 8)),
    "no images": ((0,), (30, 30), (8, 8)),
    "no faces": ((0, 0, 0), (30, 30), (8, 8)),
}


@pytest.mark.usefixtures("small_lists")
@pytest.mark.rotating(4, group="rendering")
@for_each(case=CASES, rotating=3)
def test_lists_are_those_of_a_search_in_the_order_of_faces(case):
    """In any order of programs, and without a race, where Triton is interpreted."""
    offsets, size, tile = CASES[case]
    size = ImageSize(*size)
    boxes, tiling = boxes_of(offsets[-1], size), tiles.Tiling.of(size, tile)
    there = torch.from_numpy(boxes).to(DEVICE)
    if INTERPRETED and case.startswith("ragged"):
        with random_grid_order(5), checked_launches() as watch:
            found = tiles.lists_of(there, offsets, tiling)
        assert max(watch.programs) > 10
    else:
        found = tiles.lists_of(there, offsets, tiling)
    starts, stops, faces = (x.tolist() for x in (found.starts, found.stops, found.faces))
    if not offsets[-1]:  # nothing is listed where there is nothing
        assert [b - (-1 - a) for a, b in zip(starts, stops, strict=True)] == [0] * len(starts)
        assert len(starts) == (len(offsets) - 1) * tiling.tiles
        return
    assert [faces[a:b] for a, b in zip(starts, stops, strict=True)] == searched(
        boxes, offsets, tiling
    )
    # Every tile of more than a segment has extra programs, which know it.
    tile_of = found.tile_of_segment.tolist()
    for tile, (a, b, first) in enumerate(zip(starts, stops, found.segments.tolist(), strict=True)):
        more = max(0, (b - a - 1) // 16)
        assert (first == -1) == (more == 0)
        assert tile_of[first : first + more] == [tile] * more


# Of different numbers of faces, as the capacity of lists is kept for each.
@pytest.mark.usefixtures("small_lists")
@pytest.mark.rotating(4, group="rendering")
@for_each("family, count", [("probabilistic", 10), ("max", 11)])
def test_the_same_bits_come_out_of_lists_and_walks_and_of_any_capacity(monkeypatch, family, count):
    """Faces grow in the second step, whose lists do not fit; in the third they do."""
    monkeypatch.setattr(tiles, "SEGMENT", 4)
    monkeypatch.setattr(tiles, "LEAST", 1)
    generator = torch.Generator().manual_seed(3)
    centres = torch.rand(count, 1, 2, generator=generator) * 1.6 - 0.8
    turned = torch.rand(count, 3, 2, generator=generator) - 0.5
    seen, listed = [], tiles.lists_of
    monkeypatch.setattr(tiles, "lists_of", lambda *x: seen.append(listed(*x)) or seen[-1])

    def image(size, walked):
        launch = replace(tiles.LAUNCH, tile=(8, 8), block_faces=1, walked=walked, fits=False)
        monkeypatch.setattr(tiles, "LAUNCH", launch)
        scene = torch.cat([centres + size * turned, torch.ones(count, 3, 1)], -1)[None].to(DEVICE)
        return gendr.silhouette(scene, (9, 11), "uniform", family, 0.02, backend="triton")

    sizes = (0.4, 6.0, 6.0)
    found = [image(size, 0) for size in sizes]
    assert [bool((lists.starts < 0).any()) for lists in seen] == [False, True, False]
    for got, size in zip(found, sizes, strict=True):
        assert got.any()
        assert torch.equal(got, image(size, 99))


@pytest.mark.usefixtures("small_lists")
@pytest.mark.rotating(4, group="rendering")
@pytest.mark.rotating(2)
@needs_the_interpreter
@pytest.mark.parametrize("shading", ["silhouette", "colours"])
def test_pieces_give_the_gradients_of_whole_faces(monkeypatch, shading):
    """Of two images with large faces; the same bits in any order, and no races."""
    ball = icosphere(0).scaled(0.7)
    camera = gendr.look_at(2.732, 30.0, torch.tensor([10.0, 70.0]))
    weights = torch.rand(2, 12, 14, generator=torch.Generator().manual_seed(1))

    def gradients():
        vertices = ball.vertices.clone().requires_grad_()
        mesh = gendr.Mesh(vertices, ball.faces[:3]).with_vertex_colors(vertices.detach().abs())
        renderer = gendr.Renderer(
            (12, 14), "logistic", scale=0.02, near=1.0, backend="triton", learnable=("scale",)
        )
        out = renderer(mesh, camera)
        image = out.alpha if shading == "silhouette" else out.rgb.sum(1)
        (image * weights).sum().backward()
        return vertices.grad, *(p.grad for p in renderer.parameters() if p.grad is not None)

    monkeypatch.setattr(tiles, "LAUNCH", replace(tiles.LAUNCH, block_pixels=16))
    want = gradients()
    for name, value in {"PIECE": 32, "PIECES": 20, "_WHOLE": 0}.items():
        monkeypatch.setattr(tiles, name, value)
    cut = gradients()
    with random_grid_order(5), checked_launches() as watch:
        shuffled = gradients()
    assert {"count_pieces", "list_pieces", "join_pieces"} <= set(watch.kernels)
    for got, same, reference in zip(cut, shuffled, want, strict=True):
        assert torch.equal(got, same)
        torch.testing.assert_close(got, reference, rtol=1e-4, atol=1e-5)


# -------------------------------------------------------------------------------------------------
# Layers

ON_THE_CPU = pytest.mark.skipif(DEVICE != "cpu", reason="its scenes are on the CPU")


@ON_THE_CPU
@pytest.mark.rotating(4, group="rendering")
def test_too_little_room_for_pairs_is_found_out_in_the_backward_pass(monkeypatch):
    scene, seen = Scene(soup(1, 6, 3), (7, 9), "logistic", "frank(p=2)"), []
    want = scene.found("triton", torch.float32)
    joined = joining._joined
    monkeypatch.setattr(joining, "_joined", lambda *x: seen.append(x[-1]) or joined(*x))
    monkeypatch.setattr(joining.OrderedPlan, "fit", lambda plan, pairs: None)
    plan = tiles.plan_of.__wrapped__
    monkeypatch.setattr(joining, "plan_of", lambda *x: roomy(plan(*x), 5))
    got = scene.found("triton", torch.float32)
    assert seen[0] == 5
    assert len(seen) == 2
    assert seen[1] > 5
    assert all(torch.equal(got[2][k], want[2][k]) for k in want[2])
    with torch.no_grad():
        scene.drawn("triton", {k: v.float() for k, v in scene.leaves.items()})
    assert seen[2] is None


def roomy(plan, room):
    plan.room = room
    return plan


@ON_THE_CPU
def test_gradients_in_a_cuda_graph_are_refused(monkeypatch):
    monkeypatch.setattr(joining, "capturing", lambda _: True)
    scene = Scene(soup(1, 2, 3), (3, 4), "logistic", "max")
    with pytest.raises(RuntimeError, match=r"cannot be captured in a CUDA graph: .*take the step"):
        scene.found("triton")


def test_only_what_is_not_linear_lists_fragments(monkeypatch):
    calls, real = [], shading.recomputed
    monkeypatch.setattr(shading, "recomputed", lambda *args: calls.append(1) or real(*args))
    ball, camera = icosphere(1).to(DEVICE), look_at(2.0, 20.0, 10.0).to(DEVICE)
    for options, count in (({}, 0), ({"lighting": "phong"}, 1), ({"near": 1.3}, 1)):
        calls.clear()
        images = [Renderer(16, scale=2e-2, backend=b, **options)(ball, camera).rgb.cpu()
                  for b in ("triton", "reference")]  # fmt: skip
        assert (images[0] - images[1]).abs().max() <= TOLERANCES[torch.float32].alpha
        assert len(calls) == count + 1  # the reference always does
