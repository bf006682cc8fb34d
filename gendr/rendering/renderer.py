"""`Renderer`: from a mesh and a camera to images."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Hashable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gendr._common.checks import (
    check_choice,
    check_finite,
    check_float,
    check_like,
    check_number,
    check_shape,
)
from gendr._common.registry import memoized
from gendr._common.tracing import is_traced
from gendr._common.words import worded
from gendr.kernels.backends import NAMES
from gendr.rendering.aggregation import PRECISIONS, Model, model_of
from gendr.rendering.api import (
    Dist,
    Scale,
    check_positive,
    parse_image_size,
    parse_scale,
)
from gendr.rendering.backends.choice import choose
from gendr.rendering.geometry import Geometry, ImageSize, common_batch
from gendr.rendering.ordered import SORTS
from gendr.rendering.ordered_output import OrderedOutput, Ordering
from gendr.rendering.output import Output
from gendr.rendering.scene import Scene
from gendr.rendering.shading import Blending

if TYPE_CHECKING:
    from gendr.distributions import Distribution
    from gendr.mesh import Camera, Lighting, Mesh
    from gendr.rendering.compiled import CompiledRenderer
    from gendr.tnorms import TConorm

_LEARNABLE = ("scale", "shape", "p", "gamma")
_AS_IT_IS = nullcontext()


@worded()
class Renderer(nn.Module):
    """One renderer of the family: signed distances x CDF x T-conorm, then shading.

    >>> renderer = Renderer(64, dist="logistic", tconorm="probabilistic", scale="1px")
    >>> out = renderer(Mesh.load("model.obj"), look_at(2.7, 30.0, 0.0))
    >>> out.alpha.shape, out.rgb.shape

    Args:
        image_size: int or (H, W), pixels.
        dist: a distribution, its name, or a callable CDF; see `gendr.distributions.names`.
        tconorm: a T-conorm or its name; see `gendr.tnorms.names`.
        scale: > 0, NDC (NDC^2 for squared distributions), one for all images or one per image
            [B]; or text such as "1.5px". `gendr.suggest_scale` finds one.
        shading: "softmax" over depth, or "hard": the nearest covering face.
        composite: how colours are combined with the background. "depth": the background is one more
            surface, in the softmax at the depth `eps`, as the papers define it, and in hard
            shading behind all others. "alpha": colour * alpha + background * (1 - alpha), where
            the colour is that of the faces alone; in hard shading, pixels that no face covers
            take the colour of the face that is nearest to them in the image. Soft edges then look
            as in ordinary pictures, and colours are differentiable through alpha. "ordered": the
            T-conorm joins the faces one after the other, from front to back, and each adds its
            colour by what it adds to alpha; the background has the rest. With "probabilistic" this
            is alpha blending. `shading`, `gamma` and `eps` have no part in it, and `alpha` is the
            sum of these weights.
        lighting: a `Lighting`, its name ("lambert", "phong", "headlight"), or "none" for unlit
            colours. "auto" is "lambert", and "none" for a mesh that is `unlit`: whose colours hold
            the light already, as those found from photographs.
        near: > 0, nearest depth; triangles that cross it are clipped. By default 1, or less if the
            scene begins nearer.
        far: > near; faces wholly beyond it contribute nothing. By default 100, or more if the scene
            ends farther away.
        gamma: >= 1e-12, temperature of the softmax over normalised depth (far - z) / (far - near).
            A surface has e times the weight of one that is gamma (far - near) behind it; by default
            this is about a tenth of a unit of length.
        eps: in [0, 1], normalised depth of the background in the softmax.
        background: RGB in [0, 1].
        cutoff: coverage at or below it counts as 0; see `gendr.silhouette`.
        opacity: for "ordered": in [0, 1], a number or a tensor [], which coverages are multiplied
            by. The `face_opacity` of a mesh comes before it, as its `face_scale` and `face_shape`
            before the scale and the shape of the renderer.
        sort: for "ordered": "pixel", by the depth at each pixel, or "centroid", one order for all.
        bound: for "ordered", in [0, 1): faces may be left out whose weights in a pixel are less
            than this together.
        mipmaps: whether textures are averaged over what a pixel shows of them (trilinear mipmaps),
            so that fine patterns far away do not flicker. Levels go as far as the sides of a
            texture can be halved: powers of 2 are best. Softmax shading is slower with it, as
            fragments are listed.
        backend: "auto", "cpu", "triton" or "reference".
        precision: of the kernels of the CPU. "auto": float32 for float32 meshes where that has the
            digits, with alpha within 1e-4 of float64 and gradients within 1e-3; float64 for others,
            for `learnable` parameters, distributions and T-conorms that need it, and scales below a
            hundredth of a pixel. "double": float64 always, at half the speed.
        learnable: any of "scale", "shape" (of the distribution), "p" (of the T-conorm) and "gamma";
            these become parameters of the module, kept positive (p negative where it must be) by
            an exponential. Read their values from `renderer.scale` and so on.
        check: whether to look for NaN and inf in vertices and cameras. On the CPU the call that
            has them raises; on a GPU, so that nobody waits, a later call does, once the GPU has
            come across them, and so for a scale that is a tensor and not positive. Code traced by
            `torch.compile`, and CUDA graphs, are not checked.

    Raises:
        TypeError: for what is no number, name or object of the kind that is wanted.
        ValueError: for unknown names (the nearest are listed), numbers out of range, a background
            that is not RGB in [0, 1], or `learnable` parameters that the distribution or the
            T-conorm does not have.

    Source: thesis, chapter 5.
    """

    def __init__(
        self,
        image_size: int | Sequence[int] = 256,
        dist: Dist = "uniform",
        tconorm: str | TConorm = "probabilistic",
        scale: Scale = 1e-2,
        shading: str = "softmax",
        *,
        composite: str = "depth",
        lighting: str | Lighting = "auto",
        near: float | None = None,
        far: float | None = None,
        gamma: float | Tensor = 1e-3,
        eps: float = 1e-3,
        background: Sequence[float] = (0.0, 0.0, 0.0),
        cutoff: float = 1e-6,
        opacity: float | Tensor = 1.0,
        sort: str = "pixel",
        bound: float = 1e-4,
        mipmaps: bool = False,
        backend: str = "auto",
        precision: str = "auto",
        learnable: Sequence[str] = (),
        check: bool = True,
    ) -> None:
        super().__init__()
        found = _checked(
            image_size, dist, tconorm, scale, shading, composite, lighting, near, far, gamma, eps,
            opacity, sort, bound, backend, precision,
        )  # fmt: skip
        self.size, self._model, self._scale = found[:3]
        self.lighting, self.near, self.far, self.eps, self.bound = found[3:]
        automatic = isinstance(lighting, str) and lighting == "auto"
        self._default_lighting = self.lighting if automatic else None
        self.shading, self.composite, self.mipmaps, self.sort = shading, composite, mipmaps, sort
        self.opacity, self._gamma, self.precision = opacity, gamma, precision
        self.background: Tensor
        self.register_buffer("background", _checked_background(background))
        self.cutoff, self.backend, self.check = cutoff, backend, check
        self._negative: dict[str, bool] = {}
        if learnable:
            self._learn(learnable)
        self._has_looked = self._has_warned = False

    def _learn(self, names: Sequence[str]) -> None:
        """Turn the named values into parameters: the logarithms of their magnitudes."""
        if isinstance(names, str):
            names = (names,)
        values: dict[str, Any] = {
            "scale": self._scale,
            "shape": self._model.dist.shape_parameter,
            "p": self._model.tconorm.given_p,
            "gamma": self._gamma,
        }
        for name in names:
            value = values[check_choice("learnable parameter", name, _LEARNABLE)]
            if value is None:
                owner = self._model.dist if name == "shape" else self._model.tconorm
                raise ValueError(f"{owner} has no parameter {name!r} to learn")
            given = torch.as_tensor(
                value, device=None if isinstance(value, Tensor) else "cpu"
            ).detach()
            self._negative[name] = bool((given < 0).any())
            magnitude = torch.as_tensor(value, dtype=torch.get_default_dtype()).detach().abs()
            self.register_parameter(f"log_{name}", nn.Parameter(magnitude.log()))

    def _learnt(self, name: str) -> Tensor:
        magnitude = self._parameters[f"log_{name}"].exp()  # pyright: ignore[reportOptionalMemberAccess]
        return -magnitude if self._negative[name] else magnitude

    @property
    def _owner(self) -> Hashable:
        """Whose late checks follow each other: a call is not blamed for those of another renderer.

        None in code that is traced, where nothing is looked at.
        """
        return None if torch.compiler.is_compiling() else weakref.ref(self)

    @property
    def scale(self) -> float | Tensor:
        """The scale in NDC (NDC^2 for squared distributions); assign for a schedule."""
        return self._learnt("scale") if "scale" in self._negative else self._scale

    @scale.setter
    def scale(self, value: Scale) -> None:
        if "scale" in self._negative:
            raise AttributeError("this renderer learns its scale; assign to log_scale.data instead")
        squared = self._model.dist.is_squared
        self._scale = parse_scale(value, self.size, squared, owner=self._owner)

    @property
    def dist(self) -> Distribution:
        """The distribution, with its learnt shape."""
        dist = self._model.dist
        return dist.with_shape(self._learnt("shape")) if "shape" in self._negative else dist

    @property
    def tconorm(self) -> TConorm:
        """The T-conorm, with its learnt p."""
        tconorm = self._model.tconorm
        return tconorm.with_p(self._learnt("p")) if "p" in self._negative else tconorm

    @property
    def gamma(self) -> float | Tensor:
        """The temperature of the softmax over depth."""
        return self._learnt("gamma") if "gamma" in self._negative else self._gamma

    def forward(self, mesh: Mesh, camera: Camera, scale: Scale | None = None) -> Output:
        """Render a batch: meshes and cameras in batches of equal size, or 1 for all.

        Args:
            mesh: B meshes or 1.
            camera: B cameras or 1.
            scale: replaces the scale of the renderer for this call.

        Returns:
            The images, which are computed when they are read.

        Raises:
            TypeError: for wrong types or dtypes.
            ValueError: for batches that do not fit, devices that differ, NaN or inf, or a mesh
                without an origin before cameras that have one (`Camera.toward`). On a GPU values
                of tensors that are wrong are reported by a later call.
        """
        from gendr.mesh import Camera, Mesh

        if not isinstance(mesh, Mesh) or not isinstance(camera, Camera):
            raise TypeError(
                "a renderer takes a gendr.Mesh and a gendr.Camera, got "
                f"{type(mesh).__name__} and {type(camera).__name__}"
            )
        check_like("the camera", camera.rotation, "the mesh", mesh.vertices)
        camera = camera.toward(mesh)
        if scale is None:
            number = self.scale
        else:
            squared = self._model.dist.is_squared
            number = parse_scale(scale, self.size, squared, owner=self._owner)
        return self._render(mesh, camera, number, self.check)

    def _render(self, mesh: Mesh, camera: Camera, number: float | Tensor, check: bool) -> Output:
        """Render what `forward` has checked: a mesh and a camera of one dtype on one device.

        Args:
            mesh: B meshes or 1.
            camera: B cameras or 1.
            number: the scale, in NDC.
            check: whether to look for NaN and inf.
        """
        vertices, model = mesh.vertices, self._model
        if "shape" in self._negative or "p" in self._negative:
            model = Model(self.dist, self.tconorm)
        if own := mesh.face_values:
            if self.composite != "ordered":
                raise ValueError(
                    "face_opacity, face_scale and face_shape of a mesh need Renderer(composite="
                    f'"ordered"), got "{self.composite}"; or take them away by '
                    ".with_face_opacity(None)"
                )
            if "shape" in own and model.dist.shape_parameter is None:
                raise ValueError(f"the mesh has a face_shape, but {model.dist} has no shape")
        images = common_batch(len(mesh), len(camera))
        aggregation = model.aggregation(
            number, self.cutoff, images, self.size, vertices, self.precision
        )
        backend = choose(self.backend, vertices)
        # On a GPU, looking for NaN means waiting: a backend that projects by itself tells later.
        late = check and vertices.is_cuda
        if check and not late:
            _check_scene(vertices, camera)
        owner = self._owner if late else None
        projected = backend.project(mesh, camera, self.near, self.far, owner)
        # Images are of now, also if they are read when an optimiser has changed the shape.
        if _may_change(vertices):
            mesh = mesh.with_vertices(vertices.clone())
        if camera.requires_grad and any(map(_may_change, camera.tensors())):
            camera = camera.with_tensors(*(x.clone() for x in camera.tensors()))
        gathered = backend.KERNELS.get("rendering.gather")
        geometry = Geometry(mesh, camera, self.near, self.far, projected, gathered)
        if late and geometry.projected is None:
            _check_scene(vertices, camera)
        device = vertices.device.type
        mixed = torch.is_autocast_enabled(device)
        with torch.autocast(device, enabled=False) if mixed else _AS_IT_IS:
            self._warn_if_invisible(geometry, vertices)
            _ = geometry.faces  # now, as above
        light = self.lighting
        if light is not None and light is self._default_lighting and mesh.unlit:
            light = None
        gather = backend.gather
        scene = Scene(mesh, camera, geometry, self.size, gather, light, self.mipmaps, self.backend)
        gamma, background = self.gamma, self.background

        def blended(near: float, far: float) -> Blending:
            return Blending(near, far, gamma, self.eps, background.to(vertices))

        if self.composite == "ordered":
            ordering = Ordering(_checked_opacity(self.opacity), self.sort, self.bound)
            return OrderedOutput(backend, scene, aggregation, blended, ordering)
        return Output(backend, scene, aggregation, blended, self.shading, self.composite)

    def compiled(self) -> CompiledRenderer:
        """The renderer, with its steps of alpha as CUDA graphs; it is called in the same way.

        It pays on a GPU where the same sizes come hundreds of times, as in a fit: a step then costs
        the host a few launches. On a CPU, and where a step cannot be captured, the renderer runs as
        it is, so that the same code runs everywhere. See `CompiledRenderer`.

        >>> fast = renderer.compiled()
        >>> fast(mesh.with_vertices(vertices), camera).alpha.sum().backward()
        """
        from gendr.rendering.compiled import CompiledRenderer

        return CompiledRenderer(self)

    def _warn_if_invisible(self, geometry: Geometry, vertices: Tensor) -> None:
        """Warn, once, if nothing of a scene lies between the planes.

        On a GPU, reading depths means waiting for them: there it looks at the first scene only.
        """
        if is_traced() or (self._has_looked and vertices.device.type != "cpu"):
            return
        self._has_looked = True
        (near, far), (lowest, farthest) = geometry.planes, geometry.depths
        there = len(geometry.mesh.faces) > 0 and lowest <= farthest
        invisible = there and (farthest < near or lowest > far)
        if invisible and not self._has_warned:
            self._has_warned = True
            where = "behind the camera" if farthest <= 0 else f"not between {near:g} and {far:g}"
            warnings.warn(
                f"nothing to be seen: the depths of the mesh are {lowest:.4g} to {farthest:.4g}, "
                f"{where}; move the camera, or leave near and far to the renderer",
                stacklevel=6,
            )

    def extra_repr(self) -> str:
        """The settings as text, with learnt values as they are now."""

        def number(value: Any) -> str:
            if not isinstance(value, Tensor):
                return str(value)
            values = value.detach().reshape(-1).tolist()
            return (
                f"{values[0]:.6g}" if value.ndim == 0 else str([float(f"{x:.6g}") for x in values])
            )

        parts = {
            "dist": self.dist,
            "tconorm": self.tconorm,
            "scale": number(self.scale),
            "shading": self.shading,
            "composite": self.composite,
            "backend": self.backend,
        }
        if self.composite == "ordered":
            parts |= {"opacity": number(self.opacity), "sort": self.sort, "bound": self.bound}
        if "log_gamma" in self._parameters:
            parts["gamma"] = number(self.gamma)
        listed = ", ".join(f"{name}={value}" for name, value in parts.items())
        return f"{self.size.height}x{self.size.width}, {listed}"


def _checked_opacity(opacity: float | Tensor) -> float | Tensor:
    """The opacity, a number or a tensor []; the values of one on a GPU are not looked at.

    Raises:
        TypeError: for what is neither.
        ValueError: for another shape, or a value outside [0, 1].
    """
    if isinstance(opacity, Tensor):
        check_shape("opacity", check_float("opacity", opacity), "[]")
        if opacity.is_cuda or is_traced():
            return opacity
    value = opacity.item() if isinstance(opacity, Tensor) else opacity
    if not 0 <= check_number("opacity", value) <= 1:
        raise ValueError(f"opacity must lie in [0, 1], got {value:g}")
    return opacity


@memoized
def _checked(
    image_size: int | Sequence[int], dist: Dist, tconorm: str | TConorm, scale: Scale, shading: str,
    composite: str, lighting: str | Lighting, near: float | None, far: float | None,
    gamma: float | Tensor, eps: float, opacity: float | Tensor, sort: str, bound: float,
    backend: str, precision: str,
) -> tuple[
    ImageSize, Model, float | Tensor, Lighting | None, float | None, float | None, float, float,
]:  # fmt: skip
    """Check the arguments of a renderer, and return what those say that are not as they are."""
    from gendr.mesh import Lighting

    size, model = parse_image_size(image_size), model_of(dist, tconorm)
    check_choice("shading", shading, ("softmax", "hard"))
    light = Lighting.from_name(lighting) if isinstance(lighting, str) else lighting
    check_choice("composite", composite, ("depth", "alpha", "ordered"))
    if composite == "ordered" and shading == "hard":
        raise ValueError('shading="hard" draws the nearest face, composite="ordered" all faces')
    _checked_opacity(opacity)
    check_choice("sort", sort, SORTS)
    bound = check_number("bound", bound, least=0.0, below=1.0)
    near = None if near is None else check_number("near", near, above=0.0)
    far = None if far is None else check_number("far", far, above=near or 0.0)
    if isinstance(gamma, Tensor):
        check_shape("gamma", check_float("gamma", gamma), "[]")
        check_positive("gamma", gamma.detach())
    else:
        check_number("gamma", gamma, above=0.0)
    # Below, float32 overflows, and no two depths are so near.
    if not (isinstance(gamma, Tensor) and (gamma.is_cuda or is_traced())) and gamma < 1e-12:
        raise ValueError(f'gamma must be >= 1e-12, got {float(gamma):g}; take shading="hard"')
    if not 0 <= (eps := check_number("eps", eps)) <= 1:
        raise ValueError(f"eps must lie in [0, 1], got {eps:g}")
    check_choice("precision", precision, PRECISIONS)
    check_choice("backend", backend, ("auto", *NAMES))
    number = parse_scale(scale, size, model.dist.is_squared)
    return size, model, number, light, near, far, eps, bound


def _checked_background(background: Sequence[float]) -> Tensor:
    """RGB as a tensor of the default dtype.

    Raises:
        ValueError: for what is no RGB in [0, 1].
    """
    try:
        colour = torch.tensor(background, dtype=torch.get_default_dtype(), device="cpu")
    except (TypeError, ValueError):
        colour = torch.empty(0, device="cpu")
    if colour.shape != (3,):
        raise ValueError(f"background must be three numbers (RGB), got {background!r}")
    values = colour.tolist()
    if not -1e-6 <= min(values) <= max(values) <= 1 + 1e-6:
        check_finite("background", colour)
        hint = "; divide values of 0 .. 255 by 255" if max(values) > 1 else ""
        raise ValueError(f"background must be RGB in [0, 1], got {background!r}{hint}")
    return colour


def _may_change(tensor: Tensor) -> bool:
    """Whether others hold the memory of a tensor: it was not made by a computation."""
    return not is_traced() and (tensor.is_leaf or tensor._is_view())


def _check_scene(vertices: Tensor, camera: Camera) -> None:
    """Raise for NaN and inf in what is to be projected."""
    check_finite("the vertices of the mesh", vertices)
    check_finite("the rotation of the camera", camera.rotation)
    check_finite("the translation of the camera", camera.translation)
