"""Files of Gaussians, made here byte by byte by the formulas of their formats."""

import gzip
import io
import json
import struct
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.spatial.transform import Rotation

from gendr.photos.splatting import Splats, colors_of, read_cloud
from support.cases import for_each

C0 = 0.28209479177387814
REST = (0, 3, 8, 15, 24)
# The beginning of the extension of .spz that names its axes.
RECORD = struct.pack("<II", 0xADBE0003, 4)
NAMES = ("points", "harmonics", "opacity", "sizes", "turns")


def values(count=5, degree=3, seed=0):
    """Points, harmonics, opacity, logarithms of sizes, quaternions w, x, y, z."""
    source = np.random.default_rng(seed)
    turns = source.normal(size=(count, 4))
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    return (
        source.normal(size=(count, 3)), source.uniform(-1, 1, (count, 1 + REST[degree], 3)),
        source.uniform(0.05, 0.95, count), source.uniform(-5, -1, (count, 3)), turns,
    )  # fmt: skip


def columns(points, harmonics, opacity, logs, turns):
    """What 3D Gaussian Splatting writes, by name."""
    rest = harmonics[:, 1:].transpose(0, 2, 1).reshape(len(points), -1)
    table = {c: points[:, i] for i, c in enumerate("xyz")}
    table |= {f"f_dc_{i}": harmonics[:, 0, i] for i in range(3)}
    table |= {f"f_rest_{i}": column for i, column in enumerate(rest.T)}
    table |= {"opacity": np.log(opacity / (1 - opacity))}
    table |= {f"scale_{i}": logs[:, i] for i in range(3)}
    return table | {f"rot_{i}": turns[:, i] for i in range(4)}


def ply(table, form="binary_little_endian", kinds=None, name="vertex"):
    """A PLY file, or, of another name than vertex, an element of one."""
    count = len(next(iter(table.values())))
    kinds = {key: "float" for key in table} | (kinds or {})
    code = {"float": "f4", "double": "f8", "uint": "u4", "uchar": "u1"}
    head = f"element {name} {count}\n" + "".join(f"property {kinds[k]} {k}\n" for k in table)
    if form == "ascii":
        rows = zip(*table.values(), strict=True)
        body = "".join(" ".join(repr(float(v)) for v in row) + "\n" for row in rows).encode()
    else:
        order = ">" if "big" in form else "<"
        rows = np.zeros(count, [(k, order + code[kinds[k]]) for k in table])
        for key, column in table.items():
            rows[key] = column
        body = rows.tobytes()
    return head, body


def whole(*parts, form="binary_little_endian"):
    heads, bodies = zip(*parts, strict=True)
    return f"ply\nformat {form} 1.0\n{''.join(heads)}end_header\n".encode() + b"".join(bodies)


def close(cloud, want, **tolerances):
    """The Gaussians of a cloud are those wanted, quaternions up to their sign."""
    points, harmonics, opacity, logs, turns = want
    sign = np.sign((cloud.turns * turns).sum(1, keepdims=True))
    found = (cloud.points, cloud.harmonics, cloud.opacity, np.log(cloud.sizes), cloud.turns * sign)
    for name, a, b in zip(NAMES, found, (points, harmonics, opacity, logs, turns), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerances.get(name, 2e-6), err_msg=name)


@for_each(
    degree=[0, 1, 2, 3],
    form=["binary_little_endian", "binary_big_endian", "ascii"],
    order=[1, -1],
)
def test_ply_of_any_degree_order_and_form(degree, form, order, tmp_path):
    want = values(degree=degree)
    table = columns(*want) | {"nx": np.zeros(5), "label": np.arange(5)}
    table = dict(list(table.items())[::order])
    path = tmp_path / "a.bin"  # the name does not matter
    path.write_bytes(whole(ply(table, form, {"label": "uchar", "x": "double"}), form=form))
    unused = "its vertex label is not used"
    with pytest.warns(UserWarning, match=unused):
        cloud = read_cloud(path)
    close(cloud, want)
    assert cloud.points.dtype == np.float64  # of doubles
    with pytest.warns(UserWarning, match=unused):
        splats = Splats.load(path)
    assert len(splats) == 5
    assert splats.degree == degree


