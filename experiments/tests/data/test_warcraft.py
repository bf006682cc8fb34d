"""Terrain maps: the reader of the published layout, the generator, Dijkstra's paths."""

import itertools

import numpy as np
import pytest
import torch

from lab.data.warcraft import (
    COSTS,
    cheapest_paths,
    generate_terrain,
    path_cost,
    read_warcraft,
)
from support.cases import for_each


def bellman_ford(costs, neighbours):
    """The cost of the cheapest path, without the first cell, by sweeps until nothing changes."""
    height, width = costs.shape
    d = np.full((height + 2, width + 2), np.inf)
    d[1, 1] = 0
    steps = [s for s in itertools.product((-1, 0, 1), repeat=2) if any(s)]
    steps = [s for s in steps if neighbours == 8 or 0 in s]
    while True:
        around = [d[1 + r : 1 + r + height, 1 + c : 1 + c + width] for r, c in steps]
        new = np.minimum(d[1:-1, 1:-1], costs + np.min(around, 0))
        if np.array_equal(new, d[1:-1, 1:-1]):
            return d[-2, -2]
        d[1:-1, 1:-1] = new


@for_each(neighbours=[4, 8])
def test_paths_are_connected_and_cheapest(neighbours, seed):
    costs = np.random.default_rng(seed).uniform(0.1, 1.1, (40, 5, 7))
    paths = cheapest_paths(costs, neighbours)
    found = path_cost(torch.from_numpy(paths), torch.from_numpy(costs))
    for path, cost, total in zip(paths, costs, found, strict=True):
        assert abs(total - bellman_ford(cost, neighbours)) < 1e-12
        assert path[0, 0] == path[-1, -1] == 1
        cells = np.argwhere(path)
        gaps = np.abs(cells[:, None] - cells[None])
        near = gaps.max(-1) == 1 if neighbours == 8 else gaps.sum(-1) == 1
        assert sorted(near.sum(1))[:2] == [1, 1]  # two ends
        assert (np.sort(near.sum(1))[2:] >= 2).all()
    alone = cheapest_paths(torch.from_numpy(costs[3]), neighbours)
    assert np.array_equal(alone, paths[3])


def test_generated_maps_have_the_layout_of_the_files():
    maps = generate_terrain(60, 12, seed=3)
    assert maps.images.shape == (60, 3, 96, 96)
    assert maps.images.dtype == torch.uint8
    assert maps.paths.shape == maps.costs.shape == (60, 12, 12)
    assert set(maps.costs.unique().tolist()) == set(np.array(COSTS, np.float32).tolist())
    shares = torch.tensor(
        [(maps.costs == cost).float().mean() for cost in np.array(COSTS, np.float32)]
    )
    assert shares.min() > 0.03
    assert shares.max() < 0.6
    assert torch.equal(maps.paths, torch.from_numpy(cheapest_paths(maps.costs)))
    # Terrain comes in patches: neighbours are more often alike than cells far apart.
    alike = (maps.costs[:, :, 1:] == maps.costs[:, :, :-1]).float().mean()
    assert alike > 1.5 * shares.square().sum()
    # The paths of different maps differ, so that there is something to learn.
    assert len(maps.paths.flatten(1).unique(dim=0)) > 50


def test_images_show_the_terrain():
    """The mean colours of tiles tell the terrain for most, but not for all tiles."""
    maps = generate_terrain(20, (9, 11), seed=1)
    assert maps.images.shape == (20, 3, 72, 88)
    colours = torch.nn.functional.avg_pool2d(maps.images.float(), 8).movedim(1, -1).reshape(-1, 3)
    costs = maps.costs.flatten()
    means = torch.stack([colours[costs == c].mean(0) for c in costs.unique()])
    nearest = costs.unique()[torch.cdist(colours, means).argmin(1)]
    assert 0.7 < (nearest == costs).float().mean() < 1


def test_seeds_and_batches():
    few, more = generate_terrain(2, 6, seed=5), generate_terrain(4, 6, seed=5)
    assert torch.equal(few.images, more.images[:2])
    assert not torch.equal(generate_terrain(2, 6, seed=6).images, few.images)
    images, paths, costs = more.batch([0, 3])
    assert (images.shape, paths.shape, costs.shape) == ((2, 3, 48, 48), (2, 6, 6), (2, 6, 6))
    assert images.dtype == paths.dtype == costs.dtype == torch.float32
    assert 0 <= images.min() <= images.max() <= 1
    assert len(more) == 4
    assert len(more[:2]) == 2
    assert torch.equal(more[1:].costs, more.costs[1:])
    assert more[:2].digest() == few.digest() != more.digest()


def written(folder, maps, parts=("train", "val", "test")):
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        np.save(folder / f"{part}_maps.npy", maps.images.movedim(1, -1).numpy())
        np.save(folder / f"{part}_shortest_paths.npy", maps.paths.numpy())
        np.save(folder / f"{part}_vertex_weights.npy", maps.costs.numpy().astype(np.float16))


def test_the_published_layout_is_read(tmp_path):
    maps = generate_terrain(3, 4)
    written(tmp_path / "4x4", maps)
    for folder in (tmp_path, tmp_path / "4x4"):
        splits = read_warcraft(folder, 4)
        for part in splits:
            assert torch.equal(part.images, maps.images)
            assert torch.equal(part.paths, maps.paths)
            torch.testing.assert_close(part.costs, maps.costs, rtol=1e-3, atol=0)


def test_files_that_are_not_whole_are_refused(tmp_path):
    written(tmp_path, generate_terrain(3, 4), parts=("train", "val"))
    with pytest.raises(FileNotFoundError, match=r"test_maps\.npy"):
        read_warcraft(tmp_path, 4)
    with pytest.raises(ValueError, match=r"\[N, 48, 48, 3\] for maps of 6 x 6"):
        read_warcraft(tmp_path, 6)
    written(tmp_path, generate_terrain(3, 4))
    np.save(tmp_path / "val_shortest_paths.npy", np.zeros((2, 4, 4)))
    with pytest.raises(ValueError, match="3 maps, 2 paths and 3 sets"):
        read_warcraft(tmp_path, 4)
    path = tmp_path / "val_maps.npy"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ValueError, match="not a complete npy file"):
        read_warcraft(tmp_path, 4)


def test_bad_arguments():
    for said, call in {
        "positive": lambda: cheapest_paths(np.zeros((2, 2))),
        r"\[N, H, W\]": lambda: cheapest_paths(np.ones(3)),
        "4 or 8": lambda: cheapest_paths(np.ones((2, 2)), 6),
        "count": lambda: generate_terrain(0),
        "size": lambda: generate_terrain(1, 0),
    }.items():
        with pytest.raises(ValueError, match=said):
            call()
