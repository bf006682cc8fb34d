"""Stage 1 on the Triton backend: one operator from vertices to polygons, and its gradient.

Nothing here makes the host wait. Faces that no camera sees stay among the others, moved away; all
polygons have four corners, and triangles repeat the last.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from gendr._runtime.later import Later, capturing
from gendr._runtime.tracing import is_plain, is_traced, lasting
from gendr._runtime.triton.launch import Launcher, blocks_of, interpreted
from gendr.rendering.backends.triton import tiles
from gendr.rendering.geometry import FAR, NEAR, ScreenFaces, common_batch

if TYPE_CHECKING:
    from gendr.mesh import Camera, Mesh

RANGES = 64  # programs that look for the least and the largest depth
_WARPS = 4  # of every program


@dataclass(frozen=True, eq=False)  # told apart as objects: what is kept for one is found quickly
class ProjectLaunch:
    """How the work is cut into programs.

    Attributes:
        faces: of a program of the forward pass.
        depths: that a program takes at once when it looks for the least and the largest.
        lanes: vertices times corners of faces times images that a program of the backward pass
            takes at once, or more if there are many images.
        corners: of faces, of one vertex.
        images: at most.
    """

    faces: int = 128
    depths: int = 256
    lanes: int = 128
    corners: int = 8
    images: int = 32


# The interpreter pays per operation, not per element.
LAUNCH = ProjectLaunch(1024, 1024, 4096) if interpreted() else ProjectLaunch()


def project(
    mesh: Mesh, camera: Camera, near: float | None, far: float | None, owner: Hashable
) -> ScreenFaces | None:
    """The faces of a batch on the screen, clipped at the near plane; see `geometry.project_faces`.

    Args:
        mesh: B meshes or 1, in float32; None is returned for others.
        camera: B cameras or 1.
        near: depth of the near plane; None as in `geometry.depth_limits`, without waiting.
        far: depth of the far plane, or None.
        owner: if there is one, NaN and inf are looked for: its call after the one that has them
            raises.

    Raises:
        ValueError: if an earlier call of the owner had NaN or inf, and the GPU has got there.
    """
    if mesh.dtype != torch.float32:
        return None
    images = common_batch(len(mesh), len(camera))
    vertices, projection = mesh.vertices, camera.projection
    tracing = is_traced()
    # A batch of no images has no mesh, or one that nobody looks at.
    face_counts = mesh.face_counts * images if len(mesh) == 1 else mesh.face_counts
    offsets = (_offsets if tracing else _kept_offsets)(face_counts)
    vertex_offsets = (_offsets if tracing else _kept_offsets)(mesh.vertex_counts)
    watch = None
    if owner is not None and not tracing and not capturing(vertices.device):
        # An operator knows no objects: all its calls share what was found.
        watch = watch_of(vertices.device, owner if is_plain(vertices) else None)
        watch.raise_found()
    check = watch is not None
    if tracing:  # it cannot look at the scene
        near, far = NEAR if near is None else near, FAR if far is None else far
    starts, entries = mesh.vertex_corners
    if is_plain(vertices):
        cameras = projection.shape[0]
        plan = plan_of(vertex_offsets, offsets, cameras, near, far, check, vertices.device, LAUNCH)
        topology = mesh.faces, starts, entries
        corners = cast(Tensor, _Project.apply(vertices, projection, topology, plan, watch))
    else:
        corners, _ = _project(
            vertices, projection, mesh.faces, starts, entries,
            list(vertex_offsets), list(offsets), near, far, check,
        )  # fmt: skip
    return ScreenFaces(corners, offsets, marked=True)


def _offsets(counts: tuple[int, ...]) -> tuple[int, ...]:
    """Where each image begins in a packed batch, and where the last one ends."""
    return tuple(accumulate(counts, initial=0))


_kept_offsets = lru_cache(maxsize=64)(_offsets)


# ---------------------------------------------------------------------------------------------
# NaN and inf
# ---------------------------------------------------------------------------------------------


class Watch:
    """What kernels found wrong with the vertices and cameras of an owner on a device.

    Attributes:
        found: [1] int64 on the device, bits of `project_kernels`.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self._later = device, Later(device, 1)
        self.found = torch.zeros(1, dtype=torch.int64, device=device)

    def send(self) -> None:
        """Have what was found copied to the host."""
        self._later.send(self.found)

    def raise_found(self) -> None:
        """Raise for what the host knows by now, and forget it.

        Raises:
            ValueError: for NaN or inf in an earlier call.
        """
        bits = self._later.read()
        if bits is None or not bits[0]:
            return
        from gendr.rendering.backends.triton import project_kernels as kernels

        self.found.zero_()
        vertices = bits[0] & kernels.BAD_VERTICES.value
        raise ValueError(
            f"the {'vertices of a mesh' if vertices else 'matrices of a camera'} must be finite, "
            f"got NaN or inf in an earlier call on {self.device}"
        )


