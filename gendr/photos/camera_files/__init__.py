"""The files that say how images of a folder were taken: transforms, COLMAP, OpenCV matrices."""
