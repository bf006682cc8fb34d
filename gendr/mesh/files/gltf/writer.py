"""Writing glTF 2.0: one mesh, one node, one material; Khronos' validator has no complaint."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gendr.mesh.files.gltf.document import GENERATOR
from gendr.mesh.files.origins import origin_of
from gendr.mesh.files.srgb import to_linear
from gendr.mesh.files.textures import to_png
from gendr.mesh.parts import MeshParts

Array = NDArray[Any]

_FLOAT, _UINT, _VERTICES, _INDICES = 5126, 5125, 34962, 34963


class _Buffer:
    """The bytes of a file, with the entries of JSON that say what they are."""

    def __init__(self) -> None:
        self.data = b""
        self.views: list[dict[str, Any]] = []
        self.accessors: list[dict[str, Any]] = []

    def view(self, data: bytes, **rest: Any) -> int:
        """Add bytes; returns the index of their view."""
        place = {"buffer": 0, "byteOffset": len(self.data), "byteLength": len(data)}
        self.views.append(place | rest)
        self.data += data + b"\0" * (-len(data) % 4)
        return len(self.views) - 1

    def accessor(self, table: Array, kind: str, *, bounded: bool = False) -> int:
        """Add a table of float32, or of indices; returns the index of its accessor."""
        indices = kind == "SCALAR"
        table = np.ascontiguousarray(table, "<u4" if indices else "<f4")
        target = _INDICES if indices else _VERTICES
        entry: dict[str, Any] = {
            "bufferView": self.view(table.tobytes(), target=target),
            "componentType": _UINT if indices else _FLOAT,
            "count": len(table),
            "type": kind,
        }
        if bounded:
            entry |= {"min": table.min(0).tolist(), "max": table.max(0).tolist()}
        self.accessors.append(entry)
        return len(self.accessors) - 1


def gltf_bytes(parts: MeshParts, kind: str, normals: bool = False) -> bytes:
    """The content of a .glb file, or of a .gltf file that holds all of it.

    Args:
        parts: Without face colours.
        kind: ".glb" or ".gltf".
        normals: whether it has normals of vertices.

    Positions are float32 and count from the origin, which the node has in float64. Colours are
    linear, as float32, so that those of 8 bits come back as they were. The material is no metal,
    and seen from both sides, as faces are drawn here.
    """
    parts = parts.with_vertex_uvs()
    vertices, faces = parts.world_vertices().numpy(), parts.faces.numpy()
    place = origin_of(vertices, torch.float32)
    vertices -= place
    buffer = _Buffer()
    attributes = {"POSITION": buffer.accessor(vertices, "VEC3", bounded=True)}
    if normals:
        attributes["NORMAL"] = buffer.accessor(_normals(vertices, faces), "VEC3")
    if parts.vertex_colors is not None:
        linear = to_linear(parts.vertex_colors.double().clamp(0, 1).numpy())
        attributes["COLOR_0"] = buffer.accessor(linear, "VEC3")
    if parts.uvs is not None:
        uvs = parts.uvs.double().numpy()
        up = np.stack((uvs[:, 0], 1 - uvs[:, 1]), 1)  # v goes down in glTF
        attributes["TEXCOORD_0"] = buffer.accessor(up, "VEC2")
    indices = buffer.accessor(faces.reshape(-1), "SCALAR")
    look: dict[str, Any] = {"metallicFactor": 0.0}
    material: dict[str, Any] = {"pbrMetallicRoughness": look, "doubleSided": True}
    node: dict[str, Any] = {"mesh": 0}
    if place.any():
        node["translation"] = place.tolist()
    primitive = {"attributes": attributes, "indices": indices, "material": 0}
    tree: dict[str, Any] = {
        "asset": {"version": "2.0", "generator": GENERATOR},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [node],
        "meshes": [{"primitives": [primitive]}],
        "materials": [material],
    }
    if parts.unlit:
        material["extensions"] = {"KHR_materials_unlit": {}}
        tree["extensionsUsed"] = ["KHR_materials_unlit"]
    if parts.texture is not None:
        png = buffer.view(to_png(parts.texture))
        look["baseColorTexture"] = {"index": 0}
        tree["textures"] = [{"source": 0}]
        tree["images"] = [{"bufferView": png, "mimeType": "image/png"}]
    tree |= {"accessors": buffer.accessors, "bufferViews": buffer.views}
    content: dict[str, Any] = {"byteLength": len(buffer.data)}
    tree["buffers"] = [content]
    if kind == ".gltf":
        text = base64.b64encode(buffer.data).decode()
        content["uri"] = f"data:application/octet-stream;base64,{text}"
        return json.dumps(tree).encode()
    text = json.dumps(tree).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text
    chunks += struct.pack("<I4s", len(buffer.data), b"BIN\0") + buffer.data
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def _normals(vertices: Array, faces: Array) -> Array:
    """Normals [V, 3] of vertices, of which those at one place have the same, also across seams."""
    _, place = np.unique(vertices, axis=0, return_inverse=True)
    corners = vertices[faces]
    areas = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    summed = np.zeros((place.max() + 1, 3))
    for k in range(3):
        np.add.at(summed, place.ravel()[faces[:, k]], areas)
    found = summed[place.ravel()]
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return np.where(lengths > 0, found / lengths.clip(1e-300), (0.0, 0.0, 1.0))
