"""Pictures of splatting, in docs/images.

    python docs/make_splatting.py           splatting_distributions.png
    python docs/make_splatting.py PHOTOS    splatting_stages.png and splatting_walk.gif too
    python docs/make_splatting.py PHOTOS --trained OUT      splatting_opaque.png alone

Differences of distributions and T-conorms, of docs/results/splatting-effects.json. And how a
training turns soft triangles into a picture: one minute on a folder of photos with cameras, the
first picture that is held out: the start, parts of the way, every tenth triangle of the end, and
the opaque triangles that hard renderers take. And a walk around what was trained in so many steps,
beside the nearest of the photos that were held out. Of a folder that `gendr splat PHOTOS -o OUT`
wrote: photos held out, the soft triangles and the GLB from there.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import json
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor

from gendr.kernels.threads import torch_on_one_thread
from gendr.losses import psnr
from gendr.mesh import Mesh
from gendr.photos import visual
from gendr.photos.splatting import (
    Splats,
    SplatSettings,
    camera_path,
    fit_splats,
    fit_triangles,
    load_photos,
)
from gendr.photos.splatting.pictures import hard_views, pixels, rendered
from gendr.photos.splatting.training import SplatTraining, start_from

IMAGES = Path(__file__).parent / "images"
EFFECTS = Path(__file__).parent / "results" / "splatting-effects.json"
SECONDS, SIDE = 60.0, 200
PARTS = (0.02, 0.2, 1.0)
COLOURS = 192  # of the file
WALK_SIDE, WALK_STEPS, FRAMES = 240, 1500, 40
LEAST, MOST = -1.6, 0.6  # dB, of the axis


def main() -> None:
    """Draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", nargs="?", help="a folder of photos with cameras")
    parser.add_argument("--trained", type=Path, help="what gendr splat wrote for them")
    args = parser.parse_args()
    if args.trained is not None:
        save_opaque(args.photos, args.trained)
        return
    save_distributions(json.loads(EFFECTS.read_text()))
    if args.photos is not None:
        save_stages(args.photos)
        save_walk(args.photos)


def save_distributions(effects: dict[str, list[tuple[str, float, float]]]) -> None:
    """A forest of differences: of distributions twice, and of T-conorms."""
    import matplotlib.pyplot as plt

    panels = {
        "steps": "distributions,\nequal steps,\nless uniform",
        "seconds": "distributions,\nequal time,\nless uniform",
        "tconorms": "T-conorms, equal steps,\nless alpha blending",
    }  # fmt: skip
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
    for axis, (key, title) in zip(axes, panels.items(), strict=True):
        draw_forest(axis, [row for row in effects[key] if row[1:] != [0.0, 0.0]])
        axis.set_title(title, loc="left", fontsize=10)
    figure.savefig(IMAGES / "splatting_distributions.png", dpi=110, metadata={"Software": None})
    plt.close(figure)


