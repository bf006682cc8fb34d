"""Relaxed sorting networks: every comparator swaps with a probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache, lru_cache
from typing import Any, ClassVar, NamedTuple, TypeAlias, final

import torch
from torch import Tensor

from gendr._common.checks import check_choice, check_number
from gendr._common.ranges import saturated, spread
from gendr._common.tracing import constant, is_traced, number_of, running_max, stable_sort, wide
from gendr.distributions import Distribution, as_distribution
from gendr.distributions.decisions import Number, check_symmetric, scale_of
from gendr.distributions.registry import DistributionLike
from gendr.kernels.backends import NAMES
from gendr.kernels.operator import Kernels, Operator
from gendr.sorting.backends.choice import choose
from gendr.sorting.backends.comparators import Comparators, power_of
from gendr.sorting.backends.reference import CARRY, GATES, NETWORK
from gendr.sorting.base import PermutationSort, check_matrices, expanded, of_rows, stacked
from gendr.sorting.networks import Network, network
from gendr.sorting.permutahedron import isotonic

_Keyed: TypeAlias = "tuple[Tensor, Number, Tensor | float]"


def comparator_distribution(dist: DistributionLike, art: float) -> Distribution:
    """The distribution of a relaxed comparator.

    Args:
        dist: a symmetric distribution.
        art: exponent of the activation replacement trick, in [0, 1).

    Raises:
        TypeError: one of them is of the wrong type.
        ValueError: the distribution is not symmetric, or the exponent out of range.
    """
    distribution = as_distribution(dist)
    if check_number("art", art):
        distribution = distribution.art(art)
    return check_symmetric(distribution, "a comparator needs")


class Walk(NamedTuple):
    """Keys that went through the comparators of a network, which others can follow.

    Attributes:
        wires: the network.
        kernels: of `carry`; None for its definition.
        values: [B, n], on the wires at the end.
        keep: [B, C], the probability with which each comparator kept its two keys in place.
        swap: [B, C], 1 - keep.
    """

    wires: Network
    kernels: Kernels | None
    values: Tensor
    keep: Tensor
    swap: Tensor

    def carried(self, payload: Tensor | None) -> Tensor:
        """P @ payload, of a payload [B, n, c], or P [B, n, n] itself for None."""
        return self._spread(CARRY(self.kernels, self.wires, self.keep, self.swap, payload))

    def returned(self, payload: Tensor, back: Network) -> Tensor:
        """P^T @ payload [B, n, c]: layers are symmetric, so P^T is the network in reverse.

        Args:
            payload: what stands on the wires at the end.
            back: `backwards` of the network.
        """
        keep, swap = self.keep.flip(-1), self.swap.flip(-1)
        return self._spread(CARRY(self.kernels, back, keep, swap, payload))

    def _spread(self, found: Tensor) -> Tensor:
        """With NaN of the keys, which comparators bring in, where there are some."""
        return found if self.wires.layers else found + 0 * spread(self.values)[..., None]


def walk(x: Tensor, comparators: Comparators, steepness: Number, backend: str) -> Walk:
    """Send keys x [B, n] through the relaxed comparators of a network."""
    walked, kernels = _through(GATES, x, comparators, steepness, backend)
    return Walk(comparators.network, kernels.get(CARRY.name), *walked)


def _through(
    operator: Operator, x: Tensor, comparators: Comparators, steepness: Number, backend: str
) -> tuple[Any, Mapping[str, Kernels]]:
    """What `GATES` or `NETWORK` gives of keys x [B, n], and the kernels of the backend."""
    # `torch.compile` traces the definitions, which its own compiler makes fast.
    chosen = None if is_traced() else choose(backend, x)
    kernels = {} if chosen is None else chosen.KERNELS
    if isinstance(steepness, Tensor):
        steepness = steepness.reshape(()).to(x.device)
    own = kernels.get(operator.name) if kernels and comparators.kernel else None
    if not comparators.network.layers:  # no comparator brings the NaN of a single key
        x = spread(x)
    return operator(own, comparators, x, steepness), kernels


@dataclass(frozen=True)
class NetworkSort(PermutationSort):
    """A sorting network whose comparators swap with a probability.

    A comparator leaves two values a, b in place with probability F((b - a) * steepness) and swaps
    them otherwise; F is the CDF of the noise on their difference. The expected values go on to the
    next layer. P is doubly stochastic.

    Args:
        steepness: inverse of the scale of F. With art and with squared distributions it is applied
            after the power of the difference, as in the papers. It equals their inverse
            temperature beta for all distributions except reciprocal, for which beta is half of it.
        dist: a symmetric distribution: a name, a `Distribution` or a CDF of your own, for which
            F(-z) = 1 - F(z) is not checked. The default is monotonic, so that no gradient has the
            wrong sign, its error is bounded, it is smooth, and in the thesis' Table 3.7 it is the
            best or close to the best for every n and both networks. heaviside sorts hard, without
            gradient; ties stay as they are.
        art: exponent of the activation replacement trick, in [0, 1): differences d become
            d / |d|^art. The papers use 0.25 to 0.4, with logistic. It is not monotonic, and has
            slope 0 at a tie.
        backend: "auto", or a name of `gendr.backends()`.

    Raises:
        TypeError: a setting is of the wrong type.
        ValueError: a setting is out of range, or the distribution is not symmetric.

    Source: Petersen et al., Differentiable Sorting Networks for Scalable Sorting and Ranking
        Supervision (ICML 2021); Monotonic Differentiable Sorting Networks (ICLR 2022); thesis
        (3.5), (3.9) to (3.11), (3.13).
    """

    dist: DistributionLike = "cauchy"
    art: float = 0.0
    backend: str = "auto"
    # The distribution that `dist` and `art` define.
    distribution: Distribution = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("backend", self.backend, ("auto", *NAMES))
        object.__setattr__(self, "distribution", comparator_distribution(self.dist, self.art))

    def network_of(self, n: int) -> Network:
        """The network for n values."""
        return named(self.name, number_of(n))

    def comparators_of(self, n: int) -> Comparators:
        """The network for n values, with the distribution of its comparators."""
        if is_traced():  # which keeps nothing
            return Comparators(self.network_of(n), self.distribution)
        known: dict[int, Comparators] = vars(self).setdefault("_comparators", {})
        found = known.get(n)
        if found is None:
            found = known[n] = Comparators(self.network_of(n), self.distribution)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Without what is found again: networks are large."""
        return {name: value for name, value in vars(self).items() if name != "_comparators"}

    def permutation(self, x: Tensor) -> Tensor:
        """P [..., rank, input] of x [..., n]; rows and columns sum to 1."""
        check_matrices(self.name, x, x.shape[-1])
        return self._walk(x).carried(None).reshape(*x.shape, x.shape[-1])

    def values(self, x: Tensor) -> Tensor:
        """P @ x, without P."""
        rows, comparators, steepness, factor = self._rows(x)
        found, _ = _through(NETWORK, rows, comparators, steepness, self.backend)
        found = found if x.ndim == 2 else found.reshape(x.shape)  # slower than a short sort
        return found / factor if isinstance(factor, Tensor) else found

    def carried(self, x: Tensor, payload: Tensor) -> Tensor:
        """P @ payload, [..., n, c], without P."""
        x, payload = expanded(x, payload)
        flat = stacked(payload, 2)
        return self._walk(x).carried(flat).reshape(payload.shape)

    def weighed(self, x: Tensor, weights: Tensor) -> Tensor:
        """P^T @ weights, [..., n, c], without P."""
        if is_traced():  # it cannot build a network
            return super().weighed(x, weights)
        x, weights = expanded(x, weights)
        walked = self._walk(x)
        flat = stacked(weights, 2)
        return walked.returned(flat, backwards(walked.wires)).reshape(weights.shape)

    def ranks(self, x: Tensor) -> Tensor:
        """Soft ranks that rise with x, lie in [1, n], and become n + 1 - ranks for -x.

        Expected ranks under the columns of P have the last property for few networks and the first
        for none, as P depends on the order in which the values come. So

        1. the values are sorted, and e is the expected rank of each under P of the sorted list;
        2. unless the network is its own mirror, e is averaged with n + 1 - those of -x;
        3. ranks are the nearest sequence to e that rises by p at least from a value to the next, by
           isotonic regression, and then the nearest to that which rises by p n / 2 at most; with p
           = 2 F(d steepness) - 1, by which ranks differ of two values, d apart, that are alone.

        Sums of comparisons, 1 + sum_j F((x_i - x_j) steepness), do as much. Ranks of equal values
        are equal, those of two values are the expected ones. Ranks are continuous in x if F is, and
        smooth but where blocks of the regressions change.
        """
        keys, _, factor = self._keyed(x)
        if isinstance(factor, Tensor):  # of every row
            return replace(self, steepness=1.0).ranks(keys)
        n, wires = x.shape[-1], self.network_of(x.shape[-1])
        order = stable_sort(x.detach())[1]
        ascending = x.gather(-1, order)
        if wires.is_own_mirror:
            found = wide(self._expected(ascending))
        else:
            both = wide(self._expected(torch.stack([ascending, -ascending.flip(-1)])))
            found = (both[0] + (n + 1 - both[1].flip(-1))) / 2
        least = torch.nn.functional.pad(self._steps(wide(ascending)), (1, 0)).cumsum(-1)
        most = max(1.0, n / 2) * least
        ranks = most - isotonic(most - (least + isotonic(found - least)))
        fixed = ranks.detach()
        ranks = ranks + (running_max(fixed).clamp(1, n) - fixed)  # but for rounding they do
        return ranks.to(x.dtype).gather(-1, order.argsort(-1))

    def _steps(self, ascending: Tensor) -> Tensor:
        """By how much ranks of neighbours [..., n - 1] differ if the two are alone."""
        ascending, steepness, _ = self._keyed(ascending)
        if isinstance(steepness, Tensor):
            steepness = saturated(steepness.to(ascending))
        gaps = ascending.diff(dim=-1)
        keep, swap = self.distribution.coverage(gaps, scale_of(steepness))
        steps = saturated(keep) - saturated(swap)
        return torch.where((gaps == 0) & (steps.detach() > 0), 0.0, steps)  # heaviside

    def _expected(self, x: Tensor) -> Tensor:
        """The expected rank under each column of P, without P."""
        positions = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device)
        return self.weighed(x, positions[:, None])[..., 0]

    def _walk(self, x: Tensor) -> Walk:
        rows, comparators, steepness, _ = self._rows(x)
        return walk(rows, comparators, steepness, self.backend)

    def _rows(self, x: Tensor) -> tuple[Tensor, Comparators, Number, Tensor | float]:
        """Keys [B, n], their comparators, and the rest of `_keyed`."""
        keys, steepness, factor = self._keyed(x)
        if x.ndim != 2:  # a view takes longer than a short sort
            keys = keys.flatten(0, -2) if x.ndim > 1 else keys[None]
        return keys, self.comparators_of(x.shape[-1]), steepness, factor

    def _keyed(self, x: Tensor) -> _Keyed:
        if not isinstance(self.steepness, Tensor):
            return x, self.steepness, 1.0
        return of_rows(x, self.steepness, power_of(self.distribution))


