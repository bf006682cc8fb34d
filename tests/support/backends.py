"""Backends of rendering held against the float64 reference, with all that a renderer has learnt."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import gendr
from gendr import Instance
from gendr.rendering.fragments import signed_distance
from support.tolerances import TOLERANCES

# Those that are usable here.
BACKENDS = [name for name, reason in gendr.backends().items() if reason is None]


def place(backend: str) -> tuple[str, torch.dtype]:
    """The device and the dtype that a backend is tested with."""
    if backend == "triton":
        return "cuda" if torch.cuda.is_available() else "cpu", torch.float32
    return "cpu", torch.float64


def centres(size: tuple[int, int]) -> Tensor:
    """NDC [H W, 2] of the centres of pixels: the shorter side is 2 long, y points up. float64."""
    height, width = size
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    points = torch.stack([columns + 0.5 - width / 2, height / 2 - rows - 0.5], -1)
    return points.double().reshape(-1, 2) * 2 / min(size)


def learnable(member: Instance, scale: Any, like: Tensor) -> tuple[Any, Any, dict[str, Tensor]]:
    """The member with tensors for all that it has: (dist, tconorm, {name: tensor})."""

    def leaf(value: Any) -> Tensor:
        return torch.as_tensor(value).to(like, copy=True).requires_grad_()

    dist, tconorm, tensors = member.dist, member.tconorm, {"scale": leaf(scale)}
    if dist.shape_parameter is not None:
        tensors["shape"] = leaf(float(dist.shape_parameter))
        dist = dist.with_shape(tensors["shape"])
    if not dist.is_centred and dist.total_shift() == 0:
        tensors["shift"] = leaf(0.2)
        dist = dist.shifted(tensors["shift"])
    if getattr(tconorm, "p", None) is not None:
        tensors["p"] = leaf(float(tconorm.p))
        tconorm = tconorm.with_p(tensors["p"])
    return dist, tconorm, tensors


def rendered(
    backend: str,
    scene: Tensor,
    size: tuple[int, int],
    member: Instance,
    scale: Any,
    cutoff: float = 1e-6,
    weight: Any = 1.0,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Alpha and the gradients of all inputs through its weighted sum, float64 on the CPU.

    The numbers are those of float32 whatever the dtype, by default that of `place`. On the CPU with
    float32 vertices get the only gradient: its kernels of float32 are for what nothing else learns.
    """
    device, usual = place(backend)
    vertices = scene.float().to(device, dtype or usual, copy=True).requires_grad_()
    dist, tconorm, tensors = learnable(member, scale, vertices)
    if backend == "cpu" and vertices.dtype == torch.float32:
        for tensor in tensors.values():
            tensor.requires_grad_(False)
        tensors = {"scale": tensors["scale"]}
    alpha = gendr.silhouette(vertices, size, dist, tconorm, tensors["scale"], cutoff, backend)
    assert alpha.dtype == vertices.dtype
    (alpha * torch.as_tensor(weight).to(alpha)).sum().backward()
    grads = {"vertices": vertices.grad, **{key: x.grad for key, x in tensors.items()}}
    found = {key: x.double().cpu() for key, x in grads.items() if x is not None}
    return alpha.detach().double().cpu(), found


def _clear_pixels(
    scene: Tensor, size: tuple[int, int], member: Instance, scale: Any, cutoff: float
) -> Tensor:
    """Those where rounding decides nothing: neither the cutoff nor a kink of the T-conorm."""
    scale = torch.as_tensor(scale).double().reshape(-1, 1, 1)
    points = centres(size)[:, None]
    d = signed_distance(points, scene.float().double()[..., :2].unsqueeze(1))
    coverage = learnable(member, 0.1, d)[0].coverage(d, scale)[0].detach()
    clear = ((coverage / max(cutoff, 1e-300) - 1).abs() > 1e-3).all(-1)
    if member.tconorm.name == "yager":
        clear &= ((coverage ** float(member.tconorm.p)).sum(-1) - 1).abs() > 1e-5
    return clear.reshape(-1, *size)


def assert_equals_reference(
    backend: str,
    scene: Tensor,
    size: tuple[int, int],
    member: Instance,
    scale: Any,
    cutoff: float = 1e-6,
    dtype: torch.dtype | None = None,
) -> None:
    """The backend's alpha and all its gradients are those of the reference in float64."""
    dtype = dtype or place(backend)[1]
    clear = _clear_pixels(scene, size, member, scale, cutoff)
    generator = torch.Generator().manual_seed(11)
    weight = torch.rand(clear.shape, generator=generator) * clear
    scenes = scene, size, member, scale, cutoff, weight
    got, got_grads = rendered(backend, *scenes, dtype)
    want, want_grads = rendered("reference", *scenes)
    tolerance, shape = TOLERANCES[dtype], member.dist.shape_parameter
    steep = shape is not None and shape < 1
    bound = tolerance.steep_alpha if steep else tolerance.alpha
    assert ((got - want) * clear).abs().max() <= bound
    # Sums over pixels round, whose terms cancel.
    rounding = (1e-7 if dtype == torch.float32 else 1e-15) * clear.numel()
    alone = backend == "cpu" and dtype == torch.float32
    assert got_grads.keys() == ({"vertices"} if alone else want_grads.keys())
    for key, found in got_grads.items():
        error = (found - want_grads[key]).norm()
        assert error <= tolerance.gradient * want_grads[key].norm() + rounding, key
