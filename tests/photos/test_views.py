"""Image folders: hand-written ones, round trips, what is refused; and starting spheres."""

import errno
import json
import math
import struct
import sys
import tracemalloc
import zlib
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageCms, ImageOps

from gendr.mesh import Camera, icosphere, load_texture, look_at
from gendr.photos import (
    Views,
    load_views,
    save_views,
    view_sizes,
    visual_hull,
    visual_sphere,
)
from gendr.rendering import Renderer
from support.cases import for_each

F64 = torch.float64
IDENTITY = np.eye(4).tolist()


def write(root, frames, **meta):
    (root / "transforms.json").write_text(json.dumps({**meta, "frames": frames}))
    return root


def image(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(array, dtype=np.uint8)).save(path)


def blob(height=6, width=8, value=255):
    mask = np.zeros((height, width), np.uint8)
    mask[1:4, 2:6] = value
    return mask


def folder(root, count=2, **meta):
    """A valid folder of grey masks."""
    frames = []
    for i in range(count):
        image(root / "images" / f"{i}.png", blob())
        frames.append({"file_path": f"images/{i}.png", "transform_matrix": IDENTITY})
    return write(root, frames, **(meta or {"camera_angle_x": 0.8}))


def ball_masks(camera, centre, radius, size, samples=4):
    """Masks of a sphere by rays through subpixels, from the definition of the image frame."""
    height, width = size
    n, m = height * samples, width * samples
    side = min(n, m)
    y, x = np.meshgrid(-(2 * np.arange(n) + 1 - n) / side, (2 * np.arange(m) + 1 - m) / side,
                       indexing="ij")  # fmt: skip
    masks = []
    for i in range(len(camera)):
        rotation, eye = camera.rotation[i].numpy(), camera.eye[i].numpy()
        f, c = camera.focal[i].numpy(), camera.principal[i].numpy()
        plane = np.stack([(x - c[0]) / f[0], (y - c[1]) / f[1]], -1)
        if camera.orthographic:
            start, ray = eye + plane @ rotation[:2], rotation[2] + np.zeros((n, m, 3))
        else:
            start, ray = eye, np.concatenate([plane, np.ones((n, m, 1))], -1) @ rotation
        to = np.asarray(centre) - start
        along = (to * ray).sum(-1) / (ray**2).sum(-1)
        away = np.linalg.norm(to - along[..., None] * ray, axis=-1)
        hit = ((away < radius) & (along > 0)).astype(float)
        masks.append(hit.reshape(height, samples, width, samples).mean((1, 3)))
    return torch.from_numpy(np.stack(masks))


# -- reading -----------------------------------------------------------------------------------


def test_blender_layout(tmp_path):
    # As the synthetic NeRF scenes: names without extension, RGBA, camera_angle_x, a z-up world.
    rgba = np.zeros((6, 8, 4), np.uint8)
    rgba[..., :3], rgba[..., 3] = (200, 100, 50), blob(value=128)
    image(tmp_path / "train" / "r_0.png", rgba)
    pose = [[1, 0, 0, 0.5], [0, 0, -1, -4], [0, 1, 0, 0], [0, 0, 0, 1]]  # looks along +y, z up
    frames = [{"file_path": "./train/r_0", "rotation": 0.01, "transform_matrix": pose}]
    (tmp_path / "transforms_train.json").write_text(
        json.dumps({"camera_angle_x": 0.9, "frames": frames})
    )
    views = load_views(tmp_path, dtype=F64)
    assert len(views) == 1
    assert views.names == ("./train/r_0",)
    assert views.image_size == (6, 8)
    np.testing.assert_allclose(views.masks[0], blob() / 255 * 128 / 255)
    color = np.array([200, 100, 50]) / 255
    assert views.rgb is not None
    np.testing.assert_allclose(views.rgb[0, :, 2, 3], color * 128 / 255, atol=1e-7)
    np.testing.assert_allclose(views.rgb[0, :, 0, 0], 0)
    camera = views.camera
    np.testing.assert_allclose(camera.eye[0], [0.5, -4, 0], atol=1e-12)
    np.testing.assert_allclose(camera.ahead[0], [0, 1, 0], atol=1e-12)
    np.testing.assert_allclose(camera.up[0], [0, 0, 1], atol=1e-12)
    # camera_angle_x is the full angle across the width: its edge is at x_ndc = 8/6.
    edge = torch.tensor([[0.5 + math.tan(0.45), -3, 0]], dtype=F64)
    np.testing.assert_allclose(camera.project(edge)[0][0, 0], [8 / 6, 0], atol=1e-12)
    assert load_views(tmp_path / "transforms_train.json").masks.dtype == torch.float32


def test_pixel_intrinsics_per_frame_and_scaled_images(tmp_path):
    image(tmp_path / "a.png", blob())
    image(tmp_path / "b.png", blob())
    frames = [
        {"file_path": "a.png", "transform_matrix": IDENTITY, "fl_x": 9, "cx": 3.5},
        # Given for an image of twice the size: as if calibrated before it was shrunk.
        {"file_path": "b.png", "transform_matrix": IDENTITY[:3], "w": 16, "h": 12, "fl_x": 20,
         "fl_y": 24, "cx": 8, "cy": 5},
    ]  # fmt: skip
    views = load_views(write(tmp_path, frames, fl_y=12, cy=2))
    k = views.camera.intrinsics((6, 8))
    np.testing.assert_allclose(k[0], [[9, 0, 3.5], [0, 12, 2], [0, 0, 1]], atol=1e-5)
    np.testing.assert_allclose(k[1], [[10, 0, 4], [0, 12, 2.5], [0, 0, 1]], atol=1e-5)
    assert views.rgb is None
    for frames[-1]["time"], crop, said in ((1.0, 0, "several times"), (None, 2, "crop_radius is")):
        with pytest.warns(UserWarning, match=said):
            load_views(write(tmp_path, frames, fl_y=12, fisheye_crop_radius=crop))
    (tmp_path / "dynamic_mask_b.png").touch()
    with pytest.warns(UserWarning, match=r"of what moves, are not used: .*dynamic_mask_b\.png"):
        load_views(write(tmp_path, frames, fl_y=12))
    (tmp_path / "dynamic_mask_b.png").unlink()
    # An angle of the frame comes before a focal length of all.
    frames = [{"file_path": "a.png", "transform_matrix": IDENTITY, "camera_angle_x": math.pi / 2}]
    k = load_views(write(tmp_path, frames, fl_x=9, fl_y=12)).camera.intrinsics((6, 8))
    np.testing.assert_allclose(k[0], [[4, 0, 4], [0, 4, 3], [0, 0, 1]], atol=1e-5)
    # instant-ngp takes degrees before all others.
    k = load_views(write(tmp_path, frames, x_fov=45.0, fl_y=12)).camera.intrinsics((6, 8))
    focal = 4 / math.tan(math.radians(22.5))
    np.testing.assert_allclose(k[0], [[focal, 0, 4], [0, focal, 3], [0, 0, 1]], atol=1e-5)


