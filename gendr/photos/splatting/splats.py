"""`Splats`: soft triangles with opacities and colours, and how a camera sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr._common.checks import (
    check_choice,
    check_finite,
    check_float,
    check_image_size,
    check_like,
    check_number,
    check_shape,
    dtype_name,
)
from gendr._common.tracing import is_traced
from gendr._common.vectors import unit
from gendr.distributions import Distribution, as_distribution
from gendr.distributions.registry import DistributionLike
from gendr.kernels.operator import Operator
from gendr.mesh import Camera
from gendr.photos.splatting import files
from gendr.photos.splatting.choice import kernels_for
from gendr.photos.splatting.gaussians.conversion import power_of
from gendr.photos.splatting.harmonics import colors_of, degree_of
from gendr.photos.splatting.settings import UNITS
from gendr.tnorms import TConorm, as_tconorm

__all__ = ["NEAR", "UNITS", "Splats", "projected"]

# Triangles with a corner nearer to the camera are left out: world units.
NEAR = 1e-2
# The smallest inradius that a scale is a multiple of, NDC: triangles on edge have none.
_THIN = 1e-6
_SHAPES = {
    "vertices": "[N, 3, 3]", "harmonics": "[N, K, 3]", "opacity": "[N]", "scale": "[N]",
    "shape": "[N]", "background": "[3]",
}  # fmt: skip
_TENSORS = tuple(_SHAPES)
# What is > 0, and at most this.
_MOST = {"opacity": 1.0, "scale": torch.inf, "shape": torch.inf}


@final
@dataclass(frozen=True, eq=False, init=False, repr=False)
class Splats:
    """N soft triangles, immutable and differentiable in every tensor.

    At a pixel a triangle covers a = opacity F(d / scale), d the signed distance to its edges on the
    screen, positive inside. From front to back they are joined to A_i = conorm(a_1 ... a_i), and
    the colour is the sum of (A_i - A_{i-1}) color_i, and of the background times 1 - A_N.

    Attributes:
        vertices: [N, 3, 3] (triangle, corner, xyz), world.
        harmonics: [N, K, 3], K = 1, 4, 9 or 16: `colors_of` makes colours of them for the direction
            from the eye to the mean of the corners.
        opacity: [N] in (0, 1].
        scale: [N] > 0, in `unit`, squared if the distribution is.
        shape: [N] > 0, the shape of the distribution for each triangle, or None: that of `dist` for
            all.
        dist: The distribution F; also its name.
        tconorm: The T-conorm; also its name.
        unit: Of the scale: "inradius", that of the triangle on the screen, through which gradients
            go; "px", pixels of the image; "ndc", half of its shorter side.
        background: [3], RGB, white by default; or [3, H, W], an image that stands still before the
            camera and is stretched to the picture. In [0, 1].
        cutoff: In [0, 1): coverage below it, before the opacity, counts as 0.
        origin: float64 [3], on the CPU: where in the world the vertices count from; by default 0.
    """

    vertices: Tensor
    harmonics: Tensor
    opacity: Tensor
    scale: Tensor
    shape: Tensor | None
    dist: Distribution
    tconorm: TConorm
    unit: str
    background: Tensor
    cutoff: float
    origin: Tensor

    def __init__(
        self,
        vertices: Tensor,
        harmonics: Tensor,
        opacity: Tensor,
        scale: Tensor,
        shape: Tensor | None = None,
        *,
        dist: DistributionLike = "uniform",
        tconorm: str | TConorm = "probabilistic",
        unit: str = "inradius",
        background: Tensor | None = None,
        cutoff: float = 1e-6,
        origin: Tensor | None = None,
    ) -> None:
        """Check and keep what the attributes say.

        Raises:
            TypeError: if a tensor is none, is not float32 or float64, or the dtypes differ.
            ValueError: if a shape, device, range, name or unit is wrong, a value is not finite, or
                there are shapes and the distribution has none.
        """
        count = check_shape("vertices", check_float("vertices", vertices), "[N, 3, 3]")["N"]
        if background is None:
            background = vertices.new_ones(3)
        given = vertices, harmonics, opacity, scale, shape, background
        tensors = dict(zip(_TENSORS, given, strict=True))
        for name, value in tensors.items():
            if value is None:
                continue
            check_like(name, check_float(name, value), "vertices", vertices)
            pattern = "[3, H, W]" if name == "background" and value.ndim == 3 else _SHAPES[name]
            check_shape(name, value, pattern, N=count)
            check_finite(name, value)
            if name in _MOST:
                _check_range(name, value.detach(), _MOST[name])
        degree_of(harmonics.shape[1])
        low, high = (float(x) for x in background.detach().aminmax())
        if low < 0 or high > 1:
            raise ValueError(f"background must be RGB in [0, 1], got {low:g} .. {high:g}")
        distribution = as_distribution(dist)
        if shape is not None and distribution.shape_parameter is None:
            raise ValueError(
                f"{distribution} has no shape to set for each triangle; leave out shape"
            )
        check_choice("unit", unit, UNITS)
        check_number("cutoff", cutoff, least=0, below=1)
        place = torch.zeros(3, dtype=torch.float64, device="cpu")
        if origin is not None:
            check_shape("origin", check_float("origin", origin), "[3]")
            place = check_finite("origin", origin).detach().to("cpu", torch.float64)
        rest = {
            "dist": distribution, "tconorm": as_tconorm(tconorm), "unit": unit, "cutoff": cutoff,
            "origin": place,
        }  # fmt: skip
        for name, value in {**tensors, **rest}.items():
            object.__setattr__(self, name, value)

    def relative_to(self, origin: Tensor) -> Splats:
        """The same splats in the same place of the world, coordinates counted from elsewhere.

        Args:
            origin: Float tensor [3].
        """
        place = origin.detach().to("cpu", torch.float64)
        shift = (self.origin - place).to(self.vertices.device)
        moved = (self.vertices.double() + shift).to(self.vertices.dtype)
        return self.with_tensors(vertices=moved, origin=place)

    def with_tensors(self, **tensors: Tensor | float | None) -> Splats:
        """The same with tensors replaced by name, unchecked: for loops that must not wait."""
        out = object.__new__(Splats)
        for name, value in {**vars(self), **tensors}.items():
            object.__setattr__(out, name, value)
        return out

    def _each(self, names: tuple[str, ...], change: Callable[[Tensor], Tensor]) -> Splats:
        values = {name: getattr(self, name) for name in names}
        return self.with_tensors(**{n: None if x is None else change(x) for n, x in values.items()})

    def __len__(self) -> int:
        return len(self.vertices)

    def __repr__(self) -> str:
        parts = [f"{len(self)} triangles", f"degree {self.degree}", str(self.dist)]
        parts += [str(self.tconorm), self.unit, dtype_name(self.vertices.dtype)]
        return f"Splats({', '.join(parts)}, {self.vertices.device})"

    def __getitem__(self, index: int | slice | Sequence[int] | Tensor) -> Splats:
        """The triangles at `index`: an int (one), a slice, a list, an index or a mask."""
        if isinstance(index, int):
            if not -len(self) <= index < len(self):
                raise IndexError(f"triangle {index} of {len(self)}")
            index = [index]
        return self._each(_TENSORS[:-1], lambda x: x[index])

    def to(self, *args: Any, **kwargs: Any) -> Splats:
        """The same in another dtype or on another device, as `Tensor.to`."""
        return self._each(_TENSORS, lambda x: x.to(*args, **kwargs))

    def detach(self) -> Splats:
        """The same without gradient history."""
        return self._each(_TENSORS, Tensor.detach)

    @property
    def degree(self) -> int:
        """Of the harmonics, 0 to 3."""
        return degree_of(self.harmonics.shape[1])

    def render(
        self,
        camera: Camera,
        image_size: int | Sequence[int],
        *,
        near: float = NEAR,
        sort: str = "pixel",
        bound: float = 1e-4,
        backend: str = "auto",
    ) -> tuple[Tensor, Tensor]:
        """Images of the triangles, differentiable in all tensors.

        Args:
            camera: B cameras.
            image_size: H (a square) or (H, W).
            near: > 0, world units; triangles with a corner at a smaller depth are left out.
            sort: As `gendr.rendering.ordered.ordered` has it, and so are the others.
            bound: See `sort`.
            backend: "auto", or a name of `gendr.backends()`: of the projection, too.

        Returns:
            RGB over the background [B, 3, H, W], row 0 the top, and alpha [B, H, W].

        Raises:
            TypeError: if the camera has another dtype.
            ValueError: if it is on another device, for a setting that is not allowed, or if it has
                an origin and the splats have none (`Camera.toward`).
        """
        from gendr.rendering.ordered import ordered

        size = check_image_size(image_size)
        faces, colors, scale = projected(self, camera, size, near, backend)
        opacity = self.opacity.expand_as(scale)
        shape = None if self.shape is None else self.shape.expand_as(scale)
        image, alpha = ordered(
            faces, colors, size, self.dist, self.tconorm, scale, opacity=opacity, shape=shape,
            cutoff=self.cutoff, sort=sort, bound=bound, backend=backend, check=False,
        )  # fmt: skip
        return image + (1 - alpha)[:, None] * self.behind(size), alpha

    def behind(self, image_size: tuple[int, int]) -> Tensor:
        """The background of a picture (H, W): [3, H, W]."""
        image = self.background
        if image.ndim == 1:
            return image[:, None, None].expand(-1, *image_size)
        if image.shape[1:] == image_size:
            return image
        shrinks = all(a <= b for a, b in zip(image_size, image.shape[1:], strict=True))
        how: dict[str, Any] = {"mode": "area"} if shrinks else {"mode": "bilinear"}
        return F.interpolate(image[None], image_size, **how)[0]

    @staticmethod
    def load(path: str | Path, *, device: torch.device | str = "cpu") -> Splats:
        """Read what `save` wrote, in the dtype that it was in, or Gaussians of others.

        Gaussians become triangles, as `from_cloud` has it: of PLY (plain or compressed), .splat,
        .spz, SOG (a file or a folder) and glTF. What a file is, its content says.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if it holds no splats, or is damaged.
        """
        return files.load(Path(path), Splats).to(device)

    save, to_ply = files.save, files.save_ply
    to_mesh = files.to_mesh


def _check_range(name: str, values: Tensor, most: float) -> None:
    low, high = (float(x) for x in values.aminmax()) if len(values) else (most, most)
    if low <= 0 or high > most:
        rule = "> 0" if most == torch.inf else f"in (0, {most:g}]"
        raise ValueError(f"{name} must be {rule}, got {low if low <= 0 else high:g}")


def projected(
    splats: Splats, camera: Camera, image_size: int | Sequence[int], near: float = NEAR,
    backend: str = "auto",
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """What cameras see of each triangle, the input of the ordered renderer.

    Args:
        splats: N triangles.
        camera: B cameras.
        image_size: H or (H, W).
        near: > 0; triangles with a corner at a smaller depth get the depth 0 there, which stands
            for not in view, and no gradient.
        backend: "auto", or a name of `gendr.backends("splatting")`. Of several cameras, those that
            learn or look in parallel, and squared distributions there is the definition alone.

    Returns:
        Corners [B, N, 3, 3] as x, y in NDC and the depth in world units; colours [B, N, 3]; scales
        [B, N] in NDC.

    Raises:
        TypeError: if the camera has another dtype.
        ValueError: if it is on another device, near is not > 0, or the backend does not serve it.
        RuntimeError: if the backend is not usable here.
    """
    check_number("near", near, above=0)
    size, camera = check_image_size(image_size), camera.toward(splats)
    tensors = splats.vertices, splats.harmonics, splats.scale
    fixed = not camera.requires_grad
    plain = len(camera) == 1 and not camera.orthographic and power_of(splats.dist) == 1
    kernels = kernels_for(_PROJECT.name, splats.vertices, backend)
    if kernels is None or not (fixed and plain):
        return _projected(splats, camera, size, near)
    check_like("the camera", camera.rotation, "vertices", splats.vertices)
    unit = {"inradius": 0.0, "px": 2 / min(size), "ndc": 1.0}[splats.unit]
    found = _PROJECT(kernels, _Projection(splats, camera, size, near, unit, _THIN), *tensors)
    return tuple([x[None] for x in found])


class _Projection(NamedTuple):
    """What one camera sees splats with.

    Attributes:
        unit: NDC in a unit of scale; 0 for inradii.
        thin: the smallest inradius.
    """

    splats: Splats
    camera: Camera
    size: tuple[int, int]
    near: float
    unit: float
    thin: float


def _definition(
    task: _Projection, vertices: Tensor, harmonics: Tensor, scale: Tensor
) -> tuple[Tensor, ...]:
    splats = task.splats.with_tensors(vertices=vertices, harmonics=harmonics, scale=scale)
    return tuple(x[0] for x in _projected(splats, task.camera, task.size, task.near))


_PROJECT = Operator("splatting.project", reference=_definition)


def _projected(
    splats: Splats, camera: Camera, size: tuple[int, int], near: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`projected` in plain torch."""
    xyw, depth = camera.clip_coordinates(splats.vertices.reshape(-1, 3))
    xyw, depth = xyw.unflatten(1, (-1, 3)), depth.unflatten(1, (-1, 3))
    w, hidden = xyw[..., 2:], (depth.detach() < near).any(-1)[..., None, None]
    # On a GPU the host would wait for the answer.
    if some := is_traced() or hidden.device.type != "cpu" or bool(hidden.any()):
        # Before the division and after it, so that what is behind the eye has a gradient of 0.
        w = torch.where(hidden, 1.0, w)
    corners = torch.cat([xyw[..., :2] / w, depth[..., None]], -1)
    if some:
        corners = torch.where(hidden, 0.0, corners)
    centre = splats.vertices.mean(1)
    if camera.orthographic:
        toward = camera.ahead[:, None].expand(-1, len(splats), 3)
    else:
        toward = unit(centre - camera.eye[:, None])
    colors = colors_of(splats.harmonics, toward)
    if splats.unit == "inradius":
        length_of = _inradius(corners[..., :2])
    else:
        length_of = corners.new_full(colors.shape[:2], 2 / min(size) if splats.unit == "px" else 1)
    scale = splats.scale * length_of ** power_of(splats.dist)
    return corners, colors, scale


def _inradius(corners: Tensor) -> Tensor:
    """Of triangles [..., 3, 2]: twice the area over the perimeter, at least `_THIN`."""
    x, y = (z - z.roll(1, -1) for z in corners.unbind(-1))
    area = (x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]).abs()
    around = (x * x + y * y).clamp(min=_THIN**3).sqrt().sum(-1)
    return (area / around).clamp(min=_THIN)
