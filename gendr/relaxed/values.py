"""What a program computes with: arrays, categorical values, and the blend of two states.

A number of a program is a tensor with the shape of the batch. An array knows which dimensions are
its own, so that the same program runs for one item and for a batch of any shape. It is kept as one
tensor, or as a list of its cells: a program that reads and writes single cells by plain integers,
as textbooks do, then costs no copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, cast, final

import numpy as np
import torch
from torch import Tensor

from gendr._common.checks import shape_text
from gendr._common.tracing import is_traced, matmul
from gendr.relaxed.settings import at_ties, current

Value: TypeAlias = Any
Index: TypeAlias = "int | slice"

# Up to so many cells of two arrays are blended one by one, more of them in one stack.
FEW = 3


def is_number(value: object) -> bool:
    """Whether it is a plain number, which is exact; True and False count as 1 and 0."""
    return isinstance(value, (int, float, np.number, np.bool_))


def is_whole(value: object) -> bool:
    """Whether it is a plain whole number, such as a place."""
    return isinstance(value, (int, np.integer))


def is_relaxed(value: object) -> bool:
    """Whether a decision about it is a soft one."""
    return isinstance(value, (Tensor, Array, Categorical))


def kind(value: object) -> str:
    """What a value is called in messages."""
    if isinstance(value, Array):
        return f"an array of shape {shape_text(value.shape)}"
    if isinstance(value, Categorical):
        return f"a categorical value of {len(value)} classes"
    if isinstance(value, Tensor):
        return "a relaxed number"
    return f"{type(value).__name__} {value!r}"


def as_float(x: Tensor) -> Tensor:
    """Integers and bools in the dtype of the run; other tensors as they are."""
    return x if x.is_floating_point() else x.to(current().dtype)


def widened(x: Value, dims: int) -> Value:
    """A number with `dims` more dimensions at its end, so that it broadcasts with an array."""
    return x[(..., *(None,) * dims)] if isinstance(x, Tensor) and x.ndim and dims else x


def tensor_of(x: Value, like: Tensor | None = None) -> Tensor:
    """A number as a tensor."""
    if isinstance(x, Tensor):
        return as_float(x)
    settings = current()
    dtype, device = (like.dtype, like.device) if like is not None else (None, None)
    return torch.tensor(x, dtype=dtype or settings.dtype, device=device or settings.device)


def stacked(cells: Sequence[Value]) -> Tensor:
    """Numbers [*batch] in one tensor [*batch, n]."""
    like = next((x for x in cells if isinstance(x, Tensor)), None)
    if like is None:
        return tensor_of([float(x) for x in cells])
    parts = [tensor_of(x, as_float(like)) for x in cells]
    if any(x.shape != parts[0].shape for x in parts):
        parts = torch.broadcast_tensors(*parts)
    if any(x.dtype != parts[0].dtype for x in parts):
        dtype = parts[0].dtype
        for x in parts:
            dtype = torch.promote_types(dtype, x.dtype)
        parts = [x.to(dtype) for x in parts]
    return torch.stack(tuple(parts), -1)


@final
class Array:
    """Numbers in one or more dimensions, over a batch.

    Writing makes a new array: arrays are values. `+ - * / **` work on whole arrays.

    Attributes:
        shape: the sizes of its own dimensions; those of the batch do not count.
        data: [*batch, *shape], if the numbers are one tensor.
        cells: the numbers one by one, row by row, if they are not.
    """

    __slots__ = ("_cells", "_data", "shape")
    # NumPy leaves arithmetic with arrays to this class.
    __array_ufunc__ = None

    def __init__(
        self, shape: tuple[int, ...], data: Tensor | None = None, cells: list[Value] | None = None
    ) -> None:
        self.shape = shape
        self._data = data
        self._cells = cells

    @classmethod
    def dense(cls, data: Tensor, rank: int) -> Array:
        """An array of a tensor [*batch, *shape] with `rank` own dimensions."""
        return cls(tuple(data.shape[data.ndim - rank :]), data=data)

    @classmethod
    def of(cls, values: Any) -> Array:
        """An array of nested lists of numbers, or of a NumPy array.

        Raises:
            ValueError: rows of different lengths.
            TypeError: something that is no number.
        """
        if isinstance(values, Array):
            return values
        if isinstance(values, np.ndarray):
            values = cast(Any, values).tolist()
        shape: list[int] = []
        cells: list[Value] = [values]
        while cells and any(isinstance(x, (list, tuple, Array)) for x in cells):
            if not all(
                isinstance(x, (list, tuple, Array)) and len(x) == len(cells[0]) for x in cells
            ):
                raise ValueError("the rows of an array must have the same length")
            shape.append(len(cells[0]))
            cells = [x for row in cells for x in row]
        for x in cells:
            if not is_number(x) and not isinstance(x, Tensor):
                raise TypeError(f"an array holds numbers, got {kind(x)}")
        return cls(tuple(shape), cells=cells)

    @property
    def cells(self) -> list[Value]:
        """All numbers [*batch], the last dimension first; not to be changed."""
        if self._cells is None:
            data = cast(Tensor, self._data)
            flat = data if self.ndim == 1 else data.flatten(data.ndim - self.ndim)
            self._cells = list(flat.unbind(-1))
        return self._cells

    @property
    def has_cells(self) -> bool:
        """Whether its cells stand apart already."""
        return self._cells is not None

    @property
    def data(self) -> Tensor:
        """One tensor [*batch, *shape]; not to be changed."""
        if self._data is None:
            flat = stacked(self.cells)
            self._data = flat if self.ndim == 1 else flat.unflatten(-1, self.shape)
        return self._data

    @property
    def ndim(self) -> int:
        """The number of own dimensions."""
        return len(self.shape)

    def copy(self) -> Array:
        """The array: it never changes, so that it is its own copy."""
        return self

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Value]:
        return (self.at((i,)) for i in range(len(self)))

    def __getitem__(self, place: Any) -> Value:
        places: tuple[Any, ...] = place if isinstance(place, tuple) else (place,)
        if any(map(is_relaxed, places)):
            raise TypeError("a relaxed place needs relaxed.index, or a function with @gendr.relax")
        return self.at(places)

    def __bool__(self) -> bool:
        raise TypeError(f"{kind(self)} is no condition; ask any(...) or all(...) of it")

    def __setitem__(self, place: Any, value: Any) -> None:
        raise TypeError("arrays are values: decorate the function that writes with @gendr.relax")

    def at(self, places: tuple[Index, ...]) -> Value:
        """What stands at plain integers and slices, fewer than dimensions for a part.

        Raises:
            IndexError: outside.
        """
        if len(places) > self.ndim:
            raise IndexError(f"{kind(self)} takes at most {self.ndim} indices, got {len(places)}")
        if slice in map(type, places):
            where = self._positions(places)
            cells = self.cells
            return Array(where.shape, cells=[cells[k] for k in where.flat])
        start, length = self._span(cast("tuple[int, ...]", places))
        rest = self.shape[len(places) :]
        if not rest:
            return (self._cells or self.cells)[start]
        if self._cells is None:
            lead = cast(Tensor, self._data).ndim - self.ndim
            data = cast(Tensor, self._data)[(*(slice(None),) * lead, *places)]
            return Array(rest, data=data)
        return Array(rest, cells=self._cells[start : start + length])

    def put(self, places: tuple[Index, ...], value: Value) -> Array:
        """The array with a value at plain integers and slices.

        Raises:
            IndexError: outside.
            TypeError: a value for one cell that is no number.
            ValueError: the shape of the value does not fit.
        """
        if slice in map(type, places):
            where = self._positions(places)
            cells = self.cells.copy()
            for k, x in zip(where.flat, self._fitting(value, where.shape), strict=True):
                cells[k] = x
            return Array(self.shape, cells=cells)
        if len(places) > self.ndim:
            raise IndexError(f"{kind(self)} takes at most {self.ndim} indices, got {len(places)}")
        start, length = self._span(cast("tuple[int, ...]", places))
        cells = self.cells.copy()
        if len(places) == self.ndim:
            if not is_number(value) and not isinstance(value, Tensor):
                raise TypeError(f"a cell holds a number, got {kind(value)}")
            cells[start] = value
        else:
            cells[start : start + length] = self._fitting(value, self.shape[len(places) :])
        return Array(self.shape, cells=cells)

    def _positions(self, places: tuple[Index, ...]) -> np.ndarray:
        """Where the cells stand that plain integers and slices show."""
        return np.arange(math.prod(self.shape)).reshape(self.shape)[places]

    def _fitting(self, value: Value, shape: tuple[int, ...]) -> list[Value]:
        count = math.prod(shape)
        if is_number(value) or isinstance(value, Tensor):
            return [value] * count
        value = Array.of(value)
        if value.shape != shape:
            raise ValueError(f"{kind(value)} does not fit a part of shape {shape_text(shape)}")
        return value.cells

    def _span(self, places: tuple[int, ...]) -> tuple[int, int]:
        """Where a part begins among the cells, and how long it is."""
        start, length = 0, math.prod(self.shape)
        for place, size in zip(places, self.shape, strict=False):
            if not -size <= place < size:
                raise IndexError(f"index {place} is outside of {kind(self)}")
            length //= size
            start += (place + size if place < 0 else place) * length
        return start, length

    def map(self, function: Callable[..., Tensor], *others: Value) -> Array:
        """A function of whole tensors [*batch, *shape], applied to this array and others."""
        rank = max([self.ndim, *(x.ndim for x in others if isinstance(x, Array))])
        parts = [aligned(x, rank) for x in (self, *others)]
        return Array.dense(function(*parts), rank)

    def reshape(self, *sizes: int) -> Array:
        """The same numbers in another shape.

        Raises:
            ValueError: another count of numbers.
        """
        if math.prod(sizes) != math.prod(self.shape):
            raise ValueError(f"{kind(self)} does not fit the shape {shape_text(sizes)}")
        return Array(sizes, cells=self.cells)

    def sum(self) -> Value:
        """The sum of all numbers."""
        return self.data.sum(tuple(range(-self.ndim, 0)))

    def __neg__(self) -> Array:
        return self.map(torch.neg)


def aligned(x: Value, rank: int) -> Value:
    """A number or an array so that it broadcasts with arrays of `rank` own dimensions."""
    if not isinstance(x, Array):
        return widened(x, rank)
    lead, missing = x.data.ndim - x.ndim, rank - x.ndim
    return x.data[(*(slice(None),) * lead, *(None,) * missing, ...)] if missing else x.data


def _operator(name: str) -> None:
    function = getattr(torch.Tensor, name)

    def method(self: Array, other: Value) -> Any:
        if isinstance(other, (list, tuple, np.ndarray)):
            other = Array.of(other)
        if not (is_number(other) or isinstance(other, (Tensor, Array))):
            return NotImplemented
        return self.map(function, other)

    setattr(Array, name, method)


for _name in ("add", "sub", "mul", "truediv", "pow"):
    _operator(f"__{_name}__")
    _operator(f"__r{_name}__")


@final
class Categorical:
    """A choice among classes: the probability of each. In plain Python it is the chosen integer.

    `a == b` is the cosine similarity of the two, `x[a]` the expected cell.

    Args:
        probabilities: [*batch, n]; an array of n numbers, or a tensor.
    """

    __slots__ = ("_unit", "weights")

    def __init__(self, probabilities: Array | Tensor) -> None:
        if isinstance(probabilities, Tensor):
            probabilities = Array.dense(probabilities, 1)
        self.weights = probabilities
        self._unit: Tensor | None = None

    @classmethod
    def certain(cls, choice: int, count: int) -> Categorical:
        """The class `choice` among `count`, with probability 1.

        Raises:
            IndexError: there is no such class.
        """
        if not -count <= choice < count:
            raise IndexError(f"there is no class {choice} among {count}")
        return cls(Array((count,), cells=[float(i == choice % count) for i in range(count)]))

    @property
    def probabilities(self) -> Tensor:
        """[*batch, n]."""
        return self.weights.data

    @property
    def unit(self) -> Tensor:
        """The probabilities over their Euclidean length, [*batch, n]."""
        if self._unit is None:
            self._unit = torch.nn.functional.normalize(self.probabilities, dim=-1)
        return self._unit

    def expected(self) -> Tensor:
        """The mean of the class numbers, [*batch]: a real index, if their order means something."""
        p = self.probabilities
        return matmul(p, torch.arange(len(self), dtype=p.dtype, device=p.device))

    def __len__(self) -> int:
        return self.weights.shape[0]

    def __bool__(self) -> bool:
        raise TypeError("a categorical value is no condition; compare it with ==")

    def _no_order(self, *_: object) -> Any:
        raise TypeError(
            "the classes of a categorical value have no order, so that it cannot be computed with; "
            "its expected() is a real number"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _no_order
    __neg__ = __lt__ = __gt__ = __le__ = __ge__ = _no_order


# -- blending


def blend(p: Tensor, yes: Value, no: Value) -> Value:
    """The convex combination p yes + (1 - p) no of two states.

    What is the same object, or an equal number, in both stays as it is.

    Args:
        p: [*batch], in [0, 1].
        yes: a number, tensor, array, categorical value, or a tuple, list or dict of these.
        no: the same for 1 - p.

    Raises:
        TypeError: two different things that are no numbers.
        ValueError: arrays or lists of different sizes.
    """
    if yes is no:
        return no
    p = _tied(p, yes, no)
    if isinstance(yes, Tensor):
        if isinstance(no, Tensor):
            return _leading(p, yes, no)
        if is_number(no):
            return _with_number(p, yes, no)
    elif is_number(yes):
        if isinstance(no, Tensor):
            return _with_number(1 - p if yes and math.isinf(yes) else p, no, yes, swap=True)
        if is_number(no):
            return _numbers(p, yes, no)
    if isinstance(yes, Categorical) or isinstance(no, Categorical):
        return _categorical(p, yes, no)
    if isinstance(yes, Array) or isinstance(no, Array):
        if isinstance(yes, (Array, list, tuple)) and isinstance(no, (Array, list, tuple)):
            return _arrays(p, Array.of(yes), Array.of(no))
    elif type(yes) is type(no):
        if isinstance(yes, (tuple, list)):
            if len(yes) != len(no):
                raise ValueError(
                    f"a {type(yes).__name__} has {len(yes)} members in one branch and {len(no)} in "
                    "the other: the shape of a result may not depend on a relaxed decision"
                )
            parts = [blend(p, a, b) for a, b in zip(yes, no, strict=True)]
            named: Any = getattr(type(yes), "_make", type(yes))  # named tuples, too
            return named(parts)
        if isinstance(yes, dict) and yes.keys() == no.keys():
            return {key: blend(p, yes[key], no[key]) for key in yes}
        if yes == no:
            return no
    raise TypeError(
        f"one branch has {kind(yes)}, the other {kind(no)}; only numbers and arrays can be blended"
    )


def _are_numbers(*values: Value) -> bool:
    return all(isinstance(x, Tensor) or is_number(x) for x in values)


def _tied(p: Tensor, yes: Value, no: Value, dims: int = 0) -> Tensor:
    """The weight of `yes`; that of the hard program at a tie, where only what it takes is finite.

    Both have at least `dims` dimensions behind those of p.
    """
    if not (hasattr(p, "_at_ties") and _are_numbers(yes, no)):
        return p
    pair = [as_float(x) if isinstance(x, Tensor) else p.new_tensor(x) for x in (yes, no)]
    if all(is_finite(x) for x in pair):
        return p
    missing = max(dims, *(x.ndim - p.ndim for x in pair))
    sure, one, two = widened(at_ties(p), missing), *(x.isfinite() for x in pair)
    lost = torch.where(sure == 0, two & ~one, (sure == 1) & one & ~two)
    return torch.where(lost, sure, widened(p, missing))


def lerp(p: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """Return p yes + (1 - p) no, exact at p = 0 and 1; the three broadcast."""
    if not (yes.dtype is no.dtype is p.dtype):
        yes, no = as_float(yes), as_float(no)
        dtype = torch.promote_types(torch.promote_types(yes.dtype, no.dtype), p.dtype)
        yes, no, p = yes.to(dtype), no.to(dtype), p.to(dtype)
    mixed = torch.lerp(no, yes, p)
    if is_finite(mixed):
        return mixed
    # What is not taken may be NaN or inf: 0 of it is 0, in the result and in all derivatives.
    none, all_ = p == 0, p == 1
    endless = ~(yes - no).isfinite()
    lost = (none | all_) & endless
    a, b = torch.where(lost, 0.0, yes), torch.where(lost, 0.0, no)
    # `lerp` takes the difference, and inf - inf is NaN.
    safe = torch.lerp(torch.where(endless, 0.0, no), torch.where(endless, 0.0, yes), p)
    safe = torch.where(endless, p * a + (1 - p) * b, safe)
    return torch.where(lost, torch.where(none, no, yes), safe)


def is_finite(x: Tensor) -> bool:
    """Whether all numbers are known to be finite, without waiting for a GPU or in a trace."""
    return not (is_traced() or x.is_cuda) and math.isfinite(float(x.detach().sum()))


def weighed(values: Tensor, weights: Tensor) -> Tensor:
    """The sum of values times weights along the last dimension; weights of 0 count nothing."""
    found = (values * weights).sum(-1)
    if is_finite(found):
        return found
    return (torch.where((weights == 0) & ~values.isfinite(), 0.0, values) * weights).sum(-1)


def _leading(p: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """`lerp` where the dimensions of p are the first ones of both."""
    missing = max(yes.ndim, no.ndim) - p.ndim
    return lerp(widened(p, missing) if missing > 0 else p, yes, no)


def _mixed(p: Tensor, yes: Tensor, no: Tensor, dims: int) -> Tensor:
    """`lerp` of arrays, whose last `dims` dimensions are their own."""
    tied = _tied(p, yes, no, dims)
    return lerp(widened(p, dims) if tied is p else tied, yes, no)


def _with_number(p: Tensor, x: Tensor, number: float, swap: bool = False) -> Tensor:
    """A tensor blended with a number; the number is that of `yes` if `swap`."""
    x = as_float(x)
    if math.isinf(number):  # p is the weight of x here
        return torch.where(widened(p, max(x.ndim - p.ndim, 0)) == 1, x, number)
    if number == 0 and x.ndim <= p.ndim:
        mixed = x - x * p if swap else x * p
        if is_finite(mixed):
            return mixed
    constant = x.new_full((), number)
    return _leading(p, constant, x) if swap else _leading(p, x, constant)


def _numbers(p: Tensor, yes: float, no: float) -> Value:
    if yes == no:
        return no
    if math.isinf(yes):
        return torch.where(p == 0, p.new_full((), no), p.new_full((), yes))
    if math.isinf(no):
        return torch.where(p == 1, p.new_full((), yes), p.new_full((), no))
    if no == 0:
        return p if yes == 1 else p * yes
    if yes == 0:
        return 1 - p if no == 1 else no - no * p
    return p * yes + (1 - p) * no


def _categorical(p: Tensor, yes: Value, no: Value) -> Value:
    count = len(yes if isinstance(yes, Categorical) else no)
    pair: list[Categorical] = []
    for x in (yes, no):
        if is_whole(x):
            x = Categorical.certain(int(x), count)  # pyright: ignore[reportArgumentType]
        if not isinstance(x, Categorical):
            raise TypeError(f"one branch has a categorical value, the other {kind(x)}")
        pair.append(x)
    return Categorical(_arrays(p, pair[0].weights, pair[1].weights))


def _arrays(p: Tensor, yes: Array, no: Array) -> Array:
    if yes.shape != no.shape:
        raise ValueError(
            f"one branch has {kind(yes)}, the other {kind(no)}: the shape of a result may not "
            "depend on a relaxed decision"
        )
    if not (yes.has_cells and no.has_cells):
        return Array(yes.shape, data=_mixed(p, yes.data, no.data, yes.ndim))
    changed = [
        k
        for k, (a, b) in enumerate(zip(yes.cells, no.cells, strict=True))
        if a is not b and not (is_number(a) and is_number(b) and a == b)
    ]
    if not changed:
        return no
    cells = no.cells.copy()
    pairs = [(yes.cells[k], no.cells[k]) for k in changed]
    infinite = any(is_number(x) and math.isinf(x) for pair in pairs for x in pair)
    if len(changed) <= FEW or infinite:
        blended: Sequence[Value] = [blend(p, a, b) for a, b in pairs]
    else:
        one, two = stacked([a for a, _ in pairs]), stacked([b for _, b in pairs])
        # A constant [n] must not meet a batch of n.
        blended = _mixed(p, one, two, 1).unbind(-1)
    for k, x in zip(changed, blended, strict=True):
        cells[k] = x
    return Array(yes.shape, cells=cells)
