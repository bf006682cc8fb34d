"""Data sets of one's own: what is written is what is read, and nothing stops at a broken file."""

import errno
import json
import os
import socket
import threading
import zipfile

import numpy as np
import pytest
import torch

from gendr.mesh import cube, icosphere
from lab.reconstruction import ShapeNetRenderings, making, voxel_iou
from lab.reconstruction.making import find_shapes, make_dataset, split_of
from support.cases import for_each
from support.processes import fork_server


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(making, "SAMPLES", 1)


@pytest.fixture
def meshes(tmp_path):
    folder = tmp_path / "meshes"
    folder.mkdir()
    stretch = torch.tensor([1.0, 0.5, 0.25])
    icosphere(1).save(folder / "ball.obj")
    cube().with_vertices(cube().vertices * stretch + 7).save(folder / "brick.ply")
    (folder / "broken.obj").write_text("v 0 0\nf 1 2 3\n")
    (folder / "notes.txt").write_text("no mesh")
    return folder


def test_shapes_are_read_back_where_they_were(tmp_path, meshes, small):
    report = make_dataset([meshes], tmp_path / "out", "chair", shares=(1, 0, 0), progress=False)
    assert report.counts == {"train": 2, "val": 0, "test": 0}
    assert list(report.skipped) == ["broken"]
    (content,) = json.loads((tmp_path / "out" / "dataset.json").read_text()).items()
    assert content[0] == "03001627"
    assert [s["name"] for s in content[1]["shapes"]["train"]] == ["ball", "brick"]
    assert "broken" in content[1]["skipped"]
    data = ShapeNetRenderings(tmp_path / "out", ["chair"])
    assert len(data) == 2
    ball, brick = data[0], data[1]
    # A box of 4 : 2 : 1 with a diagonal of 1, along x, y and z.
    sides = brick.voxels.nonzero().amax(0) - brick.voxels.nonzero().amin(0)
    wanted = torch.tensor([4.0, 2.0, 1.0]) / 21**0.5 * 31
    assert torch.allclose(sides.float(), wanted, atol=1.6)
    assert brick.voxels.sum() > 0.9 * wanted.prod()
    # From the side (view 6) it shows z and y, from the front (view 0) x and y.
    alpha = brick.images[:, 3]
    front, side = (alpha[v].amax(0).sum() for v in (0, 6))
    assert front > 2 * side
    assert ball.images.shape == (24, 4, 64, 64)
    assert ball.images[:, :3].amax() <= 1
    # The mesh that was rendered has its voxels.
    shape = find_shapes([meshes / "ball.obj"])[0].load()
    assert voxel_iou(shape, ball.voxels[None]).item() > 0.95


def test_images_are_seen_by_our_cameras(tmp_path, small):
    """A wedge on the right of the first view is on the right of the image that is read."""
    one = cube().with_vertices(cube().vertices * torch.tensor([0.5, 0.1, 0.1]))
    wedge = one.with_vertices(one.vertices + torch.tensor([0.5, 0.0, 0.0]))
    both = icosphere(1).scaled(0.2)
    both.save(tmp_path / "a.obj")
    wedge.save(tmp_path / "b.obj")
    shape = find_shapes([tmp_path / "b.obj"])[0]
    images, _ = making.rendered(shape.load())
    make_dataset([tmp_path / "b.obj"], tmp_path / "out", "x", shares=(1, 0, 0), progress=False)
    read = ShapeNetRenderings(tmp_path / "out")[0].images
    assert torch.equal((read * 255).round().to(torch.uint8), images)
    with np.load(tmp_path / "out" / "x_train_images.npz") as file:
        assert np.array_equal(file["arr_0"], images.flip(-1).numpy())


def test_an_interrupted_run_goes_on(tmp_path, meshes, small, monkeypatch):
    real, made = making.rendered, []

    def stops(mesh, *args):
        if made:
            raise KeyboardInterrupt
        made.append(mesh)
        return real(mesh, *args)

    monkeypatch.setattr(making, "rendered", stops)
    with pytest.raises(KeyboardInterrupt):
        make_dataset([meshes], tmp_path / "out", "chair", shares=(1, 0, 0), progress=False)
    assert not list((tmp_path / "out").glob("*.npz"))
    counted = []
    monkeypatch.setattr(making, "rendered", lambda mesh: counted.append(1) or real(mesh))
    make_dataset([meshes], tmp_path / "out", "chair", shares=(1, 0, 0), progress=False)
    assert len(counted) == 1  # the first was there already
    assert len(ShapeNetRenderings(tmp_path / "out")) == 2
    assert not (tmp_path / "out" / making.PARTIAL / "03001627").exists()


@pytest.mark.rotating(4, group="study")
def test_workers_make_the_same(tmp_path, meshes, small, monkeypatch):
    monkeypatch.setattr(making, "get_context", lambda _: fork_server())
    for workers in (1, 2):
        make_dataset(
            [meshes], tmp_path / str(workers), "x", shares=(1, 0, 0), workers=workers,
            progress=False,
        )  # fmt: skip
    # Other processes know nothing of the smaller SAMPLES; voxels do not depend on it.
    first, second = (ShapeNetRenderings(tmp_path / n) for n in ("1", "2"))
    shapes = torch.arange(2)
    assert torch.equal(first.voxels(shapes), second.voxels(shapes))


