"""The main job: a mesh whose silhouettes are the ones given.

    >>> result = gendr.fit(masks, camera, steps=100)      # masks [B, H, W], B cameras
    >>> result.mesh.save("fit.obj"); result.iou

The recipe, each part of which was chosen by trial on two airplanes:

- the vertices are v = (I + smoothness L)^-1 u with the graph Laplacian L, and Adam moves u: every
  step moves whole regions, so that steps can be large and the surface stays smooth; Adam divides
  by one number for all vertices, which keeps its steps parallel to its averaged gradient (Nicolet,
  Jacobson, Jakob, Large Steps in Inverse Rendering of Geometry, 2021, both);
- the loss is one minus the soft intersection over union, and a little of the creases;
- the scale falls geometrically, from wide enough for every pixel near an outline to pull on it to
  narrow enough for the soft image to be the hard one;
- everything happens in a frame whose unit is the size of the object, so that no setting depends on
  the units of the world, and the mesh with the best hard silhouettes is kept.
"""

from __future__ import annotations

import hashlib
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gendr._runtime.checks import (
    check_choice,
    check_count,
    check_finite,
    check_float,
    check_like,
    check_number,
    check_shape,
)
from gendr._runtime.files import write_whole
from gendr.losses import FlattenLoss, iou, iou_loss
from gendr.mesh import Camera, Mesh, icosphere
from gendr.mesh.views import visual_sphere
from gendr.rendering import Renderer
from gendr.rendering.api import parse_image_size, parse_scale

if TYPE_CHECKING:
    from gendr.distributions import Distribution
    from gendr.tnorms import TConorm

__all__ = ["FitResult", "FitSettings", "FitState", "Frame", "SmoothParametrization", "fit"]

# Radius of the starting sphere in the frame of a fit, whose unit is about the object's diameter.
SPHERE = 0.4
# The scales, in pixels and for the logistic distribution, that `scale="auto"` stands for.
AUTO_PIXELS = (0.3, 0.05)
# Decay rates of Adam's two averages; the second forgets faster than usual in so short a run.
BETAS = (0.9, 0.99)
# How often hard silhouettes are compared during a fit.
EVALUATIONS = 20


# ---------------------------------------------------------------------------------------------
# the parametrisation


