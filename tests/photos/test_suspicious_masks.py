"""Masks that contradict the others are found, and no others."""

import json
from pathlib import Path

import pytest
import torch

from gendr import Camera, Mesh, axis_angle_to_matrix
from gendr.cli import main
from gendr.mesh import example
from gendr.photos import save_views, visual
from gendr.photos import suspicious_masks as masks_module
from gendr.photos.suspicious_masks import suspicious_masks
from support.cases import for_each

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
