"""What the Triton operators share: launch settings, plans of batches, lists of faces per tile."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from gendr._common.readback import Readback
from gendr._common.tracing import capturing, lasting
from gendr.kernels.triton.launch import Launcher, blocks_of, interpreted, power_of_2, run
from gendr.rendering.backends.triton.operators import text_of
from gendr.rendering.backends.triton.recipes import Recipe
from gendr.rendering.geometry import ImageSize

P = TypeVar("P")


@dataclass(frozen=True, eq=False)  # told apart as objects: what is kept for one is found quickly
class TileLaunch:
    """How the work is cut into programs.

    Attributes:
        tile: pixels of a program of the forward pass, high and wide.
        block_faces: faces that such a program takes at once.
        block_pixels: pixels that a program of the backward pass takes at once.
        programs: fewer faces than this are each shared by several programs of the backward pass.
        warps: of 32 threads, per program of the kernels that have neither tiles nor pixels.
        walked: no lists are made for so many faces, of all images together, or fewer.
        fits: whether `fitted` may choose the small sizes.
        tile_warps: warps of a program of the forward pass; four pixels for every thread.
        block_warps: warps of a program of the backward pass; a pixel for every thread.
        small_tile: in place of `tile`, where there are too few of these to keep a GPU busy.
        small_tile_warps: of its programs.
        small_block: in place of `block_pixels`, where faces are many and their boxes small.
        small_block_warps: of its programs.
    """

    tile: tuple[int, int] = (16, 16)
    block_faces: int = 1
    block_pixels: int = 128
    programs: int = 4096
    warps: int = 4
    walked: int = 64
    fits: bool = False
    tile_warps: int = 2
    block_warps: int = 4
    small_tile: tuple[int, int] = (4, 8)
    small_tile_warps: int = 1
    small_block: int = 32
    small_block_warps: int = 1

    def with_small(self, *, tiles: bool, blocks: bool) -> TileLaunch:
        """The launch with small tiles, small blocks, or both, of which nothing is chosen any more.

        Args:
            tiles: whether tiles are small.
            blocks: whether blocks of pixels are.
        """
        return replace(
            self,
            tile=self.small_tile if tiles else self.tile,
            tile_warps=self.small_tile_warps if tiles else self.tile_warps,
            block_pixels=self.small_block if blocks else self.block_pixels,
            block_warps=self.small_block_warps if blocks else self.block_warps,
            fits=False,
        )

    def fitted(self, images: int, faces: int, size: ImageSize) -> TileLaunch:
        """Choose the sizes for a batch by what the host knows of it.

        Small tiles where there are too few large ones to keep a GPU busy; and where faces are many,
        and their boxes therefore small, programs of a single warp: larger ones would idle.
        """
        if not self.fits:
            return self
        pixels = images * size.pixels
        many = faces * PIXELS_OF_SMALL_FACES >= pixels
        return self.with_small(tiles=pixels < _PIXELS_OF_LARGE_TILES, blocks=many)


_PIXELS_OF_LARGE_TILES = 2048 * 16 * 16  # below, they are not 16 for each of 132 multiprocessors
PIXELS_OF_SMALL_FACES = 64  # of an image, for each of its faces

# The interpreter pays per operation, not per element.
LAUNCH = TileLaunch((32, 32), 16, 1024, 1) if interpreted() else TileLaunch(fits=True)


# ---------------------------------------------------------------------------------------------
# Plans
# ---------------------------------------------------------------------------------------------


class TileSpec(NamedTuple):
    """All that an image depends on but tensors.

    Attributes:
        recipe: the renderer.
        cutoff: coverage at or below it counts as 0.
        offsets: image b owns the faces offsets[b] .. offsets[b + 1] - 1.
        size: of the image.
        number: the scale, if it is one number and the recipe has no other column.
        backdrop: depth of the background.
    """

    recipe: Recipe
    cutoff: float
    offsets: tuple[int, ...]
    size: ImageSize
    number: float | None = None
    backdrop: float = 0.0

    def serialized(self) -> tuple[str, list[int]]:
        """All but the number, as operators of PyTorch take it."""
        text = text_of((tuple(self.recipe), self.cutoff, self.backdrop))
        return text, [self.size.height, self.size.width, *self.offsets]

    @staticmethod
    def read(text: str, numbers: list[int]) -> TileSpec:
        """The spec of what `serialized` has given."""
        recipe, cutoff, backdrop = literal_eval(text)
        height, width, *offsets = numbers
        size = ImageSize(height, width)
        return TileSpec(Recipe(*recipe), cutoff, tuple(offsets), size, None, backdrop)


@lru_cache(maxsize=128)
@lasting()
def plan_of(kind: type[P], *key: Hashable) -> P:
    """What the host knows of a kind of batches before it looks at tensors: kept from step to step.

    The one cache of launches, tables and capacities of this backend: the 128 plans used last, by
    the arguments of their classes. A CUDA graph keeps what it reads of them.
    """
    return kind(*key)


def image_of_face(offsets: tuple[int, ...], device: torch.device) -> Tensor:
    """The image of each face, [T] int32."""
    counts = [b - a for a, b in pairwise(offsets)]
    images = torch.arange(len(counts), dtype=torch.int32, device="cpu")
    return images.repeat_interleave(torch.tensor(counts, dtype=torch.int64, device="cpu")).to(
        device
    )


class TilePlan:
    """The launches of all that walks the tiles of a batch.

    Args:
        offsets: of the faces of images.
        size: of the image.
        sides: corners of a face.
        device: where all tensors are.
        settings: of launches.
    """

    def __init__(
        self, offsets: tuple[int, ...], size: ImageSize, sides: int, device: torch.device,
        settings: TileLaunch,
    ) -> None:  # fmt: skip
        from gendr.rendering.backends.triton import kernels

        self.offsets, self.size, self.sides, self.device = offsets, size, sides, device
        self.images, self.faces = len(offsets) - 1, offsets[-1]
        self.pixels = self.images * size.pixels
        self.launch = settings.fitted(self.images, self.faces, size)
        self.tiling = Tiling.of(size, self.launch.tile)
        self.tile = {"TILE_H": self.tiling.height, "TILE_W": self.tiling.width}
        self.image_of_face = image_of_face(offsets, device)
        exact = options(settings.warps, exact=True)
        self._tables = Launcher(kernels.face_tables, device, N=sides, BLOCK=128, **exact)

    def tables(self, corners: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        """Edges [T, FACE_COLUMNS] in the dtype of the corners, and boxes [T, 4] int32, of faces.

        Args:
            corners: [T, N, 2], contiguous.
            images: the image table.
        """
        edges = corners.new_empty(self.faces, face_columns())
        boxes = self.image_of_face.new_empty(self.faces, 4)
        self._tables(
            (blocks_of(self.faces, 128),), corners, self.image_of_face, images, edges, boxes,
            self.faces, self.size.height, self.size.width,
        )  # fmt: skip
        return edges, boxes

    def lists(self, boxes: Tensor) -> Lists:
        """The faces of every tile; see `lists_of`."""
        return lists_of(boxes, self.offsets, self.tiling)


def image_columns() -> int:
    """Columns of the image table, as a plain number."""
    from gendr.rendering.backends.triton import shared_kernels as shared

    return shared.IMAGE_COLUMNS.value


def face_columns() -> int:
    """Columns of the table of edges, as a plain number."""
    from gendr.rendering.backends.triton import shared_kernels as shared

    return shared.FACE_COLUMNS.value


def bare_images(count: int, radius: Tensor) -> Tensor:
    """An image table that says nothing but the radius."""
    from gendr.rendering.backends.triton import shared_kernels as shared

    table = torch.zeros(count, image_columns(), dtype=torch.float32, device=radius.device)
    table[:, shared.RADIUS.value] = radius.detach().to(torch.float32)
    return table


# ---------------------------------------------------------------------------------------------
# Lists of faces per tile
# ---------------------------------------------------------------------------------------------

COUNTS = 1 << 20  # counts of (chunk of faces, tile) that are aimed at; as many int32
CHUNKS = 256  # of the faces of an image, at most
LEAST_CHUNK = 128  # faces
SEGMENT = 256  # faces of a tile that a program takes, if there are extra programs for the others
_BLOCK, _LOOK = 32, 256  # faces that are compared at once with tiles, and with a group of tiles


@dataclass(frozen=True)
class Tiling:
    """How an image is cut into tiles."""

    height: int  # of a tile, in pixels
    width: int
    rows: int  # of tiles
    columns: int

    @classmethod
    def of(cls, size: ImageSize, tile: tuple[int, int]) -> Tiling:
        """Cut an image into tiles of some height and width."""
        return cls(*tile, blocks_of(size.height, tile[0]), blocks_of(size.width, tile[1]))

    @property
    def tiles(self) -> int:
        """How many tiles an image has."""
        return self.rows * self.columns


class Lists(NamedTuple):
    """The faces of every tile of a batch, in order.

    Those of tile i are faces[starts[i] : stops[i]]. Where starts[i] is negative the tile has no
    list, and all faces of its image are walked: -1 - starts[i] .. stops[i] - 1.

    A long list is cut into segments of SEGMENT faces. Its first is for program i, the others for
    extra programs, numbered from segments[i] on; if that is -1, program i takes them all.
    """

    starts: Tensor  # [B tiles] int32
    stops: Tensor  # [B tiles] int32
    faces: Tensor  # [entries] int32
    segments: Tensor  # [B tiles] int32
    tile_of_segment: Tensor  # [extra] int32, -1 for programs without work


def lists_of(boxes: Tensor, offsets: tuple[int, ...], tiling: Tiling) -> Lists:
    """List the faces of every tile, of which only the boxes [T, 4] are given.

    The lists get the capacity that earlier steps of the same kind have needed (device, faces of
    each image, sizes of images and tiles), and a little more: the host waits in the first step
    only. A tile whose list does not fit walks. Few faces are always walked.
    """
    lister = plan_of(Lister, offsets, tiling, boxes.device)
    return lister.walks if offsets[-1] <= LAUNCH.walked else lister(boxes)


SLACK = 1.25  # capacity, in what was needed last
LEAST = 1 << 12  # entries
MOST = 1 << 27  # entries: half a gigabyte
SEGMENTS = 1 << 13  # extra programs for tiles with many faces


class Capacity:
    """The memory that lists of one kind get, so that the host waits for no number.

    A step makes lists as large as the steps before have needed. What it needs itself is sent to the
    host and read by a later step, when it has arrived.

    Args:
        device: where they are.
        most: entries that could ever be needed.

    Attributes:
        entries: for faces, None before the first step.
        segments: extra programs for lists that are longer than a segment.
    """

    def __init__(self, device: torch.device, most: int) -> None:
        self.most = min(most, MOST)
        self.entries: int | None = None
        self.segments = 0
        self.readback = Readback(device, 2)

    def fit(self, entries: int, segments: int) -> None:
        """Grow before it is full; shrink if little of it is used."""
        now = self.entries
        if now is None or _is_off(entries, now):
            self.entries = min(max(LEAST, int(SLACK * entries)), self.most)
        if _is_off(segments, self.segments):
            self.segments = min(int(SLACK * segments), SEGMENTS)

    def of_step(self, totals: Tensor) -> tuple[int, int]:
        """Entries and extra programs of this step, given the faces [B, tiles] of tiles.

        In the first step of a kind the host waits for them, unless a CUDA graph is being captured.
        """
        if capturing(totals.device):
            return self.entries or min(self.most, LEAST + 4 * len(totals)), self.segments
        found = self.readback.read()
        if self.entries is None:
            more = ((totals - 1) // SEGMENT).clamp(min=0)
            sums = torch.stack([totals.sum(dtype=torch.int64), more.sum(dtype=torch.int64)])
            found = [min(max(n, 0), self.most) for n in sums.tolist()]
        if found is not None:
            self.fit(*found)
        return cast("int", self.entries), self.segments


def _is_off(needed: int, capacity: int) -> bool:
    return needed > 0.9 * capacity or needed < capacity / 8


class Lister:
    """Lists of one kind; it is a plan.

    Attributes:
        capacity: what the lists get.
        walks: lists that say that no tile has one: programs walk all faces of the image.
    """

    def __init__(self, offsets: tuple[int, ...], tiling: Tiling, device: torch.device) -> None:
        from gendr.rendering.backends.triton import list_kernels

        images, side = len(offsets) - 1, list_kernels.GROUP.value
        self.capacity = Capacity(device, offsets[-1] * tiling.tiles)
        ends = torch.tensor(offsets, dtype=torch.int32, device="cpu")
        starts, stops = (
            x.repeat_interleave(tiling.tiles).to(device) for x in (-1 - ends[:-1], ends[1:])
        )
        # What is not a list has an entry 0, which kernels load.
        self.walks = Lists(starts, stops, starts, torch.full_like(starts, -1), starts[:0])
        self._tiling, self._device, self._every = tiling, device, images * tiling.tiles
        self._offsets = ends.to(device)
        chunks, self._first_chunks = chunks_of(offsets, chunk_size(offsets, tiling), device)
        self._chunks, self._counts = chunks, len(chunks) * tiling.tiles
        self._groups = len(chunks), blocks_of(tiling.rows, side) * blocks_of(tiling.columns, side)
        self._prefixes = blocks_of(tiling.tiles, 32), images
        tile = {"TILE_H": tiling.height, "TILE_W": tiling.width, "LOOK": _LOOK, "BLOCK": _BLOCK}
        self._count_faces = _launcher("count_faces", device, **tile)
        self._prefix_chunks = _launcher(
            "prefix_chunks", device, BLOCK_CHUNKS=32, BLOCK_TILES=32, warps=4
        )
        self._scan_tiles = _launcher("scan_tiles", device, SEGMENT=SEGMENT, BLOCK=2048, warps=8)
        self._fill_lists = _launcher("fill_lists", device, SEGMENT=SEGMENT, **tile)

    def __call__(self, boxes: Tensor) -> Lists:
        """List the faces with these boxes [T, 4]."""
        tiling, every, chunks = self._tiling, self._every, self._chunks
        rows, columns, empty = tiling.rows, tiling.columns, chunks.new_empty
        counts, totals, starts = empty(self._counts), empty(every), empty(every)
        stops, segments, needed = empty(every), empty(every), empty(2, dtype=torch.int64)
        self._count_faces(self._groups, boxes, chunks, counts, rows, columns)
        self._prefix_chunks(self._prefixes, counts, self._first_chunks, totals, tiling.tiles)
        entries, extra = self.capacity.of_step(totals)
        tile_of_segment, faces = empty(extra), empty(entries)
        self._scan_tiles(
            (1,), totals, self._offsets, starts, stops, segments, tile_of_segment, needed,
            tiling.tiles, every, entries, extra,
        )  # fmt: skip
        self._fill_lists(
            self._groups, boxes, chunks, counts, starts, stops, segments, tile_of_segment, faces,
            rows, columns,
        )  # fmt: skip
        if not capturing(self._device):
            self.capacity.readback.send(needed)
        return Lists(starts, stops, faces, segments, tile_of_segment)


def chunk_size(offsets: tuple[int, ...], tiling: Tiling) -> int:
    """How many faces a chunk has: few enough to fill the GPU, but so many that counts are few."""
    faces, images = offsets[-1], len(offsets) - 1
    most = max((b - a for a, b in pairwise(offsets)), default=0)
    # However many tiles there are, a few chunks share the faces of an image.
    counts = max(COUNTS, 8 * images * tiling.tiles)
    wanted = max(LEAST_CHUNK, blocks_of(most, CHUNKS), blocks_of(faces * tiling.tiles, counts))
    return _BLOCK * blocks_of(wanted, _BLOCK)


def chunks_of(offsets: tuple[int, ...], size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cut faces into chunks [C, 4] int32, see `count_faces`; the first of every image, [B + 1]."""
    chunks, firsts = [], [0]
    for image, (first, last) in enumerate(pairwise(offsets)):
        chunks += [(image, k, min(k + size, last), k == first) for k in range(first, last, size)]
        firsts.append(len(chunks))
    table = torch.tensor(chunks, dtype=torch.int32, device="cpu").reshape(-1, 4)
    return table.to(device), torch.tensor(firsts, dtype=torch.int32, device="cpu").to(device)


