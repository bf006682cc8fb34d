"""Files of splats: our own .npz, and Gaussians of others; and meshes of opaque triangles."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gendr._common.arrays import about_of, read_arrays, write_arrays
from gendr._common.checks import check_number
from gendr._common.files import write_whole
from gendr.distributions import get
from gendr.mesh import Mesh
from gendr.mesh.files.origins import origin_of
from gendr.photos.splatting.gaussians.cloud import Cloud
from gendr.photos.splatting.gaussians.conversion import moments, powers, triangles_of
from gendr.photos.splatting.gaussians.files import read_cloud
from gendr.photos.splatting.gaussians.ply import written
from gendr.photos.splatting.harmonics import flat_color
from gendr.tnorms import tconorm

__all__ = ["FORMAT", "load", "save", "save_ply", "to_mesh"]

S = TypeVar("S")
Splats: TypeAlias = Any  # whose methods these are: to name the class would be a circle
FORMAT = "gendr splats 1"
# The thickness of flat Gaussians, in parts of their length.
_THICKNESS = 1e-3
# Of triangles that files of others become: what training starts from.
_DIST, _UNIT, _SCALE = "uniform", "inradius", 0.5
_ARRAYS = (
    "vertices",
    "harmonics",
    "opacity",
    "scale",
    "background",
)  # shape and origin may be missing


def save(splats: Splats, path: str | Path) -> None:
    """Write our own file, an .npz that `Splats.load` reads.

    Raises:
        ValueError: for another extension, a distribution of the user's own, which has no name, or
            values that `Splats` refuses, as `with_tensors` lets in.
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
    write_arrays(_named(path, ".npz"), arrays, about)


def load(path: Path, make: Callable[..., S]) -> S:
    """Read splats; `Splats.load` says more.

    Args:
        path: Of the file.
        make: `Splats`, which checks what it is given.
    """
    if not path.exists():
        raise FileNotFoundError(f"there are no splats at {path}")
    cloud = read_cloud(path)
    if cloud is not None:
        if cloud.harmonics is None:
            raise ValueError(f"{path} holds points without sizes, no splats; use from_points")
        origin, scale = torch.from_numpy(origin_of(cloud.points, torch.float32)), _SCALE
        made = triangles_of(
            cloud, origin, _UNIT, get(_DIST), scale, None, cloud.harmonics.shape[1]
        )  # fmt: skip
        return make(
            *made, torch.full_like(made.opacity, scale), dist=_DIST, unit=_UNIT, origin=origin
        )
    if path.suffix.lower() != ".npz" and not zipfile.is_zipfile(path):
        raise ValueError(
            f"{path} is no file of splats that is read (.npz, PLY, .splat, SPZ, SOG, GLB); "
            "splat-transform converts others"
        )
    arrays = read_arrays(path, (*_ARRAYS, "shape", "origin", "about"))
    try:
        about = about_of(arrays, FORMAT)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return make(**tensors, **about)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{path} holds no splats, or damaged ones: {error}") from None


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
    and, where an opacity below 1 allows it, the integral of its window F(d / scale), which counts
    up to two inradii from the triangle. A scale on the screen is no window in space: there the
    triangle itself counts.
    Viewers join by `probabilistic` whatever the T-conorm, and know no background. Harmonics that
    the splats do not have are written as 0, up to degree 3. Positions are doubles if the splats
    have an origin.

    Raises:
        ValueError: for another extension.
    """
    content = written(_gaussians(splats), "soft triangles of gendr")
    write_whole(_named(path, ".ply"), content)


def _gaussians(splats: Splats) -> Cloud:
    """What `save_ply` writes."""
    with torch.no_grad():
        dist, scale = splats.dist, splats.scale.double().cpu()
        shape = None if splats.shape is None else splats.shape.double().cpu()
        vertices = splats.vertices.double().cpu()
        mean, spread, mass = moments(vertices, powers(splats.unit, dist, scale, shape))
        values, axes = torch.linalg.eigh(spread)
        sizes = values.clamp(min=0).sqrt()
        sizes = torch.maximum(sizes, _THICKNESS * sizes[:, 2:].clamp(min=1e-20))
        peak = splats.opacity.double().cpu() * mass / (2 * math.pi * sizes[:, 1] * sizes[:, 2])
        far = bool(splats.origin.any())  # float32 would round it
        points = (mean + splats.origin).numpy()
        return Cloud(
            points if far else points.astype(np.float32),
            None,
            splats.harmonics.float().cpu().numpy(),
            peak.clamp(0, 1).float().numpy(),
            sizes.float().numpy(),
            _quaternions(axes).float().numpy(),
        )


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
