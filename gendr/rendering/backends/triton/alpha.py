"""Silhouettes on the Triton backend: one fused operator and its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor

from gendr.rendering.aggregation import Aggregation
from gendr.rendering.backends.triton import tiles
from gendr.rendering.geometry import ImageSize, ScreenFaces

if TYPE_CHECKING:
    from gendr.distributions import Distribution
    from gendr.tnorms import TConorm


class Arguments(NamedTuple):
    """A law and a family as operators of PyTorch take them, which know tensors, numbers and text.

    Attributes:
        tensors: shift, shape and p, those that are tensors.
        numbers: the same, those that are numbers; 0 where there is none.
        names: law, reversed, squared, exponent of art, family.
    """

    tensors: tuple[Tensor | None, ...]
    numbers: list[float]
    names: tuple[str, bool, bool, float, str]

    @classmethod
    def of(cls, dist: Distribution, tconorm: TConorm) -> Arguments:
        """The arguments for a law that is not the user's own."""
        values = (dist.total_shift(), dist.shape_parameter, tconorm.given_p)
        tensors = tuple(x if isinstance(x, Tensor) else None for x in values)
        numbers = [0.0 if x is None or isinstance(x, Tensor) else float(x) for x in values]
        law = cast("Any", dist.law).name
        names = (law, dist.is_reversed, dist.is_squared, float(dist.art_exponent), tconorm.name)
        return cls(tensors, numbers, names)


def alpha(faces: ScreenFaces, size: ImageSize, aggregation: Aggregation) -> Tensor:
    """Coverage of every pixel, [B, H, W], for a law that is not the user's own."""
    coverage = aggregation.coverage
    tensors, numbers, names = Arguments.of(coverage.dist, aggregation.tconorm)
    corners, scale = faces.corners.to(torch.float32), coverage.scale.to(torch.float32)
    flat, *_ = _alpha(
        corners, scale, *tensors, numbers, list(faces.offsets), size.height, size.width, *names,
        coverage.cutoff, tiles.atomic_now(),
    )  # fmt: skip
    return flat.reshape(faces.images, size.height, size.width).to(faces.corners.dtype)


@dataclass(frozen=True)
class Member:
    """One renderer of the family as its operator takes it: names, flags and numbers.

    Attributes:
        law: name of the base law.
        is_reversed: whether it is.
        is_squared: whether it is.
        art: exponent of the activation replacement trick, 0 without.
        family: name of the T-conorm.
        cutoff: coverage at or below it counts as 0.
        shift: what is added to the argument.
        shape: shape of the law, 0 if it has none.
        p: parameter of the family, 0 if it has none.
    """

    law: str
    is_reversed: bool
    is_squared: bool
    art: float
    family: str
    cutoff: float
    shift: float
    shape: float
    p: float

    def images(self, scale: Tensor, counts: tuple[int, ...]) -> Tensor:
        """The image table [B, IMAGE_COLUMNS] float32 for scales [B] and faces of each image."""
        from gendr.rendering.backends.triton import kernels

        shared = counts if self.family == "average" else ()
        table = _constants(self, len(counts), shared, scale.device).clone()
        table[:, kernels.SCALE.value] = scale
        table[:, kernels.RADIUS.value] = _distribution(self).radius(scale, self.cutoff)
        return table


@lru_cache(maxsize=64)
def _distribution(member: Member) -> Distribution:
    """What the distribution was, with numbers for parameters."""
    from gendr.distributions import get

    dist = get(member.law, shape=member.shape) if member.shape else get(member.law)
    dist = dist.shifted(member.shift) if member.shift else dist
    dist = dist.reversed() if member.is_reversed else dist
    dist = dist.squared() if member.is_squared else dist
    return dist.art(member.art) if member.art else dist


@lru_cache(maxsize=64)
def _constants(
    member: Member, images: int, counts: tuple[int, ...], device: torch.device
) -> Tensor:
    """The image table without scale and radius; `counts` only for the mean."""
    from gendr.distributions import triton as laws
    from gendr.rendering.backends.triton import kernels

    shape, constant, psi = (
        laws.parameters(member.law, member.shape) if member.shape else (0.0, 0.0, 0.0)
    )
    columns = {
        kernels.SHIFT.value: member.shift,
        kernels.FAMILY_P.value: member.p,
        kernels.SHAPE.value: shape,
        kernels.CONSTANT.value: constant,
        kernels.PSI.value: psi,
        kernels.REVERSED.value: float(member.is_reversed),
        kernels.SQUARED.value: float(member.is_squared),
        kernels.ART.value: member.art,
        kernels.CUTOFF.value: member.cutoff,
    }
    table = torch.zeros(images, kernels.IMAGE_COLUMNS.value)
    for column, value in columns.items():
        table[:, column] = value
    if counts:
        table[:, kernels.FAMILY_P.value] = 1 / torch.tensor(counts).clamp(min=1)
    return table.to(device)