@for_each(place=["masks/0.png", "masks/images/0.png", "masks/0.jpg.png", "elsewhere/m.png"])
def test_separate_masks(tmp_path, place):
    image(tmp_path / "images" / "0.jpg", np.full((6, 8, 3), 90))
    image(tmp_path / place, blob())
    frame = {"file_path": "images/0.jpg", "transform_matrix": IDENTITY}
    if place.startswith("elsewhere"):
        frame["mask_path"] = place
    views = load_views(write(tmp_path, [frame], camera_angle_x=0.5))
    np.testing.assert_allclose(views.masks[0], blob() / 255)
    assert views.rgb is not None
    np.testing.assert_allclose(views.rgb[0, 1], blob() / 255 * 90 / 255, atol=1e-2)


def test_masks_of_many_pixel_formats(tmp_path):
    mask = blob()
    Image.fromarray(mask).convert("1").save(tmp_path / "0.png")
    Image.fromarray(mask).save(tmp_path / "1.png")
    Image.fromarray(np.stack([mask] * 3, -1)).save(tmp_path / "2.png")
    Image.fromarray(mask.astype(np.uint16) * 257).save(tmp_path / "3.png")
    Image.fromarray(np.stack([mask * 0 + 30, mask], -1)).save(tmp_path / "4.png")
    Image.fromarray(mask).convert("P").save(tmp_path / "5.png")
    frames = [{"file_path": f"{i}", "transform_matrix": IDENTITY} for i in range(6)]
    views = load_views(write(tmp_path, frames, camera_angle_x=0.5))
    for i in range(6):
        np.testing.assert_allclose(views.masks[i], mask / 255, err_msg=str(i))


def test_views_are_written_whole(tmp_path, monkeypatch, moved):
    camera, masks = look_at(3.0, 0.0, torch.tensor([0.0, 90.0])), torch.rand(2, 8, 8)
    save_views(tmp_path, masks, camera)
    assert moved == {"000.png", "001.png", "transforms.json"}
    before = (tmp_path / "images" / "000.png").read_bytes()

    def full(self, file, *args, **kwargs):
        if isinstance(file, str | Path):
            Path(file).write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full)
    with pytest.raises(OSError, match="No space left"):
        save_views(tmp_path, 1 - masks, camera)
    assert (tmp_path / "images" / "000.png").read_bytes() == before


def test_resizing_averages_areas_and_keeps_the_frame(tmp_path):
    camera = look_at(3.0, [10.0, 50.0], [20.0, 200.0], dtype=F64)
    masks = torch.rand(2, 12, 18, dtype=F64).mul(255).round() / 255
    save_views(tmp_path, masks, camera, rgb=masks[:, None].expand(-1, 3, -1, -1))
    views = load_views(tmp_path, size=4, dtype=F64)
    assert views.image_size == (4, 6)
    want = masks.reshape(2, 4, 3, 6, 3).mean((2, 4))
    np.testing.assert_allclose(views.masks, want, atol=1e-6)
    assert views.rgb is not None
    assert views.rgb.shape == (2, 3, 4, 6)
    np.testing.assert_allclose(views.camera.focal, camera.focal, atol=1e-12)
    # Stretched: the whole width is still the whole width.
    tall = load_views(tmp_path, size=(12, 9), dtype=F64)
    points = torch.randn(5, 3, dtype=F64) * 0.2
    x, y = camera.project(points)[0].unbind(-1)
    u, v = (x * 12 + 18) / 2 * (9 / 18), (12 - y * 12) / 2 * (12 / 12)
    xy = tall.camera.project(points)[0]
    np.testing.assert_allclose(xy, torch.stack([(2 * u - 9) / 9, (12 - 2 * v) / 9], -1), atol=1e-12)


def test_cameras_far_from_0_keep_their_places(tmp_path):
    """UTM metres: float32 would round them to half a metre."""
    near = np.array([[0, 0, 4], [0.3, 0.1, 4.2], [-0.2, 0.4, 3.9]])
    eyes = near + np.array([540000.0, 5400000.0, 100.0])
    frames = []
    for i, eye in enumerate(eyes):
        image(tmp_path / f"{i}.png", blob())
        pose = np.eye(4)
        pose[:3, 3] = eye
        frames.append({"file_path": f"{i}.png", "transform_matrix": pose.tolist()})
    views = load_views(write(tmp_path, frames, camera_angle_x=0.8))
    camera = views.camera
    np.testing.assert_allclose(camera.eye.double() + camera.origin, eyes, atol=1e-6)
    assert not load_views(tmp_path, dtype=F64).camera.origin.any()  # which needs none
    save_views(tmp_path / "out", views.masks, camera)
    again = load_views(tmp_path / "out", dtype=F64).camera
    np.testing.assert_allclose(again.eye, eyes, atol=1e-6)
    # A mesh in the place of the world, whatever its own origin is, and none that says nothing.
    place = camera.origin + torch.tensor([0.0, 0.0, -3.0], dtype=F64)
    mesh = icosphere(1).scaled(0.3)
    draw = Renderer(16, "heaviside", "max")
    wanted = draw(mesh.translated(torch.tensor([0.0, 0, -3])).with_origin(camera.origin), camera)
    torch.testing.assert_close(draw(mesh.with_origin(place), camera).alpha, wanted.alpha)
    assert float(wanted.alpha.sum()) > 0
    with pytest.raises(ValueError, match=r"with_origin\(camera.origin\)"):
        draw(mesh, camera)
    with pytest.raises(ValueError, match="one origin"):
        Camera.batch([camera, camera.relative_to(place)])


def test_photos_of_several_sizes_are_laid_into_one(tmp_path):
    """Each with its own lens; what is beside a photo was not seen."""
    rng, frames = np.random.default_rng(0), []
    pixels = [rng.integers(1, 255, (*size, 4)) for size in ((6, 8), (8, 6), (6, 6))]
    for i, values in enumerate(pixels):
        image(tmp_path / f"{i}.png", values)
        height, width = values.shape[:2]
        lens = {"fl_x": 9.0, "cx": width / 2, "cy": height / 2 - 1}
        frames.append({"file_path": f"{i}.png", "transform_matrix": IDENTITY, **lens})
    views = load_views(write(tmp_path, frames), dtype=F64)
    camera = views.camera
    assert views.image_size == (8, 8)
    for i, (rows, columns) in enumerate(camera.region((8, 8))):
        alpha = views.masks[i][rows, columns]
        np.testing.assert_allclose(alpha, pixels[i][..., 3] / 255, atol=1e-7)
        assert float(views.masks[i].sum()) == pytest.approx(float(alpha.sum()))
        height, width = alpha.shape
        k = camera[i].intrinsics((8, 8))[0]
        # The principal point, from the corner of the photo, and the focal length in pixels.
        found = [k[0, 0], k[1, 1], k[0, 2] - columns.start, k[1, 2] - rows.start]
        np.testing.assert_allclose(found, [9, 9, width / 2, height / 2 - 1])
    out = Renderer(8, "heaviside", "max")(icosphere(1).to(F64).scaled(50.0), camera)
    near = Renderer(8, "uniform")(
        icosphere(2).to(F64).translated(torch.tensor([0.0, 0, -3], dtype=F64)), camera
    )
    for alpha in (out.alpha, near.alpha):
        assert float(alpha[~camera.photo((8, 8))].sum()) == 0
    assert (near.alpha[0, 1:6, 3:5] > 0).all()
    save_views(tmp_path / "out", views.masks, camera, rgb=views.rgb)
    again = load_views(tmp_path / "out", dtype=F64)
    torch.testing.assert_close(again.camera.window, camera.window)
    torch.testing.assert_close(again.masks, views.masks)


