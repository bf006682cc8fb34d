"""How much longer softmax colours take than silhouettes, in one run.

    python benchmarks/colours.py                        # print the table
    python benchmarks/colours.py --out docs/results --docs   # and write it into the documentation

Both render the same fragments: four views of the teapot at 256 x 256, forward and backward, with
gradients to the vertices and to what colours the mesh (face colours or the texture). Times are the
fastest of the runs; the ratio is what counts, for machines differ.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import datetime
import json
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import gendr
from gendr.rendering.backends.cpu import backend as cpu
from lab.pages import fill, table

ROOT = Path(__file__).parent.parent
SIZE, VIEWS = 256, 4
LIGHTS = {
    "flat": gendr.Lighting(),
    "smooth": gendr.Lighting(smooth=True),
    "highlights": gendr.Lighting(smooth=True, specular=0.3),
}
CASES = (
    ("face colours", "flat"), ("texture", "flat"), ("face colours", "smooth"),
    ("texture", "smooth"), ("texture", "highlights"),
)  # fmt: skip
RENDERERS = (("uniform", 1e-2), ("logistic", 1e-2))


def teapot(surface: str) -> tuple[gendr.Mesh, Tensor]:
    """The teapot, and the tensor that colours it and gets a gradient."""
    plain = gendr.Mesh.load(ROOT / "assets" / "teapot.obj").normalized()
    generator = torch.Generator().manual_seed(0)
    if surface == "face colours":
        colours = torch.rand(len(plain.faces), 3, generator=generator).requires_grad_()
        return plain.with_face_colors(colours), colours
    texture = torch.rand(512, 512, 3, generator=generator).requires_grad_()
    uvs = plain.vertices[:, :2] / 2 + 0.5
    mesh = gendr.Mesh(plain.vertices, plain.faces, uvs=uvs, face_uvs=plain.faces, texture=texture)
    return mesh, texture


def seconds(renderer: gendr.Renderer, mesh: gendr.Mesh, image: str, repeat: int) -> list[float]:
    """Fewest seconds of the forward and of the backward pass."""
    camera = gendr.look_at(2.732, 30.0, torch.arange(VIEWS) * 90.0)
    times = []
    for _ in range(repeat + 1):
        vertices = mesh.vertices.detach().clone().requires_grad_()
        start = time.perf_counter()
        out = getattr(renderer(mesh.with_vertices(vertices), camera), image)
        middle = time.perf_counter()
        (out * torch.linspace(0, 1, SIZE)).sum().backward()
        times.append((middle - start, time.perf_counter() - middle))
    return [min(column) for column in zip(*times[1:], strict=True)]


def measure(repeat: int) -> list[dict[str, Any]]:
    """All cases."""
    rows = []
    for dist, scale in RENDERERS:
        for surface, light in CASES:
            mesh, _ = teapot(surface)
            renderer = gendr.Renderer(SIZE, dist, scale=scale, lighting=LIGHTS[light])
            alpha, rgb = (seconds(renderer, mesh, image, repeat) for image in ("alpha", "rgb"))
            rows.append(
                {"dist": dist, "surface": surface, "light": light, "alpha": alpha, "rgb": rgb}
            )
            print(lines(rows)[-1])
    return rows


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """The table of the documentation."""
    head = [
        "renderer",
        "surface",
        "light",
        "alpha: forward, backward",
        "colours",
        "colours / alpha",
    ]

    def pair(values: list[float]) -> str:
        return " + ".join(f"{1e3 * x:,.0f}" for x in values) + " ms"

    return table(
        head,
        [
            [
                f"`{r['dist']}` 0.01", r["surface"], r["light"], pair(r["alpha"]), pair(r["rgb"]),
                ", ".join(f"{c / a:.1f}" for c, a in zip(r["rgb"], r["alpha"], strict=True))
                + f"; both {sum(r['rgb']) / sum(r['alpha']):.1f}",
            ]
            for r in rows
        ],
    )  # fmt: skip


def main() -> None:
    """Measure, print, and write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=7, metavar="N", help="runs a case (7)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where colours-cpu.json goes")
    parser.add_argument("--docs", action="store_true", help="write docs/benchmarks.md")
    args = parser.parse_args()
    # As the command line does it: where a core is busy, torch's threads wait for each other.
    cpu.set_num_threads(torch.get_num_threads())
    torch.set_num_threads(1)
    rows = measure(args.repeat)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True,
        check=False,
    ).stdout.strip()  # fmt: skip
    where = {
        "date": datetime.date.today().isoformat(),
        "commit": commit or None,
        "threads": os.cpu_count(),
        "processor": platform.machine(),
        "torch": torch.__version__,
    }
    if args.out is not None:
        text = json.dumps({**where, "rows": rows}, indent=1)
        (args.out / "colours-cpu.json").write_text(text + "\n", encoding="utf-8")
    if args.docs:
        measured = (
            f"Measured on {where['date']} at commit {where['commit']} with {where['threads']} "
            f"threads, torch {where['torch']}."
        )
        fill(ROOT / "docs" / "benchmarks.md", "colours", [measured, "", *lines(rows)])


if __name__ == "__main__":
    main()