def test_siblings_of_ply(tmp_path):
    points, harmonics, opacity, logs, turns = want = values(degree=4)
    path, table = tmp_path / "a.ply", columns(*want)
    path.write_bytes(whole(ply(table)))
    with pytest.warns(UserWarning, match="harmonics of degree 4 are not used"):
        close(read_cloud(path), (points, harmonics[:, :16], opacity, logs, turns))
    flat = {k: v for k, v in table.items() if not k.startswith(("f_rest", "scale_2"))}
    path.write_bytes(whole(ply(flat)))  # of 2D Gaussian Splatting
    assert (read_cloud(path).sizes[:, 2] == 0).all()
    colored = {k: v for k, v in flat.items() if not k.startswith("f_dc")}
    rgb = {c: [255, 0, 51, 102, 204] for c in ("red", "green", "blue")}
    path.write_bytes(whole(ply(colored | rgb, kinds=dict.fromkeys(rgb, "uchar"))))
    rgb = np.array(rgb["red"])[:, None].repeat(3, 1) / 255
    np.testing.assert_allclose(read_cloud(path).harmonics[:, 0], (rgb - 0.5) / C0, atol=1e-6)
    # Mip-Splatting: sizes s become (s^2 + f^2)^(1/2), and the integral of the opacity stays.
    filters = np.array([0, 0.01, 0.1, 1, 10])
    path.write_bytes(whole(ply({k: v for k, v in table.items() if "rest" not in k}
                               | {"filter_3D": filters})))  # fmt: skip
    squares = np.exp(2 * logs)
    wide = np.sqrt(squares + filters[:, None] ** 2)
    weaker = opacity * np.exp(logs).prod(1) / wide.prod(1)
    close(read_cloud(path), (points, harmonics[:, :1], weaker, np.log(wide), turns))
    # Opacities of 0 and 1, quaternions of any length, those of length 0.
    table |= {"opacity": [np.inf, -np.inf, 100, -200, 0]}
    table |= {f"rot_{i}": 1e-30 * turns[:, i] for i in range(4)}
    path.write_bytes(whole(ply(table)))
    with pytest.warns(UserWarning, match="degree 4"):
        cloud = read_cloud(path)
    close(cloud, (points, harmonics[:, :16], [1, 0, 1, 0, 0.5], logs, turns))
    table |= {f"rot_{i}": [0, *turns[1:, i]] for i in range(4)}
    path.write_bytes(whole(ply(table)))
    with pytest.warns(UserWarning, match="1 of its 5 Gaussians have the quaternion 0"):
        assert read_cloud(path).turns[0].tolist() == [1, 0, 0, 0]


def packed(table, *bits):
    """Fractions as unsigned numbers, from the highest bits on."""
    found, at = 0, 32
    for column, width in zip(np.asarray(table).T, bits, strict=True):
        at -= width
        found = found | (np.round(column * ((1 << width) - 1)).astype(np.uint64) << np.uint64(at))
    return found


def smallest(turns):
    """The number of the largest component of quaternions, and the others, as it is positive."""
    largest = np.abs(turns).argmax(1)
    turns = turns * np.sign(turns[np.arange(len(turns)), largest])[:, None]
    return largest, np.stack([np.delete(q, i) for q, i in zip(turns, largest, strict=True)])


