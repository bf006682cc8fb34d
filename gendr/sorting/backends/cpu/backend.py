"""The CPU backend of the relaxed sorting networks: parallel, compiled at run time by Numba.

float32 stays float32 where it cannot lose digits, see `kernels`. First derivatives are computed by
kernels, second derivatives by the reference backend.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, from_numpy

from gendr.distributions.decisions import Number
from gendr.kernels.numba.compilation import available as available
from gendr.kernels.numba.compilation import supports as supports
from gendr.kernels.operator import KernelPair
from gendr.kernels.threads import run
from gendr.sorting.backends.comparators import Comparators
from gendr.sorting.backends.cpu import list_losses, rows
from gendr.sorting.backends.cpu.isotonic import Isotonic, Ranks, Values
from gendr.sorting.networks import Network

Tensors: TypeAlias = "tuple[Tensor, ...]"
Arrays: TypeAlias = "tuple[np.ndarray[Any, Any], ...]"
Gradients: TypeAlias = "tuple[Tensor | None, ...]"

# The backward pass of `carry` sums over columns, for one row of the batch at a time. If rows are
# few, the columns are cut into runs, so that all threads have work. The number of runs depends only
# on the input, so that the sums do not depend on the number of threads.
_UNITS = 16
# Estimated nanoseconds of one thread, measured on an AMD EPYC of 2022: per gate, forward and
# backward; and per gate and column of the payload. Work below `_SHARED` is not shared among
# threads, since waking a thread takes about 0.1 ms, and at 0.4 ms two threads gained nothing in the
# median.
_GATE, _GATE_BACK, _CARRY, _CARRY_BACK = 3.0, 2.2, 0.1, 0.28
_SHARED = 450_000


# ---------------------------------------------------------------------------------------------
# Kernels of `gates` and `carry`, see `gendr.kernels.operator.Kernels`
# ---------------------------------------------------------------------------------------------


def gates_forward(
    comparators: Comparators, x: Tensor, steepness: Number, *, save: bool, alone: bool = False
) -> tuple[Tensors, tuple[Arrays]]:
    """Values, keep and swap, or values `alone`; differences and swaps are saved by groups."""
    network, (name, power) = comparators.network, comparators.kernel  # pyright: ignore[reportGeneralTypeIssues]  # it has one
    gates, address, group = _gates_of(name, "tails")
    # NumPy makes, and cuts, small arrays in a third of the time that PyTorch takes.
    keys = x.numpy()
    batch, size, dtype = len(keys), network.size, keys.dtype
    groups = -(-batch // group)
    values, keep = np.empty_like(keys), np.empty((0 if alone else batch, size), dtype)
    swap = keep if alone else np.empty_like(keep)
    places = groups if save else 0, size * group
    saved = np.empty(places, dtype), np.empty(places, dtype)  # one array of both is slow to unpack
    run(
        gates, groups, *network.for_kernels, keys, address, power, float(steepness),
        values, keep, swap, *saved, pieces=2, alone=_GATE * batch * size <= _SHARED,
    )  # fmt: skip
    others = () if alone else (from_numpy(keep), from_numpy(swap))
    return (from_numpy(values), *others), (saved,)


def gates_backward(
    comparators: Comparators, inputs: tuple[Tensor, Number], saved: tuple[Arrays], grads: Gradients,
    wanted: tuple[bool, ...],
) -> Gradients:  # fmt: skip
    """Gradients of x and, for every group, of the steepness."""
    (x, steepness), (differences, swaps) = inputs, saved[0]
    network, (name, power) = comparators.network, comparators.kernel  # pyright: ignore[reportGeneralTypeIssues]  # it has one
    gates_back, address, _ = _gates_of(name, "density")
    of_values, of_keep = (*grads, None)[:2]
    none = differences[:0]
    of_x, parts = np.empty(x.shape, differences.dtype), np.empty(len(differences))
    run(
        gates_back, len(parts), network.for_kernels[0], differences, swaps, address, power,
        float(steepness), none if of_values is None else of_values.numpy(),
        none if of_keep is None else of_keep.numpy(), of_x, parts,
        pieces=2, alone=_GATE_BACK * len(of_x) * network.size <= _SHARED,
    )  # fmt: skip
    return from_numpy(of_x), from_numpy(parts) if wanted[1] else None


@cache
def _gates_of(dist: str, kind: Literal["tails", "density"]) -> tuple[Any, int, int]:
    """The kernel that needs this function, the function's address, and the rows of a group."""
    from gendr.distributions.numba import loop
    from gendr.sorting.backends.cpu import kernels

    kernel = kernels.gates if kind == "tails" else kernels.gates_back
    return kernel, loop(dist, kind).address, kernels.GROUP


