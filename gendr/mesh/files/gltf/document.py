"""The container, the JSON and the buffers of a glTF 2.0 file.

Source: glTF 2.0, sections 3.6.1 (buffers), 3.12 (extensions), 4 (GLB); EXT_meshopt_compression.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

import numpy as np
from numpy.typing import NDArray

from gendr._common.texts import decode, find_file
from gendr.mesh.files.bounds import Budget
from gendr.mesh.files.reports import note

Array = NDArray[Any]
Object = dict[str, Any]

# What `asset` says of files that are written here.
GENERATOR = "gendr"
DRACO = "KHR_draco_mesh_compression"
_MESHOPT = ("EXT_meshopt_compression", "KHR_meshopt_compression")
_READ = {
    DRACO,
    *_MESHOPT,
    "EXT_mesh_gpu_instancing",
    "EXT_texture_avif",
    "EXT_texture_webp",
    "KHR_materials_pbrSpecularGlossiness",
    "KHR_materials_unlit",
    "KHR_mesh_quantization",
    "KHR_node_visibility",
    "KHR_texture_transform",
}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # two letters at least: not a drive


class GltfError(ValueError):
    """What a glTF file has that cannot be read, in words that follow "it is no readable file"."""


class Document:
    """The JSON of a file, whose entries are checked when they are asked for, and its buffers.

    Args:
        path: The file.
        notes: Gets a note of everything that is dropped.
        also: Extensions that are read beside those of meshes.

    Raises:
        GltfError: if it is no glTF 2.0, or requires an extension that is not read.
    """

    def __init__(self, path: Path, notes: list[str], also: Collection[str] = frozenset()) -> None:
        data = path.read_bytes()
        self.path, self.notes, self.budget = path, notes, Budget(len(data))
        self._chunk: bytes | None = None
        self._buffers: dict[int, bytes] = {}
        self._views: dict[int, Array] = {}
        self.unpacked: dict[str, Array] = {}  # values of accessors, by their index
        text = self._text_of_binary(data) if data[:4] == b"glTF" else data
        try:
            tree = json.loads(decode(text))
        except RecursionError:
            raise GltfError("it is nested too deeply") from None
        except ValueError as error:
            raise GltfError(f"its JSON is damaged: {error}") from None
        if not isinstance(tree, dict):
            raise GltfError("its JSON is no object")
        self.tree: Object = tree
        self._check_versions()
        self._check_extensions(_READ.union(also))

    def _text_of_binary(self, data: bytes) -> bytes:
        """The JSON of a GLB; its binary chunk is kept."""
        if len(data) < 20:
            raise GltfError("it has no header")
        version, length, size, kind = struct.unpack("<4xIII4s", data[:20])
        if version != 2:
            raise GltfError(f"it is of version {version} of glTF; {_UPGRADE}")
        if length > len(data):
            raise GltfError(f"it has {len(data)} of {length} bytes")
        if kind != b"JSON" or 20 + size > length:
            raise GltfError("its first chunk is no JSON, or longer than the file")
        start = 20 + size
        if start + 8 <= length:
            (more,) = struct.unpack_from("<I", data, start)
            if start + 8 + more > length:
                raise GltfError("its second chunk is longer than the file")
            if data[start + 4 : start + 8] == b"BIN\0":
                self._chunk = data[start + 8 : start + 8 + more]
        return data[20:start]

    def _check_versions(self) -> None:
        asset = child(self.tree, "asset")
        version = str(asset.get("minVersion", asset.get("version")))
        if not version.startswith("2.") or version > "2.0":
            raise GltfError(f"it is of version {version[:20]} of glTF; {_UPGRADE}")

    def _check_extensions(self, read: Collection[str]) -> None:
        used, required = (
            {str(name) for name in listed(self.tree, key)}
            for key in ("extensionsUsed", "extensionsRequired")
        )
        missing = ", ".join(sorted(required.difference(read)))
        if missing:
            raise GltfError(f"it requires {missing}, which is not read; export it without")
        unread = ", ".join(sorted(used.difference(read)))
        if unread:
            note(self.notes, f"its {unread} is not read")

    # -- entries ---------------------------------------------------------------------------------

    def items(self, key: str) -> list[Any]:
        """A list of the file, such as its nodes; empty if it has none."""
        return listed(self.tree, key)

    def item(self, key: str, index: object) -> Object:
        """An entry of a list of the file.

        Raises:
            GltfError: if there is none.
        """
        entries = self.items(key)
        number: Any = index if is_count(index) else len(entries)
        if number >= len(entries):
            raise GltfError(f"it names {index!r:.40} of its {len(entries)} {key}")
        entry = entries[number]
        if not isinstance(entry, dict):
            raise GltfError(f"{index} of its {key} is no object")
        return entry

    # -- bytes -----------------------------------------------------------------------------------

    def resource(self, owner: Object, what: str) -> bytes:
        """The bytes that a URI of a buffer or an image stands for.

        Raises:
            GltfError: if they are not in the file, nor in a file in or below its folder.
        """
        uri = owner.get("uri")
        if not isinstance(uri, str):
            raise GltfError(f"{what} has neither a URI nor bytes in the file")
        if uri.startswith("data:"):
            head, _, content = uri.partition(",")
            if not head.endswith(";base64"):
                return unquote_to_bytes(content)
            try:
                return base64.b64decode(unquote(content), validate=True)
            except (binascii.Error, ValueError):
                raise GltfError(f"the base64 of {what} is damaged") from None
        if _SCHEME.match(uri):
            raise GltfError(f"{what} is not in a file beside it")
        folder = self.path.parent
        for name in (unquote(uri), uri):
            inner = os.path.normpath(name.replace("\\", "/"))
            if os.path.isabs(inner) or inner.split("/")[0] == "..":
                raise GltfError(f"{what} lies outside of its folder; put it there")
            found = find_file(folder, name)
            if found is not None:
                return found.read_bytes()
        raise GltfError(f"{what} is not there")

    def view(self, index: object) -> Array:
        """The bytes of a buffer view: uint8 [N], decompressed.

        Raises:
            GltfError: if it reaches beyond its buffer.
        """
        view = self.item("bufferViews", index)
        number = int(str(index))
        if number not in self._views:
            extensions = child(view, "extensions")
            name = next((name for name in _MESHOPT if name in extensions), None)
            packed = child(extensions, name) if name else view
            start, size = count(packed, "byteOffset", 0), count(packed, "byteLength")
            buffer = self._buffer(packed.get("buffer"))
            if start + size > len(buffer):
                raise GltfError(
                    f"its buffer view {number} ends at byte {start + size} of {len(buffer)}"
                )
            data = np.frombuffer(buffer, np.uint8, size, start)
            self._views[number] = self._decompressed(name, packed, data) if name else data
        return self._views[number]

    def _buffer(self, index: object) -> bytes:
        buffer = self.item("buffers", index)
        number = int(str(index))
        if number not in self._buffers:
            if number == 0 and "uri" not in buffer and self._chunk is not None:
                found = self._chunk
            else:
                uri = unquote(str(buffer.get("uri", "")))
                name = number if uri.startswith("data:") else uri or number
                found = self.resource(buffer, f"its buffer {name!s:.80}")
                self.budget.grow(len(found))
            size = count(buffer, "byteLength")
            if size > len(found):
                raise GltfError(f"its buffer {number} has {len(found)} of {size} bytes")
            self._buffers[number] = found[:size]
        return self._buffers[number]

    def _decompressed(self, name: str, packed: Object, data: Array) -> Array:
        """A buffer view of EXT_meshopt_compression."""
        rows, width = count(packed, "count"), count(packed, "byteStride")
        mode, form = packed.get("mode"), packed.get("filter", "NONE")
        names = {
            "ATTRIBUTES": "vertex_buffer",
            "TRIANGLES": "index_buffer",
            "INDICES": "index_sequence",
        }
        filters = {"NONE": "", "OCTAHEDRAL": "oct", "QUATERNION": "quat", "EXPONENTIAL": "exp"}
        if name.startswith("KHR"):
            filters["COLOR"] = "color"
        if mode not in names or form not in filters:
            raise GltfError(
                f"{name} of mode {mode!r:.20}, filter {form!r:.20} is not read; {_REPACK}"
            )
        try:
            import meshoptimizer  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise GltfError(
                f"{name} needs meshoptimizer: pip install meshoptimizer; or {_REPACK}"
            ) from None
        self.budget.spend(rows * width)
        try:
            decoder: Any = getattr(meshoptimizer, f"decode_{names[mode]}")
            if mode == "ATTRIBUTES":
                found = decoder(rows, width, data, np.dtype((np.void, width)))
                if form == "COLOR":
                    found = _colors(found.view(np.uint8), rows, width)
                elif filters[form]:
                    apply: Any = getattr(meshoptimizer, f"decode_filter_{filters[form]}")
                    found = apply(found.view(np.uint8), rows, width)
            else:
                found = decoder(rows, 4, data).astype(f"<u{width}")
        except (RuntimeError, ValueError, TypeError) as error:
            raise GltfError(f"{name} is damaged: {error}") from None
        self.budget.grow(rows * width)
        return np.ascontiguousarray(found).view(np.uint8).reshape(-1)


def _colors(data: Array, rows: int, width: int) -> Array:
    """Filter 4 of KHR_meshopt_compression, appendix B: RGBA of luma and two signed differences.

    The highest bit of alpha says how many bits there are; it has one less than the others.
    """
    if width not in (4, 8):
        raise ValueError(f"colours of {width} bytes, not 4 or 8")
    size = width // 4
    luma, _, _, alpha = data.view(f"<u{size}").reshape(rows, 4).astype(np.int64).T
    _, orange, green, _ = data.view(f"<i{size}").reshape(rows, 4).astype(np.int64).T
    most = (1 << np.frexp(alpha)[1].astype(np.int64)) - 1
    alpha = alpha & (most >> 1)
    alpha = 2 * alpha + (alpha & 1)
    whole = np.stack((luma + orange - green, luma + green, luma - orange - green, alpha), 1)
    top = (1 << 8 * size) - 1
    values = np.floor(whole * (top / np.maximum(most, 1)[:, None]) + 0.5).clip(0, top)
    return values.astype(f"<u{size}")


_UPGRADE = "2.0 is read: npx gltf-pipeline -i IN -o OUT, or a new export, makes it"
# glTF Transform 4.5 does not read KHR_meshopt_compression.
_REPACK = "npx gltfpack -noq -i IN -o OUT makes a file without it"
UNPACK = "npx @gltf-transform/cli copy IN OUT makes a file without it"


def is_count(value: object) -> bool:
    """Whether a value of JSON is an integer >= 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def count(owner: Object, key: str, default: int | None = None) -> int:
    """An integer >= 0.

    Raises:
        GltfError: if it is none, or missing without a default.
    """
    value = owner.get(key, default)
    if not is_count(value):
        raise GltfError(f"its {key} is {value!r:.40}, no integer from 0 on")
    return int(value)


def child(owner: Object, key: str) -> Object:
    """An object in another; empty if it is missing.

    Raises:
        GltfError: if it is no object.
    """
    value = owner.get(key, {})
    if not isinstance(value, dict):
        raise GltfError(f"its {key} is {value!r:.40}, no object")
    return value


def listed(owner: Object, key: str) -> list[Any]:
    """A list in an object; empty if it is missing.

    Raises:
        GltfError: if it is no list.
    """
    value = owner.get(key, [])
    if not isinstance(value, list):
        raise GltfError(f"its {key} is {value!r:.40}, no list")
    return value


def numbers(owner: Object, key: str, default: list[float]) -> Array:
    """As many finite numbers as the default has: float64 [N].

    Raises:
        GltfError: if it is anything else.
    """
    value = owner.get(key, default)
    if not isinstance(value, list) or len(value) != len(default) or not all(map(is_number, value)):
        raise GltfError(f"its {key} is {value!r:.60}, not {len(default)} finite numbers")
    return np.array(value, np.float64)


def is_number(value: object) -> bool:
    """Whether a value of JSON is a finite number that float64 holds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e308
