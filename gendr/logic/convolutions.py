"""Convolutions by trees of gates: the same small circuit at every position of an image.

A tree of depth d reads 2^d places of its window and joins them by 2^d - 1 gates of two inputs. What
is learnt are its gates, which all positions share; what it reads is drawn once.

Source: Petersen et al., Convolutional Differentiable Logic Gate Networks, NeurIPS 2024, section 3,
equation 3 (trees), section 3.4 (two channels for each tree).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from gendr._common.checks import check_choice, check_count
from gendr._common.words import worded
from gendr.logic.backends.wires import Wires
from gendr.logic.images import Pair, Window, as_images, batch_last
from gendr.logic.neurons import Estimator, Initialization, Neurons, Parametrization
from gendr.logic.wiring import check_wires, tree_wiring
from gendr.tnorms import TConorm, TNorm

# How many channels a tree reads by default (Petersen et al. 2024, section 3.4).
CHANNELS = 2


class _ConvolutionPlan(NamedTuple):
    """The wires of a layer for one size of images.

    Attributes:
        shape: H' and W'.
        levels: of each level of the trees. Those of the first go from all positions to pixels.
        outside: [2, gates, P], which inputs of the first level read the padding; None without one.
    """

    shape: tuple[int, int]
    levels: list[Wires]
    outside: Tensor | None


@worded(paper=("temperature",))
@final
class LogicConv2d(Neurons):
    """Trees of gates over images: [B, in_channels, H, W] in [0, 1] -> [B, out_channels, H', W'].

    Each output channel is a complete binary tree of gates whose leaves are places of the window,
    the same at every position. In `eval` mode the gates are hard, so that bits give bits.

    The wires do what a copy of all windows (im2col) would: the gates of the first level read the
    pixels themselves, at all positions; those of a later one read what the level before has left,
    with all positions as one long batch. For the backward pass one number is kept for each gate,
    position and image. In memory the batch is the innermost dimension, so that layers in a row and
    `nn.Flatten` do not copy.

    Args:
        in_channels: C.
        out_channels: how many trees there are.
        kernel_size: of the window, pixels or (rows, columns).
        depth: d of the trees, >= 1; a tree has 2^d leaves, which are different places.
        stride: by how much the window moves.
        padding: places outside, which are 0.
        channels_per_tree: of how many channels a tree reads places; by default 2, as in the paper,
            or 1 if there is one. All channels are read by about equally many trees.
        groups: as of `nn.Conv2d`: trees of the j-th part of the output channels read only the j-th
            part of the input channels.
        wiring: "random", or places [2^d, out_channels], indices into the window
            [in_channels, rows, columns], flattened. Kept in the state dict.
        parametrization: "gates", "table" or "walsh"; see `LogicLayer`.
        gates: ids or names of the gates to choose from, for "gates"; by default all 16.
        init: "residual", every tree starts as a wire from its first leaf, or "normal".
        estimator: see `LogicLayer`.
        tconorm: see `LogicLayer`.
        scale: see `LogicLayer`.
        seed: of the wiring and the initial weights; None takes torch's global random numbers.
        backend: "auto", "cpu", "triton" or "reference".
        device: of the weights.
        dtype: of the weights.

    Attributes:
        places: [2^d, out_channels] int64, the leaves of each tree; gate j of the first level reads
            leaves 2j and 2j + 1.
        weight: [out_channels (2^d - 1), gates], or [.., 4]: the gates of the first level of all
            trees, by tree, then those of the second, and so on.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if one is out of its range, or two do not fit together.

    Source: Petersen et al., NeurIPS 2024, equation 3.
    """

    places: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        *,
        depth: int = 3,
        stride: Pair = 1,
        padding: Pair = 0,
        channels_per_tree: int | None = None,
        groups: int = 1,
        wiring: str | Tensor = "random",
        parametrization: Parametrization | None = None,
        gates: Iterable[int | str] | None = None,
        init: Initialization = "residual",
        estimator: Estimator = "expected",
        tconorm: str | TConorm | TNorm = "probabilistic",
        scale: float = 1.0,
        seed: int | None = None,
        backend: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        in_channels = check_count("in_channels", in_channels)
        out_channels = check_count("out_channels", out_channels)
        window = Window.of(kernel_size, stride, padding)
        area = window.size[0] * window.size[1]
        groups = check_count("groups", groups)
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"groups must divide the {in_channels} input and the {out_channels} output "
                f"channels, got {groups}"
            )
        each = in_channels // groups
        if channels_per_tree is None:
            channels_per_tree = min(CHANNELS, each)
        channels_per_tree = check_count("channels_per_tree", channels_per_tree)
        if channels_per_tree > each:
            raise ValueError(
                f"channels_per_tree must be <= {each}, the channels that a tree can read, got "
                f"{channels_per_tree}"
            )
        depth = check_count("depth", depth)
        leaves = 1 << min(depth, 62)
        if isinstance(wiring, Tensor):
            places = check_wires(wiring, in_channels * area, out_channels, leaves)
            if groups > 1:
                raise ValueError("groups are for a random wiring; leave them out, or the wiring")
        else:
            check_choice("wiring", wiring, ("random",))
            places = tree_wiring(
                in_channels, area, out_channels, leaves, channels_per_tree, groups=groups,
                seed=seed,
            )  # fmt: skip
        super().__init__(
            out_channels * ((1 << depth) - 1), 2, parametrization=parametrization, gates=gates,
            estimator=estimator, tconorm=tconorm, scale=scale, backend=backend,
            device=device, dtype=dtype,
        )  # fmt: skip
        self.in_channels, self.out_channels, self.depth = in_channels, out_channels, depth
        self.window, self.groups = window, groups
        self.register_buffer("places", places.to(self.weight.device))
        self.reset(init, seed=seed)

    def forward(self, x: Tensor) -> Tensor:
        """The outputs of all trees at all positions.

        Args:
            x: [B, in_channels, H, W] or [in_channels, H, W], in [0, 1], not checked; in the dtype
                of the weights, or in that of `torch.autocast`.

        Returns:
            [B, out_channels, H', W'] or [out_channels, H', W'], in the dtype of x,
            H' = floor((H + 2 padding - kernel_size) / stride) + 1.

        Raises:
            TypeError: if x is no tensor, or has another dtype than the weights.
            ValueError: if it has another shape, another number of channels, no pixel, or is smaller
                than the window.
        """
        images, is_batch = as_images(x, self.in_channels)
        images = self._entered(images)
        batch, _, height, width = images.shape
        plan = self._cached(lambda: self._planned(height, width), (height, width))
        first, *others = self._present_tables().split(self.level_sizes())
        positions = plan.shape[0] * plan.shape[1]
        rows = batch_last(images).reshape(self.in_channels * height * width, batch)
        out = self._outputs(rows, plan.levels[0], _at_positions(first, positions, plan.outside))
        for wires, tables in zip(plan.levels[1:], others, strict=True):
            out = self._outputs(out.reshape(wires.features, positions * batch), wires, tables)
        out = out.reshape(self.out_channels, *plan.shape, batch).permute(3, 0, 1, 2)
        return (out if is_batch else out[0]).to(x.dtype)

    def level_sizes(self) -> list[int]:
        """How many gates each level of the trees has, all trees together."""
        return [self.out_channels << k for k in range(self.depth - 1, -1, -1)]

    def leaves(self, height: int, width: int) -> tuple[Tensor, Tensor]:
        """The features that the leaves of all trees are at all positions.

        Args:
            height: of the images.
            width: of the images.

        Returns:
            Features [2^d, out_channels, P], indices into [in_channels, H, W], and whether they are
            in the padding, where they are 0. Positions are row by row.

        Raises:
            ValueError: if the image is smaller than the window.
        """
        (rows, columns), places = self.window.size, self.places.flatten()
        pixels, outside = self.window.pixels(
            places // columns % rows, places % columns, height, width
        )
        features = places[:, None] // (rows * columns) * (height * width) + pixels
        shape = (*self.places.shape, -1)
        return features.view(shape), outside.view(shape)

    def _indices(self) -> tuple[str, int, str]:
        size = self.in_channels * self.window.size[0] * self.window.size[1]
        return "places", size, "places of the window"

    def _kind(self) -> dict[str, Any]:
        """See `OfAKind`."""
        size, stride, padding = self.window
        return {
            **super()._kind(), "in_channels": self.in_channels, "depth": self.depth,
            "kernel_size": list(size), "stride": list(stride), "padding": list(padding),
        }  # fmt: skip

    def _planned(self, height: int, width: int) -> _ConvolutionPlan:
        """The wires for images of a size."""
        features, outside = self.leaves(height, width)

        def by_gate(leaves: Tensor) -> Tensor:
            """[2, gates, P] of [2^d, out_channels, P]; gates by tree."""
            return leaves.unflatten(0, (-1, 2)).permute(1, 2, 0, 3).flatten(1, 2)

        pixels = self.in_channels * height * width
        levels = [Wires(by_gate(features).flatten(1), pixels)]
        for size in self.level_sizes()[1:]:
            pairs = torch.arange(2 * size, device=self.places.device).view(size, 2).T
            levels.append(Wires(pairs, 2 * size))
        shape = self.window.positions(height, width)
        return _ConvolutionPlan(
            shape, levels, by_gate(outside) if any(self.window.padding) else None
        )

    def extra_repr(self) -> str:
        """What the text of a model shows."""
        size, stride, padding = self.window
        parts = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={size}, depth={self.depth}",
            f"stride={stride}", f"padding={padding}",
        ]  # fmt: skip
        parts += [f"groups={self.groups}"] if self.groups > 1 else []
        return ", ".join([*parts, *self._options()])


def _at_positions(tables: Tensor, positions: int, outside: Tensor | None) -> Tensor:
    """The tables of gates at all positions, [gates P, 4].

    A gate whose input lies in the padding has there the table for a 0, which does not depend on
    what it reads: no image with a margin is made.
    """
    spread = tables.reshape(-1, 1, 2, 2).expand(-1, positions, 2, 2)
    if outside is not None:
        first, second = outside[..., None, None]
        spread = torch.where(first, spread[:, :, :1], spread)
        spread = torch.where(second, spread[..., :1], spread)
    return spread.reshape(-1, 4)
