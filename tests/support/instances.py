"""Samples of the 1242 renderers, for tests for which all of them would take too long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle, islice, product
from typing import Any

from gendr import Instance, instances


def covering_set(seed: int = 0) -> list[Instance]:
    """Every distribution of the benchmark with one T-conorm, every T-conorm at least twice.

    Args:
        seed: which T-conorm each distribution has; as many seeds in a row as there are T-conorms
            give all 1242.
    """
    every = instances()
    families = len({str(x.tconorm) for x in every})
    dists = range(len(every) // families)
    return [every[dist * families + (dist * 5 + seed) % families] for dist in dists]


def drawn(*values: Sequence[Any]) -> Callable[[int, bool], list[tuple[Any, ...]]]:
    """Rows for `for_each`: an instance and one of the combinations of some values.

    They are the covering set of the seed, each instance with one combination in turn; with
    `--every`, all 1242 with all combinations.
    """
    combinations = list(product(*values))

    def rows(seed: int, every: bool) -> list[tuple[Any, ...]]:
        if every:
            return [(x, *more) for x in instances() for more in combinations]
        taken = islice(cycle(combinations), seed % len(combinations), None)
        return [(x, *more) for x, more in zip(covering_set(seed), taken, strict=False)]

    return rows
