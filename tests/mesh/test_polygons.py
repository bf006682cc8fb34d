"""Polygons of files are cut into triangles that cover them: areas by the shoelace formula."""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from gendr import Mesh
from support.cases import for_each

HOLE = [(0, 0), (4, 0), (4, 4), (0, 4), (0, 0), (1, 1), (1, 3), (3, 3), (3, 1), (1, 1)]
TURN = np.linspace(3, 9 * np.pi, 60)
SPIRAL = np.stack((np.cos(TURN), np.sin(TURN)), 1) * TURN[:, None]
PLANE = {
    "triangle": [(0, 0), (2, 0), (0, 1)],
    "dart": [(2, -1), (0, 2), (-2, -1), (0, 0)],
    "L": [(1, 2), (0, 2), (0, 0), (2, 0), (2, 1), (1, 1)],
    "clockwise": [(1, 1), (2, 1), (2, 0), (0, 0), (0, 2), (1, 2)],
    "star": [((1 - 0.7 * (k % 2)) * np.cos(0.2 * np.pi * k),
              (1 - 0.7 * (k % 2)) * np.sin(0.2 * np.pi * k)) for k in range(1, 11)],
    "on a side": [(0, 0), (1, 0), (2, 0), (2, 2), (1, 2), (0, 2), (0, 1)],
    "twice": [(0, 0), (0, 0), (2, 0), (2, 2), (2, 2), (0, 2)],
    "spike": [(0, 0), (2, 0), (5, 0), (2, 0), (2, 2), (0, 2)],
    "touches a side": [(0, 0), (4, 0), (4, 4), (2, 0), (0, 4)],
    "hole": HOLE,
    "spiral": [*SPIRAL, *(SPIRAL * ((TURN - 2) / TURN)[:, None])[::-1]],
    "no area": [(0, 0), (1, 0.3), (2, 0.6), (3, 0.9), (1, 0.3)],
}  # fmt: skip


def shoelace(polygon):
    x, y = np.array(polygon, float).T
    return (np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2


def signed(corners):
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    return (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / 2


FLAT = np.eye(3)


def cut(polygons, turn=FLAT, far=0.0):
    """The triangles of polygons that lie in a plane in space, in its coordinates, and the notes."""
    flat = np.concatenate([np.array(p, float) for p in polygons])
    space = np.pad(flat, ((0, 0), (0, 1))) @ turn.T + far
    ends = np.cumsum([len(p) for p in polygons])
    found, notes = loaded(space, np.split(np.arange(len(flat)), ends[:-1]))
    of = np.searchsorted(ends, found[:, 0], "right")
    return [flat[found[of == k]] for k in range(len(polygons))], notes


def loaded(vertices, polygons):
    """The triangles [F, 3] of an OFF file of polygons, and the notes in its warnings."""
    lines = [" ".join(map(repr, map(float, row))) for row in vertices]
    lines += [" ".join(map(str, (len(row), *row))) for row in polygons]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        file = Path(folder) / "a.off"
        file.write_text("\n".join(["OFF", f"{len(vertices)} {len(polygons)} 0", *lines]))
        mesh = Mesh.load(file, dtype=torch.float64)
    return mesh.faces.numpy(), [str(note.message).partition("a.off: ")[2] for note in notes]


@for_each(far=[0.0, 1e4], power=[-3.0, 0.0, 3.0])
def test_areas_and_orientation_are_those_of_the_polygon(far, power):
    """All together: whatever stands beside a polygon, it is cut alike."""
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))
    pieces, notes = cut(PLANE.values(), turn * 10**power, far)
    assert not notes
    for (name, polygon), found in zip(PLANE.items(), pieces, strict=True):
        areas, want = signed(found), shoelace(polygon)
        np.testing.assert_allclose(np.abs(areas).sum(), abs(want), 1e-9, 1e-12, err_msg=name)
        assert (areas * np.sign(want) >= -1e-9).all(), name


def test_random_stars_and_a_large_one():
    g = np.random.default_rng(0)

    def star(count):  # about the origin, with no gap as wide as half a turn
        angle = (np.arange(count) + g.random(count)) * 2 * np.pi / count
        return np.stack((np.cos(angle), np.sin(angle)), 1) * (0.02 + g.random(count))[:, None]

    polygons = [star(count) for count in (*g.integers(5, 40, 60), 300)]
    pieces, notes = cut(polygons)
    assert not notes
    for polygon, found in zip(polygons, pieces, strict=True):
        assert len(found) == len(polygon) - 2
        assert signed(found).min() > 0
        np.testing.assert_allclose(signed(found).sum(), shoelace(polygon), rtol=1e-12)


def test_good_fans_stay_and_repeated_vertices_go():
    square = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], float)
    found, _ = loaded(square, [[0, 1, 2, 3], [0, 1, 2, 2]])
    assert found.tolist() == [[0, 1, 2], [0, 2, 3], [0, 1, 2]]
    ridge = np.array([[0, 0, 0], [1, 0, 0.1], [1, 1, 0], [0, 1, 0.1]])  # not planar
    assert loaded(ridge, [range(4)])[0].tolist() == [[0, 1, 2], [0, 2, 3]]


def test_what_cannot_be_covered_is_said():
    bow, few = [(0, 0), (1, 1), (1, 0), (0, 1)], [(0, 0), (1, 0)]
    five = [(np.cos(k), np.sin(k)) for k in np.arange(5) * 4 * np.pi / 5]
    assert cut([bow, five])[1] == ["2 of its polygons cross themselves, so no triangles cover them"]
    assert cut([few, PLANE["L"]])[1] == [
        "1 of its faces have fewer than 3 corners, and are left out"
    ]
    angle = np.arange(10_002) * 2 * np.pi / 10_002
    wheel = (
        np.stack((np.cos(angle), np.sin(angle)), 1) * (1 - 0.5 * (np.arange(10_002) % 2))[:, None]
    )
    with pytest.raises(ValueError, match="a polygon of 10002 corners is concave"):
        cut([wheel])
    with pytest.raises(ValueError, match="vertex"):
        loaded(np.zeros((3, 3)), [[0, 1, 3]])
