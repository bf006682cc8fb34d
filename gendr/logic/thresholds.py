"""Numbers as bits: how real inputs enter a network of gates.

A bit says whether a number is above a threshold. In training, thresholds may be learnt: the hard
decision becomes the CDF of a chosen distribution, F((x - threshold) / scale).

Source: thesis, section 6.4.4 (fixed thresholds).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gendr._common.checks import (
    check_count,
    check_finite,
    check_number,
    check_tensor,
    shape_text,
)
from gendr._common.words import worded
from gendr.distributions.registry import DistributionLike, as_distribution
from gendr.logic.kinds import OfAKind


@worded()
class Thermometer(OfAKind):
    """Every number becomes T bits, whether it is above each of T thresholds; NaN is above none.

    [..., F] becomes [..., F T]: the bits of a feature are neighbours, in the order of thresholds.
    For images, with `dim=-3`, channels become more channels: [.., C, H, W] -> [.., C T, H, W].

    Args:
        thresholds: [T], the same for all features, or [F, T]. In ascending order the bits are a
            thermometer; no order is needed. Numbers are rounded to their dtype before they are
            compared: 0.7 in float64 is not above 0.7 in float32, as in training and in circuits.
        dim: the dimension of the features, -1 or, for the channels of images, -3.
        learnable: whether thresholds are parameters. Then, while the module trains, bits are the
            CDF of `dist` at (x - threshold) / scale.
        dist: the distribution of the relaxed decision, a name or an object.
        scale: of the distribution, > 0, in units of x.

    Raises:
        TypeError: if the thresholds are no numbers.
        ValueError: if their shape is another, one is not finite, or the scale is not positive.
    """

    thresholds: Tensor

    def __init__(
        self,
        thresholds: Tensor | Sequence[float],
        *,
        dim: int = -1,
        learnable: bool = False,
        dist: DistributionLike = "logistic",
        scale: float = 0.1,
    ) -> None:
        super().__init__()
        given = isinstance(thresholds, Tensor)
        values = thresholds if given else torch.as_tensor(thresholds, device="cpu")
        if values.dtype == torch.bool or values.is_complex():
            raise TypeError(f"thresholds must be numbers, got {values.dtype}")
        if not values.is_floating_point():
            values = values.to(torch.get_default_dtype())
        if values.ndim not in (1, 2) or values.numel() == 0:
            raise ValueError(f"thresholds must have shape [T] or [F, T], got {list(values.shape)}")
        values = check_finite("thresholds", values.detach().clone())
        values = values if given else values.to(torch.empty(0).device)
        if dim not in (-1, -3):
            raise ValueError(f"dim must be -1, or -3 for the channels of images, got {dim!r}")
        self.dim = dim
        self.dist, self.scale = as_distribution(dist), check_number("scale", scale, above=0)
        self.learnable = learnable
        if learnable:
            self.thresholds = nn.Parameter(values)
        else:
            self.register_buffer("thresholds", values)

    @classmethod
    def uniform(
        cls, bits: int, low: float = 0.0, high: float = 1.0, *, dim: int = -1
    ) -> Thermometer:
        """Thresholds at equal distances between low and high, both excluded.

        For images in [0, 1], 3 bits are a resolution of 4 values, with thresholds 0.25, 0.5, 0.75.

        Raises:
            ValueError: if bits < 1, or low is not below high.
        """
        bits, high = check_count("bits", bits), check_number("high", high)
        low = check_number("low", low, below=high)
        steps = [k / (bits + 1) for k in range(1, bits + 1)]
        return cls([low + (high - low) * step for step in steps], dim=dim)

    @classmethod
    def quantiles(cls, x: Tensor, bits: int, weights: Tensor | None = None) -> Thermometer:
        """Thresholds between which each feature has equally many of the given rows.

        Args:
            x: [N, F], such as the training data.
            bits: per feature.
            weights: [N] of the rows, >= 0 and somewhere > 0; by default all count alike.

        Raises:
            ValueError: if x is no matrix, has no rows or a value that is not finite, bits < 1, or
                the weights are others.
        """
        bits = check_count("bits", bits)
        check_finite("x", check_tensor("x", x))
        if x.ndim != 2 or not len(x):
            raise ValueError(f"x must have shape [N, F] with N >= 1, got {list(x.shape)}")
        values = x if x.is_floating_point() else x.to(torch.get_default_dtype())
        q = torch.arange(1, bits + 1, dtype=torch.float64, device=x.device) / (bits + 1)
        ordered, place = values.sort(0)
        if weights is not None:
            weights = check_finite("weights", check_tensor("weights", weights)).double()
            if weights.shape != x.shape[:1] or (weights < 0).any() or not weights.any():
                raise ValueError(
                    f"weights must be [{len(x)}], >= 0 and somewhere > 0, got "
                    f"{shape_text(weights.shape)}"
                )
            reached = (weights / weights.mean())[place].cumsum(0).T.contiguous()
            goals = (q * (len(values) - 1)).expand(x.shape[1], -1).contiguous()
            return cls(ordered.T.gather(1, torch.searchsorted(reached, goals, right=True)))
        # An observed value, not a mean of two: half of [0, 0, 1, 1] lies above 0, not above 0.5.
        rows = (q * (len(values) - 1)).floor().long()
        return cls(ordered[rows].T.contiguous())

    def forward(self, x: Tensor) -> Tensor:
        """Turn numbers into bits.

        Args:
            x: [..., F], or [..., F, H, W] if `dim` is -3, of any real dtype.

        Returns:
            [..., F T], or [..., F T, H, W], 0 or 1, or in [0, 1] while learnable thresholds train.
            In the dtype of x, or the default one if that holds integers.

        Raises:
            ValueError: if the number of features is not that of the thresholds.
        """
        check_tensor("x", x, meta=True)
        dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        limits = self.thresholds
        if x.ndim < -self.dim or (limits.ndim == 2 and x.shape[self.dim] != len(limits)):
            want = len(limits) if limits.ndim == 2 else "any number of"
            where = "its last dimension" if self.dim == -1 else "dimension -3, [..., C, H, W]"
            raise ValueError(f"x must have {want} features in {where}, got {list(x.shape)}")
        limits = limits.reshape(*limits.shape, *[1] * (-1 - self.dim))
        x = x.unsqueeze(self.dim + x.ndim + 1)  # thresholds become the dimension behind features
        if self.learnable and self.training:
            bits = self.dist(x.to(limits.dtype) - limits, self.scale)
        else:
            bits = x.to(limits.dtype) > limits  # as in training, whatever x is
        return bits.flatten(self.dim - 1, self.dim).to(dtype)

    def _kind(self) -> dict[str, Any]:
        """See `OfAKind`."""
        dist = {"dist": str(self.dist), "scale": self.scale} if self.learnable else {}
        return {"layer": "Thermometer", "dim": self.dim, "learnable": self.learnable, **dist}

    def extra_repr(self) -> str:
        """What the text of a model shows."""
        text = f"thresholds of shape {list(self.thresholds.shape)}"
        text += f", dim={self.dim}" if self.dim != -1 else ""
        return f"{text}, learnable, {self.dist}, scale={self.scale:g}" if self.learnable else text


@worded()
class Binarize(Thermometer):
    """One bit per number, whether it is above a threshold: [..., F] -> [..., F].

    Args:
        threshold: of all features.
        learnable: see `Thermometer`.
        dist: see `Thermometer`.
        scale: see `Thermometer`.
    """

    def __init__(
        self,
        threshold: float = 0.5,
        *,
        learnable: bool = False,
        dist: DistributionLike = "logistic",
        scale: float = 0.1,
    ) -> None:
        value = check_number("threshold", threshold)
        super().__init__([value], learnable=learnable, dist=dist, scale=scale)
