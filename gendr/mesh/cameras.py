"""Cameras: poses, projections, and the way to and from the conventions of other packages.

World: right-handed. Camera frame: x right, y up, z = depth ahead; this frame is left-handed, so a
world-to-camera matrix, whose rows are (right, up, ahead), has determinant -1. NDC: the shorter
image side spans [-1, 1], the longer one in proportion; x right, y up. A perspective camera maps
x_ndc = f x / z + c, an orthographic one x_ndc = f x + c.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from gendr._runtime.checks import (
    check_device,
    check_finite,
    check_float,
    check_like,
    check_shape,
    dtype_name,
    shape_text,
)
from gendr._runtime.tracing import matmul

__all__ = [
    "Camera",
    "axis_angle_to_matrix",
    "look_at",
    "look_from",
    "rotation_6d_to_matrix",
    "rotation_angle_between",
]

# How far R R^T may be from the identity: poses in files carry four digits, pose optimisation and
# gradcheck move entries by less; a wrong convention or a scale is off by far more.
_ORTHONORMAL = 1e-3

# The sine below which two directions count as parallel: an up vector then has no meaning left.
_PARALLEL = 1e-6

# theta^2 below which the rotation's coefficients come from their Taylor series. At 1/4 the eight
# terms are exact to 1e-19, and the closed form loses no digits above it.
_SERIES_BELOW = 0.25


# ---------------------------------------------------------------------------------------------
# checks


def _common(**values: Any) -> tuple[torch.dtype, torch.device]:
    """The dtype and device that the tensors among `values` share; the defaults if there are none.

    Integer tensors follow the floating ones.
    """
    name, first = "", None
    for key, value in values.items():
        if not isinstance(value, Tensor):
            continue
        if value.is_floating_point() or value.is_complex():
            check_float(key, value)
        if first is None or (value.is_floating_point() and not first.is_floating_point()):
            name, first = key, value
    if first is None:
        dtype = torch.get_default_dtype()
        return (dtype if dtype is torch.float64 else torch.float32), torch.device("cpu")
    for key, value in values.items():
        if isinstance(value, Tensor):
            if value.is_floating_point():
                check_like(key, value, name, first)
            check_device(key, value, name, first)
    if not first.is_floating_point():
        return torch.float32, first.device
    return first.dtype, first.device


def _tensor(value: Any, name: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    """`value` as a finite tensor of `dtype`."""
    try:
        tensor = torch.as_tensor(value, dtype=dtype, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        what = type(value).__name__
        raise TypeError(f"{name} must be a number or a tensor, got {what}: {error}") from None
    return check_finite(name, tensor)


def _shaped(tensor: Tensor, name: str, tail: tuple[int, ...]) -> Tensor:
    """`tensor` as [B, *tail]; a missing batch dimension is added."""
    want = ", ".join(map(str, tail))
    check_shape(name, tensor, f"[{want}] or [B, {want}]")
    return tensor[None] if tensor.ndim == len(tail) else tensor


def _per_camera(tensor: Tensor, name: str) -> Tensor:
    """`tensor` as [B]; a single number is one camera's."""
    if tensor.ndim == 0:
        return tensor[None]
    if tensor.ndim == 1 and len(tensor) > 0:
        return tensor
    raise ValueError(f"{name} must be one number or have shape [B], got {shape_text(tensor.shape)}")


def _pair(tensor: Tensor, name: str) -> Tensor:
    """`tensor` as [B, 2]; one number stands for both axes, [B] for both axes of every camera."""
    if tensor.ndim == 0:
        return tensor.expand(1, 2)
    if tensor.ndim == 1 and tensor.shape[0] not in (0, 2):
        return tensor[:, None].expand(-1, 2)
    return _shaped(tensor, name, (2,))


def _broadcast(**tensors: Tensor) -> list[Tensor]:
    """All tensors with one leading size, 1 broadcasting to B."""
    sizes = {name: tensor.shape[0] for name, tensor in tensors.items()}
    batch = max(sizes.values())
    for name, size in sizes.items():
        if size not in (1, batch):
            raise ValueError(f"batch sizes do not fit: {sizes}; {name} needs 1 or {batch}")
    return [tensor.expand(batch, *tensor.shape[1:]) for tensor in tensors.values()]


def _image_size(image_size: int | Sequence[int]) -> tuple[int, int]:
    """(H, W) of `image_size`, an int or a pair."""
    pair = (image_size, image_size) if isinstance(image_size, int) else tuple(image_size)
    if len(pair) != 2 or any(int(n) != n or n < 1 for n in pair):
        raise ValueError(f"image_size must be a positive int or (H, W), got {image_size!r}")
    return int(pair[0]), int(pair[1])


def _check_orthonormal(rotation: Tensor, name: str, sign: int) -> None:
    """Raise unless every [3, 3] of `rotation` is orthonormal with determinant `sign`."""
    matrix = rotation.detach()
    eye = torch.eye(3, dtype=matrix.dtype, device=matrix.device)
    error = (matmul(matrix, matrix.mT) - eye).abs().amax(dim=(-2, -1))
    worst = int(error.argmax())
    if float(error[worst]) > _ORTHONORMAL:
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


