"""What the error of a textured mesh in photos is made of, for fits that `real_photos.py` has made.

    python benchmarks/real_photos.py FOLDER:EVERY --work WORK
    python benchmarks/colour_errors.py FOLDER:EVERY --work WORK --docs

The squared error over the object, in fitted photos and in those that were left out: where only mesh
or only photo shows the object; up to three pixels inside that; and further inside, as it is and if
each photo were forgiven one factor per channel, what is off over eight pixels or more (light), or
the shift of every place by optical flow, smooth over four pixels (poses and shape) or as it is.

With --exposures the photos, at half size, get factors of 0.8 to 1.2 for each channel before they
are fitted as vertex colours, with and without exposures.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import json
import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from real_photos import MEASURES, drawn
from rows import Rows, measured_on
from scipy.ndimage import binary_erosion, gaussian_filter

import gendr
from gendr.losses import psnr
from gendr.mesh import Mesh
from gendr.photos.fitting.colors.light import HarmonicLight
from gendr.photos.views import Views, load_views
from lab.pages import fill, table

RESULTS = MEASURES.with_name("colour-errors.json")
SIZE, MOST = 512, 8
RIM, LIGHT, SMOOTH = 3, 8.0, 4.0  # pixels
TINTS = (0.8, 1.2)
PARTS = {
    "outline": "outlines differ", "rim": "near outlines", "inside": "inside",
    "gains": "with a factor a photo", "light": "without light", "registered": "registered",
    "flow": "with all flow",
}  # fmt: skip

Array = NDArray[Any]


def averaged(values: Array, where: Array, width: float) -> Array:
    """Means [H, W, C] of values around each pixel, of those somewhere."""
    total = gaussian_filter(where.astype(np.float64), width) + 1e-9
    channels = [gaussian_filter(values[..., c] * where, width) for c in range(values.shape[2])]
    return np.stack(channels, 2) / total[..., None]


def flowed(shown: Array, photo: Array, where: Array) -> Array:
    """How far [H, W, 2] a photo lies from a rendering, in pixels."""

    def grey(image: Array) -> Array:
        whole = (image * where[..., None] * 255).clip(0, 255).astype(np.uint8)
        return cv2.cvtColor(whole, cv2.COLOR_RGB2GRAY)

    method = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    method.setFinestScale(0)
    start = np.zeros((*where.shape, 2), np.float32)
    return method.calc(grey(photo), grey(shown), start)


def parts(shown: Array, cover: Array, photo: Array, mask: Array) -> dict[str, float]:
    """The parts of the mean squared error of one photo, over the object."""
    both = cover | mask
    inside = binary_erosion(cover & mask, iterations=RIM)

    def error(image: Array, where: Array) -> float:
        return float(((image - photo) ** 2).mean(2)[where].sum() / both.sum())

    def moved(by: Array) -> Array:
        y, x = np.mgrid[: both.shape[0], : both.shape[1]].astype(np.float32)
        x, y = (x + by[..., 0]).astype(np.float32), (y + by[..., 1]).astype(np.float32)
        return cv2.remap(shown.astype(np.float32), x, y, cv2.INTER_LINEAR)

    gains = (shown * photo)[inside].sum(0) / (shown**2)[inside].sum(0).clip(1e-9)
    flow = flowed(shown, photo, inside)
    return {
        "all": error(shown, both), "outline": error(shown, cover ^ mask),
        "rim": error(shown, cover & mask & ~inside), "inside": error(shown, inside),
        "gains": error(shown * gains, inside),
        "light": error(shown + averaged(photo - shown, inside, LIGHT), inside),
        "registered": error(moved(averaged(flow, inside, SMOOTH)), inside),
        "flow": error(moved(flow), inside),
    }  # fmt: skip


def split(mesh: Mesh, views: Views, light: HarmonicLight | None) -> dict[str, float]:
    """The means of the parts over photos."""
    assert views.rgb is not None  # for the type checker
    rgb, alpha = drawn(mesh, views.camera, views.image_size, light)
    found = []
    for i in range(len(views)):
        shown, photo = (x[i].permute(1, 2, 0).double().numpy() for x in (rgb, views.rgb))
        found.append(parts(shown, (alpha[i] > 0.5).numpy(), photo, (views.masks[i] > 0.5).numpy()))
    mean = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
    return {"psnr": float(np.mean([-10 * math.log10(one["all"]) for one in found])), **mean}


def read(text: str, work: Path, size: int) -> tuple[Path, Views, Views]:
    """The folder of a finished fit, its photos, and those that were left out."""
    path, every = text.split(":")
    place = work / Path(path).name
    alone = (place / "out" / "masks").is_dir()
    fitted = load_views(
        place / "photos", masks=place / "out" / "masks" if alone else None, size=size
    )
    held = load_views(path, masks=place / "masks" if alone else None, size=size)
    left = [i for i in range(len(held)) if i % int(every) == int(every) - 1]
    return place, fitted, held[left]


def tinted(mesh: Mesh, fitted: Views, held: Views) -> dict[str, list[float]]:
    """PSNR over the object of photos left out, with standard errors; and paired differences."""
    assert fitted.rgb is not None  # for the type checker
    assert held.rgb is not None
    least, most = TINTS
    generator = torch.Generator().manual_seed(0)
    tints = least + (most - least) * torch.rand(len(fitted), 3, generator=generator)
    tints = tints / tints.mean(0)
    dark = fitted.rgb * least * tints[:, :, None, None]
    bare, scores = Mesh(mesh.vertices, mesh.faces), {}
    for name, rgb, exposure, scale in (
        ("given, off", fitted.rgb, False, 1.0), ("given, chosen", fitted.rgb, None, 1.0),
        ("tinted, off", dark, False, least), ("tinted, chosen", dark, None, least),
    ):  # fmt: skip
        found = gendr.fit_colors(
            bare, rgb, fitted.camera, fitted.masks, kind="vertex", exposure=exposure
        )
        colors = found.mesh.vertex_colors
        assert colors is not None  # as was asked for
        shown = bare.with_vertex_colors((colors / scale).clamp(max=1))
        seen, alpha = drawn(shown, held.camera, held.image_size, found.light)
        scores[name] = psnr(seen, held.rgb, torch.maximum(alpha, held.masks) > 0.5)
    for kind in ("given", "tinted"):
        scores[f"{kind}, gain"] = scores[f"{kind}, chosen"] - scores[f"{kind}, off"]
    return {k: [float(x.mean()), float(x.std() / len(x) ** 0.5)] for k, x in scores.items()}


def lines(rows: list[dict[str, Any]], where: str) -> list[str]:
    """The table."""
    head = ["photos", "of", "PSNR, dB", *PARTS.values()]
    cells = [
        [row["photos"], row["of"], f"{row['psnr']:.1f}", *(f"{1e4 * row[k]:.0f}" for k in PARTS)]
        for row in rows
    ]
    return [*table(head, cells, left=2), "", where]


def main() -> None:
    """Measure, print, and write files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", metavar="FOLDER:EVERY")
    parser.add_argument("--work", type=Path, required=True, help="the folder of real_photos.py")
    parser.add_argument("--exposures", action="store_true", help="print a trial of those instead")
    parser.add_argument("--docs", action="store_true", help="write the table of the page")
    args = parser.parse_args()
    done = Rows()
    for text in args.folders:
        place, fitted, held = read(text, args.work, SIZE // 2 if args.exposures else SIZE)
        mesh = Mesh.load(place / "out" / "fit.glb")
        if args.exposures:
            done.add({"photos": place.name, **tinted(mesh, fitted, held)})
            continue
        found = json.loads((place / "out" / "metrics.json").read_text())["colors"]["light"]
        light = found and HarmonicLight(torch.tensor(found["coefficients"]), found["frame"])
        some = list(range(0, len(fitted), max(1, len(fitted) // MOST)))
        for name, views in (("fitted", fitted[some]), ("left out", held)):
            done.add({"photos": place.name, "of": name, **split(mesh, views, light)})
    if args.docs and not args.exposures:
        facts = measured_on()
        where = f"{facts['date']}, commit {facts['commit']}, {facts['machine']}."
        RESULTS.write_text(json.dumps({"rows": done.rows, **facts}, indent=1) + "\n")
        fill(MEASURES, "colour-errors", lines(done.rows, where))


if __name__ == "__main__":
    main()
