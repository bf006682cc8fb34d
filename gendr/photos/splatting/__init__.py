"""Splatting: scenes of soft triangles, joined front to back, trained on photos.

    >>> train, held_out = load_photos("photos", size=200).split()
    >>> training = fit_splats(train, SplatSettings(budget=60.0), held_out=held_out)
    >>> splats = training.splats()
    >>> image, alpha = splats.render(held_out.camera, held_out.image_size)
    >>> fit_triangles(train, SplatSettings(budget=60.0), splats).mesh().save("scene.glb")

Triangle Splatting (Held et al., 3DV 2026), with any distribution for the window and any T-conorm.
"""

from gendr._common.names import lazily

__getattr__, __dir__, __all__ = lazily(globals())
