"""Estimate, without a GPU, what a step of the Triton backend takes on one.

    python benchmarks/gpu_estimate.py                      # a table; a minute or two
    python benchmarks/gpu_estimate.py --tree OLD           # and what it was in another checkout
    python benchmarks/gpu_estimate.py --write              # also to docs/results/gpu-estimate.*

A step is alpha and the gradient of the vertices. Four scenes: the two that targets are set for, and
two whose work is hard to divide. The host's code runs on pretended tensors (`pretend_gpu.py`), the
kernels that make boxes and lists are evaluated with NumPy, and of the others how often each program
loops (`triton_programs.py`); every kernel is compiled to machine code, whose loops say what a round
issues and how long a warp takes for it (`machine_code.py`).

A kernel takes the longest of: `busy`, the cycles of the unit that is needed most, divided evenly;
`latency`, what its warps wait, as many at once as registers allow; `longest`, its longest program;
`memory`, each tensor moved once. No unit is idle and nothing else is on the GPU: expect more. A
step takes the host's time and its waits, or the GPU's, if that is longer (`low`), up to both in a
row (`high`); without waits they overlap, and `high` is `low`.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "0"  # before the first import of Triton

import machine_code
import numpy as np
import torch
import triton_programs
from host_time import Step as HostStep
from host_time import counted, host_seconds, in_tree, table
from machine_code import Assumptions
from pretend_gpu import Launch
from scenes import FAR, INSTANCES, NEAR, SETUPS, Instance, Setup

import gendr
from gendr.rendering.backends.choice import choose
from gendr.rendering.geometry import project_faces

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
REPEAT = 100  # steps that host time is the least of


# -- what is found


@dataclass(frozen=True)
class Kernel:
    """A row: a kernel in a step, all its launches together."""

    scene: str
    instance: str
    direction: str
    kernel: str
    launches: int
    programs: int
    pairs: int
    instructions_per_32_pairs: float
    warp_instructions: float
    rounds_of_longest: int
    registers: int
    spills: int
    warps: int
    moved_bytes: int
    busy_us: float
    latency_us: float
    longest_us: float
    memory_us: float
    us: float
    loops_known: bool


@dataclass(frozen=True)
class Step:
    """A row: a whole step."""

    scene: str
    instance: str
    kept_pairs: int
    launches: int
    triton_launches: int
    waits: int
    moved_bytes: int
    host_ms: float
    triton_forward_us: float
    triton_backward_us: float
    pytorch_us: float
    gpu_ms: float
    low_ms: float
    high_ms: float
    target_ms: float | None


@dataclass(frozen=True)
class Host:
    """What is assumed of the host.

    Attributes:
        launch_us: microseconds of the driver, for a launch.
        wait_us: microseconds of a wait, when all is done already.
        factor: its time, in those of the machine that this runs on.
    """

    launch_us: float = 3.0
    wait_us: float = 10.0
    factor: float = 1.0


def _moved(launch: Launch) -> int:
    """Bytes of the tensors of a launch."""
    given = (*launch.args, *launch.constants.values())
    return sum(x.numel() * x.element_size() for x in given if isinstance(x, torch.Tensor))


def kernels(
    setup: Setup, instance: Instance, given: Assumptions, observed: list[tuple[Launch, Any]]
) -> list[Kernel]:
    """The rows of a step's Triton kernels."""
    rows: dict[tuple[str, bool], list[tuple[Launch, machine_code.Code, machine_code.Cost]]] = {}
    for launch, trips in observed:
        code = machine_code.compiled(launch)
        programs = int(np.prod(launch.grid))
        found = machine_code.cost(code, list(trips.values()), programs, _moved(launch), given)
        rows.setdefault((launch.name, launch.backward), []).append((launch, code, found))
    out: list[Kernel] = []
    for (name, backward), all_of in rows.items():
        costs, code = [c for _, _, c in all_of], all_of[0][1]

        def total(name: str, costs: list[machine_code.Cost] = costs) -> float:
            return round(sum(getattr(c, name) for c in costs), 2)

        out.append(
            Kernel(
                scene=setup.name,
                instance=instance.name,
                direction="backward" if backward else "forward",
                kernel=name,
                launches=len(costs),
                programs=sum(c.programs for c in costs),
                pairs=sum(c.pairs for c in costs),
                instructions_per_32_pairs=round(costs[0].per_pairs, 1),
                warp_instructions=sum(c.issued for c in costs),
                rounds_of_longest=max(c.most for c in costs),
                registers=code.registers,
                spills=code.spills,
                warps=code.warps,
                moved_bytes=sum(_moved(launch) for launch, _, _ in all_of),
                busy_us=total("busy_us"),
                latency_us=total("latency_us"),
                longest_us=total("longest_us"),
                memory_us=total("memory_us"),
                us=total("us"),
                loops_known=all(c.exact for c in costs),
            )
        )
    return out


