"""Masks that photos of others correct: bites in shadows, and what is no object."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import trimesh
from PIL import Image

from gendr import Camera, Mesh, axis_angle_to_matrix, look_at
from gendr.cli import main
from gendr.mesh import example, icosphere
from gendr.photos import save_views, visual
from gendr.photos import suspicious_masks as masks_module
from gendr.photos.backdrop import evened_rims, still_backdrop
from gendr.photos.folders import has_mask, open_folder
from gendr.photos.masks import with_soft_outlines
from gendr.photos.pinholes import without_pinholes
from gendr.photos.shadows import without_shadow_bites
from gendr.photos.suspicious_masks import agreement, suspicious_masks
from support.cases import for_each

# -------------------------------------------------------------------------------------------------
# Masks that contradict the others are found, and no others


WRONG = (3, 11)
ASSETS = Path(__file__).resolve().parents[2] / "assets"


@pytest.fixture(scope="module")
def views():
    """A chair from all around."""
    mesh = example("chair")
    angles = [24.0 * i for i in range(15)]
    camera = visual.orbit(mesh, angles, 20.0)
    return visual.render_views(mesh, camera, (60, 80), {"lighting": "none"})[1], camera


@pytest.fixture
def coarse(monkeypatch):
    """Wrong masks are seen on a coarse grid too; that good ones pass needs the usual one."""
    monkeypatch.setattr(masks_module, "_POINTS", 54)


def damaged(masks, camera, kind):
    masks, turns, shifts = masks.clone(), camera.rotation.clone(), camera.translation.clone()
    for i in WRONG:
        rows, columns = (masks[i] > 0.5).nonzero().unbind(1)
        top, bottom = int(rows.min()), int(rows.max())
        if kind == "shadow":
            masks[i, bottom - 8 : bottom + 1, int(columns.min()) - 12 : int(columns.max()) + 12] = 1
        elif kind == "cut":
            masks[i, : (top + bottom) // 2] = 0
        elif kind == "shifted":
            masks[i] = masks[i].roll((4, 7), (0, 1))
        elif kind == "empty":
            masks[i] = 0
        elif kind == "pose":
            turn = axis_angle_to_matrix(torch.tensor([[0.0, 0.12, 0.0]]))[0]
            turns[i], shifts[i] = turn @ turns[i], turn @ shifts[i]
    return masks, Camera(turns, shifts, camera.focal, camera.principal)


@pytest.mark.rotating(5, group="photos")
def test_good_masks_are_not_doubted(views):
    masks, camera = views
    assert suspicious_masks(camera, masks) == []
    assert suspicious_masks(camera[:5], masks[:5]) == []


@pytest.mark.rotating(5, group="photos")
@for_each(size=[(48, 64), (56, 75)], rotating=2)
def test_parts_as_thin_as_a_pixel_are_not_doubted(size):
    for mesh in (example("chair"), Mesh.load(ASSETS / "airplane.obj")):
        camera = visual.orbit(mesh, [24.0 * i for i in range(15)], 20.0)
        masks = visual.render_views(mesh, camera, size, {"lighting": "none"})[1]
        assert suspicious_masks(camera, masks) == []


@pytest.mark.usefixtures("coarse")
@for_each(kind=["shadow", "cut", "shifted", "empty", "pose"], rotating=5)
def test_wrong_masks_are_found(views, kind):
    masks, camera = damaged(*views, kind)
    assert sorted(suspicious_masks(camera, masks)) == list(WRONG)


@pytest.mark.usefixtures("coarse")
def test_what_a_photo_does_not_show_is_not_cut(views):
    masks, camera = damaged(*views, "cut")
    (height, width), edges = masks.shape[1:], []
    for mask in masks:
        top = int((mask > 0).any(1).nonzero()[0])
        edges.append([-width / height, -1, width / height, 1 - 2 * top / height])
    assert suspicious_masks(camera.with_window(torch.tensor(edges)), masks) == []


@pytest.mark.rotating(5, group="photos")
def test_masks_of_no_object_agree_about_little(views):
    """As what stands out from a background that is none; right ones agree, with bites or cut."""
    masks, camera = views
    assert agreement(camera, masks) > 0.98
    bitten = masks.clone()
    for i in range(len(masks)):
        bitten[i, :, 4 * i : 4 * i + 6] = 0
    assert agreement(camera, bitten) > 0.95
    elsewhere = torch.stack([mask.roll((17 * i, 29 * i), (0, 1)) for i, mask in enumerate(masks)])
    assert agreement(camera, elsewhere) < 0.3
    assert agreement(camera[[0, 0, 0]], masks[:3]) == 1  # nothing is known


@for_each(count=[3, 8])
def test_masks_of_thin_objects_agree(count):
    """They lie between the points of a grid."""
    rod = icosphere(2)
    rod = rod.with_vertices(rod.vertices * torch.tensor([0.03, 1.0, 0.03]))
    camera = look_at(4.0, 20.0, [360.0 / count * i for i in range(count)], 40.0)
    assert agreement(camera, visual.silhouettes(rod, camera, (300, 400))) > 0.95


def test_too_few_cannot_outvote_one(views):
    masks, camera = damaged(*views, "empty")
    assert suspicious_masks(camera[:7], masks[:7]) == []


@pytest.mark.rotating(5, group="photos")
@pytest.mark.usefixtures("coarse", "small_pictures")
def test_the_command_names_them_and_leaves_them_out(views, tmp_path, capsys):
    masks, camera = damaged(*views, "cut")
    save_views(tmp_path / "photos", masks, camera)
    options = ["-o", str(tmp_path / "out"), "--steps", "1", "--image-size", "40"]
    assert main(["fit", str(tmp_path / "photos"), *options]) == 0
    said = capsys.readouterr().err
    assert "their masks contradict the others" in said
    facts = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert facts["views"] == len(facts["photos"]) == 13
    assert all(f"{i:03d}.png" in said for i in WRONG)
    assert main(["fit", str(tmp_path / "photos"), *options, "--keep-doubtful"]) == 0
    assert "contradict" not in capsys.readouterr().err


# -------------------------------------------------------------------------------------------------
# Bites of masks in shadows that are as black as the backdrop


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
    # Before a dim cloth, what is unlike it may be the object in shadow: most photos decide.
    cloth = torch.where(torch.arange(SIZE[0])[:, None] > 65, 0.12, 0.0)
    shade = whole & (across < -0.4)
    photos = torch.where(whole, torch.where(shade, 0.06, 0.5), cloth) + noise
    lost = shade & (cloth > 0)
    images = photos[:, None].expand(-1, 3, -1, -1)
    found = without_shadow_bites(camera, images, (whole & ~lost).float())
    assert float(found[lost].mean()) > 0.18  # 0.14 if all that is no mask says as much
    assert int((found[~whole] > 0.5).sum()) < 0.002 * int(whole.sum())


def test_gaps_that_one_mask_shows_alone_are_closed():
    """A pinhole of a ring's tube in one photo is; the hole of the ring stays open."""
    mesh = Mesh.from_trimesh(trimesh.creation.torus(0.7, 0.3, 48, 24))
    camera = look_at(3.0, [20.0, 50.0, 80.0] * 8, [15.0 * i for i in range(24)], 40.0)
    whole = visual.silhouettes(mesh, camera, SIZE)
    rows, columns = whole[5].nonzero().T
    middle = int(rows[columns == columns.max() - 10].double().mean())
    pricked = whole.clone()
    hole = slice(middle - 2, middle + 2), slice(int(columns.max()) - 12, int(columns.max()) - 8)
    pricked[5][hole] = 0
    found = without_pinholes(camera, pricked)
    assert float(found[5][hole].mean()) == 1
    assert int((found != whole).sum()) <= 3  # where the grid takes a rim for a gap
    few = pricked[:7]
    assert without_pinholes(camera[:7], few) is few


