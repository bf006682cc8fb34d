"""Soft selection as a function: the common interface of all methods.

Here the input is checked, the order is reversed if the smallest are wanted, and a soft result is
made hard if wanted; the methods do none of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

import torch
from torch import Tensor, nn

from gendr._common.checks import check_choice, check_count
from gendr._common.tracing import breaking_graphs_for_masks, lazy, once, stable_sort
from gendr._common.words import worded
from gendr.sorting.base import (
    Pair,
    back,
    check_keys,
    check_payload,
    expanded,
    straight_through,
)
from gendr.sorting.ragged import Lists, Ragged
from gendr.topk.networks import check_k
from gendr.topk.selection import Method, Selecting, Selection, get, select


@dataclass(frozen=True, eq=False)
class Selected(Pair):
    """The result of `soft_topk`; each part is computed when it is first read.

    It unpacks to two, as that of `soft_sort`: `values, payload` if a payload was given,
    `values, attribution` otherwise.

    With a mask, every part is that of the list of what is present alone; 0 stands for what is
    absent and, in lists of fewer than k values, at the last places (-1 in `indices`).
    """

    method: Selection
    k: int
    largest: bool
    hard: bool
    _x: Tensor
    _keys: Tensor
    _payload: Tensor | None
    dim: int
    dtype: torch.dtype
    _lists: Lists | None = None

    def _pair(self) -> tuple[Tensor, Tensor]:
        return self.values, self.attribution if self._payload is None else self.payload

    @lazy
    def values(self) -> Tensor:
        """The k largest values [..., k], largest first; or the smallest, smallest first."""
        lists = self._lists
        found = self._values if lists is None else lists.part("_values", "r", self.k)
        return back(found, self.dim).to(self.dtype)

    @once
    def indices(self) -> Tensor:
        """Where the values of the hard selection stand in x, int64 [..., k], as `torch.topk`'s.

        Of equal values the first one comes first. With noise they are those of the sample.
        """
        lists = self._lists
        found = self._hard if lists is None else lists.indices("_hard", self.k)
        return back(found, self.dim)

    @property
    def _values(self) -> Tensor:
        if not self.k:
            return self._x[..., :0]
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
        lists, size = self._lists, (self.k, self._x.shape[-1])
        found = self._attribution if lists is None else lists.part("_attribution", "rn", *size)
        return found.to(self.dtype)

    @property
    def _attribution(self) -> Tensor:
        if not self.k:
            return self._x[..., None, :][..., :0, :]
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
        if self._lists is None:
            return self._carried(self._payload).to(self.dtype)
        return self._lists.part("payload", "rc", self.k, self._payload.shape[-1]).to(self.dtype)

    @lazy
    def _selecting(self) -> Selecting:
        return select(self.method, self._keys if self.largest else -self._keys, self.k)

    @once
    def _hard(self) -> Tensor:
        """The indices of the hard selection [..., k]; of equal values the first one first."""
        order = stable_sort(self._keys.detach(), descending=self.largest)[1]
        return order[..., : self.k]

    def _carried(self, payload: Tensor) -> Tensor:
        if not self.k:
            return expanded(self._x, payload)[1][..., :0, :]
        soft = self._selecting.carried(payload)
        if not self.hard:
            return soft
        index = self._hard[..., None].expand(soft.shape)
        hard = payload.expand(*soft.shape[:-2], *payload.shape[-2:]).gather(-2, index)
        return straight_through(hard, soft)


@worded()
def soft_topk(
    x: Tensor,
    k: int,
    method: Method = "splitter",
    *,
    payload: Tensor | None = None,
    mask: Tensor | None = None,
    dim: int = -1,
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
        x: [..., n], finite where present.
        k: 0 .. n.
        method: "splitter", "bitonic", "odd_even_merge", "pairwise" or "odd_even", relaxed selection
            networks; "neuralsort", "softsort", "sinkhorn", "permutahedron" (values only); or a
            method, or a sort of `gendr.sorting`.
        payload: [..., n, c], selected by the keys x along with them.
        mask: bool, broadcasting to x, True where a value is present; absent ones are never
            selected. Of a list of fewer than k values all are, and the last places hold 0.
        dim: along which to select, as that of `torch.topk`; the attribution and the payload have
            their two dimensions last all the same.
        largest: False selects the smallest, smallest first, as the largest of -x.
        hard: the result is exactly that of `torch.topk`, the gradients are those of the soft
            selection (straight-through).
        check: look for NaN and inf, for which the host waits for a GPU.
        **options: settings of the method, such as `steepness`, which is 1 / scale, and `dist`.

    Returns:
        values [..., k], indices [..., k], attribution [..., k, n], payload [..., k, c]; see
        `Selected`. It unpacks to values and attribution, with a payload to values and payload.

    Raises:
        TypeError: no tensor, k no int, or a setting of the wrong type or that the method has not.
        ValueError: bad shapes, NaN or inf, k out of range, an unknown method, a setting out of
            range, an asymmetric distribution for a network, or a payload for a method without
            attribution.

    Source: Petersen et al., Differentiable Top-k Classification Learning (ICML 2022), section 3.1;
        thesis, section 4.2.
    """
    chosen = get(method, **options)
    keys, mask = check_keys(x, check=check, dim=dim, mask=mask)
    check_k(k, keys.shape[-1], least=0)
    dtype = x.dtype if x.is_floating_point() else keys.dtype
    if payload is not None:
        payload = check_payload(payload, keys)
    if mask is None:
        chosen, noisy = chosen.drawn(keys)
        return Selected(chosen, k, largest, hard, keys, noisy, payload, dim, dtype)
    ragged, results = Ragged(mask), []
    for part, carried in ragged.split(keys, payload):
        drawn, noisy = chosen.drawn(part)
        count = min(k, part.shape[-1])
        results.append(Selected(drawn, count, largest, hard, part, noisy, carried, -1, dtype))
    lists = Lists(ragged, results)
    return Selected(chosen, k, largest, hard, keys, keys, payload, dim, dtype, lists)


