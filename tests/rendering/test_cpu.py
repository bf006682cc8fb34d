"""What the cpu backend promises beyond equality: bits, memory, lists of pairs, own CDFs."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import gendr
from gendr.mesh import cube_sphere, icosphere
from gendr.rendering import aggregation
from gendr.rendering.aggregation import Aggregation
from gendr.rendering.backends import reference
from gendr.rendering.backends.cpu import backend as cpu
from gendr.rendering.coverage import Coverage
from gendr.rendering.fragments import signed_distance
from gendr.rendering.geometry import ImageSize, ScreenFaces, project_faces
from support import relative_l2, soup
from support.cases import for_each
from support.processes import run_python


def ball(views=3, size=40):
    camera = gendr.look_at(2.732, 30.0, torch.arange(views) * 360.0 / views)
    return icosphere(2).scaled(0.5), camera, ImageSize(size, size)


def rendered(threads, shading):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        mesh, camera, size = ball()
        vertices = mesh.vertices.clone().requires_grad_()
        colours = torch.rand(len(vertices), 3, generator=torch.Generator().manual_seed(0))
        mesh = mesh.with_vertices(vertices).with_vertex_colors(colours.requires_grad_())
        renderer = gendr.Renderer(size.height, "logistic", scale=0.02, backend="cpu", gamma=0.1)
        out = renderer(mesh, camera)
        image = out.rgb if shading else out.alpha
        (image * torch.linspace(0, 1, image.numel()).reshape(image.shape)).sum().backward()
        return image.detach(), vertices.grad, colours.grad if shading else vertices.grad
    finally:
        torch.set_num_threads(before)


def test_threads_of_the_kernels_can_be_set_apart():
    want = rendered(1, False)
    try:
        cpu.set_num_threads(3)
        got = rendered(1, False)
    finally:
        cpu.set_num_threads(None)
    assert torch.equal(got[0], want[0])
    assert torch.equal(got[1], want[1])
    with pytest.raises(ValueError, match="threads must be >= 1"):
        cpu.set_num_threads(0)


@pytest.mark.parametrize("shading", [False, True], ids=["alpha", "rgb"])
def test_same_bits_from_run_to_run_and_for_any_number_of_threads(shading):
    runs = [rendered(threads, shading) for threads in (1, 1, 2, 2)]
    for run in runs[1:]:
        for got, want in zip(run, runs[0], strict=True):
            assert torch.equal(got, want)


def test_pairs_are_those_within_the_radius_and_nothing_else():
    mesh, camera, size = ball()
    faces, _ = project_faces(mesh, camera, 1.0, 100.0)
    radius = torch.tensor([0.05, 0.1, 0.0])
    listed = [run() for run in cpu.pairs(faces, size, radius, 1500)]
    assert len(listed) > 3
    assert all(a.last == b.first for a, b in pairwise(listed))
    got = {
        (p, f)
        for run in listed
        for p, f in zip(run.pixels.tolist(), run.faces.tolist(), strict=True)
    }
    want = set()
    for run in (run() for run in reference.pairs(faces, size, radius, 10**9)):
        points = size.centres(run.pixels, torch.float64)
        distance = signed_distance(points, faces.corners.double()[run.faces])
        near = distance >= -radius.double()[size.image_of(run.pixels)]
        pixels, faces_of = run.pixels[near].tolist(), run.faces[near].tolist()
        want |= set(zip(pixels, faces_of, strict=True))
    assert got == want
    assert sum(len(run.pixels) for run in listed) == len(got)


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (9, 2), (33, 65)])
def test_odd_image_sizes(size):
    scene = soup(2, 11, 4).requires_grad_()
    images = [
        gendr.silhouette(scene, size, "gaussian", scale=0.1, backend=b)
        for b in ("cpu", "reference")
    ]
    torch.testing.assert_close(*images, rtol=0, atol=1e-10)
    grads = [torch.autograd.grad(i.sum(), scene)[0] for i in images]
    assert relative_l2(*grads) < 1e-8


def test_slivers_do_not_cover_the_line_they_lie_on():
    """Triangles of almost no area between two pixel centres; rounding alone puts those inside."""
    size = ImageSize(16, 16)
    generator = torch.Generator().manual_seed(5)
    centres = size.centres(torch.arange(256), torch.float64)
    p, q = centres[torch.randint(256, (2, 400), generator=generator)]
    far = (p - q).norm(dim=-1) > 0.5
    p, q = p[far], q[far]
    t = torch.rand(3, len(p), 1, generator=generator, dtype=torch.float64) * 0.4 + 0.3
    corners = (p + t * (q - p)).transpose(0, 1)
    scene = torch.cat([corners, torch.ones_like(corners[..., :1])], -1)[:, None]
    images = [
        gendr.silhouette(scene, 16, "uniform", scale=0.02, backend=b) for b in ("cpu", "reference")
    ]
    torch.testing.assert_close(images[0], images[1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_shared_edge_is_a_tie_in_the_maximum(backend):
    """Two faces folded to the same side of their edge: a pixel beyond it is as far from both."""
    shared = torch.tensor([[-0.613, 0.117], [0.591, 0.203]], dtype=torch.float64)
    apexes = torch.tensor([[0.05, 0.9], [-0.3, 0.7]], dtype=torch.float64)
    first = torch.cat([shared, apexes[:1]])
    second = torch.cat([shared.flip(0), apexes[1:]])
    scene = torch.stack([first, second])
    scene = torch.cat([scene, torch.ones(2, 3, 1).double()], -1)[None].requires_grad_()
    # Far in the tail the last bit of a distance shows in F; pixels below the middle of the edge.
    alpha = gendr.silhouette(scene, 16, "logistic", "max", 0.02, cutoff=0.0, backend=backend)
    alpha[0, 8:, 5:11].log().sum().backward()
    assert scene.grad.abs().sum() > 0
    torch.testing.assert_close(scene.grad[0, 0, :2], scene.grad[0, 1, :2].flip(0))


@for_each(tconorm=["max", "probabilistic", "yager(p=2)"], backend=["cpu", "reference"])
def test_a_saturated_pixel_is_1_and_passes_no_gradient(backend, tconorm):
    """A pixel centre exactly on an edge, where exponential.reversed has F = 1 and slope 1."""
    scene = torch.tensor([[[[-0.9, 0.0, 1], [0.9, 0.0, 1], [0.0, 0.9, 1]]]], dtype=torch.float64)
    scene = torch.cat([scene, soup(1, 3, 1)], 1).requires_grad_()
    scale = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    alpha = gendr.silhouette(scene, 5, "exponential.reversed", tconorm, scale, backend=backend)
    assert alpha[0, 2, 2] == 1
    alpha[0, 2, 2].backward()
    assert not scene.grad.any()
    assert scale.grad == 0


def test_no_images_are_an_empty_batch():
    for backend in ("cpu", "reference"):
        faces = torch.zeros(0, 5, 3, 3, requires_grad=True)
        alpha = gendr.silhouette(faces, (4, 8), backend=backend)
        assert alpha.shape == (0, 4, 8)
        (grad,) = torch.autograd.grad(alpha.sum(), faces)
        assert grad.shape == faces.shape


def test_no_faces_give_an_empty_image():
    for backend in ("cpu", "reference"):
        empty = torch.zeros(2, 0, 3, 3, requires_grad=True)
        alpha = gendr.silhouette(empty, 8, backend=backend)
        assert alpha.shape == (2, 8, 8)
        assert not alpha.any()
        alpha.sum().backward()


def test_images_with_different_numbers_of_faces():
    scenes = [soup(1, n, n)[0, :, :, :2] for n in (3, 0, 5)]
    faces = ScreenFaces(torch.cat(scenes), (0, 3, 3, 8))
    size = ImageSize(12, 12)
    from gendr.tnorms import tconorm

    for name in ("probabilistic", "average", "max"):
        coverage = Coverage(
            gendr.distributions.get("logistic"), torch.full((3,), 0.1).double(), 0.0
        )
        rule = Aggregation(coverage, tconorm(name))
        got, want = (backend.alpha(faces, size, rule) for backend in (cpu, reference))
        torch.testing.assert_close(got, want)
        assert got[0].any()
        assert not got[1].any()


def quads(faces, seed):
    """Convex polygons of four corners, of either orientation: [T, 4, 2]."""
    generator = torch.Generator().manual_seed(seed)
    turn = torch.rand(faces, 1, generator=generator, dtype=torch.float64) * 6
    angle = turn + torch.tensor([0.0, 0.9, 2.6, 4.4], dtype=torch.float64)
    angle[::2] = angle[::2].flip(-1)
    centre = torch.rand(faces, 1, 2, generator=generator, dtype=torch.float64) * 1.6 - 0.8
    return centre + 0.4 * torch.stack([angle.cos(), angle.sin()], -1)


def test_faces_that_were_cut_have_four_edges():
    size, logistic = ImageSize(14, 11), gendr.distributions.get("logistic")
    coverage = Coverage(logistic, torch.full((2,), 0.05).double(), 0.0)
    rule = Aggregation(coverage, gendr.tnorms.tconorm("probabilistic"))
    pixels = torch.arange(2 * size.pixels).repeat_interleave(4)
    face = torch.arange(4).repeat(2 * size.pixels) + 4 * size.image_of(pixels)
    results = []
    for backend in (cpu, reference):
        corners = quads(8, 2).requires_grad_()
        faces = ScreenFaces(corners, (0, 4, 8))
        values = backend.alpha(faces, size, rule), backend.distance(faces, size, pixels, face)
        slopes = [torch.autograd.grad(v.square().sum(), corners)[0] for v in values]
        results.append((*values, *slopes))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-10)


def test_parameter_gradients_equal_those_of_the_reference():
    scene = soup(2, 9, 5)
    names = [
        "gamma(shape=0.7).reversed.centred",
        "gamma(shape=1.7).squared",
        "logistic.shifted(0.3)",
    ]
    for name in names:
        for family in ("yager", "hamacher", "frank", "dombi", "aczel_alsina"):
            grads = []
            for backend in ("cpu", "reference"):
                dist = gendr.distributions.get(name)
                tensors = [torch.tensor(0.1).double(), torch.tensor(1.5).double()]
                if dist.shape_parameter is not None:
                    tensors.append(torch.tensor(float(dist.shape_parameter)).double())
                for tensor in tensors:
                    tensor.requires_grad_()
                if dist.shape_parameter is not None:
                    dist = dist.with_shape(tensors[2])
                alpha = gendr.silhouette(
                    scene, 7, dist, gendr.tnorms.tconorm(family, p=tensors[1]), tensors[0],
                    backend=backend,
                )  # fmt: skip
                grads.append(torch.autograd.grad((alpha**2).sum(), tensors))
            for got, want in zip(*grads, strict=True):
                torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-10)


def test_a_second_derivative_is_refused_with_a_word_on_the_reference():
    scene = soup(1, 4, 0).requires_grad_()
    alpha = gendr.silhouette(scene, 8, "gaussian", scale=0.1, backend="cpu")
    (slope,) = torch.autograd.grad(alpha.sum(), scene, create_graph=True)
    with pytest.raises(RuntimeError, match="backend='reference'"):
        slope.sum().backward()


@pytest.mark.parametrize("support", [None, (-1.0, 1.0)])
def test_a_callable_cdf_works_wherever_a_name_does(support):
    def cdf(z):
        return ((1 + z) / 2).clamp(0, 1)

    dist = gendr.distributions.from_callable(cdf, support=support)
    scene = soup(2, 9, 6)
    results = []
    for law, backend in ((dist, "cpu"), (cdf, "cpu"), (dist, "reference"), ("uniform", "cpu")):
        vertices = scene.clone().requires_grad_()
        alpha = gendr.silhouette(vertices, (9, 12), law, "yager(p=2)", 0.2, backend=backend)
        alpha.sum().backward()
        results.append((alpha.detach(), vertices.grad))
    for alpha, grad in results[:3]:
        torch.testing.assert_close(alpha, results[3][0])
        assert relative_l2(grad, results[3][1]) < 1e-8


def test_runs_that_are_listed_again_give_the_same_gradients(monkeypatch):
    scene = soup(2, 9, 6)
    results = []
    for limit in (10**9, 300):
        monkeypatch.setattr(aggregation, "PAIRS_AT_ONCE", limit)
        vertices = scene.clone().requires_grad_()
        gendr.silhouette(
            vertices, 16, torch.special.expit, scale=0.2, backend="cpu"
        ).sum().backward()
        results.append(vertices.grad)
    torch.testing.assert_close(results[0], results[1])


# Not ru_maxrss, which starts at that of the process that started this one.
HEAVY = """
import re, torch, gendr
from pathlib import Path
from gendr.mesh import cube_sphere
torch.set_num_threads(2)
mesh = cube_sphere(15).scaled(0.5)
camera = gendr.look_at(2.732, 30.0, torch.arange(8) * 45.0)
vertices = mesh.vertices.clone().requires_grad_()
renderer = gendr.Renderer(64, "cauchy", "probabilistic", scale=1e-2, backend="cpu")
renderer(mesh.with_vertices(vertices), camera).alpha.sum().backward()
assert torch.isfinite(vertices.grad).all()
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the peak is read from Linux's /proc"
)
def test_memory_is_bounded_for_heavy_tails():
    """8 views x 64^2 x 2,700 faces with cauchy: 88 million pairs, in under 0.7 GB.

    The process has 0.25 GB before, and a float64 for every pair would take 0.7 GB more.
    """
    assert len(cube_sphere(15).faces) == 2700
    run = run_python(HEAVY, check=True)
    kilobytes = int(run.stdout)
    assert kilobytes < 7e5


