"""Surfaces from points and who sees them, and the minimum cut against SciPy's."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow
from scipy.spatial import Delaunay

import gendr
from gendr.photos.scene.minimum_cut import minimum_cut
from gendr.photos.scene.surface import SurfaceSettings, _apart, reconstruct


def network(points, seed, most=1000):
    """Tetrahedra between random points, with random capacities: neighbours, twins, capacities."""
    rng = np.random.default_rng(seed)
    beside = Delaunay(rng.random((points, 3))).neighbors.astype(np.int32)
    twin = np.full(beside.shape, -1, np.int32)
    for c, f in np.argwhere(beside >= 0):
        twin[c, f] = 4 * beside[c, f] + np.flatnonzero(beside[beside[c, f]] == c)[0]
    capacity = np.where(beside >= 0, rng.integers(0, most, beside.shape), 0).astype(np.int32)
    chosen = rng.random(len(beside)) < 0.3
    return (
        beside,
        twin,
        capacity,
        np.where(chosen, rng.integers(-3 * most, 3 * most, len(beside)), 0),
    )


@pytest.mark.parametrize("points", [6, 40, 400])
def test_the_cut_is_minimal(points):
    for seed in range(3):
        beside, twin, capacity, terminal = network(points, seed)
        n = len(beside)
        cell, f = np.nonzero(beside >= 0)
        source, sink = np.flatnonzero(terminal > 0), np.flatnonzero(terminal < 0)
        values = np.concatenate([capacity[cell, f], terminal[source], -terminal[sink]])
        rows = np.concatenate([cell, np.full(len(source), n), sink])
        columns = np.concatenate([beside[cell, f], source, np.full(len(sink), n + 1)])
        graph = csr_matrix((values.astype(np.int32), (rows, columns)), (n + 2, n + 2))
        truth = maximum_flow(graph, n, n + 1).flow_value
        kept, flow = minimum_cut(beside, twin, capacity.copy(), terminal)
        crossed = kept[:, None] & (beside >= 0) & ~kept[beside]
        cost = capacity[crossed].sum() + terminal[(terminal > 0) & ~kept].sum()
        assert flow == truth == cost - terminal[(terminal < 0) & kept].sum()


def seen_ball(count, cameras, seed=0, noise=0.0):
    """Points of a ball of radius 1, and the cameras, 4 from its middle, that see them."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(count, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    cameras = cameras / np.linalg.norm(cameras, axis=1, keepdims=True) * 4
    sees = (points @ cameras.T) > 1.6
    points = points[sees.sum(1) >= 2]
    sees = (points @ cameras.T) > 1.6
    starts = np.concatenate([[0], np.cumsum(sees.sum(1))])
    spacing = np.full(len(points), np.sqrt(4 * np.pi / count))
    points = points * (1 + noise * spacing[:, None] * rng.normal(size=(len(points), 1)))
    return points, np.nonzero(sees)[1].astype(np.int32), starts, cameras, spacing


AROUND = np.random.default_rng(5).normal(size=(24, 3))


def size(vertices, faces):
    """Area and enclosed volume."""
    a, b, c = (vertices[faces[:, k]] - vertices.mean(0) for k in range(3))
    cross = np.cross(b - a, c - a)
    return np.linalg.norm(cross, axis=1).sum() / 2, (a * cross).sum() / 6


@pytest.mark.rotating(5, group="photos")
def test_a_ball_is_found_wherever_it_lies():
    points, views, starts, cameras, spacing = seen_ball(2000, AROUND)
    for offset in (np.zeros(3), np.array([5e5, 5e6, 100.0])):
        found = reconstruct(points + offset, views, starts, cameras + offset, spacing)
        area, volume = size(found.vertices, found.faces)
        assert len(found.vertices) == len(points)
        assert area == pytest.approx(4 * np.pi, rel=0.01)
        assert volume == pytest.approx(4 / 3 * np.pi, rel=0.02)  # outwards, so positive
        np.testing.assert_array_equal(found.vertices, (points + offset)[found.point_of_vertex])


