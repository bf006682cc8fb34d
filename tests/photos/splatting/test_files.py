"""Files of splats: our own, Gaussians in PLY read here by numpy, and GLB read by trimesh."""

import json
import struct

import numpy as np
import pytest
import torch

from gendr.mesh import icosphere
from gendr.photos.splatting import Look, Splats, colors_of, from_cloud, read_cloud
from support.cases import for_each

F64 = torch.float64


def made(count=6, degree=2, **changes):
    source = torch.Generator().manual_seed(3)

    def rand(*shape):
        return torch.rand(*shape, dtype=F64, generator=source)

    given = {
        "vertices": rand(count, 3, 3),
        "harmonics": rand(count, (degree + 1) ** 2, 3) - 0.5,
        "opacity": torch.linspace(0.1, 1, count, dtype=F64),
        "scale": 0.2 + rand(count),
    }
    return Splats(**{**given, **changes})


@for_each(
    settings=[
        {},
        {
            "dist": "gamma(shape=0.5).reversed.shifted(0.1)",
            "shape": torch.full((6,), 0.7, dtype=F64),
            "tconorm": "yager(p=1.5)",
            "unit": "px",
            "cutoff": 1e-3,
            "background": torch.tensor([0.1, 0.2, 0.3], dtype=F64),
        },
    ],
    dtype=[torch.float32, F64],
)
def test_our_file_keeps_everything(settings, dtype, tmp_path):
    splats = made(**settings).to(dtype)
    splats.save(tmp_path / "a.npz")
    found = Splats.load(tmp_path / "a.npz")
    for name in ("vertices", "harmonics", "opacity", "scale", "shape", "background"):
        want, value = getattr(splats, name), getattr(found, name)
        assert (want is None) == (value is None)
        assert want is None or (torch.equal(want, value) and want.dtype == value.dtype)
    for name in ("dist", "tconorm", "unit", "cutoff"):
        assert str(getattr(found, name)) == str(getattr(splats, name))


def broken(path, change):
    """A file of splats in which an array is replaced, or left out if it is None."""
    made().save(path)
    with np.load(path) as arrays:
        given = dict(arrays)
    for name, value in change.items():
        if value is None:
            del given[name]
        else:
            given[name] = value
    np.savez(path, **given)


def about(**changes):
    text = {"format": "gendr splats 1", "dist": "uniform", "tconorm": "max", "unit": "px"}
    return np.frombuffer(json.dumps({**text, "cutoff": 0.0, **changes}).encode(), np.uint8)


