"""What holds for every backend alike, in float64 or, if it is Triton's, in float32."""

import importlib
import sys
import warnings
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import gendr
from gendr import Renderer, look_at
from gendr.kernels import backends as kernel_backends
from gendr.kernels.triton import launch
from gendr.mesh import Camera, Mesh, icosphere
from gendr.rendering import aggregation, api, geometry
from gendr.rendering.aggregation import Aggregation
from gendr.rendering.backends import reference
from gendr.rendering.backends.choice import Backend, choose
from gendr.rendering.backends.cpu import backend as cpu
from gendr.rendering.backends.cpu import ordered_kernels
from gendr.rendering.backends.cpu import softmax as cpu_softmax
from gendr.rendering.coverage import Coverage
from gendr.rendering.fragments import signed_distance
from gendr.rendering.geometry import ImageSize, ScreenFaces, project_faces
from support import TOLERANCES, degenerate, relative_l2, soup, touching
from support.backends import BACKENDS, assert_equals_reference, place
from support.cases import for_each
from support.layers import Scene as Layers

KERNELS = [name for name in BACKENDS if name != "reference"]
BALL = icosphere(1).scaled(0.5)


def operation_of(backend, name):
    """What the tests of chosen backends do not reach."""
    return getattr(choose(backend, torch.zeros(1, device=place(backend)[0])), name)


def silhouette(backend, scene, *args, **options):
    """The image, and the gradient of the corners through the sum of its squares."""
    corners = scene.to(*place(backend), copy=True).requires_grad_()
    alpha = gendr.silhouette(corners, *args, backend=backend, **options)
    alpha.square().sum().backward()
    return alpha.detach(), corners.grad


def assert_close(got, want, dtype):
    """An image and its gradient, as far as the dtype goes."""
    tolerance = TOLERANCES[dtype]
    torch.testing.assert_close(got[0].to(want[0]), want[0], rtol=0, atol=tolerance.alpha)
    assert relative_l2(got[1].cpu(), want[1].cpu()) <= tolerance.gradient


@pytest.mark.rotating(4, group="rendering")
@for_each(backend=KERNELS, size=[(1, 1), (1, 7), (9, 2), (17, 19)])
def test_sizes_that_are_no_multiple_of_a_tile(backend, size):
    member, scales = gendr.instance("gaussian/probabilistic"), torch.tensor([0.1, 0.03])
    assert_equals_reference(backend, soup(2, 5, 4), size, member, scales)


@for_each(
    backend=KERNELS,
    scene=[touching(5), soup(1, 6, 4)],
    name=["uniform/max", "logistic/max", "logistic/probabilistic", "cauchy.squared/yager(p=2.0)"],
    rotating=5,
)
def test_ties_overlaps_and_an_exact_cutoff(backend, name, scene):
    """Fans share edges: two faces reach the maximum of a pixel, and split its gradient evenly."""
    assert_equals_reference(backend, scene, (16, 16), gendr.instance(name), 0.1, cutoff=0.0)


@for_each(backend=BACKENDS)
def test_a_tie_of_the_maximum_is_split_evenly(backend):
    """Two faces on the same side of a shared edge, pixels beyond it: the distance is the same."""
    shared = torch.tensor([[-0.613, 0.117], [0.591, 0.203]])
    apexes = torch.tensor([[0.05, 0.9], [-0.3, 0.7]])
    first, second = torch.cat([shared, apexes[:1]]), torch.cat([shared.flip(0), apexes[1:]])
    scene = torch.cat([torch.stack([first, second]), torch.ones(2, 3, 1)], -1)[None]
    scene = scene.to(*place(backend)).requires_grad_()
    # Far in the tail the last bit of a distance shows in F; pixels below the middle of the edge.
    scale = 0.1 if backend == "triton" else 0.02
    alpha = gendr.silhouette(scene, 16, "logistic", "max", scale, cutoff=0.0, backend=backend)
    alpha[0, 8:, 5:11].log().sum().backward()
    assert scene.grad.abs().sum() > 0
    torch.testing.assert_close(scene.grad[0, 0, :2], scene.grad[0, 1, :2].flip(0))


