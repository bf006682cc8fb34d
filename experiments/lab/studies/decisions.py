"""Decisions by predicted costs: shortest paths, knapsacks and round trips, made-up as published.

The data are those of PyEPO: features are normal, costs a polynomial of a random linear map of them,
of a degree that a linear prediction misses, with multiplicative noise. The random numbers are drawn
in the published order, so that a seed gives the published data, and the split is that of
`train_test_split`. The solvers are exact and run over batches.

Source: Tang and Khalil, PyEPO, 2022; the recipes of the data in its documentation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
TESTED = 1000  # problems of a test set, as published


class Split(NamedTuple):
    """Features [N, F], costs [N, D] and best solutions [N, D] of problems."""

    features: Tensor
    costs: Tensor
    solutions: Tensor


@dataclass(frozen=True)
class Problem(ABC):
    """A family of problems min or max over w of <c, w>, with the data of a seed.

    Args:
        count: of training problems.
        degree: of the polynomial.
        noise: half-width of the noise, in [0, 1).
        seed: of the data and of their split.
    """

    name: ClassVar[str]
    minimize: ClassVar[bool]

    count: int
    degree: int
    noise: float
    seed: int

    @abstractmethod
    def solve(self, costs: Array) -> Array:
        """Best solutions [N, D] for costs [N, D]."""

    @abstractmethod
    def drawn(self, random: np.random.RandomState, count: int) -> tuple[Array, Array]:
        """Features [N, F] and costs [N, D]."""

    @cached_property
    def splits(self) -> tuple[Split, Split]:
        """What is trained on, and what is tested on."""
        total = self.count + TESTED
        features, costs = self.drawn(np.random.RandomState(self.seed), total)
        costs = costs.astype(np.float32)
        order = np.random.RandomState(self.seed).permutation(total)
        return self._split(features, costs, order[TESTED:]), self._split(
            features, costs, order[:TESTED]
        )

    def _split(self, features: Array, costs: NDArray[Any], chosen: NDArray[Any]) -> Split:
        solutions = self.solve(costs[chosen].astype(np.float64))
        parts = (features[chosen], costs[chosen], solutions)
        return Split(*(torch.from_numpy(part.astype(np.float32)) for part in parts))


def _mapped(
    random: np.random.RandomState, count: int, features: int, size: int, degree: int
) -> tuple[Array, Array]:
    """Features [N, F], and the polynomial of a random map of them [N, D]."""
    chosen = random.binomial(1, 0.5, (size, features))
    x = random.normal(0, 1, (count, features))
    return x, (x @ chosen.T / np.sqrt(features) + 3) ** degree + 1


@dataclass(frozen=True)
class ShortestPath(Problem):
    """Paths to the right and down through a grid of 5 x 5 nodes, 40 edges: dynamic programming."""

    name: ClassVar[str] = "shortest path"
    minimize: ClassVar[bool] = True
    side: ClassVar[int] = 5

    def drawn(self, random: np.random.RandomState, count: int) -> tuple[Array, Array]:
        """See `Problem`."""
        size = 2 * self.side * (self.side - 1)
        x, costs = _mapped(random, count, 5, size, self.degree)
        noise = random.uniform(1 - self.noise, 1 + self.noise, costs.shape)
        return x, costs / 3.5**self.degree * noise

    def solve(self, costs: Array) -> Array:
        """See `Problem`."""
        return _paths(np.ascontiguousarray(costs, np.float64), self.side)


@numba.njit(cache=True, nogil=True)
def _paths(costs: Array, side: int) -> Array:
    """One-hot edges [N, D] of the cheapest paths; a row's edges, then those to the next row."""
    out = np.zeros_like(costs)
    reached = np.empty((side, side))
    came = np.empty((side, side), np.int64)
    row = 2 * side - 1
    for n in range(len(costs)):
        for i in range(side):
            for j in range(side):
                left = i * row + j - 1
                above = (i - 1) * row + side - 1 + j
                if i == 0 and j == 0:
                    reached[i, j] = 0.0
                elif i == 0 or (
                    j > 0
                    and reached[i, j - 1] + costs[n, left] <= reached[i - 1, j] + costs[n, above]
                ):
                    reached[i, j], came[i, j] = reached[i, j - 1] + costs[n, left], left
                else:
                    reached[i, j], came[i, j] = reached[i - 1, j] + costs[n, above], above
        i, j = side - 1, side - 1
        while i > 0 or j > 0:
            edge = came[i, j]
            out[n, edge] = 1.0
            if edge == i * row + j - 1:
                j -= 1
            else:
                i -= 1
    return out


