"""Sorts whose permutation matrix is a softmax of every row: NeuralSort and SoftSort.

On the CPU a fused kernel computes the matrix, and the gradient is computed from the matrix alone,
so that no other tensor of that size exists. Values, ranks and narrow payloads need no matrix: its
products come from the rows as they pass. The definitions of the operators, which other devices run,
are the formulas of the papers in plain torch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gendr._common import memory
from gendr._common.checks import check_number
from gendr._common.ranges import finite, saturated
from gendr.distributions.decisions import Number
from gendr.kernels.operator import Operator
from gendr.kernels.threads import run
from gendr.sorting.base import (
    PermutationSort,
    Sort,
    check_matrices,
    expanded,
    gumbel,
    of_rows,
    spread_nan,
    stacked,
)

SMALL = 20_000  # with fewer entries in all matrices, threads cost more than they save
NO_GRADIENTS = np.empty((0, 0)), np.empty(0)
FAR = 1e100  # keys and payloads beyond it go through a matrix: sums of products would overflow
NARROW = 8  # columns of a payload, up to which it is moved without a matrix


def launch(kernel: Callable[..., None], units: int, entries: int, *args: Any) -> None:
    """Run a kernel over 0 .. units - 1, on all threads if there are many entries to compute."""
    run(kernel, units, *args, pieces=2, alone=entries < SMALL)


def launch_windows(
    x: np.ndarray, order: np.ndarray, steepness: float, neural: bool, products: Products,
    grads: bool,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """`RowSort.run_products` by windows of rows; of NeuralSort, or SoftSort with the power 2."""
    from gendr.sorting.backends.cpu import product_kernels as kernels

    batch, n = x.shape
    w, a, rows, columns = products
    by_x, by_steepness = (np.empty((batch, n)), np.empty(batch)) if grads else NO_GRADIENTS
    parts, room = -(-n // kernels.PART), n + kernels.LANES
    sums = np.empty((batch, parts, columns.shape[2], room))
    shares, lost = np.empty((batch, parts, 2, room * grads)), np.empty((batch, n))
    launch(
        kernels.windows, batch * parts, x.size * n, x, order, steepness, neural, w, a, rows, sums,
        shares, lost,
    )  # fmt: skip
    if columns.size > 0 or grads:
        launch(
            kernels.windows_end, batch, x.size, x, order, steepness, neural, sums, shares, lost,
            columns, by_x, by_steepness,
        )  # fmt: skip
    return by_x, by_steepness


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

    has_rows: ClassVar[bool] = False  # each row of P costs O(n), whatever the others are

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

    def last_rows(self, x: Tensor, count: int, before: int = 0) -> Tensor:
        """The last rows of P but for some, [..., count, n]; on a CPU no others are computed.

        Args:
            x: [..., n].
            count: how many.
            before: how many come after them; 0 unless `has_rows`.
        """
        check_matrices(self.name, x, count)
        keys, steepness = self._keyed(x)
        kernels = _RowKernels if x.device.type == "cpu" and self.has_kernel else None
        return ROWS(kernels, (self, count, before), keys, steepness)

    def last_carried(self, x: Tensor, payload: Tensor, count: int) -> Tensor:
        """The last rows of P times a payload [..., n, c], [..., count, c]."""
        check_matrices(self.name, x, count)
        if x.device.type != "cpu" or not self.has_kernel or payload.shape[-1] > NARROW:
            return super().last_carried(x, payload, count)
        keys, steepness = self._keyed(x)
        keys, payload = expanded(keys, payload)
        return LAST(_LastKernels, (self, count), keys, steepness, payload)

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
        n = x.shape[-1]
        places = torch.arange(n, dtype=x.dtype, device=x.device) - (n - 1) / 2
        sums = self._product(x, torch.stack([places, torch.ones_like(places)], -1), True)
        return sums[..., 0] / sums[..., 1] + (n + 1) / 2

    def _product(self, x: Tensor, payload: Tensor, by_columns: bool) -> Tensor:
        """P @ payload, or P^T @ payload."""
        if x.device.type != "cpu" or not self.has_kernel or payload.shape[-1] > NARROW:
            return _times(self.permutation(x), payload, by_columns)
        keys, steepness = self._keyed(x)
        keys, payload = expanded(keys, payload)
        return PRODUCTS(_ProductKernels, (self, by_columns), keys, steepness, payload)

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
    def run_products(
        self, x: np.ndarray, order: np.ndarray, steepness: float, products: Products, grads: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fill in products for x [B, n] with its stable argsort.

        Returns:
            The derivatives of sum w_i p_ij a_j to x [B, n], and each matrix's part of that to the
            steepness [B]; float64, and empty without `grads`.
        """

    @abstractmethod
    def run_backward(
        self, x: np.ndarray, order: np.ndarray, steepness: float, p: np.ndarray, g: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """From g = dL/dp: dL/dx [B, n], and each matrix's part of dL/dsteepness [B]; float64."""


class Products(NamedTuple):
    """What is computed of the matrices P [B, n, n] that do not exist; in the dtype of the keys.

    Attributes:
        w: [B, n, c] by rank, or [B, 0, 0] for none.
        a: [B, n, c] by input, or none.
        rows: [B, n, c], P @ a, or none.
        columns: [B, n, c], P^T @ w, or none.
    """

    w: np.ndarray
    a: np.ndarray
    rows: np.ndarray
    columns: np.ndarray

    @staticmethod
    def of(w: Tensor | None, a: Tensor | None, *, rows: bool, columns: bool) -> Products:
        """With new arrays for what is wanted."""
        like = a if w is None else w
        assert like is not None
        none = like.new_empty(len(like), 0, 0)
        given = [none if t is None else t for t in (w, a)]
        results = [torch.empty_like(like) if wanted else none for wanted in (rows, columns)]
        return Products(*(t.numpy() for t in (*given, *results)))


def _reference(spec: tuple[RowSort, int, int], x: Tensor, steepness: Number) -> Tensor:
    sort, count, before = spec
    return sort.reference(x, steepness, count + before)[..., :count, :]


def _product(spec: tuple[RowSort, bool], x: Tensor, steepness: Number, payload: Tensor) -> Tensor:
    sort, by_columns = spec
    return _times(sort.reference(x, steepness), payload, by_columns)


def _last(spec: tuple[RowSort, int], x: Tensor, steepness: Number, payload: Tensor) -> Tensor:
    return _times(_reference((*spec, 0), x, steepness), payload, False)


def _times(p: Tensor, payload: Tensor, by_columns: bool) -> Tensor:
    return finite((p.mT if by_columns else p) @ payload)  # a row's sum may be slightly above 1


def _is_far(values: Tensor) -> bool:
    return values.dtype == torch.float64 and bool((values.detach().abs() > FAR).any())


def _by_matrix(spec: tuple[RowSort, bool], x: Tensor, steepness: Number, payload: Tensor) -> Tensor:
    """As `_product`, with the matrix of the kernels."""
    sort, by_columns = spec
    return _times(ROWS(_RowKernels, (sort, x.shape[-1], 0), x, steepness), payload, by_columns)


ROWS = Operator("sorting.rows", reference=_reference)
PRODUCTS = Operator("sorting.products", reference=_product)
LAST = Operator("sorting.last", reference=_last)


def ordered(keys: Tensor) -> np.ndarray:
    """The stable argsort of keys [B, n]."""
    from gendr.sorting.backends.cpu.order import fill_order

    order = np.empty(keys.shape, np.int64)
    fill_order(keys.numpy(), order)
    return order


class _RowKernels:
    """The kernels of `ROWS`, on tensors [..., n]."""

    @staticmethod
    def forward(
        spec: tuple[RowSort, int, int], x: Tensor, steepness: Number, *, save: bool
    ) -> tuple[tuple[Tensor], tuple[Tensor, np.ndarray]]:
        sort, count, before = spec
        n = x.shape[-1]
        keys = x.reshape(-1, x.shape[-1])
        order = sort.order(keys, count, before)
        p = memory.empty((len(keys), count, n), x.dtype)
        sort.run_forward(keys.numpy(), order, float(steepness), p.numpy())
        spread_nan(keys.numpy(), p.numpy())
        p = p.reshape(*x.shape[:-1], count, n)
        return (p,), (p, order)

    @staticmethod
    def backward(
        spec: tuple[RowSort, int, int], inputs: tuple[Tensor, Number],
        saved: tuple[Tensor, np.ndarray], grads: tuple[Tensor], wanted: tuple[bool, ...],
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        (sort, *_), (x, steepness), (p, order) = spec, inputs, saved
        matrices, upstream = (stacked(t.detach(), 2).numpy() for t in (p, grads[0]))
        by_x, by_steepness = sort.run_backward(
            x.reshape(-1, x.shape[-1]).numpy(), order, float(steepness), matrices, upstream
        )
        return torch.from_numpy(by_x), torch.from_numpy(by_steepness)


class _LastKernels:
    """The kernels of `LAST`, on tensors [..., n] and [..., n, c]: few rows, which are kept."""

    @staticmethod
    def forward(
        spec: tuple[RowSort, int], x: Tensor, steepness: Number, payload: Tensor, *, save: bool
    ) -> tuple[tuple[Tensor], tuple[Tensor, np.ndarray]]:
        from gendr.sorting.backends.cpu import row_kernels as kernels

        (p,), saved = _RowKernels.forward((*spec, 0), x, steepness, save=save)
        out = payload.new_empty(*p.shape[:-1], payload.shape[-1])
        rows, given, found = (t.reshape(-1, *t.shape[-2:]).numpy() for t in (p, payload, out))
        launch(kernels.times, len(rows), rows.size, rows, given, found)
        return (finite(out),), saved

    @staticmethod
    def backward(
        spec: tuple[RowSort, int], inputs: tuple[Tensor, Number, Tensor],
        saved: tuple[Tensor, np.ndarray], grads: tuple[Tensor], wanted: tuple[bool, ...],
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        from gendr.sorting.backends.cpu import row_kernels as kernels

        p, payload = saved[0].detach(), inputs[2]
        of_p, of_payload = memory.empty_like(p), torch.empty_like(payload)
        rows, given, upstream, to_p, to_payload = (
            t.reshape(-1, *t.shape[-2:]).numpy() for t in (p, payload, grads[0], of_p, of_payload)
        )
        launch(kernels.times_back, len(rows), rows.size, rows, given, upstream, to_p, to_payload)
        found = _RowKernels.backward((*spec, 0), inputs[:2], saved, (of_p,), wanted)
        return *found, of_payload


class _ProductKernels:
    """The kernels of `PRODUCTS`, on tensors [..., n] and [..., n, c]."""

    @staticmethod
    def forward(
        spec: tuple[RowSort, bool], x: Tensor, steepness: Number, payload: Tensor, *, save: bool
    ) -> tuple[tuple[Tensor], tuple[np.ndarray | None]]:
        sort, by_columns = spec
        if _is_far(x) or _is_far(payload):
            return (_by_matrix(spec, x, steepness, payload),), (None,)
        keys = x.reshape(-1, x.shape[-1])
        order, given = ordered(keys), stacked(payload, 2)
        w, a = (given, None) if by_columns else (None, given)
        products = Products.of(w, a, rows=not by_columns, columns=by_columns)
        sort.run_products(keys.numpy(), order, float(steepness), products, grads=False)
        found = products.columns if by_columns else products.rows
        spread_nan(keys.numpy(), found)
        return (finite(torch.from_numpy(found).reshape(payload.shape)),), (order,)

    @staticmethod
    def backward(
        spec: tuple[RowSort, bool], inputs: tuple[Tensor, Number, Tensor],
        saved: tuple[np.ndarray | None], grads: tuple[Tensor], wanted: tuple[bool, ...],
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        (sort, by_columns), (x, steepness, payload) = spec, inputs
        if saved[0] is None:  # far
            with torch.enable_grad():
                leaves = [
                    torch.as_tensor(t, device="cpu").detach().requires_grad_() for t in inputs
                ]
                out = _by_matrix(spec, *leaves)
            found = torch.autograd.grad(out, leaves, grads[0], materialize_grads=True)
            return found[0].reshape(-1, x.shape[-1]), found[1], found[2]
        given, upstream = stacked(payload, 2), stacked(grads[0].detach(), 2)
        w, a = (given, upstream) if by_columns else (upstream, given)
        needs = {"rows": by_columns and wanted[2], "columns": not by_columns and wanted[2]}
        products = Products.of(w, a, **needs)
        found = sort.run_products(
            x.reshape(-1, x.shape[-1]).numpy(), saved[0], float(steepness), products, grads=True
        )
        by_payload = products.rows if by_columns else products.columns
        by_keys, by_steepness = map(torch.from_numpy, found)
        return by_keys, by_steepness, torch.from_numpy(by_payload) if wanted[2] else None