# Two kernels that are quickly compiled.
READ_ONLY = """
import gendr._runtime.numba.compilation, numpy as np
gendr._runtime.numba.compilation.is_writable = lambda folder: False
from gendr.sorting.backends.cpu import kernels
kernels.spans(np.array([[0, 1]], np.int32), 2)
kernels._powers(2, np.ones(2), 2.0, np.ones(2))
from numba import config
print(config.CACHE_DIR)
"""


def test_a_read_only_installation_compiles_into_a_temporary_folder():
    run = run_python(READ_ONLY, check=True)
    folder = Path(run.stdout.strip())
    assert folder.name.startswith("gendr-numba-")
    assert not folder.exists()  # it went with the process
    assert run.stderr.count("compiling the CPU kernels") == 1  # said once, for all of them


def test_a_render_with_compiled_kernels_says_nothing():
    script = "import torch, gendr; gendr.silhouette(torch.rand(1, 3, 3, 3) + 0.1, 4)"
    gendr.silhouette(soup(1, 3, 0, torch.float32), 4)  # compiles them if need be
    run = run_python(script, check=True)
    assert not run.stderr


def test_faces_without_area_are_nearest_nowhere():
    """They pass through pixel centres, at distance 0; one of them is a point."""
    lines = [[[-0.8, 0.0], [0.8, 0.0], [0.4, 0.0]], [[0.0, -0.8], [0.0, 0.8], [0.0, 0.8]]]
    corners = torch.tensor([*lines, [[0.4, 0.4]] * 3], dtype=torch.float64)
    faces, size = ScreenFaces(corners, (0, 3)), ImageSize(5, 5)
    planes = torch.tensor([[0.0, 0.0, 0.5]], dtype=torch.float64).expand(3, 3)
    limits = torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64).expand(3, 3)
    assert (cpu.nearest(faces, size, planes, limits) == -1).all()


