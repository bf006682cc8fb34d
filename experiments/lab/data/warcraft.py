"""Maps of terrain with their cheapest paths: a reader of the Warcraft files, and a generator.

A map is an image of k x k tiles, each a cell of a grid with a cost that the image shows only by its
terrain; the path is the cheapest from the first cell to the last with steps to 8 neighbours.

Source: Vlastelica et al., Differentiation of Blackbox Combinatorial Solvers, 2020, whose files are
published as `warcraft_shortest_path_oneskin/12x12/train_maps.npy` and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gendr._common.arrays import read_array
from gendr._common.checks import check_count, check_image_size
from lab.data.numbers import Stored, digest

TILE = 8  # pixels of the side of a tile
# What a cell of each terrain costs, as in the published files.
TERRAINS = ("dirt", "grass", "forest", "rocks", "water")
COSTS = (0.8, 1.2, 5.3, 7.7, 9.2)
_COLOURS = ((152, 110, 60), (78, 122, 38), (28, 70, 28), (120, 116, 110), (42, 74, 128))
_SHARES = (0.24, 0.36, 0.18, 0.1, 0.12)  # of the terrains, from the highest ground to the lowest
_ORDER = (3, 2, 1, 0, 4)  # the terrains from the highest ground to the lowest
_PARTS = ("train", "val", "test")
_STEPS = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))


@dataclass(frozen=True, eq=False)
class TerrainMaps(Stored):
    """Maps with their paths and costs.

    Attributes:
        images: [N, 3, 8 H, 8 W] uint8.
        paths: [N, H, W] uint8, 1 on the cheapest path.
        costs: [N, H, W] float32, of the cells.
    """

    images: Tensor
    paths: Tensor
    costs: Tensor

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: slice) -> TerrainMaps:
        """Some of the maps."""
        return TerrainMaps(self.images[index], self.paths[index], self.costs[index])

    def digest(self) -> str:
        """A hash of images and paths as a short text, which tells data sets apart."""
        return digest(self.images, self.paths)

    def batch(self, index: Tensor | Sequence[int] | slice) -> tuple[Tensor, Tensor, Tensor]:
        """Images as floats in [0, 1], paths and costs as floats, of some maps."""
        return self.images[index].float() / 255, self.paths[index].float(), self.costs[index]


class TerrainSplits(NamedTuple):
    """Maps for training, for validation and for the test.

    Attributes:
        train: the maps to train with.
        val: the maps that say which weights are best.
        test: the maps to test with.
    """

    train: TerrainMaps
    val: TerrainMaps
    test: TerrainMaps


def read_warcraft(folder: str | Path, size: int = 12) -> TerrainSplits:
    """Read the published files.

    Args:
        folder: with `12x12/train_maps.npy` and so on, or with `train_maps.npy` itself.
        size: the side of the grid: 12, 18, 24 or 30.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is damaged, or shapes do not fit.
    """
    check_count("size", size)
    folder = Path(folder)
    inner = folder / f"{size}x{size}"
    folder = inner if inner.is_dir() else folder
    return TerrainSplits(*(_read_part(folder, part, size) for part in _PARTS))


def _read_part(folder: Path, part: str, size: int) -> TerrainMaps:
    def array(what: str, shape: tuple[int, ...]) -> NDArray[Any]:
        path = folder / f"{part}_{what}.npy"
        if not path.is_file():
            raise FileNotFoundError(f"there is no {path.name} in {folder}")
        values = read_array(path)
        if values.shape[1:] != shape:
            raise ValueError(
                f"{path} must have shape [N, {', '.join(map(str, shape))}] for maps of {size} x "
                f"{size} cells, got {list(values.shape)}"
            )
        return values

    images = array("maps", (TILE * size, TILE * size, 3))
    paths = array("shortest_paths", (size, size))
    costs = array("vertex_weights", (size, size))
    if not len(images) == len(paths) == len(costs):
        raise ValueError(
            f"the files of {part} in {folder} must have one entry for each map, got "
            f"{len(images)} maps, {len(paths)} paths and {len(costs)} sets of weights"
        )
    return TerrainMaps(
        torch.from_numpy(images.astype(np.uint8)).movedim(-1, 1).contiguous(),
        torch.from_numpy(paths.astype(np.uint8)),
        torch.from_numpy(costs.astype(np.float32)),
    )


def generate_terrain(count: int, size: int | Sequence[int] = 12, seed: int = 0) -> TerrainMaps:
    """Random maps in the layout of the Warcraft files, with the paths that Dijkstra finds.

    Ground of random height, smooth over a few cells, is cut into rocks, forest, grass, dirt and
    water; each terrain has its cost, and its tiles have random textures, shades and borders, so
    that costs cannot be read off the colour of one pixel.

    Args:
        count: of maps.
        size: cells of a side, or (height, width).
        seed: the same seed gives the same maps, also as the first ones of a larger number.

    Raises:
        TypeError, ValueError: numbers of the wrong type or below 1.
    """
    check_count("count", count)
    height, width = check_image_size(size, "size")
    maps = [_one_map(np.random.default_rng([seed, n]), height, width) for n in range(count)]
    images = np.stack([image for image, _ in maps])
    costs = np.stack([cost for _, cost in maps]).astype(np.float32)
    return TerrainMaps(
        torch.from_numpy(images).movedim(-1, 1).contiguous(),
        torch.from_numpy(cheapest_paths(costs)),
        torch.from_numpy(costs),
    )


def _one_map(rng: np.random.Generator, height: int, width: int) -> tuple[Any, Any]:
    """An image [8 H, 8 W, 3] and costs [H, W]."""
    ground = 0.25 * rng.normal(size=(height, width))
    for step in (2, 4):
        coarse = rng.normal(size=(height // step + 3, width // step + 3))
        ground += step / 4 * _enlarged(coarse, step, height, width, rng)
    # Some maps are dry, others wet: the shares vary.
    shares = rng.dirichlet(12 * np.array([_SHARES[t] for t in _ORDER]))
    bounds = np.quantile(ground, 1 - np.cumsum(shares)[:-1])
    terrain = np.array(_ORDER)[(ground[..., None] < bounds).sum(-1)]
    return _painted(terrain, rng), np.array(COSTS)[terrain]


def _enlarged(
    coarse: NDArray[Any], step: int, height: int, width: int, rng: np.random.Generator
) -> NDArray[Any]:
    """Linear interpolation of a coarse grid to [H, W], from a random place on."""

    def weights(n: int, shift: float) -> tuple[Any, Any]:
        place = shift + np.arange(n) / step
        low = place.astype(int)
        return low, place - low

    rows, by_row = weights(height, rng.uniform())
    columns, by_column = weights(width, rng.uniform())
    tall = coarse[rows] + by_row[:, None] * (coarse[rows + 1] - coarse[rows])
    return tall[:, columns] + by_column * (tall[:, columns + 1] - tall[:, columns])


def _painted(terrain: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """The image of terrains [H, W]: ragged borders, textures, and a shade for each tile."""
    height, width = terrain.shape
    rows, columns = np.indices((TILE * height, TILE * width))
    # Pixels near a border may show the neighbouring tile.
    moved = rng.integers(-1, 2, (2, TILE * height, TILE * width))
    shown = terrain[
        np.clip((rows + moved[0]) // TILE, 0, height - 1),
        np.clip((columns + moved[1]) // TILE, 0, width - 1),
    ]
    colours = np.array(_COLOURS, float)[shown]
    shade = np.kron(rng.normal(1, 0.06, (height, width)), np.ones((TILE, TILE)))
    grain = rng.normal(0, 1, (TILE * height, TILE * width))
    # Trees and stones are dark spots, waves are bright ones.
    spots = (rng.uniform(size=grain.shape) < np.array([0.02, 0.05, 0.3, 0.25, 0.08])[shown]) * 1.0
    strength = np.array([-14, -12, -24, -40, 26])[shown]
    colours = colours * shade[..., None] + (7 * grain + spots * strength)[..., None]
    return np.clip(colours.round(), 0, 255).astype(np.uint8)


def cheapest_paths(costs: Tensor | NDArray[Any], neighbours: int = 8) -> NDArray[np.uint8]:
    """The cheapest paths from the first cell to the last, by SciPy's Dijkstra: [N, H, W], 0 and 1.

    The cost of the first cell does not count. Where paths cost the same, one of them is returned.

    Args:
        costs: [N, H, W] or [H, W], > 0.
        neighbours: 8 or 4.

    Raises:
        ValueError: another shape, costs that are not positive and finite, or other neighbours.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import dijkstra

    grids = np.asarray(costs, dtype=np.float64)
    if grids.ndim not in (2, 3) or 0 in grids.shape[-2:]:
        raise ValueError(f"costs must have shape [N, H, W] or [H, W], got {list(grids.shape)}")
    if not bool(np.all((grids > 0) & (grids < np.inf))):
        raise ValueError("costs must be positive and finite for Dijkstra's algorithm")
    if neighbours not in (4, 8):
        raise ValueError(f"neighbours must be 4 or 8, got {neighbours}")
    maps = grids.reshape(-1, *grids.shape[-2:])
    height, width = maps.shape[1:]
    path = np.zeros(maps.shape, np.uint8)
    cells = np.arange(maps.size).reshape(maps.shape)
    if not maps.size:
        return path.reshape(grids.shape)
    outer = np.pad(cells, ((0, 0), (1, 1), (1, 1)), constant_values=-1)
    steps = [step for step in _STEPS if neighbours == 8 or 0 in step]
    around = np.stack(
        [outer[:, 1 + r : 1 + r + height, 1 + c : 1 + c + width] for r, c in steps], -1
    )
    targets = around.ravel()
    sources = np.repeat(np.arange(maps.size), len(steps))
    there = targets >= 0
    sources, targets = sources[there], targets[there]
    # All maps are parts of one graph, so that one call finds the paths of all.
    graph = csr_matrix((maps.ravel()[targets], (sources, targets)), shape=(maps.size,) * 2)
    _, before, _ = dijkstra(graph, indices=cells[:, 0, 0], min_only=True, return_predecessors=True)
    here = cells[:, -1, -1]
    flat = path.ravel()
    while len(here):
        flat[here] = 1
        here = before[here]
        here = here[here >= 0]
    return path.reshape(grids.shape)


def path_cost(paths: Tensor, costs: Tensor) -> Tensor:
    """What paths [..., H, W] cost, without the first cell: [...]."""
    total = (paths * costs).sum((-2, -1))
    return total - paths[..., 0, 0] * costs[..., 0, 0]
