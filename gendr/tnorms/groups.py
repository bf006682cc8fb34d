"""How values belong together: the one reduction interface that dense and sparse code share.

A T-conorm or a softmax over the faces of a pixel needs a sum per pixel, a maximum per pixel and
the way back from a pixel to its fragments. `Along` offers these for a dense tensor with one axis
for the members of a group, `Segments` for a flat list whose entries carry the index of their group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gendr._common.vectors import gathered, summed


class Grouping(Protocol):
    """Sums and maxima over groups, and the way back from group to member."""

    def sum(self, values: Tensor) -> Tensor:
        """Sum per group."""
        ...

    def max(self, values: Tensor) -> Tensor:
        """Maximum per group, 0 for an empty group; carries no gradient."""
        ...

    def expand(self, totals: Tensor) -> Tensor:
        """The value of its group for every member."""
        ...

    def count(self, values: Tensor) -> Tensor:
        """Members per group, in the shape and dtype of `sum(values)`."""
        ...


@dataclass(frozen=True)
class Along:
    """Groups are the slices of a dense tensor along `dim`."""

    dim: int = -1

    def sum(self, values: Tensor) -> Tensor:
        """Sum over `dim`."""
        return values.sum(self.dim)

    def max(self, values: Tensor) -> Tensor:
        """Maximum over `dim`, 0 if it is empty."""
        with torch.no_grad():
            if values.shape[self.dim] == 0:
                return values.sum(self.dim)
            return values.amax(self.dim)

    def expand(self, totals: Tensor) -> Tensor:
        """Insert `dim` again, of size 1, so that it broadcasts."""
        return totals.unsqueeze(self.dim)

    def count(self, values: Tensor) -> Tensor:
        """The length of `dim`."""
        return torch.full_like(self.sum(values.detach()), values.shape[self.dim])


@dataclass(frozen=True)
class Segments:
    """Groups are given by `index` [K] in 0 .. size - 1; values are [K] or [K, C]."""

    index: Tensor
    size: int

    def sum(self, values: Tensor) -> Tensor:
        """Sum per segment: [size] or [size, C]."""
        return summed(values, self.index, self.size)

    def max(self, values: Tensor) -> Tensor:
        """Maximum per segment, 0 for an empty one."""
        with torch.no_grad():
            out = values.new_zeros(self.size)
            return out.scatter_reduce(0, self.index, values, "amax", include_self=False)

    def expand(self, totals: Tensor) -> Tensor:
        """Row `index` of the totals."""
        return gathered(totals, self.index)

    def count(self, values: Tensor) -> Tensor:
        """Entries per segment."""
        return self.sum(torch.ones_like(values.detach()))
