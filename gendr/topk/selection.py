"""The methods of soft selection: relaxed selection networks, and the top rows of a soft sort.

A method is a frozen dataclass of its settings. Its input is a finite floating-point tensor [..., n]
with 1 <= k <= n, and it selects the largest; `gendr.topk.api` does the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias, final

import torch
from torch import Tensor

from gendr import sorting
from gendr._common.checks import check_choice
from gendr._common.tracing import constant, is_traced, lasting, lazy, number_of
from gendr._common.words import worded
from gendr.distributions import Distribution
from gendr.distributions.decisions import Number, check_steepness
from gendr.distributions.registry import DistributionLike
from gendr.kernels.backends import NAMES
from gendr.sorting.backends.comparators import Comparators
from gendr.sorting.base import PermutationSort, Sort, expanded, named_settings, stacked
from gendr.sorting.networks import Network
from gendr.sorting.relaxed import Walk, backwards, comparator_distribution, ready, walk
from gendr.topk.networks import NETWORKS, network

Selection: TypeAlias = "NetworkSelection | Sort"
Method: TypeAlias = "str | Selection"

# The sorts of `gendr.sorting` that select as well as they sort; its networks are superseded.
SORTS = ("neuralsort", "softsort", "sinkhorn", "permutahedron")


class Selecting(ABC):
    """One selection at work; each part is computed when it is first asked for."""

    @abstractmethod
    def values(self) -> Tensor:
        """The k largest values [..., k], largest first."""

    @abstractmethod
    def attribution(self) -> Tensor:
        """A [..., k, n]: how much each input is the largest, the second largest, and so on.

        Raises:
            ValueError: the method has none.
        """

    @abstractmethod
    def carried(self, payload: Tensor) -> Tensor:
        """A @ payload, [..., k, c], of a payload [..., n, c].

        Raises:
            ValueError: the method has no attribution.
        """

    def weighted(self, weights: Tensor) -> Tensor:
        """The sum of the rows of A with weights [..., k] or [k], [..., n].

        Raises:
            ValueError: the method has no attribution.
        """
        return (weights[..., None] * self.attribution()).sum(-2)  # many small matmuls take longer


# ---------------------------------------------------------------------------------------------
# Networks
# ---------------------------------------------------------------------------------------------


@worded()
@final
@dataclass(frozen=True)
class NetworkSelection:
    """A selection network whose comparators swap with a probability; see `sorting.NetworkSort`.

    The attribution is found by a second pass, from the outputs back to the inputs: what stands on
    a wire is then how much of it comes to each output. Time is O(k) and memory O(k + 1) for each
    comparator and wire; no matrix of n x n exists. For one with the steepness, dist, art and
    backend of a soft sort, rows of both agree as the networks do: leaving out comparators that
    cannot reach an output changes nothing.

    Args:
        steepness: inverse of the scale of the distribution, positive: a number, or a tensor of a
            single one, through which gradients flow.
        dist: a symmetric distribution: a name, a `Distribution` or a CDF of your own.
        art: exponent of the activation replacement trick, in [0, 1).
        backend: "auto", or a name of the backends of sorting networks.
        network: "splitter", "bitonic", "odd_even_merge", "pairwise", "odd_even", or a `Network` of
            your own with k outputs.

    Raises:
        TypeError: a setting is of the wrong type.
        ValueError: a setting is out of range, or the distribution is not symmetric.

    Source: Petersen et al., Differentiable Top-k Classification Learning (ICML 2022), section 3.1;
        thesis, section 4.2.
    """

    steepness: Number = 10.0
    dist: DistributionLike = "cauchy"
    art: float = 0.0
    backend: str = "auto"
    network: str | Network = "splitter"
    # The distribution that `dist` and `art` define.
    distribution: Distribution = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_steepness(self.steepness)
        check_choice("backend", self.backend, ("auto", *NAMES))
        object.__setattr__(self, "distribution", comparator_distribution(self.dist, self.art))
        if not isinstance(self.network, (str, Network)):
            raise TypeError(f"network must be a name or a Network, got {self.network!r}")
        if isinstance(self.network, str):
            check_choice("network", self.network, NETWORKS)

    def drawn(self, x: Tensor) -> tuple[NetworkSelection, Tensor]:
        """As that of a sort: the method without noise, of which it has none, and x."""
        return self, x

    def network_of(self, n: int, k: int) -> tuple[Network, Network]:
        """The network that selects k of n, and the same backwards.

        Raises:
            ValueError: a network of the user's has other numbers of wires or outputs.
        """
        if isinstance(self.network, str):
            return _both(self.network, number_of(n), number_of(k))
        wires = self.network
        if (wires.n, len(wires.outputs)) != (n, k):
            raise ValueError(
                f"the network {wires.name} selects {len(wires.outputs)} of {wires.n} values, "
                f"got k = {k} and n = {n}"
            )
        return ready(wires), ready(backwards(wires))


@constant
def _both(name: str, n: int, k: int) -> tuple[Network, Network]:
    """A network with a name, and the same backwards; their arrays are computed."""
    wires = ready(network(name, n, k))
    return wires, ready(backwards(wires))


@lasting()
def _outputs(wires: Network, device: torch.device) -> Tensor:
    """The wires on which the k largest leave, largest first; int64 [k]."""
    return torch.tensor(wires.outputs[::-1], device=device)


_cached_outputs = lru_cache(maxsize=64)(_outputs)


class _ByNetwork(Selecting):
    def __init__(self, method: NetworkSelection, x: Tensor, k: int) -> None:
        self.method, self.x, self.k = method, x, k
        self.wires, self.back = method.network_of(x.shape[-1], k)
        # Graphs and transforms keep nothing.
        self.outputs = (_outputs if is_traced() else _cached_outputs)(self.wires, x.device)

    def _walk(self, x: Tensor) -> Walk:
        flat = x.flatten(0, -2) if x.ndim > 1 else x[None]
        comparators = Comparators(self.wires, self.method.distribution)
        return walk(flat, comparators, self.method.steepness, self.method.backend)

    @lazy
    def walked(self) -> Walk:
        """The keys on their way."""
        return self._walk(self.x)

    def values(self) -> Tensor:
        return self.walked.values[:, self.outputs].reshape(*self.x.shape[:-1], self.k)

    def attribution(self) -> Tensor:
        walked = self.walked
        ends = self.x.new_zeros(self.wires.n, self.k)
        ends = ends.scatter(0, self.outputs[None], torch.ones_like(ends[:1]))
        result = walked.returned(ends.expand(walked.keep.shape[0], -1, -1), self.back)
        return result.mT.reshape(*self.x.shape[:-1], self.k, self.wires.n)

    def weighted(self, weights: Tensor) -> Tensor:
        """See `Selecting.weighted`; in the time of a single row of A."""
        walked = self.walked
        weights = weights.expand(*self.x.shape[:-1], self.k).reshape(-1, self.k)
        ends = weights.new_zeros(walked.keep.shape[0], self.wires.n)
        ends = ends.index_copy(1, self.outputs, weights)
        return walked.returned(ends[..., None], self.back).reshape(self.x.shape)

    def carried(self, payload: Tensor) -> Tensor:
        x, payload = expanded(self.x, payload)
        walked = self.walked if x.shape == self.x.shape else self._walk(x)
        result = walked.carried(stacked(payload, 2))
        return result[:, self.outputs].reshape(*x.shape[:-1], self.k, payload.shape[-1])


# ---------------------------------------------------------------------------------------------
# Sorts
# ---------------------------------------------------------------------------------------------


class _BySort(Selecting):
    """The first rows of a soft sort of `gendr.sorting`, largest first.

    NeuralSort and SoftSort compute these k rows only; the others all n. Without a permutation
    matrix ("permutahedron") there are values only.
    """

    def __init__(self, sort: Sort, x: Tensor, k: int) -> None:
        self.sort, self.x, self.k = sort, x, k

    def _with_matrix(self) -> PermutationSort:
        if not isinstance(self.sort, PermutationSort):
            raise ValueError(
                f"method {self.sort.name!r} gives values only, no attribution; "
                f"these have one: {', '.join(name for name in names() if name != self.sort.name)}"
            )
        return self.sort

    def values(self) -> Tensor:
        if isinstance(self.sort, PermutationSort):
            return self.carried(self.x[..., None]).squeeze(-1)
        return -self.sort.values(-self.x)[..., : self.k]

    def attribution(self) -> Tensor:
        return self._with_matrix().last_rows(self.x, self.k).flip(-2)

    def weighted(self, weights: Tensor) -> Tensor:
        weights = weights.flip(-1)[..., None]
        return self._with_matrix().last_weighed(self.x, weights).squeeze(-1)

    def carried(self, payload: Tensor) -> Tensor:
        return self._with_matrix().last_carried(self.x, payload, self.k).flip(-2)


# ---------------------------------------------------------------------------------------------
# Names
# ---------------------------------------------------------------------------------------------


def select(method: Selection, x: Tensor, k: int) -> Selecting:
    """Select the k largest of x [..., n]."""
    return _BySort(method, x, k) if isinstance(method, Sort) else _ByNetwork(method, x, k)


def names() -> tuple[str, ...]:
    """The names of all methods."""
    return (*NETWORKS, *SORTS)


def get(name: Method = "splitter", /, **options: Any) -> Selection:
    """A method of selection by its name and settings.

    >>> get("bitonic", steepness=20.0, dist="logistic")
    NetworkSelection(steepness=20.0, dist='logistic', art=0.0, backend='auto', network='bitonic')

    Args:
        name: one of `names()`; or a method, or a sort of `gendr.sorting`, whose settings the
            options replace.
        **options: settings of that method; all have `steepness`.

    Raises:
        TypeError: the method has no such setting, or a setting is of the wrong type.
        ValueError: there is no such method, or a setting is out of range.
    """
    if isinstance(name, Sort):
        return sorting.get(name, **options)
    if isinstance(name, NetworkSelection):
        own = named_settings(name, NetworkSelection, options) if options else {}
        return replace(name, **own) if own else name
    if not isinstance(name, str):
        raise TypeError(
            "a method is a name, a NetworkSelection or a Sort of gendr.sorting, got "
            f"{type(name).__name__}"
        )
    if check_choice("method", name, names()) in SORTS:
        return sorting.get(name, **options)
    own = named_settings(name, NetworkSelection, options, without=("network",))
    return NetworkSelection(network=name, **own)