class _Solve(torch.autograd.Function):
    """x -> A^-1 x for a symmetric, factorised A; its own derivative is the same solve."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Any) -> Tensor:
        ctx.factor = factor
        solved = factor.solve(x.detach().double().cpu().numpy())
        return torch.from_numpy(solved).to(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None]:
        return _Solve.apply(grads[0], ctx.factor), None  # pyright: ignore[reportReturnType]


class SmoothParametrization(nn.Module):
    """Vertices as v = (I + smoothness L)^-1 u, with L the graph Laplacian of the mesh.

    An optimiser that moves the parameter `u` moves regions of about sqrt(smoothness) edges across,
    however it weighs the entries of its gradient, so the surface stays smooth under large steps.

    >>> shape = SmoothParametrization(icosphere(3))
    >>> optimizer = torch.optim.Adam(shape.parameters(), lr=0.03, betas=(0.9, 0.99))
    >>> loss = iou_loss(renderer(shape.mesh(), camera).alpha, masks)

    The matrix is factorised once, in float64, by SciPy; a solve takes time in proportion to the
    number of vertices, on the CPU also if `u` lives elsewhere. Twice differentiable.

    Args:
        mesh: One mesh to start from; it is reproduced up to rounding.
        smoothness: lambda >= 0; 0 makes u the vertices themselves.

    Raises:
        TypeError: If `mesh` is no mesh.
        ValueError: If it is a batch, or smoothness is negative.

    Source: Nicolet, Jacobson, Jakob, Large Steps in Inverse Rendering of Geometry, 2021, (12).
    """

    u: nn.Parameter

    def __init__(self, mesh: Mesh, smoothness: float = 2.0) -> None:
        super().__init__()
        import numpy as np
        from scipy.sparse import coo_matrix
        from scipy.sparse.linalg import splu

        _check_single("mesh", mesh)
        if check_number("smoothness", smoothness) < 0:
            raise ValueError(f"smoothness must be >= 0, got {smoothness!r}")
        self.start = mesh.detach()
        count = mesh.vertex_counts[0]
        a, b = mesh.edges.cpu().numpy().T
        a, b = a[a != b], b[a != b]
        degree = np.bincount(np.concatenate([a, b]), minlength=count)
        every = np.arange(count)
        rows, columns = np.concatenate([every, a, b]), np.concatenate([every, b, a])
        values = np.concatenate([1 + smoothness * degree, np.full(2 * len(a), -smoothness)])
        matrix = coo_matrix((values, (rows, columns)), shape=(count, count)).tocsc()
        self._factor = splu(matrix, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
        vertices = mesh.vertices.detach()
        u = torch.from_numpy(matrix @ vertices.double().cpu().numpy()).to(vertices)
        self.u = nn.Parameter(u)

    def forward(self, u: Tensor | None = None) -> Tensor:
        """The vertices [V, 3] of the parameter, or of another `u` [V, 3]."""
        solved = _Solve.apply(self.u if u is None else u, self._factor)
        assert isinstance(solved, Tensor)  # for the type checker
        return solved

    def mesh(self) -> Mesh:
        """The mesh of the current vertices, differentiable in `u`."""
        return self.start.with_vertices(self())


# ---------------------------------------------------------------------------------------------
# the frame


@dataclass(frozen=True)
class Frame:
    """Where the object is and how large: inner = (world - centre) / size.

    Attributes:
        centre: [3] float64, CPU, world units.
        size: > 0, world units.
    """

    centre: Tensor
    size: float

    @staticmethod
    def of_masks(masks: Tensor, camera: Camera) -> Frame:
        """The frame in which the visual sphere of the masks has the radius of the start."""
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
        )

    def inner(self, world: Tensor) -> Tensor:
        """World points [..., 3] in this frame."""
        return ((world.double() - self.centre.to(world.device)) / self.size).to(world.dtype)

    def world(self, inner: Tensor) -> Tensor:
        """Points [..., 3] of this frame in the world."""
        return (inner.double() * self.size + self.centre.to(inner.device)).to(inner.dtype)


# ---------------------------------------------------------------------------------------------
# settings, state, result


@dataclass(frozen=True)
class FitSettings:
    """What a fit can be told; all lengths are pixels, NDC or the object's size.

    Attributes:
        steps: Adam steps, >= 1.
        dist: The distribution: a name, an object or a callable CDF.
        tconorm: The T-conorm: a name or an object.
        scale: How soft edges are: "auto", a number in NDC, "1.5px", or (start, end) or "start:end"
            of these for a geometric schedule over the steps. "auto" is 0.3px:0.05px for logistic,
            and for other laws what makes their middle half as wide.
        lr: Step length of Adam, > 0, in the object's size: of the vertex that moves most.
        flatness: >= 0, weight of the creases: (1 - cos)^2 of the angle between neighbouring faces,
            mean over the edges.
        smoothness: Of the parametrisation, >= 0.
        subdivisions: Of the starting icosphere, if there is no mesh to start from.
        views_per_step: Views per step, drawn by `seed` in random order if there are more.
        cutoff: Coverage at or below it counts as 0.
        backend: "auto", "cpu", "triton" or "reference".
        seed: Of the order of the views.
        frames: Shapes along the way that the result keeps; 0 for none.
    """

    steps: int = 100
    dist: Any = "logistic"
    tconorm: Any = "probabilistic"
    scale: Any = "auto"
    lr: float = 0.1
    flatness: float = 0.05
    smoothness: float = 2.0
    subdivisions: int = 3
    views_per_step: int = 24
    cutoff: float = 1e-3
    backend: str = "auto"
    seed: int = 0
    frames: int = 40

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("views_per_step", 1), ("seed", 0), ("frames", 0)):
            check_count(name, getattr(self, name), least=least)
        check_count("subdivisions", self.subdivisions, least=0)
        if self.subdivisions > 7:
            raise ValueError(f"subdivisions must be <= 7, got {self.subdivisions}; each makes 4x")
        check_number("lr", self.lr, above=0)
        for name in ("smoothness", "flatness"):
            if check_number(name, getattr(self, name)) < 0:
                raise ValueError(f"{name} must be >= 0, got {getattr(self, name)!r}")
        if not 0 <= check_number("cutoff", self.cutoff) < 1:
            raise ValueError(f"cutoff must be in [0, 1), got {self.cutoff!r}")
        if _width(self.law) == 0:
            raise ValueError(
                f"dist {self.law} is a hard step without gradient, nothing can be fitted with it; "
                "use logistic, uniform or any other"
            )
        self.scales((64, 64))
        _ = self.conorm

    @property
    def law(self) -> Distribution:
        """The distribution as an object."""
        from gendr.distributions import as_distribution

        return as_distribution(self.dist)

    @property
    def conorm(self) -> TConorm:
        """The T-conorm as an object."""
        from gendr.tnorms import as_tconorm

        return as_tconorm(self.tconorm)

    @property
    def unit(self) -> str:
        """Of the scales."""
        return "NDC^2" if self.law.is_squared else "NDC"

    def scales(self, image_size: tuple[int, int]) -> tuple[float, float]:
        """First and last scale, in NDC (NDC^2 for squared distributions).

        Raises:
            TypeError: for what is no scale.
            ValueError: for what cannot be read or is not positive.
        """
        law, size = self.law, parse_image_size(image_size)
        if isinstance(self.scale, str) and self.scale == "auto":
            # x grows as this power of the scale, see the transforms `squared` and `art`.
            power = 2.0 if law.is_squared else 1 - law.art_exponent
            first, last = (pixels * 2 / size.side / _width(law) for pixels in AUTO_PIXELS)
            return first**power, last**power
        ends = self.scale.split(":") if isinstance(self.scale, str) else self.scale
        ends = list(ends) if isinstance(ends, (list, tuple)) else [ends]
        if len(ends) not in (1, 2):
            raise ValueError(f"scale must be one value or START:END, got {self.scale!r}")
        in_pixels = {"px" in end for end in ends if isinstance(end, str)}
        if isinstance(self.scale, str) and (len(in_pixels) > 1 or "" in ends):
            raise ValueError(
                "both ends of a scale must be given, and in one unit, as in 1px:0.1px, "
                f"got {self.scale!r}"
            )
        numbers = [parse_scale(end, size, law.is_squared) for end in ends]
        return float(numbers[0]), float(numbers[-1])

    def describe(self) -> dict[str, Any]:
        """The settings as plain values, for files."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        scale = self.scale if isinstance(self.scale, (str, int, float)) else list(self.scale)
        return {**plain, "dist": str(self.law), "tconorm": str(self.conorm), "scale": scale}


