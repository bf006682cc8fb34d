"""How well images agree."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr._common.checks import (
    check_device,
    check_finite,
    check_float,
    check_number,
    check_tensor,
    shape_text,
)
from gendr._common.tracing import cached, is_traced
from gendr.losses.means import mean

__all__ = ["iou", "iou_loss", "mse_loss", "psnr", "ssim"]

# How far rounding may take soft values beyond [0, 1]; 8-bit values are far beyond that.
_ROUNDING = 1e-3
# The window of `ssim`: its side and its standard deviation, in pixels; and the two numbers that
# keep its quotients finite, (K L)^2 with K = 0.01 and 0.03 and the white L = 1.
_SIDE, _SIGMA = 11, 1.5
_C1, _C2 = 0.01**2, 0.03**2


def _image_pair(name: str, image: Tensor, target: Tensor) -> Tensor:
    """`target` in the dtype of `image`, after checking that the two fit."""
    check_float(name, image)
    check_tensor("target", target)
    check_device("target", target, name, image)
    if target.dtype is torch.bool:
        target = target.to(image.dtype)
    check_float("target", target)
    fits = image.ndim == target.ndim and image.ndim >= 2
    pairs = zip(image.shape, target.shape, strict=False)
    if not fits or not all(a == b or (i == 0 and image.ndim > 2 and 1 in (a, b))
                           for i, (a, b) in enumerate(pairs)):  # fmt: skip
        raise ValueError(
            f"{name} and target must have equal shapes [H, W] or [B, ..., H, W] (1 broadcasts to "
            f"B), got {shape_text(image.shape)} and {shape_text(target.shape)}"
        )
    return check_finite("target", target.to(image.dtype))


def _masks(alpha: Tensor, target: Tensor) -> Tensor:
    """The target as `_image_pair` returns it, for masks, which must lie in [0, 1]."""
    target = _image_pair("alpha", alpha, target)
    if target.numel() and not is_traced():
        cached(target, _check_range, _check_range)
    return target


def _check_range(target: Tensor) -> None:
    low, high = (float(x) for x in torch.aminmax(target.detach()))
    if low < -_ROUNDING or high > 1 + _ROUNDING:
        raise ValueError(
            f"target must be in [0, 1], got {low:g} .. {high:g}; divide 8-bit masks by 255"
        )


def _ratio(intersection: Tensor, union: Tensor) -> Tensor:
    """Intersection over union, 1 with gradient 0 where both masks are empty."""
    empty = union <= 0
    return torch.where(empty, 1.0, intersection / torch.where(empty, 1.0, union))


def iou_loss(alpha: Tensor, target: Tensor) -> Tensor:
    """1 - soft intersection over union, per image, then the mean.

    Args:
        alpha: [B, H, W] or [H, W], in [0, 1].
        target: The same shape, or batch size 1 against B; in [0, 1] (soft edges count as they
            are) or bool.

    Returns:
        Scalar in [0, 1]: 1 - sum(a t) / sum(a + t - a t). It is 0 for two empty images, which
        agree, and, as for all losses here, for an empty batch.

    Raises:
        TypeError: If a dtype is wrong.
        ValueError: If shapes, devices or the range of the target are wrong.

    Source: Kato et al., Neural 3D Mesh Renderer, 2018; Liu et al., Soft Rasterizer, 2019.
    """
    target = _masks(alpha, target)
    both = (alpha * target).sum((-2, -1))
    union = alpha.sum((-2, -1)) + target.sum((-2, -1)) - both
    return mean(1 - _ratio(both, union))


def iou(alpha: Tensor, target: Tensor, threshold: float = 0.5) -> Tensor:
    """Intersection over union of the masks alpha > threshold and target > threshold.

    Args:
        alpha: [B, H, W] or [H, W], in [0, 1].
        target: As for `iou_loss`.
        threshold: In (0, 1).

    Returns:
        [B] (a scalar for [H, W]), one value per image in [0, 1], no gradient; 1 where both masks
        are empty, nan where alpha is.

    Raises:
        TypeError: As `iou_loss`.
        ValueError: As `iou_loss`, and if the threshold is out of range.
    """
    check_number("threshold", threshold, above=0, below=1)
    target = _masks(alpha, target)
    a, b = alpha.detach() > threshold, target > threshold
    found = _ratio((a & b).sum((-2, -1)).to(alpha.dtype), (a | b).sum((-2, -1)).to(alpha.dtype))
    return torch.where(alpha.detach().sum((-2, -1)).isnan(), torch.nan, found)


def mse_loss(image: Tensor, target: Tensor) -> Tensor:
    """Mean squared difference over all pixels, channels and images.

    Args:
        image: [H, W] or [B, ..., H, W], such as alpha or RGB.
        target: The same shape, or batch size 1 against B.

    Returns:
        Scalar >= 0.

    Raises:
        TypeError: If a dtype is wrong.
        ValueError: If shapes or devices differ.
    """
    return mean((image - _image_pair("image", image, target)).square())


def psnr(image: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Peak signal-to-noise ratio of images whose white is 1: -10 log10 of the mean squared error.

    Args:
        image: [B, C, H, W] or [C, H, W].
        target: The same shape, or batch size 1 against B.
        mask: [B, H, W] or [H, W], the pixels that count: those above 0.5; by default all.

    Returns:
        [B] (a scalar for [C, H, W]) in decibels, no gradient; inf where all pixels that count are
        equal, nan where none counts.

    Raises:
        TypeError: If a dtype is wrong.
        ValueError: If shapes or devices differ.
    """
    if image.ndim not in (3, 4):
        raise ValueError(
            f"image must have shape [B, C, H, W] or [C, H, W], got {shape_text(image.shape)}"
        )
    square = (image - _image_pair("image", image, target)).detach().square().mean(-3)
    if mask is None:
        return -10 * square.mean((-2, -1)).log10()
    counts = _image_pair("mask", square, mask) > 0.5
    error = torch.where(counts, square, 0.0).sum((-2, -1)) / counts.sum((-2, -1))
    return -10 * error.log10()


