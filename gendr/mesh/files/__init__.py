"""Conversion of mesh files, and of meshes of other libraries, to and from plain parts."""
