"""Mesh files, and the objects of the library that reads most of them, as plain parts."""
