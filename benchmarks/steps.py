"""Steps of all systems on the CPU, forward and backward, beside those of another commit.

    python benchmarks/steps.py --beside c618c28 [--seconds 120] [--cases sort] [--docs]

Two processes take turns, so that other load of the machine meets both. Times are processor time on
one thread, the least of all runs, and the unit is a product of two float32 matrices of 2048² on one
thread: both mean something on a busy machine too. With --threads 2 they are those of a clock on the
wall, on a machine that does nothing else. --median takes the median of all rounds, which tells how
steps vary, on a busy machine for one. A step of `gendr fit` is a short fit over its number of
steps. --docs writes a table of docs/results/speed.md, by default that of all cases; programs have
one of their own.

    python benchmarks/steps.py --sizes [--docs]

draws how the time of a step grows with the size of what it is given: faces, pixels, views and the
width of the distribution of a renderer; keys and rows of the ways to sort. --docs writes the
picture, its numbers and what they say into docs/results.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import torch
from _inputs import ball, floor, scene
from _turns import ROOT, taking_turns
from torch import Tensor, nn
from torch.nn import functional

import gendr
from gendr import logic, primitives, sorting, topk
from gendr.mesh import cube_sphere, icosphere

Step: TypeAlias = Callable[[], Any]  # an int is the number of steps that it was
Make: TypeAlias = Callable[[], Step]

NEAR, FAR = 1.0, 100.0
LEAST = 0.02  # seconds: shorter steps are run more than once in a round
LONGEST = 1.0  # seconds: beyond it a curve ends
WIDE: dict[str, Any] = {"dist": "logistic.squared", "scale": 1e-4}


@cache
def mesh(name: str) -> gendr.Mesh:
    """A ball, with colours."""
    known = {"642 vertices": lambda: icosphere(3), "40,368 faces": lambda: cube_sphere(58),
             "12 faces": lambda: cube_sphere(1),
             "1,310,720 faces": lambda: icosphere(8)}  # fmt: skip
    given = re.fullmatch(r"icosphere\((\d)\)", name)
    made = (icosphere(int(given[1])) if given else known[name]()).scaled(0.5)
    return made.with_vertex_colors((3 * made.vertices).sin().abs())


def rendering(name: str, views: int, size: int, part: str = "alpha", **options: Any) -> Make:
    """A step: the gradient of the vertices."""

    def make() -> Step:
        ball = mesh(name)
        camera = gendr.look_at(2.732, 30.0, torch.arange(views) * 360.0 / views)
        renderer = gendr.Renderer(size, near=NEAR, far=FAR, **options)
        vertices = ball.vertices.clone().requires_grad_()

        def step() -> None:
            vertices.grad = None
            image = getattr(renderer(ball.with_vertices(vertices), camera), part)
            image.square().sum().backward()

        return step

    return make


def product() -> Step:
    """The unit."""
    a = torch.rand(2048, 2048)
    return lambda: torch.mm(a, a)


def fitting() -> Step:
    """A step of a fit of 2,562 vertices to 24 masks of 128²."""
    camera = gendr.look_at(2.732, 20.0, torch.arange(24) * 15.0)
    with torch.no_grad():
        ball = icosphere(3)
        target = ball.with_vertices(ball.vertices * torch.tensor([0.5, 0.3, 0.4]))
        masks = gendr.Renderer(128, "heaviside", "max")(target, camera).alpha

    return lambda: len(gendr.fit(masks, camera, subdivisions=4, steps=20).history)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Numbers of the normal distribution."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def graded(function: Callable[..., Tensor], *shape: int, **options: Any) -> Make:
    """A step: the gradient of values of this shape, of an upstream gradient that is drawn."""

    def make() -> Step:
        x = drawn(*shape).requires_grad_()
        grad = drawn(*function(x, **options).shape, seed=1)

        def step() -> None:
            torch.autograd.grad(function(x, **options), x, grad)

        return step

    return make


def top_k_loss() -> Step:
    """The loss of 100 rows of 1,000 classes."""
    loss, labels = topk.TopKCrossEntropy((0.2,) * 5, m=16), torch.arange(100) * 7 % 1000
    x = (2 * drawn(100, 1000)).requires_grad_()
    return lambda: torch.autograd.grad(loss(x, labels), x)


def training() -> Step:
    """A step of four layers of gates, with Adam."""
    widths = [784, *[2000] * 4]
    layers = (
        logic.LogicLayer(a, b, init="normal", seed=k) for k, (a, b) in enumerate(pairwise(widths))
    )
    model = nn.Sequential(*layers, logic.GroupSum(10, 10.0))
    adam = torch.optim.Adam(model.parameters(), 0.01, fused=True)
    x, labels = (drawn(100, 784) > 0).float(), torch.arange(100) % 10

    def step() -> None:
        adam.zero_grad()
        functional.cross_entropy(model(x), labels).backward()
        adam.step()

    return step


def joining(count: int, side: int) -> Make:
    """The gradients of soft triangles, joined in order."""

    def make() -> Step:
        from gendr.rendering.ordered import ordered

        inputs = scene(count, side)
        corners, colours, opacity, scale = inputs
        grad = torch.rand(1, 4, side, side, generator=torch.Generator().manual_seed(1))

        def step() -> None:
            image, alpha = ordered(
                corners, colours, side, scale=scale, opacity=opacity, bound=1e-3, check=False
            )
            torch.autograd.grad(torch.cat([image, alpha[:, None]], 1), inputs, grad)

        return step

    return make


def splatting() -> Step:
    """A step of a training of splats on eight pictures; half of the steps are at half size."""
    from gendr.splatting import Photos, SplatSettings, fit_splats, from_hull

    camera = gendr.look_at(2.732, 20.0, torch.arange(8) * 45.0)
    with torch.no_grad():
        seen = gendr.Renderer(400, scale=1e-3, near=NEAR, far=FAR)(mesh("642 vertices"), camera)
        photos = Photos(seen.rgb, seen.alpha, camera, tuple(map(str, range(8))), torch.zeros(3))
    start = from_hull(photos, 20_574)
    settings = SplatSettings(steps=24, triangles=20_574, density="none", evaluate_every=1.0)
    return lambda: fit_splats(photos, settings, init=start).step


def all_three() -> Step:
    """Rasterize, interpolate and antialias, with the gradients of positions and colours."""
    pos, colors, tri = ball(40_000)
    side, inputs = 512, (pos.requires_grad_(), colors.requires_grad_())
    grad = drawn(1, side, side, 4, seed=1)

    def step() -> None:
        rast, _ = primitives.rasterize(None, pos, tri, (side, side))
        color, _ = primitives.interpolate(colors, rast, tri)
        color = torch.cat([color, (rast[..., 3:] > 0).to(color.dtype)], -1)
        torch.autograd.grad(primitives.antialias(color, rast, pos, tri), inputs, grad)

    return step


def looking_up(back: bool) -> Make:
    """A texture of 1024² with mipmaps, and the gradients of it and of the coordinates."""

    def make() -> Step:
        uv, uv_da = floor(1024)
        inputs = drawn(1, 1024, 1024, 3), uv, uv_da
        if not back:
            mip = primitives.texture_construct_mip(inputs[0])
            return lambda: primitives.texture(*inputs, mip=mip)
        leaves = [x.requires_grad_() for x in inputs]
        grad = drawn(1, 1024, 1024, 3, seed=1)
        return lambda: torch.autograd.grad(primitives.texture(*leaves), leaves, grad)

    return make


UNIT = "2048³ product"


def program(text: str, *arguments: str, cold: bool = False) -> Make:
    """A program in a process of its own, which has run before: its kernels are on disk.

    They are not where it is `cold`.
    """

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", text, *arguments]
            one = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
            one.pop("PYTHONDONTWRITEBYTECODE", None)  # what Python has compiled is on disk too
            if cold:
                one["NUMBA_CACHE_DIR"] = folder
            subprocess.run(command, check=True, cwd=folder, env=one, stdout=subprocess.DEVNULL)

    return lambda: run


LEAVE = """
import os
os._exit(0)  # to take apart what torch has made is no part of the first step
"""
PICTURE = """
import gendr
from gendr.mesh import icosphere
gendr.Renderer(64)(icosphere(3).scaled(0.5), gendr.look_at(2.732, 30.0, 0.0)).alpha.sum()
"""
FIRST = """
import gendr
from gendr.mesh import icosphere
ball = icosphere(3).scaled(0.5)
vertices = ball.vertices.clone().requires_grad_()
camera = gendr.look_at(2.732, 30.0, 0.0)
gendr.Renderer(64)(ball.with_vertices(vertices), camera).alpha.sum().backward()
"""
FIT = """
import sys, gendr.cli
sys.argv = ["gendr", "fit", sys.argv[1], "-o", "out", "--quiet"]
sys.exit(getattr(gendr.cli, "program", gendr.cli.main)())  # what the script of that build calls
"""
COW = Path(os.environ.get("GENDR_DATA", "data")) / "meshes" / "cow.obj"

LARGE = "1 × 512², 40,368 faces"
CASES: dict[str, Make] = {
    UNIT: product,
    "24 × 64², 642 vertices, logistic.squared 1e-4": rendering("642 vertices", 24, 64, **WIDE),
    "24 × 64², 642 vertices, RGB": rendering("642 vertices", 24, 64, "rgb", **WIDE),
    f"{LARGE}, logistic.squared 1e-4": rendering("40,368 faces", 1, 512, cutoff=1e-3, **WIDE),
    f"{LARGE}, RGB": rendering("40,368 faces", 1, 512, "rgb", cutoff=1e-3, **WIDE),
    f"{LARGE}, uniform 0.01": rendering(
        "40,368 faces", 1, 512, dist="uniform", scale=0.01, cutoff=1e-3
    ),
    f"{LARGE}, logistic 0.1 px": rendering(
        "40,368 faces", 1, 512, dist="logistic", scale="0.1px", cutoff=1e-3
    ),
    "1 × 1024², 1,310,720 faces, logistic 0.1 px": rendering(
        "1,310,720 faces", 1, 1024, dist="logistic", scale="0.1px", cutoff=1e-3
    ),
    "a step of `gendr fit`, 24 × 128², 2,562 vertices": fitting,
    "ordered, 20,574 triangles, 400²": joining(20_574, 400),
    "a step of `gendr splat`, 20,574 triangles, 400²": splatting,
    "primitives, 40,000 faces, 512²": all_three,
    "texture with mipmaps, 1024², forward": looking_up(False),
    "texture with mipmaps, 1024²": looking_up(True),
    "1 × 64², 12 faces": rendering("12 faces", 1, 64),
    "soft_sort 4 × 8": graded(sorting.soft_sort, 4, 8),
    "softsort top 10 of 100 × 128": graded(
        lambda x: topk.soft_topk(x, 10, "softsort").values, 100, 128
    ),
    **{
        f"{name} {rows} × {n}, {what}": graded(function, rows, n, method=name)
        for name, function, what, rows, n in (
            ("bitonic", sorting.permutation, "P", 100, 128),
            ("bitonic", sorting.permutation, "P", 1, 1024),
            ("bitonic", sorting.soft_sort, "values", 100, 128),
            ("softsort", sorting.permutation, "P", 100, 128),
            ("softsort", sorting.soft_sort, "values", 100, 128),
            ("softsort", sorting.soft_rank, "ranks", 100, 128),
            ("softsort", sorting.permutation, "P", 1, 1024),
            ("softsort", sorting.soft_sort, "values", 1, 1024),
            ("softsort", sorting.soft_rank, "ranks", 1, 1024),
            ("neuralsort", sorting.permutation, "P", 100, 128),
            ("neuralsort", sorting.soft_sort, "values", 100, 128),
            ("neuralsort", sorting.soft_rank, "ranks", 100, 128),
            ("neuralsort", sorting.permutation, "P", 1, 1024),
            ("neuralsort", sorting.soft_sort, "values", 1, 1024),
            ("neuralsort", sorting.soft_rank, "ranks", 1, 1024),
            ("permutahedron", sorting.soft_sort, "values", 1, 1000),
            ("permutahedron", sorting.soft_rank, "ranks", 1, 1000),
            ("permutahedron", sorting.soft_rank, "ranks", 1, 100_000),
        )
    },
    "top-k cross-entropy, 100 × 1000, m 16, k 5": top_k_loss,
    "logic training, 784 → 4 × 2000, batch 100": training,
}
PROGRAMS = {
    "import torch, in a process of its own": program("import torch" + LEAVE),
    "first step in a process, kernels on disk": program(FIRST + LEAVE),
    "first picture, no kernels on disk": program(PICTURE + LEAVE, cold=True),
    "first step, no kernels on disk": program(FIRST + LEAVE, cold=True),
    **({"gendr fit cow.obj": program(FIT, str(COW.resolve()))} if COW.is_file() else {}),
}
CASES |= PROGRAMS
# What is asked of two cores by a clock on the wall, in ms.
ASKED = {
    "24 × 64², 642 vertices, logistic.squared 1e-4": "0.15 × the product",
    "24 × 64², 642 vertices, RGB": "2 × alpha",
    f"{LARGE}, logistic.squared 1e-4": "80",
    f"{LARGE}, RGB": "2 × alpha",
    f"{LARGE}, uniform 0.01": "35",
    f"{LARGE}, logistic 0.1 px": "20",
    "1 × 1024², 1,310,720 faces, logistic 0.1 px": "400",
    "a step of `gendr fit`, 24 × 128², 2,562 vertices": "40",
    "ordered, 20,574 triangles, 400²": "0.6 × before",
    "a step of `gendr splat`, 20,574 triangles, 400²": "0.6 × before",
    "primitives, 40,000 faces, 512²": "0.6 × before",
    "texture with mipmaps, 1024², forward": "0.5 × before",
    "texture with mipmaps, 1024²": "0.5 × before",
    "1 × 64², 12 faces": "0.5 × before",
    "soft_sort 4 × 8": "0.5 × before",
    "softsort top 10 of 100 × 128": "2 / 3 of SoftSort's own",
    "bitonic 100 × 128, P": "6",
    "bitonic 1 × 1024, P": "6",
    "bitonic 100 × 128, values": "2",
    "softsort 100 × 128, values": "3.9",
    "softsort 1 × 1024, values": "2",
    "neuralsort 100 × 128, values": "3.9",
    "neuralsort 1 × 1024, values": "2.1",
    "permutahedron 1 × 1000, values": "0.08",
    "permutahedron 1 × 1000, ranks": "0.08",
    "permutahedron 1 × 100000, ranks": "2.5",
    "top-k cross-entropy, 100 × 1000, m 16, k 5": "0.45",
    "logic training, 784 → 4 × 2000, batch 100": "3",
    "first step in a process, kernels on disk": "250",
    "first picture, no kernels on disk": "4000",
    "gendr fit cow.obj": "6000",
}


def serve(threads: int) -> None:
    """Answer names on stdin with the seconds of a step; the first run of each is not told."""
    torch.set_num_threads(threads)
    clock = processor_time if threads == 1 else time.perf_counter
    known: dict[str, Step] = {}
    for line in sys.stdin:
        name = line.rstrip("\n")
        if name not in known:
            known[name] = CASES[name]()
            known[name]()
        print(seconds_of(known[name], clock), flush=True)


# What grows in a picture of its own, and the curves there: the sizes, and the step of one of them.
Curve: TypeAlias = "tuple[list[float], Callable[[Any], Make]]"
UNIFORM: dict[str, Any] = {"dist": "uniform", "scale": 0.01}
SORTS: dict[str, tuple[Callable[..., Tensor], dict[str, Any]]] = {
    "bitonic, P": (sorting.permutation, {"method": "bitonic"}),
    "bitonic": (sorting.soft_sort, {"method": "bitonic"}),
    "softsort": (sorting.soft_sort, {"method": "softsort"}),
    "neuralsort": (sorting.soft_sort, {"method": "neuralsort"}),
    "permutahedron": (sorting.soft_sort, {"method": "permutahedron"}),
    "top-5 mask": (topk.soft_topk_mask, {"k": 5}),
}


def sizes() -> dict[str, dict[str, Curve]]:
    """All curves; each changes one thing."""

    def faces(dist: dict[str, Any]) -> Curve:
        return [*range(2, 8)], lambda n: rendering(f"icosphere({n})", 1, 256, **dist)

    def pixels(dist: dict[str, Any]) -> Curve:
        return [2**k for k in range(5, 11)], lambda n: rendering("642 vertices", 1, n, **dist)

    def views(dist: dict[str, Any]) -> Curve:
        return [1, 2, 4, 8, 16, 32], lambda n: rendering("642 vertices", n, 64, **dist)

    def width(name: str) -> Curve:
        scales = [10 ** (k / 2) for k in range(-7, 0)]
        return scales, lambda s: rendering("642 vertices", 1, 64, dist=name, scale=s)

    def keys(name: str) -> Curve:
        most = 10 if name in ("bitonic, P", "neuralsort") else 14
        function, options = SORTS[name]
        return [2**k for k in range(4, most + 1)], lambda n: graded(function, 10, n, **options)

    def rows(name: str) -> Curve:
        function, options = SORTS[name]
        return [4**k for k in range(6)], lambda n: graded(function, n, 64, **options)

    dists = {"uniform 0.01": UNIFORM, "logistic.squared 1e-4": WIDE}
    return {
        "faces": {name: faces(given) for name, given in dists.items()},
        "pixels": {name: pixels(given) for name, given in dists.items()},
        "views": {name: views(given) for name, given in dists.items()},
        "width of the distribution": {
            name: width(name) for name in ("uniform", "logistic", "cauchy")
        },
        "n": {name: keys(name) for name in SORTS},
        "rows": {name: rows(name) for name in SORTS},
    }


FIXED = {
    "faces": "1 × 256²", "pixels": "1,280 faces, one view", "views": "1,280 faces, 64²",
    "width of the distribution": "1,280 faces, 64²; NDC", "n": "10 rows", "rows": "n = 64",
}  # fmt: skip


def grown() -> dict[str, dict[str, list[tuple[float, float]]]]:
    """The size and the least seconds of a step at every point of the curves."""
    of = {"faces": lambda n: 20 * 4**n, "pixels": lambda n: n * n}
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for axis, curves in sizes().items():
        found[axis] = {}
        for name, (points, make) in curves.items():
            found[axis][name] = []
            for point in points:
                step = make(point)()
                step()  # compiles
                seconds = min(seconds_of(step, processor_time) for _ in range(3))
                found[axis][name].append((of.get(axis, float)(point), seconds))
                if seconds > LONGEST:
                    break
    return found


def slope(points: list[tuple[float, float]]) -> float:
    """The exponent at the end: of the last three points, by least squares."""
    x, y = (torch.tensor(column).log() for column in zip(*points[-3:], strict=True))
    x = x - x.mean()
    return float((x * y).sum() / x.square().sum())


def draw(found: dict[str, dict[str, list[tuple[float, float]]]], path: Path) -> None:
    """All curves, log-log."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(11, 6.6))
    for axis, (name, curves) in zip(axes.flat, found.items(), strict=True):
        for curve, points in curves.items():
            x, y = zip(*points, strict=True)
            axis.plot(x, [1e3 * t for t in y], "o-", ms=3.5, lw=1.4, label=curve)
        axis.set(xscale="log", yscale="log", xlabel=name)
        axis.set_title(FIXED[name], fontsize=9)
        axis.grid(color="0.92", lw=0.6)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(fontsize=7.5, frameon=False, loc="upper left")
        low, high = axis.get_ylim()
        axis.set_ylim(low, high * (high / low) ** 0.35)  # room for the legend
    for axis in axes[:, 0]:
        axis.set_ylabel("forward + backward (ms)")
    figure.tight_layout()
    figure.savefig(path, dpi=100, metadata={"Software": None})
    plt.close(figure)


