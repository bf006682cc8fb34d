"""Poses from colours: all photos must show the same colour at a point of the surface.

Points are taken from the surface of the visual hull. Each has a colour and a distance from the
hull, which nobody knows; poses, colours and distances are moved by Gauss-Newton steps so that the
photos agree best, the latter two eliminated point by point (bundle adjustment with Schur's
complement). Photos are blurred at first, so that a point need not be right to a pixel.

Source: Delaunoy, Pollefeys, Photometric Bundle Adjustment for Dense Multi-View 3D Modeling, CVPR
2014, whose surface moves along its normals too.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr.mesh import Camera
from gendr.photos import visual_hull
from gendr.photos.fitting.cameras.tangents import Normals
from gendr.photos.fitting.visibility import VisibilityBuffer, look
from gendr.photos.meshing.simplification import simplified

__all__ = ["Agreement"]

# Points of the surface, and the cells of the grid of the hull.
_POINTS, _CELLS = 12_000, 128
# How far the object may be below its hull, in its size.
_DEPTH = 0.01
# The least error of colours, of 1: what is below it is noise.
_NOISE = 0.02
# Colours of neighbours are much the same: one number in so many tells something new.
_ALIKE = 10.0
# Rounds in which photos that disagree lose weight.
_ROUNDS = 3


class Agreement:
    """What photos show at points of the hull of some cameras.

    Attributes:
        error: how much the photos differ from their mean at a point, on average, of 1.
    """

    def __init__(self, images: Tensor, masks: Tensor, camera: Camera, blur: float) -> None:
        """Look at the hull.

        Args:
            images: [B, 3, H, W], the object over black.
            masks: [B, H, W].
            camera: B cameras, float64.
            blur: standard deviation of the blur, in pixels.

        Raises:
            ValueError: if the cameras contradict each other so much that no hull is left.
        """
        self.camera = camera.to(masks.device, masks.dtype)
        self.pixel = 2 / min(masks.shape[1:])
        mesh = visual_hull(self.camera, masks, resolution=_CELLS)
        if len(mesh.faces) > _POINTS:
            mesh = simplified(mesh, _POINTS)
        a, b, c = mesh.vertices[mesh.faces].unbind(1)
        self.points = (a + b + c) / 3
        self.normals = F.normalize(torch.linalg.cross(b - a, c - a), dim=1)
        whole = (masks > 0.99).to(masks)[:, None]
        # What is not of the object has no part in the blur.
        self.images = _blurred(images * whole, blur) / _blurred(whole, blur).clamp(min=1e-3)
        inside = -F.max_pool2d(-whole, 3, 1, 1)[:, 0] > 0.5
        views, points = len(masks), len(self.points)
        blank = self.points.new_zeros
        self._weights, self._shown = blank(views, points), blank(views, points, 3)
        self._slopes, self._depths = blank(views, points, 3, 6), blank(views, points, 3)
        for i in range(views):
            self._look(
                look(mesh, self.camera[i], (masks.shape[1], masks.shape[2]), 1), inside[i], i
            )
        self._weigh()

    def _look(self, visibility: VisibilityBuffer, inside: Tensor, i: int) -> None:
        """What photo i shows, and how that changes with its pose and the depths of points."""
        rows, xy, weight = visibility.visible_points(self.points, self.normals, inside)
        if len(rows) == 0:
            return
        image, camera = self.images[i], self.camera
        rotation, shift, focal = camera.rotation[i], camera.translation[i], camera.focal[i]
        around = self.points[rows] @ rotation.T
        x, y, z = (around + shift).unbind(1)
        half = self.pixel / 2
        sides = [xy.new_tensor(side) for side in ((half, 0.0), (0.0, half))]
        slope = torch.stack(
            [
                (visibility.at(image, xy + d) - visibility.at(image, xy - d)).T / self.pixel
                for d in sides
            ],
            -1,
        )
        zero = torch.zeros_like(z)
        rows_of = [
            torch.stack([focal[0] / z, zero, -focal[0] * x / z.square()], 1),
            torch.stack([zero, focal[1] / z, -focal[1] * y / z.square()], 1),
        ]
        slope = slope @ torch.stack(rows_of, 1)  # [K, 3 colours, 3 axes of the camera]
        # A turn w takes x to x + w x x, and g . (w x x) = w . (x x g).
        turn = torch.linalg.cross(around[:, None].expand_as(slope), slope, dim=-1)
        self._slopes[i, rows] = torch.cat([turn, slope * shift.norm()], -1)
        normals = self.normals[rows] @ rotation.T
        self._depths[i, rows] = (slope @ normals[:, :, None])[..., 0]
        self._shown[i, rows] = visibility.at(image, xy).T
        self._weights[i, rows] = (weight / weight.median()).clamp(max=2.0)

    def _weigh(self) -> None:
        """Means of colours, errors, and weights that trust those less which disagree."""
        weights = self._weights * ((self._weights > 0).sum(0) > 1)
        trust = torch.ones_like(weights)
        gap, typical = self._shown, 0.0
        for _ in range(_ROUNDS):
            now = (weights * trust)[..., None]
            gap = self._shown - (now * self._shown).sum(0) / now.sum(0).clamp(min=1e-9)
            size = gap.square().mean(-1).sqrt()
            typical = float(size[weights > 0].median()) if bool((weights > 0).any()) else 0.0
            scale = max(1.5 * typical, _NOISE)
            trust = 1 / (1 + (size / scale).square())
            self.error = float(
                (weights * size.clamp(max=3 * scale)).sum() / weights.sum().clamp(min=1e-9)
            )
        self._gap = gap
        noise = 1.5 * typical + _NOISE / 2
        self._weights = weights * trust / (noise**2 * _ALIKE)

    def normals_of_step(self) -> Normals:
        """The normal equations of a step of the poses."""
        views = len(self._shown)
        # Of each point: three colours, which photos show as they are, and a depth.
        own = -torch.eye(3).to(self._shown).expand(*self._shown.shape[:2], 3, 3)
        own = torch.cat([own, self._depths[..., None]], -1)
        weighted = self._weights[..., None, None] * own
        block = torch.einsum("bpck,bpcl->pkl", weighted, own).double()
        block[:, 3, 3] += 1 / _DEPTH**2
        block += 1e-6 * torch.eye(4).to(block)
        right = torch.einsum("bpck,bpc->pk", weighted, self._gap).double()
        root = torch.linalg.cholesky(torch.linalg.inv(block))
        mixed = torch.einsum("bpcj,bpck->bjpk", self._slopes, weighted).double()
        mixed = torch.einsum("bjpk,pkl->bjpl", mixed, root).flatten(2).flatten(0, 1)
        slopes = self._weights[..., None, None] * self._slopes
        matrix = torch.block_diag(*torch.einsum("bpci,bpcj->bij", slopes, self._slopes).double())
        vector = torch.einsum("bpcj,bpc->bj", slopes, self._gap).double().flatten()
        matrix = matrix - mixed @ mixed.T
        vector = vector - mixed @ torch.einsum("pkl,pk->pl", root, right).flatten()
        # The focal length is left to the outlines.
        n = 6 * views
        out = (
            torch.zeros(n + 1, n + 1, dtype=torch.float64),
            torch.zeros(n + 1, dtype=torch.float64),
        )
        out[0][:n, :n], out[1][:n] = matrix.cpu(), vector.cpu()
        return Normals(*out)


def _blurred(images: Tensor, sigma: float) -> Tensor:
    """Images [B, C, H, W] under a Gaussian, zero outside."""
    radius = int(3 * sigma + 0.5)
    place = torch.arange(-radius, radius + 1).to(images)
    kernel = torch.exp(-0.5 * (place / sigma).square())
    kernel = (kernel / kernel.sum()).expand(images.shape[1], 1, 1, -1)
    groups = images.shape[1]
    images = F.conv2d(images, kernel, padding=(0, radius), groups=groups)
    return F.conv2d(images, kernel.transpose(2, 3), padding=(radius, 0), groups=groups)
