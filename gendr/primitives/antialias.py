"""Antialiasing of silhouettes, through which visibility gets gradients.

Two pixels next to each other that see different triangles may have a silhouette between their
centres: an edge of the nearer surface beyond which it does not go on. From the triangle of the
nearer pixel we walk across the mesh along the line to the other centre, until an edge has no
triangle on its other side, or one that turns back. If the edge is closer to upright than to level
(for pixels above each other: the other way), it is taken as a border across the pixel: with t the
place of the crossing, from 0 at the nearer pixel's centre to 1 at the other's, the surface covers
t - 1/2 of the other pixel if t > 1/2, else it leaves 1/2 - t of its own. The paper looks at the
edges of the nearer triangle only (`edges="seen"`), which misses silhouettes of triangles smaller
than pixels.

Source: Laine et al., Modular Primitives for High-Performance Differentiable Rendering (2020), §3.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from torch import Tensor

from gendr._common.checks import (
    check_choice,
    check_float,
    check_like,
    check_number,
    check_shape,
)
from gendr._common.tracing import cached, is_traced
from gendr.kernels.operator import Operator
from gendr.kernels.through_cpu import goes_through_cpu, moved
from gendr.primitives.choice import kernels_for
from gendr.primitives.reference.antialias import STEPS, Borders, blended, crossed, densely, linked
from gendr.primitives.scene import Scene, check_ids, check_pos, check_rast, check_tri

__all__ = ["antialias", "antialias_construct_topology_hash"]


@final
@dataclass(frozen=True, eq=False)
class TopologyHash:
    """Which triangles share edges; opaque.

    Attributes:
        uses: [3 T] int32. Half-edge 3 t + k is the edge of triangle t opposite its corner k; its
            entry is the next half-edge of the same two vertices, in a circle; itself at a border.
            On a CPU 8 bytes an edge are kept beside it, of what lies on both sides of each.
    """

    uses: Tensor


def antialias_construct_topology_hash(tri: Tensor, *, backend: str = "auto") -> TopologyHash:
    """What `antialias` finds out about triangles, once.

    `antialias` keeps it with the tensor `tri` anyway; give it where `tri` is made anew every time.

    Args:
        tri: [T, 3], int32.
        backend: as of `rasterize`.

    Raises:
        TypeError: for what holds no integers.
        ValueError: for other shapes, negative indices, and an unknown backend.
    """
    checked = check_tri(tri, 2**31, tri)
    return TopologyHash(cached(tri, "uses", lambda _: _uses(checked, backend)))


def antialias(
    color: Tensor,
    rast: Tensor,
    pos: Tensor,
    tri: Tensor,
    topology_hash: TopologyHash | None = None,
    pos_gradient_boost: float = 1.0,
    *,
    edges: Literal["all", "seen"] = "all",
    backend: str = "auto",
) -> Tensor:
    """Blend the pixels at silhouettes by the part that each side covers.

    Differentiable in color and pos, also twice. What a loss says about colours on both sides of a
    silhouette becomes a gradient of the two vertices of its edge.

    Args:
        color: [N, H, W, C]; float32 or float64.
        rast: [N, H, W, 4] of `rasterize`; gets no gradient.
        pos: [N, V, 4] or [V, 4], as it was given to `rasterize`.
        tri: [T, 3], as it was given to `rasterize`. Vertices are the same where their numbers are:
            a mesh cut along the seams of its texture coordinates has silhouettes there.
        topology_hash: of `antialias_construct_topology_hash`; None finds and keeps it.
        pos_gradient_boost: a factor of the gradients of pos.
        edges: which may be silhouettes between two pixels: "all" on the way from the nearer
            surface to the other pixel, also of triangles that no pixel sees, or those of the
            triangle "seen" in the nearer pixel only, as in the paper and nvdiffrast.
        backend: as of `rasterize`.

    Returns:
        [N, H, W, C].

    Raises:
        TypeError: for what is no tensor or has the wrong dtype.
        ValueError: for wrong shapes, NaN or inf in pos, indices out of range.
    """
    color = check_float("color", color)
    check_shape("color", color, "[N, H, W, C]")
    rast = check_rast(rast, "color", color)
    sizes = dict(zip("NHW", rast.shape, strict=False))
    check_shape("color", color, "[N, H, W, C]", **sizes)
    pos = check_pos(check_like("pos", check_float("pos", pos), "color", color))
    if pos.ndim == 3:
        check_shape("pos", pos, "[N, V, 4]", N=len(rast))
    checked = check_tri(tri, pos.shape[-2], pos)
    check_ids(rast, len(checked))
    boost = check_number("pos_gradient_boost", pos_gradient_boost)
    if topology_hash is not None:
        if not isinstance(topology_hash, TopologyHash):
            raise TypeError(
                "topology_hash must come from antialias_construct_topology_hash, got "
                f"{type(topology_hash).__name__}"
            )
        if len(topology_hash.uses) != 3 * len(checked):
            raise ValueError(
                f"topology_hash must be that of tri with {len(checked)} triangles, got one of "
                f"{len(topology_hash.uses) // 3}"
            )
        uses = topology_hash.uses
    elif is_traced():
        uses = None
    else:
        uses = cached(tri, "uses", lambda _: _uses(checked, backend))
    images, height, width = rast.shape[:3]
    scene = Scene(checked, images, height, width, pos.shape[-2], None, pos.ndim == 2)
    if not color.shape[-1] or not len(checked):
        return color + 0 * pos.sum() if not color.shape[-1] else color.clone()
    steps = STEPS if check_choice("edges", edges, ("all", "seen")) == "all" else 1
    call = Borders(scene, uses, boost, steps), color, rast, pos
    kernels = kernels_for("primitives.antialias", color, backend)
    if kernels is None and backend == "auto" and goes_through_cpu("antialias", color):
        call = moved(call, "cpu")
        kernels = kernels_for("primitives.antialias", call[1])
    return ANTIALIAS(kernels, *call).to(color.device)


def _uses(tri: Tensor, backend: str) -> Tensor:
    kernels = kernels_for("primitives.topology", tri, backend)
    return linked(tri) if kernels is None else kernels.linked(tri)


def _reference(borders: Borders, color: Tensor, rast: Tensor, pos: Tensor) -> Tensor:
    return densely(borders, color, pos, crossed(borders, rast, pos))


def _replay(
    borders: Borders, saved: tuple[Tensor, ...], color: Tensor, rast: Tensor, pos: Tensor
) -> Tensor:
    if len(saved) == 1:  # the codes of all pairs, of a GPU
        return densely(borders, color, pos, saved[0])
    return blended(borders, color, pos, *saved)


ANTIALIAS = Operator("primitives.antialias", reference=_reference, replay=_replay)