@for_each(colors=[True, False], degree=[0, 1, 3])
def test_compressed_ply(colors, degree, tmp_path):
    points, harmonics, opacity, logs, turns = want = values(300, degree)
    harmonics[:, 0] = harmonics[:, 0] * 0.4 / C0  # colours in [0, 1]
    rgb = 0.5 + C0 * harmonics[:, 0]
    chunk = np.arange(300) // 256
    spread, parts = {}, {}
    for name, value in (("{}", points), ("scale_{}", logs), ("{}", rgb)):
        axes = "rgb" if value is rgb else "xyz"
        for i, axis in enumerate(axes):
            low, high = ([f(value[chunk == c, i]) for c in (0, 1)] for f in (np.min, np.max))
            if value is rgb and not colors:
                low, high = [0, 0], [1, 1]
            else:
                key = name.format(axis)
                spread |= {f"min_{key}": low, f"max_{key}": high}
            low, high = (np.take(x, chunk) for x in (low, high))
            parts.setdefault(id(value), []).append((value[:, i] - low) / (high - low))
    place, scale, color = (np.stack(x, 1) for x in parts.values())
    largest, three = smallest(turns)
    rows = {
        "packed_position": packed(place, 11, 10, 11),
        "packed_rotation": packed(np.c_[largest / 3, three / np.sqrt(2) + 0.5], 2, 10, 10, 10),
        "packed_scale": packed(scale, 11, 10, 11),
        "packed_color": packed(np.c_[color, opacity], 8, 8, 8, 8),
    }
    elements = [ply(spread, name="chunk"), ply(rows, kinds=dict.fromkeys(rows, "uint"))]
    rest = harmonics[:, 1:].transpose(0, 2, 1).reshape(300, -1)
    if degree:
        table = {f"f_rest_{i}": np.floor((c / 8 + 0.5) * 256) for i, c in enumerate(rest.T)}
        elements.append(ply(table, kinds=dict.fromkeys(table, "uchar"), name="sh"))
    (tmp_path / "a.ply").write_bytes(whole(*elements))
    close(
        read_cloud(tmp_path / "a.ply"), want, points=4e-3, harmonics=max(8e-3, 8 / 512 + 1e-4),
        opacity=2.1e-3, sizes=3e-3, turns=3e-3,
    )  # fmt: skip
    (tmp_path / "a.ply").write_bytes(whole(*elements[1:]))
    with pytest.raises(ValueError, match="needs a chunk for each 256 Gaussians"):
        read_cloud(tmp_path / "a.ply")


def splat(points, harmonics, opacity, logs, turns):
    """As antimatter15's page reads it: a quaternion is (byte - 128) / 128."""
    rows = np.zeros(len(points), [("p", "<f4", 3), ("s", "<f4", 3), ("c", "u1", 4), ("q", "u1", 4)])
    rows["p"], rows["s"] = points, np.exp(logs)
    color = np.c_[0.5 + C0 * harmonics[:, 0], opacity]
    rows["c"], rows["q"] = np.round(255 * color.clip(0, 1)), np.round(turns * 127 + 128)
    return rows.tobytes()


def test_splat(tmp_path):
    points, harmonics, opacity, logs, turns = values(degree=0)
    data = splat(points, harmonics, opacity, logs, turns)
    (tmp_path / "a.splat").write_bytes(data)
    exact = np.frombuffer(data, "u1").reshape(-1, 32)[:, 28:].astype(float) - 128
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    cloud = read_cloud(tmp_path / "a.splat")
    close(cloud, (points, harmonics, opacity, logs, exact), harmonics=7e-3, opacity=2e-3)
    np.testing.assert_allclose(np.abs((exact * turns).sum(1)), 1, atol=1e-4)
    (tmp_path / "a.splat").write_bytes(splat(*(x[:1] for x in values(degree=0))))
    assert len(read_cloud(tmp_path / "a.splat")) == 1


def spz(points, harmonics, opacity, logs, turns, version=3, bits=12, flags=0, records=b""):
    """Versions 2 to 4 of Niantic's README, in the last extensions; axes as they are given."""
    count, degree = len(points), REST.index(harmonics.shape[1] - 1)
    fixed = np.round(points * 2**bits).astype("<i4")
    place = fixed.reshape(-1, 1).view("u1").reshape(-1, 4)[:, :3].tobytes()
    xyzw = np.roll(turns, -1, 1)
    if version == 2:
        xyzw = xyzw * np.where(xyzw[:, 3:] < 0, -1, 1)
        turn = np.round(xyzw[:, :3] * 127.5 + 127.5).astype("u1").tobytes()
    else:
        largest, three = smallest(xyzw)
        number = largest.astype(np.uint64)
        for column in three.T:
            size = np.round(511 * np.abs(column) * np.sqrt(2)).astype(np.uint64)
            number = number << np.uint64(10) | (column < 0).astype(np.uint64) << np.uint64(9) | size
        turn = number.astype("<u4").tobytes()

    def byte(x):
        return np.round(x).clip(0, 255).astype("u1").tobytes()

    parts = [
        place, byte(opacity * 255), byte((harmonics[:, 0] * 0.15 + 0.5) * 255),
        byte((logs + 10) * 16), turn, byte(harmonics[:, 1:] * 128 + 128),
    ]  # fmt: skip
    if version == 4:
        import zstandard

        parts = [zstandard.ZstdCompressor().compress(part) for part in parts if part]
        counts = count, degree, bits, 2 * bool(records), len(parts), 32 + len(records)
        head = struct.pack("<4sIIBBBBI12x", b"NGSP", 4, *counts) + records
        sizes = b"".join(struct.pack("<QQ", len(part), 0) for part in parts)
        return head + sizes + b"".join(parts)
    head = struct.pack("<4sIIBBBB", b"NGSP", version, count, degree, bits, flags, 0)
    return gzip.compress(head + b"".join(parts))


