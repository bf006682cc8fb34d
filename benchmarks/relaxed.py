"""Time relaxed algorithms and programs, forward + backward, against plain torch.

    python benchmarks/relaxed.py                                  # everything, printed
    python benchmarks/relaxed.py --cases shortest --repeat 100    # some
    python benchmarks/relaxed.py --out docs/results --docs        # what the documentation shows

A case is an algorithm and the sizes of its input. What is timed is the way from the input to the
result and back to the gradient of the input, float32, wall clock, the device synchronised before
and after. Implementations:

- gendr: the function of `gendr.relaxed`;
- reference: its torch code;
- program: the text in `gendr.relaxed.programs`, decorated (smaller inputs only);
- by hand: the same algorithm with every formula written out in PyTorch, as one would without the
  decorator: cells in Python lists, decisions as sigmoids, blends as `torch.lerp`.

Targets are those of the project, on 2 cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from comparison import Case, Comparison, Groups, drawn, outcomes
from torch import Tensor

from gendr import relaxed
from gendr.relaxed import programs

Function: TypeAlias = "Callable[..., Tensor]"

STEEPNESS = 10.0


# -- by hand


def _smallest(values: list[Tensor]) -> Tensor:
    if len(values) == 1:
        return values[0]
    stack = torch.stack(values, -1)
    return (torch.softmax(stack * -STEEPNESS, -1) * stack).sum(-1)


def bubble_sort(x: Tensor) -> Tensor:
    """The expected number of swaps, beside the sorted values."""
    cells = list(x.unbind(-1))
    swaps = torch.zeros_like(cells[0])
    before: list[tuple[Tensor, list[Tensor], Tensor]] = []
    for last in range(len(cells) - 1, 0, -1):
        swapped = torch.zeros_like(swaps)
        for i in range(last):
            a, b = cells[i], cells[i + 1]
            p = torch.sigmoid((a - b) * STEEPNESS)
            cells[i], cells[i + 1] = torch.lerp(a, b, p), torch.lerp(b, a, p)
            swapped = p + (1 - p) * swapped
            swaps = swaps + p
        before.append((swapped, list(cells), swaps))
    _, values, total = before.pop()
    for p, earlier, fewer in reversed(before):
        values = [torch.lerp(b, a, p) for a, b in zip(values, earlier, strict=True)]
        total = torch.lerp(fewer, total, p)
    return torch.stack([*values, total], -1)


def levenshtein(s: Tensor, t: Tensor) -> Tensor:
    """The edit distance."""
    n, m = s.shape[-2], t.shape[-2]
    one = torch.nn.functional.normalize(s, dim=-1).unbind(-2)
    other = torch.nn.functional.normalize(t, dim=-1).unbind(-2)
    d: dict[tuple[int, int], Any] = {(i, 0): float(i) for i in range(n + 1)}
    d |= {(0, j): float(j) for j in range(m + 1)}
    for i in range(n):
        for j in range(m):
            replaced = 1 - (one[i] * other[j]).sum(-1)
            options = [d[i, j + 1] + 1, d[i + 1, j] + 1, d[i, j] + replaced]
            options = [
                x if isinstance(x, Tensor) else torch.full_like(replaced, x) for x in options
            ]
            d[i + 1, j + 1] = _smallest(options)
    return d[n, m]


def dynamic_time_warping(a: Tensor, b: Tensor) -> Tensor:
    """The distance of two series."""
    one, other = a.unbind(-1), b.unbind(-1)
    d: dict[tuple[int, int], Tensor] = {(0, 0): torch.zeros_like(one[0])}
    for i in range(len(one)):
        for j in range(len(other)):
            places = [(i, j + 1), (i + 1, j), (i, j)]
            best = _smallest([d[place] for place in places if place in d])
            d[i + 1, j + 1] = (one[i] - other[j]) ** 2 + best
    return d[len(one), len(other)]


def shortest_path(costs: Tensor) -> Tensor:
    """The path through a grid, as an indicator."""
    height, width = costs.shape[-2:]
    cells = [(i, j) for i in range(height) for j in range(width)]
    near = [
        [u for u, (k, m) in enumerate(cells) if max(abs(k - i), abs(m - j)) == 1] for i, j in cells
    ]
    sweeps, price = len(cells) - 1, costs.flatten(-2).unbind(-1)
    distance: dict[int, Tensor] = {0: torch.zeros_like(price[0])}
    parents: dict[int, Tensor] = {}
    for _ in range(sweeps):
        before = dict(distance)
        for v in range(1, len(cells)):
            options = [u for u in near[v] if u in before]
            if options:
                stack = torch.stack([before[u] for u in options], -1)
                w = torch.softmax(stack * -STEEPNESS, -1)
                distance[v] = price[v] + (w * stack).sum(-1)
                share = dict(zip(options, w.unbind(-1), strict=True))
                zero = torch.zeros_like(price[0])
                parents[v] = torch.stack([share.get(u, zero) for u in range(len(cells))], -1)
    start = torch.nn.functional.one_hot(torch.tensor(0), len(cells)).to(costs)
    move = torch.stack([start.expand_as(parents[1]), *(parents[v] for v in sorted(parents))], -2)
    here = torch.zeros_like(costs.flatten(-2))
    here[..., -1] = 1
    path = torch.zeros_like(here)
    for _ in range(sweeps + 1):
        path = path + here - path * here
        here = (here[..., None] * move).sum(-2)
    return path.unflatten(-1, (height, width))


# -- the cases


def _joined(values: Tensor, swaps: Tensor, *_: Tensor) -> Tensor:
    return torch.cat([values, swaps[..., None]], -1)


def _kernels(backend: str, **options: Any) -> dict[str, Function]:
    given = {"steepness": STEEPNESS, "backend": backend}
    return {
        "bubble_sort": lambda x: _joined(*relaxed.bubble_sort(x, **given)),
        "levenshtein": lambda s, t: relaxed.levenshtein(s, t, **given),
        "dynamic_time_warping": lambda a, b: relaxed.dynamic_time_warping(a, b, **given),
        "shortest_path": lambda costs: relaxed.shortest_path(costs, **given, **options),
    }


PROGRAMS: dict[str, Function] = {
    "bubble_sort": lambda x: _joined(
        *programs.bubble_sort(x, scale=1 / STEEPNESS, tolerance=0)[:2]
    ),
    "levenshtein": lambda s, t: programs.levenshtein(s, t, scale=1 / STEEPNESS)[0],
    "dynamic_time_warping": lambda a, b: programs.dynamic_time_warping(a, b, scale=1 / STEEPNESS)[
        0
    ],
    "shortest_path": lambda costs: programs.shortest_path(costs, scale=1 / STEEPNESS),
}
BY_HAND: dict[str, Function] = {
    "bubble_sort": bubble_sort,
    "levenshtein": levenshtein,
    "dynamic_time_warping": dynamic_time_warping,
    "shortest_path": shortest_path,
}


def groups(
    name: str, shapes: Sequence[Sequence[int]], device: str, written: bool, **options: Any
) -> Groups:
    """The kernel, its reference and, where they are `written`, the program and PyTorch by hand."""
    found = {k: _kernels(b, **options)[name] for k, b in (("gendr", "auto"), ("reference",) * 2)}
    if written:
        found |= {"program": PROGRAMS[name], "by hand": BY_HAND[name]}
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.rand(*shape, generator=generator) + 0.2 for shape in shapes]
    if name == "levenshtein":
        inputs = [(4 * x).softmax(-1) for x in inputs]
    inputs = [x.to(device).requires_grad_() for x in inputs]
    grad = drawn(*found["gendr"](*inputs).shape, device=device, seed=1)
    return [outcomes(found, inputs, grad)]


def cases(quick: bool, device: str) -> list[Case]:
    """All of them."""

    def case(
        name: str, *shapes: tuple[int, ...], target: str = "", written: bool = False, **options: Any
    ) -> Case:
        make = partial(groups, name, shapes, device, written, **options)
        return Case(f"{name}/{'x'.join(map(str, shapes[0]))}", make, {"gendr": target})

    if quick:
        return [
            case("shortest_path", (2, 2, 2), written=True),
            case("bubble_sort", (3, 4), written=True),
            case("levenshtein", (2, 4, 3), (2, 4, 3), written=True),
            case("dynamic_time_warping", (2, 3), (2, 3), written=True),
        ]
    return [
        case("shortest_path", (8, 4, 4), written=True),
        case("shortest_path", (8, 12, 12), iterations=25, target="1 ms"),
        case("shortest_path", (70, 12, 12), iterations=25, target="6 ms"),
        case("bubble_sort", (100, 7), written=True, target="0.5 ms"),
        case("levenshtein", (64, 16, 4), (64, 16, 4), written=True),
        case("levenshtein", (64, 32, 4), (64, 32, 4), target="10 ms"),
        case("dynamic_time_warping", (16, 16), (16, 16), written=True),
        case("dynamic_time_warping", (16, 128), (16, 128), target="10 ms"),
    ]


main = Comparison("relaxed", __doc__, cases, page="results/relaxed").main

if __name__ == "__main__":
    main()
