"""Scenes: stereo, fusion and surface of a painted room, whose depths a formula gives."""

import json
import struct
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow
from scipy.spatial import Delaunay, KDTree
from scipy.spatial.transform import Rotation

import gendr
from gendr import cli
from gendr.cli import scene as command
from gendr.cli.masks import NoBackdropError, with_masks
from gendr.cli.parser import Fit
from gendr.cli.resume import Run
from gendr.photos import visual
from gendr.photos.camera_files.colmap import point_text, read_point_file, read_tracks
from gendr.photos.fitting.colors.fit import ColorResult
from gendr.photos.scene import build as build_module
from gendr.photos.scene import fusion
from gendr.photos.scene.box import find_box, read_box
from gendr.photos.scene.build import SceneSettings, build
from gendr.photos.scene.depth_maps import (
    DepthMap,
    _matcher,
    find_depths,
    grey_of,
    noise_of,
)
from gendr.photos.scene.fusion import fused, thinned
from gendr.photos.scene.ground import Ground, aligned, find_ground
from gendr.photos.scene.minimum_cut import minimum_cut
from gendr.photos.scene.mirrors import Mirror
from gendr.photos.scene.model import Scene, _neighbours, at_level, read_scene, shrunk
from gendr.photos.scene.planar import find_planar, find_walls, normals_of
from gendr.photos.scene.sky import (
    above_all,
    above_horizon,
    as_bright,
    at_upper_edge,
    behind_wires,
    find_plain,
    find_sky,
    find_smooth,
    open_sky,
)
from gendr.photos.scene.support import before_sky, is_shown, open_at_rims, supported
from gendr.photos.scene.surface import SurfaceSettings, _apart, reconstruct
from gendr.photos.scene.views import camera_of, scored, trust_of
from gendr.photos.splatting.photos import load_photos
from gendr.photos.stereo.matching import StereoSettings, packed
from gendr.photos.stereo.patches import UNIT
from support import commands, rooms

QUICK = StereoSettings(levels=(2, 1), rounds=(3, 1, 1, 1))


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
    small = scene.smaller(50)  # as if they had been read so
    again = read_scene(room[0], images=small.images)
    np.testing.assert_allclose(again.K, small.K, atol=1e-9)
    assert again.images[1] is small.images[1]
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


def test_clouds_that_features_match_do_not_set_how_far_stereo_looks(room, tmp_path):
    """A third of the points are of clouds, 40 times as far away as the others, at 1 degree."""
    rooms.photographs(tmp_path)
    file, dice = tmp_path / "points3D.txt", np.random.default_rng(3)
    clouds = dice.uniform([-30, -30, 120], [30, 0, 130], (200, 3)).tolist()
    lines = [f"{p + 401} {x} {y} {z} 9 9 9 -1 1 0 2 0 3 0 4 0 5 0" for p, (x, y, z) in
             enumerate(clouds)]  # fmt: skip
    file.write_text(file.read_text() + "\n".join(lines) + "\n")
    scene = read_scene(tmp_path)
    assert all(len(rows) > len(own) for rows, own in zip(scene.seen, room[2].seen, strict=True))
    np.testing.assert_array_equal(scene.ranges, room[2].ranges)


def test_what_is_far_from_all_cameras_sets_how_far_stereo_looks_there(tmp_path):
    """A wall that photos see at a degree, and a few points near them."""
    file, dice = tmp_path / "points3D.txt", np.random.default_rng(3)
    rooms.photographs(tmp_path)
    wall = dice.uniform([-15, -10, 50], [15, 10, 55], (3000, 3))
    for few in (0, 6):
        near = dice.uniform([-0.3, -0.3, 2], [0.3, 0.3, 3], (few, 3))
        file.write_text("".join(
            f"{p + 1} {x} {y} {z} 9 9 9 -1 1 0 2 0 3 0 4 0 5 0\n" for p, (x, y, z) in
            enumerate([*wall.tolist(), *near.tolist()])
        ))  # fmt: skip
        low, high = read_scene(tmp_path).ranges.T
        assert ((low > 0) & (low < 1 / 55) & (high > 1 / 50) & (high < 1 / 10)).all(), few


def test_bent_photos_of_two_sizes_have_the_lenses_that_splats_have(tmp_path):
    """Those of each size lose their own margins: of the larger ones these are twice as wide."""
    rooms.photographs(tmp_path)
    file = tmp_path / "cameras.json"
    meta = json.loads(file.read_text())
    for k, image in enumerate(meta["images"]):
        image["dist"] = [0.3, 0, 0, 0]
        if k > 2:
            with Image.open(tmp_path / image["file"]) as opened:
                opened.resize((2 * opened.width, 2 * opened.height)).save(tmp_path / image["file"])
            image["K"] = (np.diag([2, 2, 1]) @ image["K"]).tolist()
            image |= {"width": 2 * rooms.SIZE[1], "height": 2 * rooms.SIZE[0]}
    file.write_text(json.dumps(meta))
    photos, scene = load_photos(tmp_path), read_scene(tmp_path)
    assert scene.images[0].shape < (*rooms.SIZE, 3)
    places = photos.camera.region(photos.image_size)
    lenses = photos.camera.intrinsics(photos.image_size).double().numpy()
    for image, place, lens, K in zip(scene.images, places, lenses, scene.K, strict=True):
        assert image.shape[:2] == tuple(part.stop - part.start for part in place)
        first = [part.start + 0.5 for part in place][::-1]
        np.testing.assert_allclose(K[:2], lens[:2] - np.c_[np.zeros((2, 2)), first], atol=1e-4)


def test_left_out_photos_are_no_neighbours(room):
    scene = read_scene(room[0], left_out=[1])
    assert not scene.neighbours[1]
    assert all(1 not in near for near in scene.neighbours)


def test_of_photos_from_one_place_one_is_a_neighbour(room):
    """A copy of photo 3, and one a hair beside it, with points and without."""
    scene = room[2]
    eyes = np.concatenate([scene.centres, scene.centres[[3, 3]] + [[0, 0, 0], [0.001, 0, 0]]])
    for points in (scene.points, scene.points[:0]):
        seen = (*(np.arange(len(points)),) * 7,)
        near, _ = _neighbours(points, seen, eyes, set())
        assert all(len({3, 5, 6} & set(row)) == (i not in (3, 5, 6)) for i, row in enumerate(near))
        assert all(len(row) == 4 for row in near)


def test_levels_are_means_and_their_lenses_fit():
    grey = np.arange(35, dtype=np.uint8).reshape(5, 7)
    np.testing.assert_array_equal(shrunk(grey, 2)[:, 0], [4, 18])  # 3.5 and 17.5+, rounded up
    # The centre of a block of four pixels, at 0.5 of them, is the centre of the first of the level.
    K = np.array([[10.0, 0, 0.5], [0, 10, 0.5], [0, 0, 1]])
    np.testing.assert_allclose(at_level(K, 2), [[5, 0, 0], [0, 5, 0], [0, 0, 1]])
    word = int(packed(grey / np.float32(35))[1, 1])
    shown = [(word >> s & 65535) * UNIT - 1 for s in (0, 16)]
    np.testing.assert_allclose(shown, [8 / 35, 15 / 35], atol=UNIT)


def test_noise_is_known_and_smoothed():
    dice, ramp = np.random.default_rng(0), np.add.outer(np.arange(90.0), 0.5 * np.arange(120.0))
    ramp[30:60, 40:80] += 50  # edges are few
    for noise, left in ((0.0, 0.0), (2.0, 2.0), (4.0, 2.5), (9.0, 9 * 0.375)):
        grey = ramp + dice.normal(0, noise, ramp.shape)
        assert noise_of(grey) == pytest.approx(noise, rel=0.1)
        smooth = grey_of(np.repeat(grey[..., None], 3, 2)) - ramp
        assert smooth[65:].std() == pytest.approx(left, rel=0.1, abs=0.35)


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


