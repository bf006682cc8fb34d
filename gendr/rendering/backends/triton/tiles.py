"""What the Triton operators share: launch settings, tables of faces and images, lists per tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gendr._runtime.later import capturing
from gendr._runtime.tracing import lasting
from gendr._runtime.triton.launch import Launcher, blocks_of, interpreted
from gendr.rendering.backends.triton.capacity import LEAST, Room
from gendr.rendering.backends.triton.recipes import Recipe
from gendr.rendering.geometry import ImageSize


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
    small_tile: tuple[int, int] = (8, 8)
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
        many = faces * _PIXELS_OF_SMALL_FACES >= pixels
        return self.with_small(tiles=pixels < _PIXELS_OF_LARGE_TILES, blocks=many)


_PIXELS_OF_LARGE_TILES = 2048 * 16 * 16  # below, they are not 16 for each of 132 multiprocessors
_PIXELS_OF_SMALL_FACES = 64  # of an image, for each of its faces

# The interpreter pays per operation, not per element.
LAUNCH = TileLaunch((32, 32), 16, 1024, 1) if interpreted() else TileLaunch(fits=True)


# ---------------------------------------------------------------------------------------------
# Deterministic or atomic
# ---------------------------------------------------------------------------------------------

_atomic = False


def set_atomic(atomic: bool) -> None:
    """Whether gradients of few, large faces may be added up by atomics, in any order.

    Off by default: a face's gradient is then summed in a fixed order, and the same input gives the
    same bits. A face is usually one program's work, so that nothing is left to add; only in images
    of a few thousand pixels with fewer than `LAUNCH.programs` faces are several programs put to one
    face, and then atomics save one small sum over them. Pieces of faces in larger images are joined
    without atomics, and the forward pass has none.
    `torch.use_deterministic_algorithms(True)` overrules it.
    """
    global _atomic
    _atomic = bool(atomic)


def atomic_now() -> bool:
    """Whether atomics may be used now."""
    return _atomic and not torch.are_deterministic_algorithms_enabled()


# ---------------------------------------------------------------------------------------------
# What the kernels are given
# ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
@lasting()
def image_of_face(offsets: tuple[int, ...], device: torch.device) -> Tensor:
    """The image of each face, [T] int32."""
    counts = [b - a for a, b in pairwise(offsets)]
    images = torch.arange(len(counts), dtype=torch.int32)
    return images.repeat_interleave(torch.tensor(counts, dtype=torch.int64)).to(device)


@dataclass(frozen=True)
class TileTables:
    """The tensors that describe faces and images to the kernels."""

    corners: Tensor  # [T, N, 2] float32
    offsets: tuple[int, ...]
    image_of_face: Tensor  # [T] int32
    images: Tensor  # [B, IMAGE_COLUMNS] float32
    edges: Tensor  # [T, FACE_COLUMNS] float32
    boxes: Tensor  # [T, 4] int32
    size: ImageSize

    @classmethod
    def of(
        cls, corners: Tensor, offsets: tuple[int, ...], images: Tensor, size: ImageSize
    ) -> TileTables:
        """Make the tables of faces, whose corners become float32."""
        corners = corners.detach().to(torch.float32).contiguous()
        count = corners.shape[0]
        index = image_of_face(offsets, corners.device)
        edges = corners.new_empty(count, face_columns())
        boxes = index.new_empty(count, 4)
        face_tables(corners.shape[1], corners.device, LAUNCH)(
            (blocks_of(count, 128),),
            corners, index, images, edges, boxes, count, size.height, size.width,
        )  # fmt: skip
        return cls(corners, offsets, index, images, edges, boxes, size)


@lru_cache(maxsize=16)
def face_tables(sides: int, device: torch.device, settings: TileLaunch) -> Launcher:
    """The kernel that writes edges and boxes of polygons with so many corners."""
    from gendr.rendering.backends.triton import kernels

    compiled = options(settings.warps, exact=True)
    return Launcher(kernels.face_tables, device, N=sides, BLOCK=128, **compiled)


@cache
def image_columns() -> int:
    """Columns of the image table, as a plain number."""
    from gendr.rendering.backends.triton import shared_kernels as shared

    return shared.IMAGE_COLUMNS.value


@cache
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


def tile_lists(tables: TileTables, tiling: Tiling) -> Lists:
    """List the faces of every tile.

    The lists get the room that earlier steps of the same kind have needed (device, faces of each
    image, sizes of images and tiles), and a little more: the host waits in the first step only. A
    tile whose list finds no room walks. Few faces are always walked.
    """
    return lists_of(tables.boxes, tables.offsets, tiling)


def lists_of(boxes: Tensor, offsets: tuple[int, ...], tiling: Tiling) -> Lists:
    """List the faces of every tile, of which only the boxes [T, 4] are given."""
    if offsets[-1] <= LAUNCH.walked:
        return Lists(*_walks(offsets, tiling.tiles, boxes.device))
    return lister_of(offsets, tiling, boxes.device)(boxes)


class Lister:
    """What is kept from step to step for lists of one kind.

    Attributes:
        room: what the lists get.
    """

    def __init__(self, offsets: tuple[int, ...], tiling: Tiling, device: torch.device) -> None:
        from gendr.rendering.backends.triton import list_kernels

        images, side = len(offsets) - 1, list_kernels.GROUP.value
        self.room = Room(device, offsets[-1] * tiling.tiles)
        self._tiling, self._device, self._every = tiling, device, images * tiling.tiles
        self._offsets = torch.tensor(offsets, dtype=torch.int32).to(device)
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
        entries, extra = room_now(self.room, totals)
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
            self.room.later.send(needed)
        return Lists(starts, stops, faces, segments, tile_of_segment)


@lru_cache(maxsize=64)
@lasting()
def lister_of(offsets: tuple[int, ...], tiling: Tiling, device: torch.device) -> Lister:
    """Return what makes lists of one kind, which is kept."""
    return Lister(offsets, tiling, device)


def room_now(room: Room, totals: Tensor) -> tuple[int, int]:
    """The room of this step's lists and its extra programs, given the faces [B, tiles] of tiles.

    In the first step of a kind the host waits for them, unless a CUDA graph is being captured.
    """
    if capturing(totals.device):
        return room.entries or min(room.most, LEAST + 4 * len(totals)), room.segments
    if room.entries is None:
        more = ((totals - 1) // SEGMENT).clamp(min=0)
        found = torch.stack([totals.sum(dtype=torch.int64), more.sum(dtype=torch.int64)]).tolist()
        room.fit(*(min(max(n, 0), room.most) for n in found))
    else:
        room.look()
    assert room.entries is not None
    return room.entries, room.segments


@lru_cache(maxsize=64)
def chunk_size(offsets: tuple[int, ...], tiling: Tiling) -> int:
    """How many faces a chunk has: few enough to fill the GPU, but so many that counts are few."""
    faces, images = offsets[-1], len(offsets) - 1
    most = max(b - a for a, b in pairwise(offsets))
    # However many tiles there are, a few chunks share the faces of an image.
    counts = max(COUNTS, 8 * images * tiling.tiles)
    wanted = max(LEAST_CHUNK, blocks_of(most, CHUNKS), blocks_of(faces * tiling.tiles, counts))
    return _BLOCK * blocks_of(wanted, _BLOCK)


@lru_cache(maxsize=64)
@lasting()
def chunks_of(offsets: tuple[int, ...], size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cut faces into chunks [C, 4] int32, see `count_faces`; the first of every image, [B + 1]."""
    chunks, firsts = [], [0]
    for image, (first, last) in enumerate(pairwise(offsets)):
        chunks += [(image, k, min(k + size, last), k == first) for k in range(first, last, size)]
        firsts.append(len(chunks))
    table = torch.tensor(chunks, dtype=torch.int32).reshape(-1, 4)
    return table.to(device), torch.tensor(firsts, dtype=torch.int32).to(device)


