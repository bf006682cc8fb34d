"""Sorting as functions and as a module: the common interface of all methods.

Here the input is checked, the order is reversed if wanted, and a soft result is made hard if
wanted; the methods do none of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeAlias, overload

import torch
from torch import Tensor, nn

from gendr._runtime.checks import check_choice
from gendr._runtime.registry import members
from gendr._runtime.tracing import lazy
from gendr.sorting.base import (
    PermutationSort,
    Sort,
    check_keys,
    check_payload,
    check_settings,
    straight_through,
)
from gendr.sorting.losses import hard_ranks, permutation_matrix

Method: TypeAlias = "str | Sort"

# The modules that contain the methods; importing one makes its classes known.
_MODULES = ("relaxed", "neuralsort", "softsort", "sinkhorn", "permutahedron")


@cache
def methods() -> Mapping[str, type[Sort]]:
    """The names of all methods; the values are their classes."""
    for module in _MODULES:
        import_module(f"gendr.sorting.{module}")
    return MappingProxyType(members(Sort, package="gendr"))


def get(name: Method = "bitonic", **options: Any) -> Sort:
    """A method of sorting by its name and settings.

    >>> get("odd_even", steepness=20.0, dist="logistic", art=0.25)
    OddEvenSort(steepness=20.0, dist='logistic', art=0.25, backend='auto')

    Args:
        name: one of `methods()`, or a method itself, whose settings the options replace.
        **options: settings of that method; all methods have `steepness`.

    Raises:
        TypeError: the method has no such setting, or a setting is of the wrong type.
        ValueError: there is no such method, or a setting is out of range.
    """
    if not isinstance(name, (str, Sort)):
        raise TypeError(f"a method is a name or a Sort, got {type(name).__name__}")
    if isinstance(name, Sort):
        check_settings(name.name, type(name), options)
        return replace(name, **options)
    kind = methods()[check_choice("method", name, methods())]
    check_settings(name, kind, options)
    return kind(**options)


def _with_permutation(chosen: Sort, what: str) -> PermutationSort:
    """Return the method if it has a permutation matrix.

    Raises:
        ValueError: it has none.
    """
    if isinstance(chosen, PermutationSort):
        return chosen
    having = [name for name, kind in methods().items() if issubclass(kind, PermutationSort)]
    raise ValueError(
        f"method {chosen.name!r} has no permutation matrix, which {what} needs; "
        f"these have one: {', '.join(having)}"
    )


@overload
def soft_sort(
    x: Tensor,
    method: Method = ...,
    *,
    payload: None = ...,
    descending: bool = ...,
    hard: bool = ...,
    check: bool = ...,
    **options: Any,
) -> Tensor: ...
@overload
def soft_sort(
    x: Tensor,
    method: Method = ...,
    *,
    payload: Tensor,
    descending: bool = ...,
    hard: bool = ...,
    check: bool = ...,
    **options: Any,
) -> tuple[Tensor, Tensor]: ...
def soft_sort(
    x: Tensor,
    method: Method = "bitonic",
    *,
    payload: Tensor | None = None,
    descending: bool = False,
    hard: bool = False,
    check: bool = True,
    **options: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Sort along the last dimension, differentiably.

    >>> soft_sort(torch.tensor([3.0, 1.0, 2.0]), "bitonic", steepness=100.0)
    tensor([1.0064, 2.0000, 2.9936])

    Args:
        x: [..., n], n >= 1, finite.
        method: a name (`methods()` lists them) or a method.
        payload: [..., n, c], sorted by the keys x along with them.
        descending: the largest first.
        hard: the result is exactly that of `torch.sort`, the gradients are those of the soft sort
            (straight-through).
        check: whether to look for NaN and inf, which a soft sort would spread over all values.
        **options: settings of the method, such as `steepness`, which is 1 / scale.

    Returns:
        The sorted values, shaped like x; with a payload also the sorted payload.

    Networks are made in Python when an n first comes, at about 2.5 seconds for a million
    comparators: 20 seconds for "bitonic" and 100,000 values, of which a line on stderr warns.

    Raises:
        TypeError: no tensor, or a setting of the wrong type or that the method does not have.
        ValueError: bad shapes, NaN or inf, an unknown method, a setting out of range, or a payload
            for a method without a permutation matrix.
        MemoryError: a network or a permutation matrix does not fit into memory.
    """
    sorter = SoftSorter(method, descending=descending, hard=hard, check=check, **options)
    result = sorter(x, payload)
    return result.values if payload is None else (result.values, result.payload)


