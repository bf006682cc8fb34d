#!/usr/bin/env bash
# VTK 9.7.2 and PyVista 0.49.1, the surface of a volume whose axes are turned (`direction_matrix`, as of
# scans in MetaImage, NRRD and DICOM), by `contour` at its default and by two other methods.
# Expected: the same surface, where the points of the image are. `threshold`, `sample` and gradients are there.
# Seen: `contour` (vtkContourFilter, vtkSynchronizedTemplates3D) leaves the axes out, without a word: a
#   ball is elsewhere, turned by 90° about the origin. vtkMarchingCubes and vtkFlyingEdges3D heed them.
#   vtkImageToPoints, vtkStructuredPointsWriter and vtkNIFTIImageWriter leave them out as well.
# Who meets it: meshes out of CT and MRI: turned, or mirrored where the axes are left-handed.
. "$(dirname "$0")/environment"
packages vtk==9.7.2 pyvista==0.49.1 numpy==2.4.6
python -W ignore - <<'PY'
import numpy as np
import pyvista
import vtk

image = pyvista.ImageData(dimensions=(21, 21, 21), spacing=(0.5, 0.5, 0.5), origin=(10, 20, 30))
image.direction_matrix = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
middle = np.array([7, 24, 36])
image["distance"] = np.linalg.norm(image.points - middle, axis=1)
assert (image.points.min(0) < middle).all() and (image.points.max(0) > middle).all()
inside = image.threshold([0, 2.0]).points
print("points within 2 of", middle, "have their mean at", inside.mean(0))

def of(filter):
    filter.SetInputData(image)
    filter.SetValue(0, 2.0)
    filter.Update()
    return pyvista.wrap(filter.GetOutput())

surfaces = {
    "contour": image.contour([2.0]), "marching cubes": image.contour([2.0], method="marching_cubes"),
    "flying edges": image.contour([2.0], method="flying_edges"), "vtkContourFilter": of(vtk.vtkContourFilter()),
}
off = {name: np.linalg.norm(surface.points.mean(0) - middle) for name, surface in surfaces.items()}
print({name: np.round(surface.points.mean(0), 2).tolist() for name, surface in surfaces.items()})
assert off["marching cubes"] < 0.05 and off["flying edges"] < 0.05
assert off["contour"] > 5 and off["vtkContourFilter"] > 5, "changed"

writer = vtk.vtkNIFTIImageWriter()
writer.SetInputData(image)
writer.SetFileName("a.nii")
writer.Write()
back = pyvista.read("a.nii")
print("NIfTI comes back with", back.direction_matrix.tolist(), "and its origin at", back.origin)
assert np.allclose(back.direction_matrix, np.eye(3)), "changed"
PY
