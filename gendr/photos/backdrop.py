"""Backdrops that stand still before the camera while the object turns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from gendr.kernels.threads import mapped

__all__ = ["evened_rims", "still_backdrop", "unevenness"]

# Pictures of which a backdrop is the median; by how much half of them may differ from it where it
# stands still, the part of the rim of the picture where it must; by how much the object differs.
_SOME, _STILL, _STILL_PART, _DIFFERS = 24, 0.03, 0.9, 0.08
# From this brightness on backdrops differ so much, darker ones less, down to this part of it.
_BRIGHT, _EVEN = 0.25, 0.4
# Factors are found by what is brighter than this, and not cut off.
_DARK, _WHITE = 0.1, 0.98
# A pixel of the backdrop is known where the pictures agree so well, in this part of them.
_AGREES, _AGREE_PART = 0.05, 0.6
_NOISES = 2.0  # or so many times as at the very rim
# The width of the rim, and the radius of gaps in masks that are closed, pixels.
_GAP = 3
_BANDS = 8  # of rows, that threads take in turns


def evened_rims(images: Tensor) -> Tensor:
    """Pictures [B, 3, H, W] of other exposures or white balance, with rims like those of most."""
    rim = torch.cat([images[:, :, [0, -1]].flatten(2), images[..., [0, -1]].flatten(2)], 2)
    usual = rim.median(0).values
    known = (rim > _DARK) & (rim < _WHITE) & (usual > _DARK) & (usual < _WHITE)
    gain = torch.where(known, usual / rim.clamp(min=_DARK), torch.nan).nanmedian(2).values
    gain = gain.nan_to_num(1.0).clamp(0.5, 2)[..., None, None]
    return torch.where(images < _WHITE, (images * gain).clamp(max=1), images)


def still_backdrop(images: Tensor) -> tuple[Tensor, Tensor] | None:
    """The backdrop of pictures of something that moves before it, as on a turntable.

    The backdrop is the median of the pictures, as far as they agree about it from the rim inwards:
    where many differ from it, or where they agree about an island, as the object always stands
    there, it is filled in from around. What differs from it are the masks, with holes filled.

    Args:
        images: [B, 3, H, W] in [0, 1], of one exposure, see `evened_rims`.

    Returns:
        The backdrop [3, H, W] and masks [B, H, W], 0 or 1; None if the rim does not stand still, or
        there are too few pictures to know.
    """
    some = images[:: max(1, len(images) // _SOME)]

    edge = torch.cat([some[:, :, [0, -1]].flatten(2), some[..., [0, -1]].flatten(2)], 2)
    noise = float((edge - edge.median(0).values).abs().amax(1).median())

    def usual(band: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        middle = band.median(0).values
        off = (band - middle).abs().amax(1)
        agrees = off < (_AGREES * unevenness(middle.mean(0))).clamp(min=_NOISES * noise)
        return middle, off.median(0).values, agrees.double().mean(0)

    found = mapped(usual, some.chunk(_BANDS, 2), device=images.device)
    backdrop, moves, agree = (torch.cat(part, -2) for part in zip(*found, strict=True))
    inner = moves[_GAP:-_GAP, _GAP:-_GAP]
    rim = (moves < _STILL).sum() - (inner < _STILL).sum()
    if len(some) < 3 or float(rim) < _STILL_PART * (moves.numel() - inner.numel()):
        return None
    known = _from_rim((agree >= _AGREE_PART).cpu().numpy())
    backdrop = _filled_in(backdrop, torch.from_numpy(known).to(images.device))
    differs = (images - backdrop).abs().amax(1) > _DIFFERS * unevenness(backdrop.mean(0))
    masks = np.stack(mapped(_filled, list(differs.cpu().numpy())))
    return backdrop, torch.from_numpy(masks).to(images)


def unevenness(light: Tensor) -> Tensor:
    """How uneven a backdrop of such brightness is, beside a bright one: folds take a part of it."""
    return (light / _BRIGHT).clamp(_EVEN, 1)


def _from_rim(known: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """What of [H, W] is joined to the rim, by more than single pixels."""
    from scipy.ndimage import binary_opening, label

    opened = np.asarray(binary_opening(np.pad(known, 1, mode="edge")), bool)
    wide = np.pad(opened[1:-1, 1:-1], 1, mode="edge")
    labelled: Any = label(wide)
    parts: npt.NDArray[np.int32] = labelled[0]
    rim = [parts[0], parts[-1], parts[:, 0], parts[:, -1]]
    return (np.isin(parts, np.concatenate(rim)) & wide)[1:-1, 1:-1]


def _filled_in(image: Tensor, known: Tensor) -> Tensor:
    """An image [3, H, W] where what is not known [H, W] follows smoothly from around.

    By a pyramid of means of what is known, from coarse to fine (push-pull, Gortler et al. 1996).
    """
    weight = known.to(image)[None]
    levels = [(image * weight, weight)]
    while max(levels[-1][0].shape[1:]) > 1:
        levels.append(tuple(F.avg_pool2d(x[None], 2, ceil_mode=True)[0] for x in levels[-1]))  # pyright: ignore[reportArgumentType]
    found = levels[-1][0] / levels[-1][1].clamp(min=1e-12)
    for color, share in reversed(levels[:-1]):
        wide = F.interpolate(found[None], color.shape[1:], mode="bilinear")[0]
        some = share.clamp(0, 1)
        found = color + (1 - some) * wide
    return torch.where(known, image, found)


def _filled(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """A mask without specks, gaps of a few pixels and holes."""
    from scipy.ndimage import binary_closing, binary_fill_holes, binary_opening

    whole = np.pad(binary_opening(mask), _GAP, mode="edge")
    whole = binary_closing(whole, iterations=_GAP)
    found = np.asarray(binary_fill_holes(whole), bool)
    return found[_GAP:-_GAP, _GAP:-_GAP]
