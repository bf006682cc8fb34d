"""The kernels of the projection onto the permutahedron, and of isotonic regression, on GPUs.

One program works on a row, in float64; see `isotonic_kernels`. PyTorch sorts.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from gendr.distributions.decisions import Number
from gendr.kernels.triton.launch import interpreted, power_of_2, run
from gendr.sorting.backends.isotonic import RANKS, VALUES, Projection

LANES = 1024  # positions that a program looks at together, at most
_THREAD = 4  # of them that a thread has


class Ranks(Projection):
    """The kernels of `RANKS`."""

    operator = RANKS

    @staticmethod
    def forward(
        entropic: bool, x: Tensor, steepness: Number, *, save: bool
    ) -> tuple[tuple[Tensor], tuple[Tensor, ...]]:
        """The ranks; the order, the blocks and the ranks are saved."""
        order = x.sort(dim=-1, stable=True)[1]
        ranks, *blocks = _projected("RANKS", x, order, _scalar(x, steepness), entropic)
        return (ranks,), (order, *blocks, ranks)

    @classmethod
    @override
    def gradient(
        cls, entropic: bool, inputs: tuple[Tensor, Number], saved: tuple[Tensor, ...], grad: Tensor
    ) -> Tensor:
        order, starts, ends, ranks = saved
        steepness = _scalar(ranks, inputs[1])
        return _gradients("RANKS", grad, ranks, order, starts, ends, steepness, entropic)


class Values(Projection):
    """The kernels of `VALUES`."""

    operator = VALUES

    @staticmethod
    def forward(
        entropic: bool, x: Tensor, steepness: Number, *, save: bool
    ) -> tuple[tuple[Tensor], tuple[Tensor, ...]]:
        """The values; the order and the blocks are saved."""
        order = x.sort(dim=-1, stable=True)[1]
        values, *blocks = _projected("VALUES", x, order, _scalar(x, steepness), entropic)
        return (values,), (order, *blocks)

    @classmethod
    @override
    def gradient(
        cls, entropic: bool, inputs: tuple[Tensor, Number], saved: tuple[Tensor, ...], grad: Tensor
    ) -> Tensor:
        x, (order, starts, ends) = inputs[0], saved
        one = _scalar(x, 1.0)
        return _gradients("VALUES", grad, x, order, starts, ends, one, entropic)


class Isotonic:
    """The kernels of `ISOTONIC`."""

    @staticmethod
    def forward(_: None, x: Tensor, *, save: bool) -> tuple[tuple[Tensor], tuple[Tensor, ...]]:
        """The means of the blocks, which are saved."""
        result, *blocks = _projected("PLAIN", x, x, _scalar(x, 1.0), False)
        return (result,), tuple(blocks)

    @staticmethod
    def backward(
        _: None, inputs: tuple[Tensor], saved: tuple[Tensor, ...], grads: tuple[Tensor],
        wanted: tuple[bool, ...],
    ) -> tuple[Tensor]:  # fmt: skip
        """The gradient of x: the means of what comes."""
        (grad,), (x,), (starts, ends) = grads, inputs, saved
        return (_gradients("PLAIN", grad, x, x, starts, ends, _scalar(x, 1.0), False),)


def _scalar(x: Tensor, steepness: Number) -> Tensor:
    """The steepness where kernels find it, without waiting for one that is on the GPU."""
    if isinstance(steepness, Tensor):
        return steepness.to(x.device, torch.float64)
    return x.new_full((), steepness, dtype=torch.float64)


def _projected(
    kind: str, x: Tensor, order: Tensor, steepness: Tensor, entropic: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The result, and where the block of every sorted position begins and ends."""
    from gendr.sorting.backends.triton import isotonic_kernels as kernels

    n, result = x.shape[-1], torch.empty_like(x)
    rows, levels = x.numel() // max(1, n), max(0, n - 1).bit_length()
    starts, ends = x.new_empty(2, rows, n, dtype=torch.int32)
    numbers = x.new_empty(rows, 3, n + 1, dtype=torch.float64)
    places = x.new_empty(rows, 5, n, dtype=torch.int32)
    run(
        kernels.project, (rows,), x.device, x, order, steepness, result, starts, ends, numbers,
        places, n, levels, **_options(kernels, kind, entropic, n),
    )  # fmt: skip
    return result, starts, ends


def _gradients(
    kind: str, grad: Tensor, x: Tensor, order: Tensor, starts: Tensor, ends: Tensor,
    steepness: Tensor, entropic: bool,
) -> Tensor:  # fmt: skip
    """The gradient of the input; see `isotonic_kernels.project_gradients`."""
    from gendr.sorting.backends.triton import isotonic_kernels as kernels

    n, found = grad.shape[-1], torch.empty_like(grad)
    rows = grad.numel() // max(1, n)
    scratch = grad.new_empty(rows, 2, n, dtype=torch.float64)
    run(
        kernels.project_gradients, (rows,), grad.device, grad, x, order, starts, ends, steepness,
        found, scratch, n, **_options(kernels, kind, entropic, n),
    )  # fmt: skip
    return found


def _options(kernels: Any, kind: str, entropic: bool, n: int) -> dict[str, Any]:
    """Constants of a kernel, and how it is compiled."""
    lanes = min(LANES, power_of_2(n))
    options: dict[str, Any] = {
        "KIND": getattr(kernels, kind).value, "ENTROPIC": entropic, "LANES": lanes,
    }  # fmt: skip
    if not interpreted():
        options |= {"num_warps": max(1, lanes // (32 * _THREAD)), "enable_fp_fusion": False}
    return options
