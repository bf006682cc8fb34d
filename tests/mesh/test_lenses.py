"""Lenses beside those of COLMAP's own package and of OpenCV, and photos that are straightened."""

import json
import os

import numpy as np
import pytest
import torch
from PIL import Image

from gendr.mesh.camera_files.colmap import find_model, read_model
from gendr.mesh.camera_files.lenses import BENDS, Lens, coefficients
from gendr.mesh.camera_files.opencv import lens_entries
from gendr.mesh.camera_files.transforms import lens_of, list_frames, read_cameras
from gendr.mesh.views import load_views
from gendr.splatting import load_photos
from support.cases import for_each

pycolmap = pytest.importorskip("pycolmap")
cv2 = pytest.importorskip("cv2")

WIDTH, HEIGHT = 96, 72
MODELS = {
    "SIMPLE_PINHOLE": [80, 47, 37],
    "PINHOLE": [80, 84, 47, 37],
    "SIMPLE_RADIAL": [80, 47, 37, -0.12],
    "RADIAL": [80, 47, 37, 0.15, -0.05],
    "OPENCV": [80, 84, 47, 37, -0.1, 0.03, 0.01, -0.008],
    "FULL_OPENCV": [80, 84, 47, 37, 0.3, 0.1, 0.01, -0.008, 0.02, 0.25, 0.03, 0.01],
    "OPENCV_FISHEYE": [60, 64, 47, 37, 0.03, -0.01, 0.004, -0.001],
    "SIMPLE_RADIAL_FISHEYE": [60, 47, 37, 0.05],
    "RADIAL_FISHEYE": [60, 47, 37, 0.05, -0.02],
    "FOV": [60, 64, 47, 37, 0.9],
}


def colmap_camera(model, change=None):
    values = [float(x) for x in MODELS[model]]
    return pycolmap.Camera(model=model, width=WIDTH, height=HEIGHT, params=change or values)


def scene(ray):
    """RGB of what lies in a direction [.., 3]; smooth, so that interpolation hardly matters."""
    x, y = (ray[..., i] / ray[..., 2] for i in range(2))
    waves = [np.sin(4 * x + 1), np.cos(5 * y), np.sin(3 * x - 4 * y)]
    return 0.5 + 0.45 * np.stack(waves, -1)


def write_folder(root, camera, masks=False):
    """Two photos of what a lens of COLMAP sees, and COLMAP's own model of them."""
    v, u = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    places = camera.cam_from_img(np.stack([u.ravel(), v.ravel()], 1))
    rays = np.concatenate([places, np.ones((len(places), 1))], 1)
    # To 16 bits there is no PNG of colours here; 8 bits are the error that the test allows for.
    picture = (255 * scene(rays)).round().reshape(HEIGHT, WIDTH, 3).astype(np.uint8)
    model = pycolmap.Reconstruction()
    camera.camera_id = 1
    model.add_camera_with_trivial_rig(camera)
    (root / "images").mkdir(parents=True)
    (root / "sparse" / "0").mkdir(parents=True)
    for i in range(2):
        image = pycolmap.Image(name=f"{i}.png", camera_id=1, image_id=i + 1)
        model.add_image_with_trivial_frame(image, pycolmap.Rigid3d())
        Image.fromarray(picture).save(root / "images" / f"{i}.png")
        if masks:
            (root / "masks").mkdir(exist_ok=True)
            inside = (np.hypot(u - 50, v - 30) < 20).astype(np.uint8)
            Image.fromarray(255 * inside).save(root / "masks" / f"{i}.png")
    model.write(os.fspath(root / "sparse" / "0"))
    return root


@for_each(model=MODELS)
def test_lenses_are_those_of_colmap(tmp_path, model):
    """A file that COLMAP writes, and where its lens sees directions."""
    camera = colmap_camera(model)
    root = write_folder(tmp_path / model, camera)
    cameras = read_cameras(root)
    lens = lens_of(cameras.meta, list_frames(cameras, 1.0)[0])
    directions = np.random.default_rng(3).uniform(-0.4, 0.4, (200, 2))
    points = np.concatenate([directions, np.ones((200, 1))], 1)
    want = camera.img_from_cam(points)
    found = np.stack(lens.pixels(*directions.T), 1)
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-9)
    assert read_model(find_model(root), root)["frames"][0]["w"] == WIDTH


def test_lenses_are_those_of_opencv():
    """The thin prism too, which COLMAP has in other lenses only."""
    rng = np.random.default_rng(5)
    directions = rng.uniform(-0.4, 0.4, (100, 2))
    points = np.concatenate([directions, np.ones((100, 1))], 1)
    k = np.array([[80, 0, 47], [0, 84, 37], [0, 0, 1.0]])
    named = dict(zip(BENDS["radial"], rng.uniform(-0.05, 0.05, 12), strict=True))
    order = "k1 k2 p1 p2 k3 k4 k5 k6 s1 s2 s3 s4".split()
    bend = np.array([named[name] for name in order])
    want = cv2.projectPoints(points, np.zeros(3), np.zeros(3), k, bend)[0][:, 0]
    lens = Lens(80, 84, 47, 37, 0, "radial", tuple(named.values()))
    found = np.stack(lens.pixels(*directions.T), 1)
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-9)
    assert lens_entries(lens)["dist"] == pytest.approx(bend)
    # With other focal lengths for which the straightened photo is the same.
    zoomed = lens.zoomed(1.3)
    found = np.stack(zoomed.pixels(*(directions / 1.3).T), 1)
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-9)


