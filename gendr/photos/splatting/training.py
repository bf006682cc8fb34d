"""Training splats on photos: gradient descent, and triangles that are split, moved and dropped.

A step draws one photo. Progress, from 0 to 1, is the part of the steps or of the time that is
done; the size of the photos, the learning rates and the number of triangles are functions of it.

Two ways to choose the triangles that are split: "adaptive" takes those that the loss pulls at most
(Kerbl et al., 3D Gaussian Splatting, 2023, section 5.2), "mcmc" draws them by their opacity, which
the two halves share (Kheradmand et al., 3D Gaussian Splatting as Markov Chain Monte Carlo, 2024,
(9)). Both drop those that are hardly seen, and split along the longest edge.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr._common.checkpoint import digest, load_checkpoint, save_checkpoint
from gendr._common.checks import check_number
from gendr._common.devices import usable_device, where_given
from gendr._common.readback import Readback
from gendr.losses import psnr
from gendr.mesh import Mesh
from gendr.photos.splatting.gaussians.cloud import Cloud
from gendr.photos.splatting.photos import Photos
from gendr.photos.splatting.pictures import as_seen
from gendr.photos.splatting.settings import SplatSettings
from gendr.photos.splatting.splats import Splats
from gendr.photos.splatting.start import (
    Look,
    from_cameras,
    from_cloud,
    from_hull,
    from_mesh,
    from_points,
)

__all__ = [
    "KIND", "SplatSettings", "SplatTraining", "fit_splats", "opaque_splats", "start_from",
    "with_background",
]  # fmt: skip

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
# Where triangles become opaque or vanish: by what the logits of opacities, and the scales, are
# multiplied in the end, and the learning rates.
_SHARP, _CRISP, _SLOWER = 40.0, 0.2, 0.3


class SplatTraining:
    """Splats in training, between two steps.

    Attributes:
        photos: to train on.
        settings: as given.
        step: the number of steps done.
        seconds: the time since the first of them, looks at pictures held out, callbacks and earlier
            sessions included.
        earlier: those of earlier sessions.
        history: rows of step, seconds, loss, triangles, and psnr where photos held out were drawn.

    Args:
        photos: to train on.
        settings: of the training.
        init: the splats to start from, which are moved to the device of the settings.
        held_out: photos that are drawn, not trained on.
        least: an opacity: as the training goes on, triangles above it become opaque, and those
            below vanish.
    """

    def __init__(
        self,
        photos: Photos,
        settings: SplatSettings,
        init: Splats,
        held_out: Photos | None = None,
        *,
        least: float | None = None,
    ) -> None:
        photos, settings = with_background(photos, settings)
        if photos.camera.origin is not None:
            init = init.relative_to(photos.camera.origin)
        place = settings.device
        self._device = photos.images.device if place is None else usable_device(place)
        init, pictures = init.to(self._device), photos.images
        if self._device != pictures.device:  # half of the memory; 11 bits hold those of a photo
            pictures = pictures.half().to(self._device)
        moved = photos.camera.to(self._device)
        self._cameras = [moved[i] for i in range(len(photos))]  # each keeps its projection
        self._least = least
        self._middle = None if least is None else math.log(least / (1 - least))
        self.photos, self.settings, self.held_out = photos, settings, held_out
        self._like = init.detach().with_tensors(cutoff=settings.cutoff)
        self._first = len(init)
        height, width = photos.image_size
        self._most = max(self._first, settings.count_for(height * width))
        self._generator = torch.Generator().manual_seed(settings.seed)
        self._levels: dict[int, Tensor] = {1: pictures}
        self.step, self.seconds, self.history = 0, 0.0, []
        self.earlier = 0.0
        self._clock: float | None = None
        self._evaluated = 0.0
        self._forget_loss()
        corners = init.vertices.detach() - init.vertices.detach().mean(1, keepdim=True)
        self._size = float(corners.square().sum(-1).sqrt().median())
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
            values["exposure"] = init.vertices.new_zeros(len(photos), 3)
        self._values = {k: v.detach().clone().requires_grad_() for k, v in values.items()}
        self._adam = self._optimizer()
        self._pull = init.vertices.new_zeros(self._first)

    def _optimizer(self) -> torch.optim.Adam:
        groups = [{"params": [x], "name": name} for name, x in self._values.items()]
        return torch.optim.Adam(groups, betas=(0.9, 0.99), eps=1e-15, fused=True)

    # -- what it is like

    @property
    def progress(self) -> float:
        """What is done, from 0 to 1."""
        budget = self.settings.budget
        done = self.step / self.settings.steps if budget is None else self.seconds / budget
        return min(1.0, done)

    def __len__(self) -> int:
        """The number of triangles."""
        return len(self._values["vertices"])

    @property
    def loss(self) -> float:
        """The mean loss since the last row of the history, or of that row.

        On a GPU without its latest steps: nobody waits for them.
        """
        if (found := self._arriving.read()) is not None:
            self._known = found[0] / max(1.0, found[1])
        self._arriving.send(self._sums)
        return self._known

    def _forget_loss(self) -> None:
        """Begin with another mean."""
        self._sums = torch.zeros(2, device=self._device)  # of losses, and how many they are
        self._arriving = Readback(self._device, 2, torch.float32)
        self._known = self.history[-1]["loss"] if self.history else 0.0

    @property
    def is_over(self) -> bool:
        """Whether all steps are done."""
        return self.progress >= 1

    def splats(self) -> Splats:
        """The splats as they are, where the photos are, and such that files hold them."""
        return self._settled().to(self.photos.images.device)

    def _settled(self) -> Splats:
        """The splats without gradient history."""
        splats = self._splats().detach()
        limits = torch.finfo(splats.vertices.dtype)
        return splats.with_tensors(  # which may have left their ranges by rounding
            opacity=splats.opacity.clamp(limits.tiny, 1),
            scale=splats.scale.clamp(limits.tiny, limits.max),
            shape=None if splats.shape is None else splats.shape.clamp(limits.tiny, limits.max),
            background=splats.background.clamp(0, 1),  # of a checkpoint of an older version
        )

    def _splats(self) -> Splats:
        """The splats, as functions of the parameters."""
        v = self._values
        logit, scale, rest = v["opacity"], v["scale"].exp(), v["harmonics"]
        if self._middle is not None:
            logit = self._middle + _SHARP**self.progress * (logit - self._middle)
            scale, rest = scale * _CRISP**self.progress, rest * (1 - self.progress)
        return self._like.with_tensors(
            vertices=v["vertices"],
            harmonics=torch.cat([v["base"], rest], 1),
            opacity=logit.sigmoid(),
            scale=scale,
            shape=v["shape"].exp() if "shape" in v else None,
            background=v.get("background", self._like.background),
        )

    def _level(self) -> int:
        """By what the size of photos is divided now."""
        if self._middle is not None:
            return 1
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
        even = (gains.mean(0) - gains).exp()[..., None, None]
        return replace(self.photos, images=self.photos.images * even)

    # -- steps

    @torch.enable_grad()
    def advance(self) -> None:
        """Do one step.

        Raises:
            ValueError: if the loss is no longer finite.
        """
        if self._clock is None:
            self._clock = time.perf_counter()
        settings, progress = self.settings, self.progress
        for group in self._adam.param_groups:
            rate = _RATES[group["name"]] * settings.rate * settings.decay**progress
            factors = {"vertices": self._size, "scale": float(settings.learn_scale)}
            group["lr"] = rate * factors.get(group["name"], 1.0)
        factor = self._level()
        i = int(torch.randint(len(self.photos), (), generator=self._generator))
        photo = self._photo(factor, i)
        image, _ = self._splats().render(
            self._cameras[i], (photo.shape[1], photo.shape[2]), bound=1e-3
        )
        if "exposure" in self._values:
            gains = self._values["exposure"]
            image = image * (gains[i] - gains.mean(0)).exp()[:, None, None]
        error, shown = image[0] - photo, self.photos.camera[i].photo(photo.shape[1:])
        if shown is not None:
            error = error[:, shown[0]]
        loss = 0.8 * error.abs().mean() + 2 * error.square().mean()
        self._adam.zero_grad()
        loss.backward()
        self._pull += self._values["vertices"].grad.flatten(1).norm(dim=1)  # pyright: ignore[reportOptionalMemberAccess]
        self._adam.step()
        if "background" in self._values:  # colours, which `Splats` holds to [0, 1]
            self._values["background"].data.clamp_(0, 1)
        self._sums += torch.stack([loss.detach(), torch.ones_like(loss)])
        self.step += 1
        if self.step % settings.renew_every == 0 and settings.density != "none" and progress < 0.7:
            self._renew(progress)
        before, self._clock = self._clock, time.perf_counter()
        self.seconds += self._clock - before
        if self.progress >= self._evaluated + settings.evaluate_every or self.is_over:
            self._evaluated = self.progress
            self._write_row()

    def _write_row(self) -> None:
        total, count = self._sums.tolist()
        mean = total / max(1.0, count)
        if not math.isfinite(mean):
            raise ValueError(f"the loss is {mean} after {self.step} steps; try a smaller rate")
        row = {
            "step": self.step, "seconds": self.seconds, "loss": mean,
            "triangles": len(self),
        }  # fmt: skip
        if self.held_out is not None:
            row["psnr"] = float(self.psnr(self.held_out).mean())
        self.history.append(row)
        self._forget_loss()

    def psnr(self, photos: Photos) -> Tensor:
        """PSNR [B] of what the splats look like from the cameras of photos, in decibels."""
        splats, camera, found = self._settled(), photos.camera.to(self._device), []
        for i in range(len(photos)):
            image = splats.render(camera[i], photos.image_size)[0][0].to(photos.images)
            found.append(psnr(*(photos.cropped(x, i) for x in (image, photos.images[i]))))
        return torch.stack(found)

    # -- density

    @torch.no_grad()
    def _renew(self, progress: float) -> None:
        """Drop faint triangles, and split others until there are as many as there shall be."""
        opacity = self._values["opacity"].sigmoid()
        live = (opacity >= _FAINT).nonzero()[:, 0]
        wanted = self._first + (self._most - self._first) * min(1.0, progress / 0.4)
        likely = opacity[live] if self.settings.density == "mcmc" else self._pull[live]
        new = min(int(wanted) - len(live), int((likely > 0).sum()))
        chosen = live[:0]
        if new > 0:
            # As `torch.multinomial` draws on the CPU, so that the same are drawn on every device.
            race = torch.empty(len(live), dtype=likely.dtype)
            race.exponential_(generator=self._generator)
            chosen = (likely / race.to(likely)).topk(new).indices
        self._keep(torch.cat([live, live[chosen]]))
        self._pull = likely.new_zeros(len(self._values["vertices"]))
        if new > 0:
            self._split(chosen, torch.arange(len(live), len(live) + new, device=live.device))

    def _keep(self, rows: Tensor) -> None:
        """Let the triangles be those of these rows, with what Adam knows of them."""
        for group in self._adam.param_groups:
            name, old = group["name"], group["params"][0]
            if name not in _ROWS:
                continue
            state = self._adam.state.pop(old, {})
            new = old.detach()[rows].requires_grad_()
            self._values[name], group["params"] = new, [new]
            if state:
                self._adam.state[new] = {k: v[rows] if v.ndim else v for k, v in state.items()}

    def _split(self, first: Tensor, second: Tensor) -> None:
        """Make halves of triangles that stand twice, in the rows `first` and `second`."""
        vertices = self._values["vertices"].data
        corners = vertices[first]
        longest = (corners - corners.roll(-1, 1)).square().sum(-1).argmax(1)
        turn = (longest[:, None] + torch.arange(3, device=longest.device)) % 3
        a, b, c = corners.gather(1, turn[..., None].expand(-1, -1, 3)).unbind(1)
        middle = (a + b) / 2
        vertices[first] = torch.stack([a, middle, c], 1)
        vertices[second] = torch.stack([middle, b, c], 1)
        if self.settings.density == "mcmc":
            opacity = self._values["opacity"].data
            half = (1 - (1 - opacity[first].sigmoid()).sqrt()).clamp(0.05, 0.95).logit()
            opacity[first] = opacity[second] = half

    # -- checkpoints

    def save(self, path: str | Path) -> None:
        """Write a checkpoint; an existing file is replaced only when the new one is complete."""
        save_checkpoint(path, KIND, self._state(), {})

    def _state(self) -> dict[str, Any]:
        settings, free = self.settings.describe(), ("steps", "budget", "device")
        return {
            "settings": {k: v for k, v in settings.items() if k not in free}
            | {"least": self._least},
            "photos": digest(self.photos.images, *self.photos.camera.tensors()),
            "step": self.step,
            "seconds": self.seconds,
            "history": self.history,
            "first": self._first,
            "size": self._size,
            "values": self._values,
            "adam": self._adam.state_dict(),
            "pull": self._pull,
            "loss": (*self._sums.tolist(), self._evaluated),
            "generator": self._generator.get_state(),
        }

    def restore(self, path: str | Path) -> None:
        """Continue from a checkpoint; with steps, bit for bit as without the interruption.

        Raises:
            ValueError: if there is no file, or it is no checkpoint, or that of another training.
        """
        own = self._state()
        saved = load_checkpoint(path, KIND, tuple(own))
        for name, value in own["settings"].items():
            then = saved["settings"].get(name)
            if then != value:
                raise ValueError(
                    f"{path} is of a training with {name} = {then}, now it is {value}; resume with "
                    "the same settings, or start anew elsewhere"
                )
        if saved["photos"] != own["photos"]:
            raise ValueError(f"{path} is of a training on other photos; start anew elsewhere")
        self.step, self.seconds, self.history = saved["step"], saved["seconds"], saved["history"]
        self.earlier = self.seconds
        self._first, self._size = saved["first"], saved["size"]
        height, width = self.photos.image_size
        self._most = max(self._first, self.settings.count_for(height * width))
        self._values = {k: v.to(self._device).requires_grad_() for k, v in saved["values"].items()}
        self._adam = self._optimizer()
        self._adam.load_state_dict(saved["adam"])
        self._pull = saved["pull"].to(self._device)
        *sums, self._evaluated = saved["loss"]
        self._forget_loss()
        self._sums += torch.tensor(sums, device=self._device)
        self._generator.set_state(saved["generator"])


@where_given
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
    training = SplatTraining(photos, settings, init, held_out)
    if resume is not None:
        training.restore(resume)
    if training.settings.budget is not None:  # which shall not pay for the kernels' compilation
        SplatTraining(photos, settings, init).advance()
    while not training.is_over:
        training.advance()
        if callback is not None:
            callback(training)
    return training


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


@where_given
def opaque_splats(
    training: SplatTraining,
    least: float = 0.3,
    part: float = 0.2,
    callback: Callable[[SplatTraining], None] | None = None,
) -> Splats:
    """Train on, until each triangle is opaque or gone: for programs that draw hard triangles only.

    Meanwhile the logits of opacities grow apart, edges become crisp and colours the same from all
    sides (as opacities and edges in Held et al., Triangle Splatting+, 2025), so that corners and
    colours can make up for it. In the end each has the mean colour of the pixels that show it, and
    those that no photo shows are dropped.

    Args:
        training: that is over; it stays as it is.
        least: in (0, 1): triangles of less opacity vanish, unless they earn more meanwhile.
        part: of the steps, or the time, of that training.
        callback: called with the new training after every step.

    Returns:
        Triangles of opacity 1, fewer than before.

    Raises:
        ValueError: if none is left or seen, or the loss is no longer finite.
    """
    check_number("least", least, above=0, below=1)
    check_number("part", part, above=0)
    old = training.settings
    settings = replace(
        old, density="none", rate=_SLOWER * old.rate, steps=max(1, round(part * old.steps)),
        budget=None if old.budget is None else part * old.budget,
    )  # fmt: skip
    hard = SplatTraining(training.photos, settings, training.splats(), least=least)
    if "exposure" in hard._values:
        hard._values["exposure"].data.copy_(training._values["exposure"].data)
    while not hard.is_over:
        hard.advance()
        if callback is not None:
            callback(hard)
    splats = hard.splats()
    chosen = splats[splats.opacity >= 0.5]
    if not len(chosen):
        raise ValueError(f"none of the {len(splats)} triangles became opaque; try a smaller least")
    return as_seen(chosen, hard.even_photos())


@where_given
def start_from(
    photos: Photos,
    settings: SplatSettings,
    source: str | Mesh | Cloud | tuple[Tensor, Tensor] | None = None,
) -> Splats:
    """Triangles to start from, as many as there will be in the end.

    Args:
        photos: to train on, which colour them.
        settings: of the training.
        source: "hull", the visual hull of the masks; "cameras", what these see; a mesh; points
            or Gaussians of a file; or points [P, 3], which count from the origin of the cameras,
            and their colours [P, 3]. By default the hull if there are masks, else, or if those of
            a backdrop that stands still have none, cameras.

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
