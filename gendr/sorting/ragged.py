"""Lists of different lengths: tensors with a mask that is True where an entry is present.

Lists with equally many entries present are packed into a tensor without the others, go through a
method together, and what comes is put back. So a masked result is that of the list without what is
absent, for every method: what stands at an absent place, NaN included, is never read, and gets no
gradient. There is one call of the method for every number of entries that occurs.

Dimensions after the batch are named by letters: "n" runs over the entries of a list; "r" over its
ranks or places, of which the first exist; others, such as "c", have one size for all lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gendr._common.checks import (
    check_device,
    check_integer,
    check_tensor,
    dtype_name,
    shape_text,
)
from gendr._common.tracing import is_traced, refuse_vmap


class Group(NamedTuple):
    """Lists with equally many entries present.

    Attributes:
        rows: [R], which lists of the flattened batch.
        places: [R, m], where their entries stand, in order.
    """

    rows: Tensor
    places: Tensor


def check_mask(
    mask: object, x: object, name: str = "x", *, by_length: bool = True
) -> Tensor | None:
    """Return a mask in the shape of x, or None if there is none or nothing is absent.

    Args:
        mask: True where an entry is present.
        x: what it belongs to.
        name: of x, for messages.
        by_length: lists are to be grouped by their lengths, which are values.

    Raises:
        TypeError: it is no bool tensor.
        ValueError: its shape does not broadcast to that of x, or it is on another device.
        RuntimeError: `torch.compile` or `torch.func` traces, and lengths would decide.
    """
    if mask is None:
        return None
    mask, x = check_tensor("mask", mask), check_tensor(name, x)
    if mask.dtype != torch.bool:
        raise TypeError(
            f"mask must be bool, True where an entry is present, got {dtype_name(mask.dtype)}; "
            "of numbers make it by mask != 0"
        )
    check_device("mask", mask, name, x)
    try:
        mask = mask.expand(x.shape)
    except RuntimeError:
        raise ValueError(
            f"mask must have the shape of {name}, {shape_text(x.shape)}, or broadcast to it, "
            f"got {shape_text(mask.shape)}"
        ) from None
    if is_traced():
        if not by_length:
            return mask
        raise RuntimeError(
            "a mask is not made for torch.compile and torch.func: how long lists are is not known "
            "while they trace; leave the call out of the graph by torch.compiler.disable, or give "
            "a loss of rankings another method than a network"
        )
    return None if bool(mask.all()) else mask


def present(x: Tensor, mask: Tensor | None) -> Tensor:
    """The tensor x [..., n], or [..., n, c], with 0 for what is absent, whose gradient is 0."""
    if mask is None:
        return x
    return x.masked_fill(~(mask if mask.ndim == x.ndim else mask[..., None]), 0)


def by_query(
    indexes: object, mask: Tensor | None, *tensors: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Flat lists as a batch of padded ones.

    Args:
        indexes: integers of any shape, of which list each entry is.
        mask: bool in this shape, True where an entry is present.
        *tensors: in this shape, or with one dimension more.

    Returns:
        The mask [Q, L] of the Q lists, by ascending index, the longest of which has L entries; and
        the tensors as [Q, L, ...]. `torch.compile` breaks its graph here.

    Raises:
        TypeError: they are no integers.
        ValueError: tensors of other shapes.
        RuntimeError: `torch.func.vmap` is at work.
    """
    if torch.compiler.is_compiling():
        return torch.compiler.disable(by_query)(indexes, mask, *tensors)  # pyright: ignore[reportCallIssue]
    refuse_vmap("indexes")
    ids = check_integer("indexes", indexes)
    for x in (*tensors, *([] if mask is None else [check_tensor("mask", mask)])):
        if check_tensor("scores", x).shape[: ids.ndim] != ids.shape:
            raise ValueError(
                f"indexes must have the shape of scores and target, {shape_text(x.shape)}, got "
                f"{shape_text(ids.shape)}"
            )
    _, query, counts = ids.flatten().unique(return_inverse=True, return_counts=True)
    longest = int(counts.max()) if len(counts) else 1
    order = query.argsort(stable=True)
    query = query[order]
    place = torch.arange(len(query), device=query.device) - (counts.cumsum(0) - counts)[query]
    at = query * longest + place

    def padded(x: Tensor) -> Tensor:
        flat = x.flatten(0, ids.ndim - 1) if ids.ndim else x[None]
        room = flat.new_zeros(len(counts) * longest, *flat.shape[1:])
        whole = room.index_copy(0, at, flat[order])
        return whole.unflatten(0, (len(counts), longest))

    known = padded(torch.ones_like(ids, dtype=torch.bool) if mask is None else mask)
    return known, tuple(padded(x) for x in tensors)


