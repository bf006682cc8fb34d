"""From photographs alone to what fits need: cameras, by COLMAP's package pycolmap, and masks."""

from gendr.photos.capture.cameras import FoundCameras, find_cameras
from gendr.photos.masks import find_masks

__all__ = ["FoundCameras", "find_cameras", "find_masks"]
