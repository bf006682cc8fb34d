"""Which inputs a gate reads: wirings [fan_in, out_features] of indices.

A random wiring deals shuffled decks of all inputs, so that none is read much more often than
another, and none is left out if there are enough gates. No gate reads the same input twice, and no
two gates read the same inputs as long as there are enough sets of inputs.

A learnable wiring gives each input of each gate a few candidates, of which training chooses one.

Source: thesis, sections 6.2 and 6.3.1 (random connections, fixed); learnable wirings: Mommen et
al., A Method for Optimizing Connections in Differentiable Logic Gate Networks, arXiv 2507.06173,
2025 (a probability distribution over a subset of connections for each input of a gate).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, final

import torch
from torch import Tensor

from gendr._common.checks import check_count

F = TypeVar("F", bound=Callable[..., Any])

# How many candidates an input of a gate has by default.
CANDIDATES = 8

# Wirings that use more than this part of all sets of inputs are drawn from a list of all of them:
# mending a dealt one would take many rounds.
_DENSE = 0.2
_ROUNDS = 1000


@final
@dataclass(frozen=True)
class LearnableWiring:
    """Each input of a gate chooses among candidates: `LogicLayer(…, wiring=LearnableWiring(16))`.

    While it trains, an input is the mean of its candidates x_i, weighted by a softmax: sum over i
    of softmax(v)_i x_i. In `eval` mode and in circuits it is the candidate of the largest weight.
    The candidates of all inputs of a gate are different features, so that no gate can come to read
    one feature twice. The first candidates are those of `random_wiring` of the same seed.

    A layer then has c more weights for each input of a gate. For the backward pass it keeps, beside
    the features, what each input of each gate sees: fan_in numbers a gate for each row.

    Args:
        candidates: c, how many features each input chooses among; there must be fan_in times as
            many features.

    Raises:
        ValueError: if candidates < 1.

    Source: Mommen et al., arXiv 2507.06173, 2025.
    """

    candidates: int = CANDIDATES

    def __post_init__(self) -> None:
        check_count("candidates", self.candidates)


def _on_the_cpu(function: F) -> F:
    """Draw there, whatever torch's default device is: equal seeds are equal wirings."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch.device("cpu"):
            return function(*args, **kwargs)

    return call  # pyright: ignore[reportReturnType]


@_on_the_cpu
def random_wiring(
    in_features: int, out_features: int, fan_in: int = 2, *, seed: int | None = None
) -> Tensor:
    """A random wiring.

    Args:
        in_features: how many inputs there are, >= fan_in.
        out_features: how many gates read them.
        fan_in: how many inputs a gate reads.
        seed: of the draws; None takes torch's global random numbers.

    Returns:
        [fan_in, out_features] int64, indices of inputs.

    Raises:
        ValueError: if a number is too small.
    """
    in_features, out_features, fan_in = _checked_sizes(in_features, out_features, fan_in)
    return _draw(in_features, out_features, fan_in, _generator(seed))


@_on_the_cpu
def candidate_wiring(
    in_features: int,
    out_features: int,
    fan_in: int = 2,
    candidates: int | None = None,
    *,
    seed: int | None = None,
) -> Tensor:
    """The candidates of a learnable wiring; see `LearnableWiring`.

    Args:
        in_features: how many inputs there are, >= fan_in * candidates.
        out_features: how many gates read them.
        fan_in: how many inputs a gate reads.
        candidates: how many each input has; by default 8, or fewer if there are not enough inputs.
        seed: of the draws; None takes torch's global random numbers.

    Returns:
        [candidates, fan_in, out_features] int64, indices of inputs, different for each gate.

    Raises:
        ValueError: if a number is too small.
    """
    in_features, out_features, fan_in = _checked_sizes(in_features, out_features, fan_in)
    most = in_features // fan_in
    count = min(CANDIDATES, most) if candidates is None else check_count("candidates", candidates)
    if count > most:
        raise ValueError(
            f"candidates must be <= {most}, so that the {fan_in} inputs of a gate choose among "
            f"different ones of {in_features} features, got {count}"
        )
    generator = _generator(seed)
    chosen = in_features * torch.ones(count * fan_in, out_features, dtype=torch.int64)
    chosen[:fan_in] = _draw(in_features, out_features, fan_in, generator)
    for k in range(fan_in, count * fan_in):
        # Draw until it is none of those before: evenly among the others.
        wrong = torch.arange(out_features)
        while len(wrong):
            draw = torch.randint(in_features, (len(wrong),), generator=generator)
            chosen[k, wrong] = draw
            wrong = wrong[(chosen[:k, wrong] == draw).any(0)]
    return chosen.view(count, fan_in, out_features)


