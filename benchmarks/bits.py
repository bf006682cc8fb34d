"""Digests of seeded results of all systems, with their gradients: did a change alter a bit?

Run it before and after a change of the code, and compare what it prints. Bits are those of one
machine: its compiler and its vector instructions have a part in them.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import gendr
from gendr import logic, losses, mesh, relaxed, sorting, topk

Result = Callable[[], list[Tensor]]


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers of the normal law."""
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


def main() -> int:
    """Print one line a result; returns the exit status."""
    for name, run in results().items():
        digest = hashlib.sha256()
        for tensor in run():
            digest.update(tensor.contiguous().numpy().tobytes())
        print(f"{digest.hexdigest()[:16]}  {name}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
