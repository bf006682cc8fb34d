"""Cameras: poses, projections, and constructors of cameras that look at a point.

World: right-handed. Camera frame: x right, y up, z = depth ahead; this frame is left-handed, so a
world-to-camera matrix, whose rows are (right, up, ahead), has determinant -1. NDC: the shorter
image side spans [-1, 1], the longer one in proportion; x right, y up. A perspective camera maps
x_ndc = f x / z + c, an orthographic one x_ndc = f x + c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from gendr._runtime.checks import check_float, check_like, check_shape, dtype_name
from gendr._runtime.readback import capturing
from gendr._runtime.tracing import is_traced, lasting, matmul
from gendr.mesh import conventions
from gendr.mesh.camera_arguments import (
    batched,
    broadcast,
    common_kind,
    finite_tensor,
    focal_of_fov,
    per_axis,
    per_camera,
)
from gendr.mesh.conventions import CameraParts
from gendr.mesh.rotations import (
    PARALLEL,
    axis_angle_to_matrix,
    check_orthonormal,
    direction,
    rigid,
    rotate,
    rotation_6d_to_matrix,
    rotation_angle_between,
    signs,
)

__all__ = [
    "Camera",
    "axis_angle_to_matrix",
    "look_at",
    "look_from",
    "rotation_6d_to_matrix",
    "rotation_angle_between",
]

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
            orthographic: Parallel projection; needs `focal`.

        Raises:
            ValueError: If a shape, a batch size, a range or a device is wrong, a value is not
                finite, or a rotation is not orthonormal with determinant -1.
            TypeError: If a dtype is neither float32 nor float64, or dtypes differ.
        """
        dtype, device = common_kind(
            rotation=rotation, translation=translation, focal=focal, principal=principal, fov=fov
        )
        if rotation is None:
            rotation = torch.diag(torch.tensor([1, 1, -1], dtype=dtype, device=device))
        r = batched(finite_tensor(rotation, "rotation", dtype, device), "rotation", (3, 3))
        check_orthonormal(r, "rotation", -1)
        t = batched(
            finite_tensor(
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
            f = focal_of_fov(30.0 if fov is None else fov, dtype, device)[:, None].expand(-1, 2)
        else:
            f = per_axis(finite_tensor(focal, "focal", dtype, device), "focal")
            if bool((f.detach() <= 0).any()):
                raise ValueError(f"focal must be > 0, got {float(f.detach().min()):g}")
        c = per_axis(finite_tensor(principal, "principal", dtype, device), "principal")
        r, t, f, c = broadcast(rotation=r, translation=t, focal=f, principal=c)
        self._fill(r, t, f, c, bool(orthographic))

    @staticmethod
    def _of(parts: CameraParts) -> Camera:
        """Cameras made of plain parts."""
        return Camera(
            parts.rotation,
            parts.translation,
            parts.focal,
            parts.principal,
            fov=parts.fov,
            orthographic=parts.orthographic,
        )

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
        r, t, f, c = broadcast(
            rotation=self.rotation if rotation is None else rotation,
            translation=self.translation if translation is None else translation,
            focal=self.focal if focal is None else focal,
            principal=self.principal if principal is None else principal,
        )
        camera = object.__new__(Camera)
        camera._fill(r, t, f, c, self.orthographic)
        return camera

    def with_tensors(
        self, rotation: Tensor, translation: Tensor, focal: Tensor, principal: Tensor
    ) -> Camera:
        """The same cameras with other tensors, which are not checked: for loops that must not wait.

        Args:
            rotation: [B, 3, 3] or [1, 3, 3], orthonormal, determinant -1.
            translation: [B, 3] or [1, 3].
            focal: [B, 2] or [1, 2], > 0.
            principal: [B, 2] or [1, 2].

        Raises:
            ValueError: for batches that differ.
        """
        return self._with(rotation, translation, focal, principal)

    # -- the batch ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.rotation.shape[0]

    def __getitem__(self, index: int | slice | Sequence[int] | Tensor) -> Camera:
        """The cameras at `index`: an int (a batch of one), a slice, a list, an index or a mask."""
        if isinstance(index, int):
            if not -len(self) <= index < len(self):
                raise IndexError(f"camera {index} of {len(self)}")
            index = [index]
        return self._with(*(x[index] for x in self.tensors()))

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
    def dtype(self) -> torch.dtype:
        """The dtype of all tensors."""
        return self.rotation.dtype

    @property
    def device(self) -> torch.device:
        """The device of all tensors."""
        return self.rotation.device

    def to(self, *args: Any, **kwargs: Any) -> Camera:
        """The same cameras in another dtype or on another device, as `Tensor.to`."""
        return self._with(*(x.to(*args, **kwargs) for x in self.tensors()))

    def detach(self) -> Camera:
        """The same cameras without gradient history."""
        return self._with(*(x.detach() for x in self.tensors()))

    def expand(self, batch: int) -> Camera:
        """One camera repeated `batch` times; a batch of this size is returned unchanged.

        Raises:
            ValueError: for a batch of another size.
        """
        if len(self) not in (1, batch):
            raise ValueError(f"{len(self)} cameras do not broadcast to {batch}")
        return self._with(*(x.expand(batch, *x.shape[1:]) for x in self.tensors()))

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
        common_kind(**{f"camera {i}": camera.rotation for i, camera in enumerate(cameras)})
        parts = zip(*(camera.tensors() for camera in cameras), strict=True)
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
        dtype, device = self._meets(axis_angle=axis_angle, centre=centre)
        w = batched(finite_tensor(axis_angle, "axis_angle", dtype, device), "axis_angle", (3,))
        c = batched(finite_tensor(centre, "centre", dtype, device), "centre", (3,))
        rotation = matmul(self.rotation, axis_angle_to_matrix(w).mT)
        kept = matmul(self.rotation, c[..., None]).squeeze(-1) + self.translation
        return self._with(rotation, kept - matmul(rotation, c[..., None]).squeeze(-1))

    def moved(self, delta: Any) -> Camera:
        """The cameras moved by `delta`, [3] or [B, 3], in world units and axes."""
        dtype, device = self._meets(delta=delta)
        d = batched(finite_tensor(delta, "delta", dtype, device), "delta", (3,))
        step = matmul(self.rotation, d[..., None]).squeeze(-1)
        return self._with(translation=self.translation - step)

    def _meets(self, **values: Any) -> tuple[torch.dtype, torch.device]:
        """The camera's dtype and device, after checking that those of `values` agree."""
        return common_kind(camera=self.rotation, **values)

    # -- the projection -----------------------------------------------------------------------

    def world_to_camera(self, points: Tensor, index: Tensor | None = None) -> Tensor:
        """Camera coordinates (right, up, depth) of world points.

        Args:
            points: [V, 3] or [B or 1, V, 3]; one set is seen by all cameras, one camera sees all
                sets. Packed with `index`: [V, 3].
            index: [V] int64, the camera that sees each of the packed points.

        Returns:
            [B, V, 3]; packed: [V, 3].

        Raises:
            TypeError: points of another dtype than the camera.
            ValueError: another device or shape, or point sets that do not broadcast with cameras.
        """
        check_like("points", check_float("points", points), "the camera", self.rotation)
        if index is not None:
            check_shape("packed points", points, "[V, 3]")
            check_shape("index", index, "[V]", V=len(points))
            if len(self) == 1:  # every index is 0
                return rotate(self.rotation[0], points) + self.translation[0]
            rotation = self.rotation.index_select(0, index)
            return rotate(rotation, points) + self.translation.index_select(0, index)
        check_shape("points", points, "[V, 3] or [B, V, 3]")
        p = points[None] if points.ndim == 2 else points
        if p.shape[0] != len(self) and 1 not in (p.shape[0], len(self)):
            raise ValueError(
                f"{p.shape[0]} point sets and {len(self)} cameras do not broadcast; want 1 or equal"
            )
        return rotate(self.rotation[:, None], p) + self.translation[:, None]

    @property
    def projection(self) -> Tensor:
        """[B, 4, 4], rows X, Y, W and depth of `clip_coordinates` for column vectors (x, y, z, 1).

        Differentiable. Kept as long as no tensor of the camera requires a gradient or is changed in
        place.
        """
        tensors = self.tensors()
        if is_traced() or any(x.requires_grad or x.is_inference() for x in tensors):
            return self._projection_of(*tensors)
        versions = tuple(x._version for x in tensors)
        kept: tuple[Any, Tensor] | None = self.__dict__.get("_kept_projection")
        # A CUDA graph computes it anew at every replay.
        if kept is None or kept[0] != versions or capturing(self.device):
            with lasting():
                kept = versions, self._projection_of(*tensors)
            if not capturing(self.device):
                object.__setattr__(self, "_kept_projection", kept)
        return kept[1]

    def _projection_of(self, r: Tensor, t: Tensor, f: Tensor, c: Tensor) -> Tensor:
        rows = torch.cat([r, t[..., None]], -1)
        depth = w = rows[:, 2:]
        if self.orthographic:
            w = torch.cat([torch.zeros_like(r[:, 2:]), torch.ones_like(t[:, 2:, None])], -1)
        xy = f[..., None] * rows[:, :2] + c[..., None] * w
        return torch.cat([xy, w, depth], 1)

    def clip_coordinates(
        self, points: Tensor, index: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Homogeneous NDC before the division: linear in the points, so that edges can be clipped.

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
            ValueError: If K is not of that form (skew, last row), a focal length is not > 0, or as
                for `Camera`.
        """
        return Camera._of(
            conventions.from_intrinsics(
                K,
                image_size,
                fx=fx,
                fy=fy,
                cx=cx,
                cy=cy,
                rotation=rotation,
                translation=translation,
                pixel_centre=pixel_centre,
            )
        )

    def intrinsics(self, image_size: int | Sequence[int], *, pixel_centre: float = 0.5) -> Tensor:
        """[B, 3, 3] OpenCV camera matrices in pixels of an image; see `from_intrinsics`.

        Raises:
            ValueError: If the cameras are orthographic.
        """
        if self.orthographic:
            raise ValueError("an orthographic camera has no camera matrix K")
        return conventions.to_intrinsics(
            self.focal, self.principal, image_size, pixel_centre=pixel_centre
        )

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
        return Camera._of(conventions.from_opencv(R, t, K, image_size, pixel_centre=pixel_centre))

    def to_opencv(
        self, image_size: int | Sequence[int], *, pixel_centre: float = 0.5
    ) -> tuple[Tensor, Tensor, Tensor]:
        """R [B, 3, 3], t [B, 3] and K [B, 3, 3] of OpenCV's convention; see `from_opencv`."""
        k = self.intrinsics(image_size, pixel_centre=pixel_centre)
        return (*conventions.to_opencv(self.rotation, self.translation), k)

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
        return Camera._of(
            conventions.from_opengl(view, camera_to_world, fov, projection, image_size)
        )

    def to_opengl(
        self, image_size: int | Sequence[int] = 1, *, near: float = 1.0, far: float = 100.0
    ) -> tuple[Tensor, Tensor]:
        """View and projection matrices of OpenGL's convention, both [B, 4, 4], column vectors.

        Args:
            image_size: H or (H, W); only its aspect matters.
            near: Depth that maps to z = -1, > 0 for perspective.
            far: Depth that maps to z = 1, > near.
        """
        projection = conventions.to_projection(
            self.focal, self.principal, self.orthographic, image_size, near=near, far=far
        )
        return conventions.to_opengl(self.rotation, self.translation), projection

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
        return Camera._of(
            conventions.from_pytorch3d(
                R,
                T,
                focal_length,
                principal_point,
                image_size=image_size,
                orthographic=orthographic,
            )
        )

    def to_pytorch3d(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """R [B, 3, 3], T [B, 3], focal_length [B, 2], principal_point [B, 2], NDC, of PyTorch3D.

        They are the arguments, in this order by name, of its PerspectiveCameras or
        OrthographicCameras with `in_ndc=True`.
        """
        r, t, principal = conventions.to_pytorch3d(self.rotation, self.translation, self.principal)
        return r, t, self.focal, principal


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
        per_camera(finite_tensor(value, name, dtype, device), name)
        for value, name in ((distance, "distance"), (elevation, "elevation"), (azimuth, "azimuth"))
    )
    if bool((d.detach() <= 0).any()):
        raise ValueError(f"distance must be > 0, got {float(d.detach().min()):g}")
    target = batched(finite_tensor(at, "at", dtype, device), "at", (3,))
    f = focal_of_fov(fov, dtype, device)
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
    dtype, device = _wanted(dtype, device, eye=eye, at=at, up=up, fov=fov)
    e, target, u = (
        batched(finite_tensor(value, name, dtype, device), name, (3,))
        for value, name in ((eye, "eye"), (at, "at"), (up, "up"))
    )
    f = focal_of_fov(fov, dtype, device)
    e, target, u, f = broadcast(eye=e, at=target, up=u, fov=f)
    ahead = direction(target - e, "the line from eye to at")
    right = torch.linalg.cross(ahead, direction(u, "up"))
    sine = torch.linalg.vector_norm(right.detach(), dim=-1)
    if bool((sine < PARALLEL).any()):
        raise ValueError("up is parallel to the line of sight; choose another up, or use look_at")
    right = direction(right, "right")
    rotation = torch.stack([right, torch.linalg.cross(right, ahead), ahead], -2)
    shift = -matmul(rotation, e[..., None]).squeeze(-1)
    if orthographic:
        f = f / torch.linalg.vector_norm(target - e, dim=-1)
    return Camera(rotation, shift, f[:, None].expand(-1, 2), orthographic=orthographic)


def _wanted(
    dtype: torch.dtype | None, device: torch.device | str | None, **values: Any
) -> tuple[torch.dtype, torch.device]:
    """The dtype and device that were asked for, or else those of `values`."""
    if dtype is not None and dtype not in (torch.float32, torch.float64):
        raise TypeError(f"dtype must be float32 or float64, got {dtype_name(dtype)}")
    if dtype is None or device is None:
        found = common_kind(**values)
        dtype = found[0] if dtype is None else dtype
        device = found[1] if device is None else device
    return dtype, torch.device(device)
