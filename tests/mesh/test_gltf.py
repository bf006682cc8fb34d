"""glTF as it is specified: each feature read, noted or refused, and files that pass validation."""

import base64
import json
import math
import os
import shutil
import struct
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from gendr.mesh import Mesh, cube, icosphere
from support import gltf
from support.cases import for_each
from support.gltf import CORNERS, POINTS, SAMPLES, UVS, Gltf, glb, tree_of
from support.scenes import texels_at

FOLDER = Path(gltf.__file__).parent
# Red, green above blue, white.
QUARTERS = np.zeros((8, 8, 3), np.uint8)
QUARTERS[:4, :4, 0] = QUARTERS[:4, 4:, 1] = QUARTERS[4:, :4, 2] = QUARTERS[4:, 4:] = 255


def to_linear(s):
    """Of sRGB in [0, 1], by IEC 61966-2-1."""
    return np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4)


def from_linear(x):
    return np.where(x <= 0.0031308, 12.92 * x, 1.055 * x ** (1 / 2.4) - 0.055)


def loaded(file, folder, name="m.glb", dtype=torch.float64):
    """The mesh of a file, and what is noted of it."""
    path = folder / name
    path.write_bytes(file.bytes() if isinstance(file, Gltf) else file)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mesh = Mesh.load(path, dtype=dtype)
    return mesh, "; ".join(str(each.message) for each in caught)


def textured(info=None, uvs=UVS, sampler=None, pixels=QUARTERS, uvs1=None, **look):
    """A square with a texture."""
    file = Gltf()
    more = {} if sampler is None else {"sampler": file.add("samplers", **sampler)}
    paint = file.material(file.image(pixels, **more), info, **look)
    attributes = {"TEXCOORD_0": file.accessor(uvs)}
    if uvs1 is not None:
        attributes["TEXCOORD_1"] = file.accessor(uvs1)
    file.show(file.primitive(attributes=attributes, material=paint))
    return file


# -- accessors -------------------------------------------------------------------------------------

WIDTH = {"i1": 127, "u1": 255, "i2": 32767, "u2": 65535, "f4": 1}


