"""The settings of a training of splats. Imports nothing heavy, so that --help is instant."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_args

from gendr.jobs.settings import Range, check_settings

__all__ = ["BACKGROUNDS", "UNITS", "SplatSettings"]

Unit = Literal["inradius", "px", "ndc"]
Background = Literal["given", "learnt", "still"]
# What the scale of a triangle may be measured in; and the kinds of backgrounds.
UNITS, BACKGROUNDS = get_args(Unit), get_args(Background)


@dataclass(frozen=True)
class SplatSettings:
    """How splats are trained.

    Attributes:
        dist: the distribution, by which a triangle fades at its edges, as gendr list distributions
            names it.
        tconorm: the T-conorm that joins triangles, as gendr list tconorms names it.
        unit: what the scale of a triangle is measured in: its inradius on the screen, px or ndc.
        degree: of the spherical harmonics of colours, 0 to 3; 0 is one colour from all sides.
        triangles: how many there are in the end; by default it follows from pixels and time.
        steps: steps, if no budget is given.
        budget: end after 90s, 2m or 1h, however many steps that makes: on the command line, where
            cameras are not counted, the time until files are written. In Python a number of seconds
            for the steps and what is done between them.
        density: mcmc: faint triangles are dropped and others split, drawn by their opacity; none:
            neither.
        renew_every: steps between two rounds of splitting and dropping.
        rate: a factor of all learning rates.
        decay: the learning rates at the end over those at the start.
        scale: of triangles at the start, in the unit.
        learn_scale: each triangle learns its own.
        shape: of the distribution of each triangle at the start, from where it is learnt; by
            default all have that of the distribution.
        background: "given": that of the photos; "learnt": one colour, found with the rest; "still":
            an image, that of the backdrop of a turntable, found with the rest. By default given
            where there are masks, else still if it is so, else learnt.
        exposure: photos may be brighter or darker than each other (default: no, but gendr splat
            looks whether they are, by the surface that it starts from).
        cutoff: coverage at or below it counts as 0.
        evaluate_every: part of the training between two looks at the pictures held out.
        seed: of all that is drawn.
        device: that trains, such as cuda or cuda:0 (default: where the photos are). Photos stay
            where they are, with a copy there in half precision.

    Raises:
        TypeError: for values of another type.
        ValueError: for those that are not allowed.
    """

    dist: str = "uniform"
    tconorm: str = "probabilistic"
    unit: Unit = "inradius"
    degree: Annotated[int, Range(0)] = 1
    triangles: Annotated[int | None, Range(1)] = None
    steps: Annotated[int, Range(1)] = 5000
    budget: Annotated[float | None, Range(0, closed=False)] = None
    density: Literal["mcmc", "none"] = "mcmc"
    renew_every: Annotated[int, Range(1)] = 100
    rate: Annotated[float, Range(0, closed=False)] = 1.0
    decay: Annotated[float, Range(0, closed=False)] = 0.05
    scale: Annotated[float, Range(0, closed=False)] = 0.5
    learn_scale: bool = True
    shape: Annotated[float | None, Range(0, closed=False)] = None
    background: Background | None = None
    exposure: bool | None = None
    cutoff: Annotated[float, Range(0, 0.5)] = 0.01
    evaluate_every: Annotated[float, Range(0, closed=False)] = 0.1
    seed: Annotated[int, Range(0)] = 0
    device: str | None = None

    def __post_init__(self) -> None:
        from gendr.distributions import as_distribution
        from gendr.tnorms import as_tconorm

        check_settings(self)
        if self.degree > 3:
            raise ValueError(f"degree must be 0, 1, 2 or 3, got {self.degree}")
        dist = as_distribution(self.dist)
        as_tconorm(self.tconorm)
        if self.shape is not None and dist.shape_parameter is None:
            raise ValueError(f"{dist} has no shape to set for each triangle; leave out shape")

    def count_for(self, pixels: int) -> int:
        """How many triangles there are in the end.

        Args:
            pixels: of one photo.
        """
        if self.triangles is not None:
            return self.triangles
        time = self.budget or 0.06 * self.steps
        return max(500, int(min(pixels / 2, 4000 * time**0.4)))

    def describe(self) -> dict[str, Any]:
        """The settings as plain values, for files."""
        return {f.name: getattr(self, f.name) for f in fields(self)}