@dataclass(frozen=True)
class Knapsack(Problem):
    """32 things of two weights, each with a limit of 20: branch and bound."""

    name: ClassVar[str] = "knapsack"
    minimize: ClassVar[bool] = False
    things: ClassVar[int] = 32
    limits: ClassVar[tuple[float, ...]] = (20.0, 20.0)

    @cached_property
    def weights(self) -> Array:
        """[2, D], 3 to 8."""
        random = np.random.RandomState(self.seed)
        return random.choice(range(300, 800), size=(len(self.limits), self.things)) / 100

    def drawn(self, random: np.random.RandomState, count: int) -> tuple[Array, Array]:
        """See `Problem`."""
        random.choice(range(300, 800), size=(len(self.limits), self.things))  # the weights
        x, values = _mapped(random, count, 5, self.things, self.degree)
        noise = random.uniform(1 - self.noise, 1 + self.noise, values.shape)
        return x, np.ceil(values * 5 / 3.5**self.degree * noise)

    def solve(self, costs: Array) -> Array:
        """See `Problem`."""
        return _packed(np.ascontiguousarray(costs, np.float64), self.weights, np.array(self.limits))


@numba.njit(cache=True, nogil=True)
def _packed(values: Array, weights: Array, limits: Array) -> Array:
    """The best things to pack, [N, D]: depth first, by the bound of the sum of the weights."""
    out = np.zeros_like(values)
    limits = limits + 1e-9  # weights have two digits, which floats have not
    shares = (weights / limits[:, None].repeat(weights.shape[1]).reshape(weights.shape)).sum(0)
    total = float(len(limits))
    for n in range(len(values)):
        order = np.argsort(-values[n] / shares)
        size = 0
        while size < len(order) and values[n, order[size]] > 0:
            size += 1
        value = values[n][order[:size]]
        share = shares[order[:size]]
        first, second = weights[0][order[:size]], weights[1][order[:size]]
        taken, best = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        found, now = 0.0, 0.0
        a, b, room = limits[0], limits[1], total
        k = 0
        while True:
            # What the rest can add at most: by share, the last in part.
            bound, left, i = now, room, k
            while i < size and share[i] <= left:
                left -= share[i]
                bound += value[i]
                i += 1
            if i < size:
                bound += value[i] * left / share[i]
            if bound > found and k < size:
                if first[k] <= a and second[k] <= b:
                    taken[k] = True
                    now += value[k]
                    a, b, room = a - first[k], b - second[k], room - share[k]
                    if now > found:
                        found = now
                        best[:] = taken
                k += 1
                continue
            # Back to the last thing taken, and without it.
            k -= 1
            while k >= 0 and not taken[k]:
                k -= 1
            if k < 0:
                break
            taken[k] = False
            now -= value[k]
            a, b, room = a + first[k], b + second[k], room + share[k]
            k += 1
        for i in range(size):
            if best[i]:
                out[n, order[i]] = 1.0
    return out


