"""Faces that are joined in order, with all that they may have, held against the definition."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gendr.distributions import as_distribution
from gendr.rendering.ordered import ordered
from gendr.tnorms import as_tconorm
from support.scenes import soup
from support.tolerances import TOLERANCES


class Scene:
    """Faces with all that they have, as leaves, and weights for a loss."""

    def __init__(
        self, corners: Tensor, size: tuple[int, int], dist: Any, tconorm: Any,
        scale: float = 0.05, seed: int = 0, channels: int = 3,
    ) -> None:  # fmt: skip
        """Values of faces at random, for those that have these corners."""
        like = corners.double()
        images, count = corners.shape[:2]
        generator = torch.Generator().manual_seed(seed)

        def uniform(*shape: int) -> Tensor:
            return torch.rand(*shape, generator=generator, dtype=torch.float64)

        self.size, dist, tconorm = size, as_distribution(dist), as_tconorm(tconorm)
        self.leaves = {
            "corners": like,
            "colours": uniform(images, count, channels),
            "opacity": 0.2 + 0.7 * uniform(images, count),
            "scale": scale * (0.5 + uniform(images, count)),
        }
        if dist.shape_parameter is not None:
            shape = float(dist.shape_parameter)
            self.leaves["shape"] = shape * (0.8 + 0.4 * uniform(images, count))
        if not dist.is_centred and dist.total_shift() == 0:
            self.leaves["shift"] = torch.tensor(0.2, dtype=torch.float64)
        if tconorm.given_p is not None:
            self.leaves["p"] = torch.tensor(float(tconorm.given_p), dtype=torch.float64)
        self.leaves = {k: v.detach().clone().requires_grad_() for k, v in self.leaves.items()}
        self.dist, self.tconorm = dist, tconorm
        self.weights = uniform(images, channels, *size), uniform(images, *size)

    def drawn(
        self, backend: str, leaves: dict[str, Tensor] | None = None, **options: Any
    ) -> tuple[Tensor, Tensor]:
        """The image and alpha, from other leaves if there are."""
        leaves = self.leaves if leaves is None else leaves
        dist, tconorm = self.dist, self.tconorm
        if "shift" in leaves:
            dist = dist.shifted(leaves["shift"])
        if "p" in leaves:
            tconorm = tconorm.with_p(leaves["p"])
        options = {"cutoff": 1e-3, "bound": 0.0, **options}
        return ordered(
            leaves["corners"], leaves["colours"], self.size, dist, tconorm, leaves["scale"],
            opacity=leaves["opacity"], shape=leaves.get("shape"), backend=backend, **options,
        )  # fmt: skip

    def found(self, backend: str, dtype: torch.dtype = torch.float64, **options: Any) -> Any:
        """The image, alpha, by name the gradients of all leaves, and these."""
        leaves = {k: v.detach().to(dtype).requires_grad_() for k, v in self.leaves.items()}
        image, alpha = self.drawn(backend, leaves, **options)
        assert image.dtype == alpha.dtype == dtype
        loss = (image * self.weights[0].to(dtype)).sum() + (alpha * self.weights[1].to(dtype)).sum()
        gradients = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
        return image.detach(), alpha.detach(), dict(zip(leaves, gradients, strict=True)), leaves


def assert_same(got: Any, want: Any, dtype: torch.dtype = torch.float64) -> None:
    """What `Scene.found` gives is that of the definition."""
    tolerance = TOLERANCES[dtype]
    for x, y in zip(got[:2], want[:2], strict=True):
        torch.testing.assert_close(x.double(), y, rtol=0, atol=tolerance.alpha)
    for name, gradient in want[2].items():
        error = (got[2][name].double() - gradient).norm()
        rounding = torch.finfo(dtype).tiny  # what is smaller has no digits
        if name == "p":  # terms of the logarithm of p cancel
            rounding += 1e-2 * tolerance.alpha / min(1, abs(want[3]["p"].item()))
        if name == "scale":  # densities without digits, times distances over the scale's square
            rounding /= want[3]["scale"].min().item()
        assert error <= tolerance.gradient * gradient.norm() + rounding, name


def assert_finite(found: Any) -> None:
    """All that `Scene.found` gives is finite."""
    for value in (*found[:2], *found[2].values()):
        assert torch.isfinite(value).all()


BIG = [[-9.0, -9.0], [9.0, -9.0], [0.0, 12.0]]


def layers(*depths: Any, dtype: torch.dtype = torch.float64) -> Tensor:
    """Triangles that cover everything, with the depths of their corners, [1, F, 3, 3]."""
    corners = torch.tensor(BIG, dtype=dtype).expand(len(depths), 3, 2)
    z = torch.tensor(depths, dtype=dtype).reshape(len(depths), -1, 1).expand(-1, 3, 1)
    return torch.cat([corners, z], -1)[None]


def weights(
    scene: Tensor, size: int = 1, tconorm: str = "probabilistic", opacity: Any = 0.5, **options: Any
) -> Tensor:
    """The weights [F, H, W] of faces, which are the colours of an image with a channel of each."""
    count = scene.shape[1]
    colours = torch.eye(count, dtype=scene.dtype)[None]
    opacity = torch.as_tensor(opacity, dtype=scene.dtype).expand(1, count)
    options = {"bound": 0.0, **options}
    return ordered(scene, colours, size, "heaviside", tconorm, opacity=opacity, **options)[0][0]


def deep(count: int, seed: int, size: float = 2.0) -> Tensor:
    """Faces one behind the other, each of which spans a little of the depth."""
    corners = soup(1, count, seed, size=size)
    corners[..., 2] = corners[..., 2] * 0.05 + torch.rand(1, count, 1) * 3
    return corners


def wild(scenes: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scenes of 5 faces each of which is hard in a way of its own, and their numbers."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(scenes, 5, *shape, generator=generator, dtype=torch.float64)

    corners = torch.randn(scenes, 5, 3, 3, generator=generator, dtype=torch.float64)
    a, b = corners[..., 0, :], corners[..., 1, :]
    kinds = [
        corners,
        torch.stack([a, b, a + 1e-9 * corners[..., 2, :]], -2),  # needles
        torch.stack([a, b, a + 0.3 * (b - a)], -2),  # edge-on
        torch.stack([a, a, b], -2),
        (corners * 4).round() / 4,  # corners and edges on pixel centres, and equal depths
    ]
    pick = torch.randint(len(kinds), (scenes, 5), generator=generator)
    corners = torch.stack(kinds)[pick, torch.arange(scenes)[:, None], torch.arange(5)]
    corners = corners * 10 ** (6 * uniform(1, 1) - 3)
    depth = 10 ** (6 * uniform(1) - 3) * torch.where(pick == 4, 1.0, 0)[..., None]
    corners[..., 2] = corners[..., 2].abs() + depth + 1e-9
    edge = uniform()
    opacity = torch.where(edge < 0.2, 0.0, torch.where(edge > 0.7, 1.0, uniform()))
    return corners, uniform(3), opacity, 10 ** (9 * uniform() - 6)
