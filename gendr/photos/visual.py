"""Pictures for users: shaded views, the sheet and the animation of a fit, turntables.

Images are uint8 arrays [H, W, 3] (or [..., 4] with transparency), row 0 at the top. The target is
blue and the fit orange in all of them.
"""

from __future__ import annotations

import io
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gendr._common.checks import check_image_size
from gendr.kernels.threads import mapped
from gendr.mesh import Camera, Lighting, Mesh, look_at
from gendr.rendering import Renderer

Pixels: TypeAlias = NDArray[np.uint8]
Color: TypeAlias = "tuple[int, int, int]"


PAPER: Color = (255, 255, 255)
INK: Color = (38, 43, 51)
FAINT: Color = (138, 145, 156)
LINE: Color = (226, 229, 233)
TARGET: Color = (72, 121, 184)
FIT: Color = (232, 138, 62)
BOTH: Color = (212, 215, 219)

# Every pixel of a picture is the mean of OVERSAMPLING x OVERSAMPLING pixels of the hard image.
OVERSAMPLING = 2
# Views are rendered together up to this many pixels and faces: for small meshes this saves calls,
# but the tables of large ones would fill the memory.
PIXELS_AT_ONCE, FACES_AT_ONCE = 1 << 20, 1 << 17
# How far rounding may move a corner of a face, in pixels.
PIXEL_SLACK = 1e-3
# How much of the image, from its middle to its side, the bounding sphere of a mesh fills. With the
# first value, a mesh of radius 1/2 is seen from a distance of 2.732 at fov 30, as in the benchmark.
FOV = 30.0
FILL = math.tan(math.asin(0.5 / 2.732)) / math.tan(math.radians(FOV / 2))
CLOSE_FILL = 0.92
# The temperature of the softmax over depth, with planes close around a mesh. If it is smaller,
# faces win far outside themselves because of little differences in depth, which tears textures; if
# it is larger, the far side shines through.
GAMMA = 0.03


# ---------------------------------------------------------------------------------------------
# cameras and shaded views


def around(mesh: Mesh) -> tuple[Tensor, float]:
    """Centre [3] and radius of a sphere around the used vertices of a mesh.

    The centre is that of their box.

    Raises:
        ValueError: If all vertices coincide.
    """
    used = _used_vertices(mesh)
    centre = (used.amin(0) + used.amax(0)) / 2
    radius = float((used - centre).norm(dim=-1).max())
    if not radius > 0:
        raise ValueError("the mesh has no extent, all its vertices coincide")
    return centre, radius


def diagonal(mesh: Mesh) -> float:
    """Length of the diagonal of the box around the used vertices of a mesh."""
    used = _used_vertices(mesh)
    return float((used.amax(0) - used.amin(0)).norm())


def _used_vertices(mesh: Mesh) -> Tensor:
    """The vertices [K, 3] that belong to faces; files may contain others, anywhere."""
    used = torch.zeros(len(mesh.vertices), dtype=torch.bool, device=mesh.device)
    used[mesh.faces.reshape(-1)] = True
    return mesh.vertices.detach()[used]


def orbit(
    mesh: Mesh,
    azimuths: Sequence[float],
    elevation: float = 30.0,
    fov: float = FOV,
    fill: float = FILL,
) -> Camera:
    """Cameras around a mesh of any size at any place, with all of it in view.

    Args:
        mesh: One mesh.
        azimuths: Degrees, one per camera.
        elevation: Degrees.
        fov: Degrees, in (0, 180).
        fill: In (0, 1], how much of the image the bounding sphere fills.
    """
    centre, radius = around(mesh)
    angle = math.atan(fill * math.tan(math.radians(fov / 2)))
    azimuth = torch.tensor(azimuths, dtype=mesh.dtype, device=mesh.device)
    return look_at(radius / math.sin(angle), elevation, azimuth, fov, at=centre)


