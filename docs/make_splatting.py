"""How a training turns soft triangles into a picture; draws docs/images/splatting_stages.png.

    python docs/make_splatting.py PHOTOS

One minute on a folder of photos with cameras, the first picture that is held out: the start, parts
of the way, every tenth triangle of the end, and the opaque triangles that hard renderers take.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
from pathlib import Path

from PIL import Image
from torch import Tensor

from gendr import visual
from gendr._runtime.threads import torch_on_one_thread
from gendr.losses import psnr
from gendr.splatting import Splats, SplatSettings, fit_splats, load_photos, opaque_splats
from gendr.splatting.pictures import drawn, hard_views, pixels
from gendr.splatting.training import SplatTraining, start_from

IMAGE = Path(__file__).parent / "images" / "splatting_stages.png"
SECONDS, SIDE = 60.0, 200
PARTS = (0.02, 0.2, 1.0)
COLOURS = 192  # of the file


def main() -> None:
    """Train and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", help="a folder of photos with cameras")
    args = parser.parse_args()
    train, held_out = load_photos(args.photos, size=SIDE).split()
    settings = SplatSettings(budget=SECONDS, evaluate_every=1.0)
    start = start_from(train, settings)
    stages: list[tuple[str, Splats]] = [("start", start)]
    left = list(PARTS)

    def keep(training: SplatTraining) -> None:
        if left and training.progress >= left[0]:
            stages.append((f"{SECONDS * left.pop(0):.0f} s", training.splats()))

    with torch_on_one_thread():
        training = fit_splats(train, settings, init=start, callback=keep)
        firm = opaque_splats(training)
    camera, size, photo = held_out.camera[0], held_out.image_size, held_out.images[0]
    tiles: list[tuple[str, Tensor]] = [("photo, held out", photo)]
    tiles += [(f"{name}, {len(splats):,}", drawn(splats, camera, size)[0])
              for name, splats in stages]  # fmt: skip
    tiles.append(("every tenth of them", drawn(stages[-1][1][::10], camera, size)[0]))
    tiles.append((f"opaque, {len(firm):,}", hard_views(firm, camera, size)[0]))
    page = visual.Page(len(tiles) * (SIDE + 8) + 16, SIDE + 62)
    for i, (name, image) in enumerate(tiles):
        x = 12 + i * (SIDE + 8)
        page.text(x + SIDE // 2, 10, name, 14, visual.INK, "ma")
        page.tile(pixels(image, SIDE), x, 32)
        if i:
            score = float(psnr(image, photo))
            page.text(x + SIDE // 2, SIDE + 38, f"{score:.1f} dB", 13, visual.FAINT, "ma")
    picture = Image.fromarray(page.pixels()).quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(IMAGE, optimize=True)


if __name__ == "__main__":
    main()
