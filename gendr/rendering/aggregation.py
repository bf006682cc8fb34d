"""Stage 3, aggregation: alpha = T-conorm over the fragments of a pixel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gendr.rendering.coverage import Coverage
from gendr.rendering.fragments import PixelPairs, recomputed
from gendr.tnorms.groups import Grouping, Segments

if TYPE_CHECKING:
    from gendr.distributions.base import Number
    from gendr.rendering.geometry import ImageSize, ScreenFaces
    from gendr.tnorms import TConorm

PAIRS_AT_ONCE = 4_000_000  # pairs in a list: about 1 GB of temporaries


@dataclass(frozen=True, eq=False)
class Aggregation:
    """The distribution and the T-conorm of a renderer, checked: how faces become alpha.

    Attributes:
        coverage: computes how far one face covers a pixel.
        tconorm: joins the coverages of all faces of a pixel.
    """

    coverage: Coverage
    tconorm: TConorm

    def with_numbers(
        self, scale: Tensor, shift: Number, shape: Number | None, p: Number | None
    ) -> Aggregation:
        """The same for the tensors that an operator got in place of those it was called with."""
        of, dist = self.coverage, self.coverage.dist.with_numbers(shift, shape)
        coverage = Coverage(dist, scale, of.cutoff, of.number, of.double)
        return Aggregation(coverage, self.joining(p))

    def joining(self, p: Number | None) -> TConorm:
        """The T-conorm, with p in place of its parameter if that is a tensor."""
        return type(self.tconorm)(p) if isinstance(p, Tensor) else self.tconorm  # pyright: ignore[reportCallIssue]  # it has a parameter

    def join(self, a: Tensor, s: Tensor, pixels: Grouping) -> Tensor:
        """Alpha of every pixel from coverages a and s = 1 - a; equation (5.4)."""
        return self.tconorm.aggregate(a, s, pixels)[0]


def alpha_of_pairs(
    runs: list[Callable[[], PixelPairs]],
    distance: Callable[[ScreenFaces, ImageSize, Tensor, Tensor], Tensor],
    gather: Callable[[Tensor, Tensor], Tensor],
    faces: ScreenFaces,
    size: ImageSize,
    aggregation: Aggregation,
) -> Tensor:
    """Alpha of every pixel, [B, H, W], in plain torch, from listed pairs; bounded in memory.

    Args:
        runs: the pairs that can have a coverage, as `Backend.pairs` lists them.
        distance: as `Backend.distance`.
        gather: as `Backend.gather`.
        faces: on the screen.
        size: of the images.
        aggregation: how they join.
    """
    coverage = aggregation.coverage

    def run(listing: Callable[[], PixelPairs]) -> Tensor:
        pixels, face, first, last = listing()
        d = distance(faces, size, pixels, face)
        a, s = coverage.of(d, gather(coverage.scale, size.image_of(pixels)))
        return aggregation.join(a, s, Segments(pixels - first, last - first))

    none = faces.corners.reshape(-1)[:0]  # what a batch of 0 images is made of
    flat = torch.cat([none, *recomputed(run, runs)])
    return flat.reshape(faces.images, size.height, size.width)
