"""The data of the sorting experiments: files, numbers of several digits, house numbers."""

import functools
import gzip
import io
import os
import struct
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from lab.data import (
    HouseNumbers,
    MultiDigits,
    download_mnist,
    house_numbers,
    mnist,
    mnist_digits,
    mnist_splits,
    read_idx,
    svhn,
    svhn_splits,
)
from lab.data.svhn import Box
from support.cases import for_each


def idx(array, magic=b"\0\0\x08"):
    header = magic + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def some_digits(count, seed=0):
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (count, 4, 3), dtype=np.uint8)
    return images, generator.integers(0, 10, count, dtype=np.uint8)


def write_mnist(folder, train=9, test=4, compress=True):
    for part, count in (("train", train), ("t10k", test)):
        images, labels = some_digits(count, seed=count)
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            path = folder / f"{part}-{kind}-ubyte"
            if compress:
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(idx(array)))
            else:
                path.write_bytes(idx(array))
    return folder


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


# -- idx files ----------------------------------------------------------------------------------


@for_each(compress=[False, True], shape=[(5,), (2, 3), (4, 3, 2), (0, 2)])
def test_idx(tmp_path, shape, compress):
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    data = idx(array)
    path = tmp_path / "any"
    path.write_bytes(gzip.compress(data) if compress else data)
    tensor = read_idx(path)
    assert tensor.dtype == torch.uint8
    np.testing.assert_array_equal(tensor.numpy(), array)


ARRAY = np.arange(12, dtype=np.uint8).reshape(3, 4)
DAMAGED = {
    "nothing": (b"", "no idx file: it starts with nothing"),
    "two bytes": (b"\0\0", "no idx file: it starts with 0000"),
    "text": (b"<html>", "no idx file: it starts with 3c68746d"),
    "no dimensions": (b"\0\0\x08\0", "no idx file"),
    "floats": (idx(ARRAY, b"\0\0\x0d"), "must hold bytes .*, got type 0x0d"),
    "header": (idx(ARRAY)[:9], "ends within its header"),
    "short": (idx(ARRAY)[:-1], r"must hold 12 bytes for its shape \[3, 4\], got 11"),
    "claim": (gzip.compress(b"\0\0\x08\3" + b"\xff" * 12), "would unpack from .* to 792281624"),
    "beyond": (
        lambda: gzip.compress(idx(ARRAY) + bytes(1 << 28)),
        "for its shape .3, 4., got 1012",
    ),
    "long": (idx(ARRAY) + b"\0", "got 13"),
    "gzip": (gzip.compress(idx(ARRAY))[:-9], "damaged gzip file"),
    "gzip header": (gzip.compress(idx(ARRAY))[:5], "damaged gzip file"),
    "gzip sum": (gzip.compress(idx(ARRAY))[:-8] + b"\0" * 8, "damaged gzip file"),
}


@pytest.mark.rotating(4, group="long")
@for_each(name=DAMAGED)
def test_damaged_idx(tmp_path, name):
    data, words = DAMAGED[name]
    path = tmp_path / "some-file"
    path.write_bytes(data() if callable(data) else data)
    with pytest.raises(ValueError, match=words) as caught:
        read_idx(path)
    assert "some-file" in str(caught.value)
    assert "\n" not in str(caught.value)


@for_each(compress=[False, True])
def test_mnist_digits(tmp_path, compress):
    images, labels = mnist_digits(write_mnist(tmp_path, compress=compress), "t10k")
    want = some_digits(4, seed=4)
    np.testing.assert_array_equal(images.numpy(), want[0])
    np.testing.assert_array_equal(labels.numpy(), want[1])


def test_mnist_digits_that_do_not_fit(tmp_path):
    write_mnist(tmp_path)
    labels = tmp_path / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(idx(np.zeros(8, np.uint8)))
    with pytest.raises(ValueError, match=r"labels of train in .* with N = 9, got \[8\]"):
        mnist_digits(tmp_path, "train")
    labels.write_bytes(idx(np.full(9, 10, np.uint8)))
    with pytest.raises(ValueError, match=r"must be 0 .. 9, got up to 10"):
        mnist_digits(tmp_path, "train")
    labels.unlink()
    with pytest.raises(FileNotFoundError, match=r"no train-labels-idx1-ubyte.gz .* in .*"):
        mnist_digits(tmp_path, "train")


