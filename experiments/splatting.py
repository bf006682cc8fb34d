"""Which law, and which T-conorm, for view synthesis by splatting soft triangles?

python experiments/splatting.py PHOTOS --out docs/results --docs

All laws with alpha blending (the probabilistic sum) first: the scale of each is searched with few
steps of one seed, then trained with three seeds. Then the law that did best with all T-conorms. All
else is equal: the number of triangles and of steps, the start, the learning rates, the order of the
photos. Every tenth photo is left out; the score is the mean PSNR on these.

Each run is a row of splatting.csv, written when it is done; what is there is not run again.
"""

from __future__ import annotations

import argparse
import csv
import platform
import statistics
import sys
from pathlib import Path

import torch
from tqdm import tqdm

import gendr
from gendr.splatting import load_photos
from gendr.splatting.settings import SplatSettings
from gendr.splatting.training import SplatTraining, start_from
from lab.pages import fill

# The published window is the power law with a shape of each triangle and the inradius as scale.
LAWS = (
    "power(shape=1)", "uniform", "cubic_hermite", "wigner_semicircle", "gaussian", "logistic",
    "laplace", "cauchy", "exponential.reversed",
)  # fmt: skip
TCONORMS = ("probabilistic", "max", "einstein", "hamacher(p=0.1)", "yager(p=2)", "frank(p=2)")
SCALES, SEEDS = (0.25, 0.5, 1.0), (0, 1, 2)
COLUMNS = (
    "photos", "side", "triangles", "steps", "law", "tconorm", "scale", "seed", "psnr", "seconds",
)  # fmt: skip


class Study:
    """The runs of a table, those of an earlier session included."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.file = args, Path(args.out) / "splatting.csv"
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.rows: dict[tuple[str, ...], dict[str, str]] = {}
        if self.file.is_file():
            with self.file.open(newline="") as lines:
                for row in csv.DictReader(lines):
                    self.rows[self.key(row)] = row
        self.photos = load_photos(args.photos, size=args.side).split()
        self.bar = tqdm(desc="splatting", unit="run")

    @staticmethod
    def key(row: dict[str, str]) -> tuple[str, ...]:
        """What tells runs apart."""
        return tuple(row[name] for name in COLUMNS[:-2])

    def psnr(self, law: str, tconorm: str, scale: float, seed: int, steps: int) -> float:
        """The score of a run, which is done if it is not in the table."""
        args = self.args
        values = (
            Path(args.photos).name, args.side, args.triangles, steps, law, tconorm, scale, seed,
        )  # fmt: skip
        row: dict[str, str] = dict(zip(COLUMNS, map(str, values), strict=False))
        self.bar.update()
        if self.key(row) not in self.rows:
            train, held_out = self.photos
            settings = SplatSettings(
                dist=law, tconorm=tconorm, scale=scale, seed=seed, steps=steps, degree=1,
                triangles=args.triangles, shape=1.0 if law.startswith("power") else None,
                evaluate_every=1.0,
            )  # fmt: skip
            training = SplatTraining(train, settings, start_from(train, settings), held_out)
            while not training.is_over:
                training.advance()
            row["psnr"] = f"{training.history[-1]['psnr']:.3f}"
            row["seconds"] = f"{training.seconds:.1f}"
            self.rows[self.key(row)] = row
            is_new = not self.file.is_file()
            with self.file.open("a", newline="") as lines:
                writer = csv.DictWriter(lines, COLUMNS)
                if is_new:
                    writer.writeheader()
                writer.writerow(row)
        return float(self.rows[self.key(row)]["psnr"])

    def scores(self, law: str, tconorm: str) -> tuple[float, list[float]]:
        """The best scale, and the scores of all seeds with it."""
        few = self.args.steps // 3
        found = {scale: self.psnr(law, tconorm, scale, SEEDS[0], few) for scale in SCALES}
        scale = max(found, key=found.__getitem__)
        return scale, [self.psnr(law, tconorm, scale, seed, self.args.steps) for seed in SEEDS]


def line(name: str, scale: float, scores: list[float], best: list[float]) -> str:
    """A row: mean, its error over seeds, and the mean difference from the best with its error."""
    root = len(scores) ** 0.5
    differences = [a - b for a, b in zip(scores, best, strict=True)]
    error = statistics.stdev(differences) / root
    gap = "" if scores == best else f"{statistics.mean(differences):+.2f} ± {error:.2f}"
    mean, own = statistics.mean(scores), statistics.stdev(scores) / root
    return f"| {name} | {scale:g} | {mean:.2f} ± {own:.2f} | {gap} |"


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", help="a folder of photos with cameras")
    parser.add_argument("--out", default="docs/results")
    parser.add_argument("--side", type=int, default=100)
    parser.add_argument("--triangles", type=int, default=3000)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--docs", action="store_true", help="write docs/splatting.md")
    parser.add_argument("--threads", type=int, default=None)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.threads:
        gendr.set_num_threads(args.threads)
    study = Study(args)
    lines = [
        f"{Path(args.photos).name}, {args.side}², {args.triangles} triangles, {args.steps} steps, "
        f"{len(SEEDS)} seeds; {platform.processor() or platform.machine()}, "
        f"torch {torch.__version__}.",
    ]
    laws = {law: study.scores(law, "probabilistic") for law in LAWS}
    best = max(laws, key=lambda law: statistics.mean(laws[law][1]))
    families = {name: study.scores(best, name) for name in TCONORMS}
    first = max(families, key=lambda name: statistics.mean(families[name][1]))
    head = "| {} | scale | PSNR, dB | less the first |\n|---|---:|---:|---:|"
    for what, found, top in (("law", laws, best), ("T-conorm", families, first)):
        lines += ["", head.format(what)]
        ranked = sorted(found, key=lambda name: -statistics.mean(found[name][1]))
        lines += [line(name, *found[name], found[top][1]) for name in ranked]
    study.bar.close()
    sys.stdout.write("\n".join(lines) + "\n")
    if args.docs:
        page = Path(__file__).resolve().parents[1] / "docs" / "splatting.md"
        fill(page, "splatting-study", lines)


if __name__ == "__main__":
    main()
