"""Time relaxed programs, forward + backward, against the same written by hand in PyTorch.

    python benchmarks/relaxed_programs.py                       # everything, printed; a minute
    python benchmarks/relaxed_programs.py --programs levenshtein
    python benchmarks/relaxed_programs.py --docs                # the table of docs/relaxed.md

Implementations, float32, wall clock:

- program: the text in `gendr.relaxed.programs`, decorated;
- by hand: the same algorithm with every formula written out in PyTorch, as one would without the
  decorator: cells in Python lists, decisions as sigmoids, blends as `torch.lerp`;
- kernel: the function of `gendr.relaxed` with the same name.

Before they are timed, all must give the same result. Then they take turns, so that whatever else
the machine does meets all of them.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import comparison
import torch
from torch import Tensor

from gendr import relaxed
from gendr._runtime.command_line import Parser, count
from gendr.relaxed import programs
from lab.pages import fill, table
from support import relative_l2

Run: TypeAlias = "Callable[..., Tensor]"

PAGE = Path(__file__).parents[1] / "docs" / "relaxed.md"
STEEPNESS = 10.0
AGREEMENT = 1e-4  # relative, of results in float32
MARK = "relaxed-programs-speed"  # in docs/relaxed.md


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


@dataclass(frozen=True)
class Case:
    """A program at work.

    Attributes:
        shapes: of its inputs, which are uniform in [0, 1].
        program: decorated.
        hand: the same by hand.
        kernel: the function of `gendr.relaxed`.
    """

    shapes: tuple[tuple[int, ...], ...]
    program: Run
    hand: Run
    kernel: Run

    def inputs(self) -> list[Tensor]:
        """Tensors that require gradients."""
        generator = torch.Generator().manual_seed(0)
        return [torch.rand(*s, generator=generator).requires_grad_() for s in self.shapes]


def _joined(values: Tensor, swaps: Tensor) -> Tensor:
    return torch.cat([values, swaps[..., None]], -1)


def cases(quick: bool = False) -> dict[str, Case]:
    """All of them, by the name of the program."""
    soft = {"scale": 1 / STEEPNESS}
    n = 3 if quick else 16
    return {
        "bubble_sort": Case(
            ((100, 3 if quick else 7),),
            lambda x: _joined(*programs.bubble_sort(x, **soft, tolerance=0)[:2]),
            bubble_sort,
            lambda x: _joined(*relaxed.bubble_sort(x, steepness=STEEPNESS)[:2]),
        ),
        "levenshtein": Case(
            ((64, n, 4), (64, n, 4)),
            lambda s, t: programs.levenshtein(s, t, **soft)[0],
            levenshtein,
            lambda s, t: relaxed.levenshtein(s, t, steepness=STEEPNESS),
        ),
        "dynamic_time_warping": Case(
            ((16, n), (16, n)),
            lambda a, b: programs.dynamic_time_warping(a, b, **soft)[0],
            dynamic_time_warping,
            lambda a, b: relaxed.dynamic_time_warping(a, b, steepness=STEEPNESS),
        ),
        "shortest_path": Case(
            ((8, 2, 2) if quick else (8, 4, 4),),
            lambda costs: programs.shortest_path(costs, **soft),
            shortest_path,
            lambda costs: relaxed.shortest_path(costs, steepness=STEEPNESS),
        ),
    }


# -- the measurements


def gradients(run: Run, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """One run, forward and backward."""
    return torch.autograd.grad(run(*inputs).sum(), inputs)


def measure(case: Case, repeat: int) -> dict[str, float]:
    """The median seconds of each implementation.

    Raises:
        SystemExit: two of them disagree.
    """
    inputs = case.inputs()
    runs = {"program": case.program, "by hand": case.hand, "kernel": case.kernel}
    want = case.kernel(*inputs)
    for name, run in runs.items():
        apart = relative_l2(run(*inputs), want)
        if not apart <= AGREEMENT:
            raise SystemExit(f"{name} is {apart:.1e} off the kernel")
    timed = {name: partial(gradients, run, inputs) for name, run in runs.items()}
    times = comparison.take_turns({**timed}, repeat, "cpu")
    return {name: statistics.median(found) for name, found in times.items()}


def row(name: str, case: Case, found: dict[str, float]) -> list[str]:
    """One line of the table."""
    shapes = ", ".join(" × ".join(map(str, shape)) for shape in case.shapes)
    return [
        f"`{name}`",
        shapes,
        *(f"{found[key] * 1e3:.2f} ms" for key in ("program", "by hand", "kernel")),
        f"{found['program'] / found['by hand']:.1f}×",
        f"{found['program'] / found['kernel']:.0f}×",
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options, measure, print, and write the table."""
    parser = Parser(description="Time relaxed programs against PyTorch by hand.")
    parser.add_argument("--programs", nargs="+", choices=list(cases()), metavar="PROGRAM")
    parser.add_argument("--repeat", type=count(1), default=20, help="rounds (default: 20)")
    parser.add_argument("--quick", action="store_true", help="small inputs, to try the script")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/relaxed.md")
    options: argparse.Namespace = parser.parse_args(argv)
    found = {k: v for k, v in cases(options.quick).items() if k in (options.programs or cases())}
    rows = [row(name, case, measure(case, options.repeat)) for name, case in found.items()]
    head = ["program", "inputs", "program", "by hand", "kernel", "/ by hand", "/ kernel"]
    lines = [
        f"Median of {options.repeat} rounds, forward + backward, float32; threads: "
        f"{torch.get_num_threads()}, torch {torch.__version__}. Made by "
        "`benchmarks/relaxed_programs.py --docs`.",
        "",
        *table(head, rows),
    ]
    print("\n".join(lines))
    if options.docs:
        fill(PAGE, MARK, lines)


if __name__ == "__main__":
    main()