@pytest.mark.rotating(4, group="long")
@for_each(crop=[False, True], rotating=2)
def test_hulls_of_photos_of_several_sizes(crop):
    """Beside a photo the object goes on, as behind its border."""
    camera = look_at(4.0, torch.arange(8) * 7.0 - 20, torch.arange(8) * 45.0).to(F64)
    whole = ball_masks(camera, (0, 0, 0), 0.5, (40, 40)).to(F64)
    edges = torch.tensor([[-1, -0.7, 1, 0.7], [-0.7, -1, 0.7, 1]] * 4, dtype=F64)
    if crop:  # through the ball, whose outlines the others show
        edges[::4, 2] = 0.1
    views = camera.with_window(edges)
    masks = whole * views.photo(40)
    assert crop == (float(masks.sum()) < float(whole.sum()))
    one, two = (visual_hull(c, m, resolution=48) for c, m in ((camera, whole), (views, masks)))
    assert float(two.volumes / one.volumes) == pytest.approx(1, abs=0.05)


def test_unequal_sizes_are_fine_with_a_size(tmp_path):
    image(tmp_path / "a.png", blob())
    image(tmp_path / "b.png", np.kron(blob(), np.ones((2, 2))))
    frames = [{"file_path": n, "transform_matrix": IDENTITY} for n in ("a.png", "b.png")]
    views = load_views(write(tmp_path, frames, camera_angle_x=0.7), size=(6, 8))
    np.testing.assert_allclose(views.masks[0], views.masks[1])
    np.testing.assert_allclose(views.camera.focal[0], views.camera.focal[1])


def areas(values, size):
    """Means over the pixels centred in each area, from the definition."""
    height, width = values.shape[:2]
    rows = np.ceil((np.arange(height) + 0.5) * size[0] / height) - 1
    columns = np.ceil((np.arange(width) + 0.5) * size[1] / width) - 1
    return np.array(
        [[values[rows == i][:, columns == j].mean((0, 1)) for j in range(size[1])]
         for i in range(size[0])]
    )  # fmt: skip


@for_each(
    size=[(10, 15), (7, 11), (40, 7), (40, 60)],
    kind=["rgba", "jpeg + png", "jpeg + jpeg", "png + 16 bits"],
)
def test_colours_are_masked_before_they_are_averaged(tmp_path, kind, size):
    rng = np.random.default_rng(0)
    color = rng.integers(0, 255, (40, 60, 3)).astype(np.uint8)
    mask = rng.choice([0, 60, 255, 255], (40, 60)).astype(np.uint8)
    photo, own = tmp_path / ("a.jpg" if "jpeg" in kind else "a.png"), tmp_path / "m.png"
    if kind == "jpeg + jpeg":
        own = tmp_path / "m.jpg"
    frame = {"file_path": photo.name, "transform_matrix": IDENTITY, "mask_path": own.name}
    if kind == "rgba":
        del frame["mask_path"]
        image(photo, np.dstack([color, mask]))
    else:
        image(photo, color)
        deep = mask.astype(np.uint16) * 257 if "16" in kind else mask
        Image.fromarray(deep).save(own)
        color = np.asarray(Image.open(photo))
    if kind == "jpeg + jpeg":
        mask = np.asarray(Image.open(own))
    views = load_views(write(tmp_path, [frame], camera_angle_x=0.5), size=size, dtype=F64)
    alpha = mask[..., None] / 255
    assert views.rgb is not None
    np.testing.assert_allclose(views.masks[0], areas(alpha, size)[..., 0], atol=1e-6)
    want = areas(color / 255 * alpha, size)
    np.testing.assert_allclose(views.rgb[0].permute(1, 2, 0), want, atol=1e-6)


def test_images_of_all_modes_are_as_pillow_converts_them(tmp_path):
    rgba = np.random.default_rng(0).integers(0, 255, (500, 700, 4)).astype(np.uint8)  # some bands
    rgba[250:] = 255
    source = Image.fromarray(rgba)
    files = {"la.png": "LA", "pa.png": "P", "p.webp": "RGBA", "rgb.bmp": "RGB", "cmyk.jpg": "CMYK"}
    for name, mode in files.items():
        source.convert(mode).save(tmp_path / name)
        Image.fromarray(rgba[..., 3]).save(tmp_path / "m.png")
        frame = {"file_path": name, "transform_matrix": IDENTITY}
        with Image.open(tmp_path / name) as opened:
            want = np.asarray(opened.convert("RGBA")) / 255
        if mode in ("P", "RGB", "CMYK"):
            frame["mask_path"] = "m.png"
            want[..., 3] = rgba[..., 3] / 255
        said = pytest.warns(UserWarning, match="CMYK, .* their colours are a guess")
        with said if mode == "CMYK" else nullcontext():
            views = load_views(write(tmp_path, [frame], camera_angle_x=0.5))
        assert views.rgb is not None
        np.testing.assert_allclose(views.masks[0], want[..., 3], atol=1e-6, err_msg=name)
        rgb = (want[..., :3] * want[..., 3:]).transpose(2, 0, 1)
        np.testing.assert_allclose(views.rgb[0], rgb, atol=1e-6, err_msg=name)


def test_floating_images_are_cut_to_their_range(tmp_path):
    mask = np.where(blob() > 0, np.float32(3e38), np.float32(-1))
    Image.fromarray(mask).save(tmp_path / "a.tif")
    frame = {"file_path": "a.tif", "mask_path": "a.tif", "transform_matrix": IDENTITY}
    with pytest.warns(UserWarning, match=r"a\.tif holds numbers from -1 to 3e\+38, which are cut"):
        views = load_views(write(tmp_path, [frame], camera_angle_x=0.5), size=3)
    np.testing.assert_allclose(views.masks[0], areas(blob() / 255, (3, 4)))
    assert views.rgb is not None
    np.testing.assert_allclose(views.rgb[0, 0], views.masks[0])


# Red, green and blue in CIE XYZ, relative to D50, as profiles have them.
SRGB = ((0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.71410))
DISPLAY_P3 = ((0.51512, 0.24120, -0.00105), (0.29198, 0.69225, 0.04189), (0.1571, 0.06657, 0.78407))


def profile_of(colors):
    """An ICC profile with the curve of sRGB: Pillow's, with other columns of its matrix."""
    data = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    for k in range(int.from_bytes(data[128:132], "big")):
        name, place, _ = struct.unpack_from(">4sII", data, 132 + 12 * k)
        if name[1:] == b"XYZ":
            fixed = [round(65536 * x) for x in colors[b"rgb".index(name[:1])]]
            struct.pack_into(">3i", data, place + 8, *fixed)
    return bytes(data)


