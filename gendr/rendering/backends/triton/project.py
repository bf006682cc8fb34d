"""Stage 1 on the Triton backend: one operator from vertices to polygons, and its gradient.

Nothing here makes the host wait. Faces that no camera sees stay among the others, moved away; all
polygons have four corners, and triangles repeat the last.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from gendr._common.readback import Readback, readback_of
from gendr._common.tracing import capturing, is_plain, is_traced
from gendr.kernels.operator import Operator
from gendr.kernels.triton.launch import Launcher, blocks_of, interpreted, power_of_2
from gendr.rendering.backends.triton import tiles
from gendr.rendering.backends.triton.operators import GraphKernels, text_of
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


class ProjectSpec(NamedTuple):
    """All that corners depend on but tensors.

    Attributes:
        vertex_offsets: of the meshes; two numbers if one mesh is in all images.
        offsets: of the faces of images.
        near: depth of the near plane; None as in `geometry.depth_limits`, without waiting.
        far: depth of the far plane, or None.
        flags: where the bits of `project_kernels` for NaN and inf go, if anyone looks.
    """

    vertex_offsets: tuple[int, ...]
    offsets: tuple[int, ...]
    near: float | None
    far: float | None
    flags: Readback | None = None

    def serialized(self) -> tuple[str, list[int]]:
        """All but the flags, as operators of PyTorch take it."""
        numbers = [len(self.vertex_offsets), *self.vertex_offsets, *self.offsets]
        return text_of((self.near, self.far)), numbers

    @staticmethod
    def read(text: str, numbers: list[int]) -> ProjectSpec:
        """The spec of what `serialized` has given."""
        count, *offsets = numbers
        return ProjectSpec(tuple(offsets[:count]), tuple(offsets[count:]), *literal_eval(text))


def project(
    mesh: Mesh, camera: Camera, near: float | None, far: float | None, owner: Hashable
) -> ScreenFaces | None:
    """The faces of a batch on the screen, clipped at the near plane; see `geometry.project_faces`.

    Args:
        mesh: B meshes or 1, in float32; None is returned for others.
        camera: B cameras or 1.
        near: depth of the near plane; None as in `geometry.depth_limits`, without waiting.
        far: depth of the far plane, or None.
        owner: if there is one, NaN and inf are looked for, unless somebody traces: its call after
            the one that has them raises.

    Raises:
        ValueError: if an earlier call of the owner had NaN or inf, and the GPU has got there.
    """
    if mesh.dtype != torch.float32:
        return None
    images = common_batch(len(mesh), len(camera))
    vertices, flags = mesh.vertices, None
    if is_traced():  # it cannot look at the scene
        near, far = NEAR if near is None else near, FAR if far is None else far
    elif owner is not None and is_plain(vertices) and not capturing(vertices.device):
        flags = readback_of(owner, "scene", vertices.device, 1)
        _raise_bad(flags, vertices.device)
    # A batch of no images has no mesh, or one that nobody looks at.
    face_counts = mesh.face_counts * images if len(mesh) == 1 else mesh.face_counts
    offsets = tuple(accumulate(face_counts, initial=0))
    vertex_offsets = tuple(accumulate(mesh.vertex_counts, initial=0))
    spec = ProjectSpec(vertex_offsets, offsets, near, far, flags)
    inputs = vertices, camera.projection, mesh.faces, *mesh.vertex_corners
    return ScreenFaces(_PROJECT(_KERNELS, spec, *inputs), offsets, has_absent=True)


def _raise_bad(flags: Readback, device: torch.device) -> None:
    """Raise for what kernels found wrong in an earlier call, if that is known by now; forget it.

    Raises:
        ValueError: for NaN or inf.
    """
    from gendr.rendering.backends.triton import project_kernels as kernels

    bits = flags.read()
    if bits is None or not bits[0]:
        return
    flags.numbers.zero_()
    vertices = bits[0] & kernels.BAD_VERTICES.value
    raise ValueError(
        f"the {'vertices of a mesh' if vertices else 'matrices of a camera'} must be finite, "
        f"got NaN or inf in an earlier call on {device}"
    )


# ---------------------------------------------------------------------------------------------
# Launches
# ---------------------------------------------------------------------------------------------


class ProjectPlan:
    """What the host knows before it looks at vertices; see `tiles.plan_of`.

    Args:
        vertex_offsets: as in `ProjectSpec`, and so the next ones.
        offsets: of the faces of images.
        near: depth of the near plane.
        far: depth of the far plane.
        cameras: how many.
        check: whether to look for NaN and inf.
        device: where all tensors are.
        settings: of launches.
    """

    def __init__(
        self, vertex_offsets: tuple[int, ...], offsets: tuple[int, ...], near: float | None,
        far: float | None, cameras: int, check: bool, device: torch.device,
        settings: ProjectLaunch,
    ) -> None:  # fmt: skip
        from gendr.rendering.backends.triton import project_kernels as kernels

        self.cameras, self.shared = cameras, len(vertex_offsets) == 2
        self.vertices, self.faces = vertex_offsets[-1], offsets[-1]
        self.images = len(offsets) - 1 if self.shared else 1  # that a vertex is in
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
        side_by_side = power_of_2(max(1, min(self.images, settings.images)))
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


def _planned(spec: ProjectSpec, vertices: Tensor, projection: Tensor) -> ProjectPlan:
    *key, flags = spec
    check, cameras = flags is not None, projection.shape[0]
    return tiles.plan_of(ProjectPlan, *key, cameras, check, vertices.device, LAUNCH)


def _range_programs(
    vertex_offsets: tuple[int, ...], offsets: tuple[int, ...], near: float | None, far: float | None
) -> int:
    """How many programs look for the least and the largest depth; 0 if both planes are given."""
    if near is not None and far is not None:
        return 0
    images = len(offsets) - 1 if len(vertex_offsets) == 2 else 1
    return min(RANGES, blocks_of(vertex_offsets[-1] * images, LAUNCH.depths))


def _forward(
    spec: ProjectSpec, vertices: Tensor, projection: Tensor, faces: Tensor, starts: Tensor,
    _entries: Tensor, *, save: bool,
) -> tuple[tuple[Tensor], tuple[Tensor]]:  # fmt: skip
    """The corners [T, 4, 2]. Saved: depth ranges [programs, 2]."""
    plan, flags = _planned(spec, vertices, projection), spec.flags
    corners, ranges = vertices.new_empty(plan.faces, 4, 2), vertices.new_empty(plan.parts, 2)
    index = starts if plan.shared else plan.image_of_vertex
    plan.find_ranges((plan.parts,), vertices, projection, index, ranges, plan.seen, plan.vertices)
    plan.project(
        plan.programs, vertices, projection, faces, starts if plan.shared else plan.image_of_face,
        ranges, corners, starts if flags is None else flags.numbers,
        plan.faces, faces.shape[0], *plan.planes, plan.parts,
    )  # fmt: skip
    if flags is not None:
        flags.send(flags.numbers)
    return (corners,), (ranges,)


def _backward(
    spec: ProjectSpec, inputs: tuple[Tensor, ...], saved: tuple[Tensor, ...],
    grads: tuple[Tensor], wanted: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Gradients of the vertices [V, 3] and of the projection; None if not wanted."""
    (vertices, projection, faces, starts, entries), (_, ranges) = inputs, saved
    plan, count = _planned(spec, vertices, projection), vertices.shape[0]
    with_vertices, with_camera = wanted[:2]
    grad_vertices = torch.empty_like(vertices)
    grad_clip = vertices.new_empty(plan.images if with_camera else 0, count, 4)
    plan.gradients[with_vertices, with_camera](
        plan.gradient_programs, vertices, projection, faces, starts,
        entries, starts if plan.shared else plan.image_of_vertex, ranges, *grads,
        grad_vertices, grad_clip,
        plan.images, count, faces.shape[0], *plan.planes, plan.parts,
    )  # fmt: skip
    grad_projection = None
    if with_camera:
        grad_projection = _projection_gradient(grad_clip, vertices, plan, spec.vertex_offsets)
    return grad_vertices, grad_projection, None, None, None


