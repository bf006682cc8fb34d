"""Cameras that are found: by COLMAP, upright, and at places that GPS knows."""

import json
import sys
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from itertools import combinations

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageOps
from PIL.PngImagePlugin import PngInfo

from gendr import look_at, look_from
from gendr._common.files import write_all
from gendr.cli import main
from gendr.cli.cameras import _line
from gendr.jobs.folders import SOURCES
from gendr.mesh import Mesh, axis_angle_to_matrix, icosphere
from gendr.mesh.images import Picture, open_image
from gendr.photos import load_points, load_views, save_views
from gendr.photos.camera_files.transforms import lens_of, list_frames, read_cameras
from gendr.photos.capture import cameras as module
from gendr.photos.capture import find_cameras
from gendr.photos.capture.cameras import _world, list_photos
from gendr.photos.capture.gps import metres, place_by_gps, read_fix
from gendr.photos.images import open_photo, read_orientation, read_size
from gendr.photos.splatting import load_photos
from gendr.photos.upright import edges_of, one_way, upwards, verticals
from gendr.rendering import Renderer

# -------------------------------------------------------------------------------------------------
# Cameras of photos that come without: found again, and said well where they are not


needs_pycolmap = pytest.mark.skipif(find_spec("pycolmap") is None, reason="needs pycolmap")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Photos of a stone with spots all over, and the cameras that took them."""
    root = tmp_path_factory.mktemp("photos")
    torch.manual_seed(1)
    ball = icosphere(4)
    vertices = ball.vertices * torch.tensor([0.8, 0.6, 0.7])
    vertices = vertices * (1 + 0.15 * (5 * vertices).sin().sum(-1, keepdim=True))
    stone = Mesh(vertices, ball.faces, face_colors=torch.rand(len(ball.faces), 3))
    camera = look_at(3.0, [15, 25] * 6, [12.0 * i for i in range(12)], 30.0)
    render = Renderer(image_size=320, dist="heaviside", lighting="none")
    with torch.no_grad():
        seen = render(stone, camera)
    save_views(root, seen.alpha, camera, rgb=seen.rgb)
    (root / "transforms.json").unlink()
    return root, camera


@pytest.mark.rotating(5, group="photos")
@needs_pycolmap
def test_cameras_are_found(folder, tmp_path, monkeypatch):
    """As of many photos, and of such of which none are fit to be the first two."""
    root, true = folder
    seen, pairs = [], []
    run = module._run

    def counted(work, features, *more):
        run(work, features, *more)
        pairs.append(module._rows(features, "two_view_geometries"))

    monkeypatch.setattr(module, "_run", counted)
    monkeypatch.setattr(module, "_ALL_PAIRS", 8)
    monkeypatch.setattr(module, "_PARTNERS", 4)
    monkeypatch.setattr(module, "_FIRST_PAIRS", ((170.0, 0.0), *module._FIRST_PAIRS))
    result = find_cameras(root, callback=lambda now: seen.append((now, now.stage)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert {stage for _, stage in seen} == {"features", "match", "place"}
    assert result.left_out == ()
    assert pairs[0] < 50  # of 66
    again = find_cameras(root)
    assert again.entries == result.entries
    np.testing.assert_array_equal(again.points, result.points)
    write_all(result.files(tmp_path / "a.json"))
    views = load_views(root, cameras=tmp_path / "a.json", dtype=torch.float64)
    assert len(views) == 12
    found = views.camera
    # The same but for the world, which one rotation, factor and shift takes to the true one.
    turns = found.rotation.mT @ true.rotation.double()
    u, _, v = torch.linalg.svd(turns.mean(0))
    left = (turns @ (u @ v).mT).diagonal(dim1=-2, dim2=-1).sum(-1)
    degrees = torch.rad2deg(((left - 1) / 2).clamp(max=1).acos())
    assert float(degrees.max()) < 0.5
    gaps = [torch.cdist(c.eye.double(), c.eye.double()) for c in (found, true)]
    part = gaps[0][gaps[1] > 0.5] / gaps[1][gaps[1] > 0.5]
    assert float(part.std() / part.mean()) < 0.01
    assert float(found.focal[0, 0] / true.focal[0, 0]) == pytest.approx(1, abs=0.03)
    # A world for people: the object in the middle, upright, at a distance that is always the same.
    assert float(found.eye.norm(dim=-1).quantile(0.5)) == pytest.approx(3, rel=1e-6)
    assert float(found.rotation[:, 1, 1].min()) > 0.7
    photos = load_photos(root, cameras=tmp_path / "a.json")
    assert 310 <= min(photos.image_size) <= 320  # what a lens bends over the border is cut off
    assert result.points.shape == result.colors.shape
    found_points = load_points(root, cameras=tmp_path / "a.json", dtype=torch.float64)
    assert found_points is not None
    points, colors = found_points
    np.testing.assert_array_equal(points, result.points)
    np.testing.assert_allclose(colors, result.colors, atol=0.5 / 255)
    assert load_points(root) is None
    (tmp_path / "a_points3D.txt").unlink()
    assert load_points(root, cameras=tmp_path / "a.json") is None
    assert len(result.points) > 100
    assert np.quantile(np.linalg.norm(result.points, axis=1), 0.95) < 1.3
    assert result.error < 1


@needs_pycolmap
def test_interrupted(folder):
    def stop(now):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find_cameras(folder[0], callback=stop)


@needs_pycolmap
@pytest.mark.rotating(5, group="photos")
def test_features_outlive_an_interruption(folder, tmp_path, monkeypatch):
    """Those of the same images, whose cameras are then those of a run that nobody stopped."""
    root, _ = folder
    run, there = module._run, []

    def stop(now):
        if now.stage == "match":
            raise KeyboardInterrupt

    def counted(work, features, *more):
        there.append((module._rows(features, "keypoints"), len(module.kept_features(tmp_path))))
        run(work, features, *more)

    monkeypatch.setattr(module, "_run", counted)
    (tmp_path / f"{module._FEATURES}other.db").write_bytes(b"of other images")
    with pytest.raises(KeyboardInterrupt):
        find_cameras(root, keep=tmp_path, callback=stop)
    left = module.kept_features(tmp_path)
    assert left
    assert "other" not in left[0].name
    found = find_cameras(root, keep=tmp_path)
    assert [count for count, _ in there] == [0, 12]
    assert not module.kept_features(tmp_path)
    assert found.entries == find_cameras(root).entries


@needs_pycolmap
def test_photos_that_cannot_be_placed(tmp_path):
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (5, 120, 160, 3)).astype(np.uint8)
    for i, noise in enumerate(pictures):
        Image.fromarray(noise).save(tmp_path / f"{i}.png")
    (tmp_path / "2.png").write_bytes((tmp_path / "1.png").read_bytes()[:9000])
    said = b"<rdf:Description GPano:ProjectionType='equirectangular'/>"
    Image.new("RGB", (320, 160)).save(tmp_path / "5.jpg", xmp=said)
    said = "<GPano:ProjectionType>cylindrical</GPano:ProjectionType>"
    whole, flat = PngInfo(), said.replace("cylindrical", "perspective").encode()  # out of one
    whole.add_itxt("XML:com.adobe.xmp", said)
    Image.new("RGB", (320, 160), "red").save(tmp_path / "6.png", pnginfo=whole)
    Image.fromarray(pictures[-1]).save(tmp_path / "7.jpg", xmp=flat)
    with (
        pytest.warns(UserWarning, match=r"2\.png cannot be read: .*; it is left out"),
        pytest.warns(UserWarning, match=r"5\.jpg is a panorama .*; it is left out"),
        pytest.warns(UserWarning, match=r"6\.png is a panorama .*; it is left out"),
        pytest.raises(ValueError, match=r"only 0 of 5 photos of .* could be placed: it helps to"),
    ):
        find_cameras(tmp_path)


def test_a_process_that_fails_is_one_line(folder, monkeypatch):
    root, _ = folder
    monkeypatch.setattr(module, "find_spec", lambda name: True)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match=r"pycolmap failed \(1\): no reason given"):
        find_cameras(root)
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"not installed: pip install pycolmap"):
        find_cameras(root)


def test_which_photos(tmp_path):
    for name in ("b10.png", "b9.JPG", "a.png", "note.txt"):
        Image.new("L", (4, 4)).save(tmp_path / name) if name[-3:] != "txt" else None
    assert [p.name for p in list_photos(tmp_path)] == ["a.png", "b9.JPG", "b10.png"]
    (tmp_path / "images").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "images" / "c.png")
    assert [p.name for p in list_photos(tmp_path)] == ["c.png"]
    for place in ("masks", ".thumbnails", "DCIM/100CANON", "out"):
        (tmp_path / "card" / place).mkdir(parents=True)
        Image.new("L", (4, 4)).save(tmp_path / "card" / place / "d.png")
    (tmp_path / "card/out" / SOURCES).touch()  # results of `gendr fit card -o card/out`
    assert list_photos(tmp_path / "card") == [tmp_path / "card/DCIM/100CANON/d.png"]
    (tmp_path / "card/DCIM/101CANON").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "card/DCIM/101CANON/d.png")
    with pytest.raises(ValueError, match=r"2 folders in it do: .*\(DCIM/100CANON, DCIM/101CANON\)"):
        list_photos(tmp_path / "card")
    (tmp_path / "images" / "c.dng").touch()  # beside a photo of its name
    with pytest.raises(ValueError, match=r"at least 2 photos, and .* holds 1"):
        find_cameras(tmp_path)
    for name in ("d.DNG", "e.jxl", "._f.dng", "g.jp2"):
        (tmp_path / "images" / name).touch()
    with (
        pytest.warns(UserWarning, match=r"not read; save them .* first: d\.DNG, e\.jxl, g\.jp2$"),
        pytest.raises(ValueError, match="holds 1"),
    ):
        find_cameras(tmp_path)
    (tmp_path / "images" / "c.png").rename(tmp_path / "images" / "c.mpo")
    Image.new("RGB", (4, 4)).save(tmp_path / "images" / "x.ppm")  # as of Oxford's dinosaur
    assert [p.name for p in list_photos(tmp_path)] == ["c.mpo", "x.ppm"]
    for name in ("c.pgm", "y.pgm", "x_mask.png"):  # the first as of SIFT, for c.mpo
        Image.new("L", (4, 4)).save(tmp_path / "images" / name)
    assert [p.name for p in list_photos(tmp_path)] == ["c.mpo", "x.ppm", "y.pgm"]
    for name in ("c.pgm", "y.pgm", "x_mask.png", "x.ppm"):
        (tmp_path / "images" / name).unlink()
    (tmp_path / "images" / "c.mpo").unlink()
    with pytest.raises(ValueError, match=r"only photos that are not read; .*: c\.dng, d\.DNG"):
        list_photos(tmp_path / "images")


def test_photos_share_a_lens_if_size_camera_and_focal_length_are_the_same(tmp_path):
    """A phone with two lenses, one of which says nothing of film; zooming; and other cameras.

    No digital zoom is told by 0, by 1, or not at all.
    """
    lenses = [
        ("A", 4.2, 26, 0),
        ("A", 4.2, 26, 1),
        ("A", 1.5, 0),
        ("B", 4.2, 26),
        None,
        ("A", 4.2, 26, 2),
        ("A", 4.2, 26),
    ]
    for i, lens in enumerate(lenses):
        exif = Image.Exif()
        if lens is not None:
            exif[0x110] = lens[0]
            said = dict(zip((0x920A, 0xA405, 0xA404), lens[1:], strict=False))
            exif.get_ifd(0x8769).update(said)
        Image.new("L", (36, 24)).save(tmp_path / f"{i}.jpg", exif=exif)
    photos = list_photos(tmp_path)
    _, groups, *_ = module._prepare(tmp_path, photos, tmp_path / "work", 1.0, lambda now: None)
    assert [[int(name[-9:-4]) for name in group["names"]] for group in groups] == [
        [0, 1, 6], [2], [3], [4], [5],
    ]  # fmt: skip
    assert [group["focal"] for group in groups] == [26, 0, 26, 0, 26]


def test_features_are_looked_for_in_light():
    """Dark photos are brighter by a factor, noisy ones smoother, others stay."""
    grey = np.tile(np.arange(128, 256, dtype=np.uint8), (4, 1))
    bright, dark = (Image.fromarray(x).convert("RGB") for x in (grey, grey // 8))
    assert module._lit(bright) is bright
    lit = np.asarray(module._lit(dark))
    np.testing.assert_allclose(lit, np.asarray(dark) * (255 / 31), atol=0.5)
    noise = np.random.default_rng(0).normal(150, 15, (90, 120)).astype(np.uint8)
    smooth = np.asarray(module._lit(Image.fromarray(noise).convert("RGB")))[..., 0]
    assert float(smooth.std()) == pytest.approx(module._LEFT, abs=0.4)


def fake(root, **options):
    """Cameras without looking at photos."""
    names = [p.relative_to(root).as_posix() for p in list_photos(root)]
    camera = look_at(3.0, [15, 25] * 6, [12.0 * i for i in range(12)], 30.0, dtype=torch.float64)
    turns, shifts, k = camera.to_opencv((320, 320))
    entries = [
        {
            "file": n,
            "K": k[i].tolist(),
            "R": turns[i].tolist(),
            "t": shifts[i].tolist(),
            "width": 320,
            "height": 320,
        }
        for i, n in enumerate(names[:11])
    ]
    none = np.zeros((0, 3))
    return module.FoundCameras(tuple(entries), tuple(names[11:]), none, none, (), 0.5)


@pytest.mark.parametrize("step", [0.02, 0.3])
def test_photos_that_tell_little_are_named(step):
    """Three photos side by side of points at distances of 2 to 8, and one that one of them sees."""
    entries = tuple(
        {"file": f"{k}.jpg", "R": np.eye(3).tolist(), "t": [-step * k, 0, 0],
         "K": [[500.0, 0, 320], [0, 500, 240], [0, 0, 1]], "width": 640, "height": 480}
        for k in range(3)
    )  # fmt: skip
    points = np.array([[step, 0, z] for z in (2.0, 4, 8)] + [[0, 0, 1]])
    tracks = ((0, 1, 2), (0, 1, 2), (1, 2), (1,))
    found = module.FoundCameras(entries, (), points, points, tracks, 0.3)
    assert found.angle == pytest.approx(2 * np.degrees(np.arctan(step / 4)))
    assert found.narrow == (step < 0.1)
    assert ("stand close together" in _line(found)) == found.narrow
    assert not module.FoundCameras(entries, (), points[:0], points[:0], (), 0.3).narrow
    # Of a plane straight on a focal length was found that is a tenth of the right one.
    assert not found.unlikely
    bent = tuple({**e, "K": [[50.0, 0, 320], [0, 50, 240], [0, 0, 1]]} for e in entries)
    assert "fits, 0.078 longer sides" in _line(replace(found, entries=bent))
    assert "no usual lens" not in _line(replace(found, entries=bent, focal_known=True))
    # A point where a camera stands is seen by it at no angle.
    on_eye = replace(found, points=np.array([[step, 0, 0], *points[:2]]), tracks=tracks[:3])
    assert np.isfinite(on_eye.angle)


@pytest.mark.rotating(5, group="photos")
@pytest.mark.usefixtures("small_pictures")
def test_commands_find_cameras_where_there_are_none(folder, tmp_path, monkeypatch, capsys):
    """They keep the file, name what was left out, and do not look again on --resume."""
    root, _ = folder
    calls = []

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("gendr.photos.suspicious_masks._POINTS", 36)
    monkeypatch.setattr("gendr.cli.splat.FRAMES", 4)
    monkeypatch.setattr("gendr.cli.cameras.find_cameras", lambda r, **o: calls.append(r) or fake(r))
    out = tmp_path / "out"
    options = ["--image-size", "24", "--colors", "none", "--shape", "silhouettes"]
    # Features of a run that was stopped are for --resume alone.
    out.mkdir()
    features = out / f"{module._FEATURES}0.db"
    features.touch()
    with monkeypatch.context() as patch:
        patch.setattr("gendr.cli.cameras.find_cameras", interrupted)
        assert main(["fit", str(root), "-o", str(out), *options, "--resume"]) == 130
        assert features.exists()
        assert main(["fit", str(root), "-o", str(out), *options]) == 130
        assert not features.exists()
    assert main(["fit", str(root), "-o", str(out), "--steps", "2", *options]) == 0
    shown = capsys.readouterr()
    assert "11 of 12 photos placed, to 0.50 pixels; left out: images/011.png" in shown.err
    assert len(json.loads((out / "cameras.json").read_text())["images"]) == 11
    assert main(["fit", str(root), "-o", str(out), "--steps", "3", *options, "--resume"]) == 0
    assert len(calls) == 1
    given = ["--cameras", str(out / "cameras.json")]
    soft = ["--steps", "2", "--image-size", "16", "--triangles", "20", "--opaque", "0", "--quiet"]
    assert main(["splat", str(root), "-o", str(tmp_path / "s"), *given, *soft]) == 0
    assert len(calls) == 1
    # Stopped before its first checkpoint, a training goes on with the cameras.
    words = ["splat", str(root), "-o", str(tmp_path / "t"), *soft]
    with monkeypatch.context() as patch:
        patch.setattr("gendr.cli.splat._read", interrupted)
        assert main(words) == 130
    assert main([*words, "--resume"]) == 0
    assert len(calls) == 2
    capsys.readouterr()
    # Beside the photos; a second time only if they may be replaced.
    assert main(["cameras", str(root)]) == 0
    assert "cameras.json: 11 of 12 photos placed" in capsys.readouterr().out
    assert main(["cameras", str(root)]) == 2
    assert "--force finds others" in capsys.readouterr().err
    assert main(["cameras", str(root), "--force", "--quiet"]) == 0
    (root / "cameras.json").unlink()
    assert main(["cameras", str(root / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_a_folder_without_photos_is_told_so(tmp_path, capsys):
    assert main(["fit", str(tmp_path), "-o", str(tmp_path / "out")]) == 2
    assert (
        capsys.readouterr().err
        == f"gendr: error: {tmp_path} holds no photos; give the folder that holds them\n"
    )
    for name, said in (
        ("walk.mp4", "holds no photos, but a video: give that, "),
        ("photos.zip", "is an archive: unpack it, and give the folder"),
        ("b.jpg", "is one photo: give the folder that holds it and the others"),
    ):
        (file := tmp_path / name).touch()
        given = tmp_path if name == "walk.mp4" else file
        for words in (["fit"], ["fit", "--scene"], ["splat"]):
            assert main([*words, str(given), "-o", str(tmp_path / "out")]) == 2
            assert f"{given} {said}" in capsys.readouterr().err
    several = [str(tmp_path / name) for name in ("b.jpg", "photos.zip")]  # as of photos/*
    assert main(["fit", *several, "-o", str(tmp_path / "out")]) == 2
    assert "of several files give the folder that holds them" in capsys.readouterr().err
    file.unlink()
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    (linked := tmp_path / "linked").mkdir()
    (linked / "a.png").symlink_to(tmp_path / "a.png")  # before cameras are found, in minutes
    assert main(["fit", str(linked), "-o", str(tmp_path / "out")]) == 2
    assert "a.png is a link out of the folder" in capsys.readouterr().err


def test_a_world_is_upright_as_photos_are():
    """Cameras around z, some of which lie on a side or stand on their heads, as EXIF data say."""
    for turns in ([0.0, 70.0, 150.0, 230.0], [0.0, 25.0, 45.0, 70.0]):  # on one side, too
        check_world(look_at(3.0, 20.0, turns))


def check_world(level):
    down, right = -level.up.double().numpy(), level.right.double().numpy()
    ahead, eyes = level.ahead.double().numpy(), level.eye.double().numpy()
    # Of the stored photo that is upright after k quarter turns to the right: its x and y.
    axes = [(right, down), (down, -right), (-right, -down), (-down, right)]
    images = []
    for i in range(4):
        rotation = np.stack([axes[i][0][i], axes[i][1][i], ahead[i]])
        shift = (-rotation @ eyes[i]).tolist()
        images.append({"R": rotation.tolist(), "t": shift, "depth": 3.0})
    turn, centre, _ = _world(
        images, [0, 1, 2, 3], upwards(np.array([i["R"] for i in images]), [0, 1, 2, 3])
    )
    np.testing.assert_allclose(turn[1], [0, 1, 0], atol=0.02)  # the mean leans by 0.3
    np.testing.assert_allclose(centre, 0, atol=0.05)


@pytest.mark.parametrize("apart", [0.0, 0.02])
def test_a_world_is_about_what_photos_see_where_axes_do_not_meet(apart):
    """Along a front, 5 m before it, looking straight at it or a degree apart from each other."""
    images = []
    for x in np.linspace(-4, 4, 9):
        c, s = np.cos(apart * x / 4), np.sin(apart * x / 4)
        turn = np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]])  # x right, y down, z ahead
        shift = (-turn @ [x, 0, 0]).tolist()
        images.append({"R": turn.tolist(), "t": shift, "depth": 5.0})
    _, centre, scale = _world(images, [0] * 9, np.array([0.0, -1, 0]))
    np.testing.assert_allclose(centre, [0, 0, 5], atol=1.0)
    assert scale == pytest.approx(3 / 5.4, rel=0.2)


@pytest.mark.rotating(5, group="photos")
@needs_pycolmap
def test_a_lens_gets_more_parameters_where_they_are_better(monkeypatch):
    """Points at random, seen by lenses with one coefficient and with two, to 0.3 pixels.

    One lens has twenty photos, another two, which tell too little of it. Its axis may be far off
    the middle of cropped photos; but not for a small gain.
    """
    import pycolmap

    from gendr.photos.capture import structure
    from gendr.photos.capture.structure import with_better_lens

    scene, noise = pycolmap.SyntheticDatasetOptions(), pycolmap.SyntheticNoiseOptions()
    scene.num_rigs, scene.num_frames_per_rig, scene.num_points3D = 2, 20, 1000
    scene.camera_width, scene.camera_height = 1600, 1200
    scene.camera_model_id = pycolmap.CameraModelId.RADIAL
    noise.point2D_stddev = 0.3
    for second, axis in ((0.3, 832.0), (0.3, 1130.0), (0.0, 832.0)):
        pycolmap.set_random_seed(0)
        right = [1690.0, axis, 615.0, -0.25, second]
        scene.camera_params = right
        truth = pycolmap.synthesize_dataset(scene)
        pycolmap.synthesize_noise(noise, truth)
        start = pycolmap.Reconstruction(truth)
        few = [image for image in start.images.values() if image.camera_id == 2][2:]
        for image in few:
            start.deregister_frame(image.frame_id)
        for lens in start.cameras.values():
            lens.model = pycolmap.CameraModelId.SIMPLE_RADIAL
            lens.params = [1690.0, 800.0 if second else 832.0, 600.0 if second else 615.0, -0.2]
        pycolmap.bundle_adjustment(start, pycolmap.BundleAdjustmentOptions())
        better = with_better_lens(start)
        lens = better.cameras[1]
        if axis > 1000:
            np.testing.assert_allclose(lens.params[:3], right[:3], rtol=0.02)
            before = start.compute_mean_reprojection_error()
            assert better.compute_mean_reprojection_error() < before / 2
            monkeypatch.setattr(structure, "HALVED", 0.0)
            assert with_better_lens(start) is start
            monkeypatch.undo()
        elif second:
            np.testing.assert_allclose(lens.params[:4], right[:4], rtol=0.02)
            assert better.cameras[2].params.tolist() == start.cameras[2].params.tolist()
            assert 0.2 < lens.params[4] < 0.4  # few points are near the corners, which decide it
        else:  # one coefficient was right: it stays
            assert better is start


@needs_pycolmap
@pytest.mark.parametrize(("params", "straight", "folded"), [
    ([680, 320, 240, -0.1, 0.02], True, False),
    ([680, 410, 240, 0.0, 0.0], True, False),
    ([680, 320, 34, 0.0, 0.0], False, False),
    ([400, 320, 240, -0.6, 0.0], True, True),  # before the corners
    ([400, 320, 240, -0.3, 0.05], True, False),
])  # fmt: skip
def test_lenses_have_axes_near_the_middle_and_do_not_fold(params, straight, folded):
    import pycolmap

    from gendr.photos.capture.structure import folds, is_straight

    lens = pycolmap.Camera(model="RADIAL", width=640, height=480, params=params)
    assert is_straight(lens) == straight
    assert folds(lens) == folded


@needs_pycolmap
def test_focal_lengths_of_exif_can_be_held(tmp_path):
    """As for photos of a plane straight on, of which any other would fit as well."""
    import pycolmap

    from gendr.photos.capture.structure import astray, focal_known, mapped

    scene = pycolmap.SyntheticDatasetOptions()
    scene.num_rigs, scene.num_frames_per_rig, scene.num_points3D = 1, 6, 120
    scene.num_points2D_without_point3D = 0
    pycolmap.set_random_seed(0)
    (tmp_path / "images").mkdir()
    with closing(pycolmap.Database.open(tmp_path / "features.db")) as database:
        truth = pycolmap.synthesize_dataset(scene, database)
        lens = truth.cameras[1]
        lens.params = [1300.0, *lens.params[1:]]  # it is 1280
        database.update_camera(lens)
    group = {"focal": 1300.0, "names": [image.name for image in truth.images.values()]}
    job = {"threads": 1, "first_pairs": module._FIRST_PAIRS, "part": 0.5, "groups": [group]}
    found = mapped(job | {"hold": True}, tmp_path / "features.db", tmp_path)
    assert found.num_reg_images() == 6
    assert found.cameras[1].params[0] == 1300
    for focal, gone in ((1300.0, False), (400.0, True), (3000.0, True), (0.0, False)):
        group["focal"] = focal
        assert astray(found, job) == gone
        assert focal_known(found, job) == (focal == 1300)


@needs_pycolmap
@pytest.mark.parametrize("kind", ["RADIAL_FISHEYE", "RADIAL"])
def test_a_fisheye_is_found(tmp_path, kind):
    """A ball of points seen from within by an action camera of 130 degrees, to 0.3 pixels.

    The other lens bends as much, but by a polynomial. The file of the cameras says which it is.
    """
    import pycolmap

    from gendr.photos.capture.structure import described, with_better_lens

    dice, count = np.random.default_rng(0), 300
    fish = kind == "RADIAL_FISHEYE"
    right = [420.0, 490.0, 362.0, 0.02, 0.0] if fish else [420.0, 490.0, 362.0, -0.2, 0.03]
    lens = pycolmap.Camera(model=kind, width=960, height=720, params=right, camera_id=1)
    model = pycolmap.Reconstruction()
    model.add_camera_with_trivial_rig(
        pycolmap.Camera(model="SIMPLE_RADIAL", width=960, height=720, camera_id=1,
                        params=[420.0, 480, 360, -0.15])
    )  # fmt: skip
    points = dice.normal(size=(count, 3)) * [1, 0.8, 0.3] + [0, 0, 1.2]
    points *= dice.uniform(3, 5, (count, 1)) / np.linalg.norm(points, axis=1, keepdims=True)
    seen = [pycolmap.Track() for _ in points]
    for i in range(1, 9):
        turn = pycolmap.Rotation3d(np.append(dice.normal(0, 0.05, 3), 1.0))
        pose = pycolmap.Rigid3d(turn, dice.uniform(-0.8, 0.8, 3))
        local = pose * points
        spots = lens.img_from_cam(local)
        good = (local[:, 2] > 0.3) & (spots > 0).all(1) & (spots < [960, 720]).all(1)
        rows = np.flatnonzero(good)
        for k, row in enumerate(rows):
            seen[row].add_element(i, k)
        noisy = spots[rows] + dice.normal(0, 0.3, (len(rows), 2))
        image = pycolmap.Image(f"0/{i}.jpg", noisy, 1, i)
        model.add_image_with_trivial_frame(image, pose)
    for point, track in zip(points, seen, strict=True):
        if track.length() > 2:
            model.add_point3D(point, track, np.zeros(3, np.uint8))
    pycolmap.bundle_adjustment(model, pycolmap.BundleAdjustmentOptions())
    found = described(with_better_lens(model), tmp_path)
    image = found["images"][0]
    assert image["model"] == kind
    assert found["error"] < 0.5
    np.testing.assert_allclose(image["params"], right, rtol=0.01, atol=0.01)
    entry = module._entry("a.jpg", image, (2.0, 2.0), (np.eye(3), np.zeros(3), 1.0))
    (tmp_path / "cameras.json").write_text(json.dumps({"images": [entry]}))
    Image.new("RGB", (1920, 1440)).save(tmp_path / "a.jpg")
    cameras = read_cameras(tmp_path)
    read = lens_of(cameras.meta, list_frames(cameras, 10.0)[0])
    assert read.kind == ("fisheye" if fish else "radial")
    np.testing.assert_allclose(read.bend[:2], right[3:], atol=0.01)
    assert not any(read.bend[2:])
    # A focal length that is held stays, and the axis.
    before, error = model.cameras[1].params, model.compute_mean_reprojection_error()
    held = with_better_lens(model, hold=True)
    assert held.cameras[1].params[:3].tolist() == before[:3].tolist()
    assert len(held.cameras[1].params) == 5
    assert held.compute_mean_reprojection_error() < 0.95 * error


# -------------------------------------------------------------------------------------------------
# GPS fixes of photos: read from EXIF, and what they say of cameras, wrong ones aside


HERE = (48.1372, 11.5756, 520.0)


def on_earth(metres):
    """Fixes of places east, north and up of HERE, by way of WGS 84's ellipsoid in space."""

    def space(lat, lon, high):
        phi, lam = np.radians(lat), np.radians(lon)
        n = 6378137.0 / np.sqrt(1 - 6.69437999014e-3 * np.sin(phi) ** 2)
        flat = (n + high) * np.cos(phi)
        polar = (n * (1 - 6.69437999014e-3) + high) * np.sin(phi)
        return np.array([flat * np.cos(lam), flat * np.sin(lam), polar])

    found = []
    for east, north, up in metres:
        place = np.array(HERE)
        for _ in range(5):  # Newton's, by differences of degrees
            steps = np.diag([1e-5, 1e-5, 1.0])
            phi, lam = np.radians(HERE[0]), np.radians(HERE[1])
            frame = np.array([
                [-np.sin(lam), np.cos(lam), 0],
                [-np.sin(phi) * np.cos(lam), -np.sin(phi) * np.sin(lam), np.cos(phi)],
                [np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)],
            ])  # fmt: skip
            at = frame @ (space(*place) - space(*HERE))
            slopes = [(frame @ (space(*(place + s)) - space(*HERE)) - at) / s.max() for s in steps]
            place = place + np.linalg.solve(np.stack(slopes, 1), np.array([east, north, up]) - at)
        found.append(tuple(place))
    return found