def soft_rank(
    x: Tensor,
    method: Method = "bitonic",
    *,
    descending: bool = False,
    hard: bool = False,
    check: bool = True,
    **options: Any,
) -> Tensor:
    """The rank of every value among those of the last dimension, differentiably.

    >>> soft_rank(torch.tensor([3.0, 1.0, 2.0]), "bitonic", steepness=100.0)
    tensor([2.9936, 1.0064, 2.0000])

    Args:
        x: [..., n], n >= 1, finite.
        method: a name (`methods()` lists them) or a method.
        descending: rank 1 for the largest instead of the smallest.
        hard: the ranks are exact (equal values get theirs in order), the gradients soft.
        check: look for NaN and inf.
        **options: settings of the method, such as `steepness`, which is 1 / scale.

    Returns:
        The ranks, shaped like x; from 1 to n.

    Raises:
        TypeError, ValueError: as `soft_sort`.
    """
    return SoftSorter(method, descending=descending, hard=hard, check=check, **options)(x).ranks


def permutation(
    x: Tensor,
    method: Method = "bitonic",
    *,
    descending: bool = False,
    hard: bool = False,
    check: bool = True,
    **options: Any,
) -> Tensor:
    """The relaxed permutation matrix P[..., rank, input]: P @ x is sorted.

    Args:
        x: [..., n], n >= 1, finite.
        method: a name (`methods()` lists them) or a method.
        descending: the largest first.
        hard: the matrix is a true permutation, the gradients are soft.
        check: look for NaN and inf.
        **options: settings of the method, such as `steepness`, which is 1 / scale.

    Returns:
        [..., n, n], non-negative. Networks: rows and columns sum to 1; sinkhorn: to its tolerance;
        neuralsort and softsort: rows only.

    Raises:
        TypeError, ValueError: as `soft_sort`; also for a method without a permutation matrix.
    """
    sorter = SoftSorter(method, descending=descending, hard=hard, check=check, **options)
    return sorter(x).permutation