@for_each(
    case=[
        ({"about": None}, "holds no splats"),
        ({"about": np.frombuffer(b"[]", np.uint8)}, "holds no splats"),
        ({"about": about(format="gendr splats 9")}, "has the format 'gendr splats 9'"),
        ({"about": about(dist="nothing")}, "damaged ones: unknown distribution"),
        ({"about": about(more=1)}, "damaged ones"),
        ({"scale": None}, "damaged ones"),
        ({"background": np.array([np.nan, 0.5, 1])}, "damaged ones: background must be finite"),
        ({"background": np.array([-0.38, 0.5, 1])}, r"damaged ones: background must .*-0\.38"),
        ({"scale": np.zeros(6)}, "damaged ones: scale must be > 0"),
        ({"vertices": np.zeros((6, 3, 3), np.int32)}, "damaged ones: vertices must be float32"),
        ({"vertices": np.zeros((6, 3, 3), "S3")}, "damaged ones"),
    ]
)
def test_broken_files(case, tmp_path):
    change, words = case
    broken(tmp_path / "a.npz", change)
    with pytest.raises(ValueError, match=words):
        Splats.load(tmp_path / "a.npz")


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="there are no splats at"):
        Splats.load(tmp_path / "a.npz")
    (tmp_path / "a.npz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="is not a complete npz file"):
        Splats.load(tmp_path / "a.npz")
    (tmp_path / "a.usda").write_text("#usda 1.0")
    with pytest.raises(ValueError, match=r"no file of splats that is read .*; splat-transform"):
        Splats.load(tmp_path / "a.usda")
    names = ("x", "y", "z", "f_anchor_feat_0", "opacity",  # Scaffold-GS and its kin
             *(f"scale_{i}" for i in range(6)), *(f"rot_{i}" for i in range(4)))  # fmt: skip
    head = "".join(f"property float {name}\n" for name in names)
    head = f"ply\nformat ascii 1.0\nelement vertex 1\n{head}end_header\n"
    (tmp_path / "a.ply").write_text(head + " ".join("1" * len(names)) + "\n")
    with pytest.raises(ValueError, match="lack f_dc_0 f_dc_1 f_dc_2: a network makes its colours"):
        Splats.load(tmp_path / "a.ply")
    with pytest.raises(ValueError, match=r"must end in .npz; got the extension '.ply'"):
        made().save(tmp_path / "a.ply")
    with pytest.raises(ValueError, match=r"cannot read the distribution|unknown distribution"):
        made(dist=lambda z: torch.sigmoid(z)).save(tmp_path / "a.npz")


def read_ply(path):
    """The table of a binary PLY file of floats, by what its header says."""
    head, _, body = path.read_bytes().partition(b"end_header\n")
    lines = head.decode().splitlines()
    assert lines[:2] == ["ply", "format binary_little_endian 1.0"]
    (count,) = (int(line.split()[2]) for line in lines if line.startswith("element vertex"))
    names = [line.split()[2] for line in lines if line.startswith("property float")]
    table = np.frombuffer(body, "<f4").reshape(count, len(names))
    return dict(zip(names, table.T.astype(np.float64), strict=True))


def gaussians(table):
    """Mean [N, 3], covariance [N, 3, 3] and the integral of opacity in the plane [N]."""
    mean = np.stack([table[c] for c in "xyz"], 1)
    w, x, y, z = (table[f"rot_{i}"] for i in range(4))
    rotation = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    ).transpose(2, 0, 1)
    scale = np.exp(np.stack([table[f"scale_{i}"] for i in range(3)], 1))
    opacity = 1 / (1 + np.exp(-table["opacity"]))
    spread = rotation * scale[:, None] ** 2 @ rotation.transpose(0, 2, 1)
    return mean, spread, opacity * 2 * np.pi * scale[:, 1] * scale[:, 2]


def moments(corners, opacity, scale, window):
    """Of one window over a plane triangle [3, 2], by a sum over a grid."""
    sides = np.linalg.norm(np.roll(corners, -1, 0) - np.roll(corners, 1, 0), axis=1)
    u, v = corners[1] - corners[0], corners[2] - corners[0]
    inradius = abs(u[0] * v[1] - u[1] * v[0]) / sides.sum()
    centre = corners.mean(0)
    ticks = np.linspace(-1.5, 1.5, 801) * sides.max()
    points = centre + np.stack(np.meshgrid(ticks, ticks), -1).reshape(-1, 2)
    turn = np.sign(u[0] * v[1] - u[1] * v[0])
    lines, segments = np.full(len(points), np.inf), np.full(len(points), np.inf)
    for i in range(3):
        a, b = corners[i], corners[(i + 1) % 3]
        e, to = (b - a) / np.linalg.norm(b - a), points - a
        lines = np.minimum(lines, turn * (e[0] * to[:, 1] - e[1] * to[:, 0]))
        foot = (to @ e).clip(0, np.linalg.norm(b - a))[:, None] * e
        segments = np.minimum(segments, np.linalg.norm(to - foot, axis=1))
    d = np.where(lines > 0, lines, -segments)
    weight = opacity * window(d / (scale * inradius))
    mean = weight @ points / weight.sum()
    away = points - mean
    spread = (weight[:, None] * away).T @ away / weight.sum()
    return mean, spread, weight.sum() * (ticks[1] - ticks[0]) ** 2