# -- numbers of several digits ------------------------------------------------------------------


def numbered(count=23, side=5):
    """Every pixel of image i is 255 - i; its digit follows no simple rule."""
    images = (255 - torch.arange(count).byte())[:, None, None].expand(count, side, side - 1)
    return MultiDigits(images, (torch.arange(count) * 7 % 10).byte())


def test_digits_stand_side_by_side():
    some = numbered()
    for count in (1, 4):
        numbers = MultiDigits(some.images, some.labels, count)
        images, values = numbers.draw(6, 3, seeded())
        assert images.shape == (6, 3, 1, 5, 4 * count) == (6, 3, *numbers.shape)
        assert (images.dtype, values.dtype) == (torch.float32, torch.int64)
        for image, value in zip(images.flatten(0, 1), values.flatten(), strict=True):
            parts = (255 * image[0]).round().int().split(4, -1)
            assert all(int(part.min()) == int(part.max()) for part in parts)
            written = "".join(str((255 - int(part[0, 0])) * 7 % 10) for part in parts)
            assert int(value) == int(written)


def test_draws_are_uniform_and_follow_the_generator():
    numbers = numbered(count=10)
    images, values = numbers.draw(500, 4, seeded())
    assert all(map(torch.equal, (images, values), numbers.draw(500, 4, seeded())))
    assert not torch.equal(values, numbers.draw(500, 4, seeded(1))[1])
    for power in (1, 10, 100, 1000):
        counts = (values // power % 10).flatten().bincount(minlength=10)
        assert 140 < counts.min() <= counts.max() < 260  # 200 on average
    # The places are drawn one by one.
    ends = torch.stack([values // 1000, values % 10]).flatten(1)
    assert abs(torch.corrcoef(ends.float())[0, 1].item()) < 0.1


def test_mnist_splits(tmp_path, monkeypatch):
    write_mnist(tmp_path)
    monkeypatch.setattr(mnist, "VALIDATION", 2)
    train, validation, test = mnist_splits(tmp_path)
    images, labels = (torch.from_numpy(x) for x in some_digits(9, seed=9))
    assert torch.equal(torch.cat([train.images, validation.images]), images)
    assert torch.equal(torch.cat([train.labels, validation.labels]), labels)
    assert [len(x.images) for x in (train, validation, test)] == [7, 2, 4]
    assert len({x.digest() for x in (train, validation, test)}) == 3
    assert mnist_splits(tmp_path).train.digest() == train.digest()
    before = train.digest()
    train.images[0, 0, 0] += 1
    assert train.digest() != before
    monkeypatch.setattr(mnist, "VALIDATION", 9)
    with pytest.raises(ValueError, match=r"more than 9 training images.*got 9"):
        mnist_splits(tmp_path)


def test_bad_digits():
    images, labels, wide = (
        torch.zeros(3, 4, 4).byte(),
        torch.zeros(3).byte(),
        torch.zeros(2, 3, 9, 12),
    )
    values = torch.zeros(2).long()
    for message, call in {
        "images must have shape": lambda: MultiDigits(images[0], labels),
        r"labels must have shape .* N = 3": lambda: MultiDigits(images, labels[:2]),
        "digits must be >= 1": lambda: MultiDigits(images, labels, 0),
        "at most the side of the images, 9": lambda: HouseNumbers(wide.byte(), values, 10),
        "more than 2 house num.*, got 2": lambda: HouseNumbers(wide.byte(), values, 3).split(2),
    }.items():
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.skipif("GENDR_DATA" not in os.environ, reason="GENDR_DATA names no folder of data")
def test_real_mnist():
    train, validation, test = mnist_splits(Path(os.environ["GENDR_DATA"]) / "mnist")
    assert [len(x.images) for x in (train, validation, test)] == [55_000, 5_000, 10_000]
    assert train.shape == (1, 28, 112)
    assert train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert test.labels[:5].tolist() == [7, 2, 1, 0, 4]
    both = torch.cat([train.images, validation.images]).float() / 255
    assert float(both.mean()) == pytest.approx(0.1307, abs=5e-5)  # the usual normalisation of MNIST
    assert float(both.std()) == pytest.approx(0.3081, abs=5e-5)


# -- the download -------------------------------------------------------------------------------


def test_the_download_asks_for_what_is_missing(tmp_path, monkeypatch):
    pooch = pytest.importorskip("pooch", reason="pooch is not installed")
    calls = []
    monkeypatch.setattr(pooch, "retrieve", lambda url, **options: calls.append((url, options)))
    (tmp_path / "t10k-labels-idx1-ubyte").touch()
    missing = [name for name in mnist.MNIST_SHA256 if "t10k-labels" not in name]
    for _ in range(2):  # the second time nothing is missing
        download_mnist(tmp_path)
        for name, (url, options) in zip(missing, calls, strict=True):
            assert url == mnist.MNIST_URL + name
            known = f"sha256:{mnist.MNIST_SHA256[name]}"  # which pooch compares
            assert options == {"known_hash": known, "fname": name, "path": tmp_path}
            (tmp_path / name).touch()
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(RuntimeError, match=r"needs pooch: pip install '\.\[training\]'"):
        download_mnist(tmp_path / "data")


# -- house numbers ------------------------------------------------------------------------------


def test_windows_of_house_numbers():
    count, side, window = 7, 9, 6
    index, row, column = torch.meshgrid(
        *(torch.arange(n, dtype=torch.uint8) for n in (count, side, side)), indexing="ij"
    )
    numbers = HouseNumbers(torch.stack([index, row, column], 1), 10 * torch.arange(count), window)
    images, values = numbers.draw(40, 5, seeded())
    assert images.shape == (40, 5, 3, window, window) == (40, 5, *numbers.shape)
    pixels = ((images + 1) * 127.5).round().int().flatten(0, 1)
    assert torch.equal(10 * pixels[:, 0, 0, 0], values.flatten().int())
    corners = pixels[:, :, 0, 0]
    inside = torch.arange(window)
    assert torch.equal(pixels[:, 0], corners[:, 0, None, None].expand(-1, window, window))
    assert torch.equal(
        pixels[:, 1], (corners[:, 1, None, None] + inside[:, None]).expand(-1, window, window)
    )
    assert torch.equal(
        pixels[:, 2], (corners[:, 2, None, None] + inside).expand(-1, window, window)
    )
    # All places and all numbers turn up, rows, columns and images of a list one by one.
    assert len(corners[:5, 1:].unique(dim=0)) > 1
    assert len({tuple(c) for c in corners[:, 1:].tolist()}) == 16
    assert len(set(values.flatten().tolist())) == count
    assert torch.equal(images, numbers.draw(40, 5, seeded())[0])


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def test_crop_is_wider_than_the_digits_but_within_the_image():
    # Pixel (x, y) is (x, y, 0).
    y, x = np.mgrid[:200, :250].astype(np.uint8)
    image = png(np.stack([x, y, 0 * x], -1))
    crop = svhn.crop(image, Box(50, 60, 150, 140, 1)).double()
    # 100 x 80 pixels become 130 x 104 from (35, 48) on.
    centres = (torch.arange(64, dtype=torch.float64) + 0.5) / 64
    want = (35 + 130 * centres - 0.5).expand(64, 64)
    torch.testing.assert_close(crop[0], want, atol=1, rtol=0)
    want = (48 + 104 * centres - 0.5)[:, None].expand(64, 64)
    torch.testing.assert_close(crop[1], want, atol=1, rtol=0)
    corner = svhn.crop(image, Box(-1, 0, 40, 40, 1)).double()  # the clipped one starts at 0
    torch.testing.assert_close(
        corner[0], (46.15 * centres - 0.5).clamp(min=0).expand(64, 64), atol=1, rtol=0
    )


# Names, and (left, top, width, height, label) of their digits.
HOUSES = {
    "1.png": [(10, 5, 8, 20, 1), (19, 6, 9, 20, 10)],
    "2.png": [(3, 4, 6, 12, 7)],
    "3.png": [(8, 2, 5, 10, 10), (2, 3, 5, 9, 4), (9, 4, 3, 6, 2)],
}
BOXES = {
    "1.png": Box(10, 5, 28, 26, 10),
    "2.png": Box(3, 4, 9, 16, 7),
    "3.png": Box(2, 2, 13, 12, 42),
}
KEYS = ("left", "top", "width", "height", "label")


@functools.cache
def hdf5():
    """A digitStruct.mat with `HOUSES`, written by h5py."""
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    file = io.BytesIO()
    with h5py.File(file, "w") as f:
        refs = f.create_group("#refs#")
        names = f.create_dataset("digitStruct/name", (len(HOUSES), 1), h5py.ref_dtype)
        boxes = f.create_dataset("digitStruct/bbox", (len(HOUSES), 1), h5py.ref_dtype)
        for i, (name, parts) in enumerate(HOUSES.items()):
            text = np.array([[ord(c)] for c in name], np.uint16)
            names[i, 0] = refs.create_dataset(f"name{i}", data=text).ref
            group = refs.create_group(f"box{i}")
            boxes[i, 0] = group.ref
            for key, values in zip(KEYS, zip(*parts, strict=True), strict=True):
                if len(values) == 1:
                    group.create_dataset(key, data=np.array([[float(values[0])]]))
                    continue
                several = group.create_dataset(key, (len(values), 1), h5py.ref_dtype)
                for k, value in enumerate(values):
                    one = refs.create_dataset(f"{key}{i}{k}", data=np.array([[float(value)]]))
                    several[k, 0] = one.ref
    return file.getvalue()


def test_boxes_as_matlab_writes_them():
    assert svhn.read_boxes(hdf5()) == BOXES


def write_svhn(folder, part, as_archive):
    """Images that are filled with their own colour."""
    files = {"digitStruct.mat": hdf5(), "see_bboxes.m": b"% MATLAB"}
    for i, name in enumerate(HOUSES):
        files[name] = png(np.full((40, 50, 3), 10 * i + 5, np.uint8))
    if not as_archive:
        (folder / part).mkdir()
        for name, content in files.items():
            (folder / part / name).write_bytes(content)
        return folder / part
    path = folder / f"{part}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in reversed(files.items()):
            info = tarfile.TarInfo(f"{part}/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@for_each(as_archive=[False, True])
def test_house_numbers(tmp_path, as_archive):
    path = write_svhn(tmp_path, "train", as_archive)
    numbers = house_numbers(path)
    assert numbers.images.shape == (3, 3, 64, 64)
    assert sorted(numbers.values.tolist()) == [7, 10, 42]
    for image, value in zip(numbers.images, numbers.values.tolist(), strict=True):
        assert (image == {10: 5, 7: 15, 42: 25}[value]).all()
    assert numbers.draw(2, 4, seeded())[0].shape == (2, 4, 3, 54, 54)


@for_each(with_extra=[False, True])
def test_svhn_splits(tmp_path, monkeypatch, with_extra):
    monkeypatch.setattr(svhn, "HELD_OUT", {"train": 1, "extra": 2})
    write_svhn(tmp_path, "train", as_archive=True)
    with pytest.raises(FileNotFoundError, match=r"no test.tar.gz \(nor test\) in"):
        svhn_splits(tmp_path)
    write_svhn(tmp_path, "test", as_archive=False)
    if with_extra:
        write_svhn(tmp_path, "extra", as_archive=False)
    splits = svhn_splits(tmp_path)
    train, validation, test = ([*numbers.values.tolist()] for numbers in splits)
    assert (len(train), len(validation)) == ((3, 3) if with_extra else (2, 1))
    assert sorted(train + validation) == sorted([7, 10, 42] * (2 if with_extra else 1))
    assert sorted(test) == [7, 10, 42]


def test_damaged_svhn(tmp_path, monkeypatch):
    path = write_svhn(tmp_path, "train", as_archive=True)
    whole = path.read_bytes()
    for data in (whole[: len(whole) // 2], b"no archive"):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="damaged archive"):
            house_numbers(path)
    path.write_bytes(whole)
    with monkeypatch.context() as small:
        small.setattr("gendr._common.arrays.ROOM", 0)
        small.setattr("gendr._common.arrays.TIMES", 0)
        with pytest.raises(ValueError, match=r"train.tar.gz would unpack from"):
            house_numbers(path)
    folder = write_svhn(tmp_path, "test", as_archive=False)
    (folder / "2.png").unlink()
    with pytest.raises(ValueError, match="must have 3 images, got 2"):
        house_numbers(folder)
    (folder / "digitStruct.mat").unlink()
    with pytest.raises(ValueError, match=r"no digitStruct.mat"):
        house_numbers(folder)
    with pytest.raises(FileNotFoundError):
        house_numbers(tmp_path / "extra.tar.gz")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(RuntimeError, match=r"needs h5py: pip install '\.\[svhn\]'"):
        house_numbers(path)
