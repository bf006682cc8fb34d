"""`gendr render`."""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import torch
from torch import Tensor

from gendr._common.checks import check_choice
from gendr._common.files import write_whole
from gendr.cli.common import check_effect, model_file
from gendr.cli.parser import Render
from gendr.jobs.defaults import SHAPE
from gendr.jobs.devices import usable_device
from gendr.jobs.folders import writable_folder
from gendr.mesh import Mesh
from gendr.photos import visual
from gendr.photos.views import color_of

# Endings of image files, and Pillow's names of their formats.
FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".gif": "GIF"}


def run(args: Render) -> int:
    """Run `gendr render` and return the exit status."""
    from tqdm import tqdm

    device = usable_device(args.device)
    path = Path(args.output)
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise ValueError(f"the output must end in {', '.join(FORMATS)}, got {args.output!r}")
    turntable = kind == ".gif"
    check_effect(args, (not turntable, "frames", f"{args.output} is no turntable, a .gif"))
    azimuths = list(args.azimuth)
    if turntable and len(azimuths) > 1:
        raise ValueError(f"a turntable starts at one --azimuth, got {len(azimuths)}")
    background = _background(args.background, kind)
    options = _options(args)
    model = model_file(args.model)
    mesh = Mesh.load(model, max_megapixels=args.max_megapixels, device=device)
    if path.is_file() and _names(model, path):
        raise ValueError(f"{path} is a texture of {model}, which would be lost; choose another -o")
    writable_folder(path.parent)
    if args.mipmaps and mesh.texture is None:
        warnings.warn("--mipmaps average textures, and this mesh has none", stacklevel=2)
    if turntable:
        frames = args.frames or 36
        azimuths = [azimuths[0] + 360 * i / frames for i in range(frames)]
    camera = visual.orbit(mesh, azimuths, args.elevation, args.fov, visual.CLOSE_FILL)
    images = []
    for i in tqdm(range(len(camera)), "render", disable=args.quiet or len(camera) < 3):
        rgb, alpha = visual.render_views(mesh, camera[i], args.size, options)
        if i == 0 and "dist" in options:
            crisp = visual.render_views(mesh, camera[i], args.size)[1]
            _warn_of_blanks(alpha, crisp == 1, options["dist"])
        images.append(_pixels(rgb, alpha, background))
    if turntable:
        content = visual.gif(images, seconds=max(0.02, 2.4 / len(images)))
    else:
        content = visual.picture(np.concatenate(images, 1), FORMATS[kind])
    write_whole(path, content)
    if not args.quiet:
        sys.stdout.write(f"{path}\n")
    return 0


def _names(model: Path, image: Path) -> bool:
    """Whether a model, or a library of materials beside it, names an image, in any case."""
    folder, image = model.parent.resolve(), image.resolve()
    if folder.anchor != image.anchor:  # another drive
        return False
    name = os.path.relpath(image, folder).replace(os.sep, "/").lower()
    spellings = "|".join(re.escape(each) for each in {name, quote(name).lower()})
    # No part of another name: lava.png is not a.png.
    named = re.compile(rf"(?<![\w.-])(?:{spellings})(?![\w-])".encode())
    files = [model, *model.parent.glob("*.[mM][tT][lL]")]
    texts = (file.read_bytes().lower().replace(b"\\", b"/") for file in files if file.is_file())
    return any(named.search(text) for text in texts)


def _options(args: Render) -> dict[str, Any]:
    """Arguments of the renderer, checked before anything is loaded."""
    from gendr.rendering import Renderer

    options: dict[str, Any] = {
        "lighting": args.lighting, "backend": args.backend, "mipmaps": args.mipmaps
    }  # fmt: skip
    soft = args.dist, args.tconorm, args.scale, args.gamma, args.cutoff
    if any(value is not None for value in soft):
        options["dist"] = args.dist or SHAPE[0]
        options["tconorm"] = args.tconorm or SHAPE[1]
        options["scale"] = "2px" if args.scale is None else args.scale
        options["cutoff"] = 1e-3 if args.cutoff is None else args.cutoff
        options["gamma"] = visual.GAMMA if args.gamma is None else args.gamma
    Renderer(args.size, **options)
    return options


def _warn_of_blanks(alpha: Tensor, covered: Tensor, dist: str) -> None:
    """Say if a tenth of what faces cover rounds to nothing in 8 bits."""
    share = float((covered & (alpha < 0.5 / 255)).sum() / covered.sum().clamp(min=1))
    if share > 0.1:
        warnings.warn(
            f"{share:.0%} of what the mesh covers is blank: its faces are too narrow for what "
            f"{dist} gives inside of them; take a smaller --scale or --cutoff, or a distribution "
            "that is centred",
            stacklevel=2,
        )


def _background(text: str, kind: str) -> tuple[int, int, int] | None:
    """The colour as RGB in 0 .. 255, or None for transparent."""
    if text == "transparent":
        check_choice("format with transparency", kind, (".png",))
        return None
    red, green, blue = (round(255 * part) for part in color_of(text))
    return red, green, blue


def _pixels(rgb: Tensor, alpha: Tensor, background: tuple[int, int, int] | None) -> visual.Pixels:
    """The first view as [H, W, 3], or as [H, W, 4] if the background is transparent."""
    if background is not None:
        return visual.composited(rgb, alpha, background)[0]
    straight = (rgb / alpha[:, None].clamp(min=1e-6)).clamp(0, 1)
    image = torch.cat([straight, alpha[:, None]], 1)[0].permute(1, 2, 0)
    return (image * 255).round().to(torch.uint8).cpu().numpy()
