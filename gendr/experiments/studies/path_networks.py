"""Networks for shortest paths on maps: the first block of ResNet18 gives costs, all of it a path.

Source: He, Zhang, Ren, Sun, Deep Residual Learning, 2016; Vlastelica et al., Differentiation of
Blackbox Combinatorial Solvers, 2020, for how it is cut; thesis, section 2.4.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from gendr._runtime.resnet import BasicBlock

__all__ = ["CostNet", "PathNet"]


def _first_block() -> nn.Sequential:
    """Images [B, 3, H, W] -> features [B, 64, H / 4, W / 4] >= 0."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        BasicBlock(64, 64),
        BasicBlock(64, 64),
    )


class CostNet(nn.Module):
    """The first block of ResNet18, then the maximum within each cell, then the mean of features.

    Args:
        grid: (H, W) of the costs.
    """

    def __init__(self, grid: tuple[int, int]) -> None:
        super().__init__()
        self.grid = grid
        self.block = _first_block()
        # Faster on a CPU, measured with 70 images of 96 x 96: 0.43 against 0.56 s.
        self.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    def forward(self, images: Tensor) -> Tensor:
        """Costs [B, H, W] >= 0 of images [B, 3, 8 H, 8 W]."""
        features = functional.adaptive_max_pool2d(self.block(images), self.grid)
        # Of features in bfloat16 too, the mean has the digits of float32.
        return features.float().mean(1)


class PathNet(nn.Module):
    """All of ResNet18: a number for each cell, without an algorithm behind it; the baseline.

    Args:
        grid: (H, W) of the numbers.
    """

    def __init__(self, grid: tuple[int, int]) -> None:
        super().__init__()
        self.grid = grid
        blocks: list[nn.Module] = []
        for before, after in ((64, 128), (128, 256), (256, 512)):
            blocks += [BasicBlock(before, after, 2), BasicBlock(after, after)]
        self.blocks = nn.Sequential(_first_block(), *blocks)
        self.last = nn.Linear(512, grid[0] * grid[1])
        self.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    def forward(self, images: Tensor) -> Tensor:
        """Logits [B, H, W] of images [B, 3, 8 H, 8 W]."""
        return self.last(self.blocks(images).mean((-2, -1))).unflatten(-1, self.grid)