FRESH = """
import torch, gendr
from gendr.mesh import icosphere

def sums(backend):
    mesh = icosphere(1).scaled(0.7).to(torch.float64)
    colours = torch.linspace(0, 1, mesh.vertices.numel(), dtype=torch.float64).reshape(-1, 3)
    vertices, colours = mesh.vertices.requires_grad_(), colours.requires_grad_()
    mesh = mesh.with_vertices(vertices).with_vertex_colors(colours)
    camera = gendr.look_at(2.7, 20.0, 30.0, dtype=torch.float64)
    renderer = gendr.Renderer(16, "logistic", lighting="phong", backend=backend)
    out = renderer(mesh, camera)
    (out.rgb.square().sum() + out.alpha.sum()).backward()
    return torch.stack([x.square().sum() for x in (out.rgb, vertices.grad, colours.grad)])

torch.testing.assert_close(sums("cpu"), sums("reference"))
"""


def test_kernels_use_no_memory_that_is_freed():
    """What glibc frees is given back to the system or, if it is small, overwritten at once."""
    settings = {"MALLOC_PERTURB_": "165", "MALLOC_MMAP_THRESHOLD_": "4096"}
    environment = {**os.environ, **settings}
    run = subprocess.run([sys.executable, "-c", FRESH], env=environment, capture_output=True,
                         text=True, timeout=300)  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