def add_cicp(path, primaries, curve):
    """Put a chunk with the numbers of ITU-T H.273 into a PNG (3rd edition, 11.3.2.6)."""
    add_chunk(path, b"cICP", bytes([primaries, curve, 0, 1]))


def add_chunk(path, name, content):
    data, chunk = path.read_bytes(), name + content
    chunk = struct.pack(">I", len(content)) + chunk + struct.pack(">I", zlib.crc32(chunk))
    path.write_bytes(data[:33] + chunk + data[33:])


def shown(root, name, mask="most.png"):
    """A photo [H, W, 3] and its mask [H, W]; by default all but the first row is the object."""
    with Image.open(root / name) as photo:
        most = np.full(photo.size[::-1], 255)
    most[0] = 0
    image(root / "most.png", most)
    frame = {"file_path": name, "mask_path": mask, "transform_matrix": IDENTITY}
    views = load_views(write(root, [frame], camera_angle_x=0.5))
    return views.rgb[0].permute(1, 2, 0).numpy(), views.masks[0].numpy()


def test_photos_with_a_profile_are_read_as_srgb(tmp_path):
    rgb = np.random.default_rng(0).integers(0, 256, (12, 16, 3)).astype(np.uint8)
    alpha = np.full((12, 16, 1), 255, np.uint8)
    alpha[:2] = 0
    values = rgb / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    linear = (linear @ DISPLAY_P3 @ np.linalg.inv(SRGB)).clip(0, 1)
    want = np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    photo = Image.fromarray(np.concatenate([rgb, alpha], 2))
    keyed = np.where(alpha > 0, rgb | 1, 2)  # a colour is transparent
    few = Image.fromarray(rgb).quantize(8)
    of_few = np.asarray(few.convert("RGB"))
    for profile, wanted in ((profile_of(DISPLAY_P3), want), (profile_of(SRGB), values)):
        photo.save(tmp_path / "a.png", icc_profile=profile)
        photo.save(tmp_path / "a.webp", icc_profile=profile, lossless=True, exact=True)
        key = {"transparency": (2, 2, 2), "icc_profile": profile}
        Image.fromarray(keyed.astype(np.uint8)).save(tmp_path / "key.png", **key)
        few.save(tmp_path / "few.png", icc_profile=profile)
        Image.fromarray(of_few).save(tmp_path / "many.png", icc_profile=profile)
        for name in ("a.png", "a.webp", "key.png"):
            frame = {"file_path": name, "transform_matrix": IDENTITY}
            views = load_views(write(tmp_path, [frame], camera_angle_x=0.5))
            np.testing.assert_array_equal(views.masks[0], alpha[..., 0] / 255)
            off = np.abs(views.rgb[0].permute(1, 2, 0).numpy() - wanted * (alpha > 0))
            assert float(off.max()) < (0.03 if name == "key.png" else 0.006), name
        np.testing.assert_array_equal(*(shown(tmp_path, f"{x}.png")[0] for x in ("few", "many")))
        # A mask is no colour.
        half = np.where(np.arange(16)[:, None] < 8, alpha, alpha // 2)
        Image.fromarray(np.repeat(half, 3, 2)).save(tmp_path / "m.png", icc_profile=profile)
        _, mask = shown(tmp_path, "few.png", "m.png")
        np.testing.assert_allclose(mask, half[..., 0] / 255, atol=1e-6)
    # Without a profile, by the header: a chunk of PNG, the name of Adobe RGB in EXIF data.
    Image.fromarray(rgb).save(tmp_path / "p3.png")
    add_cicp(tmp_path / "p3.png", 12, 13)
    np.testing.assert_allclose(shown(tmp_path, "p3.png")[0][1:], want[1:], atol=0.006)
    note = Image.Exif()
    # cHRM and gAMA of PNG (3rd edition, 11.3.2): Adobe RGB as below, linear light, a power of 1.8.
    srgb = 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000
    adobe = *srgb[:4], 21000, 71000, *srgb[6:]
    for points, gamma, colour, wanted in (
        (adobe, 45455, (110, 160, 90), (78.5, 161.5, 84.7)), (srgb, 45455, (110, 160, 90), None),
        (None, 45000, (9, 60, 250), None),
        (None, 100000, (55, 128, 200), (128.1, 188, 228.6)), (srgb, 100000, (55, 55, 55), (128.1,)),
        (None, 55556, (110, 160, 90), [255 * (1.055 * (c / 255) ** (1.8 / 2.4) - 0.055)
                                       for c in (110, 160, 90)]),
    ):  # fmt: skip
        Image.fromarray(np.full((16, 16, 3), colour, np.uint8)).save(tmp_path / "g.png")
        add_chunk(tmp_path / "g.png", b"gAMA", struct.pack(">I", gamma))
        if points is not None:
            add_chunk(tmp_path / "g.png", b"cHRM", struct.pack(">8I", *points))
        off = 255 * shown(tmp_path, "g.png")[0][8, 8] - (colour if wanted is None else wanted)
        assert np.abs(off).max() <= 1, (gamma, off)
    add_chunk(tmp_path / "g.png", b"sRGB", b"\0")  # which comes first
    np.testing.assert_allclose(255 * shown(tmp_path, "g.png")[0][8, 8], colour, atol=1e-4)
    note[0x8769] = {0xA005: {1: "R03"}}
    flat = np.full((16, 16, 3), (110, 160, 90), np.uint8)
    Image.fromarray(flat).save(tmp_path / "adobe.jpg", exif=note, quality=100, subsampling=0)
    adobe = 255 * shown(tmp_path, "adobe.jpg")[0]
    assert np.abs(adobe[8, 8] - (78.5, 161.5, 84.7)).max() <= 2  # by the matrices of both standards
    Image.fromarray(rgb).save(tmp_path / "a.png", icc_profile=b"no profile")
    np.testing.assert_allclose(shown(tmp_path, "a.png")[0][1:], values[1:], atol=1e-6)


def write_tiff(path, values, **tags):
    """A TIFF of 16 bits, little-endian: grey, or [3, H, W] (TIFF 6.0, section 2)."""
    planes, height, width = values.reshape(-1, *values.shape[-2:]).shape
    head = struct.pack("<3H", 16, 16, 16)
    data = head + values.astype("<u2").tobytes() + head
    strips = struct.pack("<6I", *(14 + 2 * height * width * k for k in range(3)),
                         *[2 * height * width] * 3)  # fmt: skip
    end = 8 + len(data)
    entries = {256: (1, width), 257: (1, height), 258: (1, 16), 259: (1, 1), 262: (1, 1),
               273: (1, 14), 277: (1, planes), 278: (1, height), 279: (1, 2 * height * width),
               **{int(key[1:]): (1, value) for key, value in tags.items()}}  # fmt: skip
    if planes > 1:
        entries |= {258: (3, 8), 262: (1, 2), 273: (3, end), 279: (3, end + 12), 284: (1, 2)}
    rows = [struct.pack("<HHII", key, 3 if key == 258 else 4, *entries[key])
            for key in sorted(entries)]  # fmt: skip
    content = struct.pack("<H", len(rows)) + b"".join(rows) + bytes(4)
    path.write_bytes(b"II*\0" + struct.pack("<I", end + 24) + data + strips + content)


def test_images_that_would_be_read_as_other_numbers(tmp_path):
    """Those that Pillow reads without an error, and wrongly; and what is brighter than white."""
    grey = np.linspace(0, 30000, 48).reshape(6, 8).round()
    write_tiff(tmp_path / "right.tif", grey)
    np.testing.assert_allclose(load_texture(tmp_path / "right.tif")[..., 0], grey / 65535)
    for mode in ("L", "1"):  # `findings/white_is_zero_in_tiff.sh`
        ends = Image.fromarray(np.uint8([[255, 0]])).convert(mode)
        ends.save(tmp_path / "ends.tif", tiffinfo={262: 0})
        np.testing.assert_array_equal(load_texture(tmp_path / "ends.tif")[..., 0], [[1, 0]])
    (tmp_path / "ends.tif").unlink()
    for mode, value in {"LA": (100, 128), "RGBA": (100, 50, 0, 128)}.items():
        Image.new(mode, (2, 1), value).save(path := tmp_path / f"{mode}.tif")
        kind = [struct.pack("<HHIHH", 338, 3, 1, kind, 0) for kind in (2, 1)]  # ExtraSamples
        path.write_bytes(path.read_bytes().replace(*kind))  # `findings/alpha_of_tiff.sh`
        frame = {"file_path": path.name, "transform_matrix": IDENTITY}
        views = load_views(write(tmp_path, [frame], camera_angle_x=0.5))
        assert views.rgb is not None
        np.testing.assert_allclose(views.rgb[0, 0] / views.masks[0], 199 / 255, atol=1e-6)
    write_tiff(tmp_path / "planes.tif", np.stack([grey, 2 * grey, grey]))
    write_tiff(tmp_path / "negative.tif", grey, t262=0)
    write_tiff(tmp_path / "signed.tif", grey, t339=2)
    Image.fromarray(blob()).save(tmp_path / "bright.png")
    add_cicp(tmp_path / "bright.png", 9, 16)  # BT.2100 with the curve PQ
    for name, reason in {
        "planes": "with its colours one after the other", "negative": "with 0 for white",
        "signed": "with signs", "bright": "of high dynamic range",
    }.items():  # fmt: skip
        (path,) = tmp_path.glob(f"{name}.*")
        frame = {"file_path": path.name, "transform_matrix": IDENTITY}
        with pytest.raises(ValueError, match=f"{reason}.*save it as"):
            load_views(write(tmp_path, [frame], camera_angle_x=0.5))
    deep = Image.fromarray(grey.astype(np.uint16))
    deep.save(tmp_path / "clear.png", transparency=0)
    frame = {"file_path": "clear.png", "transform_matrix": IDENTITY}
    views = load_views(write(tmp_path, [frame], camera_angle_x=0.5))
    np.testing.assert_array_equal(views.masks[0], grey > 0)
    assert views.rgb is not None
    np.testing.assert_allclose(views.rgb[0, 1], grey / 65535, atol=1e-6)


def test_masks_that_may_be_labels(tmp_path):
    root = folder(tmp_path, 1)
    for value in (75, 192):  # a label, the grey of a palette
        image(root / "masks/0.png", blob(value=value))
        with pytest.warns(UserWarning, match=rf"reaches {value} of 255 only: .* labels, write 255"):
            views = load_views(root)
        assert float(views.masks.max()) == pytest.approx(value / 255)


def test_memory_holds_no_photo_in_fractions(tmp_path):
    photo = np.zeros((1000, 1500, 4), np.uint8)
    photo[300:700, 300:900] = 255
    frames = [{"file_path": f"{i}.png", "transform_matrix": IDENTITY} for i in range(3)]
    for i in range(3):
        Image.fromarray(photo).save(tmp_path / f"{i}.png", compress_level=1)
    write(tmp_path, frames, camera_angle_x=0.5)
    load_views(tmp_path, size=10)
    tracemalloc.start()  # it counts the arrays, not what Pillow decodes
    try:
        load_views(tmp_path, size=50)
        assert tracemalloc.get_traced_memory()[1] < 15e6  # float32 would be 24e6 for one photo
    finally:
        tracemalloc.stop()


def test_view_sizes_reads_headers_only(tmp_path):
    root = folder(tmp_path)
    image(root / "images" / "1.png", blob(12, 16))
    data = (root / "images" / "1.png").read_bytes()
    (root / "images" / "1.png").write_bytes(data[:45])  # the pixels are missing
    assert view_sizes(root) == [(6, 8), (12, 16)]
    with pytest.raises(ValueError, match=r"1\.png cannot be read"):
        load_views(root, size=6)


def test_the_largest_image_is_set_by_the_caller_not_by_pillow(tmp_path, monkeypatch):
    root = folder(tmp_path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 7)
    assert load_views(root, max_megapixels=48e-6).image_size == (6, 8)
    assert Image.MAX_IMAGE_PIXELS == 7
    words = (
        r"0\.png has 8 x 6 pixels, 4.8e-05 megapixels, and at most 4.7e-05 are read; .*--max-meg"
    )
    for read in (load_views, view_sizes):
        with pytest.raises(ValueError, match=words):
            read(root, max_megapixels=47e-6)
    with pytest.raises(ValueError, match="max_megapixels must be > 0, got nan"):
        load_views(root, max_megapixels=math.nan)
    with pytest.raises(TypeError, match="max_megapixels must be a number, got str"):
        load_views(root, max_megapixels="9")


def test_size_of_the_file_is_that_of_the_image_or_a_multiple(tmp_path):
    image(tmp_path / "a.png", blob(75, 100))
    frame = {"file_path": "a.png", "transform_matrix": IDENTITY}
    want = load_views(write(tmp_path, [frame], fl_x=90.0, w=100, h=75)).camera.focal
    for w, h in ((200, 150), (4032, 3024), (4031, 3023), (50, 38), (200, None), (None, 150)):
        meta = {"fl_x": 0.9 * (w or h / 0.75), "w": w, "h": h}
        focal = load_views(write(tmp_path, [frame], **meta)).camera.focal
        np.testing.assert_allclose(focal, want, rtol=0.02)
    with pytest.raises(ValueError, match=r"frame 0 \(a.png\): the file says w x h = 100 x 80, but "
                       r"a.png has 100 x 75 pixels; intrinsics must be those of"):  # fmt: skip
        load_views(write(tmp_path, [frame], fl_x=90.0, w=100, h=80))
    with pytest.raises(ValueError, match="w must be > 0, got -1"):
        load_views(write(tmp_path, [frame], fl_x=90.0, w=-1))


@for_each(orientation=[5, 6, 7, 8])
def test_orientation_in_exif_data(tmp_path, orientation):
    """Pixels are as stored, unless the lens is that of the turned photo; masks turn to fit."""
    note = Image.Exif()
    note[0x0112] = orientation

    def upright(pixels):
        picture = Image.fromarray(pixels)
        picture.getexif()[0x0112] = orientation
        return np.asarray(ImageOps.exif_transpose(picture))

    stored = np.random.default_rng(4).integers(0, 256, (12, 16, 3)).astype(np.uint8)
    mask = np.zeros((12, 16), np.uint8)
    mask[2:7, 3:13] = 255
    Image.fromarray(stored).save(tmp_path / "a.webp", lossless=True, exif=note)
    (tmp_path / "masks").mkdir()
    frame = {"file_path": "a.webp", "transform_matrix": IDENTITY}
    for of_mask in (upright(mask), mask):
        Image.fromarray(of_mask).save(tmp_path / "masks" / "a.png")
        for lens, pixels, shape in (
            ({}, stored, mask),
            ({"w": 16, "h": 12}, stored, mask),
            ({"w": 12, "h": 16}, upright(stored), upright(mask)),
        ):
            views = load_views(write(tmp_path, [frame], fl_x=20.0, **lens))
            np.testing.assert_array_equal(views.masks[0], shape / 255)
            want = pixels / 255 * (shape / 255)[..., None]
            np.testing.assert_allclose(views.rgb[0].permute(1, 2, 0), want, atol=1e-6)
    Image.fromarray(stored).save(tmp_path / "a.webp")  # which says nothing of an orientation
    with pytest.raises(ValueError, match=r"has 16 x 12 pixels; one of them is turned, and no EXIF"):
        load_views(write(tmp_path, [frame], fl_x=20.0, w=12, h=16))


def test_masks_of_photos_that_exif_data_turn_over(tmp_path):
    """No size tells whether a mask is turned as well, unless it says so."""
    note = Image.Exif()
    note[0x0112] = 3
    (tmp_path / "masks").mkdir()
    pixels = np.arange(144, dtype=np.uint8).reshape(6, 8, 3)
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=note)
    root = write(tmp_path, [{"file_path": "a.png", "transform_matrix": IDENTITY}], fl_x=20.0)
    Image.fromarray(blob()).save(tmp_path / "masks" / "a.png")
    with pytest.warns(UserWarning, match=r"EXIF data turn a.png in a way .* as they are stored"):
        np.testing.assert_array_equal(load_views(root).masks[0], blob() / 255)
    Image.fromarray(blob()).save(tmp_path / "masks" / "a.png", exif=note)
    np.testing.assert_array_equal(load_views(root).masks[0], blob() / 255)


