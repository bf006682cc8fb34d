"""The two operations of a relaxed sorting network, and the backends that offer them.

`gates` sends the keys x [B, n] through the layers. Comparator (i, j) keeps its two keys in place
with probability keep = F((x_j - x_i) * steepness), and swaps them otherwise:

    keep, swap = F, 1 - F;  x_i, x_j = keep x_i + swap x_j, swap x_i + keep x_j.

`carry` sends a payload [B, n, c] through the same swaps; with the identity as payload, the result
is the relaxed permutation matrix. Gates are [B, C], for comparators in the order of
`Network.pairs`.

`swap` is returned beside `keep`, although swap = 1 - keep, because a small swap could not be
computed from keep without losing its digits. With both, P consists of sums of products of
non-negative numbers, so that all its entries have all their digits and their logarithms are finite.
As the two determine each other, gradients are counted only once: `swap` is a constant for autograd,
and the gradient of `keep` includes that through `swap`.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from torch import Tensor

from gendr.distributions import Distribution
from gendr.distributions.decisions import Number
from gendr.sorting.networks import Network

Gated: TypeAlias = "tuple[Tensor, Tensor, Tensor]"  # values [B, n], keep [B, C], swap [B, C]


class Backend(Protocol):
    """A backend is a module that has these functions; both operations are twice differentiable."""

    def available(self) -> str | None:
        """None if usable here, else the reason."""
        ...

    def supports(self, tensor: Tensor) -> bool:
        """Whether it works on the device, and with the dtype, of this tensor."""
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
    """The kernels of a compiled backend: functions of detached, contiguous tensors."""

    def gates_forward(
        self, x: Tensor, network: Network, dist: Distribution, steepness: Number, *, save: bool
    ) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, ...]]:
        """Values, keep, swap, and if `save` the tensors that `gates_backward` needs, else ()."""
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

        At most one of the two grads is None.
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
        """Gradients of keep (including that through swap), and of the payload if there is one."""
        ...
