"""Checkpoints: what is saved comes back, and other files are refused."""

import pickle
import warnings
import zipfile
from pathlib import Path

import pytest
import torch

from gendr.jobs.checkpoint import (
    OtherWorkError,
    digest,
    load_checkpoint,
    save_checkpoint,
)

VALUES = {
    "step": 3,
    "name": "box",
    "history": [{"step": 1, "loss": 0.5}],
    "frame": (torch.arange(3.0), 2.0),
    "best": None,
}


def save(path, state=VALUES, kind="a test", signature=None):
    save_checkpoint(path, kind, state, {"seed": 1} if signature is None else signature)


def load(path, names=VALUES, **options):
    return load_checkpoint(path, "a test", names, **options)


def test_values_come_back(tmp_path):
    """Tensors lose their graph and share their memory."""
    path = tmp_path / "a.pt"
    for step in (1, 3):  # the second replaces the first
        save(path, {**VALUES, "step": step})
    found = load(path)
    assert found.keys() == VALUES.keys()
    assert torch.equal(found["frame"][0], VALUES["frame"][0])
    assert {k: v for k, v in found.items() if k != "frame"} == {
        k: v for k, v in VALUES.items() if k != "frame"
    }
    assert [file.name for file in tmp_path.iterdir()] == ["a.pt"]
    big = torch.zeros(10_000)
    parameter = torch.nn.Parameter(torch.ones(2))
    save(tmp_path / "a", {"w": parameter * 2, "one": big, "two": big})
    found = load(tmp_path / "a", ["w"])
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
        (lambda: save(path, kind="another"), r"a test \(another format\)"),
        (lambda: torch.save({"format": "gendr fit 3"}, path), r"a test \(another format\)"),
        (lambda: save(path, {"name": 1}), r"a test \(it lacks best\)"),
    ):
        write()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with pytest.raises(ValueError, match=said) as caught:
                load(path)
        assert "\n" not in str(caught.value)
        assert not told
    assert not Path("was-run").exists()


def test_work_with_another_signature_is_refused(tmp_path):
    path, data = tmp_path / "a.pt", torch.arange(3.0)
    save(path, signature={"rate": 0.1, "steps": 3, "photos": digest(data)})
    for signature in ({"rate": 0.1}, {"photos": digest(data.clone())}, {}, None):
        assert load(path, signature=signature)["step"] == 3
    for signature, said in (
        ({"rate": 0.2}, "a.pt is a test with rate = 0.1, now it is 0.2; resume with the same"),
        ({"new": 1}, "a test with new = None, now it is 1"),
        ({"photos": digest(data + 1)}, "a.pt is a test of other photos; resume with"),
    ):
        with pytest.raises(OtherWorkError, match=said):
            load(path, signature=signature)


def test_what_would_unpack_to_far_more_is_refused_before_it_does(tmp_path, monkeypatch):
    monkeypatch.setattr("gendr._common.arrays.ROOM", 1 << 16)
    save(tmp_path / "c.pt", {"zeros": torch.zeros(1 << 20)})
    assert load(tmp_path / "c.pt", ["zeros"])["zeros"].sum() == 0
    with (
        zipfile.ZipFile(tmp_path / "c.pt") as plain,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for member in plain.infolist():
            packed.writestr(member.filename, plain.read(member))
    with pytest.raises(ValueError, match=r"bomb\.pt would unpack from \d{4} to 419\d{4} bytes"):
        load(tmp_path / "bomb.pt", ["zeros"])
