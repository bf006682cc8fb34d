"""Which distribution, and which T-conorm, for view synthesis by splatting soft triangles?

    python experiments/splatting.py PHOTOS ... --out docs/results --docs

In stages, on every scene; within a stage all else is equal: the number of triangles, the start, the
order of the photos. Every tenth photo is left out; the score is the mean PSNR on these.

1. Of each distribution, with alpha blending (the probabilistic sum), scale and then learning rate
   are searched with a third of the steps of one seed.
2. Each distribution with what was found, three seeds: at equal steps, and in equal time. At equal
   steps again with larger rates, where the largest was the best; they are taken where they are
   better with all steps too.
3. The best distributions with all T-conorms, three seeds, at equal steps, with what 1 found.
   Larger rates and the last of these distributions may be left to some of the scenes (`--further`).
4. How the lead over the published window depends on what is learnt and on the unit of the scale; on
   the number of triangles and the size of the photos.
5. The best distributions and the published window again at a size that people use: larger photos,
   more triangles, more time, with the scales and rates of before.

A run is a row of splatting.csv, written when it is done; what is there is not run again, so the
command may be stopped in any way and given again. With `--show` nothing is run, and the tables hold
what is complete. `--docs` writes all tables to docs/results/splatting-study.md, and a summary into
the page. Processes have one thread each; equal time is
that of the processor, so that other work beside it does no harm.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import multiprocessing
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from lab.pages import fill, table
from lab.report.inference import Crossed

PAGE = Path(__file__).resolve().parents[1] / "docs" / "splatting.md"
TABLES = PAGE.parent / "results" / "splatting-study.md"
# The published window: the power-function distribution with a shape of each triangle and the
# inradius as scale.
WINDOW = "power(shape=1)"
DISTRIBUTIONS = (
    "uniform", WINDOW, "cubic_hermite", "wigner_semicircle", "gaussian", "logistic", "laplace",
    "cauchy", "exponential", "exponential.reversed", "gumbel_max", "gumbel_min",
)  # fmt: skip
TCONORMS = (
    "probabilistic", "max", "einstein", "hamacher(p=0.5)", "frank(p=0.5)", "yager(p=2)",
    "aczel_alsina(p=2)", "dombi(p=1)", "schweizer_sklar(p=-0.5)", "joe(p=2)",
)  # fmt: skip
SCALES, RATES, SEEDS = (0.25, 0.5, 1.0), (0.6, 1.0, 1.6), (0, 1, 2)
# Tried in this order while the largest so far is the best.
LARGER_RATES = (2.5, 4.0)
# Distributions that go on to larger rates, to all T-conorms, and to a size that people use.
CLIMB, BEST, AGAIN = 6, 5, 3
# How many times as long, for photos of how many times the side, with as many times the triangles.
LARGER, LONGER = 4, 10


@dataclass(frozen=True)
class Run:
    """What tells a training from others.

    Attributes:
        photos: the name of the scene.
        side: of the photos, pixels.
        triangles: in the end.
        steps: 0 if the time is equal.
        budget: seconds, 0 if the steps are.
        dist: and the next, as gendr names them.
        tconorm: see dist.
        unit: of the scale.
        scale: at the start.
        learnt: whether each triangle learns its own.
        rate: a factor of the learning rates.
        seed: of the start and of the order of the photos.
    """

    photos: str
    side: int
    triangles: int
    steps: int
    budget: float
    dist: str
    tconorm: str = "probabilistic"
    unit: str = "inradius"
    scale: float = 0.5
    learnt: bool = True
    rate: float = 1.0
    seed: int = 0


KEYS = tuple(f.name for f in fields(Run))
COLUMNS = (*KEYS, "psnr", "seconds", "done")


def text(run: Run) -> tuple[str, ...]:
    """A run as the cells of its row."""
    return tuple(f"{v:g}" if isinstance(v, float) else str(v) for v in asdict(run).values())


_photos: dict[tuple[str, int], Any] = {}


def train(folders: dict[str, str], run: Run) -> tuple[Run, list[str]]:
    """Do a run: its score, the seconds of its steps, and their number."""
    import gendr
    from gendr.photos.splatting import load_photos
    from gendr.photos.splatting import training as module
    from gendr.photos.splatting.settings import SplatSettings
    from gendr.photos.splatting.training import fit_splats, start_from

    torch.set_num_threads(1)
    gendr.set_num_threads(1)
    module.time = SimpleNamespace(perf_counter=time.process_time)  # the clock of budgets
    key = run.photos, run.side
    if key not in _photos:
        _photos[key] = load_photos(folders[run.photos], size=run.side).split()
    photos, held_out = _photos[key]
    settings = SplatSettings(
        dist=run.dist, tconorm=run.tconorm, unit=run.unit, scale=run.scale, seed=run.seed,
        learn_scale=run.learnt, rate=run.rate, triangles=run.triangles, evaluate_every=1.0,
        shape=1.0 if run.dist == WINDOW else None, steps=run.steps or 1, budget=run.budget or None,
    )  # fmt: skip
    training = fit_splats(
        photos, settings, init=start_from(photos, settings), held_out=held_out
    )  # fmt: skip
    score = training.history[-1]["psnr"]
    return run, [f"{score:.3f}", f"{training.seconds:.1f}", str(training.step)]


class Table:
    """The runs of a file, those of earlier sessions included."""

    def __init__(self, path: Path, folders: dict[str, str], workers: int, *, runs: bool) -> None:
        self.runs = runs
        self.path, self.folders, self.workers = path, folders, workers
        path.parent.mkdir(parents=True, exist_ok=True)
        self.pool: Any = None
        self.rows: dict[tuple[str, ...], float] = {}
        if path.is_file():
            with path.open(newline="") as lines:
                for row in csv.DictReader(lines):
                    self.rows[tuple(row[name] for name in KEYS)] = float(row["psnr"])
        else:
            path.write_text(",".join(COLUMNS) + "\n")

    def __getitem__(self, run: Run) -> float:
        return self.rows[text(run)]

    def have(self, runs: Iterable[Run]) -> bool:
        """Whether all of them are done."""
        return all(text(run) in self.rows for run in runs)

    def do(self, name: str, runs: Iterable[Run]) -> bool:
        """Do the runs that are missing; return whether all are done."""
        missing = [run for run in dict.fromkeys(runs) if text(run) not in self.rows]
        if not missing or not self.runs:
            return not missing
        if self.pool is None:
            context = multiprocessing.get_context("spawn")
            self.pool = context.Pool(self.workers, signal.signal, (signal.SIGINT, signal.SIG_IGN))
        with self.path.open("a", newline="") as lines:
            found = self.pool.imap_unordered(partial(train, self.folders), missing)
            for run, cells in tqdm(found, name, len(missing), unit="run"):
                csv.writer(lines).writerow([*text(run), *cells])
                lines.flush()
                self.rows[text(run)] = float(cells[0])
        return True


def searched(rows: Table, starts: Sequence[Run]) -> list[Run]:
    """The runs with the scale, and then the rate, that few steps of the first seed found best."""

    def best(runs: Sequence[Run], options: Callable[[Run], list[Run]], name: str) -> list[Run]:
        few = [[replace(r, steps=r.steps // 3) for r in options(run)] for run in runs]
        rows.do(name, [run for several in few for run in several])
        top = [max(several, key=rows.__getitem__) for several in few]
        return [replace(t, steps=run.steps) for t, run in zip(top, runs, strict=True)]

    def scales(run: Run) -> list[Run]:
        pixels = 2.0 if run.unit == "px" else 1.0
        return [replace(run, scale=pixels * scale) for scale in SCALES]

    found = best(starts, scales, "scales")
    return best(found, lambda run: [replace(run, rate=rate) for rate in RATES], "rates")


def climbed(rows: Table, found: Sequence[Run]) -> list[Run]:
    """The runs with larger rates, as long as few steps of the first seed get better by them."""
    best, last = list(found), RATES[-1]
    for rate in LARGER_RATES:
        at_end = [i for i, run in enumerate(best) if run.rate == last]
        few = [replace(best[i], steps=best[i].steps // 3) for i in at_end]
        if not rows.do(f"rate {rate:g}", [replace(run, rate=rate) for run in few]):
            break
        for i, run in zip(at_end, few, strict=True):
            if rows[replace(run, rate=rate)] > rows[run]:
                best[i] = replace(best[i], rate=rate)
        last = rate
    return best


def by_rate(rows: Table, runs: Sequence[Run]) -> list[str]:
    """A table of what few steps of the first seed give with each rate that was tried."""
    rates = (*RATES, *LARGER_RATES)
    cells = []
    for run in runs:
        few = [replace(run, steps=run.steps // 3, rate=rate) for rate in rates]
        scores = [f"{rows[each]:.2f}" if rows.have([each]) else "" for each in few]
        cells.append([run.dist, run.photos, f"{run.scale:g}", *scores])
    return table(
        ["distribution", "photos", "scale", *(f"rate {rate:g}" for rate in rates)], cells, left=2
    )


def over_seeds(run: Run) -> list[Run]:
    """A run with every seed."""
    return [replace(run, seed=seed) for seed in SEEDS]


def mean_score(rows: Table, run: Run) -> float:
    """The mean PSNR of a run over its seeds."""
    return statistics.mean(rows[each] for each in over_seeds(run))


def differences(
    rows: Table, scenes: Sequence[str], one: dict[str, Run], other: dict[str, Run]
) -> tuple[float, float]:
    """How much better `one` is than `other`, dB: the mean over scenes, and its error.

    Seeds are paired. The effect may differ by scene: with several, the error is that of the mean of
    their means, which holds the variation from seed to seed too (of a balanced design this is what
    a mixed model with random scenes gives); with one, that over its seeds.
    """
    means, all_of = [], []
    for scene in scenes:
        pairs = zip(over_seeds(one[scene]), over_seeds(other[scene]), strict=True)
        found = [rows[a] - rows[b] for a, b in pairs]
        means.append(statistics.mean(found))
        all_of += found
    values = means if len(means) > 1 else all_of
    return statistics.mean(values), statistics.stdev(values) / math.sqrt(len(values))


def mixed_line(
    rows: Table, scenes: Sequence[str], found: Sequence[dict[str, list[Run]]], few: int
) -> str:
    """What `Crossed` finds of treatments, best first, whose runs of each scene are given, in words.

    Of all, and of the first few, whose effects may vary less.
    """
    scores = np.array([[[rows[run] for run in runs[s]] for s in scenes] for runs in found])
    said = []
    for some, whose in ((scores, "all"), (scores[:few], f"the first {few} alone")):
        model = Crossed.of(some)
        said.append(
            f"of {whose} ± {math.sqrt(2) * model.error:.2f} dB on {model.freedom} degrees of "
            f"freedom (what the effect varies by from scene to scene: {model.of_scene:.2f} dB; "
            f"from run to run: {model.of_draw:.2f} dB)"
        )
    return (
        "A mixed model, with what is compared fixed and scene, its effect on that and seed random, "
        f"gives every difference of two the same error: {'; '.join(said)}."
    )


def ranking(
    rows: Table, scenes: Sequence[str], found: dict[str, dict[str, Run]], first: str, what: str
) -> tuple[list[str], list[tuple[str, float, float]]]:
    """A table of what was compared, best first, and the differences from `first`."""
    effects = []
    for name in found:
        gap = (0.0, 0.0) if name == first else differences(rows, scenes, found[name], found[first])
        effects.append((name, *gap))
    effects.sort(key=lambda each: -each[1])
    cells = []
    for name, gap, error in effects:
        means = [mean_score(rows, found[name][s]) for s in scenes]
        setting = ", ".join(f"{found[name][s].scale:g} / {found[name][s].rate:g}" for s in scenes)
        cells.append([name, setting, *(f"{m:.2f}" for m in means),
                      "" if name == first else f"{gap:+.2f} ± {error:.2f}"])  # fmt: skip
    head = [what, "scale / rate", *(f"{s}, dB" for s in scenes), f"less {first}"]
    return table(head, cells, left=2), effects


def is_large(folder: str, side: int) -> bool:
    """Whether all photos have such a shorter side at least."""
    from gendr.photos.views import view_sizes

    return min(map(min, view_sizes(folder))) >= side


def with_tconorms(
    rows: Table, scenes: Sequence[str], dists: dict[str, dict[str, Run]], names: Sequence[str]
) -> tuple[list[str], list[tuple[str, float, float]]]:
    """What T-conorms do where all is run, less alpha blending: lines, and effects."""
    families = {
        dist: {name: {s: replace(runs[s], tconorm=name) for s in scenes} for name in names}
        for dist, runs in dists.items()
    }
    complete = []
    for dist, family in families.items():
        several = [run for runs in family.values() for run in runs.values()]
        if rows.do(f"T-conorms of {dist}", [each for run in several for each in over_seeds(run)]):
            complete.append(dist)
    if len(complete) < 2:
        return [], []
    effects = []
    for name in names[1:]:
        gaps = [
            differences(rows, scenes, families[dist][name], families[dist][names[0]])[0]
            for dist in complete
        ]
        error = statistics.stdev(gaps) / math.sqrt(len(gaps))
        effects.append((name, statistics.mean(gaps), error))
    effects.sort(key=lambda each: -each[1])
    runs = [
        {s: [e for dist in complete for e in over_seeds(families[dist][name][s])] for s in scenes}
        for name in (names[0], *(name for name, _, _ in effects))
    ]
    lines = [
        "", f"T-conorms with {', '.join(complete)} on {', '.join(scenes)}, less alpha blending; ± "
        "is over these distributions:", "", *gaps_table(effects, ["T-conorm", "dB"]),
        "", mixed_line(rows, scenes, runs, CLIMB),
    ]  # fmt: skip
    return lines, effects


def gaps_table(rows: Sequence[tuple[str, float, float]], head: list[str]) -> list[str]:
    """A table of names, differences and errors."""
    return table(head, [[name, f"{m:+.2f} ± {e:.2f}"] for name, m, e in rows], left=1)


def study(args: argparse.Namespace, rows: Table) -> tuple[list[str], dict[str, Any]]:
    """All stages: the lines of the page, and the effects for its picture."""
    scenes = list(rows.folders)
    start = Run("", args.side, args.triangles, args.steps, 0.0, "")
    pairs = [(dist, scene) for dist in DISTRIBUTIONS for scene in scenes]
    tuned = searched(rows, [replace(start, photos=scene, dist=dist) for dist, scene in pairs])
    dists: dict[str, dict[str, Run]] = {dist: {} for dist in DISTRIBUTIONS}
    for (dist, scene), run in zip(pairs, tuned, strict=True):
        dists[dist][scene] = run
    timed = {
        dist: {s: replace(run, steps=0, budget=args.seconds) for s, run in runs.items()}
        for dist, runs in dists.items()
    }
    several = [run for found in (dists, timed) for runs in found.values() for run in runs.values()]
    rows.do("distributions", [each for run in several for each in over_seeds(run)])
    _, steps = ranking(rows, scenes, dists, "uniform", "distribution")
    by_time, seconds = ranking(rows, scenes, timed, "uniform", "distribution")
    chosen = [name for name, _, _ in steps[:BEST]]

    larger = {dist: dict(runs) for dist, runs in dists.items()}
    first = [name for name, _, _ in steps[:CLIMB]]
    at = [i for i, (dist, scene) in enumerate(pairs) if dist in first and scene in args.further]
    for i, run in zip(at, climbed(rows, [tuned[i] for i in at]), strict=True):
        larger[pairs[i][0]][pairs[i][1]] = run
    several = [run for runs in larger.values() for run in runs.values()]
    if not rows.do("larger rates", [each for run in several for each in over_seeds(run)]):
        larger = dists
    # What few steps find best may be too large for all of them.
    for dist, runs in larger.items():
        for scene, run in runs.items():
            runs[scene] = max((dists[dist][scene], run), key=lambda each: mean_score(rows, each))
    by_steps, steps = ranking(rows, scenes, larger, "uniform", "distribution")
    seeds = [{s: over_seeds(run) for s, run in larger[name].items()} for name, _, _ in steps]
    model = mixed_line(rows, scenes, seeds, CLIMB)

    joined, tconorms = [], []
    for names, over, which in (
        (TCONORMS[:-1], scenes, chosen[:AGAIN]), (TCONORMS, args.further, chosen)
    ):  # fmt: skip
        found, effects = with_tconorms(rows, over, {dist: dists[dist] for dist in which}, names)
        joined += found
        tconorms = effects or tconorms

    forms = {
        "scale learnt, in inradii": {},
        "scale not learnt": {"learnt": False},
        "scale in pixels": {"unit": "px"},
        "a third of the triangles": {"triangles": args.triangles // 3},
        "three times the triangles": {"triangles": args.triangles * 3},
        "photos of twice the size": {"side": 2 * args.side},
    }
    lead = []
    for name, change in forms.items():
        runs = {}
        for dist in ("uniform", WINDOW):
            varied = [replace(dists[dist][s], **change) for s in scenes]
            if "unit" in change:
                varied = searched(rows, varied)
            runs[dist] = dict(zip(scenes, varied, strict=True))
        several = [run for each in runs.values() for run in each.values()]
        rows.do(name, [each for run in several for each in over_seeds(run)])
        lead.append((name, *differences(rows, scenes, runs["uniform"], runs[WINDOW])))

    again = list(dict.fromkeys(["uniform", *(name for name, _, _ in seconds[:AGAIN]), WINDOW]))
    fit = [s for s, folder in rows.folders.items() if is_large(folder, LARGER * args.side)]
    large = {
        dist: {
            s: replace(run, side=LARGER * run.side, triangles=LARGER * run.triangles,
                       budget=LONGER * run.budget)
            for s, run in timed[dist].items() if s in fit
        }
        for dist in again if fit
    }  # fmt: skip
    rows.do("again", [e for runs in large.values() for r in runs.values() for e in over_seeds(r)])
    by_large, at_large = ranking(rows, fit, large, "uniform", "distribution")

    lines = [
        f"{', '.join(scenes)}; {args.side}², {args.triangles:,} triangles, {len(SEEDS)} seeds; "
        f"± is the error of the mean over {'scenes' if len(scenes) > 1 else 'seeds'}.",
        "", f"At {args.steps:,} steps each:", "", *by_steps, "", model,
        "", f"The search of rates, PSNR in dB after {args.steps // 3} steps of one seed:", "",
        *by_rate(rows, [tuned[i] for i in at]),
        "", f"In {args.seconds:g} s of one core each:", "", *by_time,
        *joined,
        "", "The lead of uniform over the published window:", "", *gaps_table(lead, ["", "dB"]),
        "", f"The best in equal time again, at {LARGER * args.side}², with "
        f"{LARGER * args.triangles:,} triangles, in {LONGER * args.seconds:g} s:", "", *by_large,
    ]  # fmt: skip
    effects = {"steps": steps, "seconds": seconds, "tconorms": tconorms, "lead": lead,
               "larger": at_large}  # fmt: skip
    return lines, effects


def summary(effects: dict[str, Any]) -> list[str]:
    """Of the tables what the page shows: differences from uniform, and from alpha blending."""

    def cell(gap: float, error: float) -> str:
        return f"{gap:+.2f} ± {error:.2f}" if error else "0"

    timed = {name: cell(gap, error) for name, gap, error in effects["seconds"]}
    dists = [[name, cell(gap, error), timed[name]] for name, gap, error in effects["steps"]]
    return [
        *table(
            ["distribution, less `uniform`", "equal steps, dB", "equal time, dB"], dists, left=1,
        ),
        "", *gaps_table(effects["tconorms"], ["T-conorm, less alpha blending", "dB"]),
    ]  # fmt: skip


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", nargs="+", help="folders of photos with cameras")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--side", type=int, default=100)
    parser.add_argument("--triangles", type=int, default=3000)
    parser.add_argument("--steps", type=int, default=450)
    parser.add_argument("--seconds", type=float, default=9.0, help="of runs in equal time")
    parser.add_argument("--workers", type=int, default=2, help="processes of one thread")
    parser.add_argument("--further", nargs="+", metavar="NAME", help="all by default; see 3")
    parser.add_argument("--show", action="store_true", help="run nothing")
    parser.add_argument("--docs", action="store_true", help="write docs/splatting.md")
    args = parser.parse_args()
    folders = {Path(path).name: path for path in args.photos}
    if len(folders) < len(args.photos):
        parser.error("the folders must have different names")
    args.further = args.further or list(folders)
    rows = Table(args.out / "splatting.csv", folders, args.workers, runs=not args.show)
    lines, effects = study(args, rows)
    sys.stdout.write("\n".join(lines) + "\n")
    (args.out / "splatting-effects.json").write_text(json.dumps(effects, indent=1) + "\n")
    if args.docs:
        TABLES.write_text(
            "\n".join(["# Distributions and T-conorms for splatting", "", *lines]) + "\n"
        )
        fill(PAGE, "splatting-study", summary(effects))


if __name__ == "__main__":
    main()
