"""Training splats on photos: gradient descent, and triangles that are split, moved and dropped.

A step draws one photo. Progress, from 0 to 1, is the part of the steps or of the time that is
done; the size of the photos, the learning rates and the number of triangles are functions of it.

Triangles that are hardly seen are dropped. Those that are split, at the middle of the longest edge,
are drawn by their opacity, which the two halves share.

Source: Kheradmand et al., 3D Gaussian Splatting as Markov Chain Monte Carlo, 2024, (9), for these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr.jobs.devices import learns, on_given_devices, usable_device
from gendr.mesh import Mesh
from gendr.photos.splatting.gaussians.cloud import Cloud
from gendr.photos.splatting.loop import Training
from gendr.photos.splatting.photos import WHITE, Photos, evened
from gendr.photos.splatting.pictures import rendered
from gendr.photos.splatting.settings import SplatSettings
from gendr.photos.splatting.splats import Splats
from gendr.photos.splatting.start import (
    Look,
    from_cameras,
    from_cloud,
    from_hull,
    from_mesh,
    from_points,
    from_surface,
)

# What checkpoints are of.
KIND = "a training of splats"
# Photos are divided by the first number until the progress is the second, if that leaves
# _SMALLEST pixels.
_LEVELS, _SMALLEST = ((2, 0.5),), 100
# Learning rates at the start: of corners in sizes of triangles, of colours of degree 0 and above,
# of the logits of opacities, of the logarithms of scales and shapes, of background and exposure.
_RATES = {
    "vertices": 0.14, "base": 0.1, "harmonics": 6e-3, "opacity": 0.03, "scale": 0.01,
    "shape": 0.01, "background": 3e-3, "exposure": 3e-3,
}  # fmt: skip
# Parameters of each triangle, in the order of their rows.
_ROWS = ("vertices", "base", "harmonics", "opacity", "scale", "shape")
# Triangles of less opacity are dropped.
_FAINT = 0.02
# The opacity of the triangles of a surface at the start.
_SURFACE = 0.9


class SplatTraining(Training):
    """Splats in training, between two steps.

    Args:
        photos: to train on.
        settings: of the training.
        init: the splats to start from, which are moved to the device of the settings.
        held_out: photos that are drawn, not trained on.
    """

    kind = KIND

    def __init__(
        self, photos: Photos, settings: SplatSettings, init: Splats, held_out: Photos | None = None
    ) -> None:
        photos, settings = with_background(photos, settings)
        if photos.camera.origin is not None:
            init = init.relative_to(photos.camera.origin)
        place, pictures = settings.device, photos.images
        device = pictures.device if place is None else usable_device(place)
        init = init.to(device)
        if device != pictures.device:  # half of the memory; 11 bits hold those of a photo
            pictures = pictures.half().to(device)
        self._like = init.detach().with_tensors(cutoff=settings.cutoff)
        self._levels: dict[int, Tensor] = {1: pictures}
        values = {
            "vertices": init.vertices,
            "base": init.harmonics[:, :1],
            "harmonics": init.harmonics[:, 1:],
            "opacity": init.opacity.clamp(max=0.99).logit(),
            "scale": init.scale.log(),
        }
        if init.shape is not None:
            values["shape"] = init.shape.log()
        if settings.background in ("learnt", "still"):
            still = settings.background == "still"
            values["background"] = photos.background.to(init.vertices) if still else init.background
        if settings.exposure:
            known = photos.exposures
            none = init.vertices.new_zeros(len(photos), 3)
            values["exposure"] = none if known is None else known.log().to(none)
        rates = _RATES | {"scale": _RATES["scale"] * settings.learn_scale}
        super().__init__(photos, settings, held_out, values, rates, _ROWS)

    def splats(self) -> Splats:
        """The splats as they are, where the photos are, and such that files hold them."""
        return self._detached().to(self.photos.images.device)

    def _detached(self) -> Splats:
        """The splats without gradient history."""
        splats = self._splats().detach()
        limits = torch.finfo(splats.vertices.dtype)
        return splats.with_tensors(  # which may have left their ranges by rounding
            opacity=splats.opacity.clamp(limits.tiny, 1),
            scale=splats.scale.clamp(limits.tiny, limits.max),
            shape=None if splats.shape is None else splats.shape.clamp(limits.tiny, limits.max),
        )

    def _splats(self) -> Splats:
        """The splats, as functions of the parameters."""
        v = self._values
        return self._like.with_tensors(
            vertices=v["vertices"],
            harmonics=torch.cat([v["base"], v["harmonics"]], 1),
            opacity=v["opacity"].sigmoid(),
            scale=v["scale"].exp(),
            shape=v["shape"].exp() if "shape" in v else None,
            background=v.get("background", self._like.background),
        )

    def _level(self) -> int:
        """By what the size of photos is divided now."""
        side = min(self.photos.image_size)
        for factor, until in _LEVELS:
            if self.progress < until and side // factor >= _SMALLEST:
                return factor
        return 1

    def _photo(self, factor: int, i: int) -> Tensor:
        if factor not in self._levels:
            self._levels[factor] = F.avg_pool2d(self._levels[1], factor)
        return self._levels[factor][i].to(self._like.vertices.dtype)

    def even_photos(self) -> Photos:
        """The photos as the splats look, without what exposures make of them."""
        if "exposure" not in self._values:
            return self.photos
        gains = self._values["exposure"].detach().to(self.photos.images)
        factors = (gains - gains.mean(0)).exp()[..., None, None]
        even = evened(self.photos.images, factors)
        return replace(self.photos, images=even, exposures=None)

    def images(self, photos: Photos) -> list[Tensor]:
        """What the cameras of photos see, without gradient: RGB [3, H, W] in [0, 1] of each."""
        splats, camera, size = self._detached(), photos.camera.to(self._device), photos.image_size
        return [rendered(splats, camera[i], size)[0] for i in range(len(photos))]

    def _error(self) -> Tensor:
        factor = self._level()
        i = int(torch.randint(len(self.photos), (), generator=self._generator))
        photo = self._photo(factor, i)
        image, _ = self._splats().render(
            self._cameras[i], (photo.shape[1], photo.shape[2]), bound=1e-3
        )
        if "exposure" in self._values:
            gains = self._values["exposure"]
            image = image * (gains[i] - gains.mean(0)).exp()[:, None, None]
        error, shown = image.squeeze(0) - photo, self.photos.camera[i].photo(photo.shape[1:])
        if "exposure" in self._values:  # what is white may be brighter
            error = torch.where((photo >= WHITE) & (error > 0), 0, error)
        if self.photos.passing is not None:
            hidden = self.photos.passing[i].to(error)[None]
            error = error * (F.max_pool2d(hidden, factor) == 0)
        return error if shown is None else error[:, shown[0]]

    def _moved(self) -> None:
        if "background" in self._values:  # colours, which `Splats` holds to [0, 1]
            self._values["background"].data.clamp_(0, 1)
        settings, before = self.settings, self.before
        if self.step % settings.renew_every == 0 and settings.density != "none" and before < 0.7:
            self._renew(before)

    @torch.no_grad()
    def _renew(self, progress: float) -> None:
        """Drop faint triangles, and split others until there are as many as there shall be."""
        opacity = self._values["opacity"].sigmoid()
        live = (opacity >= _FAINT).nonzero()[:, 0]
        wanted = self._first + (self._most - self._first) * min(1.0, progress / 0.4)
        chosen = self._draw(opacity[live], min(int(wanted) - len(live), len(live)))
        halves = self._split(live, chosen, ("vertices",))
        logits = self._values["opacity"].data
        half = (1 - (1 - logits[chosen].sigmoid()).sqrt()).clamp(0.05, 0.95).logit()
        logits[halves] = half


@learns
def fit_splats(
    photos: Photos,
    settings: SplatSettings | None = None,
    *,
    init: Splats | None = None,
    held_out: Photos | None = None,
    resume: str | Path | None = None,
    callback: Callable[[SplatTraining], None] | None = None,
) -> SplatTraining:
    """Train splats on photos until the steps are done, or the time is over.

    Args:
        photos: to train on.
        settings: of the training.
        init: what to start from; by default triangles in the visual hull of the masks, or, of
            whole pictures, in what the cameras see.
        held_out: photos that are drawn now and then, not trained on.
        resume: a checkpoint that `SplatTraining.save` wrote.
        callback: called after every step. What it raises ends the training.

    Returns:
        The training, with its `splats()` and its `history`.

    Raises:
        ValueError: for settings that do not fit, or if the loss is no longer finite.
    """
    photos, settings = with_background(photos, settings or SplatSettings())
    if init is None:
        init = start_from(photos, settings)
    if settings.budget is not None:  # which shall not pay for the kernels' compilation
        SplatTraining(photos, settings, init).advance()
    return SplatTraining(photos, settings, init, held_out).run(resume, callback)


def with_background(photos: Photos, settings: SplatSettings) -> tuple[Photos, SplatSettings]:
    """Photos with their background, and settings that say which kind it is of.

    Raises:
        ValueError: if it is to stand still and does not.
    """
    if settings.background in ("given", "learnt") or photos.background.ndim == 3:
        return photos, settings
    if photos.alpha is None:
        found = photos.before_backdrop()
        if found is not None:
            return found, replace(settings, background="still")
    if settings.background == "still":
        what = "there are masks" if photos.alpha is not None else "the rim of the photos differs"
        raise ValueError(f"the background does not stand still, {what}; let it be learnt")
    return photos, replace(settings, background="learnt" if photos.alpha is None else "given")


@on_given_devices
def start_from(
    photos: Photos,
    settings: SplatSettings,
    source: str | Mesh | Cloud | tuple[Tensor, Tensor] | None = None,
    *,
    whole: bool = False,
    below: Mesh | None = None,
) -> Splats:
    """Triangles to start from, as many as there will be in the end.

    Args:
        photos: to train on, which colour them.
        settings: of the training.
        source: "hull", the visual hull of the masks; "cameras", what these see; a mesh; points
            or Gaussians of a file; or points [P, 3], which count from the origin of the cameras,
            and their colours [P, 3]. By default the hull if there are masks, else, or if those of
            a backdrop that stands still have none, cameras.
        whole: a mesh shows all that photos do but what is far away: its triangles are taken as they
            are, see `from_surface`.
        below: and the ground where no photo looks.

    Raises:
        ValueError: as `from_hull` and the others.
    """
    height, width = photos.image_size
    first, seed = settings.count_for(height * width), settings.seed
    look = Look(
        degree=settings.degree, scale=settings.scale, shape=settings.shape, dist=settings.dist,
        tconorm=settings.tconorm, unit=settings.unit,
    )  # fmt: skip
    if isinstance(source, tuple):
        points, colors = source
        generator = torch.Generator().manual_seed(seed)
        some = torch.randperm(len(points), generator=generator)[:first]
        return from_points(
            points[some], colors[some], look=look, background=photos.background,
            origin=photos.camera.origin, seed=seed,
        )  # fmt: skip
    if isinstance(source, Cloud):
        return from_cloud(
            source, first, look=look, background=photos.background, origin=photos.camera.origin,
            seed=seed,
        )  # fmt: skip
    if isinstance(source, Mesh) and whole:
        return from_surface(source, photos, below=below, look=replace(look, opacity=_SURFACE))
    if isinstance(source, Mesh):
        return from_mesh(source, first, photos, look=look, seed=seed)
    if source is None and photos.alpha is not None:
        try:
            return from_hull(photos, first, look=look, seed=seed)
        except ValueError:
            if photos.background.ndim == 1:  # else the masks are ours, and may be wrong
                raise
    make = from_hull if source == "hull" else from_cameras
    return make(photos, first, look=look, seed=seed)
