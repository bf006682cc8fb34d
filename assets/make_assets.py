"""Make the meshes in this folder: `python assets/make_assets.py [folder]`.

The chair comes with the package, in gendr/assets, unless another folder is named.

    sphere_642.obj    unit sphere, an icosahedron split three times
    sphere_1352.obj   unit sphere, a cube with 15 x 15 cells a side
    teapot.obj        the Utah teapot from its published control points (teapot_patches.txt)
    airplane.obj      a twin-engined airliner, from the measures in `Airliner`
    lamp.obj          a floor lamp with a thin stem, from the measures in `Lamp`
    chair.obj         a chair, from the measures in `Chair`

All have y up and are centred. The spheres, the airplane, the lamp and the chair are closed,
connected, without handles and oriented outwards, so a sphere can be deformed into any of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gendr.mesh import cube_sphere, icosphere

FOLDER = Path(__file__).resolve().parent
PACKAGED = FOLDER.parent / "gendr" / "assets"
Points = NDArray[np.float64]
Faces = NDArray[np.int64]


# -- files -------------------------------------------------------------------------------------


def write_obj(path: Path, vertices: Points, faces: Faces, title: str) -> None:
    """Write an OBJ with six significant digits."""
    lines = [f"# {title}", "# made by assets/make_assets.py of gendr"]
    lines += ["v " + " ".join(f"{x + 0.0:.6g}" for x in v) for v in np.round(vertices, 9)]
    lines += ["f " + " ".join(str(i + 1) for i in f) for f in faces]
    path.write_text("\n".join(lines) + "\n", encoding="ascii", newline="\n")


# -- the workbench: a surface of polygons whose patches are pulled out and joined -----------------


class Surface:
    """A closed surface under construction: points, and polygons that run round outwards.

    `take` removes a patch of polygons and returns the loop round the hole; `grow` draws rings of
    points out of such a loop, `cap` closes it, `join` ties two of them together. Each keeps the
    surface oriented, because a loop keeps the direction of the polygons that were removed.
    """

    def __init__(self) -> None:
        self.points: list[Points] = []
        self.polygons: list[tuple[int, ...]] = []

    def add(self, points: Points) -> list[int]:
        """Append points [N, 3]; their indices."""
        start = len(self.points)
        self.points.extend(np.asarray(points, float))
        return list(range(start, len(self.points)))

    def tube(self, rings: Sequence[Points]) -> list[list[int]]:
        """Quads between neighbouring rings [N, 3], which turn counter-clockwise seen from the last.

        Both ends stay open; returns the indices of the rings.
        """
        index = [self.add(ring) for ring in rings]
        for a, b in pairwise(index):
            self._belt(a, b)
        return index

    def _belt(self, a: Sequence[int], b: Sequence[int]) -> None:
        """Quads from loop a to loop b, each in the direction of a."""
        n = len(a)
        self.polygons += [(a[i], a[(i + 1) % n], b[(i + 1) % n], b[i]) for i in range(n)]

    def take(self, patch: set[int]) -> list[int]:
        """Remove the polygons whose corners all lie in `patch`; the loop round the hole."""
        gone = [p for p in self.polygons if patch.issuperset(p)]
        self.polygons = [p for p in self.polygons if not patch.issuperset(p)]
        edges = {(a, b) for p in gone for a, b in zip(p, (*p[1:], p[0]), strict=True)}
        after = {a: b for a, b in edges if (b, a) not in edges}
        loop = [min(after)]
        while after[loop[-1]] != loop[0]:
            loop.append(after[loop[-1]])
        if len(loop) != len(after):
            raise ValueError("the patch must be one piece without holes")
        return loop

    def grow(self, loop: Sequence[int], rings: Sequence[Points]) -> list[list[int]]:
        """Rings [N, 3] of new points out of a loop of N; the indices of all rings, loop first."""
        index = [list(loop)]
        for ring in rings:
            index.append(self.add(ring))
            self._belt(index[-2], index[-1])
        return index

    def cap(self, loop: Sequence[int]) -> None:
        """Close a loop by a fan round its centre."""
        (centre,) = self.add(np.mean([self.points[i] for i in loop], 0)[None])
        self.polygons += [(a, b, centre) for a, b in zip(loop, [*loop[1:], loop[0]], strict=True)]

    def cap_flat(self, loop: Sequence[int]) -> None:
        """Close a loop of even length by strips across it, from point 0 to the opposite one."""
        n = len(loop)
        for i in range(n // 2):
            corners = loop[i], loop[i + 1], loop[n - i - 1], loop[-i]
            self.polygons.append(tuple(dict.fromkeys(corners)))

    def join(self, a: Sequence[int], b: Sequence[int]) -> None:
        """Tie two loops of equal length that face each other, at their least total distance."""
        back = list(reversed(b))
        turns = [back[k:] + back[:k] for k in range(len(back))]
        cost = [np.linalg.norm(self.place(a) - self.place(t), axis=1).sum() for t in turns]
        self._belt(a, turns[int(np.argmin(cost))])

    def place(self, loop: Sequence[int]) -> Points:
        """The points of a loop: [N, 3]."""
        return np.array([self.points[i] for i in loop])

    def triangles(self) -> tuple[Points, Faces]:
        """Vertices in use, and triangles; quads are cut along the shorter diagonal."""
        points, faces = np.array(self.points), []
        for p in self.polygons:
            if len(p) == 4:
                across = np.linalg.norm(points[p[0]] - points[p[2]])
                if np.linalg.norm(points[p[1]] - points[p[3]]) < across * (1 - 1e-9):
                    p = (*p[1:], p[0])
                faces += [(p[0], p[1], p[2]), (p[0], p[2], p[3])]
            else:
                faces.append(p)
        used, renumbered = np.unique(np.array(faces), return_inverse=True)
        return points[used], renumbered.reshape(-1, 3)


# -- airplane ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Airliner:
    """Measures in fuselage lengths; nose along +z, y up, the left wing along +x.

    The proportions are those of a twin-engined airliner of the A330 kind, with wings about a
    quarter thicker than real ones, so that they cover pixels seen from the front too.
    """

    radius: float = 0.052
    sides: int = 20  # of the fuselage
    span: float = 0.96
    wing_root: tuple[float, float] = (0.115, 0.235)  # leading edge z, chord
    wing_kink: float = 0.36  # of the half span, where the trailing edge bends
    sweep: float = 30.0  # of the leading edge, degrees
    tip_chord: float = 0.058
    dihedral: float = 5.5  # degrees
    thickness: tuple[float, float] = (0.15, 0.12)  # of the chord, root and tip
    tail_span: float = 0.33
    tail_root: tuple[float, float] = (-0.375, 0.098)
    tail_tip_chord: float = 0.04
    fin_root: tuple[float, float] = (-0.325, 0.135)
    fin_height: float = 0.155
    fin_tip_chord: float = 0.06
    engine_at: float = 0.33  # of the half span
    engine_radius: float = 0.0275
    engine_length: float = 0.115
    engine_ahead: float = 0.07  # intake before the leading edge
    engine_below: float = 0.038  # axis under the wing


def fuselage_section(plane: Airliner, z: Points) -> tuple[Points, Points]:
    """Radius and height of the axis along the fuselage, z from -0.5 (tail) to 0.5 (nose)."""
    nose = np.clip((0.5 - z) / 0.12, 0, 1)
    tail = np.clip((z + 0.5) / 0.34, 0, 1)
    grow = (1 - (1 - nose) ** 2.1) ** 0.58 * (0.13 + 0.87 * np.sin(tail * np.pi / 2) ** 0.9)
    # The nose droops a little; the tail rises, so that the top of the tail cone stays straight.
    lift = 0.75 * (1 - np.sin(tail * np.pi / 2)) - 0.28 * (1 - nose) ** 2
    return plane.radius * grow, plane.radius * lift


def chordwise(count: int) -> Points:
    """Where along the chord the points of a wing section lie that has 2·count + 2 of them."""
    return (1 - np.cos(np.pi * np.arange(count + 2) / (count + 1))) / 2


def foil(loop: int, first_up: bool) -> tuple[Points, Points]:
    """Chord fraction and half thickness (of 1) round a section, from the leading edge."""
    angle = 2 * np.pi * np.arange(loop) / loop
    chord = (1 - np.cos(angle)) / 2
    # Half thickness of the NACA four-digit foils, closed at the trailing edge.
    series = -0.126 * chord - 0.3516 * chord**2 + 0.2843 * chord**3 - 0.1036 * chord**4
    half = 5 * (0.2969 * np.sqrt(chord) + series)
    sign = np.where(np.arange(loop) * 2 < loop, 1.0, -1.0) * (1 if first_up else -1)
    half[[0, loop // 2]] = 0
    return chord, sign * half


def lifting_surface(
    body: Surface,
    loop: Sequence[int],
    stations: Sequence[tuple[Points, float, float]],
    up: Points,
) -> list[list[int]]:
    """Grow a wing out of a hole in the fuselage.

    Args:
        body: The airplane so far.
        loop: Round the hole.
        stations: Leading edge [3], chord (backwards along -z) and relative thickness per section.
        up: Direction of the thickness.

    Returns:
        The rings, each from its leading edge; the last one is capped.
    """
    place = body.place(loop)
    middle = (place @ up).min() + np.ptp(place @ up) / 2
    # The leading edge is the foremost point nearest to mid height.
    front = place[:, 2] > place[:, 2].max() - 1e-9
    start = min(np.flatnonzero(front).tolist(), key=lambda i: abs(place[i] @ up - middle))
    loop = [*loop[start:], *loop[:start]]
    chord, half = foil(len(loop), bool(body.place(loop)[1] @ up > middle))
    rings = []
    for edge, length, thick in stations:
        ring = edge + length * thick * half[:, None] * up
        ring[:, 2] -= length * chord
        rings.append(ring)
    index = body.grow(loop, rings)
    body.cap_flat(index[-1])
    return index


def airplane(plane: Airliner = Airliner()) -> tuple[Points, Faces]:
    """Fuselage, wings, tailplane, fin and two engines as one closed surface without handles."""
    body = Surface()
    n = plane.sides
    wing_lines = plane.wing_root[0] - plane.wing_root[1] * chordwise(7)[1:-1]
    fin_lines = plane.fin_root[0] - plane.fin_root[1] * chordwise(3)[1:-1]
    tail_lines = plane.tail_root[0] - plane.tail_root[1] * chordwise(3)[1:-1]
    nose = 0.5 - 0.13 * np.array([0.012, 0.06, 0.16, 0.32, 0.55, 0.82])
    between = [0.3, 0.23, 0.165, -0.165, -0.22, -0.27, -0.49]
    lines = np.sort(np.concatenate([wing_lines, fin_lines, tail_lines, nose, between]))
    # Lines of the fin and the tailplane that nearly coincide are shared.
    lines = lines[np.concatenate([[True], np.diff(lines) > 1e-3])]
    angle = 2 * np.pi * np.arange(n) / n  # from the top towards +x
    radius, lift = fuselage_section(plane, lines)
    rings = [
        np.stack([r * np.sin(angle), y + r * np.cos(angle), np.full(n, z)], 1)[::-1]
        for r, y, z in zip(radius, lift, lines, strict=True)
    ]
    index = body.tube(rings)
    body.cap(index[-1])
    body.cap(index[0][::-1])

    def patch(high: float, low: float, sides: Sequence[int]) -> set[int]:
        chosen = [i for i, z in enumerate(lines) if low - 1e-9 <= z <= high + 1e-9]
        return {index[i][(n - 1 - s) % n] for i in chosen for s in sides}

    up = np.array([0.0, 1.0, 0.0])
    for side in (1, -1):
        # wing, low on the fuselage
        loop = body.take(patch(wing_lines[0], wing_lines[-1], [side * s % n for s in (6, 7, 8)]))
        height = body.place(loop)[:, 1].mean()
        root, half_span = 0.85 * plane.radius, plane.span / 2
        share = np.array([0.135, 0.17, 0.22, 0.27, plane.engine_at - 0.013, plane.engine_at + 0.013,
                          0.4, 0.48, 0.56, 0.65, 0.74, 0.83, 0.91, 0.97, 1.0])  # fmt: skip
        stations = []
        for s in share:
            x = s * half_span
            ahead = plane.wing_root[0] - (x - root) * np.tan(np.radians(plane.sweep))
            kink_x = plane.wing_kink * half_span
            kink_chord = 0.62 * plane.wing_root[1]
            chord = np.interp(
                x, [root, kink_x, half_span], [plane.wing_root[1], kink_chord, plane.tip_chord]
            )
            shrink = 1.0
            if s > 0.96:  # round the tip
                shrink = 0.93 if s < 0.99 else 0.62
            rise = (x - root) * np.tan(np.radians(plane.dihedral))
            edge = np.array([side * x, height + rise, ahead])
            edge[2] -= (1 - shrink) * chord * 0.6
            thick = np.interp(s, [0.1, 1.0], plane.thickness)
            stations.append((edge, shrink * chord, thick))
        wing = lifting_surface(body, loop, stations, up)
        engine(body, plane, side, wing, engine_section=5)
        # tailplane
        loop = body.take(patch(tail_lines[0], tail_lines[-1], [side * s % n for s in (4, 5, 6)]))
        edge = body.place(loop)
        root_x, height = np.abs(edge[:, 0]).max(), edge[:, 1].mean()
        stations = []
        for s in (0.25, 0.45, 0.65, 0.82, 0.94, 1.0):
            x = s * plane.tail_span / 2
            t = (x - root_x) / (plane.tail_span / 2 - root_x)
            chord = plane.tail_root[1] + t * (plane.tail_tip_chord - plane.tail_root[1])
            chord *= 0.75 if s == 1.0 else 1.0
            ahead = plane.tail_root[0] - 0.66 * (x - root_x)
            stations.append((np.array([side * x, height + 0.1 * (x - root_x), ahead]), chord, 0.13))
        lifting_surface(body, loop, stations, up)
    # fin
    loop = body.take(patch(fin_lines[0], fin_lines[-1], [n - 1, 0, 1]))
    top = body.place(loop)[:, 1].max()
    stations = []
    for s in (0.1, 0.25, 0.42, 0.6, 0.77, 0.92, 1.0):
        chord = plane.fin_root[1] + s * (plane.fin_tip_chord - plane.fin_root[1])
        chord *= 0.8 if s == 1.0 else 1.0
        ahead = plane.fin_root[0] - 0.78 * s * plane.fin_height
        stations.append((np.array([0.0, top + s * plane.fin_height, ahead]), chord, 0.13))
    lifting_surface(body, loop, stations, np.array([1.0, 0.0, 0.0]))

    points, faces = body.triangles()
    points -= (points.max(0) + points.min(0)) / 2
    return points / np.ptp(points, 0).max(), faces


def engine(
    body: Surface, plane: Airliner, side: int, wing: list[list[int]], engine_section: int
) -> None:
    """Hang a nacelle under the wing between two of its rings, and tie it on by a pylon."""
    inner, outer = wing[engine_section], wing[engine_section + 1]
    m = len(inner)
    edge = (body.points[inner[0]] + body.points[outer[0]]) / 2
    lower = [i for i in range(m) if body.points[inner[i]][1] < body.points[inner[0]][1] - 1e-9]
    lower.sort(key=lambda i: -body.points[inner[i]][2])
    chosen = lower[1:5]
    above = body.take({ring[i] for ring in (inner, outer) for i in chosen})
    # Radius along the nacelle from intake to exhaust, and the core that sticks out behind.
    along = np.array([0.0, 0.03, 0.12, 0.28, 0.46, 0.62, 0.78, 0.9, 1.0])
    radius = np.array([0.86, 0.95, 1.0, 1.0, 0.97, 0.9, 0.78, 0.64, 0.45]) * plane.engine_radius
    sides = 12
    angle = 2 * np.pi * (np.arange(sides) + 0.5) / sides
    axis = edge + np.array([0.0, -plane.engine_below, plane.engine_ahead])
    around = np.stack([np.sin(angle), np.cos(angle), np.zeros(sides)], 1)
    rings = [
        axis + r * around - [0, 0, a * plane.engine_length]
        for a, r in zip(along, radius, strict=True)
    ]
    index = body.tube(rings)
    body.cap(index[-1])
    # The intake: a lip, and a face a little inside it.
    face = axis + 0.86 * radius[0] * around[::-1] - [0, 0, 0.012]
    front = body.grow(index[0][::-1], [face])
    body.cap(front[-1])
    rows = index[3 : 3 + len(chosen)]
    below = body.take({row[j] for row in rows for j in (sides - 1, 0)})
    body.join(above, below)


# -- chair ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chair:
    """Measures in metres; seen from the front along -z, y up."""

    width: float = 0.46
    depth: float = 0.46
    seat_height: float = 0.45
    seat_thickness: float = 0.045
    leg: float = 0.045  # thickness of a leg
    leg_spread: float = 0.025  # feet stand out by
    back_height: float = 0.47
    back_thickness: float = 0.035
    back_lean: float = 0.11  # top stands behind its foot by
    cells: int = 7  # of the seat between the legs


def chair(make: Chair = Chair()) -> tuple[Points, Faces]:
    """Seat, four legs and a back as one closed surface without handles."""
    body = Surface()

    def lines(size: float, rear: float) -> Points:
        inner = np.linspace(-size / 2 + rear, size / 2 - make.leg, make.cells + 1)
        return np.concatenate([[-size / 2], inner, [size / 2]])

    x, z = lines(make.width, make.leg), lines(make.depth, make.leg)
    top, bottom = make.seat_height, make.seat_height - make.seat_thickness
    n = len(x)
    upper, lower = (
        np.reshape(body.add(np.array([[a, y, b] for a in x for b in z])), (n, n)).tolist()
        for y in (top, bottom)
    )
    cell = [(0, 0), (0, 1), (1, 1), (1, 0)]
    for i in range(n - 1):
        for k in range(n - 1):
            body.polygons.append(tuple(upper[i + a][k + b] for a, b in cell))
            body.polygons.append(tuple(lower[i + a][k + b] for a, b in reversed(cell)))
    rim = [(i, 0) for i in range(n)] + [(n - 1, k) for k in range(1, n)]
    rim += [(i, n - 1) for i in range(n - 2, -1, -1)] + [(0, k) for k in range(n - 2, 0, -1)]
    for (i, k), (j, m) in zip(rim, [*rim[1:], rim[0]], strict=True):
        body.polygons.append((upper[i][k], upper[j][m], lower[j][m], lower[i][k]))

    def pull(patch: set[int], move: Callable[[Points, float], Points], steps: int) -> None:
        loop = body.take(patch)
        place = body.place(loop)
        rings = body.grow(loop, [move(place, s) for s in np.arange(1, steps + 1) / steps])
        body.cap_flat(rings[-1])

    for i in (0, n - 2):
        for k in (0, n - 2):
            out = make.leg_spread * np.array([np.sign(i - 1), 0.0, np.sign(k - 1)])

            def leg(place: Points, s: float, out: Points = out) -> Points:
                moved = place + s * out
                moved[:, 1] = bottom * (1 - s)
                return moved

            pull({lower[i + a][k + b] for a, b in cell}, leg, steps=9)

    def back(place: Points, s: float) -> Points:
        moved = place.copy()
        moved[:, 1] = top + s * make.back_height
        thick = (place[:, 2] - z[0]) * (1 + (make.back_thickness / make.leg - 1) * s)
        moved[:, 2] = z[0] + thick - make.back_lean * s**1.3
        # The upper corners are rounded.
        moved[:, 0] *= 1 - 0.09 * max(0.0, (s - 0.8) / 0.2) ** 2
        return moved

    pull({row[k] for row in upper for k in (0, 1)}, back, steps=10)
    points, faces = body.triangles()
    points -= (points.max(0) + points.min(0)) / 2
    return points / np.ptp(points, 0).max(), faces


# -- lamp ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lamp:
    """Measures in heights of the lamp."""

    foot: float = 0.17  # radius
    foot_thickness: float = 0.03
    stem: float = 0.022  # radius
    shade: tuple[float, float] = (0.24, 0.13)  # radii below and above
    shade_height: float = 0.28
    sides: int = 24


def lamp(make: Lamp = Lamp()) -> tuple[Points, Faces]:
    """Foot, stem and a massive shade as one surface of revolution about y."""
    below, above = make.shade
    neck = 1 - make.shade_height
    # Radius and height, from the foot up; rings more make the cells of long parts less thin.
    outline = [
        (0.5 * make.foot, 0.0), (make.foot, 0.0), (make.foot, make.foot_thickness),
        (0.5 * make.foot, make.foot_thickness), (make.stem, 1.5 * make.foot_thickness),
        *((make.stem, y) for y in np.linspace(2 * make.foot_thickness, neck, 12)),
        (0.5 * below, neck),
        *(((1 - s) * below + s * above, neck + s * make.shade_height)
          for s in np.linspace(0, 1, 7)),
        (0.5 * above, 1.0),
    ]  # fmt: skip
    angle = 2 * np.pi * np.arange(make.sides) / make.sides
    around = np.stack([np.sin(angle), np.zeros(make.sides), np.cos(angle)], 1)
    body = Surface()
    rings = body.tube([radius * around + [0.0, y - 0.5, 0.0] for radius, y in outline])
    body.cap(rings[0][::-1])
    body.cap(rings[-1])
    return body.triangles()


# -- teapot --------------------------------------------------------------------------------------


def teapot(cells: int = 8) -> tuple[Points, Faces]:
    """The Utah teapot, each patch cut into `cells` x `cells` quads; y up, spout along +x.

    Lid and body, and handle, spout and body, are surfaces of their own, as published: the mesh is
    not closed. Points of patches that meet are merged, and faces that collapse are left out.
    """
    numbers = [
        [float(t) for t in line.split()]
        for line in (FOLDER / "teapot_patches.txt").read_text(encoding="ascii").splitlines()
        if not line.startswith(("#", "points", "patches"))
    ]
    control = np.array([row for row in numbers if len(row) == 3])
    patches = np.array([row for row in numbers if len(row) == 16], int) - 1
    t = np.linspace(0, 1, cells + 1)
    bernstein = np.stack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3], 1)
    net = control[patches].reshape(-1, 4, 4, 3)
    points = np.einsum("ui,vj,pijc->puvc", bernstein, bernstein, net).reshape(-1, 3)
    corner = np.arange(len(points)).reshape(-1, cells + 1, cells + 1)
    a, b, c, d = corner[:, :-1, :-1], corner[:, 1:, :-1], corner[:, 1:, 1:], corner[:, :-1, 1:]
    faces = np.stack([a, c, b, a, d, c], -1).reshape(-1, 3)
    _, first, merged = np.unique(points.round(6), axis=0, return_index=True, return_inverse=True)
    faces = merged.reshape(-1)[faces]
    faces = faces[(faces != np.roll(faces, 1, axis=1)).all(1)]
    points = points[first][:, [0, 2, 1]] * [1, 1, -1]  # z up to y up
    points -= (points.max(0) + points.min(0)) / 2
    return points / np.linalg.norm(points, axis=1).max(), faces


def main(folder: Path = FOLDER) -> None:
    """Write all six meshes."""
    folder.mkdir(parents=True, exist_ok=True)
    packaged = PACKAGED if folder == FOLDER else folder
    for name, mesh in (("sphere_642", icosphere(3)), ("sphere_1352", cube_sphere(15))):
        title = f"unit sphere, {sum(mesh.vertex_counts)} vertices"
        write_obj(folder / f"{name}.obj", mesh.vertices.double().numpy(), mesh.faces.numpy(), title)
    write_obj(folder / "teapot.obj", *teapot(), "the Utah teapot (M. Newell, 1975)")
    write_obj(folder / "airplane.obj", *airplane(), "airliner, nose along +z")
    write_obj(folder / "lamp.obj", *lamp(), "floor lamp, about the y axis")
    write_obj(packaged / "chair.obj", *chair(), "chair, front along +z")


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
