"""The base classes of differentiable sorts, and the checks and helpers that they share.

A method is a frozen dataclass of its settings. It only sorts in ascending order, and its input is a
finite floating-point tensor [..., n] with n >= 1: the functions of `gendr.sorting.api` check the
input, reverse the result for a descending order, and make it hard if wanted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gendr._common.checks import (
    FLOATS,
    check_count,
    check_finite,
    check_memory,
    check_shape,
    check_tensor,
    shape_text,
)
from gendr._common.ranges import finite
from gendr._common.tracing import HALVES, check_reverse_mode, is_traced, matmul
from gendr._common.words import translated
from gendr.distributions.decisions import Number, check_steepness
from gendr.sorting.networks import INSTEAD
from gendr.sorting.ragged import check_mask, present

SHRINK = 2.0**-40  # makes room for sums over 2^38 values
_FEW = 10_000  # what BLAS sums on one thread
# The exponents of rows that kernels know: that of NeuralSort, and the distance of SoftSort or its
# square.
NEURAL, ABSOLUTE, SQUARED = range(3)


@dataclass(frozen=True)
class Sort(ABC):
    """A differentiable sort.

    Permutation matrices are P[..., rank, input]: P @ x is the sorted vector. Ranks count from 1.

    Args:
        steepness: inverse of the scale of the noise (of the temperature, of the regularisation):
            the larger, the nearer to the hard sort. Positive; a number, or a tensor of a single one
            or of one for each row, through which gradients flow.

    Raises:
        TypeError: if it is neither.
        ValueError: if it is not positive and finite.
    """

    name: ClassVar[str]

    steepness: Number = 10.0

    def __post_init__(self) -> None:
        check_steepness(self.steepness, rows=True)

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

    def last_carried(self, x: Tensor, payload: Tensor, count: int) -> Tensor:
        """The last rows of P times a payload [..., n, c], [..., count, c]."""
        return finite(matmul(self.last_rows(x, count), payload))

    def last_weighed(self, x: Tensor, weights: Tensor) -> Tensor:
        """The last rows of P, transposed, times weights [..., count, c], [..., n, c]."""
        return finite(matmul(self.last_rows(x, weights.shape[-2]).mT, weights))

    def values(self, x: Tensor) -> Tensor:
        """P @ x: the sorted values [..., n], ascending, of x [..., n]."""
        return self.carried(x, x[..., None]).squeeze(-1)

    def carried(self, x: Tensor, payload: Tensor) -> Tensor:
        """P @ payload, [..., n, c]: a payload [..., n, c] is sorted by the keys x [..., n]."""
        # a row's sum may be slightly above 1
        return finite(matmul(self.permutation(x), payload))

    def weighed(self, x: Tensor, weights: Tensor) -> Tensor:
        """P^T @ weights, [..., n, c]: of every input, what its ranks are worth."""
        return finite(matmul(self.permutation(x).mT, weights))

    def ranks(self, x: Tensor) -> Tensor:
        """The expected rank, from 1 to n, under each column of P: [..., n], shaped like x."""
        p = self.permutation(x)
        positions = torch.arange(1, p.shape[-2] + 1, dtype=p.dtype, device=p.device)
        return matmul(positions, p)


def of_rows(
    x: Tensor, steepness: Number, power: float = 1.0
) -> tuple[Tensor, Number, Tensor | float]:
    """Keys [..., n] and a single steepness, of a tensor with one for each row.

    Args:
        x: [..., n].
        steepness: a number; or a tensor of one, or that broadcasts to [...].
        power: of x, with which it stands together.

    Returns:
        The keys, their steepness, and what x was multiplied by, 1 or [..., 1].

    Raises:
        ValueError: the tensor does not broadcast.
    """
    if not isinstance(steepness, Tensor):
        return x, steepness, 1.0
    if steepness.numel() == 1:
        return x, steepness.reshape(()), 1.0
    try:
        each = steepness.to(x).expand(x.shape[:-1])
    except RuntimeError:
        raise ValueError(
            f"steepness must be one number or one for each row, {shape_text(x.shape[:-1])}, got "
            f"{shape_text(steepness.shape)}"
        ) from None
    factor = each[..., None] if power == 1 else each[..., None] ** (1 / power)
    return finite(x * factor), 1.0, factor


def spread_nan(x: np.ndarray[Any, Any], *results: np.ndarray[Any, Any]) -> None:
    """Fill the results [B, ...] of lists x [B, n] with NaN where these hold NaN or ±inf."""
    flat = x.ravel()
    # By BLAS, whose threads leave so few alone. Sums of squares of infinities are no NaN.
    if x.size <= _FEW and np.isfinite(np.vdot(flat, flat)):
        return
    if (lists := ~np.isfinite(x).all(-1)).any():
        for result in results:
            result[lists] = np.nan


def straight_through(hard: Tensor, soft: Tensor) -> Tensor:
    """The hard value forward, the gradient of the soft one backward; equal shapes."""
    check_reverse_mode()
    return hard.detach() + (soft - soft.detach()).nan_to_num()


class Pair(ABC):
    """A result that unpacks to two tensors, like those of `torch.sort` and `torch.topk`.

    They are its values and, if a payload was given, what became of it; otherwise its matrix.
    """

    @abstractmethod
    def _pair(self) -> tuple[Tensor, Tensor]:
        """The two."""

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._pair())

    def __getitem__(self, index: int) -> Tensor:
        return self._pair()[index]

    def __len__(self) -> int:
        return 2


def along(x: Tensor, dim: int) -> Tensor:
    """The tensor x with the dimension `dim` last.

    Raises:
        TypeError: dim is no int.
        ValueError: x has no such dimension.
    """
    if type(dim) is not int or dim < -x.ndim:
        dim = check_count("dim", dim, least=-x.ndim)
    if dim >= x.ndim:
        raise ValueError(f"dim must be a dimension of x, {-x.ndim} .. {x.ndim - 1}, got {dim}")
    return x if dim in (-1, x.ndim - 1) else x.movedim(dim, -1)


def back(result: Tensor, dim: int) -> Tensor:
    """A result [..., n] with its last dimension at `dim` again."""
    return result if dim == -1 else result.movedim(-1, dim)


def expanded(x: Tensor, payload: Tensor) -> tuple[Tensor, Tensor]:
    """Keys [..., n] and payload [..., n, c] with the same batch dimensions."""
    if x.shape[:-1] == payload.shape[:-2]:  # PyTorch's rule is Python, and slow
        return x, payload
    batch = torch.broadcast_shapes(x.shape[:-1], payload.shape[:-2])
    return x.expand(*batch, x.shape[-1]), payload.expand(*batch, *payload.shape[-2:])


def stacked(x: Tensor, dims: int) -> Tensor:
    """The last dimensions of x as one batch [B, ...]; -1 for B is ambiguous if they are empty."""
    return x.reshape(math.prod(x.shape[:-dims]), *x.shape[-dims:])  # numel() fixes sizes in graphs


def gumbel(x: Tensor, noise: float) -> Tensor:
    """The tensor x with fresh Gumbel noise of this scale added, from torch's generator."""
    # The generator may give 0, whose logarithm is infinite.
    exponential = torch.empty_like(x).exponential_().clamp_(min=torch.finfo(x.dtype).tiny)
    return x - noise * exponential.log()


