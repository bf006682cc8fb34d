"""Sorts whose permutation matrix is a softmax of every row: NeuralSort and SoftSort.

On the CPU a fused kernel computes the matrix, and the gradient is computed from the matrix alone,
so that no other tensor of that size exists. Values, ranks and narrow payloads need no matrix: its
products come from the rows as they pass. The definitions of the operators, which other devices run,
are the formulas of the papers in plain torch.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gendr._common.checks import check_choice, check_number
from gendr._common.ranges import finite, saturated
from gendr._common.tracing import is_traced, matmul
from gendr.distributions.decisions import Number
from gendr.kernels.backends import NAMES
from gendr.kernels.operator import Operator
from gendr.sorting.backends.choice import kernels_for
from gendr.sorting.backends.cpu.rows import ordered
from gendr.sorting.base import PermutationSort, Sort, check_matrices, expanded, gumbel, of_rows

FAR = 1e100  # keys and payloads beyond it go through a matrix: sums of products would overflow
NARROW = 8  # columns of a payload, up to which it is moved without a matrix


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
        backend: "auto", or a name of `gendr.backends("sorting")`.

    Source: Grover et al., Stochastic Optimization of Sorting Networks via Continuous Relaxations
        (ICLR 2019), sections 3 and 4.1; Prillo and Eisenschlos, SoftSort (ICML 2020).
    """

    has_rows: ClassVar[bool] = False  # each row of P costs O(n), whatever the others are

    noise: float = 0.0
    _: KW_ONLY
    backend: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("backend", self.backend, ("auto", *NAMES))
        if check_number("noise", self.noise) < 0:
            raise ValueError(f"noise must be >= 0, got {self.noise!r}; 0 adds none")

    def drawn(self, x: Tensor) -> tuple[Sort, Tensor]:
        """The method without its noise, and x with one sample of it."""
        return (replace(self, noise=0.0), self.perturbed(x)) if self.noise else (self, x)

    def permutation(self, x: Tensor) -> Tensor:
        """P [..., rank, input] of x [..., n], of the noisy x if there is noise."""
        return self.last_rows(x, x.shape[-1])

    def last_rows(self, x: Tensor, count: int, before: int = 0) -> Tensor:
        """The last rows of P but for some, [..., count, n]; on a CPU no others are computed.

        Args:
            x: [..., n].
            count: how many.
            before: how many come after them; 0 unless `has_rows`.
        """
        check_matrices(self.name, x, count)
        return ROWS(self._kernels(ROWS, x), (self, count, before), *self._keyed(x))

    def last_carried(self, x: Tensor, payload: Tensor, count: int) -> Tensor:
        """The last rows of P times a payload [..., n, c], [..., count, c]."""
        return self._product(x, payload, False, count)

    def last_weighed(self, x: Tensor, weights: Tensor) -> Tensor:
        """The last rows of P, transposed, times weights [..., count, c], [..., n, c]."""
        return self._product(x, weights, True, weights.shape[-2])

    def carried(self, x: Tensor, payload: Tensor) -> Tensor:
        """P @ payload, [..., n, c], of the noisy x if there is noise; without P if it is narrow."""
        return self._product(x, payload, False)

    def ranks(self, x: Tensor) -> Tensor:
        """The expected rank of every input j, sum_i i P_ij / sum_i P_ij, without P.

        Row i of P says which input has rank i. By Bayes' theorem, with all ranks alike beforehand,
        its column over its sum says which rank input j has: columns of P alone do not sum to 1. The
        sum is at least 1 / n, as row i is largest where the hard rank is i. Ranks lie in [1, n],
        those of -x are n + 1 less those of x, and equal inputs have equal ranks. They rise with x:
        P_kj / P_ij does for i < k (but for powers of `SoftSort` below 1), so that the distribution
        over the ranks of a larger input is that of a smaller one times a rising factor.
        """
        kernels = self._kernels(MEAN_RANKS, x)
        if kernels is None or torch.compiler.is_compiling():
            return _mean_ranks(self.permutation(x))
        keys, steepness = self._keyed(x)
        if not is_traced() and _is_far(keys):
            p = ROWS(self._kernels(ROWS, x), (self, x.shape[-1], 0), keys, steepness)
            return _mean_ranks(p)
        return MEAN_RANKS(kernels, self, keys, steepness)

    def _product(
        self, x: Tensor, payload: Tensor, by_columns: bool, count: int | None = None
    ) -> Tensor:
        """P @ payload, or P^T @ payload, with all rows of P or the last ones alone."""
        kernels = self._kernels(PRODUCTS, x) if payload.shape[-1] <= NARROW else None
        rows = x.shape[-1] if count is None else count
        if kernels is None:
            return _times(self.last_rows(x, rows), payload, by_columns)
        keys, steepness = self._keyed(x)
        keys, payload = expanded(keys, payload)
        if not is_traced() and (_is_far(keys) or _is_far(payload)):
            p = ROWS(self._kernels(ROWS, x), (self, rows, 0), keys, steepness)
            return _times(p, payload, by_columns)
        return PRODUCTS(kernels, (self, by_columns, count), keys, steepness, payload)

    def _kernels(self, operator: Operator, x: Tensor) -> Any:
        """What a backend has for these settings; None for the definition."""
        return None if self.form is None else kernels_for(operator.name, x, self.backend)

    def weighed(self, x: Tensor, weights: Tensor) -> Tensor:
        """P^T @ weights, [..., n, c], of the noisy x if there is noise; without P if narrow."""
        return self._product(x, weights, True)

    def _keyed(self, x: Tensor) -> tuple[Tensor, Number]:
        """The inputs with noise, and their steepness."""
        keys, steepness, _ = of_rows(self.perturbed(x), self.steepness, self.degree)
        return keys, saturated(steepness) if isinstance(steepness, Tensor) else steepness

    @property
    def degree(self) -> float:
        """The power of the inputs in the arguments of the softmax."""
        return 1.0

    def perturbed(self, x: Tensor) -> Tensor:
        """The inputs with a fresh sample of the noise."""
        return gumbel(x, self.noise) if self.noise else x

    def order(self, x: Tensor, count: int, before: int) -> np.ndarray:
        """The stable argsort of x [B, n], or the columns that kernels want of it, the last `count`.

        Without those after them.
        """
        return ordered(x)

    @property
    @abstractmethod
    def form(self) -> int | None:
        """What its exponents are to compiled kernels, see `gendr.sorting.base`; None for others."""

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