@for_each(version=[2, 3, 4], degree=[0, 1, 2, 3, 4], bits=[12, 8])
@pytest.mark.filterwarnings("ignore:.*degree 4")
def test_spz(version, degree, bits, tmp_path):
    """Its axes are right, up, back; those of PLY right, down, ahead."""
    if version == 4:
        pytest.importorskip("zstandard")
    cloud, there = check_spz(tmp_path, np.diag([1, -1, -1]), degree, version=version, bits=bits)
    # Of version 2, w is what is left of the others.
    assert (np.abs(cloud.turns) - np.abs(there))[:, 1:].max() < 8e-3


@for_each(number=range(9))
def test_axes_of_spz(number, tmp_path):
    """SPZ_ADOBE_coordinate_system (0xADBE0003), by CoordinateSystem of splat-types.h."""
    pytest.importorskip("zstandard")
    names = "RUB LDB RDB LUB RUB LDF RDF LUF RUF".split()
    right, down, ahead = np.eye(3)
    ways = {"R": right, "L": -right, "D": down, "U": -down, "F": ahead, "B": -ahead}
    axes = np.stack([ways[letter] for letter in names[number]], 1)
    record = RECORD + struct.pack("<I", number)
    other = struct.pack("<II3f", 0xADBE0002, 12, -1, 1, 2)  # a camera that goes around
    check_spz(tmp_path, axes, 2, version=4, records=record)
    with pytest.warns(UserWarning, match="its extension 0xADBE0002 is not used"):
        check_spz(tmp_path, axes, 2, version=4, records=other + record)


def check_spz(tmp_path, axes, degree, **options):
    """What is read of Gaussians whose axes are the columns."""
    points, harmonics, opacity, logs, turns = values(40, degree)
    harmonics *= 0.9
    (tmp_path / "a.spz").write_bytes(spz(points, harmonics, opacity, logs, turns, **options))
    cloud = read_cloud(tmp_path / "a.spz")
    own = axes @ Rotation.from_quat(turns[:, [1, 2, 3, 0]]).as_matrix()
    there = np.roll(Rotation.from_matrix(own @ axes.T).as_quat(), 1, 1)
    # What a direction sees is what its image saw.
    way = torch.nn.functional.normalize(torch.randn(40, 3), dim=1)
    seen = colors_of(torch.from_numpy(cloud.harmonics), way @ torch.from_numpy(axes.T).float())
    want = colors_of(torch.from_numpy(harmonics[:, :16]).float(), way)
    assert (seen - want).abs().max() < 0.06
    close(
        cloud, (points @ axes.T, cloud.harmonics, opacity, logs, there), opacity=2e-3,
        points=0.51 / 2 ** options.get("bits", 12), sizes=1 / 31,
        turns=0.12 if options["version"] == 2 else 2e-3,
    )  # fmt: skip
    return cloud, there


