"""Scenes without masks: path-traced rooms of which the truth is known, and any photographs.

    pip install mitsuba     # 3.5 with LLVM 14; newer ones need a newer LLVM
    python benchmarks/rooms.py draw WORK                  # three scenes, 30 photos of 1 MP of each
    python benchmarks/rooms.py measure WORK --docs        # cameras given
    python benchmarks/rooms.py measure WORK --find --docs # cameras found
    python benchmarks/rooms.py harms WORK --docs          # photos that suffer, the whole command
    python benchmarks/rooms.py photos FOLDER WORK --docs  # any folder of photographs

Drawn by Mitsuba 3 (Jakob et al. 2022): a furnished room under a lamp, a front with windows, stairs
and columns under a sky, and a heap of boxes and balls between two walls; and, if asked for, a
village from a drone (with GPS, if cameras are found), also in a grid straight down, a corridor, a
table, a long front of windows, a hollow tree, a bare room with pictures on plain walls, and under
clouds a park with a statue and trees, a pond before a house, a shop with large panes, and hills
around which a drone flies, with GPS as well. All are made of boxes and balls, to which distances
are exact. What is measured is what `gendr fit --scene` makes of the photos. Accuracy: the distance
of points of the mesh from the true surface; precision, the share of them that are nearer than a
part of the diagonal. Recall: the share of what two photos see that is so near to the mesh. F: their
harmonic mean, as of Tanks and Temples (Knapitsch et al. 2017). Photographs: every fifth is left
out, and the textured mesh is drawn from there.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import contextlib
import io
import json
import math
import re
import shutil
import sys
import time
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter
from rows import measured_on
from scipy.spatial import KDTree

from gendr import cli
from gendr.mesh import Mesh
from lab.pages import fill, table

Array = NDArray[Any]

RESULTS, PAGE = (
    Path(__file__).parent.parent / "docs" / "results" / name for name in ("rooms.json", "photos.md")
)
SHAPE, ANGLE = (864, 1152), 62.0  # of a photo, and how wide it sees, in degrees
PARTS = (0.005, 0.01)  # of the diagonal: when a point counts as right
LEAST, POINTS, EVERY = 2, 300_000, 7
ABOUT = """\
## Scenes of which the truth is known

A furnished room, a front with stairs and columns, and a heap of boxes and balls, path-traced \
(`benchmarks/rooms.py`; Mitsuba 3), without masks. Accuracy is the distance of points of the mesh \
from the true surface; recall the share of what two photos see that lies near the mesh, precision \
the share of the mesh that lies near the truth, and the F-score their harmonic mean, at a distance \
of 0.5 % and 1 % of the diagonal of what two photos see. Cameras are given, with points as \
features find them, or found and moved onto the true ones by a similarity. A park with a statue \
and thin trees, a pond before a house with dark windows, a shop with large panes, and hills around \
which a drone flies, all under clouds, were made later; of these what is within 12, 14, 14 and \
60 m of the middle counts (of the mesh of the park all of it, in a row of before). The bare room \
has plain walls with pictures, a plain cupboard with patches along its edges, a plain ball, a gate.

