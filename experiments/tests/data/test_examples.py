"""Labelled examples: splits, stored embeddings, CIFAR-100 in its binary format."""

import numpy as np
import pytest
import torch

from lab.data import Examples, cifar, cifar100_splits, read_cifar100, read_embeddings
from lab.data.examples import split_by_group
from support.cases import for_each


def write_cifar(folder, train=9, test=4):
    """Two files with random records, and what they hold."""
    generator = np.random.default_rng(0)
    found = {}
    for name, count in (("train", train), ("test", test)):
        labels = generator.integers(0, 100, count, dtype=np.uint8)
        images = generator.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
        coarse = np.zeros(count, np.uint8)
        records = np.concatenate([coarse[:, None], labels[:, None], images.reshape(count, -1)], 1)
        records.tofile(folder / f"{name}.bin")
        found[name] = images, labels
    return found


def test_cifar_is_read(tmp_path, monkeypatch):
    written = write_cifar(tmp_path)
    monkeypatch.setattr(cifar, "VALIDATION", 2)
    splits = cifar100_splits(tmp_path)
    images, labels = written["train"]
    assert splits.train.classes == 100
    assert (splits.train.features.numpy() == images[:-2]).all()
    assert (splits.validation.features.numpy() == images[-2:]).all()
    assert (splits.validation.labels.numpy() == labels[-2:]).all()
    assert (splits.test.labels.numpy() == written["test"][1]).all()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / cifar.FOLDER_100).symlink_to(tmp_path)
    assert cifar100_splits(tmp_path / "data").train.digest() == splits.train.digest()


def test_damaged_cifar_is_refused(tmp_path):
    write_cifar(tmp_path)
    with pytest.raises(ValueError, match="more than 5000 training images"):
        cifar100_splits(tmp_path)
    data = (tmp_path / "train.bin").read_bytes()
    (tmp_path / "train.bin").write_bytes(data[:-1])
    with pytest.raises(ValueError, match=r"records of 3074 bytes, got \d+ bytes; get it again"):
        read_cifar100(tmp_path / "train.bin")
    (tmp_path / "train.bin").write_bytes(bytes([0, 100]) + data[2:])
    with pytest.raises(ValueError, match=r"has the label 100, allowed are 0 .. 99"):
        read_cifar100(tmp_path / "train.bin")
    with pytest.raises(FileNotFoundError, match=r"no train.bin"):
        cifar100_splits(tmp_path / "nowhere")


def test_embeddings_are_read(tmp_path):
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(40, 3)).astype(np.float16), np.arange(40) % 4
    np.savez(tmp_path / "a.npz", features=features, labels=labels)
    splits = read_embeddings(tmp_path / "a.npz")
    assert [len(part.labels) for part in splits] == [24, 8, 8]
    assert all((part.labels.bincount() == len(part.labels) // 4).all() for part in splits)
    rows = torch.cat([part.features for part in splits])
    assert sorted(rows.tolist()) == sorted(features.astype(np.float32).tolist())
    part = np.arange(40) // 14
    np.savez(tmp_path / "b.npz", features=features, labels=labels, part=part)
    splits = read_embeddings(tmp_path / "b.npz")
    assert [len(part.labels) for part in splits] == [14, 14, 12]
    assert splits.test.classes == 4


@for_each(
    "arrays, message",
    [
        ({"features": np.zeros((3, 2))}, "it holds no labels"),
        ({"features": np.zeros(3), "labels": np.zeros(3, int)}, "finite floating numbers"),
        ({"features": np.full((3, 2), np.nan), "labels": np.zeros(3, int)}, "finite floating"),
        ({"features": np.zeros((3, 2)), "labels": np.zeros(2, int)}, r"integers \[3\]"),
        ({"features": np.zeros((3, 2)), "labels": -np.ones(3, int)}, "must be >= 0, got -1"),
        (
            {"features": np.zeros((1, 2)), "labels": np.zeros(1, int), "part": np.array([3])},
            "part in .* must hold 0, 1 or 2",
        ),
    ],
)
def test_bad_embeddings_are_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        read_embeddings(tmp_path / "bad.npz")


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text.npz").write_text("no")
    with pytest.raises(ValueError, match="is not a complete npz file"):
        read_embeddings(tmp_path / "text.npz")
    with pytest.raises(FileNotFoundError):
        read_embeddings(tmp_path / "none.npz")


def test_groups_stay_together():
    groups = torch.arange(120) // 4
    examples = Examples(groups[:, None].float(), groups % 3, 3)
    splits = split_by_group(examples, groups)
    parts = [set(part.features[:, 0].tolist()) for part in splits]
    assert [len(part) for part in parts] == [18, 6, 6]
    assert len(set.union(*parts)) == 30
    other = split_by_group(examples, groups, seed=1)
    assert set(other.test.features[:, 0].tolist()) != parts[2]


def test_examples_are_drawn_as_floats():
    examples = Examples(torch.full((5, 1, 2, 2), 51, dtype=torch.uint8), torch.arange(5), 5)
    features, labels = examples.draw(7, torch.Generator().manual_seed(0))
    assert features.shape == (7, 1, 2, 2)
    assert (features == 0.2).all()
    assert labels.max() < 5
    with pytest.raises(ValueError, match="labels must index the 3 classes"):
        Examples(torch.zeros(5, 2), torch.arange(5), 3)