def picture(table, width):
    """A lossless image of bytes [N, 3 or 4], row by row."""
    height = -(-len(table) // width)
    full = np.zeros((height * width, 4), np.uint8)
    full[:, 3] = 255
    full[: len(table), : table.shape[1]] = table
    file = io.BytesIO()
    Image.fromarray(full.reshape(height, width, 4)).save(file, "WEBP", lossless=True, exact=True)
    return file.getvalue()


def sog(points, harmonics, opacity, logs, turns, version=2):
    """Meta and images by their names."""
    count, rest = len(points), harmonics.shape[1] - 1
    squeezed = np.sign(points) * np.log1p(np.abs(points))
    low, high = squeezed.min(0), squeezed.max(0)
    place = np.round((squeezed - low) / (high - low) * 65535).astype(np.uint16)
    largest, three = smallest(turns)
    quat = np.c_[np.round((three * np.sqrt(2) * 0.5 + 0.5) * 255), 252 + largest]
    meta = {
        "means": {"mins": low.tolist(), "maxs": high.tolist(), "files": ["l.webp", "u.webp"]},
        "quats": {"files": ["q.webp"]}, "scales": {"files": ["s.webp"]},
        "sh0": {"files": ["c.webp"]},
    }  # fmt: skip

    def coded(key, value):
        """Bytes of the places in a book of the values' range, or of the parts of the range."""
        axis = None if version == 2 or key == "shN" else 0
        low, high = value.min(axis), value.max(axis)
        meta[key] |= (
            {"codebook": np.linspace(low, high, 256).tolist()} if version == 2
            else {"mins": np.asarray(low).tolist(), "maxs": np.asarray(high).tolist()}
        )  # fmt: skip
        return np.round((value - low) / (high - low) * 255)

    if version == 2:
        meta |= {"version": 2, "count": count}
        color = np.c_[coded("sh0", harmonics[:, 0]), np.round(opacity * 255)]
    else:
        meta["means"]["shape"] = [count, 3]
        color = coded("sh0", np.c_[harmonics[:, 0], np.log(opacity / (1 - opacity))])
    files = {
        "l.webp": picture(place & 255, 8), "u.webp": picture(place >> 8, 8),
        "q.webp": picture(quat, 8), "s.webp": picture(coded("scales", logs), 8),
        "c.webp": picture(color, 8),
    }  # fmt: skip
    if rest:
        meta["shN"] = {"files": ["n.webp", "i.webp"], "count": count, "bands": REST.index(rest)}
        # A centroid for each Gaussian, the last one first.
        table = np.zeros((64 * -(-count // 64), rest, 3))
        table[:count] = coded("shN", harmonics[::-1, 1:])
        files["n.webp"] = picture(table.reshape(-1, 3), 64 * rest)
        label = np.arange(count)[::-1]
        files["i.webp"] = picture(np.c_[label & 255, label >> 8, 0 * label], 8)
    return files | {"meta.json": json.dumps(meta).encode()}


@for_each(version=[1, 2], degree=[0, 1, 2, 3], bundled=[True, False])
def test_sog(version, degree, bundled, tmp_path):
    want = values(70, degree)
    files = sog(*want, version)
    if bundled:
        with zipfile.ZipFile(tmp_path / "a.any", "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    else:
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
    for path in [tmp_path / "a.any"] if bundled else [tmp_path, tmp_path / "meta.json"]:
        close(
            read_cloud(path), want, points=2e-4, harmonics=4.1e-3,
            opacity=6e-3 if version == 1 else 2e-3, sizes=8.1e-3, turns=8e-3,
        )  # fmt: skip


def test_gaussians_of_a_sog_without_a_quaternion_are_not_turned(tmp_path):
    want = values(20, 0)
    files = sog(*want)
    bytes_ = np.array(Image.open(io.BytesIO(files["q.webp"]))).reshape(-1, 4)
    bytes_[3, 3] = 251
    want[-1][3] = [1, 0, 0, 0]
    for name, content in (files | {"q.webp": picture(bytes_, 8)}).items():
        (tmp_path / name).write_bytes(content)
    with pytest.warns(UserWarning, match="1 of its Gaussians have no quaternion"):
        turns = read_cloud(tmp_path).turns
    np.testing.assert_allclose(np.abs((turns * want[-1]).sum(1)), 1, atol=1e-4)


def gltf(points, harmonics, opacity, logs, turns, *, kind="glb", node=None, **look):
    """KHR_gaussian_splatting: linear sizes and opacities, quaternions x, y, z, w."""
    prefix, degree = "KHR_gaussian_splatting:", int(np.sqrt(harmonics.shape[1])) - 1
    tables = {
        "POSITION": points, f"{prefix}SCALE": np.exp(logs), f"{prefix}OPACITY": opacity[:, None],
        f"{prefix}ROTATION": np.roll(turns, -1, 1),
    }  # fmt: skip
    for n in range(degree + 1):
        for i in range(2 * n + 1):
            tables[f"{prefix}SH_DEGREE_{n}_COEF_{i}"] = harmonics[:, n * n + i]
    kinds, data, views, accessors = {1: "SCALAR", 3: "VEC3", 4: "VEC4"}, b"", [], []
    for table in tables.values():
        raw = table.astype("<f4").tobytes()
        views.append({"buffer": 0, "byteOffset": len(data), "byteLength": len(raw)})
        accessors.append({
            "bufferView": len(accessors), "componentType": 5126, "count": len(table),
            "type": kinds[table.shape[1]],
        })  # fmt: skip
        data += raw
    look = {"kernel": "ellipse", "colorSpace": "srgb_rec709_display"} | look
    primitive = {
        "mode": 0, "attributes": {name: i for i, name in enumerate(tables)},
        "extensions": {"KHR_gaussian_splatting": look},
    }  # fmt: skip
    tree = {
        "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}],
        "extensionsUsed": ["KHR_gaussian_splatting"], "nodes": [{"mesh": 0} | (node or {})],
        "meshes": [{"primitives": [primitive]}], "buffers": [{"byteLength": len(data)}],
        "bufferViews": views, "accessors": accessors,
    }  # fmt: skip
    text = json.dumps(tree).encode()
    text += b" " * (-len(text) % 4)
    head = struct.pack("<4sIII4s", b"glTF", 2, 28 + len(text) + len(data), len(text), b"JSON")
    return head + text + struct.pack("<I4s", len(data), b"BIN\0") + data


@for_each(degree=[0, 1, 2, 3])
def test_gltf(degree, tmp_path):
    want = points, harmonics, _, logs, turns = values(degree=degree)
    path = tmp_path / "a.glb"
    path.write_bytes(gltf(*want))
    close(read_cloud(path), want)
    turn = Rotation.from_rotvec([0.3, -1, 0.5])
    for mirror in ([1, 1, 1], [1, -1, 1], [-1, -1, -1]):
        node = {
            "rotation": turn.as_quat().tolist(), "scale": [2.0 * x for x in mirror],
            "translation": [1.0, 2, 3],
        }  # fmt: skip
        path.write_bytes(gltf(*want, node=node))
        cloud, motion = read_cloud(path), turn.as_matrix() * mirror
        np.testing.assert_allclose(cloud.points, 2 * points @ motion.T + [1, 2, 3], atol=1e-5)
        assert np.linalg.norm(cloud.turns, axis=1) == pytest.approx(1)
        spread, wanted = (
            moved @ (np.exp(sizes)[:, :, None] ** 2 * moved.transpose(0, 2, 1))
            for sizes, moved in (
                (np.log(cloud.sizes), Rotation.from_quat(cloud.turns[:, [1, 2, 3, 0]]).as_matrix()),
                (logs + np.log(2), motion @ Rotation.from_quat(turns[:, [1, 2, 3, 0]]).as_matrix()),
            )
        )
        np.testing.assert_allclose(spread, wanted, atol=1e-5)
        way = torch.nn.functional.normalize(torch.randn(5, 3, dtype=torch.float64), dim=1)
        torch.testing.assert_close(
            colors_of(torch.from_numpy(cloud.harmonics).double(), way @ torch.tensor(motion.T)),
            colors_of(torch.from_numpy(harmonics), way), atol=1e-5, rtol=0,
        )  # fmt: skip


def test_gltf_that_is_not_read(tmp_path):
    path = tmp_path / "a.glb"
    for changes, words in (
        ({"kernel": "box"}, "the kernel 'box'"),
        ({"extensions": {"KHR_spz": {}}}, "need KHR_spz, which is not read"),
        ({"node": {"scale": [1.0, 2.0, 1.0]}}, "scales axes differently"),
        ({"node": {"scale": [0.0, 0.0, 0.0]}}, "scales axes differently"),
    ):
        path.write_bytes(gltf(*values(), **changes))
        with pytest.raises(ValueError, match=words):
            read_cloud(path)
    path.write_bytes(gltf(*values(), colorSpace="lin_rec709_display"))
    with pytest.warns(UserWarning, match="linear"):
        read_cloud(path)


def made(kind):
    want = values(degree=1)
    if kind == "sog":
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in sog(*want).items():
                archive.writestr(name, content)
        return file.getvalue()
    return {
        "ply": lambda: whole(ply(columns(*want))), "splat": lambda: splat(*want),
        "spz": lambda: spz(*want), "glb": lambda: gltf(*want),
    }[kind]()  # fmt: skip


@for_each(kind=["ply", "splat", "spz", "sog", "glb"])
@pytest.mark.filterwarnings("error")
def test_damaged_files_are_named_in_one_line(kind, tmp_path):
    data, path = made(kind), tmp_path / f"a.{kind}"
    path.write_bytes(data)
    assert len(read_cloud(path)) == 5
    for length in range(5, len(data), max(1, len(data) // 60)):
        if kind == "splat" and length % 32 == 0:
            continue
        path.write_bytes(data[:length])
        try:
            cloud = read_cloud(path)
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017
            assert str(path) in str(error)  # noqa: PT017
        else:  # another kind of file, by what is left of it
            assert cloud is None and kind in ("glb", "ply"), length  # noqa: PT018
    path.write_bytes(b"")
    if kind in ("glb", "ply"):  # of meshes too, whose readers say so
        assert read_cloud(path) is None
    else:
        with pytest.raises(ValueError, match="is damaged"):
            read_cloud(path)


def test_a_format_that_is_not_read_is_named(tmp_path):
    (tmp_path / "a.ksplat").write_bytes(b"\0" * 4096)
    with pytest.raises(ValueError, match="ksplat is not read; splat-transform makes SOG"):
        read_cloud(tmp_path / "a.ksplat")


@for_each(
    case=[
        ("x", "points with finite coordinates"),
        ("f_dc_0", "finite harmonics"),
        ("f_rest_3", "finite harmonics"),
        ("opacity", "opacities in"),
        ("scale_1", "finite sizes"),
        ("rot_2", "finite quaternions"),
    ],
    value=[np.nan, np.inf, 1e4],
)
def test_values_that_are_not_finite(case, value, tmp_path):
    name, words = case
    table = columns(*values(degree=1))
    table[name] = np.array([*table[name][:4], value])
    (tmp_path / "a.ply").write_bytes(whole(ply(table)))
    fine = np.isfinite(value) or (name == "opacity" and value == np.inf)
    if fine and not (name == "scale_1" and value > 100):
        assert len(read_cloud(tmp_path / "a.ply")) == 5
        return
    with pytest.raises(ValueError, match=f"{words}.*1 of 5 have none.*number 4"):
        read_cloud(tmp_path / "a.ply")


def test_headers_that_lie(tmp_path):
    want = values(degree=0)
    for name, data, words in (
        ("a.spz", gzip.compress(struct.pack("<4sIIBBBB", b"NGSP", 3, 2**31, 0, 12, 0, 0)), "bytes"),
        ("a.spz", gzip.compress(b"NGSP" + bytes(60)), "version 0"),
        ("a.spz", gzip.compress(b"something else, long enough"), "NGSP"),
        ("a.spz", spz(*want, flags=2), "SPZ_ADOBE_coordinate_system"),
        (
            "a.spz",
            spz(*want, version=4, records=RECORD + b"\x09\0\0\0"),
            "coordinate_system in it is 9",
        ),
        ("a.spz", spz(*want, version=4, records=RECORD + b"\4\0\0"), "0xADBE0003 is cut short"),
        ("a.spz", spz(*want, version=4, records=RECORD[:5]), "damaged"),
        ("a.ply", whole(ply(columns(*want))).replace(b"vertex 5", b"vertex 999999"), "fewer rows"),
        ("a.ply", whole(ply(columns(*want))).replace(b"vertex 5", b"vertex 0"), "no points"),
        ("a.ply", whole(ply(columns(*want))).replace(b"rot_3", b"rot_9"), "lacks rot_3"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ValueError, match=words):
            read_cloud(tmp_path / name)
    for change, words in (
        ({"count": 10**9}, "pixels for"),
        ({"version": 3}, "version 3"),
        ({"means": {"files": ["../l.webp"], "mins": [0] * 3, "maxs": [1] * 3}}, "names the image"),
        ({"quats": {}}, "files"),
    ):
        files = sog(*want)
        files["meta.json"] = json.dumps(json.loads(files["meta.json"]) | change).encode()
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=words):
            read_cloud(tmp_path)
