"""The contract of an estimator, and the evaluation of hard functions in parallel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gendr._runtime.checks import check_finite, shape_text
from gendr._runtime.workers import Parallel, Workers


class Gradient(NamedTuple):
    """A gradient, and if it was estimated from samples the variance of every number in it."""

    value: Tensor
    variance: Tensor | None = None


class Evaluations(Workers):
    """Evaluates a function of arrays for a stack of inputs, in parallel.

    Args:
        function: takes an array and returns an array or a number; it must not change its argument.
        batched: it takes a stack [N, ...] of inputs at once, and returns [N, ...].
        workers, parallel: see `Workers`.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        *,
        batched: bool = False,
        workers: int = 1,
        parallel: Parallel = "threads",
    ) -> None:
        super().__init__(function, workers, parallel)
        self.batched = batched
        self.count = 0

    def __call__(self, inputs: Tensor) -> Tensor:
        """The results [N, ...] for inputs [N, ...], in their dtype and on their device.

        Raises:
            ValueError: no inputs, results of different shapes or of another number, or NaN.
        """
        stack = inputs.detach().cpu().numpy()
        self.count += len(stack)
        if not len(stack):
            raise ValueError("the function has no input: the batch is empty")
        if self.batched:
            parts = [part for part in np.array_split(stack, self.workers) if len(part)]
            results = [np.asarray(part) for part in self.map(parts)]
        else:
            found = [np.asarray(result) for result in self.map(list(stack))]
            shapes = {result.shape for result in found}
            if len(shapes) > 1:
                raise ValueError(
                    "the function must return arrays of one shape, got "
                    f"{' and '.join(sorted(map(shape_text, shapes)))}"
                )
            results = [np.stack(found)]
        whole = torch.from_numpy(np.concatenate(results)).to(inputs)
        if len(whole) != len(stack):
            raise ValueError(
                f"a batched function must return one result for each of {len(stack)} inputs, "
                f"got {len(whole)}"
            )
        return check_finite("the result of the function", whole)


@dataclass(frozen=True)
class Estimator(ABC):
    """How a gradient is estimated: a frozen dataclass of its settings.

    Inputs are stacks x [N, *event]; the function's results are [N, *out].
    """

    name: ClassVar[str]

    @abstractmethod
    def forward(
        self, function: Evaluations, x: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Any]:
        """The result [N, *out], and whatever `backward` needs."""

    @abstractmethod
    def backward(self, function: Evaluations, x: Tensor, kept: Any, grad: Tensor) -> Gradient:
        """The gradient [N, *event] of x, from that of the result."""
