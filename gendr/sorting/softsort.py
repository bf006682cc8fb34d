"""SoftSort."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import torch
from torch import Tensor

from gendr._common.checks import check_number
from gendr._common.ranges import finite, spread
from gendr._common.tracing import stable_sort
from gendr.distributions.decisions import Number
from gendr.sorting.backends.cpu.rows import ordered
from gendr.sorting.base import ABSOLUTE, SQUARED
from gendr.sorting.rows import RowSort

# From so many values for each row on, the largest are found faster than all are sorted.
_FEW = 4


@final
@dataclass(frozen=True)
class SoftSort(RowSort):
    """P[i, :] = softmax_j(-steepness |sort(x)_i - x_j|^power).

    The gradient flows through sort(x) as through a gather. If two values are equal, the slope of
    the distance counts as 0, also for a power below 1, for which it is infinite.

    Args:
        steepness: inverse of the temperature of the softmax.
        noise: scale of the Gumbel noise, not negative; 0 for the deterministic sort.
        power: power of the distance, positive. The paper uses 1 and 2, which have compiled kernels;
            rows are then proportional to Laplace (1) or Gaussian (2) densities at the inputs.

    Source: Prillo and Eisenschlos, SoftSort: A Continuous Relaxation for the argsort Operator
        (ICML 2020), equation (4), which sorts in descending order.
    """

    name: ClassVar[str] = "softsort"
    has_rows: ClassVar[bool] = True

    power: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("power", self.power, above=0.0)

    @property
    def degree(self) -> float:
        """The power."""
        return self.power

    def ranks(self, x: Tensor) -> Tensor:
        """The expected rank of every input, see `RowSort.ranks`.

        Raises:
            ValueError: the power is below 1; ranks would not rise with x.
        """
        if self.power < 1:
            raise ValueError(
                f"ranks need a power of 1 or more, got {self.power:g}: with less, a larger value "
                "may get a smaller rank"
            )
        return super().ranks(x)

    def reference(self, x: Tensor, steepness: Number, count: int | None = None) -> Tensor:
        """The formula of the paper in plain torch: P [..., n, n], or its last rows."""
        x = spread(x)
        ordered = stable_sort(x)[0]
        ordered = ordered if count is None else ordered[..., x.shape[-1] - count :]
        # An overflow becomes the largest finite number: P is 0 there, and so is the gradient.
        difference = finite(ordered[..., :, None] - x[..., None, :])
        return self.softmax(steepness, -finite(self._distance(difference)))

    def _distance(self, difference: Tensor) -> Tensor:
        if self.power == 1:
            return difference.abs()
        if self.power == 2:
            return difference.square()
        # An infinite slope, at 0 or by overflow, must not be multiplied by a gradient of 0.
        limit = (torch.finfo(difference.dtype).max / 2) ** min(1.0, 1 / self.power)
        moved = torch.where(difference == 0, 1.0, difference).abs().clamp(max=limit)
        return torch.where(difference == 0, 0.0, moved**self.power)

    @property
    def form(self) -> int | None:
        """See `RowSort`: there are compiled kernels for the powers 1 and 2."""
        return {1.0: ABSOLUTE, 2.0: SQUARED}.get(self.power)

    def order(self, x: Tensor, count: int, before: int) -> np.ndarray:
        """Of few rows the last columns alone: the others are not read."""
        if before:
            return np.ascontiguousarray(ordered(x)[:, : x.shape[-1] - before])
        if _FEW * count < x.shape[-1]:
            values, indices = (found.numpy() for found in x.topk(count + 1))
            if not (values[:, 1:] == values[:, :-1]).any():  # else not stable
                return np.ascontiguousarray(indices[:, :count][:, ::-1])
        return ordered(x)
