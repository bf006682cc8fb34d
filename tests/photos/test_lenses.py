"""Lenses beside those of COLMAP's own package and of OpenCV, and photos that are straightened."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from PIL import Image

from gendr.photos import load_views
from gendr.photos.camera_files.lenses import BENDS, Lens, coefficients
from gendr.photos.camera_files.opencv import lens_entries
from gendr.photos.camera_files.transforms import lens_of, list_frames, read_cameras
from gendr.photos.splatting import load_photos

cv2 = pytest.importorskip("cv2")
if find_spec("pycolmap") is None:
    pytest.skip("pycolmap is not installed", allow_module_level=True)

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


# In a process of its own: pycolmap and Pillow do not go together in one.
COLMAP = """
import json, sys
import numpy as np
import pycolmap
found = []
for job in json.load(sys.stdin):
    width, height = job["size"]
    camera = pycolmap.Camera(
        model=job["model"], width=width, height=height, params=job["params"], camera_id=1
    )
    model = pycolmap.Reconstruction()
    model.add_camera_with_trivial_rig(camera)
    for i in range(2):
        image = pycolmap.Image(name=f"{i}.png", camera_id=1, image_id=i + 1)
        model.add_image_with_trivial_frame(image, pycolmap.Rigid3d())
    model.write(job["folder"])
    v, u = np.mgrid[:height, :width] + 0.5
    places = camera.cam_from_img(np.stack([u.ravel(), v.ravel()], 1))
    seen = camera.img_from_cam(np.array(job["points"]))
    found.append({"rays": places.tolist(), "pixels": seen.tolist()})
json.dump(found, sys.stdout)
"""


def ask_colmap(root, lenses, points=((0.1, 0.2, 1.0),)):
    """Where COLMAP's lenses see points, and the rays of their pixels; it writes models to root."""
    jobs = []
    for i, (model, numbers) in enumerate(lenses):
        folder = root / str(i) / "sparse" / "0"
        folder.mkdir(parents=True)
        jobs.append({
            "model": model, "params": [float(x) for x in numbers], "size": [WIDTH, HEIGHT],
            "folder": os.fspath(folder), "points": [list(map(float, p)) for p in points],
        })  # fmt: skip
    run = subprocess.run(
        [sys.executable, "-c", COLMAP], input=json.dumps(jobs), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return [{k: np.array(v) for k, v in each.items()} for each in json.loads(run.stdout)]


def scene(ray):
    """RGB of what lies in a direction [.., 3]; smooth, so that interpolation hardly matters."""
    x, y = (ray[..., i] / ray[..., 2] for i in range(2))
    waves = [np.sin(4 * x + 1), np.cos(5 * y), np.sin(3 * x - 4 * y)]
    return 0.5 + 0.45 * np.stack(waves, -1)


def add_photos(root, rays, masks=False):
    """Two photos of what a lens sees along the rays of its pixels."""
    v, u = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    rays = np.concatenate([rays, np.ones((len(rays), 1))], 1)
    # A PNG of colours has 8 bits here, which is the error that the test allows for.
    picture = (255 * scene(rays)).round().reshape(HEIGHT, WIDTH, 3).astype(np.uint8)
    (root / "images").mkdir(parents=True)
    for i in range(2):
        Image.fromarray(picture).save(root / "images" / f"{i}.png")
        if masks:
            (root / "masks").mkdir(exist_ok=True)
            inside = (np.hypot(u - 50, v - 30) < 20).astype(np.uint8)
            Image.fromarray(255 * inside).save(root / "masks" / f"{i}.png")
    return root


def lens_in(root):
    cameras = read_cameras(root)
    return lens_of(cameras.meta, list_frames(cameras, 1.0)[0])


@pytest.mark.rotating(5, group="photos")
def test_lenses_are_those_of_colmap(tmp_path):
    """Files that COLMAP writes, and where its lenses see directions."""
    directions = np.random.default_rng(3).uniform(-0.4, 0.4, (200, 2))
    points = np.concatenate([directions, np.ones((200, 1))], 1)
    for i, found in enumerate(ask_colmap(tmp_path, MODELS.items(), points)):
        root = add_photos(tmp_path / str(i), found["rays"])
        pixels = np.stack(lens_in(root).pixels(*directions.T), 1)
        np.testing.assert_allclose(pixels, found["pixels"], rtol=0, atol=1e-9)


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


@pytest.mark.rotating(5, group="photos")
def test_photos_are_straightened(tmp_path):
    """A pixel has the colour of the direction in which the pinhole sees it, masks alike."""
    lenses = [(model, numbers) for model, numbers in MODELS.items() if "PINHOLE" not in model]
    for i, found in enumerate(ask_colmap(tmp_path, lenses)):
        root = add_photos(tmp_path / str(i), found["rays"], masks=True)
        for half in (False, True):
            views = load_views(root, size=(24, 32) if half else None, dtype=torch.float64)
            height, width = views.image_size
            k = views.camera.intrinsics(views.image_size)[0].numpy()
            y, x = np.mgrid[:height, :width] + 0.5
            rays = np.stack([x, y, np.ones_like(x)], -1) @ np.linalg.inv(k).T
            whole = (views.masks[0] == 1).numpy()
            error = abs(views.rgb[0].permute(1, 2, 0).numpy() - scene(rays))[whole]
            assert 60 < whole.sum() < 0.5 * whole.size
            assert error.max() < (0.03 if half else 0.012)  # means over pixels; steps of 1 / 255
            # The mask is that of the directions that the photo's mask shows.
            u, v = lens_in(root).pixels(rays[..., 0], rays[..., 1])
            far, margin = np.hypot(u - 50, v - 30), 6 if half else 1.5
            mask = views.masks[0].numpy()
            assert (mask[far < 20 - margin] == 1).all()
            assert (mask[far > 20 + margin] == 0).all()


def test_margins_hold_nothing_that_the_lens_did_not_see(tmp_path):
    """A pincushion, whose corners would lie outside; and barrels, of which nothing is cut off."""
    barrel = ("OPENCV_FISHEYE", MODELS["OPENCV_FISHEYE"])
    lenses = [("SIMPLE_RADIAL", [80, 47, 37, bend]) for bend in (0.12, -0.12)] + [barrel]
    for i, found in enumerate(ask_colmap(tmp_path, lenses)):
        root = add_photos(tmp_path / str(i), found["rays"])
        photos = load_photos(root)
        height, width = photos.image_size
        assert ((height, width) != (HEIGHT, WIDTH)) == (i == 0)
        k = photos.camera.intrinsics((height, width))[0].numpy()
        corners = [[x, y, 1] for x in (0.5, width - 0.5) for y in (0.5, height - 0.5)]
        x, y, _ = np.linalg.solve(k, np.array(corners, np.float64).T)
        seen = np.stack(lens_in(root).pixels(x, y), 1)
        assert (seen > 0.5 - 1e-3).all()
        assert (seen < [WIDTH - 0.5 + 1e-3, HEIGHT - 0.5 + 1e-3]).all()
        if i == 0:  # and not much more than must be
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
