"""The files of the benchmark, written as they were published, and read again."""

import zipfile

import numpy as np
import pytest
import torch

from lab.data.npz import map_array
from lab.reconstruction import CLASSES, ShapeNetRenderings, find_class
from lab.reconstruction.renderings import SIDE, VIEWS, VOXELS, camera_of_view
from support.cases import for_each


def files(folder, name, split="train", shapes=2, seed=0, save=np.savez):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (shapes * VIEWS, 4, SIDE, SIDE), np.uint8)
    voxels = rng.integers(0, 2, (shapes, VOXELS, VOXELS, VOXELS), np.uint8)
    save(folder / f"{name}_{split}_images.npz", images)
    save(folder / f"{name}_{split}_voxels.npz", voxels)
    return images, voxels


def test_the_thirteen_classes():
    assert len(CLASSES) == len({one.id for one in CLASSES}) == 13
    assert find_class("Chair") == find_class("03001627") == ("03001627", "chair")
    assert find_class("watercraft").name == "vessel"
    assert find_class("Jet", ["Jet"]) == ("Jet", "Jet")
    with pytest.raises(ValueError, match="airplane"):
        find_class("aeroplan")


@for_each(save=[np.savez, np.savez_compressed])
def test_shapes_are_read_as_our_cameras_see_them(tmp_path, save):
    chairs, chair_voxels = files(tmp_path, "03001627", shapes=3, seed=1, save=save)
    planes, plane_voxels = files(tmp_path, "02691156", shapes=2, seed=2, save=save)
    data = ShapeNetRenderings(tmp_path, ["chair", "airplane"])
    assert len(data) == 5
    assert data.counts == (3, 2)
    assert [one.name for one in data.classes] == ["chair", "airplane"]
    shapes, views = torch.tensor([0, 4, 2, 4]), torch.tensor([0, 23, 5, 0])
    found = data.images(shapes, views)
    raw = [chairs[0], planes[24 + 23], chairs[2 * 24 + 5], planes[24]]
    assert torch.equal(found, torch.from_numpy(np.stack(raw)[..., ::-1] / 255).float())
    cells = data.voxels(torch.tensor([1, 3])).numpy()
    for cell, hold in zip(cells, (chair_voxels[1], plane_voxels[0]), strict=True):
        for x, y, z in ((0, 0, 0), (3, 20, 9), (31, 2, 30)):
            assert cell[x, y, z] == hold[y, x, 31 - z]
    assert data.class_of(torch.tensor([0, 2, 3, 4])).tolist() == [0, 0, 1, 1]
    one = data[-1]
    assert one.images.shape == (24, 4, 64, 64)
    assert one.shape_class.name == "airplane"
    assert torch.equal(one.images[7], data.images(torch.tensor([4]), torch.tensor([7]))[0])


def test_classes_are_those_that_are_there_unless_named(tmp_path):
    for name in ("Jet", "03001627", "02691156"):
        files(tmp_path, name, shapes=1)
    files(tmp_path, "04379243", split="val", shapes=1)
    found = ShapeNetRenderings(tmp_path).classes
    assert [one.name for one in found] == ["airplane", "chair", "Jet"]
    assert [one.name for one in ShapeNetRenderings(tmp_path, split="val").classes] == ["table"]


def test_views_go_round_clockwise():
    """View 6 is a quarter turn from view 0, to azimuth -90 degrees."""
    eyes = camera_of_view(torch.tensor([0, 6, 12])).eye
    height, ring = 2.732 * 0.5, 2.732 * 0.75**0.5
    wanted = [[0, height, -ring], [-ring, height, 0], [0, height, ring]]
    assert torch.allclose(eyes, torch.tensor(wanted), atol=1e-5)


def test_a_draw_is_two_views_of_shapes_of_all_classes(tmp_path):
    files(tmp_path, "03001627", shapes=1)
    files(tmp_path, "02691156", shapes=9, seed=3)
    data = ShapeNetRenderings(tmp_path)
    generator = torch.Generator().manual_seed(5)
    pairs = data.draw(256, generator)
    assert pairs.images.shape == (2, 256, 4, 64, 64)
    assert (pairs.views[0] != pairs.views[1]).all()
    assert torch.equal(pairs.images[1, 7], data.images(pairs.shapes[7:8], pairs.views[1, 7:8])[0])
    chairs = (data.class_of(pairs.shapes) == 1).float().mean()
    assert 0.4 < chairs < 0.6  # although planes are nine times as many
    assert set(pairs.shapes.tolist()) == set(range(10))
    generator.manual_seed(5)
    again = data.draw(256, generator)
    assert torch.equal(again.shapes, pairs.shapes)
    assert torch.equal(again.views, pairs.views)


