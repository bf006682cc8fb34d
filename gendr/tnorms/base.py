"""What every T-conorm offers: pairwise calls, reductions, the fold of whole pixels, the dual.

An Archimedean T-conorm is A = g^-1(sum of g(a_i)) for an increasing generator g with g(0) = 0, so
its derivative is g'(a_i) / g'(A). The file of a family has these formulas as plain functions, its
kernel functions (`gendr.tnorms.kernel_functions`), which this class and the compilers of kernels
call alike. A value a always travels with its complement s = 1 - a, because near 1 only s has digits
left. Sums and derivatives are taken in float64 whatever the input, so float32 neither overflows nor
loses small members (a device without float64 stays in the dtype it has).

Two rules differ on the edges of [0, 1]. In the renderer (`aggregate`) a = 0 is a face that is not
there and a = 1 one that hides everything: both get gradient 0. Called directly (`t(a, b)`,
`t.reduce`), a T-conorm returns its true one-sided partial derivatives wherever they are finite.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from gendr._common.registry import Registered
from gendr._common.tracing import applied, check_reverse_mode, constant, doubled, is_traced
from gendr.tnorms.groups import Along, Grouping

if TYPE_CHECKING:
    from typing_extensions import Self

_Values: TypeAlias = "tuple[Tensor, Tensor, Tensor, Tensor]"


class TConorm(Registered, ABC):
    """A real-valued 'or' on [0, 1] (thesis definition 5.1).

    Attributes:
        name: its name in texts such as "yager(p=2)".
        formula: the pairwise form, for people.
        parameter: the range of p, for people; empty for a family without p.
        kind: how it folds: by a generator ("archimedean"), by the maximum or by the mean.
        is_product: whether it is a + b - a b, whose dual is the product; callers have shorter
            formulas for it.
        given_p: the parameter p as it was given, None for a family without one.
        kernel_functions: the functions that compiled kernels take, by name
            (`gendr.tnorms.kernel_functions`); None for those that stand in the file of the class.
            Two families in one file name theirs.

    Raises:
        ValueError: when a subclass is defined that takes a name of the package's; `Registered`.
    """

    name: ClassVar[str]
    kernel_functions: ClassVar[Mapping[str, Callable[..., Any]] | None] = None
    formula: ClassVar[str]
    parameter: ClassVar[str] = ""
    kind: ClassVar[Literal["archimedean", "max", "mean"]]
    is_product: ClassVar[bool] = False
    given_p: float | Tensor | None = None

    @classmethod
    def examples(cls) -> tuple[TConorm, ...]:
        """Members that tests walk through; the first one stands in messages."""
        return (cls(),)

    def __call__(self, a: Tensor | float, b: Tensor | float) -> Tensor:
        """Join a and b elementwise.

        Args:
            a: values in [0, 1]; not checked.
            b: the same, in any shape that broadcasts.

        Returns:
            The joined values; their derivatives are the true ones, edges and corners included
            (0 where one is infinite).
        """
        return self.reduce(_stacked(a, b))

    def reduce(self, values: Tensor, dim: int = -1) -> Tensor:
        """Join all values along `dim`.

        Args:
            values: in [0, 1], any shape. Not checked.
            dim: the dimension to join; an empty one gives 0, the neutral element.

        Returns:
            `values` without `dim`, with true derivatives as in a pairwise call.
        """
        check_reverse_mode()
        values = _floating(values)
        return self._fold_with_gradient(values, 1 - values, Along(dim), partials=True)[0]

    def aggregate(self, a: Tensor, s: Tensor, group: Grouping) -> tuple[Tensor, Tensor]:
        """Join the members of every group, by the renderer's rules for gradients.

        Args:
            a: coverage of the members, in [0, 1].
            s: 1 - a, computed without cancellation, and as a function of the same leaves as a:
                its own gradient is 0, because the one to a is the total derivative.
            group: which members belong together.

        Returns:
            (A, S) per group, S = 1 - A. An empty group gives (0, 1); one with a saturated member
            (s <= 0) gives exactly (1, 0). Members with a = 0 and all members of saturated groups
            get gradient 0. Twice differentiable in a, once in p.
        """
        check_reverse_mode()
        return self._fold_with_gradient(a, s, group, partials=False)

    @abstractmethod
    def _fold_with_gradient(
        self, a: Tensor, s: Tensor, group: Grouping, partials: bool
    ) -> tuple[Tensor, Tensor]:
        """(A, S) per group; `partials` asks for true derivatives on the edges."""

    def with_p(self, p: float | Tensor) -> TConorm:
        """The same family with another parameter.

        Raises:
            TypeError: the family has none.
        """
        raise TypeError(f"{self.name} has no parameter p, got p = {p}")

    def inverse(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """(A, S) with g(A) = t, for families with a generator.

        Raises:
            TypeError: the family has none.
        """
        raise TypeError(f"{self.name} has no generator")

    def weight_p(self, a: Tensor, s: Tensor, A: Tensor, S: Tensor) -> Tensor:
        """Return (dg/dp)(a) / g'(A), for families with a parameter.

        Raises:
            TypeError: the family has none.
        """
        raise TypeError(f"{self.name} has no parameter p")

    @property
    def dual(self) -> TNorm:
        """The T-norm 1 - t(1 - a, 1 - b)."""
        return TNorm(self)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class TNorm:
    """A real-valued 'and' on [0, 1], the dual of a T-conorm (thesis appendix B, table B.1)."""

    dual: TConorm

    @property
    def name(self) -> str:
        """The name it shares with its dual."""
        return self.dual.name

    def __call__(self, a: Tensor | float, b: Tensor | float) -> Tensor:
        """Join a and b elementwise.

        Args:
            a: values in [0, 1]; not checked.
            b: the same, in any shape that broadcasts.

        Returns:
            The joined values, with true derivatives as those of the T-conorm.
        """
        return self.reduce(_stacked(a, b))

    def reduce(self, values: Tensor, dim: int = -1) -> Tensor:
        """Join all values along `dim`.

        Args:
            values: in [0, 1], any shape. Not checked.
            dim: the dimension to join; an empty one gives 1, the neutral element.

        Returns:
            `values` without `dim`, with true derivatives.
        """
        check_reverse_mode()
        values = _floating(values)
        # The T-norm of the values is the complement of the T-conorm of theirs: small values
        # keep their digits.
        return self.dual._fold_with_gradient(1 - values, values, Along(dim), partials=True)[1]

    def __str__(self) -> str:
        return str(self.dual)


class Archimedean(TConorm):
    """A T-conorm with a generator.

    All formulas are elementwise on tensors of one shape: a in [0, 1] with its complement s = 1 - a,
    and the joined A with S = 1 - A. A family gives `slope_at_one` here, and the kernel functions
    `generator`, `inverse` and `weight` beside the class, or methods of these names (`_weight`) in
    their place. The plain formula of a weight is only asked for where a, s, A and S are positive
    (and a = 0 if not `steep`).
    """

    kind = "archimedean"
    p: ClassVar[Any] = None

    def generator(self, a: Tensor, s: Tensor) -> Tensor:
        """Return g(a); 0 at a = 0 and inf at s = 0."""
        return self._kernel_function("generator", a, s)

    def inverse(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """(A, S) with g(A) = t in [0, inf], each to full precision."""
        return self._kernel_function("inverse", t)

    def _weight(self, a: Tensor, s: Tensor, A: Tensor, S: Tensor) -> Tensor:
        """g'(a) / g'(A), as a ratio that neither overflows nor cancels."""
        return self._kernel_function("weight", a, s, A, S)

    def _kernel_function(self, kind: str, *arguments: Tensor) -> Any:
        """A kernel function of the family on tensors; it gets p if it takes one more argument."""
        named = type(self).kernel_functions
        module = sys.modules[type(self).__module__]
        function = getattr(module, kind, None) if named is None else named.get(kind)
        if function is None:
            raise NotImplementedError(
                f"{self.name} lacks {kind!r}; write that function beside {type(self).__qualname__}"
            )
        if argument_count(function) > len(arguments):
            return function(*arguments, self._p)
        return function(*arguments)

    @property
    def _p(self) -> Any:
        """The parameter in the precision of the sums."""
        return doubled(self.p) if isinstance(self.p, Tensor) else self.p

    def weight(self, a: Tensor, s: Tensor, A: Tensor, S: Tensor) -> Tensor:
        """dA/da = g'(a) / g'(A); 0 where a, s, A or S is not positive."""
        return _inside(self._weight, a, s, A, S)

    @abstractmethod
    def slope_at_one(self, b: Tensor, s: Tensor) -> Tensor:
        """The derivative of t(a, b) in a at a = 1 for b < 1, where s = 1 - b."""

    @property
    def steep(self) -> bool:
        """Whether g'(0) is infinite."""
        return False

    def fold(self, a: Tensor, s: Tensor, group: Grouping) -> tuple[Tensor, Tensor]:
        """(A, S) per group, without gradient rules."""
        return self.inverse(group.sum(self.generator(a, s)))

    def _fold_with_gradient(
        self, a: Tensor, s: Tensor, group: Grouping, partials: bool
    ) -> tuple[Tensor, Tensor]:
        p = self.p if isinstance(self.p, Tensor) else None
        return _fold(a, s, p, self, group, partials)


