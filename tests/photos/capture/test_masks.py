"""Masks of photos before backdrops that stand still or are plain."""

import json
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from gendr import Mesh, look_at
from gendr.cli import main
from gendr.mesh import cube, icosphere
from gendr.photos import load_views, remesh
from gendr.photos.capture import find_masks
from support.cases import for_each
from support.photographs import plaster

pytest.importorskip("cv2")

HEIGHT, WIDTH = 120, 160
PLAIN = {"blue": (0.2, 0.3, 0.8), "black": (0.04, 0.04, 0.04), "white": (0.95, 0.95, 0.95)}


def photos(color=None, count=5, shadow=False):
    """A striped ring that moves, before a sweep of a colour, or a texture that stands still."""
    rng = np.random.default_rng(3)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    images, masks = [], []
    still = 0.3 + 0.3 * rng.random((3, 12, 16)).repeat(10, 1).repeat(10, 2)
    for i in range(count):
        behind = still
        if color is not None:
            fall = 1 - 0.1 * ((x / WIDTH - 0.4) ** 2 + (y / HEIGHT) ** 2)
            behind = np.array(PLAIN[color])[:, None, None] * fall
        if shadow:
            behind = np.where(np.hypot((x - 75) / 3, y - 95) < 12, 0.65 * behind, behind)
        far = np.hypot(x - 80 - 50 * np.sin(2 * i), y - 60 - 32 * np.cos(2 * i))
        ring = (far < 22) & (far > 9)
        stripes = np.array([0.75, 0.45, 0.15])[:, None, None] * (1 + 0.2 * ((x + y) % 8 < 4))
        image = np.where(ring, stripes, behind) + 0.01 * rng.standard_normal((3, HEIGHT, WIDTH))
        images.append(image.clip(0, 1))
        masks.append(ring)
    return torch.from_numpy(np.stack(images)).float(), torch.from_numpy(np.stack(masks))


def overlap(found, masks):
    found = found > 0.5
    return ((found & masks).sum((1, 2)) / (found | masks).sum((1, 2))).min()


@pytest.mark.rotating(5, group="photos")
@for_each(color=[None, *PLAIN], shadow=[False, True], rotating=4)
def test_masks_are_found(color, shadow):
    """The hole in the ring stays one, and a shadow is no part of it."""
    if shadow and color != "white":
        return  # nothing is darker than black, and what stands still has its shadow in it
    images, masks = photos(color, count=9 if color is None else 5, shadow=shadow)
    done = []
    found, kind = find_masks(images, callback=done.append)
    assert kind == ("still" if color is None else "plain")
    assert found.shape == masks.shape
    assert float(overlap(found, masks)) > 0.97
    assert done[-1] == 1
    assert torch.equal(find_masks(images)[0], found)  # the same each time


def test_what_cannot_be_cut_out():
    noise = torch.rand(3, 3, 40, 50, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="photo 1 of 3 has no plain background, and it does"):
        find_masks(noise)
    with pytest.raises(ValueError, match="nothing stands before the background in 2 of 2 photos"):
        find_masks(torch.full((2, 3, 40, 50), 0.5))
    with pytest.raises(ValueError, match="images must have shape"):
        find_masks(noise[0])


def phone(folder, count=9):
    """A still patterned wall, a phone held level, upright (EXIF 6), and one that crops to upright.

    Returns what is covered in each file, as it is stored.
    """
    images, masks = photos(count=3 * count)
    stored = []
    for i, (image, mask) in enumerate(zip(images, masks, strict=True)):
        pixels, note = (255 * image).byte().permute(1, 2, 0).numpy(), Image.Exif()
        if i // count == 1:  # another wall is seen from there
            pixels, mask = pixels[::-1], mask.flip(0)
            note[0x0112] = 6
        elif i // count == 2:
            pixels, mask = pixels.swapaxes(0, 1), mask.T
        Image.fromarray(pixels).save(folder / f"{i:02d}.png", exif=note)
        stored.append(mask)
    return stored


