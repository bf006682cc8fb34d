"""The command line: pose, fit, render, list and help, and one line for bad input."""

import errno
import functools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import gendr
from gendr import Mesh, Renderer, look_at
from gendr.cli import fit, photos, pose, progress
from gendr.cli.common import METRICS
from gendr.cli.parser import Fit, build_parser
from gendr.cli.resume import Run, StageFile
from gendr.jobs.folders import SOURCES, locked, output_folder
from gendr.mesh import cube, icosphere
from gendr.photos import Views, save_views, visual
from gendr.photos.fitting import ColorResult, FitResult, FitSettings, FitState
from gendr.photos.fitting.cameras import agreement
from gendr.photos.fitting.cameras import refine as refine_cameras
from gendr.photos.fitting.pose import fit as fit_poses
from gendr.photos.fitting.pose import search, track
from gendr.photos.fitting.shape import refine as refine_shape
from gendr.photos.fitting.shape.job import Job
from support.cases import for_each
from support.commands import facts, names, refused, run

ROOT = Path(__file__).parents[1]
SMALL = ["--image-size", "16", "--views", "4", "--steps", "12", "--subdivisions", "2", "--quiet"]
RESULTS = {"checkpoint.pt", "fit.gif", "fit.obj", "metrics.json", "sheet.png"}
LITTLE = ["--starts", 8, "--steps", 20, "--image-size", 48]


def save_box(path):
    mesh = cube(1)
    vertices = mesh.vertices * torch.tensor([36.0, 20.0, 28.0]) + torch.tensor([50.0, 0, -90.0])
    mesh.with_vertices(vertices).save(path)
    return path


