"""How much longer softmax colours take than silhouettes, in one run.

    python benchmarks/colours.py                             # print the table
    python benchmarks/colours.py --out docs/results --docs   # and write it into the documentation

Both render the same fragments: four views of the teapot at 256 x 256, forward and backward, with
gradients to the vertices; the scale is 0.01. The ratio is what counts, for machines differ.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from comparison import Case, Comparison, Groups, outcomes
from torch import Tensor

import gendr

TEAPOT = Path(__file__).parents[1] / "assets" / "teapot.obj"
LIGHTS = {
    "flat": gendr.Lighting(),
    "smooth": gendr.Lighting(smooth=True),
    "highlights": gendr.Lighting(smooth=True, specular=0.3),
}
SURFACES = (
    ("faces", "flat"), ("texture", "flat"), ("faces", "smooth"), ("texture", "smooth"),
    ("texture", "highlights"),
)  # fmt: skip


def teapot(surface: str) -> gendr.Mesh:
    """The teapot with colours of its faces or a texture, which get gradients."""
    plain = gendr.Mesh.load(TEAPOT).normalized()
    generator = torch.Generator().manual_seed(0)
    if surface == "faces":
        colours = torch.rand(len(plain.faces), 3, generator=generator)
        return plain.with_face_colors(colours.requires_grad_())
    texture = torch.rand(512, 512, 3, generator=generator).requires_grad_()
    uvs = plain.vertices[:, :2] / 2 + 0.5
    return gendr.Mesh(plain.vertices, plain.faces, uvs=uvs, face_uvs=plain.faces, texture=texture)


def groups(dist: str, surface: str, light: str, size: int, device: str) -> Groups:
    """Silhouettes, and colours."""
    mesh = teapot(surface).to(device)
    camera = gendr.look_at(2.732, 30.0, torch.arange(4) * 90.0).to(device)
    renderer = gendr.Renderer(size, dist, scale=1e-2, lighting=LIGHTS[light]).to(device)

    def image(name: str, vertices: Tensor) -> Tensor:
        out = getattr(renderer(mesh.with_vertices(vertices), camera), name)
        return (out * torch.linspace(0, 1, size, device=device)).sum()

    vertices, one = mesh.vertices.clone().requires_grad_(), torch.ones((), device=device)
    names = {"silhouettes": "alpha", "colours": "rgb"}
    return [outcomes({k: partial(image, v)}, [vertices], one) for k, v in names.items()]


def cases(quick: bool, device: str) -> list[Case]:
    """All of them."""
    return [
        Case(f"{dist}/{surface}/{light}", partial(groups, dist, surface, light, size, device))
        for dist in ("uniform", "logistic")
        for surface, light in SURFACES
        for size in (8 if quick else 256,)
    ]


main = Comparison("colours", __doc__, cases, page="results/speed", mark="colours", threads=1).main

if __name__ == "__main__":
    main()
