"""The decorator `relax`: a plain Python function that runs soft, or hard."""

from __future__ import annotations

import builtins
import copy
import functools
import importlib
import inspect
import itertools
import math
import operator
import os
import pickle
import sys
import sysconfig
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast, get_args, overload

import numpy as np
import torch
from torch import Tensor

from gendr._common.checks import check_finite, check_tensor, shape_text
from gendr._common.tracing import breaking_graphs, is_traced, refuse_transforms
from gendr._common.words import translated, worded
from gendr.relaxed import choices
from gendr.relaxed.estimators import Report
from gendr.relaxed.execution import (
    Execution,
    Joint,
    Merged,
    Sampled,
    Trajectories,
    Unlikely,
    averaged,
    expected,
    explored,
)
from gendr.relaxed.flow import Undefined
from gendr.relaxed.rewrite import Rewritten, is_rewritten, rewrite
from gendr.relaxed.settings import (
    DistLike,
    Scale,
    Settings,
    TConormLike,
    check_names,
    current,
    entered,
)
from gendr.relaxed.slopes import Slopes, Watched, by_line
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
    exact. Besides its own arguments it takes `execution`, and what `smoothing` takes: `scale`,
    `dist`, `tconorm`, `tolerance`, `max_iterations`, `clip`, `normaliser`. Inside another program
    it follows the settings of that one. A program that stands in a module can be pickled.

    Attributes:
        source: the rewritten text.
        decisions: the names that `smooth` gives to decisions in the text.
        forms: what each argument is: "Scalar", "Vector", ...
        report: of the last first derivatives of a sampled run, by argument: the gradient, and how
            much this varies. Passes for second derivatives leave it.
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
        self.report: dict[str, Report] = {}
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

    def __reduce__(self) -> Any:
        """By its name, as a function is.

        Raises:
            PicklingError: it does not stand in a module under its name.
        """
        module, name = self.function.__module__, self.function.__qualname__
        try:
            found = _found(module, name)
        except (ImportError, AttributeError):
            found = None
        if (found.function if isinstance(found, Program) else found) is not self.function:
            raise pickle.PicklingError(
                f"the program {name} is not what {module}.{name} is; only a program at the top of "
                "a module, or of a class there, can be pickled"
            )
        return _unpickled, (module, name, self._settings)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}: {form}" for name, form in self.forms.items())
        return f"<relaxed program {self.function.__name__}({arguments})>"

    # -- the relaxed run

    @breaking_graphs
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the relaxed function; `torch.compile` breaks its graph here, see `compiled`.

        Args:
            args: tensors [*batch, ...], whose leading dimensions are the batch, nested lists of
                numbers, and whatever else the function takes.
            kwargs: the same, and settings: those of `smoothing`, and `execution`: "merged", "joint"
                or "sampled", or `Joint(paths=...)`, `Sampled(samples=...)`.

        Returns:
            Tensors [*batch, ...]; what the function returns apart from numbers stays as it is.

        Raises:
            TypeError, ValueError: arguments or settings that do not fit.
        """
        outer = current()
        kwargs, own = self._split(kwargs)
        if outer.hard:  # which has no use for settings
            return self._rewritten.hard(*args, **kwargs)
        if outer.running:
            return self._inside(outer, own, args, kwargs)
        return self.run(args, kwargs, outer.changed(**{**self._settings, **own}))

    def resolved(self, kwargs: dict[str, Any]) -> tuple[dict[str, Any], Settings]:
        """The arguments among those of a call, and the settings of its run."""
        rest, own = self._split(kwargs)
        return rest, current().changed(**{**self._settings, **own})

    def _split(self, kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments among those of a call, and its settings."""
        rest = {key: value for key, value in kwargs.items() if key in self._signature.parameters}
        if len(rest) == len(kwargs):
            return rest, {}
        given = {key: value for key, value in kwargs.items() if key not in rest}
        given = translated(self.function.__name__, RESERVED, given, open_ended=True)
        own = {key: given.pop(key) for key in RESERVED if key in given}
        return {**rest, **given}, own

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any], settings: Settings) -> Any:
        """Run the relaxed function with these settings, outside of other programs.

        Raises:
            RecursionError: it calls itself without end, since both branches of a decision run.
        """
        if isinstance(settings.execution, Merged):
            return self._once(args, kwargs, settings)
        refuse_transforms(f"execution={settings.execution}")
        return self._along_trajectories(args, kwargs, settings, settings.execution)

    def _along_trajectories(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        settings: Settings,
        execution: Joint | Sampled,
    ) -> Any:
        """Run it in trajectories; see `gendr.relaxed.execution`."""
        bound = self._signature.bind(*args, **kwargs)
        _, shape = self._entered(dict(bound.arguments), settings)
        like = torch.empty((), dtype=shape.dtype, device=shape.device)
        second: set[int] | None = set() if isinstance(execution, Sampled) else None

        def run(trajectories: Trajectories) -> Any:
            given = {
                name: self._spread(name, value, trajectories.batch, len(shape.batch), second)
                for name, value in bound.arguments.items()
            }
            own = self._signature.bind(*args, **kwargs)
            own.arguments.update(given)
            return self._once(own.args, own.kwargs, settings, trajectories)

        if isinstance(execution, Sampled):
            self.report = {}
            trajectories = Trajectories((execution.samples, *shape.batch), like, None)
            return averaged(run(trajectories), trajectories)
        with torch.no_grad():
            forced, valid = explored(run, shape.batch, like, execution.paths, settings.tolerance)
        trajectories = Trajectories((len(valid), *shape.batch), like, forced)
        result = run(trajectories)
        with torch.no_grad():
            left = 1 - (trajectories.log.exp() * valid).sum(0)
        rest = None
        if left.numel() and float(left.max()) > settings.tolerance:
            rest = self._once(args, kwargs, settings)
        return expected(result, trajectories, valid, rest)

    def _spread(
        self, name: str, value: Any, batch: tuple[int, ...], lead: int, second: set[int] | None
    ) -> Any:
        """An argument for all trajectories: tensors get their dimension.

        Gradients are reported, unless `second` is None, but for passes in it: those come through a
        gradient that was reported.
        """
        if isinstance(value, (list, tuple)):
            return type(value)(
                self._spread(f"{name}[{k}]", x, batch, lead, second)
                for k, x in enumerate(cast("list[Any]", value))
            )
        if not isinstance(value, Tensor):
            return value
        rank = self._forms[name].rank if name in self._forms else 0
        missing = lead - (value.ndim - rank)
        full = value.reshape((1,) * missing + value.shape).expand(batch[0], *(-1,) * (lead + rank))
        if full.requires_grad and second is not None:

            def note(grad: Tensor) -> None:
                if torch._C._current_graph_task_id() in second:
                    return
                if grad.requires_grad:
                    grad.register_hook(lambda _: second.add(torch._C._current_graph_task_id()))
                grad = grad.detach()
                total, spread = grad.sum(0), grad.var(0) * len(grad)
                self.report[name] = Report(
                    len(grad), spread.reshape(value.shape), total.reshape(value.shape)
                )

            full.register_hook(note)
        return full

    def slopes(self, *args: Any, **kwargs: Any) -> Slopes:
        """The lines whose decisions make gradients long, the steepest first.

        It runs the program, and a backward pass from the sum of what it returns.

        >>> print(program.slopes(x, scale=0.001))

        Args:
            args: as for a call; at least one tensor that requires a gradient.
            kwargs: the same.

        Raises:
            ValueError: the result does not depend on a tensor that requires a gradient.
        """
        notes: list[Watched] = []
        rest, settings = self.resolved(kwargs)
        result = self.run(args, rest, replace(settings, watched=notes, _rules={}))
        leaves = [x for x in _tensors(result) if x.requires_grad]
        inputs = [x for x in _tensors([*args, *rest.values()]) if x.requires_grad]
        if not (leaves and inputs):
            raise ValueError(
                "the result does not depend on a tensor that requires a gradient; call "
                ".requires_grad_() of what you learn"
            )
        total = torch.stack([x.sum() for x in leaves]).sum()
        torch.autograd.grad(total, inputs, allow_unused=True)
        return by_line(notes)

    def _once(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        settings: Settings,
        trajectories: Trajectories | None = None,
    ) -> Any:
        """One run, merged or in trajectories."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments, settings = self._entered(bound.arguments, settings)
        bound.arguments.update(arguments)
        if trajectories is not None:
            settings = replace(
                settings,
                trajectories=trajectories,
                path=trajectories.path,
                batch=trajectories.batch,
            )
        with entered(settings):
            if trajectories is not None:
                bound.arguments.update(_certain(dict(bound.arguments), trajectories))
            try:
                result = self._rewritten.function(*bound.args, **bound.kwargs)
            except RecursionError as error:
                raise RecursionError(
                    f"{self.function.__name__} calls itself without end, for both branches of a "
                    "relaxed decision run; bound the depth by a plain number, or by "
                    "max_iterations, or use `while`"
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
        if "execution" in own:
            raise TypeError("execution is of the whole run; give it to the outermost program")
        before = [length for program, length in outer.active if program is self]
        if before and len(outer.path) > before[-1]:
            self._check_depth(outer, len(set(before)))
        outer.active.append((self, len(outer.path)))
        trajectories = outer.trajectories
        saved = trajectories.enter(0) if trajectories else None
        try:
            with entered(outer.changed(**own)) if own else nullcontext():
                return self._rewritten.function(*args, **kwargs)
        finally:
            outer.active.pop()
            if trajectories and saved:
                trajectories.leave(saved)
                trajectories.count += 1

    def _check_depth(self, settings: Settings, depth: int) -> None:
        """Look whether a program that calls itself should go on, as a loop asks.

        Raises:
            Unlikely: it should not.
        """
        bound = settings.max_iterations
        if bound is not None and depth > bound:
            raise Unlikely(f"{self.function.__name__} calls itself more than {bound} times")
        if is_traced():
            return
        chance = torch.ones((), device="cpu")
        if settings.trajectories:
            chance = settings.trajectories.log.detach().exp()
        for p, true in settings.path:
            p = p.detach()
            chance = chance.to(p) * (p if true else 1 - p)
        if chance.numel() and float(chance.max()) <= settings.tolerance:
            raise Unlikely(f"{self.function.__name__} calls itself without end")

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
            path=[],
            active=[(self, 0)],
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
                return self._rewritten.hard(*bound.args, **bound.kwargs)
        arguments = dict(bound.arguments)
        _, settings = self._entered(arguments, current())
        changed = self._rewritten.changed
        results: list[Any] = []
        with entered(hard):
            for place in itertools.product(*map(range, settings.batch)):
                bound.arguments.update(
                    {
                        name: _item(value, forms[name], settings.batch, place, name in changed)
                        for name, value in arguments.items()
                    }
                )
                results.append(self._rewritten.hard(*bound.args, **bound.kwargs))
        if not results:
            raise ValueError("the batch is empty; give at least one item")
        return _collected(results, settings)


def _found(module: str, name: str) -> Any:
    """What stands in a module under a qualified name."""
    result: Any = importlib.import_module(module)
    for part in name.split("."):
        result = inspect.getattr_static(result, part)
    return result


def _unpickled(module: str, name: str, settings: dict[str, Any]) -> Program:
    """The program that stands in a module, or one of the function that stands there."""
    found = _found(module, name)
    if not isinstance(found, Program):
        return Program(found, **settings)
    return found if found._settings == settings else Program(found.function, **settings)


def _certain(value: Any, trajectories: Trajectories) -> Any:
    """An argument of a trajectory, in which categorical values are known."""
    if isinstance(value, Categorical):
        return Categorical(trajectories.choose(value.probabilities))
    if isinstance(value, (list, tuple)):
        return type(value)(_certain(x, trajectories) for x in cast("list[Any]", value))
    if isinstance(value, dict):
        return {key: _certain(x, trajectories) for key, x in cast("dict[Any, Any]", value).items()}
    return value


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
        result = result.expand((*batch, *shape))
    return result


def _item(
    value: Any, form: Form, batch: tuple[int, ...], place: tuple[int, ...], changed: bool
) -> Any:
    """One item of the batch, as plain Python.

    Whole numbers of a list stay whole, so that they can be places; if the program writes to the
    list (`changed`), they may become others.
    """
    if isinstance(value, (list, tuple)):
        members = [_item(x, _PLAIN, batch, place, changed) for x in cast("list[Any]", value)]
        if form.rank and not form.classes and _holds_numbers(members):
            return np.array(members, dtype=float if changed else None)
        return type(value)(members)
    if isinstance(value, np.ndarray):
        return value.copy()
    if not isinstance(value, Tensor):
        return value
    own = value.shape[value.ndim - form.rank :]
    one = value.detach().expand((*batch, *own))[place]
    if form.name == "Category":
        return int(one.argmax())
    if form.name == "Categories":
        return one.argmax(-1).tolist()
    if form.rank == 0:
        return one.item()
    return one.cpu().double().numpy().copy()


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
    inner = function.__func__ if isinstance(function, types.MethodType) else function
    if isinstance(inner, types.FunctionType):
        first = (function.__self__,) if isinstance(function, types.MethodType) else ()
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if is_rewritten(inner):
            return inner(*first, *args, **kwargs)
        if not _is_foreign(inner, caller):
            return _converted(inner)(*first, *args, **kwargs)
        return _foreign(inner, (*first, *args), kwargs)
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


def _foreign(function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of another package, as it is."""
    try:
        return function(*args, **kwargs)
    except (TypeError, ValueError, AttributeError) as error:
        relaxed = next(filter(None, map(_relaxed_in, (*args, *kwargs.values()))), None)
        if relaxed is None:
            raise
        name = f"{function.__module__}.{function.__qualname__}"
        raise TypeError(
            f"{name} is of another package, so that it runs as it is; it got {relaxed}, and says: "
            f"{error}. Write it in the program, or as a function of yours"
        ) from error


