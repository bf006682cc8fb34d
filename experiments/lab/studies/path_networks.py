"""Networks for shortest paths on maps: the first block of ResNet18 gives costs, all of it a path.

Source: He, Zhang, Ren, Sun, Deep Residual Learning, 2016; Vlastelica et al., Differentiation of
Blackbox Combinatorial Solvers, 2020, for how it is cut; thesis, section 2.4.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from lab.resnet import first_blocks, later_blocks


def _first_block() -> nn.Sequential:
    """Images [B, 3, H, W] -> features [B, 64, H / 4, W / 4] >= 0."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        *first_blocks(),
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
        later = later_blocks()  # made before the first, so that a seed gives the same numbers
        self.blocks = nn.Sequential(_first_block(), *later)
        self.last = nn.Linear(512, grid[0] * grid[1])

    def forward(self, images: Tensor) -> Tensor:
        """Logits [B, H, W] of images [B, 3, 8 H, 8 W]."""
        return self.last(self.blocks(images).mean((-2, -1))).unflatten(-1, self.grid)
