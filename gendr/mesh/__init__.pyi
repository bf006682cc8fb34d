# pyright: reportUnusedImport=false, reportIncompleteStub=false
import typing

from gendr.mesh.cameras import Camera as Camera
from gendr.mesh.cameras import look_at as look_at
from gendr.mesh.cameras import look_from as look_from
from gendr.mesh.examples import example as example
from gendr.mesh.examples import example_file as example_file
from gendr.mesh.examples import example_names as example_names
from gendr.mesh.files.textures import load_texture as load_texture
from gendr.mesh.lighting import Lighting as Lighting
from gendr.mesh.mesh import Mesh as Mesh
from gendr.mesh.quality import mesh_quality as mesh_quality
from gendr.mesh.rotations import axis_angle_to_matrix as axis_angle_to_matrix
from gendr.mesh.rotations import rotation_6d_to_matrix as rotation_6d_to_matrix
from gendr.mesh.rotations import rotation_angle_between as rotation_angle_between
from gendr.mesh.shapes import cube as cube
from gendr.mesh.shapes import cube_sphere as cube_sphere
from gendr.mesh.shapes import grid as grid
from gendr.mesh.shapes import icosphere as icosphere

# What reads photographs and shapes meshes of them lives in `gendr.photos`, above; users write
# `gendr.mesh.load_views` and the like.
from gendr.photos import (
    Remeshed,
    Views,
    load_points,
    load_views,
    remesh,
    save_views,
    unwrapped,
    view_sizes,
    visual_hull,
    visual_sphere,
)

def __getattr__(name: str) -> typing.Any: ...
