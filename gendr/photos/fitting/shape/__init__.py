"""Fitting the shape of a mesh: to silhouettes by `fit`, then to photos by `refine_shape`."""
