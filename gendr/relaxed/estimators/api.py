"""Hard functions with estimated gradients: the one interface to all estimators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, cast

import torch
from torch import Tensor

from gendr._common.checks import check_choice, check_count, check_finite, check_float, shape_text
from gendr._common.evaluations import Evaluations, Parallel
from gendr._common.registry import import_all, members
from gendr._common.tracing import in_single, refuse_transforms
from gendr._common.words import translated
from gendr.relaxed.estimators.base import Estimator
from gendr.relaxed.estimators.direction import direction_of


@dataclass(frozen=True, eq=False)
class Report:
    """What the last backward pass of an `Estimated` has cost and how good it was.

    Attributes:
        evaluations: of the function, since the last report: forward and backward.
        variance: of every number of the gradient, in the shape of the input; None if it does not
            come from samples.
        gradient: the gradient itself.
    """

    evaluations: int
    variance: Tensor | None
    gradient: Tensor

    @property
    def noise_to_signal(self) -> float | None:
        """The sum of the variances over the squared length of the gradient."""
        if self.variance is None:
            return None
        return float(self.variance.nansum() / self.gradient.square().sum().clamp(min=1e-300))


@cache
def kinds() -> Mapping[str, type[Estimator]]:
    """The classes of all estimators by their names."""
    import_all(import_module("gendr.relaxed.estimators"))
    return MappingProxyType(members(Estimator, package="gendr"))


def names() -> tuple[str, ...]:
    """The names of all estimators."""
    return tuple(kinds())


def estimated(
    function: Callable[[Any], Any],
    method: str | Estimator = "smoothing",
    *,
    event_dims: int | None = None,
    batched: bool = False,
    workers: int = 1,
    parallel: Parallel = "threads",
    seed: int | None = None,
    **options: Any,
) -> Estimated:
    """A hard function of arrays, differentiable by an estimator.

    >>> soft = estimated(dijkstra, "black_box", minimize=True, step=20.0, workers=2)

    Args:
        function: takes a NumPy array of one input's shape and returns an array or a number. It
            may work in place: it gets copies. A solver may say by attributes `minimize` and
            `batched` what it does, as `SolutionCache` does. NaN says that an input has no result,
            as an infeasible problem: the result is NaN, the gradient of that input 0.
        method: one of `names()`, or an estimator.
        event_dims: how many of the last dimensions of a tensor are one input; by default all but
            the first, which counts the inputs.
        batched: the function takes a stack of inputs at once.
        workers: how many threads or processes evaluate it.
        parallel: "threads", or "processes" for functions that hold the lock of Python; these must
            be importable.
        seed: of the samples; by default the randomness of torch.
        **options: settings of the estimator; all take `minimize`, whether the function is a solver
            that minimises <x, w>, and those that cannot do without it ask for it.

    Raises:
        TypeError: no function, or an option that the estimator does not have.
        ValueError: an unknown method, or a setting out of range.
    """
    if isinstance(method, Estimator):
        if options:
            raise TypeError(f"{method} has its settings already, got {', '.join(options)}")
        estimator = method
    else:
        kind = kinds()[check_choice("method", method, kinds())]
        allowed = [field.name for field in fields(kind) if field.init]
        options = translated(f"method {kind.name!r}", allowed, options)
        if hasattr(function, "minimize") and "soft" not in options:
            options["minimize"] = direction_of(function, options.get("minimize"))
        estimator = kind(**options)
    if event_dims is not None:
        check_count("event_dims", event_dims, least=0)
    batched = batched or bool(getattr(function, "batched", False))
    evaluations = Evaluations(function, batched=batched, workers=workers, parallel=parallel)
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    return Estimated(evaluations, estimator, event_dims, generator)


class Estimated:
    """A hard function with an estimated gradient; `estimated` makes it.

    Attributes:
        estimator: how the gradient is estimated.
        function: what is evaluated, and how.
        generator: of the samples; None for the randomness of torch.
        report: of the last backward pass; None before the first.
    """

    def __init__(
        self,
        function: Evaluations,
        estimator: Estimator,
        event_dims: int | None,
        generator: torch.Generator | None,
    ) -> None:
        self.estimator = estimator
        self.report: Report | None = None
        self.function, self.generator, self._event_dims = function, generator, event_dims

    @in_single
    def __call__(self, x: Tensor) -> Tensor:
        """The result [..., *out] for x [..., *event].

        Raises:
            TypeError: x is no floating tensor, or the function returns no numbers.
            ValueError: x has fewer dimensions than one input, or holds NaN or inf; or a first batch
                has no input, and nothing says which shape a result has.
        """
        refuse_transforms("an estimated gradient")
        x = check_finite("x", check_float("x", x))
        event = max(x.ndim - 1, 0) if self._event_dims is None else self._event_dims
        if x.ndim < event or (self._event_dims is None and x.ndim == 0):
            raise ValueError(
                f"x must have the {event} dimensions of one input, and perhaps more before them, "
                f"got {shape_text(x.shape)}"
            )
        batch = x.shape[: x.ndim - event]
        flat = x.reshape(batch.numel(), *x.shape[x.ndim - event :])
        if not len(flat):  # a solution has the shape of its costs
            shape = x.shape[len(batch) :] if self.estimator.solves else self.function.shape
            if shape is None:
                raise ValueError(
                    "the batch is empty, and nothing says which shape a result has; the first call "
                    "must have an input"
                )
            return x.new_zeros(*batch, *shape) + 0 * x.sum()
        result = cast("Tensor", _Estimate.apply(flat, self))
        return result.reshape(*batch, *result.shape[1:])

    def close(self) -> None:
        """End the threads or processes of this function."""
        self.function.close()


class _Estimate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, of: Estimated) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        result, ctx.results = of.estimator.forward(of.function, x.detach(), of.generator)
        ctx.save_for_backward(
            x, result.flatten(1).isnan().any(1) if result.ndim > 1 else result.isnan()
        )
        ctx.of = of
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (x, lost), of = ctx.saved_tensors, ctx.of
        grad = grads[0].masked_fill(lost.reshape(-1, *(1 for _ in grads[0].shape[1:])), 0.0)
        result = of.estimator.backward(of.function, x.detach(), ctx.results, grad)
        value = result.value.where(~result.value.isnan(), 0.0)  # of inputs without a result
        of.report = Report(of.function.count, result.variance, value)
        of.function.count = 0
        return value, None
