"""The kernels of sorts that are a softmax in every row, on the CPU; see `gendr.sorting.rows`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gendr._common import memory
from gendr._common.ranges import finite
from gendr.distributions import Distribution
from gendr.distributions.decisions import Number
from gendr.kernels.threads import run
from gendr.sorting.backends.comparators import name_of
from gendr.sorting.base import ABSOLUTE, NEURAL, SQUARED, spread_nan, stacked

SMALL = 20_000  # with fewer entries in all matrices, threads cost more than they save


class Products(NamedTuple):
    """What is computed of the last m rows of P [B, m, n] that do not exist; in the dtype of keys.

    Attributes:
        w: [B, m, c] by rank, or [B, 0, 0] for none.
        a: [B, n, c] by input, or none.
        rows: [B, m, c], P @ a, or none.
        columns: [B, n, c], P^T @ w, or none.
    """

    w: np.ndarray
    a: np.ndarray
    rows: np.ndarray
    columns: np.ndarray

    @staticmethod
    def of(w: Tensor | None, a: Tensor | None, *, rows: int = 0, columns: int = 0) -> Products:
        """With new arrays of so many rows for what is wanted; 0 for what is not."""
        arrays = [None if t is None else t.numpy() for t in (w, a)]
        like = arrays[0] if arrays[1] is None else arrays[1]
        assert like is not None
        batch, _, width = like.shape
        none = np.empty((batch, 0, 0), like.dtype)
        given = (none if t is None else t for t in arrays)
        shapes = ((batch, size, width) for size in (rows, columns))
        return Products(*given, *(np.empty(s, like.dtype) if s[1] else none for s in shapes))

    def fill(
        self, form: int, x: np.ndarray, order: np.ndarray, steepness: float, grads: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fill in rows and columns for x [B, n] with its stable argsort; NaN if x is not finite.

        Returns:
            The derivatives of sum w_i p_ij a_j to x [B, n], and each matrix's part of that to the
            steepness [B]; float64, and empty without `grads`.
        """
        from gendr.sorting.backends.cpu import product_kernels as kernels

        batch, n = x.shape
        count = max(self.w.shape[1], self.rows.shape[1])
        by_x, by_steepness = np.empty((batch * grads, n)), np.empty(batch)
        if form == ABSOLUTE:  # in O(n)
            launch(kernels.decays, batch, x.size, x, order, steepness, *self, by_x, by_steepness)
        else:
            parts, room = -(-count // kernels.PART), n + kernels.LANES
            sums = np.empty((batch, parts, self.columns.shape[2], room))
            shares, lost = np.empty((batch, parts, 2, room * grads)), np.zeros((batch, n))
            launch(
                kernels.windows, batch * parts, x.size * count, x, order, steepness,
                form == NEURAL, n - count, self.w, self.a, self.rows, sums, shares, lost,
            )  # fmt: skip
            if self.columns.size > 0 or grads:
                launch(
                    kernels.windows_end, batch, x.size, x, order, steepness, form == NEURAL, sums,
                    shares, lost, self.columns, by_x, by_steepness,
                )  # fmt: skip
        # Kernels skip what is far, where infinite differences have no softmax.
        found = (self.rows, self.columns, *[by_x] * grads)
        spread_nan(x, *found)
        return by_x, by_steepness


def launch(kernel: Callable[..., None], units: int, entries: int, *args: Any) -> None:
    """Run a kernel over 0 .. units - 1, on all threads if there are many entries to compute."""
    run(kernel, units, *args, pieces=2, alone=entries < SMALL)


def ordered(keys: Tensor) -> np.ndarray:
    """The stable argsort of keys [B, n]."""
    from gendr.sorting.backends.cpu.order import fill_order

    order = np.empty(keys.shape, np.int64)
    fill_order(keys.numpy(), order)
    return order


# Kernels of `ROWS`, on tensors [..., n].


def rows_forward(
    spec: tuple[Any, int, int], x: Tensor, steepness: Number, *, save: bool
) -> tuple[tuple[Tensor], tuple[Tensor, np.ndarray]]:
    """The rows; they and the order are saved."""
    from gendr.sorting.backends.cpu import row_kernels as kernels

    sort, count, before = spec
    n = x.shape[-1]
    keys = x.reshape(-1, n)
    order = sort.order(keys, count, before)
    p = memory.empty((len(keys), count, n), x.dtype)
    neural, squared = sort.form == NEURAL, sort.form == SQUARED
    launch(
        kernels.neuralsort_rows if neural else kernels.softsort_rows,
        len(keys) * kernels.parts(count), p.numel(), keys.numpy(), order, float(steepness),
        *(() if neural else (squared,)), p.numpy(),
    )  # fmt: skip
    spread_nan(keys.numpy(), p.numpy())
    p = p.reshape(*x.shape[:-1], count, n)
    return (p,), (p, order)


def rows_backward(
    spec: tuple[Any, int, int], inputs: tuple[Tensor, Number],
    saved: tuple[Tensor, np.ndarray], grads: tuple[Tensor], wanted: tuple[bool, ...],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradients of x and of the steepness."""
    from gendr.sorting.backends.cpu import row_kernels as kernels

    (sort, *_), (x, steepness), (p, order) = spec, inputs, saved
    matrices, upstream = (stacked(t.detach(), 2).numpy() for t in (p, grads[0]))
    keys = x.reshape(-1, x.shape[-1]).numpy()
    batch, n = keys.shape
    units, entries = batch * kernels.parts(matrices.shape[1]), matrices.size
    shares = np.empty((batch, units // max(1, batch), 1 + (sort.form == NEURAL), n))
    by_x, by_steepness = np.empty(keys.shape), np.empty(batch)
    if sort.form == NEURAL:
        launch(kernels.neuralsort_shares, units, entries, keys, order, matrices, upstream, shares)
        launch(
            kernels.neuralsort_gradient, batch, keys.size, keys, order, float(steepness), shares,
            by_x, by_steepness,
        )  # fmt: skip
    else:
        squared, lost = sort.form == SQUARED, np.empty(matrices.shape[:2])
        launch(
            kernels.softsort_shares, units, entries, keys, order, squared, matrices, upstream,
            shares, lost,
        )  # fmt: skip
        launch(
            kernels.softsort_gradient, batch, keys.size, keys, order, float(steepness), squared,
            shares, lost, by_x, by_steepness,
        )  # fmt: skip
    return torch.from_numpy(by_x), torch.from_numpy(by_steepness)


# Kernels of `PRODUCTS`, on tensors [..., n] and [..., n, c].


def products_forward(
    spec: tuple[Any, bool, int | None], x: Tensor, steepness: Number, payload: Tensor, *, save: bool
) -> tuple[tuple[Tensor], tuple[np.ndarray]]:
    """The product; the order is saved, or where it suffices its end."""
    sort, by_columns, count = spec
    n = x.shape[-1]
    keys, given, count = x.reshape(-1, n), stacked(payload, 2), n if count is None else count
    if sort.form == ABSOLUTE and count < n:
        order = sort.order(keys, count, 0)
        order = np.ascontiguousarray(order[:, order.shape[1] - count :])
    else:
        order = ordered(keys)
    if by_columns:
        products = Products.of(given, None, columns=n)
    else:
        products = Products.of(None, given, rows=count)
    products.fill(sort.form, keys.numpy(), order, float(steepness), grads=False)
    found = products.columns if by_columns else products.rows
    shape = *payload.shape[:-2], *found.shape[1:]
    return (finite(torch.from_numpy(found).reshape(shape)),), (order,)


def products_backward(
    spec: tuple[Any, bool, int | None], inputs: tuple[Tensor, Number, Tensor],
    saved: tuple[np.ndarray], grads: tuple[Tensor], wanted: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The gradients of x, of the steepness and of the payload."""
    (sort, by_columns, _), (x, steepness, payload) = spec, inputs
    given, upstream = stacked(payload, 2), stacked(grads[0].detach(), 2)
    w, a = (given, upstream) if by_columns else (upstream, given)
    size = payload.shape[-2] if wanted[2] else 0
    products = Products.of(w, a, **{"rows" if by_columns else "columns": size})
    keys = x.reshape(-1, x.shape[-1]).numpy()
    found = products.fill(sort.form, keys, saved[0], float(steepness), grads=True)
    by_payload = products.rows if by_columns else products.columns
    by_keys, by_steepness = map(torch.from_numpy, found)
    of_payload = torch.from_numpy(by_payload).reshape(payload.shape) if wanted[2] else None
    return by_keys, by_steepness, of_payload


# Kernels of `MEAN_RANKS`, on tensors [..., n].


def mean_ranks_forward(
    sort: Any, x: Tensor, steepness: Number, *, save: bool
) -> tuple[tuple[Tensor], tuple[np.ndarray, ...]]:
    """The ranks; saved: order, ranks about the middle, and sums over columns."""
    n = x.shape[-1]
    keys = x.reshape(-1, n)
    order, products = ordered(keys), Products.of(_places(keys), None, columns=n)
    products.fill(sort.form, keys.numpy(), order, float(steepness), grads=False)
    means, sums = products.columns[..., 0], products.columns[..., 1]
    means = means / sums
    found = torch.from_numpy(means + (n + 1) / 2).reshape(x.shape)
    return (found,), (order, means, sums)


def _places(keys: Tensor) -> Tensor:
    """Weights of sums over columns, [B, n, 2]: places about the middle, and ones."""
    n = keys.shape[-1]
    weights = np.empty((*keys.shape, 2), keys.numpy().dtype)
    weights[..., 0], weights[..., 1] = np.arange(n) - (n - 1) / 2, 1.0
    return torch.from_numpy(weights)


def mean_ranks_backward(
    sort: Any, inputs: tuple[Tensor, Number], saved: tuple[np.ndarray, ...],
    grads: tuple[Tensor], wanted: tuple[bool, ...],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradients of x and of the steepness."""
    (x, steepness), (order, means, sums) = inputs, saved
    keys = x.reshape(order.shape)
    weights = _places(keys)
    upstream = torch.empty_like(weights).numpy()
    np.divide(grads[0].numpy().reshape(order.shape), sums, out=upstream[..., 0])
    np.multiply(upstream[..., 0], -means, out=upstream[..., 1])
    products = Products.of(weights, torch.from_numpy(upstream))
    by_x, by_steepness = products.fill(sort.form, keys.numpy(), order, float(steepness), grads=True)
    return torch.from_numpy(by_x), torch.from_numpy(by_steepness)


# Kernels of `gendr.sorting.ranking.PLACES`, on tensors [..., n].


def places_forward(
    dist: Distribution, x: Tensor, steepness: Number, counted: Tensor, *, save: bool
) -> tuple[tuple[Tensor], tuple[()]]:
    """The ranks; nothing is saved."""
    from gendr.distributions.numba import tails_address
    from gendr.sorting.backends.cpu import comparison_kernels as kernels

    keys, found = stacked(x, 1), torch.empty_like(x)
    launch(
        kernels.ranks, len(keys), keys.shape[-1] * keys.numel(), keys.numpy(),
        stacked(counted, 1).numpy(), float(steepness), tails_address(name_of(dist)),
        stacked(found, 1).numpy(),
    )  # fmt: skip
    return (found,), ()


def places_backward(
    dist: Distribution, inputs: tuple[Tensor, Number, Tensor], saved: tuple[()],
    grads: tuple[Tensor], wanted: tuple[bool, ...],
) -> tuple[Tensor, Tensor, None]:  # fmt: skip
    """The gradients of x and of the steepness."""
    from gendr.distributions.numba import density_address
    from gendr.sorting.backends.cpu import comparison_kernels as kernels

    x, steepness, counted = inputs
    keys = stacked(x, 1)
    by_x, by_steepness = torch.empty_like(keys), keys.new_empty(len(keys))
    launch(
        kernels.ranks_back, len(keys), keys.shape[-1] * keys.numel(), keys.numpy(),
        stacked(counted, 1).numpy(), float(steepness), density_address(name_of(dist)),
        stacked(grads[0], 1).numpy(), by_x.numpy(), by_steepness.numpy(),
    )  # fmt: skip
    return by_x, by_steepness.sum(), None
