"""What a small sort takes, layer by layer, down to its kernels and an empty autograd function.

    python benchmarks/small_calls.py [--docs]

Microseconds of one thread, forward and backward, the least of many. Each row from "both" on has all
that the ones above it have; those before show what none of ours can go below: the copy of torch has
no Python but that of `torch.autograd.grad`, and loops are those of 1 × 1000 values alone, whose
sort, projection and gradient are told apart.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rows import ROOT, measured_on
from torch import Tensor

from gendr import sorting
from gendr.sorting.backends.choice import kernels_for
from gendr.sorting.backends.cpu import isotonic_kernels, order
from gendr.sorting.backends.isotonic import RANKS
from gendr.sorting.backends.reference import NETWORK
from lab.pages import fill, table

LEAST, ROUNDS = 100, 50  # calls of a round, and rounds


class Empty(torch.autograd.Function):
    """The gradient of a copy."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A copy."""
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Another."""
        assert ctx.saved_tensors
        return grad.clone()


def microseconds(call: Callable[[], Any]) -> float:
    """The least of a call, by the clock of this thread."""
    least = math.inf
    call()
    for _ in range(ROUNDS):
        start = time.thread_time()
        for _ in range(LEAST):
            call()
        least = min(least, (time.thread_time() - start) / LEAST)
    return 1e6 * least


def layers(
    operator: Any, spec: Any, steepness: float, method: Callable[[Tensor], Tensor],
    function: Callable[[Tensor], Tensor], *shape: int,
) -> list[float]:  # fmt: skip
    """The rows of one sort."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
    kernels, keys = kernels_for(operator.name, x), x.detach()
    up = torch.randn(shape, generator=torch.Generator().manual_seed(1))

    def bare() -> None:
        results, saved = kernels.forward(spec, keys, steepness, save=True)
        grads = (up, *[None] * (len(results) - 1))
        kernels.backward(spec, (keys, steepness), saved, grads, (True, False))

    def through(call: Callable[[Tensor], Any]) -> Callable[[], Any]:
        def step() -> Any:
            found = call(x)
            return torch.autograd.grad(found if isinstance(found, Tensor) else found[0], x, up)

        return step

    operated = through(lambda x: operator(kernels, spec, x, steepness))
    calls = through(Tensor.clone), through(Empty.apply), bare, operated, through(method)
    return [microseconds(call) for call in (*calls, through(function))]


def loops(n: int) -> list[float]:
    """The compiled functions of ranks of n values: the sort, the projection and the gradient."""
    x, result = torch.randn(1, n, generator=torch.Generator().manual_seed(0)), torch.empty(1, n)
    places, starts = np.empty((2, 1, n), np.int32)
    given, blocks = (x.data_ptr(), result.data_ptr()), (x.numpy(), places, starts, 10.0, False)
    keys = x.numpy().view(np.uint32)
    calls = (
        lambda: order.radix(keys, places),
        lambda: isotonic_kernels.rank_rows(*given, *blocks, False, 0, 1),
        lambda: isotonic_kernels.rank_gradients(given[0], *given, given[1], *blocks, 0, 1),
    )
    return [microseconds(call) for call in calls]


def main() -> None:
    """Print the table, and write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--docs", action="store_true", help="write it into docs/results/speed.md")
    args = parser.parse_args()
    torch.set_num_threads(1)
    bitonic, fast = sorting.get("bitonic"), sorting.get("permutahedron")
    spec = bitonic.comparators_of(8)  # pyright: ignore[reportAttributeAccessIssue]  # a network's
    parts = loops(1000)
    found = (
        layers(NETWORK, spec, 10.0, bitonic.values, sorting.soft_sort, 4, 8),
        layers(
            RANKS, False, 10.0, fast.ranks, lambda x: sorting.soft_rank(x, fast), 1, 1000
        ),
    )  # fmt: skip
    names = (
        "a copy by torch, and its gradient", "an autograd function that copies",
        "our kernels alone, with their arrays", "both, by the operator layer", "the method",
        "the function: checks, order, result",
    )  # fmt: skip
    about = measured_on()
    said = (
        f"Measured on {about['date']} at commit {about['commit']} on one thread of "
        f"{about['machine']}; microseconds, both passes."
    )
    head = ("what", "`soft_sort` 4 × 8", "`soft_rank` 1 × 1000, permutahedron")
    rows = [(name, *(f"{x:.1f}" for x in each)) for name, *each in zip(names, *found, strict=True)]
    of_loops = ("its loops: sort, projection, gradient", "", ", ".join(f"{x:.1f}" for x in parts))
    lines = [said, "", *table(head, [*rows[:2], of_loops, *rows[2:]], left=1)]
    print("\n".join(lines))
    if args.docs:
        fill(ROOT / "docs" / "results" / "speed.md", "small-calls", lines)


if __name__ == "__main__":
    main()
