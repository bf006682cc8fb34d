"""Pictures of splats beside photos, and films of a walk through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from gendr._common.vectors import summed
from gendr.mesh import Camera, Mesh
from gendr.photos import visual
from gendr.photos.lines_of_sight import in_view
from gendr.photos.splatting.harmonics import flat_color, harmonics_of
from gendr.photos.splatting.photos import Photos
from gendr.photos.splatting.splats import Splats
from gendr.rendering import Renderer

# The width of a picture on the sheet, and of the two of a pair.
TILE, WIDE = 192, 320
# Frames of a second.
RATE = 16
# Points along the side of a pixel at which photos are asked about opaque triangles.
_FINER = 2
# Names of the rows of the sheet, and their inks.
_ROWS = (("photo", visual.TARGET), ("splats", visual.FIT), ("opaque", visual.INK))


def rendered(splats: Splats, camera: Camera, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """What one camera sees, without gradient: RGB [3, H, W] in [0, 1] and alpha [H, W]."""
    with torch.no_grad():
        image, alpha = splats.render(camera, size)
    return image[0].clamp(0, 1), alpha[0]


def hard_views(mesh: Mesh, behind: Tensor, camera: Camera) -> Tensor:
    """A mesh as a program draws it that asks 2 x 2 points of a pixel: RGB [B, 3, H, W].

    Args:
        mesh: Of opaque, hard triangles.
        behind: [3, H, W], the background.
        camera: B cameras.
    """
    rgb, alpha = visual.render_views(mesh, camera, (behind.shape[1], behind.shape[2]))
    return rgb + (1 - alpha)[:, None] * behind.to(rgb)


def with_mean_colors(splats: Splats, photos: Photos) -> Splats:
    """Opaque, hard triangles in the mean colours of the pixels that show them; others are dropped.

    Soft triangles may be darker or brighter than anything in the photos, where what lies before
    and behind them makes up for it. Alone and opaque they would be shards. These means are the
    colours of least squared error, for triangles where they are. Triangles of `beside` keep theirs.

    Args:
        splats: Of which all are taken as opaque.
        photos: Whose pixels are averaged.

    Raises:
        ValueError: if no photo shows a triangle.
    """
    total = torch.zeros(len(splats), 4, dtype=torch.float64, device=splats.vertices.device)
    for each in shown(splats, photos):
        total += each
    seen = total[:, 3:] > 0
    if not bool(seen.any()):
        raise ValueError(f"no photo shows any of the {len(splats)} triangles")
    means = (total[:, :3] / total[:, 3:]).to(splats.harmonics)
    colors = torch.where(seen, means, flat_color(splats.harmonics).to(means))
    origin = photos.camera.origin
    there = splats if origin is None else splats.relative_to(origin)
    kept = seen[:, 0] | out_of_frame(there.vertices, photos)
    chosen = splats[kept]
    return chosen.with_tensors(
        harmonics=harmonics_of(colors[kept], chosen.degree),
        opacity=torch.ones_like(chosen.opacity),
    )


def out_of_frame(vertices: Tensor, photos: Photos) -> Tensor:
    """Which triangles [N, 3, 3] other cameras may see: of whole pictures those in no frame, [N]."""
    if photos.alpha is not None:
        return torch.zeros(len(vertices), dtype=torch.bool, device=vertices.device)
    middle, camera = vertices.detach().mean(1), photos.camera.to(vertices.device, vertices.dtype)
    return ~in_view(camera, middle, photos.image_size).any(0)


def shown(splats: Splats, photos: Photos) -> Iterator[Tensor]:
    """What each photo shows of triangles as if they were opaque and hard: float64 [N, 4] of each.

    That is the sum of RGB over the points of pixels that show a triangle, and how many these are.

    Raises:
        ValueError: if there is no triangle.
    """
    for i, face in enumerate(nearest(splats, photos, _FINER)):
        row, column = (face >= 0).nonzero().unbind(1)
        colors = photos.images[i][:, row // _FINER, column // _FINER].double()
        found = torch.cat([colors, torch.ones_like(colors[:1])]).T
        yield summed(found, face[row, column], len(splats))


def nearest(splats: Splats, photos: Photos, finer: int = 1) -> Iterator[Tensor]:
    """Which triangle each photo shows, as if they were opaque and hard: int64 [H, W] of each.

    Args:
        splats: N triangles.
        photos: of [H, W] pixels.
        finer: so many points along the side of a pixel, and as many times H and W.

    Yields: -1 where a photo shows none, or beside it.

    Raises:
        ValueError: if there is no triangle.
    """
    if not len(splats):
        raise ValueError("there is no triangle to be seen")
    mesh = splats.to_mesh(0.0)
    camera, (height, width) = photos.camera.toward(mesh), photos.image_size
    bare = Mesh(mesh.vertices, mesh.faces)
    near, far = visual.depths(mesh, camera)
    size = (finer * height, finer * width)
    renderer = Renderer(size, "heaviside", "max", near=near, far=far, check=False)
    for i in range(len(photos)):
        one = camera[i].with_origin(None)
        with torch.no_grad():
            face = renderer(bare, one).face_id[0].long()
        photo = one.photo(size)
        yield face if photo is None else torch.where(photo[0], face, -1)


def pixels(image: Tensor, width: int | None = None) -> visual.Pixels:
    """An image [3, H, W] as a picture, of a width if there is one; enlarged pixels stay visible."""
    from PIL import Image

    values = (image.clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).cpu().numpy()
    wide = image.shape[2]
    if width is None or width == wide:
        return values
    how = Image.Resampling.BOX if width < wide else Image.Resampling.NEAREST
    return np.asarray(Image.fromarray(values).resize((width, _tall(image, width)), how))


def _tall(image: Tensor, width: int) -> int:
    return max(1, round(width * image.shape[1] / image.shape[2]))


def pair(title: str, note: str, photo: Tensor, found: Tensor) -> visual.Pixels:
    """A photo [3, H, W] beside what splats look like from there, with a line above."""
    images = [pixels(image, WIDE) for image in (photo, found)]
    return visual.sheet(title, note, ("photo", "splats"), [("", visual.INK, images, ())])


def sheet(
    title: str,
    subtitle: str,
    names: Sequence[str],
    rows: Sequence[tuple[Sequence[Tensor], Sequence[str]]],
) -> visual.Pixels:
    """One page of pictures: columns of a photo, the splats and the opaque triangles alone.

    Args:
        title: First line.
        subtitle: Second line.
        names: Of the columns.
        rows: Two or three: images [3, H, W], and what is said under each, which may be nothing.
    """
    shown = [
        (name, ink, [pixels(image, TILE) for image in images], notes)
        for (name, ink), (images, notes) in zip(_ROWS, rows, strict=False)
    ]
    return visual.sheet(title, subtitle, [name.removeprefix("./") for name in names], shown)


def film(
    splats: Splats,
    camera: Camera,
    size: tuple[int, int],
    tell: Callable[[float], object] = lambda done: None,
) -> bytes:
    """The content of a GIF file: a film with a frame for each camera.

    Args:
        splats: What is seen.
        camera: B cameras.
        size: (H, W).
        tell: Called with what is done, from 0 to 1.
    """
    frames = []
    for i in range(len(camera)):
        frames.append(pixels(rendered(splats, camera[i], size)[0]))
        tell((i + 1) / len(camera))
    return visual.gif(frames, seconds=1 / RATE)
