"""`gendr fit --report`: one page of HTML with what a fit found, which needs no network."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
import torch

from gendr import visual
from gendr.mesh import Mesh

__all__ = ["page"]

# Of the curve, in pixels of the page.
_WIDE, _TALL, _LEFT, _BELOW = 640, 220, 44, 28


def page(
    title: str,
    summary: str,
    mesh: Mesh,
    metrics: Mapping[str, Any],
    pictures: Sequence[tuple[str, str, bytes]],
) -> bytes:
    """The page.

    Args:
        title: of it.
        summary: a sentence below the title.
        mesh: to be turned, with a texture or vertex colours if it has any.
        metrics: as in `metrics.json`.
        pictures: (heading, media type such as image/png, content of the file).
    """
    body = [_curve(metrics.get("history", ()))]
    for heading, kind, content in pictures:
        name = html.escape(heading)
        body += [
            f"<h2>{name}</h2>",
            f'<img alt="{name}" src="data:{kind};base64,{_text(content)}">',
        ]
    body.append(_tables(metrics))
    template = files("gendr").joinpath("assets/report.html").read_text(encoding="utf-8")
    about = f"{mesh.vertex_counts[0]:,} vertices, {mesh.face_counts[0]:,} faces."
    # Of "$" in scripts there is none but these names.
    filled = Template(template).substitute(
        title=html.escape(title), summary=html.escape(summary), about=about,
        mesh=json.dumps(_drawn(mesh)), body="\n".join(body),
    )  # fmt: skip
    return filled.encode()


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _drawn(mesh: Mesh) -> dict[str, Any]:
    """The corners of all faces as WebGL takes them, in few bytes."""
    mesh = mesh.detach()
    faces, corners = mesh.faces, 3 * mesh.face_counts[0]
    place = mesh.vertices - (mesh.vertices.amax(0) + mesh.vertices.amin(0)) / 2
    place = place / place.norm(dim=-1).amax().clamp(min=1e-12)
    colors = mesh.corner_colors
    if colors is None:
        colors = place.new_ones(len(faces), 3, 3)
    uvs = mesh.corner_uvs
    if uvs is None:
        uvs = place.new_zeros(len(faces), 3, 2)
    texture = None
    if mesh.textures is not None:
        pixels = (mesh.textures[0].clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy()
        texture = _text(visual.picture(pixels))
    arrays = {  # with as many bytes for each corner as WebGL likes: a multiple of four
        "place": _padded(place[faces], 32767, np.int16, 4),
        "normal": _padded(mesh.vertex_normals[faces], 127, np.int8, 4),
        "color": _padded(colors.clamp(0, 1), 255, np.uint8, 4),
        "uv": _text(uvs.float().cpu().numpy().tobytes()),
    }
    colored = texture is not None or mesh.corner_colors is not None
    return {**arrays, "corners": corners, "texture": texture, "colored": colored}


def _padded(values: torch.Tensor, largest: int, kind: type, width: int) -> str:
    """Values [F, 3, C] of -1 .. 1 or 0 .. 1 as integers, with columns of 0 up to `width`."""
    flat = (values.double().cpu().numpy() * largest).round().reshape(-1, values.shape[-1])
    out = np.zeros((len(flat), width), kind)
    out[:, : flat.shape[1]] = flat
    return _text(out.tobytes())


def _curve(history: Sequence[Mapping[str, float]]) -> str:
    """The IoU by step, as an SVG; nothing if it was measured once or never."""
    points = [(h["step"], h["iou"]) for h in history if "iou" in h]
    if len(points) < 2:
        return ""
    last, low = points[-1][0], min(iou for _, iou in points)
    low = max(0.0, low - 0.05 * (1 - low))

    def at(step: float, iou: float) -> tuple[float, float]:
        x = _LEFT + (_WIDE - _LEFT - 10) * step / last
        return x, 10 + (_TALL - _BELOW - 10) * (1 - (iou - low) / max(1 - low, 1e-6))

    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*p) for p in points))
    left, bottom = at(0, low)
    right, top = at(last, 1.0)
    return (
        f'<h2>Mean IoU by step</h2><svg viewBox="0 0 {_WIDE} {_TALL}" role="img" '
        f'aria-label="IoU rises to {points[-1][1]:.3f}">'
        f'<path class="axis" fill="none" d="M{left} {top}V{bottom}H{right}"/>'
        f'<text x="4" y="{top + 5:.0f}">1.000</text><text x="4" y="{bottom:.0f}">{low:.3f}</text>'
        f'<text x="{left}" y="{_TALL - 6}">0</text>'
        f'<text x="{right}" y="{_TALL - 6}" text-anchor="end">{last} steps</text>'
        f'<polyline class="curve" points="{line}"/></svg>'
    )


def _tables(metrics: Mapping[str, Any]) -> str:
    """Numbers, seconds and settings."""
    plain = {
        k: v for k, v in metrics.items() if isinstance(v, (str, int, float)) and k != "finished"
    }
    groups = {
        "Numbers": plain,
        "Seconds": metrics.get("seconds", {}),
        "Quality of the faces": metrics.get("quality", {}),
        "Settings": metrics.get("settings", {}),
        "Versions": metrics.get("versions", {}),
    }
    out: list[str] = []
    for name, values in groups.items():
        if values:
            lines = (
                f"<tr><td>{html.escape(k)}</td><td>{_said(v)}</td></tr>" for k, v in values.items()
            )
            out.append(f'<h2>{name}</h2><div class="scroll"><table>{"".join(lines)}</table></div>')
    return "\n".join(out)


def _said(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else html.escape(str(value))
