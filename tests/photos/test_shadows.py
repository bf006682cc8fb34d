"""Bites of masks in shadows that are as black as the backdrop."""

import numpy as np
import pytest
import torch

from gendr import Mesh, look_at
from gendr.mesh import icosphere
from gendr.photos import visual
from gendr.photos.shadows import without_shadow_bites

SIZE = (120, 160)


@pytest.mark.rotating(5, group="photos")
def test_bites_in_shadows_are_filled_with_what_other_photos_show():
    """Of an egg, lit from the right; in one photo a shadow with a sharp edge falls on what is lit.

    Nothing else of it is filled where it is lit.
    """
    ball = icosphere(3)
    egg = Mesh(ball.vertices * torch.tensor([0.5, 0.7, 0.4]), ball.faces)
    camera = look_at(3.0, 10.0, [15.0 * i for i in range(24)], 40.0)
    whole = visual.silhouettes(egg, camera, SIZE) > 0.5
    x = torch.arange(SIZE[1]) + 0.5
    first, last = (torch.where(whole, x, edge) for edge in (1e9, -1e9))
    first, last = first.amin(2, keepdim=True), last.amax(2, keepdim=True)
    across = (2 * x - first - last) / (last - first).clamp(min=1)
    light = 0.7 * (0.8 * across + 0.6 * (1 - across**2).clamp(min=0).sqrt() + 0.1).clamp(min=0)
    cast = torch.zeros_like(whole)
    cast[5, 50:70] = whole[5, 50:70] & (across[5, 50:70] > 0.3)
    light[cast] = 0
    noise = 0.004 * torch.from_numpy(np.random.default_rng(0).standard_normal(whole.shape)).float()
    photos = (torch.where(whole, light, 0.0) + noise).clamp(0, 1)
    masks = (whole & (light > 0.03)).float()

    def overlap(found):
        both = (found > 0.5) & whole
        return float((both.sum((1, 2)) / ((found > 0.5) | whole).sum((1, 2))).min())

    images = photos[:, None].expand(-1, 3, -1, -1)
    found = without_shadow_bites(camera, images, masks)
    assert overlap(masks) < 0.85
    assert overlap(found) > 0.88
    lit = (across > 0.3) & ~cast
    assert torch.equal(found[lit], masks[lit])
    assert float(found[cast].mean()) > 0.6  # but for a rim as wide as a cell of the grid
    # Of a lighter backdrop, of whole masks of what is lit all over, and of a few, nothing changes.
    assert without_shadow_bites(camera, images + 0.2, masks) is masks
    few = masks[:7]
    assert without_shadow_bites(camera[:7], images[:7], few) is few
    assert without_shadow_bites(camera[[0] * 24], images, masks) is masks
    even = (0.5 * whole + noise).clamp(0, 1)[:, None].expand(-1, 3, -1, -1)
    assert torch.equal(without_shadow_bites(camera, even, whole.float()), whole.float())
