"""The shortest path through a grid: relaxed Bellman-Ford with traceback.

Every cell v has a cost c(v). With N(v) its 4 or 8 neighbours, the relaxed algorithm is

    d(v) = 0 at the start, else inf                     # T sweeps, all cells at once:
    w_v = arg min weights over d(u), u in N(v);   d(v) = c(v) + sum_u w_v(u) d(u);   d(start) = 0
    p = 1 at the end, else 0;   path = 0                # then T + 1 positions of a walk back:
    path = path or p;   p(u) = sum_v p(v) w_v(u)

The weights are those of `minimum`; the walk uses those of the last sweep; "or" is a T-conorm, by
default a + b - a b. The walk stays at the start, once it is there. The cost of the start cell never
enters.

Source: thesis, section 2.4, whose published program lets the walk run on from the start.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn

from gendr._common.checks import check_count, check_finite, check_float, shape_text
from gendr._common.tracing import in_single, is_traced
from gendr._common.words import translated, worded
from gendr.distributions import Distribution
from gendr.distributions.decisions import Number, check_steepness
from gendr.distributions.registry import DistributionLike
from gendr.kernels.operator import Operator
from gendr.relaxed.algorithms.minimum import minimum, weigh
from gendr.relaxed.backends.choice import computed, shaped
from gendr.relaxed.backends.distributions import KernelDistribution, check_distribution, for_kernels
from gendr.tnorms import TConorm, as_tconorm

# The steps (rows, columns) to the neighbours of a cell; the first four are those of 4 neighbours.
STEPS = ((-1, 0), (0, -1), (0, 1), (1, 0), (-1, -1), (-1, 1), (1, -1), (1, 1))
GONE = 1e-17  # less than this of the walk is still on its way: it has arrived


class GridTask(NamedTuple):
    """What is asked about costs of the cells of a grid.

    Attributes:
        dist: checked by `check_distribution`.
        kernel_dist: the same for kernels, None if there can be none.
        join: the T-conorm of the positions; None for a + b - a b.
        steps: (rows, columns) to the neighbours of a cell.
        iterations: T.
        least: the fewest sweeps after which every cell is reached.
    """

    dist: Distribution
    kernel_dist: KernelDistribution | None
    join: TConorm | None
    steps: tuple[tuple[int, int], ...]
    iterations: int
    least: int


@worded()
@in_single
def shortest_path(
    costs: Tensor,
    dist: DistributionLike = "logistic",
    steepness: Number = 10.0,
    neighbourhood: int = 8,
    iterations: int | None = None,
    *,
    tconorm: str | TConorm = "probabilistic",
    check: bool = True,
    backend: str = "auto",
) -> Tensor:
    """The cheapest path from the first cell of a grid to the last, as a soft indicator.

    >>> shortest_path(costs, steepness=100.0)       # costs [12, 12]: nearly 0 and 1

    Args:
        costs: [..., H, W], the cost of entering each cell. They should be positive: otherwise
            there may be no shortest path, although the result is finite.
        dist: the distribution of the comparisons, symmetric; "heaviside" gives the hard path,
            without gradient and with equal parts where paths cost the same.
        steepness: 1 / scale of the distribution, in units of 1 / cost. A number, or a tensor of a
            single one, through which gradients flow.
        neighbourhood: 8, or 4 without diagonal steps.
        iterations: sweeps, and steps of the walk back. By default H W - 1, which is always enough;
            loops end as soon as nothing changes any more. 2 (H + W) are enough unless paths wind.
        tconorm: joins the positions of the walk; another than "probabilistic" runs in torch.
        check: look for NaN and inf.
        backend: "auto", "cpu" or "reference".

    Returns:
        [..., H, W] in [0, 1].

    Raises:
        TypeError: costs that are no float32 or float64 tensor, or settings of the wrong type.
        ValueError: a bad shape, NaN or inf, too few iterations to reach the last cell, an unknown
            neighbourhood or backend, or a distribution that is not symmetric.
    """
    costs = check_float("costs", costs)
    if costs.ndim < 2 or 0 in costs.shape[-2:]:
        raise ValueError(
            f"costs must have shape [..., H, W] with H, W >= 1, got {shape_text(costs.shape)}"
        )
    if check:
        check_finite("costs", costs)
    dist, steepness = check_distribution(dist), check_steepness(steepness)
    join = as_tconorm(tconorm)
    if join.is_product:
        join = None  # the kernel and the reference have a + b - a b of their own
    height, width = costs.shape[-2:]
    if isinstance(neighbourhood, bool) or neighbourhood not in (4, 8):
        raise ValueError(f"neighbourhood must be 4 or 8, got {neighbourhood!r}")
    least = max(height, width) - 1 if neighbourhood == 8 else height + width - 2
    if iterations is None:
        iterations = height * width - 1
    check_count("iterations", iterations, least=0)
    if iterations < least:
        raise ValueError(
            f"iterations must be at least {least} to cross a grid of {height} x {width} cells "
            f"with {neighbourhood} neighbours, got {iterations}"
        )
    kernel_dist = for_kernels(dist) if join is None else None
    task = GridTask(dist, kernel_dist, join, STEPS[:neighbourhood], iterations, least)
    flat = shaped(costs, (math.prod(costs.shape[:-2]), height, width))
    return shaped(computed(_SHORTEST_PATH, backend, task, flat, steepness=steepness), costs.shape)


@final
class ShortestPath(nn.Module):
    """`shortest_path` as a module, from costs [..., H, W] to soft indicators, after a network.

    Args:
        **settings: as those of `shortest_path`.

    Raises:
        TypeError: a setting that it does not have.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        words = inspect.signature(shortest_path).parameters.keys() - {"costs"}
        self.settings = translated("shortest_path", sorted(words), settings)

    def forward(self, costs: Tensor) -> Tensor:
        """The path of costs [..., H, W], in their shape."""
        return shortest_path(costs, **self.settings)

    def extra_repr(self) -> str:
        """The settings that were given."""
        return ", ".join(f"{name}={value}" for name, value in self.settings.items())