@pytest.mark.every
@pytest.mark.slow
def test_a_cluster_makes_the_same(tmp_path, meshes, small):
    """It tells what cannot be used too, and an address that nobody answers is refused."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install '.[cluster]'")
    common = {"shares": (1, 0, 0), "progress": False}
    make_dataset([meshes], tmp_path / "local", "x", **common)
    found = make_dataset([meshes], tmp_path / "ray", "x", executor="ray", workers=2, **common)
    assert found.counts["train"] == 2
    assert set(found.skipped) == {"broken"}
    first, second = (ShapeNetRenderings(tmp_path / n) for n in ("local", "ray"))
    shapes = torch.arange(2)
    # Other processes know nothing of the smaller SAMPLES; voxels do not depend on it.
    assert torch.equal(first.voxels(shapes), second.voxels(shapes))
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"  # free again below
    with pytest.raises(ConnectionError, match=address):
        make_dataset([meshes], tmp_path / "no", "x", executor="ray", address=address)


def test_classes_that_end_together_are_all_described(tmp_path, monkeypatch):
    """A second class ends between reading and writing of the first."""
    write, others = making.write_whole, []

    def described(name):
        making.describe_class(tmp_path, name, {"name": name})

    def slow(path, content):
        if not others:
            others.append(threading.Thread(target=described, args=["second"]))
            others[0].start()
            others[0].join(0.5)  # as long as it may take, if nothing stops it
        write(path, content)

    monkeypatch.setattr(making, "write_whole", slow)
    described("first")
    others[0].join()
    assert set(json.loads((tmp_path / "dataset.json").read_text())) == {"first", "second"}
    assert [path.name for path in tmp_path.iterdir()] == ["dataset.json"]


@pytest.mark.rotating(4, group="study")
@for_each(what=["part", "whole"])
def test_a_full_disk_ends_it_and_the_same_call_goes_on(tmp_path, meshes, small, monkeypatch, what):
    """While the files of shapes are written, or while they are put together."""
    out, common = tmp_path / "out", {"shares": (1, 0, 0), "progress": False}
    ball, brick = meshes / "ball.obj", meshes / "brick.ply"
    make_dataset([ball], out, "x", **common)
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def full(*args, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        if what == "part":
            patch.setattr(os, "fsync", full)
        else:
            patch.setattr(zipfile.ZipFile, "open", full)
        with pytest.raises(OSError, match="No space left"):
            make_dataset([ball, brick], out, "x", **common)
    assert {p.name: p.read_bytes() for p in out.iterdir() if p.is_file()} == before
    assert make_dataset([ball, brick], out, "x", **common).counts["train"] == 2


def test_many_meshes_of_an_npz_file(tmp_path, small):
    a, b = icosphere(1), cube()
    arrays = {
        "names": np.array(["a", "a"]),
        "verts": np.concatenate([a.vertices.numpy(), b.vertices.numpy()]),
        "faces": np.concatenate([a.faces.numpy(), b.faces.numpy()]).astype(np.int32),
        "vert_offset": np.cumsum([0, len(a.vertices), len(b.vertices)]),
        "face_offset": np.cumsum([0, len(a.faces), len(b.faces)]),
    }
    np.savez(tmp_path / "many.npz", **arrays)
    shapes = find_shapes([tmp_path / "many.npz"])
    assert [shape.name for shape in shapes] == ["a", "a-2"]
    assert shapes[1].load().faces.tolist() == b.faces.tolist()
    np.savez(tmp_path / "other.npz", names=arrays["names"])
    with pytest.raises(ValueError, match=r"other\.npz holds no meshes: it lacks face_offset"):
        find_shapes([tmp_path / "other.npz"])


@for_each("up, lies", [("x", 0), ("y", 1), ("z", 2)])
def test_shapes_stand_upright(tmp_path, up, lies):
    """What points up in the file points along y, without a mirror."""
    corner = torch.eye(3)
    pole = cube().with_vertices(cube().vertices * (0.1 + corner[lies]))
    pole.save(tmp_path / "pole.obj")
    found = find_shapes([tmp_path / "pole.obj"])[0].load(up)
    low, high = (end[0] for end in found.bounding_box())
    assert (high - low).argmax() == 1
    turn = torch.tensor(making.UPRIGHT[up])
    assert torch.equal(turn @ corner[lies], corner[1])
    assert torch.linalg.det(turn) == 1


def test_the_split_depends_on_the_name_alone():
    names = [f"shape {k}" for k in range(4000)]
    splits = [split_of(name) for name in names]
    shares = [splits.count(split) / len(names) for split in ("train", "val", "test")]
    assert np.allclose(shares, (0.7, 0.1, 0.2), atol=0.02)
    assert splits == [split_of(name) for name in names]
    assert splits != [split_of(name, seed=1) for name in names]


def test_what_is_refused(tmp_path, meshes):
    (tmp_path / "empty").mkdir()
    for sources, more, error, message in (
        ("nothing", {}, FileNotFoundError, "neither a file nor a folder"),
        ("empty", {}, ValueError, "no meshes in"),
        ("meshes/broken.obj", {}, ValueError, r"none of 1 shapes can be used; broken: "),
        ("meshes", {"shares": (1, 1)}, ValueError, "shares must be three numbers"),
        ("meshes", {"address": "auto"}, ValueError, "executor='ray'"),
    ):
        with pytest.raises(error, match=message):
            make_dataset([tmp_path / sources], tmp_path / "out", "x", **more)