The F-score is that of [Tanks and Temples](https://www.tanksandtemples.org/) \
(Knapitsch et al. 2017), whose distances are 3 to 25 mm for scenes of some metres to tens of \
metres, 0.05 to 0.2 % of the diagonal, against a laser scanner, within a box around what was \
scanned; published methods reach 0.4 to 0.65 there. \
[DTU](https://roboimagedata.compute.dtu.dk/?page_id=36) (Jensen et al. 2014) has objects of \
20 cm on a table, 49 photos of 1600 × 1200: accuracy is the mean distance of points from the scan \
and completeness that of the scan from the points, in mm, without what is beyond 20 mm; published \
methods reach 0.3 to 0.5 mm, or 0.1 % of the diagonal. Numbers here are not those: the scenes \
are our own, and what is drawn has neither lens nor compression.
"""
SEED = 7  # of what is in the scenes
WHITE, EARTH, SAND = (0.75, 0.72, 0.66), (0.4, 0.28, 0.18), (0.66, 0.58, 0.46)


@dataclass(frozen=True)
class Solid:
    """A box, or a ball if `half` is a number; y up.

    Attributes:
        centre: in metres.
        half: half of the sides, or the radius.
        color: RGB in [0, 1], linear.
        contrast: of its grain.
        turn: about the y axis, in degrees.
        tiles: fields of a chessboard along a side; 0 for none.
        gloss: "rough" for highlights, or "smooth" like water and dark glass.
    """

    centre: tuple[float, float, float]
    half: tuple[float, float, float] | float
    color: tuple[float, float, float] = WHITE
    contrast: float = 0.5
    turn: float = 0.0
    tiles: int = 0
    gloss: str = ""

    def distances(self, points: Array) -> Array:
        """How far points [N, 3] are from its surface, [N]."""
        c, s = self.row[-2:]
        own = (points - np.array(self.centre)) @ np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
        if isinstance(self.half, float):
            return np.abs(np.linalg.norm(own, axis=1) - self.half)
        off = np.abs(own) - np.array(self.half)
        return np.abs(np.linalg.norm(np.maximum(off, 0), axis=1) + np.minimum(off.max(1), 0))

    @property
    def row(self) -> list[float]:
        """Centre, half of the sides (the radius, -1, -1 of a ball), cosine and sine of the turn."""
        half = [self.half, -1.0, -1.0] if isinstance(self.half, float) else self.half
        turn = math.radians(self.turn)
        return [*self.centre, *half, math.cos(turn), math.sin(turn)]


@numba.njit(cache=True)
def cast(eye: Array, rays: Array, rows: Array) -> Array:
    """How many times as far as they are long rays go until they meet a solid, [N]; inf if none."""
    found = np.full(len(rays), np.inf)
    for n in range(len(rays)):
        for x, y, z, a, b, c, cosine, sine in rows:
            u, v, w = eye[0] - x, eye[1] - y, eye[2] - z
            p, q, r = rays[n]
            if b < 0:
                square, middle = p * p + q * q + r * r, p * u + q * v + r * w
                root = middle * middle - square * (u * u + v * v + w * w - a * a)
                near = -(middle + math.sqrt(root)) / square if root >= 0 else np.inf
            else:
                u, w, p, r = (
                    cosine * u - sine * w, sine * u + cosine * w,
                    cosine * p - sine * r, sine * p + cosine * r,
                )  # fmt: skip
                near, far = -np.inf, np.inf
                for start, way, half in ((u, p, a), (v, q, b), (w, r, c)):
                    way = way if way != 0 else 1e-300
                    first, last = (-half - start) / way, (half - start) / way
                    near, far = max(near, min(first, last)), min(far, max(first, last))
                near = near if near <= far else np.inf
            if 1e-9 < near < found[n]:
                found[n] = near
    return found


def box(x: float, y: float, z: float, *half: float, **more: Any) -> Solid:
    """A box that stands on y, with half of its width, its whole height, and half of its depth."""
    wide, tall, deep = half
    return Solid((x, y + tall / 2, z), (wide, tall / 2, deep), **more)


def ball(x: float, y: float, z: float, radius: float, **more: Any) -> Solid:
    """A ball that lies on y."""
    return Solid((x, y + radius, z), radius, **more)


def some_color(dice: np.random.Generator) -> tuple[float, float, float]:
    """Any colour, neither black nor white."""
    r, g, b = dice.uniform(0.12, 0.75, 3)
    return float(r), float(g), float(b)


def room(dice: np.random.Generator) -> list[Solid]:
    """A floor of boards, three walls, a table with things on it, a chair, a shelf with books."""
    solids = [
        box(0, -0.1, 0, 2.6, 0.1, 2.6, color=EARTH, tiles=18, contrast=0.4),
        box(-2.6, 0, 0, 0.05, 2.6, 2.6, color=WHITE, contrast=0.25),
        box(0, 0, -2.6, 2.6, 2.6, 0.05, color=(0.45, 0.55, 0.62), contrast=0.3, tiles=24),
        box(2.6, 0, -1.3, 0.05, 2.6, 1.3, color=SAND, contrast=0.25),
        box(0.2, 0, 0.1, 1.1, 0.02, 0.8, color=(0.5, 0.12, 0.1), contrast=0.8, tiles=10),
        box(0.2, 0.70, 0, 0.75, 0.05, 0.45, color=(0.5, 0.33, 0.18), turn=12),
        box(-1.9, 0.45, 1.2, 0.3, 0.45, 0.3, color=(0.3, 0.35, 0.2), contrast=0.7, turn=20),
        box(-1.9, 0, 1.2, 0.33, 0.45, 0.33, color=(0.35, 0.2, 0.2), contrast=0.7, turn=20),
        box(1.5, 0, 1.0, 0.35, 0.4, 0.35, color=(0.2, 0.4, 0.5), turn=33),
        box(-0.9, 1.0, -2.5, 0.5, 0.75, 0.03, color=(0.5, 0.4, 0.1), contrast=1.0),
        ball(-1.2, 0, 0.2, 0.28, color=(0.6, 0.3, 0.15), contrast=0.8),
        ball(1.6, 0.4, 1.0, 0.22, color=(0.2, 0.5, 0.25), contrast=0.8, gloss="rough"),
    ]
    c, s = math.cos(math.radians(12)), math.sin(math.radians(12))
    for x, z in ((-0.68, -0.38), (0.68, -0.38), (-0.68, 0.38), (0.68, 0.38)):
        solids.append(box(0.2 + c * x + s * z, 0, -s * x + c * z, 0.05, 0.7, 0.05, color=EARTH))
    for k in range(7):  # on the table
        x, z, h = dice.uniform(-0.5, 0.6), dice.uniform(-0.28, 0.28), dice.uniform(0.06, 0.35)
        more: Any = {"color": some_color(dice), "contrast": 0.7, "turn": dice.uniform(0, 90)}
        solids.append(
            ball(x, 0.75, z, 0.3 * h + 0.04, **more) if k % 3 == 2
            else box(x, 0.75, z, 0.06, h, 0.08, **more)
        )  # fmt: skip
    for y in (0.1, 0.55, 1.0, 1.45):  # a shelf
        solids.append(box(1.4, y, -2.35, 0.7, 0.04, 0.2, color=(0.45, 0.3, 0.2)))
        x = 0.78
        while y < 1.4 and x < 1.95:
            wide = float(dice.uniform(0.02, 0.05))
            solids.append(
                box(x + wide, y + 0.04, -2.38, wide, dice.uniform(0.22, 0.36),
                    dice.uniform(0.1, 0.15), color=some_color(dice), contrast=0.6)
            )  # fmt: skip
            x += 2 * wide + (0.15 if dice.random() < 0.15 else 0.0)
    solids += [box(x, 0, -2.35, 0.03, 1.6, 0.2, color=(0.45, 0.3, 0.2)) for x in (0.7, 2.1)]
    return solids


def front(dice: np.random.Generator) -> list[Solid]:
    """A front with windows in their hollows, a door, stairs, columns and a low wall."""
    stone: Any = {"color": SAND, "contrast": 0.6}
    solids = [
        box(0, -0.2, 2.5, 7, 0.2, 5.5, color=(0.4, 0.38, 0.35), contrast=0.7, tiles=40),
        box(0, 0, -2.2, 5, 6, 0.1, color=(0.12, 0.13, 0.16), contrast=0.3),  # panes, far behind
    ]
    across = [(-5.0, -4.1), (-3.1, -2.1), (-1.1, 1.1), (2.1, 3.1), (4.1, 5.0)]  # of wall
    for y, tall, wall in ((0.0, 0.9, [(-5.0, -0.7), (0.7, 5.0)]), (0.9, 1.6, None),
                          (2.5, 0.9, [(-5.0, 5.0)]), (3.4, 1.6, None),
                          (5.0, 1.0, [(-5.0, 5.0)])):  # fmt: skip
        rows = across if wall is None else wall
        if wall is None and y < 1:
            rows = [(-5.0, -4.1), (-3.1, -2.1), (-1.1, -0.7), (0.7, 1.1), (2.1, 3.1), (4.1, 5.0)]
        for low, high in rows:
            solids.append(box((low + high) / 2, y, -1.9, (high - low) / 2, tall, 0.25, **stone))
    for k in range(4):
        solids.append(box(0, 0.16 * k, -1.25 + 0.0, 1.6 - 0.1 * k, 0.16, 1.5 - 0.3 * k, **stone))
    for x in (-1.35, 1.35):
        solids.append(box(x, 0.64, -1.3, 0.16, 2.0, 0.16, color=WHITE, contrast=0.5, turn=45))
        solids.append(box(x, 2.6, -1.3, 0.24, 0.15, 0.24, color=WHITE, contrast=0.5))
    solids.append(box(0, 2.75, -1.3, 1.7, 0.3, 0.45, **stone))
    for x in (-3.6, -2.6, 2.6, 3.6):
        for y in (0.82, 3.32):
            solids.append(box(x, y, -1.62, 0.6 if abs(x) > 3 else 0.4, 0.08, 0.12, color=WHITE))
    for side in (-1, 1):
        solids.append(box(4.2 * side, 0, 0.6, 1.4, 0.7, 0.2, color=(0.45, 0.25, 0.2), contrast=0.8))
        solids.append(box(2.4 * side, 0, 0.4, 0.3, 0.6, 0.3, **stone))
        solids.append(ball(2.4 * side, 0.6, 0.4, 0.32, color=(0.2, 0.4, 0.15), contrast=1.0))
    for _ in range(6):
        solids.append(
            box(dice.uniform(-4, 4), 0, dice.uniform(1.2, 2.4), 0.18, dice.uniform(0.2, 0.5), 0.22,
                color=some_color(dice), turn=dice.uniform(0, 90), contrast=0.7)
        )  # fmt: skip
    return solids


def heap(dice: np.random.Generator) -> list[Solid]:
    """Boxes and balls of many sizes on and beside each other, between two walls."""
    solids = [
        box(0, -0.1, 0, 3, 0.1, 3, color=(0.5, 0.48, 0.45), tiles=24, contrast=0.5),
        box(-2.2, 0, 0, 0.1, 1.8, 2.2, color=(0.55, 0.3, 0.22), contrast=0.7, tiles=16),
        box(0, 0, -2.2, 2.2, 1.8, 0.1, color=SAND, contrast=0.4),
    ]
    tops: list[Solid] = []
    for k in range(60):
        more: Any = {
            "color": some_color(dice), "contrast": float(dice.uniform(0.3, 1.0)),
            "turn": float(dice.uniform(0, 90)), "gloss": "" if k % 9 else "rough",
        }  # fmt: skip
        size = dice.uniform(0.07, 0.32, 3)
        x, z = dice.normal(0, 0.75, 2).clip(-1.7, 1.7)
        under = [s for s in tops if np.hypot(s.centre[0] - x, s.centre[2] - z) < 0.2]
        y = max((s.centre[1] + s.half[1] for s in under), default=0.0)  # type: ignore[index]
        if k % 3 == 0:
            solids.append(ball(x, y, z, float(size[0]), **more))
        else:
            tops.append(box(x, y, z, size[0], 1.5 * size[1], size[2], **more))
    return solids + tops


def village(dice: np.random.Generator) -> list[Solid]:
    """Fields, a road, houses and trees, as a drone sees them from above."""
    solids = [box(0, -0.5, 0, 45, 0.5, 45, color=(0.25, 0.35, 0.15), contrast=0.8)]
    for k in range(16):  # fields, some of them higher
        x, z = 20 * (k % 4) - 30, 20 * (k // 4) - 30
        solids.append(
            box(x, 0, z, 9, dice.uniform(0.05, 1.2), 9, color=some_color(dice), contrast=0.8,
                tiles=int(dice.integers(0, 9)))
        )  # fmt: skip
    for k in range(24):
        x, z = dice.uniform(-32, 32, 2)
        tall, more = dice.uniform(3, 7), {"turn": dice.uniform(0, 90), "contrast": 0.6}
        if k % 2:
            solids.append(box(x, 0, z, 3.5, tall, 2.5, color=some_color(dice), **more))
            solids.append(box(x, tall, z, 1.5, 1.2, 1.5, color=some_color(dice), **more))
        else:
            solids.append(box(x, 0, z, 0.25, 4, 0.25, color=EARTH))
            solids.append(ball(x, 3, z, dice.uniform(1.2, 2.4), color=(0.15, 0.3, 0.1)))
    return solids


def corridor(dice: np.random.Generator) -> list[Solid]:
    """A floor, a ceiling, two walls with doors and pictures, and things that stand there."""
    solids = [
        box(0, -0.1, -8, 1.2, 0.1, 10.5, color=EARTH, tiles=24, contrast=0.6),
        box(0, 2.6, -8, 1.2, 0.1, 10.5, color=WHITE, contrast=0.4),
        box(0, 0, -18, 1.2, 2.6, 0.1, color=SAND, contrast=0.6),
    ]
    for side in (-1, 1):
        solids.append(box(1.2 * side, 0, -8, 0.05, 2.6, 10.5, color=WHITE, contrast=0.4))
        for k in range(8):
            z = 1 - 2.2 * k + dice.uniform(-0.3, 0.3)
            solids.append(
                box(1.14 * side, 0.0 if k % 2 else 1.2, z, 0.04, 2.0 if k % 2 else 0.7, 0.45,
                    color=some_color(dice), contrast=0.9)
            )  # fmt: skip
            solids.append(
                box(0.9 * side, 0, z - 1, 0.2, dice.uniform(0.3, 1.1), 0.25, contrast=0.8,
                    color=some_color(dice), turn=dice.uniform(0, 90))
            )  # fmt: skip
    return solids


def desk(dice: np.random.Generator) -> list[Solid]:
    """A figure of boxes and balls on a table, in a room."""
    more: Any = {"contrast": 0.7}
    solids = [
        box(0, -0.1, 0, 3, 0.1, 3, color=EARTH, tiles=18, contrast=0.4),
        *(box(x, 0, z, a, 2.6, b, color=(0.45, 0.5, 0.55), contrast=0.5)
          for x, z, a, b in ((-3, 0, 0.1, 3), (3, 0, 0.1, 3), (0, -3, 3, 0.1), (0, 3, 3, 0.1))),
        box(0, 0.7, 0, 0.7, 0.04, 0.5, color=(0.5, 0.33, 0.18), contrast=0.8),
        *(box(x, 0, z, 0.03, 0.7, 0.03, color=EARTH) for x in (-0.6, 0.6) for z in (-0.4, 0.4)),
        box(0, 0.74, 0, 0.07, 0.03, 0.07, color=(0.5, 0.2, 0.15), turn=20, **more),
        box(0, 0.77, 0, 0.045, 0.1, 0.035, color=(0.2, 0.3, 0.5), turn=20, **more),
        ball(0, 0.865, 0, 0.035, color=(0.6, 0.45, 0.3), **more),
        box(0.065, 0.8, -0.02, 0.04, 0.02, 0.015, color=(0.3, 0.5, 0.2), turn=20, **more),
        ball(-0.2, 0.74, 0.2, 0.03, color=(0.6, 0.2, 0.1), **more),
        box(0.4, 0.74, -0.3, 0.1, 0.03, 0.07, color=some_color(dice), turn=40, **more),
        box(-0.4, 0.74, -0.25, 0.05, 0.12, 0.05, color=some_color(dice), turn=70, **more),
    ]  # fmt: skip
    for x, z in ((-2.4, -2.4), (2.3, -2.2), (2.2, 2.3), (-2.3, 2.2), (0, -2.5), (2.5, 0)):
        solids.append(box(x, 0, z, 0.4, dice.uniform(0.5, 1.8), 0.3, color=some_color(dice)))
    return solids


def white(dice: np.random.Generator) -> list[Solid]:
    """The heap before walls of one colour."""
    floor, *walls = (solids := heap(dice))[:3]
    plain = [replace(wall, contrast=0.0, tiles=0, color=WHITE) for wall in walls]
    return [floor, *plain, *solids[3:]]


def bare(dice: np.random.Generator) -> list[Solid]:
    """Plain walls with pictures, a gate before them, a cupboard and a ball without a pattern."""
    solids = [
        box(0, -0.1, 0, 2.6, 0.1, 2.6, color=EARTH, tiles=18, contrast=0.8),
        box(-2.6, 0, 0, 0.05, 2.6, 2.6, contrast=0.0),
        box(0, 0, -2.6, 2.6, 2.6, 0.05, color=(0.6, 0.66, 0.7), contrast=0.0),
        box(1.3, 0, -1.6, 0.5, 0.9, 0.4, color=(0.3, 0.34, 0.4), contrast=0.0, turn=8),
        ball(-1.5, 0, -0.2, 0.45, color=(0.6, 0.6, 0.65), contrast=0.0),
        ball(1.3, 0.9, -1.6, 0.2, color=(0.6, 0.3, 0.15), contrast=1.0),
        box(0.6, 0, 0.4, 0.3, 0.4, 0.3, color=(0.2, 0.4, 0.5), contrast=0.8, turn=33),
    ]
    for x, y, wide, tall in ((-1.9, 1.2, 0.3, 0.25), (-0.2, 1.5, 0.4, 0.25), (1.9, 1.3, 0.25, 0.4)):
        color = some_color(dice)
        solids.append(box(x, y, -2.54, wide, tall, 0.02, color=color, contrast=1.0))
        solids.append(box(-2.54, y, 1.4 + 0.5 * x, 0.02, tall, wide, color=color, contrast=1.0))
    wood: Any = {"color": (0.45, 0.3, 0.2), "contrast": 1.0}
    solids += [box(x, 0, -1.2, 0.06, 1.5, 0.06, **wood) for x in (-0.75, 0.05)]
    solids.append(box(-0.35, 1.5, -1.2, 0.46, 0.12, 0.06, **wood))
    for k in range(7):  # on the edges of the cupboard
        c, s = math.cos(math.radians(8)), math.sin(math.radians(8))
        for u, v in ((-0.46, 0.05 + 0.13 * k), (0.46, 0.05 + 0.13 * k), (0.14 * (k - 3), 0.05)):
            solids.append(box(1.3 + c * u + s * 0.4, v, -1.6 - s * u + c * 0.4, 0.03, 0.05, 0.01,
                              color=WHITE, contrast=1.0, turn=8))  # fmt: skip
    return solids


def tree(dice: np.random.Generator, x: float, z: float, tall: float, leaves: int) -> list[Solid]:
    """A trunk, branches, and leaves in clusters; without leaves there are more branches."""
    more: Any = {"color": EARTH, "contrast": 0.8}
    solids = [box(x, 0, z, 0.02 * tall, 0.75 * tall, 0.02 * tall, **more)]
    for _ in range(8 if leaves else 24):
        y, turn, half = dice.uniform(0.4, 0.75) * tall, dice.uniform(0, 360), 0.12 * tall
        c, s = math.cos(math.radians(turn)), math.sin(math.radians(turn))
        thin = float(dice.uniform(0.004, 0.009)) * tall
        at = np.array([x + half * c, y, z - half * s])
        solids.append(box(*at, half, 2 * thin, thin, turn=turn, **more))
        green: Any = {"contrast": 0.5}
        for _ in range(leaves):
            spot = at + dice.normal(0, 0.07, 3) * tall
            green["color"] = (dice.uniform(0.1, 0.25), dice.uniform(0.25, 0.5), 0.08)
            half_ = tuple(dice.uniform(0.003, 0.016, 3) * tall)
            solids.append(Solid(tuple(spot), half_, turn=dice.uniform(0, 90), **green))
    return solids


def park(dice: np.random.Generator) -> list[Solid]:
    """A statue on a base between trees, a railing, a bench, and a house far behind."""
    stone: Any = {"color": (0.5, 0.5, 0.47), "contrast": 0.6}
    solids = [
        box(0, -0.2, 0, 60, 0.2, 60, color=(0.22, 0.3, 0.12), contrast=0.8),
        box(0, -0.18, 0, 9, 0.2, 9, color=(0.24, 0.33, 0.13), contrast=0.9),
        box(0, 0, 0, 1.6, 0.15, 1.6, contrast=0.7, color=SAND, tiles=16),
        box(0, 0.15, 0, 0.55, 1.2, 0.55, **stone),
        box(0, 1.35, 0, 0.65, 0.1, 0.65, **stone),
        box(-0.13, 1.45, 0, 0.09, 0.8, 0.1, **stone),
        box(0.13, 1.45, 0.05, 0.09, 0.8, 0.1, **stone),
        box(0, 2.25, 0, 0.28, 0.65, 0.16, turn=10, **stone),
        ball(0, 2.92, 0.02, 0.16, **stone),
        box(0.5, 2.7, 0.05, 0.3, 0.1, 0.05, turn=15, **stone),  # an arm, and what it holds
        box(0.76, 1.45, -0.02, 0.018, 1.9, 0.018, **stone),
        box(-0.36, 2.2, 0.0, 0.07, 0.6, 0.07, **stone),
        box(0, 0, -26, 9, 7, 3, color=SAND, contrast=0.5, tiles=22),
        box(-3.4, 0.4, -2.0, 0.8, 0.06, 0.25, color=EARTH, turn=30),
        box(-3.4, 0, -2.0, 0.06, 0.4, 0.2, color=EARTH, turn=30),
    ]
    for k in range(-12, 13):  # a railing behind
        solids.append(box(0.3 * k, 0, -3.2, 0.015, 1.0, 0.015, color=(0.1, 0.1, 0.12)))
    solids.append(box(0, 1.0, -3.2, 3.65, 0.04, 0.03, color=(0.1, 0.1, 0.12)))
    for x, z, tall, leaves in ((-3.2, -4.6, 5, 18), (3.6, -5.5, 6, 18), (4.8, -1.2, 4.5, 0),
                               (-6, -10, 7, 18), (7, -14, 8, 18), (0.5, -9, 6, 0)):  # fmt: skip
        solids += tree(dice, x, z, tall, leaves)
    return solids


def pond(dice: np.random.Generator) -> list[Solid]:
    """A pond in a lawn with stones around, before a house with dark windows."""
    lawn: Any = {"color": (0.25, 0.35, 0.15), "contrast": 0.8}
    solids = [
        box(0, -1.0, 6, 12, 1.0, 4, **lawn),
        box(0, -1.0, -6.5, 12, 1.0, 4.5, **lawn),
        box(-8, -1.0, 0, 4, 1.0, 2, **lawn),
        box(8, -1.0, 0, 4, 1.0, 2, **lawn),
        box(0, -0.4, 0, 4, 0.25, 2, color=(0.03, 0.05, 0.04), contrast=0.0, gloss="smooth"),
        box(0, 0, -5.5, 4.5, 3.5, 0.3, color=SAND, contrast=0.6),
        box(0, 3.5, -5.7, 4.8, 0.3, 0.8, color=(0.4, 0.18, 0.12), contrast=0.7, tiles=30),
    ]
    for x in (-3.2, -1.1, 1.1, 3.2):
        solids.append(box(x, 1.0, -5.18, 0.6, 1.5, 0.05, color=(0.02, 0.02, 0.03), contrast=0.0,
                          gloss="smooth"))  # fmt: skip
        solids.append(box(x, 0.85, -5.1, 0.7, 0.12, 0.12, color=WHITE))
        solids.append(box(x, 2.5, -5.1, 0.7, 0.12, 0.1, color=WHITE))
    for _ in range(26):
        turn, side = dice.uniform(0, 2 * math.pi), dice.uniform(0.1, 0.35)
        x, z = 4.1 * math.cos(turn), 2.2 * math.sin(turn)
        x, z = (np.sign(x) * 4.1, z) if abs(x) > 3.2 else (x, np.sign(z) * 2.15)
        solids.append(box(x, 0, z, side, side, 0.8 * side, color=some_color(dice), contrast=0.7,
                          turn=dice.uniform(0, 90)))  # fmt: skip
    solids += [
        box(-2.6, 0, -3.6, 0.5, 0.9, 0.5, color=(0.5, 0.25, 0.18), contrast=0.8, turn=25),
        ball(-2.6, 0.9, -3.6, 0.45, color=(0.15, 0.35, 0.1), contrast=1.0),
        box(2.4, 0, -3.4, 0.3, 1.8, 0.3, color=(0.3, 0.4, 0.5), contrast=0.8, turn=40),
        *tree(dice, 5.6, -3.2, 4, 30),
    ]
    return solids


def shop(dice: np.random.Generator) -> list[Solid]:
    """A brick front with two large dark panes, which mirror what stands on the pavement."""
    glass: Any = {"color": (0.02, 0.02, 0.03), "contrast": 0.0, "gloss": "smooth"}
    brick: Any = {"color": (0.5, 0.28, 0.2), "contrast": 0.7, "tiles": 40}
    solids = [
        box(0, -0.2, 3, 9, 0.2, 6, color=(0.42, 0.4, 0.37), contrast=0.8, tiles=50),
        box(0, 3.0, -3, 6, 2.2, 0.4, **brick),
        box(0, 0, -3, 6, 0.4, 0.4, **brick),
        *(box(x, 0.4, -3, half, 2.6, 0.4, **brick) for x, half in ((-5, 1), (0, 0.6), (5, 1))),
        *(box(x, 0.4, -2.85, 1.7, 2.6, 0.05, **glass) for x in (-2.3, 2.3)),
        *(box(x, 0.3, -2.5, 1.75, 0.1, 0.2, color=WHITE) for x in (-2.3, 2.3)),
        box(0, 3.1, -2.5, 4.5, 0.5, 0.1, color=(0.15, 0.3, 0.45), contrast=0.9),
    ]
    for _ in range(16):
        solids.append(
            box(dice.uniform(-4.5, 4.5), 0, dice.uniform(-2, 1), 0.2, dice.uniform(0.3, 1.3), 0.2,
                color=some_color(dice), turn=dice.uniform(0, 90), contrast=0.9)
        )  # fmt: skip
    for x in (-3.6, -1.2, 1.4, 3.4):
        tall = float(dice.uniform(0.6, 1.1))
        solids.append(box(x, 0, -1.2, 0.25, tall, 0.25, color=SAND, turn=20, contrast=0.9))
        solids.append(ball(x, tall, -1.2, 0.4, color=some_color(dice), contrast=1.0))
    return solids


def hills(dice: np.random.Generator) -> list[Solid]:
    """Terraces, rows of equal houses, trees, and land up to the horizon, around which one flies."""
    solids = [
        box(0, -1, 0, 700, 0.8, 700, color=(0.3, 0.36, 0.2), contrast=0.8, tiles=60),
        box(0, -0.5, 0, 50, 0.5, 50, color=(0.25, 0.35, 0.15), contrast=0.8),
    ]
    for k in range(14):  # hills far away
        turn, far = 2 * math.pi * k / 14, dice.uniform(250, 600)
        solids.append(box(far * math.sin(turn), -1, far * math.cos(turn), dice.uniform(40, 90),
                          dice.uniform(6, 40), 40, color=(0.2, 0.3, 0.18), contrast=0.8,
                          turn=math.degrees(turn)))  # fmt: skip
    for k in range(6):
        solids.append(box(-12 - 3 * k, 1.4 * k, -8, 28 - 4 * k, 1.4, 26 - 3 * k, contrast=0.9,
                          color=(0.3 + 0.03 * k, 0.35, 0.16)))  # fmt: skip
    for x in (14, 24, 34):
        for z in (-24, -8, 8, 24):
            solids.append(box(x, 0, z, 3.5, 5, 2.5, color=(0.7, 0.66, 0.58), contrast=0.4))
            for k in range(5):  # a roof in steps
                solids.append(box(x, 5 + 0.4 * k, z, 3.8, 0.4, 2.9 - 0.55 * k, contrast=0.5,
                                  color=(0.45, 0.16, 0.1), tiles=28))  # fmt: skip
            solids.append(box(x + 2, 5, z, 0.35, 3, 0.35, color=(0.5, 0.25, 0.2)))
    solids.append(box(-12, 8.4, -8, 3, 12, 3, color=SAND, contrast=0.6, tiles=12))  # a tower
    solids.append(box(-12, 20.4, -8, 0.3, 5, 0.3, color=EARTH))
    for _ in range(10):
        solids += tree(dice, dice.uniform(-6, 10), dice.uniform(-30, 30), dice.uniform(5, 9), 8)
    return solids


def street(dice: np.random.Generator) -> list[Solid]:
    """A long front of four floors of equal windows, curtains in some of them, and a pavement."""
    solids = [
        box(0, -0.2, 4, 13, 0.2, 6, color=(0.4, 0.38, 0.35), contrast=0.7, tiles=60),
        *(box(2.75 * k, 0, -1, 1.375, 11, 0.5, color=SAND, contrast=0.3) for k in range(-4, 5)),
    ]
    for k in range(40):
        x, y = 2.0 * (k % 10) - 9, 0.9 + 2.7 * (k // 10)
        solids += [
            box(x, y, -0.48, 0.55, 1.5, 0.03, color=(0.1, 0.11, 0.14), contrast=0.8),
            box(x, y - 0.12, -0.4, 0.7, 0.12, 0.15, color=WHITE, contrast=0.4),
            box(x, y + 1.5, -0.42, 0.7, 0.15, 0.12, color=WHITE, contrast=0.4),
            box(x, y, -0.45, 0.03, 1.5, 0.03, color=WHITE, contrast=0.3),
        ]
        if dice.random() < 0.6:
            side = float(dice.choice([-0.4, 0.4]))
            solids.append(box(x + side, y, -0.44, 0.15, 1.5, 0.02, color=some_color(dice)))
    for _ in range(14):
        solids.append(
            box(dice.uniform(-10, 10), 0, dice.uniform(0.2, 2.5), dice.uniform(0.15, 0.6),
                dice.uniform(0.3, 1.4), 0.3, color=some_color(dice), turn=dice.uniform(0, 40),
                contrast=0.8)
        )  # fmt: skip
    return solids


def hollow(dice: np.random.Generator) -> list[Solid]:
    """A hollow tree of pieces of bark, open to one side, leaves, and a wood around."""
    solids = [box(4 * (k % 7) - 12, -0.1, 4 * (k // 7) - 12, 2, 0.1, 2, color=(0.3, 0.26, 0.15),
                  contrast=1.0) for k in range(49)]  # fmt: skip
    for k in range(3, 24):
        turn = 2 * math.pi * k / 26
        y, top, aside = 0.0, 2.6 + 0.4 * math.sin(5 * turn), dice.uniform(-15, 15)
        while y < top:
            tall = min(dice.uniform(0.2, 0.32), top - y)
            far = 0.75 + 0.1 * math.sin(3 * turn) + dice.normal(0, 0.012)
            solids.append(
                box(far * math.sin(turn), y, far * math.cos(turn), 0.13, tall, 0.08, contrast=1.0,
                    color=(0.33, 0.24, 0.16), turn=math.degrees(turn) + aside + dice.normal(0, 3))
            )  # fmt: skip
            y += tall
    for k in range(1000):
        turn, leaf = dice.uniform(0, 2 * math.pi), k % 2
        far, y = dice.uniform(0.6, 2.6) if leaf else dice.uniform(0.9, 5), dice.uniform(2.3, 4.4)
        color = (dice.uniform(0.1, 0.25), dice.uniform(0.25, 0.5), 0.08)
        if not leaf:
            color = tuple(np.array([0.3, 0.24, 0.16]) * dice.uniform(0.4, 1.6))
        half = dice.uniform(0.02, 0.1, 3)
        solids.append(
            Solid((far * math.sin(turn), y if leaf else half[1], far * math.cos(turn)), tuple(half),
                  color=color, turn=dice.uniform(0, 90), contrast=0.6)
        )  # fmt: skip
    for k in range(14):
        turn = 2 * math.pi * k / 14
        solids += tree(dice, 9 * math.sin(turn), 9 * math.cos(turn), dice.uniform(4, 7), 3)
    return solids


def ring(start: float, stop: float, far: float, heights: tuple[float, ...], look: Array,
         count: int) -> tuple[Array, Array]:  # fmt: skip
    """Places of cameras and what they look at, both [count, 3]; angles from z towards x."""
    angles = np.radians(np.linspace(start, stop, count))
    y = np.array([heights[k % len(heights)] for k in range(count)])
    eyes = np.stack([far * np.sin(angles), y, far * np.cos(angles)], 1)
    return eyes, np.tile(look, (count, 1))


def paths(name: str, count: int) -> tuple[Array, Array]:
    """Where the photos of a scene are taken from, and towards what."""
    if name in ("room", "bare"):
        return ring(-50, 60, 2.5, (1.1, 1.7), np.array([0.0, 0.6, -0.9]), count)
    if name in ("heap", "white"):
        return ring(-30, 120, 3.4, (1.0, 1.9), np.array([-0.2, 0.4, -0.2]), count)
    if name == "village":  # forth and back 40 m above, and a few from aside
        aside = count // 6
        rows = max(2, round(math.sqrt(count - aside)))
        k = np.arange(count - aside)
        row, step = k // rows, k % rows
        step = np.where(row % 2, rows - 1 - step, step)
        spread = np.linspace(-22, 22, rows)
        wind = np.random.default_rng(5).normal(0, 0.6, (len(k), 3))
        eyes = np.stack([spread[step], 40 + 0 * k, 22 - 44 * row / max(row.max(), 1)], 1) + wind
        looks = eyes * [1, 0, 1] + np.stack([np.where(row % 2, -0.5, 0.5), 0 * k, 0 * k], 1)
        more = ring(0, 360 * (1 - 1 / aside), 38, (30.0,), np.zeros(3), aside)
        return np.concatenate([eyes, more[0]]), np.concatenate([looks, more[1]])
    if name == "grid":  # lanes 45 m above, straight down
        k = np.arange(count)
        row, step = k // 6, k % 6
        step = np.where(row % 2, 5 - step, step)
        eyes = np.stack([10 * step - 25, 0 * k + 45, 24 - 48 * row / max(row.max(), 1)], 1)
        eyes = eyes + np.random.default_rng(5).normal(0, 0.5, eyes.shape)
        return eyes, eyes * [1, 0, 1] - [0, 0, 0.01]
    if name == "street":  # along it, looking across
        dice = np.random.default_rng(4)
        eyes = np.stack([np.linspace(-9, 9, count), np.full(count, 1.6), np.full(count, 7.2)], 1)
        eyes += dice.normal(0, 0.08, eyes.shape)
        return eyes, eyes * [1, 0, 0] + [0, 3.2, -1] + dice.normal(0, [0.3, 0.1, 0], eyes.shape)
    if name == "hollow":
        eyes, looks = ring(-150, 150, 3.0, (1.3, 1.6, 1.8), np.array([0.0, 1.6, 0.0]), count)
        return eyes * (1 + 0.15 * np.sin(2 * np.arange(count)))[:, None] ** [1, 0, 1], looks
    if name == "corridor":
        k = np.arange(count)
        eyes = np.stack([0.15 * np.sin(1.9 * k), 1.5 + 0.05 * np.sin(2.7 * k),
                         1.5 - 12 * k / max(count - 1, 1)], 1)  # fmt: skip
        return eyes, eyes * [0.3, 0.9, 1] + np.array([0, 0, -4])
    if name == "hills":
        return ring(0, 360 * (1 - 1 / count), 62, (22.0, 34.0), np.array([5.0, 12.0, 0.0]), count)
    if name == "park":
        return ring(-75, 75, 6.5, (1.6, 1.8), np.array([0.0, 1.6, -0.6]), count)
    if name == "pond":
        eyes, looks = ring(-55, 55, 7.5, (1.6, 1.8), np.array([0.0, 0.7, -2.4]), count)
        return eyes - [0, 0, 0.5], looks
    if name == "shop":
        eyes, looks = ring(-50, 50, 6.0, (1.6, 1.9), np.array([0.0, 1.2, -2.2]), count)
        return eyes - [0, 0, 1.0], looks
    if name == "table":
        return ring(0, 360 * (1 - 1 / count), 0.5, (1.0, 1.25), np.array([0.0, 0.8, 0.0]), count)
    eyes = np.stack([np.linspace(-5, 5, count), np.tile([1.5, 1.9, 1.7], count)[:count],
                     6.0 - 0.08 * np.linspace(-5, 5, count) ** 2], 1)  # fmt: skip
    return eyes, eyes * [0.45, 0, 0] + np.array([0, 2.1, -1.8])


SCENES = {
    "room": room, "front": front, "heap": heap, "white": white, "bare": bare,
    "village": village,
    "corridor": corridor, "table": desk, "park": park, "pond": pond,
    "hills": hills, "shop": shop, "street": street, "grid": village, "hollow": hollow,
}  # fmt: skip
# Of each scene lamps (place, half of the side) or else a sky with a sun.
LAMPS = {
    "room": [((0.4, 2.9, 0.6), 0.7)],
    "bare": [((0.4, 2.9, 0.6), 0.7)],
    "table": [((0.8, 2.9, 0.6), 1.0)],
    "corridor": [((0.0, 2.55, z), 0.4) for z in (0, -4, -8, -12, -16)],
}  # fmt: skip
CLOUDY = ("hills", "park", "pond", "shop")  # skies
FLOWN = ("village", "hills", "grid")  # by drones: photos have GPS, if cameras are found
# How far from the middle of a scene what is measured may be, in metres, of the truth and of meshes:
# of hills up to the horizon 3 % of the area of a mesh is where photos are to show something.
NEAR = {"hills": 60.0, "park": 12.0, "pond": 14.0, "shop": 14.0}


# -- drawing ---------------------------------------------------------------------------------------


def wisps(dice: np.random.Generator, size: int) -> Array:
    """Noise of all sizes [size, size], of deviation 1."""
    total = np.zeros((size, size))
    for octave in range(3, size.bit_length()):
        small = dice.normal(0, 1, (2**octave, 2**octave)).astype(np.float32)
        total += 0.85**octave * np.asarray(
            Image.fromarray(small).resize((size, size), Image.Resampling.BICUBIC)
        )
    return total / total.std()


def grain(dice: np.random.Generator, solid: Solid, size: int = 1024) -> Array:
    """RGB [size, size, 3]: a colour with noise of all sizes, and fields if it has tiles."""
    shade = 1 + solid.contrast * 0.45 * wisps(dice, size)
    if solid.tiles:
        cell = np.arange(size) * solid.tiles // size
        shade *= np.where((cell[:, None] + cell) % 2, 1.0, 0.72)
    return (shade[..., None] * np.array(solid.color)).clip(0.02, 0.95).astype(np.float32)


def traced(name: str, solids: list[Solid], dice: np.random.Generator) -> Any:
    """The scene as Mitsuba's."""
    import mitsuba as mi

    turn: Any = mi.ScalarTransform4f
    parts: dict[str, Any] = {"type": "scene", "integrator": {"type": "path", "max_depth": 4}}
    for k, solid in enumerate(solids):
        small = len(solids) > 300 and np.max(solid.half) < 0.4
        size = 64 if small else 1024
        skin = {"type": "bitmap", "bitmap": mi.Bitmap(grain(dice, solid, size)), "raw": True}
        look: dict[str, Any] = {"type": "diffuse", "reflectance": skin}
        if solid.gloss == "rough":
            look = {"type": "roughplastic", "diffuse_reflectance": skin, "alpha": 0.15}
        elif solid.gloss == "smooth":
            look = {"type": "plastic", "diffuse_reflectance": skin}
        round_ = isinstance(solid.half, float)
        half = [solid.half] * 3 if round_ else list(solid.half)  # type: ignore[call-overload]
        parts[f"solid{k}"] = {
            "type": "sphere" if round_ else "cube", "bsdf": look,
            "to_world": turn().translate(list(solid.centre)) @ turn().rotate([0, 1, 0], solid.turn)
            @ turn().scale(half),
        }  # fmt: skip
    if name in LAMPS:
        for k, (place, half) in enumerate(LAMPS[name]):
            parts[f"lamp{k}"] = {
                "type": "rectangle", "to_world": turn().translate(list(place))
                @ turn().rotate([1, 0, 0], 90) @ turn().scale([half, half, 1]),
                "emitter": {"type": "area", "radiance": {"type": "rgb", "value": [9, 8.5, 7.5]}},
            }  # fmt: skip
        parts["around"] = {"type": "constant", "radiance": {"type": "rgb", "value": 0.5}}
    else:
        down = np.linspace(1, -1, 256)[:, None, None]
        sky = np.tile(np.array([0.45, 0.6, 0.85]) * (1.2 - 0.5 * down.clip(0)), (1, 512, 1))
        if name in CLOUDY:
            high = np.linspace(1, 0, 128)[:, None] ** 0.5
            clouds = (3 * (wisps(dice, 512)[:128] - 0.25)).clip(0, 1) * high
            sky[:128] += clouds[..., None] * (np.array([1.1, 1.1, 1.1]) - sky[:128])
        parts["sky"] = {"type": "envmap", "bitmap": mi.Bitmap(sky.astype(np.float32))}
        parts["sun"] = {"type": "directional", "direction": [-0.5, -1.0, -0.6],
                        "irradiance": {"type": "rgb", "value": [1.6, 1.5, 1.3]}}  # fmt: skip
    return mi.load_dict(parts)


def pinhole(eye: Array, look: Array, shape: tuple[int, int]) -> tuple[Array, Array]:
    """K and R of a camera that is upright."""
    height, width = shape
    focal = width / 2 / math.tan(math.radians(ANGLE) / 2)
    ahead = (look - eye) / np.linalg.norm(look - eye)
    right = np.cross(ahead, [0, 1, 0])
    right /= np.linalg.norm(right)
    K = np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])
    return K, np.stack([right, np.cross(ahead, right), ahead])


