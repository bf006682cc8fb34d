"""Which meshes the scene of a glTF file shows, and where.

Source: glTF 2.0, sections 3.5 (scenes, nodes), 3.7.3 (skins); EXT_mesh_gpu_instancing;
KHR_node_visibility.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gendr.mesh.files.gltf import accessors
from gendr.mesh.files.gltf.document import (
    Document,
    GltfError,
    Object,
    child,
    is_count,
    is_number,
    listed,
    numbers,
)
from gendr.mesh.files.reports import note

Array = NDArray[Any]

_INSTANCING = "EXT_mesh_gpu_instancing"


@dataclass
class MeshInstance:
    """A mesh with its pose, and all places in which it is shown."""

    mesh: int
    weights: list[float]  # of its morph targets; those that are missing count as 0
    joints: Array | None = None  # [J, 4, 4], which place it if it has a skin, once
    places: list[Array] = field(default_factory=list)  # [I, 4, 4] each

    @property
    def matrices(self) -> Array:
        """All places: [I, 4, 4]."""
        return np.concatenate(self.places)


def mesh_instances(document: Document) -> list[MeshInstance]:
    """The meshes of the default scene, in the order of its nodes.

    Raises:
        GltfError: for nodes that are no trees, or entries that are not there.
    """
    nodes = [document.item("nodes", i) for i in range(len(document.items("nodes")))]
    parents = _parents(nodes)
    order, world = _placed(document, nodes, parents, _roots(document, nodes, parents))
    if any("camera" in node for node in nodes):
        note(document.notes, "its cameras are left out")
    if document.items("animations"):
        note(document.notes, "its animations are left out: it has the pose of its nodes")
    found: dict[object, MeshInstance] = {}
    hidden = set[int]()
    for index in order:
        node = nodes[index]
        shown = child(child(node, "extensions"), "KHR_node_visibility").get("visible", True)
        if shown is False or parents[index] in hidden:  # parents come first
            hidden.add(index)
            continue
        if "mesh" not in node:
            continue
        mesh = document.item("meshes", node["mesh"])
        weights = listed(node if "weights" in node else mesh, "weights")
        if not all(map(is_number, weights)):
            raise GltfError(f"the weights of its node {index} are no numbers")
        key: object = (node["mesh"], *weights)
        joints = None
        if "skin" in node:
            key, joints = index, _joints(document, node, nodes, parents, world)
        found.setdefault(key, MeshInstance(node["mesh"], weights, joints))
        found[key].places.append(_instances(document, node, world[index], joints is not None))
    if not nodes and document.items("meshes"):
        note(document.notes, "it has no nodes: all its meshes are taken as they are")
        for index in range(len(document.items("meshes"))):
            weights = listed(document.item("meshes", index), "weights")
            found[index] = MeshInstance(index, weights, None, [np.eye(4)[None]])
    return list(found.values())


def _parents(nodes: list[Object]) -> list[int]:
    """The parent of each node, -1 for those without."""
    parents = [-1] * len(nodes)
    for index, node in enumerate(nodes):
        for below in listed(node, "children"):
            if not is_count(below) or below >= len(nodes):
                raise GltfError(f"its node {index} has the child {below!r:.20} of {len(nodes)}")
            if parents[below] >= 0 or below == index:
                raise GltfError(f"its nodes are no tree: node {below} has two parents")
            parents[below] = index
    return parents


def _roots(document: Document, nodes: list[Object], parents: list[int]) -> list[int]:
    """The nodes of the default scene that have no parent."""
    scenes = document.items("scenes")
    if not scenes:
        if nodes:
            note(document.notes, "it has no scene: all its nodes are taken")
        return [index for index, parent in enumerate(parents) if parent < 0]
    chosen = document.tree.get("scene", 0)
    scene = document.item("scenes", chosen)
    if len(scenes) > 1:
        note(document.notes, f"of its {len(scenes)} scenes number {chosen} is read")
    roots = listed(scene, "nodes")
    for index in roots:
        document.item("nodes", index)
        if parents[index] >= 0:
            raise GltfError(f"its nodes are no tree: node {index} has two parents")
    return list(dict.fromkeys(roots))


def _placed(
    document: Document, nodes: list[Object], parents: list[int], roots: list[int]
) -> tuple[list[int], dict[int, Array]]:
    """The nodes below some roots, parents first, and where they lie: [4, 4] each."""
    order, world = list[int](), dict[int, Array]()
    waiting = roots[::-1]
    while waiting:
        index = waiting.pop()
        order.append(index)
        matrix = _local(nodes[index], index)
        world[index] = world[parents[index]] @ matrix if parents[index] >= 0 else matrix
        waiting += listed(nodes[index], "children")[::-1]
        document.budget.spend(200)
    return order, world


def _local(node: Object, index: int) -> Array:
    """The transform of a node: [4, 4]."""
    parts = {"translation", "rotation", "scale"} & set(node)
    if "matrix" in node:
        matrix = numbers(node, "matrix", [0.0] * 16).reshape(4, 4).T  # column by column
        if parts or not np.array_equal(matrix[3], (0, 0, 0, 1)):
            raise GltfError(f"the matrix of its node {index} is not affine, or not alone")
        return matrix
    if not parts:
        return np.eye(4)
    return _composed(
        numbers(node, "translation", [0.0] * 3)[None],
        numbers(node, "rotation", [0.0, 0.0, 0.0, 1.0])[None],
        numbers(node, "scale", [1.0] * 3)[None],
    )[0]


def _composed(move: Array, turn: Array, scale: Array) -> Array:
    """Matrices [N, 4, 4] that scale, then turn by quaternions x, y, z, w, then move."""
    length = np.linalg.norm(turn, axis=1, keepdims=True)
    if not length.all():
        raise GltfError("a rotation in it is 0, no unit quaternion")
    x, y, z, w = (turn / length).T
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)),
        (2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)),
        (2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)),
    )
    found = np.tile(np.eye(4), (len(move), 1, 1))
    found[:, :3, :3] = np.stack([np.stack(row, -1) for row in rows], 1) * scale[:, None]
    found[:, :3, 3] = move
    return found


def _instances(document: Document, node: Object, place: Array, skinned: bool) -> Array:
    """The places of the mesh of a node: [I, 4, 4], one without EXT_mesh_gpu_instancing."""
    extension = child(child(node, "extensions"), _INSTANCING)
    attributes = child(extension, "attributes")
    if not attributes:
        return place[None]
    if skinned:
        raise GltfError(f"a node has a skin and {_INSTANCING}, which together mean nothing")
    tables = {
        name: accessors.values(document, attributes[name], kind)
        for name, kind in (("TRANSLATION", "VEC3"), ("ROTATION", "VEC4"), ("SCALE", "VEC3"))
        if name in attributes
    }
    # Names with "_" are those of programs; _COLOR_0 is what three.js has for colours of each place.
    if any(name[:1] != "_" or name[:6] == "_COLOR" for name in attributes.keys() - tables.keys()):
        note(document.notes, f"of {_INSTANCING} only the places are read")
    sizes = {len(table) for table in tables.values()}
    if len(sizes) > 1:
        raise GltfError(f"the attributes of {_INSTANCING} have {sorted(sizes)} values")
    number = sizes.pop() if sizes else 1
    defaults = {"TRANSLATION": (0, 0, 0), "ROTATION": (0, 0, 0, 1), "SCALE": (1, 1, 1)}
    document.budget.spend(number * 256)
    return place @ _composed(
        *(tables.get(name, np.tile(value, (number, 1))) for name, value in defaults.items())
    )


def _joints(
    document: Document,
    node: Object,
    nodes: list[Object],
    parents: list[int],
    world: dict[int, Array],
) -> Array:
    """The matrices [J, 4, 4] of the joints of the skin of a node, wherever they are."""
    skin = document.item("skins", node["skin"])
    places: list[Array] = []
    for joint in listed(skin, "joints"):
        document.item("nodes", joint)
        if joint not in world:  # of another scene, or of none
            path = [joint]
            while parents[path[-1]] >= 0 and len(path) <= len(nodes):
                path.append(parents[path[-1]])
            if len(path) > len(nodes):
                raise GltfError(f"its nodes are no tree: node {joint} is above itself")
            more = _placed(document, nodes, parents, path[-1:])[1]
            world |= more
        places.append(world[joint])
    if not places:
        raise GltfError("a skin in it has no joints")
    found = np.stack(places)
    if "inverseBindMatrices" in skin:
        inverse = accessors.values(document, skin["inverseBindMatrices"], "MAT4")
        if len(inverse) < len(found):
            raise GltfError(f"a skin in it has {len(inverse)} matrices for {len(found)} joints")
        found = found @ inverse[: len(found)].reshape(-1, 4, 4).transpose(0, 2, 1)
    return found
