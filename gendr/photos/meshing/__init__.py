"""Meshes of photographed objects: hulls, remeshing, simplification, charts."""
