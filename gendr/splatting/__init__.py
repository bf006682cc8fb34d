"""Splatting: scenes of soft triangles, joined front to back, trained on photos.

    >>> train, held_out = load_photos("photos", size=200).split()
    >>> splats = from_hull(train, 10_000)
    >>> image, alpha = splats.render(held_out.camera, held_out.image_size)

Triangle Splatting (Held et al., 3DV 2026), with any law for the window and any T-conorm.
"""

from typing import TYPE_CHECKING

from gendr._runtime.names import lazily

if TYPE_CHECKING:
    from gendr.splatting.harmonics import colors_of
    from gendr.splatting.photos import Photos, load_photos
    from gendr.splatting.splats import Splats
    from gendr.splatting.start import Look, from_cameras, from_hull, from_mesh, from_points

__all__ = [
    "Look", "Photos", "Splats", "colors_of", "from_cameras", "from_hull", "from_mesh",
    "from_points", "load_photos",
]  # fmt: skip

_MODULES = {
    "gendr.splatting.harmonics": ("colors_of",),
    "gendr.splatting.photos": ("Photos", "load_photos"),
    "gendr.splatting.splats": ("Splats",),
    "gendr.splatting.start": ("Look", "from_cameras", "from_hull", "from_mesh", "from_points"),
}
__getattr__, __dir__ = lazily(globals(), _MODULES)
