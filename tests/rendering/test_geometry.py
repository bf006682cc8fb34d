"""Distances, projection, clipping, against independent constructions."""

import importlib
from pathlib import Path

import numpy as np
import torch
from torch.autograd import gradcheck, gradgradcheck

import gendr
from gendr import Camera, Mesh, Renderer
from support import soup
from support.cases import for_each


def signed_distance(points, corners):
    """Of points [T, 2] to triangles [T, 3, 2], positive inside: that of a pixel at the origin."""
    faces = torch.cat([corners - points[:, None], torch.ones_like(corners[..., :1])], -1)
    alpha = gendr.silhouette(faces[:, None], 1, DISTRIBUTION, "max", 1.0, 0.0, backend="reference")
    return DISTRIBUTION.icdf(alpha[:, 0, 0])


DISTRIBUTION = gendr.distributions.get("reciprocal")


def brute_distance(point, corners, steps=20001):
    """Nearest of many points on the boundary; the sign by the winding of the corners around it."""
    t = np.linspace(0, 1, steps)[:, None]
    ends = np.roll(corners, -1, 0)
    boundary = np.concatenate([a + t * (b - a) for a, b in zip(corners, ends, strict=True)])
    distance = np.linalg.norm(boundary - point, axis=1).min()
    angles = np.arctan2(*(corners - point).T[::-1])
    turns = np.diff(np.append(angles, angles[0]))
    winding = np.round(((turns + np.pi) % (2 * np.pi) - np.pi).sum() / (2 * np.pi))
    return distance if winding != 0 else -distance


def test_distance_against_dense_sampling_of_the_boundary():
    corners = soup(1, 20, 3)[0, :, :, :2]
    points = torch.rand(20, 2, dtype=torch.float64) * 2 - 1
    got = signed_distance(points, corners)
    want = [brute_distance(p.numpy(), c.numpy()) for p, c in zip(points, corners, strict=True)]
    np.testing.assert_allclose(got.numpy(), want, atol=1e-4)
    assert (got > 0).any()
    assert (got < 0).any()


