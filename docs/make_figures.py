"""Make the pictures of the documentation, and the numbers that it quotes.

    python docs/make_figures.py             # all, a few minutes
    python docs/make_figures.py scale cdfs  # some

Pictures go to docs/images. Tables go into the pages, between the comments `<!-- begin NAME -->` and
`<!-- end NAME -->`; nothing else of the pages is touched.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import csv
import functools
import json
import math
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

import gendr
from gendr.distributions import Distribution
from gendr.mesh import icosphere
from gendr.rendering.geometry import project_faces
from gendr.rendering.scale import pixels_to_ndc, suggest_scale
from gendr.tnorms import TConorm
from lab.pages import fill, table

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
INK = np.array([22, 52, 92])  # alpha 1
PAPER = np.array([255, 255, 255])  # alpha 0
OUT = np.array([196, 62, 40])  # what shrinks, and outlines
TEXT = (30, 30, 30)

CAMERA = (2.732, 30.0, 20.0)
SIZE = 64
SHOWN = 48  # pixels of these around the middle that pictures of the sphere show


# -- drawing


@functools.cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """A font that every installation of matplotlib has."""
    import matplotlib

    return ImageFont.truetype(
        Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", size
    )


def ink(alpha: Tensor, zoom: int = 1) -> Image.Image:
    """Alpha [H, W] in [0, 1] as blue on white."""
    a = alpha.detach().clamp(0, 1).numpy()[..., None]
    pixels = (PAPER + a * (INK - PAPER)).round().astype(np.uint8)
    return enlarge(Image.fromarray(pixels), zoom)


def signed(values: Tensor, most: float, zoom: int = 1) -> Image.Image:
    """Values [H, W] as blue for positive and red for negative, full at `most`."""
    v = (values / most).clamp(-1, 1).numpy()[..., None]
    pixels = PAPER + np.abs(v) * (np.where(v > 0, INK, OUT) - PAPER)
    return enlarge(Image.fromarray(pixels.round().astype(np.uint8)), zoom)


def enlarge(image: Image.Image, zoom: int) -> Image.Image:
    """Whole pixels, so that what is seen is what was computed."""
    size = (image.width * zoom, image.height * zoom)
    return image.resize(size, Image.Resampling.NEAREST)


def middle(image: Tensor, size: int) -> Tensor:
    """The middle [size, size] of an image."""
    start = (image.shape[-1] - size) // 2
    return image[..., start : start + size, start : start + size]


def outline(image: Image.Image, points: np.ndarray, span: float = 1.0) -> Image.Image:
    """Draw a closed polygon [N, 2], NDC, over a square image of [-span, span]."""
    xy = (points / span * [1, -1] + 1) * image.width / 2
    ring = [tuple(p) for p in np.concatenate([xy, xy[:1]])]
    ImageDraw.Draw(image).line(ring, fill=tuple(OUT), width=1)
    return image


def panel(
    rows: Sequence[Sequence[Image.Image]],
    columns: Sequence[str],
    labels: Sequence[str] = (),
    *,
    text: int = 13,
    gap: int = 6,
    vertical: bool = False,
) -> Image.Image:
    """A table of equal pictures; column heads above (upright or turned), row labels at the left."""
    cell = rows[0][0]
    left = 2 * gap + max((font(text).getlength(t) for t in labels), default=-gap)
    head = max(font(text).getlength(t) for t in columns) if vertical else text * 1.4
    left, top = math.ceil(left), math.ceil(head) + 2 * gap
    step = cell.width + gap, cell.height + gap
    sheet = Image.new("RGB", (left + len(columns) * step[0], top + len(rows) * step[1]), "white")
    draw = ImageDraw.Draw(sheet)
    for j, title in enumerate(columns):
        x = left + j * step[0] + cell.width / 2
        if vertical:
            width = math.ceil(font(text).getlength(title))
            strip = Image.new("RGB", (width, text + 4), "white")
            ImageDraw.Draw(strip).text((0, 0), title, TEXT, font(text))
            turned = strip.rotate(90, expand=True)
            sheet.paste(turned, (int(x - turned.width / 2), top - gap - turned.height))
        else:
            draw.text((x, top - gap), title, TEXT, font(text), anchor="md")
    for i, row in enumerate(rows):
        y = top + i * step[1]
        if labels:
            place = (left - gap, y + cell.height / 2)
            draw.text(place, labels[i], TEXT, font(text), anchor="rm")
        for j, picture in enumerate(row):
            sheet.paste(picture, (left + j * step[0], y))
    return sheet


def save(image: Image.Image, name: str, colours: int | None = 64) -> None:
    """Write a PNG with a palette: flat pictures need no more. None keeps all colours."""
    IMAGES.mkdir(exist_ok=True)
    path = IMAGES / name
    if colours is not None:
        image = image.quantize(colours, dither=Image.Dither.NONE)
    image.save(path, optimize=True)
    print(f"{path.relative_to(DOCS.parent)}  {path.stat().st_size / 1e3:.0f} kB")


def save_plot(figure, name: str, colours: int | None = 128) -> None:
    """Write a matplotlib figure."""
    import matplotlib.pyplot as plt

    IMAGES.mkdir(exist_ok=True)
    path = IMAGES / name
    figure.savefig(path, dpi=100, metadata={"Software": None})
    plt.close(figure)
    with Image.open(path) as image:
        save(image.convert("RGB"), name, colours)


def legend_below(figure, axis, columns: int) -> None:
    """One legend for all axes, where it covers no curve."""
    handles, labels = axis.get_legend_handles_labels()
    room = 0.3 / figure.get_figheight()  # inches for one line of text
    figure.tight_layout(rect=(0, 1.2 * room, 1, 1))
    figure.legend(
        handles, labels, loc="lower center", ncols=columns, fontsize=9, frameon=False,
        bbox_to_anchor=(0.5, 0),
    )  # fmt: skip


def write_block(page: str, name: str, lines: Sequence[str]) -> None:
    """Fill a block of a page."""
    fill(DOCS / page, name, lines)
    print(f"docs/{page}: {name}")


# -- the scale


def sphere(subdivisions: int, radius: float = 0.4) -> gendr.Mesh:
    """A sphere of 10 * 4^n + 2 vertices."""
    return icosphere(subdivisions, dtype=torch.float64).scaled(radius)


def hull(mesh: gendr.Mesh, camera: gendr.Camera) -> tuple[np.ndarray, float]:
    """The exact silhouette of a convex mesh: its polygon and its area, NDC."""
    from scipy.spatial import ConvexHull

    faces, _ = project_faces(mesh, camera, 1.0, 100.0)
    shape = ConvexHull(faces.corners.reshape(-1, 2).numpy())
    return shape.points[shape.vertices], float(shape.volume)


def length(dist: Distribution, scale: float) -> float:
    """A scale as a length in pixels of the pictures here."""
    return (scale**0.5 if dist.is_squared else scale) * SIZE / 2


def figure_scale() -> None:
    """Too small, right, too large: pictures and their derivative by the radius."""
    camera, mesh, step = gendr.look_at(*CAMERA, dtype=torch.float64), sphere(3), 1e-5
    dist = gendr.distributions.get("logistic")
    right = suggest_scale(mesh, camera, SIZE, dist)
    polygon, _ = hull(mesh, camera)
    titles, top, bottom = [], [], []
    for word, factor in (("too small", 1 / 50), ("suggested", 1), ("too large", 8)):
        scale = right * factor
        render = gendr.Renderer(SIZE, dist, scale=scale)
        grown, shrunk = (render(mesh.scaled(1 + sign * step), camera).alpha[0] for sign in (1, -1))
        slope = (grown - shrunk) / (2 * step)
        titles.append(f"{word}: {length(dist, scale):.2g} px")
        alpha = render(mesh, camera).alpha[0]
        top.append(outline(ink(middle(alpha, SHOWN), 4), polygon, SHOWN / SIZE))
        bottom.append(outline(signed(middle(slope, SHOWN), 4.0, 4), polygon, SHOWN / SIZE))
    save(panel([top, bottom], titles, ["alpha", "d alpha / d radius"]), "scale.png")


def figure_tessellation() -> None:
    """The same sphere at the same scale, ever finer; and each at its own scale."""
    camera, dist = gendr.look_at(*CAMERA, dtype=torch.float64), gendr.distributions.get("logistic")
    titles, same, own, lines = [], [], [], []
    fixed = pixels_to_ndc(1.0, SIZE)
    for n in (1, 2, 3, 4):
        mesh = sphere(n)
        polygon, area = hull(mesh, camera)
        scale = suggest_scale(mesh, camera, SIZE, dist)
        pictures = [
            gendr.Renderer(SIZE, dist, scale=s)(mesh, camera).alpha[0] for s in (fixed, scale)
        ]
        soft = [float(p.sum()) * fixed**2 / area - 1 for p in pictures]
        for row, picture in zip((same, own), pictures, strict=True):
            row.append(outline(ink(middle(picture, SHOWN), 3), polygon, SHOWN / SIZE))
        titles.append(f"{len(mesh.faces):,} faces")
        lines.append(
            [titles[-1], f"{soft[0]:+.0%}", f"{length(dist, scale):.2f} px", f"{soft[1]:+.0%}"]
        )
    save(panel([same, own], titles, ["1 px for all", "suggested"]), "scale_tessellation.png")
    head = ["sphere", "soft area at 1 px", "suggested scale", "soft area there"]
    write_block("scale.md", "tessellation", table(head, lines))


def radius_gradient(
    mesh: gendr.Mesh, camera: gendr.Camera, dist: Distribution, scale: float, wanted: float
) -> tuple[Tensor, Tensor]:
    """Relative error of the area, and d IoU loss / d radius over the exact one, per view.

    The loss compares a sphere with one that is `wanted` times as large; the exact numbers come
    from the convex hull of the projected vertices, so they know no pixels.
    """
    factor = torch.ones((), dtype=torch.float64, requires_grad=True)
    target_mesh, step = mesh.scaled(wanted), 1e-4
    fine = gendr.Renderer(4 * SIZE, "heaviside", "max")(target_mesh, camera).alpha
    target = torch.nn.functional.avg_pool2d(fine.unsqueeze(1), 4).squeeze(1)
    alpha = gendr.Renderer(SIZE, dist, scale=scale)(
        mesh.with_vertices(mesh.vertices * factor), camera
    ).alpha
    overlap, union = (alpha * target).sum((1, 2)), (alpha + target - alpha * target).sum((1, 2))
    slopes, areas = [], []
    for b, loss in enumerate(1 - overlap / union):
        (slope,) = torch.autograd.grad(loss, factor, retain_graph=True)
        exact = [hull(mesh.scaled(1 + s * step), camera[b])[1] for s in (1, 0, -1)]
        true = (exact[2] - exact[0]) / (2 * step) / hull(target_mesh, camera[b])[1]
        slopes.append(slope / true)
        areas.append(alpha[b].detach().sum() * (2 / SIZE) ** 2 / exact[1] - 1)
    return torch.stack(areas), torch.stack(slopes)


CURVES = (
    "uniform", "gaussian", "logistic", "logistic.squared", "exponential.reversed", "cauchy.squared",
    "cauchy", "exponential",
)  # fmt: skip
SHOWN_SPHERE = 3  # of 1,280 faces, in the table
FACTORS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0)


def figure_curves() -> None:
    """Area and gradient against the scale, and whether the suggestion lies where both are right."""
    import matplotlib.pyplot as plt

    # Views whose pixel grids are shifted: centred spheres meet whole rings of pixel centres.
    shifts = (torch.rand(6, 2, generator=torch.Generator().manual_seed(1)) - 0.5) * 4 / SIZE
    views = gendr.look_at(
        2.732,
        torch.tensor([10.0, 37, -20, 55, 0, -40]),
        torch.arange(6) * 61.0,
        dtype=torch.float64,
    )
    camera = gendr.Camera(views.rotation, views.translation, views.focal, shifts.double())
    figure, axes = plt.subplots(2, len(CURVES), figsize=(14, 5.3), sharex=True, sharey="row")
    rows = []
    for column, name in enumerate(CURVES):
        dist = gendr.distributions.get(name)
        power = 2 if dist.is_squared else 1
        for n, colour in ((2, "#9ecae1"), (3, "#4292c6"), (4, "#08306b")):
            mesh = sphere(n)
            right = suggest_scale(mesh, camera, SIZE, dist)
            found = [radius_gradient(mesh, camera, dist, right * f**power, 1.1) for f in FACTORS]
            area = torch.stack([a.mean() for a, _ in found])
            mean = torch.stack([g.mean() for _, g in found])
            spread = torch.stack([g.std() for _, g in found])
            label = f"{len(mesh.faces):,} faces"
            axes[0, column].plot(FACTORS, area, color=colour, label=label)
            axes[1, column].plot(FACTORS, mean, color=colour)
            axes[1, column].fill_between(
                FACTORS, mean - spread, mean + spread, color=colour, alpha=0.3, lw=0
            )
            at = FACTORS.index(1.0)
            if n == SHOWN_SPHERE:
                slope = f"{mean[at]:.2f} ± {spread[at]:.2f}"
                rows.append([f"`{name}`", f"{area[at]:+.0%}".replace("-", "−"), slope])
        axes[0, column].set_title(name, fontsize=9)
        for axis, ideal in zip(axes[:, column], (0, 1), strict=True):
            axis.axhline(ideal, color="0.6", lw=0.8)
            axis.axvline(1, color="#c43e28", lw=0.8)
    axes[0, 0].plot([], [], color="#c43e28", lw=0.8, label="the suggestion")
    axes[0, 0].set(xscale="log", ylim=(-1, 1.5), ylabel="error of the area")
    axes[1, 0].set(ylim=(-1, 2.5), ylabel="gradient / exact gradient")
    figure.supxlabel("length of the scale / suggested", fontsize=10, y=0.09)
    legend_below(figure, axes[0, 0], 4)
    save_plot(figure, "scale_curves.png")
    write_block("scale.md", "curves", table(("distribution", "area", "gradient"), rows))


# -- the family


def scene() -> Tensor:
    """Three triangles that overlap, [1, 3, 3, 3]."""
    return torch.tensor(
        [
            [[-0.75, -0.15, 1], [0.1, 0.8, 1], [0.35, -0.2, 1]],
            [[-0.15, 0.25, 1], [0.8, 0.35, 1], [0.2, -0.75, 1]],
            [[-0.7, -0.75, 1], [-0.45, 0.1, 1], [0.15, -0.4, 1]],
        ],
        dtype=torch.float64,
    )[None]


def picture_scale(dist: Distribution, reach: float = 0.16) -> float:
    """The scale at which the wider of the two tenths of a distribution lies `reach` from 0."""
    tenth = torch.tensor(0.1, dtype=torch.float64)
    width = max(-float(dist.icdf(tenth)), float(dist.isf(tenth)))
    return (reach / width) ** (2 if dist.is_squared else 1)


def family(
    dists: Sequence[Distribution], tconorms: Sequence[TConorm], size: int, zoom: int
) -> list[list[Image.Image]]:
    """One picture per renderer."""
    triangles = scene()
    return [
        [ink(gendr.silhouette(triangles, size, d, t, picture_scale(d))[0], zoom) for t in tconorms]
        for d in dists
    ]


# A distribution, a T-conorm and a scale in NDC of each column of the README's picture.
README_FAMILY = (
    ("uniform", "probabilistic", 0.05), ("gaussian", "probabilistic", 0.05),
    ("logistic", "max", 0.01), ("cauchy", "probabilistic", 5e-4),
    ("exponential.reversed", "probabilistic", 0.04), ("uniform", "yager(2)", 0.2),
)  # fmt: skip
STEP = 1e-4  # of the size, for a difference


def short(dist: Distribution | TConorm) -> str:
    """The text of a member with less punctuation."""
    return re.sub(r"\((?:shape|p)=([-\d.]+?)(?:\.0)?\)", r"(\1)", str(dist))


def figure_family() -> None:
    """The picture of the README, and the whole family."""
    from gendr.mesh.examples import example

    mesh = example("chair", dtype=torch.float64)
    camera = gendr.look_at(3.1, 25.0, 35.0, dtype=torch.float64)
    drawn, moved = [], []
    for dist, tconorm, scale in README_FAMILY:
        render = gendr.Renderer(150, dist, tconorm, scale, cutoff=1e-9)
        less, alpha, more = (
            render(mesh.scaled(1 + step), camera).alpha[0] for step in (-STEP, 0.0, STEP)
        )
        drawn.append(ink(alpha, 1))
        slope = (more - less) / (2 * STEP)
        moved.append(signed(slope, float(slope.abs().quantile(0.99))))
    heads = [
        f"{dist} / {tconorm}".replace("probabilistic", "prob.").replace("exponential.r", "exp.r")
        for dist, tconorm, _ in README_FAMILY
    ]
    save(panel([drawn, moved], heads, ["alpha", "∂ alpha / ∂ size"], text=12), "family.png", 64)
    every = gendr.instances()
    tconorms = list(dict.fromkeys(i.tconorm for i in every))
    dists = [i.dist for i in every[:: len(tconorms)]]
    cells = family(dists, tconorms, 44, 1)
    sheet = panel(
        cells, [short(t) for t in tconorms], [short(d) for d in dists],
        text=15, gap=4, vertical=True,
    )  # fmt: skip
    save(sheet, "family_all.png", 24)


def figure_cdfs() -> None:
    """The CDFs, and the table of the distributions."""
    import matplotlib.pyplot as plt

    dists = gendr.distributions.standard_distributions()
    rows = math.ceil(len(dists) / 6)
    figure, axes = plt.subplots(rows, 6, figsize=(13, 2.2 * rows), sharex=True, sharey=True)
    z = torch.linspace(-4, 4, 1601, dtype=torch.float64)
    for axis in axes.flat[len(dists) :]:
        axis.set_axis_off()
    for axis, (name, distribution) in zip(axes.flat, dists.items(), strict=False):
        for dist, style, label in (
            (distribution(), "-", "plain"),
            (distribution().squared(), ":", "squared"),
        ):
            axis.plot(z, dist.cdf(z), style, color="#16345c", lw=1.5, label=label)
        axis.set_title(name, fontsize=9)
        axis.axvline(0, color="0.8", lw=0.6, zorder=0)
        axis.axhline(0.5, color="0.8", lw=0.6, zorder=0)
    axes[0, 0].set(xlim=(-4, 4), xticks=(-3, 0, 3), yticks=(0, 0.5, 1))
    for axis in axes[:, 0]:
        axis.set_ylabel("F(z)", fontsize=9)
    figure.tight_layout()
    # Beside the last distribution, where there is room.
    axes[-1, -1].legend(*axes[0, 0].get_legend_handles_labels(), loc="center", frameon=False)
    save_plot(figure, "cdfs.png")
    figure, axes = plt.subplots(1, 4, figsize=(11, 2.8), sharey=True)
    for axis, name in zip(axes, ("exponential", "gamma(2)", "gamma(0.5)", "levy"), strict=True):
        dist = gendr.distributions.get(name)
        variants = (
            ("plain", dist, "#16345c"), ("reversed", dist.reversed(), "#c43e28"),
            ("centred", dist.centred(), "#4292c6"),
            ("reversed.centred", dist.reversed().centred(), "#f0a58f"),
        )  # fmt: skip
        for label, member, colour in variants:
            axis.plot(z, member.cdf(z), color=colour, label=label, lw=1.5)
        axis.set_title(short(dist), fontsize=9)
        axis.axvline(0, color="0.8", lw=0.6, zorder=0)
        axis.set_xlabel("z", fontsize=9)
    axes[0].set_ylabel("F(z)", fontsize=9)
    legend_below(figure, axes[0], 4)
    save_plot(figure, "transforms.png")

    def ends(distribution: type[gendr.distributions.StandardDistribution]) -> str:
        low, high = (
            "−∞" if e == -math.inf else "∞" if e == math.inf else f"{e:g}".replace("-", "−")
            for e in distribution.support
        )
        return f"{'(' if low == '−∞' else '['}{low}, {high}{')' if high == '∞' else ']'}"

    rows = [
        [f"`{n}`" + "".join(f", `{a}`" for a in distribution.aliases),
         distribution.formula.replace("|", r"\|"), ends(distribution),
         "yes" if distribution.is_symmetric else "no"]
        for n, distribution in dists.items()
    ]  # fmt: skip
    write_block(
        "distributions.md", "distributions", table(["name", "F(z)", "support", "symmetric"], rows)
    )


def figure_tconorms() -> None:
    """The T-conorms as maps of the unit square, their table, and what the cutoff does to them."""
    import matplotlib.pyplot as plt

    line = torch.linspace(0, 1, 101, dtype=torch.float64)
    b, a = torch.meshgrid(line, line, indexing="ij")
    columns = gendr.tnorms.benchmark_tconorms()
    usual = gendr.tnorms.tconorm("probabilistic")(a, b)
    figure, axes = plt.subplots(3, 8, figsize=(12, 5), sharex=True, sharey=True)
    shown, most = None, 0.3
    for axis, tconorm in zip(axes.flat, columns, strict=False):
        value = tconorm(a, b)
        shown = axis.imshow(
            value - usual, cmap="RdBu", vmin=-most, vmax=most, origin="lower", extent=(0, 1, 0, 1)
        )
        lines = axis.contour(
            line, line, value, levels=(0.25, 0.5, 0.75, 0.95), colors="0.25", linewidths=0.7
        )
        if tconorm is columns[0]:
            axis.clabel(lines, fontsize=6)
        axis.set_title(short(tconorm).replace("schweizer_sklar", "schweizer-s."), fontsize=9)
        axis.set(xticks=(0, 1), yticks=(0, 1))
        axis.tick_params(labelsize=7)
    axes[-1, -1].set_axis_off()
    figure.tight_layout(w_pad=0.4)
    place = axes[-1, -1].get_position()
    bar = figure.add_axes((place.x0 + 0.01, place.y0, 0.012, place.height))
    scale = figure.colorbar(shown, cax=bar, ticks=(-most, 0, most), extend="both")
    scale.ax.set_yticklabels([f"{most} less", "probabilistic", f"{most} more"], fontsize=8)
    save_plot(figure, "tconorms.png", None)  # a palette loses the ends of the colours
    families = {n: gendr.tnorms.family(n) for n in gendr.tnorms.names()}
    forms = {n: f.formula.replace("|", "\\|") for n, f in families.items()}  # a bar ends a cell
    rows = [[f"`{n}`", f.parameter, f"`{forms[n]}`"] for n, f in families.items()]
    write_block("tconorms.md", "families", table(["name", "p", "⊥(a, b)"], rows))

    camera, lines = gendr.look_at(2.732, 30.0, 0.0, dtype=torch.float64), []
    mesh = gendr.Mesh.load(DOCS.parent / "assets" / "airplane.obj", dtype=torch.float64)
    for name in ("probabilistic", "yager(2)", "yager(0.5)", "aczel_alsina(0.5)", "dombi(0.5)"):
        exact, *cut = (
            gendr.Renderer(SIZE, "logistic", name, 1e-2, cutoff=c)(mesh, camera).alpha
            for c in (0.0, 1e-9, 1e-6, 1e-3)
        )
        lines.append([f"`{name}`", *(f"{float((c - exact).abs().max()):.2g}" for c in cut)])
    head = ["T-conorm", "cutoff 1e-9", "1e-6 (default)", "1e-3"]
    write_block("tconorms.md", "cutoff", table(head, lines))


# -- the fit


def figure_fit() -> None:
    """A sphere becomes an airplane; and what `make demo` reaches, which starts from the hull."""
    from gendr.cli import main as command

    found: dict[str, float] = {}
    for start in ("hull", "sphere"):
        with tempfile.TemporaryDirectory() as folder:
            target = str(DOCS.parent / "assets" / "airplane.obj")
            if code := command(["fit", target, "-o", folder, "--quiet", "--init", start]):
                raise SystemExit(code)
            metrics = json.loads((Path(folder) / "metrics.json").read_text(encoding="utf-8"))
            found[start] = metrics["iou"]
            IMAGES.mkdir(exist_ok=True)
            shutil.copy(Path(folder) / "fit.gif", IMAGES / "fit.gif")
    line = (
        f"Mean IoU of the 24 hard silhouettes after 100 steps: {found['sphere']:.3f}. From the "
        f"visual hull, at 128 × 128, as `make demo` does it: {found['hull']:.3f}."
    )
    write_block("../README.md", "fit", [f"`make demo` reaches a mean IoU of {found['hull']:.3f}."])
    write_block("benchmarks.md", "fit", [line])


def figure_ten_lines() -> None:
    """What the README's loop reaches, and the same loop with the faces of a sphere."""
    from gendr.mesh.quality import cut_faces

    page = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"## Ten lines.*?```python\n(.*?)```", page, re.S)
    code = code.replace('"assets/', f'"{DOCS.parent}/assets/')
    fixed = code.replace("icosphere(3)", "icosphere(4)").replace("optimizer.", "loop.")
    fixed = re.sub(r"optimizer = .*", "loop = Loop(sphere)", fixed)

    class Loop:
        """The loop of before: Adam on smooth vertices, whose faces stay."""

        def __init__(self, mesh: gendr.Mesh) -> None:
            self.shape = gendr.SmoothParametrization(mesh)
            self.mesh = self.shape.mesh
            adam = torch.optim.Adam(self.shape.parameters(), lr=0.03, betas=(0.9, 0.99))
            self.zero_grad, self.step = adam.zero_grad, adam.step

        def result(self) -> gendr.Mesh:
            return self.mesh().detach()

    said = []
    for each in (code, fixed):
        with tempfile.TemporaryDirectory() as folder:
            names: dict[str, Any] = {"Loop": Loop}
            exec(each.replace('"fit.obj"', f'"{folder}/fit.obj"'), names)
            mesh = gendr.Mesh.load(f"{folder}/fit.obj")
        fitted = gendr.Renderer(SIZE, "heaviside", "max")(mesh, names["camera"]).alpha
        iou = float(gendr.losses.iou(fitted, names["target"]).mean())
        cut = cut_faces(mesh.vertices.double().numpy(), mesh.faces.numpy()).mean()
        said.append(f"{iou:.3f}, with {len(mesh.faces):,} faces of which {cut:.1%}")
    line = (
        f"This reaches a mean IoU of {said[0]} are cut by others. With `torch.optim.Adam` on the "
        f"vertices of a finer sphere it is {said[1]} are."
    )
    write_block("../README.md", "ten-lines", [line])


