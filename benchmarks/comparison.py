"""What the scripts that compare implementations share: options, turns, and where a report goes."""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import speed
import torch
from tqdm import tqdm

from gendr._runtime.command_line import Parser
from lab.pages import fill

BUDGET = 4.0  # seconds after which an implementation is not run any more, but for
LEAST = 3  # rounds that there always are
BURST = 0.02  # seconds of one burst: slower implementations run once in a round


class Named(Protocol):
    """A case."""

    @property
    def name(self) -> str:
        """What --cases matches."""
        ...


C = TypeVar("C", bound=Named)


def options(about: str | None, script: str) -> Parser:
    """The options of all these scripts; `script` is also the name of the page."""
    parser = Parser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda if there is one")
    parser.add_argument("--quick", action="store_true", help="tiny cases only")
    parser.add_argument("--repeat", type=int, default=30, metavar="N", help="rounds; %(default)s")
    parser.add_argument("--cases", default="", metavar="PATTERN", help="what to measure, a regex")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help=f"for {script}-DEVICE.json")
    parser.add_argument("--docs", action="store_true", help=f"write into docs/{script}.md")
    return parser


def device_of(args: argparse.Namespace, parser: Parser) -> str:
    """Where to run; ends with a line if that, or the number of rounds, is not possible."""
    if args.repeat < 1:
        parser.error(f"--repeat must be >= 1, got {args.repeat}")
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU here; leave out --device cuda")
    return device


def chosen(args: argparse.Namespace, parser: Parser, cases: Sequence[C]) -> list[C]:
    """The cases that --cases leaves; ends with a line if there are none."""
    try:
        pattern = re.compile(args.cases)
    except re.error as error:
        parser.error(f"--cases {args.cases!r} is no regular expression: {error}")
    found = [case for case in cases if pattern.search(case.name)]
    if not found:
        names = ", ".join(case.name for case in cases)
        parser.error(f"--cases {args.cases!r} matches none of {names}")
    return found


def take_turns(
    runs: dict[str, Callable[[], Any]], repeat: int, device: str
) -> dict[str, list[float]]:
    """Seconds of all runs, in rounds of one burst each.

    They take turns, so that whatever else the machine does meets all of them, in bursts, because a
    single short run would begin with what its predecessor left in the caches.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeat):
        for name, run in runs.items():
            before = sum(times[name])
            if before >= BUDGET and turn >= LEAST:
                continue
            while True:
                times[name].append(speed.timed(run, device))
                if sum(times[name]) - before >= BURST:
                    break
    return times


def about_run(device: str) -> dict[str, Any]:
    """Date, commit, device, versions, and what else the machine was doing."""
    about = speed.about_run(speed.Place(device, speed.KERNELS[device], None))
    del about["pytorch3d_missing"]
    return {**about, "load": os.getloadavg()[0]}


def measured(
    about: dict[str, Any],
    cases: Sequence[C],
    measure: Callable[[C], list[dict[str, Any]]],
    device: str,
) -> dict[str, Any]:
    """The report: about the run, the time of a matrix product, and the rows of all cases."""
    product = speed.Limits.of(device).product
    rows = [row for case in tqdm(cases, unit="case", disable=None) for row in measure(case)]
    return {"run": about, "product_s": product, "rows": rows}


def measured_on(run: dict[str, Any], threads: str | None = None) -> str:
    """When, where and with what, and the load of the machine, as a sentence without its end.

    Args:
        run: of `about_run`.
        threads: how many of a CPU; by default all that the kernels have.
    """
    cores = ""
    if run["device"] == "cpu":
        cores = f"{run['threads']} threads of " if threads is None else f"{threads} of "
    return (
        f"Measured on {run['date']} at commit {run['commit']} with {cores}{run['device_name']}, "
        f"torch {run['torch']}, Python {run['python']}; load of the machine before "
        f"{run['load']:.1f}"
    )


def product_time(report: dict[str, Any]) -> str:
    """How fast the machine was in the run, as a part of a sentence."""
    milliseconds = 1e3 * report["product_s"]
    return f"a 2048³ float32 matrix product in the same run {milliseconds:.3g} ms"


def publish(
    report: dict[str, Any], lines: list[str], args: argparse.Namespace, script: str, mark: str,
    page: str | None = None,
) -> None:  # fmt: skip
    """Print the lines; write them and the report where --docs and --out say.

    Args:
        report: what is written to SCRIPT-DEVICE.json.
        lines: what is written to the page.
        args: with `out` and `docs`.
        script: see `report`.
        mark: of the block of the page.
        page: of the documentation; by default that of the name of the script.
    """
    print("\n".join(lines))
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
        path = args.out / f"{script}-{report['run']['device']}.json"
        path.write_text(text, encoding="utf-8")
    if args.docs:
        fill(speed.ROOT / "docs" / f"{page or script}.md", mark, lines)
