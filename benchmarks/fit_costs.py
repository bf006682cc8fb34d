"""What a fit costs: time and peak memory by views, image size and faces.

    python benchmarks/fit_costs.py --out docs/results

Each cell runs in a process of its own: masks of a mesh from all around, a fit with default settings
from their visual hull, and then a texture from photos of the same size. One of views, size and
length of edges varies at a time. Cells that are in the results already are not measured again, so
that the script can be interrupted; --anew measures all.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fit_quality
import torch
from rows import Rows, make_parser
from speed import peak_of, resident_bytes

import gendr
from gendr.mesh import Mesh
from gendr.mesh.examples import example, example_names
from gendr.photos import visual

MESHES = ("teapot",)
# What varies: views, sizes in pixels and lengths of edges in pixels; and what the others then are.
VIEWS, SIZES, EDGES = (12, 96), (128, 256, 512, 1024), (8.0, 4.0, 1.0)
AMONG, AT = 48, 256
ASSETS = Path(__file__).parents[1] / "assets"
FILE = "fit-costs.json"


def peak(run: Callable[[], object]) -> int | None:
    """The most bytes that this process holds during a run; None where they cannot be read."""
    status = Path("/proc/self/status")
    before = resident_bytes("VmRSS") if status.exists() else 0
    more = peak_of(run, "cpu")
    return None if more is None else before + more


def loaded(name: str) -> Mesh:
    """An example, a mesh of the folder assets, or a file."""
    if name in example_names():
        return example(name).normalized()
    path = ASSETS / f"{name}.obj"
    return Mesh.load(path if path.exists() else name).normalized()


def pattern(mesh: Mesh) -> Mesh:
    """The mesh with colours that depend on the place."""
    turned = mesh.vertices @ torch.tensor([[1.0, 0.4, 0.2], [0.1, 1.0, 0.5], [0.6, 0.2, 1.0]])
    return Mesh(mesh.vertices, mesh.faces).with_vertex_colors(0.5 + 0.4 * torch.sin(12 * turned))


def warm() -> None:
    """Compile what is compiled at first use."""
    ball = loaded("chair")
    camera = fit_quality.spiral(ball, 6, 0.0)
    rgb, alpha = visual.render_views(pattern(ball), camera, 48, {"lighting": "none"})
    found = gendr.fit(alpha, camera, init="hull", steps=8)
    gendr.fit_colors(found.mesh, rgb, camera, alpha, kind="vertex")


def measure(name: str, views: int, size: int, edge: float | None) -> dict[str, Any]:
    """One cell, in this process, which must be fresh."""
    warm()
    mesh = loaded(name)
    camera = fit_quality.spiral(mesh, views, 0.0)
    rgb, alpha = visual.render_views(pattern(mesh), camera, size, {"lighting": "none"})
    results: list[gendr.FitResult] = []
    row: dict[str, Any] = {"mesh": name, "views": views, "size": size, "edge": edge}
    begun, cpu = time.perf_counter(), time.process_time()
    row["peak_bytes"] = peak(
        lambda: results.append(gendr.fit(alpha, camera, init="hull", edge=edge))
    )
    row["seconds"] = time.perf_counter() - begun
    row["cpu_seconds"] = time.process_time() - cpu
    (result,) = results
    row["step_seconds"] = result.state.seconds / len(result.history)
    row |= {"faces": result.mesh.face_counts[0], "iou": result.iou}
    begun = time.perf_counter()
    row["color_peak_bytes"] = peak(lambda: gendr.fit_colors(result.mesh, rgb, camera, alpha))
    return {**row, "color_seconds": time.perf_counter() - begun}


def cells(args: argparse.Namespace) -> list[dict[str, Any]]:
    """The cells that are asked for, the small ones first."""
    found: list[dict[str, Any]] = []
    for name in args.meshes:
        usual = {"mesh": name, "views": AMONG, "size": AT, "edge": None}
        found += [{**usual, "size": size} for size in args.sizes]
        found += [{**usual, "views": views} for views in args.views]
        found += [{**usual, "edge": edge} for edge in args.edges]
    return sorted(found, key=lambda cell: cell["views"] * cell["size"] ** 2)


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """What tells a cell from others."""
    return row["mesh"], row["views"], row["size"], row["edge"]


def main() -> None:
    """Measure, print, and write a file after each cell."""
    parser = make_parser(__doc__, FILE)
    parser.add_argument("--meshes", nargs="+", default=list(MESHES), metavar="MESH")
    parser.add_argument("--views", nargs="*", type=int, default=list(VIEWS), metavar="N")
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES), metavar="N")
    parser.add_argument("--edges", nargs="*", type=float, default=list(EDGES), metavar="PIXELS")
    parser.add_argument("--anew", action="store_true", help="measure cells that are there again")
    parser.add_argument("--cell", metavar="JSON", help="measure this one, and print it")
    args = parser.parse_args()
    if args.cell is not None:
        cell = json.loads(args.cell)
        row = measure(cell["mesh"], cell["views"], cell["size"], cell["edge"])
        print(json.dumps(row))
        return
    rows = Rows()
    path = None if args.out is None else args.out / FILE
    if path is not None and path.exists() and not args.anew:
        rows.rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    known = {key_of(row) for row in rows.rows}
    for cell in cells(args):
        if key_of(cell) in known:
            continue
        command = [sys.executable, __file__, "--cell", json.dumps(cell)]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        rows.add(json.loads(run.stdout.splitlines()[-1]))
        rows.write(args.out, FILE)


if __name__ == "__main__":
    main()