def _launcher(kernel: str, device: torch.device, warps: int = 1, **sizes: int) -> Launcher:
    """A kernel of `list_kernels`, of one warp as a rule: its blocks are small."""
    from gendr.rendering.backends.triton import list_kernels

    return Launcher(getattr(list_kernels, kernel), device, **sizes, **_listing(warps))


def _listing(warps: int) -> dict[str, Any]:
    # There is nothing to fuse: whether that is allowed is said because Triton asks for it.
    return {} if interpreted() else {"num_warps": warps, "enable_fp_fusion": True}


def options(warps: int | None = None, *, exact: bool = False) -> dict[str, Any]:
    """The options with which kernels are compiled.

    Args:
        warps: per program; as many as `LAUNCH` says if None.
        exact: fuse no product into a sum. The backward pass of the maximum asks bit by bit which
            faces reached it, so that forward and backward kernel must round alike.
    """
    if interpreted():
        return {}
    return {"num_warps": warps or LAUNCH.warps, "enable_fp_fusion": not exact}


# ---------------------------------------------------------------------------------------------
# Gradients
# ---------------------------------------------------------------------------------------------


PIECE = 2048  # pixels of a face's box that a program takes, or 4, 16, 64 times as many
PIECES = 1 << 12  # extra programs for boxes of more pixels
_WHOLE = 4 * PIECE  # pixels of an image in which no box is cut