@lru_cache(maxsize=256)
@lasting()
def watch_of(device: torch.device, owner: Hashable) -> Watch:
    """Return the watch of an owner on a device, made when it is first asked for."""
    return Watch(device)


# ---------------------------------------------------------------------------------------------
# Launches
# ---------------------------------------------------------------------------------------------


def _range_programs(
    vertex_offsets: Sequence[int], offsets: Sequence[int], near: float | None, far: float | None
) -> int:
    """How many programs look for the least and the largest depth; 0 if both planes are given."""
    if near is not None and far is not None:
        return 0
    images = len(offsets) - 1 if len(vertex_offsets) == 2 else 1
    return min(RANGES, blocks_of(vertex_offsets[-1] * images, LAUNCH.depths))


class ProjectPlan:
    """What the host knows before it looks at vertices: kept from step to step.

    Args:
        vertex_offsets: of the meshes; two numbers if one mesh is in all images.
        offsets: of the faces of images.
        cameras: how many.
        near: as given.
        far: as given.
        check: whether to look for NaN and inf.
        device: where all tensors are.
        settings: of launches.
    """

    def __init__(
        self, vertex_offsets: tuple[int, ...], offsets: tuple[int, ...], cameras: int,
        near: float | None, far: float | None, check: bool, device: torch.device,
        settings: ProjectLaunch,
    ) -> None:  # fmt: skip
        from gendr.rendering.backends.triton import project_kernels as kernels

        self.vertex_offsets, self.offsets, self.cameras = vertex_offsets, offsets, cameras
        self.near, self.far, self.check, self.device = near, far, check, device
        self.shared = len(vertex_offsets) == 2
        self.vertices, self.faces = vertex_offsets[-1], offsets[-1]
        images = len(offsets) - 1
        self.images = images if self.shared else 1  # that a vertex is in
        self.seen = self.vertices * self.images
        self.programs = (blocks_of(self.faces, settings.faces),)
        self.parts = _range_programs(vertex_offsets, offsets, near, far)
        start = near
        if start is None:
            start = NEAR if far is None else min(NEAR, far / 100)
        self.planes = float(start), float(FAR if far is None else far)
        # None where nobody looks.
        self.image_of_face = None if self.shared else tiles.image_of_face(offsets, device)
        self.image_of_vertex = None if self.shared else tiles.image_of_face(vertex_offsets, device)
        known = {"SHARED": self.shared, "ONE_CAMERA": cameras == 1}
        known |= tiles.options(_WARPS)
        self.find_ranges = Launcher(kernels.depth_ranges, device, **known, BLOCK=settings.depths)
        known |= {"HAS_NEAR": near is not None, "HAS_FAR": far is not None, "PARTS": RANGES}
        self.project = Launcher(
            kernels.project_faces, device, **known, CHECK=check, BLOCK=settings.faces
        )
        side_by_side = 1 << (max(1, min(self.images, settings.images)) - 1).bit_length()
        block = max(1, settings.lanes // (settings.corners * side_by_side))
        self.gradient_programs = (blocks_of(self.vertices, block),)
        self.gradients = {
            (with_vertices, with_camera): Launcher(
                kernels.project_gradients, device, **known, WITH_VERTICES=with_vertices,
                WITH_CAMERA=with_camera, VERTICES=block, ENTRIES=settings.corners,
                IMAGES=side_by_side,
            )
            for with_vertices in (False, True) for with_camera in (False, True)
        }  # fmt: skip


plan_of = lru_cache(maxsize=64)(ProjectPlan)


def _forward(
    plan: ProjectPlan, vertices: Tensor, projection: Tensor, faces: Tensor, starts: Tensor,
    watch: Watch | None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """The corners [T, 4, 2], and the depth ranges [programs, 2], None if both planes are given."""
    corners = vertices.new_empty(plan.faces, 4, 2)
    vertices, projection = vertices.contiguous(), projection.contiguous()
    ranges, parts = None, plan.parts
    if parts:
        ranges = vertices.new_empty(parts, 2)
        index = starts if plan.shared else plan.image_of_vertex
        plan.find_ranges(
            (parts,), vertices, projection, index, ranges, plan.seen, plan.vertices
        )  # fmt: skip
    plan.project(
        plan.programs, vertices, projection, faces, starts if plan.shared else plan.image_of_face,
        vertices if ranges is None else ranges, corners, starts if watch is None else watch.found,
        plan.faces, faces.shape[0], *plan.planes, parts,
    )  # fmt: skip
    if watch is not None:
        watch.send()
    return corners, ranges


def _backward(
    plan: ProjectPlan, grad: Tensor, saved: Sequence[Any], with_vertices: bool, with_camera: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of the vertices [V, 3] and of the projection; None if not wanted.

    Args:
        plan: of the forward pass.
        grad: of the corners.
        saved: vertices, projection, faces, starts, entries and ranges.
        with_vertices: whether their gradient is wanted.
        with_camera: whether that of the projection is.
    """
    vertices, projection, faces, starts, entries, ranges = saved
    count = plan.vertices
    grad_vertices = vertices.new_empty(count, 3) if with_vertices else None
    grad_clip = vertices.new_empty(plan.images, count, 4) if with_camera else None
    plan.gradients[with_vertices, with_camera](
        plan.gradient_programs, vertices.contiguous(), projection.contiguous(), faces, starts,
        entries, starts if plan.shared else plan.image_of_vertex,
        vertices if ranges is None else ranges, grad.contiguous(),
        vertices if grad_vertices is None else grad_vertices,
        vertices if grad_clip is None else grad_clip,
        plan.images, count, faces.shape[0], *plan.planes, plan.parts,
    )  # fmt: skip
    if grad_clip is None:
        return grad_vertices, None
    return grad_vertices, _projection_gradient(grad_clip, vertices, plan)


def _projection_gradient(grad_clip: Tensor, vertices: Tensor, plan: ProjectPlan) -> Tensor:
    """The gradient of the projection [C, 4, 4].

    It is the sum over vertices of the gradient of clip coordinates times (x, y, z, 1).
    """
    points = torch.cat([vertices, torch.ones_like(vertices[:, :1])], 1)
    products = grad_clip.unsqueeze(-1) * points.unsqueeze(1)  # [images or 1, V, 4, 4]
    if plan.shared:
        each = products.sum(1)
    else:
        sums = tiles.sum_per_image(products.reshape(len(points), 16), list(plan.vertex_offsets))
        each = sums.reshape(-1, 4, 4)
    return each.sum(0, keepdim=True) if plan.cameras == 1 else each


# ---------------------------------------------------------------------------------------------
# Operators
# ---------------------------------------------------------------------------------------------


@torch.library.custom_op("gendr::project", mutates_args=(), tags=tiles.TAGS)
def _project(
    vertices: Tensor,
    projection: Tensor,
    faces: Tensor,
    starts: Tensor,
    entries: Tensor,
    vertex_offsets: list[int],
    offsets: list[int],
    near: float | None,
    far: float | None,
    check: bool,
) -> tuple[Tensor, Tensor]:
    """Launch `_forward` as an operator; what else it is given is for the backward pass."""
    plan = _plan_of_operator(vertices, projection, vertex_offsets, offsets, near, far, check)
    watch = watch_of(plan.device, None) if check else None
    corners, ranges = _forward(plan, vertices, projection, faces, starts, watch)
    return corners, vertices.new_empty(0) if ranges is None else ranges


@_project.register_fake
def _(*given: Any) -> tuple[Tensor, Tensor]:
    vertices, *_, vertex_offsets, offsets, near, far, _ = given
    parts = _range_programs(vertex_offsets, offsets, near, far)
    ranges = vertices.new_empty(parts, 2) if parts else vertices.new_empty(0)
    return vertices.new_empty(offsets[-1], 4, 2), ranges


@torch.library.custom_op("gendr::project_gradients", mutates_args=(), tags=tiles.TAGS)
def _project_gradients(
    grad: Tensor,
    saved: list[Tensor],
    vertex_offsets: list[int],
    offsets: list[int],
    near: float | None,
    far: float | None,
    with_vertices: bool,
    with_camera: bool,
) -> tuple[Tensor, Tensor]:
    """Launch `_backward` as an operator, which returns tensors without rows instead of None."""
    vertices, projection, faces, starts, entries, ranges = saved
    plan = _plan_of_operator(vertices, projection, vertex_offsets, offsets, near, far)
    given = vertices, projection, faces, starts, entries, ranges if len(ranges) else None
    of_vertices, of_camera = _backward(plan, grad, given, with_vertices, with_camera)
    return (
        vertices.new_empty(0, 3) if of_vertices is None else of_vertices,
        vertices.new_empty(0, 4, 4) if of_camera is None else of_camera,
    )


@_project_gradients.register_fake
def _(*given: Any) -> tuple[Tensor, Tensor]:
    _grad, (vertices, projection, *_), *_, with_vertices, with_camera = given
    return (
        vertices.new_empty(len(vertices) if with_vertices else 0, 3),
        projection.new_empty(len(projection) if with_camera else 0, 4, 4),
    )


def _plan_of_operator(
    vertices: Tensor, projection: Tensor, vertex_offsets: list[int], offsets: list[int],
    near: float | None, far: float | None, check: bool = False,
) -> ProjectPlan:  # fmt: skip
    cameras, on = len(projection), vertices.device
    return plan_of(tuple(vertex_offsets), tuple(offsets), cameras, near, far, check, on, LAUNCH)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Keep what the backward pass of `_project` needs."""
    vertices, projection, faces, starts, entries, vertex_offsets, offsets, near, far, _ = inputs
    ctx.save_for_backward(vertices, projection, faces, starts, entries, output[1])
    ctx.given = vertex_offsets, offsets, near, far
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    """The gradients of `_project`'s inputs."""
    wanted = ctx.needs_input_grad[:2]
    if grad is None:
        return (None,) * 10
    grads = _project_gradients(grad, list(ctx.saved_tensors), *ctx.given, *wanted)
    return *(x if want else None for x, want in zip(grads, wanted, strict=True)), *(None,) * 8


_project.register_autograd(_differentiate, setup_context=_keep)
_project_gradients.register_autograd(tiles.no_second_derivative)


class _Project(torch.autograd.Function):
    """The operator without PyTorch's dispatcher, which takes the host as long again."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, vertices: Tensor, projection: Tensor, topology: tuple[Tensor, ...],
        plan: ProjectPlan, watch: Watch | None,
    ) -> Tensor:  # fmt: skip
        faces, starts, _ = topology
        corners, ranges = _forward(plan, vertices, projection, faces, starts, watch)
        ctx.save_for_backward(vertices, projection, *topology, ranges)
        ctx.plan = plan
        ctx.set_materialize_grads(False)
        return corners

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if grad is None:
            return None, None, None, None, None
        of_vertices, of_camera, *_ = ctx.needs_input_grad
        saved, plan = ctx.saved_tensors, ctx.plan
        if is_plain(grad) and not torch.is_grad_enabled():
            vertices, projection = _backward(plan, grad, saved, of_vertices, of_camera)
        else:
            *given, ranges = saved
            given.append(saved[0].new_empty(0) if ranges is None else ranges)
            vertices, projection = _project_gradients(
                grad, given, list(plan.vertex_offsets), list(plan.offsets), plan.near, plan.far,
                of_vertices, of_camera,
            )  # fmt: skip
        grads = vertices if of_vertices else None, projection if of_camera else None
        return *grads, None, None, None
