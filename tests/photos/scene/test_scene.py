"""Scenes: stereo, fusion and surface of a painted room, whose depths a formula gives."""

import json

import numpy as np
import pytest

import gendr
from gendr import cli
from gendr.photos.camera_files.colmap import point_text, read_point_file, read_tracks
from gendr.photos.scene.build import SceneSettings, build
from gendr.photos.scene.depth_maps import DepthMap, DepthSettings, find_depths, packed
from gendr.photos.scene.fusion import fused, thinned
from gendr.photos.scene.model import at_level, read_scene, shrunk
from gendr.photos.scene.support import open_at_rims
from support import rooms

QUICK = DepthSettings(levels=(2, 1), rounds=(3, 1, 1, 1))


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    folder = tmp_path_factory.mktemp("room")
    depths = rooms.photographs(folder)
    return folder, depths, read_scene(folder)


@pytest.fixture(scope="module")
def stereo(room, tmp_path_factory):
    folder = tmp_path_factory.mktemp("depths")
    return find_depths(room[2], folder, QUICK)


def test_the_model_of_a_scene(room):
    _, depths, scene = room
    R, t, K = rooms.cameras()
    np.testing.assert_allclose(scene.K, np.stack([K] * 5), atol=1e-9)
    np.testing.assert_allclose(scene.R, R, atol=1e-9)
    eyes = -np.einsum("nji,nj->ni", R, t)
    np.testing.assert_allclose(scene.centres + scene.origin, eyes, atol=1e-9)
    assert all(len(near) == 4 and i not in near for i, near in enumerate(scene.neighbours))
    # A pixel with its inverse depth is where the other photo sees the point.
    a, b = scene.between(0, 3)
    u, v = 40, 20
    point, _ = rooms.seen(R[0], t[0], K)
    p = a @ [u, v, 1] + b / depths[0, v, u]
    q = K @ (R[3] @ point[v, u] + t[3])
    np.testing.assert_allclose(p[:2] / p[2], q[:2] / q[2], atol=1e-6)
    low, high = scene.ranges.T
    assert (low < 1 / depths.max((1, 2))).all()
    assert (high > 1 / depths.min((1, 2))).all()


def test_left_out_photos_are_no_neighbours(room):
    scene = read_scene(room[0], left_out=[1])
    assert not scene.neighbours[1]
    assert all(1 not in near for near in scene.neighbours)


def test_levels_are_means_and_their_lenses_fit():
    grey = np.arange(35, dtype=np.uint8).reshape(5, 7)
    np.testing.assert_array_equal(shrunk(grey, 2)[:, 0], [4, 18])  # 3.5 and 17.5+, rounded up
    # The centre of a block of four pixels, at 0.5 of them, is the centre of the first of the level.
    K = np.array([[10.0, 0, 0.5], [0, 10, 0.5], [0, 0, 1]])
    np.testing.assert_allclose(at_level(K, 2), [[5, 0, 0], [0, 5, 0], [0, 0, 1]])
    word = int(packed(grey)[8])
    assert [word >> s & 255 for s in (0, 8, 16, 24)] == [8, 9, 15, 16]


def test_depth_maps_are_true(room, stereo):
    for i, file in enumerate(stereo):
        found = DepthMap.load(file)
        good = found.costs < 0.6
        off = np.abs(1 / found.planes[..., 0] / room[1][i] - 1)
        assert good.mean() > 0.8
        assert np.median(off[good]) < 0.004
        assert (off[good] < 0.05).mean() > 0.93
        assert found.compared > 10 * good.size


def test_depth_maps_depend_on_no_threads_and_no_interruption(room, stereo, tmp_path):
    before = gendr.kernels.threads.num_threads()
    try:
        gendr.set_num_threads(1 if before > 1 else 2)
        again = find_depths(room[2], tmp_path, QUICK)
        again[2].unlink()
        again = find_depths(room[2], tmp_path, QUICK)
    finally:
        gendr.set_num_threads(before)
    for file, other in zip(stereo, again, strict=True):
        np.testing.assert_array_equal(DepthMap.load(file).planes, DepthMap.load(other).planes)


