"""The Triton backend of the relaxed sorting networks: fused kernels for NVIDIA GPUs.

One launch for all layers. float32 only: float64 keys are for the reference, which `auto` takes for
them. First derivatives are kernels, without atomics, so that the same input gives the same bits;
second ones go through the reference.

With TRITON_INTERPRET=1 in the environment before the first import of Triton, the same kernels run
on CPU tensors, slowly: that is how they are tested without a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor

from gendr._common.tracing import lasting
from gendr.distributions.decisions import Number
from gendr.kernels.operator import KernelPair
from gendr.kernels.triton import launch as _triton_launch
from gendr.kernels.triton.launch import available as available
from gendr.kernels.triton.launch import blocks_of, interpreted, power_of_2, run
from gendr.sorting.backends.comparators import Comparators, name_of, power_of
from gendr.sorting.backends.triton.isotonic import Isotonic, Ranks, Values
from gendr.sorting.networks import Network

Tensors: TypeAlias = "tuple[Tensor, ...]"
Gradients: TypeAlias = "tuple[Tensor | None, ...]"


@dataclass(frozen=True)
class Launch:
    """How the work is cut into programs. The first six are powers of 2; `wires` may be 0.

    Attributes:
        gates: a program of the gates takes rows until a layer has so many comparators.
        pairs: comparators that a program takes at once.
        columns: columns of a payload that a program takes at once, if its wires are in memory.
        wires: up to so many are carried in the lanes of a warp.
        held: elements of such a payload that a warp holds.
        held_back: the same in the backward pass, which needs more registers for each.
        shares: where rows are fewer, their columns are shared among up to so many programs in all
            in the backward pass, which each add up a gradient of the gates of their own.
        programs: most of them in that backward pass; they have scratch each.
        scratch: most bytes of it, and of the gradients of the gates beside it, unless a single
            share needs more.
    """

    gates: int = 32
    pairs: int = 512
    columns: int = 8
    wires: int = 64
    held: int = 512
    held_back: int = 256
    shares: int = 512
    programs: int = 2048
    scratch: int = 1 << 29


# The interpreter pays per operation, not per element.
LAUNCH = (
    Launch(gates=4096, pairs=1024, columns=64, held=4096, held_back=4096, shares=1)
    if interpreted()
    else Launch()
)


def supports(tensor: Tensor) -> bool:
    """float32 where Triton's kernels run."""
    return tensor.dtype == torch.float32 and _triton_launch.supports(tensor)


# ---------------------------------------------------------------------------------------------
# Kernels of `gates` and `carry`, see `gendr.kernels.operator.Kernels`
# ---------------------------------------------------------------------------------------------


