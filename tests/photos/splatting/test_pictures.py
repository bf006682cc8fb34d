"""Walks past cameras, and pictures of splats beside photos."""

import io
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from gendr import look_at, look_from
from gendr.mesh import icosphere
from gendr.photos import visual
from gendr.photos.splatting import Photos, Splats, camera_path, from_mesh
from gendr.photos.splatting.harmonics import flat_color, harmonics_of
from gendr.photos.splatting.pictures import film, pair, sheet, with_mean_colors

F64 = torch.float64
AT = torch.tensor([3.0, -1.0, 2.0], dtype=F64)


def test_a_walk_past_cameras_in_a_circle_is_that_circle():
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    camera = look_at(4.0, 20.0, order.to(F64) * 30, 40.0, at=AT)
    path = camera_path(camera, 30)
    assert len(path) == 30
    arms = path.eye - AT
    torch.testing.assert_close(arms.norm(dim=-1), torch.full((30,), 4.0, dtype=F64))
    torch.testing.assert_close(arms[:, 1], torch.full((30,), 4 * np.sin(np.pi / 9), dtype=F64))
    steps = (path.eye - path.eye.roll(1, 0)).norm(dim=-1)
    assert float(steps.max() / steps.min()) < 1.01
    assert float(steps.sum()) == pytest.approx(2 * np.pi * 4 * np.cos(np.pi / 9), rel=0.01)
    torch.testing.assert_close(path.ahead, -arms / 4)
    torch.testing.assert_close(path.focal, camera.focal[:1].expand(30, 2))


def test_a_walk_before_a_wall_goes_to_and_fro():
    """Cameras on a quarter of a circle, which look past its centre at places of their own."""
    angles = torch.linspace(-45, 45, 15, dtype=F64)[torch.randperm(15)]
    middle = look_at(5.0, 10.0, angles, 40.0, at=AT)
    aims = AT + 0.2 * torch.randn(15, 3, dtype=F64)
    camera = look_from(middle.eye, aims, fov=40.0)
    path = camera_path(camera, 50, AT)
    arms = path.eye - AT
    azimuth = torch.atan2(arms[:, 0], -arms[:, 2])
    assert float(azimuth.abs().max()) < np.pi / 4
    assert float(azimuth.max() - azimuth.min()) > np.pi / 4
    turned = (azimuth - azimuth.roll(1)).sign()
    assert int((turned != turned.roll(1)).sum()) == 2  # at both ends
    steps = (path.eye - path.eye.roll(1, 0)).norm(dim=-1)
    assert float(steps.max()) < 1.2 * float(steps.mean())
    turns = (path.ahead * path.ahead.roll(1, 0)).sum(-1).clamp(max=1).acos()
    assert float(turns.max()) < np.pi / 20


def test_cameras_that_do_not_turn_leave_the_walk_where_they_are():
    camera = look_at(3.0, 0.0, torch.tensor([40.0]), 30.0)
    path = camera_path(camera, 3, torch.zeros(3))
    torch.testing.assert_close(path.eye, camera.eye.expand(3, 3))
    with pytest.raises(ValueError, match="count must be >= 1"):
        camera_path(camera, 0)


@pytest.fixture(scope="module")
def ball():
    return from_mesh(icosphere(2), 50)


def test_films_are_of_the_kind_that_there_is(ball, monkeypatch):
    camera = look_at(4.0, 10.0, torch.arange(3) * 100.0, 40.0)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    told = []
    kind, content = film(ball, camera, (21, 33), told.append)
    assert kind == ".gif"
    assert told == [1 / 3, 2 / 3, 1]
    with Image.open(io.BytesIO(content)) as image:
        assert (image.n_frames, image.size) == (3, (33, 21))
        assert image.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
    sent = []

    def write_frames(path, size, **_):
        frame = yield
        while frame is not None:
            sent.append((size, frame.shape))
            with open(path, "ab") as file:
                file.write(b"frame")
            frame = yield

    fake = SimpleNamespace(write_frames=write_frames, __spec__=object())
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", fake)
    assert film(ball, camera, (21, 33)) == (".mp4", 3 * b"frame")
    assert sent == 3 * [((32, 20), (20, 32, 3))]