def _reference(spec: tuple[RowSort, int, int], x: Tensor, steepness: Number) -> Tensor:
    sort, count, before = spec
    return sort.reference(x, steepness, count + before)[..., :count, :]


def _product(
    spec: tuple[RowSort, bool, int | None], x: Tensor, steepness: Number, payload: Tensor
) -> Tensor:
    sort, by_columns, count = spec
    return _times(sort.reference(x, steepness, count), payload, by_columns)


def _times(p: Tensor, payload: Tensor, by_columns: bool) -> Tensor:
    # a row's sum may be slightly above 1
    return finite(matmul(p.mT if by_columns else p, payload))


def _mean_ranks(p: Tensor) -> Tensor:
    """The expected rank of every input under its column of P [..., n, n]."""
    n = p.shape[-1]
    places = torch.arange(n, dtype=p.dtype, device=p.device) - (n - 1) / 2
    # Of the quotient of a product inductor (torch 2.13) finds wrong gradients: if sizes are free,
    # or n is 16 and more.
    return (p * places[:, None]).sum(-2) / p.sum(-2) + (n + 1) / 2


def _is_far(values: Tensor) -> bool:
    return values.dtype == torch.float64 and bool((values.detach().abs() > FAR).any())


ROWS = Operator("sorting.rows", reference=_reference)
PRODUCTS = Operator("sorting.products", reference=_product)
MEAN_RANKS = Operator(
    "sorting.mean_ranks",
    reference=lambda sort, x, steepness: _mean_ranks(sort.reference(x, steepness)),
)