@for_each(backend=BACKENDS, tconorm=["max", "probabilistic", "yager(p=2)"])
def test_a_saturated_pixel_is_1_and_passes_no_gradient(backend, tconorm):
    """A pixel centre exactly on an edge, where exponential.reversed has F = 1 and slope 1."""
    scene = torch.tensor([[[[-0.9, 0.0, 1], [0.9, 0.0, 1], [0.0, 0.9, 1]]]])
    scene = torch.cat([scene, soup(1, 3, 1, torch.float32)], 1).to(*place(backend))
    scale = torch.tensor(0.3).to(scene).requires_grad_()
    scene.requires_grad_()
    alpha = gendr.silhouette(scene, 5, "exponential.reversed", tconorm, scale, backend=backend)
    assert alpha[0, 2, 2] == 1
    alpha[0, 2, 2].backward()
    assert not scene.grad.any()
    assert scale.grad == 0


@for_each(backend=BACKENDS)
def test_faces_with_a_depth_that_is_not_positive_are_ignored(backend):
    scene = soup(1, 6, 2, torch.float32)
    scene[0, 1, 2, 2] = 0.0
    scene[0, 4, 0, 2] = -1.0
    seen = [0, 2, 3, 5]
    image, grad = silhouette(backend, scene, 12, "cauchy", scale=0.1)
    alone, of_seen = silhouette(backend, scene[:, seen], 12, "cauchy", scale=0.1)
    torch.testing.assert_close(image, alone)
    torch.testing.assert_close(grad[:, seen], of_seen)
    assert not grad[:, [1, 4]].any()
    assert not silhouette(backend, scene[:, [1, 4]], 12, "cauchy", scale=0.1)[0].any()


@for_each(backend=KERNELS)
def test_faces_far_outside_neither_show_nor_break_anything(backend):
    scene = soup(1, 3, 6)
    far = torch.cat([scene, scene + 50.0, scene * torch.tensor([1e6, 1e6, 1]) + 3e9], 1)
    near, _ = silhouette(backend, scene, 16, "gaussian", "einstein", 0.1)
    both, grad = silhouette(backend, far, 16, "gaussian", "einstein", 0.1)
    assert torch.equal(near, both)
    assert torch.isfinite(grad).all()
    assert not grad[:, 3:].any()


def quads(count, seed):
    """Convex polygons of four corners, of either orientation: [T, 4, 2]."""
    generator = torch.Generator().manual_seed(seed)
    turn = torch.rand(count, 1, generator=generator) * 6
    angle = turn + torch.tensor([0.0, 0.9, 2.6, 4.4])
    angle[::2] = angle[::2].flip(-1)
    centre = torch.rand(count, 1, 2, generator=generator) * 1.6 - 0.8
    return centre + 0.4 * torch.stack([angle.cos(), angle.sin()], -1)


@for_each(
    backend=KERNELS,
    corners=[soup(1, 9, 10, torch.float32)[0, :, :, :2], quads(9, 2)],
    family=["probabilistic", "average", "max"],
    rotating=4,
)
def test_images_with_different_numbers_of_faces(backend, corners, family):
    """Of three corners and, where the near plane cuts them, of four."""
    size, offsets, weight = ImageSize(12, 17), (0, 3, 3, 8, 9), torch.rand(4, 12, 17)
    results = []
    for name in (backend, "reference"):
        leaf = corners.to(*place(name), copy=True).requires_grad_()
        scale = torch.tensor([0.1, 0.2, 0.3, 0.05]).to(leaf).requires_grad_()
        coverage = Coverage(gendr.distributions.get("logistic"), scale, 0.0)
        rule = Aggregation(coverage, gendr.tnorms.tconorm(family))
        alpha = operation_of(name, "alpha")(ScreenFaces(leaf, offsets), size, rule)
        (alpha * weight.to(alpha)).sum().backward()
        results.append([x.detach().double().cpu() for x in (alpha, leaf.grad, scale.grad)])
    (alpha, *grads), want = results
    assert_close((alpha, grads[0]), want[:2], place(backend)[1])
    assert not alpha[1].any()
    assert grads[1][1] == 0
    assert relative_l2(grads[1], want[2]) <= TOLERANCES[place(backend)[1]].gradient


