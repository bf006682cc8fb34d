"""Projection on the CPU: one mesh before any cameras, by kernels that leave out all in between."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gendr._common import memory
from gendr._common.tracing import is_traced
from gendr.kernels.operator import Operator
from gendr.kernels.threads import run
from gendr.mesh import Camera, Mesh
from gendr.mesh.rotations import rotate
from gendr.rendering.backends.cpu.tables import KernelPair, narrowed
from gendr.rendering.geometry import (
    REACH,
    ImageSize,
    ScreenFaces,
    by_index,
    depth_limits,
    on_screen,
)


def project(
    mesh: Mesh, camera: Camera, near: float | None, far: float | None, owner: Any
) -> ScreenFaces | None:
    """The faces of one mesh on the screen; None if the planes cut some, or several meshes come."""
    vertices, faces, images = mesh.vertices, mesh.faces, len(camera)
    if len(mesh) > 1 or not len(faces) or not images or is_traced():
        return None
    spec = _Spec(faces, np.empty((images, 3)))
    corners = _PROJECT(KernelPair(_forward, _backward), spec, vertices, camera.projection)
    low, high, most = float(spec.ends[:, 0].min()), *map(float, spec.ends[:, 1:].max(0))
    near, far = depth_limits(near, far, low, high)
    if not (0 < near <= low and high <= far and most < REACH):
        return None
    offsets = tuple(range(0, images * len(faces) + 1, len(faces)))
    return ScreenFaces(corners, offsets, depths=(low, high))


class _Spec(NamedTuple):
    """The faces [F, 3] of the mesh, and what kernels fill in.

    Attributes:
        ends: float64 [B, 3], the least and the largest depth, and the largest coordinate.
    """

    faces: Tensor
    ends: np.ndarray


def _definition(spec: _Spec, vertices: Tensor, projection: Tensor) -> Tensor:
    """The corners [B F, 3, 2] in plain torch."""
    clip = rotate(projection[:, None, :3, :3], vertices) + projection[:, None, :3, 3]
    step = torch.arange(len(clip), device=clip.device) * len(vertices)
    index = (spec.faces + step[:, None, None]).reshape(-1)
    return by_index(on_screen(clip.flatten(0, 1)), index).reshape(-1, 3, 2)


_PROJECT = Operator("rendering.project", reference=_definition)
_FEW = 4096  # faces that one thread projects before another one has woken up
_PARTS = 8  # of the cameras, whose gradients of vertices are summed


def _forward(
    spec: _Spec, vertices: Tensor, projection: Tensor, *, save: bool
) -> tuple[tuple[Tensor], tuple[()]]:
    """The corners."""
    from gendr.rendering.backends.cpu import project_kernels as kernels

    images, count = len(projection), len(projection) * len(spec.faces)
    corners = memory.empty((count, 3, 2), vertices.dtype)
    run(
        kernels.place, images, vertices.numpy(), projection.numpy(), spec.faces.numpy(),
        corners.numpy(), spec.ends, alone=count < _FEW,
    )  # fmt: skip
    return (corners,), ()


def _backward(
    spec: _Spec, inputs: tuple[Tensor, Tensor], saved: tuple[()], grads: tuple[Tensor],
    wanted: tuple[bool, bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The gradients of the vertices and of the cameras."""
    from gendr.rendering.backends.cpu import project_kernels as kernels

    dtype, parts = inputs[0].dtype, min(len(inputs[1]), _PARTS)
    limit = (torch.finfo(dtype).max / 4) ** 0.5
    given, pulls = [x.numpy() for x in inputs], grads[0].reshape(-1, 2).numpy()
    found: list[Tensor | None] = [None, None]
    for k, kernel in enumerate((kernels.move_vertices, kernels.move_cameras)):
        if wanted[k]:
            out = np.zeros(((parts, *inputs[0].shape), inputs[1].shape)[k])
            run(kernel, len(out), *given, pulls, spec.faces.numpy(), limit, out)
            found[k] = narrowed(out.sum(0) if k == 0 else out, dtype)
    return tuple(found)


def covered(mesh: Mesh, camera: Camera, size: ImageSize) -> Tensor:
    """Where the cameras see a face, bool [B, H, W], of a mesh that `project` has projected."""
    from gendr.rendering.backends.cpu import mask_kernels

    given = (mesh.vertices, camera.rotation, camera.translation, camera.focal, camera.principal)
    shown = torch.empty(len(camera), size.height, size.width, dtype=torch.bool, device="cpu")
    run(
        mask_kernels.masks, len(shown), *(x.detach().contiguous().numpy() for x in given),
        camera.orthographic, mesh.faces.numpy(), shown.numpy(),
        alone=len(shown) * (len(mesh.faces) + size.pixels) < _FEW,
    )  # fmt: skip
    return shown