class Pieces:
    """How the boxes of large faces are cut, so that several programs take one; see `piece_of`.

    Args:
        boxes: [T, 4] int32, of the faces.
        pixels: of an image.

    Attributes:
        extra: programs for pieces after the first of a face.
        table: of `list_pieces`; anything if extra is 0.
    """

    def __init__(self, boxes: Tensor, pixels: int) -> None:
        from gendr.rendering.backends.triton import list_kernels as kernels

        self.boxes, self.faces, self.table = boxes, len(boxes), boxes
        self.extra = 0
        if pixels > _WHOLE:
            self.extra = min(PIECES, self.faces * (blocks_of(pixels, PIECE) - 1))
        if self.extra:
            blocks = blocks_of(self.faces, 1024)
            sums = boxes.new_empty(4 * blocks)
            self.table = boxes.new_empty(2 + self.faces + self.extra)
            run(
                kernels.count_pieces, (blocks,), boxes.device, boxes, sums, self.faces,
                PIECE=PIECE, BLOCK=1024, **_listing(4),
            )  # fmt: skip
            run(
                kernels.list_pieces, (blocks,), boxes.device, boxes, sums, self.table, self.faces,
                blocks, self.extra, PIECE=PIECE, BLOCK=1024, BLOCK_SUMS=128, **_listing(4),
            )  # fmt: skip

    def join(self, rows: Tensor) -> Tensor:
        """Add up those rows [T + extra, ...] that belong to one face, in place; [T, ...]."""
        from gendr.rendering.backends.triton import list_kernels as kernels

        columns = rows[0].numel() if len(rows) else 0
        if self.extra and columns:
            run(
                kernels.join_pieces, (self.extra,), rows.device, self.boxes, self.table, rows,
                self.faces, COLUMNS=columns, WIDE=power_of_2(columns), BLOCK=64, **_listing(1),
            )  # fmt: skip
        return rows[: self.faces]


