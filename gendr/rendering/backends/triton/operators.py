"""Kernels of this backend as operators of PyTorch, so that `torch.compile` traces through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from gendr._common.tracing import constant, is_plain
from gendr.kernels.operator import no_second_derivative

# CUDA graphs of `torch.compile` leave the operators out. They keep tables and the capacity of lists
# from call to call, and its graphs take the memory of a call back. A graph that the user captures
# after a few calls holds them; see `docs/results/rendering.md`.
TAGS = tuple(x for x in (getattr(torch.Tag, "cudagraph_unsafe", None),) if x is not None)


class GraphSpec(Protocol):
    """What a spec must be to stand in a graph, whose operators know tensors, text and integers."""

    def serialized(self) -> tuple[str, list[int]]:
        """The spec as text and integers."""
        ...


@constant
def text_of(values: Any) -> str:
    """Plain values as text, which `ast.literal_eval` reads."""
    return repr(values)


class GraphKernels:
    """Kernels of an operator with one result; see `gendr.kernels.operator.Kernels`.

    Plain tensors go past PyTorch's dispatcher, which takes the host as long again; for others the
    same functions are the operators `gendr::<name>` and `gendr::<name>_gradients`.

    Args:
        name: of the operators.
        forward: (spec, *inputs, save) -> ((result,), saved); all are tensors, and none is another.
        backward: (spec, inputs, saved, grads, wanted) -> gradients, in the shapes of the inputs;
            the first of what is saved is the result.
        fake: (spec, *inputs) -> the result and what is saved, as empty tensors.
        read: (text, integers) -> the spec, of what its `serialized` gives.
    """

    backend = "triton"

    def __init__(
        self,
        name: str,
        forward: Callable[..., Any],
        backward: Callable[..., Any],
        fake: Callable[..., list[Tensor]],
        read: Callable[[str, list[int]], Any],
    ) -> None:
        self._forward, self._backward = forward, backward

        @torch.library.custom_op(f"gendr::{name}", mutates_args=(), tags=TAGS)
        def operator(inputs: list[Tensor], text: str, numbers: list[int]) -> list[Tensor]:
            given = (x.detach().contiguous() for x in inputs)
            (result,), saved = forward(read(text, numbers), *given, save=True)
            return [result, *saved]

        @operator.register_fake
        def _(inputs: list[Tensor], text: str, numbers: list[int]) -> list[Tensor]:
            return fake(read(text, numbers), *inputs)

        @torch.library.custom_op(f"gendr::{name}_gradients", mutates_args=(), tags=TAGS)
        def gradients(
            grad: Tensor, inputs: list[Tensor], saved: list[Tensor], text: str, numbers: list[int],
            wanted: list[bool],
        ) -> list[Tensor]:  # fmt: skip
            given = tuple(x.detach().contiguous() for x in inputs)
            found = backward(read(text, numbers), given, saved, (grad.contiguous(),), wanted)
            pairs = zip(inputs, found, wanted, strict=True)
            return [g if want else x.new_empty(0) for x, g, want in pairs]

        @gradients.register_fake
        def _(
            grad: Tensor, inputs: list[Tensor], saved: list[Tensor], text: str, numbers: list[int],
            wanted: list[bool],
        ) -> list[Tensor]:  # fmt: skip
            return [x.new_empty(x.shape if w else 0) for x, w in zip(inputs, wanted, strict=True)]

        def keep(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
            given, *ctx.spec = inputs
            ctx.count = len(given)
            ctx.save_for_backward(*given, *output)
            ctx.set_materialize_grads(False)

        def differentiate(ctx: Any, grads: list[Tensor | None]) -> Any:
            (wanted, *_), (grad, *_) = ctx.needs_input_grad, grads
            if grad is None:
                return [None] * ctx.count, None, None
            given, saved = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
            found = gradients(grad, list(given), list(saved), *ctx.spec, list(wanted))
            return [g if w else None for g, w in zip(found, wanted, strict=True)], None, None

        operator.register_autograd(differentiate, setup_context=keep)
        gradients.register_autograd(lambda *_: no_second_derivative(self.backend))
        self._operator, self._gradients = operator, gradients

    def forward(self, spec: Any, *inputs: Tensor, save: bool) -> Any:
        """The result, and what is saved."""
        (result,), saved = self._forward(spec, *inputs, save=save)
        return (result,), (result, *saved)

    def traced(self, spec: GraphSpec, *inputs: Tensor) -> Tensor:
        """The operator in a graph."""
        return self._operator(list(inputs), *spec.serialized())[0]

    def backward(
        self, spec: GraphSpec, inputs: Any, saved: Any, grads: Any, wanted: tuple[bool, ...]
    ) -> tuple[Tensor | None, ...]:
        """The gradients of the inputs."""
        if is_plain(grads[0]):
            return self._backward(spec, inputs, saved, grads, wanted)
        found = self._gradients(
            grads[0], list(inputs), list(saved), *spec.serialized(), list(wanted)
        )
        return tuple(g if want else None for g, want in zip(found, wanted, strict=True))
