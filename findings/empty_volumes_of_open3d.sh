#!/usr/bin/env bash
# Open3D 0.20.0, `ScalableTSDFVolume` of depth images, with the settings of its own tutorial.
# Expected: of a wall two metres ahead, depth 2 in each pixel, comes a mesh two metres ahead, as from
#   `UniformTSDFVolume` with the same image and camera.
# Seen: nothing: no triangle, no point, no voxel, whatever the depth, the length of voxels, the colours and the
#   size of blocks, without a word; Open3D 0.19 has 65536 corners. `UniformTSDFVolume` and `open3d.t`'s `VoxelBlockGrid` are right.
# Who meets it: who makes a mesh out of depth maps, as those of splats and of multi-view stereo.
. "$(dirname "$0")/environment"
packages open3d==0.20.0 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import numpy as np
import open3d as o3d

integration = o3d.pipelines.integration
size = 200
intrinsic = o3d.camera.PinholeCameraIntrinsic(size, size, 200.0, 200.0, size / 2 - 0.5, size / 2 - 0.5)
colours = integration.TSDFVolumeColorType.RGB8

def image(depth, scale):
    return o3d.geometry.RGBDImage.create_from_color_and_depth(
        o3d.geometry.Image(np.full((size, size, 3), 100, np.uint8)), o3d.geometry.Image(depth),
        depth_scale=scale, depth_trunc=10.0, convert_rgb_to_intensity=False)

images = {
    "metres": image(np.full((size, size), 2.0, np.float32), 1.0),
    "millimetres": image(np.full((size, size), 2000, np.uint16), 1000.0),
}
for name, one in images.items():
    cloud = o3d.geometry.PointCloud.create_from_rgbd_image(one, intrinsic)
    assert len(cloud.points) == size**2 and abs(np.asarray(cloud.points)[:, 2] - 2).max() == 0
    for voxel, cut in ((4 / 512, 0.04), (0.05, 0.2)):
        volume = integration.ScalableTSDFVolume(voxel, cut, colours)
        volume.integrate(one, intrinsic, np.eye(4))
        found = volume.extract_triangle_mesh(), volume.extract_voxel_point_cloud()
        print(f"depth in {name}, voxels of {voxel:.3f}: {len(found[0].triangles)} triangles")
        assert not len(found[0].triangles) and not len(found[1].points), "changed"
uniform = integration.UniformTSDFVolume(4.0, 80, 0.2, colours, origin=[[-2.0], [-2.0], [0.0]])
uniform.integrate(images["metres"], intrinsic, np.eye(4))
corners = np.asarray(uniform.extract_triangle_mesh().vertices)
print("UniformTSDFVolume:", len(corners), "corners", abs(corners[:, 2] - 2).max(), "off")
assert len(corners) > 1000 and abs(corners[:, 2] - 2).max() < 0.01
PY
