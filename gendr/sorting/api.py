"""Sorting as functions and as a module: the common interface of all methods.

Here the input is checked, the order is reversed if wanted, and a soft result is made hard if
wanted; the methods do none of that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeAlias, final, overload

import torch
from torch import Tensor, nn

from gendr._common.checks import check_choice, shape_text, widened
from gendr._common.registry import members, memoized
from gendr._common.tracing import (
    all_hold,
    breaking_graphs_for_masks,
    is_traced,
    lasting,
    lazy,
    once,
    stable_sort,
)
from gendr._common.words import worded
from gendr.sorting.base import (
    Pair,
    PermutationSort,
    Sort,
    along,
    back,
    check_keys,
    check_payload,
    expanded,
    named_settings,
    of_rows,
    straight_through,
)
from gendr.sorting.losses import magnitude, matrix_of, ranks_of
from gendr.sorting.ragged import Lists, Ragged
from gendr.sorting.rows import RowSort

Method: TypeAlias = "str | Sort"

# Here, not at the first call, which may be traced: a graph holds no import.
for _module in ("relaxed", "neuralsort", "softsort", "sinkhorn", "permutahedron"):
    import_module(f"gendr.sorting.{_module}")  # makes its classes known
_KINDS: Mapping[str, type[Sort]] = MappingProxyType(members(Sort, package="gendr"))


def kinds() -> Mapping[str, type[Sort]]:
    """The classes of all methods by their names."""
    return _KINDS


def names() -> tuple[str, ...]:
    """The names of all methods."""
    return tuple(kinds())


def get(name: Method = "bitonic", /, **options: Any) -> Sort:
    """A method of sorting by its name and settings.

    >>> get("odd_even", steepness=20.0, dist="logistic", art=0.25)
    OddEvenSort(steepness=20.0, dist='logistic', art=0.25, backend='auto')

    Args:
        name: one of `names()`, or a method itself, whose settings the options replace.
        **options: settings of that method; all methods have `steepness`.

    Raises:
        TypeError: the method has no such setting, or a setting is of the wrong type.
        ValueError: there is no such method, or a setting is out of range.
    """
    if isinstance(name, str):
        return _made(name, *chain.from_iterable(options.items())) if options else _made(name)
    if not isinstance(name, Sort):
        raise TypeError(f"a method is a name or a Sort, got {type(name).__name__}")
    return replace(name, **named_settings(name.name, type(name), options)) if options else name


@memoized
def _made(name: str, *options: Any) -> Sort:
    """A method by its name and, in turn, the words and values of its settings."""
    kind = kinds()[check_choice("method", name, kinds())]
    given = dict(zip(options[::2], options[1::2], strict=True))
    return kind(**named_settings(name, kind, given))


def _with_permutation(chosen: Sort, what: str) -> PermutationSort:
    """Return the method if it has a permutation matrix.

    Raises:
        ValueError: it has none.
    """
    if isinstance(chosen, PermutationSort):
        return chosen
    having = [name for name, kind in kinds().items() if issubclass(kind, PermutationSort)]
    raise ValueError(
        f"method {chosen.name!r} has no permutation matrix, which {what} needs; "
        f"these have one: {', '.join(having)}"
    )


@overload
def soft_sort(
    x: Tensor, method: Method = ..., *, payload: None = ..., **options: Any
) -> Tensor: ...
@overload
def soft_sort(x: Tensor, method: Method = ..., *, payload: Tensor, **options: Any) -> Sorted: ...
@worded()
@breaking_graphs_for_masks
def soft_sort(
    x: Tensor,
    method: Method = "bitonic",
    *,
    payload: Tensor | None = None,
    mask: Tensor | None = None,
    dim: int = -1,
    descending: bool = False,
    hard: bool = False,
    standardize: bool = False,
    check: bool = True,
    **options: Any,
) -> Tensor | Sorted:
    """Sort along a dimension, differentiably.

    >>> soft_sort(torch.tensor([3.0, 1.0, 2.0]), "bitonic", steepness=100.0)
    tensor([1.0064, 2.0000, 2.9936])

    Args:
        x: [..., n], n >= 1, finite where present.
        method: a name (`names()` lists them) or a method.
        payload: [..., n, c], sorted by the keys x along with them.
        mask: bool, broadcasting to x, True where a value is present; of m values in a list, the
            first m places of the result are those of a list of these alone, the others 0. Absent
            values may be anything, and get no gradient.
        dim: along which to sort, as that of `torch.sort`; a payload has n before its last dimension
            all the same.
        descending: the largest first.
        hard: the result is exactly that of `torch.sort`, the gradients are those of the soft sort
            (straight-through).
        standardize: the softness is free of the scale of x: the steepness is in units of 1 / the
            standard deviation of each list, the noise in units of that.
        check: whether to look for NaN and inf, which a soft sort spreads over all values of a list.
        **options: settings of the method, such as `steepness`, which is 1 / scale: a number, or a
            tensor of one for each list, in the shape of x without `dim`, or that broadcasts to it.

    Returns:
        The sorted values, shaped like x. With a payload the whole result, which unpacks to two:
        `values, carried = soft_sort(x, payload=payload)`.

    Networks are made in Python when an n first comes, at about 2.5 seconds for a million
    comparators: 20 seconds for "bitonic" and 100,000 values, of which a line on stderr warns. From
    a minute on, about 240,000 values, they are refused; "softsort" and "permutahedron" take them.

    Raises:
        TypeError: no tensor, or a setting of the wrong type or that the method does not have.
        ValueError: bad shapes, NaN or inf, an unknown method, a setting out of range, or a payload
            for a method without a permutation matrix.
        MemoryError: a network or a permutation matrix does not fit into memory.
    """
    chosen = get(method, **options)
    if payload is not None:
        _with_permutation(chosen, "a payload")
    found = _sorted(chosen, x, payload, mask, (dim, descending, hard, standardize), check)
    return Sorted.values.found(found) if payload is None else found


@worded()
@breaking_graphs_for_masks
def soft_rank(
    x: Tensor,
    method: Method = "bitonic",
    *,
    mask: Tensor | None = None,
    dim: int = -1,
    descending: bool = False,
    hard: bool = False,
    standardize: bool = False,
    check: bool = True,
    **options: Any,
) -> Tensor:
    """The rank of every value among those of a dimension, differentiably.

    >>> soft_rank(torch.tensor([3.0, 1.0, 2.0]), "bitonic", steepness=100.0)
    tensor([2.9936, 1.0064, 2.0000])

    Args:
        x: [..., n], n >= 1, finite where present.
        method: a name (`names()` lists them) or a method.
        mask: bool, broadcasting to x, True where a value is present: ranks count among these.
        dim: along which to rank.
        descending: rank 1 for the largest instead of the smallest.
        hard: the ranks are exact (equal values get theirs in order), the gradients soft.
        standardize: the steepness is in units of 1 / the standard deviation of each list.
        check: look for NaN and inf.
        **options: settings of the method, such as `steepness`, which is 1 / scale.

    Returns:
        The ranks, shaped like x; from 1 to n, or to how many are present. Those of absent values
        are 0.

    Raises:
        TypeError, ValueError: as `soft_sort`.
    """
    chosen = get(method, **options)
    found = _sorted(chosen, x, None, mask, (dim, descending, hard, standardize), check)
    return Sorted.ranks.found(found)  # read once, and so not kept


@worded()
@breaking_graphs_for_masks
def permutation(
    x: Tensor,
    method: Method = "bitonic",
    *,
    mask: Tensor | None = None,
    dim: int = -1,
    descending: bool = False,
    hard: bool = False,
    standardize: bool = False,
    check: bool = True,
    **options: Any,
) -> Tensor:
    """The relaxed permutation matrix P[..., rank, input]: P @ x is sorted. The relaxed argsort.

    Args:
        x: [..., n], n >= 1, finite where present.
        method: a name (`names()` lists them) or a method.
        mask: bool, broadcasting to x, True where a value is present. With m of them, the first m
            rows are those of the list of these alone; other rows, and columns of absent values, are
            0.
        dim: along which to sort. The matrices come last, whatever it is.
        descending: the largest first.
        hard: the matrix is a true permutation, the gradients are soft.
        standardize: the steepness is in units of 1 / the standard deviation of each list.
        check: look for NaN and inf.
        **options: settings of the method, such as `steepness`, which is 1 / scale.

    Returns:
        [..., n, n], non-negative. Networks: rows and columns sum to 1; sinkhorn: to its tolerance;
        neuralsort and softsort: rows only.

    Raises:
        TypeError, ValueError: as `soft_sort`; also for a method without a permutation matrix.
    """
    chosen = get(method, **options)
    return _sorted(chosen, x, None, mask, (dim, descending, hard, standardize), check).permutation


def soft_quantile(
    x: Tensor,
    q: float | Tensor = 0.5,
    method: Method = "bitonic",
    *,
    mask: Tensor | None = None,
    dim: int | None = -1,
    keepdim: bool = False,
    interpolation: str = "linear",
    hard: bool = False,
    standardize: bool = False,
    check: bool = True,
    **options: Any,
) -> Tensor:
    """Quantiles along a dimension, interpolated between soft sorted values as by `torch.quantile`.

    The median is that of q = 0.5: of an even number of values the mean of the two in the middle,
    or with the interpolation "lower" that of `torch.median`.

    >>> soft_quantile(torch.tensor([3.0, 1.0, 2.0, 9.0]), 0.5, steepness=1000.0)
    tensor(2.5000)

    Args:
        x: [..., n], n >= 1, finite where present.
        q: of [0, 1]; a number, or a tensor [] or [Q].
        method: a name (`names()` lists them) or a method.
        mask: bool, broadcasting to x, True where a value is present.
        dim: along which to look; None for all of x, as one list.
        keepdim: whether it stays, with size 1.
        interpolation: between two values: "linear", "lower", "higher", "midpoint" or "nearest".
        hard: exactly the result of `torch.quantile`, the gradients soft.
        standardize: the steepness is in units of 1 / the standard deviation of each list.
        check: look for NaN and inf.
        **options: settings of the method, such as `steepness`, which is 1 / scale.

    Returns:
        x without `dim`; for q [Q] with Q before all other dimensions. 0 where nothing is present.

    Raises:
        TypeError, ValueError: as `soft_sort`; for q out of range.
    """
    given = dim, keepdim, interpolation, False, hard, standardize, check
    return _quantiles(q, method, *given, *chain.from_iterable(options.items()))(x, mask)


def soft_argquantile(
    x: Tensor,
    q: float | Tensor = 0.5,
    method: Method = "bitonic",
    *,
    mask: Tensor | None = None,
    dim: int | None = -1,
    keepdim: bool = False,
    interpolation: str = "linear",
    hard: bool = False,
    standardize: bool = False,
    check: bool = True,
    **options: Any,
) -> Tensor:
    """Where quantiles stand: how much each value is the one; of q = 0.5 the argmedian.

    These are rows of the permutation matrix, interpolated as by `soft_quantile`, whose arguments
    they are. It is not computed but by "sinkhorn".

    >>> soft_argquantile(torch.tensor([3.0, 1.0, 2.0]), 0.5, steepness=1000.0)
    tensor([3.1797e-04, 3.1847e-04, 9.9936e-01])

    Returns:
        [..., n] >= 0 that sum to 1, x without `dim` before n; for q [Q] with Q first. 0 where
        absent. `gendr.soft.take_along_dim` takes other things there.

    Raises:
        TypeError, ValueError: as `soft_quantile`; also for a method without a permutation matrix.
    """
    given = dim, keepdim, interpolation, True, hard, standardize, check
    return _quantiles(q, method, *given, *chain.from_iterable(options.items()))(x, mask)


@memoized
def _quantiles(
    q: float | Tensor, method: Method, dim: int | None, keepdim: bool, interpolation: str,
    indices: bool, hard: bool, standardize: bool, check: bool, *options: Any,
) -> SoftQuantile:  # fmt: skip
    """The module, which takes longer to make than short lists take to sort."""
    with lasting():
        return SoftQuantile(
            q, method, dim=dim, keepdim=keepdim, interpolation=interpolation, indices=indices,
            hard=hard, standardize=standardize, check=check,
            **dict(zip(options[::2], options[1::2], strict=True)),
        )  # fmt: skip


@dataclass(eq=False)
class Sorted(Pair):
    """The result of a `SoftSorter`; each part is computed when it is first read.

    It unpacks to two: `values, payload` if a payload was given, `values, permutation` otherwise.

    With a mask, every part is that of the list of what is present alone: first come the places of
    these, and 0 stands for the rest (-1 in `indices`).

    The descending order of x is the ascending one of -x, for every method. For all but networks and
    the entropic "permutahedron" that is the ascending order of x turned round, and so it is for
    ranks of networks.

    Noise is drawn once, so that all parts belong to one sample; the noisy keys decide where the
    values go. All is computed in float32 at least, and comes in the dtype of what was given.

    Attributes:
        x: [..., n], what is sorted.
        keys: by whose ascending order: x, or -x if `descending`; standardized, and with the noise
            if there is some.
        is_noisy: whether there is.
        dtype: of the parts.
    """

    method: Sort
    x: Tensor
    keys: Tensor
    descending: bool
    hard: bool
    is_noisy: bool
    _payload: Tensor | None
    dim: int
    dtype: torch.dtype
    _moments: tuple[Tensor, Tensor] | None = None
    _lists: Lists | None = None

    def _pair(self) -> tuple[Tensor, Tensor]:
        return self.values, self.permutation if self._payload is None else self.payload

    @lazy
    def values(self) -> Tensor:
        """The sorted values, shaped like x."""
        lists = self._lists
        found = self._values if lists is None else lists.part("_values", "r", self.x.shape[-1])
        found = found if self.dim == -1 else back(found, self.dim)
        # A conversion to the dtype that is there takes as long as a kernel of a short list.
        return found if found.dtype is self.dtype else found.to(self.dtype)

    @property
    def _values(self) -> Tensor:
        if self.is_noisy:  # values go where their noisy keys go
            return self._carried(self.x[..., None])[..., 0]
        soft = self.method.values(self.keys) if self.x.shape[-1] else self.keys
        soft = -soft if self.descending else soft
        if self._moments is not None:
            soft = soft * self._moments[1] + self._moments[0]
        if not self.hard:
            return soft
        return straight_through(self.x.sort(-1, descending=self.descending).values, soft)

    @lazy
    def ranks(self) -> Tensor:
        """The rank of every input, from 1 to n; 0 for what is absent."""
        lists = self._lists
        found = self._ranks if lists is None else lists.part("_ranks", "n", self.x.shape[-1])
        found = back(found, self.dim)
        return found if found.dtype is self.dtype else found.to(self.dtype)

    @property
    def _ranks(self) -> Tensor:
        soft = self.method.ranks(self.keys) if self.x.shape[-1] else self.keys
        return straight_through(ranks_of(self._order, soft.dtype), soft) if self.hard else soft

    @once
    def indices(self) -> Tensor:
        """Where the values of the hard sort stand in x, int64, shaped like it, as `torch.argsort`.

        With noise they are those of the sample.
        """
        lists = self._lists
        found = self._order if lists is None else lists.indices("_order", self.x.shape[-1])
        return back(found, self.dim)

    @lazy
    def permutation(self) -> Tensor:
        """P[..., rank, input].

        Raises:
            ValueError: the method has none.
        """
        _with_permutation(self.method, "permutation")
        lists, n = self._lists, self.x.shape[-1]
        found = self._permutation if lists is None else lists.part("_permutation", "rn", n, n)
        return found.to(self.dtype)

    @property
    def _permutation(self) -> Tensor:
        if not self.x.shape[-1]:
            return self.keys[..., None]
        soft = _with_permutation(self.method, "permutation").permutation(self.keys)
        return straight_through(matrix_of(self._order, soft.dtype), soft) if self.hard else soft

    @lazy
    def payload(self) -> Tensor:
        """The sorted payload.

        Raises:
            ValueError: none was given, or the method has no permutation matrix.
        """
        if self._payload is None:
            raise ValueError("there is no payload; pass one along with x")
        _with_permutation(self.method, "a payload")
        if self._lists is not None:
            return self._lists.part("payload", "rc", *self._payload.shape[-2:]).to(self.dtype)
        return self._carried(self._payload).to(self.dtype)

    def _carried(self, payload: Tensor) -> Tensor:
        """P @ payload."""
        if not self.x.shape[-1]:
            return expanded(self.keys, payload)[1]
        soft = _with_permutation(self.method, "a payload").carried(self.keys, payload)
        if not self.hard:
            return soft
        order = self._order[..., None]
        hard = payload.expand(soft.shape).gather(-2, order.expand(soft.shape))
        return straight_through(hard, soft)

    def weighed(self, weights: Tensor) -> Tensor:
        """P^T @ weights, [..., n, c]: of every entry, what its ranks [..., n, c] are worth.

        Raises:
            ValueError: the method has no permutation matrix.
        """
        _with_permutation(self.method, "weights of ranks")
        if self._lists is None:
            return self._weighed(weights).to(self.dtype)
        ragged, results = self._lists
        pairs = zip(results, ragged.packed(weights, "rc"), strict=True)
        parts = [result._weighed(part) for result, part in pairs]
        return ragged.joined(parts, "nc", weights.shape[-2:]).to(self.dtype)

    def _weighed(self, weights: Tensor) -> Tensor:
        soft = _with_permutation(self.method, "weights of ranks").weighed(self.keys, weights)
        if not self.hard:
            return soft
        places = self._order.argsort(-1)[..., None].expand_as(weights)
        return straight_through(weights.gather(-2, places), soft)

    @property
    def _order(self) -> Tensor:
        return stable_sort(self.keys.detach())[1]


def _sorted(
    method: Sort,
    x: Tensor,
    payload: Tensor | None,
    mask: Tensor | None,
    order: tuple[int, bool, bool, bool],
    check: bool,
) -> Sorted:
    """See `_Sorter._result`; the order is (dim, descending, hard, standardize)."""
    keys, mask = check_keys(x, check=check, dim=order[0], mask=mask)
    dtype = x.dtype if x.is_floating_point() else keys.dtype
    if payload is not None:
        payload = check_payload(payload, keys)
    if mask is None:
        return _of_lists(method, keys, payload, order, dtype)
    ragged = Ragged(mask)
    groups = zip(_of_groups(method, ragged), ragged.split(keys, payload), strict=True)
    parts = [_of_lists(own, *part, order, keys.dtype) for own, part in groups]
    dim, descending, hard, _ = order
    lists = Lists(ragged, parts)
    return Sorted(method, keys, keys, descending, hard, False, payload, dim, dtype, None, lists)


def _of_groups(method: Sort, ragged: Ragged) -> list[Sort]:
    """The method for every group of lists, with the steepness of these."""
    steepness = method.steepness
    if not isinstance(steepness, Tensor) or steepness.numel() == 1:
        return [method] * len(ragged.groups)
    each = of_rows(steepness.new_ones(*ragged.batch, 1), steepness)[0].reshape(-1)
    return [replace(method, steepness=each[group.rows]) for group in ragged.groups]


def _of_lists(
    method: Sort,
    x: Tensor,
    payload: Tensor | None,
    order: tuple[int, bool, bool, bool],
    dtype: torch.dtype,
) -> Sorted:
    dim, descending, hard, standardize = order
    moments = _moments(x) if standardize else None
    plain = x if moments is None else (x - moments[0]) / moments[1]
    method, keys = method.drawn(plain)
    is_noisy = keys is not plain
    if descending:
        keys = -keys
    return Sorted(method, x, keys, descending, hard, is_noisy, payload, dim, dtype, moments)


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and the standard deviation [..., 1] of lists [..., n], 1 where all are equal."""
    size = magnitude(x) if x.shape[-1] else 1.0
    mean = (x / size).mean(-1, keepdim=True)
    square = (x / size - mean).square().mean(-1, keepdim=True)
    varies = square > 0
    return mean * size, torch.where(varies, torch.where(varies, square, 1.0).sqrt() * size, 1.0)


