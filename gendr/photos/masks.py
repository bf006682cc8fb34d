"""Masks of photos that come without: what differs from a backdrop, its outline cut by colours.

A backdrop that stands still, as that of a turntable, is the median of the photos. Otherwise it must
be plain in each photo, a wall, a sheet or a sweep: a smooth function of the place, fitted to its
border. What is uncertain, shadows and edges, is settled by GrabCut (Rother et al. 2004), a cut
through the colours of both sides, from OpenCV. Before a dark backdrop parts of the object that lie
in shadow have nearly its colour: what is brighter than chance beside the mask joins it (thresholds
with hysteresis, Canny 1986).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gendr._common.checks import check_float, check_shape
from gendr._common.texts import first_few
from gendr.kernels.threads import mapped
from gendr.photos.backdrop import evened_rims, still_backdrop, unevenness
from gendr.photos.shadows import DARK

__all__ = ["find_masks", "with_soft_outlines"]

Array = npt.NDArray[Any]

# The width of the border that shows the backdrop, of the shorter side.
_BORDER = 0.06
# By how much a border may differ from a smooth backdrop, and in which part of its pixels it must
# not do so: to be taken for plain at once, and if there is no backdrop that stands still.
_PLAIN, _ALMOST_PLAIN = (0.06, 0.95), (0.1, 0.75)
# By how much the object differs at least, and how many times the noise.
_DIFFERS, _NOISES = 0.06, 4.0
# A shadow has so much of the light of the backdrop, and its colour up to so much. A dim backdrop in
# a dark room may be as bright as what of it is seen so near, of the shorter side, or black.
_SHADOW, _TINT = 0.4, 0.035
_DIM, _AROUND = (0.04, 0.2), 0.15
# What lies so far on either side of the outline is certain; of the shorter side.
_BAND = 0.012
_ROUNDS = 3  # of GrabCut
# How bright a dark backdrop is beside masks is known by the distance, up to so many pixels; what is
# brighter by so many standard deviations of means over about so many pixels is none of it, in parts
# that are as wide as `_BAND`.
_BESIDE, _SURE, _MEAN = 24, 5.0, 1.5
# Pixels so near an outline may be covered in part; what is further on either side is the object and
# the backdrop, of which the nearest window so wide says how they look there.
_SOFT, _WINDOW = 2, 5
# They must differ so many times as much as either varies, or texture is taken for what is covered,
# and by so much; and the object must be so bright, of what is usual for it, or it may fade into
# shadow there.
_CLEAR, _LEAST_CLEAR, _LIT = 12.0, 0.02, 0.5
# Photos store about this power of what a lens sees, of which pixels are means.
_GAMMA = 2.2
# Parts of less than this share of the whole are no part of the object, and gaps of less are none.
_PART, _GAP = 0.02, 2e-4


def find_masks(
    images: Tensor,
    *,
    names: Sequence[str] | None = None,
    callback: Callable[[float], None] | None = None,
) -> tuple[Tensor, str]:
    """Masks of what stands before a backdrop.

    Args:
        images: [B, 3, H, W] in [0, 1].
        names: of them, for messages.
        callback: called with what is done, from 0 to 1.

    Returns:
        Masks [B, H, W], 0 or 1, and which backdrop it was, "still"
        or "plain".

    Raises:
        RuntimeError: if OpenCV is not installed.
        ValueError: if there is no such backdrop, or nothing before it.
    """
    check_shape("images", check_float("images", images), "[B, 3, H, W]")
    if find_spec("cv2") is None:
        raise RuntimeError(
            "masks are found with OpenCV, which is not installed: pip install "
            "opencv-python-headless"
        )
    own = images.detach().float().cpu()
    pictures = list(own.permute(0, 2, 3, 1).numpy())
    called: list[str] = list(names or ()) or [
        f"photo {i + 1} of {len(own)}" for i in range(len(own))
    ]
    behind: list[Array | None]
    still = None
    try:
        behind = list(mapped(_plain, pictures))
    except _NotPlainError:
        still = still_backdrop(own)
        if still is None and (still := still_backdrop(evened_rims(own))) is not None:
            pictures = list(evened_rims(own).permute(0, 2, 3, 1).numpy())
        if still is not None:
            behind = [still[0].permute(1, 2, 0).numpy()] * len(pictures)
        else:
            behind = mapped(lambda image: _smooth(image, *_ALMOST_PLAIN), pictures)

    def cut(i: int) -> Array:
        backdrop = behind[i]
        if backdrop is None:
            raise ValueError(
                f"{called[i]} has no plain background, and it does not stand still in all "
                f"{len(own)} photos of this size and orientation: masks must be given, as those "
                "that `rembg p photos masks` makes"
            )
        return _cut(pictures[i], backdrop)

    masks = mapped(cut, range(len(pictures)), callback)
    # What stands still has folds, which are not known behind the object.
    if still is None and all(b is not None and b.mean() < DARK for b in behind):
        masks = _with_shadowed(pictures, behind, masks)
    found = torch.from_numpy(np.stack(masks)).to(images)
    empty = [called[i] for i in (found.flatten(1).amax(1) == 0).nonzero()[:, 0].tolist()]
    if empty:
        raise ValueError(
            f"nothing stands before the background in {len(empty)} of {len(own)} photos "
            f"({first_few(empty)}); leave them out"
        )
    return found, "plain" if still is None else "still"


def with_soft_outlines(image: Tensor, mask: Tensor) -> Tensor:
    """A mask [H, W] whose outline says how much of each pixel the object covers.

    What differs from a backdrop covers a pixel at least by a little, so that the outlines of such
    masks are too wide by up to half a pixel. How much it covers is said by how far the colour lies
    between that of the object beside it and that of the backdrop (matting by one line of colours).
    Where these are not clear, as in shadow, the mask stays as it is.

    Args:
        image: [3, H, W] in [0, 1], with its backdrop.
        mask: 0 or 1.
    """
    import cv2

    seen = np.ascontiguousarray(image.detach().float().cpu().permute(1, 2, 0).numpy())
    inside = (mask > 0.5).cpu().numpy().astype(np.uint8)
    light, small = seen.clip(0, 1) ** _GAMMA, np.ones((3, 3), np.uint8)
    near = np.ones(inside.shape, bool)
    sides: list[tuple[Array, Array]] = []
    for part in (inside, 1 - inside):
        pure, deep = (cv2.erode(part, small, iterations=times * _SOFT) for times in (1, 2))
        near &= pure == 0
        if not deep.any():
            return mask
        (first, spread), (second, _) = (_nearest(light, kept) for kept in (pure, deep))
        # Light falls off towards a rim.
        sides.append(((2 * first - second).clip(first / 2, 2 * first), spread))
    (own, own_spread), (behind, spread) = sides
    apart = own - behind
    clear = np.linalg.norm(apart, axis=2)
    usual = float(np.median(seen.mean(2)[inside > 0]))
    sure = near & (own.mean(2) > (_LIT * usual) ** _GAMMA)
    sure &= clear > np.maximum(_LEAST_CLEAR, _CLEAR * np.maximum(own_spread, spread))
    cover = ((light - behind) * apart).sum(2)[sure] / clear[sure] ** 2
    found = inside.astype(np.float32)
    found[sure] = cover.clip(0, 1)
    return torch.from_numpy(found).to(mask)


def _nearest(light: Array, kept: Array) -> tuple[Array, Array]:
    """The mean colour [H, W, 3] of what of an image is kept, nearest to each pixel, its spread."""
    import cv2
    from scipy.ndimage import distance_transform_edt

    one, size = kept.astype(np.float32)[..., None], (_WINDOW, _WINDOW)
    share, mean, square = (cv2.blur(x, size) for x in (one, light * one, light**2 * one))
    some = np.maximum(share, 1e-9)[..., None]
    mean, square = mean / some, square / some
    spread = (square - mean**2).clip(0).sum(2) ** 0.5
    at: Any = distance_transform_edt(kept == 0, return_distances=False, return_indices=True)
    return mean[at[0], at[1]], spread[at[0], at[1]]


class _NotPlainError(Exception):
    """An image has no plain backdrop."""


def _plain(image: Array) -> Array:
    """The plain backdrop [H, W, 3] of an image.

    Raises:
        _NotPlainError: if it has none, so that no other image need be looked at.
    """
    found = _smooth(image, *_PLAIN)
    if found is None:
        raise _NotPlainError
    return found


def _smooth(image: Array, most: float, share: float) -> Array | None:
    """The backdrop [H, W, 3] as a quadratic function of the place.

    None if not such a share of the border is met to `most`.
    """
    height, width = image.shape[:2]
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    terms = np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], -1)
    rim = max(2, round(_BORDER * min(height, width)))
    border = np.ones((height, width), bool)
    border[rim:-rim, rim:-rim] = False
    rows, colors = terms[border], image[border].astype(np.float64)
    use = np.ones(len(rows), bool)
    fitted, weights = colors, np.zeros((terms.shape[-1], 3))
    for _ in range(5):  # without what stands out, such as an object that is cut by the border
        weights = np.linalg.lstsq(rows[use], colors[use], rcond=None)[0]
        fitted = rows @ weights
        far = np.abs(fitted - colors).max(1)
        use = far <= max(0.03, 2.5 * float(np.median(far)))
    if float((np.abs(fitted - colors).max(1) < most).mean()) < share:
        return None
    return (terms @ weights).astype(np.float32)


def _cut(image: Array, behind: Array) -> Array:
    """The mask of an image [H, W, 3] before a backdrop."""
    import cv2

    gap = np.abs(image - behind).max(2)
    near = gap[gap <= np.median(gap)]
    uneven = _DIFFERS * unevenness(torch.from_numpy(behind.mean(2))).numpy()
    least = np.maximum(uneven, _NOISES * 1.5 * float(np.median(near)))
    differs = gap > least
    # What is only darker than the backdrop, of the same tint, may be its shadow.
    light, behind_light = image.mean(2), behind.mean(2).clip(1e-3)
    left = light / behind_light
    tint = np.abs(image - left[..., None] * behind).max(2)
    shadow = (left > _SHADOW) & (left < 1)
    wide = 2 * round(_AROUND / 2 * min(light.shape)) + 1
    lit = cv2.dilate(behind_light.astype(np.float32), np.ones((wide, wide)))
    shadow |= (light < lit + _DIM[0]) & (lit > _DIM[0]) & (lit < _DIM[1])
    shadow &= tint < _TINT
    reach = max(2, round(_BAND * min(image.shape[:2])))
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    sure = differs & ~shadow
    bits = _parts(cv2.morphologyEx(sure.astype(np.uint8), cv2.MORPH_OPEN, np.ones((3, 3))))
    if not bits.any():
        return np.zeros(gap.shape, np.float32)
    state = np.where(bits > 0, cv2.GC_PR_FGD, cv2.GC_PR_BGD).astype(np.uint8)
    state[(cv2.erode(bits, disc) > 0) & (gap > 1.5 * least)] = cv2.GC_FGD
    state[(cv2.dilate(bits, disc) == 0) & (~differs | shadow)] = cv2.GC_BGD
    state[(gap < 0.5 * least) & (bits == 0)] = cv2.GC_BGD
    levels = (255 * image.clip(0, 1)).round().astype(np.uint8)[..., ::-1].copy()
    # Only the surroundings matter, and the cut takes time for each pixel.
    ys, xs = np.nonzero(cv2.dilate(bits, disc))
    y0, y1 = max(0, int(ys.min()) - 4 * reach), int(ys.max()) + 4 * reach
    x0, x1 = max(0, int(xs.min()) - 4 * reach), int(xs.max()) + 4 * reach
    window = state[y0:y1, x0:x1].copy()
    kinds = set(np.unique(window).tolist())
    if kinds & {cv2.GC_FGD, cv2.GC_PR_FGD} and kinds & {cv2.GC_BGD, cv2.GC_PR_BGD}:
        cv2.setRNGSeed(0)
        models = np.zeros((1, 65)), np.zeros((1, 65))
        part = levels[y0:y1, x0:x1].copy()
        cv2.grabCut(part, window, (0, 0, 1, 1), *models, _ROUNDS, cv2.GC_INIT_WITH_MASK)
    cut = np.zeros(gap.shape, np.uint8)
    cut[y0:y1, x0:x1] = (window == cv2.GC_FGD) | (window == cv2.GC_PR_FGD)
    return _parts(cut).astype(np.float32)


def _parts(mask: Array) -> Array:
    """A mask without small parts and small gaps, uint8."""
    import cv2

    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    if count < 2:
        return mask
    areas = stats[:, cv2.CC_STAT_AREA]
    keep = areas >= _PART * areas[1:].max()
    keep[0] = False
    whole = keep[labels].astype(np.uint8)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(1 - whole, connectivity=4)
    gaps = stats[:, cv2.CC_STAT_AREA] < max(4, _GAP * mask.size)
    gaps[0] = False
    whole[gaps[labels]] = 1
    return whole


def _with_shadowed(pictures: list[Array], behind: list[Any], masks: list[Array]) -> list[Array]:
    """Masks with what lies in shadow, before a dark backdrop.

    Light that lenses scatter makes the backdrop brighter around the object. How bright it is there
    is known by most pixels at a distance, of most photos, as most of an outline is not in shadow.
    """
    import cv2

    def beside(i: int) -> tuple[Array, Array]:
        """How much brighter than the backdrop all is that the mask leaves, and its distance."""
        free = (masks[i] < 0.5).astype(np.float32)
        light = (pictures[i] - behind[i]).mean(2).astype(np.float32) * free
        mean, share = (cv2.GaussianBlur(x, (0, 0), _MEAN) for x in (light, free))
        away = cv2.distanceTransform(free.astype(np.uint8), cv2.DIST_L2, 5)
        return mean / np.maximum(share, 1e-3), np.minimum(away.astype(np.int64), _BESIDE)

    def usual(i: int) -> Array:
        """[2, 1 + _BESIDE], its median by distance, and the deviation of what is below."""
        found = np.zeros((2, _BESIDE + 1))
        mean, away = beside(i)
        for d in range(1, _BESIDE + 1):
            own = mean[away == d]
            found[0, d] = np.median(own) if own.size else 0
            lower = own[own < found[0, d]]
            # Of a normal distribution: the lower half, which no shadow is in.
            found[1, d] = 1.4826 * np.median(found[0, d] - lower) if lower.size else 0
        return found

    rows = range(len(masks))
    middle, spread = np.median(mapped(usual, rows), 0)
    most = middle + _SURE * np.maximum(spread, spread[-1])
    wide = 2 * max(1, round(_BAND / 2 * min(pictures[0].shape[:2]))) + 1
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (wide, wide))

    def joined(i: int) -> Array:
        mean, away = beside(i)
        sure = (masks[i] > 0.5).astype(np.uint8)
        more = ((sure == 0) & (mean > most[away])).astype(np.uint8)
        more = cv2.morphologyEx(more, cv2.MORPH_OPEN, disc)
        # Beside the mask less is sure: what is between both belongs to them.
        both = cv2.morphologyEx(np.maximum(sure, more), cv2.MORPH_CLOSE, disc, iterations=2)
        _, labels = cv2.connectedComponents(both - sure, connectivity=4)
        touching = cv2.dilate(sure, np.ones((3, 3))) > sure
        wanted = np.intersect1d(labels[more > 0], labels[touching])
        whole = (sure > 0) | (np.isin(labels, wanted) & (labels > 0))
        return _parts(whole.astype(np.uint8)).astype(np.float32)

    return mapped(joined, rows)