def survey(folder: Path, name: str, count: int, shape: tuple[int, int]) -> None:
    """Write the cameras of a scene, points as features give them, and the truth."""
    photos = folder / "photos"
    photos.mkdir(parents=True, exist_ok=True)
    solids = np.array([solid.row for solid in SCENES[name](np.random.default_rng(SEED))])
    eyes, looks = paths(name, count)
    images: list[dict[str, Any]] = []
    seen: list[Array] = []
    height, width = shape
    v, u = (axis.ravel()[:: EVERY * EVERY] + 0.5 for axis in np.mgrid[:height, :width])
    poses = [pinhole(eye, look, shape) for eye, look in zip(eyes, looks, strict=True)]
    for k, (eye, (K, R)) in enumerate(zip(eyes, poses, strict=True)):
        rays = np.stack([u, v, np.ones_like(u)], 1) @ np.linalg.inv(K).T @ R
        far = cast(eye, rays, solids)
        seen.append((eye + far[:, None] * rays)[np.isfinite(far)])
        images.append({"file": f"{k:02d}.png", "width": width, "height": height, "K": K.tolist(),
                       "R": R.tolist(), "t": (-R @ eye).tolist()})  # fmt: skip
    points = np.concatenate(seen)
    views = np.zeros((len(points), count), bool)
    for k, (eye, (K, R)) in enumerate(zip(eyes, poses, strict=True)):
        x = (points - eye) @ R.T @ K.T
        inside = (x[:, 2] > 0) & (x[:, :2] > 0).all(1)
        inside &= (x[:, :2] < np.array([width, height]) * x[:, 2:]).all(1)
        views[inside, k] = cast(eye, points[inside] - eye, solids) > 1 - 1e-4
    rows = [
        f"{p} {' '.join(map(repr, points[p].tolist()))} 0 0 0 -1 "
        + " ".join(f"{n + 1} 0" for n in np.flatnonzero(views[p]))
        for p in range(0, len(points), 1 + len(points) // 3000)  # as many as features would find
    ]
    (photos / "points3D.txt").write_text("\n".join(rows) + "\n")
    content = {"points": "points3D.txt", "images": images}
    (photos / "cameras.json").write_text(json.dumps(content))
    near = np.linalg.norm(points, axis=1) < NEAR.get(name, np.inf)
    points, views = points[near], views[near]
    np.savez(folder / "truth.npz", points=points, views=views.sum(1), eyes=eyes)


def draw(folder: Path, name: str, count: int, shape: tuple[int, int], samples: int) -> None:
    """Draw the photos of a scene that are not there yet."""
    import mitsuba as mi

    mi.set_variant("llvm_ad_rgb")
    solids = SCENES[name](np.random.default_rng(SEED))
    scene = traced(name, solids, np.random.default_rng(11))
    for k, (eye, look) in enumerate(zip(*paths(name, count), strict=True)):
        path = folder / "photos" / f"{k:02d}.png"
        if path.is_file():
            continue
        sensor = mi.load_dict({
            "type": "perspective", "fov": ANGLE, "fov_axis": "x",
            "to_world": mi.ScalarTransform4f().look_at(list(eye), list(look), [0, 1, 0]),
            "film": {"type": "hdrfilm", "width": shape[1], "height": shape[0],
                     "rfilter": {"type": "box"}},
            "sampler": {"type": "multijitter", "sample_count": samples},
        })  # fmt: skip
        drawn = mi.Bitmap(mi.render(scene, sensor=sensor, seed=k))
        kind = mi.Bitmap.PixelFormat.RGB
        drawn.convert(kind, mi.Struct.Type.UInt8, srgb_gamma=True).write(str(path))


# -- measuring -------------------------------------------------------------------------------------


def fitted(photos: Path, out: Path, *more: str) -> tuple[dict[str, Any], float]:
    """What `gendr fit` says of a folder, with the memory so far; and the processor's seconds."""
    begin = time.process_time()
    if cli.main(["fit", str(photos), "-o", str(out), "--scene", "--quiet", *more]):
        raise SystemExit(f"gendr fit failed on {photos}")
    seconds, peak = time.process_time() - begin, getrusage(RUSAGE_SELF).ru_maxrss / 2**20
    return json.loads((out / "metrics.json").read_text()) | {"peak_gib": peak}, seconds


def aligned(found: Array, true: Array) -> tuple[float, Array, Array]:
    """s, R [3, 3], t [3] with true = s R found + t (Umeyama, PAMI 13, 1991)."""
    a, b = found - found.mean(0), true - true.mean(0)
    u, d, v = np.linalg.svd(b.T @ a)
    sign = np.diag([1, 1, np.sign(np.linalg.det(u @ v))])
    turn = u @ sign @ v
    scale = float((d * np.diag(sign)).sum() / (a * a).sum())
    return scale, turn, true.mean(0) - scale * turn @ found.mean(0)


def compared(mesh: Mesh, solids: list[Solid], truth: Array, found: Array | None, eyes: Array,
             near: float = math.inf) -> dict[str, Any]:  # fmt: skip
    """Measures of a mesh; `found` are the places of the cameras in its frame, `eyes` the true.

    Of what is farther from the origin than `near` nothing counts.
    """
    corners = mesh.vertices.double().numpy() + mesh.origin[0].double().numpy()
    if found is not None:
        scale, turn, shift = aligned(found, eyes)
        corners = scale * corners @ turn.T + shift
    # Only these are sampled: else points of hills would be a metre apart where recall is measured.
    inside = (np.linalg.norm(corners, axis=1) < near)[mesh.faces.numpy()].all(1)
    part = Mesh(torch.from_numpy(corners), mesh.faces[torch.from_numpy(inside)])
    points = part.sample_points(POINTS, torch.Generator().manual_seed(0))[0].double().numpy()
    diagonal = float(np.linalg.norm(np.ptp(truth, axis=0)))
    own = reduce(np.minimum, (solid.distances(points) for solid in solids))
    there = KDTree(points).query(truth)[0]
    row: dict[str, Any] = {
        "diagonal": diagonal,
        "accuracy_median": float(np.median(own)) / diagonal,
    }
    for part in PARTS:
        precision = float((own < part * diagonal).mean())
        recall = float((there < part * diagonal).mean())
        f = 2 * precision * recall / max(precision + recall, 1e-9)
        row |= {f"precision_{part}": precision, f"recall_{part}": recall, f"f_{part}": f}
    return row


def flown(file: Path, target: Path, eye: Array) -> None:
    """A photo as drones store it: JPEG with a lens and a GPS fix that is off by half a metre."""

    def parts(degrees: float) -> tuple[float, float, float]:
        return math.floor(degrees), math.floor(60 * degrees % 60), round(3600 * degrees % 60, 4)

    x, y, z = eye + np.random.default_rng(int(file.stem)).normal(0, 0.5, 3)
    exif = Image.Exif()
    exif[0x10F], exif[0x110], exif[0x112] = "DJI", "FC3582", 1
    exif.get_ifd(0x8769)[0xA405] = round(18 / math.tan(math.radians(ANGLE) / 2))  # as with film
    north, east = 47 - z / 111_180, 8 + x / (111_320 * math.cos(math.radians(47)))
    said = {1: "N", 2: parts(north), 3: "E", 4: parts(east), 5: b"\0", 6: round(400 + y, 3)}
    exif.get_ifd(0x8825).update(said)
    Image.open(file).convert("RGB").save(target, quality=92, exif=exif)


def measured(work: Path, name: str, find: bool, *more: str) -> dict[str, Any]:
    """Measure a scene that was drawn."""
    photos, out = work / name / "photos", work / name / ("found" if find else "given")
    known = np.load(work / name / "truth.npz")
    if find:  # the photos alone
        photos = work / name / "bare"
        photos.mkdir(exist_ok=True)
        for file in (work / name / "photos").glob("*.png"):
            if name in FLOWN:
                flown(file, photos / f"{file.stem}.jpg", known["eyes"][int(file.stem)])
            else:
                shutil.copy2(file, photos)  # with their times, by which --resume knows them
    metrics, seconds = fitted(photos, out, *more)
    found, rows = None, np.arange(len(known["eyes"]))
    if find:
        images = json.loads((out / "cameras.json").read_text())["images"]
        rows = np.array([int(Path(image["file"]).stem) for image in images])
        found = np.stack([-np.array(i["R"]).T @ np.array(i["t"]) for i in images])
    solids = SCENES[name](np.random.default_rng(SEED))
    truth = known["points"][known["views"] >= LEAST]
    row: dict[str, Any] = {
        "scene": name, "cameras": "found" if find else "given", "photos": len(rows),
        **{key: metrics[key] for key in ("image_size", "matched", "kept", "faces", "peak_gib")},
    }  # fmt: skip
    mesh = Mesh.load(out / "fit.glb")
    near = NEAR.get(name, math.inf)
    row |= compared(mesh, solids, truth, found, known["eyes"][rows], near)
    return row | {"seconds": metrics["seconds"]["total"], "processor_seconds": round(seconds, 1)}


def photos(folder: Path, work: Path, more: list[str]) -> dict[str, Any]:
    """Measure a folder of photographs."""
    metrics, seconds = fitted(folder, work / "out", "--hold-out", "5", *more)
    names = ("image_size", "points", "matched", "kept", "seen_by", "faces", "scores", "seconds")
    names += ("peak_gib",)
    row = {"scene": folder.name, "photos": metrics["placed"], **{n: metrics[n] for n in names}}
    return row | {"processor_seconds": round(seconds, 1)}


# Kinds of harm; of the others than the first ones all photos have it.
HARMS = (
    "none", "three blurred", "exposures", "one of another place", "two copies", "five portraits",
    "every fourth alone", "a moving person", "a white wall", "two lenses, three sizes",
    "three alone", "a finger, and dark corners", "grey, of 16 bits", "zoom without EXIF",
)  # fmt: skip


def harmed(work: Path, kind: str) -> Path:
    """A folder of photos of the heap that suffer from something; a copy, without cameras."""
    source = work / ("white" if kind == "a white wall" else "heap") / "photos"
    folder = work / "harms" / kind.replace(" ", "-") / "photos"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = sorted(source.glob("*.png"))
    dice = np.random.default_rng(3)
    for k, file in enumerate(files):
        with Image.open(file) as opened:
            image = opened.convert("RGB")
        height, width = image.height, image.width
        if kind == "three blurred" and k % 5 == 2:
            image = image.filter(ImageFilter.GaussianBlur(width / 150))
        elif kind == "exposures":
            gain = dice.uniform(0.5, 1.6)
            image = image.point(lambda value, gain=gain: min(255, int(gain * value)))
        elif kind == "five portraits" and k % 3 == 1:  # the middle, turned as phones store it
            middle = image.crop(
                (width // 2 - 3 * height // 8, 0, width // 2 + 3 * height // 8, height)
            )
            exif = Image.Exif()
            exif[0x112] = 6
            turned = middle.transpose(Image.Transpose.ROTATE_90)
            turned.save(folder / f"{k:02d}.jpg", quality=95, exif=exif)
            continue
        elif kind == "a moving person":
            tall = int(height * dice.uniform(0.4, 0.6))
            noise = dice.integers(0, 255, (12, 5, 3)).astype(np.uint8)
            body = Image.fromarray(noise).resize((tall // 3, tall), Image.Resampling.NEAREST)
            shape = Image.new("L", body.size)
            ImageDraw.Draw(shape).ellipse((0, 0, *body.size), fill=255)
            image.paste(body, (int(dice.uniform(0, width - tall // 3)), height // 4), shape)
        elif kind == "two lenses, three sizes":
            lens, exif = round(18 / math.tan(math.radians(ANGLE) / 2)), Image.Exif()
            if k % 3 == 1:  # zoomed, in pixels of the same number
                lens, (x, y) = round(1.5 * lens), (width // 6, height // 6)
                image = image.resize((width, height), box=(x, y, width - x, height - y))
            elif k % 3 == 2:
                image = image.resize((3 * width // 4, 3 * height // 4))
            exif.get_ifd(0x8769)[0xA405] = lens  # as with film
            image.save(folder / f"{k:02d}.jpg", quality=95, exif=exif)
            continue
        elif kind == "zoom without EXIF" and k % 3 == 1:
            box = (width // 6, height // 6, width - width // 6, height - height // 6)
            image = image.resize((width, height), box=box)
        elif kind == "a finger, and dark corners":
            y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
            pixels = np.asarray(image) * (1 - 0.35 * (x * x + y * y))[..., None]
            if k % 3 == 0:
                part = 1 / (1 + np.exp(20 * (np.hypot(x - 1, (y + 1) / 1.5) - 0.5)))[..., None]
                pixels = pixels * (1 - part) + part * np.array([150, 70, 60])
            image = Image.fromarray(pixels.astype(np.uint8))
        elif kind == "grey, of 16 bits":
            image = Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257)
        if (kind != "every fourth alone" or k % 4 == 0) and (kind != "three alone" or 3 < k < 7):
            image.save(folder / f"{k:02d}.png")
    if kind == "one of another place":
        shutil.copy(sorted((work / "front" / "photos").glob("*.png"))[5], folder / "other.png")
    if kind == "two copies":
        shutil.copy(files[3], folder / "a.png")
        Image.open(files[6]).save(folder / "b.jpg", quality=80)
    return folder


def suffered(work: Path, kind: str) -> dict[str, Any]:
    """What the whole command makes of harmed photos, and what it says."""
    photos = harmed(work, kind)
    out, said = photos.parent / "out", io.StringIO()
    words = ["fit", str(photos), "-o", str(out), "--scene", "--colors", "none"]
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        status = cli.main([*words, "--image-size", "240"])
    told = [text.strip() for text in re.split(r"[\r\n]", said.getvalue())]
    notes = [
        text.removeprefix("gendr: ").replace(f"{photos.parent}/", "")
        for text in told if text.startswith("gendr: ") and "compiling" not in text
    ]  # fmt: skip
    row: dict[str, Any] = {
        "harm": kind, "photos": len(list(photos.iterdir())), "status": status, "said": notes,
    }  # fmt: skip
    if status:
        return row
    metrics = json.loads((out / "metrics.json").read_text())
    images = json.loads((out / "cameras.json").read_text())["images"]
    name = "white" if kind == "a white wall" else "heap"
    known = np.load(work / name / "truth.npz")
    own = [image for image in images if Path(image["file"]).stem.isdigit()]
    places = np.stack([-np.array(i["R"]).T @ np.array(i["t"]) for i in own])
    eyes = known["eyes"][[int(Path(image["file"]).stem) for image in own]]
    solids = SCENES[name](np.random.default_rng(SEED))
    truth = known["points"][known["views"] >= LEAST]
    row |= compared(Mesh.load(out / "fit.glb"), solids, truth, places, eyes)
    row |= {
        "placed": len(images),
        "matched": metrics["matched"],
        "cover": metrics["scores"]["cover"],
    }
    return row | {"psnr": metrics["scores"]["psnr"], "seconds": metrics["seconds"]["total"]}


def harm_lines(rows: list[dict[str, Any]]) -> list[str]:
    """The table of the page."""
    head = ["photos", "what is said", "placed", "matched, %", "precision at 1 %", "recall at 1 %"]
    cells: list[list[str]] = []
    for row in rows:
        told = "; ".join(row["said"]).replace("|", "/")
        cells.append([row["harm"], told, f"{row.get('placed', 0)} of {row['photos']}"])
        if "matched" in row:
            numbers = (row["precision_0.01"], row["recall_0.01"])
            cells[-1] += [f"{100 * row['matched']:.0f}", *(f"{x:.3f}" for x in numbers)]
        else:
            cells[-1] += 3 * [""]
    runs = sorted({f"{row['date']}, {row['commit']}, {row['machine']}" for row in rows})
    return [*table(head, cells, left=2), "", f"{'; '.join(runs)}."]


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """The table of the page."""
    head = [
        "scene", "cameras", "accuracy, median, % of the diagonal", "F-score at 0.5 %", "at 1 %",
        "precision at 0.5 %", "recall at 0.5 %", "at 1 %", "pixels matched, %", "photos",
        "seconds of a core", "memory, GiB",
    ]  # fmt: skip
    cells = [
        [row["scene"], row["cameras"], f"{100 * row['accuracy_median']:.3f}",
         *(f"{row[key]:.3f}" for key in ("f_0.005", "f_0.01", "precision_0.005", "recall_0.005",
                                         "recall_0.01")),
         f"{100 * row['matched']:.0f}",
         f"{row['photos']} of {row['image_size'][1]} × {row['image_size'][0]}",
         f"{row['processor_seconds']:.0f}", f"{row['peak_gib']:.2f}" if "peak_gib" in row else ""]
        for row in rows if "f_0.01" in row
    ]  # fmt: skip
    runs = sorted({f"{row['date']}, {row['commit']}, {row['machine']}" for row in rows})
    return [*ABOUT.splitlines(), "", *table(head, cells, left=2), "", f"{'; '.join(runs)}."]


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """The table of the page for readers."""
    head = ["scene", "cameras", "accuracy, median", "F-score at 0.5 %", "at 1 %"]
    rows = [row for row in rows if row["scene"] in list(SCENES)[:3]]
    cells = [
        [row["scene"], row["cameras"], f"{100 * row['accuracy_median']:.2f} %",
         *(f"{row[key]:.3f}" for key in ("f_0.005", "f_0.01"))]
        for row in rows if "f_0.01" in row
    ]  # fmt: skip
    return table(head, cells, left=2)


def main() -> None:
    """Draw, or measure and with --docs keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("draw", "measure", "harms", "photos"))
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--scenes", nargs="+", choices=SCENES, default=list(SCENES)[:3])
    parser.add_argument("--harms", nargs="+", choices=HARMS, default=list(HARMS))
    parser.add_argument("--find", action="store_true", help="find the cameras, too")
    parser.add_argument("--photos", type=int, default=30)
    parser.add_argument("--width", type=int, default=1152)
    parser.add_argument("--samples", type=int, default=64, help="of a pixel")
    parser.add_argument("--docs", action="store_true")
    parser.epilog = "What stands behind -- are options of gendr fit."
    given = sys.argv[1:]
    cut = given.index("--") if "--" in given else len(given)
    args, more = parser.parse_args(given[:cut]), given[cut + 1 :]
    work = args.folders[-1]
    if args.what == "draw":
        for name in args.scenes:
            shape = args.width * 3 // 4, args.width
            survey(work / name, name, args.photos, shape)
            draw(work / name, name, args.photos, shape, args.samples)
        return
    if args.what == "harms":
        file = RESULTS.with_name("harms.json")
        rows = {row["harm"]: row for row in json.loads(file.read_text())}
        about = measured_on()  # before what is written here
        for kind in args.harms:
            rows[kind] = suffered(work, kind) | about
            print(json.dumps(rows[kind]), flush=True)
            if args.docs:
                chosen = [rows[kind] for kind in HARMS if kind in rows]
                file.write_text(json.dumps(chosen, indent=1) + "\n")
                fill(PAGE, "harms", harm_lines(chosen))
        return
    kept = json.loads(RESULTS.read_text()) if args.docs and RESULTS.is_file() else []
    for name in args.scenes if args.what == "measure" else [""]:
        row = measured(work, name, args.find, *more) if name else photos(*args.folders, more)
        row |= measured_on()
        print(json.dumps(row), flush=True)
        same = row["scene"], row.get("cameras")
        kept = [old for old in kept if (old["scene"], old.get("cameras")) != same] + [row]
        if args.docs:
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
            if name:
                fill(PAGE, "rooms", lines(kept))
                fill(PAGE.parents[1] / PAGE.name, "rooms-summary", summary(kept))


if __name__ == "__main__":
    main()
