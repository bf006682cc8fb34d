"""Distributions with a parameter, whose series are those of their kernel functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from gendr._common.checks import check_float, check_number
from gendr._common.tracing import all_hold
from gendr.distributions.base import Number
from gendr.distributions.standard import INF, StandardDistribution


class Shaped(StandardDistribution):
    """A distribution with a parameter, which is checked.

    It adds the hook `_pdf_shape_slope`. Its cdf, sf and `_shape_slope` (dF/dshape) are those of the
    kernel functions beside the class, which loop over one number after the other, unless it has
    others.

    Attributes:
        shape: > 0; a number, or a tensor that broadcasts with z and may require grad.
    """

    shape: Number
    in_float64: ClassVar[bool] = True

    def __post_init__(self) -> None:
        what, shape = f"the shape of {self.name}", self.shape
        if isinstance(shape, Tensor):
            check_float(what, shape)
            # On a GPU, to look would mean to wait.
            if not shape.is_cuda and not all_hold((shape > 0) & (shape < INF)):
                raise ValueError(f"{what} must be > 0 and finite, got {shape.tolist()}")
        else:
            object.__setattr__(self, "shape", check_number(what, shape, above=0))

    @property
    def shape_parameter(self) -> Number:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The shape."""
        return self.shape

    def _shape_for(self, z: Tensor) -> Tensor:
        """The shape as a tensor, of the kind of z if it is a number."""
        if isinstance(self.shape, Tensor):
            return self.shape
        return torch.tensor(self.shape, dtype=z.dtype, device=z.device)

    def _cdf(self, z: Tensor) -> Tensor:
        return self._kernel_function("tails", z)[0]

    def _sf(self, z: Tensor) -> Tensor:
        return self._kernel_function("tails", z)[1]

    def _shape_slope(self, z: Tensor) -> Tensor:
        return self._kernel_function("shape_slope", z)[0]

    def _kernel_function(
        self, kind: Literal["tails", "shape_slope"], z: Tensor
    ) -> Sequence[Tensor]:
        from gendr.distributions.numba import evaluated

        return evaluated(type(self), kind, z, self._shape_for(z).expand_as(z))
