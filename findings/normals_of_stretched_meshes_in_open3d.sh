#!/usr/bin/env bash
# Open3D 0.20.0, `transform` of a mesh or a cloud of points with normals by a matrix that stretches; the same
#   by `open3d.t`.
# Expected: normals stay at right angles to the surface and keep the length 1, for which they are multiplied by
#   the inverse transpose (as trimesh's and VTK's are), or are left out.
# Seen: they are multiplied by the matrix itself: for a ball stretched by 5 up to 67 degrees off, and up to
#   5 long, without a word. Turns and shifts are right. `compute_vertex_normals` afterwards helps for meshes.
# Who meets it: who brings a cloud or a mesh to other proportions and then lights it, renders its normals or
#   makes a surface out of it.
. "$(dirname "$0")/environment"
packages open3d==0.20.0 trimesh==5.2.0 scipy==1.17.1 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import numpy as np
import open3d as o3d
import trimesh

stretch = np.diag([1.0, 1, 5, 1])
ball = trimesh.creation.icosphere(subdivisions=4)
normals = ball.vertices  # of a ball about 0
right = normals / [1, 1, 5]
right /= np.linalg.norm(right, axis=1, keepdims=True)

def off(found):
    length = np.linalg.norm(found, axis=1)
    cosine = (found * right).sum(1) / length
    return np.degrees(np.arccos(cosine.clip(-1, 1))).max(), length.min(), length.max()

mesh = o3d.geometry.TriangleMesh(
    o3d.utility.Vector3dVector(ball.vertices), o3d.utility.Vector3iVector(ball.faces))
mesh.vertex_normals = o3d.utility.Vector3dVector(normals)
cloud = o3d.geometry.PointCloud(mesh.vertices)
cloud.normals = mesh.vertex_normals
other = o3d.t.geometry.TriangleMesh.from_legacy(mesh)
found = {
    "mesh": np.asarray(mesh.transform(stretch).vertex_normals),
    "cloud": np.asarray(cloud.transform(stretch).normals),
    "open3d.t": other.transform(stretch).vertex.normals.numpy(),
}
for name, values in found.items():
    angle, least, most = off(values)
    print(f"{name}: up to {angle:.0f} degrees off, lengths from {least:.1f} to {most:.1f}")
    assert angle > 60 and most > 4.9, "changed"
beside = trimesh.Trimesh(ball.vertices, ball.faces, vertex_normals=normals, process=False)
beside.apply_transform(stretch)
assert off(beside.vertex_normals)[0] < 1
mesh.compute_vertex_normals()
assert off(np.asarray(mesh.vertex_normals))[0] < 5
PY
