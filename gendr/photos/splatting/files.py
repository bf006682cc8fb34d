"""Files of splats: our own .npz, PLY of Gaussian splats, and GLB of opaque triangles."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from gendr._common.arrays import read_arrays
from gendr._common.checks import check_number
from gendr._common.files import write_whole
from gendr._common.vectors import length
from gendr.distributions import Distribution, get
from gendr.mesh import Mesh
from gendr.mesh.files.reports import warn_caller
from gendr.photos.splatting.harmonics import COUNTS, flat_color
from gendr.tnorms import tconorm

__all__ = ["FORMAT", "load", "moments", "save", "save_glb", "save_ply", "to_mesh"]

S = TypeVar("S")
Splats: TypeAlias = Any  # whose methods these are: to name the class would be a circle
FORMAT = "gendr splats 1"
_ARRAYS = (
    "vertices",
    "harmonics",
    "opacity",
    "scale",
    "background",
)  # shape and origin may be missing
# Points of the law at which the moments of a window are summed; its tails count up to windows of so
# many times the size of the triangle, as those of heavy laws have no moments.
_NODES, _WIDEST = 64, 3.0
# The largest opacity that a file of Gaussians holds, as its logit is finite; and the thickness of
# the flat ones, in parts of their length.
_OPAQUE, _THICKNESS = 0.995, 1e-3


def save(splats: Splats, path: str | Path) -> None:
    """Write our own file, an .npz that `Splats.load` reads.

    Raises:
        ValueError: for another extension, a law of the user's own, which has no name, or values
            that `Splats` refuses, as `with_tensors` lets in.
    """
    own = splats.detach()
    type(splats)(**vars(own))
    about = {
        "format": FORMAT, "dist": str(splats.dist), "tconorm": str(splats.tconorm),
        "unit": splats.unit, "cutoff": splats.cutoff,
    }  # fmt: skip
    for read, name in ((get, about["dist"]), (tconorm, about["tconorm"])):
        read(str(name))  # raises for what could not be read again
    arrays: dict[str, NDArray[Any]] = {name: _array(getattr(own, name)) for name in _ARRAYS}
    if bool(splats.origin.any()):
        arrays["origin"] = _array(splats.origin)
    if splats.shape is not None:
        arrays["shape"] = _array(splats.shape)
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    write_whole(_named(path, ".npz"), file.getvalue())


def load(path: Path, make: Callable[..., S]) -> S:
    """Read splats; `Splats.load` says more.

    Args:
        path: Of the file.
        make: `Splats`, which checks what it is given.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there are no splats at {path}")
    arrays = read_arrays(path, (*_ARRAYS, "shape", "origin", "about"))
    try:
        about = json.loads(arrays.pop("about").tobytes())
        if (form := about.pop("format")) != FORMAT:
            raise ValueError(f"it has the format {form!r:.40}, this version reads {FORMAT!r}")
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        tensors["background"] = _as_color(tensors["background"], path)
        return make(**tensors, **about)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{path} holds no splats, or damaged ones: {error}") from None


def _as_color(background: Tensor, path: Path) -> Tensor:
    """A background that training once let leave [0, 1], brought back with a warning.

    One that is no such is left as it is, for `Splats` to refuse.
    """
    if background.is_floating_point() and background.numel() and bool(background.isfinite().all()):
        low, high = (float(x) for x in background.aminmax())
        if low < 0 or high > 1:
            warn_caller(f"{path}: the background {low:g} .. {high:g} was brought into [0, 1]")
            return background.clamp(0, 1)
    return background


def _array(values: Tensor) -> NDArray[Any]:
    return values.detach().cpu().contiguous().numpy()


def _named(path: str | Path, kind: str) -> Path:
    path = Path(path)
    if path.suffix.lower() != kind:
        raise ValueError(f"{path} must end in {kind}; got the extension {path.suffix!r}")
    return path


