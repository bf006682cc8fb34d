"""Classifiers with top-k losses: the training, silhouettes of meshes, the script."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from gendr.data import Examples, ExampleSplits
from lab.studies.classification import (
    ClassificationSettings,
    ClassificationTraining,
    ResNet18,
    train,
)
from lab.studies.silhouettes import read_meshes, silhouette_splits
from support.cases import for_each
from support.scripts import imported, refusal

SMALL = ClassificationSettings(steps=30, batch=20, evaluate_every=5, learning_rate=0.05)


def points(seed, count=70):
    labels = torch.arange(count) % 7
    generator = torch.Generator().manual_seed(seed)
    features = 3 * torch.eye(7)[labels] + torch.randn(count, 7, generator=generator)
    return Examples(features, labels, 7)


@pytest.fixture(scope="module")
def data():
    return ExampleSplits(points(0), points(1), points(2))


@pytest.mark.parametrize("loss", ["softmax", "svm", "splitter", "softsort"])
def test_every_loss_learns(data, loss):
    result = train(replace(SMALL, loss=loss), data)
    assert result.test[0] > 0.5
    assert result.test[4] > 0.9
    assert list(result.test) == sorted(result.test)
    assert result.step == 30
    assert len([row for row in result.history if "top1" in row]) == 6


def test_the_best_weights_are_tested(data):
    training = ClassificationTraining(SMALL, data)
    for _ in range(30):
        training.advance()
    rows = [row for row in training.history if "top1" in row]
    best = max(rows, key=lambda row: row["top1"] + row["top5"])
    result = training.result()
    assert training.best["sum"] == best["top1"] + best["top5"]
    assert result.best_step == training.best["step"]
    before = [p.clone() for p in training.model.parameters()]
    training.result()
    assert all(map(torch.equal, before, training.model.parameters()))


def test_models_fit_the_data():
    images = Examples(torch.zeros(14, 1, 8, 8, dtype=torch.uint8), torch.arange(14) % 7, 7)
    splits = ExampleSplits(images, images, images)
    for model in ("auto", "linear", "perceptron", "convolution"):
        assert len(train(replace(SMALL, model=model, steps=1), splits).test) == 5
    assert ResNet18(3, 10)(torch.zeros(2, 3, 8, 8)).shape == (2, 10)
    flat = ExampleSplits(*(points(k) for k in range(3)))
    with pytest.raises(ValueError, match="model 'convolution' takes images"):
        train(replace(SMALL, model="convolution"), flat)
    few = Examples(torch.zeros(4, 2), torch.arange(4) % 2, 2)
    with pytest.raises(ValueError, match="need more than 5 classes, got 2"):
        train(SMALL, ExampleSplits(few, few, few))


def test_bad_settings():
    for change, message in (
        ({"loss": "hinge"}, "unknown loss 'hinge'"),
        ({"p_k": (0.5, 0.1)}, "sum to 1"),
        ({"model": "transformer"}, "unknown model"),
        ({"top1": "sigmoid"}, "unknown top1"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(SMALL, **change)


# -- silhouettes


def write_meshes(path, count, stretch):
    """Some boxes in a file, as `read_meshes` takes them."""
    vertices = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], np.float32)
    faces = np.array(
        [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6],
         [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]], np.int32,
    )  # fmt: skip
    scales = [[1, stretch, 1 + 0.1 * k] for k in range(count)]
    np.savez(
        path,
        verts=np.concatenate([100 + vertices * s for s in scales]).astype(np.float32),
        faces=np.concatenate([faces] * count),
        vert_offset=8 * np.arange(count + 1),
        face_offset=12 * np.arange(count + 1),
    )


def test_silhouettes_of_meshes(tmp_path):
    write_meshes(tmp_path / "cubes.npz", 5, 1.0)
    write_meshes(tmp_path / "towers.npz", 10, 6.0)
    assert len(read_meshes(tmp_path / "towers.npz")) == 10
    cache = tmp_path / "out" / "cache.npz"
    cache.parent.mkdir()
    splits = silhouette_splits(tmp_path, views=3, size=12, cache=cache)
    assert [len(part.labels) for part in splits] == [27, 9, 9]
    assert splits.train.shape == (1, 12, 12)
    for part in splits:
        covered = part.features.float().mean((1, 2, 3)) / 255
        assert ((covered > 0.02) & (covered < 0.9)).all()
        cubes, towers = (covered[part.labels == label].mean() for label in (0, 1))
        assert cubes > 1.5 * towers
        edges = part.features[:, 0, [0, -1]]
        assert (edges < 200).all()  # nothing is cut off
    again = silhouette_splits(tmp_path, views=3, size=12, cache=cache)
    assert again.test.digest() == splits.test.digest()
    other = silhouette_splits(tmp_path, views=3, size=12, seed=1, cache=cache)
    assert other.test.digest() != splits.test.digest()
    with pytest.raises(ValueError, match="must have an npz file of meshes for each class"):
        silhouette_splits(tmp_path / "out")


# -- the script


@pytest.fixture
def script(tmp_path, monkeypatch):
    module = imported(monkeypatch, "topk_classification")
    return lambda *options: module.main([*options, "-o", str(tmp_path / "out")])


def test_script(script, tmp_path, capsys):
    losses = ["softmax", "splitter:.5,0,0,0,.5@2", "neuralsort:.2,.8"]
    assert script("--smoke", "--runs", "2", "--losses", *losses) == 0
    printed = capsys.readouterr().out
    found = json.loads((tmp_path / "out" / "results.json").read_text())["trainings"]
    assert len(found) == 6
    one = found["splitter-.5,0,0,0,.5@2-seed1"]["settings"]
    assert (one["p_k"], one["steepness"], one["seed"]) == ([0.5, 0, 0, 0, 0.5], 2.0, 1)
    assert (tmp_path / "out" / "picture.png").stat().st_size > 10_000
    mean = 50 * sum(found[f"softmax-seed{k}"]["test"][4] for k in (0, 1))
    assert f"| {mean:.2f} ± " in printed
    assert "8 classes, 240 / 80 / 80 examples" in printed
    assert script("--smoke", "--runs", "2", "--losses", *losses, "--resume") == 0
    assert capsys.readouterr().out == printed


@for_each(
    "options, words",
    [
        ([], "name the data with one of"),
        (["--smoke", "--cifar", "x"], "name the data with one of"),
        (["--embeddings", "none.npz"], r"none\.npz"),
        (["--cifar", "nowhere"], "there is no train.bin"),
        (["--smoke", "--losses", "hinge"], "a loss must be one of softmax"),
        (["--smoke", "--losses", "softmax", "softmax"], "named twice"),
        (["--smoke", "--losses", "splitter:.5,.6"], "sum to 1"),
        (["--smoke", "--losses", "splitter:.5,,.5"], "must be numbers"),
    ],
)
def test_script_says_what_is_wrong(script, capsys, options, words):
    assert script(*options) == 2
    assert re.search(words, refusal(capsys, "topk_classification"))
