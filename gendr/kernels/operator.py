"""The one layer between kernels and autograd.

An operator is a function of tensors and of a `spec`, everything else that it needs. It is declared
once: its definition in plain torch, and where a backend keeps its kernels. This layer owns the
rest: detached, contiguous inputs for kernels; first derivatives by a kernel; derivatives of any
higher order, and everything that `torch.func` and `torch.compile` do, by the definition, or where
there is none an error for second ones; gradients in the shape and dtype of their inputs.

    GATES = Operator("gates", reference=gates)
    y = GATES(kernels, wires, x, tables)     # kernels: what a backend has for it, or None

A system asks `gendr.kernels.backends.Choice` for the backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import methodcaller
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, cast

import torch
from torch import Tensor

from gendr._common import memory
from gendr._common.ranges import finite
from gendr._common.tracing import is_plain, is_traced, refuse_batched

Tensors: TypeAlias = "tuple[Tensor, ...]"
Input: TypeAlias = "Tensor | float | None"


class Kernels(Protocol):
    """What a backend has for an operator: functions of detached, contiguous tensors.

    Kernels that are `wide` take and give float64, whatever the dtype of the inputs. Those that are
    `strided` take gradients as they come, contiguous or not.

    A third one, `traced(spec, *inputs)`, may stand beside them: the operator in graphs of
    `torch.compile`, where without it the definition is traced. Those of operators without a
    definition have the name of their `backend`, for errors.
    """

    @property
    def forward(self) -> Callable[..., tuple[Tensors, tuple[Any, ...]]]:
        """(spec, *inputs, save) -> the results, and what `backward` wants to have saved.

        Without `save` nothing need be.
        """
        ...

    @property
    def backward(self) -> Callable[..., tuple[Tensor | None, ...]]:
        """(spec, inputs, saved, grads, wanted) -> the gradients of the inputs.

        Those not `wanted` may be None. That of a number may come in parts, a tensor of any shape
        whose sum it is. Of the `grads` of several results some, but not all, may be None, which
        stands for zeros.
        """
        ...


class KernelPair(NamedTuple):
    """Kernels of an operator as two functions; see `Kernels`."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    wide: bool = False
    strided: bool = False
    backend: str = "cpu"


class Operator:
    """A differentiable function of tensors and a spec, with kernels beside its definition.

    Args:
        name: for messages and tests.
        reference: (spec, *inputs) -> the result, or a tuple of them, in plain torch; None if there
            are kernels only, and so no second derivatives.
        replay: (spec, saved, *inputs) -> what `reference` gives, with what `forward` saved in place
            of what the definition would search for, such as an order or a threshold; higher
            derivatives are then those of the result that kernels found. None for the reference.
        constant: the places of results that have no gradient.
    """

    known: ClassVar[dict[str, Operator]] = {}

    def __init__(
        self,
        name: str,
        *,
        reference: Callable[..., Any] | None,
        replay: Callable[..., Any] | None = None,
        constant: Sequence[int] = (),
    ) -> None:
        self.name, self.reference, self.replay = name, reference, replay
        self.constant = constant
        if reference is not None:
            self.known[name] = self

    def __call__(self, kernels: Kernels | None, spec: Any, *inputs: Input) -> Any:
        """The result, or a tuple of them.

        Args:
            kernels: of a backend; None for the definition.
            spec: what is no tensor.
            inputs: tensors that may get gradients, the first of which decides the dtype; numbers
                in place of 0-dim ones; None where one is optional.
        """
        traced, watched = getattr(kernels, "traced", None), is_traced()
        if kernels is None or (watched and traced is None and self.reference is not None):
            return cast("Any", self.reference)(spec, *inputs)
        if traced is not None and not all(is_plain(x) for x in inputs if isinstance(x, Tensor)):
            return traced(spec, *inputs)
        # Where no transform of `torch.func` is at work, what `Function.apply` does beside calling
        # `_apply` is to take off what one that is over has left.
        if watched:
            results: Any = _Applied.apply((self, kernels, spec), *inputs)
        else:
            bare = [*inputs]
            for place, value in enumerate(inputs):
                if isinstance(value, Tensor):
                    bare[place] = _bare(value)
            results = _apply((self, kernels, spec), *bare)
        return results[0] if len(results) == 1 else results

    def differentiable_backward(
        self,
        spec: Any,
        inputs: Sequence[Input],
        grads: Sequence[Tensor | None],
        saved: Sequence[Any] = (),
    ) -> tuple[Tensor | None, ...]:
        """The gradients of the inputs through the definition, or its replay, with a graph."""
        wanted = [t for t in inputs if isinstance(t, Tensor) and t.requires_grad]
        with torch.enable_grad():
            if self.replay is None:
                results = cast("Any", self.reference)(spec, *inputs)
            else:
                results = self.replay(spec, saved, *inputs)
            results = (results,) if isinstance(results, Tensor) else results
            pairs = [
                # The zero keeps a result that depends on no input in the graph.
                (result if result.requires_grad else result + 0 * wanted[0].sum(), grad)
                for result, grad in zip(results, grads, strict=True)
                if grad is not None
            ]
            outputs, upstream = zip(*pairs, strict=True)
            gradients = iter(
                torch.autograd.grad(
                    outputs, wanted, upstream, create_graph=True, materialize_grads=True
                )
            )
        return tuple(
            next(gradients) if isinstance(t, Tensor) and t.requires_grad else None for t in inputs
        )


