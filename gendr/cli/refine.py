"""What `gendr fit --refine` does after the shape by silhouettes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from gendr import visual
from gendr.cli.common import percent_bar
from gendr.cli.parser import Fit
from gendr.cli.stages import Stages
from gendr.fitting import FitResult
from gendr.fitting.shape.refine import ShapeResult, refine_shape
from gendr.fitting.shape.sweeps import LEAST_VIEWS
from gendr.losses import iou
from gendr.mesh import Mesh
from gendr.mesh.views import Views


def check_rgb(args: Fit, views: Views | None) -> bool:
    """Whether colours are to move the surface.

    Raises:
        ValueError: If they are, and there are none or too few photos.
    """
    if "rgb" not in args.refine:
        return False
    if views is None or views.rgb is None:
        what = "a mesh" if views is None else "masks without colours"
        raise ValueError(f"--refine rgb needs photos, and {args.target} is {what}; leave it out")
    if len(views.masks) < LEAST_VIEWS:
        raise ValueError(
            f"--refine rgb needs at least {LEAST_VIEWS} photos, and {args.target} has "
            f"{len(views.masks)}; leave it out"
        )
    return True


def refined(
    args: Fit, result: FitResult, views: Views, stages: Stages
) -> tuple[FitResult, dict[str, Any]]:
    """The result with its surface moved by colours, and what `metrics.json` says about that."""
    assert views.rgb is not None  # as `check_rgb` found
    rgb, camera, masks, mesh = views.rgb, views.camera, views.masks, result.mesh
    parts = mesh.vertices, mesh.faces, mesh.origin[0]
    poses = camera.rotation, camera.translation, camera.focal, camera.principal
    with percent_bar("refine", args.quiet) as tell:

        def compute(keep: Any, resume: Any) -> ShapeResult:
            return refine_shape(
                mesh, rgb, camera, masks, budget=args.settings.budget, callback=tell, keep=keep,
                resume=resume,
            )  # fmt: skip

        def unpacked(values: Mapping[str, Any]) -> ShapeResult:
            moved = mesh
            if values["improved"]:
                vertices, faces = (part.to(mesh.device) for part in values["mesh"])
                moved = Mesh(vertices, faces).with_origin(mesh.origin[0])
            return ShapeResult(**dict(values, mesh=moved))

        given = (*parts, rgb, masks, *poses)
        found = stages.run("refine", given, {}, compute, _packed, unpacked)
    if not found.improved:
        return result, facts(found)
    alpha = visual.silhouettes(found.mesh, views.camera, views.image_size)
    each = iou(alpha, views.masks)
    metrics = {
        **result.metrics,
        "iou": float(each.double().mean()),
        "iou_per_view": [float(x) for x in each],
    }
    return replace(result, mesh=found.mesh, metrics=metrics), facts(found)


def _packed(found: ShapeResult) -> dict[str, Any]:
    values = {f.name: getattr(found, f.name) for f in fields(found)}
    return {**values, "mesh": (found.mesh.vertices, found.mesh.faces)}


def facts(found: ShapeResult) -> dict[str, Any]:
    """What `metrics.json` says about the refinement."""
    return {
        "rgb": {
            "improved": found.improved,
            "psnr": {"before": found.psnr[0], "after": found.psnr[1]},
            "iou": {"before": found.iou[0], "after": found.iou[1]},
            "moved": found.moved,
            "finished": found.finished,
        }
    }
