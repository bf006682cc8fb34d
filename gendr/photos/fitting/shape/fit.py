"""`fit`: checks its arguments and runs the fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from gendr._common.checks import check_choice
from gendr.jobs.devices import learns
from gendr.jobs.settings import changed
from gendr.mesh import Camera, Mesh
from gendr.photos.fitting.checks import check_views
from gendr.photos.fitting.shape.job import Job
from gendr.photos.fitting.shape.settings import FitSettings
from gendr.photos.fitting.shape.state import FitResult, FitState
from gendr.photos.meshing.hull import visual_hull

__all__ = ["fit"]

# A mask fills the border of its image if it is more of it than this.
_BORDER = 0.9


@learns
def fit(
    target_masks: Tensor,
    camera: Camera,
    settings: FitSettings | None = None,
    *,
    init: Mesh | Literal["sphere", "hull"] = "sphere",
    callback: Callable[[FitState], object] | None = None,
    resume: FitState | str | Path | None = None,
    **changes: Any,
) -> FitResult:
    """Fit a mesh to silhouettes.

    Args:
        target_masks: [B, H, W] in [0, 1]; soft edges are used as they are in the loss, and cut at
            0.5 for the IoU.
        camera: B cameras.
        settings: By default `FitSettings()`.
        init: What to start from, whose parts and holes are kept: a "sphere", placed and sized from
            what all cameras see; the visual "hull" of the masks, which has parts, holes and details
            already and is the better start from four views on; or one mesh, in the place of the
            world that its `origin` says, or, if the cameras have none, in their coordinates. Faces
            are kept too, unless the mesh is remeshed on the way (`settings.remesh`), as by default
            from a hull.
        callback: Called with the state after every step, for a bar (`state.progress`) and
            checkpoints (`state.save`). The state is a snapshot: an exception that the callback
            raises, KeyboardInterrupt included, ends the fit and leaves the state complete.
        resume: A state, or the path of a checkpoint, to continue from with the same arguments; the
            result equals that of an uninterrupted run, bit for bit, unless there is a `budget`.
            Only `steps` and `budget` may differ, also after a finished fit: the scale then moves
            from its present value to the end of its schedule in the steps that are left, and stays
            there if it has reached it.
        **changes: Fields of `settings` to replace, as in fit(.., steps=50, lr=0.05).

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If shapes, values or settings are wrong, all masks are empty, all masks fill
            their image, or (unless `init` is a mesh) its border, masks contradict each other, so
            that their hull is empty, a camera is inside the starting sphere, `init` has more than
            250,000 faces and is not remeshed, or `resume` belongs to another fit.

    Warns:
        UserWarning: If some masks fill their image, as if the camera were inside the object.
    """
    settings = changed(settings or FitSettings(), "setting of a fit", changes)
    check_views("target_masks", target_masks, "[B, H, W]", camera)
    _check_outlines(target_masks, inside=isinstance(init, Mesh))
    if isinstance(init, str):
        check_choice("init", init, ("sphere", "hull"))
    with torch.no_grad():
        masks, camera = target_masks.detach(), camera.detach()
        start = visual_hull(camera, masks) if init == "hull" else init
        if isinstance(start, Mesh) and camera.origin is not None:
            start = start.relative_to(camera.origin)
        settings = settings.resolved(init == "hull")
        job = Job(masks, camera, settings, start if isinstance(start, Mesh) else None)
    return job.run(callback, resume)


def _check_outlines(masks: Tensor, *, inside: bool) -> None:
    """Warn of masks [B, H, W] that fill their image, which show no outline; raise if all do.

    Raises, too, if all fill the border of their image, unless they may see a mesh from its
    `inside`: an object would be cut on all sides, as the background never is.
    """
    sides = masks[:, [0, -1]], masks[:, :, [0, -1]]
    border = torch.cat([(side > 0.5).flatten(1) for side in sides], 1).double().mean(1)
    filled = (masks > 0.5).flatten(1).all(1)
    count = int(filled.sum())
    what = f"{count} of {len(masks)} masks fill their whole image (the first is {{}}), so they show"
    what = what.format(int(filled.int().argmax())) + " no outline"
    if count == len(masks):
        raise ValueError(f"{what}; is the camera inside the object, or are the masks inverted?")
    if bool((border > _BORDER).all()) and not inside:
        raise ValueError(
            "the masks fill the borders of all images, as if they were inverted; the object is "
            "white (1 or opaque), all else black (0 or transparent), and some image shows its edge"
        )
    if count:
        warnings.warn(
            f"{what}; if the camera is inside the object, leave such views out", stacklevel=3
        )