def _span(least: float, most: float) -> str:
    return " … ".join(f"{x:,.0f}" if x >= 1 else f"{x:.1e}" for x in (least, most))


def growth_lines(found: dict[str, dict[str, list[tuple[float, float]]]]) -> list[str]:
    """What the curves say."""
    from rows import measured_on

    from lab.pages import table

    about = measured_on()
    rows = [
        (axis, curve, _span(least, most), f"{1e3 * first:.2f} … {1e3 * last:.0f} ms",
         f"{slope(points):.2f}")
        for axis, curves in found.items() for curve, points in curves.items()
        for (least, first), *_, (most, last) in [points]
    ]  # fmt: skip
    said = (
        f"Measured on {about['date']} at commit {about['commit']}, processor time of one thread of "
        f"{about['machine']}, least of three; the exponent is that of the last three points. At "
        "the right end of the picture a step takes, of twice as much, so many times as long:"
    )
    words = [
        f"- **{axis}**: "
        + ", ".join(f"{2 ** slope(points):.1f} ({curve})" for curve, points in curves.items())
        for axis, curves in found.items()
    ]
    head = ("grows", "curve", "from … to", "time", "exponent")
    return [said, "", *words, "", *table(head, rows)]


def processor_time() -> float:
    """Of this process and of the programs that it ran."""
    ran = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ran.ru_utime + ran.ru_stime