Part: TypeAlias = Literal["values", "attribution", "indices"]


@worded()
@final
class SoftTopK(nn.Module):
    """`soft_topk` as a module, from values [..., n] to a part of the result.

    >>> torch.nn.Sequential(torch.nn.Linear(20, 100), SoftTopK(5), torch.nn.Linear(5, 1))

    Args:
        k: at least 0.
        method: as in `soft_topk`.
        part: what it returns: "values" [..., k], "attribution" [..., k, n] or "indices".
        dim: along which to select.
        largest: False selects the smallest.
        hard: hard results, soft gradients.
        check: look for NaN and inf.
        learnable: whether the steepness is a parameter; its logarithm is learnt, so it is positive.
        **options: settings of the method, such as `steepness`, which is 1 / scale, and `dist`.

    Raises:
        TypeError, ValueError: as `soft_topk`.
    """

    def __init__(
        self,
        k: int,
        method: Method = "splitter",
        *,
        part: Part = "values",
        dim: int = -1,
        largest: bool = True,
        hard: bool = False,
        check: bool = True,
        learnable: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self.k = check_count("k", k, least=0)
        self.part = check_choice("part", part, ("values", "attribution", "indices"))
        self.dim, self.largest, self.hard, self.check = dim, largest, hard, check
        self._method = get(method, **options)
        self.log_steepness: nn.Parameter | None = None
        if learnable:
            steepness = torch.as_tensor(self._method.steepness, dtype=torch.get_default_dtype())
            self.log_steepness = nn.Parameter(steepness.detach().log())

    @breaking_graphs_for_masks
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """The part of the result; see `soft_topk`."""
        learnt = self.log_steepness
        options = {} if learnt is None else {"steepness": learnt.exp()}
        out = soft_topk(
            x, self.k, get(self._method, **options), mask=mask, dim=self.dim, largest=self.largest,
            hard=self.hard, check=self.check,
        )  # fmt: skip
        return getattr(out, self.part)

    def extra_repr(self) -> str:
        """k, the method, and the flags."""
        return f"{self.k}, {self._method}, largest={self.largest}, hard={self.hard}"
