"""Stage 1 on the Triton backend: one operator from vertices to polygons, and its gradient.

Nothing here makes the host wait. Faces that no camera sees stay among the others, moved away; all
polygons have four corners, and triangles repeat the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from gendr._runtime.later import Later, capturing
from gendr._runtime.tracing import is_plain
from gendr._runtime.triton.launch import interpreted
from gendr.rendering.backends.triton import tiles
from gendr.rendering.geometry import FAR, NEAR, ScreenFaces, common_batch

if TYPE_CHECKING:
    from gendr.mesh import Camera, Mesh

RANGES = 64  # programs that look for the least and the largest depth


@dataclass(frozen=True)
class Launch:
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
LAUNCH = Launch(1024, 1024, 4096) if interpreted() else Launch()


def project(
    mesh: Mesh, camera: Camera, near: float | None, far: float | None, check: bool
) -> ScreenFaces | None:
    """The faces of a batch on the screen, clipped at the near plane; see `geometry.project_faces`.

    Args:
        mesh: B meshes or 1, in float32; None is returned for others.
        camera: B cameras or 1.
        near: depth of the near plane; None as in `geometry.depth_limits`, without waiting.
        far: depth of the far plane, or None.
        check: whether to look for NaN and inf: the call after the one that has them raises.

    Raises:
        ValueError: if an earlier call with `check` had NaN or inf, and the GPU has got there.
    """
    if mesh.dtype != torch.float32:
        return None
    images = common_batch(len(mesh), len(camera))
    vertices, projection = mesh.vertices, camera.projection
    tracing = torch.compiler.is_compiling()
    # A batch of no images has no mesh, or one that nobody looks at.
    face_counts = mesh.face_counts * images if len(mesh) == 1 else mesh.face_counts
    offsets = (_offsets if tracing else _kept_offsets)(face_counts)
    vertex_offsets = (_offsets if tracing else _kept_offsets)(mesh.vertex_counts)
    check = check and not tracing and not capturing(vertices.device)
    if check:
        watch_of(vertices.device).raise_found()
    if tracing:  # it cannot look at the scene
        near, far = NEAR if near is None else near, FAR if far is None else far
    starts, entries = mesh.vertex_corners
    given = (
        vertices, projection, mesh.faces, starts, entries,
        vertex_offsets, offsets, near, far, check,
    )  # fmt: skip
    if is_plain(vertices):
        corners = cast(Tensor, _Project.apply(*given))
    else:
        corners, _ = _project(
            vertices, projection, mesh.faces, starts, entries,
            list(vertex_offsets), list(offsets), near, far, check,
        )  # fmt: skip
    return ScreenFaces(corners, offsets, marked=True)


def _offsets(counts: tuple[int, ...]) -> tuple[int, ...]:
    """Running sums from 0 on."""
    return tuple(accumulate(counts, initial=0))


_kept_offsets = lru_cache(maxsize=64)(_offsets)


# ---------------------------------------------------------------------------------------------
# NaN and inf
# ---------------------------------------------------------------------------------------------


class Watch:
    """What kernels found wrong with the vertices and cameras of a device.

    Attributes:
        found: [1] int64 on the device, bits of `project_kernels`.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self._later = device, Later(device, 1)
        with torch.inference_mode(False):
            self.found = torch.zeros(1, dtype=torch.int64, device=device)

    def send(self) -> None:
        """Have it copied to the host."""
        self._later.send(self.found)

    def raise_found(self) -> None:
        """Raise for what the host knows by now, and forget it.

        Raises:
            ValueError: for NaN or inf in an earlier call.
        """
        from gendr.rendering.backends.triton import project_kernels as kernels

        bits = self._later.read()
        if bits is None or not bits[0]:
            return
        self.found.zero_()
        vertices = bits[0] & kernels.BAD_VERTICES.value
        raise ValueError(
            f"the {'vertices of a mesh' if vertices else 'matrices of a camera'} must be finite, "
            f"got NaN or inf in an earlier call on {self.device}"
        )


_watches: dict[torch.device, Watch] = {}


def watch_of(device: torch.device) -> Watch:
    """The one of a device."""
    watch = _watches.get(device)
    if watch is None:
        watch = _watches[device] = Watch(device)
    return watch