def _check_fov(fov: Tensor) -> None:
    bad = (fov.detach() <= 0) | (fov.detach() >= 180)
    if bool(bad.any()):
        worst = float(fov.detach()[bad][0])
        raise ValueError(f"fov must be in (0, 180) degrees, got {worst:g}")


def _focal_of_fov(fov: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """[B] focal lengths in NDC units of full angles across the shorter side, in degrees."""
    angle = _per_camera(_tensor(fov, "fov", dtype, device), "fov")
    _check_fov(angle)
    return 1 / torch.tan(angle * (math.pi / 360))


# ---------------------------------------------------------------------------------------------
# rotations


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
    dtype, device = _common(axis_angle=axis_angle)
    w = _tensor(axis_angle, "axis_angle", dtype, device)
    check_shape("axis_angle", w, "[..., 3]")
    square = (w * w).sum(-1)
    small = square < _SERIES_BELOW
    # Both branches see a harmless argument, so that no sqrt(0) reaches a gradient.
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
    eye = torch.eye(3, dtype=dtype, device=device)
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
    dtype, device = _common(six=six)
    value = _tensor(six, "six", dtype, device)
    check_shape("six", value, "[..., 6]")
    first = _unit(value[..., :3], "the first row of six")
    second = value[..., 3:] - (first * value[..., 3:]).sum(-1, keepdim=True) * first
    limit = _PARALLEL * torch.linalg.vector_norm(value[..., 3:].detach(), dim=-1)
    if bool((torch.linalg.vector_norm(second.detach(), dim=-1) <= limit).any()):
        raise ValueError("the rows of six are zero or parallel; they span no plane")
    second = _unit(second, "the second row of six")
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
    dtype, device = _common(first=first, second=second)
    a, b = (_tensor(m, name, dtype, device) for m, name in ((first, "first"), (second, "second")))
    for matrix, name in ((a, "first"), (b, "second")):
        check_shape(name, matrix, "[..., 3, 3]")
    relative = matmul(a.mT, b)
    _check_orthonormal(relative.reshape(-1, 3, 3), "first^T second", 1)
    skew = relative - relative.mT  # 2 sin(angle) times the axis
    sine = torch.linalg.vector_norm(
        torch.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], -1), dim=-1
    )
    cosine = relative.diagonal(dim1=-2, dim2=-1).sum(-1) - 1
    return torch.rad2deg(torch.atan2(sine, cosine))


def _unit(vector: Tensor, name: str) -> Tensor:
    """`vector` [..., 3] scaled to length 1."""
    length = torch.linalg.vector_norm(vector, dim=-1, keepdim=True)
    if bool((length.detach() == 0).any()):
        raise ValueError(f"{name} has length 0 and no direction")
    return vector / length


def _signs(like: Tensor, *signs: int) -> Tensor:
    return torch.tensor(signs, dtype=like.dtype, device=like.device)


# ---------------------------------------------------------------------------------------------
# the camera