@dataclass(frozen=True)
class RoundTrip(Problem):
    """Round trips through 20 towns, 190 edges: branch and bound over 1-trees (Held and Karp)."""

    name: ClassVar[str] = "round trip"
    minimize: ClassVar[bool] = True
    towns: ClassVar[int] = 20

    def drawn(self, random: np.random.RandomState, count: int) -> tuple[Array, Array]:
        """See `Problem`."""
        towns, half, features = self.towns, self.towns // 2, 10
        places = np.concatenate(
            (random.uniform(-2, 2, (half, 2)), random.normal(0, 1, (towns - half, 2)))
        )
        pairs = np.array(list(combinations(range(towns), 2)))
        apart = np.sqrt(np.square(places[pairs[:, 0]] - places[pairs[:, 1]]).sum(1))
        size = len(pairs)
        chosen = random.binomial(1, 0.5, (size, features)) * random.uniform(-2, 2, (size, features))
        x = random.normal(0, 1, (count, features))
        more = (x @ chosen.T / np.sqrt(features) + 3) ** self.degree / 3 ** (self.degree - 1)
        noise = random.uniform(1 - self.noise, 1 + self.noise, more.shape)
        return x, np.around(apart + more * noise, 4)

    def solve(self, costs: Array) -> Array:
        """See `Problem`."""
        return _trips(np.ascontiguousarray(costs, np.float64), self.towns)


@numba.njit(cache=True, nogil=True)
def _trips(costs: Array, towns: int) -> Array:
    """The shortest round trips [N, D], D = towns (towns - 1) / 2, edges (0, 1), (0, 2), ..."""
    out = np.zeros_like(costs)
    apart = np.empty((towns, towns))
    for n in range(len(costs)):
        edge = 0
        for i in range(towns):
            apart[i, i] = np.inf
            for j in range(i + 1, towns):
                apart[i, j] = apart[j, i] = costs[n, edge]
                edge += 1
        best = _trip(apart)
        edge = 0
        for i in range(towns):
            for j in range(i + 1, towns):
                if best[i, j]:
                    out[n, edge] = 1.0
                edge += 1
    return out


FREE, IN, OUT = 0, 1, -1


@numba.njit(cache=True, nogil=True)
def _trip(apart: Array) -> NDArray[np.bool_]:
    """The edges of the shortest round trip: depth first, an edge out or in at each node."""
    n = len(apart)
    deepest = n * n
    states = np.zeros((deepest, n, n), np.int8)
    prices = np.zeros((deepest, n))
    tree, chosen, price = np.zeros((n, n), np.bool_), np.zeros((n, n), np.bool_), np.zeros(n)
    limit = _by_neighbours(apart, chosen)
    size, root = 1, True
    while size:
        size -= 1
        state = states[size].copy()
        if not _implied(state):
            continue
        price[:] = prices[size]
        bound, kept = -np.inf, price.copy()
        steps = 80 if root else 20
        step = 0.1 * abs(limit) / n
        root, done = False, False
        for k in range(steps):
            found = _one_tree(apart, price, state, tree)
            if found > bound:
                bound = found
                kept[:] = price
            if found >= limit - 1e-9:
                done = True
                break
            excess, degrees = 0, np.zeros(n, np.int64)
            for i in range(n):
                for j in range(n):
                    degrees[i] += tree[i, j]
                excess += (degrees[i] - 2) ** 2
            if excess == 0:
                total = 0.0
                for i in range(n):
                    for j in range(i):
                        if tree[i, j]:
                            total += apart[i, j]
                if total < limit:
                    limit = total
                    chosen[:] = tree
                # The bound of a trip is its length: there is none better below this node.
                done = True
                break
            along = max(limit - found, 1e-3 * step) / excess
            for i in range(n):
                price[i] += min(along, step) * (degrees[i] - 2)
            if k % 10 == 9:
                step *= 0.7
        if done:
            continue
        _one_tree(apart, kept, state, tree)
        # The town of the most edges, and its free edge that it would miss the most.
        town, most = -1, 2
        for i in range(n):
            degree = 0
            for j in range(n):
                degree += tree[i, j]
            if degree > most:
                town, most = i, degree
        if town < 0:  # the tree at the best prices is a trip
            total = 0.0
            for i in range(n):
                for j in range(i):
                    if tree[i, j]:
                        total += apart[i, j]
            if total < limit:
                limit = total
                chosen[:] = tree
            continue
        other, least = -1, np.inf
        for j in range(n):
            if tree[town, j] and state[town, j] == FREE:
                cost = apart[town, j] + kept[town] + kept[j]
                if cost < least:
                    other, least = j, cost
        for choice in (OUT, IN):
            states[size] = state
            states[size, town, other] = states[size, other, town] = choice
            prices[size] = kept
            size += 1
    return chosen