def gates_forward(
    comparators: Comparators, x: Tensor, steepness: Number, *, save: bool, alone: bool = False
) -> tuple[Tensors, Tensors]:
    """Values, keep and swap, or values `alone`; both gates and the differences are saved."""
    from gendr.distributions import triton as distributions
    from gendr.sorting.backends.triton import kernels

    network, power = comparators.network, power_of(comparators.dist)
    (batch, n), size = x.shape, network.size
    values = torch.empty_like(x)
    keep, swap = x.new_empty(batch, size), x.new_empty(batch, size)
    differences = x.new_empty(batch if save else 0, size)
    block = _gates_block(network)
    run(
        kernels.gates, (blocks_of(batch, block["ROWS"]),), x.device,
        x, *_comparators(network, x.device), _scalar(steepness, x), values, keep, swap, differences,
        batch, n, size, network.depth, power,
        CDF=distributions.function(name_of(comparators.dist), "tails"), PLAIN=power == 1.0,
        SAVE=save, **block, **_options(block["ROWS"] * block["PAIRS"] // 64),
    )  # fmt: skip
    results = (values,) if alone else (values, keep, swap)
    return results, (keep, swap, differences) if save else ()


def gates_backward(
    comparators: Comparators, inputs: tuple[Tensor, Number], saved: Tensors, grads: Gradients,
    wanted: tuple[bool, ...],
) -> Gradients:  # fmt: skip
    """Gradients of x and, for every program, of the steepness."""
    from gendr.distributions import triton as distributions
    from gendr.sorting.backends.triton import kernels

    (x, steepness), (grad_values, grad_keep) = inputs, (*grads, None)[:2]
    network, power = comparators.network, power_of(comparators.dist)
    batch, n = x.shape
    keep, swap, differences = saved
    grad_x = torch.zeros_like(x) if grad_values is None else grad_values.clone()
    block = _gates_block(network)
    programs = blocks_of(batch, block["ROWS"])
    grad_steepness = x.new_empty(programs)
    run(
        kernels.gates_gradients, (programs,), x.device,
        grad_x, *_comparators(network, x.device), _scalar(steepness, x), keep, swap, differences,
        keep if grad_keep is None else grad_keep, grad_steepness,
        batch, n, network.size, network.depth, power,
        PDF=distributions.function(name_of(comparators.dist), "density"), PLAIN=power == 1.0,
        WITH_KEEP=grad_keep is not None, **block, **_options(block["ROWS"] * block["PAIRS"] // 64),
    )  # fmt: skip
    return grad_x, grad_steepness


Gates = KernelPair(gates_forward, gates_backward, backend="triton")
Alone = KernelPair(partial(gates_forward, alone=True), gates_backward, backend="triton")


def carry_forward(
    network: Network, keep: Tensor, swap: Tensor, payload: Tensor | None, *, save: bool
) -> tuple[Tensors, Tensors]:
    """The payload after the swaps; nothing is saved."""
    from gendr.sorting.backends.triton import kernels

    batch, n, size = len(keep), network.n, network.size
    width = n if payload is None else payload.shape[-1]
    out = keep.new_empty(batch, n, width)
    lanes, block, options = carry_block(network, width, LAUNCH.held)
    blocks = blocks_of(width, block["COLUMNS"])
    tables = _wires if lanes else _comparators
    run(
        kernels.carry_lanes if lanes else kernels.carry, (batch * blocks,), out.device,
        keep, swap, *tables(network, out.device), out if payload is None else payload, out,
        n, width, size, network.depth, blocks, IDENTITY=payload is None, **block, **options,
    )  # fmt: skip
    return (out,), ()


def carry_backward(
    network: Network, inputs: tuple[Tensor, Tensor, Tensor | None], saved: Tensors, grads: Tensors,
    wanted: tuple[bool, ...],
) -> Gradients:  # fmt: skip
    """Gradients of keep, which include those through swap, and of a payload."""
    from gendr.sorting.backends.triton import kernels

    (keep, swap, payload), (grad,) = inputs, grads
    batch, n, width = grad.shape
    size, depth = network.size, network.depth
    grad_payload = None if payload is None else torch.empty_like(payload)
    lanes, block, options = carry_block(network, width, LAUNCH.held_back)
    columns = block["COLUMNS"]
    blocks = blocks_of(width, columns)
    plan = planned(network, batch, blocks, columns, block.get("WIRES"))
    # What `carry` calls wires and differences, or the differences of all lanes.
    scratch = [keep.new_empty(plan.programs, rows, columns) for rows in plan.rows]
    shares = plan.shares
    cut = () if lanes else (plan.span, plan.segments, plan.rows[1])
    grad_keep = keep.new_zeros(batch, shares, size)
    tables = _wires if lanes else _comparators
    run(
        kernels.carry_lanes_gradients if lanes else kernels.carry_gradients, (plan.programs,),
        grad.device, keep, swap, *tables(network, grad.device),
        grad if payload is None else payload, grad, *scratch, grad_keep,
        grad if grad_payload is None else grad_payload,
        n, width, size, depth, blocks, shares, batch * shares, *cut,
        IDENTITY=payload is None, **block, **options,
    )  # fmt: skip
    return grad_keep[:, 0] if shares == 1 else grad_keep.sum(1), None, grad_payload


Carry = KernelPair(carry_forward, carry_backward, backend="triton")


KERNELS = {
    "sorting.gates": Gates,
    "sorting.network": Alone,
    "sorting.carry": Carry,
    "sorting.ranks": Ranks,
    "sorting.values": Values,
    "sorting.isotonic": Isotonic,
}


# ---------------------------------------------------------------------------------------------
# Blocks and tables
# ---------------------------------------------------------------------------------------------


def _widest(network: Network) -> int:
    """Comparators of the largest layer, rounded up to a power of 2."""
    return power_of_2(int(np.diff(network.offsets).max(initial=1)))


def _gates_block(network: Network) -> dict[str, int]:
    pairs = min(LAUNCH.pairs, _widest(network))
    return {"ROWS": max(1, LAUNCH.gates // pairs), "PAIRS": pairs}


def carry_block(
    network: Network, width: int, held: int
) -> tuple[bool, dict[str, int], dict[str, Any]]:
    """Whether wires are carried in lanes, and constants and options of the kernel."""
    if network.n <= LAUNCH.wires:
        wires = power_of_2(network.n)
        columns = min(power_of_2(width), max(1, held // wires))
        return True, {"WIRES": wires, "COLUMNS": columns}, _options(1)
    columns = min(power_of_2(width), LAUNCH.columns)
    pairs = min(LAUNCH.pairs, _widest(network))
    # Four columns of a comparator per thread: what is loaded at once where rows are aligned.
    return False, {"PAIRS": pairs, "COLUMNS": columns}, _options(pairs * columns // 128)


@dataclass(frozen=True)
class Plan:
    """How the backward pass of a carry is cut.

    Attributes:
        shares: programs per row of the batch, each with a gradient of the gates of its own.
        programs: that there are; they take turns with batch x shares items.
        rows: of the scratch tensors [programs, rows, columns].
        span: layers of a segment.
        segments: into which the layers are cut.
    """

    shares: int
    programs: int
    rows: tuple[int, ...]
    span: int
    segments: int


def planned(network: Network, batch: int, blocks: int, columns: int, lanes: int | None) -> Plan:
    """The plan for so many blocks of columns; `lanes` are the wires of a warp, if they are there.

    As many programs as `LAUNCH` wants, in as few segments as scratch has room for. Where it has not
    got it, there are fewer programs, and then no more shares than these: a share costs memory too.
    """
    size, depth = network.size, network.depth
    shares = max(1, min(blocks, LAUNCH.shares // max(1, batch)))
    shares = max(1, min(shares, LAUNCH.scratch // (4 * max(1, batch * size))))
    if lanes is not None:
        span, segments, rows = depth, 1, (depth * lanes,)
    else:
        wanted = max(1, min(batch * shares, LAUNCH.programs))
        most = LAUNCH.scratch // (4 * columns * wanted)
        span, segments, rows = cut_layers(network, most)
    most = LAUNCH.scratch // (4 * columns * max(1, sum(rows)))
    programs = max(1, min(batch * shares, LAUNCH.programs, most))
    shares = max(1, min(shares, programs // max(1, batch)))
    # All take equally many blocks.
    shares = blocks_of(blocks, blocks_of(blocks, shares)) if blocks else 1
    return Plan(shares, max(1, min(programs, batch * shares)), rows, span, segments)


@lru_cache(maxsize=64)
def cut_layers(network: Network, most: int) -> tuple[int, int, tuple[int, int]]:
    """Layers of a segment, segments, and rows of scratch: `most`, or if need be as few as can be.

    More than one segment passes all layers once more; how many there are costs nothing else.
    """
    n, depth, offsets = network.n, network.depth, network.offsets
    cuts: list[tuple[int, int, tuple[int, int]]] = []
    span = max(1, depth)
    while True:
        starts = np.arange(0, max(1, depth), span)
        ends = np.minimum(starts + span, depth)
        rows = ((len(starts) + 1) * n, int((offsets[ends] - offsets[starts]).max()))
        cuts.append((span, len(starts), rows))
        if span == 1 or (len(cuts) == 1 and sum(rows) <= most):
            return min(cuts, key=lambda cut: sum(cut[2]))
        span = -(-span // 2)


def _options(warps: int) -> dict[str, Any]:
    """How kernels are compiled, for about so many warps of 32 threads."""
    warps = min(32, max(1, warps))
    return {} if interpreted() else {"num_warps": warps, "enable_fp_fusion": True}


def _scalar(steepness: Number, like: Tensor) -> Tensor:
    """The steepness where kernels find it, without waiting for one that is on the GPU."""
    if isinstance(steepness, Tensor):
        return steepness.to(like)
    return like.new_full((), float(steepness))


@lru_cache(maxsize=64)
@lasting()
def _comparators(network: Network, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Low and high wires [C] of the comparators, offsets [L + 1] of the layers; int32."""
    low, high = network.pairs.T.copy()
    tables = (low, high, network.offsets.astype(np.int32))
    return cast("Any", tuple(torch.from_numpy(table).to(device) for table in tables))


@lru_cache(maxsize=64)
@lasting()
def _wires(network: Network, device: torch.device) -> tuple[Tensor, Tensor]:
    """Partners and places of the wires; see `carry_lanes`."""
    wires = np.arange(power_of_2(network.n), dtype=np.int32)
    partners = np.tile(wires, (network.depth, 1))
    places = np.full_like(partners, -1)
    layer = np.repeat(np.arange(network.depth), np.diff(network.offsets))
    for wire, other in (network.pairs.T, network.pairs[:, ::-1].T):
        partners[layer, wire] = other
        places[layer, wire] = np.arange(network.size)
    return cast("Any", tuple(torch.from_numpy(table).to(device) for table in (partners, places)))
