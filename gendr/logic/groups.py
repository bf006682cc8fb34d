"""Sums of groups of outputs: how bits become the scores of classes.

Source: thesis, equation 6.3.
"""

from __future__ import annotations

from typing import final

from torch import Tensor, nn

from gendr._common.checks import check_count, check_number, check_tensor
from gendr._common.words import worded


@worded(paper=("temperature",))
@final
class GroupSum(nn.Module):
    """The sums of k groups of neighbouring features, divided by tau: [..., n] -> [..., k].

    Hard features are counted. `tau` scales what a softmax sees: the more features a group has, the
    larger it should be; the thesis takes 10 for 800 features a group, 33 for 6,400.

    Args:
        k: how many groups, such as classes; it must divide the number of features.
        tau: the scale of the softmax that follows (its temperature), > 0.
        beta: added to each sum, after the division.

    Raises:
        ValueError: if a number is out of its range.
    """

    def __init__(self, k: int, tau: float = 1.0, beta: float = 0.0) -> None:
        super().__init__()
        self.k = check_count("k", k)
        self.tau = check_number("tau", tau, above=0)
        self.beta = check_number("beta", beta)

    @classmethod
    def of_values(cls, k: int, features: int, low: float = 0.0, high: float = 1.0) -> GroupSum:
        """A head of regression: k numbers from low (no feature is 1) to high (all are).

        Args:
            k: how many numbers.
            features: of the layer before, all groups together.
            low: the least value.
            high: the largest.

        Raises:
            ValueError: k does not divide the features, or low is not below high.
        """
        each = _each(k, features)
        high = check_number("high", high)
        low = check_number("low", low, below=high)
        return cls(k, each / (high - low), low)

    @classmethod
    def of_labels(cls, k: int, features: int, tau: float = 1.0) -> GroupSum:
        """A head of k labels of which any number may hold: logits (count - half a group) / tau.

        They are for `nn.BCEWithLogitsLoss`; `Circuit.labels` says which are positive.

        Args:
            k: how many labels.
            features: of the layer before, all groups together.
            tau: the scale, > 0.

        Raises:
            ValueError: k does not divide the features, or a number is out of its range.
        """
        return cls(k, tau, -_each(k, features) / (2 * check_number("tau", tau, above=0)))

    def forward(self, x: Tensor) -> Tensor:
        """Sum the groups.

        Args:
            x: [..., n], features in [0, 1], or bool; k divides n.

        Returns:
            [..., k], the sums / tau + beta.

        Raises:
            ValueError: if k does not divide the number of features.
        """
        check_tensor("x", x, meta=True)
        if x.ndim == 0 or x.shape[-1] == 0 or x.shape[-1] % self.k:
            raise ValueError(
                f"the features must form {self.k} groups of equal size, got "
                f"{x.shape[-1] if x.ndim else 'a number'}; change k or the width of the last layer"
            )
        # By columns, as a layer of gates leaves them in memory: rows of the batch are neighbours.
        columns = x.movedim(-1, 0).unflatten(0, (self.k, -1))
        sums = columns.sum(1).movedim(0, -1) / self.tau
        return sums + self.beta if self.beta else sums

    def extra_repr(self) -> str:
        """What the text of a model shows."""
        return f"{self.k}, tau={self.tau:g}" + (f", beta={self.beta:g}" if self.beta else "")


def _each(k: int, features: int) -> int:
    """How many features a group has."""
    features, k = check_count("features", features), check_count("k", k)
    if features % k:
        raise ValueError(f"k must divide the {features} features, got {k}")
    return features // k
