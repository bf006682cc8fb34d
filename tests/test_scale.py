"""The scale: units, schedules, and suggestions held against exact areas and their slopes."""

import math

import pytest
import torch

import gendr
from gendr import distributions, geometric_schedule, pixels_to_ndc, suggest_scale
from gendr.mesh import icosphere
from support.cases import for_each

SIZE = 64
VIEWS = gendr.look_at(
    2.732, torch.tensor([10.0, 37.0, -20.0]), torch.tensor([13.0, 71.0, 190.0]), dtype=torch.float64
)
# Shifted pixel grids: a centred sphere meets whole rings of pixel centres at once.
SHIFTS = torch.tensor([[0.011, -0.004], [-0.013, 0.007], [0.002, 0.015]], dtype=torch.float64)
CAMERA = gendr.Camera(VIEWS.rotation, VIEWS.translation, VIEWS.focal, SHIFTS)
ALL = [d for p in distributions.benchmark_distributions() for d in (p, p.squared())]


def sphere(n, radius=0.4):
    return icosphere(n, dtype=torch.float64).scaled(radius)


def exact_area(mesh):
    """Areas of the silhouettes of a convex mesh, from the hull of its projected vertices."""
    from scipy.spatial import ConvexHull

    views, _ = CAMERA.project(mesh.vertices)
    return torch.tensor([ConvexHull(view.numpy()).volume for view in views])


@for_each("size, side", [(64, 64), ((32, 128), 32), ((128, 32), 32)])
def test_pixels_agree_with_the_renderer(size, side):
    assert pixels_to_ndc(1.5, size) == pytest.approx(3 / side)
    assert gendr.Renderer(size, scale="1.5px").scale == pytest.approx(pixels_to_ndc(1.5, size))


@for_each("start, end", [(0.1, 0.001), (1e-6, 3.0), (2.0, 2.0)])
def test_schedule_multiplies_by_one_factor(start, end):
    schedule = torch.tensor(geometric_schedule(start, end, 11), dtype=torch.float64)
    assert (schedule[0].item(), schedule[-1].item()) == (start, end)
    torch.testing.assert_close(
        schedule[1:] / schedule[:-1], torch.full((10,), (end / start) ** 0.1, dtype=torch.float64)
    )
    assert geometric_schedule(start, end, 1) == (end,)
    assert geometric_schedule(start, end, 2) == (start, end)


@for_each(dist=ALL, rotating=3)
def test_every_distribution_gets_a_scale_that_meets_the_rule(dist):
    mesh, tconorm = sphere(2), gendr.tnorms.tconorm("einstein")
    scale = suggest_scale(mesh, CAMERA, SIZE, dist, tconorm=tconorm)
    views, _ = CAMERA.project(mesh.vertices)
    corners = views[:, mesh.faces]
    edge = (corners - corners.roll(1, -2)).norm(dim=-1).median()
    radius = (views.amax(1) - views.amin(1)).norm(dim=-1).max() / 2

    def worst(scale):
        """The largest of the three sides of the rule, over what it may be."""
        outside, inside = dist.coverage(torch.stack([-0.2 * edge, -radius]), scale)[0], 0.2 * edge
        near = tconorm.reduce(outside[0].expand(6))
        far = tconorm.reduce(outside[1].expand(320))
        hole = dist.coverage(inside, scale)[1]
        return max(near / 0.25, far / 0.1, hole / 0.05)

    assert scale > 0
    assert worst(scale) == pytest.approx(1, rel=1e-6)
    assert worst(scale * 1.1) > 1.001


@for_each(
    name=["uniform", "logistic.squared", "gamma(shape=2).centred", "cauchy.squared"], n=[2, 3]
)
def test_suggestion_keeps_area_and_gradient(name, n):
    mesh, step = sphere(n), 1e-4
    scale = suggest_scale(mesh, CAMERA, SIZE, name)
    factor = torch.ones((), dtype=torch.float64, requires_grad=True)
    render = gendr.Renderer(SIZE, name, scale=scale)
    alpha = render(mesh.with_vertices(mesh.vertices * factor), CAMERA).alpha
    area = alpha.sum() * (2 / SIZE) ** 2
    (slope,) = torch.autograd.grad(area, factor)
    exact = [exact_area(mesh.scaled(1 + s * step)).sum() for s in (-1, 0, 1)]
    most = 0.2 if name == "cauchy.squared" else 0.1  # its far faces still add up
    assert abs(float(area.detach() / exact[1]) - 1) < most
    assert 0.7 < float(slope / ((exact[2] - exact[0]) / (2 * step))) < 1.4