def seconds_of(step: Step, clock: Callable[[], float]) -> float:
    """The least seconds of a step."""
    least, begun, now = math.inf, clock(), 0.0
    while now - begun < LEAST:
        start = clock()
        count = step()
        now = clock()
        least = min(least, (now - start) / (count if isinstance(count, int) else 1))
    return least


def beside(
    commit: str,
    names: list[str],
    seconds: float,
    threads: int,
    one_of: Callable[[Iterable[float]], float] = min,
) -> dict[str, tuple[float, ...]]:
    """The least seconds of cases, or another one of all rounds, at a commit and here."""
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    with taking_turns(__file__, commit, "--threads", str(threads)) as ask:
        begun = None
        while begun is None or time.monotonic() - begun < seconds:
            for name, times in found.items():
                times.append([float(answer) for answer in ask(name)])
            begun = begun or time.monotonic()  # the first round compiles
    return {name: tuple(map(one_of, zip(*times, strict=True))) for name, times in found.items()}


def lines(commit: str, found: dict[str, tuple[float, ...]], threads: int) -> list[str]:
    """The table."""
    from rows import measured_on

    from lab.pages import table

    unit = min(found[UNIT])
    about = measured_on()
    if Path(commit).is_dir():
        command = ["git", "-C", commit, "describe", "--always"]
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    rows = [
        (name, *(f"{1e3 * t:.2f} ms" if t < 0.01 else f"{1e3 * t:.0f} ms" for t in times),
         *(f"{t / unit:.3f}" if t < unit else f"{t / unit:.2f}" for t in times),
         f"{times[0] / times[1]:.2f}", ASKED.get(name, ""))
        for name, times in found.items()
    ]  # fmt: skip
    on = "one thread" if threads == 1 else f"{threads} threads"
    said = (
        f"Measured on {about['date']} at commit {about['commit']} on {on} of "
        f"{about['machine']}; before: commit {commit}."
    )
    head = ("step", "before", "now", "before / product", "now / product", "before / now", "asked")
    return [said, "", *table(head, rows)]


