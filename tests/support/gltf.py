"""A writer of glTF files with anything in them, and samples of the features that exporters use."""

import json
import struct
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

FORMS = {"i1": 5120, "u1": 5121, "i2": 5122, "u2": 5123, "u4": 5125, "f4": 5126}
KINDS = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4", 16: "MAT4"}

POINTS = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], "f4")
CORNERS = np.array([0, 1, 2, 0, 2, 3], "u2")
UVS = np.array([[0, 1], [1, 1], [1, 0], [0, 0]], "f4")  # v down: the whole image, upright


class Gltf:
    """The tree of a file, and the bytes of its buffer; each method adds something to both."""

    def __init__(self):
        self.data = b""
        self.tree: dict[str, Any] = {
            "asset": {"version": "2.0"}, "buffers": [{}], "bufferViews": [], "accessors": [],
            "meshes": [], "nodes": [], "scenes": [{"nodes": []}], "scene": 0,
        }  # fmt: skip

    def add(self, key, **entry):
        """The index of a new entry of a list of the tree."""
        entries = self.tree.setdefault(key, [])
        entries.append(entry)
        return len(entries) - 1

    def extension(self, name, *, required=False):
        for key in ("extensionsUsed", "extensionsRequired")[: 1 + required]:
            if name not in self.tree.setdefault(key, []):
                self.tree[key].append(name)
        return name

    def view(self, data, offset=0, **rest):
        """The index of a new view of bytes, which begin `offset` bytes after a multiple of 4."""
        self.data += b"\0" * (-len(self.data) % 4 + offset)
        place = {"buffer": 0, "byteOffset": len(self.data), "byteLength": len(data)}
        self.data += data
        return self.add("bufferViews", **place, **rest)

    def accessor(self, table, form="f4", *, stride=None, sparse=None, offset=0, **rest):
        """The index of an accessor of a table in the numbers of a form.

        `stride` sets its rows apart. `sparse`, a list of rows, writes those as replacements in a
        table of zeros, or of nothing if it is empty; what they replace is wrong otherwise.
        """
        table = np.ascontiguousarray(table).astype("<" + form)
        table = table.reshape(len(table), -1)
        entry = {"componentType": FORMS[form], "count": len(table), "type": KINDS[table.shape[1]]}
        if entry["type"] == "VEC3":
            entry |= {"min": table.min(0).tolist(), "max": table.max(0).tolist()}
        base = table.copy()
        if sparse is not None:
            base[sparse] = 7
            where = self.view(np.array(sparse, "<u2").tobytes())
            what = self.view(table[sparse].tobytes())
            entry["sparse"] = {
                "count": len(sparse), "indices": {"bufferView": where, "componentType": 5123},
                "values": {"bufferView": what},
            }  # fmt: skip
        if sparse is None or len(sparse) < len(table):
            rows = base.view(np.uint8).reshape(len(base), -1)
            wide = np.full((len(rows), stride or rows.shape[1]), 99, np.uint8)
            wide[:, : rows.shape[1]] = rows
            more = {} if stride is None else {"byteStride": stride}
            entry["bufferView"] = self.view(wide.tobytes(), offset, **more)
        return self.add("accessors", **entry, **rest)

    def image(self, pixels, form="PNG", **rest):
        """The index of a texture of an image inside the file."""
        file = BytesIO()
        options = {"lossless": True} if form == "WEBP" else {}
        Image.fromarray(pixels).save(file, form, **options)
        view, kind = self.view(file.getvalue()), f"image/{form.lower()}"
        return self.add(
            "textures", source=self.add("images", bufferView=view, mimeType=kind), **rest
        )

    def material(self, image=None, info=None, beside=None, **look):
        """The index of a material with a texture, what is said of that, and factors."""
        if image is not None:
            look["baseColorTexture"] = {"index": image, **(info or {})}
        return self.add("materials", pbrMetallicRoughness=look, **(beside or {}))

    def primitive(self, points=POINTS, corners: Any = CORNERS, attributes=None, **rest):
        """A primitive of a square, or of other points and corners."""
        found = {"attributes": {"POSITION": self.accessor(points), **(attributes or {})}, **rest}
        if corners is not None:
            found["indices"] = self.accessor(corners, corners.dtype.str[1:])
        return found

    def show(self, *primitives, children=(), mesh=None, **node):
        """The index of a node of the scene with a mesh of primitives."""
        index = self.add("nodes", mesh=self.add("meshes", primitives=[*primitives], **(mesh or {})))
        self.tree["nodes"][index] |= node
        self.tree["scenes"][0]["nodes"].append(index)
        return index

    def bytes(self):
        """The content of a GLB."""
        self.data += b"\0" * (-len(self.data) % 4)
        self.tree["buffers"][0]["byteLength"] = len(self.data)
        tree = {key: value for key, value in self.tree.items() if value != []}
        return glb(json.dumps(tree).encode(), self.data)


