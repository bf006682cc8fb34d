"""Which ending of a training of splats makes the best opaque triangles, in equal time.

    python benchmarks/endings.py FOLDER ...          # and goes on, if ended
    python benchmarks/endings.py FOLDER ... --docs   # and writes the table

FOLDER holds photos with cameras, of which every tenth is left out, or every fifth if there are less
than twenty. All endings have the same processor time on one thread, so that other programs do not
matter; time of reading, of compiling and of looks at pictures is not counted. --mesh adds starts
from a mesh of one FOLDER. What is measured is kept in docs/results/splatting-endings.json, and not
measured again.

The recipe of Triangle Splatting+ (Held et al., 2025, section 3, and its published settings) is
written as a setting of this training. From it are: faces of a Delaunay triangulation at the start,
corners that are shared, the window of a distance over the inradius to a power that goes from 1 to
1e-4, opacity at 0.28 with a floor that rises from 0.1 after a sixth of the training to 0.9999 after
0.8, dropping below 0.235 and 0.01 more every sixtieth part after that, splitting until 0.43, and
2 x 2 points a pixel after two thirds. Ours are: the loss, the rates, one colour and one opacity a
triangle, splitting in halves in place of quarters, and no dropping by the weight in pictures.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from rows import measured_on
from scipy.spatial import Delaunay
from torch import Tensor

from gendr._common.vectors import summed
from gendr.kernels.threads import torch_on_one_thread
from gendr.losses import psnr
from gendr.mesh import Mesh
from gendr.photos import load_points
from gendr.photos.splatting import Splats, SplatSettings, load_photos, loop
from gendr.photos.splatting.hard import HardTraining
from gendr.photos.splatting.loop import Training
from gendr.photos.splatting.pictures import hard_views, with_mean_colors
from gendr.photos.splatting.training import SplatTraining, start_from, with_background
from lab.pages import fill, table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results" / "splatting-endings.json"
# Of the schedule: triangles of less opacity vanish; by what the logits of opacities, and the
# scales, are multiplied in the end, and the learning rates.
LEAST, SHARP, CRISP, SLOWER = 0.3, 40.0, 0.2, 0.3
# Of the recipe, in parts of the training: where the floor of opacities begins and ends, where
# splitting ends, and four times the points begin; what is dropped, and what that grows by;
# triangles in the end for each point of the triangulation, which has half as many at the start;
# steps between two rounds.
FLOOR, UNTIL, FINER = (1 / 6, 0.8), 0.43, 2 / 3
DROPPED, FACES, OFTEN = (0.235, 0.6), 27, 20
USUAL, COMPARISON = "half uniform, half hard", "soft triangles, for comparison"


class Schedule(SplatTraining):
    """Soft triangles whose opacities go to 1 or 0, edges become crisp, and colours even."""

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


class Shared(Training):
    """Corners of one number are one point: so are their gradients, and what becomes of them."""

    _point: Tensor

    def _joined(self, values: Tensor) -> Tensor:
        """Each corner at the mean of those of its number [N, 3, 3]."""
        flat = torch.cat([values.flatten(0, 1), torch.ones_like(values[..., 0]).view(-1, 1)], 1)
        total = summed(flat, self._point.flatten(), int(self._point.max()) + 1)
        return (total[:, :3] / total[:, 3:])[self._point]

    def _look(self) -> None:
        super()._look()
        corners = self._values["vertices"]
        corners.grad = self._joined(corners.grad)  # pyright: ignore[reportArgumentType]

    def _moved(self) -> None:
        super()._moved()
        corners = self._values["vertices"].data
        corners.copy_(self._joined(corners))

    def _split(self, live: Tensor, chosen: Tensor, cornered: tuple[str, ...]) -> Tensor:
        points, corners = self._point[live], self._values["vertices"].data[live[chosen]]
        longest = (corners - corners.roll(-1, 1)).square().sum(-1).argmax(1)
        a, b, c = points[chosen].gather(1, (longest[:, None] + torch.arange(3)) % 3).unbind(1)
        edges = torch.stack([torch.minimum(a, b), torch.maximum(a, b)], 1)
        middle = int(self._point.max()) + 1 + torch.unique(edges, dim=0, return_inverse=True)[1]
        halves = super()._split(live, chosen, cornered)
        self._point = torch.cat([points, points[chosen]])
        self._point[halves[0]] = torch.stack([a, middle, c], 1)
        self._point[halves[1]] = torch.stack([middle, b, c], 1)
        return halves


class SharedHard(Shared, HardTraining):
    """Opaque triangles, of which corners are one that are in one cell of a grid at the start.

    Attributes:
        cell: its size, in sizes of triangles.
    """

    cell = 0.5

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        corners = self._values["vertices"].detach()
        cells = (corners.flatten(0, 1) / (self.cell * self._size)).round().long()
        self._point = torch.unique(cells, dim=0, return_inverse=True)[1].view(-1, 3)


class MeshHard(SharedHard):
    """Opaque triangles of a mesh, whose corners are those of the mesh."""

    cell = 1e-3


class Recipe(SplatTraining):
    """That of Triangle Splatting+, as the text above has it, with corners of each triangle."""

    @property
    def _opacity(self) -> Tensor:
        part = (self.progress - FLOOR[0]) / (FLOOR[1] - FLOOR[0])
        floor = 0.0 if part < 0 else 0.1 + 0.8999 * min(1.0, part)
        return floor + (1 - floor) * self._values["opacity"].sigmoid()

    def _splats(self) -> Splats:
        v, power = self._values, max(1e-4, 1 - self.progress)
        return self._like.with_tensors(
            vertices=v["vertices"], harmonics=v["base"], opacity=self._opacity,
            scale=torch.ones_like(v["opacity"]), shape=torch.full_like(v["opacity"], power),
            background=v.get("background", self._like.background),
        )  # fmt: skip

    def _error(self) -> Tensor:
        i = int(torch.randint(len(self.photos), (), generator=self._generator))
        photo, fine = self._photo(1, i), 2 if self.progress >= FINER else 1
        size = fine * photo.shape[1], fine * photo.shape[2]
        image, _ = self._splats().render(self._cameras[i], size, bound=1e-3)
        return F.avg_pool2d(image, fine)[0] - photo

    @torch.no_grad()
    def _renew(self, progress: float) -> None:
        opacity, after = self._opacity, max(0.0, progress - FLOOR[0])
        live = (opacity > (DROPPED[0] + DROPPED[1] * after) * (after > 0)).nonzero()[:, 0]
        wanted = int(self._first + (self._most - self._first) * progress / UNTIL)
        count = min(wanted - len(live), len(live)) if progress < UNTIL else 0
        self._split(live, self._draw(opacity[live], count), ("vertices",))
        self._pull = opacity.new_zeros(len(self))


class SharedRecipe(Shared, Recipe):
    """The same with corners that are shared."""


def connected(start: Splats, count: int) -> tuple[Splats, Tensor]:
    """Half as many faces of a Delaunay triangulation, about, and the numbers of their corners."""
    some = start[: count // FACES]  # they are in the order of chance
    points = some.vertices.mean(1)
    each = torch.from_numpy(Delaunay(points.double().numpy()).simplices).long().sort(1).values
    sides = [each[:, [i for i in range(4) if i != k]] for k in range(4)]
    faces = torch.unique(torch.cat(sides), dim=0)
    opacity = torch.full((len(faces),), 0.28)
    return Splats(
        points[faces], some.harmonics[faces, :1].mean(1), opacity, torch.ones_like(opacity),
        torch.ones_like(opacity), dist="power", background=start.background, origin=start.origin,
    ), faces  # fmt: skip


Ending = tuple[str, float, int]


class Endings:
    """The endings of one scene and seed, in groups that share a beginning.

    Each is its name, PSNR in dB on photos held out, and how many triangles there are.
    """

    def __init__(
        self, folder: str, size: int, total: float, seed: int, mesh: str | None = None
    ) -> None:
        photos = load_photos(folder, size=size)
        every = min(10, len(photos) // 2)
        train, self.held_out = photos.split(every, every // 2)
        settings = SplatSettings(budget=total, evaluate_every=1.0, seed=seed)
        settings = replace(settings, triangles=settings.count_for(math.prod(train.image_size)))
        self.train, self.settings = with_background(train, settings)
        self.points = load_points(folder, origin=photos.camera.origin)
        self.mesh = None if mesh is None else Mesh.load(mesh)

    def groups(self) -> dict[str, Callable[[], Iterator[Ending]]]:
        """What makes the endings of each group."""
        found: dict[str, Callable[[], Iterator[Ending]]] = {"soft": self.soft}
        for name, options in (
            ("uniform", {}), ("cubic_hermite", {"dist": "cubic_hermite"}),
            ("gaussian", {"dist": "gaussian"}), ("einstein", {"tconorm": "einstein"}),
        ):  # fmt: skip
            found[name] = partial(self.halves, name, **options)
        found |= {"recipe": partial(self.recipe, False), "shared": partial(self.recipe, True)}
        return found | ({} if self.mesh is None else {"mesh": partial(self.surface, self.mesh)})

    def start(self, **options: Any) -> Splats:
        """What all begin with."""
        return start_from(self.train, replace(self.settings, **options), self.points)

    def run(self, part: float, make: Callable[[SplatSettings], Training], **options: Any) -> Any:
        """A training of a part of the time, which does not pay for the kernels' compilation."""
        settings = replace(self.settings, budget=part * (self.settings.budget or 0.0), **options)
        make(settings).advance()
        return make(settings).run(None, None)

    def begun(self, part: float, **options: Any) -> SplatTraining:
        """Soft triangles after a part of the time."""
        start = self.start(**options)
        return self.run(part, lambda s: SplatTraining(self.train, s, start))

    def cut(self, name: str, training: SplatTraining) -> Ending:
        """Soft triangles as opaque ones, in the mean colours of the photos."""
        splats = training.splats()
        solid = with_mean_colors(splats[splats.opacity >= LEAST], self.train)
        behind = splats.behind(self.train.image_size)
        images = hard_views(solid.to_mesh(), behind, self.held_out.camera)
        return name, float(psnr(images, self.held_out.images).mean()), len(solid)

    def hard(self, name: str, start: Splats, part: float, kind: Any = HardTraining) -> Ending:
        """Opaque triangles, trained for a part of the time."""
        training = self.run(part, lambda s: kind(self.train, s, start))
        return name, float(training.psnr(self.held_out).mean()), len(training)

    def soft(self) -> Iterator[Ending]:
        """Soft to the end."""
        whole = self.begun(1.0)
        yield COMPARISON, float(whole.psnr(self.held_out).mean()), len(whole)
        yield self.cut("soft, cut at an opacity", whole)

    def scheduled(self, start: Splats, part: float) -> SplatTraining:
        """Soft ones that a schedule makes opaque and crisp."""
        options: dict[str, Any] = {"density": "none", "rate": SLOWER}
        return self.run(part, lambda s: Schedule(self.train, s, start), **options)

    def halves(self, name: str, **options: Any) -> Iterator[Ending]:
        """Half of the time with a distribution and a joining, then otherwise."""
        half = self.begun(0.5, **options).splats()
        yield self.cut(f"half {name}, half by schedule", self.scheduled(half, 0.5))
        yield self.hard(f"half {name}, half hard", half, 0.5)
        if options:
            return
        yield self.hard("the same, corners shared", half, 0.5, SharedHard)
        quarter = self.scheduled(half, 0.25).splats()
        yield self.hard("half, a quarter by schedule, a quarter hard", quarter, 0.25)

    def surface(self, mesh: Mesh) -> Iterator[Ending]:
        """From a mesh of the same photos: about its points, or its own triangles."""
        start = start_from(self.train, self.settings, mesh)
        half = self.run(0.5, lambda s: SplatTraining(self.train, s, start)).splats()
        yield self.hard("half uniform from a mesh of `gendr fit`, half hard", half, 0.5)
        corners = mesh.vertices[mesh.faces].to(start.vertices)
        one = corners.new_ones(len(corners))
        own = Splats(
            corners, one[:, None, None].expand(-1, -1, 3), one, one,
            background=start.background, origin=mesh.origin[0],
        )  # fmt: skip
        yield self.hard("the triangles of that mesh, hard", own, 1.0)
        yield self.hard("the same, corners of the mesh", own, 1.0, MeshHard)

    def recipe(self, shared: bool) -> Iterator[Ending]:
        """That of Triangle Splatting+."""
        start, faces = self.start(degree=0, dist="power", shape=1.0, scale=1.0), None
        if shared:
            start, faces = connected(start, self.settings.triangles or 0)

        def make(settings: SplatSettings) -> Training:
            if faces is None:
                return Recipe(self.train, settings, start)
            training = SharedRecipe(self.train, settings, start)
            training._point = faces
            return training

        name = f"Triangle Splatting+{'' if shared else ' from our start, no corner shared'}"
        yield self.cut(name, self.run(1.0, make, renew_every=OFTEN))


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """The table of the page: medians, ranges, and what differs by more than chance."""
    found = {(r["ending"], r["photos"], r["seed"]): r["psnr"] for r in rows}
    scenes, seeds = (list(dict.fromkeys(r[k] for r in rows)) for k in ("photos", "seed"))
    cells: list[tuple[float, list[str]]] = []
    for name in dict.fromkeys(row["ending"] for row in rows):
        line = [name]
        for scene in scenes:
            each = sorted(x for (a, b, _), x in found.items() if (a, b) == (name, scene))
            spread = f" ({each[0]:.1f} – {each[-1]:.1f})" if len(each) > 1 else ""
            line.append(f"{statistics.median(each):.1f}{spread}" if each else "")
        less = [
            found[name, scene, seed] - found[USUAL, scene, seed]
            for scene in scenes for seed in seeds
            if {(name, scene, seed), (USUAL, scene, seed)} <= found.keys()
        ]  # fmt: skip
        middle = statistics.median(less) if less else math.inf
        usual = name in (USUAL, COMPARISON) or not less
        spread = "" if len(less) < 2 else f" ({min(less):+.1f} – {max(less):+.1f})"
        line += ["", ""] if usual else [f"{middle:+.1f}{spread}", str(len(less))]
        cells.append((math.inf if name == COMPARISON else middle, line))
    cells.sort(key=lambda x: -x[0])
    row = rows[0]
    sources = (", ".join(dict.fromkeys(r[k] for r in rows)) for k in ("date", "commit", "machine"))
    about = (
        f"Medians of up to {len(seeds)} seeds, lowest and highest; a pair is of one scene and "
        "seed, and endings are tied where pairs differ by less than 0 and by more. "
        f"Shorter side {row['size']}, {row['total']:g} s of a processor for each; "
        f"{'; '.join(sources)}."
    )
    head = ["ending", *(f"{scene}, dB" for scene in scenes), f"less {USUAL}, dB", "pairs"]
    return [*table(head, [line for _, line in cells], left=1), "", about]