PEERS = {"gendr": "#1b4fb3", "softras": "#5b9bd5", "pytorch3d": "#d1603d", "mitsuba": "#4f9d69"}


def figure_peers() -> None:
    """Quality over time beside other renderers, from benchmarks/peers/silhouettes.py."""
    import matplotlib.pyplot as plt

    found = json.loads((DOCS / "results" / "peers.json").read_text(encoding="utf-8"))
    figure, axis = plt.subplots(figsize=(7.2, 3.1))
    rows = []
    for name, colour in PEERS.items():
        if name not in found:
            continue
        run = found[name]
        label = f"{run['label']} {run['version'] or ''}".strip()
        steps, seconds, quality = zip(*run["curve"][1:], strict=True)
        axis.plot(seconds, quality, color=colour, lw=2, marker="o", ms=3)
        axis.annotate(
            label, (seconds[-1], quality[-1]), color=colour, size=10, weight="bold",
            xytext=(6, {"gendr": 7, "softras": -9}.get(name, 0)), textcoords="offset points",
            va="center",
        )  # fmt: skip
        reached = f"{quality[-1]:.3f} after {steps[-1]} steps"
        rows.append((label, f"{seconds[-1] / steps[-1]:.2g} s", reached, f"{seconds[-1]:.0f} s"))
    axis.set(xscale="log", xlabel="processor time of the steps, s", ylabel="IoU from other places")
    axis.set_xlim(axis.get_xlim()[0], axis.get_xlim()[1] * 8)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.grid(color="0.9")
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    save_plot(figure, "peers.png")
    head = ("renderer", "a step", "IoU from other places", "processor time")
    write_block("benchmarks.md", "peers", table(head, rows))