class GradientSums:
    """Where the programs of a backward pass put what they add up for a face.

    Args:
        plan: of the batch.
        boxes: of the faces.
        columns: of the gradients of a face.
        with_scalars: whether there are gradients of scalars of images.

    Attributes:
        shares: how many programs share a face, or a piece of one.
        pieces: of large faces, which have programs of their own.
        rows: of faces and of scalars, [shares, T + extra, ...] each.
    """

    def __init__(self, plan: TilePlan, boxes: Tensor, columns: int, with_scalars: bool) -> None:
        from gendr.rendering.backends.triton import shared_kernels as shared

        pixels = plan.size.pixels
        self.pieces = Pieces(boxes, pixels)
        wanted = blocks_of(plan.launch.programs, max(plan.faces, 1))
        most = 1 if self.pieces.extra else blocks_of(pixels, plan.launch.block_pixels)
        self.shares = min(wanted, most)
        kinds = columns, shared.GRAD_COLUMNS.value if with_scalars else 0
        like = torch.empty(0, dtype=torch.float32, device=boxes.device)
        every = plan.faces + self.pieces.extra  # programs, each of which writes all of its row
        self.rows = [like.new_empty(self.shares, every, n) for n in kinds]

    @property
    def programs(self) -> tuple[int, int]:
        """The grid of the kernel: programs for faces and their extra pieces, times shares."""
        return self.pieces.faces + self.pieces.extra, self.shares

    def totals(self) -> tuple[Tensor, Tensor]:
        """The gradients [T, ...] of faces and of scalars, after the kernel has run."""
        faces, scalars = (x[0] if self.shares == 1 else x.sum(0) for x in self.rows)
        return self.pieces.join(faces), self.pieces.join(scalars)


def per_image(counts: Tensor, plan: TilePlan) -> Tensor:
    """Sums [B] int64 of numbers of faces [T]."""
    out = torch.zeros(plan.images, dtype=torch.int64, device=counts.device)
    return out.index_add_(0, plan.image_of_face, counts.to(torch.int64))


def sum_per_image(values: Tensor, offsets: tuple[int, ...]) -> Tensor:
    """Sum rows [T, C] over the faces of each image, in a fixed order: [B, C]."""
    counts = [b - a for a, b in pairwise(offsets)]
    if len(set(counts)) <= 1:
        faces = counts[0] if counts else 0
        return values.reshape(len(counts), faces, values.shape[1]).sum(1)
    parts = values.split(counts)
    return torch.stack([part.sum(0) for part in parts])