def _reference(task: GridTask, costs: Tensor, steepness: Number) -> Tensor:
    """The path [B, H, W] of costs [B, H, W]."""
    visited = _walk_back(_predecessors(task, costs, steepness), task)
    if task.join is None:
        path = torch.zeros_like(costs)
        for position in visited:
            path = path + position - path * position
        return path
    return task.join.reduce(torch.stack(visited), 0)


_SHORTEST_PATH = Operator("relaxed.shortest_path", reference=_reference)


def _predecessors(task: GridTask, costs: Tensor, steepness: Number) -> Tensor:
    """[B, K, H, W]: the weights of the neighbours of each cell in the last sweep; 0 at the start.

    The sweeps end early when no distance changes any more.
    """
    start = costs.new_zeros(costs.shape[1:], dtype=torch.bool)
    start[0, 0] = True
    distance = torch.where(start, 0.0, torch.inf).to(costs).expand_as(costs)
    weights = costs.new_zeros(costs.shape[0], len(task.steps), *costs.shape[1:])
    for sweep in range(task.iterations):
        before = distance
        around = _around(before, task.steps)
        weights = weigh(around, task.dist, steepness, 1)
        distance = costs + minimum(around, weights, steepness, dim=1)
        distance = torch.where(start, 0.0, distance)
        if sweep >= task.least and _is_same(distance, before):
            break
    return torch.where(start, 0.0, weights)


def _is_same(new: Tensor, old: Tensor) -> bool:
    new, old = new.detach(), old.detach()
    # The last bit may flicker for ever.
    close = (new - old).abs() <= 2 * torch.finfo(new.dtype).eps * new.abs()
    return not is_traced() and bool(close.all())


def _walk_back(weights: Tensor, task: GridTask) -> list[Tensor]:
    """The positions [B, H, W] of the walk from the last cell, T + 1 of them or until it arrives."""
    position = torch.zeros_like(weights[:, 0])
    position[:, -1, -1] = 1.0
    start = position.new_zeros(position.shape[1:])
    start[0, 0] = 1.0
    visited = [position]
    for _ in range(task.iterations):
        moved = position * start
        flows = torch.nn.functional.pad(position[:, None] * weights, (1, 1, 1, 1))
        height, width = position.shape[1:]
        for k, (row, column) in enumerate(task.steps):
            # What goes from v to v + step arrives at u from u - step.
            rows, columns = slice(1 - row, 1 - row + height), slice(1 - column, 1 - column + width)
            moved = moved + flows[:, k, rows, columns]
        position = moved
        visited.append(position)
        away = (position * (1 - start)).sum((1, 2))
        if not is_traced() and bool((away < GONE).all()):
            break
    return visited


def _around(values: Tensor, steps: tuple[tuple[int, int], ...]) -> Tensor:
    """[B, K, H, W]: the values of the neighbours of each cell; inf outside the grid."""
    height, width = values.shape[1:]
    padded = torch.nn.functional.pad(values, (1, 1, 1, 1), value=torch.inf)
    return torch.stack(
        [
            padded[:, 1 + row : 1 + row + height, 1 + column : 1 + column + width]
            for row, column in steps
        ],
        1,
    )