def figure_starts() -> None:
    """What benchmarks/fit_starts.py and fit_quality.py left in docs/results."""
    found = json.loads((DOCS / "results" / "fit-starts.json").read_text(encoding="utf-8"))
    rows = [
        [
            row["mesh"], row["start"], f"{row['iou']:.3f}", f"{row['held_out']:.3f}",
            f"{row['chamfer']:.2%}", f"{row['volume']:.3f}", f"{row['genus']}",
            f"{row['faces']:,}", f"{row['smallest_angle']:.1f}°", f"{row['self_intersections']}",
            f"{row['seconds']:.0f}",
        ]
        for row in found["rows"]
    ]  # fmt: skip
    head = ["mesh", "start", "IoU", "IoU, held-out views", "chamfer / diagonal", "volume IoU",
            "genus", "faces", "smallest angle", "faces cut", "seconds"]  # fmt: skip
    write_block("results/fits.md", "fit-starts", table(head, rows))
    found = json.loads((DOCS / "results" / "fit-quality.json").read_text(encoding="utf-8"))
    rows = [
        [
            row["mesh"], f"{row['iou']:.3f}", f"{row['held_out']:.3f}", f"{row['chamfer']:.2%}",
            f"{row['volume']:.3f}", f"{row['hull_volume']:.3f}", f"{row['genus']}",
            f"{row['faces']:,}", f"{row['smallest_angle']:.0f}°", f"{row['self_intersections']}",
            f"{row['seconds']:.0f}",
        ]
        for row in found["rows"]
    ]  # fmt: skip
    head = ["mesh", "IoU", "IoU, held-out views", "chamfer / diagonal, where seen", "volume IoU",
            "of the exact hull", "genus", "faces", "smallest angle", "faces cut",
            "seconds"]  # fmt: skip
    write_block("results/fits.md", "fit-quality", table(head, rows))
    head = ["mesh", "IoU, held-out", "volume IoU (exact hull)", "seconds"]
    rows = [
        [
            row["mesh"], f"{row['held_out']:.3f}",
            f"{row['volume']:.3f} ({row['hull_volume']:.3f})", f"{row['seconds']:.0f}",
        ]
        for row in found["rows"]
    ]  # fmt: skip
    write_block("fitting.md", "fit-summary", table(head, rows))


