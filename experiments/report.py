"""Show a results file of a grid as one page that needs no network.

    python experiments/report.py results.sqlite                        report.html, all its runs
    python experiments/report.py results.sqlite -o both.html --run 1 2
    python experiments/report.py results.sqlite --png figures          and heat maps for a paper

The page has heat maps of the plain and the squared distributions, a table, and what every renderer
fitted.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from gendr.jobs.folders import writable_folder
from lab import script

SUFFIXES = (".html", ".htm")
DOTS_PER_INCH = 300


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    parser.add_argument(
        "results",
        help="a results file (.sqlite), a table exported from one (.csv), or the folder of the "
        "tables of grid_rounds.py",
    )
    parser.add_argument(
        "-o", "--output", default="report.html", metavar="FILE", help="the page, replaced if there"
    )
    parser.add_argument(
        "--png", metavar="FOLDER", help="where figures go as well, 300 dpi (needs Matplotlib)"
    )
    parser.add_argument(
        "--run", type=script.count(1), nargs="+", metavar="ID", help="only these runs of the file"
    )


def run(args: argparse.Namespace) -> None:
    """Write the page, and one figure a run such as shape-1.png for run 1."""
    from lab.report import load_summaries, make_page

    source, page = Path(args.results), Path(args.output)
    if page.suffix.lower() not in SUFFIXES or page.is_dir():
        raise ValueError(f"the page must be a file that ends in .html, got {args.output!r}")
    summaries = load_summaries(source, args.run or ())
    writable_folder(page.parent)
    written = [page]
    if args.png is not None:
        from lab.report.figure import heat_map_figure

        folder = writable_folder(Path(args.png), "--png")
        for summary in summaries:
            figure = heat_map_figure(summary)
            path = folder / f"{summary.run.task}-{summary.run.id}.png"
            script.write_whole(path, partial(figure.savefig, format="png", dpi=DOTS_PER_INCH))
            written.append(path)
    script.write_whole(page, make_page(summaries, source.name).encode())
    sys.stdout.write("".join(f"{path}\n" for path in written))


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
