"""The mask of one image whose object stands before a plain background."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["object_mask"]

# A pixel belongs to the object if its colour differs from that of the border by more than this;
# and at most this share of the border may differ, else the background is not plain.
DIFFERENT, BORDER = 0.1, 0.1


def object_mask(image: Tensor) -> Tensor:
    """The mask [H, W] of an image: its alpha, or if it is opaque what differs from its border.

    Args:
        image: RGBA [4, H, W] in [0, 1].

    Raises:
        ValueError: if it is opaque and has no plain background, or only one colour.
    """
    alpha = image[3]
    return _differs_from_border(image[:3]) if bool((alpha > 0.99).all()) else alpha


def _differs_from_border(colour: Tensor) -> Tensor:
    """The mask [H, W] of what has another colour than the border of an image [3, H, W].

    Raises:
        ValueError: if the border has many colours, or nothing differs from it.
    """
    border = torch.cat([colour[:, 0], colour[:, -1], colour[:, :, 0], colour[:, :, -1]], 1)
    plain = border.median(1).values
    if float(_far(border, plain).float().mean()) > BORDER:
        raise ValueError("it has neither an alpha channel nor a plain background")
    mask = _far(colour, plain)
    if not mask.any():
        raise ValueError("it has one colour, so no object is seen")
    return mask.to(colour.dtype)


def _far(colour: Tensor, plain: Tensor) -> Tensor:
    """Where colours [3, ...] differ from one colour [3]."""
    return (colour - plain.view(3, *[1] * (colour.ndim - 1))).abs().amax(0) > DIFFERENT
