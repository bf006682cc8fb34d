"""Splatting: scenes of soft triangles, joined front to back, trained on photos.

    >>> train, held_out = load_photos("photos", size=200).split()
    >>> training = fit_splats(train, SplatSettings(budget=60.0), held_out=held_out)
    >>> splats = training.splats()
    >>> image, alpha = splats.render(held_out.camera, held_out.image_size)
    >>> fit_triangles(train, SplatSettings(budget=60.0), splats).mesh().save("scene.glb")

Triangle Splatting (Held et al., 3DV 2026), with any law for the window and any T-conorm.
"""

from typing import TYPE_CHECKING

from gendr._common.names import lazily

if TYPE_CHECKING:
    from gendr.photos.splatting.gaussians.cloud import Cloud
    from gendr.photos.splatting.gaussians.files import read_cloud
    from gendr.photos.splatting.hard import HardTraining, fit_triangles
    from gendr.photos.splatting.harmonics import colors_of
    from gendr.photos.splatting.path import camera_path
    from gendr.photos.splatting.photos import Photos, load_photos
    from gendr.photos.splatting.settings import SplatSettings
    from gendr.photos.splatting.splats import Splats
    from gendr.photos.splatting.start import (
        Look,
        from_cameras,
        from_cloud,
        from_hull,
        from_mesh,
        from_points,
        from_surface,
    )
    from gendr.photos.splatting.training import SplatTraining, fit_splats, start_from

__all__ = [
    "Cloud", "HardTraining", "Look", "Photos", "SplatSettings", "SplatTraining", "Splats",
    "camera_path", "colors_of", "fit_splats", "fit_triangles", "from_cameras", "from_cloud",
    "from_hull", "from_mesh", "from_points", "from_surface", "load_photos", "read_cloud",
    "start_from",
]  # fmt: skip

_MODULES = {
    "gendr.photos.splatting.gaussians.cloud": ("Cloud",),
    "gendr.photos.splatting.gaussians.files": ("read_cloud",),
    "gendr.photos.splatting.hard": ("HardTraining", "fit_triangles"),
    "gendr.photos.splatting.harmonics": ("colors_of",),
    "gendr.photos.splatting.path": ("camera_path",),
    "gendr.photos.splatting.photos": ("Photos", "load_photos"),
    "gendr.photos.splatting.settings": ("SplatSettings",),
    "gendr.photos.splatting.splats": ("Splats",),
    "gendr.photos.splatting.start": (
        "Look",
        "from_cameras",
        "from_cloud",
        "from_hull",
        "from_mesh",
        "from_points",
        "from_surface",
    ),
    "gendr.photos.splatting.training": ("SplatTraining", "fit_splats", "start_from"),
}
__getattr__, __dir__ = lazily(globals(), _MODULES)
