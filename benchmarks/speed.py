"""Time silhouettes, forward and forward + backward, and what they are measured against.

    python benchmarks/speed.py                              # everything, printed; minutes
    python benchmarks/speed.py --quick --scenes teapot      # some
    python benchmarks/speed.py --out docs/results --docs    # what `make benchmark` does

A case is a mesh, a number of views, an image size and a distribution, all joined by the
probabilistic T-conorm. Each is compared with

- brute force: the same kernels with an infinite radius, so that every pixel meets every face;
- dense: the `reference` backend, plain PyTorch;
- PyTorch3D's soft silhouette, where it can be imported and the distribution is SoftRas's.

Times are wall clock from mesh and cameras to the gradient of the vertices, the device synchronised
before and after: the fastest of all runs that `--repeat` and `BUDGET` allow. Compilation happens on
a tiny image before and is reported apart. Memory is the peak beyond mesh and cameras: of a fresh
process's resident set on a CPU, of PyTorch's allocator on a GPU.

The floor is the time that the kept pairs take at the limits of the device, the greater of

- operations / rate: per kept pair `DISTANCE` + the distribution + `JOIN` forward, and backward the
  same again (nothing of size pairs is stored) + `GRADIENT`; an exponential, a logarithm or an
  arctangent counts as `SPECIAL` operations, a square root or a division as one;
- bytes / bandwidth: float32 faces read (24 bytes), pixels written (4); backward faces read and
  their gradients written, alpha and its gradient read.

Rate and bandwidth are measured in the same run, on the same device: a matrix product in the
precision of the kernels (float32, on a GPU without tensor cores), and a copy. A kept
pair is a (pixel, face) pair within the search radius.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import datetime
import importlib
import itertools
import json
import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from tqdm import tqdm

import gendr
from gendr.cli.command_line import Parser
from gendr.distributions import Distribution
from gendr.mesh import cube_sphere, icosphere
from gendr.rendering.backends.choice import choose
from gendr.rendering.backends.triton.backend import interpreted
from gendr.rendering.geometry import ImageSize, ScreenFaces, project_faces
from lab.pages import fill, table

ROOT = Path(__file__).resolve().parents[1]
KERNELS = {"cpu": "cpu", "cuda": "triton"}  # the backend of a device
BUDGET = 2.0  # seconds after which a measurement is not repeated any more
LEAST = {"cpu": 1, "cuda": 3}  # but runs that there always are: a GPU's first may compile
CUTOFF = 1e-6
NEAR, FAR = 1.0, 100.0
LISTED = 4_000_000  # pairs that exist at once while they are counted
FACES_PER_PIXEL = 100  # for PyTorch3D, which drops the others

# Operations of a kept pair, counted in the formulas.
SPECIAL = 20  # exponential, logarithm, arctangent
DISTANCE = 3 * 20 + 1  # per edge: to the point 2, foot 6, gap 4, its square 3, sides 3, choices 2
JOIN = SPECIAL + 2  # -log(1 - a), added to the pixel's sum
GRADIENT = 24  # pdf 4, weight of the T-conorm 2, chain rule 6, moves of two corners 12
DISTRIBUTIONS = {"uniform": 5, "logistic.squared": SPECIAL + 5, "cauchy": SPECIAL + 3}
SCALES = {"uniform": 1e-2, "logistic.squared": 1e-4, "cauchy": 1e-2}

# More pairs than these are not computed: kept or by brute force, and by the reference.
MOST = {"cpu": 10**9, "cuda": 10**11}
MOST_DENSE = {"cpu": 10**7, "cuda": 2 * 10**8}


# -- what is rendered


@dataclass(frozen=True)
class Case:
    """One renderer at work; `scale` in NDC, NDC^2 for squared distributions."""

    mesh: str
    views: int
    size: int
    dist: str
    scale: float

    @property
    def name(self) -> str:
        """What --scenes matches, such as sphere_642/24x64/logistic.squared."""
        return f"{self.mesh}/{self.views}x{self.size}/{self.dist}"

    @classmethod
    def of(cls, name: str) -> Case | None:
        """The case of that name, at the usual scale; None if there cannot be one."""
        match = re.fullmatch(r"(\w+)/([1-9]\d*)x([1-9]\d*)/(.+)", name)
        if not match or match[1] not in MESHES or match[4] not in SCALES:
            return None
        return cls(match[1], int(match[2]), int(match[3]), match[4], SCALES[match[4]])


def cases(quick: bool) -> list[Case]:
    """The grid, and the large scene that the GPU's target is set for."""
    sizes, views = ((32,), (1,)) if quick else ((64, 256, 1024), (1, 24))
    meshes = ("sphere_642", "teapot") if quick else ("sphere_642", "teapot", "bunny", "million")
    grid = itertools.product(meshes, views, sizes, SCALES)
    found = [Case(mesh, count, size, dist, SCALES[dist]) for mesh, count, size, dist in grid]
    if not quick:
        found += [Case("sphere_40k", 1, 1024, dist, SCALES[dist]) for dist in SCALES]
    return found


