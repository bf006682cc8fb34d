"""A few masks with bites do not carve the object; right masks stay as they are."""

import pytest
import torch

from gendr import Mesh, Renderer, look_at
from gendr.mesh import cube, example, icosphere
from gendr.photos import remesh, visual, visual_hull
from gendr.photos.fitting.shape.bites import without_bites
from gendr.photos.fitting.shape.stereo import Depths, fused
from support.cases import for_each

SIZE, BITTEN = 96, (4, 13, 24)


@pytest.fixture(scope="module")
def figure():
    """A lump on a stand; thirty cameras around it, and its masks."""
    ball, box = icosphere(4), remesh(cube(2), 0.3).mesh
    waves = 1 + 0.25 * (3 * ball.vertices).sin().prod(-1, keepdim=True)
    lump = ball.vertices * waves * torch.tensor([0.5, 0.6, 0.3])
    stand = 0.3 * box.vertices - torch.tensor([0.0, 0.75, 0.0])
    mesh = Mesh(torch.cat([lump, stand]), torch.cat([ball.faces, box.faces + len(lump)]))
    camera = look_at(4.0, 20.0, torch.arange(30) * 12.0, 40.0)
    return mesh, camera, visual.silhouettes(mesh, camera, SIZE)


def with_bites(masks, radius):
    """Discs are cut out of three masks, at their left outline."""
    masks, line = masks.clone(), torch.arange(SIZE)
    for i in BITTEN:
        row = int((masks[i] > 0.5).nonzero()[:, 0].float().mean())
        column = int((masks[i, row] > 0.5).nonzero()[0]) + radius
        masks[i][(line[:, None] - row) ** 2 + (line - column) ** 2 <= radius**2] = 0
    return masks


def volume(mesh):
    a, b, c = mesh.vertices.double()[mesh.faces].unbind(1)
    return float((a * torch.linalg.cross(b, c)).sum() / 6)


@pytest.mark.rotating(5, group="photos")
def test_bites_do_not_carve(figure):
    mesh, camera, masks = figure
    bitten = with_bites(masks, 7)
    mended = without_bites(camera, bitten)
    assert torch.equal(mended >= bitten, torch.ones_like(mended, dtype=torch.bool))
    changed = (mended != bitten).flatten(1).any(1).nonzero()[:, 0].tolist()
    assert changed == list(BITTEN)
    assert int((mended < masks).sum()) == 0
    assert int((mended > masks).sum()) < 0.02 * int((masks[0] > 0.5).sum())
    hull, carved, whole = (
        volume(visual_hull(camera, each, resolution=96)) for each in (masks, bitten, mended)
    )
    assert carved < 0.9 * hull  # it is a test of something
    assert abs(whole - hull) < 0.01 * hull
    # With depths that are right wherever masks show the object, all of it comes back.
    front = 1 / Renderer(SIZE, "heaviside", "max")(mesh, camera).depth
    planes = torch.stack([front, 0 * front, 0 * front], -1).numpy()
    depths = Depths(planes, ((bitten > 0.5) & (front > 0)).float().numpy(), 1.0)
    lost = []
    for each in (bitten, mended):
        vertices, faces = fused(depths, camera, each, resolution=96)
        found = Mesh(torch.from_numpy(vertices).float(), torch.from_numpy(faces))
        lost.append(1 - volume(found) / volume(mesh))
    assert lost[0] > 0.1, lost
    assert abs(lost[1]) < 0.03, lost


@pytest.mark.rotating(5, group="photos")
@for_each(count=[8, 15, 30], rotating=3)
def test_right_masks_stay(count):
    for mesh in (example("chair"), icosphere(3)):
        camera = visual.orbit(mesh, [360 / count * i for i in range(count)], 20.0)
        masks = visual.silhouettes(mesh, camera, (64, 80))
        assert without_bites(camera, masks) is masks


@pytest.mark.rotating(5, group="photos")
def test_what_only_one_mask_could_see_stays(figure):
    """Of seven masks, of many with bites, or where no other looks from about there."""
    _, camera, masks = figure
    bitten = with_bites(masks, 7)
    for rows in (range(4, 30, 5), [*BITTEN, 9, 18, 29, 1, 7], range(1, 30, 3)):
        some = bitten[list(rows)]
        assert without_bites(camera[list(rows)], some) is some
    empty = bitten.clone()
    empty[0] = 0
    assert without_bites(camera, empty) is empty