def turned(seed):
    q, r = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    return q * np.linalg.det(q)


@pytest.mark.parametrize("path", ["area", "line"])
def test_cameras_stand_as_gps_says(path):
    dice = np.random.default_rng(4)
    area = dice.uniform(-40, 40, (12, 3)) * [1, 1, 0.3]
    line = np.stack([np.linspace(0, 60, 12), 0.5 * np.linspace(0, 60, 12), np.zeros(12)], 1)
    true = {"area": area, "line": line}[path]
    noise = dice.normal(0, 0.4, true.shape)
    fixes = on_earth(true + noise)
    fixes[3] = on_earth(true[3:4] + np.array([0, 250.0, 0]))[0]
    fixes[7] = None
    turn, scale, shift = turned(1), 0.031, np.array([2.0, -1, 5])
    eyes = scale * true @ turn.T + shift
    # What cameras say is up is used where the path is a line, and wrong here where it is not.
    up = turn @ ([0, 0, 1.0] if path == "line" else [0.5, 0, 0.75**0.5])
    found = place_by_gps(eyes, up, fixes)
    assert found.wrong == (3,)
    assert found.used == (0, 1, 2, 4, 5, 6, 8, 9, 10, 11)
    assert found.scale == pytest.approx(1 / scale, rel=0.02)
    axes = found.turn @ turn  # from east, north, up
    want = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]])
    assert np.degrees(np.arccos((np.trace(axes @ want.T) - 1) / 2)) < 1.5
    assert 0.2 < found.error < 1.0
    assert abs(found.scale * scale - 1) < found.size_error < 0.025
    centre = on_earth([true[list(found.used)].mean(0)])[0]
    assert abs(found.latitude - centre[0]) < 5e-6
    assert abs(found.longitude - centre[1]) < 5e-6
    assert found.altitude == pytest.approx(centre[2], abs=0.5)
    low = [None if f is None else (*f[:2], float("nan")) for f in fixes]
    if path == "line":
        assert place_by_gps(eyes, up, low).altitude is None


