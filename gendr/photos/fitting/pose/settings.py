"""The settings of a search for a pose."""

from __future__ import annotations

from dataclasses import dataclass

from gendr._common.command_line import check_options, count, option
from gendr._common.defaults import POSE

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

    directions: int = 600
    turns: int = 36
    starts: int = option(24, count(1))
    finalists: int = 6
    steps: int = option(60, count(1))
    image_size: int = option(128, count(16))
    faces: int = 600
    alike: float = 0.02
    track_steps: int = 24
    polish_steps: int = 5
    lost: float = 0.03
    dist: str = POSE[0]
    tconorm: str = POSE[1]

    def __post_init__(self) -> None:
        from gendr._common.checks import check_count, check_number

        check_options(self)
        least = {"directions": 8, "turns": 1, "finalists": 1, "faces": 8, "track_steps": 1,
                 "polish_steps": 0}  # fmt: skip
        for name, number in least.items():
            check_count(name, getattr(self, name), least=number)
        check_number("alike", self.alike, above=0)
        check_number("lost", self.lost, above=0, below=1)
