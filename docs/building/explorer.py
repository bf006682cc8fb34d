"""The page of the site where a renderer is chosen and its picture is drawn at once.

Its files are in docs/site/explorer; the formulas are those of the package, translated.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import torch
from torch import Tensor

from building.javascript import formulas
from gendr.mesh import Mesh, example, icosphere, look_at

FOLDER = Path(__file__).parents[1] / "site" / "explorer"
MARKER = "<!-- explorer -->"

# A menu of renderers, each with a scale.
PRESETS = {
    "of the tutorials": ("logistic", "probabilistic", 0.03),
    "the default of Renderer": ("uniform", "probabilistic", 0.1),
    "hard": ("heaviside", "max", 0.1),
    "Soft Rasterizer": ("logistic.squared", "probabilistic", 0.003),
    "of Petersen et al. for shapes": ("gamma(shape=0.5).reversed", "yager(p=2)", 0.05),
    "heavy tails": ("cauchy", "yager(p=2)", 0.01),
    "covers nothing outside": ("exponential", "probabilistic", 0.05),
}


def scenes() -> dict[str, Tensor]:
    """Triangles [F, 3, 2] in image coordinates, by name."""
    ring = torch.arange(7, dtype=torch.float64) * (torch.pi / 3)
    rim = 0.7 * torch.stack([ring.cos(), ring.sin()], -1)
    fan = torch.stack([torch.zeros_like(rim[:-1]), rim[:-1], rim[1:]], 1)
    apart = [[[-0.75, -0.5], [-0.05, -0.6], [-0.3, 0.2]], [[0.1, -0.1], [0.7, 0.6], [-0.2, 0.65]]]
    ball = 0.6 * _seen(icosphere(1), 0.8) + torch.tensor([-0.36, 0.28]).double()
    cards = [
        [[-0.75, -0.7], [0.2, -0.75], [-0.2, -0.05]],
        [[-0.05, -0.6], [0.8, -0.55], [0.35, 0.2]],
        [[0.15, 0.0], [0.85, -0.1], [0.6, 0.8]],
    ]
    return {
        "a sphere and three faces": torch.cat([ball, torch.tensor(cards).double()]),
        "one triangle": torch.tensor([[[-0.6, -0.5], [0.65, -0.35], [-0.05, 0.65]]]).double(),
        "two that share an edge": torch.tensor(
            [[[-0.6, -0.6], [0.6, -0.6], [0.6, 0.6]], [[-0.6, -0.6], [0.6, 0.6], [-0.6, 0.6]]]
        ).double(),
        "two apart": torch.tensor(apart).double(),
        "six around a corner": fan,
        "a sphere of 80 faces": _seen(icosphere(1), 0.8),
        "a chair": _seen(example("chair"), 0.9),
    }


def _seen(mesh: Mesh, size: float) -> Tensor:
    """The triangles of a mesh as a camera sees them, scaled to a half width."""
    mesh = mesh.normalized().to(torch.float64)
    xy, _ = look_at(4.0, 25.0, 35.0, fov=40.0).to(torch.float64).project(mesh.vertices[None])
    xy = xy[0] - 0.5 * (xy[0].amax(0) + xy[0].amin(0))
    return (xy * (size / xy.abs().max()))[mesh.faces]


def mathematics() -> str:
    """JavaScript with the distributions, families, `picture` and scenes; it needs no browser."""
    data = {name: rounded(triangles) for name, triangles in scenes().items()}
    return "\n".join([formulas(), _file("picture.js"), f"const scenes = {json.dumps(data)};\n"])


def rounded(triangles: Tensor) -> list[list[list[float]]]:
    """Nested lists with four digits behind the point: a fiftieth of a pixel."""
    return [[[round(x, 4) for x in point] for point in face] for face in triangles.tolist()]


def _file(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def fragment() -> str:
    """The explorer as a piece of HTML that needs nothing else; for a page that has one of them."""
    presets = [
        (f"{name}: {dist}, {tconorm}", f"dist={dist}&tconorm={tconorm}&scale={scale}")
        for name, (dist, tconorm, scale) in PRESETS.items()
    ]
    script = [mathematics(), f"const presets = {json.dumps(presets)};", _file("page.js")]
    code = re.sub("</", r"<\/", "\n".join(script))
    style, body = _file("page.css"), _file("page.html")
    return f"<style>\n{style}</style>\n{body}<script>\n(() => {{\n{code}}})();\n</script>"


def with_explorer(html: str) -> str:
    """The HTML of a page with the explorer in the place of its marker."""
    return html.replace(MARKER, fragment()) if MARKER in html else html
