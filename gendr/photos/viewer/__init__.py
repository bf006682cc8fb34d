"""A page in the browser to look at meshes, photos, fits and splats, and to turn them: `gendr view`.

>>> from gendr.photos.viewer import Subject, Viewer
>>> viewer = Viewer(Subject("a teapot", meshes=(("", mesh),)))
>>> print(viewer.url)

It needs viser (`pip install '.[view]'` in the repository), which is imported with the first viewer.
"""

from gendr.photos.viewer.subject import Subject, read_subject
from gendr.photos.viewer.window import Viewer

__all__ = ["Subject", "Viewer", "read_subject"]
