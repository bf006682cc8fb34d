"""The lists of faces of the Triton backend against a search with NumPy, and pieces of faces."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

import gendr
from gendr.mesh import icosphere
from gendr.rendering.backends.triton import tiles
from gendr.rendering.geometry import ImageSize
from support.cases import for_each
from support.races import checked_launches, random_grid_order
from support.triton import DEVICE, INTERPRETED, needs_a_place, needs_the_interpreter

pytestmark = needs_a_place


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Few faces are listed too, in several chunks and segments."""
    monkeypatch.setattr(tiles, "LAUNCH", replace(tiles.LAUNCH, walked=0))
    monkeypatch.setattr(tiles, "LEAST_CHUNK", 32)
    monkeypatch.setattr(tiles, "SEGMENT", 16)


def boxes_of(faces, size, seed=3):
    """Random boxes [T, 4]; some are empty, as those of absent faces, and one reaches all over."""
    rng = np.random.default_rng(seed)
    out = np.zeros((faces, 4), np.int32)
    for k, n in ((0, size.width), (2, size.height)):
        first = rng.integers(0, n, faces)
        out[:, k] = first
        out[:, k + 1] = np.minimum(n, first + rng.integers(1, max(2, int(0.3 * n)), faces))
    out[rng.random(faces) < 0.2] = 0
    if faces > 4:
        out[faces // 2] = 0, size.width, 0, size.height
    return out


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


@pytest.mark.rotating(4, group="rendering")
@for_each(case=CASES, rotating=3)
def test_lists_are_those_of_a_search_in_the_order_of_faces(case):
    """In any order of programs, and without a race, where Triton is interpreted."""
    offsets, size, tile = CASES[case]
    size = ImageSize(*size)
    boxes, tiling = boxes_of(offsets[-1], size), tiles.Tiling.of(size, tile)
    there = torch.from_numpy(boxes).to(DEVICE)
    if INTERPRETED and case.startswith("ragged"):
        with random_grid_order(5), checked_launches() as watch:
            found = tiles.lists_of(there, offsets, tiling)
        assert max(watch.programs) > 10
    else:
        found = tiles.lists_of(there, offsets, tiling)
    starts, stops, faces = (x.tolist() for x in (found.starts, found.stops, found.faces))
    if not offsets[-1]:  # nothing is listed where there is nothing
        assert [b - (-1 - a) for a, b in zip(starts, stops, strict=True)] == [0] * len(starts)
        assert len(starts) == (len(offsets) - 1) * tiling.tiles
        return
    assert [faces[a:b] for a, b in zip(starts, stops, strict=True)] == searched(
        boxes, offsets, tiling
    )
    # Every tile of more than a segment has extra programs, which know it.
    tile_of = found.tile_of_segment.tolist()
    for tile, (a, b, first) in enumerate(zip(starts, stops, found.segments.tolist(), strict=True)):
        more = max(0, (b - a - 1) // 16)
        assert (first == -1) == (more == 0)
        assert tile_of[first : first + more] == [tile] * more


# Of different numbers of faces, as the capacity of lists is kept for each.
@pytest.mark.rotating(4, group="rendering")
@for_each("family, count", [("probabilistic", 10), ("max", 11)])
def test_the_same_bits_come_out_of_lists_and_walks_and_of_any_capacity(monkeypatch, family, count):
    """Faces grow in the second step, whose lists do not fit; in the third they do."""
    monkeypatch.setattr(tiles, "SEGMENT", 4)
    monkeypatch.setattr(tiles, "LEAST", 1)
    generator = torch.Generator().manual_seed(3)
    centres = torch.rand(count, 1, 2, generator=generator) * 1.6 - 0.8
    turned = torch.rand(count, 3, 2, generator=generator) - 0.5
    seen, listed = [], tiles.lists_of
    monkeypatch.setattr(tiles, "lists_of", lambda *x: seen.append(listed(*x)) or seen[-1])

    def image(size, walked):
        launch = replace(tiles.LAUNCH, tile=(8, 8), block_faces=1, walked=walked, fits=False)
        monkeypatch.setattr(tiles, "LAUNCH", launch)
        scene = torch.cat([centres + size * turned, torch.ones(count, 3, 1)], -1)[None].to(DEVICE)
        return gendr.silhouette(scene, (9, 11), "uniform", family, 0.02, backend="triton")

    sizes = (0.4, 6.0, 6.0)
    found = [image(size, 0) for size in sizes]
    assert [bool((lists.starts < 0).any()) for lists in seen] == [False, True, False]
    for got, size in zip(found, sizes, strict=True):
        assert got.any()
        assert torch.equal(got, image(size, 99))


@pytest.mark.rotating(4, group="rendering")
@pytest.mark.rotating(2)
@needs_the_interpreter
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
    for name, value in {"PIECE": 32, "PIECES": 20, "_WHOLE": 0}.items():
        monkeypatch.setattr(tiles, name, value)
    cut = gradients()
    with random_grid_order(5), checked_launches() as watch:
        shuffled = gradients()
    assert {"count_pieces", "list_pieces", "join_pieces"} <= set(watch.kernels)
    for got, same, reference in zip(cut, shuffled, want, strict=True):
        assert torch.equal(got, same)
        torch.testing.assert_close(got, reference, rtol=1e-4, atol=1e-5)
