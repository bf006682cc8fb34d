"""Light: ambient and directional, Lambert and Phong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gendr._common.checks import check_choice, check_finite, check_number, check_shape
from gendr._common.vectors import unit

if TYPE_CHECKING:
    from gendr.mesh.cameras import Camera


@dataclass(frozen=True)
class Lighting:
    """One ambient and one directional white light, and how surfaces reflect them.

    colour = albedo (ambient + diffuse max(n.l, 0)) + specular max(r.v, 0)^shininess, with the unit
    normal n, the unit vectors l to the light and v to the eye, and r = 2 (n.l) n - l, the mirror
    image of l. specular = 0 is Lambert's law, specular > 0 Phong's model.

    Args:
        ambient: >= 0.
        diffuse: >= 0.
        specular: >= 0.
        shininess: > 0.
        direction: three numbers or a tensor [3] or [B, 3], from the surface to the light; any
            length but 0; a tensor may require gradients.
        frame: the frame of the direction: "world", or "camera" (right, up, ahead) for a light that
            moves with the camera, so that (0, 0, -1) is a light at the camera.
        smooth: interpolate vertex normals over a face; otherwise faces are shaded flat.
        two_sided: light the side of a face that is seen, so that meshes that are inside out are lit
            too: if the eye is behind a face, its normals are flipped.

    Raises:
        TypeError: a number or a direction of the wrong type.
        ValueError: a negative number, an unknown frame, or a direction of length 0.

    Source: Phong, Illumination for computer generated pictures (1975).
    """

    ambient: float = 0.5
    diffuse: float = 0.5
    specular: float = 0.0
    shininess: float = 32.0
    direction: Tensor | tuple[float, float, float] = (0.3, 1.0, -0.6)
    smooth: bool = False
    two_sided: bool = True
    frame: str = "world"

    def __post_init__(self) -> None:
        for name in ("ambient", "diffuse", "specular"):
            if check_number(name, getattr(self, name)) < 0:
                raise ValueError(f"{name} must be >= 0, got {getattr(self, name)}")
        check_number("shininess", self.shininess, above=0.0)
        check_choice("frame", self.frame, ("world", "camera"))
        direction = self.direction
        if not isinstance(direction, Tensor):
            direction = torch.tensor(direction, device="cpu")  # whatever the default device
        check_shape("the direction of light", direction, "[3] or [B, 3]")
        check_finite("the direction of light", direction)
        if bool((direction.detach() == 0).all(-1).any()):
            raise ValueError(
                "the direction of light must not be 0; for no such light use diffuse=0"
            )

    @staticmethod
    def from_name(name: str) -> Lighting | None:
        """`lambert`, `phong`, `headlight` (at the camera), or `none`: colours as they are.

        `auto`, of renderers, is `lambert` for every mesh that is not unlit.
        """
        check_choice("lighting", name, ("auto", "lambert", "phong", "headlight", "none"))
        if name == "none":
            return None
        if name == "headlight":
            return Lighting(0.2, 0.8, direction=(0.0, 0.0, -1.0), frame="camera")
        return Lighting(specular=0.3, smooth=True) if name == "phong" else Lighting()

    def seen_by(self, camera: Camera) -> Lighting:
        """The same light with its direction in the world: [B, 3] for B cameras."""
        if self.frame == "world":
            return self
        like = camera.rotation
        direction = torch.as_tensor(self.direction, dtype=like.dtype, device=like.device)
        right, up, ahead = direction.reshape(-1, 3, 1).unbind(1)
        world = right * camera.right + up * camera.up + ahead * camera.ahead
        return replace(self, direction=world, frame="world")

    def directions(self, like: Tensor) -> Tensor:
        """Unit vectors to the light, [1, 3] or [B, 3], in the dtype and on the device of `like`."""
        direction = torch.as_tensor(self.direction, dtype=like.dtype, device=like.device)
        return unit(direction).reshape(-1, 3)

    def shade(
        self,
        albedo: Tensor,
        normals: Tensor,
        to_eye: Tensor,
        image: Tensor,
        away: Tensor | None = None,
    ) -> Tensor:
        """Colours of lit surface points, in the shape of `albedo`.

        Args:
            albedo: [K, 3], or [K, 1] for what one channel would have.
            normals: [K, 3], unit length or 0.
            to_eye: [K, 3], unit length.
            image: [K] int64, the image that each point is seen in.
            away: [K] bool, whether the back of a point's face is seen; the normal is then flipped
                if `two_sided`. The face decides, because an interpolated normal near a contour may
                point away from the eye although the front is seen. By default the normals decide,
                which is right if they are those of faces.
        """
        light = self.directions(albedo)
        if len(light) > 1:
            light = light[image % len(light)]
        if self.two_sided:
            if away is None:
                away = (normals * to_eye).sum(-1) < 0
            normals = torch.where(away.unsqueeze(-1), -normals, normals)
        facing = (normals * light).sum(-1, keepdim=True)
        colour = albedo * (self.ambient + self.diffuse * facing.clamp(min=0))
        if self.specular > 0:
            mirror = 2 * facing * normals - light
            glance = (mirror * to_eye).sum(-1, keepdim=True)
            lit = (glance > 0) & (facing > 0)
            highlight = torch.where(lit, glance, 1.0) ** self.shininess
            colour = colour + self.specular * torch.where(lit, highlight, 0.0)
        return colour
