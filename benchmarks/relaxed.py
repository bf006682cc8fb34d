"""Time the ready-made relaxed algorithms, forward + backward, kernels against plain torch.

    python benchmarks/relaxed.py                                  # everything, printed
    python benchmarks/relaxed.py --cases shortest --repeat 100    # some
    python benchmarks/relaxed.py --out docs/results --docs        # what the documentation shows

A case is an algorithm and the sizes of its input. What is timed is the way from the input to the
result and back to the gradient of the input, float32, wall clock, the device synchronised before
and after. Implementations: `gendr`, the algorithm as users get it; and `reference`, its torch code.
Before they are timed they must agree. Then they take turns, in bursts, so that whatever else the
machine does meets both. The target of a case is that of the project, on 2 cores.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import comparison
import speed
import torch
from torch import Tensor

from gendr.relaxed import bubble_sort, dynamic_time_warping, levenshtein, shortest_path
from lab.pages import table
from support import relative_l2

AGREEMENT = 1e-3  # relative, of results and gradients in float32
MARKS = {"cpu": "relaxed-speed", "cuda": "relaxed-speed-cuda"}  # in docs/relaxed.md


@dataclass(frozen=True)
class Case:
    """An algorithm at work.

    Attributes:
        algorithm: its name.
        text: the sizes, in words.
        shapes: of the inputs.
        run: (inputs, backend) -> result.
        target: milliseconds, or None.
        softmax: inputs are distributions along the last dimension.
    """

    algorithm: str
    text: str
    shapes: tuple[tuple[int, ...], ...]
    run: Callable[..., Tensor]
    target: float | None = None
    softmax: bool = False

    @property
    def name(self) -> str:
        """What --cases matches, such as bubble_sort/100x7."""
        return f"{self.algorithm}/{'x'.join(map(str, self.shapes[0]))}"

    def inputs(self, device: str) -> list[Tensor]:
        """Inputs that are the same in every run: numbers in [0.2, 1.2], or distributions."""
        generator = torch.Generator().manual_seed(sum(self.shapes[0]))
        found = [torch.rand(shape, generator=generator) + 0.2 for shape in self.shapes]
        if self.softmax:
            found = [(4 * x).softmax(-1) for x in found]
        return [x.to(device).requires_grad_() for x in found]


def _path(iterations: int, costs: Tensor, backend: str) -> Tensor:
    return shortest_path(costs, iterations=iterations, backend=backend)


def _sort(x: Tensor, backend: str) -> Tensor:
    values, swaps, ordered = bubble_sort(x, backend=backend)
    return torch.cat([values, swaps[..., None], ordered[..., None]], -1)


def _edits(s: Tensor, t: Tensor, backend: str) -> Tensor:
    return levenshtein(s, t, backend=backend)


def _warping(a: Tensor, b: Tensor, backend: str) -> Tensor:
    return dynamic_time_warping(a, b, backend=backend)


def cases(quick: bool) -> list[Case]:
    """All of them."""
    if quick:
        return [
            Case("shortest_path", "2 of 4 × 4, 6 sweeps", ((2, 4, 4),), partial(_path, 6)),
            Case("bubble_sort", "3 × 4", ((3, 4),), _sort),
            Case("levenshtein", "2 pairs of 4", ((2, 4, 3), (2, 4, 3)), _edits, softmax=True),
            Case("dynamic_time_warping", "2 of 5 × 4", ((2, 5), (2, 4)), _warping),
        ]
    grids = ((8, 1.0), (70, 6.0))
    strings = ((64, 32, 4), (64, 32, 4))
    return [
        *(
            Case(
                "shortest_path", f"{batch} of 12 × 12, 25 sweeps", ((batch, 12, 12),),
                partial(_path, 25), target,
            )
            for batch, target in grids
        ),
        Case("bubble_sort", "100 × 7", ((100, 7),), _sort, 0.5),
        Case("levenshtein", "64 pairs of 32, 4 letters", strings, _edits, 10.0, softmax=True),
        Case("dynamic_time_warping", "16 of 128 × 128", ((16, 128), (16, 128)), _warping, 10.0),
    ]  # fmt: skip


def outcome(case: Case, inputs: list[Tensor], backend: str, given: Tensor) -> list[Tensor]:
    """The result and the gradients of the inputs."""
    result = case.run(*inputs, backend=backend)
    return [result, *torch.autograd.grad(result, inputs, given)]


def measure(case: Case, device: str, repeat: int) -> list[dict[str, Any]]:
    """One row for every implementation."""
    inputs = case.inputs(device)
    generator = torch.Generator().manual_seed(1)
    shape = case.run(*inputs, backend="auto").shape
    given = torch.randn(shape, generator=generator).to(device)
    runs: dict[str, Callable[[], list[Tensor]]] = {
        "gendr": partial(outcome, case, inputs, "auto", given),
        "reference": partial(outcome, case, inputs, "reference", given),
    }
    ours, truth = runs["gendr"](), runs["reference"]()
    apart = max(relative_l2(a, b) for a, b in zip(ours, truth, strict=True))
    if not apart <= AGREEMENT:
        raise SystemExit(f"{case.name}: the kernel is {apart:.1e} off the reference")
    times = comparison.take_turns({**runs}, repeat, device)
    return [
        {
            "name": case.name,
            "algorithm": case.algorithm,
            "sizes": case.text,
            "implementation": name,
            "target_ms": case.target,
            "difference": apart,
            "median_s": statistics.median(seconds),
            "min_s": min(seconds),
            "runs": len(seconds),
        }
        for name, seconds in times.items()
    ]


def cells(row: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    """A row of the table."""
    (first,) = [r for r in rows if r["name"] == row["name"] and r["implementation"] == "gendr"]
    target = "" if row["target_ms"] is None else f"{row['target_ms']:g} ms"
    return [
        f"`{row['algorithm']}`" if row is first else "",
        row["sizes"] if row is first else "",
        row["implementation"],
        speed.milliseconds(row["median_s"]),
        speed.milliseconds(row["min_s"]),
        target if row is first else "",
        "" if row is first else f"{speed.short(row['median_s'] / first['median_s'])}×",
        str(row["runs"]),
    ]


_HEAD = ["algorithm", "sizes", "implementation", "median", "minimum", "target", "median / gendr",
         "runs"]  # fmt: skip


def markdown(report: dict[str, Any]) -> list[str]:
    """The report as lines of Markdown."""
    run = report["run"]
    return [
        f"{comparison.measured_on(run)}, {comparison.product_time(report)}.",
        "",
        *table(_HEAD, [cells(row, report["rows"]) for row in report["rows"]]),
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = comparison.options(__doc__, "relaxed")
    args = parser.parse_args(argv)
    device = comparison.device_of(args, parser)
    asked = comparison.chosen(args, parser, cases(args.quick))

    def rows(case: Case) -> list[dict[str, Any]]:
        return measure(case, device, args.repeat)

    report = comparison.measured(comparison.about_run(device), asked, rows, device)
    comparison.publish(report, markdown(report), args, "relaxed", MARKS[device])


if __name__ == "__main__":
    main()
