"""Soft selection as a function: the common interface of all methods.

Here the input is checked, the order is reversed if the smallest are wanted, and a soft result is
made hard if wanted; the methods do none of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gendr._runtime.tracing import lazy, once
from gendr.sorting.base import check_keys, check_payload, straight_through
from gendr.topk.networks import check_k
from gendr.topk.selection import Method, Selecting, Selection, get


@dataclass(frozen=True, eq=False)
class Selected:
    """The result of `soft_topk`; each part is computed when it is first read.

    `values, attribution = soft_topk(x, k)` works too, and with a payload, as for `soft_sort`,
    `values, payload = soft_topk(x, k, payload=payload)`.
    """

    method: Selection
    k: int
    largest: bool
    hard: bool
    _x: Tensor
    _keys: Tensor
    _payload: Tensor | None

    def __iter__(self) -> Iterator[Tensor]:
        yield self.values
        yield self.attribution if self._payload is None else self.payload

    @lazy
    def values(self) -> Tensor:
        """The k largest values [..., k], largest first; or the smallest, smallest first."""
        if self._keys is not self._x:  # values go where their noisy keys go
            return self._carried(self._x[..., None])[..., 0]
        soft = self._selecting.values()
        soft = soft if self.largest else -soft
        return straight_through(self._x.gather(-1, self._hard), soft) if self.hard else soft

    @lazy
    def attribution(self) -> Tensor:
        """A[..., place, input], [..., k, n]: non-negative, rows sum to 1; A @ x are the values.

        Raises:
            ValueError: the method has none.
        """
        soft = self._selecting.attribution()
        if not self.hard:
            return soft
        return straight_through(
            torch.zeros_like(soft).scatter(-1, self._hard[..., None], 1.0), soft
        )

    @lazy
    def payload(self) -> Tensor:
        """What belongs to the selected values: A @ payload, [..., k, c].

        Raises:
            ValueError: none was given, or the method has no attribution.
        """
        if self._payload is None:
            raise ValueError("there is no payload; pass one along with x")
        return self._carried(self._payload)

    @lazy
    def _selecting(self) -> Selecting:
        return self.method.select(self._keys if self.largest else -self._keys, self.k)

    @once
    def _hard(self) -> Tensor:
        """The indices of the hard selection [..., k]; of equal values the first one first."""
        order = self._keys.detach().sort(dim=-1, descending=self.largest, stable=True).indices
        return order[..., : self.k]

    def _carried(self, payload: Tensor) -> Tensor:
        soft = self._selecting.carried(payload)
        if not self.hard:
            return soft
        index = self._hard[..., None].expand(soft.shape)
        hard = payload.expand(*soft.shape[:-2], *payload.shape[-2:]).gather(-2, index)
        return straight_through(hard, soft)


def soft_topk(
    x: Tensor,
    k: int,
    method: Method = "splitter",
    *,
    payload: Tensor | None = None,
    largest: bool = True,
    hard: bool = False,
    check: bool = True,
    **options: Any,
) -> Selected:
    """Select the k largest values, differentiably, as `torch.topk` does.

    >>> out = soft_topk(torch.tensor([3.0, 1.0, 2.0]), 2, steepness=100.0)
    >>> out.values
    tensor([2.9936, 2.0000])
    >>> out.attribution.shape
    torch.Size([2, 3])

    Args:
        x: [..., n], n >= 1, finite.
        k: 1 .. n.
        method: "splitter", "bitonic", "odd_even_merge", "pairwise" or "odd_even", relaxed selection
            networks; "neuralsort", "softsort", "sinkhorn", "permutahedron" (values only); or a
            method, or a sort of `gendr.sorting`.
        payload: [..., n, c], selected by the keys x along with them.
        largest: False selects the smallest, smallest first, as the largest of -x.
        hard: the result is exactly that of `torch.topk`, the gradients are those of the soft
            selection (straight-through).
        check: look for NaN and inf, for which the host waits for a GPU.
        **options: settings of the method, such as `steepness`, which is 1 / scale, and `dist`.

    Returns:
        values [..., k], attribution [..., k, n], payload [..., k, c]; see `Selected`. It unpacks to
        values and attribution, with a payload to values and payload.

    Raises:
        TypeError: no tensor, k no int, or a setting of the wrong type or that the method has not.
        ValueError: bad shapes, NaN or inf, k out of range, an unknown method, a setting out of
            range, an asymmetric law for a network, or a payload for a method without attribution.

    Source: Petersen et al., Differentiable Top-k Classification Learning (ICML 2022), section 3.1;
        thesis, section 4.2.
    """
    chosen = get(method, **options)
    keys = check_keys(x, check=check)
    check_k(k, keys.shape[-1])
    if payload is not None:
        payload = check_payload(payload, keys)
    chosen, noisy = chosen.drawn(keys)
    return Selected(chosen, k, largest, hard, keys, noisy, payload)