def test_points_lie_in_the_room(room, stereo):
    scene = room[2]
    cloud = fused(scene, stereo)
    places = cloud.points + scene.origin
    off = np.minimum(np.abs(places[:, 2] - rooms.WALL), np.abs(places[:, 1] - rooms.FLOOR))
    assert len(cloud) > 0.6 * 72 * 96
    assert np.median(off) < 0.01
    assert (off < 0.08).mean() > 0.95
    counts = np.diff(cloud.starts)
    assert counts.min() >= 2
    assert counts.max() <= 5
    wall = np.abs(places[:, 2] - rooms.WALL) < 0.05
    away = cloud.normals[wall & (places[:, 1] < 0.7)]
    assert np.median(away[:, 2]) < -0.95  # towards the cameras
    few, rows, side = thinned(scene, cloud, 1500)
    assert len(few) == len(rows) <= 1500
    assert side >= 2
    off = np.minimum(
        np.abs(few[:, 2] + scene.origin[2] - 4), np.abs(few[:, 1] + scene.origin[1] - 1)
    )
    assert np.median(off) < 0.008
    views, starts = cloud.chosen(rows)
    for k in (0, len(rows) // 2):
        own = cloud.views[cloud.starts[rows[k]] : cloud.starts[rows[k] + 1]]
        np.testing.assert_array_equal(views[starts[k] : starts[k + 1]], own)


def test_a_scene_is_open_and_where_the_room_is(room, tmp_path):
    scene = room[2]
    found = build(scene, tmp_path, SceneSettings(faces=3000, depth=QUICK))
    vertices = found.mesh.vertices.double().numpy() + scene.origin
    off = np.minimum(np.abs(vertices[:, 2] - rooms.WALL), np.abs(vertices[:, 1] - rooms.FLOOR))
    assert np.median(off) < 0.02
    assert (off < 0.1).mean() > 0.97
    assert not found.mesh.is_watertight
    assert found.facts["seen_by"]["three"] > 0.9
    again = build(scene, tmp_path, SceneSettings(faces=3000, depth=QUICK))  # from its files
    np.testing.assert_array_equal(again.mesh.vertices, found.mesh.vertices)
    np.testing.assert_array_equal(again.mesh.faces, found.mesh.faces)
    assert found.facts["matched"] >= found.facts["kept"] > 0.6


def test_no_overlap_is_said(tmp_path):
    rooms.photographs(tmp_path, count=3, points=2)
    with pytest.raises(ValueError, match="no two photos show enough of the same"):
        read_scene(tmp_path)


def test_points_without_tracks_count_for_the_photos_they_are_in(tmp_path, room):
    rooms.photographs(tmp_path, tracks=False)
    found = read_scene(tmp_path)
    assert [set(near) for near in found.neighbours] == [set(n) for n in room[2].neighbours]


def test_tracks_are_read_again(tmp_path):
    points, colors = np.array([[1.0, 2, 3], [4, 5, 6]]), np.array([[0, 0.5, 1]] * 2)
    file = tmp_path / "points3D.txt"
    file.write_bytes(point_text(points, colors, [(1, 3), ()]))
    np.testing.assert_array_equal(read_point_file(file)[0], points)
    assert read_tracks(file) == [(1, 3), ()]


def test_the_command(room, tmp_path, capsys):
    """Photos without masks are a scene, and what is said of it is what the mesh is."""
    out = tmp_path / "out"
    command = ["fit", str(room[0]), "-o", str(out), "--hold-out", "4", "--faces", "2500"]
    assert cli.main([*command, "--texture-size", "256"]) == 0
    said = capsys.readouterr()
    assert "no masks and no backdrop: a scene of 4 photos" in said.out
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["held_out"] == [2]
    assert metrics["scores"]["held_out"]
    assert metrics["scores"]["psnr"] > 22
    assert metrics["scores"]["cover"] > 0.4
    mesh = gendr.Mesh.load(out / "fit.glb")
    assert len(mesh.faces) == metrics["faces"] <= 2500
    assert mesh.texture is not None
    assert not (out / "depth_maps").exists()
    assert cli.main([*command, "--object"]) == 2
    assert "no mask" in capsys.readouterr().err
    for more, why in (
        (["--init", "hull"], "--init is for an object"),
        (["--steps", "9"], "--steps is for an object"),
        (["--object"], "contradict each other"),
        (["--hold-out", "1"], "leaves no photo"),
    ):
        assert cli.main([*command, "--scene", *more]) == 2
        assert why in capsys.readouterr().err
    assert cli.main(["fit", "chair", "-o", str(out), "--scene"]) == 2
    assert "is a mesh" in capsys.readouterr().err
    assert cli.main(["fit", "chair", "-o", str(out), "--hold-out", "3"]) == 2
    assert "--hold-out is for scenes" in capsys.readouterr().err


def test_cameras_without_points_are_enough(tmp_path):
    depths = rooms.photographs(tmp_path)
    (tmp_path / "points3D.txt").unlink()
    scene = read_scene(tmp_path)
    assert not len(scene.points)
    found = DepthMap.load(find_depths(scene, tmp_path / "depths", QUICK)[2])
    good = found.costs < 0.6
    off = np.abs(1 / found.planes[..., 0] / depths[2] - 1)
    assert good.mean() > 0.7
    assert np.median(off[good]) < 0.01


def test_a_surface_ends_where_no_photo_shows_it_and_stays_whole_within():
    """A strip of squares: one hidden triangle within, two at an end."""
    grid = np.arange(24).reshape(4, 6)
    corners = [(grid[i, j], grid[i, j + 1], grid[i + 1, j + 1], grid[i + 1, j])
               for i in range(3) for j in range(5)]  # fmt: skip
    faces = np.array([t for a, b, c, d in corners for t in ((a, b, c), (a, c, d))])
    shown = np.ones(len(faces), bool)
    within = 2 * (5 * 1 + 2)
    shown[[within, 0, 1]] = False
    keep = open_at_rims(faces, shown)
    assert keep[within]
    assert not keep[[0, 1]].any()
    assert keep.sum() == len(faces) - 2