def test_opaque_alpha_channels_of_masks_are_none(tmp_path):
    """Not "everything is object": the mask is what is white."""
    image(tmp_path / "a.png", np.arange(144).reshape(6, 8, 3))
    image(tmp_path / "masks" / "a.png", np.dstack([blob()] * 3 + [np.full((6, 8), 255)]))
    frame = {"file_path": "a.png"}
    frame["transform_matrix"] = (5 * np.array(IDENTITY)).tolist()  # a factor of all numbers
    views = load_views(write(tmp_path, [frame], fl_x=20.0))
    np.testing.assert_array_equal(views.masks[0], blob() / 255)
    assert torch.equal(views.camera.rotation[0].abs(), torch.eye(3))


def test_photos_of_phones_in_heic(tmp_path, monkeypatch):
    heif = pytest.importorskip("pillow_heif")
    heif.register_heif_opener()
    Image.fromarray(blob(64, 48)).convert("RGB").save(tmp_path / "a.hif", format="HEIF", quality=95)
    frame = {"file_path": "a", "transform_matrix": IDENTITY}
    assert load_views(write(tmp_path, [frame], fl_x=20.0)).image_size == (64, 48)
    both = heif.HeifFile()
    for curve in (13, 16):  # the colours of the primary image count alone
        image = Image.fromarray(blob(64, 48)).convert("RGB")
        names = "color_primaries", "transfer_characteristics", "matrix_coefficients"
        image.info["nclx_profile"] = dict(zip(names, (1, curve, 6), strict=True), full_range_flag=1)
        both.add_from_pillow(image)
    for primary in (0, 1):
        both.save(tmp_path / "a.hif", primary_index=primary, save_nclx_profile=True)
        assert (tmp_path / "a.hif").read_bytes().count(b"colrnclx") == 2
        if primary == 0:
            assert load_views(tmp_path).image_size == (64, 48)
    with pytest.raises(ValueError, match=r"a.hif is a photo of high dynamic range"):
        load_views(tmp_path)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(ValueError, match=r"a.hif needs pillow-heif, which is not installed: pip"):
        load_views(tmp_path)


