#!/usr/bin/env bash
# point-cloud-utils 0.34.0 answers for one point, or one ray, with another mesh.
# Expected: the answer for a point does not depend on how many are asked for: from (0.5, 0.2, 0.1) to
#   the unit sphere it is -0.452 (less by faces and by the fast sum, -0.449).
# Seen: +0.002 for the point alone, -0.449 twice for the same point twice. An array of one row is
#   both row-major and column-major; column-major is taken, and vertices and faces, which are
#   row-major, are then read as if they were so too. Neighbours, closest points, the distances of
#   Chamfer and Hausdorff and rays as well. With two points of different orders it raises an error.
# Who meets it: loops over query points, the last batch of a data loader, one ray from a mouse click.
. "$(dirname "$0")/environment"
packages point-cloud-utils==0.34.0 trimesh==5.2.0 numpy==2.4.6 scipy==1.17.1
python - <<'PY'
import numpy as np
import point_cloud_utils as pcu
import trimesh

ball = trimesh.creation.icosphere(3)
v, f = np.array(ball.vertices), np.array(ball.faces, np.int64)
one = np.array([[0.5, 0.2, 0.1]])
two, ahead = one.repeat(2, 0), np.array([[1.0, 0, 0]])
asked = {
    "signed distance": lambda p: pcu.signed_distance_to_mesh(p, v, f)[0],
    "distance to the closest point": lambda p: pcu.closest_points_on_mesh(p, v, f)[0],
    "nearest vertex": lambda p: pcu.k_nearest_neighbors(p, v, 1)[0],
    "Hausdorff": lambda p: pcu.one_sided_hausdorff_distance(p, v)[0],
    "ray": lambda p: pcu.ray_mesh_intersection(v, f, p, ahead.repeat(len(p), 0))[2],
}
truth = {
    "signed distance": trimesh.proximity.closest_point_naive(ball, one)[1][0] * -1,
    "distance to the closest point": trimesh.proximity.closest_point_naive(ball, one)[1][0],
    "nearest vertex": np.linalg.norm(v - one, axis=1).min(),
    "Hausdorff": np.linalg.norm(v - one, axis=1).min(),
    "ray": np.sqrt(1 - 0.05) - 0.5,
}
for name, ask in asked.items():
    alone, again = float(np.ravel(ask(one))[0]), float(np.ravel(ask(two))[0])
    print(f"{name}: {truth[name]:.4f}; of two points {again:.4f}, of one {alone:.4f}")
    assert abs(again - truth[name]) < 0.01 < 0.02 < abs(alone - truth[name])
PY