@torch.no_grad()
def kept_pairs(setup: Setup, instance: Instance) -> int:
    """(pixel, face) pairs within the radius: those that any renderer has to visit."""
    step = HostStep(setup.mesh(), setup.views, setup.size, instance, pretended=False)
    renderer, mesh, camera = step.renderer, step.mesh, step.camera
    faces, _ = project_faces(mesh, camera, NEAR, FAR)
    number = float(torch.as_tensor(renderer.scale if step.scale is None else step.scale))
    scale = torch.full((setup.views,), number)
    radius = renderer.dist.radius(scale, renderer.cutoff)
    runs = choose("cpu", faces.corners).pairs(faces, renderer.size, radius, 4_000_000)
    return sum(len(run().pixels) for run in runs)


def steps(
    setup: Setup, instance: Instance, given: Assumptions, host: Host
) -> tuple[Step, list[Kernel]]:
    """Count, compile, estimate."""
    observed: list[tuple[Launch, Any]] = []
    record = counted(
        setup.mesh(), setup.views, setup.size, instance,
        lambda launch: observed.append((launch, triton_programs.execute(launch))),
    )  # fmt: skip
    observed = observed[-len(record.launches) :]  # of the steady step
    rows = kernels(setup, instance, given, observed)
    launches, waits = record.total()
    ours = len(record.launches)
    pytorch = sum(
        max(e.launches * given.kernel_us, e.moved / given.terabytes / 1e6)
        for e in record.events if not e.triton
    )  # fmt: skip
    forward = sum(r.us for r in rows if r.direction == "forward")
    backward = sum(r.us for r in rows if r.direction == "backward")
    gpu = (forward + backward + pytorch) / 1e3
    seconds = host_seconds(setup.views, instance, REPEAT)
    host_ms = host.factor * (1e3 * seconds + launches * host.launch_us / 1e3)
    waiting = host_ms + waits * host.wait_us / 1e3
    low = max(gpu, waiting)
    row = Step(
        scene=setup.name,
        instance=instance.name,
        kept_pairs=kept_pairs(setup, instance),
        launches=launches,
        triton_launches=ours,
        waits=waits,
        moved_bytes=sum(e.moved for e in record.events),
        host_ms=round(host_ms, 3),
        triton_forward_us=round(forward, 2),
        triton_backward_us=round(backward, 2),
        pytorch_us=round(pytorch, 2),
        gpu_ms=round(gpu, 3),
        low_ms=round(low, 3),
        high_ms=round(gpu + waiting if waits else low, 3),
        target_ms=setup.target_ms,
    )
    return row, rows


