"""Selection networks as data: comparator networks that find the k largest of n values, in order.

They are `gendr.sorting.Network`s whose `outputs` are k wires. Comparators from which no path leads
to an output are left out, which changes nothing, in a relaxed network either.

The generators below count wires from the front, where the largest value is to go: a pair (a, b)
leaves the larger of its two values on a. In the network the front is wire n - 1, so that larger
values move to higher wires, as in a sorting network. Any n is a power of two with wires left out at
the end: they would carry -inf, which never moves to the front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, wraps
from typing import TypeAlias

from gendr._common.checks import check_choice, check_count
from gendr.sorting import networks as sorting
from gendr.sorting.networks import Comparator, Network, layered, pruned

Wires: TypeAlias = "list[int]"
Generator: TypeAlias = "Callable[[int, int], Network]"


def check_k(k: object, n: int, least: int = 1) -> int:
    """Return k if it is an int of `least` .. n.

    Raises:
        TypeError: k is no int.
        ValueError: it is out of range.
    """
    if check_count("k", k, least=least) > n:
        raise ValueError(f"k must be at most n = {n}, the number of values, got {k}")
    return k  # pyright: ignore[reportReturnType]  # checked to be an int


def _generator(layers: Callable[[int, int], tuple[list[list[Comparator]], Wires]]) -> Generator:
    """Turn a function that makes layers and outputs, from the front, into one of networks."""

    @cache
    def built(n: int, k: int) -> Network:
        from_front, selected = layers(n, k)
        wires = [[(n - 1 - b, n - 1 - a) for a, b in layer] for layer in from_front]
        outputs = tuple(n - 1 - wire for wire in reversed(selected))
        return Network(n, pruned(wires, outputs), f"{layers.__name__}({n}, {k})", outputs)

    # The check comes before the cache, in which 1, 1.0 and True would be equal keys.
    @wraps(layers)
    def generator(n: int, k: int) -> Network:
        return built(check_count("n", n), check_k(k, n))

    return generator


def _halves(wires: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """Cut at the largest power of two below the number of wires, which is at least 2."""
    half = 1 << ((len(wires) - 1).bit_length() - 1)
    return wires[:half], wires[half:]


# ---------------------------------------------------------------------------------------------
# Splitters
# ---------------------------------------------------------------------------------------------


@_generator
def splitter(n: int, k: int) -> tuple[list[list[Comparator]], Wires]:
    """The splitter selection network: O(log n) layers for a small k, fewer than any other.

    A value is known to be smaller than so many others, at least; at first than none. Wires of which
    the same is known are compared in a cascade of splitters. After it the value at position i of
    the cascade is smaller than 2^b - 1 others, for b bits of i that are set. When that is k or
    more, a wire is out. It ends when only one wire is left for every number below k.

    A cascade starts when all its wires are there, as the depths of the paper's Table 6 show. If
    every comparator came as early as it could, some networks would have one layer less.

    Source: Petersen et al., Differentiable Top-k Classification Learning (ICML 2022), appendix B.
    """
    least, free = [0] * n, [0] * n  # of every wire: the numbers known, and the next free layer
    layers: list[list[Comparator]] = []
    while True:
        groups: list[Wires] = [[] for _ in range(k)]
        for wire, rank in enumerate(least):
            if rank < k:
                groups[rank].append(wire)
        if all(len(group) == 1 for group in groups):
            return layers, [group[0] for group in groups]
        for rank in reversed(range(k)):
            group = groups[rank]
            if len(group) > 1:
                start = max(free[wire] for wire in group)
                for level, compared in _cascade(group, start):
                    layers.extend([] for _ in range(level + 1 - len(layers)))
                    layers[level] += compared
                    for a, b in compared:
                        free[a] = free[b] = level + 1
                for position, wire in enumerate(group):
                    least[wire] = rank + (1 << position.bit_count()) - 1


def _cascade(wires: Sequence[int], layer: int) -> Iterator[tuple[int, list[Comparator]]]:
    """Yield a splitter with its layer, and those of its two halves, in the layers after it."""
    todo = [(wires, layer)]
    while todo:
        wires, layer = todo.pop()
        if len(wires) > 1:
            front, back = _halves(wires)
            yield layer, [*zip(front, back, strict=False)]
            todo += [(back, layer + 1), (front, layer + 1)]


# ---------------------------------------------------------------------------------------------
# Sorting networks, merging no more than k
# ---------------------------------------------------------------------------------------------

Merge: TypeAlias = "Callable[[Wires], Iterator[Comparator]]"


def _merging(n: int, k: int, merge: Merge) -> tuple[list[list[Comparator]], Wires]:
    """Sort groups of k wires, rounded up to a power of two; merge them, always keeping the first.

    Source: Wah and Chen, A Partitioning Approach to the Design of Selection Networks (1984).
    """
    size = 1 << (k - 1).bit_length()
    comparators: list[Comparator] = []

    def select(wires: Sequence[int]) -> Wires:
        if len(wires) == 1:
            return [*wires]
        both = [wire for half in _halves(wires) for wire in select(half)]
        comparators.extend(merge(both))
        return both[:size]

    selected = select(range(n))
    return [[*layer] for layer in layered(comparators)], selected[:k]


@_generator
def bitonic(n: int, k: int) -> tuple[list[list[Comparator]], Wires]:
    """Batcher's bitonic sorter of groups, and bitonic merges of which only the first half counts.

    Depth a (a + 1) / 2 + (l - a)(a + 1), where a and l are the logarithms of k and n, rounded up.
    """
    return _merging(n, k, _bitonic_merge)


def _bitonic_merge(wires: Wires) -> Iterator[Comparator]:
    """The first half is compared with the second one reversed, then each half within itself."""
    half = len(_halves(wires)[0])
    for i in range(len(wires) - half):
        yield wires[half - 1 - i], wires[half + i]
    distance = half // 2
    while distance:
        for i in range(len(wires) - distance):
            if not i & distance:
                yield wires[i], wires[i + distance]
        distance //= 2


@_generator
def odd_even_merge(n: int, k: int) -> tuple[list[list[Comparator]], Wires]:
    """Batcher's odd-even mergesort of groups, and merges; as deep as `bitonic`, smaller."""
    return _merging(n, k, _odd_even_merge)


