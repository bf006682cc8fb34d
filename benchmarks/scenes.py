"""The scenes and renderers that the GPU path is judged by, with a step that a program can time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import gendr
from gendr.mesh import cube_sphere, icosphere

NEAR, FAR = 1.0, 100.0


@dataclass(frozen=True)
class Instance:
    """A renderer.

    Attributes:
        name: for tables.
        options: of `gendr.Renderer`, without the size of the image.
        scheduled: whether every call is given a scale, the one that gendr suggests; else it is the
            renderer's own.
    """

    name: str
    options: dict[str, Any]
    scheduled: bool = False


INSTANCES = (
    Instance("default", {"near": NEAR, "far": FAR}),
    Instance("README", {"dist": "logistic", "cutoff": 1e-3}, scheduled=True),
)


@dataclass(frozen=True)
class Setup:
    """A mesh, views of it, and the size of an image."""

    name: str
    mesh: Callable[[], gendr.Mesh]
    views: int
    size: int
    target_ms: float | None = None


def with_wall(faces: gendr.Mesh) -> gendr.Mesh:
    """The faces and one triangle behind them that fills the screen."""
    wall = torch.tensor([[-9.0, -9.0, 1.0], [9.0, -9.0, 1.0], [0.0, 9.0, 1.0]])
    rotation = gendr.look_at(2.732, 30.0, 0.0).rotation[0]  # world to camera
    vertices = torch.cat([faces.vertices, wall @ rotation])
    corners = torch.arange(3) + len(faces.vertices)
    return gendr.Mesh(vertices, torch.cat([faces.faces, corners[None]]))


# Two that targets are set for, and two whose work is hard to divide.
SETUPS = (
    Setup("24 × 64², 1,280 faces", lambda: icosphere(3).scaled(0.5), 24, 64, 0.6),
    Setup("1024², 40,368 faces", lambda: cube_sphere(58).scaled(0.5), 1, 1024, 3.0),
    Setup(
        "1024², 5,120 faces and one that fills it",
        lambda: with_wall(icosphere(4).scaled(0.5)), 1, 1024,
    ),
    Setup("64², 80,688 faces", lambda: cube_sphere(82).scaled(0.5), 1, 64),
)  # fmt: skip


def _roof() -> gendr.Mesh:
    """Two triangles."""
    vertices = [[-0.6, -0.3, 0.0], [0.6, -0.4, 0.0], [0.0, 0.5, 0.2], [0.1, -0.9, 0.3]]
    return gendr.Mesh(torch.tensor(vertices), torch.tensor([[0, 1, 2], [0, 3, 1]]))


# The same four where kernels are interpreted, which takes milliseconds for each operation.
TINY = (
    Setup("2 × 8², 2 faces", _roof, 2, 8, 0.6),
    Setup("12², 2 faces", _roof, 1, 12, 3.0),
    Setup("12², 2 faces and one that fills it", lambda: with_wall(_roof()), 1, 12),
    Setup("4², 2 faces", _roof, 1, 4),
)


class Step:
    """Alpha and the gradient of the vertices, of which the loss is left out: its gradient is given.

    Args:
        setup: what is rendered.
        instance: by which renderer.
        device: "cuda", or "cpu" where Triton's kernels are interpreted.
        backend: of the renderer.
        dtype: of mesh and camera.
    """

    def __init__(
        self,
        setup: Setup,
        instance: Instance,
        device: str,
        backend: str = "triton",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        azimuths = torch.arange(setup.views) * 360.0 / setup.views
        self.mesh = setup.mesh().to(device, dtype)
        self.camera = gendr.look_at(2.732, 30.0, azimuths).to(device, dtype)
        # Or what is called in the same way.
        self.renderer: Any = gendr.Renderer(setup.size, backend=backend, **instance.options)
        self.scale: Any = None
        if instance.scheduled:
            dist = instance.options["dist"]
            # From the same numbers for all dtypes and devices.
            mesh, camera = setup.mesh(), gendr.look_at(2.732, 30.0, azimuths)
            self.scale = gendr.suggest_scale(mesh, camera, setup.size, dist)
        self.vertices = self.mesh.vertices.clone().requires_grad_()
        generator = torch.Generator().manual_seed(1)
        shape = (setup.views, setup.size, setup.size)
        grad = torch.rand(shape, generator=generator, dtype=torch.float32)
        self.grad = grad.to(device, dtype)

    def alpha(self) -> Tensor:
        """Forward, [B, H, W]."""
        return self.renderer(self.mesh.with_vertices(self.vertices), self.camera, self.scale).alpha

    def __call__(self) -> None:
        """Forward and backward."""
        self.vertices.grad = None
        self.alpha().backward(self.grad)

    def outcome(self) -> tuple[Tensor, Tensor]:
        """Alpha, and the gradient of the vertices."""
        self.vertices.grad = None
        alpha = self.alpha()
        alpha.backward(self.grad)
        assert self.vertices.grad is not None
        return alpha.detach(), self.vertices.grad

    def lit(self) -> tuple[Tensor, Tensor]:
        """Colours, and the gradient of the vertices of the sum of their squares."""
        self.vertices.grad = None
        rgb = self.renderer(self.mesh.with_vertices(self.vertices), self.camera).rgb
        rgb.square().sum().backward()
        assert self.vertices.grad is not None
        return rgb.detach(), self.vertices.grad