@for_each(size=[(8, 8), (6, 10), (10, 6)], same=[False, True], color=[False, True])
def test_round_trip(tmp_path, color, same, size):
    camera = look_at(3.0, [10.0, 50.0, -20.0], [20.0, 200.0, 300.0], 30.0 if same else [30, 40, 50],
                     at=(10, 20, 30), dtype=F64)  # fmt: skip
    camera = Camera(camera.rotation, camera.translation, camera.focal, [0.1, -0.05])
    alpha = torch.rand(3, *size, dtype=F64).mul(255).round() / 255
    rgb = torch.rand(3, 3, *size, dtype=F64) * alpha[:, None] if color else None
    file = save_views(tmp_path / "new" / "folder", alpha, camera, rgb=rgb)
    views = load_views(file, dtype=F64)
    assert ("fl_x" in json.loads(file.read_text())) == same
    np.testing.assert_allclose(views.masks, alpha, atol=1e-7)
    assert (views.rgb is None) == (rgb is None)
    if rgb is not None and views.rgb is not None:
        np.testing.assert_allclose(views.rgb, rgb, atol=0.5 / 255 + 1e-7)
    for name in ("rotation", "translation", "focal", "principal"):
        np.testing.assert_allclose(getattr(views.camera, name), getattr(camera, name), atol=1e-12)
    part = views[1:]
    assert isinstance(part, Views)
    assert part.names == ("images/001.png", "images/002.png")
    assert torch.equal(views[-1].camera.rotation, views.camera.rotation[-1:])
    assert views[[0, 2]].to(torch.float32).camera.dtype == torch.float32


# -- what is refused ---------------------------------------------------------------------------


def edit(root, **change):
    """Change the transforms file: keys of the file, or `frame` for keys of the second frame."""
    file = root / "transforms.json"
    meta = json.loads(file.read_text())
    meta["frames"][1].update(change.pop("frame", {}))
    meta.update(change)
    file.write_text(json.dumps({k: v for k, v in meta.items() if v is not None}))


def matrix(**entries):
    out = np.eye(4)
    for place, value in entries.items():
        out[int(place[1]), int(place[2])] = value
    return {"transform_matrix": out.tolist()}


def photo(array):
    """The second image is another one."""
    return lambda root: image(root / "images" / "1.png", array)


def masked(array):
    """The second image has a mask of its own."""
    return lambda root: (image(root / "m.png", array), edit(root, frame={"mask_path": "m.png"}))


def text(words):
    """The transforms file is another one."""
    return lambda root: (root / "transforms.json").write_text(words)


def change(**entries):
    return lambda root: edit(root, **entries)


