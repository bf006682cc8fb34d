"""PLY files of points and Gaussians, plain or compressed as PlayCanvas does.

Source: the files that the code of Kerbl et al. (3D Gaussian Splatting, 2023) writes; those of
SuperSplat and splat-transform (PlayCanvas), "compressed.ply"; for `filter_3D` the code of Yu et
al. (Mip-Splatting, 2024).
"""

from __future__ import annotations

import mmap
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gendr._common.texts import first_few
from gendr.mesh.files.ply import point_colors
from gendr.mesh.files.ply_table import Element, read_elements
from gendr.mesh.files.reports import note
from gendr.photos.splatting.gaussians.cloud import Cloud, harmonics_of_bytes, smallest_three
from gendr.photos.splatting.harmonics import COUNTS

Array = NDArray[Any]

__all__ = ["read_points", "written"]

# Gaussians that share the ranges of their values in a compressed file.
_CHUNK = 256
# Harmonics beyond the first that files have, up to degree 4.
_REST = (0, 3, 8, 15, 24)
# What Gaussians are read from, and normals, which they have none of.
_READ = re.compile("n?[xyz]|red|green|blue|alpha|opacity|filter_3d|(f_dc|f_rest|scale|rot)_[0-9]+")
# The opacities that a file holds, as their logits are finite.
_CLEAR, _OPAQUE = 1e-6, 0.995


