"""Supervision of scores by relaxed bubble sort: in the true order, nothing should be swapped."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gendr._common.checks import check_choice
from gendr.distributions.decisions import check_steepness
from gendr.relaxed import bubble_sort
from gendr.relaxed.backends.distributions import check_distribution

# By the name of the method, what is made small.
BUBBLES = {
    "bubble_sort": "the probability that something is swapped",
    "bubble_swaps": "the number of swaps",
}


@dataclass(frozen=True)
class BubbleOrder:
    """The loss of a ranking by relaxed bubble sort.

    Attributes:
        name: "bubble_sort", the loss is the probability that at least one swap is necessary, as
            published; or "bubble_swaps", it is their expected number, the distance of Kendall's
            tau.
        dist: the distribution of the comparisons.
        steepness: 1 / scale of the distribution; the thesis uses 8 for all lengths of lists.

    Source: thesis, section 2.3.
    """

    name: str = "bubble_sort"
    dist: str = "logistic"
    steepness: float = 8.0

    def __post_init__(self) -> None:
        check_choice("method of bubble sort", self.name, BUBBLES)
        check_distribution(self.dist)
        check_steepness(self.steepness)

    def loss(self, scores: Tensor, values: Tensor) -> Tensor:
        """The mean over lists; 0 if the scores have the order of the values, far apart.

        Args:
            scores: [..., n], of the network.
            values: [..., n], true. Equal ones count as if the first were smaller, as in
                `permutation_matrix`.
        """
        order = values.argsort(dim=-1, stable=True)
        found = bubble_sort(scores.gather(-1, order), self.dist, self.steepness)
        return (1 - found.ordered if self.name == "bubble_sort" else found.swaps).mean()