@pytest.fixture(autouse=True)
def small(request, monkeypatch):
    """A search for a pose has many directions."""
    directions = search.directions
    monkeypatch.setattr(search, "directions", lambda count: directions(count // 3))
    if request.node.get_closest_marker("slow") is None:
        request.getfixturevalue("small_pictures")


@pytest.fixture
def box(tmp_path):
    """A mesh file, off-centre and in other units."""
    return save_box(tmp_path / "box.ply")


def save_photos(folder, grey=False):
    """A folder of images of an off-centre object, large units."""
    mesh = icosphere(2)
    at = torch.tensor([300.0, 40.0, -100.0])
    red = torch.tensor([0.9, 0.3, 0.2]).expand(len(mesh.vertices), 3)
    mesh = mesh.with_vertices(mesh.vertices * torch.tensor([30.0, 15.0, 22.0]) + at)
    mesh = mesh.with_vertex_colors(red)
    camera = look_at(250.0, torch.tensor([30.0, -20.0, 10.0, 50.0, 5.0]),
                     torch.arange(5) * 72.0, at=at + 12)  # fmt: skip
    renderer = Renderer((24, 32), "logistic", scale="0.3px", near=10.0, far=1000.0)
    out = renderer(mesh, camera)
    save_views(folder, out.alpha, camera, rgb=None if grey else out.rgb.clamp(0, 1))
    return mesh


def save_mask(mask, path):
    path.parent.mkdir(exist_ok=True)
    Image.fromarray((torch.as_tensor(mask).numpy() * 255).astype("uint8")).save(path)


# -- pose ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def turning(tmp_path_factory):
    """A box of three sides, and the images of a video and of a rig around it."""
    mesh = cube(1)
    mesh = mesh.with_vertices(mesh.vertices * torch.tensor([1.0, 0.6, 0.3]))
    folder = tmp_path_factory.mktemp("turning")
    mesh.save(folder / "box.obj")
    camera = visual.orbit(mesh, [20.0, 26.0, 32.0, 100.0], 20.0)
    masks = visual.silhouettes(mesh, camera, 48)
    for i, mask in enumerate(masks[:3]):
        save_mask(mask, folder / "video" / f"{i + 8}.png")
    save_views(folder / "rig", masks[[0, 3]], camera[[0, 3]])
    return folder


def posed(turning, out, images, *more):
    """What camera.json says."""
    assert run("pose", turning / "box.obj", images, "-o", out, *LITTLE, *more) == 0
    return facts(out, "camera.json")


def test_pose_of_masks_that_tell_nothing(box, tmp_path, capsys, monkeypatch):
    """All masks are looked at before the first is searched, and the file is named."""
    monkeypatch.setattr(pose, "fit_pose", lambda *a, **b: pytest.fail("it was searched"))
    out = tmp_path / "out"
    for pixels, said in ((0, "2.png: the mask is empty"), (5, "2.png: the mask has 5 pixels")):
        for name, count in (("1", 300), ("2", pixels)):
            image = np.zeros((20, 20, 4), "uint8")
            image[..., 3].flat[:count] = 255
            (tmp_path / "in").mkdir(exist_ok=True)
            Image.fromarray(image).save(tmp_path / "in" / f"{name}.png")
        for more in ((), ("--track",)):
            assert said in refused(capsys, "pose", box, tmp_path / "in", *more, "-o", out)
    Image.new("L", (20, 20), 7).save(tmp_path / "blank.png")
    said = refused(capsys, "pose", box, tmp_path / "blank.png", "-o", out)
    assert "blank.png: it has one colour, so no object is seen" in said
    assert not out.exists()


@pytest.mark.rotating(4, group="fits")
def test_pose_says_what_it_cannot_rely_on(box, tmp_path, capsys):
    """A mask that is cut off by the border, and of another object."""
    mask = torch.zeros(48, 48)
    mask[10:, 20:24] = 1
    mask[30:34] = 1
    save_mask(mask, tmp_path / "in" / "cross.png")
    (tmp_path / "in" / "._cross.png").write_bytes(b"a note of a file system")
    assert run("pose", box, tmp_path / "in", "-o", tmp_path / "out", *LITTLE) == 0
    said = capsys.readouterr().out
    for text in ("cross.png: IoU 0.", "a poor agreement", "cross.png: the object touches the"):
        assert text in said
    (found,) = facts(tmp_path / "out", "camera.json")["images"]
    assert found["touches_border"] is True


@pytest.mark.rotating(4, group="fits")
def test_pose_of_a_video(turning, tmp_path, capsys):
    found = posed(turning, tmp_path, turning / "video", "--track")["images"]
    assert names(tmp_path) == {"camera.json", "overlay.png", "track.gif"}
    assert [each["image"] for each in found] == ["8.png", "9.png", "10.png"]
    assert [each["searched"] for each in found] == [True, False, False]
    assert min(each["iou"] for each in found) > 0.95
    turns = torch.tensor([each["opengl"]["camera_to_world"] for each in found])[:, :3, :3]
    angles = gendr.mesh.rotation_angle_between(turns[:-1], turns[1:])
    assert float((angles - 6).abs().max()) < 4
    with Image.open(tmp_path / "track.gif") as gif:
        assert gif.n_frames == 3
    shown = capsys.readouterr().out
    assert "3 images: mean IoU" in shown
    assert "searched anew" not in shown


@pytest.mark.rotating(4, group="long")
def test_pose_in_a_rig(turning, tmp_path, capsys):
    """Its cameras stand in UTM metres; one photo is upright, and cut off beside the object."""
    given = json.loads((turning / "rig" / "transforms.json").read_text())
    at = [4.5e5, 5.4e6, 300.0]
    for frame in given["frames"]:
        for row, far in zip(frame["transform_matrix"], at, strict=False):
            row[3] += far
        frame.update({key: given[key] for key in ("fl_x", "fl_y", "cx", "cy", "h", "w")})
    cut, second = 14, given["frames"][1]
    folder = tmp_path / "rig"
    shutil.copytree(turning / "rig", folder)
    with Image.open(folder / second["file_path"]) as photo:
        narrow = photo.crop((cut, 0, photo.width - 2, photo.height))
    narrow.save(folder / second["file_path"])
    second.update(w=narrow.width, cx=second["cx"] - cut)
    (folder / "transforms.json").write_text(json.dumps({"frames": given["frames"]}))
    found = posed(turning, tmp_path / "out", folder, "--rig")
    assert min(each["iou"] for each in found["images"]) > 0.95
    placed = torch.tensor(found["rig"]["mesh_to_world"], dtype=torch.float64)
    for frame, each in zip(given["frames"], found["images"], strict=True):
        camera = torch.tensor(each["opengl"]["camera_to_world"], dtype=torch.float64)
        view = torch.tensor(frame["transform_matrix"], dtype=torch.float64)
        torch.testing.assert_close(placed @ camera, view, rtol=0, atol=1e-3)
        k = torch.tensor(each["opencv"]["K"])
        wanted = [frame[key] for key in ("fl_x", "fl_y", "cx", "cy")]
        assert [k[0, 0], k[1, 1], k[0, 2], k[1, 2]] == pytest.approx(wanted, abs=1e-3)
        assert each["image_size"] == [frame["h"], frame["w"]]
    assert "all together: IoU" in capsys.readouterr().out


def test_pose_by_a_lens_in_pixels_of_the_image(turning, tmp_path):
    """The masks are shrunk to 256 pixels; what is said of the lens is not."""
    mesh = Mesh.load(turning / "box.obj")
    camera = look_at(6.0, 25.0, 35.0, fov=35.0)
    camera = gendr.Camera(camera.rotation, camera.translation, camera.focal, [0.2, -0.1])
    size = (320, 400)
    save_mask(visual.silhouettes(mesh, camera, size)[0], tmp_path / "in" / "a.png")
    k = camera.intrinsics(size)[0]
    lens = [float(x) for x in (k[0, 0], k[1, 1], k[0, 2], k[1, 2])]
    (found,) = posed(turning, tmp_path / "out", tmp_path / "in", "--lens", *lens)["images"]
    assert found["image_size"] == [320, 400]
    np.testing.assert_allclose(found["opencv"]["K"], k, rtol=1e-4)
    assert found["iou"] > 0.97


def test_pose_conventions_by_their_definitions(turning, tmp_path):
    """Vertices by each convention's own formula fall into the mask, and cover it.

    OpenCV: x = K (R X + t), y down. OpenGL: the camera looks along -z, y up, as trimesh has it.
    PyTorch3D: row vectors, X R + T, +x to the left and +y up, NDC of the shorter side.
    """
    import trimesh

    mesh = Mesh.load(turning / "box.obj")
    mask = visual.silhouettes(mesh, look_at(6.0, 25.0, 35.0, at=(0.5, 0.2, 0.0)), (60, 80))[0]
    save_mask(mask, tmp_path / "in" / "a.png")
    out = tmp_path / "out"
    (found,) = posed(turning, out, tmp_path / "in")["images"]
    assert names(out) == {"camera.json", "overlay.png"}
    assert found["iou"] > 0.95
    assert found["image"] == "a.png"
    height, width = found["image_size"]
    assert (height, width) == (60, 80)
    points = mesh.vertices.double().numpy()
    r, t, k = (np.array(found["opencv"][name]) for name in "RtK")
    projected = (points @ r.T + t) @ k.T
    opencv = projected[:, :2] / projected[:, 2:]

    scene = trimesh.scene.Camera(resolution=(width, height), focal=(k[0, 0], k[1, 1]))
    view = np.linalg.inv(np.array(found["opengl"]["camera_to_world"]))
    seen = trimesh.transform_points(points, view)
    assert (seen[:, 2] < 0).all()
    calibration = scene.K  # focal lengths and the middle of the image, in pixels
    opengl = seen[:, :2] / -seen[:, 2:] * np.diag(calibration)[:2] * [1, -1]
    opengl = opengl + calibration[:2, 2]

    numbers = found["pytorch3d"]
    assert numbers["in_ndc"] is True
    seen = points @ np.array(numbers["R"]) + np.array(numbers["T"])
    ndc = seen[:, :2] / seen[:, 2:] * numbers["focal_length"] + numbers["principal_point"]
    side = min(height, width)
    pytorch3d = np.array([width, height]) / 2 - ndc * side / 2

    np.testing.assert_allclose(opengl, opencv, atol=0.02)
    np.testing.assert_allclose(pytorch3d, opencv, atol=0.02)
    rows, columns = np.nonzero(mask.numpy())
    box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    np.testing.assert_allclose([*opencv.min(0), *opencv.max(0)], box, atol=1)


@for_each(extra=[["--track"], []])
@pytest.mark.every
def test_pose_goes_on_where_it_was_stopped(turning, tmp_path, capsys, monkeypatch, extra):
    """After two images, and when all are found but not all is written."""
    words = ["pose", turning / "box.obj", turning / "video", *LITTLE, "--starts", 4, *extra]
    whole, out, done = tmp_path / "whole", tmp_path / "out", []
    assert run(*words, "-o", whole) == 0
    packed, picture = track.packed, visual.picture

    def stopping(image):
        done.append(image)
        if len(done) == 3:
            raise KeyboardInterrupt
        return packed(image)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(track, "packed", stopping)
    monkeypatch.setattr(fit_poses, "packed", stopping)
    assert run(*words, "-o", out) == 130
    assert "stopped after 2 images; the same command with --resume" in capsys.readouterr().err
    assert names(out) == {"poses.pt"}
    said = refused(capsys, *words, "-o", out, "--resume", "--steps", 21)
    assert "poses.pt is of another mesh, other images or other options" in said
    done.clear()
    with monkeypatch.context() as patch:
        patch.setattr(track, "packed", interrupted)
        patch.setattr(fit_poses, "packed", interrupted)
        assert run(*words, "-o", out, "--resume") == 130
    assert "stopped after 2 images; the same command with --resume" in capsys.readouterr().err
    monkeypatch.setattr(visual, "picture", interrupted)
    assert run(*words, "-o", out, "--resume") == 130
    assert "stopped after 3 images; the same command with --resume" in capsys.readouterr().err
    assert len(done) == 1  # only the last image was left
    monkeypatch.setattr(visual, "picture", picture)
    assert run(*words, "-o", out, "--resume") == 0
    assert len(done) == 1
    assert facts(whole, "camera.json") == facts(out, "camera.json")
    assert names(whole) == names(out)
    (out / "poses.pt").write_text("hello")
    assert "poses.pt is no checkpoint of poses" in refused(capsys, *words, "-o", out, "--resume")
    (out / "poses.pt").unlink()
    assert "no poses.pt in" in refused(capsys, *words, "-o", out, "--resume")


UNFIT_POSES = [
    ("rig --rig --resume", "--resume has no effect, as the one pose of --rig"),
    ("rig --rig --track", "--track has no effect, as the images of --rig are"),
    ("rig --rig --find-fov", "--find-fov has no effect, as the images of --rig"),
    ("rig --rig --fov 20", "--fov has no effect, as the images of --rig"),
    ("video --fov 20 --lens 9 9 4 4", "--fov has no effect, as --lens says"),
    ("rig --rig --lens 9 9 4 4", "--lens has no effect, as the images of --rig"),
    ("video --find-fov --lens 9 9 4 4", "--find-fov has no effect, as --lens says"),
    ("video --lens 0 9 4 4", "focal"),
    ("rig video --rig", "--rig takes one folder"),
    ("video --rig", "image folder without poses"),
    ("video/8.png --rig", "--rig takes a folder with transforms.json, or that file, got the"),
    ("video --find-scale", "--find-scale has no effect, as there is no --rig"),
    ("rig --track", "is a folder without images"),
]


def test_pose_options_that_do_not_go_together(turning, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(turning)
    for words, said in UNFIT_POSES:
        shown = refused(capsys, "pose", "box.obj", *words.split(), "-o", tmp_path / "out")
        assert said in shown, words
    assert not (tmp_path / "out").exists()
    with output_folder(tmp_path / "out"):
        said = refused(capsys, "pose", "box.obj", "video/8.png", "-o", tmp_path / "out")
        assert "another process" in said
        assert "another process" in refused(capsys, "splat", "rig", "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# -- fit -------------------------------------------------------------------------------------------


def test_fit_of_a_mesh_leaves_everything(box, tmp_path, capsys):
    out = tmp_path / "deep" / "out"
    gendr.set_num_threads(3)
    try:
        assert run("fit", box, "-o", out, *SMALL[:-1], "--seed", 3) == 0
    finally:
        gendr.set_num_threads(None)
    assert names(out) == RESULTS
    shown = capsys.readouterr()
    assert f"mean IoU {facts(out)['iou']:.3f} over 4 views" in shown.out
    assert "mean IoU" in shown.out
    assert "fit.gif" in shown.out
    assert "12/12" in shown.err
    metrics = facts(out)
    assert metrics["finished"] is True
    assert metrics["instance"] == "logistic/probabilistic"
    assert gendr.instance(metrics["instance"])
    assert metrics["seed"] == 3
    assert metrics["threads"] == 3  # of the kernels; torch has one
    assert metrics["best_iou"] == metrics["iou"]  # it is not remeshed at the end
    assert len(metrics["iou_per_view"]) == metrics["views"] == 4
    assert metrics["iou"] > 0.6
    assert 0 < metrics["chamfer_relative"] < 0.2
    assert metrics["chamfer"] > 1  # in the units of the target
    assert metrics["scale"]["start"] == pytest.approx(0.3 * 2 / 16)
    assert {"load", "fit", "pictures", "total"} <= metrics["seconds"].keys()
    assert torch.__version__.startswith(metrics["versions"]["torch"])
    fitted = Mesh.load(out / "fit.obj")
    low, high = fitted.bounding_box()
    assert torch.allclose((low + high)[0] / 2, torch.tensor([50.0, 0.0, -90.0]), atol=10)
    with Image.open(out / "fit.gif") as gif:
        assert gif.n_frames == 13
        gif.seek(0)
        first = gif.info["duration"]
        gif.seek(12)
        assert gif.info["duration"] > 5 * first
        assert gif.info["loop"] == 0
    with Image.open(out / "sheet.png") as sheet:
        colors = {color for _, color in sheet.convert("RGB").getcolors(1 << 24)}
        assert {(72, 121, 184), (232, 138, 62), (212, 215, 219)} <= colors


@pytest.mark.rotating(4, group="fits")
@for_each(grey=[False, True], rotating=2)
def test_fit_of_images(tmp_path, grey):
    mesh = save_photos(tmp_path / "photos", grey)
    out = tmp_path / "out"
    options = ["--steps", "30", "--subdivisions", "2", "--quiet", "--scale", "1px:0.1px"]
    colored = [] if grey else ["--colors", "vertex"]
    assert run("fit", tmp_path / "photos", "-o", out, *options, *colored) == 0
    more = set() if grey else {"fit.mtl", "fit.ply"}  # unlit, which the MTL says
    assert names(out) == RESULTS | more
    metrics = facts(out)
    assert metrics["kind"] == "images"
    assert ("colors" in metrics) != grey
    assert metrics["image_size"] == [24, 32]
    assert metrics["chamfer"] is None
    assert metrics["iou"] > 0.85
    found, wanted = (m.bounding_box() for m in (Mesh.load(out / "fit.obj"), mesh))
    for a, b in zip(found, wanted, strict=True):
        assert torch.allclose(a, b, atol=10)


@pytest.mark.rotating(4, group="fits")
def test_colors_of_a_fit(tmp_path, capsys):
    save_photos(tmp_path / "photos")
    out = tmp_path / "out"
    options = ["--steps", 5, "--subdivisions", 2, "--texture-size", 64, "--color-size", 20]
    assert run("fit", tmp_path / "photos", "-o", out, *options, "--exposure") == 0
    said = capsys.readouterr().out
    assert "fit.glb" in said
    assert names(out) == RESULTS | {"fit.glb", "fit.mtl", "fit.png"}
    found = facts(out)["colors"]
    assert found["kind"] == "texture"
    assert found["texture_size"] == [64, 64]
    assert found["image_size"] == [20, 27]
    assert found["psnr"] > 10
    assert found["exposure"] != [[1.0] * 3] * 5
    assert len(found["psnr_per_view"]) == len(found["exposure"]) == 5
    for name in ("fit.glb", "fit.obj"):
        mesh = Mesh.load(out / name)
        assert mesh.unlit  # the light of the photos is in its colours
        texture = mesh.texture
        assert texture.shape == (64, 64, 3)
        # The object is red all over.
        assert texture[..., 0].mean() > 1.5 * texture[..., 1].mean()
    assert run("fit", tmp_path / "photos", "-o", out / "b", *options[:4], "--colors", "none") == 0
    assert names(out / "b") == RESULTS


@pytest.mark.rotating(4, group="fits")
@for_each("views, start", [(4, "hull"), (2, "icosphere(3)")])
def test_start_of_a_fit(box, tmp_path, views, start):
    out = tmp_path / "out"
    options = ["--image-size", 16, "--views", views, "--steps", 2, "--quiet"]
    assert run("fit", box, "-o", out, *options) == 0
    assert facts(out)["init"] == start
    assert facts(out)["settings"]["lr"] == (0.01 if start == "hull" else 0.1)
    (out / "notes.txt").write_text("mine")
    assert run("fit", box, "-o", out, *options, "--init", "sphere") == 0
    assert names(out) == {"notes.txt", *RESULTS}
    assert facts(out)["init"] == "icosphere(3)"


@pytest.mark.rotating(4, group="fits")
@pytest.mark.filterwarnings("default:.* lies too far out")
def test_fit_of_a_survey_ends_where_the_target_is(tmp_path, capsys):
    """Coordinates in metres that are too large for float32 count from an origin."""
    at = torch.tensor([500_000.25, 4_649_000.75, 12.0], dtype=torch.float64)
    survey, start, out = tmp_path / "survey.obj", tmp_path / "start.obj", tmp_path / "out"
    ball = icosphere(2, dtype=torch.float64).scaled(5.0)
    ball.translated(at).save(survey)

    def corners(path):
        return torch.cat(Mesh.load(path, dtype=torch.float64).bounding_box())

    assert run("fit", survey, "-o", out, *SMALL) == 0
    said = capsys.readouterr().err
    assert "survey.obj: it lies too far out for float32" in said
    assert "torch" not in said  # there is no dtype to choose on the command line
    assert (corners(out / "fit.obj") - corners(survey)).abs().max() < 1
    assert facts(out)["chamfer"] < 0.5
    # A start of another origin is left where it is by steps next to nothing.
    ball.translated(at + 3).save(start)
    steps = ["--init", start, "--steps", 1, "--lr", 1e-6]
    assert run("fit", survey, "-o", out, *SMALL[:4], "--quiet", *steps) == 0
    assert (corners(out / "fit.obj") - corners(start)).abs().max() < 0.01


def test_what_is_said_of_photos_after_a_fit(capsys):
    """Contradictions, half-seen surfaces, crumbs and blur; nothing of what is well."""
    well, bad = {"crumbs": 0, "parts": 1}, {"crumbs": 3, "parts": 4}
    assert photos.warnings_of(0.97, 0.95, well, [], 9, from_hull=True) == []
    lacks = [("3.jpg", 0.03), ("0.jpg", 0.02)]
    first, second, lost, third = photos.warnings_of(0.74, 0.53, bad, lacks, 9, from_hull=True)
    assert first.startswith("photos and cameras contradict each other: a mean IoU of 0.74 says")
    assert second.startswith("two photos or more show only 53% of the surface")
    assert "2 of 9 photos show parts that the mesh does not have, up to 3.0%" in lost
    assert "3.jpg, 0.jpg. What moved" in lost
    assert third.startswith("the mesh has 4 parts, 3 of them crumbs")
    assert len(photos.warnings_of(0.74, 0.95, well, [], 9, from_hull=False)) == 0

    ball, crumb = icosphere(2), icosphere(1).scaled(0.06).translated(torch.tensor([1.3, 0, 0]))
    faces = torch.cat([ball.faces, crumb.faces + len(ball.vertices)])
    both = Mesh(torch.cat([ball.vertices, crumb.vertices]), faces)
    camera = look_at(4.0, 10.0, [0.0, 90.0], 50.0)
    args, masks = (
        SimpleNamespace(quiet=False, texture_size=None, exposure=None, light="auto"),
        visual.silhouettes(ball, camera, 160),
    )
    seen = visual.silhouettes(both, camera, 160)
    names = ("a.jpg", "b.jpg")
    result = FitResult(both, {"iou": 0.5}, (), (), FitSettings(), None)
    found, facts = photos.without_crumbs(args, result, Views(masks, None, camera, names))
    assert found.mesh.face_counts == ball.face_counts
    assert found.metrics["iou"] == pytest.approx(1)
    assert facts["parts"] == 1
    assert facts["area"] == pytest.approx(0.06**2, rel=0.1)
    assert "removed 1 small part of the mesh beside the object, 0.3" in capsys.readouterr().err
    wanted = photos.without_crumbs(args, result, Views(seen, None, camera, names))
    assert wanted == (result, None)  # masks show it

    # An arm that some photos show and the mesh has not; and masks that are a pixel too wide.
    camera = look_at(4.0, 10.0, torch.arange(6) * 60.0, 50.0)
    names = tuple(f"{i}.jpg" for i in range(6))
    whole = visual.silhouettes(ball, camera, 120)
    arms, wide = whole.clone(), torch.nn.functional.max_pool2d(whole, 3, 1, 1)
    arms[[0, 2, 5], 57:63, 100:120] = 1
    lacks = photos.lacking(ball, Views(arms, None, camera, names))
    assert {name for name, _ in lacks} == {"0.jpg", "2.jpg", "5.jpg"}
    gone = ((arms - whole).clamp(min=0) > 0.5).sum((1, 2))[0] / (arms[0] > 0.5).sum()
    assert lacks[0][1] == pytest.approx(float(gone), rel=0.25)
    arms[5] = whole[5]
    assert photos.lacking(ball, Views(arms, None, camera, names)) == []  # too few
    assert photos.lacking(ball, Views(wide, None, camera, names)) == []

    colors = ColorResult(ball, torch.ones(2, 3), torch.ones(2), 1.0, torch.tensor([1.0, 0.1]))
    stages = SimpleNamespace(run=lambda *given, **options: colors)
    views = Views(masks, None, camera, names)
    assert photos.colored(args, ball, views, "texture", stages) is colors
    said = capsys.readouterr().err
    assert "hardly count for the colours, because they are blurred: 1.jpg" in said


def test_fit_saves_a_textured_start_beside_files_of_others(tmp_path, box):
    uv = torch.tensor([[0.0, 0], [1, 0], [1, 1]])
    start = icosphere(1).scaled(20.0).translated(torch.tensor([50.0, 0, -90.0]))
    face_uvs = torch.arange(3).repeat(len(start.faces), 1)
    start.with_uvs(uv, face_uvs).with_texture(torch.zeros(2, 2, 3)).save(tmp_path / "start.obj")
    out = tmp_path / "out"
    out.mkdir()
    (out / "fit.png").write_text("mine")
    for _ in range(2):
        start_from = ["--init", tmp_path / "start.obj"]
        assert run("fit", box, "-o", out, *start_from, *SMALL[:4], "--steps", 1, "--quiet") == 0
        assert names(out) == {"fit.png", "fit-1.png", "fit.mtl", *RESULTS}
    assert (out / "fit.png").read_text() == "mine"
    fitted = Mesh.load(out / "fit.obj")
    assert fitted.texture is not None
    assert torch.equal(fitted.faces, start.faces)


def interrupt_after(monkeypatch, step):
    """SIGTERM inside the optimiser, after some steps."""
    real = Job.step

    def stop(self, state, seconds):
        if state.step == step:
            signal.raise_signal(signal.SIGTERM)
        return real(self, state, seconds)

    monkeypatch.setattr(Job, "step", stop)


def test_interrupted_fit_goes_on(box, tmp_path, monkeypatch, capsys):
    """With a preview on the way, as without an interruption; and with more steps after its end."""
    whole, out = tmp_path / "whole", tmp_path / "out"
    command = ["fit", box, *SMALL]
    assert run(*command, "-o", whole) == 0
    monkeypatch.setattr(progress, "PREVIEW_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 7)
        assert run(*command, "-o", out) == 130
    assert "after step 7 of 12; the same command with --resume goes on" in capsys.readouterr().err
    assert names(out) == {"checkpoint.pt", "progress.json", "preview.png"}
    with Image.open(out / "preview.png") as picture:
        assert picture.width >= 420
    partial = facts(out, "progress.json")
    assert partial["finished"] is False
    assert partial["step"] == len(partial["history"]) == 7
    assert FitState.load(out / "checkpoint.pt").step == 7
    # Other settings than before are refused, and nothing is lost by trying.
    for more, said in ((["--lr", "0.2"], "resume with the same settings"),
                       (["--steps", 5], "has 7 steps, more than the 5 asked for")):  # fmt: skip
        assert said in refused(capsys, *command, "-o", out, "--resume", *more)
    assert run(*command, "-o", out, "--resume") == 0
    assert names(out) == RESULTS
    assert (out / "fit.obj").read_bytes() == (whole / "fit.obj").read_bytes()
    for more, said in ((["--image-size", 12], "of other masks, cameras or start"),
                       (["--dist", "cauchy"], "with dist = ")):  # fmt: skip
        assert said in refused(capsys, *command, "-o", out, "--resume", *more)
    a, b = facts(out), facts(whole)
    assert a["history"] == b["history"]
    assert a["iou_per_view"] == b["iou_per_view"]
    assert (out / "fit.gif").read_bytes() == (whole / "fit.gif").read_bytes()
    for name in ("none", "fit.gif"):  # what is missing is written again
        (out / name).unlink(missing_ok=True)
        assert run(*command, "-o", out, "--resume") == 0
        assert (facts(out) == a) is (name == "none")
        assert {**facts(out), "seconds": None} == {**a, "seconds": None}
        assert names(out) == RESULTS
    said = refused(capsys, *command, "-o", out, "--resume", "--max-megapixels", 99)
    assert "is finished, with 12 steps; give --steps a larger number" in said
    assert run(*command, "-o", out, "--resume", "--steps", 14) == 0
    scales = [entry["scale"] for entry in facts(out)["history"]]
    assert scales[11:] == pytest.approx([0.05 * 2 / 16] * 3)  # the schedule had come to its end
    (out / "checkpoint.pt").write_bytes(b"hello")
    assert "is no checkpoint of a fit" in refused(capsys, *command, "-o", out, "--resume")


@pytest.mark.every
def test_refinements_and_colors_go_on_where_they_were(tmp_path, monkeypatch, capsys):
    """Interrupted in each stage in turn; none that is finished is done again."""
    monkeypatch.setattr(refine_cameras, "_BLURS", (3.0, 0.7))
    monkeypatch.setattr(refine_shape, "EVERY", 10)
    monkeypatch.setattr(refine_shape, "LEAST_KNOWN", 0.0)  # the photos are tiny
    monkeypatch.setattr(refine_shape, "MOST_WORSE", float("inf"))
    for module in (refine_cameras, agreement):
        monkeypatch.setattr(module, "_CELLS", 32)
    save_photos(tmp_path / "photos")
    whole, out = tmp_path / "whole", tmp_path / "out"
    options = ["--init", "hull", "--steps", 4, "--colors", "vertex", "--refine", "cameras"]
    command = ["fit", tmp_path / "photos", *options, "--quiet"]
    called = []

    def counted(owner, name, stage):
        real = getattr(owner, name)

        @functools.wraps(real)
        def call(*args, **kwargs):
            called.append(stage)
            if called.count(stage) == stops.get(stage):
                raise KeyboardInterrupt
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    counted(refine_cameras, "Agreement", "cameras")
    counted(Job, "step", "fit")
    counted(refine_shape._Refinement, "stepped", "refine")
    counted(photos.fitting, "fit_colors", "colors")
    counted(visual, "gif", "pictures")
    stops = {}
    assert run(*command, "-o", whole) == 0
    wanted = {stage: called.count(stage) for stage in called}
    assert wanted["cameras"] == 4
    assert wanted["refine"] == 2
    called.clear()
    capsys.readouterr()
    kept = []
    for stage, number in (
        ("cameras", 3), ("refine", 2), ("colors", 1), ("pictures", 1)
    ):  # fmt: skip
        stops = {stage: number}
        assert run(*command, "-o", out, *(["--resume"] if kept else [])) == 130
        assert "the same command with --resume goes on" in capsys.readouterr().err
        kept.append({path.name for path in out.iterdir() if path.suffix == ".pt"})
    shaped = {"cameras.pt", "checkpoint.pt", "refine.pt"}
    assert kept == [{"cameras.pt"}, shaped, shaped, {*shaped, "colors.pt"}]
    stops = {}
    assert run(*command, "-o", out, "--resume") == 0
    # What was interrupted was called once more, but nothing else.
    once_more = {stage: wanted[stage] + (stage != "fit") for stage in wanted}
    assert {stage: called.count(stage) for stage in called} == once_more
    assert names(out) == names(whole)
    for name in ("fit.ply", "fit.obj", "cameras.json"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    a, b = ({**facts(folder), "seconds": None} for folder in (out, whole))
    assert a == b
    (out / "fit.ply").unlink()  # and written again
    assert run(*command, "-o", out, "--resume") == 0
    assert (out / "fit.ply").read_bytes() == (whole / "fit.ply").read_bytes()
    said = a["refine"]["rgb"]
    assert set(said) == {"improved", "psnr", "iou", "moved", "finished", "reason", "known"}
    assert said["improved"] == (said["moved"] > 0) == (said["reason"] == "")
    # More steps: another shape, and so other colours, of the same cameras.
    called.clear()
    assert run(*command, "-o", out, "--resume", "--steps", 5) == 0
    assert set(called) == {"fit", "refine", "colors", "pictures"}
    # Another photo: all is made anew, and nothing said about steps.
    photo = sorted((tmp_path / "photos").glob("**/*.png"))[0]
    os.utime(photo, ns=(1, 1))
    assert run(*command, "-o", out, "--resume") == 0
    assert "have changed since: all is made anew" in capsys.readouterr().err
    assert (out / "fit.ply").read_bytes() == (whole / "fit.ply").read_bytes()


@pytest.fixture
def resumed(tmp_path):
    """What a command with --resume, of the photos in a folder, finds in another one."""
    (tmp_path / "out").mkdir()
    args = Fit(target=str(tmp_path), output=str(tmp_path / "out"), settings=FitSettings())
    return lambda **more: Run(replace(args, **{"resume": True, **more}), tmp_path)


def test_what_was_made_of_other_photos_or_options_is_not_used(resumed, tmp_path, capsys):
    photo, checkpoint = tmp_path / "a.jpg", tmp_path / "out/checkpoint.pt"
    photo.write_text("one")
    with pytest.raises(
        ValueError, match=r"no checkpoint\.pt in .*out; leave --resume out to start"
    ):
        resumed()
    run = resumed(resume=False)
    for what in ("frames", "masks"):
        assert not run.uses(what, True, 60)
        run.made()
    checkpoint.touch()
    run = resumed()
    assert run.uses("frames", True, 60)
    assert not run.uses("cameras", False)  # which are not there, and nothing is said
    assert run.resume
    assert not run.uses("masks", True, 61)
    assert capsys.readouterr().err == (
        "gendr: the options of masks have changed since: all from masks on is made anew\n"
    )
    run.made()
    assert not checkpoint.exists()  # it was of the masks before
    photo.write_text("another")
    assert not resumed().uses("frames", True, 60)
    said = "photos, or files beside them, have changed since: all is made anew"
    assert said in capsys.readouterr().err
    (tmp_path / "out" / SOURCES).write_text("damaged")
    run = resumed()
    assert run.uses("frames", True, 60)
    assert run.uses("masks", True, 60)
    assert capsys.readouterr().err == ""


def test_masks_that_are_new_leave_the_cameras(resumed, tmp_path, capsys):
    (tmp_path / "a.jpg").write_text("one")
    run = resumed(resume=False)
    assert not run.uses("cameras", False)
    run.made()
    run.finish([])
    (tmp_path / "out/metrics.json").touch()
    assert resumed().is_finished
    (tmp_path / "masks").mkdir()
    (tmp_path / "masks/a.png").write_text("mask")
    run = resumed()
    assert not run.is_finished
    assert run.uses("cameras", True)
    run.compare_files()
    assert not run.resume
    said = "gendr: masks, or files that options name, have changed since: all after the cameras"
    assert said in capsys.readouterr().err
    assert not run.uses("masks", True)


def test_results_around_their_photos(tmp_path):
    """The folder of results may hold that of photos, which count all the same."""
    photo = tmp_path / "images/left/a.jpg"
    photo.parent.mkdir(parents=True)
    photo.write_text("one")
    args = Fit(target=str(tmp_path / "images"), output=str(tmp_path), settings=FitSettings())
    Run(args, tmp_path / "images").begin()
    args = replace(args, resume=True)
    assert Run(args, tmp_path / "images").resume
    photo.write_text("another")
    assert not Run(args, tmp_path / "images").resume


def test_what_was_not_made_again_of_other_photos_is_not_used(resumed, tmp_path, capsys):
    (tmp_path / "a.jpg").write_text("one")
    run = resumed(resume=False)
    for what in ("cameras", "masks"):
        assert not run.uses(what, False)
        run.made()
    run.finish([])
    (tmp_path / "a.jpg").write_text("another")
    run = resumed(resume=False)
    assert not run.uses("cameras", True)
    run.made()
    assert not run.uses("masks", True)  # none are found, or the process is killed meanwhile
    said = "gendr: masks there may be of other photos: all from masks on is made anew\n"
    for known in (False, True):
        run = resumed()
        assert run.uses("cameras", True)
        assert not run.uses("masks", True)
        assert run.resume == known
        assert capsys.readouterr().err == ("" if known else said)
        run.begin()  # of something that needs none, as none are found
    run = resumed()
    assert not run.uses("masks", True)
    run.made()
    assert resumed().uses("masks", True)


def test_a_run_is_finished_once_all_its_results_are_there(resumed, tmp_path):
    results = [tmp_path / "out/fit.obj", tmp_path / "out/fit.gif"]
    for path in (*results, tmp_path / "out" / METRICS):
        path.touch()
    assert not resumed(resume=False).has_results
    resumed(resume=False).finish(results)
    assert resumed().is_finished
    assert resumed(quiet=True, threads=1).is_finished
    assert not resumed(resume=False).is_finished
    assert resumed(init="hull").has_results
    assert not resumed(init="hull").is_finished
    record = tmp_path / "out" / SOURCES
    before = record.read_text()
    for damage in ('{"results": 3}', '{"results": {"asked": "a"}}', '{"results": {"files": []}}'):
        record.write_text(damage)
        assert not resumed().is_finished, damage
    record.write_text(before)
    resumed().begin()
    assert not resumed().has_results  # others are on their way
    resumed().finish(results)
    for path in (tmp_path / "out" / METRICS, results[0]):
        path.rename(path.with_suffix(".gone"))
        assert not resumed().has_results
        path.with_suffix(".gone").rename(path)
    assert resumed().has_results


def test_what_lies_beside_photos_and_is_none_of_them_changes_nothing(resumed, tmp_path):
    def changes(name):
        resumed(resume=False).begin()
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("new")
        run = resumed()
        run.compare_files()
        return not run.resume

    assert changes("images/a.jpg")
    for name in (".DS_Store", "images/Thumbs.db", ".thumbnails/a.jpg", "out/fit.obj"):
        assert not changes(name), name
    # Other fits in the same folder.
    for file in (f"other/{SOURCES}", "others/checkpoint.pt"):
        changes(file)
        assert not changes(f"{file.split('/')[0]}/preview.png")
    for name in ("images/b.jpg", "masks/a.png", "transforms.json"):
        assert changes(name), name
    deep = tmp_path / "far/below/the/photo.png"
    deep.parent.mkdir(parents=True)
    frames = [{"file_path": "far/below/the/photo"}]
    (tmp_path / "transforms.json").write_text(json.dumps({"frames": frames}))
    assert changes("far/below/the/photo.png")


def test_a_mesh_and_its_materials_are_looked_at(tmp_path, capsys):
    mesh, out = tmp_path / "box.obj", tmp_path / "out"
    out.mkdir()
    mesh.write_text("mtllib a box.mtl\r\nv 0 0 0\n")
    (tmp_path / "a box.mtl").write_text("newmtl a")
    args = Fit(target=str(mesh), output=str(out), settings=FitSettings())
    for file in (tmp_path / "a box.mtl", mesh):
        Run(args, mesh).begin()
        assert Run(replace(args, resume=True), mesh).resume
        file.write_text(file.read_text() + "\nnew")
        assert not Run(replace(args, resume=True), mesh).resume
        said = "gendr: box.obj, or a file beside it, has changed since: all is made anew\n"
        assert capsys.readouterr().err == said


def test_a_stage_of_other_input_is_not_used(tmp_path, monkeypatch):
    path, given, options = tmp_path / "a.pt", (torch.arange(3.0),), {"size": 3}

    def file(given=given, options=options):
        return StageFile(path, "a stage of a fit", given, options)

    assert file().read() is None
    file().write({"n": 1}, done=True)
    assert file().read() == {"done": True, "values": {"n": 1}}
    assert file(options={"size": 4}).read() is None
    assert file((torch.arange(4.0),)).read() is None
    with monkeypatch.context() as patch:
        patch.setattr("gendr.cli.resume.__version__", "0.0.1")
        assert file().read() is None
    path.write_text("hello")
    with pytest.raises(ValueError, match=r"a\.pt is no checkpoint of a stage of a fit"):
        file().read()


@pytest.mark.rotating(4, group="fits")
def test_a_fit_that_ends_in_time(box, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    monkeypatch.setattr(photos, "NEARLY", -1e9)  # however fast the machine is
    command = ["fit", box, "-o", out, "--image-size", 16, "--views", 4, "--init", "hull"]
    assert run(*command, "--budget", "0.3s") == 0
    seconds, history = facts(out)["seconds"]["optimisation"], facts(out)["history"]
    assert fit.STEPS_ALONE * 0.3 <= seconds < 30  # a step, and a slow machine, more
    assert facts(out)["settings"]["budget"] == 0.3
    assert "s more than the budget" in capsys.readouterr().out
    scales = [entry["scale"] for entry in history]
    assert scales == sorted(scales, reverse=True)
    assert scales[-1] == pytest.approx(0.02 * 2 / 16)  # the schedule ends with the time
    assert "iou" in history[-1]
    capsys.readouterr()
    assert "is finished, with" in refused(capsys, *command, "--budget", "0.2s", "--resume")
    assert run(*command, "--budget", f"{seconds / 0.9 + 0.2}", "--resume", "--quiet") == 0
    more = facts(out)["history"]
    assert len(more) > len(history)
    assert more[: len(history)] == history


@pytest.mark.rotating(4, group="fits")
def test_earlier_results_stay_until_all_new_ones_are_there(box, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    command = ["fit", box, "-o", out, *SMALL, "--steps", 2]
    out.mkdir()
    with locked(out):
        said = refused(capsys, *command)
        assert f"another process (pid {os.getpid()}) is writing to {out}" in said
    assert run(*command, "--seed", 1) == 0
    (out / "fit.glb").write_text("of an earlier fit, with colours")
    before = {name: (out / name).read_bytes() for name in RESULTS - {"checkpoint.pt"}}

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    for stop in (
        lambda patch: interrupt_after(patch, 1),
        lambda patch: patch.setattr(visual, "gif", full),
        lambda patch: patch.setattr(os, "fsync", full),
    ):
        with monkeypatch.context() as patch:
            stop(patch)
            assert run(*command) in (2, 130)
        assert names(out) <= {*RESULTS, "progress.json", "fit.glb"}
        assert {name: (out / name).read_bytes() for name in before} == before
    assert f"{SOURCES}: No space left on device" in capsys.readouterr().err
    # All steps are done, but their results could not be written.
    assert run(*command, "--resume") == 0
    assert names(out) == RESULTS
    assert facts(out)["seed"] == 0


@pytest.mark.every
@pytest.mark.slow
def test_demo_reaches_its_goal(tmp_path):
    assert run("fit", ROOT / "assets" / "airplane.obj", "-o", tmp_path, "--quiet") == 0
    metrics = facts(tmp_path)
    assert metrics["iou"] >= 0.85
    assert metrics["views"] == 24
    assert metrics["image_size"] == [128, 128]
    assert len(metrics["history"]) == 60
    assert metrics["chamfer_relative"] < 0.01


# -- render ----------------------------------------------------------------------------------------


def test_render_picture(box, tmp_path, capsys):
    path = tmp_path / "a" / "box.png"
    assert run("render", box, "-o", path, "--size", 40, "--azimuth", 0, 90, "-45") == 0
    assert str(path) in capsys.readouterr().out
    with Image.open(path) as image:
        assert image.size == (120, 40)
        assert image.getpixel((0, 0)) == (255, 255, 255)
        assert image.getpixel((20, 20)) != (255, 255, 255)


def test_render_turntable(box, tmp_path):
    path = tmp_path / "box.gif"
    options = ["--size", 32, "--frames", 5, "--background", "#102030", "--quiet"]
    assert run("render", box, "-o", path, *options, "--azimuth", 0, 90) == 2
    assert run("render", box, "-o", path.with_suffix(".png"), *options) == 2
    assert run("render", box, "-o", path, *options) == 0
    assert [p.name for p in path.parent.iterdir() if p != box] == ["box.gif"]
    with Image.open(path) as gif:
        assert gif.n_frames == 5
        corner = gif.convert("RGB").getpixel((0, 0))
        assert corner == (16, 32, 48)


def test_render_shows_textures(tmp_path):
    for lighting in ("lambert", "phong", "none"):
        mesh = cube(1)
        uvs = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        red = torch.tensor([0.9, 0.1, 0.1]).expand(4, 4, 3)
        mesh = Mesh(mesh.vertices, mesh.faces, uvs=uvs, face_uvs=mesh.faces % 3, texture=red)
        mesh.save(tmp_path / "red.obj")
        out = tmp_path / "picture.png"
        options = ["--size", 24, "--lighting", lighting, "--background", "transparent", "--quiet"]
        assert run("render", tmp_path / "red.obj", "-o", out, *options) == 0
        with Image.open(out) as image:
            assert image.mode == "RGBA"
            r, g, b, a = image.getpixel((12, 12))
            assert a == 255
            assert r > 2 * max(g, b)
            assert image.getpixel((0, 0))[3] == 0
            if lighting == "none":
                assert (r, g, b) == (230, 26, 26)


def test_render_averages_fine_textures(tmp_path, capsys):
    """And keeps them: a picture must not replace a texture of its mesh."""
    mesh, noise = cube(1), torch.Generator().manual_seed(0)
    uvs = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    fine = torch.rand(256, 256, 1, generator=noise).repeat(1, 1, 3)
    mesh = Mesh(mesh.vertices, mesh.faces, uvs=uvs, face_uvs=mesh.faces % 3, texture=fine)
    mesh.save(tmp_path / "fine.obj")
    contrasts = []
    for k, more in enumerate(([], ["--mipmaps"])):
        out = tmp_path / f"{k}.png"
        options = ["--size", 24, "--lighting", "none", "--quiet", *more]
        assert run("render", tmp_path / "fine.obj", "-o", out, *options) == 0
        with Image.open(out) as image:
            low, high = image.convert("L").crop((9, 9, 15, 15)).getextrema()
        contrasts.append(high - low)
    assert contrasts[0] > 60
    assert contrasts[1] < 0.5 * contrasts[0]
    with pytest.raises(UserWarning, match="--mipmaps average textures, and this mesh has none"):
        run("render", "chair", "-o", tmp_path / "0.png", "--size", 24, "--mipmaps", "--quiet")
    before = (tmp_path / "fine.png").read_bytes()
    said = refused(capsys, "render", tmp_path / "fine.obj", "-o", tmp_path / "fine.png")
    assert "is a texture of" in said
    assert (tmp_path / "fine.png").read_bytes() == before
    for _ in range(2):  # another name, though part of it
        picture = tmp_path / "ine.png"
        assert run("render", tmp_path / "fine.obj", "-o", picture, "--size", 8, "--quiet") == 0


def test_soft_rendering_is_soft(box, tmp_path):
    hard, soft = tmp_path / "hard.png", tmp_path / "soft.png"
    options = ["--size", 48, "--background", "transparent", "--quiet"]
    assert run("render", box, "-o", hard, *options) == 0
    assert run("render", box, "-o", soft, "--cutoff", 0, *options) == 0
    assert soft.read_bytes() != hard.read_bytes()
    dist = ["--dist", "gaussian", "--tconorm", "yager(p=2)", "--scale", "3px"]
    assert run("render", box, "-o", soft, *dist, *options) == 0
    partial = []
    for path in (hard, soft):
        with Image.open(path) as image:
            histogram = image.getchannel("A").histogram()
            partial.append(sum(histogram[1:255]))
    assert partial[1] > 3 * partial[0]
    # One-sided distributions leave narrow faces blank, which a line says.
    for dist, says in (("levy", True), ("levy.centred", False)):
        with pytest.raises(UserWarning, match="covers is blank") if says else nullcontext():
            assert run("render", box, "-o", soft, "--dist", dist, "--cutoff", 0.4, *options) == 0
    # On white too: a soft edge fades from the colour of the mesh to the paper.
    dist = ["--dist", "gaussian", "--tconorm", "yager(p=2)", "--scale", "3px"]
    assert run("render", box, "-o", soft, *dist, "--size", 48, "--quiet") == 0
    with Image.open(soft) as image:
        grey = image.convert("L")
        assert grey.getpixel((0, 0)) > 250
        assert grey.getpixel((24, 24)) < 235


def test_cameras_see_all_of_a_mesh():
    mesh = cube(1).scaled(70.0).translated(torch.tensor([500.0, -3, 9]))
    for fov in (10.0, 30.0, 120.0):
        camera = visual.orbit(mesh, [0, 50, 111], 20.0, fov, visual.CLOSE_FILL)
        xy, depth = camera.project(mesh.vertices)
        assert 0.5 < float(xy.abs().max()) < 1
        near, far = visual.depths(mesh, camera)
        assert near < float(depth.min()) <= float(depth.max()) < far
    unit = icosphere(2).scaled(0.5)
    there = look_at(2.732, 30.0, torch.tensor([0.0, 15.0]))
    assert torch.allclose(visual.orbit(unit, [0, 15]).eye, there.eye, atol=1e-5)


@for_each(distance=[4.0, 0.9])  # around it, and inside of it
def test_large_meshes_are_drawn_view_by_view_and_look_the_same(monkeypatch, distance):
    mesh = icosphere(3)
    paint = torch.rand(len(mesh.faces), 3, generator=torch.Generator().manual_seed(0))
    mesh = mesh.with_face_colors(paint).with_vertex_colors(mesh.vertices.abs())
    camera = look_at(distance, 20.0, torch.tensor([0.0, 100.0]))
    looks = [{"lighting": "lambert"}, {"lighting": "phong"}, {"lighting": "none"}]
    together = [visual.render_views(mesh, camera, (20, 31), look) for look in looks]
    faces = []
    real = Renderer.forward

    def forward(self, mesh, camera, *args):
        faces.append(len(mesh.faces) * len(camera))
        return real(self, mesh, camera, *args)

    monkeypatch.setattr(Renderer, "forward", forward)
    monkeypatch.setattr(visual, "FACES_AT_ONCE", 1)
    for look, (rgb, alpha) in zip(looks, together, strict=True):
        one_by_one = visual.render_views(mesh, camera, (20, 31), look)
        assert torch.equal(one_by_one[0], rgb)
        assert torch.equal(one_by_one[1], alpha)
    assert len(faces) == 2 * len(looks)
    assert max(faces) == len(mesh.faces)
    if distance > 1:
        assert 0 < min(faces) < len(mesh.faces)  # those between the pixels are left out


def test_silhouettes_are_drawn_together_as_far_as_memory_goes(monkeypatch):
    mesh, camera = icosphere(1), look_at(4.0, 20.0, torch.arange(5) * 70.0)
    together = visual.silhouettes(mesh, camera, (20, 31))
    batches = []
    real = Renderer.forward

    def forward(self, mesh, camera, *args):
        batches.append(len(camera))
        return real(self, mesh, camera, *args)

    monkeypatch.setattr(Renderer, "forward", forward)
    monkeypatch.setattr(visual, "PIXELS_AT_ONCE", 2 * 20 * 31)
    assert torch.equal(visual.silhouettes(mesh, camera, (20, 31)), together)
    assert batches == [2, 2, 1]


def test_the_size_of_a_mesh_is_that_of_its_faces():
    mesh = cube(1)
    loose = Mesh(torch.cat([mesh.vertices, torch.full((1, 3), 1e4)]), mesh.faces)
    assert visual.diagonal(loose) == pytest.approx(visual.diagonal(mesh)) == pytest.approx(12**0.5)
    assert visual.around(loose)[1] == visual.around(mesh)[1]


def test_closeups_cut_images_as_their_cameras_do():
    for size in ((40, 40), (30, 50), (50, 30)):
        mesh = icosphere(3).scaled(0.2)
        mesh = mesh.with_vertices(mesh.vertices * torch.tensor([1.0, 0.7, 1.0]))
        camera = look_at(2.7, torch.tensor([10.0, 40.0]), 0.0, at=torch.tensor([0.2, 0.3, 0.0]))
        masks = Renderer(size, "heaviside", "max")(mesh, camera).alpha
        window = visual.Closeup.of(masks, 120)
        seen = Renderer(window.size, "heaviside", "max")(mesh, window.camera(camera)).alpha
        for i in range(2):
            cut = torch.as_tensor(window.cut(masks[i], i)) > 0.5
            both, either = (cut & (seen[i] > 0.5)).sum(), (cut | (seen[i] > 0.5)).sum()
            assert float(both / either) > 0.85
            assert float(cut.double().mean()) > 0.25


# -- list and help ---------------------------------------------------------------------------------


def test_list_names_everything(capsys):
    assert run("list") == 0
    text = capsys.readouterr().out
    for name, dist in gendr.distributions.standard_distributions().items():
        assert name in text
        assert dist.formula in text
    for name in gendr.tnorms.names():
        assert name in text
        assert gendr.tnorms.family(name).formula in text
    for name in gendr.backends():
        assert name in text
    assert all(len(line) <= 100 for line in text.splitlines())
    for what in ("distributions", "tconorms", "backends"):
        assert run("list", what) == 0
        assert capsys.readouterr().out.strip() in text


def test_examples_of_the_help_parse(capsys):
    parser, texts = build_parser(), []
    for command in ("", "fit", "pose", "render", "splat", "logic", "logic train", "list"):
        assert run(*command.split(), "--help") == 0
        texts += capsys.readouterr().out.splitlines()
    examples = [line.split("   ")[0] for line in texts if line.startswith("  gendr ")]
    examples = [line for line in examples if "..." not in line]
    assert len(examples) >= 25
    for line in examples:
        words = shlex.split(line)[1:]
        assert parser.parse_args(words).command == words[0]


def test_built_in_meshes_give_way_to_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run("render", "chair", "-o", "chair.png", "--size", 32, "--quiet") == 0
    with Image.open("chair.png") as image:
        assert len(image.getcolors()) > 10
    Path("chair").write_text("mine")
    assert "must end in one of" in refused(capsys, "render", "chair", "-o", "chair.png")


@pytest.mark.parametrize(
    ("module", "says"), [("gendr.cli.parser", ""), ("numpy.matrixlib", "waits\n")]
)
def test_ctrl_c_while_modules_are_imported_ends_the_command(module, says):
    """PyTorch would go on without NumPy, and abort where it imports by itself."""
    program = (
        "import os, signal, sys\n"
        # What runs in the background of a shell may have been told to ignore it.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Press:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            sys.meta_path.remove(self)\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "            print('waits', file=sys.stderr)\n"
        "sys.meta_path.insert(0, Press())\n"
        "from gendr.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", program, "fit", "nothing.obj"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # nothing loaded
    assert (done.returncode, done.stderr) == (130, f"{says}gendr: stopped\n")


# -- bad input -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    """Every kind of bad file, by name; the test that uses them sees that they stay as they are."""
    tmp_path = tmp_path_factory.mktemp("bad")
    save_box(tmp_path / "box.ply")
    (tmp_path / "text.obj").write_text("this is no mesh\n")
    (tmp_path / "points.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\n")
    (tmp_path / "nan.obj").write_text("v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    (tmp_path / "point.obj").write_text("v 1 0 0\nv 1 0 0\nv 1 0 0\nf 1 2 3\n")
    (tmp_path / "huge.obj").write_text("v 0 0 0\nv 1e25 0 0\nv 0 1e25 0\nf 1 2 3\n")
    (tmp_path / "walk.mp4").write_bytes(b"no video at all")
    (tmp_path / "junk.glb").write_bytes(b"\x00\xff" * 40)
    (tmp_path / "model.docx").write_text("hello")
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "checkpoint.pt").write_text("of another program")
    save_box(tmp_path / "fit.obj")
    noposes = tmp_path / "noposes"
    noposes.mkdir()
    Image.new("L", (8, 8), 255).save(noposes / "a.png")
    for name in ("broken", "opaque", "pose"):
        save_photos(tmp_path / name)
    save_photos(tmp_path / "grey", grey=True)
    scene = tmp_path / "scene" / METRICS  # of which nothing is known but that it is finished
    scene.parent.mkdir()
    scene.write_text("{}")
    grey = tmp_path / "grey"
    args = Fit(target=str(grey), output=str(scene.parent), scene=True, settings=FitSettings())
    Run(args, grey).finish([])
    (tmp_path / "broken" / "transforms.json").write_text("{ frames")
    for path in (tmp_path / "opaque" / "images").iterdir():
        with Image.open(path) as image:
            noise = np.random.default_rng(0).integers(0, 256, (image.height, image.width, 3))
        Image.fromarray(noise.astype(np.uint8)).save(path)
    file = tmp_path / "pose" / "transforms.json"
    meta = json.loads(file.read_text())
    meta["frames"][1]["transform_matrix"][0][0] = float("nan")
    file.write_text(json.dumps(meta))
    empty = tmp_path / "empty"
    save_views(empty, torch.zeros(2, 8, 8), look_at(2.0, 0.0, torch.tensor([0.0, 90.0])))
    return tmp_path


BAD_INPUT = [
    ("", "COMMAND"),
    ("fti box.ply", "unknown COMMAND 'fti'; allowed: fit, "),
    ("list tconorm", "unknown WHAT 'tconorm'; allowed: tconorms"),
    ("fit", "required: TARGET"),
    ("fit box.ply --stepz 5", "--stepz"),
    ("fit nothing.obj", "no such file or folder: nothing.obj; built in: chair"),
    ("fit text.obj", "text.obj"),
    ("fit junk.glb", "no readable GLB file"),
    ("fit model.docx", "must end in one of"),
    ("fit points.obj", "holds no faces"),
    ("fit nan.obj", "damaged"),
    ("fit point.obj", "all its vertices coincide"),
    ("fit noposes", "cameras need at least 2 photos, and noposes holds 1"),
    ("fit broken", "no JSON file"),
    ("fit opaque", "no mask"),
    ("fit pose", "NaN or inf"),
    ("fit empty", "all 2 masks are empty"),
    ("fit box.ply --dist logistc", "unknown distribution 'logistc'; the nearest: logistic"),
    ("fit box.ply --dist heaviside", "no gradient|without gradient"),
    ("fit box.ply --dist gamma(shape=-1)", "shape"),
    ("fit box.ply --tconorm yagr(p=2)", "unknown T-conorm 'yagr'; allowed: yager"),
    ("fit box.ply --tconorm yager", "yager needs a parameter, p > 0; write it like yager(p=2)"),
    ("fit box.ply --tconorm yager(p=-2)", "-2"),
    ("fit box.ply --scale -1", "scale must be > 0"),
    ("fit pose --views 12", "--views is for meshes, and pose is fitted to masks"),
    ("fit pose/transforms.json --elevation 30", "--elevation is for meshes, and pose"),
    ("fit box.ply --background white", "--background is for photos of an object, and box.ply is"),
    ("fit box.ply --texture-size 64", "--texture-size is for photos, and box.ply is a mesh"),
    ("fit box.ply --init sphere --edge 1", "--edge has no effect, as faces are kept without"),
    ("fit box.ply --init box.ply --subdivisions 2", "has no effect, as --init is box.ply, no"),
    ("fit box.ply --steps 5 --budget 9s", "--steps has no effect, as --budget is given"),
    ("fit grey --tolerance 0.2", "--tolerance has no effect, as no --background is given"),
    ("fit grey --texture-size 64", "--texture-size has no effect, as grey gets no colours"),
    ("fit grey -o grey/images", "-o grey/images is where grey is, which results would replace"),
    ("fit grey -o grey", "-o grey is where grey is, which results would replace"),
    ("fit fit.obj -o .", "-o . is where fit.obj is, which results would replace"),
    ("fit box.ply -o foreign", "foreign/checkpoint.pt is no checkpoint of a fit"),
    (
        "fit pose --scene --colors none --light camera",
        "--light has no effect, as pose gets no colours",
    ),
    ("fit pose --scene --no-remesh", "--no-remesh is for fits to silhouettes"),
    ("fit pose --scene --object", "--scene and --object contradict each other"),
    ("fit pose --scene --seed 1", "--seed is for fits to silhouettes, and pose is made as a scene"),
    # Before there are frames and cameras.
    ("fit walk.mp4 --scene --color-size 9", "--color-size is for photos of an object, and walk"),
    ("fit walk.mp4 --scene --frames 9 --colors vertex", "--colors vertex is not for scenes"),
    ("fit grey --resume -o scene", "no checkpoint.pt in scene; leave --resume out to start anew"),
    ("fit pose --scene --resume -o none", "no checkpoint.pt in none"),
    ("masks grey -o grey/images", "-o grey/images is where grey/images is"),
    ("cameras grey -o grey/images/000.png", "000.png: name a .json file"),
    ("cameras grey -o found", "-o found: name a .json file, as --cameras reads, or a folder"),
    ("splat pose --steps 5 --budget 9s", "--steps has no effect, as --budget is given"),
    ("splat pose --init a.npz --unit px", "--unit has no effect, as a.npz says it"),
    ("splat grey -o foreign", "foreign/checkpoint.pt is no checkpoint of"),
    ("pose box.ply grey/images -o grey/images", "-o grey/images is where grey/images is"),
    ("fit opaque --background blurple", "the name of a colour or #rrggbb, got 'blurple'"),
    ("fit box.ply --colors vertex", "--colors is for photos, and box.ply is a mesh"),
    ("fit grey --colors vertex", "--colors vertex needs photos, and grey is masks without"),
    ("fit pose --colors textur", "unknown KIND 'textur'; allowed: none, texture, vertex"),
    ("fit box.ply --refine cameras", "--refine is for photos of an object, and box.ply is a"),
    ("fit grey --shape photos", "--shape photos needs photos, and grey is masks without colours"),
    ("fit box.ply --scale 1cm", "1.5px"),
    ("fit box.ply --scale 1:2:3", "START:END"),
    ("fit box.ply --steps 0", "--steps: must be a whole number >= 1, got '0'"),
    ("fit box.ply --budget 2d", "--budget: must be a time > 0 such as 90s, 2m or 1h, got '2d'"),
    ("fit box.ply --lr nan", "--lr: must be > 0, got nan"),
    ("fit box.ply --elevation 120", "--elevation: must be between -90 and 90"),
    ("render box.ply -o a.png --azimuth nan", "--azimuth: must be finite, got nan"),
    ("view box.ply --port 99999", "--port: must be between 1 and 65535"),
    ("fit box.ply --subdivisions 9", "subdivisions must be <= 7"),
    ("fit box.ply --device gpu", "no device 'gpu' here; usable: cpu"),
    ("fit box.ply --backend cuda", "unknown backend 'cuda'"),
    ("fit box.ply --init points.obj", "holds no faces"),
    ("fit box.ply --init point.obj", "--init point.obj has no extent"),
    ("fit box.ply -o file", "cannot write to file"),
    ("fit box.ply -o none --resume", "no checkpoint.pt in none"),
    ("render noposes -o a.png", "is a folder"),
    ("render box.ply -o a.bmp", "must end in .png, .jpg, .jpeg, .gif, got 'a.bmp'"),
    ("render box.ply -o file/a.png", "cannot write to"),
    ("render box.ply -o a.png --background blurple", "background must be the name of a colour"),
    ("render box.ply -o a.gif --background transparent", "format with transparency '.gif'"),
    ("render box.ply -o a.png --lighting disco", "unknown KIND 'disco'"),
    ("render box.ply -o a.png --dist cauhcy", "the nearest: cauchy"),
    ("render box.ply -o a.png --scale 0", "for a hard edge use the distribution heaviside"),
    (
        "render huge.obj -o a.png",
        "within ±1e+18 in float32, got 1e+25; scale them down",
    ),
]


def test_bad_input_is_one_line_and_exit_code_2(bad, drawn, capsys, monkeypatch):
    monkeypatch.chdir(bad)
    before = {p for p in bad.rglob("*") if p.is_file()}
    for argv, text in drawn(BAD_INPUT, 3):
        said = refused(capsys, *argv.split())
        assert re.search(text if "|" in text else re.escape(text), said), (argv, said)
        # Nothing that only Python can say.
        assert not re.search(r"='|=True|=False|=None|\.to\(|dtype|use float64", said), argv
        assert {p for p in bad.rglob("*") if p.is_file()} == before, argv


def test_a_start_of_too_many_faces(box, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gendr.photos.fitting.shape.job.MOST_GIVEN", 10)
    said = refused(capsys, "fit", box, "--init", box, *SMALL[:4], "--quiet", "-o", tmp_path / "out")
    assert "init has 12 faces, and at most 10 are fitted as they are; simplify it, or let" in said