def read_points(path: Path, notes: list[str]) -> Cloud | None:
    """The points or Gaussians of a file, unchecked; None if it has faces."""
    with path.open("rb") as file:  # its pages are given back with the last view of them
        elements, _ = read_elements(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    return _cloud(elements, notes)


def _cloud(elements: dict[str, Element], notes: list[str]) -> Cloud | None:
    points = elements.get("vertex") or Element("vertex", 0)
    if any(name in elements and elements[name].count for name in ("face", "tristrips")):
        return None
    if "packed_position" in points.values:
        return _unpacked(points, elements.get("chunk"), elements.get("sh"), notes)
    kind = np.float64 if points.kinds.get("x") in ("f8", "i4", "u4", "i8", "u8") else np.float32
    place = _table(points, "x y z", kind)
    if not {"opacity", "scale_0", "rot_0"} & set(points.values):
        return Cloud(place, point_colors(points, notes))
    opacity = _table(points, "opacity")[:, 0]
    # Those of 2D Gaussian Splatting (Huang et al., 2024) are flat.
    flat = "scale_2" not in points.values
    sizes = _table(points, "scale_0 scale_1" if flat else "scale_0 scale_1 scale_2")
    with np.errstate(over="ignore"):
        np.exp(sizes, out=sizes)
        opacity = 1 / (1 + np.exp(-opacity))
    if "filter_3d" in points.values:
        # Mip-Splatting (Yu et al., 2024) keeps apart what widens and weakens its Gaussians.
        wide = np.hypot(sizes, _table(points, "filter_3d"))
        opacity *= np.divide(sizes, wide, out=np.ones_like(sizes), where=wide > 0).prod(1)
        sizes = wide
    if flat:
        sizes = np.pad(sizes, ((0, 0), (0, 1)))
    if others := [name for name in points.values if not _READ.fullmatch(name)]:
        note(notes, f"its vertex {first_few(others)} is not used")
    turns = _table(points, "rot_0 rot_1 rot_2 rot_3")
    if "f_dc_0" in points.values:
        rest = _higher_harmonics(points, len(place), notes)
        harmonics = np.empty((len(place), 1 + rest.shape[1], 3), np.float32)
        harmonics[:, 0], harmonics[:, 1:] = _table(points, "f_dc_0 f_dc_1 f_dc_2"), rest
    elif (colors := point_colors(points, notes)) is not None:
        harmonics = harmonics_of_bytes(colors)
    else:
        network = ": a network makes its colours" if "f_anchor_feat_0" in points.values else ""
        raise ValueError(f"its Gaussians lack f_dc_0 f_dc_1 f_dc_2{network}")
    return Cloud(place, None, harmonics, opacity, sizes, turns)


def _table(element: Element, text: str, kind: type[np.floating[Any]] = np.float32) -> Array:
    """Columns by their names, [count, names]."""
    names = text.split()
    if missing := [name for name in names if name not in element.values]:
        raise ValueError(f"its {element.name} lacks {' '.join(missing)}")
    found = np.empty((element.count, len(names)), kind)
    with np.errstate(over="ignore"):  # to infinity, which is refused
        for i, name in enumerate(names):
            found[:, i] = element.values[name]
    return found


def _higher_harmonics(element: Element, count: int, notes: list[str]) -> Array:
    """The harmonics beyond the first that have columns, up to degree 3: [count, K, 3].

    The columns are by channel, then by harmonic.
    """
    columns = sum(name.startswith("f_rest_") for name in element.values)
    if columns % 3 or columns // 3 not in _REST:
        raise ValueError(f"it has {columns} f_rest, not one of {[3 * n for n in _REST]}")
    if columns // 3 >= COUNTS[-1]:
        note(notes, "its harmonics of degree 4 are not used")
    kept = min(columns // 3, COUNTS[-1] - 1)
    rest = np.empty((count, kept, 3), np.float32)
    for channel in range(3):
        first = channel * (columns // 3)
        names = " ".join(f"f_rest_{i}" for i in range(first, first + kept))
        rest[:, :, channel] = _table(element, names)
    return rest


def _unpacked(
    points: Element, chunks: Element | None, sh: Element | None, notes: list[str]
) -> Cloud:
    """Gaussians that are fractions of the ranges of their chunk."""
    count = points.count
    if chunks is None or chunks.count != -(-count // _CHUNK):
        raise ValueError(f"it needs a chunk for each {_CHUNK} Gaussians")
    if sh is not None and sh.count != count:
        raise ValueError(f"it has {sh.count} rows of sh for {count} Gaussians")

    def unpacked(name: str, *bits: int) -> Array:
        """Fractions in [0, 1] of an unsigned number, from its highest bits on."""
        found, at = points.values[name], 32
        if found.dtype.kind != "u" or found.dtype.itemsize != 4:
            raise ValueError(f"its {name} is no uint")
        out = np.empty((count, len(bits)), np.float32)
        for i, width in enumerate(bits):
            at -= width
            out[:, i] = (found >> np.uint32(at)) & np.uint32((1 << width) - 1)
            out[:, i] /= (1 << width) - 1
        return out

    def within(parts: Array, name: str, axes: str) -> Array:
        low, high = (
            _table(chunks, " ".join(f"{end}_{name}{axis}" for axis in axes)).repeat(_CHUNK, 0)
            for end in ("min", "max")
        )
        return low[:count] * (1 - parts) + high[:count] * parts

    color = unpacked("packed_color", 8, 8, 8, 8)
    rgb = within(color[:, :3], "", "rgb") if "min_r" in chunks.values else color[:, :3]
    harmonics = harmonics_of_bytes(rgb)
    if sh is not None:
        rest = _higher_harmonics(sh, count, notes)
        # The middle of 256 steps of [-4, 4], but for the ends.
        steps = np.where(rest == 0, 0, np.where(rest == 255, 256, rest + np.float32(0.5)))
        harmonics = np.concatenate([harmonics, steps / np.float32(32) - np.float32(4)], 1)
    turns = smallest_three(
        (unpacked("packed_rotation", 2, 10, 10, 10)[:, 1:] - 0.5) * np.float32(np.sqrt(2)),
        points.values["packed_rotation"] >> np.uint32(30),
    )
    with np.errstate(over="ignore"):
        sizes = np.exp(within(unpacked("packed_scale", 11, 10, 11), "scale_", "xyz"))
    place = within(unpacked("packed_position", 11, 10, 11), "", "xyz")
    return Cloud(place, None, harmonics, color[:, 3], sizes, turns)


def written(cloud: Cloud, comment: str) -> bytes:
    """Gaussians as a binary PLY file, with harmonics of degree 3: older viewers read no others."""
    parts = cloud.parts
    assert parts is not None
    harmonics, opacity, sizes, turns = parts
    count, rest = len(cloud), np.zeros((len(cloud), 3, COUNTS[-1] - 1), np.float32)
    rest[..., : harmonics.shape[1] - 1] = harmonics[:, 1:].transpose(0, 2, 1)
    peak = opacity.astype(np.float64).clip(_CLEAR, _OPAQUE)
    columns = {
        "x y z": cloud.points,
        "nx ny nz": np.zeros((count, 3)),
        "f_dc_0 f_dc_1 f_dc_2": harmonics[:, 0],
        " ".join(f"f_rest_{i}" for i in range(3 * rest.shape[2])): rest.reshape(count, -1),
        "opacity": np.log(peak / (1 - peak))[:, None],
        "scale_0 scale_1 scale_2": np.log(sizes),
        "rot_0 rot_1 rot_2 rot_3": turns,
    }
    far = "<f8" if cloud.points.dtype == np.float64 else "<f4"
    kinds = [(n, far if n in ("x", "y", "z") else "<f4") for key in columns for n in key.split()]
    table = np.empty(count, kinds)
    for names, values in columns.items():
        for name, column in zip(names.split(), values.T, strict=True):
            table[name] = column
    header = ["ply", "format binary_little_endian 1.0", f"comment {comment}"]
    header += [f"element vertex {count}"]
    header += [f"property {'double' if kind == '<f8' else 'float'} {n}" for n, kind in kinds]
    return "\n".join([*header, "end_header", ""]).encode() + table.tobytes()