@dataclass(frozen=True)
class Parametric(Archimedean):
    """A family with a parameter.

    Attributes:
        bounds: what p lies between.
        parameter: the same for people.
        example_p: the parameters of its examples.

    Args:
        p: a number or a 0-dim tensor (learnable if it requires a gradient).

    Raises:
        TypeError: p is neither.
        ValueError: p is outside the range of the family.
    """

    p: float | Tensor  # pyright: ignore[reportIncompatibleVariableOverride]

    bounds: ClassVar[tuple[float, float]] = (0.0, math.inf)
    parameter = "p > 0"
    example_p: ClassVar[tuple[float, ...]] = (2.0, 0.5)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """One for each of `example_p`."""
        return tuple(map(cls, cls.example_p))

    @property
    def given_p(self) -> float | Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The parameter p as it was given."""
        return self.p

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", _number(self.name, self.p, self.parameter))
        if isinstance(self.p, Tensor) and self.p.is_cuda:
            return  # to look would mean to wait
        if not self.bounds[0] < self.value < self.bounds[1]:
            raise ValueError(
                f"{self.name} needs a finite {self.parameter}, got p = {_text(self.value)}"
            )

    def _weight_p(self, a: Tensor, s: Tensor, A: Tensor, S: Tensor) -> Tensor:
        """The plain formula of `weight_p`."""
        return self._kernel_function("weight_p", a, s, A, S)

    def weight_p(self, a: Tensor, s: Tensor, A: Tensor, S: Tensor) -> Tensor:
        """Return (dg/dp)(a) / g'(A); 0 where a, s, A or S is not positive.

        dA/dp is its sum over the members, less its value at (A, S) itself. A multiple of g(a) does
        not change that difference: a family may add one that depends on A and p.
        """
        return _inside(self._weight_p, a, s, A, S)

    def with_p(self, p: float | Tensor) -> Self:
        """The same family with another parameter."""
        return replace(self, p=p)

    @property
    def value(self) -> float:
        """The parameter as a number."""
        return self.p.item() if isinstance(self.p, Tensor) else self.p

    def __str__(self) -> str:
        return f"{self.name}(p={_text(self.value)})"


@dataclass(frozen=True)
class Norm(Parametric):
    """A family that is the p-norm of a measure u(a): g(a) = u(a)^p.

    It gives the kernel functions `measure` and `unmeasure` in place of `generator` and `inverse`.
    The fold divides by the largest member, so that no power overflows or vanishes, whatever p is.
    """

    def measure(self, a: Tensor, s: Tensor) -> Tensor:
        """Return u(a): 0 at a = 0, inf at s = 0."""
        return self._kernel_function("measure", a, s)

    def unmeasure(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """(A, S) with u(A) = u in [0, inf]."""
        return self._kernel_function("unmeasure", u)

    @property
    def steep(self) -> bool:
        """Whether p < 1."""
        return self.value < 1

    def generator(self, a: Tensor, s: Tensor) -> Tensor:
        """u(a)^p."""
        return self.measure(a, s) ** self._p

    def inverse(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """The p-th root of t, taken back to (A, S)."""
        return self.unmeasure(t ** (1 / self._p))

    def fold(self, a: Tensor, s: Tensor, group: Grouping) -> tuple[Tensor, Tensor]:
        """The p-norm of u, in units of its largest member."""
        u = self.measure(a, s)
        top = group.max(u)
        unit = torch.where((top > 0) & (top < math.inf), top, 1.0)
        return self.unmeasure(
            unit * group.sum((u / group.expand(unit)) ** self._p) ** (1 / self._p)
        )


class _Fold(torch.autograd.Function):
    """Archimedean aggregation whose gradient is the family's `weight`.

    The gradient to s is none, since the one to a is total; the second derivative is that of
    `weight`, a differentiable function of the inputs and outputs.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        a: Tensor,
        s: Tensor,
        p: Tensor | None,
        family: Archimedean,
        group: Grouping,
        partials: bool,
    ) -> tuple[Tensor, Tensor]:
        # + 0: a complement of -0 is one of 0, and not the sign of an infinity.
        wide = doubled(a)
        nan = 0.0 * group.sum(wide)  # where a member is NaN, which minima and conditions drop; or 0
        rest = doubled(s) + 0.0
        A, S = family.fold(wide, rest, group)
        # A member alone stays what it is to the last bit, so that the gradient to p is 0 exactly.
        there = wide > 0
        alone = group.sum(there.to(wide.dtype)) == 1
        A = torch.where(alone, group.sum(torch.where(there, wide, 0.0)), A)
        S = torch.where(alone, group.sum(torch.where(there, rest, 0.0)), S)
        return (A + nan).to(a.dtype), (S + nan).to(a.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        a, s, p, ctx.family, ctx.group, ctx.partials = inputs
        # p is saved for its version check only; the formulas read it from the family.
        ctx.save_for_backward(a, s, p, *output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        a, s, p, A, S = ctx.saved_tensors
        family, group, values = ctx.family, ctx.group, (a, s, A, S)
        change = doubled(gradients[0]) - doubled(gradients[1])  # dS = -dA
        to_a = to_p = None
        if ctx.needs_input_grad[0]:
            w = _weights(family, group, values, ctx.partials)
            to_a = (group.expand(change) * w).to(a.dtype)
        if ctx.needs_input_grad[2]:
            members = _members(family, group, values, ctx.partials)
            A, S = doubled(A), doubled(S)
            slope = group.sum(family.weight_p(*members)) - family.weight_p(A, S, A, S)
            to_p = (change * slope).sum()
            to_p = to_p.to(p.dtype).reshape(p.shape)
        return to_a, None, to_p, None, None, None


_fold = applied(_Fold)


def _inside(formula: Any, a: Tensor, s: Tensor, A: Tensor, S: Tensor, zero: bool = False) -> Tensor:
    """`formula` on the open interval (with a = 0 if `zero`); 0 elsewhere and where it overflows.

    The places left out see harmless values, so that no derivative of the formula meets 0/0.
    """
    inside = (s > 0) & (A > 0) & (S > 0) & ((a >= 0) if zero else (a > 0))
    value = formula(*(torch.where(inside, x, 0.5) for x in (a, s, A, S)))
    return torch.where(inside & torch.isfinite(value), value, 0.0)


def _members(family: Archimedean, group: Grouping, values: _Values, partials: bool) -> _Values:
    """(a, s) and the totals of every member, in float64, from (a, s, A, S).

    For the renderer, cuts far below what the pdf of any distribution buries (1e-77) keep second
    derivatives finite: of s and S where odds are taken, of a where g'(0) is infinite. There float32
    needs a higher one (1e-19), since the gradient to a is of its dtype.
    """
    least = torch.finfo(values[0].dtype).tiny ** 0.5
    a, s, A, S = map(doubled, values)
    A, S = group.expand(A), group.expand(S)
    if partials:
        return a, s, A, S
    root = torch.finfo(s.dtype).tiny ** 0.25
    if family.steep:
        a = torch.where(a > max(least, root), a, 0.0)
    return a, torch.where(s > root, s, 0.0), A, torch.where(S > root, S, 0.0)


def _weights(family: Archimedean, group: Grouping, values: _Values, partials: bool) -> Tensor:
    """dA/da of every member, by the renderer's rules or as true partial derivatives."""
    largest = torch.finfo(values[0].dtype).max
    members = _members(family, group, values, partials)
    w = _inside(family._weight, *members, zero=partials and not family.steep)
    if partials:
        a, s, total, _ = members
        w = torch.where(total > 0, w, 1.0)  # all are 0, and t(a, 0) = a
        full = s <= 0
        if is_traced() or bool(full.any()):
            with torch.no_grad():
                # Only the sole saturated member can lower the total; the others decide how fast.
                sole = full & (group.expand(group.sum(full.to(s.dtype))) == 1)
                b, rest = family.fold(a.masked_fill(full, 0.0), s.masked_fill(full, 1.0), group)
                b, rest = group.expand(b), group.expand(rest)
                slope = torch.where(rest > 0, family.slope_at_one(b, rest), 0.0)
            w = torch.where(sole, slope, w)
    # A weight too large for the dtype belongs to a member that is 0 for all purposes.
    return torch.where(w.abs() <= largest, w, 0.0)


@constant
def argument_count(function: Any) -> int:
    """How many arguments a kernel function takes."""
    return function.__code__.co_argcount


def _floating(values: Tensor) -> Tensor:
    if not isinstance(values, Tensor):
        raise TypeError(f"values must be a tensor, got {type(values).__name__}")
    return values if values.is_floating_point() else values.to(torch.get_default_dtype())


def _stacked(a: Tensor | float, b: Tensor | float) -> Tensor:
    """Both operands in one tensor, along a new last dimension."""
    device = next((x.device for x in (a, b) if isinstance(x, Tensor)), None)
    dtype = torch.result_type(a, b)
    pair = (torch.as_tensor(x, dtype=dtype, device=device) for x in (a, b))
    return torch.stack(torch.broadcast_tensors(*pair), -1)


def _number(name: str, p: Any, parameter: str) -> float | Tensor:
    """A float, or a 0-dim floating tensor, from what the caller gave."""
    if isinstance(p, Tensor):
        if p.ndim or not p.is_floating_point():
            raise TypeError(
                f"{name} needs {parameter} as a number or a 0-dim floating tensor, "
                f"got a {p.dtype} tensor of shape {tuple(p.shape)}"
            )
        return p
    if isinstance(p, (bool, str, bytes)) or not hasattr(p, "__float__"):
        raise TypeError(
            f"{name} needs {parameter} as a number or a 0-dim tensor, got {type(p).__name__} {p!r}"
        )
    return float(p)


def _text(p: float) -> str:
    """The shortest text that parses back to p."""
    return repr(p).removesuffix(".0")


def has_parameter(family: type[TConorm]) -> bool:
    """Whether the family takes p."""
    return "p" in getattr(family, "__match_args__", ())  # `torch.compile` cannot read `fields`
