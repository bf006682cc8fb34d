#!/usr/bin/env bash
# Open3D 0.20.0: the depth of a plane by `RaycastingScene.create_rays_pinhole`, and points of that depth
# by `PointCloud.create_from_depth_image`, with one camera matrix.
# Expected: the points lie on the plane.
# Seen: they are half a pixel off to the left and up: rays go through the place
#   (i + 1/2, j + 1/2) of a pixel, points are taken from (i, j). With cx and cy less by 1/2 they are right
#   to 1e-5 m. The legacy and the tensor class do the same.
# Who meets it: whoever draws depth to try a fusion, or gives matrices of COLMAP, nerfstudio or gsplat,
#   whose first pixel is at 1/2, to points or to a TSDF: surfaces move to the side by half a pixel.
. "$(dirname "$0")/environment"
packages open3d==0.20.0 numpy==2.4.6
python -W ignore - <<'PY'
import numpy as np
import open3d as o3d
from open3d.core import Tensor

wide, tall, depth_of_plane = 64, 48, 2.0
k = np.array([[32.0, 0, 32], [0, 32, 24], [0, 0, 1]])
corners = np.array([[-9, -9, 1.1], [9, -9, 1.1], [9, 9, 2.9], [-9, 9, 2.9]], np.float32)  # z = 2 + y / 10
scene = o3d.t.geometry.RaycastingScene()
scene.add_triangles(Tensor(corners), Tensor(np.array([[0, 1, 2], [0, 2, 3]], np.uint32)))
rays = scene.create_rays_pinhole(k, np.eye(4), wide, tall)
towards = rays.numpy()[..., 3:]
depth = (scene.cast_rays(rays)["t_hit"].numpy() * towards[..., 2]).astype(np.float32)


def points(shift: float, legacy: bool) -> np.ndarray:
    moved = k.copy()
    moved[:2, 2] -= shift
    if legacy:
        camera = o3d.camera.PinholeCameraIntrinsic(wide, tall, moved)
        image = o3d.geometry.Image(depth)
        made = o3d.geometry.PointCloud.create_from_depth_image(image, camera, depth_scale=1.0)
        return np.asarray(made.points)
    image = o3d.t.geometry.Image(Tensor(depth))
    made = o3d.t.geometry.PointCloud.create_from_depth_image(
        image, Tensor(moved), depth_scale=1.0, depth_max=100.0
    )
    return made.point.positions.numpy()


hits = (towards * depth[..., None]).reshape(-1, 3)  # where the rays met the plane
first = towards[0, 0, :2] * k[[0, 1], [0, 1]] + k[:2, 2]
for legacy in (True, False):
    off, kept = (np.abs(points(shift, legacy) - hits)[:, 0] for shift in (0.0, 0.5))
    off = (off / hits[:, 2] * k[0, 0]).round(4)
    print(f"legacy {legacy}: pixels off {off.min()} to {off.max()}; with cx - 1/2 metres off {kept.max():.1e}")
    assert np.allclose(off, 0.5, atol=1e-3), "changed"
    assert kept.max() < 1e-5, "changed"
print("the first ray goes through the pixel", first.round(4))
assert np.allclose(first, 0.5, atol=1e-5), "changed"
PY
