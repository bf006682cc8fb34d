"""Sorting networks as data: the wires that each layer compares, and which gets the minimum."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, wraps
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gendr._common.checks import check_choice, check_count, check_memory

Comparator: TypeAlias = "tuple[int, int]"
Layer: TypeAlias = "tuple[Comparator, ...]"


@dataclass(frozen=True)
class Network:
    """A comparator network on n wires.

    Value i enters on wire i; what leaves on wire r has rank r. A comparator (low, high) leaves the
    smaller of its two values on the wire `low` and the larger on `high`, whichever index is the
    larger. Whether the network sorts is not checked: that takes 2^n inputs.

    A selection network (`gendr.topk.network`) has fewer outputs than wires: what leaves on the
    others is not of interest.

    Args:
        n: number of wires.
        layers: the comparators of each of L layers; within a layer they share no wire.
        name: what messages call it.
        outputs: the wires on which results leave, the smallest first; by default all, in order.

    Raises:
        TypeError: a comparator is no pair of ints, or n no int.
        ValueError: n < 1, an empty layer, a wire out of range or used twice in a layer; outputs
            that are no different wires.
    """

    n: int
    # Not part of the hash, which would take milliseconds; equality still compares it.
    layers: tuple[Layer, ...] = field(hash=False, repr=False)
    name: str = "custom"
    outputs: tuple[int, ...] = field(default=(), hash=False, repr=False)

    def __post_init__(self) -> None:
        check_count("n", self.n)
        if not self.outputs:
            object.__setattr__(self, "outputs", tuple(range(self.n)))
        wires = {wire for wire in self.outputs if type(wire) is int and 0 <= wire < self.n}
        if len(wires) != len(self.outputs):
            raise ValueError(
                f"outputs of the network {self.name} must be different wires among "
                f"0 .. {self.n - 1}, got {self.outputs}"
            )
        for position, layer in enumerate(self.layers):
            if not layer:
                raise ValueError(f"layer {position} of the network {self.name} has no comparator")
            used: set[int] = set()
            for comparator in layer:
                self._check(comparator, used, position)
                used.update(comparator)

    def _check(self, comparator: object, used: set[int], layer: int) -> None:
        where = f"of layer {layer} of the network {self.name}"
        pair = comparator if isinstance(comparator, tuple) else ()
        if len(pair) != 2 or not all(type(wire) is int for wire in pair):
            raise TypeError(
                f"the comparator {comparator!r} {where} must be a tuple (low, high) of two ints"
            )
        low, high = pair
        if low == high or min(pair) < 0 or max(pair) >= self.n:
            raise ValueError(
                f"the comparator {comparator} {where} must join two of the wires 0 .. {self.n - 1}"
            )
        for wire in (low, high):
            if wire in used:
                raise ValueError(
                    f"the comparator {comparator} {where} uses the wire {wire}, which another one "
                    "of this layer uses; move one of them to a layer of its own"
                )

    @property
    def sorts(self) -> bool:
        """Whether results leave on all wires in order: a sorting network, no selection."""
        return self.outputs == tuple(range(self.n))

    @property
    def depth(self) -> int:
        """Number of layers."""
        return len(self.layers)

    @cached_property
    def size(self) -> int:
        """Number of comparators."""
        return sum(len(layer) for layer in self.layers)

    @cached_property
    def pairs(self) -> NDArray[np.int32]:
        """All comparators (low, high), int32 [size, 2], layer after layer; read-only."""
        flat = [comparator for layer in self.layers for comparator in layer]
        pairs = np.array(flat, dtype=np.int32).reshape(-1, 2)
        pairs.setflags(write=False)
        return pairs

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Layer l is pairs[offsets[l] : offsets[l + 1]]; int64 [depth + 1]; read-only."""
        offsets = np.cumsum([0, *map(len, self.layers)], dtype=np.int64)
        offsets.setflags(write=False)
        return offsets

    @cached_property
    def for_kernels(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """`pairs` and `offsets` for kernels alone.

        `torch.compile` lets an array that it reads be written, and so does a copy of the network:
        of another type for Numba, which would compile the kernels anew.
        """
        return self.pairs.copy(), self.offsets.copy()

    @cached_property
    def for_graphs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """`pairs`, and [depth, n]: wire i comes next from wire j, or is result j - n of a layer.

        Results are those of its `low` wires, then those of its `high` ones. Both int64, so that
        graphs of `torch.compile` need not compute them.
        """
        pairs = self.pairs.astype(np.int64)
        places = np.tile(np.arange(self.n, dtype=np.int64), (self.depth, 1))
        for own, (start, stop) in zip(places, self.spans, strict=True):
            own[pairs[start:stop].T.ravel()] = self.n + np.arange(2 * (stop - start))
        return pairs, places

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Where each layer begins and ends among the pairs, in numbers, which graphs can read."""
        return tuple(pairwise(self.offsets.tolist()))

    @cached_property
    def is_own_mirror(self) -> bool:
        """Whether reversing all wires and the order changes no layer: -x reversed goes the same."""
        layers = np.repeat(np.arange(self.depth, dtype=np.int64), np.diff(self.offsets)) * self.n
        there, back = self.pairs.astype(np.int64), self.n - 1 - self.pairs[:, ::-1]
        keys = ((layers + low) * self.n + high for low, high in (there.T, back.T))
        one, other = map(np.sort, keys)
        return bool((one == other).all())

    def states(self, values: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """The values [..., n] on the wires, hard: before the first layer and after every layer."""
        yield values
        for start, stop in pairwise(self.offsets):
            low, high = self.pairs[start:stop].T
            a, b = values[..., low], values[..., high]
            values = values.copy()
            values[..., low], values[..., high] = np.minimum(a, b), np.maximum(a, b)
            yield values


def layered(comparators: Iterable[Comparator]) -> tuple[Layer, ...]:
    """Arrange comparators of a sequential program in layers, each in the first that it fits."""
    layers: list[list[Comparator]] = []
    free: dict[int, int] = {}  # the first layer that leaves this wire free
    for low, high in comparators:
        at = max(free.get(low, 0), free.get(high, 0))
        if at == len(layers):
            layers.append([])
        layers[at].append((low, high))
        free[low] = free[high] = at + 1
    return tuple(map(tuple, layers))


def pruned(layers: Iterable[Iterable[Comparator]], outputs: Iterable[int]) -> tuple[Layer, ...]:
    """The layers with only those comparators from which a path leads to one of the outputs.

    What leaves on the outputs stays the same, in a relaxed network too.
    """
    live, pruned_layers = set(outputs), list[Layer]()
    for layer in reversed([*layers]):
        needed = tuple(pair for pair in layer if pair[0] in live or pair[1] in live)
        live.update(wire for pair in needed for wire in pair)
        if needed:
            pruned_layers.append(needed)
    return tuple(reversed(pruned_layers))


def _generator(comparators: Callable[[int], Iterable[Comparator]]) -> Callable[[int], Network]:
    """Turn a function that yields comparators into one that makes networks, cached by n."""

    @cache
    def built(n: int) -> Network:
        _announce(comparators.__name__, n)
        return Network(n, layered(comparators(n)), f"{comparators.__name__}({n})")

    # The check comes before the cache, in which 1, 1.0 and True would be equal keys.
    @wraps(comparators)
    def generator(n: int) -> Network:
        return built(check_count("n", n))

    return generator


# What a comparator takes while a network is made: seconds of one core, and bytes.
_SECONDS, _BYTES = 2.5e-6, 150
_LONG = 5.0  # seconds of which users are told
_TOO_LONG = 60.0
INSTEAD = "the method 'permutahedron' takes O(n log n) time and O(n) memory"


def _announce(name: str, n: int) -> None:
    """Log how long it takes to make a large network, once for each n.

    Raises:
        MemoryError: it does not fit into memory.
        ValueError: it would take minutes.
    """
    rounds = (n - 1).bit_length()
    count = n * (n - 1) // 2 if name == "odd_even" else n * rounds * (rounds + 1) // 4  # at most
    what = f"the network {name} for {n:,} values, of about {count:,} comparators,"
    check_memory(what, _BYTES * count, INSTEAD)
    if _SECONDS * count > _TOO_LONG:
        raise ValueError(
            f"{what} would take about {_SECONDS * count:.0f} seconds to make, more than "
            f"{_TOO_LONG:.0f}; the method 'softsort' takes O(n log n) time and O(n) memory for "
            "values and ranks, 'permutahedron' too"
        )
    if _SECONDS * count > _LONG:
        logging.getLogger("gendr").warning(
            f"gendr: {what} takes about {_SECONDS * count:.0f} seconds to make, once; {INSTEAD}"
        )


@_generator
def odd_even(n: int) -> Iterator[Comparator]:
    """Odd-even transposition sort: neighbours only, n(n - 1)/2 comparators.

    Depth n (thesis section 3.2.1), but 0 for n = 1 and 1 for n = 2, whose second layer is empty.
    """
    for layer in range(n):
        for i in range(layer % 2, n - 1, 2):
            yield i, i + 1


@_generator
def bitonic(n: int) -> Iterator[Comparator]:
    """Batcher's bitonic sorter for any n.

    Depth k(k + 1)/2 with k = log2(n) if n is a power of two; these are the networks of thesis
    Figure 3.2, wire by wire. Otherwise depth at most k(k + 1)/2 with k = log2(n) rounded up.
    """
    yield from _bitonic_sort(0, n, ascending=True)


def _bitonic_sort(start: int, n: int, *, ascending: bool) -> Iterator[Comparator]:
    if n > 1:
        half = n // 2
        yield from _bitonic_sort(start, half, ascending=True)
        yield from _bitonic_sort(start + half, n - half, ascending=False)
        yield from _bitonic_merge(start, n, ascending=ascending)


def _bitonic_merge(start: int, n: int, *, ascending: bool) -> Iterator[Comparator]:
    """Sort a bitonic sequence: one that first ascends and then descends.

    Let m be the largest power of two below n. To get 2m wires, imagine wires with -inf at the end
    that receives the minima: the sequence stays bitonic, and -inf stays where it is.
    """
    if n > 1:
        m = 1 << ((n - 1).bit_length() - 1)
        for i in range(start, start + n - m):
            yield (i, i + m) if ascending else (i + m, i)
        first = n - m if ascending else m
        yield from _bitonic_merge(start, first, ascending=ascending)
        yield from _bitonic_merge(start + first, n - first, ascending=ascending)


@_generator
def odd_even_merge(n: int) -> Iterator[Comparator]:
    """Batcher's odd-even merge exchange sort (Knuth, volume 3, Algorithm 5.2.2M) for any n.

    As deep as `bitonic`, with fewer comparators, all of which point down.
    """
    top = 1 << max(0, (n - 1).bit_length() - 1)
    p = top if n > 1 else 0
    while p:
        q, rest, distance = top, 0, p
        while distance:
            yield from ((i, i + distance) for i in range(n - distance) if i & p == rest)
            distance, q, rest = q - p, q // 2, p
        p //= 2


NETWORKS = {generator.__name__: generator for generator in (odd_even, bitonic, odd_even_merge)}


def network(name: str, n: int) -> Network:
    """The network of this name for n values; each is made once.

    Raises:
        TypeError: n is no int.
        ValueError: unknown name, or n < 1.
    """
    return NETWORKS[check_choice("network", name, NETWORKS)](n)