def test_distances_of_polygons_of_four_corners_on_the_cpu():
    size = ImageSize(14, 11)
    pixels = torch.arange(2 * size.pixels).repeat_interleave(4)
    face = torch.arange(4).repeat(2 * size.pixels) + 4 * size.image_of(pixels)
    results = []
    for name in ("cpu", "reference"):
        corners = quads(8, 2).double().requires_grad_()
        d = operation_of(name, "distance")(ScreenFaces(corners, (0, 4, 8)), size, pixels, face)
        results.append((d.detach(), *torch.autograd.grad(d.square().sum(), corners)))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-10)


@for_each(name=BACKENDS)
def test_faces_without_area_are_nearest_nowhere(name):
    """They pass through pixel centres, at distance 0; one of them is a point."""
    lines = [[[-0.8, 0.0], [0.8, 0.0], [0.4, 0.0]], [[0.0, -0.8], [0.0, 0.8], [0.0, 0.8]]]
    device, dtype = place(name)
    corners = torch.tensor([*lines, [[0.4, 0.4]] * 3], dtype=dtype, device=device)
    vertices = torch.nn.functional.pad(corners.reshape(-1, 2), (0, 1), value=-2.0)
    mesh = Mesh(vertices, torch.arange(9, device=device).reshape(3, 3))
    camera = Camera(focal=1.0, orthographic=True).to(mesh.device, dtype)
    assert (Renderer(5, backend=name)(mesh, camera).face_id == -1).all()


@for_each(backend=BACKENDS, tconorm=["yager(p=2)", "average", "max"], rotating=3)
def test_nothing_to_draw(backend, tconorm):
    """No faces, no images, no cameras: empty images, or none, and gradients of 0."""
    device, dtype = place(backend)
    empty = torch.zeros(2, 0, 3, 3, device=device, dtype=dtype, requires_grad=True)
    alpha = gendr.silhouette(empty, (6, 8), tconorm=tconorm, backend=backend)
    assert torch.equal(alpha.cpu(), torch.zeros(2, 6, 8, dtype=dtype))
    alpha.sum().backward()
    assert empty.grad.shape == empty.shape
    none = torch.empty(0, 5, 3, 3, device=device, dtype=dtype, requires_grad=True)
    for scale in (0.1, torch.empty(0, device=device, dtype=dtype, requires_grad=True)):
        alpha = gendr.silhouette(none, (6, 8), "logistic", tconorm, scale, backend=backend)
        assert alpha.shape == (0, 6, 8)
        (grad,) = torch.autograd.grad(alpha.sum(), none)
        assert grad.shape == none.shape
    for dist in ("logistic", torch.sigmoid):
        vertices = BALL.vertices.to(device).clone().requires_grad_()
        cameras = look_at(3, 20, torch.zeros(1, device=device))[:0]
        draw = Renderer((6, 8), dist, tconorm, backend=backend)
        out = draw(BALL.to(device).with_vertices(vertices), cameras)
        assert out.alpha.shape == out.depth.shape == out.face_id.shape == (0, 6, 8)
        assert out.rgb.shape == out.normals.shape == (0, 3, 6, 8)
        (out.alpha.sum() + out.rgb.sum()).backward()
        assert torch.equal(vertices.grad, torch.zeros_like(vertices))
        bare = Mesh(vertices, torch.empty(0, 3, dtype=torch.int64, device=device))
        out = draw(bare, look_at(3, 20, torch.tensor([0.0, 90.0], device=device)))
        assert out.alpha.shape == (2, 6, 8)
        assert not out.alpha.any()
        assert (out.face_id == -1).all()


