"""What the cpu backend promises beyond equality: bits, threads, memory, its cache."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gendr
from gendr.mesh import Mesh, cube_sphere
from support import soup
from support.backends import centres
from support.processes import run_python

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="the peak is read from Linux's /proc"
)


def test_slivers_do_not_cover_the_line_they_lie_on():
    """Triangles of almost no area between two pixel centres; rounding alone puts those inside."""
    generator = torch.Generator().manual_seed(5)
    p, q = centres((16, 16))[torch.randint(256, (2, 80), generator=generator)]
    far = (p - q).norm(dim=-1) > 0.5
    p, q = p[far], q[far]
    t = torch.rand(3, len(p), 1, generator=generator, dtype=torch.float64) * 0.4 + 0.3
    corners = (p + t * (q - p)).transpose(0, 1)
    scene = torch.cat([corners, torch.ones_like(corners[..., :1])], -1)[:, None]
    images = [
        gendr.silhouette(scene, 16, "uniform", scale=0.02, backend=b) for b in ("cpu", "reference")
    ]
    torch.testing.assert_close(*images, rtol=0, atol=1e-10)


# Not ru_maxrss, which starts at that of the process that started this one.
HEAVY = """
import re, torch, gendr
from pathlib import Path
from gendr.mesh import Mesh, cube_sphere
torch.set_num_threads(2)
mesh = cube_sphere(15).scaled(0.5)
camera = gendr.look_at(2.732, 30.0, torch.arange(4) * 90.0)
vertices = mesh.vertices.clone().requires_grad_()
renderer = gendr.Renderer(64, "cauchy", "probabilistic", scale=1e-2, backend="cpu")
renderer(mesh.with_vertices(vertices), camera).alpha.sum().backward()
assert torch.isfinite(vertices.grad).all()
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.every
@needs_proc
def test_memory_is_bounded_for_heavy_tails():
    """4 views x 64^2 x 2,700 faces with cauchy: 44 million pairs, in under 0.55 GB.

    The process has 0.25 GB before, and a float64 for every pair would take 0.35 GB more.
    """
    assert len(cube_sphere(15).faces) == 2700
    assert int(run_python(HEAVY, check=True).stdout) < 5.5e5


@pytest.mark.every
@pytest.mark.slow
@needs_proc
def test_a_million_faces_at_1024_need_less_than_2_gb():
    program = "import speed; speed.main(['--device', 'cpu', '--probe', 'million/1x1024/uniform'])"
    peak = json.loads(run_python(program, env={"PYTHONPATH": str(BENCHMARKS)}, check=True).stdout)
    projected = 20 * 4**8 * 3 * 2 * (4 + 8)  # corners in float32 and float64: must be seen
    assert projected < peak < 2e9


# Two kernels that are quickly compiled.
READ_ONLY = """
import gendr.kernels.numba.compilation, numpy as np
gendr.kernels.numba.compilation.is_writable = lambda folder: False
from gendr.logic.circuit.kernels import pack
from gendr.sorting.backends.cpu.kernels import spans
spans(np.array([[0, 1]], np.int32), 2)
pack(np.ones((1, 1)), np.ones((1, 1)), True, np.zeros((1, 1), np.uint64), 0, 1)
from numba import config
print(config.CACHE_DIR)
"""


@pytest.mark.every
def test_a_read_only_installation_compiles_into_a_temporary_folder():
    run = run_python(READ_ONLY, check=True)
    folder = Path(run.stdout.strip())
    assert folder.name.startswith("gendr-numba-")
    assert not folder.exists()  # it went with the process
    assert run.stderr.count("compiling the CPU kernels") == 1  # said once, for all of them


LOADED = """
import sys, torch, gendr
corners = (torch.rand(1, 3, 3, 3) + 0.1).requires_grad_()
gendr.silhouette(corners, 4).sum().backward()
print("numba.np.linalg" in sys.modules)
"""


def test_a_render_with_compiled_kernels_says_nothing_and_loads_no_compiler():
    corners = soup(1, 3, 0, torch.float32).requires_grad_()
    gendr.silhouette(corners, 4).sum().backward()  # compiles them if need be
    done = run_python(LOADED, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


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


@pytest.mark.every
def test_kernels_use_no_memory_that_is_freed():
    """What glibc frees is given back to the system or, if it is small, overwritten at once."""
    settings = {"MALLOC_PERTURB_": "165", "MALLOC_MMAP_THRESHOLD_": "4096"}
    run = subprocess.run([sys.executable, "-c", FRESH], env={**os.environ, **settings},
                         capture_output=True, text=True, timeout=300)  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]


@pytest.mark.parametrize("near", [0.5, 3.0])  # the second cuts faces off
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_masks_are_where_faces_are_seen(near, backend):
    """Of edges that pass through samples, of large and tiny faces, and in photos with borders."""
    plane = torch.tensor([[x / 8, y / 8, 0.0] for y in range(-6, 7) for x in range(-6, 7)])
    quads = torch.tensor([13 * y + x for y in range(12) for x in range(12)])[:, None]
    faces = torch.cat([quads + torch.tensor([0, 1, 14]), quads + torch.tensor([0, 14, 13])])
    grid = Mesh(plane, faces[torch.arange(len(faces)) % 5 != 0])  # holes
    camera = gendr.look_at(1.0, 0.0, 0.0, fov=90.0)  # a vertex each two pixels
    renderer = gendr.Renderer(32, "heaviside", "max", backend=backend, near=1e-3, far=9.0)
    narrow = gendr.Renderer((20, 5), "heaviside", "max", backend=backend, near=1e-3, far=9.0)
    scenes = [(renderer, grid, camera), (narrow, grid, camera)]  # rows of fewer than a vector
    for count, parallel in ((1, False), (40, False), (40, True)):
        ball = cube_sphere(count).scaled(1.0 if count == 1 else 0.4)
        turns = torch.tensor([0.0, 45.0, 200.0])
        around = gendr.look_at(3.0, 20.0, turns, orthographic=parallel)
        around = around.with_window(torch.tensor([-0.3, -0.9, 0.8, 0.5]).expand(3, 4))
        renderer = gendr.Renderer((20, 30), "heaviside", "max", backend=backend, near=near, far=9.0)
        if backend == "cpu" or count == 1:
            scenes.append((renderer, ball, around))
    aside = torch.tensor([[7e17, 0, 0], [8e17, 0.5, 0], [9e17, 0.1, 0]])
    corners, more = torch.cat([plane, aside]), len(plane) + torch.arange(3)[None]
    scenes.append((scenes[0][0], Mesh(corners, torch.cat([grid.faces, more])), camera))
    for renderer, mesh, cameras in scenes:
        out, again = renderer(mesh, cameras), renderer(mesh, cameras)
        expected = out.face_id >= 0
        assert 0 < expected.sum() < expected.numel()
        assert torch.equal(again.mask, expected)
        assert torch.equal(out.mask, expected)