@worded()
class _Sorter(nn.Module):
    """What the modules of sorting share: the method, its learnt steepness, and the order.

    Args:
        method: a name (`names()` lists them) or a method.
        dim: along which to sort.
        descending: the largest first.
        hard: results are hard, gradients are soft (straight-through).
        standardize: the steepness is in units of 1 / the standard deviation of each list.
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
        dim: int = -1,
        descending: bool = False,
        hard: bool = False,
        standardize: bool = False,
        check: bool = True,
        learnable: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self._method = get(method, **options)
        self.dim, self.descending, self.hard, self.check = dim, descending, hard, check
        self.standardize = standardize
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

    def _result(
        self, x: Tensor, payload: Tensor | None = None, mask: Tensor | None = None
    ) -> Sorted:
        """Sort x [..., n] along `dim`, and a payload [..., n, c] with it.

        Args:
            x: finite where present.
            payload: what goes with x.
            mask: bool, broadcasting to x, True where a value is present.

        Raises:
            TypeError: no tensors.
            ValueError: bad shapes, NaN or inf.
        """
        order = self.dim, self.descending, self.hard, self.standardize
        return _sorted(self.method, x, payload, mask, order, self.check)

    def extra_repr(self) -> str:
        """The method, and the options that differ from their defaults."""
        flags = ["descending", "hard", "standardize"]
        return ", ".join([repr(self._method), *(flag for flag in flags if getattr(self, flag))])


@final
class SoftSorter(_Sorter):
    """A differentiable sort as a module, with all that it gives.

    >>> sorter = SoftSorter("odd_even", dist="cauchy", steepness=10.0)
    >>> out = sorter(x)         # x [..., n]
    >>> out.values, out.ranks, out.permutation   # computed when they are read

    The arguments are those of `SoftSort`, and `learnable`: whether the steepness is a parameter.
    """

    def forward(
        self, x: Tensor, payload: Tensor | None = None, mask: Tensor | None = None
    ) -> Sorted:
        """See `soft_sort`; each part is computed when it is first read."""
        return self._result(x, payload, mask)


@final
class SoftSort(_Sorter):
    """`soft_sort` as a module, from values to sorted values, such as in `nn.Sequential`."""

    @breaking_graphs_for_masks
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """The sorted values, shaped like x [..., n]."""
        return self._result(x, None, mask).values


@final
class SoftRank(_Sorter):
    """`soft_rank` as a module, from values to ranks, such as in `nn.Sequential`."""

    @breaking_graphs_for_masks
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """The ranks, shaped like x [..., n]."""
        return self._result(x, None, mask).ranks


@final
class SoftPermutation(_Sorter):
    """`permutation` as a module, from values [..., n] to matrices [..., rank, input]."""

    @breaking_graphs_for_masks
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """P[..., rank, input]."""
        return self._result(x, None, mask).permutation


@final
class SoftQuantile(_Sorter):
    """`soft_quantile` as a module: [..., n] -> [...], or [Q, ...] for q [Q].

    Args:
        q: of [0, 1]; a number, or a tensor [] or [Q].
        method: a name (`names()` lists them) or a method.
        dim: along which to look; None for all of x, as one list.
        keepdim: whether `dim` stays, with size 1.
        interpolation: "linear", "lower", "higher", "midpoint" or "nearest".
        indices: give `soft_argquantile` instead, [..., n] or [Q, ..., n].
        **options: as those of `SoftSort`, but for the order.

    Raises:
        TypeError, ValueError: as `soft_sort`; for q out of range.
    """

    def __init__(
        self,
        q: float | Tensor = 0.5,
        method: Method = "bitonic",
        *,
        dim: int | None = -1,
        keepdim: bool = False,
        interpolation: str = "linear",
        indices: bool = False,
        **options: Any,
    ) -> None:
        if {"descending", "largest"} & options.keys():
            raise TypeError("quantiles have no order; take 1 - q for those from above")
        super().__init__(method, dim=-1 if dim is None else dim, **options)
        # No buffer, which a model that is made on the device meta would lose: no state has it.
        levels = torch.as_tensor(
            q,
            dtype=None if isinstance(q, Tensor) else torch.float64,
            device=(q.device if isinstance(q, Tensor) else "cpu"),
        )
        if levels.ndim > 1 or not all_hold((levels >= 0) & (levels <= 1)):
            raise ValueError(f"q must be in [0, 1], a number or a tensor [Q], got {q}")
        self.q, self.level = levels, None if isinstance(q, Tensor) else float(levels)
        self.keepdim, self.flat, self.indices = keepdim, dim is None, indices
        self.interpolation = check_choice("interpolation", interpolation, _INTERPOLATIONS)

    @breaking_graphs_for_masks
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """The quantiles of x along `dim`; see `soft_quantile`."""
        mask = None if mask is None else mask.expand(x.shape)
        shape = x.shape
        if self.flat:
            x, mask = x.reshape(-1), None if mask is None else mask.reshape(-1)
        found = self._result(x, None, mask)
        moved = along(x, self.dim)
        if not moved.shape[-1]:
            raise ValueError(f"x must have a value at least, got {shape_text(shape)}")
        result = self._by_rows(found) if mask is None else None
        if result is None:
            result = self._by_all(found, moved, mask)
        level, many = moved.ndim - 1, self.q.ndim
        result = result.movedim(level, 0) if many else result.squeeze(level)
        if self.keepdim:
            places = [1] * len(shape) if self.flat else [*shape]
            places[self.dim] = 1
            result = result.reshape(*result.shape[:many], *places, *result.shape[level + many :])
        return result

    def _by_rows(self, found: Sorted) -> Tensor | None:
        """The result [..., 1] or [..., 1, n] by the rows of P that it needs, if these are cheap."""
        method, n = found.method, found.x.shape[-1]
        if self.level is None or is_traced() or found.hard:
            return None
        if not (isinstance(method, RowSort) and method.has_rows):
            return None
        low, high, part = _place(self.level, n, found.x.dtype, self.interpolation)
        if 8 * (high - low + 1) > n:
            return None
        soft = method.last_rows(found.keys, high - low + 1, n - 1 - high)
        if low < high:
            soft = torch.lerp(soft[..., :1, :], soft[..., 1:, :], part)
        result = soft if self.indices else (soft * found.x.unsqueeze(-2)).sum(-1)
        return result.to(found.dtype)

    def _by_all(self, found: Sorted, x: Tensor, mask: Tensor | None) -> Tensor:
        """The result [..., Q] or [..., Q, n] by all sorted values, or weights of all ranks."""
        dtype = torch.promote_types(found.x.dtype, torch.float32)
        levels = self.q.to(found.x) if self.q.ndim else self.q
        steps = torch.full_like(x[..., :1], x.shape[-1] - 1, dtype=dtype)
        if mask is not None:
            steps = (along(mask, self.dim).sum(-1, keepdim=True) - 1).clamp(min=0).to(dtype)
        place = steps * levels  # [..., Q]
        low, part = place.floor(), _INTERPOLATIONS[self.interpolation](place)
        at = torch.stack([low, place.ceil()], -1).long()
        if self.indices:
            shares = torch.stack([1 - part, part], -1)
            weights = shares.new_zeros(*place.shape, x.shape[-1]).scatter_add(-1, at, shares)
            return found.weighed(weights.mT).mT
        values = along(found.values, self.dim)
        ends = widened(values).gather(-1, at.flatten(-2)).unflatten(-1, (-1, 2))
        return torch.lerp(ends[..., 0], ends[..., 1], part).to(values.dtype)


@lru_cache(maxsize=1000)
def _place(level: float, n: int, dtype: torch.dtype, interpolation: str) -> tuple[int, int, float]:
    """The places of n below and above a quantile, and how far it is from the one to the other."""
    place = (n - 1) * torch.tensor(level, dtype=dtype, device="cpu")
    part = _INTERPOLATIONS[interpolation](place)
    return int(place.floor()), int(place.ceil()), float(part)


def _between(place: Tensor) -> Tensor:
    return place - place.floor()


# How far from the value below towards that above, of a place between them.
_INTERPOLATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "linear": _between,
    "lower": torch.zeros_like,
    "higher": torch.ones_like,
    "midpoint": lambda place: torch.full_like(place, 0.5),
    "nearest": lambda place: place.round() - place.floor(),
}
