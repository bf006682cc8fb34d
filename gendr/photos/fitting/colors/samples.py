"""What photos show of some points of a surface, and the light and exposures that explain it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from gendr._common.vectors import summed
from gendr.kernels.threads import mapped
from gendr.mesh import Camera
from gendr.photos.fitting.colors.light import LEAST, HarmonicLight, harmonics
from gendr.photos.fitting.colors.sparse_system import gains_of, trusted

__all__ = ["Samples"]

# Rounds of alternating least squares; a few tell whether light or exposures are worth it.
_ROUNDS, _EXPOSURE_ROUNDS, _TRIED = 30, 100, 10
# How strongly light is held at that which is alike from everywhere, relative to what photos say.
_HOLD = 1e-3
# Every so many-th photo is left out to choose between models. Light, or exposures, must predict
# these better than none, by this part of the squared error and by as much as such an error of all
# colours. Exposures take more: they also explain a little of what gloss differs by.
_EVERY, _GAIN, _LEAST_GAIN = 4, 0.03, 0.01**2
_EXPOSURE_GAIN = 0.1


@dataclass(frozen=True, eq=False)
class Samples:
    """Colours of points in photos, a row for each pair of which the photo shows the point.

    Attributes:
        camera: B cameras.
        points: how many there are.
        view, point: int64 [R].
        color: [R, 3].
        weight: [R], > 0.
        normals: [R, 3], world.
    """

    camera: Camera
    points: int
    view: Tensor
    point: Tensor
    color: Tensor
    weight: Tensor
    normals: Tensor

    def of(self, rows: Tensor) -> Samples:
        """Some of the rows: bool [R]."""
        parts = {name: getattr(self, name)[rows] for name in
                 ("view", "point", "color", "weight", "normals")}  # fmt: skip
        return replace(self, **parts)

    def exposed(self, gains: Tensor) -> Samples:
        """The same without the exposures [B, 3] of the photos."""
        return replace(self, color=self.color / gains[self.view].to(self.color))

    def albedo(self, shade: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The albedo [K, 3] of the points by factors [R, 3], and which have one [K]."""
        weight = weight[:, None]
        own = summed(weight * shade * shade, self.point, self.points)
        both = summed(weight * shade * self.color, self.point, self.points)
        return both / own.clamp(min=1e-12), own[:, 0] > 0

    def trust(self, albedo: Tensor, shade: Tensor) -> Tensor:
        """The weights of the rows, less where they are off."""
        off = (self.color - albedo[self.point] * shade).square().mean(1)
        return self.weight * trusted(off)

    def exposures(self, shade: Tensor, rounds: int = _EXPOSURE_ROUNDS) -> Tensor:
        """Factors [B, 3] of the photos."""
        count = len(self.camera)
        gains = shade.new_ones(count, 3)
        for _ in range(rounds):
            scale = shade * gains[self.view]
            # By all rows: those that are off as long as gains are wrong would stay out.
            albedo, _ = self.albedo(scale, self.weight)
            weight = self.trust(albedo, scale)
            shown = albedo[self.point] * shade
            gains = gains_of(
                summed(weight[:, None] * self.color * shown, self.view, count),
                summed(weight[:, None] * shown * shown, self.view, count),
            )
        return gains

    def light(self, frame: str, rounds: int = _ROUNDS) -> HarmonicLight:
        """The light that explains the photos best; its mean over the rows is 1."""
        own = self.normals
        if frame == "camera":
            own = torch.einsum("rij,rj->ri", self.camera.rotation[self.view], own)
        basis = harmonics(own)
        even = basis.new_zeros(9, 3)
        even[0] = 1 / basis[0, 0]
        found, weight = even, self.weight
        total = self.weight.sum()

        def channel(c: int, albedo: Tensor, weight: Tensor) -> Tensor:
            shown = albedo[self.point, c : c + 1]
            rows = basis * (weight[:, None] * shown)
            matrix = (rows * shown).T @ basis
            hold = _HOLD * matrix.diagonal().mean()
            matrix = matrix + hold * torch.eye(9).to(matrix)
            right = rows.T @ self.color[:, c] + hold * even[:, c]
            return torch.linalg.solve(matrix, right)

        for _ in range(rounds):
            shade = (basis @ found).clamp(min=LEAST)
            albedo, _ = self.albedo(shade, weight)
            weight = self.trust(albedo, shade)
            columns = mapped(partial(channel, albedo=albedo, weight=weight), range(3))
            found = torch.stack(columns, 1)
            mean = (self.weight[:, None] * (basis @ found)).sum(0) / total
            found = found / mean
        return HarmonicLight(found, frame)

    def shade(self, light: HarmonicLight | None) -> Tensor:
        """The factors [R, 3] of a light."""
        if light is None:
            return torch.ones_like(self.color)
        out = torch.empty_like(self.color)
        for i in range(len(self.camera)):
            rows = self.view == i
            out[rows] = light.factors(self.normals[rows], self.camera[i])
        return out

    def predicted(self, shade: Tensor, kept: Tensor) -> Tensor:
        """The mean squared errors [N] of photos by their rows that are not kept.

        Args:
            shade: [R, 3], the factors of all rows.
            kept: bool [R]; albedo is found from these.
        """
        before, after = self.of(kept), self.of(~kept)
        albedo, _ = before.albedo(shade[kept], before.weight)
        albedo, known = before.albedo(shade[kept], before.trust(albedo, shade[kept]))
        off = (after.color - albedo[after.point] * shade[~kept]).square().mean(1)
        weight = after.weight * known[after.point]
        sums = summed(torch.stack([weight * off, weight], 1), after.view, len(self.camera))
        each, total = sums[sums[:, 1] > 0].unbind(1)
        return each / total

    def chosen_light(self) -> HarmonicLight | None:
        """Light that moves with the camera if it predicts photos that were left out better."""
        if len(self.camera) < 2 * _EVERY:
            return None
        kept = self.view % _EVERY != _EVERY - 1
        light = self.of(kept).light("camera", _TRIED)
        none = torch.ones_like(self.color)
        return self.light("camera") if self._better(self.shade(light), none, kept, _GAIN) else None

    def chosen_exposures(self, shade: Tensor) -> Tensor | None:
        """Exposures [B, 3] beside factors [R, 3] if they predict photos that were left out better.

        That of a photo that is left out is found from every other point, and judged by the rest.
        """
        if len(self.camera) < 2 * _EVERY:
            return None
        kept = (self.view % _EVERY != _EVERY - 1) | (self.point % 2 == 0)
        gains = self.of(kept).exposures(shade[kept], _TRIED)
        better = self._better(shade * gains[self.view], shade, kept, _EXPOSURE_GAIN)
        return gains if better else None

    def _better(self, shade: Tensor, than: Tensor, kept: Tensor, part: float) -> bool:
        """Whether factors predict rows that are not kept better than others, by a part of these.

        The photo in the middle says so, lest one of something else decides.
        """
        plain = self.predicted(than, kept)
        if not len(plain):
            return False
        gain = plain - self.predicted(shade, kept)
        return float(gain.median()) > max(part * float(plain.median()), _LEAST_GAIN)
