"""The two operations of a relaxed sorting network, and the backends that offer them.

`gates` walks the keys x [B, n] through the layers. At comparator (i, j) they are kept where they
are with probability F((x_j - x_i) * steepness) and swapped with the rest:

    keep, swap = F, 1 - F;  x_i, x_j = keep x_i + swap x_j, swap x_i + keep x_j.

`carry` walks a payload [B, n, c] through the same swaps; that of the identity is the relaxed
permutation matrix. All gates are [B, C], comparators in the order of `Network.pairs`.

`swap` comes beside `keep` because its small values, 1 - keep in the mathematics, have lost their
digits there: with both, P is made of sums of products of non-negative numbers, and each of its
entries has all its digits, so that its logarithm is finite. As they determine each other, a
gradient is counted once: `swap` is a constant to autograd, and the gradient of `keep` includes
what comes through it.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from torch import Tensor

from gendr.distributions import Distribution
from gendr.sorting.base import Number
from gendr.sorting.networks import Network

Gated: TypeAlias = "tuple[Tensor, Tensor, Tensor]"  # values [B, n], keep [B, C], swap [B, C]


class Backend(Protocol):
    """A backend is a module that has these functions; both operations are twice differentiable."""

    def available(self) -> str | None:
        """None if usable here, else the reason."""
        ...

    def supports(self, tensor: Tensor) -> bool:
        """Whether it works where this tensor lives."""
        ...

    def gates(self, x: Tensor, network: Network, dist: Distribution, steepness: Number) -> Gated:
        """Values [B, n], keep and swap [B, C] of keys [B, n].

        Differentiable in x, in a steepness that is a tensor (0-dim), and in tensors inside dist.
        """
        ...

    def carry(self, keep: Tensor, swap: Tensor, network: Network, payload: Tensor | None) -> Tensor:
        """The payload [B, n, c] after the swaps; None is the identity: [B, n (rank), n (input)].

        Differentiable in keep and payload.
        """
        ...


class Kernels(Protocol):
    """What a compiled backend has besides: functions of detached, contiguous tensors."""

    def gates_forward(
        self, x: Tensor, network: Network, dist: Distribution, steepness: Number, *, save: bool
    ) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, ...]]:
        """Values, keep, swap, and if `save` whatever tensors `gates_backward` wants, else ()."""
        ...

    def gates_backward(
        self,
        x: Tensor,
        network: Network,
        dist: Distribution,
        steepness: Number,
        saved: tuple[Tensor, ...],
        grad_values: Tensor | None,
        grad_keep: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Gradients of x [B, n] and of the steepness, in parts that add up to it, of any shape.

        Not both grads are None.
        """
        ...

    def carry_forward(
        self, keep: Tensor, swap: Tensor, network: Network, payload: Tensor | None
    ) -> Tensor:
        """See `Backend.carry`."""
        ...

    def carry_backward(
        self,
        keep: Tensor,
        swap: Tensor,
        network: Network,
        payload: Tensor | None,
        grad: Tensor,
    ) -> tuple[Tensor, Tensor | None]:
        """Gradients of keep (with what comes through swap) and of the payload if there is one."""
        ...
