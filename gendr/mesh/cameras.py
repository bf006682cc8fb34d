"""Cameras: poses, projections, and constructors of cameras that look at a point.

World: right-handed. Camera frame: x right, y up, z = depth ahead; this frame is left-handed, so a
world-to-camera matrix, whose rows are (right, up, ahead), has determinant -1. NDC: the shorter
image side spans [-1, 1], the longer one in proportion; x right, y up. A perspective camera maps
x_ndc = f x / z + c, an orthographic one x_ndc = f x + c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

import torch
from torch import Tensor

from gendr._common.checks import (
    check_finite,
    check_float,
    check_image_size,
    check_like,
    check_shape,
)
from gendr._common.tracing import TensorCache, all_hold, capturing, matmul
from gendr._common.vectors import gathered
from gendr.mesh.camera_arguments import TensorKind, broadcast
from gendr.mesh.rotations import (
    PARALLEL,
    axis_angle_to_matrix,
    check_orthonormal,
    direction,
    rigid,
    rotate,
    signs,
)

# Skew of a camera matrix that a decomposition leaves, in parts of the focal length.
_ROUNDING = 1e-6
# The rotation of a camera without a pose.
_AHEAD = ((1, 0, 0), (0, 1, 0), (0, 0, -1))

# ---------------------------------------------------------------------------------------------
# the camera


class Placed(Protocol):
    """What has a place in the world."""

    @property
    def origin(self) -> Tensor:
        """Where its coordinates count from: float64 [3] or [B, 3]."""
        ...


@final
@dataclass(frozen=True, eq=False, init=False, repr=False)
class Camera:
    """A batch of B cameras, immutable and differentiable in every tensor.

    Camera coordinates are x_cam = rotation @ x_world + translation: x right, y up, z ahead (see the
    module). Everything broadcasts 1 to B. A camera without a pose sits at the origin, looks along
    -z and has y up.

    Cameras of files have an `origin`, from which their coordinates and those of all that is made
    with them count, so that float32 holds them also where the world is far from 0, as in UTM
    metres. Cameras that were made otherwise have none, and count from that of the mesh they look
    at. Photos of several sizes are laid into one image; the `window` of each camera is the part of
    it that its photo fills.

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
    _origin: tuple[float, ...] | None
    _window: Tensor | None
    _kept: TensorCache

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
            orthographic: Parallel projection; needs `focal`.

        Raises:
            ValueError: If a shape, a batch size, a range or a device is wrong, a value is not
                finite, or a rotation is not orthonormal with determinant -1.
            TypeError: If a dtype is neither float32 nor float64, or dtypes differ.
        """
        kind = TensorKind.common(
            rotation=rotation, translation=translation, focal=focal, principal=principal, fov=fov
        )
        r = kind.batch("rotation", _AHEAD if rotation is None else rotation, 3, 3)
        check_orthonormal(r, "rotation", -1)
        t = kind.batch("translation", (0, 0, 0) if translation is None else translation, 3)
        if focal is not None and fov is not None:
            raise ValueError("focal and fov both say how wide the view is; give one of them")
        if orthographic and focal is None:
            raise ValueError(
                "an orthographic camera has no fov; give focal, its NDC units per world unit"
            )
        if focal is None:
            f = kind.focal_of_fov(30.0 if fov is None else fov)[:, None].expand(-1, 2)
        else:
            f = kind.axes("focal", focal)
            if not all_hold(f.detach() > 0):
                raise ValueError(f"focal must be > 0, got {float(f.detach().min()):g}")
        c = kind.axes("principal", principal)
        r, t, f, c = broadcast(rotation=r, translation=t, focal=f, principal=c)
        self._fill((r, t, f, c), bool(orthographic), None, None)

    def _fill(
        self,
        tensors: Sequence[Tensor],
        orthographic: bool,
        origin: tuple[float, ...] | None,
        window: Tensor | None,
    ) -> None:
        names = (
            "rotation", "translation", "focal", "principal", "orthographic", "_origin", "_window",
            "_kept",
        )  # fmt: skip
        values = *tensors, orthographic, origin, window, TensorCache()
        for name, value in zip(names, values, strict=True):
            object.__setattr__(self, name, value)

    def with_tensors(
        self,
        rotation: Tensor | None = None,
        translation: Tensor | None = None,
        focal: Tensor | None = None,
        principal: Tensor | None = None,
    ) -> Camera:
        """The cameras with some tensors replaced, unchecked: for loops that must not wait.

        Args:
            rotation: [B, 3, 3] or [1, 3, 3], orthonormal, determinant -1.
            translation: [B, 3] or [1, 3].
            focal: [B, 2] or [1, 2], > 0.
            principal: [B, 2] or [1, 2].

        Raises:
            ValueError: for batches that differ.
        """
        given = (
            self.rotation if rotation is None else rotation,
            self.translation if translation is None else translation,
            self.focal if focal is None else focal,
            self.principal if principal is None else principal,
        )
        return self._changed(given, self._window)

    def _changed(self, tensors: Iterable[Tensor], window: Tensor | None) -> Camera:
        names = "rotation", "translation", "focal", "principal", "window"
        given = [*tensors]
        given.append(given[0] if window is None else window)
        *tensors, shown = broadcast(**dict(zip(names, given, strict=True)))
        camera = object.__new__(Camera)
        shown = None if window is None else shown
        camera._fill(tensors, self.orthographic, self._origin, shown)
        return camera

    def _each(self, change: Callable[[Tensor], Tensor]) -> Camera:
        window = None if self._window is None else change(self._window)
        return self._changed((change(x) for x in self.tensors()), window)

    # -- the batch ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.rotation.shape[0]

    def __getitem__(self, index: int | slice | Sequence[int] | Tensor) -> Camera:
        """The cameras at `index`: an int (a batch of one), a slice, a list, an index or a mask."""
        if isinstance(index, int):
            if not -len(self) <= index < len(self):
                raise IndexError(f"camera {index} of {len(self)}")
            index = [index]
        return self._each(lambda x: x[index])

    def __repr__(self) -> str:
        kind = "orthographic" if self.orthographic else "perspective"
        return f"Camera({len(self)} {kind}, {self.dtype}, {self.device})"

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """All that a camera consists of, in the order in which `with_tensors` takes it.

        Returns:
            Rotation [B, 3, 3], translation [B, 3], focal lengths [B, 2] and principal points
            [B, 2], as the attributes of these names.
        """
        return self.rotation, self.translation, self.focal, self.principal

    @property
    def requires_grad(self) -> bool:
        """Whether a tensor requires a gradient."""
        return (
            self.rotation.requires_grad
            or self.translation.requires_grad
            or self.focal.requires_grad
            or self.principal.requires_grad
        )

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
        return self._each(lambda x: x.to(*args, **kwargs))

    def detach(self) -> Camera:
        """The same cameras without gradient history."""
        return self._each(Tensor.detach)

    def expand(self, batch: int) -> Camera:
        """One camera repeated `batch` times; a batch of this size is returned unchanged.

        Raises:
            ValueError: for a batch of another size.
        """
        if len(self) not in (1, batch):
            raise ValueError(f"{len(self)} cameras do not broadcast to {batch}")
        return self._each(lambda x: x.expand(batch, *x.shape[1:]))

    @staticmethod
    def batch(cameras: Sequence[Camera]) -> Camera:
        """One batch of several, in order.

        Raises:
            ValueError: If the list is empty or mixes perspective with orthographic, devices, or
                origins.
            TypeError: If it mixes dtypes.
        """
        cameras = list(cameras)
        if not cameras:
            raise ValueError("no cameras to batch; give at least one")
        if any(not isinstance(camera, Camera) for camera in cameras):
            raise TypeError("Camera.batch takes a list of Camera")
        if len({camera.orthographic for camera in cameras}) > 1:
            raise ValueError("a batch is all perspective or all orthographic; got both")
        TensorKind.common(**{f"camera {i}": each.rotation for i, each in enumerate(cameras)})
        if len({camera._origin for camera in cameras}) > 1:
            raise ValueError(
                "cameras of a batch count from one origin; bring them there: relative_to(origin)"
            )
        first, windows = cameras[0], None
        if any(camera._window is not None for camera in cameras):
            everything = signs(first.rotation, -1, -1, 1, 1)[None] * torch.inf
            windows = torch.cat([
                everything.expand(len(camera), 4) if camera._window is None else camera._window
                for camera in cameras
            ])  # fmt: skip
        parts = zip(*(camera.tensors() for camera in cameras), strict=True)
        return first._changed((torch.cat(list(part)) for part in parts), windows)

    # -- the place in the world, and in the image --------------------------------------------

    @property
    def origin(self) -> Tensor | None:
        """Where in the world coordinates count from: float64 [3], on the CPU.

        None for cameras that were not read from a file: they count from the origin of the mesh that
        they look at.
        """
        return None if self._origin is None else _place(self._origin)

    def with_origin(self, origin: Tensor | None) -> Camera:
        """The same coordinates, counted from elsewhere in the world: the cameras move there.

        Args:
            origin: Float tensor [3], or None for that of the mesh that they look at.

        Raises:
            TypeError: for what is no float tensor.
            ValueError: for another shape, NaN or inf.
        """
        camera = self._each(lambda x: x)
        found = None
        if origin is not None:
            check_shape("origin", check_float("origin", origin), "[3]")
            check_finite("origin", origin)
            found = tuple(origin.detach().double().tolist())
        object.__setattr__(camera, "_origin", found)
        return camera

    def relative_to(self, origin: Tensor) -> Camera:
        """The same cameras in the same place of the world, coordinates counted from elsewhere.

        Computed in float64. Cameras without an origin count from 0.

        Args:
            origin: Float tensor [3].

        Raises:
            TypeError: for what is no float tensor.
            ValueError: for another shape, NaN or inf.
        """
        out = self.with_origin(origin)
        before, now = (_place(x or (0.0,) * 3) for x in (self._origin, out._origin))
        return out if bool((before == now).all()) else out._shifted(now - before)

    def toward(self, what: Placed) -> Camera:
        """The cameras in the coordinates of what they look at.

        Args:
            what: meshes or splats.

        Raises:
            ValueError: if these have no origin and the cameras have: they were made in the
                coordinates of the cameras, or lie near 0, which nobody can tell.
        """
        if self._origin is None:
            return self
        origin = what.origin
        shift = origin - _place(self._origin)
        if not bool(shift.any()):
            return self
        if not bool(origin.any()):
            place = ", ".join(f"{x:g}" if abs(x) < 1e5 else f"{x:.0f}" for x in self._origin)
            raise ValueError(
                f"the cameras count from ({place}) and what they look at from 0: if it was made in "
                "their coordinates, give it theirs, with_origin(camera.origin); if it lies near 0, "
                "move the cameras, camera.relative_to(torch.zeros(3))"
            )
        return self._shifted(shift).with_origin(None)

    def in_world(self) -> Camera:
        """The same cameras for files: float64 on the CPU, detached, coordinates counted from 0.

        Rotations are the nearest orthonormal ones, since what float32 leaves of an error in them
        would be multiplied by the distance from 0. Cameras without an origin count from 0.
        """
        exact = self.detach().to("cpu", torch.float64)
        left, _, right = torch.linalg.svd(exact.rotation)
        turned = left @ right
        shift = -matmul(turned, exact.eye[..., None]).squeeze(-1)
        return exact.with_tensors(turned, shift).relative_to(_place((0.0,) * 3))

    def _shifted(self, shift: Tensor) -> Camera:
        """The cameras for points that were x and are x - shift: float64 [3] or [M, 3]."""
        shift = shift.reshape(-1, 3).to(self.device)
        step = matmul(self.rotation.double(), shift[..., None]).squeeze(-1)
        moved = self.translation.double() + step
        return self.with_tensors(translation=moved.to(self.dtype))

    @property
    def window(self) -> Tensor | None:
        """[B, 4], left, bottom, right and top of the photo of each in the image, NDC.

        None if photos fill their images. What lies outside was not seen: it is empty in renderings.
        """
        return self._window

    def with_window(self, window: Tensor | None) -> Camera:
        """The same cameras whose photos are parts of their images.

        Args:
            window: [B, 4] or None, as `window`.

        Raises:
            TypeError: for another dtype.
            ValueError: for another shape or device.
        """
        if window is None:
            return self if self._window is None else self._changed(self.tensors(), None)
        check_like("window", check_float("window", window), "the camera", self.rotation)
        check_shape("window", window, "[B, 4]", B=len(self))
        return self._changed(self.tensors(), window.detach())

    def cropped(self) -> Camera:
        """The same cameras whose images are their photos alone, without what lies beside them."""
        if self._window is None:
            return self
        low, high = self._window[:, :2], self._window[:, 2:]
        zoom = 2 / (high - low).amin(1, keepdim=True)
        principal = (self.principal - (low + high) / 2) * zoom
        return self.with_window(None).with_tensors(focal=self.focal * zoom, principal=principal)

    def within(self, xy: Tensor) -> Tensor:
        """Whether places in the image [B, ..., 2], NDC, lie in the photo: bool [B, ...]."""
        if self._window is None:
            return torch.ones_like(xy[..., 0], dtype=torch.bool)
        edges = self._window.reshape(-1, *(1,) * (xy.ndim - 2), 4)
        return ((xy >= edges[..., :2]) & (xy <= edges[..., 2:])).all(-1)

    def photo(self, image_size: int | Sequence[int]) -> Tensor | None:
        """The pixels of an image, bool [B, H, W], that photos fill; None if all are."""
        if self._window is None:
            return None
        height, width = check_image_size(image_size)
        side = min(height, width)
        like: dict[str, Any] = {"dtype": torch.float64, "device": self.device}
        x = (2 * torch.arange(width, **like) + 1 - width) / side
        y = (height - 1 - 2 * torch.arange(height, **like)) / side
        left, bottom, right, top = self._window.double().T[..., None]
        across, down = (x >= left) & (x <= right), (y >= bottom) & (y <= top)
        return down[:, :, None] & across[:, None]

    def region(self, image_size: int | Sequence[int]) -> list[tuple[slice, slice]]:
        """Rows and columns of an image that each photo fills."""
        height, width = check_image_size(image_size)
        photo = self.photo((height, width))
        if photo is None:
            return [(slice(0, height), slice(0, width))] * len(self)
        sides = [[view.any(axis).nonzero()[:, 0] for axis in (1, 0)] for view in photo]
        rows = [[slice(int(where[0]), int(where[-1]) + 1) for where in side] for side in sides]
        return [(down, across) for down, across in rows]

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
        back = signs(self.rotation, 1, 1, -1)[:, None] * self.rotation
        return rigid(back.mT, self.eye)

    def rotated(self, axis_angle: Any, centre: Any = (0.0, 0.0, 0.0)) -> Camera:
        """The cameras turned about a world point; the eye orbits it, the image turns with it.

        An object around `centre` stays in view, which makes this the rotation parameter of pose
        optimisation; `centre=camera.eye` turns the cameras in place.

        Args:
            axis_angle: [3] or [B, 3], world axes, radians, right-hand rule; 0 changes nothing.
            centre: [3] or [B, 3], world.
        """
        kind = TensorKind.common(camera=self.rotation, axis_angle=axis_angle, centre=centre)
        w, c = kind.batch("axis_angle", axis_angle, 3), kind.batch("centre", centre, 3)
        rotation = matmul(self.rotation, axis_angle_to_matrix(w).mT)
        before = matmul(self.rotation, c[..., None]).squeeze(-1) + self.translation
        return self.with_tensors(rotation, before - matmul(rotation, c[..., None]).squeeze(-1))

    def moved(self, delta: Any) -> Camera:
        """The cameras moved by `delta`, [3] or [B, 3], in world units and axes."""
        d = TensorKind.common(camera=self.rotation, delta=delta).batch("delta", delta, 3)
        step = matmul(self.rotation, d[..., None]).squeeze(-1)
        return self.with_tensors(translation=self.translation - step)

    # -- the projection -----------------------------------------------------------------------

    def world_to_camera(
        self, points: Tensor, index: Tensor | None = None, *, check: bool = True
    ) -> Tensor:
        """Camera coordinates (right, up, depth) of world points.

        Args:
            points: [V, 3] or [B or 1, V, 3]; one set is seen by all cameras, one camera sees all
                sets. Packed with `index`: [V, 3].
            index: [V] int64, the camera that sees each of the packed points.
            check: whether to look at dtypes, devices and shapes.

        Returns:
            [B, V, 3]; packed: [V, 3].

        Raises:
            TypeError: points of another dtype than the camera.
            ValueError: another device or shape, or point sets that do not broadcast with cameras.
        """
        if check:
            check_like("points", check_float("points", points), "the camera", self.rotation)
        if index is not None:
            if check:
                check_shape("packed points", points, "[V, 3]")
                check_shape("index", index, "[V]", V=len(points))
            if len(self) == 1:  # every index is 0
                return rotate(self.rotation[0], points) + self.translation[0]
            return rotate(gathered(self.rotation, index), points) + gathered(
                self.translation, index
            )
        if check:
            check_shape("points", points, "[V, 3] or [B, V, 3]")
            sets = points.shape[0] if points.ndim == 3 else 1
            if sets != len(self) and 1 not in (sets, len(self)):
                raise ValueError(
                    f"{sets} point sets and {len(self)} cameras do not broadcast; want 1 or equal"
                )
        p = points[None] if points.ndim == 2 else points
        return rotate(self.rotation[:, None], p) + self.translation[:, None]

    @property
    def projection(self) -> Tensor:
        """[B, 4, 4], rows X, Y, W and depth of `clip_coordinates` for column vectors (x, y, z, 1).

        Differentiable. Cached as long as no tensor of the camera requires a gradient or is changed
        in place.
        """
        tensors = self.rotation, self.translation, self.focal, self.principal
        # A CUDA graph computes it anew at every replay.
        if self.requires_grad or capturing(self.device):
            return self._projection_of()
        return self._kept.of(tensors, None, self._projection_of)

    def _projection_of(self) -> Tensor:
        r, t, f, c = self.rotation, self.translation, self.focal, self.principal
        rows = torch.cat([r, t[..., None]], -1)
        depth = w = rows[:, 2:]
        if self.orthographic:
            w = torch.cat([torch.zeros_like(r[:, 2:]), torch.ones_like(t[:, 2:, None])], -1)
        xy = f[..., None] * rows[:, :2] + c[..., None] * w
        return torch.cat([xy, w, depth], 1)

    def clip_coordinates(
        self, points: Tensor, index: Tensor | None = None, *, check: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Homogeneous NDC before the division: linear in the points, so that edges can be clipped.

        Args:
            points: As for `world_to_camera`.
            index: As for `world_to_camera`.
            check: As for `world_to_camera`.

        Returns:
            (X, Y, W) as [B, V, 3] with x_ndc = X / W, y_ndc = Y / W, where W is the depth for
            perspective and 1 for orthographic; and the depth [B, V], any sign. Packed: [V, 3], [V].
        """
        camera = self.world_to_camera(points, index, check=check)
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

    # -- constructors and other conventions ---------------------------------------------------

    @staticmethod
    def from_fov(
        fov: Any, *, rotation: Any = None, translation: Any = None, principal: Any = 0.0
    ) -> Camera:
        """Perspective cameras from their field of view: `Camera(fov=…)` with the angle first.

        Args:
            fov: The full angle across the shorter image side in degrees, in (0, 180), one number
                or [B].
            rotation: As for `Camera`.
            translation: As for `Camera`.
            principal: As for `Camera`.

        Raises:
            ValueError: As for `Camera`.
            TypeError: As for `Camera`.
        """
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
            ValueError: If K is not of that form (skew, last row), a focal length is not > 0, or as
                for `Camera`.
        """
        if image_size is None:
            raise ValueError("pixel intrinsics need image_size, an int or (H, W)")
        height, width = check_image_size(image_size)
        kind = TensorKind.common(
            K=K, fx=fx, fy=fy, cx=cx, cy=cy, rotation=rotation, translation=translation
        )
        if K is None:
            if fx is None:
                raise ValueError("no intrinsics: give K or fx")
            pixels = {
                "fx": fx,
                "fy": fx if fy is None else fy,
                "cx": width / 2 - 0.5 + pixel_centre if cx is None else cx,
                "cy": height / 2 - 0.5 + pixel_centre if cy is None else cy,
            }
            fx, fy, cx, cy = broadcast(
                **{name: kind.numbers(name, pixels[name]) for name in pixels}
            )
        else:
            if any(value is not None for value in (fx, fy, cx, cy)):
                raise ValueError("K and fx, fy, cx, cy say the same; give one of them")
            k = kind.batch("K", K, 3, 3)
            _check_camera_matrix(k.detach())
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
        height, width = check_image_size(image_size)
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
        kind = TensorKind.common(R=R, t=t, K=K)
        r = kind.batch("R", R, 3, 3)
        check_orthonormal(r, "R", 1)
        shift = kind.batch("t", t, 3)
        flip = signs(r, 1, -1, 1)
        return Camera.from_intrinsics(
            kind.tensor("K", K),
            image_size,
            rotation=flip[:, None] * r,
            translation=flip * shift,
            pixel_centre=pixel_centre,
        )

    def to_opencv(
        self, image_size: int | Sequence[int], *, pixel_centre: float = 0.5
    ) -> tuple[Tensor, Tensor, Tensor]:
        """R [B, 3, 3], t [B, 3] and K [B, 3, 3] of OpenCV's convention; see `from_opencv`."""
        k = self.intrinsics(image_size, pixel_centre=pixel_centre)
        flip = signs(k, 1, -1, 1)
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

        Raises:
            ValueError: If there is no one pose, fov and projection come together, a last row is not
                that of such a matrix, the projection has skew, or as for `Camera`.
        """
        if (view is None) == (camera_to_world is None):
            raise ValueError("give either view (world to camera) or camera_to_world")
        if fov is not None and projection is not None:
            raise ValueError("fov and projection both say how wide the view is; give one of them")
        kind = TensorKind.common(
            view=view, camera_to_world=camera_to_world, fov=fov, projection=projection
        )
        name = "camera_to_world" if view is None else "view"
        pose = kind.batch(name, camera_to_world if view is None else view, 4, 4)
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
            return Camera(r, t, fov=fov)
        p = kind.batch("projection", projection, 4, 4)
        perspective = _is_perspective(p.detach())
        height, width = check_image_size(image_size)
        side = signs(p, width, height) / min(height, width)
        offset = -p[:, :2, 2] if perspective else p[:, :2, 3]
        focal = torch.stack([p[:, 0, 0], p[:, 1, 1]], -1)
        return Camera(r, t, focal * side, offset * side, orthographic=not perspective)

    def to_opengl(
        self, image_size: int | Sequence[int] = 1, *, near: float = 1.0, far: float = 100.0
    ) -> tuple[Tensor, Tensor]:
        """View and projection matrices of OpenGL's convention, both [B, 4, 4], column vectors.

        Args:
            image_size: H or (H, W); only its aspect matters.
            near: Depth that maps to z = -1, > 0 for perspective.
            far: Depth that maps to z = 1, > near.

        Raises:
            ValueError: If near and far are not in this order.
        """
        if not far > near or (near <= 0 and not self.orthographic):
            raise ValueError(f"want 0 < near < far, got near {near:g} and far {far:g}")
        height, width = check_image_size(image_size)
        side = min(height, width) / signs(self.focal, width, height)
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
        projection = torch.stack(rows, -1).unflatten(-1, (4, 4))
        flip = signs(self.rotation, 1, 1, -1)
        return rigid(flip[:, None] * self.rotation, flip * self.translation), projection

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
            orthographic: The camera is an OrthographicCameras; `focal_length` is its scale.
        """
        kind = TensorKind.common(
            R=R, T=T, focal_length=focal_length, principal_point=principal_point
        )
        r = kind.batch("R", R, 3, 3)
        check_orthonormal(r, "R", 1)
        t = kind.batch("T", T, 3)
        f = kind.axes("focal_length", focal_length)
        c = kind.axes("principal_point", principal_point)
        if image_size is None:
            c = signs(c, -1, 1) * c
        else:
            height, width = check_image_size(image_size)
            unit = 2 / min(height, width)
            middle = torch.tensor([width / 2, height / 2], dtype=c.dtype, device=c.device)
            f, c = f * unit, signs(c, 1, -1) * (c - middle) * unit
        flip = signs(r, -1, 1, 1)
        return Camera(flip[:, None] * r.mT, flip * t, f, c, orthographic=orthographic)

    def to_pytorch3d(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """R [B, 3, 3], T [B, 3], focal_length [B, 2], principal_point [B, 2], NDC, of PyTorch3D.

        They are the arguments, in this order by name, of its PerspectiveCameras or
        OrthographicCameras with `in_ndc=True`.
        """
        flip = signs(self.rotation, -1, 1, 1)
        principal = signs(self.principal, -1, 1) * self.principal
        return (flip[:, None] * self.rotation).mT, flip * self.translation, self.focal, principal


def _place(coordinates: Sequence[float]) -> Tensor:
    """A place in the world: float64 [3], on the CPU wherever torch makes tensors by default."""
    return torch.tensor(coordinates, dtype=torch.float64, device="cpu")


def _check_camera_matrix(k: Tensor) -> None:
    """Check that matrices [B, 3, 3] are camera matrices of OpenCV without skew.

    Raises:
        ValueError: If they are not.
    """
    if bool((k[:, 1, 0] != 0).any()) or bool((k[:, 2] != signs(k, 0, 0, 1)).any()):
        raise ValueError("K must be [[fx, 0, cx], [0, fy, cy], [0, 0, 1]]; is it transposed?")
    diagonal = k[:, (0, 1), (0, 1)]
    if bool((diagonal <= 0).any()):
        raise ValueError(
            f"K must have focal lengths > 0, got {float(diagonal.min()):g}; if a decomposition "
            "of P = K [R | t] made it negative, negate that column of K and that row of R and t"
        )
    skew = k[:, 0, 1]
    if bool((skew.abs() > _ROUNDING * diagonal[:, 0]).any()):
        raise ValueError(
            f"K has skew {float(skew[skew.abs().argmax()]):g} (K[0, 1]), which cameras here do "
            "not have; shear the images first, by u - skew / fy (v - cy), and set it to 0"
        )


def _is_perspective(p: Tensor) -> bool:
    """Whether projection matrices [B, 4, 4] are perspective; otherwise they are orthographic.

    Raises:
        ValueError: If they are neither, or have skew.
    """
    perspective = bool((p[:, 3] == signs(p, 0, 0, -1, 0)).all())
    if not perspective and bool((p[:, 3] != signs(p, 0, 0, 0, 1)).any()):
        raise ValueError(
            "the last row of projection must be 0 0 -1 0 (perspective) or 0 0 0 1 "
            "(orthographic), alike in a batch; is it transposed?"
        )
    if bool((p[:, 0, 1] != 0).any()) or bool((p[:, 1, 0] != 0).any()):
        raise ValueError("projection has skew, which cameras here do not have")
    return perspective


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
    kind = TensorKind.wanted(
        dtype, device, distance=distance, elevation=elevation, azimuth=azimuth, fov=fov, at=at
    )
    d = kind.numbers("distance", distance)
    e, a = kind.numbers("elevation", elevation), kind.numbers("azimuth", azimuth)
    if not all_hold(d.detach() > 0):
        raise ValueError(f"distance must be > 0, got {float(d.detach().min()):g}")
    target = kind.batch("at", at, 3)
    f = kind.focal_of_fov(fov)
    d, e, a, f, target = broadcast(distance=d, elevation=e, azimuth=a, fov=f, at=target)
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
    kind = TensorKind.wanted(dtype, device, eye=eye, at=at, up=up, fov=fov)
    e, target, u = kind.batch("eye", eye, 3), kind.batch("at", at, 3), kind.batch("up", up, 3)
    f = kind.focal_of_fov(fov)
    e, target, u, f = broadcast(eye=e, at=target, up=u, fov=f)
    ahead = direction(target - e, "the line from eye to at")
    right = torch.linalg.cross(ahead, direction(u, "up"))
    sine = torch.linalg.vector_norm(right.detach(), dim=-1)
    if not all_hold(sine >= PARALLEL):
        raise ValueError("up is parallel to the line of sight; choose another up, or use look_at")
    right = direction(right, "right")
    rotation = torch.stack([right, torch.linalg.cross(right, ahead), ahead], -2)
    shift = -matmul(rotation, e[..., None]).squeeze(-1)
    if orthographic:
        f = f / torch.linalg.vector_norm(target - e, dim=-1)
    return Camera(rotation, shift, f[:, None].expand(-1, 2), orthographic=orthographic)
