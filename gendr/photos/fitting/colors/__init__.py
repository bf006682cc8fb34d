"""Fitting the colours of a mesh whose shape is known, from photos."""
