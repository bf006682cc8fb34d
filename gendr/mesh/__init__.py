"""Meshes, their files, and the cameras that look at them."""

from gendr._common.names import lazily
from gendr.mesh.cameras import Camera, look_at, look_from
from gendr.mesh.examples import example, example_file, example_names
from gendr.mesh.files.textures import load_texture
from gendr.mesh.lighting import Lighting
from gendr.mesh.mesh import Mesh
from gendr.mesh.quality import mesh_quality
from gendr.mesh.rotations import (
    axis_angle_to_matrix,
    rotation_6d_to_matrix,
    rotation_angle_between,
)
from gendr.mesh.shapes import cube, cube_sphere, grid, icosphere

__all__ = [
    "Camera",
    "Lighting",
    "Mesh",
    "axis_angle_to_matrix",
    "cube",
    "cube_sphere",
    "example",
    "example_file",
    "example_names",
    "grid",
    "icosphere",
    "load_texture",
    "look_at",
    "look_from",
    "mesh_quality",
    "rotation_6d_to_matrix",
    "rotation_angle_between",
]

# What reads photographs and shapes meshes of them lives in `gendr.photos`, above; here users write
# `gendr.mesh.load_views` and the like.
_ABOVE = {
    "gendr.photos": (
        "Remeshed",
        "Views",
        "load_points",
        "load_views",
        "remesh",
        "save_views",
        "unwrapped",
        "view_sizes",
        "view_volume",
        "visual_hull",
        "visual_sphere",
    )
}
__getattr__, *_ = lazily(globals(), _ABOVE)
