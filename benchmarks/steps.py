"""Steps of all systems on the CPU, forward and backward, beside those of another commit.

    python benchmarks/steps.py --beside c618c28 [--seconds 120] [--cases sort] [--docs]

Two processes take turns, so that other load of the machine meets both. Times are processor time on
one thread, the least of all runs, and the unit is a product of two float32 matrices of 2048² on one
thread: both mean something on a busy machine too. With --threads 2 they are those of a clock on the
wall, on a machine that does nothing else. A step of `gendr fit` is a short fit over its number of
steps. --docs writes a table of docs/results/speed.md, by default that of all cases.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import torch
from _turns import ROOT, taking_turns
from rows import measured_on
from torch import Tensor, nn
from torch.nn import functional

import gendr
from gendr import logic, sorting, topk
from gendr.mesh import cube_sphere, icosphere
from lab.pages import fill, table

Step: TypeAlias = Callable[[], Any]  # an int is the number of steps that it was
Make: TypeAlias = Callable[[], Step]

NEAR, FAR = 1.0, 100.0
LEAST = 0.02  # seconds: shorter steps are run more than once in a round
WIDE: dict[str, Any] = {"dist": "logistic.squared", "scale": 1e-4}


@cache
def mesh(name: str) -> gendr.Mesh:
    """One of three balls, with colours."""
    made = {"642 vertices": lambda: icosphere(3), "40,368 faces": lambda: cube_sphere(58),
            "1,310,720 faces": lambda: icosphere(8)}[name]().scaled(0.5)  # fmt: skip
    return made.with_vertex_colors((3 * made.vertices).sin().abs())


def rendering(name: str, views: int, size: int, part: str = "alpha", **options: Any) -> Make:
    """A step: the gradient of the vertices."""

    def make() -> Step:
        ball = mesh(name)
        camera = gendr.look_at(2.732, 30.0, torch.arange(views) * 360.0 / views)
        renderer = gendr.Renderer(size, near=NEAR, far=FAR, **options)
        vertices = ball.vertices.clone().requires_grad_()

        def step() -> None:
            vertices.grad = None
            image = getattr(renderer(ball.with_vertices(vertices), camera), part)
            image.square().sum().backward()

        return step

    return make


def product() -> Step:
    """The unit."""
    a = torch.rand(2048, 2048)
    return lambda: torch.mm(a, a)


def fitting() -> Step:
    """A step of a fit of 2,562 vertices to 24 masks of 128²."""
    camera = gendr.look_at(2.732, 20.0, torch.arange(24) * 15.0)
    with torch.no_grad():
        ball = icosphere(3)
        target = ball.with_vertices(ball.vertices * torch.tensor([0.5, 0.3, 0.4]))
        masks = gendr.Renderer(128, "heaviside", "max")(target, camera).alpha

    return lambda: len(gendr.fit(masks, camera, subdivisions=4, steps=20).history)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Numbers of the normal law."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def graded(function: Callable[..., Tensor], *shape: int, **options: Any) -> Make:
    """A step: the gradient of values of this shape, of an upstream gradient that is drawn."""

    def make() -> Step:
        x = drawn(*shape).requires_grad_()
        grad = drawn(*function(x, **options).shape, seed=1)

        def step() -> None:
            torch.autograd.grad(function(x, **options), x, grad)

        return step

    return make


def top_k_loss() -> Step:
    """The loss of 100 rows of 1,000 classes."""
    loss, labels = topk.TopKCrossEntropy((0.2,) * 5, m=16), torch.arange(100) * 7 % 1000
    x = (2 * drawn(100, 1000)).requires_grad_()
    return lambda: torch.autograd.grad(loss(x, labels), x)


def training() -> Step:
    """A step of four layers of gates, with Adam."""
    widths = [784, *[2000] * 4]
    layers = (
        logic.LogicLayer(a, b, init="normal", seed=k) for k, (a, b) in enumerate(pairwise(widths))
    )
    model = nn.Sequential(*layers, logic.GroupSum(10, 10.0))
    adam = torch.optim.Adam(model.parameters(), 0.01, fused=True)
    x, labels = (drawn(100, 784) > 0).float(), torch.arange(100) % 10

    def step() -> None:
        adam.zero_grad()
        functional.cross_entropy(model(x), labels).backward()
        adam.step()

    return step


UNIT = "2048³ product"


def program(text: str, *arguments: str) -> Make:
    """A program in a process of its own, which has run before: its kernels are on disk."""

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", text, *arguments]
            one = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
            subprocess.run(command, check=True, cwd=folder, env=one, stdout=subprocess.DEVNULL)

    return lambda: run


FIRST = """
import gendr
from gendr.mesh import icosphere
ball = icosphere(3).scaled(0.5)
vertices = ball.vertices.clone().requires_grad_()
camera = gendr.look_at(2.732, 30.0, 0.0)
gendr.Renderer(64)(ball.with_vertices(vertices), camera).alpha.sum().backward()
"""
FIT = "from gendr.cli import main; main(['fit', __import__('sys').argv[1], '-o', 'out', '--quiet'])"
COW = Path(os.environ.get("GENDR_DATA", "data")) / "meshes" / "cow.obj"

LARGE = "1 × 512², 40,368 faces"
CASES: dict[str, Make] = {
    UNIT: product,
    "24 × 64², 642 vertices, logistic.squared 1e-4": rendering("642 vertices", 24, 64, **WIDE),
    "24 × 64², 642 vertices, RGB": rendering("642 vertices", 24, 64, "rgb", **WIDE),
    f"{LARGE}, logistic.squared 1e-4": rendering("40,368 faces", 1, 512, cutoff=1e-3, **WIDE),
    f"{LARGE}, RGB": rendering("40,368 faces", 1, 512, "rgb", cutoff=1e-3, **WIDE),
    f"{LARGE}, uniform 0.01": rendering(
        "40,368 faces", 1, 512, dist="uniform", scale=0.01, cutoff=1e-3
    ),
    f"{LARGE}, logistic 0.1 px": rendering(
        "40,368 faces", 1, 512, dist="logistic", scale="0.1px", cutoff=1e-3
    ),
    "1 × 1024², 1,310,720 faces, logistic 0.1 px": rendering(
        "1,310,720 faces", 1, 1024, dist="logistic", scale="0.1px", cutoff=1e-3
    ),
    "a step of `gendr fit`, 24 × 128², 2,562 vertices": fitting,
    **{
        f"{name} {rows} × {n}, {what}": graded(function, rows, n, method=name)
        for name, function, what, rows, n in (
            ("bitonic", sorting.permutation, "P", 100, 128),
            ("bitonic", sorting.permutation, "P", 1, 1024),
            ("bitonic", sorting.soft_sort, "values", 100, 128),
            ("softsort", sorting.permutation, "P", 100, 128),
            ("softsort", sorting.soft_sort, "values", 100, 128),
            ("softsort", sorting.soft_rank, "ranks", 100, 128),
            ("softsort", sorting.permutation, "P", 1, 1024),
            ("softsort", sorting.soft_sort, "values", 1, 1024),
            ("softsort", sorting.soft_rank, "ranks", 1, 1024),
            ("neuralsort", sorting.permutation, "P", 100, 128),
            ("neuralsort", sorting.soft_sort, "values", 100, 128),
            ("neuralsort", sorting.soft_rank, "ranks", 100, 128),
            ("neuralsort", sorting.permutation, "P", 1, 1024),
            ("neuralsort", sorting.soft_sort, "values", 1, 1024),
            ("neuralsort", sorting.soft_rank, "ranks", 1, 1024),
            ("permutahedron", sorting.soft_sort, "values", 1, 1000),
            ("permutahedron", sorting.soft_rank, "ranks", 1, 1000),
            ("permutahedron", sorting.soft_rank, "ranks", 1, 100_000),
        )
    },
    "top-k cross-entropy, 100 × 1000, m 16, k 5": top_k_loss,
    "logic training, 784 → 4 × 2000, batch 100": training,
    "import torch, in a process of its own": program("import torch"),
    "first step in a process, kernels on disk": program(FIRST),
    **({"gendr fit cow.obj": program(FIT, str(COW.resolve()))} if COW.is_file() else {}),
}
# What is asked of two cores by a clock on the wall, in ms.
ASKED = {
    "24 × 64², 642 vertices, logistic.squared 1e-4": "0.15 × the product",
    "24 × 64², 642 vertices, RGB": "2 × alpha",
    f"{LARGE}, logistic.squared 1e-4": "80",
    f"{LARGE}, RGB": "2 × alpha",
    f"{LARGE}, uniform 0.01": "35",
    f"{LARGE}, logistic 0.1 px": "20",
    "1 × 1024², 1,310,720 faces, logistic 0.1 px": "400",
    "a step of `gendr fit`, 24 × 128², 2,562 vertices": "40",
    "bitonic 100 × 128, P": "6",
    "bitonic 1 × 1024, P": "6",
    "bitonic 100 × 128, values": "2",
    "softsort 100 × 128, values": "3.9",
    "softsort 1 × 1024, values": "2",
    "neuralsort 100 × 128, values": "3.9",
    "neuralsort 1 × 1024, values": "2.1",
    "permutahedron 1 × 1000, values": "0.08",
    "permutahedron 1 × 1000, ranks": "0.08",
    "permutahedron 1 × 100000, ranks": "2.5",
    "top-k cross-entropy, 100 × 1000, m 16, k 5": "0.45",
    "logic training, 784 → 4 × 2000, batch 100": "3",
    "first step in a process, kernels on disk": "250",
    "gendr fit cow.obj": "6000",
}


def serve(threads: int) -> None:
    """Answer names on stdin with the seconds of a step; the first run of each is not told."""
    torch.set_num_threads(threads)
    clock = processor_time if threads == 1 else time.perf_counter
    known: dict[str, Step] = {}
    for line in sys.stdin:
        name = line.rstrip("\n")
        if name not in known:
            known[name] = CASES[name]()
            known[name]()
        print(seconds_of(known[name], clock), flush=True)


def processor_time() -> float:
    """Of this process and of the programs that it ran."""
    ran = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ran.ru_utime + ran.ru_stime


def seconds_of(step: Step, clock: Callable[[], float]) -> float:
    """The least seconds of a step."""
    least, begun, now = math.inf, clock(), 0.0
    while now - begun < LEAST:
        start = clock()
        count = step()
        now = clock()
        least = min(least, (now - start) / (count if isinstance(count, int) else 1))
    return least


def beside(
    commit: str, names: list[str], seconds: float, threads: int
) -> dict[str, tuple[float, float]]:
    """The least seconds of cases, at a commit and here."""
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    with taking_turns(__file__, commit, "--threads", str(threads)) as ask:
        begun = None
        while begun is None or time.monotonic() - begun < seconds:
            for name, times in found.items():
                times.append([float(answer) for answer in ask(name)])
            begun = begun or time.monotonic()  # the first round compiles
    return {name: tuple(map(min, zip(*times, strict=True))) for name, times in found.items()}


def lines(commit: str, found: dict[str, tuple[float, float]], threads: int) -> list[str]:
    """The table."""
    unit = min(found[UNIT])
    about = measured_on()
    if Path(commit).is_dir():
        command = ["git", "-C", commit, "describe", "--always"]
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    rows = [
        (name, *(f"{1e3 * t:.2f} ms" if t < 0.01 else f"{1e3 * t:.0f} ms" for t in times),
         *(f"{t / unit:.3f}" if t < unit else f"{t / unit:.2f}" for t in times),
         f"{times[0] / times[1]:.2f}", ASKED.get(name, ""))
        for name, times in found.items()
    ]  # fmt: skip
    on = "one thread" if threads == 1 else f"{threads} threads"
    said = (
        f"Measured on {about['date']} at commit {about['commit']} on {on} of "
        f"{about['machine']}; before: commit {commit}."
    )
    head = ("step", "before", "now", "before / product", "now / product", "before / now", "asked")
    return [said, "", *table(head, rows)]


def main() -> None:
    """Measure and print, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--beside", metavar="COMMIT", default="HEAD", help="or a clone; default: %(default)s")
    add("--seconds", type=float, default=120.0, metavar="N", help="%(default)s")
    add("--cases", default="", metavar="PATTERN", help="what to measure, a regex")
    add("--threads", type=int, default=1, metavar="N", help="%(default)s")
    add("--docs", nargs="?", const="steps", metavar="TABLE", help="of docs/results/speed.md")
    add("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.threads)
        return
    names = [name for name in CASES if name == UNIT or re.search(args.cases, name)]
    times = beside(args.beside, names, args.seconds, args.threads)
    found = lines(args.beside, times, args.threads)
    print("\n".join(found))
    if args.docs:
        fill(ROOT / "docs" / "results" / "speed.md", args.docs, found)


if __name__ == "__main__":
    main()
