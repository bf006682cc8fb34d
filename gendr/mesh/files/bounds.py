"""What a mesh file says it holds, checked before anything is made of it.

A few hundred bytes of a GLB may claim any number of values, place one mesh any number of times, or
nest nodes so deeply that trimesh, which looks for the path to each of them, takes minutes. A text
may have one face of millions of corners, or millions of lines that hold nothing.

Source: glTF 2.0, sections 3.5 (nodes are trees), 3.6 (buffers, accessors), 4.4 (chunks).
"""

from __future__ import annotations

import json
import struct
from typing import Any, AnyStr

__all__ = ["check_glb", "is_too_long", "most_corners"]

# Bytes of arrays that a small file may become, and how many times its own size a large one. Views,
# the values in them and what is drawn as float64 and int64 come to 10 times at most.
_MOST_BYTES, _TIMES = 1 << 29, 16
# Nodes with a mesh, each of which takes about 0.1 ms, and the sum of their squared depths, which is
# what the search for their paths takes: 10,000 nodes may be 100 deep, one 10,000.
_NODES, _STEPS = 100_000, 10**8
_BYTES = {"5120": 1, "5121": 1, "5122": 2, "5123": 2}  # and 4 for the others
_NUMBERS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}


def most_corners(vertices: int) -> int:
    """How many corners a face may have: where it has a hole, it passes some vertices twice."""
    return max(2 * vertices, 1000)


def is_too_long(line: AnyStr, words: int) -> bool:
    """Whether a line has more than some number of words, of which no more are read."""
    return len(line) > 2 * words and len(line.split(None, words)) > words


def check_glb(data: bytes) -> None:
    """Raise for a GLB that is cut short, or that would become far more than it holds.

    Other damage is left to the reader.

    Raises:
        ValueError: for more arrays, nodes or levels of nodes than are read, or nodes that are no
            trees.
    """
    if data[:4] != b"glTF" or len(data) < 20:
        return
    length, size = struct.unpack("<8xII", data[:16])
    if length > len(data):
        raise ValueError(f"it has {len(data)} of {length} bytes")
    header = json.loads(data[20 : 20 + size])
    if not isinstance(header, dict):
        raise ValueError("its JSON is no object")
    places = _places(header)
    needed, most = _bytes_needed(header, places), max(_MOST_BYTES, _TIMES * len(data))
    if needed > most:
        raise ValueError(
            f"it claims arrays of {needed:.3g} bytes, at most {most:.3g} are read; "
            "save it with fewer instances, or in parts"
        )


def _places(header: dict[str, Any]) -> dict[int, int]:
    """How many nodes of the scene show each mesh."""
    nodes, scenes = _objects(header, "nodes"), _objects(header, "scenes")
    chosen = _count(header.get("scene", 0))
    level = _indices(scenes[chosen], "nodes") if chosen < len(scenes) else []
    places: dict[int, int] = {}
    seen: set[int] = set()
    depth = shown = steps = 0
    while level:
        depth += 1
        below: list[int] = []
        for index in level:
            if index in seen:
                raise ValueError(f"its nodes are no tree: node {index} has two parents")
            seen.add(index)
            node = nodes[index] if index < len(nodes) else {}
            below += _indices(node, "children")
            if "mesh" in node:
                mesh = _count(node["mesh"])
                places[mesh] = places.get(mesh, 0) + 1
                shown, steps = shown + 1, steps + depth * depth
        level = below
    if shown > _NODES:
        raise ValueError(f"{shown} of its nodes have a mesh, at most {_NODES} are read; join them")
    if steps > _STEPS:
        raise ValueError(f"its nodes are nested too deeply ({depth} levels); join some of them")
    return places


def _bytes_needed(header: dict[str, Any], places: dict[int, int]) -> int:
    """Bytes of the views of buffers, of the values in them, and of all meshes where they are."""
    accessors = _objects(header, "accessors")
    counts = [_count(accessor.get("count")) for accessor in accessors]
    total = sum(_count(view.get("byteLength")) for view in _objects(header, "bufferViews"))
    for count, accessor in zip(counts, accessors, strict=True):
        kind, form = str(accessor.get("componentType")), str(accessor.get("type"))
        total += count * _BYTES.get(kind, 4) * _NUMBERS.get(form, 16)

    def drawn(accessor: object, width: int) -> int:
        index = _count(accessor)
        return counts[index] * width if accessor is not None and index < len(counts) else 0

    for number, mesh in enumerate(_objects(header, "meshes")):
        size = 0
        for primitive in _objects(mesh, "primitives"):
            attributes = primitive.get("attributes")
            if isinstance(attributes, dict):
                vertices = drawn(attributes.get("POSITION"), 24)
                size += vertices + (drawn(primitive.get("indices"), 8) or vertices // 3)
        total += size * max(1, places.get(number, 0))
    return total


def _objects(owner: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The objects in a list; what is none counts as empty."""
    values = owner.get(key)
    listed = values if isinstance(values, list) else []
    return [value if isinstance(value, dict) else {} for value in listed]


def _indices(owner: dict[str, Any], key: str) -> list[int]:
    values = owner.get(key)
    return [_count(value) for value in values] if isinstance(values, list) else []


def _count(value: object) -> int:
    """A number >= 0; what is none counts as 0."""
    return max(0, value) if isinstance(value, int) else 0