def _width(law: Distribution) -> float:
    """Width of the middle half of a law at scale 1, over that of the logistic law; 0 for a step."""
    low, high = law.icdf(torch.tensor([0.25, 0.75], dtype=torch.float64)).tolist()
    return (high - low) / (2 * math.log(3))


@dataclass(frozen=True, eq=False)
class FitState:
    """Where a fit is after a step; what it needs to go on, bit for bit.

    Attributes:
        step: Steps done.
        u: [V, 3], the parameter after them.
        first: [V, 3], Adam's average of the gradient.
        second: [V, 3], Adam's average of its square.
        history: One dict per step: step, loss, scale, and iou where it was measured.
        best_step: The step of the best mesh so far.
        best_iou: Its mean hard IoU over all views.
        best: [V, 3], its vertices, in the frame of the fit.
        trace: (step, vertices) along the way, for pictures.
        frame: Of the fit.
        seconds: Spent so far, earlier runs included.
        signature: What the fit is of and how: settings, and a digest of masks, cameras and start.
    """

    step: int
    u: Tensor
    first: Tensor
    second: Tensor
    history: tuple[dict[str, float], ...]
    best_step: int
    best_iou: float
    best: Tensor
    trace: tuple[tuple[int, Tensor], ...]
    frame: Frame
    seconds: float
    signature: dict[str, Any]

    @property
    def loss(self) -> float:
        """Loss of the last step, at its start."""
        return self.history[-1]["loss"] if self.history else float("nan")

    def save(self, path: str | Path) -> None:
        """Write a checkpoint; the file is replaced only when the new one is whole.

        Raises:
            OSError: With the path, if it cannot be written; what was there is left.
        """
        path = Path(path)
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["frame"] = (self.frame.centre, self.frame.size)
        values = {"format": "gendr fit 1", **_map_tensors(values, lambda t: t.detach().cpu())}
        write_whole(path, lambda file: torch.save(values, file))

    @staticmethod
    def load(path: str | Path, device: torch.device | str = "cpu") -> FitState:
        """Read a checkpoint.

        Raises:
            ValueError: If there is none, or the file is something else.
        """
        path = Path(path)
        if not path.is_file():
            raise ValueError(f"no checkpoint to resume from at {path}; start without resuming")
        try:
            values = torch.load(path, map_location=device, weights_only=True)
            if values.pop("format") != "gendr fit 1":
                raise KeyError("format")
            centre, size = values.pop("frame")
            return FitState(**values, frame=Frame(centre.cpu(), size))
        except Exception as error:  # noqa: BLE001 (unpicklers raise anything on a foreign file)
            kind = type(error).__name__
            raise ValueError(f"{path} is no checkpoint of a fit ({kind}); delete it") from None