def wilson(right: int, count: int) -> str:
    """A share and the ends of its interval of 95 % by Wilson's score."""
    z = 1.96
    middle = (right + z * z / 2) / (count + z * z)
    half = z / (count + z * z) * math.sqrt(right * (count - right) / count + z * z / 4)
    return f"{right / count:.0%} ({middle - half:.1%} to {middle + half:.1%})"


def figure_poses() -> None:
    """What benchmarks/poses.py left in docs/results."""
    found = json.loads((DOCS / "results" / "poses.json").read_text(encoding="utf-8"))
    named = [*found["rows"].items()]
    lines = []
    for name, row in [*named, ("all", None)]:
        some = [row] if row is not None else [each for _, each in named]
        views, near, alike = (sum(each[key] for each in some) for key in ("views", "near", "alike"))
        each = [view for part in some for view in part["each"]]
        off = [view["angle"] for view in each if view["angle"] < found["near"]]
        lines.append(
            [
                name, f"{views}", f"{near}", f"{alike}", wilson(near + alike, views),
                f"{np.median(off):.2f}°", f"{np.mean([view['iou'] for view in each]):.3f}",
                f"{np.median([view['seconds'] for view in each]):.1f}",
                f"{max(view['seconds'] for view in each):.1f}",
            ]
        )  # fmt: skip
    head = ["mesh", "views", "within 3°", "same silhouette", "one of both (95 % interval)",
            "median error of the former", "mean IoU", "seconds", "most"]  # fmt: skip
    write_block("results/poses.md", "poses", table(head, lines))
    head = ["mesh", "within 3°", "same silhouette", "median error", "seconds"]
    rows = [[line[0], line[2], line[3], line[5], line[7]] for line in lines]
    write_block("pose.md", "pose-summary", table(head, rows))
    found = json.loads((DOCS / "results" / "pose-track.json").read_text(encoding="utf-8"))
    rows = [
        [
            name, words, f"{row[how]['images']}", f"{row[how]['near']}", f"{row[how]['alike']}",
            f"{row[how]['median_degrees']:.2f}°", f"{row[how]['mean_iou']:.3f}",
            f"{row[how]['jumps']}", f"{row[how]['seconds']:.2f}",
        ]
        for name, row in found["rows"].items()
        for how, words in (("track", "tracked"), ("search", "a search each"))
        if how in row
    ]  # fmt: skip
    head = ["mesh", "how", "images", "within 3°", "same silhouette", "median error", "mean IoU",
            "jumps", "seconds an image"]  # fmt: skip
    write_block("results/poses.md", "pose-track", table(head, rows))


