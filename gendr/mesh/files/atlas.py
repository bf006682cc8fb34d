"""Several images in one texture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# How many texels each image of an atlas is extended on each side: as far as bilinear lookup
# reaches.
_PADDING = 1
# How many texels there may be for faces that repeat their image: 4096 x 4096.
_MOST = 1 << 24
# How far beyond an edge a UV may lie before it counts as there.
_NEAR = 1e-4


def atlas(
    images: Sequence[Array | None],
    uvs: Array,
    face_uvs: Array,
    face_material: Array,
    painted: Array,
    notes: list[str],
) -> tuple[Array, Array, Array]:
    """Stack all images in one texture; returns it, the UVs, and the UV indices of the corners.

    An image that faces repeat is repeated as often, but for those that would make it too large.

    Args:
        images: [H, W, 3] of each material, or None.
        uvs: [T, 2].
        face_uvs: [F, 3], -1 for corners without UVs.
        face_material: [F], -1 stands for the last material.
        painted: [F], whether a face has an image and UVs; the others point at a white texel.
        notes: Gets a note if some faces repeat such an image.
    """
    used = {id(images[i]): images[i] for i in sorted(set(face_material[painted].tolist()))}
    blocks = [np.ones((1, 1, 3)), *(image for image in used.values() if image is not None)]
    of_material = [list(used).index(id(m)) + 1 if id(m) in used else 0 for m in images]
    size = np.array([b.shape[:2] for b in blocks])  # [blocks, 2], height and width
    which = np.where(painted, np.array(of_material)[face_material], 0)
    uv = np.where(painted[:, None, None], uvs[face_uvs * painted[:, None]], 0.5)
    if not np.isfinite(uv).all():
        raise ValueError("uvs must be finite, got NaN or inf")
    uv = uv - np.floor(uv.min(1, keepdims=True) + 1e-6)
    reach = np.ones((len(blocks), 2))
    np.maximum.at(reach, which, np.ceil(uv.max(1)[:, ::-1] - _NEAR))
    while (reach > 1).any() and (extent := size * reach)[:, 1].max() * extent[:, 0].sum() > _MOST:
        reach[np.where((reach > 1).any(1), extent.prod(1), 0).argmax()] = 1
    blocks = [np.tile(b, (*map(int, times), 1)) for b, times in zip(blocks, reach, strict=True)]
    width = max(b.shape[1] for b in blocks) + 2 * _PADDING
    rows = []
    for block in blocks:
        # Extend the image as the renderer does, by repeating it.
        block = np.pad(block, ((_PADDING, _PADDING), (_PADDING, _PADDING), (0, 0)), mode="wrap")
        rows.append(np.pad(block, ((0, 0), (0, width - block.shape[1]), (0, 0))))
    texture = np.concatenate(rows)
    start = np.cumsum([0] + [len(r) for r in rows])[:-1] + _PADDING
    down, right = reach[which].T[:, :, None]
    wide = int((uv > reach[which][:, None, ::-1] + _NEAR).any((1, 2)).sum())
    if wide:
        notes.append(f"{wide} faces repeat their image, which one texture of several cannot")
    u = (_PADDING + uv[..., 0].clip(0, right) * size[which, 1, None]) / width
    v = start[which, None] + (down - uv[..., 1].clip(0, down)) * size[which, 0, None]
    v = 1 - v / len(texture)
    corners = np.stack((u, v), -1).reshape(-1, 2)
    unique, index = np.unique(corners, axis=0, return_inverse=True)
    return texture, unique, index.reshape(-1, 3)