def glb(text, data=b""):
    """A GLB of a text of JSON and a buffer."""
    chunks = b""
    for kind, content in ((b"JSON", text), (b"BIN\0", data)):
        content += b" " * (-len(content) % 4)
        chunks += struct.pack("<I4s", len(content), kind) + content
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def tree_of(data):
    """The JSON of a GLB."""
    (length,) = struct.unpack("<I", data[12:16])
    return json.loads(data[20 : 20 + length])


def turned(seed):
    """A quaternion x, y, z, w."""
    q = np.random.default_rng(seed).normal(size=4)
    return (q / np.linalg.norm(q)).tolist()


# -- samples ---------------------------------------------------------------------------------------


def plain():
    file = Gltf()
    file.show(file.primitive())
    return file


def interleaved():
    """Bytes of positions, normalized, sparse and apart; UVs of 16 bits; colours of 8."""
    file = Gltf()
    file.extension("KHR_mesh_quantization", required=True)
    g = np.random.default_rng(1)
    points = g.integers(-127, 128, (40, 3))
    corners = g.integers(0, 40, 90).astype("u1")
    attributes = {
        "POSITION": file.accessor(points, "i1", stride=4, sparse=[3, 9, 30], normalized=True),
        "TEXCOORD_0": file.accessor(g.integers(0, 65536, (40, 2)), "u2", stride=8, normalized=True),
        "COLOR_0": file.accessor(
            g.integers(0, 256, (40, 4)), "u1", sparse=[0, 39], normalized=True
        ),
    }
    indices = file.accessor(corners, "u1", sparse=[0, 7])
    file.show({"attributes": attributes, "indices": indices}, scale=[3, 2, 5])
    return file


def hierarchy():
    """Nodes in nodes, one of them mirrored; a fan, a strip and loose triangles."""
    file = Gltf()
    g = np.random.default_rng(2)
    points = g.normal(size=(8, 3)).astype("f4")
    fan = file.primitive(points, np.arange(8, dtype="u4"), mode=6)
    strip = file.primitive(points + 1, np.array([3, 1, 0, 5, 7, 2, 6], "u1"), mode=5)
    loose = file.primitive(points[:6], None)
    matrix = np.diag([2, 0.5, -3, 1])[[1, 2, 0, 3]]  # a turn by 120 degrees, and a mirror
    matrix[:3, 3] = g.normal(size=3)
    inner = file.add("nodes", mesh=0, rotation=turned(3), scale=[-1, 2, 0.5])
    below = file.add("nodes", matrix=matrix.T.ravel().tolist(), children=[inner])
    file.show(fan, strip, loose, translation=[1, 2, 3], rotation=turned(4), children=[below])
    return file


