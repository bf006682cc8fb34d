"""Cameras that `gendr fit --refine cameras` puts right."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from gendr.cli.common import as_json, model_file, percent_bar
from gendr.cli.parser import Fit
from gendr.cli.stages import Stages
from gendr.fitting.cameras.refine import CameraResult, refine_cameras
from gendr.mesh import Camera
from gendr.mesh.camera_files.transforms import intrinsics_of, list_frames, read_cameras
from gendr.mesh.views import Views

__all__ = ["CAMERAS", "camera_facts", "opencv_file", "refined"]

# The file of refined cameras, in the reader's own form of OpenCV's matrices.
CAMERAS = "cameras.json"


def refined(args: Fit, views: Views, stages: Stages) -> CameraResult:
    """The cameras put right, with a progress bar, and a line about what was found."""
    focal, given = "focal" in args.refine, views.camera
    tensors = [views.masks, given.rotation, given.translation, given.focal, given.principal]
    if views.rgb is not None:
        tensors.append(views.rgb)
    with percent_bar("cameras", args.quiet) as tell:

        def compute(keep: Any, resume: Any) -> CameraResult:
            return refine_cameras(
                views.masks, given, views.rgb, focal=focal, callback=tell, keep=keep, resume=resume
            )

        def unpacked(values: Mapping[str, Any]) -> CameraResult:
            camera = Camera(*(part.to(given.device) for part in values["camera"]))
            return CameraResult(**dict(values, camera=camera))

        found = stages.run("cameras", tuple(tensors), {"focal": focal}, compute, _packed, unpacked)
    if not args.quiet:
        sys.stderr.write(f"gendr: {_line(found)}\n")
    return found


def _packed(found: CameraResult) -> dict[str, Any]:
    camera = found.camera
    parts = camera.rotation, camera.translation, camera.focal, camera.principal
    return {**{f.name: getattr(found, f.name) for f in fields(found)}, "camera": parts}


def _line(found: CameraResult) -> str:
    if not found.refined:
        return (
            "the cameras are kept as they were given: others do not agree better with the masks "
            f"(outlines differ by {found.gap[0]:.2g} pixels)"
        )
    focal = "" if found.focal == 1 else f", focal lengths times {found.focal:.4f}"
    return (
        f"cameras turned by {float(found.degrees.mean()):.2g} degrees on average{focal}; outlines "
        f"differ by {found.gap[1]:.2g} pixels, {found.gap[0]:.2g} before"
    )


def camera_facts(found: CameraResult) -> dict[str, Any]:
    """What `metrics.json` says about cameras that were put right."""
    return {
        "refined": found.refined,
        "degrees": found.degrees.tolist(),
        "moved": found.moved.tolist(),
        "focal": found.focal,
        "gap": found.gap,
        "hull_iou": found.iou,
        "color_error": found.color_error,
    }


def opencv_file(args: Fit, found: CameraResult) -> bytes:
    """Cameras of a folder as `gendr fit` reads them, for images of the sizes that they have there.

    Paths are relative to the folder of the photos, where the file belongs.
    """
    cameras = read_cameras(model_file(args.target))
    rotations, shifts, _ = found.camera.to_opencv(2)  # which does not depend on the size
    entries: list[dict[str, Any]] = []
    for i, frame in enumerate(list_frames(cameras, args.max_megapixels)):
        fx, fy, cx, cy = intrinsics_of(cameras.meta, frame, frame.size)
        entry: dict[str, Any] = {
            "file": _within(frame.image, cameras.root),
            "width": frame.size[1],
            "height": frame.size[0],
            "K": [[fx * found.focal, 0, cx], [0, fy * found.focal, cy], [0, 0, 1]],
            "R": rotations[i].tolist(),
            "t": shifts[i].tolist(),
        }
        if frame.mask is not None:
            entry["mask"] = _within(frame.mask, cameras.root)
        entries.append(entry)
    return as_json({"images": entries})


def _within(path: Path, root: Path) -> str:
    return Path(os.path.relpath(path, root)).as_posix()
