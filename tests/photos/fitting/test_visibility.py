"""How much of a surface several cameras see: of a ball, by a closed form."""

import torch
from torch.testing import assert_close

from gendr import look_at
from gendr.mesh import Mesh, icosphere
from gendr.photos.fitting.visibility import LEAST_COSINE, visible_share


def test_of_a_ball_a_camera_sees_a_cap():
    ball, distance = icosphere(4), 4.0
    # The cap in which the direction to the eye is within the least cosine: by the sine rule, the
    # angle at the centre is what the triangle of eye, centre and point leaves.
    turn = torch.tensor(LEAST_COSINE).acos()
    angle = turn - (turn.sin() / distance).asin()
    cap = float(1 - angle.cos()) / 2
    here, opposite = look_at(distance, 20.0, 30.0), look_at(distance, -20.0, 210.0)
    two = look_at(distance, torch.tensor([20.0, -20.0]), torch.tensor([30.0, 210.0]))
    twice = look_at(distance, torch.tensor([20.0, 20.0]), torch.tensor([30.0, 30.0]))
    size = (96, 128)
    assert_close(visible_share(ball, here, size, 1), cap, atol=0.01, rtol=0)
    assert_close(visible_share(ball, opposite, size, 1), cap, atol=0.01, rtol=0)
    assert_close(visible_share(ball, two, size, 1), 2 * cap, atol=0.02, rtol=0)
    assert visible_share(ball, two, size) == 0
    assert_close(visible_share(ball, twice, size), cap, atol=0.01, rtol=0)


def test_what_stands_before_hides():
    far = before = icosphere(3)
    camera = look_at(6.0, 0.0, 0.0)
    eye = torch.nn.functional.normalize(camera.eye, dim=-1)
    screen = before.with_vertices(1.5 * before.vertices + 3 * eye)
    vertices = torch.cat([far.vertices, screen.vertices])
    faces = torch.cat([far.faces, screen.faces + len(far.vertices)])
    alone = visible_share(screen, camera, (64, 64), 1)
    area = 1.5**2 / (1 + 1.5**2)
    together = visible_share(Mesh(vertices, faces), camera, (64, 64), 1)
    assert_close(together, alone * area, atol=0.01, rtol=0)
