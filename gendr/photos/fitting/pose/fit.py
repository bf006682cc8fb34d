"""`fit_pose`: where a camera stood, from masks of an object whose mesh is known.

1. The mesh is seen from directions all over the sphere, in small images. Shifted and scaled to the
   centroid and the area of the mask, and turned in their plane, they are compared with the mask.
2. The best that differ are refined together, by soft silhouettes whose scale falls.
3. The best of these are refined in larger images, and polished (`polish`).

Poses that look alike at the end are given too: a symmetric or flat object has several. The images
of a video are found from those before (`track`), and the images of several cameras of one moment
together (`rig`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gendr._common.checks import (
    check_finite,
    check_float,
    check_like,
    check_number,
    check_shape,
    shape_text,
)
from gendr.jobs.devices import learns
from gendr.jobs.loop import Progress, Tell
from gendr.jobs.settings import changed
from gendr.mesh import Camera, Mesh
from gendr.photos.fitting.parametrization import check_single
from gendr.photos.fitting.pose.rig import fit_rig
from gendr.photos.fitting.pose.search import Alike, PoseCandidate, PoseResult, Poses, Search, View
from gendr.photos.fitting.pose.settings import PoseSettings
from gendr.photos.fitting.pose.track import packed, tracked, unpacked

__all__ = ["PoseCandidate", "PoseResult", "fit_pose", "outline_problem"]

# A mask with fewer pixels tells no pose.
LEAST = 16


@learns
def fit_pose(
    mesh: Mesh,
    masks: Tensor,
    *,
    fov: float | None = 30.0,
    intrinsics: Camera | None = None,
    track: bool = False,
    rig: Camera | None = None,
    find_scale: bool = False,
    settings: PoseSettings | None = None,
    callback: Tell | None = None,
    resume: Mapping[str, Any] | None = None,
    **changes: Any,
) -> PoseResult:
    """Find the cameras that saw an object in masks.

    Args:
        mesh: one mesh, of any size at any place.
        masks: [B, H, W] or [H, W] in [0, 1], cut at 0.5; each of its own camera. The object should
            be wholly in the image.
        fov: across the shorter side, in degrees; None if it is not known: then it is searched for,
            which a silhouette determines only roughly.
        intrinsics: a camera, or one for each mask, whose focal length and principal point are used
            instead of `fov`; its pose is not.
        track: the masks are the images of a video, in their order: each is found from those before,
            and searched from anywhere only where that fails. An unknown `fov` is found in the first
            image and kept.
        rig: B cameras whose poses to each other are known, in any world: one pose of the object is
            searched for that agrees with all masks. They are used instead of `fov`; their origin
            counts, and of each mask only what lies in their windows.
        find_scale: the unit of the rig is not that of the mesh, and is searched for too.
        settings: by default `PoseSettings()`.
        callback: called with the part of the work that is done, in [0, 1], a number that also has
            the name of a `stage`, and after the first mask, but not of a rig, a `state`: all that
            is needed to go on, as plain values and tensors.
        resume: such a state, to go on from there with the same other arguments; the result is that
            of an uninterrupted call.
        **changes: fields of `settings` to replace.

    Returns:
        Perspective cameras in the world of the mesh, and in its unit.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if shapes or values are wrong, or a mask is empty, fills its image or has
            fewer than 16 pixels.
    """
    settings = changed(settings or PoseSettings(), "setting of a pose", changes)
    check_single("mesh", mesh)
    check_finite("masks", check_float("masks", masks))
    masks = masks.detach()[None] if masks.ndim == 2 else masks.detach()
    if not check_shape("masks", masks, "[B, H, W]")["B"]:
        raise ValueError(f"masks must have one view or more, got {shape_text(masks.shape)}")
    check_like("the mesh", mesh.vertices, "masks", masks)
    _check_outlines(masks)
    if rig is not None:
        if track or intrinsics is not None:
            raise ValueError(
                f"{'track' if track else 'intrinsics'} cannot be given with rig: its cameras see "
                "one moment, and have intrinsics of their own"
            )
        if resume is not None:
            raise ValueError("resume cannot be given with rig, whose one pose is found in seconds")
        _check_cameras("rig", rig, (len(masks),))
        optics, is_free = rig.detach().to(masks), False
    else:
        if find_scale:
            raise ValueError(
                "find_scale is for a rig; without one, no unit but that of the mesh is known"
            )
        if intrinsics is not None:
            _check_cameras("intrinsics", intrinsics, (1, len(masks)))
            optics = intrinsics.detach().to(masks).expand(len(masks))
        else:
            optics = Camera(fov=30.0 if fov is None else fov).to(masks).expand(len(masks))
        if fov is not None:
            check_number("fov", fov, above=0, below=180)
        is_free = fov is None and intrinsics is None
    alikes: list[Alike[Poses]]
    with torch.no_grad():
        search = Search(mesh.detach(), settings, optics, is_free=is_free)
        tell = callback or (lambda now: None)
        if rig is not None:
            return _placed(fit_rig(search, masks, find_scale, tell), mesh)
        if track:
            alikes, searched = tracked(search, masks, tell, resume)
        else:
            images: list[dict[str, Any]] = list(resume["images"]) if resume is not None else []
            state = resume

            def part(now: Progress) -> None:
                done = (len(images) + now) / len(masks)
                tell(Progress(done, now.stage, state))

            for b in range(len(images), len(masks)):
                view = View(search, masks[b], b)
                here = view.found(part)
                images.append(packed(here))
                state = {"images": list(images)}
                part(Progress(0.0, "finish"))
            alikes = [unpacked(each) for each in images]
            searched = range(len(masks))
        candidates = tuple(View(search, masks[b], b).listed(each) for b, each in enumerate(alikes))
    found = PoseResult(
        Camera.batch([each[0].camera for each in candidates]),
        torch.tensor([each[0].iou for each in candidates]).to(masks),
        candidates,
        tuple(searched),
    )
    return _placed(found, mesh)


def _placed(found: PoseResult, mesh: Mesh) -> PoseResult:
    """The result with cameras that have the origin of a mesh."""
    if not bool(mesh.origin.any()):
        return found

    def at(camera: Camera) -> Camera:
        return camera.with_origin(mesh.origin[0])

    listed = (tuple(replace(c, camera=at(c.camera)) for c in each) for each in found.candidates)
    return replace(found, camera=at(found.camera), candidates=tuple(listed))


def _check_cameras(name: str, camera: Any, counts: tuple[int, ...]) -> None:
    if not isinstance(camera, Camera):
        raise TypeError(f"{name} must be a camera, got {type(camera).__name__}")
    if camera.orthographic or len(camera) not in counts:
        wanted = " or ".join(str(count) for count in counts)
        raise ValueError(f"{name} must be {wanted} perspective cameras, got {camera!r}")


def _check_outlines(masks: Tensor) -> None:
    for i, mask in enumerate(masks):
        problem = outline_problem(mask)
        if problem is not None:
            raise ValueError(f"mask {i} {problem}")


def outline_problem(mask: Tensor) -> str | None:
    """Why no pose can be found by a mask [H, W], or None."""
    inside = int((mask > 0.5).sum())
    if inside == 0:
        return "is empty, so it has no outline to find a pose by"
    if inside == mask.numel():
        return "fills its image, so it has no outline to find a pose by"
    if inside < LEAST:
        return f"has {inside} pixels, too few to tell a pose; at least {LEAST} are needed"
    return None