@final
@dataclass(frozen=True, eq=False, init=False, repr=False)
class Camera:
    """A batch of B cameras, immutable and differentiable in every tensor.

    Camera coordinates are x_cam = rotation @ x_world + translation: x right, y up, z ahead (see the
    module). Everything broadcasts 1 to B. A camera without a pose sits at the origin, looks along
    -z and has y up.

    Attributes:
        rotation: [B, 3, 3], rows (right, up, ahead) in world coordinates, determinant -1.
        translation: [B, 3], world units.
        focal: [B, 2], NDC units; if orthographic, NDC units per world unit.
        principal: [B, 2], where the optical axis meets the image, NDC.
        orthographic: Parallel projection, for the whole batch.
    """

    rotation: Tensor
    translation: Tensor
    focal: Tensor
    principal: Tensor
    orthographic: bool

    def __init__(
        self,
        rotation: Any = None,
        translation: Any = None,
        focal: Any = None,
        principal: Any = 0.0,
        *,
        fov: Any = None,
        orthographic: bool = False,
    ) -> None:
        """Make cameras of a pose and a projection.

        Args:
            rotation: [3, 3] or [B, 3, 3], rows (right, up, ahead), determinant -1. For a free
                rotation parameter see `rotated` and `from_opencv`.
            translation: [3] or [B, 3].
            focal: A number, [B], [2] (two axes) or [B, 2], > 0. A tensor of size 2 means two axes.
            principal: As `focal`, any finite values.
            fov: Instead of `focal`: the full angle across the shorter image side in degrees,
                in (0, 180), one number or [B]. Default 30 for perspective.
            orthographic: Parallel projection; wants `focal`.

        Raises:
            ValueError: If a shape, a batch size, a range or a device is wrong, a value is not
                finite or a rotation is none.
            TypeError: If a dtype is neither float32 nor float64, or dtypes differ.
        """
        dtype, device = _common(
            rotation=rotation, translation=translation, focal=focal, principal=principal, fov=fov
        )
        if rotation is None:
            rotation = torch.diag(torch.tensor([1, 1, -1], dtype=dtype, device=device))
        r = _shaped(_tensor(rotation, "rotation", dtype, device), "rotation", (3, 3))
        _check_orthonormal(r, "rotation", -1)
        t = _shaped(
            _tensor(
                (0, 0, 0) if translation is None else translation, "translation", dtype, device
            ),
            "translation",
            (3,),
        )
        if focal is not None and fov is not None:
            raise ValueError("focal and fov both say how wide the view is; give one of them")
        if orthographic and focal is None:
            raise ValueError(
                "an orthographic camera has no fov; give focal, its NDC units per world unit"
            )
        if focal is None:
            f = _focal_of_fov(30.0 if fov is None else fov, dtype, device)[:, None].expand(-1, 2)
        else:
            f = _pair(_tensor(focal, "focal", dtype, device), "focal")
            if bool((f.detach() <= 0).any()):
                raise ValueError(f"focal must be > 0, got {float(f.detach().min()):g}")
        c = _pair(_tensor(principal, "principal", dtype, device), "principal")
        r, t, f, c = _broadcast(rotation=r, translation=t, focal=f, principal=c)
        self._fill(r, t, f, c, bool(orthographic))

    def _fill(self, r: Tensor, t: Tensor, f: Tensor, c: Tensor, orthographic: bool) -> None:
        for name, value in zip(
            ("rotation", "translation", "focal", "principal", "orthographic"),
            (r, t, f, c, orthographic),
            strict=True,
        ):
            object.__setattr__(self, name, value)

    def _with(
        self,
        rotation: Tensor | None = None,
        translation: Tensor | None = None,
        focal: Tensor | None = None,
        principal: Tensor | None = None,
    ) -> Camera:
        """A copy with some tensors replaced, unchecked."""
        r, t, f, c = _broadcast(
            rotation=self.rotation if rotation is None else rotation,
            translation=self.translation if translation is None else translation,
            focal=self.focal if focal is None else focal,
            principal=self.principal if principal is None else principal,
        )
        camera = object.__new__(Camera)
        camera._fill(r, t, f, c, self.orthographic)
        return camera

    # -- the batch ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.rotation.shape[0]

    def __getitem__(self, index: int | slice | Sequence[int] | Tensor) -> Camera:
        """The cameras at `index`: an int (a batch of one), a slice, a list, an index or a mask."""
        if isinstance(index, int):
            if not -len(self) <= index < len(self):
                raise IndexError(f"camera {index} of {len(self)}")
            index = [index]
        return self._with(*(x[index] for x in self._tensors()))

    def __repr__(self) -> str:
        kind = "orthographic" if self.orthographic else "perspective"
        return f"Camera({len(self)} {kind}, {self.dtype}, {self.device})"

    def _tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.rotation, self.translation, self.focal, self.principal

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of all tensors."""
        return self.rotation.dtype

    @property
    def device(self) -> torch.device:
        """The device of all tensors."""
        return self.rotation.device

    def to(self, *args: Any, **kwargs: Any) -> Camera:
        """The same cameras in another dtype or on another device, as `Tensor.to`."""
        return self._with(*(x.to(*args, **kwargs) for x in self._tensors()))

    def detach(self) -> Camera:
        """The same cameras without gradient history."""
        return self._with(*(x.detach() for x in self._tensors()))

    def expand(self, batch: int) -> Camera:
        """One camera as a batch of `batch` equal ones; a batch of that size as it is."""
        if len(self) not in (1, batch):
            raise ValueError(f"{len(self)} cameras do not broadcast to {batch}")
        return self._with(*(x.expand(batch, *x.shape[1:]) for x in self._tensors()))

    @staticmethod
    def batch(cameras: Sequence[Camera]) -> Camera:
        """One batch of several, in order.

        Raises:
            ValueError: If the list is empty or mixes perspective with orthographic, or devices.
            TypeError: If it mixes dtypes.
        """
        cameras = list(cameras)
        if not cameras:
            raise ValueError("no cameras to batch; give at least one")
        if any(not isinstance(camera, Camera) for camera in cameras):
            raise TypeError("Camera.batch takes a list of Camera")
        if len({camera.orthographic for camera in cameras}) > 1:
            raise ValueError("a batch is all perspective or all orthographic; got both")
        _common(**{f"camera {i}": camera.rotation for i, camera in enumerate(cameras)})
        parts = zip(*(camera._tensors() for camera in cameras), strict=True)
        return cameras[0]._with(*(torch.cat(list(part)) for part in parts))

    # -- the pose -----------------------------------------------------------------------------

    @property
    def right(self) -> Tensor:
        """[B, 3], the unit vector to the right of the image, world."""
        return self.rotation[:, 0]

    @property
    def up(self) -> Tensor:
        """[B, 3], the unit vector to the top of the image, world."""
        return self.rotation[:, 1]

    @property
    def ahead(self) -> Tensor:
        """[B, 3], the unit vector of the optical axis, into the image, world."""
        return self.rotation[:, 2]

    @property
    def eye(self) -> Tensor:
        """[B, 3], the camera centre in the world: where x_cam = 0."""
        return -matmul(self.rotation.mT, self.translation[..., None]).squeeze(-1)

    @property
    def camera_to_world(self) -> Tensor:
        """[B, 4, 4], the pose as OpenGL and NeRF tools write it: columns right, up, back, eye."""
        back = _signs(self.rotation, 1, 1, -1)[:, None] * self.rotation
        return _rigid(back.mT, self.eye)

    def rotated(self, axis_angle: Any, centre: Any = (0.0, 0.0, 0.0)) -> Camera:
        """The cameras turned about a world point; the eye orbits it, the image turns with it.

        An object around `centre` stays in view, which makes this the rotation parameter of pose
        optimisation; `centre=camera.eye` turns the cameras in place.

        Args:
            axis_angle: [3] or [B, 3], world axes, radians, right-hand rule; 0 changes nothing.
            centre: [3] or [B, 3], world.
        """
        dtype, device = self._meets(axis_angle=axis_angle, centre=centre)
        w = _shaped(_tensor(axis_angle, "axis_angle", dtype, device), "axis_angle", (3,))
        c = _shaped(_tensor(centre, "centre", dtype, device), "centre", (3,))
        rotation = matmul(self.rotation, axis_angle_to_matrix(w).mT)
        kept = matmul(self.rotation, c[..., None]).squeeze(-1) + self.translation
        return self._with(rotation, kept - matmul(rotation, c[..., None]).squeeze(-1))

    def moved(self, delta: Any) -> Camera:
        """The cameras moved by `delta`, [3] or [B, 3], in world units and axes."""
        dtype, device = self._meets(delta=delta)
        d = _shaped(_tensor(delta, "delta", dtype, device), "delta", (3,))
        step = matmul(self.rotation, d[..., None]).squeeze(-1)
        return self._with(translation=self.translation - step)

    def _meets(self, **values: Any) -> tuple[torch.dtype, torch.device]:
        """The camera's dtype and device, after checking that those of `values` agree."""
        return _common(camera=self.rotation, **values)

    # -- the projection -----------------------------------------------------------------------

    def world_to_camera(self, points: Tensor, index: Tensor | None = None) -> Tensor:
        """Camera coordinates (right, up, depth) of world points.

        Args:
            points: [V, 3] or [B or 1, V, 3]; one set is seen by all cameras, one camera sees all
                sets. Packed with `index`: [V, 3].
            index: [V] int64, the camera that sees each of the packed points.

        Returns:
            [B, V, 3]; packed: [V, 3].
        """
        check_like("points", check_float("points", points), "the camera", self.rotation)
        if index is not None:
            check_shape("packed points", points, "[V, 3]")
            check_shape("index", index, "[V]", V=len(points))
            if len(self) == 1:  # every index is 0
                return _rotated(self.rotation[0], points) + self.translation[0]
            rotation = self.rotation.index_select(0, index)
            return _rotated(rotation, points) + self.translation.index_select(0, index)
        check_shape("points", points, "[V, 3] or [B, V, 3]")
        p = points[None] if points.ndim == 2 else points
        if p.shape[0] != len(self) and 1 not in (p.shape[0], len(self)):
            raise ValueError(
                f"{p.shape[0]} point sets and {len(self)} cameras do not broadcast; want 1 or equal"
            )
        return _rotated(self.rotation[:, None], p) + self.translation[:, None]

    def clip_coordinates(
        self, points: Tensor, index: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Homogeneous NDC, before the division: linear in the points, so edges may be clipped.

        Args:
            points: As for `world_to_camera`.
            index: As for `world_to_camera`.

        Returns:
            (X, Y, W) as [B, V, 3] with x_ndc = X / W, y_ndc = Y / W, where W is the depth for
            perspective and 1 for orthographic; and the depth [B, V], any sign. Packed: [V, 3], [V].
        """
        camera = self.world_to_camera(points, index)
        xy, depth = camera[..., :2], camera[..., 2]
        if index is None:
            focal, principal = self.focal[:, None], self.principal[:, None]
        else:
            focal, principal = self.focal[index], self.principal[index]
        w = torch.ones_like(depth) if self.orthographic else depth
        return torch.cat([focal * xy + principal * w[..., None], w[..., None]], -1), depth

    def project(self, points: Tensor, index: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """NDC and depth of world points.

        Args:
            points: As for `world_to_camera`.
            index: As for `world_to_camera`.

        Returns:
            x, y [B, V, 2] and depth [B, V]. Points of perspective cameras with depth <= 0 are not
            in view: they come out mirrored, or not finite at depth 0. Packed: [V, 2], [V].
        """
        xyw, depth = self.clip_coordinates(points, index)
        return xyw[..., :2] / xyw[..., 2:], depth

    def unproject(self, xy: Tensor, depth: Tensor) -> Tensor:
        """World points at image points and depths: the inverse of `project`.

        Args:
            xy: [N, 2] or [B or 1, N, 2], NDC.
            depth: [N] or [B or 1, N].

        Returns:
            [B, N, 3].
        """
        check_like("xy", check_float("xy", xy), "the camera", self.rotation)
        check_like("depth", check_float("depth", depth), "the camera", self.rotation)
        sizes = check_shape("xy", xy, "[N, 2] or [B, N, 2]")
        check_shape("depth", depth, "[N] or [B, N]", N=sizes["N"])
        p, z = (xy[None] if xy.ndim == 2 else xy), (depth[None] if depth.ndim == 1 else depth)
        z = z[..., None]
        plane = (p - self.principal[:, None]) / self.focal[:, None]
        plane = plane + 0 * z if self.orthographic else plane * z
        camera = torch.cat([plane, z.expand(*plane.shape[:2], 1)], -1)
        return matmul(camera - self.translation[:, None], self.rotation)

    # -- constructors and other conventions ---------------------------------------------------

    @staticmethod
    def from_fov(
        fov: Any, *, rotation: Any = None, translation: Any = None, principal: Any = 0.0
    ) -> Camera:
        """Perspective cameras from the full angle across the shorter image side, in degrees."""
        return Camera(rotation, translation, principal=principal, fov=fov)

    @staticmethod
    def from_intrinsics(
        K: Any = None,
        image_size: int | Sequence[int] | None = None,
        *,
        fx: Any = None,
        fy: Any = None,
        cx: Any = None,
        cy: Any = None,
        rotation: Any = None,
        translation: Any = None,
        pixel_centre: float = 0.5,
    ) -> Camera:
        """Cameras from pinhole intrinsics in pixels, and a pose in our frame.

        Args:
            K: [3, 3] or [B, 3, 3], OpenCV's [[fx, 0, cx], [0, fy, cy], [0, 0, 1]], row 0 on top.
            image_size: H (a square) or (H, W), in pixels.
            fx: Instead of K: focal lengths in pixels, one number or [B]; `fy` defaults to `fx`.
            fy: See `fx`.
            cx: Instead of K: the principal point in pixels; the image centre by default.
            cy: See `cx`.
            rotation: As for `Camera`.
            translation: As for `Camera`.
            pixel_centre: Where `cx, cy` count the centre of the first pixel: 0.5 (COLMAP, NeRF
                tools; the image is [0, W]), or 0 (cv2.calibrateCamera, cv2.projectPoints).

        Raises:
            ValueError: If K is not of that form (skew, last row), or as for `Camera`.
        """
        if image_size is None:
            raise ValueError("pixel intrinsics need image_size, an int or (H, W)")
        height, width = _image_size(image_size)
        dtype, device = _common(
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
                _per_camera(_tensor(value, name, dtype, device), name)
                for value, name in zip(parts, ("fx", "fy", "cx", "cy"), strict=True)
            ]
            fx, fy, cx, cy = _broadcast(fx=parts[0], fy=parts[1], cx=parts[2], cy=parts[3])
        else:
            if any(value is not None for value in (fx, fy, cx, cy)):
                raise ValueError("K and fx, fy, cx, cy say the same; give one of them")
            k = _shaped(_tensor(K, "K", dtype, device), "K", (3, 3))
            last = k.detach()[:, 2] - _signs(k, 0, 0, 1)
            if bool((k.detach()[:, 1, 0] != 0).any()) or bool((last != 0).any()):
                raise ValueError(
                    "K must be [[fx, 0, cx], [0, fy, cy], [0, 0, 1]]; is it transposed?"
                )
            if bool((k.detach()[:, 0, 1] != 0).any()):
                raise ValueError("K has skew (K[0, 1] != 0), which cameras here do not have")
            fx, fy, cx, cy = k[:, 0, 0], k[:, 1, 1], k[:, 0, 2], k[:, 1, 2]
        unit = 2 / min(height, width)  # NDC units per pixel
        shift = 0.5 - pixel_centre
        principal = torch.stack([cx + shift - width / 2, height / 2 - cy - shift], -1) * unit
        return Camera(rotation, translation, torch.stack([fx, fy], -1) * unit, principal)

    def intrinsics(self, image_size: int | Sequence[int], *, pixel_centre: float = 0.5) -> Tensor:
        """[B, 3, 3] OpenCV camera matrices in pixels of an image; see `from_intrinsics`.

        Raises:
            ValueError: If the cameras are orthographic.
        """
        if self.orthographic:
            raise ValueError("an orthographic camera has no camera matrix K")
        height, width = _image_size(image_size)
        half = min(height, width) / 2
        shift = pixel_centre - 0.5
        fx, fy = (self.focal * half).unbind(-1)
        cx = self.principal[:, 0] * half + width / 2 + shift
        cy = height / 2 - self.principal[:, 1] * half + shift
        o = torch.zeros_like(fx)
        return torch.stack([fx, o, cx, o, fy, cy, o, o, o + 1], -1).unflatten(-1, (3, 3))

    @staticmethod
    def from_opencv(
        R: Any, t: Any, K: Any, image_size: int | Sequence[int], *, pixel_centre: float = 0.5
    ) -> Camera:
        """Cameras of OpenCV's convention: x right, y down, z ahead; x_cv = R x_world + t.

        Args:
            R: [3, 3] or [B, 3, 3], determinant 1 (of a rotation vector: `axis_angle_to_matrix`).
            t: [3] or [B, 3].
            K: As for `from_intrinsics`, without distortion.
            image_size: As for `from_intrinsics`.
            pixel_centre: As for `from_intrinsics`; give 0 for what `cv2.calibrateCamera` returns.
        """
        dtype, device = _common(R=R, t=t, K=K)
        r = _shaped(_tensor(R, "R", dtype, device), "R", (3, 3))
        _check_orthonormal(r, "R", 1)
        shift = _shaped(_tensor(t, "t", dtype, device), "t", (3,))
        flip = _signs(r, 1, -1, 1)
        return Camera.from_intrinsics(
            _tensor(K, "K", dtype, device),
            image_size,
            rotation=flip[:, None] * r,
            translation=flip * shift,
            pixel_centre=pixel_centre,
        )

    def to_opencv(
        self, image_size: int | Sequence[int], *, pixel_centre: float = 0.5
    ) -> tuple[Tensor, Tensor, Tensor]:
        """R [B, 3, 3], t [B, 3] and K [B, 3, 3] of OpenCV's convention; see `from_opencv`."""
        flip = _signs(self.rotation, 1, -1, 1)
        k = self.intrinsics(image_size, pixel_centre=pixel_centre)
        return flip[:, None] * self.rotation, flip * self.translation, k

    @staticmethod
    def from_opengl(
        view: Any = None,
        *,
        camera_to_world: Any = None,
        fov: Any = None,
        projection: Any = None,
        image_size: int | Sequence[int] = 1,
    ) -> Camera:
        """Cameras of OpenGL's convention: x right, y up, looking along -z; column vectors.

        Args:
            view: [4, 4] or [B, 4, 4], world to camera.
            camera_to_world: Instead of `view`: its inverse, as in the `transform_matrix` of NeRF
                tools and `matrix_world` of Blender.
            fov: Full angle across the shorter image side in degrees, in (0, 180). Default 30.
            projection: Instead of `fov`: [4, 4] or [B, 4, 4], perspective or orthographic; its
                near and far are not used, the renderer has its own.
            image_size: H or (H, W); only its aspect matters, and only with `projection`, whose x
                and y span [-1, 1] over each side of the image.
        """
        if (view is None) == (camera_to_world is None):
            raise ValueError("give either view (world to camera) or camera_to_world")
        if fov is not None and projection is not None:
            raise ValueError("fov and projection both say how wide the view is; give one of them")
        dtype, device = _common(
            view=view, camera_to_world=camera_to_world, fov=fov, projection=projection
        )
        name = "camera_to_world" if view is None else "view"
        given = camera_to_world if view is None else view
        pose = _shaped(_tensor(given, name, dtype, device), name, (4, 4))
        if bool((pose.detach()[:, 3] - _signs(pose, 0, 0, 0, 1) != 0).any()):
            raise ValueError(f"the last row of {name} must be 0 0 0 1; is it transposed?")
        r, t = pose[:, :3, :3], pose[:, :3, 3]
        _check_orthonormal(r, name, 1)
        if view is None:
            r = r.mT
            t = -matmul(r, t[..., None]).squeeze(-1)
        flip = _signs(pose, 1, 1, -1)
        r, t = flip[:, None] * r, flip * t
        if projection is None:
            return Camera(r, t, fov=fov)
        p = _shaped(_tensor(projection, "projection", dtype, device), "projection", (4, 4))
        kind = p.detach()[:, 3]
        perspective = bool((kind == _signs(p, 0, 0, -1, 0)).all())
        if not perspective and bool((kind != _signs(p, 0, 0, 0, 1)).any()):
            raise ValueError(
                "the last row of projection must be 0 0 -1 0 (perspective) or 0 0 0 1 "
                "(orthographic), alike in a batch; is it transposed?"
            )
        if bool((p.detach()[:, 0, 1] != 0).any()) or bool((p.detach()[:, 1, 0] != 0).any()):
            raise ValueError("projection has skew, which cameras here do not have")
        height, width = _image_size(image_size)
        side = torch.tensor([width, height], dtype=dtype, device=device) / min(height, width)
        offset = -p[:, :2, 2] if perspective else p[:, :2, 3]
        focal = torch.stack([p[:, 0, 0], p[:, 1, 1]], -1) * side
        return Camera(r, t, focal, offset * side, orthographic=not perspective)

    def to_opengl(
        self, image_size: int | Sequence[int] = 1, *, near: float = 1.0, far: float = 100.0
    ) -> tuple[Tensor, Tensor]:
        """View and projection matrices of OpenGL's convention, both [B, 4, 4], column vectors.

        Args:
            image_size: H or (H, W); only its aspect matters.
            near: Depth that maps to z = -1, > 0 for perspective.
            far: Depth that maps to z = 1, > near.
        """
        if not far > near or (near <= 0 and not self.orthographic):
            raise ValueError(f"want 0 < near < far, got near {near:g} and far {far:g}")
        flip = _signs(self.rotation, 1, 1, -1)
        view = _rigid(flip[:, None] * self.rotation, flip * self.translation)
        height, width = _image_size(image_size)
        side = torch.tensor([width, height], dtype=self.dtype, device=self.device)
        side = min(height, width) / side
        fx, fy = (self.focal * side).unbind(-1)
        cx, cy = (self.principal * side).unbind(-1)
        o = torch.zeros_like(fx)
        depth = far - near
        if self.orthographic:
            rows = [fx, o, o, cx, o, fy, o, cy]
            rows += [o, o, o - 2 / depth, o - (far + near) / depth, o, o, o, o + 1]
        else:
            rows = [fx, o, -cx, o, o, fy, -cy, o]
            rows += [o, o, o - (far + near) / depth, o - 2 * far * near / depth, o, o, o - 1, o]
        return view, torch.stack(rows, -1).unflatten(-1, (4, 4))

    @staticmethod
    def from_pytorch3d(
        R: Any,
        T: Any,
        focal_length: Any,
        principal_point: Any = 0.0,
        *,
        image_size: int | Sequence[int] | None = None,
        orthographic: bool = False,
    ) -> Camera:
        """Cameras of PyTorch3D's convention: x left, y up, z ahead; row vectors x_cam = x R + T.

        Args:
            R: [3, 3] or [B, 3, 3], determinant 1.
            T: [3] or [B, 3].
            focal_length: As `focal` of `Camera`; of a FoVPerspectiveCameras it is
                1 / tan(fov / 2).
            principal_point: As `principal` of `Camera`; NDC with x left, y up.
            image_size: H or (H, W) if focal length and principal point are in pixels
                (`in_ndc=False`, where the image is [0, W] x [0, H], x right, y down).
            orthographic: An OrthographicCameras, `focal_length` being its scale.
        """
        dtype, device = _common(
            R=R, T=T, focal_length=focal_length, principal_point=principal_point
        )
        r = _shaped(_tensor(R, "R", dtype, device), "R", (3, 3))
        _check_orthonormal(r, "R", 1)
        t = _shaped(_tensor(T, "T", dtype, device), "T", (3,))
        f = _pair(_tensor(focal_length, "focal_length", dtype, device), "focal_length")
        c = _pair(_tensor(principal_point, "principal_point", dtype, device), "principal_point")
        if image_size is None:
            c = _signs(c, -1, 1) * c
        else:
            height, width = _image_size(image_size)
            unit = 2 / min(height, width)
            middle = torch.tensor([width / 2, height / 2], dtype=dtype, device=device)
            f, c = f * unit, _signs(c, 1, -1) * (c - middle) * unit
        flip = _signs(r, -1, 1, 1)
        return Camera(flip[:, None] * r.mT, flip * t, f, c, orthographic=orthographic)

    def to_pytorch3d(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """R [B, 3, 3], T [B, 3], focal_length [B, 2], principal_point [B, 2], NDC, of PyTorch3D.

        They are the arguments, in this order by name, of its PerspectiveCameras or
        OrthographicCameras with `in_ndc=True`.
        """
        flip = _signs(self.rotation, -1, 1, 1)
        r = (flip[:, None] * self.rotation).mT
        return r, flip * self.translation, self.focal, _signs(self.focal, -1, 1) * self.principal


def _rotated(rotation: Tensor, points: Tensor) -> Tensor:
    """R p for R [..., 3, 3] and p [..., 3].

    Not by matmul, whose sums come in another order when the number of threads is another.
    """
    x, y, z = points.unsqueeze(-2).unbind(-1)
    rx, ry, rz = rotation.unbind(-1)
    return rx * x + ry * y + rz * z


def _rigid(rotation: Tensor, translation: Tensor) -> Tensor:
    """[B, 4, 4] of [B, 3, 3] and [B, 3]."""
    top = torch.cat([rotation, translation[..., None]], -1)
    bottom = _signs(rotation, 0, 0, 0, 1).expand(rotation.shape[0], 1, 4)
    return torch.cat([top, bottom], 1)


# ---------------------------------------------------------------------------------------------
# cameras that look at something


def look_at(
    distance: Any,
    elevation: Any,
    azimuth: Any,
    fov: Any = 30.0,
    *,
    at: Any = (0.0, 0.0, 0.0),
    orthographic: bool = False,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Camera:
    """Cameras on a sphere that look at its centre.

    The eye is at + d (cos e sin a, sin e, -cos e cos a). The image's up is the direction in which
    the elevation grows, so the pose is smooth everywhere, at elevations of +-90 and beyond too.
    All arguments broadcast and are differentiable.

    Args:
        distance: World units, > 0; a number or [B].
        elevation: Degrees above the xz plane; a number or [B].
        azimuth: Degrees from -z towards +x; a number or [B].
        fov: Full angle across the shorter image side in degrees, in (0, 180); a number or [B].
        at: [3] or [B, 3], the point looked at.
        orthographic: Parallel projection, as wide at the distance of `at` as `fov` would be.
        dtype: float32 or float64; by default that of the tensors given.
        device: By default that of the tensors given.

    Raises:
        ValueError: If a range, a shape or a batch size is wrong or a value is not finite.
        TypeError: If dtypes are wrong or differ.
    """
    dtype, device = _wanted(
        dtype,
        device,
        distance=distance,
        elevation=elevation,
        azimuth=azimuth,
        fov=fov,
        at=at,
    )
    d, e, a = (
        _per_camera(_tensor(value, name, dtype, device), name)
        for value, name in ((distance, "distance"), (elevation, "elevation"), (azimuth, "azimuth"))
    )
    if bool((d.detach() <= 0).any()):
        raise ValueError(f"distance must be > 0, got {float(d.detach().min()):g}")
    target = _shaped(_tensor(at, "at", dtype, device), "at", (3,))
    f = _focal_of_fov(fov, dtype, device)
    d, e, a, f, target = _broadcast(distance=d, elevation=e, azimuth=a, fov=f, at=target)
    e, a = torch.deg2rad(e), torch.deg2rad(a)
    ce, se, ca, sa = torch.cos(e), torch.sin(e), torch.cos(a), torch.sin(a)
    o = torch.zeros_like(ce)
    rows = [-ca, o, -sa, -se * sa, ce, se * ca, -ce * sa, -se, ce * ca]
    rotation = torch.stack(torch.broadcast_tensors(*rows), -1).unflatten(-1, (3, 3))
    # x_cam of `at` is (0, 0, d) by construction.
    shift = torch.stack([o, o, d], -1) - matmul(rotation, target[..., None]).squeeze(-1)
    focal = (f / d if orthographic else f)[:, None].expand(-1, 2)
    return Camera(rotation, shift, focal, orthographic=orthographic)


def look_from(
    eye: Any,
    at: Any = (0.0, 0.0, 0.0),
    up: Any = (0.0, 1.0, 0.0),
    fov: Any = 30.0,
    *,
    orthographic: bool = False,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Camera:
    """Cameras at `eye` that look at `at`, turned so that `up` points up in the image.

    Args:
        eye: [3] or [B, 3], world.
        at: [3] or [B, 3], world; not the eye.
        up: [3] or [B, 3], not parallel to the line of sight; need not be orthogonal to it.
        fov: As for `look_at`.
        orthographic: As for `look_at`.
        dtype: As for `look_at`.
        device: As for `look_at`.

    Raises:
        ValueError: If eye and at coincide or `up` is parallel to the line of sight; else as
            `look_at`.
    """
    dtype, device = _wanted(dtype, device, eye=eye, at=at, up=up, fov=fov)
    e, target, u = (
        _shaped(_tensor(value, name, dtype, device), name, (3,))
        for value, name in ((eye, "eye"), (at, "at"), (up, "up"))
    )
    f = _focal_of_fov(fov, dtype, device)
    e, target, u, f = _broadcast(eye=e, at=target, up=u, fov=f)
    ahead = _unit(target - e, "the line from eye to at")
    right = torch.linalg.cross(ahead, _unit(u, "up"))
    sine = torch.linalg.vector_norm(right.detach(), dim=-1)
    if bool((sine < _PARALLEL).any()):
        raise ValueError("up is parallel to the line of sight; choose another up, or use look_at")
    right = _unit(right, "right")
    rotation = torch.stack([right, torch.linalg.cross(right, ahead), ahead], -2)
    shift = -matmul(rotation, e[..., None]).squeeze(-1)
    if orthographic:
        f = f / torch.linalg.vector_norm(target - e, dim=-1)
    return Camera(rotation, shift, f[:, None].expand(-1, 2), orthographic=orthographic)


def _wanted(
    dtype: torch.dtype | None, device: torch.device | str | None, **values: Any
) -> tuple[torch.dtype, torch.device]:
    """The dtype and device asked for, else those of `values`."""
    if dtype is not None and dtype not in (torch.float32, torch.float64):
        raise TypeError(f"dtype must be float32 or float64, got {dtype_name(dtype)}")
    if dtype is None or device is None:
        found = _common(**values)
        dtype = found[0] if dtype is None else dtype
        device = found[1] if device is None else device
    return dtype, torch.device(device)
