"""What the scripts that compare implementations share: all but the cases.

Before it is timed, every implementation must give the same result and gradients as the first of its
group. Then they take turns, so that whatever else the machine does meets all of them, in bursts,
because a single short run would begin with what its predecessor left in the caches. Memory is the
peak beyond the input: of a fresh process's resident set on a CPU, of PyTorch's allocator on a GPU.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import speed
import torch
from torch import Tensor
from tqdm import tqdm

from gendr.cli.command_line import Parser
from lab.pages import fill, table
from support import relative_l2

Run: TypeAlias = Callable[[], Sequence[Tensor]]
Groups: TypeAlias = Sequence[Mapping[str, Run]]

BUDGET = 4.0  # seconds after which an implementation is not run any more, but for
LEAST = 3  # rounds that there always are
BURST = 0.02  # seconds of one burst: slower implementations run once in a round


@dataclass(frozen=True)
class Case:
    """What is compared.

    Attributes:
        name: what --cases matches.
        groups: makes the implementations, which must agree within a group. All times are compared
            with that of the very first.
        targets: of the project, by implementation, in words.
        memory: implementations whose peak is looked at too.
        small: makes the same groups of less work, which compile or load all kernels.
    """

    name: str
    groups: Callable[[], Groups]
    targets: Mapping[str, str] = field(default_factory=dict)
    memory: tuple[str, ...] = ()
    small: Callable[[], Groups] | None = None


@dataclass(frozen=True)
class Comparison:
    """A script.

    Attributes:
        name: of the script, and of the file of its numbers.
        about: its docstring.
        cases: (tiny, device) -> all of them.
        agreement: relative, of results and gradients in float32.
        page: of the documentation; by default that of the name.
        mark: of the block of the page; by default the name and "-speed", and the device if that is
            no CPU.
        threads: of torch; by default all.
        processor: times are of the processor, for packages of one thread on machines in use.
        file: of the script, where it does not stand here under its name.
        more: (tiny, repeat, device) -> what else is measured, and its lines.
    """

    name: str
    about: str | None
    cases: Callable[[bool, str], Sequence[Case]]
    agreement: float = 2e-3
    page: str | None = None
    mark: str | None = None
    threads: int | None = None
    processor: bool = False
    file: Path | None = None
    more: Callable[[bool, int, str], tuple[dict[str, Any], list[str]]] | None = None

    def main(self, argv: Sequence[str] | None = None) -> None:
        """Measure, print, write."""
        parser = self._options()
        args = parser.parse_args(argv)
        device = _device_of(args, parser)
        if device == "cuda" and args.docs and self.more:
            parser.error("--docs writes what the CPU does; leave it out, or --device cuda")
        cases = self.cases(args.quick, device)
        if args.probe:
            case, name = _probed(args.probe, cases, parser)
            print(json.dumps(peak_of(case, name, device)))
            return
        asked = _chosen(args, parser, cases)
        threads = torch.get_num_threads()
        torch.set_num_threads(self.threads or threads)
        try:
            run = speed.about_run(speed.Place(device, speed.KERNELS[device], None))
            del run["pytorch3d_missing"]
            report: dict[str, Any] = {
                "run": {**run, "load": os.getloadavg()[0]},
                "product_s": speed.Limits.of(device).product,
                "rows": [
                    row
                    for case in tqdm(asked, unit="case", disable=None)
                    for row in self.measure(case, device, args.repeat, args.quick)
                ],
            }
            lines = markdown(report)
            if self.more:
                found, further = self.more(args.quick, args.repeat, device)
                report, lines = {**report, **found}, [*lines, *further]
        finally:
            torch.set_num_threads(threads)
        print("\n".join(lines))
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
            text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
            (args.out / f"{self.name}-{device}.json").write_text(text, encoding="utf-8")
        if args.docs:
            mark = (self.mark or f"{self.name}-speed") + ("" if device == "cpu" else f"-{device}")
            fill(speed.ROOT / "docs" / f"{self.page or self.name}.md", mark, lines)

    def _options(self) -> Parser:
        script = self.name
        parser = Parser(
            description=self.about, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        add = parser.add_argument
        add("--device", choices=("cpu", "cuda"), help="default: cuda if there is one")
        add("--quick", action="store_true", help="tiny cases only")
        add("--repeat", type=int, default=30, metavar="N", help="rounds; %(default)s")
        add("--cases", default="", metavar="PATTERN", help="what to measure, a regex")
        add("--out", type=Path, metavar="FOLDER", help=f"for {script}-DEVICE.json")
        add("--docs", action="store_true", help=f"write into docs/{self.page or script}.md")
        add("--probe", metavar="CASE/IMPLEMENTATION", help="print its peak memory in bytes")
        return parser

    def measure(self, case: Case, device: str, repeat: int, quick: bool) -> list[dict[str, Any]]:
        """One row for every implementation.

        Raises:
            SystemExit: two implementations of a group differ.
        """
        runs: dict[str, Run] = {}
        apart: dict[str, float] = {}
        for group in case.groups():
            expected = None
            for name, run in group.items():
                found = [x.detach().clone() for x in run()]
                expected = expected or found
                apart[name] = max(map(relative_l2, found, expected), default=0.0)
                if not apart[name] <= self.agreement:
                    raise SystemExit(f"{case.name}: {name} is {apart[name]:.1e} off")
                runs[name] = run
        times = take_turns(runs, repeat, device, self.processor)
        return [
            {
                "name": case.name,
                "implementation": name,
                "difference": apart[name],
                "median_s": statistics.median(seconds),
                "min_s": min(seconds),
                "runs": len(seconds),
                "target": case.targets.get(name),
                "memory_bytes": self._peak(case, name, device, quick)
                if name in case.memory
                else None,
            }
            for name, seconds in times.items()
        ]

    def _peak(self, case: Case, name: str, device: str, quick: bool) -> int | None:
        if device == "cuda":
            return peak_of(case, name, device)
        # In a process of its own, because an allocator keeps what earlier runs gave back.
        file = self.file or Path(__file__).with_name(f"{self.name}.py")
        command = [sys.executable, file, "--device", device]
        command += [*(["--quick"] if quick else []), "--probe", f"{case.name}/{name}"]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(run.stdout)


def peak_of(case: Case, name: str, device: str) -> int | None:
    """Bytes beyond the input, in this process, which on a CPU must be fresh; None if unknown."""
    small, full = (
        next(group[name] for group in make() if name in group)
        for make in (case.small or case.groups, case.groups)
    )
    small()
    return speed.peak_of(full, device)


def outcome(run: Callable[..., Tensor], inputs: Sequence[Tensor], grad: Tensor) -> list[Tensor]:
    """The result, and the gradients of the inputs if it has any."""
    result = run(*inputs)
    if not result.requires_grad:
        return [result]
    return [result.detach(), *torch.autograd.grad(result, inputs, grad)]


def outcomes(
    group: Mapping[str, Callable[..., Tensor]], inputs: Sequence[Tensor], grad: Tensor
) -> dict[str, Run]:
    """A group of functions of the same inputs, with the gradient that comes back."""
    return {name: partial(outcome, run, inputs, grad) for name, run in group.items()}


def drawn(*shape: int, device: str = "cpu", seed: int = 0) -> Tensor:
    """Normally distributed numbers, the same in every run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device)


