"""What layers that read images share: sizes, windows, and how positions lie in memory.

Within layers of gates an image is the matrix [C H W, B]: the batch is innermost, so that pixels are
features, and every gate at every position is a loop over neighbours. Outside it is [B, C, H, W], a
view of it.
"""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import torch
from torch import Tensor

from gendr._common.checks import check_image_size, check_tensor, shape_text

Pair = int | tuple[int, int]


def check_padding(value: Pair) -> tuple[int, int]:
    """(rows, columns) of a padding.

    Raises:
        TypeError: if it is neither one whole number nor two.
        ValueError: if one is negative.
    """
    pair = value if isinstance(value, tuple) else (value, value)
    if len(pair) != 2 or any(isinstance(n, bool) or not isinstance(n, Integral) for n in pair):
        raise TypeError(f"padding must be an int or (rows, columns), got {value!r}")
    if min(pair) < 0:
        raise ValueError(f"padding must be >= 0, got {value!r}")
    return int(pair[0]), int(pair[1])


class Window(NamedTuple):
    """A window that moves over an image.

    Attributes:
        size: its height and width.
        stride: how far it moves, down and to the right.
        padding: how many places it may stand out at each side.
    """

    size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]

    @classmethod
    def of(cls, kernel_size: Pair, stride: Pair, padding: Pair) -> Window:
        """A window from arguments as of torch's modules.

        Raises:
            TypeError: if one is neither one whole number nor two.
            ValueError: if one is too small.
        """
        return cls(
            check_image_size(kernel_size, "kernel_size"), check_image_size(stride, "stride"),
            check_padding(padding),
        )  # fmt: skip

    def positions(self, height: int, width: int) -> tuple[int, int]:
        """How many positions it has, by rows and columns.

        Raises:
            ValueError: if it is larger than the padded image.
        """
        padded = (height + 2 * self.padding[0], width + 2 * self.padding[1])
        if self.size[0] > padded[0] or self.size[1] > padded[1]:
            raise ValueError(
                f"kernel_size {list(self.size)} is larger than the image with its padding, "
                f"{list(padded)}; take a smaller one, or more padding"
            )
        rows, columns = ((padded[k] - self.size[k]) // self.stride[k] + 1 for k in range(2))
        return rows, columns

    def pixels(
        self, rows: Tensor, columns: Tensor, height: int, width: int
    ) -> tuple[Tensor, Tensor]:
        """The pixels that places of the window fall on, at all its positions.

        Args:
            rows: [N], of the places in the window.
            columns: [N].
            height: of the image.
            width: of the image.

        Returns:
            Pixels [N, P], row by row, and whether they are outside, [N, P]; those stand for the
            nearest one that is inside.
        """
        down, right = self.positions(height, width)

        def along(places: Tensor, count: int, axis: int) -> Tensor:
            steps = torch.arange(count, device=places.device) * self.stride[axis]
            return places[:, None] + steps - self.padding[axis]

        y, x = along(rows, down, 0)[:, :, None], along(columns, right, 1)[:, None]
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        pixels = y.clamp(0, height - 1) * width + x.clamp(0, width - 1)
        return pixels.flatten(1), ~inside.flatten(1)


def as_images(x: Tensor, channels: int | None = None) -> tuple[Tensor, bool]:
    """Images [B, C, H, W] of [B, C, H, W] or [C, H, W], and whether there is a batch.

    Raises:
        TypeError: if it is no tensor.
        ValueError: if it has another shape, another number of channels, or no pixel.
    """
    check_tensor("x", x, meta=True)
    name = "C" if channels is None else str(channels)
    is_image = x.ndim in (3, 4) and 0 not in x.shape[-3:]
    # Not `in`, for graphs may have a symbol for the size.
    if not is_image or (channels is not None and channels != x.shape[-3]):
        raise ValueError(
            f"x must have shape [B, {name}, H, W] or [{name}, H, W] with one pixel at least, got "
            f"{shape_text(x.shape)}"
        )
    return (x, True) if x.ndim == 4 else (x[None], False)


def batch_last(images: Tensor) -> Tensor:
    """Images [B, C, H, W] as [C, H, W, B], contiguous; no copy if they lie in memory like that."""
    return images.permute(1, 2, 3, 0).contiguous()
