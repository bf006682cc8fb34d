"""From photos of a scene to its mesh: depth maps, their fusion, the surface."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch

from gendr._common.arrays import read_arrays, write_arrays
from gendr.jobs.loop import Stopwatch, Tell, between
from gendr.mesh import Mesh
from gendr.photos.meshing.libigl import libigl
from gendr.photos.scene.depth_maps import find_depths
from gendr.photos.scene.fusion import Cloud, FusionSettings, fused, thinned
from gendr.photos.scene.model import Scene
from gendr.photos.scene.support import before_sky, is_shown, open_at_rims, supported
from gendr.photos.scene.surface import Surface, SurfaceSettings, large_parts, reconstruct
from gendr.photos.stereo.matching import StereoSettings

__all__ = ["SceneSettings", "SceneSurface", "build", "points_file"]

Array = npt.NDArray[Any]

# Iterations of Taubin's filter: by how much vertices move to the middle of their neighbours, and
# back, which keeps the volume.
_SMOOTHING, _FORTH, _BACK = 4, 0.5, -0.53
# The spacing of points that the surface is told, in sides of the squares of which they are means.
_SPACING = 1.0
_LEAST = 100  # points on which photos agree
_POINTS = 4_000_000  # of a file, at most: 156 MB
_MOST = 400_000  # faces of a surface that is made to be simplified
_SHARES = {"depths": 0.8, "fusion": 0.05, "surface": 0.15}


@final
@dataclass(frozen=True)
class SceneSettings:
    """How a scene is reconstructed.

    Attributes:
        faces: of the mesh, at most so many.
        finer: the surface is made of as many times more faces, or of `_MOST`, of which quadrics
            keep those that tell most; 1 makes it of few points at once, which is faster.
        box: two corners, relative to the origin of the scene, of what is made; None for all.
        depth: see `StereoSettings`.
        fusion: see `FusionSettings`.
        surface: see `SurfaceSettings`.
    """

    faces: int = 400_000
    finer: float = 4.0
    box: tuple[tuple[float, float, float], tuple[float, float, float]] | None = None
    depth: StereoSettings = field(default_factory=StereoSettings)
    fusion: FusionSettings = field(default_factory=FusionSettings)
    surface: SurfaceSettings = field(default_factory=SurfaceSettings)


@final
@dataclass(frozen=True, eq=False)
class SceneSurface:
    """The mesh of a scene.

    Attributes:
        mesh: with the colours of the points, relative to the origin of the scene.
        facts: points, shares of pixels matched and kept, seconds of each stage.
        cloud: the points on which photos agree.
    """

    mesh: Mesh
    facts: dict[str, Any]
    cloud: Cloud


def _key(arrays: Iterable[Array], *texts: str) -> str:
    """16 digits that tell arrays and texts from others."""
    found = sha256(repr(texts).encode())
    for array in arrays:
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()[:16]


def build(
    scene: Scene, folder: Path, settings: SceneSettings | None = None, tell: Tell | None = None
) -> SceneSurface:
    """The mesh of a scene; what is in the folder already is not done again.

    Args:
        scene: its photos.
        folder: of depth maps, which is made; those of other photos or settings are in others.
        settings: by default as they are.
        tell: called with the part that is done, which also has the `stage`.

    Raises:
        ValueError: if photos agree nowhere.
    """
    settings, tell = settings or SceneSettings(), tell or (lambda now: None)
    clock, before = Stopwatch(), 0.0

    def stage(name: str) -> Callable[[float], None]:
        return between(tell, before, before + _SHARES[name], name)

    def lap(name: str) -> None:
        nonlocal before
        clock.lap(name)
        before += _SHARES[name]

    arrays = *scene.images, scene.K, scene.R, scene.t, scene.points, scene.ranges
    place = folder / _key(arrays, repr((settings.depth, scene.neighbours)))
    files = find_depths(scene, place, settings.depth, stage("depths"))
    lap("depths")
    cloud = fused(scene, files, settings.fusion, stage("fusion"))
    if settings.box is not None and len(cloud) >= _LEAST:
        cloud = cloud.within(np.array(settings.box))
        if len(cloud) < _LEAST:
            raise ValueError(f"the box holds {len(cloud)} of the points on which photos agree; "
                             "give another, in the frame of the cameras")  # fmt: skip
    if len(cloud) < _LEAST:
        raise ValueError(
            "the photos agree nowhere about the shape: take more of them, of which neighbours show "
            "mostly the same, sharp, of what stands still and has a pattern"
        )
    fine = max(settings.faces, min(int(settings.finer * settings.faces), _MOST))
    positions, rows, side = thinned(scene, cloud, fine // 2)
    lap("fusion")
    views, starts = cloud.chosen(scene, rows)
    first = cloud.first[rows]
    depth = (scene.R[first][:, 2] * positions).sum(1) + scene.t[first, 2]
    spacing = _SPACING * side * depth / scene.K[first, 0, 0]
    given = positions, views, starts, scene.centres, np.array(spacing)
    surface = _read_or_made(
        place / f"surface_{_key(given, repr(settings.surface))}.npz",
        lambda: reconstruct(
            positions, views, starts, scene.centres, spacing, settings.surface, stage("surface")
        ),
    )
    if not len(surface.faces):
        raise ValueError("the photos agree on too few points for a surface; take more of them")
    of_vertices = cloud.chosen(scene, rows[surface.point_of_vertex])
    off = supported(scene, cloud, surface.vertices, surface.faces, *of_vertices)
    clear = before_sky(scene, cloud, surface.vertices, surface.faces, off)
    faces = surface.faces[open_at_rims(surface.faces, is_shown(off) & ~clear) & ~clear]
    faces = large_parts(faces, len(surface.vertices), settings.surface.least_part)
    used, faces = np.unique(faces, return_inverse=True)
    faces, points = faces.reshape(-1, 3), surface.point_of_vertex[used]
    vertices = _smoothed(surface.vertices[used], faces)
    if len(faces) > settings.faces:
        vertices, faces, kept = _fewer(vertices, faces, settings.faces)
        points = points[kept]
    lap("surface")
    colors = cloud.colors[rows][points]
    mesh = Mesh(
        torch.from_numpy(vertices).float(), torch.from_numpy(faces),
        vertex_colors=torch.from_numpy(colors).float() / 255,
    )  # fmt: skip
    paired = [bool(near) for near in scene.neighbours]
    facts = {
        "points": len(cloud),
        "points_thinned": len(rows),
        "square": side,
        "matched": float(cloud.matched[paired].mean()),
        "kept": float(cloud.kept[paired].mean()),
        "assumed": float(cloud.assumed[paired].mean()),
        "planar": float(cloud.planar[paired].mean()),
        "plain": float(cloud.plain[paired].mean()),
        "mirrored": float(cloud.mirrored[paired].sum(1).mean()),
        "mirrors": [
            {
                "kind": "water" if one.alike is not None else "pane",
                "share": float(cloud.mirrored[paired, k].mean()),
                "normal": one.normal.tolist(),
                "alike": one.alike,
                "height": one.height + float(one.normal @ scene.origin),
            }
            for k, one in enumerate(cloud.mirrors)
        ],
        "seen_by": _visibility_shares(views, starts, points),
        "sparse_points": len(scene.points),
        "seconds": clock.phases,
    }
    return SceneSurface(mesh, facts, cloud)


def _read_or_made(path: Path, make: Callable[[], Surface]) -> Surface:
    """A surface that is in a file, or is made and written there."""
    if path.is_file():
        return Surface(**read_arrays(path))
    found = make()
    write_arrays(path, vars(found))
    return found


def _visibility_shares(views: Array, starts: Array, points: Array) -> dict[str, float]:
    """The shares of the vertices that two photos see, and that three or more do."""
    count = np.diff(starts)[points]
    return {"two": float((count == 2).mean()), "three": float((count >= 3).mean())}


def _fewer(vertices: Array, faces: Array, most: int) -> tuple[Array, Array, Array]:
    """At most so many faces, by collapsing edges where it matters least.

    Vertices at which the surface is no manifold are parted before.

    Returns: vertices, faces, and the vertices [V] that came before in the place of each.

    Source: Garland and Heckbert, Surface Simplification Using Quadric Error Metrics, 1997.
    """
    parted, triangles, own = libigl().split_nonmanifold(vertices, faces)
    found = libigl().qslim(np.asfortranarray(parted), np.asfortranarray(triangles, np.int32), most)
    return np.ascontiguousarray(found[0]), np.ascontiguousarray(found[1]), own[found[3]]


def _smoothed(vertices: Array, faces: Array) -> Array:
    """The vertices less noise; the rim stays.

    Source: Taubin, A Signal Processing Approach to Fair Surface Design, SIGGRAPH 1995.
    """
    from scipy.sparse import coo_matrix, diags

    ends = np.concatenate([faces[:, [k, (k + 1) % 3]] for k in range(3)])
    count = len(vertices)
    joined = coo_matrix((np.ones(len(ends)), ends.T), (count, count)).tocsr()
    joined = joined + joined.T  # of each edge, how many faces it has
    rows, columns = joined.nonzero()
    rim = np.zeros(count, bool)
    open_ = np.asarray(joined[rows, columns]).ravel() == 1
    rim[rows[open_]] = True
    joined.data[:] = 1
    mean = diags(1 / np.maximum(np.asarray(joined.sum(1)).ravel(), 1)) @ joined
    found = vertices.copy()
    for _ in range(_SMOOTHING):
        for step in (_FORTH, _BACK):
            moved = found + step * (mean @ found - found)
            found = np.where(rim[:, None], found, moved)
    return found


def points_file(scene: Scene, cloud: Cloud) -> bytes:
    """The cloud, or some of it, as a binary PLY: positions in the world, normals, colours."""
    rows = np.arange(len(cloud))
    if len(rows) > _POINTS:
        rows = np.sort(np.random.default_rng(0).choice(rows, _POINTS, replace=False))
    kinds = [(n, "<f8") for n in ("x", "y", "z")] + [(n, "<f4") for n in ("nx", "ny", "nz")]
    kinds += [(n, "u1") for n in ("red", "green", "blue")]
    table = np.empty(len(rows), kinds)
    for k in range(3):
        table["xyz"[k]] = cloud.points[rows, k] + scene.origin[k]
        table["n" + "xyz"[k]] = cloud.normals[rows, k]
        table[("red", "green", "blue")[k]] = cloud.colors[rows, k]
    words = {"<f8": "double", "<f4": "float", "u1": "uchar"}
    head = ["ply", "format binary_little_endian 1.0", f"element vertex {len(rows)}"]
    head += [f"property {words[kind]} {name}" for name, kind in kinds] + ["end_header", ""]
    return "\n".join(head).encode() + table.tobytes()
