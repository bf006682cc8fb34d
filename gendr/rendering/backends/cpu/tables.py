"""Conversion of the arguments of the CPU kernels, and of their results."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from gendr._runtime.threads import run
from gendr.rendering.geometry import ImageSize, ScreenFaces

if TYPE_CHECKING:
    from gendr.distributions import Distribution
    from gendr.tnorms import TConorm


@dataclass(frozen=True)
class FaceTables:
    """The arrays that describe faces, images and the renderer to the kernels."""

    corners: np.ndarray  # [T, N, 2] float64
    offsets: np.ndarray  # [B + 1] int64
    image_of_face: np.ndarray  # [T] int64
    boxes: np.ndarray  # [T, 4] int32
    images: np.ndarray  # [B, 4] float64
    grid: tuple[np.ndarray, np.ndarray]  # x of the columns, y of the rows


def tables_of(
    faces: ScreenFaces, size: ImageSize, radius: Tensor, columns: dict[int, Any] | None = None
) -> FaceTables:
    """The tables of a batch of images; `columns` are further columns of `images`."""
    from gendr.rendering.backends.cpu import kernels

    corners = faces.corners.detach().to(torch.float64).contiguous().numpy()
    offsets = np.asarray(faces.offsets, np.int64)
    image_of_face = np.repeat(np.arange(faces.images), np.diff(offsets))
    images = np.zeros((faces.images, kernels.IMAGE_COLUMNS))
    images[:, kernels.RADIUS] = radius.detach().to(torch.float64).numpy()
    for column, values in (columns or {}).items():
        images[:, column] = values
    boxes = np.zeros((len(corners), 4), np.int32)
    run(
        kernels.face_boxes, len(corners), corners, image_of_face, images,
        size.height, size.width, boxes, pieces=2,
    )  # fmt: skip
    if faces.present is not None:
        boxes[~faces.present.numpy()] = 0  # kernels walk the boxes
    return FaceTables(corners, offsets, image_of_face, boxes, images, pixel_grid(size))


def pixel_grid(size: ImageSize) -> tuple[np.ndarray, np.ndarray]:
    """NDC of the columns and rows of pixel centres; the columns are padded, as kernels read on."""
    from gendr.rendering.backends.cpu import kernels

    x = (2 * np.arange(size.width + kernels.LANES) + 1 - size.width) / size.side
    y = (size.height - 1 - 2 * np.arange(size.height)) / size.side
    return x, y


def number_of(value: Any) -> float:
    """A parameter as a plain number, 0 if there is none."""
    return float(value.detach()) if isinstance(value, Tensor) else float(value or 0.0)


@dataclass(frozen=True)
class CompiledFormulas:
    """A law and a T-conorm family as the kernels take them: flags, addresses and parameters."""

    law: np.ndarray
    addresses: np.ndarray
    shape: np.ndarray
    kind: str

    @classmethod
    def of(
        cls, dist: Distribution, tconorm: TConorm, *, scalars: bool, shape: bool, p: bool
    ) -> CompiledFormulas:
        """Look both up, with the functions for gradients of scalars, shape and p if wanted."""
        from gendr.distributions import bodies as of_laws
        from gendr.distributions import numba as laws
        from gendr.distributions.law import Law
        from gendr.tnorms import bodies as of_families
        from gendr.tnorms import numba as families

        idempotent = tconorm.kind == "max"
        assert isinstance(dist.law, Law)  # callers handle other CDFs
        name = of_laws.kernel_name(type(dist.law))
        family = of_families.kernel_name(type(tconorm))
        addresses = [
            laws.tails_address(name),
            laws.density_address(name),
            laws.shape_slope_address(name) if shape else 0,
            0 if idempotent else families.generator_address(family),
            0 if idempotent else families.weight_address(family),
            families.weight_p_address(family) if p else 0,
        ]
        flags = [dist.is_reversed, dist.is_squared, idempotent, scalars]
        shapes = [number_of(dist.shape_parameter), number_of(dist.art_exponent)]
        return cls(
            np.array(flags, np.int64), np.array(addresses, np.int64), np.array(shapes), tconorm.kind
        )


# ---------------------------------------------------------------------------------------------
# Once differentiable, with an error for second derivatives
# ---------------------------------------------------------------------------------------------


class _Once(torch.autograd.Function):
    """Passes gradients on; raises an error if they are differentiated again."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *sources: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError(
            "the cpu backend has no second derivatives; use backend='reference' for them"
        )


def once(
    grads: tuple[Tensor | None, ...], sources: tuple[Tensor, ...]
) -> tuple[Tensor | None, ...]:
    """Make gradients depend on their sources, so that a second derivative raises an error."""
    if not torch.is_grad_enabled():  # no graph of the backward pass is wanted
        return grads
    return tuple(g if g is None else cast(Tensor, _Once.apply(g, *sources)) for g in grads)


def sums_per_image(values: np.ndarray, offsets: np.ndarray) -> Tensor:
    """Sum values [T, K] of faces over the faces of each image: [B, K]."""
    sums = [values[a:b].sum(0) for a, b in pairwise(offsets)]
    return torch.from_numpy(np.stack(sums) if sums else values[:0])


def narrowed(values: Any, dtype: torch.dtype) -> Tensor:
    """An array or tensor of float64 in a dtype, in which it is finite, as sums of a few are."""
    limit = torch.finfo(dtype).max / 4
    return torch.as_tensor(values).clamp(-limit, limit).to(dtype)


def in_shape_of(parameter: Tensor, number: Tensor) -> Tensor:
    """A number in the shape and dtype of a parameter."""
    return narrowed(number, parameter.dtype).reshape(parameter.shape)
