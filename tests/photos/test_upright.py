"""What is up, by photos that look down, and some of which lie on a side."""

import numpy as np

from gendr import look_at
from gendr.photos.capture.cameras import _world
from gendr.photos.upright import upwards


def test_most_photos_say_what_is_up():
    """Around something, or on one side of it; a third is stored turned, or lies there unsaid."""
    for elevation in (0, 20, 60):
        for most in (330, 90):
            camera = look_at(3.0, elevation, np.linspace(0, most, 12).tolist())
            right, down = camera.right.double().numpy(), -camera.up.double().numpy()
            turns = np.stack([right, down, camera.ahead.double().numpy()], 1)
            turns[::3, 0], turns[::3, 1] = down[::3], -right[::3]
            for quarters in ([1, 0, 0] * 4, [0] * 12):
                np.testing.assert_allclose(upwards(turns, quarters), [0, 1, 0], atol=0.03)


def test_photos_of_a_drone_look_down():
    """Forth and back, and aslant by a few degrees."""
    dice = np.random.default_rng(0)
    turns = np.tile([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]], (8, 1, 1))
    turns[4:, :2] *= -1
    for axes in turns:
        axes += dice.normal(0, 0.05, (3, 3))
        axes[:] = np.linalg.svd(axes)[0] @ np.linalg.svd(axes)[2]
    np.testing.assert_allclose(upwards(turns, [0] * 8), [0, 1, 0], atol=0.06)
    images = [{"R": own.tolist(), "t": (-own @ [k % 4, 3.0, k // 4]).tolist()}
              for k, own in enumerate(turns)]  # fmt: skip
    turn = _world(images, [0] * 8)[0]
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-9)
    assert turn[1, 1] > 0.99