def draw_forest(axis: Any, rows: list[tuple[str, float, float]]) -> None:
    """Names, differences and their errors, best first; what is far off is written at the edge."""
    axis.axvline(0, color="#888888", linewidth=1, zorder=0)
    for i, (_, mean, error) in enumerate(rows):
        if mean < LEAST:
            axis.annotate(f"◂ {mean:.1f} ± {error:.1f}", (LEAST, i), va="center", fontsize=8)
            continue
        tells = abs(mean) > 2 * error
        color = "#8fb0d3" if not tells else "#2f6fb0" if mean > 0 else "#b0562f"
        axis.errorbar(mean, i, xerr=error, fmt="o", color=color, markersize=4.5)
    axis.set_yticks(range(len(rows)), [name for name, _, _ in rows], fontsize=8)
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.set_xlim(LEAST, MOST)
    axis.set_xlabel("dB", fontsize=8)
    axis.tick_params(axis="x", labelsize=8)
    axis.grid(axis="x", color="#e5e5e5")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def save_stages(folder: str) -> None:
    """Train and draw."""
    train, held_out = load_photos(folder, size=SIDE).split()
    settings = SplatSettings(budget=SECONDS, evaluate_every=1.0)
    start = start_from(train, settings)
    stages: list[tuple[str, Splats]] = [("start", start)]
    left = list(PARTS)

    def keep(training: SplatTraining) -> None:
        if left and training.progress >= left[0]:
            stages.append((f"{SECONDS * left.pop(0):.0f} s", training.splats()))

    with torch_on_one_thread():
        training = fit_splats(train, settings, init=start, callback=keep)
        firm = fit_triangles(train, settings, training.splats()).mesh()
    camera, size, photo = held_out.camera[0], held_out.image_size, held_out.images[0]
    tiles: list[tuple[str, Tensor]] = [("photo, held out", photo)]
    tiles += [(f"{name}, {len(splats):,}", rendered(splats, camera, size)[0])
              for name, splats in stages]  # fmt: skip
    tiles.append(("every tenth of them", rendered(stages[-1][1][::10], camera, size)[0]))
    behind = training.splats().behind(size)
    tiles.append((f"opaque, {len(firm.faces):,}", hard_views(firm, behind, camera)[0]))
    page = visual.Page(len(tiles) * (SIDE + 8) + 16, SIDE + 62)
    for i, (name, image) in enumerate(tiles):
        x = 12 + i * (SIDE + 8)
        page.text(x + SIDE // 2, 10, name, 14, visual.INK, "ma")
        page.tile(pixels(image, SIDE), x, 32)
        if i:
            score = float(psnr(image, photo))
            page.text(x + SIDE // 2, SIDE + 38, f"{score:.1f} dB", 13, visual.FAINT, "ma")
    picture = Image.fromarray(page.pixels()).quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(IMAGES / "splatting_stages.png", optimize=True)


def save_opaque(folder: str, trained: Path) -> None:
    """Photos held out, soft triangles and the mesh for programs, of a training of the command."""
    size = json.loads((trained / "metrics.json").read_text())["image_size"]
    held_out = load_photos(folder, size=tuple(size)).split()[1]
    splats, mesh = Splats.load(trained / "splats.npz"), Mesh.load(trained / "splats.glb")
    chosen = held_out[visual.spread(len(held_out), 2)]
    behind, camera = splats.behind(chosen.image_size), chosen.camera
    rows = zip(
        chosen.images,
        [rendered(splats, camera[i], chosen.image_size)[0] for i in range(len(chosen))],
        hard_views(mesh, behind, camera), strict=True,
    )  # fmt: skip
    side = int(0.8 * chosen.image_size[1])
    page = visual.Page(3 * (side + 8) + 16, len(chosen) * (side + 30) + 34)
    for row, images in enumerate(rows):
        names = ("photo, held out", f"{len(splats):,} soft triangles",
                 f"{len(mesh.faces):,} opaque ones, GLB")  # fmt: skip
        for column, (name, image) in enumerate(zip(names, images, strict=True)):
            x, y = 12 + column * (side + 8), 32 + row * (side + 30)
            if row == 0:
                page.text(x + side // 2, 10, name, 15, visual.INK, "ma")
            page.tile(pixels(image, side), x, y)
            if column:
                score = f"{float(psnr(image, images[0])):.1f} dB"
                page.text(x + side // 2, y + side + 6, score, 13, visual.FAINT, "ma")
    picture = Image.fromarray(page.pixels()).quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(IMAGES / "splatting_opaque.png", optimize=True)


def save_walk(folder: str) -> None:
    """Train and film."""
    train, held_out = load_photos(folder, size=WALK_SIDE).split()
    with torch_on_one_thread():
        training = fit_splats(train, SplatSettings(steps=WALK_STEPS, evaluate_every=1.0))
    splats, size = training.splats(), held_out.image_size
    path = camera_path(train.camera, FRAMES)
    height, width = size
    frames = []
    for i in range(FRAMES):
        near = int((held_out.camera.eye - path.eye[i]).norm(dim=-1).argmin())
        page = visual.Page(2 * width + 24, height + 34)
        page.text(8 + width // 2, 7, "nearest photo, held out", 13, visual.INK, "ma")
        title = f"{len(splats):,} soft triangles"
        page.text(16 + width + width // 2, 7, title, 13, visual.INK, "ma")
        page.tile(pixels(held_out.images[near], width), 8, 26)
        page.tile(pixels(rendered(splats, path[i], size)[0], width), 16 + width, 26)
        frames.append(page.pixels())
    (IMAGES / "splatting_walk.gif").write_bytes(visual.gif(frames, seconds=0.12))


if __name__ == "__main__":
    main()
