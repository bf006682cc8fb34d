"""Compiled kernels of the top-k functions; without them, plain torch computes the same."""