def test_how_far_sizes_by_gps_may_be_off():
    """Of 100 walks around a house 95 are told, as of Student's distribution."""
    dice, up = np.random.default_rng(3), np.array([0.0, 0, 1])
    turns = np.linspace(0, 2 * np.pi, 8, endpoint=False)
    ring = np.stack([20 * np.cos(turns), 20 * np.sin(turns), 0 * turns], 1)
    told = [
        place_by_gps(0.1 * ring, up, [(*fix[:2], float("nan")) for fix in on_earth(
            ring + dice.normal(0, 2, ring.shape))])
        for _ in range(100)
    ]  # fmt: skip
    assert None not in told
    off = [abs(found.scale / 10 - 1) < found.size_error for found in told]
    assert 0.9 <= np.mean(off) <= 0.99
    # Four that agree to the centimetre, by chance, are no better than fixes are.
    few = place_by_gps(0.1 * ring[::2], up, on_earth(ring[::2]))
    assert 0.006 < few.size_error < 0.02
    # Three fixes say too little, even if they agree to a fifth of their spread.
    bent = ring[[0, 3, 5]] + [[0, 6, 0], [0, 0, 0], [0, 0, 0]]
    assert place_by_gps(0.1 * ring[[0, 3, 5]], up, on_earth(bent)) is None


