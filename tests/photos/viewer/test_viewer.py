"""The viewer: what it reads, what it draws, and that its page is there, and then is gone."""

import json
import math
import sys
import urllib.error
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import gendr
from gendr import Mesh, look_at
from gendr.cli import main
from gendr.jobs.folders import SOURCES
from gendr.mesh import icosphere
from gendr.photos import load_views, visual, visual_hull
from gendr.photos.camera_files.transforms import NoCamerasError
from gendr.photos.splatting import Splats
from gendr.photos.viewer import Subject, Viewer, read_subject
from gendr.photos.viewer.pictures import (
    COMPARISONS,
    Soft,
    compared,
    drawable,
    eye,
    letterboxed,
    silhouette_gradient,
    soft,
    splatted,
)
from gendr.photos.viewer.subject import stamp

SIZE = (24, 32)


@pytest.fixture(scope="module")
def views():
    return load_views("assets/photos", size=24)


def quaternion(turn):
    """w x y z of a rotation whose trace is well above -1."""
    w = math.sqrt(1 + np.trace(turn)) / 2
    skew = [turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]
    return np.array([w, *(x / (4 * w) for x in skew)])


def seen_from(camera, aspect=SIZE[1] / SIZE[0]):
    """A camera as the browser tells it."""
    rotation, shift, k = (x[0].double() for x in camera.to_opencv(SIZE))
    return SimpleNamespace(
        wxyz=quaternion(rotation.T.numpy()),
        position=(-rotation.T @ shift).numpy(),
        fov=2 * math.atan(SIZE[0] / 2 / float(k[1, 1])),
        aspect=aspect,
    )