@dataclass(frozen=True, eq=False)
class Sorted:
    """The result of a `SoftSorter`; each part is computed when it is first read.

    The descending order is the ascending one reversed: the rows of P are flipped. Methods without a
    permutation matrix sort -x instead; for "permutahedron" with "l2" that gives the same result.

    Noise is drawn once, so that all parts belong to one sample; the noisy keys decide where the
    values go.
    """

    method: Sort
    x: Tensor
    keys: Tensor
    descending: bool
    hard: bool
    _payload: Tensor | None

    @lazy
    def values(self) -> Tensor:
        """The sorted values, shaped like x."""
        if self.keys is not self.x:  # values go where their noisy keys go
            return self._carried(self.x[..., None])[..., 0]
        if self.descending and not isinstance(self.method, PermutationSort):
            soft = -self.method.values(-self.keys)
        else:
            soft = self._flipped(self.method.values(self.keys), -1)
        if not self.hard:
            return soft
        hard = self.keys.sort(dim=-1, descending=self.descending).values
        return straight_through(hard, soft)

    @lazy
    def ranks(self) -> Tensor:
        """The rank of every input, from 1 to n."""
        if not self.descending:
            soft = self.method.ranks(self.keys)
        elif isinstance(self.method, PermutationSort):
            soft = self.keys.shape[-1] + 1 - self.method.ranks(self.keys)
        else:
            soft = self.method.ranks(-self.keys)
        if not self.hard:
            return soft
        return straight_through(hard_ranks(self._ascending(), "first"), soft)

    @lazy
    def permutation(self) -> Tensor:
        """P[..., rank, input].

        Raises:
            ValueError: the method has none.
        """
        chosen = _with_permutation(self.method, "permutation")
        soft = self._flipped(chosen.permutation(self.keys), -2)
        if not self.hard:
            return soft
        return straight_through(permutation_matrix(self._ascending()), soft)

    @lazy
    def payload(self) -> Tensor:
        """The sorted payload.

        Raises:
            ValueError: none was given, or the method has no permutation matrix.
        """
        if self._payload is None:
            raise ValueError("there is no payload; pass one along with x")
        return self._carried(self._payload)

    def _carried(self, payload: Tensor) -> Tensor:
        """P @ payload."""
        chosen = _with_permutation(self.method, "a payload")
        soft = self._flipped(chosen.carried(self.keys, payload), -2)
        if not self.hard:
            return soft
        order = self._ascending().argsort(dim=-1, stable=True)[..., None]
        hard = payload.expand(soft.shape).gather(-2, order.expand(soft.shape))
        return straight_through(hard, soft)

    def _flipped(self, soft: Tensor, dim: int) -> Tensor:
        """The ascending result of a method, flipped if the order is descending."""
        return soft.flip(dim) if self.descending else soft

    def _ascending(self) -> Tensor:
        """Keys whose ascending order is the order wanted: x, or -x for descending."""
        keys = self.keys.detach()
        return -keys if self.descending else keys


class SoftSorter(nn.Module):
    """A differentiable sort as a module.

    >>> sorter = SoftSorter("odd_even", dist="cauchy", steepness=10.0)
    >>> out = sorter(x)         # x [..., n]
    >>> out.values, out.ranks, out.permutation   # computed when they are read

    Args:
        method: a name (`methods()` lists them) or a method.
        descending: the largest first.
        hard: results are hard, gradients are soft (straight-through).
        check: look for NaN and inf in the input.
        learnable: whether the steepness is a parameter; its logarithm is learnt, so it is positive.
        **options: settings of the method, such as `steepness`, which is 1 / scale.

    Raises:
        TypeError: a setting of the wrong type or that the method does not have.
        ValueError: an unknown method, or a setting out of range.
    """

    def __init__(
        self,
        method: Method = "bitonic",
        *,
        descending: bool = False,
        hard: bool = False,
        check: bool = True,
        learnable: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self._method = get(method, **options)
        self.descending, self.hard, self.check = descending, hard, check
        self.log_steepness: nn.Parameter | None = None
        if learnable:
            steepness = torch.as_tensor(self._method.steepness, dtype=torch.get_default_dtype())
            self.log_steepness = nn.Parameter(steepness.detach().log())

    @property
    def method(self) -> Sort:
        """The method, with the learnt steepness."""
        if self.log_steepness is None:
            return self._method
        return replace(self._method, steepness=self.log_steepness.exp())

    def forward(self, x: Tensor, payload: Tensor | None = None) -> Sorted:
        """Sort x [..., n] along the last dimension, and a payload [..., n, c] with it.

        Raises:
            TypeError: no tensors.
            ValueError: bad shapes, NaN or inf.
        """
        keys = check_keys(x, check=self.check)
        if payload is not None:
            payload = check_payload(payload, keys)
        method, noisy = self.method.drawn(keys)
        return Sorted(method, keys, noisy, self.descending, self.hard, payload)

    def extra_repr(self) -> str:
        """The method, and the options that differ from their defaults."""
        flags = ["descending", "hard"]
        return ", ".join([repr(self._method), *(flag for flag in flags if getattr(self, flag))])
