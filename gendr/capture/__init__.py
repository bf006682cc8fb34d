"""From photographs alone to what fits need: cameras, by COLMAP's package pycolmap."""

from gendr.capture.cameras import FoundCameras, find_cameras

__all__ = ["FoundCameras", "find_cameras"]
