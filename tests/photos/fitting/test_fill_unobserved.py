"""What no photo sees ends in a surface of least area: floors of cups close, undersides are flat."""

import numpy as np
import pytest

from gendr.photos.fitting.shape.fill_unobserved import filled_by_least_area

COUNT = 64
CELL = 2 / (COUNT - 1)
REACH = 4 * CELL


@pytest.fixture(scope="module")
def cup():
    """A cup, what photos from above say of it, its hull, and which cells are inside."""
    x, y, z = np.meshgrid(*[np.linspace(-1, 1, COUNT)] * 3, indexing="ij")
    radius = np.hypot(x, z)
    outside = np.maximum(radius - 0.8, np.maximum(y - 0.7, -0.6 - y))
    hollow = np.maximum(radius - 0.55, -0.1 - y)
    distance = -np.maximum(outside, -hollow)
    hull = (radius < 0.8) & (y < 0.7) & (y > -0.6 - 0.15 * (1 - radius / 0.8))
    # Lines of sight of 58 degrees leave a cone on the middle of the floor, and all below, unseen.
    seen = (y > -0.5) & (y > -0.1 + 1.6 * (0.3 - radius)) | (y > -0.5) & (radius > 0.3)
    seen |= (y > -0.6) & (radius > 0.7)
    votes = np.where(seen & hull & (distance < REACH), (distance / REACH).clip(-1, 1), 0)
    return votes.astype(np.float32), hull, distance > 0, radius, y


def test_the_floor_that_nobody_sees_is_flat_and_closed(cup):
    votes, hull, truth, radius, y = cup
    found = hull & (filled_by_least_area(votes, hull) > 0.5)
    cone = (radius < 0.3) & (y > -0.1 + 2 * CELL) & (y < 0.3)
    assert np.count_nonzero(cone & (votes == 0)) > 300
    assert not found[cone].any()
    floor = (radius < 0.5) & (y < -0.1 - 2 * CELL) & (y > -0.5 + 2 * CELL)
    assert found[floor].all()
    # Where photos say something, that counts.
    unseen = hull & (votes == 0)
    assert np.count_nonzero(unseen & ~truth) > 3 * np.count_nonzero(unseen & (found ^ truth))


def test_the_underside_is_flat(cup):
    votes, hull, _, radius, y = cup
    below = hull & (radius < 0.5) & (y < -0.6 - 2 * CELL)
    assert np.count_nonzero(below) > 300
    assert np.count_nonzero(filled_by_least_area(votes, hull)[below] > 0.5) < 0.1 * below.sum()


def test_what_photos_say_stays():
    """A plate three cells thick, and a slit as wide."""
    x = np.linspace(-1, 1, COUNT)[:, None, None] + np.zeros((COUNT,) * 3)
    plate = np.abs(x) < 1.5 * CELL
    for sign in (1, -1):
        votes = np.where(plate, sign, -sign).astype(np.float32)
        found = filled_by_least_area(votes, np.ones_like(plate)) > 0.5
        middle = np.s_[COUNT // 2 - 1 : COUNT // 2 + 1, 8:-8, 8:-8]
        assert found[middle].all() == (sign > 0)
        assert found[middle].any() == (sign > 0)
