"""The faces of tiles, listed by the Triton backend, against a search with NumPy."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

import gendr
from gendr._runtime.triton.launch import Launcher
from gendr.mesh import icosphere
from gendr.rendering.backends.triton import recipes, tiles
from gendr.rendering.geometry import ImageSize
from support import soup
from support.cases import for_each
from support.races import checked_launches, random_grid_order

pytestmark = pytest.mark.skipif(
    not tiles.interpreted() and not torch.cuda.is_available(), reason="needs a GPU or interpreter"
)
DEVICE = "cpu" if tiles.interpreted() else "cuda"


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Few faces are listed too, in several chunks; no test finds the room that another one grew."""
    monkeypatch.setattr(tiles, "LAUNCH", replace(tiles.LAUNCH, walked=0))
    monkeypatch.setattr(tiles, "LEAST_CHUNK", 32)
    monkeypatch.setattr(tiles, "SEGMENT", 16)
    monkeypatch.setattr(tiles, "LEAST", 1)
    tiles.plan_of.cache_clear()
    yield
    tiles.plan_of.cache_clear()


def boxes_of(faces, size, seed, largest=0.3, absent=0.2):
    """Random boxes [T, 4]; some are empty, as those of absent faces, and some reach all over."""
    rng = np.random.default_rng(seed)
    out = np.zeros((faces, 4), np.int32)
    for i in range(faces):
        for k, n in ((0, size.width), (2, size.height)):
            first = rng.integers(0, n)
            out[i, k : k + 2] = first, min(n, first + rng.integers(1, max(2, int(largest * n))))
    out[rng.random(faces) < absent] = 0
    if faces > 4:
        out[faces // 2] = 0, size.width, 0, size.height
    return out


def on_device(boxes):
    return torch.from_numpy(boxes).to(DEVICE)


def searched(boxes, offsets, tiling):
    """The faces of each tile, one after the other."""
    out = []
    for first, last in pairwise(offsets):
        own = boxes[first:last]
        for tile in range(tiling.tiles):
            y, x = (tile // tiling.columns) * tiling.height, (tile % tiling.columns) * tiling.width
            hit = (own[:, 0] < x + tiling.width) & (own[:, 1] > x)
            hit &= (own[:, 2] < y + tiling.height) & (own[:, 3] > y)
            out.append((first + np.flatnonzero(hit)).tolist())
    return out


def read(lists):
    """The list of each tile, None where it walks."""
    starts, stops, faces = lists.starts.tolist(), lists.stops.tolist(), lists.faces.tolist()
    return [faces[a:b] if a >= 0 else None for a, b in zip(starts, stops, strict=True)]


def assert_segments_are_right(lists, segment, most):
    """Every extra program has a tile, as far as there are extra programs."""
    starts, stops, firsts = (x.tolist() for x in (lists.starts, lists.stops, lists.segments))
    tile_of, used = lists.tile_of_segment.tolist(), 0
    for tile, (a, b, first) in enumerate(zip(starts, stops, firsts, strict=True)):
        more = max(0, (b - a - 1) // segment) if a >= 0 else 0
        if more and used + more <= len(tile_of):
            assert first == used
            assert tile_of[first : first + more] == [tile] * more
        else:
            assert first == -1
        used += more
    assert set(tile_of[sum(x >= 0 for x in tile_of) :]) <= {-1}
    assert used <= most


# Faces of images, size of images, tiles.
CASES = {
    "one image": ((0, 150), (70, 90), (8, 8)),
    "several groups of tiles": ((0, 40), (40, 150), (4, 8)),
    "ragged, one image empty": ((0, 90, 90, 93, 300), (20, 33), (16, 16)),
    "more tiles than are scanned at once": ((0, 9, 20), (130, 170), (4, 4)),
    "one tile": ((0, 70, 140), (7, 9), (16, 16)),
    "one face": ((0, 1), (30, 30), (8, 8)),
    "no images": ((0,), (30, 30), (8, 8)),
    "no faces": ((0, 0, 0), (30, 30), (8, 8)),
}


@for_each(case=CASES)
def test_lists_are_those_of_a_search_in_the_order_of_faces(case):
    offsets, size, tile = CASES[case]
    size = ImageSize(*size)
    boxes, tiling = boxes_of(offsets[-1], size, 3), tiles.Tiling.of(size, tile)
    there = on_device(boxes)
    found = tiles.lists_of(there, offsets, tiling)
    if offsets[-1]:
        assert read(found) == searched(boxes, offsets, tiling)
        assert_segments_are_right(found, tiles.SEGMENT, len(found.tile_of_segment))
    else:  # nothing is listed where there is nothing
        assert [b - (-1 - a) for a, b in zip(found.starts, found.stops, strict=True)] == [0] * len(
            found.starts
        )
        assert len(found.starts) == (len(offsets) - 1) * tiling.tiles


@pytest.mark.parametrize("entries", [0, 1, 100, 400, 10**4])
def test_a_tile_whose_list_finds_no_room_walks_all_faces_of_its_image(entries):
    offsets, size = (0, 60, 100), ImageSize(40, 50)
    boxes, tiling = boxes_of(100, size, 5), tiles.Tiling.of(size, (8, 16))
    there = on_device(boxes)
    room = tiles.plan_of(tiles.Lister, offsets, tiling, there.device).capacity
    room.entries = entries
    found = tiles.lists_of(there, offsets, tiling)
    want, used, walking = searched(boxes, offsets, tiling), 0, 0
    for tile, (got, faces) in enumerate(zip(read(found), want, strict=True)):
        used += len(faces)
        if used <= entries or not faces:
            assert got == faces
        else:
            image, walking = tile // tiling.tiles, walking + 1
            assert got is None
            assert -1 - int(found.starts[tile]) == offsets[image]
            assert int(found.stops[tile]) == offsets[image + 1]
    assert (walking > 0) == (entries < used)
    # The step after has the room that this one lacked.
    assert read(tiles.lists_of(there, offsets, tiling)) == want
    assert used <= room.entries <= max(entries, 1.25 * used)


def test_the_room_follows_what_is_needed_one_step_later():
    offsets, size = (0, 80), ImageSize(64, 64)
    tiling = tiles.Tiling.of(size, (8, 8))
    small, large = (on_device(boxes_of(80, size, 5, x)) for x in (0.1, 0.9))
    room = tiles.plan_of(tiles.Lister, offsets, tiling, small.device).capacity
    assert room.entries is None
    first = len(tiles.lists_of(small, offsets, tiling).faces)
    assert first == room.entries > 0
    tight = tiles.lists_of(large, offsets, tiling)
    assert len(tight.faces) == first
    assert None in read(tight)
    assert None not in read(tiles.lists_of(large, offsets, tiling))
    for needed, entries in ((100, 125), (101, 125), (90, 125), (120, 150), (19, 150), (18, 22)):
        room.fit(needed, needed)
        assert (room.entries, room.segments) == (entries, entries)
    room.fit(10**9, 0)
    assert room.segments == 0
    assert room.entries == room.most == 80 * tiling.tiles


def test_while_a_graph_is_captured_nothing_is_read(monkeypatch):
    offsets, size = (0, 80), ImageSize(64, 64)
    there, tiling = on_device(boxes_of(80, size, 5)), tiles.Tiling.of(size, (8, 8))
    monkeypatch.setattr(tiles, "capturing", lambda device: True)
    for name in ("send", "read"):
        monkeypatch.setattr(tiles.Readback, name, None)  # a call would fail
    for _ in range(2):
        got, want = (
            read(tiles.lists_of(there, offsets, tiling)),
            searched(there.cpu().numpy(), offsets, tiling),
        )
        assert all(x in (None, y) for x, y in zip(got, want, strict=True))
        assert tiles.plan_of(tiles.Lister, offsets, tiling, there.device).capacity.entries is None


def test_few_faces_walk_without_a_launch(monkeypatch):
    monkeypatch.setattr(tiles, "LAUNCH", replace(tiles.LAUNCH, walked=10))
    monkeypatch.setattr(Launcher, "__call__", None)  # a launch would fail
    size = ImageSize(30, 30)
    tiling = tiles.Tiling.of(size, (16, 16))
    found = tiles.lists_of(on_device(boxes_of(10, size, 1)), (0, 4, 10), tiling)
    assert found.starts.tolist() == [-1] * 4 + [-5] * 4
    assert found.stops.tolist() == [4] * 4 + [10] * 4


@pytest.mark.skipif(not tiles.interpreted(), reason="it hooks the interpreter")
def test_no_race_and_any_order_of_programs_gives_the_same_lists():
    offsets, size = (0, 90, 90, 93, 200), ImageSize(40, 80)
    boxes, tiling = boxes_of(200, size, 3), tiles.Tiling.of(size, (4, 8))
    there = on_device(boxes)
    with random_grid_order(5), checked_launches() as watch:
        found = read(tiles.lists_of(there, offsets, tiling))
    assert found == searched(boxes, offsets, tiling)
    assert watch.kernels == ["count_faces", "prefix_chunks", "scan_tiles", "fill_lists"]
    assert watch.programs[0] > 10


@pytest.mark.rotating(2)
@pytest.mark.parametrize("family", ["probabilistic", "max"])
def test_the_same_bits_come_out_whatever_room_there_is(monkeypatch, family):
    """All of it, half of it, no extra programs, no lists at all."""
    scene = soup(1, 12, 3, size=0.5).float().to(DEVICE)
    monkeypatch.setattr(tiles, "SEGMENT", 4)

    def image(walked=0, entries=1.0, segments=20):
        launch = replace(tiles.LAUNCH, tile=(8, 8), block_faces=1, walked=walked, fits=False)
        monkeypatch.setattr(tiles, "LAUNCH", launch)
        monkeypatch.setattr(
            tiles.Capacity, "of_step", lambda _, totals: (int(entries * totals.sum()), segments)
        )
        return gendr.silhouette(scene, (9, 10), "logistic", family, 0.05, backend="triton")

    want = image()
    assert want.any()
    for got in (image(entries=0.5, segments=1), image(segments=0), image(walked=99)):
        assert torch.equal(got, want)


def test_tables_are_float32_whatever_the_default():
    """Kernels are compiled for float32: a table of another type would not go with them."""
    torch.set_default_dtype(torch.float64)
    try:
        assert tiles.bare_images(2, torch.ones(2, device=DEVICE)).dtype == torch.float32
        assert (
            recipes.image_table(
                recipes.Recipe("uniform", "probabilistic"),
                torch.ones(2, 1, dtype=torch.float32, device=DEVICE),
                1e-6,
            ).dtype
            == torch.float32
        )
    finally:
        torch.set_default_dtype(torch.float32)


# -- pieces of large faces


def pieces_of(boxes, pixels):
    """(pixels of a piece, extra programs, their faces, first ones of faces) and the same again."""
    found = tiles.Pieces(on_device(boxes), pixels)
    numbers, first, face = (x.tolist() for x in found.table.split([2, len(boxes), found.extra]))
    return numbers[0], found.extra, face[: numbers[1]], first


@for_each("most, size", [(4096, 16), (371, 64), (93, 64), (92, 256), (3, 1024), (2, 0)])
def test_boxes_are_cut_into_the_smallest_pieces_for_which_there_are_programs(
    monkeypatch, most, size
):
    monkeypatch.setattr(tiles, "PIECE", 16)
    monkeypatch.setattr(tiles, "_WHOLE", 0)
    monkeypatch.setattr(tiles, "PIECES", most)
    boxes = boxes_of(1500, ImageSize(40, 50), 8, largest=0.05)
    boxes[[3, 1300]] = boxes[750]  # which reaches all over
    got_size, extra, face, first = pieces_of(boxes, 40 * 50)
    assert extra == min(most, 1500 * 124)
    assert got_size == size
    pixels = (boxes[:, 1] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 2])
    more = np.maximum(pixels - 1, 0) // size if size else 0 * pixels
    assert face == np.repeat(np.arange(1500), more).tolist()
    assert first == np.where(more > 0, more.cumsum() - more, -1).tolist()


def test_small_images_are_not_cut(monkeypatch):
    monkeypatch.setattr(Launcher, "__call__", None)  # a launch would fail
    assert tiles.Pieces(torch.zeros(100, 4, dtype=torch.int32), 64 * 64).extra == 0
    assert tiles.Pieces(torch.zeros(0, 4, dtype=torch.int32), 1024 * 1024).extra == 0


@pytest.mark.rotating(2)
@pytest.mark.skipif(not tiles.interpreted(), reason="it hooks the interpreter")
@pytest.mark.parametrize("shading", ["silhouette", "colours"])
def test_pieces_give_the_gradients_of_whole_faces(monkeypatch, shading):
    """Of two images with large faces; the same bits in any order, and no races."""
    ball = icosphere(0).scaled(0.7)
    camera = gendr.look_at(2.732, 30.0, torch.tensor([10.0, 70.0]))
    weights = torch.rand(2, 12, 14, generator=torch.Generator().manual_seed(1))

    def gradients():
        vertices = ball.vertices.clone().requires_grad_()
        mesh = gendr.Mesh(vertices, ball.faces[:3]).with_vertex_colors(vertices.detach().abs())
        renderer = gendr.Renderer(
            (12, 14), "logistic", scale=0.02, near=1.0, backend="triton", learnable=("scale",)
        )
        out = renderer(mesh, camera)
        image = out.alpha if shading == "silhouette" else out.rgb.sum(1)
        (image * weights).sum().backward()
        return vertices.grad, *(p.grad for p in renderer.parameters() if p.grad is not None)

    monkeypatch.setattr(tiles, "LAUNCH", replace(tiles.LAUNCH, block_pixels=16))
    want = gradients()
    monkeypatch.setattr(tiles, "PIECE", 32)
    monkeypatch.setattr(tiles, "PIECES", 20)
    monkeypatch.setattr(tiles, "_WHOLE", 0)
    cut = gradients()
    with random_grid_order(5), checked_launches() as watch:
        shuffled = gradients()
    assert {"count_pieces", "list_pieces", "join_pieces"} <= set(watch.kernels)
    for got, same, reference in zip(cut, shuffled, want, strict=True):
        assert torch.equal(got, same)
        torch.testing.assert_close(got, reference, rtol=1e-4, atol=1e-5)


def test_chunks_are_few_where_there_are_many_tiles_and_hold_every_face_once():
    offsets = (0, 40_000, 40_000, 41_000)
    tiling = tiles.Tiling.of(ImageSize(1024, 1024), (16, 16))
    size = tiles.chunk_size(offsets, tiling)
    chunks, firsts = tiles.chunks_of(offsets, size, torch.device("cpu"))
    assert len(chunks) * tiling.tiles <= 1.5 * max(tiles.COUNTS, 24 * tiling.tiles)
    faces = [f for _, first, last, _ in chunks.tolist() for f in range(first, last)]
    assert faces == list(range(41_000))
    for image, (first, last) in enumerate(pairwise(firsts.tolist())):
        assert (chunks[first:last, 0] == image).all()
