#!/usr/bin/env bash
# PyVista 0.49.1 (VTK 9.7.2), `flip_x`, `reflect`, and `scale` by −1 of a closed mesh.
# Expected: a closed mesh that still looks outwards, as `mirror` of vedo 2026.6.3, trimesh and Blender
#   ("apply scale") give; normals and faces that agree.
# Seen: the order of the corners stays, so that all faces look inwards, while the normals of the points are
#   mirrored right and look outwards. `volume` is positive all the same, and a file (STL, PLY) is inside out.
# Who meets it: the other half of a symmetric part; signed distances, booleans and printing of it.
. "$(dirname "$0")/environment"
packages vtk==9.7.2 pyvista==0.49.1 vedo==2026.6.3 trimesh==5.2.0 numpy==2.4.6
python -W ignore - <<'PY'
import numpy as np
import pyvista
import trimesh
import vedo

def signed_volume(points, faces):
    return np.linalg.det(np.asarray(points, np.float64)[np.asarray(faces)]).sum() / 6

ball = pyvista.Sphere(center=(1, 0, 0))
whole = signed_volume(ball.points, ball.regular_faces)
made = {"flip_x": ball.flip_x(), "reflect": ball.reflect((1, 0, 0)), "scale": ball.scale((-1, 1, 1))}
for name, mesh in made.items():
    outwards = ((mesh.point_data["Normals"] * (mesh.points - mesh.points.mean(0))).sum(1) > 0).mean()
    volume = signed_volume(mesh.points, mesh.regular_faces)
    print(f"{name}: volume {volume:.3f} ({mesh.volume:.3f} by PyVista), {outwards:.0%} of the normals outwards")
    assert abs(volume + whole) < 1e-5 and mesh.volume > 0 and outwards == 1, "changed"
made["flip_x"].save("a.stl")
print("read from STL by trimesh:", trimesh.load("a.stl").volume)
assert trimesh.load("a.stl").volume < -0.5, "changed"
mirrored = vedo.Sphere().mirror("x")
assert signed_volume(mirrored.vertices, mirrored.cells) > 0
PY
