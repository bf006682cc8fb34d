"""Time silhouettes, forward and forward + backward, and write the table of docs/benchmarks.md.

    python benchmarks/silhouette.py [--repeat 20] [--quick] [--json FILE] [--docs]

Numbers depend on the machine and on what else it does: they come with its name, the date, and the
time of a 2048^3 float32 matrix product in the same run as a yardstick. Fastest of all repeats.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

import gendr
from gendr.mesh import cube_sphere, icosphere
from gendr.rendering import cpu
from gendr.rendering.geometry import project_faces

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Scene:
    """What is rendered."""

    name: str
    mesh: gendr.Mesh
    views: int
    size: int
    dist: str
    tconorm: str
    scale: float
    dense: bool  # small enough for the dense reference


def scenes(quick: bool) -> list[Scene]:
    """The SoftRas instance first: the scene that the project's target is set for."""
    ball, teapot = icosphere(3).scaled(0.5), gendr.Mesh.load(ROOT / "assets" / "teapot.obj")
    found = [
        Scene("sphere_642", ball, 24, 64, "logistic.squared", "probabilistic", 1e-4, False),
        Scene("sphere_642", ball, 24, 64, "uniform", "yager(p=2)", 1e-2, False),
        Scene("sphere_642", ball, 1, 64, "logistic.squared", "probabilistic", 1e-4, True),
        Scene("teapot", teapot.scaled(0.6), 1, 256, "uniform", "probabilistic", 1e-2, False),
    ]
    if not quick:
        heavy = cube_sphere(15).scaled(0.5)
        found.append(Scene("sphere_1352", heavy, 24, 64, "cauchy", "probabilistic", 1e-2, False))
        fine = icosphere(6).scaled(0.6)
        found.append(
            Scene("sphere, 81,920 faces", fine, 1, 256, "uniform", "probabilistic", 1e-2, False)
        )
    return found


def fastest(run: Callable[[], object], repeat: int) -> float:
    """Seconds of the fastest of `repeat` runs, after one that warms up."""
    run()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(scene: Scene, repeat: int) -> dict[str, object]:
    """Times and the number of pairs of one scene."""
    camera = gendr.look_at(2.732, 30.0, torch.arange(scene.views) * 360.0 / scene.views)
    vertices = scene.mesh.vertices.clone().requires_grad_()

    def forward(backend: str) -> torch.Tensor:
        renderer = gendr.Renderer(
            scene.size, scene.dist, scene.tconorm, scale=scene.scale, backend=backend
        )
        return renderer(scene.mesh.with_vertices(vertices), camera).alpha

    def both(backend: str) -> None:
        vertices.grad = None
        forward(backend).square().sum().backward()

    renderer = gendr.Renderer(scene.size, scene.dist, scene.tconorm, scale=scene.scale)
    with torch.no_grad():
        faces, _ = project_faces(scene.mesh, camera, 1.0, 100.0)
        radius = renderer.dist.radius(torch.full((scene.views,), scene.scale), 1e-6)
        runs = cpu.pairs(faces, renderer.size, radius, cpu.PAIRS_AT_ONCE)
        pairs = sum(len(run().pixels) for run in runs)
    both_seconds = fastest(lambda: both("cpu"), 1 if pairs > 1e8 else repeat)
    with torch.no_grad():
        forward_seconds = fastest(lambda: forward("cpu"), 1 if pairs > 1e8 else repeat)
    dense = fastest(lambda: both("reference"), 3) if scene.dense else None
    return {
        **{k: v for k, v in asdict(scene).items() if k not in ("mesh", "dense")},
        "faces": len(scene.mesh.faces),
        "pairs": pairs,
        "forward_ms": forward_seconds * 1e3,
        "both_ms": both_seconds * 1e3,
        "ns_per_pair": both_seconds / pairs * 1e9,
        "dense_ratio": None if dense is None else dense / both_seconds,
    }


def markdown(rows: list[dict], matmul: float, machine: str) -> str:
    """The table for the docs."""
    lines = [
        f"{machine}. A 2048³ float32 matrix product took {matmul * 1e3:.0f} ms in the same run.",
        "",
        "| mesh | views × size | renderer | pairs | forward | both | per pair | dense / cpu |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        ratio = row["dense_ratio"]
        cells = [
            row["name"],
            f"{row['views']} × {row['size']}²",
            f"`{row['dist']}`, `{row['tconorm']}`, {row['scale']:g}",
            f"{row['pairs']:,}",
            f"{row['forward_ms']:.1f} ms",
            f"{row['both_ms']:.1f} ms",
            f"{row['ns_per_pair']:.0f} ns",
            "" if ratio is None else f"{ratio:.0f}×",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument(
        "--quick", action="store_true", help="leave out the scenes of over a second"
    )
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument(
        "--docs", action="store_true", help="write the table into docs/benchmarks.md"
    )
    args = parser.parse_args()
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    matmul = fastest(lambda: a @ b, 10)
    rows = [measure(scene, args.repeat) for scene in scenes(args.quick)]
    date = datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()
    machine = (
        f"Measured on {date} at commit {_commit()} with {torch.get_num_threads()} threads of "
        f"{_cpu_name()}, "
        f"torch {torch.__version__.split('+')[0]}, Python {platform.python_version()}"
    )
    table = markdown(rows, matmul, machine)
    print(table)
    if args.json:
        args.json.write_text(
            json.dumps({"machine": machine, "matmul_seconds": matmul, "rows": rows}, indent=1)
        )
    if args.docs:
        page = ROOT / "docs" / "benchmarks.md"
        text = page.read_text()
        block = f"<!-- begin timings -->\n{table}\n<!-- end timings -->"
        page.write_text(
            re.sub(
                r"<!-- begin timings -->.*<!-- end timings -->", lambda _: block, text, flags=re.S
            )
        )


def _commit() -> str:
    run = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True
    )
    return run.stdout.strip() or "unknown"


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "an unknown CPU"
    match = re.search(r"model name\s*:\s*(.+)", text)
    return match.group(1).strip() if match else "an unknown CPU"


if __name__ == "__main__":
    main()