def plainly(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A call with settings in a hard run: only programs take settings."""
    inner = getattr(function, "__func__", function)
    if isinstance(inner, types.FunctionType):
        own = inspect.signature(inner).parameters
        if not any(x.kind is inspect.Parameter.VAR_KEYWORD for x in own.values()):
            kwargs = {key: x for key, x in kwargs.items() if key in own or key not in RESERVED}
    return function(*args, **kwargs)


@functools.lru_cache(maxsize=1000)
def _converted(function: types.FunctionType) -> Program:
    return Program(function)


def _is_foreign(function: types.FunctionType, caller: str) -> bool:
    """Whether a function belongs to an installed package other than that of the calling module."""
    package = (function.__module__ or "").split(".")[0]
    if package == "gendr":  # also where it is not installed but read from its repository
        return True
    return _is_installed(function.__code__.co_filename) and package != caller.split(".")[0]


@functools.lru_cache(maxsize=1000)
def _is_installed(file: str) -> bool:
    """Whether a file belongs to Python, or to an installed package; also through links."""
    paths = (file, os.path.realpath(file))
    return any(path.startswith(_INSTALLED) for path in paths) or any(
        not _PACKAGES.isdisjoint(Path(path).parts) for path in paths
    )


_STDLIB = {sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib")}
_INSTALLED = ("<frozen ", *(p + os.sep for x in _STDLIB for p in (x, os.path.realpath(x))))
_PACKAGES = {"site-packages", "dist-packages"}


_ON_WHOLE: dict[str, Callable[[Any, Any], Any]] = {
    "//": operator.floordiv, "%": operator.mod,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
_IN_WORDS = {"&": "write `and`", "|": "write `or`", "^": "write `(a and not b) or (b and not a)`"}


def whole(a: Value, b: Value, symbol: str) -> Value:
    """`a // b`, or with another `symbol`, of whole numbers, bools and sets.

    Raises:
        TypeError: one of them is relaxed.
    """
    relaxed = [x for x in (a, b) if _is_soft(x) or (is_relaxed(x) and symbol not in _IN_WORDS)]
    if relaxed and symbol in _IN_WORDS:
        raise TypeError(
            f"`{symbol}` is for bits, got {kind(relaxed[0])}, such as the probability that a "
            f"comparison gives; {_IN_WORDS[symbol]}"
        )
    if relaxed:
        raise TypeError(
            f"`{symbol}` of {kind(relaxed[0])} would be a hard decision, through which no gradient "
            "passes; keep whole numbers plain, divide by `/`, or subtract in a `while`"
        )
    return _ON_WHOLE[symbol](a, b)


def inverted(x: Value) -> Value:
    """`~x` of whole numbers.

    Raises:
        TypeError: it is relaxed.
    """
    if _is_soft(x):
        raise TypeError(f"`~` is for bits, got {kind(x)}; write `not`")
    return ~x


def _on_bits(function: Callable[..., Any], instead: str) -> Callable[..., Any]:
    """A function of torch that would make a hard choice of what is relaxed, and does not."""

    def call(*args: Any, **more: Any) -> Any:
        soft = next(filter(_is_soft, args[:1] if function is torch.where else args), None)
        if soft is not None:
            raise TypeError(
                f"torch.{function.__name__} takes hard conditions, got {kind(soft)}; write "
                f"{instead}"
            )
        return function(*args, **more)

    return call


where = _on_bits(torch.where, "`a if c else b`, or an `if`")
logical_and = _on_bits(torch.logical_and, "`and`")
logical_or = _on_bits(torch.logical_or, "`or`")
logical_not = _on_bits(torch.logical_not, "`not`")
logical_xor = _on_bits(torch.logical_xor, _IN_WORDS["^"].removeprefix("write "))


def _is_soft(x: Value) -> bool:
    """Whether it is relaxed, and no tensor of whole numbers or bools."""
    return is_relaxed(x) and not (isinstance(x, Tensor) and not x.is_floating_point())


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
    tconorm: TConormLike | None = ...,
    tolerance: float | None = ...,
    max_iterations: int | None = ...,
    clip: float | Mapping[str, float] | None = ...,
    normaliser: Literal["differentiated", "constant"] | None = ...,
    execution: str | Execution | None = ...,
) -> Callable[[Callable[..., Any]], Program]: ...
@worded()
def relax(
    function: Callable[..., Any] | None = None,
    /,
    *,
    scale: Scale | None = None,
    dist: DistLike | None = None,
    tconorm: TConormLike | None = None,
    tolerance: float | None = None,
    max_iterations: int | None = None,
    clip: float | Mapping[str, float] | None = None,
    normaliser: Literal["differentiated", "constant"] | None = None,
    execution: str | Execution | None = None,
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
        dist: the distribution.
        tconorm: the 'or'.
        tolerance: the probability at which loops end.
        max_iterations: the bound of loops.
        clip: the bound of the gradient that a decision passes back.
        normaliser: of a real-valued place.
        execution: what becomes of paths: "merged" behind each block, at first; "joint", kept apart;
            "sampled"; or `Joint(paths=...)`, `Sampled(samples=...)`.

    Returns:
        A `Program`.

    Raises:
        RelaxError: a SyntaxError that shows the line of what cannot be relaxed, and says why.
    """
    settings = dict(
        scale=scale, dist=dist, tconorm=tconorm, tolerance=tolerance, max_iterations=max_iterations,
        clip=clip, normaliser=normaliser, execution=execution,
    )  # fmt: skip
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