def depths(mesh: Mesh, camera: Camera) -> tuple[float, float]:
    """Depths of near and far planes that are close around a mesh of every `camera` of a batch.

    Raises:
        ValueError: if a camera is so far away that the mesh is one point.
    """
    centre, radius = around(mesh)
    depth = camera.toward(mesh).world_to_camera(centre[None])[..., 2]
    farthest = int(depth.abs().argmax())
    away = float(depth.abs().amax())
    if not radius > torch.finfo(depth.dtype).eps * away:
        raise ValueError(
            f"camera {farthest} is {away:.3g} away from a mesh of radius {radius:.3g}, too far to "
            "see it; correct its translation or leave it out"
        )
    near = max(float(depth.min()) - 1.05 * radius, 1e-3 * radius)
    return near, max(float(depth.max()), near) + 1.05 * radius


def lighting(name: str = "lambert") -> Lighting | None:
    """The light of pictures: over the left shoulder of every camera, or from the camera itself."""
    over_shoulder = (-0.5, 0.7, -1.0)
    if name == "phong":
        return Lighting(0.4, 0.55, 0.25, 24.0, over_shoulder, smooth=True, frame="camera")
    if name == "lambert":
        return Lighting(0.4, 0.6, direction=over_shoulder, frame="camera")
    return Lighting.from_name(name)


def render_views(
    mesh: Mesh, camera: Camera, size: int | tuple[int, int], options: dict[str, Any] | None = None
) -> tuple[Tensor, Tensor]:
    """Shaded views of one mesh over black: rgb [B, 3, H, W] and alpha [B, H, W].

    Args:
        mesh: One mesh.
        camera: B cameras.
        size: Pixels.
        options: Arguments of `Renderer`, such as dist, scale, gamma (between planes close around
            the mesh) and lighting (a name; "auto" is lambert, or none for an unlit mesh). Without
            a dist the picture is hard and antialiased; with one it has soft edges that fade with
            alpha.
    """
    camera = camera.toward(mesh)
    options = {"composite": "alpha", "gamma": GAMMA, **(options or {})}
    name = options.pop("lighting", "auto")
    if name == "auto":
        name = "none" if mesh.unlit else "lambert"
    light = lighting(name)
    height, width = check_image_size(size)
    crisp = "dist" not in options
    if crisp:
        height, width = height * OVERSAMPLING, width * OVERSAMPLING
        options |= {"dist": "heaviside", "tconorm": "max", "shading": "hard", "composite": "depth"}
    near, far = depths(mesh, camera)
    options |= {"near": near, "far": far, "lighting": light}
    renderer = Renderer((height, width), **options)
    parts = []
    together = _together(mesh, (height, width))
    # Vertex normals need all faces around a vertex.
    apart = crisp and together == 1 and not (light is not None and light.smooth)
    for some in (camera[i : i + together] for i in range(0, len(camera), together)):
        with torch.no_grad():
            out = renderer(visible_part(mesh, some, (height, width), near) if apart else mesh, some)
            rgb = out.rgb.permute(0, 2, 3, 1)
            if crisp:
                alpha = _pooled(out.mask.to(rgb)[..., None])[..., 0]
                parts.append((_pooled(rgb), alpha))
            else:
                parts.append((rgb, out.alpha))
    rgb, alpha = (torch.cat(images).clamp(0, 1) for images in zip(*parts, strict=True))
    return rgb.permute(0, 3, 1, 2), alpha