def test_copies_of_photos_stand_where_these_do():
    """Cells between cameras at nearly one place are too thin to walk through."""
    places = np.array([[0.0, 0, 4], [1, 0, 4], [0, 0, 4 + 1e-6], [1, 1e-5, 4]])
    kept, rows = _apart(places, 1e-3)
    np.testing.assert_array_equal(kept, places[:2])
    np.testing.assert_array_equal(rows, [0, 1, 0, 1])
    rng = np.random.default_rng(0)
    cameras = rng.normal(size=(8, 3))
    near = np.concatenate([cameras, cameras[:4] + 1e-7 * rng.normal(size=(4, 3))])
    ball = reconstruct(*seen_ball(1500, near))
    radii = np.linalg.norm(ball.vertices, axis=1)
    assert np.percentile(np.abs(radii - 1), 99) < 1e-6
    assert len(ball.faces) > 1500


@pytest.mark.rotating(5, group="photos")
def test_noisy_points_are_joined_without_bias():
    points, views, starts, cameras, spacing = seen_ball(5000, AROUND, noise=0.1)
    for denser in (1, 4):  # than those of one photo, as those of many lie between each other
        found = reconstruct(points, views, starts, cameras, denser * spacing)
        radius = np.linalg.norm(found.vertices, axis=1)
        assert len(radius) > 0.9 * len(points)
        assert abs(radius.mean() - 1) < 0.02 * spacing[0]
    few = reconstruct(points, views, starts, cameras, spacing, SurfaceSettings(deviation=1.0))
    assert len(few.vertices) < 0.5 * len(points)


def test_what_nobody_sees_stays_open():
    above = AROUND[AROUND[:, 2] > 0.5 * np.linalg.norm(AROUND, axis=1)]
    points, views, starts, cameras, spacing = seen_ball(4000, above)
    found = reconstruct(points, views, starts, cameras, spacing)
    corners = found.vertices[found.faces]
    seen = 4 * np.pi * len(points) / 4000
    assert size(found.vertices, found.faces)[0] == pytest.approx(seen, rel=0.1)
    out = corners.mean(1)
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert ((normal * out).sum(1) > 0).mean() > 0.995  # no lid from below


@pytest.mark.rotating(4, group="long")
def test_parts_that_float_go():
    points, views, starts, cameras, spacing = seen_ball(3000, AROUND)
    crumb = 1.8 * points[:4] / np.linalg.norm(points[:4], axis=1, keepdims=True)
    crumb = crumb[:1] + 0.02 * np.random.default_rng(1).normal(size=(4, 3))
    both = np.concatenate([points, crumb])
    sees = np.tile(np.flatnonzero(crumb[0] @ cameras.T > 3.0), 4).astype(np.int32)
    more = len(sees) // 4 * np.arange(1, 5)
    found = reconstruct(
        both, np.concatenate([views, sees]), np.concatenate([starts, starts[-1] + more]), cameras,
        np.concatenate([spacing, spacing[:4]]),
    )  # fmt: skip
    assert np.linalg.norm(found.vertices, axis=1).max() < 1.1


def test_threads_do_not_matter():
    scene = seen_ball(3000, AROUND, noise=0.3)
    try:
        gendr.set_num_threads(1)
        one = reconstruct(*scene)
        gendr.set_num_threads(3)
        three = reconstruct(*scene)
    finally:
        gendr.set_num_threads(None)
    np.testing.assert_array_equal(one.faces, three.faces)


def test_too_little_is_refused():
    points, views, starts, cameras, spacing = seen_ball(200, AROUND)
    with pytest.raises(ValueError, match="four points or more, got 3"):
        reconstruct(points[:3], views, starts[:4], cameras, spacing)
    flat = points * [1, 1, 0]
    with pytest.raises(ValueError, match="not all in one plane"):
        reconstruct(flat, views, starts, cameras * [1, 1, 0], spacing)