def test_fixes_on_both_sides_of_180_degrees():
    fixes = np.array([[-17.0, 179.9999, 5], [-17, -179.9998, 5], [-17, -179.9999, 5]] * 3)
    east = metres(fixes)[:, 0]
    np.testing.assert_allclose(np.diff(east[:3]), [31.94, -10.65], atol=0.05)
    fixes[:, 0] += 1e-4 * np.arange(9)
    found = place_by_gps(metres(fixes), np.array([0.0, 0, 1]), list(map(tuple, fixes)))
    assert found.scale == pytest.approx(1)
    assert abs(abs(found.longitude) - 179.99993) < 1e-4


def test_fixes_that_say_nothing():
    dice = np.random.default_rng(5)
    eyes = dice.normal(0, 1, (9, 3))
    up = np.array([0, 0, 1.0])
    assert place_by_gps(eyes, up, on_earth(dice.normal(0, 5, (9, 3)))) is None  # noise alone
    assert place_by_gps(eyes, up, on_earth(np.zeros((9, 3)))) is None  # all at one place
    assert place_by_gps(eyes, up, [None] * 7 + on_earth(eyes[7:])) is None


def degrees(value):
    return (int(value), int(value % 1 * 60), value * 60 % 1 * 60)


def with_fix(path, place, shade=60):
    image = Image.new("RGB", (40, 30), (90, 120, shade))
    lat, lon, high = place
    exif = Image.Exif()
    exif[0x10F] = "a maker"
    exif.get_ifd(0x8825).update({
        1: "S" if lat < 0 else "N", 2: degrees(abs(lat)), 3: "W" if lon < 0 else "E",
        4: degrees(abs(lon)), 5: b"\x01" if high < 0 else b"\x00", 6: abs(high),
    })  # fmt: skip
    image.save(path, exif=exif)


