"""Every family of operators, for tests of what holds for all of them, such as under threads."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Barrier
from typing import Any, TypeAlias
from unittest.mock import patch

import torch
from torch import Tensor

from gendr import distributions, logic, losses, mesh, relaxed, rendering, sorting, topk

__all__ = ["Calls", "all_work_shared", "from_threads", "operators"]

# From how much work on kernels wake other threads.
_LEAST = (
    "gendr.topk.mask._WORTH_THREADS", "gendr.topk.losses._WORTH_THREADS",
    "gendr.sorting.rows.SMALL", "gendr.sorting.permutahedron._WORTH_THREADS",
    "gendr.sorting.backends.cpu.backend._SHARED", "gendr.relaxed.backends.cpu.backend._SHARED",
    "gendr.logic.backends.cpu.backend._SHARED",
)  # fmt: skip

Calls: TypeAlias = "dict[str, Callable[[], list[Tensor]]]"


def _graded(function: Callable[..., Tensor], *given: Tensor) -> list[Tensor]:
    """What a function gives, and the gradient of each leaf, from leaves of this call alone."""
    leaves = [leaf.detach().clone().requires_grad_() for leaf in given]
    out = function(*leaves)
    weights = torch.linspace(0.5, 1.5, out.numel(), dtype=out.dtype).reshape(out.shape)
    return [out.detach(), *torch.autograd.grad((out * weights).sum(), leaves)]


@relaxed.relax
def _scan(x: Any) -> Any:
    best = x[0]
    for i in range(1, 6):
        if x[i] > best:
            best = x[i]
    return best


def operators(seed: int) -> Calls:
    """One call of every family, quick ones.

    Args:
        seed: of all numbers.

    Returns:
        By name: a function that gives the output and its gradients, from new leaves at each call.
    """
    draw = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.rand(shape, generator=draw)

    ball = mesh.icosphere(2).scaled(0.5)
    cameras = mesh.look_at(2.7, 20.0, torch.tensor([0.0, 100.0]))
    colours = random(len(ball.vertices), 3)
    corners = torch.cat([2 * random(2, 40, 3, 2) - 1, 1 + random(2, 40, 3, 1)], -1)
    layer, few = logic.LogicLayer(200, 800, seed=seed), logic.LogicConv2d(2, 20, 3, seed=seed)
    circuit = logic.harden(logic.LogicLayer(200, 800, seed=seed))
    renderer = rendering.Renderer(40, "logistic", scale=0.03, gamma=0.1)
    squared = rendering.Renderer(
        40, "cauchy", "yager(p=2)", scale=0.03, composite="alpha", gamma=0.1
    )
    law = distributions.get("gamma(shape=0.5).reversed.centred")
    x, bits, labels = random(60, 40), (random(300, 200) > 0.5).float(), torch.arange(60) % 40
    cross = topk.TopKCrossEntropy([0.5, 0.5])

    def drawn(use: rendering.Renderer, vertices: Tensor, colours: Tensor) -> Tensor:
        return use(ball.with_vertices(vertices).with_vertex_colors(colours), cameras).rgb

    calls: dict[str, tuple[Any, ...]] = {
        "alpha": (lambda v: renderer(ball.with_vertices(v), cameras).alpha, ball.vertices),
        "rgb": (lambda *leaves: drawn(renderer, *leaves), ball.vertices, colours),
        "composite": (lambda *leaves: drawn(squared, *leaves), ball.vertices, colours),
        "silhouette": (lambda f: rendering.silhouette(f, 40, law, scale=0.05), corners),
        "mask": (lambda x: topk.soft_topk_mask(x, 5), x),
        "selection": (lambda x: topk.soft_topk(x, 3).values, x),
        "top-k loss": (lambda x: cross(x, labels), x),
        "rank": (lambda x: sorting.soft_rank(x), x),
        "program": (lambda x: _scan(x, scale=0.1), x[0]),
        "path": (lambda x: relaxed.shortest_path(x), random(20, 6, 6)),
        "edit": (lambda s: relaxed.dynamic_time_warping(s, x[:8, :9]), x[:8, 9:18]),
        "logic": (layer, random(300, 200)),
        "convolution": (few, random(20, 2, 8, 8)),
        "iou": (lambda a: losses.iou_loss(a, (x > 0.5).float()), x),
        "chamfer": (lambda p: losses.chamfer_distance(p, random_points), random(2, 50, 3)),
    }
    random_points = random(2, 60, 3)
    for name in ("bitonic", "neuralsort", "softsort", "sinkhorn", "permutahedron"):
        calls[name] = (lambda x, name=name: sorting.soft_sort(x, method=name), x)
    found = {name: (lambda call=call: _graded(*call)) for name, call in calls.items()}
    return found | {"circuit": lambda: [circuit(bits.bool())]}


@contextmanager
def all_work_shared() -> Generator[None, None, None]:
    """Kernels share the least work among their threads, which they otherwise leave to one."""
    with ExitStack() as stack:
        for place in _LEAST:
            stack.enter_context(patch(place, 0))
        yield


def from_threads(calls: Sequence[Calls]) -> list[dict[str, list[Tensor]]]:
    """What calls give in a thread for each of them at once; each begins with another operator."""
    start = Barrier(len(calls))

    def work(thread: int) -> dict[str, list[Tensor]]:
        own = calls[thread]
        names = [*own]
        first = 3 * thread % len(names)
        start.wait()
        return {name: own[name]() for name in names[first:] + names[:first]}

    with ThreadPoolExecutor(len(calls)) as pool:
        return [*pool.map(work, range(len(calls)))]
