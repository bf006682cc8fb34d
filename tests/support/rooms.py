"""Photos of a room with a wall and a floor, painted by formulas, and the depths that are true."""

import json

import numpy as np
from PIL import Image

SIZE = (72, 96)
FOCAL = 80.0
WALL, FLOOR = 4.0, 1.0  # z of the wall and y of the floor, y down


def cameras(count=5):
    """R [N, 3, 3], t [N, 3], K [3, 3] of a row of cameras that look at the wall."""
    height, width = SIZE
    K = np.array([[FOCAL, 0, (width - 1) / 2], [0, FOCAL, (height - 1) / 2], [0, 0, 1]])
    R, t = [], []
    for k in range(count):
        turn = -0.06 * (k - (count - 1) / 2)
        own = np.array(
            [[np.cos(turn), 0, -np.sin(turn)], [0, 1, 0], [np.sin(turn), 0, np.cos(turn)]]
        )
        R.append(own)
        t.append(-own @ np.array([0.25 * (k - (count - 1) / 2), 0.1 * (k % 2), 0.0]))
    return np.stack(R), np.stack(t), K


def seen(R, t, K):
    """Where rays of all pixels meet the room, [H, W, 3], and the depths there, [H, W]."""
    height, width = SIZE
    v, u = np.mgrid[:height, :width]
    rays = np.stack([u, v, np.ones_like(u)], -1) @ np.linalg.inv(K).T @ R
    eye = -R.T @ t
    with np.errstate(divide="ignore"):
        far = np.minimum(
            (WALL - eye[2]) / rays[..., 2],
            np.where(rays[..., 1] > 0, (FLOOR - eye[1]) / rays[..., 1], np.inf),
        )
    return eye + far[..., None] * rays, far


def painted(points):
    """uint8 [..., 3]: waves of many lengths, none of which repeats another."""
    x, y, z = np.moveaxis(points, -1, 0)
    grey = np.zeros(x.shape)
    dice = np.random.default_rng(3)
    for _ in range(40):
        a, b, c, phase = *dice.normal(0, 9, 3), dice.uniform(0, 6)
        grey += np.sin(a * x + b * y + c * z + phase)
    grey = 128 + 12 * grey
    return np.stack([grey, 0.9 * grey, 0.8 * grey + 20], -1).clip(0, 255).astype(np.uint8)


def photographs(folder, count=5, points=400, tracks=True):
    """Write the photos, cameras.json and points3D.txt; returns the true depths [N, H, W]."""
    R, t, K = cameras(count)
    images, depths = [], []
    for k in range(count):
        places, far = seen(R[k], t[k], K)
        Image.fromarray(painted(places)).save(folder / f"{k}.png")
        depths.append(far)
        images.append({
            "file": f"{k}.png", "width": SIZE[1], "height": SIZE[0], "R": R[k].tolist(),
            "t": t[k].tolist(), "K": (K + np.array([[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]])).tolist(),
        })  # fmt: skip
    places, _ = seen(R[count // 2], t[count // 2], K)
    dice = np.random.default_rng(0)
    chosen = places.reshape(-1, 3)[dice.choice(SIZE[0] * SIZE[1], points, replace=False)]
    said = " ".join(f"{k + 1} 0" for k in range(count)) if tracks else ""
    lines = [
        f"{p + 1} {x!r} {y!r} {z!r} 9 9 9 -1 {said}" for p, (x, y, z) in enumerate(chosen.tolist())
    ]
    (folder / "points3D.txt").write_text("\n".join(lines) + "\n")
    content = {"points": "points3D.txt", "images": images}
    (folder / "cameras.json").write_text(json.dumps(content))
    return np.stack(depths)
