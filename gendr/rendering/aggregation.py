"""Stage 3, aggregation: alpha = T-conorm over the fragments of a pixel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gendr._common.checks import check_choice, check_memory
from gendr._common.registry import is_of_package
from gendr._common.tracing import is_traced, lasting, once
from gendr.rendering.coverage import Coverage
from gendr.rendering.fragments import PixelPairs, recomputed
from gendr.tnorms.groups import Grouping, Segments

if TYPE_CHECKING:
    from gendr.distributions import Distribution
    from gendr.distributions.base import Number
    from gendr.distributions.registry import DistributionLike
    from gendr.rendering.geometry import ImageSize, ScreenFaces
    from gendr.tnorms import TConorm

PRECISIONS = ("auto", "double")
PAIRS_AT_ONCE = 4_000_000  # pairs in a list: about 1 GB of temporaries
_KEPT = 64  # aggregations of a model, as of a schedule of scales, and models


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


@dataclass(frozen=True, eq=False)
class Model:
    """A distribution and a T-conorm, which make an `Aggregation` of a scale and a batch."""

    dist: Distribution
    tconorm: TConorm
    _kept: dict[Any, Aggregation] = field(init=False, repr=False, default_factory=dict)

    def __reduce__(self) -> Any:
        """As a new one: what backends keep in aggregations is of this process."""
        return Model, (self.dist, self.tconorm)

    def aggregation(
        self, scale: float | Tensor, cutoff: float, images: int, size: ImageSize, like: Tensor,
        precision: str,
    ) -> Aggregation:  # fmt: skip
        """How the faces of a batch become alpha; the same numbers give the same one.

        Args:
            scale: checked, NDC, or NDC^2 for squared distributions.
            cutoff: in [0, 1).
            images: how many there are.
            size: theirs.
            like: a tensor of their dtype, on their device.
            precision: one of `PRECISIONS`.

        Raises:
            TypeError: for a cutoff that is no number.
            ValueError: for a cutoff outside [0, 1), scales that do not fit the batch, or a
                precision that there is not, or not there.
            MemoryError: for a batch of images that the memory could not hold, before it is made.
        """
        if (
            like.device.type != "cpu"  # a CUDA graph would read what may be gone
            or not (type(scale) is type(cutoff) is float and precision in PRECISIONS)
            or self.has_tensors
            or is_traced()
        ):
            return self._made(scale, cutoff, images, size, like, precision)
        key = scale, cutoff, images, size.pixels, like.dtype, precision
        found = self._kept.get(key)  # once: another thread may clear them
        if found is None:
            with lasting():
                found = self._made(scale, cutoff, images, size, like, precision)
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[key] = found
        return found

    @once
    def has_tensors(self) -> bool:
        """Whether a parameter is a tensor, of which nothing is kept."""
        return self.dist.has_tensors or isinstance(self.tconorm.given_p, Tensor)

    def _made(
        self, scale: float | Tensor, cutoff: float, images: int, size: ImageSize, like: Tensor,
        precision: str,
    ) -> Aggregation:  # fmt: skip
        dtype, device = like.dtype, like.device
        double = is_double(precision, device)
        if isinstance(cutoff, bool) or not isinstance(cutoff, (int, float)):
            raise TypeError(f"cutoff must be a number, got {type(cutoff).__name__}")
        if not 0 <= cutoff < 1:
            raise ValueError(f"cutoff must be in [0, 1), got {cutoff}; 0 is exact")
        check_batch(images, size, dtype, device)
        if isinstance(scale, Tensor):
            per_image = scale.to(dtype=dtype, device=device)
        else:  # filled on the device: a copy of the number would make the host wait
            per_image = torch.full((), scale, dtype=dtype, device=device)
        if per_image.ndim == 1 and len(per_image) not in (1, images):
            raise ValueError(
                f"scale must be one number or one per image: {images}, got {len(per_image)}"
            )
        number = None if isinstance(scale, Tensor) else scale
        coverage = Coverage(self.dist, per_image.expand(images), float(cutoff), number, double)
        return Aggregation(coverage, self.tconorm)


_kept_model = lru_cache(maxsize=_KEPT)(Model)


def model_of(dist: DistributionLike, tconorm: str | TConorm) -> Model:
    """The model of what users may pass; the same settings give the same one."""
    from gendr.distributions import as_distribution
    from gendr.tnorms import as_tconorm

    join, found = as_tconorm(tconorm), as_distribution(dist)
    kept = is_of_package(type(found.base)) and is_of_package(type(join)) and not is_traced()
    if not kept or found.has_tensors or isinstance(join.given_p, Tensor):
        return Model(found, join)
    return _kept_model(found, join)


def check_batch(images: int, size: ImageSize, dtype: torch.dtype, device: torch.device) -> None:
    """Raise for a batch of images that the memory could not hold, before it is made.

    Raises:
        MemoryError: that says how much they need and there is.
    """
    if device.type == "cpu" and not is_traced():
        what = f"a batch of {images} images of {size.height} x {size.width} pixels"
        check_memory(what, images * size.pixels * dtype.itemsize)


def is_double(precision: str, device: torch.device) -> bool:
    """Whether kernels of the CPU are asked to compute in float64.

    Raises:
        ValueError: for a precision that there is not, or not there.
    """
    double = check_choice("precision", precision, PRECISIONS) == "double"
    if double and device.type != "cpu":
        raise ValueError(
            f'precision="double" is of the CPU, got tensors on {device}, where kernels '
            'compute in float32; move them to the CPU, or use float64 with backend="reference"'
        )
    return double


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
