"""Solutions that were found once, in place of a solver that is slow.

Source: Mulamba et al., Contrastive Losses and Solution Caching for Predict-and-Optimize, 2021.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gendr._common.checks import check_count, check_number
from gendr._common.evaluations import Evaluations, Parallel, check_solutions
from gendr._common.words import worded
from gendr.relaxed.estimators.direction import direction_of


@worded()
class SolutionCache:
    """A solver that mostly takes the best of the solutions that it knows.

    >>> cache = SolutionCache(solver, minimize=True, refresh=0.05)
    >>> cache.add(paths)                       # the wanted ones of the training set
    >>> loss = SPOPlusLoss(cache)              # it says itself that it minimises

    It stands where a solver does, in every loss and estimator. What it returns is feasible, as the
    feasible set does not depend on the costs, but not always optimal.

    Args:
        solver: takes the costs of one problem, an array, and returns a solution of their shape.
        minimize: whether it minimises <x, w>; else it maximises.
        refresh: the probability, in [0, 1], that a call solves its problems and learns their
            solutions. The first call does, unless it is 0 and solutions are known.
        limit: how many different solutions are kept, the newest ones; None for all.
        batched, workers, parallel: as in `estimated`.
        seed: of the decisions to solve.
    """

    batched = True

    def __init__(
        self,
        solver: Callable[[Any], Any],
        *,
        minimize: bool | None = None,
        refresh: float = 0.05,
        limit: int | None = None,
        batched: bool = False,
        workers: int = 1,
        parallel: Parallel = "threads",
        seed: int = 0,
    ) -> None:
        batched = batched or bool(getattr(solver, "batched", False))
        self._function = Evaluations(solver, batched=batched, workers=workers, parallel=parallel)
        self.minimize = direction_of(solver, minimize)
        self.refresh = check_number("refresh", refresh, least=0)
        if self.refresh > 1:
            raise ValueError(f"refresh is a probability, in [0, 1], got {refresh}")
        self.limit = None if limit is None else check_count("limit", limit)
        self._random = np.random.default_rng(seed)
        self._known: dict[bytes, NDArray[Any]] = {}
        self._stack: NDArray[Any] | None = None

    def __len__(self) -> int:
        """How many different solutions are known."""
        return len(self._known)

    @property
    def solved(self) -> int:
        """How many problems the solver has solved."""
        return self._function.count

    @property
    def solutions(self) -> NDArray[Any]:
        """All that are known, [M, *event].

        Raises:
            ValueError: none is.
        """
        if self._stack is None:
            if not self._known:
                raise ValueError("no solution is known: solve a batch first, or `add` some")
            self._stack = np.stack(list(self._known.values()))
        return self._stack

    def add(self, solutions: Any) -> None:
        """Learn solutions [N, *event], a tensor or an array; those that are NaN are none."""
        detached = solutions.detach().cpu().numpy() if hasattr(solutions, "detach") else solutions
        for solution in np.array(detached, np.float64):  # a copy, which nobody else changes
            key = solution.tobytes()
            if key not in self._known and not np.isnan(solution).any():
                self._known[key] = solution
                self._stack = None
        while self.limit is not None and len(self._known) > self.limit:
            del self._known[next(iter(self._known))]

    def solve(self, costs: NDArray[Any]) -> NDArray[Any]:
        """Solutions of the solver [N, *event], which are learnt.

        Raises:
            ValueError: solutions of another shape than their costs.
        """
        found = self._function.of_arrays(costs, gaps=True)
        check_solutions(costs.shape, found.shape)
        self.add(found)
        return found

    def __call__(self, costs: NDArray[Any]) -> NDArray[Any]:
        """Solutions [N, *event] for costs of that shape: solved, or the best that are known."""
        first = self.solved == 0 and self.refresh > 0
        if not self._known or first or self._random.random() < self.refresh:
            return self.solve(costs)
        scores = costs.reshape(len(costs), -1) @ self.solutions.reshape(len(self), -1).T
        best = scores.argmin(1) if self.minimize else scores.argmax(1)
        return self.solutions[best].astype(costs.dtype)

    def close(self) -> None:
        """End the threads or processes of the solver."""
        self._function.close()