def _bunny(folder: Path | None) -> gendr.Mesh:
    path = folder / "stanford-bunny.obj" if folder else None
    if path is None or not path.is_file():
        raise FileNotFoundError("no stanford-bunny.obj; give --meshes FOLDER or set GENDR_DATA")
    return gendr.Mesh.load(path).normalized().scaled(0.6)


def _teapot(_: Path | None) -> gendr.Mesh:
    return gendr.Mesh.load(ROOT / "assets" / "teapot.obj").normalized().scaled(0.6)


def _icosphere(subdivisions: int, _: Path | None) -> gendr.Mesh:
    return icosphere(subdivisions).scaled(0.5)


def _cube_sphere(_: Path | None) -> gendr.Mesh:
    return cube_sphere(58).scaled(0.5)  # 40,368 faces


MESHES: dict[str, Callable[[Path | None], gendr.Mesh]] = {
    "sphere_642": partial(_icosphere, 3),
    "teapot": _teapot,
    "bunny": _bunny,
    "million": partial(_icosphere, 8),  # 1,310,720 faces
    "sphere_40k": _cube_sphere,
    "icosphere_1": partial(_icosphere, 1),
}


@dataclass(frozen=True)
class Place:
    """Where and by what is rendered, and the folder of meshes that are not the repository's."""

    device: str
    backend: str
    meshes: Path | None


@cache
def _mesh(name: str, place: Place) -> gendr.Mesh:
    return MESHES[name](place.meshes).to(place.device)


class Scene:
    """A case with its tensors on the device: what is timed."""

    def __init__(self, case: Case, place: Place, cutoff: float = CUTOFF) -> None:
        self.case, self.place, self.cutoff = case, place, cutoff
        self._renderers: dict[str, gendr.Renderer] = {}
        self.mesh = _mesh(case.mesh, place)
        self.vertices = self.mesh.vertices.clone().requires_grad_()
        azimuths = torch.arange(case.views, device=place.device) * 360.0 / case.views
        self.camera = gendr.look_at(2.732, 30.0, azimuths)

    def alpha(self, backend: str) -> Tensor:
        """Forward, [B, H, W]."""
        if backend not in self._renderers:
            case = self.case
            self._renderers[backend] = gendr.Renderer(
                case.size, case.dist, "probabilistic", case.scale,
                near=NEAR, far=FAR, cutoff=self.cutoff, backend=backend,
            )  # fmt: skip
        mesh = self.mesh.with_vertices(self.vertices)
        return self._renderers[backend](mesh, self.camera).alpha

    def both(self, backend: str) -> None:
        """Forward and backward."""
        self.vertices.grad = None
        self.alpha(backend).square().sum().backward()

    @property
    def all_pairs(self) -> int:
        """What brute force computes."""
        return self.case.views * self.case.size**2 * len(self.mesh.faces)

    def radius(self) -> Tensor:
        """[B] the search radius, NDC."""
        scale = torch.full((self.case.views,), self.case.scale, device=self.place.device)
        return gendr.distributions.get(self.case.dist).radius(scale, CUTOFF)

    @torch.no_grad()
    def faces(self) -> ScreenFaces:
        """The projected faces."""
        return project_faces(self.mesh, self.camera, NEAR, FAR)[0]

    def estimate(self) -> float:
        """About how many pairs are kept, at no cost.

        A triangle grown by r has the area A + perimeter * r + pi r^2 (Steiner), in pixels at most
        the image.
        """
        corners, r = self.faces().corners, float(self.radius()[0])
        edges = corners.roll(-1, 1) - corners
        (ux, uy), (vx, vy) = edges[:, 0].unbind(-1), edges[:, 1].unbind(-1)
        area = (ux * vy - uy * vx).abs() / 2 + edges.norm(dim=-1).sum(1) * r + math.pi * r * r
        pixels = self.case.size**2
        return float((area.double() * pixels / 4).clamp(max=pixels).sum())

    def pairs(self) -> int:
        """How many pairs are kept."""
        faces, radius = self.faces(), self.radius()
        # A face is no farther than its farthest corner, and that from the image than |x| + 1.
        if float(radius.min()) >= float((faces.corners.abs() + 1).norm(dim=-1).max()):
            return self.all_pairs
        size = ImageSize(self.case.size, self.case.size)
        backend = choose(self.place.backend, faces.corners)
        return sum(len(run().pixels) for run in backend.pairs(faces, size, radius, LISTED))


