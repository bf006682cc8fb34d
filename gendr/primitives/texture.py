"""Texture lookups with mipmaps, in the conventions of nvdiffrast.

Written from nvdiffrast's public documentation, the paper (Laine et al., 2020) and the rules of
OpenGL, whose texture coordinates these are: texel i of n has its centre at (i + 1/2) / n, row 0 of
a texture is t = 0, its bottom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from gendr._common.checks import (
    check_choice,
    check_count,
    check_float,
    check_like,
    check_shape,
    shape_text,
)
from gendr._common.readback import earlier
from gendr._common.tracing import cached, is_traced
from gendr.kernels.operator import Operator
from gendr.kernels.through_cpu import with_doubles
from gendr.primitives.choice import kernels_for
from gendr.primitives.cubes import AXES, SEAMS, SIGNS
from gendr.primitives.formulas import STEEPEST
from gendr.primitives.sampling import (
    BOUNDARIES,
    CLAMP,
    CUBE,
    FILTERS,
    LEVEL,
    LEVELS,
    LINEAR,
    NEAREST,
    WRAP,
    ZERO,
    Sampling,
    Stack,
)

__all__ = ["Mipmaps", "texture", "texture_construct_mip"]

# As lists: `torch.compile` keeps arrays as tensors of the trace that met them first.
_AXES, _SIGNS, _SEAMS = AXES.tolist(), SIGNS.tolist(), SEAMS.tolist()


@dataclass(frozen=True, eq=False)
class Mipmaps:
    """A stack of mipmaps, made by `texture_construct_mip` for the argument `mip` of `texture`.

    Attributes:
        texels: [B, N], all levels but the first, one after the other.
        sizes: height and width of all levels, the first among them.
        cube: whether they are those of a cube map.
        channels: of a texel.
    """

    texels: Tensor
    sizes: tuple[tuple[int, int], ...]
    cube: bool
    channels: int


@with_doubles
def texture(
    tex: Tensor,
    uv: Tensor,
    uv_da: Tensor | None = None,
    mip_level_bias: Tensor | None = None,
    mip: Mipmaps | Sequence[Tensor] | None = None,
    filter_mode: str = "auto",
    boundary_mode: str = "wrap",
    max_mip_level: int | None = None,
    *,
    backend: str = "auto",
) -> Tensor:
    """Look up a texture at every pixel.

    The level of a mipmapped lookup is log2 of the length in texels of the longer axis of the
    ellipse that `uv_da` maps a pixel of radius 1 to, plus the bias, clamped to the levels there
    are. Gradients are complete: of all tensors, and for cube maps also through the level to `uv`.
    Gradients of texels are summed up in the order of the pixels, so that bits repeat.

    Args:
        tex: [B, H, W, C] or [1, H, W, C] float32 or float64; a cube map is [B, 6, N, N, C], its
            faces in OpenGL's order and orientation.
        uv: [B, h, w, 2] coordinates, (0, 0) is the corner of row 0 and column 0; for a cube map
            [B, h, w, 3] directions of any length.
        uv_da: [B, h, w, 4], (du/dX, du/dY, dv/dX, dv/dY) per pixel; [B, h, w, 6] for a cube map.
        mip_level_bias: [B, h, w], added to the level; the level itself without `uv_da`.
        mip: the result of `texture_construct_mip`, or the levels from the first smaller one on, as
            tensors like `tex`, which get gradients of their own. None to make them here.
        filter_mode: "nearest", "linear", "linear-mipmap-nearest" (the nearest level),
            "linear-mipmap-linear" (between the two around), or "auto": the last if `uv_da` or a
            bias is given, else "linear".
        boundary_mode: "wrap", "clamp" (to the centres of the outer texels), "zero" (0 outside), or
            "cube", which lookups cross the edges of without a seam; at its corners, where three
            faces meet, the missing fourth texel is their mean.
        max_mip_level: how many smaller levels to make and use at most.
        backend: as of `rasterize`.

    Returns:
        [B, h, w, C]. Directions that are 0 or not finite, and coordinates that are infinite and to
        be wrapped, give 0 and no gradient.

    Raises:
        TypeError: for what is no tensor of this dtype.
        ValueError: for shapes that do not fit, unknown modes, NaN, no texels or pixels, sides that
            cannot be halved, and mipmapped modes without `uv_da` and bias.

    Source: Laine et al., Modular Primitives for High-Performance Differentiable Rendering (2020),
    section 3.4; OpenGL 4.6, chapter 8.
    """
    check_choice("filter_mode", filter_mode, ("auto", *FILTERS))
    boundary = BOUNDARIES.index(check_choice("boundary_mode", boundary_mode, BOUNDARIES))
    if filter_mode == "auto":
        sought = uv_da is not None or mip_level_bias is not None
        filter_mode = FILTERS[LEVELS if sought else LINEAR]
    mode = FILTERS.index(filter_mode)
    cube = boundary == CUBE
    _check_texture("tex", tex, cube)
    axes = 3 if cube else 2
    check_like("uv", check_float("uv", uv), "tex", tex)
    sizes = check_shape("uv", uv, f"[B, h, w, {axes}]")
    if uv.numel() == 0:
        raise ValueError(f"uv must have pixels, got the shape {shape_text(uv.shape)}")
    known = {name: sizes[name] for name in "Bhw"}
    if uv_da is not None:
        check_like("uv_da", check_float("uv_da", uv_da), "tex", tex)
        check_shape("uv_da", uv_da, f"[B, h, w, {2 * axes}]", **known)
    if mip_level_bias is not None:
        check_like("mip_level_bias", check_float("mip_level_bias", mip_level_bias), "tex", tex)
        check_shape("mip_level_bias", mip_level_bias, "[B, h, w]", **known)
        _check_no_nan("mip_level_bias", mip_level_bias)
    if len(tex) not in (1, len(uv)):
        raise ValueError(f"tex must have 1 image or the {len(uv)} of uv, got {len(tex)}")
    if not cube:  # of a cube map, invalid directions give 0
        _check_no_nan("uv", uv)
        if uv_da is not None:
            _check_no_nan("uv_da", uv_da)
    kernels = kernels_for("primitives.texture", tex, backend)
    if mode < LEVEL:
        base = (cast("tuple[int, int]", tuple(tex.shape[-3:-1])),)
        return _TEXTURE(kernels, Sampling(mode, boundary, base), uv, tex, None, None, None)
    if uv_da is None and mip_level_bias is None:
        raise ValueError(f'filter_mode "{filter_mode}" needs uv_da, mip_level_bias or both')
    if max_mip_level is not None:
        check_count("max_mip_level", max_mip_level, least=0)
    if mip is None:
        mip = _construct(tex, max_mip_level, cube, backend)
    elif not isinstance(mip, Mipmaps):
        mip = _joined(tex, mip, cube)
    _check_stack(tex, mip, cube)
    sampling = Sampling(mode, boundary, mip.sizes)
    if max_mip_level is not None and max_mip_level + 1 < len(mip.sizes):
        sampling = sampling._replace(sizes=mip.sizes[: max_mip_level + 1])
        starts = sampling.starts()
        kept = (starts[-1] - starts[1]) * tex.shape[-1]
        mip = Mipmaps(mip.texels[:, :kept], sampling.sizes, cube, mip.channels)
    return _TEXTURE(kernels, sampling, uv, tex, mip.texels, uv_da, mip_level_bias)


def texture_construct_mip(
    tex: Tensor, max_mip_level: int | None = None, cube_mode: bool = False, *, backend: str = "auto"
) -> Mipmaps:
    """The mipmaps of a texture, for several lookups: each level has the means of 2 x 2 texels.

    A side of 1 stays. Gradients of lookups flow through them to `tex`.

    Args:
        tex: as in `texture`.
        max_mip_level: how many smaller levels to make at most; None for all down to 1 x 1.
        cube_mode: whether it is a cube map.
        backend: as of `rasterize`.

    Returns:
        What `texture` takes as `mip`.

    Raises:
        TypeError: for what is no tensor of this dtype.
        ValueError: for a shape that does not fit, no texels, NaN, or a side that cannot be halved.
    """
    _check_texture("tex", tex, cube_mode)
    if max_mip_level is not None:
        check_count("max_mip_level", max_mip_level, least=0)
    return _construct(tex, max_mip_level, cube_mode, backend)


# ---------------------------------------------------------------------------------------------
# Checks
# ---------------------------------------------------------------------------------------------


def _check_texture(name: str, tex: object, cube: bool) -> None:
    tensor = check_float(name, tex)
    if cube:
        sizes = check_shape(name, tensor, "[B, 6, N, N, C]")
        assert sizes
    elif tensor.ndim == 5:
        raise ValueError(
            f"{name} must have shape [B, H, W, C], got {shape_text(tensor.shape)}; for a cube map "
            'set boundary_mode="cube", or cube_mode=True where mipmaps are made'
        )
    else:
        check_shape(name, tensor, "[B, H, W, C]")
    if tensor.numel() == 0:
        raise ValueError(f"{name} must have texels, got the shape {shape_text(tensor.shape)}")
    _check_no_nan(name, tensor)


def _check_no_nan(name: str, tensor: Tensor) -> None:
    """Raise for NaN; on a GPU without waiting: a later call raises for the tensor of this one."""

    def look(values: Tensor) -> None:
        values = values.detach()
        wrong = f"{name} must not hold NaN, got one"
        if values.is_cuda:
            largest = torch.linalg.vector_norm(values, torch.inf).reshape(1)
            found = earlier(("texture", tuple(values.shape)), name, largest)
            if found is not None and found[0] != found[0]:
                raise ValueError(f"{wrong} in an earlier call on {values.device}")
        elif not bool(values.sum().isfinite()) and bool(values.isnan().any()):
            first = values.isnan().nonzero()[0].tolist()
            raise ValueError(f"{wrong} at index {shape_text(first)}")

    if not is_traced():
        cached(tensor, f"{name} without NaN", look)


def _halved(size: tuple[int, int]) -> tuple[int, int]:
    return max(size[0] // 2, 1), max(size[1] // 2, 1)


def _sizes(height: int, width: int, most: int | None) -> tuple[tuple[int, int], ...]:
    """The sizes of all levels.

    Raises:
        ValueError: if a side, other than 1, is odd before the last of them.
    """
    found = [(height, width)]
    while found[-1] != (1, 1) and (most is None or len(found) <= most):
        if any(side % 2 and side > 1 for side in found[-1]):
            level = len(found) - 1
            of = f"its mipmap {level} is" if level else "it is"
            raise ValueError(
                f"tex of {height} x {width} has no mipmap {level + 1}: {of} {found[-1][0]} x "
                f"{found[-1][1]}, and sides must be even or 1; set max_mip_level={level}, or take "
                "sides that are powers of 2"
            )
        found.append(_halved(found[-1]))
    return tuple(found)


def _joined(tex: Tensor, mip: object, cube: bool) -> Mipmaps:
    """A stack of the levels that a user gives."""
    if not isinstance(mip, (list, tuple)):
        raise TypeError(
            "mip must be a result of texture_construct_mip or a list of tensors, got "
            f"{type(mip).__name__}"
        )
    sizes = [cast("tuple[int, int]", tuple(tex.shape[-3:-1]))]
    for k, level in enumerate(mip):
        name = f"mip[{k}]"
        _check_texture(name, level, cube)
        check_like(name, level, "tex", tex)
        height, width = sizes[-1]
        if (height, width) == (1, 1):
            raise ValueError(f"mip must end where a level is 1 x 1, got {len(mip)} levels")
        if any(side % 2 and side > 1 for side in (height, width)):
            raise ValueError(f"{name} cannot be half of {height} x {width}: sides must be even")
        wanted = (*tex.shape[:-3], *_halved(sizes[-1]), tex.shape[-1])
        if level.shape != wanted:
            raise ValueError(
                f"{name} must have shape {shape_text(wanted)}, half the level before, got "
                f"{shape_text(level.shape)}"
            )
        sizes.append(_halved(sizes[-1]))
    levels = [level.flatten(1) for level in mip]
    texels = torch.cat(levels, 1) if levels else tex.new_zeros(len(tex), 0)
    return Mipmaps(texels, tuple(sizes), cube, tex.shape[-1])


def _check_stack(tex: Tensor, mip: Mipmaps, cube: bool) -> None:
    """Raise for mipmaps that were made for another texture."""
    made = (len(mip.texels), *mip.sizes[0], mip.channels, mip.cube)
    if made != (len(tex), *tex.shape[-3:], cube):
        kind = "a cube map" if mip.cube else "a texture"
        raise ValueError(
            f"mip must be made for tex of {shape_text(tex.shape)}, got that of {kind} of "
            f"{shape_text(made[:4])}"
        )
    check_like("mip", mip.texels, "tex", tex)


# ---------------------------------------------------------------------------------------------
# The definition
# ---------------------------------------------------------------------------------------------


def _sample(
    spec: Sampling, uv: Tensor, tex: Tensor, mips: Tensor | None, uv_da: Tensor | None,
    bias: Tensor | None,
) -> Tensor:  # fmt: skip
    """What `texture` gives, in plain torch and float64."""
    dtype, device, channels = uv.dtype, uv.device, tex.shape[-1]
    texels = tex.double().reshape(len(tex), -1, channels)
    if mips is not None:
        texels = torch.cat([texels, mips.double().reshape(len(tex), -1, channels)], 1)
    texels = texels.expand(len(uv), -1, -1)
    uv = uv.double()
    uv_da = None if uv_da is None else uv_da.double().unflatten(-1, (-1, 2))
    face = uv.new_zeros(uv.shape[:-1], dtype=torch.int64)
    if spec.boundary == CUBE:
        size = uv.detach().abs()
        valid = (size.sum(-1) > 0) & size.isfinite().all(-1)
        uv = torch.where(valid.unsqueeze(-1), uv, 1.0)
        x, y, z = uv.detach().abs().unbind(-1)
        major = torch.where((x >= y) & (x >= z), 0, torch.where(y >= z, 1, 2))
        face = 2 * major + (uv.detach().gather(-1, major.unsqueeze(-1)) <= 0).squeeze(-1)
        axes = torch.tensor(_AXES, device=device)[face]
        signs = torch.tensor(_SIGNS, device=device, dtype=uv.dtype)[face]
        turned = uv.gather(-1, axes) * signs
        along, length = turned[..., :2], turned[..., 2:]
        ratio = along / length
        uv = 0.5 * (ratio + 1)
        if uv_da is not None:
            steps = uv_da.gather(-2, axes.unsqueeze(-1).expand(*axes.shape, 2))
            steps = steps * signs.unsqueeze(-1)
            uv_da = steps[..., :2, :] - ratio.unsqueeze(-1) * steps[..., 2:, :]
            uv_da = 0.5 * uv_da / length.unsqueeze(-1)
    elif spec.boundary == WRAP:
        valid = uv.detach().isfinite().all(-1)
        uv = torch.where(valid.unsqueeze(-1), uv, 0.0)
        uv = uv - uv.detach().floor()
    else:
        valid = torch.ones_like(face, dtype=torch.bool)
        uv = uv.clamp(-STEEPEST, STEEPEST)
    if spec.mode < LEVEL:
        result = _look_up(spec, texels, uv, face, torch.zeros_like(face))
    else:
        last = len(spec.sizes) - 1
        level = _level(spec, uv_da, bias).nan_to_num(0.0).clamp(0, last)
        if spec.mode == LEVEL:
            nearest = (level.detach() + 0.5).floor().long()
            result = _look_up(spec, texels, uv, face, nearest)
        else:
            first = level.detach().floor().long()
            fine = _look_up(spec, texels, uv, face, first)
            coarse = _look_up(spec, texels, uv, face, (first + 1).clamp(max=last))
            result = fine + (level - first).unsqueeze(-1) * (coarse - fine)
    return torch.where(valid.unsqueeze(-1), result, 0.0).to(dtype)


def _level(spec: Sampling, uv_da: Tensor | None, bias: Tensor | None) -> Tensor:
    """The level [B, h, w] before it is clamped."""
    offset = 0.0 if bias is None else bias.double()
    if uv_da is None:
        return cast("Tensor", offset)
    height, width = spec.sizes[0]
    steps = uv_da * torch.tensor([[width], [height]], device=uv_da.device)
    steps = steps.nan_to_num(0.0).clamp(-STEEPEST, STEEPEST)
    x, y = steps[..., 0], steps[..., 1]
    a, b, c = (x * x).sum(-1), (x * y).sum(-1), (y * y).sum(-1)
    square = 0.25 * (a - c) ** 2 + b * b
    root = torch.where(square > 0, torch.where(square > 0, square, 1.0).sqrt(), 0.0)
    axis = 0.5 * (a + c) + root
    none = axis <= 0
    return torch.where(none, -torch.inf, 0.5 * torch.where(none, 1.0, axis).log2()) + offset


def _look_up(
    spec: Sampling, texels: Tensor, uv: Tensor, face: Tensor, level: Tensor
) -> Tensor:  # fmt: skip
    """Look up one level per pixel: [B, h, w, C]."""
    device = uv.device
    sizes = torch.tensor(spec.sizes, device=device)[level]
    height, width = sizes.unbind(-1)
    start = torch.tensor(spec.starts(), device=device)[level]

    def value(i: Tensor, j: Tensor, face: Tensor, there: Tensor) -> Tensor:
        place = (start + (face * height + j) * width + i).where(there, 0)
        found = texels.gather(1, place.flatten(1).unsqueeze(-1).expand(-1, -1, texels.shape[-1]))
        return found.reshape(*place.shape, -1) * there.unsqueeze(-1)

    x, y = uv[..., 0] * width, uv[..., 1] * height
    if spec.mode == NEAREST:
        i, j = _inside(x.detach(), width), _inside(y.detach(), height)
        if spec.boundary == WRAP:
            i, j = i % width, j % height
        there = (i >= 0) & (i < width) & (j >= 0) & (j < height)
        if spec.boundary != ZERO:
            there = torch.ones_like(there)
            i, j = _clamped(i, width), _clamped(j, height)
        return value(i, j, face, there)
    x, y = x - 0.5, y - 0.5
    if spec.boundary == CLAMP:
        x = torch.minimum(x.clamp(min=0), width - 1.0)
        y = torch.minimum(y.clamp(min=0), height - 1.0)
    i, j = _inside(x.detach(), width), _inside(y.detach(), height)
    fx, fy = (x - i).unsqueeze(-1), (y - j).unsqueeze(-1)
    if spec.boundary == ZERO:  # far outside, where all texels are 0
        fx, fy = fx.clamp(0, 1), fy.clamp(0, 1)
    found, missing = [], []
    for dj in (0, 1):
        for di in (0, 1):
            column, row, own = i + di, j + dj, face
            there = torch.ones_like(own, dtype=torch.bool)
            if spec.boundary == WRAP:
                column, row = column % width, row % height
            elif spec.boundary == CLAMP:
                column, row = _clamped(column, width), _clamped(row, height)
            else:
                there = (column >= 0) & (column < width) & (row >= 0) & (row < height)
                if spec.boundary == CUBE:
                    column, row, own, there = _beyond(column, row, own, width)
            found.append(value(column, row, own, there))
            missing.append(~there.unsqueeze(-1))
    if spec.boundary == CUBE:
        mean = (found[0] + found[1] + found[2] + found[3]) / 3
        found = [torch.where(gone, mean, x) for gone, x in zip(missing, found, strict=True)]
    low = found[0] * (1 - fx) + found[1] * fx
    high = found[2] * (1 - fx) + found[3] * fx
    return low * (1 - fy) + high * fy


def _inside(x: Tensor, size: Tensor) -> Tensor:
    """The whole part, in -2 .. size + 1."""
    return torch.minimum(x.clamp(min=-2), size + 1.0).floor().long()


def _clamped(index: Tensor, size: Tensor) -> Tensor:
    return torch.minimum(index.clamp(min=0), size - 1)


def _beyond(
    i: Tensor, j: Tensor, face: Tensor, size: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Column, row and face of a texel that may be one beyond a side; whether there is one."""
    off_i, off_j = (i < 0) | (i >= size), (j < 0) | (j >= size)
    side = torch.where(off_i, (i >= 0).long(), 2 + (j >= 0).long())
    other, axis, end, flip = torch.tensor(_SEAMS, device=i.device)[face, side].unbind(-1)
    along = torch.where(off_i, j, i)
    along = torch.where(flip > 0, size - 1 - along, along)
    across = end * (size - 1)
    off, one = off_i & off_j, off_i ^ off_j
    return (
        torch.where(one, torch.where(axis == 0, across, along), i),
        torch.where(one, torch.where(axis == 0, along, across), j),
        torch.where(one, other, face),
        ~off,
    )


def _halve(spec: Stack, tex: Tensor) -> Tensor:
    """All smaller levels [B, N], in plain torch."""
    level = tex.reshape(len(tex), spec.faces, *spec.sizes[0], -1)
    levels = []
    for height, width in spec.sizes[:-1]:
        down, right = 2 if height > 1 else 1, 2 if width > 1 else 1
        level = level.unflatten(2, (-1, down)).unflatten(4, (-1, right)).mean((3, 5))
        levels.append(level.flatten(1))
    return torch.cat(levels, 1) if levels else tex.new_zeros(len(tex), 0)


_TEXTURE = Operator("primitives.texture", reference=_sample)
_MIPMAPS = Operator("primitives.mipmaps", reference=_halve)


def _construct(tex: Tensor, most: int | None, cube: bool, backend: str) -> Mipmaps:
    height, width, channels = tex.shape[-3:]
    sizes = _sizes(height, width, most)
    stack = Stack(sizes, 6 if cube else 1)
    texels = _MIPMAPS(kernels_for("primitives.mipmaps", tex, backend), stack, tex)
    return Mipmaps(texels, sizes, cube, channels)