@lru_cache(maxsize=64)
@lasting()
def _walks(
    offsets: tuple[int, ...], tiles: int, device: torch.device
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """`Lists` that say that no tile has a list: programs walk all faces of the image."""
    ends = torch.tensor(offsets, dtype=torch.int32)
    starts, stops = (x.repeat_interleave(tiles).to(device) for x in (-1 - ends[:-1], ends[1:]))
    # What is not a list has an entry 0, which kernels load.
    return starts, stops, starts, torch.full_like(starts, -1), starts[:0]


def _run(
    kernel: str,
    grid: tuple[int, ...],
    device: torch.device,
    *args: Any,
    warps: int = 1,
    **sizes: int,
) -> None:
    """Launch a kernel of `list_kernels` with the warps of its programs and its constants."""
    _kept_launcher(kernel, device, warps, tuple(sizes.items()))(grid, *args)


def _launcher(kernel: str, device: torch.device, warps: int = 1, **sizes: int) -> Launcher:
    """A kernel of `list_kernels`, of one warp as a rule: its blocks are small."""
    from gendr.rendering.backends.triton import list_kernels

    # There is nothing to fuse: whether that is allowed is said because Triton asks for it.
    how = {} if interpreted() else {"num_warps": warps, "enable_fp_fusion": True}
    return Launcher(getattr(list_kernels, kernel), device, **sizes, **how)


@lru_cache(maxsize=64)
def _kept_launcher(
    kernel: str, device: torch.device, warps: int, sizes: tuple[tuple[str, int], ...]
) -> Launcher:
    return _launcher(kernel, device, warps, **dict(sizes))


# ---------------------------------------------------------------------------------------------
# Lists whose sizes the host knows, for fragments
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """Some tiles of a batch: those of a few images, or a band of the rows of tiles of one image.

    Attributes:
        images: the first and the last + 1.
        rows: of tiles, the first and the last + 1.
        total: entries that it has, None if the host has yet to ask: for a band.
    """

    images: tuple[int, int]
    rows: tuple[int, int]
    total: int | None


def per_image(counts: Tensor, offsets: tuple[int, ...]) -> Tensor:
    """Sums [B] int64 of numbers of faces [T]."""
    image = image_of_face(offsets, counts.device)
    out = torch.zeros(len(offsets) - 1, dtype=torch.int64, device=counts.device)
    return out.index_add_(0, image, counts.to(torch.int64))


def parts(totals: list[int], rows: int, limit: int) -> Iterator[Part]:
    """Cut a batch so that parts have about `limit` entries or fewer, given those of each image."""
    first, images = 0, len(totals)
    while first < images:
        last, total = first + 1, totals[first]
        while last < images and total + totals[last] <= limit:
            total, last = total + totals[last], last + 1
        bands = min(rows, max(1, blocks_of(total, limit)))
        for band in range(bands):
            edges = rows * band // bands, rows * (band + 1) // bands
            yield Part((first, last), edges, total if bands == 1 else None)
        first = last


def tile_counts(tables: TileTables, tiling: Tiling, rows: tuple[int, int]) -> Tensor:
    """How many tiles of some rows of tiles every face touches, [T] int32."""
    count = len(tables.boxes)
    counts = torch.empty(count, dtype=torch.int32, device=tables.boxes.device)
    _run(
        "count_tiles", (blocks_of(count, 128),), counts.device, tables.boxes, counts, count, *rows,
        TILE_H=tiling.height, TILE_W=tiling.width, BLOCK=128, warps=4,
    )  # fmt: skip
    return counts


def listed(
    tables: TileTables, tiling: Tiling, part: Part, counts: Tensor
) -> tuple[int, Tensor, Tensor]:
    """The first tile of a part, how many faces each of its tiles has, and these, tile by tile.

    The host waits for the entries of a band only; those of whole images it knows.

    Args:
        tables: of the faces.
        tiling: of the images.
        part: of the batch.
        counts: `tile_counts` of all rows.
    """
    first_face, last_face = (tables.offsets[b] for b in part.images)
    if part.total is None:
        counts = tile_counts(tables, tiling, part.rows)
    ends = counts[first_face:last_face].cumsum(0)  # int64
    total = part.total
    if total is None:
        total = int(ends[-1]) if len(ends) else 0
    device = tables.boxes.device
    tile, face = (torch.empty(total, dtype=torch.int32, device=device) for _ in range(2))
    _run(
        "list_tiles", (last_face - first_face,), device,
        tables.boxes, tables.image_of_face, ends, tile, face, first_face,
        tiling.rows, tiling.columns, *part.rows,
        TILE_H=tiling.height, TILE_W=tiling.width, BLOCK=32,
    )  # fmt: skip
    tile, order = torch.sort(tile, stable=True)
    first_tile = part.images[0] * tiling.tiles + part.rows[0] * tiling.columns
    last_tile = (part.images[1] - 1) * tiling.tiles + part.rows[1] * tiling.columns
    numbers = torch.arange(first_tile, last_tile + 1, dtype=torch.int32, device=device)
    return first_tile, torch.searchsorted(tile, numbers).diff(), face[order]


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


def extra_pieces(faces: int, pixels: int) -> int:
    """Extra programs for boxes of many pixels, in images of so many."""
    return min(PIECES, faces * (blocks_of(pixels, PIECE) - 1)) if pixels > _WHOLE else 0


@dataclass(frozen=True)
class Pieces:
    """How the boxes of large faces are cut, so that several programs take one; see `piece_of`.

    Attributes:
        extra: programs for pieces after the first of a face.
        tables: first_pieces, face_of_piece and numbers of `list_pieces`; anything if extra is 0.
    """

    boxes: Tensor  # [T, 4] int32
    extra: int
    tables: tuple[Tensor, Tensor, Tensor]

    @classmethod
    def of(cls, boxes: Tensor, pixels: int) -> Pieces:
        """Cut the boxes of faces, in images of so many pixels."""
        faces = len(boxes)
        extra = extra_pieces(faces, pixels)
        if not extra:
            return cls(boxes, 0, (boxes, boxes, boxes))
        blocks = blocks_of(faces, 1024)
        sums, *tables = (
            torch.empty(n, dtype=torch.int32, device=boxes.device)
            for n in (4 * blocks, faces, extra, 2)
        )
        _run(
            "count_pieces", (blocks,), boxes.device,
            boxes, sums, faces, PIECE=PIECE, BLOCK=1024, warps=4,
        )  # fmt: skip
        _run(
            "list_pieces", (blocks,), boxes.device, boxes, sums, *tables, faces, blocks, extra,
            PIECE=PIECE, BLOCK=1024, BLOCK_SUMS=128, warps=4,
        )  # fmt: skip
        return cls(boxes, extra, (tables[0], tables[1], tables[2]))

    @property
    def arguments(self) -> tuple[Tensor | int, ...]:
        """The last arguments of a kernel that calls `piece_of`."""
        return *self.tables, len(self.boxes), self.extra

    def join(self, rows: Tensor) -> Tensor:
        """Add up those rows [T + extra, ...] that belong to one face, in place; [T, ...]."""
        faces = len(self.boxes)
        columns = rows[0].numel() if len(rows) else 0
        if self.extra and columns:
            _run(
                "join_pieces", (self.extra,), rows.device, self.boxes, *self.tables, rows, faces,
                COLUMNS=columns, WIDE=1 << (columns - 1).bit_length(), BLOCK=64,
            )  # fmt: skip
        return rows[:faces]


@dataclass(frozen=True)
class GradientSums:
    """Where the programs of a backward pass put what they add up for a face.

    Attributes:
        shares: how many programs share a face, or a piece of one.
        atomic: whether they add to the same row.
        pieces: of large faces, which have programs of their own.
        rows: [shares, T + extra, ...] each, or [T, ...] if atomic; the last are scalars of images.
    """

    shares: int
    atomic: bool
    pieces: Pieces
    rows: tuple[Tensor, ...]

    @classmethod
    def of(
        cls,
        boxes: Tensor,
        size: list[int],
        with_scalars: bool,
        *shapes: tuple[int, ...],
        like: Tensor,
        launch: TileLaunch,
    ) -> GradientSums:
        """Make room for gradients of faces in these shapes, and of the scalars if wanted.

        Args:
            boxes: of the faces.
            size: height and width of the image.
            with_scalars: whether there are scalars; else their last dimension is 0.
            *shapes: of the gradients of a face.
            like: of their dtype and device.
            launch: of the backward pass.
        """
        from gendr.rendering.backends.triton import shared_kernels as shared

        scalars = (shared.GRAD_COLUMNS.value if with_scalars else 0,)
        faces, pixels = len(boxes), size[0] * size[1]
        pieces = Pieces.of(boxes, pixels)
        shares = 1 if pieces.extra else shares_of(faces, pixels, launch)
        atomic = atomic_now() and shares > 1
        if atomic:
            rows = (like.new_zeros(faces, *shape) for shape in (*shapes, scalars))
        else:  # every program writes all of its row
            every = faces + pieces.extra
            rows = (like.new_empty(shares, every, *shape) for shape in (*shapes, scalars))
        return cls(shares, atomic, pieces, tuple(rows))

    @property
    def programs(self) -> tuple[int, int]:
        """The grid of the kernel: programs for faces and their extra pieces, times shares."""
        return len(self.pieces.boxes) + self.pieces.extra, self.shares

    def totals(self) -> tuple[Tensor, ...]:
        """The gradients [T, ...] of faces, after the kernel has run."""
        if self.atomic:
            return self.rows
        rows = (x[0] if self.shares == 1 else x.sum(0) for x in self.rows)
        return tuple(self.pieces.join(x) for x in rows)


def shares_of(faces: int, pixels: int, launch: TileLaunch) -> int:
    """How many programs of the backward pass share a face."""
    return min(blocks_of(launch.programs, max(faces, 1)), blocks_of(pixels, launch.block_pixels))


def sum_per_image(values: Tensor, offsets: list[int]) -> Tensor:
    """Sum rows [T, C] over the faces of each image, in a fixed order: [B, C]."""
    counts = [b - a for a, b in pairwise(offsets)]
    if len(set(counts)) <= 1:
        faces = counts[0] if counts else 0
        return values.reshape(len(counts), faces, values.shape[1]).sum(1)
    parts = values.split(counts)
    return torch.stack([part.sum(0) for part in parts])


def empty_table_gradient(like: Tensor, text: str, offsets: list[int], with_table: bool) -> Tensor:
    """A tensor in the shape of the gradient of a renderer's table; without columns if unwanted."""
    columns = len(Recipe.of(text).columns) if with_table else 0
    return like.new_empty(len(offsets) - 1, columns)


# Of the operators: CUDA graphs of `torch.compile` leave them out. They keep tables and the room for
# lists from call to call, and its graphs take the memory of a call back. A graph that the user
# captures after a few calls holds them; see `docs/rendering.md`.
TAGS = tuple(x for x in (getattr(torch.Tag, "cudagraph_unsafe", None),) if x is not None)


def no_second_derivative(ctx: Any, *grads: Any) -> Any:
    """The gradient of a gradient operator."""
    raise RuntimeError(
        "the triton backend has no second derivatives; use backend='reference' for them"
    )
