"""The objects of the study: ten that are scored, four others to tune on, made here or in assets.

No two are alike, and none of the ten looks the same from two directions within 75 degrees, so that
a pose can be found from a silhouette. Parts that overlap are left so: only silhouettes count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gendr.mesh import Mesh
from gendr.mesh.examples import example_file, example_names

SCORED = (
    "airplane", "chair", "teapot", "mug", "hammer", "stairs", "bracket", "jack", "rings", "crank",
)  # fmt: skip
# Those that only settings are chosen on; the first two look the same from many directions.
TUNED = ("lamp", "bottle", "dog", "key")
ASSETS = Path(__file__).resolve().parents[3] / "assets"
Vector = tuple[float, float, float]


def load(name: str) -> Mesh:
    """An object by its name: a mesh of the package, one of the folder assets, or one made here.

    Raises:
        ValueError: For an unknown name.
    """
    if name in example_names():
        return Mesh.load(example_file(name))
    if name in _MADE:
        import trimesh

        return Mesh.from_trimesh(trimesh.util.concatenate(_MADE[name]()))
    if (path := ASSETS / f"{name}.obj").exists():
        return Mesh.load(path)
    raise ValueError(f"unknown object {name!r}; allowed: {', '.join((*SCORED, *TUNED))}")


def _box(size: Vector, at: Vector) -> Any:
    import trimesh

    return trimesh.creation.box(size, trimesh.transformations.translation_matrix(at))


def _rod(start: Vector, end: Vector, radius: float) -> Any:
    import trimesh

    return trimesh.creation.cylinder(radius, segment=[start, end], sections=24)


def _ring(radius: float, minor: float, at: Vector, axis: Vector = (0.0, 0.0, 1.0)) -> Any:
    import trimesh

    turned: Any = trimesh.geometry.align_vectors((0.0, 0.0, 1.0), axis)
    turned[:3, 3] = at
    return trimesh.creation.torus(radius, minor, 32, 12, transform=turned)


def _ball(radius: float, at: Vector) -> Any:
    import trimesh

    ball = trimesh.creation.icosphere(2, radius)
    ball.apply_translation(at)
    return ball


def _turned(profile: Sequence[tuple[float, float]]) -> Any:
    """A body of revolution about y, from radii and heights."""
    import trimesh

    body = trimesh.creation.revolve(profile, sections=48)
    body.apply_transform(trimesh.transformations.rotation_matrix(-math.pi / 2, (1, 0, 0)))
    return body


_MADE: dict[str, Callable[[], list[Any]]] = {
    "mug": lambda: [
        _rod((0.0, -0.6, 0.0), (0.0, 0.6, 0.0), 0.5),
        _ring(0.35, 0.09, (0.55, 0.0, 0.0)),
    ],
    "hammer": lambda: [
        _rod((0.0, -1.0, 0.0), (0.0, 0.8, 0.0), 0.09),
        _box((0.9, 0.3, 0.28), (0.15, 0.8, 0.0)),
        _box((0.4, 0.1, 0.28), (-0.45, 0.75, 0.0)),
    ],
    "stairs": lambda: [
        _box((0.25, 0.2 * (k + 1), 0.7), (0.25 * k, 0.1 * (k + 1), 0.0)) for k in range(5)
    ],
    "bracket": lambda: [
        _box((1.2, 0.2, 0.7), (0.0, 0.0, 0.0)),
        _box((0.2, 0.9, 0.4), (-0.5, 0.5, 0.15)),
        _rod((0.3, 0.0, 0.0), (0.3, 0.35, 0.0), 0.2),
    ],
    "jack": lambda: [
        _rod((-0.7, 0.0, 0.0), (0.9, 0.0, 0.0), 0.12),
        _rod((0.0, -0.4, 0.0), (0.0, 0.7, 0.0), 0.12),
        _rod((0.0, 0.0, -0.3), (0.0, 0.0, 0.5), 0.12),
        _ball(0.25, (0.9, 0.0, 0.0)),
        _ball(0.18, (0.0, 0.7, 0.0)),
    ],
    "rings": lambda: [
        _ring(0.6, 0.2, (-0.5, 0.0, 0.0)),
        _ring(0.4, 0.13, (0.5, 0.2, 0.0), (0.0, 0.6, 0.8)),
    ],
    "crank": lambda: [
        _rod((0.0, 0.0, -0.8), (0.0, 0.0, 0.0), 0.15),
        _box((0.2, 0.9, 0.16), (0.0, 0.35, 0.0)),
        _rod((0.0, 0.75, 0.0), (0.0, 0.75, 0.6), 0.13),
    ],
    "bottle": lambda: [
        _turned([(0, -1), (0.4, -1), (0.4, 0.1), (0.33, 0.3), (0.14, 0.5), (0.13, 0.95), (0, 0.95)])
    ],
    "dog": lambda: [
        _box((1.0, 0.4, 0.4), (0.0, 0.0, 0.0)),
        _box((0.4, 0.35, 0.3), (0.65, 0.35, 0.0)),
        _box((0.1, 0.5, 0.1), (-0.5, 0.35, 0.0)),
        *(_box((0.13, 0.5, 0.13), (x, -0.4, z)) for x in (-0.4, 0.4) for z in (-0.13, 0.13)),
    ],
    "key": lambda: [
        _ring(0.3, 0.1, (-0.6, 0.0, 0.0)),
        _rod((-0.3, 0.0, 0.0), (0.9, 0.0, 0.0), 0.09),
        _box((0.12, 0.3, 0.1), (0.6, -0.15, 0.0)),
        _box((0.12, 0.22, 0.1), (0.85, -0.12, 0.0)),
    ],
}
