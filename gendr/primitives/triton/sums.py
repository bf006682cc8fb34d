"""Sums over the pixels of each vertex, or the lookups of each texel, by sorted lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gendr._common.tracing import cached
from gendr.kernels.triton.launch import blocks_of, interpreted, power_of_2, run
from gendr.primitives.scene import Pixels

__all__ = ["EXACT", "LAUNCH", "Segments", "each", "key_type", "pixels_of", "vertex_sums"]


@dataclass
class Launch:
    """How the work is cut into programs; powers of 2.

    Attributes:
        block: pixels, entries or triangles that a program takes at once.
        rows: of sums that a program takes at once, times the threads of each.
        blocks: of entries that a program sums up at once.
        group: entries of such a block; as many blocks are summed up again.
        small: pixels of a box that one thread draws.
        chunk: pixels of larger boxes that a program draws at once.
        programs: that share these chunks: 8 for each multiprocessor of an H100.
    """

    block: int = 128
    rows: int = 128
    blocks: int = 4
    group: int = 64
    small: int = 32
    chunk: int = 512
    programs: int = 1056


# The interpreter pays per operation, not per element.
LAUNCH = Launch(1 << 14, 1 << 12, 64, chunk=1 << 10, programs=4) if interpreted() else Launch()
# No product is fused into a sum, so that decisions are those of the CPU.
EXACT: dict[str, Any] = {} if interpreted() else {"num_warps": 4, "enable_fp_fusion": False}
OWN, TRIANGLE, TABLE = range(3)  # see the kernels


def each(
    kernel: Any, device: torch.device, count: int, *args: Any, others: tuple[int, ...] = (),
    **constants: Any,
) -> None:  # fmt: skip
    """Launch a kernel with a thread for each of `count` things, and more dimensions of the grid."""
    grid = blocks_of(count, LAUNCH.block), *others
    run(kernel, grid, device, *args, BLOCK=LAUNCH.block, **constants, **EXACT)


@dataclass(frozen=True, eq=False)
class Segments:
    """Entries sorted by segment.

    Attributes:
        keys: [E], sorted; those from `count` on are of no segment.
        order: [E] int64, the entries.
        starts: [count] int32, the first place of each segment.
        stops: [count] int32, one past the last; both 0 if it has none.
        count: of segments.
    """

    keys: Tensor
    order: Tensor
    starts: Tensor
    stops: Tensor
    count: int

    @staticmethod
    def of(keys: Tensor, count: int) -> Segments:
        """Sort entries by key, equal ones in their order."""
        from gendr.primitives.triton import sum_kernels

        keys, order = torch.sort(keys, stable=True)
        ends = torch.zeros(2, max(1, count), dtype=torch.int32, device=keys.device)
        each(
            sum_kernels.segment_ends, keys.device, len(keys), keys, ends[0], ends[1], len(keys),
            count,
        )  # fmt: skip
        return Segments(keys, order, ends[0], ends[1], count)

    def blocks(
        self, values: Tensor, weights: Tensor, channels: int, corners: int, stride: int, rule: int,
        slots: int,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The sums of blocks of K entries, and of K blocks."""
        from gendr.primitives.triton import sum_kernels

        entries, columns = len(self.keys), corners * channels
        rows, k = LAUNCH.blocks, LAUNCH.group
        lower = torch.empty(
            max(1, entries // k), columns, dtype=torch.float64, device=values.device
        )
        upper = torch.empty(
            max(1, entries // k**2), columns, dtype=torch.float64, device=values.device
        )
        wide = min(4, power_of_2(channels))
        run(
            sum_kernels.block_sums, (blocks_of(entries // k, rows),), values.device, self.order,
            self.keys, values, weights, lower, entries, self.count, channels, CORNERS=corners,
            STRIDE=stride, RULE=rule, SLOTS=slots, K=k, BLOCKS=rows, WIDE=wide, **EXACT,
        )  # fmt: skip
        run(
            sum_kernels.upper_sums, (blocks_of(entries // k**2, rows),), values.device, self.keys,
            lower, upper, entries, self.count, columns, K=k, BLOCKS=rows,
            WIDE=min(4, power_of_2(columns)), **EXACT,
        )  # fmt: skip
        return lower, upper


def key_type(count: int) -> torch.dtype:
    """The dtype of the keys of so many segments."""
    return torch.int32 if count < 2**31 - 1 else torch.int64


def pixels_of(pixels: Pixels, ids: Tensor, triangles: int) -> Segments:
    """The pixels sorted by triangle, through those of all images.

    Args:
        pixels: what is known of them.
        ids: [N, H, W] int32, or the `rast` [N, H, W, 4] that they are from.
        triangles: T.
    """
    from gendr.primitives.triton import sum_kernels

    def make() -> Segments:
        images, height, width = ids.shape[:3]
        number, count = images * height * width, images * triangles
        keys = torch.empty(number, dtype=key_type(count), device=ids.device)
        each(
            sum_kernels.pixel_keys, ids.device, number, ids, keys, number, height * width,
            triangles, count, STRIDE=1 if ids.ndim == 3 else 4, COLUMN=0 if ids.ndim == 3 else 3,
        )  # fmt: skip
        return Segments.of(keys, count)

    return pixels.get(("segments", triangles, ids.device), make)


def _corners(tri: Tensor, vertices: int) -> tuple[Tensor, Tensor]:
    """The first corner of each vertex [V + 1], and the corners 3 t + k in the order of vertices."""

    def make(tri: Tensor) -> tuple[Tensor, Tensor]:
        found, order = torch.sort(tri.reshape(-1), stable=True)
        each = torch.arange(vertices + 1, dtype=found.dtype, device=tri.device)
        return torch.searchsorted(found, each, out_int32=True), order.int()

    return cached(tri, f"corners of {vertices}", make)


def vertex_sums(
    segments: Segments, tri: Tensor, like: Tensor, values: Tensor, weights: Tensor | None,
    images: int,
) -> Tensor:  # fmt: skip
    """The sums of vertices, in the shape and dtype of a tensor.

    Args:
        segments: entries sorted by triangle, through those of all images.
        tri: [T, 3].
        like: [N, V, A], or [V, A] or [1, V, A] if all images share the vertices.
        values: [E, A] with weights, [E, 3 A] without: of the corners.
        weights: [E, ...], u and v first.
        images: N.
    """
    from gendr.primitives.triton import sum_kernels

    vertices, channels = like.shape[-2:]
    out = torch.empty_like(like, memory_format=torch.contiguous_format)
    if not out.numel():
        return out
    shared = like.ndim == 2 or len(like) == 1
    rule = OWN if weights is None else TRIANGLE
    stride = 1 if weights is None else weights.shape[-1]
    given = values if weights is None else weights
    blocks = segments.blocks(values, given, channels, 3, stride, rule, 1)
    offsets, corners = _corners(tri, vertices)
    # Few triangles are large, and their pixels the work of many threads.
    lanes = min(32, power_of_2(len(segments.keys) // max(1, segments.count)))
    wide = min(4, power_of_2(channels))
    rows = max(1, LAUNCH.rows // lanes)
    grid = blocks_of(vertices, rows), 1 if shared else images, blocks_of(channels, wide)
    run(
        sum_kernels.vertex_sums, grid, out.device, offsets, corners, segments.starts,
        segments.stops, segments.order, values, given, *blocks, out, vertices, len(tri), images,
        channels, SHARED=shared, STRIDE=stride, RULE=rule, K=LAUNCH.group, ROWS=rows,
        LANES=lanes, WIDE=wide, **EXACT,
    )  # fmt: skip
    return out
