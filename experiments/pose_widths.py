"""Does the law decide how many poses are found, or the width at which it starts?

    python experiments/pose_widths.py -o docs/results/pose-widths.csv

The rounds start every law at one scale, 0.1 NDC, at which one law is twice as wide as another. Here
the nine symmetric laws, with the probabilistic sum, start at widths that are equal in a stated
sense: the distance between the quartiles, in NDC; and, as in the rounds, at the scale 0.1. The
scale falls to a thousandth of its start in each run. Of each object the first 96 of the 192 pairs
of round 3 are taken (of the airplane, which it does not have, those of seed 6). A row is written
when it is done, and what is there is not run again. About ten minutes of one core.

The column `found` has the pairs as bits of a hexadecimal number, the first pair highest, as in the
tables of the rounds. docs/make_rounds.py says what it comes to.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from dataclasses import replace
from pathlib import Path

from lab import script
from lab.report.claims import SYMMETRIC
from lab.studies.rounds import POSE, Block, PairsTask

# By object, the seed of its pairs.
SCENES = {"teapot": 4, "chair": 5, "airplane": 6}
WIDTHS = (0.04, 0.065, 0.1, 0.16, 0.25)
PAIRS, AT = 96, 0.1
HEAD = ("law", "tconorm", "object", "seed", "width", "scale", "found", "seconds")
ASSETS = Path(__file__).resolve().parents[1] / "assets"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the script."""
    parser.add_argument("--laws", nargs="+", default=SYMMETRIC, metavar="NAME")
    parser.add_argument("--objects", nargs="+", default=[*SCENES], choices=[*SCENES])
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.csv")


def unit_width(law: str) -> float:
    """The distance between the quartiles of a symmetric law at the scale 1."""
    from gendr import distributions

    return 2 * float(distributions.get(law).icdf(0.75))


def run(args: argparse.Namespace) -> None:
    """Do the runs that are missing; the table grows with each."""
    import gendr

    seen: set[tuple[str, ...]] = set()
    if args.output.exists():
        with args.output.open(newline="", encoding="utf-8") as file:
            seen = {(row["law"], row["object"], row["scale"]) for row in csv.DictReader(file)}
    else:
        args.output.write_text(",".join(HEAD) + "\n", encoding="utf-8")
    with args.output.open("a", newline="", encoding="utf-8") as file:
        for target in args.objects:
            seed = SCENES[target]
            task = Block("pose", 3, target, seed).make(ASSETS, {})
            assert isinstance(task, PairsTask)  # for the type checker
            for law in args.laws:
                unit = unit_width(law)
                for scale in sorted({AT, *(width / unit for width in WIDTHS)}):
                    if (law, target, f"{scale:.6g}") in seen:
                        continue
                    begun = time.process_time()
                    one = replace(task, protocol=replace(POSE[3], scales=(scale, scale / 1000)))
                    (found,) = one.search(
                        gendr.instance(f"{law}/probabilistic"), seed, first=PAIRS
                    )  # fmt: skip
                    hits = (found.error <= POSE[3].within).tolist()
                    bits = "".join(str(int(hit)) for hit in hits)
                    row = (
                        law, "probabilistic", target, seed, f"{scale * unit:.4g}", f"{scale:.6g}",
                        f"{int(bits, 2):0{PAIRS // 4}x}x{PAIRS}",
                        f"{time.process_time() - begun:.1f}",
                    )  # fmt: skip
                    csv.writer(file, lineterminator="\n").writerow(row)
                    file.flush()
                    print(*row[:6], sum(hits), row[-1], flush=True)


main = script.program(__file__, __doc__, add_options, run)

if __name__ == "__main__":
    sys.exit(main())
