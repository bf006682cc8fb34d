"""The projection of splats on a GPU, by kernels of Triton; float32 inside."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from gendr._common.tracing import lasting
from gendr.kernels.triton import launch
from gendr.kernels.triton.launch import Launcher, available, blocks_of, interpreted

__all__ = ["KERNELS", "available", "supports"]

_BLOCK = 64


def supports(tensor: Tensor) -> bool:
    """float32 where Triton's kernels run."""
    return tensor.dtype == torch.float32 and launch.supports(tensor)


@lru_cache(maxsize=32)
def _launcher(kernel: str, device: torch.device, count: int, inradius: bool) -> Launcher:
    from gendr.photos.splatting.triton import kernels

    options: dict[str, Any] = {"COUNT": count, "INRADIUS": inradius, "BLOCK": _BLOCK}
    if not interpreted():
        options |= {"num_warps": 2, "enable_fp_fusion": True}
    return Launcher(getattr(kernels, kernel), device, **options)


def _launch(kernel: str, task: Any, harmonics: Tensor, *args: Tensor) -> None:
    """Launch a kernel with what the camera sees by, which is kept with it as its projection is."""
    camera, count = task.camera, len(harmonics)
    projection = camera.projection
    kept: tuple[Tensor, Tensor] | None = vars(camera).get("_cached_view")
    if kept is None or kept[0] is not projection:
        with lasting():
            parts = projection[0].detach().flatten(), camera.eye[0].detach()
            kept = projection, torch.cat(parts).to(torch.float32)
        object.__setattr__(camera, "_cached_view", kept)
    _launcher(kernel, harmonics.device, harmonics.shape[1], task.unit == 0.0)(
        (blocks_of(count, _BLOCK),), kept[1], *args, float(task.near), float(task.unit),
        float(task.thin), count,
    )  # fmt: skip


def forward(
    task: Any, vertices: Tensor, harmonics: Tensor, scale: Tensor, *, save: bool
) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[()]]:
    """Corners [N, 3, 3] as x, y in NDC and the depth, colours [N, 3] and scales [N] in NDC."""
    colours = harmonics.new_empty(len(harmonics), 3)
    found = torch.empty_like(vertices), colours, torch.empty_like(scale)
    _launch("project_triangles", task, harmonics, vertices, harmonics, scale, *found)
    return found, ()


def backward(
    task: Any, inputs: tuple[Tensor, Tensor, Tensor], saved: tuple[()],
    grads: tuple[Tensor | None, ...], wanted: tuple[bool, ...],
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of vertices, harmonics and scale."""
    vertices, harmonics, scale = inputs
    shapes = vertices.shape, (len(harmonics), 3), scale.shape
    upstream = [
        vertices.new_zeros(shape) if grad is None else grad
        for grad, shape in zip(grads, shapes, strict=True)
    ]
    found = torch.empty_like(vertices), torch.empty_like(harmonics), torch.empty_like(scale)
    _launch("project_backward", task, harmonics, *inputs, *upstream, *found)
    return found


class Projection:
    """The kernels of the projection; see `gendr.kernels.operator.Kernels`."""

    forward, backward = staticmethod(forward), staticmethod(backward)


KERNELS = {"splatting.project": Projection}