@_on_the_cpu
def tree_wiring(
    channels: int,
    area: int,
    trees: int,
    leaves: int,
    channels_per_tree: int,
    *,
    groups: int = 1,
    seed: int | None = None,
) -> Tensor:
    """What the leaves of trees read of a window [channels, area].

    Args:
        channels: of the window.
        area: places of a channel.
        trees: how many.
        leaves: of each tree.
        channels_per_tree: of how many channels it reads.
        groups: parts of the channels and of the trees; a tree reads its own part.
        seed: of the draws; None takes torch's global random numbers.

    Returns:
        [leaves, trees] int64, indices of places, different for each tree.

    Raises:
        ValueError: if there are fewer places than leaves.
    """
    if leaves > channels_per_tree * area:
        raise ValueError(
            f"a tree reads {leaves} different places, but {channels_per_tree} channels of its "
            f"window have {channels_per_tree * area}; take a smaller depth, or a larger "
            "kernel_size or channels_per_tree"
        )
    generator = _generator(seed)
    each, count = channels // groups, trees // groups
    parts: list[Tensor] = []
    for group in range(groups):
        if channels_per_tree <= 2:  # evenly, and different pairs
            own = _draw(each, count, channels_per_tree, generator)
        else:
            own = torch.rand(count, each, generator=generator).argsort(1)[:, :channels_per_tree].T
        order = torch.rand(count, channels_per_tree * area, generator=generator).argsort(1)
        places = order[:, :leaves].T
        own = own + group * each
        parts.append(own.gather(0, places // area) * area + places % area)
    return torch.cat(parts, 1)


def check_wires(wires: Tensor, in_features: int, out_features: int, fan_in: int) -> Tensor:
    """Return a wiring that a user gave, as int64, if it fits.

    Raises:
        TypeError: if it holds no integers.
        ValueError: if its shape or an index is wrong.
    """
    from gendr._common.checks import check_index, check_integer, check_shape

    wires = check_integer("wiring", wires)
    check_shape("wiring", wires, "[k, N]", k=fan_in, N=out_features)
    return check_index("wiring", wires, in_features, "inputs")


def _checked_sizes(in_features: int, out_features: int, fan_in: int) -> tuple[int, int, int]:
    fan_in = check_count("fan_in", fan_in)
    out_features = check_count("out_features", out_features)
    in_features = check_count("in_features", in_features)
    if in_features < fan_in:
        raise ValueError(
            f"in_features must be >= {fan_in}, as every gate reads {fan_in} different inputs, "
            f"got {in_features}"
        )
    return in_features, out_features, fan_in


def _generator(seed: int | None) -> torch.Generator | None:
    return None if seed is None else torch.Generator().manual_seed(seed)


def _draw(inputs: int, gates: int, fan_in: int, generator: torch.Generator | None) -> Tensor:
    sets = math.comb(inputs, fan_in)
    if gates > _DENSE * sets and sets < 1 << 22:
        return _from_all(inputs, gates, fan_in, generator)
    return _dealt(inputs, gates, fan_in, generator)


def _from_all(inputs: int, gates: int, fan_in: int, generator: torch.Generator | None) -> Tensor:
    """Drawn from the list of all sets of inputs; a set comes again only after all the others."""
    every = torch.combinations(torch.arange(inputs), fan_in)  # [sets, fan_in]
    decks = -(-gates // len(every))
    order = torch.cat([torch.randperm(len(every), generator=generator) for _ in range(decks)])
    chosen = every[order[:gates]]
    # Each set in a random order: which input comes first matters to gates such as "a and not b".
    turn = torch.rand(chosen.shape, generator=generator).argsort(1)
    return _covered(chosen.gather(1, turn).T.contiguous(), inputs)


def _dealt(inputs: int, gates: int, fan_in: int, generator: torch.Generator | None) -> Tensor:
    """Dealt from shuffled decks of all inputs, then mended."""
    decks = -(-gates * fan_in // inputs)
    cards = torch.cat([torch.randperm(inputs, generator=generator) for _ in range(decks)])
    wires = cards[: gates * fan_in].reshape(fan_in, gates)
    for done in range(_ROUNDS):
        wrong = _wrong(wires, inputs)
        if not len(wrong) or (done > 30 and 4 * len(wrong) > gates):
            break
        # An input of a wrong gate is swapped with that of another gate, whichever; this keeps how
        # often each input is read.
        others = torch.randint(gates, (len(wrong),), generator=generator).tolist()
        slots = torch.randint(fan_in, (len(wrong),), generator=generator).tolist()
        for j, k, slot in zip(wrong.tolist(), others, slots, strict=True):
            wires[slot, [j, k]] = wires[slot, [k, j]]
    wrong = _wrong(wires, inputs)
    if not len(wrong):
        return wires.contiguous()
    # Gates that read many of the inputs, as 5 of 9: swaps never end. Draw what is wrong anew.
    right = torch.ones(gates, dtype=torch.bool)
    right[wrong] = False
    used = {tuple(sorted(column)) for column in wires[:, right].T.tolist()}
    for j in wrong.tolist():
        draw: list[int] = []
        while not draw or tuple(sorted(draw)) in used:
            draw = torch.randperm(inputs, generator=generator)[:fan_in].tolist()
        used.add(tuple(sorted(draw)))
        wires[:, j] = torch.tensor(draw)
    return _covered(wires.contiguous(), inputs)


def _covered(wires: Tensor, inputs: int) -> Tensor:
    """Give inputs that nobody reads the places of those that are read most.

    The new sets of inputs are new indeed: no other gate reads such an input.
    """
    reads = torch.bincount(wires.flatten(), minlength=inputs)
    for left_out in (reads == 0).nonzero()[:, 0].tolist():
        most = int(reads.argmax())
        if reads[most] < 2:
            break  # there are fewer places than inputs
        slot, gate = (wires == most).nonzero()[0].tolist()
        wires[slot, gate] = left_out
        reads[most] -= 1
        reads[left_out] += 1
    return wires


def _wrong(wires: Tensor, inputs: int) -> Tensor:
    """The gates that read an input twice, or the inputs of an earlier gate."""
    ordered = wires.sort(0).values
    twice = (ordered[1:] == ordered[:-1]).any(0)
    if math.comb(inputs, len(wires)) < 2**62 and inputs ** len(wires) < 2**62:
        key = torch.zeros_like(ordered[0])
        for row in ordered:
            key = key * inputs + row
        by_key, place = key.sort(stable=True)
        again = torch.zeros_like(twice)
        again[place[1:]] = by_key[1:] == by_key[:-1]
        twice = twice | again
    return twice.nonzero()[:, 0]