@pytest.mark.rotating(4, group="long")
@for_each(
    case=[
        ("uniform", 0.8, lambda z: ((z + 1) / 2).clip(0, 1)),
        ("uniform", 2.0, lambda z: ((z + 1) / 2).clip(0, 1)),
        ("cubic_hermite", 0.3, lambda z: np.where(abs(z) < 1, (2 + 3 * z - z**3) / 4, z > 0)),
        ("uniform.squared", 0.5, lambda z: ((z * abs(z) * 0.5 + 1) / 2).clip(0, 1)),
        ("heaviside", 1.0, lambda z: (z > 0).astype(float)),
    ]
)
def test_gaussians_have_the_moments_of_their_windows(case, tmp_path):
    dist, scale, window = case
    flat = np.array([[0.0, 0.0], [1.0, 0.1], [0.3, 0.6]])
    corners = torch.tensor(np.c_[flat, np.full(3, 2.0)])[None].repeat(2, 1, 1)
    corners[1] = corners[1][:, [2, 0, 1]]  # the same in another plane
    made(
        2, vertices=corners, opacity=torch.full((2,), 0.2, dtype=F64),
        scale=torch.full((2,), scale, dtype=F64), dist=dist,
    ).to_ply(tmp_path / "a.ply")  # fmt: skip
    mean, spread, mass = gaussians(read_ply(tmp_path / "a.ply"))
    want_mean, want_spread, want_mass = moments(flat, 0.2, scale, window)
    np.testing.assert_allclose(mean, [[*want_mean, 2], [2, *want_mean]], atol=2e-3)
    np.testing.assert_allclose(mass, [want_mass] * 2, rtol=0.01)
    for i, axes in enumerate(([0, 1], [1, 2])):
        np.testing.assert_allclose(spread[i][np.ix_(axes, axes)], want_spread, atol=1e-3)
        other = 2 if i == 0 else 0
        assert spread[i][other, other] < 1e-5


def test_ply_has_the_names_and_the_order_of_published_splats(tmp_path):
    splats = made(degree=1)
    splats.to_ply(tmp_path / "a.ply")
    table = read_ply(tmp_path / "a.ply")
    rest = [f"f_rest_{i}" for i in range(45)]  # also of degree 1, as older viewers want
    assert list(table) == [
        "x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2", *rest, "opacity",
        "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3",
    ]  # fmt: skip
    h = splats.harmonics.numpy()
    np.testing.assert_allclose(table["f_dc_1"], h[:, 0, 1], atol=1e-6)
    np.testing.assert_allclose(table["f_rest_1"], h[:, 2, 0], atol=1e-6)  # all of red first
    np.testing.assert_allclose(table["f_rest_15"], h[:, 1, 1], atol=1e-6)
    assert not any(table[f"f_rest_{i}"].any() for i in (3, 14, 18, 44))
    assert np.isfinite(np.stack(list(table.values()))).all()
    flat = made(2, vertices=torch.ones(2, 3, 3, dtype=F64))
    flat.to_ply(tmp_path / "b.ply")  # without area
    assert np.isfinite(np.stack(list(read_ply(tmp_path / "b.ply").values()))).all()
    shaped = made(dist="gamma", shape=torch.full((6,), 2.0, dtype=F64))
    shaped.to_ply(tmp_path / "c.ply")
    made(dist="gamma(shape=2.0)").to_ply(tmp_path / "d.ply")
    assert (tmp_path / "c.ply").read_bytes() == (tmp_path / "d.ply").read_bytes()