# -- time and memory


def _synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def timed(run: Callable[[], object], device: str, processor: bool = False) -> float:
    """Seconds of one run, of a clock or of the processor."""
    clock = time.process_time if processor else time.perf_counter
    _synchronise(device)
    start = clock()
    run()
    _synchronise(device)
    return clock() - start


def fastest(run: Callable[[], object], repeat: int, device: str) -> float:
    """Seconds of the fastest of 1 + `repeat` runs, or of those that begin within the budget."""
    times = [timed(run, device)]
    while len(times) <= repeat and (sum(times) < BUDGET or len(times) < LEAST[device]):
        times.append(timed(run, device))
    return min(times)


def warm(dist: str, place: Place) -> float:
    """Seconds of the first image of a distribution: its kernels are compiled, or loaded."""
    scene = Scene(Case("icosphere_1", 1, 8, dist, SCALES[dist]), place)
    return timed(lambda: (scene.pairs(), scene.both(place.backend)), place.device)


@contextmanager
def every_pair() -> Iterator[None]:
    """Within it every search radius is infinite: the kernels become those of brute force."""

    def infinite(_: Distribution, scale: Tensor, cutoff: float, *, check: bool = True) -> Tensor:
        del cutoff, check
        return torch.full_like(scale, math.inf)

    with mock.patch.object(Distribution, "radius", infinite):
        yield


def peak_memory(case: Case, place: Place) -> int | None:
    """Bytes beyond mesh and cameras, forward + backward; None where a CPU's cannot be read."""
    if place.device == "cuda":
        scene = Scene(case, place)
        return peak_of(lambda: scene.both(place.backend), "cuda")
    # In a process of its own, because an allocator keeps what earlier cases gave back.
    command = [sys.executable, __file__, "--probe", case.name, "--device", "cpu"]
    command += ["--meshes", str(place.meshes)] if place.meshes else []
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout)


def probe(case: Case, place: Place) -> int | None:
    """`peak_memory` of this very process, which must be fresh."""
    warm(case.dist, place)
    scene = Scene(case, place)
    return peak_of(lambda: scene.both(place.backend), "cpu")


def peak_of(run: Callable[[], object], device: str) -> int | None:
    """Bytes that a run takes beyond what is there before; None where they cannot be read.

    On a CPU by the Linux kernel's books. There the process must be fresh, because an allocator
    keeps what was given back.
    """
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        return torch.cuda.max_memory_allocated() - before
    clear = Path("/proc/self/clear_refs")
    if not clear.exists():
        return None
    clear.write_text("5")  # the peak begins anew
    before = resident_bytes("VmRSS")
    run()
    # Not ru_maxrss, which a process inherits from the one that started it.
    return resident_bytes("VmHWM") - before


