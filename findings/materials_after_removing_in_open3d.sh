#!/usr/bin/env bash
# Open3D 0.20.0, `remove_triangles_by_mask`, `remove_triangles_by_index` and `remove_vertices_by_index` of a
#   mesh with several textures.
# Expected: what each triangle has goes with it: its corners' UVs and its material, as `select_by_index` and
#   `crop` do; or a warning, as `remove_duplicated_triangles` gives.
# Seen: UVs follow, `triangle_material_ids` stay as long as they were and in their places, so that triangles
#   have the materials of others, without a word. A sum of two meshes has UVs and no materials.
# Who meets it: who cuts the ground or a blob away from a scan with several texture images.
. "$(dirname "$0")/environment"
packages open3d==0.20.0 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import numpy as np
import open3d as o3d

def box():
    """Triangle i has i as the u of its corners, and the material i."""
    mesh = o3d.geometry.TriangleMesh.create_box()
    mesh.triangle_uvs = o3d.utility.Vector2dVector(np.repeat(np.arange(12.0), 3)[:, None] * [1, 0])
    mesh.triangle_material_ids = o3d.utility.IntVector(range(12))
    return mesh

def what(mesh):
    return [int(u) for u in np.asarray(mesh.triangle_uvs)[::3, 0]], list(mesh.triangle_material_ids)

masked, indexed, without = box(), box(), box()
masked.remove_triangles_by_mask([True] * 3 + [False] * 9)
indexed.remove_triangles_by_index([0, 1, 2])
without.remove_vertices_by_index([0])
for name, mesh in (("by mask", masked), ("by index", indexed), ("by vertex", without)):
    uvs, materials = what(mesh)
    print(f"{name}: triangles {uvs} have the materials {materials}")
    assert len(uvs) == len(mesh.triangles) == 9, "changed"
    assert materials == list(range(12)), "changed"
uvs, materials = what(box().select_by_index([0, 1, 2, 3, 4, 5]))
assert uvs == materials and len(uvs) == 5
uvs, materials = what(box() + box())
print("a sum:", len(uvs), "triangles with UVs,", len(materials), "with materials")
assert len(uvs) == 24 and not materials, "changed"
PY
