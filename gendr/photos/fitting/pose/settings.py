"""The settings of a search for a pose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gendr.jobs.defaults import POSE
from gendr.jobs.settings import Range, check_settings

__all__ = ["PoseSettings"]


@dataclass(frozen=True)
class PoseSettings:
    """The settings of `fit_pose`.

    Attributes:
        directions: from which the mesh is seen in the search, >= 8.
        turns: in the plane of the image, for each direction, >= 1.
        starts: how many poses of the search are refined.
        finalists: how many of them are refined in larger images, >= 1.
        steps: of the first refinement; the second has half as many.
        image_size: of the second refinement. The largest side in pixels; that of the first is half.
        faces: at most so many faces of the mesh are used in the search and the first refinement.
        alike: poses whose hard IoU is within this of the best are given as candidates.
        track_steps: of the refinement of an image that follows another, >= 1.
        polish_steps: of least squares at the end, >= 0.
        lost: an image that follows another is searched anew if its hard IoU is lower than the best
            since the last search by more than this part of it, in (0, 1).
        dist, tconorm: of the soft silhouettes.
    """

    directions: Annotated[int, Range(8)] = 600
    turns: Annotated[int, Range(1)] = 36
    starts: Annotated[int, Range(1)] = 24
    finalists: Annotated[int, Range(1)] = 6
    steps: Annotated[int, Range(1)] = 60
    image_size: Annotated[int, Range(16)] = 128
    faces: Annotated[int, Range(8)] = 600
    alike: Annotated[float, Range(0, closed=False)] = 0.02
    track_steps: Annotated[int, Range(1)] = 24
    polish_steps: Annotated[int, Range(0)] = 5
    lost: Annotated[float, Range(0, 1, closed=False)] = 0.03
    dist: str = POSE[0]
    tconorm: str = POSE[1]

    def __post_init__(self) -> None:
        check_settings(self)
