"""The meshes of the project: made by their script, sound, and shaped as promised."""

import importlib.util
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gendr.mesh import Mesh, cube_sphere, example, example_file, example_names, icosphere
from support.cases import for_each

ASSETS = Path(__file__).parents[1] / "assets"
FILES = ["airplane", "chair", "lamp", "sphere_642", "sphere_1352", "teapot"]
CLOSED = ["airplane", "chair", "lamp", "sphere_642", "sphere_1352"]


def file(name):
    return example_file(name) if name in example_names() else ASSETS / f"{name}.obj"


def load(name):
    return Mesh.load(file(name), dtype=torch.float64)


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("make_assets", ASSETS / "make_assets.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up by name.
    import sys

    sys.modules["make_assets"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["make_assets"]


def test_the_script_makes_these_files(script, tmp_path):
    script.main(tmp_path)
    assert sorted(p.stem for p in tmp_path.iterdir()) == sorted(FILES)
    for name in FILES:
        made = tmp_path / f"{name}.obj"
        new, old = (path.read_text().split("\n") for path in (made, file(name)))
        assert len(new) == len(old)
        # The libraries of another machine may round the last digit the other way; nothing more.
        for a, b in zip(new, old, strict=True):
            if a != b:
                assert a.startswith("v ")
                assert np.allclose(*(np.array(x[2:].split(), float) for x in (a, b)), atol=2e-6)


@for_each(name=FILES)
def test_small_and_clean(name):
    assert file(name).stat().st_size < 300_000
    mesh = load(name)
    assert len(torch.unique(mesh.vertices, dim=0)) == len(mesh.vertices)
    assert len(torch.unique(mesh.faces)) == len(mesh.vertices)
    assert (mesh.face_areas > 1e-8).all()


@pytest.mark.parametrize("name", CLOSED)
def test_a_sphere_can_become_it(name):
    mesh = load(name)
    assert mesh.is_watertight
    assert mesh.volumes.item() > 0
    euler = len(mesh.vertices) - len(mesh.edges) + len(mesh.faces)
    assert euler == 2  # closed, connected and without handles, or else two parts and a handle:
    reached = torch.zeros(len(mesh.vertices), dtype=torch.bool)
    reached[0] = True
    for _ in range(len(mesh.vertices)):
        before = reached.sum()
        reached[mesh.edges[reached[mesh.edges].any(1)].reshape(-1)] = True
        if reached.sum() == before:
            break
    assert reached.all()


@pytest.mark.parametrize(
    ("name", "made"), [("sphere_642", icosphere(3)), ("sphere_1352", cube_sphere(15))]
)
def test_spheres(name, made):
    mesh = load(name)
    assert_close(mesh.vertices, made.vertices.double(), rtol=0, atol=1e-6)
    assert_close(mesh.faces, made.faces)


@pytest.mark.parametrize(
    ("name", "counts"), [("airplane", (1000, 2000)), ("chair", (400, 2000)), ("lamp", (400, 2000))]
)
def test_measures(name, counts):
    mesh = load(name)
    assert counts[0] <= len(mesh.vertices) <= counts[1]
    low, high = (x[0] for x in mesh.bounding_box())
    assert (high - low).max().item() == pytest.approx(1, abs=1e-5)
    assert_close(low, -high, rtol=0, atol=2e-6)
    # All are their own mirror image in x.
    mirrored = mesh.vertices * torch.tensor([-1.0, 1, 1], dtype=torch.float64)
    assert torch.cdist(mirrored, mesh.vertices).amin(1).max() < 1e-5


def width_at(mesh, axis, place):
    """Extent along every axis of the section of a mesh at `place` on `axis`."""
    ends = mesh.vertices[mesh.edges]
    t = (place - ends[:, 0, axis]) / (ends[:, 1, axis] - ends[:, 0, axis])
    cut = ends[(t >= 0) & (t <= 1)]
    t = t[(t >= 0) & (t <= 1)][:, None]
    points = cut[:, 0] + t * (cut[:, 1] - cut[:, 0])
    return points.amax(0) - points.amin(0)


def test_airplane_is_an_airliner():
    mesh = load("airplane")
    span, height, length = (h - lo for lo, h in zip(*(x[0] for x in mesh.bounding_box()),
                                                    strict=True))  # fmt: skip
    assert 0.8 < span / length < 1.1
    assert 0.2 < height / length < 0.35
    nose = width_at(mesh, 2, 0.3)
    assert 0.07 < nose[0] < 0.14  # a fuselage of circular section ...
    assert nose[0].item() == pytest.approx(nose[1].item(), rel=0.05)
    assert width_at(mesh, 2, -0.0)[0] > 0.3  # ... wings in the middle ...
    tip = mesh.vertices[mesh.vertices[:, 0] > 0.45]
    assert tip[:, 2].mean() < -0.1  # ... swept backwards ...
    assert tip[:, 1].mean() > width_at(mesh, 2, 0.3)[1] * -0.5 + mesh.vertices[:, 1].min()
    top = mesh.vertices[mesh.vertices[:, 1].argmax()]
    assert top[2] < -0.35  # ... and a fin at the tail
    outboard = width_at(mesh, 0, 0.3)
    assert 0.05 < outboard[1] / outboard[2] < 0.2  # thickness over chord


def test_what_comes_with_the_package():
    assert example_names() == ("chair",)
    sizes = [example_file(name).stat().st_size for name in example_names()]
    assert sum(sizes) < 150_000
    assert len(example("chair", dtype=torch.float64).faces) == len(load("chair").faces)
    with pytest.raises(ValueError, match="unknown example 'chiar'; allowed: chair"):
        example("chiar")
    assert set(example_names()) <= set(CLOSED)
    # The wheel takes along what the project names.
    text = (ASSETS.parent / "pyproject.toml").read_text()
    assert re.search(r'^gendr = \[.*"assets/\*\.obj"', text, re.M)


def test_chair_stands_on_four_legs():
    mesh = load("chair")
    feet = mesh.vertices[mesh.vertices[:, 1] < -0.45]
    quadrants = {(bool(x > 0), bool(z > 0)) for x, _, z in feet.tolist()}
    assert len(quadrants) == 4
    assert width_at(mesh, 1, -0.2)[0] > 0.4
    back = mesh.vertices[mesh.vertices[:, 1] > 0.3]
    assert back[:, 2].max() < 0  # behind the seat


def test_teapot_control_points(script):
    lines = (ASSETS / "teapot_patches.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line[0] not in "#p"]
    points = np.array([r for r in rows if len(r) == 3], float)
    patches = np.array([r for r in rows if len(r) == 16], int)
    assert points.shape == (306, 3)
    assert patches.shape == (32, 16)
    assert patches.min() == 1
    assert patches.max() == 306
    # The published teapot reaches from -3 to 3.525 (control points), 2 to each side, 3.15 up.
    assert points.min(0).tolist() == [-3, -2, 0]
    assert points.max(0).tolist() == [3.525, 2, 3.15]
    mirrored = points * [1, -1, 1]
    for p in mirrored:
        assert np.abs(points - p).sum(1).min() < 1e-12


def test_teapot_is_the_teapot():
    mesh = load("teapot")
    assert 2000 <= len(mesh.faces) <= 6000
    assert mesh.vertices.norm(dim=-1).max().item() == pytest.approx(1, abs=1e-5)
    low, high = (x[0] for x in mesh.bounding_box())
    # Its surface is 6.434 long (the spout ends at 3.434), 3.15 high and 4 deep.
    size = (high - low) / (high - low)[1] * 3.15
    assert_close(size, torch.tensor([6.434, 3.15, 4.0], dtype=torch.float64), rtol=0, atol=2e-3)
    assert mesh.volumes.item() > 0
    # The body is a surface of revolution: its widest ring is 2 all round, its normals outward.
    scale = 3.15 / (high - low)[1].item()
    points = mesh.face_vertices.mean(1) * scale
    axis = points[:, 0] - (3 - 6.434 / 2)  # the lid's middle, x = 0 of the published data
    radius = torch.hypot(axis, points[:, 2])
    height = points[:, 1] + 3.15 / 2
    body = (radius > 1.9) & (radius < 2.0) & (height > 0.6) & (height < 1.4)
    assert body.sum() > 50
    normal = mesh.face_normals
    outward = (normal[:, 0] * axis + normal[:, 2] * points[:, 2]) / radius
    assert (outward[body & (points[:, 2].abs() > 1)] > 0.9).all()
    bottom = height < 0.05
    assert (normal[bottom][:, 1] < -0.7).all()
    assert math.isclose(high[1] - low[1], 3.15 / scale)


def test_the_sample_photos_are_what_their_script_makes(tmp_path, monkeypatch):
    """Three files of each kind; another machine may round a few pixels the other way."""
    from PIL import Image

    spec = importlib.util.spec_from_file_location("make_photos", ASSETS / "make_photos.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    every = module.cameras()
    monkeypatch.setattr(module, "cameras", lambda: every[[0, 6]])
    monkeypatch.setattr(module, "FRAMES", 2)
    module.main(tmp_path)
    for made, kept in (
        ("photos/images/000.png", "photos/images/000.png"),
        ("photos/images/001.png", "photos/images/006.png"),
        ("photo.png", "photo.png"),
        ("video/1.png", "video/1.png"),
        ("video/2.png", "video/2.png"),
    ):
        new, old = (
            np.asarray(Image.open(path).convert("RGBA"), float)
            for path in (tmp_path / made, ASSETS / kept)
        )
        assert new.shape == old.shape == (128, 128, 4)
        assert (np.abs(new - old).max(-1) > 3).mean() < 0.002
    frames = json.loads((ASSETS / "photos" / "transforms.json").read_text())["frames"]
    poses = np.array([frame["transform_matrix"] for frame in frames])
    assert np.allclose(poses, every.camera_to_world, atol=1e-6)
    sizes = (p.stat().st_size for p in ASSETS.rglob("*.png"))
    assert sum(sizes) < 300_000