def test_white_stays_white_in_gifs():
    """Near whites do not take its place in the palette."""
    frames = np.full((2, 8, 8, 3), 255, np.uint8)
    frames[:, 4:] = np.arange(32).reshape(4, 8)[None, :, :, None] + 222
    with Image.open(io.BytesIO(visual.gif(list(frames)))) as image:
        shown = np.asarray(image.convert("RGB"))
    assert (shown[:4] == 255).all()
    assert np.abs(shown[4:].astype(int) - frames[0, 4:]).max() < 8


def test_sheets_show_photos_and_splats_under_each_other():
    red, green, blue = torch.eye(3)[:, :, None, None].expand(3, 3, 20, 30)
    rows = [([red] * 8, [""] * 8), ([green] * 8, [f"{i} dB" for i in range(8)])]
    page = sheet("title", "subtitle", [f"./{i}.png" for i in range(8)], rows)
    counts = [(page == color).all(-1).sum() for color in ([255, 0, 0], [0, 255, 0])]
    assert counts == [8 * 192 * 128] * 2
    columns = (page == [255, 0, 0]).all(-1).any(0).sum()
    assert columns == 4 * 192  # two rows of four
    both = pair("title", "note", red, blue)
    assert (both[100, 100] == [255, 0, 0]).all()
    assert (both[100, 500] == [0, 0, 255]).all()


def test_opaque_triangles_have_the_mean_color_of_pixels_that_show_them():
    """Of a red and a blue photo from both sides, with walls between: black shards, one hidden."""
    wide = torch.tensor([[-1.0, -1.0], [1.0, -1.0], [0.0, 1.0]])
    # A front wall, one behind it that only the second camera sees, an edge-on one within, and a
    # roof that both see alike.
    walls = [torch.cat([wide, torch.full((3, 1), z)], 1) for z in (1.0, -1.0)]
    hidden = 0.5 * walls[0] * torch.tensor([1.0, 1.0, 0.0])
    roof = torch.tensor([[-1.0, 1.5, 0.0], [1.0, 1.5, 0.0], [0.0, 2.0, 0.0]])
    vertices = torch.stack([walls[0], walls[1], hidden, roof])
    dark = harmonics_of(torch.full((4, 3), -0.5), 1)
    assert flat_color(harmonics_of(torch.full((4, 3), 0.3), 2)).allclose(torch.tensor(0.3))
    splats = Splats(vertices, dark, torch.full((4,), 0.3), torch.full((4,), 0.5))
    camera = look_at(8.0, 0.0, torch.tensor([0.0, 180.0]), 40.0)
    red, blue = torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 0.0, 1.0])
    images = torch.stack([red, blue])[..., None, None].expand(2, 3, 64, 64)
    photos = Photos(images, None, camera, ("a", "b"), torch.ones(3))
    found = with_mean_colors(splats, photos)
    in_front = int(camera.eye[0, 2] < 0)  # the wall that the first camera sees
    order = [red, blue] if in_front == 0 else [blue, red]
    want = torch.stack([*order, (red + blue) / 2])
    torch.testing.assert_close(found.vertices, vertices[[0, 1, 3]])
    torch.testing.assert_close(flat_color(found.harmonics), want, atol=1e-6, rtol=0)
    assert bool((found.opacity == 1).all())
    assert not found.harmonics[:, 1:].any()
    # Beside whole pictures other cameras may look: what is there stays as it is.
    away = vertices[3:] + torch.tensor([50.0, 0, 0])
    more = Splats(
        torch.cat([vertices, away]), dark[[0, 1, 2, 3, 3]], torch.full((5,), 0.3), torch.ones(5)
    )
    kept = with_mean_colors(more, photos)
    torch.testing.assert_close(kept.vertices, more.vertices[[0, 1, 3, 4]])
    assert flat_color(kept.harmonics)[-1].tolist() == flat_color(dark)[3].tolist()  # black
    assert len(with_mean_colors(more, replace(photos, alpha=torch.ones(2, 64, 64)))) == 3
    with pytest.raises(ValueError, match="no photo shows any of the 1 triangles"):
        with_mean_colors(splats[3:].with_tensors(vertices=away), photos)