def main() -> None:
    """Train, print, and write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", nargs="+", help="folders of photos with cameras")
    parser.add_argument("--size", type=int, default=100, help="shorter side")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a processor, for each")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--mesh", metavar="FILE", help="that `gendr fit` made of the other photos")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/splatting.md")
    args = parser.parse_args()
    loop.time = SimpleNamespace(perf_counter=time.process_time)  # pyright: ignore[reportAttributeAccessIssue]
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    same = {"size": args.size, "total": args.seconds}
    rows = [row for row in rows if row.items() >= same.items()]
    with torch_on_one_thread(1):
        for seed, folder in product(range(args.seeds), args.photos):
            scene = Path(folder).resolve().name
            key = {"photos": scene, **same, "seed": seed}
            made = Endings(folder, args.size, args.seconds, seed, args.mesh)
            for group, make in made.groups().items():
                key["group"] = group
                if any(row.items() >= key.items() for row in rows):
                    continue
                for ending, score, count in list(make()):
                    more = {"ending": ending, "psnr": score, "triangles": count}
                    rows.append({**key, **more, **measured_on()})
                    print(scene, seed, *more.values(), flush=True)
                RESULTS.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    print("\n".join(lines(rows)), flush=True)
    if args.docs:
        fill(ROOT / "docs" / "splatting.md", "splatting-endings", lines(rows))


if __name__ == "__main__":
    main()
