"""Poses from outlines alone: planes through two eyes that touch the object touch both outlines.

A plane through the eyes of two cameras that touches the object touches it at a point that lies on
both outlines (a frontier point). There are two such outermost planes, and each outline tells their
angles about the line between the eyes: both cameras must find the same angles, whatever the shape
is. B views give up to B (B - 1) such equations for the 6 B numbers of the poses, and no shape has
to be guessed. They are solved by damped Gauss-Newton steps, with Cauchy's loss, since an outline
may be wrong here and there.

Sources: Wong, Cipolla, Structure and Motion from Silhouettes, ICCV 2001; Furukawa, Sethi, Ponce,
Kriegman, Robust Structure and Motion from Outlines of Smooth Curved Surfaces, PAMI 2006.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from gendr.mesh import Camera
from gendr.mesh.rotations import axis_angle_to_matrix

__all__ = ["Normals", "Outlines", "applied", "equations", "solved", "spread"]

# Steps, and the least decrease of the cost, in parts, for which more are made.
_STEPS, _LEAST = 40, 1e-3
# What is expected of poses before anything is measured: turns in radians, shifts in parts of the
# distance, the logarithm of the focal length.
_TURN, _SHIFT, _GROW = 0.026, 0.02, 0.1
# The error of outlines in pixels, where nothing else tells the poses; and the least gap that is
# taken for more than that.
_NOISE, _LEAST_SCALE = 0.15, 0.1
# Planes further than this from the middle of the object, in radians about the line between the
# eyes, tell nothing, nor do outlines that come nearer to that line than this (a sine).
_WIDEST, _NEAREST = 1.2, 0.05


@dataclass(frozen=True, eq=False)
class Outlines:
    """The convex hulls of outlines.

    Attributes:
        points: [B, P, 2] float64, NDC; the last of a shorter hull is repeated.
        cut: bool [B, P], whether the point is at the border of the image, behind which the object
            may go on.
        pixel: side of a pixel, NDC.
    """

    points: Tensor
    cut: Tensor
    pixel: float

    @staticmethod
    def of(masks: Tensor, camera: Camera | None = None) -> Outlines:
        """The hulls of masks [B, H, W], cut at 0.5 between the centres of pixels.

        Args:
            masks: [B, H, W].
            camera: B cameras, if their photos fill only a part of these.

        Raises:
            ValueError: if a mask has less than three pixels that are not on one line.
        """
        from scipy.spatial import ConvexHull, QhullError

        height, width = masks.shape[1:]
        hulls: list[NDArray[Any]] = []
        for number, mask in enumerate(masks.detach().double().cpu().numpy()):
            image = np.pad(mask, 1)
            places = [_crossings(image), _crossings(image.T)[:, ::-1]]
            # Of pixels, from the corner of the image.
            xy = np.concatenate(places) - 0.5
            try:
                hulls.append(xy[ConvexHull(xy).vertices])
            except (QhullError, ValueError):
                raise ValueError(
                    f"mask {number} shows too little of an object to find its pose; leave it out"
                ) from None
        most = max(map(len, hulls))
        padded = [np.pad(hull, ((0, most - len(hull)), (0, 0)), "edge") for hull in hulls]
        xy = torch.from_numpy(np.stack(padded))
        side = min(height, width)
        ndc = torch.stack([2 * xy[..., 0] - width, height - 2 * xy[..., 1]], 2) / side
        steps = xy.new_tensor([[1, 0], [-1, 0], [0, 1], [0, -1]]) * (2 / side)
        near = ndc[:, :, None] + steps  # a pixel further
        limit = xy.new_tensor([width, height]) / side
        seen = (near.abs() <= limit).all(-1)
        if camera is not None:
            seen &= camera.to("cpu", ndc.dtype).within(near)
        return Outlines(ndc, ~seen.all(2), 2 / side)


def _crossings(image: NDArray[Any]) -> NDArray[Any]:
    """Where the rows of an image cross 0.5: [N, 2], columns and rows."""
    a, b = image[:, :-1], image[:, 1:]
    row, column = np.nonzero((a > 0.5) != (b > 0.5))
    one, two = a[row, column], b[row, column]
    return np.stack([column + (0.5 - one) / (two - one), row], 1)


@dataclass(frozen=True, eq=False)
class _Touches:
    """Where planes through the eyes of two views touch both outlines.

    Attributes:
        first: int64 [N], one view.
        second: int64 [N], the other.
        one: [N, 2], the point that is touched in the first, NDC.
        two: [N, 2], that in the second.
        scale: [N], by which an angle between planes is multiplied to be one in the images.
    """

    first: Tensor
    second: Tensor
    one: Tensor
    two: Tensor
    scale: Tensor

    @staticmethod
    def of(outlines: Outlines, camera: Camera) -> _Touches:
        """The planes of all pairs of views that show the ends of an object around the origin."""
        i, j = torch.triu_indices(len(camera), len(camera), 1)
        eye = camera.eye
        rays = _rays(
            outlines.points, camera.rotation, camera.focal[:, None], camera.principal[:, None]
        )
        along = F.normalize(eye[j] - eye[i], dim=1)
        middle = -(eye[i] + eye[j]) / 2
        ahead = F.normalize(middle - (middle * along).sum(1, keepdim=True) * along, dim=1)
        aside = torch.linalg.cross(along, ahead)
        good = (eye[j] - eye[i]).norm(dim=1) > 1e-6
        ends: list[list[tuple[Tensor, Tensor, Tensor]]] = []
        for k in (i, j):
            x, y, z = ((rays[k] * axis[:, None]).sum(2) for axis in (ahead, aside, along))
            angle, away = torch.atan2(y, x), (1 - z.square()).clamp(min=0)
            good &= (angle.abs() < _WIDEST).all(1) & (away.amin(1) > _NEAREST**2)
            found = []
            for at in (angle.argmin(1), angle.argmax(1)):
                n = torch.arange(len(at))
                found.append((outlines.points[k, at], away[n, at], outlines.cut[k, at]))
            ends.append(found)
        parts = []
        for (one, p, cut_one), (two, q, cut_two) in zip(*ends, strict=True):
            use = good & ~cut_one & ~cut_two
            scale = (1 / p + 1 / q).rsqrt()
            parts.append((i[use], j[use], one[use], two[use], scale[use]))
        return _Touches(*(torch.cat(each) for each in zip(*parts, strict=True)))


def _rays(points: Tensor, rotation: Tensor, focal: Tensor, principal: Tensor) -> Tensor:
    """Directions in the world of points of images, unit vectors [..., 3]."""
    flat = (points - principal) / focal
    return F.normalize(torch.cat([flat, torch.ones_like(flat[..., :1])], -1) @ rotation, dim=-1)


@dataclass(frozen=True, eq=False)
class Normals:
    """The normal equations of a step: `matrix` @ step = -`vector`.

    Attributes:
        matrix: [6 B + 1, 6 B + 1] float64: turns and shifts of each camera, and the logarithm of
            the factor of all focal lengths.
        vector: [6 B + 1].
    """

    matrix: Tensor
    vector: Tensor

    def step(self, damping: float, *, focal: bool) -> Tensor:
        """The step, [6 B + 1], with the diagonal larger by a part of itself."""
        # What nothing tells stays where it is.
        system = self.matrix + damping * torch.diag(self.matrix.diagonal().clamp(min=1e-9))
        step = torch.zeros_like(self.vector)
        n = len(step) if focal else len(step) - 1
        step[:n] = -torch.linalg.solve(system[:n, :n], self.vector[:n])
        return step


@dataclass(frozen=True, eq=False)
class _Gaps:
    """What two views disagree by, at each touch.

    Attributes:
        touches: [N].
        pixels: [N], the gaps, in pixels.
        one: [N, 6], by how much a gap grows with turns and shifts of the first view, in pixels.
        two: [N, 6], with those of the second.
        grow: [N], with the logarithm of the factor of all focal lengths.
    """

    touches: _Touches
    pixels: Tensor
    one: Tensor
    two: Tensor
    grow: Tensor

    @staticmethod
    def of(outlines: Outlines, camera: Camera) -> _Gaps:
        """The gaps at these cameras: angles about the line between the eyes, and their slopes."""
        touches = _Touches.of(outlines, camera)
        like = camera.focal.new_zeros
        scale = touches.scale * camera.focal.mean() / outlines.pixel
        with torch.enable_grad():
            one, two = (like(len(scale), 6).requires_grad_() for _ in range(2))
            grow = like(len(scale), 1).requires_grad_()
            eyes, rays = [], []
            for k, point, move in ((touches.first, touches.one, one),
                                   (touches.second, touches.two, two)):  # fmt: skip
                rotation, shift = _moved(camera[k], move)
                flat = (point - camera.principal[k]) / (camera.focal[k] * grow.exp())
                seen = torch.cat([flat, torch.ones_like(flat[:, :1])], 1)
                rays.append((seen[:, None] @ rotation)[:, 0])
                eyes.append(-(shift[:, None] @ rotation)[:, 0])
            w = F.normalize(eyes[1] - eyes[0], dim=1)
            # Between the planes through w and each of the rays.
            sine = (w * torch.linalg.cross(*rays, dim=1)).sum(1)
            along = [(ray * w).sum(1) for ray in rays]
            pixels = scale * torch.atan2(sine, (rays[0] * rays[1]).sum(1) - along[0] * along[1])
            slopes = torch.autograd.grad(pixels.sum(), (one, two, grow))
        return _Gaps(touches, pixels.detach(), slopes[0], slopes[1], slopes[2][:, 0])

    def normals(self, count: int, scale: float, noise: float) -> Normals:
        """The normal equations of the squared gaps of B = `count` views.

        Cauchy's loss of a scale weights them. Gaps are counted in units of the `noise`, in pixels.
        """
        weight = 1 / (1 + (self.pixels / scale).square()) / noise**2
        one, two, grow, like = self.one, self.two, self.grow, self.one.new_zeros
        blocks, vector, edge = like(count * count, 6, 6), like(count, 6), like(count, 6)
        sides = ((self.touches.first, one), (self.touches.second, two))
        for k, a in sides:
            weighted = weight[:, None] * a
            for m, b in sides:
                blocks.index_add_(0, k * count + m, weighted[:, :, None] * b[:, None])
            vector.index_add_(0, k, weighted * self.pixels[:, None])
            edge.index_add_(0, k, weighted * grow[:, None])
        matrix = like(6 * count + 1, 6 * count + 1)
        matrix[:-1, :-1] = (
            blocks.reshape(count, count, 6, 6).transpose(1, 2).flatten(2).flatten(0, 1)
        )
        matrix[-1, :-1] = matrix[:-1, -1] = edge.flatten()
        matrix[-1, -1] = (weight * grow * grow).sum()
        last = (weight * grow * self.pixels).sum()
        return Normals(matrix, torch.cat([vector.flatten(), last[None]]))

    @property
    def cauchy(self) -> float:
        """The scale of the loss: twice the median gap, in pixels."""
        if len(self.pixels) == 0:
            return _LEAST_SCALE
        return max(2 * float(self.pixels.abs().median()), _LEAST_SCALE)

    def cost(self, scale: float, most: int) -> float:
        """The loss; touches that were lost, of `most`, count as much as bad ones."""
        loss = torch.log1p((self.pixels / scale).square()).sum() * scale**2
        return float((loss + (most - len(self.pixels)) * scale**2) / _NOISE**2)


def spread(outlines: Outlines, camera: Camera) -> float:
    """The median gap between what two views say about a plane that touches the object, in pixels.

    Args:
        outlines: of B masks.
        camera: B perspective cameras, float64, around the object at the origin.

    Returns:
        inf if no two views can be compared.
    """
    pixels = _Gaps.of(outlines, camera).pixels
    return float(pixels.abs().median()) if len(pixels) else float("inf")


def equations(outlines: Outlines, camera: Camera, noise: float = _NOISE) -> Normals:
    """The normal equations of the gaps at some cameras; see `spread`.

    Args:
        outlines: of B masks.
        camera: B perspective cameras, float64, around the object at the origin.
        noise: the error of outlines, in pixels.
    """
    gaps = _Gaps.of(outlines, camera)
    return gaps.normals(len(camera), gaps.cauchy, noise)


def _prior(count: int) -> Tensor:
    """What is expected of B = `count` poses before anything is measured: weights [6 B + 1]."""
    expected = torch.tensor([_TURN] * 3 + [_SHIFT] * 3, dtype=torch.float64).repeat(count)
    return torch.cat([expected, expected.new_tensor([_GROW])]).square().reciprocal()


def _moved(camera: Camera, move: Tensor) -> tuple[Tensor, Tensor]:
    """Rotations and translations of B cameras after turns and shifts [B, 6]."""
    far = camera.translation.norm(dim=1, keepdim=True)
    turned = axis_angle_to_matrix(move[:, :3]) @ camera.rotation
    return turned, camera.translation + move[:, 3:] * far


def applied(camera: Camera, step: Tensor) -> Camera:
    """Cameras turned about the origin and shifted, by a step [6 B + 1]."""
    rotation, translation = _moved(camera, step[:-1].reshape(-1, 6))
    return camera.with_tensors(rotation, translation, camera.focal * step[-1].exp())


def solved(outlines: Outlines, camera: Camera, *, focal: bool = False) -> Camera:
    """Cameras that agree about the planes that touch the object.

    Args:
        outlines: of B masks.
        camera: B perspective cameras to start from, float64, around the object at the origin.
        focal: whether all focal lengths may change by one factor.
    """
    count = len(camera)
    prior = _prior(count)
    gone = torch.zeros_like(prior)
    gaps, damping = _Gaps.of(outlines, camera), 1e-4
    for _ in range(_STEPS):
        scale, most = gaps.cauchy, len(gaps.pixels)
        normals = gaps.normals(count, scale, _NOISE)
        normals = Normals(normals.matrix + torch.diag(prior), normals.vector + prior * gone)
        before = gaps.cost(scale, most) + float((prior * gone.square()).sum())
        while True:
            step = normals.step(damping, focal=focal)
            tried = applied(camera, step)
            found = _Gaps.of(outlines, tried)
            after = found.cost(scale, most) + float((prior * (gone + step).square()).sum())
            if after < before:
                break
            damping *= 4
            if damping > 1e4:
                return camera
        damping = max(damping / 8, 1e-7)
        camera, gaps, gone = tried, found, gone + step
        if before - after < _LEAST * before:
            break
    return camera