@final
@dataclass(frozen=True)
class BitonicSort(NetworkSort):
    """`NetworkSort` with the bitonic network: about log2(n)^2 / 2 layers, for large n."""

    name: ClassVar[str] = "bitonic"


@final
@dataclass(frozen=True)
class OddEvenSort(NetworkSort):
    """`NetworkSort` with the odd-even transposition network: n layers of neighbours."""

    name: ClassVar[str] = "odd_even"


@final
@dataclass(frozen=True)
class OddEvenMergeSort(NetworkSort):
    """`NetworkSort` with Batcher's odd-even mergesort: as deep as bitonic, fewer comparators."""

    name: ClassVar[str] = "odd_even_merge"


@final
@dataclass(frozen=True)
class CustomNetworkSort(NetworkSort):
    """`NetworkSort` with a network of your own; whether it sorts is not checked.

    Args:
        network: its n is the number of values that can be sorted.
    """

    name: ClassVar[str] = "network"

    _: KW_ONLY
    network: Network = None  # pyright: ignore[reportAssignmentType]  # refused below

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.network, Network):
            raise TypeError(
                f"network must be a Network, got {type(self.network).__name__}; "
                "for one with a name use its own method"
            )
        if not self.network.sorts:
            raise ValueError(
                f"the network {self.network.name} selects {len(self.network.outputs)} of "
                f"{self.network.n} values and does not sort them all; use gendr.topk.soft_topk"
            )
        ready(self.network)

    def network_of(self, n: int) -> Network:
        """The network, if it is for n values.

        Raises:
            ValueError: it is for another number of values.
        """
        if n != self.network.n:
            raise ValueError(
                f"the network {self.network.name} sorts {self.network.n} values, got {n}"
            )
        return self.network


def ready(wires: Network) -> Network:
    """Compute the cached arrays of a network: `torch.compile` can read them, but not make them."""
    _ = wires.for_graphs, wires.spans, wires.is_own_mirror
    return wires


@constant
def named(name: str, n: int) -> Network:
    """The network with this name for n values, made `ready`."""
    return _named(name, n)


@cache
def _named(name: str, n: int) -> Network:
    return ready(network(name, n))


@lru_cache(maxsize=256)
def backwards(wires: Network) -> Network:
    """The network with its comparators in reverse order."""
    layers = tuple(layer[::-1] for layer in wires.layers[::-1])
    return Network(wires.n, layers, f"{wires.name} backwards")
