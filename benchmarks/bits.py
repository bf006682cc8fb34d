"""Seeded results of all systems, with their gradients: did a change alter a bit, or the speed?

    python benchmarks/bits.py                    digests; run it before and after a change
    python benchmarks/bits.py --beside c618c28   digests and times beside those of a commit
    python benchmarks/bits.py --beside c618c28 --only "larger (sort|mask)"

Bits are those of one machine: its compiler and its vector instructions have a part in them. Times
are of two processes that take turns, forward and backward of small and of larger input: the least
of a round, and of the ratio of rounds the median and the quartiles.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from _turns import taking_turns
from torch import Tensor

import gendr
from gendr import logic, losses, mesh, relaxed, sorting, topk

Result = Callable[[], list[Tensor]]


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers of the normal distribution."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def graded(function: Callable[..., Any], *given: Tensor) -> list[Tensor]:
    """The results of a function, and the gradients of its arguments."""
    leaves = [x.clone().requires_grad_() for x in given]
    results = function(*leaves)
    results = [results] if isinstance(results, Tensor) else list(results)
    loss = sum((r * torch.linspace(0.5, 1.5, r.numel()).to(r).view_as(r)).sum() for r in results)
    return [*(r.detach() for r in results), *torch.autograd.grad(loss, leaves)]


def rendered(part: str, **options: Any) -> Result:
    """A sphere in three views."""

    def run() -> list[Tensor]:
        ball = mesh.icosphere(2)
        ball = ball.with_vertex_colors(random(len(ball.vertices), 3, seed=1).sigmoid())
        cameras = gendr.look_at(3.0, 20.0, torch.tensor([0.0, 120.0, 240.0]))
        renderer = gendr.Renderer(48, **options)
        return graded(
            lambda vertices: getattr(renderer(ball.with_vertices(vertices), cameras), part),
            ball.vertices + 0.02 * random(*ball.vertices.shape),
        )

    return run


def layer(**options: Any) -> Result:
    """A layer of gates."""

    def run() -> list[Tensor]:
        torch.manual_seed(0)
        gates = logic.LogicLayer(20, 40, seed=0, init="normal", **options)
        return graded(gates, random(16, 20).sigmoid())

    return run


def results() -> dict[str, Result]:
    """Name -> a function that computes the result and its gradients."""
    x, costs = random(4, 16), random(2, 12, 12, seed=2).exp()
    first, second = random(3, 7, seed=3), random(3, 9, seed=4)
    labels = torch.tensor([3, 1, 7, 0])
    found: dict[str, Result] = {}
    for dist, tconorm in (
        ("uniform", "probabilistic"), ("logistic.squared", "probabilistic"),
        ("cauchy", "yager(p=2)"),
        ("gamma(shape=0.5).reversed", "hamacher(p=0.5)"), ("gaussian", "max"), ("levy", "einstein"),
    ):  # fmt: skip
        name = f"alpha {dist} {tconorm}"
        found[name] = rendered("alpha", dist=dist, tconorm=tconorm, scale=0.02)
    found["rgb softmax"] = rendered("rgb", dist="logistic", scale=0.02)
    found["rgb alpha"] = rendered("rgb", dist="logistic", scale=0.02, composite="alpha")
    found["rgb hard"] = rendered("rgb", shading="hard", lighting="phong")
    found["depth"] = rendered("depth", shading="hard", near=1.0, far=100.0)
    for method in ("bitonic", "odd_even", "neuralsort", "softsort", "sinkhorn", "permutahedron"):
        found[f"sort {method}"] = lambda method=method: graded(
            lambda x: sorting.soft_sort(x, method=method), x
        )
    found["rank"] = lambda: graded(sorting.soft_rank, x)
    found["permutation"] = lambda: graded(lambda x: sorting.permutation(x, method="bitonic"), x)
    for method in ("splitter", "neuralsort"):
        found[f"top-k {method}"] = lambda method=method: graded(
            lambda x: topk.soft_topk(x, 3, method=method).values, x
        )
    for dist in ("laplace", "gaussian"):
        found[f"mask {dist}"] = lambda dist=dist: graded(
            lambda x: topk.soft_topk_mask(x, 3, dist=dist), x
        )
    loss = topk.TopKCrossEntropy([0.5, 0.0, 0.5])
    found["top-k loss"] = lambda: graded(lambda x: loss(x, labels), x)
    found["path"] = lambda: graded(relaxed.shortest_path, costs)
    found["alignment"] = lambda: graded(relaxed.dynamic_time_warping, first, second)
    found["bubble sort"] = lambda: graded(relaxed.bubble_sort, x)
    found["gates"] = layer()
    found["gates of 4 inputs"] = layer(fan_in=4)
    found["learnt wires"] = layer(wiring="learnable")
    ball = mesh.icosphere(2)
    found["losses"] = lambda: graded(
        lambda v: losses.laplacian_loss(ball.with_vertices(v)),
        ball.vertices + 0.02 * random(*ball.vertices.shape),
    )
    return found


def larger() -> dict[str, Result]:
    """Results that take milliseconds."""
    x, costs = random(100, 128), random(70, 12, 12, seed=2).exp()
    names = ("bitonic", "odd_even", "softsort", "permutahedron")
    found: dict[str, Result] = {
        f"larger sort {name}": lambda name=name: graded(
            lambda x: sorting.soft_sort(x, method=name), x
        )
        for name in names
    }
    found["larger path"] = lambda: graded(lambda c: relaxed.shortest_path(c, iterations=25), costs)
    found["larger mask"] = lambda: graded(lambda x: topk.soft_topk_mask(x, 100), random(200_000))
    torch.manual_seed(0)
    gates = logic.LogicLayer(2000, 2000, seed=0)
    found["larger gates"] = lambda: graded(gates, random(100, 2000).sigmoid())
    ball, cameras = mesh.icosphere(4), gendr.look_at(3.0, 20.0, torch.arange(4) * 90.0)
    ball = ball.with_vertex_colors(random(len(ball.vertices), 3, seed=1).sigmoid())
    renderer = gendr.Renderer(128, "logistic", scale=0.01)
    for part in ("alpha", "rgb"):
        found[f"larger {part}"] = lambda part=part: graded(
            lambda v: getattr(renderer(ball.with_vertices(v), cameras), part), ball.vertices
        )
    return found


def digest(run: Result) -> str:
    """Of the bits of a result."""
    found = hashlib.sha256()
    for tensor in run():
        found.update(tensor.contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def serve() -> None:
    """Answer names on stdin: the digest at first, then the least seconds of some runs."""
    known, seen = results() | larger(), set[str]()
    for line in sys.stdin:
        name = line.rstrip("\n")
        if name not in seen:
            seen.add(name)
            print(digest(known[name]), flush=True)
            continue
        times = list[float]()
        while len(times) < 5 or (sum(times) < 0.05 and len(times) < 50):
            start = time.perf_counter()
            known[name]()
            times.append(time.perf_counter() - start)
        print(min(times), flush=True)


def beside(commit: str, rounds: int, only: str) -> None:
    """Print digests and ratios of times of this tree to those of a commit."""
    with taking_turns(__file__, commit) as ask:
        for name in filter(re.compile(only).search, results() | larger()):
            before, now = ask(name)
            times = np.array([[float(answer) for answer in ask(name)] for _ in range(rounds)])
            low, middle, high = np.percentile(times[:, 1] / times[:, 0], [25, 50, 75])
            bits = "same bits" if before == now else "OTHER BITS"
            print(f"{bits}  {middle:.3f} ({low:.3f} to {high:.3f})  {name}", flush=True)


def main() -> int:
    """Print one line a result; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--beside", metavar="COMMIT")
    parser.add_argument("--only", default="", metavar="PATTERN", help="results, a regex")
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="%(default)s")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve()
    elif args.beside:
        beside(args.beside, args.rounds, args.only)
    else:
        for name, run in results().items():
            print(f"{digest(run)}  {name}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
