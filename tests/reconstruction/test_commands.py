"""The commands of reconstruction: they do what they say, and bad input ends in one line."""

import json

import numpy as np
import pytest
from PIL import Image

from gendr.cli import main
from gendr.mesh import cube, icosphere
from gendr.reconstruction import ShapeNetRenderings, making


def run(*argv):
    return main([str(a) for a in argv])


def fails(capsys, *argv):
    """The one line with which a command ends."""
    assert run(*argv) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.fixture
def meshes(tmp_path):
    folder = tmp_path / "meshes"
    folder.mkdir()
    icosphere(1).save(folder / "ball.obj")
    cube().save(folder / "box.ply")
    (folder / "broken.obj").write_text("v 0 0\nf 1 2 3\n")
    return folder


def test_dataset_of_two_classes(tmp_path, meshes, monkeypatch, capsys):
    pytest.importorskip("igl", reason="libigl fills the interior; gendr[reconstruction] has it")
    monkeypatch.setattr(making, "SAMPLES", 1)
    out = tmp_path / "out"
    all_train = ["--shares", 1, 0, 0]
    assert run("dataset", meshes, "-o", out, "--name", "airplane", *all_train) == 0
    shown = capsys.readouterr()
    assert "airplane, train 2, val 0, test 0" in shown.out
    assert "skipped broken: " in shown.err
    again = ["dataset", meshes / "box.ply", "-o", out, "--name", "boxes", "--shares", 0, 0, 1]
    assert run(*again, "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    assert ShapeNetRenderings(out).counts == (2,)
    assert ShapeNetRenderings(out, split="test").classes == (("boxes", "boxes"),)
    assert set(json.loads((out / "dataset.json").read_text())) == {"02691156", "boxes"}
    for name in ("airplane", "boxes"):
        with Image.open(out / f"sheet-{name}.png") as sheet:
            pixels = np.asarray(sheet)
        assert pixels.shape[2] == 3
        assert (pixels < 128).any()
    assert not (out / making.PARTIAL).exists()


def test_dataset_refuses(tmp_path, meshes, capsys):
    out = tmp_path / "out"
    assert "neither a file nor a folder" in fails(
        capsys, "dataset", tmp_path / "no", "-o", out, "--name", "x"
    )
    assert "none of 1 shapes" in fails(
        capsys, "dataset", meshes / "broken.obj", "-o", out, "--name", "x"
    )
    assert "letters, digits" in fails(capsys, "dataset", meshes, "-o", out, "--name", "../x")
    assert "shares must be" in fails(
        capsys, "dataset", meshes, "-o", out, "--name", "x", "--shares", 0, 0, 0
    )
    assert "must be a whole number >= 1" in fails(
        capsys, "dataset", meshes, "-o", out, "--name", "x", "--workers", 0
    )
