"""The projection onto the permutahedron and isotonic regression, by their definitions in torch.

Positions are pooled into blocks by the minimax formula of isotonic regression, and results are
smooth functions of the input while the blocks do not change. Kernels find the same blocks by
merging neighbours, see `cpu.isotonic_kernels` and `triton.isotonic_kernels`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from gendr._common.ranges import finite, spread
from gendr._common.tracing import running_log_sum_exp, running_max
from gendr.distributions.decisions import Number
from gendr.kernels.operator import Operator


class _Blocks:
    """The order of the values and their blocks, held constant: the parts that are not smooth.

    Args:
        order: [..., n] int64, which sorts the values.
        starts: [..., n] int64, the first position of the block of every sorted position.
    """

    def __init__(self, order: Tensor, starts: Tensor) -> None:
        self.order, self.starts = order, starts
        n = order.shape[-1]
        positions = torch.arange(n, device=order.device).expand_as(order)
        self.ends = torch.zeros_like(starts).scatter_reduce(-1, starts, positions, "amax")
        self.ends = self.ends.gather(-1, starts)

    def sum(self, x: Tensor) -> Tensor:
        """The sum of x over the block of every position."""
        sums = torch.zeros_like(x).scatter_add(-1, self.starts, x)
        return sums.gather(-1, self.starts)

    def mean(self, x: Tensor) -> Tensor:
        """The mean of x over the block of every position."""
        return self.sum(x / (self.ends - self.starts + 1))

    def above(self, at: Tensor, x: Tensor) -> Tensor:
        """How far x is above that at `starts` or `ends`, which has no gradient here; finite."""
        fixed = x.detach()
        return finite(fixed - fixed.gather(-1, at)) + (x - fixed)


def _ranks_within(blocks: _Blocks, entropic: bool, x: Tensor, steepness: Number) -> Tensor:
    """The soft ranks of x, given the blocks."""
    w = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device).expand_as(x)
    # Only differences of x within a block matter: the gradients of s sum to 0 there. Those of
    # halves do not overflow.
    s = steepness * blocks.above(blocks.starts, 0.5 * x.gather(-1, blocks.order)) * 2
    if entropic:
        share = s.exp()
        ranks = share / blocks.sum(share) * blocks.sum(w)
    else:
        ranks = s - blocks.mean(s) + blocks.mean(w)
    return spread(x, torch.zeros_like(x).scatter(-1, blocks.order, ranks))


def _values_within(blocks: _Blocks, entropic: bool, x: Tensor, steepness: Number) -> Tensor:
    """The soft sorted values of x, given the blocks."""
    w = x.gather(-1, blocks.order)
    positions = torch.arange(x.shape[-1], dtype=x.dtype, device=x.device).expand_as(x)
    s = steepness * blocks.above(blocks.ends, positions)
    if not entropic:
        return spread(x, s - blocks.mean(s) + blocks.mean(w))
    level = blocks.sum(blocks.above(blocks.ends, w).exp()).log() - blocks.sum(s.exp()).log()
    return spread(x, s + level + w.detach().gather(-1, blocks.ends))


def _blocks(order: Tensor, s: Tensor, w: Tensor, entropic: bool) -> _Blocks:
    """The blocks of the projection, by the minimax formula of isotonic regression: O(n^2) memory.

    The level of position i is max over j <= i of min over k >= i of m(j, k), the difference of the
    means (logarithms of sums of exponentials) of s and w at j .. k; its block begins at that j.
    """
    n, size = s.shape[-1], torch.maximum(s.abs(), w.abs())
    j, k = torch.arange(n, device=s.device)[:, None], torch.arange(n, device=s.device)
    if entropic:
        s, w = (
            running_log_sum_exp(torch.where(k < j, -torch.inf, t[..., None, :])) for t in (s, w)
        )
        levels = s - w
    else:
        levels = torch.where(k < j, 0.0, (s - w)[..., None, :]).cumsum(-1) / (k - j + 1)
    levels = -running_max(torch.where(k < j, -torch.inf, -levels).flip(-1)).flip(-1)
    levels, starts = torch.where(k < j, -torch.inf, levels).max(-2)
    # By rounding, a position may name a start that names another one, or one of a lower level: a
    # sum of exponentials whose last is far above the others equals the last.
    rounding = 2.0**-48 * torch.maximum(size[..., 1:], size[..., :-1])
    rises = torch.nn.functional.pad(levels.diff(dim=-1) > rounding, (1, 0))
    return _Blocks(order, running_max(torch.where((starts == k) | rises, k, 0)))


def _ranks(entropic: bool, x: Tensor, steepness: Number) -> Tensor:
    with torch.no_grad():
        keys = x.detach().double()
        order = keys.argsort(-1)
        s = steepness * keys.gather(-1, order)
        w = torch.arange(1.0, x.shape[-1] + 1, dtype=s.dtype, device=x.device).expand_as(s)
        blocks = _blocks(order, s, w.log() if entropic else w, entropic)
    return _ranks_within(blocks, entropic, x, steepness)


def _values(entropic: bool, x: Tensor, steepness: Number) -> Tensor:
    with torch.no_grad():
        keys = x.detach().double()
        order = keys.argsort(-1)
        s = steepness * torch.arange(x.shape[-1], dtype=keys.dtype, device=x.device)
        blocks = _blocks(order, s.expand_as(keys), keys.gather(-1, order), entropic)
    return _values_within(blocks, entropic, x, steepness)


def _replayed(within: Any) -> Any:
    """The definition with the blocks that a kernel found."""

    def replay(entropic: bool, saved: tuple[Any, ...], x: Tensor, steepness: Number) -> Tensor:
        order, starts = (torch.as_tensor(t).reshape(x.shape).long() for t in saved[:2])
        return within(_Blocks(order, starts), entropic, x, steepness)

    return replay


RANKS = Operator("sorting.ranks", reference=_ranks, replay=_replayed(_ranks_within))
VALUES = Operator("sorting.values", reference=_values, replay=_replayed(_values_within))


def _isotonic(_: None, x: Tensor) -> Tensor:
    with torch.no_grad():
        fixed = x.detach()
        blocks = _blocks(fixed, fixed, torch.zeros_like(fixed), False)
    return spread(x, blocks.mean(x))


def _isotonic_within(_: None, saved: tuple[Any, ...], x: Tensor) -> Tensor:
    starts = saved[0].reshape(x.shape).long()
    return spread(x, _Blocks(starts, starts).mean(x))


ISOTONIC = Operator("sorting.isotonic", reference=_isotonic, replay=_isotonic_within)


class Projection:
    """What kernels of `RANKS` and `VALUES` have in common, on any device.

    Attributes:
        operator: whose kernels these are.
    """

    operator: ClassVar[Operator]

    @classmethod
    def backward(
        cls, entropic: bool, inputs: tuple[Tensor, Number], saved: tuple[Tensor, ...],
        grads: tuple[Tensor], wanted: tuple[bool, ...],
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        """The gradient of x; that of the steepness too if it is wanted, by the definition."""
        if not wanted[1]:
            return cls.gradient(entropic, inputs, saved, grads[0]), None
        leaves = [torch.as_tensor(t).detach().requires_grad_() for t in inputs]
        with torch.enable_grad():
            result = cls.operator.replay(entropic, saved, *leaves)  # pyright: ignore[reportOptionalCall]
        return torch.autograd.grad(result, leaves, grads)

    @classmethod
    def gradient(
        cls, entropic: bool, inputs: tuple[Tensor, Number], saved: tuple[Tensor, ...], grad: Tensor
    ) -> Tensor:
        """The gradient of x alone, by a kernel."""
        raise NotImplementedError