def ssim(image: Tensor, target: Tensor) -> Tensor:
    """Structural similarity of images whose white is 1.

    Means, variances and the covariance are those under a Gaussian window of 11 x 11 pixels with a
    standard deviation of 1.5; the index is averaged over all windows that lie within the image,
    and over channels.

    Args:
        image: [B, C, H, W] or [C, H, W], at least 11 x 11 pixels.
        target: The same shape, or batch size 1 against B.

    Returns:
        [B] (a scalar for [C, H, W]) in [-1, 1], differentiable; 1 where both images are equal.

    Raises:
        TypeError: If a dtype is wrong.
        ValueError: If shapes or devices differ, or an image is smaller than the window.

    Source: Wang et al., Image Quality Assessment: From Error Visibility to Structural Similarity,
    2004, (13).
    """
    if image.ndim not in (3, 4) or min(image.shape[-2:]) < _SIDE:
        raise ValueError(
            f"image must have shape [B, C, H, W] or [C, H, W] with H, W >= {_SIDE}, got "
            f"{shape_text(image.shape)}"
        )
    target = _image_pair("image", image, target)
    batch = torch.broadcast_shapes(image.shape, target.shape)
    x, y = (each.expand(batch).flatten(0, -3) for each in (image, target))
    ticks = torch.arange(_SIDE, dtype=x.dtype, device=x.device) - _SIDE // 2
    window = torch.exp(-(ticks**2) / (2 * _SIGMA**2))
    window = window / window.sum()
    moments = torch.stack([x, y, x * x, y * y, x * y], 1).flatten(0, 1)[:, None]
    with torch.autocast(x.device.type, enabled=False):  # variances are differences
        for kernel in (window[:, None], window[None]):  # a Gaussian is a product of two
            moments = F.conv2d(moments, kernel[None, None])
    a, b, aa, bb, ab = moments.unflatten(0, (-1, 5))[:, :, 0].unbind(1)
    means, product = a * a + b * b, a * b
    index = (2 * product + _C1) * (2 * (ab - product) + _C2)
    index = index / ((means + _C1) * (aa + bb - means + _C2))
    return index.mean((-2, -1)).unflatten(0, batch[:-2]).mean(-1)
