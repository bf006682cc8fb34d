"""Steps of the CPU renderer, forward and backward, beside those of another commit, in one run.

    python benchmarks/steps.py --beside c618c28 [--seconds 120] [--docs]

Two processes take turns, so that other load of the machine meets both. Times are processor time on
one thread, the least of all runs, and the unit is a product of two float32 matrices of 2048² on one
thread: both mean something on a busy machine too. A step of `gendr fit` is a short fit over its
number of steps. --docs writes the table into docs/results/speed.md.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from _turns import ROOT, taking_turns
from rows import measured_on

import gendr
from gendr.mesh import cube_sphere, icosphere
from lab.pages import fill, table

NEAR, FAR = 1.0, 100.0
WIDE: dict[str, Any] = {"dist": "logistic.squared", "scale": 1e-4}


@cache
def mesh(name: str) -> gendr.Mesh:
    """One of three balls, with colours."""
    made = {"642 vertices": lambda: icosphere(3), "40,368 faces": lambda: cube_sphere(58),
            "1,310,720 faces": lambda: icosphere(8)}[name]().scaled(0.5)  # fmt: skip
    return made.with_vertex_colors((3 * made.vertices).sin().abs())


def rendering(name: str, views: int, size: int, part: str = "alpha", **options: Any) -> Any:
    """A step: the gradient of the vertices."""

    def make() -> Callable[[], float]:
        ball = mesh(name)
        camera = gendr.look_at(2.732, 30.0, torch.arange(views) * 360.0 / views)
        renderer = gendr.Renderer(size, near=NEAR, far=FAR, **options)
        vertices = ball.vertices.clone().requires_grad_()

        def step() -> float:
            vertices.grad = None
            start = time.process_time()
            image = getattr(renderer(ball.with_vertices(vertices), camera), part)
            image.square().sum().backward()
            return time.process_time() - start

        return step

    return make


def product() -> Callable[[], float]:
    """The unit."""
    a = torch.rand(2048, 2048)

    def run() -> float:
        start = time.process_time()
        torch.mm(a, a)
        return time.process_time() - start

    return run


def fitting() -> Callable[[], float]:
    """A step of a fit of 2,562 vertices to 24 masks of 128²."""
    camera = gendr.look_at(2.732, 20.0, torch.arange(24) * 15.0)
    with torch.no_grad():
        ball = icosphere(3)
        target = ball.with_vertices(ball.vertices * torch.tensor([0.5, 0.3, 0.4]))
        masks = gendr.Renderer(128, "heaviside", "max")(target, camera).alpha

    def run() -> float:
        start = time.process_time()
        found = gendr.fit(masks, camera, subdivisions=4, steps=20)
        return (time.process_time() - start) / len(found.history)

    return run


LARGE = "1 × 512², 40,368 faces"
CASES: dict[str, Any] = {
    "2048³ product": product,
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
}


def serve() -> None:
    """Answer names on stdin with the seconds of a run; the first run of each is not told."""
    torch.set_num_threads(1)
    known: dict[str, Callable[[], float]] = {}
    for line in sys.stdin:
        name = line.rstrip("\n")
        if name not in known:
            known[name] = CASES[name]()
            known[name]()
        print(known[name](), flush=True)


def beside(commit: str, seconds: float) -> dict[str, tuple[float, float]]:
    """The least seconds of every case, at a commit and here."""
    found: dict[str, list[list[float]]] = {name: [] for name in CASES}
    with taking_turns(__file__, commit) as ask:
        begun = None
        while begun is None or time.monotonic() - begun < seconds:
            for name, times in found.items():
                times.append([float(answer) for answer in ask(name)])
            begun = begun or time.monotonic()  # the first round compiles
    return {name: tuple(map(min, zip(*times, strict=True))) for name, times in found.items()}


def lines(commit: str, found: dict[str, tuple[float, float]]) -> list[str]:
    """The table."""
    unit = min(found["2048³ product"])
    about = measured_on()
    rows = [
        (name, *(f"{1e3 * t:.1f} ms" for t in times),
         *(f"{t / unit:.2f}" for t in times), f"{times[0] / times[1]:.2f}")
        for name, times in found.items()
    ]  # fmt: skip
    said = (
        f"Measured on {about['date']} at commit {about['commit']} on one thread of "
        f"{about['machine']}; before: commit {commit}."
    )
    head = ("step", "before", "now", "before / product", "now / product", "before / now")
    return [said, "", *table(head, rows)]


def main() -> None:
    """Measure and print, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--beside", metavar="COMMIT", default="HEAD", help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=120.0, metavar="N", help="%(default)s")
    parser.add_argument("--docs", action="store_true", help="write into docs/results/speed.md")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve()
        return
    found = lines(args.beside, beside(args.beside, args.seconds))
    print("\n".join(found))
    if args.docs:
        fill(ROOT / "docs" / "results" / "speed.md", "steps", found)


if __name__ == "__main__":
    main()