def _plain(values: Iterable[Any], wide: bool, strided: bool = False) -> list[Any]:
    """Inputs as kernels take them; they may read them only, as they may be the user's own."""
    found = [*values]
    for place, value in enumerate(found):
        if isinstance(value, Tensor):
            if value.requires_grad:
                value = value.detach()
            if wide:
                value = value.double()
            if not strided and not value.is_contiguous():
                is_kept = value.device.type == "cpu" and value.nbytes >= memory.LARGE
                value = memory.empty_like(value).copy_(value) if is_kept else value.contiguous()
            found[place] = value
    return found


def _in_place_of(values: Sequence[Any], grads: Iterable[Tensor | None]) -> list[Tensor | None]:
    """Gradients in the shapes and dtypes of their inputs; None for those that are no tensors."""
    found: list[Tensor | None] = []
    for value, grad in zip(values, grads, strict=True):
        if grad is None or not isinstance(value, Tensor):
            grad = None
        elif grad.shape == value.shape:
            grad = grad if grad.dtype is value.dtype else grad.to(value.dtype)
        elif value.ndim == 0:
            grad = finite(grad.sum().to(value.dtype))
        else:
            grad = grad.reshape(value.shape).to(value.dtype)
        found.append(grad)
    return found


class _Applied(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, call: tuple[Operator, Kernels, Any], *inputs: Input
    ) -> Tensors:
        operator, kernels, spec = call
        save = True in ctx.needs_input_grad
        wide = getattr(kernels, "wide", False)
        results, saved = kernels.forward(spec, *_plain(inputs, wide), save=save)
        if wide:
            dtype = next(filter(torch.is_tensor, inputs)).dtype  # pyright: ignore[reportAttributeAccessIssue]
            results = tuple(map(methodcaller("to", dtype), results))
        ctx.set_materialize_grads(False)
        if operator.constant:
            ctx.mark_non_differentiable(*map(results.__getitem__, operator.constant))
        if save:
            tensors, others = [*inputs, *saved], [*inputs, *saved]
            for place, value in enumerate(tensors):
                (others if isinstance(value, Tensor) else tensors)[place] = None
            ctx.save_for_backward(*tensors)
            ctx.call = *call, len(inputs), others
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        refuse_batched(grads)
        operator, kernels, spec, count, others = ctx.call
        for grad in grads:
            if grad is not None:
                break
        else:
            return (None,) * (1 + count)
        values = [*others]
        for place, value in enumerate(ctx.saved_tensors):
            if value is not None:
                values[place] = value
        inputs, saved = tuple(values[:count]), tuple(values[count:])
        graded = torch.is_grad_enabled()  # a graph of the backward pass is wanted
        if graded and operator.reference is not None:
            return None, *operator.differentiable_backward(spec, inputs, grads, saved)
        wide = getattr(kernels, "wide", False)
        strided = getattr(kernels, "strided", False)
        gradients = kernels.backward(
            spec, tuple(_plain(inputs, wide)), saved, tuple(_plain(grads, wide, strided)),
            ctx.needs_input_grad[1:],
        )  # fmt: skip
        results = _in_place_of(inputs, gradients)
        if graded:
            sources = [x for x in (*grads, *inputs) if isinstance(x, Tensor)]
            results = [None if x is None else _Once.apply(kernels, x, *sources) for x in results]
        return None, *results


_apply: Any = super(torch.autograd.Function, _Applied).apply  # pyright: ignore[reportAttributeAccessIssue]
_bare = torch._C._functorch.unwrap_if_dead  # pyright: ignore[reportAttributeAccessIssue]


class _Once(torch.autograd.Function):
    """Gradients that depend on their sources, so that a second derivative raises an error."""

    @staticmethod
    def forward(ctx: Any, kernels: Kernels, value: Tensor, *sources: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.kernels = kernels
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        no_second_derivative(ctx.kernels.backend)


def no_second_derivative(backend: str) -> None:
    """Raise for the derivative of a gradient that only kernels have found."""
    raise RuntimeError(
        f"the {backend} backend has no second derivatives; use backend='reference' for them"
    )
