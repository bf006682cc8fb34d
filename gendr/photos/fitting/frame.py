"""The coordinates in which a fit is computed: their unit is the size of the object."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gendr.mesh import Camera
from gendr.photos.views import visual_sphere

__all__ = ["SPHERE", "Frame"]

# Radius of the starting sphere in the frame of a fit, whose unit is about the object's diameter.
SPHERE = 0.4


@dataclass(frozen=True)
class Frame:
    """The place and size of the object, which define inner = (world - centre) / size.

    Attributes:
        centre: [3] float64, CPU, world units.
        size: > 0, world units.
    """

    centre: Tensor
    size: float

    @staticmethod
    def of_masks(masks: Tensor, camera: Camera) -> Frame:
        """The frame in which the visual sphere of the masks has the radius `SPHERE`."""
        centre, radius = visual_sphere(camera, masks)
        return Frame(centre.double().cpu(), float(radius) / SPHERE)

    def camera(self, camera: Camera) -> Camera:
        """The camera [B] that sees inner coordinates as `camera` sees those of the world."""
        c = self.centre.to(camera.device)
        rotation = camera.rotation.double()
        translation = ((rotation @ c) + camera.translation.double()) / self.size
        focal = camera.focal.double() * (self.size if camera.orthographic else 1.0)
        return Camera(
            camera.rotation,
            translation.to(camera.dtype),
            focal.to(camera.dtype),
            camera.principal,
            orthographic=camera.orthographic,
        ).with_window(camera.window)

    def inner(self, world: Tensor) -> Tensor:
        """World points [..., 3] in this frame."""
        return ((world.double() - self.centre.to(world.device)) / self.size).to(world.dtype)

    def world(self, inner: Tensor) -> Tensor:
        """Points [..., 3] of this frame in the world."""
        return (inner.double() * self.size + self.centre.to(inner.device)).to(inner.dtype)

    def check_outside(self, camera: Camera) -> None:
        """Check that no camera is inside the sphere that a fit starts from.

        Such a camera would see nothing but the inside of the sphere.

        Raises:
            ValueError: If one does.
        """
        if camera.orthographic:
            return
        distance = self.inner(camera.eye).double().norm(dim=-1)
        inside = distance <= SPHERE
        if bool(inside.any()):
            first = int(inside.int().argmax())
            raise ValueError(
                f"camera {first} is inside the object: by all masks its centre is "
                f"{float(distance[first]) * self.size:.3g} away and its radius is "
                f"{SPHERE * self.size:.3g}; correct the pose, leave the view out, or give a mesh "
                "to start from (init)"
            )
