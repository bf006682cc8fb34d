"""What docs/coming-from.md says of other renderers: their formulas, written out, against ours."""

import math

import torch

import gendr
from support.cases import for_each


def squared_distances(points, triangle):
    """Signed squared distances [P, F] of points to triangles, positive inside, in plain torch."""
    a, b = triangle, triangle.roll(-1, dims=1)  # [F, 3, 2]
    side, to = b - a, points[:, None, None] - a
    part = ((to * side).sum(-1) / (side * side).sum(-1)).clamp(0, 1)
    away = (to - part[..., None] * side).square().sum(-1).amin(-1)
    turn = side[..., 0] * to[..., 1] - side[..., 1] * to[..., 0]
    inside = (turn > 0).all(-1) | (turn < 0).all(-1)
    return torch.where(inside, away, -away)


@for_each(sigma=[1e-4, 3e-3])
def test_silhouettes_of_soft_rasterizer(sigma):
    torch.manual_seed(1)
    faces = torch.rand(7, 3, 2, dtype=torch.float64) * 1.6 - 0.8
    n = 16
    centre = (2 * torch.arange(n, dtype=torch.float64) + 1 - n) / n
    y, x = torch.meshgrid(-centre, centre, indexing="ij")
    points = torch.stack([x, y], -1).reshape(-1, 2)
    coverage = torch.sigmoid(squared_distances(points, faces) / sigma)
    theirs = 1 - (1 - coverage).prod(-1).reshape(n, n)
    scene = torch.cat([faces, torch.ones(7, 3, 1)], -1)[None]
    ours = gendr.silhouette(scene, n, "logistic.squared", scale=sigma, cutoff=0.0)
    assert torch.allclose(ours[0], theirs, atol=1e-9)
    assert 0.1 < theirs.mean() < 0.9


def test_coverage_of_dib_r_and_the_scale_of_the_published_gudermannian():
    dist, x = gendr.distributions.get("exponential.reversed"), torch.tensor([-3.0, -0.5, 0.0, 0.5])
    assert torch.allclose(dist(x, 0.5), torch.minimum((x / 0.5).exp(), torch.ones(())))
    dist, x, theirs = gendr.distributions.get("hyperbolic_secant"), torch.linspace(-2, 2, 9), 0.3
    published = 2 / math.pi * torch.atan(torch.exp(x / theirs))
    assert torch.allclose(dist(x, theirs * math.pi / 2), published, atol=1e-6)