BREAK = {
    "image folder without poses: .* 2 images": lambda r: (r / "transforms.json").unlink(),
    "is no JSON file": text("{"),
    "nested too deeply": text("[" * 100_000),
    "transforms.json is no JSON file: Exceeds": text("[" + "9" * 5000 + "]"),
    "has no frames": change(frames=[]),
    "frame 1 has no file_path": change(frame={"file_path": 3}),
    "no such image: of the 2 photos that it names none": lambda r: [
        (r / "images" / f"{i}.png").unlink() for i in range(2)
    ],
    "1.png is no readable image": lambda r: (r / "images" / "1.png").write_text("hello"),
    r"frame 1 .*must be 4 x 4 numbers, got shape \[2, 2\]": change(
        frame={"transform_matrix": [[1, 0], [0, 1]]}
    ),
    "must be 4 x 4 numbers": change(frame={"transform_matrix": "none"}),
    r"must be 4 x 4 numbers, got shape \[\]": change(
        frame={"transform_matrix": [[10**400] * 4] * 4}
    ),
    "transform_matrix holds NaN": change(frame=matrix(m03=float("nan"))),
    "last row of transform_matrix must be 0 0 0 1, got 1 0 0 1": change(frame=matrix(m30=1.0)),
    "stands there, so it is to be transposed": change(
        frame={"transform_matrix": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 4, 1]]}
    ),
    "its axes have the length 2.5: divide the left": change(
        frame={"transform_matrix": (np.eye(4) * [2.5, 2.5, 2.5, 1]).tolist()}
    ),
    "not a rotation and translation": change(frame=matrix(m00=1.1)),
    "transform_matrix is a mirror .* left-handed": change(frame=matrix(m22=-1)),
    "no intrinsics": change(camera_angle_x=None),
    r"x_fov must be in \(0, 180\) degrees, got 200": change(x_fov=200.0),
    "the axes of from_mitsuba are not read": change(from_mitsuba=True),
    "axes of from_mitsuba are not read; write": change(normal_mts_args=[{"width": 8}]),
    r"camera_angle_x must be in \(0, pi\) radians, got 50": change(camera_angle_x=50),
    "fl_x must be a finite number, got '9'": change(fl_x="9"),
    "fl_x must be a finite number, got 9{40}": change(fl_x=10**400 - 1),
    "must be > 0, got -4": change(fl_x=-4),
    r"bends the photo so much .* k1 = 0.1": change(fl_x=100.0, w=800, h=600, k1=0.1),
    "the kind THIN_PRISM_FISHEYE are not supp": change(camera_model="THIN_PRISM_FISHEYE"),
    r"\(p1\) .* a fisheye lens, which may have k1, k2, k3, k4": change(is_fisheye=True, p1=0.1),
    "no mask: 1.png has no alpha channel": photo(np.arange(144).reshape(6, 8, 3)),
    "every image is opaque": lambda r: [
        image(r / "images" / f"{i}.png", np.full((6, 8, 4), 255)) for i in range(2)
    ],
    "1.png has an alpha channel that is opaque and is not grey": photo(
        np.dstack([np.arange(144).reshape(6, 8, 3), np.full((6, 8), 255)])
    ),
    "no mask for .*1.png in .*masks": lambda r: image(r / "masks" / "0.png", blob()),
    "as large as their image, got 7 x 6 in .*m.png and 8 x 6 in .*1.png": masked(blob(6, 7)),
    "a mask must be grey": masked(np.arange(144).reshape(6, 8, 3)),
    r"1 of 2 masks are empty \(images/1.png\); mend": photo(blob(value=0)),
    "only 0 and 1 of 255": photo(blob(value=1)),
}


@for_each(words=BREAK)
def test_bad_folders_are_named_in_one_line(tmp_path, words):
    root = folder(tmp_path)
    load_views(root)
    BREAK[words](root)
    with pytest.raises(ValueError, match=words) as caught:
        load_views(root)
    assert "\n" not in str(caught.value)


def test_other_bad_arguments(tmp_path):
    root = folder(tmp_path)
    camera, mask = look_at(2.0, 0.0, [0.0, 1.0]), torch.rand(2, 4, 4)
    parallel = look_at(2.0, 0, 0, orthographic=True)
    for call, error, words in (
        (lambda: load_views(root / "nowhere"), ValueError, "nowhere does not exist"),
        (lambda: load_views(root, size=0), ValueError, "size must be >= 1"),
        (lambda: load_views(root, dtype=torch.float16), TypeError, "float32 or float64"),
        (lambda: save_views(root, mask[:1], parallel), ValueError, "no camera matrix"),
        (lambda: save_views(root, mask[[0, 1, 0]], camera), ValueError, "do not broadcast"),
        (lambda: save_views(root, mask, camera, names="aa"), ValueError, "names must be 2"),
        (lambda: save_views(root, mask, camera, rgb=mask), ValueError, "rgb must have shape"),
    ):
        with pytest.raises(error, match=words):
            call()


BENT = {
    **dict.fromkeys(("k4", "k5", "k6"), (0.3, 0.0)),
    **dict.fromkeys(("tx", "ty", "b1", "b2", "sx1", "sy1", "omega"), (0.3, 0.0)),
    "distortion_params": ([0, 0, 0, 0.1], [0, 0, 0, 0]),
    "distortion_coefficients": ([[0.1]], [[0]]),
    "camera_model": ("THIN_PRISM_FISHEYE", "opencv"),
    "p3": (0.1, 0),
    "D": ([0.1, 0, 0, 0], [0.0] * 4),
    "ftheta_p0": (0.1, None),
    "latlong": (True, False),
    "orthographic": (True, False),
    "equirectangular": (True, False),
}


def test_no_unknown_lens_is_taken_for_a_pinhole(tmp_path):
    """Whatever NeRF tools call it, for all frames or for one."""
    root = folder(tmp_path, fl_x=6.0)
    for key, (bent, straight) in BENT.items():
        edit(root, **{key: straight})
        load_views(root)
        edit(root, frame={key: bent})
        with pytest.raises(ValueError, match=r"undistort the images first|they look all around"):
            load_views(root)
        edit(root, frame={key: None}, **{key: bent})
        with pytest.raises(ValueError, match=r"undistort the images first|they look all around"):
            load_views(root)
        root = folder(tmp_path, fl_x=6.0)
    views = load_views(folder(tmp_path, fl_x=10.0, k1=1e-3, k2=-1e-4, p1=0.0))  # invisible
    np.testing.assert_allclose(views.camera.focal, 20 / 6, rtol=1e-6)


# -- where the object is -----------------------------------------------------------------------


@for_each(unit=[1.0, 100.0], orthographic=[False, True])
def test_visual_sphere_finds_a_ball_far_from_the_origin(unit, orthographic):
    about = np.array([30.0, -7.0, 12.0]) * unit
    camera = look_at(3.0 * unit, [30.0, -10.0, 60.0, 0.0], [0.0, 100.0, 200.0, 300.0], 40.0,
                     at=about, orthographic=orthographic, dtype=F64)  # fmt: skip
    centre = about + np.array([0.35, 0.2, -0.3]) * unit  # well off the optical axes
    masks = ball_masks(camera, centre, 0.4 * unit, (40, 56))
    found, radius = visual_sphere(camera, masks)
    np.testing.assert_allclose(found, centre, atol=2e-3 * unit)
    assert float(radius) == pytest.approx(0.4 * unit, rel=5e-3)


