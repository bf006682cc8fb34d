"""The meshes of the project: made by their script, sound, and shaped as promised."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from gendr.mesh import (
    Mesh,
    example,
    example_file,
    example_names,
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