def test_exif_is_read(tmp_path):
    for place in (HERE, (-33.8568, 151.2153, -3.0), (37.8199, -122.4783, 75.0)):
        with_fix(tmp_path / "a.jpg", place)
        with Image.open(tmp_path / "a.jpg") as image:
            assert read_fix(image) == pytest.approx(place, abs=2e-6)
    with_fix(tmp_path / "a.jpg", (0.0, 0.0, 0.0))  # what devices without a fix write
    Image.new("RGB", (9, 9)).save(tmp_path / "b.jpg")
    for name in "ab":
        with Image.open(tmp_path / f"{name}.jpg") as image:
            assert read_fix(image) is None


@pytest.mark.rotating(2)
@needs_pycolmap
@pytest.mark.parametrize(
    ("zoom", "photos", "points", "deviation"),
    [(1.45, 10, 300, 0.5), (1.0, 10, 300, 0.5), (1.0, 4, 80, 1.2)],
)
def test_zoom_that_exif_hides(tmp_path, zoom, photos, points, deviation):
    """Every other photo is enlarged about its middle, as from a phone by way of a messenger.

    Where none is, a lens each agrees with more of few matches, too (1.6 %), by chance.
    """
    import pycolmap

    from gendr.photos.capture.structure import mapped, with_own_lenses

    scene, noise = pycolmap.SyntheticDatasetOptions(), pycolmap.SyntheticNoiseOptions()
    scene.num_rigs, scene.num_cameras_per_rig, scene.num_frames_per_rig = 1, 1, photos
    scene.num_points3D, scene.num_points2D_without_point3D = points, 0
    scene.camera_has_prior_focal_length = False
    noise.point2D_stddev = deviation
    pycolmap.set_random_seed(0)
    file = tmp_path / "features.db"
    (tmp_path / "images").mkdir()
    with closing(pycolmap.Database.open(file)) as database:
        truth = pycolmap.synthesize_dataset(scene, database)
        pycolmap.synthesize_noise(noise, truth, database)
        lens = truth.cameras[1]
        middle = np.array([lens.principal_point_x, lens.principal_point_y])
        for i in truth.images:
            places = database.read_keypoints(i)
            places[:, :2] = middle + (zoom if i % 2 else 1) * (places[:, :2] - middle)
            database.update_keypoints(i, places)
    names = [image.name for image in truth.images.values()]
    job = {"threads": 1, "first_pairs": module._FIRST_PAIRS, "part": 0.5,
           "groups": [{"focal": 0, "names": names}]}  # fmt: skip
    model = mapped(job, file, tmp_path)
    found, own = with_own_lenses(model, job, file, tmp_path)
    if zoom == 1:
        assert found is model
        return
    assert own != file
    for i, image in found.images.items():
        wanted = lens.mean_focal_length() * (zoom if i % 2 else 1)
        assert image.camera.mean_focal_length() == pytest.approx(wanted, rel=0.01)


