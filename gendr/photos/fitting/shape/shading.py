"""Normals by shading: photometric stereo of a surface of one colour in light that moves along.

Where a lamp stands beside the camera, each photo shows a place in another light, and three of them
tell its normal (Woodham 1980); rims, whose normals are known, tell the lamp (Hernandez, Vogiatzis &
Cipolla, Multiview Photometric Stereo, 2008).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr._common.vectors import summed
from gendr.kernels.threads import mapped
from gendr.mesh import Camera, Mesh
from gendr.photos.fitting.visibility import look

__all__ = ["shading_normals"]

# Photos store about this power of what a lens sees.
_GAMMA = 2.2
# What is less bright, of what nearly all is darker than, lies in shadow; and photos end at white.
_LIT, _BRIGHTEST, _WHITE = 0.25, 0.95, 0.98
# Light that moves with the camera must explain photos so much better than light that stands still.
_MOVES = 0.8
# Rounds of least squares, in which what is off loses weight; the least deviation that does.
_LIGHT_ROUNDS, _ROUNDS, _LEAST_OFF = 20, 6, 0.03
# How strongly a normal is held, of the squared light of a photo; and the weakest direction's light,
# of which normals are half sure.
_HOLD, _ENOUGH = 0.05, 0.3


def shading_normals(
    mesh: Mesh, normals: Tensor, images: Tensor, camera: Camera, masks: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Unit normals [V, 3] of the vertices of a mesh by shading, and how sure they are [V], 0 to 1.

    None where light stands still beside the object, as each place then has one brightness, or where
    no photo shows a place.

    Args:
        mesh: one mesh, near the surface.
        normals: [V, 3], its own vertex normals.
        images: [B, 3, H, W] in [0, 1], of an object of one colour.
        camera: B cameras.
        masks: [B, H, W] in [0, 1].
    """
    size = (images.shape[2], images.shape[3])

    def seen(i: int) -> tuple[Tensor, Tensor, Tensor]:
        visibility = look(mesh, camera[i], size, 1)
        rows, xy, _ = visibility.visible_points(mesh.vertices, normals, masks[i] > 0.99)
        grey = visibility.at(images[i].mean(0, keepdim=True), xy)[0].clamp(min=0) ** _GAMMA
        return rows, torch.full_like(rows, i), grey

    point, view, grey = (
        torch.cat(part) for part in zip(*mapped(seen, range(len(camera))), strict=True)
    )
    if not len(grey):
        return None
    lit = (grey > _LIT * float(grey[::8].quantile(_BRIGHTEST))) & (grey < _WHITE**_GAMMA)
    point, view, grey = point[lit], view[lit], grey[lit]
    own = torch.einsum("rij,rj->ri", camera.rotation[view], normals[point])
    (around, lamp), off = _lamp(own, grey)
    _, still = _lamp(normals[point], grey)
    if off > _MOVES * still:
        return None
    ways = (lamp @ camera.rotation)[view]
    products = (ways[:, :, None] * ways[:, None]).double()
    right, count, strength = grey - around, len(normals), float(lamp.square().sum())
    hold = _HOLD * strength * torch.eye(3, dtype=torch.float64)
    found, matrix = normals, hold.expand(count, 3, 3)
    scale = None
    for i in range(_ROUNDS):
        rest = right - (ways * found[point]).sum(1)
        scale = scale or max(_LEAST_OFF, 1.48 * float(rest.abs().median()))
        weight = 1 / (1 + (rest / (scale * max(1.0, 3 / (i + 1)))).square()).square()
        weight = weight[:, None].double()
        matrix = hold + summed(weight[..., None] * products, point, count)
        both = summed(weight * right[:, None] * ways, point, count) + normals.double() @ hold
        found = F.normalize(torch.linalg.solve(matrix, both).to(normals), dim=1)
    least = torch.linalg.eigvalsh(matrix)[:, 0].to(normals) / strength
    return found, least / (least + _ENOUGH)


def _lamp(normals: Tensor, grey: Tensor) -> tuple[tuple[float, Tensor], float]:
    """The brightness of the surroundings and the lamp [3] that light normals [R, 3] to `grey` [R].

    Beside them the usual deviation.
    """
    rows = torch.cat([torch.ones_like(normals[:, :1]), normals], 1).double()
    weight, right = torch.ones(len(rows), dtype=torch.float64), grey.double()
    found, off = rows[0], 0.0
    for _ in range(_LIGHT_ROUNDS):
        weighted = weight[:, None] * rows
        # The least one, where normals or what is lit are too few to tell.
        both = (weighted.T @ rows, (weighted.T @ right)[:, None])
        found = torch.linalg.lstsq(*both, driver="gelsd").solution[:, 0]
        rest = (right - rows @ found).abs()
        off = float(rest.median()) if len(rest) else 0.0
        weight = 1 / (1 + (rest / max(1.48 * off, 0.01)).square()).square()
    return (float(found[0]), found[1:].to(normals)), off