def resident_bytes(field: str) -> int:
    """A figure of this process's memory, bytes."""
    match = re.search(rf"{field}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert match
    return int(match[1]) * 1024


# -- the limits of the machine, and the floor


@dataclass(frozen=True)
class Limits:
    """What the device does at best, measured.

    Attributes:
        operations: per second, in the precision of the kernels.
        bytes: per second, read or written.
        product: seconds of a 2048^3 float32 matrix product, the yardstick of the CPU's targets.
    """

    operations: float
    bytes: float
    product: float

    @classmethod
    def of(cls, device: str, repeat: int = 5) -> Limits:
        """Measure them."""

        def product(n: int) -> float:
            a, b = (torch.ones(n, n, device=device) for _ in range(2))
            return fastest(lambda: a @ b, repeat, device)

        n = 2048 if device == "cpu" else 8192
        source = torch.ones(2**26 if device == "cpu" else 2**29, device=device)
        target = torch.empty_like(source)
        copy = fastest(lambda: target.copy_(source), repeat, device)
        return cls(
            2 * n**3 / product(n),
            2 * source.nbytes / copy,
            product(2048),
        )

    def floor(self, scene: Scene, pairs: int) -> float:
        """Seconds below which forward + backward cannot go; see the top of this file."""
        dist = DISTRIBUTIONS[scene.case.dist]
        operations = pairs * (2 * (DISTANCE + dist + JOIN) + GRADIENT)
        faces = scene.case.views * len(scene.mesh.faces)
        pixels = scene.case.views * scene.case.size**2
        moved = faces * 3 * 24 + pixels * 3 * 4
        return max(operations / self.operations, moved / self.bytes)


# -- the measurements


def measure(case: Case, place: Place, limits: Limits, repeat: int) -> dict[str, Any]:
    """One case: its row of the report, or why there is none."""
    row: dict[str, Any] = {"name": case.name, **asdict(case), "skipped": None}
    try:
        scene = Scene(case, place)
    except FileNotFoundError as error:
        return {**row, "skipped": str(error)}
    about = scene.estimate()
    if about > MOST[place.device]:
        return {**row, "faces": len(scene.mesh.faces), "skipped": f"about {about:.1e} pairs"}
    pairs = scene.pairs()
    both = fastest(lambda: scene.both(place.backend), repeat, place.device)
    row |= {"faces": len(scene.mesh.faces), "pairs": pairs, "both_s": both}
    row["floor_s"] = limits.floor(scene, pairs)
    row["products"] = row["both_s"] / limits.product
    with torch.no_grad():
        row["forward_s"] = fastest(lambda: scene.alpha(place.backend), repeat, place.device)
    row["memory_bytes"] = peak_memory(case, place)
    return {**row, **brute_force(scene, row["pairs"], row["both_s"], repeat), **others(scene)}


def brute_force(scene: Scene, pairs: int, both: float, repeat: int) -> dict[str, Any]:
    """How long all pairs take, and how far their image is from the culled one; None if too long."""
    place = scene.place
    # Triton's kernels find the radius themselves, and `every_pair` does not reach it.
    if scene.all_pairs > MOST[place.device] or place.backend == "triton":
        return {"brute_s": None, "brute_difference": None}
    if pairs == scene.all_pairs:  # nothing is culled: it is the same
        return {"brute_s": both, "brute_difference": 0.0}
    # The radius of a renderer is kept by its numbers, so that another one needs another number.
    every = Scene(scene.case, place, math.nextafter(CUTOFF, 1.0))
    with torch.no_grad():
        culled = scene.alpha(place.backend)
        with every_pair():
            difference = float((every.alpha(place.backend) - culled).abs().max())
    with every_pair():
        seconds = fastest(lambda: every.both(place.backend), min(repeat, 3), place.device)
    return {"brute_s": seconds, "brute_difference": difference}


def others(scene: Scene) -> dict[str, float | None]:
    """Seconds of the dense reference and of PyTorch3D, None where there are none."""
    device, found = scene.place.device, dict.fromkeys(("dense_s", "pytorch3d_s"))
    if scene.all_pairs <= MOST_DENSE[device]:
        with suppress(torch.OutOfMemoryError):
            found["dense_s"] = fastest(lambda: scene.both("reference"), 2, device)
    within = scene.all_pairs <= MOST[device]
    if pytorch3d_missing() is None and scene.case.dist == "logistic.squared" and within:
        found["pytorch3d_s"] = fastest(pytorch3d(scene), 3, device)
    return found


@cache
def pytorch3d_missing() -> str | None:
    """None if PyTorch3D can be imported, else the reason."""
    try:
        importlib.import_module("pytorch3d.renderer")
    except ImportError as error:
        return str(error)
    return None


def pytorch3d(scene: Scene) -> Callable[[], None]:
    """Forward and backward of its soft silhouette: the same cameras, sigma and radius."""
    from pytorch3d import renderer as p3d
    from pytorch3d.structures import Meshes

    case, faces = scene.case, scene.mesh.faces
    r, t, focal, principal = scene.camera.to_pytorch3d()
    cameras = p3d.PerspectiveCameras(focal, principal, r, t, device=scene.place.device)
    settings = p3d.RasterizationSettings(
        case.size, blur_radius=float(scene.radius()[0]) ** 2, faces_per_pixel=FACES_PER_PIXEL
    )
    render = p3d.MeshRenderer(
        p3d.MeshRasterizer(cameras, settings),
        p3d.SoftSilhouetteShader(p3d.BlendParams(sigma=case.scale)),
    )

    def both() -> None:
        scene.vertices.grad = None
        meshes = Meshes([scene.vertices] * case.views, [faces] * case.views)
        render(meshes)[..., 3].square().sum().backward()

    return both


# -- what must hold


@dataclass(frozen=True)
class Target:
    """A limit for one case on one device."""

    device: str
    case: str
    what: str  # a key of the row
    limit: float

    def result(self, rows: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
        """The measured value and whether it holds; None if the case was not measured."""
        row = rows.get(self.case, {"skipped": "not asked for"})
        if row["skipped"]:
            return None
        value = row[self.what]
        return {**asdict(self), "value": value, "held": value is not None and value <= self.limit}


TARGETS = (
    Target("cpu", "sphere_642/24x64/logistic.squared", "both_s", 0.04),  # on 2 idle cores
    Target("cpu", "sphere_642/24x64/logistic.squared", "products", 0.5),
    Target("cpu", "bunny/1x256/uniform", "both_s", 0.1),
    Target("cpu", "million/1x1024/uniform", "memory_bytes", 2e9),
    Target("cuda", "sphere_642/24x64/logistic.squared", "both_s", 0.6e-3),
    Target("cuda", "sphere_40k/1x1024/logistic.squared", "both_s", 3e-3),
    Target("cuda", "million/1x1024/uniform", "memory_bytes", 2e9),
)


# -- the report

# What docs/benchmarks.md shows; docs/results/speed.md has all cases.
SHOWN = (
    "sphere_642/24x64/logistic.squared", "teapot/1x256/uniform", "teapot/1x256/logistic.squared",
    "bunny/1x256/uniform", "bunny/1x256/logistic.squared", "bunny/24x256/uniform",
    "million/1x1024/uniform",
)  # fmt: skip


def about_run(place: Place) -> dict[str, Any]:
    """Date, commit, device and versions."""
    cuda = place.device == "cuda"
    return {
        "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
        "commit": commit(),
        "device": place.device,
        "device_name": torch.cuda.get_device_name() if cuda else _cpu_name(),
        "backend": place.backend,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "pytorch3d_missing": pytorch3d_missing(),
    }


def commit() -> str:
    """The commit of this clone, and whether it was changed since; "unknown" without git.

    Where a copy has no history, as on a machine that was lent, GENDR_COMMIT names it.
    """
    if named := os.environ.get("GENDR_COMMIT"):
        return named
    command = ["git", "describe", "--always", "--dirty"]
    try:
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return "unknown"
    return run.stdout.strip() or "unknown"


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "an unknown CPU"
    match = re.search(r"model name\s*:\s*(.+)", text)
    return match.group(1).strip() if match else "an unknown CPU"


def markdown(report: dict[str, Any]) -> list[str]:
    """The report as lines of Markdown."""
    run, limits = report["run"], report["limits"]
    cores = f"{run['threads']} threads of " if run["device"] == "cpu" else ""
    first = ", ".join(f"{s:.2g} s for `{dist}`" for dist, s in report["compile_s"].items())
    lines = [
        f"Measured on {run['date']} at commit {run['commit']} with {cores}{run['device_name']}, "
        f"backend `{run['backend']}`, torch {run['torch']}, Python {run['python']}. In the same "
        f"run: {limits['operations'] / 1e9:,.0f} GFLOP/s, {limits['bytes'] / 1e9:,.0f} GB/s, a "
        f"2048³ float32 matrix product {limits['product'] * 1e3:.3g} ms. The first image, with "
        f"its kernels compiled or loaded, took {first}.",
        "",
    ]
    if targets := report["targets"]:
        lines += [*table(_TARGET_HEAD, [_target_cells(t) for t in targets]), ""]
    measured = [row for row in report["cases"] if not row["skipped"]]
    if measured:
        lines += [*table(_CASE_HEAD, [_case_cells(row) for row in measured]), ""]
    most, dense = (f"of more than {x[run['device']]:,}" for x in (MOST, MOST_DENSE))
    brute = "on a GPU" if run["device"] == "cuda" else f"{most} pairs"
    lines += [
        f"Empty: brute force {brute}; the dense reference {dense}; "
        f"PyTorch3D {run['pytorch3d_missing'] or 'with other distributions'}.",
    ]
    if skipped := [row for row in report["cases"] if row["skipped"]]:
        lines += ["", "Skipped: " + "; ".join(f"`{r['name']}` {r['skipped']}" for r in skipped)]
    return lines


_TARGET_HEAD = ["case", "what", "limit", "measured", "holds"]
_CASE_HEAD = [
    "mesh", "faces", "views × size", "renderer", "pairs", "forward", "both", "per pair",
    "floor / both", "memory", "brute / both", "dense / both", "PyTorch3D / both",
]  # fmt: skip


def _target_cells(target: dict[str, Any]) -> list[str]:
    show: Callable[[float], str]
    show, what = {
        "both_s": (milliseconds, "forward + backward"),
        "products": (lambda x: f"{x:.2f}", "the same / 2048³ product"),
        "memory_bytes": (megabytes, "memory"),
    }[target["what"]]
    value = target["value"]
    return [
        f"`{target['case']}`", what, f"≤ {show(target['limit'])}",
        "" if value is None else show(value), "yes" if target["held"] else "no",
    ]  # fmt: skip


def _case_cells(row: dict[str, Any]) -> list[str]:
    both = row["both_s"]
    ratios = (row[key] for key in ("brute_s", "dense_s", "pytorch3d_s"))
    return [
        row["mesh"], f"{row['faces']:,}", f"{row['views']} × {row['size']}²",
        f"`{row['dist']}` {row['scale']:g}", f"{row['pairs']:,}", milliseconds(row["forward_s"]),
        milliseconds(both), f"{short(both / max(row['pairs'], 1) * 1e9)} ns",
        f"{row['floor_s'] / both:.1%}",
        "" if row["memory_bytes"] is None else megabytes(row["memory_bytes"]),
        *("" if other is None else f"{short(other / both)}×" for other in ratios),
    ]  # fmt: skip


def milliseconds(seconds: float) -> str:
    """A duration, with its unit."""
    return f"{seconds * 1e3:,.{1 if seconds >= 1e-3 else 3}f} ms"


def megabytes(count: float) -> str:
    """A number of bytes, with the unit MB."""
    return f"{short(count / 1e6)} MB"


def short(number: float) -> str:
    """The number with two digits or more, without an exponent."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def write_docs(report: dict[str, Any], lines: list[str]) -> None:
    """Replace the timings of docs/results/speed.md, and the few of docs/benchmarks.md and README.

    Those of the README are of both devices, as `--out docs/results` keeps them.
    """
    device, kept = report["run"]["device"], ROOT / "docs" / "results"
    fill(kept / "speed.md", f"timings_{device}", lines)
    if device == "cpu":
        fill(ROOT / "docs" / "benchmarks.md", "speed_cpu", summary(report))
    times = {
        each["run"]["device"]: row["both_s"]
        for each in (*(json.loads(file.read_text()) for file in kept.glob("speed-*.json")), report)
        for row in each["cases"] if row["name"] == SHOWN[-1]
    }  # fmt: skip
    line = (
        f"- Large scenes in real time: a million triangles take {times['cuda'] * 1e3:.0f} ms at "
        "1024² on an [NVIDIA H200](docs/results/speed.md#gpu), both passes, and "
        f"{times['cpu']:.1f} s on [two cores](docs/results/speed.md#cpu)."
    )
    fill(ROOT / "README.md", "million", [line])


def summary(report: dict[str, Any]) -> list[str]:
    """A table of a few cases, those of `SHOWN` that were measured."""
    run = report["run"]
    rows = {row["name"]: row for row in report["cases"] if not row["skipped"]}
    cells = [
        (
            f"{row['mesh']}, {row['faces']:,}", f"{row['views']} × {row['size']}²",
            f"`{row['dist']}`", milliseconds(row["both_s"]),
            "" if row["memory_bytes"] is None else megabytes(row["memory_bytes"]),
        )
        for row in map(rows.get, SHOWN) if row
    ]  # fmt: skip
    machine = f"{run['threads']} threads of {run['device_name']}"
    said = f"{run['date']}, commit {run['commit']}, {machine}."
    return [
        *table(("mesh, faces", "views × size", "distribution", "time", "memory"), cells),
        "",
        said,
    ]


# -- the command line


def arguments() -> Parser:
    """All options."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda if there is one")
    parser.add_argument("--backend", choices=("cpu", "triton"), help="default: the device's")
    parser.add_argument("--quick", action="store_true", help="small scenes only")
    parser.add_argument("--repeat", type=int, default=20, metavar="N", help="default: %(default)s")
    parser.add_argument("--scenes", default="", metavar="PATTERN", help="cases to measure, a regex")
    parser.add_argument(
        "--meshes", type=Path, metavar="FOLDER",
        help="holds stanford-bunny.obj; default: meshes/ in the folder that GENDR_DATA names",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers here")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for speed-DEVICE.json")
    parser.add_argument("--docs", action="store_true", help="write into the documentation")
    parser.add_argument(
        "--probe", metavar="CASE", help="print the peak memory of one case in bytes"
    )
    return parser


def place_of(args: argparse.Namespace, parser: Parser) -> Place:
    """Where to render; ends with a line if that is not possible."""
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    backend = args.backend or KERNELS[device]
    if backend == "triton" and (device == "cpu" or interpreted()):
        parser.error("on a CPU Triton's kernels are interpreted: their times would mean nothing")
    if backend != KERNELS[device]:
        parser.error(f"the {backend} backend does not serve {device}; leave out --backend")
    if reason := gendr.backends()[backend]:
        parser.error(reason)
    data = os.environ.get("GENDR_DATA")
    meshes = args.meshes or (Path(data) / "meshes" if data else None)
    if args.meshes and not args.meshes.is_dir():
        parser.error(f"--meshes {args.meshes} is no folder")
    return Place(device, backend, meshes)


def chosen(args: argparse.Namespace, parser: Parser) -> list[Case]:
    """The cases that --quick and --scenes leave; ends with a line if there are none."""
    try:
        pattern = re.compile(args.scenes)
    except re.error as error:
        parser.error(f"--scenes {args.scenes!r} is no regular expression: {error}")
    found = [case for case in cases(args.quick) if pattern.search(case.name)]
    if not found:
        names = ", ".join(dict.fromkeys(case.mesh for case in cases(args.quick)))
        parser.error(f"--scenes {args.scenes!r} matches no case of {names}")
    return found


def output(args: argparse.Namespace, device: str, parser: Parser) -> Path | None:
    """The file for the numbers; ends with a line if it has no folder."""
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
    file = args.json or (args.out and args.out / f"speed-{device}.json")
    if file and not file.parent.is_dir():
        parser.error(f"there is no folder {file.parent} to write {file.name} to")
    return file


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = arguments()
    args = parser.parse_args(argv)
    if args.repeat < 1:
        parser.error(f"--repeat must be >= 1, got {args.repeat}")
    place = place_of(args, parser)
    if args.probe:
        case = Case.of(args.probe)
        if case is None:
            parser.error(f"there is no case {args.probe!r}; one is 'teapot/1x64/uniform'")
        print(json.dumps(probe(case, place)))
        return
    asked = chosen(args, parser)
    numbers = output(args, place.device, parser)

    report: dict[str, Any] = {"run": about_run(place)}
    report["compile_s"] = {dist: warm(dist, place) for dist in SCALES}
    limits = Limits.of(place.device, min(args.repeat, 5))
    report["limits"] = asdict(limits)
    report["cases"] = [
        measure(case, place, limits, args.repeat) for case in tqdm(asked, unit="case", disable=None)
    ]
    rows = {row["name"]: row for row in report["cases"]}
    results = (target.result(rows) for target in TARGETS if target.device == place.device)
    report["targets"] = [result for result in results if result]

    lines = markdown(report)
    print("\n".join(lines))
    if numbers:
        numbers.write_text(
            json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    if args.docs:
        write_docs(report, lines)


if __name__ == "__main__":
    main()
