"""Time a step of single-view reconstruction, and the parts of it.

    python benchmarks/reconstruction.py                              # print the table
    python benchmarks/reconstruction.py --out docs/results --docs    # and write it into the page

A step is that of the papers: 64 shapes, two views each, 64 x 64 pixels, 642 vertices. Every mesh is
seen in both views, so that the renderer makes 256 silhouettes. The parts are timed apart, in steps
that do the same; the device is synchronised after each. Data is what is left of reading: the next
batch is read while the one before is trained on. Times are the fastest of the runs; shares
are of the sum of the parts.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import datetime
import json
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gendr import Renderer
from gendr.cli.command_line import count
from gendr.kernels.threads import num_threads, set_num_threads
from gendr.mesh import icosphere
from lab.pages import fill, table
from lab.reconstruction import ShapeNetRenderings, Training, TrainingSettings, camera_of_view
from lab.reconstruction.renderings import SIDE, VIEWS, VOXELS, published_images

ROOT = Path(__file__).parent.parent
SHAPES = 16
PARTS = {
    "data": "data",
    "network": "encoder and decoder",
    "renderer": "renderer",
    "regularisers": "regularisers",
    "optimiser": "optimiser",
}


def write_shapes(folder: Path) -> None:
    """Ellipsoids as the files of the benchmark hold them; what they show does not change times."""
    cameras, renderer = camera_of_view(torch.arange(VIEWS)), Renderer(SIDE, "heaviside", "max")
    ball, generator = icosphere(3), torch.Generator().manual_seed(0)
    images = []
    for _ in range(SHAPES):
        axes = 0.1 + 0.35 * torch.rand(3, generator=generator)
        alpha = renderer(ball.with_vertices(ball.vertices * axes), cameras).alpha
        images.append(alpha[:, None].expand(-1, 4, -1, -1))
    pixels = published_images(torch.cat(images) * 255).to(torch.uint8).numpy()
    np.savez(folder / "ellipsoid_train_images.npz", pixels)
    voxels = np.ones((SHAPES, VOXELS, VOXELS, VOXELS), np.uint8)
    np.savez(folder / "ellipsoid_train_voxels.npz", voxels)


class Clock:
    """Seconds of named parts, on a device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds = dict.fromkeys(PARTS, 0.0)

    def now(self) -> float:
        """The time after all that the device was asked for."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def of(self, part: str, work: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Do some work and add its time to a part."""
        start = self.now()
        result = work(*args, **options)
        self.seconds[part] += self.now() - start
        return result


def step_in_parts(training: Training) -> dict[str, float]:
    """The seconds of each part of a step, forward and backward together."""
    settings, clock = training.settings, Clock(training.device)
    pairs = clock.of("data", training.next_pairs)
    training.model.train()
    predicted = clock.of("network", training.vertices, pairs)
    # The graph is cut here, so that the backward pass of each side is timed by itself.
    vertices = predicted.detach().requires_grad_()
    silhouette = clock.of("renderer", training.silhouette, vertices, pairs)
    clock.of("renderer", silhouette.backward)
    laplacian, flatten = clock.of("regularisers", training.regularisers, vertices)
    total = settings.laplacian * laplacian + settings.flatten * flatten
    clock.of("regularisers", total.backward)
    training.optimizer.zero_grad(set_to_none=True)
    clock.of("network", predicted.backward, vertices.grad)
    clock.of("optimiser", training.optimizer.step)
    return clock.seconds


def measure(data: ShapeNetRenderings, encoder: str, device: str, repeat: int) -> dict[str, Any]:
    """The fastest step, and the fastest time of each part."""
    training = Training(data, TrainingSettings(encoder=encoder), device)
    clock = Clock(training.device)
    for _ in range(2):  # kernels are compiled, and the optimiser makes its state
        training.advance()
    steps, parts = [], []
    for _ in range(repeat):
        start = clock.now()
        training.advance()
        steps.append(clock.now() - start)
        parts.append(step_in_parts(training))
    fastest = {name: min(part[name] for part in parts) for name in PARTS}
    return {"encoder": encoder, "step": min(steps), "parts": fastest}


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """The table of the documentation."""
    head = ["encoder", "seconds a step", "images a second", *PARTS.values()]
    cells = []
    for row in rows:
        total = sum(row["parts"].values())
        shares = [f"{100 * row['parts'][name] / total:.1f} %" for name in PARTS]
        images = 2 * TrainingSettings().batch / row["step"]
        cells.append([f"`{row['encoder']}`", f"{row['step']:.2g}", f"{images:,.0f}", *shares])
    return table(head, cells)


def main() -> None:
    """Measure, print, and write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoders", nargs="+", default=["published", "residual"], metavar="NAME")
    parser.add_argument("--repeat", type=count(1), default=5, metavar="N", help="steps each (5)")
    parser.add_argument("--device", default="cpu", help="such as cpu or cuda:0")
    parser.add_argument("--threads", type=count(1), metavar="N", help="on the CPU (all cores)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where the numbers go")
    parser.add_argument("--docs", action="store_true", help="write docs/reconstruction.md")
    args = parser.parse_args()
    if args.threads is not None:
        torch.set_num_threads(args.threads)
        set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        write_shapes(Path(folder))
        data = ShapeNetRenderings(folder)
        rows = [measure(data, name, args.device, args.repeat) for name in args.encoders]
    print("\n".join(lines(rows)))
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True,
        check=False,
    ).stdout.strip()  # fmt: skip
    cuda = args.device.startswith("cuda")
    where = {
        "date": datetime.date.today().isoformat(),
        "commit": commit or None,
        "device": torch.cuda.get_device_name(args.device) if cuda else platform.machine(),
        "threads": num_threads(),
        "torch": torch.__version__,
    }
    kind = "gpu" if cuda else "cpu"
    if args.out is not None:
        text = json.dumps({**where, "rows": rows}, indent=1)
        (args.out / f"reconstruction-{kind}.json").write_text(text + "\n", encoding="utf-8")
    if args.docs:
        measured = (
            f"Measured on {where['date']} at commit {where['commit']}, {where['device']}, "
            f"{where['threads']} threads, torch {where['torch']}."
        )
        page = ROOT / "docs" / "reconstruction.md"
        fill(page, f"step-{kind}", [measured, "", *lines(rows)])


if __name__ == "__main__":
    main()
