"""The two operators of a relaxed sorting network, by their definitions in plain PyTorch.

`gates` sends the keys x [B, n] through the layers. Comparator (i, j) keeps its two keys in place
with probability keep = F((x_j - x_i) * steepness), and swaps them otherwise:

    keep, swap = F, 1 - F;  x_i, x_j = keep x_i + swap x_j, swap x_i + keep x_j.

`carry` sends a payload [B, n, c] through the same swaps; with the identity as payload, the result
is the relaxed permutation matrix. Gates are [B, C], for comparators in the order of
`Network.pairs`. In the thesis a comparator is (3.5) with the weights of (3.9) and (3.10), and
`carry` of the identity is the product (3.11).

`swap` is returned beside `keep`, although swap = 1 - keep, because a small swap could not be
computed from keep without losing its digits. With both, P consists of sums of products of
non-negative numbers, so that all its entries have all their digits and their logarithms are finite.
As the two determine each other, gradients are counted only once: `swap` is a constant for autograd,
and the gradient of `keep` includes that through `swap`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gendr._common.ranges import finite, saturated, spread
from gendr._common.tracing import check_reverse_mode
from gendr.distributions.decisions import Number, scale_of
from gendr.kernels.operator import Operator
from gendr.sorting.backends.comparators import Comparators
from gendr.sorting.networks import Network


def gates(comparators: Comparators, x: Tensor, steepness: Number) -> tuple[Tensor, Tensor, Tensor]:
    """Values [B, n], keep and swap [B, C] of keys [B, n].

    Differentiable in x, in a steepness that is a tensor (0-dim), and in tensors inside the
    distribution.
    """
    network, dist = comparators.network, comparators.dist
    given, in_graph = x, torch.compiler.is_compiling()
    x = given if in_graph else spread(given)
    none = x.detach()[:, :0]
    keeps, swaps = [none], [none]  # a network without comparators has no gates
    if isinstance(steepness, Tensor):
        steepness = saturated(steepness)
    scale = scale_of(steepness)
    for layer in _layers(network, x.device):
        low, high, _ = layer
        keep, swap = dist.coverage(x[:, high] - x[:, low], scale)
        keep, swap = saturated(keep), swap.detach()
        x = _mixed(x, layer, keep, swap)
        keeps.append(keep)
        swaps.append(swap)
    keep, swap = torch.cat(keeps, -1), torch.cat(swaps, -1)
    if in_graph:  # inductor makes wrong code, too, of layers whose first values are no input
        x, keep, swap = (spread(given, y) for y in (x, keep, swap))
    return x, keep, swap


def carry(network: Network, keep: Tensor, swap: Tensor, payload: Tensor | None) -> Tensor:
    """The payload [B, n, c] after the swaps; None is the identity: [B, n (rank), n (input)].

    Differentiable in keep and payload.
    """
    if payload is None:
        identity = torch.eye(network.n, dtype=keep.dtype, device=keep.device)
        payload = identity.expand(keep.shape[0], -1, -1)
    layers = _layers(network, keep.device)
    for layer, (start, stop) in zip(layers, network.spans, strict=True):
        payload = _mixed(payload, layer, keep[:, start:stop, None], swap[:, start:stop, None])
    return payload


def _layers(network: Network, device: torch.device) -> list[tuple[Tensor, Tensor, Tensor]]:
    """The wires (low, high) of each layer, and the places of `Network.for_graphs`."""
    check_reverse_mode()
    pairs, places = (torch.from_numpy(part).to(device) for part in network.for_graphs)
    low, high = pairs.unbind(-1)
    return [(low[a:b], high[a:b], own) for (a, b), own in zip(network.spans, places, strict=True)]


def _mixed(
    values: Tensor, layer: tuple[Tensor, Tensor, Tensor], keep: Tensor, swap: Tensor
) -> Tensor:
    """The values [B, n, ...] after one layer, whose comparators have these gates.

    The slope with respect to keep (and to swap = 1 - keep) enters autograd by an added term whose
    value is 0 and whose slope is the difference of the two values. Computed as a difference of
    gradients it could be inf - inf.
    """
    low, high, places = layer
    a, b = values[:, low], values[:, high]
    moved = (keep - keep.detach()) * finite(a - b)
    keep, swap = keep.detach(), swap.detach()
    mixed = torch.cat([keep * a + swap * b + moved, swap * a + keep * b - moved], 1)
    # Weights whose sum is slightly above 1 must not turn the largest number into inf.
    mixed = finite(mixed)
    if not torch.compiler.is_compiling():
        return values.index_copy(1, torch.cat([low, high]), mixed)
    # Of copies into values, and of places that the graph computes, inductor (torch 2.13) makes
    # wrong code if sizes are free.
    return torch.cat([values, mixed], 1)[:, places]


GATES = Operator("sorting.gates", reference=gates, constant=(2,))
# The values alone: autograd takes longer over two results more than kernels over a short list.
NETWORK = Operator("sorting.network", reference=lambda *given: gates(*given)[0])
CARRY = Operator("sorting.carry", reference=carry)
