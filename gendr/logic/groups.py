"""Sums of groups of outputs: how bits become the scores of classes.

Source: thesis, equation 6.3.
"""

from __future__ import annotations

from typing import final

from torch import Tensor, nn

from gendr._runtime.checks import check_count, check_number, check_tensor
from gendr._runtime.words import worded

__all__ = ["GroupSum"]


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

    def forward(self, x: Tensor) -> Tensor:
        """Sum the groups.

        Args:
            x: [..., n], features in [0, 1], or bool; k divides n.

        Returns:
            [..., k], the sums / tau + beta.

        Raises:
            ValueError: if k does not divide the number of features.
        """
        check_tensor("x", x)
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