def figure_sample() -> None:
    """What the commands of photos.md and pose.md make of the sample photos."""
    from gendr.cli import main as run_command

    assets = DOCS.parent / "assets"
    with tempfile.TemporaryDirectory() as name:
        for words in (
            ["fit", str(assets / "photos"), "-o", f"{name}/teapot"],
            ["pose", str(assets / "teapot.obj"), str(assets / "photo.png"), "-o", f"{name}/pose"],
        ):
            if run_command([*words, "--quiet"]) != 0:
                raise SystemExit(f"gendr {' '.join(words)} failed")
        draw_sample(Path(name))


def draw_sample(folder: Path) -> None:
    """Draw results `teapot` and `pose` of a folder: photos above the mesh found, and the pose."""
    from gendr.photos import visual
    from support.photographs import photographs

    views = gendr.photos.load_views(DOCS.parent / "assets" / "photos")
    assert views.rgb is not None
    shown = [0, 1, 2, 5, 9, 13]
    found = gendr.Mesh.load(folder / "teapot" / "fit.glb")
    rows = [
        visual.composited(views.rgb[shown], views.masks[shown]),
        visual.composited(*photographs(found, views.camera[shown], 128, lighting=None)),
    ]
    page = np.concatenate([np.concatenate([tile[16:112] for tile in row], 1) for row in rows])
    save(Image.fromarray(page), "photos_sample.png", 64)
    save(Image.open(folder / "pose" / "overlay.png").convert("RGB"), "pose_overlay.png", 32)