def _map_tensors(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, dict):
        return {k: _map_tensors(v, function) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_map_tensors(v, function) for v in value)
    return value


@dataclass(frozen=True, eq=False)
class FitResult:
    """A fitted mesh and how good it is.

    Attributes:
        mesh: The mesh with the best hard silhouettes, in world coordinates.
        metrics: iou (mean hard IoU), iou_per_view, best_step, final_iou, seconds.
        history: One dict per step: step, loss, scale, and iou where it was measured.
        trace: (step, mesh) along the way, in world coordinates, the best mesh last.
        settings: As used.
        state: The last state.
    """

    mesh: Mesh
    metrics: dict[str, Any]
    history: tuple[dict[str, float], ...]
    trace: tuple[tuple[int, Mesh], ...]
    settings: FitSettings
    state: FitState

    @property
    def iou(self) -> float:
        """Mean over the views of the IoU of hard silhouettes, in [0, 1]."""
        return self.metrics["iou"]


# ---------------------------------------------------------------------------------------------
# the fit


def fit(
    target_masks: Tensor,
    camera: Camera,
    settings: FitSettings | None = None,
    *,
    init: Mesh | None = None,
    callback: Callable[[FitState], None] | None = None,
    resume: FitState | str | Path | None = None,
    **changes: Any,
) -> FitResult:
    """Fit a mesh to silhouettes.

    Args:
        target_masks: [B, H, W] in [0, 1]; soft edges count as they are, for the IoU the object is
            where the mask is > 0.5.
        camera: B cameras.
        settings: By default `FitSettings()`.
        init: One mesh to start from, in the coordinates of the cameras (its `origin` is kept, not
            added); by default a sphere placed and sized from what all cameras see. Its topology is
            kept.
        callback: Called with the state after every step, for progress and checkpoints
            (`state.save`). The state is a snapshot: what it raises, KeyboardInterrupt included,
            ends the fit and leaves the state whole.
        resume: A state or the path of a checkpoint to go on from, with the same arguments; the
            result is the one of an uninterrupted run, bit for bit. Only `steps` may differ, also
            after a finished fit: the scale then goes from where it is to the end of its schedule
            in the steps that are left, and stays there if it is there.
        **changes: Fields of `FitSettings` that differ from `settings`: fit(.., steps=50, lr=0.05).

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If shapes, values or settings are wrong, all masks are empty, all fill their
            image, a camera is inside the sphere to start from, or `resume` is of another fit.

    Warns:
        UserWarning: If some masks fill their image, as from a camera inside the object.
    """
    settings = _changed(settings or FitSettings(), changes)
    check_finite("target_masks", check_float("target_masks", target_masks))
    sizes = check_shape("target_masks", target_masks, "[B, H, W]")
    if not isinstance(camera, Camera):
        raise TypeError(f"camera must be a gendr.Camera, got {type(camera).__name__}")
    if len(camera) != sizes["B"]:
        raise ValueError(f"{sizes['B']} masks need as many cameras, got {len(camera)}")
    check_like("the camera", camera.rotation, "target_masks", target_masks)
    _check_outlines(target_masks)
    with torch.no_grad():
        job = _Job(target_masks.detach(), camera.detach(), settings, init)
    return job.run(callback, resume)


def _check_outlines(masks: Tensor) -> None:
    """Warn of masks [B, H, W] that fill their image: there is no outline to fit."""
    filled = (masks > 0.5).flatten(1).all(1)
    count = int(filled.sum())
    what = f"{count} of {len(masks)} masks fill their whole image (the first is {{}}), so they show"
    what = what.format(int(filled.int().argmax())) + " no outline"
    if count == len(masks):
        raise ValueError(f"{what}; is the camera inside the object, or are the masks inverted?")
    if count:
        warnings.warn(f"{what}; is the camera inside the object?", stacklevel=3)


