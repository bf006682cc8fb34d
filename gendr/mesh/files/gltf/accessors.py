"""The values of accessors: all component types, normalized, interleaved, sparse.

Source: glTF 2.0, section 3.6.2; KHR_mesh_quantization.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gendr.mesh.files.gltf.document import Document, GltfError, Object, child, count
from gendr.mesh.files.reports import note

Array = NDArray[Any]

_FORMS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}


def rows_of(accessor: Object) -> int:
    """How many values an accessor has.

    Raises:
        GltfError: if that is no number from 1 on.
    """
    rows = count(accessor, "count")
    if rows == 0:
        raise GltfError("an accessor in it has no values")
    return rows


def values(document: Document, index: object, *kinds: str, scaled: bool = False) -> Array:
    """The values of an accessor as float64 [N, width], those of normalized integers in [-1, 1].

    Args:
        document: The file.
        index: of the accessor.
        *kinds: The types that are allowed, such as "VEC3".
        scaled: Take integers as normalized, also if the file does not say so.

    Raises:
        GltfError: if it has another type, or reaches beyond its bytes.
    """
    accessor = document.item("accessors", index)
    found = _raw(document, accessor, index, kinds)
    most = np.iinfo(found.dtype).max if found.dtype.kind in "iu" else 1
    result = found.astype(np.float64)
    normalized = accessor.get("normalized") is True
    if scaled and not normalized and most > 1:
        note(document.notes, "its integers that must be normalized are taken so, unsaid")
    if normalized or scaled:
        result /= most
        np.maximum(result, -1, out=result, where=result < -1)
    return result


def integers(document: Document, index: object, kind: str) -> Array:
    """The values of an accessor of unsigned integers: int64 [N, width].

    Raises:
        GltfError: if they are anything else, or the largest number among indices: the one that
            starts strips anew, which glTF does not allow.
    """
    found = _raw(document, document.item("accessors", index), index, (kind,))
    if found.dtype.kind != "u":
        raise GltfError(f"its accessor {index} holds {found.dtype.name}, not unsigned integers")
    if kind == "SCALAR" and found.max() == np.iinfo(found.dtype).max:
        raise GltfError(f"its indices hold {found.max()}, a restart, which glTF does not allow")
    return found.astype(np.int64)


def _raw(document: Document, accessor: Object, index: object, kinds: tuple[str, ...]) -> Array:
    """Values as they are in the file: [N, width] of its component type."""
    kind, form = accessor.get("type"), accessor.get("componentType")
    if kind not in kinds or kind not in _WIDTHS:
        raise GltfError(f"its accessor {index} is {kind!r:.20}, not {' or '.join(kinds)}")
    if not isinstance(form, int) or form not in _FORMS:
        raise GltfError(f"its accessor {index} has the component type {form!r:.20}")
    dtype, width, rows = np.dtype(_FORMS[form]), _WIDTHS[kind], rows_of(accessor)
    document.budget.spend(rows * width * 8)
    if str(index) in document.unpacked:
        found = document.unpacked[str(index)].astype(dtype)
        if found.shape != (rows, width):
            raise GltfError(f"its accessor {index} has {rows} values, {len(found)} decompressed")
    elif "bufferView" in accessor:
        start = count(accessor, "byteOffset", 0)
        found = _table(document, accessor["bufferView"], start, dtype, width, rows, index)
    else:
        found = np.zeros((rows, width), dtype)
    if "sparse" in accessor:
        found = found.copy()
        sparse = child(accessor, "sparse")
        where, what = child(sparse, "indices"), child(sparse, "values")
        number, place = count(sparse, "count"), where.get("componentType")
        if place not in (5121, 5123, 5125):
            raise GltfError(f"its accessor {index} has the sparse component type {place!r:.20}")
        start, begin = count(where, "byteOffset", 0), count(what, "byteOffset", 0)
        if number:
            form = np.dtype(_FORMS[place])
            at = _table(document, where.get("bufferView"), start, form, 1, number, index)[:, 0]
            if at.max() >= rows:
                raise GltfError(f"its accessor {index} replaces {at.max()} of {rows} values")
            view = what.get("bufferView")
            found[at] = _table(document, view, begin, dtype, width, number, index)
    return found


def _table(
    document: Document, view: object, start: int, dtype: Any, width: int, rows: int, index: object
) -> Array:
    """A table [rows, width] in a buffer view, whose rows may lie apart."""
    data, size = document.view(view), dtype.itemsize * width
    stride = count(document.item("bufferViews", view), "byteStride", size)
    end = start + stride * (rows - 1) + size
    if end > len(data):
        raise GltfError(f"its accessor {index} ends at byte {end} of {len(data)}")
    return np.ndarray((rows, width), dtype, data, start, (stride, dtype.itemsize))
