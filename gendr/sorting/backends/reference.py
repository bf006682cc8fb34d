"""The reference backend of the relaxed sorting networks: plain PyTorch, twice differentiable.

Read it beside the thesis: a comparator is (3.5) with the weights of (3.9) and (3.10), `carry` of
the identity is the product (3.11).
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from gendr._runtime.ranges import finite, saturated
from gendr.distributions import Distribution
from gendr.distributions.decisions import Number, scale_of
from gendr.sorting.backends.interface import Gated
from gendr.sorting.networks import Network


def available() -> str | None:
    """None: it needs nothing but torch."""
    return None


def supports(tensor: Tensor) -> bool:
    """True: it works on every device of torch."""
    return True


def gates(x: Tensor, network: Network, dist: Distribution, steepness: Number) -> Gated:
    """See `Backend.gates`."""
    keeps, swaps = [x[:, :0]], [x[:, :0]]  # a network without comparators has no gates
    if isinstance(steepness, Tensor):
        steepness = saturated(steepness)
    scale = scale_of(steepness)
    for layer in _layers(network, x.device):
        low, high = layer
        keep, swap = dist.coverage(x[:, high] - x[:, low], scale)
        keep, swap = saturated(keep), swap.detach()
        x = _mixed(x, layer, keep, swap)
        keeps.append(keep)
        swaps.append(swap)
    return x, torch.cat(keeps, -1), torch.cat(swaps, -1)


def carry(keep: Tensor, swap: Tensor, network: Network, payload: Tensor | None) -> Tensor:
    """See `Backend.carry`."""
    if payload is None:
        identity = torch.eye(network.n, dtype=keep.dtype, device=keep.device)
        payload = identity.expand(len(keep), -1, -1)
    for layer, start, stop in zip(
        _layers(network, keep.device), network.offsets[:-1], network.offsets[1:], strict=True
    ):
        payload = _mixed(payload, layer, keep[:, start:stop, None], swap[:, start:stop, None])
    return payload


def _layers(network: Network, device: torch.device) -> list[tuple[Tensor, Tensor]]:
    """The wires (low, high) of each layer."""
    pairs = torch.from_numpy(network.pairs.astype("int64")).to(device)
    low, high = pairs.unbind(-1)
    return [(low[a:b], high[a:b]) for a, b in pairwise(network.offsets.tolist())]


def _mixed(values: Tensor, layer: tuple[Tensor, Tensor], keep: Tensor, swap: Tensor) -> Tensor:
    """The values [B, n, ...] after one layer, whose comparators have these gates.

    The slope with respect to keep (and to swap = 1 - keep) enters autograd by an added term whose
    value is 0 and whose slope is the difference of the two values. Computed as a difference of
    gradients it could be inf - inf.
    """
    low, high = layer
    a, b = values[:, low], values[:, high]
    moved = (keep - keep.detach()) * finite(a - b)
    keep, swap = keep.detach(), swap.detach()
    mixed = torch.cat([keep * a + swap * b + moved, swap * a + keep * b - moved], 1)
    # Weights whose sum is slightly above 1 must not turn the largest number into inf.
    return values.index_copy(1, torch.cat(layer), finite(mixed))
