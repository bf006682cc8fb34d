"""Every public entry point, for tests of what holds for all of them, such as under threads."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Barrier
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

import gendr
from gendr import losses, relaxed
from gendr.logic import GroupSum, LogicConv2d, LogicLayer, OrPool2d, harden
from gendr.mesh import icosphere
from gendr.relaxed.programs import bubble_sort
from gendr.sorting import losses as rankings
from gendr.sorting import names, soft_rank, soft_sort
from gendr.topk import SmoothTopKSVM, TopKCrossEntropy, soft_topk, soft_topk_mask

# From how much work on kernels wake other threads.
_LEAST = (
    "gendr.topk.backends.cpu.backend._WORTH_THREADS",
    "gendr.topk.backends.cpu.backend._MANY_GROUPS",
    "gendr.sorting.backends.cpu.rows.SMALL", "gendr.sorting.backends.cpu.isotonic._WORTH_THREADS",
    "gendr.sorting.backends.cpu.backend._SHARED", "gendr.relaxed.backends.cpu.backend._SHARED",
    "gendr.logic.backends.cpu.backend._SHARED",
)  # fmt: skip


def entries(seed: int = 3) -> dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]]:
    """A call of every public entry point: name -> (call of the leaves, leaves).

    Args:
        seed: of all numbers.
    """
    generator = torch.Generator().manual_seed(seed)

    def leaf(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, requires_grad=True)

    ball, camera = icosphere(0), gendr.look_at(2.7, 20.0, torch.tensor([10.0, 80.0]))
    corners = torch.tensor([2.0, 2.0, 0.0]), torch.tensor([-1.0, -1.0, 2.0])
    found: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {}

    def scene(renderer: Any) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
        def image(name: str) -> Callable[[Tensor, Tensor], Tensor]:
            def run(vertices: Tensor, colors: Tensor) -> Tensor:
                mesh = ball.with_vertices(ball.vertices + 0.1 * vertices)
                seen = getattr(renderer(mesh.with_vertex_colors(colors), camera), name)
                return torch.where(seen.isfinite(), seen, 0.0)

            return run

        return {name: image(name) for name in ("alpha", "rgb", "depth", "normals")}

    for backend, learnable in (("cpu", ()), ("cpu", ("scale", "gamma")), ("reference", ())):
        renderer = gendr.Renderer(8, backend=backend, learnable=learnable)
        for name, run in scene(renderer).items():
            found[f"{backend} {learnable} {name}"] = run, (leaf(12, 3), leaf(12, 3))
    smooth = gendr.Renderer(8, lighting=gendr.Lighting(smooth=True), shading="hard")
    for name, run in scene(smooth.compiled()).items():
        found[f"smooth {name}"] = run, (leaf(12, 3), leaf(12, 3))

    def silhouette(x: Tensor) -> Tensor:
        return gendr.silhouette(x * corners[0] + corners[1], 8, "gamma(shape=0.5)", "yager(p=2)")

    found["silhouette"] = silhouette, (leaf(1, 5, 3, 3),)
    for method in sorted({*names()} - {"network"}):
        found[f"sort {method}"] = lambda x, m=method: soft_sort(x, m), (leaf(3, 6),)
        found[f"rank {method}"] = lambda x, m=method: soft_rank(x, m), (leaf(3, 6),)
    for method in sorted({*names()} - {"network"}):
        found[f"topk {method}"] = lambda x, m=method: soft_topk(x, 2, m).values, (leaf(3, 6),)
        if method != "permutahedron":
            found[f"attribution {method}"] = (
                lambda x, m=method: soft_topk(x, 2, m).attribution, (leaf(3, 6),)
            )  # fmt: skip
    found["topk mask"] = lambda x: soft_topk_mask(x, 2), (leaf(3, 6),)
    target = torch.tensor([0, 4, 1])
    smoothed = TopKCrossEntropy([0.5, 0.5], m=4, label_smoothing=0.1)
    for loss in (TopKCrossEntropy([0.5, 0.5], m=4), smoothed, SmoothTopKSVM(2)):
        found[f"{len(found)} {loss}"] = lambda x, f=loss: f(x, target), (leaf(3, 6),)
    found["kendall"] = lambda x: rankings.kendall(x, torch.arange(6.0).expand(3, 6)), (leaf(3, 6),)
    layers = torch.nn.Sequential(
        LogicConv2d(1, 4, 3, depth=2, padding=1, seed=0), OrPool2d(2), torch.nn.Flatten(),
        LogicLayer(36, 12, wiring="learnable", seed=1), LogicLayer(12, 12, seed=2), GroupSum(4),
    )  # fmt: skip
    found["logic"] = layers, (leaf(2, 1, 6, 6),)
    circuit = harden(LogicLayer(20, 80, seed=seed))
    found["circuit"] = lambda x: circuit(x > 0.5) * x.sum(), (leaf(30, 20),)
    found["shortest_path"] = relaxed.shortest_path, (leaf(5, 5),)
    edges = torch.tensor([[0, 1], [1, 2], [0, 2], [2, 3]])
    found["graph"] = (
        lambda x: relaxed.shortest_path_graph(edges, x, 0, 3).edges, (leaf(4),)
    )  # fmt: skip
    found["bubble_sort"] = lambda x: relaxed.bubble_sort(x).values, (leaf(3, 5),)
    found["warping"] = relaxed.dynamic_time_warping, (leaf(3, 5), leaf(3, 4))
    found["levenshtein"] = (
        lambda a, b: relaxed.levenshtein(a.softmax(-1), b.softmax(-1)), (leaf(5, 3), leaf(4, 3))
    )  # fmt: skip
    found["program"] = lambda x: bubble_sort(x, scale=0.1)[0], (leaf(4),)
    for name in ("laplacian_loss", "flatten_loss", "normal_consistency_loss", "edge_length_loss"):
        mesh, loss = icosphere(1), getattr(losses, name)
        found[name] = lambda x, f=loss, m=mesh: f(m.with_vertices(x)), (leaf(42, 3),)
    found["iou"] = lambda x: losses.iou_loss(x, 1 - x.detach()), (leaf(2, 5, 5),)
    found["chamfer"] = losses.chamfer_distance, (leaf(1, 5, 3), leaf(1, 6, 3))
    shape = gendr.SmoothParametrization(icosphere(0))
    found["parametrization"] = lambda u: shape.mesh().vertices + shape(u), (leaf(12, 3),)
    return found


def graded(run: Callable[..., Tensor], leaves: Sequence[Tensor]) -> list[Tensor | None]:
    """What a call gives, and the gradients of its leaves through the sum of the squares."""
    leaves = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    out = run(*leaves)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), leaves, allow_unused=True)]


def graded_after(mode: Callable[[], Any]) -> dict[str, list[Tensor | None] | str]:
    """Values and gradients of all entries, which have run in a mode before; or an error."""
    results: dict[str, list[Tensor | None] | str] = {}
    for name, (run, leaves) in entries().items():
        with mode():
            run(*leaves)
            run(*(x.detach().clone() for x in leaves))
        try:
            results[name] = graded(run, leaves)
        except RuntimeError as error:
            results[name] = str(error)
    return results


@contextmanager
def all_work_shared() -> Generator[None, None, None]:
    """Kernels share the least work among their threads, which they otherwise leave to one."""
    with ExitStack() as stack:
        for place in _LEAST:
            stack.enter_context(patch(place, 0))
        yield


def from_threads(seeds: Sequence[int]) -> list[dict[str, list[Tensor | None]]]:
    """All entries in a thread for each of the seeds at once; each begins with another entry."""
    start = Barrier(len(seeds))

    def work(thread: int) -> dict[str, list[Tensor | None]]:
        own = [*entries(seeds[thread]).items()]
        first = 3 * thread % len(own)
        start.wait()
        return {name: graded(*call) for name, call in own[first:] + own[:first]}

    with ThreadPoolExecutor(len(seeds)) as pool:
        return [*pool.map(work, range(len(seeds)))]
