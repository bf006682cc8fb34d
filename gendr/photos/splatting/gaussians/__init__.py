"""Gaussians of 3D Gaussian Splatting: files that hold them, and triangles in their place.

`files.read_cloud` is the door for all formats.
"""
