"""`refine_cameras`: poses that are slightly off, put right before a shape is fitted.

First by the outlines, pair by pair, which needs no shape (`tangents.py`); then, if there are
colours, by what the photos show on the hull (`agreement.py`), together with the outlines. No photo
tells where the world is, how it is turned, and its scale: at the end the cameras are moved all
together to where they were on average. Cameras that do not agree better than those given are not
kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gendr.jobs.devices import learns
from gendr.jobs.loop import Progress, Tell
from gendr.losses import iou
from gendr.mesh import Camera
from gendr.photos import visual, visual_hull
from gendr.photos.fitting.cameras.agreement import Agreement
from gendr.photos.fitting.cameras.tangents import (
    Normals,
    Outlines,
    applied,
    equations,
    solved,
    spread,
)
from gendr.photos.fitting.checks import check_further_images, check_views
from gendr.photos.fitting.frame import Frame

__all__ = ["CameraResult", "aligned", "refine_cameras"]

# Outlines whose median gap is smaller than this, in pixels, agree as well as pixels can tell.
_EXACT = 0.15
# By colours: the blur of the photos in pixels, a step for each.
_BLURS = (3.0, 3.0, 3.0, 2.0, 2.0, 1.0, 1.0, 0.7, 0.7)
# The error of outlines in pixels, beside colours, which correct each other.
_NOISE = 0.05
# Colours decide if their error falls to this part, the gap between outlines grows by no more than
# this, in parts and in pixels, and the hull's mean IoU does not fall.
_FALL, _LOOSER, _LOOSER_PIXELS = 0.9, 1.25, 0.02
# What is kept: the least gain of the hulls' mean IoU, and the largest mean turn in degrees and mean
# shift in parts of the distance.
_GAIN, _MOST_DEGREES, _MOST_SHIFT = 1e-3, 5.0, 0.1
# Part of the diagonal that is added, so that what nothing tells stays as it is.
_DAMPING = 1e-5
# Cells along an axis of the hulls that are compared.
_CELLS = 128


@dataclass(frozen=True, eq=False)
class CameraResult:
    """Cameras that agree with each other.

    Attributes:
        camera: B cameras, in the place and at the scale of those given, on average; those given
            if nothing better was found.
        refined: whether something better was found.
        degrees: [B] float64, by how much each was turned.
        moved: [B] float64, by which part of its distance from the object each was moved.
        focal: by which factor the focal lengths were changed; 1 unless it was asked for.
        gap: median distance in pixels between what two outlines say about a plane that touches the
            object, before and after.
        iou: mean IoU of the masks and the silhouettes of their visual hull, before and after.
        color_error: how much photos differ from their mean at a point of the hull, of 1, before
            (after the outlines alone) and after; None if colours had no part in the result.
    """

    camera: Camera
    refined: bool
    degrees: Tensor
    moved: Tensor
    focal: float
    gap: tuple[float, float]
    iou: tuple[float, float]
    color_error: tuple[float, float] | None


@learns
@torch.no_grad()
def refine_cameras(
    masks: Tensor,
    camera: Camera,
    images: Tensor | None = None,
    *,
    focal: bool = False,
    callback: Tell | None = None,
    resume: Mapping[str, Any] | None = None,
) -> CameraResult:
    """Put poses right that are off by a degree or two and a few per cent of the distance.

    Views from many sides are needed, not from one ring only. With a pattern on the object, colours
    make poses two to five times as exact on what was measured (docs/results/photos.md); on a box
    with few views they do not. Poses that change by more than 5 degrees or a tenth of the distance,
    on average, or whose hull does not meet the masks better, are not kept.

    Args:
        masks: [B, H, W] in [0, 1], B >= 4.
        camera: B perspective cameras.
        images: [B, 3, H, W] in [0, 1], the object over black, if there are colours.
        focal: whether all focal lengths may change by one factor.
        callback: called with the part of the work that is done, in [0, 1], a number that also has
            a `state`: from the first step by colours on, which take longest, all that is needed to
            go on, as numbers and tensors.
        resume: such a state, to go on from there with the same other arguments; the result is that
            of an uninterrupted run, bit for bit.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if shapes or values are wrong, there are fewer than four views, or a mask shows
            next to nothing or fills its image.
    """
    check_views("masks", masks, "[B, H, W]", camera)
    if len(camera) < 4:
        raise ValueError(f"cameras are refined from four views on, got {len(camera)}")
    if camera.orthographic:
        raise ValueError("only perspective cameras are refined, got orthographic ones")
    filled = (masks > 0.5).flatten(1).all(1)
    if bool(filled.any()):
        raise ValueError(
            f"mask {int(filled.int().argmax())} fills its image, so it has no outline to find its "
            "pose by; leave it out"
        )
    if images is not None:
        check_further_images("images", images, "[B, 3, H, W]", "masks", masks)
        images = images.detach()
    masks, camera, tell = masks.detach(), camera.detach(), callback or (lambda now: None)
    frame = Frame.of_masks(masks, camera)
    given = frame.camera(camera.to("cpu", torch.float64))
    lines = Outlines.of(masks, camera)
    gap = spread(lines, given)
    now = given
    if focal or gap > _EXACT:
        now = solved(lines, given, focal=focal)
    tell(Progress(0.1))
    now, errors = aligned(now, given), None
    scores = hull_iou(masks, given), hull_iou(masks, now)
    if images is not None:
        found, differ = _by_colors(lines, images, masks, now, tell, resume)
        found = aligned(found, given)
        if differ is not None and (score := hull_iou(masks, found)) >= scores[1]:
            now, errors, scores = found, differ, (scores[0], score)
    degrees, moved = _change(now, given)
    is_near = float(degrees.mean()) <= _MOST_DEGREES and float(moved.mean()) <= _MOST_SHIFT
    better = scores[1] > scores[0] + _GAIN and is_near
    tell(Progress(1.0))
    if not better:
        now, errors, scores = given, None, (scores[0], scores[0])
    return CameraResult(
        _outer(frame, now, camera) if better else camera,
        better,
        *_change(now, given),
        float((now.focal / given.focal).mean()),
        (gap, spread(lines, now)),
        scores,
        errors,
    )


def _by_colors(
    lines: Outlines,
    images: Tensor,
    masks: Tensor,
    camera: Camera,
    tell: Tell,
    resume: Mapping[str, Any] | None,
) -> tuple[Camera, tuple[float, float] | None]:
    """Cameras moved until the photos agree, and by how much they differ before and after.

    None in place of the latter if colours do not tell the poses better than outlines do.
    """
    start, best, done = camera, camera, 0
    widest = _LOOSER * spread(lines, start) + _LOOSER_PIXELS
    try:
        if resume is None:
            first = least = Agreement(images, masks, start, _BLURS[-1]).error
        else:
            done, first, least = (resume[name] for name in ("done", "first", "least"))
            camera, best = (
                start.with_tensors(*(x.to(start.device) for x in resume[name]))
                for name in ("now", "best")
            )
        for number, blur in enumerate(_BLURS[done:], done + 1):
            agreement = Agreement(images, masks, camera, blur)
            if blur == _BLURS[-1] and agreement.error < least and spread(lines, camera) <= widest:
                best, least = camera, agreement.error
            one, two = agreement.normals_of_step(), equations(lines, camera, _NOISE)
            both = Normals(one.matrix + two.matrix, one.vector + two.vector)
            camera = applied(camera, both.step(_DAMPING, focal=False))
            poses = {"now": camera.tensors(), "best": best.tensors()}
            state = {"done": number, "first": first, "least": least, **poses}
            tell(Progress(0.1 + 0.8 * number / len(_BLURS), state=state))
        last = Agreement(images, masks, camera, _BLURS[-1]).error
    except ValueError:  # no hull is left
        return start, None
    if last < least and spread(lines, camera) <= widest:
        best, least = camera, last
    if least > _FALL * first:
        return start, None
    return best, (first, least)


def _change(camera: Camera, given: Camera) -> tuple[Tensor, Tensor]:
    """By how many degrees, and by which part of its distance, each was moved: both [B]."""
    shift = (camera.eye - given.eye).norm(dim=1) / given.translation.norm(dim=1)
    return _angles(camera, given), shift


def hull_iou(masks: Tensor, camera: Camera) -> float:
    """Mean IoU of masks and the silhouettes of their hull; 0 if there is none."""
    camera = camera.to(masks.device, masks.dtype)
    try:
        hull = visual_hull(camera, masks, resolution=_CELLS)
    except ValueError:
        return 0.0
    found = visual.silhouettes(hull, camera, (masks.shape[1], masks.shape[2]))
    return float(iou(found, masks).mean())


def _outer(frame: Frame, inner: Camera, like: Camera) -> Camera:
    """The cameras of the world of those of the frame; the inverse of `Frame.camera`."""
    translation = inner.translation * frame.size - inner.rotation @ frame.centre
    tensors = inner.rotation, translation, inner.focal, inner.principal
    return like.with_tensors(*(x.to(like.device, like.dtype) for x in tensors))


def aligned(camera: Camera, like: Camera) -> Camera:
    """Cameras turned, scaled and shifted all together to be as near as they can to others.

    The rotation is the chordal mean of those that take each camera to its like; scale and shift are
    those with which the eyes are nearest, in the least-squares sense.

    Args:
        camera: B perspective cameras.
        like: B others.

    Source: Hartley, Trumpf, Dai, Li, Rotation Averaging, 2013, section 5 (the chordal mean).
    """
    exact, other = camera.to(torch.float64), like.to(torch.float64)
    left, _, right = torch.linalg.svd((other.rotation.mT @ exact.rotation).sum(0))
    flip = torch.ones(3).to(left)
    flip[2] = torch.linalg.det(left @ right)
    turn = left @ torch.diag(flip) @ right
    eyes, wanted = exact.eye @ turn.T, other.eye
    middle, target = eyes.mean(0), wanted.mean(0)
    size = (eyes - middle).square().sum().clamp(min=1e-30)
    factor = ((eyes - middle) * (wanted - target)).sum() / size
    factor = factor if float(factor) > 1e-6 else torch.ones_like(factor)
    moved = factor * (eyes - middle) + target
    rotation = exact.rotation @ turn.T
    translation = -(rotation @ moved[..., None])[..., 0]
    return exact.with_tensors(rotation, translation).to(camera.dtype)


def _angles(one: Camera, other: Camera) -> Tensor:
    """Between the rotations of cameras, [B] in degrees; exact for small ones."""
    product = one.rotation.double() @ other.rotation.double().mT
    gap = product - torch.eye(3).to(product)
    sine = (gap.square().sum((1, 2)) / 8).sqrt().clamp(max=1.0)
    return 2 * torch.asin(sine) * (180 / math.pi)
