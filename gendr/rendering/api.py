"""`silhouette`, and the checks of the renderer's arguments, made once before any kernel runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from gendr._common.checks import (
    check_finite_late,
    check_float,
    check_image_size,
    check_shape,
    check_tensor,
)
from gendr._common.readback import earlier
from gendr._common.tracing import all_hold, is_traced
from gendr._common.words import worded
from gendr.rendering.aggregation import model_of
from gendr.rendering.backends.choice import choose
from gendr.rendering.geometry import ImageSize, can_leave_out, screen_faces

if TYPE_CHECKING:
    from gendr.distributions import Distribution
    from gendr.tnorms import TConorm

Scale: TypeAlias = "float | str | Tensor"
Dist: TypeAlias = "str | Distribution | Callable[[Tensor], Tensor]"

_PIXELS = re.compile(r"\s*([0-9.eE+-]+)\s*px\s*")


def parse_image_size(image_size: int | Sequence[int]) -> ImageSize:
    """The `ImageSize` of an int or a pair (H, W).

    Raises:
        TypeError: for anything else.
        ValueError: for sizes below 1.
    """
    return ImageSize(*check_image_size(image_size))


def parse_scale(
    scale: Scale, size: ImageSize, squared: bool, *, owner: Hashable = None
) -> float | Tensor:
    """A number in NDC (NDC^2 for squared distributions) from a number, a tensor or "1.5px".

    Args:
        scale: as users give it.
        size: of the images.
        squared: whether the distribution is.
        owner: do not wait for a tensor on a GPU: a later call with this owner raises for its
            values; None waits.

    Raises:
        TypeError: for other types.
        ValueError: unless it is positive and finite, or for text that is no number of pixels.
    """
    if isinstance(scale, str):
        match = _PIXELS.fullmatch(scale)
        try:
            number = float(match.group(1)) if match else float(scale)
        except ValueError:
            raise ValueError(
                f"scale must be a number in NDC or text such as '1.5px', got {scale!r}"
            ) from None
        if match:
            length = number * 2 / size.side
            number = length * abs(length) if squared else length
        scale = number
    if isinstance(scale, Tensor):
        check_float("scale", scale)
        check_shape("scale", scale, "[] or [B]")
        hint = "; for a hard edge use the distribution heaviside"
        check_positive("scale", scale.detach(), owner if scale.is_cuda else None, hint)
        return scale
    if isinstance(scale, bool) or not isinstance(scale, Real):
        raise TypeError(f"scale must be a number, text or a tensor, got {type(scale).__name__}")
    scale = float(scale)
    if not 0 < scale < float("inf"):
        raise ValueError(
            f"scale must be > 0 and finite, got {scale}; for a hard edge use the "
            "distribution heaviside"
        )
    return scale


def check_positive(name: str, values: Tensor, owner: Hashable = None, hint: str = "") -> None:
    """Raise unless all values are positive and finite.

    Args:
        name: what the values are called in the message.
        values: [] or [B].
        owner: if there is one, its values of an earlier call are looked at, for which nobody waits.
        hint: the end of the message.

    Raises:
        ValueError: if one is not; NaN is none.
    """
    if is_traced():
        return
    found: Tensor | None = values
    if owner is not None:
        numbers = earlier(owner, name, values.reshape(-1))
        found = None if numbers is None else torch.tensor(numbers, device="cpu")
    if found is not None and not all_hold((found > 0) & torch.isfinite(found)):
        where = f" in an earlier call on {values.device}" if owner is not None else ""
        raise ValueError(
            f"{name} must be > 0 and finite, got a tensor with minimum {float(found.min()):g}"
            f"{where}{hint}"
        )


def at_full_precision(name: str, tensor: Tensor) -> Tensor:
    """The tensor in float32 or float64, because rendering does not use automatic mixed precision.

    Raises:
        TypeError: for half precision outside `torch.autocast`, and for what is no float tensor.
    """
    check_tensor(name, tensor)
    half = tensor.dtype in (torch.float16, torch.bfloat16)
    if half and torch.is_autocast_enabled(tensor.device.type):
        return tensor.to(torch.float32)
    return check_float(name, tensor)


@worded()
def silhouette(
    face_vertices: Tensor,
    image_size: int | Sequence[int],
    dist: Dist = "uniform",
    tconorm: str | TConorm = "probabilistic",
    scale: Scale = 1e-2,
    cutoff: float = 1e-6,
    backend: str = "auto",
    *,
    precision: str = "auto",
    check: bool = True,
) -> Tensor:
    """Render soft silhouettes of triangles that are already projected to the screen.

    Faces are neither clipped nor tested against near and far planes. A face with any depth <= 0 is
    ignored. Faces of both orientations are rendered.

    Args:
        face_vertices: [B, F, 3, 3] (or [F, 3, 3] for one image); x, y in NDC, where the shorter
            image side spans [-1, 1], x right, y up; depth > 0. float32 or float64.
        image_size: int or (H, W), pixels.
        dist: a distribution, its name such as "gamma(shape=0.5).reversed", or a callable CDF.
        tconorm: a T-conorm or its name such as "yager(p=2)".
        scale: > 0, one number or one per image [B], in NDC (NDC^2 for squared distributions), or
            text such as "1.5px" for 1.5 pixels (their square for squared distributions).
        cutoff: coverage F <= cutoff counts as 0; 0 is exact and slower. The image depends on it
            where the generator of the T-conorm rises steeply from 0 (p < 1): by up to 0.24 in
            alpha for yager(p=0.5), logistic at scale 1e-2 and an airplane; see docs/tconorms.md.
        backend: "auto", "cpu", "triton" or "reference"; see `gendr.backends`.
        precision: "auto", or "double" for kernels of the CPU that compute in float64; see
            `gendr.Renderer`.
        check: whether to look for NaN and inf in the input.

    Returns:
        alpha [B, H, W] in [0, 1] (or [H, W]), row 0 at the top.

    Raises:
        TypeError: for what is no tensor or has the wrong dtype.
        ValueError: for wrong shapes, unknown names, parameters out of range, NaN or inf. On a GPU
            the host does not wait: values of tensors (face_vertices, scale) that are wrong are
            reported by a later call for this image size, kind of distribution and T-conorm.

    Source: thesis (5.1), (5.4), (5.5).
    """
    face_vertices = at_full_precision("face_vertices", face_vertices)
    check_shape("face_vertices", face_vertices, "[B, F, 3, 3] or [F, 3, 3]")
    if face_vertices.ndim == 3:
        return silhouette(
            face_vertices[None], image_size, dist, tconorm, scale, cutoff, backend,
            precision=precision, check=check,
        )[0]  # fmt: skip
    size, model = parse_image_size(image_size), model_of(dist, tconorm)
    dist = model.dist
    kind = type(dist.base), dist.is_squared, type(model.tconorm)
    owner = size, *kind, backend  # what tells calls apart
    if check:
        check_finite_late("face_vertices", face_vertices, owner)
    number = parse_scale(scale, size, dist.is_squared, owner=owner)
    images, count = face_vertices.shape[:2]
    aggregation = model.aggregation(number, cutoff, images, size, face_vertices, precision)
    corners = face_vertices[..., :2].reshape(-1, 3, 2)
    offsets = tuple(range(0, images * count + 1, count)) if count else (0,) * (images + 1)
    keep = (face_vertices[..., 2] > 0).all(-1).reshape(-1)
    chosen = choose(backend, face_vertices)
    with torch.autocast(face_vertices.device.type, enabled=False):
        faces = screen_faces(corners, offsets, keep, can_leave_out(corners))
        return chosen.alpha(faces, size, aggregation)
