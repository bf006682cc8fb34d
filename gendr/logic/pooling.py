"""The "or" of neighbouring pixels, relaxed by their maximum.

Source: Petersen et al., Convolutional Differentiable Logic Gate Networks, NeurIPS 2024, section
3.1.
"""

from __future__ import annotations

from typing import final

from torch import Tensor, nn
from torch.nn.functional import max_pool2d

from gendr._common.checks import dtype_name
from gendr._common.tracing import is_traced
from gendr.logic.images import Pair, Window, as_images, batch_last


@final
class OrPool2d(nn.Module):
    """The largest of the pixels of each window: [B, C, H, W] -> [B, C, H', W'].

    On bits this is their "or", which `harden` makes of it. The maximum is the T-conorm that costs
    least to train: only the largest pixel has a gradient, the first one of equals.

    Args:
        kernel_size: of the window, pixels or (rows, columns).
        stride: by how much it moves; by default its size.
        padding: places outside, which count as 0; at most half of the window.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if one is out of its range.

    Source: Petersen et al., NeurIPS 2024, section 3.1.
    """

    def __init__(self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0) -> None:
        super().__init__()
        self.window = Window.of(kernel_size, kernel_size if stride is None else stride, padding)
        size, outside = self.window.size, self.window.padding
        if 2 * outside[0] > size[0] or 2 * outside[1] > size[1]:
            raise ValueError(
                f"padding must be at most half of the kernel_size {list(size)}, got {list(outside)}"
            )

    def forward(self, x: Tensor) -> Tensor:
        """Pool images.

        Args:
            x: [B, C, H, W] or [C, H, W], in [0, 1], not checked.

        Returns:
            [B, C, H', W'] or [C, H', W'], H' = floor((H + 2 padding - kernel_size) / stride) + 1.

        Raises:
            TypeError: if x is no tensor, or holds no floating-point numbers.
            ValueError: if it has another shape, no pixel, or is smaller than the window.
        """
        images, is_batch = as_images(x)
        if not x.is_floating_point():
            raise TypeError(
                f"x must be floating-point, got {dtype_name(x.dtype)}; convert it with .float()"
            )
        self.window.positions(*images.shape[2:])
        # The batch as channels that lie innermost: torch then pools whole rows of it, in place of
        # a copy to another order and back.
        if not is_traced() and len(images):
            columns = batch_last(images).permute(0, 3, 1, 2)
            pooled = max_pool2d(columns, *self.window).transpose(0, 1)
        else:  # for an empty one torch has no channels, and graphs keep its size free
            pooled = max_pool2d(images, *self.window)
        return pooled if is_batch else pooled[0]

    def extra_repr(self) -> str:
        """What the text of a model shows."""
        size, stride, padding = self.window
        return f"kernel_size={size}, stride={stride}, padding={padding}"
