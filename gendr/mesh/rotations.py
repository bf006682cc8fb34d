"""Rotation matrices: made from vectors, checked, applied and compared."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gendr._common.checks import check_shape
from gendr._common.tracing import all_hold, is_traced, matmul
from gendr.mesh.camera_arguments import TensorKind

# How far R R^T may be from the identity: poses in files carry four digits, pose optimisation and
# gradcheck move entries by less; a wrong convention or a scale is off by far more.
ORTHONORMAL = 1e-3

# The sine below which two directions count as parallel: an up vector then has no meaning left.
PARALLEL = 1e-6

# theta^2 below which the rotation's coefficients come from their Taylor series. At 1/4 the eight
# terms are exact to 1e-19, and the closed form loses no digits above it.
_SERIES_BELOW = 0.25


def axis_angle_to_matrix(axis_angle: Tensor) -> Tensor:
    """Rotation matrices of axis-angle vectors (Rodrigues' formula), smooth everywhere, also at 0.

    Args:
        axis_angle: [..., 3]; the direction is the axis, the length the angle in radians,
            counter-clockwise seen against the axis.

    Returns:
        [..., 3, 3], orthonormal, determinant 1. Differentiable any number of times.

    Raises:
        ValueError: If the last size is not 3 or a value is not finite.
    """
    w = TensorKind.common(axis_angle=axis_angle).tensor("axis_angle", axis_angle)
    check_shape("axis_angle", w, "[..., 3]")
    square = (w * w).sum(-1)
    small = square < _SERIES_BELOW
    # Both branches get a safe argument, so that no sqrt(0) reaches a gradient.
    near = torch.where(small, square, 0.0)
    angle = torch.where(small, 1.0, square).sqrt()
    sine, versine = torch.zeros_like(near), torch.zeros_like(near)
    for k in range(8, -1, -1):  # sin(t)/t and (1 - cos t)/t^2 in powers of t^2
        sine = sine * near + (-1) ** k / math.factorial(2 * k + 1)
        versine = versine * near + (-1) ** k / math.factorial(2 * k + 2)
    sine = torch.where(small, sine, torch.sin(angle) / angle)
    versine = torch.where(small, versine, 2 * (torch.sin(angle / 2) / angle) ** 2)
    x, y, z = w.unbind(-1)
    o = torch.zeros_like(x)
    cross = torch.stack([o, -z, y, z, o, -x, -y, x, o], -1).unflatten(-1, (3, 3))
    eye = torch.eye(3, dtype=w.dtype, device=w.device)
    return eye + sine[..., None, None] * cross + versine[..., None, None] * matmul(cross, cross)


def rotation_6d_to_matrix(six: Tensor) -> Tensor:
    """Rotation matrices of 6-D vectors by Gram-Schmidt: the first two rows, not yet orthonormal.

    Args:
        six: [..., 6].

    Returns:
        [..., 3, 3], orthonormal, determinant 1.

    Raises:
        ValueError: If the last size is not 6, or the two rows are zero or parallel.

    Source: Zhou et al., On the Continuity of Rotation Representations in Neural Networks, 2019.
    """
    value = TensorKind.common(six=six).tensor("six", six)
    check_shape("six", value, "[..., 6]")
    first = direction(value[..., :3], "the first row of six")
    second = value[..., 3:] - (first * value[..., 3:]).sum(-1, keepdim=True) * first
    limit = PARALLEL * torch.linalg.vector_norm(value[..., 3:].detach(), dim=-1)
    if not all_hold(torch.linalg.vector_norm(second.detach(), dim=-1) > limit):
        raise ValueError("the rows of six are zero or parallel; they span no plane")
    second = direction(second, "the second row of six")
    return torch.stack([first, second, torch.linalg.cross(first, second)], -2)


def rotation_angle_between(first: Tensor, second: Tensor) -> Tensor:
    """The angle of the rotation that takes one orientation to the other.

    Args:
        first: [..., 3, 3], orthonormal.
        second: [..., 3, 3], orthonormal, of the same determinant (both 1, or both -1 as the
            rotations of cameras are).

    Returns:
        [...] in degrees, in [0, 180]; accurate near both ends.

    Raises:
        ValueError: If a matrix is not orthonormal or the determinants differ.
    """
    kind = TensorKind.common(first=first, second=second)
    a, b = kind.tensor("first", first), kind.tensor("second", second)
    for matrix, name in ((a, "first"), (b, "second")):
        check_shape(name, matrix, "[..., 3, 3]")
    relative = matmul(a.mT, b)
    check_orthonormal(relative.reshape(-1, 3, 3), "first^T second", 1)
    skew = relative - relative.mT  # 2 sin(angle) times the axis
    sine = torch.linalg.vector_norm(
        torch.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], -1), dim=-1
    )
    cosine = relative.diagonal(dim1=-2, dim2=-1).sum(-1) - 1
    return torch.rad2deg(torch.atan2(sine, cosine))


def direction(vector: Tensor, name: str) -> Tensor:
    """`vector` [..., 3] scaled to length 1.

    Raises:
        ValueError: If one has length 0.
    """
    length = torch.linalg.vector_norm(vector, dim=-1, keepdim=True)
    if not all_hold(length.detach() != 0):
        raise ValueError(f"{name} has length 0 and no direction")
    return vector / length


def signs(like: Tensor, *signs: int) -> Tensor:
    """These numbers as a tensor in the dtype and on the device of `like`."""
    return torch.tensor(signs, dtype=like.dtype, device=like.device)


def check_orthonormal(rotation: Tensor, name: str, sign: int) -> None:
    """Check that every matrix of `rotation` [B, 3, 3] is orthonormal with determinant `sign`.

    Raises:
        ValueError: If one is not.
    """
    if not len(rotation) or is_traced():
        return
    matrix = rotation.detach()
    eye = torch.eye(3, dtype=matrix.dtype, device=matrix.device)
    error = (matmul(matrix, matrix.mT) - eye).abs().amax(dim=(-2, -1))
    worst = int(error.argmax())
    if float(error[worst]) > ORTHONORMAL:
        raise ValueError(
            f"{name}[{worst}] is not orthonormal: R R^T differs from the identity by "
            f"{float(error[worst]):.2g}; remove scale and shear"
        )
    determinant = torch.linalg.det(matrix) * sign
    if bool((determinant < 0).any()):
        if sign < 0:
            hint = (
                "the rows (right, up, ahead) make -1 in a right-handed world; for a proper "
                "rotation use Camera.from_opencv, .from_opengl or .from_pytorch3d"
            )
        else:
            hint = "this convention has proper rotations; the matrix given is a mirror"
        raise ValueError(
            f"{name}[{int(determinant.argmin())}] has determinant {-sign}, want {sign}: {hint}"
        )


def rotate(rotation: Tensor, points: Tensor) -> Tensor:
    """The product R p for R [..., 3, 3] and p [..., 3].

    It does not use matmul, whose order of summation depends on the number of threads.
    """
    x, y, z = points.unsqueeze(-2).unbind(-1)
    rx, ry, rz = rotation.unbind(-1)
    return rx * x + ry * y + rz * z


def rigid(rotation: Tensor, translation: Tensor) -> Tensor:
    """The matrices [B, 4, 4] of rotations [B, 3, 3] followed by translations [B, 3]."""
    top = torch.cat([rotation, translation[..., None]], -1)
    bottom = signs(rotation, 0, 0, 0, 1).expand(rotation.shape[0], 1, 4)
    return torch.cat([top, bottom], 1)
