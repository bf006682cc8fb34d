"""The photos of a scene for what colours a mesh and for what measures it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gendr.kernels.threads import mapped
from gendr.mesh import Camera, Mesh
from gendr.photos import visual
from gendr.photos.scene.fusion import Cloud
from gendr.photos.scene.model import Scene
from gendr.photos.scene.sky import open_sky
from gendr.photos.upright import upwards

__all__ = ["camera_of", "framed", "scored", "trust_of"]

# How much a pixel counts for colours, of 255, if stereo has found nothing in most of a square of so
# many pixels: leaves before a wall, what moved, and glass, which other photos show better.
_DOUBTED, _SQUARE = 25, 5

# What looks otherwise: the mean difference of colours within a part of the width of a photo, and
# times that of all that is covered, as a coarse mesh has no detail anywhere.
_OTHERWISE, _TIMES, _WINDOW = 0.2, 2.5, 1 / 60
_SCORES = ("psnr", "psnr_exposed", "psnr_affine")


def camera_of(scene: Scene, rows: Sequence[int], size: tuple[int, int]) -> Camera:
    """The cameras of some photos, whose first pixels are those of images (H, W)."""
    chosen = list(rows)
    return Camera.from_opencv(
        torch.from_numpy(scene.R[chosen]).float(), torch.from_numpy(scene.t[chosen]).float(),
        torch.from_numpy(scene.K[chosen]).float(), size, pixel_centre=0,
    )  # fmt: skip


def framed(scene: Scene, rows: Sequence[int]) -> tuple[Tensor, Tensor | None]:
    """Photos in frames of one size: uint8 [B, 3, H, W], and where they are, [B, H, W].

    None instead of the latter if all are of one size.
    """
    shapes = [scene.images[i].shape[:2] for i in rows]
    height, width = (max(shape[k] for shape in shapes) for k in (0, 1))
    images = torch.zeros(len(shapes), 3, height, width, dtype=torch.uint8)
    masks = None if len(set(shapes)) == 1 else torch.zeros(len(shapes), height, width)
    for k, i in enumerate(rows):
        own = torch.from_numpy(scene.images[i]).permute(2, 0, 1)
        images[k, :, : own.shape[1], : own.shape[2]] = own
        if masks is not None:
            masks[k, : own.shape[1], : own.shape[2]] = 1
    return images, masks


def trust_of(cloud: Cloud, rows: Sequence[int], size: tuple[int, int]) -> Tensor:
    """How much the pixels of `framed` photos tell of the mesh: uint8 [B, H, W].

    The sky tells nothing, as a mesh that is a pixel too large would be painted with it.
    """
    from scipy import ndimage

    trust = torch.zeros(len(rows), *size, dtype=torch.uint8)

    def fill(k: int) -> None:
        own = cloud.depths[rows[k]]
        found = ndimage.uniform_filter((own > 0).astype(np.float32), _SQUARE) > 0.5
        counts = np.where(own < 0, 0, np.where(found, 255, _DOUBTED)).astype(np.uint8)
        trust[k, : own.shape[0], : own.shape[1]] = torch.from_numpy(counts)

    mapped(fill, range(len(rows)))
    return trust


def scored(
    mesh: Mesh, scene: Scene, rows: Sequence[int], skies: Sequence[NDArray[np.bool_]],
    tell: Callable[[float], None] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """How pictures of a mesh compare with photos, over what it covers.

    Args:
        mesh: the mesh.
        scene: the photos.
        rows: those that are compared.
        skies: bool [H, W] of each photo of the scene, where stereo took it for sky. For photos that
            stereo did not use it is guessed, but only if others show some: a wall looks like it.
        tell: called with the part that is done.

    Returns:
        `psnr`, of all that is covered in all photos, in decibels; `psnr_exposed`, the same after a
        factor for each channel of each photo, as cameras expose differently; `psnr_affine`, after
        a factor and an offset, as the sun beside a photo veils it; `cover`, the mean part of the
        pixels; and the four of each photo, with `sky`, the part that is taken for sky and not
        covered, and `apart`, that in the largest place where, after that factor, the mesh looks
        otherwise.
    """
    up, outdoors = upwards(scene.R, scene.quarters), any(each.any() for each in skies)
    per: list[dict[str, Any]] = []
    errors, counts = np.zeros(3), 0
    for done, i in enumerate(rows):
        photo = scene.images[i].astype(np.float64) / 255
        size = (photo.shape[0], photo.shape[1])
        rgb, alpha = visual.render_views(
            mesh, camera_of(scene, [i], size), size, {"lighting": "none"}
        )
        inside = alpha[0].numpy() > 0.99
        shown, true = rgb[0].permute(1, 2, 0).double().numpy()[inside], photo[inside]
        gain = (shown * true).sum(0) / np.maximum((shown * shown).sum(0), 1e-12)
        # Least squares with an offset are those of what is off the means.
        middles = [each.sum(0) / max(len(each), 1) for each in (shown, true)]
        apart, wanted = shown - middles[0], true - middles[1]
        slope = (apart * wanted).sum(0) / np.maximum((apart * apart).sum(0), 1e-12)
        misses = shown - true, gain * shown - true, slope * apart - wanted
        own = np.array([np.square(each).sum() for each in misses])
        errors, counts = errors + own, counts + true.size
        psnr = _decibels(own, true.size)
        sky = skies[i] & ~inside
        if outdoors and not scene.neighbours[i]:
            sky = open_sky(scene, i, inside, up)
        off = np.zeros(inside.shape)
        off[inside] = np.abs(misses[1]).mean(1)
        per.append({
            "photo": scene.names[i], "cover": round(float(inside.mean()), 4),
            "sky": round(float(sky.mean()), 4),
            **dict(zip(_SCORES, psnr, strict=True)),
            "apart": round(_largest(off), 4),
        })  # fmt: skip
        if tell is not None:
            tell((done + 1) / len(rows))
    psnr = _decibels(errors, counts)
    cover = float(np.mean([each["cover"] for each in per]))
    return {**dict(zip(_SCORES, psnr, strict=True)), "cover": cover, "each": per}


def _largest(off: NDArray[np.float64]) -> float:
    """The part of the pixels in the largest place where differences [H, W] are large."""
    from scipy import ndimage

    usual = float(off.sum()) / max(np.count_nonzero(off), 1)
    wide: Any = ndimage.uniform_filter(off, max(3, int(_WINDOW * off.shape[1]) | 1))
    wide = wide > max(_OTHERWISE, _TIMES * usual)
    part: NDArray[np.int32] = ndimage.label(wide)[0]  # pyright: ignore[reportAssignmentType, reportIndexIssue]
    return float(np.bincount(part.ravel())[1:].max(initial=0)) / off.size


def _decibels(errors: Any, count: int) -> list[float]:
    """PSNR of sums of squares over so many numbers; 99 at most."""
    means = np.maximum(np.asarray(errors) / max(count, 1), 1.3e-10)
    return [round(float(x), 3) for x in -10 * np.log10(means)]