def test_visual_sphere_distrusts_cut_masks():
    camera = look_at(3.0, 20.0, [0.0, 60.0, 120.0, 180.0, 240.0], 40.0, dtype=F64)
    masks = ball_masks(camera, (0, 0, 0), 0.4, (32, 32))
    closer = look_at(1.0, 20.0, [200.0, 330.0], 40.0, at=(0.1, 0.1, 0), dtype=F64)
    both = Camera.batch([camera, closer])
    cut = ball_masks(closer, (0, 0, 0), 0.4, (32, 32))
    border = torch.cat([cut[:, [0, -1]].flatten(1), cut[:, :, [0, -1]].flatten(1)], 1)
    assert (border.sum(1) > 5).all()
    noise = torch.rand(7, 32, 32, dtype=F64) * 0.05
    found, radius = visual_sphere(both, torch.maximum(torch.cat([masks, cut]), noise))
    np.testing.assert_allclose(found, [0, 0, 0], atol=0.02)
    assert float(radius) == pytest.approx(0.4, rel=0.03)
    found, radius = visual_sphere(closer, cut)
    np.testing.assert_allclose(found, [0, 0, 0], atol=0.15)
    assert 0.25 < float(radius) < 0.45
    _, radius = visual_sphere(both[3:], torch.cat([masks[3:], cut]))  # half of them cut
    assert float(radius) == pytest.approx(0.4, rel=0.03)
    # Frames that do not show the object say nothing about it.
    found, radius = visual_sphere(both, torch.cat([masks, 0 * cut]))
    np.testing.assert_allclose(found, [0, 0, 0], atol=2e-3)


def test_visual_sphere_names_the_camera_that_is_wrong():
    camera = look_at(2.7, 20.0, torch.arange(6) * 60.0)
    mask = torch.zeros(16, 16)
    mask[4:12, 5:11] = 1
    masks = mask.repeat(6, 1, 1)
    for away in ([0.0, 0.0, 1e30], [1e30, 0.0, 0.0], [1e30] * 3):
        moved = camera.translation.clone()
        moved[2] = torch.tensor(away)
        far = camera.with_tensors(camera.rotation, moved, camera.focal, camera.principal)
        with pytest.raises(ValueError, match=r"camera 2 is 1.*e\+30 away from the others"):
            visual_sphere(far, masks)
    same = camera[[0] * 6]
    point = torch.zeros(6, 16, 16)
    point[:, 8, 8] = 1
    for cameras in (same, look_at(2.7, 0.0, torch.zeros(6), orthographic=True)):
        with pytest.raises(ValueError, match="all 6 masks are empty or of one pixel"):
            visual_sphere(cameras, point)
    masks[3:] = masks[3:].roll(6, 2)
    with pytest.raises(ValueError, match="all 6 cameras are at one place"):
        visual_sphere(same, masks)


def test_visual_sphere_without_parallax_fills_the_mask():
    for count in (1, 3):
        camera = look_at(5.0, 10.0, 20.0, dtype=F64).expand(count)
        masks = ball_masks(camera, (0.2, 0.1, 0), 0.6, (32, 32))
        centre, radius = visual_sphere(camera, masks)
        assert float(radius) == pytest.approx(1, rel=1e-6)
        again = ball_masks(camera, centre, float(radius), (32, 32))
        assert float((again - masks).abs().mean()) < 5e-3
    camera = look_at(5.0, 10.0, 20.0, orthographic=True, dtype=F64)
    masks = ball_masks(camera, (0.2, 0.1, 0), 0.6, (32, 32))
    centre, radius = visual_sphere(camera, masks)
    assert float(radius) == pytest.approx(0.6, rel=5e-3)
    assert float((ball_masks(camera, centre, float(radius), (32, 32)) - masks).abs().mean()) < 5e-3
    # Front and back: the lines coincide, the object is between them.
    camera = look_at(5.0, 0.0, [0.0, 180.0], at=(1, 2, 3), dtype=F64)
    centre, radius = visual_sphere(camera, ball_masks(camera, (1, 2, 3), 0.6, (32, 32)))
    np.testing.assert_allclose(centre, [1, 2, 3], atol=1e-6)
    assert float(radius) == pytest.approx(0.6, rel=5e-3)


def test_visual_sphere_names_a_wrong_convention():
    camera = look_at(3.0, 20.0, [0.0, 60.0, 120.0], dtype=F64)
    masks = ball_masks(camera, (0, 0, 0), 0.4, (32, 32))
    pose = camera.camera_to_world.clone()
    pose[:, :3, 1:3] *= -1  # OpenCV's axes in a file that should hold OpenGL's
    wrong = Camera.from_opengl(camera_to_world=pose)
    with pytest.raises(ValueError, match="behind the cameras; is transform_matrix"):
        visual_sphere(wrong, masks)
    with pytest.raises(ValueError, match="all 3 masks are empty"):
        visual_sphere(camera, masks * 0)
    with pytest.raises(ValueError, match="masks must have shape"):
        visual_sphere(camera, masks[0])


@for_each(quarters=[(0, 1), (3, 2), (1, 1)], size=[(24, 31), (40, 40)], windows=[False, True])
def test_views_as_people_see_them(quarters, size, windows):
    """The mesh, seen by the cameras of turned images, is what these show, wherever it lies."""
    mesh, camera = icosphere(1).scaled(torch.tensor(0.4)), look_at(3.0, [10.0, 40.0], [0.0, 100.0])
    mesh = mesh.with_vertices(mesh.vertices * torch.tensor([1.0, 0.5, 0.2]) + 0.2)
    if windows:
        (h, w), short = size, min(size)
        edges = torch.tensor([[4 - w, -h, w - 2, h - 6], [-w, 2 - h, w - 8, h]])
        camera = camera.with_window(edges / short)
    masks = Renderer(size, "heaviside", "max")(mesh, camera).alpha
    rgb = masks[:, None] * torch.rand(2, 3, *size, generator=torch.Generator().manual_seed(0))
    views = Views(masks, rgb, camera, ("a", "b"), quarters)
    shown = views.upright()
    assert shown.image_size == (max(size),) * 2
    assert shown.upright() is shown
    seen = Renderer(shown.image_size, "heaviside", "max")(mesh, shown.camera).alpha
    assert float((seen - shown.masks).abs().mean()) < 1e-3
    for i, (rows, columns) in enumerate(shown.camera.region(shown.image_size)):
        own = views.camera.region(size)[i]
        turned = np.rot90(rgb[i][(slice(None), *own)].numpy(), -quarters[i], (1, 2))
        assert np.array_equal(shown.rgb[i, :, rows, columns].numpy(), turned)
    assert views[[1]].quarters == views.to(torch.float64)[1].quarters == quarters[1:]
