"""The colours of a fitted mesh, for `gendr fit`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gendr import visual
from gendr.cli.common import percent_bar
from gendr.cli.parser import Fit
from gendr.cli.stages import Stages
from gendr.fitting.colors.fit import ColorResult, fit_colors
from gendr.mesh import Mesh
from gendr.mesh.unwrapping import INSTALL, can_unwrap
from gendr.mesh.views import Views

# File names, beside the OBJ.
TEXTURED, COLORED, TURNTABLE = "fit.glb", "fit.ply", "turntable.gif"
# Shorter side in pixels of the photos that colours are taken from, unless --color-size says more.
COLOR_SIZE = 512
# The turntable: views, their size in pixels, and their elevation in degrees.
FRAMES, SIZE, ELEVATION = 36, 256, 15.0


def kind_of(args: Fit, views: Views | None) -> str:
    """What is to carry the colours: "texture", "vertex" or "none".

    Raises:
        ValueError: If colours are asked for and there are none.
        RuntimeError: If a texture is asked for and xatlas is not installed.
    """
    wanted = args.colors
    if views is None or views.rgb is None:
        if wanted not in (None, "none"):
            what = "a mesh" if views is None else "masks without colours"
            raise ValueError(
                f"--colors {wanted} needs photos, and {args.target} is {what}; leave it out"
            )
        return "none"
    if wanted == "texture" and not can_unwrap():
        raise RuntimeError(
            f"--colors texture needs xatlas, which is not installed: {INSTALL}; or --colors vertex"
        )
    if wanted is None and not can_unwrap():
        if not args.quiet:
            sys.stderr.write(f"gendr: vertex colours; for a texture install xatlas: {INSTALL}\n")
        return "vertex"
    return wanted or "texture"


def colored(args: Fit, mesh: Mesh, views: Views, kind: str, stages: Stages) -> ColorResult:
    """The mesh with the colours of the photos, with a progress bar."""
    rgb, camera, masks = views.rgb, views.camera, views.masks
    assert rgb is not None  # as `kind_of` found
    options: dict[str, Any] = {
        "kind": kind,
        "texture_size": args.texture_size,
        "exposure": args.exposure,
    }
    poses = camera.rotation, camera.translation, camera.focal, camera.principal
    with percent_bar("colours", args.quiet) as tell:

        def compute(*_: Any) -> ColorResult:
            return fit_colors(mesh, rgb, camera, masks, callback=tell, **options)

        def unpacked(values: Mapping[str, Any]) -> ColorResult:
            there = {k: None if v is None else v.to(mesh.device) for k, v in values["mesh"].items()}
            painted = mesh.with_uvs(there["uvs"], there["face_uvs"])
            painted = painted.with_texture(there["texture"])
            painted = painted.with_vertex_colors(there["vertex_colors"]).with_unlit()
            exposure, psnr = (values[name].to(mesh.device) for name in ("exposure", "psnr"))
            return ColorResult(painted, exposure, psnr, values["seen"])

        given = (mesh.vertices, mesh.faces, rgb, masks, *poses)
        return stages.run("colors", given, options, compute, _packed, unpacked)


def _packed(found: ColorResult) -> dict[str, Any]:
    names = ("uvs", "face_uvs", "texture", "vertex_colors")
    parts = {name: getattr(found.mesh, name) for name in names}
    return {"mesh": parts, "exposure": found.exposure, "psnr": found.psnr, "seen": found.seen}


def facts(result: ColorResult, views: Views, kind: str) -> dict[str, Any]:
    """What `metrics.json` says about the colours."""
    texture = result.mesh.texture
    return {
        "kind": kind,
        "texture_size": None if texture is None else list(texture.shape[:2]),
        "image_size": list(views.image_size),
        "psnr": float(result.psnr.double().mean()),
        "psnr_per_view": [round(float(x), 3) for x in result.psnr],
        "seen": result.seen,
        "exposure": result.exposure.double().round(decimals=5).tolist(),
    }


def color_files(mesh: Mesh, out: Path, quiet: bool) -> dict[Path, bytes]:
    """The coloured mesh for other programs, and a turntable of it."""
    from tqdm import tqdm

    name = COLORED if mesh.texture is None else TEXTURED
    camera = visual.orbit(
        mesh, [360 * i / FRAMES for i in range(FRAMES)], ELEVATION, fill=visual.CLOSE_FILL
    )
    frames = [
        visual.composited(*visual.render_views(mesh, camera[i], SIZE, {"lighting": "none"}))[0]
        for i in tqdm(range(FRAMES), "turntable", disable=quiet, leave=False)
    ]
    return mesh.to_files(out / name) | {out / TURNTABLE: visual.gif(frames, seconds=2.4 / FRAMES)}
