"""Rendering on the CPU: kernels that Numba compiles, and their autograd functions."""