def damaged(path, harm):
    """A file of images or voxels, harmed in some way."""
    content = np.load(path)["arr_0"]
    if harm == "truncated":
        path.write_bytes(path.read_bytes()[:-5000])
    elif harm == "no zip":
        path.write_bytes(b"404: not found")
    elif harm in ("cut inside", "empty"):
        with zipfile.ZipFile(path) as archive:
            raw = archive.read("arr_0.npy")
        with zipfile.ZipFile(path, "w") as archive:
            if harm == "cut inside":
                archive.writestr("arr_0.npy", raw[:-4096])
    else:
        np.savez(path, HARMED[harm](content))


HARMED = {
    "floats": lambda x: x.astype(np.float32) / 255,
    "RGB": lambda x: x[:, :3],
    "not square": lambda x: x[..., :32],
    "a view is missing": lambda x: x[:-1],
    "a shape is missing": lambda x: x[:-24],
    "objects": lambda _: np.array([{}, None], dtype=object),
}


@for_each(
    "harm, message",
    [
        ("truncated", "not a complete npz file"),
        ("no zip", "not a complete npz file"),
        ("cut inside", "cut short"),
        ("empty", "holds no array"),
        ("objects", "Python objects"),
        ("floats", "must hold uint8 images"),
        ("RGB", r"\[48, 3, 64, 64\]"),
        ("not square", "must hold square images"),
        ("a view is missing", "24 images of each shape, got 47"),
        ("a shape is missing", "do not belong together"),
    ],
)
def test_damaged_files_are_named(tmp_path, harm, message):
    files(tmp_path, "03001627")
    damaged(tmp_path / "03001627_train_images.npz", harm)
    with pytest.raises(ValueError, match=message) as caught:
        ShapeNetRenderings(tmp_path)
    assert "03001627_train_images.npz" in str(caught.value)


def test_voxels_of_another_resolution_are_refused(tmp_path):
    files(tmp_path, "03001627")
    np.savez(tmp_path / "03001627_train_voxels.npz", np.zeros((2, 16, 16, 16)))
    with pytest.raises(ValueError, match=r"voxels \[N, 32, 32, 32\], got \[2, 16, 16, 16\]"):
        ShapeNetRenderings(tmp_path)


def test_what_is_missing_is_said_with_what_is_there(tmp_path):
    files(tmp_path, "03001627")
    missing = FileNotFoundError
    for arguments, error, message in (
        ({"classes": ["airplane"]}, missing, r"02691156_train_images.npz.*there are chair"),
        ({"folder": tmp_path / "nowhere"}, missing, "no folder"),
        ({"split": "test"}, ValueError, r"has no file \*_test_images.npz"),
        ({"split": "tset"}, ValueError, "'tset'"),
        ({"classes": ["chair", "03001627"]}, ValueError, "chair twice"),
    ):
        with pytest.raises(error, match=message):
            ShapeNetRenderings(**{"folder": tmp_path, **arguments})
    (tmp_path / "03001627_train_voxels.npz").unlink()
    with pytest.raises(missing, match=r"03001627_train_voxels\.npz"):
        ShapeNetRenderings(tmp_path, ["chair"])


def test_compressed_files_are_unpacked_once_and_again_when_they_change(tmp_path):
    path, cache = tmp_path / "a.npz", tmp_path / "cache"
    np.savez_compressed(path, np.arange(6))
    assert map_array(path, cache).tolist() == [0, 1, 2, 3, 4, 5]
    (copy,) = cache.iterdir()
    first = copy.stat().st_mtime_ns
    assert map_array(path, cache).tolist() == [0, 1, 2, 3, 4, 5]
    assert copy.stat().st_mtime_ns == first
    np.savez_compressed(path, np.arange(60))
    assert len(map_array(path, cache)) == 60
    assert not [file for file in cache.iterdir() if file.name.startswith(".new")]


def test_arrays_are_not_read_before_they_are_used(tmp_path):
    files(tmp_path, "03001627", shapes=40)
    array = map_array(tmp_path / "03001627_train_images.npz")
    assert isinstance(array, np.memmap)
    assert not array.flags.writeable