@numba.njit(cache=True, nogil=True)
def _implied(state: NDArray[np.int8]) -> bool:
    """Decide what follows from the decisions; whether a trip is left."""
    n = len(state)
    changed = True
    while changed:
        changed = False
        for i in range(n):
            taken, open_ = 0, 0
            for j in range(n):
                if j != i:
                    taken += state[i, j] == IN
                    open_ += state[i, j] != OUT
            if taken > 2 or open_ < 2:
                return False
            if taken == 2 and open_ > 2:
                for j in range(n):
                    if j != i and state[i, j] == FREE:
                        state[i, j] = state[j, i] = OUT
                        changed = True
            elif open_ == 2 and taken < 2:
                for j in range(n):
                    if j != i and state[i, j] == FREE:
                        state[i, j] = state[j, i] = IN
                        changed = True
    return True


@numba.njit(cache=True, nogil=True)
def _one_tree(
    apart: Array, price: Array, state: NDArray[np.int8], tree: NDArray[np.bool_]
) -> float:
    """The cheapest 1-tree under prices of towns: its cost less twice the prices, a lower bound."""
    n = len(apart)
    tree[:] = False
    near, parent = np.full(n, np.inf), np.full(n, -1)
    inside = np.zeros(n, np.bool_)
    total = -2 * price.sum()
    now = 1
    inside[1] = True
    for _ in range(n - 2):
        for j in range(1, n):
            if not inside[j] and state[now, j] != OUT:
                cost = apart[now, j] + price[now] + price[j]
                if state[now, j] == IN:
                    cost -= 1e9
                if cost < near[j]:
                    near[j], parent[j] = cost, now
        now = -1
        for j in range(1, n):
            if not inside[j] and near[j] < np.inf and (now < 0 or near[j] < near[now]):
                now = j
        if now < 0:
            return np.inf
        inside[now] = True
        before = parent[now]
        tree[now, before] = tree[before, now] = True
        total += apart[now, before] + price[now] + price[before]
    for _ in range(2):
        best, least = -1, np.inf
        for j in range(1, n):
            if state[0, j] != OUT and not tree[0, j]:
                cost = apart[0, j] + price[0] + price[j] - (1e9 if state[0, j] == IN else 0.0)
                if cost < least:
                    best, least = j, cost
        if best < 0:
            return np.inf
        tree[0, best] = tree[best, 0] = True
        total += apart[0, best] + price[0] + price[best]
    return total


@numba.njit(cache=True, nogil=True)
def _by_neighbours(apart: Array, chosen: NDArray[np.bool_]) -> float:
    """A first trip, from each town to the nearest, with its crossings undone; its length."""
    n = len(apart)
    trip, seen = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    seen[0] = True
    for k in range(1, n):
        best = -1
        for j in range(n):
            if not seen[j] and (best < 0 or apart[trip[k - 1], j] < apart[trip[k - 1], best]):
                best = j
        trip[k] = best
        seen[best] = True
    better = True
    while better:
        better = False
        for i in range(n - 1):
            for j in range(i + 2, n - (i == 0)):
                a, b, c, d = trip[i], trip[i + 1], trip[j], trip[(j + 1) % n]
                if apart[a, c] + apart[b, d] < apart[a, b] + apart[c, d] - 1e-12:
                    trip[i + 1 : j + 1] = trip[i + 1 : j + 1][::-1].copy()
                    better = True
    total = 0.0
    for k in range(n):
        a, b = trip[k], trip[(k + 1) % n]
        chosen[a, b] = chosen[b, a] = True
        total += apart[a, b]
    return total  # pyright: ignore[reportReturnType]


PROBLEMS: dict[str, type[Problem]] = {
    kind.name: kind for kind in (ShortestPath, Knapsack, RoundTrip)
}
