"""Compare renderers by the reconstructions of networks that they taught.

    python experiments/reconstruction.py --data data -o reconstruction --steps 20000
    python experiments/reconstruction.py --data data --renderers uniform/max cauchy/einstein@0.1px

Each renderer, written DIST/TCONORM or DIST/TCONORM@SCALE, trains one network in a folder of its
own, and so does the baseline, one mesh for all images. Distributions need scales of their own: the
same number softens edges by more or less. The same command goes on after an interruption; with
another list of renderers it trains those that are missing. It writes, to the folder -o,

    table.md           3D IoU of the test split by class with standard errors, time, shapes
    table.json         the same with all digits
    NAME/checkpoint.pt, NAME/metrics.json    of each training, see `train.py --help`
    NAME/sheet.png     some shapes: input, silhouettes, mesh from three sides, truth

Source: thesis, section 5.4.3 and table 5.4.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from gendr._common.files import write_whole
from gendr.cli.command_line import INTERRUPTED, count
from gendr.photos import visual
from lab import script
from lab.pages import table as markdown
from lab.reconstruction import ClassScore, ShapeNetRenderings, commands, evaluate, load_model
from lab.reconstruction.pictures import evaluation_sheet
from lab.reconstruction.renderings import VIEWS
from lab.report.curves import spread

BASELINE = "mean shape"
RENDERERS = ("uniform/probabilistic", "logistic.squared/probabilistic",
             "gamma(shape=0.5).reversed/probabilistic")  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    parser.add_argument("--data", required=True, type=Path, metavar="FOLDER", help="data set")
    parser.add_argument("--classes", nargs="+", metavar="CLASS", help="default: all in the folder")
    parser.add_argument(
        "--renderers", nargs="+", default=RENDERERS, metavar="DIST/TCONORM[@SCALE]",
        help="to compare",
    )  # fmt: skip
    parser.add_argument(
        "--scale", default="0.5px", help="of renderers without one of their own (default: 0.5px)"
    )
    parser.add_argument("--steps", type=count(1), default=20_000, metavar="N", help="Adam steps")
    parser.add_argument("--batch", type=count(2), default=64, metavar="N", help="shapes a step")
    parser.add_argument("--lr", type=float, default=1e-4, metavar="X", help="of Adam")
    parser.add_argument("--threads", type=count(1), metavar="N", help="on the CPU")
    parser.add_argument(
        "--views", type=int, choices=range(1, VIEWS + 1), default=VIEWS, metavar="N",
        help="from which each test shape is predicted (default: all 24)",
    )  # fmt: skip
    parser.add_argument(
        "--encoders", nargs="+", choices=("published", "residual"), default=["published"],
        help="train each renderer with each of them; results of the stronger one, residual, are "
        "rows of their own (default: published)",
    )  # fmt: skip
    parser.add_argument("--no-baseline", action="store_true", help="leave the mean shape out")
    script.add_seed(parser)
    script.add_device(parser)
    script.add_output(parser, "reconstruction")


class Choice(NamedTuple):
    """A renderer to compare, as it was written, or the baseline."""

    name: str
    dist: str
    tconorm: str
    scale: str
    encoder: str = "published"

    @classmethod
    def parse(cls, text: str, scale: str, encoder: str = "published") -> Choice:
        """The parts of DIST/TCONORM@SCALE, of which the last two may be missing."""
        renderer, _, own = text.partition("@")
        dist, _, tconorm = renderer.partition("/")
        name = text if encoder == "published" else f"{text}, {encoder} encoder"
        return cls(name, dist, tconorm or "probabilistic", own or scale, encoder)

    @property
    def folder(self) -> str:
        """Where its training is, within the folder of the results."""
        return re.sub(r"[^\w.=-]+", "-", self.name).strip("-")


def train(args: argparse.Namespace, choice: Choice) -> Path | None:
    """Train one network, as far as that is not done; its folder, None if interrupted.

    Raises:
        ValueError: if it cannot be trained; the reason is on stderr.
    """
    out = args.output / choice.folder
    if (out / "metrics.json").is_file():
        _check_same(out / "metrics.json", args, choice)
        return out
    words = ["--data", args.data, "-o", out, "--dist", choice.dist]
    words += ["--tconorm", choice.tconorm, "--scale", choice.scale, "--encoder", choice.encoder]
    words += ["--steps", args.steps, "--batch", args.batch, "--seed", args.seed]
    words += ["--device", args.device, "--lr", args.lr]
    words += ["--threads", args.threads] if args.threads else []
    words += ["--classes", *args.classes] if args.classes else []
    words += ["--resume"] if (out / "checkpoint.pt").is_file() else []
    status = commands.train_main([str(word) for word in words])
    if status == INTERRUPTED:
        return None
    if status:
        raise ValueError(f"{choice.name} was not trained; see the line above")
    return out


def _check_same(path: Path, args: argparse.Namespace, choice: Choice) -> None:
    """Refuse a finished training of other settings, which would spoil the comparison."""
    metrics = json.loads(path.read_text())
    wanted = {name: getattr(args, name) for name in ("steps", "batch", "seed")}
    for name, now in {**wanted, "learning_rate": args.lr, "scale": choice.scale}.items():
        then = metrics["settings"][name]
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


class Row(NamedTuple):
    """What a training came to."""

    scores: list[ClassScore]
    steps: int
    seconds: float


def table(rows: dict[str, Row], trained_on: dict[str, int]) -> list[str]:
    """Methods below each other, classes beside each other, the mean behind them, as table 5.4.

    Args:
        rows: by the name of the method.
        trained_on: the number of shapes of each class that networks were trained on.
    """
    first = next(iter(rows.values())).scores
    lines: list[list[str]] = []
    for name, row in rows.items():
        cells = [f"{s.iou:.4f}{with_error(s.error)}" for s in row.scores]
        total = f"{mean(s.iou for s in row.scores):.4f}"
        lines.append([name, *cells, total, f"{row.steps}", f"{row.seconds / 60:.1f}"])
    # The same for all methods: shapes of the training and of the test split.
    counts = [f"{trained_on[s.name]} + {s.shapes}" for s in first]
    total = f"{sum(trained_on[s.name] for s in first)} + {sum(s.shapes for s in first)}"
    lines.append(["shapes: train + test", *counts, total, "", ""])
    head = ["method", *(score.name for score in first), "mean", "steps", "minutes"]
    return [*markdown(head, lines, 1), ""]


def with_error(error: float) -> str:
    """A standard error, if it is known, behind its number."""
    return "" if math.isnan(error) else f" ± {error:.4f}"


def gains(rows: dict[str, Row]) -> list[str]:
    """By how much each method is better than the baseline, with the standard error over shapes.

    The error is that of the differences of the same shapes, which is smaller than that of two
    means: what is hard for one method is hard for another.
    """
    base, lines = rows[BASELINE].scores, list[list[str]]()
    for name, row in rows.items():
        if name == BASELINE:
            continue
        apart = [
            [a - b for a, b in zip(score.each, other.each, strict=True)]
            for score, other in zip(row.scores, base, strict=True)
        ]
        lines.append([name, *(f"{m:+.4f}{with_error(e)}" for m, e in map(spread, apart))])
    return [*markdown([f"above the {BASELINE}", *(s.name for s in base)], lines, 1), ""]


def run(args: argparse.Namespace) -> int:
    """Train, measure, and write the table; returns the exit status."""
    device, out = script.device_of(args), script.output_folder(args)
    test = ShapeNetRenderings(args.data, args.classes, "test")
    views = [i * VIEWS // args.views for i in range(args.views)]
    choices = [
        Choice.parse(text, args.scale, encoder)
        for encoder in args.encoders
        for text in args.renderers
    ]
    if not args.no_baseline:
        first = Choice.parse(RENDERERS[0], args.scale)
        choices.insert(0, first._replace(name=BASELINE, encoder="none"))
    if twice := {c.folder for c in choices if [d.folder for d in choices].count(c.folder) > 1}:
        raise ValueError(f"two renderers would train in the same folder {min(twice)}")
    rows: dict[str, Row] = {}
    text = ""
    for choice in choices:
        folder = train(args, choice)
        if folder is None:
            return INTERRUPTED
        metrics = json.loads((folder / "metrics.json").read_text())
        model = load_model(folder / "checkpoint.pt", device)
        scores = evaluate(model, test, views=views)
        sheet = evaluation_sheet(model, test, f"{choice.name}: test split")
        write_whole(folder / "sheet.png", visual.picture(sheet))
        rows[choice.name] = Row(scores, metrics["steps"], metrics["seconds"])
        lines = table(rows, metrics["classes"])
        if BASELINE in rows and len(rows) > 1:
            lines += gains(rows)
        text = "\n".join(lines)
        write_whole(out / "table.md", text.encode())
        plain = {name: [score._asdict() for score in row.scores] for name, row in rows.items()}
        for score in (score for scores in plain.values() for score in scores):
            score["error"] = None if math.isnan(score["error"]) else score["error"]
        named = {name: {**row._asdict(), "scores": plain[name]} for name, row in rows.items()}
        script.write_json(out / "table.json", {"trained_on": metrics["classes"], "rows": named})
    sys.stdout.write(text)
    return 0


main = script.program(__file__, __doc__, add_options, run)


if __name__ == "__main__":
    sys.exit(main())