def _check_outside(frame: Frame, camera: Camera) -> None:
    """Raise for a camera that stands within the sphere that a fit starts from.

    It would see nothing but the inside of the sphere.
    """
    if camera.orthographic:
        return
    distance = frame.inner(camera.eye).double().norm(dim=-1)
    inside = distance <= SPHERE
    if bool(inside.any()):
        first = int(inside.int().argmax())
        raise ValueError(
            f"camera {first} is inside the object: by all masks its centre is "
            f"{float(distance[first]) * frame.size:.3g} away and its radius is "
            f"{SPHERE * frame.size:.3g}; correct the pose, leave the view out, or give a mesh to "
            "start from (init)"
        )


def _changed(settings: FitSettings, changes: dict[str, Any]) -> FitSettings:
    for name in changes:
        check_choice("setting of a fit", name, [f.name for f in fields(FitSettings)])
    return replace(settings, **changes)


def _check_single(name: str, mesh: Mesh) -> None:
    if not isinstance(mesh, Mesh):
        raise TypeError(f"{name} must be a gendr.Mesh, got {type(mesh).__name__}")
    if len(mesh) != 1:
        raise ValueError(f"{name} must be one mesh, got a batch of {len(mesh)}")
    if mesh.face_counts[0] == 0:
        raise ValueError(f"{name} has no faces, so there is nothing to render")


