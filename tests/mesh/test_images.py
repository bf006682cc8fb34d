"""Image files that are larger than allowed, as textures and photos: refused by their header."""

import struct
import tracemalloc
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from gendr.cli import main
from gendr.mesh import Mesh, grid, load_texture
from lab.reconstruction.inputs import read_image

SIZE = "20000 x 30000 pixels, 600 megapixels, and at most 150 are read"


def write_hollow_png(path, width=20_000, height=30_000):
    """The header of an image, by default of 600 megapixels, and next to nothing behind it."""
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
             (b"IDAT", zlib.compress(b"")), (b"IEND", b"")]  # fmt: skip
    data = b"\x89PNG\r\n\x1a\n"
    for kind, content in parts:
        check = struct.pack(">I", zlib.crc32(kind + content))
        data += struct.pack(">I", len(content)) + kind + content + check
    path.write_bytes(data)


@pytest.fixture
def textured(tmp_path):
    """An OBJ and a GLB with a texture of 3 x 2 pixels."""
    mesh = grid(1)
    uvs = mesh.vertices[:, :2] / 2 + 0.5
    texture = torch.arange(18).reshape(2, 3, 3) / 255
    for ending in ("obj", "glb"):
        Mesh(mesh.vertices, mesh.faces, uvs=uvs, face_uvs=mesh.faces, texture=texture).save(
            tmp_path / f"m.{ending}"
        )
    return tmp_path


def replace_image(path, image):
    """Another file in place of the PNG in a GLB."""
    data = path.read_bytes()
    start = data.index(b"\x89PNG")
    end = data.index(b"IEND") + 8
    assert len(image) <= end - start
    path.write_bytes(data[:start] + image.ljust(end - start, b"\0") + data[end:])


@pytest.mark.parametrize("ending", ["obj", "glb"])
def test_textures_are_refused_by_their_header(textured, ending, capfd):
    path = textured / f"m.{ending}"
    assert Mesh.load(path, max_megapixels=6e-6).texture.shape == (2, 3, 3)
    with pytest.raises(ValueError, match="3 x 2 pixels, 6e-06 megapixels, and at most 5e-06"):
        Mesh.load(path, max_megapixels=5e-6)
    write_hollow_png(textured / "m.png")
    if ending == "glb":
        replace_image(path, (textured / "m.png").read_bytes())
    for command in (["render", str(path), "-o", str(textured / "o.png")], ["fit", str(path)]):
        assert main(command) == 2
        err = capfd.readouterr().err
        assert err.startswith("gendr: error: ")
        assert f"m.{'png' if ending == 'obj' else 'glb'} has {SIZE}; shrink it, or raise" in err
        assert err.count("\n") == 1


def test_photos_are_refused_by_their_header(tmp_path, capfd):
    write_hollow_png(tmp_path / "a.png")
    with pytest.raises(ValueError, match=SIZE):
        load_texture(tmp_path / "a.png")
    (tmp_path / "transforms.json").write_text('{"frames": [{"file_path": "a.png"}]}')
    assert main(["fit", str(tmp_path)]) == 2
    err = capfd.readouterr().err
    assert f"a.png has {SIZE}" in err
    assert err.count("\n") == 1
    assert main(["fit", str(tmp_path), "--max-megapixels", "1000", "--image-size", "8"]) == 2
    assert "no intrinsics" in capfd.readouterr().err


def test_a_texture_is_not_copied_on_its_way(tmp_path):
    Image.new("RGB", (800, 600), (9, 80, 200)).save(tmp_path / "t.png", compress_level=1)
    (tmp_path / "m.mtl").write_text("newmtl A\nmap_Kd t.png\n")
    (tmp_path / "m.obj").write_text(
        "mtllib m.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 0 1\nusemtl A\nf 1/1 2/2 3/3\n"
    )
    Mesh.load(tmp_path / "m.obj")
    tracemalloc.start()  # it counts the arrays, not what torch and Pillow hold
    try:
        assert Mesh.load(tmp_path / "m.obj").texture.shape == (600, 800, 3)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * 8 * 3 * 600 * 800
    finally:
        tracemalloc.stop()


def test_the_limit_of_pillow_is_back_after_the_last_reader(textured, tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5)
    for ending in ("obj", "glb"):
        texture = Mesh.load(textured / f"m.{ending}").texture  # of six pixels
        np.testing.assert_allclose(texture.flatten() * 255, np.arange(18), atol=1e-4)
    Image.new("L", (1, 1)).save(tmp_path / "a.png")
    assert load_texture(tmp_path / "a.png").shape == (1, 1, 3)
    (tmp_path / "a.png").write_text("x")
    with pytest.raises(ValueError, match="no readable image"):
        load_texture(tmp_path / "a.png")
    assert Image.MAX_IMAGE_PIXELS == 5


def test_a_damaged_texture_of_a_glb_is_left_out(textured):
    write_hollow_png(textured / "m.png", 3, 2)
    replace_image(textured / "m.glb", (textured / "m.png").read_bytes())
    with pytest.warns(UserWarning, match="its texture number 0 is no readable image"):
        mesh = Mesh.load(textured / "m.glb")
    assert mesh.texture is None


def test_grey_images_of_any_depth_are_one_image(tmp_path):
    """16 bits, 32 bits and fractions in [0, 1] are not cut to 8 bits by any reader."""
    steps = np.zeros((24, 24), np.float32)
    steps[6:18, 4:16] = np.linspace(0.2, 1, 12)
    deep = np.round(steps * 65535)
    grey = {"f.tif": steps, "i.png": deep.astype(np.uint16), "j.tif": deep.astype(np.int32)}
    Image.fromarray(np.round(steps * 255).astype(np.uint8)).save(tmp_path / "a.png")

    load = load_texture, lambda path: read_image(path, 16)
    wanted = [each(tmp_path / "a.png") for each in load]
    assert all(float(each.max()) == 1 and float(each.min()) == 0 for each in wanted)
    for name, values in grey.items():
        Image.fromarray(values).save(tmp_path / name)
        for each, want in zip(load, wanted, strict=True):
            torch.testing.assert_close(each(tmp_path / name), want, atol=3e-3, rtol=0, msg=name)
