"""NeuralSort."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import torch
from torch import Tensor

from gendr._common.ranges import finite
from gendr.distributions.decisions import Number
from gendr.sorting.backends.cpu.rows import Products, launch, launch_windows
from gendr.sorting.base import SHRINK
from gendr.sorting.rows import RowSort


@final
@dataclass(frozen=True)
class NeuralSort(RowSort):
    """P[i, :] = softmax_j(steepness ((2 i - n - 1) x_j - A_j)), A_j = sum_k |x_j - x_k|.

    For n = 2 it is the relaxed sorting network with the logistic distribution. Its arguments grow
    with n: the rows of evenly spaced inputs, h apart, are Gaussians of variance h / (2 steepness).

    Source: Grover et al., Stochastic Optimization of Sorting Networks via Continuous Relaxations
        (ICLR 2019), equation (5), which sorts in descending order.
    """

    name: ClassVar[str] = "neuralsort"

    def reference(self, x: Tensor, steepness: Number, count: int | None = None) -> Tensor:
        """The formula of the paper in plain torch: P [..., n, n], or its last rows."""
        n = x.shape[-1]
        rank = torch.arange(1, n + 1, dtype=x.dtype, device=x.device)
        # Arguments are up to 4 n times as large as x. For huge x they are computed from x divided
        # by a power of 2, which changes no digit.
        is_huge = x.detach().abs().amax(-1, keepdim=True) > SHRINK * torch.finfo(x.dtype).max
        shrink = torch.where(is_huge, SHRINK, 1.0).to(x.dtype)
        x = x * shrink
        # A common shift of all arguments of a row has no effect, but it would cost digits.
        x = x - x.detach().mean(-1, keepdim=True)
        total = (x[..., :, None] - x[..., None, :]).abs().sum(-1)
        rank = rank if count is None else rank[n - count :]
        arguments = (2 * rank - n - 1)[:, None] * x[..., None, :] - total[..., None, :]
        arguments = arguments - arguments.detach().amax(-1, keepdim=True)
        return self.softmax(steepness, finite(arguments / shrink[..., None]))

    def run_forward(
        self, x: np.ndarray, order: np.ndarray, steepness: float, p: np.ndarray
    ) -> None:
        """Fill p [B, count, n], the last rows, for x [B, n] with its `order`."""
        from gendr.sorting.backends.cpu import row_kernels as kernels

        units = len(x) * kernels.parts(p.shape[1])
        launch(kernels.neuralsort_rows, units, p.size, x, order, steepness, p)

    def run_products(
        self, x: np.ndarray, order: np.ndarray, steepness: float, products: Products, grads: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fill in products; their derivatives, see `RowSort`."""
        return launch_windows(x, order, steepness, True, products, grads)

    def run_backward(
        self, x: np.ndarray, order: np.ndarray, steepness: float, p: np.ndarray, g: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """From g = dL/dp: dL/dx [B, n], and each matrix's part of dL/dsteepness [B]; float64."""
        from gendr.sorting.backends.cpu import row_kernels as kernels

        batch, n = x.shape
        parts = kernels.parts(p.shape[1])
        shares = np.empty((batch, parts, 2, n))
        launch(kernels.neuralsort_shares, batch * parts, p.size, x, order, p, g, shares)
        by_x, by_steepness = np.empty((batch, n)), np.empty(batch)
        launch(
            kernels.neuralsort_gradient, batch, x.size, x, order, steepness, shares,
            by_x, by_steepness,
        )  # fmt: skip
        return by_x, by_steepness
