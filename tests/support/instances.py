"""Samples of the 1242 renderers, for tests for which all of them would take too long."""

from __future__ import annotations

import random

from gendr.rendering.instances import Instance, instances

__all__ = ["covering_set", "sample"]


def _covering() -> list[int]:
    families = len({str(x.tconorm) for x in instances()})
    laws = len(instances()) // families
    return [law * families + (law * 5) % families for law in range(laws)]


def covering_set() -> list[Instance]:
    """Every distribution of the benchmark with one T-conorm, every T-conorm at least twice."""
    every = instances()
    return [every[index] for index in _covering()]


def sample(seed: int, *, every: bool = False) -> list[Instance]:
    """The covering set and a tenth of the other instances, in their usual order.

    Args:
        seed: the seed of the draw; the same seed gives the same sample.
        every: whether to return all 1242 instead.
    """
    if every:
        return list(instances())
    cover = set(_covering())
    rest = [index for index in range(len(instances())) if index not in cover]
    tenth = random.Random(seed).sample(rest, len(rest) // 10)
    return [instances()[index] for index in sorted(cover | set(tenth))]
