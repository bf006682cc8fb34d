"""The decorator `relax`: a plain Python function that runs soft, or hard."""

from __future__ import annotations

import builtins
import copy
import functools
import inspect
import itertools
import math
import sys
import sysconfig
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast, get_args, overload

import numpy as np
import torch
from torch import Tensor

from gendr._runtime.checks import check_finite, check_tensor, shape_text
from gendr.relaxed import choices
from gendr.relaxed.flow import Undefined
from gendr.relaxed.rewrite import Rewritten, is_rewritten, rewrite
from gendr.relaxed.settings import (
    DistLike,
    Scale,
    Settings,
    TNormLike,
    check_names,
    current,
    entered,
)
from gendr.relaxed.syntax import RESERVED
from gendr.relaxed.values import Array, Categorical, Value, is_number, is_relaxed, kind

if TYPE_CHECKING:
    from gendr.relaxed.compiled import CompiledProgram


@dataclass(frozen=True)
class Form:
    """What an argument is.

    Attributes:
        rank: its own dimensions; those before them are of the batch.
        classes: whether the last of them are the probabilities of classes.
        name: for messages.
    """

    rank: int
    classes: bool
    name: str


# What arguments are, for type hints. Without one, it is read off the text: x[i] shows a vector.
Scalar: TypeAlias = Annotated[Any, Form(0, False, "Scalar")]  # [*batch]
Vector: TypeAlias = Annotated[Any, Form(1, False, "Vector")]  # [*batch, n]
Matrix: TypeAlias = Annotated[Any, Form(2, False, "Matrix")]  # [*batch, n, m]
Volume: TypeAlias = Annotated[Any, Form(3, False, "Volume")]  # [*batch, n, m, k]
Category: TypeAlias = Annotated[Any, Form(1, True, "Category")]  # [*batch, classes]
Categories: TypeAlias = Annotated[Any, Form(2, True, "Categories")]  # [*batch, n, classes]

_BY_RANK: tuple[Form, ...] = tuple(get_args(x)[1] for x in (Scalar, Vector, Matrix, Volume))
_FORMS = {form.name: form for form in (*_BY_RANK, get_args(Category)[1], get_args(Categories)[1])}
_PLAIN = _BY_RANK[0]


def _form_of(annotation: object) -> Form | None:
    """The form that a type hint names, None for another hint."""
    if isinstance(annotation, str):
        return _FORMS.get(annotation.split(".")[-1])
    for extra in getattr(annotation, "__metadata__", ()):
        if isinstance(extra, Form):
            return extra
    return None