@pytest.mark.rotating(3)
@needs_pycolmap
@pytest.mark.parametrize("equal", ["all", "mixed", "halves", "sides", "one", ""])
def test_a_row_of_equal_windows(tmp_path, equal):
    """Of equal windows a photo is matched with that two steps on as if both were taken from there.

    They are 2 m apart, photos 0.94 m: so each window matches the next, which looks the same. One
    such pair alone, of photos that follow each other, leaves a right model as it is. If both halves
    of a front are matched as one, only what stands alone, and is not found there, tells so; and if
    three pairs between them are right, with few matches, all others of them go. Of photos whose
    names are in no order nobody can tell, and what contradicts the model is named.
    """
    import pycolmap

    from gendr.photos.capture.structure import contradicted, mapped, unlike, untangled

    two_sides = equal in {"halves", "sides"}
    dice, count, focal, size = np.random.default_rng(0), 12, 490.0, np.array([640, 480])
    window = dice.uniform([-0.7, -0.7, 0], [0.7, 0.7, 0.4], (36, 3))
    places = np.array([[2.0 * x, 2.5 * y, 8] for x in range(-5, 6) for y in (-1, 0, 1)])
    alone = dice.uniform([-11, -4, 7], [11, 4, 8.4], (600 if two_sides else 150, 3))
    points = np.concatenate([(window + places[:, None]).reshape(-1, 3), alone])
    steps = np.arange(count) - (count - 1) / 2
    eyes = np.stack([0.94 * steps, 0.1 * np.sin(2 * steps), 0.3 * np.sin(3 * steps)], 1)
    pycolmap.set_random_seed(0)
    file = tmp_path / "features.db"
    (tmp_path / "images").mkdir()
    shown: list[dict[int, int]] = []  # of each photo, the points that it shows
    names: list[str] = []
    with closing(pycolmap.Database.open(file)) as base:
        lens = pycolmap.Camera(model="SIMPLE_RADIAL", width=640, height=480)
        lens.params, lens.has_prior_focal_length = [focal, 320, 240, 0], True
        lens.camera_id = base.write_camera(lens)
        rig = pycolmap.Rig()
        rig.add_ref_sensor(lens.sensor_id)
        rig_id = base.write_rig(rig)
        for k, eye in enumerate(eyes):
            turn = axis_angle_to_matrix(torch.from_numpy(dice.normal(0, 0.05, 3))).numpy()
            seen = (points - eye) @ turn.T
            pixels = focal * seen[:, :2] / seen[:, 2:] + size / 2
            inside = ((pixels > 0) & (pixels < size)).all(1) & (dice.random(len(points)) < 0.8)
            rows = np.flatnonzero(inside)
            shown.append({int(row): n for n, row in enumerate(rows)})
            number = 7 * k % count if equal in {"mixed", "sides"} else k
            names.append(f"640x480/{number:05d}.png")
            image = pycolmap.Image(names[k], np.zeros((0, 2)), lens.camera_id)
            image.image_id = base.write_image(image)
            frame = pycolmap.Frame()
            frame.rig_id = rig_id
            frame.add_data_id(image.data_id)
            base.write_frame(frame)
            found = pixels[rows] + dice.normal(0, 0.4, (len(rows), 2))
            round_ = np.tile([1, 0, 0, 1], (len(rows), 1))  # of one size and direction
            base.write_keypoints(image.image_id, np.c_[found, round_].astype(np.float32))
        for i, j in combinations(range(count), 2):
            far = round(0.94 * (j - i) / 2) if j > i + 1 else 0
            cross, near = i < 6 <= j, i < 6 <= j <= i + 2
            far = {"all": far, "mixed": far, "one": int((i, j) == (5, 6)), "halves": 3 * cross,
                   "sides": 3 * (cross and not near)}  # fmt: skip
            across = 3 * 36 * far.get(equal, 0)
            part = 11 * 3 * 36 if across else len(points)  # what stands alone has no equals
            pairs = [(n, shown[j][row + across]) for row, n in shown[i].items()
                     if row + across < part and row + across in shown[j]]  # fmt: skip
            if equal == "sides" and near:
                pairs = pairs[::5]
            pairs = pairs[:: 1 + (j - i) // 4]
            if len(pairs) > 30:
                matches = pycolmap.TwoViewGeometry()
                matches.config = pycolmap.TwoViewGeometryConfiguration.CALIBRATED
                matches.inlier_matches = np.array(pairs, np.uint32)
                base.write_two_view_geometry(i + 1, j + 1, matches)
    job = {"threads": 1, "first_pairs": module._FIRST_PAIRS, "part": 0.5,
           "groups": [{"focal": focal, "names": names}]}  # fmt: skip
    model = mapped(job, file, tmp_path)
    if two_sides:
        told = [{names.index(name) for name in pair} for pair in unlike(model, file)]
        assert len(told) > 2
        assert all(min(pair) < 6 <= max(pair) for pair in told)
    better, chosen = untangled(model, job, file, tmp_path)
    assert (chosen != file) is (equal in {"all", "sides"})
    if equal == "halves":
        return
    assert bool(contradicted(model, file)) is (equal in {"all", "mixed", "one"})
    assert bool(contradicted(better, chosen)) is (equal in {"mixed", "one"})
    if equal == "mixed":
        return
    images = sorted(better.images.values(), key=lambda image: names.index(image.name))
    found = np.array([image.projection_center() for image in images])
    assert len(found) == count
    sides = [np.linalg.norm(x[:, None] - x, axis=2) for x in (found, eyes)]
    np.testing.assert_allclose(sides[0] / sides[0].max(), sides[1] / sides[1].max(), atol=0.02)
    assert unlike(better, file) == []


@pytest.mark.rotating(5, group="photos")
@needs_pycolmap
def test_fixes_lead_cameras_to_where_errors_are_least(tmp_path):
    """Two of ten photos are torn away from the others, and have points of their own."""
    import pycolmap

    from gendr.photos.capture.structure import groups_apart, guided, support

    scene, noise = pycolmap.SyntheticDatasetOptions(), pycolmap.SyntheticNoiseOptions()
    scene.num_rigs, scene.num_cameras_per_rig, scene.num_frames_per_rig = 1, 1, 10
    scene.num_points3D, scene.num_points2D_without_point3D = 150, 0
    noise.point2D_stddev = 0.5
    pycolmap.set_random_seed(0)
    file = tmp_path / "features.db"
    with closing(pycolmap.Database.open(file)) as database:
        truth = pycolmap.synthesize_dataset(scene, database)
        pycolmap.synthesize_noise(noise, truth, database)
    names = {image.name: image for image in truth.images.values()}
    eyes = {name: image.projection_center() for name, image in names.items()}
    dice, torn = np.random.default_rng(0), pycolmap.Reconstruction(truth)
    *few, other = list(torn.images.values())[:3]
    name = other.name
    for image in few:
        pose = image.cam_from_world()
        away = pose.translation - pose.rotation.matrix() @ np.array([0.4, 0, 0])
        image.frame.set_cam_from_world(1, pycolmap.Rigid3d(pose.rotation, away))
    (tmp_path / "images").mkdir()
    torn = pycolmap.triangulate_points(torn, file, tmp_path / "images", tmp_path)
    # All pairs agree with the truth, and all but those of one torn photo and another with the rest.
    sure, before = support(truth, file), support(torn, file)
    assert 0.9 < sure / (45 * 150) < 1
    assert before / sure == pytest.approx(29 / 45, abs=0.06)
    places = {name: 7 * eye + dice.normal(0, 0.07, 3) for name, eye in eyes.items()}
    found = guided(torn, places, file, tmp_path)
    # Torn photos that fixes draw back are turned wrongly, and show no point, until placed anew.
    assert support(found, file) > 0.99 * sure
    assert min(image.num_points3D for image in found.images.values()) > 140
    moved = np.array([found.images[image.image_id].projection_center() for image in names.values()])
    true = np.array([eyes[name] for name in names])
    sides = [np.linalg.norm(x - x.mean(0), axis=1) for x in (moved, true)]
    np.testing.assert_allclose(sides[0] / sides[0].mean(), sides[1] / sides[1].mean(), atol=0.01)
    focal = torn.cameras[1].params[0]
    held = guided(torn, places, file, tmp_path, hold=True)
    assert support(held, file) > 0.99 * sure
    assert held.cameras[1].params[0] == focal != found.cameras[1].params[0]
    wild = guided(torn, {**places, name: np.full(3, 1e6)}, file, tmp_path)
    assert support(wild, file) > 1.01 * before
    wrong = dict(zip(places, reversed(places.values()), strict=True))
    # Phones give all photos one fix where there is no sky, and some the last one, of far away.
    same = dict.fromkeys(places, np.ones(3))
    for few in ({}, dict(list(places.items())[:5]), wrong, same, {**same, name: eyes[name]}):
        assert guided(torn, few, file, tmp_path) is torn
    assert guided(truth, places, file, tmp_path) is truth  # there is nothing better
    # Photos of two places: four are placed, three of the others match none of these.
    first, second, alone = sorted(names)[:4], sorted(names)[4:7], sorted(names)[7:]
    with closing(pycolmap.Database.open(file)) as database:
        for one, other in combinations(sorted(names), 2):
            if not any({one, other} <= set(place) for place in (first, second)):
                pair = sorted(names[name].image_id for name in (one, other))
                database.delete_two_view_geometry(*pair)
    assert groups_apart(file, set(first)) == [second]
    assert groups_apart(file, {*first, second[0]}) == groups_apart(file, {*names}) == []
    assert len(alone) == 3
    found = replace(fake(tmp_path), left_out=("a", "b", "c", "d"), apart=(("a", "c", "d"),))
    assert "; 3 of these fit each other, but none of the others: " in _line(found)
    content = found.files(file := tmp_path / "found.json")[file]
    assert json.loads(content)["left_out"] == ["a", "b", "c", "d"]
    text = _line(replace(found, against=(("b", "c"),)))
    assert "; 1 pairs of photos match or look otherwise than they are placed" in text
    assert "; all look one way" not in text  # but around something
    eye = torch.tensor([[0.1 * k, 1.0, 4.0] for k in range(5)])
    for look, leans in (([0, 0.3, -1.0], True), ([0, -1.0, -0.01], False)):  # a wall, the ground
        turns = look_from(eye, eye + torch.tensor(look)).to_opencv((4, 4))[0]
        found = replace(found, entries=tuple({"R": turn.tolist()} for turn in turns))
        assert ("; all look one way: up leans" in _line(found)) is leans
        assert ("; all look one way: up is by" in _line(replace(found, upright=True))) is leans


def test_cameras_that_are_found_are_in_metres(tmp_path, monkeypatch, capsys):
    """What structure from motion would find is given; all else runs."""
    true = np.array([[0, 0, 2.0], [8, 1, 2], [16, 4, 2.5], [24, 9, 2], [30, 16, 2.2], [34, 24, 2]])
    turn, scale = turned(2), 0.2
    images = []
    for k, (place, fix) in enumerate(zip(true, on_earth(true), strict=True)):
        with_fix(tmp_path / f"{k}.png", fix if k != 2 else (49.0, *fix[1:]), 9 * k)
        ahead = np.array([10, 25, 2.0]) - place
        ahead /= np.linalg.norm(ahead)
        right = np.cross(ahead, [0, 0, 1])
        right /= np.linalg.norm(right)
        R = np.stack([right, np.cross(ahead, right), ahead])
        images.append({"name": f"40x30/{k:05d}.png", "R": (R @ turn.T).tolist(),
                       "t": (-scale * R @ place).tolist(), "params": [50.0, 20, 15, 0],
                       "model": "SIMPLE_RADIAL", "size": [40, 30], "depth": 1.0})  # fmt: skip
    result = {"images": images, "error": 0.5}
    monkeypatch.setattr(
        module, "_run", lambda work, *_: (work / "result.json").write_text(json.dumps(result))
    )
    monkeypatch.setattr(module, "find_spec", lambda name: True)
    assert main(["cameras", str(tmp_path)]) == 0
    line = capsys.readouterr().out
    assert "in metres" in line
    assert "5 photos" in line
    assert "wrong there: 2.png" in line
    written = json.loads((tmp_path / "cameras.json").read_text())
    said = written["gps"]
    assert (said["photos"], said["of"]) == (5, 6)
    eyes = np.stack([-np.array(e["R"]).T @ np.array(e["t"]) for e in written["images"]])
    gaps = eyes[1:] - eyes[:-1]
    want = (true[1:] - true[:-1]) @ np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]]).T
    np.testing.assert_allclose(gaps, want, atol=0.05)
    used = true[[0, 1, 3, 4, 5]].mean(0)
    np.testing.assert_allclose(said["at"], eyes[[0, 1, 3, 4, 5]].mean(0), atol=1e-6)
    assert on_earth([used])[0] == pytest.approx((said["latitude"], said["longitude"],
                                                 said["altitude"]), abs=1e-4)  # fmt: skip


