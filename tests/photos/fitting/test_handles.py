"""Narrow tunnels are filled, narrow handles cut; what is wider or holds parts together stays."""

import numpy as np
import pytest

from gendr.photos.fitting.shape.handles import euler_number, without_handles, without_tunnels

X, Y, Z = np.meshgrid(*[np.arange(-20, 20)] * 3, indexing="ij")
PLATE = (abs(X) < 3) & (abs(Y) < 15) & (abs(Z) < 15)
BALLS = ((X**2 + (Y - 9) ** 2 + Z**2) < 49) | ((X**2 + (Y + 9) ** 2 + Z**2) < 49)


def bar(x, radius):
    return (abs(Y) < 9) & (np.hypot(X - x, Z) < radius)


@pytest.mark.parametrize(
    ("body", "number"),
    [(PLATE, 1), (BALLS, 2), (BALLS | bar(0, 3), 1), (PLATE & ~(np.hypot(Y, Z) < 5), 0),
     ((X**2 + Y**2 + Z**2 < 200) & ~(X**2 + Y**2 + Z**2 < 50), 2)],
    ids=["plate", "two balls", "dumbbell", "ring", "shell"],
)  # fmt: skip
def test_euler_numbers(body, number):
    assert euler_number(body) == number


def test_narrow_tunnels_are_filled():
    wide, narrow = np.hypot(Y - 8, Z - 8) < 5, np.hypot(Y, Z) < 2.2
    groove = (X > 1) & (abs(Y + 9) < 1)
    body = PLATE & ~wide & ~narrow & ~groove
    assert euler_number(body) == -1
    found = without_tunnels(body, PLATE)
    assert euler_number(found) == 0
    assert not (found & (wide | groove | ~PLATE)).any()
    assert (found >= body).all()
    # Nor does a slit stay, which no photo sees through.
    slit = (abs(Y) < 14) & (abs(Z) < 2)
    assert euler_number(PLATE & ~slit) == 0
    filled = without_tunnels(PLATE & ~slit, PLATE)
    assert euler_number(filled) == 1
    assert (filled & slit).sum() > 250
    # Not where masks say that one sees through.
    assert (without_tunnels(body, ~narrow) == body).all()


def test_narrow_handles_are_cut():
    body = BALLS | bar(3, 3.6) | bar(-5, 1.3)
    assert euler_number(body) == 0
    found = without_handles(body)
    assert euler_number(found) == 1
    assert (BALLS | bar(3, 3.6))[~found].sum() == 0
    # What holds two parts together stays, as does what ends in the open.
    for kept in (BALLS | bar(0, 1.3), BALLS | ((abs(X) < 18) & (np.hypot(Y - 9, Z) < 1.3))):
        assert (without_handles(kept) == kept).all()
    # Of two bars one is needed.
    both = BALLS | bar(4, 1.3) | bar(-4, 1.3)
    assert euler_number(without_handles(both)) == 1


def test_what_is_large_stays():
    """A thin plate with a small hole is the object's, and so is a long thin bar."""
    sheet = (abs(X) < 2) & (abs(Y) < 15) & (abs(Z) < 15)
    drilled = sheet & ~(np.hypot(Y, Z) < 7)
    assert (without_handles(drilled | BALLS) == (drilled | BALLS)).all()
    long = BALLS | ((abs(Y) < 9) & (np.hypot(X - 4, Z) < 3.2)) | ring(-6, 12, 1.6)
    assert (without_handles(long) == long).all()


def ring(x, radius, minor):
    """About the point (x, 0, 0), in the plane of x and y."""
    return (np.hypot(X - x, Y) - radius) ** 2 + Z**2 < minor**2
