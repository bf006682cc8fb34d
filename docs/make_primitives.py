"""Make the pictures and tables of docs/primitives.md: three programs in the style of nvdiffrast.

    python docs/make_primitives.py           # all, minutes
    python docs/make_primitives.py cube      # some

Each example is written as for a GPU, with `dr` for the four functions; nothing in it knows that it
runs on a CPU.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import math
import time
from typing import Any

import torch
from make_figures import main, save_plot, write_block
from make_relaxed import plots
from torch import Tensor

import gendr.primitives as dr
from gendr.mesh import icosphere
from lab.pages import table

CONTEXT = dr.RasterizeCudaContext()


def projection(x: float = 0.4, near: float = 1.0, far: float = 20.0) -> Tensor:
    """A perspective projection of OpenGL, y up, looking along -z."""
    return torch.tensor(
        [
            [near / x, 0, 0, 0],
            [0, near / x, 0, 0],
            [0, 0, -(far + near) / (far - near), -2 * far * near / (far - near)],
            [0, 0, -1, 0],
        ]
    )


def rotation(quaternion: Tensor) -> Tensor:
    """[..., 3, 3] of quaternions [..., 4] of any length."""
    w, x, y, z = torch.nn.functional.normalize(quaternion, dim=-1).unbind(-1)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def clip_space(vertices: Tensor, turn: Tensor, distance: float) -> Tensor:
    """[B, V, 4] of vertices [V, 3] that are turned [B, 3, 3] before a camera."""
    placed = vertices @ turn.transpose(-1, -2) - torch.tensor([0.0, 0.0, distance])
    return torch.nn.functional.pad(placed, (0, 1), value=1.0) @ projection().T


def box() -> tuple[Tensor, Tensor]:
    """Corners [8, 3] and triangles [12, 3] of a cube."""
    corners = torch.tensor([[x, y, z] for x in (-1.0, 1) for y in (-1.0, 1) for z in (-1.0, 1)])
    squares = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    tri = [[a, b, c] for a, b, c, _ in squares] + [[a, c, d] for a, _, c, d in squares]
    return corners, torch.tensor(tri, dtype=torch.int32)


def picture(image: Tensor) -> Any:
    """An image [h, w, 3] with rows from the bottom, for a plot."""
    return image.detach().clamp(0, 1).flip(0).numpy()


def show(axis: Any, image: Tensor, title: str) -> None:
    """An image without axes."""
    axis.imshow(picture(image), interpolation="nearest")
    axis.set_title(title, size=9)
    axis.axis("off")


# ---------------------------------------------------------------------------------------------
# A cube, fitted from pictures of 16 x 16 pixels
# ---------------------------------------------------------------------------------------------


def draw_cube(pos: Tensor, colors: Tensor, tri: Tensor, size: int) -> Tensor:
    """Colours of vertices, antialiased."""
    rast, _ = dr.rasterize(CONTEXT, pos, tri, (size, size))
    color, _ = dr.interpolate(colors[None], rast, tri)
    return dr.antialias(color, rast, pos, tri)


def figure_cube() -> None:
    """Corners and their colours from pictures in random poses; nothing else is known."""
    torch.manual_seed(0)
    corners, tri = box()
    colors = (corners + 1) / 2
    guess = (corners + 0.5 * torch.randn(8, 3)).requires_grad_()
    paint = torch.rand(8, 3).requires_grad_()
    pose = rotation(torch.tensor([[0.9, 0.35, 0.25, 0.1]]))
    optimizer = torch.optim.Adam([guess, paint], lr=1e-2)
    target = torch.zeros(8, 16, 16, 3)
    shots, errors, begin = [], [], time.process_time()
    for step in range(1001):
        if step in (0, 100, 1000):
            shots.append(draw_cube(clip_space(guess, pose, 6.0), paint, tri, 128)[0])
            errors.append((step, (guess - corners).norm(dim=-1).mean().item()))
        turn = rotation(torch.randn(8, 4))
        target = draw_cube(clip_space(corners, turn, 6.0), colors, tri, 16)
        seen = draw_cube(clip_space(guess, turn, 6.0), paint, tri, 16)
        loss = (seen - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    seconds = time.process_time() - begin
    figure, axes = plots(1, 5, (10, 2.3))
    show(axes[0], target[0], "what it is fitted to")
    for axis, (step, _), shot in zip(axes[1:4], errors, shots, strict=True):
        show(axis, shot, f"after {step} steps")
    show(axes[4], draw_cube(clip_space(corners, pose, 6.0), colors, tri, 128)[0], "the truth")
    figure.tight_layout()
    save_plot(figure, "primitives_cube.png")
    write_block(
        "primitives.md", "primitives-cube",
        [
            f"{len(target)} pictures of 16 × 16 pixels a step, {errors[-1][0]} steps, "
            f"{seconds:.0f} s of processor time: the corners, {errors[0][1]:.2f} off at first, are "
            f"{errors[-1][1]:.1g} off in the end, where sides have the length 2."
        ],
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------
# An environment map, learnt through reflections
# ---------------------------------------------------------------------------------------------


def sky(size: int) -> Tensor:
    """A cube map [1, 6, size, size, 3]: stripes and a sun, as a function of the direction."""
    s, t = torch.meshgrid(*[(torch.arange(size) + 0.5) / size * 2 - 1] * 2, indexing="xy")
    one = torch.ones_like(s)
    faces = [(one, -t, -s), (-one, -t, s), (s, one, t), (s, -one, -t), (s, -t, one), (-s, -t, -one)]
    x, y, z = torch.nn.functional.normalize(torch.stack([torch.stack(f) for f in faces]), dim=1
                                            ).unbind(1)  # fmt: skip
    stripes = 0.5 + 0.5 * torch.sign(torch.sin(12 * torch.atan2(x, z)) * torch.sin(9 * y))
    sun = torch.exp(40 * (0.6 * x + 0.7 * y + 0.39 * z - 1))
    return torch.stack([0.2 + 0.6 * stripes + sun, 0.5 + 0.3 * y + sun, 0.9 - 0.5 * stripes], -1)[
        None
    ]


def mirror(env: Tensor, turn: Tensor, mesh: Any, size: int, filtered: bool) -> Tensor:
    """A ball with waves that mirrors an environment."""
    vertices, normals = mesh.vertices, mesh.vertex_normals
    tri = mesh.faces.int()
    pos = clip_space(vertices, turn, 5.0)
    rast, rast_db = dr.rasterize(CONTEXT, pos, tri, (size, size))
    eye = torch.tensor([0.0, 0.0, 5.0]) @ turn  # [B, 3]
    view = torch.nn.functional.normalize(vertices - eye[:, None], dim=-1)
    reflected = view - 2 * (view * normals).sum(-1, keepdim=True) * normals
    way, way_da = dr.interpolate(reflected.contiguous(), rast, tri, rast_db, diff_attrs="all")
    mode = "linear-mipmap-linear" if filtered else "linear"
    color = dr.texture(env, way, way_da, filter_mode=mode, boundary_mode="cube")
    return torch.where(rast[..., 3:] > 0, color, 0.05)


def figure_environment() -> None:
    """A cube map from pictures of a mirror, with mipmaps and without."""
    torch.manual_seed(0)
    ball = icosphere(3)
    v = ball.vertices
    ball = ball.with_vertices(v * (1 + 0.06 * torch.sin(5 * v).sum(-1, keepdim=True)))
    truth, size, steps = sky(64), 32, 60
    turns = rotation(torch.randn(steps, 3, 4))
    targets, maps, errors = [], {}, {}
    with torch.no_grad():  # what pixels see: means of 3 x 3 finer ones
        for turn in turns:
            fine = mirror(truth, turn, ball, 3 * size, False)
            targets.append(fine.reshape(3, size, 3, size, 3, 3).mean((2, 4)))
    begin = time.process_time()
    for name, filtered in (("bilinear", False), ("mipmaps", True)):
        env = torch.full_like(truth, 0.5).requires_grad_()
        optimizer = torch.optim.Adam([env], lr=8e-2)
        for step, (turn, target) in enumerate(zip(turns, targets, strict=True)):
            optimizer.param_groups[0]["lr"] = 8e-2 * 0.1 ** (step / steps)
            loss = (mirror(env, turn, ball, size, filtered) - target).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        maps[name] = env.detach()
        errors[name] = -10 * math.log10((env - truth).square().mean().item())
    seconds = time.process_time() - begin
    figure, axes = plots(1, 4, (7, 1.9))
    show(axes[0], targets[0][0], "one of the pictures")
    for axis, (name, env) in zip(axes[1:], [*maps.items(), ("the truth", truth)], strict=True):
        cross = torch.ones(3 * 64, 4 * 64, 3)
        for face, (row, column) in enumerate([(1, 2), (1, 0), (0, 1), (2, 1), (1, 1), (1, 3)]):
            cross[64 * row : 64 * row + 64, 64 * column : 64 * column + 64] = env[0, face]
        show(axis, cross.flip(0), name)
    figure.tight_layout()
    save_plot(figure, "primitives_environment.png", 32)
    write_block(
        "primitives.md", "primitives-environment",
        [
            *table(
                ("lookups", "PSNR of the map, dB"),
                [(name, f"{error:.1f}") for name, error in errors.items()],
                1,
            ),
            "",
            f"Both together, {steps} steps of 3 pictures of {size} × {size} pixels each, take "
            f"{seconds:.0f} s of processor time.",
        ],
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------
# A pose, found from a picture
# ---------------------------------------------------------------------------------------------


def draw_sides(pos: Tensor, tri: Tensor, size: int) -> Tensor:
    """A cube with a colour for each side."""
    sides = torch.tensor([[1.0, 0.2, 0.2], [0.2, 0.8, 0.2], [0.2, 0.3, 1], [1, 0.9, 0.2],
                          [0.9, 0.3, 0.9], [0.2, 0.9, 0.9]]).repeat(2, 1)  # fmt: skip
    rast, _ = dr.rasterize(CONTEXT, pos, tri, (size, size))
    face = (rast[..., 3].long() - 1).clamp(min=0)
    color = sides[face] * (rast[..., 3:] > 0)
    return dr.antialias(color.contiguous(), rast, pos, tri)


def figure_pose() -> None:
    """The rotation of a cube: the best of random ones, then gradients of antialiasing."""
    torch.manual_seed(3)
    corners, tri = box()
    truth = rotation(torch.tensor([[0.3, -0.5, 0.7, 0.45]]))
    target = draw_sides(clip_space(corners, truth, 6.0), tri, 32)
    begin = time.process_time()
    many = torch.randn(2048, 4)
    with torch.no_grad():
        tried = draw_sides(clip_space(corners, rotation(many), 6.0), tri, 32)
        order = (tried - target).square().mean((1, 2, 3)).argsort()[:6]
    poses = torch.nn.functional.normalize(many[order], dim=-1).requires_grad_()
    steps: list[tuple[Tensor, Tensor, Tensor]] = []  # pictures, losses, poses
    optimizer = torch.optim.Adam([poses], lr=3e-2)
    for step in range(121):
        optimizer.param_groups[0]["lr"] = 3e-2 * 0.01 ** (step / 120)
        seen = draw_sides(clip_space(corners, rotation(poses), 6.0), tri, 32)
        losses = (seen - target).square().mean((1, 2, 3))
        if step in (0, 20, 120):
            steps.append((seen.detach(), losses.detach(), rotation(poses.detach())))
        optimizer.zero_grad()
        losses.sum().backward()
        optimizer.step()
    best = steps[-1][1].argmin()
    turns = torch.stack([found[best] for *_, found in steps]).double() @ truth[0].T.double()
    cosines = (turns.diagonal(dim1=-2, dim2=-1).sum(-1) - 1) / 2
    errors = cosines.clamp(-1, 1).acos().rad2deg().tolist()
    seconds = time.process_time() - begin
    figure, axes = plots(1, 4, (8, 2.3))
    show(axes[0], target[0], "the picture")
    titles = ("the start", "after 20 steps", "after 120 steps")
    for axis, (shots, *_), title, error in zip(axes[1:], steps, titles, errors, strict=True):
        show(axis, shots[best], f"{title}: {error:.2f}° off")
    figure.tight_layout()
    save_plot(figure, "primitives_pose.png", 32)
    write_block(
        "primitives.md", "primitives-pose",
        [
            f"Of 2048 random rotations the 6 whose pictures are nearest go on; the one that fits "
            f"best in the end was {errors[0]:.0f}° off and is {errors[-1]:.2f}° after 120 steps. "
            f"All of it takes {seconds:.0f} s of processor time."
        ],
    )  # fmt: skip


FIGURES = {"cube": figure_cube, "environment": figure_environment, "pose": figure_pose}

if __name__ == "__main__":
    main(__doc__, FIGURES)