def test_outlines_say_how_much_of_a_pixel_is_covered():
    """Masks of all that differs from black are too wide; what fades into shadow stays as it is."""
    place = (np.arange(8 * 64) + 0.5) / 8
    ball = np.hypot(place[:, None] - 31.3, place - 32.6) < 20
    light = np.where(place[:, None] < 32, 0.35, 0.005) * ball  # of what a lens sees
    light, cover = (x.reshape(64, 8, 64, 8).mean((1, 3)) for x in (light, ball))
    image = light ** (1 / 2.2) + np.random.default_rng(0).normal(0, 0.004, (3, 64, 64))
    mask = torch.from_numpy((cover > 0.02).astype(np.float32))
    found = with_soft_outlines(torch.from_numpy(image.clip(0, 1)).float(), mask)
    cover = torch.from_numpy(cover).float()
    assert (mask - cover)[:28].max() > 0.9
    assert (found - cover)[:28].abs().max() < 0.2
    torch.testing.assert_close(found[36:], mask[36:])
    # What is much darker than the object may fade into shadow, also where it is clear.
    dim = 0.04 + cover * torch.where(torch.arange(64) < 40, 0.8, 0.3)[:, None]
    found = with_soft_outlines(dim.expand(3, 64, 64), mask)
    assert (found - mask)[:36].abs().max() > 0.5
    torch.testing.assert_close(found[44:], mask[44:])


def test_a_backdrop_is_filled_in_where_the_object_always_stands():
    still = 0.3 + 0.3 * torch.rand(3, 12, 16).repeat_interleave(10, 1).repeat_interleave(10, 2)
    images = still.repeat(9, 1, 1, 1)
    images[:, :, 50:70, 70:90] = torch.rand(9, 3, 1, 1)  # something else at each time
    found = still_backdrop(images)
    assert found is not None
    backdrop, _ = found
    middle = backdrop[:, 55:65, 75:85]
    assert 0.25 < float(middle.min()) <= float(middle.max()) < 0.75  # of the colours around it
    # Exposures and white balance may differ; a camera that moves is none that stands still.
    other = images * torch.linspace(0.7, 1.3, 27).reshape(9, 3, 1, 1)
    assert still_backdrop(other) is None
    drifted = still_backdrop(evened_rims(other))
    assert drifted is not None
    assert float((drifted[1] - found[1]).abs().mean()) < 0.01
    moved = torch.stack([image.roll(4 * i, 2) for i, image in enumerate(images)])
    assert still_backdrop(moved) is None


def test_a_photo_without_colours_is_no_mask(tmp_path):
    """By its greys: a silhouette with soft edges is one."""
    blob = np.zeros((6, 8), np.uint8)
    blob[1:4, 2:6] = 255
    soft = blob.copy()
    soft[1] //= 2
    frame = {"file_path": "0.png", "transform_matrix": np.eye(4).tolist()}
    (tmp_path / "transforms.json").write_text(
        json.dumps({"camera_angle_x": 0.8, "frames": [frame]})
    )
    for pixels, expected in ((blob, True), (soft, True), (np.arange(48).reshape(6, 8) * 5, False)):
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "0.png")
        assert has_mask(open_folder(tmp_path, None, 1.0), 0, 1.0) is expected