def _together(mesh: Mesh, size: tuple[int, int]) -> int:
    """How many views (H, W) of a mesh are rendered at once."""
    pixels = max(size[0] * size[1], 1)
    return max(min(PIXELS_AT_ONCE // pixels, FACES_AT_ONCE // max(len(mesh.faces), 1)), 1)


def _pooled(images: Tensor) -> Tensor:
    """The means [B, H / n, W / n, C] of n x n pixels of [B, H, W, C], n = `OVERSAMPLING`."""
    n = OVERSAMPLING
    batch, height, width, channels = images.shape
    parts = images.reshape(batch, height // n, n, width // n, n, channels)
    first, *others = (parts[:, :, i, :, j] for i in range(n) for j in range(n))
    return sum(others, first) / n**2


def visible_part(mesh: Mesh, camera: Camera, size: tuple[int, int], near: float) -> Mesh:
    """The part of a mesh that a hard image can show: faces whose box contains a pixel centre.

    Most faces of a large mesh lie between the centres; without them, drawing is many times faster.

    Args:
        mesh: One mesh.
        camera: One camera.
        size: (H, W), pixels.
        near: Faces that cross it are kept, wherever they are.
    """
    (xy,), (depth,) = camera.project(mesh.vertices)
    height, width = size
    # In pixels, whose centres are at integers.
    place = (xy * min(size) + xy.new_tensor([width - 1, height - 1])) / 2
    a, b, c = (place.index_select(0, corner) for corner in mesh.faces.unbind(1))
    low = torch.minimum(torch.minimum(a, b), c) - PIXEL_SLACK
    high = torch.maximum(torch.maximum(a, b), c) + PIXEL_SLACK
    shown = (low.ceil() <= high.floor()).all(-1) | (depth < near)[mesh.faces].any(-1)
    return Mesh(
        mesh.vertices,
        mesh.faces[shown],
        uvs=mesh.uvs,
        face_uvs=None if mesh.face_uvs is None else mesh.face_uvs[shown],
        texture=mesh.textures,
        vertex_colors=mesh.vertex_colors,
        face_colors=None if mesh.face_colors is None else mesh.face_colors[shown],
    )


def silhouettes(mesh: Mesh, camera: Camera, size: int | tuple[int, int]) -> Tensor:
    """Hard masks [B, H, W] of a mesh of any size and number of faces; no gradient."""
    pair, camera = check_image_size(size), camera.toward(mesh)
    near, far = depths(mesh, camera)
    renderer = Renderer(pair, "heaviside", "max", near=near, far=far)
    step = _together(mesh, pair)
    with torch.no_grad():
        some = (camera[i : i + step] for i in range(0, len(camera), step))
        return torch.cat([renderer(mesh, one).mask.to(mesh.dtype) for one in some])


def composited(rgb: Tensor, alpha: Tensor, background: Color = PAPER) -> list[Pixels]:
    """Compose colours over black with a background.

    Args:
        rgb: [B, 3, H, W] in [0, 1], over black.
        alpha: [B, H, W] in [0, 1].
        background: RGB in 0 .. 255.
    """
    paper = torch.tensor(background, dtype=rgb.dtype, device=rgb.device)[:, None, None] / 255
    image = rgb + (1 - alpha[:, None]) * paper
    pixels = (image.clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
    return list(pixels)


def shaded(
    mesh: Mesh, camera: Camera, size: int | tuple[int, int], color: Color | None = None
) -> list[Pixels]:
    """Crisp shaded views on white, in one colour, or in those of the mesh.

    Args:
        mesh: one mesh, [V, 3].
        camera: one camera or a batch of B.
        size: pixels of a side, or (H, W).
        color: RGB in 0 .. 255; None for the colours of the mesh.

    Returns:
        B pictures [H, W, 3] uint8.
    """
    if color is not None:
        plain = Mesh(mesh.vertices, mesh.faces).with_origin(mesh.origin)
        tint = torch.tensor(color, dtype=mesh.dtype, device=mesh.device) / 255
        mesh = plain.with_face_colors(tint.expand(len(mesh.faces), 3))
    return composited(*render_views(mesh, camera, size))


# ---------------------------------------------------------------------------------------------
# close-ups


@dataclass(frozen=True)
class Closeup:
    """A window in each image, in which the object fills the picture.

    Attributes:
        centre: [B, 2], NDC of the images.
        half: Half the width and height of the windows, NDC; equal for all views, so that sizes can
            be compared.
        size: (H, W), pixels of the pictures.
    """

    centre: Tensor
    half: tuple[float, float]
    size: tuple[int, int]

    @staticmethod
    def of(masks: Tensor, width: int, margin: float = 0.12) -> Closeup:
        """Windows around masks [B, H, W], with a margin in parts of the object.

        Args:
            masks: In [0, 1].
            width: Pixels of the pictures; their height is between half and all of it.
            margin: The margin on every side, as a part of the object's size.
        """
        rows, columns = masks.shape[1:]
        side = min(rows, columns)
        centres, largest = [], [0.0, 0.0]
        for view in (masks > 0.5).cpu():
            place = []
            for axis, count in ((0, columns), (1, rows)):
                where = view.any(axis).nonzero().reshape(-1)
                first, last = (int(where[0]), int(where[-1]) + 1) if len(where) else (0, count)
                if len(where):
                    largest[axis] = max(largest[axis], (last - first) / side)
                place.append((first + last - count) / side)
            centres.append((place[0], -place[1]))
        reach = [n * (1 + 2 * margin) or 1.0 for n in largest]
        across = min(max(reach), max(rows, columns) / side * (1 + 2 * margin))
        height = round(width * min(max(reach[1] / reach[0], 0.5), 1.0))
        return Closeup(
            torch.tensor(centres, dtype=torch.float64),
            (across, across * height / width),
            (height, width),
        )

    def camera(self, camera: Camera) -> Camera:
        """Cameras that see the windows as their images, of `size`."""
        # The shorter side of a picture spans [-1, 1].
        zoom = self.size[1] / min(self.size) / self.half[0]
        centre = self.centre.to(camera.principal)
        principal = (camera.principal - centre) * zoom
        whole = camera.with_window(None)  # also what a photo does not show
        return whole.with_tensors(focal=camera.focal * zoom, principal=principal)

    def cut(self, image: Tensor, index: int) -> NDArray[np.float64]:
        """The window of an image [H, W] in [0, 1], at `size`; enlarged pixels stay visible."""
        from PIL import Image

        values = (image.detach().cpu().double().clamp(0, 1) * 255).round().to(torch.uint8).numpy()
        rows, columns = values.shape
        side = min(rows, columns)
        x, y = self.centre[index].tolist()
        dx, dy = (half * side / 2 for half in self.half)
        border = math.ceil(max(dx, dy)) + 1
        canvas = Image.new("L", (columns + 2 * border, rows + 2 * border))
        canvas.paste(Image.fromarray(values), (border, border))
        column, row = border + (x * side + columns) / 2, border + (rows - y * side) / 2
        how = Image.Resampling.BOX if 2 * dx > self.size[1] else Image.Resampling.NEAREST
        box = (column - dx, row - dy, column + dx, row + dy)
        return np.asarray(canvas.resize((self.size[1], self.size[0]), how, box)) / 255.0


def photo(masks: Tensor, rgb: Tensor | None, index: int, window: Closeup) -> Pixels:
    """The window of one of the images on white, or of its mask in blue.

    Args:
        masks: [B, H, W], in [0, 1].
        rgb: [B, 3, H, W], premultiplied by the masks, or None.
        index: of the image.
        window: what is cut out of it.
    """
    alpha = window.cut(masks[index], index)
    if rgb is None:
        return _flat(alpha, TARGET)
    alpha = alpha[..., None]
    color = np.stack([window.cut(channel, index) for channel in rgb[index]], -1)
    return ((color + 1 - alpha).clip(0, 1) * 255).round().astype(np.uint8)


def _flat(mask: NDArray[np.float64], color: Color) -> Pixels:
    """A mask [H, W] in one colour on white."""
    alpha = mask[..., None]
    mixed = np.asarray(color) * alpha + np.asarray(PAPER) * (1 - alpha)
    return mixed.round().astype(np.uint8)


def difference(target: NDArray[np.float64], found: NDArray[np.float64]) -> Pixels:
    """Two masks [H, W] in [0, 1] in one picture [H, W, 3].

    It is grey where both masks are, blue where only the target is, orange where only `found` is.
    """
    a, b = target[..., None], found[..., None]
    parts = ((a * b, BOTH), (a * (1 - b), TARGET), ((1 - a) * b, FIT), ((1 - a) * (1 - b), PAPER))
    mixed = np.sum([weight * np.asarray(color) for weight, color in parts], axis=0)
    return mixed.round().astype(np.uint8)


# ---------------------------------------------------------------------------------------------
# layout


class Page:
    """A white page to put tiles and text on.

    Args:
        width: in pixels.
        height: in pixels.
    """

    def __init__(self, width: int, height: int) -> None:
        from PIL import Image, ImageDraw

        self.image = Image.new("RGB", (width, height), PAPER)
        self.draw = ImageDraw.Draw(self.image)

    def tile(self, pixels: Pixels, x: int, y: int) -> None:
        """Paste a picture with its upper left corner at (x, y)."""
        from PIL import Image

        self.image.paste(Image.fromarray(pixels), (x, y))

    def text(
        self, x: int, y: int, text: str, size: int = 13, color: Color = INK, anchor: str = "la"
    ) -> None:
        """Draw text; the anchor is that of Pillow: l, m or r, and a (top), m or s (baseline)."""
        self.draw.text((x, y), text, color, _font(size), anchor=anchor)

    def box(self, x: int, y: int, width: int, height: int, color: Color) -> None:
        """Fill a rectangle with its upper left corner at (x, y)."""
        self.draw.rectangle((x, y, x + width - 1, y + height - 1), color)

    def pixels(self) -> Pixels:
        """The page as [H, W, 3]."""
        return np.asarray(self.image)


@cache
def _font(size: int) -> Any:
    """Pillow's own font; to read it takes longer than to write a line."""
    from PIL import ImageFont

    return ImageFont.load_default(size)


def spread(count: int, wanted: int) -> list[int]:
    """At most `wanted` numbers, evenly spaced in 0 .. count - 1."""
    shown = min(count, wanted)
    return [i * count // shown for i in range(shown)]


def fit_frames(
    title: str,
    steps: int,
    trace: Sequence[tuple[int, Callable[[], Sequence[Pixels]]]],
    scores: Sequence[tuple[int, float]],
    target: Sequence[Pixels],
    tell: Callable[[float], None] | None = None,
    device: torch.device | None = None,
) -> list[Pixels]:
    """The animation of a fit: targets above, the shape of every step below.

    Args:
        title: What is fitted.
        steps: The number of steps of the whole fit.
        trace: Steps, and what gives pictures of the shape there in the views of the target; the
            last one ends the animation.
        scores: (step, mean IoU) in the order of the steps.
        target: Pictures of the target, all of one size.
        tell: Called with the part of the frames that is done.
        device: Where shapes are drawn.
    """
    left, gap, top = 62, 6, 44
    tall, wide = target[0].shape[:2]
    width = max(left + len(target) * (wide + gap) + 8, 420)
    height = top + 2 * (tall + gap) + 26

    def frame(number: int) -> Pixels:
        step, drawn = trace[number]
        page = Page(width, height)
        page.text(12, 14, title, 15)
        last = number == len(trace) - 1
        score = next((s for i, s in reversed(scores) if i <= step), None)
        if last and scores:
            score = max(s for _, s in scores)
        note = f"step {steps if last else step} of {steps}"
        if score is not None:
            note += f"    IoU {score:.3f}"
        page.text(width - 14, 15, note, 14, FAINT, "ra")
        for row, (name, color) in enumerate((("target", TARGET), ("fit", FIT))):
            y = top + row * (tall + gap)
            page.text(14, y + tall // 2, name, 14, color, "lm")
            for column, pixels in enumerate(drawn() if row else target):
                page.tile(pixels, left + column * (wide + gap), y)
        span = width - left - 14
        page.box(left, height - 18, span, 4, LINE)
        done = 1.0 if last else step / steps
        page.box(left, height - 18, max(1, round(span * done)), 4, FIT)
        return page.pixels()

    return mapped(frame, range(len(trace)), tell, device=device)


def sheet(
    title: str,
    subtitle: str,
    captions: Sequence[str],
    rows: Sequence[tuple[str, Color, Sequence[Pixels], Sequence[str]]],
    legend: Sequence[tuple[Color, str]] = (),
    most: int = 6,
) -> Pixels:
    """One page of pictures: a column under each caption, in blocks of equally many columns.

    Args:
        title: First line, or lines if it is wider than the page.
        subtitle: The next line, or lines.
        captions: Of the columns. Of long ones, and of what is said, the end, which tells files
            apart.
        rows: Of each row its name, the ink of that, its pictures, of any sizes and perhaps fewer
            than columns, and what is said under each, or ().
        legend: Inks and what they mean, for a last line.
        most: Columns side by side.
    """
    blocks = math.ceil(len(captions) / most)
    columns = math.ceil(len(captions) / blocks)
    left, gap, head, foot = 92 if any(row[0] for row in rows) else 16, 8, 26, 22
    tall, wide = (max(x.shape[k] for row in rows for x in row[2]) for k in (0, 1))
    steps = [tall + gap + (foot if any(row[3]) else 0) for row in rows]
    block = head + sum(steps) + 10
    width = max(left + columns * (wide + gap) + 12, 640)
    titles, subtitles = _lines(title, 20, width - 32), _lines(subtitle, 13, width - 32)
    below = 44 + 26 * (len(titles) - 1)
    top = below + 32 + 18 * (len(subtitles) - 1)
    page = Page(width, top + blocks * block + (34 if legend else 0))
    for i, line in enumerate(titles):
        page.text(16, 14 + 26 * i, line, 20)
    for i, line in enumerate(subtitles):
        page.text(16, below + 18 * i, line, 13, FAINT)
    for k, caption in enumerate(captions):
        x, y = left + k % columns * (wide + gap), top + k // columns * block
        if k % columns == 0:
            page.box(16, y, width - 32, 1, LINE)
        page.text(x + wide // 2, y + 8, _short(caption), 12, FAINT, "ma")
        y += head
        for (name, ink, pictures, notes), step in zip(rows, steps, strict=True):
            if k % columns == 0:
                page.text(16, y + tall // 2, name, 13, ink, "lm")
            for tile in pictures[k : k + 1]:
                rest = tall - tile.shape[0], wide - tile.shape[1]
                page.tile(tile, x + rest[1] // 2, y + rest[0] // 2)
            for note in notes[k : k + 1]:
                page.text(x + wide // 2, y + tall + 5, _short(note), 12, INK, "ma")
            y += step
    x, y = left, page.image.height - 26
    for color, text in legend:
        page.box(x, y, 12, 12, color)
        page.text(x + 18, y + 6, text, 12, INK, "lm")
        x += 150
    return page.pixels()


def _lines(text: str, size: int, width: int) -> list[str]:
    """Text in lines of at most so many pixels, at least one; broken in words only if need be."""
    lines: list[str] = []
    rest, wide = text, _font(size).getlength
    while wide(rest) > width:
        most = max(1, bisect_right(range(len(rest)), width, key=lambda n: wide(rest[:n])) - 1)
        space = rest.rfind(" ", 1, most + 1)
        end = most if space < 0 else space
        lines.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    return [*lines, rest]


def _short(text: str) -> str:
    return text if len(text) <= 28 else f"…{text[-27:]}"


def fit_sheet(
    title: str,
    subtitle: str,
    masks: Tensor,
    found: Tensor,
    iou_per_view: Sequence[float],
    mesh: Mesh,
    camera: Camera,
    window: Closeup,
    chosen: Sequence[int],
    target: Sequence[Pixels],
    painted: Mesh | None = None,
) -> Pixels:
    """A `sheet` that shows, for each view, the target, the fit and the difference of silhouettes.

    Args:
        title: First line.
        subtitle: Second line.
        masks: [B, H, W], the targets.
        found: [B, H, W], the hard silhouettes of the fit.
        iou_per_view: B numbers.
        mesh: The fit, world coordinates.
        camera: B cameras.
        window: What is shown of each view.
        chosen: The views that are shown.
        target: Pictures of the target in these views, of the window's size.
        painted: The fit with its colours, if there are any, for a row of its own.
    """
    seen = window.camera(camera)[list(chosen)]
    wanted, given = ([window.cut(image[i], i) for i in chosen] for image in (masks, found))
    pictures: list[tuple[str, Color, Sequence[Pixels], Sequence[str]]] = [
        ("target", TARGET, target, ()),
        ("fit", FIT, shaded(mesh, seen, window.size, FIT), ()),
        ("mask", TARGET, [_flat(mask, TARGET) for mask in wanted], ()),
        ("difference", INK, list(map(difference, wanted, given)), ()),
    ]
    if painted is not None:
        colored = render_views(painted, seen, window.size, {"lighting": "none"})
        pictures.insert(1, ("colours", FIT, composited(*colored), ()))
    return sheet(
        title,
        subtitle,
        [f"view {i + 1}   IoU {iou_per_view[i]:.3f}" for i in chosen],
        pictures,
        legend=((BOTH, "in both"), (TARGET, "only in the target"), (FIT, "only in the fit")),
    )


# ---------------------------------------------------------------------------------------------
# files


def picture(pixels: Pixels, kind: str = "PNG", **how: Any) -> bytes:
    """The content of an image file of these `pixels`; `kind` is PNG or JPEG, `how` Pillow's."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **how)
    return file.getvalue()


def gif(frames: Sequence[Pixels], seconds: float = 0.08, hold: float = 0.0) -> bytes:
    """The content of a GIF file: an endless animation with one palette for all frames.

    Args:
        frames: [H, W, 3] each.
        seconds: Duration of a frame.
        hold: Additional duration of the last frame.
    """
    from PIL import Image

    images = [Image.fromarray(frame) for frame in frames]
    # The palette is made from a quarter of the first, the last and some frames in between.
    shown = sorted({*spread(len(images), 6), len(images) - 1})
    strip = np.concatenate([frames[i][::2, ::2] for i in shown])
    palette = Image.fromarray(strip).quantize(255, Image.Quantize.MEDIANCUT)
    # The colour of the background, which is that of the corner, is kept exactly.
    corner = images[0].getpixel((0, 0))
    colors = palette.getpalette() or []
    index = palette.getpixel((0, 0))
    if isinstance(corner, tuple) and isinstance(index, int):
        colors[3 * index : 3 * index + 3] = [round(c) for c in corner]
        palette.putpalette(colors)
    coded = mapped(lambda image: image.quantize(palette=palette, dither=Image.Dither.NONE), images)
    if isinstance(index, int):
        for image, frame in zip(coded, frames, strict=True):
            # Pillow tells colours apart by steps of 4 only.
            red, green, blue = (frame[..., i] == frame[0, 0, i] for i in range(3))
            image.paste(index, mask=Image.fromarray(red & green & blue))
    times = [round(seconds * 1000)] * len(coded)
    times[-1] += round(hold * 1000)
    file = io.BytesIO()
    coded[0].save(
        file, "GIF", save_all=True, append_images=coded[1:], duration=times, loop=0, optimize=False
    )
    return file.getvalue()