def everything(scenes: str, given: Assumptions, host: Host) -> dict[str, Any]:
    """All rows, and where they come from; what `--json` prints."""
    root = Path(gendr.__file__).parents[1]
    log = subprocess.run(
        ["git", "log", "-1", "--format=%h"], cwd=root, capture_output=True, text=True, check=False
    )
    dirty = subprocess.run(
        ["git", "status", "--porcelain", "gendr"], cwd=root, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    out: dict[str, Any] = {
        "commit": log.stdout.strip() + ("+" if dirty.stdout.strip() else ""),
        "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}",
        "steps": [], "kernels": [],
    }  # fmt: skip
    for setup in SETUPS:
        for instance in INSTANCES:
            if scenes in f"{setup.name} {instance.name}":
                step, rows = steps(setup, instance, given, host)
                out["steps"].append(asdict(step))
                out["kernels"] += [asdict(row) for row in rows]
    return out


# -- what is printed and written


def _number(x: Any) -> str:
    if x is None:
        return ""
    if isinstance(x, float):
        return f"{x:,.3g}" if abs(x) < 1000 else f"{x:,.0f}"
    return f"{x:,}" if isinstance(x, int) and not isinstance(x, bool) else str(x)


def _aligned(head: list[str], rows: list[list[str]], markdown: bool) -> str:
    if not markdown:
        return table([tuple(row) for row in rows], tuple(head))
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


STEP_COLUMNS = {
    "kept_pairs": "kept pairs", "launches": "launches", "waits": "waits", "host_ms": "host ms",
    "triton_forward_us": "forward µs", "triton_backward_us": "backward µs",
    "pytorch_us": "PyTorch µs", "low_ms": "low ms", "high_ms": "high ms", "target_ms": "target ms",
}  # fmt: skip
KERNEL_COLUMNS = {
    "launches": "launches", "programs": "programs", "pairs": "pairs",
    "instructions_per_32_pairs": "instr / 32 pairs", "rounds_of_longest": "longest: rounds",
    "registers": "regs", "spills": "spills", "busy_us": "busy µs", "latency_us": "latency µs",
    "longest_us": "longest µs", "memory_us": "memory µs", "us": "µs",
}  # fmt: skip


def tables(reports: list[dict[str, Any]], given: Assumptions, host: Host, markdown: bool) -> str:
    """Steps, then kernels, oldest first; each row with its commit."""
    out = [f"commit {r['commit']}, {r['date']}" for r in reports]
    assumed = [f"{name} {value:g}" for name, value in {**asdict(given), **asdict(host)}.items()]
    out += ["", "Assumed: " + ", ".join(assumed) + ".", ""]
    for part, columns, own in (
        ("steps", STEP_COLUMNS, ["scene", "instance"]),
        ("kernels", KERNEL_COLUMNS, ["scene", "instance", "kernel"]),
    ):
        rows = [
            [*(row[name] for name in own), r["commit"], *(_number(row[n]) for n in columns)]
            for r in reports
            for row in r[part]
        ]
        order = {name: i for i, name in enumerate(dict.fromkeys(row[0] for row in rows))}
        rows.sort(key=lambda row: (order[row[0]], row[1], row[2] if part == "kernels" else ""))
        out += [_aligned([*own, "commit", *columns.values()], rows, markdown), ""]
    return "\n".join(out)


def write(reports: list[dict[str, Any]], given: Assumptions, host: Host) -> None:
    """To docs/results/gpu-estimate.csv (kernels), gpu-estimate-steps.csv and gpu-estimate.md."""
    for part, name in (("kernels", "gpu-estimate.csv"), ("steps", "gpu-estimate-steps.csv")):
        rows = [
            {"commit": r["commit"], "date": r["date"], **row} for r in reports for row in r[part]
        ]
        with (RESULTS / name).open("w", newline="", encoding="utf-8") as file:
            out = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            out.writeheader()
            out.writerows(rows)
    text = (
        "# What a step would take on an H200: an estimate\n\nMade by `benchmarks/gpu_estimate.py` "
    )
    text += "without a GPU; how, its docstring says.\n\n" + tables(reports, given, host, True)
    (RESULTS / "gpu-estimate.md").write_text(text.rstrip() + "\n", encoding="utf-8")


def _options(parser: argparse.ArgumentParser, kind: type[Any]) -> None:
    for f in fields(kind):
        name = f"--{f.name.replace('_', '-')}"
        parser.add_argument(name, type=type(f.default), default=f.default, help="assumed")


def _given(args: argparse.Namespace, kind: type[Any]) -> Any:
    return kind(**{f.name: getattr(args, f.name) for f in fields(kind)})


def _passed(args: argparse.Namespace) -> Iterator[str]:
    for kind in (Assumptions, Host):
        for f in fields(kind):
            yield f"--{f.name.replace('_', '-')}={getattr(args, f.name)}"
    yield f"--scenes={args.scenes}"
    yield "--json"


def main(arguments: list[str] | None = None) -> None:
    """Estimate, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenes", default="", help="only those whose name has this text")
    parser.add_argument("--tree", type=Path, help="another checkout of gendr to compare with")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--write", action="store_true", help="write docs/results/gpu-estimate.*")
    _options(parser, Assumptions)
    _options(parser, Host)
    args = parser.parse_args(arguments)
    given, host = _given(args, Assumptions), _given(args, Host)
    torch.set_num_threads(1)
    reports = []
    if args.tree is not None:
        reports.append(json.loads(in_tree(args.tree, "gpu_estimate.py", list(_passed(args)))))
    reports.append(everything(args.scenes, given, host))
    if not reports[-1]["steps"]:
        parser.error(f"--scenes: no scene has {args.scenes!r} in its name")
    if args.json:
        print(json.dumps(reports[-1]))
        return
    print(tables(reports, given, host, markdown=False))
    if args.write:
        write(reports, given, host)


if __name__ == "__main__":
    main()
