"""Classifiers with top-k losses: the networks, silhouettes of meshes."""

import numpy as np
import pytest
import torch

from lab.data import Examples, ExampleSplits
from lab.studies.classification import (
    ClassificationSettings,
    ClassificationTraining,
    ResNet18,
)
from lab.studies.silhouettes import read_meshes, silhouette_splits


def test_models_fit_the_data():
    images = Examples(torch.zeros(14, 1, 8, 8, dtype=torch.uint8), torch.arange(14) % 7, 7)
    splits = ExampleSplits(images, images, images)
    for model in ("auto", "linear", "perceptron", "convolution"):
        training = ClassificationTraining(ClassificationSettings(model=model), splits)
        assert len(training.accuracies(training.model, images)) == 5
    assert ResNet18(3, 10)(torch.zeros(2, 3, 8, 8)).shape == (2, 10)


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
