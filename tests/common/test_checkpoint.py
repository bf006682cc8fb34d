"""Checkpoints: what is saved comes back, and other files are refused."""

import pickle
import warnings
import zipfile
from pathlib import Path

import pytest
import torch

from gendr._common.checkpoint import load_checkpoint, save_checkpoint

VALUES = {
    "step": 3,
    "name": "box",
    "history": [{"step": 1, "loss": 0.5}],
    "frame": (torch.arange(3.0), 2.0),
    "best": None,
}


def load(path, kind="gendr test 1", names=VALUES, what="a test"):
    return load_checkpoint(path, kind, names, what)


def test_values_come_back(tmp_path):
    """Tensors lose their graph and share their memory."""
    path = tmp_path / "a.pt"
    for step in (1, 3):  # the second replaces the first
        save_checkpoint(path, "gendr test 1", {**VALUES, "step": step})
    found = load(path)
    assert found.keys() == VALUES.keys()
    assert torch.equal(found["frame"][0], VALUES["frame"][0])
    assert {k: v for k, v in found.items() if k != "frame"} == {
        k: v for k, v in VALUES.items() if k != "frame"
    }
    assert [file.name for file in tmp_path.iterdir()] == ["a.pt"]
    big = torch.zeros(10_000)
    parameter = torch.nn.Parameter(torch.ones(2))
    save_checkpoint(tmp_path / "a", "x", {"w": parameter * 2, "one": big, "two": big})
    found = load_checkpoint(tmp_path / "a", "x", ["w"], "a test")
    assert not found["w"].requires_grad
    assert found["w"].tolist() == [2, 2]
    assert (tmp_path / "a").stat().st_size < 60_000


class Trap:
    def __reduce__(self):
        return Path.touch, (Path("was-run"),)


def test_what_is_no_checkpoint_ends_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.pt"
    for write, said in (
        (lambda: None, r"no checkpoint to resume from at .*a\.pt; start without"),
        (lambda: path.write_text("hello"), "is no checkpoint of a test"),
        (lambda: path.write_bytes(pickle.dumps(Trap())), "is no checkpoint of a test"),
        (lambda: path.write_bytes(pickle.dumps({"a": 1})), "is no checkpoint of a test"),
        (lambda: torch.save([1], path, pickle_protocol=4), "is no checkpoint of a test"),
        (lambda: torch.save([1, 2], path), r"no checkpoint of a test \(another format\)"),
        (lambda: save_checkpoint(path, "gendr test 0", VALUES), r"a test \(another format\)"),
        (lambda: save_checkpoint(path, "gendr test 1", {"name": 1}), r"a test \(it lacks best\)"),
    ):
        write()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with pytest.raises(ValueError, match=said) as caught:
                load(path)
        assert "\n" not in str(caught.value)
        assert not told
    assert not Path("was-run").exists()
    with pytest.raises(ValueError, match="'format' is taken"):
        save_checkpoint(path, "gendr test 1", {"format": 1})


def test_what_would_unpack_to_far_more_is_refused_before_it_does(tmp_path, monkeypatch):
    monkeypatch.setattr("gendr._common.arrays.ROOM", 1 << 16)
    save_checkpoint(tmp_path / "c.pt", "gendr test 1", {"zeros": torch.zeros(1 << 20)})
    assert (
        load_checkpoint(tmp_path / "c.pt", "gendr test 1", ["zeros"], "a test")["zeros"].sum() == 0
    )
    with (
        zipfile.ZipFile(tmp_path / "c.pt") as plain,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for member in plain.infolist():
            packed.writestr(member.filename, plain.read(member))
    with pytest.raises(ValueError, match=r"bomb\.pt would unpack from \d{4} to 419\d{4} bytes"):
        load_checkpoint(tmp_path / "bomb.pt", "gendr test 1", ["zeros"], "a test")
