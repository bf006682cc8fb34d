"""How much alpha suffers from float32: a formula of the published kernels beside ours.

    python benchmarks/rounding.py --docs        half a minute; docs/results/rendering.md

The published kernels of Soft Rasterizer and GenDR find the point of an edge that is nearest to a
pixel in barycentric coordinates: those of the pixel come from the inverse of the matrix of the
face, and the distance is that of the difference of two such triples, times the vertices. For a thin
face the inverse is large, and the difference cancels. Here both formulas get the same triangles,
rounded to float32, and each is compared with itself in float64.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
from pathlib import Path

import torch
from torch import Tensor

import gendr
from gendr.cli.command_line import Parser
from gendr.rendering.geometry import project_faces
from lab.pages import fill, table

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results" / "rendering.md"
TARGETS = ("airplane", "teapot", "sphere_642")
SCALES = (1e-2, 1e-3)
AT_ONCE = 200  # faces


def barycentric(faces: Tensor) -> Tensor:
    """The matrices [F, 3, 3] that take (x, y, 1) to barycentric coordinates, of faces [F, 3, 2].

    They are written out, as in the kernels: a library might pivot, and lose less.
    """
    (ax, ay), (bx, by), (cx, cy) = (faces[:, k].unbind(-1) for k in range(3))
    rows = [
        [by - cy, cx - bx, bx * cy - cx * by],
        [cy - ay, ax - cx, cx * ay - ax * cy],
        [ay - by, bx - ax, ax * by - bx * ay],
    ]
    twice_area = cx * (ay - by) + ax * (by - cy) + bx * (cy - ay)
    matrix = torch.stack([torch.stack(row, -1) for row in rows], -2)
    return matrix / twice_area[:, None, None]


def published_distance(points: Tensor, faces: Tensor) -> Tensor:
    """Signed distances [F, N] of points [N, 2] to faces [F, 3, 2], positive inside."""
    homogeneous = torch.cat([points, torch.ones_like(points[:, :1])], 1)
    w = torch.einsum("fkc,nc->fnk", barycentric(faces), homogeneous)
    gram = faces @ faces.mT
    inside = (w > 0).all(-1)
    nearest = torch.full_like(w[..., 0], torch.inf)
    for a, b in ((0, 1), (1, 2), (2, 0)):
        edge = gram[:, a] - gram[:, b]
        t = (torch.einsum("fnk,fk->fn", w, edge) - edge[:, b, None]) / (edge[:, a] - edge[:, b])[
            :, None
        ]
        t = torch.where(inside, t, t.clamp(0, 1))  # inside, feet may lie anywhere on the line
        apart = -w
        apart[..., a] += t
        apart[..., b] += 1 - t
        nearest = torch.minimum(nearest, torch.einsum("fnk,fkc->fnc", apart, faces).norm(dim=-1))
    return torch.where(inside, nearest, -nearest)


def published_alpha(points: Tensor, faces: Tensor, scale: float) -> Tensor:
    """Alpha [N] with the logistic distribution and the probabilistic sum."""
    uncovered = torch.zeros(len(points), dtype=torch.float64)
    for some in faces.split(AT_ONCE):
        coverage = torch.sigmoid(published_distance(points, some) / scale)
        # Only the distances are in question: what follows is exact.
        uncovered += torch.log1p(-coverage.double().clamp(max=1 - 1e-16)).sum(0)
    return 1 - uncovered.exp()


def errors(name: str, scale: float, size: int) -> tuple[float, float]:
    """The largest error of alpha in float32: by the published formula, and of `silhouette`."""
    mesh = gendr.Mesh.load(ROOT / "assets" / f"{name}.obj").normalized().scaled(0.5)
    screen, _ = project_faces(mesh, gendr.look_at(2.732, 30.0, 35.0), 1.0, 100.0)
    corners = screen.corners[:, :3].float()
    rows = torch.arange(size, dtype=torch.float64)
    across = (2 * rows + 1 - size) / size
    y, x = torch.meshgrid(-across, across, indexing="ij")
    points = torch.stack([x.flatten(), y.flatten()], 1)
    # What has no area in float32 covers nothing with either.
    (ax, ay), (bx, by), (cx, cy) = (corners[:, k].unbind(-1) for k in range(3))
    corners = corners[((bx - ax) * (cy - ay) - (by - ay) * (cx - ax)).abs() > 0]
    exact = published_alpha(points, corners.double(), scale)
    rough = published_alpha(points.float(), corners, scale)
    three = torch.cat([corners, torch.ones_like(corners[..., :1])], -1)[None]
    ours = [
        gendr.silhouette(
            three.to(dtype), size, "logistic", "probabilistic", scale, cutoff=0, backend="reference"
        ).double()
        for dtype in (torch.float32, torch.float64)
    ]
    return float((rough - exact).abs().max()), float((ours[0] - ours[1]).abs().max())


def main() -> None:
    """Measure; print or write the table."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", action="store_true", help="write into docs/results/rendering.md")
    parser.add_argument("--size", type=int, default=64, help="pixels of a side (default: 64)")
    args = parser.parse_args()
    rows: list[list[str]] = []
    for name in TARGETS:
        for scale in SCALES:
            theirs, ours = errors(name, scale, args.size)
            rows.append([name, f"{scale:g}", f"{theirs:.1g}", f"{ours:.1g}"])
    lines = table(["mesh", "scale, NDC", "published formula", "`gendr`"], rows)
    print("\n".join(lines))
    if args.docs:
        fill(PAGE, "rounding", lines)


if __name__ == "__main__":
    main()