def take_turns(
    runs: Mapping[str, Callable[[], object]], repeat: int, device: str, processor: bool = False
) -> dict[str, list[float]]:
    """Seconds of all runs, in rounds of one burst each."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeat):
        for name, run in runs.items():
            before = sum(times[name])
            if before >= BUDGET and turn >= LEAST:
                continue
            while True:
                times[name].append(speed.timed(run, device, processor))
                if sum(times[name]) - before >= BURST:
                    break
    return times


def _device_of(args: argparse.Namespace, parser: Parser) -> str:
    if args.repeat < 1:
        parser.error(f"--repeat must be >= 1, got {args.repeat}")
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU here; leave out --device cuda")
    return device


def _chosen(args: argparse.Namespace, parser: Parser, cases: Sequence[Case]) -> list[Case]:
    try:
        pattern = re.compile(args.cases)
    except re.error as error:
        parser.error(f"--cases {args.cases!r} is no regular expression: {error}")
    found = [case for case in cases if pattern.search(case.name)]
    if not found:
        names = ", ".join(case.name for case in cases)
        parser.error(f"--cases {args.cases!r} matches none of {names}")
    return found


def _probed(text: str, cases: Sequence[Case], parser: Parser) -> tuple[Case, str]:
    for case in cases:
        for group in case.groups() if text.startswith(f"{case.name}/") else ():
            for name in group:
                if text == f"{case.name}/{name}":
                    return case, name
    names = ", ".join(case.name for case in cases)
    parser.error(f"there is no {text!r}; cases are {names}")


_HEAD = ["case", "implementation", "median", "minimum", "minimum / first", "memory", "target",
         "runs"]  # fmt: skip


def markdown(report: dict[str, Any]) -> list[str]:
    """The report as lines of Markdown; columns that no row fills are left out."""
    run, rows = report["run"], report["rows"]
    firsts: dict[str, dict[str, Any]] = {}
    for row in rows:
        firsts.setdefault(row["name"], row)
    body = [_cells(row, firsts[row["name"]]) for row in rows]
    used = [k for k in range(len(_HEAD)) if any(cells[k] for cells in body)]
    count = run.get("threads")
    cores = f"{count} thread{'s' * (count != 1)} of " if run["device"] == "cpu" else ""
    return [
        f"Measured on {run['date']} at commit {run['commit']} with {cores}{run['device_name']}, "
        f"torch {run['torch']}, Python {run['python']}; load of the machine before "
        f"{run['load']:.1f}, a 2048³ float32 matrix product in the same run "
        f"{1e3 * report['product_s']:.3g} ms.",
        "",
        *table([_HEAD[k] for k in used], [[cells[k] for k in used] for cells in body]),
    ]


def _cells(row: dict[str, Any], first: dict[str, Any]) -> list[str]:
    return [
        f"`{row['name']}`" if row is first else "",
        row["implementation"],
        speed.milliseconds(row["median_s"]),
        speed.milliseconds(row["min_s"]),
        "" if row is first else f"{speed.short(row['min_s'] / first['min_s'])}×",
        "" if row["memory_bytes"] is None else speed.megabytes(row["memory_bytes"]),
        row["target"] or "",
        str(row["runs"]),
    ]