def skinned():
    """Two joints, weights of bytes, a morph target, and a node that does not count."""
    file = Gltf()
    g = np.random.default_rng(5)
    points = g.normal(size=(6, 3)).astype("f4")
    share = g.integers(0, 256, 6)
    bind = np.eye(4) + 0.2 * g.normal(size=(2, 4, 4))
    bind[:, 3] = 0, 0, 0, 1
    skin = file.add(
        "skins", joints=[0, 1],
        inverseBindMatrices=file.accessor(bind.transpose(0, 2, 1).reshape(2, 16)),
    )  # fmt: skip
    file.add("nodes", translation=[1, 0, 0], rotation=turned(6), children=[1])
    file.add("nodes", scale=[1, 2, 3], translation=[0, 1, 0])
    file.tree["scenes"][0]["nodes"].append(0)
    zero = np.zeros(6)
    attributes = {
        "JOINTS_0": file.accessor(np.stack([zero, zero + 1, zero, zero], 1), "u1"),
        "WEIGHTS_0": file.accessor(
            np.stack([share, 255 - share, zero, zero], 1), "u1", normalized=True
        ),
    }
    targets = [{"POSITION": file.accessor(g.normal(size=(6, 3)))} for _ in range(2)]
    part = file.primitive(points, np.arange(6, dtype="u2"), attributes, targets=targets)
    file.show(part, skin=skin, scale=[100, 100, 100], mesh={"weights": [0.25, -0.5]})
    return file


def morphed():
    """A node whose weights count before those of the mesh; a sparse target; a target of colours."""
    file = Gltf()
    colors = np.full((4, 3), 0.25)
    targets = [
        {"POSITION": file.accessor(np.eye(4, 3) * 2, sparse=[0, 1, 2, 3])},
        {"POSITION": file.accessor(np.ones((4, 3))), "COLOR_0": file.accessor(colors)},
    ]
    attributes = {"COLOR_0": file.accessor(colors)}
    part = file.primitive(attributes=attributes, targets=targets)
    file.show(part, mesh={"weights": [1, 0]}, weights=[0.5, 2])
    file.add("nodes", mesh=0, translation=[5, 0, 0])
    file.tree["scenes"][0]["nodes"].append(1)
    return file


def instanced():
    file = Gltf()
    name = file.extension("EXT_mesh_gpu_instancing", required=True)
    turns = np.round(np.array([turned(i) for i in range(3)]) * 127)
    attributes = {
        "TRANSLATION": file.accessor([[0, 0, 0], [2, 0, 0], [0, 4, 1]]),
        "ROTATION": file.accessor(turns, "i1", normalized=True),
        "SCALE": file.accessor([[1, 1, 1], [1, 2, 1], [-1, 1, 3]]),
    }
    file.show(file.primitive(), scale=[2, 1, 1], extensions={name: {"attributes": attributes}})
    return file


def coloured():
    """A factor times colours, of all types; two meshes of one vertex buffer; unlit."""
    file = Gltf()
    unlit = {"extensions": {file.extension("KHR_materials_unlit"): {}}}
    paint = file.material(baseColorFactor=[0.5, 0.25, 1, 1], beside=unlit)
    g = np.random.default_rng(7)
    shared = file.accessor(POINTS)
    for k, (form, width) in enumerate((("f4", 3), ("u1", 4), ("u2", 3), ("u2", 4))):
        most = 1 if form == "f4" else np.iinfo(form).max
        colors = np.round(g.random((4, width)) * most) if most > 1 else g.random((4, width))
        stride = 4 if form == "u1" else None if form == "f4" else 8
        flag = {} if form == "f4" else {"normalized": True}
        attributes = {"POSITION": shared,
                      "COLOR_0": file.accessor(colors, form, stride=stride, **flag)}  # fmt: skip
        part = {
            "attributes": attributes,
            "material": paint,
            "indices": file.accessor(CORNERS, "u2"),
        }
        file.show(part, translation=[2 * k, 0, 0])
    return file


def two_scenes():
    """The second one is the default; a camera, and points, are no triangles."""
    file = plain()
    file.add("scenes", nodes=[file.add("nodes", mesh=0, scale=[3, 1, 1])])
    file.tree["scene"] = 1
    file.add("cameras", type="perspective", perspective={"yfov": 1, "znear": 1})
    file.tree["scenes"][1]["nodes"].append(file.add("nodes", camera=0))
    file.tree["meshes"][0]["primitives"].append(file.primitive(corners=None, mode=0))
    return file


SAMPLES = (plain, interleaved, hierarchy, skinned, morphed, instanced, coloured, two_scenes)
