"""Which ending of a training of splats makes the best opaque triangles, in equal time.

    python benchmarks/endings.py PHOTOS ...             # folders of photos with cameras
    python benchmarks/endings.py PHOTOS ... --docs      # and write the table

Every tenth photo is left out. All endings have the same processor time on one thread, so that other
programs do not matter; time of reading, of compiling and of looks at pictures is not counted.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import json
import math
import statistics
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from rows import measured_on

from gendr._common.vectors import summed
from gendr.kernels.threads import torch_on_one_thread
from gendr.losses import psnr
from gendr.photos.splatting import Photos, Splats, SplatSettings, fit_splats, load_photos, loop
from gendr.photos.splatting.hard import HardTraining
from gendr.photos.splatting.pictures import as_seen, hard_views
from gendr.photos.splatting.training import SplatTraining
from lab.pages import fill, table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results" / "splatting-endings.json"
# Of the schedule: triangles of less opacity vanish; by what the logits of opacities, and the
# scales, are multiplied in the end, and the learning rates.
LEAST, SHARP, CRISP, SLOWER = 0.3, 40.0, 0.2, 0.3
# Corners are joined that lie in one cell of a grid of so many sizes of triangles.
CELL = 0.5


class Schedule(SplatTraining):
    """Soft triangles whose opacities go to 1 or 0, edges become crisp, and colours even.

    As opacities and edges of Triangle Splatting+ (Held et al., 2025), without its Delaunay
    triangulation.
    """

    def _splats(self) -> Splats:
        v, p, middle = self._values, self.progress, math.log(LEAST / (1 - LEAST))
        logit = middle + SHARP**p * (v["opacity"] - middle)
        return self._like.with_tensors(
            vertices=v["vertices"],
            harmonics=torch.cat([v["base"], v["harmonics"] * (1 - p)], 1),
            opacity=logit.sigmoid(),
            scale=v["scale"].exp() * CRISP**p,
            background=v.get("background", self._like.background),
        )

    def _level(self) -> int:
        return 1


class Flat(HardTraining):
    """One colour for a triangle."""

    def _moved(self) -> None:
        super()._moved()
        colors = self._values["colors"].data
        colors.copy_(colors.mean(1, keepdim=True).expand_as(colors))


class Joined(HardTraining):
    """Corners that are near each other at the start stay one."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        corners = self._values["vertices"].detach().flatten(0, 1)
        cells = (corners / (CELL * self._size)).round().long()
        self._cell = torch.unique(cells, dim=0, return_inverse=True)[1]
        self._join()

    def _join(self) -> None:
        corners = self._values["vertices"].data
        flat = torch.cat([corners.flatten(0, 1), torch.ones_like(corners[..., 0]).view(-1, 1)], 1)
        total = summed(flat, self._cell, int(self._cell.max()) + 1)
        corners.copy_((total[:, :3] / total[:, 3:])[self._cell].view_as(corners))

    def _moved(self) -> None:
        super()._moved()
        self._join()