@for_each(backend=KERNELS, limit=[10**9, 100])
def test_pairs_are_those_within_the_radius_and_nothing_else(backend, limit):
    camera, size = look_at(2.732, 30.0, torch.tensor([10.0, 70.0, 190.0])), ImageSize(12, 16)
    faces, _ = project_faces(icosphere(0).scaled(0.5), camera, 1.0, 100.0)
    radius, device = torch.tensor([0.05, 0.2, 0.0]), place(backend)[0]
    there = ScreenFaces(faces.corners.to(device), faces.offsets)
    listed = [
        run() for run in operation_of(backend, "pairs")(there, size, radius.to(device), limit)
    ]
    assert all(a.last == b.first for a, b in pairwise(listed))
    assert (listed[0].first, listed[-1].last) == (0, 3 * size.pixels)
    assert (len(listed) > 3) == (limit == 100)
    got = torch.cat([torch.stack([run.pixels, run.faces]) for run in listed], 1).cpu()
    dense = operation_of("reference", "pairs")(faces, size, radius, 10**9)
    every = torch.cat([torch.stack([x.pixels, x.faces]) for x in (run() for run in dense)], 1)
    d = signed_distance(size.centres(every[0], torch.float64), faces.corners.double()[every[1]])
    near = every[:, d >= -radius.double()[size.image_of(every[0])]]
    assert sorted(zip(*got.tolist(), strict=True)) == sorted(zip(*near.tolist(), strict=True))


def clipped(z):
    return ((1 + z) / 2).clamp(0, 1)


@for_each(
    "dist, name, scale",
    [
        (clipped, "uniform", 0.2),
        (gendr.distributions.from_callable(clipped, support=(-1.0, 1.0)), "uniform", 0.2),
        (torch.special.expit, "logistic", 0.05),  # the cutoff counts
    ],
    backend=BACKENDS,
)
def test_a_callable_cdf_works_wherever_a_name_does(monkeypatch, dist, name, scale, backend):
    # In several runs, which the backward pass lists again.
    monkeypatch.setattr(aggregation, "PAIRS_AT_ONCE", 150)
    scene, dtype = soup(2, 5, 6), place(backend)[1]
    want = silhouette("reference", scene, (6, 8), name, "yager(p=2)", scale)
    assert_close(silhouette(backend, scene, (6, 8), dist, "yager(p=2)", scale), want, dtype)


@pytest.mark.rotating(4, group="rendering")
@for_each(backend=KERNELS)
def test_second_derivatives_are_refused_with_a_word_on_the_reference(backend):
    corners = soup(1, 4, 0).to(*place(backend)).requires_grad_()
    alpha = gendr.silhouette(corners, 8, "gaussian", scale=0.1, backend=backend)
    vertices = BALL.vertices.to(*place(backend)).requires_grad_()
    mesh, camera = BALL.to(*place(backend)).with_vertices(vertices), look_at(3.0, 20.0, 10.0)
    draw = Renderer(6, scale=2e-2, backend=backend)
    colours = draw(mesh, camera.to(*place(backend))).rgb, vertices
    for image, leaf in [colours] if backend == "cpu" else [(alpha, corners), colours]:
        (slope,) = torch.autograd.grad(image.square().sum(), leaf, create_graph=True)
        with pytest.raises(RuntimeError, match="backend='reference'"):
            slope.sum().backward()


@for_each(backend=["reference", "cpu"])
def test_silhouettes_are_twice_differentiable(backend):
    scene = soup(1, 3, 5).requires_grad_()
    scale = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)

    def image(v, s):
        return gendr.silhouette(v, 4, "gaussian", "hamacher(p=0.5)", s, 0.0, backend)

    assert torch.autograd.gradgradcheck(image, (scene, scale), fast_mode=True)


@for_each(backend=BACKENDS)
def test_no_backend_writes_to_its_input(backend):
    scene = soup(1, 5, 1).to(*place(backend)).requires_grad_()
    before = scene.detach().clone()
    gendr.silhouette(scene, 8, backend=backend).sum().backward()
    assert torch.equal(scene.detach(), before)


@pytest.mark.rotating(4, group="long")
@for_each(backend=BACKENDS)
def test_rendering_takes_no_part_in_autocast(backend):
    """And takes half precision under autocast only."""
    device = place(backend)[0]
    ball, draw = BALL.to(device), Renderer(12, backend=backend).to(device)
    faces = soup(1, 4, 0, torch.float32).to(device).bfloat16()

    def images():
        out = draw(ball, look_at(2.2, 20.0, torch.tensor(10.0, device=device)))
        return [out.alpha, out.rgb, out.normals]

    with torch.autocast(device, dtype=torch.bfloat16):
        mixed, half = images(), gendr.silhouette(faces, 12, backend=backend)
    for got, want in zip(mixed, images(), strict=True):
        assert got.dtype == torch.float32
        assert torch.equal(got, want)
    assert torch.equal(half, gendr.silhouette(faces.float(), 12, backend=backend))
    with pytest.raises(TypeError, match="float32 or float64"):
        gendr.silhouette(faces, 12, backend=backend)


