"""`gendr report`: make a page, and figures, of a results file."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gendr._runtime.files import write_whole
from gendr.cli.common import check_writable
from gendr.experiments.report import Summary, load_summaries, make_page

SUFFIXES = (".html", ".htm")
DOTS_PER_INCH = 300


def run(args: Namespace) -> int:
    """Run `gendr report` with parsed arguments and return the exit status."""
    source, page = Path(args.results), Path(args.output)
    if page.suffix.lower() not in SUFFIXES or page.is_dir():
        raise ValueError(f"the page must be a file that ends in .html, got {args.output!r}")
    summaries = load_summaries(source, args.run or ())
    check_writable(page.parent)
    written = [page]
    if args.png is not None:
        written += _write_figures(summaries, check_writable(Path(args.png), "--png"))
    content = make_page(summaries, source.name)
    write_whole(page, content.encode())
    sys.stdout.write("".join(f"{path}\n" for path in written))
    return 0


def _write_figures(summaries: Sequence[Summary], folder: Path) -> list[Path]:
    """Write one PNG per run, such as shape-1.png for run 1; returns their paths."""
    from gendr.experiments.report.figure import heat_map_figure

    paths: list[Path] = []
    for summary in summaries:
        figure = heat_map_figure(summary)
        path = folder / f"{summary.run.task}-{summary.run.id}.png"
        write_whole(path, partial(figure.savefig, format="png", dpi=DOTS_PER_INCH))
        paths.append(path)
    return paths
