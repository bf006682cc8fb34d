"""The CPU backend of the ready-made algorithms: parallel, compiled at run time by Numba.

Arithmetic is float64 whatever the input. First derivatives are computed by kernels, second
derivatives by the torch code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gendr._runtime.numba.compilation import available as available
from gendr._runtime.numba.compilation import supports as supports
from gendr._runtime.threads import run
from gendr.relaxed.backends.laws import Law

# Estimated nanoseconds of one thread for one candidate of one relaxed minimum, forward and
# backward; in grids a softmax needs far less. Work below `_SHARED` is not shared among threads,
# since waking one takes about 0.1 ms.
_FORWARD, _BACKWARD = 2.0, 4.0
_NEAR = 0.25  # of that for a softmax of neighbours in a grid
_SHARED = 300_000
_ROOM = 64 << 20  # bytes that a forward pass may keep, where its backward pass could compute again


def _tails(law: Law) -> int:
    """The address of the compiled cdf and sf; 0 if the weights are a softmax."""
    from gendr.distributions.numba import tails_address

    return 0 if law.is_softmax else tails_address(law.name)


def _density(law: Law) -> int:
    from gendr.distributions.numba import density_address

    return 0 if law.is_softmax else density_address(law.name)


def _launch(kernel: Callable[..., None], units: int, work: float, *args: Any) -> None:
    """Run a kernel over 0 .. units - 1, on all threads if the work (nanoseconds) is worth it."""
    run(kernel, units, *args, pieces=2, alone=work <= _SHARED)


class _ShortestPath:
    """`gendr.relaxed.algorithms.shortest_path`: costs [B, H, W] -> path [B, H, W]."""

    def forward(
        self, tensors: tuple[Tensor, ...], law: Law, settings: Any, *, save: bool
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        from gendr.relaxed.backends.cpu import path_kernels as kernels

        (costs,) = tensors
        batch, height, width = costs.shape
        size = kernels.padded_size(height, width)
        rows = settings.iterations + 1
        if not save or law.is_softmax or 8 * batch * rows * size > _ROOM:
            rows = 0
        saved = torch.empty(batch, rows, size, dtype=torch.float64)
        used = torch.empty(batch, dtype=torch.int64)
        path = torch.empty_like(costs)
        _launch(
            kernels.forward, batch, _FORWARD * self._candidates(costs, law, settings),
            costs.numpy(), law.steepness, _tails(law), law.shape, self._offsets(settings, width),
            settings.iterations, settings.least, path.numpy(), saved.numpy(), used.numpy(),
        )  # fmt: skip
        return (path,), (saved, used)

    def backward(
        self,
        tensors: tuple[Tensor, ...],
        law: Law,
        settings: Any,
        saved: tuple[Tensor, ...],
        grads: tuple[Tensor, ...],
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        from gendr.relaxed.backends.cpu import path_kernels as kernels

        (costs,), (history, used), (grad,) = tensors, saved, grads
        by_costs, by_beta = torch.empty_like(costs), costs.new_empty(len(costs))
        _launch(
            kernels.backward, len(costs), _BACKWARD * self._candidates(costs, law, settings),
            costs.numpy(), law.steepness, _tails(law), _density(law), law.shape,
            self._offsets(settings, costs.shape[2]), settings.iterations,
            settings.least, history.numpy(), used.numpy(), grad.numpy(), by_costs.numpy(),
            by_beta.numpy(),
        )  # fmt: skip
        return by_beta, (by_costs,)

    @staticmethod
    def _candidates(costs: Tensor, law: Law, settings: Any) -> float:
        sweeps = min(settings.iterations, 2 * sum(costs.shape[1:]))
        found = costs.numel() * sweeps * len(settings.steps)
        return _NEAR * found if law.is_softmax else found

    @staticmethod
    def _offsets(settings: Any, width: int) -> tuple[int, ...]:
        return tuple(row * (width + 2) + column for row, column in settings.steps)


class _ShortestPathGraph:
    """`gendr.relaxed.algorithms.graph_path`: costs [B, E] -> nodes [B, V] and edges [B, E]."""

    def forward(
        self, tensors: tuple[Tensor, ...], law: Law, settings: Any, *, save: bool
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        from gendr.relaxed.backends.cpu import graph_kernels as kernels

        costs = tensors[0][:, settings.order]
        nodes, edges = costs.new_empty(len(costs), settings.nodes), torch.empty_like(costs)
        _launch(
            kernels.forward, len(costs), 4 * _FORWARD * costs.numel() * settings.iterations,
            *self._graph(costs, settings), law.steepness, _tails(law), law.shape,
            settings.iterations, nodes.numpy(), edges.numpy(),
        )  # fmt: skip
        return (nodes, self._as_given(edges, settings)), ()

    def backward(
        self,
        tensors: tuple[Tensor, ...],
        law: Law,
        settings: Any,
        saved: tuple[Tensor, ...],
        grads: tuple[Tensor, ...],
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        from gendr.relaxed.backends.cpu import graph_kernels as kernels

        costs = tensors[0][:, settings.order]
        by_costs, by_beta = torch.empty_like(costs), costs.new_empty(len(costs))
        _launch(
            kernels.backward, len(costs), 4 * _BACKWARD * costs.numel() * settings.iterations,
            *self._graph(costs, settings), law.steepness, _tails(law), _density(law), law.shape,
            settings.iterations, grads[0].numpy(), grads[1][:, settings.order].numpy(),
            by_costs.numpy(), by_beta.numpy(),
        )  # fmt: skip
        return by_beta, (self._as_given(by_costs, settings),)

    @staticmethod
    def _graph(costs: Tensor, settings: Any) -> tuple[Any, ...]:
        sources = settings.sources[settings.order]
        return (
            costs.numpy(), sources.numpy(), settings.starts.numpy(), settings.source,
            settings.target,
        )  # fmt: skip

    @staticmethod
    def _as_given(edges: Tensor, settings: Any) -> Tensor:
        """Values of edges ordered by ends, in the order in which the edges were given."""
        out = torch.empty_like(edges)
        out[:, settings.order] = edges
        return out


class _Alignment:
    """`gendr.relaxed.algorithms.alignment`: matrix [B, n, m] and skips [2] -> d [B]."""

    def forward(
        self, tensors: tuple[Tensor, ...], law: Law, settings: Any, *, save: bool
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        from gendr.relaxed.backends.cpu import alignment_kernels as kernels

        matrix, skips = tensors
        batch, n, m = matrix.shape
        kept = n * m + kernels.LANES if save else 0
        saved, out = matrix.new_empty(max(1, batch), 2, kept), matrix.new_empty(batch)
        _launch(
            kernels.forward, batch, 3 * _FORWARD * matrix.numel(), matrix.numpy(), skips.numpy(),
            settings.lengths.contiguous().numpy(), law.steepness, _tails(law), _density(law),
            law.shape, settings.warping, settings.minimum == "log_sum_exp", out.numpy(),
            saved.numpy(),
        )  # fmt: skip
        return (out,), (saved, out)

    def backward(
        self,
        tensors: tuple[Tensor, ...],
        law: Law,
        settings: Any,
        saved: tuple[Tensor, ...],
        grads: tuple[Tensor, ...],
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        from gendr.relaxed.backends.cpu import alignment_kernels as kernels

        matrix, skips = tensors
        by_matrix = torch.empty_like(matrix)
        by_skips, by_beta = matrix.new_empty(len(matrix), 2), matrix.new_empty(len(matrix))
        _launch(
            kernels.backward, len(matrix), _FORWARD * matrix.numel(), matrix.numpy(), skips.numpy(),
            settings.lengths.contiguous().numpy(), law.steepness, settings.warping,
            saved[1].numpy(), saved[0].numpy(), grads[0].numpy(), by_matrix.numpy(),
            by_skips.numpy(), by_beta.numpy(),
        )  # fmt: skip
        return by_beta, (by_matrix, by_skips.sum(0))


class _BubbleSort:
    """`gendr.relaxed.algorithms.bubble_sort`: x [B, n] -> values [B, n], swaps and ordered [B]."""

    def forward(
        self, tensors: tuple[Tensor, ...], law: Law, settings: Any, *, save: bool
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        from gendr.distributions.numba import tails_address
        from gendr.relaxed.backends.cpu import bubble_kernels as kernels

        (x,) = tensors
        values, (swaps, ordered) = torch.empty_like(x), x.new_empty(2, len(x))
        _launch(
            kernels.forward, -(-len(x) // kernels.GROUP), _FORWARD * x.numel() * x.shape[1],
            x.numpy(), law.steepness, tails_address(law.name), law.shape, values.numpy(),
            swaps.numpy(), ordered.numpy(),
        )  # fmt: skip
        return (values, swaps, ordered), ()

    def backward(
        self,
        tensors: tuple[Tensor, ...],
        law: Law,
        settings: Any,
        saved: tuple[Tensor, ...],
        grads: tuple[Tensor, ...],
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        from gendr.distributions.numba import tails_address
        from gendr.relaxed.backends.cpu import bubble_kernels as kernels

        (x,) = tensors
        groups = -(-len(x) // kernels.GROUP)
        by_x, by_beta = torch.empty_like(x), x.new_empty(groups)
        _launch(
            kernels.backward, groups, _BACKWARD * x.numel() * x.shape[1], x.numpy(),
            law.steepness, tails_address(law.name), _density(law), law.shape,
            *(g.numpy() for g in grads), by_x.numpy(), by_beta.numpy(),
        )  # fmt: skip
        return by_beta, (by_x,)


shortest_path = _ShortestPath()
alignment = _Alignment()
bubble_sort = _BubbleSort()
shortest_path_graph = _ShortestPathGraph()