@for_each(model=[m for m in MODELS if "PINHOLE" not in m])
def test_photos_are_straightened(tmp_path, model):
    """A pixel has the colour of the direction in which the pinhole sees it, masks alike."""
    root = write_folder(tmp_path / "photos", colmap_camera(model), masks=True)
    for half in (False, True):
        size = None if not half else (24, 32)
        views = load_views(root, size=size, dtype=torch.float64)
        height, width = views.image_size
        k = views.camera.intrinsics(views.image_size)[0].numpy()
        y, x = np.mgrid[:height, :width] + 0.5
        rays = np.stack([x, y, np.ones_like(x)], -1) @ np.linalg.inv(k).T
        whole = (views.masks[0] == 1).numpy()
        found = views.rgb[0].permute(1, 2, 0).numpy()
        error = abs(found - scene(rays))[whole]
        assert 100 < whole.sum() < 0.5 * whole.size or half
        assert error.max() < (0.03 if half else 0.012)  # means over pixels; steps of 1 / 255
        # The mask is that of the directions that the photo's mask shows.
        camera = colmap_camera(model)
        place = camera.img_from_cam(rays.reshape(-1, 3)).reshape(height, width, 2)
        far = np.hypot(place[..., 0] - 50, place[..., 1] - 30)
        margin = 1.5 if not half else 6
        mask = views.masks[0].numpy()
        assert (mask[far < 20 - margin] == 1).all()
        assert (mask[far > 20 + margin] == 0).all()


def test_margins_hold_nothing_that_the_lens_did_not_see(tmp_path):
    """A pincushion, whose corners would lie outside; and barrels, of which nothing is cut off."""
    for model, change, is_cut in (
        ("SIMPLE_RADIAL", [80, 47, 37, 0.12], True),
        ("SIMPLE_RADIAL", [80, 47, 37, -0.12], False),
        ("OPENCV_FISHEYE", MODELS["OPENCV_FISHEYE"], False),
    ):
        camera = colmap_camera(model, [float(x) for x in change])
        root = write_folder(tmp_path / f"{model}{change[-1]}", camera)
        photos = load_photos(root)
        height, width = photos.image_size
        assert ((height, width) != (HEIGHT, WIDTH)) == is_cut
        k = photos.camera.intrinsics((height, width))[0].numpy()
        corners = [[x, y, 1] for x in (0.5, width - 0.5) for y in (0.5, height - 0.5)]
        seen = camera.img_from_cam(np.linalg.solve(k, np.array(corners, np.float64).T).T)
        assert (seen > -1e-3).all()
        assert (seen < [WIDTH + 1e-3, HEIGHT + 1e-3]).all()
        if is_cut:  # and not much more than must be
            assert (seen.min(0) < 3).all()


def test_a_lens_that_folds_is_refused(tmp_path):
    """Beyond the place where it sees directions twice, up to the corners."""
    lens = Lens(80, 80, 48, 36, 0, "radial", (-2.0, *[0.0] * 11))
    x, _ = lens.pixels(np.array([0.1, 0.3, 0.5, 0.6]), np.zeros(4))
    assert np.isfinite(x).tolist() == [True, True, False, False]  # turns at 1 / sqrt(6)
    frames = [{"file_path": "0.png", "transform_matrix": np.eye(4).tolist()}]
    Image.fromarray(np.full((HEIGHT, WIDTH, 3), 90, np.uint8)).save(tmp_path / "0.png")
    for k1, fits in ((-2.0, False), (-0.5, True)):
        about = {"fl_x": 50.0, "k1": k1, "frames": frames}
        (tmp_path / "transforms.json").write_text(json.dumps(about))
        if fits:
            assert load_photos(tmp_path).image_size[0] > HEIGHT / 2
            continue
        with pytest.raises(ValueError, match=r"less than half of it is left .* k1 = -2$") as caught:
            load_photos(tmp_path)
        assert "\n" not in str(caught.value)


def test_lenses_of_a_file_of_matrices(tmp_path):
    """What is written about a lens is read again as that lens."""
    Image.fromarray(np.full((HEIGHT, WIDTH, 3), 90, np.uint8)).save(tmp_path / "0.png")
    for lens in (
        Lens(80, 84, 47, 37, 1.5),
        Lens(80, 84, 47, 37, 0, "radial", (0.1, 0, 0.2, *[0.0] * 5, 0.3, *[0.0] * 3)),
        Lens(80, 84, 47, 37, 0, "fisheye", (0.1, 0.0, 0.02, 0.0)),
        Lens(80, 84, 47, 37, 0, "fov", (0.7,)),
    ):
        entry = {"file": "0.png", "R": np.eye(3).tolist(), "t": [0, 0, 3], **lens_entries(lens)}
        (tmp_path / "cameras.json").write_text(json.dumps({"images": [entry]}))
        cameras = read_cameras(tmp_path)
        assert lens_of(cameras.meta, list_frames(cameras, 1.0)[0]) == lens
    assert coefficients(lens) == {"omega": 0.7}