class Ragged:
    """The lists of a mask [..., n], grouped by how many entries are present.

    Lists without entries are in no group. If all are so, there is one group of 0 lists of 1 entry.
    """

    def __init__(self, mask: Tensor) -> None:
        self.batch, n = mask.shape[:-1], mask.shape[-1]
        flat = mask.reshape(mask.numel() // n, n)
        counts = flat.sum(-1)
        order = flat.to(torch.uint8).sort(dim=-1, descending=True, stable=True).indices
        self.groups: list[Group] = []
        for m in counts.unique().tolist():
            rows = (counts == m).nonzero()[:, 0]
            if m:
                self.groups.append(Group(rows, order[rows, :m]))
        if not self.groups:
            self.groups.append(Group(counts.new_empty(0), order[:0, :1]))

    def packed(self, x: Tensor, dims: str) -> list[Tensor]:
        """What is present of x, [..., *dims], for every group: [R, *dims]."""
        sizes = x.shape[x.ndim - len(dims) :]
        places = self._places(dims, sizes)
        flat = x.expand(*self.batch, *sizes).reshape(-1)
        parts = flat[_flat(places)].split([place.numel() for place in places])
        return [part.view(place.shape) for part, place in zip(parts, places, strict=True)]

    def split(self, x: Tensor, payload: Tensor | None) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Of every group the values [R, m] of x [..., n], and a payload [R, m, c] if there is one.

        Raises:
            ValueError: the payload has other lists than x.
        """
        keys = self.packed(x, "n")
        if payload is None:
            return ((key, None) for key in keys)
        try:
            payload = payload.expand(*x.shape, payload.shape[-1])
        except RuntimeError:
            raise ValueError(
                f"with a mask, payload must broadcast to [*{shape_text(x.shape)}, c], "
                f"got {shape_text(payload.shape)}; expand x"
            ) from None
        return zip(keys, self.packed(payload, "nc"), strict=True)

    def joined(
        self, parts: Sequence[Tensor], dims: str, sizes: Sequence[int], fill: float = 0
    ) -> Tensor:
        """[..., *sizes] of parts [R, *dims] of the groups; `fill` where nothing is present."""
        places = self._places(dims, sizes)
        numbers = torch.cat([part.reshape(-1) for part in parts])
        whole = numbers.new_full((self.batch.numel() * torch.Size(sizes).numel(),), fill)
        return whole.scatter(0, _flat(places), numbers).reshape(*self.batch, *sizes)

    def _places(self, dims: str, sizes: Sequence[int]) -> list[Tensor]:
        """Where the entries [R, *dims] of every group stand in the flat tensor."""
        found: list[Tensor] = []
        for rows, entries in self.groups:
            count, place = entries.shape[-1], rows
            for letter, size in zip(dims, sizes, strict=True):
                if letter == "n":
                    at = entries.reshape(len(rows), *[1] * (place.ndim - 1), count)
                else:
                    number = min(size, count) if letter == "r" else size
                    at = torch.arange(number, device=rows.device)
                place = place[..., None] * size + at
            found.append(place)
        return found


class Lists(NamedTuple):
    """The results of lists of different lengths.

    Attributes:
        ragged: the lists.
        results: one for every group of them.
    """

    ragged: Ragged
    results: Sequence[Any]

    def part(self, name: str, dims: str, *sizes: int) -> Tensor:
        """The attribute of this name of all results, [..., *sizes]; 0 beyond the lists."""
        found = [getattr(result, name) for result in self.results]
        return self.ragged.joined(found, dims, sizes)

    def indices(self, name: str, size: int) -> Tensor:
        """The same of indices [R, m] among the entries present, as indices among all; -1 beyond."""
        groups = zip(self.ragged.groups, self.results, strict=True)
        found = [group.places.gather(-1, getattr(result, name)) for group, result in groups]
        return self.ragged.joined(found, "r", [size], -1)


def _flat(places: Sequence[Tensor]) -> Tensor:
    return torch.cat([place.reshape(-1) for place in places])
