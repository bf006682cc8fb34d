"""Meshes, their files, and the cameras that look at them."""

from gendr.mesh.cameras import (
    Camera,
    axis_angle_to_matrix,
    look_at,
    look_from,
    rotation_6d_to_matrix,
    rotation_angle_between,
)
from gendr.mesh.examples import example, example_file, example_names
from gendr.mesh.files.textures import load_texture
from gendr.mesh.lighting import Lighting
from gendr.mesh.mesh import Mesh
from gendr.mesh.quality import mesh_quality
from gendr.mesh.shapes import cube, cube_sphere, grid, icosphere
from gendr.photos.meshing.hull import visual_hull
from gendr.photos.meshing.remeshing import Remeshed, remesh
from gendr.photos.meshing.unwrapping import unwrapped
from gendr.photos.views import (
    Views,
    load_points,
    load_views,
    save_views,
    view_sizes,
    view_volume,
    visual_sphere,
)

__all__ = [
    "Camera",
    "Lighting",
    "Mesh",
    "Remeshed",
    "Views",
    "axis_angle_to_matrix",
    "cube",
    "cube_sphere",
    "example",
    "example_file",
    "example_names",
    "grid",
    "icosphere",
    "load_points",
    "load_texture",
    "load_views",
    "look_at",
    "look_from",
    "mesh_quality",
    "remesh",
    "rotation_6d_to_matrix",
    "rotation_angle_between",
    "save_views",
    "unwrapped",
    "view_sizes",
    "view_volume",
    "visual_hull",
    "visual_sphere",
]
