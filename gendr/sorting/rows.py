"""Sorts whose permutation matrix is a softmax of every row: NeuralSort and SoftSort.

On the CPU a fused kernel computes the matrix, and the gradient is computed from the matrix alone,
so that no other tensor of that size exists. The operator's definition, which other devices run, is
the formula of the paper in plain torch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gendr._runtime.checks import check_number
from gendr._runtime.operator import Operator
from gendr._runtime.ranges import saturated
from gendr._runtime.threads import run
from gendr.distributions.decisions import Number
from gendr.sorting.base import PermutationSort, Sort, check_matrices, gumbel

SHRINK = 2.0**-40  # makes room for sums over 2^38 values
SMALL = 20_000  # with fewer entries in all matrices, threads cost more than they save


def launch(kernel: Callable[..., None], units: int, entries: int, *args: Any) -> None:
    """Run a kernel over 0 .. units - 1, on all threads if there are many entries to compute."""
    run(kernel, units, *args, pieces=2, alone=entries < SMALL)


@dataclass(frozen=True)
class RowSort(PermutationSort):
    """A sort that is a softmax in every row: rows sum to 1, columns only nearly.

    The largest entry of every row is where the hard permutation has its 1 ("unimodal").

    With noise, the inputs are taken as the logarithms of scores, and every call draws one sample of
    the Plackett-Luce distribution over permutations, relaxed: Gumbel noise times `noise` is added
    to x, from torch's generator (`torch.manual_seed` repeats it). Input i is then the largest with
    probability softmax(x / noise)[i], and the order of the others follows in the same way. Every
    call draws a new sample, also calls of `values` and `ranks`; `carried` moves its whole payload
    by one sample. For several samples repeat x along a batch dimension.

    Args:
        steepness: inverse of the temperature of the softmax.
        noise: scale of the Gumbel noise, not negative; 0 for the deterministic sort.

    Source: Grover et al., Stochastic Optimization of Sorting Networks via Continuous Relaxations
        (ICLR 2019), sections 3 and 4.1; Prillo and Eisenschlos, SoftSort (ICML 2020).
    """

    noise: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if check_number("noise", self.noise) < 0:
            raise ValueError(f"noise must be >= 0, got {self.noise!r}; 0 adds none")

    def drawn(self, x: Tensor) -> tuple[Sort, Tensor]:
        """The method without its noise, and x with one sample of it."""
        return (replace(self, noise=0.0), self.perturbed(x)) if self.noise else (self, x)

    def permutation(self, x: Tensor) -> Tensor:
        """P [..., rank, input] of x [..., n], of the noisy x if there is noise."""
        return self.last_rows(x, x.shape[-1])

    def last_rows(self, x: Tensor, count: int) -> Tensor:
        """The last rows of P, [..., count, n]; no others are computed."""
        check_matrices(self.name, x, count)
        keys = self.perturbed(x)
        steepness = self.steepness
        if isinstance(steepness, Tensor):
            steepness = saturated(steepness.reshape(()))
        kernels = _RowKernels if x.device.type == "cpu" and self.has_kernel else None
        return ROWS(kernels, (self, count), keys, steepness)

    def perturbed(self, x: Tensor) -> Tensor:
        """The inputs with a fresh sample of the noise."""
        return gumbel(x, self.noise) if self.noise else x

    def order(self, x: Tensor, count: int) -> Tensor:
        """The stable argsort of x [B, n], or as many of its last columns as kernels want."""
        return x.sort(dim=-1, stable=True).indices

    @property
    def has_kernel(self) -> bool:
        """Whether there is a compiled kernel for these settings."""
        return True

    @abstractmethod
    def reference(self, x: Tensor, steepness: Number, count: int | None = None) -> Tensor:
        """The formula of the paper in plain torch: P [..., n, n], or its last rows."""

    @staticmethod
    def softmax(steepness: Number, arguments: Tensor) -> Tensor:
        """Rows of exp(steepness * arguments), normalised; finite arguments [..., n, n]."""
        if isinstance(steepness, Tensor):
            # Expanded, so that each entry's part of the gradient is saturated before they are
            # summed.
            steepness = saturated(steepness.to(arguments.dtype).expand_as(arguments))
        return saturated((steepness * arguments).softmax(-1))

    @abstractmethod
    def run_forward(
        self, x: np.ndarray, order: np.ndarray, steepness: float, p: np.ndarray
    ) -> None:
        """Fill p [B, count, n], the last rows, for x [B, n] with its `order`."""

    @abstractmethod
    def run_backward(
        self, x: np.ndarray, order: np.ndarray, steepness: float, p: np.ndarray, g: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """From g = dL/dp: dL/dx [B, n], and each matrix's part of dL/dsteepness [B]; float64."""


def _reference(spec: tuple[RowSort, int], x: Tensor, steepness: Number) -> Tensor:
    sort, count = spec
    return sort.reference(x, steepness, count)


ROWS = Operator("sorting.rows", reference=_reference)


class _RowKernels:
    """The kernels of `ROWS`, on tensors [..., n]."""

    @staticmethod
    def forward(
        spec: tuple[RowSort, int], x: Tensor, steepness: Number, *, save: bool
    ) -> tuple[tuple[Tensor], tuple[Tensor, Tensor]]:
        sort, count = spec
        n = x.shape[-1]
        keys = x.reshape(-1, n)
        order = sort.order(keys, count)
        p = keys.new_empty(len(keys), count, n)
        sort.run_forward(keys.numpy(), order.numpy(), float(steepness), p.numpy())
        p = p.reshape(*x.shape[:-1], count, n)
        return (p,), (p, order)

    @staticmethod
    def backward(
        spec: tuple[RowSort, int], inputs: tuple[Tensor, Number], saved: tuple[Tensor, Tensor],
        grads: tuple[Tensor], wanted: tuple[bool, ...],
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        (sort, count), (x, steepness), (p, order) = spec, inputs, saved
        n = x.shape[-1]
        matrices, upstream = (t.detach().reshape(-1, count, n).numpy() for t in (p, grads[0]))
        by_x, by_steepness = sort.run_backward(
            x.reshape(-1, n).numpy(), order.numpy(), float(steepness), matrices, upstream
        )
        return torch.from_numpy(by_x), torch.from_numpy(by_steepness)