# -- faces that are not seen, left out or standing among the others --------------------------------


def both(monkeypatch, run):
    """What `run` returns where faces are left out, and where they stay."""
    for leave_out in (True, False):
        for module in (api, geometry):
            monkeypatch.setattr(module, "can_leave_out", lambda _, x=leave_out: x)
        yield run()


@pytest.mark.rotating(4, group="rendering")
@for_each(backend=BACKENDS, family=["probabilistic", "max", "average"], rotating=3)
def test_silhouettes_of_faces_that_are_not_seen(monkeypatch, backend, family):
    """Cauchy at cutoff 0 reaches everywhere, also from very far away."""
    scene = soup(2, 5, 3, torch.float32)
    scene[0, [1, 3], 2, 2] = -1.0
    options = (7, 9), "cauchy", family, 0.1, 0.0
    left_out, stayed = both(monkeypatch, lambda: silhouette(backend, scene, *options))
    for want, got in zip(left_out, stayed, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)
    assert not stayed[1][0, [1, 3]].any()
    assert left_out[0].any()


@pytest.mark.rotating(4, group="rendering")
@for_each(backend=BACKENDS)
def test_images_of_faces_that_are_not_seen(monkeypatch, backend):
    """The ball reaches behind the camera and beyond the far plane, and its front is cut."""
    device = place(backend)[0]
    ball = icosphere(0).to(device)
    camera = look_at(0.9, 20.0, torch.tensor([10.0, 80.0], device=device))
    colours = torch.linspace(0, 1, 3 * len(ball.vertices), device=device).reshape(-1, 3)

    def run():
        vertices = ball.vertices.clone().requires_grad_()
        mesh = ball.with_vertices(vertices).with_vertex_colors(colours)
        options = {"scale": 0.03, "gamma": 0.1, "near": 0.5, "far": 1.4, "backend": backend}
        out = Renderer((8, 11), "gaussian", **options).to(device)(mesh, camera)
        (out.alpha.square().sum() + out.rgb.square().sum()).backward()
        images = [out.alpha, out.rgb, out.depth, out.normals, out.face_id]
        return [x.detach() for x in images] + [vertices.grad]

    left_out, stayed = both(monkeypatch, run)
    assert (left_out[4] >= 0).any()
    for want, got in zip(left_out, stayed, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


# -- which there are, and which is taken ----------------------------------------------------------


def test_backends_are_listed_and_chosen(monkeypatch):
    found = gendr.backends()
    assert list(found) == ["cpu", "triton", "reference"]
    assert found["cpu"] is None
    assert found["reference"] is None
    monkeypatch.setattr(cpu, "available", lambda: "no Numba here")
    assert gendr.backends()["cpu"] == "no Numba here"
    with pytest.raises(RuntimeError, match="no Numba here"):
        gendr.silhouette(soup(1, 2, 0), 8, backend="cpu")
    monkeypatch.setattr(kernel_backends, "warned", set())
    with pytest.warns(RuntimeWarning, match="no Numba here"):
        gendr.silhouette(soup(1, 2, 0), 8)
    gendr.silhouette(soup(1, 2, 0), 8)  # said once


@pytest.fixture
def fresh():
    """`available` of Triton without its cache."""
    pytest.importorskip("triton", reason="Triton has no wheels for this platform")
    launch.available.cache_clear()
    yield launch.available
    launch.available.cache_clear()


def init():
    raise RuntimeError("The NVIDIA driver on your system is too old.\nPlease update it.")


class OnGpu:
    """A stand-in for a tensor on a GPU, with what `choose` reads of it."""

    device = torch.device("cuda")
    dtype = torch.float32
    is_cuda = True


@pytest.fixture
def gpu(fresh, monkeypatch):
    """Triton compiles, for a GPU that it supports."""
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    for name, value in {
        "is_available": True, "get_device_name": "Some GPU", "get_device_capability": (8, 0),
        "init": None,
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    return fresh


@for_each(
    "changes, said",
    [
        ([(torch.version, "cuda", None)], "needs PyTorch built for CUDA"),
        ([(torch.cuda, "is_available", lambda: False)], "torch.cuda.is_available() is False"),
        (
            [(torch.cuda, "is_available", lambda: False), (torch.cuda, "init", init)],
            "The NVIDIA driver on your system is too old.",
        ),
        ([(torch.cuda, "get_device_capability", lambda: (7, 5))], "8.0 (Ampere) or newer, found "),
        ([("triton.__version__", "3.3.1")], "needs Triton >= 3.4, found 3.3.1"),
    ],
)
def test_what_is_missing_is_said(gpu, monkeypatch, changes, said):
    for change in changes:
        monkeypatch.setattr(*change)
    gpu.cache_clear()
    assert said in gpu()
    assert "\n" not in gpu()
    with pytest.raises(RuntimeError, match="the triton backend"):
        gendr.silhouette(soup(1, 2, 0), 8, backend="triton")
    monkeypatch.setattr(kernel_backends, "warned", set())
    with pytest.warns(RuntimeWarning, match=r"the triton backend.*; falling back") as caught:
        assert choose("auto", OnGpu()) is reference
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose("auto", OnGpu()) is reference


def test_a_capable_gpu_is_taken_and_tensors_that_are_elsewhere_are_not(gpu):
    assert gpu() is None
    assert choose("auto", OnGpu()).__name__ == "gendr.rendering.backends.triton.backend"
    assert choose("auto", torch.zeros(1)) is cpu
    with pytest.raises(ValueError, match="'triton' does not serve tensors on cpu"):
        gendr.silhouette(soup(1, 2, 0), 8, backend="triton")


def test_apples_gpu_is_refused():
    on_mps = SimpleNamespace(device=torch.device("mps"), dtype=torch.float32)
    with pytest.raises(RuntimeError, match=r"mps, which has no float64, .* with \.cpu\(\)"):
        choose("auto", on_mps)


def test_no_triton_and_its_interpreter(fresh, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert fresh() is None
    assert launch.supports(torch.zeros(1))
    fresh.cache_clear()
    monkeypatch.setitem(sys.modules, "triton", None)
    assert "pip install '.[triton]'" in fresh()
    assert gendr.backends()["triton"] == fresh()


# -- what the kernels of the CPU keep, and what they are not asked for -----------------------------


@pytest.mark.rotating(4, group="rendering")
@for_each(dtype=[torch.float32, torch.float64])
def test_gradients_of_a_texture_are_the_same_in_any_rounds(dtype, monkeypatch):
    """However few requests are kept together, and however many threads there are."""
    generator = torch.Generator().manual_seed(4)
    ball = icosphere(1).scaled(0.7).to(dtype)
    uvs = 3 * torch.rand(len(ball.vertices), 2, generator=generator).to(dtype) - 1  # it repeats
    texels = torch.rand(7, 5, 3, generator=generator).to(dtype)
    results = []
    for room, threads in ((8_000_000, 1), (8_000_000, 2), (1_000, 2)):
        monkeypatch.setattr(cpu_softmax, "CAPACITY", room)
        gendr.set_num_threads(threads)
        texture = texels.clone().requires_grad_()
        camera = look_at(2.7, 21.0, 33.0, dtype=dtype)
        mesh = ball.with_uvs(uvs, ball.faces).with_texture(texture)
        rgb = Renderer(40, "logistic", scale=0.1, backend="cpu")(mesh, camera).rgb
        rgb.square().sum().backward()
        results.append(texture.grad)
    gendr.set_num_threads(None)
    assert results[0].abs().sum() > 0
    assert all(torch.equal(results[0], other) for other in results[1:])


@for_each(far=[1e17, -1e19, 1e30], side=[0, 1])
def test_a_texture_that_is_looked_up_far_away(far, side):
    """As integers such places were all alike: gradients were written beyond their memory."""
    uvs = torch.tensor([[0.1, 0.2], [0.9, 0.1], [0.5, 0.8]], dtype=torch.float64)
    uvs[2, side] = far
    texture = torch.rand(8, 8, 3).double().requires_grad_()
    corners = torch.tensor([[-1.0, -1, 0], [1, -1, 0], [0, 1, 0]], dtype=torch.float64)
    face = torch.arange(3)[None]
    mesh = gendr.Mesh(corners, face, uvs=uvs, face_uvs=face, texture=texture)
    results = []
    for backend in ("cpu", "reference"):
        rgb = Renderer(64, backend=backend)(mesh, look_at(3.0, 0.0, 0.0, dtype=torch.float64)).rgb
        results.append((rgb.detach(), *torch.autograd.grad(rgb.sum(), texture)))
    torch.testing.assert_close(*results)


def test_only_what_is_read_is_computed(monkeypatch):
    def refuse(*args):
        raise AssertionError("not asked for")

    for name in ("softmax", "pairs", "nearest"):
        monkeypatch.setattr(cpu, name, refuse)
    out = Renderer(8, backend="cpu")(icosphere(0).scaled(0.5), look_at(3, 0, 0))
    assert out.alpha.any()
    assert out.alpha is out.alpha
    with pytest.raises(AssertionError, match="not asked for"):
        _ = out.rgb


def test_brute_force_visits_every_pair(monkeypatch):
    """As the benchmark of speed measures it."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    speed = importlib.import_module("speed")
    case = speed.Scene(
        speed.Case("sphere_642", 2, 32, "uniform", 1e-2), speed.Place("cpu", "cpu", None)
    )
    culled = case.radius()
    with speed.every_pair():
        radius = case.radius()
        runs = cpu.pairs(case.faces(), ImageSize(32, 32), radius, 10**7)
        assert sum(len(run().pixels) for run in runs) == case.all_pairs
    assert torch.equal(case.radius(), culled)
    case.alpha("cpu")
    seen = []
    table = cpu.image_table
    monkeypatch.setattr(
        cpu, "image_table", lambda radius, more: seen.append(radius) or table(radius, more)
    )
    assert speed.brute_force(case, 0, 0.0, 1)["brute_difference"] < 1e-6
    assert seen
    assert all(torch.isinf(radius).all() for radius in seen)


@for_each(backend=KERNELS, sort=["pixel", "centroid"], dtype=[torch.float32, torch.float64])
def test_keys_of_depth_are_those_of_the_definition(backend, sort, dtype):
    corners = torch.cat([soup(1, 130, 2), degenerate()], 1)[0].to(place(backend)[0], dtype)
    given = corners[..., :2], corners[..., 2].abs() + 1e-3, sort
    found = operation_of(backend, "depth_keys")(*given)
    for got, want in zip(found, operation_of("reference", "depth_keys")(*given), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-14 if backend == "triton" else 0, atol=0)


def test_the_order_by_keys_of_depth_is_that_of_torch():
    generator = torch.Generator().manual_seed(0)
    tied = torch.randint(-3, 3, (99,), generator=generator) * 0.1
    for keys in (torch.rand(130, generator=generator), tied,
                 torch.tensor([-0.0, 1e300, 0.0, -torch.inf, 2.5]), torch.empty(0)):  # fmt: skip
        order = np.empty(len(keys), np.int64)
        ordered_kernels.order_faces((keys.double() + 0.0).numpy().view(np.uint64), order)
        assert order.tolist() == keys.argsort(descending=True, stable=True).tolist()


def test_more_faces_of_a_tile_than_can_be_counted(monkeypatch):
    monkeypatch.setattr(ordered_kernels, "MOST_ENTRIES", 5)
    scene = Layers(soup(1, 7, 3), (4, 4), "uniform", "probabilistic", scale=5.0)
    with pytest.raises(ValueError, match=r"7 faces touch one tile of 32 x 16 pixels, more than 5"):
        scene.found("cpu")


def test_a_backend_has_all_functions_and_lists_its_own():
    for name in ("cpu", "triton"):
        module = importlib.import_module(f"gendr.rendering.backends.{name}.backend")
        own = {x for x in Backend.__annotations__
               if getattr(module, x) is not getattr(reference, x)}  # fmt: skip
        assert own == {x.partition(".")[2] for x in module.KERNELS} - {"covered"}