def test_the_browsers_camera_is_ours():
    camera = look_at(3.0, 20.0, 40.0)
    told = seen_from(camera)
    found = eye(told.wxyz, told.position, told.fov, SIZE)
    for mine, other in zip(found.tensors(), camera.tensors(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)


def test_soft_pictures_are_the_renderers():
    mesh, camera = icosphere(1).scaled(0.5), look_at(3.0, 20.0, 40.0)
    hard, wide = (
        soft(mesh, camera, SIZE, Soft("uniform", "probabilistic", pixels))[..., 0] / 255
        for pixels in (0.02, 8.0)
    )
    inside = gendr.Renderer(SIZE, "heaviside", "max")(mesh, camera).alpha[0].bool().numpy()
    assert (hard[~inside] < 1).mean() < 0.02
    assert 0.1 < (wide[~inside] < 1).mean() < 1


def test_colours_are_lengths_of_the_gradient():
    """Those of differences."""
    corners, faces = icosphere(1).vertices.double() / 2, icosphere(1).faces
    camera, how = look_at(3.0, 10.0, 20.0).to(torch.float64), Soft("logistic", "einstein", 1.0)

    def area(vertices):
        return soft_alpha(Mesh(vertices, faces), camera, how)

    slopes = torch.zeros(4, 3, dtype=torch.float64)
    for v in range(4):
        for axis in range(3):
            step = torch.zeros_like(corners)
            step[v, axis] = 1e-5
            slopes[v, axis] = (area(corners + step) - area(corners - step)) / 2e-5
    colors = silhouette_gradient(Mesh(corners, faces), camera, SIZE, how)
    part = ((1 - colors[:, 2]) / (1 - 62 / 255)) ** 2
    assert float(part.max()) == pytest.approx(1)
    length = slopes.norm(dim=1)
    torch.testing.assert_close(part[:4] / part[0], length / length[0], atol=1e-4, rtol=1e-4)
    away = camera.moved([0.0, 5.0, 0.0])  # it sees nothing
    assert (silhouette_gradient(Mesh(corners, faces), away, SIZE, how) == 1).all()


def soft_alpha(mesh, camera, how):
    near, far = visual.depths(mesh, camera)
    return gendr.Renderer(SIZE, near=near, far=far, **how.options())(mesh, camera).alpha.sum()


def test_photos_are_compared(views):
    mesh = visual_hull(views.camera, views.masks)
    photo, mask, fit, difference = (
        compared(views, 0, mesh, kind).astype(float) for kind in COMPARISONS
    )
    assert photo.shape == mask.shape == fit.shape == difference.shape == (24, 24, 3)
    inside = mask[..., 0] < 128
    assert (photo[~inside].min(-1) > 100).all()
    assert abs(fit[inside].mean() - 255) > 20
    assert np.abs(difference[~inside] - 255).mean() < 10
    # A mesh that is not there leaves the photo's outline alone.
    gone = compared(views, 0, icosphere(0).scaled(1e-3), "difference")
    assert (gone[inside][:, 2].astype(int) - gone[inside][:, 0] > 50).mean() > 0.9


def test_pictures_are_fitted_into_the_window():
    red = np.zeros((10, 20, 3), np.uint8)
    for aspect, shape, inside in ((3.0, (10, 30), (slice(None), slice(5, 25))),
                                  (1.0, (20, 20), (slice(5, 15), slice(None)))):  # fmt: skip
        page = letterboxed(red, aspect)
        assert page.shape == (*shape, 3)
        assert (page[inside] == 0).all()
        assert (page == 0).sum() == red.size


def splats():
    torch.manual_seed(0)
    corners = torch.randn(6, 1, 3) * 0.2 + torch.randn(6, 3, 3) * 0.1
    return Splats(corners, torch.rand(6, 1, 3), torch.full((6,), 0.9), torch.full((6,), 0.5))


def test_files_and_folders_are_read(tmp_path, views):
    icosphere(0).save(tmp_path / "a.obj")
    assert read_subject(tmp_path / "a.obj").meshes[0][1].face_counts == (20,)
    assert len(read_subject("assets/photos").views) == len(views)
    assert read_subject(tmp_path / "a.obj", "assets/photos").views is not None
    splats().save(tmp_path / "s.npz")
    assert len(read_subject(tmp_path / "s.npz").splats) == 6
    splats().to_ply(tmp_path / "s.ply")
    seen = read_subject(tmp_path / "s.ply")
    assert len(seen.cloud) == 6
    assert seen.up == (0, 1, 0)
    others = (tmp_path / "s.ply").read_bytes().replace(b"comment soft triangles of gendr\n", b"")
    (tmp_path / "s.ply").write_bytes(others)
    assert read_subject(tmp_path / "s.ply").up == (0, -1, 0)  # as 3D Gaussian Splatting writes it
    for found, shape in zip(drawable(seen.cloud), ((6, 3), (6, 3, 3), (6, 3), (6, 1)), strict=True):
        assert found.shape == shape
    icosphere(0).save(tmp_path / "m.ply")
    assert read_subject(tmp_path / "m.ply").meshes[0][1].face_counts == (20,)
    with pytest.raises(FileNotFoundError, match=r"no such file or folder: .*b\.obj"):
        read_subject(tmp_path / "b.obj")
    (tmp_path / "begun").mkdir()
    with pytest.raises(NoCamerasError):
        read_subject(tmp_path / "begun")
    (tmp_path / "begun" / SOURCES).write_text("{}")
    (tmp_path / "begun" / "preview.png").write_bytes(b"")
    begun = read_subject(tmp_path / "begun")
    assert (begun.name, begun.meshes, begun.views) == ("begun", (), None)


@pytest.mark.rotating(5, group="photos")
def test_a_running_fit_is_read(tmp_path, views):
    states = []
    gendr.fit(views.masks, views.camera, init="hull", steps=2, callback=states.append)
    empty = stamp(tmp_path)
    states[-1].save(tmp_path / "checkpoint.pt")
    facts = {"target": "assets/photos", "kind": "images"}
    (tmp_path / "progress.json").write_text(json.dumps(facts))
    running = read_subject(tmp_path)
    assert empty == () != stamp(tmp_path)
    assert [name for name, _ in running.meshes] == [f"step {s}" for s, *_ in states[-1].trace]
    assert len(running.views) == len(views)
    icosphere(0).save(tmp_path / "fit.obj")
    done = read_subject(tmp_path)
    (tmp_path / "checkpoint.pt").write_bytes(b"of another command")
    assert [name for name, _ in read_subject(tmp_path).meshes] == ["result"]
    assert done.meshes[-1][0] == "result"
    assert len(done.meshes) == len(running.meshes) + 1


def looks_at(viewer, look, **values):
    for name, value in {"compare": "off", **values, "look": look}.items():
        viewer._controls[name].value = value
    return viewer.picture(seen_from(look_at(3.0, 20.0, 40.0), aspect=1.5))


def test_the_page_is_there_and_its_controls_act(views):
    pytest.importorskip("viser")
    mesh = Mesh.load("assets/teapot.obj").normalized().scaled(0.5)
    viewer = Viewer(Subject("a", (("1", mesh),), views=views), 18080, image_size=32)
    other = Viewer(Subject("b", splats=splats()), 18080, image_size=32)
    try:
        assert viewer.url != other.url
        assert all(url.startswith("http://127.0.0.1:") for url in (viewer.url, other.url))
        with urllib.request.urlopen(viewer.url, timeout=10) as page:
            assert b"<html" in page.read()
        assert looks_at(viewer, "shape") is None  # the browser draws it
        narrow = looks_at(viewer, "soft picture", pixels=0.1)
        wide = looks_at(viewer, "soft picture", pixels=10.0)
        assert narrow.shape == wide.shape == (32, 48, 3)
        assert (narrow < 250).mean() > 0.02
        assert np.abs(narrow.astype(float) - wide).mean() > 5
        assert (looks_at(viewer, "gradient") != narrow).any()
        compare = looks_at(viewer, "shape", compare="mask", photo=1)
        assert (compare == letterboxed(compared(views, 1, mesh, "mask"), 1.5)).all()
        # The steps of a fit grow, and who sees the newest sees the next.
        viewer.show(Subject("a", (("1", mesh), ("2", mesh)), views=views))
        viewer.show(Subject("a", (("1", mesh), ("2", mesh), ("3", mesh)), views=views))
        assert viewer._controls["step"].value == 2
        # What is unlit in a file is so in the browser.
        painted, files = mesh.with_vertex_colors(torch.rand(len(mesh.vertices), 3)), []
        viewer._server.scene.add_glb = lambda name, content, **_: files.append(content)
        for given in (painted, painted.with_unlit()):
            viewer.show(Subject("c", (("1", given),)))
        assert [b"KHR_materials_unlit" in file for file in files[-2:]] == [False, True]
        camera = seen_from(look_at(3.0, 20.0, 40.0), aspect=1.5)
        place = eye(camera.wxyz, camera.position, camera.fov, (32, 48))
        assert (other.picture(camera) == splatted(splats(), place, (32, 48))).all()
    finally:
        viewer.close()
        other.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(viewer.url, timeout=2)


def test_the_command_ends_with_ctrl_c(tmp_path, capsys, monkeypatch):
    pytest.importorskip("viser")
    icosphere(0).save(tmp_path / "a.obj")

    (tmp_path / "out").mkdir()
    icosphere(0).save(tmp_path / "out" / "fit.obj")

    def damage(seconds):  # as a file that is being copied
        (tmp_path / "out" / "fit.obj").write_text("v 0")
        monkeypatch.setattr("gendr.cli.view.time.sleep", wait)

    def wait(seconds):
        monkeypatch.setattr("gendr.cli.view.time.sleep", interrupt)

    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("gendr.cli.view.time.sleep", damage)
    assert main(["view", str(tmp_path / "out"), "--port", "18090"]) == 0
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "fit.obj is damaged" in said
    assert "what was read before stays" in said
    assert main(["view", str(tmp_path / "a.obj"), "--port", "18090"]) == 0
    assert "http://127.0.0.1:1809" in capsys.readouterr().out
    with pytest.raises(ValueError, match="port must be between 1 and 65535, got 65536"):
        Viewer(Subject("a"), 65536)
    assert main(["view", str(tmp_path / "b.obj")]) == 2
    assert "no such file or folder" in capsys.readouterr().err


def test_without_viser_one_line_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(RuntimeError, match=r"pip install '\.\[view\]'"):
        Viewer(Subject("a"))


def test_outputs_beside_photos_without_masks(tmp_path):
    """A folder of photos; what splat leaves; what fit --masks leaves. Photos are shown upright."""
    photos, masks, note = tmp_path / "p", tmp_path / "m", Image.Exif()
    photos.mkdir()
    masks.mkdir()
    note[0x0112] = 6
    frames, at = [], [5e5, 4e6, 0.0]
    for i, pose in enumerate(look_at(3.0, 20.0, [0.0, 90.0, 200.0]).camera_to_world.tolist()):
        pixels = np.full((20, 30, 3), (90, 60, 60), np.uint8)
        pixels[:, :9] = 240, 200, 60  # on the left, which is above when it is upright
        Image.fromarray(pixels).save(photos / f"{i}.png", exif=note)
        inside = np.pad(np.full((14, 24), 255, np.uint8), 3)
        Image.fromarray(inside).save(masks / f"{i}.png")
        for row, far in zip(pose, at, strict=False):
            row[3] += far
        frames.append({"file_path": f"{i}.png", "transform_matrix": pose})
    (photos / "transforms.json").write_text(json.dumps({"fl_x": 40.0, "frames": frames}))

    def check(path, whole):
        subject = read_subject(path)
        views = subject.views
        (rows, columns), *_ = views.camera.region(views.image_size)
        mask, rgb = views.masks[0, rows, columns], views.rgb[0, :, rows, columns]
        height, width = mask.shape
        assert height == pytest.approx(1.5 * width, abs=1)
        assert bool((mask > 0.99).all()) is whole
        top, bottom = (rgb[0, half][mask[half] > 0.99] for half in (2 * height // 8, -height // 4))
        assert float(top.mean()) > 0.9 > 0.4 > float(bottom.mean())
        assert float(views.camera.origin[1]) == pytest.approx(4e6, abs=10)
        assert subject.together().views.camera.origin is None
        return subject

    check(photos, True)
    out = tmp_path / "splat"
    out.mkdir()
    splats().save(out / "splats.npz")
    (out / "metrics.json").write_text(json.dumps({"kind": "splats", "photos": str(photos)}))
    icosphere(1).save(out / "splats.glb")
    found = check(out, True)
    assert len(found.splats) == 6
    assert [len(mesh.faces) for _, mesh in found.meshes] == [80]
    out = tmp_path / "fit"
    out.mkdir()
    icosphere(1).save(out / "fit.obj")
    facts = {"kind": "images", "target": str(photos), "masks_from": str(masks)}
    (out / "metrics.json").write_text(json.dumps(facts))
    assert len(check(out, False).meshes) == 1