@pytest.mark.rotating(5, group="photos")
def test_masks_of_a_phone(tmp_path, capsys):
    """Each orientation has a backdrop of its own; the sheet is upright, files are as photos."""
    covered = phone(tmp_path)
    assert main(["masks", str(tmp_path)]) == 0
    assert "27 masks before a backdrop that stands still" in capsys.readouterr().out
    for i, mask in enumerate(covered):
        with Image.open(tmp_path / f"masks/{i:02d}.png") as file:
            found = torch.from_numpy(np.array(file)) / 255
        assert float(overlap(found[None], mask[None])) > 0.97, i
    with Image.open(tmp_path / "masks/sheet.jpg") as sheet:
        page = np.asarray(sheet).astype(float)
    side, top, left = max(HEIGHT, WIDTH), 102, 16  # tiles are not enlarged
    assert page.shape[1] == left + 6 * (side + 8) + 12
    level = page[top : top + side, left : left + side]
    upright = page[page.shape[0] - side - 18 : page.shape[0] - 18, left : left + side]
    rest = (side - HEIGHT) // 2 - 4
    for tile, lies in ((level, True), (upright, False)):
        turned = tile if lies else tile.transpose(1, 0, 2)
        assert (turned[:rest] > 240).all()  # nothing above, or beside
        assert not (turned[side // 2] > 240).all()
    (tmp_path / "masks").rename(tmp_path / "other")
    images = torch.rand(3, 40, 50, generator=torch.Generator().manual_seed(0))
    pixels = (255 * images).byte().permute(1, 2, 0).numpy()
    Image.fromarray(pixels).save(tmp_path / "odd.png")
    assert main(["masks", str(tmp_path)]) == 2
    assert "odd.png has no plain background, and it does not" in capsys.readouterr().err


def test_what_is_elsewhere_in_each_photo_is_no_object(tmp_path, capsys):
    """A line says so, and no masks are left."""
    camera = look_at(3.0, 10.0, [60.0 * i for i in range(6)], 40.0, dtype=torch.float64)
    frames = []
    for i in range(6):
        pixels = np.full((60, 80, 3), 150, np.uint8)
        row, column = (23 * i) % 40 + 4, (47 * i) % 60 + 4
        pixels[row : row + 12, column : column + 12] = 250, 40, 20
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
        pose = camera.camera_to_world[i].tolist()
        frames.append({"file_path": f"{i}.png", "transform_matrix": pose})
    about = {"camera_angle_x": 0.7, "k1": 0.02, "frames": frames}
    (tmp_path / "transforms.json").write_text(json.dumps(about))
    out = tmp_path / "out"
    assert main(["fit", str(tmp_path), "--object", "-o", str(out)]) == 2
    said = capsys.readouterr().err
    assert "gendr: what stands out from the background is no object: only" in said
    assert "or leave --object out, by which all is made that photos see" in said
    assert not (out / "masks").exists()


def written(folder, images):
    """Photos in a folder; what a file of their cameras holds."""
    frames = []
    poses = look_at(3.0, 10.0, [72.0 * i for i in range(5)], 40.0, dtype=torch.float64)
    for i, image in enumerate(images):
        pixels = (255 * image).byte().permute(1, 2, 0).numpy()
        Image.fromarray(pixels).save(folder / f"{i}.png")
        pose = poses.camera_to_world[i].tolist()
        frames.append({"file_path": f"{i}.png", "transform_matrix": pose})
    return json.dumps({"camera_angle_x": 0.7, "frames": frames})


def test_masks_are_used_however_their_folder_is_named(tmp_path, capsys, monkeypatch):
    """Of cameras that were found: these are in that folder, too."""
    (out := tmp_path / "out").mkdir()
    (out / "cameras.json").write_text(written(tmp_path, photos("blue")[0]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gendr.cli.masks.agreement", lambda *_: 1.0)  # any object will do
    options = "--object --shape silhouettes --colors none --init sphere --image-size 16 --steps"
    for name, file, steps, anew in (
        (str(out), "cameras", ["1"], False), ("out", "cameras", ["2", "--resume"], False),
        ("out", "others", ["2", "--resume"], True),
    ):  # fmt: skip
        words = ["--cameras", f"{name}/{file}.json", *options.split(), *steps]
        assert main(["fit", str(tmp_path), "-o", name, *words]) == 0
        err = capsys.readouterr().err
        assert ("made anew" in err) == anew, err
        assert ("masks before a backdrop" in err) == (name != "out" or anew), err
        (out / "others.json").write_bytes((out / "cameras.json").read_bytes())


@pytest.mark.rotating(5, group="photos")
def test_masks_in_commands(tmp_path, capsys, monkeypatch):
    images, masks = photos("blue")
    (tmp_path / "transforms.json").write_text(written(tmp_path, images))
    elsewhere = ["--image-size", "60", "-o", str(tmp_path / "other"), "--quiet"]
    assert main(["masks", str(tmp_path), *elsewhere]) == 0
    with Image.open(tmp_path / "other" / "3.png") as third:
        assert third.size == (WIDTH, HEIGHT)
    capsys.readouterr()
    assert main(["masks", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "5 masks before a backdrop that is plain" in said
    with Image.open(tmp_path / "masks" / "sheet.jpg") as sheet:
        assert sheet.width > WIDTH
    files = []
    for i in range(5):
        with Image.open(tmp_path / f"masks/{i}.png") as file:
            files.append(torch.from_numpy(np.array(file)))
    assert float(overlap(torch.stack(files) / 255, masks)) > 0.97
    views = load_views(tmp_path)  # which are read from now on
    assert float(overlap(views.masks, masks)) > 0.97
    assert main(["masks", str(tmp_path)]) == 2
    assert "holds files already" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "cv2", None)
    monkeypatch.setattr("gendr.photos.masks.find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"OpenCV, which is not installed: pip install opencv"):
        find_masks(images)


@pytest.mark.rotating(5, group="photos")
@for_each(turns=[False, True], folds=[0.02, 0.15], rotating=4)
def test_plaster_before_black_cloth_has_no_holes(turns, folds):
    """What is always plaster, also in its own shadow, is no backdrop."""
    ball, box = icosphere(4).vertices, remesh(cube(2), 0.3).mesh
    lump = (
        ball * (1 + 0.25 * (3 * ball).sin().prod(-1, keepdim=True)) * torch.tensor([0.5, 0.6, 0.3])
    )
    stand = 0.3 * box.vertices - torch.tensor([0.0, 0.75, 0.0])
    faces = torch.cat([icosphere(4).faces, box.faces + len(ball)])
    figure = Mesh(torch.cat([lump, stand]), faces)
    camera = look_at(4.0, 20.0, [40.0 * i for i in range(9)], 40.0)
    images, covered = plaster(figure, camera, 96, turns=turns, folds=folds)
    found, kind = find_masks(images)
    assert kind == ("plain" if folds < 0.1 else "still")
    assert float(overlap(found, covered > 0.5)) > 0.93
    inner = -torch.nn.functional.max_pool2d(-covered[:, None], 5, 1, 2)[:, 0] == 1
    assert float(found[inner].mean()) > 0.995


def test_shadows_that_move_over_a_dim_cloth_are_no_object():
    """Of lamps that stand still while a camera walks round; what is lit there, too."""
    count, (height, width) = 12, (150, 200)
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    generator = torch.Generator().manual_seed(0)
    photos, true = [], []
    for i in range(count):
        light = torch.where((x - 100).square() + 9 * (y - 150).square() < 95**2, 0.13, 0.01)
        turn = torch.tensor(2 * torch.pi * i / count)
        shadow = ((x - 100 - 30 * turn.sin()).abs() < 30) & ((y - 128 - 4 * turn.cos()).abs() < 9)
        light = torch.where(shadow, 0.02, light)
        ball = (x - 100).square() + (y - 85 - 6 * (i % 2)).square() < 32**2
        photos.append(torch.where(ball, 0.5 + 0.3 * (x - 100) / 32 * turn.cos(), light))
        true.append(ball)
    noise = 0.006 * torch.randn(count, 3, height, width, generator=generator)
    found, kind = find_masks((torch.stack(photos)[:, None] + noise).clamp(0, 1))
    assert kind == "still"
    assert float(overlap(found, torch.stack(true))) > 0.95


def test_what_lies_in_shadow_before_black():
    """Of a ball that is lit from one side the other, hardly brighter than black, is found too.

    Light that the lens scatters around the ball is none of it.
    """
    rng, (y, x) = np.random.default_rng(0), np.mgrid[:HEIGHT, :WIDTH] + 0.5
    images, balls = [], []
    for i in range(4):
        right, down = (x - 80 - 5 * i) / 40, (y - 60) / 40
        far = np.hypot(right, down)
        light = 0.7 * (0.8 * right + 0.6 * np.sqrt((1 - far**2).clip(0)) - 0.3).clip(0) ** 0.45
        ball = far < 1
        glare = 0.01 * np.exp(-20 * (far - 1).clip(0)) * (right > 0)
        image = np.where(ball, light.clip(4 / 255), glare)
        noisy = image + 1.5 / 255 * rng.standard_normal((3, HEIGHT, WIDTH))
        images.append((255 * noisy.clip(0, 1)).round() / 255)
        balls.append(ball)
    found, kind = find_masks(torch.from_numpy(np.stack(images)).float())
    assert kind == "plain"
    assert float(overlap(found, torch.from_numpy(np.stack(balls)))) > 0.93