def save_ply(splats: Splats, path: str | Path) -> None:
    """Write a PLY file of flat Gaussians, which viewers of 3D Gaussian Splatting read.

    An approximation: each triangle becomes the Gaussian in its plane with the mean, the covariance
    and, where an opacity below 1 allows it, the integral of its window F(d / scale). Its level sets
    are taken for triangles that shrink or grow about the incentre, as they do inside; outside, they
    are rounded. A scale on the screen is no window in space: there the triangle itself counts.
    Viewers join by `probabilistic` whatever the T-conorm, and know no background. Harmonics that
    the splats do not have are written as 0, up to degree 3.

    Raises:
        ValueError: for another extension.
    """
    with torch.no_grad():
        mean, spread, mass = moments(splats)
        values, axes = torch.linalg.eigh(spread)
        mean = mean + splats.origin
        sizes = values.clamp(min=0).sqrt()
        sizes = torch.maximum(sizes, _THICKNESS * sizes[:, 2:].clamp(min=1e-20))
        peak = mass / (2 * math.pi * sizes[:, 1] * sizes[:, 2])
        peak = (splats.opacity.double().cpu() * peak).clamp(1e-6, _OPAQUE)
        # By channel, then harmonic; of degree 3 always, as older viewers read nothing else.
        rest = splats.harmonics[:, 1:].transpose(1, 2)
        rest = F.pad(rest, (0, COUNTS[-1] - 1 - rest.shape[2])).flatten(1)
        columns = {
            "x y z": mean,
            "nx ny nz": torch.zeros_like(mean),
            "f_dc_0 f_dc_1 f_dc_2": splats.harmonics[:, 0],
            " ".join(f"f_rest_{i}" for i in range(rest.shape[1])): rest,
            "opacity": peak.logit()[:, None],
            "scale_0 scale_1 scale_2": sizes.log(),
            "rot_0 rot_1 rot_2 rot_3": _quaternions(axes),
        }
    names = [name for several in columns for name in several.split()]
    # Positions far from 0 are doubles, as float32 would round them.
    far = "<f8" if bool(splats.origin.any()) else "<f4"
    kinds = [(name, far if name in ("x", "y", "z") else "<f4") for name in names]
    header = ["ply", "format binary_little_endian 1.0", "comment soft triangles of gendr"]
    header += [f"element vertex {len(splats)}"]
    header += [f"property {'double' if kind == '<f8' else 'float'} {n}" for n, kind in kinds]
    table = np.empty(len(splats), kinds)
    for name, column in zip(names, np.concatenate(
        [_array(part.double()) for part in columns.values()], 1).T, strict=True):  # fmt: skip
        table[name] = column
    head = "\n".join([*header, "end_header"]) + "\n"
    write_whole(_named(path, ".ply"), head.encode() + table.tobytes())


def moments(splats: Splats) -> tuple[Tensor, Tensor, Tensor]:
    """Mean [N, 3], covariance [N, 3, 3] and integral [N] of each window in space, float64."""
    v = splats.vertices.double().cpu()
    sides = length(v.roll(-1, 1) - v.roll(1, 1))  # opposite to each corner
    around = sides.sum(1, keepdim=True)
    weights = torch.where(around > 0, sides / around.clamp(min=1e-300), 1 / 3)
    incentre = (weights[..., None] * v).sum(1)
    area = length(torch.linalg.cross(v[:, 1] - v[:, 0], v[:, 2] - v[:, 0])) / 2
    centre = v.mean(1)
    off, about = centre - incentre, v - centre[:, None]
    second = (about.mT @ about) / 12 + off[:, :, None] * off[:, None, :]
    two, three, four = _powers(splats)
    middle = (three / two)[:, None] * off
    spread = (four / two)[:, None, None] * second - middle[:, :, None] * middle[:, None, :]
    return incentre + middle, spread, two * area


def power_of(dist: Distribution) -> float:
    """Of a length in its scale: 1, 2 if it is squared, less with the replacement trick."""
    return 2.0 if dist.is_squared else 1.0 - dist.art_exponent


def _powers(splats: Splats) -> tuple[Tensor, Tensor, Tensor]:
    """Means of k^2, k^3 and k^4 [N], k the size of the triangle at a distance of -scale z."""
    count = len(splats)
    if splats.unit != "inradius":
        one = torch.ones(count, dtype=torch.float64)
        return one, one, one
    q = (torch.arange(_NODES, dtype=torch.float64) + 0.5) / _NODES
    law = splats.dist
    if splats.shape is not None:
        law = law.with_shape(splats.shape.double().cpu()[:, None])
        q = q.expand(count, -1)
    size = splats.scale.double().cpu()[:, None] ** (1 / power_of(law))
    k = (1 - size * law.icdf(q)).clamp(0, _WIDEST)
    two, three, four = (k.pow(power).mean(1) for power in (2, 3, 4))
    return two.clamp(min=1e-12), three, four


def _quaternions(axes: Tensor) -> Tensor:
    """Unit quaternions w, x, y, z [N, 4] of orthonormal columns [N, 3, 3], mirrored if need be."""
    from scipy.spatial.transform import Rotation

    if not len(axes):
        return axes.new_zeros(0, 4)
    turned = axes * torch.linalg.det(axes).sign()[:, None, None]
    return torch.from_numpy(np.roll(Rotation.from_matrix(turned.numpy()).as_quat(), 1, axis=1))


def to_mesh(splats: Splats, least: float = 0.5) -> Mesh:
    """The triangles of at least this opacity as a mesh of hard, opaque ones.

    Its face colours are the means over all directions; it is `unlit`.

    Raises:
        ValueError: if no triangle has this opacity.
    """
    chosen = splats.detach()[splats.opacity.detach() >= check_number("least", least)]
    if not len(chosen):
        raise ValueError(f"none of the {len(splats)} triangles has an opacity of {least:g} or more")
    vertices = chosen.vertices.reshape(-1, 3)
    faces = torch.arange(len(vertices), device=vertices.device).reshape(-1, 3)
    mesh = Mesh(vertices, faces, face_colors=flat_color(chosen.harmonics))
    return mesh.with_unlit().with_origin(splats.origin)


def save_glb(splats: Splats, path: str | Path, least: float = 0.5) -> None:
    """Write `to_mesh` as a GLB, unlit and seen from both sides.

    Raises:
        ValueError: for another extension, or if no triangle has this opacity.
    """
    to_mesh(splats, least).save(_named(path, ".glb"))