@cache
def _is_maximum(family: str) -> bool:
    """Whether faces are joined by their maximum, whose ties share the gradient."""
    from gendr import tnorms

    return tnorms.family(family).kind == "max"


def _kind(family: str) -> int:
    """How the kernels join faces."""
    from gendr import tnorms
    from gendr.rendering.backends.triton import kernels

    kinds = {"max": kernels.MAXIMUM, "mean": kernels.MEAN, "archimedean": kernels.ARCHIMEDEAN}
    return kinds[tnorms.family(family).kind].value


# `shift`, `shape` and `p` come as tensors if they are tensors; else `numbers` holds them.
@torch.library.custom_op("gendr::alpha", mutates_args=())
def _alpha(
    corners: Tensor,
    scale: Tensor,
    shift: Tensor | None,
    shape: Tensor | None,
    p: Tensor | None,
    numbers: list[float],
    offsets: list[int],
    height: int,
    width: int,
    law: str,
    is_reversed: bool,
    is_squared: bool,
    art: float,
    family: str,
    cutoff: float,
    atomic: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Alpha, 1 - alpha, tied faces [B * H * W]; boxes [T, 4], image table: for the backward."""
    from gendr.distributions import triton as laws
    from gendr.rendering.backends.triton import kernels
    from gendr.tnorms import triton as families

    given = zip(numbers, (shift, shape, p), strict=True)
    values = [number if tensor is None else float(tensor) for number, tensor in given]
    member = Member(law, is_reversed, is_squared, art, family, cutoff, *values)
    size, counts = ImageSize(height, width), tuple(b - a for a, b in pairwise(offsets))
    images = member.images(scale, counts)
    tables = tiles.Tables.of(corners, tuple(offsets), images, size)
    tiling = tiles.Tiling.of(size, tiles.LAUNCH.tile)
    pixels = len(counts) * size.pixels
    out, rest = corners.new_empty(pixels), corners.new_empty(pixels)
    ties = corners.new_empty(pixels if _is_maximum(family) else 0, dtype=torch.int32)
    kind = _kind(family)
    joined = kind == kernels.ARCHIMEDEAN.value
    for part in tiles.tile_lists(tables, tiling):
        tiles.run(
            kernels.alpha_tiles, (len(part.starts),), corners.device,
            tables.corners, images, part.starts, part.stops, part.faces, out, rest, ties,
            part.first_tile, int(part.listed), height, width,
            CDF=laws.tails(law),
            GENERATOR=families.generator_twin(family) if joined else None,
            INVERSE=families.inverse_twin(family) if joined else None,
            KIND=kind, N=corners.shape[1], TILE_H=tiling.height, TILE_W=tiling.width,
            BLOCK_FACES=tiles.LAUNCH.block_faces, **tiles.options(exact=_is_maximum(family)),
        )  # fmt: skip
    return out, rest, ties, tables.boxes, images


@_alpha.register_fake
def _(
    corners: Tensor, scale: Tensor, shift: Tensor | None, shape: Tensor | None, p: Tensor | None,
    numbers: list[float], offsets: list[int], height: int, width: int, law: str, is_reversed: bool,
    is_squared: bool, art: float, family: str, cutoff: float, atomic: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    images = len(offsets) - 1
    pixels = images * height * width
    return (
        corners.new_empty(pixels),
        corners.new_empty(pixels),
        corners.new_empty(pixels if _is_maximum(family) else 0, dtype=torch.int32),
        corners.new_empty(corners.shape[0], 4, dtype=torch.int32),
        corners.new_empty(images, _columns().images),
    )


class _Columns(NamedTuple):
    images: int
    gradients: int


@cache
def _columns() -> _Columns:
    """Columns of the tables, as plain numbers."""
    from gendr.rendering.backends.triton import kernels

    return _Columns(kernels.IMAGE_COLUMNS.value, kernels.GRAD_COLUMNS.value)


@torch.library.custom_op("gendr::alpha_gradients", mutates_args=())
def _alpha_gradients(
    grad: Tensor,
    out: Tensor,
    rest: Tensor,
    ties: Tensor,
    boxes: Tensor,
    images: Tensor,
    corners: Tensor,
    offsets: list[int],
    height: int,
    width: int,
    law: str,
    family: str,
    scalars: bool,
    with_shape: bool,
    with_p: bool,
    atomic: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of the corners [T, N, 2] and, if wanted, the scalars of images [B, GRAD_COLUMNS].

    That of p is what the faces add; the pixels take their own part away, see `_backward`.
    """
    from gendr.distributions import triton as laws
    from gendr.rendering.backends.triton import kernels
    from gendr.tnorms import triton as families

    count, sides = corners.shape[:2]
    kind = _kind(family)
    joined = kind == kernels.ARCHIMEDEAN.value
    shares = tiles.shares_of(count, height * width)
    rows = (count,) if atomic else (shares, count)
    grad_corners = corners.new_zeros(*rows, sides, 2)
    grad_scalars = corners.new_zeros(*rows, _columns().gradients if scalars else 0)
    tiles.run(
        kernels.alpha_gradients, (count, shares), corners.device,
        corners.contiguous(), tiles.image_of_face(tuple(offsets), corners.device), images, boxes,
        out, rest, ties, grad.contiguous(), grad_corners, grad_scalars, height, width, shares,
        CDF=laws.tails(law), PDF=laws.density(law),
        DSHAPE=laws.shape_slope(law) if with_shape else None,
        WEIGHT=families.weight_twin(family) if joined else None,
        WEIGHT_P=families.weight_p_twin(family) if with_p else None,
        KIND=kind, SCALARS=scalars, ATOMIC=atomic, N=sides, BLOCK=tiles.LAUNCH.block_pixels,
        **tiles.options(exact=_is_maximum(family)),
    )  # fmt: skip
    if not atomic:
        grad_corners, grad_scalars = grad_corners.sum(0), grad_scalars.sum(0)
    return grad_corners, tiles.sum_per_image(grad_scalars, offsets)


@_alpha_gradients.register_fake
def _(
    grad: Tensor, out: Tensor, rest: Tensor, ties: Tensor, boxes: Tensor, images: Tensor,
    corners: Tensor, offsets: list[int], height: int, width: int, law: str, family: str,
    scalars: bool, with_shape: bool, with_p: bool, atomic: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    columns = _columns().gradients if scalars else 0
    return torch.empty_like(corners), corners.new_empty(len(offsets) - 1, columns)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """What the backward pass of `_alpha` needs."""
    (
        corners, _scale, shift, shape, p, _numbers, offsets, height, width, law, _reversed,
        _squared, _art, family, _cutoff, atomic,
    ) = inputs  # fmt: skip
    ctx.save_for_backward(corners, shift, shape, p, *output)
    ctx.size, ctx.offsets, ctx.law, ctx.family = (height, width), offsets, law, family
    ctx.atomic = atomic


def _backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    """The gradients of `_alpha`'s inputs."""
    corners, shift, shape, p, out, rest, ties, boxes, images = ctx.saved_tensors
    of_corners, of_scale, of_shift, of_shape, of_p = ctx.needs_input_grad[:5]
    scalars = of_scale or of_shift or of_shape or of_p
    grad_corners, per_image = _alpha_gradients(
        grad, out, rest, ties, boxes, images, corners, ctx.offsets, *ctx.size, ctx.law, ctx.family,
        scalars, of_shape, of_p, ctx.atomic,
    )  # fmt: skip
    grads: list[Tensor | None] = [grad_corners if of_corners else None, None, None, None, None]
    if scalars:
        sums = Scalars(*per_image.unbind(-1))
        grads[1] = sums.scale if of_scale else None
        grads[2] = total(sums.shift, shift) if of_shift else None
        grads[3] = total(sums.shape, shape) if of_shape else None
        if of_p:
            from gendr.tnorms import tconorm

            open_pixels = torch.where(rest > 0, grad, 0.0)
            own = tconorm(ctx.family, p=p).weight_p(out, rest, out, rest)
            grads[4] = (sums.last.sum() - (open_pixels * own).sum()).to(p).reshape(p.shape)
    return *grads, *(None,) * 11


class Scalars(NamedTuple):
    """Gradients of the scalars of images, [B] each, in the order of the kernels' columns.

    The last is that of p for silhouettes, of the rate for colours.
    """

    scale: Tensor
    shift: Tensor
    shape: Tensor
    last: Tensor


def total(per_image: Tensor, parameter: Tensor) -> Tensor:
    """The gradient [B] of a parameter that all images share, in its shape and dtype."""
    return per_image.sum().to(parameter).reshape(parameter.shape)


_alpha.register_autograd(_backward, setup_context=_keep)
_alpha_gradients.register_autograd(tiles.no_second_derivative)
