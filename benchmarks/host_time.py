"""What a step of the Triton backend costs its host, found without a GPU.

    python benchmarks/host_time.py                  # launches, waits and their lines; seconds
    python benchmarks/host_time.py --tree OLD       # the same of another checkout

A step is a renderer's alpha and the gradient of the vertices; the loss is left out: its gradient
is given. Launches and waits are counted by `pretend_gpu.py`, in a steady step: the third. Host time
is processor time on tensors of the CPU that are so small that computing on them takes no time, with
the launches of Triton kernels left out. What a launch costs the host beyond that is an assumption:
`--launch-us` for an operator of PyTorch, `--triton-us` for a kernel of ours.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "0"  # before the first import of Triton

import pretend_gpu
import torch
from pretend_gpu import Launch, Record
from torch import Tensor

import gendr

WARM = 2  # steps before the one that is looked at
NEAR, FAR = 1.0, 100.0


@dataclass(frozen=True)
class Instance:
    """A renderer.

    Attributes:
        name: for tables.
        options: of `gendr.Renderer`, without the size of the image.
        scheduled: whether every call is given a scale, the one that gendr suggests; else it is the
            renderer's own.
    """

    name: str
    options: dict[str, Any]
    scheduled: bool = False


INSTANCES = (
    Instance("default", {"near": NEAR, "far": FAR}),
    Instance("README", {"dist": "logistic", "cutoff": 1e-3}, scheduled=True),
)


class Step:
    """Forward and backward of a renderer: what is counted and timed.

    Args:
        mesh: on the CPU.
        views: of one mesh, all around it.
        size: of the images.
        instance: the renderer.
        pretended: whether tensors are on the pretended GPU, else they are on the CPU.
    """

    def __init__(
        self, mesh: gendr.Mesh, views: int, size: int, instance: Instance, pretended: bool
    ) -> None:
        camera = gendr.look_at(2.732, 30.0, torch.arange(views) * 360.0 / views)
        self.options: dict[str, float] = {}
        if instance.scheduled:
            dist = instance.options["dist"]
            self.options["scale"] = gendr.suggest_scale(mesh, camera, size, dist)
        self.renderer = gendr.Renderer(size, backend="triton", **instance.options)
        grad = torch.ones(views, size, size)
        vertices = mesh.vertices.clone()
        if pretended:
            device = pretend_gpu.device()
            with pretend_gpu.recorded():
                mesh, camera = mesh.to(device), camera.to(device)
            grad, vertices = pretend_gpu.upload(grad), pretend_gpu.upload(vertices)
        self.mesh, self.camera, self.grad = mesh, camera, grad
        self.vertices = vertices.requires_grad_()

    def alpha(self) -> Tensor:
        """Forward."""
        mesh = self.mesh.with_vertices(self.vertices)
        return self.renderer(mesh, self.camera, **self.options).alpha

    def __call__(self) -> None:
        """Forward and backward."""
        self.vertices.grad = None
        self.alpha().backward(self.grad)


def counted(
    mesh: gendr.Mesh,
    views: int,
    size: int,
    instance: Instance,
    launch: Callable[[Launch], object] | None = None,
) -> Record:
    """Launches and waits of a steady step; `launch` as in `pretend_gpu.recorded`."""
    step = Step(mesh, views, size, instance, pretended=True)
    record = Record()
    for _ in range(WARM + 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of anomaly mode
            with pretend_gpu.recorded(launch) as record:
                step()
    return record


def host_seconds(views: int, instance: Instance, repeat: int) -> float:
    """Seconds of a step on tiny tensors of the CPU with Triton's launches left out.

    The least processor time of all repetitions: what else the machine does is left out too.
    """
    step = Step(gendr.mesh.icosphere(0).scaled(0.5), views, 8, instance, pretended=False)
    times = []
    with pretend_gpu.triton_forced(), pretend_gpu.launches_replaced(lambda _: None):
        for _ in range(WARM):
            step()
        for _ in range(repeat):
            start = time.process_time()
            step()
            times.append(time.process_time() - start)
    return min(times)


def table(rows: list[tuple[Any, ...]], head: tuple[str, ...]) -> str:
    """Columns that line up; numbers to the right."""
    lines = [head, *([str(x) for x in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    right = [all(isinstance(row[i], int | float) for row in rows) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            x.rjust(w) if r else x.ljust(w) for x, w, r in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def report(instance: Instance, args: argparse.Namespace) -> str:
    """What a step costs, and which lines cost it."""
    # Real launches fill the lists of faces: the launches that depend on them need something there.
    from triton_programs import execute

    mesh = gendr.mesh.icosphere(3).scaled(0.5)
    record = counted(mesh, 24, 64, instance, execute)
    launches, waits = record.total()
    ours = sum(e.triton for e in record.events)
    seconds = host_seconds(24, instance, args.repeat)
    more = (launches - ours) * args.launch_us + ours * args.triton_us
    lines = [
        f"## {instance.name}: 24 views × 64², sphere of 1,280 faces",
        "",
        f"{launches} launches ({ours} of Triton kernels), {waits} waits; host "
        f"{1e3 * seconds:.2f} ms with launches left out, about "
        f"{1e3 * seconds + more / 1e3:.2f} ms with them "
        f"({args.launch_us:g} µs for one of PyTorch's, {args.triton_us:g} µs for one of ours).",
        "",
        table(
            [(n, w, where, what) for where, n, w, what in record.by_line()],
            ("launches", "waits", "line", "operators"),
        ),
    ]
    return "\n".join(lines)


def in_tree(tree: Path, script: str, arguments: list[str]) -> str:
    """What a script of this folder prints when it looks at another checkout.

    Raises:
        SystemExit: if it fails there; with what it said.
    """
    root = tree.resolve()
    if not (root / "gendr" / "__init__.py").is_file():
        raise SystemExit(f"{tree} is no checkout of gendr")
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, str(Path(__file__).with_name(script)), *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(f"{script} failed in {tree}:\n{run.stderr}")
    return run.stdout


def main(arguments: list[str] | None = None) -> None:
    """Count, time, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, help="another checkout of gendr to look at")
    parser.add_argument("--repeat", type=int, default=200, help="steps that are timed")
    parser.add_argument("--launch-us", type=float, default=3.0, help="microseconds: an assumption")
    parser.add_argument("--triton-us", type=float, default=15.0, help="microseconds: an assumption")
    args = parser.parse_args(arguments)
    if args.repeat < 1:
        parser.error("--repeat must be at least 1")
    if args.tree is not None:
        options = [f"--{name.replace('_', '-')}={getattr(args, name)}"
                   for name in ("repeat", "launch_us", "triton_us")]  # fmt: skip
        print(in_tree(args.tree, "host_time.py", options), end="")
        return
    torch.set_num_threads(1)
    for instance in INSTANCES:
        print(report(instance, args), end="\n\n")


if __name__ == "__main__":
    main()
