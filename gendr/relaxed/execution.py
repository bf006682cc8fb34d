"""How the paths of a program come together: merged behind each block, or as trajectories.

Merged, a variable behind a decision is its expectation, and later decisions see only that. In a
trajectory every decision is taken: its state is one that the hard program could have, so that what
the program does with several variables at once, or with one twice, is right. Trajectories are a
dimension of the batch, before those of the user; in each, the probability of a decision becomes 0
or 1, and the same functions do the rest.

**Joint**: the most probable paths of each item, found best first: a run that follows a path shows
the probability of leaving it at each decision, and the most probable ways to leave are the next
paths. What they do not cover is taken from the merged run. The result is a sum of weights times
states, and its gradient the derivative of this sum.

**Sampled**: every decision is drawn in every sample. With log p of all decisions that a sample met,

    grad E[f] = E[grad f + (f - b) grad log p],    b the mean of the other samples

and second derivatives by those of f + (f - b) (p / p' - 1), p' the constant p: unbiased as well.

Source: Williams, 1992 (score function); Kool et al., 2019 (the mean of the others); Foerster et
al., DiCE, 2018 (derivatives of any order).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from gendr._common.checks import check_choice, check_count

Address: TypeAlias = "tuple[int, ...]"
# The decisions around a place: their probabilities, and whether the place is where they are true.
Path: TypeAlias = "list[tuple[Tensor, bool]]"


class Unlikely(RecursionError):
    """A program calls itself where that is too improbable to matter."""


@dataclass(frozen=True)
class Merged:
    """Expectations behind each block: one run, whatever the number of paths."""


@dataclass(frozen=True)
class Joint:
    """Paths kept apart, the most probable first; the merged run stands for the others.

    Args:
        paths: how many of each item of a batch at most, >= 1.
    """

    paths: int = 64

    def __post_init__(self) -> None:
        check_count("paths", self.paths)


@dataclass(frozen=True)
class Sampled:
    """Every decision drawn, the gradient by the score function.

    Args:
        samples: of each item of a batch, >= 2.
    """

    samples: int = 64

    def __post_init__(self) -> None:
        check_count("samples", self.samples, least=2)


Execution: TypeAlias = "Merged | Joint | Sampled"
_EXECUTIONS = {"merged": Merged, "joint": Joint, "sampled": Sampled}


def as_execution(value: Any) -> Execution:
    """An execution, or the one of this name.

    Raises:
        TypeError, ValueError: it is neither.
    """
    if isinstance(value, (Merged, Joint, Sampled)):
        return value
    if not isinstance(value, str):
        raise TypeError(
            f"execution must be merged, joint, sampled, Joint(paths=...) or Sampled(samples=...), "
            f"got {value!r}"
        )
    return _EXECUTIONS[check_choice("execution", value, _EXECUTIONS)]()


@dataclass(frozen=True, eq=False)
class TakenDecisions:
    """Decisions that were taken at one place of the text.

    Attributes:
        options: [*batch, decisions, n], the probability of each option.
        picked: [*batch, decisions], which of them was taken.
        reached: [*batch], whether the path comes here.
    """

    options: Tensor
    picked: Tensor
    reached: Tensor


class Trajectories:
    """The decisions of a run in which every decision is taken.

    Args:
        batch: the shape of the batch, trajectories first.
        like: a tensor with the dtype and device of numbers.
        forced: which option to take, [*batch, decisions], by the address of a place; -1, or a place
            that is not there, for the most probable one. None to draw all.

    Attributes:
        log: [*batch], the logarithm of the probability of all that was taken.
        taken: what was taken, by address; the order of addresses is that of execution.
    """

    def __init__(
        self, batch: tuple[int, ...], like: Tensor, forced: dict[Address, Tensor] | None
    ) -> None:
        self.batch = batch
        self.forced = forced
        self.log = like.new_zeros(batch)
        self.taken: dict[Address, TakenDecisions] = {}
        self.path: Path = []
        self.scope: Address = ()
        self.count = 0

    def enter(self, part: int) -> tuple[Address, int]:
        """Begin a part of a block, a branch or an iteration; returns what `leave` needs."""
        saved = (self.scope, self.count)
        self.scope, self.count = (*self.scope, self.count, part), 0
        return saved

    def leave(self, saved: tuple[Address, int]) -> None:
        """End a part of a block."""
        self.scope, self.count = saved

    def decide(self, p: Tensor, dims: int = 0) -> Tensor:
        """Take decisions with the probabilities p [*batch, ...], `dims` of them their own: 0 or 1.

        What is taken already is returned as it is.
        """
        p = p.expand(*self.batch, *p.shape[p.ndim - dims :]) if dims else p.expand(self.batch)
        flat = p if dims else p[..., None]
        return self._pick(torch.stack([1 - flat, flat], -1))[..., 1].reshape(p.shape)

    def choose(self, shares: Tensor) -> Tensor:
        """Take one option of n with the probabilities [*batch, n]: 1 for it, 0 for the others."""
        shares = shares.expand(*self.batch, shares.shape[-1])
        return self._pick(shares[..., None, :])[..., 0, :]

    def _pick(self, options: Tensor) -> Tensor:
        """Take decisions [*batch, decisions, n]."""
        address = (*self.scope, self.count)
        self.count += 1
        plain = options.detach()
        if not bool(plain.isfinite().all()):  # a trajectory that does not come here may have NaN
            known = self.reached(hard_ties=True)[..., None, None] | plain.isfinite()
            first = torch.zeros_like(plain)
            first[..., 0] = 1.0
            options = torch.where(known, options, first)
            plain = options.detach()
        if bool(((plain == 0) | (plain == 1)).all()):
            return plain
        if self.forced is None:
            rows = plain.reshape(-1, plain.shape[-1])
            picked = torch.multinomial(rows, 1).reshape(plain.shape[:-1])
        else:
            picked = plain.argmax(-1)
            wanted = self.forced.get(address)
            if wanted is not None:
                picked = torch.where(wanted < 0, picked, wanted)
        reached = self.reached()
        chance = options.gather(-1, picked[..., None])[..., 0]
        log = chance.clamp(min=torch.finfo(chance.dtype).tiny).log().sum(-1)
        self.log = self.log + torch.where(reached, log, 0.0)
        if self.forced is not None:
            self.taken[address] = TakenDecisions(plain, picked, reached)
        return torch.nn.functional.one_hot(picked, plain.shape[-1]).to(plain.dtype)

    def reached(self, hard_ties: bool = False) -> Tensor:
        """Whether trajectories come to where the program is, [*batch]; as the hard one at ties."""
        result = torch.ones(self.batch, dtype=torch.bool, device=self.log.device)
        for bit, true in self.path:
            sure = getattr(bit, "_at_ties", None) if hard_ties else None
            result = result & ((bit.detach() if sure is None else sure()) == true)
        return result


# -- joint


def explored(
    run: Callable[[Trajectories], Any],
    batch: tuple[int, ...],
    like: Tensor,
    paths: int,
    tolerance: float,
) -> tuple[dict[Address, Tensor], Tensor]:
    """The most probable paths of each item of a batch.

    Args:
        run: runs the program in trajectories of the shape that they have.
        batch: the shape of the batch.
        like: as of `Trajectories`.
        paths: how many to look for.
        tolerance: the probability at which the others do not matter.

    Returns:
        What to force, and whether a path is one [paths, *batch]: some items have fewer.
    """
    found: list[dict[Address, Tensor]] = [{}]
    valid = [torch.ones((1, *batch), dtype=torch.bool, device=like.device)]
    open_: list[_Exits] = []
    left = torch.ones(batch, dtype=like.dtype, device=like.device)
    total = 0
    while True:
        trajectories = Trajectories((len(valid[-1]), *batch), like, found[-1])
        run(trajectories)
        exits = _Exits.of(trajectories, valid[-1])
        found[-1] = {address: taken.picked for address, taken in trajectories.taken.items()}
        left = left - (trajectories.log.exp() * valid[-1]).sum(0)
        total += len(valid[-1])
        if exits is not None:
            open_.append(exits)
        more = min(total, paths - total)
        if more <= 0 or not open_ or float(left.max()) <= tolerance:
            break
        chances = torch.cat([x.chances for x in open_])
        best, where = chances.topk(min(more, len(chances)), 0)
        rows = (best > 0).reshape(len(best), -1).any(1)  # the first ones: the best come first
        best, where = best[rows], where[rows]
        if not len(best):
            break
        found.append(_next(open_, where))
        valid.append(best > 0)
    return _together(found, [len(x) for x in valid]), torch.cat(valid)


@dataclass(eq=False)
class _Exits:
    """The ways to leave the paths of a round.

    Attributes:
        chances: [ways, *batch], the probability of the path up to there times that of the way; 0
            for what is no way, or was taken already.
        ways: [ways, 4], trajectory, number of the place, decision there, option.
        places: the addresses of the places in the order of execution.
        picked: what was taken at each of them.
    """

    chances: Tensor
    ways: Tensor
    places: list[Address]
    picked: list[Tensor]

    @classmethod
    def of(cls, trajectories: Trajectories, valid: Tensor) -> _Exits | None:
        before = valid.to(trajectories.log.dtype)
        places = sorted(trajectories.taken)
        chances: list[Tensor] = []
        ways: list[Tensor] = []
        for number, address in enumerate(places):
            taken = trajectories.taken[address]
            wanted = (trajectories.forced or {}).get(address)
            for k in range(taken.options.shape[-2]):
                options, picked = taken.options[..., k, :], taken.picked[..., k]
                free = taken.reached if wanted is None else taken.reached & (wanted[..., k] < 0)
                out = options.scatter(-1, picked[..., None], 0.0) * (before * free)[..., None]
                own = out.movedim(-1, 1)  # [trajectories, n, *batch]
                chances.append(own.flatten(0, 1))
                n = own.shape[1]
                trajectory = torch.arange(len(own), device=own.device).repeat_interleave(n)
                option = torch.arange(n, device=own.device).repeat(len(own))
                ways.append(
                    torch.stack([trajectory, torch.full_like(trajectory, number),
                                 torch.full_like(trajectory, k), option], -1)
                )  # fmt: skip
                chance = options.gather(-1, picked[..., None])[..., 0]
                before = before * torch.where(taken.reached, chance, 1.0)
        if not chances:
            return None
        joined, ways_of = torch.cat(chances), torch.cat(ways)
        kept = (joined > 0).reshape(len(joined), -1).any(1)
        if not bool(kept.any()):
            return None
        return cls(joined[kept], ways_of.to(kept.device)[kept], places,
                   [trajectories.taken[x].picked for x in places])  # fmt: skip


def _next(open_: list[_Exits], where: Tensor) -> dict[Address, Tensor]:
    """What to force so as to go the ways `where` [trajectories, *batch], which are taken off."""
    forced: dict[Address, Tensor] = {}
    start = 0
    flat = where.reshape(len(where), -1)  # [trajectories, items]
    item = torch.arange(flat.shape[1], device=flat.device).expand_as(flat)
    for exits in open_:
        mine = (flat >= start) & (flat < start + len(exits.chances))
        way = (flat - start)[mine]
        items = item[mine]
        exits.chances.view(len(exits.chances), -1)[way, items] = 0.0
        start += len(exits.chances)
        trajectory, number, k, option = exits.ways[way].unbind(-1)
        for n, (address, picked) in enumerate(zip(exits.places, exits.picked, strict=True)):
            size = picked.shape[-1]
            old = picked.reshape(len(picked), -1, size)[trajectory, items]  # [ways, decisions]
            column = torch.arange(size, device=old.device)
            here = (number == n)[:, None]
            old = torch.where(here & (column == k[:, None]), option[:, None], old)
            later = (number < n)[:, None] | (here & (column > k[:, None]))
            old = torch.where(later, -1, old)
            if address not in forced:
                forced[address] = torch.full((*flat.shape, size), -1, device=old.device)
            forced[address][mine] = old
    return {key: x.reshape(*where.shape, x.shape[-1]) for key, x in forced.items()}


def _together(found: list[dict[Address, Tensor]], sizes: list[int]) -> dict[Address, Tensor]:
    """What to force in all rounds at once."""
    result: dict[Address, Tensor] = {}
    for address in {key for one in found for key in one}:
        like = next(one[address] for one in found if address in one)
        result[address] = torch.cat(
            [
                one[address] if address in one else like.new_full((size, *like.shape[1:]), -1)
                for one, size in zip(found, sizes, strict=True)
            ]
        )
    return result


# -- results


def expected(result: Any, trajectories: Trajectories, valid: Tensor, merged: Any) -> Any:
    """The sum of the results of all paths, each times its probability; the rest is `merged`.

    Args:
        result: of the trajectories, tensors [trajectories, *batch, ...].
        trajectories: after the run.
        valid: [trajectories, *batch], which of them count.
        merged: a function that gives the result of the merged run; None if it has no part.
    """
    weights = trajectories.log.exp() * valid

    def one(x: Any, other: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        w = weights.reshape(*weights.shape, *(1,) * (x.ndim - weights.ndim))
        total = (torch.where(w == 0, 0.0, x) * w).sum(0)
        return total if merged is None else total + (1 - w.sum(0)) * other

    return _mapped(one, result, merged)


def averaged(result: Any, trajectories: Trajectories) -> Any:
    """The means over all samples, with derivatives by the score function; see the module."""
    gain = torch.expm1(trajectories.log - trajectories.log.detach())  # of p, from 1
    count = len(gain)

    def one(x: Any, _: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        plain = x.detach()
        away = (plain - plain.mean(0)) * (count / (count - 1))  # from the mean of the others
        away = away + (x - plain)  # with its own slope, for second derivatives
        return (x + away * gain.reshape(*gain.shape, *(1,) * (x.ndim - gain.ndim))).mean(0)

    return _mapped(one, result, None)


def _mapped(function: Callable[[Any, Any], Any], one: Any, two: Any) -> Any:
    """A function of the numbers in two results of the same form; the second may be missing."""
    if isinstance(one, (tuple, list)):
        members = cast("list[Any]", one)
        others = [None] * len(members) if two is None else two
        parts = [_mapped(function, a, b) for a, b in zip(members, others, strict=True)]
        return getattr(type(one), "_make", type(one))(parts)
    if isinstance(one, dict):
        table = cast("dict[Any, Any]", one)
        return {
            key: _mapped(function, x, None if two is None else two[key]) for key, x in table.items()
        }
    return function(one, two)
