"""A walk past the cameras of photos, for videos of a scene."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr._common.checks import check_count
from gendr.mesh import Camera, look_from
from gendr.photos.lines_of_sight import meeting_point

__all__ = ["camera_path"]

# A walk is a Fourier series of so many waves, which leaves out the zigzag between single cameras.
_WAVES = 3
# Points of the walk at which its length is measured.
_FINE = 1000


def camera_path(camera: Camera, count: int, centre: Tensor | None = None) -> Camera:
    """Cameras on a smooth closed walk past others, at even distances.

    The others are taken in the order of their angle about the axis that is up for them. Direction
    and distance from the centre, the point looked at and what is up are smoothed along that order,
    each for itself, so that a walk past cameras on one side only goes to and fro.

    Args:
        camera: B cameras, in any order.
        count: of the cameras on the walk, N.
        centre: [3] of the scene, world; by default the point that the cameras look at.

    Returns:
        N cameras with the mean lens of the others.

    Raises:
        ValueError: as `meeting_point`, if there is no centre.
    """
    check_count("count", count, least=1)
    exact = camera.detach().to("cpu", torch.float64)
    middle = meeting_point(exact) if centre is None else centre.detach().to(exact.eye)
    arms = exact.eye - middle
    order = _order(arms, exact.up)
    arms, up = arms[order], exact.up[order]
    reach = torch.linalg.vector_norm(arms, dim=-1, keepdim=True).clamp(min=1e-12)
    # The point of each line of sight that is as far away as the centre.
    target = arms + reach * exact.ahead[order]
    series = torch.fft.rfft(torch.cat([arms / reach, reach.log(), target, up], 1), dim=0)
    series = series[: 1 + min(_WAVES, (len(order) - 1) // 2)] / len(order)
    series[1:] *= 2

    def at(times: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The eye, what it looks at and what is up, at times in [0, 1]."""
        waves = torch.arange(len(series), dtype=torch.float64)
        turns = torch.exp(2j * math.pi * times[:, None] * waves)
        way, size, aim, above = (turns @ series).real.split([3, 1, 3, 3], 1)
        return middle + F.normalize(way, dim=-1) * size.exp(), middle + aim, above

    times = torch.linspace(0, 1, _FINE + 1, dtype=torch.float64)
    steps = torch.linalg.vector_norm(at(times)[0].diff(dim=0), dim=-1)
    walked = torch.cat([steps.new_zeros(1), steps.cumsum(0)])
    if float(walked[-1]) > 0:
        wanted = walked[-1] * torch.arange(count, dtype=torch.float64) / count
        i = torch.searchsorted(walked, wanted, right=True).clamp(1, _FINE) - 1
        part = (wanted - walked[i]) / steps[i].clamp(min=1e-300)
        times = (i + part) / _FINE
    else:
        times = times[:1].expand(count)
    eye, aim, above = at(times)
    found = look_from(eye, aim, above, orthographic=camera.orthographic).with_origin(camera.origin)
    lens = {name: getattr(exact, name).mean(0).expand(count, 2) for name in ("focal", "principal")}
    return found.with_tensors(**lens).to(camera.device, camera.dtype)


def _order(arms: Tensor, ups: Tensor) -> Tensor:
    """The order [B] in which cameras [B, 3] about the origin are passed."""
    axis = F.normalize(ups.mean(0), dim=0)
    side = torch.linalg.cross(axis, F.one_hot(axis.abs().argmin(), 3).to(axis))
    return torch.atan2(arms @ torch.linalg.cross(axis, side), arms @ side).argsort()
