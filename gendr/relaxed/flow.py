"""Branches and loops (thesis 2.10 to 2.12)."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch import Tensor

from gendr._common.tracing import applied, is_traced
from gendr.relaxed.execution import Path, Unlikely
from gendr.relaxed.settings import (
    PATIENCE,
    TRACED,
    Settings,
    at_ties,
    current,
    doubtful_of,
    reached_of,
    with_ties,
)
from gendr.relaxed.values import Array, Value, as_float, blend, is_relaxed, kind


class _Finite(torch.autograd.Function):
    """The identity; gradients that are not finite are 0 where `away` is true."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, away: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (away,) = ctx.saved_tensors
        return torch.where(away & ~grads[0].isfinite(), 0.0, grads[0]), None


_finite = applied(_Finite)


def _read(x: Tensor, path: Path) -> Tensor:
    """What a branch reads, without the slopes that do not count in it.

    There a derivative may be NaN or infinite, and 0 of it would be NaN.
    """
    reached, doubtful = reached_of(path), doubtful_of(path)
    if reached is not None and x.ndim in (0, reached.ndim):
        x = torch.where(reached, x, x.detach())
    if doubtful is not None and x.ndim in (0, doubtful.ndim):
        x = _finite(x.expand(torch.broadcast_shapes(x.shape, doubtful.shape)), doubtful)
    return x


class Undefined:
    """The value of a variable that has none yet."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, attribute: str) -> Any:
        raise UnboundLocalError(f"{self.name} has no value yet")

    def _unbound(self, *_: object) -> Any:
        raise UnboundLocalError(f"{self.name} has no value yet")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _unbound
    __lt__ = __gt__ = __le__ = __ge__ = __neg__ = __bool__ = __getitem__ = __call__ = _unbound


def _part(
    settings: Settings,
    reached: tuple[Tensor, bool] | None,
    part: int,
    function: Callable[..., Any],
    state: tuple[Value, ...],
) -> Any:
    """What a part of a block gives.

    Args:
        settings: of the run.
        reached: p, and whether the part runs where a decision with this probability is true; None
            if it runs anyway.
        part: its number in the block.
        function: it.
        state: its arguments.
    """
    if not settings.running:
        return function(*state)
    trajectories = settings.trajectories
    saved = trajectories.enter(part) if trajectories else None
    length = len(settings.path)
    if reached is not None:
        settings.path.append(reached)
    try:
        return function(*state)
    finally:
        del settings.path[length:]
        if trajectories and saved:
            trajectories.leave(saved)


def here(x: Value) -> Value:
    """A value as it is read in a branch: no derivative by it where the branch is not taken.

    Where only a tie comes to it, which the hard program decides otherwise, none that is not finite.
    """
    if isinstance(x, Array) and x.ndim:
        return x
    if not (isinstance(x, Tensor) and x.requires_grad):
        return x
    return _read(x, current().path)


def _known(
    settings: Settings, p: Tensor, true: bool, state: tuple[Value, ...]
) -> tuple[Value, ...]:
    """The state of a branch of a function of the user's, as `here` has it in programs."""
    if settings.running or not any(isinstance(x, Tensor) and x.requires_grad for x in state):
        return state
    return tuple(
        _read(x, [(p, true)]) if isinstance(x, Tensor) and x.requires_grad else x for x in state
    )


def undefined(name: str) -> Any:
    """The value of the variable `name` before its first assignment."""
    return Undefined(name)


def _blended(p: Tensor, yes: Value, no: Value, name: str) -> Value:
    """`blend`, with the name of the variable in errors."""
    if yes is no:
        return no
    if isinstance(yes, Undefined) or isinstance(no, Undefined):
        raise UnboundLocalError(
            f"{name} has no value on one side of a relaxed decision, but is used afterwards; give "
            "it one before"
        )
    try:
        return blend(p, yes, no)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None


def _names(function: Callable[..., Any], count: int) -> tuple[str, ...]:
    code = getattr(function, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code else ()
    return names if len(names) >= count else ("the result",) * count


def cond(
    condition: Value,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any] | None = None,
    *state: Value,
) -> Any:
    """`if condition: ... else: ...`: the convex combination of what two functions return.

    >>> cond(less(x, 0.0), lambda y: y + 1, lambda y: y - 1, y)

    Both branches run, each on its own copy of the state, and branches inside them are blended
    there: nested decisions are exact. What a branch does not change is not blended. A plain
    condition chooses one branch, as Python does.

    Args:
        condition: a probability [*batch], or a plain condition.
        if_true: from the state to the new state: one value, or a tuple of several.
        if_false: the same for the other case; without it the state stays as it is.
        state: the variables: numbers, tensors, arrays, categorical values, and tuples of these.

    Returns:
        The new state: one value if the functions return one, else a tuple.

    Raises:
        TypeError, ValueError: values that cannot be blended.
    """
    if not is_relaxed(condition):
        if condition:
            return if_true(*state)
        return if_false(*state) if if_false else state[0] if len(state) == 1 else state
    p = _probability(condition)
    settings = current()
    yes = no = None
    unlikely: list[Unlikely] = []
    try:
        yes = _part(settings, (p, True), 1, if_true, _known(settings, p, True, state))
    except Unlikely as error:
        unlikely.append(error)
    try:
        same = state[0] if len(state) == 1 else state
        others = _known(settings, p, False, state)
        no = _part(settings, (p, False), 0, if_false, others) if if_false else same
    except Unlikely as error:
        unlikely.append(error)
        no = yes
    if settings.trajectories:
        settings.trajectories.count += 1
    if len(unlikely) == 2:
        raise unlikely[0]
    if unlikely:  # the other branch stands for both, as the last state of a loop does
        return no
    if yes is no:
        return no
    if len(state) > 1 and isinstance(yes, tuple) and isinstance(no, tuple):
        if len(yes) == len(no):
            names = _names(if_true, len(yes))
            return tuple(
                no_part if yes_part is no_part else _blended(p, yes_part, no_part, name)
                for yes_part, no_part, name in zip(yes, no, names, strict=False)
            )
    return _blended(p, yes, no, *_names(if_true, 1)[:1] if len(state) == 1 else ("the result",))


