"""The sheet of an evaluation: the prediction and the truth stand beside each other as they are."""

import numpy as np
import pytest
import torch

from gendr import Mesh
from gendr.mesh import icosphere
from lab.reconstruction import Reconstructor, ShapeNetRenderings
from lab.reconstruction.pictures import GAP, MARGIN, TILE, evaluation_sheet

# Three axes of different lengths, so that no two of the sides that are shown look alike.
HALVES = {"flat": [(0.45, 0.15, 0.3), (0.4, 0.1, 0.4), (0.3, 0.12, 0.45)]}
TOP = 96


class Knowing(Reconstructor):
    """A model that predicts the true shapes."""

    def mesh(self, images):
        ball = icosphere(3)
        shapes = torch.tensor(HALVES["flat"])[: len(images)]
        return Mesh.batch([ball.with_vertices(ball.vertices * half) for half in shapes])


@pytest.fixture
def data(folder, tmp_path):
    """The ellipsoids in black, which is seen on white."""
    with np.load(folder / "flat_train_images.npz") as file:
        images = file["arr_0"].copy()
    images[:, :3] = 0
    np.savez(tmp_path / "flat_train_images.npz", images)
    (tmp_path / "flat_train_voxels.npz").write_bytes(
        (folder / "flat_train_voxels.npz").read_bytes()
    )
    return ShapeNetRenderings(tmp_path)


def tile(page, row, column):
    """Where the object is seen in a picture of the sheet: bool [TILE, TILE]."""
    x = MARGIN + column * (TILE + GAP) + GAP * ((column >= 2) + (column >= 5))
    y = TOP + row * (TILE + GAP)
    return (page[y : y + TILE, x : x + TILE].astype(int) < 160).any(-1)


def iou(a, b):
    return (a & b).sum() / (a | b).sum()


def test_a_model_that_knows_the_truth_shows_it(data):
    page = evaluation_sheet(Knowing(side=16), data, "all known", count=3)
    for row in range(3):
        for side in range(3):
            assert iou(tile(page, row, 2 + side), tile(page, row, 5 + side)) > 0.8, (row, side)
        assert iou(tile(page, row, 0), tile(page, row, 5)) > 0.99  # the input is the first side
    # The first shape is longer than broad: from a side it looks otherwise.
    assert iou(tile(page, 0, 5), tile(page, 0, 6)) < 0.8
    colours = {tuple(c) for c in page[TOP : TOP + TILE].reshape(-1, 3)}
    assert (212, 215, 219) in colours


def test_a_wrong_prediction_is_seen_in_colours(data):
    page = evaluation_sheet(Reconstructor(side=16), data, "untrained", count=3)
    x = MARGIN + TILE + GAP
    colours = {tuple(c) for c in page[TOP : TOP + TILE, x : x + TILE].reshape(-1, 3)}
    assert (232, 138, 62) in colours
