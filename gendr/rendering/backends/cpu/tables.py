"""Conversion of the arguments of the CPU kernels, and of their results."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gendr._common.tracing import is_traced
from gendr.distributions import kernel_functions as distributions
from gendr.distributions.standard import StandardDistribution
from gendr.kernels.operator import KernelPair as KernelPair
from gendr.kernels.threads import run
from gendr.rendering.backends.cpu.records import FaceTables, Formulas
from gendr.rendering.geometry import ImageSize, ScreenFaces
from gendr.tnorms import kernel_functions as families

if TYPE_CHECKING:
    from gendr.rendering.coverage import Coverage
    from gendr.tnorms import TConorm

Number: TypeAlias = "Tensor | float"


_FEW = 4096  # faces whose boxes one thread finds before another one has woken up


def is_small(boxes: np.ndarray) -> bool:
    """Whether one thread draws faces in the 0.1 ms that others take to wake, by their boxes."""
    if len(boxes) > _FEW:
        return False
    width = (boxes[:, 1] - boxes[:, 0]).astype(np.float64)
    return width.dot(boxes[:, 3] - boxes[:, 2]) <= 1 << 16


def tables_of(
    faces: ScreenFaces, corners: Tensor, size: ImageSize, images: np.ndarray
) -> FaceTables:
    """The tables of a batch of images.

    Args:
        faces: of the batch.
        corners: theirs, for which there may be a copy in float64.
        size: of the images.
        images: by `image_table`.
    """
    from gendr.rendering.backends.cpu import project_kernels

    given = corners.detach().contiguous().numpy()
    offsets = np.asarray(faces.offsets, np.int64)
    image_of_face = np.arange(faces.images).repeat(offsets[1:] - offsets[:-1])
    boxes = np.zeros((len(given), 4), np.int32)
    run(
        project_kernels.face_boxes, len(given), given, image_of_face, images,
        size.height, size.width, boxes, pieces=2, alone=len(given) < _FEW,
    )  # fmt: skip
    if faces.has_absent:
        boxes[~faces.present.numpy()] = 0  # kernels walk the boxes  # pyright: ignore[reportOptionalMemberAccess]
    return FaceTables(given, offsets, image_of_face, boxes, images, pixel_grid(size))


def image_table(radius: Tensor, columns: dict[int, Any] | None = None) -> np.ndarray:
    """The numbers of images that kernels take.

    Args:
        radius: [B], how far a face reaches.
        columns: further ones by number, of all images or of each.
    """
    from gendr.rendering.backends.cpu import kernels

    images = np.zeros((len(radius), kernels.IMAGE_COLUMNS))
    images[:, kernels.RADIUS] = radius.detach().to(torch.float64).numpy()
    for column, values in (columns or {}).items():
        images[:, column] = values
    return images


@lru_cache(maxsize=64)
def pixel_grid(size: ImageSize) -> tuple[np.ndarray, np.ndarray]:
    """NDC of the columns and rows of pixel centres; both are padded, as kernels read on."""
    from gendr.rendering.backends.cpu import kernels

    x = (2 * np.arange(size.width + kernels.LANES) + 1 - size.width) / size.side
    y = (size.height - 1 - 2 * np.arange(size.height + kernels.LANES)) / size.side
    return x, y


def number_of(value: Any) -> float:
    """A parameter as a plain number; 0 if there is none, or one for each face."""
    if isinstance(value, Tensor):
        return 0.0 if value.ndim else float(value.detach())
    return float(value or 0.0)


_GREATEST_POWER = 75  # beyond it the power of an alpha of 1e-4 is no float64


def power_of(family: TConorm, p: Any) -> float:
    """The parameter of a family as a number, 0 if it has none.

    Raises:
        ValueError: the family sums up powers that leave float64 where alpha counts.
    """
    number = number_of(p)
    if abs(number) > _GREATEST_POWER and families.is_scaled(families.kernel_name(type(family))):
        raise ValueError(
            f"kernels of the CPU sum up powers of at most {_GREATEST_POWER}, got {family.name} "
            f"with p = {number:g}: take 'max', to which it tends, or backend='reference'"
        )
    return number


def formulas_of(
    coverage: Coverage, tconorm: TConorm, *, slopes: bool = True, scalars: bool = False,
    shape: bool = False, p: bool = False, inverse: bool = False, single: bool = False,
) -> Formulas:  # fmt: skip
    """Look both up, with what is wanted for gradients of scalars, shape and p, and the inverse.

    With `single` they are those of float32, which `is_single` has allowed.
    A forward pass wants no `slopes`, which would be compiled before the first picture.
    """
    dist = coverage.dist
    dist_class, family_class = type(dist.base), type(tconorm)
    assert issubclass(dist_class, StandardDistribution)  # callers handle other CDFs
    distribution, family = distributions.kernel_name(dist_class), families.kernel_name(family_class)
    given, is_max = dist.shape_parameter, tconorm.kind == "max"
    return Formulas(
        dist.is_reversed,
        dist.is_squared,
        is_max,
        scalars,
        number_of(given) if isinstance(given, Tensor) else float(given or 0.0),
        dist.art_exponent,
        coverage.cutoff,
        *_addresses(distribution, family, is_max, slopes, shape, p, inverse or single, single),
        inverse and tconorm.is_product,
    )


@cache
def _addresses(
    dist: str, family: str, idempotent: bool, slopes: bool, shape: bool, p: bool, inverse: bool,
    single: bool,
) -> tuple[int, int, int, int, int, int, int]:  # fmt: skip
    """Those of `Formulas`, by the names of the kernels of a distribution and of a family."""
    from gendr.distributions import numba as of_distributions
    from gendr.tnorms import numba as of_families

    of_distribution = of_distributions.single_loop if single else of_distributions.loop
    of_family = of_families.single_loop if single else of_families.loop
    loops: tuple[tuple[bool, Any, str, Any], ...] = (
        (True, of_distribution, dist, "tails"),
        (slopes, of_distribution, dist, of_distributions.BOTH),
        (shape, of_distributions.loop, dist, "shape_slope"),
        (not idempotent, of_family, family, "generator"),
        (slopes and not idempotent, of_family, family, "weight"),
        (p, of_families.loop, family, "weight_p"),
        (inverse and not idempotent, of_family, family, "inverse"),
    )
    found = [loop(name, kind).address if wanted else 0 for wanted, loop, name, kind in loops]
    return tuple(found)  # pyright: ignore[reportReturnType]  # of seven


# The least width of a distribution, in pixels, at which distances in float32 have the digits of
# coverage: their errors are below 1e-6 pixels.
_STEEPEST = 0.01
# Beyond this power generators leave the range of float32 where coverage does not round to 1.
_STEEPEST_POWER = 4.0


def is_single(
    faces: ScreenFaces, size: ImageSize, coverage: Coverage, tconorm: TConorm | None,
    scalars: Iterable[Any], *, measured: bool = True,
) -> bool:  # fmt: skip
    """Whether float32 has the digits that are needed, and its kernels what is wanted.

    The maximum compares coverages, whose ties are those of float64, and a step compares distances.

    Args:
        faces: of the batch.
        size: of the images.
        coverage: how faces cover pixels.
        tconorm: that joins them, if one does.
        scalars: other tensors and numbers, of which none may want a gradient.
        measured: whether the distribution has to be wide enough; otherwise the kernels look for
            themselves.
    """
    dist = coverage.dist
    if faces.corners.dtype != torch.float32 or coverage.double or dist.art_exponent or is_traced():
        return False
    for x in filter(torch.is_tensor, scalars):
        if x.requires_grad or x.ndim > 1:
            return False
    p = None if tconorm is None else tconorm.given_p
    if p is not None and not 1 / _STEEPEST_POWER <= abs(number_of(p)) <= _STEEPEST_POWER:
        return False
    assert isinstance(dist.base, StandardDistribution)  # callers handle other CDFs
    distribution = distributions.kernel_name(type(dist.base))
    family = None if tconorm is None else families.kernel_name(type(tconorm))
    if dist.support[0] == dist.support[1] or not _has_single(distribution, family):
        return False
    if not measured:
        return True
    least = float(coverage.scale.detach().min()) if len(coverage.scale) else 1.0
    return (least**0.5 if dist.is_squared else least) * size.side / 2 >= _STEEPEST


@cache
def _has_single(dist: str, family: str | None) -> bool:
    """Whether there are loops in float32, by the names of the kernels."""
    from gendr.distributions import numba as of_distributions
    from gendr.tnorms import numba as of_families

    return of_distributions.has_single(dist) and (family is None or of_families.has_single(family))


def sums_per_image(values: np.ndarray, offsets: np.ndarray) -> Tensor:
    """Sum values [T, K] of faces over the faces of each image: [B, K]."""
    sums = [values[a:b].sum(0) for a, b in pairwise(offsets)]
    return torch.from_numpy(np.stack(sums) if sums else values[:0])


def narrowed(values: Any, dtype: torch.dtype) -> Tensor:
    """An array or tensor of float64 in a dtype, in which it is finite, as sums of a few are.

    It is changed where it lies if the dtype is the same.
    """
    limit = torch.finfo(dtype).max / 4
    return torch.as_tensor(values, device="cpu").to(dtype).clamp_(-limit, limit)
