"""`refine_shape`: colours move a surface where silhouettes cannot see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gendr import visual
from gendr._runtime.checks import check_count, check_finite, check_float, check_like, check_shape
from gendr.fitting.checks import check_views
from gendr.fitting.colors.fit import fit_colors
from gendr.fitting.parametrization import SmoothParametrization, check_single
from gendr.fitting.shape.sweeps import LEAST_VIEWS, Photos, disagreement, displacement
from gendr.losses import FlattenLoss, iou, iou_loss
from gendr.mesh import Camera, Mesh, remesh
from gendr.mesh.remeshing import without_cuts
from gendr.optim import uniform_adam_step
from gendr.rendering import Renderer

__all__ = ["ShapeResult", "refine_shape"]


@dataclass(frozen=True)
class _Sweep:
    """One sweep over the surface.

    Attributes:
        depth: How deep it looks, as a part of the diagonal.
        shrunk: By how much photos are shrunk.
        window: The rings of neighbours over which costs are averaged.
    """

    depth: float
    shrunk: int
    window: int


# From deep and coarse to shallow and fine. Longer edges would round off what is sharp.
EDGE = 2.0
SWEEPS = (_Sweep(0.4, 4, 4), _Sweep(0.2, 2, 3), _Sweep(0.06, 1, 2))
# Depths are tried in steps of this many pixels, but at most so many below the surface; and to a
# quarter of the depth above it.
STEP, MOST = 0.7, 40
STIFFNESS = 0.1
# The steps after the sweeps: the scale, the longest step in edges, and the weights of colours and
# creases beside that of the silhouettes; a larger scale would swell faces as small as these.
# Colours are found anew after so many steps.
SCALE, STEP_IN_EDGES, COLORS, FLATNESS, EVERY = "0.05px", 0.05, 1.0, 0.02, 10
# As for a fit.
MOST_FACES, VIEWS_PER_STEP, BETAS = 40_000, 12, (0.9, 0.99)
# Decibels by which photos must be met better, and the IoU that may be lost, or nothing is changed.
LEAST_GAIN, MOST_LOST = 0.1, 0.005


@dataclass(frozen=True, eq=False)
class ShapeResult:
    """A shape refined by colours.

    Attributes:
        mesh: The mesh, without colours; the one that was given if it was not improved.
        improved: Whether the photos are met better than before.
        psnr: Before and after: the mean over views of that of the vertex colours that meet the
            photos best (`fit_colors`), over the object, in decibels.
        iou: Before and after: the mean of the hard silhouettes.
        moved: The mean distance of the new vertices from the surface given, world units; 0 if it
            was not improved.
    """

    mesh: Mesh
    improved: bool
    psnr: tuple[float, float]
    iou: tuple[float, float]
    moved: float


def refine_shape(
    mesh: Mesh,
    images: Tensor,
    camera: Camera,
    masks: Tensor,
    *,
    steps: int = 30,
    callback: Callable[[float], None] | None = None,
    keep: Callable[[dict[str, Any]], None] | None = None,
    resume: Mapping[str, Any] | None = None,
) -> ShapeResult:
    """Move a surface to where photos agree about its colours, as in hollows no outline shows.

    First the vertices are tried at many depths below the surface, coarse to fine, and take a smooth
    displacement at which the photos that see them show one colour. Then steps of Adam along the
    gradients of soft renderings (`shading="softmax"`) bring silhouettes and colours to those of the
    photos; colours and shape take turns, ten steps for each. The mesh is remeshed on the way. If in
    the end the photos are not met better, the mesh is returned as it was.

    The surface needs a pattern, and the same colours from everywhere: without light that moves.

    Args:
        mesh: One closed mesh, as `fit` makes it, in the world of the cameras. Colours are not kept.
        images: [B, 3, H, W] in [0, 1], the object over black, as `load_views` reads them; B >= 3.
        camera: B cameras.
        masks: [B, H, W] in [0, 1].
        steps: >= 0, those after the sweeps.
        callback: Called with the part of the work that is done, in [0, 1].
        keep: Called after each sweep and after every ten steps with all that is needed to go on,
            as numbers and tensors.
        resume: What `keep` was called with, to go on from there with the same other arguments; the
            result is that of an uninterrupted run, bit for bit.

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If shapes or values are wrong, or no photo shows the mesh.
    """
    check_single("mesh", mesh)
    sizes = check_views("images", images, "[B, 3, H, W]", camera)
    if sizes["B"] < LEAST_VIEWS:
        raise ValueError(
            f"at least {LEAST_VIEWS} photos are needed to see where colours agree, got {sizes['B']}"
        )
    check_like("the mesh", mesh.vertices, "images", images)
    check_like("masks", check_float("masks", masks), "images", images)
    check_shape("masks", check_finite("masks", masks), "[B, H, W]", **sizes)
    check_count("steps", steps, least=0)
    tell = callback or (lambda done: None)
    given = Mesh(mesh.vertices.detach(), mesh.faces)
    photos = Photos(images.detach(), camera.detach(), masks.detach())
    refinement = _Refinement(given, photos)
    found, parts = given, len(SWEEPS) + -(-steps // EVERY)
    if resume is not None:
        found = Mesh(*(resume[name].to(given.device) for name in ("vertices", "faces")))
    for part in range(int(resume["parts"]) if resume is not None else 0, parts):
        if part < len(SWEEPS):
            with torch.no_grad():
                found = refinement.swept(found, SWEEPS[part])
            tell(0.5 * (part + 1) / len(SWEEPS))
        else:
            first = EVERY * (part - len(SWEEPS))
            last = min(first + EVERY, steps)
            found = refinement.stepped(
                found, first, last, lambda done: tell(0.5 + 0.4 * done / steps)
            )
        if keep is not None:
            keep({"parts": part + 1, "vertices": found.vertices, "faces": found.faces})
    found = without_cuts(remesh(found, refinement.edge(found)).mesh)
    before, after = refinement.measured(given), refinement.measured(found)
    improved = after[0] > before[0] + LEAST_GAIN and after[1] > before[1] - MOST_LOST
    tell(1.0)
    both = (before[0], after[0]), (before[1], after[1])
    if not improved:
        return ShapeResult(mesh, False, *both, 0.0)
    return ShapeResult(found.with_origin(mesh.origin[0]), True, *both, _distance(found, given))


def _distance(mesh: Mesh, other: Mesh) -> float:
    """Mean distance of the vertices of a mesh from the surface of another."""
    from gendr.mesh.libigl import libigl

    parts: list[Any] = [m.double().cpu().numpy() for m in (mesh.vertices, other.vertices)]
    square, _, _ = libigl().point_mesh_squared_distance(*parts, other.faces.cpu().numpy())
    return float((square.clip(0) ** 0.5).mean())


class _Refinement:
    """What stays the same while a shape is refined."""

    def __init__(self, mesh: Mesh, photos: Photos) -> None:
        self.photos, self.camera = photos, photos.camera
        low, high = mesh.bounding_box()[0], mesh.bounding_box()[1]
        self.diagonal = float((high - low).norm())
        middle = ((low + high) / 2).reshape(1, 1, 3)
        depth = self.camera.world_to_camera(middle)[..., 2].flatten()
        depth = torch.ones_like(depth) if self.camera.orthographic else depth.clamp(min=1e-12)
        unit = 2 / (min(photos.size) * self.camera.focal.mean(-1))
        self.pixel = float((unit * depth).median())
        # The object may grow a little on the way.
        near, far = visual.depths(mesh, self.camera)
        more = 0.1 * self.diagonal
        self.planes: dict[str, Any] = {"near": max(near - more, 0.1 * near), "far": far + more}

    def edge(self, mesh: Mesh) -> float:
        """The length of edges: two pixels, or longer where faces would be too many."""
        a, b, c = mesh.vertices.double()[mesh.faces].unbind(1)
        area = float(torch.linalg.cross(b - a, c - a).norm(dim=-1).sum()) / 2
        return max(EDGE * self.pixel, (area / (3**0.5 / 4 * MOST_FACES)) ** 0.5)

    def swept(self, mesh: Mesh, sweep: _Sweep) -> Mesh:
        """The mesh where photos agree best, among displacements of it."""
        mesh = remesh(mesh, self.edge(mesh), iterations=3).mesh
        depth = sweep.depth * self.diagonal
        shrunk = min(sweep.shrunk, max(1, min(self.photos.size) // 24))
        below = max(2, min(MOST, round(depth / (STEP * shrunk * self.pixel))))
        offsets = torch.arange(-max(2, below // 4), below + 1).to(mesh.vertices) * (depth / below)
        cost = disagreement(mesh, self.photos.smaller(shrunk), offsets)
        down = displacement(mesh, cost, offsets, window=sweep.window, stiffness=STIFFNESS)
        return mesh.with_vertices(mesh.vertices - down[:, None] * mesh.vertex_normals)

    def stepped(self, mesh: Mesh, first: int, last: int, tell: Callable[[int], None]) -> Mesh:
        """The mesh after some steps along the gradients of soft renderings.

        Args:
            mesh: which is remeshed, and takes its colours from the photos, before the steps.
            first: the number of the first of these steps.
            last: that of the step after them.
            tell: called with the number of the next step after each.
        """
        photos = self.photos
        renderer = Renderer(
            photos.size, "logistic", "probabilistic", SCALE, shading="softmax", composite="alpha",
            lighting="none", cutoff=1e-3, check=False, **self.planes,
        )  # fmt: skip
        part = -(-len(photos.images) // -(-len(photos.images) // VIEWS_PER_STEP))
        groups = -(-len(photos.images) // part)
        mesh = remesh(mesh, self.edge(mesh), iterations=2).mesh
        painted, shape = self.painted(mesh)[0], SmoothParametrization(mesh)
        creases = FlattenLoss(mesh.faces, len(mesh.vertices))
        lr = STEP_IN_EDGES * self.edge(mesh)
        u = shape.u.detach()
        means = torch.zeros_like(u), torch.zeros_like(u)
        for i in range(first, last):
            rows = list(range(i % groups, len(photos.images), groups))
            u = u.clone().requires_grad_()
            vertices = shape(u)
            out = renderer(painted.with_vertices(vertices), self.camera[rows])
            masks, images = photos.masks[rows], photos.images[rows]
            apart = (out.rgb - images).abs().mean(1)
            loss = iou_loss(out.alpha, masks) + COLORS * (apart * masks).sum() / masks.sum()
            if creases.pairs.shape[1] > 0:
                loss = loss + FLATNESS * (1 - creases.cosines(vertices)).square().mean()
            (grad,) = torch.autograd.grad(loss, u)
            u, *means = uniform_adam_step(
                u.detach(), grad, *means, step=i - first + 1, lr=lr, betas=BETAS
            )
            tell(i + 1)
        return mesh.with_vertices(shape(u).detach())

    def painted(self, mesh: Mesh) -> tuple[Mesh, float]:
        """The mesh with the best vertex colours, and their PSNR."""
        photos = self.photos
        found = fit_colors(mesh, photos.images, photos.camera, photos.masks, kind="vertex")
        return found.mesh, float(found.psnr.double().mean())

    def measured(self, mesh: Mesh) -> tuple[float, float]:
        """How well a mesh meets the photos: PSNR in decibels, and mean hard IoU."""
        even = remesh(mesh, self.edge(mesh), iterations=2).mesh
        hard = Renderer(self.photos.size, "heaviside", "max", check=False, **self.planes)
        with torch.no_grad():
            scores = [
                iou(hard(even, self.camera[i]).alpha, self.photos.masks[i : i + 1])
                for i in range(len(self.camera))
            ]
        return self.painted(even)[1], float(torch.cat(scores).double().mean())
