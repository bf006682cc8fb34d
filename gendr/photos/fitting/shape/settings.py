"""The settings of a fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

from gendr.jobs.defaults import SHAPE
from gendr.jobs.settings import Range, check_settings

if TYPE_CHECKING:
    from gendr.distributions import Distribution
    from gendr.tnorms import TConorm

__all__ = ["FitSettings"]

# What names of scales mean for the logistic distribution: the first and last scale in pixels. From
# a visual hull, which is a fraction of a pixel away, softer edges would eat thin parts: soft faces
# cover more than they should, so that the mesh shrinks, and at 0.3 pixels half a wing is gone in 20
# steps.
NAMED_PIXELS = {"auto": (0.3, 0.05), "fine": (0.1, 0.02)}
# What `lr=None` means: from a sphere or a mesh, and from a visual hull with its faces or remeshed.
LR, LR_HULL, LR_REMESHED = 0.1, 0.02, 0.01
# What `steps=None` means: from a visual hull that is remeshed, and else.
STEPS_REMESHED, STEPS = 60, 100


@dataclass(frozen=True)
class FitSettings:
    """The settings of a fit; lengths are in pixels, in NDC or in units of the object's size.

    Attributes:
        steps: Adam steps, if no budget is given (default: 100; from a hull, which is remeshed, 60).
        dist: the distribution, as gendr list distributions names it. In Python also an object or a
            callable CDF.
        tconorm: the T-conorm, as gendr list tconorms names it. In Python also an object.
        scale: how soft edges are: a number (NDC: the image is 2 wide), 1.5px, or START:END for a
            geometric schedule; auto is 0.3px:0.05px for logistic, from a hull fine, which is
            0.1px:0.02px, and as soft for other distributions. As soft is: the middle half of the
            distribution is as wide as that of logistic. A hull has "fine" if it is remeshed. A
            schedule may also be a pair (start, end).
        lr: step length of Adam, in the object's size; 0.1, or 0.01 from a hull, which is near
            already, and 0.02 if that is not remeshed. So far moves the vertex with the largest
            gradient. Where the mesh is remeshed, steps get as short as a quarter of an edge.
        flatness: how much creases cost. The weight of the mean over edges of (1 - cos)^2 of the
            angle between the neighbouring faces.
        smoothness: of steps along the surface. See `SmoothParametrization`.
        subdivisions: of the sphere to start from: 2 gives 162 vertices, 3 642 (as by default), 4
            2562.
        views_per_step: views that a step draws, if there are more; they take turns in random order.
        cutoff: coverage at or below it counts as 0; 0 is exact, the renderer's own default is 1e-6;
            heavy tails (cauchy, levy) are slow below 0.01.
        backend: auto, or one of: gendr list backends.
        seed: of the order of the views, where there are more than a step draws.
        frames: how many intermediate shapes the result keeps; 0 for none.
        remesh: make faces even at first and three times on the way, with edges that shrink
            (default: from a hull). Masks are then shrunk in the first part of the fit (see
            `FitSchedule`). Colours and UVs of a mesh to start from are lost.
        edge: length of edges at the end, if they are remeshed (default: 2, or less for thin parts).
            It is in pixels of the masks at the middle of the object, and goes down to half a pixel
            where even faces of that size are too coarse for thin parts: they may cost the start
            0.0095 of its IoU.
        budget: end after 90s, 2m or 1h of steps, however many they are; less time, less quality. In
            Python a number of seconds. The scale then goes with the time, so that the result
            depends on the speed of the machine. What comes before the first step and after the last
            one is not counted.
    """

    steps: Annotated[int | None, Range(1)] = None
    dist: Any = SHAPE[0]
    tconorm: Any = SHAPE[1]
    scale: Any = "auto"
    lr: Annotated[float | None, Range(0, closed=False)] = None
    flatness: Annotated[float, Range(0)] = 0.05
    smoothness: Annotated[float, Range(0)] = 2.0
    subdivisions: Annotated[int, Range(0)] = 3
    views_per_step: Annotated[int, Range(1)] = 24
    cutoff: Annotated[float, Range(0, 0.999)] = 1e-3
    backend: str = "auto"
    seed: Annotated[int, Range(0)] = 0
    frames: Annotated[int, Range(0)] = 40
    remesh: bool | None = None
    edge: Annotated[float | None, Range(0, closed=False)] = None
    budget: Annotated[float | None, Range(0, closed=False)] = None

    def __post_init__(self) -> None:
        from gendr._common.checks import check_number

        if not 0 <= check_number("cutoff", self.cutoff) < 1:
            raise ValueError(f"cutoff must be in [0, 1), got {self.cutoff!r}")
        check_settings(self)
        if self.subdivisions > 7:
            raise ValueError(f"subdivisions must be <= 7, got {self.subdivisions}; each makes 4x")
        if self.remesh is not None and not isinstance(self.remesh, bool):
            raise TypeError(f"remesh must be True, False or None, got {self.remesh!r}")
        if _width(self.distribution) == 0:
            raise ValueError(
                f"dist {self.distribution} is a hard step without gradient, which fits nothing; "
                "use logistic, uniform or any other"
            )
        self.scales((64, 64))
        _ = self.conorm

    @property
    def distribution(self) -> Distribution:
        """The distribution as an object."""
        from gendr.distributions import as_distribution

        return as_distribution(self.dist)

    @property
    def conorm(self) -> TConorm:
        """The T-conorm as an object."""
        from gendr.tnorms import as_tconorm

        return as_tconorm(self.tconorm)

    @property
    def unit(self) -> str:
        """The unit of the scales."""
        return "NDC^2" if self.distribution.is_squared else "NDC"

    def scales(self, image_size: tuple[int, int]) -> tuple[float, float]:
        """First and last scale, in NDC (NDC^2 for squared distributions).

        Raises:
            TypeError: if the setting has the wrong type.
            ValueError: if it cannot be read or is not positive.
        """
        from gendr.rendering.api import parse_image_size, parse_scale

        dist, size = self.distribution, parse_image_size(image_size)
        if isinstance(self.scale, str) and self.scale in NAMED_PIXELS:
            # The scale goes with this power of x, see the transforms `squared` and `art`.
            named = NAMED_PIXELS[self.scale]
            power = 2.0 if dist.is_squared else 1 - dist.art_exponent
            first, last = (pixels * 2 / size.side / _width(dist) for pixels in named)
            return first**power, last**power
        ends = self.scale.split(":") if isinstance(self.scale, str) else self.scale
        ends = list(ends) if isinstance(ends, (list, tuple)) else [ends]
        if len(ends) not in (1, 2):
            raise ValueError(f"scale must be one value or START:END, got {self.scale!r}")
        in_pixels = {"px" in end for end in ends if isinstance(end, str)}
        if isinstance(self.scale, str) and (len(in_pixels) > 1 or "" in ends):
            raise ValueError(
                "both ends of a scale must be given, and in one unit, as in 1px:0.1px, "
                f"got {self.scale!r}"
            )
        numbers = [parse_scale(end, size, dist.is_squared) for end in ends]
        return float(numbers[0]), float(numbers[-1])

    def resolved(self, from_hull: bool) -> FitSettings:
        """The settings with a number for what depends on the start."""
        remesh = from_hull if self.remesh is None else self.remesh
        lr = self.lr
        if lr is None:
            lr = LR if not from_hull else LR_REMESHED if remesh else LR_HULL
        near = from_hull and remesh
        steps = self.steps or (STEPS_REMESHED if near else STEPS)
        fine = near and isinstance(self.scale, str) and self.scale == "auto"
        scale = "fine" if fine else self.scale
        return replace(self, steps=steps, lr=lr, remesh=remesh, scale=scale)

    def describe(self) -> dict[str, Any]:
        """The settings as plain values, for files."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        scale = self.scale if isinstance(self.scale, (str, int, float)) else list(self.scale)
        return {
            **plain,
            "dist": str(self.distribution),
            "tconorm": str(self.conorm),
            "scale": scale,
        }


def _width(dist: Distribution) -> float:
    """The width of the middle half at scale 1, divided by that of the logistic distribution."""
    import torch

    low, high = dist.icdf(torch.tensor([0.25, 0.75], dtype=torch.float64)).tolist()
    return (high - low) / (2 * math.log(3))