def main() -> None:
    """Measure and print, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--beside", metavar="COMMIT", default="HEAD", help="or a clone; default: %(default)s")
    add("--seconds", type=float, default=120.0, metavar="N", help="%(default)s")
    add("--cases", default="", metavar="PATTERN", help="what to measure, a regex")
    add("--threads", type=int, default=1, metavar="N", help="%(default)s")
    add("--median", action="store_true", help="of all rounds, not the least; writes no table")
    add("--docs", nargs="?", const="steps", metavar="TABLE", help="of docs/results/speed.md")
    add("--sizes", action="store_true", help="how the time grows with the size")
    add("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:  # with the package of any commit, which what follows need not know
        serve(args.threads)
        return
    from lab.pages import fill

    if args.sizes:
        torch.set_num_threads(1)
        curves = grown()
        print("\n".join(growth_lines(curves)))
        if args.docs:
            draw(curves, ROOT / "docs" / "results" / "steps-by-size.png")
            fill(ROOT / "docs" / "results" / "speed.md", "sizes", growth_lines(curves))
        return
    names = [name for name in CASES if name == UNIT or re.search(args.cases, name)]
    if args.median and args.docs:
        parser.error("tables are of the least times; leave out --median or --docs")
    one_of = median if args.median else min
    times = beside(args.beside, names, args.seconds, args.threads, one_of)
    # A table of programs, and one of all other steps; those of which nothing was measured stay.
    for mark, is_program in ((args.docs, False), ("programs", True)):
        some = {name: t for name, t in times.items() if (name in PROGRAMS) == is_program}
        if not some.keys() - {UNIT}:
            continue
        found = lines(args.beside, {UNIT: times[UNIT], **some}, args.threads)
        print("\n".join(found))
        if args.docs:
            fill(ROOT / "docs" / "results" / "speed.md", mark, found)


if __name__ == "__main__":
    main()
