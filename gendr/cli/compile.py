"""`gendr compile`: fill the cache of kernels on purpose."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from tempfile import TemporaryDirectory

from tqdm import tqdm

from gendr._common.names import unknown
from gendr.cli.parser import KERNELS, Compile
from gendr.kernels.threads import num_threads

# What a user of each system calls first, as small as it gets, each in a process of its own.
_CALL = "from gendr.cli import main; raise SystemExit(main({!r}.split()))"
_RENDER = """
import gendr
from gendr.mesh import icosphere
ball = icosphere(1).scaled(0.5)
vertices = ball.vertices.clone().requires_grad_()
for colored in (False, True):
    mesh = ball.with_vertices(vertices)
    mesh = mesh.with_vertex_colors(vertices.detach().abs()) if colored else mesh
    image = gendr.Renderer(16)(mesh, gendr.look_at(2.7, 30.0, 0.0))
    (image.alpha.sum() + (image.rgb.sum() if colored else 0)).backward()
"""
_SORT = """
import torch
from gendr import sorting, topk
x = torch.rand(2, 8, requires_grad=True)
for method in {*sorting.names()} - {"network"}:  # which is the user's own
    found = sorting.SoftSorter(method)(x)
    (found.values + found.ranks).sum().backward()
    if method != "permutahedron":  # it has none
        found.permutation.sum().backward()
topk.soft_topk_mask(x, 2).sum().backward()
"""
_LOGIC = """
import torch
from gendr.logic import LogicLayer
LogicLayer(8, 16)(torch.rand(4, 8, requires_grad=True)).sum().backward()
"""
_POSE = """
import gendr
from gendr.mesh import cube
from gendr.photos.visual import silhouettes
camera = gendr.look_at(9.0, 20.0, [0.0, 30.0])
gendr.fit_pose(cube(1), silhouettes(cube(1), camera, 24), starts=2, steps=2)
"""
_PHOTOS = """
import gendr
from gendr.mesh import cube, save_views
camera = gendr.look_at(9.0, 20.0, [0.0, 90.0, 180.0, 270.0])
seen = gendr.Renderer(24)(cube(1).with_vertex_colors(cube(1).vertices.abs()), camera)
save_views("photos", seen.alpha, camera, rgb=seen.rgb)
"""
# So few pixels agree about nothing, and the surface would not be moved.
_CERTAIN = """
from gendr.photos.fitting.shape import refine
refine.LEAST_KNOWN = 0.0
"""
PROGRAMS = {
    "render": _RENDER,
    "sort": _SORT,
    "logic": _LOGIC,
    "fit": _CALL.format("fit chair -o out --image-size 24 --steps 25 --quiet"),
    "pose": _POSE,
    "photos": _PHOTOS + _CERTAIN + _CALL.format("fit photos -o out --steps 2 --quiet"),
    "splat": _PHOTOS + _CALL.format("splat photos -o out --steps 2 --triangles 20 --quiet"),
}


def run(args: Compile) -> int:
    """Run `gendr compile` and return the exit status.

    Raises:
        ValueError: there is no such part.
        RuntimeError: a program failed; its last line says why.
    """
    for name in args.what or ():
        if name not in KERNELS:
            raise ValueError(unknown("part", name, KERNELS))
    names = [name for name in KERNELS if not args.what or name in args.what]
    started: list[subprocess.Popen[str]] = []
    with (
        ThreadPoolExecutor(args.jobs or num_threads()) as pool,
        tqdm(total=len(names), unit="part", disable=args.quiet) as bar,
    ):
        running: dict[Future[None], str] = {
            pool.submit(_compile, name, started): name for name in names
        }
        try:
            while running:
                bar.set_description(f"compiling {', '.join(running.values())}")
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for each in done:
                    each.result()
                    del running[each]
                    bar.update()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in started:  # what still runs after Ctrl-C, or where another failed
                process.terminate()
    if not args.quiet:
        sys.stdout.write(f"compiled: {', '.join(names)}\n")
    return 0


def _compile(name: str, started: list[subprocess.Popen[str]]) -> None:
    with (
        TemporaryDirectory() as folder,
        subprocess.Popen(
            [sys.executable, "-c", PROGRAMS[name]], cwd=folder, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        ) as process,
    ):  # fmt: skip
        started.append(process)
        _, errors = process.communicate()
    if process.returncode:
        reason = (errors.strip().splitlines() or ["no reason given"])[-1]
        raise RuntimeError(f"compiling {name} failed ({process.returncode}): {reason}")
