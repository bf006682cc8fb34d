"""Photos with and without masks, backdrops, skew, and where splats start from."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from gendr import look_at
from gendr.losses import psnr
from gendr.mesh import Mesh, icosphere
from gendr.photos import load_points, load_views
from gendr.photos.lines_of_sight import in_view, meeting_point, sample_at
from gendr.photos.splatting import (
    Look,
    Photos,
    SplatSettings,
    SplatTraining,
    fit_splats,
    from_cameras,
    from_hull,
    from_mesh,
    from_points,
    from_surface,
    load_photos,
)
from gendr.photos.splatting.photos import evened
from gendr.photos.splatting.start import compared
from gendr.photos.splatting.training import with_background
from support.cases import for_each

F64 = torch.float64
SIZE = 40
RED = torch.tensor([0.8, 0.2, 0.1])


def balls(count=6, radius=0.7, middle=(0.2, 0.1, 0.0), alpha=True):
    """Photos of a red ball before white, cameras that look beside it."""
    azimuth = torch.arange(count) * (360.0 / count)
    camera = look_at(3.0, 25.0 * (torch.arange(count) % 2), azimuth, 45.0)
    ticks = (2 * torch.arange(SIZE) + 1) / SIZE - 1
    y, x = torch.meshgrid(-ticks, ticks, indexing="ij")
    rays = torch.stack([x / camera.focal[0, 0], y / camera.focal[0, 1], torch.ones_like(x)], -1)
    at = camera.world_to_camera(torch.tensor([middle]))[:, 0]
    along = torch.einsum("hwc,bc->bhw", rays, at) / rays.square().sum(-1)
    gap = (along[..., None] * rays - at[:, None, None]).norm(dim=-1)
    masks = (gap < radius).float()
    images = masks[:, None] * RED[:, None, None] + (1 - masks)[:, None]
    names = tuple(str(i) for i in range(count))
    return Photos(images, masks if alpha else None, camera, names, torch.ones(3))


def folder(root, pictures, **frame):
    """Pictures [H, W, C] in 8 bits, with poses and a lens."""
    frames = []
    for i, picture in enumerate(pictures):
        Image.fromarray(picture).save(root / f"{i}.png")
        pose = np.eye(4)
        pose[0, 3] = i
        frames.append({"file_path": f"{i}.png", "transform_matrix": pose.tolist(), **frame})
    meta = {"fl_x": 30.0, "fl_y": 20.0, "cx": 9.0, "cy": 3.0, "frames": frames}
    (root / "transforms.json").write_text(json.dumps(meta))
    return root


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def test_transparent_pictures_are_laid_over_a_color(tmp_path):
    rgba = noise(12, 4, 6, 4, seed=1)
    photos = load_photos(folder(tmp_path, rgba), background=(0.0, 0.5, 1.0), dtype=F64)
    exact = torch.from_numpy(rgba / 255.0).permute(0, 3, 1, 2)
    alpha = exact[:, 3]
    behind = torch.tensor([0.0, 0.5, 1.0], dtype=F64)
    want = exact[:, :3] * alpha[:, None] + (1 - alpha[:, None]) * behind[:, None, None]
    torch.testing.assert_close(photos.images, want, atol=1e-6, rtol=0)
    torch.testing.assert_close(photos.alpha, alpha, atol=1e-6, rtol=0)
    assert torch.equal(photos.background, behind)
    views = load_views(tmp_path, dtype=F64)
    assert torch.equal(photos.camera.projection, views.camera.projection)
    assert repr(photos) == "Photos(12 pictures, 6×4, alpha, cpu)"
    half = load_photos(tmp_path, size=2, dtype=F64).images
    over_white = exact[:, :3] * alpha[:, None] + (1 - alpha[:, None])
    means = torch.nn.functional.avg_pool2d(over_white, 2)
    torch.testing.assert_close(half, means, atol=1e-6, rtol=0)
    train, held_out = photos.split()
    assert held_out.names == ("5.png",)
    assert train.names == tuple(f"{i}.png" for i in range(12) if i != 5)
    assert torch.equal(train.images[5], photos.images[6])
    assert torch.equal(train.camera.eye[5], photos.camera.eye[6])
    assert photos.split(6, 2)[1].names == ("2.png", "8.png")
    with pytest.raises(ValueError, match="12 pictures have no number 12 to hold out"):
        photos.split(20, 12)


def test_pictures_without_masks_count_whole(tmp_path):
    pictures = noise(3, 5, 7, 3)
    photos = load_photos(folder(tmp_path, pictures))
    assert photos.alpha is None
    want = torch.from_numpy(pictures / 255.0).permute(0, 3, 1, 2).float()
    torch.testing.assert_close(photos.images, want)
    rim = [
        p[y, x] for p in pictures for y in range(5) for x in (range(7) if y in (0, 4) else (0, 6))
    ]
    near = (photos.background * 255 - torch.tensor(np.median(rim, 0))).abs()
    assert (near < 4).all()  # corners count twice
    (tmp_path / "masks").mkdir()
    for i in range(3):
        Image.fromarray(np.full((5, 7), 255 * (i > 0), np.uint8)).save(tmp_path / f"masks/{i}.png")
    photos = load_photos(tmp_path)
    assert photos.alpha.mean((1, 2)).tolist() == [0, 1, 1]
    assert (photos.images[0] == 1).all()
    with pytest.raises(ValueError, match="background must be"):
        load_photos(tmp_path, background="nothing")
    with pytest.raises(TypeError, match="dtype must be float32 or float64"):
        load_photos(tmp_path, dtype=torch.float16)


@for_each(skew=[3.0, -4.4])
def test_skew_is_undone(skew, tmp_path):
    """A picture whose value is a linear function of the place, so that resampling is exact."""
    height, width = 16, 24
    v, u = np.mgrid[:height, :width] + 0.5
    whole = (2 * np.stack([4 * u + 2 * v, 2 * v, u], -1)).round().astype(np.uint8)
    root = folder(tmp_path, [whole, whole], skew=skew)
    photos = load_photos(root, dtype=F64)
    lost = (width - photos.image_size[1]) / 2 - abs(skew) / 20 * (height - 1) / 2
    assert photos.image_size[0] == height
    assert 0 <= lost < 1  # columns on either side
    # The ray of each pixel must have the colour that the lens with skew saw along it.
    k = photos.camera.intrinsics(photos.image_size)[0].numpy()
    y, x = np.mgrid[: photos.image_size[0], : photos.image_size[1]] + 0.5
    rays = np.linalg.solve(k, np.stack([x.ravel(), y.ravel(), np.ones(x.size)]))
    u, v, _ = np.array([[30, skew, 9], [0, 20, 3], [0, 0, 1]]) @ rays
    want = 2 * np.stack([4 * u + 2 * v, 2 * v, u]) / 255
    np.testing.assert_allclose(photos.images[0].flatten(1).numpy(), want, atol=1e-6)


def test_matrices_of_matlab(tmp_path):
    from scipy.io import savemat

    count = 4
    camera = look_at(5.0, 10.0, torch.arange(count, dtype=F64) * 60, 40.0, dtype=F64)
    r, t, k = (x.numpy() for x in camera.to_opencv((6, 8)))
    for i in range(count):
        Image.fromarray(noise(6, 8, 3, seed=i)).save(tmp_path / f"{i}.png")
    for mirrored in (False, True):
        cells = np.empty((1, count), object)
        for i in range(count):
            p = k[i] @ np.c_[r[i], t[i]] * (-1.0) ** i
            cells[0, i] = p @ np.diag([1, 1, -1, 1]) if mirrored else p
        savemat(tmp_path / "a_Ps.mat", {"P": cells})
        found = load_photos(tmp_path, dtype=F64).camera
        torch.testing.assert_close(found.projection, camera.projection)
    Image.fromarray(noise(6, 8, 3)).save(tmp_path / "more.png")
    with pytest.raises(ValueError, match=r"4 matrices for the images in its folder.* 5"):
        load_photos(tmp_path)
    for content in ({"Q": cells}, {"P": np.eye(3)}):
        savemat(tmp_path / "a_Ps.mat", content)
        with pytest.raises(ValueError, match="holds no 3 x 4 projection matrices"):
            load_photos(tmp_path)
    (tmp_path / "a_Ps.mat").write_bytes(b"MATLAB")
    with pytest.raises(ValueError, match="holds no 3 x 4 projection matrices"):
        load_photos(tmp_path)


# -- starting points -------------------------------------------------------------------------------


def test_where_the_lines_of_sight_meet():
    photos = balls()
    torch.testing.assert_close(meeting_point(photos.camera), torch.zeros(3), atol=1e-5, rtol=0)
    # With an axis that leaves the image at the side: the middles still look at the same point.
    off = photos.camera.with_tensors(principal=photos.camera.principal + torch.tensor([2.0, 0.5]))
    plane = -off.principal / off.focal
    way = off.ahead + plane[:, :1] * off.right + plane[:, 1:] * off.up
    turned = off.with_tensors(translation=-(off.rotation @ (-2 * way)[..., None])[..., 0])
    torch.testing.assert_close(meeting_point(turned), torch.zeros(3), atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="parallel"):
        meeting_point(photos.camera[[0, 0]])


def test_what_images_show_at_points():
    photos = balls(2)
    points = torch.tensor([[0.2, 0.1, 0.0], [0.2, 1.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 50.0]])
    colors, inside = sample_at(photos.images[:1], photos.camera[0], points)
    assert inside.tolist()[:3] == [True, True, False]
    torch.testing.assert_close(colors[0], RED)
    torch.testing.assert_close(colors[1], torch.ones(3))
    assert not colors[2].any()
    both = in_view(photos.camera, points, (SIZE, SIZE))
    assert both.shape == (2, 4)
    assert torch.equal(both[0], inside)


def test_from_the_hull():
    photos = balls()
    splats = from_hull(photos, 300, seed=1)
    points = splats.vertices.mean(1)
    assert len(points) == 300
    assert splats.harmonics.shape == (300, 16, 3)
    for i in range(len(photos)):
        assert (sample_at(photos.alpha[i : i + 1, None], photos.camera[i], points)[0] > 0.25).all()
    away = (points - torch.tensor([0.2, 0.1, 0.0])).norm(dim=1)
    assert 0.65 < away.max() < 1.0  # the hull of six views is larger than the ball
    torch.testing.assert_close(0.5 + 0.28209479 * splats.harmonics[:, 0].median(0).values, RED)
    again = from_hull(photos, 300, seed=1)
    assert torch.equal(splats.vertices, again.vertices)
    assert not torch.equal(splats.vertices, from_hull(photos, 300, seed=2).vertices)
    with pytest.raises(ValueError, match="whole pictures have no hull"):
        from_hull(balls(alpha=False), 10)
    here, there = (balls(radius=0.2, middle=(x, 0.0, 0.0)).alpha for x in (-0.6, 0.6))
    apart = torch.cat([here[:3], there[3:]])
    wrong = Photos(photos.images, apart, photos.camera, photos.names, RED)
    with pytest.raises(ValueError, match="no point in common"):
        from_hull(wrong, 10)


def test_from_cameras():
    photos = balls(alpha=False)
    splats = from_cameras(photos, 400)
    seen = in_view(photos.camera, splats.vertices.mean(1), (SIZE, SIZE)).float().mean(0)
    assert (seen >= 0.6).all()
    away = splats.vertices.mean(1).norm(dim=1)
    assert away.median() < 1.2
    assert away.max() > 1.2  # beyond what all of them see
    assert torch.equal(splats.background, photos.background)


def test_from_a_mesh():
    mesh = icosphere(2).scaled(0.5)
    splats = from_mesh(mesh, 200)
    away = splats.vertices.mean(1).norm(dim=1)
    assert (away > 0.45).all()
    assert (away < 0.501).all()
    assert not splats.harmonics.any()  # grey
    assert from_mesh(mesh, 200, balls()).harmonics[:, 0, 0].mean() > 0.1
    with pytest.raises(ValueError, match="one mesh, got a batch of 2"):
        from_mesh(mesh.repeated(2), 10)


def test_a_surface_and_what_is_beyond_it():
    photos = balls(8, alpha=False)
    smudged = photos.images.clone()
    smudged[0, :, 15:25, 15:25] = 0.0  # something before the ball, in one photo
    photos = replace(photos, images=smudged)
    middle = torch.tensor([0.2, 0.1, 0.0])
    mesh = icosphere(2).scaled(0.73).translated(middle)
    splats = from_surface(mesh, photos, look=Look(opacity=0.9, degree=1))
    away = (splats.vertices.mean(1) - middle).norm(dim=1)
    near = away < 1
    assert 0.5 * len(mesh.faces) < int(near.sum()) <= len(mesh.faces)
    assert (away[~near] > 10).all()  # of cameras that are 3 away
    colors = 0.5 + 0.28209479 * splats.harmonics[:, 0]
    error = (colors[near] - RED).abs().amax(1)  # at its rim white is seen
    assert float(error.quantile(0.6)) < 1e-4
    front = splats.vertices.mean(1)[near, 2] > 0.5
    assert float(error[front].quantile(0.6)) < 1e-4  # where one photo shows something else
    assert float((colors[~near] - 1).abs().max()) < 0.05
    images, alpha = splats.render(photos.camera, (SIZE, SIZE))
    assert float(psnr(images[1:], balls(8).images[1:]).min()) > 18
    assert float(alpha.min()) > 0.75  # the sphere is behind every pixel
    gains = torch.tensor([0.8, 1.0, 1.2, 1.0, 1.0, 1.1, 1.0, 1.0])
    darker = replace(photos, images=balls(8).images * gains[:, None, None, None] * 0.8)
    before = darker.images.clone()
    before[5, :, 15:25, 15:25] = torch.tensor([0.0, 0.9, 0.1])[:, None, None]
    before[3, :, 18:22, 18:22] = torch.tensor([0.0, 0.9, 0.1])[:, None, None]
    cleared = compared(splats, replace(darker, images=before))
    expected = (gains / gains.log().mean().exp())[:, None].expand(8, 3)
    torch.testing.assert_close(cleared.exposures, expected, rtol=0.02, atol=0)
    begun = SplatTraining(cleared, SplatSettings(steps=1, exposure=True), splats)
    corners = darker.images[:, :, 0, 0] / expected
    torch.testing.assert_close(begun.even_photos().images[:, :, 0, 0], corners, rtol=0.02, atol=0)
    # What stands before the ball in one photo is gone, and nothing else has changed much.
    off = (cleared.images - darker.images).abs()
    assert float(off[5, :, 15:25, 15:25].mean()) < 0.1
    assert float((before[5] - darker.images[5]).abs()[:, 15:25, 15:25].mean()) > 0.3
    assert float((off.amax(1) > 0).double().mean()) < 0.06
    # What is small may be missing from the surface, and stays.
    assert torch.equal(cleared.images[3], before[3])
    # Nothing is learnt from where it stood.
    part = replace(cleared[[5]], exposures=None)
    assert float(part.passing[0, 15:25, 15:25].double().mean()) > 0.8
    dark = replace(part, images=torch.where(part.passing[:, None], 0.0, part.images))

    def loss(photos):
        training = SplatTraining(photos, SplatSettings(steps=1), splats)
        training.advance()
        return training.loss

    assert loss(dark) == loss(part)
    assert loss(replace(dark, passing=None)) > 1.1 * loss(part)
    # What is white stays so, as it may be brighter.
    pixels = torch.tensor([0.2, 0.6, 0.99]), torch.tensor([0.5, 0.5, 1.25])
    assert evened(*pixels).tolist() == pytest.approx([0.4, 1.0, 0.99])
    # Ground below, also where no photo shows it, is as what is beside it.
    square = torch.tensor([[-1.0, 0, -1], [1, 0, -1], [1, 0, 1], [-1, 0, 1]])
    halves = torch.tensor([[0, 1, 2], [0, 2, 3]])
    below = Mesh(square * 0.1 - torch.tensor([0.0, 9.0, 0.0]), halves)
    more = from_surface(mesh, photos, below=below, look=Look(opacity=0.9, degree=1))
    added = more.vertices[:, :, 1].mean(1) == -9
    assert (int(added.sum()), len(more) - len(splats)) == (2, 2)
    nearest = (splats.vertices.mean(1)[near] + torch.tensor([0.0, 9.0, 0.0])).norm(dim=1).argmin()
    assert (more.harmonics[added] == splats.harmonics[near][nearest]).all()
    # Wherever it comes near a camera it is in small triangles.
    wide = Mesh(square * 10 - torch.tensor([0.0, 9.0, 0.0]), halves)
    more = from_surface(mesh, photos, below=wide)
    corners = more.vertices[more.vertices[:, :, 1].mean(1) == -9]
    edges = corners - corners.roll(1, 1)
    away = torch.cdist(corners.mean(1), photos.camera.eye).amin(1)
    assert (edges.norm(dim=2).amax(1) <= 1.2 * 0.25 * away).all()
    areas = torch.linalg.cross(edges[:, 0], edges[:, 1]).norm(dim=1) / 2
    assert float(areas.sum()) > 0.9 * 1.2**2 * 400
    moved = replace(photos, camera=photos.camera.with_origin(torch.tensor([1e6, 0.0, 0.0])))
    there = from_surface(mesh.with_origin(torch.tensor([1e6, 0.0, 0.0])), moved)
    assert there.origin.tolist() == [1e6, 0.0, 0.0]
    torch.testing.assert_close(there.vertices, splats.vertices)
    for wrong, words in (
        (mesh.repeated(2), "one mesh, got a batch of 2"),
        (icosphere(1).translated(torch.tensor([0.0, 900.0, 0.0])), "no photo shows the mesh"),
    ):
        with pytest.raises(ValueError, match=words):
            from_surface(wrong, photos)


def test_triangles_about_points():
    grid = torch.cartesian_prod(*[torch.arange(3.0, dtype=F64)] * 3)
    colors = torch.rand(27, 3, dtype=F64)
    look = Look(size=0.5, degree=1, opacity=0.3, scale=2.0, shape=1.5, dist="gamma", unit="px")
    splats = from_points(grid, colors, look=look, background=RED.double())
    torch.testing.assert_close(splats.vertices.mean(1), grid)
    radius = (splats.vertices - grid[:, None]).norm(dim=-1)
    torch.testing.assert_close(radius, torch.full_like(radius, 0.5))  # the three nearest are 1 away
    sides = (splats.vertices - splats.vertices.roll(1, 1)).norm(dim=-1)
    torch.testing.assert_close(sides, torch.full_like(sides, 0.5 * 3**0.5))
    u, v = (splats.vertices[:, i] - splats.vertices[:, 0] for i in (1, 2))
    normals = torch.linalg.cross(u, v)
    assert torch.linalg.matrix_rank(normals) == 3
    torch.testing.assert_close(0.5 + 0.28209479177387814 * splats.harmonics[:, 0], colors)
    for name, value in (("opacity", 0.3), ("scale", 2.0), ("shape", 1.5)):
        assert (getattr(splats, name) == value).all()
    assert (splats.unit, splats.dist.base.name) == ("px", "gamma")
    same = from_points(torch.zeros(5, 3))
    assert torch.isfinite(same.vertices).all()
    assert (same.vertices[:, 0] != same.vertices[:, 1]).any(1).all()
    assert len(from_points(torch.zeros(1, 3))) == 1
    for points, words in (
        (torch.zeros(0, 3), "number of points must be >= 1"),
        (torch.zeros(3, 2), r"points must have shape \[N, 3\]"),
        (torch.full((2, 3), torch.nan), "points must be finite"),
    ):
        with pytest.raises(ValueError, match=words):
            from_points(points)
    with pytest.raises(ValueError, match="degree must be 0, 1, 2 or 3, got 4"):
        from_points(grid, look=Look(degree=4))


def test_points_of_colmap(tmp_path):
    import struct

    xyz = np.random.default_rng(0).normal(size=(5, 3))
    rgb = noise(5, 3)
    model = tmp_path / "sparse" / "0"
    model.mkdir(parents=True)
    assert load_points(tmp_path) is None
    (model / "images.txt").write_text("")
    assert load_points(tmp_path) is None  # without a file of points
    lines = [f"{i} {' '.join(map(repr, map(float, p)))} {' '.join(map(str, c))} 0.5 1 2 3 4"
             for i, (p, c) in enumerate(zip(xyz, rgb, strict=True))]  # fmt: skip
    (model / "points3D.txt").write_text("# comment\n" + "\n".join(lines))
    data = struct.pack("<Q", 5)
    for i, (p, c) in enumerate(zip(xyz, rgb, strict=True)):
        data += struct.pack("<Q3d3BdQ", i, *p, *c.tolist(), 0.5, i) + bytes(8 * i)
    (model / "points3D.bin").write_bytes(data)
    for kind in ("txt", "bin"):
        found = load_points(tmp_path, dtype=F64)
        assert found is not None
        points, colors = found
        np.testing.assert_array_equal(points, xyz)
        np.testing.assert_array_equal(colors, rgb / 255.0)
        # nerfstudio's cameras are those of the model, turned: z up for its -y.
        turn = [[1, 0, 0, 5e5], [0, 0, 1, 4e6], [0, -1, 0, 0]]
        (tmp_path / "transforms.json").write_text(json.dumps({"applied_transform": turn}))
        want = xyz @ np.array(turn)[:, :3].T + np.array(turn)[:, 3]
        np.testing.assert_allclose(load_points(tmp_path, dtype=F64)[0], want, rtol=1e-15)
        with pytest.warns(UserWarning, match="its points lie too far from 0 for float32; give"):
            load_points(tmp_path)
        at = torch.tensor([5e5, 4e6, 0.0], dtype=F64)
        near = load_points(tmp_path, origin=at)[0]
        np.testing.assert_allclose(near, want - at.numpy(), atol=1e-6)
        (tmp_path / "transforms.json").write_text('{"applied_transform": [[1, 0], [0, 1]]}')
        with pytest.raises(ValueError, match="applied_transform must be a matrix of 3 x 4 numbers"):
            load_points(tmp_path)
        (tmp_path / "transforms.json").unlink()
        (model / "images.bin").write_bytes(b"")  # is read before the text
        assert kind
    (model / "points3D.bin").write_bytes(data[:-1])
    with pytest.raises(ValueError, match="is damaged"):
        load_points(tmp_path)
    (model / "images.bin").unlink()
    (model / "points3D.txt").write_text("1 2 3")
    with pytest.raises(ValueError, match="want POINT3D_ID X Y Z R G B"):
        load_points(tmp_path)
    (model / "points3D.txt").write_text("1 0 0 0 300 0 0 1")
    with pytest.raises(ValueError, match="is damaged"):
        load_points(tmp_path)


def turntable(count=6, height=40, width=50, grain=0.01, drift=0.0):
    """Pictures of a disc with a hole in its pattern that moves before a textured backdrop."""
    rng = np.random.default_rng(2)
    backdrop = 0.2 + 0.2 * rng.random((3, 4, 5)).repeat(10, 1).repeat(10, 2)
    y, x = np.mgrid[:height, :width]
    pictures, masks = [], []
    for i in range(count):
        centre = 25 + 14 * np.sin(2 * np.pi * i / count), 20 + 10 * np.cos(2 * np.pi * i / count)
        far = np.hypot(x - centre[0], y - centre[1])
        picture = backdrop + grain * rng.standard_normal((3, height, width)) + drift * i
        picture = np.where(far < 7, np.array([0.9, 0.7, 0.2])[:, None, None], picture)
        picture = np.where(far < 3, backdrop, picture)  # of the backdrop's own colours
        pictures.append(picture)
        masks.append(far < 7)
    camera = look_at(3.0, 10.0, [360 / count * i for i in range(count)])
    images = torch.from_numpy(np.stack(pictures)).float().clamp(0, 1)
    names = tuple(map(str, range(count)))
    photos = Photos(images, None, camera, names, images.new_zeros(3))
    return photos, torch.from_numpy(np.stack(masks)), torch.from_numpy(backdrop).float()


def test_a_backdrop_that_stands_still():
    photos, masks, backdrop = turntable(count=9)
    found = photos.before_backdrop()
    rare = masks.float().mean(0) < 0.4  # where most show it
    assert (found.background - backdrop).abs()[:, rare].max() < 0.05
    assert rare.float().mean() > 0.9
    alpha = found.alpha == 1
    assert float((alpha == masks).float().mean()) > 0.97
    inner = -torch.nn.functional.max_pool2d(-masks.float(), 5, 1, 2) == 1
    assert float(alpha[inner].float().mean()) > 0.99  # holes are filled
    assert torch.equal(found.images, photos.images)
    assert turntable(drift=0.1)[0].before_backdrop() is None
    assert photos[[0, 1]].before_backdrop() is None  # of which nobody knows what moves


def test_kinds_of_backgrounds():
    photos, _, _ = turntable()
    still, settings = with_background(photos, SplatSettings())
    assert settings.background == "still"
    assert with_background(still, settings) == (still, settings)
    moving = turntable(drift=0.1)[0]
    assert with_background(moving, SplatSettings())[1].background == "learnt"
    masked = Photos(photos.images, photos.images[:, 0], photos.camera, photos.names, torch.ones(3))
    assert with_background(masked, SplatSettings())[1].background == "given"
    with pytest.raises(ValueError, match="does not stand still, the rim of the photos differs; le"):
        with_background(moving, SplatSettings(background="still"))
    with pytest.raises(ValueError, match="does not stand still, there are masks; let it be"):
        with_background(masked, SplatSettings(background="still"))
    # Trained with it, also from elsewhere.
    training = fit_splats(photos, SplatSettings(steps=3, triangles=50))
    assert training.settings.background == "still"
    assert training.splats().background.shape == (3, 40, 50)
    assert not torch.equal(training.splats().background, still.background)
    own = from_cameras(photos, 30)
    training = fit_splats(photos, SplatSettings(steps=1, triangles=30), init=own)
    assert training.splats().background.shape == (3, 40, 50)
