"""Compare renderers by the reconstructions of networks that they taught.

    python experiments/reconstruction.py --data data -o reconstruction --steps 20000
    python experiments/reconstruction.py --data data --renderers uniform/probabilistic

Each renderer, written DIST/TCONORM, trains one network in a folder of its own, and so does the
baseline, one mesh for all images. The same command goes on after an interruption; with another
list of renderers it trains those that are missing. It writes, to the folder -o,

    table.md           3D IoU of the test split by class, in percent, with standard errors
    table.json         the same with all digits
    NAME/checkpoint.pt, NAME/metrics.json    of each training, see `gendr train --help`

Source: thesis, section 5.4.3 and table 5.4.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from gendr import cli
from gendr._runtime.command_line import INTERRUPTED, count
from gendr._runtime.files import write_whole
from gendr.experiments import script
from gendr.reconstruction import ClassScore, ShapeNetRenderings, evaluate, load_model
from gendr.reconstruction.renderings import VIEWS

BASELINE = "mean shape"
RENDERERS = ("uniform/probabilistic", "logistic.squared/probabilistic",
             "gamma(shape=0.5).reversed/probabilistic")  # fmt: skip


def make_options() -> argparse.ArgumentParser:
    """The options of the script."""
    parser = script.make_parser(__file__, __doc__)
    parser.add_argument("--data", required=True, type=Path, metavar="FOLDER", help="data set")
    parser.add_argument("--classes", nargs="+", metavar="CLASS", help="default: all in the folder")
    parser.add_argument(
        "--renderers", nargs="+", default=RENDERERS, metavar="DIST/TCONORM", help="to compare"
    )
    parser.add_argument("--scale", default="0.5px", help="of all renderers (default: 0.5px)")
    parser.add_argument("--steps", type=count(1), default=20_000, metavar="N", help="Adam steps")
    parser.add_argument("--batch", type=count(2), default=64, metavar="N", help="shapes a step")
    parser.add_argument(
        "--views", type=int, choices=range(1, VIEWS + 1), default=VIEWS, metavar="N",
        help="from which each test shape is predicted (default: all 24)",
    )  # fmt: skip
    parser.add_argument("--no-baseline", action="store_true", help="leave the mean shape out")
    script.add_seed(parser)
    script.add_device(parser)
    script.add_output(parser, "reconstruction")
    return parser


def train(args: argparse.Namespace, name: str) -> Path | None:
    """Train one network, as far as that is not done; its checkpoint, None if interrupted.

    Raises:
        ValueError: if it cannot be trained; the reason is on stderr.
    """
    out = args.output / re.sub(r"[^\w.=-]+", "-", name).strip("-")
    if (out / "metrics.json").is_file():
        _check_same(out / "metrics.json", args)
        return out / "checkpoint.pt"
    baseline = name == BASELINE
    dist, _, tconorm = (RENDERERS[0] if baseline else name).partition("/")
    words = ["train", "reconstruction", "--data", args.data, "-o", out, "--dist", dist]
    words += ["--tconorm", tconorm or "probabilistic", "--scale", args.scale]
    words += ["--steps", args.steps, "--batch", args.batch, "--seed", args.seed]
    words += ["--device", args.device, "--encoder", "none" if baseline else "published"]
    words += ["--classes", *args.classes] if args.classes else []
    words += ["--resume"] if (out / "checkpoint.pt").is_file() else []
    status = cli.main([str(word) for word in words])
    if status == INTERRUPTED:
        return None
    if status:
        raise ValueError(f"{name} was not trained; see the line above")
    return out / "checkpoint.pt"


def _check_same(path: Path, args: argparse.Namespace) -> None:
    """Refuse a finished training of other settings, which would spoil the comparison."""
    metrics = json.loads(path.read_text())
    for name in ("steps", "batch", "seed", "scale"):
        then, now = metrics["settings"][name], getattr(args, name)
        if then != now:
            raise ValueError(
                f"{path.parent} was trained with {name} = {then!r}, not {now!r}; choose another "
                "folder with -o"
            )
    now = {one.name for one in ShapeNetRenderings(args.data, args.classes).classes}
    if now != metrics["classes"].keys():
        raise ValueError(
            f"{path.parent} was trained on {', '.join(metrics['classes'])}; choose another folder "
            "with -o"
        )


def table(rows: dict[str, list[ClassScore]]) -> str:
    """Renderers below each other, classes beside each other, the mean at the end; in percent."""
    names = [score.name for score in next(iter(rows.values()))]
    lines = [f"| renderer | {' | '.join(names)} | mean |", "| --- |" + " ---: |" * (len(names) + 1)]
    for row, scores in rows.items():
        cells = [
            f"{100 * s.iou:.2f}" + ("" if math.isnan(s.error) else f" ± {100 * s.error:.2f}")
            for s in scores
        ]
        mean = sum(s.iou for s in scores) / len(scores)
        lines.append(f"| {row} | {' | '.join(cells)} | {100 * mean:.2f} |")
    return "\n".join(lines) + "\n"


def run(args: argparse.Namespace) -> int:
    """Train, measure, and write the table; returns the exit status."""
    device, out = script.device_of(args), script.output_folder(args)
    test = ShapeNetRenderings(args.data, args.classes, "test")
    views = [i * VIEWS // args.views for i in range(args.views)]
    rows: dict[str, list[ClassScore]] = {}
    text = ""
    for name in [*([] if args.no_baseline else [BASELINE]), *args.renderers]:
        checkpoint = train(args, name)
        if checkpoint is None:
            return INTERRUPTED
        rows[name] = evaluate(load_model(checkpoint, device), test, views=views)
        text = table(rows)
        write_whole(out / "table.md", text.encode())
        plain = {
            row: [{**s._asdict(), "error": None if math.isnan(s.error) else s.error} for s in all_]
            for row, all_ in rows.items()
        }
        write_whole(out / "table.json", (json.dumps(plain, indent=1) + "\n").encode())
    sys.stdout.write(text)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; returns the exit status."""
    return script.run_script(make_options(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
