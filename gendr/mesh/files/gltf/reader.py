"""Reading glTF 2.0: the triangles of the default scene in their pose, with their base colours.

Source: glTF 2.0, section 3.7 (meshes, morph targets, skins); KHR_draco_mesh_compression.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gendr.mesh.files.bounds import TooMuchError
from gendr.mesh.files.gltf import accessors
from gendr.mesh.files.gltf.document import (
    DRACO,
    GENERATOR,
    UNPACK,
    Document,
    GltfError,
    Object,
    child,
    listed,
)
from gendr.mesh.files.gltf.materials import Materials
from gendr.mesh.files.gltf.scene import MeshInstance, mesh_instances
from gendr.mesh.files.reports import note
from gendr.mesh.files.soup import Material, Soup, joined, merge, note_unlit
from gendr.mesh.files.srgb import from_linear

Array = NDArray[Any]

_TRIANGLES, _STRIP, _FAN = 4, 5, 6
# Generators whose vertex colours are sRGB (trimesh 5.2, Open3D 0.20, VTK 9.6; Assimp 6.0, which
# writes those of PLY and OBJ as they are; FBX2glTF 0.9.7 those of FBX), by what names them.
_WRITE_SRGB = ("trimesh", "Open3D", "VTK", "Open Asset Import Library", "FBX2glTF")
# Bytes that a part takes beside its arrays.
_PART = 4096


def read_gltf(path: Path, notes: list[str], max_megapixels: float) -> Soup:
    """Read all meshes of the default scene, placed by their nodes; vertices of a seam are merged.

    Raises:
        ValueError: for what is no glTF 2.0, is damaged or claims far more than it holds, for what
            it requires and is not read, and for an image that is too large.
    """
    try:
        # What overflows or is NaN is refused where the mesh is made; NumPy would only warn of it.
        with np.errstate(all="ignore"):
            return _Reader(Document(path, notes), max_megapixels).soup()
    except (GltfError, TooMuchError) as error:
        kind = path.suffix[1:].upper()
        raise ValueError(f"{path} is no readable {kind} file ({error})") from None


class _Reader:
    """A file while its parts are read: accessors that several of them share are read once."""

    def __init__(self, document: Document, max_megapixels: float) -> None:
        self._document = document
        self._materials = Materials(document, max_megapixels)
        self._uses: Counter[object] = Counter()
        self._tables: dict[tuple[object, bool], Array] = {}
        # Of a file that was written here, the product of texture and colours was one in sRGB.
        generator = str(child(document.tree, "asset").get("generator"))
        self._own = generator == GENERATOR
        self._srgb = next((name for name in _WRITE_SRGB if name in generator), None)

    def soup(self) -> Soup:
        """All parts, joined."""
        document = self._document
        jobs = list[tuple[MeshInstance, Any]]()
        for shown in mesh_instances(document):
            primitives = listed(document.item("meshes", shown.mesh), "primitives")
            document.budget.spend(_PART * len(primitives))
            jobs += [(shown, primitive) for primitive in primitives]
        for _, primitive in jobs:
            if not isinstance(primitive, dict):
                raise GltfError("a primitive of its meshes is no object")
            self._uses.update(map(str, child(primitive, "attributes").values()))
        parts, unlit = list[Soup](), list[bool]()
        for shown, primitive in jobs:
            part = self._part(shown, primitive)
            if part is not None:
                parts.append(part)
                unlit.append(part.materials[0].unlit)
        soup = joined(parts)
        note_unlit(soup, unlit, document.notes)
        merge(soup)
        return soup

    def _part(self, shown: MeshInstance, primitive: Object) -> Soup | None:
        """A primitive in all its places, or None if it has no triangles."""
        notes = self._document.notes
        attributes, mode = child(primitive, "attributes"), primitive.get("mode", _TRIANGLES)
        if mode not in (_TRIANGLES, _STRIP, _FAN) or "POSITION" not in attributes:
            note(notes, "its points and lines, and what has no POSITION, are left out")
            return None
        for name in attributes:
            if name.startswith("COLOR_") and name != "COLOR_0":
                note(notes, f"its {name[:20]} is not drawn")
        self._unpack(primitive, attributes)
        faces = self._faces(primitive, attributes, mode)
        if len(faces) == 0:
            return None
        # Of vertices that several primitives share, each takes its own.
        shared = self._uses[str(attributes["POSITION"])] > 1
        used: Any = slice(None)
        if shared:
            used, inverse = np.unique(faces, return_inverse=True)
            faces = inverse.reshape(-1, 3)

        def read(name: str, *kinds: str, scaled: bool = False) -> Array | None:
            found = self._attribute(shown, primitive, name, kinds, scaled)
            return None if found is None else found[used]

        points = read("POSITION", "VEC3")
        assert points is not None  # it is among the attributes
        vertices, faces, copies = self._placed(shown, attributes, points, faces, used)
        base = self._materials.base(primitive.get("material"))
        texcoord = base.texcoord if base.image >= 0 else 0
        material, uvs = self._materials.painted(base, read(f"TEXCOORD_{texcoord}", "VEC2"))
        colors = read("COLOR_0", "VEC3", "VEC4", scaled=True)
        if colors is not None:
            if colors[:, :3].max() > 1 + 1e-4:
                note(notes, "its vertex colours above 1 are clamped")
            colors = colors[:, :3].clip(0, 1)
            if self._srgb is not None and ((colors > 0) & (colors < 1)).any():
                note(
                    notes,
                    f"its vertex colours are by {self._srgb}, which writes sRGB where glTF has "
                    "linear ones, as which they are read: too bright; a PLY has them right",
                )
            if material.image is None:
                material, colors = Material(unlit=base.unlit), colors * base.factor
            elif not self._own and ((colors > 0) & (colors < 1)).any():
                note(
                    notes,
                    "texture times vertex colours is taken in sRGB, up to 0.03 above the linear "
                    "product of glTF",
                )
            colors = np.tile(from_linear(colors), (copies, 1))
        soup = Soup.plain(vertices, faces)
        soup.vertex_colors, soup.materials = colors, [material]
        soup.face_material = np.zeros(len(faces), np.int64)
        if uvs is not None:
            soup.uvs = np.stack((uvs[:, 0], 1 - uvs[:, 1]), 1)  # v goes up here, down in glTF
            soup.face_uvs = faces % len(points)
        return soup

    def _faces(self, primitive: Object, attributes: Object, mode: int) -> Array:
        """The corners of triangles: int64 [F, 3], each less than the number of vertices."""
        document, total = self._document, self._total(attributes)
        if "indices" in primitive:
            corners = accessors.integers(document, primitive["indices"], "SCALAR")[:, 0]
            if corners.max() >= total:
                raise GltfError(f"a face names vertex {corners.max()}, which is not there")
        else:
            document.budget.spend(total * 8)
            corners = np.arange(total)
        if mode == _TRIANGLES:
            whole = len(corners) // 3 * 3
            if whole < len(corners):
                note(document.notes, "the last of its triangles has no three corners")
            return corners[:whole].reshape(-1, 3)
        first = np.arange(max(0, len(corners) - 2))
        if mode == _FAN:
            picked = np.stack((first + 1, first + 2, first * 0), 1)
        else:  # every second triangle of a strip has the opposite orientation
            picked = np.stack((first, first + 1 + first % 2, first + 2 - first % 2), 1)
        faces = corners[picked]
        a, b, c = faces.T
        return faces[(a != b) & (b != c) & (c != a)]  # the others only lead to another place

    def _attribute(
        self,
        shown: MeshInstance,
        primitive: Object,
        name: str,
        kinds: tuple[str, ...],
        scaled: bool,
    ) -> Array | None:
        """An attribute [V, width] with its morph targets, or None if there is none."""
        attributes, targets = child(primitive, "attributes"), listed(primitive, "targets")
        if name not in attributes:
            return None
        found = self._values(attributes[name], kinds, scaled)
        total = self._total(attributes)
        if len(found) != total:
            raise GltfError(f"its {name} has {len(found)} values for {total} vertices")
        if len(shown.weights) > len(targets) and any(shown.weights[len(targets) :]):
            raise GltfError(f"it has {len(shown.weights)} weights for {len(targets)} morph targets")
        for weight, target in zip(shown.weights, targets, strict=False):
            if not isinstance(target, dict):
                raise GltfError("a morph target in it is no object")
            if weight and name in target:
                change = self._values(target[name], kinds, scaled)
                if change.shape[0] != total or change.shape[1] > found.shape[1]:
                    raise GltfError(f"a morph target of {name} has {len(change)} of {total} values")
                found = found.copy()
                found[:, : change.shape[1]] += weight * change
        return found

    def _total(self, attributes: Object) -> int:
        """How many vertices a primitive has."""
        return accessors.rows_of(self._document.item("accessors", attributes["POSITION"]))

    def _values(self, index: object, kinds: tuple[str, ...], scaled: bool) -> Array:
        key = str(index), scaled
        if key in self._tables:
            return self._tables[key]
        found = accessors.values(self._document, index, *kinds, scaled=scaled)
        if self._uses[str(index)] > 1:
            self._tables[key] = found
        return found

    def _placed(
        self, shown: MeshInstance, attributes: Object, points: Array, faces: Array, used: Any
    ) -> tuple[Array, Array, int]:
        """Vertices [I V, 3] and faces [I F, 3] in the I places of a mesh; mirrored ones turned."""
        spend, total = self._document.budget.spend, self._total(attributes)
        if shown.joints is None:
            matrices = shown.matrices
            copies = len(matrices)
            spend(48 * copies * (len(points) + len(faces)))
            vertices = points @ matrices[:, :3, :3].transpose(0, 2, 1) + matrices[:, None, :3, 3]
            turned = (np.linalg.det(matrices[:, :3, :3]) < 0)[:, None, None]
            faces = np.where(turned, faces[:, [0, 2, 1]], faces)
            faces = faces + len(points) * np.arange(copies)[:, None, None]
            return vertices.reshape(-1, 3), faces.reshape(-1, 3), copies
        spend(400 * len(points))
        sets = range(max(1, sum(name.startswith("JOINTS_") for name in attributes)))
        if not all(f"{part}_{k}" in attributes for part in ("JOINTS", "WEIGHTS") for k in sets):
            raise GltfError("a mesh with a skin has no JOINTS_0 or WEIGHTS_0 of its vertices")
        tables = [
            (
                accessors.integers(self._document, attributes[f"JOINTS_{k}"], "VEC4"),
                self._values(attributes[f"WEIGHTS_{k}"], ("VEC4",), True),
            )
            for k in sets
        ]
        if {len(table) for pair in tables for table in pair} != {total}:
            raise GltfError(f"its JOINTS_0 or WEIGHTS_0 are not of its {total} vertices")
        joints, weights = (np.concatenate(each, 1)[used] for each in zip(*tables, strict=True))
        if joints.max() >= len(shown.joints):
            raise GltfError(f"a vertex names joint {joints.max()} of {len(shown.joints)}")
        lonely = weights.sum(1) == 0
        if lonely.any():
            note(self._document.notes, f"{lonely.sum()} vertices without weights go with a joint")
            weights[lonely, 0] = 1
        weights /= weights.sum(1, keepdims=True)  # rounded ones do not sum to 1
        blend = np.zeros((len(points), 3, 4))
        for joint, weight in zip(joints.T, weights.T, strict=True):
            blend += weight[:, None, None] * shown.joints[joint, :3]
        vertices = np.einsum("vij,vj->vi", blend[:, :, :3], points) + blend[:, :, 3]
        turned = np.linalg.det(blend[:, :, :3])[faces].sum(1) < 0
        return vertices, np.where(turned[:, None], faces[:, [0, 2, 1]], faces), 1

    def _unpack(self, primitive: Object, attributes: Object) -> None:
        """Decompress the accessors of a primitive with KHR_draco_mesh_compression."""
        document, extensions = self._document, child(primitive, "extensions")
        if DRACO not in extensions:
            return
        packed = child(extensions, DRACO)
        indices = primitive.get("indices")
        if all(str(i) in document.unpacked for i in (indices, *attributes.values())):
            return  # primitives may share some of them
        used = [document.item("accessors", i) for i in (indices, *attributes.values())]
        try:
            import DracoPy  # pyright: ignore[reportMissingImports]
        except ImportError:
            if all("bufferView" in accessor for accessor in used):
                return  # the same without compression
            raise GltfError(f"{DRACO} needs DracoPy: pip install DracoPy; or {UNPACK}") from None
        data = document.view(packed.get("bufferView")).tobytes()
        try:
            mesh: Any = DracoPy.decode(data)
            tables = {each["unique_id"]: np.asarray(each["data"]) for each in mesh.attributes}
            faces = np.asarray(mesh.faces, np.uint32)
        except Exception as error:  # noqa: BLE001 (a library of C++, which is given anything)
            reason = str(error) or type(error).__name__
            raise GltfError(f"its {DRACO} is damaged: {reason:.80}") from None
        document.unpacked[str(indices)] = faces.reshape(-1, 1)
        for name, identity in child(packed, "attributes").items():
            if name in attributes and identity in tables:
                table = tables[identity]
                document.budget.grow(table.nbytes)
                document.unpacked[str(attributes[name])] = table.reshape(len(table), -1)
