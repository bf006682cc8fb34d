"""The base classes of differentiable sorts, and the checks and helpers that they share.

A method is a frozen dataclass of its settings. It only sorts in ascending order, and its input is a
finite floating-point tensor [..., n] with n >= 1: the functions of `gendr.sorting.api` check the
input, reverse the result for a descending order, and make it hard if wanted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from gendr._runtime.checks import check_finite, check_memory, check_shape, check_tensor, shape_text
from gendr._runtime.names import nearest
from gendr._runtime.ranges import finite
from gendr._runtime.tracing import is_traced
from gendr.distributions.decisions import Number, check_steepness
from gendr.sorting.networks import INSTEAD


@dataclass(frozen=True)
class Sort(ABC):
    """A differentiable sort.

    Permutation matrices are P[..., rank, input]: P @ x is the sorted vector. Ranks count from 1.

    Args:
        steepness: inverse of the scale of the noise (of the temperature, of the regularisation):
            the larger, the nearer to the hard sort. Positive; a number or a tensor of a single one,
            through which gradients flow.

    Raises:
        TypeError: if it is neither.
        ValueError: if it is not positive and finite.
    """

    name: ClassVar[str]

    steepness: Number = 10.0

    def __post_init__(self) -> None:
        check_steepness(self.steepness)

    def drawn(self, x: Tensor) -> tuple[Sort, Tensor]:
        """The method without noise, and x with one sample of the noise: so results agree."""
        return self, x

    @abstractmethod
    def values(self, x: Tensor) -> Tensor:
        """The sorted values [..., n], ascending, of x [..., n]."""

    @abstractmethod
    def ranks(self, x: Tensor) -> Tensor:
        """The rank of every input, [..., n], the smallest 1."""


@dataclass(frozen=True)
class PermutationSort(Sort):
    """A differentiable sort with a relaxed permutation matrix, which gives values and ranks too.

    Args:
        steepness: 1 / scale, positive; the larger, the nearer to the hard sort.
    """

    @abstractmethod
    def permutation(self, x: Tensor) -> Tensor:
        """P [..., rank, input] of x [..., n]: non-negative, rows sum to 1."""

    def last_rows(self, x: Tensor, count: int) -> Tensor:
        """The last rows of P, [..., count, n]: those of the largest values, ascending."""
        return self.permutation(x)[..., x.shape[-1] - count :, :]

    def values(self, x: Tensor) -> Tensor:
        """P @ x: the sorted values [..., n], ascending, of x [..., n]."""
        return self.carried(x, x[..., None])[..., 0]

    def carried(self, x: Tensor, payload: Tensor) -> Tensor:
        """P @ payload, [..., n, c]: a payload [..., n, c] is sorted by the keys x [..., n]."""
        return finite(self.permutation(x) @ payload)  # a row's sum may be slightly above 1

    def ranks(self, x: Tensor) -> Tensor:
        """The expected rank, from 1 to n, under each column of P: [..., n], shaped like x."""
        p = self.permutation(x)
        positions = torch.arange(1, p.shape[-2] + 1, dtype=p.dtype, device=p.device)
        return positions @ p


def straight_through(hard: Tensor, soft: Tensor) -> Tensor:
    """The hard value forward, the gradient of the soft one backward; equal shapes."""
    return hard.detach() + (soft - soft.detach()).nan_to_num()


def check_keys(x: object, *, check: bool = True) -> Tensor:
    """Check the values to sort, and return them as a floating-point tensor [..., n] with n >= 1.

    Integers become the default dtype, half precision float32.

    Raises:
        TypeError: no tensor, or complex.
        ValueError: without dimensions, n = 0, or NaN or inf among the values.
    """
    x = check_tensor("x", x)
    if x.is_complex():
        raise TypeError(f"x must be real, got {x.dtype}; sort x.abs() or x.real")
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError(
            f"x must have shape [..., n] with n >= 1 values to sort, got {list(x.shape)}"
        )
    if not x.is_floating_point():
        x = x.to(torch.get_default_dtype())
    elif x.dtype not in (torch.float32, torch.float64):
        x = x.float()
    return check_finite("x", x) if check else x


def check_settings(
    method: object, kind: type[Any], names: Iterable[str], without: tuple[str, ...] = ()
) -> None:
    """Refuse names that are no settings of a method; `without` are fields that are none.

    Raises:
        TypeError: with the settings that there are, the nearest first.
    """
    allowed = [f.name for f in fields(kind) if f.init and f.name not in without]
    for name in names:
        if name not in allowed:
            close = ", ".join(nearest(name, allowed, len(allowed)))
            raise TypeError(f"method {method!r} has no setting {name!r}; it has: {close}")


def check_matrices(method: str, x: Tensor, count: int) -> None:
    """Refuse permutation matrices [..., count, n] of x [..., n] for which there is no memory.

    Raises:
        MemoryError: they are on the CPU and need more than this machine has.
    """
    if x.device.type == "cpu" and not is_traced():
        shape = shape_text([*x.shape[:-1], count, x.shape[-1]])
        what = f"the permutation matrix of {method!r}, {shape},"
        check_memory(what, x.numel() * count * x.element_size(), INSTEAD)


def check_payload(payload: object, x: Tensor) -> Tensor:
    """Check a payload [..., n, c] for keys x [..., n], and return it in the dtype of x.

    Raises:
        TypeError: no tensor.
        ValueError: its shape does not fit the keys, or it is on another device.
    """
    payload = check_tensor("payload", payload)
    check_shape("payload", payload, "[..., n, c]", n=x.shape[-1])
    if payload.device != x.device:
        raise ValueError(f"payload must be on the device of x, {x.device}, got {payload.device}")
    return payload.to(x.dtype)
