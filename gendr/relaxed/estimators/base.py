"""The contract of an estimator, and the evaluation of hard functions in parallel."""

from __future__ import annotations

import multiprocessing
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gendr._runtime.checks import check_choice, check_count, check_finite, shape_text

Parallel: TypeAlias = Literal["threads", "processes"]


class Gradient(NamedTuple):
    """A gradient, and if it was estimated from samples the variance of every number in it."""

    value: Tensor
    variance: Tensor | None = None


class Evaluations:
    """Evaluates a function of arrays for a stack of inputs, in parallel.

    Args:
        function: takes an array and returns an array or a number; it must not change its argument.
        batched: it takes a stack [N, ...] of inputs at once, and returns [N, ...].
        workers: how many threads or processes evaluate it; 1 is this thread.
        parallel: "threads" for functions that release the lock of Python, as most of NumPy and
            SciPy do; "processes" for others, which must be importable.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        *,
        batched: bool = False,
        workers: int = 1,
        parallel: Parallel = "threads",
    ) -> None:
        if not callable(function):
            raise TypeError(f"a function of arrays is needed, got {type(function).__name__}")
        check_count("workers", workers)
        check_choice("parallel", parallel, ("threads", "processes"))
        self.function, self.batched = function, batched
        self.workers, self.parallel = workers, parallel
        self.count = 0
        self._pool: Executor | None = None

    def __call__(self, inputs: Tensor) -> Tensor:
        """The results [N, ...] for inputs [N, ...], in their dtype and on their device.

        Raises:
            ValueError: no inputs, results of different shapes or of another number, or NaN.
        """
        stack = inputs.detach().cpu().numpy()
        self.count += len(stack)
        if not len(stack):
            raise ValueError("the function has no input: the batch is empty")
        if self.batched and self.workers == 1:
            results = [np.asarray(self.function(stack))]
        elif self.batched:
            results = [np.asarray(part) for part in self._mapped(self._parts(stack))]
        else:
            found = [np.asarray(result) for result in self._mapped(list(stack))]
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

    def _parts(self, stack: Any) -> list[Any]:
        return [part for part in np.array_split(stack, self.workers) if len(part)]

    def _mapped(self, inputs: list[Any]) -> list[Any]:
        if self.workers == 1:
            return [self.function(x) for x in inputs]
        if self._pool is None:
            self._pool = (
                ThreadPoolExecutor(self.workers, "gendr-estimator")
                if self.parallel == "threads"
                else ProcessPoolExecutor(self.workers, multiprocessing.get_context("spawn"))
            )
        chunk = max(1, len(inputs) // (4 * self.workers))
        return list(self._pool.map(self.function, inputs, chunksize=chunk))

    def close(self) -> None:
        """End the threads or processes; they start again when they are needed."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


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
