"""Files that are written whole or not at all, and arrays that are compared with their headers."""

import errno
import os
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from gendr._common import arrays
from gendr._common.arrays import read_array, read_arrays
from gendr._common.files import write_all, write_whole
from gendr.cli.logic import read_rows
from gendr.jobs.checkpoint import save_checkpoint
from gendr.logic import Circuit
from lab.data import read_embeddings
from lab.data.npz import map_array
from lab.reconstruction.making import find_shapes
from lab.studies.silhouettes import read_meshes
from support.cases import for_each

# -------------------------------------------------------------------------------------------------
# Files that are written whole or not at all, and locks of folders


def fail(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class SmallFile:
    """A file on a disk with room for 1000 bytes."""

    def __init__(self, file):
        self.file = file

    def write(self, data):
        return fail() if self.file.tell() + len(data) > 1000 else self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


def small_disk(monkeypatch):
    real = Path.open
    monkeypatch.setattr(Path, "open", lambda path, *mode: SmallFile(real(path, *mode)))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_files_are_replaced_and_a_link_stays_a_link(tmp_path):
    path, link = tmp_path / "a", tmp_path / "link"
    for content in (b"one", b"two", lambda file: file.write(b"three")):
        write_whole(path, content)
    assert path.read_bytes() == b"three"
    link.symlink_to(path)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"

    def wrong(file):
        file.write(b"half")
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        write_whole(tmp_path / "b", wrong)
    assert names(tmp_path) == ["a", "link"]


@for_each(what=["write", "fsync"])
def test_a_full_disk_leaves_the_old_files(tmp_path, monkeypatch, what):
    a, b = tmp_path / "a", tmp_path / "b"
    write_all({a: b"old", b: b"old"})
    with monkeypatch.context() as patch:
        if what == "fsync":
            patch.setattr(os, "fsync", fail)
        else:
            small_disk(patch)
        with pytest.raises(OSError, match="No space left on device") as caught:
            write_all({a: b"new", b: bytes(2000)})
        with pytest.raises(OSError, match="No space left on device") as of_checkpoint:
            save_checkpoint(b, "a test", {"u": torch.rand(10_000, 3)}, {})
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(b if what == "write" else a)
    assert of_checkpoint.value.filename == str(b)
    assert a.read_bytes() == b.read_bytes() == b"old"
    assert names(tmp_path) == ["a", "b"]


# -------------------------------------------------------------------------------------------------
# npy and npz files: what is read, and what is refused before it is made


def npy(shape, descr="<f8", data=b"", more=""):
    """The bytes of an npy file of any claim."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}{more}}}".encode()
    return b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header + data


HOSTILE = {
    "rows": npy("(1099511627776, 4)"),
    "overflow": npy(f"({2**32}, {2**32})"),
    "negative": npy("(-1, 4)"),
    "nothing": npy("(1099511627776, 4)", "<V0"),
    "nested": npy("(" * 4000 + ")" * 4000),
    "unfinished": npy("(3, 4)", more=", 'a': '''"),
    "objects": npy("(3, 4)", "|O", bytes(96)),
    "long header": b"\x93NUMPY\x02\0" + b"\xff\xff\xff\x7f" + bytes(1000),
    "no dtype": npy("(3, 4)", "<q9"),
    "short": npy("(3, 4)", data=bytes(95)),
}


def test_arrays_come_back(tmp_path):
    wanted = {
        "a": np.arange(600_000.0).reshape(200, 3000),
        "b": np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3)),
        "c": np.array(["x", "yz"]),
        "d": np.zeros((0, 3), bool),
        "e": np.array(2, np.float32),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "m.npz", **wanted)
        found = read_arrays(tmp_path / "m.npz")
        assert list(found) == list(wanted)
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array, strict=True)
        assert [*read_arrays(tmp_path / "m.npz", ("d", "z"))] == ["d"]
    for array in wanted.values():
        np.save(tmp_path / "m.npy", array)
        np.testing.assert_array_equal(read_array(tmp_path / "m.npy"), array, strict=True)


@for_each(packed=[zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_what_claims_more_than_it_holds_is_refused(tmp_path, monkeypatch, packed):
    """By every reader of npz files, in one line, before memory is taken."""
    monkeypatch.setattr(arrays, "ROOM", 1 << 16)
    names = ("x", "y", "about", "features", "labels", "names", "verts", "faces", "vert_offset",
             "face_offset")  # fmt: skip
    readers = [
        read_arrays, Circuit.load, partial(read_rows, labels=True), read_embeddings, read_meshes,
        lambda path: find_shapes([path]), lambda path: map_array(path, tmp_path / "unpacked"),
    ]  # fmt: skip
    path, bomb = tmp_path / "m.npz", npy(f"({1 << 17}, 4)", data=bytes(1 << 22))
    contents = HOSTILE | ({"bomb": bomb} if packed == zipfile.ZIP_DEFLATED else {})
    for kind, content in contents.items():
        with zipfile.ZipFile(path, "w", packed) as archive:
            for name in names:
                archive.writestr(f"{name}.npy", content)
        for reader in readers[:-1] if kind == "bomb" else readers:  # to map needs no memory
            with pytest.raises(
                ValueError, match=r"m\.npz (is not a complete npz|is no circuit|would unpack from)"
            ) as no:
                reader(path)
            assert "\n" not in str(no.value), kind
        (tmp_path / "m.npy").write_bytes(content[:-1])
        with pytest.raises(ValueError, match="is not a complete npy file"):
            read_array(tmp_path / "m.npy")
    assert not [*Path(tmp_path).glob("unpacked/*")]


def test_a_file_that_is_not_there_is_named(tmp_path):
    for reader in (read_array, read_arrays):
        with pytest.raises(FileNotFoundError, match=r"gone\.npz"):
            reader(tmp_path / "gone.npz")