Gates = KernelPair(gates_forward, gates_backward)
Alone = KernelPair(partial(gates_forward, alone=True), gates_backward)


def carry_forward(
    network: Network, keep: Tensor, swap: Tensor, payload: Tensor | None, *, save: bool
) -> tuple[Tensors, Tensors]:
    """The payload after the swaps; nothing is saved."""
    from gendr.sorting.backends.cpu import kernels

    width = network.n if payload is None else payload.shape[-1]
    out = keep.new_empty(len(keep), network.n, width)
    blocks = -(-width // kernels.LANES)
    start = keep.new_empty(0, 0, 0) if payload is None else payload
    columns = blocks * kernels.LANES
    run(
        kernels.carry, blocks * len(keep), network.for_kernels[0], _spans(network), keep.numpy(),
        swap.numpy(), start.numpy(), payload is None, out.numpy(),
        pieces=2, alone=_CARRY * keep.numel() * columns <= _SHARED,
    )  # fmt: skip
    return (out,), ()


def carry_backward(
    network: Network, inputs: tuple[Tensor, Tensor, Tensor | None], saved: Tensors, grads: Tensors,
    wanted: tuple[bool, ...],
) -> Gradients:  # fmt: skip
    """Gradients of keep, which include those through swap, and of a payload."""
    from gendr.sorting.backends.cpu import kernels

    (keep, swap, payload), (grad,) = inputs, grads
    batch = len(keep)
    blocks = -(-grad.shape[-1] // kernels.LANES)
    runs = max(1, min(blocks, -(-_UNITS // max(1, batch))))
    grad_keep = keep.new_empty(runs, *keep.shape)
    start = keep.new_empty(0, 0, 0) if payload is None else payload
    grad_start = torch.empty_like(start)
    columns = blocks * kernels.LANES
    run(
        kernels.carry_back, runs * batch, network.for_kernels[0], _spans(network), keep.numpy(),
        swap.numpy(), start.numpy(), payload is None, grad.numpy(), grad_keep.numpy(),
        grad_start.numpy(), pieces=2, alone=_CARRY_BACK * keep.numel() * columns <= _SHARED,
    )  # fmt: skip
    # Not with torch's sum or zeros, whose threads spin afterwards and occupy cores that we need.
    total = grad_keep[0] if runs == 1 else from_numpy(grad_keep.numpy().sum(0))
    return total, None, None if payload is None else grad_start


Carry = KernelPair(carry_forward, carry_backward)


KERNELS = {
    "sorting.gates": Gates,
    "sorting.network": Alone,
    "sorting.carry": Carry,
    "sorting.rows": KernelPair(rows.rows_forward, rows.rows_backward),
    "sorting.losses": KernelPair(list_losses.forward, list_losses.backward),
    "sorting.places": KernelPair(rows.places_forward, rows.places_backward, wide=True),
    "sorting.products": KernelPair(rows.products_forward, rows.products_backward),
    "sorting.mean_ranks": KernelPair(rows.mean_ranks_forward, rows.mean_ranks_backward),
    "sorting.ranks": Ranks,
    "sorting.values": Values,
    "sorting.isotonic": Isotonic,
}


@lru_cache(maxsize=256)
def _spans(network: Network) -> np.ndarray:
    from gendr.sorting.backends.cpu import kernels

    return kernels.spans(network.for_kernels[0], network.n)
