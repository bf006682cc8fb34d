"""Training opaque triangles on photos, by the very picture that any 3D program draws of them.

They begin as the soft triangles of a training that is over. A step draws one photo with the
`gendr.primitives`: each triangle is opaque, seen from both sides, and has a colour at each corner;
of a pixel `_FINER` x `_FINER` points are asked, as by multisampling of graphics cards. Colours get
the gradients of a linear problem; corners those of `antialias`, which blends points on both sides
of an edge by the part that each side covers.

After every few steps, triangles that no photo shows are dropped, and those beneath which photos
differ most from what is drawn are split along their longest edge.

Held et al., Triangle Splatting+ (2025), end in opaque triangles too, by a schedule of opacities and
edges of soft ones.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr._common.vectors import summed
from gendr.jobs.devices import learns
from gendr.mesh import Camera, Mesh
from gendr.photos.splatting.harmonics import flat_color
from gendr.photos.splatting.loop import Training
from gendr.photos.splatting.photos import Photos
from gendr.photos.splatting.pictures import hard_views, out_of_frame, with_mean_colors
from gendr.photos.splatting.settings import SplatSettings
from gendr.photos.splatting.splats import NEAR, Splats
from gendr.primitives import antialias, interpolate, rasterize

__all__ = ["KIND", "HardTraining", "fit_triangles"]

# What checkpoints are of.
KIND = "a training of opaque triangles"
# Points along the side of a pixel.
_FINER = 2
# Learning rates at the start, of corners in sizes of triangles, and of colours in [0, 1].
_RATES = {"vertices": 0.03, "colors": 0.02}
# Soft triangles of less than this part of the median opacity are left out: haze before the others.
_LEAST = 0.75
# How often triangles are dropped and split: after this part of the steps that show each photo once;
# by which part their number grows at most; and until which part of the training.
_RENEW, _GROWTH, _UNTIL = 0.5, 0.25, 0.7


class HardTraining(Training):
    """Opaque triangles in training, between two steps.

    Args:
        photos: to train on.
        settings: of the training; of the soft triangles alone are distribution, scales and such.
        init: the soft triangles to start from, without the faintest.
        held_out: photos that are drawn, not trained on.

    Raises:
        ValueError: if no photo shows any of them.
    """

    kind = KIND

    def __init__(
        self, photos: Photos, settings: SplatSettings, init: Splats, held_out: Photos | None = None
    ) -> None:
        if photos.camera.origin is not None:
            init = init.relative_to(photos.camera.origin)
        init = init.detach().to(photos.images)
        self._origin, self._behind = init.origin, init.behind(photos.image_size)
        solid = with_mean_colors(init[init.opacity >= _LEAST * init.opacity.median()], photos)
        colors = flat_color(solid.harmonics).clamp(0, 1)[:, None].repeat(1, 3, 1)
        values = {"vertices": solid.vertices, "colors": colors}
        super().__init__(photos, settings, held_out, values, _RATES, tuple(values))
        self._order: list[int] = []  # of photos that are still to be shown
        # Of each triangle the step that saw it last, and the errors since the last splitting.
        self._seen = torch.zeros(self._first, dtype=torch.int32, device=self._device)
        self._wrong = torch.zeros(self._first, device=self._device)
        self._number()

    def _out_of_frame(self) -> Tensor:
        """The triangles that no photo has in its frame, [N]."""
        return out_of_frame(self._values["vertices"], self.photos)

    def _number(self) -> None:
        """Number the corners of the triangles."""
        self._tri = torch.arange(3 * len(self), device=self._device).int().reshape(-1, 3)

    def mesh(self) -> Mesh:
        """The triangles that photos show, or that are beside all, a colour at each corner; `unlit`.

        Raises:
            ValueError: if there is none.
        """
        seen = torch.zeros(len(self) + 1, dtype=torch.bool, device=self._device)
        for camera in self._cameras:
            faces = self._rasterized(camera)[0][..., 3]
            seen[faces.long()] = True
        if not bool(seen[1:].any()):
            raise ValueError(f"no photo shows any of the {len(self)} triangles")
        return self._mesh(seen[1:] | self._out_of_frame())

    def _mesh(self, rows: Tensor | slice) -> Mesh:
        vertices, colors = (x.detach()[rows].flatten(0, 1) for x in self._values.values())
        faces = torch.arange(len(vertices), device=self._device).reshape(-1, 3)
        mesh = Mesh(vertices, faces, vertex_colors=colors).with_unlit()
        return mesh.with_origin(self._origin)

    def images(self, photos: Photos) -> list[Tensor]:
        """What the cameras of photos see, without gradient: RGB [3, H, W] in [0, 1] of each."""
        return list(hard_views(self._mesh(slice(None)), self._behind, photos.camera))

    def _rasterized(self, camera: Camera) -> tuple[Tensor, Tensor]:
        """What `rasterize` finds at finer points [1, H, W, 4], and the corners [1, V, 4] for it."""
        height, width = self.photos.image_size
        xyw, depth = camera.clip_coordinates(self._values["vertices"].flatten(0, 1))
        sides = xyw.new_tensor([width, height]) / min(width, height)
        # From NEAR to the farthest corner -1 .. 1; the depth test needs no more.
        far = max(2 * NEAR, 1.01 * float(depth.detach().amax()))
        z = (far + NEAR) * xyw[..., 2] - 2 * far * NEAR
        if camera.orthographic:
            z = 2 * depth - far - NEAR
        z = z / (far - NEAR)
        pos = torch.cat([xyw[..., :2] / sides, z[..., None], xyw[..., 2:]], -1)
        size = _FINER * height, _FINER * width
        return rasterize(None, pos, self._tri, size, grad_db=False)[0], pos

    def _error(self) -> Tensor:
        photos, fine = self.photos, _FINER
        if not self._order:
            self._order = torch.randperm(len(photos), generator=self._generator).tolist()
        i = self._order.pop()
        rast, pos = self._rasterized(self._cameras[i])
        colors, _ = interpolate(self._values["colors"].flatten(0, 1), rast, self._tri)
        behind = self._behind.repeat_interleave(fine, 1).repeat_interleave(fine, 2)
        shown = rast[..., 3:].detach() > 0
        colors = torch.where(shown, colors, behind.flip(1).permute(1, 2, 0))  # rows from the bottom
        colors = antialias(colors, rast, pos, self._tri)
        image = F.avg_pool2d(colors.permute(0, 3, 1, 2), fine)[0].flip(1)
        error, own = image - photos.images[i], photos.camera[i].photo(photos.image_size)
        wrong = error.detach().abs().mean(0)
        if own is not None:
            wrong = torch.where(own[0], wrong, 0)
        wrong = wrong.flip(0).repeat_interleave(fine, 0).repeat_interleave(fine, 1)
        at = shown[0, ..., 0]
        faces = rast[0, ..., 3].detach()[at].long() - 1
        self._wrong += summed(wrong[at], faces, len(self))
        self._seen[faces] = self.step
        return error if own is None else error[:, own[0]]

    def _moved(self) -> None:
        self._values["colors"].data.clamp_(0, 1)
        settings = self.settings
        often = max(1, round(_RENEW * len(self.photos)))
        if self.step % often == 0 and settings.density != "none" and self.before < _UNTIL:
            self._renew()

    @torch.no_grad()
    def _renew(self) -> None:
        """Drop triangles that were not shown, and split others of large errors."""
        # Each photo is shown once in so many steps, whatever the order.
        live = self._seen > self.step - 2 * len(self.photos)
        live = (live | self._out_of_frame()).nonzero()[:, 0]
        wrong = self._wrong[live]
        most = min(self._most - len(live), int(_GROWTH * len(live)), int((wrong > 0).sum()))
        chosen = self._draw(wrong, most)
        self._split(live, chosen, tuple(self._values))
        self._seen = self._seen[torch.cat([live, live[chosen]])]
        self._wrong = wrong.new_zeros(len(self))
        self._number()

    def _more(self) -> dict[str, Any]:
        return {"order": self._order, "seen": self._seen, "wrong": self._wrong}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        super().load_state_dict(state)
        self._number()


@learns
def fit_triangles(
    photos: Photos,
    settings: SplatSettings,
    init: Splats,
    *,
    held_out: Photos | None = None,
    resume: str | Path | None = None,
    callback: Callable[[HardTraining], None] | None = None,
) -> HardTraining:
    """Train opaque triangles on photos, for programs that draw hard ones only.

    Each has a colour at each corner, the same from all sides; those that no photo shows are
    dropped, and those of large errors split until there are as many as the settings say.

    Args:
        photos: to train on, of even exposure (`SplatTraining.even_photos`).
        settings: of the training; distribution, scales, degree and background are those of `init`.
        init: soft triangles to start from, as `fit_splats` makes them.
        held_out: photos that are drawn now and then, not trained on.
        resume: a checkpoint that `HardTraining.save` wrote.
        callback: called after every step. What it raises ends the training.

    Returns:
        The training, with its `mesh()` and its `history`.

    Raises:
        ValueError: if no photo shows any of the triangles, or the loss is no longer finite.
    """
    if settings.budget is not None:  # which shall not pay for the kernels' compilation
        HardTraining(photos, settings, init).advance()
    return HardTraining(photos, settings, init, held_out).run(resume, callback)
