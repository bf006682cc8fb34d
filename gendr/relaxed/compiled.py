"""Programs compiled by `torch.compile`, with their gradients.

The Python code of a program runs once, under a tracer that writes down what is done with tensors:
one graph of the results, and one of the gradients, which computes the results again. Both are what
autograd makes of the program, with the gradients that its functions define themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor
from torch.utils import _pytree as tree

from gendr._common.checks import check_finite
from gendr._common.tracing import tracing
from gendr.kernels.operator import Operator
from gendr.relaxed.execution import Merged
from gendr.relaxed.settings import Settings, current

Function: TypeAlias = "Callable[[list[Tensor]], list[Tensor]]"


class ProgramGraphs:
    """A function for inputs of one kind, compiled.

    Args:
        function: from tensors to tensors; what it does must not depend on their values.
        inputs: tensors of that kind; gradients are made for those that require one.
        options: of `torch.compile`.

    Raises:
        RuntimeError: the function looks at the value of a tensor.
    """

    def __init__(
        self, function: Function, inputs: Sequence[Tensor], options: dict[str, Any]
    ) -> None:
        from torch.fx.experimental.proxy_tensor import make_fx

        self.function = function
        wants = [x.requires_grad for x in inputs]
        plain = [x.detach() for x in inputs]

        def forward(*given: Tensor) -> list[Tensor]:
            return [result.clone() for result in function(list(given))]

        def joint(*given: Tensor) -> list[Tensor]:
            leaves = [
                x.detach().requires_grad_(wanted) for x, wanted in zip(given, wants, strict=False)
            ]
            with torch.enable_grad():
                results = function(leaves)
            pairs = [
                (result, grad)
                for result, grad in zip(results, given[len(leaves) :], strict=True)
                if result.requires_grad
            ]
            asked = [x for x in leaves if x.requires_grad]
            if not pairs:
                return [torch.zeros_like(x) for x in asked]
            return list(
                torch.autograd.grad(
                    [result for result, _ in pairs], asked, [grad for _, grad in pairs],
                    materialize_grads=True,
                )
            )  # fmt: skip

        options = {"dynamic": False, **options}
        with torch.no_grad(), tracing():  # no check looks at values
            traced = make_fx(forward)(*plain)
            if any(wants):
                grads = [torch.ones_like(result) for result in forward(*plain)]
                gradients = make_fx(joint)(*plain, *grads)
                self.joint = torch.compile(gradients, **options)
        self.forward = torch.compile(traced, **options)


def _plainly(graphs: ProgramGraphs, *inputs: Tensor) -> Any:
    """The results of what was compiled, as it is."""
    results = tuple(graphs.function(list(inputs)))
    return results[0] if len(results) == 1 else results


_PROGRAM = Operator("relaxed.program", reference=_plainly)


class ProgramKernels:
    """The kernels of a compiled program: its graphs."""

    @staticmethod
    def forward(
        graphs: ProgramGraphs, *inputs: Tensor, save: bool
    ) -> tuple[tuple[Tensor, ...], tuple[Any, ...]]:
        """See `gendr.kernels.operator.Kernels`."""
        results = tuple(graphs.forward(*inputs))
        return results, tuple((result.shape, result.dtype) for result in results)

    @staticmethod
    def backward(
        graphs: ProgramGraphs,
        inputs: tuple[Tensor, ...],
        saved: tuple[Any, ...],
        grads: tuple[Tensor | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Tensor | None, ...]:
        """See `gendr.kernels.operator.Kernels`."""
        device = next(grad for grad in grads if grad is not None).device
        given = (
            torch.zeros(shape, dtype=dtype, device=device) if grad is None else grad
            for grad, (shape, dtype) in zip(grads, saved, strict=True)
        )
        result = iter(graphs.joint(*inputs, *given))
        return tuple(next(result) if asked else None for asked in wanted)


class Program(Protocol):
    """A `gendr.relaxed.Program`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it."""
        ...

    def resolved(self, kwargs: dict[str, Any]) -> tuple[dict[str, Any], Settings]:
        """The arguments among those of a call, and the settings of its run."""
        ...

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any], settings: Settings) -> Any:
        """Run the relaxed function with these settings."""
        ...


class CompiledProgram:
    """A program that runs compiled; `Program.compiled` makes it.

    Every kind of call (shapes, dtypes, which tensors require gradients, all other arguments and
    settings) is compiled when it first comes. Tensors among the arguments, and as `scale`, get
    gradients; tensors from outside the program, and parameters of distributions, count as
    constants. Loops make all their iterations, up to `max_iterations`. Second derivatives are those
    of the program as it is.

    Attributes:
        program: what is compiled.
    """

    def __init__(self, program: Program, options: dict[str, Any]) -> None:
        self.program = program
        self._options = options
        self._known: dict[Any, tuple[ProgramGraphs, list[tree.TreeSpec]]] = {}

    def __reduce__(self) -> Any:
        """As the program; it is compiled again."""
        return CompiledProgram, (self.program, self._options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program; inside another program, and hard, it runs as it is.

        Raises:
            TypeError: an argument or setting that is neither tensor nor hashable.
            RuntimeError: a loop without bound, or code that looks at the value of a tensor.
        """
        if current().running:
            return self.program(*args, **kwargs)
        kwargs, settings = self.program.resolved(kwargs)
        if not isinstance(settings.execution, Merged):
            raise ValueError(
                f"execution={settings.execution} depends on values, and cannot be compiled; use "
                "the program as it is"
            )
        leaves, form = tree.tree_flatten((args, kwargs, settings.scale))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        inputs: list[Tensor] = [leaves[i] for i in places]
        for tensor in inputs:
            if tensor.is_floating_point():
                check_finite("an argument", tensor)
        asked = torch.is_grad_enabled()
        rest = [None if isinstance(leaf, Tensor) else (type(leaf), leaf) for leaf in leaves]
        dist = settings.dist
        dists = tuple(dist.items()) if isinstance(dist, Mapping) else dist
        clip = settings.clip
        clips = tuple(clip.items()) if isinstance(clip, Mapping) else clip
        kinds = [(x.shape, x.dtype, x.device, asked and x.requires_grad) for x in inputs]
        key = (
            form, tuple(rest), tuple(kinds), dists, settings.tconorm, settings.tolerance,
            settings.max_iterations, clips, settings.normaliser, torch.get_default_dtype(),
        )  # fmt: skip
        try:
            known = self._known.get(key)
        except TypeError as error:
            raise TypeError(
                f"a compiled program takes tensors and values that can be hashed: {error}"
            ) from None
        if known is None:
            known = self._known[key] = self._traced(leaves, form, places, settings, asked)
        graphs, (out,) = known
        results = _PROGRAM(ProgramKernels, graphs, *inputs)
        results = (results,) if isinstance(results, Tensor) else results
        return tree.tree_unflatten(results, out)

    def _traced(
        self,
        leaves: list[Any],
        form: tree.TreeSpec,
        places: list[int],
        settings: Settings,
        asked: bool,
    ) -> tuple[ProgramGraphs, list[tree.TreeSpec]]:
        """The graphs of one kind of call, and the form of the results."""
        out: list[tree.TreeSpec] = []

        def function(inputs: list[Tensor]) -> list[Tensor]:
            given = list(leaves)
            for place, tensor in zip(places, inputs, strict=True):
                given[place] = tensor
            args, kwargs, scale = tree.tree_unflatten(given, form)
            run = replace(settings, scale=scale, used=set(), _rules={})
            result, out[:] = _flat(self.program.run(args, kwargs, run))
            return result

        inputs = [leaves[i] if asked else leaves[i].detach() for i in places]
        return ProgramGraphs(function, inputs, self._options), out


def _flat(result: Any) -> tuple[list[Tensor], list[tree.TreeSpec]]:
    found, form = tree.tree_flatten(result)
    for value in found:
        if not isinstance(value, Tensor):
            raise TypeError(f"a compiled program returns tensors, got {type(value).__name__}")
    return found, [form]
