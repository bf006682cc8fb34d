"""Files that are written whole or not at all, and locks of folders."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gendr._common.files import write_all, write_whole
from gendr.jobs.checkpoint import save_checkpoint
from gendr.jobs.folders import LOCK, locked
from support.cases import for_each


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


# -- locks -----------------------------------------------------------------------------------------


def test_a_lock_keeps_others_out_and_goes(tmp_path):
    with locked(tmp_path):
        with pytest.raises(ValueError, match=rf"\(pid {os.getpid()}\) is writing to"):
            with locked(tmp_path):
                pass
        assert names(tmp_path) == [LOCK]
    assert names(tmp_path) == []
    with locked(tmp_path):
        pass


def test_the_lock_of_a_killed_process_is_no_hindrance(tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from gendr.jobs.folders import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('locked', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline().strip() == b"locked"
        with pytest.raises(ValueError, match=f"pid {process.pid}"), locked(tmp_path):
            pass
        process.kill()
        process.wait()
    assert names(tmp_path) == [LOCK]
    with locked(tmp_path):
        pass
    assert names(tmp_path) == []


def test_without_locks_it_goes_on(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def unknown(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unknown)
    with locked(tmp_path):
        assert names(tmp_path) == [LOCK]
    assert names(tmp_path) == []