def figure_objects() -> None:
    """What benchmarks/six_objects.py left in docs/results/six-objects: a table and a picture."""
    folder = DOCS / "results" / "six-objects"
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    found.sort(key=lambda row: -row["held_iou"])
    head = ["object", "IoU, held-out", "PSNR, held-out", "volume IoU", "genus", "faces",
            "seconds: shape", "texture"]  # fmt: skip
    rows = [
        [
            row["object"], f"{row['held_iou']:.3f}", f"{row['held_psnr']:.1f}",
            f"{row['volume']:.3f}", f"{row['genus']}", f"{row['faces']:,}",
            f"{row['shape_seconds']:.0f}", f"{row['color_seconds']:.0f}",
        ]
        for row in found
    ]  # fmt: skip
    write_block("results/photos.md", "six-objects", table(head, rows))
    head = ["object", "IoU, held-out", "PSNR, held-out", "volume IoU", "seconds"]
    rows = [
        [*cells[:4], f"{row['shape_seconds'] + row['color_seconds']:.0f}"]
        for cells, row in zip(rows, found, strict=True)
    ]
    write_block("photos.md", "six-objects-summary", table(head, rows))
    columns = [Image.open(folder / f"{row['object'].replace(' ', '-')}.png") for row in found]
    wide, tall = columns[0].size
    left, top = 96, 26
    page = Image.new("RGB", (left + wide * len(columns), top + tall), (255, 255, 255))
    draw = ImageDraw.Draw(page)
    for place, (row, column) in enumerate(zip(found, columns, strict=True)):
        x = left + place * wide
        page.paste(column, (x, top))
        draw.text((x + wide / 2, 14), row["object"], TEXT, font(13), anchor="mm")
    for number, words in enumerate(("a photo\nnot fitted", "texture\nfound", "shape\nfound")):
        y = top + (number + 0.5) * tall / 3
        draw.text((left / 2, y), words, TEXT, font(13), anchor="mm", align="center")
    save(page, "six_objects.png", 128)


def figure_photos() -> None:
    """What benchmarks/photos.py left in docs/results."""
    found = json.loads((DOCS / "results" / "photos.json").read_text(encoding="utf-8"))
    head = ["mesh", "IoU", "IoU, held-out", "PSNR, fitted", "PSNR, held-out: image", "object",
            "where both are", "faces", "seconds"]  # fmt: skip
    rows = [
        [
            row["mesh"], f"{row['iou']:.3f}", f"{row['held_iou']:.3f}", f"{row['psnr_fitted']:.1f}",
            f"{row['held_psnr']:.1f}", f"{row['held_psnr_object']:.1f}",
            f"{row['held_psnr_inside']:.1f}", f"{row['faces']:,}", f"{row['seconds']:.0f}",
        ]
        for row in found["rows"]
    ]  # fmt: skip
    write_block("results/fits.md", "photos", table(head, rows))


def figure_costs() -> None:
    """What benchmarks/fit_costs.py left in docs/results."""
    file = DOCS / "results" / "fit-costs.json"
    if not file.exists():
        line = "Not measured yet: `python benchmarks/fit_costs.py --out docs/results` does it."
        write_block("results/photos.md", "fit-costs", [line])
        return
    found = json.loads(file.read_text(encoding="utf-8"))
    head = ["views", "size", "edges", "faces", "seconds", "seconds a step", "peak memory", "IoU",
            "texture: seconds", "peak memory"]  # fmt: skip

    def of(row: dict[str, Any]) -> list[str]:
        peaks = (row[name] for name in ("peak_bytes", "color_peak_bytes"))
        memory = ["" if peak is None else f"{peak / 2**20:,.0f} MiB" for peak in peaks]
        return [
            f"{row['views']}", f"{row['size']}²",
            "automatic" if row["edge"] is None else f"{row['edge']:g} pixels", f"{row['faces']:,}",
            f"{row['seconds']:.0f}", f"{row['step_seconds']:.2f}", memory[0], f"{row['iou']:.3f}",
            f"{row['color_seconds']:.0f}", memory[1],
        ]  # fmt: skip

    order = sorted(found["rows"], key=lambda row: (row["edge"] or 0, row["size"], row["views"]))
    write_block("results/photos.md", "fit-costs", table(head, [of(row) for row in order]))
    head = ["size", "seconds: shape", "texture", "peak memory"]
    rows = [
        [
            f"{row['size']}²", f"{row['seconds']:.0f}", f"{row['color_seconds']:.0f}",
            f"{max(row['peak_bytes'] or 0, row['color_peak_bytes'] or 0) / 2**30:.1f} GiB",
        ]
        for row in order
        if row["edge"] is None and row["views"] == 48
    ]  # fmt: skip
    write_block("photos.md", "fit-costs-summary", table(head, rows))


def grouped(rows: list[dict[str, Any]], *keys: str) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Rows by some of their values, in the order in which these come."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return found


def spread(values: Sequence[float], form: str, unit: str = "") -> str:
    """The mean of some values, and their standard deviation if they are several."""
    mean = format(float(np.mean(values)), form)
    if len(values) == 1:
        return f"{mean}{unit}"
    return f"{mean} ± {format(float(np.std(values, ddof=1)), form)}{unit}"


def figure_bowl() -> None:
    """What benchmarks/bowl.py left in docs/results."""
    found = json.loads((DOCS / "results" / "bowl.json").read_text(encoding="utf-8"))
    head = ["object", "seeds", "depth error inside: silhouettes", "with colours",
            "chamfer: silhouettes", "with colours", "IoU, held-out", "with colours",
            "PSNR, held-out", "with colours", "moved", "seconds more"]  # fmt: skip
    rows = []
    for (name,), group in grouped(found["rows"], "name").items():
        cells = [name, f"{len(group)}"]
        for key, factor, form, unit in (
            ("depth", 100, ".2f", "%"), ("chamfer", 100, ".2f", "%"), ("iou", 1, ".3f", ""),
            ("psnr", 1, ".1f", ""),
        ):  # fmt: skip
            for state in ("before", "after"):
                values = [row[state][key] for row in group]
                known = values[0] is not None
                cells.append(spread([factor * v for v in values], form, unit) if known else "")
        moved = sum(row["improved"] for row in group)
        more = np.mean([row["seconds"]["refine"] for row in group])
        rows.append([*cells, f"{moved} of {len(group)}", f"{more:.0f}"])
    write_block("results/fits.md", "bowl", table(head, rows))


def figure_cameras() -> None:
    """What benchmarks/cameras.py left in docs/results."""
    found = json.loads((DOCS / "results" / "cameras.json").read_text(encoding="utf-8"))
    head = ["mesh", "from", "draws", "error, mean", "median", "worst", "under 0.3°",
            "hull IoU, given", "refined", "seconds"]  # fmt: skip
    rows = []
    for (mesh, way), group in grouped(found["rows"], "mesh", "way").items():
        rows.append([
            mesh, way, f"{len(group)}", spread([row["mean"] for row in group], ".2f", "°"),
            spread([row["median"] for row in group], ".2f", "°"),
            f"{max(row['max'] for row in group):.2f}°",
            f"{np.mean([row['share'] for row in group]):.0%}",
            spread([row["iou"][0] for row in group], ".3f"),
            spread([row["iou"][1] for row in group], ".3f"),
            f"{np.mean([row['seconds'] for row in group]):.0f}",
        ])  # fmt: skip
    write_block("results/photos.md", "cameras", table(head, rows))