@pytest.mark.rotating(5, group="photos")
def test_points_lie_in_the_room(room, stereo, monkeypatch):
    scene = room[2]
    cloud = fused(scene, stereo)
    # Of photos of many pixels a part is enough; files hold no more than others can read.
    monkeypatch.setattr(fusion, "_PIXELS", 5 * 72 * 96 // 2)
    half = fused(scene, stereo)
    assert len(half) == pytest.approx(len(cloud) / 2, rel=0.05)
    np.testing.assert_array_equal(half.kept, cloud.kept)
    monkeypatch.setattr(build_module, "_POINTS", 70)
    assert b"element vertex 70\n" in build_module.points_file(scene, half)[:200]
    places = cloud.points + scene.origin
    off = np.minimum(np.abs(places[:, 2] - rooms.WALL), np.abs(places[:, 1] - rooms.FLOOR))
    assert len(cloud) > 0.6 * 72 * 96
    assert np.median(off) < 0.01
    assert (off < 0.08).mean() > 0.95
    every = cloud.chosen(scene, np.arange(len(cloud)))
    np.testing.assert_array_equal(every[0][every[1][:-1]], cloud.first)
    counts = np.diff(every[1])
    alone = counts < 2  # at a corner that no other photo has in its frame, the floor is assumed
    assert alone.mean() < 0.03
    np.testing.assert_allclose(places[alone, 1], rooms.FLOOR, atol=0.05)
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
    views, starts = cloud.chosen(scene, rows)
    for k in (0, len(rows) // 2):
        own = every[0][every[1][rows[k]] : every[1][rows[k] + 1]]
        np.testing.assert_array_equal(views[starts[k] : starts[k + 1]], own)
        first, told = cloud.first[rows[k]], cloud.views[rows[k]] >> np.arange(1, 5) & 1
        assert own.tolist() == [first, *np.array(scene.neighbours[first])[told > 0]]
    # There are dozens of millions of points, which fill the memory; and of pixels.
    arrays = [each for each in vars(cloud).values() if isinstance(each, np.ndarray)]
    assert sum(each.nbytes for each in arrays if len(each) == len(cloud)) == 36 * len(cloud)
    assert sum(each.nbytes for each in cloud.depths) == 4 * 5 * 72 * 96


def test_doubtful_pixels_count_if_one_more_photo_agrees(room, stereo, tmp_path):
    def with_costs(cost):
        files = [tmp_path / f"{cost}_{file.name}" for file in stereo]
        for file, other in zip(stereo, files, strict=True):
            found = DepthMap.load(file)
            replace(found, costs=np.full_like(found.costs, cost)).save(other)
        return fused(room[2], files)

    sure, doubtful, wrong = map(with_costs, (0.5, 0.75, 0.95))
    _, starts = doubtful.chosen(room[2], np.arange(len(doubtful)))
    counts = np.diff(starts)
    assert counts.min() == 4
    assert 0.5 * len(sure) < len(doubtful) < len(sure)
    assert len(wrong) == 0
    # Depths on which nobody agrees are none.
    shares = [(depths > 0).mean() for depths in doubtful.depths]
    np.testing.assert_allclose(doubtful.kept, shares)
    np.testing.assert_allclose(doubtful.matched, shares)


@pytest.mark.rotating(5, group="photos")
@pytest.mark.parametrize("cost", [0.1, 0.75])
def test_clouds_at_the_end_of_what_is_searched_are_no_points(room, stereo, tmp_path, cost):
    """All photos agree on a plane there, surely or doubtfully: what is endless is met at the end.

    Half as far away it counts.
    """
    scene, told = room[2], []
    end = 1 / scene.ranges[:, 0].min()
    v, u = np.mgrid[:30, : rooms.SIZE[1]]
    for far in (end, end / 2):
        files = [tmp_path / file.name for file in stereo]
        for i, (file, other) in enumerate(zip(stereo, files, strict=True)):
            found, away = DepthMap.load(file), scene.R[i, :, 2]
            ahead = np.stack([u, v, np.ones_like(u)], -1) @ np.linalg.inv(scene.K[i]).T @ away
            found.planes[:30] = 0
            found.planes[:30, :, 0] = ahead / (far + scene.t[i] @ away)
            found.costs[:30] = cost
            found.save(other)
        told.append((fused(scene, files).points[:, 2] > end / 3).sum())
    assert told[0] == 0
    assert told[1] > 1000


@pytest.mark.rotating(5, group="photos")
def test_a_scene_is_open_and_where_the_room_is(room, tmp_path):
    scene = room[2]
    # Vertex colours: with fewer faces the wall has few, and looks otherwise in places.
    found = build(scene, tmp_path, SceneSettings(faces=12_000, depth=QUICK))
    vertices = found.mesh.vertices.double().numpy() + scene.origin
    off = np.minimum(np.abs(vertices[:, 2] - rooms.WALL), np.abs(vertices[:, 1] - rooms.FLOOR))
    assert np.median(off) < 0.02
    assert (off < 0.1).mean() > 0.97
    assert not found.mesh.is_watertight
    assert found.facts["seen_by"]["three"] > 0.9
    again = build(scene, tmp_path, SceneSettings(faces=12_000, depth=QUICK))  # from its files
    np.testing.assert_array_equal(again.mesh.vertices, found.mesh.vertices)
    np.testing.assert_array_equal(again.mesh.faces, found.mesh.faces)
    assert found.facts["matched"] >= found.facts["kept"] > 0.6
    # Of a photo in which something else stands it is said, and of one that is hardly covered.
    height, width = scene.images[1].shape[:2]
    images = [image.copy() for image in scene.images]
    images[1][height // 2 : 4 * height // 5, width // 3 : width // 2] = 255, 0, 255
    none = [np.zeros((height, width), bool)] * 5
    each = scored(found.mesh, replace(scene, images=tuple(images)), range(5), none)["each"]
    assert [one["apart"] > 0.01 for one in each] == [False, True, False, False, False]
    assert each[1]["apart"] < 0.06  # of 0.05 the rim is blurred
    assert each[1]["photo"] == scene.names[1]
    assert [one["sky"] for one in each] == [0] * 5
    each = [{**one, "cover": 0.8} for one in each]
    each[4]["cover"] = each[2]["cover"] = 0.5
    each[2]["sky"] = 0.3  # beside which 0.71 are covered
    bare, apart = command.warnings_of(each, found.facts)
    assert "taken for sky" not in bare
    each[4]["sky"] = 0.1
    assert "10% of them is taken for sky" in command.warnings_of(each, found.facts)[0]
    assert command.warnings_of(each, found.facts, boxed=True) == [apart]
    assert scene.names[4] in bare
    assert scene.names[2] not in bare
    plain = found.facts["plain"]
    assert 0 <= plain < 0.02  # all of the room is painted
    assert f"{plain:.0%} are plain" in bare
    assert scene.names[1] in apart
    assert "moved" in apart
    assert scene.names[0] not in bare + apart
    assert found.facts["mirrors"] == []
    mirrors = [{"kind": kind, "share": 0.1} for kind in ("pane", "water", "pane")]
    water, panes = command.warnings_of([], {**found.facts, "mirrors": mirrors})
    assert "still water: 10.0% of all pixels" in water
    assert "20.0% of all pixels show 2 of them" in panes


def test_no_overlap_is_said(tmp_path):
    rooms.photographs(tmp_path, count=3, points=2)
    with pytest.raises(ValueError, match="no two photos show enough of the same"):
        read_scene(tmp_path)


def test_points_without_tracks_count_for_the_photos_they_are_in(tmp_path, room):
    rooms.photographs(tmp_path, tracks=False)
    found = read_scene(tmp_path)
    assert [set(near) for near in found.neighbours] == [set(n) for n in room[2].neighbours]
    rows = "".join(f"{x} {y} {z}\n" for x, y, z in read_point_file(tmp_path / "points3D.txt")[0])
    head = "".join(f"property double {name}\n" for name in "xyz")
    head = f"ply\nformat ascii 1.0\nelement vertex {rows.count(chr(10))}\n{head}end_header\n"
    (tmp_path / "found.ply").write_text(head + rows)
    meta = json.loads((tmp_path / "cameras.json").read_text())
    (tmp_path / "cameras.json").write_text(json.dumps(meta | {"points": "found.ply"}))
    np.testing.assert_array_equal(read_scene(tmp_path).points, found.points)


def test_points_of_a_model_beside_cameras_of_another_world(tmp_path, room):
    """As nerfstudio and colmap2nerf.py leave them: turned, moved and scaled, without numbers."""
    rooms.photographs(tmp_path)
    images = json.loads((tmp_path / "cameras.json").read_text())["images"]
    (tmp_path / "cameras.json").unlink()
    model, (height, width) = tmp_path / "sparse" / "0", rooms.SIZE
    model.mkdir(parents=True)
    text = (tmp_path / "points3D.txt").read_text()
    turned = " ".join(f"{k} 0" for k in (5, 4, 3, 2, 1))
    (model / "points3D.txt").write_text(text.replace("1 0 2 0 3 0 4 0 5 0", turned))
    (tmp_path / "points3D.txt").unlink()
    (fx, _, cx), (_, fy, cy), _ = images[0]["K"]
    (model / "cameras.txt").write_text(f"1 PINHOLE {width} {height} {fx} {fy} {cx} {cy}\n")
    turn, scale, shift = Rotation.from_rotvec([0.3, 1.2, -2]).as_matrix(), 0.25, np.array([1, 2, 3])
    lines, frames = [], []
    for k, image in enumerate(images):
        R, t = np.array(image["R"]), np.array(image["t"])
        x, y, z, w = Rotation.from_matrix(R).as_quat()
        numbers = " ".join(map(repr, map(float, (w, x, y, z, *t))))
        lines.append(f"{len(images) - k} {numbers} 1 {image['file']}\n\n")
        pose = np.c_[turn @ R.T * [1, -1, -1], scale * turn @ (-R.T @ t) + shift]
        frames.append({"file_path": f"./{image['file']}", "transform_matrix": pose.tolist()})
    (model / "images.txt").write_text("".join(lines))
    meta = {"fl_x": fx, "fl_y": fy, "cx": cx, "cy": cy, "w": width, "h": height, "frames": frames}
    (tmp_path / "transforms.json").write_text(json.dumps(meta))
    found = read_scene(tmp_path)
    assert [set(near) for near in found.neighbours] == [set(n) for n in room[2].neighbours]
    # Inverse depths, of points at the border of a photo too.
    np.testing.assert_allclose(found.ranges / room[2].ranges, 1 / scale, rtol=0.04)
    places, _ = read_point_file(model / "points3D.txt")
    moved = gendr.photos.load_points(tmp_path, dtype=torch.float64)[0]
    np.testing.assert_allclose(moved, scale * places @ turn.T + shift, atol=1e-9)
    frames[0]["transform_matrix"][0][3] += 1  # of no similarity
    (tmp_path / "transforms.json").write_text(json.dumps(meta))
    with pytest.warns(UserWarning, match="another world, so that its points are not used"):
        assert gendr.photos.load_points(tmp_path) is None
    meta["applied_transform"] = np.eye(4)[:3].tolist()  # the file says it
    (tmp_path / "transforms.json").write_text(json.dumps(meta | {"applied_scale": 0.5}))
    moved = gendr.photos.load_points(tmp_path, dtype=torch.float64)[0]
    np.testing.assert_allclose(moved, 0.5 * places)


def test_points_that_a_transforms_file_names(tmp_path):
    """As ns-process-data writes them, in the world of its cameras."""
    meta = {"fl_x": 70, "ply_file_path": "sparse_pc.ply", "frames": [{"file_path": "0.png"}]}
    (tmp_path / "transforms.json").write_text(json.dumps(meta))
    with pytest.warns(UserWarning, match=r"names points, sparse_pc\.ply, that are not in"):
        assert gendr.photos.load_points(tmp_path) is None
    rows = "".join(f"property {kind}\n" for kind in ("float x", "float y", "float z"))
    rgb = "".join(f"property uchar {name}\n" for name in ("red", "green", "blue"))
    for colors, values, want in ((rgb, " 255 51 0", [1, 0.2, 0]), ("", "", [0.5] * 3)):
        text = f"ply\nformat ascii 1.0\nelement vertex 1\n{rows}{colors}end_header\n1 2 3{values}\n"
        (tmp_path / "sparse_pc.ply").write_text(text)
        for cameras in (None, tmp_path / "transforms.json"):
            given = gendr.photos.load_points(tmp_path, cameras=cameras, dtype=torch.float64)
            assert given is not None
            assert [each.tolist() for each in given] == [[[1, 2, 3]], [want]]
    (tmp_path / "sparse_pc.ply").write_text(text.replace("1 2 3", "1 nan 3"))
    with pytest.raises(ValueError, match=r"sparse_pc\.ply is damaged: a position is not finite"):
        gendr.photos.load_points(tmp_path)


def test_tracks_are_read_again(tmp_path):
    points, colors = np.array([[1.0, 2, 3], [4, 5, 6]]), np.array([[0, 0.5, 1]] * 2)
    file = tmp_path / "points3D.txt"
    file.write_bytes(point_text(points, colors, [(1, 3), ()]))
    np.testing.assert_array_equal(read_point_file(file)[0], points)
    assert read_tracks(file) == [(1, 3), ()]
    rows = [
        struct.pack("<Q3d3BdQ", k, *p, 0, 128, 255, 0.5, 2 - 2 * k) for k, p in enumerate(points)
    ]
    file = tmp_path / "points3D.bin"  # each image with the number of a feature in it
    file.write_bytes(struct.pack("<Q", 2) + rows[0] + struct.pack("<4i", 1, 7, 3, 8) + rows[1])
    np.testing.assert_array_equal(read_point_file(file)[0], points)
    assert read_tracks(file) == [(1, 3), ()]


def test_few_faces_are_where_they_tell_most():
    """Of hills beside a plain: within the rim, nearly all on the hills."""
    x, y = np.meshgrid(np.arange(80.0), np.arange(40.0), indexing="ij")
    hilly = np.where(x > 40, 3 * np.sin(x / 2) * np.cos(y / 2), 0)
    z = hilly + np.random.default_rng(0).normal(0, 0.01, x.shape)
    vertices = np.stack([x, y, z], -1).reshape(-1, 3)
    first = (np.arange(79)[:, None] * 40 + np.arange(39)).ravel()
    faces = np.concatenate([
        np.stack([first, first + 40, first + 41], 1), np.stack([first, first + 41, first + 1], 1)
    ])  # fmt: skip
    faces = np.concatenate([faces, [[0, 1, 79 * 40]]])  # a third one at an edge
    found, triangles, kept = build_module._fewer(vertices, faces, 1500)
    assert 1400 < len(triangles) <= 1500
    middle = found[triangles].mean(1)
    inner = found[(found[:, :2] > 1).all(1) & (found[:, :2] < [78, 38]).all(1)]
    assert (inner[:, 0] > 38).mean() > 0.9
    away = KDTree(vertices).query(middle)[0]
    assert np.percentile(away, 90) < 1
    assert np.percentile(np.linalg.norm(found - vertices[kept], axis=1), 95) < 4


def test_photos_without_backdrop_are_let_go(room, tmp_path):
    """The refusal lasts as long as the scene is made; another error in it would hold all photos."""
    settings, out = gendr.FitSettings(), str(tmp_path)
    args = Fit(target=str(room[0]), output=out, quiet=True, settings=settings)
    with pytest.raises(NoBackdropError) as caught:
        with_masks(args, Run(args, room[0]))
    assert caught.value.__context__ is None


@pytest.mark.rotating(5, group="photos")
def test_the_command(room, tmp_path, monkeypatch, capsys):
    """Photos without masks are a scene, and what is said of it is what the mesh is."""
    out = tmp_path / "out"
    # The third of those that are used, without the one that is left out.
    monkeypatch.setattr(ColorResult, "blurred", property(lambda result: [2]))
    monkeypatch.setattr(command, "_SOME", -1.0)  # of what is small here
    words = ["fit", str(room[0]), "-o", str(out), "--hold-out", "4", "--faces", "2500"]
    assert cli.main([*words, "--texture-size", "256"]) == 0
    said = capsys.readouterr()
    assert "no masks and no backdrop: a scene of 4 photos" in said.out
    metrics = json.loads((out / "metrics.json").read_text())
    assert f"matched, {metrics['planar']:.0%} taken to lie on planes, " in said.out
    assert metrics["held_out"] == [2]
    assert metrics["blurred"] == [room[2].names[3]]
    assert f"because they are blurred: {room[2].names[3]}" in said.err
    assert metrics["scores"]["held_out"]
    assert metrics["scores"]["psnr"] > 22
    assert metrics["scores"]["cover"] > 0.4
    mesh = gendr.Mesh.load(out / "fit.glb")
    assert len(mesh.faces) == metrics["faces"] <= 2500
    assert mesh.texture is not None
    assert not (out / "depth_maps").exists()
    kept = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    assert cli.main([*words, "--texture-size", "256", "--resume"]) == 0
    assert "finished already" in capsys.readouterr().out
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == kept
    assert cli.main([*words, "--colors", "none", "--resume"]) == 0  # another one
    assert gendr.Mesh.load(out / "fit.glb").texture is None
    assert cli.main([*words[:4], "--object"]) == 2
    said = capsys.readouterr().err
    assert "no mask" in said
    assert "leave --object out" in said
    for more, why in (
        (["--scene", "--init", "hull"], "--init is for fits to silhouettes"),
        (["--steps", "9"], "--steps is for fits to silhouettes"),
        (["--scene", "--object"], "--scene and --object contradict"),
        (["--object"], "--faces is for scenes"),
        (["--scene", "--hold-out", "1"], "leaves no photo"),
        (["--scene", "--box", "1", "2"], "--box takes auto"),
    ):
        assert cli.main([*words, *more]) == 2
        assert why in capsys.readouterr().err
    assert cli.main(["fit", "chair", "-o", str(out), "--scene"]) == 2
    assert "is a mesh" in capsys.readouterr().err
    assert cli.main(["fit", "chair", "-o", str(out), "--hold-out", "3"]) == 2
    assert "--hold-out is for scenes" in capsys.readouterr().err


def test_options_of_scenes_are_refused_where_photos_have_masks(tmp_path, monkeypatch, capsys):
    """Before all photos are read; what is wrong with the folder comes first."""
    eyes = gendr.look_at(3.0, 20.0, [0.0, 120, 240]).to_opencv((80, 80))
    frames = []
    for i in range(3):
        Image.new("RGBA", (80, 80), (200, 9, 9, 0)).save(tmp_path / f"{i}.png")
        pose = np.eye(4)
        pose[:3] = np.c_[eyes[0][i], eyes[1][i]]
        pose = np.linalg.inv(pose) @ np.diag([1.0, -1, -1, 1])
        frames.append({"file_path": f"{i}.png", "transform_matrix": pose.tolist()})
    monkeypatch.setattr("gendr.cli.fit.load_views", None)
    words = ["fit", str(tmp_path), "-o", str(tmp_path / "out"), "--hold-out", "3"]
    for bend, why in ((0.0, "--hold-out is for scenes"), (0.9, "bends the photo so much")):
        facts = {"fl_x": 20.0, "w": 80, "h": 80, "k1": bend, "frames": frames}
        (tmp_path / "transforms.json").write_text(json.dumps(facts))
        assert cli.main(words) == 2
        assert why in capsys.readouterr().err


@pytest.mark.rotating(5, group="photos")
def test_splats_start_from_the_surface(room, tmp_path, capsys):
    folder, out = room[0], tmp_path / "out"
    words = ["splat", str(folder), "-o", str(out), "--hold-out", "5", "--opaque", "0", "--quiet"]
    assert cli.main([*words, "--steps", "2"]) == 0
    facts = json.loads((out / "metrics.json").read_text())
    assert facts["init"] == "surface"
    assert facts["settings"]["exposure"] is False  # all are as bright
    assert facts["psnr"] > 15
    assert cli.main([*words, "--steps", "3", "--resume"]) == 0
    assert json.loads((out / "metrics.json").read_text())["steps"] == 3
    few = [*words[:3], str(tmp_path / "few"), "--quiet", "--init", "surface", "--budget", "0.3s"]
    assert cli.main(few) == 2
    assert "there is no time for stereo" in capsys.readouterr().err
    few = [word for word in few if word not in ("--init", "surface")]
    with warnings.catch_warnings():
        warnings.simplefilter("always")  # and not errors, as in all tests
        assert cli.main([*few, "--opaque", "0"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("gendr: warning: no surface to start from, points instead: there is no")
    assert json.loads((tmp_path / "few" / "metrics.json").read_text())["init"] == "points"


@pytest.mark.rotating(5, group="photos")
def test_after_any_stage_the_command_goes_on_with_equal_bits(room, tmp_path, monkeypatch, capsys):
    """Stopped once in each stage, one after the other: in the preview, and in what follows."""
    monkeypatch.setattr(command, "PREVIEW_FROM", 90)
    monkeypatch.setattr(command, "PREVIEW_SIDE", 64)
    monkeypatch.setattr(command, "TILE", 96)
    monkeypatch.setattr(command, "SHOWN", 2)
    words = ["fit", str(room[0]), "--scene", "--faces", "1500", "--quiet", "--texture-size", "64"]
    assert cli.main([*words, "-o", str(tmp_path / "whole")]) == 0
    out, results = tmp_path / "out", ("fit.glb", "points.ply", "sheet.png")
    assert commands.names(tmp_path / "whole") == {*results, "metrics.json"}

    def stop(*_, **__):
        raise KeyboardInterrupt

    inner = [(build_module, name) for name in ("find_depths", "reconstruct")]
    outer = [(command, name) for name in ("fit_colors", "scored")]
    more = ["-o", str(out)]
    for number, (module, name) in enumerate([*inner, *inner, *outer]):
        with monkeypatch.context() as patch:
            real = getattr(module, name)  # which the preview calls once before
            turns = iter([real, stop] if number == 2 else [stop])
            patch.setattr(module, name, lambda *a, _t=turns, **k: next(_t)(*a, **k))
            assert cli.main([*words, *more]) == 130, name
        assert (out / "preview.glb").is_file() == (number > 1), name
        more = ["-o", str(out), "--resume"]
    assert cli.main([*words, *more]) == 0
    for file in results:
        assert (out / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file
    assert not (out / "preview.glb").exists()
    capsys.readouterr()


@pytest.mark.rotating(5, group="photos")
def test_a_budget_chooses_the_size_after_the_preview(room, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "PREVIEW_FROM", 90)
    monkeypatch.setattr(command, "PREVIEW_SIDE", 64)
    monkeypatch.setattr(command, "LEAST_SIDE", 70)
    monkeypatch.setattr(command, "TILE", 96)
    words = ["fit", str(room[0]), "-o", str(tmp_path), "--scene", "--colors", "none", "--budget"]
    monkeypatch.setattr(command, "_ALWAYS", -1e6)  # what is guessed before is not looked at
    for budget, side in (("1h", 96), ("0.9s", 70)):
        assert cli.main([*words, budget]) == 0
        said = capsys.readouterr()
        assert f"going on with {side} pixels" in said.err
        assert ("s more than the budget" in said.out) == (budget == "0.9s")
        metrics = json.loads((tmp_path / "metrics.json").read_text())
        assert max(metrics["image_size"]) == side


def test_photos_that_were_not_placed_are_known(room, tmp_path):
    """Also where cameras lie with the photos, as `gendr cameras photos/` leaves them."""
    args = Fit(target=str(room[0]), settings=gendr.FitSettings())
    assert command._not_placed(args) == []
    content = json.loads((room[0] / "cameras.json").read_text())
    beside, own = tmp_path / "elsewhere.json", tmp_path / "cameras.json"
    given = replace(args, cameras=str(beside)), replace(args, target=str(tmp_path))
    for left_out, names in ((["a.jpg"], ["a.jpg"]), (3, []), (None, [])):
        for file, words in zip((beside, own), given, strict=True):
            file.write_text(json.dumps({**content, "left_out": left_out}))
            assert command._not_placed(words) == names


def test_a_strip_makes_the_other_photos_no_larger(monkeypatch):
    sizes = [(750, 1000)] * 3 + [(1000, 750), (200, 1000)]
    monkeypatch.setattr(command, "view_sizes", lambda path, **options: sizes)
    args = Fit(target="photos", settings=gendr.FitSettings(), image_size=300)
    assert command._side(args, Path("photos")) == (400, 5)


@pytest.mark.rotating(5, group="photos")
def test_an_object_in_a_box(room, tmp_path, stereo, monkeypatch):
    scene, low, high = room[2], np.array([-0.8, -0.5, 3.0]), np.array([0.6, 0.6, 4.2])
    box = tuple(tuple((corner - scene.origin).tolist()) for corner in (low, high))
    found = build(scene, tmp_path, SceneSettings(depth=QUICK, faces=2000, box=box))
    vertices = found.mesh.vertices.numpy() + scene.origin
    assert (vertices >= low - 0.02).all()
    assert (vertices <= high + 0.02).all()
    assert np.ptp(vertices[:, :2], axis=0) == pytest.approx([1.4, 1.1], abs=0.15)
    with monkeypatch.context() as patch:  # points as another version of ours chooses them
        patch.setattr(build_module, "thinned", lambda scene, cloud, _: thinned(scene, cloud, 300))
        fewer = build(scene, tmp_path, SceneSettings(depth=QUICK, faces=2000, box=box)).mesh
    assert len(fewer.vertices) < 0.8 * len(vertices)  # and the surface that was kept is not theirs
    with pytest.raises(ValueError, match="the box holds 0 of the points"):
        build(scene, tmp_path, SceneSettings(depth=QUICK, box=((8.0,) * 3, (9.0,) * 3)))
    # By default about what all look at: the wall at the height of the cameras.
    corners = find_box(scene) + scene.origin
    assert (corners[0] < [0, 0, 4]).all()
    assert (corners[1] > [0, 0, 4]).all()
    assert corners[1, 2] < 4.6
    # Of a figure on a table, which has most points, the head is in it as well.
    dice = np.random.default_rng(0)
    points = dice.uniform(-1, 1, (1000, 3)) * [1, 0.01, 1]
    points[:10, 1] += 0.7
    eyes = 3 * np.array([[1, 0, 0], [0, 0, 1], [-1, 0, 0], [0, 1, 0]])
    seen = SimpleNamespace(R=np.repeat(-eyes[:, None] / 3, 3, 1), centres=eyes, points=points)
    assert find_box(seen)[1, 1] > 0.7  # pyright: ignore[reportArgumentType]
    np.testing.assert_array_equal(read_box("-1 -2 -3 1 2 3.5".split()), [[-1, -2, -3], [1, 2, 3.5]])
    assert read_box(["auto"]) is None
    for words in (["1"], ["a"] * 6, ["nan"] * 6, ["1"] * 6, "1 1 1 0 2 2".split()):
        with pytest.raises(ValueError, match="six numbers"):
            read_box(words)


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


@pytest.mark.rotating(5, group="photos")
def test_what_is_matched_nowhere_below_the_horizon_is_ground(room):
    """The floor of the room, by a few points of it among many of the wall."""
    _, depths, scene = room
    dice = np.random.default_rng(0)
    floor = np.stack([dice.uniform(-2, 2, 300), np.full(300, rooms.FLOOR), dice.uniform(3, 4, 300)])
    wall = np.stack([dice.uniform(-2, 2, 3000), dice.uniform(-3, 1, 3000), np.full(3000, 4.0)])
    points = np.concatenate([floor, wall], 1).T - scene.origin
    normals = np.repeat([[0.0, -1, 0], [0, 0, -1]], [300, 3000], 0)
    ground = find_ground(scene, points + dice.normal(0, 1e-3, points.shape), normals)
    np.testing.assert_allclose(ground.up, [0, -1, 0], atol=2e-3)
    np.testing.assert_allclose(ground.height, scene.origin[1] - rooms.FLOOR, atol=2e-3)
    # Nor does it matter how photos are stored, as long as EXIF data say what is above.
    quarters = (0, 1, 3, 1, 0)
    turns = np.stack([np.linalg.matrix_power([[0.0, 1], [-1, 0]], k) for k in quarters])
    R, t = scene.R.copy(), scene.t.copy()
    R[:, :2], t[:, :2] = turns @ R[:, :2], np.einsum("nij,nj->ni", turns, t[:, :2])
    stored = find_ground(replace(scene, R=R, t=t, quarters=quarters), points, normals)
    np.testing.assert_allclose(stored.up, [0, -1, 0], atol=2e-3)
    # Nor do mirror images in the floor, here and there, or a long row of cameras.
    few = points[:15] + np.stack([np.zeros(15), dice.uniform(0.1, 1, 15), np.zeros(15)], 1)
    shifts = np.zeros((300, 3))
    shifts[5:, 0] = np.linspace(10, 1000, 295)
    again = np.arange(300) % 5
    row = replace(
        scene, R=scene.R[again], neighbours=((1,),) * 300, quarters=(0,) * 300,
        names=("",) * 300, t=scene.t[again] - np.einsum("nij,nj->ni", scene.R[again], shifts),
    )  # fmt: skip
    more, facing = np.concatenate([points, few]), np.concatenate([normals, normals[:15]])
    for own in (scene, row):
        mirrored = find_ground(own, more, facing)
        np.testing.assert_allclose(mirrored.height, ground.height, atol=2e-3)
        assert mirrored.sure
    # A wall is no ground, nor is what some cameras are below.
    assert find_ground(scene, points[300:], normals[300:]) is None
    assert find_ground(scene, points * [1, -1, 1], normals * [1, -1, 1]) is None
    # A step of many points is none if lower ones lie around it, on which photos must agree then.
    step, pavement = (
        np.stack([dice.uniform(-w, w, n), np.full(n, y), dice.uniform(4 - w, 4 + w, n)], 1)
        for w, n, y in ((0.3, 3000, rooms.FLOOR - 0.2), (2.0, 60, rooms.FLOOR))
    )
    low = np.concatenate([step, pavement, np.stack([*wall], 1)]) - scene.origin
    up = np.repeat([[0.0, -1, 0], [0, 0, -1]], [3060, 3000], 0)
    guessed = find_ground(scene, low, up)
    np.testing.assert_allclose(guessed.up, [0, -1, 0], atol=0.01)
    np.testing.assert_allclose(guessed.height, scene.origin[1] - rooms.FLOOR, atol=0.02)
    assert not guessed.sure
    true = 1 / depths[2]
    R, t, K = rooms.cameras()
    on_floor = rooms.seen(R[2], t[2], K)[0][..., 1] > 0.999
    known = np.where(on_floor & (np.arange(72)[:, None] > 62), 0, true).astype(np.float32)
    known[10:20, 30:50] = 0  # above the horizon nothing is assumed
    known[:8, :20] = 0.05  # however far it would be
    known[46:50, 30:50] = 0  # nor behind a wall that was found around it
    assert not on_floor[46:50, 30:50].any()
    own = ground.assumed(scene, 2, known)
    assert ((own > 0) == (on_floor & (known == 0))).mean() > 0.999
    np.testing.assert_allclose(own[own > 0], true[own > 0], rtol=0.01)
    # What photos look straight at, as drones do, has no pits down to a plane behind it.
    whole = true.astype(np.float32)
    whole[20:40, 30:50] = 0
    for far, fills in ((4.0, True), (4.08, False)):
        facing = Ground(np.array([0.0, 0, -1]), scene.origin[2] - far)
        assert (facing.assumed(scene, 2, whole)[20:40, 30:50] > 0).all() == fills
    # Its plane goes on, a little lower, below all cameras, as far beyond as they are high.
    plane = Ground(np.array([0.0, -1, 0]), scene.origin[1] - rooms.FLOOR).beneath(scene)
    corners = plane.vertices.numpy() + scene.origin
    eyes = scene.centres + scene.origin
    tall = rooms.FLOOR - np.median(eyes[:, 1])
    np.testing.assert_allclose(corners[:, 1], rooms.FLOOR + 0.03 * 0.5 * tall, rtol=1e-3)
    for axis in (0, 2):
        assert abs(eyes[:, axis].min() - 4 * tall - corners[:, axis].min()) < 1e-4
        assert corners[:, axis].max() > eyes[:, axis].max() + 4 * tall - 1e-4
    sides = plane.vertices[plane.faces].numpy()
    area = np.linalg.norm(np.cross(sides[:, 1] - sides[:, 0], sides[:, 2] - sides[:, 0]), axis=1)
    np.testing.assert_allclose(area.sum() / 2, np.ptp(corners[:, 0]) * np.ptp(corners[:, 2]), 1e-5)


@pytest.mark.parametrize("floor", ["water", "none", "a gap above"])
def test_what_water_mirrors_is_no_surface_behind_it(room, tmp_path, floor):
    """The floor of the room is water, by true depths of what it mirrors; or the wall goes on.

    Or it goes on and is painted as if it were mirrored, but much of that is not there above.
    """
    still = floor == "water"
    R, t, K = rooms.cameras()
    images, files = [], []
    for i in range(5):
        eye = -R[i].T @ t[i]
        places, far = rooms.seen(R[i], t[i], K)
        longer = (rooms.WALL - eye[2]) / (places[..., 2] - eye[2])
        places = eye + (places - eye) * longer[..., None]
        below, above = places[..., 1] > rooms.FLOOR, places[..., 1] < rooms.FLOOR / 2
        if floor != "none":
            places[..., 1] = np.where(below, 2 * rooms.FLOOR - places[..., 1], places[..., 1])
        images.append(rooms.painted(places))
        inverse = 1 / (far * longer * np.where(above & (floor == "a gap above"), 1.5, 1.0))
        planes = np.stack([inverse, *np.gradient(inverse)[::-1]], -1).astype(np.float32)
        files.append(tmp_path / f"{i}.npz")
        DepthMap(planes, np.zeros(inverse.shape, np.float32), 0).save(files[-1])
    scene = replace(room[2], images=tuple(images))
    cloud = fused(scene, files)
    y = cloud.points[:, 1] + scene.origin[1]
    behind = (y > 1.05 * rooms.FLOOR).mean()
    assert behind < 0.01 if still else behind > 0.1
    assert len(cloud.mirrors) == still
    assert (cloud.mirrored.sum(1) > 0.1).all() == still
    if still:
        (water,) = cloud.mirrors
        np.testing.assert_allclose(water.normal, [0, -1, 0], atol=0.01)
        assert water.height == pytest.approx(scene.origin[1] - rooms.FLOOR, abs=0.01)
        assert water.alike > 0.8
        on = (cloud.normals @ water.normal) > 0.99
        np.testing.assert_allclose(y[on], rooms.FLOOR, atol=0.02)
        assert on.mean() > 0.1
        assert not fused(scene, files, fusion.FusionSettings(mirrors=False)).mirrors


@pytest.mark.rotating(3)
@pytest.mark.parametrize("wall", ["pane", "a room behind", "rooms alike", "no wall"])
def test_what_panes_mirror_is_no_room_behind(room, tmp_path, monkeypatch, wall):
    """Boards seem to stand behind a part of the wall: mirrored, or there is none before it.

    Or there is one, but floors have patterns of their own; or there is no wall, and boards are
    behind each other.
    """
    monkeypatch.setattr(fusion, "_SPARSE", 1)  # photos are small
    pane = wall == "pane"
    R, t, K = rooms.cameras()
    files, images = [], []
    for i in range(5):
        eye = -R[i].T @ t[i]
        places, far = rooms.seen(R[i], t[i], K)
        depths, glass = far.copy(), np.isclose(places[..., 2], rooms.WALL)
        if wall != "no wall":
            glass &= (abs(places[..., 0]) < 1.3) & (places[..., 1] > -0.4)
        depths[glass] = np.inf
        if wall in ("pane", "rooms alike"):
            down = (rooms.FLOOR - eye[1]) / np.where(glass, places[..., 1] - eye[1], -1)
            floor = (down > 0) & (down < 1.5)
            depths[floor] = (far * down)[floor]
        for z in (rooms.WALL + 1.2, rooms.WALL - 1.2)[: 1 if wall == "a room behind" else 2]:
            longer = (z - eye[2]) / (places[..., 2] - eye[2])
            x, y, _ = np.moveaxis(eye + (places - eye) * longer[..., None], -1, 0)
            hit = (abs(abs(x) - 0.9) < 0.3) & (abs(y - 0.3) < 0.3) & (glass | (z < rooms.WALL))
            depths[hit] = (far * longer)[hit]
        shown = eye + (places - eye) * (np.minimum(depths, 99) / far)[..., None]
        if pane:
            shown[..., 2] = np.minimum(shown[..., 2], 2 * rooms.WALL - shown[..., 2])
        images.append(rooms.painted(shown))
        inverse = 1 / depths
        planes = np.stack([inverse, *np.gradient(inverse)[::-1]], -1).astype(np.float32)
        planes[0, 0] = 1e-10, 0, 0  # one pixel may be anywhere
        files.append(tmp_path / f"{i}.npz")
        DepthMap(planes, np.zeros(inverse.shape, np.float32), 0).save(files[-1])
    scene = replace(room[2], images=tuple(images))
    cloud = fused(scene, files)
    z = cloud.points[:, 2] + scene.origin[2]
    behind = (z > 1.05 * rooms.WALL).mean()
    assert behind < 0.001 if pane else behind > 0.02
    assert len(cloud.mirrors) == pane
    if pane:
        (found,) = cloud.mirrors
        assert found.alike is None
        np.testing.assert_allclose(found.normal, [0, 0, -1], atol=0.01)
        assert found.height == pytest.approx(scene.origin[2] - rooms.WALL, abs=0.02)
        x, y = (cloud.points[:, k] + scene.origin[k] for k in (0, 1))
        middle = (abs(x) < 0.4) & (abs(y - 0.2) < 0.5)  # where photos show nothing behind it
        assert middle.sum() > 300
        np.testing.assert_allclose(z[middle], rooms.WALL, atol=0.02)


def test_a_mirror_hides_what_eyes_before_it_see_behind_it():
    """Water at the height 0 where x < 2, from an eye above it and from one below."""
    water = Mirror(np.array([0.0, 1, 0]), 0.0, None, np.zeros((0, 3)))
    border = np.append(water.axes @ [1.0, 0, 0], -2)[None]
    points = np.array([[0.0, -1, 0], [0, 1, 0], [0, -0.01, 0], [5, -1, 0]])
    for height, hidden in ((1.0, [True, False, False, False]), (-2.0, [False] * 4)):
        eyes = np.array([[0.5, height, 0.5]]).repeat(4, 0)
        found = replace(water, border=border).hides(eyes, points, 0.02)
        assert found.tolist() == hidden


def test_scores_forgive_exposures_and_veils(room):
    """A wall of one picture in photos that are darker or veiled by known numbers."""
    scene = room[2]
    size = scene.images[0].shape[:2]
    square = [[-9.0, -9, 0], [9, -9, 0], [9, 9, 0], [-9, 9, 0]]
    vertices = torch.tensor(square) + torch.tensor([0.0, 0, rooms.WALL - scene.origin[2]])
    colors = torch.tensor([[0.2, 0.3, 0.1], [0.6, 0.4, 0.5], [0.1, 0.7, 0.3], [0.4, 0.2, 0.6]])
    mesh = gendr.Mesh(vertices.float(), torch.tensor([[0, 1, 2], [0, 2, 3]]), vertex_colors=colors)
    shown = visual.render_views(mesh, camera_of(scene, [0], size), size, {"lighting": "none"})[0][0]
    own = shown.permute(1, 2, 0).numpy()
    for gain, veil, good in ((1, 0, 3), (0.5, 0, 2), (0.5, 0.4, 1)):
        photo = np.rint(255 * (gain * own + veil)).astype(np.uint8)
        none = [np.zeros(size, bool)] * 5
        found = scored(mesh, replace(scene, images=(photo,) * 5), [0], none)
        scores = [found[name] for name in ("psnr", "psnr_exposed", "psnr_affine")]
        assert [score > 50 for score in scores] == [k >= 3 - good for k in range(3)]
        assert found["each"][0]["psnr_affine"] == found["psnr_affine"]


def test_a_white_wall_is_not_excused_as_sky(room):
    """It looks like the sky above what is covered, and stereo has told it from that."""
    scene = room[2]
    size = scene.images[0].shape[:2]
    square = [[-9.0, 0, 0], [9, 0, 0], [9, 9, 0], [-9, 9, 0]]
    vertices = torch.tensor(square) + torch.tensor([0.0, 0, rooms.WALL - scene.origin[2]])
    mesh = gendr.Mesh(vertices.float(), torch.tensor([[0, 1, 2], [0, 2, 3]])).with_unlit()
    covered = visual.render_views(mesh, camera_of(scene, [0], size), size)[1][0].numpy() > 0.5
    photo = np.where(covered[..., None], scene.images[0], np.uint8(250))
    scene = replace(scene, images=(photo,) * 5)
    alone = replace(scene, neighbours=((), *scene.neighbours[1:]))
    wall = [np.zeros(size, bool)] * 5
    sky = [np.zeros(size, bool), *([~covered] * 4)]
    for given, skies, excused in ((scene, wall, 0), (scene, sky, 0), (alone, wall, 0),
                                  (scene, [~covered] * 5, 1), (alone, sky, 1)):  # fmt: skip
        found = scored(mesh, given, [0], skies)["each"][0]
        assert found["sky"] == pytest.approx(excused * (1 - found["cover"]), abs=0.05)


@pytest.mark.rotating(5, group="photos")
def test_photos_are_aligned_on_the_ground(room):
    """A plane that is off by two hundredths, by what the photos show of the floor."""
    scene = room[2]
    R, t, K = rooms.cameras()
    floor = [np.flatnonzero(rooms.seen(R[i], t[i], K)[0][..., 1] > 0.999) for i in range(5)]
    up, height = np.array([0.0, -1, 0]), scene.origin[1] - rooms.FLOOR
    off = Ground(np.array([0.008, -1, 0.01]) / np.linalg.norm([0.008, -1, 0.01]), height + 0.02)
    found = aligned(off, scene, floor)

    def wrong(ground):  # where the floor is
        places = np.array([[x, rooms.FLOOR, z] for x in (-1, 1) for z in (2, 4)]) - scene.origin
        return np.abs(places @ ground.up - ground.height).max()

    assert wrong(off) > 0.02
    assert wrong(found) < 0.003
    # One that is right stays, as does one that no photo shows.
    assert wrong(aligned(Ground(up, height), scene, floor)) < 0.001
    assert aligned(off, scene, [each[:0] for each in floor]) is off
    # A guess must be right, and seen.
    guess, wide = (replace(off, height=height + x, sure=False) for x in (0.02, 0.4))
    better = aligned(guess, scene, floor)
    assert wrong(better) < 0.003
    assert not better.sure
    assert aligned(wide, scene, floor) is None
    plain = replace(scene, images=tuple(np.full_like(image, 250) for image in scene.images))
    assert aligned(guess, plain, floor) is None
    assert aligned(guess, replace(scene, neighbours=((),) * 5), floor) is None
    assert aligned(guess, scene, [each[:0] for each in floor]) is None


def test_the_sky_beside_a_roof_has_no_contrast(room):
    scene = room[2]
    image = np.full((72, 96), 240, np.uint8)
    image[:, 48:] = np.random.default_rng(1).integers(20, 120, (72, 48))
    image[:, 48] = 130  # the pixel in which both are
    for bright, flip in ((True, 0), (False, 255)):
        matcher = _matcher(scene, [image ^ flip] * 5, 0, 1)
        costs, planes = np.ones((72, 96), np.float32), np.full((72, 96, 3), 0.25, np.float32)
        views = np.zeros((72, 96, 3), np.uint8)
        matcher.visit(
            planes, costs, views, StereoSettings(), 0, coarse=True, fresh=True, shrink=0.5
        )
        assert (costs[:, :44] == 2).all()
        assert (costs[:, 45:47] == 2).all() == bright  # what is dark may be thin
        assert (costs[:, 50:] == 2).mean() < 0.1


def test_parts_without_a_pattern_lie_on_the_plane_around_them():
    K = np.array([[160.0, 0, 80], [0, 160, 60], [0, 0, 1]])
    y, x = np.mgrid[:120, :160]
    ones = np.ones((120, 160))

    def plane(a, b, c):
        return np.stack([a * x + b * y + c, a * ones, b * ones], -1)

    wall, image = plane(2e-4, -1e-4, 0.2), np.full((120, 160, 3), 200, np.uint8)
    even, none = np.zeros((120, 160), bool), np.zeros((120, 160), bool)
    even[40:80, 50:110] = True
    labels, fitted = find_planar(image, K, wall, ~even, even, none)
    assert (labels > 0).tolist() == even.tolist()
    np.testing.assert_allclose(fitted, [[2e-4, -1e-4, 0.2]], rtol=1e-9)
    assert not find_planar(image, K, wall, ~even, even, even).labels.any()  # sky
    # An outline on the plane whose surface turns away from it, as that of an arm beside a body.
    turned = wall.copy()
    turned[..., 1] += 0.01
    at = np.array([80]), np.array([60])
    own, other = (normals_of(K, planes[60, 80:81], *at)[0] for planes in (wall, turned))
    assert own @ other < 0.9
    assert not find_planar(image, K, turned, ~even, even, none).labels.any()
    # What is nearer may hide the rest of it, but nothing may be seen through it.
    dice = np.random.default_rng(0)
    for depth, there in ((0.4, True), (0.1, False)):
        other = (np.abs(x - 80) < 20) | (np.abs(y - 60) < 12)
        mixed = np.where(other[..., None], plane(0, 0, depth), wall)
        mixed[..., 0] *= np.where(other, dice.uniform(0.8, 1.2, x.shape), 1)
        found = find_planar(image, K, mixed, ~even, even, none).labels
        assert found.any() == found[even].all() == there
    # Leaves before a wall with pictures: between them the wall is seen. If they are a frame in one
    # plane, it may be a gate, or a cupboard of that colour, which has a lower edge as well.
    known, even = np.zeros((120, 160), bool), np.ones((120, 160), bool)
    frame = (x >= 60) & (x < 100) & (y >= 30) & ~((x >= 68) & (x < 92) & (y >= 38))
    pictures = ((x - 25) % 110 < 20) & ((y - 12) % 80 < 15)
    known |= frame | pictures
    even &= ~known
    flat = np.where(frame[..., None], plane(0, 0, 0.4), wall)
    leaves = flat.copy()
    leaves[..., 0] *= np.where(frame, dice.uniform(0.7, 1.4, x.shape), 1)
    opening = np.s_[45:90, 70:90]
    found = find_planar(image, K, leaves, known, even, none)
    assert found.labels[opening].all()
    np.testing.assert_allclose(found.planes[found.labels[opening] - 1, 2], 0.2, atol=1e-9)
    assert not find_planar(image, K, flat, known, even, none).labels[opening].any()
    edge = (x >= 60) & (x < 100) & (y >= 90)
    cupboard = np.where((frame | edge)[..., None], plane(0, 0, 0.4), wall)
    found = find_planar(image, K, cupboard, known | edge, even & ~edge, none)
    np.testing.assert_allclose(found.planes[found.labels[45:85, 70:90] - 1, 2], 0.4, atol=1e-9)
    image[38:, 68:92] = 80  # of another colour, but with an open side
    assert not find_planar(image, K, flat, known, even, none).labels[opening].any()
    # Nor is the wall before what is seen behind it, in a niche with a frame.
    image[:], frame = 200, (x >= 56) & (x < 104) & (y >= 26)
    hole = (x >= 68) & (x < 92) & (y >= 38)
    deep = (x >= 62) & (x < 98) & (y >= 32) & ~hole
    niche = np.where(deep[..., None], plane(0, 0, 0.1), wall)
    niche[..., 0] *= np.where(deep, dice.uniform(0.8, 1.2, x.shape), 1)
    known, even = frame & ~hole | pictures, ~frame & ~pictures | hole
    found = find_planar(image, K, niche, known, even, none).labels
    assert found[15:19, 60:100].all()
    assert not found[opening].any()


def front(name, images, found, focal, t, folder):
    """The cloud of three photos of a front 4 m before a row of cameras, which stereo has found."""
    height, width = found[0].shape
    K = np.array([[focal, 0, width / 2 - 0.5], [0, focal, height / 2 - 0.5], [0, 0, 1]])
    files = [folder / f"{name}{k}.npz" for k in range(3)]
    for own, file in zip(found, files, strict=True):
        planes = np.zeros((height, width, 3), np.float32)
        planes[..., 0] = 0.25
        DepthMap(planes, np.where(own, 0.1, 1.5).astype(np.float32), 1).save(file)
    near = tuple(tuple({0, 1, 2} - {k}) for k in range(3))
    scene = Scene(
        ("a", "b", "c"), tuple(images), np.array([K] * 3), np.array([np.eye(3)] * 3), t,
        np.zeros(3), np.zeros((0, 3)), (np.zeros(0, int),) * 3, near,
        np.array([[0.05, 1.0]] * 3), (0,) * 3,
    )  # fmt: skip
    return fused(scene, files)


@pytest.mark.rotating(5, group="photos")
def test_a_deep_blue_sky_between_towers_stays_open(tmp_path):
    """A front of two towers 4 m before a row of cameras, or of one with a blue gate.

    Stereo knows all of the front; what is between the towers is plain and darker.
    """
    t = np.array([[0.4 * (1 - k), 0, 0] for k in range(3)])
    y, x = np.mgrid[:120, :160]
    dice = np.random.default_rng(0)
    waves = dice.normal(0, 25, (12, 2))
    for lintel in (False, True):
        images, found = [], []
        for k in range(3):
            own = (x - 79.5) / 150 * 4 - t[k, 0], (y - 59.5) / 150 * 4
            shown = (np.abs(own[0]) > 0.5) & (own[1] > -1.3 + 2 * (np.abs(own[0]) > 1.6))
            shown |= (own[1] > 0.3) | lintel & (own[1] < -0.7)
            grey = 165 + 15 * sum(np.sin(a * own[0] + b * own[1]) for a, b in waves)
            colors = np.where(shown[..., None], grey[..., None], [40.0, 95, 170])
            images.append(colors.clip(0, 255).astype(np.uint8))
            found.append(shown)
        cloud = front(lintel, images, found, 150.0, t, tmp_path)
        inside = (np.abs(cloud.points[:, 0]) < 0.3) & (np.abs(cloud.points[:, 1]) < 0.15)
        assert inside.any() == lintel
        assert (cloud.planar.mean() > 0.05) == lintel


def test_wires_before_the_sky_between_houses_cut_off_parts_of_it(tmp_path):
    image = np.full((400, 480, 3), 60, np.uint8)
    image[:200] = 200, 215, 235
    image[200:280, 100:124] = 190, 205, 230  # between two houses, a little darker
    image[220:222, 100:124] = image[250:252, 100:124] = 40  # two wires
    image[204:240, 200:224] = 235, 215, 190  # a gable in the sun
    image[240:280, 300:324] = 200, 215, 235  # a window
    sky, gap = np.zeros((2, 400, 480), bool)
    sky[:200], gap[200:280, 100:124] = True, True
    found = behind_wires(image, find_plain(image), np.zeros_like(sky), sky)
    lines = np.minimum(abs(np.arange(400) - 220.5), abs(np.arange(400) - 250.5)) < 4
    assert found[gap & ~lines[:, None]].mean() > 0.9
    assert not found[~gap].any()
    # Stereo has found something there, and not only beside the houses; or there is no sky.
    assert (behind_wires(image, find_plain(image), gap & (image[..., 0] < 50), sky) == found).all()
    assert not behind_wires(image, find_plain(image), gap, sky).any()
    assert not behind_wires(image, find_plain(image), gap, sky & False).any()
    # Stereo also finds the front beside it, in the gap.
    t = np.array([[0.1 * (1 - k), 0, 0] for k in range(3)])
    gaps = [np.roll(gap, 10 * (1 - k), 1) for k in range(3)]
    noise = np.where(gap | sky, 0, np.random.default_rng(0).integers(0, 90, gap.shape))
    image += noise[..., None].astype(np.uint8)
    images = [np.roll(image, 10 * (1 - k), 1) for k in range(3)]
    houses = [~sky & ndimage.maximum_filter(~own, 13) for own in gaps]
    cloud = front("", images, houses, 400.0, t, tmp_path)
    for own, depths in zip(gaps, cloud.depths, strict=True):
        assert (depths[:235][(own & ~lines[:, None])[:235]] < 0).mean() > 0.9
        assert not (depths[260:] < 0).any()  # below the horizon


def test_facades_below_the_sky_are_no_parts_of_it():
    for board, last in ((14, 225), (24, 225), (24, 60)):
        image = np.full((400, 480, 3), 60, np.uint8)
        image[:100] = 225
        rows = np.arange(102, 390 - board, board + 2)
        for top, grey in zip(rows, np.linspace(225, last, len(rows)), strict=True):
            image[top - 2 : top], image[top : top + board, 100:130] = 20, grey
        sky, found = np.zeros((2, 400, 480), bool)
        sky[:99] = True
        found[100:] = last == 225  # bright boards that stereo has found
        taken = behind_wires(image, find_plain(image), found, sky)
        # Boards that get darker are sky until they differ from that above all.
        assert taken.any() == (last == 60)
        assert image[taken & (image[..., 0] > 20)].min(initial=255) > 225 - 21


def test_walls_have_pictures_and_the_sky_has_leaves():
    K = np.array([[160.0, 0, 80], [0, 160, 60], [0, 0, 1]])
    y, x = np.mgrid[:120, :160]
    on = ((x - 20) % 60 < 25) & ((y - 15) % 50 < 20)
    planes = np.stack([1e-4 * x + 0.2, np.full(x.shape, 1e-4), np.zeros(x.shape)], -1)
    assert (find_walls(K, planes, on, ~on) == ~on).all()
    small = (abs(x - 80) < 6) & (abs(y - 60) < 6)
    assert not find_walls(K, planes, small, ~small).any()
    dice = np.random.default_rng(0)
    planes[..., 0] *= 1 + 0.1 * dice.random((120, 160))
    assert not find_walls(K, planes, on, ~on).any()
    # Through an arch the sky is as bright as above it.
    image = np.full((120, 160, 3), 90, np.uint8)
    image[:30] = image[60:, 60:90] = 220
    sky = y < 30
    assert (as_bright(image, sky) == (image[..., 0] > 100)).all()
    assert not as_bright(image, sky & False).any()
    # The sky goes on between towers, however the photo is turned, and bright or not.
    notch = sky | (image[..., 0] > 100) & (x >= 100)
    notch[30:60, 70:80] = True
    for turn in range(4):
        found = at_upper_edge(np.rot90(notch, turn), turn)
        assert (np.rot90(found, -turn)[:60] == notch[:60]).all()
        assert not np.rot90(found, -turn)[61:, 100:].any()


def test_sky_is_plain_and_matched_nowhere_but_beside_roofs():
    # A roof with a pattern below a sky that grows brighter, and a plain wall that stereo found.
    dice = np.random.default_rng(0)
    image = np.repeat(np.linspace(150, 200, 120)[:, None], 160, 1)
    image[60:] = dice.integers(0, 255, (60, 160))
    image[60:, 100:] = 90
    found = np.zeros(image.shape, bool)
    found[57:] = True
    even = find_plain(np.repeat(image[..., None], 3, 2).astype(np.uint8))
    sky = find_sky(even, found)
    assert sky[:58].all()
    assert not sky[60:].any()
    # It is no wall, as it is bright and reaches the upper edge, however the photo is turned.
    shown = np.repeat(image[..., None], 3, 2)
    for turn in range(4):
        own = np.rot90(shown, turn), np.rot90(sky, turn)
        assert np.rot90(above_all(*own, turn), -turn)[:58].all()
        assert not above_all(*own, turn + 2).any()
        assert not above_all(255 - own[0], own[1], turn).any()
    # From 60° above all of it lies below the horizon, from the side only its lower half.
    for degrees in (0, 60):
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        K = np.array([[160.0, 0, 80], [0, 160, 60], [0, 0, 1]])
        seen = SimpleNamespace(images=[shown], K=[K], R=[np.eye(3)])
        rises = above_horizon(seen, 0, np.array([0, -c, -s]))  # pyright: ignore[reportArgumentType]
        assert rises[:60].all() == (degrees == 0)
        assert not rises[80 * (degrees == 0) :].any()
    # What no mesh covers is sky; a white wall that goes on below the horizon is none.
    level, up = SimpleNamespace(**{**vars(seen), "quarters": (0,)}), np.array([0.0, -1, 0])
    for covered in (found, found[::-1]):
        bare = open_sky(level, 0, covered, up)  # pyright: ignore[reportArgumentType]
        assert bare[:57].all() == covered[-1, 0]
        assert not bare[60:].any()
    wall = np.full((120, 160, 3), 230, np.uint8)
    wall[100:] = shown[100:]
    level.images = [wall]
    assert not open_sky(level, 0, np.arange(120)[:, None] >= 100 + np.zeros(160), up).any()  # pyright: ignore[reportArgumentType]
    # Plain, but stereo has found half of it.
    found[:, :80] = True
    assert not find_sky(even, found).any()
    # It tells nothing there, as the sky is but a slope, in any direction, and a wall is more.
    y, x = np.mgrid[:120, :160]
    for slope in (image, np.where(y < 60, 240 - 0.4 * y - 0.3 * x, image)):
        shown = np.repeat(slope[..., None], 3, 2).astype(np.uint8)
        smooth = find_smooth(shown, find_plain(shown))
        assert smooth[:57].all()
        assert not smooth[61:, :95].any()
        own = above_all(shown, find_sky(smooth, np.zeros_like(found)), 0)
        assert own[:59].all()
        assert not own[61:].any()
    shown[:40, :40] = 190, 90, 70  # a finger before the lens, at the upper edge, too
    smooth = find_smooth(shown, find_plain(shown))
    assert not smooth[:36, :36].any()
    assert smooth[:57, 46:].all()
    assert not find_smooth(shown[60:], np.zeros((60, 160), bool)).any()
    halves = np.full((120, 160, 3), 230, np.uint8)  # two tints, neither of them most of it
    halves[:, 80:] = 90, 60, 40
    assert 0.3 < find_smooth(halves, find_plain(halves)).mean() < 0.6
    dark = np.full((120, 160, 3), 60, np.uint8)  # a floor that is larger than the sky
    dark[:40] = 230
    assert find_smooth(dark, find_plain(dark) & (y < 60))[:36].all()
    faint = (200 + dice.normal(0, 3, (120, 160, 1)).repeat(3, 2)).astype(np.uint8)
    assert find_plain(faint).mean() > 0.9
    assert find_smooth(faint, find_plain(faint)).mean() < 0.01
    # For colours sky counts nothing, and what stereo has not found little; nor does the frame.
    depths = np.repeat(np.float32([-1, 0, 1]), 8)[None].repeat(6, 0)
    trust = trust_of(SimpleNamespace(depths=(depths,)), [0], (8, 30))  # pyright: ignore[reportArgumentType]
    assert not trust[0, 6:].any()
    assert not trust[0, :, 24:].any()
    some = trust[0, 3].tolist()
    assert some[:8] == [0] * 8
    assert 0 < some[8] < 0.2 * 255
    assert some[8:16] == [some[8]] * 8
    assert some[16:24] == [255] * 8


def test_triangles_are_shown_in_their_middles_and_at_edges(room):
    """A web from the wall to a point before it lies where photos have found the wall."""
    _, depths, scene = room
    maps = tuple((1 / far).astype(np.float32) for far in depths)
    cloud = SimpleNamespace(depths=maps)
    wall = np.array([[-0.5, -0.5, 4], [0.5, -0.5, 4], [0, 0.5, 4], [0.0, 0.0, 2.0]]) - scene.origin
    faces = np.array([[0, 1, 2], [0, 1, 3]])
    views, starts = np.tile(np.arange(5, dtype=np.int32), 4), np.arange(0, 21, 5)

    def off(vertices):
        return supported(scene, cloud, vertices, faces, views, starts)

    assert is_shown(off(wall)).tolist() == [True, False]
    behind = off(wall + np.array([0, 0, 0.08]))  # by 0.02
    assert behind[0] == pytest.approx(0.02, abs=0.003)
    assert is_shown(behind).tolist() == [True, False]
    # As if one photo had found something in the middle of the web.
    x = scene.R[2] @ wall[faces[1]].mean(0) + scene.t[2]
    u, v, _ = np.rint(scene.K[2] @ x / x[2]).astype(int)
    maps[2][v, u] = 1 / x[2]
    assert is_shown(off(wall)).tolist() == [True, False]
    # As if photos showed sky there: one may err about what others show where it is, exactly, or
    # do not show at all.
    for j, gone in ((1, False), (3, True)):
        x = scene.R[j] @ wall[faces[1]].mean(0) + scene.t[j]
        u, v, _ = np.rint(scene.K[j] @ x / x[2]).astype(int)
        maps[j][v, u] = -1
        for exactly, goes in ((0.005, gone), (0.02, True), (0.1, gone), (np.inf, gone)):
            given = np.array([exactly, exactly])
            assert before_sky(scene, cloud, wall, faces, given).tolist() == [False, goes]


# -- the surface


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