# ---------------------------------------------------------------------------------------------
# Launches
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Batch:
    """How the faces and vertices of a mesh are spread over images."""

    vertex_offsets: tuple[int, ...]
    offsets: tuple[int, ...]
    cameras: int

    @property
    def shared(self) -> bool:
        """Whether it is one mesh in all images."""
        return len(self.vertex_offsets) == 2

    @property
    def images(self) -> int:
        return len(self.offsets) - 1

    def image_of_face(self, device: torch.device, unused: Tensor) -> Tensor:
        """[T] int32, or what will do where nobody looks."""
        return unused if self.shared else tiles.image_of_face(self.offsets, device)

    def image_of_vertex(self, device: torch.device, unused: Tensor) -> Tensor:
        """[V] int32, or what will do where nobody looks."""
        return unused if self.shared else tiles.image_of_face(self.vertex_offsets, device)

    def constants(self) -> dict[str, Any]:
        return {"SHARED": self.shared, "ONE_CAMERA": self.cameras == 1}


def _planes(near: float | None, far: float | None) -> tuple[float, float, dict[str, Any]]:
    """What the kernels are told of the near and far planes."""
    start = near
    if start is None:
        start = NEAR if far is None else min(NEAR, far / 100)
    known = {"HAS_NEAR": near is not None, "HAS_FAR": far is not None, "PARTS": RANGES}
    return start, FAR if far is None else far, known


def _range_programs(
    vertex_offsets: Sequence[int], offsets: Sequence[int], near: float | None, far: float | None
) -> int:
    """How many programs look for the least and the largest depth; 0 if both planes are given."""
    if near is not None and far is not None:
        return 0
    images = len(offsets) - 1 if len(vertex_offsets) == 2 else 1
    return min(RANGES, tiles.runs(vertex_offsets[-1] * images, LAUNCH.depths))


def _forward(
    vertices: Tensor,
    projection: Tensor,
    faces: Tensor,
    starts: Tensor,
    vertex_offsets: tuple[int, ...],
    offsets: tuple[int, ...],
    near: float | None,
    far: float | None,
    check: bool,
) -> tuple[Tensor, Tensor]:
    """The corners [T, 4, 2], and the depth ranges [programs, 2], none if both planes are given."""
    from gendr.rendering.backends.triton import project_kernels as kernels

    device, count = vertices.device, offsets[-1]
    batch = _Batch(vertex_offsets, offsets, len(projection))
    corners = vertices.new_empty(count, 4, 2)
    first, last, known = _planes(near, far)
    vertices, projection = vertices.contiguous(), projection.contiguous()
    ranges = vertices.new_empty(0)
    parts = _range_programs(vertex_offsets, offsets, near, far)
    if parts:
        total = vertex_offsets[-1] * (batch.images if batch.shared else 1)
        ranges = vertices.new_empty(parts, 2)
        tiles.run(
            kernels.depth_ranges, (parts,), device,
            vertices, projection, batch.image_of_vertex(device, starts), ranges,
            total, vertex_offsets[-1], **batch.constants(), BLOCK=LAUNCH.depths,
        )  # fmt: skip
    watch = watch_of(device) if check else None
    tiles.run(
        kernels.project_faces, (tiles.runs(count, LAUNCH.faces),), device,
        vertices, projection, faces, batch.image_of_face(device, starts),
        ranges if parts else vertices, corners, starts if watch is None else watch.found,
        count, len(faces), first, last, parts,
        **batch.constants(), **known, CHECK=check, BLOCK=LAUNCH.faces,
    )  # fmt: skip
    if watch is not None:
        watch.send()
    return corners, ranges


