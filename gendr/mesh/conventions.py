"""Conversion between our cameras and those of other packages, as plain tensors on both sides.

The frame of a camera here is x right, y up, z ahead; `gendr.mesh.cameras` says more. The methods of
`Camera` that have the same names document the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gendr._runtime.checks import check_image_size
from gendr._runtime.tracing import matmul
from gendr.mesh.camera_arguments import (
    batched,
    broadcast,
    common_kind,
    finite_tensor,
    per_axis,
    per_camera,
)
from gendr.mesh.rotations import check_orthonormal, rigid, signs

# Skew of a camera matrix that a decomposition leaves, in parts of the focal length.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class CameraParts:
    """The arguments of `Camera`, not yet checked and broadcast."""

    rotation: Any
    translation: Any
    focal: Tensor | None
    principal: Any = 0.0
    fov: Any = None
    orthographic: bool = False


# ---------------------------------------------------------------------------------------------
# pinhole intrinsics in pixels


def from_intrinsics(
    K: Any,
    image_size: int | Sequence[int] | None,
    *,
    fx: Any = None,
    fy: Any = None,
    cx: Any = None,
    cy: Any = None,
    rotation: Any = None,
    translation: Any = None,
    pixel_centre: float,
) -> CameraParts:
    """Convert focal lengths and principal points in pixels to NDC; the pose is kept as given."""
    if image_size is None:
        raise ValueError("pixel intrinsics need image_size, an int or (H, W)")
    height, width = check_image_size(image_size)
    dtype, device = common_kind(
        K=K, fx=fx, fy=fy, cx=cx, cy=cy, rotation=rotation, translation=translation
    )
    if K is None:
        if fx is None:
            raise ValueError("no intrinsics: give K or fx")
        parts = [
            fx,
            fx if fy is None else fy,
            width / 2 - 0.5 + pixel_centre if cx is None else cx,
            height / 2 - 0.5 + pixel_centre if cy is None else cy,
        ]
        parts = [
            per_camera(finite_tensor(value, name, dtype, device), name)
            for value, name in zip(parts, ("fx", "fy", "cx", "cy"), strict=True)
        ]
        fx, fy, cx, cy = broadcast(fx=parts[0], fy=parts[1], cx=parts[2], cy=parts[3])
    else:
        if any(value is not None for value in (fx, fy, cx, cy)):
            raise ValueError("K and fx, fy, cx, cy say the same; give one of them")
        k = batched(finite_tensor(K, "K", dtype, device), "K", (3, 3))
        last = k.detach()[:, 2] - signs(k, 0, 0, 1)
        if bool((k.detach()[:, 1, 0] != 0).any()) or bool((last != 0).any()):
            raise ValueError("K must be [[fx, 0, cx], [0, fy, cy], [0, 0, 1]]; is it transposed?")
        diagonal = k.detach()[:, (0, 1), (0, 1)]
        if bool((diagonal <= 0).any()):
            raise ValueError(
                f"K must have focal lengths > 0, got {float(diagonal.min()):g}; if a decomposition "
                "of P = K [R | t] made it negative, negate that column of K and that row of R and t"
            )
        skew = k.detach()[:, 0, 1]
        if bool((skew.abs() > _ROUNDING * diagonal[:, 0]).any()):
            raise ValueError(
                f"K has skew {float(skew[skew.abs().argmax()]):g} (K[0, 1]), which cameras here do "
                "not have; shear the images first, by u - skew / fy (v - cy), and set it to 0"
            )
        fx, fy, cx, cy = k[:, 0, 0], k[:, 1, 1], k[:, 0, 2], k[:, 1, 2]
    unit = 2 / min(height, width)  # NDC units per pixel
    shift = 0.5 - pixel_centre
    principal = torch.stack([cx + shift - width / 2, height / 2 - cy - shift], -1) * unit
    return CameraParts(rotation, translation, torch.stack([fx, fy], -1) * unit, principal)


def to_intrinsics(
    focal: Tensor, principal: Tensor, image_size: int | Sequence[int], *, pixel_centre: float
) -> Tensor:
    """OpenCV's camera matrices [B, 3, 3] of focal lengths and principal points [B, 2]."""
    height, width = check_image_size(image_size)
    half = min(height, width) / 2
    shift = pixel_centre - 0.5
    fx, fy = (focal * half).unbind(-1)
    cx = principal[:, 0] * half + width / 2 + shift
    cy = height / 2 - principal[:, 1] * half + shift
    o = torch.zeros_like(fx)
    return torch.stack([fx, o, cx, o, fy, cy, o, o, o + 1], -1).unflatten(-1, (3, 3))