def test_ten_times_the_suggestion_inflates_and_a_finer_mesh_more():
    scale = 10 * suggest_scale(sphere(2), CAMERA, SIZE, "logistic")
    ratios = []
    for n in (2, 3):
        alpha = gendr.Renderer(SIZE, "logistic", scale=scale)(sphere(n), CAMERA).alpha
        ratios.append(float(alpha.sum() * (2 / SIZE) ** 2 / exact_area(sphere(n)).sum()))
    assert 1.4 < ratios[0] < ratios[1] - 0.1


def test_finer_meshes_get_smaller_scales_between_the_bounds_of_the_pixel():
    lengths = [suggest_scale(sphere(n), CAMERA, SIZE, "logistic") for n in (0, 1, 2, 3, 4)]
    assert lengths == sorted(lengths, reverse=True)
    coarse, fine = (
        [suggest_scale(sphere(n), CAMERA, size, "uniform") for size in sizes]
        for n, sizes in ((0, (32, 64)), (3, (4, 8)))
    )
    assert lengths[2] / lengths[3] == pytest.approx(2, rel=0.05)
    assert coarse[0] / coarse[1] != pytest.approx(1)  # 1 pixel at most
    assert fine[0] / fine[1] == pytest.approx(2, rel=1e-6)  # 0.1 pixel at least


def test_heavy_tails_shrink_with_the_number_of_faces_unless_joined_by_max():
    few, many = (
        suggest_scale(sphere(n), CAMERA, SIZE, "cauchy", tconorm="probabilistic") for n in (2, 4)
    )
    assert few / many == pytest.approx(16, rel=0.1)
    assert suggest_scale(sphere(4), CAMERA, SIZE, "cauchy", tconorm="max") > 10 * many


def test_a_callable_and_art_get_what_the_distribution_gets():
    mesh = sphere(2)

    def cdf(z):
        return torch.sigmoid(z)

    own, known = (suggest_scale(mesh, CAMERA, SIZE, d) for d in (cdf, "logistic"))
    assert own == pytest.approx(known)
    # The quantile of sqrt(x) / scale is where that of x / scale is: lengths go in as their roots.
    art = suggest_scale(mesh, CAMERA, SIZE, "logistic.art(0.5)")
    squared = suggest_scale(mesh, CAMERA, SIZE, "logistic.squared")
    assert (art * art) * squared == pytest.approx(known**3, rel=1e-6)
    assert suggest_scale(mesh, CAMERA, SIZE, "heaviside") == pixels_to_ndc(1.0, SIZE)


@for_each(
    "call, error, words",
    [
        (lambda: pixels_to_ndc("2", 64), TypeError, "pixels"),
        (lambda: pixels_to_ndc(math.nan, 64), ValueError, "pixels"),
        (lambda: pixels_to_ndc(1.0, 0), ValueError, "image_size"),
        (lambda: geometric_schedule(0.0, 1.0, 3), ValueError, "start must be > 0"),
        (lambda: geometric_schedule(1.0, math.inf, 3), ValueError, "end"),
        (lambda: geometric_schedule(1.0, 1.0, 0), ValueError, "steps"),
        (lambda: geometric_schedule(1.0, 1.0, 2.5), TypeError, "steps"),
        (lambda: suggest_scale(sphere(0), CAMERA, 64, "logistik"), ValueError, "logistic"),
        (lambda: suggest_scale(sphere(0), CAMERA, 64, "gamma", tconorm="yagr"), ValueError, "yag"),
        (lambda: suggest_scale(torch.ones(3), CAMERA, 64, "logistic"), TypeError, "gendr.Mesh"),
        (lambda: suggest_scale(sphere(0), 3, 64, "logistic"), TypeError, "gendr.Camera"),
        (lambda: suggest_scale(sphere(0), CAMERA, 64, "logistic", near=9.0), ValueError, "no face"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()
