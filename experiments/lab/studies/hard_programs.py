"""Four programs with unknown numbers in them, learnt from what the hard programs return.

Union-find, list scheduling, a ball that bounces in fixed steps, and insertion sort: loops, reads at
places that were found, ties, contacts. Data are drawn, the hard program with the true numbers gives
the results, and Adam looks for the numbers through the relaxed program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

import gendr
from gendr.relaxed import Scalar, Vector, argmin, smooth, zeros

EDGES = ((0, 1), (2, 3), (1, 2), (0, 3))


@gendr.relax
def union_find(weights: Vector, threshold: Scalar):
    """How many groups four nodes form, joined by edges that are lighter than a threshold."""
    parent = list(range(4))
    groups = 4.0
    for k in range(len(EDGES)):
        i, j = EDGES[k]
        if weights[k] < threshold:
            while smooth("node", parent[i] != i):
                i = parent[i]
            while smooth("node", parent[j] != j):
                j = parent[j]
            if smooth("node", i != j):
                parent[i] = j
                groups = groups - 1
    return groups


@gendr.relax
def list_scheduling(jobs: Vector):
    """When the last of two machines is done; each job goes to the one that is free first."""
    load = zeros(2)
    for job in jobs:
        k = argmin(load)
        load[k] += job
    return max(load[0], load[1])


@gendr.relax
def bounce(height: Scalar, gravity: Scalar, restitution: Scalar):
    """Where a ball is at four times; it starts at rest, and moves in steps of 0.05."""
    speed = 0.0
    seen = []
    for step in range(32):
        speed = speed - 0.05 * gravity
        height = height + 0.05 * speed
        if smooth("contact", height < 0.0):
            height = -height
            speed = -restitution * speed
        if step % 8 == 7:
            seen = [*seen, height]
    return seen


@gendr.relax
def insertion_sort(keys: Vector, values: Vector):
    """The values in the order of their keys."""
    for i in range(1, len(keys)):
        key, value = keys[i], values[i]
        j = i - 1
        while j >= 0 and keys[j] > key:
            keys[j + 1], values[j + 1] = keys[j], values[j]
            j = j - 1
        keys[j + 1], values[j + 1] = key, value
    return values


@dataclass(frozen=True)
class Task:
    """A program, and the numbers in it that are learnt.

    Attributes:
        name: of the row.
        what: is learnt.
        draw: inputs, from how many and a generator.
        run: the results [B, ...] of inputs and numbers, by a way to call a program.
        true: the numbers that the hard program has.
        start: those at which the training starts.
        rate: of Adam.
        settings: of the relaxed runs.
    """

    name: str
    what: str
    draw: Callable[[int, torch.Generator], tuple[Tensor, ...]]
    run: Callable[[Callable[[Any], Any], tuple[Tensor, ...], Tensor], Tensor]
    true: tuple[float, ...]
    start: tuple[float, ...]
    rate: float
    settings: dict[str, Any] = field(default_factory=dict)


def _uniform(*shape: int) -> Callable[[int, torch.Generator], tuple[Tensor, ...]]:
    return lambda n, generator: (torch.rand(n, *shape, generator=generator, dtype=torch.float64),)


def _kinds(n: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    kinds = torch.randint(3, (n, 5), generator=generator)
    return (torch.nn.functional.one_hot(kinds, 3).double(),)


def _heights(n: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    return (0.5 + torch.rand(n, generator=generator, dtype=torch.float64),)


def _items(n: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    features = torch.randn(n, 4, 2, generator=generator, dtype=torch.float64)
    return features, torch.rand(n, 4, generator=generator, dtype=torch.float64)


TASKS = {
    task.name: task
    for task in (
        Task(
            "union-find", "a threshold", _uniform(4),
            lambda call, x, w: call(union_find)(x[0], w[0]),
            (0.4,), (0.75,), 0.02,
            {"scale": {"node": 0.1, "default": 0.05}, "max_iterations": 3},
        ),
        Task(
            "list scheduling", "times of three kinds of jobs", _kinds,
            lambda call, x, w: call(list_scheduling)(x[0] @ w),
            (0.3, 0.7, 1.6), (1.0, 1.0, 1.0), 0.05, {"scale": 0.1},
        ),
        Task(
            "bounce", "gravity, restitution", _heights,
            lambda call, x, w: torch.stack(tuple(call(bounce)(x[0], w[0], w[1])), -1),
            (9.8, 0.8), (7.0, 0.5), 0.4, {"scale": 0.02, "clip": 1.0},
        ),
        Task(
            "insertion sort", "weights of two features (their ratio counts)", _items,
            lambda call, x, w: call(insertion_sort)(x[0] @ w, x[1]),
            (1.0, -2.0), (1.0, 1.0), 0.3, {"scale": 0.5},
        ),
    )
}  # fmt: skip


class Learnt(NamedTuple):
    """What a training found.

    Attributes:
        numbers: after it.
        error: the mean difference of the hard results with these numbers from the true ones, on
            inputs that were not seen.
        before: the same with the numbers of the start.
    """

    numbers: list[float]
    error: float
    before: float


def learn(
    task: Task, execution: Any = "merged", steps: int = 150, batch: int = 32, seed: int = 0
) -> Learnt:
    """Look for the numbers of a task by Adam, whose rate falls to a tenth."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    true = torch.tensor(task.true, dtype=torch.float64)
    numbers = torch.tensor(task.start, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([numbers], task.rate)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.1 ** (1 / steps))

    def hard(x: tuple[Tensor, ...], numbers: Tensor) -> Tensor:
        return task.run(lambda program: program.hard, x, numbers.detach())

    def soft(program: Any) -> Any:
        return lambda *args: program(*args, execution=execution, **task.settings)

    for _ in range(steps):
        x = task.draw(batch, generator)
        loss = (task.run(soft, x, numbers) - hard(x, true)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    unseen = task.draw(200, generator)
    wanted = hard(unseen, true)
    before = hard(unseen, torch.tensor(task.start, dtype=torch.float64))
    return Learnt(
        numbers.tolist(),
        float((hard(unseen, numbers) - wanted).abs().mean()),
        float((before - wanted).abs().mean()),
    )