class Program:
    """A function that runs soft, or hard; `relax` makes it.

    `program(*args)` runs the relaxed function: floating tensors are relaxed, plain numbers are
    exact. Besides its own arguments it takes `scale`, `dist`, `tnorm`, `tolerance` and
    `max_iterations`, as `smoothing`. Inside another program it follows the settings of that one.

    Attributes:
        source: the rewritten text.
        decisions: the names that `smooth` gives to decisions in the text.
        forms: what each argument is: "Scalar", "Vector", ...
    """

    def __init__(self, function: Callable[..., Any], **settings: Any) -> None:
        if not isinstance(function, types.FunctionType):
            raise TypeError(f"relax takes a function, got {type(function).__name__}")
        if hasattr(function, "__wrapped__"):
            raise TypeError("relax must stand next to the function, below other decorators")
        self.function = function
        self._settings = settings
        if settings:
            Settings().changed(**settings)  # errors at the decoration
        self._rewritten: Rewritten = rewrite(function, sys.modules["gendr.relaxed"])
        self._signature = inspect.signature(function)
        functools.update_wrapper(self, function)

    @property
    def source(self) -> str:
        """The function in functional form, as text."""
        return self._rewritten.source

    @property
    def decisions(self) -> tuple[str, ...]:
        """The names of decisions in the text."""
        return self._rewritten.decisions

    @functools.cached_property
    def _forms(self) -> dict[str, Form]:
        """What each argument is, by its type hint, or by its use."""
        hints = inspect.get_annotations(self.function)
        result: dict[str, Form] = {}
        for name in self._signature.parameters:
            hint = hints.get(name)
            if isinstance(hint, str) and _form_of(hint) is None:
                try:
                    hint = eval(
                        hint, dict(self.function.__globals__)
                    )  # the hint of a file with `annotations`
                except Exception:  # noqa: BLE001  # any error in a hint that is not for us
                    hint = None
            rank = self._rewritten.ranks.get(name, 0)
            result[name] = _form_of(hint) or _BY_RANK[min(rank, 3)]
        return result

    @property
    def forms(self) -> dict[str, str]:
        """What each argument is: "Scalar", "Vector", "Matrix", "Category", ..."""
        return {name: form.name for name, form in self._forms.items()}

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """The program as a method, if it stands in a class."""
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}: {form}" for name, form in self.forms.items())
        return f"<relaxed program {self.function.__name__}({arguments})>"

    # -- the relaxed run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the relaxed function.

        Args:
            args: tensors [*batch, ...], whose leading dimensions are the batch, nested lists of
                numbers, and whatever else the function takes.
            kwargs: the same, and `scale`, `dist`, `tnorm`, `tolerance`, `max_iterations`.

        Returns:
            Tensors [*batch, ...]; what the function returns apart from numbers stays as it is.

        Raises:
            TypeError, ValueError: arguments or settings that do not fit.
        """
        outer = current()
        own = {key: kwargs.pop(key) for key in RESERVED if key in kwargs}
        if outer.hard:  # which has no use for settings
            return self.function(*args, **kwargs)
        if outer.running:
            return self._inside(outer, own, args, kwargs)
        return self.run(args, kwargs, outer.changed(**{**self._settings, **own}))

    def settled(self, kwargs: dict[str, Any]) -> tuple[dict[str, Any], Settings]:
        """The arguments among those of a call, and the settings of its run."""
        own = {key: value for key, value in kwargs.items() if key in RESERVED}
        rest = {key: value for key, value in kwargs.items() if key not in RESERVED}
        return rest, current().changed(**{**self._settings, **own})

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any], settings: Settings) -> Any:
        """Run the relaxed function with these settings, outside of other programs.

        Raises:
            RecursionError: it calls itself without end, since both branches of a decision run.
        """
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments, settings = self._entered(bound.arguments, settings)
        bound.arguments.update(arguments)
        with entered(settings):
            try:
                result = self._rewritten.function(*bound.args, **bound.kwargs)
            except RecursionError as error:
                raise RecursionError(
                    f"{self.function.__name__} calls itself without end, for both branches of a "
                    "relaxed decision run; bound the depth by a plain number, or use `while`"
                ) from error
            check_names(settings, self.decisions)
            return _left(result, settings)

    def _inside(
        self, outer: Settings, own: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run as a part of another program."""

        def shaped(value: Any, name: str) -> Any:
            return _shaped(value, self._forms.get(name, _PLAIN))

        names = [*self._signature.parameters][: len(args)]
        args = tuple(itertools.starmap(shaped, itertools.zip_longest(args, names, fillvalue="")))
        kwargs = {name: shaped(value, name) for name, value in kwargs.items()}
        if not own:
            return self._rewritten.function(*args, **kwargs)
        with entered(outer.changed(**own)):
            return self._rewritten.function(*args, **kwargs)

    def _entered(
        self, arguments: dict[str, Any], settings: Settings
    ) -> tuple[dict[str, Any], Settings]:
        """The arguments as values of a program, and the settings with the shape of the batch."""
        forms = {name: self._forms[name] for name in arguments}
        leads: list[torch.Size] = []
        likes: list[Tensor] = []
        for name, value in arguments.items():
            for leaf in _tensors(value):
                rank = forms[name].rank if leaf is value else 0
                if leaf.ndim < rank:
                    raise ValueError(
                        f"{name} is a {forms[name].name}: it must have at least {rank} dimensions, "
                        f"got {shape_text(leaf.shape)}"
                    )
                if leaf.is_complex():
                    raise TypeError(f"{name} must be real, got {leaf.dtype}")
                leads.append(leaf.shape[: leaf.ndim - rank])
                if leaf.is_floating_point():
                    check_finite(name, leaf)
                    likes.append(leaf)
        try:
            batch = torch.broadcast_shapes(*leads) if leads else torch.Size()
        except RuntimeError:
            shapes = ", ".join(shape_text(lead) for lead in leads)
            raise ValueError(f"the arguments have batches that do not fit: {shapes}") from None
        dtype, device = torch.get_default_dtype(), torch.device("cpu")
        if likes:
            device = likes[0].device
            dtype = functools.reduce(torch.promote_types, (x.dtype for x in likes))
        lead = len(batch)
        new = {name: _prepared(value, forms[name], lead) for name, value in arguments.items()}
        return new, replace(
            settings,
            batch=tuple(batch),
            dtype=dtype,
            device=device,
            running=True,
            used=set(),
            _rules={},
        )

    def compiled(self, **options: Any) -> CompiledProgram:
        """The program, compiled by `torch.compile`; it is called in the same way.

        It pays where the same shapes come thousands of times: every kind of input is compiled by
        itself, which takes from seconds to minutes. See `CompiledProgram`.

        Args:
            options: of `torch.compile`, such as `mode` and `backend`.
        """
        from gendr.relaxed.compiled import CompiledProgram

        return CompiledProgram(self, options)

    # -- the hard run

    def hard(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function as plain Python, on numbers.

        Args:
            args: as for a call. Tensors are taken apart: each item of the batch runs by itself,
                vectors as arrays of NumPy, categorical values as the most probable integer.
            kwargs: the same, without settings.

        Returns:
            What Python returns; tensors [*batch, ...] if an argument is one. No gradient.

        Raises:
            ValueError: a batch without items.
        """
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        forms = self._forms
        hard = replace(current(), hard=True, running=True)
        if not any(_tensors(value) for value in bound.arguments.values()):
            bound.arguments.update(
                {
                    name: copy.deepcopy(value) if isinstance(value, (list, np.ndarray)) else value
                    for name, value in bound.arguments.items()
                }
            )
            with entered(hard):
                return self.function(*bound.args, **bound.kwargs)
        arguments = dict(bound.arguments)
        _, settings = self._entered(arguments, current())
        results: list[Any] = []
        with entered(hard):
            for place in itertools.product(*map(range, settings.batch)):
                bound.arguments.update(
                    {
                        name: _item(value, forms[name], settings.batch, place)
                        for name, value in arguments.items()
                    }
                )
                results.append(self.function(*bound.args, **bound.kwargs))
        if not results:
            raise ValueError("the batch is empty; give at least one item")
        return _collected(results, settings)


def _tensors(value: Any) -> list[Tensor]:
    """The tensors in nested lists."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [leaf for x in cast("list[Any]", value) for leaf in _tensors(x)]
    return []


def _prepared(value: Any, form: Form, lead: int) -> Any:
    """An argument as a value of a program; tensors get the dimensions of the batch."""
    if isinstance(value, Tensor):
        missing = lead - (value.ndim - form.rank)
        if missing and value.ndim > form.rank:
            value = value.reshape((1,) * missing + value.shape)
        return _shaped(value, form)
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "fiub":
            raise TypeError(f"an array must hold numbers, got {value.dtype}")
        return Array.dense(torch.as_tensor(value), value.ndim) if value.ndim else value.item()
    if isinstance(value, (list, tuple)):
        members = [_prepared(x, _PLAIN, lead) for x in cast("list[Any]", value)]
        if form.rank and not form.classes and _holds_numbers(members):
            return Array.of(members)
        return type(value)(members)
    return value


def _holds_numbers(members: Any) -> bool:
    if isinstance(members, (list, tuple)):
        return bool(members) and all(map(_holds_numbers, cast("list[Any]", members)))
    return is_number(members) or isinstance(members, Tensor)


def _shaped(value: Any, form: Form) -> Any:
    """A tensor as the form says; other values as they are."""
    if form.rank == 0 or not isinstance(value, Tensor):
        return value
    if form.name == "Category":
        return Categorical(value)
    if form.name == "Categories":
        return [Categorical(x) for x in value.unbind(-2)]
    return Array.dense(value, form.rank)


def _left(result: Any, settings: Settings) -> Any:
    """A result as tensors over the whole batch."""
    batch = settings.batch
    if isinstance(result, (tuple, list)):
        parts = [_left(x, settings) for x in cast("list[Any]", result)]
        return getattr(type(result), "_make", type(result))(parts)
    if isinstance(result, Undefined):
        raise UnboundLocalError(f"{result.name} has no value, but is returned")
    if isinstance(result, dict):
        return {key: _left(x, settings) for key, x in cast("dict[Any, Any]", result).items()}
    if isinstance(result, Categorical):
        result = result.weights
    shape: tuple[int, ...] = ()
    if isinstance(result, Array):
        shape, result = result.shape, result.data
    elif is_number(result):
        result = torch.tensor(float(result), dtype=settings.dtype, device=settings.device)
    if isinstance(result, Tensor) and tuple(result.shape) != (*batch, *shape):
        result = result.expand(*batch, *shape)
    return result


def _item(value: Any, form: Form, batch: tuple[int, ...], place: tuple[int, ...]) -> Any:
    """One item of the batch, as plain Python."""
    if isinstance(value, (list, tuple)):
        members = [_item(x, _PLAIN, batch, place) for x in cast("list[Any]", value)]
        if form.rank and not form.classes and _holds_numbers(members):
            return np.array(members, dtype=float)
        return type(value)(members)
    if isinstance(value, np.ndarray):
        return value.copy()
    if not isinstance(value, Tensor):
        return value
    own = value.shape[value.ndim - form.rank :]
    one = value.detach().expand(*batch, *own)[place]
    if form.name == "Category":
        return int(one.argmax())
    if form.name == "Categories":
        return one.argmax(-1).tolist()
    if form.rank == 0:
        return one.item()
    return one.double().cpu().numpy().copy()


def _collected(results: Sequence[Any], settings: Settings) -> Any:
    """The results of all items as tensors."""
    first = results[0]
    if isinstance(first, (tuple, list)):
        parts = zip(*results, strict=True)
        return type(first)(_collected(part, settings) for part in parts)
    if isinstance(first, dict):
        return {key: _collected([x[key] for x in results], settings) for key in first}
    if isinstance(first, (int, float, np.ndarray, np.generic)):
        array = np.array([np.asarray(x, dtype=float) for x in results])
        tensor = torch.as_tensor(array, dtype=settings.dtype, device=settings.device)
        return tensor.reshape(settings.batch + array.shape[1:])
    return first if len(results) == 1 else list(results)


# -- calls of functions from a program

_NAMES = (
    "sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "atan", "atan2", "asin", "acos", "sinh",
    "cosh", "hypot", "log2", "pow", "log10", "log1p", "expm1", "erf",
)  # fmt: skip
_RELAXED: dict[Any, Callable[..., Any]] = {
    **{getattr(math, name): getattr(torch, name) for name in _NAMES},
    math.fabs: choices.absolute,
    builtins.pow: torch.pow,
    builtins.float: lambda x: x,
}


def call(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a function from a program.

    Functions of `math` are those of torch where an argument is relaxed. A function of the user's,
    which is not decorated, is relaxed as if it were. One of an installed package runs as it is,
    unless the program stands in the same package.

    Raises:
        TypeError: a builtin that makes a hard decision about a relaxed value.
    """
    if isinstance(function, Program):
        return function(*args, **kwargs)
    if isinstance(function, types.MethodType) and isinstance(function.__func__, types.FunctionType):
        return _helper(function.__func__, sys._getframe(1))(function.__self__, *args, **kwargs)
    if isinstance(function, types.FunctionType):
        return _helper(function, sys._getframe(1))(*args, **kwargs)
    relaxed = next(filter(None, map(_relaxed_in, (*args, *kwargs.values()))), None)
    if relaxed is None:
        return function(*args, **kwargs)
    replacement = _RELAXED.get(function) if getattr(function, "__hash__", None) else None
    if replacement is not None:
        like = next((x for x in args if isinstance(x, Tensor)), None)
        if any(isinstance(x, Array) for x in args):
            return args[0].map(replacement, *args[1:])
        if like is None:
            raise TypeError(f"{function.__name__} takes numbers, got {kind(args[0])}")
        full = [x if isinstance(x, Tensor) else like.new_full((), x) for x in args]
        return replacement(*full)
    if getattr(function, "__module__", None) in ("builtins", "math"):
        name = function.__name__
        raise TypeError(
            f"{name} of {relaxed} would be a hard decision, through which no gradient passes; "
            "write it with comparisons"
        )
    return function(*args, **kwargs)


def _relaxed_in(value: Any) -> str | None:
    """What is relaxed in a value, or in lists, in words."""
    if isinstance(value, (list, tuple)):
        return next(filter(None, map(_relaxed_in, cast("list[Any]", value))), None)
    return kind(value) if is_relaxed(value) else None


def _helper(function: types.FunctionType, program: types.FrameType) -> Callable[..., Any]:
    """A function as the code of a program calls it: relaxed if it is the user's."""
    if is_rewritten(function) or _is_foreign(function, program.f_globals.get("__name__", "")):
        return function
    return _converted(function)


@functools.lru_cache(maxsize=1000)
def _converted(function: types.FunctionType) -> Program:
    return Program(function)


def _is_foreign(function: types.FunctionType, caller: str) -> bool:
    """Whether a function belongs to an installed package other than that of the calling module."""
    package = (function.__module__ or "").split(".")[0]
    if package == "gendr":  # also where it is not installed but read from its repository
        return True
    file = function.__code__.co_filename
    installed = file.startswith(_INSTALLED) or not _PACKAGES.isdisjoint(Path(file).parts)
    return installed and package != caller.split(".")[0]


_INSTALLED = ("<frozen ", sysconfig.get_paths()["stdlib"])
_PACKAGES = {"site-packages", "dist-packages"}


def divided(a: Value, b: Value, symbol: str) -> Value:
    """`a // b` or `a % b`, as `symbol` says, of plain numbers.

    Raises:
        TypeError: one of them is relaxed.
    """
    if is_relaxed(a) or is_relaxed(b):
        raise TypeError(
            f"`{symbol}` of {kind(a if is_relaxed(a) else b)} would be a hard decision, through "
            "which no gradient passes; keep whole numbers plain, divide by `/`, or subtract in a "
            "`while`"
        )
    return a // b if symbol == "//" else a % b


# -- the decorator


@overload
def relax(function: Callable[..., Any], /) -> Program: ...
@overload
def relax(
    function: None = ...,
    /,
    *,
    scale: Scale | None = ...,
    dist: DistLike | None = ...,
    tnorm: TNormLike | None = ...,
    tolerance: float | None = ...,
    max_iterations: int | None = ...,
) -> Callable[[Callable[..., Any]], Program]: ...
def relax(
    function: Callable[..., Any] | None = None,
    /,
    *,
    scale: Scale | None = None,
    dist: DistLike | None = None,
    tnorm: TNormLike | None = None,
    tolerance: float | None = None,
    max_iterations: int | None = None,
) -> Any:
    """Make a plain Python function differentiable, decisions included.

    >>> @gendr.relax
    ... def clamp(x, low, high):
    ...     if x < low:
    ...         x = low
    ...     elif x > high:
    ...         x = high
    ...     return x
    >>> clamp(torch.tensor([0.1, 0.9]), 0.25, 0.75, scale=0.1)
    >>> clamp.hard(0.1, 0.25, 0.75)
    0.25

    Args:
        function: with `if`, `while`, `for`, comparisons, `and`, `or`, `not`, conditional
            expressions, `min`, `max`, `abs`, indexing, assignments and `return`.
        scale: the scale of the noise, if a call gives none; as the others in `smoothing`.
        dist: the law.
        tnorm: the 'and'.
        tolerance: the probability at which loops end.
        max_iterations: the bound of loops.

    Returns:
        A `Program`.

    Raises:
        RelaxError: a SyntaxError that shows the line of what cannot be relaxed, and says why.
    """
    settings = dict(
        scale=scale, dist=dist, tnorm=tnorm, tolerance=tolerance, max_iterations=max_iterations
    )
    given = {key: value for key, value in settings.items() if value is not None}
    if function is None:
        return lambda function: Program(function, **given)
    return Program(function)


def array(values: Any) -> Any:
    """An array; `values` are nested lists of numbers, or a tensor without batch.

    In a hard run it is an array of NumPy.
    """
    if isinstance(values, Tensor):
        return (
            values.detach().cpu().numpy().copy()
            if current().hard
            else Array.dense(values, values.ndim)
        )
    if current().hard:
        return np.array(values, dtype=float)
    return Array.of(values)


def dense(value: Any) -> Tensor:
    """The tensor [*batch, ...] behind an array or a categorical value."""
    if isinstance(value, Categorical):
        return value.probabilities
    return value.data if isinstance(value, Array) else check_tensor("value", value)
