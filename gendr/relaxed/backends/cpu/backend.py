"""The CPU backend of the ready-made algorithms: parallel, compiled at run time by Numba.

Arithmetic is float64 whatever the input. First derivatives are computed by kernels, second
derivatives by the torch code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from gendr.distributions.decisions import Number
from gendr.kernels.numba.compilation import available as available
from gendr.kernels.numba.compilation import supports as supports
from gendr.kernels.operator import KernelPair, Kernels
from gendr.kernels.threads import run
from gendr.relaxed.backends.distributions import KernelDistribution

Tensors: TypeAlias = "tuple[Tensor, ...]"
Inputs: TypeAlias = "tuple[Any, ...]"  # tensors, and the steepness
Grads: TypeAlias = "tuple[Tensor | None, ...]"
Wanted: TypeAlias = "tuple[bool, ...]"

# Estimated nanoseconds of one thread for one candidate of one relaxed minimum, forward and
# backward; in grids a softmax needs far less. Work below `_SHARED` is not shared among threads,
# since waking one takes about 0.1 ms.
_FORWARD, _BACKWARD = 2.0, 4.0
_NEAR = 0.25  # of that for a softmax of neighbours in a grid
_SHARED = 300_000
_MEMORY = (
    64 << 20
)  # bytes that a forward pass may save, where its backward pass could compute again


def _decision(
    dist: KernelDistribution, steepness: Number, density: bool = True, tails: bool = False
) -> tuple[float, int, int, float]:
    """A `minimum.Decision`: 0 for the functions of a softmax, but for the `tails` if asked.

    The `density` is left out where no gradient needs it.
    """
    from gendr.distributions.numba import density_address, tails_address

    return (
        float(steepness),
        tails_address(dist.name) if tails or not dist.is_softmax else 0,
        density_address(dist.name) if density and not dist.is_softmax else 0,
        dist.shape,
    )


def _launch(kernel: Callable[..., None], units: int, work: float, *args: Any) -> None:
    """Run a kernel over 0 .. units - 1, on all threads if the work (nanoseconds) is worth it."""
    arrays = [x.numpy() if isinstance(x, Tensor) else x for x in args]
    run(kernel, units, *arrays, pieces=2, alone=work <= _SHARED)


def _zeros_if_none(grad: Tensor | None, *shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.float64, device="cpu") if grad is None else grad


def _path_forward(
    task: Any, costs: Tensor, steepness: Number, *, save: bool
) -> tuple[Tensors, Tensors]:
    """`gendr.relaxed.algorithms.shortest_path`: costs [B, H, W] -> path [B, H, W]."""
    from gendr.relaxed.backends.cpu import path_kernels as kernels

    batch, height, width = costs.shape
    size = kernels.padded_size(height, width)
    rows = task.iterations + 1
    if not save or task.kernel_dist.is_softmax or 8 * batch * rows * size > _MEMORY:
        rows = 0
    saved = torch.empty(batch, rows, size, dtype=torch.float64, device="cpu")
    used = torch.empty(batch, dtype=torch.int64, device="cpu")
    path = torch.empty_like(costs)
    _launch(
        kernels.forward, batch, _FORWARD * _candidates(costs, task), costs,
        _decision(task.kernel_dist, steepness, density=False), _offsets(task, width),
        task.iterations, task.least, path, saved, used,
    )  # fmt: skip
    return (path,), (saved, used)


def _path_backward(
    task: Any, inputs: Inputs, saved: Tensors, grads: Grads, wanted: Wanted
) -> Tensors:
    from gendr.relaxed.backends.cpu import path_kernels as kernels

    costs, steepness = inputs
    by_costs, by_beta = torch.empty_like(costs), costs.new_empty(len(costs))
    _launch(
        kernels.backward, len(costs), _BACKWARD * _candidates(costs, task), costs,
        _decision(task.kernel_dist, steepness), _offsets(task, costs.shape[2]), task.iterations,
        task.least, *saved, grads[0], by_costs, by_beta,
    )  # fmt: skip
    return by_costs, by_beta


def _candidates(costs: Tensor, task: Any) -> float:
    sweeps = min(task.iterations, 2 * sum(costs.shape[1:]))
    found = costs.numel() * sweeps * len(task.steps)
    return _NEAR * found if task.kernel_dist.is_softmax else found


def _offsets(task: Any, width: int) -> tuple[int, ...]:
    return tuple(row * (width + 2) + column for row, column in task.steps)


def _graph_forward(
    task: Any, costs: Tensor, steepness: Number, *, save: bool
) -> tuple[Tensors, Tensors]:
    """`gendr.relaxed.algorithms.graph_path`: costs [B, E] -> nodes [B, V] and edges [B, E]."""
    from gendr.relaxed.backends.cpu import graph_kernels as kernels

    nodes, edges = costs.new_empty(len(costs), task.nodes), torch.empty_like(costs)
    _launch(
        kernels.forward, len(costs), 4 * _FORWARD * costs.numel() * task.iterations,
        costs, task.sources, task.starts, task.source, task.target,
        _decision(task.kernel_dist, steepness, density=False), task.iterations, nodes, edges,
    )  # fmt: skip
    return (nodes, edges), ()


def _graph_backward(
    task: Any, inputs: Inputs, saved: Tensors, grads: Grads, wanted: Wanted
) -> Tensors:
    from gendr.relaxed.backends.cpu import graph_kernels as kernels

    costs, steepness = inputs
    by_costs, by_beta = torch.empty_like(costs), costs.new_empty(len(costs))
    _launch(
        kernels.backward, len(costs), 4 * _BACKWARD * costs.numel() * task.iterations,
        costs, task.sources, task.starts, task.source, task.target,
        _decision(task.kernel_dist, steepness), task.iterations,
        _zeros_if_none(grads[0], len(costs), task.nodes),
        _zeros_if_none(grads[1], *costs.shape), by_costs, by_beta,
    )  # fmt: skip
    return by_costs, by_beta


def _alignment_forward(
    task: Any, matrix: Tensor, skips: Tensor, steepness: Number, *, save: bool
) -> tuple[Tensors, Tensors]:
    """`gendr.relaxed.algorithms.alignment`: matrix [B, n, m] and skips [2] -> d [B]."""
    from gendr.relaxed.backends.cpu import alignment_kernels as kernels

    batch, n, m = matrix.shape
    size = n * m + kernels.LANES if save else 0
    saved, out = matrix.new_empty(max(1, batch), 2, size), matrix.new_empty(batch)
    _launch(
        kernels.forward, batch, 3 * _FORWARD * matrix.numel(), matrix, skips,
        task.lengths.contiguous(), _decision(task.kernel_dist, steepness), task.warping,
        task.minimum == "log_sum_exp", out, saved,
    )  # fmt: skip
    return (out,), (saved, out)


def _alignment_backward(
    task: Any, inputs: Inputs, saved: Tensors, grads: Grads, wanted: Wanted
) -> Tensors:
    from gendr.relaxed.backends.cpu import alignment_kernels as kernels

    matrix, skips, steepness = inputs
    by_matrix = torch.empty_like(matrix)
    by_skips, by_beta = matrix.new_empty(len(matrix), 2), matrix.new_empty(len(matrix))
    _launch(
        kernels.backward, len(matrix), _FORWARD * matrix.numel(), matrix, skips,
        task.lengths.contiguous(), float(steepness), task.warping, saved[1], saved[0], grads[0],
        by_matrix, by_skips, by_beta,
    )  # fmt: skip
    return by_matrix, by_skips.sum(0), by_beta


def _bubble_forward(
    task: Any, x: Tensor, steepness: Number, *, save: bool
) -> tuple[Tensors, Tensors]:
    """`gendr.relaxed.algorithms.bubble_sort`: x [B, n] -> values [B, n], swaps and ordered [B]."""
    from gendr.relaxed.backends.cpu import bubble_kernels as kernels

    values, (swaps, ordered) = torch.empty_like(x), x.new_empty(2, len(x))
    _launch(
        kernels.forward, -(-len(x) // kernels.GROUP), _FORWARD * x.numel() * x.shape[1], x,
        _decision(task.kernel_dist, steepness, density=False, tails=True), values, swaps, ordered,
    )  # fmt: skip
    return (values, swaps, ordered), ()


def _bubble_backward(
    task: Any, inputs: Inputs, saved: Tensors, grads: Grads, wanted: Wanted
) -> Tensors:
    from gendr.relaxed.backends.cpu import bubble_kernels as kernels

    x, steepness = inputs
    groups = -(-len(x) // kernels.GROUP)
    by_x, by_beta = torch.empty_like(x), x.new_empty(groups)
    shapes = (x.shape, x.shape[:1], x.shape[:1])
    _launch(
        kernels.backward, groups, _BACKWARD * x.numel() * x.shape[1], x,
        _decision(task.kernel_dist, steepness, tails=True),
        *(_zeros_if_none(g, *shape) for g, shape in zip(grads, shapes, strict=True)),
        by_x, by_beta,
    )  # fmt: skip
    return by_x, by_beta


KERNELS: dict[str, Kernels] = {
    "relaxed.shortest_path": KernelPair(_path_forward, _path_backward, wide=True),
    "relaxed.shortest_path_graph": KernelPair(_graph_forward, _graph_backward, wide=True),
    "relaxed.alignment": KernelPair(_alignment_forward, _alignment_backward, wide=True),
    "relaxed.bubble_sort": KernelPair(_bubble_forward, _bubble_backward, wide=True),
}  # of each operator