# ---------------------------------------------------------------------------------------------
# OpenCV


def from_opencv(
    R: Any, t: Any, K: Any, image_size: int | Sequence[int], *, pixel_centre: float
) -> CameraParts:
    """Convert cameras with x right, y down and z ahead; x_cv = R x_world + t."""
    dtype, device = common_kind(R=R, t=t, K=K)
    r = batched(finite_tensor(R, "R", dtype, device), "R", (3, 3))
    check_orthonormal(r, "R", 1)
    shift = batched(finite_tensor(t, "t", dtype, device), "t", (3,))
    flip = signs(r, 1, -1, 1)
    return from_intrinsics(
        finite_tensor(K, "K", dtype, device),
        image_size,
        rotation=flip[:, None] * r,
        translation=flip * shift,
        pixel_centre=pixel_centre,
    )


def to_opencv(rotation: Tensor, translation: Tensor) -> tuple[Tensor, Tensor]:
    """R [B, 3, 3] and t [B, 3] in OpenCV's convention; see `Camera.to_opencv`."""
    flip = signs(rotation, 1, -1, 1)
    return flip[:, None] * rotation, flip * translation


# ---------------------------------------------------------------------------------------------
# OpenGL


def from_opengl(
    view: Any, camera_to_world: Any, fov: Any, projection: Any, image_size: int | Sequence[int]
) -> CameraParts:
    """Convert cameras with x right and y up that look along -z; matrices act on column vectors."""
    if (view is None) == (camera_to_world is None):
        raise ValueError("give either view (world to camera) or camera_to_world")
    if fov is not None and projection is not None:
        raise ValueError("fov and projection both say how wide the view is; give one of them")
    dtype, device = common_kind(
        view=view, camera_to_world=camera_to_world, fov=fov, projection=projection
    )
    name = "camera_to_world" if view is None else "view"
    given = camera_to_world if view is None else view
    pose = batched(finite_tensor(given, name, dtype, device), name, (4, 4))
    if bool((pose.detach()[:, 3] - signs(pose, 0, 0, 0, 1) != 0).any()):
        raise ValueError(f"the last row of {name} must be 0 0 0 1; is it transposed?")
    r, t = pose[:, :3, :3], pose[:, :3, 3]
    check_orthonormal(r, name, 1)
    if view is None:
        r = r.mT
        t = -matmul(r, t[..., None]).squeeze(-1)
    flip = signs(pose, 1, 1, -1)
    r, t = flip[:, None] * r, flip * t
    if projection is None:
        return CameraParts(r, t, None, fov=fov)
    p = batched(finite_tensor(projection, "projection", dtype, device), "projection", (4, 4))
    focal, principal, orthographic = from_projection(p, image_size)
    return CameraParts(r, t, focal, principal, orthographic=orthographic)