def endings(
    train: Photos, held_out: Photos, total: float, seed: int
) -> dict[str, tuple[float, int]]:
    """Of each ending the PSNR on photos held out, by 2 x 2 points of a pixel, and triangles."""
    settings = SplatSettings(budget=total, evaluate_every=1.0, seed=seed)
    settings = replace(settings, triangles=settings.count_for(math.prod(train.image_size)))
    found: dict[str, tuple[float, int]] = {}

    def cut(name: str, splats: Splats) -> None:
        solid = as_seen(splats[splats.opacity >= LEAST], train)
        images = hard_views(solid.to_mesh(), splats.behind(train.image_size), held_out.camera)
        found[name] = float(psnr(images, held_out.images).mean()), len(solid)
        print(name, found[name], flush=True)

    def soft(part: float, **options: Any) -> SplatTraining:
        return fit_splats(train, replace(settings, budget=part * total, **options))

    def hard(
        name: str, start: Splats, part: float, kind: type[HardTraining] = HardTraining,
        density: str = "mcmc",
    ) -> None:  # fmt: skip
        training = kind(train, replace(settings, budget=part * total, density=density), start)
        training.run(None, None)
        found[name] = float(training.psnr(held_out).mean()), len(training)
        print(name, found[name], flush=True)

    whole = soft(1.0)
    found["soft triangles, for comparison"] = float(whole.psnr(held_out).mean()), len(whole)
    print(found, flush=True)
    cut("soft, cut at an opacity", whole.splats())
    half = soft(0.5).splats()
    slower = replace(settings, density="none", rate=SLOWER, budget=0.5 * total)
    cut("half soft, half by schedule", Schedule(train, slower, half).run(None, None).splats())
    hard("half soft, half hard", half, 0.5)
    hard("the same without splitting", half, 0.5, density="none")
    hard("the same, corners shared", half, 0.5, Joined, "none")
    hard("the same, one colour a triangle", half, 0.5, Flat)
    quarter = Schedule(train, replace(slower, budget=0.25 * total), half).run(None, None)
    hard("half soft, a quarter by schedule, a quarter hard", quarter.splats(), 0.25)
    hard("a quarter soft, the rest hard", soft(0.25).splats(), 0.75)
    hard("three quarters soft, the rest hard", soft(0.75).splats(), 0.25)
    for name, options in (
        ("gaussian law", {"dist": "gaussian"}), ("cubic_hermite law", {"dist": "cubic_hermite"}),
        ("einstein joining", {"tconorm": "einstein"}), ("no harmonics", {"degree": 0}),
    ):  # fmt: skip
        hard(f"half soft with {name}, half hard", soft(0.5, **options).splats(), 0.5)
    return found


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """The table of the page: means over seeds."""
    scenes = list(dict.fromkeys(row["photos"] for row in rows))
    names = list(dict.fromkeys(name for row in rows for name in row["psnr"]))
    head, cells = ["ending", *(f"{scene}, dB" for scene in scenes)], []
    for name in names:
        each = [
            statistics.mean(row["psnr"][name] for row in rows if row["photos"] == scene)
            for scene in scenes
        ]
        cells.append([name, *(f"{x:.1f}" for x in each)])
    row = rows[0]
    seeds = len({row["seed"] for row in rows})
    sources = dict.fromkeys(f"{r['date']}, commit {r['commit']}, {r['machine']}" for r in rows)
    about = (
        f"Shorter side {row['size']}, {row['total']:g} s of a processor for each, "
        f"{seeds} seed{'s' * (seeds > 1)}; {'; '.join(sources)}."
    )
    return [*table(head, cells, left=1), "", about]


def main() -> None:
    """Train, print, and write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", nargs="+", help="folders of photos with cameras")
    parser.add_argument("--size", type=int, default=100, help="shorter side")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a processor, for each")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--docs", action="store_true", help="write the table of docs/splatting.md")
    args = parser.parse_args()
    loop.time = SimpleNamespace(perf_counter=time.process_time)  # pyright: ignore[reportAttributeAccessIssue]
    rows: list[dict[str, Any]] = []
    with torch_on_one_thread(1):
        for folder in args.photos:
            photos = load_photos(folder, size=args.size)
            every = min(10, len(photos) // 2)
            train, held_out = photos.split(every, every // 2)
            if photos.alpha is None:
                train = train.before_backdrop() or train
            warm = fit_splats(train, SplatSettings(steps=2))
            HardTraining(train, SplatSettings(steps=1), warm.splats()).run(None, None)
            for seed in range(args.seeds):
                found = endings(train, held_out, args.seconds, seed)
                rows.append({
                    "photos": Path(folder).resolve().name, "size": args.size,
                    "total": args.seconds, "seed": seed, **measured_on(),
                    "psnr": {k: v[0] for k, v in found.items()},
                    "triangles": {k: v[1] for k, v in found.items()},
                })  # fmt: skip
                print("\n".join(lines(rows)), flush=True)
                if args.docs:
                    RESULTS.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
                    fill(ROOT / "docs" / "splatting.md", "splatting-endings", lines(rows))


if __name__ == "__main__":
    main()