@for_each(dist=["uniform", "heaviside", "cubic_hermite"], degree=[0, 1, 3])
def test_gaussians_of_a_file_start_triangles_of_their_moments(dist, degree, tmp_path):
    """Written again, they are those of the file: mean, integral, colours; nearly the covariance."""
    made(20, opacity=torch.linspace(0.05, 0.2, 20, dtype=F64)).to_ply(tmp_path / "a.ply")
    cloud = read_cloud(tmp_path / "a.ply")
    triangles = from_cloud(cloud, look=Look(dist=dist, degree=degree))
    triangles.to_ply(tmp_path / "b.ply")
    given, found = read_ply(tmp_path / "a.ply"), read_ply(tmp_path / "b.ply")
    (mean, spread, mass), (mean_, spread_, mass_) = gaussians(given), gaussians(found)
    np.testing.assert_allclose(mean_, mean, atol=1e-5)
    np.testing.assert_allclose(mass_, mass, rtol=0.05)
    np.testing.assert_allclose(np.trace(spread_, 0, 1, 2), np.trace(spread, 0, 1, 2), rtol=1e-3)
    assert np.abs(spread_ - spread).max() < 0.1 * np.abs(spread).max()
    kept = (degree + 1) ** 2 - 1
    for i in range(45):
        want = given[f"f_rest_{i}"] if i % 15 < kept else 0
        np.testing.assert_allclose(found[f"f_rest_{i}"], want, atol=1e-6)
    np.testing.assert_allclose(found["f_dc_2"], given["f_dc_2"], atol=1e-6)
    few = from_cloud(cloud, 5, look=Look(dist=dist, degree=degree))
    middle = triangles.vertices.mean(1)
    same = torch.cdist(few.vertices.mean(1), middle).argmin(
        1
    )  # enlarged, as a fourth stands for all
    assert len(set(same.tolist())) == 5
    few.to_ply(tmp_path / "b.ply")
    _, wide, _ = gaussians(read_ply(tmp_path / "b.ply"))
    want = 4 * np.trace(spread_, 0, 1, 2)[same]
    np.testing.assert_allclose(np.trace(wide, 0, 1, 2), want, rtol=1e-3)


def test_points_of_a_file_start_triangles_of_their_colors(tmp_path):
    head = "ply\nformat ascii 1.0\nelement vertex 3\n"
    head += "".join(f"property float {n}\n" for n in ("x", "y", "z", "red", "green", "blue"))
    body = "0 0 0 255 0 0\n1 0 0 0 255 0\n0 1 0 0 0 255\n"
    (tmp_path / "a.ply").write_text(head + "end_header\n" + body)
    cloud = read_cloud(tmp_path / "a.ply")
    splats = from_cloud(cloud, look=Look(degree=0))
    torch.testing.assert_close(colors_of(splats.harmonics, torch.eye(3)), torch.eye(3))
    torch.testing.assert_close(splats.vertices.mean(1)[:, :2], torch.eye(3)[[2, 0, 1], :2])
    (tmp_path / "a.ply").write_text(head + "end_header\n" + body.replace("1 0 0 0", "nan 0 0 0"))
    with pytest.raises(ValueError, match="needs points with finite coordinates"):
        read_cloud(tmp_path / "a.ply")
    icosphere(0).save(tmp_path / "a.ply")
    assert read_cloud(tmp_path / "a.ply") is None


def test_glb_of_opaque_triangles(tmp_path):
    import trimesh

    splats = made().to(torch.float32)
    mesh = splats.to_mesh(0.6)
    kept = splats.opacity >= 0.6
    assert torch.equal(mesh.vertices, splats.vertices[kept].reshape(-1, 3))
    colors = (0.5 + 0.28209479177387814 * splats.harmonics[kept, 0]).clamp(0, 1)
    torch.testing.assert_close(mesh.face_colors, colors)
    assert mesh.unlit
    mesh.save(tmp_path / "a.glb")
    scene = trimesh.load_scene(tmp_path / "a.glb", process=False)
    (found,) = scene.geometry.values()
    assert len(found.faces) == int(kept.sum())
    np.testing.assert_allclose(
        found.vertices[found.faces] + scene.graph[scene.graph.nodes_geometry[0]][0][:3, 3],
        splats.vertices[kept].numpy(),
        atol=1e-6,
    )
    seen = found.visual.vertex_attributes["color"][found.faces[:, 0], :3]
    back = np.where(seen <= 0.0031308, 12.92 * seen, 1.055 * seen ** (1 / 2.4) - 0.055)
    np.testing.assert_allclose(back, colors.numpy(), atol=1e-6)
    data = (tmp_path / "a.glb").read_bytes()
    (length,) = struct.unpack("<I", data[12:16])
    (material,) = json.loads(data[20 : 20 + length])["materials"]
    assert material["doubleSided"]
    assert "KHR_materials_unlit" in material["extensions"]
    with pytest.raises(ValueError, match=r"none of the 6 .* has an opacity of 1\.1 or more"):
        splats.to_mesh(1.1)
