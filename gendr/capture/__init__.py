"""From photographs alone to what fits need: cameras, by COLMAP's package pycolmap, and masks."""

from gendr.capture.cameras import FoundCameras, find_cameras
from gendr.capture.video import extract_frames
from gendr.mesh.masks import find_masks

__all__ = ["FoundCameras", "extract_frames", "find_cameras", "find_masks"]
