"""Values of hard functions of arrays, for many inputs at once."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gendr._runtime.checks import check_choice, check_count, check_finite, shape_text

Parallel: TypeAlias = Literal["threads", "processes"]
GUARD = (
    'each imports the script that was run: put what it does under `if __name__ == "__main__":`, '
    "and the function into a module if the script is a notebook or a console; or use "
    'parallel="threads"'
)


class Evaluations:
    """Evaluates a function of arrays for a stack of inputs, in parallel.

    Attributes:
        count: of the evaluations so far; whoever reads it sets it back.

    Args:
        function: takes an array, and one entry of each further argument; returns an array or a
            number. It must not change its arguments.
        batched: it takes stacks [N, ...] at once, and returns [N, ...].
        workers: how many threads or processes evaluate it; 1 is this thread.
        parallel: "threads" for functions that release the lock of Python, as most of NumPy and
            SciPy do; "processes" for others, which must be importable: at the top level of a
            module. A script that starts them does so under `if __name__ == "__main__":`, since
            each process imports it once more. A batched function gets one part per process.

    Raises:
        TypeError: for what cannot be called, or cannot be sent to a process.
        ValueError: for fewer than one worker, or another kind of them.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        batched: bool = False,
        workers: int = 1,
        parallel: Parallel = "threads",
    ) -> None:
        if not callable(function):
            raise TypeError(f"a function of arrays is needed, got {type(function).__name__}")
        self.function, self.batched = function, batched
        self.workers = check_count("workers", workers)
        self.parallel = check_choice("parallel", parallel, ("threads", "processes"))
        self.count = 0
        self._pool: Executor | None = None
        if workers > 1 and parallel == "processes":
            _check_sendable(function)

    def __call__(self, inputs: Tensor) -> Tensor:
        """The results [N, ...] for inputs [N, ...], in their dtype and on their device.

        Raises:
            ValueError: no inputs, results of different shapes or of another number, or NaN.
        """
        found = self.of_arrays(inputs.detach().cpu().numpy())
        return check_finite("the result of the function", torch.from_numpy(found).to(inputs))

    def of_samples(self, samples: Tensor, args: Sequence[Any]) -> Tensor:
        """The numbers [N, S] in float64 for S samples of each of N inputs, [N, S, ...].

        Args:
            samples: a sample is one input of the function.
            args: tensors or arrays with an entry for each of the N inputs.

        Raises:
            ValueError: an argument of another number of entries, or results that are no finite
                numbers.
        """
        count, each = samples.shape[:2]
        others = []
        for arg in args:
            array = arg.detach().cpu().numpy() if isinstance(arg, Tensor) else np.asarray(arg)
            if array.ndim == 0 or len(array) != count:
                raise ValueError(
                    f"each argument must have an entry for each of {count} inputs, got "
                    f"{shape_text(array.shape)}"
                )
            others.append(np.repeat(array, each, axis=0))
        found = self.of_arrays(samples.detach().flatten(0, 1).cpu().numpy(), *others)
        if found.shape != (count * each,):
            raise ValueError(
                f"the function must return a number for each of {count * each} samples, got "
                f"{shape_text(found.shape)}"
            )
        values = torch.from_numpy(found.astype(np.float64, copy=False))
        return check_finite("the result of the function", values).reshape(count, each)

    def of_arrays(self, stack: NDArray[Any], *others: NDArray[Any]) -> NDArray[Any]:
        """The results [N, ...] for stacks of N entries.

        Raises:
            ValueError: no inputs, or results of different shapes or of another number.
            RuntimeError: processes that cannot start.
        """
        count = len(stack)
        self.count += count
        if not count:
            raise ValueError("the function has no input: the batch is empty")
        if self.batched:
            parts = (np.array_split(each, min(self.workers, count)) for each in (stack, *others))
            found = np.concatenate([np.asarray(part) for part in self._mapped(*parts)])
            if len(found) != count:
                raise ValueError(
                    f"a batched function must return one result for each of {count} inputs, got "
                    f"{len(found)}"
                )
            return found
        results = [np.asarray(each) for each in self._mapped(*(list(s) for s in (stack, *others)))]
        shapes = {result.shape for result in results}
        if len(shapes) > 1:
            raise ValueError(
                "the function must return arrays of one shape, got "
                f"{' and '.join(sorted(map(shape_text, shapes)))}"
            )
        return np.stack(results)

    def _mapped(self, *inputs: Sequence[Any]) -> list[Any]:
        """The results in the order of the inputs; one sequence for each argument."""
        if self.workers == 1:
            return list(map(self.function, *inputs))
        if self._pool is None:
            if self.parallel == "processes" and _importing():
                raise RuntimeError(f"this process is one of those that were started; {GUARD}")
            self._pool = (
                ThreadPoolExecutor(self.workers, "gendr-evaluation")
                if self.parallel == "threads"
                else ProcessPoolExecutor(self.workers, multiprocessing.get_context("spawn"))
            )
        chunk = max(1, len(inputs[0]) // (4 * self.workers))
        try:
            return list(self._pool.map(self.function, *inputs, chunksize=chunk))
        except BrokenProcessPool as error:
            self.close()
            raise RuntimeError(f"the processes ended before their work did; {GUARD}") from error

    def __getstate__(self) -> dict[str, object]:
        """The attributes without the threads or processes: a copy starts its own."""
        return {**self.__dict__, "_pool": None}

    def close(self) -> None:
        """End the threads or processes; they start again when they are needed."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _importing() -> bool:
    """Whether this is a process that was started to work, and still imports the script."""
    return bool(getattr(multiprocessing.current_process(), "_inheriting", False))


def _check_sendable(function: Callable[..., Any]) -> None:
    """Refuse what another process could not import.

    Raises:
        TypeError: for a function inside another, a lambda, or one of a notebook or a console.
    """
    try:
        pickle.dumps(function)
    except Exception as error:
        raise TypeError(
            f"{function!r} cannot be sent to a process: it must stand at the top level of a "
            f'module, and so must what it holds; or use parallel="threads" ({error})'
        ) from error
    main = sys.modules["__main__"]
    if getattr(function, "__module__", None) == "__main__" and not hasattr(main, "__file__"):
        raise TypeError(
            f"{function!r} is of a console or a notebook, which processes cannot import; put it "
            'into a module, or use parallel="threads"'
        )
