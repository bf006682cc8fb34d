"""The application: from photographs to cameras, masks, meshes, colours, poses, scenes and splats.

It stands on the library (`gendr.Renderer`, `gendr.mesh`, `gendr.primitives`, …) and nothing of the
library imports it.
"""

from typing import TYPE_CHECKING

from gendr._common.names import lazily

if TYPE_CHECKING:
    from gendr.photos import capture, fitting, splatting, viewer
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
    "Remeshed",
    "Views",
    "capture",
    "fitting",
    "load_points",
    "load_views",
    "remesh",
    "save_views",
    "splatting",
    "unwrapped",
    "view_sizes",
    "view_volume",
    "viewer",
    "visual_hull",
    "visual_sphere",
]

_MODULES = {
    "gendr.photos": ("capture", "fitting", "splatting", "viewer"),
    "gendr.photos.meshing.hull": ("visual_hull",),
    "gendr.photos.meshing.remeshing": ("Remeshed", "remesh"),
    "gendr.photos.meshing.unwrapping": ("unwrapped",),
    "gendr.photos.views": (
        "Views",
        "load_points",
        "load_views",
        "save_views",
        "view_sizes",
        "view_volume",
        "visual_sphere",
    ),
}
__getattr__, __dir__ = lazily(globals(), _MODULES)