def test_the_published_distance_is_the_distance_in_float64_and_cancels_in_float32(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    rounding = importlib.import_module("rounding")
    generator = torch.Generator().manual_seed(0)
    faces = torch.rand(20, 3, 2, generator=generator, dtype=torch.float64) * 2 - 1
    faces[10:, 2] = faces[10:, 1] + 1e-3 * (faces[10:, 2] - faces[10:, 0])  # thin ones
    points = torch.rand(40, 2, generator=generator, dtype=torch.float64) * 2 - 1

    def every(points, faces):
        pairs = points.repeat(len(faces), 1), faces.repeat_interleave(len(points), 0)
        return signed_distance(*pairs).view(len(faces), -1)

    want = every(points, faces)
    found = rounding.published_distance(points, faces)
    assert (found - want).abs().max() < 1e-9
    corners, places = faces.float(), points.float()
    rough = rounding.published_distance(places, corners).double()
    exact = rounding.published_distance(places.double(), corners.double())
    fine = every(places, corners).double()
    assert (rough - exact).abs()[10:].max() > 30 * (fine - exact).abs()[10:].max()


def test_distance_is_differentiable_twice():
    corners = soup(1, 5, 1)[0, :, :, :2].clone().requires_grad_()
    points = (torch.rand(5, 2, dtype=torch.float64) * 2 - 1).requires_grad_()
    assert gradcheck(signed_distance, (points, corners), fast_mode=True)
    assert gradgradcheck(signed_distance, (points, corners), fast_mode=True)


def test_gradient_on_the_edge_is_the_inward_normal():
    corners = torch.tensor([[0.0, 0], [1, 0], [0, 1]], dtype=torch.float64)
    for triangle in (corners, corners.flip(0)):
        point = torch.tensor([[0.25, 0.0]], dtype=torch.float64, requires_grad=True)
        distance = signed_distance(point, triangle[None])
        assert distance.item() == 0
        (slope,) = torch.autograd.grad(distance, point)
        torch.testing.assert_close(slope, torch.tensor([[0.0, 1.0]], dtype=torch.float64))


@for_each(
    corners=[
        [[0.1, 0.2], [0.1, 0.2], [0.1, 0.2]],
        [[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]],
        [[-0.5, 0.1], [0.5, 0.1], [0.5, 0.1]],
    ],
)
def test_a_triangle_without_area_is_outside_everywhere(corners):
    corners = torch.tensor(corners, dtype=torch.float64, requires_grad=True)
    steps = (2 * torch.arange(16, dtype=torch.float64) + 1) / 16 - 1
    others = torch.cat([corners.detach(), torch.tensor([[0.25, 0.25]]).double()])
    points = torch.cat([torch.cartesian_prod(steps, steps), others])
    distance = signed_distance(points, corners.expand(len(points), 3, 2))
    assert (distance <= 0).all()
    (slope,) = torch.autograd.grad(distance.sum(), corners)
    assert torch.isfinite(slope).all()


def test_slivers_are_not_inside_far_from_themselves():
    generator = torch.Generator().manual_seed(5)
    ends = torch.rand(500, 2, 2, generator=generator) * 2 - 1
    middle = ends.mean(1) + 1e-8 * torch.randn(500, 2, generator=generator)
    corners = torch.stack([ends[:, 0], ends[:, 1], middle], 1)
    along = ends[:, 0] + (ends[:, 1] - ends[:, 0]) * torch.rand(500, 1, generator=generator) * 3
    assert signed_distance(along, corners).max() < 1e-6
    # The squares of such edges underflow in float32; beside the triangle d was 0.
    tiny = 1e-20 * torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    distance = signed_distance(torch.tensor([[0.25, 0.0]]), tiny[None])
    torch.testing.assert_close(distance, torch.tensor([-0.25]))


def ahead(fov):
    """A camera at the origin looking along +z."""
    return Camera(torch.diag(torch.tensor([-1.0, 1, 1])), torch.zeros(3), fov=fov)


@for_each(
    corners=[
        [[-3.0, -1, 6], [4, -0.5, 6], [0.5, -1.2, -5]],  # four corners are left
        [[-0.5, -1, 6], [4, -3, -5], [-3, -2, -6]],  # three
    ]
)
def test_clipping_is_the_limit_of_a_fine_tessellation(corners):
    """A big face through the near plane covers what its many small pieces cover."""
    mesh = Mesh(torch.tensor(corners, dtype=torch.float64), torch.tensor([[0, 1, 2]]))
    renderer, camera = Renderer(48, "heaviside", "max"), ahead(70.0).to(torch.float64)
    whole, pieces = (renderer(m, camera) for m in (mesh, mesh.subdivided(5)))
    assert 0.02 < whole.alpha.mean() < 0.9
    assert (whole.alpha != pieces.alpha).sum() <= 4
    both = torch.isfinite(whole.depth) & torch.isfinite(pieces.depth)
    torch.testing.assert_close(whole.depth[both], pieces.depth[both], rtol=1e-6, atol=1e-6)
    assert (whole.depth[both] >= 1 - 1e-6).all()


def test_clipped_faces_have_right_gradients():
    camera = ahead(70.0).to(torch.float64)
    vertices = torch.tensor(
        [[-3.0, -1, 6], [4, -0.5, 6], [0.5, -1.2, -5], [0, 1, 4], [0.3, 2, -1]], dtype=torch.float64
    ).requires_grad_()
    faces = torch.tensor([[0, 1, 2], [3, 4, 1]])
    renderer = Renderer((5, 6), "logistic", scale=0.1, cutoff=0.0, backend="reference", gamma=0.1)

    def image(v):
        out = renderer(Mesh(v, faces), camera)
        return out.alpha, out.rgb

    assert gradcheck(image, (vertices,), fast_mode=True)


def test_interpolation_is_perspective_correct():
    """Colours that are places, and depths, are those where the line of sight meets the plane."""
    corners = torch.tensor([[-2.0, -1, 4], [2.5, -1.5, 9], [0.3, 2, 2.5]], dtype=torch.float64)
    camera = ahead(70.0).to(torch.float64)
    mesh = Mesh(corners, torch.tensor([[0, 1, 2]])).with_vertex_colors(corners / 10 + 0.25)
    out = Renderer(24, "heaviside", "max", lighting="none", gamma=1e-3, backend="reference")(
        mesh, camera
    )
    inside = out.alpha[0] == 1
    assert inside.sum() > 50
    place = (out.rgb[0].permute(1, 2, 0)[inside] - 0.25) * 10
    torch.testing.assert_close(out.depth[0][inside], place[:, 2])
    half = torch.tan(torch.tensor(70.0, dtype=torch.float64).deg2rad() / 2)
    steps = (2 * torch.arange(24, dtype=torch.float64) + 1) / 24 - 1
    y, x = torch.meshgrid(-steps, steps, indexing="ij")  # the camera's right is -x
    seen = torch.stack([-x[inside], y[inside]], -1) * half * place[:, 2:]
    torch.testing.assert_close(place[:, :2], seen)