@for_each(
    form=WIDTH,
    normalized=[False, True],
    layout=[{}, {"stride": 16}, {"sparse": [1, 3]}, {"sparse": [0, 1, 2, 3]},
            {"sparse": [2], "stride": 20}, {"offset": 1}],
)  # fmt: skip
def test_accessors(tmp_path, form, normalized, layout):
    """glTF 2.0, 3.6.2.2: c / 255, max(c / 127, -1); KHR_mesh_quantization: or as they are."""
    file, most = Gltf(), WIDTH[form]
    low = -most - 1 if form in ("i1", "i2") else 0
    values = np.array([[0, most, low], [most // 3, 1, 0], [most, most, 1], [low, 1, most // 2]])
    flag = {"normalized": True} if normalized else {}
    attributes = {
        "POSITION": file.accessor(values, form, **layout, **flag),
        "TEXCOORD_0": file.accessor(values[:, :2], form, **layout, **flag),
        "COLOR_0": file.accessor(np.abs(values).clip(0, most), form, **layout, **flag),
    }
    corners = file.accessor(CORNERS, "u4", **({} if "stride" in layout else layout))
    file.show({"attributes": attributes, "indices": corners})
    mesh, notes = loaded(file, tmp_path)
    assert ("must be normalized are taken so" in notes) == (form != "f4" and not normalized)
    want = np.maximum(values / most, -1) if normalized and form != "f4" else values.astype(float)
    assert_close(mesh.vertices[mesh.faces.reshape(-1)], torch.from_numpy(want[CORNERS]))
    uvs = np.stack((want[:, 0], 1 - want[:, 1]), 1)
    assert_close(mesh.corner_uvs.reshape(-1, 2), torch.from_numpy(uvs[CORNERS]))
    colors = from_linear(np.abs(values).clip(0, most) / most)  # never as they are
    assert_close(mesh.vertex_colors[mesh.faces.reshape(-1)], torch.from_numpy(colors[CORNERS]))


@for_each(form=["u1", "u2", "u4", None], mode=[4, 5, 6])
def test_topologies(tmp_path, form, mode):
    """glTF 2.0, 3.7.2.1, with the order of corners."""
    file = Gltf()
    points = np.array([(i, i * i, 0) for i in range(7)], "f4")
    corners = np.array([6, 2, 4, 0, 1, 3]) if form else np.arange(6)
    file.show(file.primitive(points, corners.astype(form) if form else None, mode=mode))
    if not form:
        file.tree["accessors"][0]["count"] = 6
    listing = {4: [[0, 1, 2], [3, 4, 5]], 5: [[0, 1, 2], [1, 3, 2], [2, 3, 4], [3, 5, 4]],
            6: [[1, 2, 0], [2, 3, 0], [3, 4, 0], [4, 5, 0]]}[mode]  # fmt: skip
    mesh, notes = loaded(file, tmp_path)
    assert not notes
    assert_close(
        mesh.vertices[mesh.faces][..., 0].long(), torch.from_numpy(corners[np.array(listing)])
    )


# -- where things are ------------------------------------------------------------------------------


def rotation(q):
    """The matrix of a quaternion x, y, z, w, by SciPy."""
    from scipy.spatial.transform import Rotation

    return Rotation.from_quat(q).as_matrix()


def test_nodes_skins_morphs_and_instances_lie_where_they_should(tmp_path):
    """By the formulas of glTF 2.0, 3.5.3 and 3.7.3.3, and EXT_mesh_gpu_instancing."""
    points = POINTS.astype(float)
    file = Gltf()
    inner = file.add("nodes", rotation=gltf.turned(0), scale=[2, 3, -4])
    file.show(file.primitive(), translation=[1, 2, 3])
    file.tree["scenes"][0]["nodes"] = [inner]
    file.tree["nodes"][inner]["children"] = [1]
    mesh, _ = loaded(file, tmp_path)
    want = ((points + np.array([1, 2, 3])) * [2, 3, -4]) @ rotation(gltf.turned(0)).T
    assert_close(mesh.vertices, torch.from_numpy(want), atol=1e-12, rtol=0)
    assert mesh.faces.tolist() == [[0, 2, 1], [0, 3, 2]]  # mirrored, so turned right side out

    file = gltf.instanced()
    mesh, _ = loaded(file, tmp_path)
    turns = np.round(np.array([gltf.turned(i) for i in range(3)]) * 127)
    moves, sizes = [[0, 0, 0], [2, 0, 0], [0, 4, 1]], [[1, 1, 1], [1, 2, 1], [-1, 1, 3]]
    want = np.concatenate([
        ((points * size) @ rotation(turn).T + move) * [2, 1, 1]
        for turn, move, size in zip(turns, moves, sizes, strict=True)
    ])  # fmt: skip
    corners = np.concatenate([CORNERS, CORNERS + 4, 8 + CORNERS[[0, 2, 1, 3, 5, 4]]])
    got = mesh.vertices[mesh.faces.reshape(-1)]
    assert_close(got, torch.from_numpy(want[corners]), atol=1e-12, rtol=0)

    mesh, _ = loaded(gltf.morphed(), tmp_path)  # 0.5 and 2 of the node, 1 and 0 of the mesh
    want = [points + np.eye(4, 3) + 2, points + 2 * np.eye(4, 3) + [5, 0, 0]]
    got = mesh.vertices[mesh.faces.reshape(-1)].reshape(2, 6, 3)
    for one, other in zip(got, want, strict=True):
        assert_close(one, torch.from_numpy(other[CORNERS]))
    colors = from_linear(np.repeat([0.75, 0.25], 6))
    got = mesh.vertex_colors[mesh.faces.reshape(-1), 0]
    assert_close(got, torch.from_numpy(colors))

    # A mirrored joint turns faces too; weights that do not sum to 1 are scaled; two sets of joints.
    file = Gltf()
    zero = np.zeros((4, 4))
    half = np.tile([1.0, 0, 0, 0], (4, 1))
    attributes = {"JOINTS_0": file.accessor(zero, "u1"), "JOINTS_1": file.accessor(zero + 1, "u2"),
                  "WEIGHTS_0": file.accessor(half), "WEIGHTS_1": file.accessor(half)}  # fmt: skip
    joints = [file.add("nodes", scale=[-1, 1, 1]), file.add("nodes", scale=[-3, 1, 1])]
    skin = file.add("skins", joints=joints)
    file.show(file.primitive(attributes=attributes), skin=skin, translation=[9, 9, 9])
    mesh, _ = loaded(file, tmp_path)
    assert_close(mesh.vertices, torch.from_numpy(points * [-2, 1, 1]))
    assert mesh.faces.tolist() == [[0, 2, 1], [0, 3, 2]]


def test_scenes(tmp_path):
    file = gltf.two_scenes()
    mesh, notes = loaded(file, tmp_path)
    assert float(mesh.face_areas.sum()) == 3
    for word in ("of its 2 scenes number 1", "its cameras are left out", "its points and lines"):
        assert word in notes
    shown = file.tree["nodes"][file.tree["scenes"][1]["nodes"][0]]
    for visible, area in ((True, 3), (False, 0)):
        shown["extensions"] = {"KHR_node_visibility": {"visible": visible}}
        if area:
            assert float(loaded(file, tmp_path)[0].face_areas.sum()) == area
        else:
            with pytest.raises(ValueError, match="holds no faces"):
                loaded(file, tmp_path)
    del file.tree["scene"], shown["extensions"]
    assert float(loaded(file, tmp_path)[0].face_areas.sum()) == 1
    del file.tree["scenes"]
    mesh, notes = loaded(file, tmp_path)
    assert float(mesh.face_areas.sum()) == 4
    assert "it has no scene: all its nodes are taken" in notes
    del file.tree["nodes"]
    mesh, notes = loaded(file, tmp_path)
    assert float(mesh.face_areas.sum()) == 1
    assert "it has no nodes: all its meshes are taken" in notes


# -- colours ---------------------------------------------------------------------------------------


def test_colours_are_linear_in_files_and_srgb_in_meshes(tmp_path):
    """IEC 61966-2-1: 0.5 is 0.7354; all 256 levels come back from a file as they were."""
    levels = torch.arange(256) / 255
    mesh = icosphere(2, dtype=torch.float64)
    colors = levels[torch.arange(len(mesh.vertices)) % 256, None].expand(-1, 3)
    for ending in ("glb", "gltf"):
        mesh.to(torch.float32).with_vertex_colors(colors).save(tmp_path / f"m.{ending}")
        found = Mesh.load(tmp_path / f"m.{ending}").vertex_colors
        assert torch.equal((found * 255).round(), (colors * 255).round())
        assert_close(found, colors, atol=2e-7, rtol=0)
    file = Gltf()
    file.show(file.primitive(material=file.material(baseColorFactor=[0.5, 0, 1, 0.3])))
    mesh, notes = loaded(file, tmp_path)
    assert_close(mesh.face_colors[0], torch.tensor([0.735356983, 0, 1]).double())
    assert mesh.face_colors[0, 1:].tolist() == [0, 1]
    assert mesh.vertex_colors is None
    assert not notes  # OPAQUE: alpha does not count


def test_factor_times_texture_is_linear(tmp_path):
    pixels = np.full((2, 2, 3), 188, np.uint8)
    mesh, _ = loaded(textured(pixels=pixels, baseColorFactor=[0.5, 0.25, 1, 1]), tmp_path)
    want = from_linear(to_linear(np.full(3, 188 / 255)) * [0.5, 0.25, 1])
    assert_close(mesh.texture[0, 0], torch.from_numpy(want))
    assert mesh.face_colors is None
    file = textured(pixels=pixels)
    (part,) = file.tree["meshes"][0]["primitives"]
    part["attributes"]["COLOR_0"] = file.accessor(np.full((4, 3), 0.5))
    mesh, notes = loaded(file, tmp_path)
    assert "texture times vertex colours is taken in sRGB, up to 0.03" in notes
    product = mesh.texture[0, 0] * mesh.vertex_colors[0]
    exact = from_linear(to_linear(np.full(3, 188 / 255)) * 0.5)
    assert_close(product, torch.from_numpy(exact), atol=0.03, rtol=0)
    coloured, _ = loaded(gltf.coloured(), tmp_path)
    assert coloured.unlit
    assert coloured.face_colors is None
    for generator in ("https://github.com/mikedh/trimesh", "FBX2glTF v0.9.7"):
        file.tree["asset"]["generator"] = generator
        same, notes = loaded(file, tmp_path)
        name = generator.split("/")[-1].split(" ")[0]
        assert f"by {name}, which writes sRGB where glTF has linear ones" in notes
        assert_close(same.vertex_colors, mesh.vertex_colors)


def test_textures_lie_as_their_transforms_say(tmp_path):
    """uv' = offset + R(rotation) S(scale) uv, counter-clockwise with v down; texCoord."""
    red, green, blue, white = ([1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1])
    half = UVS / 2
    for change, want in (
        ({"scale": [0.5, 0.5]}, red),
        ({"scale": [0.5, 0.5], "offset": [0.5, 0]}, green),
        ({"scale": [0.5, 0.5], "offset": [0, 0.5]}, blue),
        ({"scale": [0.5, 0.5], "offset": [1.5, -0.5]}, white),
        ({"scale": [0.5, 0.5], "rotation": math.pi / 2}, blue),  # (u, v) to (v, -u)
        ({"scale": [0.5, 0.5], "rotation": -math.pi / 2}, green),
        ({"texCoord": 1}, white),
    ):
        info = {"extensions": {"KHR_texture_transform": change}, "texCoord": 0}
        file = textured(info, uvs1=half + 0.5)
        file.extension("KHR_texture_transform", required=True)
        mesh, notes = loaded(file, tmp_path)
        assert not notes
        assert texels_at(mesh).mean(0).tolist() == want, change
    mesh, _ = loaded(textured({"texCoord": 1}, uvs=half, uvs1=half + np.array([0.5, 0])), tmp_path)
    assert texels_at(mesh).mean(0).tolist() == green
    mesh, notes = loaded(textured({"texCoord": 3}, baseColorFactor=[1, 0, 0, 1]), tmp_path)
    assert mesh.texture is None
    assert mesh.face_colors.mean(0).tolist() == red
    assert "needs TEXCOORD_3, not there" in notes


REPEAT, CLAMP, MIRROR = 10497, 33071, 33648


@for_each(wrap_u=[REPEAT, CLAMP, MIRROR], wrap_v=[CLAMP, MIRROR])
def test_samplers(tmp_path, wrap_u, wrap_v):
    """glTF 2.0, 3.8.4, by the definition of each mode at texels far out."""
    pixels = np.random.default_rng(0).integers(0, 256, (3, 5, 3)).astype(np.uint8)
    uvs = np.array([[-1.6, 2.3], [2.7, 2.3], [2.7, -1.2], [-1.6, -1.2]])
    mesh, notes = loaded(textured(None, uvs, {"wrapS": wrap_u, "wrapT": wrap_v}, pixels), tmp_path)
    assert not notes
    for weights in torch.rand(50, 3).softmax(-1).tolist():
        got = texels_at(mesh, weights)
        at = (uvs[CORNERS.reshape(2, 3)] * np.array(weights)[:, None]).sum(1)
        for face, place in enumerate(at):
            texel = []
            for x, size, mode in zip(place, (5, 3), (wrap_u, wrap_v), strict=True):
                if mode == MIRROR:
                    x = 1 - abs(x % 2 - 1)
                x = x % 1 if mode == REPEAT else min(max(x, 0), 1 - 1e-9)
                texel.append(int(x * size))
            assert_close(got[face], torch.from_numpy(pixels[texel[1], texel[0]] / 255))


def test_images_of_other_kinds(tmp_path):
    """WebP by its extension before the PNG for others; specular and glossiness."""
    file = textured()
    name = file.extension("EXT_texture_webp", required=True)
    blue = np.zeros((4, 4, 3), np.uint8) + np.array([0, 0, 255], np.uint8)
    webp = file.tree["textures"][file.image(blue, "WEBP")]["source"]
    file.tree["textures"][0]["extensions"] = {name: {"source": webp}}
    assert loaded(file, tmp_path)[0].texture[0, 0].tolist() == [0, 0, 1]
    file = textured()
    name = file.extension("KHR_materials_pbrSpecularGlossiness")
    look = {"diffuseFactor": [0, 1, 1, 1], "diffuseTexture": {"index": 0}}
    file.tree["materials"] = [{"extensions": {name: look}}]
    mesh, notes = loaded(file, tmp_path)
    assert mesh.texture[7, 7].tolist() == [0, 1, 1]
    assert not notes


# -- what lies beside a file -----------------------------------------------------------------------


def test_names_of_files(tmp_path):
    """glTF 2.0, 2.8: percent-encoded, relative, or data; nothing outside of the folder."""
    (tmp_path / "in").mkdir()
    for name in ("a.png", "in/my tex.png", "in/é.png", "in/50%25.png"):
        Image.fromarray(QUARTERS).save(tmp_path / name)
    png = base64.b64encode((tmp_path / "a.png").read_bytes()).decode()
    for uri, note in (
        ("my%20tex.png", ""),
        ("my tex.png", ""),
        ("%C3%A9.png", ""),
        (".\\%C3%A9.PNG", ""),
        ("50%25.png", ""),
        (f"data:image/png;base64,{png}", ""),
        ("gone.png", "its texture gone.png is not there"),
        ("../a.png", "its texture ../a.png lies outside of its folder"),
        (str(tmp_path / "a.png"), "lies outside of its folder"),
        ("https://example.com/a.png", "is not in a file beside it"),
        ("data:image/png;base64,%%%", "the base64 of its texture number 0 is damaged"),
        (f"data:image/png;base64,{png[:80]}", "its texture number 0 is no readable image"),
    ):
        file = textured()
        file.tree["images"] = [{"uri": uri}]
        mesh, found = loaded(file, tmp_path / "in")
        assert note in found
        assert bool(found) == bool(note) == (mesh.texture is None), uri
    file = gltf.plain()
    data = file.bytes()
    for uri in ("b%20c.bin", "data:;base64," + base64.b64encode(file.data).decode()):
        (tmp_path / "in" / "b c.bin").write_bytes(file.data)
        file.tree["buffers"][0]["uri"] = uri
        text = b"\xef\xbb\xbf" + json.dumps(file.tree).encode()
        mesh, found = loaded(text, tmp_path / "in", "m.gltf")
        assert torch.equal(mesh.vertices, loaded(data, tmp_path)[0].vertices)
        assert not found


# -- notes and refusals ----------------------------------------------------------------------------


def changed(make, *path, value):
    """A sample with another value at a path in its tree."""
    file = make()
    at = file.tree
    for key in path[:-1]:
        at = at.setdefault(key, {}) if isinstance(at, dict) else at[key]
    at[path[-1]] = value
    return file


PAINT, NODE, PART = ("materials", 0), ("nodes", 0), ("meshes", 0, "primitives", 0)
BASISU = {"extensions": {"KHR_texture_basisu": {"source": 0}}}


@for_each(
    "note, path, value",
    [
        ("its transparency (alphaMode BLEND) is", (*PAINT, "alphaMode"), "BLEND"),
        ("the normalTexture of its materials", (*PAINT, "normalTexture"), {"index": 0}),
        ("the emissiveFactor of its materials", (*PAINT, "emissiveFactor"), [0, 1, 0]),
        ("its KHR_a, KHR_b is not read", ("extensionsUsed",), ["KHR_b", "KHR_a"]),
        ("its animations are left out", ("animations",), [{}]),
        ("of EXT_mesh_gpu_instancing only the places are read",
         (*NODE, "extensions", "EXT_mesh_gpu_instancing"), {"attributes": {"_COLOR_0": 0}}),
        ("its COLOR_1 is not drawn", (*PART, "attributes", "COLOR_1"), 0),
        ("has KHR_texture_basisu, and is left out", ("textures",), [BASISU]),
        ("not drawn as squares", ("samplers",), [{"magFilter": 9728}]),
        ("has no three corners", ("accessors", 2, "count"), 5),
        ("points and lines, and what has no POSITION, are left out",
         ("meshes", 0, "primitives"), [{"attributes": {"POSITION": 1}}, {"attributes": {}}]),
    ],
)  # fmt: skip
def test_what_is_dropped_is_noted(tmp_path, note, path, value):
    assert not loaded(textured(sampler={}), tmp_path)[1]
    assert note in loaded(changed(lambda: textured(sampler={}), *path, value=value), tmp_path)[1]


def test_a_clamped_texture_does_not_grow_without_end(tmp_path):
    mesh, notes = loaded(textured(uvs=UVS * 1e6, sampler={"wrapS": CLAMP}), tmp_path)
    assert "is repeated, where it should be clamped" in notes
    assert mesh.texture.shape == (8, 8, 3)


def refused(path, data):
    """The one line that says why a file cannot be read."""
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=r".") as caught:
            Mesh.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


INSTANCES = {"EXT_mesh_gpu_instancing": {"attributes": {"SCALE": 0}}}


@for_each(
    "message, make, path, value",
    [
        ("it requires KHR_a, which", gltf.plain, ("extensionsRequired",), ["KHR_a"]),
        ("version 1.0 of glTF", gltf.plain, ("asset", "version"), "1.0"),
        ("version 2.1 of glTF", gltf.plain, ("asset", "minVersion"), "2.1"),
        ("version None of glTF", gltf.plain, ("asset",), {}),
        ("its asset is 3, no object", gltf.plain, ("asset",), 3),
        ("ends at byte 60 of 48", gltf.plain, ("accessors", 0, "count"), 5),
        ("ends at byte 52 of 48", gltf.plain, ("accessors", 0, "byteOffset"), 4),
        ("a face names vertex 3", gltf.plain, ("accessors", 0, "count"), 3),
        ("component type 5124", gltf.plain, ("accessors", 0, "componentType"), 5124),
        ("is 'VEC2', not VEC3", gltf.plain, ("accessors", 0, "type"), "VEC2"),
        ("has no values", gltf.plain, ("accessors", 0, "count"), 0),
        ("names 9 of its 2 bufferViews", gltf.plain, ("accessors", 0, "bufferView"), 9),
        ("its buffer view 0 ends at", gltf.plain, ("bufferViews", 0, "byteLength"), 999),
        ("names -1 of its 1 nodes", gltf.plain, ("scenes", 0, "nodes"), [-1]),
        ("two parents", gltf.plain, (*NODE, "children"), [0]),
        ("a rotation in it is 0", gltf.plain, (*NODE, "rotation"), [0, 0, 0, 0]),
        ("is not affine", gltf.plain, (*NODE, "matrix"), [1.0] * 16),
        ("its scale is [1, 1], not 3", gltf.plain, (*NODE, "scale"), [1, 1]),
        ("names joint 1 of 1", gltf.skinned, ("skins", 0, "joints"), [0]),
        ("has a skin and EXT_mesh_gpu", gltf.skinned, ("nodes", 2, "extensions"), INSTANCES),
        ("has no JOINTS_0", gltf.plain, NODE, {"mesh": 0, "skin": 0}),
        ("weights for 2 morph", gltf.skinned, ("meshes", 0, "weights"), [0, 0, 1]),
        ("has 3 values for 4 vertices", textured, ("accessors", 0, "count"), 3),
        ("is 'SCALAR', not VEC2", textured, (*PART, "attributes", "TEXCOORD_0"), 2),
        ("wraps by", textured, ("samplers",), [{"wrapS": 3}]),
        ("holds no faces", gltf.plain, (*PART, "mode"), 0),
        ("holds no faces", gltf.plain, ("scenes", 0, "nodes"), []),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, message, make, path, value):
    file = changed(make, *path, value=value)
    file.tree.setdefault("skins", [{"joints": [0]}])
    for texture in file.tree.get("textures", ()):
        texture["sampler"] = 0
    file.tree.setdefault("samplers", [{}])
    assert message in refused(tmp_path / "m.glb", file.bytes())


def test_what_is_compressed_or_cut_is_refused_by_name(tmp_path):
    path, draco, squeezed = tmp_path / "m.glb", gltf.plain(), gltf.plain()
    name = "KHR_draco_mesh_compression"
    packed = {name: {"bufferView": 0, "attributes": {}}}
    draco.tree["meshes"][0]["primitives"][0]["extensions"] = packed
    for accessor in draco.tree["accessors"]:
        del accessor["bufferView"]
    assert name in refused(path, draco.bytes())
    for view in squeezed.tree["bufferViews"]:
        more = {"byteStride": 4, "mode": "ATTRIBUTES", "count": 4}
        view["extensions"] = {"EXT_meshopt_compression": view | more}
    assert "EXT_meshopt_compression" in refused(path, squeezed.bytes())
    for view in squeezed.tree["bufferViews"]:
        packed = view.pop("extensions")["EXT_meshopt_compression"] | {"filter": "OTHER"}
        view["extensions"] = {"KHR_meshopt_compression": packed}
    said = refused(path, squeezed.bytes())
    assert "filter 'OTHER' is not read; npx gltfpack -noq -i IN -o OUT makes" in said
    again = Gltf()
    again.show(again.primitive(corners=np.array([0, 1, 2, 65535, 2, 3], "u2"), mode=5))
    assert "its indices hold 65535, a restart" in refused(path, again.bytes())
    data = gltf.plain().bytes()
    for message, content in (
        ("its JSON is damaged", b"PK\3\4" + data),
        ("version 1 of glTF", data[:4] + struct.pack("<I", 1) + data[8:]),
        ("bytes", data[:-4]),
        ("first chunk is no JSON", data[:16] + b"BIN\0" + data[20:]),
        ("first chunk is no JSON", data[:12] + struct.pack("<I", 10**9) + data[16:]),
        ("its JSON is damaged", glb(b'{"asset": ')),
        ("its JSON is no object", glb(b"[]")),
        ("version nan of glTF", glb(b'{"asset": {"version": NaN}}')),
        ("its buffer 0 has 4 of 60 bytes", glb(json.dumps(tree_of(data)).encode(), b"1234")),
    ):
        assert message in refused(path, content)


def test_whatever_is_wrong_is_one_line(tmp_path, seed):
    """Samples in which a value is replaced by another, or a byte by any."""
    g = np.random.default_rng(seed)
    values = (None, -1, 0, 1, 7, 10**12, 1e300, "", "x", [], [0], {}, {"a": 0}, True, math.nan)
    refusals = 0
    for number in range(300):
        file = [*SAMPLES, textured][number % (len(SAMPLES) + 1)]()
        data = bytearray(file.bytes())
        if number % 3:
            places = [(owner, key) for owner, key in walk(file.tree) if key != "asset"]
            owner, key = places[g.integers(len(places))]
            owner[key] = values[g.integers(len(values))]
            data = bytearray(glb(json.dumps(file.tree).encode(), file.data))
        else:
            for place in g.integers(0, len(data), 3):
                data[place] = g.integers(256)
        path = tmp_path / "m.glb"
        path.write_bytes(data)
        reason = ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                Mesh.load(path)
            except ValueError as error:
                reason = str(error)
        if reason:
            refusals += 1
            assert str(path) in reason
            assert "\n" not in reason
            assert len(reason) < 500
    assert 100 < refusals < 290


def walk(owner):
    """Each place in a tree: (object or list, key)."""
    for key in owner if isinstance(owner, dict) else range(len(owner)):
        yield owner, key
        if isinstance(owner[key], dict | list):
            yield from walk(owner[key])


def test_compressed_files(tmp_path):
    """What is compressed is as it was before, where the packages are that read it."""
    draco = pytest.importorskip("DracoPy", reason="pip install DracoPy")
    file = gltf.plain()
    name = file.extension("KHR_draco_mesh_compression", required=True)
    packed = draco.encode(POINTS, CORNERS.reshape(-1, 3), preserve_order=True)
    view = {"bufferView": file.view(packed), "attributes": {"POSITION": 0}}
    file.tree["meshes"][0]["primitives"][0]["extensions"] = {name: view}
    for accessor in file.tree["accessors"]:
        del accessor["bufferView"]
    mesh, _ = loaded(file, tmp_path)
    assert_close(mesh.face_vertices, torch.from_numpy(POINTS[CORNERS.reshape(-1, 3)]).double())
    assert "is damaged" in refused(tmp_path / "m.glb", file.bytes().replace(b"DRACO", b"DRAKO"))
    # Another primitive may have the same accessor of indices, and points of its own.
    first = file.tree["meshes"][0]["primitives"][0]
    packed = draco.encode(POINTS + 5, CORNERS.reshape(-1, 3), preserve_order=True)
    view = {"bufferView": file.view(packed), "attributes": {"POSITION": 0}}
    place = file.tree["accessors"][first["attributes"]["POSITION"]]
    other = {"POSITION": file.add("accessors", **place)}
    file.tree["meshes"][0]["primitives"].append(
        {**first, "attributes": other, "extensions": {name: view}}
    )
    assert loaded(file, tmp_path)[0].vertices.amax() == POINTS.max() + 5
    optimizer = pytest.importorskip("meshoptimizer", reason="pip install meshoptimizer")
    file = gltf.plain()
    name = file.extension("EXT_meshopt_compression", required=True)
    points, corners = file.tree["bufferViews"]
    packed = (
        optimizer.encode_vertex_buffer(POINTS, 4, 12),
        optimizer.encode_index_buffer(CORNERS.astype("u4"), 6, 4),
    )
    for view, data, how in zip((points, corners), packed, (
        {"byteStride": 12, "mode": "ATTRIBUTES", "count": 4},
        {"byteStride": 2, "mode": "TRIANGLES", "count": 6},
    ), strict=True):  # fmt: skip
        place = file.tree["bufferViews"][file.view(data)]
        view["extensions"] = {name: place | how}
        view["buffer"] = 1
    file.add("buffers", byteLength=99, extensions={name: {"fallback": True}})
    assert_close(loaded(file, tmp_path)[0].vertices, torch.from_numpy(POINTS).double())
    points["extensions"][name]["count"] = 10**12
    assert "claims arrays of" in refused(tmp_path / "m.glb", file.bytes())


@for_each("encoded, expected", [
    ([[0x40, 0x7F, 0xC1, 0xFF], [0x7F, 0, 0x7F, 0xC0], [0x40, 0x81, 0xC0, 0xA0],
      [0x66, 0, 0, 0xDF]],
     [[254, 1, 0, 255], [0, 254, 0, 128], [1, 0, 255, 64], [102, 102, 102, 191]]),
    ([[0x400, 0x7FF, 0xFC01, 0xFFF], [0x7FF, 0, 0x7FF, 0xC00], [0x400, 0xF801, 0xFC00, 0xA00],
      [0x666, 0, 0, 0xDFF]],
     [[65519, 16, 0, 65535], [0, 65519, 0, 32776], [16, 0, 65535, 16388],
      [26214, 26214, 26214, 49147]]),
])  # fmt: skip
def test_colours_that_meshopt_filters(tmp_path, encoded, expected):
    """The colours of meshoptimizer's own test of its decoder, to one unit."""
    optimizer = pytest.importorskip("meshoptimizer", reason="pip install meshoptimizer")
    size = 1 if max(map(max, encoded)) < 256 else 2
    file = gltf.plain()
    name = file.extension("KHR_meshopt_compression", required=True)
    (part,) = file.tree["meshes"][0]["primitives"]
    colours = file.accessor(np.zeros((4, 4)), f"u{size}", normalized=True)
    part["attributes"]["COLOR_0"] = colours
    view = file.tree["bufferViews"][file.tree["accessors"][colours]["bufferView"]]
    data = np.array(encoded, f"<u{size}")
    place = file.tree["bufferViews"][file.view(optimizer.encode_vertex_buffer(data, 4, 4 * size))]
    how = {"byteStride": 4 * size, "mode": "ATTRIBUTES", "count": 4, "filter": "COLOR"}
    view["extensions"] = {name: place | how}
    found = to_linear(loaded(file, tmp_path)[0].vertex_colors.numpy()) * (256**size - 1)
    np.testing.assert_allclose(found, np.array(expected)[:, :3], atol=1.01)


# -- other programs --------------------------------------------------------------------------------


def by_node(task, files):
    """What `support/gltf.js` says of each file; skips the test where its packages are missing."""
    node = shutil.which("node")
    package = {"decode": "@gltf-transform/extensions", "validate": "gltf-validator"}[task]
    if (
        node is None
        or subprocess.run([node, "-e", f"require('{package}')"], capture_output=True).returncode
    ):
        pytest.skip(f"needs node, and npm install {package} in the folder above NODE_PATH")
    command = [node, str(FOLDER / "gltf.js"), task, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.every
def test_another_decoder_finds_the_same_triangles(tmp_path):
    """glTF Transform, with the formulas of the specification in `support/gltf.js`."""
    files = [tmp_path / f"{make.__name__}.glb" for make in SAMPLES]
    for make, path in zip(SAMPLES, files, strict=True):
        path.write_bytes(make().bytes())
    for path, faces in zip(files, by_node("decode", files), strict=True):
        mesh, _ = loaded(path.read_bytes(), tmp_path)
        corners = np.array([[corner["at"] for corner in face] for face in faces])
        colors = np.array([[corner["color"] for corner in face] for face in faces])
        got = mesh.face_vertices.numpy()
        assert got.shape == corners.shape, path.name
        table = mesh.corner_colors
        shown = np.ones_like(got) if table is None else table.numpy()
        want = np.concatenate((corners, from_linear(colors.clip(0, 1))), -1).reshape(len(got), -1)
        have = np.concatenate((got, shown), -1).reshape(len(got), -1)
        scale = np.abs(corners).max()
        for face in have:  # in any order
            gaps = np.abs(want - face).max(1)
            assert gaps.min() < 1e-5 * scale, path.name
            want[gaps.argmin()] = np.inf
        if faces[0][0]["uv"] is not None:
            uvs = np.array([[corner["uv"] for corner in face] for face in faces])
            assert mesh.corner_uvs[..., 0].sum().item() == pytest.approx(uvs[..., 0].sum())


@pytest.mark.every
def test_what_is_written_is_valid(tmp_path):
    """Neither an error nor a warning of Khronos' validator."""
    ball = icosphere(1)
    colors = torch.rand(42, 3)
    painted = ball.with_uvs(ball.vertices[:, :2] / 2 + 0.5, ball.faces).with_texture(
        torch.rand(4, 4, 3)
    )
    loose = torch.cat((ball.vertices, torch.ones(1, 3)))
    meshes = (
        ball, cube(), painted, painted.with_vertex_colors(colors), painted.with_unlit(),
        ball.with_vertex_colors(colors), ball.with_face_colors(torch.rand(80, 3)).with_unlit(),
        painted.with_texture(None), painted.with_face_colors(torch.rand(80, 3)),
        ball.with_origin(torch.tensor([5e5, 4e6, 12.0])), Mesh(loose, ball.faces),
        Mesh(torch.zeros(3, 3), torch.tensor([[0, 1, 2]])),
    )  # fmt: skip
    files = []
    for number, mesh in enumerate(meshes):
        for normals in (False, True):
            for ending in ("glb", "gltf"):
                path = tmp_path / f"{number}{normals}.{ending}"
                for place, content in mesh.to_files(path, normals=normals).items():
                    place.write_bytes(content)
                files.append(path)
    for make in SAMPLES:  # the samples are sound as well
        path = tmp_path / f"{make.__name__}.glb"
        path.write_bytes(make().bytes())
        files.append(path)
    for path, issues in zip(files, by_node("validate", files), strict=True):
        meant = [each for each in issues if "will not affect a skinned mesh" in each]
        assert issues == meant, path.name