def _odd_even_merge(wires: Wires) -> Iterator[Comparator]:
    half = len(_halves(wires)[0])
    yield from zip(wires, wires[half:], strict=False)
    distance = half // 2
    while distance:
        for i in range(distance, len(wires) - distance):
            if i & distance:
                yield wires[i], wires[i + distance]
        distance //= 2


@_generator
def pairwise(n: int, k: int) -> tuple[list[list[Comparator]], Wires]:
    """The pairwise selection network; as deep as `bitonic`, and smaller.

    A splitter, the k first of its front, the k / 2 first of its back, which their partners are in
    front of anyway, and a merge.

    Source: Zazon-Ivry and Codish, Pairwise Networks are Superior for Selection (2012).
    """
    comparators: list[Comparator] = []

    def select(wires: Sequence[int], k: int) -> Wires:
        if k == 0 or len(wires) == 1:
            return [*wires[:k]]
        front, back = _halves(wires)
        comparators.extend(zip(front, back, strict=False))
        first = select(front, min(k, len(front)))
        second = select(back, min(k // 2, len(back)))
        slots: list[int | None] = [None] * (2 * len(first))  # an empty one stands for -inf
        slots[::2], slots[1 : 2 * len(second) : 2] = first, second
        distance = 1 << (k - 1).bit_length() >> 1
        while distance:
            for a in range(1, len(slots) - 2 * distance + 1, 2):
                b = a - 1 + 2 * distance
                front_wire, back_wire = slots[a], slots[b]
                if front_wire is None:
                    slots[a], slots[b] = back_wire, None
                elif back_wire is not None:
                    comparators.append((front_wire, back_wire))
            distance //= 2
        return [wire for wire in slots if wire is not None][:k]

    selected = select(range(n), k)
    return [[*layer] for layer in layered(comparators)], selected


@_generator
def odd_even(n: int, k: int) -> tuple[list[list[Comparator]], Wires]:
    """Odd-even transposition of neighbours, without what cannot reach the first k; n layers."""
    layers = sorting.odd_even(n).layers
    return [[(n - 1 - b, n - 1 - a) for a, b in layer] for layer in layers], [*range(k)]


NETWORKS = {
    generator.__name__: generator
    for generator in (splitter, bitonic, odd_even_merge, pairwise, odd_even)
}


def network(name: str, n: int, k: int) -> Network:
    """The selection network of this name for the k largest of n values; each is made once.

    Its `outputs` are the k wires on which they leave, the largest last.

    Raises:
        TypeError: n or k is no int.
        ValueError: unknown name, n < 1, or k not in 1 .. n.
    """
    return NETWORKS[check_choice("network", name, NETWORKS)](n, k)
