"""Where splats start from: a surface, a visual hull, points or Gaussians, a mesh, or cameras."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gendr._common.checks import (
    check_count,
    check_finite,
    check_float,
    check_like,
    check_number,
    check_shape,
)
from gendr.distributions import Distribution, as_distribution
from gendr.jobs.devices import on_given_devices
from gendr.mesh import Mesh, icosphere
from gendr.mesh.files.origins import origin_of
from gendr.photos import visual_sphere
from gendr.photos.lines_of_sight import in_view, meeting_point, sample_at
from gendr.photos.splatting.gaussians.cloud import Cloud
from gendr.photos.splatting.gaussians.conversion import triangles_of
from gendr.photos.splatting.harmonics import COUNTS, harmonics_of
from gendr.photos.splatting.photos import Photos, evened
from gendr.photos.splatting.pictures import nearest, shown
from gendr.photos.splatting.splats import Splats
from gendr.tnorms import TConorm

# Points that are tried at once, how many times, and how many times for none at all.
_TRIES, _ROUNDS, _PATIENCE = 50_000, 400, 10
# How far from its middle an object may reach, in radii of the visual sphere.
_REACH = 3.0
# A mask shows a point where it is at least this.
_INSIDE = 0.3
# The part of the cameras that see a point of the volume before them.
_MOST = 0.6
# Views whose colours at a point are compared: the median of these is taken.
_VIEWS = 16
# Neighbours whose mean distance is the size of a triangle.
_NEIGHBOURS = 3
# Of a surface: by how much triangles are enlarged, so that soft edges of neighbours overlap; the
# radius of the sphere about it, in radii of itself and of where the cameras stand, and how finely
# the sphere is divided; its triangles stay up to so many radii beside those that photos show.
_WIDER, _FAR, _DIVIDED, _BESIDE = 1.2, 6.0, 3, 0.35
# Edges longer than this part of the distance to a camera are halved, as soft edges are as wide as
# the triangle is on the screen: they would veil pictures above the ground; so many times at most.
_LONG, _HALVINGS = 0.25, 16
# Triangles that a photo shows by fewer points than this part of most photos' say little there.
_CLEAR = 0.1
# A part of a photo shows something else than the others if of a window of this part of its width
# more than this part is triangles whose colour is so far from the median of so many photos or more;
# and if such windows that touch are more than this part of the photo: small ones are mostly what
# the surface lacks, such as a chimney or the top of a table.
_PATCH, _MOSTLY, _OTHER, _OFTEN, _LARGE = 1 / 40, 0.4, 0.15, 3, 0.02
# Colours nearer to black or white than this say nothing of exposures.
_BLACK = 0.03
# Colours and exposures are found by turns, so many times.
_ROUNDS_OF_GAINS = 30


@final
@dataclass(frozen=True)
class Look:
    """What triangles are like at the start; the attributes of `Splats`, one number for all.

    Attributes:
        size: Distance of the corners from the centre, in mean distances to the three nearest
            neighbours.
        degree: Of the harmonics, 0 to 3; all but the first are 0.
        opacity: In (0, 1].
        scale: > 0, in `unit`.
        shape: > 0, the shape of each triangle's distribution, or None.
        dist: The distribution.
        tconorm: The T-conorm.
        unit: Of the scale.
    """

    size: float = 1.0
    degree: int = 3
    opacity: float = 0.4
    scale: float = 0.5
    shape: float | None = None
    dist: str | Distribution = "uniform"
    tconorm: str | TConorm = "probabilistic"
    unit: str = "inradius"


@on_given_devices
def from_points(
    points: Tensor,
    colors: Tensor | None = None,
    *,
    look: Look | None = None,
    background: Tensor | None = None,
    origin: Tensor | None = None,
    seed: int = 0,
) -> Splats:
    """An equilateral triangle about each point, turned at random.

    Args:
        points: [N, 3], world; those of COLMAP are read by `gendr.photos.load_points`.
        colors: [N, 3], RGB in [0, 1]; grey by default.
        look: What the triangles are like.
        background: [3], RGB; white by default.
        origin: [3], where in the world points count from; 0 by default.
        seed: Of the random rotations.

    Raises:
        TypeError: if something is no tensor of floats.
        ValueError: if shapes or settings are wrong, or there is no point.
    """
    look = Look() if look is None else look
    count = check_shape("points", check_float("points", points), "[N, 3]")["N"]
    check_finite("points", points)
    check_count("number of points", count)
    if look.degree not in range(len(COUNTS)):
        raise ValueError(f"degree must be 0, 1, 2 or 3, got {look.degree!r:.40}")
    check_number("size", look.size, above=0)
    if colors is None:
        colors = torch.full_like(points, 0.5)
    check_shape("colors", check_like("colors", colors, "points", points), "[N, 3]", N=count)
    points, colors = points.detach(), colors.detach()
    source = torch.Generator().manual_seed(seed)
    # Two directions at random, made orthonormal, span the plane of a triangle.
    across = torch.linalg.qr(torch.randn(count, 3, 2, generator=source, dtype=torch.float64))[0]
    angles = torch.arange(3, dtype=torch.float64) * (2 * math.pi / 3)
    corners = torch.stack([angles.cos(), angles.sin()]).T @ across.mT
    radius = look.size * _spacing(points)

    vertices = points[:, None] + radius[:, None, None] * corners.to(points)
    opacity = points.new_full((count,), look.opacity)
    harmonics = harmonics_of(colors, look.degree)
    return _alike(look, vertices, harmonics, opacity, background, origin)


def _alike(
    look: Look,
    vertices: Tensor,
    harmonics: Tensor,
    opacity: Tensor,
    background: Tensor | None,
    origin: Tensor | None,
) -> Splats:
    """Triangles with the rest of a look."""
    return Splats(
        vertices,
        harmonics,
        opacity,
        torch.full_like(opacity, look.scale),
        None if look.shape is None else torch.full_like(opacity, look.shape),
        dist=look.dist, tconorm=look.tconorm, unit=look.unit, background=background,
        origin=origin,
    )  # fmt: skip


@on_given_devices
def from_cloud(
    cloud: Cloud,
    count: int | None = None,
    *,
    look: Look | None = None,
    background: Tensor | None = None,
    origin: Tensor | None = None,
    seed: int = 0,
) -> Splats:
    """Triangles for the points of a file, as `from_points`, or for its Gaussians.

    A Gaussian becomes a triangle in the plane of its two longer axes sx a and sy b, with corners at
    c + f (sx cos(2 pi k / 3) a + sy sin(2 pi k / 3) b): f and c are such that its window has the
    mean of the Gaussian and the variance sx^2 + sy^2, its opacity such that the integral is
    2 pi sx sy opacity, as far as 1 allows that. The distribution, the scale and the degree of the
    harmonics are those of the look.

    Args:
        cloud: What `read_cloud` has read.
        count: How many are taken at random at most; all by default. Gaussians are enlarged then, so
            that some cover the area of all.
        look: What the triangles are like.
        background: [3], RGB; white by default.
        origin: [3], where in the world the triangles count from; by default 0, or near the points
            if these are far from it.
        seed: Of what is random.

    Raises:
        ValueError: if settings are wrong, or the harmonics are of no degree.
    """
    look = Look() if look is None else look
    if count is not None and count < len(cloud):
        order = torch.randperm(len(cloud), generator=torch.Generator().manual_seed(seed))
        cloud = cloud.at(order[:count].numpy(), wider=math.sqrt(len(cloud) / count))
    far = torch.from_numpy(origin_of(cloud.points, torch.float32))
    place = far if origin is None else origin.detach().double().cpu()
    if cloud.parts is None:
        colors = None if cloud.colors is None else torch.from_numpy(cloud.colors).float()
        points = (torch.from_numpy(cloud.points).double() - place).float()
        return from_points(
            points, colors, look=look, background=background, origin=place, seed=seed
        )
    dist = as_distribution(look.dist)
    made = triangles_of(cloud, place, look.unit, dist, look.scale, look.shape, COUNTS[look.degree])
    return _alike(look, *made, background, place)


@on_given_devices
def from_hull(photos: Photos, count: int, *, look: Look | None = None, seed: int = 0) -> Splats:
    """Triangles about `count` random points within the visual hull of masks, coloured by photos.

    Raises:
        ValueError: if there are no masks, or (almost) no point lies within all of them.
    """
    if photos.alpha is None:
        raise ValueError("whole pictures have no hull; start from points, a mesh or the cameras")
    masks, camera = photos.alpha[:, None], photos.camera
    centre, radius = visual_sphere(camera, masks[:, 0])

    def within(points: Tensor) -> Tensor:
        for i in range(len(masks)):
            points = points[sample_at(masks[i : i + 1], camera[i], points)[0][:, 0] >= _INSIDE]
        return points

    few = _accepted(
        centre, _REACH * radius, 1 / 3, within, min(check_count("count", count), 500), seed
    )
    low, high = few.amin(0), few.amax(0)  # where the others are sought
    reach = 0.6 * torch.linalg.vector_norm(high - low) + 0.05 * radius
    points = _accepted((low + high) / 2, reach, 1 / 3, within, count, seed)
    return _painted(points, photos, look, seed)


@on_given_devices
def from_cameras(photos: Photos, count: int, *, look: Look | None = None, seed: int = 0) -> Splats:
    """Triangles about `count` random points that most cameras see, denser near where these look.

    Raises:
        ValueError: if the cameras look in parallel, away from each other, or at nothing in common.
    """
    camera, size = photos.camera, photos.image_size
    centre = meeting_point(camera)
    reach = torch.linalg.vector_norm(camera.eye - centre, dim=-1).median()

    def seen(points: Tensor) -> Tensor:
        return points[in_view(camera, points, size).double().mean(0) >= _MOST]

    points = _accepted(centre, reach, 1.0, seen, check_count("count", count), seed)
    return _painted(points, photos, look, seed)


@on_given_devices
def from_mesh(
    mesh: Mesh, count: int, photos: Photos | None = None, *, look: Look | None = None, seed: int = 0
) -> Splats:
    """Triangles about `count` points spread evenly over one mesh, grey or coloured by photos.

    Raises:
        ValueError: for a batch of meshes, or a mesh without area.
    """
    if len(mesh) != 1:
        raise ValueError(f"splats start from one mesh, got a batch of {len(mesh)}; index it")
    if photos is not None and photos.camera.origin is not None:
        mesh = mesh.relative_to(photos.camera.origin)
    points = mesh.sample_points(count, torch.Generator().manual_seed(seed))[0].detach()
    if photos is None:
        return from_points(points, look=look, origin=mesh.origin[0], seed=seed)
    return _painted(points.to(photos.images), photos, look, seed)


@on_given_devices
def from_surface(
    mesh: Mesh, photos: Photos, *, below: Mesh | None = None, look: Look | None = None
) -> Splats:
    """The triangles of a surface, and of a sphere around all for what is beyond, such as the sky.

    Each has the median of the colours that photos show there, so that what is before it in a few
    of them does not count; triangles of the surface that no photo shows are left out.

    Args:
        mesh: One mesh, such as `gendr.photos.scene.build` makes.
        photos: Whole pictures of it.
        below: The ground as it goes on where no photo looks; it has the colour of what is nearest.
        look: What the triangles are like; of `size`, 1 is that of the mesh.

    Raises:
        ValueError: for a batch of meshes, or if no photo shows the mesh.
    """
    if len(mesh) != 1:
        raise ValueError(f"splats start from one mesh, got a batch of {len(mesh)}; index it")
    look, origin = Look() if look is None else look, photos.camera.origin
    place: Any = {"dtype": photos.images.dtype, "device": photos.images.device}

    def of(part: Mesh) -> Tensor:
        part = part if origin is None else part.relative_to(origin)
        part = part.to(**place)
        return _halved(part.vertices.detach()[part.faces], photos.camera.eye)

    corners = of(mesh)
    sides = corners.roll(1, 1) - corners
    corners = corners[torch.linalg.cross(sides[:, 0], sides[:, 1]).square().sum(-1) > 0]
    solid, centre = len(corners), corners.mean(1).median(0).values
    reach = torch.linalg.vector_norm(
        torch.cat([corners.mean(1), photos.camera.eye]) - centre, dim=1
    )
    radius, sphere = _FAR * reach.quantile(0.99), icosphere(_DIVIDED, **place)
    if below is not None:
        corners = torch.cat([corners, of(below)])
    own = len(corners)
    corners = torch.cat([corners, centre + radius * sphere.vertices[sphere.faces]])
    middle = corners.mean(1, keepdim=True)
    wide = middle + look.size * _WIDER * (corners - middle)
    grey, opacity = torch.full_like(corners[:, 0], 0.5), corners.new_full((len(corners),), 1.0)
    bare = _alike(look, corners, harmonics_of(grey, look.degree), opacity, None, origin)

    each = torch.stack([x.float() for x in shown(bare, photos)])
    count = each[..., 3:]
    clear = (count > 0) & (count >= _CLEAR * count.amax(0))
    colors = torch.where(clear, each[..., :3] / count, torch.nan).nanmedian(0).values
    seen = ~colors[:, 0].isnan()
    if not bool(seen[:solid].any()):
        raise ValueError(
            "no photo shows the mesh; its frame may be another than that of the cameras"
        )
    if own > solid:  # also where no photo looks
        from scipy.spatial import KDTree

        hidden = (~seen[solid:own]).nonzero()[:, 0] + solid
        hidden = hidden[~in_view(photos.camera, middle[hidden, 0], photos.image_size).any(0)]
        near = seen[:own].nonzero()[:, 0]
        at = KDTree(middle[near, 0].cpu()).query(middle[hidden, 0].cpu())[1]
        colors[hidden], seen[hidden] = colors[near[torch.from_numpy(at)]], True
    beyond = seen[own:].nonzero()[:, 0] + own
    if len(beyond):  # also what other cameras may see
        far, nearest = torch.cdist(middle[own:, 0], middle[beyond, 0]).min(1)
        colors[own:] = colors[beyond[nearest]]
        seen[own:] = far <= _BESIDE * radius
    harmonics = harmonics_of(colors[seen].to(corners), look.degree)
    alike = opacity[seen] * look.opacity
    return _alike(look, wide[seen], harmonics, alike, photos.background, origin)


def _halved(corners: Tensor, eyes: Tensor) -> Tensor:
    """Triangles [N, 3, 3], those that are long beside their distance to cameras [B, 3] halved."""
    short: list[Tensor] = []
    for _ in range(_HALVINGS):
        edges = torch.linalg.vector_norm(corners - corners.roll(-1, 1), dim=2)
        places = torch.cat([corners, corners.mean(1, keepdim=True)], 1)
        near = torch.full_like(edges[:, 0], torch.inf)
        for eye in eyes:  # and not all at once, which may be a gigabyte
            near = torch.linalg.vector_norm(places - eye, dim=2).amin(1).minimum(near)
        long = edges.amax(1) > _LONG * near
        short.append(corners[~long])
        if not bool(long.any()):
            break
        turn = (edges[long].argmax(1, keepdim=True) + torch.arange(3, device=eyes.device)) % 3
        a, b, c = corners[long].gather(1, turn[..., None].expand(-1, -1, 3)).unbind(1)
        middle = (a + b) / 2
        corners = torch.cat([torch.stack([a, middle, c], 1), torch.stack([middle, b, c], 1)])
    else:
        short.append(corners)
    return torch.cat(short)


def compared(splats: Splats, photos: Photos) -> Photos:
    """Photos of which is known how bright each is, and that show what most of them do.

    What stands before a surface in few of the photos, such as leaves before the lens or somebody
    who walks by, would be painted on that surface. Where a large part of a photo differs from the
    median of all that show the same triangles, it becomes that median, as bright as the photo, and
    is `passing`.

    Args:
        splats: About where surfaces are, in any colours; taken as opaque.
        photos: Of which triangles are compared that others show too.

    Source: of the idea to leave out patches that most photos contradict, Sabour et al.,
    RobustNeRF, CVPR 2023.
    """
    from scipy.ndimage import label

    each = torch.stack([x.float() for x in shown(splats, photos)])
    count, colors = each[..., 3:], each[..., :3] / each[..., 3:]
    # What is black or white tells nothing of exposures.
    known = (count > 0) & (colors > _BLACK) & (colors < 1 - _BLACK)
    known &= known.sum(0) > 1
    logs = torch.where(known, colors, torch.nan).log()
    gains = logs.new_zeros(len(photos), 3)
    for _ in range(_ROUNDS_OF_GAINS):
        shades = (logs - gains[:, None]).nanmean(0)
        gains = (logs - shades).nanmedian(1).values.nan_to_num(0)
        gains = gains - gains.mean(0)
    gains = gains.exp()

    usual = evened(colors, gains[:, None]).nanmedian(0).values
    often = ((count > 0).sum(0) >= _OFTEN)[:, 0]
    images, window = photos.images.clone(), int(_PATCH * photos.image_size[1]) | 1
    passing = torch.zeros_like(images[:, 0], dtype=torch.bool)
    for i, face in enumerate(nearest(splats, photos)):
        own = (usual * gains[i]).clamp(0, 1)
        off = often & ((own - colors[i]).abs().mean(1) > _OTHER)
        wrong = ((face >= 0) & off[face]).to(images)[None, None]
        part = F.avg_pool2d(wrong, window, 1, window // 2, count_include_pad=False)
        part = F.max_pool2d((part > _MOSTLY).to(images), window, 1, window // 2)[0, 0]
        some = (part > 0) & (face >= 0) & often[face]
        found: Any = label(some.cpu().numpy())
        parts = torch.from_numpy(found[0]).to(face)
        some &= (parts.flatten().bincount() > _LARGE * some.numel())[parts]
        images[i, :, some] = own[face[some]].T.to(images)
        passing[i] = some
    return replace(photos, images=images, exposures=gains, passing=passing)


def _accepted(
    centre: Tensor,
    reach: Tensor,
    power: float,
    accept: Callable[[Tensor], Tensor],
    count: int,
    seed: int,
) -> Tensor:
    """Random points [count, 3] of a ball that are accepted; power 1/3 spreads them evenly."""
    source = torch.Generator().manual_seed(seed)
    found: list[Tensor] = []
    for i in range(_ROUNDS):
        way = F.normalize(torch.randn(_TRIES, 3, generator=source), dim=-1)
        way = way * torch.rand(_TRIES, 1, generator=source) ** power
        found.append(accept(centre + reach * way.to(centre)))
        total = sum(map(len, found))
        if total >= count:
            return torch.cat(found)[:count]
        if total < i - _PATIENCE:
            break
    raise ValueError(
        "the pictures have (almost) no point in common, as by a wrong pose or an inverted mask; "
        "start from points or a mesh"
    )


def _painted(points: Tensor, photos: Photos, look: Look | None, seed: int) -> Splats:
    """`from_points` with the median of what some of the photos show at each point."""
    step = max(1, len(photos) // _VIEWS)
    seen: list[Tensor] = []
    for i in range(0, len(photos), step):
        colors, inside = sample_at(photos.images[i : i + 1], photos.camera[i], points)
        seen.append(torch.where(inside[:, None], colors, torch.nan))
    colors = torch.stack(seen).nanmedian(0).values.nan_to_num(0.5)
    return from_points(
        points, colors, look=look, background=photos.background, origin=photos.camera.origin,
        seed=seed,
    )  # fmt: skip


def _spacing(points: Tensor) -> Tensor:
    """The mean distance [N] of each point to its nearest neighbours."""
    from scipy.spatial import KDTree

    places = points.double().cpu().numpy()
    size = float(np.linalg.norm(np.ptp(places, axis=0))) or 1.0
    if len(places) == 1:
        return points.new_ones(1)
    near = KDTree(places).query(places, k=min(_NEIGHBOURS + 1, len(places)))[0][:, 1:].mean(1)
    # Points of equal position would have triangles without area.
    return torch.from_numpy(near.clip(min=1e-6 * size)).to(points)
