"""The network of single-view reconstruction: an image in, a deformed sphere out.

    >>> model = Reconstructor()
    >>> meshes = model.mesh(images)          # images [B, 4, 64, 64] in [0, 1]

Source: Kato, Ushiku, Harada, Neural 3D Mesh Renderer, 2018, section 5.1 and appendix; Liu et al.,
Soft Rasterizer, 2019, with the batch norm of their published code; thesis sections 2.5 and 5.4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from gendr._common.checks import check_choice, check_float, check_shape
from gendr.mesh import Mesh, icosphere
from lab.resnet import first_blocks, later_blocks

__all__ = ["ENCODERS", "Decoder", "Encoder", "NoEncoder", "Reconstructor", "ResidualEncoder"]

CODE = 512  # numbers that stand for an image
RADIUS = 0.5  # of the sphere before it is deformed, in the unit cube of the decoder
SPAN = 0.5  # half the side of the cube that every prediction lies in
CENTROID_RATE = 0.1  # the centroid learns slower than the displacements


class Encoder(nn.Module):
    """Three convolutions and three linear layers: image [B, 4, H, W] -> code [B, 512].

    Args:
        side: H = W, a multiple of 8.
        channels: of the image.
    """

    def __init__(self, side: int = 64, channels: int = 4) -> None:
        super().__init__()
        widths = (channels, 64, 128, 256)
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Conv2d(before, after, 5, stride=2, padding=2, bias=False)]
            layers += [nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        self.convolutions = nn.Sequential(*layers)
        self.linears = nn.Sequential(
            nn.Flatten(),
            nn.Linear(256 * (side // 8) ** 2, 1024),
            nn.ReLU(inplace=True),
            nn.Linear(1024, 1024),
            nn.ReLU(inplace=True),
            nn.Linear(1024, CODE),
            nn.ReLU(inplace=True),
        )

    def forward(self, images: Tensor) -> Tensor:
        """The codes [B, 512] of images [B, C, H, W]."""
        return self.linears(self.convolutions(images))


class ResidualEncoder(nn.Module):
    """An encoder of the size of ResNet18 for small images: image [B, 4, H, W] -> code [B, 512].

    Our own, stronger choice beside the published one; results with it are reported apart.

    Args:
        side: H = W; only multiples of 8 are used to the border.
        channels: of the image.

    Source: He, Zhang, Ren, Sun, Deep Residual Learning, 2016, without the first pooling.
    """

    def __init__(self, side: int = 64, channels: int = 4) -> None:
        super().__init__()
        del side  # the mean over all places takes any size
        self.stem = nn.Sequential(
            nn.Conv2d(channels, 64, 5, 2, 2, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)
        )
        self.blocks = nn.Sequential(*first_blocks(), *later_blocks())
        self.last = nn.Linear(512, CODE)

    def forward(self, images: Tensor) -> Tensor:
        """The codes [B, 512] of images [B, C, H, W]."""
        return torch.relu(self.last(self.blocks(self.stem(images)).mean((-2, -1))))


class NoEncoder(nn.Module):
    """The same code [1, 512] -> [B, 512] for every image: the baseline that predicts one mesh.

    Trained as the others are, that mesh is the one which explains the training set best.

    Args:
        side: of the images, which are not looked at.
    """

    def __init__(self, side: int = 64) -> None:
        super().__init__()
        del side
        self.code = nn.Parameter(torch.randn(1, CODE))

    def forward(self, images: Tensor) -> Tensor:
        """The code, once for each of B images."""
        return self.code.expand(len(images), -1)


ENCODERS: dict[str, Callable[..., nn.Module]] = {
    "published": Encoder,
    "residual": ResidualEncoder,
    "none": NoEncoder,
}


class Decoder(nn.Module):
    """Code [B, 512] -> vertices [B, V, 3] of a deformed sphere within the cube [-1/2, 1/2]³.

    With base = 1/2 · sphere, each coordinate is sign(base) · sigmoid(logit(|base|) + displacement):
    it stays in its half axis and within (-1, 1). The centroid c = tanh(…) then moves the origin
    within the cube: what is positive is scaled by 1 - c, what is negative by 1 + c, and c is added.

    Args:
        sphere: one mesh, of radius 1 about the origin.
    """

    base: Tensor

    def __init__(self, sphere: Mesh) -> None:
        super().__init__()
        self.register_buffer("base", RADIUS * sphere.vertices.detach(), persistent=False)
        self.hidden = nn.Sequential(
            nn.Linear(CODE, 1024),
            nn.ReLU(inplace=True),
            nn.Linear(1024, 2048),
            nn.ReLU(inplace=True),
        )
        self.centroid = nn.Linear(2048, 3)
        self.displacement = nn.Linear(2048, self.base.numel())

    def forward(self, code: Tensor) -> Tensor:
        """Vertices [B, V, 3]."""
        hidden = self.hidden(code)
        centroid = torch.tanh(CENTROID_RATE * self.centroid(hidden)).unsqueeze(1)
        displacement = self.displacement(hidden).unflatten(-1, self.base.shape)
        size = self.base.abs()
        # A coordinate that is 0 stays 0: its logit is -inf, and no displacement changes that.
        size = torch.sigmoid(torch.logit(size) + displacement)
        placed = torch.where(self.base >= 0, size * (1 - centroid), -size * (1 + centroid))
        return SPAN * (placed + centroid)


class Reconstructor(nn.Module):
    """One image -> one mesh: the sphere of 642 vertices, deformed.

    Args:
        encoder: "published" (three convolutions), "residual" (of the size of ResNet18), or "none"
            (the same mesh for every image: a baseline).
        side: height and width of the images, a multiple of 8.
        subdivisions: of the sphere; 3 has 642 vertices and 1,280 faces.

    Attributes:
        options: the arguments, as a checkpoint keeps them.

    Raises:
        ValueError: for an unknown encoder or a side that is no positive multiple of 8.
    """

    def __init__(
        self, encoder: str = "published", *, side: int = 64, subdivisions: int = 3
    ) -> None:
        super().__init__()
        check_choice("encoder", encoder, tuple(ENCODERS))
        if side < 8 or side % 8:
            raise ValueError(f"side must be a positive multiple of 8, got {side}")
        self.options: dict[str, Any] = {
            "encoder": encoder,
            "side": side,
            "subdivisions": subdivisions,
        }
        self.side = side
        self.sphere = icosphere(subdivisions)
        self.encoder = ENCODERS[encoder](side)
        # Convolutions are a third faster on the CPU if the channels of a place lie side by side;
        # what they return lies as their weights do.
        for weight in self.encoder.parameters():
            if weight.ndim == 4:
                beside = torch.empty(weight.shape, memory_format=torch.channels_last)
                weight.data = beside.copy_(weight.data)
        self.decoder = Decoder(self.sphere)

    def forward(self, images: Tensor) -> Tensor:
        """Vertices [B, V, 3] in [-1/2, 1/2], world frame, of images [B, 4, side, side] in [0, 1].

        Raises:
            TypeError: for images that are no floats.
            ValueError: for images of another shape.
        """
        check_float("images", images)
        check_shape("images", images, "[B, 4, S, S]", S=self.side)
        code = self.encoder(images)
        # The decoder is small, and the shape of a mesh needs the digits of float32.
        with torch.autocast(images.device.type, enabled=False):
            return self.decoder(code.to(self.decoder.base.dtype))

    def mesh(self, images: Tensor) -> Mesh:
        """What `forward` makes of images, as a batch of B meshes."""
        return self.meshes(self(images))

    def meshes(self, vertices: Tensor) -> Mesh:
        """A batch of B meshes of vertices [B, V, 3]."""
        sphere = self.sphere.to(vertices.device)
        return sphere.repeated(len(vertices)).with_vertices(vertices.flatten(0, 1))
