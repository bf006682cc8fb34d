"""The poses of the images of a video: each is found from those before.

1. The first image is searched from anywhere.
2. Every later one starts from each pose of the one before that looked alike, where it was or moved
   on at the same speed, whichever agrees better, shifted and scaled to the centroid and the area of
   the mask; and from the best of the same turned a little. These are refined at full resolution,
   in a few steps.
3. An image whose poses agree much worse than those before is searched from anywhere: the object
   was lost, or the video has a cut.
4. Images of which no pose stands out are looked back into, from the poses of the image after.
5. At the end, one pose of each image is chosen. Of poses that look alike that is the nearest to its
   neighbours, over the whole video: what one image cannot tell, a later one may.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gendr.jobs.loop import Progress, Tell
from gendr.mesh import rotation_angle_between
from gendr.mesh.rotations import axis_angle_to_matrix
from gendr.photos.fitting.pose.descent import PoseRows, hard
from gendr.photos.fitting.pose.search import (
    Alike,
    Poses,
    Search,
    View,
    distinct,
    moments,
    shrunk,
)

__all__ = ["packed", "tracked", "unpacked"]

# So many poses of an image are followed into the next.
_FOLLOWED = 4
# An image is looked back into if no pose of it is better than all others by so much in IoU.
_STANDS_OUT = 0.005
# A jump by so many degrees or more costs as much as a loss of `alike` in the IoU.
_FAR = 30.0
# Beside each of them, so many that are turned by so many degrees about an axis of the camera are
# refined; all differ by some degrees.
_TURNED, _TURNS, _BETWEEN = 2, (7.0, 15.0), 3.0
# Scales of the refinement, in pixels.
_PIXELS = (1.5, 0.2)


@dataclass(frozen=True)
class Motion(PoseRows):
    """What each of some poses did since the image before.

    Attributes:
        rotation: [K, 3, 3], of the camera.
        place: [K, 2], NDC.
        size: [K], of the logarithm.
    """

    rotation: Tensor
    place: Tensor
    size: Tensor

    @staticmethod
    def between(before: Poses, after: Poses) -> Motion:
        return Motion(
            _orthonormal(after.rotation @ before.rotation.mT), after.place - before.place,
            after.size - before.size,
        )  # fmt: skip

    def back(self) -> Motion:
        """The way back."""
        return Motion(self.rotation.mT, -self.place, -self.size)

    def applied(self, poses: Poses) -> Poses:
        return Poses(
            _orthonormal(self.rotation @ poses.rotation), poses.place + self.place,
            poses.size + self.size, poses.focal,
        )  # fmt: skip


def packed(found: Alike[Poses]) -> dict[str, Any]:
    """The poses of an image as tensors."""
    return {"poses": found.poses.parts(), "scores": found.scores}


def unpacked(values: Mapping[str, Any]) -> Alike[Poses]:
    """The poses that were packed."""
    return Alike(Poses(*values["poses"]), values["scores"])


def tracked(
    search: Search,
    masks: Tensor,
    tell: Tell,
    resume: Mapping[str, Any] | None,
) -> tuple[list[Alike[Poses]], list[int]]:
    """The poses of the masks [B, H, W] of a video.

    Args:
        search: of the mesh. If the focal length is free, it is found in the first image.
        masks: in their order.
        tell: told the part of all the work that is done, and after each image all that is needed
            to go on.
        resume: that, to go on from there.

    Returns:
        Of each image the poses that look alike, the chosen one first; and the images that were
        searched from anywhere, of which the first is one.
    """
    before = resume or {"images": [], "searched": [], "best": 0.0}
    images, searched, best = list(before["images"]), list(before["searched"]), before["best"]
    found = [unpacked(each) for each in images]
    motions = [Motion(*each["motion"]) for each in images]
    state = resume
    if found:
        search.fix(found[0].poses.focal[0])

    def part(now: Progress) -> None:
        tell(Progress((len(images) + now) / len(masks), now.stage, state))

    for b in range(len(found), len(masks)):
        view = View(search, masks[b], b)
        now = motion = None
        if found:
            now, motion = _followed(view, found[-1], motions[-1])
        if now is None or motion is None or _is_lost(now, best, search):
            anew = view.found(part)
            if now is None:
                search.fix(anew.poses.focal[0])
            else:
                # What was followed may still be better: then the mask is to blame.
                anew = view.scored(Poses.joined([now.poses, anew.poses]))
                anew = anew[view.alike(anew)]
            now, motion = anew, Motion.between(anew.poses, anew.poses)
            searched.append(b)
            best = 0.0
        best = max(best, float(now.scores[0]))
        found.append(now)
        motions.append(motion)
        images.append({**packed(now), "motion": motion.parts()})
        state = {"images": list(images), "searched": list(searched), "best": best}
        part(Progress(0.0, "finish" if b in searched else "track"))
    look_back(search, masks, found, motions, searched)
    chosen = chosen_together(found, motions, search.settings.alike)
    ordered = []
    for each, first in zip(found, chosen, strict=True):
        rest = [i for i in range(len(each)) if i != first]
        ordered.append(each[torch.tensor([first, *rest], device=each.scores.device)])
    return ordered, searched


def look_back(
    search: Search,
    masks: Tensor,
    found: list[Alike[Poses]],
    motions: list[Motion],
    searched: list[int],
) -> None:
    """Follow the poses back, into images of which no pose stands out: add what is found.

    The pose that goes on may be none of those kept there, but be one of a later image.
    """
    for b in reversed(range(len(found) - 1)):
        scores = found[b].scores
        if b + 1 in searched or len(scores) == 1 or scores[0] - scores[1] > _STANDS_OUT:
            continue
        view = View(search, masks[b], b)
        now, back = _followed(view, found[b + 1], motions[b + 1].back())
        both = Alike.joined([found[b], now])
        motion = Motion.joined([motions[b], back.back()])
        rows = view.alike(both)
        found[b], motions[b] = both[rows], motion[rows]


def _is_lost(now: Alike[Poses], best: float, search: Search) -> bool:
    """Whether the poses of an image agree much worse than those since the last search."""
    return float(now.scores[0]) < (1 - search.settings.lost) * best


def _orthonormal(matrix: Tensor) -> Tensor:
    """The nearest orthonormal matrices: rounding would add up, and double with each image."""
    u, _, v = torch.linalg.svd(matrix)
    return u @ v


def _followed(view: View, last: Alike[Poses], motion: Motion) -> tuple[Alike[Poses], Motion]:
    """The poses of a view near those of the image before, and what they did since."""
    search, settings = view.search, view.settings
    rows = torch.arange(min(len(last.scores), _FOLLOWED), device=last.scores.device)
    before = replace(last.poses[rows], focal=view.optics.focal.expand(len(rows), 2))
    near = _turned(Poses.joined([before, motion[rows].applied(before)]))
    small = shrunk(view.masks, settings.image_size // 2)
    guesses = _aligned(view, near, small)
    scores = view.scores(guesses, small, search.few)[:, 0]
    # Each pose goes on unturned, and the best of all turned ones are tried too.
    parent = torch.arange(len(scores), device=scores.device) % len(rows)
    both = scores[: 2 * len(rows)].unflatten(0, (2, len(rows)))
    straight = both.argmax(0) * len(rows) + parent[: len(rows)]
    ranked = scores.clone()
    ranked[straight] += 1
    starts = distinct(guesses.rotation, ranked, len(rows) + _TURNED, _BETWEEN)
    large = shrunk(view.masks, settings.image_size)
    poses = view.refined(
        guesses[starts], large, search.fine, settings.track_steps, _PIXELS, lambda done: None
    )
    poses = view.polished(poses)
    found = view.scored(replace(poses, rotation=_orthonormal(poses.rotation)))
    rows = view.alike(found)
    return found[rows], Motion.between(before[parent[starts[rows]]], found.poses[rows])


def _turned(poses: Poses) -> Poses:
    """Poses, and after them all again turned a little about each axis of the camera."""
    axes = torch.eye(3).to(poses.size)
    angles = [math.radians(sign * turn) for turn in _TURNS for sign in (1, -1)]
    turns = [poses.size.new_zeros(3), *(axis * x for axis in axes for x in angles)]
    rotation = torch.cat([axis_angle_to_matrix(turn) @ poses.rotation for turn in turns])
    n = len(turns)
    return Poses(rotation, poses.place.repeat(n, 1), poses.size.repeat(n), poses.focal.repeat(n, 1))


def _aligned(view: View, poses: Poses, masks: Tensor) -> Poses:
    """Poses whose silhouettes have the centroid and the area of a mask [1, H, W]."""
    size = (masks.shape[1], masks.shape[2])
    centre, area = moments(hard(view.search.few, view.camera(poses), size))
    wanted_centre, wanted_area = moments(masks)
    # What is out of sight has no centroid.
    seen = area > 1e-3 * wanted_area
    place = torch.where(seen[:, None], poses.place + wanted_centre - centre, poses.place)
    grow = (wanted_area / area).log() / 2
    return Poses(
        poses.rotation, place, torch.where(seen, poses.size + grow, poses.size), poses.focal
    )


def chosen_together(found: list[Alike[Poses]], motions: list[Motion], alike: float) -> list[int]:
    """The path through the images with the largest sum of IoUs, less the cost of its jumps.

    A jump is the angle to where the pose before was, or to where its motion leads, if that is
    nearer. By dynamic programming (Viterbi).
    """
    totals, back = found[0].scores, []
    for (before, motion), after in zip(zip(found, motions, strict=True), found[1:], strict=False):
        second = after.poses.rotation[None]
        jumps = []
        for poses in (before.poses, motion.applied(before.poses)):
            first = poses.rotation[:, None]
            shape = (len(first), second.shape[1], 3, 3)
            jumps.append(rotation_angle_between(first.expand(shape), second.expand(shape)))
        jump = torch.minimum(*jumps)
        best = (totals[:, None] - alike * (jump / _FAR).clamp(max=1)).max(0)
        totals = best.values + after.scores
        back.append(best.indices)
    path = [int(totals.argmax())]
    for indices in reversed(back):
        path.append(int(indices[path[-1]]))
    return path[::-1]
