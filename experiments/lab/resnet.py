"""The blocks of ResNet18, of which networks for reconstruction and for maps are made."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["BasicBlock", "first_blocks", "later_blocks"]


class BasicBlock(nn.Module):
    """Two 3 × 3 convolutions beside the identity, the basic block of ResNet18.

    Args:
        before: channels of the input.
        after: channels of the result.
        stride: of the first convolution; other than 1, or with other channels, a 1 × 1 convolution
            stands in place of the identity.

    Source: He, Zhang, Ren, Sun, Deep Residual Learning, 2016.
    """

    def __init__(self, before: int, after: int, stride: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        same = before == after and stride == 1
        self.beside = (
            nn.Identity()
            if same
            else nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        """Features [B, after, H / stride, W / stride]."""
        return torch.relu(self.body(x) + self.beside(x))


def first_blocks() -> list[BasicBlock]:
    """The two blocks on features [B, 64, H, W], which stay of that size."""
    return [BasicBlock(64, 64), BasicBlock(64, 64)]


def later_blocks() -> list[BasicBlock]:
    """The six blocks from features [B, 64, H, W] to [B, 512, H / 8, W / 8]."""
    blocks: list[BasicBlock] = []
    for before, after in ((64, 128), (128, 256), (256, 512)):
        blocks += [BasicBlock(before, after, 2), BasicBlock(after, after)]
    return blocks