def from_projection(
    projection: Tensor, image_size: int | Sequence[int]
) -> tuple[Tensor, Tensor, bool]:
    """Focal lengths, principal points, and whether it is orthographic, of matrices [B, 4, 4]."""
    p = projection
    kind = p.detach()[:, 3]
    perspective = bool((kind == signs(p, 0, 0, -1, 0)).all())
    if not perspective and bool((kind != signs(p, 0, 0, 0, 1)).any()):
        raise ValueError(
            "the last row of projection must be 0 0 -1 0 (perspective) or 0 0 0 1 "
            "(orthographic), alike in a batch; is it transposed?"
        )
    if bool((p.detach()[:, 0, 1] != 0).any()) or bool((p.detach()[:, 1, 0] != 0).any()):
        raise ValueError("projection has skew, which cameras here do not have")
    height, width = check_image_size(image_size)
    side = torch.tensor([width, height], dtype=p.dtype, device=p.device) / min(height, width)
    offset = -p[:, :2, 2] if perspective else p[:, :2, 3]
    focal = torch.stack([p[:, 0, 0], p[:, 1, 1]], -1) * side
    return focal, offset * side, not perspective


def to_opengl(rotation: Tensor, translation: Tensor) -> Tensor:
    """View matrices [B, 4, 4] in OpenGL's convention."""
    flip = signs(rotation, 1, 1, -1)
    return rigid(flip[:, None] * rotation, flip * translation)


def to_projection(
    focal: Tensor,
    principal: Tensor,
    orthographic: bool,
    image_size: int | Sequence[int],
    *,
    near: float,
    far: float,
) -> Tensor:
    """Projection matrices [B, 4, 4] of focal lengths and principal points [B, 2]."""
    if not far > near or (near <= 0 and not orthographic):
        raise ValueError(f"want 0 < near < far, got near {near:g} and far {far:g}")
    height, width = check_image_size(image_size)
    side = torch.tensor([width, height], dtype=focal.dtype, device=focal.device)
    side = min(height, width) / side
    fx, fy = (focal * side).unbind(-1)
    cx, cy = (principal * side).unbind(-1)
    o = torch.zeros_like(fx)
    depth = far - near
    if orthographic:
        rows = [fx, o, o, cx, o, fy, o, cy]
        rows += [o, o, o - 2 / depth, o - (far + near) / depth, o, o, o, o + 1]
    else:
        rows = [fx, o, -cx, o, o, fy, -cy, o]
        rows += [o, o, o - (far + near) / depth, o - 2 * far * near / depth, o, o, o - 1, o]
    return torch.stack(rows, -1).unflatten(-1, (4, 4))


# ---------------------------------------------------------------------------------------------
# PyTorch3D


def from_pytorch3d(
    R: Any,
    T: Any,
    focal_length: Any,
    principal_point: Any,
    *,
    image_size: int | Sequence[int] | None,
    orthographic: bool,
) -> CameraParts:
    """Convert cameras with x left, y up and z ahead, for row vectors: x_cam = x R + T."""
    dtype, device = common_kind(
        R=R, T=T, focal_length=focal_length, principal_point=principal_point
    )
    r = batched(finite_tensor(R, "R", dtype, device), "R", (3, 3))
    check_orthonormal(r, "R", 1)
    t = batched(finite_tensor(T, "T", dtype, device), "T", (3,))
    f = per_axis(finite_tensor(focal_length, "focal_length", dtype, device), "focal_length")
    c = per_axis(
        finite_tensor(principal_point, "principal_point", dtype, device), "principal_point"
    )
    if image_size is None:
        c = signs(c, -1, 1) * c
    else:
        height, width = check_image_size(image_size)
        unit = 2 / min(height, width)
        middle = torch.tensor([width / 2, height / 2], dtype=dtype, device=device)
        f, c = f * unit, signs(c, 1, -1) * (c - middle) * unit
    flip = signs(r, -1, 1, 1)
    return CameraParts(flip[:, None] * r.mT, flip * t, f, c, orthographic=orthographic)


def to_pytorch3d(
    rotation: Tensor, translation: Tensor, principal: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """R [B, 3, 3], T [B, 3] and the principal point [B, 2] in PyTorch3D's convention."""
    flip = signs(rotation, -1, 1, 1)
    r = (flip[:, None] * rotation).mT
    return r, flip * translation, signs(principal, -1, 1) * principal
