"""The CPU backend of the relaxed sorting networks: parallel, compiled at run time by Numba.

float32 stays float32 where it cannot lose digits, see `kernels`. First derivatives are computed by
kernels, second derivatives by the reference backend.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gendr.distributions.decisions import Number
from gendr.kernels.numba.compilation import available as available
from gendr.kernels.numba.compilation import supports as supports
from gendr.kernels.operator import KernelPair
from gendr.kernels.threads import run
from gendr.sorting.backends.comparators import Comparators, name_of, power_of
from gendr.sorting.backends.cpu import list_losses, rows
from gendr.sorting.backends.cpu.isotonic import Isotonic, Ranks, Values
from gendr.sorting.networks import Network

Tensors: TypeAlias = "tuple[Tensor, ...]"
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
    comparators: Comparators, x: Tensor, steepness: Number, *, save: bool
) -> tuple[Tensors, Tensors]:
    """Values, keep and swap; the differences and the swaps are saved, group by group."""
    network, dist = comparators
    gates, address, group = _gates_of(name_of(dist), "tails")
    batch, size = x.shape[0], network.size
    groups = -(-batch // group)
    values, keep, swap = torch.empty_like(x), x.new_empty(batch, size), x.new_empty(batch, size)
    saved = x.new_empty(2, groups if save else 0, size * group)
    differences, swaps = saved.numpy()
    _launch(
        gates, groups, _GATE * batch * size, network.pairs, network.offsets, x.numpy(), address,
        power_of(dist), float(steepness), values.numpy(), keep.numpy(), swap.numpy(), differences,
        swaps,
    )  # fmt: skip
    return (values, keep, swap), (saved,)


def gates_backward(
    comparators: Comparators, inputs: tuple[Tensor, Number], saved: Tensors, grads: Gradients,
    wanted: tuple[bool, ...],
) -> Gradients:  # fmt: skip
    """Gradients of x and, for every group, of the steepness."""
    x, steepness = inputs
    network, dist = comparators
    gates_back, address, group = _gates_of(name_of(dist), "density")
    groups, grad_x = -(-x.shape[0] // group), torch.empty_like(x)
    of_x, parts = grad_x.numpy(), np.empty(groups)
    differences, swaps = saved[0].numpy()
    grad_values, grad_keep, _ = grads
    none = np.empty((0, 0), of_x.dtype)
    _launch(
        gates_back, groups, _GATE_BACK * len(x) * network.size, network.pairs, differences, swaps,
        address, power_of(dist), float(steepness),
        none if grad_values is None else grad_values.numpy(),
        none if grad_keep is None else grad_keep.numpy(), of_x, parts,
    )  # fmt: skip
    return grad_x, torch.from_numpy(parts) if wanted[1] else None


@cache
def _gates_of(dist: str, kind: Literal["tails", "density"]) -> tuple[Any, int, int]:
    """The kernel that needs this function, the function's address, and the rows of a group."""
    from gendr.distributions.numba import loop
    from gendr.sorting.backends.cpu import kernels

    kernel = kernels.gates if kind == "tails" else kernels.gates_back
    return kernel, loop(dist, kind).address, kernels.GROUP


Gates = KernelPair(gates_forward, gates_backward)


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
    _launch(
        kernels.carry, blocks * len(keep), _CARRY * keep.numel() * columns, network.pairs,
        _spans(network), keep.numpy(), swap.numpy(), start.numpy(), payload is None, out.numpy(),
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
    _launch(
        kernels.carry_back, runs * batch, _CARRY_BACK * keep.numel() * columns, network.pairs,
        _spans(network), keep.numpy(), swap.numpy(), start.numpy(), payload is None, grad.numpy(),
        grad_keep.numpy(), grad_start.numpy(),
    )  # fmt: skip
    # Not with torch's sum or zeros, whose threads spin afterwards and occupy cores that we need.
    total = grad_keep[0] if runs == 1 else torch.from_numpy(grad_keep.numpy().sum(0))
    return total, None, None if payload is None else grad_start


Carry = KernelPair(carry_forward, carry_backward)


KERNELS = {
    "sorting.gates": Gates,
    "sorting.carry": Carry,
    "sorting.rows": KernelPair(rows.rows_forward, rows.rows_backward),
    "sorting.last": KernelPair(rows.last_forward, rows.last_backward),
    "sorting.losses": KernelPair(list_losses.forward, list_losses.backward),
    "sorting.places": KernelPair(rows.places_forward, rows.places_backward, wide=True),
    "sorting.products": KernelPair(rows.products_forward, rows.products_backward),
    "sorting.ranks": Ranks,
    "sorting.values": Values,
    "sorting.isotonic": Isotonic,
}


def _launch(kernel: Callable[..., None], units: int, work: float, *args: Any) -> None:
    """Run a kernel over 0 .. units - 1, on all threads if the work (nanoseconds) is worth it."""
    run(kernel, units, *args, pieces=2, alone=work <= _SHARED)


@lru_cache(maxsize=256)
def _spans(network: Network) -> np.ndarray:
    from gendr.sorting.backends.cpu import kernels

    return kernels.spans(network.pairs, network.n)
