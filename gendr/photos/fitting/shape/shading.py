"""Shape from shading: the surface of one colour whose shading and shadows the photos show.

Of plaster no patch can be matched, and before a dark backdrop its shadows end masks too soon. But
one colour in one light for all photos says how bright each place would be: a lamp beside the
camera, which moves along (Hernandez, Vogiatzis & Cipolla, Multiview Photometric Stereo, 2008), or
lamps and walls that stand still, as a sum of lights from many directions, none of them negative;
each with the shadows that the surface casts (maps of depth, Williams 1978). The surface moves until
it looks like the photos (inverse rendering: Nicolet et al. 2021 for the steps, Laine et al. 2020
for outlines). Masks are not compared: what lies in shadow is as black in what is drawn. Where
they are trusted, as of faint patterns, they are: light that is not explained, as that from a floor,
may move outlines by half a pixel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gendr.kernels.threads import mapped
from gendr.losses import FlattenLoss
from gendr.mesh import Camera, Mesh
from gendr.mesh.files.srgb import to_linear
from gendr.optim import uniform_adam_step
from gendr.photos import remesh, visual
from gendr.photos.fitting.parametrization import SmoothParametrization
from gendr.photos.fitting.shape.schedule import edge_of
from gendr.photos.fitting.value_and_grad import value_and_grad
from gendr.photos.fitting.visibility import footprint, look, visible_faces
from gendr.primitives import (
    RasterizeGLContext,
    antialias,
    antialias_construct_topology_hash,
    interpolate,
    rasterize,
)
from gendr.rendering.api import parse_image_size
from gendr.rendering.geometry import raster_positions

__all__ = ["fit_shading"]

# Photos are made so many times smaller, edges are so many pixels of those long, or longer where
# there would be more faces, and so many steps are made, of at most so many edges at first and at
# last; the light is found anew every few of them. In turns photos are looked at.
_STAGES, _MOST_FACES = ((2, 3.0, 45), (1, 4.0, 45), (1, 2.5, 45)), 60_000
_STEPS, _EVERY, _TURNS, _BETAS = (0.4, 0.12), 15, 6, (0.9, 0.99)
# From this part of the brightest on deviations count by their size, no longer by its square; and
# the weight of creases.
_OFF, _FLATNESS = 0.05, 0.02
# Directions from which light that stands still may come; the part of the strongest lamp from which
# on one is kept; how near, degrees, those are that one lamp explains; the side of shadow maps.
_WAYS, _LEAST, _NEAR, _SIDE = 100, 0.03, 32.0, 400
# The part of the brightest from which on a place is lit, where lamps are sought; what nearly all is
# darker than; photos end at white; the mask of what is whole. Light that moves must explain photos
# so much better.
_LIT, _BRIGHTEST, _WHITE, _INSIDE, _MOVES = 0.25, 0.95, 0.95, 0.99, 0.8
_ROWS, _ROUNDS, _LEAST_OFF = 20_000, 6, 0.02
# So few lamps are moved, by at most three such steps at once, radians, or parts of the distance at
# which the object would be as large as far; the nearest, in the same, and those whose shadows are
# as of the sun.
_FEW, _STEP, _NEAREST, _PARALLEL = 12, 0.05, 0.5, 0.02
# How sharply faces turn dark as they turn away from a lamp.
_SHARP = 40.0


def fit_shading(
    mesh: Mesh,
    images: Tensor,
    camera: Camera,
    masks: Tensor,
    tell: Callable[[float], None] = lambda done: None,
    *,
    still: bool = True,
    outlines: bool = False,
) -> tuple[Mesh, float, float] | None:
    """A surface near that of a mesh that looks like the photos, and how far its shading is off.

    None where no photo shows the mesh, or light stands still and that is not wanted. The second is
    the usual deviation of what is seen, of the brightest there is; the third what steps make less:
    a mean over pictures, with outlines and shadows.

    Args:
        mesh: one closed mesh, in the world of the cameras.
        images: [B, 3, H, W] in [0, 1], of an object of about one colour over black.
        camera: B perspective cameras.
        masks: [B, H, W] in [0, 1]; they say which pixels tell the light.
        tell: called with the part of the work that is done.
        still: whether to go on if light stands still.
        outlines: whether masks are trusted, so that they are compared, too.
    """
    grey = _bright(images, masks)
    total, done = sum(steps for _, _, steps in _STAGES), 0
    light: _Light | None = None
    lit: tuple[_Light, _Shadows] | None = None
    turns, unlike = min(_TURNS, len(camera)), list[float]()
    for number, (smaller, edge, steps) in enumerate(_STAGES):
        shown, inside = (F.avg_pool2d(part[None], smaller)[0] for part in (grey, masks))
        low, high = mesh.bounding_box()
        depth = camera.world_to_camera(((low + high) / 2).reshape(1, 1, 3))[..., 2].flatten()
        size = (shown.shape[1], shown.shape[2])
        pixel = float(torch.stack([footprint(camera[i], size, z) for i, z in enumerate(depth)])
                      .median())  # fmt: skip
        length = max(edge * pixel, edge_of(mesh, _MOST_FACES))
        mesh = remesh(mesh, length, iterations=2).mesh
        stage = _Stage(mesh, shown, camera, inside, outlines=outlines)
        shape = SmoothParametrization(mesh)
        u = shape.u.detach()
        means = torch.zeros_like(u), torch.zeros_like(u)
        for i in range(steps):
            vertices = shape(u).detach()
            if i % _EVERY == 0:
                # Of a surface that is too narrow a lamp would be too near.
                lit = stage.lit(mesh.with_vertices(vertices), light, moved=number > 0)
                light = lit[0] if lit is not None else None
            if lit is None or (lit[0].along is None and not still):
                return None
            rows = list(range(i % turns, len(camera), turns))
            value, slope = stage.value_and_grad(vertices, *lit, rows)
            unlike.append(value)
            leaf = u.clone().requires_grad_()
            (grad,) = torch.autograd.grad((shape(leaf) * slope).sum(), leaf)
            part = i / steps
            step = length * (_STEPS[0] + (_STEPS[1] - _STEPS[0]) * part)
            u, *means = uniform_adam_step(u, grad, *means, step=i + 1, lr=step, betas=_BETAS)
            tell((done := done + 1) / total)
        mesh = mesh.with_vertices(shape(u).detach())
    last = unlike[-turns:]
    return (mesh, light.off, sum(last) / len(last)) if light is not None else None


def _bright(images: Tensor, masks: Tensor) -> Tensor:
    """How bright photos [B, 3, H, W] over black are, as linear light [B, H, W].

    Where outlines cross a pixel it holds the backdrop, too: it is as bright as what is whole beside
    it, times what is covered of it.
    """
    grey = torch.from_numpy(to_linear(images.clamp(0, 1).numpy())).to(images).mean(1)
    inside = (masks > _INSIDE).to(grey)
    whole, beside = (F.avg_pool2d(part[:, None], 3, 1, 1)[:, 0] for part in (inside, inside * grey))
    part = (inside == 0) & (masks > 0) & (whole > 0)
    return torch.where(part, masks * beside / whole.clamp(min=0.1), grey)


class _Stage:
    """What stays the same through steps on the faces of a mesh, with photos of one size.

    Args:
        mesh: one mesh.
        grey: [B, H, W], how bright photos are, as linear light.
        camera: B cameras.
        masks: [B, H, W].
        outlines: whether these are compared.
    """

    def __init__(
        self, mesh: Mesh, grey: Tensor, camera: Camera, masks: Tensor, *, outlines: bool = False
    ) -> None:
        self.outlines = outlines
        self.mesh, self.grey, self.camera, self.masks = mesh, grey, camera, masks
        self.size = (grey.shape[1], grey.shape[2])
        self.shape = parse_image_size(self.size)
        self.triangles = mesh.faces.int()
        self.topology = antialias_construct_topology_hash(self.triangles)
        self.creases = FlattenLoss(mesh.faces, len(mesh.vertices))
        near, far = visual.depths(mesh, camera)
        self.planes = 0.8 * near, 1.2 * far
        self.pixels = float(masks.sum()) / min(_TURNS, len(camera))

    def lit(
        self, mesh: Mesh, known: _Light | None, *, moved: bool
    ) -> tuple[_Light, _Shadows] | None:
        """The light of the photos, as a mesh shows it, and the shadows in it.

        Args:
            mesh: with vertices near the surface.
            known: whose directions are kept; None if they are to be found.
            moved: whether lamps that are known may come elsewhere.
        """
        normals = mesh.vertex_normals

        def seen(i: int) -> tuple[Tensor, Tensor, Tensor]:
            visible = look(mesh, self.camera[i], self.size, 1)
            rows, xy, _ = visible.visible_points(mesh.vertices, normals, self.masks[i] > _INSIDE)
            return rows, torch.full_like(rows, i), visible.at(self.grey[i][None], xy)[0]

        found = mapped(seen, range(len(self.camera)))
        rows, view, grey = (torch.cat(part) for part in zip(*found, strict=True))
        kept = (grey < _WHITE).nonzero()[:, 0]
        kept = kept[:: max(1, -(-len(kept) // _ROWS))]
        if not len(kept):
            return None
        samples = _Samples(mesh, normals, self.camera, rows[kept], view[kept], grey[kept])
        if known is None:
            return samples.lit()
        return samples.fitted(known.along, known.ways, known.near, moved=moved)

    def value_and_grad(
        self, vertices: Tensor, light: _Light, shadows: _Shadows, rows: list[int]
    ) -> tuple[float, Tensor]:
        """How far pictures of some cameras are off, and its gradient [V, 3] by vertices."""

        def image_loss(vertices: Tensor, rows: list[int]) -> Tensor:
            normals = self.mesh.with_vertices(vertices).vertex_normals
            total = vertices.new_zeros(())
            for i in rows:
                bright = light.on(vertices, normals, self.camera[i], i, shadows)[:, None]
                wanted = self.grey[i][..., None]
                if self.outlines:  # masks are pictures of what is the brightest everywhere
                    bright = torch.cat([bright, torch.full_like(bright, light.top)], 1)
                    wanted = torch.stack([self.grey[i], light.top * self.masks[i]], 2)
                rest = (self.drawn(vertices, i, bright) - wanted) / light.top
                total = total + ((rest.square() + _OFF**2).sqrt() - _OFF).sum()
            return total / self.pixels

        value, slope = value_and_grad(image_loss, vertices, rows, len(self.mesh.faces))
        leaf = vertices.clone().requires_grad_()
        regularisation = _FLATNESS * (1 - self.creases.cosines(leaf)).square().mean()
        return float(value), slope + torch.autograd.grad(regularisation, leaf)[0]

    def drawn(self, vertices: Tensor, i: int, bright: Tensor) -> Tensor:
        """The picture [H, W, C] over black of vertices [V, 3] that are so bright [V, C]."""
        camera = self.camera[i]
        clip, depth = camera.clip_coordinates(vertices[None])
        place = raster_positions(clip, depth, camera.orthographic, self.planes, self.shape)
        place, bare = place.to(vertices), RasterizeGLContext(output_db=False)
        rast, _ = rasterize(bare, place, self.triangles, self.size)
        picture, _ = interpolate(bright[None], rast, self.triangles)
        picture = torch.where(rast[..., 3:] > 0, picture, 0.0)
        picture = antialias(
            picture, rast, place, self.triangles, topology_hash=self.topology
        )[0].flip(0)  # fmt: skip
        photo = camera.photo(self.size)
        return picture if photo is None else torch.where(photo[0, ..., None], picture, 0.0)


@dataclass(frozen=True, eq=False)
class _Shadows:
    """How much of the light of each lamp reaches vertices, 0 to 1, but for where they face.

    Attributes:
        along: [B, V], of the lamp that moves along with B cameras; None without one.
        still: [K, V], of those that stand still.
    """

    along: Tensor | None
    still: Tensor


@dataclass(frozen=True, eq=False)
class _Light:
    """Light on a surface of one colour, as linear light in photos.

    Attributes:
        along: [4], the way to a lamp that moves along with the camera, in its frame, as long as the
            lamp is strong, and one over how far from `middle` it is; None without one.
        ways: [K, 3], those to lamps that stand still, world.
        near: [K], one over how far these are.
        middle: [3], from where lamps are seen in these directions, world.
        around: how bright is what no lamp reaches.
        top: how bright the brightest is.
        off: the usual deviation, of the brightest.
    """

    along: Tensor | None
    ways: Tensor
    near: Tensor
    middle: Tensor
    around: float
    top: float
    off: float

    def on(
        self, vertices: Tensor, normals: Tensor, camera: Camera, i: int, shadows: _Shadows
    ) -> Tensor:
        """How bright vertices [V, 3] with unit normals are for camera i of the shadows."""
        places = vertices - self.middle

        def facing(ways: Tensor, near: Tensor) -> Tensor:
            lit = _facing(places, normals, ways, near)
            return F.softplus(lit * (_SHARP / self.top)) * (self.top / _SHARP)

        bright = (shadows.still.T * facing(self.ways, self.near)).sum(1) + self.around
        if self.along is not None and shadows.along is not None:
            way = self.along[None, :3] @ camera.rotation[0]
            bright = bright + shadows.along[i] * facing(way, self.along[3:])[:, 0]
        return bright


class _Samples:
    """What photos show of vertices.

    Args:
        mesh: one mesh.
        normals: [V, 3], its vertex normals.
        camera: B cameras.
        rows: [R], vertices.
        view: [R], the photos that show them.
        grey: [R], how bright.
    """

    def __init__(
        self, mesh: Mesh, normals: Tensor, camera: Camera, rows: Tensor, view: Tensor, grey: Tensor
    ) -> None:
        self.mesh, self.normals, self.camera = mesh, normals, camera
        self.rows, self.view, self.grey = rows, view, grey
        self.top = max(float(grey.quantile(_BRIGHTEST)), 1e-3)
        centre, self.radius = visual.around(mesh)
        self.middle = centre.reshape(3)
        self.places = (mesh.vertices - self.middle)[rows]
        self.own, self.own_places = (
            torch.einsum("rij,rj->ri", camera.rotation[view], part)
            for part in (normals[rows], self.places)
        )

    def lit(self) -> tuple[_Light, _Shadows]:
        """The light that explains them, from any directions."""
        ways = _around(_WAYS).to(self.normals)
        still = self.fitted(None, ways)
        moves = self.fitted(self.lamp(), ways)
        if moves[0].off < _MOVES * still[0].off:
            return moves
        return self.fitted(None, torch.cat([still[0].ways, _merged(still[0].ways)]))

    def lamp(self) -> Tensor:
        """The way [4] to the far lamp that moves along, in the frame of the cameras.

        By what is lit, at first as if there were no shadows.
        """
        lit = self.grey > _LIT * self.top
        way = _lamp(self.own[lit], self.grey[lit])
        for _ in range(2):
            shown = lit & (self.along(F.pad(way, (0, 1)))[self.view, self.rows] > 0.95)
            way = _lamp(self.own[shown], self.grey[shown])
        return F.pad(way, (0, 1))

    def along(self, way: Tensor) -> Tensor:
        """[B, V], what a lamp there [4], in the frame of the cameras, reaches."""
        ways = way[:3] @ self.camera.rotation
        return torch.stack(mapped(
            lambda own: _reached(self.mesh, self.normals, own, float(way[3])), list(ways)
        ))  # fmt: skip

    def fitted(
        self,
        along: Tensor | None,
        ways: Tensor,
        near: Tensor | None = None,
        *,
        moved: bool = False,
    ) -> tuple[_Light, _Shadows]:
        """Lamps about these directions, as strong as photos say, and their shadows.

        Least squares without negative lamps, in rounds in which what is off loses weight.

        Args:
            along: [4], in the frame of the cameras, or None.
            ways: [K, 3], world.
            near: [K], one over how far these are; None if they are all far.
            moved: whether the lamp that moves along, or the few that stand still, come to where
                they explain more (Gauss-Newton), in each round.
        """
        from scipy.optimize import nnls

        count = len(ways)
        near = ways.new_zeros(count) if near is None else near
        reached = None
        lamps = torch.cat([F.normalize(ways, dim=1), near[:, None]], 1)
        still = mapped(
            lambda lamp: _reached(self.mesh, self.normals, lamp[:3], float(lamp[3])), list(lamps)
        )
        still = torch.stack(still) if still else self.normals.new_zeros(0, len(self.normals))
        shadow = still[:, self.rows].T
        if along is not None:
            reached = self.along(along)
            lamps = torch.cat([lamps, torch.cat([F.normalize(along[:3], dim=0), along[3:]])[None]])
            shadow = torch.cat([shadow, reached[self.view, self.rows][:, None]], 1)
        free = slice(0 if along is None and count <= _FEW else count, len(lamps) * moved)
        right, weight = self.grey.double(), torch.ones(len(self.grey), dtype=torch.float64)
        around, off = torch.ones_like(self.grey)[:, None], 0.0
        strength = right.new_zeros(len(lamps) + 1)
        for i in range(_ROUNDS):
            base = shadow * self.facing(lamps, count)
            # The last round only says how strong they are.
            ahead = [
                shadow[:, free] * self.facing(self.shifted(lamps[free], one), count - free.start)
                - base[:, free]
                for one in torch.eye(3).to(lamps)
            ] if moved and i < _ROUNDS - 1 else []  # fmt: skip
            table = torch.cat([base, around, *ahead, *(-part for part in ahead)], 1).double()
            weighted = weight[:, None] * table
            square = (weighted.T @ table).numpy()
            square += 1e-9 * float(np.trace(square)) * np.eye(len(square))
            factor = np.linalg.cholesky(square)
            short = np.linalg.solve(factor, (weighted.T @ right).numpy())
            strength = torch.from_numpy(nnls(factor.T, short)[0])
            rest = (right - table @ strength).abs()
            off = float(rest.median()) / self.top
            scale = max(3 * off, _LEAST_OFF) * self.top
            weight = 1 / (1 + (rest / scale).square()).square()
            if ahead:
                more, less = strength[len(lamps) + 1 :].reshape(2, 3, -1)
                part = (more - less) / strength[: len(lamps)][free].clamp(min=1e-3 * self.top)
                lamps[free] = self.shifted(lamps[free], part.T.clamp(-3, 3).to(lamps))
        strength = strength.to(self.normals)
        kept = strength[:count] > _LEAST * strength[:-1].max() if count else strength[:0] > 0
        lamps[:, :3] *= strength[:-1, None]
        along = lamps[-1] if along is not None and strength[count] > 0 else None
        if not bool(kept.all()):
            few = lamps[:count][kept]
            return self.fitted(along, few[:, :3], few[:, 3], moved=moved)
        light = _Light(
            along, lamps[:count, :3], lamps[:count, 3], self.middle, float(strength[-1]),
            self.top, off,
        )  # fmt: skip
        return light, _Shadows(reached, still)

    def shifted(self, lamps: Tensor, steps: Tensor) -> Tensor:
        """Lamps [L, 4] that are beside those, and nearer, by steps [L, 3] or [3]."""
        way, near = lamps[:, :3], lamps[:, 3]
        one = F.normalize(torch.linalg.cross(way, way.roll(1, dims=1)), dim=1)
        other = torch.linalg.cross(way, one)
        steps = _STEP * steps.expand(len(lamps), 3)
        way = F.normalize(way + steps[:, :1] * one + steps[:, 1:2] * other, dim=1)
        near = (near + steps[:, 2] / self.radius).clamp(0, _NEAREST / self.radius)
        return torch.cat([way, near[:, None]], 1)

    def facing(self, lamps: Tensor, count: int) -> Tensor:
        """[R, L], how bright lamps [L, 4] make them; the first `count` stand still."""
        still = _facing(self.places, self.normals[self.rows], lamps[:count, :3], lamps[:count, 3])
        own = _facing(self.own_places, self.own, lamps[count:, :3], lamps[count:, 3])
        return torch.cat([still, own], 1).clamp(min=0)


def _facing(places: Tensor, normals: Tensor, ways: Tensor, near: Tensor) -> Tensor:
    """[P, L], how bright lamps make a surface, negative where it faces away.

    Args:
        places: [P, 3], from the middle.
        normals: [P, 3].
        ways: [L, 3], from the middle to the lamps, as long as these are bright there.
        near: [L], one over how far they are.
    """
    strength = ways.norm(dim=1).clamp(min=1e-12)
    ahead = near * (places @ (ways / strength[:, None]).T)
    away = 1 - 2 * ahead + near.square() * places.square().sum(1, keepdim=True)
    towards = normals @ ways.T - strength * near * (normals * places).sum(1, keepdim=True)
    return towards * away.clamp(min=0.1).pow(-1.5)


def _around(count: int) -> Tensor:
    """Directions [count, 3] spread evenly, along a spiral (Fibonacci's)."""
    i = torch.arange(count, dtype=torch.float64) + 0.5
    height, angle = 1 - 2 * i / count, i * (math.pi * (1 + 5**0.5))
    radius = (1 - height.square()).sqrt()
    return torch.stack([radius * angle.cos(), height, radius * angle.sin()], 1)


def _merged(ways: Tensor) -> Tensor:
    """The lamps [L, 3] that are the sums of some near each other, of ways [K, 3] to them."""
    left, found = ways, [ways[:0]]
    while len(left):
        strength = left.norm(dim=1)
        middle = left[strength.argmax()]
        near = left @ middle > math.cos(math.radians(_NEAR)) * strength * middle.norm()
        found.append(left[near].sum(0, keepdim=True))
        left = left[~near]
    return torch.cat(found)


def _reached(mesh: Mesh, normals: Tensor, way: Tensor, near: float) -> Tensor:
    """How much of a lamp's light reaches vertices [V], 0 to 1, by a map of depths.

    Args:
        mesh: one mesh.
        normals: [V, 3], its vertex normals.
        way: [3], to the lamp.
        near: one over how far it is.
    """
    centre, radius = visual.around(mesh)
    ahead = F.normalize(-way, dim=0)
    beside = torch.eye(3).to(ahead)[ahead.abs().argmin()]
    right = F.normalize(torch.linalg.cross(ahead, beside), dim=0)
    turn = torch.stack([right, torch.linalg.cross(right, ahead), ahead])
    parallel = near * radius < _PARALLEL
    far = 3 * radius if parallel else 1 / near
    shift = far * torch.eye(3).to(turn)[2] - turn @ centre.reshape(3)
    focal = 1 / radius if parallel else (far**2 - radius**2) ** 0.5 / radius
    sun = Camera(turn[None], shift[None], turn.new_full((1, 2), focal), orthographic=parallel)
    size = (_SIDE, _SIDE)
    _, _, depth = visible_faces(mesh.vertices, sun, size, visual.depths(mesh, sun), mesh.faces)
    xy, away = (part[0] for part in sun.project(mesh.vertices[None]))
    column, row = ((xy * xy.new_tensor([1.0, -1.0]) + 1) * (_SIDE / 2)).floor().long().unbind(1)
    cosine = -(normals @ ahead).clamp(max=-0.1)
    slope = (1 - cosine.square()).clamp(min=0).sqrt() / cosine
    least = away - footprint(sun, size, away) * (1 + 1.5 * slope)
    beside = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)]
    reached = torch.zeros_like(away)
    for x, y in beside:
        there = depth[(row + y).clamp(0, _SIDE - 1), (column + x).clamp(0, _SIDE - 1)]
        reached += (there >= least).to(reached) / len(beside)
    return reached


def _lamp(normals: Tensor, grey: Tensor) -> Tensor:
    """The lamp [3] that lights normals [R, 3] to `grey` [R], beside light from all around."""
    rows = torch.cat([torch.ones_like(normals[:, :1]), normals], 1).double()
    weight, right = torch.ones(len(rows), dtype=torch.float64), grey.double()
    found = rows.new_zeros(4)
    for _ in range(_ROUNDS):
        weighted = weight[:, None] * rows
        # The least one, where normals or what is lit are too few to tell.
        both = (weighted.T @ rows, (weighted.T @ right)[:, None])
        found = torch.linalg.lstsq(*both, driver="gelsd").solution[:, 0]
        rest = (right - rows @ found).abs()
        off = float(rest.median()) if len(rest) else 0.0
        weight = 1 / (1 + (rest / max(1.48 * off, 0.01)).square()).square()
    return found[1:].to(normals)