class _Job:
    """One fit: what stays the same through its steps."""

    def __init__(
        self, masks: Tensor, camera: Camera, settings: FitSettings, init: Mesh | None
    ) -> None:
        self.settings, self.masks = settings, masks
        size = (masks.shape[1], masks.shape[2])
        self.frame = Frame.of_masks(masks, camera)
        self.camera = self.frame.camera(camera)
        if init is None:
            _check_outside(self.frame, camera)
            sphere = icosphere(settings.subdivisions, dtype=masks.dtype, device=masks.device)
            start = sphere.scaled(SPHERE)
        else:
            _check_single("init", init)
            check_like("init", init.vertices, "target_masks", masks)
            # Only the shape is fitted; what is on the surface goes along.
            start = init.detach().with_vertices(self.frame.inner(init.vertices.detach()))
        self.shape = SmoothParametrization(start, settings.smoothness)
        self.creases = FlattenLoss(start.faces, start.vertex_counts[0])
        # Depths at which the object can be; silhouettes need no depth precision.
        depth = self.camera.translation[:, 2]
        near, far = float(depth.clamp(min=1e-3).min()) * 1e-2, float(depth.abs().max()) * 10 + 10
        planes: dict[str, Any] = {"near": near, "far": far, "backend": settings.backend}
        self.soft = Renderer(
            size, settings.law, settings.conorm, cutoff=settings.cutoff, check=False, **planes
        )
        self.hard = Renderer(size, "heaviside", "max", check=False, **planes)
        self.first_scale, self.last_scale = settings.scales(size)
        self.batches = _batches(len(masks), settings)
        frames = min(settings.frames, settings.steps)
        self.kept = {round(i * settings.steps / frames) for i in range(frames)} if frames else set()
        every = max(1, settings.steps // EVALUATIONS)
        self.measured = {*range(every, settings.steps, every), settings.steps}
        digest = hashlib.sha256()
        for tensor in (masks, *camera._tensors(), start.vertices, start.faces):
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        self.signature = {**settings.describe(), "input": digest.hexdigest()}

    def scale(self, state: FitState) -> float:
        """The scale of the step after a state: by the factor that leads to the last scale in time.

        The factor is the same for all steps, unless their number was changed on the way: then
        those that are left share what is left of the schedule.
        """
        if not state.history:
            return self.first_scale
        now = state.history[-1]["scale"]
        return now * (self.last_scale / now) ** (1 / (self.settings.steps - state.step))

    def begin(self) -> FitState:
        u = self.shape.u.detach().clone()
        vertices = self.shape(u).detach()
        trace = ((0, vertices),) if 0 in self.kept else ()
        zero = torch.zeros_like(u)
        score = float(self.measure(vertices).mean())
        return FitState(
            0, u, zero, zero, (), 0, score, vertices, trace, self.frame, 0.0, self.signature
        )

    def restore(self, resume: FitState | str | Path) -> FitState:
        state = resume if isinstance(resume, FitState) else FitState.load(resume, self.masks.device)
        if state.step > self.settings.steps:
            raise ValueError(
                f"the checkpoint has {state.step} steps, more than the {self.settings.steps} asked "
                "for; resume with more steps, or start anew"
            )
        for key, value in self.signature.items():
            then = state.signature.get(key)
            if then != value and key != "steps":
                what = "masks, cameras or start" if key == "input" else f"{key}={then!r}"
                now = "others now" if key == "input" else f"{key}={value!r} now"
                raise ValueError(
                    f"the checkpoint is of a fit with {what}, {now}; resume with the same "
                    "arguments, or start anew"
                )
        return replace(state, signature=self.signature)

    def measure(self, vertices: Tensor) -> Tensor:
        """Hard IoU of every view, [B]."""
        with torch.no_grad():
            mesh = self.shape.start.with_vertices(vertices)
            found = [
                iou(self.hard(mesh, self.camera[rows]).alpha, self.masks[rows])
                for rows in _slices(len(self.masks))
            ]
        return torch.cat(found)

    def step(self, state: FitState, seconds: float) -> FitState:
        """One step of Adam, with the largest of its second averages for all coordinates."""
        i, scale = state.step, self.scale(state)
        rows = self.batches[i]
        u = state.u.clone().requires_grad_()
        vertices = self.shape(u)
        mesh = self.shape.start.with_vertices(vertices)
        alpha = self.soft(mesh, self.camera[rows], scale=scale).alpha
        loss = iou_loss(alpha, self.masks[rows])
        if self.settings.flatness > 0 and self.creases.pairs.shape[1] > 0:
            bends = (1 - self.creases.cosines(vertices)).square()
            loss = loss + self.settings.flatness * bends.mean()
        (grad,) = torch.autograd.grad(loss, u)
        b1, b2 = BETAS
        first = b1 * state.first + (1 - b1) * grad
        second = b2 * state.second + (1 - b2) * grad.square()
        largest = (second.max() / (1 - b2 ** (i + 1))).sqrt()
        u = state.u - self.settings.lr / (1 - b1 ** (i + 1)) * first / (largest + 1e-12)
        entry = {"step": i + 1, "loss": float(loss.detach()), "scale": scale}
        best = state.best_step, state.best_iou, state.best
        trace = state.trace
        if i + 1 in self.measured or i + 1 in self.kept:
            vertices = self.shape(u).detach()
            if i + 1 in self.kept:
                trace = (*trace, (i + 1, vertices))
            if i + 1 in self.measured:
                entry["iou"] = float(self.measure(vertices).mean())
                if entry["iou"] >= best[1]:
                    best = i + 1, entry["iou"], vertices
        return FitState(
            i + 1, u, first, second, (*state.history, entry), *best, trace, state.frame,
            state.seconds + seconds, state.signature,
        )  # fmt: skip

    def run(
        self, callback: Callable[[FitState], None] | None, resume: FitState | str | Path | None
    ) -> FitResult:
        state = self.begin() if resume is None else self.restore(resume)
        clock = time.perf_counter()
        while state.step < self.settings.steps:
            now = time.perf_counter()
            state, clock = self.step(state, now - clock), now
            if callback is not None:
                callback(state)
        return self.result(state)

    def result(self, state: FitState) -> FitResult:
        per_view = self.measure(state.best)
        metrics = {
            "iou": float(per_view.double().mean()),
            "iou_per_view": [float(x) for x in per_view],
            "best_step": state.best_step,
            "final_iou": next((h["iou"] for h in reversed(state.history) if "iou" in h), None),
            "seconds": state.seconds,
        }
        shapes = (*state.trace, (state.best_step, state.best))
        if not self.settings.frames:
            shapes = ()
        meshes = tuple((i, self.world(vertices)) for i, vertices in shapes)
        mesh = self.world(state.best)
        return FitResult(mesh, metrics, state.history, meshes, self.settings, state)

    def world(self, vertices: Tensor) -> Mesh:
        """The mesh of vertices of the frame."""
        return self.shape.start.with_vertices(self.frame.world(vertices))


def _slices(count: int, length: int = 24) -> list[list[int]]:
    """Runs of views that are rendered together, which bounds the memory."""
    return [list(range(i, min(i + length, count))) for i in range(0, count, length)]


def _batches(count: int, settings: FitSettings) -> list[list[int]]:
    """The views of every step: all of them, or runs of a sequence of seeded permutations."""
    size = settings.views_per_step
    if count <= size:
        return [list(range(count))] * settings.steps
    generator = torch.Generator().manual_seed(settings.seed)
    order: list[int] = []
    while len(order) < size * settings.steps:
        order += torch.randperm(count, generator=generator).tolist()
    return [sorted(order[i * size : (i + 1) * size]) for i in range(settings.steps)]
