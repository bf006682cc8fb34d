"""Conversion of mesh files, and of trimesh objects, to and from plain parts."""