def figure_reconstruction() -> None:
    """The table of the comparisons that experiments/reconstruction.py left in docs/results."""
    rows: list[list[str]] = []
    for path in sorted((DOCS / "results").glob("reconstruction-*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        base = found["rows"]["mean shape"]
        for name, row in found["rows"].items():
            for score, other in zip(row["scores"], base["scores"], strict=True):
                gain = np.subtract(score["each"], other["each"])
                error = gain.std(ddof=1) / len(gain) ** 0.5
                above = "" if row is base else f"{gain.mean():+.3f} ± {error:.3f}"
                rows.append(
                    [
                        score["name"], name, f"{found['trained_on'][score['name']]}",
                        f"{score['shapes']}", f"{score['iou']:.3f} ± {score['error']:.3f}", above,
                        f"{row['steps']}", f"{row['seconds'] / 60:.0f}",
                    ]
                )  # fmt: skip
    head = ["class", "method", "trained on", "tried on", "3D IoU", "above the mean shape", "steps",
            "minutes"]  # fmt: skip
    write_block("reconstruction.md", "reconstruction-results", table(head, rows))


def figure_composite() -> None:
    """What the softmax over depth does to colours and outlines, and what alpha does."""
    mesh = gendr.Mesh.load(DOCS.parent / "assets" / "teapot.obj").normalized()
    height, around = mesh.vertices[:, 1], torch.atan2(mesh.vertices[:, 2], mesh.vertices[:, 0])
    dark = (torch.sin(9 * height) * torch.sin(6 * around) > 0).float()[:, None]
    colours = dark * torch.tensor([0.16, 0.35, 0.6]) + (1 - dark) * torch.tensor([1.0, 0.85, 0.6])
    mesh = mesh.with_vertex_colors(colours)
    camera = gendr.look_at(3.6, 25.0, 20.0)
    close = {"near": 2.6, "far": 4.6}
    soft = {"dist": "logistic", "scale": "1px", "cutoff": 1e-4}
    kinds = {
        "hard": {"dist": "heaviside", "tconorm": "max", "shading": "hard"},
        "depth, γ = 0.001": {**soft, **close},
        "depth, γ = 0.03": {**soft, **close, "gamma": 0.03},
        "alpha, γ = 0.03": {**soft, **close, "gamma": 0.03, "composite": "alpha"},
    }
    cells, lines = [], []
    hard = gendr.Renderer(160, "heaviside", "max")(mesh, camera).alpha
    for options in kinds.values():
        out = gendr.Renderer(160, background=(0.75, 0.85, 0.75), lighting="headlight", **options)(
            mesh, camera
        )
        pixels = (out.rgb[0].permute(1, 2, 0).clamp(0, 1) * 255).round().to(torch.uint8).numpy()
        cells.append(Image.fromarray(pixels))
        away = (out.rgb - out.rgb[0, :, 0, 0][:, None, None]).abs().amax(1) > 0.1
        lines.append(float(away.sum() / hard.sum()))
    save(panel([cells], list(kinds), [""], text=12), "composite.png", 128)
    rows = [[n, f"{x:.2f}"] for n, x in zip(kinds, lines, strict=True)]
    head = ["", "area that differs from the background by 0.1 or more, of that covered"]
    write_block("rendering.md", "composite", table(head, rows))


def figure_sorting() -> None:
    """A sorting network, what swaps make of (x, 0), and the table of their properties."""
    import matplotlib.pyplot as plt

    from gendr.sorting import bitonic, draw, error_bound, is_monotonic

    axes = draw(bitonic(8))
    figure, colour = axes.figure, "#1f4e79"
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.35)
    box = axes.get_position()
    axes.set_position((box.x0, (box.y0 * height + 0.35) / (height + 0.35),
                       box.width, box.height * height / (height + 0.35)))  # fmt: skip
    keys = [
        plt.Line2D([], [], marker=mark, color=colour, lw=0, label=text)
        for mark, text in (("o", "gets the smaller value"), ("v", "gets the larger value"))
    ]
    figure.legend(handles=keys, loc="lower center", ncols=2, fontsize=8, frameon=False)
    save_plot(figure, "networks.png")

    figure, axis = plt.subplots(figsize=(6.5, 3.2))
    x = torch.linspace(-0.6, 2.5, 1001, dtype=torch.float64)
    shown = {"logistic": "#c43e28", "gaussian": "#f0a58f", "reciprocal": "#9ecae1",
             "cauchy": "#4292c6", "optimal": "#16345c"}  # fmt: skip
    axis.plot(x, x.clamp(max=0), color="0.6", lw=1, ls="--", label="min(x, 0)")
    for name, colour in shown.items():
        dist = gendr.distributions.get(name)
        slope = dist.pdf(torch.zeros((), dtype=torch.float64))
        axis.plot(x, x * dist.cdf(-x / slope), color=colour, lw=1.5, label=name)
    axis.set(xlim=(-0.6, 2.5), ylim=(-0.15, 0.26), xlabel="x", ylabel="soft min(x, 0)")
    axis.legend(fontsize=8, frameon=False, loc="lower right", ncols=2)
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    save_plot(figure, "swaps.png")

    rows = [
        [
            f"`{n}`",
            "yes" if is_monotonic(distribution()) else "no",
            f"{error_bound(distribution()):.4f}",
        ]
        for n, distribution in gendr.distributions.standard_distributions().items()
        if distribution.is_symmetric and n != "heaviside"
    ]
    head = ["distribution", "monotonic", "error bound at slope 1"]
    write_block("results/sorting.md", "sorting-properties", table(head, rows))


def figure_grids() -> None:
    """The heat maps of the laptop grid, of the table in docs/results."""
    from lab.engine.store import Result, Run
    from lab.report.figure import heat_map_figure
    from lab.report.summary import summarise

    with (DOCS / "results" / "grid-laptop.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for number, task in enumerate(dict.fromkeys(row["task"] for row in rows), 1):
        results = [
            Result(
                number, row["instance"], float(row["score"]), float(row["scale"]),
                float(row["learning_rate"]), float(row["seconds"]), row["version"], None, "",
            )
            for row in rows
            if row["task"] == task
        ]  # fmt: skip
        figure = heat_map_figure(summarise(Run(number, task, "", 0, "", "", "laptop"), results))
        save_maps(figure, f"grid-{task}.png")


def figure_rounds() -> None:
    """The study: heat maps of its first round, and its comparisons with their intervals."""
    import matplotlib.pyplot as plt

    from lab.report.figure import heat_map_figure
    from lab.report.summary import load_summaries

    folder, drawn = DOCS / "results" / "rounds", set[str]()
    for summary in load_summaries(folder):
        if summary.run.task not in drawn:  # round 1
            save_maps(heat_map_figure(summary), f"rounds-{summary.run.task}.png")
            drawn.add(summary.run.task)
    figure, axes = plt.subplots(
        1, 2, figsize=(12.5, 6.0), gridspec_kw={"width_ratios": [4, 3]}, layout="constrained"
    )
    _comparisons(axes[0])
    _ten_objects(axes[1])
    save_plot(figure, "study_forest.png")


def _comparisons(axis) -> None:
    """A forest plot of the comparisons for shapes, with both of their intervals."""
    from lab.report.inference import Effect

    with (DOCS / "results" / "claims.csv").open(newline="") as file:
        rows = [
            row for row in csv.DictReader(file) if row["task"] == "shape" and row["limit"] == "0"
        ]
    for place, row in enumerate(rows):
        value = float(row["value"])
        for way, style in (("own", {"color": "#c9c9c9", "lw": 2}), ("mixed", {"color": "#2f6fb0"})):
            effect = Effect(value, float(row[f"{way}_error"]), float(row[f"{way}_freedom"]))
            axis.plot(effect.interval(), [place, place], zorder=1, **style)
        decided = float(row["mixed_p"]) < 0.05
        axis.plot(
            value, place, "o", ms=6, mec="#2f6fb0", mfc="#2f6fb0" if decided else "white", zorder=2
        )  # fmt: skip
    axis.set_yticks(range(len(rows)), [row["comparison"] for row in rows], fontsize=8)
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.set_xlim(-0.25, 0.5)
    axis.axvline(0, color="#888888", lw=0.8)
    axis.set_xlabel("difference in mean hard IoU")
    axis.set_title(
        "Shape, round 1: 95 % intervals by the mixed model (blue)\nand from the comparison alone "
        "(grey); full: adjusted p < .05", loc="left", fontsize=10,
    )  # fmt: skip
    axis.spines[["top", "right"]].set_visible(False)


def _ten_objects(axis) -> None:
    """A forest plot of the comparisons on ten objects, both tasks beside each other."""
    from lab.report.ten import TenObjects, contrasts

    folder = DOCS / "results" / "ten-objects"
    found = contrasts(
        *(TenObjects.read(folder / f"{task}.csv", task) for task in ("shape", "pose"))
    )
    names = [one.name for one in found["shape"]]
    for task, color, shift in (("shape", "#2f6fb0", -0.15), ("pose", "#c43e28", 0.15)):
        for one in found[task]:
            place = names.index(one.name) + shift
            axis.plot(one.effect.interval(), [place, place], color=color, lw=1.6, zorder=1)
            face = color if one.p < 0.05 else "white"
            axis.plot(one.effect.value, place, "o", ms=5, mec=color, mfc=face, zorder=2)
        axis.plot([], [], "o-", color=color, ms=5, label=task)
    axis.set_yticks(range(len(names)), [n.replace("/probabilistic", "") for n in names], fontsize=8)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.axvline(0, color="#888888", lw=0.8)
    axis.set_xlabel("difference in mean hard IoU or in poses found")
    axis.set_title(
        "Ten objects, settings chosen on others:\n95 % intervals; full: adjusted p < .05",
        loc="left", fontsize=10,
    )  # fmt: skip
    axis.legend(fontsize=8, frameon=False, loc="lower right")
    axis.spines[["top", "right"]].set_visible(False)


def save_maps(figure, name: str) -> None:
    """Write heat maps of a grid beside its tables."""
    path = DOCS / "results" / name
    figure.savefig(path, dpi=150, metadata={"Software": None})
    print(f"{path.relative_to(DOCS.parent)}  {path.stat().st_size / 1e3:.0f} kB")


HOUSE = (
    (("cli", "gendr fit, render, …"),),
    (
        ("photos", "photographs to meshes, poses, scenes"),
        ("splatting", "another door to it"),
    ),
    (("jobs", "long work: its loop, checkpoints, settings; trainings"),),
    (
        ("losses", "images, meshes"),
        ("optim", "optimisers"),
    ),
    (
        ("rendering", "images"),
        ("soft", "sign, …"),
        ("sorting", "sorts, ranks"),
        ("topk", "of sorts"),
        ("transport", "Sinkhorn"),
        ("relaxed", "programs"),
        ("logic", "gates"),
        ("…", "the next"),
    ),
    (
        ("mesh", "meshes, cameras, files"),
        ("distributions", "F(z)"),
        ("tnorms", "or, and"),
        ("primitives", "hard rasteriser"),
    ),
    (("kernels", "the operator layer, choice of a backend, Numba, Triton, threads"),),
    (("_common", "checks, registry, files, names, transforms of torch"),),
)


def figure_house() -> None:
    """The parts of the package: a part imports from the floors below its own."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8.6, 6.1))
    shades = (
        "#ead9f0",
        "#f3d9d3",
        "#f3e0d3",
        "#f7e8c9",
        "#d3e4f3",
        "#d9ead6",
        "#e4e4e4",
        "#d6d6d6",
    )
    for floor, (parts, shade) in enumerate(zip(reversed(HOUSE), reversed(shades), strict=True)):
        width = 12 / len(parts)
        for i, (name, what) in enumerate(parts):
            dashed = name == "…"
            box = plt.Rectangle(
                (i * width + 0.08, floor + 0.08), width - 0.16, 0.84, lw=0.8,
                facecolor="none" if dashed else shade, edgecolor="0.45",
                linestyle="--" if dashed else "-",
            )  # fmt: skip
            axis.add_patch(box)
            middle = (i + 0.5) * width
            axis.text(middle, floor + 0.6, name, ha="center", va="center", size=11, weight="bold")
            axis.text(middle, floor + 0.3, what, ha="center", va="center", size=8.5, color="0.25")
    axis.set(xlim=(0, 12), ylim=(0, len(HOUSE)))
    axis.set_axis_off()
    figure.tight_layout(pad=0.2)
    save_plot(figure, "house.png")


FIGURES: dict[str, Callable[[], None]] = {
    "scale": figure_scale,
    "tessellation": figure_tessellation,
    "curves": figure_curves,
    "family": figure_family,
    "cdfs": figure_cdfs,
    "tconorms": figure_tconorms,
    "fit": figure_fit,
    "ten-lines": figure_ten_lines,
    "peers": figure_peers,
    "starts": figure_starts,
    "poses": figure_poses,
    "photos": figure_photos,
    "sample": figure_sample,
    "objects": figure_objects,
    "costs": figure_costs,
    "bowl": figure_bowl,
    "cameras": figure_cameras,
    "reconstruction": figure_reconstruction,
    "composite": figure_composite,
    "sorting": figure_sorting,
    "grids": figure_grids,
    "rounds": figure_rounds,
    "house": figure_house,
}


def main(doc: str | None, figures: Mapping[str, Callable[[], None]]) -> None:
    """Make what the command line names, or everything.

    Args:
        doc: the docstring of the script.
        figures: by name, what makes them.
    """
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(figures))
    names = parser.parse_args().names
    if unknown := set(names) - set(figures):
        parser.error(f"unknown figure {unknown.pop()!r}; there are {', '.join(figures)}")
    for name in names or figures:
        figures[name]()


if __name__ == "__main__":
    main(__doc__, FIGURES)