def _probability(condition: Value) -> Tensor:
    if not isinstance(condition, Tensor):
        raise TypeError(f"{kind(condition)} is no condition; ask any(...) or all(...) of it")
    trajectories, sure = current().trajectories, at_ties(condition)
    if trajectories is None:
        return as_float(condition)
    p = trajectories.decide(as_float(condition))
    return p if sure is condition else with_ties(p, lambda: sure)


def _still(alive: Tensor | None, p: Tensor) -> Tensor:
    """The probability to go on where the loop has come so far: a state not reached may be NaN."""
    if alive is None:
        return p
    gone, sure = alive == 0, at_ties(p)
    found = torch.where(gone, 0.0, p)
    return found if sure is p else with_ties(found, lambda: torch.where(gone, 0.0, sure))


def _going_on(alive: Tensor | None, p: Tensor) -> Tensor:
    """The probability that a loop goes on once more, detached, with the ties of its decisions."""
    if alive is None:
        found, known = p.detach(), None
    else:
        found, known = alive * p.detach(), at_ties(alive)
    sure = at_ties(p)
    if sure is p and (known is None or known is alive):
        return found
    return with_ties(found, lambda: sure.detach() if known is None else known * sure.detach())


def while_loop(
    going_on: Callable[..., Value],
    body: Callable[..., Any],
    state: tuple[Value, ...],
    *,
    keep: int | None = None,
) -> tuple[Value, ...]:
    """`while going_on: body`: the expected state over the number of iterations (thesis 2.12).

    The body runs on states that are not blended. State k counts with the probability that the loop
    goes on k times and then ends; what is left when the loop is stopped goes to the last state.

    >>> (x,) = while_loop(lambda x: greater(x, 1.0), lambda x: (x / 2,), (x,))

    Args:
        going_on: from the state to the condition.
        body: from the state to the next state, a tuple.
        state: the variables.
        keep: how many of them, from the first on, are wanted afterwards; only these are blended.

    Returns:
        The first `keep` variables.

    Raises:
        RuntimeError: the loop has not ended after many iterations, and no bound was given.
    """
    settings = current()
    bound = settings.max_iterations
    wanted = len(state) if keep is None else keep
    before: list[tuple[Tensor, tuple[Value, ...]]] = []
    traced = is_traced()  # then values decide nothing
    patience = TRACED if traced else PATIENCE
    alive: Tensor | None = None
    count = 0
    trajectories = settings.trajectories
    reached: tuple[Tensor, bool] | None = None

    def test(*state: Value) -> Value:
        condition = going_on(*state)
        return _probability(condition) if is_relaxed(condition) else condition

    while True:
        if bound is not None and alive is not None and count >= bound:
            break
        condition = _part(settings, reached, 2 * count, test, state)
        if is_relaxed(condition):
            p = _still(alive, cast(Tensor, condition))
            alive = _going_on(alive, p)
            reached = (alive, True)
            if traced:
                likely = 1.0
            else:
                chance = alive * trajectories.log.detach().exp() if trajectories else alive
                likely = float(chance.max()) if chance.numel() else 0.0
            if likely <= settings.tolerance:
                break
            if count >= patience and bound is None:
                if traced:
                    raise RuntimeError(
                        "a loop that is compiled, or transformed by torch.func, makes all its "
                        "iterations, since their number cannot depend on values; bound it by "
                        "max_iterations"
                    )
                raise RuntimeError(
                    f"the loop still goes on with a probability of {likely:.2g} after {count} "
                    "iterations; bound it by max_iterations, or make the scale smaller"
                )
            before.append((p, state[:wanted]))
        elif not condition:
            break
        try:
            state = _part(settings, reached, 2 * count + 1, body, state)
        except Unlikely:
            break
        count += 1
    if trajectories:
        trajectories.count += 1
    result = state[:wanted]
    names = _names(body, wanted)
    for p, earlier in reversed(before):
        result = tuple(
            b if a is b else _blended(p, a, b, name)
            for a, b, name in zip(result, earlier, names, strict=False)
        )
    return result


def counted(*bounds: Any) -> range:
    """`range(*bounds)`, with an error that says why a bound cannot be relaxed.

    Raises:
        TypeError: a bound is relaxed.
    """
    for bound in bounds:
        if is_relaxed(bound):
            raise TypeError(
                f"the number of iterations cannot be {kind(bound)}; use `while` with a comparison"
            )
    return builtins.range(*bounds)


def each(values: Any) -> Iterable[Any]:
    """What a `for` loop over `values` goes through.

    Raises:
        TypeError: a relaxed number.
    """
    if isinstance(values, Tensor):
        raise TypeError(
            "a relaxed number cannot be gone through; if it is an argument, say what it is, such "
            "as `x: Vector`; if it is a table from outside, use relaxed.array(table)"
        )
    if isinstance(values, Array) and values.ndim == 1:
        return values.cells
    return cast("Iterable[Any]", values)
