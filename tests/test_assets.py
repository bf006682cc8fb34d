"""The meshes of the project: made by their script, sound, and shaped as promised."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gendr.mesh import (
    Mesh,
    cube_sphere,
    example,
    example_file,
    example_names,
    icosphere,
    mesh_quality,
)
from support.cases import for_each
from support.scripts import imported

ASSETS = Path(__file__).parents[1] / "assets"
FILES = ["airplane", "chair", "lamp", "sphere_642", "sphere_1352", "teapot"]
CLOSED = ["airplane", "chair", "lamp", "sphere_642", "sphere_1352"]


def file(name):
    return example_file(name) if name in example_names() else ASSETS / f"{name}.obj"


def load(name):
    return Mesh.load(file(name), dtype=torch.float64)


def test_the_script_makes_these_files(tmp_path, monkeypatch):
    imported(monkeypatch, "make_assets", "assets").main(tmp_path)
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


@for_each(name=CLOSED, rotating=2)
def test_a_sphere_can_become_it(name):
    mesh = load(name)
    assert mesh.is_watertight
    assert mesh.volumes.item() > 0
    quality = mesh_quality(mesh)
    assert (quality["parts"], quality["genus"]) == (1, 0)


@for_each("name, made", [("sphere_642", icosphere(3)), ("sphere_1352", cube_sphere(15))])
def test_spheres(name, made):
    mesh = load(name)
    assert_close(mesh.vertices, made.vertices.double(), rtol=0, atol=1e-6)
    assert_close(mesh.faces, made.faces)


@for_each(
    "name, counts", [("airplane", (1000, 2000)), ("chair", (400, 2000)), ("lamp", (400, 2000))]
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


def test_teapot_control_points():
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

    module = imported(monkeypatch, "make_photos", "assets")
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