def _projection_gradient(
    grad_clip: Tensor, vertices: Tensor, plan: ProjectPlan, offsets: tuple[int, ...]
) -> Tensor:
    """The gradient of the projection [C, 4, 4].

    It is the sum over vertices of the gradient of clip coordinates times (x, y, z, 1).
    """
    points = torch.cat([vertices, torch.ones_like(vertices[:, :1])], 1)
    products = grad_clip.unsqueeze(-1) * points.unsqueeze(1)  # [images or 1, V, 4, 4]
    if plan.shared:
        each = products.sum(1)
    else:
        each = tiles.sum_per_image(products.reshape(len(points), 16), offsets).reshape(-1, 4, 4)
    return each.sum(0, keepdim=True) if plan.cameras == 1 else each


def _fake(spec: ProjectSpec, vertices: Tensor, *_: Tensor) -> list[Tensor]:
    """The result and what is saved, for graphs."""
    parts = _range_programs(spec.vertex_offsets, spec.offsets, spec.near, spec.far)
    return [vertices.new_empty(spec.offsets[-1], 4, 2), vertices.new_empty(parts, 2)]


_PROJECT = Operator("projection of the triton backend", reference=None)
_KERNELS = GraphKernels("project", _forward, _backward, _fake, ProjectSpec.read)