def _backward(
    grad: Tensor,
    saved: tuple[Tensor, ...],
    vertex_offsets: tuple[int, ...],
    offsets: tuple[int, ...],
    near: float | None,
    far: float | None,
    with_vertices: bool,
    with_camera: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of the vertices [V, 3] and of the projection; empty if not wanted."""
    from gendr.rendering.backends.triton import project_kernels as kernels

    vertices, projection, faces, starts, entries, ranges = saved
    device, count = vertices.device, len(vertices)
    batch = _Batch(vertex_offsets, offsets, len(projection))
    images = batch.images if batch.shared else 1
    first, last, known = _planes(near, far)
    grad_vertices = vertices.new_empty(count if with_vertices else 0, 3)
    grad_clip = vertices.new_empty(images if with_camera else 0, count, 4)
    side_by_side = 1 << (max(1, min(images, LAUNCH.images)) - 1).bit_length()
    block = max(1, LAUNCH.lanes // (LAUNCH.corners * side_by_side))
    tiles.run(
        kernels.project_gradients, (tiles.runs(count, block),), device,
        vertices.contiguous(), projection.contiguous(), faces, starts, entries,
        batch.image_of_vertex(device, starts), ranges if len(ranges) else vertices,
        grad.contiguous(), grad_vertices if with_vertices else vertices,
        grad_clip if with_camera else vertices, images, count, len(faces), first, last, len(ranges),
        **batch.constants(), **known, WITH_VERTICES=with_vertices, WITH_CAMERA=with_camera,
        VERTICES=block, ENTRIES=LAUNCH.corners, IMAGES=side_by_side,
    )  # fmt: skip
    if not with_camera:
        return grad_vertices, grad_clip
    return grad_vertices, _projection_gradient(grad_clip, vertices, batch)


def _projection_gradient(grad_clip: Tensor, vertices: Tensor, batch: _Batch) -> Tensor:
    """[C, 4, 4]: the sum over vertices of the gradient of clip coordinates times (x, y, z, 1)."""
    points = torch.cat([vertices, torch.ones_like(vertices[:, :1])], 1)
    products = grad_clip.unsqueeze(-1) * points.unsqueeze(1)  # [images or 1, V, 4, 4]
    if batch.shared:
        each = products.sum(1)
    else:
        sums = tiles.sum_per_image(products.reshape(len(points), 16), list(batch.vertex_offsets))
        each = sums.reshape(-1, 4, 4)
    return each.sum(0, keepdim=True) if batch.cameras == 1 else each


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
    """As `_forward`; what it is given besides is for the backward pass."""
    return _forward(
        vertices, projection, faces, starts, tuple(vertex_offsets), tuple(offsets), near, far, check
    )


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
    """As `_backward`."""
    return _backward(
        grad, tuple(saved), tuple(vertex_offsets), tuple(offsets), near, far,
        with_vertices, with_camera,
    )  # fmt: skip


@_project_gradients.register_fake
def _(*given: Any) -> tuple[Tensor, Tensor]:
    _grad, (vertices, projection, *_), *_, with_vertices, with_camera = given
    return (
        vertices.new_empty(len(vertices) if with_vertices else 0, 3),
        projection.new_empty(len(projection) if with_camera else 0, 4, 4),
    )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """What the backward pass needs."""
    vertices, projection, faces, starts, entries, vertex_offsets, offsets, near, far, _ = inputs
    ctx.save_for_backward(vertices, projection, faces, starts, entries, output[1])
    ctx.given = vertex_offsets, offsets, near, far
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    """The gradients of the inputs."""
    of_vertices, of_camera = ctx.needs_input_grad[:2]
    if grad is None:
        return (None,) * 10
    vertex_offsets, offsets, near, far = ctx.given
    if is_plain(grad) and not torch.is_grad_enabled():
        vertices, projection = _backward(
            grad, ctx.saved_tensors, tuple(vertex_offsets), tuple(offsets), near, far,
            of_vertices, of_camera,
        )  # fmt: skip
    else:
        vertices, projection = _project_gradients(
            grad, list(ctx.saved_tensors), list(vertex_offsets), list(offsets), near, far,
            of_vertices, of_camera,
        )  # fmt: skip
    return vertices if of_vertices else None, projection if of_camera else None, *(None,) * 8


_project.register_autograd(_differentiate, setup_context=_keep)
_project_gradients.register_autograd(tiles.no_second_derivative)


class _Project(torch.autograd.Function):
    """The operator without PyTorch's dispatcher, which takes the host as long again."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        vertices, projection, faces, starts, _entries, *rest = given
        output = _forward(vertices, projection, faces, starts, *rest)
        _keep(ctx, given, output)
        return output[0]

    backward = staticmethod(_differentiate)