def check_keys(
    x: object, *, check: bool = True, dim: int = -1, mask: object = None
) -> tuple[Tensor, Tensor | None]:
    """Check the values to sort, and return them as a floating-point tensor [..., n].

    Integers become the default dtype, half precision float32. On the device meta, values have
    shapes only, and so have results.

    Args:
        x: the values.
        check: look for NaN and inf among those that are present. A list that holds any has soft
            results of NaN without, on all devices, and so are their gradients.
        dim: along which they are sorted; it comes last.
        mask: bool, broadcasting to x: True where a value is present.

    Returns:
        The values; and the mask in their shape, None if nothing is absent.

    Raises:
        TypeError: no tensor, or complex; dim no int; the mask not bool.
        ValueError: without dimensions, NaN or inf among the values, dim out of range, or a mask of
            another shape.
    """
    x = check_tensor("x", x, meta=True)
    if x.dtype not in FLOATS:
        if x.is_complex():
            raise TypeError(f"x must be real, got {x.dtype}; sort x.abs() or x.real")
        x = x.float() if x.dtype in HALVES else x.to(torch.get_default_dtype())
    if x.ndim == 0:
        raise ValueError("x must have shape [..., n], got a single number, []")
    moved = along(x, dim) is not x
    known = None if mask is None else check_mask(mask, x)
    if check and not x.is_meta:
        try:
            check_finite("x", x if known is None else present(x, known))
        except ValueError as error:
            if bool((x == -torch.inf).any()):  # what many write for an absent value
                error.args = (f"{error}; for -inf as absent give mask=x != -torch.inf",)
            raise
    if moved:
        x, known = along(x, dim), None if known is None else along(known, dim)
    return x, known


def named_settings(
    method: object, kind: type[Any], given: Mapping[str, Any], without: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The settings of a method by its own words; `without` are fields that are none.

    Raises:
        TypeError: a word that is none, with the settings that there are, the nearest first.
        ValueError: a value that cannot be converted.
    """
    # By the attribute, as `torch.compile` knows `dataclasses.fields` of objects alone.
    known = [
        f for f in kind.__dataclass_fields__.values() if not str(f.type).startswith("ClassVar")
    ]
    allowed = [f.name for f in known if f.init and f.name not in without]
    return translated(f"method {method!r}", allowed, given)


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