# -------------------------------------------------------------------------------------------------
# What is up, by photos that look down, and some of which lie on a side


def test_most_photos_say_what_is_up():
    """Around something, or on one side of it; a third is stored turned, or lies there unsaid."""
    for elevation in (0, 20, 60):
        for most in (330, 90):
            camera = look_at(3.0, elevation, np.linspace(0, most, 12).tolist())
            right, down = camera.right.double().numpy(), -camera.up.double().numpy()
            turns = np.stack([right, down, camera.ahead.double().numpy()], 1)
            turns[::3, 0], turns[::3, 1] = down[::3], -right[::3]
            for quarters in ([1, 0, 0] * 4, [0] * 12):
                np.testing.assert_allclose(upwards(turns, quarters), [0, 1, 0], atol=0.03)


def test_photos_of_a_drone_look_down():
    """Forth and back, and aslant by a few degrees."""
    dice = np.random.default_rng(0)
    turns = np.tile([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]], (8, 1, 1))
    turns[4:, :2] *= -1
    for axes in turns:
        axes += dice.normal(0, 0.05, (3, 3))
        axes[:] = np.linalg.svd(axes)[0] @ np.linalg.svd(axes)[2]
    np.testing.assert_allclose(upwards(turns, [0] * 8), [0, 1, 0], atol=0.06)
    images = [{"R": own.tolist(), "t": (-own @ [k % 4, 3.0, k // 4]).tolist(), "depth": 3.0}
              for k, own in enumerate(turns)]  # fmt: skip
    turn = _world(images, [0] * 8, upwards(turns, [0] * 8))[0]
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-9)
    assert turn[1, 1] > 0.99


@pytest.mark.parametrize("upright", [True, False])
def test_edges_say_what_is_up(upright):
    """Of a front before which all photos are pitched by 15 degrees; none is where nothing is up."""
    dice, found = np.random.default_rng(0), []
    lens = np.array([[300.0, 0, 200], [0, 300, 150], [0, 0, 1]])
    starts = dice.uniform([-6, -4, 5], [6, 4, 7], (150, 3))  # x right, y down, z ahead
    ways = dice.normal(0, 1, (150, 3)) * ([0, 1, 0] if upright else [1, 1, 1])
    c, s = np.cos(np.radians(15)), np.sin(np.radians(15))
    turns = np.tile([[1, 0, 0], [0, c, s], [0, -s, c]], (4, 1, 1))
    for k, turn in enumerate(turns):
        image = Image.new("L", (400, 300))
        for start, way in zip(starts, ways, strict=True):
            ends = np.array([start, start + way]) - [k - 1.5, 0, 0]
            pixels = ends @ turn.T @ lens.T
            spots = [tuple(spot) for spot in (4 * pixels[:, :2] / pixels[:, 2:]).tolist()]
            ImageDraw.Draw(image).line(spots, 255, 12)
        found.append(edges_of(np.asarray(image.reduce(4)), lens, turn))
    up = upwards(turns, [0] * 4)
    assert one_way(turns, up) > 0.99
    told = verticals(np.concatenate(found), up, turns[:, 2].mean(0))
    if not upright:
        assert told is None
        return
    assert up @ [0, -1, 0] < 0.97
    assert told is not None
    assert told @ [0, -1, 0] > np.cos(np.radians(0.5))


def test_upright_images_of_all_formats(tmp_path):
    """As Pillow's exif_transpose shows them; in a PNG also from behind its pixels."""
    stored = Image.fromarray(np.random.default_rng(2).integers(0, 256, (4, 6, 3), np.uint8))
    note = Image.Exif()
    note[0x0112] = 6
    for ending in ("png", "jpg", "webp", "tif"):
        stored.save(tmp_path / f"a.{ending}", exif=note)
    data = (tmp_path / "a.png").read_bytes()
    start = data.index(b"eXIf") - 4
    chunk = data[start : start + 12 + int.from_bytes(data[start : start + 4], "big")]
    end = len(data) - 12 - len(chunk)
    moved = data.replace(chunk, b"")
    (tmp_path / "late.png").write_bytes(moved[:end] + chunk + moved[end:])
    for path in sorted(tmp_path.iterdir()):
        with Image.open(path) as image:
            wanted = np.asarray(ImageOps.exif_transpose(image))
        with open_photo(path) as image:
            np.testing.assert_array_equal(np.asarray(image), wanted, path.name)
        assert wanted.shape == (6, 4, 3)
        assert read_orientation(path) == 6
        assert read_size(path) == (4, 6)
        with open_photo(path, turn=1) as image:
            off = np.abs(np.asarray(image).astype(int) - np.asarray(stored))
            assert off.max() == 0 or path.suffix in (".jpg", ".webp"), path.name
            assert off.shape == (4, 6, 3)


def test_the_colour_of_a_png_that_is_transparent(tmp_path):
    pixels = np.full((4, 6, 3), 200, np.uint8)
    pixels[1:3, 2:4] = (255, 0, 0)
    Image.fromarray(pixels).save(tmp_path / "a.png", transparency=(200, 200, 200))
    with open_image(tmp_path / "a.png") as image:
        picture = Picture(image)
        assert picture.channels == 4
        np.testing.assert_array_equal(picture.rows(0, 4)[3], 255 * (pixels[..., 1] == 0))
