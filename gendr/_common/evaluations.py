"""Values of hard functions of arrays, for many inputs at once."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gendr._common.checks import check_choice, check_count, shape_text

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
        shape: of a result, once there was one.

    Args:
        function: takes an array, and one entry of each further argument; returns an array, a list
            of numbers, or a number; or a pair of a solution and its objective, which is not needed.
            It may work in place: it gets copies, and what it returns is copied.
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
        self.shape: tuple[int, ...] | None = None
        self._pool: Executor | None = None
        if workers > 1 and parallel == "processes":
            _check_sendable(function)

    def __call__(self, inputs: Tensor) -> Tensor:
        """The results [N, ...] for inputs [N, ...], in their dtype and on their device.

        Those of inputs without one are NaN, with a warning; see `of_arrays`.

        Raises:
            TypeError, ValueError: as `of_arrays`.
        """
        found = self.of_arrays(inputs.detach().cpu().numpy(), gaps=True)
        return torch.from_numpy(found).to(inputs)

    def solutions(self, costs: Tensor) -> Tensor:
        """The results [N, *event] of a solver for costs of that shape, which may have no rows.

        Those of infeasible problems are NaN.

        Raises:
            TypeError, ValueError: as `of_arrays`, or solutions of another shape than their costs.
        """
        if not len(costs):
            return torch.empty_like(costs)
        found = self(costs)
        check_solutions(costs.shape, found.shape)
        return found

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
        if not count:
            return samples.new_zeros(count, each, dtype=torch.float64, device="cpu")
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
        return torch.from_numpy(found.astype(np.float64, copy=False)).reshape(count, each)

    def of_arrays(
        self, stack: NDArray[Any], *others: NDArray[Any], gaps: bool = False
    ) -> NDArray[Any]:
        """The results [N, ...] for stacks of N entries, of which the function gets copies.

        Args:
            stack: an entry for each input.
            *others: further arguments, of as many entries.
            gaps: whether an input may have no result, such as an infeasible problem: one NaN in
                what the function returns for it makes it NaN throughout, and there is a warning.

        Raises:
            TypeError: a result that is no array of numbers.
            ValueError: no inputs, results of different shapes or of another number, or NaN or inf.
            RuntimeError: processes that cannot start.
        """
        count = len(stack)
        self.count += count
        if not count:
            raise ValueError("the function has no input: the batch is empty")
        given = [np.array(each) for each in (stack, *others)]
        if self.batched:
            parts = (np.array_split(each, min(self.workers, count)) for each in given)
            results = self._mapped(*parts)
            if any(part.ndim == 0 for part in results):
                raise ValueError("a batched function must return one result for each of its inputs")
        else:
            results = self._mapped(*(list(each) for each in given))
        shapes = {result.shape[self.batched :] for result in results}
        if len(shapes) > 1:
            raise ValueError(
                "the function must return arrays of one shape, got "
                f"{' and '.join(sorted(map(shape_text, shapes)))}"
            )
        found = np.concatenate(results) if self.batched else np.stack(results)
        if len(found) != count:
            raise ValueError(
                f"a batched function must return one result for each of {count} inputs, got "
                f"{len(found)}"
            )
        if gaps and (lost := np.isnan(found).reshape(count, -1).any(1)).any():
            found[lost] = np.nan
            warnings.warn(
                "the function, or solver, found no result for some inputs (NaN): their rows are "
                "NaN, without gradient, and means and sums leave them out",
                RuntimeWarning,
                stacklevel=2,
            )
        if (wrong := np.isinf(found) if gaps else ~np.isfinite(found)).any():
            first = np.argwhere(wrong)[0].tolist()
            raise ValueError(
                f"the result of the function must be finite, got {found[tuple(first)]} at index "
                f"{shape_text(first)}, the result for input {first[0]}"
                + ("; for an infeasible problem return NaN" if gaps else "")
            )
        self.shape = found.shape[1:]
        return found

    def _mapped(self, *inputs: Sequence[Any]) -> list[NDArray[Any]]:
        """The results in the order of the inputs; one sequence for each argument."""
        if self.workers == 1:
            # One by one: a function may return the same memory each time.
            return [
                _numbers(self.function(*each), k)
                for k, each in enumerate(zip(*inputs, strict=True))
            ]
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
            found = self._pool.map(self.function, *inputs, chunksize=chunk)
            return [_numbers(each, k) for k, each in enumerate(found)]
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


def _numbers(result: Any, k: int) -> NDArray[Any]:
    """A copy of what the function returned for input k, as an array.

    Raises:
        TypeError: it is none: nothing, a text.
    """
    try:
        pair = result if isinstance(result, tuple) and len(result) == 2 else (0, 0)
        if np.ndim(pair[0]) > np.ndim(pair[1]):  # a solution and its objective
            result = pair[0]
        if isinstance(result, Tensor):
            result = result.detach().cpu()
            result = result.float() if result.dtype == torch.bfloat16 else result
        found = np.array(result)
    except ValueError:  # parts of different shapes
        found = np.array(None)
    if found.dtype.kind in "biuf":
        return found
    what = "nothing (None)" if result is None else f"a {type(result).__name__}"
    if isinstance(result, (tuple, list)):
        what += f" of {len(result)} parts"
    instead = "; for an infeasible problem return NaN in the shape of its costs"
    raise TypeError(
        f"the function, or solver, must return an array of numbers or a number, got {what} for "
        f"input {k}{instead if result is None else ''}"
    )


def check_solutions(costs: Sequence[int], solutions: Sequence[int]) -> None:
    """Refuse solutions [N, ...] of another shape than their costs.

    Raises:
        ValueError: if they have one.
    """
    if tuple(solutions) != tuple(costs):
        raise ValueError(
            "the solver must return a solution in the shape of its costs, got "
            f"{shape_text(solutions[1:])} for {shape_text(costs[1:])}"
        )


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
