"""What a step of the Triton backend costs its host, found without a GPU.

    python benchmarks/host_time.py                  # launches, waits and their lines; seconds
    python benchmarks/host_time.py --tree OLD       # the same of another checkout

A step is a renderer's alpha and the gradient of the vertices; the loss is left out: its gradient
is given. Launches and waits are counted by `pretend_gpu.py`, in a steady step: the third. Host time
is processor time on tensors of the CPU that are so small that computing on them takes no time;
launches of Triton kernels go through Triton as far as the driver. What CUDA's driver takes for a
launch is an assumption, `--launch-us`.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

os.environ["TRITON_INTERPRET"] = "0"  # before the first import of Triton

import pretend_gpu
import scenes
import torch
from pretend_gpu import Launch, Record
from scenes import INSTANCES, Instance, Setup

import gendr

PROFILED = 20  # steps
WARM = 2  # steps before the one that is looked at


class Step(scenes.Step):
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
        super().__init__(Setup("", lambda: mesh, views, size), instance, "cpu")
        if not pretended:
            return
        device = pretend_gpu.device()
        with pretend_gpu.recorded():
            self.mesh, self.camera = self.mesh.to(device), self.camera.to(device)
        self.grad = pretend_gpu.upload(self.grad)
        self.vertices = pretend_gpu.upload(self.vertices).requires_grad_()
        for name, x in self.renderer.named_parameters():
            setattr(self.renderer, name, torch.nn.Parameter(pretend_gpu.upload(x)))


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
        step.renderer.zero_grad()  # as an optimiser does
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of anomaly mode
            with pretend_gpu.recorded(launch) as record:
                step()
    return record


def _tiny(views: int, instance: Instance) -> Step:
    """A step on the CPU that launches what a step of the scene launches.

    Of 24 views it has 7,680 faces: enough for one program to each in the backward pass.
    """
    return Step(gendr.mesh.icosphere(2).scaled(0.5), views, 8, instance, pretended=False)


def host_seconds(views: int, instance: Instance, repeat: int) -> float:
    """Seconds of a step on tiny tensors of the CPU, the driver left out.

    The least processor time of all repetitions: what else the machine does is left out too.
    """
    step = _tiny(views, instance)
    times = []
    with pretend_gpu.triton_forced(), pretend_gpu.driver_replaced():
        for _ in range(WARM):
            step()
        for _ in range(repeat):
            start = time.process_time()
            step()
            times.append(time.process_time() - start)
    return min(times)


def triton_seconds(views: int, instance: Instance, repeat: int) -> float:
    """Seconds of a step that Triton's own Python takes for all its launches."""
    from triton.runtime.jit import JITFunction

    step = _tiny(views, instance)
    spent, times, run = [0.0], [], JITFunction.run

    def timed(self: Any, *args: Any, **options: Any) -> Any:
        start = time.process_time()
        try:
            return run(self, *args, **options)
        finally:
            spent[0] += time.process_time() - start

    with (
        pretend_gpu.triton_forced(),
        pretend_gpu.driver_replaced(),
        mock.patch.object(JITFunction, "run", timed),
    ):
        for _ in range(WARM + repeat):
            spent[0] = 0.0
            step()
            times.append(spent[0])
    return min(times[WARM:])


def addition_seconds() -> float:
    """Seconds of adding two tensors of one number: a yardstick of the machine."""
    x, times = torch.ones(1), []
    for _ in range(100):
        start = time.process_time()
        for _ in range(100):
            x + x  # pyright: ignore[reportUnusedExpression]
        times.append((time.process_time() - start) / 100)
    return min(times)


def profiled(views: int, instance: Instance, lines: int) -> str:
    """The functions of gendr that take longest, by what they call too; with the profiler's cost."""
    step = _tiny(views, instance)
    profile = cProfile.Profile(time.process_time)  # of this process, whatever else runs
    with pretend_gpu.triton_forced(), pretend_gpu.driver_replaced():
        for _ in range(WARM):
            step()
        profile.enable()
        for _ in range(PROFILED):
            step()
        profile.disable()
    rows: list[tuple[Any, ...]] = []
    stats: dict[tuple[str, int, str], tuple[Any, ...]] = vars(pstats.Stats(profile))["stats"]
    for (file, line, name), (_, calls, own, total, _) in stats.items():
        at = file.rfind("/gendr/")
        where = file[at + 1 :] if at >= 0 else "triton" if "/triton/runtime/" in file else None
        if where is not None:
            micro = [round(1e6 * x / PROFILED) for x in (total, own)]
            rows.append((*micro, calls // PROFILED, f"{where}:{line} {name}"))
    rows.sort(reverse=True)
    return table(rows[:lines], ("µs", "own µs", "calls", "function"))


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
    more = launches * args.launch_us
    lines = [
        f"## {instance.name}: 24 views × 64², sphere of 1,280 faces",
        "",
        f"{launches} launches ({ours} of Triton kernels), {waits} waits; host "
        f"{1e3 * seconds:.2f} ms without the driver, about {1e3 * seconds + more / 1e3:.2f} ms "
        f"with it ({args.launch_us:g} µs for a launch); that is {seconds / addition_seconds():.0f} "
        f"additions of two numbers. Triton's own Python takes "
        f"{1e3 * triton_seconds(24, instance, args.repeat):.2f} ms of it.",
        "",
        table(
            [(n, w, where, what) for where, n, w, what in record.by_line()],
            ("launches", "waits", "line", "operators"),
        ),
    ]
    if args.profile:
        lines += ["", profiled(24, instance, args.profile)]
    return "\n".join(lines)


def in_tree(tree: Path, script: str, arguments: list[str]) -> str:
    """What a script of this folder prints when it looks at another checkout.

    Raises:
        SystemExit: if it fails there; with what it said.
    """
    root = tree.resolve()
    if not (root / "gendr" / "__init__.py").is_file():
        raise SystemExit(f"{tree} is no checkout of gendr")
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
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
    parser.add_argument("--profile", type=int, default=0, help="functions that take longest")
    args = parser.parse_args(arguments)
    if args.repeat < 1:
        parser.error("--repeat must be at least 1")
    if args.tree is not None:
        options = [f"--repeat={args.repeat}", f"--launch-us={args.launch_us}",
            f"--profile={args.profile}"]  # fmt: skip
        print(in_tree(args.tree, "host_time.py", options), end="")
        return
    torch.set_num_threads(1)
    for instance in INSTANCES:
        print(report(instance, args), end="\n\n")


if __name__ == "__main__":
    main()
