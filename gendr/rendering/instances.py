"""The 1242 renderers of the benchmark: 54 distributions times 23 T-conorms."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from gendr import distributions, tnorms
from gendr.distributions import Distribution
from gendr.tnorms import TConorm


@dataclass(frozen=True)
class Instance:
    """One member of the family of renderers.

    Args:
        dist: the distribution, which turns a distance into a coverage.
        tconorm: the T-conorm, which joins the coverages of a pixel.
    """

    dist: Distribution
    tconorm: TConorm

    @property
    def name(self) -> str:
        """A text such as "gamma(shape=0.5).reversed.squared/yager(p=2)"; `instance` parses it."""
        return f"{self.dist}/{self.tconorm}"

    def __str__(self) -> str:
        return self.name


@functools.cache
def instances() -> tuple[Instance, ...]:
    """All 1242, in the order: for distribution: for squared in (no, yes): for tconorm.

    Source: thesis section 5.4; the axes are `distributions.benchmark_distributions()` and
    `tnorms.benchmark_tconorms()`.
    """
    return tuple(
        Instance(dist, tconorm)
        for plain in distributions.benchmark_distributions()
        for dist in (plain, plain.squared())
        for tconorm in tnorms.benchmark_tconorms()
    )


def instance(name: str) -> Instance:
    """The instance with this name: the text of a distribution, "/", the text of a T-conorm.

    Any distribution can be combined with any T-conorm, also outside the benchmark.

    Raises:
        TypeError: the name is no text.
        ValueError: it has no "/", or a part is unknown (the nearest names are listed).
    """
    if not isinstance(name, str):
        raise TypeError(f"an instance goes by its name, got {type(name).__name__}")
    dist, slash, tconorm = name.partition("/")
    if not slash:
        raise ValueError(
            f"{name!r} is no instance; write a distribution and a T-conorm, such as "
            "'logistic.squared/probabilistic'"
        )
    return Instance(distributions.get(dist.strip()), tnorms.tconorm(tconorm.strip()))
